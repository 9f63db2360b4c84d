"""Settings as command-line options, and errors as messages on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from revseq_cli.ground.errors import Words, shown_line

if TYPE_CHECKING:
    from revseq_cli.ground.errors import RevseqError

# The option of each setting that the hints and notes of other wings name.
_OPTIONS = {
    "axis": "--axis",
    "batch_axis": "--batch-axis",
    "chunks": "--chunks",
    "compression": "--compression",
    "dtype": "--dtype",
    "engine": "--engine",
    "feature_level": "--feature-level",
    "format": "-f",
    "keep_others": "--keep-others",
    "lengths_dtype": "--lengths-dtype",
    "memory": "--memory",
    "output": "-o",
    "overwrite": "--overwrite",
    "scheduler": "--scheduler",
    "traceback": "-vv",
}


def spelled(words: str | Words) -> str:
    """The text with each setting as the user types it: "try {}" with the axis 1 becomes "try --axis 1"."""
    if isinstance(words, str):
        return words
    before, *parts = words.text.split("{}")  # not str.format: sizes in the text have braces, too
    typed = (f"{_OPTIONS[name]} {value}".rstrip() for name, value in words.settings)
    return before + "".join(option + part for option, part in zip(typed, parts, strict=True))


def message(error: RevseqError) -> str:
    """The lines that a command prints for an error: for each part what is wrong, what is wanted, and a hint."""
    return "\n".join(map(_message, error.parts()))


def _message(error: RevseqError) -> str:
    lines = [f"Error: {error.where}: {error.found}" if error.where else f"Error: {error.found}"]
    lines += [f"  {line}" for line in error.context.split("\n") if error.context]
    lines += [f"  wanted: {error.wanted}"] * bool(error.wanted)
    lines += [f"Hint: {spelled(error.hint)}"] * bool(error.hint)
    return "\n".join(map(shown_line, lines))
