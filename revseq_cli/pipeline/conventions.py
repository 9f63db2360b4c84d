"""What files say by the conventions of NetCDF, and what follows for a job.

It is how lengths are packed, which lengths and values are missing, and where the lengths belong by their coordinates.

Sources: scale_factor, add_offset, _FillValue, missing_value, valid_range, valid_min and valid_max of the CF conventions
1.11, sections 2.5.1 and 8.1: all but the first two are about packed values. _Unsigned of the NetCDF Users Guide,
appendix A.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.core import system, thresholds
from revseq_cli.core.errors import FormatError, RevseqError, listed
from revseq_cli.core.tensors import DataType
from revseq_cli.formats.contract import DEFAULT_FILL
from revseq_cli.formats.meaning import MISSING, PACKING, VALID
from revseq_cli.pipeline.views import CastSource, Computed, index_of, pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Coordinate, ReadTask, Region, Source
    from revseq_cli.pipeline.alignment import Alignment

_MOST = 1 << 63
_LONGEST = 40  # characters of a value in a message
_COMPARED = {*"biufSUO"}  # NumPy's kinds of numbers and text


def unpacked(source: Source, data_type: DataType) -> Source:
    """The lengths that packed ones stand for, in that data type; others as they are.

    FormatError for attributes that do not say how they are packed; reading raises it for what is no integer.
    """
    scale, offset = _number(source, "scale_factor", 1), _number(source, "add_offset", 0)
    if scale == 1 and offset == 0 and not _is_wrapped(source):
        return source
    return CastSource(_UnpackedSource(source, scale, offset), data_type, "--lengths-dtype")


def _number(source: Source, attribute: str, default: int) -> Fraction:
    """An attribute as the decimal number that was meant: 0.1 is one tenth, in FLOAT32 and in FLOAT64."""
    values = source.conventions().get(attribute, [default])
    try:
        value = float(*values)
        with np.errstate(all="ignore"):
            narrow = np.float32(value)
        return Fraction(str(narrow if float(narrow) == value else value))
    except (ValueError, TypeError, OverflowError):
        raise FormatError(f"its {attribute} is {_shown(values)}", "one number", where=source.name) from None


def _is_wrapped(source: Source) -> bool:
    """Whether its integers are of the other kind than their data type: unsigned in a signed one, or signed."""
    stated = [str(each).lower() for each in source.conventions().get("_Unsigned", ())]
    return stated == [{"int": "true", "uint": "false"}.get(source.desc.data_type.kind)]


class _UnpackedSource(CastSource):
    """Lengths times `scale` plus `offset`, in INT64; FormatError for one that is no integer, or too large."""

    def __init__(self, source: Source, scale: Fraction, offset: Fraction) -> None:
        super().__init__(source, DataType.INT64)
        self._numbers, self._wrapped = (scale, offset), source.desc.data_type if _is_wrapped(source) else None

    def read_task(self, region: Region) -> ReadTask:
        """A read task that unpacks the region."""
        step = partial(_unpack, self.name, region, *self._numbers, self._wrapped)
        return Computed(step, (super().read_task(region),))


def _unpack(
    name: str, region: Region, scale: Fraction, offset: Fraction, wrapped: DataType | None, packed: NDArray[Any]
) -> NDArray[Any]:
    """The unpacked lengths, exactly."""
    divisor = scale.denominator * offset.denominator
    factor, added = int(scale * divisor), int(offset * divisor)
    size = 1 << 8 * wrapped.size if wrapped else 0
    largest = max(abs(int(packed.min(initial=0))), abs(int(packed.max(initial=0))), size, 1)
    if max(divisor, size, largest * abs(factor) + abs(added)) >= _MOST:
        packed = packed.astype(object)  # Python's integers have any size
    if wrapped:
        below = 0 if wrapped.kind == "int" else size >> 1
        packed = (packed + below) % size - below
    multiple = packed * factor + added
    if packed.dtype == object and (large := abs(multiple) >= _MOST * divisor).any():
        found = f"{packed[large][0]} at {index_of(large, region)} is too large to unpack"
        raise FormatError(found, f"at most {_MOST - 1} after scale_factor and add_offset", where=name)
    if (wrong := multiple % divisor != 0).any():
        index, result = index_of(wrong, region), float(Fraction(int(multiple[wrong][0]), divisor))
        found = f"{packed[wrong][0]} at {index} is unpacked to {'nearly ' * result.is_integer()}{result}"
        wanted = f"an integer after scale_factor {float(scale):g} and add_offset {float(offset):g}"
        raise FormatError(found, wanted, where=name)
    return (multiple // divisor).astype(np.int64)


def refuse_missing(source: Source) -> None:
    """FormatError with the number and the first index of lengths that stand for none; all of them are read."""
    rules = [*_rules_of_missing(source)]
    if not rules:
        return
    dtype = _other_kind(source.dtype) if _is_wrapped(source) else source.dtype
    count, first, value, why = 0, [0], None, ""
    for region, values in pieces(source):
        unwrapped = values.astype(dtype, copy=False)
        found = [applies(unwrapped) for _, applies in rules]
        missing = np.any(found, axis=0)
        if missing.any() and not count:
            first, value = index_of(missing, region), values[missing][0]
            reasons = [says for (says, _), each in zip(rules, found, strict=True) if each[missing][0]]
            why = " and ".join(dict.fromkeys(reasons))
        count += int(np.count_nonzero(missing))
    if count:
        of_all = f"{count:,} of {source.desc.element_count:,} lengths {'is' if count == 1 else 'are'} missing"
        raise FormatError(f"{of_all}: {value} at {first} is {why}", "a length for each line", where=source.name)


def missing_in(source: Source) -> Callable[[NDArray[Any]], NDArray[np.bool_]] | None:
    """What says of the stored values which ones are missing, as a function that pickles; None where none can be."""
    if source.dtype.kind not in "iuf" or not (rules := tuple(applies for _, applies in _rules_of_missing(source))):
        return None
    return partial(_missing, rules, _other_kind(source.dtype) if _is_wrapped(source) else source.dtype)


def _missing(
    rules: Sequence[Callable[[NDArray[Any]], NDArray[np.bool_]]], dtype: np.dtype[Any], values: NDArray[Any]
) -> NDArray[np.bool_]:
    unwrapped = values.astype(dtype, copy=False)
    missing: NDArray[np.bool_] = np.any([applies(unwrapped) for applies in rules], axis=0)
    return missing


# For each attribute its limits: what to say of a length beyond one, and how the limit compares with such a length.
_Limits = tuple[tuple[str, "Callable[[Any, NDArray[Any]], NDArray[np.bool_]]"], ...]
_BELOW, _ABOVE = ("below", np.greater), ("above", np.less)
_LIMITS: dict[str, _Limits] = dict(zip(VALID, ((_BELOW, _ABOVE), (_BELOW,), (_ABOVE,)), strict=True))


def _rules_of_missing(source: Source) -> Iterator[tuple[str, Callable[[NDArray[Any]], NDArray[np.bool_]]]]:
    """A rule for each value that marks a length as missing, and for each limit of what is valid.

    Each says in words, and as a function of lengths, which of them stand for none.
    """
    stated = source.conventions()
    for name in (*MISSING, DEFAULT_FILL):
        says = name if name == DEFAULT_FILL else f"its {name}"
        marks = [each for each in stated.get(name, []) if _is_number(each)]
        yield from ((says, partial(_equals, _as_lengths(source, each))) for each in marks)
    for name, sides in _LIMITS.items():
        if (limits := stated.get(name)) is None:
            continue
        if len(limits) != len(sides) or not all(map(_is_number, limits)):
            wanted = "one number" if len(sides) == 1 else f"{len(sides)} numbers"
            raise FormatError(f"its {name} is {_shown(limits)}", wanted, where=source.name)
        for (side, is_beyond), limit in zip(sides, limits, strict=True):
            says = f"{side} its {name}, {' to '.join(map(str, limits))}"
            yield says, partial(is_beyond, _as_lengths(source, limit))


def _equals(mark: Any, lengths: NDArray[Any]) -> NDArray[np.bool_]:  # noqa: ANN401 - a number
    """Which lengths are the mark; a NaN marks every NaN."""
    found: NDArray[np.bool_] = (lengths == mark) | ((lengths != lengths) & (mark != mark))
    return found


def _other_kind(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The unsigned integers of that size for signed ones, and the other way round."""
    return np.dtype(f"{'u' if dtype.kind == 'i' else 'i'}{dtype.itemsize}")


def _as_lengths(source: Source, number: Any) -> Any:  # noqa: ANN401 - a number
    """A number of an attribute, as unwrapped lengths have it: the attribute may be of either kind."""
    if not _is_wrapped(source) or not float(number).is_integer():
        return number
    bounds = np.iinfo(source.dtype)
    fits = bounds.min <= number <= bounds.max
    return np.array(int(number), source.dtype).astype(_other_kind(source.dtype))[()] if fits else number


def _is_number(value: object) -> bool:
    """Whether it is a number that a tensor can hold: JSON has integers of any size."""
    if isinstance(value, int):
        return abs(value) < _MOST << 1
    return isinstance(value, (float, np.integer, np.floating))


def _shown(values: Sequence[object]) -> str:
    """Values of an attribute in a message."""
    return listed(str(each)[:_LONGEST] for each in values)


def compared(values: Source, lengths: Source, alignment: Alignment | None) -> tuple[str, ...]:
    """Hold the coordinates of dimensions that both have against each other; notes on those that are in other units.

    FormatError where one differs: lengths would go to other lines than they are for.
    """
    places = alignment.places if alignment else tuple(range(len(values.sizes)))
    notes = []
    for i, (name, size, d) in enumerate(zip(lengths.dimensions, lengths.sizes, places, strict=False)):
        if name and size > 1 and d is not None and name in values.dimensions[d : d + 1]:
            found, note = _difference(lengths, i, values, d)
            if found:
                writes = f"revseq convert {system.typed(lengths.name)} unnamed.npy"
                hint = f"if their order is right, unnamed.npy can be LENGTHS, which this writes: {writes}"
                # Those that are unpacked have no mark of missing ones.
                same = not alignment and not {*PACKING} & lengths.conventions().keys()
                wanted = "lengths for the same places, in the same order"
                raise FormatError(found, wanted, hint if same else "", lengths.name)
            notes += [note] * bool(note)
    return tuple(notes)


def _difference(lengths: Source, i: int, values: Source, d: int) -> tuple[str, str]:
    """How the coordinates of a dimension differ, and a note on other units; both "" for equal ones, or without them."""
    name = lengths.dimensions[i]
    try:
        own, other = lengths.coordinate(i), values.coordinate(d)
        if not own or not other:
            return "", ""
        if own.units != other.units:
            units = f"{own.units} in {lengths.name}, and in {other.units} in {values.name}"
            return "", f"{name} is in {units}: not compared"
        index = _first_difference(own, other, lengths.sizes[i])
        if index is None:
            return "", ""
        part = slice(index, index + 1)
        found = f"its {name} is not that of {values.name}: {own.read(part)[0]} and {other.read(part)[0]} at [{index}]"
    except RevseqError:  # a coordinate that cannot be read is no part of the job
        return "", ""
    return found, ""


def _first_difference(a: Coordinate, b: Coordinate, size: int) -> int | None:
    """The first index at which two coordinates of numbers or text differ, or None.

    Floats are compared in the smaller data type.
    """
    for start in range(0, size, thresholds.LENGTHS_AT_ONCE):
        part = slice(start, min(size, start + thresholds.LENGTHS_AT_ONCE))
        x, y = a.read(part), b.read(part)
        if not {x.dtype.kind, y.dtype.kind} <= _COMPARED:
            return None
        if not all(isinstance(value, (str, bytes)) for each in (x, y) if each.dtype == object for value in each):
            return None
        if x.dtype.kind == y.dtype.kind == "f":
            with np.errstate(over="ignore"):
                x, y = (each.astype(min(x.dtype, y.dtype, key=lambda dtype: dtype.itemsize)) for each in (x, y))
        differs = (x != y) & ~((x != x) & (y != y))
        if differs.any():
            return start + int(differs.argmax())
    return None
