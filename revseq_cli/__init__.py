"""DirectML's operator DML_REVERSE_SUBSEQUENCES for NumPy arrays; the command `revseq` does it for tensor files.

>>> import numpy as np, revseq_cli
>>> revseq_cli.reverse_subsequences(np.arange(1, 9).reshape(2, 4), np.array([[3], [0]], np.uint32), axis=1)
array([[3, 2, 1, 4],
       [5, 6, 7, 8]])
"""

from __future__ import annotations

# The command begins here, too: what is imported now is time in which Python answers a signal with a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

    from revseq_cli.operator.spec import Constraint

__version__ = "0.1.0"
__all__ = ["reverse_subsequences", "violations"]


def reverse_subsequences(values: NDArray[Any], lengths: NDArray[np.unsignedinteger[Any]], axis: int) -> NDArray[Any]:
    """A copy of `values` in which the first `length` elements of each line along `axis` are reversed.

    `values` has shape (d0, ..., dn), 1 to 64 dimensions, no size of 0, and any integer, float, complex or bool dtype in
    either byte order, or bfloat16 and the floats of 8 bits of ml_dtypes. `lengths` is unsigned, with the same shape
    except 1 along `axis`: one length, counted in elements, for every line. A length above the axis size acts as the
    axis size; 0 and 1 change nothing. `axis` is counted from 0 and never negative. The result has the shape, dtype and
    memory order of `values`; elements are moved as bytes, so every bit pattern survives.

    Raises SpecError (a ValueError) with every rule of the operator that the arrays break, FormatError (a ValueError)
    for a dtype that no tensor has, and TypeError for an axis that is no integer. DirectML's own limits on data types
    and dimension counts are not among the rules: ask `violations` for those.

    Source of the rules: Microsoft's reference page of DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC, its members and "Tensor
    constraints".
    """
    import operator

    import numpy as np  # `--help` must not load NumPy

    from revseq_cli.ground.dtypes import describe
    from revseq_cli.operator import kernel, spec

    values, lengths, axis = np.asarray(values), np.asarray(lengths), operator.index(axis)
    spec.require(describe(values), describe(lengths), axis, spec.FeatureLevel.NONE)
    return kernel.reverse(values, lengths, axis)


def violations(
    values: NDArray[Any], lengths: NDArray[Any], axis: int, feature_level: str = "5_0"
) -> tuple[Constraint, ...]:
    """Every constraint that DirectML would refuse these arrays for at a feature level; empty if it takes them.

    `values` is the InputTensor and `lengths` the SequenceLengthsTensor; only their shapes and dtypes are looked at.
    `feature_level` is written as 5_0, 5.0, DML_FEATURE_LEVEL_5_0 or none. Each Constraint has `tensor`, `property`,
    `found`, `wanted`, `rule` (where DirectML says so) and `hint`.

    Raises UsageError (a ValueError) for a level that does not exist, and FormatError (a ValueError) for a dtype that
    no tensor has.

    Source of the rules: Microsoft's reference page of DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC, "Tensor constraints" and
    "Tensor support".
    """
    import operator

    import numpy as np

    from revseq_cli.ground.dtypes import describe
    from revseq_cli.operator import spec

    return spec.violations(
        describe(np.asarray(values)),
        describe(np.asarray(lengths)),
        operator.index(axis),
        spec.FeatureLevel.parse(feature_level),
    )
