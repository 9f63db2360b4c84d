"""Folders of many files, on this machine or at an address.

Some are read and written together: those of Zarr stores.
"""

from __future__ import annotations

import contextlib
import functools
import stat
from abc import ABC, abstractmethod
from collections.abc import Collection
from pathlib import Path

from revseq_cli.core.errors import FormatError, TensorIOError
from revseq_cli.files.address import Address, canonical, is_address, is_web
from revseq_cli.files.base import Identity
from revseq_cli.files.calls import retry
from revseq_cli.files.faults import fault_of, translate_errors
from revseq_cli.files.local import open_local
from revseq_cli.files.nearby import list_below
from revseq_cli.files.servers import ask, server_of
from revseq_cli.files.store import Store

_FEW = 3  # files that are asked for first, and
_MANY = 64  # files that are asked for where none of the few is there


class Part:
    """The bytes of a file that are asked for.

    They go from `start` to `stop`, or are the last `count` of them, or all.
    """

    def __init__(self, start: int = 0, stop: int | None = None, count: int | None = None) -> None:
        self.start = start
        self.stop = stop
        self.count = count


class Folder(ABC):
    """A folder of files.

    The errors of both kinds are TensorIOErrors, and FormatErrors for what is no file.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    @abstractmethod
    async def read(self, name: str, part: Part) -> bytes | None:
        """The bytes of a file; None where there is none."""

    @abstractmethod
    async def write(self, name: str, data: bytes) -> None:
        """Write a file, and the folders above it."""


class LocalFolder(Folder):
    """A folder of this machine. No link is followed."""

    async def read(self, name: str, part: Part) -> bytes | None:
        path = Path(self.path, name)
        if not _is_file(path, name):
            return None
        with open_local(str(path)) as file:
            size = file.identity.size
            start = part.start if part.count is None else max(0, size - part.count)
            stop = size if part.stop is None else min(part.stop, size)
            return file.read(max(0, stop - start), start)

    async def write(self, name: str, data: bytes) -> None:
        path = Path(self.path, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(data)


def _is_file(path: Path, name: str) -> bool:
    """Whether there is a file.

    FormatError for anything else there, or instead of a folder above it.
    """
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise FormatError(f"{name} is not a regular file")
    except (FileNotFoundError, NotADirectoryError):
        if any(above.is_file() for above in path.parents):
            raise FormatError(f"{name}: a file instead of one of its folders") from None
        return False
    return True


class FarFolder(Folder):
    """The files below an address. What its server lists, and does not send, is an error."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._server = server_of(path)

    async def read(self, name: str, part: Part) -> bytes | None:
        names = _names_in(self.path)
        if names is not None and name not in names:
            return None
        file = self._server.below(name)
        with translate_errors(file.name, "read"):
            try:
                return await retry(functools.partial(_read_part, file, part))
            except Exception as e:
                if not _is_missing(e):
                    raise
        if names is not None or name in await self._list():
            found = f"{name} is listed, but the server does not send it"
            raise FormatError(found, "the whole store", where=self.path)
        return None

    async def _list(self) -> Collection[str]:
        return {} if is_web(self.path) else await self._server.list()

    async def write(self, name: str, data: bytes) -> None:
        file = self._server.below(name)
        with translate_errors(file.name, "write"):
            await retry(lambda: file.put_bytes(data))


async def _read_part(file: Store, part: Part) -> bytes:
    if part.count is not None:
        return await file.read_end(part.count)
    if part.stop is None and not part.start:
        return await file.read_all()
    stop = part.stop
    if stop is None:
        stop = (await file.state()).size
    return (await file.read(part.start, stop)).data


def _is_missing(error: Exception) -> bool:
    fault = fault_of(error)
    if fault.code == "NoSuchBucket":
        return False
    return isinstance(error, FileNotFoundError) or fault.status in (404, 410)


# The names of the files in folders that were listed, by their canonical addresses.
_names: dict[str, set[str]] = {}


def _names_in(path: str) -> set[str] | None:
    return _names.get(canonical(path))


def list_files(path: str) -> dict[str, Identity]:
    """The states of the files below an address, by their paths from there.

    Later reads believe the list.
    """
    states = list_below(path)
    if not is_web(path):
        _names[canonical(path)] = {*states}
    return states


def read_files(path: str, names: Collection[str]) -> dict[str, bytes]:
    """The bytes of the files of these names below an address, as far as they are there.

    All are asked for together.
    """

    async def read(name: str, server: Store) -> bytes | None:
        try:
            return await server.below(name).read_all()
        except Exception as e:
            if not _is_missing(e):
                raise
            return None

    answers = ask(path, *(functools.partial(read, name) for name in names))
    return {name: data for name, data in zip(names, answers, strict=True) if data is not None}


def require_one_of(path: str, names: Collection[str]) -> None:
    """TensorIOError if a web server has none of the files that are asked for.

    These are a few of a store's chunks.
    """
    names = [*names]
    few = [*dict.fromkeys([names[0], names[len(names) // 2], names[-1]])][:_FEW]
    many = names[:: -(-len(names) // _MANY)]
    for asked in (few, many):
        questions = [functools.partial(_has, name) for name in asked]
        if any(ask(path, *questions, most=_FEW)):
            return
    found = f"none of the {len(many)} chunks that were asked for is there, such as {few[0]}"
    raise TensorIOError(found, hint="download the store first", where=Address(path))


# Of this job: listings that were just made, for the next that needs one, and what was made of them.
_fresh: dict[str, dict[str, Identity]] = {}
_kept: dict[str, object] = {}


def forget() -> None:
    """Forget all that was listed."""
    _fresh.clear()
    _kept.clear()
    _names.clear()


def keep(path: str, listed: object) -> None:
    """Keep what was read of a folder at an address."""
    _kept[canonical(path)] = listed


def find_kept(path: str) -> object:
    """What was read of a folder at an address by this job, or None."""
    return _kept.get(canonical(path)) if is_address(path) else None


def take_listing(path: str) -> dict[str, Identity]:
    """The states of the files below an address, as `has_any` has just listed them, or now."""
    states = _fresh.pop(canonical(path), None)
    return list_files(path) if states is None else states


def has_any(path: str, names: Collection[str]) -> bool:
    """Whether one of these files is below an address. The listing is kept for `take_listing`."""
    if not is_web(path):
        key = canonical(path)
        if key not in _names:
            _fresh[key] = list_files(path)
        return any(name in _names[key] for name in names)
    return any(ask(path, *(functools.partial(_has, name) for name in names)))


async def _has(name: str, server: Store) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return await server.below(name).has_file()
    return False


def open_folder(path: str) -> Folder:
    """The folder of that path or address."""
    if is_address(path):
        return FarFolder(path)
    return LocalFolder(path)
