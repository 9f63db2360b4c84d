"""Arrays of the package zarr that are strict: every chunk is stored, and only an absent one is read as fill value."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Literal

import zarr
from zarr.abc.store import RangeByteRequest, SuffixByteRequest
from zarr.api import asynchronous
from zarr.storage import LocalStore

from revseq_cli.formats.zarr import threadless
from revseq_cli.ground.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from revseq_cli.formats.zarr.metadata import Version


class StrictStore(LocalStore):
    """The files of an array's folder; what cannot be a chunk is an error.

    Zarr's own store takes other things for absent chunks, too: a folder in the place of a file, a file in the place of
    a folder, an empty shard, and a chunk that lies beyond the end of its shard.
    """

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:  # noqa: ANN401 - zarr's Buffer
        """The bytes of a file or a range of it; None where there is no file, FormatError where it cannot be a chunk."""
        data = None
        with _not_of_a_folder(self.root / key):
            data = await super().get(key, prototype, byte_range)
        _require_sound(self.root / key, key, data, byte_range)
        return data

    def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Any:  # noqa: ANN401
        """The bytes as `get` has them, for those parts of zarr that do not wait for a coroutine."""
        data = None
        with _not_of_a_folder(self.root / key):
            data = super().get_sync(key, prototype=prototype, byte_range=byte_range)
        _require_sound(self.root / key, key, data, byte_range)
        return data


def open_array(folder: str, version: Version, mode: Literal["r", "r+"]) -> Any:  # noqa: ANN401 - zarr's Array
    """The array, which stores every chunk; asked to do so for an array that exists, zarr's own function does not."""
    store = StrictStore(folder, read_only=mode == "r")
    array: Any = threadless.done(asynchronous.open_array(store=store, mode=mode, zarr_format=version))
    return threadless.Array(zarr.AsyncArray(array.metadata, array.store_path, {"write_empty_chunks": True}))


@contextlib.contextmanager
def _not_of_a_folder(path: Path) -> Iterator[None]:
    """Pass over the error that Windows has for a folder which is opened as a file: it is not permitted."""
    try:
        yield
    except PermissionError:
        if not path.is_dir():
            raise


def _require_sound(path: Path, key: str, data: Any, byte_range: Any) -> None:  # noqa: ANN401 - zarr's
    """FormatError where something else than a file stands at the path, or the file lacks bytes of the range."""
    if data is None:
        above = next(each for each in (path, *path.parents) if os.path.lexists(each))
        if above == path:
            raise FormatError(f"{key} is not a regular file")
        if not above.is_dir():
            raise FormatError(f"{key}: a file stands in the place of one of its folders")
        return
    wanted = 1
    match byte_range:
        case RangeByteRequest():
            wanted = max(1, byte_range.end - byte_range.start)
        case SuffixByteRequest():
            wanted = byte_range.suffix
    if len(data) < wanted:
        raise FormatError(f"{key} is truncated: {len(data)} bytes where {wanted} are promised")
