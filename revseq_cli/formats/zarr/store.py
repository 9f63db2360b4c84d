"""The package zarr at work on one array: every chunk is stored, and only one that is absent is read as fill value."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

import zarr
from zarr.abc.store import RangeByteRequest, SuffixByteRequest
from zarr.api import asynchronous
from zarr.storage import LocalStore

from revseq_cli.formats.zarr import threadless
from revseq_cli.ground.errors import FormatError

if TYPE_CHECKING:
    from pathlib import Path

    from revseq_cli.formats.zarr.metadata import Version


class StrictStore(LocalStore):
    """The files of an array's folder.

    Zarr's own store says "absent" also for a folder in a file's place and for a file in a folder's place, and its
    shards take a file of no bytes, and a chunk of which the file has no bytes, for absent ones.
    """

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:  # noqa: ANN401 - zarr's Buffer
        """The bytes, None where there is no such file, FormatError where what is there cannot be a stored chunk."""
        found = await super().get(key, prototype, byte_range)
        _require_sound(self.root / key, key, found, byte_range)
        return found

    def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Any:  # noqa: ANN401
        """The same."""
        found = super().get_sync(key, prototype=prototype, byte_range=byte_range)
        _require_sound(self.root / key, key, found, byte_range)
        return found


def open_array(folder: str, version: Version, mode: Literal["r", "r+"]) -> Any:  # noqa: ANN401 - zarr's Array
    """The array; of one that exists, zarr itself ignores the wish that chunks equal to the fill value be stored."""
    store = StrictStore(folder, read_only=mode == "r")
    array: Any = threadless.done(asynchronous.open_array(store=store, mode=mode, zarr_format=version))
    return threadless.Array(zarr.AsyncArray(array.metadata, array.store_path, {"write_empty_chunks": True}))


def _require_sound(path: Path, key: str, found: Any, byte_range: Any) -> None:  # noqa: ANN401 - zarr's
    if found is None:
        try:
            os.lstat(path)
        except FileNotFoundError:
            return
        except NotADirectoryError:
            raise FormatError(f"{key}: a file stands in the place of one of its folders") from None
        raise FormatError(f"{key} is not a regular file")
    wanted = 1
    match byte_range:
        case RangeByteRequest():
            wanted = max(1, byte_range.end - byte_range.start)
        case SuffixByteRequest():
            wanted = byte_range.suffix
    if len(found) < wanted:
        raise FormatError(f"{key} is truncated: {len(found)} bytes where {wanted} are promised")
