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
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from revseq_cli.core import errors, platform, signals, thresholds
from revseq_cli.core.errors import FileThereError, FormatError, MissingFileError, RevseqError, TensorIOError, UsageError
from revseq_cli.formats.atomic_file import AtomicFile, is_an_input, temporary_name
from revseq_cli.formats.file_io import Identity
from revseq_cli.formats.table import STORE_FILES, is_store

_Result = TypeVar("_Result")
# The package of each scheme. All but that of the web try again by themselves, and put a file in one step.
_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "az": "adlfs", "abfs": "adlfs", "http": "aiohttp", "https": "aiohttp"}
_PAUSES = (0.3, 1.0)  # seconds before the second try and the third
# What filesystems say of the content of a file and of its time, the best first.
_CONTENT = ("ETag", "etag", "md5Hash", "Content-MD5", "generation", "ino")
_TIME = ("LastModified", "last_modified", "Last-Modified", "updated", "mtime", "created")
_MOST_OPEN = 16  # files of a thread


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
    """Close what this thread has open; HDF5 does not survive a stream that ends before it."""
    for file in here().files.values():
        file.at_end.close()
    here().files.clear()


def scheme_of(path: str) -> str:
    """What stands before ://."""
    return path.partition("://")[0].lower()


def is_web(path: str) -> bool:
    """Whether it is the address of a web server, which may list no files."""
    return path.startswith(("http://", "https://"))


# Calls


def system(path: str) -> tuple[Any, str]:
    """The filesystem of an address, whose methods are coroutines, and the path in it."""
    address, scheme = Address(path), scheme_of(path)
    try:
        import fsspec
        from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper

        kind = fsspec.get_filesystem_class(scheme)
    except ImportError:
        packages = f"fsspec {_PACKAGES.get(scheme, '')}".strip()
        hint = platform.pip(f"install {packages}")
        raise FormatError(f"an address of {scheme}", f"the packages {packages}", hint, address) from None
    except ValueError:
        raise UsageError(f"fsspec knows no {scheme}", "s3, gs, az, https or another", where=address) from None
    options = kind._get_kwargs_from_urls(address.full)
    if kind.async_impl:
        options |= {"asynchronous": True, "use_listings_cache": False, "skip_instance_cache": True}
    systems, key = here().systems, (scheme, repr(options))
    if key not in systems:
        made = kind(**options)
        made.auto_mkdir = True  # of local:// alone
        systems[key] = made if kind.async_impl else AsyncFileSystemWrapper(made, asynchronous=True)
    return systems[key], kind._strip_protocol(address.full)


def done(*works: Coroutine[Any, Any, _Result], stops: bool = True) -> list[_Result]:
    """Run coroutines together, to their ends; Stopped after a signal."""

    async def watched() -> list[_Result]:
        task = asyncio.gather(*works)
        try:
            while not (await asyncio.wait({task}, timeout=signals.PATIENCE))[0]:
                if stops:
                    signals.check()
            return task.result()
        finally:
            task.cancel()

    return here().loop.run_until_complete(watched())


async def tried(path: str, call: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
    """The result of a call, which is tried three times on the web."""
    for pause in _PAUSES if is_web(path) else ():
        try:
            return await call()
        except Exception as e:
            cause, status = _cause(e)
            is_lost = isinstance(cause, (ConnectionError, TimeoutError)) or type(cause).__module__.startswith("aiohttp")
            if not (status >= 500 if status else is_lost):
                raise
        await asyncio.sleep(pause)
    return await call()


def _cause(error: BaseException) -> tuple[BaseException, int]:
    """What an error is about, and a web server's status: fsspec calls any refusal a file that is not there."""
    cause = error.__cause__ if isinstance(error, FileNotFoundError) and error.__cause__ else error
    return cause, getattr(cause, "status", None) or 0


def ask(
    path: str, *questions: Callable[[Any, str], Coroutine[Any, Any, _Result]], stops: bool = True, doing: str = "read"
) -> list[_Result]:
    """Ask the filesystem of an address, all together; each question gets it, and the path in it.

    A TensorIOError says what is wrong; Stopped after a signal, unless `stops` is false.
    """
    with worded(path, doing):
        fs, inside = system(path)
        return done(*(tried(path, functools.partial(question, fs, inside)) for question in questions), stops=stops)


@contextlib.contextmanager
def worded(path: str, doing: str) -> Iterator[None]:
    """Raise a TensorIOError for what a library raises about an address."""
    address, scheme = Address(path), scheme_of(path)
    try:
        yield
    except (RevseqError, MemoryError):
        raise
    except Exception as e:  # noqa: BLE001 - libraries have errors of their own
        cause, status = _cause(e)
        user = address.full.partition("://")[2].partition("/")[0].rpartition("@")[0]  # which is no part of a bucket
        words = " ".join(str(cause).split())
        words = words.replace(f"{user}@", "") if user else words
        kind, words = type(cause).__name__, errors.without_secrets(words)[:200]
        if isinstance(cause, FileNotFoundError) or status in (404, 410) or "NoSuchBucket" in words or "(404)" in words:
            raise MissingFileError("no such file, or no such bucket", where=address) from None
        if isinstance(cause, FileExistsError):
            raise _there(address) from None
        wanted, hint = "a server that answers", "try again later"
        if isinstance(cause, PermissionError) or status in (401, 403) or "Credentials" in kind:
            words = "there are no credentials" if kind == "NoCredentialsError" else "no right to"
            wanted, hint = "credentials that may", f"set those that {_PACKAGES.get(scheme, scheme)} looks for"
        elif status:
            words = f"the server answers {status} {getattr(cause, 'message', '')}".strip()
        raise TensorIOError(f"cannot {doing}: {words or kind}", wanted, hint, address) from None


def _there(address: str) -> TensorIOError:
    return FileThereError("already exists", "a new file", "add --overwrite to replace it", address)


# Files that are read


def _identity(path: str, info: dict[str, Any]) -> Identity:
    """The state of a file: its address, what says its content, such as an ETag, its size, and its time in ns."""
    if info["type"] == "directory":
        raise FolderError("a folder", "a tensor file", where=Address(path))
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
        self.error: BaseException | None = None  # the first one in the stream, which a library may lose
        self.hdf5: Any = None  # h5py's file, which stays open as long as this one does
        self.at_end = contextlib.ExitStack()

    def read_runs(self, runs: Iterable[tuple[int, memoryview]], name: str) -> None:
        """Fill each buffer from its offset; the ranges of some MiB are asked for together, and short ones kept."""
        ranges: list[tuple[int, memoryview]] = []
        for start, run in runs:
            if len(run) <= thresholds.REMOTE_SHORT:
                self.stream.seek(start)
                _fill(run, self.stream.read(len(run)), name)
                continue
            for done in range(0, len(run), thresholds.REMOTE_PIECE):
                ranges.append((start + done, run[done : done + thresholds.REMOTE_PIECE]))
                if len(ranges) * thresholds.REMOTE_PIECE >= thresholds.REMOTE_AT_ONCE:
                    self._fetch(ranges, name)
                    ranges = []
        self._fetch(ranges, name)

    def _fetch(self, ranges: list[tuple[int, memoryview]], name: str) -> None:
        async def fetched(start: int, buffer: memoryview, fs: Any, inside: str) -> None:  # noqa: ANN401 - fsspec's
            options: dict[str, Any] = {"start": start, "end": start + len(buffer)}
            if len(buffer) == self.identity.size:  # which a server without ranges can send, too
                options = {}
            elif is_web(self.path):
                options["raise_for_status"] = _require_ranges
            _fill(buffer, await fs._cat_file(inside, **options), name)

        ask(self.path, *(functools.partial(fetched, *each) for each in ranges))

    @functools.cached_property
    def stream(self) -> BinaryIO:
        """The file as a stream with a cache of blocks, for what is read in small pieces; nobody closes it."""
        from fsspec.spec import AbstractBufferedFile

        class Stream(AbstractBufferedFile):  # type: ignore[misc]
            _unclosable = True

            def _fetch_range(_, start: int, stop: int) -> bytes:  # noqa: N805
                data = bytearray(min(stop, self.identity.size) - start)
                try:
                    self._fetch([(start, memoryview(data))], self.path)
                except BaseException as e:
                    self.error = self.error or e
                    raise
                return bytes(data)

        blocks: dict[str, Any] = {"cache_type": "blockcache", "cache_options": {"maxblocks": 8}}
        stream = Stream(None, self.path, "rb", thresholds.REMOTE_BLOCK, size=self.identity.size, **blocks)
        return cast("BinaryIO", stream)


def _fill(buffer: memoryview, data: bytes, name: str) -> None:
    if len(data) != len(buffer):
        raise TensorIOError("ended while it was read", "a file that does not change", where=name)
    buffer[:] = data


async def _require_ranges(response: Any) -> None:  # noqa: ANN401 - aiohttp's
    """FormatError where a server would send the whole file; of other errors fsspec tells."""
    if response.status == 200:
        found, where = "its server sends whole files only", errors.without_secrets(str(response.url))
        raise FormatError(found, "a server that sends ranges", "download it first", where)


def opened(path: str, unchanged: Identity | None, *, afresh: bool = False) -> File:
    """The file; its server is asked, unless this thread has it open, and as at `unchanged` where that is given."""
    files, key = here().files, Address(path).full
    file = files.pop(key, None)
    if not file or afresh or unchanged not in (None, file.identity):
        identity = _info(path)
        if not file or file.identity != identity:
            file = File(path, identity)
    files[key] = file  # the last one
    while len(files) > _MOST_OPEN:
        files.pop(next(iter(files))).at_end.close()
    return file


def _info(path: str) -> Identity:
    return _identity(path, ask(path, lambda fs, inside: fs._info(inside))[0])


def state(path: str) -> Identity | None:
    """The state of a file now; None where there is none."""
    with contextlib.suppress(MissingFileError, FolderError):
        return _info(path)
    return None


def is_folder(path: str) -> bool:
    """Whether there are files below an address, as far as its server lists them."""
    try:
        opened(path, None)
    except (FolderError, MissingFileError) as e:
        return isinstance(e, FolderError)
    return False


def listed(path: str) -> dict[str, Identity]:
    """The states of the files below an address, by their paths from there; those of a web server are not listed."""
    if is_web(path):
        return {}
    inside = system(path)[1].rstrip("/") + "/"
    (found,) = ask(path, lambda fs, inside: fs._find(inside, detail=True))
    return {name.removeprefix(inside): _identity(name, info) for name, info in found.items()}


def contents(path: str, names: Collection[str]) -> dict[str, bytes]:
    """The bytes of the files of these names below an address, as far as they are there; all are asked for together."""

    async def content(name: str, fs: Any, inside: str) -> bytes:  # noqa: ANN401 - fsspec's
        with contextlib.suppress(FileNotFoundError):
            return cast("bytes", await fs._cat_file(f"{inside}/{name}"))
        return b""

    found = ask(path, *(functools.partial(content, name) for name in names))
    return {name: data for name, data in zip(names, found, strict=True) if data}


def newest(path: str) -> int | None:
    """When a file, or anything below an address, was changed last, in nanoseconds; None where there is none."""
    file = state(path)
    return file.changed if file else max((each.changed for each in listed(path).values()), default=None)


def matching(pattern: str) -> list[Address]:
    """The addresses of files and Zarr stores that match a pattern, in their order."""
    (found,) = ask(pattern, lambda fs, inside: fs._glob(inside, detail=True))
    names = {name if is_web(name) else f"{scheme_of(pattern)}://{name}": info for name, info in found.items()}
    return [Address(name) for name, info in sorted(names.items()) if info["type"] != "directory" or is_store(name)]


# Files that are written


class NewObject(AtomicFile):
    """A file to write at an address: it is written here, and put there when it is complete, which is one step."""

    _mode = 0o600

    def __init__(self, path: str, *, overwrite: bool, inputs: Iterable[Identity] = ()) -> None:
        self.name, self._overwrite, self.is_created, self._old = Address(path), overwrite, False, None
        if is_web(path) or scheme_of(path) not in (*_PACKAGES, "memory", "local"):  # others show a file while it is put
            raise UsageError("can only be read", "an address of a bucket", "write it here, then upload it", self.name)
        if any(identity.device == _digest(self.name.full) for identity in inputs):
            raise is_an_input(self.name)
        self._check()
        self.temporary = self.beside = os.path.join(tempfile.gettempdir(), temporary_name())  # noqa: PTH118 - a string

    def _check(self, inputs: Iterable[Identity] = ()) -> None:  # noqa: ARG002 - that is done
        if state(self.name) and not self._overwrite:
            raise _there(self.name)

    def flush(self) -> None:
        """Nothing to flush: the file is put, and then removed."""

    def take_name(self) -> str:
        """Put the file; without `overwrite` it never replaces another, as far as the server can tell."""
        from fsspec.callbacks import Callback

        self._check()
        takes = inspect.signature(system(self.name)[0]._put_file).parameters
        options: dict[str, Any] = {"callback": Callback()}
        if "overwrite" in takes:  # adlfs
            options["overwrite"] = self._overwrite
        if "mode" in takes and not self._overwrite:
            options["mode"] = "create"
        with signals.begun("put", os.path.getsize(self.temporary)) as advance:  # noqa: PTH202 - a string
            options["callback"].relative_update = advance
            ask(self.name, lambda fs, inside: fs._put_file(self.temporary, inside, **options), doing="write")
        return ""


class NewStore(NewObject):
    """A Zarr store to write at an address: workers put its chunks there, and the folder `temporary` has all else.

    The latter is put at the end, and last what makes it a store. A mark at the address keeps other runs from it.
    """

    def __init__(self, path: str, *, overwrite: bool, inputs: Iterable[Identity] = ()) -> None:
        self._mark, self._is_partial = temporary_name(), False
        super().__init__(path.rstrip("/"), overwrite=overwrite, inputs=inputs)
        self.address = self.name

    def _check(self, inputs: Iterable[Identity] = ()) -> None:  # noqa: ARG002 - see above
        if {*listed(self.name)} != ({self._mark} if self.is_created else set()):
            wanted, hint = "a new one: a folder is never replaced", "give it another name, or remove what is there"
            raise TensorIOError("already exists, or is being written", wanted, hint, self.name)

    def create(self) -> None:
        """Create the folder here, and the mark there."""
        os.mkdir(self.temporary, 0o700)  # noqa: PTH102 - a string
        ask(self.name, lambda fs, inside: fs._pipe_file(f"{inside}/{self._mark}", b""), doing="write")
        self.is_created = True
        self._check()
        self._is_partial = True  # what is there now is this run's alone

    def take_name(self) -> str:
        """Put the files of the folder, those of metadata last, and of these the outermost."""
        folder = Path(self.temporary)
        names = [each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file()]
        names.sort(
            key=lambda name: (name.rpartition("/")[2][:2] in (".z", "za"), -name.count("/"), name.endswith(STORE_FILES))
        )

        async def put(fs: Any, inside: str) -> None:  # noqa: ANN401 - fsspec's
            for name in names:
                await fs._put_file(str(folder / name), f"{inside}/{name}")

        ask(self.name, put, doing="write")
        self._is_partial = False
        return ""

    def remove(self) -> None:
        """Remove the folder here, and there the mark, or all that has become no store, as far as that can be done."""
        shutil.rmtree(self.temporary, ignore_errors=True)
        if self.is_created:
            self.is_created = False
            with contextlib.suppress(RevseqError):
                if self._is_partial:
                    ask(self.name, lambda fs, inside: fs._rm(inside, recursive=True), stops=False)
                else:
                    ask(self.name, lambda fs, inside: fs._rm_file(f"{inside}/{self._mark}"), stops=False)
