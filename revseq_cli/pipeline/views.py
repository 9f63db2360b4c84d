"""Views: sources that read another source and convert what it reads.

They are lengths in the dimensions of the values, the lengths that a mask stands for, exact casts, and tensors of
another dimension count.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.core import dtypes, thresholds
from revseq_cli.core.dtypes import data_type_of, dtype_of
from revseq_cli.core.errors import FormatError
from revseq_cli.core.tensors import DataType, braced
from revseq_cli.formats.contract import ReadTask, Source, Storage
from revseq_cli.formats.in_memory import MemorySource
from revseq_cli.formats.table import named
from revseq_cli.operator.spec import lengths_sizes
from revseq_cli.pipeline.blocks import cut, sizes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Coordinate, Region
    from revseq_cli.formats.file_io import Identity
    from revseq_cli.pipeline.alignment import Places

# The kinds of data types between which values are cast.
_CAST_TO = ("float", "int", "uint")
_CAST_FROM = (*_CAST_TO, "minifloat", "bool")
# Bytes for an element of a mask, beside itself: what it is held against, and what is wrong.
_COUNTED_BYTES = 8


def pieces(lengths: Source) -> Iterator[tuple[Region, NDArray[Any]]]:
    """All lengths in C order, as many at once as are few: their region, and what is read of it."""
    cut_alignment = (1,) * len(lengths.sizes)
    for region in cut(lengths.sizes, None, most=thresholds.LENGTHS_AT_ONCE, alignment=cut_alignment):
        yield region, lengths.read_task(region).read()


def index_of(found: NDArray[np.bool_], region: Region) -> list[int]:
    """Where the first element of a region is that was found, as an index into the whole tensor."""
    place = np.unravel_index(int(found.argmax()), found.shape)
    return [int(i) + part.start for i, part in zip(place, region, strict=True)]


@dataclass(frozen=True)
class Computed:
    """A read task whose values a function makes of what other read tasks read; it pickles if the function does."""

    step: Callable[..., NDArray[Any]]
    read_tasks: tuple[ReadTask, ...]

    def read(self) -> NDArray[Any]:
        """What the function makes."""
        return self.step(*(read_task.read() for read_task in self.read_tasks))


class View(Source):
    """A source that reads another source and converts what it reads.

    It begins as that source in all respects; `placed` brings sizes, chunks and cut alignments to its own dimensions. It
    reads `source`, which may become a copy that is cheaper to read; what is known of the file is that of the
    `original`.
    """

    def __init__(self, source: Source) -> None:
        self.source = self.original = source
        self.name, self.dtype, self.order, self.storage = source.name, source.dtype, source.order, source.storage
        self.identity, self.path = source.identity, source.path
        self.notes, self.encoded = source.notes, source.encoded
        self.sizes, self.chunks = self.placed(source.sizes), self.placed(source.chunks) if source.chunks else None

    @property
    def files(self) -> list[Identity]:
        """Those of the source."""
        return self.original.files

    def placed(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """A number for each dimension of the source, as one for each dimension of this view."""
        return numbers

    @property
    def cut_alignments(self) -> list[tuple[int, ...]]:
        """Those of the source, in these dimensions."""
        return [*map(self.placed, self.source.cut_alignments)]

    @property
    def least_bytes(self) -> int:
        """Those of the original, also where a copy of it is held now."""
        return self.original.least_bytes

    def conventions(self) -> dict[str, list[Any]]:
        """Those of the original."""
        return self.original.conventions()

    def recheck(self) -> None:
        """TensorIOError if the original's file is not as it was."""
        self.original.recheck()

    def absent_notes(self) -> tuple[str, ...]:
        """The notes of the original."""
        return self.original.absent_notes()


class Derived(View):
    """A source like another one, but for the `dtype`, whose read task for a region is what `read_task_of` gives."""

    def __init__(self, source: Source, dtype: np.dtype[Any], read_task_of: Callable[[Region], ReadTask]) -> None:
        super().__init__(source)
        self.dtype, self._read_task_of = dtype, read_task_of

    def read_task(self, region: Region) -> ReadTask:
        """The read task that the function gives."""
        return self._read_task_of(region)


class PlacedSource(View):
    """A tensor with its dimensions in other places of `rank` dimensions, all others of which it is constant along.

    `places` has for each dimension of the source that of the view, or None for one of size 1 that is left out.
    """

    def __init__(self, source: Source, places: Places, rank: int) -> None:
        self._places, self._rank = places, rank
        super().__init__(source)

    def placed(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """Numbers of the source's dimensions, in their places, and 1 elsewhere: there, a cut is cheap anywhere."""
        placed = dict(zip(self._places, numbers, strict=True))
        return tuple(placed.get(d, 1) for d in range(self._rank))

    def read_task(self, region: Region) -> ReadTask:
        """A read task that reads the region in the source's dimensions, and repeats what it reads."""
        inner = tuple(slice(0, 1) if d is None else region[d] for d in self._places)
        return Computed(partial(_repeated, self._places, sizes_of(region)), (self.source.read_task(inner),))


def _repeated(places: Places, sizes: tuple[int, ...], values: NDArray[Any]) -> NDArray[Any]:
    """A view of the values in these sizes, with their dimensions in these places."""
    placed = sorted((d, i) for i, d in enumerate(places) if d is not None)
    left_out = [i for i, d in enumerate(places) if d is None]
    narrow = [1] * len(sizes)
    for d, i in placed:
        narrow[d] = values.shape[i]
    turned = values.transpose([*(i for _, i in placed), *left_out])
    return np.broadcast_to(turned.reshape(narrow), sizes)


class AlignedSource(PlacedSource):
    """Lengths whose dimensions go along some of the values', repeated along all others but the reversed axis.

    `places` has for each dimension of the source, which is `original`, that of the values, or None for one of size 1;
    `sizes` are those of the values.
    """

    def __init__(self, source: Source, sizes: tuple[int, ...], axis: int, places: Places, note: str = "") -> None:
        super().__init__(source, places, len(sizes))
        is_few = len(source.sizes) == 1 and source.desc.element_count <= thresholds.LENGTHS_AT_ONCE
        if is_few and (source.chunks or isinstance(source, MaskSource)):  # else every block would decode or count anew
            self.source = MemorySource.of(source)
            self.encoded, self.chunks = False, None
        self.sizes = lengths_sizes(sizes, axis)
        self.notes += (note,) * bool(note)


def with_rank(source: Source, rank: int | None) -> Source:
    """The source with `rank` dimensions; itself for None, and where it has as many. FormatError if it cannot be."""
    return source if rank is None or rank == len(source.sizes) else RankedSource(source, rank)


class RankedSource(PlacedSource):
    """A tensor with leading sizes of 1 added, or removed; the elements stay as they are.

    FormatError where a leading size to remove is not 1.
    """

    def __init__(self, source: Source, rank: int) -> None:
        removed = source.sizes[: max(0, len(source.sizes) - rank)]
        if any(size != 1 for size in removed):
            wanted = f"{braced((1,) * len(removed) + source.sizes[len(removed) :])}, to remove leading sizes of 1"
            raise FormatError(f"Sizes is {braced(source.sizes)}", wanted, where=source.name)
        first = rank - len(source.sizes)
        places = tuple(None if d < 0 else d for d in range(first, rank))
        super().__init__(source, places, rank)
        self.key = source.key
        if (row := named(source.storage.format)) and row.keeps_others:
            self.notes += (f"of {source.name} only the elements are copied, since the dimension count changes",)
        # Not the format alone: its file cannot be copied with this tensor instead of the old one.
        self.storage = Storage(f"{source.storage.format} of another dimension count", source.storage.details)


class CastSource(View):
    """Values in another data type; reading a region raises FormatError if one of its values does not fit.

    A value fits if it casts back to itself: a fraction is no integer, nor is -0.0. A NaN stays a NaN, perhaps with
    other bits. FormatError for complex values. `setting` is the option that asks for the cast of lengths.
    """

    def __init__(self, source: Source, data_type: DataType, setting: str = "") -> None:
        if source.desc.data_type.kind not in _CAST_FROM:
            wanted = f"numbers that are not complex, to be cast to {data_type.name}"
            raise FormatError(f"DataType is {source.desc.data_type.name}", wanted, where=source.name)
        super().__init__(source)
        self.dtype, self._setting, self.dimensions = dtype_of(data_type), setting, source.dimensions

    def coordinate(self, dimension: int) -> Coordinate | None:
        """That of the source."""
        return self.source.coordinate(dimension)

    def read_task(self, region: Region) -> ReadTask:
        """A read task that reads the region and casts it."""
        step = partial(_cast, self.dtype, region, self.name, self._setting)
        return Computed(step, (self.source.read_task(region),))


def _cast(dtype: np.dtype[Any], region: Region, name: str, setting: str, values: NDArray[Any]) -> NDArray[Any]:
    """The cast values; FormatError with the first one that does not fit."""
    values = dtypes.numbers(values)
    flat, count = values.ravel("K"), thresholds.CAST_AT_ONCE  # since the check takes several times the memory
    if not all(_fits(flat[start : start + count], dtype).all() for start in range(0, len(flat), count)):
        fits = _fits(values, dtype)
        index, value = index_of(~fits, region), values[~fits][:1]
        wider = setting and dtype.itemsize < 8 and _fits(value, np.dtype(np.uint64))[0]
        found = f"{value[0]} at {index} does not fit {data_type_of(dtype).name}"
        hint = f"try {setting} UINT64" if wider else ""
        raise FormatError(found, _wanted(values.dtype, dtype), hint, name)
    with np.errstate(all="ignore"):
        return values.astype(dtype)


def _fits(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[np.bool_]:
    """Which values the dtype holds exactly."""
    if values.dtype.kind == "b":
        return np.ones(values.shape, np.bool_)
    with np.errstate(all="ignore"):
        if dtype.kind in "iu" and values.dtype.kind in "iu":
            # NumPy compares exactly even with a Python integer that the values' data type does not have.
            bounds = np.iinfo(dtype)
            return (values >= bounds.min) & (values <= bounds.max)
        if dtype.kind == "f" and values.dtype.kind == "f":
            back = values.astype(dtype).astype(values.dtype)
            return (back == values) | np.isnan(values)  # type: ignore[no-any-return]
        floats, integer = (values, dtype) if dtype.kind in "iu" else (values.astype(dtype), values.dtype)
        # The bounds are powers of 2 or 0, or too large for the floats. Beyond them a cast to integers is undefined.
        bounds = np.iinfo(integer)
        wide = floats.astype(np.float64)  # FLOAT16 would round the bounds
        within: NDArray[np.bool_] = (wide >= float(bounds.min)) & (wide < float(bounds.max + 1))
        integers = np.where(within, wide, 0).astype(integer)
        if dtype.kind == "f":
            within &= integers == values
        else:
            within &= (integers == wide) & ~((wide == 0) & np.signbit(wide))
        return within


def _wanted(dtype: np.dtype[Any], target: np.dtype[Any]) -> str:
    """Which values of a dtype fit another one."""
    if target.kind == "f":
        return "a number that it holds exactly"
    bounds = np.iinfo(target)
    unsigned = "; a length is 0 or more" if target.kind == "u" and dtype.kind in "iu" else ""
    return f"{'an integer, ' if dtype.kind == 'f' else ''}{bounds.min} to {bounds.max}{unsigned}"


class MaskSource(View):
    """The number of ones in each line of a mask along its dimension `along`, which the lengths do not have."""

    reads_cheaply = False

    def __init__(self, mask: Source, along: int) -> None:
        self._along, self._size = along, mask.sizes[along]
        super().__init__(mask)
        self.dtype = dtype_of(DataType.UINT32 if self._size < 1 << 32 else DataType.UINT64)
        self.order = "C"

    def placed(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """The numbers without that of the dimension of the lines."""
        return (*numbers[: self._along], *numbers[self._along + 1 :])

    @property
    def least_bytes(self) -> int:
        """Those of the mask, and what is computed of as many elements as are read at once."""
        inside = min(prod(self.source.sizes), max(thresholds.MASK_AT_ONCE, prod(self.source.cut_alignments[0])))
        return max(self.source.least_bytes, inside * self.source.dtype.itemsize) + inside * _COUNTED_BYTES

    def read(self) -> NDArray[Any]:
        """All lengths, a few lines at once: a read task for all of them would have one for each part of the mask."""
        lengths = np.empty(self.sizes, self.dtype)
        few = thresholds.MASK_AT_ONCE // max(1, self._size)
        for region in cut(self.sizes, None, most=few, alignment=self.cut_alignments[0]):
            lengths[region] = self.read_task(region).read()
        return lengths

    def read_task(self, region: Region) -> ReadTask:
        """A read task that counts the ones of the lines in the region; it reads few elements of the mask at once."""
        whole = (*region[: self._along], slice(0, self._size), *region[self._along :])
        most, cut_alignment = thresholds.MASK_AT_ONCE, self.source.cut_alignments[0]
        parts = []
        for inside in cut(sizes_of(whole), self._along, most=most, alignment=cut_alignment, order=self.source.order):
            moved = (slice(i.start + w.start, i.stop + w.start) for i, w in zip(inside, whole, strict=True))
            parts.append((inside, self.source.read_task(tuple(moved))))
        return _MaskReadTask(tuple(parts), self.name, region, self._along, self.dtype)


# What a line of zeros, followed by ones, may mean.
_ZEROS_FIRST = (
    "if ones are padding, as in PyTorch's key_padding_mask: numpy's mask == 0; if zeros are padding in front of the "
    "values, as decoders have it: move it behind them first; else the mask may be one along another axis"
)


@dataclass(frozen=True)
class _MaskReadTask:
    """Reads lengths; `parts` have, for each part of the mask, its place in the region, its lines, and a read task."""

    parts: tuple[tuple[Region, ReadTask], ...]
    name: str
    region: Region
    along: int
    dtype: np.dtype[Any]

    def read(self) -> NDArray[Any]:
        """The lengths of the region; FormatError for the first line that is not ones, followed by zeros."""
        lengths = np.zeros(sizes_of(self.region), self.dtype)
        wrong = [each for part, read_task in self.parts if (each := self._count(part, read_task, lengths))]
        if wrong:
            raise min(wrong, key=lambda each: each[0])[1]
        return lengths

    def _count(self, part: Region, read_task: ReadTask, lengths: NDArray[Any]) -> tuple[list[int], FormatError] | None:
        """Add the ones of a part to the lengths of its lines; the first line that is wrong, and what is wrong."""
        mask = np.moveaxis(dtypes.numbers(read_task.read()), self.along, -1)
        lines, along = (*part[: self.along], *part[self.along + 1 :]), part[self.along]
        ones, places = mask == 1, np.arange(along.start, along.stop, dtype=self.dtype)
        counts, before = ones.sum(-1, dtype=self.dtype), lengths[lines]
        leading = np.where(ones.all(-1), ones.shape[-1], ones.argmin(-1)) if ones.shape[-1] else counts
        ends = np.where(before == along.start, along.start + leading, 0)  # of the ones, which stand behind no zero
        wrong = (ones & (places >= ends[..., None])) | (~ones & (mask != 0))
        lengths[lines] += counts
        if not wrong.any():
            return None
        place = tuple(map(int, np.unravel_index(int(wrong.argmax()), wrong.shape)))
        starts = (own.start + inner.start for own, inner in zip(self.region, lines, strict=True))
        line = [i + start for i, start in zip(place[:-1], starts, strict=True)]
        index, found, row = [*line, place[-1] + along.start], mask[place], mask[place[:-1]]
        is_inverted = not along.start and row[0] == 0 and (row[int((row != 0).argmax()) :] == 1).all()
        hint = _ZEROS_FIRST if is_inverted else ""
        index.insert(self.along, index.pop())
        value = int(found) if mask.dtype.kind == "b" else found
        wanted = "in each line ones, followed by zeros, and nothing else"
        return line, FormatError(f"the mask has {value} at {index}", wanted, hint, self.name)
