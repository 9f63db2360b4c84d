"""Errors as messages on a terminal."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from revseq_cli.core import system
from revseq_cli.core.errors import ON, RevseqError, Suggestions, listed, shown_line
from revseq_cli.report import terminal

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from revseq_cli.core.errors import Settings

_LONGEST_COMMAND = 1000  # characters of a command line in a hint; tensors may be typed as text
_MOST_CHOICES = 6
_MOST_FILES, _MOST_RUNS = 3, 8  # files, and runs of lines, that an error of several jobs names
# The words that stand out at the starts of lines.
_COLORS = {"Error:": terminal.RED, "Hint:": terminal.BLUE}
_WORDS = re.compile(f"^(?:{'|'.join(_COLORS)})", re.MULTILINE)

# What other tools call an option; an underscore is a hyphen.
_SYNONYMS = {
    "--batch-dim": "--batch-axis", "--dim": "--axis", "--seq-axis": "--axis", "--seq-dim": "--axis",
    "--out": "--output", "--time-axis": "--axis",
}  # fmt: skip
_LENGTHS = ("--lengths", "-l")
# The settings that are no options.
_ARGUMENTS = ("INPUT", "LENGTHS")
# The options of jobs whose value is the next word, which is then no INPUT and no LENGTHS.
VALUED = (
    "--atol", "--axis", "--batch-axis", "--color", "--dtype", "--engine", "-f",
    "--feature-level", "--feed", "--first", "--format", "--html", "--jobs", "--lengths-dtype", "--like",
    "--memory",
    "-o", "--on", "--output", "--picture", "--progress", "--rank", "--rtol", "--scheduler", "--scheduler-file",
    "--sizes", "--theme", "--ulp",
)  # fmt: skip


def with_own_names(typed: Sequence[str], *, lengths: bool = True) -> list[str]:
    """The arguments of a command line with the name of ours for each option that other tools call otherwise.

    With `lengths`, LENGTHS that are typed as an option stand behind the other arguments.
    """
    end = typed.index("--") if "--" in typed else len(typed)
    words, behind = [], []
    parts = (_parted(word) for word in typed[:end])
    for name, sign, value in parts:
        if name not in _LENGTHS or not lengths:
            words.append(f"{name}{sign}{value}")
        elif sign:
            behind.append(value)
        else:
            behind += ["".join(each) for each in itertools.islice(parts, 1)] or [name]
    return [*words, *behind, *typed[end:]]


def _parted(word: str) -> tuple[str, str, str]:
    """The name of an option, the sign and the value behind it; any other word is all name."""
    name, sign, value = word.partition("=") if word.startswith("-") else (word, "", "")
    name = name.replace("_", "-") if name.startswith("--") else name
    return _SYNONYMS.get(name, name), sign, value


def message(
    error: RevseqError, typed: Sequence[str] = (), *, color: bool = False, width: int = 0, place: str = ""
) -> str:
    """The lines that a command prints for an error: for each part what is wrong, what is wanted, and a hint.

    `typed` has the arguments of the command line, which hints repeat with what is missing; it is empty for a job of a
    manifest, whose lines there are the `place`. Lines are broken at words to fit a terminal of that `width`, if it is
    not 0; hints are not, since they are copied, and neither are lines of a file.
    """
    text = "\n".join(_message(part, typed, width, place) for part in error.parts())
    return painted(text) if color else text


def reason(error: RevseqError) -> Hashable:
    """What is equal for errors that differ only in the files where they are."""
    return tuple((each.found, each.wanted, each.context, *hints(each.hint, ())) for each in error.parts())


def together(errors: Sequence[RevseqError]) -> list[RevseqError]:
    """The parts of errors with one reason, each part once, with the files of all."""
    made = []
    for alike in zip(*(error.parts() for error in errors), strict=True):
        first, files = alike[0], [*dict.fromkeys(each.where for each in alike)]
        where = listed(files, _MOST_FILES) if files[1:] else first.where
        made.append(RevseqError(first.found, first.wanted, first.hint, where, first.context))
    return made


def numbered(noun: str, numbers: Iterable[int]) -> str:
    """What messages call things with these numbers: "line 3", or "lines 2, 3 and 5 to 7"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    texts = [text for run in runs[:_MOST_RUNS] for text in ([f"{run[0]} to {run[-1]}"] if run[2:] else map(str, run))]
    if more := sum(map(len, runs[_MOST_RUNS:])):
        texts.append(f"{more:,} more")
    *others, last = texts
    return f"{noun}{'s' * (sum(map(len, runs)) > 1)} {', '.join(others)}{' and ' * bool(others)}{last}"


def painted(text: str) -> str:
    """A message with colours for a terminal."""
    return _WORDS.sub(lambda word: terminal.painted(word[0], _COLORS[word[0]]), text)


def _message(error: RevseqError, typed: Sequence[str], width: int, place: str) -> str:
    lines = _broken("Error: ", ": ".join(filter(None, (place, error.where, error.found))), width)
    lines += [shown_line(f"  {line}") for line in error.context.split("\n") if error.context]
    lines += _broken("  wanted: ", error.wanted, width) if error.wanted else []
    for line in hints(error.hint, typed, "Hint: "):
        lines += _broken("  ", line[2:], width) if line.startswith("  ") else [shown_line(line)]
    return "\n".join(lines)


def _broken(head: str, text: str, width: int) -> list[str]:
    """The lines of a head and a text; one line where the width is 0."""
    line = shown_line(f"{head}{text}")
    return terminal.hanging(head, line.removeprefix(head), width) if width else [line]


def hints(hint: str | Suggestions, typed: Sequence[str], mark: str = "") -> Iterator[str]:
    """The lines of a hint; `mark` stands before the line that says what to type."""
    if isinstance(hint, Suggestions):
        yield from _of_choices(hint, typed, mark)
    elif hint:
        yield f"{mark}{hint}"


def _of_choices(hint: Suggestions, typed: Sequence[str], mark: str) -> Iterator[str]:
    """A line for each choice, unless one leaves no doubt; then the command line with the first."""
    is_exchange = _arguments(hint.choices[0].settings) == [*reversed(hint.typed)] != []
    shared = [each for each in hint.choices[0].settings if all(each in choice.settings for choice in hint.choices)]
    for choice in hint.choices[:_MOST_CHOICES]:
        own = () if hint.sure else [each for each in choice.settings if each not in (*shared, *choice.label)]
        if choice.meaning:
            yield f"  {_label((*choice.label, *own))}: {choice.meaning}"
    if more := len(hint.choices) - _MOST_CHOICES:
        yield from [f"  and {more} more"] * (more > 0)
    if not hint.sure:
        others = tuple(each for each in shared if each not in hint.choices[0].label)
        yield f"{mark}type the one that is meant{f', and {options_of(others, hint.typed)}' if others else ''}"
        return
    settings = hint.choices[0].settings
    first = "if the first is meant: " * (len(hint.choices) > 1)
    command = f"revseq {' '.join(map(system.quoted, _retyped(typed, settings, hint.typed)))}" if typed else ""
    if command and len(command) <= _LONGEST_COMMAND:
        yield f"{mark}{'INPUT and LENGTHS are exchanged: ' * is_exchange}{first}{command}"
    else:
        yield f"{mark}{first}{options_of(settings, hint.typed)}"


def options_of(settings: Settings, arguments: Sequence[str] = ()) -> str:
    """The settings as words: the arguments and options to set, in place of those `arguments`, and what to leave out."""
    is_exchange = _arguments(settings) == [*reversed(arguments)] != []
    settings = tuple(each for each in settings if not (is_exchange and each[0] in _ARGUMENTS))
    added = [word for each in settings for word in _words_of(*each)]
    removed = " and ".join(name for name, value in settings if not value)
    parts = ["exchange INPUT and LENGTHS"] * is_exchange + [f"use {' '.join(added)}"] * bool(added)
    return " and ".join(parts + [f"leave out {removed}"] * bool(removed))


def _arguments(settings: Settings) -> list[str]:
    """The new INPUT and LENGTHS among the settings."""
    return [value for name, value in settings if name in _ARGUMENTS]


def options_json(settings: Settings) -> dict[str, str | None]:
    """The settings by their options; null for one to leave out."""
    return {name: value or None for name, value in settings}


def _label(settings: Iterable[tuple[str, str]]) -> str:
    """The settings as they are typed, also those to leave out."""
    return " ".join(word for each in settings for word in (_words_of(*each) or ["without", each[0]]))


def _words_of(name: str, value: str) -> list[str]:
    """A setting as it is typed; nothing for one to leave out."""
    return {"": [], ON: [name]}.get(value, [name, value])


def _places(arguments: Sequence[str], typed: Sequence[str]) -> list[int]:
    """Where the arguments are that were typed: the last such words, and no options' values if there are others."""
    before = ["", *(word if word.startswith("--") else word[:1] + word[-1:] for word in typed)]  # -vo ends with -o
    places: list[int] = []
    for argument in reversed(arguments):
        found = (i for i, word in enumerate(typed) if word == argument and i not in places)
        places.insert(0, max(found, key=lambda i: (before[i] not in VALUED, i)))
    return places


def _retyped(typed: Sequence[str], settings: Settings, arguments: Sequence[str]) -> list[str]:
    """The arguments of a command line with these settings, in place of those that stand there; "" removes one.

    New INPUT and LENGTHS stand in the places of those `arguments`, and new LENGTHS alone behind INPUT.
    """
    typed = with_own_names(typed)
    if new := _arguments(settings):
        places = _places(arguments, typed)
        for place, word in zip(places, new, strict=False):
            typed[place] = word
        typed[places[0] + 1 : places[0] + 1] = new[len(places) :]
    end = typed.index("--") if "--" in typed else len(typed)
    options = {name for name, _ in settings if name not in _ARGUMENTS}
    kept: list[str] = []
    words = iter(typed[:end])
    for word in words:
        if word in options:
            next(words if word in VALUED else iter(()), None)
        elif word.partition("=")[0] not in options:
            kept.append(word)
    added = (word for each in settings if each[0] not in _ARGUMENTS for word in _words_of(*each))
    return [*kept, *added, *typed[end:]]
