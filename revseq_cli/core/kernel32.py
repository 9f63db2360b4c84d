"""Windows, by its own library: what Python has not, or not so that others may rename an open file; see `system`.

Files are opened so that others may rename or remove them, as on POSIX systems: a temporary file goes away even while a
worker that is being killed has it open. Each function raises the OSError of the call that failed.
"""

from __future__ import annotations

import ctypes
import errno
import msvcrt
import os
import signal
import sys
import time
from ctypes import wintypes
from typing import TYPE_CHECKING

from revseq_cli.core import windows

if TYPE_CHECKING:
    from collections.abc import Callable

assert sys.platform == "win32"  # noqa: S101 - type checkers pass over the rest elsewhere

_library = ctypes.WinDLL("kernel32", use_last_error=True)
_rights = ctypes.WinDLL("advapi32")
_INVALID = wintypes.HANDLE(-1).value
_SHARED = 1 | 2 | 4  # others may read, write, and rename or remove
_CREATE_NEW, _OPEN_EXISTING = 1, 3
_NORMAL = 0x80  # FILE_ATTRIBUTE_NORMAL
_DACL = 4  # DACL_SECURITY_INFORMATION
_CLOSING = 3.0  # seconds to undo work when the console is closed; after five the system ends the process


class _Attributes(ctypes.Structure):
    """SECURITY_ATTRIBUTES: who may do what with a new file."""

    _fields_ = (("size", wintypes.DWORD), ("descriptor", ctypes.c_void_p), ("inherited", wintypes.BOOL))


_library.CreateFileW.restype = wintypes.HANDLE
_library.CreateFileW.argtypes = (
    wintypes.LPCWSTR, wintypes.DWORD, wintypes.DWORD, ctypes.c_void_p, wintypes.DWORD, wintypes.DWORD, wintypes.HANDLE,
)  # fmt: skip
_library.SetFilePointerEx.argtypes = (wintypes.HANDLE, ctypes.c_int64, ctypes.c_void_p, wintypes.DWORD)
_library.GetFileInformationByHandleEx.argtypes = (wintypes.HANDLE, ctypes.c_int, ctypes.c_void_p, wintypes.DWORD)
_library.SetEndOfFile.argtypes = (wintypes.HANDLE,)


def _error(path: str | None = None) -> OSError:
    number = ctypes.get_last_error()
    error = ctypes.WinError(number)
    # Of the class that goes with the number, and without the dot at the end of the system's sentence.
    return OSError(error.errno, (error.strerror or "").rstrip(". "), path, number)


def open_file(path: str, flags: int) -> int:
    """A descriptor of a file that exists, opened as one of the constants says."""
    path = windows.plain_path(path)
    try:
        return _descriptor(_library.CreateFileW(path, flags, _SHARED, None, _OPEN_EXISTING, _NORMAL, None), path)
    except PermissionError:  # as Windows says of a folder
        if os.path.isdir(path):  # noqa: PTH112 - any text
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path) from None
        raise


def create_file(path: str, mode: int, like: str = "") -> int:  # noqa: ARG001 - Windows has lists of rights
    """A descriptor of a new file, with the rights of the file `like`, which it will replace, or those of its folder."""
    path = windows.plain_path(path)
    attributes, _kept = _rights_of(windows.plain_path(like)) if like else (None, None)
    return _descriptor(
        _library.CreateFileW(path, windows.UPDATE, _SHARED, attributes, _CREATE_NEW, _NORMAL, None), path
    )


def _descriptor(handle: int, path: str) -> int:
    if handle == _INVALID:
        raise _error(path)
    return msvcrt.open_osfhandle(handle, os.O_NOINHERIT)


def _rights_of(path: str) -> tuple[object, object]:
    """A pointer to the rights of a file, and the memory that they are in; None on file systems that have none."""
    needed = wintypes.DWORD()
    _rights.GetFileSecurityW(path, _DACL, None, 0, ctypes.byref(needed))
    memory = ctypes.create_string_buffer(needed.value)
    if not needed.value or not _rights.GetFileSecurityW(path, _DACL, memory, needed, ctypes.byref(needed)):
        return None, None
    attributes = _Attributes(ctypes.sizeof(_Attributes), ctypes.addressof(memory), False)
    return ctypes.byref(attributes), memory


def reserve(fd: int, size: int) -> None:
    """Give the file at least that size, and its bytes on the disk. Python's ftruncate would write zeros up to it."""
    handle = msvcrt.get_osfhandle(fd)
    if os.fstat(fd).st_size >= size:
        return
    if not _library.SetFilePointerEx(handle, size, None, 0) or not _library.SetEndOfFile(handle):
        raise _error()


def touched(fd: int, status: os.stat_result) -> int:  # noqa: ARG001 - Python's has when it was made
    """When the content, rights or names of an open file changed last, by the system's own clock in units of 100 ns."""
    facts = (ctypes.c_int64 * 5)()  # FILE_BASIC_INFO: three other times, this one, and attributes
    if not _library.GetFileInformationByHandleEx(msvcrt.get_osfhandle(fd), 0, facts, ctypes.sizeof(facts)):
        raise _error()
    return facts[3]


_listening: list[object] = []  # which must stay: the system calls them


def listen(handle: Callable[[int], None]) -> None:
    """Call `handle`, in a thread of its own, for each event of the console, since there is work to undo."""
    if _listening:
        return

    def happened(event: int) -> bool:
        """Tell of Ctrl-C or Ctrl-Break; of a console that closes, too, and keep the system waiting meanwhile."""
        handle(signal.SIGINT if event == signal.CTRL_C_EVENT else signal.SIGBREAK)
        if event > signal.CTRL_BREAK_EVENT:
            time.sleep(_CLOSING)
            handle(signal.SIGBREAK)
            time.sleep(_CLOSING)
        return True

    handler = ctypes.WINFUNCTYPE(wintypes.BOOL, wintypes.DWORD)(happened)
    _listening.append(handler)
    _library.SetConsoleCtrlHandler(handler, True)  # where it fails, there is no console that could send an event
