"""Tensors in files: one contract (`contract`), one table (`table`), one module or package for each format.

It may import core and text, and knows neither the operator, nor the axis, nor options. `pipeline` and `commands` open
and create tensors through `references`, which finds the format of each. `file_io` and `atomic_file` read and write
files.
"""
