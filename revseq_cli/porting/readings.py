"""How a tensor of other sizes or another data type can be read as a job's output: what was done to it is a mistake."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from operator import mul
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.core.dtypes import dtype_of
from revseq_cli.core.tensors import TensorDesc, braced
from revseq_cli.pipeline.summaries import span_of_lengths
from revseq_cli.pipeline.views import Computed, Reshaped, View, inverse, transposed
from revseq_cli.porting import diagnosis
from revseq_cli.porting.relations import orders

if TYPE_CHECKING:
    from collections.abc import Iterator

    from revseq_cli.formats.contract import ReadTask, Region, Source
    from revseq_cli.pipeline.arrangement import Resources
    from revseq_cli.pipeline.assembly import Job
    from revseq_cli.pipeline.comparison import Tolerance


# The kinds of data types that are taken for each other where only bytes are saved.
_SAME_BYTES = ({"int", "uint"}, {"float", "uint"}, {"float", "int"})


def nearest_reading(a: Source, job: Job, resources: Resources, tolerance: Tolerance | None) -> tuple[str, Source, Job]:
    """What was done to A, if it can be read as the output, A as it was, and the job that is right for it.

    Of several readings, it is the one that differs least.
    """
    found = {}
    if a.desc != job.values.desc:
        if of_cut := cut(a, job):
            return of_cut[0], a, of_cut[1]
        for told, read in readings(a, job.values.desc):
            with diagnosis.opened(read, job, resources) as pair:
                count = pair.compare(tolerance, 1).count
            if not is_numbers(a, job.values.desc, count):
                found[told] = count, read
    told = min(found, key=lambda each: found[each][0], default="")
    return told, found[told][1] if found else a, job


def is_numbers(a: Source, desc: TensorDesc, differing: int) -> bool:
    """Whether integers are no bytes of floats: read so, none of them is right."""
    return (
        "float" in (a.desc.data_type.kind, desc.data_type.kind)
        and a.desc.data_type is not desc.data_type
        and (differing == desc.element_count)
    )


def readings(a: Source, desc: TensorDesc) -> Iterator[tuple[str, Source]]:
    """How a tensor of another desc can be read as one of this desc: what was done to it, and the tensor that it was.

    Its sizes are a transposition or a flattening, or have more or fewer of 1, or elements of as many bytes are of
    another data type.
    """
    own, given, sizes = desc.data_type, a.desc.data_type, desc.sizes
    told = ""
    if own is not given:
        if {own.kind, given.kind} not in _SAME_BYTES or own.size != given.size:
            return
        told = f"{own.name} is saved as {given.name}, byte for byte"
        a = _Viewed(a, dtype_of(own).newbyteorder(a.dtype.byteorder))
    if a.sizes == sizes:
        yield told, a
        return
    told = told and f"{told} and "
    long, own_long = (tuple(size for size in each if size > 1) for each in (a.sizes, sizes))
    ends, own_ends = ({*itertools.accumulate(each, mul)} for each in (long, own_long))
    if long == own_long:
        yield f"{told}sizes {braced(sizes)} are {braced(a.sizes)}, with other sizes of 1", Reshaped(a, sizes)
    elif ends <= own_ends and a.desc.element_count == desc.element_count:
        yield f"{told}sizes {braced(sizes)} are flattened to {braced(a.sizes)}", Reshaped(a, sizes)
    for order in orders(sizes):
        if a.sizes == tuple(sizes[d] for d in order):
            yield f"{told}the axes of the output are in the order {braced(order)}", transposed(a, inverse(order))


def cut(a: Source, job: Job) -> tuple[str, Job] | None:
    """Where A is the output cut along the axis, and no line is longer than that: what was done, and the job of A.

    So PyTorch's pad_packed_sequence gives it, cut to the longest length.
    """
    size, axis = job.values.sizes[job.axis], job.axis
    kept = a.sizes[axis] if len(a.sizes) > axis else size
    sizes = tuple(kept if d == axis else each for d, each in enumerate(job.values.sizes))
    if not 0 < kept < size or a.sizes != sizes or a.desc.data_type is not job.values.desc.data_type:
        return None
    longest = span_of_lengths(job.lengths, ()).greatest if job.lengths.desc.element_count else 0
    if longest > kept:
        return None
    what = "the longest length, " if longest == kept else ""
    told = f"along axis {axis} the output is cut to {what}{kept} of {size}"
    return told, replace(job, values=_Cut(job.values, sizes))


class _Cut(View):
    """The first elements of another source along its dimensions."""

    def __init__(self, source: Source, sizes: tuple[int, ...]) -> None:
        super().__init__(source)
        self.sizes = sizes
        if source.chunks:
            self.chunks = tuple(map(min, source.chunks, sizes))

    def read_task(self, region: Region) -> ReadTask:
        """That of the source."""
        return self.source.read_task(region)


class _Viewed(View):
    """The bytes of another source as elements of another data type of the same size."""

    def __init__(self, source: Source, dtype: np.dtype[Any]) -> None:
        super().__init__(source)
        self.dtype = dtype

    def read_task(self, region: Region) -> ReadTask:
        """A read task that reads the region, and keeps its bytes."""
        return Computed(partial(np.ndarray.view, dtype=self.dtype), (self.source.read_task(region),))
