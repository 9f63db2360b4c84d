"""Exact casts: a source in another data type, which no value of it changes for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.ground import minifloats
from revseq_cli.ground.dtypes import data_type_of, dtype_of
from revseq_cli.ground.errors import FormatError, UsageError, Words
from revseq_cli.passes.lengths import View

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Source, Ticket
    from revseq_cli.formats.regions import Region
    from revseq_cli.ground.tensors import DataType

# The kinds of data types between which values are cast.
_CAST_TO = ("float", "int", "uint")
_CAST_FROM = (*_CAST_TO, "minifloat", "bool")


class CastSource(View):
    """Values in another data type; reading a region raises FormatError if one of its values does not fit.

    A value fits if it casts back to itself: a fraction is no integer, nor is -0.0. A NaN stays a NaN, perhaps with
    other bits. FormatError for complex values. `setting` names the option that asks for the cast of lengths.
    """

    def __init__(self, source: Source, data_type: DataType, setting: str = "") -> None:
        if source.desc.data_type.kind not in _CAST_FROM:
            wanted = f"numbers that are not complex, to be cast to {data_type.name}"
            raise FormatError(f"DataType is {source.desc.data_type.name}", wanted, where=source.name)
        super().__init__(source)
        self.encoded = source.encoded
        self.reads_in_parallel, self.chunks = source.reads_in_parallel, source.chunks
        self.dtype, self._setting = dtype_of(data_type), setting

    def ticket(self, region: Region) -> Ticket:
        """A ticket that reads the region and casts it."""
        return _CastTicket(self.source.ticket(region), self.dtype, region, self.name, self._setting)


@dataclass(frozen=True)
class _CastTicket:
    ticket: Ticket
    dtype: np.dtype[Any]
    region: Region
    name: str
    setting: str

    def read(self) -> NDArray[Any]:
        """The cast values; FormatError with the first one that does not fit."""
        values = minifloats.numbers(self.ticket.read())
        fits = _fits(values, self.dtype)
        if not fits.all():
            place = np.unravel_index(int(fits.argmin()), values.shape)
            index = [int(i) + part.start for i, part in zip(place, self.region, strict=True)]
            wider = self.setting and self.dtype.itemsize < 8 and _fits(values[place].reshape(1), np.dtype(np.uint64))[0]
            raise FormatError(
                f"{values[place]} at {index} does not fit {data_type_of(self.dtype).name}",
                _wanted(values.dtype, self.dtype),
                Words.of("try {}", **{self.setting: "UINT64"}) if wider else "", self.name,
            )  # fmt: skip
        with np.errstate(all="ignore"):
            return values.astype(self.dtype)


def _fits(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[np.bool_]:
    """Which values the dtype holds exactly."""
    if values.dtype.kind == "b":
        return np.ones(values.shape, np.bool_)
    with np.errstate(all="ignore"):
        if dtype.kind in "iu" and values.dtype.kind in "iu":
            # NumPy compares exactly even with a Python integer that the values' data type does not have.
            bounds = np.iinfo(dtype)
            inside: NDArray[np.bool_] = (values >= bounds.min) & (values <= bounds.max)
            return inside
        if dtype.kind == "f" and values.dtype.kind == "f":
            back = values.astype(dtype).astype(values.dtype)
            same: NDArray[np.bool_] = (back == values) | np.isnan(values)
            return same
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
    unsigned = "; a DirectML length is unsigned" if target.kind == "u" and dtype.kind in "iu" else ""
    return f"{'an integer, ' if dtype.kind == 'f' else ''}{bounds.min} to {bounds.max}{unsigned}"


def common_type(a: DataType, b: DataType) -> DataType | None:
    """The smallest data type to which `cast` can bring all values of two others; None if there is none."""
    types = [np.dtype(np.float32) if each.kind == "minifloat" else dtype_of(each) for each in (a, b)]
    common = np.result_type(*types)
    # NumPy takes FLOAT64 as wide enough for 64-bit integers, and it is not.
    wide = [each for each in types if each.kind in "iu" and each.itemsize == 8]
    if common.kind not in "iuf" or (wide and common.kind == "f"):
        return None
    return data_type_of(common)


def cast(source: Source, data_type: DataType) -> Source:
    """The source in that data type; FormatError for complex values, UsageError for a type that casts do not lead to."""
    if source.desc.data_type is data_type:
        return source
    if data_type.kind not in _CAST_TO:
        raise UsageError(
            f"values are not cast to {data_type.name}", "FLOAT64, FLOAT32, FLOAT16, or a type of integers",
            Words.of("try {}", cast="FLOAT32"),
        )  # fmt: skip
    return CastSource(source, data_type)
