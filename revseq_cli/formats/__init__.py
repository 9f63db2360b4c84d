"""Tensors in files: one contract, one table, one module or package for each format. It imports ground and texts."""
