"""Jobs and the passes over their data: jobs, plans, engines, and what each pass does with a block.

It imports core, operator, text and formats, and knows neither the command line nor the console: a pass reports how far
it is to a function that it is given, and raises errors. `commands` calls it. The names here are those of options.
"""

SERIAL, PROCESSES, DASK = ENGINES = "serial", "processes", "dask"
AUTO = "auto"
DEFAULT_MEMORY = 1 << 30  # bytes
