"""The package zarr, strict and without threads of its own.

Every chunk is stored, and only an absent one is read as fill value. All work is done in the calling thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import zarr
from zarr.abc.store import RangeByteRequest, SuffixByteRequest
from zarr.api import asynchronous
from zarr.storage import LocalStore

from revseq_cli.core.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

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
    """The files of an array's folder; what cannot be a chunk is an error.

    Zarr's own store takes other things for absent chunks, too: a folder in place of a file, a file in place of
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
    array: Any = done(asynchronous.open_array(store=store, mode=mode, zarr_format=version))
    return _Array(zarr.AsyncArray(array.metadata, array.store_path, {"write_empty_chunks": True}))


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
            raise FormatError(f"{key}: a file stands in place of one of its folders")
        return
    wanted = 1
    match byte_range:
        case RangeByteRequest():
            wanted = max(1, byte_range.end - byte_range.start)
        case SuffixByteRequest():
            wanted = byte_range.suffix
    if len(data) < wanted:
        raise FormatError(f"{key} is truncated: {len(data)} bytes where {wanted} are promised")
