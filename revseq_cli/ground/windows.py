"""Windows: what `posix` does, in its own way; see `system`.

Files are opened so that others may rename or remove them, as on POSIX systems: a temporary file goes away even while a
worker that is being killed has it open.
"""

from __future__ import annotations

import _thread
import contextlib
import errno
import glob
import os
import re
import signal
import stat
import sys
import time
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

assert sys.platform == "win32"  # noqa: S101 - type checkers pass over the rest elsewhere

# Files

READ, WRITE, UPDATE = 0x80000000, 0x40000000, 0xC0000000  # how to open a file: GENERIC_READ, GENERIC_WRITE, both
APPEND = 0x100004  # FILE_APPEND_DATA and SYNCHRONIZE: every write goes to the end
DIRECT = 0  # no way past the page cache
one_writer = contextlib.nullcontext()  # writers need not wait for each other
LISTS_STATUS = False  # a folder that is listed tells no numbers of its files, and perhaps old sizes and times
MAKE_FOLDER = "mkdir"  # the command, for hints
_LOCKED = 1 << 40  # the offset of the byte that is locked: behind all that a journal has
_ACCESS_DENIED, _SHARING_VIOLATION, _LOCK_VIOLATION, _DELETE_PENDING = 5, 32, 33, 303  # numbers of errors


def open_file(path: str, flags: int) -> int:
    """A descriptor of a file that exists, opened as one of the constants says."""
    from revseq_cli.ground import kernel32

    try:
        return kernel32.open_file(plain_path(path), flags)
    except PermissionError:  # as Windows says of a folder
        if os.path.isdir(path):  # noqa: PTH112 - any text
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path) from None
        raise


def create_file(path: str, mode: int, like: str = "") -> int:  # noqa: ARG001 - Windows has lists of rights
    """A descriptor of a new file, with the rights of the file `like`, which it will replace, or those of its folder."""
    from revseq_cli.ground import kernel32

    return kernel32.create_file(plain_path(path), UPDATE, plain_path(like) if like else "")


def read_at(fd: int, buffer: memoryview, offset: int) -> int:
    """Read bytes from that offset into the buffer; how many, and 0 at the end of the file."""
    from revseq_cli.ground import kernel32

    return kernel32.read_at(fd, buffer, offset)


def write_at(fd: int, data: memoryview, offset: int) -> int:
    """Write bytes at that offset; how many."""
    from revseq_cli.ground import kernel32

    return kernel32.write_at(fd, data, offset)


def copy_range(source: int, target: int, offset: int, to: int, count: int) -> int:  # noqa: ARG001
    """The number of bytes that the system has copied by itself: none."""
    return 0


def reserve(fd: int, size: int) -> None:
    """Give the file at least that size, and its bytes on the disk."""
    from revseq_cli.ground import kernel32

    if os.fstat(fd).st_size < size:
        kernel32.set_size(fd, size)


def flush(fd: int) -> None:
    """Return when the file is on the disk."""
    os.fsync(fd)


def lock(fd: int) -> bool:
    """Lock an open file for this process; False while another has it locked."""
    from revseq_cli.ground import kernel32

    return kernel32.lock(fd, _LOCKED)


def flush_folder(path: str) -> None:
    """Nothing to flush: a name is on the disk when it is given."""


def give_rights(fd: int, like: os.stat_result) -> None:
    """Nothing to give: the file was created with the rights of the one that it replaces."""


def touched(fd: int, status: os.stat_result) -> int:  # noqa: ARG001 - Python's has when it was made
    """When the content, rights or names of an open file changed last, in a unit of the system, by its own clock."""
    from revseq_cli.ground import kernel32

    return kernel32.change_time(fd)


def is_protected(status: os.stat_result) -> bool:
    """Whether the system refuses to replace a file of that status."""
    return bool(status.st_file_attributes & stat.FILE_ATTRIBUTE_READONLY)


def take_free_name(temporary: str, final: Path) -> None:
    """Give the file a name that nothing has; FileExistsError if something has it."""
    from revseq_cli.ground import kernel32

    kernel32.move(temporary, str(final), replace=False)


def take_name(temporary: str, final: Path) -> None:
    """Give the file a name in one step, whatever has it."""
    from revseq_cli.ground import kernel32

    kernel32.move(temporary, str(final), replace=True)


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


def name_fault(path: str) -> str:
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
            return f"ends with a {'dot' if part[-1] == '.' else 'blank'}, which Windows leaves out"
        if character := re.search(r'[<>"|?*\0-\x1f]', part):
            return f"has a character that Windows has in no name: {character[0]!r}"
        if (length := len(part.encode("utf-16-le", "surrogatepass")) // 2) > _LONGEST_NAME:
            return f"has a name of {length} characters, and Windows takes {_LONGEST_NAME}"
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


def names(word: str) -> list[str]:
    """What a word of the command line stands for: names of files if it is a pattern, which no shell expands here."""
    is_pattern = set(word) & set("*?") and word[0] not in "-["  # but for an option, or a tensor as text
    return (sorted(glob.glob(word)) if is_pattern else []) or [word]  # noqa: PTH207 - as it was typed


# Signals and streams

SIGNALS = (signal.SIGINT, signal.SIGBREAK, signal.SIGTERM)
# Whether a process can be asked to end by a signal that it handles; else by the end of its line to its parent.
CAN_SIGNAL = False
_CLOSING = 3.0  # seconds to undo work when the console is closed; after five the system ends the process
_ENDED = 0xC000013A  # the exit status after Ctrl-C: STATUS_CONTROL_C_EXIT
_handlers: list[Callable[[int], None]] = []


def watch(handle: Callable[[int], None]) -> None:
    """Call `handle` for each event of the console, after `listen`; before, it ends even a process that waits."""
    _handlers[:] = [handle]


def listen() -> None:
    """From now on there is work to undo."""
    if not _handlers:
        return
    from revseq_cli.ground import kernel32

    handle = _handlers.pop()

    def happened(event: int) -> bool:
        """Tell of Ctrl-C or Ctrl-Break; of a console that closes, too, and keep the system waiting meanwhile."""
        handle(signal.SIGINT if event == signal.CTRL_C_EVENT else signal.SIGBREAK)
        if event > signal.CTRL_BREAK_EVENT:
            time.sleep(_CLOSING)
            handle(signal.SIGBREAK)
            time.sleep(_CLOSING)
        return True

    kernel32.listen(happened)


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
    """The number of cores that this process may use."""
    from revseq_cli.ground import kernel32

    return kernel32.cores() or os.cpu_count() or 1


def start_tracker() -> None:
    """Nothing to start: there is nothing that a process leaves behind."""


def lies_in_memory(fd: int) -> bool:  # noqa: ARG001 - no file system here lies in memory
    """Whether the open file is one of a file system without a disk."""
    return False


def write_mapped(path: str, data: memoryview, offset: int) -> bool:  # noqa: ARG001
    """False: files are written at their offsets."""
    return False


FORKS = False  # a process cannot be forked


def can_fork() -> bool:
    """Whether a fork is safe: there is none."""
    return False


def how_ended(status: int | None) -> str:
    """How a process ended, by its exit status: "exit status 1", or "exit status 0xC0000005" after a crash."""
    return f"exit status {status}" if status is None or status < 1 << 16 else f"exit status 0x{status:08X}"
