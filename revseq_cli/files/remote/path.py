"""An address, and what can be asked of its server: to read, list, upload and remove.

fsspec answers for most servers. `s3` and `web` have answers of their own, which take fewer requests
and check more.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Self, cast

from revseq_cli.core import thresholds
from revseq_cli.core.errors import TensorIOError
from revseq_cli.files.input_file import require_bytes

# The keys by which fsspec's file systems tell the content of a file and its time, the best first.
_CONTENT_KEYS = ("ETag", "etag", "md5Hash", "Content-MD5", "generation")
_TIME_KEYS = ("LastModified", "last_modified", "Last-Modified", "mtime", "updated", "created")
_SECOND = 1_000_000_000  # ns


@dataclass(frozen=True)
class State:
    """A file as its server has it: its size, what tells its content (an ETag), its time in ns."""

    size: int
    content: str
    moment: int


@dataclass(frozen=True)
class Answer:
    """A range of a file, and the state of the file, or None if the server does not say it."""

    data: bytes
    state: State | None


@dataclass(frozen=True)
class ContentRange:
    """What Content-Range says: an answer has the bytes from `start` to `stop`, of `total`."""

    start: int
    stop: int
    total: int

    @classmethod
    def parse_header(cls, text: str) -> Self | None:
        """The range that a header says; None for any other text."""
        match = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", text.strip())
        return cls(int(match[1]), int(match[2]) + 1, int(match[3])) if match else None


class FolderError(TensorIOError):
    """An address of a folder instead of a file."""


def make_folder_error(name: str) -> FolderError:
    """The error for the address of a folder instead of a file."""
    return FolderError("a folder", "a tensor file", where=name)


def make_state(size: int, content: object, moment: object) -> State:
    """The state that an answer or a listing says."""
    text = "" if content is None else str(content)
    time = _nanoseconds(moment)
    if text:  # a listing has fractions of seconds, which the state of the same file lacks
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


class RemotePath:
    """An address in one of fsspec's file systems, whose methods are coroutines.

    `inside` is its path in the file system, and `name` what to call it in an error.
    """

    def __init__(self, system: Any, inside: str, name: str) -> None:
        self.system = system
        self.inside = inside.rstrip("/")
        self.name = name

    def below(self, name: str) -> Self:
        """The address of a file below this one."""
        return type(self)(self.system, f"{self.inside}/{name}", f"{self.name}/{name}")

    async def ask_state(self) -> State:
        """The state of the file."""
        return self._state_in(await self.system._info(self.inside))

    async def read_start(self, most: int) -> tuple[bytes, State]:
        """Up to this many of the first bytes, and the state of the file."""
        state = await self.ask_state()
        stop = min(most, state.size)
        data = (await self.read_range(0, stop)).data if stop else b""
        return data, state

    async def read_range(self, start: int, stop: int) -> Answer:
        """The bytes from `start` to `stop`."""
        data = await self.system._cat_file(self.inside, start=start, end=stop)
        require_bytes(len(data), stop - start, self.name)
        return Answer(cast("bytes", data[: stop - start]), None)

    async def read_whole(self) -> bytes:
        """All bytes of a small file."""
        return cast("bytes", await self.system._cat_file(self.inside))

    async def read_end(self, count: int) -> bytes:
        """The last bytes of a file."""
        state = await self.ask_state()
        return (await self.read_range(max(0, state.size - count), state.size)).data

    async def put_file(self, path: str, *, creates: bool, advance: Callable[[int], None]) -> None:
        """Upload a file of this machine; with `creates` it must not be there yet."""
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
            options["chunksize"] = thresholds.REMOTE_PIECE
        await self.system._put_file(path, self.inside, **options)

    async def put_bytes(self, data: bytes) -> None:
        """Upload a small file."""
        await self.system._pipe_file(self.inside, data)

    async def has_file(self) -> bool:
        """Whether the file is there."""
        try:
            await self.ask_state()
        except (FileNotFoundError, FolderError):
            return False
        return True

    async def has_files_below(self) -> bool:
        """Whether this is a folder that is not empty."""
        return bool(await self.list_states())

    async def list_states(self) -> dict[str, State]:
        """The states of all files below the address, by their paths from there."""
        listing = await self.system._find(self.inside, detail=True)
        start = f"{self.inside}/"
        return {
            name.removeprefix(start): self._state_in(info)
            for name, info in listing.items()
            if name.startswith(start)
        }

    async def find_matching(self) -> dict[str, bool]:
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
            raise make_folder_error(self.name)
        if info.get("size") is None:
            found = "the server does not say how large it is"
            raise TensorIOError(found, "a server that does", "download it first", self.name)
        content = next((info[key] for key in _CONTENT_KEYS if info.get(key)), None)
        moment = next((info[key] for key in _TIME_KEYS if info.get(key)), None)
        return make_state(info["size"], content, moment)
