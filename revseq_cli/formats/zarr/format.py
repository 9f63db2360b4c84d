"""Zarr as the table of formats calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from revseq_cli.formats.zarr.contents import contents
from revseq_cli.formats.zarr.metadata import arrays_in as names_in
from revseq_cli.formats.zarr.sink import ZarrSink
from revseq_cli.formats.zarr.source import ZarrSource

if TYPE_CHECKING:
    from revseq_cli.formats.contract import Address, FileSink, Layout, Source
    from revseq_cli.formats.documents import TextTypes
    from revseq_cli.formats.storage.newfile import NewFile

__all__ = ["contents", "create_sink", "names_in", "open_source"]


def open_source(address: Address, types: TextTypes) -> Source:
    """The named array of a store, or its only one."""
    return ZarrSource(address.path, address.key, asked=types.asked)


def create_sink(file: NewFile, like: Source, key: str, layout: Layout) -> FileSink:
    """A new store of one array, or the input's store with one array replaced."""
    return ZarrSink(file, like, key, keep_others=layout.keep_others)
