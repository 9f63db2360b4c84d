"""Which lines lengths go to: names of dimensions decide where both tensors have them, as in xarray, and else sizes."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core import platform, thresholds
from revseq_cli.core.errors import FormatError, UsageError, listed
from revseq_cli.core.tensors import Region, braced, numbers_of
from revseq_cli.formats.contract import ReadTask, Source
from revseq_cli.formats.raw import MemorySource
from revseq_cli.operator.spec import lengths_sizes
from revseq_cli.pipeline.lengths import Computed, View
from revseq_cli.pipeline.plan import sizes_of

# For each dimension of the lengths that of the values, or None for a size of 1 that goes along none of them.
Places = tuple[int | None, ...]

_MADE_UP = re.compile(r"(phony_)?dim_\d+")  # how xarray and h5netcdf name dimensions that have no names


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
        """A read task that reads the region in the source's dimensions, and repeats what it reads."""
        inner = tuple(slice(0, 1) if d is None else region[d] for d in self._places)
        return Computed(partial(_repeated, self._places, sizes_of(region)), (self.source.read_task(inner),))

    def read(self) -> NDArray[Any]:
        """All lengths, of which those that are repeated are read once."""
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
            subject = f"its dimension {name} is axis {place}" if name else f"it goes along axis {place}"
            batch = f"{batch_axis} ({names[batch_axis]})" if names[batch_axis] else str(batch_axis)
            problem = f"{subject} of {values.name}, and the batch axis is {batch}"
            raise FormatError(problem, "one and the same dimension", where=lengths.name)
        if size != 1 and name and name in names and name != names[place]:
            problem = f"its dimension {name} would go along {names[place] or f'axis {place}'} of {values.name}"
            raise FormatError(problem, f"along {name}", where=lengths.name)
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
            known = [name for d, name in enumerate(names) if name and d != axis]
            wanted = f"dimensions among {listed(known)}" if known else "one length, or dimensions without names"
            problem = f"its dimension {name}, of size {size}, is not a dimension of {values.name}"
            raise FormatError(problem, wanted, where=lengths.name)
        is_reversed = place == axis and not mask
        if place is not None and size != (1 if is_reversed else values.sizes[place]):
            along = f"{names[place] or f'axis {place}'} of {values.name} has {values.sizes[place]}"
            wanted = "one length for each line: size 1" if is_reversed else f"size {values.sizes[place]}"
            problem = f"its dimension {name} has size {size}, and {along}{', which is reversed' if is_reversed else ''}"
            raise FormatError(problem, wanted, where=lengths.name)
    if mask and axis not in places:
        problem = f"no dimension of it is {names[axis] or f'axis {axis}'}, along which {values.name} is reversed"
        raise FormatError(problem, "a mask along that dimension", where=lengths.name)
    return tuple(places)


def _by_sizes(values: Source, lengths: Source, axis: int, batch_axis: int | None) -> Places | None:
    sizes, rank = lengths.sizes, len(values.sizes)
    if sizes == () or (sizes == (1,) and batch_axis is None):
        return (None,) * len(sizes)  # one length, for all lines
    if batch_axis is not None:
        size = values.sizes[batch_axis]
        if len(sizes) > 2 or tuple(n for n in sizes if n != 1) != (size,) * (size != 1):
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
        wide = [tuple(n if d in places else 1 for d, n in enumerate(values.sizes)) for places in fitting]
        turned = [".T" if rows > columns else "" for rows, columns in fitting]
        ways = " or ".join(f"mask{t}.reshape{w}" for t, w in zip(turned, wide, strict=True))
        raise FormatError(problem, wanted, f"with numpy: {ways}; and without --batch-axis", mask.name)
    ways = " or ".join(dict.fromkeys([braced(values.sizes), *(braced((values.sizes[d], size)) for d in batches)]))
    wanted = f"{ways}: the sizes of {values.name}, or batch and time"
    raise FormatError(f"Sizes of the mask is {braced(sizes)}", wanted, where=mask.name)


def require_same_coordinates(values: Source, lengths: Source, places: Places | None) -> None:
    """FormatError where a coordinate of lengths from another file differs: they would go to other lines."""
    if values.path and values.path == lengths.path:
        return
    for name, place in zip(lengths.dimensions, places or (), strict=False):
        if not name or place is None or values.dimensions[place : place + 1] != (name,):
            continue
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
