"""The engines: what carries out the blocks of a pass. Each is one row of `table` and one module with `crew`.

`crew(arrangement)` is a context that gives the workers; it loads what it needs (sockets, dask) when it is called.
"""
