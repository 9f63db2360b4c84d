"""Positioned reads and writes, preallocation and flushing, and their errors; `core.platform` does them.

In all functions, `path` or `name` is what to call the file in an error, which is a TensorIOError if nothing else is
said.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core import platform, signals, thresholds
from revseq_cli.core.errors import DiskFullError, MissingFileError, TensorIOError

_Result = TypeVar("_Result")
_PAGE = 1 << 12
_MOST_AT_ONCE = 1 << 30  # Linux moves at most 2^31 - 4096 bytes in one call
_LONGEST_USE = 2.0  # seconds to wait for another program, such as a virus scanner, that has the file open
_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}  # what says that there is no room
_HINTS = {
    errno.ENOSPC: "free some space, or write to another disk",
    errno.EACCES: "check the permissions, or write to another folder",
}

# The offset of some bytes in a file, and the bytes.
Edge = tuple[int, bytes]
Open = Any  # what is open for reading: a descriptor, or a `remote.File`


@dataclass(frozen=True)
class Identity:
    """One state of a file: device, inode, size in bytes, and the times of its last changes in ns.

    `changed` is the time of the content, which a program can set. `touched` is the system's own time, which nobody can
    set; new rights or names change it, too.
    """

    device: int = field(compare=False, repr=False)  # every host has a number of its own for a shared file system
    inode: int
    size: int
    changed: int
    touched: int

    def names(self, status: os.stat_result) -> bool:
        """Whether it is the file of that status, changed or not."""
        return (self.device, self.inode) == (status.st_dev, status.st_ino)


def identity(fd: Open) -> Identity:
    """The identity of an open file."""
    return identity_of(os.fstat(fd)) if isinstance(fd, int) else fd.identity


def identity_of(status: os.stat_result) -> Identity:
    """The identity of a file of that status."""
    return Identity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def goes_to(status: os.stat_result, number: int) -> bool:
    """Whether the standard stream of that number goes to the file of that status, or comes from it."""
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
        raise TensorIOError("standard output goes there", "another file", "redirect to another file", name)


def failed(path: str | Path, doing: str, error: OSError) -> TensorIOError:
    """The TensorIOError for an OSError of the system; `doing` is "read", "write" or another verb."""
    if platform.is_in_use(error):
        return in_use(path, doing)
    kind = DiskFullError if error.errno in _FULL else TensorIOError
    hint = _HINTS.get(error.errno or 0, "") if doing == "write" else ""
    return kind(f"cannot {doing}: {error.strerror or error}", hint=hint, where=str(path))


def in_use(path: str | Path, doing: str) -> TensorIOError:
    """The error for a file that another program has open, and keeps from others."""
    found, wanted = f"cannot {doing}: another program has it open", "a file that no other program has locked"
    return TensorIOError(found, wanted, "close it there, and run the command again", str(path))


@contextlib.contextmanager
def trying_to(do: str, path: str | Path) -> Iterator[None]:
    """Raise the TensorIOError for an OSError of the system; `do` is "read", "write" or another verb."""
    try:
        yield
    except TensorIOError:
        raise
    except OSError as e:
        raise failed(path, do, e) from None


def patiently(
    call: Callable[[], _Result], passes: Callable[[OSError], bool] = platform.is_in_use, *, stops: bool = True
) -> _Result:
    """Call the function again for two seconds while another program has the file open; Stopped after a signal.

    `passes` says of an error whether it is that. Without `stops` signals are not looked at, as where work is undone.
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


@contextlib.contextmanager
def opened(path: str, unchanged: Identity | None = None, name: str = "", *, afresh: bool = False) -> Iterator[Open]:
    """A descriptor for reading a regular file, or a `remote.File`; it must be as it was at `unchanged`.

    `name` is what to call the file, where that is not its path. A pipe or a device is refused, and never waited for.
    The server of an address is asked for a file's state once, and again with `afresh`.
    """
    name = name or path
    if platform.is_remote(path):
        remote = import_module("revseq_cli.formats.remote")  # which imports this one, and few names are addresses
        file = remote.opened(path, unchanged, afresh=afresh)
        _require_unchanged(unchanged, file.identity, name)
        yield file
        return
    fault, hint = platform.name_fault(path)
    if fault:
        raise TensorIOError(fault, "the name of a file", hint, name)
    with trying_to("open", name):
        try:
            fd = patiently(lambda: platform.open_file(path, platform.READ))
        except FileNotFoundError:
            raise MissingFileError("no such file", where=name) from None
        except IsADirectoryError:
            raise TensorIOError("a directory", "a tensor file", where=name) from None
    try:
        with trying_to("read", name):
            status = os.fstat(fd)
            if stat.S_ISDIR(status.st_mode):
                raise TensorIOError("a directory", "a tensor file", where=name)
            if not stat.S_ISREG(status.st_mode):
                raise TensorIOError("not a regular file", "a tensor file, or a pipe", where=name)
            refuse_output(status, name)
            _require_unchanged(unchanged, identity_of(status), name)
            yield fd
    finally:
        with contextlib.suppress(OSError):  # nothing can be lost that was only read
            os.close(fd)


def _require_unchanged(then: Identity | None, now: Identity, name: str) -> None:
    if then not in (None, now):
        found = "changed while it was read: its content, permissions or names"
        raise TensorIOError(found, "a file that does not change", where=name)


def stream_of(fd: Open) -> BinaryIO:
    """An open file as a stream without a buffer, since others may read from it meanwhile; it does not close it."""
    if isinstance(fd, int):
        return cast("BinaryIO", open(fd, "rb", buffering=0, closefd=False))
    fd.stream.seek(0)
    return fd.stream  # type: ignore[no-any-return]


@contextlib.contextmanager
def opened_to_write(file: str, path: str) -> Iterator[int]:
    """A descriptor for writing the file `file`, which exists."""
    with trying_to("write", path):
        # Not for reading too: NFS would then fill up a page that is written in part, and write it back whole, over
        # what another host has written beside it.
        fd = patiently(lambda: platform.open_file(file, platform.WRITE))
    try:
        yield fd
    finally:
        with trying_to("write", path):  # some file systems report a failed write only now
            os.close(fd)


def read_runs(fd: Open, runs: Iterable[tuple[int, memoryview]], path: str) -> None:
    """Fill each buffer from its offset; an error where the file ends before."""
    if not isinstance(fd, int):
        fd.read_runs(runs, path)
        return
    for offset, buffer in runs:
        read_into(fd, buffer, offset, path)


def read_into(fd: Open, buffer: memoryview, offset: int, path: str) -> None:
    """Fill the buffer from that offset; an error where the file ends before."""
    if not isinstance(fd, int):
        fd.read_runs([(offset, buffer)], path)
        return
    done = 0
    while done < len(buffer):
        part = buffer[done : done + _MOST_AT_ONCE]
        try:  # `trying_to` would cost half as much again as a short read
            count = platform.read_at(fd, part, offset + done)
        except OSError as e:
            raise failed(path, "read", e) from None
        if count == 0:
            raise TensorIOError("ended while it was read", "a file that does not change", where=path)
        done += count


def read_some(fd: Open, count: int, offset: int, path: str) -> bytes:
    """Up to `count` bytes from that offset, fewer at the end of the file."""
    size = max(0, min(count, identity(fd).size - offset))
    buffer = bytearray(size)
    read_into(fd, memoryview(buffer), offset, path)
    return bytes(buffer)


def pieces(fd: Open, offset: int, size: int, path: str) -> Iterator[memoryview]:
    """Read `size` bytes from `offset` on; all pieces are views of the same buffer. Stopped at a signal."""
    buffer = memoryview(bytearray(min(thresholds.PIECE, size)))
    for place in range(0, size, thresholds.PIECE):
        signals.check()
        part = buffer[: size - place]
        read_into(fd, part, offset + place, path)
        yield part


def write_all(fd: int, buffer: memoryview | bytes, offset: int, path: str) -> None:
    """Write the whole buffer at that offset."""
    view = memoryview(buffer)
    done = 0
    while done < len(view):
        part = view[done : done + _MOST_AT_ONCE]
        try:
            done += platform.write_at(fd, part, offset + done)
        except OSError as e:
            raise failed(path, "write", e) from None


def copy(source: tuple[Open, str], target: tuple[int, str], start: int, size: int, to: int) -> None:
    """Copy a part of one open file into another, from the offset `start` to the offset `to`; Stopped at a signal.

    Each file is a descriptor and a name for messages. Where it can, the system copies by itself, as for `cp`: some file
    systems then share the bytes and copy none. The disk works on what is copied while the next bytes are copied.
    """
    signals.check()  # also where there is nothing to copy
    done = 0
    while done < size:
        signals.check()
        count = min(thresholds.COPIED_AT_ONCE, size - done)
        is_local = isinstance(source[0], int)
        moved = platform.copy_range(source[0], target[0], start + done, to + done, count) if is_local else 0
        if not moved:  # also where the file ends before: reading there raises the error
            buffer = memoryview(
                bytearray(min(thresholds.BOUNCE_BYTES if is_local else thresholds.REMOTE_AT_ONCE, count))
            )
            read_into(source[0], buffer, start + done, source[1])
            write_all(target[0], buffer, to + done, target[1])
            moved = len(buffer)
        platform.begin_flush(target[0], to + done, moved)
        done += moved


def write_runs(file: str, fd: int, runs: Iterable[tuple[int, memoryview]], path: str) -> list[Edge]:
    """Write runs, each an offset and its bytes; on a disk only the whole pages of large ones, straight to it.

    `file` is the path that `fd` has open. What is left of large runs at their two ends is returned: the caller gathers
    these edges and writes them later, since a write through the page cache waits for every direct one under way.

    A file that is flushed at the end gains nothing from the page cache, and filling the cache costs more than the
    reversal: through it, 1 GiB takes 2.2 times as long on one core, 2.7 times on two, and 1.3 times on 16. Where the
    system or the file system has no direct writes, or no disk, the cache is used.
    """
    edges: list[Edge] = []
    is_direct = platform.DIRECT and not platform.lies_in_memory(fd)
    for offset, run in runs:
        if not is_direct or len(run) < thresholds.LARGE_RUN:
            write_all(fd, run, offset, path)
            continue
        begin, end = -(-offset // _PAGE) * _PAGE - offset, (offset + len(run)) // _PAGE * _PAGE - offset
        for done in range(begin, end, thresholds.BOUNCE_BYTES):
            part = run[done : min(done + thresholds.BOUNCE_BYTES, end)]
            if not _written_directly(file, part, offset + done, path):
                write_all(fd, part, offset + done, path)
        edges += [(offset, bytes(run[:begin]))] if begin else []
        edges += [(offset + end, bytes(run[end:]))] if end < len(run) else []
    return edges


def _written_directly(file: str, part: memoryview, offset: int, path: str) -> bool:
    """Write whole pages past the page cache; False where the file system cannot."""
    try:
        fd = platform.open_file(file, platform.WRITE | platform.DIRECT)
        try:
            pages = _bounce(threading.get_ident())[: len(part)]
            pages[:] = np.frombuffer(part, np.uint8)
            return platform.write_at(fd, pages.data, offset) == len(part)
        finally:
            os.close(fd)  # an error of it is raised below, too
    except OSError as e:
        if e.errno in (errno.EINVAL, errno.EOPNOTSUPP):
            return False
        raise failed(path, "write", e) from None


@functools.cache
def _bounce(_: int) -> NDArray[np.uint8]:
    """Memory that begins with a page, as direct writes need it; each thread has its own, as dask's workers have some.

    It is no mapping of `mmap.mmap(-1, n)`: those are shared with the workers that are forks of this process.
    """
    memory = np.empty(thresholds.BOUNCE_BYTES + _PAGE, np.uint8)
    begin = -memory.__array_interface__["data"][0] % _PAGE
    return memory[begin : begin + thresholds.BOUNCE_BYTES]


def allocate(fd: int, size: int, path: str) -> None:
    """Reserve the bytes of a new file, so that a full disk shows before the work and not in its middle.

    In a file system without a disk only the free space is looked at, and nothing is reserved.
    """
    with trying_to("write", path):
        platform.reserve(fd, size)


def flush(path: str, template: os.stat_result | None = None) -> None:
    """Return when the file is on the disk, with the owner and the mode of `template`.

    OSError where it cannot be flushed; there is no second try, since the system may report success then.
    """
    # Opened before the rights are given, which may allow nobody to write.
    fd = patiently(lambda: platform.open_file(path, platform.UPDATE))
    try:
        if template:
            platform.give_rights(fd, template)
        platform.flush(fd)
    finally:
        os.close(fd)
