"""HDF5's data types: which dtype a tensor gets for each, and how elements are read and written without a conversion.

HDF5 gets the file's own type as the type in memory. So no bit changes, and bitfields, enumerations and complex numbers
are read and written as words of their size, whatever else their types say. An exception are integers that have fewer
bits than their bytes: HDF5 makes plain ones of them. Elements that are arrays are read as further dimensions.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from revseq_cli.core import dtypes
from revseq_cli.core.dtypes import data_type_of, is_big_endian, named
from revseq_cli.core.dtypes import dtype_of as dtype_of_name
from revseq_cli.core.errors import FormatError, listed
from revseq_cli.core.tensors import DataType, braced

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Region

_ORDERS = {"LE": "<", "BE": ">"}
# The prefix of h5py's names, the kind of the dtype, sizes in bytes, and how many bits a name has for each byte: that of
# a complex number has those of one part. Bitfields are taken for unsigned integers.
_NUMBERS = [("STD_I", "i", (1, 2, 4, 8), 8), ("STD_U", "u", (1, 2, 4, 8), 8), ("STD_B", "u", (1, 2, 4, 8), 8),
            ("IEEE_F", "f", (2, 4, 8), 8), ("COMPLEX_IEEE_F", "c", (8, 16), 4)]  # fmt: skip
# HDF5's types of plain numbers, each with its dtype. HDF5 has complex numbers since 2.0.
_PLAIN = [
    (getattr(h5py.h5t, f"{prefix}{size * bits}{suffix}"), np.dtype(f"{order}{kind}{size}"))
    for prefix, kind, sizes, bits in _NUMBERS
    for size in sizes
    for suffix, order in _ORDERS.items()
    if hasattr(h5py.h5t, f"{prefix}{size * bits}{suffix}")
]
# Floats that NumPy lacks and HDF5 can describe: where sign, exponent and mantissa are, the bits of the latter two, and
# the exponent's bias. HDF5 cannot say that a float has no infinities; such ones are opaque bytes, as in h5py.
_MINIFLOATS = {
    DataType.BFLOAT16: ((15, 7, 8, 0, 7), 127),
    DataType.FLOAT8_E5M2: ((7, 2, 5, 0, 2), 15),
}
_BOOLEANS = {b"FALSE": 0, b"TRUE": 1}  # as h5py and netCDF write them
_IMAGINARY = re.compile(r"i$|im", re.IGNORECASE)  # matches the name of an imaginary part
# How an error describes a type that no tensor has.
_OTHERS = {
    h5py.h5t.INTEGER: "an integer of {precision} bits in {size} bytes",
    h5py.h5t.FLOAT: "a float of {precision} bits in {size} bytes, in a layout of its own",
    h5py.h5t.BITFIELD: "a bitfield in {size} bytes of which it uses only a part",
    h5py.h5t.TIME: "a time",
    h5py.h5t.STRING: "text",
    h5py.h5t.OPAQUE: "opaque",
    h5py.h5t.COMPOUND: "a compound of {members}",
    h5py.h5t.REFERENCE: "a reference",
    h5py.h5t.ENUM: "an enumeration of {size} bytes",
    h5py.h5t.VLEN: "a list of any length",
}


def dtype_of(kind: h5py.h5t.TypeID, asked: DataType | None = None) -> np.dtype[Any]:
    """The dtype that has such elements, bit for bit; FormatError for what no tensor has.

    `asked` is the data type of opaque elements, which have no name. Of elements that are arrays it is their elements'.
    """
    if isinstance(kind, h5py.h5t.TypeArrayID):
        return dtype_of(kind.get_super(), asked)
    if isinstance(kind, h5py.h5t.TypeOpaqueID):
        return named(np.dtype(f"V{kind.get_size()}"), asked, "")
    dtype = _number(kind) or _minifloat(kind) or _enumeration(kind) or _complex(kind) or _narrow(kind)
    if dtype is None:
        raise FormatError(f"its data type is {description(kind)}", "numbers in whole bytes, as in NumPy")
    return dtype


def inner_sizes(kind: h5py.h5t.TypeID) -> tuple[int, ...]:
    """The sizes of elements that are arrays, or arrays of arrays; none for others."""
    if not isinstance(kind, h5py.h5t.TypeArrayID):
        return ()
    return (*kind.get_array_dims(), *inner_sizes(kind.get_super()))


def is_converted(kind: h5py.h5t.TypeID) -> bool:
    """Whether HDF5 converts the elements as it reads them: integers of fewer bits than their bytes."""
    inside = kind.get_super() if isinstance(kind, h5py.h5t.TypeArrayID) else None
    return is_converted(inside) if inside else _narrow(kind) is not None


def kind_of(dtype: np.dtype[Any]) -> h5py.h5t.TypeID:
    """HDF5's type for elements of a dtype."""
    if not dtypes.is_minifloat(dtype):
        return h5py.h5t.py_create(dtype, logical=True)
    data_type = data_type_of(dtype)
    if data_type not in _MINIFLOATS:
        return h5py.h5t.py_create(np.dtype(f"V{dtype.itemsize}"), logical=True)
    fields, bias = _MINIFLOATS[data_type]
    kind = h5py.h5t.IEEE_F16LE.copy()
    kind.set_order(h5py.h5t.ORDER_BE if is_big_endian(dtype) else h5py.h5t.ORDER_LE)
    kind.set_fields(*fields)
    kind.set_ebias(bias)
    kind.set_precision(8 * dtype.itemsize)
    kind.set_size(dtype.itemsize)
    return kind


def meaning(kind: h5py.h5t.TypeID) -> str:
    """What the type says beyond its data type, for a person; nothing for plain numbers."""
    match kind:
        case h5py.h5t.TypeBitfieldID():
            return "bitfield"
        case h5py.h5t.TypeEnumID():
            names = [kind.get_member_name(i).decode("utf-8", "replace") for i in range(kind.get_nmembers())]
            return f"enumeration of {listed(names, 5)}"
        case h5py.h5t.TypeCompoundID():
            return f"compound of {_members(kind)}"
        case h5py.h5t.TypeArrayID():
            return f"arrays of sizes {braced(inner_sizes(kind))}"
    return f"integers of {kind.get_precision()} bits" if _narrow(kind) else ""


def read(dataset: h5py.Dataset, region: Region, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The values of the region; 0 for chunks that were never written, where there is no fill value."""
    kind = dataset.id.get_type()
    inner, rank = inner_sizes(kind), dataset.ndim
    values: NDArray[Any] = np.zeros([*(part.stop - part.start for part in region[:rank]), *inner], dtype)
    dataset.id.read(*_spaces(dataset, region[:rank]), values, in_memory(kind, dtype))
    inside: NDArray[Any] = values[(slice(None),) * rank + region[rank:]]
    return inside


def write(dataset: h5py.Dataset, region: Region, values: NDArray[Any]) -> None:
    """Write the values of the region, which has all of the elements that are arrays."""
    kind = in_memory(dataset.id.get_type(), values.dtype)
    dataset.id.write(*_spaces(dataset, region[: dataset.ndim]), np.require(values, requirements="C"), kind)


def lacks_values(dataset: h5py.Dataset) -> bool:
    """Whether there is nothing to read: no value was ever written, and there is no fill value."""
    fill = dataset.id.get_create_plist().fill_value_defined()
    return bool(
        dataset.id.get_space_status() == h5py.h5d.SPACE_STATUS_NOT_ALLOCATED and fill == h5py.h5d.FILL_VALUE_UNDEFINED
    )


def _spaces(dataset: h5py.Dataset, region: Region) -> tuple[h5py.h5s.SpaceID, h5py.h5s.SpaceID]:
    """HDF5's selections for the region: in memory, and in the file."""
    space = dataset.id.get_space()
    if not region:  # a scalar
        return space, space
    sizes = tuple(part.stop - part.start for part in region)
    space.select_hyperslab(tuple(part.start for part in region), sizes)
    return h5py.h5s.create_simple(sizes), space


def in_memory(kind: h5py.h5t.TypeID, dtype: np.dtype[Any]) -> h5py.h5t.TypeID:
    """The type in memory for elements in a file: their own, but for integers that HDF5 makes plain ones of."""
    if isinstance(kind, h5py.h5t.TypeArrayID):
        return h5py.h5t.array_create(in_memory(kind.get_super(), dtype), kind.get_array_dims())
    return h5py.h5t.py_create(dtype) if _narrow(kind) else kind


def _narrow(kind: h5py.h5t.TypeID) -> np.dtype[Any] | None:
    """The dtype of integers that have fewer bits than their bytes; None for any other type."""
    if not isinstance(kind, h5py.h5t.TypeIntegerID) or kind.get_size() not in (1, 2, 4, 8) or _number(kind):
        return None
    order = ">" if kind.get_order() == h5py.h5t.ORDER_BE else "<"
    return np.dtype(f"{order}{'i' if kind.get_sign() == h5py.h5t.SGN_2 else 'u'}{kind.get_size()}")


def _number(kind: h5py.h5t.TypeID) -> np.dtype[Any] | None:
    return next((dtype for known, dtype in _PLAIN if kind.equal(known)), None)


def _minifloat(kind: h5py.h5t.TypeID) -> np.dtype[Any] | None:
    """The dtype of a float that NumPy lacks; None for any other type."""
    if not isinstance(kind, h5py.h5t.TypeFloatID):
        return None
    either = (dtype_of_name(each).newbyteorder(order) for each in _MINIFLOATS for order in ("<", ">"))
    return next((dtype for dtype in either if kind.equal(kind_of(dtype))), None)


def _enumeration(kind: h5py.h5t.TypeID) -> np.dtype[Any] | None:
    """BOOL for truth values, and the integers' dtype for other enumerations; None for any other type."""
    if not isinstance(kind, h5py.h5t.TypeEnumID):
        return None
    dtype = _number(kind.get_super())
    if dtype and dtype.itemsize == 1 and kind.get_nmembers() == len(_BOOLEANS):
        members = {kind.get_member_name(i): kind.get_member_value(i) for i in range(len(_BOOLEANS))}
        return np.dtype("?") if members == _BOOLEANS else dtype
    return dtype


def _complex(kind: h5py.h5t.TypeID) -> np.dtype[Any] | None:
    """The dtype of two floats of one type, one after the other, real part first; None for any other type."""
    if not isinstance(kind, h5py.h5t.TypeCompoundID) or kind.get_nmembers() != 2:
        return None
    real, imaginary = kind.get_member_type(0), kind.get_member_type(1)
    part = _number(real)
    if part is None or part.kind != "f" or not imaginary.equal(real):
        return None
    if (kind.get_member_offset(0), kind.get_member_offset(1), kind.get_size()) != (0, part.itemsize, 2 * part.itemsize):
        return None
    if _IMAGINARY.match(kind.get_member_name(0).decode("utf-8", "replace")):  # NumPy has the real part first
        return None
    return np.dtype(f"{part.byteorder}c{2 * part.itemsize}") if part.itemsize > 2 else None


def _members(kind: h5py.h5t.TypeCompoundID) -> str:
    return listed((kind.get_member_name(i).decode("utf-8", "replace") for i in range(kind.get_nmembers())), 5)


def description(kind: h5py.h5t.TypeID) -> str:
    """A type in words, for one that no tensor has."""
    precision = kind.get_precision() if isinstance(kind, h5py.h5t.TypeAtomicID) else 0
    members = _members(kind) if isinstance(kind, h5py.h5t.TypeCompoundID) else ""
    name = _OTHERS.get(kind.get_class(), "none that h5py knows")
    return name.format(precision=precision, size=kind.get_size(), members=members)
