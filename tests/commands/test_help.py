"""Help in two lengths, with examples that run anywhere; and hints for what was mistyped or left out by a variable."""

import importlib
import os
import re
import subprocess
from pathlib import Path

import click
import pytest
from conftest import environment
from terminals import in_columns

from revseq_cli.commands import base
from revseq_cli.commands.cli import COMMANDS, cli
from revseq_cli.core.system import quoted

NAMES = [None, *COMMANDS]


def command_of(name):
    return importlib.import_module(f"revseq_cli.commands.{name}").command if name else cli


def examples_in(text):
    return [line.strip() for line in text.partition("\nExamples:\n")[2].splitlines()]


@pytest.mark.needs("shell")
@pytest.mark.parametrize("name", NAMES)
def test_the_examples_of_every_help_run_in_an_empty_folder(forked, revseq, tmp_path, name):
    words = [name] if name else []
    examples = examples_in(revseq(*words, "--help").ok().out)
    assert len(examples) == 2
    assert examples == examples_in(revseq(*words, "-h").ok().out)
    path = f"{Path(*forked.command).parent}{os.pathsep}{os.environ['PATH']}"
    command = ["sh", "-ec", "\n".join(examples)]
    subprocess.run(command, cwd=tmp_path, env=environment({"PATH": path}), capture_output=True, check=True)


@pytest.mark.parametrize("name", NAMES)
def test_the_short_help_has_a_line_for_every_option(revseq, name):
    command = command_of(name)
    text = revseq(*([name] if name else []), "-h").ok().out
    names = [re.split(r"\s{2,}", line.strip())[0] for line in text.splitlines() if line.startswith("  -")]
    shown = [{word.strip(",") for word in each.split() if word[0] == "-"} for each in names]
    params = command.get_params(click.Context(command, help_option_names=["--help"]))
    options = [{*each.opts, *each.secondary_opts} for each in params if isinstance(each, click.Option)]
    assert sorted(map(sorted, shown)) == sorted(map(sorted, options))
    assert max(map(len, text.splitlines())) <= 80


def test_every_option_says_its_group_in_the_short_help():
    others = set()
    for command in map(command_of, NAMES):
        params = command.get_params(click.Context(command, help_option_names=["--help"]))
        others |= {name for each in params if not isinstance(each, click.Argument | base.Option) for name in each.opts}
    assert others == {"-h", "--help", "--version"}


@pytest.mark.parametrize("name", ["run", "check", "show", "convert", "export", "diff", "batch"])
def test_the_short_help_has_what_describes_a_raw_buffer_under_what_is_read(revseq, name):
    (read,) = re.findall(r"^What to read:\n((?:  .*\n)+)", revseq(name, "-h").ok().out, re.MULTILINE)
    names = re.findall(r"^  (--[\w-]+)", read, re.MULTILINE)
    assert [each for each in names if each != "--feed"] == ["--sizes", "--strides"]


@pytest.mark.needs("terminal")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_fits_80_columns(forked, tmp_path, name, option):
    out = in_columns(80, *forked.command, *([name] if name else []), option, cwd=tmp_path)
    assert "Usage: revseq" in out
    assert max(map(len, out.splitlines())) <= 80


def test_the_command_help(revseq):
    for name in COMMANDS:
        assert revseq("help", name).ok().out == revseq(name, "--help").out
    assert revseq("help").ok().out == revseq("--help").out == revseq().ok().out
    revseq("help", "rnu").refused("no such command as rnu", "did you mean: revseq help run\n")


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        (("export", "x.npy", "n.npy", "y.json"), "export x.npy n.npy -o y.json"),
        (("run", "x.npy", "n.npy", "-", "--axis", 1), "run x.npy n.npy -o - --axis 1"),
        (("run", "x.npy", "n.npy", "[a.npy", "--axis", 1), f"run x.npy n.npy -o {quoted('[a.npy')} --axis 1"),
        (("run", "[[1,", "-3]]", "[[2]]", "--axis", 1), f"run {quoted('[[1, -3]]')} {quoted('[[2]]')} --axis 1"),
    ],
)  # fmt: skip
def test_an_argument_too_many(revseq, args, meant):
    revseq(*args).refused(f"Hint: did you mean: revseq {meant}\n")


@pytest.mark.parametrize(
    "args",
    [
        ("y.npy", "z.npy"), ("y.npy", "-o", "z.npy"), ("x.npy",), ("--", "y.npy"),
        ("1",), ("axis=1",), ("model",), ("y.npy", "--picture", "y.npy"), ("a\nb.npy",), ("\x1b.npy",),
    ],
)  # fmt: skip
def test_an_argument_too_many_that_may_be_anything(revseq, files, args):
    """Several, one beside an output, a file that is there, one behind --, no name of an output, none to be shown."""
    done = revseq("run", "x.npy", "n.npy", *args).refused("Got unexpected extra argument")
    assert "Hint: revseq run --help\n" in done.err


def test_help_is_shown_whatever_else_is_wrong(revseq):
    for args in (("x.npy", "n.npy", "y.npy"), ("a", "b", "c", "d"), ("[1,", "2]", "[1]")):
        assert revseq("run", *args, "--help").ok().out == revseq("run", "--help").out
    revseq("run", "x.npy", "n.npy", "").refused("an argument is empty", "Hint: is a variable unset?")
    revseq("run", "[1, 2", "[1]", "y.npy").refused("y.npy is an unexpected argument")


def test_an_option_that_does_not_exist(revseq):
    revseq("run", "x.npy", "--axi", 1).refused("No such option '--axi'", "Did you mean '--axis'?")


@pytest.mark.parametrize(
    ("args", "found"),
    [
        (("--axis", "-o", "y.npy"), "--axis has no value: -o follows it"), (("--axis", "--verify"), "--axis has no value: --verify follows it"),
        (("--axis", "--dtype=INT8"), "--axis has no value: --dtype=INT8 follows it"), (("--axis",), "--axis has no value: nothing follows it"),
        (("--axis", "n.npy"), "--axis has no value: n.npy follows it"), (("--axis", ""), "--axis is empty"), (("--axis=",), "--axis is empty"),
        (("-o", ""), "--output is empty"), (("-o", "--axis", "1"), "--output has no value: --axis follows it"),
        (("--like", ""), "--like is empty"), (("--memory", ""), "--memory is empty"), (("-o",), "--output has no value: nothing follows it"),
    ],
)  # fmt: skip
def test_a_variable_that_is_not_set(revseq, files, args, found):
    """As `--axis $AXIS` and `--axis "$AXIS"` arrive."""
    revseq("run", "x.npy", "n.npy", *args).refused(f"Error: {found}\n", "wanted: --", "Hint: is a variable unset?")


def test_negative_numbers_and_dashes_are_values(revseq, files):
    revseq("run", "x.npy", "n.npy", "--axis", -1).refused("-1")
    revseq("run", "x.npy", "n.npy", "--axis", 1, "-o", "-").ok()
