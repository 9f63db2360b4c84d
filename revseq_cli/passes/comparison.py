"""The pass that compares two tensors block by block: for `diff`, and to verify what was written."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.ground.errors import EngineError
from revseq_cli.passes.arrangement import arrange_pair
from revseq_cli.passes.differences import Differences, Where, located
from revseq_cli.passes.tasks import UNTRUE_HINT, Task, completed, lengths_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Sink, Source, Ticket
    from revseq_cli.formats.regions import Region
    from revseq_cli.passes.arrangement import Arrangement, Resources
    from revseq_cli.passes.differences import Tolerance


@dataclass(frozen=True)
class Lines:
    """The lines of a job's output: its axis, the size of that axis, and the lengths, which can be read anywhere."""

    axis: int
    size: int
    lengths: Source

    def tickets(self, region: Region) -> tuple[Ticket, ...]:
        """The ticket for the lengths of a region."""
        return (self.lengths.ticket(lengths_of(region, self.axis)),)


@dataclass(frozen=True)
class Compare:
    """The step that compares two tensors' blocks at `region`; the result has the `first` differences.

    With the block's lengths, for an `axis` of `size`, the result says where in the lines the differences are.
    """

    tolerance: Tolerance | None
    first: int
    region: Region
    axis: int = 0
    size: int = 0

    def __call__(self, a: Ticket, b: Ticket, lengths: Ticket | None = None) -> Differences:
        """The differences of the block, with indices of the whole tensor."""
        values = a.read()
        part, places = located(values, b.read(), self.tolerance, self.first)
        part = replace(part, indices=part.indices + np.array([each.start for each in self.region], np.intp))
        if not lengths:
            return part
        axis = self.axis
        where = Where.of(places, values.shape, lengths.read(), axis, self.region[axis], self.size)
        return replace(part, where=where)


@dataclass(frozen=True)
class Pair:
    """Two tensors of the same sizes and data type, cheap to read in the blocks of the arrangement."""

    a: Source
    right: Source
    arrangement: Arrangement
    label = "B"

    def compare(self, tolerance: Tolerance | None, first: int) -> Differences:
        """How they differ: in bits, or by more than the tolerance, with the `first` elements that do."""
        return compared("compare", self.a, self.right, tolerance, first, self.arrangement)

    def mistakes(self, found: Differences, tolerance: Tolerance | None) -> tuple[str, ...]:  # noqa: ARG002
        """The mistakes that would give `a`: of two tensors, nothing says what they should be."""
        return ()


@contextlib.contextmanager
def opened(a: Source, b: Source, resources: Resources) -> Iterator[Pair]:
    """The pair; EngineError where the smallest block needs more memory than there is."""
    arrangement = arrange_pair(a, b, resources)
    with a.at_hand() as ready_a, b.at_hand() as ready_b:
        yield Pair(ready_a, ready_b, arrangement)


def differing(a: Source, b: Source, tolerance: Tolerance | None) -> Callable[[Region], NDArray[np.bool_]]:
    """A function that gives, for a region, a mask of the elements that differ."""

    def mask(region: Region) -> NDArray[np.bool_]:
        values = a.ticket(region).read()
        _, places = located(values, b.ticket(region).read(), tolerance, 0)
        chosen = np.zeros(values.shape, np.bool_)
        chosen.reshape(-1)[places] = True
        return chosen

    return mask


def verify_copy(source: Source, sink: Sink, arrangement: Arrangement) -> None:
    """Compare what was written with the source, in the copy's blocks; EngineError where a bit differs."""
    written = sink.written()
    place = "in DataType or Sizes"
    if written.desc == source.desc:
        with source.at_hand(sink.beside) as ready:
            result = compared("verify", ready, written, None, 1, arrangement)
        if not result.count:
            return
        place = f"at {result.indices[0].tolist()}"
    raise EngineError(
        f"what was written differs from the input {place}", "the same bits",
        UNTRUE_HINT, written.name,
    )  # fmt: skip


def compared(
    stage: str,
    a: Source,
    b: Source,
    tolerance: Tolerance | None,
    first: int,
    arrangement: Arrangement,
    lines: Lines | None = None,
) -> Differences:
    """How two tensors of one desc differ, in blocks; with `lines`, the result says where in them they differ."""
    place = (lines.axis, lines.size) if lines else ()
    tasks = (
        Task(
            Compare(tolerance, first, region, *place),
            (a.ticket(region), b.ticket(region), *(lines.tickets(region) if lines else ())), region, None,
        )
        for region in arrangement.plan
    )  # fmt: skip
    found = Differences.none(a.dtype, len(a.sizes))
    cut: NDArray[Any] | None = None
    for region, part in completed(stage, tasks, arrangement, a):
        if lines and part.where.cut is not None:
            if cut is None:
                cut = np.zeros(lines.lengths.sizes, np.bool_)
            cut[lengths_of(region, lines.axis)] |= part.where.cut
        found = found.merged(part, first)
    if cut is not None:
        found = replace(found, where=found.where._replace(lines=int(np.count_nonzero(cut))))
    return found
