"""The group `revseq`, which loads the module of a command when it is called; help, completion."""

from __future__ import annotations

import io
import os
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Literal

import click

from revseq_cli import __version__
from revseq_cli.commands.console import is_colored
from revseq_cli.commands.groups import COMMANDS, TOPICS, Command, has_json, settings_of

# The completion of zsh has no `compdef` before this.
_START_ZSH = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -u }"
# Styles of a page of the manual that can be read on light and on dark terminals.
_STYLES = {
    "markdown.code": "bold",
    "markdown.item.bullet": "bold",
    "markdown.code_block": "none",
    "markdown.h1": "bold",
    "markdown.h2": "bold underline",
    "markdown.table.border": "dim",
    "markdown.table.header": "bold",
}


class LazyGroup(click.Group):
    """A group that imports the module of a command only when the command is called."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; an error in them, or an unknown command, is JSON with --json."""
        settings_of(ctx)["as_json"] = has_json(args)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            module = import_module(f"revseq_cli.commands.{cmd_name}")
            self.add_command(module.command)
        return super().get_command(ctx, cmd_name)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - Click passes it
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the table of commands into the help; no command is imported."""
        with formatter.section("Commands"):
            formatter.write_dl([*COMMANDS.items()])


@click.command(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog='Example: revseq run "[[1, 2, 3, 4], [5, 6, 7, 8]]" "[[3], [2]]" --axis 1',
)
@click.version_option(__version__, prog_name="revseq", message="%(prog)s %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Reverse the sequences in tensor files and leave their padding where it is.

    A sequence runs along one axis of the tensor. Its first N elements are reversed, where N is the
    length given for that sequence; the rest is copied. DirectML's DML_REVERSE_SUBSEQUENCES and
    ONNX's ReverseSequence do the same.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@cli.command("completion", cls=Command, epilog='eval "$(revseq completion bash)"')
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for SHELL.

    It completes commands, options, their values, and file names.

    bash: add eval "$(revseq completion bash)" to ~/.bashrc

    zsh: add eval "$(revseq completion zsh)" to ~/.zshrc

    fish: write the script to ~/.config/fish/completions/revseq.fish
    """
    from click.shell_completion import get_completion_class

    complete = get_completion_class(shell)
    if complete is None:
        return
    script = complete(cli, {}, "revseq", "_REVSEQ_COMPLETE").source()
    if shell == "zsh":
        script = script.replace("    compdef ", f"    {_START_ZSH}\n    compdef ")
    click.echo(script)


@cli.command("help", cls=Command, epilog="revseq help run\nrevseq help formats")
@click.argument(
    "name", metavar="[COMMAND|TOPIC]", required=False, type=click.Choice([*COMMANDS, *TOPICS])
)
@click.pass_context
def help_(context: click.Context, name: str | None) -> None:
    """Show the help of COMMAND, or the manual page on TOPIC (formats, porting or json).

    On a terminal, a manual page goes through the pager that PAGER names.
    """
    root = context.find_root()
    if name in TOPICS:
        _print_topic(name)
    elif name and (command := cli.get_command(root, name)):
        click.echo(command.get_help(click.Context(command, root, name)))
    else:
        click.echo(root.get_help())


def _print_topic(name: str) -> None:
    """Print a page of the manual, on a terminal through the user's pager."""
    from importlib import resources

    page = resources.files("revseq_cli") / "man" / f"{name}.md"
    if not page.is_file():  # in a checkout
        page = Path(__file__).parents[2] / "man" / f"{name}.md"
    in_color = is_colored(os.environ.get("REVSEQ_COLOR") or "auto", sys.stdout)
    text = _render_page(page.read_text("utf-8"), in_color=in_color)
    if sys.stdout.isatty():
        click.echo_via_pager(text, color=in_color)
    else:
        click.echo(text, nl=False, color=in_color)


def _render_page(markdown: str, *, in_color: bool) -> str:
    """A page of the manual in the width of the terminal, or of 80 columns elsewhere."""
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.theme import Theme

    # rich draws lines of tables with characters that the encoding of the file has.
    written = io.BytesIO()
    encoding = sys.stdout.encoding or "utf-8"
    file = io.TextIOWrapper(written, encoding, "backslashreplace", newline="\n")
    width = None if sys.stdout.isatty() else 80
    colors: Literal["standard"] | None = "standard" if in_color else None
    # On Windows, rich must not write into a file as it does to an old console.
    console = Console(
        file=file,
        width=width,
        legacy_windows=False,
        force_terminal=in_color,
        color_system=colors,
        theme=Theme(_STYLES),
    )
    # Code has no colours: those of its highlighters are made for one kind of terminal.
    plain = re.sub("^```[a-z]+$", "```text", markdown, flags=re.MULTILINE)
    console.print(Markdown(plain, code_theme="ansi_light"))
    file.flush()
    return written.getvalue().decode(encoding)
