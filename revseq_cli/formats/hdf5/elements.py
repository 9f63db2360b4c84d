"""The elements of HDF5 datasets: their types, and how they are read and written, bit for bit.

HDF5 is told that elements have the file's own type in memory, so that it converts nothing:
bitfields, enumerations and complex numbers are read and written as words of their size. Only
integers with fewer bits than their bytes are converted, to plain ones.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np
from h5py import h5s, h5t
from numpy.typing import NDArray

from revseq_cli.core import dtypes, signals
from revseq_cli.core.errors import DataTypeError, NoTensorError, join_names
from revseq_cli.core.tensors import DataType, Region, chunk_boxes, in_braces, inside, sizes_of
from revseq_cli.formats.hdf5.attribute_io import read_attribute

# Floats that NumPy lacks and HDF5 can describe, by the arguments of H5Tset_fields and the bias of
# the exponent. HDF5 cannot describe floats without infinities; these are opaque bytes, as in h5py.
_MINIFLOATS = {
    DataType.BFLOAT16: ((15, 7, 8, 0, 7), 127),
    DataType.FLOAT8_E5M2: ((7, 2, 5, 0, 2), 15),
}
_FLOATS: list[np.dtype[Any]] = [np.dtype("f2"), np.dtype("f4"), np.dtype("f8")]
_FLOATS += map(dtypes.dtype_of, _MINIFLOATS)
_WORD_SIZES = (1, 2, 4, 8)
_BOOLEANS = {b"FALSE": 0, b"TRUE": 1}  # as h5py and netCDF write them
_IMAGINARY_NAME = re.compile(r"i$|im", re.IGNORECASE)  # of a part: i, imag, imaginary
# The classes of types that no tensor has.
_NO_TENSORS = {
    h5t.TIME: "a time",
    h5t.STRING: "text",
    h5t.OPAQUE: "opaque",
    h5t.REFERENCE: "a reference",
    h5t.VLEN: "lists of variable length",
    h5t.BITFIELD: "a bitfield",
    h5t.INTEGER: "integers of unusual bits",
    h5t.FLOAT: "floats of unusual bits",
}
_MATLAB_NUMBERS = {
    "double", "single", "logical", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
    "uint64",
}  # fmt: skip
# Held while values are read and written: workers of dask have several threads, and some functions
# of h5py take no lock.
LOCK = threading.RLock()
_CHUNKS_AT_ONCE = 1 << 12  # the most chunks of which one call of HDF5 reads


def require_numbers(dataset: h5py.Dataset, asked: DataType | None) -> np.dtype[Any]:
    """The dtype of a dataset of numbers; FormatError for others, such as texts.

    `asked` is the data type of opaque elements, which have no name.
    """
    _refuse_matlab_values(dataset)
    return read_dtype(dataset.id.get_type(), asked)


def _refuse_matlab_values(dataset: h5py.Dataset) -> None:
    """FormatError for what MATLAB stores as numbers: its texts, and the sizes of empty arrays."""
    kind = read_attribute(dataset, "MATLAB_class")
    if isinstance(kind, str) and kind not in _MATLAB_NUMBERS:
        raise DataTypeError(f"MATLAB's {kind}", "numbers")
    empty = read_attribute(dataset, "MATLAB_empty")
    if empty is not None and np.all(empty == 1):
        found = "an empty array of MATLAB, whose numbers are its sizes"
        raise NoTensorError(found, "an array with elements")


def read_dtype(kind: h5t.TypeID, asked: DataType | None = None) -> np.dtype[Any]:
    """The dtype that has such elements, bit for bit; FormatError for what no tensor has.

    `asked` is the data type of opaque elements, which have no name.
    """
    if isinstance(kind, h5t.TypeOpaqueID):
        return dtypes.as_typed(np.dtype(f"V{kind.get_size()}"), asked, "")
    if isinstance(kind, h5t.TypeEnumID):
        dtype = _dtype_of_enumeration(kind)
    elif isinstance(kind, h5t.TypeIntegerID):
        dtype = _dtype_of_integer(kind)
    elif isinstance(kind, h5t.TypeBitfieldID):
        dtype = _dtype_of_bitfield(kind)
    elif isinstance(kind, h5t.TypeFloatID):
        dtype = _dtype_of_float(kind)
    else:
        dtype = _dtype_of_complex(kind)
    if dtype is None:
        raise _make_type_error(kind)
    return dtype


def _dtype_of_enumeration(kind: h5t.TypeEnumID) -> np.dtype[Any] | None:
    """The dtype of an enumeration's integers; bool for the names that h5py and netCDF use."""
    if is_narrow(kind.get_super()):
        return None
    dtype = read_dtype(kind.get_super())
    members = {}
    for i in range(kind.get_nmembers()):
        members[kind.get_member_name(i)] = kind.get_member_value(i)
    if dtype.itemsize == 1 and members == _BOOLEANS:
        return np.dtype("?")
    return dtype


def _dtype_of_integer(kind: h5t.TypeIntegerID) -> np.dtype[Any] | None:
    if kind.get_size() not in _WORD_SIZES:
        return None
    order = ">" if kind.get_order() == h5t.ORDER_BE else "<"
    letter = "i" if kind.get_sign() == h5t.SGN_2 else "u"
    return np.dtype(f"{order}{letter}{kind.get_size()}")


def _dtype_of_bitfield(kind: h5t.TypeBitfieldID) -> np.dtype[Any] | None:
    size = kind.get_size()
    if size not in _WORD_SIZES:
        return None
    for order, suffix in (("<", "LE"), (">", "BE")):
        if kind.equal(getattr(h5t, f"STD_B{8 * size}{suffix}")):
            return np.dtype(f"{order}u{size}")
    return None


def _dtype_of_float(kind: h5t.TypeFloatID) -> np.dtype[Any] | None:
    for known in _FLOATS:
        if known.itemsize != kind.get_size():
            continue
        for order in ("<", ">"):
            dtype = known.newbyteorder(order)
            if kind.equal(make_type(dtype)):
                return dtype
    return None


def _dtype_of_complex(kind: h5t.TypeID) -> np.dtype[Any] | None:
    """The dtype of complex numbers: HDF5's own since 2.0, or compounds of two floats."""
    size = kind.get_size()
    if size not in (8, 16):
        return None
    if kind.get_class() == getattr(h5t, "COMPLEX", None):
        part: np.dtype[Any] | None = read_dtype(kind.get_super())
    elif isinstance(kind, h5t.TypeCompoundID):
        part = _dtype_of_parts(kind)
    else:
        part = None
    if part is None:
        return None
    return np.dtype(f"{part.byteorder}c{size}")


def _dtype_of_parts(kind: h5t.TypeCompoundID) -> np.dtype[Any] | None:
    """The dtype of both members of a compound; None unless they are a real and an imaginary part.

    The real part comes first, and nothing is between or after them.
    """
    if kind.get_nmembers() != 2:
        return None
    first, second = kind.get_member_type(0), kind.get_member_type(1)
    if not isinstance(first, h5t.TypeFloatID) or not second.equal(first):
        return None
    first_name = kind.get_member_name(0).decode("utf-8", "replace")
    if _IMAGINARY_NAME.match(first_name):
        return None
    part = _dtype_of_float(first)
    if part is None or part.kind != "f":
        return None
    offsets = (kind.get_member_offset(0), kind.get_member_offset(1))
    if offsets != (0, part.itemsize) or kind.get_size() != 2 * part.itemsize:
        return None
    return part


def _make_type_error(kind: h5t.TypeID) -> DataTypeError:
    """The error for a type that no tensor has, with a way to make numbers of its elements."""
    words = describe_type(kind) or "one that h5py lacks"
    words = _NO_TENSORS.get(kind.get_class(), words)
    hint = ""
    if isinstance(kind, h5t.TypeStringID) and not kind.is_variable_str():
        hint = _hint_for_texts(kind.get_size())
    elif kind.get_class() == h5t.VLEN:
        hint = "to make it a tensor, write the lists as rows of one length, with padding"
    return DataTypeError(words, "numbers in whole bytes, as in NumPy", hint)


def _hint_for_texts(size: int) -> str:
    """How to save texts of this many bytes as numbers, with h5py."""
    view = "x[()].view('uint8')"
    if size > 1:
        view += f".reshape(*x.shape, {size})"
    return f"to reverse it as characters, save it in h5py as {view}"


def is_narrow(kind: h5t.TypeID) -> bool:
    """Whether integers have fewer bits than their bytes: HDF5 converts these, and no others."""
    return isinstance(kind, h5t.TypeIntegerID) and kind.get_precision() < 8 * kind.get_size()


@functools.cache
def make_type(dtype: np.dtype[Any]) -> h5t.TypeID:
    """HDF5's type for elements of a dtype."""
    if not dtypes.is_minifloat(dtype):
        return h5t.py_create(dtype, logical=True)
    data_type = dtypes.data_type_of(dtype)
    if data_type not in _MINIFLOATS:
        return h5t.py_create(np.dtype(f"V{dtype.itemsize}"), logical=True)
    fields, bias = _MINIFLOATS[data_type]
    kind = h5t.IEEE_F16LE.copy()
    kind.set_order(h5t.ORDER_BE if dtypes.is_big_endian(dtype) else h5t.ORDER_LE)
    kind.set_fields(*fields)
    kind.set_ebias(bias)
    kind.set_precision(8 * dtype.itemsize)
    kind.set_size(dtype.itemsize)
    return kind


def describe_type(kind: h5t.TypeID) -> str:
    """What HDF5's type says beyond the data type, in words; "" for plain numbers."""
    match kind:
        case h5t.TypeBitfieldID():
            return "bitfield"
        case h5t.TypeEnumID():
            return f"enumeration of {_list_members(kind)}"
        case h5t.TypeCompoundID():
            return f"compound of {_list_members(kind)}"
        case h5t.TypeArrayID():
            return f"array of sizes {in_braces(kind.get_array_dims())}"
    if is_narrow(kind):
        return f"integers of {kind.get_precision()} bits"
    return ""


def _list_members(kind: h5t.TypeEnumID | h5t.TypeCompoundID) -> str:
    names = []
    for i in range(kind.get_nmembers()):
        names.append(kind.get_member_name(i).decode("utf-8", "replace"))
    return join_names(names, 5)


def memory_type(kind: h5t.TypeID, dtype: np.dtype[Any]) -> h5t.TypeID:
    """The type in memory for elements of a file: their own, or plain integers for narrow ones."""
    if is_narrow(kind):
        return h5t.py_create(dtype)
    return kind


# Reading and writing


def read_elements(dataset: h5py.Dataset, region: Region, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The values of the region; 0 for chunks that were never written and have no fill value.

    A signal stops it between parts of the region.
    """
    values: NDArray[Any] = np.zeros(sizes_of(region), dtype)
    kind = memory_type(dataset.id.get_type(), dtype)
    for part in _cut_region(region, dataset.chunks):
        signals.check()
        in_values = h5s.create_simple(values.shape)
        if part != region:
            _select(in_values, inside(part, region))
        in_file = _select(dataset.id.get_space(), part)
        dataset.id.read(in_values, in_file, values, kind)
    return values


def write_elements(dataset: h5py.Dataset, region: Region, values: NDArray[Any]) -> None:
    """Write the values of the region."""
    kind = memory_type(dataset.id.get_type(), values.dtype)
    in_values = h5s.create_simple(sizes_of(region))
    in_file = _select(dataset.id.get_space(), region)
    dataset.id.write(in_values, in_file, np.require(values, requirements="C"), kind)


def _select(space: h5s.SpaceID, region: Region) -> h5s.SpaceID:
    """The dataspace, of which only a region is selected."""
    if region:  # without dimensions, there is nothing to select
        space.select_hyperslab(tuple(part.start for part in region), sizes_of(region))
    return space


def _cut_region(region: Region, chunks: tuple[int, ...] | None) -> Iterator[Region]:
    """The region in parts of few chunks, so that signals are looked at between the parts.

    HDF5 takes 5 s only to find out that 400,000 chunks were never written.
    """
    if chunks is None:
        yield region
        return
    part_sizes = list(chunks)
    chunks_left = _CHUNKS_AT_ONCE
    for d in reversed(range(len(chunks))):
        size = region[d].stop - region[d].start
        most_touched = size // chunks[d] + 2  # it may begin and end inside a chunk
        count = min(chunks_left, most_touched)
        part_sizes[d] = count * chunks[d]
        chunks_left = max(1, chunks_left // count)
    yield from chunk_boxes(region, tuple(part_sizes))
