"""The group `revseq`, and the table of its commands."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

import click

from revseq_cli import __version__
from revseq_cli.commands.base import Helped, meant

if TYPE_CHECKING:
    from collections.abc import Sequence

# The name of each command and its line of help; the module of that name has the command.
COMMANDS = {
    "run": "Reverse the start of every line of a tensor, and print or write the result.",
    "check": "Check a job against every constraint of one feature level, or of all.",
    "batch": "Run many jobs, and resume after an interruption.",
    "verify": "Recompute the examples on documentation pages, or ONNX's tests.",
    "show": "Show the data type, sizes and storage of tensors, with a preview.",
    "convert": "Copy a tensor to another format, bit for bit or not at all.",
    "diff": "Compare two tensors, or a tensor with the right result of a job, and show where they differ.",
    "levels": "Show what each feature level accepts.",
    "export": "Write a job as a DxDispatch model, for DirectML on Windows.",
    "completion": "Print the completion script for a shell.",
    "help": "Show help for a command.",
}
# What people who know other tools type for a command.
_SYNONYMS = {
    "reverse": "run", "flip": "run", "ls": "show", "info": "show", "head": "show", "compare": "diff",
}  # fmt: skip
_PAGES = (".md", ".html", ".rst")  # what `verify` is given


class LazyGroup(Helped, click.Group):
    """A group that imports the module of a command only when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names of the commands, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command from its module; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"revseq_cli.commands.{cmd_name}").command
        command.short_help = COMMANDS[cmd_name]
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the table of commands into the help; no command is imported."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command as Click does; UsageError for an unknown one, with the one that may be meant."""
        if args and args[0] in _SYNONYMS:
            args = [_SYNONYMS[args[0]], *args[1:]]
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from revseq_cli.core.errors import UsageError  # --help needs none

            raise UsageError(f"no such command as {args[0][:40]}", f"one of {', '.join(COMMANDS)}", _hint(args))
        return super().resolve_command(ctx, args)


def _hint(args: Sequence[str]) -> str:
    """The line that may be meant: with a command of a similar name, or with `run` before the name of a file."""
    import difflib  # only who mistypes waits for it

    if args[0] == "validate":
        are_pages = args[1:] and all(each.lower().endswith(_PAGES) or os.path.isdir(each) for each in args[1:])  # noqa: PTH112
        typed = ["verify" if are_pages else "check", *args[1:]]
    elif similar := difflib.get_close_matches(args[0].lower(), COMMANDS, 1):
        typed = [similar[0], *args[1:]]
    elif os.path.exists(args[0].partition("::")[0]) or args[0].startswith("["):  # noqa: PTH110 - it may be any text
        typed = ["run", *args]
    else:
        return "revseq --help"
    return meant(click.get_current_context().command_path, typed)


@click.command(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="revseq", message="%(prog)s %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Reverse each sequence in padded tensor files, as DirectML's DML_REVERSE_SUBSEQUENCES does.

    It reverses the first N elements of each line along an axis, where N is the length given for that line, and copies
    the rest.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


cli.examples = ('revseq run "[[1, 2, 3, 4], [5, 6, 7, 8]]" "[[3], [2]]" --axis 1', "revseq help run")
