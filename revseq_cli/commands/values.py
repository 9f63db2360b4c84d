"""The values of options: how they are parsed, and how a shell completes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from revseq_cli.core import platform
from revseq_cli.core.errors import UsageError

_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}  # of 1000 or 1024


def complete_files(
    context: click.Context,  # noqa: ARG001 - Click passes it
    parameter: click.Parameter,  # noqa: ARG001 - Click passes it
    incomplete: str,
) -> list[CompletionItem]:
    """A callback for completion: the shell completes the name of a file."""
    return [CompletionItem(incomplete, type="file")]


def expand_patterns(
    context: click.Context,  # noqa: ARG001 - Click passes it
    parameter: click.Parameter,  # noqa: ARG001 - Click passes it
    words: tuple[str, ...],
) -> tuple[str, ...]:
    """A callback that replaces each pattern by the files that match, on Windows.

    Elsewhere the shell does that.
    """
    return tuple(name for word in words for name in platform.expand_pattern(word))


class Parsed(click.ParamType):  # type: ignore[type-arg] # older ones of Click take no argument
    """A Click type whose values `parse` makes from text; `values` lists them if they are few."""

    def __init__(self, name: str, parse: Callable[[str], Any], values: Sequence[str] = ()) -> None:
        self.name = name
        self._parse = parse
        self._values = values

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - Click passes it
        param: click.Parameter,  # noqa: ARG002 - Click passes it
        incomplete: str,
    ) -> list[CompletionItem]:
        """The values that begin so, if they can be listed."""
        begun = incomplete.upper()
        return [CompletionItem(value) for value in self._values if value.upper().startswith(begun)]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The parsed value; a UsageError gets the name of the option that was typed."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except UsageError as e:
            from revseq_cli.commands.usage import name_of_parameter  # only errors need it

            if param:
                e.about(name_of_parameter(param, ctx))
            raise


def parse_dimension(text: str) -> int | str:
    """The number or the name of a dimension; UsageError for an empty text."""
    if not text.strip():
        raise UsageError(
            "the value is empty", "a number or a name", "check that the shell variable is set"
        )
    if number := re.fullmatch(r"([+-]?\d{1,40})(\.0*)?", text.strip(), re.ASCII):
        return int(number[1])
    return text


def parse_bytes(text: str) -> int:
    """A number of bytes from text such as 1GiB, 0.5G, 10KB or 4096; or UsageError."""
    match = re.fullmatch(
        r"(\d{1,18}(?:\.\d{1,18})?)\s*(?:([KMGT])(I?B)?|B)?", text.strip().upper(), re.ASCII
    )
    size = 0
    if match:
        number, unit, suffix = match.groups(default="")
        base = 1000 if suffix == "B" else 1024  # KB is 1000, and K and KiB are 1024
        factor = base ** _POWERS[unit]
        size = int(float(number) * factor) if "." in number else int(number) * factor
    if not size:
        raise UsageError(
            f"{text[:40]!r} is not a size", "a number of bytes such as 1GiB, 0.5G or 100MB"
        )
    return size


def parse_sizes(text: str) -> tuple[int, ...]:
    """Integers of at least 0, as 2x3x4, 2,3,4 or {2,3,4}; UsageError for other text."""
    if not re.fullmatch(r"\{?\d{1,18}([x,] ?\d{1,18})*\}?", text, re.ASCII):
        raise UsageError(f"{text[:40]!r} is not one number for each dimension", "such as 2x3x4")
    return tuple(map(int, re.findall(r"\d+", text)))


def parse_padding(text: str) -> float:
    """A number, or nan; an integer stays one, of any size. UsageError for other text."""
    if re.fullmatch(r"[+-]?\d{1,40}", text.strip(), re.ASCII):
        return int(text)
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{text[:40]!r} is not a number", "a number, or nan") from None
