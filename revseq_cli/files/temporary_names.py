"""The names of temporary files.

A run that is killed may leave files of such names. Later runs ignore them, and users can delete
them. The jobs of a batch put its mark into their names, so that the batch can clean up after a
worker that died.
"""

from __future__ import annotations

import os

_PREFIX = ".revseq-"
_mark = ""


def mark_temporary_files(mark: str) -> None:
    """Put the mark of a batch into all temporary names of this process from now on."""
    global _mark
    _mark = mark


def make_temporary_name() -> str:
    """A new name of a temporary file."""
    return f"{_PREFIX}{_mark}{os.urandom(8).hex()}.tmp"


def temporary_pattern(mark: str) -> str:
    """The pattern of all temporary names with that mark."""
    return f"{_PREFIX}{mark}*.tmp"


def has_batch_mark(name: str, mark: str) -> bool:
    """Whether it is a temporary name with that mark."""
    return name.startswith(f"{_PREFIX}{mark}")


def is_of_this_batch(name: str) -> bool:
    """Whether it is a temporary name of the batch whose job this process does, if it does one."""
    return bool(_mark) and has_batch_mark(name, _mark)
