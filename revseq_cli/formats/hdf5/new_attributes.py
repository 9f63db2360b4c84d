"""Attributes of new HDF5 files: copied with their types, or written as NetCDF does."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import h5py
import numpy as np
from h5py import h5a, h5d, h5i
from numpy.typing import NDArray

from revseq_cli.core import platform
from revseq_cli.core.errors import UsageError, printable, shorten
from revseq_cli.formats.attributes import Attributes, fit_types
from revseq_cli.formats.hdf5.attributes import read_attribute
from revseq_cli.formats.hdf5.files import RAISED

_LONGEST_COMMAND = 1000  # characters of a command in the history; it may have a tensor as text
_MOST_HISTORY = 60_000  # bytes; in older versions of the file format, 64 KiB are too many


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


def copy_attributes(
    item: h5py.HLObject,
    attributes: Attributes,
    input_item: h5py.HLObject | None,
    dtype: np.dtype[Any] | None = None,
) -> None:
    """Write attributes, with their types in `input_item`, an object of INPUT's file.

    Attributes that it lacks, or whose types cannot be copied, are written as NetCDF does. `dtype`
    is the dtype of the values that they are about, if they are about values.
    """
    rest = Attributes()
    fitting = attributes if dtype is None else fit_types(attributes, dtype)
    for name, value in fitting.items():
        if input_item is None or name not in input_item.attrs:
            rest[name] = value
            continue
        try:
            copy_attribute(input_item.id, item.id, name)
        except RAISED:
            rest[name] = value
    _write_attributes(item, rest)


def _write_attributes(item: h5py.HLObject, attributes: Attributes) -> None:
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
    _write_attributes(file, {"history": text})
    return []
