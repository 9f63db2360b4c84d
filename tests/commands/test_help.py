"""Help with examples that run anywhere, pages of the manual, and completion."""

import os
import re
import subprocess
from pathlib import Path

import click
import numpy as np
import pytest
from conftest import environment
from terminals import Screen, in_columns

from revseq_cli.commands.cli import cli
from revseq_cli.commands.groups import COMMANDS


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
    for topic in ("formats", "porting", "json"):
        assert len(revseq("help", topic).ok().out.splitlines()) > 20
    revseq("help", "jsn").refused("'jsn' is not a choice")


@pytest.mark.needs("terminal")
@pytest.mark.parametrize(
    ("env", "in_color"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"REVSEQ_COLOR": "never"}, False)],
)
def test_a_page_of_the_manual_on_a_terminal(forked, tmp_path, env, in_color):
    """It goes through the pager, in styles without a colour of their own."""
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\nsed s/^/paged:/\n")
    pager.chmod(0o755)
    out = in_columns(
        80, *forked.command, "help", "formats", cwd=tmp_path, env={"PAGER": str(pager), **env}
    )
    assert out.count("paged:") > 100
    assert {*re.findall(r"\x1b\[([\d;]*)m", out)} <= {"0", "1", "2", "3", "1;4", "4", "1;2"}
    assert ("\x1b[" in out) == in_color


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("run x.npy --axi 1", ["unknown option --axi", "--axis\n"]),
        ("run x.npy --weird", ["unknown option --weird", "revseq run --help\n"]),
        ("run x.npy --dim 1", ["unknown option --dim", "--axis\n"]),
        ("run x.npy --pad-value 0", ["unknown option --pad-value", "--padding\n"]),
        ("run x.npy --force", ["unknown option --force", "--overwrite\n"]),
        ("run x.npy --lengths n.npy", ["unknown option --lengths", "LENGTHS", "after INPUT\n"]),
        ("convert x.npy -o y.csv", ["unknown option -o", "convert x.npy y.csv\n"]),
        ("rnu x.npy", ["unknown command rnu", "revseq run x.npy\n"]),
        ("shwo x.npy", ["unknown command shwo", "revseq show x.npy\n"]),
        ("reverse x.npy n.npy", ["unknown command reverse", "revseq run x.npy n.npy\n"]),
        ("x.npy --axis 1", ["unknown command x.npy", "revseq run x.npy --axis 1\n"]),
        ("run", ["INPUT is missing", "revseq run --help\n"]),
        ("convert x.npy", ["DST is missing", "revseq convert --help\n"]),
        ("run x.npy --axis", ["--axis needs a value", "revseq run --help\n"]),
        ("run a b c", ["too many arguments: c", "revseq run --help\n"]),
        ("batch --each a b c -o d", ["too many arguments: c", "--each 'in/*.npy'\n"]),
        ("run x.npy --jobs many", ["--jobs: 'many' is not a whole number", "1 to 1024\n"]),
        ("run x.npy --jobs 0", ["--jobs: '0' is out of range", "1 to 1024\n"]),
        ("run x.npy --memory much", ["--memory: 'much' is not a size", "1GiB"]),
        ("run x.npy --engine sereal", ["--engine: 'sereal' is not", "serial\n"]),
        ("diff x.npy x.npy --atol much", ["--atol: 'much' is not a number"]),
    ],
)
def test_usage_errors_say_what_to_type(revseq, files, args, words):
    revseq(*args.split()).refused(*words)


def test_what_was_typed_is_named(revseq, files):
    revseq("run", "x.npy", env={"REVSEQ_JOBS": "0"}).refused("REVSEQ_JOBS: '0'")
    revseq("run", "x.npy", "--jobs", "-1", env={"REVSEQ_JOBS": "2"}).refused("--jobs: '-1'")
    revseq("run", "x.npy", "-f", "cvs").refused("-f: 'cvs'", "csv\n")
    revseq("run", "x.npy", "--format=cvs").refused("--format: 'cvs'", "csv\n")


# Completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["co"], "convert"),
        (["run", "--feature-level", "5_"], "5_1"),
        (["run", "x.npy", "--dtype", "FLOAT3"], "FLOAT32"),
        (["levels", "6_"], "6_4"),
        *((words, "file") for words in (
            ["run", "x"], ["run", "x.npy", "n"], ["diff", "a", "b"], ["show", "a", "b"],
            ["verify", "p"], ["convert", "s"], ["convert", "s", "d"], ["batch", "m"], ["check", "x"],
        )),
    ],
)  # fmt: skip
def test_completion(revseq, shell, words, completed):
    env = {
        "_REVSEQ_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": " ".join(["revseq", *words]),
        "COMP_CWORD": words[-1] if shell == "fish" else str(len(words)),
    }
    assert completed in revseq(env=env).ok().out


def test_completion_describes_options_in_a_sentence(revseq):
    env = {"_REVSEQ_COMPLETE": "zsh_complete", "COMP_WORDS": "revseq run --a", "COMP_CWORD": "2"}
    kind, option, words = revseq(env=env).ok().out.split("\n")[:3]
    assert (kind, option) == ("plain", "--axis")
    assert 20 < len(words) < 120


@pytest.mark.needs("terminal")
@pytest.mark.parametrize(
    "shell",
    [
        pytest.param(("bash", "--norc", "--noprofile", "-i"), marks=pytest.mark.needs("shell")),
        pytest.param(("zsh", "-f", "-i"), marks=pytest.mark.needs("zsh")),
        pytest.param(("fish", "--no-config", "-i"), marks=pytest.mark.needs("fish")),
    ],
    ids=["bash", "zsh", "fish"],
)
def test_shells_complete_the_names_of_files(forked, tmp_path, shell):
    """As typed at a prompt: the line of the help, a command, a part of a name, and a tab."""
    np.save(tmp_path / "sequences-of-may.npy", np.zeros(2))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "revseq").symlink_to(forked.command[0])
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    env = environment({"PATH": path, "TERM": "vt100", "HOME": str(tmp_path)})
    set_up = f'eval "$(revseq completion {shell[0]})"'
    if shell[0] == "fish":
        set_up = "revseq completion fish | source"
    screen = Screen([*shell], tmp_path, env)
    screen.type(f"{set_up}; echo is-{shell[0]}-ready\r")
    screen.wait_for(f"is-{shell[0]}-ready\r\n")
    screen.type("revseq show sequences-o\t")
    screen.wait_for("sequences-of-may.npy")
    screen.end()
