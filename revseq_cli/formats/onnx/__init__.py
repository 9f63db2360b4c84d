"""ONNX: a tensor in a .pb file, which is a TensorProto, and the test data of ONNX's operators.

`wire` finds the fields of a message, so that elements are read in place; the package onnx, an extra, parses the rest.
`source` reads a tensor, whose elements may be in a file of their own, `testdata` a model with the tensors that test it.
The table names `format`, which is loaded when a file needs it, and also writes a tensor.
"""
