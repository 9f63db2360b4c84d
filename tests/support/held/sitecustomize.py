"""Holds a command while it writes. PYTHONPATH leads here, so each of its processes begins with this.

A process that opens the temporary file of an output for the second time, to write the next block, says so with the file
`reached` in the folder $HELD, and waits there for the file `go`.
"""

import os
import sys
import time
from pathlib import Path

_HELD = Path(os.environ["HELD"])
_opened = []


def _hold(event, arguments):
    if event != "open" or not isinstance(arguments[0], str) or ".revseq-" not in arguments[0]:
        return
    if arguments[2] & (os.O_WRONLY | os.O_CREAT) != os.O_WRONLY:
        return
    _opened.append(arguments[0])
    if len(_opened) > 1:
        (_HELD / "reached").touch()
        while not (_HELD / "go").exists():
            time.sleep(0.01)


def _hold_on_windows(event, arguments):
    """As above. Python has no name for what opens files there, but for the descriptor that it gets; a file that is
    empty was just made.
    """
    if event != "msvcrt.open_osfhandle":
        return
    path = ctypes.create_unicode_buffer(1 << 10)
    ctypes.windll.kernel32.GetFinalPathNameByHandleW(
        ctypes.c_void_p(arguments[0]), path, len(path), 0
    )
    if ".revseq-" in path.value and os.path.getsize(path.value):
        (_HELD / "reached").touch()
        while not (_HELD / "go").exists():
            time.sleep(0.01)


if os.name == "nt":
    import ctypes
sys.addaudithook(_hold_on_windows if os.name == "nt" else _hold)
