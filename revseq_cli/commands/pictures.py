"""Pictures and web pages of tensors: their new files, for the commands that draw them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import click

from revseq_cli.ground import system
from revseq_cli.ground.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from revseq_cli.formats.contract import Source
    from revseq_cli.formats.storage.newfile import NewFile
    from revseq_cli.formats.storage.positioned import Identity
    from revseq_cli.passes.arrangement import Resources
    from revseq_cli.passes.assembly import Job
    from revseq_cli.report.figures import Figure
    from revseq_cli.report.results import Check
    from revseq_cli.report.view import Limits

# For each option the suffixes of its file, and what it writes.
_WRITTEN = {"--picture": ((".svg",), "SVG"), "--html": ((".html", ".htm"), "a web page")}


theme_option = click.option(
    "--theme", type=click.Choice(["auto", "light", "dark"]), default="auto", show_default=True,
    help="The colours of a picture or page; auto is what the reader's system prefers.",
)  # fmt: skip


def require_drawing(theme: str, *paths: str | None) -> None:
    """UsageError for a theme of nothing."""
    if theme != "auto" and not any(paths):
        raise UsageError("--theme is about a picture", "--picture with it", "add --picture tensors.svg")


def new_file(option: str, path: str, inputs: Iterable[Identity], *, overwrite: bool) -> NewFile:
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
                raise UsageError(f"{first} and {second} are one file", "two names", where=other)
        self._job, self._theme = job, theme
        self._checks = [_checked(job, resources)] if "--html" in named else []

    def draw(self, result: Source) -> None:
        """Write all of them."""
        from revseq_cli.report import figures, svg, webpage

        job = self._job
        if not self.files:
            return
        with (
            job.values.random_access() as values,
            job.lengths.random_access() as lengths,
            result.random_access() as output,
        ):

            def figure(limits: Limits) -> Figure:
                return figures.of_job(values, lengths, job.axis, output, limits)

            writers = {
                "--picture": lambda: svg.drawn(figure, self._theme),
                "--html": lambda: webpage.page(figure, self._theme, *self._checks),
            }
            for option, file in self.files.items():
                file.write(writers[option]().encode())


def _checked(job: Job, resources: Resources) -> Check:
    """The job held against the level that was asked for, which comes first, and all of DirectML's levels."""
    from revseq_cli.commands import check
    from revseq_cli.operator import spec

    levels = [job.parts.request.level] if job.parts else []
    descs = job.values.desc, job.lengths.desc, job.axis
    return check.result_of(job, {each: spec.constraints(*descs, each) for each in (*levels, *spec.DIRECTML)}, resources)
