"""The terminal: colours that can be read and who decides on them, and bars of progress."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from conftest import SAMPLES
from needs import pty
from terminals import everything_on, in_columns

from revseq_cli.report import terminal

JOB = ("x.npy", "n.npy", "--axis", 1)


@pytest.mark.needs("terminal")
def test_what_is_coloured(forked, files):
    np.save(files / "n.npy", np.array([[2], [9], [3]], np.uint32))
    (files / "page.md").write_text(
        (SAMPLES / "page.md").read_text().replace("8, 7, 6, 5", "8, 7, 5, 6")
    )
    jobs = "input,lengths,axis,output\n{},n.npy,1,z.npy\n"
    (files / "jobs.csv").write_text(jobs.format("x.npy"))
    (files / "wrong.csv").write_text(jobs.format("absent.npy"))
    for args, colors in (
        (("check", *JOB), {terminal.GREEN}),
        (("verify", "page.md"), {terminal.GREEN, terminal.RED}),
        (("rnu",), {terminal.RED, terminal.CYAN}),
        (("run", *JOB, "-o", "y.npy"), {terminal.YELLOW}),
        (("diff", "x.npy", "x.npy"), {terminal.GREEN}),
        (("diff", "x.npy", "y.npy"), {terminal.RED}),
        (("batch", "jobs.csv", "--overwrite"), {terminal.YELLOW, terminal.GREEN}),
        (("batch", "wrong.csv"), {terminal.RED}),
    ):
        out = in_columns(80, *forked.command, *args, cwd=files)
        assert {*re.findall(r"\x1b\[([\d;]+)m", out)} - {"0"} == colors, out


@pytest.mark.needs("terminal")
@pytest.mark.parametrize(
    ("env", "options", "colored"),
    [({}, (), True), ({"NO_COLOR": "1"}, (), False), ({}, ("--color", "never"), False), ({"TERM": "dumb"}, (), False), ({"REVSEQ_COLOR": "never"}, (), False),
     ({"NO_COLOR": "1"}, ("--color", "always"), True), ({"REVSEQ_COLOR": "never"}, ("--color", "always"), True)],
)  # fmt: skip
def test_errors_on_a_terminal(forked, tmp_path, env, options, colored):
    out = in_columns(80, *forked.command, "show", "none.npy", *options, cwd=tmp_path, env=env)
    label = terminal.paint("Error:", terminal.RED) if colored else "Error:"
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


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--color", "maybe"),
        ("--engine", "x"),
        ("--memory", "much"),
        ("--jobs", "0"),
        ("--feature-level", "9_9"),
    ],
)
def test_variables_of_the_environment(revseq, files, option, value):
    """An empty one is none, and an option counts more."""
    name = f"REVSEQ_{option.strip('-').replace('-', '_').upper()}"
    revseq("run", *JOB, env={name: value}).refused(name, value)
    revseq("run", *JOB, env={name: ""}).ok()
    revseq("run", *JOB, option, value).refused(option)
    for options, engine in (((), "processes"), (("--engine", "serial"), "serial")):
        plan = (
            revseq("run", *JOB, "--dry-run", *options, env={"REVSEQ_ENGINE": "processes"}).ok().out
        )
        assert re.findall("processes|serial", plan) == [engine]


# progress


@pytest.fixture
def large(tmp_path):
    """A job of 20 blocks within 64 KiB."""
    np.save(tmp_path / "x.npy", np.arange(200_000, dtype=np.float32).reshape(2000, 100))
    np.save(tmp_path / "n.npy", np.full((2000, 1), 60, np.uint32))
    return tmp_path


@pytest.mark.needs("terminal")
@pytest.mark.parametrize(
    ("options", "names"), [((), {"reverse", "verify", "flush"}), (("-q",), set())]
)
def test_a_bar_on_a_terminal_alone(revseq, large, options, names):
    """As if the work took long; before the delay, and in a pipe, nothing is shown."""
    job = [
        "run",
        *map(str, JOB),
        "-o",
        "y.npy",
        "--memory",
        "64KiB",
        "--engine",
        "serial",
        "--verify",
        *options,
    ]
    main, sub = pty.openpty()
    code = "from revseq_cli.report import progress; progress._DELAY = progress._PAUSE = 0\n"
    whole = (
        f"{code}import sys; sys.argv[0] = 'revseq'\nfrom revseq_cli.__main__ import main; main()"
    )
    env = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen([sys.executable, "-c", whole, *job], cwd=large, stderr=sub, env=env)
    os.close(sub)
    shown = everything_on(main).decode()
    assert process.wait() == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    drawings = [each.strip() for each in re.split(r"[\r\n]+", plain) if each.strip()]
    assert {each.split()[0] for each in drawings} == names
    assert not names or any("400.0/800.0 kB" in each for each in drawings)
    assert not names or shown.rstrip().endswith(("\x1b[2K", "\x1b[?25h"))  # and it goes again
    assert revseq(*job, "--overwrite", code=code).ok().err == ""
    patient = whole.replace("_DELAY = progress._PAUSE = 0", "_DELAY = 3600")
    assert in_columns(80, sys.executable, "-c", patient, *job, "--overwrite", cwd=large) == ""


# width


@pytest.mark.needs("terminal")
@pytest.mark.parametrize("columns", [40, 80, 120])
def test_messages_fit_the_terminal(forked, tmp_path, columns):
    name = "a/" * 30 + "x.npy"
    np.save(tmp_path / "x.npy", np.zeros((2, 3, 4), np.float32))
    for args in (("show", name), ("run", "x.npy"), ("run", "x.npy", "--weird")):
        out = in_columns(columns, *forked.command, *args, cwd=tmp_path)
        lines = re.sub(r"\x1b\[[\d;]*m", "", out).splitlines()
        too_long = [line for line in lines if len(line) > columns]
        assert all(" " not in line.strip() for line in too_long), lines  # only words that are long


def test_commands_stay_on_a_line_of_their_own():
    command = "revseq run x.npy lengths.npy --axis 1 --batch-axis 0 -o reversed.npy"
    text = f"Hint: one of these, whichever describes your data:\n  {command}\n{command}"
    first, *rest = terminal.fit(text, 30).split("\n")
    assert len(first) <= 30
    assert rest[-2:] == [f"  {command}", command]


@pytest.mark.needs("terminal")
@pytest.mark.parametrize("columns", [30, 80])
def test_a_line_of_progress_fits_and_names_what_is_waited_for(tmp_path, columns):
    """A pass with a total, and a wait, which has none."""
    code = """
from revseq_cli.core import signals
from revseq_cli.report import progress
progress._DELAY = progress._PAUSE = 0
with progress.show_progress():
    with signals.begin_stage("reverse", 8_000_000) as advance:
        advance(4_000_000)
    with signals.begin_stage("batch", 2000, "jobs") as advance:
        advance(1500)
    with signals.begin_stage("flush to disk", 0) as advance:
        advance(0)
"""
    out = in_columns(columns, sys.executable, "-c", code, cwd=tmp_path)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out)
    lines = [line for line in re.split(r"[\r\n]+", plain) if line.strip()]
    assert [line for line in lines if len(line.rstrip()) > columns] == []
    for words in ("4.0/8.0 MB", "1,500/2,000 jobs", "flush to disk"):
        assert any(words in line for line in lines), (words, lines)
