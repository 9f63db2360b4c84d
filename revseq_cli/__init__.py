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
    from typing import Any, Protocol, TypeVar

    import numpy as np
    from numpy.typing import NDArray

    from revseq_cli.ground.errors import FormatError, RevseqError, UsageError
    from revseq_cli.operator.spec import Constraint, SpecError
    from revseq_cli.passes.arrays import Explanation

    Item = TypeVar("Item", bound=np.generic, covariant=True)

    class Arrayed(Protocol[Item]):
        """What NumPy makes an array of: its own arrays, and tensors of other packages on the CPU."""

        def __array__(self) -> NDArray[Item]: ...


__version__ = "0.1.0"
__all__ = [
    "Constraint", "Explanation", "FormatError", "RevseqError", "SpecError", "UsageError", "explain",
    "reverse_subsequences", "violations",
]  # fmt: skip

# Where the classes are; they are imported when they are asked for.
_CLASSES = {"RevseqError": "ground.errors", "FormatError": "ground.errors", "UsageError": "ground.errors"}
_CLASSES |= {"Constraint": "operator.spec", "SpecError": "operator.spec", "Explanation": "passes.arrays"}


def __getattr__(name: str) -> object:
    """An exception or another class of this package; AttributeError for any other name."""
    if name not in _CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_CLASSES[name]}"), name)


def reverse_subsequences(
    values: Arrayed[Item],
    lengths: Any,  # noqa: ANN401 - whatever NumPy makes an array of
    axis: int | None = None,
    *,
    batch_axis: int | None = None,
    like: str | None = None,
    out: NDArray[Item] | None = None,
) -> NDArray[Item]:
    """Reverse the first `length` elements of each line of an array along an axis, as DirectML does.

    Elements are moved as bytes, so every bit pattern survives, those of NaN too. DirectML's limits on data types and
    dimension counts are not looked at: ask `violations` for those. Arrays are NumPy's, or have `__array__` or DLPack's
    `__dlpack__`, as tensors of PyTorch on the CPU do.

    Parameters
    ----------
    values
        The InputTensor, of shape (d0, ..., dn): 1 to 64 dimensions, no size of 0, and an integer, float, complex or
        bool dtype in either byte order, or bfloat16 or a float of 8 bits of ml_dtypes.
    lengths
        The SequenceLengthsTensor, of an integer dtype without negative values, and of the shape of `values` with 1
        along `axis`, or without that dimension: for each line, how many elements are reversed. 0 and 1 change nothing;
        more than the axis has reverse all of it.
    axis
        The dimension that lines run along, counted from 0; never negative, unless `like` names a system that counts
        so. It may be left out where that system has a default.
    batch_axis
        With it, `lengths` has one dimension: a length for each index of this dimension of `values`.
    like
        "onnx", "tensorflow", "pytorch" or "mxnet": the axes are as there by default, `lengths` has one length for each
        index of the batch axis, and what that system refuses is an error.
    out
        A NumPy array of the shape and the dtype of `values`, for the result, which is copied into it; so it saves no
        memory. It may be `values` itself.

    Returns
    -------
    NDArray
        A new array with the shape, the dtype and the memory order of `values`, or `out`.

    Raises
    ------
    SpecError
        A ValueError that names every rule of the operator that the arrays break.
    FormatError
        A ValueError, for a dtype that no tensor has, a masked array, a negative length, and an `out` that does not fit.
    UsageError
        A ValueError, for axes that the system named by `like` does not have, and where no axis is given.
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
    >>> reverse_subsequences(values, np.array([[3], [9]]), axis=1)
    array([[3., 2., 1., 4.],
           [8., 7., 6., 5.]], dtype=float32)
    >>> reverse_subsequences(values, [2, 1, 2, 0], axis=0, batch_axis=1)
    array([[5., 2., 7., 4.],
           [1., 6., 3., 8.]], dtype=float32)
    >>> reverse_subsequences(values, np.array([[3.5], [9]], np.float32), axis=1)
    Traceback (most recent call last):
    revseq_cli.operator.spec.SpecError: SequenceLengthsTensor: DataType is FLOAT32; wanted: UINT64, UINT32, UINT16, UINT8 (operator's rules)
    """  # noqa: E501 - the traceback's line
    from revseq_cli.passes import arrays  # `--help` must not load NumPy

    result = arrays.reversed_as_asked(arrays.Asked.of(values, lengths, axis, batch_axis, like))
    return result if out is None else arrays.store(result, out)


def explain(
    output: Arrayed[Item],
    values: Arrayed[Item],
    lengths: Any,  # noqa: ANN401 - whatever NumPy makes an array of
    axis: int | None = None,
    *,
    batch_axis: int | None = None,
    like: str | None = None,
) -> Explanation:
    """Tell how an array differs from what `reverse_subsequences` gives, and which usual mistakes explain it.

    Parameters
    ----------
    output
        What another implementation made of `values`: of the same shape and dtype.
    values, lengths, axis, batch_axis, like
        As for `reverse_subsequences`.

    Returns
    -------
    Explanation
        `differing` is the number of elements whose bits differ, `first` the index of the first one, or None, and
        `mistakes` a tuple of sentences, each a mistake that would give exactly this output.

    Raises
    ------
    FormatError
        A ValueError, for an `output` of another shape or dtype; and as `reverse_subsequences` does, like the others.

    Examples
    --------
    >>> import numpy as np
    >>> values, lengths = np.arange(8.0).reshape(2, 4), np.array([[3], [2]])
    >>> found = explain(values[:, ::-1], values, lengths, axis=1)
    >>> found.differing, found.first
    (8, (0, 0))
    >>> found.mistakes
    ('whole lines are reversed, whatever their lengths are',)
    """
    from revseq_cli.passes import arrays

    asked = arrays.Asked.of(values, lengths, axis, batch_axis, like)
    return arrays.explained(arrays.array_of(output, "output"), asked)


def violations(
    values: Arrayed[Item],
    lengths: Any,  # noqa: ANN401 - whatever NumPy makes an array of
    axis: int | None = None,
    feature_level: str = "5_0",
    *,
    batch_axis: int | None = None,
    like: str | None = None,
) -> tuple[Constraint, ...]:
    """Tell every constraint for which DirectML would refuse these arrays at a feature level.

    Parameters
    ----------
    values, lengths, axis, batch_axis, like
        As for `reverse_subsequences`; only the shapes and dtypes of arrays are looked at. DirectML takes no signed
        lengths: they are refused as what they are, and with `like` they count as cast to UINT32, as in the command.
    feature_level
        Written as "5_0", "5.0", "DML_FEATURE_LEVEL_5_0", or "none" for the operator's rules alone.

    Returns
    -------
    tuple of Constraint
        Empty if DirectML takes the arrays. Each Constraint has `tensor`, `property`, `found`, `wanted`, and `rule`:
        where DirectML says so.

    Raises
    ------
    UsageError, FormatError
        A ValueError, for a level that does not exist, and for what makes no job, as `reverse_subsequences` has it.
    TypeError
        For an axis that is no integer, and a level that is no string.

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
    from revseq_cli.passes import arrays

    return arrays.violations(arrays.Asked.of(values, lengths, axis, batch_axis, like), feature_level)
