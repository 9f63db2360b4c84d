"""The global attribute `history` of a NetCDF file, which has a line for each command that worked on it, newest first.

Source: the NetCDF Users' Guide, appendix on attribute conventions; and what NCO and CDO write.
"""

from __future__ import annotations

import numpy as np

from revseq_cli.formats.hdf5.library import h5py
from revseq_cli.formats.hdf5.scales import text_of

_NAME = b"history"
_MOST_BYTES = 60_000  # older versions of the file format have no room for an attribute of 64 KiB


def record(file: h5py.File, line: str) -> list[str]:
    """Put the line before those that the history has; a note where it is no text, or full."""
    root = file["/"].id
    old = h5py.h5a.open(root, _NAME) if h5py.h5a.exists(root, _NAME) else None
    if old is not None and not _is_one_text(old):
        return ["the attribute history is not one text, and gets no line"]
    text = b"\n".join(filter(None, [line.encode(), text_of(old) if old is not None else b""]))
    if len(text) > _MOST_BYTES:
        return [f"the attribute history would have {len(text):,} bytes, and gets no line"]
    kind = _kind(text, old)
    space = h5py.h5s.create(h5py.h5s.SCALAR) if old is None else old.get_space()
    if old is not None:
        h5py.h5a.delete(root, _NAME)
    new, sizes = h5py.h5a.create(root, _NAME, kind, space), space.get_simple_extent_dims()
    if kind.is_variable_str():  # h5py makes the pointers that HDF5 wants
        new.write(np.array([text], h5py.string_dtype()).reshape(sizes))
    else:
        new.write(np.frombuffer(text, f"V{len(text)}").reshape(sizes), mtype=kind)
    return []


def _is_one_text(attribute: h5py.h5a.AttrID) -> bool:
    one = attribute.get_space().get_simple_extent_npoints() == 1
    return one and isinstance(attribute.get_type(), h5py.h5t.TypeStringID)


def _kind(text: bytes, old: h5py.h5a.AttrID | None) -> h5py.h5t.TypeStringID:
    """HDF5's type for the text: of any length where the old one is, else as NetCDF writes text."""
    kind = h5py.h5t.C_S1.copy() if old is None else old.get_type().copy()
    if not text.isascii():
        kind.set_cset(h5py.h5t.CSET_UTF8)
    if not kind.is_variable_str():
        kind.set_size(len(text))
    return kind
