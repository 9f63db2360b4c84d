"""The format Zarr, versions 2 and 3: a folder with metadata in JSON and a file for each chunk or shard.

`metadata` says what a store holds, without the package zarr, an extra, which `source` and `sink` import.
"""

from __future__ import annotations

from revseq_cli.formats.atomic_file import AtomicFile
from revseq_cli.formats.contents import extra
from revseq_cli.formats.contract import Address, FileSink, Source, TextTypes
from revseq_cli.formats.zarr.metadata import contents

__all__ = ["contents", "create_sink", "open_source"]


def open_source(address: Address, types: TextTypes) -> Source:
    """The named array of a store, or its only one."""
    extra("zarr", "is a Zarr store", address.path)
    from revseq_cli.formats.zarr.source import ZarrSource

    return ZarrSource(address.path, address.key, asked=types.asked)


def create_sink(file: AtomicFile, template: Source, key: str, *, only: bool) -> FileSink:
    """A new store of one array, or the input's store with that array replaced or added."""
    extra("zarr", "is a Zarr store", file.name)
    from revseq_cli.formats.zarr.sink import ZarrSink

    return ZarrSink(file, template, key, only=only)
