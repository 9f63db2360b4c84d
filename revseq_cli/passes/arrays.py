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
    from collections.abc import Mapping

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


def reversed_as_asked(
    values: NDArray[Any], lengths: NDArray[Any], axis: int | None, settings: Mapping[str, Any]
) -> NDArray[Any]:
    """A new array: the output for `axis` and `settings`, which are the batch axis and the name of another system."""
    if axis is not None and not any(each is not None for each in settings.values()):
        descs, axis = (describe(values, "values"), describe(lengths, "lengths")), operator.index(axis)
        if not spec.violations(*descs, axis, spec.FeatureLevel.NONE):
            return kernel.reverse(values, lengths, axis)
    job = _job_of(values, lengths, axis, settings)
    return kernel.reverse(values, job.lengths.read(), job.axis)


def _job_of(values: NDArray[Any], lengths: NDArray[Any], axis: int | None, settings: Mapping[str, Any]) -> Job:
    """The job of two arrays, as the command makes it of two files; RevseqError for what makes none.

    Signed lengths are cast to UINT64, which fails for negative ones where they are read.
    """
    from revseq_cli.passes.assembly import Parts, Request, assemble, require_system  # a small call needs none of it
    from revseq_cli.passes.systems import SYNONYMS, SYSTEMS

    like = settings["like"] and SYNONYMS.get(settings["like"], settings["like"])
    if like and like not in SYSTEMS:
        raise UsageError(f"no system is named {like}", f"one of {listed(SYSTEMS)}", where="like")
    axis, batch_axis = (None if each is None else operator.index(each) for each in (axis, settings["batch_axis"]))
    stored = Storage("array", {})
    sources = HeldSource("values", values, stored), HeldSource("lengths", lengths, stored)
    signed = DataType.UINT64 if lengths.dtype.kind == "i" else None
    request = Request("values", "lengths", axis, lengths_dtype=signed, batch_axis=batch_axis, like=like)
    job = assemble(Parts(*sources, request))
    if broken := spec.violations(job.values.desc, job.lengths.desc, job.axis, spec.FeatureLevel.NONE):
        raise spec.SpecError(broken, {})
    require_system(job)
    return job


def store(result: NDArray[Any], out: NDArray[Any]) -> NDArray[Any]:
    """Copy the result into an array that a program has given for it; FormatError unless it is one like the result."""
    if (out.shape, out.dtype) != (result.shape, result.dtype):
        found = f"has the shape {out.shape} and the dtype {out.dtype}"
        raise FormatError(found, f"the shape {result.shape} and the dtype {result.dtype}", where="out")
    out[...] = result
    return out


def explained(
    output: NDArray[Any], values: NDArray[Any], lengths: NDArray[Any], axis: int | None, settings: Mapping[str, Any]
) -> Explanation:
    """How an array differs from the output of a job; FormatError unless it has the output's sizes and data type."""
    from revseq_cli.passes import oracle  # few programs ask for it
    from revseq_cli.passes.arrangement import Resources

    job, held = _job_of(values, lengths, axis, settings), HeldSource("output", output, Storage("array", {}))
    if held.desc != job.values.desc:
        raise FormatError(f"is a tensor {held.desc}", f"one like the values, {job.values.desc}", where=held.name)
    with oracle.opened(held, job, Resources("serial")) as pair:
        found = pair.compare(None, 1)
        mistakes = pair.mistakes(found, None) if found.count else ()
    return Explanation(found.count, tuple(found.indices[0].tolist()) if found.count else None, mistakes)
