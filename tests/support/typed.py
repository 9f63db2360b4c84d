"""What a type checker knows of the functions for Python programs: mypy reads this file, and nothing runs it."""

from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import revseq_cli

VALUES: NDArray[np.float32] = np.zeros((2, 3), np.float32)
assert_type(revseq_cli.explain(VALUES, VALUES, [1, 2], 1, rtol=1e-3, equal_nan=True).differing, int)
assert_type(
    [each.text for each in revseq_cli.explain(VALUES, VALUES, [1, 2], 1).mistakes], list[str]
)
assert_type([each.found for each in revseq_cli.violations(VALUES, [1, 2], 1)], list[str])
