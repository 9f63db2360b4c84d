"""The format HDF5, also under the names of fields that build on it, such as NetCDF-4.

`files` opens files, finds a dataset and the names of its dimensions, and words h5py's errors; `types` says what its
elements are, and `filters` how its chunks are encoded, which it also does, in the workers. On these stand `source`,
which reads a dataset, and `sink`, which makes the new file.
This module is the format as the table of formats calls it, and what a file holds, as a tree: neither values nor other
files are read. It is loaded when a file needs it, since h5py takes as long to load as NumPy.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import h5py

from revseq_cli.core.dtypes import data_type_of, require_sizes
from revseq_cli.core.errors import FormatError
from revseq_cli.core.tensors import DataType, TensorDesc
from revseq_cli.formats.contents import GROUP, Contents, Item, only_of
from revseq_cli.formats.hdf5 import files, types
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
    items, datasets = list[Item](), dict[str, bool]()
    with opened(address.path) as file:
        group, _, place = files.follow(file, (address.key or "").strip("/"), address.path)
        if not isinstance(group, h5py.h5g.GroupID):
            return None
        for path, entry in files.entries(group, place):  # one at a time: HDF5 is slow with many open objects
            item = Item(path, depth=path.count("/") - place.count("/") - 1)
            match entry:
                case h5py.h5g.GroupID():
                    item = item._replace(what=GROUP, attributes=h5py.h5a.get_num_attrs(entry))
                case h5py.h5t.TypeID():
                    item = item._replace(what="a data type")
                case h5py.h5d.DatasetID():
                    item, datasets[path] = _tensor(h5py.Dataset(entry), item, types.asked)
                case Exception():
                    item, datasets[path] = _unreadable(item, entry), False
                case str():
                    item = item._replace(what=entry)
            items.append(item)
        count = h5py.h5a.get_num_attrs(group)
    meant = {*files.to_choose(datasets)} if address.key is None else set()
    only = only_of([item for item in items if item.key in meant])
    return Contents(address.path, "h5", tuple(items), only, place, count, is_tree=True)


def _unreadable(item: Item, error: Exception) -> Item:
    if isinstance(error, FormatError):
        return item.refused(error)
    return item._replace(what=f"cannot be read: {str(error)[:80]}", is_damaged=True)


def _tensor(dataset: h5py.Dataset, item: Item, asked: DataType | None) -> tuple[Item, bool]:
    """The item of a dataset, with what its header says, or why it is no tensor; and whether it is a scale."""
    try:
        outer, attributes = dataset.id.shape, h5py.h5a.get_num_attrs(dataset.id)
        inner, meaning, description, data_type = _about(dataset.id.get_type().encode(), asked)
        sizes = None if outer is None else (*outer, *inner)
        item = item._replace(
            sizes=sizes,
            dimensions=files.names_of(dataset) if attributes else (),
            attributes=attributes,
            details=details_of(dataset.id.get_create_plist(), meaning),
        )
        is_scale = bool(attributes) and files.is_scale(dataset)
        if sizes is None:
            return item._replace(what=f"{description}, no elements"), is_scale
        if is_scale and files.is_bare(dataset):
            return item._replace(what="dimension"), True
        refuse_other_programs(dataset)
        if isinstance(data_type, FormatError):
            return item.refused(data_type), is_scale
        require_sizes(sizes, item.key)
        return item._replace(desc=TensorDesc(data_type, sizes)), is_scale
    except (*RAISED, FormatError) as e:
        return _unreadable(item, e), False


@functools.lru_cache(maxsize=64)  # most datasets of a file have the same type: listing 22,000 takes a fifth of the time
def _about(encoded: bytes, asked: DataType | None) -> tuple[tuple[int, ...], str, str, DataType | FormatError]:
    """Of a type that HDF5 stores in these bytes: the sizes inside of an element, its words, and the data type.

    The words are those for a type that a tensor has, and for one that it has not.
    """
    kind = h5py.h5t.decode(encoded)
    data_type: DataType | FormatError
    try:
        data_type = data_type_of(types.dtype_of(kind, asked))
    except FormatError as e:
        data_type = e
    return types.inner_sizes(kind), types.meaning(kind), types.description(kind), data_type
