"""The operator for the arrays of a Python program: what the functions of the package do."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.core.dtypes import describe
from revseq_cli.core.errors import FormatError, UsageError, listed
from revseq_cli.core.tensors import DataType
from revseq_cli.formats.contract import Storage
from revseq_cli.formats.in_memory import MemorySource
from revseq_cli.operator import kernel, spec

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.pipeline.assembly import Job
    from revseq_cli.pipeline.comparison import Tolerance
    from revseq_cli.porting.diagnose import Mistake, WrongLines


class Explanation(NamedTuple):
    """How an array differs from the right output.

    `differing` is the number of elements that differ, and `first` the index of the first one. `lines` says how many
    lines are wrong, `count` of `of`, and by which `rule`, in words. `mistakes` explain the wrong lines; each has a
    `text` and the number of `lines` that it explains. If nothing differs, `first` and `lines` are None. `reading` says
    what was undone before the comparison, such as a transposition, which is the first mistake; it is empty if nothing
    was.
    """

    differing: int
    first: tuple[int, ...] | None
    lines: WrongLines | None
    mistakes: tuple[Mistake, ...]
    reading: str = ""


def array_of(given: Any, name: str) -> NDArray[Any]:  # noqa: ANN401 - whatever NumPy makes an array of
    """The array that a program passes as `name`.

    FormatError for a masked array, whose mask would be lost, and for an object that NumPy cannot turn into an array.
    """
    if isinstance(given, np.ma.MaskedArray):
        found, hint = "is a masked array, and a tensor has no mask", "give array.data, or array.filled(...)"
        raise FormatError(found, "an array without a mask", hint, name)
    make = np.from_dlpack if hasattr(given, "__dlpack__") and not hasattr(given, "__array__") else np.asarray
    try:
        return make(given)
    except (BufferError, RuntimeError, TypeError) as e:  # what PyTorch raises
        raise FormatError(f"cannot become a NumPy array: {e}", _as_array(given, name), where=name) from e


def _as_array(tensor: Any, name: str) -> str:  # noqa: ANN401 - of another package
    """What to pass instead of a tensor that NumPy cannot read, in the words of PyTorch."""
    dtype = str(getattr(tensor, "dtype", ""))
    is_lacking = "bfloat16" in dtype or "float8" in dtype
    words = f"torch.uint{8 * tensor.dtype.itemsize}" if is_lacking else ""
    steps = {
        ".detach()": getattr(tensor, "requires_grad", False) is True,
        ".cpu()": str(getattr(tensor, "device", "cpu")) != "cpu",
        f".view({words})": is_lacking,
    }
    typed = "".join(step for step, is_needed in steps.items() if is_needed)
    bits = f", which keeps the bits; or .float() in the place of .view({words})" if is_lacking else ""
    return f"{name}{typed}{bits}" if typed else "a NumPy array, or an object that NumPy can turn into one"


class Asked(NamedTuple):
    """A job as a program asks for it, with the axes and the system that the command has."""

    values: NDArray[Any]
    lengths: NDArray[Any]
    axis: int | None
    batch_axis: int | None
    like: str | None
    mask: bool

    @classmethod
    def of(cls, values: Any, lengths: Any, *settings: Any) -> Asked:  # noqa: ANN401 - whatever NumPy makes an array of
        """The same with arrays."""
        return cls(array_of(values, "values"), array_of(lengths, "lengths"), *settings)

    def job(self, signed: DataType | None = None) -> Job:
        """The job, as the command makes it from two files; RevseqError if the arrays and the settings make none.

        Signed lengths are cast to the data type `signed`, which fails for negative ones where they are read.
        """
        from revseq_cli.pipeline.assembly import Parts, Request, assemble  # a small call needs none of it
        from revseq_cli.pipeline.systems import SYNONYMS, SYSTEMS

        like = None if self.like is None else SYNONYMS.get(self.like, self.like)
        if like is not None and like not in SYSTEMS:
            raise UsageError(f"no system is named {like!r}", f"one of {listed(SYSTEMS)}", where="like")
        axis, batch_axis = (None if each is None else operator.index(each) for each in (self.axis, self.batch_axis))
        cast = signed if self.lengths.dtype.kind == "i" and not self.mask else None
        request = Request(
            "values", "lengths", axis, lengths_dtype=cast, batch_axis=batch_axis, like=like, mask=bool(self.mask)
        )
        return assemble(Parts(_held(self.values, "values"), _held(self.lengths, "lengths"), request))

    def valid_job(self) -> Job:
        """The job; RevseqError also if it breaks the rules of the operator, or of the system that `like` names."""
        from revseq_cli.pipeline.assembly import require_system

        job = self.job(DataType.UINT64)
        if broken := spec.violations(job.values.desc, job.lengths.desc, job.axis, spec.FeatureLevel.NONE):
            raise spec.SpecError(broken, {})
        require_system(job)
        return job


def _held(array: NDArray[Any], name: str) -> MemorySource:
    """An array as a source; FormatError for a dtype that no tensor has."""
    describe(array, name)
    return MemorySource(name, array, Storage("array", {}))


def reversed_as_asked(asked: Asked) -> NDArray[Any]:
    """A new array: the output."""
    values, lengths, axis, *others = asked
    if axis is not None and others == [None, None, False]:
        # Most jobs are right as they are; to make one would take most of the time of a small call.
        descs, axis = (describe(values, "values"), describe(lengths, "lengths")), operator.index(axis)
        if not spec.violations(*descs, axis, spec.FeatureLevel.NONE):
            return kernel.reverse(values, lengths, axis)
    job = asked.valid_job()
    return kernel.reverse(values, job.lengths.read(), job.axis)


def violations(asked: Asked, feature_level: str) -> tuple[spec.Constraint, ...]:
    """The constraints of a feature level that the job breaks."""
    if not isinstance(feature_level, str):
        raise TypeError(f"feature_level is {feature_level!r}; wanted: a string, such as '5_0'")
    level, job = spec.FeatureLevel.parse(feature_level), asked.job()
    return spec.violations(job.values.desc, job.lengths.desc, job.axis, level)


def store(result: NDArray[Any], out: NDArray[Any]) -> NDArray[Any]:
    """Copy the result into the array that a program passed as `out`; FormatError if it does not fit."""
    found = ""
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        found = f"is a {type(out).__name__}"
    elif (out.shape, out.dtype) != (result.shape, result.dtype):
        found = f"has the shape {out.shape} and the dtype {out.dtype}"
    elif not out.flags.writeable:
        found = "is read-only"
    elif any(stride == 0 < size - 1 for stride, size in zip(out.strides, out.shape, strict=True)):
        found = "has elements that share memory"
    if found:
        wanted = f"a NumPy array to write, of the shape {result.shape} and the dtype {result.dtype}"
        raise FormatError(found, wanted, where="out")
    out[...] = result
    return out


def tolerance_of(atol: float | None, rtol: float | None, ulp: int | None, *, equal_nan: bool) -> Tolerance | None:
    """The tolerance, or None to compare bits; UsageError for a negative number, NaN or infinity."""
    from revseq_cli.pipeline.comparison import Tolerance

    for name, each in (("atol", atol), ("rtol", rtol), ("ulp", ulp)):
        if each is not None and not 0 <= each < np.inf:
            raise UsageError(f"is {each}", "a number of at least 0", where=name)
    return Tolerance.asked(atol, rtol, None if ulp is None else operator.index(ulp), equal_nan=equal_nan)


def explained(output: NDArray[Any], asked: Asked, tolerance: Tolerance | None) -> Explanation:
    """How an array differs from the output of a job; FormatError if it has other sizes or another type."""
    from revseq_cli.pipeline.comparison import compared
    from revseq_cli.pipeline.plan import Resources
    from revseq_cli.porting.diagnose import diagnose  # few programs ask for it
    from revseq_cli.porting.sample import opened, reading

    job, resources = asked.valid_job(), Resources("serial")
    undone, a, job = reading(_held(output, "output"), job, tolerance, resources.memory)
    if a.desc != job.values.desc:
        raise FormatError(f"is a tensor {a.desc}", f"one like the values, {job.values.desc}", where="output")
    with opened(a, job, resources) as pair:
        found = compared("compare", pair, tolerance)
        lines, mistakes = diagnose(pair, job, found, tolerance, resources.memory, undone)
    if not found.count:
        return Explanation(0, None, None, mistakes, undone)
    return Explanation(found.count, tuple(found.indices[0].tolist()), lines, mistakes, undone)
