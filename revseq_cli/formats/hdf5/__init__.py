"""The format HDF5, as `formats.table` finds it. What a command does not need is not imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from revseq_cli.files.new import NewFile
    from revseq_cli.formats.contract import FileSink, Location, Original, Source, TextTypes
    from revseq_cli.formats.listings import Contents


def open_source(location: Location, types: TextTypes) -> Source:
    """The named dataset of a file, or its only one."""
    from revseq_cli.formats.hdf5.source import Hdf5Source

    return Hdf5Source(location.path, location.key, asked=types.asked)


def create_sink(file: NewFile, template: Source, key: str, original: Original | None) -> FileSink:
    """The sink for a tensor like `template`, with the path `key`.

    RevseqError for every reason to refuse it.
    """
    from revseq_cli.formats.hdf5.sink import choose_sink

    return choose_sink(file, template, key, original)


def contents(location: Location, types: TextTypes) -> Contents | None:
    """What the file or the group holds; None if the location is that of a dataset."""
    from revseq_cli.formats.hdf5.listing import list_contents

    return list_contents(location, types.asked)
