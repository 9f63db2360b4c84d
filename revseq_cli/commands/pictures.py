"""The new file of a picture, for the commands that draw one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from revseq_cli.ground import system
from revseq_cli.ground.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from revseq_cli.formats.storage.newfile import NewFile
    from revseq_cli.formats.storage.positioned import Identity


def new_picture(path: str, inputs: Iterable[Identity], *, overwrite: bool) -> NewFile:
    """The new file for --picture; UsageError for a name that it cannot have."""
    from revseq_cli.formats import registry  # --help must not load NumPy

    if not path.lower().endswith(".svg"):
        name = system.quoted(str(Path(path).with_suffix(".svg")))
        raise UsageError("--picture writes SVG", "a name that ends in .svg", f"try --picture {name}", path)
    return registry.new_file(path, overwrite=overwrite, inputs=inputs)
