"""Lengths of any form as unsigned integers, and the lines that they go to.

They are of any number type, of a mask, or of the padding of the values. Names of dimensions decide where they go if
both tensors have them, as in xarray, and else sizes.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core import dtypes, platform, signals, thresholds
from revseq_cli.core.dtypes import dtype_of
from revseq_cli.core.errors import FormatError, UsageError, listed
from revseq_cli.core.tensors import DataType, Region, braced, inside, numbers_of, sizes_of
from revseq_cli.formats.attributes import FILL, MISSING, Meaning
from revseq_cli.formats.contract import ReadTask, Source
from revseq_cli.formats.file_io import Identity
from revseq_cli.formats.raw import MemorySource
from revseq_cli.operator.spec import lengths_sizes
from revseq_cli.pipeline.plan import cut

# For each dimension of the lengths that of the values, or None for a size of 1 that goes along none of them.
Places = tuple[int | None, ...]

_MADE_UP = re.compile(r"(phony_)?dim_\d+")  # how xarray and h5netcdf name dimensions that have no names
# Bytes for an element of a line, beside itself: what it is held against, and what is wrong.
_SCAN_BYTES = 8


# Sources that read another one


@dataclass(frozen=True)
class Computed:
    """A read task whose values a function makes of what other read tasks read; it pickles if the function does."""

    step: Callable[..., NDArray[Any]]
    read_tasks: tuple[ReadTask, ...]

    def read(self) -> NDArray[Any]:
        return self.step(*(read_task.read() for read_task in self.read_tasks))


class View(Source):
    """A source that reads another one, `source`, and is like that in all that its class does not change."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.name, self.key, self.path, self.identity = source.name, source.key, source.path, source.identity
        self.dtype, self.order, self.storage, self.encoded = source.dtype, source.order, source.storage, source.encoded
        self.sizes = self.placed(source.sizes)
        self.chunks = None if source.chunks is None else self.placed(source.chunks)
        self.dimensions = source.dimensions if len(self.sizes) == len(source.sizes) else ()

    def placed(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """A number for each dimension of the source, as one for each dimension of this view."""
        return numbers

    @property
    def files(self) -> list[Identity]:
        return self.source.files

    @property
    def cut_alignments(self) -> list[tuple[int, ...]]:
        return [*map(self.placed, self.source.cut_alignments)]

    @property
    def least_bytes(self) -> int:
        return self.source.least_bytes

    def recheck(self) -> None:
        self.source.recheck()

    def can_copy_to(self, path: str) -> bool:  # noqa: ARG002 - whatever the name is
        """Never: its file has other elements."""
        return False

    def meaning(self) -> Meaning | None:
        return self.source.meaning()


class Derived(View):
    """A source like another one, but for the `dtype`, whose read task for a region is what `read_task_of` gives."""

    def __init__(self, source: Source, dtype: np.dtype[Any], read_task_of: Callable[[Region], ReadTask]) -> None:
        super().__init__(source)
        self.dtype, self._read_task_of = dtype, read_task_of

    def read_task(self, region: Region) -> ReadTask:
        return self._read_task_of(region)


def as_bytes(source: Source) -> Source:
    """A tensor of BOOL as UINT8, which has the same bytes."""
    return Derived(source, np.dtype(np.uint8), partial(_read_bytes, source))


def _read_bytes(source: Source, region: Region) -> Computed:
    return Computed(operator.methodcaller("view", np.uint8), (source.read_task(region),))


# Lengths of any number type


def unsigned(lengths: Source, cast: DataType | None) -> Source:
    """Lengths of any number type as unsigned integers, of the type `cast`, if that is one.

    Reading raises FormatError with the first that is negative, a fraction or NaN, does not fit, or marks a missing one.
    Those of a type that no lengths have stay as they are, since the constraints refuse them.
    """
    data_type = lengths.desc.data_type
    if data_type.kind in ("bool", "complex"):
        return lengths
    wide = data_type.size == DataType.UINT64.size or data_type.kind == "float"
    own = data_type if data_type.kind == "uint" else DataType.UINT64 if wide else DataType.UINT32
    marks = () if isinstance(lengths, ScannedSource) else missing_marks(lengths)
    if (cast or own) is data_type and not marks:
        return lengths
    dtype = dtype_of(cast or own)
    return Derived(lengths, dtype, partial(_read_lengths, lengths, dtype, marks))


def _read_lengths(source: Source, dtype: np.dtype[Any], missing: tuple[Any, ...], region: Region) -> Computed:
    return Computed(partial(_as_lengths, source.name, dtype, missing, region), (source.read_task(region),))


def _as_lengths(
    name: str, dtype: np.dtype[Any], missing: tuple[Any, ...], region: Region, values: NDArray[Any]
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
    problem, hint = f"{value} at {index} is not a length", ""
    if value in missing:
        problem = f"{value} at {index} marks a missing length, as its attributes say"
        hint = "fill it in first, as xarray's fillna(0)"
    elif largest < value.item() < 1 << 64:
        hint = "try --lengths-dtype UINT64"
    raise FormatError(problem, f"a whole number from 0 to {largest}", hint, name)


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


def refuse_packed(lengths: Source) -> None:
    """FormatError for lengths that stand for others by the attributes of their file."""
    meaning = lengths.meaning()
    attributes = meaning.attributes if meaning else {}
    if np.any(attributes.get("scale_factor", 1) != 1) or np.any(attributes.get("add_offset", 0) != 0):
        packing = listed(f"{name} {attributes[name]}" for name in ("scale_factor", "add_offset") if name in attributes)
        unpacked = f"xarray.open_dataset({lengths.path!r})[{lengths.key.rpartition('/')[2]!r}].values"
        hint = f"unpack them: python -c \"import numpy, xarray; numpy.save('lengths.npy', {unpacked})\""
        raise FormatError(f"its lengths are packed, by {packing}", "lengths as they are", hint, lengths.name)


# Masks and padding


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
        self.chunks = self.chunks or (1,) * len(self.sizes)  # no length is cheap to read: it takes many elements

    def placed(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """The numbers of the dimensions that are kept."""
        return tuple(numbers[d] for d in self._kept)

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
            values = np.moveaxis(dtypes.numbers(read_task.read()), self.along, -1)
            own = inside(tuple(part[d] for d in self.kept), self.region)
            ends = self._ones(part, values, lengths[own]) if self.padding is None else self._ends(part, values)
            lengths[own] = np.maximum(lengths[own], ends.astype(self.dtype))
        return lengths

    def _ends(self, part: Region, values: NDArray[Any]) -> NDArray[Any]:
        """Where the padding begins; of lines that share a length, in the longest one."""
        is_filled = values == values if self.padding != self.padding else values != self.padding
        ends = np.where(is_filled.any(-1), part[self.along].stop - is_filled[..., ::-1].argmax(-1), 0)
        others = [d for d in range(len(part)) if d != self.along]
        return ends.max(tuple(i for i, d in enumerate(others) if d not in self.kept), initial=0)  # type: ignore[no-any-return]

    def _ones(self, part: Region, values: NDArray[Any], before: NDArray[Any]) -> NDArray[Any]:
        """Where the ones end, of which `before` are in the parts before this one."""
        size, is_one = values.shape[-1], values == 1
        ones = np.where(is_one.all(-1), size, is_one.argmin(-1))
        ones[before < part[self.along].start] = 0  # what stands behind a zero
        wrong = values != (np.arange(size) < ones[..., None])
        if wrong.any():
            place = [*map(int, np.unravel_index(int(wrong.argmax()), wrong.shape))]
            value = values[tuple(place)]
            place.insert(self.along, place.pop())
            index = [i + own.start for i, own in zip(place, part, strict=True)]
            problem = f"the mask has {int(value) if isinstance(value, np.bool_) else value} at {index}"
            hint = "if ones are padding, as in PyTorch's key_padding_mask, invert it: numpy's mask == 0"
            raise FormatError(problem, "in each line ones, followed by zeros, and nothing else", hint, self.name)
        return before + ones  # type: ignore[no-any-return]


# Which lines the lengths go to


class PlacedSource(View):
    """Lengths whose dimensions go along some of the values', repeated along all others but the reversed axis.

    `places` has for each dimension of the source that of the values, or None for one of size 1; `sizes` are those of
    the values.
    """

    def __init__(self, source: Source, sizes: tuple[int, ...], axis: int, places: Places) -> None:
        self._places, self._axis, self._values = places, axis, sizes
        super().__init__(source)
        self.sizes, self.dimensions = lengths_sizes(sizes, axis), ()

    def placed(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """Numbers of the source's dimensions, in their places, and 1 elsewhere: there, a cut is cheap anywhere."""
        placed = dict(zip(self._places, numbers, strict=True))
        return tuple(placed.get(d, 1) for d in range(len(self._values)))

    def read_task(self, region: Region) -> ReadTask:
        inner = tuple(slice(0, 1) if d is None else region[d] for d in self._places)
        return Computed(partial(_repeated, self._places, sizes_of(region)), (self.source.read_task(inner),))

    def read(self) -> NDArray[Any]:
        return _repeated(self._places, self.sizes, self.source.read())

    def in_memory(self, most: int) -> PlacedSource:
        """A copy that holds few lengths, of `most` bytes, in memory, which else every block would decode anew."""
        if self.chunks is None or self.source.desc.total_bytes > min(most, 8 * thresholds.LENGTHS_AT_ONCE):
            return self
        return PlacedSource(MemorySource.of(self.source), self._values, self._axis, self._places)


def _repeated(places: Places, sizes: tuple[int, ...], values: NDArray[Any]) -> NDArray[Any]:
    """A view of the values in these sizes, with their dimensions in these places."""
    order = sorted(range(len(places)), key=lambda i: len(sizes) if (d := places[i]) is None else d)
    narrow = [1] * len(sizes)
    for d, size in zip(places, values.shape, strict=True):
        if d is not None:
            narrow[d] = size
    return np.broadcast_to(values.transpose(order).reshape(narrow), sizes)


def names_of(source: Source) -> tuple[str, ...]:
    """The names of a tensor's dimensions; "" for one without, or with one that a library made up or that two have."""
    names = source.dimensions or ("",) * len(source.sizes)
    return tuple("" if _MADE_UP.fullmatch(name) or names.count(name) > 1 else name for name in names)


def align(values: Source, lengths: Source, axis: int, batch_axis: int | None, *, mask: bool = False) -> Places | None:
    """Where the dimensions of the lengths go; None where they fit nowhere, which the operator's constraints tell.

    A dimension of size 1 whose name the values lack goes nowhere. With a `batch_axis`, there is one length for each of
    its indices. A `mask` has the reversed axis, too. FormatError for what contradicts names or the batch axis.
    """
    if not 0 <= axis < len(values.sizes):
        return None
    require_batch_axis(batch_axis, axis, values)
    names, own = names_of(values), names_of(lengths)
    long = [name for name, size in zip(own, lengths.sizes, strict=True) if size != 1]
    if any(names) and all(long) and (long or any(name in names for name in own if name)):
        places: Places | None = _by_names(values, lengths, axis, batch_axis, mask=mask)
    elif mask:
        places = _mask_by_sizes(values, lengths, axis, batch_axis)
    else:
        places = _by_sizes(values, lengths, axis, batch_axis)
    for place, name, size in zip(places or (), own, lengths.sizes, strict=bool(places)):
        if place is None:
            continue
        if batch_axis is not None and place not in (axis, batch_axis):
            problem = f"its dimension {name} is axis {place} of {values.name}, and the batch axis is {batch_axis}"
            raise FormatError(problem, "one and the same dimension", where=lengths.name)
        if size != 1 and name and name in names and name != names[place]:
            problem = f"its dimension {name} would go along axis {place} of {values.name}"
            raise FormatError(problem, f"along {name}, which is axis {names.index(name)}", where=lengths.name)
    return places


def require_batch_axis(batch_axis: int | None, axis: int, values: Source) -> None:
    """UsageError for a batch axis that is out of range, or is the axis."""
    rank = len(values.sizes)
    if batch_axis is not None and (not 0 <= batch_axis < rank or batch_axis == axis):
        wanted = f"{numbers_of(rank)}, and not the reversed axis {axis}" if rank > 1 else "two dimensions or more"
        raise UsageError(f"the batch axis is {batch_axis}", wanted, where=values.name)


def _by_names(values: Source, lengths: Source, axis: int, batch_axis: int | None, *, mask: bool) -> Places:
    names, own = names_of(values), names_of(lengths)
    places = [names.index(name) if name and name in names else None for name in own]
    long = [i for i, size in enumerate(lengths.sizes) if size != 1]
    if len(long) == 1 and places[long[0]] is None and not mask:
        places[long[0]] = batch_axis  # only the user says where it goes
    for place, name, size in zip(places, own, lengths.sizes, strict=True):
        if place is None and size != 1:
            problem = f"its dimension {name}, of size {size}, is not a dimension of {values.name}"
            raise FormatError(problem, f"dimensions among {listed(filter(None, names))}", where=lengths.name)
        right = 1 if place is None or (place == axis and not mask) else values.sizes[place]
        if size != right:
            wanted = f"size {right} along axis {place} of {values.name}"
            raise FormatError(f"its dimension {name} has size {size}", wanted, where=lengths.name)
    if mask and axis not in places:
        wanted = f"one along the reversed axis {axis} of {values.name}"
        raise FormatError(f"the mask has the dimensions {listed(own)}", wanted, where=lengths.name)
    return tuple(places)


def _by_sizes(values: Source, lengths: Source, axis: int, batch_axis: int | None) -> Places | None:
    sizes, rank = lengths.sizes, len(values.sizes)
    if sizes == () or (sizes == (1,) and batch_axis is None):
        return (None,) * len(sizes)  # one length, for all lines
    if batch_axis is not None:
        size = values.sizes[batch_axis]
        if sizes not in ((size,), (size, 1), (1, size)):
            wanted = f"{braced((size,))}: one length for each index of axis {batch_axis}"
            raise FormatError(f"Sizes is {braced(sizes)}", wanted, where=lengths.name)
        return tuple(batch_axis if i == sizes.index(size) else None for i in range(len(sizes)))
    if sizes == lengths_sizes(values.sizes, axis):
        return tuple(range(rank))
    others = tuple(d for d in range(rank) if d != axis)
    return others if sizes == tuple(values.sizes[d] for d in others) else None


def _mask_by_sizes(values: Source, mask: Source, axis: int, batch_axis: int | None) -> Places:
    """Where a mask goes that has the sizes of the values, or those of a batch axis and of the reversed axis."""
    sizes, rank, size = mask.sizes, len(values.sizes), values.sizes[axis]
    batches = [d for d in range(rank) if d != axis and batch_axis in (None, d)]
    orders = [places for d in batches for places in ((d, axis), (axis, d))]
    fitting = [places for places in orders if sizes == tuple(values.sizes[d] for d in places)]
    is_whole = len(sizes) == rank and all(
        own == n or (own == 1 and d != axis) for d, (own, n) in enumerate(zip(sizes, values.sizes, strict=True))
    )
    # With two dimensions, a mask with the sizes of the values may be one of time and batch, too.
    if is_whole and not (rank == 2 and batch_axis is not None and axis < batch_axis and len(fitting) > 1 and size > 1):
        return tuple(d if own != 1 or d == axis else None for d, own in enumerate(sizes))
    if len(fitting) == 1 or (fitting and (size == 1 or (batch_axis is not None and batch_axis < axis))):
        return fitting[0]
    if fitting:
        problem = f"Sizes of the mask is {braced(sizes)}, which fits in {len(fitting)} ways"
        wanted = f"one with all dimensions of {values.name}, or a batch axis before the axis"
        raise FormatError(problem, wanted, where=mask.name)
    ways = " or ".join(dict.fromkeys([braced(values.sizes), *(braced((values.sizes[d], size)) for d in batches)]))
    wanted = f"{ways}: the sizes of {values.name}, or batch and time"
    raise FormatError(f"Sizes of the mask is {braced(sizes)}", wanted, where=mask.name)


def require_same_coordinates(values: Source, lengths: Source) -> None:
    """FormatError where a coordinate of lengths from another file differs: they would go to other lines."""
    if values.path and values.path == lengths.path:
        return
    for name in lengths.dimensions:
        own, other = _coordinate(lengths, name), _coordinate(values, name)
        if own is None or other is None or own.shape != other.shape:
            continue
        if own.dtype.kind == other.dtype.kind == "f":
            narrow = min(own.dtype, other.dtype, key=lambda dtype: dtype.itemsize)
            own, other = own.astype(narrow), other.astype(narrow)
        differs = (own != other) & ((own == own) | (other == other))
        if differs.any():
            first = int(differs.argmax())
            problem = f"its {name} is not that of {values.name}: {own[first]!s} and {other[first]!s} at [{first}]"
            wanted = "lengths for the same places, in the same order"
            hint = f"if their order is right: revseq convert {platform.typed(lengths.name)} lengths.npy, and use that"
            raise FormatError(problem, wanted, hint, lengths.name)


def _coordinate(source: Source, name: str) -> NDArray[Any] | None:
    """The coordinate of a dimension, as numbers or texts; None where there is none to compare."""
    meaning = source.meaning()
    variable = next((v for v in meaning.coordinates if v.name == name), None) if meaning else None
    if variable is None:
        return None
    values, attributes = variable.values, variable.attributes
    if values.dtype.kind in "SUO":
        return np.array([v.decode(errors="replace") if isinstance(v, bytes) else str(v) for v in values])
    scale, offset = attributes.get("scale_factor", 1), attributes.get("add_offset", 0)
    if scale != 1 or offset != 0:  # in FLOAT64, three times 0.1 would not be 0.3
        return (values * float(scale) + float(offset)).astype(np.float32)
    return values if values.dtype.kind in "biuf" else None
