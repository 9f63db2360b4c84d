"""HDF5 as the table of formats calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from revseq_cli.formats.hdf5.contents import contents
from revseq_cli.formats.hdf5.sink import create_sink
from revseq_cli.formats.hdf5.source import Hdf5Source, names_in

if TYPE_CHECKING:
    from revseq_cli.formats.contract import Address, Source
    from revseq_cli.formats.documents import TextTypes

__all__ = ["contents", "create_sink", "names_in", "open_source"]


def open_source(address: Address, types: TextTypes) -> Source:
    """The named dataset of a file, or its only one."""
    return Hdf5Source(address.path, address.key, asked=types.asked)
