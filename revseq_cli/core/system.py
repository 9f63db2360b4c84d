"""The operating system. `posix` and `windows` have the same functions and facts; those of this system are chosen here.

No other module asks which system it is. What one POSIX system has and another lacks is looked for when it is asked for.
"""

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if sys.platform != "win32":
    from revseq_cli.core.posix import *  # noqa: F403
else:
    from revseq_cli.core.windows import *  # noqa: F403

    if TYPE_CHECKING:
        from revseq_cli.core.kernel32 import *  # noqa: F403
    else:

        def __getattr__(name: str) -> Any:  # noqa: ANN401 - a function
            """One of the functions in `kernel32`, which is loaded for use alone, since it takes a while."""
            from revseq_cli.core import kernel32

            return globals().setdefault(name, getattr(kernel32, name))


# What would be an option, or a tensor as text, and not the name of a file.
_UNLIKE_A_FILE = re.compile(r"-(?!::|$)|\s*(?:(?:(?:np|numpy|torch)\.)?(?:array|tensor)\(\s*)?\[")


def take_name(temporary: str, final: Path) -> None:
    """Give the file a name in one step, whatever has it."""
    Path(temporary).replace(final)


def file_key(path: str) -> str:
    """What is equal for all names of one file, links among them; it may not be there yet."""
    return name_key(real_path(path))  # noqa: F405


def typed(path: str) -> str:
    """The name of a file as one word of a command line: with ./ where it would be an option, or a tensor as text."""
    return quoted(f"./{path}" if _UNLIKE_A_FILE.match(path) else path)  # noqa: F405


def name_fault(path: str, *, writing: bool = False) -> tuple[str, str]:
    """Why the path names no file of this machine, and what to do; both are empty if it may name one."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", path):
        if writing:
            return "remote files are not written", "write it here, then upload it"
        return "remote files are not read", "download it first"
    home = os.path.expanduser(path)  # noqa: PTH111 - it may be any text
    if home != path and not os.path.exists(re.split(r"[\\/]", path)[0]):  # noqa: PTH110
        found = "the shell did not expand its ~, because of quotes or a ="
        return found, f"type {quoted(home)}"  # noqa: F405
    return system_fault(path), ""  # noqa: F405


def pip(words: str) -> str:
    """The command with which pip changes the packages of this Python: "pip install zarr".

    A shell may find the pip of another Python, or none; then the command begins with this Python.
    """
    import shutil  # few messages are about packages

    found, folder = shutil.which("pip"), os.path.dirname(sys.executable or "")  # noqa: PTH120 - a string
    is_ours = found and file_key(os.path.dirname(found)) == file_key(folder)  # noqa: PTH120
    return f"pip {words}" if is_ours or not folder else f"{quoted(sys.executable)} -m pip {words}"  # noqa: F405
