"""ONNX: a tensor in a .pb file, which is a TensorProto, nodes of models, and the test data of ONNX's operators.

`wire` finds the fields of a message, so that elements are read in place; the package onnx, an extra, parses the rest.
`source` reads a tensor, whose elements may be in a file of their own, `graphs` the names in a model, and `testdata`
finds the tensors that test one. The table names `format`, which is loaded when a file needs it, and also writes a
tensor.
"""
