"""The operating system: what Linux, macOS and Windows do in different ways.

No other module asks which of them it is. On Windows, files are opened so that others may rename or
remove them, as on POSIX systems: a temporary file can be removed even while a worker that is being
killed has it open.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import mmap
import os
import re
import shlex
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

# Files. A pipe is not waited for when it is opened, and a new file is no link.

if sys.platform == "win32":
    import ctypes
    import glob
    import msvcrt
    from ctypes import wintypes

    READ, WRITE, UPDATE = (
        0x80000000,
        0x40000000,
        0xC0000000,
    )  # GENERIC_READ, GENERIC_WRITE, and both
    DIRECT = 0
    MAKE_FOLDER = "mkdir"
    SIGNALS = (signal.SIGINT, signal.SIGBREAK, signal.SIGTERM)
    MOST_PROCESSES = 61  # that one process can wait for

    _library = ctypes.WinDLL("kernel32", use_last_error=True)
    _library.CreateFileW.restype = wintypes.HANDLE
    _library.CreateFileW.argtypes = [
        wintypes.LPCWSTR, wintypes.DWORD, wintypes.DWORD, ctypes.c_void_p,
        wintypes.DWORD, wintypes.DWORD, wintypes.HANDLE,
    ]  # fmt: skip
    _library.SetFilePointerEx.argtypes = [
        wintypes.HANDLE,
        ctypes.c_int64,
        ctypes.c_void_p,
        wintypes.DWORD,
    ]
    _library.SetEndOfFile.argtypes = [wintypes.HANDLE]
    _SHARED, _CREATE_NEW, _OPEN_EXISTING, _NORMAL = 1 | 2 | 4, 1, 3, 0x80

    def _open_handle(path: str, access: int, how: int) -> int:
        handle = _library.CreateFileW(plain_path(path), access, _SHARED, None, how, _NORMAL, None)
        if handle == wintypes.HANDLE(-1).value:
            raise _last_error(path)
        descriptor: int = msvcrt.open_osfhandle(handle, os.O_NOINHERIT)
        return descriptor

    def _last_error(path: str | None = None) -> OSError:
        error = ctypes.WinError(ctypes.get_last_error())
        return OSError(error.errno, (error.strerror or "").rstrip(". "), path, error.winerror)
else:
    READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    WRITE, UPDATE = (mode | os.O_CLOEXEC | os.O_NOFOLLOW for mode in (os.O_WRONLY, os.O_RDWR))
    DIRECT = getattr(
        os, "O_DIRECT", 0
    )  # with WRITE, past the page cache; 0 where there is no such way
    MAKE_FOLDER = "mkdir -p"
    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    MOST_PROCESSES = sys.maxsize


def open_file(path: str, flags: int) -> int:
    """A descriptor of a file that exists, opened as one of the constants says."""
    if sys.platform == "win32":
        try:
            return _open_handle(path, flags, _OPEN_EXISTING)
        except PermissionError:  # as Windows says of a folder
            if os.path.isdir(path):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path) from None
            raise
    return os.open(path, flags)


def create_file(path: str, mode: int) -> int:
    """A descriptor of a new file of that mode; on Windows it has the rights of its folder."""
    if sys.platform == "win32":
        return _open_handle(path, UPDATE, _CREATE_NEW)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)


def read_at(fd: int, buffer: memoryview, offset: int) -> int:
    """Read bytes from that offset into the buffer; how many, and 0 at the end of the file."""
    if sys.platform != "win32" and hasattr(os, "preadv"):
        return os.preadv(fd, [buffer], offset)
    os.lseek(fd, offset, os.SEEK_SET)  # Windows, and macOS before 11
    return io.FileIO(fd, closefd=False).readinto(buffer) or 0


def write_at(fd: int, data: memoryview, offset: int) -> int:
    """Write bytes at that offset; how many."""
    if sys.platform == "win32":
        os.lseek(fd, offset, os.SEEK_SET)
        return os.write(fd, data)
    return os.pwrite(fd, data, offset)


def copy_range(source: int, target: int, offset: int, to: int, count: int) -> int:
    """The number of bytes that the system has copied by itself; 0 if it cannot, or if it fails."""
    if sys.platform != "linux" or not hasattr(os, "copy_file_range"):
        return 0
    try:
        return os.copy_file_range(source, target, count, offset, to)
    except (
        OSError
    ):  # not between these file systems; any other error shows again when the bytes are written
        return 0


def reserve(fd: int, size: int) -> None:
    """Give the file at least that size, and reserve its bytes on the disk if the system can.

    For a file in memory, only the free space is checked: one process would have to take every page
    in advance, 0.8 s for 4 GiB, which 16 processes write in 0.6 s.
    """
    if sys.platform == "win32":  # Python's ftruncate would write zeros up to it
        handle = msvcrt.get_osfhandle(fd)
        if os.fstat(fd).st_size < size and not (
            _library.SetFilePointerEx(handle, size, None, 0) and _library.SetEndOfFile(handle)
        ):
            raise _last_error()
        return
    status = os.fstat(fd)
    if status.st_dev in _devices_in_memory():
        space = os.fstatvfs(fd)
        is_limited = space.f_blocks > 0
        if is_limited and space.f_bavail * space.f_frsize < size - 512 * status.st_blocks:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    elif hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(fd, 0, size)  # which makes the file larger, too
        except OSError as e:
            if e.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
        else:
            return
    if status.st_size < size:
        os.ftruncate(fd, size)


def lies_in_memory(file: int | str) -> bool:
    """Whether a file, open or named, is on a file system without a disk; only Linux reports it."""
    return os.stat(file).st_dev in _devices_in_memory()


@functools.cache  # a worker opens a file for each block
def _devices_in_memory() -> set[int]:
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            # Lines end with \n alone: other line breaks may be part of a mount point.
            mounts = Path("/proc/self/mountinfo").read_bytes().split(b"\n")
            in_memory = [
                line
                for line in mounts
                if line.partition(b" - ")[2].startswith((b"tmpfs ", b"ramfs "))
            ]
            return {os.makedev(*map(int, line.split()[2].split(b":"))) for line in in_memory}
    return set()


_MADV_POPULATE_WRITE = 23  # since Linux 5.14; Python has no name for it


def map_pages(path: str) -> mmap.mmap | None:
    """The pages of a file, for `write_pages`; None where the system cannot map it."""
    try:
        fd = os.open(path, UPDATE)
        try:
            return mmap.mmap(fd, 0)
        finally:
            os.close(fd)
    except (OSError, ValueError):  # ValueError for an empty file
        return None


def write_pages(pages: mmap.mmap, data: memoryview, offset: int) -> bool:
    """Write bytes at that offset of a mapped file; False where a write must say why that fails.

    The pages are asked for first: where there is no room for one, writing into it would end the
    process by SIGBUS. A system that cannot ask for pages, such as an older Linux, fails there, too.
    """
    if sys.platform != "linux":
        return False
    begin = offset - offset % mmap.PAGESIZE
    try:
        pages.madvise(_MADV_POPULATE_WRITE, begin, offset + len(data) - begin)
    except OSError:
        return False
    pages[offset : offset + len(data)] = data
    return True


def start_writeback(fd: int, offset: int, count: int) -> None:
    """Let the system begin to bring a part of a file to the disk, for parts that follow each other.

    Without it, a command that copies another dataset of 768 MiB takes 1.4 times as long.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # a file system without it flushes all at the end
            os.posix_fadvise(fd, offset, count, os.POSIX_FADV_DONTNEED)


def sync_file(fd: int) -> None:
    """Return when the file is on the disk.

    On macOS, fsync leaves it in the memory of the drive, but F_FULLFSYNC does not.
    """
    if sys.platform == "darwin":
        import fcntl

        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
            return
        except OSError as e:
            if e.errno not in (
                errno.ENOTSUP,
                errno.EINVAL,
                errno.ENOTTY,
            ):  # of a file system without it
                raise
    os.fsync(fd)


def sync_folder(path: str) -> None:
    """Return when the names in a folder are on the disk.

    Windows writes them in the order in which they were given.
    """
    if sys.platform != "win32":
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            sync_file(fd)
        finally:
            os.close(fd)


def give_rights(fd: int, like: os.stat_result) -> None:
    """Give the open file the owner, group and mode of `like`, as far as this user may.

    Nobody gets rights that they did not have.
    """
    if sys.platform == "win32":
        return  # it has those of its folder
    mode = like.st_mode & 0o777  # without set-user-ID and the like: a tensor is not executed
    for owner in (like.st_uid, -1):
        with contextlib.suppress(OSError):  # a file system or a container may not know these users
            os.fchown(fd, owner, like.st_gid)
            break
    else:  # the group stays another one, which gets the rights of all others
        mode = mode & ~0o070 | (mode & 0o007) << 3
    with contextlib.suppress(PermissionError):  # some file systems set modes of their own
        os.fchmod(fd, mode)


def rename_file(temporary: str, final: Path, *, free: bool) -> None:
    """Give a file its name in one step; FileExistsError if it must be `free` but is taken."""
    if free and sys.platform == "win32":
        Path(temporary).rename(final)
        return
    if free:
        try:  # a link, unlike a rename, never replaces what came to stand there in the meantime
            os.link(temporary, final)
        except OSError:
            if final.exists():
                raise
        else:
            return
    Path(temporary).replace(final)  # also on a file system without hard links


def exchange_folders(new: str, old: str) -> None:
    """Exchange the names of two folders.

    Linux does it in one step on most file systems. Elsewhere nothing is named `old` for a moment.
    """
    rename = _c_function("renameat2")
    if rename and rename(-100, os.fsencode(new), -100, os.fsencode(old), 2) == 0:
        return  # AT_FDCWD twice, and RENAME_EXCHANGE
    aside = f"{new}.old"
    os.rename(old, aside)
    try:
        os.rename(new, old)
    except OSError:
        os.rename(aside, old)
        raise
    os.rename(aside, new)


@contextlib.contextmanager
def lock_folder(path: str) -> Iterator[None]:
    """Wait for other processes that hold this lock on a folder; no lock if the system has none."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # a network file system may have no locks
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        with contextlib.suppress(OSError):  # nothing is written there
            os.close(fd)


# Errors of Windows that may pass: a sharing or lock violation, a file that is being deleted.
_IN_USE = (32, 33, 303)


def is_in_use(error: OSError) -> bool:
    """Whether the error is that another program keeps others from the file."""
    return getattr(error, "winerror", 0) in _IN_USE


def keeps_name(error: OSError) -> bool:
    """Whether a file may keep the name that was to be removed, as another program has it open."""
    return getattr(error, "winerror", 0) in (5, *_IN_USE)  # access is denied


def is_read_only(folder: Path) -> bool:
    """Whether the folder's file system is mounted read-only."""
    return sys.platform != "win32" and bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def is_protected(status: os.stat_result) -> bool:
    """Whether Windows refuses to replace such a file; elsewhere the folder's rights decide."""
    return sys.platform == "win32" and bool(
        status.st_file_attributes & stat.FILE_ATTRIBUTE_READONLY
    )


# Names

_LONGEST_PATH = 247  # characters of a path on Windows without a prefix
# Names that mean something else on Windows: a device, a stream inside a file, or another name.
_NO_NAME = re.compile(
    r"(?:CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(?:COM|LPT)[0-9¹²³]) *(?:\..*)?"
    r"|.*[. ]|.*[:<>\"|?*\0-\x1f].*",
    re.IGNORECASE | re.DOTALL,
)
# What would be an option, or a tensor as text, and not the name of a file.
_UNLIKE_A_FILE = re.compile(r"-(?!::|$)|\s*(?:(?:(?:np|numpy|torch)\.)?(?:array|tensor)\(\s*)?\[")


def name_fault(path: str) -> tuple[str, str]:
    """Why the path names no file of this machine, and what to do; empty if it may name one."""
    home = os.path.expanduser(path)
    if home != path and not os.path.exists(re.split(r"[\\/]", path)[0]):
        return "the shell did not expand its ~, because of quotes or a =", f"type {quote(home)}"
    if sys.platform == "win32":
        return _fault_on_windows(path), ""
    return "", ""


def _fault_on_windows(path: str) -> str:
    drive, rest = os.path.splitdrive(path)
    wrong = [drive] if drive.replace("/", "\\").startswith("\\\\.\\") else []
    wrong += [
        name
        for name in re.split(r"[\\/]", rest)
        if name not in (".", "..") and _NO_NAME.fullmatch(name)
    ]
    return f"{wrong[0]!r} is a device, a stream, or no name on Windows" if wrong else ""


def real_path(path: str) -> str:
    """The path of the file itself, without links."""
    try:
        return plain_path(os.path.realpath(path))
    except OSError:  # Windows has file systems that do not tell
        return plain_path(os.path.abspath(path))


def make_resolver() -> Callable[[str], str]:
    """A function like `real_path` for many files: it looks at each folder only once."""
    folders = functools.cache(real_path)

    @functools.cache
    def resolve(path: str) -> str:
        folder, name = os.path.split(path)
        if sys.platform == "win32" or name in ("", os.curdir, os.pardir):
            return real_path(path)
        resolved = os.path.join(folders(folder or os.curdir), name)
        return real_path(path) if os.path.islink(resolved) else resolved

    return resolve


def plain_path(path: str) -> str:
    """The path as the system takes it, of any length."""
    if sys.platform == "win32":
        whole = os.path.abspath(path)
        if len(whole) > _LONGEST_PATH and not whole.startswith(("\\\\?\\", "\\\\.\\")):
            return f"\\\\?\\UNC{whole[1:]}" if whole.startswith("\\\\") else f"\\\\?\\{whole}"
    return path


def name_key(path: str) -> str:
    """What is equal for two real paths of one file, which may not exist yet.

    It has no case if names on this system have none.
    """
    return path.casefold() if sys.platform == "darwin" else os.path.normcase(path)


def file_key(path: str) -> str:
    """What is equal for all names of one file, links among them; it may not be there yet."""
    return name_key(real_path(path))


def quote(text: str) -> str:
    """The text as one word of a command line; control characters as bash, zsh and ksh have them."""
    if sys.platform == "win32":
        if re.fullmatch(r"[\w./\\:=+~-]+", text):
            return text
        return (
            '"'
            + re.sub(r'(\\*)("|$)', lambda match: match[1] * 2 + match[2].replace('"', '\\"'), text)
            + '"'
        )
    if text.isprintable():
        return shlex.quote(text)
    octal = ("".join(f"\\{byte:03o}" for byte in os.fsencode(c)) for c in text)
    shown = (
        c if c.isprintable() and c not in "'\\" else code
        for c, code in zip(text, octal, strict=True)
    )
    return f"$'{''.join(shown)}'"


def as_argument(path: str) -> str:
    """The name of a file as one word of a command line.

    With ./ before a name that would be an option, or a tensor as text.
    """
    if _UNLIKE_A_FILE.match(path):
        path = f"./{path}"
    return quote(path)


def expand_pattern(word: str) -> list[str]:
    """The files that a pattern on the command line names, on Windows, where no shell expands it.

    Any other word, and any word elsewhere, stays as it is.
    """
    if sys.platform == "win32":
        is_option_or_list = word.startswith(("-", "["))
        is_pattern = "*" in word or "?" in word
        if is_pattern and not is_option_or_list:
            return sorted(glob.glob(word)) or [word]
    return [word]


def pip(words: str) -> str:
    """The command with which pip changes the packages of this Python, not those of another one."""
    import shutil  # few messages are about packages

    if not sys.executable:
        return f"pip {words}"
    own_folder = Path(sys.executable).parent.resolve()
    pip_path = shutil.which("pip")
    if pip_path and Path(pip_path).resolve().parent == own_folder:
        return f"pip {words}"
    return f"{quote(sys.executable)} -m pip {words}"


# Signals and streams


# struct sigaction of Linux on 64-bit machines: where its flags are, a flag, and more than its size.
_SA_FLAGS_AT = 136
_SA_RESETHAND = 0x80000000
_SIGACTION_BYTES = 256


def end_by_second(number: int) -> None:
    """Let the second signal of this number end the process, also in the middle of C code.

    Python calls a handler only between two steps of Python code, so that a second Ctrl-C does
    nothing as long as HDF5 waits for a disk. With the flag SA_RESETHAND, Linux itself puts back the
    default action after the first signal. Python has no function for that flag. On other systems,
    the handler alone acts.
    """
    sigaction = _c_function("sigaction")
    if sigaction is None or sys.maxsize <= 1 << 32:
        return
    import ctypes  # few commands write files

    action = ctypes.create_string_buffer(_SIGACTION_BYTES)
    if sigaction(number, None, action) == 0:
        flags = ctypes.c_uint32.from_buffer(action, _SA_FLAGS_AT)
        flags.value |= _SA_RESETHAND
        sigaction(number, action, None)


def end_by(number: int) -> NoReturn:
    """End by that signal's own action, so that a loop of a shell stops, too."""
    if sys.platform == "win32":
        os._exit(0xC000013A - (1 << 32))  # STATUS_CONTROL_C_EXIT
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)


def is_reader_gone(error: OSError) -> bool:
    """Whether a failed write means that nobody reads the pipe any more."""
    return isinstance(error, BrokenPipeError) or (
        sys.platform == "win32" and error.errno == errno.EINVAL
    )


def text_encoding(stream: Any) -> str:  # noqa: ANN401 - what Python has opened
    """The encoding of a standard stream; "" for Windows' console, where only Python can write."""
    if sys.platform == "win32":
        if stream.isatty():
            return ""
        return str(stream.encoding) if os.environ.get("PYTHONIOENCODING") else "utf-8"
    return str(stream.encoding)


# Processes


def name_of_standard_output() -> str:
    """The name of the file that standard output is written to; "" for anything else."""
    try:
        if not stat.S_ISREG(os.fstat(1).st_mode):
            return ""
        if sys.platform == "linux":
            return os.readlink("/proc/self/fd/1")
        if sys.platform == "darwin":
            import fcntl  # only macOS needs it

            path = fcntl.fcntl(1, fcntl.F_GETPATH, bytes(1024))
            return os.fsdecode(path.rstrip(b"\0"))
        if sys.platform == "win32":
            room = ctypes.create_unicode_buffer(32768)
            handle = wintypes.HANDLE(msvcrt.get_osfhandle(1))
            _library.GetFinalPathNameByHandleW(handle, room, len(room), 0)
            return room.value
    except (OSError, ValueError):  # it is closed, or the system does not say
        return ""
    return ""


def cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return getattr(os, "process_cpu_count", os.cpu_count)() or 1


def can_fork() -> bool:
    """Whether a fork is safe: no other thread is in the process, which Linux alone tells."""
    # A thread may be listed for some milliseconds after its end.
    for moment in (0.0, 0.001, 0.002, 0.004, 0.008) if sys.platform == "linux" else ():
        time.sleep(moment)
        if len(os.listdir("/proc/self/task")) == 1:
            return True
        if threading.active_count() > 1:
            break
    return False


def end_with(parent: int) -> bool:
    """Let the system kill this process when its parent's thread ends, even while it is stopped.

    False if the system cannot.
    """
    if sys.platform != "linux":
        return False
    prctl = _c_function("prctl")
    if not prctl or prctl(1, signal.SIGKILL):  # PR_SET_PDEATHSIG
        return False
    if os.getppid() != parent:  # it ended before
        os._exit(1)
    return True


def keep_freed_memory() -> None:
    """Let glibc keep freed memory for the next arrays; with another C library nothing changes.

    By default, glibc returns each array of some MiB to the system, which clears every page before
    the next array gets it: 1 GiB in memory took 1.6 times as long on one core and on two, and 2 GiB
    1.15 times as long on eight.
    """
    if mallopt := _c_function("mallopt"):
        mallopt(-3, 1 << 25)  # M_MMAP_THRESHOLD: the highest that glibc accepts
        mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD


@functools.cache  # ctypes makes a class each time
def _c_function(name: str) -> Any:  # noqa: ANN401 - of ctypes
    """A function of Linux's C library; None where it has none of this name."""
    if sys.platform != "linux":
        return None
    import ctypes  # costs 5 ms, and --help must not pay for it

    return getattr(ctypes.CDLL(None), name, None)
