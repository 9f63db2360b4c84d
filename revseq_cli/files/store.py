"""What is asked of a server.

The state of a file, a range of it, to put one, and a list. fsspec answers for most.

`s3` and `web` have answers of their own, which take fewer requests and check more.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, Self, cast

from revseq_cli.core import thresholds
from revseq_cli.core.errors import TensorIOError

# What file systems say of the content of a file and of its time, the best first.
_CONTENT = ("ETag", "etag", "md5Hash", "Content-MD5", "generation")
_TIME = ("LastModified", "last_modified", "Last-Modified", "mtime", "updated", "created")
_SECOND = 1_000_000_000  # ns


class State(NamedTuple):
    """A file as its server has it now.

    Its size, what says its content, such as an ETag, and its time in ns.
    """

    size: int
    content: str
    moment: int


class Answer(NamedTuple):
    """Some bytes of a file, and its state; None where the server does not say it with them."""

    data: bytes
    state: State | None


class FolderError(TensorIOError):
    """An address of a folder where a file is expected."""


def state_of(size: int, content: object, moment: object) -> State:
    """The state that an answer or a listing says."""
    text = "" if content is None else str(content)
    time = _nanoseconds(moment)
    if text:  # a listing has fractions of seconds that the state of a file lacks
        time -= time % _SECOND
    return State(size, text, time)


def _nanoseconds(moment: Any) -> int:
    if moment is None:
        return 0
    if isinstance(moment, str) and moment[:4].isdecimal():  # Google's
        from datetime import datetime

        moment = datetime.fromisoformat(moment)
    elif isinstance(moment, str):
        moment = parsedate_to_datetime(moment)
    if not isinstance(moment, int | float):
        moment = moment.timestamp()
    return int(_SECOND * moment)


def truncated(name: str) -> TensorIOError:
    """The error for a file that is shorter than it was."""
    return TensorIOError("ended while it was read", "a file that does not change", where=name)


class Store:
    """An address in one of fsspec's file systems, whose methods are coroutines."""

    def __init__(self, system: Any, inside: str, name: str) -> None:
        self.system = system
        self.inside = inside.rstrip("/")
        self.name = name

    def below(self, name: str) -> Self:
        """The address of a file below this one."""
        return type(self)(self.system, f"{self.inside}/{name}", f"{self.name}/{name}")

    async def state(self) -> State:
        """The state of the file."""
        return self._state_in(await self.system._info(self.inside))

    async def begin(self, most: int) -> Answer:
        """The state of the file, and up to so many of its first bytes."""
        state = await self.state()
        stop = min(most, state.size)
        data = (await self.read(0, stop)).data if stop else b""
        return Answer(data, state)

    async def read(self, start: int, stop: int) -> Answer:
        """The bytes from `start` to `stop`."""
        data = await self.system._cat_file(self.inside, start=start, end=stop)
        if len(data) < stop - start:
            raise truncated(self.name)
        return Answer(cast("bytes", data[: stop - start]), None)

    async def read_all(self) -> bytes:
        """All bytes of a small file."""
        return cast("bytes", await self.system._cat_file(self.inside))

    async def read_end(self, count: int) -> bytes:
        """The last bytes of a file."""
        state = await self.state()
        return (await self.read(max(0, state.size - count), state.size)).data

    async def put(self, path: str, *, creates: bool, advance: Callable[[int], None]) -> None:
        """Put a file of this machine; with `creates` it must not be there yet."""
        from fsspec.callbacks import Callback

        if creates and await self.has_file():
            raise FileExistsError(self.name)
        callback = Callback()
        callback.relative_update = advance
        takes = inspect.signature(self.system._put_file).parameters
        options: dict[str, Any] = {"callback": callback}
        if "overwrite" in takes:  # adlfs
            options["overwrite"] = not creates
        if "mode" in takes and creates:  # gcsfs
            options["mode"] = "create"
        if "chunksize" in takes:
            options["chunksize"] = thresholds.FAR_PIECE
        await self.system._put_file(path, self.inside, **options)

    async def put_bytes(self, data: bytes) -> None:
        """Put a small file."""
        await self.system._pipe_file(self.inside, data)

    async def has_file(self) -> bool:
        """Whether the file is there."""
        try:
            await self.state()
        except (FileNotFoundError, FolderError):
            return False
        return True

    async def has_files_below(self) -> bool:
        """Whether this is a folder that is not empty."""
        return bool(await self.list())

    async def list(self) -> dict[str, State]:
        """The states of all files below the address, by their paths from there."""
        listing = await self.system._find(self.inside, detail=True)
        start = f"{self.inside}/"
        return {
            name.removeprefix(start): self._state_in(info)
            for name, info in listing.items()
            if name.startswith(start)
        }

    async def list_matching(self) -> dict[str, bool]:
        """The paths that match the address, a pattern; true for folders."""
        listing = await self.system._glob(self.inside, detail=True)
        return {name: info["type"] == "directory" for name, info in listing.items()}

    async def remove(self) -> None:
        """Remove the file."""
        await self.system._rm_file(self.inside)

    async def remove_all(self) -> None:
        """Remove all files below the address."""
        await self.system._rm(self.inside, recursive=True)

    def _state_in(self, info: dict[str, Any]) -> State:
        if info["type"] == "directory":
            raise FolderError("a folder", "a tensor file", where=self.name)
        if info.get("size") is None:
            found, expected = "the server does not say how large it is", "a server that does"
            raise TensorIOError(found, expected, "download it first", self.name)
        content = next((info[name] for name in _CONTENT if info.get(name)), None)
        moment = next((info[name] for name in _TIME if info.get(name)), None)
        return state_of(info["size"], content, moment)
