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

    from revseq_cli.ground.errors import FormatError, RevseqError, UsageError
    from revseq_cli.operator.spec import Constraint, SpecError

__version__ = "0.1.0"
__all__ = ["FormatError", "RevseqError", "SpecError", "UsageError", "reverse_subsequences", "violations"]

# Where the exceptions are; they are imported when they are asked for.
_EXCEPTIONS = {"RevseqError": "ground.errors", "FormatError": "ground.errors", "UsageError": "ground.errors"}
_EXCEPTIONS |= {"SpecError": "operator.spec"}


def __getattr__(name: str) -> object:
    """An exception of this package; AttributeError for any other name."""
    if name not in _EXCEPTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_EXCEPTIONS[name]}"), name)


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

    >>> import numpy as np
    >>> values = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.float32)
    >>> reverse_subsequences(values, np.array([[3], [9]], np.uint32), axis=1)
    array([[3., 2., 1., 4.],
           [8., 7., 6., 5.]], dtype=float32)
    >>> reverse_subsequences(values, np.array([[3], [9]], np.int32), axis=1)
    Traceback (most recent call last):
    revseq_cli.operator.spec.SpecError: SequenceLengthsTensor: DataType is INT32; wanted: UINT64, UINT32, UINT16, UINT8 (operator's rules)

    Source of the rules: Microsoft's reference page of DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC, its members and "Tensor
    constraints".
    """  # noqa: E501 - the traceback's line
    import operator

    import numpy as np  # `--help` must not load NumPy

    from revseq_cli.ground.dtypes import describe
    from revseq_cli.operator import kernel, spec

    values, lengths, axis = np.asarray(values), np.asarray(lengths), operator.index(axis)
    spec.require(describe(values, "values"), describe(lengths, "lengths"), axis, spec.FeatureLevel.NONE)
    return kernel.reverse(values, lengths, axis)


def violations(
    values: NDArray[Any], lengths: NDArray[Any], axis: int, feature_level: str = "5_0"
) -> tuple[Constraint, ...]:
    """Every constraint that DirectML would refuse these arrays for at a feature level; empty if it takes them.

    `values` is the InputTensor and `lengths` the SequenceLengthsTensor; only their shapes and dtypes are looked at.
    `feature_level` is written as 5_0, 5.0, DML_FEATURE_LEVEL_5_0 or none. Each Constraint has `tensor`, `property`,
    `found`, `wanted` and `rule` (where DirectML says so).

    >>> import numpy as np
    >>> values, lengths = np.zeros((2, 4)), np.array([[3], [9]], np.uint32)
    >>> violations(values, lengths, axis=1)
    ()
    >>> for each in violations(values, lengths, axis=1, feature_level="4_0"):
    ...     print(each.tensor, each.property, each.found)
    InputTensor DataType FLOAT64

    Raises UsageError (a ValueError) for a level that does not exist, and FormatError (a ValueError) for a dtype that
    no tensor has, and TypeError for an axis that is no integer.

    Source of the rules: Microsoft's reference page of DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC, "Tensor constraints" and
    "Tensor support".
    """
    import operator

    import numpy as np

    from revseq_cli.ground.dtypes import describe
    from revseq_cli.operator import spec

    return spec.violations(
        describe(np.asarray(values), "values"),
        describe(np.asarray(lengths), "lengths"),
        operator.index(axis),
        spec.FeatureLevel.parse(str(feature_level)),
    )
