"""Jobs elsewhere, and wrong outputs: ONNX Runtime, models for DxDispatch, and what explains an output that is wrong.

It imports core, operator, text, formats and pipeline.
"""
