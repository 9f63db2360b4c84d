"""The commands: their names, their help with its groups of options, and their settings."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, TypedDict, cast

import click
from click.shell_completion import CompletionItem

# What the help says of each command in a line, in this order.
COMMANDS = {
    "run": "Reverse the sequences of a tensor.",
    "check": "Check a job against the constraints of DirectML.",
    "diff": "Compare two tensors, or an output with the expected one.",
    "batch": "Run many jobs (--resume skips those already done).",
    "show": "List the tensors in files, with a preview.",
    "convert": "Convert a tensor to another format without changing a bit.",
    "verify": "Check the examples of the operator in documentation.",
    "levels": "Show what each DirectML feature level accepts.",
    "export": "Export a job as a DxDispatch model, to run on DirectML under Windows.",
    "completion": "Print the completion script for a shell.",
    "help": "Show the help of a command, or a page of the manual.",
}
TOPICS = ("formats", "porting", "json")  # pages of the manual that are not about one command


class Group(Enum):
    """The groups of options in a help, with their titles; the last one has Click's own."""

    REVERSE = "What to reverse"
    READ = "What to read"
    CHECK = "What to check"
    COMPARE = "What to compare"
    WRITE = "What to write"
    PRINT = "What to print"
    WORK = "Resources"
    HELP = "Help"

    def option(self, *names: str, **attributes: Any) -> Callable[..., Any]:
        """A decorator that adds an option of this group to a command, as Click's."""
        return click.option(*names, cls=_Option, group=self, **attributes)

    def session_option(self, name: str, *more: str, **attributes: Any) -> Callable[..., Any]:
        """An option that a variable sets, too: REVSEQ_MEMORY sets --memory. The help names it."""
        variable = f"REVSEQ_{name.lstrip('-').replace('-', '_').upper()}"
        return self.option(
            name, *more, envvar=variable, show_default=True, show_envvar=True, **attributes
        )


class _Option(click.Option):
    def __init__(self, *names: Any, group: Group, **attributes: Any) -> None:
        super().__init__(*names, **attributes)
        self.group = group

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The names and the help; a range such as Click's 1<=x<=8 is in words."""
        record = super().get_help_record(ctx)
        if record is None:
            return None
        names, text = record
        text = re.sub(r"(\d+)<=x<=\d{19,}", r"\1 or more", text)
        return names, re.sub(r"(\d+)<=x<=(\d+)", r"\1 to \2", text)


class Settings(TypedDict, total=False):
    """What __main__ needs to report an error; the command fills it while its line is parsed."""

    command: str | None
    as_json: bool
    notes: list[str]
    verbose: int
    color: str


def settings_of(context: click.Context) -> Settings:
    """The settings, which all contexts of a command share."""
    return cast("Settings", context.ensure_object(dict))


def has_json(words: Sequence[str]) -> bool:
    """Whether --json is among the words of a command line; what follows -- is not an option."""
    return "--json" in itertools.takewhile(lambda word: word != "--", words)


class Command(click.Command):
    """A command whose help has its options in groups, and examples at its end.

    Each example is one line, and works in any folder.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; with --json, an error in them is JSON, too."""
        settings = settings_of(ctx)
        settings["command"] = ctx.info_name
        settings["as_json"] = has_json(args)
        rest = super().parse_args(ctx, args)
        settings["as_json"] = ctx.params.get("as_json", False)
        return rest

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The completions of a word; the first sentence of its help describes an option."""
        items = super().shell_complete(ctx, incomplete)
        for item in items:
            if item.help:
                item.help = re.split(r"[.:;] ", item.help)[0].rstrip(".")
        return items

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in their groups."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        rows: dict[Group, list[tuple[str, str]]] = {group: [] for group in Group}
        for option in options:
            record = option.get_help_record(ctx)
            if record:
                rows[getattr(option, "group", Group.HELP)].append(record)
        for group, records in rows.items():
            if records:
                with formatter.section(group.value):
                    formatter.write_dl(records)

    def format_epilog(
        self,
        ctx: click.Context,  # noqa: ARG002 - Click passes it
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the examples, which are commands and stay on their lines."""
        with formatter.section("Examples"):
            formatter.write(
                "".join(f"  {example}\n" for example in (self.epilog or "").split("\n"))
            )


def make_command(
    name: str, examples: Sequence[str], **attributes: Any
) -> Callable[[Callable[..., Any]], Command]:
    """A decorator that makes a command of a function, whose docstring is the help."""
    return click.command(name, cls=Command, epilog="\n".join(examples), **attributes)
