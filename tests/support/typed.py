"""What a type checker knows of the functions for Python programs: mypy reads this file, and nothing runs it."""

from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import revseq_cli


class Tensor:
    """A tensor of another package."""

    def __array__(self) -> NDArray[np.int8]:
        return np.zeros(4, np.int8)


VALUES: NDArray[np.float32] = np.zeros((2, 3), np.float32)
assert_type(revseq_cli.reverse_subsequences(VALUES, [1, 2], 1, batch_axis=0), NDArray[np.float32])
assert_type(revseq_cli.reverse_subsequences(VALUES, Tensor(), like="onnx", out=VALUES), NDArray[np.float32])
assert_type(revseq_cli.reverse_subsequences(Tensor(), VALUES, 1), NDArray[np.int8])
assert_type(revseq_cli.reverse_subsequences(VALUES, VALUES, 1, mask=True), NDArray[np.float32])
assert_type(revseq_cli.explain(VALUES, VALUES, [1, 2], 1, rtol=1e-3, equal_nan=True).reading, str)
assert_type([mistake.text for mistake in revseq_cli.explain(VALUES, VALUES, [1, 2], 1).mistakes], list[str])
