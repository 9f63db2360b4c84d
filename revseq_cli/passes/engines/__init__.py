"""The engines, which run the tasks of a pass. Each is one row of `table` and one module with `crew`.

`crew(arrangement)` is a context that gives the workers. A module is loaded only for use: it may need sockets or dask.
"""
