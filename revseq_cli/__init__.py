"""DirectML's operator DML_REVERSE_SUBSEQUENCES for NumPy arrays; the command `revseq` runs it on tensor files.

>>> import numpy as np, revseq_cli
>>> revseq_cli.reverse_subsequences(np.arange(1, 9).reshape(2, 4), [3, 0], axis=1)
array([[3, 2, 1, 4],
       [5, 6, 7, 8]])
"""

# ruff: noqa: ANN401 - values are whatever NumPy makes an array of

from __future__ import annotations

# The command begins here, too: what is imported now is time in which Python answers a signal with a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from revseq_cli.arrays import Explanation
    from revseq_cli.core.errors import FormatError, RevseqError, UsageError
    from revseq_cli.operator.spec import Constraint, SpecError

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
    values: Any, lengths: Any = None, axis: int | str | None = None, *,
    batch_axis: int | str | None = None, mask: bool = False, padding: float | None = None,
) -> Any:  # fmt: skip
    """Reverse the first `length` elements of each line of an array along an axis, as DirectML does.

    The rules are those of DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC in DirectML's reference, without the limits of feature
    levels, which `violations` checks. Elements keep every bit, even those of a NaN. Arrays are NumPy's, xarray's, or
    objects with `__array__` or `__dlpack__`, such as PyTorch tensors on the CPU without a gradient.

    Parameters
    ----------
    values
        The InputTensor: 1 to 64 dimensions of integers, floats, complex numbers or booleans, or a dtype of ml_dtypes.
    lengths
        The SequenceLengthsTensor: for each line, the number of elements at its start to reverse, as whole numbers of
        any dtype. It has the shape of `values` with 1 along `axis` or without that dimension; one number is for all
        lines. Dimensions of DataArrays go by their names. A length above the axis size is clamped to it.
    axis
        The dimension that lines run along, from 0, or from the end if it is negative; or its name.
    batch_axis
        If given, `lengths` has one dimension of its size, with a length for each of its indices.
    mask
        If true, `lengths` is a mask with the shape of `values`, or of batch and time: in each line ones, whose number
        is the length, followed by zeros.
    padding
        If given, there are no `lengths`: each line is reversed up to its last element that is not this number, or NaN.
        With a `batch_axis`, the length of an index is that of its longest line.

    Returns
    -------
    ndarray or DataArray
        A new array with the shape, the dtype and the memory order of `values`; a DataArray, with the coordinates and
        attributes of `values`, if that is one.

    Raises
    ------
    SpecError, FormatError, UsageError
        ValueErrors: rules of the operator that the arrays break, all together; what is no array or no length, a mask in
        which a one follows a zero, and coordinates that differ; an axis or a padding that is none.
    TypeError
        For an axis that is neither an integer nor a name, and for a padding that is no number.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.float32)
    >>> reverse_subsequences(values, [[3], [9]], axis=1)
    array([[3., 2., 1., 4.],
           [8., 7., 6., 5.]], dtype=float32)
    >>> reverse_subsequences(values, [2, 1, 2, 0], axis=0, batch_axis=1)
    array([[5., 2., 7., 4.],
           [1., 6., 3., 8.]], dtype=float32)
    >>> reverse_subsequences(values, [[1, 1, 1, 0], [1, 1, 0, 0]], axis=1, mask=True)
    array([[3., 2., 1., 4.],
           [6., 5., 7., 8.]], dtype=float32)
    >>> reverse_subsequences([[1, 2, 0, 0], [3, 4, 5, 0]], axis=-1, padding=0)
    array([[2, 1, 0, 0],
           [5, 4, 3, 0]])
    >>> reverse_subsequences(values, [[3.5], [9]], axis=1)
    Traceback (most recent call last):
    revseq_cli.core.errors.FormatError: lengths: 3.5 at [0, 0] is not whole; wanted: a whole number from 0 to 18446744073709551615
    """  # noqa: E501 - the traceback's line
    from revseq_cli import arrays  # `--help` must not load NumPy

    return arrays.reverse(values, lengths, axis, batch_axis, mask=mask, padding=padding)


def explain(
    output: Any, values: Any, lengths: Any = None, axis: int | str | None = None, *,
    batch_axis: int | str | None = None, mask: bool = False, padding: float | None = None,
    atol: float | None = None, rtol: float | None = None, ulp: int | None = None, equal_nan: bool = False,
) -> Explanation:  # fmt: skip
    """Compare an array with the result of `reverse_subsequences`: which lines are wrong, and what explains them.

    It works like `revseq diff` with an output and a job, and raises the errors of `reverse_subsequences`.

    Parameters
    ----------
    output
        The output of another implementation, like `values`. If it is transposed, flattened, has other sizes of 1, is
        cut to the longest length, or has another dtype that holds the same values or bytes, that is undone first.
    values, lengths, axis, batch_axis, mask, padding
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
        `differing` elements, the `first` of them, the wrong `lines` (`count` of `of` lines, and the simplest `rule`
        that separates them from the right ones), `mistakes` that explain them (each has a `text`, and the number of
        `lines` that it explains), and in `reading` what was undone.

    Examples
    --------
    >>> import numpy as np
    >>> values, lengths = np.arange(8.0).reshape(2, 4), [3, 2]
    >>> found = explain(values[:, ::-1], values, lengths, axis=1)
    >>> found.differing, found.first
    (8, (0, 0))
    >>> found.lines.rule
    'all lines'
    >>> [mistake.text for mistake in found.mistakes]
    ['whole lines are reversed']
    >>> right = reverse_subsequences(values, lengths, axis=1)
    >>> explain(right + 1e-9, values, lengths, axis=1, rtol=0, atol=1e-6).differing
    0
    """
    from revseq_cli import arrays

    job = arrays.job_of(values, lengths, axis, batch_axis, mask=mask, padding=padding)
    return arrays.explained(output, job, atol, rtol, ulp, equal_nan=equal_nan)


def violations(
    values: Any, lengths: Any = None, axis: int | str | None = None, feature_level: str = "5_0", *,
    batch_axis: int | str | None = None, mask: bool = False, padding: float | None = None,
) -> tuple[Constraint, ...]:  # fmt: skip
    """List every constraint that makes DirectML refuse these arrays at a feature level.

    Parameters
    ----------
    values, lengths, axis, batch_axis, mask, padding
        As for `reverse_subsequences`. Only shapes and dtypes are checked. DirectML has no signed lengths.
    feature_level
        The level, as "5_0", "5.0" or "DML_FEATURE_LEVEL_5_0"; or "none" for only the operator's rules.

    Returns
    -------
    tuple of Constraint
        Empty if DirectML accepts the arrays. Each Constraint has `tensor`, `property`, `found`, `wanted`, and `rule`,
        the source of the constraint in DirectML's documentation.

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

    job = arrays.job_of(values, lengths, axis, batch_axis, mask=mask, padding=padding)
    return arrays.violations(job, feature_level)
