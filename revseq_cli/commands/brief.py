"""What -h prints: how a command is used, its options in groups with a line for each, and its examples.

An option is here by what it does in any command; --help says all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

# Each option as it is typed, and what it does, in groups.
OPTIONS = {
    "What to reverse": {
        "--axis N": "the dimension to reverse along, from 0",
        "--batch-axis B": "one length for each index of this dimension",
        "--like SYSTEM": "as ONNX, TensorFlow, PyTorch or MXNet do",
        "--rank N": "the dimension count of the result",
        "--dtype TYPE": "the data type of a text input",
        "--lengths-dtype TYPE": "the data type of the lengths",
        "--feature-level LEVEL": "DirectML's feature level, as 5_0, or none",
    },
    "What to compare": {
        "--job": "compare A with the output of a job",
        "--as TYPE": "cast both to this data type, exactly",
        "--as-printed": "A is a log of DxDispatch",
        "--atol X": "the largest difference that counts as none",
        "--rtol X": "the same, as a factor of |B|",
        "--ulp N": "the same, in representable numbers",
        "--equal-nan": "compare by value; NaN equals NaN",
        "--first N": "how many differences to show",
    },
    "What to write": {
        "-o, --output FILE": "the new file",
        "-f, --format FORMAT": "its format, where the name does not say it",
        "--fix": "rewrite wrong OutputTensors in place",
        "--overwrite": "replace a file that exists",
        "--history, --no-history": "a line in the history of NetCDF",
        "--keep-others": "keep the rest of the input's file",
        "--chunks SIZES": "the chunks of HDF5: keep, auto or sizes",
        "--compression METHOD": "of HDF5: keep, none or gzip:LEVEL",
        "--verify": "read the file back and compare it",
        "--inline, --files": "values in the model, or beside it",
        "--zip": "one archive of the model and its files",
    },
    "What to print": {
        "--all": "the constraints that hold, too",
        "--example": "the whole example; =markdown, =html, =rst",
        "--full": "every element, on a terminal, too",
        "--stats": "minimum, maximum, mean, and NaN",
        "--picture FILE.svg": "a drawing of the tensors",
        "--html FILE.html": "a web page of the job",
        "--format FORM": "text, or github, json, sarif for programs",
        "--json": "the report as JSON",
        "--sha256": "the digest of the file, with --json",
        "--dry-run": "the plan; write nothing",
        "--names": "the name of each tensor alone",
        "--shape": "its sizes alone",
        "--progress WHEN": "auto, plain or none",
        "--color WHEN": "auto, always or never",
        "-q, --quiet": "nothing but errors",
        "-v, --verbose": "what is done; -vv for tracebacks",
    },
    "How to work": {
        "--memory SIZE": "the most to hold, as 512MiB",
        "--jobs N": "how many cores",
        "--engine ENGINE": "what does the work",
        "--scheduler ADDRESS": "of a dask cluster, as tcp://host:8786",
        "--scheduler-file FILE": "to which dask's scheduler wrote it",
        "--each PATTERN": "a job for each file that matches",
        "--lengths NAME": "their lengths, as 'lens/{stem}.npy'",
        "--allow-empty": "skip pages without an example",
        "--resume": "skip the jobs that are done",
        "--journal FILE": "where to note what is done",
        "--failed FILE": "a new manifest of jobs that failed",
        "--fail-fast": "begin no job after one has failed",
    },
    "Help": {
        "--version": "the version",
        "-h": "this text",
        "--help": "all of it; the manual page has more",
    },
}


def help_of(command: click.Command, context: click.Context) -> str:
    """The short help of a command."""
    formatter = context.make_formatter()
    command.format_usage(context, formatter)
    if isinstance(command, click.Group):
        command.format_commands(context, formatter)
    groups = [*_options(command, context)]
    width = max(len(typed) for _, rows in groups for typed, _ in rows)
    for group, rows in groups:
        with formatter.section(group):
            formatter.write_dl([(typed.ljust(width), text) for typed, text in rows])
    command.format_epilog(context, formatter)
    return formatter.getvalue().rstrip("\n")


def _options(command: click.Command, context: click.Context) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The groups of options that the command has, and their rows."""
    own = [{*each.opts, *each.secondary_opts} for each in command.get_params(context)]
    for group, options in OPTIONS.items():
        if rows := [(typed, text) for typed, text in options.items() if names_of(typed) in own]:
            yield group, rows


def names_of(typed: str) -> set[str]:
    """The names of an option as it is typed: -o and --output of "-o, --output FILE"."""
    return {word.strip(",") for word in typed.split() if word.startswith("-")}
