"""Help with examples that run anywhere, pages of the manual, and completion."""

import os
import subprocess
from pathlib import Path

import click
import pytest
from conftest import environment

from revseq_cli.commands.cli import COMMANDS, cli


@pytest.mark.needs("shell")
@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_of_every_help_run_in_an_empty_folder(forked, revseq, tmp_path, name):
    examples = revseq(name, "--help").ok().out.partition("\nExamples:\n")[2].splitlines()
    path = f"{Path(*forked.command).parent}{os.pathsep}{os.environ['PATH']}"
    assert examples
    command = ["bash" if name == "completion" else "sh", "-ec", "\n".join(examples)]
    subprocess.run(
        command, cwd=tmp_path, env=environment({"PATH": path}), capture_output=True, check=True
    )


def test_options_are_few_and_in_groups():
    for name in COMMANDS:
        params = cli.get_command(click.Context(cli), name).params
        options = [each for each in params if isinstance(each, click.Option)]
        assert len(options) + 1 <= 29  # with --help
        assert all(each.group and each.help for each in options)


def test_the_command_help(revseq):
    for name in COMMANDS:
        assert revseq("help", name).ok().out == revseq(name, "--help").out == revseq(name, "-h").out
    overview = revseq("help").ok().out
    assert overview == revseq("--help").out == revseq().ok().out
    for topic in ("formats", "porting"):
        assert len(revseq("help", topic).ok().out.splitlines()) > 20
    revseq("help", "json").refused("'json' is not one of")


def test_what_does_not_exist(revseq):
    revseq("run", "x.npy", "--axi", 1).refused(
        "No such option", "--axis", "Hint: revseq run --help"
    )
    revseq("rnu").refused("No such command 'rnu'", "Hint: revseq --help")
    revseq("run", "a", "b", "c").refused("unexpected extra argument")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(revseq, shell):
    assert "_REVSEQ_COMPLETE" in revseq("completion", shell).ok().out
    env = {
        "_REVSEQ_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": "revseq co",
        "COMP_CWORD": "co" if shell == "fish" else "1",
    }
    assert "convert" in revseq(env=env).ok().out
