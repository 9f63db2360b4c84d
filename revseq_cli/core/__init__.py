"""What all packages stand on: errors, signals, memory, processes, and the data types and sizes of tensors.

It imports no other package, and knows no file format, no option and no console.
"""
