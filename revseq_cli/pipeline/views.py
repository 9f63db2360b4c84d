"""Views: sources that read another source and change what they read."""

from __future__ import annotations

import operator
from collections.abc import Callable
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

    A subclass with other dimensions overrides `map_dimensions`.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.name = source.name
        self.key = source.key
        self.path = source.path
        self.identity = source.identity
        self.dtype = source.dtype
        self.order = source.order
        self.storage = source.storage
        self.encoded = source.encoded
        self.sizes = self.map_dimensions(source.sizes)
        if source.chunks is not None:
            self.chunks = self.map_dimensions(source.chunks)

    def map_dimensions(self, numbers: Sizes) -> Sizes:
        """One number for each dimension of this view, from one for each dimension of the source."""
        return numbers

    @property
    def files(self) -> list[Identity]:
        return self.source.files

    @property
    def downloads(self) -> Downloads:
        return self.source.downloads

    @property
    def cut_alignments(self) -> list[Sizes]:
        return list(map(self.map_dimensions, self.source.cut_alignments))

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
        self.dimensions = source.dimensions
        self.dtype = dtype
        self._make_task = make_task

    def read_task(self, region: Region) -> ReadTask:
        return self._make_task(region)


def as_bytes(source: Source) -> Source:
    """A tensor of BOOL as UINT8, which has the same bytes."""
    return DerivedSource(source, np.dtype(np.uint8), partial(_read_bytes, source))


def _read_bytes(source: Source, region: Region) -> ComputedTask:
    """The task of a region, in a function of the module so that the source pickles."""
    return ComputedTask(operator.methodcaller("view", np.uint8), (source.read_task(region),))
