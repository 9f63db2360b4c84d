"""Errors of the operating system about files, in words, and the checks of standard streams."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from revseq_cli.core import platform, signals
from revseq_cli.core.errors import DiskFullError, TensorIOError

_Result = TypeVar("_Result")
# Seconds to wait for another program that has the file open, such as a virus scanner.
_LONGEST_USE = 2.0
_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}  # what says that there is no room
_HINTS = {
    errno.ENOSPC: "free some space, or write to another disk",
    errno.EACCES: "check the permissions, or write to another folder",
}


def make_os_error(path: str | Path, doing: str, error: OSError) -> TensorIOError:
    """The TensorIOError for an OSError; `doing` is "read", "write" or another verb."""
    if platform.is_in_use(error):
        return make_in_use_error(path, doing)
    kind = DiskFullError if error.errno in _FULL else TensorIOError
    hint = _HINTS.get(error.errno or 0, "") if doing == "write" else ""
    return kind(f"cannot {doing}: {error.strerror or error}", hint=hint, where=str(path))


def make_in_use_error(path: str | Path, doing: str) -> TensorIOError:
    """The error for a file that another program has open, and keeps from others."""
    found = f"cannot {doing}: another program has it open"
    expected = "a file that no other program has locked"
    return TensorIOError(found, expected, "close it there, and run the command again", str(path))


@contextlib.contextmanager
def wrap_os_errors(path: str | Path, doing: str) -> Iterator[None]:
    """Raise a TensorIOError for an OSError inside; `doing` is "read", "write" or another verb."""
    try:
        yield
    except TensorIOError:
        raise
    except OSError as e:
        raise make_os_error(path, doing, e) from None


def retry_while_in_use(
    call: Callable[[], _Result],
    may_pass: Callable[[OSError], bool] = platform.is_in_use,
    *,
    stops: bool = True,
) -> _Result:
    """The result of a call, which is repeated for two seconds while its error `may_pass`.

    A signal raises Stopped in between, unless `stops` is false, as when work is undone.
    """
    deadline = 0.0
    while True:
        try:
            return call()
        except OSError as e:
            deadline = deadline or time.monotonic() + _LONGEST_USE
            if not may_pass(e) or time.monotonic() > deadline:
                raise
        if stops:
            signals.check()
        time.sleep(signals.PATIENCE / 10)


def is_standard_stream(status: os.stat_result, number: int) -> bool:
    """Whether the standard stream of that number is the regular file of that status."""
    try:
        return stat.S_ISREG(status.st_mode) and os.path.samestat(status, os.fstat(number))
    except OSError:  # the stream is closed
        return False


def refuse_standard_output(status: os.stat_result, name: str) -> None:
    """TensorIOError if standard output is the file of that status, which is an input.

    Standard output then goes to the null device, since no error as JSON may be written into an
    input, either.
    """
    if is_standard_stream(status, 1):
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
        raise TensorIOError(
            "standard output goes there", "another file", "redirect to another file", name
        )
