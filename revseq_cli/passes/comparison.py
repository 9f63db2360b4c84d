"""The pass that tells in what two tensors differ: for `diff`, and to verify a copy."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from revseq_cli.ground.errors import EngineError
from revseq_cli.operator import kernel
from revseq_cli.passes.arrangement import arrange_pair
from revseq_cli.passes.engines.crew import results
from revseq_cli.passes.tasks import UNTRUE_HINT, Task, elements
from revseq_cli.texts import literals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from revseq_cli.formats.contract import Sink, Source, Ticket
    from revseq_cli.formats.regions import Region
    from revseq_cli.passes.arrangement import Arrangement, Resources


class Difference(NamedTuple):
    """An element at which two tensors differ: its index, and both values as a text has them."""

    place: tuple[int, ...]
    a: str
    b: str


@dataclass(frozen=True)
class Differences:
    """In what two tensors differ: `count` elements do, `first` has the first of them in C order.

    `absolute` is the largest |a - b|, and `relative` the largest |a - b| / |b|, over all elements that are not the same
    bits and of which it is a number; None where there is none.
    """

    count: int
    first: tuple[Difference, ...]
    absolute: float | None
    relative: float | None


def _larger(*numbers: float | None) -> float | None:
    return max((number for number in numbers if number is not None), default=None)


@dataclass(frozen=True)
class Compare:
    """Holds two tensors' blocks, which lie at `region`, against each other, and tells the `first` differences."""

    tolerance: kernel.Tolerance | None
    first: int
    region: Region

    def __call__(self, a: Ticket, b: Ticket) -> kernel.Differences:
        """The block's share, with indices of the whole tensor."""
        found = kernel.differences(a.read(), b.read(), self.tolerance, self.first)
        return replace(found, places=found.places + np.array([part.start for part in self.region], np.intp))


def compare(
    a: Source,
    b: Source,
    tolerance: kernel.Tolerance | None,
    first: int,
    resources: Resources,
    done: Callable[[int], None] = lambda _: None,
) -> Differences:
    """In what two tensors of the same sizes and data type differ: in bits, or by more than the tolerance.

    The `first` differences are told; `done` hears of the elements of each block. EngineError where the smallest block
    needs more memory.
    """
    with a.at_hand() as near_a, b.at_hand() as near_b:
        return _compared(near_a, near_b, tolerance, first, arrange_pair(a, b, resources), done)


def verify_copy(
    source: Source, sink: Sink, arrangement: Arrangement, done: Callable[[int], None] = lambda _: None
) -> None:
    """Hold what was written against the source, in the copy's blocks; EngineError where a bit differs."""
    written = sink.written()
    place = "in DataType or Sizes"
    if written.desc == source.desc:
        with source.at_hand(sink.beside) as near:
            found = _compared(near, written, None, 1, arrangement, done)
        if not found.count:
            return
        place = f"at {list(found.first[0].place)}"
    raise EngineError(
        f"what was written differs from the input {place}", "the same bits",
        UNTRUE_HINT, written.name,
    )  # fmt: skip


def _compared(
    a: Source,
    b: Source,
    tolerance: kernel.Tolerance | None,
    first: int,
    arrangement: Arrangement,
    done: Callable[[int], None],
) -> Differences:
    tasks = (
        Task(Compare(tolerance, first, region), (a.ticket(region), b.ticket(region)), region, None)
        for region in arrangement.plan
    )

    def shares() -> Iterator[kernel.Differences]:
        for region, share in results(tasks, arrangement):
            done(elements(region))
            yield share

    none = np.empty(0, a.dtype.newbyteorder("="))
    nothing = kernel.Differences(0, np.empty((0, len(a.sizes)), np.intp), none, none, None, None)
    found = functools.reduce(lambda x, y: _together(x, y, first), shares(), nothing)
    indices = map(tuple, found.places.tolist())
    told = map(Difference, indices, literals.render(found.a), literals.render(found.b))
    return Differences(found.count, tuple(told), found.absolute, found.relative)


def _together(x: kernel.Differences, y: kernel.Differences, first: int) -> kernel.Differences:
    """Those of two parts together, with the `first` of both in C order; mostly x has them all."""
    places, a, b = x.places, x.a, x.b
    if not len(places):
        places, a, b = y.places, y.a, y.b
    elif len(y.places) and (len(places) < first or tuple(y.places[0]) < tuple(places[-1])):
        places = np.concatenate([places, y.places])
        order = np.lexsort(places.T[::-1])[:first]
        places, a, b = places[order], np.concatenate([a, y.a])[order], np.concatenate([b, y.b])[order]
    absolute, relative = _larger(x.absolute, y.absolute), _larger(x.relative, y.relative)
    return kernel.Differences(x.count + y.count, places, a, b, absolute, relative)
