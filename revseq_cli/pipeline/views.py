"""Views: sources that read another source and change what they read."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from revseq_cli.core import thresholds
from revseq_cli.core.dtypes import Array, DType
from revseq_cli.core.tensors import Region, Sizes, sizes_of
from revseq_cli.files.input_file import Identity
from revseq_cli.formats.contract import Downloads, ReadTask, Source
from revseq_cli.formats.memory import MemorySource
from revseq_cli.operator.spec import lengths_sizes

if TYPE_CHECKING:
    from revseq_cli.formats.attributes import Meaning

# For each dimension of the lengths, the axis of the values that it runs along, or None. A dimension
# without an axis has size 1.
AxisMap = tuple[int | None, ...]


@dataclass(frozen=True)
class ComputedTask:
    """A read task that calls `step` with what other read tasks read; picklable if `step` is."""

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

    def original_for(self, _output: str) -> None:
        """None: the source's file has other elements, so that no output begins as its copy."""

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
    """The task of a region, in a function of the module so that the source can be pickled."""
    return ComputedTask(operator.methodcaller("view", np.uint8), (source.read_task(region),))


class PlacedSource(View):
    """Lengths along some axes of the values, repeated along all others except the reversed one.

    The result has the `sizes` of the values, with 1 along the reversed axis.
    """

    def __init__(self, source: Source, sizes: Sizes, axis: int, axis_map: AxisMap) -> None:
        self._axis_map = axis_map
        self._axis = axis
        self._values_sizes = sizes
        super().__init__(source)
        self.sizes = lengths_sizes(sizes, axis)

    def map_dimensions(self, numbers: Sizes) -> Sizes:
        """The numbers at the axes that the lengths run along, and 1 where they are repeated."""
        mapped = [1] * len(self._values_sizes)
        for number, axis in zip(numbers, self._axis_map, strict=True):
            if axis is not None:
                mapped[axis] = number
        return tuple(mapped)

    def read_task(self, region: Region) -> ReadTask:
        parts = [slice(0, 1)] * len(self._axis_map)
        for i, axis in enumerate(self._axis_map):
            if axis is not None:
                parts[i] = region[axis]
        step = partial(_repeat, self._axis_map, sizes_of(region))
        return ComputedTask(step, (self.source.read_task(tuple(parts)),))

    def read(self) -> Array:
        return _repeat(self._axis_map, self.sizes, self.source.read())

    def in_memory(self, most: int) -> PlacedSource:
        """The same with its lengths in memory, if they are few and each block would decode them.

        They are few if they take at most `most` bytes. Otherwise, this is the source itself.
        """
        if self.chunks is None:
            return self
        most = min(most, 8 * thresholds.LENGTHS_AT_ONCE)
        if self.source.desc.total_bytes > most:
            return self
        source = MemorySource.of(self.source)
        return PlacedSource(source, self._values_sizes, self._axis, self._axis_map)


def _repeat(axis_map: AxisMap, sizes: Sizes, lengths: Array) -> Array:
    """A view of the lengths along their axes, repeated along the others up to these sizes.

    The comments have the shapes for an axis map (2, None, 0) and the sizes (3, 5, 4).
    """
    without_axis = tuple(i for i, axis in enumerate(axis_map) if axis is None)
    axes = [axis for axis in axis_map if axis is not None]
    others = [d for d in range(len(sizes)) if d not in axes]
    squeezed = lengths.squeeze(without_axis)  # (4, 1, 3) becomes (4, 3)
    in_order = squeezed.transpose(np.argsort(axes))  # (3, 4)
    return np.broadcast_to(np.expand_dims(in_order, others), sizes)  # from (3, 1, 4)
