"""Reads and writes attributes of HDF5 files, also those by which HDF5 and NetCDF describe a file.

A dimension of a dataset is described by its scale, a dataset that is attached to it. NetCDF stores
a dimension as a scale, even if the dimension has no variable. Sources: the HDF5 High Level
specification of dimension scales; libhdf5/nc4hdf.c of netCDF-C.
"""

from __future__ import annotations

import os
import sys
import time
from math import prod
from typing import Any

import h5py
import numpy as np
from h5py import h5a, h5d, h5i
from numpy.typing import NDArray

from revseq_cli.core import platform
from revseq_cli.core.errors import UsageError, printable, shorten
from revseq_cli.formats.attributes import Attributes, as_neutral, count_bytes, fit_types
from revseq_cli.formats.hdf5.files import RAISED, decode_name

# NetCDF-4 numbers the dimensions of a file from 0 on. A dimension's scale has its own number. A
# variable of several dimensions that is itself a scale has the numbers of all its dimensions.
DIMENSION_ID = "_Netcdf4Dimid"
DIMENSION_IDS = "_Netcdf4Coordinates"
# The start of the attribute NAME of a dimension that has no variable: its dataset has no values.
BARE = "This is a netCDF dimension but not a netCDF variable."
LABELS = "DIMENSION_LABELS"
_OF_SCALES = {"CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", DIMENSION_ID}
_NETCDF_MARKS = ("_NCProperties", "_nc3_strict")
_STORAGE = {*_OF_SCALES, LABELS, DIMENSION_IDS, *_NETCDF_MARKS}
_MOST_ATTRIBUTE_BYTES = 1 << 24  # of all attributes of an object that are read
_MOST_TEXTS = 64  # this many texts of an attribute are always read
_LONGEST_COMMAND = 1000  # characters of a command in the history; it may have a tensor as text
_MOST_HISTORY = 60_000  # bytes; in older versions of the file format, 64 KiB are too many


def read_attribute(item: h5py.HLObject, name: str) -> Any:  # noqa: ANN401 - of any type
    """An attribute in the neutral form; None without one, or if that form has no place for it."""
    try:
        if not h5a.exists(item.id, name.encode()):  # much faster than an error
            return None
        if not _is_small(item, name.encode()):
            return None
        value = item.attrs[name]
    except RAISED:  # of a type that h5py lacks
        return None
    if isinstance(value, h5py.Empty) and value.dtype.kind == "S":
        return ""
    return as_neutral(value)


def _is_small(item: h5py.HLObject, name: bytes) -> bool:
    """Whether the values of an attribute take little memory: HDF5 reads all of them at once.

    Many texts may share their bytes in the file, so that an attribute of 600 MB fits in a file of
    350 kB. Their lengths are not known before they are read, but none is longer than the file.
    """
    attribute = h5a.open(item.id, name)
    if not attribute.dtype.hasobject:
        return bool(attribute.get_storage_size() <= _MOST_ATTRIBUTE_BYTES)
    count = prod(attribute.shape or ())
    most_bytes = count * item.file.id.get_filesize()
    return count <= _MOST_TEXTS or most_bytes <= _MOST_ATTRIBUTE_BYTES


def read_neutral_attributes(item: h5py.HLObject) -> tuple[Attributes, list[str]]:
    """The attributes of a dataset or group, and the names of those that the neutral form lacks."""
    attributes = Attributes()
    lost = list[str]()
    bytes_left = _MOST_ATTRIBUTE_BYTES
    for name in item.attrs:
        if isinstance(name, bytes):
            lost.append(decode_name(name))
            continue
        if not is_of_tensor(item, name):
            continue
        value = read_attribute(item, name) if bytes_left > 0 else None
        if value is None:
            lost.append(name)
            continue
        attributes[name] = value
        bytes_left -= count_bytes(value)
    return attributes, lost


def count_attributes(item: h5py.HLObject) -> int:
    """The number of attributes of a dataset or a group that say something of its tensors."""
    count = 0
    for name in item.attrs:
        if isinstance(name, bytes) or is_of_tensor(item, name):
            count += 1
    return count


def is_of_tensor(item: h5py.HLObject, name: str) -> bool:
    """Whether an attribute is about the tensor, and not about the storage of HDF5 or NetCDF."""
    if name == "CLASS":
        return not is_scale(item)
    return name not in _STORAGE


def is_of_scales(item: h5py.HLObject, name: str) -> bool:
    """Whether an attribute makes an object a scale, or attaches scales to it."""
    if name == "CLASS":
        return is_scale(item)
    return name in _OF_SCALES


def is_scale(dataset: h5py.HLObject) -> bool:
    """Whether it has the attribute that marks the scale of a dimension."""
    return bool(read_attribute(dataset, "CLASS") == "DIMENSION_SCALE")


def has_netcdf_mark(file: h5py.File) -> bool:
    """Whether a file has the mark of NetCDF's library, which it writes since 2016."""
    return any(name in file.attrs for name in _NETCDF_MARKS)


def is_bare(scale: h5py.Dataset) -> bool:
    """Whether a scale is a dimension that has no variable, and so no values."""
    return str(read_attribute(scale, "NAME")).startswith(BARE)


# New attributes


def copy_attribute(old: h5d.DatasetID, new: h5d.DatasetID, text: str | bytes) -> None:
    """Copy an attribute with its type, which may be a named type of the file."""
    name = text if isinstance(text, bytes) else text.encode()
    attribute = h5a.open(old, name)
    kind = attribute.get_type()
    if h5i.get_file_id(old) != h5i.get_file_id(new) and kind.committed():
        kind = kind.copy()
    copy = h5a.create(new, name, kind, attribute.get_space())
    if attribute.shape is None:
        return
    if attribute.dtype.hasobject:
        values = np.empty(attribute.shape, attribute.dtype)
        attribute.read(values)
        copy.write(values)
    else:  # the bytes as they are
        values = np.empty(attribute.shape, f"V{kind.get_size()}")
        attribute.read(values, mtype=kind)
        copy.write(values, mtype=kind)


def write_attributes(
    item: h5py.HLObject,
    attributes: Attributes,
    input_item: h5py.HLObject | None,
    dtype: np.dtype[Any] | None = None,
) -> None:
    """Write attributes, with the types that they have in `input_item`, an object of INPUT's file.

    Attributes that it lacks, or whose types cannot be copied, are written as NetCDF does. Those of
    a tensor, whose dtype is `dtype`, may have to change their types with it.
    """
    if dtype is not None:
        attributes = fit_types(attributes, dtype)
    rest = Attributes()
    for name, value in attributes.items():
        if input_item is None or name not in input_item.attrs:
            rest[name] = value
            continue
        try:
            copy_attribute(input_item.id, item.id, name)
        except RAISED:
            rest[name] = value
    _write_as_netcdf(item, rest)


def _write_as_netcdf(item: h5py.HLObject, attributes: Attributes) -> None:
    """Write attributes as NetCDF does: texts with a fixed length, and numbers in arrays."""
    for name, value in attributes.items():
        if isinstance(value, list):
            item.attrs.create(name, np.array(value, object), dtype=h5py.string_dtype())
        elif isinstance(value, str):
            data = value.encode()
            has_fixed_length = data != b"" and b"\0" not in data
            length = len(data) if has_fixed_length else None
            encoding = "ascii" if value.isascii() else "utf-8"
            item.attrs.create(name, data, dtype=h5py.string_dtype(encoding, length))
        else:
            array = widen_float16(np.atleast_1d(value))
            if array.dtype.kind == "b":
                array = array.astype("i1")
            item.attrs.create(name, array)


def widen_float16(values: NDArray[Any]) -> NDArray[Any]:
    """FLOAT16 as FLOAT32, since NetCDF's library crashes on the former; other values unchanged."""
    if values.dtype.newbyteorder("=") == np.float16:
        return values.astype(np.float32)
    return values


def add_history(file: h5py.File) -> list[str]:
    """Add a line to the start of the global attribute `history`, as NCO does.

    Where the attribute is not a text, or is full, a note is returned instead.
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        moment = time.gmtime(int(epoch)) if epoch else time.localtime()
    except (ValueError, OverflowError, OSError):
        expected = "seconds since 1970-01-01 UTC, such as 1700000000"
        raise UsageError(f"SOURCE_DATE_EPOCH is {str(epoch)[:40]!r}", expected) from None
    command = printable(" ".join(map(platform.quote, ["revseq", *sys.argv[1:]])))
    line = f"{time.asctime(moment)}: {shorten(command, _LONGEST_COMMAND)}"
    old = read_attribute(file, "history")
    text = f"{line}\n{old}" if old else line
    is_no_text = "history" in file.attrs and not isinstance(old, str)
    if is_no_text or len(text.encode()) > _MOST_HISTORY:
        return ["the attribute history is full, or is not a single text, so no line is added"]
    _write_as_netcdf(file, {"history": text})
    return []
