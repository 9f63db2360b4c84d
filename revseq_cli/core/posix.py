"""POSIX systems: Linux, and macOS, which lacks some of it. `windows` has the same functions; see `system`."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import shlex
import signal
import stat
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

assert sys.platform != "win32"  # noqa: S101 - type checkers pass over the rest there

# Files

# How to open a file. A pipe is not waited for. A new file is no link; another user who may write to its folder could
# put one in its place.
_ANY = getattr(os, "O_CLOEXEC", 0)
READ = os.O_RDONLY | _ANY | os.O_NONBLOCK
WRITE = os.O_WRONLY | _ANY | os.O_NOFOLLOW
UPDATE = os.O_RDWR | _ANY | os.O_NOFOLLOW
APPEND = WRITE | os.O_APPEND
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | _ANY
DIRECT = getattr(os, "O_DIRECT", 0)  # with WRITE, past the page cache; 0 where there is no such way
_IN_MEMORY = ("tmpfs ", "ramfs ")  # the names of file systems without a disk, as Linux has them
LISTS_STATUS = True  # a folder that is listed tells the whole status of its files
MAKE_FOLDER = "mkdir -p"  # the command, for hints


def open_file(path: str, flags: int) -> int:
    """A descriptor of a file that exists, opened as one of the constants says."""
    return os.open(path, flags)


def create_file(path: str, mode: int, like: str = "") -> int:  # noqa: ARG001 - the mode says it all
    """A descriptor of a new file of that mode; `like` names the file that it will replace, if there is one."""
    return os.open(path, _NEW, mode)


def read_at(fd: int, buffer: memoryview, offset: int) -> int:
    """Read bytes from that offset into the buffer; how many, and 0 at the end of the file."""
    if hasattr(os, "preadv"):
        return os.preadv(fd, [buffer], offset)
    data = os.pread(fd, len(buffer), offset)
    buffer[: len(data)] = data
    return len(data)


def write_at(fd: int, data: memoryview, offset: int) -> int:
    """Write bytes at that offset; how many."""
    return os.pwrite(fd, data, offset)


def copy_range(source: int, target: int, offset: int, to: int, count: int) -> int:
    """The number of bytes that the system has copied by itself; 0 where it cannot, or where it fails."""
    if not hasattr(os, "copy_file_range"):
        return 0
    try:
        return os.copy_file_range(source, target, count, offset, to)
    except OSError:  # not between these file systems; any other error shows again when the bytes are written
        return 0


def reserve(fd: int, size: int) -> None:
    """Give the file at least that size, and its bytes on the disk where the system can reserve them.

    In memory, one thread would take every page beforehand: 0.8 s for 4 GiB, which 16 processes write in 0.6 s. There
    the free space is looked at, and nothing is reserved.
    """
    if lies_in_memory(fd):
        _require_space(fd, size)
    elif hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(fd, 0, size)
        except OSError as e:
            if e.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
        else:
            return
    if os.fstat(fd).st_size < size:
        os.ftruncate(fd, size)


def _require_space(fd: int, size: int) -> None:
    """OSError if the file system has too few free bytes for an open file of that size."""
    space, status = os.fstatvfs(fd), os.fstat(fd)
    is_limited = space.f_blocks > 0
    if is_limited and space.f_bavail * space.f_frsize < size - 512 * status.st_blocks:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def lies_in_memory(file: int | str) -> bool:
    """Whether a file, which is open or has that path, is of a file system without a disk, which Linux alone tells."""
    try:
        return os.stat(file).st_dev in _devices_in_memory()  # noqa: PTH116 - a path, or an open file
    except FileNotFoundError:  # who opens it says so
        return False


@functools.cache  # a worker opens a file for each block
def _devices_in_memory() -> frozenset[int]:
    """The device numbers of all file systems without a disk."""
    try:
        # Lines end with \n alone: other line breaks may be part of a mount point.
        mounts = Path("/proc/self/mountinfo").read_bytes().decode(errors="replace").removesuffix("\n").split("\n")
    except OSError:
        return frozenset()
    found = [line.split()[2] for line in mounts if line.partition(" - ")[2].startswith(_IN_MEMORY)]
    return frozenset(os.makedev(*map(int, device.split(":"))) for device in found)


def begin_flush(fd: int, offset: int, count: int) -> None:
    """Let the system begin to bring a part of a file to the disk, where it can be asked to, and go on meanwhile.

    Without it, a command that keeps another dataset of 768 MiB takes 1.4 times as long. It is for parts that follow
    each other: a tensor in runs of 16 KiB, all over its file, took twice as long with it. What is on the disk
    already leaves the page cache.
    """
    if hasattr(os, "posix_fadvise"):
        with contextlib.suppress(OSError):  # a file system without it flushes all at the end
            os.posix_fadvise(fd, offset, count, os.POSIX_FADV_DONTNEED)


def flush(fd: int) -> None:
    """Return when the file is on the disk. On macOS fsync leaves it in the memory of the drive, and F_FULLFSYNC not."""
    import fcntl  # few commands need it

    if hasattr(fcntl, "F_FULLFSYNC"):
        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        except OSError as e:
            if e.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):  # of a file system without it
                raise
        else:
            return
    os.fsync(fd)


def lock(fd: int) -> bool:
    """Lock an open file for this process and those that it forks; False while another has it locked.

    It ends with the last of these processes. Where the file system has no locks, there is none.
    """
    import fcntl  # few commands need it

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as e:
        if e.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
            raise
    return True


def flush_folder(path: str) -> None:
    """Return when the names in a folder are on the disk."""
    fd = os.open(path, os.O_RDONLY | _ANY)
    try:
        flush(fd)
    finally:
        os.close(fd)


def give_rights(fd: int, like: os.stat_result) -> None:
    """Give the open file owner, group and mode of `like`, as far as this user may; nobody gets rights that none had."""
    mode = like.st_mode & 0o777  # without set-user-ID and the like: a tensor is not executed
    for owner in (like.st_uid, -1):
        with contextlib.suppress(OSError):  # a file system or a container may not know these users
            os.fchown(fd, owner, like.st_gid)
            break
    else:  # the group stays another one, which gets the rights of all others
        mode = mode & ~0o070 | (mode & 0o007) << 3
    with contextlib.suppress(PermissionError):  # some file systems set modes of their own
        os.fchmod(fd, mode)


def touched(fd: int, status: os.stat_result) -> int:  # noqa: ARG001 - the status has it
    """When the content, rights or names of an open file changed last, in a unit of the system, by its own clock."""
    return status.st_ctime_ns


def is_protected(status: os.stat_result) -> bool:  # noqa: ARG001 - the folder's rights decide
    """Whether the system refuses to replace a file of that status."""
    return False


def take_free_name(temporary: str, final: Path) -> None:
    """Give the file a name that nothing has; FileExistsError if something has it."""
    try:  # a link, unlike a rename, never replaces what came to stand there in the meantime
        os.link(temporary, final)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if final.exists():
            raise
        Path(temporary).replace(final)


def is_in_use(error: OSError) -> bool:  # noqa: ARG001 - here nobody keeps another from a file
    """Whether the error is that another program has the file open: then it may pass."""
    return False


def keeps_name(error: OSError) -> bool:  # noqa: ARG001
    """Whether a file may keep its name, which was to be taken or removed, since another program has it open."""
    return False


def is_read_only(folder: Path) -> bool:
    """Whether the folder's file system is mounted read-only."""
    return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


# Names

_IS_MAC = sys.platform == "darwin"


def system_fault(path: str) -> str:  # noqa: ARG001 - any text is a name
    """Why the path names no file, though the system would take it; nothing if it does."""
    return ""


def real_path(path: str) -> str:
    """The path of the file itself, without links."""
    return os.path.realpath(path)


def plain_path(path: str) -> str:
    """The path as the system takes it, of any length."""
    return path


def name_key(path: str) -> str:
    """What is equal for two real paths of one file, which may not be there yet: without case where names have none."""
    return path.casefold() if _ignores_case(os.path.dirname(path)) else path  # noqa: PTH120 - a string


def _ignores_case(folder: str) -> bool:
    """Whether the folder's names are the same in upper and lower case, which macOS alone can be asked for."""
    if not _IS_MAC:
        return False
    try:
        return os.pathconf(folder, 11) == 0  # _PC_CASE_SENSITIVE, for which Python has no name
    except OSError:  # there is no such folder, or its file system does not know
        return False


def quoted(text: str) -> str:
    """The text as one word of a command line; one with line breaks and the like as bash, zsh and ksh type them."""
    if text.isprintable():
        return shlex.quote(text)
    return f"$'{''.join(map(_escaped, text))}'"


def _escaped(c: str) -> str:
    """A character between $' and '."""
    if c.isprintable():
        return f"\\{c}" if c in "\\'" else c
    named = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return named.get(c) or "".join(f"\\{byte:03o}" for byte in c.encode("utf-8", "surrogateescape"))


def cut(path: str, size: int) -> str:
    """The command that keeps the first `size` bytes of a file, for hints."""
    return f"head -c {size} < {quoted(path)} > new{os.path.splitext(path)[1]}"  # noqa: PTH122 - any text


def names(word: str) -> list[str]:
    """What a word of the command line stands for: itself, since shells expand patterns."""
    return [word]


# Signals and streams

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def watch(handle: Callable[[int], None]) -> None:
    """Call `handle` for each signal; one that is ignored, as SIGHUP under nohup, stays so."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: handle(number))


def listen(handle: Callable[[int], None]) -> None:
    """From now on there is work to undo. `watch` has done it all."""


def after(seconds: float, function: Callable[[], object]) -> None:
    """Call the function after so many seconds, instead of an earlier one."""
    signal.signal(signal.SIGALRM, lambda *_: function())
    signal.setitimer(signal.ITIMER_REAL, seconds)


@contextlib.contextmanager
def masked() -> Iterator[None]:
    """Block the signals inside; processes and threads that start there inherit that. Pending ones arrive at the end."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def unmask(numbers: Sequence[int] = SIGNALS) -> None:
    """Let the signals through."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)


def end_by(number: int) -> NoReturn:
    """End by that signal's default action, so that a loop of a shell stops, too."""
    signal.signal(number, signal.SIG_DFL)
    unmask([number])
    os.kill(os.getpid(), number)
    os._exit(128 + number)


def may_block(fd: int) -> bool:
    """Whether writing may wait for a reader, as for a pipe or a terminal; False for a descriptor that fstat refuses."""
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISBLK(mode))


def name_behind(fd: int) -> str:
    """The path of the regular file that a descriptor is open on; nothing where the system cannot tell it."""
    try:
        return str(Path(f"/proc/self/fd/{fd}").readlink()) if stat.S_ISREG(os.fstat(fd).st_mode) else ""
    except OSError:
        return ""


def ready_part(fd: int, data: memoryview, seconds: float) -> memoryview | None:
    """What can be written of the data without waiting; None if the reader takes nothing in that time."""
    import select  # few commands need it

    ready = select.poll()
    ready.register(fd, select.POLLOUT)
    return data[: select.PIPE_BUF] if ready.poll(1000 * seconds) else None


def is_reader_gone(error: OSError) -> bool:
    """Whether a failed write means that nobody reads the pipe any more."""
    return isinstance(error, BrokenPipeError)


def text_encoding(stream: Any) -> str:  # noqa: ANN401 - what Python has opened
    """The encoding of a standard stream; nothing if only Python's own stream can write there."""
    return str(stream.encoding)


# Processes

FORKS = sys.platform == "linux"  # only Linux tells how many threads there are, and no fork is safe with several


def cores() -> int:
    """The number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def start_tracker() -> None:
    """Start multiprocessing's resource tracker, which otherwise starts with the first process."""
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()


MOST_PROCESSES = sys.maxsize  # that one process can wait for
_LAST_MOMENTS = (0.0, 0.001, 0.002, 0.004, 0.008)  # seconds that a thread may be listed after its end
_PR_SET_PDEATHSIG = 1  # Linux; Python has no name for it


def can_fork() -> bool:
    """Whether a fork is safe: no other thread is in the process. One that has just ended is listed for a moment."""
    for moment in _LAST_MOMENTS if FORKS else ():
        time.sleep(moment)
        if len(list(Path("/proc/self/task").iterdir())) == 1:
            return True
        if threading.active_count() > 1:
            break
    return False


def end_with(parent: int) -> bool:
    """Let the system kill this process, also while it is stopped, when its parent ends; False where it cannot.

    It follows the thread that started this process, as its main one does.
    """
    if not FORKS:
        return False
    import ctypes  # few processes need it

    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if not prctl or prctl(_PR_SET_PDEATHSIG, signal.SIGKILL):
        return False
    if os.getppid() != parent:  # it ended before
        os._exit(1)
    return True


def how_ended(status: int | None) -> str:
    """How a process ended, by its exit status or minus its signal: "SIGKILL", or "exit status 1"."""
    if status is None or status >= 0:
        return f"exit status {status}"
    return next((each.name for each in signal.Signals if each == -status), f"signal {-status}")


# Memory

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # parameters of glibc's mallopt
_LARGEST_KEPT = 1 << 25  # bytes; the highest threshold that glibc accepts
_USUAL = 1 << 17  # bytes of both thresholds in glibc, if nothing else is said
_SAID = "MALLOC_TRIM_THRESHOLD_"  # an environment variable of glibc's, which dask sets for its workers


def keep_freed_memory() -> None:
    """Let glibc keep freed memory for the next arrays; with another C library nothing changes.

    By default glibc returns each array of some MiB to the system, which clears every page before the next array gets
    it: 1 GiB in memory took 1.6 times as long on one core and on two, and 2 GiB 1.15 times on eight. The process never
    keeps more than it had in use at once.
    """
    _set_thresholds(_LARGEST_KEPT, 1 << 30)


@contextlib.contextmanager
def keeping_freed_memory() -> Iterator[None]:
    """The same, inside the context, in a process that does other work too."""
    keep_freed_memory()
    try:
        yield
    finally:
        said = os.environ.get(_SAID, "")
        _set_thresholds(_USUAL, int(said) if said.isdecimal() else _USUAL)


def _set_thresholds(mmap_threshold: int, trim_threshold: int) -> None:
    mallopt = _mallopt() if sys.platform == "linux" else None
    if mallopt:
        mallopt(_MMAP_THRESHOLD, mmap_threshold)
        mallopt(_TRIM_THRESHOLD, trim_threshold)


@functools.cache
def _mallopt() -> Any:  # noqa: ANN401 - a function of C
    """The C library's function; None for one without it, as musl."""
    import ctypes  # costs 5 ms, and --help must not pay for it

    with contextlib.suppress(AttributeError, OSError):
        return ctypes.CDLL(None).mallopt
    return None
