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

# Files
#
# READ, WRITE and UPDATE are flags for `open_descriptor`. A pipe is not waited for when it is opened
# to be read, and no link is followed when a file is opened to be written.

if sys.platform == "win32":
    import ctypes
    import glob
    import msvcrt
    from ctypes import wintypes

    READ = 0x80000000  # GENERIC_READ
    WRITE = 0x40000000  # GENERIC_WRITE
    UPDATE = READ | WRITE
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
    _SHARED = 1 | 2 | 4  # others may read, write, and remove or rename
    _CREATE_NEW = 1
    _OPEN_EXISTING = 3
    _NORMAL = 0x80

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
    WRITE = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    UPDATE = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    # Is added to WRITE to write past the page cache; 0 if the system has no such way.
    DIRECT = getattr(os, "O_DIRECT", 0)
    MAKE_FOLDER = "mkdir -p"
    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    MOST_PROCESSES = sys.maxsize


def open_descriptor(path: str, flags: int) -> int:
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
    """Let the system copy bytes from file to file; how many it copied, and 0 if it cannot."""
    if sys.platform != "linux" or not hasattr(os, "copy_file_range"):
        return 0
    try:
        return os.copy_file_range(source, target, count, offset, to)
    except OSError:
        # It cannot copy between these file systems. Any other error comes again when the caller
        # copies the bytes.
        return 0


def reserve(fd: int, size: int) -> None:
    """Give the file at least that size, and reserve its bytes on the disk if the system can."""
    old_size = os.fstat(fd).st_size
    if lies_in_memory(fd):
        _require_space(fd, size)
    elif _allocate(fd, size):
        return
    if old_size < size:
        _extend(fd, size)


def _require_space(fd: int, size: int) -> None:
    """OSError if a file system in memory has no room for the file.

    The bytes are not reserved: posix_fallocate would take every page in advance, in one process, in
    0.8 s for 4 GiB. 16 processes write them in 0.6 s.
    """
    if sys.platform == "win32":
        return  # it has no such file systems
    space = os.fstatvfs(fd)
    is_limited = space.f_blocks > 0
    needed = size - 512 * os.fstat(fd).st_blocks
    if is_limited and space.f_bavail * space.f_frsize < needed:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _allocate(fd: int, size: int) -> bool:
    """Reserve the bytes of a file, which has that size then; False if the system cannot."""
    if not hasattr(os, "posix_fallocate"):
        return False
    try:
        os.posix_fallocate(fd, 0, size)
    except OSError as e:
        if e.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise
        return False
    return True


def _extend(fd: int, size: int) -> None:
    if sys.platform == "win32":  # Python's ftruncate would write zeros
        handle = msvcrt.get_osfhandle(fd)
        has_moved = _library.SetFilePointerEx(handle, size, None, 0)
        if not (has_moved and _library.SetEndOfFile(handle)):
            raise _last_error()
    else:
        os.ftruncate(fd, size)


def lies_in_memory(file: int | str) -> bool:
    """Whether a file, open or named, is on a file system without a disk; only Linux reports it."""
    return os.stat(file).st_dev in _devices_in_memory()


@functools.cache  # a worker opens a file for each block
def _devices_in_memory() -> set[int]:
    devices: set[int] = set()
    if sys.platform != "linux":
        return devices
    with contextlib.suppress(OSError):
        # Only \n ends a line: other line breaks may be part of a mount point. A line is such as
        # 36 35 98:0 /mnt1 /mnt2 rw - tmpfs tmpfs rw
        for line in Path("/proc/self/mountinfo").read_bytes().split(b"\n"):
            if line.partition(b" - ")[2].startswith((b"tmpfs ", b"ramfs ")):
                major, minor = line.split()[2].split(b":")
                devices.add(os.makedev(int(major), int(minor)))
    return devices


_MADV_POPULATE_WRITE = 23  # since Linux 5.14; Python has no name for it


def map_pages(path: str) -> mmap.mmap | None:
    """The pages of a file, for `write_pages`; None if the system cannot map it."""
    try:
        fd = os.open(path, UPDATE)
        try:
            return mmap.mmap(fd, 0)
        finally:
            os.close(fd)
    except (OSError, ValueError):  # ValueError for an empty file
        return None


def write_pages(pages: mmap.mmap, data: memoryview, offset: int) -> bool:
    """Write bytes at that offset of a mapped file; False if the system does not give the pages.

    They are asked for first, since writing into one for which there is no room would end the
    process by SIGBUS. An ordinary write then gives the error. An older Linux gives no pages at all.
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
    """Let the system begin to bring a part of a file to the disk, and do not wait for it.

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

        unsupported = (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY)  # by a file system
        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
            return
        except OSError as e:
            if e.errno not in unsupported:
                raise
    os.fsync(fd)


def sync_folder(path: str) -> None:
    """Return when the names in a folder are on the disk.

    Windows needs no call: it writes names in the order in which they were given.
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
    has_group = _change_owner(fd, like.st_uid, like.st_gid) or _change_owner(fd, -1, like.st_gid)
    if not has_group:
        # The file keeps this user's group, whose members had only the rights of others.
        rights_of_others = mode & 0o007
        mode = mode & 0o707 | rights_of_others << 3
    with contextlib.suppress(PermissionError):  # some file systems set modes of their own
        os.fchmod(fd, mode)


def _change_owner(fd: int, user: int, group: int) -> bool:
    """Whether the file has that owner now; a file system or a container may not know them."""
    if sys.platform == "win32":
        return False  # it has other owners
    with contextlib.suppress(OSError):
        os.fchown(fd, user, group)
        return True
    return False


def rename_file(temporary: str, final: Path, *, free: bool) -> None:
    """Give a file its name in one step. With `free`, FileExistsError if the name is taken."""
    if not free:
        Path(temporary).replace(final)
    elif sys.platform == "win32":
        Path(temporary).rename(final)
    elif not _link(temporary, final):
        Path(temporary).replace(final)


def _link(temporary: str, final: Path) -> bool:
    """Give a file a second name, if that is free; False on a file system without hard links.

    A link, unlike a rename, never replaces a file that another program has just created.
    """
    try:
        os.link(temporary, final)
    except OSError:
        if final.exists():
            raise
        return False
    return True


_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def exchange_folders(new: str, old: str) -> None:
    """Exchange the names of two folders.

    Linux does it in one step on most file systems. Elsewhere nothing is named `old` for a moment.
    """
    rename = _c_function("renameat2")
    if rename:
        paths = (_AT_FDCWD, os.fsencode(new), _AT_FDCWD, os.fsencode(old))
        if rename(*paths, _RENAME_EXCHANGE) == 0:
            return
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
_ACCESS_DENIED = 5


def is_in_use(error: OSError) -> bool:
    """Whether the error says that another program has locked the file."""
    return getattr(error, "winerror", 0) in _IN_USE


def keeps_name(error: OSError) -> bool:
    """Whether renaming or removing a file failed because another program has it open."""
    return getattr(error, "winerror", 0) in (_ACCESS_DENIED, *_IN_USE)


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
# How tensors begin as NumPy, PyTorch, JAX and TensorFlow print them; a bracket follows a CALL.
CALL = r"(?:(?:np|numpy|torch|jnp|jax|tf)\.)?(?:array|tensor|Array|DeviceArray|Tensor)\(\s*"
ANGLE = r"<tf\.(?:Tensor|Variable)\b"
# A tensor as text, which the command does not take for the name of a file.
TYPED_TENSOR = re.compile(rf"\s*(?:\[|{ANGLE}|{CALL}\[)")
# What the command would take for an option. A hyphen by itself, or before ::, is standard input.
_LIKE_AN_OPTION = re.compile(r"-(?!::|$)")


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
    names = [name for name in re.split(r"[\\/]", rest) if name not in (".", "..")]
    wrong = [name for name in names if _NO_NAME.fullmatch(name)]
    if drive.replace("/", "\\").startswith("\\\\.\\"):
        wrong.insert(0, drive)
    return f"{wrong[0]!r} is a device, a stream, or no name on Windows" if wrong else ""


def real_path(path: str) -> str:
    """The path of the file itself, without links."""
    try:
        return plain_path(os.path.realpath(path))
    except OSError:  # some file systems of Windows do not say where a link leads
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
        if os.path.islink(resolved):
            return real_path(path)
        return resolved

    return resolve


def plain_path(path: str) -> str:
    r"""The path as the system takes it; long ones of Windows get the prefix \\?\."""
    if sys.platform == "win32":
        whole = os.path.abspath(path)
        has_prefix = whole.startswith(("\\\\?\\", "\\\\.\\"))
        if has_prefix or len(whole) <= _LONGEST_PATH:
            return path
        is_on_server = whole.startswith("\\\\")
        return f"\\\\?\\UNC{whole[1:]}" if is_on_server else f"\\\\?\\{whole}"
    return path


def name_key(path: str) -> str:
    """A key that all real paths of one file share, even of one to be made.

    Capitals and small letters are equal on systems where they name the same file.
    """
    return path.casefold() if sys.platform == "darwin" else os.path.normcase(path)


def quote(text: str) -> str:
    """The text as one word of a command line."""
    if sys.platform == "win32":
        return _quote_for_windows(text)
    if text.isprintable():
        return shlex.quote(text)
    return f"$'{''.join(map(_escape_character, text))}'"


def _quote_for_windows(text: str) -> str:
    """The text in quotes, if it needs them, as the C library of Windows reads it."""
    if re.fullmatch(r"[\w./\\:=+~-]+", text):
        return text
    # Backslashes are doubled before a quote, and before the end, where a quote will follow.
    doubled = re.sub(r'(\\+)("|$)', r"\1\1\2", text)
    return '"' + doubled.replace('"', '\\"') + '"'


def _escape_character(c: str) -> str:
    """A character inside $'...', which bash, zsh and ksh know."""
    if c.isprintable() and c not in "'\\":
        return c
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(c))


def as_argument(path: str) -> str:
    """The name of a file as one word of a command line.

    The command does not take it for an option, nor for a tensor as text.
    """
    if TYPED_TENSOR.match(path) or _LIKE_AN_OPTION.match(path):
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
    """A pip command that is sure to be about this Python, and not about another one."""
    import shutil  # few messages are about packages

    if not sys.executable:
        return f"pip {words}"
    own_folder = Path(sys.executable).parent.resolve()
    pip_path = shutil.which("pip")
    if pip_path and Path(pip_path).resolve().parent == own_folder:
        return f"pip {words}"
    return f"{quote(sys.executable)} -m pip {words}"


# Signals and streams


# struct sigaction of Linux on 64-bit machines: where its flags are, a flag, and room for it.
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
    """Whether a fork is safe: no other thread is in the process, which only Linux tells.

    A thread may be listed for some milliseconds after its end.
    """
    if sys.platform != "linux":
        return False
    for pause in (0.0, 0.001, 0.002, 0.004, 0.008):
        time.sleep(pause)
        if len(os.listdir("/proc/self/task")) == 1:
            return True
        if threading.active_count() > 1:
            return False
    return False


_PR_SET_PDEATHSIG = 1


def end_with(parent: int) -> bool:
    """Let the system kill this process when its parent's thread ends, even while it is stopped.

    False if the system cannot.
    """
    if sys.platform != "linux":
        return False
    prctl = _c_function("prctl")
    if not prctl or prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        return False
    if os.getppid() != parent:  # it ended before
        os._exit(1)
    return True


_M_MMAP_THRESHOLD = -3
_M_TRIM_THRESHOLD = -1


def keep_freed_memory() -> None:
    """Let glibc keep freed memory for the next arrays; with another C library nothing changes.

    By default, glibc returns each array of some MiB to the system, which clears every page before
    the next array gets it: 1 GiB in memory took 1.6 times as long on one core and on two, and 2 GiB
    1.15 times as long on eight.
    """
    mallopt = _c_function("mallopt")
    if mallopt:
        mallopt(_M_MMAP_THRESHOLD, 1 << 25)  # the highest that glibc accepts
        mallopt(_M_TRIM_THRESHOLD, 1 << 30)


@functools.cache  # ctypes makes a class each time
def _c_function(name: str) -> Any:  # noqa: ANN401 - of ctypes
    """A function of Linux's C library; None if it has none of this name."""
    if sys.platform != "linux":
        return None
    import ctypes  # costs 5 ms, and --help must not pay for it

    return getattr(ctypes.CDLL(None), name, None)
