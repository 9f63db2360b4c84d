"""Copies of input files, or of parts of them, into new files of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from revseq_cli.core import platform
from revseq_cli.files import fetch, open_file
from revseq_cli.files.input_file import Identity
from revseq_cli.files.local import open_to_write
from revseq_cli.files.new import NewFile
from revseq_cli.files.system_errors import wrap_os_errors


class CopiedPart(NamedTuple):
    """A part of a file: `size` bytes at `offset`, which are copied to the offset `target`."""

    offset: int
    size: int
    target: int


def fill_from(file: NewFile, path: str, unchanged: Identity, parts: Iterable[CopiedPart]) -> None:
    """Copy parts of an input, which must be as it was at `unchanged`, into a temporary file."""
    fetch(path, unchanged)
    with open_file(path, unchanged) as source, open_to_write(file.temporary, file.name) as target:
        for part in parts:
            target.copy_from(source, *part)


def copy_file(path: str, new: str, name: str) -> None:
    """Copy a regular file to `new`, a path inside the temporary folder of the output `name`."""
    with open_file(path) as source:
        with wrap_os_errors(name, "write"):
            os.close(platform.create_file(new, 0o666))
        with open_to_write(new, name) as target:
            target.copy_from(source, 0, source.identity.size, 0)
