"""Which dimension of the lengths goes along which of the values: by their names, as xarray aligns, or by sizes.

It has the axes that other systems have by default, and loads no NumPy.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.core.errors import FormatError, listed
from revseq_cli.core.tensors import braced, numbers_of
from revseq_cli.operator.spec import lengths_sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from revseq_cli.formats.contract import Source

    # For each dimension of the lengths that of the values, or None for a size of 1 that goes along none of them.
    Places = tuple[int | None, ...]

_MADE_UP = re.compile(r"(phony_)?dim_\d+")  # how xarray and h5netcdf name dimensions that have no names


class Shape(NamedTuple):
    """The sizes of a tensor, and the name of each dimension; "" for one without, or whose name says nothing."""

    name: str
    sizes: tuple[int, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, source: Source) -> Shape:
        """The shape of a tensor; names that libraries make up, or that two dimensions have, say nothing."""
        stated = source.dimensions or ("",) * len(source.sizes)
        names = ("" if _MADE_UP.fullmatch(name) or stated.count(name) > 1 else name for name in stated)
        return cls(source.name, source.sizes, tuple(names))

    def called(self, d: int) -> str:
        """The dimension for people: by its name, or else by its number."""
        return self.names[d] or f"axis {d}"


class System(NamedTuple):
    """The axis and the batch axis that a system has by default, the batch axis perhaps for `every_axis`."""

    axis: int
    batch_axis: int
    every_axis: bool = False

    def batch_for(self, axis: int) -> int | None:
        """The batch axis where `axis` is reversed: the other of the two; None where the system does not say it."""
        if axis == self.batch_axis:
            return self.axis
        return self.batch_axis if axis == self.axis or self.every_axis else None


SYSTEMS = {
    "onnx": System(0, 1),  # time_axis and batch_axis of ReverseSequence, in all versions of its schema
    "tensorflow": System(1, 0, every_axis=True),  # the layout of its layers; tf.reverse_sequence has batch_axis=0
    "pytorch": System(0, 1),  # torch.nn.utils.rnn without batch_first
}


def align(values: Shape, lengths: Shape, axis: int, batch_axis: int | None, *, mask: bool = False) -> Places | None:
    """Where the dimensions of the lengths go; None where they fit nowhere, which the operator's constraints tell.

    Names decide where both tensors have them; a dimension of size 1 whose name the values lack goes nowhere. With a
    `batch_axis`, there is one length for each of its indices. A `mask` has the reversed axis, too. FormatError for what
    contradicts names or the batch axis.
    """
    rank = len(values.sizes)
    if not 0 <= axis < rank:
        return None
    if batch_axis is not None and (not 0 <= batch_axis < rank or batch_axis == axis):
        wanted = f"{numbers_of(rank)}, and not the reversed axis {axis}" if rank > 1 else "two dimensions or more"
        raise FormatError(f"the batch axis is {batch_axis}", wanted, where=lengths.name)
    if are_named(values, lengths):
        places: Places | None = _by_names(values, lengths, axis, batch_axis, mask=mask)
    elif mask:
        places = _mask_by_sizes(values, lengths, axis, batch_axis)
    else:
        places = _by_sizes(values, lengths, axis, batch_axis)
    if places and batch_axis is not None:
        _require_batch(values, lengths, places, axis, batch_axis)
    if places:
        _refuse_contradiction(values, lengths, places)
    return places


def are_named(values: Shape, lengths: Shape) -> bool:
    """Whether names say where each dimension of the lengths goes."""
    dimensions = [*zip(lengths.sizes, lengths.names, strict=True)]
    if not any(values.names) or any(size != 1 and not name for size, name in dimensions):
        return False
    return any(size != 1 or name in values.names for size, name in dimensions if name)


def _by_names(values: Shape, lengths: Shape, axis: int, batch_axis: int | None, *, mask: bool) -> Places:
    places: list[int | None] = []
    long = [i for i, size in enumerate(lengths.sizes) if size != 1]
    for i, (name, size) in enumerate(zip(lengths.names, lengths.sizes, strict=True)):
        if name and name in values.names:
            place = values.names.index(name)
            _require_size(values, lengths, i, place, 1 if place == axis and not mask else values.sizes[place])
        elif size == 1:
            place = None
        elif batch_axis is not None and long == [i] and not mask:  # only the user says where it goes
            place = batch_axis
            _require_size(values, lengths, i, place, values.sizes[place])
        else:
            raise _lacking(values, lengths, i, axis)
        places.append(place)
    if mask and axis not in places:
        found = f"no dimension of it is {values.called(axis)}, along which {values.name} is reversed"
        raise FormatError(found, "a mask along that dimension", where=lengths.name)
    return tuple(places)


def _require_size(values: Shape, lengths: Shape, i: int, place: int, wanted: int) -> None:
    """FormatError unless a dimension of the lengths has that size."""
    size = lengths.sizes[i]
    if size == wanted:
        return
    found = f"its dimension {lengths.called(i)} has size {size}"
    found = f"{found}, and {values.called(place)} of {values.name} has {values.sizes[place]}"
    if wanted == values.sizes[place]:
        raise FormatError(found, f"size {wanted}", where=lengths.name)
    hint = ""
    if size == values.sizes[place]:
        others = [name for name in values.names if name and name not in lengths.names]
        hint = "if it is a mask of ones and zeros, add --mask"
        if len(others) == 1:  # the lengths have all other dimensions
            hint = f"if it has lengths, try --axis {others[0]}; {hint}"
    raise FormatError(f"{found}, which is reversed", "one length for each line: size 1", hint, lengths.name)


def _lacking(values: Shape, lengths: Shape, i: int, axis: int) -> FormatError:
    """The error for a name that the values lack."""
    found = f"its dimension {lengths.called(i)}, of size {lengths.sizes[i]}, is not a dimension of {values.name}"
    known = [name for d, name in enumerate(values.names) if name and d != axis]
    wanted = f"dimensions among {listed(known)}" if known else "one length, or dimensions without names"
    return FormatError(found, wanted, where=lengths.name)


def _require_batch(values: Shape, lengths: Shape, places: Places, axis: int, batch_axis: int) -> None:
    """FormatError where the lengths go along another dimension than the batch axis that was asked for."""
    for i, place in enumerate(places):
        if place not in (None, axis, batch_axis):
            own = f"its {'dimension ' * bool(lengths.names[i])}{lengths.called(i)} is axis {place} of {values.name}"
            named = f" ({values.names[batch_axis]})" if values.names[batch_axis] else ""
            found = f"{own}, and the batch axis is {batch_axis}{named}"
            raise FormatError(found, "one and the same dimension", where=lengths.name)


def _refuse_contradiction(values: Shape, lengths: Shape, places: Places) -> None:
    """FormatError where sizes put a dimension elsewhere than the name that it has."""
    for name, size, place in zip(lengths.names, lengths.sizes, places, strict=True):
        if size != 1 and place is not None and name in values.names and name not in ("", values.names[place]):
            found = f"its dimension {name} would go along {values.called(place)} of {values.name}"
            raise FormatError(found, f"along {name}", where=lengths.name)


def _by_sizes(values: Shape, lengths: Shape, axis: int, batch_axis: int | None) -> Places | None:
    if lengths.sizes == () or (lengths.sizes == (1,) and batch_axis is None):
        return (None,) * len(lengths.sizes)  # one length, for all lines
    if batch_axis is not None:
        size = values.sizes[batch_axis]
        if len(lengths.sizes) > 2 or tuple(n for n in lengths.sizes if n != 1) != (size,) * (size != 1):
            wanted = f"{braced((size,))}: one length for each index of axis {batch_axis}"
            raise FormatError(f"Sizes is {braced(lengths.sizes)}", wanted, where=lengths.name)
        place = lengths.sizes.index(size)
        return tuple(batch_axis if i == place else None for i in range(len(lengths.sizes)))
    if lengths.sizes == lengths_sizes(values.sizes, axis):
        return tuple(range(len(values.sizes)))
    others = tuple(d for d in range(len(values.sizes)) if d != axis)
    return others if lengths.sizes == tuple(values.sizes[d] for d in others) else None


def _mask_by_sizes(values: Shape, mask: Shape, axis: int, batch_axis: int | None) -> Places:
    """Where a mask goes that has the sizes of the values, or those of a batch axis and of the reversed axis."""
    rank, size = len(values.sizes), values.sizes[axis]
    batches = [d for d in range(rank) if d != axis and batch_axis in (None, d)]
    orders = [places for d in batches for places in ((d, axis), (axis, d))]
    found = [places for places in orders if mask.sizes == tuple(values.sizes[d] for d in places)]
    is_whole = len(mask.sizes) == rank and all(
        own == size or (own == 1 and d != axis)
        for d, (own, size) in enumerate(zip(mask.sizes, values.sizes, strict=True))
    )
    # With two dimensions, a mask with the sizes of the values may be one of time and batch, too.
    if is_whole and not (rank == 2 and batch_axis is not None and axis < batch_axis and len(found) > 1 and size > 1):
        return tuple(d if own != 1 or d == axis else None for d, own in enumerate(mask.sizes))
    if len(found) == 1 or (found and (size == 1 or (batch_axis is not None and batch_axis < axis))):
        return found[0]
    problem = f"Sizes of the mask is {braced(mask.sizes)}"
    if found:
        wanted = (
            "a mask with all dimensions of the values, of which some may have size 1, or a batch axis before the axis"
        )
        raise FormatError(f"{problem}, which fits in {len(found)} ways", wanted, _ways(values, found), mask.name)
    of_batch = " or ".join(braced((values.sizes[d], size)) for d in batches)
    wanted = f"{braced(values.sizes)}, as {values.name} has"
    raise FormatError(problem, f"{wanted}, or {of_batch}: batch and time" if of_batch else wanted, where=mask.name)


def _ways(values: Shape, found: Sequence[tuple[int, int]]) -> str:
    """How to make the mask fit in one way only, for each in which it fits: with all dimensions of the values."""
    texts = []
    for rows, columns in found:
        sizes = (size if d in (rows, columns) else 1 for d, size in enumerate(values.sizes))
        turned = "mask" if rows < columns else "mask.T"
        texts.append(f"{turned}.reshape({', '.join(map(str, sizes))}), where rows go along axis {rows}")
    return f"with numpy: {'; or '.join(texts)}; and without --batch-axis"
