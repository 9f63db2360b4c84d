"""The format HDF5, also under the names of fields that build on it, such as NetCDF-4.

`files` opens files and datasets, and words h5py's errors. `names` finds a dataset and the names of its dimensions,
`types` says what its elements are, and `filters` how its chunks are encoded, which it also does, in the workers. On
these stand `source`, which reads a dataset, `outputs`, which makes the new file, and `sink`, which fills it.
This module is the format as the table of formats calls it, and what a file holds, as a tree: neither values nor other
files are read. It is loaded when a file needs it, since h5py takes as long to load as NumPy.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

import h5py

from revseq_cli.core.dtypes import data_type_of, require_sizes
from revseq_cli.core.errors import FormatError
from revseq_cli.core.tensors import DataType, TensorDesc
from revseq_cli.formats import file_io
from revseq_cli.formats.contents import GROUP, Contents, Item, only_of
from revseq_cli.formats.hdf5 import names, types
from revseq_cli.formats.hdf5.files import RAISED, opened
from revseq_cli.formats.hdf5.sink import create_sink
from revseq_cli.formats.hdf5.source import Hdf5Source, details_of, refuse_other_programs

if TYPE_CHECKING:
    from revseq_cli.formats.contract import Address, Source, TextTypes

__all__ = ["contents", "create_sink", "open_source"]


def open_source(address: Address, types: TextTypes) -> Source:
    """The named dataset of a file, or its only one."""
    return Hdf5Source(address.path, address.key, asked=types.asked)


def contents(address: Address, types: TextTypes) -> Contents | None:
    """What the file or the group holds; None where the address is that of a dataset."""
    path = address.path
    with file_io.opened(path), opened(path) as file:
        found = names.group_at(file, address.key, path)
        if found is None:
            return None
        group, place = found
        listing, items = names.Listing({}, {}), list[Item]()
        for entry in names.entries(group, place):  # one at a time: HDF5 is slow with many open objects
            listing.add(entry)
            items.append(_item(entry, types.asked))
        count = h5py.h5a.get_num_attrs(group)
    meant = {*listing.only} if address.key is None else set()
    only = only_of([item for item in items if item.key in meant])
    return Contents(path, "h5", tuple(items), only, place if address.key else "", count, is_tree=True)


def _item(entry: names.Entry, asked: DataType | None) -> Item:
    """What stands at a path, as it is listed; `asked` is the data type of opaque elements."""
    key, depth, found = entry
    match found:
        case names.Link():
            return Item(key, what=str(found), depth=depth)
        case str():
            return Item(key, what=f"another name of {found}", depth=depth)
        case h5py.h5g.GroupID():
            return Item(key, what=GROUP, depth=depth, attributes=h5py.h5a.get_num_attrs(found))
        case h5py.h5d.DatasetID():
            try:
                return _tensor(found, Item(key, depth=depth), asked)
            except RAISED as e:
                found = e
        case h5py.h5t.TypeID():
            return Item(key, what="a data type", depth=depth)
    if isinstance(found, FormatError):
        return Item(key, depth=depth).refused(found)
    return Item(key, what=f"cannot be read: {str(found)[:80]}", depth=depth, is_damaged=True)


def _tensor(found: h5py.h5d.DatasetID, item: Item, asked: DataType | None) -> Item:
    """The item of a dataset, with what its header says, or with the reason for which it is no tensor."""
    outer, properties, attributes = found.shape, found.get_create_plist(), h5py.h5a.get_num_attrs(found)
    about = _about(found.get_type().encode(), asked)
    sizes = None if outer is None else (*outer, *about.inner)
    dimensions = names.names_of(h5py.Dataset(found)) if attributes else ()
    item = item._replace(
        sizes=sizes, dimensions=dimensions, attributes=attributes, details=details_of(properties, about.meaning)
    )
    if sizes is None:
        return item._replace(what=f"{about.description}, no elements")
    if attributes and names.is_bare(found):
        return item._replace(what="dimension")
    try:
        refuse_other_programs(found)
        if isinstance(about.data_type, FormatError):
            return item.refused(about.data_type)
        require_sizes(sizes, item.key)
    except FormatError as e:
        return item.refused(e)
    return item._replace(desc=TensorDesc(about.data_type, sizes))


class _Elements(NamedTuple):
    """What a type says of elements: the sizes inside of each, its words for people, and the data type, or why none."""

    inner: tuple[int, ...]
    meaning: str
    description: str
    data_type: DataType | FormatError


@functools.lru_cache(maxsize=64)  # most datasets of a file have the same type: listing 22,000 takes a fifth of the time
def _about(encoded: bytes, asked: DataType | None) -> _Elements:
    """What the type says that HDF5 stores in these bytes."""
    kind = h5py.h5t.decode(encoded)
    data_type: DataType | FormatError
    try:
        data_type = data_type_of(types.dtype_of(kind, asked))
    except FormatError as e:
        data_type = e
    return _Elements(types.inner_sizes(kind), types.meaning(kind), types.description(kind), data_type)
