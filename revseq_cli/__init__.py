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
    """Reverse the first `length` elements of each line of an array along an axis, as DirectML does.

    Elements are moved as bytes, so every bit pattern survives, those of NaN too. DirectML's limits on data types and
    dimension counts are not looked at: ask `violations` for those.

    Parameters
    ----------
    values
        The InputTensor, of shape (d0, ..., dn): 1 to 64 dimensions, no size of 0, and an integer, float, complex or
        bool dtype in either byte order, or bfloat16 or a float of 8 bits of ml_dtypes.
    lengths
        The SequenceLengthsTensor, of an unsigned integer dtype, and of the shape of `values` with 1 along `axis`: for
        each line, how many elements are reversed. 0 and 1 change nothing; more than the axis has reverse all of it.
    axis
        The dimension that lines run along, counted from 0; never negative.

    Returns
    -------
    NDArray
        A new array with the shape, the dtype and the memory order of `values`.

    Raises
    ------
    SpecError
        A ValueError that names every rule of the operator that the arrays break.
    FormatError
        A ValueError, for a dtype that no tensor has.
    TypeError
        For an axis that is no integer.

    Notes
    -----
    The rules are those of Microsoft's reference page of DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC: its members and
    "Tensor constraints".

    Examples
    --------
    >>> import numpy as np
    >>> values = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.float32)
    >>> reverse_subsequences(values, np.array([[3], [9]], np.uint32), axis=1)
    array([[3., 2., 1., 4.],
           [8., 7., 6., 5.]], dtype=float32)
    >>> reverse_subsequences(values, np.array([[3], [9]], np.int32), axis=1)
    Traceback (most recent call last):
    revseq_cli.operator.spec.SpecError: SequenceLengthsTensor: DataType is INT32; wanted: UINT64, UINT32, UINT16, UINT8 (operator's rules)
    """  # noqa: E501 - the traceback's line
    import operator

    import numpy as np  # `--help` must not load NumPy

    from revseq_cli.ground.dtypes import describe
    from revseq_cli.operator import kernel, spec

    values, lengths, axis = np.asarray(values), np.asarray(lengths), operator.index(axis)
    descs = describe(values, "values"), describe(lengths, "lengths")
    if broken := spec.violations(*descs, axis, spec.FeatureLevel.NONE):
        raise spec.SpecError(broken, {})
    return kernel.reverse(values, lengths, axis)


def violations(
    values: NDArray[Any], lengths: NDArray[Any], axis: int, feature_level: str = "5_0"
) -> tuple[Constraint, ...]:
    """Tell every constraint for which DirectML would refuse these arrays at a feature level.

    Parameters
    ----------
    values
        The InputTensor; only its shape and dtype are looked at.
    lengths
        The SequenceLengthsTensor; only its shape and dtype are looked at.
    axis
        The dimension that lines run along, counted from 0.
    feature_level
        Written as "5_0", "5.0", "DML_FEATURE_LEVEL_5_0", or "none" for the operator's rules alone.

    Returns
    -------
    tuple of Constraint
        Empty if DirectML takes the arrays. Each Constraint has `tensor`, `property`, `found`, `wanted`, and `rule`:
        where DirectML says so.

    Raises
    ------
    UsageError
        A ValueError, for a level that does not exist.
    FormatError
        A ValueError, for a dtype that no tensor has.
    TypeError
        For an axis that is no integer.

    Notes
    -----
    The rules are those of Microsoft's reference page of DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC: "Tensor constraints"
    and "Tensor support".

    Examples
    --------
    >>> import numpy as np
    >>> values, lengths = np.zeros((2, 4)), np.array([[3], [9]], np.uint32)
    >>> violations(values, lengths, axis=1)
    ()
    >>> for each in violations(values, lengths, axis=1, feature_level="4_0"):
    ...     print(each.tensor, each.property, each.found)
    InputTensor DataType FLOAT64
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
