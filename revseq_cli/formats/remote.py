"""Addresses, such as s3://bucket/x.npy, through fsspec, which the extra `remote` installs: what is read, and written.

Where a file of this machine that is open has a descriptor, one at an address has a `File`; `file_io` passes on either.
All is done in the calling thread, on an event loop without threads: workers can be forked, and a signal ends a wait.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import hashlib
import inspect
import io
import json
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from revseq_cli.core import platform, signals, thresholds
from revseq_cli.core.errors import (
    FileThereError,
    FormatError,
    MissingFileError,
    RevseqError,
    TensorIOError,
    UsageError,
    without_secrets,
)
from revseq_cli.formats.atomic_file import AtomicFile, temporary_name
from revseq_cli.formats.file_io import Identity
from revseq_cli.formats.table import STORE_FILES, is_of_store, is_store

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator

_Result = TypeVar("_Result")
# The package that reads a scheme, as its users call it, and the schemes whose packages try again by themselves.
_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "http": "aiohttp", "https": "aiohttp"}
_PACKAGES |= dict.fromkeys(("az", "abfs", "abfss", "adl"), "adlfs")
_WEB = ("http", "https")
_RIGHTS = {
    "s3fs": "aws configure, or AWS_PROFILE; for a public bucket FSSPEC_S3_ANON=true",
    "gcsfs": "gcloud auth application-default login",
    "adlfs": "AZURE_STORAGE_ACCOUNT_NAME and a key or token",
}
_PAUSES = (0.3, 1.0)  # seconds before the second try and the third
_CONTENT = ("ETag", "etag", "md5Hash", "generation", "content_md5", "Content-MD5", "ino")
_TIME = ("LastModified", "last_modified", "Last-Modified", "updated", "mtime", "created")
_MOST_OPEN = 16  # files that a thread keeps open
_FRESH = 2.0  # seconds that a state holds, while formats look at one file in turn


class FolderError(TensorIOError):
    """An address of a folder in place of a file."""


class Address(str):
    """An address without its credentials, as messages have it, and whole in `full`, which alone is opened."""

    __slots__ = ("full",)
    full: str

    def __new__(cls, text: str) -> Address:
        """Of an Address, the same."""
        self = super().__new__(cls, without_secrets(text))
        self.full = getattr(text, "full", text)
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return Address, (self.full,)


class Loop(asyncio.SelectorEventLoop):
    """An event loop without threads: work for another thread is done at once, in this one."""

    def run_in_executor(self, _: object, function: Callable[..., Any], *arguments: object) -> asyncio.Future[Any]:
        """Call the function; the future has its result already."""
        future = self.create_future()
        try:
            future.set_result(function(*arguments))
        except Exception as e:  # noqa: BLE001 - it is raised where the result is asked for
            future.set_exception(e)
        return future


class _Here:
    """The loop, the filesystems and the open files of one thread of one process: a fork can use none of its parent."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.loop.set_exception_handler(lambda *_: None)  # sessions are left to the end of the process
        self.systems: dict[object, Any] = {}
        self.files: dict[str, File] = {}
        self.mirrors: dict[str, tuple[float, tempfile.TemporaryDirectory[str]]] = {}


_all: dict[tuple[int, int], _Here] = {}  # what is a parent's stays, since to close it would disturb the parent


def thread() -> tuple[int, int]:
    """What tells this thread from others, in whatever process; connections are of one."""
    return os.getpid(), threading.get_ident()


def _here() -> _Here:
    if thread() not in _all:
        _all[thread()] = _Here()
    return _all[thread()]


def system(path: str) -> tuple[Any, str]:
    """The filesystem of an address, whose methods are coroutines, and the path in it."""
    address = Address(path)
    scheme = address.partition("://")[0].lower()
    try:
        import fsspec
        from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper

        kind = fsspec.get_filesystem_class(scheme)
    except ImportError:
        package = _PACKAGES.get(scheme, f"that fsspec needs for {scheme}")
        hint = platform.pip(f"install fsspec {package}") if scheme in _PACKAGES else ""
        raise FormatError(f"is an address of {scheme}", f"the package {package}", hint, address) from None
    except ValueError:
        raise UsageError(f"fsspec knows no {scheme}", "s3, gs, az, https or another", where=address) from None
    options = kind._get_kwargs_from_urls(address.full)  # noqa: SLF001 - fsspec's own way from address to filesystem
    if kind.async_impl:
        options |= {"asynchronous": True, "use_listings_cache": False, "skip_instance_cache": True}
    if scheme == "local":
        options["auto_mkdir"] = True
    systems, key = _here().systems, (scheme, repr(sorted(options.items())))
    if key not in systems:
        made = kind(**options)
        systems[key] = made if kind.async_impl else AsyncFileSystemWrapper(made, asynchronous=True)
    return systems[key], kind._strip_protocol(address.full)  # noqa: SLF001


def done(work: Coroutine[Any, Any, _Result], *, stops: bool = True) -> _Result:
    """Run a coroutine to its end; Stopped after a signal."""

    async def watched() -> _Result:
        task = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait({task}, timeout=signals.PATIENCE))[0]:
                if stops:
                    signals.check()
            return task.result()
        finally:
            task.cancel()

    return _here().loop.run_until_complete(watched())


async def tried(path: str, call: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
    """The result of a call, which is tried three times where its package does not do so itself."""
    scheme = path.partition("://")[0]
    for pause in _PAUSES if scheme in _WEB or scheme not in _PACKAGES else ():
        try:
            return await call()
        except Exception as e:
            if not _may_pass(e):
                raise
        await asyncio.sleep(pause)
    return await call()


def _cause(error: BaseException) -> BaseException:
    """What an error is about: fsspec calls a web server's refusal a file that is not there."""
    return error.__cause__ if isinstance(error, FileNotFoundError) and error.__cause__ else error


def _may_pass(error: BaseException) -> bool:
    cause = _cause(error)
    status = getattr(cause, "status", None)
    if status:
        return bool(status >= 500 or status == 429)
    is_of_web = type(cause).__module__.partition(".")[0] == "aiohttp"
    return is_of_web or isinstance(cause, (ConnectionError, TimeoutError, EOFError))


def call(path: str, method: str, *arguments: object, stops: bool = True, doing: str = "read", **options: object) -> Any:  # noqa: ANN401
    """What a method of the filesystem gives for an address; a TensorIOError says what is wrong."""
    with worded(path, doing):
        fs, inside = system(path)
        return done(tried(path, lambda: getattr(fs, f"_{method}")(inside, *arguments, **options)), stops=stops)


@contextlib.contextmanager
def worded(path: str, doing: str) -> Iterator[None]:
    """Raise a TensorIOError for what a library raises about an address."""
    try:
        yield
    except (RevseqError, MemoryError):
        raise
    except Exception as e:  # noqa: BLE001 - libraries have errors of their own
        raise _error(e, Address(path), doing) from None


def _error(error: Exception, address: Address, doing: str) -> TensorIOError:
    """The error for what a library raised, without its own words where these are of a known kind."""
    cause, scheme = _cause(error), address.partition("://")[0]
    status, package = getattr(cause, "status", None), _PACKAGES.get(scheme, "")
    if isinstance(cause, FileNotFoundError) or status in (404, 410) or "NoSuchBucket" in str(cause):
        what = "no such bucket, or no such file in it" if package and scheme not in _WEB else "no such file"
        return MissingFileError(what, where=address)
    if isinstance(cause, IsADirectoryError):
        return FolderError("is a folder", "a tensor file", where=address)
    if isinstance(cause, FileExistsError):
        return FileThereError("already exists", "a new file", "add --overwrite to replace it", address)
    if isinstance(cause, PermissionError) or status in (401, 403) or "Credentials" in type(cause).__name__:
        words = "there are no credentials" if "NoCredentials" in type(cause).__name__ else "no right to"
        return TensorIOError(f"cannot {doing}: {words}", "credentials that may", _RIGHTS.get(package, ""), address)
    if status:
        words = f"the server answers {status} {getattr(cause, 'message', '')}".strip()
    elif isinstance(cause, TimeoutError):
        words = "the server does not answer"
    else:
        words = without_secrets(" ".join(str(cause).split()))[:200] or type(cause).__name__
    return TensorIOError(f"cannot {doing}: {words}", "a server that answers", "try again later", address)


def _digest(*values: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(values).encode(), digest_size=7).digest())


def _identity(path: str, info: dict[str, Any]) -> Identity:
    """The state of a file: its address, what says its content, such as an ETag, its size, and its time."""
    if info["type"] == "directory":
        raise FolderError("is a folder", "a tensor file", where=Address(path))
    if info.get("size") is None:
        found, wanted = "the server does not say how large it is", "a server that does"
        raise TensorIOError(found, wanted, "download it first", Address(path))
    content, time = ([info[name] for name in names if info.get(name)] for names in (_CONTENT, _TIME))
    return Identity(_digest(Address(path).full), _digest(*content), info["size"], _digest(*time), 0)


class File:
    """A file at an address, open for reading."""

    def __init__(self, path: str, identity: Identity) -> None:
        self.path, self.identity = Address(path), identity
        self.error: BaseException | None = None  # the first one in a stream, which a library may lose
        self.hdf5: Any = None  # h5py's file, which stays open as long as this one does
        self.at_end = contextlib.ExitStack()
        self._head, self.asked = b"", time.monotonic()

    def read_runs(self, runs: Iterable[tuple[int, memoryview]], name: str) -> None:
        """Fill each buffer from its offset; the ranges of some MiB are asked for together."""
        for ranges in _ranges(self._beyond_head(runs, name)):
            for (start, _, parts), data in zip(ranges, self._fetched(ranges, name), strict=True):
                for offset, buffer in parts:
                    buffer[:] = data[offset - start : offset - start + len(buffer)]

    def _beyond_head(self, runs: Iterable[tuple[int, memoryview]], name: str) -> Iterator[tuple[int, memoryview]]:
        """The runs that are not in the first bytes of the file, which are fetched at once, and kept."""
        size = min(self.identity.size, thresholds.REMOTE_HEAD)
        for offset, buffer in runs:
            if offset + len(buffer) > size:
                yield offset, buffer
                continue
            if len(self._head) < size:
                [self._head] = self._fetched([(0, size, [])], name)
            buffer[:] = self._head[offset : offset + len(buffer)]

    def _fetched(self, ranges: list[_Range], name: str) -> list[bytes]:
        async def fetched(start: int, stop: int) -> bytes:
            if stop - start == self.identity.size:  # which a server without ranges can send, too
                data = await fs._cat_file(inside)  # noqa: SLF001
            else:
                data = await fs._cat_file(inside, start=start, end=stop, **options)  # noqa: SLF001
            if len(data) != stop - start:
                raise TensorIOError("ended while it was read", "a file that does not change", where=name)
            return cast("bytes", data)

        async def together() -> list[bytes]:
            return await asyncio.gather(*(tried(self.path, functools.partial(fetched, *each[:2])) for each in ranges))

        with worded(self.path, "read"):
            fs, inside = system(self.path)
            options = {"raise_for_status": _require_ranges} if self.path.startswith(_WEB) else {}
            return done(together())

    def stream(self) -> Stream:
        """The file as a stream for libraries, which read it in small pieces."""
        return Stream(self)


_Range = tuple[int, int, list[tuple[int, memoryview]]]  # start, stop, and the buffers that are filled from it


def _ranges(runs: Iterable[tuple[int, memoryview]]) -> Iterator[list[_Range]]:
    """Lists of ranges to ask for together; runs that are near become one range, and long ones several."""
    ranges: list[_Range] = []
    total = 0
    for place, run in runs:
        for done in range(0, len(run), thresholds.REMOTE_PIECE):
            part, start = run[done : done + thresholds.REMOTE_PIECE], place + done
            stop = start + len(part)
            if ranges and 0 <= start - ranges[-1][1] <= thresholds.REMOTE_GAP:
                first, end, parts = ranges[-1]
                if stop - first <= thresholds.REMOTE_PIECE:
                    ranges[-1] = first, stop, [*parts, (start, part)]
                    total += stop - end
                    continue
            if ranges and total + len(part) > thresholds.REMOTE_AT_ONCE:
                yield ranges
                ranges, total = [], 0
            ranges.append((start, stop, [(start, part)]))
            total += len(part)
    if ranges:
        yield ranges


async def _require_ranges(response: Any) -> None:  # noqa: ANN401 - aiohttp's
    """FormatError where a server would send the whole file; of other errors fsspec tells."""
    if response.status == 200:
        found, wanted = "its server sends whole files only", "a server that sends ranges"
        raise FormatError(found, wanted, "download it first", without_secrets(str(response.url)))


class Stream(io.RawIOBase):
    """A file as a stream, with a cache of blocks."""

    def __init__(self, file: File) -> None:
        from fsspec.caching import BlockCache

        self._file, self._place = file, 0
        self._cache = BlockCache(thresholds.REMOTE_BLOCK, self._fetch, file.identity.size, maxblocks=16)

    def _fetch(self, start: int, stop: int) -> bytes:
        data = bytearray(max(0, min(stop, self._file.identity.size) - start))
        self._file.read_runs([(start, memoryview(data))], self._file.path)
        return bytes(data)

    def readable(self) -> bool:  # noqa: D102
        return True

    def seekable(self) -> bool:  # noqa: D102
        return True

    def seek(self, offset: int, whence: int = 0) -> int:  # noqa: D102
        self._place = offset + (0, self._place, self._file.identity.size)[whence]
        return self._place

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401, D102 - any buffer
        view = memoryview(buffer).cast("B")
        stop = min(self._place + len(view), self._file.identity.size)
        count = max(0, stop - self._place)
        try:
            if count > thresholds.REMOTE_BLOCK:
                self._file.read_runs([(self._place, view[:count])], self._file.path)
            else:
                view[:count] = self._cache._fetch(self._place, stop) if count else b""  # noqa: SLF001 - as fsspec calls it
        except BaseException as e:
            self._file.error = self._file.error or e
            raise
        self._place += count
        return count


def opened(path: str, unchanged: Identity | None, *, afresh: bool = False) -> File:
    """The file; the server is asked for its state, unless this thread has it open as it was at `unchanged`."""
    files, key = _here().files, Address(path).full
    file = files.pop(key, None)
    is_asked = file and (file.identity == unchanged or (unchanged is None and time.monotonic() - file.asked < _FRESH))
    if not file or not is_asked or afresh:
        identity = _identity(path, call(path, "info"))
        if not file or file.identity != identity:
            file = File(path, identity)
    files[key] = file  # the last one
    while len(files) > _MOST_OPEN:
        files.pop(next(iter(files))).at_end.close()
    return file


@atexit.register
def _close() -> None:
    """Close what is open: HDF5 does not survive a file of Python's that goes before it."""
    if here := _all.get(thread()):
        for file in here.files.values():
            file.at_end.close()


def state(path: str, *, stops: bool = True) -> Identity | None:
    """The state of a file; None where there is none, or a folder."""
    try:
        info = call(path, "info", stops=stops)
    except MissingFileError:
        return None
    return None if info["type"] == "directory" else _identity(path, info)


def is_folder(path: str) -> bool:
    """Whether there are files below an address, as far as its server lists them."""
    try:
        opened(path, None)
    except FolderError:
        return True
    except MissingFileError:
        return False
    return False


def is_web(path: str) -> bool:
    """Whether it is the address of a web server, which may list no files."""
    return path.startswith(_WEB)


def listed(path: str) -> dict[str, Identity]:
    """The states of the files below an address, by their paths from there; those of a web server are not listed."""
    if is_web(path):
        return {}
    inside = system(path)[1].rstrip("/") + "/"
    try:
        found = call(path, "find", detail=True)
    except MissingFileError:
        return {}
    return {name.removeprefix(inside): _identity(name, info) for name, info in found.items()}


_METADATA = [".zattrs", ".zmetadata", *STORE_FILES]


def _is_metadata(name: str) -> bool:
    return name.rpartition("/")[2] in _METADATA


def mirror(path: str) -> str:
    """A folder with the files of metadata of the Zarr store at an address; MissingFileError where there is none.

    A web server lists no files: its stores have copies of all metadata at one place, or are one array.
    """
    mirrors, key = _here().mirrors, Address(path).full
    if key in mirrors and time.monotonic() - mirrors[key][0] < _FRESH:
        return mirrors[key][1].name
    asked, (fs, inside) = time.monotonic(), system(path)

    async def content(name: str) -> bytes:
        with contextlib.suppress(FileNotFoundError):
            return cast("bytes", await tried(path, lambda: fs._cat_file(f"{inside}/{name}")))  # noqa: SLF001
        return b""

    async def contents() -> list[bytes]:
        return await asyncio.gather(*map(content, names))

    names = [name for name in listed(path) if _is_metadata(name)] or _METADATA
    with worded(path, "read"):
        files = dict(zip(names, done(contents()), strict=True))
    if not any(files.values()):
        raise MissingFileError("no such store", where=Address(path))
    if is_web(path):
        files |= _consolidated(files)
    folder = tempfile.TemporaryDirectory(prefix="revseq-")  # it ends with the process
    for name, data in files.items():
        target = Path(folder.name, name)
        if data and target.resolve().is_relative_to(Path(folder.name).resolve()):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    mirrors[key] = asked, folder
    return folder.name


def _consolidated(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files of metadata that a store has a copy of in those at its root."""
    with contextlib.suppress(ValueError, AttributeError, TypeError):
        if files.get(".zmetadata"):
            return {
                name: json.dumps(each).encode() for name, each in json.loads(files[".zmetadata"])["metadata"].items()
            }
        copies = json.loads(files.get("zarr.json") or b"{}").get("consolidated_metadata") or {}
        return {f"{name}/zarr.json": json.dumps(each).encode() for name, each in copies.get("metadata", {}).items()}
    return {}


def matching(pattern: str) -> list[Address]:
    """The addresses of files and Zarr stores that match a pattern, in their order."""
    scheme, found = pattern.partition("://")[0], call(pattern, "glob", detail=True)
    names = {name if is_web(name) else f"{scheme}://{name.lstrip('/')}": info for name, info in found.items()}
    return [Address(name) for name, info in sorted(names.items()) if info["type"] != "directory" or is_store(name)]


def newest(path: str) -> int | None:
    """When a file, or anything below an address, was changed last, in nanoseconds; None where there is none."""
    try:
        infos = call(path, "find", detail=True).values() if is_folder(path) else [call(path, "info")]
    except MissingFileError:
        return None
    return max((_moment(info[name]) for info in infos for name in _TIME if info.get(name)), default=None)


def _moment(time: Any) -> int:  # noqa: ANN401 - as a library has it
    if isinstance(time, str):
        from email.utils import parsedate_to_datetime

        time = parsedate_to_datetime(time)
    return int(1e9 * (time.timestamp() if hasattr(time, "timestamp") else time))


class NewObject(AtomicFile):
    """A file to write at an address: it is written here, and put there when it is complete, which is one step."""

    _mode = 0o600
    is_named = False

    def __init__(self, path: str, *, overwrite: bool, inputs: Iterable[Identity] = ()) -> None:
        self.name, self._overwrite, self.is_created, self._old = Address(path), overwrite, False, None
        if path.startswith(_WEB):
            raise UsageError("is only read", "an address of a bucket", "write it here, then upload it", self.name)
        old = state(path)
        if any(identity.device == _digest(self.name.full) for identity in inputs):
            wanted = "another file: there is no in-place execution, as in DirectML"
            raise TensorIOError("is an input of this job", wanted, "give the output another name", self.name)
        if old and not overwrite:
            raise FileThereError("already exists", "a new file", "add --overwrite to replace it", self.name)
        self.temporary = self.beside = os.path.join(tempfile.gettempdir(), temporary_name())  # noqa: PTH118 - a string

    def flush(self) -> None:
        """Nothing to flush: the file is put, and then removed."""

    def take_name(self) -> None:
        """Put the file; without `overwrite` it never replaces another, as far as the server can tell."""
        from fsspec.callbacks import Callback

        if not self._overwrite and state(self.name):
            raise FileThereError("was created by another program meanwhile", "a new file", where=self.name)
        fs, inside = system(self.name)
        create = not self._overwrite and "mode" in inspect.signature(fs._put_file).parameters  # noqa: SLF001
        size = os.path.getsize(self.temporary)  # noqa: PTH202 - a string
        with signals.begun("put", size) as advance, worded(self.name, "write"):
            callback = Callback()
            callback.relative_update = advance
            options = {"mode": "create"} if create else {}
            is_atomic = self.name.partition("://")[0] in (*_PACKAGES, "memory")
            target = inside if is_atomic else f"{inside.rpartition('/')[0]}/{temporary_name()}"
            done(tried(self.name, lambda: fs._put_file(self.temporary, target, callback=callback, **options)))  # noqa: SLF001
            if not is_atomic:
                done(fs._mv(target, inside))  # noqa: SLF001

    def flush_folder(self) -> None:
        """The server has it."""


class NewStore(NewObject):
    """A Zarr store to write at an address: workers put its chunks there, and the folder `temporary` has all else.

    The latter is put at the end, and last what makes it a store.
    """

    def __init__(self, path: str, *, overwrite: bool, inputs: Iterable[Identity] = ()) -> None:
        super().__init__(path.rstrip("/"), overwrite=overwrite, inputs=inputs)
        self.address = self.name
        if call(path, "find"):
            wanted = "a new one: a folder is never replaced"
            raise TensorIOError("already exists", wanted, "give it another name", self.name)

    def create(self) -> None:
        """Create the folder here."""
        os.mkdir(self.temporary, 0o700)  # noqa: PTH102 - a string
        self.is_created = True

    def take_name(self) -> None:
        """Put the files of the folder, those of metadata last, and of these the outermost."""
        fs, inside = system(self.name)
        names = [
            each.relative_to(self.temporary).as_posix() for each in Path(self.temporary).rglob("*") if each.is_file()
        ]
        names.sort(key=lambda name: (_is_metadata(name), -name.count("/"), is_of_store(name)))
        for name in names:
            with worded(f"{self.name}/{name}", "write"):
                put = functools.partial(fs._put_file, f"{self.temporary}/{name}", f"{inside}/{name}")  # noqa: SLF001
                done(tried(self.name, put))
        self.is_named = True

    def remove(self) -> None:
        """Remove the folder here, and the chunks that have become no store, as far as that can be done."""
        if self.is_created:
            shutil.rmtree(self.temporary, ignore_errors=True)
            self.is_created = False
            if not self.is_named:
                with contextlib.suppress(RevseqError):
                    call(self.name, "rm", recursive=True, stops=False)
