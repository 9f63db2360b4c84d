"""Views: sources that read another source and convert what it reads.

They are lengths in the dimensions of the values, lengths of any number type as unsigned integers, and lengths that a
mask or the padding of the values stands for.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.core import dtypes, thresholds
from revseq_cli.core.dtypes import data_type_of, dtype_of
from revseq_cli.core.errors import FormatError, UsageError
from revseq_cli.core.tensors import DataType
from revseq_cli.formats.contract import ReadTask, Source
from revseq_cli.formats.in_memory import MemorySource
from revseq_cli.formats.meaning import FILL, MISSING
from revseq_cli.operator.spec import lengths_sizes
from revseq_cli.pipeline.blocks import cut, sizes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Region
    from revseq_cli.formats.file_io import Identity
    from revseq_cli.pipeline.alignment import Places

# Bytes for an element of a line, beside itself: what it is held against, and what is wrong.
_COUNTED_BYTES = 8


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

    def placed(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """A number for each dimension of the source, as one for each dimension of this view."""
        return numbers

    @property
    def files(self) -> list[Identity]:
        """Those of the source."""
        return self.original.files

    @property
    def reads_cheaply(self) -> bool:
        """Whether there are no chunks to decode, and nothing to compute of many elements."""
        return self.chunks is None and self.source.reads_cheaply

    @property
    def cut_alignments(self) -> list[tuple[int, ...]]:
        """Those of the source, in these dimensions."""
        return [*map(self.placed, self.source.cut_alignments)]

    @property
    def least_bytes(self) -> int:
        """Those of the original, also where a copy of it is held now."""
        return self.original.least_bytes

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


def as_bytes(source: Source) -> Source:
    """A tensor of BOOL as UINT8, which has the same bytes."""
    return Derived(source, np.dtype(np.uint8), lambda region: Computed(_bytes, (source.read_task(region),)))


def _bytes(values: NDArray[np.bool_]) -> NDArray[np.uint8]:
    return values.view(np.uint8)


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

    def __init__(self, source: Source, sizes: tuple[int, ...], axis: int, places: Places) -> None:
        super().__init__(source, places, len(sizes))
        self.sizes = lengths_sizes(sizes, axis)

    def read(self) -> NDArray[Any]:
        """All lengths, of which those that are repeated are read once."""
        return _repeated(self._places, self.sizes, self.source.read())

    def held(self) -> Self:
        """A copy that holds few lengths in memory, which else every block would decode or compute anew."""
        if self.reads_cheaply or self.source.desc.element_count > thresholds.LENGTHS_AT_ONCE:
            return self
        view = copy.copy(self)
        view.source = MemorySource.of(self.source)
        view.encoded, view.chunks = False, None
        return view


class LengthsSource(View):
    """Lengths of any number type as unsigned integers.

    Reading raises FormatError with the first that is negative, a fraction or NaN, does not fit, or is one of `missing`,
    the values by which the file marks missing ones.
    """

    def __init__(self, source: Source, data_type: DataType, missing: tuple[Any, ...] = ()) -> None:
        super().__init__(source)
        self.dtype, self.dimensions, self._missing = dtype_of(data_type), source.dimensions, missing

    def read_task(self, region: Region) -> ReadTask:
        """A read task that reads the region and converts it."""
        step = partial(_as_lengths, self.dtype, region, self.name, self._missing)
        return Computed(step, (self.source.read_task(region),))


def _as_lengths(
    dtype: np.dtype[Any], region: Region, name: str, missing: tuple[Any, ...], values: NDArray[Any]
) -> NDArray[Any]:
    values = dtypes.numbers(values)
    largest = int(np.iinfo(dtype).max)

    def are_lengths(some: NDArray[Any]) -> NDArray[np.bool_]:
        right = (some >= 0) & (some <= largest)
        if some.dtype.kind == "f":  # 2^64-1 would be rounded to 2^64
            wide = some.astype(np.float64)
            right = (wide >= 0) & (wide < float(largest + 1)) & (np.floor(wide) == wide)
        for mark in missing:
            right &= some != mark
        return right

    flat, count = values.ravel("K"), thresholds.SCANNED_AT_ONCE  # since the check takes several times the memory
    with np.errstate(all="ignore"):
        if not all(are_lengths(flat[start : start + count]).all() for start in range(0, len(flat), count)):
            wrong = ~are_lengths(values)
            raise _no_length(values[wrong][0], index_of(wrong, region), dtype, name, missing)
        return values.astype(dtype)


def _no_length(
    value: Any,  # noqa: ANN401 - a NumPy number
    index: list[int],
    dtype: np.dtype[Any],
    name: str,
    missing: tuple[Any, ...],
) -> FormatError:
    found, hint = f"{value} at {index}", ""
    if value in missing:
        found += " marks a missing length, as its attributes say"
        hint = "fill it in first, as with xarray's fillna(0)"
    elif value != value:
        found += " is not a number"
    elif value < 0:
        found += " is negative"
    elif np.floor(value) != value:
        found += " is not whole"
    else:
        found += f" does not fit {data_type_of(dtype).name}"
        hint = "try --lengths-dtype UINT64" if dtype.itemsize < 8 else ""
    return FormatError(found, f"a whole number from 0 to {np.iinfo(dtype).max}", hint, name)


def missing_marks(source: Source) -> tuple[Any, ...]:
    """The values by which the attributes of a file mark missing elements, as the CF conventions have them.

    NaN is not among them: it is a missing element by itself.
    """
    meaning = source.meaning()
    stated = [meaning.attributes.get(name, ()) for name in MISSING]
    if meaning.default_fill is not None and FILL not in meaning.attributes:
        stated.append(meaning.default_fill)
    marks = (mark for value in stated for mark in np.atleast_1d(value).tolist())
    return tuple(mark for mark in marks if isinstance(mark, (int, float)) and mark == mark)


class OfLines(View):
    """A number for each line of a tensor along a dimension, or for each index of some of its other dimensions.

    It has the dimensions `kept` of the source, in their order, and reads few elements at once, whatever is computed.
    """

    def __init__(self, source: Source, along: int, kept: Sequence[int]) -> None:
        self._along, self._kept = along, tuple(kept)
        super().__init__(source)
        self._size = source.sizes[along]
        self.dtype = dtype_of(DataType.UINT32 if self._size < 1 << 32 else DataType.UINT64)
        self.order = "C"

    def placed(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """The numbers of the dimensions that are kept."""
        return tuple(numbers[d] for d in self._kept)

    @property
    def reads_cheaply(self) -> bool:
        """Never: each number is computed of many elements."""
        return False

    @property
    def least_bytes(self) -> int:
        """Those of the source, and what is computed of as many elements as are read at once."""
        inside = min(prod(self.source.sizes), max(thresholds.SCANNED_AT_ONCE, prod(self.source.cut_alignments[0])))
        return max(self.source.least_bytes, inside * self.source.dtype.itemsize) + inside * _COUNTED_BYTES

    def read(self) -> NDArray[Any]:
        """All lengths, a few at once: a read task for all of them would have one for each part of the source."""
        lengths = np.empty(self.sizes, self.dtype)
        few = thresholds.SCANNED_AT_ONCE // max(1, prod(self.source.sizes) // max(1, prod(self.sizes)))
        for region in cut(self.sizes, None, most=few, alignment=self.cut_alignments[0]):
            lengths[region] = self.read_task(region).read()
        return lengths

    def _parts(self, region: Region) -> tuple[tuple[Region, ReadTask], ...]:
        """Read tasks for what a region is computed of, each with its place in that."""
        whole = [slice(0, size) for size in self.source.sizes]
        for d, part in zip(self._kept, region, strict=True):
            whole[d] = part
        most, cut_alignment = thresholds.SCANNED_AT_ONCE, self.source.cut_alignments[0]
        plan = cut(
            sizes_of(tuple(whole)), self._along, most=most, alignment=cut_alignment,
            order=self.source.order,
        )  # fmt: skip
        parts = []
        for inside in plan:
            moved = (slice(i.start + w.start, i.stop + w.start) for i, w in zip(inside, whole, strict=True))
            parts.append((inside, self.source.read_task(tuple(moved))))
        return tuple(parts)


class PaddingSource(OfLines):
    """For each line along a dimension, the number of elements up to the last one that is not `value`.

    With a batch axis, it is for each of its indices the greatest of all its lines. UsageError for a value that the
    data type does not have.
    """

    def __init__(self, source: Source, along: int, batch_axis: int | None, value: float) -> None:
        data_type = source.desc.data_type
        bounds = np.iinfo(source.dtype) if data_type.kind in ("int", "uint") else None
        if bounds and not (bounds.min <= value <= bounds.max and value == int(value)):
            wanted = f"a whole number from {bounds.min} to {bounds.max}, as {data_type.name} has"
            raise UsageError(f"the padding is {value}", wanted, where=source.name)
        others = [d for d in range(len(source.sizes)) if d != along]
        super().__init__(source, along, others if batch_axis is None else [batch_axis])
        self._value = value

    def read_task(self, region: Region) -> ReadTask:
        """A read task that looks at the lines of the region."""
        return _PaddingReadTask(self._parts(region), region, self._along, self._kept, self._value, self.dtype)


@dataclass(frozen=True)
class _PaddingReadTask:
    """Reads lengths; `parts` are those of `OfLines`."""

    parts: tuple[tuple[Region, ReadTask], ...]
    region: Region
    along: int
    kept: tuple[int, ...]
    value: float
    dtype: np.dtype[Any]

    def read(self) -> NDArray[Any]:
        """The lengths of the region."""
        lengths = np.zeros(sizes_of(self.region), self.dtype)
        for part, read_task in self.parts:
            values = dtypes.numbers(read_task.read())
            other = values == values if self.value != self.value else values != self.value
            del values
            size = other.shape[self.along]
            last = size - np.flip(other, self.along).argmax(self.along, keepdims=True)
            ends = np.where(other.any(self.along, keepdims=True), part[self.along].start + last, 0)
            ends = ends.max(tuple(d for d in range(ends.ndim) if d not in self.kept), initial=0)
            own = tuple(part[d] for d in self.kept)
            lengths[own] = np.maximum(lengths[own], ends.astype(self.dtype))
        return lengths


class MaskSource(OfLines):
    """The number of ones in each line of a mask along its dimension `along`, which the lengths do not have."""

    def __init__(self, mask: Source, along: int) -> None:
        super().__init__(mask, along, [d for d in range(len(mask.sizes)) if d != along])

    def read_task(self, region: Region) -> ReadTask:
        """A read task that counts the ones of the lines in the region."""
        return _MaskReadTask(self._parts(region), self.name, region, self._along, self.dtype)


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
