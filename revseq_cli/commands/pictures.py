"""What several commands show of a job: a picture, a web page, an example of the docs, and its check."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from revseq_cli.commands import base
from revseq_cli.commands.base import Group
from revseq_cli.core import system
from revseq_cli.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from revseq_cli.commands.base import Console
    from revseq_cli.formats.atomic_file import AtomicFile
    from revseq_cli.formats.contract import Source
    from revseq_cli.formats.file_io import Identity
    from revseq_cli.operator.spec import Constraint, FeatureLevel
    from revseq_cli.pipeline.arrangement import Resources
    from revseq_cli.pipeline.assembly import Job
    from revseq_cli.report.figures import Figure
    from revseq_cli.report.results import Check
    from revseq_cli.report.view import Limits, Room

# For each option the suffixes of its file, and what it writes.
_WRITTEN = {"--picture": ((".svg",), "SVG"), "--html": ((".html", ".htm"), "a web page")}


theme_option = Group.PRINT.option(
    "--theme", type=click.Choice(["auto", "light", "dark"]), default="auto", show_default=True,
    help="The colours of a picture or page. auto follows the reader's system.",
)  # fmt: skip
# The forms of an example on a page: a heading with a block of code, and what shows a picture below it.
_FORMS = {
    "markdown": ("### Example {number}\n\n```\n{example}\n```", "![{text}]({link})"),
    "html": (
        '<h3 id="example-{number}">Example {number}</h3>\n\n<pre><code>{example}\n</code></pre>',
        '<img src="{link}" alt="{text}">',
    ),
    "rst": ("Example {number}\n{line}\n\n.. code-block:: none\n\n{example}", ".. image:: {link}\n   :alt: {text}"),
}
example_option = Group.PRINT.option(
    "--example", cls=base.AloneOption, type=click.Choice(["plain", *_FORMS]), is_flag=False, flag_value="plain",
    metavar="[FORM]",
    help="Print the complete job as an example, not the result. markdown, html and rst print it ready for a page, with "
    "a heading and a code block; plain prints the text alone.",
)  # fmt: skip


def require_drawing(theme: str, *paths: str | None) -> None:
    """UsageError for a theme of nothing."""
    if theme != "auto" and not any(paths):
        raise UsageError("--theme applies only to a picture or page", "--picture with it", "add --picture tensors.svg")


def new_file(option: str, path: str, inputs: Iterable[Identity], *, overwrite: bool) -> AtomicFile:
    """The new file for the option; UsageError for a name that it cannot have."""
    from revseq_cli.formats import registry  # --help must not load NumPy

    suffixes, written = _WRITTEN[option]
    if not path.lower().endswith(suffixes):
        stem = path.removesuffix(Path(path).suffix).rstrip("/.") or "tensors"
        name = system.quoted(f"{stem}{suffixes[0]}")
        wanted = f"a name that ends in {suffixes[0]}"
        raise UsageError(f"{option} writes {written}", wanted, f"try {option} {name}", path)
    return registry.new_file(path, overwrite=overwrite, inputs=inputs)


class Drawings:
    """The new files in which `run` draws a job, by their options; none has the name of another option's file."""

    def __init__(
        self, job: Job, paths: dict[str, str | None], output: str | None, resources: Resources, *, overwrite: bool,
        theme: str,
    ) -> None:  # fmt: skip
        self.paths = paths
        drawn = {option: path for option, path in paths.items() if path is not None}
        self.files = {option: new_file(option, path, job.files, overwrite=overwrite) for option, path in drawn.items()}
        named = drawn if output is None else {"-o": output, **drawn}
        for (first, path), (second, other) in itertools.combinations(named.items(), 2):
            if system.file_key(path) == system.file_key(other):
                raise UsageError(f"{first} and {second} are the same file", "two names", where=other)
        self._job, self._theme = job, theme
        self._checks = [_checked(job, resources)] if "--html" in named else []

    def __bool__(self) -> bool:
        """Whether there is anything to draw."""
        return bool(self.files)

    def draw(self, result: Source) -> None:
        """Write all of them."""
        from revseq_cli.report import figures, svg  # they take 10 ms, and most jobs draw nothing

        job = self._job
        with (
            job.values.random_access() as values,
            job.lengths.random_access() as lengths,
            result.random_access() as output,
        ):

            def figure(limits: Limits) -> Figure:
                return figures.of_job(values, lengths, job.axis, output, limits)

            writers = {
                "--picture": lambda: svg.drawn(figure, self._theme),
                "--html": lambda: svg.page(figure, self._theme, *self._checks),
            }
            for option, file in self.files.items():
                file.write(writers[option]().encode())


def _checked(job: Job, resources: Resources) -> Check:
    """The job held against the level that was asked for, which comes first, and all of DirectML's levels."""
    from revseq_cli.operator import spec

    levels = [job.parts.request.level] if job.parts else []
    descs = job.values.desc, job.lengths.desc, job.axis
    return result_of(job, {each: spec.constraints(*descs, each) for each in (*levels, *spec.DIRECTML)}, resources)


def result_of(job: Job, constraints: dict[FeatureLevel, list[Constraint]], resources: Resources) -> Check:
    """What is told of a job that was held against these constraints; its lengths are read."""
    from revseq_cli.operator import spec
    from revseq_cli.pipeline import summaries
    from revseq_cli.report.results import Check

    values, lengths = job.values.desc, job.lengths.desc
    lowest = spec.lowest_level(values, lengths, job.axis)
    # Lengths that no level accepts have no effects to count.
    is_known = not job.parts or job.parts.values.has_values
    counts = summaries.count_lengths(job, resources) if lowest is not None and is_known else None
    notes = (*job.notes, *job.absent_notes())
    return Check(job.names, values, lengths, job.axis, constraints, lowest, counts, job.batch_axis, notes)


def example_text(job: Job, result: Source, room: Room, console: Console, form: str, picture: str | None = None) -> str:
    """The example in that form; its title has the number that the user named it by. Only a plain one has marks.

    The other forms also show the picture, if there is one; its text is for those who cannot see it.
    """
    from revseq_cli.report import figures, view  # --help must not load NumPy

    on_page = form in _FORMS
    shown = view.example_text(job.values, job.lengths, job.axis, result, room, None if on_page else console.marks)
    if not on_page:
        return shown
    key = job.parts.request.references()[0].key if job.parts else None
    number = key if key and key.isdecimal() else "1"
    about = f"InputTensor and OutputTensor. {figures.sentence(job.axis)}"
    words = {"number": number, "line": "^" * len(f"Example {number}"), "example": shown, "text": about}
    words["link"] = quote(Path(picture or "").as_posix(), safe="/:")
    if form == "html":
        import html  # few examples are for pages

        words = {name: html.escape(each, quote=name != "example") for name, each in words.items()}
    if form == "rst":
        import textwrap  # few examples are for pages

        words["example"] = textwrap.indent(shown, "    ")
    return "\n\n".join(_FORMS[form][: 1 if picture is None else 2]).format(**words)
