"""DirectML's data types as NumPy dtypes, and elements as words.

A word is an unsigned integer of an element's size, with the element's bits. Elements are compared
and moved as words, so that every bit is kept: with floats, NumPy may change a signaling NaN to a
quiet one.

NumPy lacks minifloats, such as BFLOAT16. An array of them has a structured dtype with one field,
which has the data type's name and holds the word. So the dtype names the data type, elements are
copied like any others, and NumPy refuses to compute with them. The package ml_dtypes, the extra
`ml`, knows their numbers. Without it, they are moved all the same, and printed in hex.
"""

from __future__ import annotations

import functools
import math
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core import platform
from revseq_cli.core.errors import DataTypeError, FormatError, join_names
from revseq_cli.core.tensors import MOST_DIMENSIONS, DataType, TensorDesc, in_braces

Array = NDArray[Any]
DType = np.dtype[Any]

_MINIFLOAT_DTYPES = {
    data_type.name: np.dtype([(data_type.name, f"u{data_type.size}")])
    for data_type in DataType
    if data_type.kind == "minifloat"
}


def is_minifloat(dtype: np.dtype[Any]) -> bool:
    """Whether it is the dtype of a minifloat, in either byte order."""
    if not dtype.names:
        return False
    return _MINIFLOAT_DTYPES.get(dtype.names[0]) == dtype.newbyteorder("=")


def has_numbers(dtype: np.dtype[Any]) -> bool:
    """Whether elements can be read as numbers: minifloats only with the package ml_dtypes."""
    return not is_minifloat(dtype) or find_spec("ml_dtypes") is not None


def number_type(name: str) -> np.dtype[Any]:
    """The dtype of ml_dtypes that computes with the minifloats of that name.

    FormatError without the package.
    """
    if find_spec("ml_dtypes") is None:
        found = f"the numbers of {name} need the package ml_dtypes"
        raise FormatError(found, hint=platform.pip("install ml_dtypes"))
    import ml_dtypes  # few tensors have such types

    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name.lower()))
    return dtype


def count_digits(dtype: np.dtype[Any]) -> int:
    """The binary digits of a `number_type`, without the first one, which is not stored."""
    import ml_dtypes

    return int(ml_dtypes.finfo(dtype).nmant)  # type: ignore[no-untyped-call]


def numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Minifloats as FLOAT32, which holds each of them exactly; elements of other dtypes unchanged.

    FormatError without the package ml_dtypes.
    """
    if not is_minifloat(values.dtype):
        return values
    name = values.dtype.names[0]  # type: ignore[index]
    minifloats = np.ascontiguousarray(native(values)[name]).view(number_type(name))
    with np.errstate(invalid="ignore"):  # of signaling NaNs
        floats: NDArray[Any] = minifloats.astype(np.float32)
    return floats


def render_minifloats(values: NDArray[Any]) -> list[str]:
    """Each minifloat as text, in C order: with four digits, which tell all numbers apart.

    NaNs with other bits than NumPy's own are printed with these bits. Without ml_dtypes, all
    elements are printed as bits in hex.
    """
    words = native(values).view(word_of(values.itemsize)).ravel()
    if not has_numbers(values.dtype):
        return [f"{word:#0{2 + 2 * words.itemsize}x}" for word in words.tolist()]
    name = values.dtype.names[0]  # type: ignore[index]
    usual_nan = np.array(np.nan, number_type(name)).view(words.dtype)
    texts = []
    for number, word in zip(numbers(values).ravel().tolist(), words.tolist(), strict=True):
        is_unusual_nan = math.isnan(number) and word != usual_nan
        texts.append(f"nan({word:#x})" if is_unusual_nan else f"{number:.4g}")
    return texts


def _make_dtype(data_type: DataType) -> np.dtype[Any]:
    if data_type.kind == "minifloat":
        return _MINIFLOAT_DTYPES[data_type.name]
    if data_type.kind == "bool":
        return np.dtype("?")
    return np.dtype(f"{data_type.kind[0]}{data_type.size}")


_DTYPE_BY_DATA_TYPE = {data_type: _make_dtype(data_type) for data_type in DataType}
_DATA_TYPE_BY_DTYPE = {dtype: data_type for data_type, dtype in _DTYPE_BY_DATA_TYPE.items()}


def dtype_of(data_type: DataType) -> np.dtype[Any]:
    """The dtype of a data type, in this machine's byte order."""
    return _DTYPE_BY_DATA_TYPE[data_type]


@functools.lru_cache(maxsize=64)  # small calls from Python ask for it again and again
def data_type_of(dtype: np.dtype[Any]) -> DataType:
    """The data type of a dtype in either byte order; FormatError if a tensor cannot have it.

    The dtypes of the package ml_dtypes are recognized by their names.
    """
    try:
        return _DATA_TYPE_BY_DTYPE.get(dtype.newbyteorder("=")) or DataType[dtype.name.upper()]
    except (KeyError, TypeError):
        kind = str(dtype)[:80]
        if hint := _hint_to_view(dtype):
            raise DataTypeError(kind, "numbers", hint) from None
        known = join_names((t.name for t in DataType), len(DataType))
        raise DataTypeError(kind, f"one of {known}") from None


def _hint_to_view(dtype: np.dtype[Any]) -> str:
    """How to save times or texts as numbers of the same bytes; "" for other dtypes."""
    if dtype.kind in "mM":
        return "to reverse it as integers, save it in NumPy as x.view('int64')"
    if dtype.kind not in "SU" or not dtype.itemsize:
        return ""
    number, width = ("uint8", 1) if dtype.kind == "S" else ("uint32", 4)
    view = f"x.view('{number}')"
    if dtype.itemsize > width:
        view += f".reshape(*x.shape, {dtype.itemsize // width})"
    return f"to reverse it as characters, save it in NumPy as {view}"


def is_big_endian(dtype: np.dtype[Any]) -> bool:
    """Whether elements are stored with the highest byte first; False for elements of one byte."""
    return dtype.itemsize > 1 and dtype == dtype.newbyteorder(">")


def is_untyped(dtype: np.dtype[Any]) -> bool:
    """Whether `dtype` is NumPy's plain void, such as |V2: bytes without a data type."""
    return dtype.type is np.void and not dtype.names and not dtype.subdtype


def as_typed(
    dtype: np.dtype[Any], asked: DataType | None, where: str, *, big: bool = False
) -> np.dtype[Any]:
    """The dtype; for untyped bytes, that of the data type that the user asked for.

    It is little-endian, or big-endian with `big`. FormatError for untyped bytes if the user asked
    for none, or for one of another size.
    """
    if not is_untyped(dtype):
        return dtype
    fitting = [data_type for data_type in DataType if data_type.size == dtype.itemsize]
    if asked in fitting:
        return dtype_of(asked).newbyteorder(">" if big else "<")
    kind = f"untyped bytes ({dtype.str})"
    if not fitting:
        raise DataTypeError(kind, "numbers of 1, 2, 4, 8 or 16 bytes", where=where)
    # ml_dtypes saves BFLOAT16 as |V2, so that it is likely. Only the writer knows what other bytes
    # are.
    if DataType.BFLOAT16 in fitting:
        hint = f"if they are {DataType.BFLOAT16.name}, add --dtype {DataType.BFLOAT16.name}"
        raise DataTypeError(kind, hint=hint, where=where)
    lines = ["add the data type that was saved:"]
    lines += [f"--dtype {data_type.name}" for data_type in fitting]
    raise DataTypeError(kind, hint="\n  ".join(lines), where=where)


def require_sizes(sizes: tuple[int, ...], where: str) -> None:
    """FormatError for sizes that no tensor has, whatever the operator and feature levels accept."""
    if len(sizes) > MOST_DIMENSIONS:
        expected = f"at most {MOST_DIMENSIONS}, and at most 8 in DirectML"
        raise FormatError(f"has dimension count {len(sizes)}", expected, where=where)
    if sizes and not 0 <= min(sizes) <= max(sizes) < 1 << 63:
        raise FormatError(
            f"Sizes is {in_braces(sizes)[:200]}", "sizes from 0 to 2^63 - 1", where=where
        )


def describe_array(array: NDArray[Any], name: str = "") -> TensorDesc:
    """The data type and the sizes of an array.

    FormatError, about `name`, for a dtype that a tensor cannot have.
    """
    try:
        return TensorDesc(data_type_of(array.dtype), array.shape)
    except FormatError as e:
        raise e.about(name) from None


@functools.lru_cache(maxsize=64)  # to make one takes a tenth of a small call
def word_of(size: int) -> np.dtype[Any]:
    """The dtype of words of this many bytes: unsigned integers, or void if none have that size."""
    return np.dtype(f"{'u' if size in (1, 2, 4, 8) else 'V'}{size}")


def native(values: NDArray[Any]) -> NDArray[Any]:
    """The elements in this machine's byte order, with all their bits."""
    if values.dtype.isnative:
        return values
    return values.byteswap().view(values.dtype.newbyteorder("="))


def bits(values: NDArray[Any]) -> NDArray[Any]:
    """The elements as words in this machine's byte order, contiguous in C order."""
    return np.ascontiguousarray(native(values)).view(word_of(values.itemsize)).reshape(values.shape)
