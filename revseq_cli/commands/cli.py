"""The group `revseq`, which loads the module of a command when the command is called."""

from __future__ import annotations

from importlib import import_module

import click

from revseq_cli import __version__

# The name of each command and its line of help, in the order of the help; the module of that name has the command.
COMMANDS = {
    "run": "Reverse the first N elements of each line of a tensor.",
    "check": "Check a job against the constraints of DirectML.",
    "batch": "Run many jobs, and skip what is done.",
    "verify": "Recompute the examples on documentation pages.",
    "show": "Show what files hold, with a preview.",
    "convert": "Write a tensor in another format, bit for bit or not at all.",
    "diff": "Compare two tensors, or a tensor with the right output of a job.",
    "levels": "Show what each feature level accepts.",
    "export": "Write a job as a model for DxDispatch, for DirectML on Windows.",
    "completion": "Print the completion script for a shell.",
    "help": "Show the help of a command, or a page of the manual.",
}


class LazyGroup(click.Group):
    """A group that imports the module of a command only when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names of the commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command from its module; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"revseq_cli.commands.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the table of commands into the help; no command is imported."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog='Example: revseq run "[[1, 2, 3, 4], [5, 6, 7, 8]]" "[[3], [2]]" --axis 1',
)
@click.version_option(__version__, prog_name="revseq", message="%(prog)s %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Reverse the first N elements of each line of padded tensors, as DirectML's DML_REVERSE_SUBSEQUENCES does.

    A line lies along one axis of the tensor; N is the length given for that line. The rest of the line is copied.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
