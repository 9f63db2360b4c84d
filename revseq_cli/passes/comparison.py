"""The pass that compares two tensors block by block: for `diff`, and to verify a copy."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from revseq_cli.ground.errors import EngineError
from revseq_cli.passes.arrangement import arrange_pair
from revseq_cli.passes.differences import Differences, differences
from revseq_cli.passes.engines.crew import results
from revseq_cli.passes.tasks import UNTRUE_HINT, Task, elements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from revseq_cli.formats.contract import Sink, Source, Ticket
    from revseq_cli.formats.regions import Region
    from revseq_cli.passes.arrangement import Arrangement, Resources
    from revseq_cli.passes.differences import Tolerance


@dataclass(frozen=True)
class Compare:
    """The step that compares two tensors' blocks at `region`; the result has the `first` differences."""

    tolerance: Tolerance | None
    first: int
    region: Region

    def __call__(self, a: Ticket, b: Ticket) -> Differences:
        """The differences of the block, with indices of the whole tensor."""
        part = differences(a.read(), b.read(), self.tolerance, self.first)
        return replace(part, indices=part.indices + np.array([each.start for each in self.region], np.intp))


def compare(
    a: Source,
    b: Source,
    tolerance: Tolerance | None,
    first: int,
    resources: Resources,
    done: Callable[[int], None] = lambda _: None,
) -> Differences:
    """How two tensors of the same sizes and data type differ: in bits, or by more than the tolerance.

    The result has the values of the `first` elements that differ. `done` is called with the number of elements of each
    block. EngineError where the smallest block needs more memory than there is.
    """
    with a.at_hand() as ready_a, b.at_hand() as ready_b:
        return _compared(ready_a, ready_b, tolerance, first, arrange_pair(a, b, resources), done)


def verify_copy(
    source: Source, sink: Sink, arrangement: Arrangement, done: Callable[[int], None] = lambda _: None
) -> None:
    """Compare what was written with the source, in the copy's blocks; EngineError where a bit differs."""
    written = sink.written()
    place = "in DataType or Sizes"
    if written.desc == source.desc:
        with source.at_hand(sink.beside) as ready:
            result = _compared(ready, written, None, 1, arrangement, done)
        if not result.count:
            return
        place = f"at {result.indices[0].tolist()}"
    raise EngineError(
        f"what was written differs from the input {place}", "the same bits",
        UNTRUE_HINT, written.name,
    )  # fmt: skip


def _compared(
    a: Source,
    b: Source,
    tolerance: Tolerance | None,
    first: int,
    arrangement: Arrangement,
    done: Callable[[int], None],
) -> Differences:
    tasks = (
        Task(Compare(tolerance, first, region), (a.ticket(region), b.ticket(region)), region, None)
        for region in arrangement.plan
    )

    def parts() -> Iterator[Differences]:
        for region, part in results(tasks, arrangement):
            done(elements(region))
            yield part

    none = Differences.none(a.dtype, len(a.sizes))
    return functools.reduce(lambda x, y: x.merged(y, first), parts(), none)
