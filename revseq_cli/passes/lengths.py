"""Sources made of sources: lengths cast exactly, and lengths of rank 1 widened to the input's rank."""

from __future__ import annotations

import contextlib
import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.formats.contract import Source, Ticket
from revseq_cli.formats.held import HeldSource
from revseq_cli.ground.dtypes import data_type_of, dtype_of
from revseq_cli.ground.errors import FormatError, Words
from revseq_cli.ground.tensors import braced

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from numpy.typing import NDArray

    from revseq_cli.formats.regions import Region
    from revseq_cli.ground.tensors import DataType


class _View(Source):
    """A source made of another."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.name, self.dtype, self.sizes, self.order = source.name, source.dtype, source.sizes, source.order
        self.storage, self.identity, self.path = source.storage, source.identity, source.path
        self.described = source.described

    @contextlib.contextmanager
    def at_hand(self, beside: str = "") -> Iterator[Self]:
        """Made of the same, at hand."""
        with self.source.at_hand(beside) as ready:
            view = copy.copy(self)
            view.source = ready
            yield view

    def recheck(self) -> None:
        """As the source has it."""
        self.source.recheck()

    def gaps(self) -> tuple[str, ...]:
        """As the source has them."""
        return self.source.gaps()


class CastSource(_View):
    """Integers in another integer type, each exactly or not at all; the check runs where a region is read."""

    def __init__(self, source: Source, data_type: DataType) -> None:
        if source.desc.data_type.kind not in ("int", "uint"):
            raise FormatError(
                f"DataType is {source.desc.data_type.name}", f"integers, to be cast to {data_type.name}",
                where=source.name,
            )  # fmt: skip
        super().__init__(source)
        self.reads_in_parallel, self.chunks = source.reads_in_parallel, source.chunks
        self.dtype = dtype_of(data_type)

    @property
    def grain(self) -> tuple[int, ...]:
        """As the source has it."""
        return self.source.grain

    def ticket(self, region: Region) -> Ticket:
        """The right to read that region."""
        return _CastTicket(self.source.ticket(region), self.dtype, region, self.name)


@dataclass(frozen=True)
class _CastTicket:
    ticket: Ticket
    dtype: np.dtype[Any]
    region: Region
    name: str

    def read(self) -> NDArray[Any]:
        """The values, cast; FormatError names the first that does not fit."""
        values = self.ticket.read()
        bounds = np.iinfo(self.dtype)
        # A Python integer outside the values' own type compares exactly.
        bad = np.flatnonzero((values < bounds.min) | (values > bounds.max))
        if bad.size:
            place = np.unravel_index(int(bad[0]), values.shape)
            index = [int(i) + part.start for i, part in zip(place, self.region, strict=True)]
            target = data_type_of(self.dtype).name
            raise FormatError(
                f"{values[place]} at {index} does not fit {target}",
                f"{bounds.min} to {bounds.max}; a DirectML length is unsigned", where=self.name,
            )  # fmt: skip
        return values.astype(self.dtype)


class WidenedSource(_View):
    """Lengths of rank 1, one for each index of the batch axis, as if repeated along all axes but the reversed one."""

    def __init__(self, source: Source, sizes: tuple[int, ...], axis: int, batch_axis: int) -> None:
        rank = len(sizes)
        if not 0 <= batch_axis < rank or batch_axis == axis:
            raise FormatError(
                f"the batch axis is {batch_axis}",
                f"0 to {rank - 1}, and not the reversed axis {axis}",
                _batch_axis_hint(source.sizes, sizes, axis, batch_axis),
                source.name,
            )
        if source.sizes != (sizes[batch_axis],):
            wanted = f"{braced((sizes[batch_axis],))}: one length for each index of axis {batch_axis}"
            raise FormatError(f"Sizes is {braced(source.sizes)}", wanted, where=source.name)
        # They are few; where they are chunks, every block would decode them again.
        super().__init__(source)
        if not source.reads_anywhere:
            self.source = HeldSource(source.name, source.read(), source.storage)
        self._original, self._batch_axis, self.order = source, batch_axis, "C"
        self.sizes = tuple(1 if d == axis else size for d, size in enumerate(sizes))  # the axis may be a wrong one

    @property
    def each_once(self) -> Source:
        """What was given."""
        return self._original

    def recheck(self) -> None:
        """As what was given has it."""
        self._original.recheck()

    def gaps(self) -> tuple[str, ...]:
        """As what was given has them."""
        return self._original.gaps()

    def ticket(self, region: Region) -> Ticket:
        """The right to read that region."""
        return _WidenedTicket(self.source.ticket((region[self._batch_axis],)), self._batch_axis, region)


def _batch_axis_hint(lengths: tuple[int, ...], sizes: tuple[int, ...], axis: int, batch_axis: int) -> str | Words:
    """The axis that a negative number counts from the end, or else the first whose size is the lengths' own."""
    rank = len(sizes)
    fitting = [i for i, size in enumerate(sizes) if i != axis and lengths == (size,)]
    meant = batch_axis + rank if batch_axis < 0 else axis
    if 0 <= meant < rank and meant != axis:
        return Words.of("try {}", batch_axis=meant)
    return Words.of("try {}", batch_axis=fitting[0]) if fitting else ""


@dataclass(frozen=True)
class _WidenedTicket:
    ticket: Ticket
    batch_axis: int
    region: Region

    def read(self) -> NDArray[Any]:
        """The lengths, repeated without a copy."""
        sizes = [part.stop - part.start for part in self.region]
        narrow = [1] * len(sizes)
        narrow[self.batch_axis] = sizes[self.batch_axis]
        return np.broadcast_to(self.ticket.read().reshape(narrow), sizes)
