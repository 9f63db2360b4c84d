"""The option that prints a job as an example of the docs, and the forms of one."""

from __future__ import annotations

import html
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

import click

from revseq_cli.commands import base

if TYPE_CHECKING:
    from collections.abc import Callable

    from revseq_cli.commands.console import Console
    from revseq_cli.formats.contract import Source
    from revseq_cli.passes.assembly import Job


class _Image(NamedTuple):
    """The picture of an example: where it lies, and what it shows, for those who cannot see it."""

    link: str
    text: str


def _markdown(title: str, example: str, image: _Image | None) -> str:
    shown = f"\n\n![{image.text}]({image.link})" if image else ""
    return f"### {title}\n\n```\n{example}\n```{shown}"


def _html(title: str, example: str, image: _Image | None) -> str:
    anchor = title.lower().replace(" ", "-")
    shown = f'\n\n<img src="{html.escape(image.link)}" alt="{html.escape(image.text)}">' if image else ""
    text = html.escape(example, quote=False)
    return f'<h3 id="{anchor}">{html.escape(title)}</h3>\n\n<pre><code>{text}\n</code></pre>{shown}'


def _rst(title: str, example: str, image: _Image | None) -> str:
    shown = f"\n\n.. image:: {image.link}\n   :alt: {image.text}" if image else ""
    return f"{title}\n{'^' * len(title)}\n\n.. code-block:: none\n\n{textwrap.indent(example, '    ')}{shown}"


# The forms of an example, each made of a title, the example's text and its picture. --help must not load NumPy, nor
# does this. A plain one, which is a whole job, has no picture.
_FORMS: dict[str, Callable[[str, str, _Image | None], str]] = {
    "plain": lambda _, example, __: example,
    "markdown": _markdown,
    "html": _html,
    "rst": _rst,
}
_PLAIN, *_ON_PAGES = _FORMS

option = click.option(
    "--example", cls=base.AloneOption, type=click.Choice([_PLAIN, *_ON_PAGES]), is_flag=False, flag_value=_PLAIN,
    metavar="[FORM]",
    help="Print the job as a docs-style example instead: plain, or with a heading and in a block of code, as it "
    "stands on a page, as markdown, html or rst.",
)  # fmt: skip


def text(job: Job, result: Source, most: int | None, console: Console, form: str, picture: str | None = None) -> str:
    """The example in that form; its title has the number that the user named it by. Only a plain one has marks.

    The other forms also show the picture, if there is one.
    """
    from revseq_cli.report import figures, view  # --help must not load NumPy

    on_page = form in _ON_PAGES
    shown = view.example_text(job.values, job.lengths, job.axis, result, most, None if on_page else console.marks)
    key = job.parts.request.references()[0].key if job.parts else None
    image = None
    if picture is not None:
        link = quote(Path(picture).as_posix(), safe="/:")
        image = _Image(link, f"InputTensor and OutputTensor. {figures.sentence(job.axis)}")
    return _FORMS[form](f"Example {key if key and key.isdecimal() else 1}", shown, image)
