"""The operating system. `posix` and `windows` have the same functions and facts; those of this system are chosen here.

No other module asks which system it is. What one POSIX system has and another lacks is looked for when it is asked for.
"""

import sys

if sys.platform == "win32":
    from revseq_cli.ground.windows import *  # noqa: F403
else:
    from revseq_cli.ground.posix import *  # noqa: F403


def file_key(path: str) -> str:
    """What is equal for all names of one file, links among them; it may not be there yet."""
    return name_key(real_path(path))  # noqa: F405
