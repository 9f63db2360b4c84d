"""What several commands show of a job: an example, and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from revseq_cli.commands.base import Group
from revseq_cli.core import system
from revseq_cli.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from revseq_cli.formats.atomic_file import AtomicFile
    from revseq_cli.formats.contract import Source
    from revseq_cli.formats.file_io import Identity
    from revseq_cli.pipeline.assembly import Job

_SUFFIX = ".svg"

example_option = Group.PRINT.option(
    "--example", is_flag=True, help="Print the complete job as an example of the documentation, not the result.",
)  # fmt: skip
picture_option = Group.PRINT.option(
    "--picture", metavar="FILE.svg", type=click.Path(), help="Also draw the tensors side by side in this new SVG file.",
)  # fmt: skip


def new_file(path: str, inputs: Iterable[Identity], *, overwrite: bool) -> AtomicFile:
    """The new file of a picture; UsageError for a name that it cannot have."""
    from revseq_cli.formats import registry  # --help must not load NumPy

    if not path.lower().endswith(_SUFFIX):
        stem = path.removesuffix(Path(path).suffix).rstrip("/.") or "tensors"
        hint = f"try --picture {system.quoted(stem + _SUFFIX)}"
        raise UsageError("--picture writes SVG", f"a name that ends in {_SUFFIX}", hint, path)
    return registry.new_file(path, overwrite=overwrite, inputs=inputs)


class Drawing:
    """The new file in which `run` draws a job; it has another name than the output."""

    def __init__(self, job: Job, path: str, output: str | None, *, overwrite: bool) -> None:
        self.file = new_file(path, job.files, overwrite=overwrite)
        if output is not None and system.file_key(path) == system.file_key(output):
            raise UsageError("-o and --picture are the same file", "two names", where=path)
        self._job = job

    def draw(self, result: Source) -> None:
        """Write the picture."""
        from revseq_cli.report import picture  # most jobs draw nothing

        job = self._job
        drawn = picture.of_job(job.values, job.lengths, job.axis, result)
        self.file.write(drawn.encode())
