"""DirectML's operator DML_REVERSE_SUBSEQUENCES for NumPy arrays; the command `revseq` runs it on tensor files.

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

    from revseq_cli.arrays import Explanation
    from revseq_cli.core.errors import FormatError, RevseqError, UsageError
    from revseq_cli.operator.spec import Constraint, SpecError

    Item = TypeVar("Item", bound=np.generic, covariant=True)

    class Arrayed(Protocol[Item]):
        """What NumPy makes an array of: its own arrays, and tensors of other packages on the CPU."""

        def __array__(self) -> NDArray[Item]: ...


__version__ = "1.0.0"
__all__ = [
    "Constraint", "Explanation", "FormatError", "RevseqError", "SpecError", "UsageError", "explain",
    "reverse_subsequences", "violations",
]  # fmt: skip

# Where the classes are; they are imported when they are asked for.
_CLASSES = {"RevseqError": "core.errors", "FormatError": "core.errors", "UsageError": "core.errors"}
_CLASSES |= {"Constraint": "operator.spec", "SpecError": "operator.spec", "Explanation": "arrays"}


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
    mask: bool = False,
    out: NDArray[Item] | None = None,
) -> NDArray[Item]:
    """Reverse the first `length` elements of each line of an array along an axis, as DirectML does.

    The function moves elements as bytes, so every bit pattern survives, even that of a NaN. It does not check DirectML's
    limits on data types and dimension counts: `violations` does. It accepts NumPy arrays, and objects with `__array__` or
    DLPack's `__dlpack__`, such as PyTorch tensors on the CPU. NumPy cannot read tensors that need a gradient or are
    BFLOAT16: pass tensor.detach(), or tensor.view(torch.uint16), which has the same bits.

    Parameters
    ----------
    values
        The InputTensor, of shape (d0, ..., dn): 1 to 64 dimensions, no size of 0, and an integer, float, complex or
        bool dtype in either byte order, or bfloat16 or a float of 8 bits of ml_dtypes.
    lengths
        The SequenceLengthsTensor: for each line, the number of elements at its start to reverse. It has an integer dtype,
        no negative values, and the shape of `values` with 1 along `axis` or without that dimension. 0 and 1 change
        nothing; a length above the axis size is clamped to it.
    axis
        The dimension that lines run along, counted from 0. It is negative only if `like` names a system that allows
        this. You may omit it if that system has a default.
    batch_axis
        If given, `lengths` has one dimension, with a length for each index of this dimension of `values`.
    like
        "onnx", "tensorflow", "pytorch", "mxnet" or "numpy": the axes default to those of that system, `lengths` has one
        length for each index of the batch axis (with "numpy", also one for each line or one for all), and what that
        system refuses is an error. revseq-porting(7) has the rules and their sources.
    mask
        If true, `lengths` is a mask with the shape of `values`, or of batch and time. Each line has ones, whose number is
        the length, followed by zeros.
    out
        A NumPy array with the shape and the dtype of `values`. The result is copied into it, so it saves no memory. It
        may be `values` itself.

    Returns
    -------
    NDArray
        A new array with the shape, the dtype and the memory order of `values`, or `out`.

    Raises
    ------
    SpecError
        A ValueError that names every rule of the operator that the arrays break.
    FormatError
        A ValueError, for a dtype that no tensor has, a masked array, an object that NumPy cannot turn into an array, a
        negative length, a mask in which a one follows a zero, and an `out` that does not fit.
    UsageError
        A ValueError, for axes that the system named by `like` does not have, and if there is no axis.
    TypeError
        For an axis that is not an integer.

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
    >>> reverse_subsequences(values, [[1, 1, 1, 0], [1, 1, 0, 0]], axis=1, mask=True)
    array([[3., 2., 1., 4.],
           [6., 5., 7., 8.]], dtype=float32)
    >>> reverse_subsequences(values, np.array([[3.5], [9]], np.float32), axis=1)
    Traceback (most recent call last):
    revseq_cli.operator.spec.SpecError: SequenceLengthsTensor: DataType is FLOAT32; wanted: UINT64, UINT32, UINT16, UINT8 (operator's rules)
    """  # noqa: E501 - the traceback's line
    from revseq_cli import arrays  # `--help` must not load NumPy

    result = arrays.reversed_as_asked(arrays.Asked.of(values, lengths, axis, batch_axis, like, mask))
    return result if out is None else arrays.store(result, out)


def explain(
    output: Arrayed[Item],
    values: Arrayed[Item],
    lengths: Any,  # noqa: ANN401 - whatever NumPy makes an array of
    axis: int | None = None,
    *,
    batch_axis: int | None = None,
    like: str | None = None,
    mask: bool = False,
    atol: float | None = None,
    rtol: float | None = None,
    ulp: int | None = None,
    equal_nan: bool = False,
) -> Explanation:
    """Compare an array with the result of `reverse_subsequences`: which lines are wrong, and what explains them.

    It works like `revseq diff` with an output and a job. It compares bits, or values if you pass `atol`, `rtol`, `ulp`
    or `equal_nan`.

    Parameters
    ----------
    output
        The output of another implementation for `values`, with the same shape and dtype. If it is transposed,
        flattened, has other sizes of 1, is cut to the longest length, or has another dtype that holds the same values
        or the same bytes, the function undoes that before it compares.
    values, lengths, axis, batch_axis, like, mask
        As for `reverse_subsequences`.
    atol, rtol
        Elements are equal if |output - right| <= atol + rtol * |right|, as in numpy.isclose.
    ulp
        Elements are equal if they are at most this many steps of their dtype apart.
    equal_nan
        If true, every NaN equals every other NaN.

    Returns
    -------
    Explanation
        `differing` is the number of elements that differ, and `first` the index of the first one, or None. `lines`
        describes the wrong lines: `count` of `of` lines, and the simplest `rule` in words that separates them from the
        right ones. `mistakes` is a tuple: each has a `text`, and the number of wrong `lines` that it explains.
        `reading` says what the function undid, such as a transposition, or is empty; `first` is an index of the output
        after that.

    Raises
    ------
    FormatError
        A ValueError, for an `output` of any other shape or dtype. The function also raises the errors of
        `reverse_subsequences`.
    UsageError
        A ValueError, for a tolerance below 0.

    Examples
    --------
    >>> import numpy as np
    >>> values, lengths = np.arange(8.0).reshape(2, 4), np.array([[3], [2]])
    >>> found = explain(values[:, ::-1], values, lengths, axis=1)
    >>> found.differing, found.first
    (8, (0, 0))
    >>> found.lines.rule
    'all lines'
    >>> [each.text for each in found.mistakes]
    ['whole lines are reversed']
    >>> right = reverse_subsequences(values, lengths, axis=1)
    >>> explain(right + 1e-9, values, lengths, axis=1, rtol=0, atol=1e-6).differing
    0
    >>> explain(right.T, values, lengths, axis=1).reading
    'the axes of the output are in the order {1,0}'
    """
    from revseq_cli import arrays

    asked = arrays.Asked.of(values, lengths, axis, batch_axis, like, mask)
    tolerance = arrays.tolerance_of(atol, rtol, ulp, equal_nan=equal_nan)
    return arrays.explained(arrays.array_of(output, "output"), asked, tolerance)


def violations(
    values: Arrayed[Item],
    lengths: Any,  # noqa: ANN401 - whatever NumPy makes an array of
    axis: int | None = None,
    feature_level: str = "5_0",
    *,
    batch_axis: int | None = None,
    like: str | None = None,
    mask: bool = False,
) -> tuple[Constraint, ...]:
    """List every constraint that makes DirectML refuse these arrays at a feature level.

    Parameters
    ----------
    values, lengths, axis, batch_axis, like, mask
        As for `reverse_subsequences`. The function checks only shapes and dtypes. DirectML accepts no signed lengths:
        the function reports them, or with `like` treats them as cast to UINT32, as the command does.
    feature_level
        The level, as "5_0", "5.0" or "DML_FEATURE_LEVEL_5_0"; or "none" for only the operator's rules.

    Returns
    -------
    tuple of Constraint
        Empty if DirectML accepts the arrays. Each Constraint has `tensor`, `property`, `found`, `wanted`, and `rule`,
        the source of the constraint in DirectML's documentation.

    Raises
    ------
    UsageError, FormatError
        A ValueError, for a level that does not exist, and for arrays and axes that do not make a job, as in
        `reverse_subsequences`.
    TypeError
        For an axis that is not an integer, and a level that is not a string.

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
    from revseq_cli import arrays

    return arrays.violations(arrays.Asked.of(values, lengths, axis, batch_axis, like, mask), feature_level)
