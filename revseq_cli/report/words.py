"""Settings as command-line options, and errors as messages on a terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from revseq_cli.ground import system
from revseq_cli.ground.errors import Choices, Words, shown_line
from revseq_cli.report import colors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from revseq_cli.ground.errors import RevseqError, Settings

_LONGEST_COMMAND = 1000  # characters of a command line in a hint; tensors may be typed as text
_MOST_CHOICES = 6
# The words that stand out at the starts of lines.
_COLORS = {"Error:": colors.RED, "Hint:": colors.BLUE}
_WORDS = re.compile(f"^(?:{'|'.join(_COLORS)})", re.MULTILINE)

# The option of each setting that the hints and notes of other wings name.
_OPTIONS = {
    "as_printed": "--as-printed",
    "axis": "--axis",
    "batch_axis": "--batch-axis",
    "cast": "--as",
    "chunks": "--chunks",
    "compression": "--compression",
    "dtype": "--dtype",
    "engine": "--engine",
    "equal_nan": "--equal-nan",
    "feature_level": "--feature-level",
    "files": "--files",
    "format": "-f",
    "inline": "--inline",
    "job": "--job",
    "keep_others": "--keep-others",
    "lengths_dtype": "--lengths-dtype",
    "like": "--like",
    "memory": "--memory",
    "output": "-o",
    "overwrite": "--overwrite",
    "rank": "--rank",
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


def message(error: RevseqError, typed: Sequence[str] = (), *, color: bool = False) -> str:
    """The lines that a command prints for an error: for each part what is wrong, what is wanted, and a hint.

    `typed` has the arguments of the command line, which hints repeat with what is missing; it is empty for a job of a
    manifest.
    """
    text = "\n".join(_message(part, typed) for part in error.parts())
    return painted(text) if color else text


def painted(text: str) -> str:
    """A message with colours for a terminal."""
    return _WORDS.sub(lambda word: colors.painted(word[0], _COLORS[word[0]]), text)


def _message(error: RevseqError, typed: Sequence[str]) -> str:
    lines = [f"Error: {error.where}: {error.found}" if error.where else f"Error: {error.found}"]
    lines += [f"  {line}" for line in error.context.split("\n") if error.context]
    lines += [f"  wanted: {error.wanted}"] * bool(error.wanted)
    if isinstance(error.hint, Choices):
        lines += hint_lines(error.hint, typed)
    elif error.hint:
        lines.append(f"Hint: {spelled(error.hint)}")
    return "\n".join(map(shown_line, lines))


def hint_lines(hint: Choices, typed: Sequence[str]) -> Iterator[str]:
    """A line for each choice, unless one leaves no doubt; then the command line with the first."""
    for choice in hint.choices[:_MOST_CHOICES]:
        if choice.meaning:
            yield f"  {_label(choice.label)}: {choice.meaning}"
    if more := len(hint.choices) - _MOST_CHOICES:
        yield from [f"  and {more} more"] * (more > 0)
    if not hint.sure:
        yield f"Hint: each of them clamps lengths; if one is meant, type it{_others(hint)}"
        return
    settings = hint.choices[0].settings
    command = f"revseq {' '.join(map(system.quoted, _retyped(typed, settings)))}"
    first = "if the first is meant: " * (len(hint.choices) > 1)
    if typed and len(command) <= _LONGEST_COMMAND:
        yield f"Hint: {first}{command}"
    else:
        yield f"Hint: {first}{options_of(settings)}"


def options_of(settings: Settings) -> str:
    """The settings as words: the options to set, and those to leave out."""
    added = " ".join(f"{_OPTIONS[name]} {value}" for name, value in settings if value)
    removed = " and ".join(_OPTIONS[name] for name, value in settings if not value)
    return " and ".join([f"use {added}"] * bool(added) + [f"leave out {removed}"] * bool(removed))


def options_json(settings: Settings) -> dict[str, str | None]:
    """The settings by their options; null for one to leave out."""
    return {_OPTIONS[name]: value or None for name, value in settings}


def _others(hint: Choices) -> str:
    """What all choices need beside their labels."""
    first = hint.choices[0]
    others = tuple(each for each in first.settings if each not in first.label)
    return f", and {options_of(others)}" if others else ""


def _label(settings: Settings) -> str:
    return " ".join(f"{_OPTIONS[name]} {value}" for name, value in settings)


def _retyped(typed: Sequence[str], settings: Settings) -> list[str]:
    """The arguments of a command line with these settings, in place of those that stand there; "" removes one."""
    end = typed.index("--") if "--" in typed else len(typed)
    options = {_OPTIONS[name]: value for name, value in settings}
    kept: list[str] = []
    words = iter(typed[:end])
    for word in words:
        if word in options:
            next(words, None)
        elif word.partition("=")[0] not in options:
            kept.append(word)
    return [*kept, *(part for each in options.items() if each[1] for part in each), *typed[end:]]
