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
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Region, Source, Ticket
    from revseq_cli.passes.arrangement import Resources
    from revseq_cli.passes.assembly import Job
    from revseq_cli.passes.comparison import Differences, Tolerance

# How many of the first differences exclude most mistakes, before whole blocks do.
_MOST_PLACES = 10


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

        def task(region: Region, keys: Iterable[int]) -> Task:
            outputs = {key: self.seen(possible[key].output).ticket(region) for key in keys}
            return Task(partial(_contradicted, tolerance, outputs), (self.a.ticket(region),), region)

        def exclude(keys: Iterable[int]) -> None:
            for key in keys:
                possible.pop(key, None)

        for place in found.indices.tolist():  # most mistakes are excluded here
            region = tuple(slice(i, i + 1) for i in place)
            exclude(task(region, [key for key, each in possible.items() if each.a is None])()[1])
        of_a = {key: each for key, each in possible.items() if each.a is None}
        exclude(key for key, each in [*possible.items()] if each.a and not self._explains(each, found, tolerance))
        regions = itertools.takewhile(lambda _: of_a.keys() & possible.keys(), self.arrangement.plan)
        tasks = (task(region, of_a.keys() & possible.keys()) for region in regions)
        for _, keys in completed("find the mistake", tasks, self.arrangement, self.a):
            exclude(keys)
        return tuple(dict.fromkeys(suspect.name for suspect in possible.values()))

    def _explains(self, suspect: Suspect, found: Differences, tolerance: Tolerance | None) -> bool:
        """Whether an output that has an `a` of its own is that one."""
        sizes, a = suspect.output.sizes, suspect.a or self.a
        for place in found.indices:
            number = np.ravel_multi_index(tuple(place), self.a.sizes)
            region = tuple(slice(int(i), int(i) + 1) for i in np.unravel_index(number, sizes))
            if _contradicted(tolerance, {0: suspect.output.ticket(region)}, a.ticket(region).read()):
                return False
        most = self.arrangement.plan.block_elements
        plan = make_plan(sizes, suspect.axis, most_elements=most, grain=(1,) * len(sizes))
        try:
            pair = Pair(a, suspect.output, self.arrangement._replace(plan=plan))
            return not compared("find the mistake", pair, tolerance).count
        except UnreadableError:
            return False


def _contradicted(tolerance: Tolerance | None, outputs: dict[int, Ticket], a: NDArray[Any]) -> list[int]:
    """The keys of the outputs that differ from a block; they are computed one after the other."""

    def explains(output: Ticket) -> bool:
        try:
            return not differences(a, output.read(), tolerance, 0).count
        except UnreadableError:
            return False

    return [key for key, output in outputs.items() if not explains(output)]


@contextlib.contextmanager
def opened(
    a: Source, job: Job, resources: Resources, seen: Callable[[Source], Source] = lambda source: source
) -> Iterator[Oracle]:
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

    Its sizes are a transposition or a flattening, or integers of the same bytes have or lack a sign.
    """
    own, given = desc.data_type, a.desc.data_type
    told = ""
    if own is not given:
        if {own.kind, given.kind} != {"int", "uint"} or own.size != given.size:
            return
        told = f"{own.name} is saved as {given.name}, byte for byte"
        a = _Viewed(a, dtype_of(own).newbyteorder(a.dtype.byteorder))
    if a.sizes == desc.sizes:
        yield told, a
        return
    told += " and " * bool(told)
    ends, all_ends = (set(itertools.accumulate(each.sizes, mul)) for each in (a, desc))
    if ends <= all_ends and a.desc.element_count == desc.element_count:
        yield f"{told}sizes {braced(desc.sizes)} are flattened to {braced(a.sizes)}", Reshaped(a, desc.sizes)
    for order in orders(desc.sizes):
        if a.sizes == tuple(desc.sizes[d] for d in order):
            yield f"{told}the axes of the output are in the order {braced(order)}", transposed(a, inverse(order))


class _Viewed(View):
    """The bytes of another source as elements of another data type of the same size."""

    def __init__(self, source: Source, dtype: np.dtype[Any]) -> None:
        super().__init__(source)
        self.dtype = dtype

    def ticket(self, region: Region) -> Ticket:
        """A ticket that reads the region, and keeps its bytes."""
        return Computed(partial(np.ndarray.view, dtype=self.dtype), (self.source.ticket(region),))
