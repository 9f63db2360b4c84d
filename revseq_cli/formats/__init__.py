"""Tensors in files: one contract (`contract`), one table (`table`), one module or package for each format.

It may import ground and texts, and knows neither the operator, nor the axis, nor options. `passes` and `commands` open
and create tensors through `registry`. `storage` reads and writes files, `references` finds the format of each.
"""
