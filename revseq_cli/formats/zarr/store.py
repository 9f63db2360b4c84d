"""The package zarr, strict and without threads of its own.

Every chunk is stored, and only an absent one is read as fill value. All work is done in the calling thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import stat
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import zarr
from zarr.abc.store import RangeByteRequest, SuffixByteRequest
from zarr.api import asynchronous
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import FsspecStore, LocalStore

from revseq_cli.core.errors import FormatError
from revseq_cli.formats import remote
from revseq_cli.formats.zarr.metadata import FILES

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from numpy.typing import NDArray

    from revseq_cli.formats.zarr.metadata import Version

_Result = TypeVar("_Result")


def done(work: Coroutine[Any, Any, _Result], at: str = "") -> _Result:
    """Run a coroutine to its end and return its result; its other tasks are cancelled if it fails.

    By itself zarr starts a thread for its event loop, and more for files and codecs. Where one cannot be started, or
    ends because memory is out, its caller waits forever. And a process with threads cannot be forked: two workers were
    ready after 0.05 s, and after 2.3 s where they had to load zarr again. This program's workers do blocks in parallel.

    What is `at` an address is done where its connections are. Of errors in a group, as tasks raise them, the first one
    is raised: it says what is wrong.
    """
    with contextlib.closing(work):
        try:
            if at:
                return remote.done(work)
            with asyncio.Runner(loop_factory=remote.Loop) as runner:
                return runner.run(work)
        except ExceptionGroup as group:
            error: Exception = group
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            raise error from None


class _Array:
    """An array of the package zarr, read and written by region in the calling thread."""

    def __init__(self, array: Any, at: str) -> None:  # noqa: ANN401 - zarr's AsyncArray
        self._array, self._at, self.dtype = array, at, array.dtype

    def __getitem__(self, region: tuple[Any, ...]) -> Any:  # noqa: ANN401 - zarr's kinds of arrays
        return done(self._array.getitem(region), self._at)

    def __setitem__(self, region: tuple[slice, ...], values: NDArray[Any]) -> None:
        done(self._array.setitem(region, values), self._at)


class StrictStore(LocalStore):
    """The files of an array's folder; what is neither absent nor a whole file in that folder is an error.

    Zarr's own store follows links, waits for pipes, and takes other things for absent chunks: a folder in place of
    a file, a file in place of a folder, an empty shard, and a chunk that lies beyond the end of its shard.
    """

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:  # noqa: ANN401 - zarr's Buffer
        """The bytes of a file or a range of it; None where there is no file, FormatError for anything else."""
        self._require_file(key)
        return _whole(await super().get(key, prototype, byte_range), key, byte_range)

    def get_sync(self, key: str, *, prototype: Any = None, byte_range: Any = None) -> Any:  # noqa: ANN401
        """The bytes as `get` has them, for those parts of zarr that do not wait for a coroutine."""
        self._require_file(key)
        return _whole(super().get_sync(key, prototype=prototype, byte_range=byte_range), key, byte_range)

    def _require_file(self, key: str) -> None:
        """FormatError for a link, a folder or a device in place of a file, and for a file in place of a folder."""
        *folders, _ = parts = key.split("/")
        path = str(self.root)
        for number, part in enumerate(parts):
            path = f"{path}/{part}"
            try:
                mode = os.lstat(path).st_mode
            except FileNotFoundError:
                return
            if number < len(folders) and not stat.S_ISDIR(mode):
                what = "a link stands" if stat.S_ISLNK(mode) else "a file stands"
                raise FormatError(f"{key}: {what} in place of one of its folders")
        if not stat.S_ISREG(mode):
            raise FormatError(f"{key} is not a regular file")


def _whole(data: Any, key: str, byte_range: Any) -> Any:  # noqa: ANN401 - zarr's
    """The data; FormatError where the file lacks bytes of the range."""
    wanted = 1
    match byte_range:
        case RangeByteRequest():
            wanted = max(1, byte_range.end - byte_range.start)
        case SuffixByteRequest():
            wanted = byte_range.suffix
    if data is not None and len(data) < wanted:
        raise FormatError(f"{key} is truncated: {len(data)} bytes where {wanted} are promised")
    return data


class _StoreAt(FsspecStore):
    """The chunks of an array at an address, with its files of metadata, which need not be there yet."""

    def __init__(self, at: str, files: Iterable[tuple[str, bytes]], *, read_only: bool) -> None:
        fs, inside = remote.system(at)
        super().__init__(fs, read_only=read_only, path=inside)
        self._at, self._files = at, dict(files)

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:  # noqa: ANN401 - zarr's Buffer
        """The bytes of an object or a range of it; None where there is none."""
        prototype = prototype or default_buffer_prototype()
        if key.rpartition("/")[2] in FILES:
            return prototype.buffer.from_bytes(self._files[key]) if key in self._files else None
        call = functools.partial(super().get, key, prototype, byte_range)
        with remote.worded(f"{self._at}/{key}", "read"):
            return _whole(await remote.tried(self._at, call), key, byte_range)

    async def set(self, key: str, value: Any, byte_range: Any = None) -> None:  # noqa: ANN401 - zarr's Buffer
        """Put the bytes of an object."""
        with remote.worded(f"{self._at}/{key}", "write"):
            await remote.tried(self._at, functools.partial(super().set, key, value, byte_range))


def open_array(
    folder: str, version: Version, mode: Literal["r", "r+"], at: str = "", files: Iterable[tuple[str, bytes]] = ()
) -> Any:  # noqa: ANN401 - zarr's Array
    """The array in a folder, or `at` an address, of which the metadata are in `files`.

    It stores every chunk; asked to do so for an array that exists, zarr's own function does not.
    """
    store: Any = StrictStore(folder, read_only=mode == "r")
    if at:
        store = _StoreAt(at, files, read_only=mode == "r")
    array: Any = done(asynchronous.open_array(store=store, mode=mode, zarr_format=version), at)
    return _Array(zarr.AsyncArray(array.metadata, array.store_path, {"write_empty_chunks": True}), at)


def consolidate(folder: str, key: str, version: Version) -> None:
    """Write the copy of all metadata in a group anew."""
    done(asynchronous.consolidate_metadata(StrictStore(folder), path=key or None, zarr_format=version))
