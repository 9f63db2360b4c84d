"""The format Zarr, versions 2 and 3: a folder with metadata in JSON and a file for each chunk or shard.

`metadata` reads what an array is without the package zarr, and says which codecs are lossless and which files are
chunks. `source` reads an array, what is said of it, and what a store holds; `sink` writes one. The package zarr, an
extra, decodes and encodes chunks; `store`, which alone imports it at once, keeps it strict and without threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from revseq_cli.formats.zarr.sink import ZarrSink
from revseq_cli.formats.zarr.source import ZarrSource, contents

if TYPE_CHECKING:
    from revseq_cli.formats.atomic_file import AtomicFile
    from revseq_cli.formats.contract import Address, FileSink, Source, TextTypes

__all__ = ["contents", "create_sink", "open_source"]


def open_source(address: Address, types: TextTypes) -> Source:
    """The named array of a store, or its only one."""
    return ZarrSource(address.path, address.key, asked=types.asked)


def create_sink(file: AtomicFile, template: Source, key: str, *, only: bool) -> FileSink:
    """A new store of one array, or the input's store with arrays replaced."""
    return ZarrSink(file, template, key, only=only)
