"""Addresses, such as s3://bucket/x.npy, through fsspec, which the extra `remote` installs: what is read, and written.

Where a file of this machine that is open has a descriptor, one at an address has a `File`; `file_io` passes on either.
All is done in the calling thread, on an event loop without threads: workers can be forked, and a signal ends a wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import inspect
import os
import shutil
import tempfile
import threading
import time
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

from revseq_cli.core import errors, platform, signals, thresholds
from revseq_cli.core.errors import (
    FileThereError,
    FormatError,
    MissingFileError,
    RevseqError,
    TensorIOError,
    UsageError,
)  # fmt: skip
from revseq_cli.formats.atomic_file import AtomicFile, temporary_name
from revseq_cli.formats.file_io import Identity
from revseq_cli.formats.table import is_of_store, is_store

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator

_Result = TypeVar("_Result")
_Range = tuple[int, int, list[tuple[int, memoryview]]]  # start, stop, and the buffers to fill, with their offsets
_WEB = ("http", "https")
# The package for a scheme, as fsspec calls it. All but that of the web try again by themselves, and put in one step.
_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", **dict.fromkeys(_WEB, "aiohttp")}
_PACKAGES |= dict.fromkeys(("az", "abfs", "abfss", "adl"), "adlfs")
_RIGHTS = {
    "s3fs": "aws configure, or AWS_PROFILE; for a public bucket FSSPEC_S3_ANON=true",
    "gcsfs": "gcloud auth application-default login",
    "adlfs": "AZURE_STORAGE_ACCOUNT_NAME and a key or token",
}
_PAUSES = (0.3, 1.0)  # seconds before the second try and the third
# What filesystems say of the content of a file and of its time, the best first.
_CONTENT = ("ETag", "etag", "md5Hash", "content_md5", "Content-MD5", "generation", "ino")
_TIME = ("LastModified", "last_modified", "Last-Modified", "updated", "mtime", "created")
_MOST_OPEN = 16  # files of a thread
FRESH = 2.0  # seconds that a state holds, while formats look at one file in turn


class FolderError(TensorIOError):
    """An address of a folder in place of a file."""


class Address(str):
    """An address without its credentials, as messages have it, and whole in `full`, which alone is opened."""

    __slots__ = ("full",)
    full: str

    def __new__(cls, text: str) -> Address:
        """Of an Address, the same."""
        self = super().__new__(cls, errors.without_secrets(text))
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


class Here:
    """The loop, filesystems and open files of one thread of one process: a fork can use none of its parent."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.loop.set_exception_handler(lambda *_: None)  # sessions are left to the end of the process
        self.systems: dict[object, Any] = {}
        self.files: dict[str, File] = {}
        self.mirrors: dict[str, tuple[float, str]] = {}  # when Zarr's metadata were asked for, and the folder of copies
        self.folders: list[str] = []  # that are removed at the end


def thread() -> tuple[int, int]:
    """What tells this thread from others, in whatever process."""
    return os.getpid(), threading.get_ident()


@functools.cache  # what is a parent's stays, since to close it would disturb the parent
def _of(_: tuple[int, int]) -> Here:
    return Here()


def here() -> Here:
    """What this thread has at addresses."""
    return _of(thread())


def close() -> None:
    """Close what this thread has open, and remove its folders; HDF5 does not survive a stream that ends before it."""
    for file in here().files.values():
        file.at_end.close()
    for folder in here().folders:
        shutil.rmtree(folder, ignore_errors=True)
    for each in (here().files, here().mirrors, here().folders):
        each.clear()


# Calls


def system(path: str) -> tuple[Any, str]:
    """The filesystem of an address, whose methods are coroutines, and the path in it."""
    address, scheme = Address(path), path.partition("://")[0].lower()
    try:
        import fsspec
        from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper

        kind = fsspec.get_filesystem_class(scheme)
    except ImportError:
        package = _PACKAGES.get(scheme, "")
        hint = platform.pip(f"install fsspec {package}")
        raise FormatError(
            f"is an address of {scheme}", f"fsspec and {package or 'its package'}", hint, address
        ) from None
    except ValueError:
        raise UsageError(f"fsspec knows no {scheme}", "s3, gs, az, https or another", where=address) from None
    options = kind._get_kwargs_from_urls(address.full)
    if kind.async_impl:
        options |= {"asynchronous": True, "use_listings_cache": False, "skip_instance_cache": True}
    elif scheme == "local":
        options["auto_mkdir"] = True
    systems, key = here().systems, (scheme, repr(options))
    if key not in systems:
        made = kind(**options)
        systems[key] = made if kind.async_impl else AsyncFileSystemWrapper(made, asynchronous=True)
    return systems[key], kind._strip_protocol(address.full)


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

    return here().loop.run_until_complete(watched())


async def tried(path: str, call: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
    """The result of a call, which is tried three times where its package does not do so itself."""
    scheme = path.partition("://")[0]
    for pause in _PAUSES if scheme in _WEB or scheme not in _PACKAGES else ():
        try:
            return await call()
        except Exception as e:
            cause, status = _cause(e)
            is_of_web = type(cause).__module__.startswith("aiohttp") and not status
            if not is_of_web and status < 500 and not isinstance(cause, (ConnectionError, TimeoutError, EOFError)):
                raise
        await asyncio.sleep(pause)
    return await call()


def _cause(error: BaseException) -> tuple[BaseException, int]:
    """What an error is about, and a web server's status: fsspec calls any refusal a file that is not there."""
    cause = error.__cause__ if isinstance(error, FileNotFoundError) and error.__cause__ else error
    return cause, getattr(cause, "status", None) or 0


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
    (cause, status), package = _cause(error), _PACKAGES.get(address.partition("://")[0], "")
    kind = type(cause).__name__
    words = errors.without_secrets(" ".join(str(cause).split()))[:200] or kind
    if isinstance(cause, FileNotFoundError) or status in (404, 410) or "NoSuchBucket" in words:
        what = "file" if package in ("", "aiohttp") else "bucket, or no such file in it"
        return MissingFileError(f"no such {what}", where=address)
    if isinstance(cause, IsADirectoryError):
        return FolderError("is a folder", "a tensor file", where=address)
    if isinstance(cause, FileExistsError):
        return FileThereError("already exists", "a new file", "add --overwrite to replace it", address)
    if isinstance(cause, PermissionError) or status in (401, 403) or "Credentials" in kind:
        words = "there are no credentials" if kind == "NoCredentialsError" else "no right to"
        return TensorIOError(f"cannot {doing}: {words}", "credentials that may", _RIGHTS.get(package, ""), address)
    if status:
        words = f"the server answers {status} {getattr(cause, 'message', '')}".strip()
    elif isinstance(cause, TimeoutError):
        words = "the server does not answer"
    return TensorIOError(f"cannot {doing}: {words}", "a server that answers", "try again later", address)


# Files that are read


def _identity(path: str, info: dict[str, Any]) -> Identity:
    """The state of a file: its address, what says its content, such as an ETag, its size, and its time in ns."""
    if info["type"] == "directory":
        raise FolderError("is a folder", "a tensor file", where=Address(path))
    if info.get("size") is None:
        found, wanted = "the server does not say how large it is", "a server that does"
        raise TensorIOError(found, wanted, "download it first", Address(path))
    moment: Any = next((info[name] for name in _TIME if info.get(name)), 0)
    if isinstance(moment, str):
        moment = parsedate_to_datetime(moment)
    moment = moment.timestamp() if hasattr(moment, "timestamp") else moment
    content = _digest([info[name] for name in _CONTENT if info.get(name)])
    return Identity(_digest(Address(path).full), content, info["size"], int(1e9 * moment), 0)


def _digest(value: object) -> int:
    return int.from_bytes(hashlib.blake2b(repr(value).encode(), digest_size=7).digest())


class File:
    """A file at an address, open for reading."""

    def __init__(self, path: str, identity: Identity) -> None:
        self.path, self.identity = Address(path), identity
        self.error: BaseException | None = None  # the first one in a stream, which a library may lose
        self.hdf5: Any = None  # h5py's file, which stays open as long as this one does
        self.at_end = contextlib.ExitStack()
        self.asked, self._head = time.monotonic(), b""

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
            options: dict[str, Any] = {}
            if stop - start < self.identity.size:  # a server without ranges can send all of it
                options = {"start": start, "end": stop} | (
                    {"raise_for_status": _require_ranges} if is_web(self.path) else {}
                )
            data = await fs._cat_file(inside, **options)
            if len(data) != stop - start:
                raise TensorIOError("ended while it was read", "a file that does not change", where=name)
            return cast("bytes", data)

        async def together() -> list[bytes]:
            return await asyncio.gather(*(tried(self.path, functools.partial(fetched, *each[:2])) for each in ranges))

        with worded(self.path, "read"):
            fs, inside = system(self.path)
            return done(together())

    def stream(self) -> BinaryIO:
        """The file as a stream with a cache of blocks, for libraries, which read it in small pieces."""
        from fsspec.spec import AbstractBufferedFile

        class Stream(AbstractBufferedFile):  # type: ignore[misc]
            def _fetch_range(_, start: int, stop: int) -> bytes:  # noqa: N805
                data = bytearray(min(stop, self.identity.size) - start)
                try:
                    self.read_runs([(start, memoryview(data))], self.path)
                except BaseException as e:
                    self.error = self.error or e
                    raise
                return bytes(data)

        cache = {"cache_type": "blockcache", "cache_options": {"maxblocks": 8}}
        return cast(
            "BinaryIO", Stream(None, self.path, "rb", thresholds.REMOTE_BLOCK, size=self.identity.size, **cache)
        )


async def _require_ranges(response: Any) -> None:  # noqa: ANN401 - aiohttp's
    """FormatError where a server would send the whole file; of other errors fsspec tells."""
    if response.status == 200:
        found, where = "its server sends whole files only", errors.without_secrets(str(response.url))
        raise FormatError(found, "a server that sends ranges", "download it first", where)


def _ranges(runs: Iterable[tuple[int, memoryview]]) -> Iterator[list[_Range]]:
    """Lists of ranges to ask for together; runs that are near become one range, and long ones several."""
    ranges: list[_Range] = []
    total = 0
    for place, run in runs:
        for done in range(0, len(run), thresholds.REMOTE_PIECE):
            part, start = run[done : done + thresholds.REMOTE_PIECE], place + done
            stop = start + len(part)
            first, end, parts = ranges[-1] if ranges else (0, -1, [])
            if 0 <= start - end <= thresholds.REMOTE_GAP and stop - first <= thresholds.REMOTE_PIECE and parts:
                parts.append((start, part))
                ranges[-1] = first, stop, parts
                total += stop - end
                continue
            if total + len(part) > thresholds.REMOTE_AT_ONCE and ranges:
                yield ranges
                ranges, total = [], 0
            ranges.append((start, stop, [(start, part)]))
            total += len(part)
    if ranges:
        yield ranges


def opened(path: str, unchanged: Identity | None, *, afresh: bool = False) -> File:
    """The file; the server is asked for its state, unless this thread has it open as it was at `unchanged`."""
    files, key = here().files, Address(path).full
    file = files.pop(key, None)
    is_asked = file and (file.identity == unchanged or (unchanged is None and time.monotonic() - file.asked < FRESH))
    if not file or not is_asked or afresh:
        identity = _identity(path, call(path, "info"))
        if not file or file.identity != identity:
            file = File(path, identity)
    files[key] = file  # the last one
    while len(files) > _MOST_OPEN:
        files.pop(next(iter(files))).at_end.close()
    return file


def state(path: str, *, stops: bool = True) -> Identity | None:
    """The state of a file now; None where there is none."""
    with contextlib.suppress(MissingFileError, FolderError):
        return _identity(path, call(path, "info", stops=stops))
    return None


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
    found = call(path, "find", detail=True)
    return {name.removeprefix(inside): _identity(name, info) for name, info in found.items()}


def contents(path: str, names: Iterable[str]) -> dict[str, bytes]:
    """The bytes of the files of these names below an address, as far as they are there; all are asked for together."""

    async def content(name: str) -> tuple[str, bytes]:
        with contextlib.suppress(FileNotFoundError):
            return name, await tried(path, lambda: fs._cat_file(f"{inside}/{name}"))
        return name, b""

    async def together() -> list[tuple[str, bytes]]:
        return await asyncio.gather(*map(content, names))

    with worded(path, "read"):
        fs, inside = system(path)
        return {name: data for name, data in done(together()) if data}


def newest(path: str) -> int | None:
    """When a file, or anything below an address, was changed last, in nanoseconds; None where there is none."""
    file = state(path)
    return file.changed if file else max((each.changed for each in listed(path).values()), default=None)


def matching(pattern: str) -> list[Address]:
    """The addresses of files and Zarr stores that match a pattern, in their order."""
    scheme, found = pattern.partition("://")[0], call(pattern, "glob", detail=True)
    names = {name if is_web(name) else f"{scheme}://{name}": info for name, info in found.items()}
    return [Address(name) for name, info in sorted(names.items()) if info["type"] != "directory" or is_store(name)]


# Files that are written


class NewObject(AtomicFile):
    """A file to write at an address: it is written here, and put there when it is complete, which is one step."""

    _mode = 0o600

    def __init__(self, path: str, *, overwrite: bool, inputs: Iterable[Identity] = ()) -> None:
        self.name, self._overwrite, self.is_created, self._old = Address(path), overwrite, False, None
        if is_web(path):
            raise UsageError("is only read", "an address of a bucket", "write it here, then upload it", self.name)
        if any(identity.device == _digest(self.name.full) for identity in inputs):
            wanted = "another file: there is no in-place execution, as in DirectML"
            raise TensorIOError("is an input of this job", wanted, "give the output another name", self.name)
        self._check(inputs)
        self.temporary = self.beside = os.path.join(tempfile.gettempdir(), temporary_name())  # noqa: PTH118 - a string

    def _check(self, inputs: Iterable[Identity]) -> None:  # noqa: ARG002 - that is done
        if state(self.name) and not self._overwrite:
            raise FileThereError("already exists", "a new file", "add --overwrite to replace it", self.name)

    def flush(self) -> None:
        """Nothing to flush: the file is put, and then removed."""

    def flush_folder(self) -> None:
        """Nothing to flush: the server has the file."""

    def take_name(self) -> None:
        """Put the file; without `overwrite` it never replaces another, as far as the server can tell."""
        self._check(())
        fs, inside = system(self.name)
        is_one_step = self.name.partition("://")[0] in (*_PACKAGES, "memory")
        can_refuse = not self._overwrite and "mode" in inspect.signature(fs._put_file).parameters
        options = {"mode": "create"} if can_refuse else {}
        target = inside if is_one_step else f"{inside.rpartition('/')[0]}/{temporary_name()}"
        with signals.begun("put", os.path.getsize(self.temporary)) as advance:  # noqa: PTH202 - a string
            self._put(self.temporary, target, advance, **options)
        if not is_one_step:
            call(self.name.replace(inside, target), "mv", inside, doing="write")

    def _put(self, path: str, target: str, advance: Callable[[int], None] | None = None, **options: object) -> None:
        from fsspec.callbacks import Callback

        fs, callback = system(self.name)[0], Callback()
        callback.relative_update = advance or callback.relative_update
        with worded(self.name, "write"):
            done(tried(self.name, lambda: fs._put_file(path, target, callback=callback, **options)))


class NewStore(NewObject):
    """A Zarr store to write at an address: workers put its chunks there, and the folder `temporary` has all else.

    The latter is put at the end, and last what makes it a store. A mark at the address keeps other runs from it.
    """

    def __init__(self, path: str, *, overwrite: bool, inputs: Iterable[Identity] = ()) -> None:
        super().__init__(path.rstrip("/"), overwrite=overwrite, inputs=inputs)
        self.address = self.name
        self._mark, self._is_named = f"{self.name}/{temporary_name()}", False

    def _check(self, inputs: Iterable[Identity]) -> None:  # noqa: ARG002 - see above
        if [*listed(self.name)] != ([self._mark.rpartition("/")[2]] if self.is_created else []):
            wanted, hint = "a new one: a folder is never replaced", "give it another name, or remove what is there"
            raise TensorIOError("already exists, or is being written", wanted, hint, self.name)

    def create(self) -> None:
        """Create the folder here, and the mark there."""
        os.mkdir(self.temporary, 0o700)  # noqa: PTH102 - a string
        call(self._mark, "pipe_file", b"", doing="write")
        self.is_created = True
        self._check(())

    def take_name(self) -> None:
        """Put the files of the folder, those of metadata last, and of these the outermost."""
        here, inside = Path(self.temporary), system(self.name)[1]
        names = [each.relative_to(here).as_posix() for each in here.rglob("*") if each.is_file()]
        names.sort(key=lambda name: (name.rpartition("/")[2][:2] in (".z", "za"), -name.count("/"), is_of_store(name)))
        for name in names:
            self._put(str(here / name), f"{inside}/{name}")
        self._is_named = True

    def remove(self) -> None:
        """Remove the folder here, and there the mark, or all that has become no store, as far as that can be done."""
        shutil.rmtree(self.temporary, ignore_errors=True)
        if self.is_created:
            self.is_created = False
            with contextlib.suppress(RevseqError):
                if self._is_named:
                    call(self._mark, "rm_file", stops=False)
                else:
                    call(self.name, "rm", recursive=True, stops=False)
