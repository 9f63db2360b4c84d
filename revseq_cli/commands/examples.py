"""The option that prints a job as an example of the docs, and the forms of one."""

from __future__ import annotations

import html
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from revseq_cli.commands import base

if TYPE_CHECKING:
    from revseq_cli.commands.console import Console
    from revseq_cli.formats.contract import Source
    from revseq_cli.passes.assembly import Job


# The forms of an example on a page: a heading with a block of code, and what shows a picture below it.
_FORMS = {
    "markdown": ("### Example {number}\n\n```\n{example}\n```", "![{text}]({link})"),
    "html": (
        '<h3 id="example-{number}">Example {number}</h3>\n\n<pre><code>{example}\n</code></pre>',
        '<img src="{link}" alt="{text}">',
    ),
    "rst": ("Example {number}\n{line}\n\n.. code-block:: none\n\n{example}", ".. image:: {link}\n   :alt: {text}"),
}

option = click.option(
    "--example", cls=base.AloneOption, type=click.Choice(["plain", *_FORMS]), is_flag=False, flag_value="plain",
    metavar="[FORM]",
    help="Print the job as a docs-style example instead: plain, or with a heading and in a block of code, as it "
    "stands on a page, as markdown, html or rst.",
)  # fmt: skip


def text(job: Job, result: Source, most: int | None, console: Console, form: str, picture: str | None = None) -> str:
    """The example in that form; its title has the number that the user named it by. Only a plain one has marks.

    The other forms also show the picture, if there is one; its text is for those who cannot see it.
    """
    from revseq_cli.report import figures, view  # --help must not load NumPy

    on_page = form in _FORMS
    shown = view.example_text(job.values, job.lengths, job.axis, result, most, None if on_page else console.marks)
    if not on_page:
        return shown
    key = job.parts.request.references()[0].key if job.parts else None
    number = key if key and key.isdecimal() else "1"
    about = f"InputTensor and OutputTensor. {figures.sentence(job.axis)}"
    words = {"number": number, "line": "^" * len(f"Example {number}"), "example": shown, "text": about}
    words["link"] = quote(Path(picture or "").as_posix(), safe="/:")
    if form == "html":
        words = {name: html.escape(each, quote=name != "example") for name, each in words.items()}
    if form == "rst":
        words["example"] = textwrap.indent(shown, "    ")
    return "\n\n".join(_FORMS[form][: 1 if picture is None else 2]).format(**words)
