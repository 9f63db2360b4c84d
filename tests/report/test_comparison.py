"""The text of `diff`: which elements and which sequences it lists, and that it says when it stops."""

import re

import numpy as np
import pytest
from terminals import in_columns

JOB = ("--axis", "1", "--batch-axis", "0")


@pytest.fixture
def wrong(tmp_path):
    """A job of ten sequences, and an output in which all are wrong at 20 and 21."""
    x = np.arange(400).reshape(10, 40)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "n.npy", np.full(10, 7))
    a = x.copy()
    a[:, :7] = a[:, 6::-1]
    a[:, 20:22] = -1
    np.save(tmp_path / "a.npy", a)
    return tmp_path


def test_a_list_says_when_it_stops(revseq, tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(50))
    np.save(tmp_path / "b.npy", np.ones(50))
    out = revseq("diff", "a.npy", "b.npy").failed().out
    assert "40 more" in out
    assert "--first 50\n" in out
    whole = revseq("diff", "a.npy", "b.npy", "--first", 50).failed().out
    assert "[49]" in whole
    assert "--first" not in whole


def test_wrong_sequences_of_a_job_side_by_side(revseq, tmp_path):
    job = ("[[1, 2, 3, 4], [5, 6, 7, 8]]", "[3, 4]", *JOB)
    out = revseq("diff", "[[1, 2, 3, 4], [8, 7, 6, 5]]", "--job", *job).failed().out
    rows = [line.split() for line in out.splitlines() if line.startswith("  sequence")]
    assert [" ".join(row) for row in rows] == [
        "sequence [0, :] length 3 A 1 2 3 | 4 expected 3 2 1 | 4"
    ]


def test_a_long_sequence_is_shown_from_its_first_wrong_element_on(wrong, revseq):
    out = revseq("diff", "a.npy", "--job", "x.npy", "n.npy", *JOB, "--first", 3).failed().out
    rows = [line for line in out.splitlines() if line.startswith("  sequence")]
    assert len(rows) == 3
    assert re.search(r"A +\.\.\. -1 -1 22 .* \.\.\. +expected +\.\.\. 20 21 22 .* \.\.\.", rows[0])
    assert "7 more sequences" in out
    assert "--first 10\n" in out


@pytest.mark.needs("terminal")
@pytest.mark.parametrize("columns", [40, 80, 120])
def test_wrong_sequences_fit_the_terminal(wrong, forked, columns):
    args = ("diff", "a.npy", "--job", "x.npy", "n.npy", *JOB)
    out = in_columns(columns, *forked.command, *args, cwd=wrong)
    assert "\x1b[1;4;31m-1\x1b[0m" in out
    plain = re.sub(r"\x1b\[[\d;]*m", "", out)
    assert [line for line in plain.splitlines() if len(line) > columns] == []
