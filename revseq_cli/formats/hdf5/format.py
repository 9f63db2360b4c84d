"""The format HDF5, as `formats.table` finds it."""

from __future__ import annotations

from revseq_cli.files.new import NewFile
from revseq_cli.formats.contract import FileSink, Original, Source
from revseq_cli.formats.hdf5.listing import contents
from revseq_cli.formats.hdf5.source import open_source

__all__ = ["contents", "create_sink", "open_source"]


def create_sink(file: NewFile, template: Source, key: str, original: Original | None) -> FileSink:
    """The sink for a tensor like `template`, with the path `key`.

    RevseqError for every reason to refuse it.
    """
    from revseq_cli.formats.hdf5.sink import choose_sink  # most commands only read

    return choose_sink(file, template, key, original)
