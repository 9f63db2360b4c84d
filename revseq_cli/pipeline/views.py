"""Views: sources that read another source and change what they read."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from revseq_cli.core.dtypes import Array, DType
from revseq_cli.core.tensors import Region, Sizes
from revseq_cli.files.input_file import Identity
from revseq_cli.formats.contract import Downloads, ReadTask, Source

if TYPE_CHECKING:
    from revseq_cli.formats.attributes import Meaning


@dataclass(frozen=True)
class ComputedTask:
    """A read task that calls `step` with what other read tasks read; it pickles if `step` does."""

    step: Callable[..., Array]
    read_tasks: tuple[ReadTask, ...]

    def read(self) -> Array:
        arrays = [read_task.read() for read_task in self.read_tasks]
        return self.step(*arrays)


class View(Source):
    """A source that reads `source`, and is like it except for what a subclass changes.

    `dimension_map` has the dimension of the source for each dimension of the view; None for one in
    which the view repeats the source, and for which it has the number 1 in all tuples. Without a
    map, both have the same dimensions.
    """

    def __init__(self, source: Source, dimension_map: Sequence[int | None] | None = None) -> None:
        if dimension_map is None:
            dimension_map = range(len(source.sizes))
            self.dimensions = source.dimensions
        self._dimension_map = dimension_map
        self.source = source
        self.name = source.name
        self.key = source.key
        self.path = source.path
        self.identity = source.identity
        self.dtype = source.dtype
        self.order = source.order
        self.storage = source.storage
        self.encoded = source.encoded
        self.sizes = self._map_dimensions(source.sizes)
        if source.chunks is not None:
            self.chunks = self._map_dimensions(source.chunks)

    def _map_dimensions(self, numbers: Sizes) -> Sizes:
        """One number for each dimension of this view, from one for each dimension of the source."""
        return tuple(1 if d is None else numbers[d] for d in self._dimension_map)

    @property
    def files(self) -> list[Identity]:
        return self.source.files

    @property
    def downloads(self) -> Downloads:
        return self.source.downloads

    @property
    def cut_alignments(self) -> list[Sizes]:
        return list(map(self._map_dimensions, self.source.cut_alignments))

    @property
    def least_bytes(self) -> int:
        return self.source.least_bytes

    def recheck(self) -> None:
        self.source.recheck()

    def original_for(self, name: str) -> None:
        """None: an output is no copy of the file of the source, which has other elements."""

    def meaning(self) -> Meaning | None:
        return self.source.meaning()


class DerivedSource(View):
    """A source like another one, but with its own data type and read tasks."""

    def __init__(
        self,
        source: Source,
        dtype: DType,
        make_task: Callable[[Region], ReadTask],
    ) -> None:
        super().__init__(source)
        self.dtype = dtype
        self._make_task = make_task

    def read_task(self, region: Region) -> ReadTask:
        return self._make_task(region)


def as_bytes(source: Source) -> Source:
    """A tensor of BOOL as UINT8, which has the same bytes."""
    return DerivedSource(source, np.dtype(np.uint8), partial(_read_bytes, source))


def _read_bytes(source: Source, region: Region) -> ComputedTask:
    return ComputedTask(operator.methodcaller("view", np.uint8), (source.read_task(region),))
