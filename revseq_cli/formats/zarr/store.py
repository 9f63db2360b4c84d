"""The package zarr, strict and without threads of its own.

Every chunk is stored, and only an absent one is read as fill value. All work is done in the calling thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import zarr
from zarr.abc.store import RangeByteRequest, SuffixByteRequest
from zarr.api import asynchronous
from zarr.storage import LocalStore

from revseq_cli.core.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from numpy.typing import NDArray

    from revseq_cli.formats.zarr.metadata import Version

_Result = TypeVar("_Result")


class _Here(asyncio.SelectorEventLoop):
    """An event loop without threads: work for another thread is done at once, in this one.

    By itself zarr starts a thread for its event loop, and more for files and codecs. Where one cannot be started, or
    ends because memory is out, its caller waits forever. And a process with threads cannot be forked: two workers were
    ready after 0.05 s, and after 2.3 s where they had to load zarr again. This program's workers do blocks in parallel.
    """

    def run_in_executor(self, _: object, function: Callable[..., Any], *arguments: object) -> asyncio.Future[Any]:
        """Call the function; the future has its result already."""
        future = self.create_future()
        try:
            future.set_result(function(*arguments))
        except Exception as e:  # noqa: BLE001 - it is raised where the result is asked for
            future.set_exception(e)
        return future


def done(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine to its end and return its result; its other tasks are cancelled if it fails.

    Of errors in a group, as tasks raise them, the first one is raised: it says what is wrong.
    """
    with contextlib.closing(work), asyncio.Runner(loop_factory=_Here) as runner:
        try:
            return runner.run(work)
        except ExceptionGroup as group:
            error: Exception = group
            while isinstance(error, ExceptionGroup):
                error = error.exceptions[0]
            raise error from None


class _Array:
    """An array of the package zarr, read and written by region in the calling thread."""

    def __init__(self, array: Any) -> None:  # noqa: ANN401 - zarr's AsyncArray
        self._array, self.dtype = array, array.dtype

    def __getitem__(self, region: tuple[Any, ...]) -> Any:  # noqa: ANN401 - zarr's kinds of arrays
        return done(self._array.getitem(region))

    def __setitem__(self, region: tuple[slice, ...], values: NDArray[Any]) -> None:
        done(self._array.setitem(region, values))


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


def open_array(folder: str, version: Version, mode: Literal["r", "r+"]) -> Any:  # noqa: ANN401 - zarr's Array
    """The array, which stores every chunk; asked to do so for an array that exists, zarr's own function does not."""
    store = StrictStore(folder, read_only=mode == "r")
    array: Any = done(asynchronous.open_array(store=store, mode=mode, zarr_format=version))
    return _Array(zarr.AsyncArray(array.metadata, array.store_path, {"write_empty_chunks": True}))


def consolidate(folder: str, key: str, version: Version) -> None:
    """Write the copy of all metadata in a group anew."""
    done(asynchronous.consolidate_metadata(StrictStore(folder), path=key or None, zarr_format=version))
