"""The base of all wings: errors, signals, memory, worker processes, and the data types and sizes of tensors.

It imports no other wing, and knows no file format, no option and no console. `operator` adds DirectML's rules to it.
"""
