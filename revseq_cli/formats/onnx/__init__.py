"""ONNX: a tensor in a .pb file, which is a TensorProto, nodes of models, and the test data of ONNX's operators.

`source` finds the fields of a tensor and reads its elements in place, which may be in a file of their own. `models`
parses a model once, by the package onnx, an extra, finds its nodes, and makes what other programs get of it. `testdata`
finds the tensors that test one.
The table names `format`, which is loaded when a file needs it, and also writes a tensor.
"""
