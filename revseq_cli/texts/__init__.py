"""Tensors and jobs as text: numbers, the bracket notation, examples, models. It imports ground and operator."""
