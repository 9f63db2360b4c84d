"""Colours: what they are on a terminal, that they can be read on black and on white, and who decides."""

import re

import numpy as np
import pytest
from conftest import SAMPLES
from contrast import contrast
from terminals import in_columns

from revseq_cli.report import terminal

JOB = ("x.npy", "n.npy", "--axis", 1)
STEPS = (0, 95, 135, 175, 215, 255)  # of xterm's cube of 216 colours, which begin at 16; then 24 greys


def rgb(number):
    if number < 16:
        raise ValueError(f"{number} is another colour on each terminal")
    if number < 232:
        return tuple(STEPS[(number - 16) // step % 6] for step in (36, 6, 1))
    return (8 + 10 * (number - 232),) * 3


def foregrounds(text):
    """The numbers of the colours in a text for a terminal; every code is of one of 256 colours, or bold, underlined or plain."""
    codes = re.findall(r"\x1b\[([\d;]*)m", text)
    found = [re.fullmatch(r"(?:(?:1|4);?)*(?:38;5;(\d+))?|0", code) for code in codes]
    assert all(found), codes
    return {int(match[1]) for match in found if match[1]}


@pytest.fixture
def folder(files):
    np.save(files / "n.npy", np.array([[2], [9], [3]], np.uint32))
    (files / "page.md").write_text((SAMPLES / "page.md").read_text().replace("8, 7, 6, 5", "8, 7, 5, 6"))
    (files / "jobs.csv").write_text("input,lengths,axis,output\nx.npy,n.npy,1,y.npy\nnone.npy,n.npy,1,z.npy\n")
    return files


@pytest.mark.needs("terminal")
@pytest.mark.parametrize(
    ("args", "shown"),
    [
        (("run", *JOB, "--example"), {terminal.BLUE, terminal.MAGENTA}), (("check", *JOB), {terminal.GREEN}), (("check", *JOB, "--feature-level", "all"), {terminal.GREEN, terminal.RED}),
        (("verify", "page.md"), {terminal.GREEN, terminal.RED}), (("batch", "jobs.csv"), {terminal.RED}), (("rnu",), {terminal.RED, terminal.BLUE}),
        (("run", "x.npy"), {terminal.RED, terminal.BLUE}), (("verify", "none.md"), {terminal.RED}), (("levels",), set()), (("show", "x.npy"), set()),
        (("diff", "x.npy", "n.npy"), set()),
    ],
)  # fmt: skip
def test_every_colour_can_be_read_on_black_and_on_white(forked, folder, args, shown):
    out = in_columns(80, *forked.command, *args, cwd=folder)
    found = foregrounds(out)
    assert found == shown, out
    for number in found:
        for ground in ((0, 0, 0), (255, 255, 255)):
            assert contrast(rgb(number), ground) >= 4.5, number


@pytest.mark.needs("terminal")
@pytest.mark.parametrize(
    ("env", "options", "colored"),
    [({}, (), True), ({"NO_COLOR": "1"}, (), False), ({}, ("--color", "never"), False), ({"TERM": "dumb"}, (), False), ({"REVSEQ_COLOR": "never"}, (), False),
     ({"NO_COLOR": "1"}, ("--color", "always"), True), ({"REVSEQ_COLOR": "never"}, ("--color", "always"), True)],
)  # fmt: skip
def test_errors_on_a_terminal(forked, tmp_path, env, options, colored):
    out = in_columns(80, *forked.command, "show", "none.npy", *options, cwd=tmp_path, env=env)
    label = terminal.painted("Error:", terminal.RED) if colored else "Error:"
    assert out == f"{label} none.npy: no such file\n"


@pytest.mark.parametrize(
    ("env", "options", "colored"),
    [({}, (), False), ({}, ("--color", "always"), True), ({"REVSEQ_COLOR": "always"}, (), True), ({"FORCE_COLOR": "1"}, (), True),
     ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, (), False), ({"REVSEQ_COLOR": "always"}, ("--color", "never"), False)],
)  # fmt: skip
def test_errors_in_a_pipe(revseq, env, options, colored):
    done = revseq("show", "none.npy", *options, env=env)
    assert done.status == 2
    assert ("\x1b[" in done.err) == colored


def test_a_name_paints_nothing(revseq):
    done = revseq("show", "\x1b[31mred\nError: \nHint: x", "--color", "always")
    assert done.err.count("\x1b[1;") == 1


@pytest.mark.parametrize(
    ("option", "value"),
    [("--color", "maybe"), ("--engine", "x"), ("--memory", "much"), ("--jobs", "0"), ("--feature-level", "9_9")],
)
def test_an_error_names_the_variable(revseq, files, option, value):
    name = f"REVSEQ_{option.strip('-').replace('-', '_').upper()}"
    revseq("run", *JOB, env={name: value}).refused(f"(env var: '{name}')", value)
    revseq("run", *JOB, env={name: ""}).ok()
    assert "REVSEQ_" not in revseq("run", *JOB, option, value).refused(option).err


def test_an_option_counts_more_than_its_variable(revseq, files):
    for options, engine in (((), "processes"), (("--engine", "serial"), "serial")):
        plan = revseq("run", *JOB, "--dry-run", *options, env={"REVSEQ_ENGINE": "processes"}).ok().out
        assert re.findall("processes|serial", plan) == [engine]
