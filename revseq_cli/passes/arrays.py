"""The operator for the arrays of a Python program: what the functions of the package do."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.formats.contract import Storage
from revseq_cli.formats.held import HeldSource
from revseq_cli.ground.dtypes import describe
from revseq_cli.ground.errors import FormatError, UsageError, listed
from revseq_cli.ground.tensors import DataType
from revseq_cli.operator import kernel, spec

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.passes.assembly import Job


class Explanation(NamedTuple):
    """How an array differs from what is right.

    `differing` is the number of elements whose bits differ, and `first` the index of the first one. `mistakes` are
    sentences: each names a usual mistake that gives the whole array. Where nothing differs, `first` is None, and there
    are no mistakes.
    """

    differing: int
    first: tuple[int, ...] | None
    mistakes: tuple[str, ...]


def array_of(given: Any, name: str) -> NDArray[Any]:  # noqa: ANN401 - whatever NumPy makes an array of
    """The array that a program gives as `name`; FormatError for a masked one, of which the mask would be lost."""
    if isinstance(given, np.ma.MaskedArray):
        found, hint = "is a masked array, and a tensor has no mask", "give array.data, or array.filled(...)"
        raise FormatError(found, "an array without a mask", hint, name)
    if hasattr(given, "__dlpack__") and not hasattr(given, "__array__"):
        return np.from_dlpack(given)
    return np.asarray(given)


class Asked(NamedTuple):
    """A job as a program asks for it, with the axes and the system that the command has."""

    values: NDArray[Any]
    lengths: NDArray[Any]
    axis: int | None
    batch_axis: int | None
    like: str | None

    @classmethod
    def of(cls, values: Any, lengths: Any, *settings: Any) -> Asked:  # noqa: ANN401 - whatever NumPy makes an array of
        """The same with arrays."""
        return cls(array_of(values, "values"), array_of(lengths, "lengths"), *settings)

    def job(self, signed: DataType | None = None) -> Job:
        """The job, as the command makes it of two files; RevseqError for what makes none.

        Signed lengths are cast to the data type `signed`, which fails for negative ones where they are read.
        """
        from revseq_cli.passes.assembly import Parts, Request, assemble  # a small call needs none of it
        from revseq_cli.passes.systems import SYNONYMS, SYSTEMS

        like = None if self.like is None else SYNONYMS.get(self.like, self.like)
        if like is not None and like not in SYSTEMS:
            raise UsageError(f"no system is named {like!r}", f"one of {listed(SYSTEMS)}", where="like")
        axis, batch_axis = (None if each is None else operator.index(each) for each in (self.axis, self.batch_axis))
        cast = signed if self.lengths.dtype.kind == "i" else None
        request = Request("values", "lengths", axis, lengths_dtype=cast, batch_axis=batch_axis, like=like)
        return assemble(Parts(_held(self.values, "values"), _held(self.lengths, "lengths"), request))

    def valid_job(self) -> Job:
        """The same; RevseqError also where it breaks rules of the operator, or of the system that it is like."""
        from revseq_cli.passes.assembly import require_system

        job = self.job(DataType.UINT64)
        if broken := spec.violations(job.values.desc, job.lengths.desc, job.axis, spec.FeatureLevel.NONE):
            raise spec.SpecError(broken, {})
        require_system(job)
        return job


def _held(array: NDArray[Any], name: str) -> HeldSource:
    """An array as a source; FormatError for a dtype that no tensor has."""
    describe(array, name)
    return HeldSource(name, array, Storage("array", {}))


def reversed_as_asked(asked: Asked) -> NDArray[Any]:
    """A new array: the output."""
    values, lengths, axis, *others = asked
    if axis is not None and others == [None, None]:
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
    """Copy the result into an array that a program has given for it; FormatError unless it holds the result."""
    found = ""
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        found = f"is a {type(out).__name__}"
    elif (out.shape, out.dtype) != (result.shape, result.dtype):
        found = f"has the shape {out.shape} and the dtype {out.dtype}"
    elif not out.flags.writeable:
        found = "is read-only"
    elif any(stride == 0 < size - 1 for stride, size in zip(out.strides, out.shape, strict=True)):
        found = "has elements that are one in memory"
    if found:
        wanted = f"a NumPy array to write, of the shape {result.shape} and the dtype {result.dtype}"
        raise FormatError(found, wanted, where="out")
    out[...] = result
    return out


def explained(output: NDArray[Any], asked: Asked) -> Explanation:
    """How an array differs from the output of a job; FormatError unless it has the output's sizes and data type."""
    from revseq_cli.passes import oracle  # few programs ask for it
    from revseq_cli.passes.arrangement import Resources

    job, held = asked.valid_job(), _held(output, "output")
    if held.desc != job.values.desc:
        raise FormatError(f"is a tensor {held.desc}", f"one like the values, {job.values.desc}", where=held.name)
    with oracle.opened(held, job, Resources("serial")) as pair:
        found = pair.compare(None, 1)
        mistakes = pair.mistakes(found, None) if found.count else ()
    return Explanation(found.count, tuple(found.indices[0].tolist()) if found.count else None, mistakes)
