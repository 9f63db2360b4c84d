"""Views: sources that read another source and convert what it reads.

They are lengths in the dimensions of the values, lengths of any number type as unsigned integers, and lengths that a
mask or the padding of the values stands for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.core import dtypes, signals, thresholds
from revseq_cli.core.dtypes import data_type_of, dtype_of
from revseq_cli.core.errors import FormatError, UsageError
from revseq_cli.core.tensors import DataType, inside
from revseq_cli.formats.attributes import FILL, MISSING
from revseq_cli.formats.contract import ReadTask, Source
from revseq_cli.formats.raw import MemorySource
from revseq_cli.operator.spec import lengths_sizes
from revseq_cli.pipeline.plan import cut, sizes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from revseq_cli.core.tensors import Region
    from revseq_cli.formats.file_io import Identity

    # For each dimension of the lengths that of the values, or None for a size of 1 that goes along none of them.
    Places = tuple[int | None, ...]

# Bytes for an element of a line, beside itself: what it is held against, and what is wrong.
_SCAN_BYTES = 8


@dataclass(frozen=True)
class Computed:
    """A read task whose values a function makes of what other read tasks read; it pickles if the function does."""

    step: Callable[..., NDArray[Any]]
    read_tasks: tuple[ReadTask, ...]

    def read(self) -> NDArray[Any]:
        """What the function makes."""
        return self.step(*(read_task.read() for read_task in self.read_tasks))


class View(Source):
    """A source that reads another one, `source`, and begins as that in all respects.

    `placed` brings sizes, chunks and cut alignments to its own dimensions.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.name, self.dtype, self.order, self.storage = source.name, source.dtype, source.order, source.storage
        self.identity, self.path = source.identity, source.path
        self.encoded = source.encoded
        self.sizes, self.chunks = self.placed(source.sizes), self.placed(source.chunks) if source.chunks else None

    def placed(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """A number for each dimension of the source, as one for each dimension of this view."""
        return numbers

    @property
    def files(self) -> list[Identity]:
        """Those of the source."""
        return self.source.files

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
        """Those of the source."""
        return self.source.least_bytes

    def recheck(self) -> None:
        """TensorIOError if the source's file is not as it was."""
        self.source.recheck()


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
    """Lengths whose dimensions go along some of the values', repeated along all others but the reversed axis.

    `places` has for each dimension of the source that of the values, or None for one of size 1; `sizes` are those of
    the values.
    """

    def __init__(self, source: Source, sizes: tuple[int, ...], axis: int, places: Places) -> None:
        self._places, self._axis, self._values = places, axis, sizes
        super().__init__(source)
        self.sizes = lengths_sizes(sizes, axis)

    def placed(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """Numbers of the source's dimensions, in their places, and 1 elsewhere: there, a cut is cheap anywhere."""
        placed = dict(zip(self._places, numbers, strict=True))
        return tuple(placed.get(d, 1) for d in range(len(self._values)))

    def read_task(self, region: Region) -> ReadTask:
        """A read task that reads the region in the source's dimensions, and repeats what it reads."""
        inner = tuple(slice(0, 1) if d is None else region[d] for d in self._places)
        return Computed(partial(_repeated, self._places, sizes_of(region)), (self.source.read_task(inner),))

    def read(self) -> NDArray[Any]:
        """All lengths, of which those that are repeated are read once."""
        return _repeated(self._places, self.sizes, self.source.read())

    def in_memory(self, most: int) -> PlacedSource:
        """A copy that holds few lengths, of `most` bytes, in memory, which else every block would decode anew."""
        if self.reads_cheaply or self.source.desc.total_bytes > min(most, 8 * thresholds.LENGTHS_AT_ONCE):
            return self
        return PlacedSource(MemorySource.of(self.source), self._values, self._axis, self._places)


def _repeated(places: Places, sizes: tuple[int, ...], values: NDArray[Any]) -> NDArray[Any]:
    """A view of the values in these sizes, with their dimensions in these places."""
    order = sorted((d, i) for i, d in enumerate(places) if d is not None)
    left_out = [i for i, d in enumerate(places) if d is None]
    narrow = [1] * len(sizes)
    for d, i in order:
        narrow[d] = values.shape[i]
    turned = values.transpose([*(i for _, i in order), *left_out])
    return np.broadcast_to(turned.reshape(narrow), sizes)


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
        if all(are_lengths(flat[start : start + count]).all() for start in range(0, len(flat), count)):
            return values.astype(dtype)
        place = np.unravel_index(int(are_lengths(values).argmin()), values.shape)
    value, index = values[place], [int(i) + part.start for i, part in zip(place, region, strict=True)]
    reasons = (
        (value in missing, "marks a missing length, as its attributes say", "fill it in first, as xarray's fillna(0)"),
        (value != value, "is not a number", ""),
        (value < 0, "is negative", ""),
        (np.isfinite(value) and np.floor(value) != value, "is not whole", ""),
        (True, f"does not fit {data_type_of(dtype).name}", "try --lengths-dtype UINT64" if dtype.itemsize < 8 else ""),
    )
    reason, hint = next((reason, hint) for is_so, reason, hint in reasons if is_so)
    raise FormatError(f"{value} at {index} {reason}", f"a whole number from 0 to {largest}", hint, name)


def missing_marks(source: Source) -> tuple[Any, ...]:
    """The values by which the attributes of a file mark missing elements, as the CF conventions have them.

    NaN is not among them: it is a missing element by itself.
    """
    if not (meaning := source.meaning()):
        return ()
    stated = [meaning.attributes.get(name, ()) for name in MISSING]
    if meaning.default_fill is not None and FILL not in meaning.attributes:
        stated.append(meaning.default_fill)
    marks = (mark for value in stated for mark in np.atleast_1d(value).tolist())
    return tuple(mark for mark in marks if isinstance(mark, (int, float)) and mark == mark)


class ScannedSource(View):
    """A length for each line of a tensor along a dimension, or the greatest for each index of the dimensions `kept`.

    With `padding`, it is the number of elements up to the last one that is not that value; without, the number of ones
    of a mask. It is computed of the elements of the lines, of which few are read at once.
    """

    def __init__(self, source: Source, along: int, kept: Sequence[int], padding: float | None = None) -> None:
        self._along, self._kept, self._padding = along, tuple(kept), padding
        super().__init__(source)
        self.dtype = dtype_of(DataType.UINT32 if source.sizes[along] < 1 << 32 else DataType.UINT64)
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
        source = self.source
        count = min(prod(source.sizes), max(thresholds.SCANNED_AT_ONCE, prod(source.cut_alignments[0])))
        return max(source.least_bytes, count * source.dtype.itemsize) + count * _SCAN_BYTES

    def read(self) -> NDArray[Any]:
        """All lengths, a few at once: a read task for all of them would have one for each part of the source."""
        lengths = np.empty(self.sizes, self.dtype)
        few = thresholds.SCANNED_AT_ONCE // max(1, prod(self.source.sizes) // max(1, prod(self.sizes)))
        for region in cut(self.sizes, None, most=few, alignment=self.cut_alignments[0]):
            lengths[region] = self.read_task(region).read()
        return lengths

    def read_task(self, region: Region) -> ReadTask:
        """A read task that looks at the lines of the region, part by part."""
        source, whole = self.source, [slice(0, size) for size in self.source.sizes]
        for d, part in zip(self._kept, region, strict=True):
            whole[d] = part
        most, alignment = thresholds.SCANNED_AT_ONCE, source.cut_alignments[0]
        blocks = cut(sizes_of(tuple(whole)), self._along, most=most, alignment=alignment, order=source.order)
        parts = []
        for block in blocks:
            own = tuple(slice(b.start + w.start, b.stop + w.start) for b, w in zip(block, whole, strict=True))
            parts.append((own, source.read_task(own)))
        return _ScanTask(tuple(parts), region, self._along, self._kept, self.dtype, self._padding, self.name)


@dataclass(frozen=True)
class _ScanTask:
    """Reads lengths of `parts` of lines, in order."""

    parts: tuple[tuple[Region, ReadTask], ...]
    region: Region
    along: int
    kept: tuple[int, ...]
    dtype: np.dtype[Any]
    padding: float | None
    name: str

    def read(self) -> NDArray[Any]:
        """The lengths of the region; FormatError for a line of a mask that is not ones, followed by zeros."""
        lengths = np.zeros(sizes_of(self.region), self.dtype)
        for part, read_task in self.parts:
            signals.check()
            own = inside(tuple(part[d] for d in self.kept), self.region)
            marks, start = np.moveaxis(_marks(read_task, self.padding), self.along, -1), part[self.along].start
            size, before = marks.shape[-1], lengths[own]
            if self.padding is None:
                ones = marks == 1
                leading = np.where(ones.all(-1), size, ones.argmin(-1))
                leading[before < start] = 0  # what stands behind a zero
                wrong = marks != (np.arange(size, dtype=self.dtype) < leading[..., None])
                if wrong.any():
                    raise self._refused(part, read_task, wrong)
                ends = before + leading
            else:
                ends = np.where(marks.any(-1), start + size - marks[..., ::-1].argmax(-1), 0)
                others = [d for d in range(len(part)) if d != self.along]
                ends = ends.max(tuple(i for i, d in enumerate(others) if d not in self.kept), initial=0)
            lengths[own] = np.maximum(before, ends.astype(self.dtype))
        return lengths

    def _refused(self, part: Region, read_task: ReadTask, wrong: NDArray[np.bool_]) -> FormatError:
        """The error for the first element that is wrong."""
        place = [*map(int, np.unravel_index(int(wrong.argmax()), wrong.shape))]
        place.insert(self.along, place.pop())
        value = dtypes.numbers(read_task.read())[tuple(place)]
        index = [i + own.start for i, own in zip(place, part, strict=True)]
        found = f"the mask has {int(value) if isinstance(value, np.bool_) else value} at {index}"
        hint = "if ones are padding, as in PyTorch's key_padding_mask, invert it: numpy's mask == 0"
        return FormatError(found, "in each line ones, followed by zeros, and nothing else", hint, self.name)


def _marks(read_task: ReadTask, padding: float | None) -> NDArray[np.uint8]:
    """For each element, 0 for the padding and 1 for all else; of a mask, itself, and 2 for what is no mask."""
    values = dtypes.numbers(read_task.read())
    if padding is not None:
        return np.asarray(values == values if padding != padding else values != padding).view(np.uint8)
    marks = np.asarray(values != 0).view(np.uint8)
    marks[values != marks] = 2
    return marks


def lengths_by_padding(source: Source, axis: int, batch_axis: int | None, value: float) -> Source:
    """The lengths of lines, or with a batch axis those of its longest lines, that the padding behind them tells.

    UsageError for a value that the data type does not have.
    """
    data_type = source.desc.data_type
    if data_type.kind in ("int", "uint"):
        least, greatest = np.iinfo(source.dtype).min, np.iinfo(source.dtype).max
        if not (least <= value <= greatest and value == int(value)):
            wanted = f"a whole number from {least} to {greatest}, as {data_type.name} has"
            raise UsageError(f"the padding is {value}", wanted, where=source.name)
    kept = [d for d in range(len(source.sizes)) if d != axis] if batch_axis is None else [batch_axis]
    return ScannedSource(source, axis, kept, value)
