"""Positioned reads and writes, preallocation and flushing: the one module that knows the operating system."""

from __future__ import annotations

import contextlib
import errno
import functools
import mmap
import os
import stat
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from revseq_cli.ground.errors import TensorIOError

if TYPE_CHECKING:
    from collections.abc import Iterator

_POSITIONED = hasattr(os, "pread") and hasattr(os, "pwrite")
# File systems let one thread at a time write into a file, and the others wait for it on a busy core: 1 GiB on two
# threads took 0.86 s, and 0.74 s when they take turns here (medians of six runs in turn).
_ONE_WRITER = threading.Lock()
_MOST_AT_ONCE = 1 << 30  # Linux moves at most 2^31 - 4096 bytes in one call
_DIRECT = getattr(os, "O_DIRECT", 0)
_PAGE = 1 << 12
_BOUNCE_BYTES = 1 << 20
_bounce = threading.local()
BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
# A new file is no link; a stranger who may write to its folder could put one there.
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


_STDOUT, _STDERR = 1, 2
_STREAMS = {_STDOUT: "standard output", _STDERR: "standard error"}

# Where some bytes belong, and the bytes.
Edge = tuple[int, bytes]


@dataclass(frozen=True)
class Identity:
    """What tells one state of a file from another: device, inode, bytes, and the time of the last change in ns."""

    device: int = field(compare=False, repr=False)  # every host has a number of its own for a shared file system
    inode: int
    size: int
    changed: int
    # The system's own time, which nobody can put back. New rights or names change it, too, and nothing tells whether
    # that was all.
    touched: int

    def differs(self, other: Identity) -> str:
        """In what it is not the other, for a person."""
        words = {"it is another file": "inode", "its size": "size", "its time": "changed"}
        found = [word for word, name in words.items() if getattr(self, name) != getattr(other, name)]
        if not found and self.touched != other.touched:
            found = ["its status: its rights or names, or content and the time was put back"]
        return " and ".join(found)

    def names(self, status: os.stat_result) -> bool:
        """Whether it is the file of that status, changed or not."""
        return (self.device, self.inode) == (status.st_dev, status.st_ino)


def identity(fd: int) -> Identity:
    """The identity of an open file."""
    return identity_of(os.fstat(fd))


def identity_of(status: os.stat_result) -> Identity:
    """The identity of a file of that status."""
    return Identity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def is_open(number: int, status: os.stat_result) -> bool:
    """Whether the file of that status stands behind 0, 1 or 2, which a shell's <, > or 2> has opened."""
    return (status.st_dev, status.st_ino) == _behind(number)


def stream_to(status: os.stat_result) -> str:
    """The standard stream that goes to the file of that status, if one does."""
    return next((name for number, name in _STREAMS.items() if is_open(number, status)), "")


def stream_inodes() -> set[int]:
    """The inodes of the files that standard output and standard error go to, where they do."""
    return {found[1] for found in map(_behind, _STREAMS) if found}


def refuse_stream(status: os.stat_result, name: str) -> None:
    """TensorIOError if standard output or standard error goes to the file of that status, which is an input.

    Standard error is then redirected, since not even the error may be written into an input.
    """
    if stream := stream_to(status):
        _redirect_stderr(status)
        raise TensorIOError(f"is what {stream} goes to", "another file", "redirect to another name", name)


def _redirect_stderr(away_from: os.stat_result) -> None:
    """If standard error goes to that file: send it to standard output, or nowhere where that goes there, too."""
    if not is_open(_STDERR, away_from):
        return
    if not is_open(_STDOUT, away_from):
        os.dup2(_STDOUT, _STDERR)
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _STDERR)
    os.close(nowhere)


@functools.cache  # nobody puts another file there
def _behind(number: int) -> tuple[int, int] | None:
    """Device and inode of a standard stream, if that is a file."""
    try:
        status = os.fstat(number)
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def failed(path: str | Path, doing: str, error: OSError) -> TensorIOError:
    """The system's reason, in our form."""
    reason = error.strerror or str(error)
    hint = {
        errno.ENOSPC: "free some space, or write to another disk",
        errno.EACCES: "check the permissions, or write to another folder",
    }.get(error.errno or 0, "")
    return TensorIOError(f"cannot {doing}: {reason}", hint=hint if doing == "write" else "", where=str(path))


@contextlib.contextmanager
def opened(path: str, unchanged: Identity | None = None, name: str = "") -> Iterator[int]:
    """A descriptor for reading a regular file, as it was at `unchanged`; TensorIOError otherwise.

    `name` is what to call it, where that is not its path.
    It never waits: a pipe or a device is refused, not opened for good.
    """
    name = name or path
    fd = _open_regular(path, name)
    try:
        if unchanged is not None and (differs := unchanged.differs(identity(fd))):
            raise TensorIOError(f"changed while it was read: {differs}", "a file that stands still", where=name)
        yield fd
    except TensorIOError:
        raise
    except OSError as e:
        raise failed(name, "read", e) from None
    finally:
        with contextlib.suppress(OSError):  # nothing can be lost that was only read
            os.close(fd)


@contextlib.contextmanager
def opened_to_write(file: str, path: str) -> Iterator[int]:
    """A descriptor for writing a file that exists; `path` is for messages."""
    try:
        # Not for reading too: NFS would then fill up a page that is written in part, and write it back whole, over
        # what another host has written beside it.
        fd = os.open(file, os.O_WRONLY | BINARY | _NO_LINK)
    except OSError as e:
        raise failed(path, "write", e) from None
    try:
        yield fd
    finally:
        _close(fd, path)


def _close(fd: int, path: str) -> None:
    """Close what was written; some file systems only now say that it failed."""
    try:
        os.close(fd)
    except OSError as e:
        raise failed(path, "write", e) from None


def _open_regular(path: str, name: str) -> int:
    try:
        fd = os.open(path, os.O_RDONLY | BINARY | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        raise TensorIOError("no such file", where=name) from None
    except IsADirectoryError:
        raise TensorIOError("is a directory", "a tensor file", where=name) from None
    except OSError as e:
        raise failed(name, "open", e) from None
    try:
        _require_regular(os.fstat(fd), name)
    except OSError as e:
        os.close(fd)
        raise e if isinstance(e, TensorIOError) else failed(name, "read", e) from None
    return fd


def _require_regular(status: os.stat_result, name: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise TensorIOError("is a directory", "a tensor file", where=name)
    if not stat.S_ISREG(status.st_mode):
        raise TensorIOError("is not a regular file", "a tensor file; a pipe goes in as -", where=name)
    refuse_stream(status, name)


def read_into(fd: int, buffer: memoryview, offset: int, path: str) -> None:
    """Fill the buffer from that offset; TensorIOError where the file ends before."""
    done = 0
    while done < len(buffer):
        part = buffer[done : done + _MOST_AT_ONCE]
        try:
            if _POSITIONED:
                count = os.preadv(fd, [part], offset + done)
            else:
                os.lseek(fd, offset + done, os.SEEK_SET)
                data = os.read(fd, len(part))
                count = len(data)
                part[:count] = data
        except OSError as e:
            raise failed(path, "read", e) from None
        if count == 0:
            raise TensorIOError("ended while it was read", "a file that stands still", where=path)
        done += count


def read_some(fd: int, count: int, offset: int, path: str) -> bytes:
    """Up to `count` bytes from that offset, fewer at the end of the file."""
    size = max(0, min(count, identity(fd).size - offset))
    buffer = bytearray(size)
    read_into(fd, memoryview(buffer), offset, path)
    return bytes(buffer)


def write_all(fd: int, buffer: memoryview | bytes, offset: int, path: str) -> None:
    """Write the whole buffer at that offset."""
    view = memoryview(buffer)
    done = 0
    while done < len(view):
        part = view[done : done + _MOST_AT_ONCE]
        try:
            with _ONE_WRITER:
                if _POSITIONED:
                    done += os.pwrite(fd, part, offset + done)
                else:
                    os.lseek(fd, offset + done, os.SEEK_SET)
                    done += os.write(fd, part)
        except OSError as e:
            raise failed(path, "write", e) from None


def copy(source: tuple[int, str], target: tuple[int, str], offset: int, count: int, to: int) -> None:
    """Copy `count` bytes from one file to the offset `to` of another; each is a descriptor and a name for messages.

    The system does it where it can, as it does for `cp`: some file systems then share the bytes and copy none.
    """
    done = 0
    while done < count:
        moved = _copied_by_system(source[0], target[0], offset + done, to + done, count - done)
        if not moved:  # also where the file ends before: to read there says so
            buffer = memoryview(bytearray(min(_BOUNCE_BYTES, count - done)))
            read_into(source[0], buffer, offset + done, source[1])
            write_all(target[0], buffer, to + done, target[1])
            moved = len(buffer)
        done += moved


def _copied_by_system(source: int, target: int, offset: int, to: int, count: int) -> int:
    """How many bytes the system has copied itself; 0 where it cannot, or where something is wrong."""
    if not hasattr(os, "copy_file_range"):
        return 0
    try:
        return os.copy_file_range(source, target, count, offset, to)
    except OSError:  # two file systems, or one without it; what is really wrong shows when the bytes are written
        return 0


def write_large(file: str, fd: int, buffer: memoryview, offset: int, path: str) -> list[Edge]:
    """Write the whole pages of a large buffer straight to the disk; what is left at its edges is returned.

    `file` is what `fd` has open, `path` is for messages. What is flushed at the end gains nothing from the page cache,
    and to fill it costs more than the reversal: a copy of 4 GiB on two threads took 1.6 s so, and 3.4 s through the
    cache (medians of three). Where the system has no such way, or the file system refuses it, the cache is the way.
    Edges are for the caller to gather: a write through the cache waits for every direct one under way.
    """
    begin = -(-offset // _PAGE) * _PAGE - offset
    end = (offset + len(buffer)) // _PAGE * _PAGE - offset
    for done in range(begin, end, _BOUNCE_BYTES):
        part = buffer[done : min(done + _BOUNCE_BYTES, end)]
        if not _written_directly(file, part, offset + done, path):
            write_all(fd, part, offset + done, path)
    edges = (offset, bytes(buffer[:begin])), (offset + end, bytes(buffer[end:]))
    return [edge for edge in edges if edge[1]]


def _written_directly(file: str, part: memoryview, offset: int, path: str) -> bool:
    """Whether the whole pages are on their way to the disk; False where the system refuses to do it so."""
    if not _DIRECT:
        return False
    if not hasattr(_bounce, "pages"):  # memory that begins with a page, as the disk wants it; one for each thread
        _bounce.pages = np.frombuffer(mmap.mmap(-1, _BOUNCE_BYTES), np.uint8)
    try:
        fd = os.open(file, os.O_WRONLY | _DIRECT | BINARY | _NO_LINK)
        try:
            pages = _bounce.pages[: len(part)]
            pages[:] = np.frombuffer(part, np.uint8)  # unlike a memoryview's, this copy lets other threads run
            return os.pwrite(fd, pages.data, offset) == len(part)
        finally:
            os.close(fd)  # what this says is told below
    except OSError as e:
        if e.errno in (errno.EINVAL, errno.EOPNOTSUPP):
            return False
        raise failed(path, "write", e) from None


def allocate(fd: int, size: int, path: str) -> None:
    """Reserve the bytes of a new file, so that a full disk shows before the work and not in its middle."""
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, size)
        else:
            os.ftruncate(fd, size)
    except OSError as e:
        if e.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise failed(path, "write", e) from None
        os.ftruncate(fd, size)


def flush(path: str, like: os.stat_result | None = None) -> None:
    """Return when the file is on the disk, with rights as those; OSError, and never a second try, where it is not."""
    fd = os.open(path, os.O_RDWR | BINARY | _NO_LINK)  # before the rights, which may allow nobody to write
    try:
        if like:
            _give_rights(fd, path, like)
        os.fsync(fd)
    finally:
        os.close(fd)


def _give_rights(fd: int, path: str, like: os.stat_result) -> None:
    """Owner and group as far as this user may give them away, and the mode; nobody gets rights that nobody had."""
    mode = like.st_mode & 0o777  # a tensor runs as nobody
    if not hasattr(os, "fchown"):
        Path(path).chmod(mode)
        return
    for owner in (like.st_uid, -1):
        with contextlib.suppress(OSError):  # a file system, or a container, may not know them at all
            os.fchown(fd, owner, like.st_gid)
            break
    else:  # another group may do what all may
        mode = mode & ~0o070 | (mode & 0o007) << 3
    with contextlib.suppress(PermissionError):  # some file systems have modes of their own, and others an owner
        os.fchmod(fd, mode)


def is_read_only(folder: Path) -> bool:
    """Whether the file system takes no changes, whoever asks."""
    return hasattr(os, "statvfs") and bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def flush_directory(path: Path) -> None:
    """Make a new name in a directory last; OSError where it may not."""
    if os.name != "posix":  # elsewhere a directory cannot be opened, and the system sees to it
        return
    fd = os.open(path, os.O_RDONLY | BINARY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
