"""Files of this machine: reads and writes at an offset, preallocation, copies and flushing."""

from __future__ import annotations

import contextlib
import errno
import functools
import mmap
import os
import stat
import threading
import weakref
from collections.abc import Iterable, Iterator
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core import platform, signals, thresholds
from revseq_cli.core.errors import MissingFileError, TensorIOError
from revseq_cli.files.input_file import (
    Identity,
    InputFile,
    identity_of,
    make_truncation_error,
    require_unchanged,
)
from revseq_cli.files.system_errors import (
    make_os_error,
    refuse_standard_output,
    retry_while_in_use,
    wrap_os_errors,
)

_PAGE = 1 << 12
_MOST_AT_ONCE = 1 << 30  # Linux moves at most 2^31 - 4096 bytes in one call

# The offset of some bytes in a file, and the bytes.
Edge = tuple[int, bytes]


class LocalFile(InputFile):
    """A file of this machine, by its descriptor `fd`."""

    def __init__(self, fd: int, path: str, name: str, identity: Identity) -> None:
        self.fd = fd
        self.path = path
        self.name = name
        self.identity = identity

    def read_into(self, buffer: memoryview, offset: int) -> None:
        done = 0
        while done < len(buffer):
            part = buffer[done : done + _MOST_AT_ONCE]
            try:  # `wrap_os_errors` would cost half as much again as a short read
                count = platform.read_at(self.fd, part, offset + done)
            except OSError as e:
                raise make_os_error(self.name, "read", e) from None
            if count == 0:
                raise make_truncation_error(self.name)
            done += count

    def stream(self) -> BinaryIO:
        return cast("BinaryIO", open(self.fd, "rb", buffering=0, closefd=False))


@contextlib.contextmanager
def open_local(path: str, unchanged: Identity | None = None, name: str = "") -> Iterator[LocalFile]:
    """A regular file; it must be as it was at `unchanged`.

    `name` is what to call the file, if that is not its path. A pipe or a device is refused, and
    never waited for.
    """
    name = name or path
    fault, hint = platform.name_fault(path)
    if fault:
        raise TensorIOError(fault, "the name of a file", hint, name)
    with wrap_os_errors(name, "open"):
        try:
            fd = retry_while_in_use(lambda: platform.open_descriptor(path, platform.READ))
        except FileNotFoundError:
            raise MissingFileError("no such file", where=name) from None
        except IsADirectoryError:
            raise TensorIOError("a folder", "a tensor file", where=name) from None
    try:
        with wrap_os_errors(name, "read"):
            status = os.fstat(fd)
            if stat.S_ISDIR(status.st_mode):
                raise TensorIOError("a folder", "a tensor file", where=name)
            if not stat.S_ISREG(status.st_mode):
                raise TensorIOError("not a regular file", "a tensor file, or a pipe", where=name)
            if unchanged is None:  # else it was looked at before
                refuse_standard_output(status, name)
            identity = identity_of(status)
            require_unchanged(unchanged, identity, name)
            yield LocalFile(fd, path, name, identity)
    finally:
        with contextlib.suppress(OSError):  # nothing can be lost that was only read
            os.close(fd)


def recheck_local(path: str, identity: Identity) -> None:
    """TensorIOError if a file is not as it was at `identity`."""
    with wrap_os_errors(path, "read"):
        try:
            status = os.stat(path)
        except FileNotFoundError:
            raise MissingFileError("no such file", where=path) from None
    require_unchanged(identity, identity_of(status), path)


_writers = 1  # processes that write the same file as this one


def share_outputs(writers: int) -> None:
    """Say that this many processes, of which this is one, write the same files."""
    global _writers
    _writers = writers


class OutputFile:
    """A new file of this machine that is open for writing, by its descriptor `fd`.

    `name` is what to call it. A file in memory that many processes write is written through the
    mapping `pages`, since positioned writes to one such file wait for each other: on 16 cores,
    2 GiB took 1.20 s by writes, and 0.85 s through mappings.
    """

    def __init__(self, fd: int, path: str, name: str) -> None:
        self.fd = fd
        self.path = path
        self.name = name
        self.pages: mmap.mmap | None = None
        if _writers > thresholds.WRITERS_IN_TURN and platform.lies_in_memory(fd):
            self.pages = platform.map_pages(path)

    def write(self, data: memoryview | bytes, offset: int) -> None:
        """Write all of the data at that offset."""
        view = memoryview(data)
        if self.pages and platform.write_pages(self.pages, view, offset):
            return
        done = 0
        while done < len(view):
            part = view[done : done + _MOST_AT_ONCE]
            try:
                done += platform.write_at(self.fd, part, offset + done)
            except OSError as e:
                raise make_os_error(self.name, "write", e) from None

    def allocate(self, size: int) -> None:
        """Reserve the bytes of the file, so that a full disk shows before the work.

        On a file system in memory nothing is reserved, and only the free space is looked at.
        """
        with wrap_os_errors(self.name, "write"):
            platform.reserve(self.fd, size)

    def copy_from(self, source: InputFile, start: int, size: int, to: int) -> None:
        """Copy a part of an open file, from the offset `start`, to the offset `to`.

        Where it can, the system copies by itself, as for `cp`: some file systems then share the
        bytes and copy none. The disk works on what is copied while the next bytes are copied. A
        signal raises Stopped.
        """
        signals.check()  # also if there is nothing to copy
        done = 0
        while done < size:
            signals.check()
            count = min(thresholds.COPIED_AT_ONCE, size - done)
            moved = 0
            if isinstance(source, LocalFile):
                moved = platform.copy_range(source.fd, self.fd, start + done, to + done, count)
            if not moved:  # also if the source is too short: to read it raises the error
                buffer = memoryview(bytearray(min(thresholds.BOUNCE_BYTES, count)))
                source.read_into(buffer, start + done)
                self.write(buffer, to + done)
                moved = len(buffer)
            platform.start_writeback(self.fd, to + done, moved)
            done += moved

    def write_runs(self, runs: Iterable[tuple[int, memoryview]]) -> list[Edge]:
        """Write runs, each an offset and its bytes; what is left of them is returned.

        Of large runs on a disk, the whole pages are written directly, past the page cache. What is
        left are the edges of such runs, less than a page at either end. The caller gathers them and
        writes them later, since a write through the page cache waits for all direct ones.

        A file that is flushed at the end gains nothing from the page cache, and filling the cache
        costs more than the reversal: through it, 1 GiB takes 2.2 times as long on one core, 2.7
        times on two, and 1.3 times on 16.
        """
        edges: list[Edge] = []
        for offset, run in runs:
            if len(run) >= thresholds.LARGE_RUN and self._takes_direct_writes:
                edges += self._write_pages(run, offset)
            else:
                self.write(run, offset)
        return edges

    @functools.cached_property
    def _takes_direct_writes(self) -> bool:
        """Whether the system may write the file past the page cache; the file system may refuse."""
        return platform.DIRECT != 0 and not platform.lies_in_memory(self.fd)

    def _write_pages(self, run: memoryview, offset: int) -> list[Edge]:
        """Write the whole pages of a run, and return its edges.

        pages   |      |      |      |      |
        run         aaabbbbbbbbbbbbbbccc      b from `begin` to `end`, a and c are the edges
        """
        begin = -offset % _PAGE
        end = len(run) - (offset + len(run)) % _PAGE
        for done in range(begin, end, thresholds.BOUNCE_BYTES):
            part = run[done : min(done + thresholds.BOUNCE_BYTES, end)]
            if not self._write_directly(part, offset + done):
                self.write(part, offset + done)
        edges = [(offset, bytes(run[:begin])), (offset + end, bytes(run[end:]))]
        return [(start, data) for start, data in edges if data]

    def _write_directly(self, part: memoryview, offset: int) -> bool:
        """Write whole pages past the page cache; False if the file system cannot."""
        try:
            fd = platform.open_descriptor(self.path, platform.WRITE | platform.DIRECT)
            try:
                pages = _bounce_buffer(threading.get_ident())[: len(part)]
                pages[:] = np.frombuffer(part, np.uint8)
                return platform.write_at(fd, pages.data, offset) == len(part)
            finally:
                os.close(fd)  # an error of it is raised below, too
        except OSError as e:
            if e.errno in (errno.EINVAL, errno.EOPNOTSUPP):
                return False
            raise make_os_error(self.name, "write", e) from None


@functools.cache
def _bounce_buffer(_thread: int) -> NDArray[np.uint8]:
    """The memory of a thread for direct writes, which must begin at a page.

    It is not a mapping of `mmap.mmap(-1, n)`: forks of this process would share that with it.
    """
    memory = np.empty(thresholds.BOUNCE_BYTES + _PAGE, np.uint8)
    begin = -memory.__array_interface__["data"][0] % _PAGE
    return memory[begin : begin + thresholds.BOUNCE_BYTES]


@contextlib.contextmanager
def open_to_write(path: str, name: str) -> Iterator[OutputFile]:
    """A file that exists, for writing; `name` is what to call it."""
    with wrap_os_errors(name, "write"):
        # Not for reading too: NFS would then fill up a page that is written in part, and write it
        # back whole, over what another host has written next to it.
        fd = retry_while_in_use(lambda: platform.open_descriptor(path, platform.WRITE))
    file: OutputFile | None = None
    try:
        file = OutputFile(fd, path, name)
        yield file
    finally:
        if file and file.pages:
            file.pages.close()
        with wrap_os_errors(name, "write"):  # some file systems report a failed write only now
            os.close(fd)


def flush_file(path: str, template: os.stat_result | None = None) -> None:
    """Return when the file is on the disk, with the owner and the mode of `template`.

    OSError if it cannot be flushed. It is not tried again: the system may report success for a
    second try although data is lost.
    """
    # Opened before the rights are given, which may allow nobody to write.
    fd = retry_while_in_use(lambda: platform.open_descriptor(path, platform.UPDATE))
    try:
        if template:
            platform.give_rights(fd, template)
        platform.sync_file(fd)
    finally:
        os.close(fd)


class UnnamedFile(OutputFile):
    """A new file in the system's folder for temporary ones, which ends with the object.

    Where the system has /proc, it has no name, and `path` is its descriptor there, by which other
    processes can open it. Nothing is left of it then, however the process ends.
    """

    def __init__(self, name: str) -> None:
        import tempfile  # it takes a while to load

        with wrap_os_errors(name, "write"):
            fd, path = tempfile.mkstemp(prefix="revseq-", suffix=".tmp")
            link = f"/proc/{os.getpid()}/fd/{fd}"
            if os.path.exists(link):
                os.unlink(path)
                path = link
        super().__init__(fd, path, name)
        self.remove = weakref.finalize(self, _remove_unnamed, fd, path, os.getpid())


def _remove_unnamed(fd: int, path: str, process: int) -> None:
    if os.getpid() != process:  # a fork has the object, too
        return
    with contextlib.suppress(OSError):
        os.close(fd)
        if not path.startswith("/proc/"):
            os.unlink(path)
