"""The format Zarr, as `formats.table` finds it. What a command does not need is not imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from revseq_cli.formats.refusals import import_extra

if TYPE_CHECKING:
    from revseq_cli.files.new import NewFile
    from revseq_cli.formats.contract import FileSink, Location, Original, Source, TextTypes
    from revseq_cli.formats.listings import Contents


def open_source(location: Location, types: TextTypes) -> Source:
    """The named array of a store, or its only one."""
    import_extra("zarr", "a Zarr store", location.path)
    from revseq_cli.formats.zarr.source import ZarrSource

    return ZarrSource(location.path, location.key, asked=types.asked)


def create_sink(file: NewFile, template: Source, key: str, original: Original | None) -> FileSink:
    """A new store of one array, or a copy of a store with that array replaced or added."""
    import_extra("zarr", "a Zarr store", file.name)
    from revseq_cli.formats.zarr.sink import ZarrSink

    return ZarrSink(file, template, key, original)


def contents(location: Location, types: TextTypes) -> Contents | None:
    """What the store or the group holds; None if the location is that of an array, or nothing.

    The package zarr is not needed.
    """
    from revseq_cli.formats.zarr.listing import list_contents

    return list_contents(location, types.asked)
