"""What an input file is, on this machine or at an address.

Its identity, how it is read, and the errors of the system in words.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, TypeVar

from revseq_cli.core import platform, signals, thresholds
from revseq_cli.core.errors import DiskFullError, TensorIOError

_Result = TypeVar("_Result")
_LONGEST_USE = (
    2.0  # seconds to wait for another program, such as a virus scanner, that has the file open
)
_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}  # what says that there is no room
_HINTS = {
    errno.ENOSPC: "free some space, or write to another disk",
    errno.EACCES: "check the permissions, or write to another folder",
}


# Bytes that all workers together may hold, if the user does not say how many.
DEFAULT_MEMORY = 1 << 30
_memory = DEFAULT_MEMORY


def limit_memory(size: int) -> None:
    """Hold at most so many bytes of files at addresses at once, from now on."""
    global _memory
    _memory = size


def memory() -> int:
    """The bytes of files at addresses that this process may hold at once."""
    return _memory


@dataclass(frozen=True)
class Identity:
    """One state of a file: device, inode, size in bytes, and the times of its last changes in ns.

    `changed` is the time of the content, which a program can set. `touched` is the system's own
    time, which nobody can set; new rights or names change it, too.
    """

    device: int = field(
        compare=False, repr=False
    )  # every host has a number of its own for a shared file system
    inode: int
    size: int
    changed: int
    touched: int

    def is_of(self, status: os.stat_result) -> bool:
        """Whether it is the file of that status, changed or not."""
        return (self.device, self.inode) == (status.st_dev, status.st_ino)


def identity_of(status: os.stat_result) -> Identity:
    """The identity of a file of that status."""
    return Identity(
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    )


class InputFile(ABC):
    """A file that is open for reading, near or far; `name` is what to call it in an error.

    `path` is where the system finds its bytes, or "" where it finds them nowhere. `error` is the
    first one of its stream, which a library may lose.
    """

    name: str
    path: str
    identity: Identity
    error: BaseException | None = None

    @abstractmethod
    def read_into(self, buffer: memoryview, offset: int) -> None:
        """Fill the buffer from that offset; TensorIOError where the file ends before."""

    @abstractmethod
    def stream(self) -> BinaryIO:
        """The file as a stream without a buffer, since others may read from it meanwhile.

        To close it does nothing.
        """

    def read_runs(self, runs: Iterable[tuple[int, memoryview]]) -> None:
        """Fill each buffer from its offset; TensorIOError where the file ends before."""
        for offset, buffer in runs:
            self.read_into(buffer, offset)

    def read(self, count: int, offset: int = 0) -> bytes:
        """Up to `count` bytes from that offset, fewer at the end of the file."""
        buffer = bytearray(max(0, min(count, self.identity.size - offset)))
        self.read_into(memoryview(buffer), offset)
        return bytes(buffer)

    def read_all(self) -> bytes:
        """All of its bytes."""
        return self.read(self.identity.size)

    def read_pieces(self, offset: int, size: int) -> Iterator[memoryview]:
        """Read `size` bytes from `offset` on; all pieces are views of the same buffer.

        Stopped at a signal.
        """
        buffer = memoryview(bytearray(min(thresholds.PIECE, size)))
        for done in range(0, size, thresholds.PIECE):
            signals.check()
            part = buffer[: size - done]
            self.read_into(part, offset + done)
            yield part


def require_unchanged(then: Identity | None, now: Identity, name: str) -> None:
    """TensorIOError if the file is not as it was."""
    if then not in (None, now):
        found = "changed while it was read: its content, permissions or names"
        raise TensorIOError(found, "a file that does not change", where=name)


def goes_to(status: os.stat_result, number: int) -> bool:
    """Whether the standard stream of that number goes to the file of that status.

    Or comes from it.
    """
    try:
        return stat.S_ISREG(status.st_mode) and os.path.samestat(status, os.fstat(number))
    except OSError:  # it is closed
        return False


def refuse_output(status: os.stat_result, name: str) -> None:
    """TensorIOError if standard output goes to the file of that status, which is an input.

    From then on it goes nowhere: an error as JSON may not be written into an input, either.
    """
    if goes_to(status, 1):
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
        raise TensorIOError(
            "standard output goes there", "another file", "redirect to another file", name
        )


def failed(path: str | Path, doing: str, error: OSError) -> TensorIOError:
    """The TensorIOError for an OSError of the system.

    `doing` is "read", "write" or another verb.
    """
    if platform.is_in_use(error):
        return in_use(path, doing)
    kind = DiskFullError if error.errno in _FULL else TensorIOError
    hint = _HINTS.get(error.errno or 0, "") if doing == "write" else ""
    return kind(f"cannot {doing}: {error.strerror or error}", hint=hint, where=str(path))


def in_use(path: str | Path, doing: str) -> TensorIOError:
    """The error for a file that another program has open, and keeps from others."""
    found, expected = (
        f"cannot {doing}: another program has it open",
        "a file that no other program has locked",
    )
    return TensorIOError(found, expected, "close it there, and run the command again", str(path))


@contextlib.contextmanager
def trying_to(do: str, path: str | Path) -> Iterator[None]:
    """Raise the TensorIOError for an OSError of the system.

    `do` is "read", "write" or another verb.
    """
    try:
        yield
    except TensorIOError:
        raise
    except OSError as e:
        raise failed(path, do, e) from None


def patiently(
    call: Callable[[], _Result],
    passes: Callable[[OSError], bool] = platform.is_in_use,
    *,
    stops: bool = True,
) -> _Result:
    """Call the function again for two seconds while another program has the file open.

    Stopped after a signal.

    `passes` says of an error whether it is that. Without `stops` signals are not looked at, as
    where work is undone.
    """
    deadline = 0.0
    while True:
        try:
            return call()
        except OSError as e:
            deadline = deadline or time.monotonic() + _LONGEST_USE
            if not passes(e) or time.monotonic() > deadline:
                raise
        if stops:
            signals.check()
        time.sleep(signals.PATIENCE / 10)
