"""Jobs: how two open tensors make a reversal, and the request that says it.

Which dimension of the lengths goes along which of the values is told by their names, as xarray aligns, or by sizes.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.core import platform
from revseq_cli.core.errors import FormatError, UsageError, listed
from revseq_cli.core.tensors import DataType, TensorDesc, braced, numbers_of
from revseq_cli.formats.contract import TextTypes
from revseq_cli.formats.references import Reference, refuse_shared
from revseq_cli.operator.spec import INPUT, LENGTHS, FeatureLevel, lengths_sizes
from revseq_cli.pipeline import SYSTEMS
from revseq_cli.pipeline.views import LengthsSource, PlacedSource, ScannedSource, lengths_by_padding, missing_marks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Source
    from revseq_cli.formats.file_io import Identity
    from revseq_cli.pipeline.views import Places

_MADE_UP = re.compile(r"(phony_)?dim_\d+")  # how xarray and h5netcdf name dimensions that have no names


@dataclass(frozen=True)
class Request:
    """A job as it is asked for, before anything is read; None stands for what is not given.

    `values` and `lengths` name tensors, or are tensors as text. `axis` and `batch_axis` are dimensions of the input, by
    their numbers, negative from the end, or by their names where its file has names. With `mask`, the lengths are the
    numbers of ones in the lines of a mask; with `padding`, they are those of the lines without that value at their
    ends. `like` names one of SYSTEMS, whose axes are the defaults. `level` is the feature level. `format` is the format
    of inputs whose bytes and suffix do not say theirs, or, with `override`, of all inputs. With `absolute`, paths are
    made absolute, since workers may have another working directory. `sizes` are those of an INPUT that is a raw
    buffer. `feed` names a tensor for each input of the model in `values`, as NAME=FILE. `typed` has the words of the
    command line, which hints repeat.
    """

    values: str
    lengths: str | None = None
    axis: int | str | None = None
    dtype: DataType | None = None
    lengths_dtype: DataType | None = None
    batch_axis: int | str | None = None
    like: str | None = None
    level: FeatureLevel = FeatureLevel.NONE
    format: str | None = None
    override: bool = False
    absolute: bool = False
    mask: bool = False
    padding: float | None = None
    sizes: tuple[int, ...] | None = None
    feed: tuple[str, ...] = ()
    typed: tuple[str, ...] = ()

    @property
    def types(self) -> TextTypes:
        """What is asked of INPUT where its file does not say it."""
        return TextTypes(self.dtype, DataType.FLOAT32, sizes=self.sizes)

    @property
    def types_of_lengths(self) -> TextTypes:
        """The data type of LENGTHS where they are a text."""
        return TextTypes(self.lengths_dtype, DataType.UINT32)

    @functools.cached_property
    def references(self) -> tuple[Reference, Reference | None]:
        """References to INPUT and LENGTHS; UsageError where both are one pipe."""
        values = self.reference(self.values, "INPUT")
        if self.lengths is None:
            return values, None
        lengths = self.reference(self.lengths, "LENGTHS")
        refuse_shared([("INPUT", values), ("LENGTHS", lengths)])
        return values, lengths

    def reference(self, text: str, name: str) -> Reference:
        """A reference to one of the job's tensors; `name` is for messages about a text."""
        reference = Reference.input(text, self.format, name, override=self.override)
        return reference.absolute() if self.absolute else reference

    def axes(self, values: Source) -> tuple[int | None, int | None]:
        """The axis and the batch axis, counted from 0, by default those of the system; None where nothing says it.

        UsageError for a name that no dimension has. A number that is out of range stays.
        """
        axis, batch_axis = (_number_of(d, values) for d in (self.axis, self.batch_axis))
        if self.like:
            own_axis, own_batch = SYSTEMS[self.like]
            if axis is None:  # with the other of its two axes as the batch, it is the other one
                axis = own_batch if batch_axis == own_axis else own_axis
            if batch_axis is None:
                if axis == own_batch:
                    batch_axis = own_axis
                elif axis == own_axis or not own_batch:  # batches come first whatever axis is reversed
                    batch_axis = own_batch
                batch_axis = batch_axis if batch_axis is not None and batch_axis < len(values.sizes) else None
        return axis, batch_axis


def _number_of(axis: int | str | None, values: Source) -> int | None:
    """The number of a dimension from 0 on; UsageError for a name unless just one dimension has it."""
    rank = len(values.sizes)
    if not isinstance(axis, str):
        return axis + rank if axis is not None and -rank <= axis < 0 else axis
    numbers = [d for d, name in enumerate(values.dimensions) if name == axis]
    if len(numbers) == 1:
        return numbers[0]
    names, span, hint = [*filter(None, values.dimensions)], f"{numbers_of(rank)}, by number", ""
    found = f"no dimension is named {axis[:80]}"
    wanted = f"one of {listed(names)}, or {span}" if names else f"{span}: its dimensions have no names"
    if numbers:
        found, wanted = f"{len(numbers)} dimensions are named {axis[:80]}: {listed(map(str, numbers))}", span
    elif len(axis) < 80 and axis.isdecimal():  # of another script, or of full width
        hint = f"{axis} is not written in the digits 0 to 9: type {int(axis)}"
    raise UsageError(found, wanted if rank else "a tensor with dimensions", hint, values.name)


@dataclass(frozen=True)
class Job:
    """One reversal: `values` along `axis` by `lengths`, both open, with their headers read.

    The lengths are unsigned, and have the sizes of the values, with 1 along the axis. `lengths_type` is their data type
    as it was given, which feature levels judge; None where it is that of `lengths`. `batch_axis` is the axis that has
    one length for each of its indices, if the lengths were given so.
    """

    values: Source
    lengths: Source
    axis: int
    batch_axis: int | None = None
    request: Request | None = None
    lengths_type: DataType | None = None

    @property
    def descs(self) -> tuple[TensorDesc, TensorDesc, int]:
        """What the constraints are about: the values, the lengths with the data type as given, and the axis."""
        desc = self.lengths.desc
        return self.values.desc, TensorDesc(self.lengths_type or desc.data_type, desc.sizes), self.axis

    @property
    def level(self) -> FeatureLevel:
        """The feature level that was asked for."""
        return self.request.level if self.request else FeatureLevel.NONE

    @property
    def names(self) -> dict[str, str]:
        """What the user called each tensor, by its name in the operator."""
        return {INPUT: self.values.name, LENGTHS: self.lengths.name}

    @property
    def files(self) -> list[Identity]:
        """The files that are read, which no output may replace."""
        return [*self.values.files, *self.lengths.files]

    @property
    def given_lengths(self) -> Source:
        """The lengths in the dimensions in which they were given: of rank 1 with a batch axis."""
        return self.lengths.source if isinstance(self.lengths, PlacedSource) else self.lengths

    def clamping(self, clamped: int) -> tuple[str, ...]:
        """A note that so many of the given lengths exceed the axis size; none for 0."""
        if not clamped:
            return ()
        total, size = self.given_lengths.desc.element_count, self.values.sizes[self.axis]
        exceed, are = ("exceeds", "is") if clamped == 1 else ("exceed", "are")
        noun = "length" if total == 1 else "lengths"
        return (f"{clamped:,} of {total:,} {noun} {exceed} the axis size ({size:,}) and {are} clamped to {size:,}",)

    def recheck(self) -> None:
        """Raise TensorIOError if an input file has changed since its header was read."""
        self.values.recheck()
        self.lengths.recheck()


def make(values: Source, lengths: Source | None, request: Request) -> Job:
    """The job of two open tensors; `lengths` is None where they are told by the padding of the values.

    UsageError and FormatError for what makes no job. The constraints are not checked here.
    """
    axis, batch_axis = request.axes(values)
    rank = len(values.sizes)
    if axis is None:
        names = listed(filter(None, values.dimensions))
        wanted = f"the dimension to reverse along, {numbers_of(rank)}" if rank else "a tensor with dimensions"
        raise UsageError("no axis is given", wanted + (f", or {names}" if names else ""), where=values.name)
    if not 0 <= axis < rank and (lengths is None or batch_axis is not None or request.mask):
        # There is no axis that lengths could lack, and the constraints could not tell it.
        if not rank:
            raise UsageError("has no dimensions", "a tensor with dimensions", where=values.name)
        raise UsageError(f"Axis is {axis}", numbers_of(rank), where=values.name)
    places: Places | None
    if lengths is None or request.padding is not None:
        _require_batch_axis(batch_axis, axis, values)
        lengths = lengths_by_padding(values, axis, batch_axis, request.padding or 0)
        places = tuple(d for d in range(rank) if d != axis) if batch_axis is None else (batch_axis,)
    else:
        if request.batch_axis is None and lengths.sizes == (1,):
            batch_axis = None  # one sequence, of which a system's batch axis says nothing
        places = align(values, lengths, axis, batch_axis, mask=request.mask)
        _compare_coordinates(values, lengths, places)
        if request.mask and places:
            along = places.index(axis)
            lengths = ScannedSource(lengths, along, [i for i in range(len(places)) if i != along])
            places = places[:along] + places[along + 1 :]
    lengths_type = request.lengths_dtype or lengths.desc.data_type
    lengths = unsigned(lengths, request.lengths_dtype)
    if places is None or places == tuple(range(rank)):
        return Job(values, lengths, axis, None, request, lengths_type)
    placed = [d for d in places if d is not None]
    batch = placed[0] if len(placed) == 1 else None
    return Job(values, PlacedSource(lengths, values.sizes, axis, places), axis, batch, request, lengths_type)


def unsigned(lengths: Source, cast: DataType | None) -> Source:
    """Lengths of any number type as unsigned integers, of the type `cast`, if that is one; reading checks them.

    Those of a type that no lengths have stay as they are, since the constraints refuse them.
    """
    data_type = lengths.desc.data_type
    if data_type.kind in ("bool", "complex"):
        return lengths
    wide = data_type.size == DataType.UINT64.size or data_type.kind == "float"
    own = data_type if data_type.kind == "uint" else DataType.UINT64 if wide else DataType.UINT32
    marks = () if isinstance(lengths, ScannedSource) else missing_marks(lengths)
    target = cast or own
    return lengths if target is data_type and not marks else LengthsSource(lengths, target, marks)


def refuse_packed(lengths: Source) -> None:
    """FormatError for lengths that stand for others by the attributes of their file."""
    meaning = lengths.meaning()
    attributes = meaning.attributes if meaning else {}
    if np.any(attributes.get("scale_factor", 1) != 1) or np.any(attributes.get("add_offset", 0) != 0):
        packing = listed(f"{name} {attributes[name]}" for name in ("scale_factor", "add_offset") if name in attributes)
        unpacked = f"xarray.open_dataset({lengths.path!r})[{lengths.key.rpartition('/')[2]!r}].values"
        hint = f"unpack them: python -c \"import numpy, xarray; numpy.save('lengths.npy', {unpacked})\""
        raise FormatError(f"its lengths are packed, by {packing}", "lengths as they are", hint, lengths.name)


# Alignment


def names_of(source: Source) -> tuple[str, ...]:
    """The names of a tensor's dimensions; "" for one without, or with one that a library made up or that two have."""
    names = source.dimensions or ("",) * len(source.sizes)
    return tuple("" if _MADE_UP.fullmatch(name) or names.count(name) > 1 else name for name in names)


def align(values: Source, lengths: Source, axis: int, batch_axis: int | None, *, mask: bool = False) -> Places | None:
    """Where the dimensions of the lengths go; None where they fit nowhere, which the operator's constraints tell.

    Names decide where both tensors have them; a dimension of size 1 whose name the values lack goes nowhere. With a
    `batch_axis`, there is one length for each of its indices. A `mask` has the reversed axis, too. FormatError for what
    contradicts names or the batch axis.
    """
    if not 0 <= axis < len(values.sizes):
        return None
    _require_batch_axis(batch_axis, axis, values)
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
            own_name = f"its dimension {name} is axis {place}" if name else f"it goes along axis {place}"
            batch = f"{batch_axis} ({names[batch_axis]})" if names[batch_axis] else str(batch_axis)
            found = f"{own_name} of {values.name}, and the batch axis is {batch}"
            raise FormatError(found, "one and the same dimension", where=lengths.name)
        if size != 1 and name and name in names and name != names[place]:
            found = f"its dimension {name} would go along {names[place] or f'axis {place}'} of {values.name}"
            raise FormatError(found, f"along {name}", where=lengths.name)
    return places


def _require_batch_axis(batch_axis: int | None, axis: int, values: Source) -> None:
    rank = len(values.sizes)
    if batch_axis is not None and (not 0 <= batch_axis < rank or batch_axis == axis):
        wanted = f"{numbers_of(rank)}, and not the reversed axis {axis}" if rank > 1 else "two dimensions or more"
        raise UsageError(f"the batch axis is {batch_axis}", wanted, where=values.name)


def _by_names(values: Source, lengths: Source, axis: int, batch_axis: int | None, *, mask: bool) -> Places:
    names, own = names_of(values), names_of(lengths)
    places: list[int | None] = []
    only = sum(size != 1 for size in lengths.sizes) == 1
    for name, size in zip(own, lengths.sizes, strict=True):
        place = names.index(name) if name and name in names else None
        if place is None and size != 1:
            if batch_axis is None or not only or mask:
                known = [name for d, name in enumerate(names) if name and d != axis]
                wanted = f"dimensions among {listed(known)}" if known else "one length, or dimensions without names"
                found = f"its dimension {name}, of size {size}, is not a dimension of {values.name}"
                raise FormatError(found, wanted, where=lengths.name)
            place = batch_axis  # only the user says where it goes
        if place is not None and size != (1 if place == axis and not mask else values.sizes[place]):
            along = f"{names[place] or f'axis {place}'} of {values.name} has {values.sizes[place]}"
            found, wanted = f"its dimension {name} has size {size}, and {along}", f"size {values.sizes[place]}"
            if place == axis and not mask:
                found, wanted = f"{found}, which is reversed", "one length for each line: size 1"
            raise FormatError(found, wanted, where=lengths.name)
        places.append(place)
    if mask and axis not in places:
        found = f"no dimension of it is {names[axis] or f'axis {axis}'}, along which {values.name} is reversed"
        raise FormatError(found, "a mask along that dimension", where=lengths.name)
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
    found = [places for places in orders if sizes == tuple(values.sizes[d] for d in places)]
    is_whole = len(sizes) == rank and all(
        own == n or (own == 1 and d != axis) for d, (own, n) in enumerate(zip(sizes, values.sizes, strict=True))
    )
    # With two dimensions, a mask with the sizes of the values may be one of time and batch, too.
    if is_whole and not (rank == 2 and batch_axis is not None and axis < batch_axis and len(found) > 1 and size > 1):
        return tuple(d if own != 1 or d == axis else None for d, own in enumerate(sizes))
    if len(found) == 1 or (found and (size == 1 or (batch_axis is not None and batch_axis < axis))):
        return found[0]
    if found:
        wide = [tuple(n if d in places else 1 for d, n in enumerate(values.sizes)) for places in found]
        turned = [".T" if rows > columns else "" for rows, columns in found]
        ways = " or ".join(f"mask{t}.reshape{w}" for t, w in zip(turned, wide, strict=True))
        problem = f"Sizes of the mask is {braced(sizes)}, which fits in {len(found)} ways"
        wanted = f"one with all dimensions of {values.name}, or a batch axis before the axis"
        raise FormatError(problem, wanted, f"with numpy: {ways}; and without --batch-axis", mask.name)
    of_batch = " or ".join(braced((values.sizes[d], size)) for d in batches)
    wanted = f"{braced(values.sizes)}, as {values.name} has"
    wanted += f", or {of_batch}: batch and time" if of_batch else ""
    raise FormatError(f"Sizes of the mask is {braced(sizes)}", wanted, where=mask.name)


def _compare_coordinates(values: Source, lengths: Source, places: Places | None) -> None:
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
            found = f"its {name} is not that of {values.name}: {own[first]!s} and {other[first]!s} at [{first}]"
            wanted = "lengths for the same places, in the same order"
            hint = f"if their order is right: revseq convert {platform.typed(lengths.name)} lengths.npy, and use that"
            raise FormatError(found, wanted, hint, lengths.name)


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
