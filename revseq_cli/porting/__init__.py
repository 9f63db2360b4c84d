"""Jobs in ONNX Runtime, and what explains an output that is wrong.

It imports core, operator, text, formats and pipeline.
"""
