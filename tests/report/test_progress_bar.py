"""How far long work is: the words, the bar on a terminal, lines elsewhere, and what is said after a signal."""

import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from needs import pty
from processes import handles_signals, start, until
from terminals import everything_on

from revseq_cli.core import progress
from revseq_cli.report import terminal

JOB = ("run", "x.npy", "n.npy", "--axis", 1, "-o", "y.npy")
# As if the work took long: what is to be shown is shown at every block.
AT_ONCE = (
    "from revseq_cli.report import terminal\nterminal._BAR_DELAY = terminal._BAR_PAUSE = terminal._LINE_PAUSE = 0\n"
)


@pytest.fixture
def folder(tmp_path):
    """A job of 20 blocks within 64 KiB."""
    np.save(tmp_path / "x.npy", np.arange(200_000, dtype=np.float32).reshape(2000, 100))
    np.save(tmp_path / "n.npy", np.full((2000, 1), 60, np.uint32))
    np.savez_compressed(tmp_path / "x.npz", x=np.load(tmp_path / "x.npy"))
    return tmp_path


@pytest.mark.parametrize(
    ("done", "total", "unit", "text"),
    [
        (0, 0, "bytes", "0 bytes"),
        (999, 0, "bytes", "999 bytes"),
        (1000, 0, "bytes", "1.0 KB"),
        (1_249_000_000, 3_990_000_000, "bytes", "1.2 of 4.0 GB"),
        (999_949_999, 0, "bytes", "999.9 MB"),
        (999_999_999, 0, "bytes", "1.0 GB"),
        (5, 10**15, "bytes", "0.0 of 1.0 PB"),
        (0, 10**19, "bytes", "0.0 of 10,000.0 PB"),
        (12, 4000, "jobs", "12 of 4,000 jobs"),
    ],
)
def test_amounts_have_one_unit(done, total, unit, text):
    assert terminal.amount(done, total, unit) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00"), (111, "1:51"), (3599.6, "1:00:00"), (7311, "2:01:51")])
def test_the_time_that_is_left(seconds, text):
    assert terminal.clock(seconds) == text


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        (("reverse", 10**9, 4 * 10**9, "bytes", 2.0), "reverse 25 %, 1.0 of 4.0 GB, 500.0 MB/s, left 0:06"),
        (("unpack", 10**9, 0, "bytes", 2.0), "unpack, 1.0 GB, 500.0 MB/s"),
        (("read", 120, 10, "bytes", 100.0), "read 1200 %, 120 of 10 bytes, 1 bytes/s, left 0:00"),
        (("batch", 3, 12, "jobs", 60.0), "batch 25 %, 3 of 12 jobs, left 3:00"),
        (("batch", 0, 12, "jobs", 0.0), "batch 0 %, 0 of 12 jobs"),
        (("batch", 3, 12, "jobs", 60.0, 12 * 10**9), "batch 25 %, 3 of 12 jobs, 12.0 GB, 200.0 MB/s, left 3:00"),
    ],
)
def test_what_is_said_of_a_stage(stage, text):
    assert terminal.line(*stage) == text


def test_the_stage_inside_another_is_shown_and_none_without_a_watcher(monkeypatch, capsys):
    monkeypatch.setattr(terminal, "_LINE_PAUSE", 0)
    with progress.begun("nobody looks", 9) as advance:
        advance(9)
    with terminal.Progress("plain", bar=True), progress.begun("outer", 4, "jobs") as outer:
        with progress.begun("inner", 2, "jobs") as inner:
            inner(1)
        outer(1)
    with progress.begun("nobody looks any more", 9) as advance:
        advance(9)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == ["inner 50 %", "outer 25 %"]


@pytest.mark.parametrize(
    ("job", "names"),
    [
        ((*JOB, "--verify"), ["reverse", "verify"]),
        ((*JOB, "--json"), ["reverse", "digest"]),
        (("convert", "x.npy", "y.npy", "--verify"), ["copy", "verify"]),
        (("diff", "x.npy", "x.npy"), ["compare"]),
        (("show", "x.npy", "--stats"), ["read"]),
        (("batch", "m.csv"), ["batch"]),
    ],
)
def test_lines_where_there_is_no_terminal(revseq, folder, job, names):
    """Each stage comes to 100 %, and what is left never grows: the blocks are of one size."""
    (folder / "m.csv").write_text("input,lengths,output,axis\nx.npy,n.npy,z1.npy,1\nx.npy,n.npy,z2.npy,1\n")
    done = revseq(*job, code=AT_ONCE).ok()
    lines = [line for line in done.err.splitlines() if not line.startswith("Note:")]
    assert list(dict.fromkeys(line.split()[0] for line in lines)) == names
    for name in names:
        assert any(line.startswith(f"{name} 100 %, ") and line.endswith(", left 0:00") for line in lines)
    again = ["--overwrite"] * (job[0] in ("run", "convert", "batch"))
    assert revseq(*job, "--progress", "none", *again, code=AT_ONCE).ok().err == ""


def test_short_and_quiet_work_says_nothing(revseq, folder):
    assert revseq(*JOB).ok().err == ""
    assert revseq(*JOB, "--overwrite", "-q", "--progress", "plain", code=AT_ONCE).ok().err == ""


def test_the_variable_for_a_session(revseq, folder):
    env = {"REVSEQ_PROGRESS": "plain"}
    assert "reverse 100 %" in revseq(*JOB, env=env, code=AT_ONCE).ok().err
    assert revseq(*JOB, "--overwrite", "--progress", "none", env=env, code=AT_ONCE).ok().err == ""
    revseq(*JOB, "--overwrite", env={"REVSEQ_PROGRESS": "often"}).refused("'often'")


@pytest.mark.needs("terminal")
@pytest.mark.parametrize("columns", [80, 40])
def test_the_bar_on_a_terminal(folder, columns):
    main, sub = pty.openpty()
    code = f"{AT_ONCE}import sys; sys.argv[0] = 'revseq'\nfrom revseq_cli.__main__ import main; main()"
    job = [*map(str, JOB), "--memory", "64KiB", "--engine", "serial"]
    env = os.environ | {"TERM": "xterm", "COLUMNS": str(columns)}
    process = subprocess.Popen([sys.executable, "-c", code, *job], cwd=folder, stderr=sub, env=env)
    os.close(sub)
    shown = everything_on(main).decode()
    assert process.wait() == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    drawings = [each.strip() for each in re.split(r"[\r\n]+", plain) if each.strip()]
    assert len(drawings) > 10
    assert max(map(len, drawings)) <= columns
    assert any("reverse 50 %, 400.0 of 800.0 KB" in each for each in drawings) or columns == 40
    assert shown.rstrip().endswith(("\x1b[2K", "\x1b[?25h"))


@pytest.mark.needs("signals")
@pytest.mark.parametrize("exists", [True, False])
def test_what_became_of_the_output_after_ctrl_c(folder, exists):
    with open(folder / "x.npy", "wb") as f:
        np.lib.format.write_array_header_1_0(f, {"descr": "|u1", "fortran_order": False, "shape": (1 << 22, 1 << 12)})
        f.truncate(f.tell() + (1 << 34))
    np.save(folder / "n.npy", np.zeros((1 << 22, 1), np.uint32))
    if exists:
        (folder / "y.npy").write_bytes(b"old")
    process = start(folder, "--feature-level", "none", "--memory", "1MiB", "--engine", "serial")
    until(lambda: list(folder.glob(".revseq-*")) and handles_signals(process.pid))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out) == (-signal.SIGINT, b"")
    assert err == f"Note: stopped; y.npy {'is unchanged' if exists else 'was not written'}\n".encode()
    assert (folder / "y.npy").exists() is exists
