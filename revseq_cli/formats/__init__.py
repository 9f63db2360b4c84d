"""Tensors in files: one contract (`contract`), one table (`table`), one module or package for each format.

It imports ground and texts, and knows neither the operator, nor the axis, nor options. `registry` opens and creates
tensors for `passes` and `commands`; `storage` has the files as the system knows them.
"""
