"""Jobs and the passes over their data: jobs, plans, engines, and what each pass does with a block.

It imports core, operator, text and formats, and knows neither the command line nor the console: a pass reports how far
it is to a function that it is given, and raises errors. `commands` calls it. The names here are those of options.
"""

SERIAL, PROCESSES, DASK = ENGINES = "serial", "processes", "dask"
AUTO = "auto"
DEFAULT_MEMORY = 1 << 30  # bytes

# The axis and the batch axis that other systems have by default.
SYSTEMS = {
    "onnx": (0, 1),  # time_axis and batch_axis of ReverseSequence, in all versions of its schema
    "tensorflow": (1, 0),  # the layout of its layers; tf.reverse_sequence has batch_axis=0
    "pytorch": (0, 1),  # torch.nn.utils.rnn without batch_first
}
