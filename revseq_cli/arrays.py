"""The operator for the arrays of a Python program: what the functions of the package do."""

# ruff: noqa: ANN401 - values are whatever NumPy makes an array of

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsFloat

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core.dtypes import describe
from revseq_cli.core.errors import FormatError, UsageError
from revseq_cli.formats.attributes import Meaning, Variable
from revseq_cli.formats.contract import Storage
from revseq_cli.formats.raw import MemorySource
from revseq_cli.operator import kernel, spec

if TYPE_CHECKING:
    from revseq_cli.pipeline.jobs import Job
    from revseq_cli.porting.diagnose import Mistake, WrongLines

    Axis = int | str | None


class Explanation(NamedTuple):
    """How an array differs from the right output: how many elements do, and the index of the first.

    Without a difference `first` and `lines` are None. `reading` is the mistake that was undone before the comparison.
    """

    differing: int
    first: tuple[int, ...] | None
    lines: WrongLines | None
    mistakes: tuple[Mistake, ...]
    reading: str = ""


def array_of(data: Any, name: str) -> NDArray[Any]:
    """The array that a program passes as `name`; FormatError for a masked one, and for what is none."""
    if isinstance(data, np.ma.MaskedArray):
        found, hint = "is a masked array, and a tensor has no mask", "give array.data, or array.filled(...)"
        raise FormatError(found, "an array without a mask", hint, name)
    make = np.from_dlpack if hasattr(data, "__dlpack__") and not hasattr(data, "__array__") else np.asarray
    try:
        array = make(data)
    except (BufferError, RuntimeError, TypeError, ValueError) as e:  # of PyTorch, and of lists that are ragged
        wanted = "a NumPy array, or what NumPy makes one of"
        if hasattr(data, "requires_grad"):  # of PyTorch
            wanted = f"{name}.detach().cpu(), and of bfloat16 {name}.view(torch.uint16), which has the same bits"
        raise FormatError(f"cannot become a NumPy array: {e}", wanted, where=name) from e
    describe(array, name)
    return array


def job_of(values: Any, lengths: Any, axis: Axis, batch_axis: Axis, *, mask: bool, padding: float | None) -> Job:
    """The job, as the command makes it from two files; RevseqError if the arrays and the axes make none."""
    from revseq_cli.pipeline.jobs import Request, make

    if padding is not None and (lengths is not None or mask):
        raise UsageError("padding takes the lengths from the values", "no lengths and no mask with it")
    if padding is None and lengths is None:
        raise UsageError("no lengths are given", "lengths, or padding", where="lengths")
    if not isinstance(padding, SupportsFloat | complex | None):
        raise TypeError(f"padding is {padding!r}; wanted: a number")
    axis, batch_axis = (d if d is None or isinstance(d, str) else operator.index(d) for d in (axis, batch_axis))
    request = Request("values", axis=axis, batch_axis=batch_axis, mask=bool(mask), padding=padding)
    counts = None if padding is not None else _ArraySource("lengths", lengths)
    return make(_ArraySource("values", values), counts, request)


class _ArraySource(MemorySource):
    """An array, with the names and the coordinates of dimensions that an array of xarray has."""

    def __init__(self, name: str, data: Any) -> None:
        super().__init__(name, array_of(data, name), Storage("array", {}))
        self._coordinates: list[Variable] = []
        if _is_labelled(data):
            self.dimensions = tuple(map(str, data.dims))
            for d in data.dims:
                if d in data.coords:
                    values = data.coords[d].to_numpy()
                    values = values.astype("M8[ns]").view("i8") if values.dtype.kind == "M" else values
                    self._coordinates.append(Variable(str(d), (str(d),), {}, values))

    def meaning(self) -> Meaning:
        """What an array of xarray says beside its elements."""
        return Meaning(self.dimensions, coordinates=tuple(self._coordinates))


def _is_labelled(data: Any) -> bool:
    """Whether it is a DataArray of xarray, which is not imported for it."""
    return hasattr(data, "dims") and hasattr(data, "coords") and hasattr(data, "copy")


def _require(job: Job) -> None:
    if broken := spec.violations(*job.descs, spec.FeatureLevel.NONE):
        raise spec.SpecError(broken, {})


def reverse(values: Any, lengths: Any, axis: Axis, batch_axis: Axis, *, mask: bool, padding: float | None) -> Any:
    """The output: a new array, of xarray where the values are one."""
    if isinstance(axis, int) and lengths is not None and (batch_axis, mask, padding) == (None, False, None):
        # Most jobs are right as they are; to make one would take most of the time of a small call.
        array, counts = array_of(values, "values"), array_of(lengths, "lengths")
        is_plain = counts.dtype.kind == "u" and not (_is_labelled(values) or _is_labelled(lengths))
        if is_plain and not spec.violations(describe(array), describe(counts), axis, spec.FeatureLevel.NONE):
            return kernel.reverse(array, counts, axis)
    job = job_of(values, lengths, axis, batch_axis, mask=mask, padding=padding)
    _require(job)
    result = kernel.reverse(job.values.read(), job.lengths.read(), job.axis)
    return values.copy(data=result) if _is_labelled(values) else result


def violations(job: Job, feature_level: str) -> tuple[spec.Constraint, ...]:
    """The constraints of a feature level that the job breaks."""
    if not isinstance(feature_level, str):
        raise TypeError(f"feature_level is {feature_level!r}; wanted: a string, such as '5_0'")
    return spec.violations(*job.descs, spec.FeatureLevel.parse(feature_level))


def explained(
    output: Any, job: Job, atol: float | None, rtol: float | None, ulp: int | None, *, equal_nan: bool
) -> Explanation:  # fmt: skip
    """How an array differs from the output of a job; FormatError if it has other sizes or another type."""
    from revseq_cli.pipeline.folds import tolerance_of
    from revseq_cli.pipeline.plan import Resources
    from revseq_cli.porting.diagnose import diagnosed  # few programs ask for it

    _require(job)
    a, tolerance = _ArraySource("output", output), tolerance_of(atol, rtol, ulp, equal_nan)
    with diagnosed(a, job, tolerance, Resources("serial")) as found:
        if found is None:
            raise FormatError(f"is a tensor {a.desc}", f"one like the values, {job.values.desc}", where="output")
        _, differences, lines, mistakes, undone = found
    if not differences.count:
        return Explanation(0, None, None, mistakes, undone)
    return Explanation(differences.count, tuple(differences.indices[0].tolist()), lines, mistakes, undone)
