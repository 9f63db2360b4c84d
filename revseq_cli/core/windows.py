"""Windows: what `posix` does, in its own way; see `system`. What its own library does is in `kernel32`."""

from __future__ import annotations

import _thread
import contextlib
import errno
import glob
import io
import msvcrt
import os
import re
import signal
import stat
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

assert sys.platform == "win32"  # noqa: S101 - type checkers pass over the rest elsewhere

# Files

READ, WRITE, UPDATE = 0x80000000, 0x40000000, 0xC0000000  # how to open a file: GENERIC_READ, GENERIC_WRITE, both
APPEND = 0x100004  # FILE_APPEND_DATA and SYNCHRONIZE: every write goes to the end
DIRECT = 0  # no way past the page cache
LISTS_STATUS = False  # a folder that is listed tells no numbers of its files, and perhaps old sizes and times
MAKE_FOLDER = "mkdir"  # the command, for hints
_LOCKED = 1 << 40  # the offset of the byte that is locked: behind all that a journal has
_ACCESS_DENIED, _SHARING_VIOLATION, _LOCK_VIOLATION, _DELETE_PENDING = 5, 32, 33, 303  # numbers of errors


def read_at(fd: int, buffer: memoryview, offset: int) -> int:
    """Read bytes from that offset into the buffer; how many, and 0 at the end of the file.

    Here a descriptor has one position, so no two threads use one.
    """
    os.lseek(fd, offset, os.SEEK_SET)
    return io.FileIO(fd, closefd=False).readinto(buffer) or 0


def write_at(fd: int, data: memoryview, offset: int) -> int:
    """Write bytes at that offset; how many."""
    os.lseek(fd, offset, os.SEEK_SET)
    return os.write(fd, data)


def copy_range(source: int, target: int, offset: int, to: int, count: int) -> int:  # noqa: ARG001
    """The number of bytes that the system has copied by itself: none."""
    return 0


def begin_flush(fd: int, offset: int, count: int) -> None:
    """Nothing to begin: here no part of a file can be asked for."""


def flush(fd: int) -> None:
    """Return when the file is on the disk."""
    os.fsync(fd)


def lock(fd: int) -> bool:
    """Lock an open file for this process; False while another has it locked."""
    os.lseek(fd, _LOCKED, os.SEEK_SET)
    try:
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
    except OSError as e:
        if e.errno not in (errno.EACCES, 0):  # the second under Wine
            raise
        return False
    return True


def flush_folder(path: str) -> None:
    """Nothing to flush: the system brings names to the disk itself, in the order in which they are given."""


def give_rights(fd: int, like: os.stat_result) -> None:
    """Nothing to give: the file was created with the rights of the one that it replaces."""


def is_protected(status: os.stat_result) -> bool:
    """Whether the system refuses to replace a file of that status."""
    return bool(status.st_file_attributes & stat.FILE_ATTRIBUTE_READONLY)


def take_free_name(temporary: str, final: Path) -> None:
    """Give the file a name that nothing has; FileExistsError if something has it."""
    Path(temporary).rename(final)


def is_in_use(error: OSError) -> bool:
    """Whether the error is that another program has the file open: then it may pass."""
    return error.winerror in (_SHARING_VIOLATION, _LOCK_VIOLATION, _DELETE_PENDING)


def keeps_name(error: OSError) -> bool:
    """Whether a file may keep its name, which was to be taken or removed, since another program has it open."""
    return is_in_use(error) or error.winerror == _ACCESS_DENIED


def is_read_only(folder: Path) -> bool:  # noqa: ARG001 - what cannot be written shows when a file is created
    """Whether the folder's file system is mounted read-only."""
    return False


# Names

_LONGEST = 247  # characters of a path without a prefix, unless the system is set up for longer ones
_LONGEST_NAME = 255  # characters of UTF-16 in a part of a path
_PREFIX, _DEVICE = "\\\\?\\", "\\\\.\\"
_PLAIN = re.compile(r"[\w./\\:=+~-]+")  # what no shell takes for anything else
_RESERVED = re.compile(r"(CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(COM|LPT)[0-9¹²³]) *(\..*)?", re.IGNORECASE)


def system_fault(path: str) -> str:
    """Why the path names no file, though the system would take it; nothing if it does."""
    drive, rest = os.path.splitdrive(path)
    if drive.replace("/", "\\").startswith(_DEVICE):
        return "is a device"
    for part in re.split(r"[\\/]", rest):
        if part in ("", ".", ".."):
            continue
        if reserved := _RESERVED.fullmatch(part):
            return f"is a device: {reserved[1].upper()} is one in every folder of Windows"
        if ":" in part:
            return "is a stream inside a file: its name has a colon"
        if part[-1] in ". ":
            return f"ends with a {'dot' if part[-1] == '.' else 'blank'}, which Windows removes"
        if character := re.search(r'[<>"|?*\0-\x1f]', part):
            return f"has a character that Windows does not allow in names: {character[0]!r}"
        if (length := len(part.encode("utf-16-le", "surrogatepass")) // 2) > _LONGEST_NAME:
            return f"has a name of {length} characters, and Windows allows {_LONGEST_NAME}"
    return ""


def real_path(path: str) -> str:
    """The path of the file itself, without links."""
    try:
        real = os.path.realpath(path)
    except OSError:  # of a file system that does not tell
        real = os.path.abspath(path)  # noqa: PTH100 - any text
    return plain_path(real)


def plain_path(path: str) -> str:
    """The path as the system takes it, of any length."""
    whole = os.path.abspath(path)  # noqa: PTH100 - any text
    if len(whole) <= _LONGEST or whole.startswith((_PREFIX, _DEVICE)):
        return path
    return f"{_PREFIX}UNC{whole[1:]}" if whole.startswith("\\\\") else _PREFIX + whole


def name_key(path: str) -> str:
    """What is equal for two real paths of one file, which may not be there yet: without case."""
    return os.path.normcase(path)


def quoted(text: str) -> str:
    """The text as one word of a command line, for cmd and PowerShell; what they expand inside quotes stays that."""
    if _PLAIN.fullmatch(text):
        return text
    return '"' + re.sub(r'(\\*)("|$)', lambda each: each[1] * 2 + each[2].replace('"', '\\"'), text) + '"'


def cut(path: str, size: int) -> str:
    """The command that keeps the first `size` bytes of a file, for hints; "" where a shell would change the name.

    It runs in cmd and in PowerShell, which would expand $ and backticks.
    """
    if set(path) & set("$`%'\u2018\u2019\u201a\u201b"):
        return ""
    return f"powershell \"[IO.File]::OpenWrite('{path}').SetLength({size})\""


def names(word: str) -> list[str]:
    """What a word of the command line stands for: names of files if it is a pattern, which no shell expands here."""
    is_pattern = set(word) & set("*?") and word[0] not in "-["  # but for an option, or a tensor as text
    return (sorted(glob.glob(word)) if is_pattern else []) or [word]  # noqa: PTH207 - as it was typed


# Signals and streams

SIGNALS = (signal.SIGINT, signal.SIGBREAK, signal.SIGTERM)
_ENDED = 0xC000013A  # the exit status after Ctrl-C: STATUS_CONTROL_C_EXIT


def watch(handle: Callable[[int], None]) -> None:
    """Nothing yet: `listen` calls `handle` for events of the console; before, one ends even a process that waits."""


def after(seconds: float, function: Callable[[], object]) -> None:
    """Call the function after so many seconds."""

    def wait() -> None:
        time.sleep(seconds)
        function()

    _thread.start_new_thread(wait, ())


def masked() -> contextlib.nullcontext[None]:
    """Nothing to block: a process that starts gets the events of the console itself."""
    return contextlib.nullcontext()


def unmask(numbers: Sequence[int] = SIGNALS) -> None:
    """Nothing is blocked."""


def end_by(number: int) -> NoReturn:  # noqa: ARG001 - all end alike
    """End as a program does that does not handle Ctrl-C, so that a batch file stops, too."""
    os._exit(_ENDED - (1 << 32))


def may_block(fd: int) -> bool:  # noqa: ARG001 - the thread of the console ends a process that waits
    """Whether writing may wait for a reader, and can be done in parts that need no waiting."""
    return False


def name_behind(fd: int) -> str:  # noqa: ARG001 - a name may be told, but not that of a file which is renamed
    """The path of the regular file that a descriptor is open on: nobody asks for it here."""
    return ""


def ready_part(fd: int, data: memoryview, seconds: float) -> memoryview | None:  # noqa: ARG001
    """What can be written of the data without waiting: nobody can tell."""
    return data


def is_reader_gone(error: OSError) -> bool:
    """Whether a failed write means that nobody reads the pipe any more."""
    return isinstance(error, BrokenPipeError) or error.errno == errno.EINVAL  # as the C library calls it


def text_encoding(stream: Any) -> str:  # noqa: ANN401 - what Python has opened
    """The encoding of a standard stream; nothing if only Python's own stream can write there, as to a console."""
    if stream.isatty():
        return ""
    return str(stream.encoding) if os.environ.get("PYTHONIOENCODING") else "utf-8"


# Processes


def cores() -> int:
    """The number of cores that this process may use; until Python 3.13 that of the machine."""
    return getattr(os, "process_cpu_count", os.cpu_count)() or 1


def start_tracker() -> None:
    """Nothing to start: there is nothing that a process leaves behind."""


def lies_in_memory(file: int | str) -> bool:  # noqa: ARG001 - no file system here lies in memory
    """Whether a file, which is open or has that path, is of a file system without a disk."""
    return False


FORKS = False  # a process cannot be forked


MOST_PROCESSES = 61  # that one process can wait for


def can_fork() -> bool:
    """Whether a fork is safe: there is none."""
    return False


def end_with(parent: int) -> bool:  # noqa: ARG001
    """Let the system kill this process when its parent ends: it cannot."""
    return False


def how_ended(status: int | None) -> str:
    """How a process ended, by its exit status: "exit status 1", or "exit status 0xC0000005" after a crash."""
    return f"exit status {status}" if status is None or status < 1 << 16 else f"exit status 0x{status:08X}"


# Memory


def keep_freed_memory() -> None:
    """Nothing to set: its C library has no such settings."""


def keeping_freed_memory() -> contextlib.nullcontext[None]:
    """Nothing to set, and nothing to undo."""
    return contextlib.nullcontext()
