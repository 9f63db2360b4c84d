"""Tensors and jobs as text: numbers, the bracket notation and its printing, examples, JSON, DxDispatch's models.

It imports core and operator, takes and gives strings and arrays, and opens no file. `formats` reads and writes the
files that hold such texts.
"""
