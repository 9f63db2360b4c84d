"""The protocol to read a file, and the identity that tells whether the file has changed."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from revseq_cli.core import signals, thresholds
from revseq_cli.core.errors import TensorIOError


@dataclass(frozen=True)
class Identity:
    """One state of a file: device, inode, size in bytes, and the times of its last changes in ns.

    `changed` is the time of the content, which a program can set. `touched` is the system's own
    time, which nobody can set; new rights or names change it, too. A server has no such time. Two
    identities are compared without the device, since every host has its own number for a shared
    file system.
    """

    device: int = field(compare=False, repr=False)
    inode: int
    size: int
    changed: int
    touched: int = 0

    def is_of(self, status: os.stat_result) -> bool:
        """Whether it is the file of that status, changed or not."""
        return (self.device, self.inode) == (status.st_dev, status.st_ino)


def identity_of(status: os.stat_result) -> Identity:
    """The identity of a file of that status."""
    return Identity(
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    )


def require_unchanged(then: Identity | None, now: Identity, name: str) -> None:
    """TensorIOError if the file is not as it was; None stands for any state."""
    if then not in (None, now):
        found = "changed while it was read: its content, permissions or names"
        raise TensorIOError(found, "a file that does not change", where=name)


def make_truncation_error(name: str) -> TensorIOError:
    """The error for a file that ends before the bytes that it had."""
    return TensorIOError("ended while it was read", "a file that does not change", where=name)


def require_bytes(count: int, expected: int, name: str) -> None:
    """TensorIOError for fewer bytes than expected, since the file ends before them."""
    if count < expected:
        raise make_truncation_error(name)


class InputFile(ABC):
    """A file that is open for reading; `name` is what to call it in an error.

    `path` is where the system finds its bytes, or "" for a remote file. `error` is the first error
    of its stream, which a library may lose.
    """

    name: str
    path: str
    identity: Identity
    error: BaseException | None = None

    @abstractmethod
    def read_into(self, buffer: memoryview, offset: int) -> None:
        """Fill the buffer from that offset; TensorIOError if the file ends before."""

    @abstractmethod
    def stream(self) -> BinaryIO:
        """The file as a stream without a buffer, since others may read from it meanwhile.

        Closing it does nothing.
        """

    def read_runs(self, runs: Iterable[tuple[int, memoryview]]) -> None:
        """Fill each buffer from its offset; TensorIOError if the file ends before."""
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
