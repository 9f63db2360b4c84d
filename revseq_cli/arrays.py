"""The operator for arrays in Python: the functions of the package."""

# ruff: noqa: ANN401 - values are whatever NumPy makes an array of

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, SupportsFloat

import numpy as np

from revseq_cli.core.dtypes import Array, describe_array, dtype_of, word_of
from revseq_cli.core.errors import FormatError, RevseqError, UsageError
from revseq_cli.core.tensors import DataType
from revseq_cli.formats.attributes import Meaning, Variable
from revseq_cli.formats.contract import Storage
from revseq_cli.formats.memory import MemorySource
from revseq_cli.operator import kernel, spec
from revseq_cli.pipeline.folds import tolerance_of
from revseq_cli.pipeline.jobs import Job
from revseq_cli.pipeline.loading import make_with_hint, require_valid
from revseq_cli.pipeline.request import Request
from revseq_cli.pipeline.resources import Resources
from revseq_cli.porting.diagnose import Mistake, WrongSequences, open_diagnosis

Axis = int | str | None

# The dtypes of values and of lengths for which small calls are fast.
_PLAIN = frozenset(dtype_of(t) for t in DataType if t.kind != "minifloat")
_PLAIN_LENGTHS = frozenset(dtype_of(t) for t in DataType if t.kind in ("int", "uint"))


class Explanation(NamedTuple):
    """How an array differs from the expected output, as `explain` describes it.

    Without a difference, `first` and `wrong_sequences` are None.
    """

    differing: int
    first: tuple[int, ...] | None
    wrong_sequences: WrongSequences | None
    mistakes: tuple[Mistake, ...]


def reverse_subsequences(
    values: Any, lengths: Any = None, axis: Axis = None, *,
    batch_axis: Axis = None, mask: bool = False, padding: complex | None = None,
) -> Any:  # fmt: skip
    """Reverse the first `length` elements of each sequence along an axis, as DirectML does.

    The rules are those of DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC in DirectML's reference, but
    without the limits of feature levels, which `violations` checks. Elements keep every bit, even
    those of a NaN. Arrays may be NumPy arrays, xarray DataArrays, or objects with `__array__` or
    `__dlpack__`, such as PyTorch tensors on the CPU that do not require a gradient.

    Parameters
    ----------
    values
        The InputTensor: 1 to 64 dimensions of integers, floats, complex numbers or booleans, or of
        a dtype of the package ml_dtypes.
    lengths
        The SequenceLengthsTensor: for each sequence, how many elements at its start are reversed,
        as whole numbers of any dtype. Its shape is that of `values` with 1 along `axis`, or with
        that dimension left out; a single number applies to all sequences. DataArray dimensions are
        matched by name. Lengths greater than the axis size are clamped.
    axis
        The dimension that sequences run along: a number, negative from the end, or a name.
    batch_axis
        If given, `lengths` has one number for each index of this dimension. "none" says that
        there is no batch axis.
    mask
        If true, `lengths` is a mask with the shape of `values`, or of batch and time: each sequence
        is ones followed by zeros; the number of ones is the length.
    padding
        Instead of `lengths`: each sequence is reversed up to its last element that differs from
        this number, which may be NaN. With `batch_axis`, each index takes the length of its longest
        sequence, so that frames stay whole. For three dimensions or more, `batch_axis` must be
        given; with "none", each sequence has a length of its own.

    Returns
    -------
    ndarray or DataArray
        A new array with the shape, the dtype and the memory order of `values`; a DataArray with the
        coordinates and attributes of `values` if `values` is a DataArray.

    Raises
    ------
    SpecError, FormatError, UsageError
        All are ValueErrors. SpecError: the arrays break rules of the operator (all are listed).
        FormatError: not an array, an invalid length or mask, or coordinates that differ.
        UsageError: an invalid axis or padding.
    TypeError
        If `axis` is neither an integer nor a name, or `padding` is not a number.

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
    >>> reverse_subsequences(values, [[3.5], [9]], axis=1)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    revseq_cli.core.errors.FormatError: lengths: 3.5 at [0, 0] is not a length; expected a whole...
    """
    if not mask and padding is None:
        result = _reverse_plain(values, lengths, axis, batch_axis)
        if result is not None:
            return result
    job = _make_job(values, lengths, axis, batch_axis, mask=mask, padding=padding)
    _require_valid(job)
    with _show_hints():
        result = kernel.reverse(job.values.read(), job.lengths.read(), job.axis)
    if _is_labelled(values):
        return values.copy(data=result)
    return result


def _reverse_plain(values: Any, lengths: Any, axis: Axis, batch_axis: Axis) -> Array | None:
    """The result for NumPy arrays in their usual form; None for all others, and for errors.

    Small calls need it: for an array of shape (3, 4), it takes 15 us, and a job takes 45 us.
    """
    if type(values) is not np.ndarray or values.dtype not in _PLAIN:
        return None
    if type(lengths) is list:
        with contextlib.suppress(ValueError):  # of a ragged list, which a job reports
            lengths = np.array(lengths)
    if type(lengths) is not np.ndarray or lengths.dtype not in _PLAIN_LENGTHS:
        return None
    rank = values.ndim
    if type(axis) is not int or not -rank <= axis < rank:
        return None
    axis %= rank
    expanded = _expand_lengths(lengths, values.shape, axis, batch_axis)
    if expanded is None:
        return None
    if lengths.dtype.kind == "i":
        if lengths.size and lengths.min() < 0:
            return None
        expanded = expanded.view(word_of(expanded.itemsize))
    return kernel.reverse(values, expanded, axis)


def _expand_lengths(
    lengths: Array, shape: tuple[int, ...], axis: int, batch_axis: Axis
) -> Array | None:
    """The lengths in the shape of the values with 1 along the axis; None for other lengths."""
    full = spec.lengths_sizes(shape, axis)
    if batch_axis is not None:
        return _expand_batch(lengths, full, axis, batch_axis)
    if lengths.shape == full:
        return lengths
    if lengths.shape == shape[:axis] + shape[axis + 1 :]:
        return lengths.reshape(full)
    return None


def _expand_batch(
    lengths: Array, full: tuple[int, ...], axis: int, batch_axis: Axis
) -> Array | None:
    """One length for each index of the batch axis, repeated to the full shape; None for others."""
    rank = len(full)
    if type(batch_axis) is not int or not -rank <= batch_axis < rank:
        return None
    batch_axis %= rank
    if batch_axis == axis or lengths.shape != (full[batch_axis],):
        return None
    shape = [1] * rank
    shape[batch_axis] = -1
    return np.broadcast_to(lengths.reshape(shape), full)


def explain(
    output: Any, values: Any, lengths: Any = None, axis: Axis = None, *,
    batch_axis: Axis = None, mask: bool = False, padding: complex | None = None,
    atol: float | None = None, rtol: float | None = None, ulp: int | None = None,
    equal_nan: bool = False,
) -> Explanation:  # fmt: skip
    """Compare an array with the result of `reverse_subsequences`, and explain what is wrong.

    It works like `revseq diff` with an output and a job, and raises the errors of
    `reverse_subsequences`.

    Parameters
    ----------
    output
        The output of another implementation. A transposed, flattened, squeezed or unsqueezed output
        is restored first, and so is one that is cut to the longest length, or that has another
        dtype with the same values or bytes.
    values, lengths, axis, batch_axis, mask, padding
        As for `reverse_subsequences`.
    atol, rtol
        Elements are equal if |output - right| <= atol + rtol * |right|, as in numpy.isclose.
    ulp
        Elements are equal if they are at most this many representable values apart.
    equal_nan
        If true, every NaN equals every other NaN.

    Returns
    -------
    Explanation
        `differing` is the number of elements that differ, and `first` the index of the first one.
        `wrong_sequences` has the `count` of wrong sequences, `of` how many, and the simplest `rule`
        that separates the wrong ones from the right ones. Each of the `mistakes` has a `text` and
        the number of wrong `sequences` that it explains; what was restored comes first.

    Examples
    --------
    >>> import numpy as np
    >>> values, lengths = np.arange(8.0).reshape(2, 4), [3, 2]
    >>> explanation = explain(values[:, ::-1], values, lengths, axis=1)
    >>> explanation.differing, explanation.first
    (8, (0, 0))
    >>> explanation.wrong_sequences.rule
    'all sequences'
    >>> [mistake.text for mistake in explanation.mistakes]
    ['whole sequences are reversed']
    >>> right = reverse_subsequences(values, lengths, axis=1)
    >>> explain(right + 1e-9, values, lengths, axis=1, rtol=0, atol=1e-6).differing
    0
    """
    job = _make_job(values, lengths, axis, batch_axis, mask=mask, padding=padding)
    _require_valid(job)
    source = _ArraySource("output", output)
    tolerance = tolerance_of(atol, rtol, ulp, equal_nan)
    with open_diagnosis(source, job, tolerance, Resources("serial")) as diagnosis:
        if diagnosis is None:
            expected = f"one like the values, {job.values.desc}"
            raise FormatError(f"a tensor {source.desc}", expected, where="output")
        differences = diagnosis.differences
        if not differences.count:
            return Explanation(0, None, None, diagnosis.mistakes)
        first = tuple(differences.indices[0].tolist())
        wrong_sequences = diagnosis.wrong_sequences
        return Explanation(differences.count, first, wrong_sequences, diagnosis.mistakes)


def violations(
    values: Any, lengths: Any = None, axis: Axis = None, feature_level: str = "5_0", *,
    batch_axis: Axis = None, mask: bool = False, padding: complex | None = None,
) -> tuple[spec.Constraint, ...]:  # fmt: skip
    """List every constraint that makes DirectML refuse these arrays at a feature level.

    Parameters
    ----------
    values, lengths, axis, batch_axis, mask, padding
        As for `reverse_subsequences`. Only shapes and dtypes are checked. DirectML accepts no
        signed lengths.
    feature_level
        The level, as "5_0", "5.0" or "DML_FEATURE_LEVEL_5_0"; or "none" for only the operator's
        rules.

    Returns
    -------
    tuple of Constraint
        Empty if DirectML accepts the arrays. Each Constraint has `tensor`, `property`, `found`,
        `expected` and `rule`, which names the part of DirectML's documentation.

    Examples
    --------
    >>> import numpy as np
    >>> values, lengths = np.zeros((2, 4)), np.array([[3], [9]], np.uint32)
    >>> violations(values, lengths, axis=1)
    ()
    >>> for constraint in violations(values, lengths, axis=1, feature_level="4_0"):
    ...     print(constraint.tensor, constraint.property, constraint.found)
    InputTensor DataType FLOAT64
    """
    if not isinstance(feature_level, str):
        raise TypeError(f"feature_level is {feature_level!r}; expected a string, such as '5_0'")
    job = _make_job(values, lengths, axis, batch_axis, mask=mask, padding=padding)
    return spec.violations(*job.descs, spec.FeatureLevel.parse(feature_level))


def _make_job(
    values: Any,
    lengths: Any,
    axis: Axis,
    batch_axis: Axis,
    *,
    mask: bool,
    padding: complex | None,
) -> Job:
    """The job of these arrays, as the command makes it of two files; RevseqError for no job."""
    has_lengths = lengths is not None or mask
    if padding is not None and has_lengths:
        raise UsageError("padding cannot be combined with lengths or mask")
    if padding is None and lengths is None:
        raise UsageError("no lengths are given", "lengths, or padding")
    if padding is not None and not isinstance(padding, SupportsFloat | complex):
        raise TypeError(f"padding is {padding!r}, not a number")
    request = Request(
        "values",
        axis=_as_axis(axis),
        batch_axis=_as_axis(batch_axis),
        mask=bool(mask),
        padding=_as_number(padding),
        in_python=True,
    )
    source = _ArraySource("values", values)
    lengths_source = None
    if padding is None:
        lengths_source = _ArraySource("lengths", lengths)
    with _show_hints():
        return make_with_hint(source, lengths_source, request)


def _as_axis(axis: Axis) -> int | str | None:
    """The axis; TypeError if it is neither an integer nor a name."""
    if axis is None or isinstance(axis, str):
        return axis
    return operator.index(axis)


def _as_number(padding: Any) -> complex | None:
    """The padding as a Python number, which is compared exactly."""
    if padding is None or isinstance(padding, int | float | complex):
        return padding
    if isinstance(padding, np.generic | np.ndarray):
        number = padding.item()
        if isinstance(number, int | float | complex):
            return number
    return float(padding)


@contextlib.contextmanager
def _show_hints() -> Iterator[None]:
    """Make the message of an error say its hint, since Python prints only the message."""
    try:
        yield
    except RevseqError as error:
        error.show_hint()
        raise


class _ArraySource(MemorySource):
    """An array that a program passes; a DataArray also has its names and its coordinates.

    FormatError for a masked array, and for what NumPy cannot convert.
    """

    def __init__(self, name: str, data: Any) -> None:
        array = _as_array(name, data)
        describe_array(array, name)
        super().__init__(name, array, Storage("array", {}))
        self._coordinates: list[Variable] = []
        if not _is_labelled(data):
            return
        self.dimensions = tuple(map(str, data.dims))
        for d in data.dims:
            if d in data.coords:
                coordinate = data.coords[d]
                self._coordinates.append(Variable(str(d), {}, coordinate.to_numpy()))

    def meaning(self) -> Meaning:
        return Meaning(self.dimensions, coordinates=tuple(self._coordinates))


def _as_array(name: str, data: Any) -> np.ndarray[Any, Any]:
    """The data as an array; FormatError for a masked array, and for what NumPy cannot convert."""
    if isinstance(data, np.ma.MaskedArray):
        raise FormatError(
            "a masked array, but a tensor has no mask",
            f"{name}.data or {name}.filled(...)",
            where=name,
        )
    convert: Callable[[Any], np.ndarray[Any, Any]] = np.asarray
    if hasattr(data, "__dlpack__") and not hasattr(data, "__array__"):
        convert = np.from_dlpack
    try:
        return convert(data)
    except (BufferError, RuntimeError, TypeError, ValueError) as e:
        # PyTorch raises these, and NumPy for lists whose rows have several lengths.
        expected = "a NumPy array, or what NumPy makes one of"
        if hasattr(data, "requires_grad"):  # of PyTorch
            expected = (
                f"{name}.detach().cpu(), or for bfloat16 {name}.view(torch.uint16), "
                "which has the same bits"
            )
        raise FormatError(f"cannot become a NumPy array: {e}", expected, where=name) from e


def _is_labelled(data: Any) -> bool:
    """Whether it is a DataArray of xarray, without importing xarray."""
    return all(hasattr(data, name) for name in ("dims", "coords", "copy"))


def _require_valid(job: Job) -> None:
    """SpecError if the arrays break rules of the operator."""
    with _show_hints():
        require_valid(job, spec.FeatureLevel.NONE)
