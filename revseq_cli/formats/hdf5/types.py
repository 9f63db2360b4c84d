"""HDF5's data types: which dtype a tensor gets for each, and how elements are read and written without a conversion.

HDF5 gets the file's own type as the type in memory. So no bit changes, and bitfields, enumerations and complex numbers
are read and written as words of their size, whatever else their types say. An exception are integers that have fewer
bits than their bytes: HDF5 makes plain ones of them.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import h5py
import numpy as np
from h5py import h5t
from numpy.typing import NDArray

from revseq_cli.core import dtypes
from revseq_cli.core.errors import FormatError, listed
from revseq_cli.core.tensors import DataType, Region, braced

# Floats that NumPy lacks and HDF5 can describe: where sign, exponent and mantissa are, the bits of the latter two, and
# the exponent's bias. HDF5 cannot say that a float has no infinities; such ones are opaque bytes, as in h5py.
_MINIFLOATS = {
    DataType.BFLOAT16: ((15, 7, 8, 0, 7), 127),
    DataType.FLOAT8_E5M2: ((7, 2, 5, 0, 2), 15),
}
_FLOATS = [np.dtype(f"f{size}") for size in (2, 4, 8)] + [dtypes.dtype_of(data_type) for data_type in _MINIFLOATS]
_BOOLEANS = {b"FALSE": 0, b"TRUE": 1}  # as h5py and netCDF write them
_IMAGINARY = re.compile(r"i$|im", re.IGNORECASE)  # matches the name of an imaginary part
_OTHERS = {
    h5t.TIME: "a time", h5t.STRING: "text", h5t.OPAQUE: "opaque", h5t.REFERENCE: "a reference",
    h5t.VLEN: "a list of any length", h5t.BITFIELD: "a bitfield of which it uses only a part",
}  # fmt: skip


def dtype_of(kind: h5t.TypeID, asked: DataType | None = None) -> np.dtype[Any]:
    """The dtype that has such elements, bit for bit; FormatError for what no tensor has.

    `asked` is the data type of opaque elements, which have no name.
    """
    size = kind.get_size()
    match kind:
        case h5t.TypeOpaqueID():
            return dtypes.named(np.dtype(f"V{size}"), asked, "")
        case h5t.TypeEnumID() if not is_narrow(kind.get_super()):
            dtype = dtype_of(kind.get_super())
            members = {kind.get_member_name(i): kind.get_member_value(i) for i in range(kind.get_nmembers())}
            return np.dtype("?") if dtype.itemsize == 1 and members == _BOOLEANS else dtype
        case h5t.TypeIntegerID() if size in (1, 2, 4, 8):
            order = ">" if kind.get_order() == h5t.ORDER_BE else "<"
            return np.dtype(f"{order}{'i' if kind.get_sign() == h5t.SGN_2 else 'u'}{size}")
        case h5t.TypeBitfieldID() if size in (1, 2, 4, 8):
            for order, suffix in (("<", "LE"), (">", "BE")):
                if kind.equal(getattr(h5t, f"STD_B{8 * size}{suffix}")):
                    return np.dtype(f"{order}u{size}")
        case h5t.TypeFloatID():
            for dtype in (
                known.newbyteorder(order) for known in _FLOATS if known.itemsize == size for order in ("<", ">")
            ):
                if kind.equal(kind_of(dtype)):
                    return dtype
        case h5t.TypeCompoundID() if kind.get_nmembers() == 2:
            # A complex number is two floats of one type, one after the other, the real one first.
            real, imaginary = kind.get_member_type(0), kind.get_member_type(1)
            is_real_first = not _IMAGINARY.match(kind.get_member_name(0).decode("utf-8", "replace"))
            if isinstance(real, h5t.TypeFloatID) and imaginary.equal(real) and is_real_first:
                part, offsets = dtype_of(real), (kind.get_member_offset(0), kind.get_member_offset(1))
                if part.kind == "f" and offsets == (0, part.itemsize) and size == 2 * part.itemsize in (8, 16):
                    return np.dtype(f"{part.byteorder}c{size}")
        case _ if kind.get_class() == getattr(h5t, "COMPLEX", None) and size in (8, 16):  # since HDF5 2.0
            return np.dtype(f"{dtype_of(kind.get_super()).byteorder}c{size}")
    raise FormatError(f"its data type is {description(kind)}", "numbers in whole bytes, as in NumPy")


def is_narrow(kind: h5t.TypeID) -> bool:
    """Whether integers have fewer bits than their bytes, so that HDF5 converts them as it reads and writes."""
    return isinstance(kind, h5t.TypeIntegerID) and kind.get_precision() < 8 * kind.get_size()


@functools.cache
def kind_of(dtype: np.dtype[Any]) -> h5t.TypeID:
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


def description(kind: h5t.TypeID) -> str:
    """A type in words, for one that no tensor has."""
    if isinstance(kind, (h5t.TypeIntegerID, h5t.TypeFloatID)):
        noun = "an integer" if isinstance(kind, h5t.TypeIntegerID) else "a float"
        return f"{noun} of {kind.get_precision()} bits in {kind.get_size()} bytes, in a layout of its own"
    words = meaning(kind) or "type that h5py lacks"
    return _OTHERS.get(kind.get_class()) or f"{'an' if words[0] in 'ae' else 'a'} {words}"


def meaning(kind: h5t.TypeID) -> str:
    """What the type says beyond its data type, for a person; nothing for plain numbers."""
    match kind:
        case h5t.TypeBitfieldID():
            return "bitfield"
        case h5t.TypeEnumID() | h5t.TypeCompoundID():
            names = (kind.get_member_name(i).decode("utf-8", "replace") for i in range(kind.get_nmembers()))
            return f"{'enumeration' if isinstance(kind, h5t.TypeEnumID) else 'compound'} of {listed(names, 5)}"
        case h5t.TypeArrayID():
            return f"array of sizes {braced(kind.get_array_dims())}"
    return f"integers of {kind.get_precision()} bits" if is_narrow(kind) else ""


def read(dataset: h5py.Dataset, region: Region, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The values of the region; 0 for chunks that were never written, where there is no fill value."""
    values: NDArray[Any] = np.zeros([part.stop - part.start for part in region], dtype)
    dataset.id.read(*_spaces(dataset, region), values, in_memory(dataset.id.get_type(), dtype))
    return values


def write(dataset: h5py.Dataset, region: Region, values: NDArray[Any]) -> None:
    """Write the values of the region."""
    kind = in_memory(dataset.id.get_type(), values.dtype)
    dataset.id.write(*_spaces(dataset, region), np.require(values, requirements="C"), kind)


def _spaces(dataset: h5py.Dataset, region: Region) -> tuple[h5py.h5s.SpaceID, h5py.h5s.SpaceID]:
    """HDF5's selections for the region: in memory, and in the file."""
    space = dataset.id.get_space()
    if not region:  # a scalar
        return space, space
    sizes = tuple(part.stop - part.start for part in region)
    space.select_hyperslab(tuple(part.start for part in region), sizes)
    return h5py.h5s.create_simple(sizes), space


def in_memory(kind: h5t.TypeID, dtype: np.dtype[Any]) -> h5t.TypeID:
    """The type in memory for elements in a file: their own, but for integers that HDF5 makes plain ones of."""
    return h5t.py_create(dtype) if is_narrow(kind) else kind
