"""The engines, which run the tasks of a pass. Each is one row of `table` and one class of workers: a `Crew`.

`crew` has those of this machine, and `cluster` has dask's. Both are loaded only for use: dask may be missing.
"""
