"""The option that prints a job as an example of the docs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from revseq_cli.commands import base
from revseq_cli.texts.dresses import DRESSES

if TYPE_CHECKING:
    from revseq_cli.commands.console import Console
    from revseq_cli.formats.contract import Source
    from revseq_cli.passes.assembly import Job

_PLAIN, *_DRESSED = DRESSES

option = click.option(
    "--example", cls=base.AloneOption, type=click.Choice([_PLAIN, *_DRESSED]), is_flag=False, flag_value=_PLAIN,
    metavar="[FORM]",
    help="Print the job as a whole docs-style example instead: plain, or with a heading and in a block of code, as it "
    "stands on a page, as markdown, html or rst.",
)  # fmt: skip


def text(job: Job, result: Source, most: int | None, console: Console, form: str) -> str:
    """The example in that form; its title has the number that the user named it by. Only a plain one has marks."""
    from revseq_cli.report import view  # --help must not load NumPy

    dressed = form in _DRESSED
    shown = view.example_text(job.values, job.lengths, job.axis, result, most, None if dressed else console.marks)
    key = job.parts.request.references()[0].key if job.parts else None
    return DRESSES[form](f"Example {key if key and key.isdecimal() else 1}", shown)
