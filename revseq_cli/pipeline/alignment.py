"""Which dimension of the lengths goes along which of the values: by their names, as xarray aligns, or by sizes."""

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
        given = source.dimensions or ("",) * len(source.sizes)
        names = ("" if _MADE_UP.fullmatch(each) or given.count(each) > 1 else each for each in given)
        return cls(source.name, source.sizes, tuple(names))

    def called(self, d: int) -> str:
        """The dimension for people: by its name, or else by its number."""
        return self.names[d] or f"axis {d}"

    def all_called(self) -> str:
        """All dimensions for people."""
        return listed(map(self.called, range(len(self.sizes))), len(self.sizes))


class Alignment(NamedTuple):
    """Where each dimension of the lengths goes, and a note if that is more than the user has typed."""

    places: Places
    note: str = ""


def align(
    values: Shape, lengths: Shape, axis: int, batch_axis: int | None, *, mask: bool = False, batch_first: bool = False
) -> Alignment | None:
    """Where the dimensions of the lengths go; None where they are like those of the values, or fit nowhere.

    Names decide where both tensors have them; a dimension of size 1 whose name the values lack goes nowhere. A
    `batch_axis` was asked for. A `mask` has the reversed axis, too; with `batch_first`, a square one is of batch and
    time. FormatError for what contradicts names or the batch axis. What fits nowhere is left to the constraints of the
    operator.
    """
    rank = len(values.sizes)
    if not 0 <= axis < rank:
        return None
    if batch_axis is not None and (not 0 <= batch_axis < rank or batch_axis == axis):
        wanted = f"{numbers_of(rank)}, and not the reversed axis {axis}" if rank > 1 else "two dimensions or more"
        raise FormatError(f"the batch axis is {batch_axis}", wanted, where=lengths.name)
    if are_named(values, lengths):
        return _by_names(values, lengths, axis, batch_axis, mask=mask)
    if mask:
        found: Alignment | None = _mask_by_sizes(values, lengths, axis, batch_axis, batch_first=batch_first)
    else:
        found = _by_sizes(values, lengths, axis, batch_axis)
        if not found and batch_axis is None and is_single(lengths) and len(lengths.sizes) < rank:
            found = Alignment((None,) * len(lengths.sizes), f"{lengths.name}: one length, for all lines")
    if found:
        _require_batch(values, lengths, found.places, axis, batch_axis)
    if found or len(lengths.sizes) == rank:
        _refuse_contradiction(values, lengths, found.places if found else tuple(range(rank)))
    return found


def is_single(lengths: Shape) -> bool:
    """Whether they are one length, without dimensions or alone in one."""
    return lengths.sizes in ((), (1,))


def are_named(values: Shape, lengths: Shape) -> bool:
    """Whether names say where each dimension of the lengths goes."""
    dimensions = [*zip(lengths.sizes, lengths.names, strict=True)]
    if not any(values.names) or any(size != 1 and not name for size, name in dimensions):
        return False
    return any(size != 1 or name in values.names for size, name in dimensions if name)


def _by_names(values: Shape, lengths: Shape, axis: int, batch_axis: int | None, *, mask: bool) -> Alignment | None:
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
    _require_batch(values, lengths, places, axis, batch_axis)
    if mask and axis not in places:
        found = f"no dimension of it is {values.called(axis)}, along which {values.name} is reversed"
        raise FormatError(found, "a mask along that dimension", where=lengths.name)
    if places == [*range(len(values.sizes))] and not mask:
        return None
    return Alignment(tuple(places), _note(values, lengths, places, axis, batch_axis))


def _note(values: Shape, lengths: Shape, places: Sequence[int | None], axis: int, batch_axis: int | None) -> str:
    """What names have decided; nothing where the user has typed the one dimension that matters."""
    if places == [batch_axis] or [*filter(None, lengths.names)] == [*values.names]:
        return ""
    others = [values.called(d) for d in range(len(values.sizes)) if d != axis and d not in places]
    told = f"the dimensions ({lengths.all_called()}) are aligned by name with ({values.all_called()}) of {values.name}"
    repeated = f", and repeated along {listed(others)}" if others else ""
    return f"{lengths.name}: {told}{repeated}"


def _require_size(values: Shape, lengths: Shape, i: int, place: int, wanted: int) -> None:
    """FormatError unless a dimension of the lengths has that size."""
    size, named = lengths.sizes[i], f"{values.called(place)} of {values.name}"
    if size == wanted:
        return
    found = f"its dimension {lengths.called(i)} has size {size}, and {named} has {values.sizes[place]}"
    if wanted == values.sizes[place]:
        raise FormatError(found, f"size {wanted}", where=lengths.name)
    others = [name for name in values.names if name and name not in lengths.names]
    text = "if it is a mask of ones and zeros, add --mask"
    if len(others) == 1:  # the lengths have all other dimensions
        text = f"if it has lengths, try --axis {others[0]}; {text}"
    hint = text if size == values.sizes[place] else ""
    raise FormatError(f"{found}, which is reversed", "one length for each line: size 1", hint, lengths.name)


def _lacking(values: Shape, lengths: Shape, i: int, axis: int) -> FormatError:
    """The error for a name that the values lack."""
    found = f"its dimension {lengths.called(i)}, of size {lengths.sizes[i]}, is not a dimension of {values.name}"
    known = [name for d, name in enumerate(values.names) if name and d != axis]
    return FormatError(found, f"dimensions among {listed(known, len(known))}", where=lengths.name)


def _require_batch(
    values: Shape, lengths: Shape, places: Sequence[int | None], axis: int, batch_axis: int | None
) -> None:
    """FormatError where the lengths go along another dimension than the batch axis that was asked for."""
    if batch_axis is None:
        return
    for i, place in enumerate(places):
        if place not in (None, axis, batch_axis):
            own = f"its {'dimension ' * bool(lengths.names[i])}{lengths.called(i)} is axis {place} of {values.name}"
            named = f" ({values.names[batch_axis]})" if values.names[batch_axis] else ""
            found = f"{own}, and the batch axis is {batch_axis}{named}"
            raise FormatError(found, "one and the same dimension", where=lengths.name)


def _refuse_contradiction(values: Shape, lengths: Shape, places: Places) -> None:
    """FormatError where sizes put a dimension elsewhere than the name that it has."""
    for name, size, place in zip(lengths.names, lengths.sizes, places, strict=True):
        if size == 1 or place is None or name in ("", values.names[place]):
            continue
        if name in values.names:
            found = f"its dimension {name} would go along {values.called(place)} of {values.name}"
            raise FormatError(found, f"along {name}", where=lengths.name)


def _by_sizes(values: Shape, lengths: Shape, axis: int, batch_axis: int | None) -> Alignment | None:
    rank = len(values.sizes)
    others = tuple(d for d in range(rank) if d != axis)
    if batch_axis is not None:
        size = values.sizes[batch_axis]
        if lengths.sizes != (size,):
            wanted = f"{braced((size,))}: one length for each index of axis {batch_axis}"
            raise FormatError(f"Sizes is {braced(lengths.sizes)}", wanted, where=lengths.name)
        return Alignment((batch_axis,))
    if lengths.sizes != tuple(values.sizes[d] for d in others):
        return None
    full = braced(lengths_sizes(values.sizes, axis))
    note = f"{lengths.name}: its sizes are those of {values.name} without axis {axis}: they are taken for {full}"
    return Alignment(others, note)


def _mask_by_sizes(values: Shape, mask: Shape, axis: int, batch_axis: int | None, *, batch_first: bool) -> Alignment:
    """Where a mask goes that has the sizes of the values, or those of a batch axis and of the reversed axis."""
    size = values.sizes[axis]
    batches = [d for d in range(len(values.sizes)) if d != axis and batch_axis in (None, d)]
    found = _batch_and_axis(values, mask, axis, batches)
    # A mask of rank 2 with the sizes of the values may be one of batch and time, too: a batch axis that was asked for
    # says so where both orders fit and are not the same.
    both_orders = batch_axis is not None and axis < batch_axis and len(found) == 2 and size != 1
    if _has_all_dimensions(values, mask, axis) and not both_orders:
        return Alignment(tuple(d if own != 1 or d == axis else None for d, own in enumerate(mask.sizes)))
    is_first = batch_axis is not None and (batch_axis < axis or batch_first)  # as in the values, or always
    if len(found) == 1 or (found and (is_first or size == 1)):  # where the axis has size 1, all ways give the same
        is_typed = batch_axis is not None and (len(found) == 1 or batch_axis < axis)
        return Alignment(found[0], "" if is_typed else _along_batch(values, mask, axis, found[0]))
    raise _no_mask(values, mask, axis, found, batches, batch_axis)


def _along_batch(values: Shape, mask: Shape, axis: int, places: tuple[int, int]) -> str:
    """The note that says which dimension of a mask goes along the reversed axis."""
    batch = next(d for d in places if d != axis)
    line = "row" if places[1] == axis else "column"
    return f"{mask.name}: a {line} of it goes along axis {axis} for each index of axis {batch} of {values.name}"


def _batch_and_axis(values: Shape, mask: Shape, axis: int, batches: Sequence[int]) -> list[tuple[int, int]]:
    """Each batch axis and the reversed axis, in either order, that have the sizes of the mask."""
    orders = [places for d in batches for places in ((d, axis), (axis, d))]
    return [places for places in orders if mask.sizes == tuple(values.sizes[d] for d in places)]


def _has_all_dimensions(values: Shape, mask: Shape, axis: int) -> bool:
    """Whether a mask has the dimensions of the values, some of size 1, but not the one that is reversed."""
    if len(mask.sizes) != len(values.sizes):
        return False
    pairs = enumerate(zip(mask.sizes, values.sizes, strict=True))
    return all(own == size or (own == 1 and d != axis) for d, (own, size) in pairs)


def _no_mask(
    values: Shape, mask: Shape, axis: int, found: Sequence[tuple[int, int]], batches: Sequence[int],
    batch_axis: int | None,
) -> FormatError:  # fmt: skip
    """The error for a mask that fits in no way, or in the several ways that were found; a batch axis was asked for."""
    problem = f"Sizes of the mask is {braced(mask.sizes)}"
    if found:
        problem += f", which fits in {len(found)} ways"
        told = "" if batch_axis is None else f"; batch axis {batch_axis} does not decide: it is behind axis {axis}"
        return FormatError(problem, f"the one that is meant{told}", _ways(values, found, axis), mask.name)
    batch_sizes = " or ".join(braced((values.sizes[d], values.sizes[axis])) for d in batches)
    wanted = f"{braced(values.sizes)}, as {values.name} has" + f", or {batch_sizes}: batch and time" * bool(batches)
    return FormatError(problem, wanted, where=mask.name)


def _ways(values: Shape, found: Sequence[tuple[int, int]], axis: int) -> str:
    """What to do for each way in which a mask fits: the batch axis decides, or a mask with all dimensions in order."""
    texts = []
    for rows, columns in found:
        if len(values.sizes) == 2:
            mask = "numpy's mask.T" if columns == axis else "the mask as it is"
            how = f"{mask}, and without --batch-axis"
        elif (columns, rows) not in found or rows < columns == axis:
            how = f"--batch-axis {rows if columns == axis else columns}"
        else:
            sizes = (size if d in (rows, columns) else 1 for d, size in enumerate(values.sizes))
            how = f"numpy's {'mask' if rows < columns else 'mask.T'}.reshape({', '.join(map(str, sizes))})"
        texts.append(f"with {how}: a row for each index of axis {rows}")
    return "; ".join(texts)
