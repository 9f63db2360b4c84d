"""Holds a tensor against what a job's output should be, and finds the usual mistake that explains what is wrong.

The output is computed block by block, and so are the outputs that `mistakes` would give.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass
from functools import partial
from operator import mul
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.ground.dtypes import dtype_of
from revseq_cli.ground.tensors import TensorDesc, braced
from revseq_cli.passes.arrangement import arrange_oracle
from revseq_cli.passes.comparison import Pair, compared, differences
from revseq_cli.passes.mistakes import Suspect, orders, suspects
from revseq_cli.passes.plan import make_plan
from revseq_cli.passes.reversal import random_access, reversed_output
from revseq_cli.passes.tasks import Task, completed, spooled
from revseq_cli.passes.views import Computed, Reshaped, UnreadableError, View, inverse, transposed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Region, Source, Ticket
    from revseq_cli.passes.arrangement import Resources
    from revseq_cli.passes.assembly import Job
    from revseq_cli.passes.comparison import Differences, Tolerance

# How many of the first differences exclude most mistakes, before whole blocks do.
_MOST_PLACES = 10


def unchanged(source: Source) -> Source:
    """How most outputs are seen."""
    return source


@dataclass(frozen=True)
class Oracle(Pair):
    """A tensor `a` and what is right: the output of a job, whose tensors are cheap to read.

    `seen` makes of each computed output what it looks like in `a`.
    """

    job: Job
    seen: Callable[[Source], Source]
    label = "right"

    def compare(self, tolerance: Tolerance | None, first: int) -> Differences:
        """How `a` differs from what is right, and where in the lines."""
        return compared("compare", self, tolerance, max(first, _MOST_PLACES), self.job)

    def mistakes(self, found: Differences, tolerance: Tolerance | None) -> tuple[str, ...]:
        """The mistakes that explain every element of `a`, given how it differs: `found` has its first difference."""
        whole = not self.arrangement.plan.cuts_lines
        possible = dict(enumerate(suspects(self.job, self.a, found, whole_lines=whole)))
        for i, place in enumerate(found.indices[:_MOST_PLACES]):  # most mistakes are excluded here
            element = found.a[i : i + 1].reshape((1,) * len(place))
            at = int(np.ravel_multi_index(tuple(place), self.a.sizes))
            possible = {key: each for key, each in possible.items() if self._explains_one(each, at, element, tolerance)}
        others = [key for key, each in possible.items() if each.a and not self._explains(each, each.a, tolerance)]
        possible = {key: each for key, each in possible.items() if key not in others}

        def tasks() -> Iterator[Task]:
            for region in self.arrangement.plan:
                outputs = {key: self.seen(each.output) for key, each in possible.items() if not each.a}
                if not outputs:
                    return
                tickets = {key: output.ticket(region) for key, output in outputs.items()}
                yield Task(partial(_contradicted, tolerance, tickets), (self.a.ticket(region),), region)

        for _, keys in completed("find the mistake", tasks(), self.arrangement, self.a):
            possible = {key: each for key, each in possible.items() if key not in keys}
        named: dict[str, str] = {}
        for suspect in possible.values():
            named.setdefault(suspect.group or suspect.name, suspect.name)
        return tuple(dict.fromkeys(named.values()))

    def _explains_one(self, suspect: Suspect, number: int, element: NDArray[Any], tolerance: Tolerance | None) -> bool:
        """Whether an output has that element of `a`, whose number in C order is given, or one of its own `a`."""
        region = tuple(slice(int(i), int(i) + 1) for i in np.unravel_index(number, suspect.output.sizes))
        compared_with = suspect.a.ticket(region).read() if suspect.a else element
        return not _contradicted(tolerance, {0: self.seen(suspect.output).ticket(region)}, compared_with)

    def _explains(self, suspect: Suspect, a: Source, tolerance: Tolerance | None) -> bool:
        """Whether an output that has an `a` of its own is that one."""
        sizes, most = suspect.output.sizes, self.arrangement.plan.block_elements
        plan = make_plan(sizes, suspect.axis, most_elements=most, grain=(1,) * len(sizes))
        try:
            pair = Pair(a, suspect.output, self.arrangement._replace(plan=plan))
            return not compared("find the mistake", pair, tolerance).count
        except UnreadableError:
            return False


def _contradicted(tolerance: Tolerance | None, outputs: dict[int, Ticket], a: NDArray[Any]) -> list[int]:
    """The keys of the outputs that differ from a block; they are computed one after the other."""
    return [key for key, output in outputs.items() if not _equals(output, a, tolerance)]


def _equals(output: Ticket, a: NDArray[Any], tolerance: Tolerance | None) -> bool:
    """Whether an output is that block; not one that cannot be read so."""
    try:
        return not differences(a, output.read(), tolerance, 0).count
    except UnreadableError:
        return False


@contextlib.contextmanager
def opened(a: Source, job: Job, resources: Resources, seen: Callable[[Source], Source] = unchanged) -> Iterator[Oracle]:
    """The oracle for a tensor of the output's sizes; EngineError if the smallest block needs more memory than there is.

    Tensors that are slow to read anywhere are unpacked into the temporary folder.
    """
    arrangement = arrange_oracle(job, a, resources)
    with (
        random_access(job, "", arrangement) as ready,
        a.random_access() as whole,
        spooled(whole, "", arrangement) as ready_a,
    ):
        yield Oracle(ready_a, seen(reversed_output(ready)), arrangement, ready, seen)


def readings(a: Source, desc: TensorDesc) -> Iterator[tuple[str, Source]]:
    """How a tensor of another desc can be read as one of this desc: what was done to it, and the tensor that it was.

    Its sizes are a transposition or a flattening, or have more or fewer of 1, or integers of the same bytes have or
    lack a sign.
    """
    own, given, sizes = desc.data_type, a.desc.data_type, desc.sizes
    told = ""
    if own is not given:
        if {own.kind, given.kind} != {"int", "uint"} or own.size != given.size:
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


class _Viewed(View):
    """The bytes of another source as elements of another data type of the same size."""

    def __init__(self, source: Source, dtype: np.dtype[Any]) -> None:
        super().__init__(source)
        self.dtype = dtype

    def ticket(self, region: Region) -> Ticket:
        """A ticket that reads the region, and keeps its bytes."""
        return Computed(partial(np.ndarray.view, dtype=self.dtype), (self.source.ticket(region),))
