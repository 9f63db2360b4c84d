"""DirectML's data types as NumPy dtypes, and back.

The bits of elements; and the floats that NumPy lacks.

An array of such a data type has a structured dtype with one field. The field has the data type's
name, and its value is the word: the element's bits as an unsigned integer. So the dtype names the
data type, elements are copied like any others, and NumPy refuses to compute with them. The package
ml_dtypes, the extra `ml`, knows their numbers; without it, their bits move, and are printed in hex.

Bits are compared and moved as words, which are unsigned integers of an element's size, so that
every bit is kept. With floats, NumPy may change a signaling NaN to a quiet one.
"""

from __future__ import annotations

import functools
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core import platform
from revseq_cli.core.errors import FormatError, join_names
from revseq_cli.core.tensors import MOST_DIMENSIONS, DataType, TensorDesc, in_braces

Array = NDArray[Any]
DType = np.dtype[Any]

# The minifloats.
DTYPES = {
    each.name: np.dtype([(each.name, f"u{each.size}")])
    for each in DataType
    if each.kind == "minifloat"
}


def is_minifloat(dtype: np.dtype[Any]) -> bool:
    """Whether `dtype` is one of DTYPES, in either byte order."""
    return bool(dtype.names and DTYPES.get(dtype.names[0]) == dtype.newbyteorder("="))


def has_numbers(dtype: np.dtype[Any]) -> bool:
    """Whether elements can be read as numbers: minifloats only with the package ml_dtypes."""
    return not is_minifloat(dtype) or find_spec("ml_dtypes") is not None


def number_type(data_type: DataType) -> tuple[np.dtype[Any], int]:
    """The type of ml_dtypes that computes with these minifloats.

    And its binary digits after the first.

    FormatError without the package.
    """
    if not has_numbers(DTYPES[data_type.name]):
        raise _no_numbers(data_type.name)
    import ml_dtypes  # few tensors have such types

    scalar = getattr(ml_dtypes, data_type.name.lower())
    return np.dtype(scalar), int(ml_dtypes.finfo(scalar).nmant)  # type: ignore[no-untyped-call]


def _no_numbers(name: str) -> FormatError:
    found = f"the numbers of {name} need the package ml_dtypes"
    return FormatError(found, hint=platform.pip("install ml_dtypes"))


def numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Minifloats as FLOAT32, which holds each of them exactly; elements of other dtypes unchanged.

    FormatError without the package ml_dtypes.
    """
    if not is_minifloat(values.dtype):
        return values
    name = values.dtype.names[0]  # type: ignore[index]
    if not has_numbers(values.dtype):
        raise _no_numbers(name)
    import ml_dtypes  # few tensors have such types

    words = np.ascontiguousarray(native(values)[name])
    with np.errstate(invalid="ignore"):  # of signaling NaNs
        made: NDArray[Any] = words.view(getattr(ml_dtypes, name.lower())).astype(np.float32)
    return made


def render_minifloats(values: NDArray[Any]) -> list[str]:
    """Each minifloat as text, in C order: four digits, which tell all numbers apart.

    Without ml_dtypes its bits in hex.

    NaNs other than NumPy's are printed with their bits.
    """
    words = native(values).view(word_of(values.itemsize)).ravel()
    if not has_numbers(values.dtype):
        return [f"{word:#0{2 + 2 * words.itemsize}x}" for word in words.tolist()]
    import ml_dtypes

    name = values.dtype.names[0]  # type: ignore[index]
    usual = np.array(np.nan, getattr(ml_dtypes, name.lower())).view(words.dtype)
    pairs = zip(numbers(values).ravel().tolist(), words.tolist(), strict=True)
    return [
        f"{number:.4g}" if number == number or word == usual else f"nan({word:#x})"
        for number, word in pairs
    ]


_DTYPES = {
    data_type: DTYPES.get(data_type.name)
    or np.dtype("?" if data_type.kind == "bool" else f"{data_type.kind[0]}{data_type.size}")
    for data_type in DataType
}
_DATA_TYPES = {dtype: data_type for data_type, dtype in _DTYPES.items()}


def dtype_of(data_type: DataType) -> np.dtype[Any]:
    """The dtype of a data type, in this machine's byte order."""
    return _DTYPES[data_type]


@functools.lru_cache(maxsize=64)  # small calls from Python ask for it again and again
def data_type_of(dtype: np.dtype[Any]) -> DataType:
    """The data type of a dtype in either byte order; FormatError if a tensor cannot have it.

    The dtypes of the package ml_dtypes are recognized by their names.
    """
    try:
        return _DATA_TYPES.get(dtype.newbyteorder("=")) or DataType[dtype.name.upper()]
    except (KeyError, TypeError):
        found = f"its data type is {str(dtype)[:80]}"
        if hint := _hint_to_view(dtype):
            raise FormatError(found, "numbers", hint) from None
        known = join_names((t.name for t in DataType), len(DataType))
        raise FormatError(found, f"one of {known}") from None


def _hint_to_view(dtype: np.dtype[Any]) -> str:
    """How to save the same bytes as numbers, which can be reversed and viewed back.

    Nothing for other dtypes.
    """
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


def is_nameless(dtype: np.dtype[Any]) -> bool:
    """Whether `dtype` is NumPy's plain void, such as |V2: bytes without the name of a data type."""
    return dtype.type is np.void and not dtype.names and not dtype.subdtype


def name_bytes(
    dtype: np.dtype[Any], asked: DataType | None, where: str, *, big: bool = False
) -> np.dtype[Any]:
    """The dtype; for bytes without a name, the dtype of the data type that the user asked for.

    It is little-endian, or big-endian with `big`. FormatError for bytes without a name if `asked`
    is None or has another size.
    """
    if not is_nameless(dtype):
        return dtype
    fitting = [data_type for data_type in DataType if data_type.size == dtype.itemsize]
    if asked in fitting:
        return dtype_of(asked).newbyteorder(">" if big else "<")
    found = f"its data type is untyped bytes ({dtype.str})"
    if not fitting:
        raise FormatError(found, "numbers of 1, 2, 4, 8 or 16 bytes", where=where)
    # Packages save BFLOAT16 so; which type other bytes have, only their writer knows.
    if DataType.BFLOAT16 in fitting:
        hint = f"if they are {DataType.BFLOAT16.name}, add --dtype {DataType.BFLOAT16.name}"
        raise FormatError(found, hint=hint, where=where)
    lines = ["add the data type that was saved:"]
    lines += [f"--dtype {data_type.name}" for data_type in fitting]
    raise FormatError(found, hint="\n  ".join(lines), where=where)


def require_sizes(sizes: tuple[int, ...], where: str) -> None:
    """FormatError for sizes that no tensor has.

    The operator refuses scalars, too, and feature levels sizes of 0.
    """
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
    """The dtype of words of so many bytes.

    Unsigned integers, or void where there are none of this size.
    """
    return np.dtype(f"{'u' if size in (1, 2, 4, 8) else 'V'}{size}")


def native(values: NDArray[Any]) -> NDArray[Any]:
    """The elements in this machine's byte order.

    Bytes are swapped, not converted, so every bit is kept.
    """
    return (
        values if values.dtype.isnative else values.byteswap().view(values.dtype.newbyteorder("="))
    )


def bits(values: NDArray[Any]) -> NDArray[Any]:
    """The elements as words in this machine's byte order.

    They have the same shape, and are contiguous in C order.
    """
    return np.ascontiguousarray(native(values)).view(word_of(values.itemsize)).reshape(values.shape)
