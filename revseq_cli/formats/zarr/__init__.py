"""The format Zarr, versions 2 and 3: a folder with metadata in JSON and a file for each chunk or shard.

`metadata` reads what an array is without the package zarr, and says which codecs are lossless and which file is which
chunk; `meaning` has its names and attributes. `source` reads an array and finds the chunks that are not stored, and
`sink` writes one. The package zarr, an extra, decodes and encodes chunks, and `store` keeps it strict and without
threads of its own.
This module is the format as the table of formats calls it, and what a store holds, as a tree. It is loaded when a file
needs it. Only `store` imports the package zarr at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from revseq_cli.core.dtypes import data_type_of
from revseq_cli.core.errors import RevseqError
from revseq_cli.core.tensors import TensorDesc
from revseq_cli.formats.contents import GROUP, Contents, Item, only_of
from revseq_cli.formats.zarr import metadata
from revseq_cli.formats.zarr.sink import ZarrSink
from revseq_cli.formats.zarr.source import ZarrSource, details_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from revseq_cli.core.tensors import DataType
    from revseq_cli.formats.atomic_file import AtomicFile
    from revseq_cli.formats.contract import Address, FileSink, Layout, Source
    from revseq_cli.formats.documents import TextTypes

__all__ = ["contents", "create_sink", "open_source"]


def open_source(address: Address, types: TextTypes) -> Source:
    """The named array of a store, or its only one."""
    return ZarrSource(address.path, address.key, asked=types.asked)


def create_sink(file: AtomicFile, template: Source, key: str, layout: Layout) -> FileSink:
    """A new store of one array, or the input's store with arrays replaced."""
    return ZarrSink(file, template, key, layout)


def contents(address: Address, types: TextTypes) -> Contents | None:
    """What the store or the group holds; None where the address is that of an array, or of nothing."""
    store, key = address.path, (address.key or "").strip("/")
    found = metadata.attributes_of_group(store, key)
    if found is None:
        return None
    items = tuple(_items(store, key, types.asked))
    arrays = [item for item in items if not item.is_group]
    return Contents(
        store, "zarr", items, None if address.key is not None else only_of(arrays), key, len(found), is_tree=True
    )


def _items(store: str, key: str, asked: DataType | None) -> Iterator[Item]:
    """Everything in a group, depth first and by name."""
    pending = [(each, 0) for each in metadata.folders_in(store, key)]
    while pending:
        below, depth = pending.pop()
        item = _item(store, below, depth, asked)
        yield item
        if item.is_group:
            pending += [(each, depth + 1) for each in metadata.folders_in(store, below)]


def _item(store: str, key: str, depth: int, asked: DataType | None) -> Item:
    """The array or the group in a folder; what is wrong with its metadata is told in its place."""
    item = Item(key, depth=depth)
    try:
        if (attributes := metadata.attributes_of_group(store, key)) is not None:
            return item._replace(what=GROUP, attributes=len(attributes))
        found = metadata.read(str(Path(store, key)), key, asked)
        item = item._replace(
            sizes=found.sizes, dimensions=found.dimensions, attributes=found.attributes, details=details_of(found)
        )
        return item._replace(desc=TensorDesc(data_type_of(found.dtype), found.sizes))
    except RevseqError as e:
        return item.refused(e)
