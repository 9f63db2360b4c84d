"""Lines end between words, and what a user copies stays whole."""

import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from terminals import in_columns

from revseq_cli.report.terminal import beside, hanging


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [""]), ("one two", ["one two"]), ("a" * 20 + " b", ["a" * 20, "b"]), ("a" * 19 + " b", ["a" * 19, "b"]),
        ("a" * 18 + " b", ["a" * 18 + " b"]), ("a  b", ["a  b"]), (f"a  {'b' * 19}", ["a", "b" * 19]), ("b" * 30, ["b" * 30]),
        ("in {1,22,333,4444,55555}", ["in {1,22,333,4444,", "55555}"]), ("number {1,22,333,4444}", ["number", "{1,22,333,4444}"]),
        ("a,b,c-d_e" * 3, ["a,b,c-d_e" * 3]), ("two columns 日本語日 本", ["two columns 日本語日", "本"]),
        ("two columns each 日本語日 本", ["two columns each", "日本語日 本"]),
        ("type revseq run x.npy n.npy --axis 1", ["type", "revseq run x.npy n.npy --axis 1"]), ("a revseq run", ["a revseq run"]),
        ("what myrevseq run does not", ["what myrevseq run", "does not"]),
    ],
)  # fmt: skip
def test_lines_end_between_words(text, lines):
    first, *others = lines
    assert hanging("head: ", text, 26) == ["head: " + first, *(" " * 6 + line for line in others)]
    assert hanging("", text, 20) == lines
    assert hanging("head: ", text, 5) == hanging("head: ", text, 26)  # a terminal so narrow cuts them itself


@given(st.lists(st.text("ab,1{}日", min_size=1, max_size=30)).map(" ".join), st.integers(0, 60))
@example("a", 0)
def test_nothing_is_lost_and_no_word_is_cut(text, width):
    lines = hanging("head  ", text, width)
    assert lines[0].startswith("head  ")
    assert all(line.startswith(" " * 6) for line in lines[1:])
    cut = [line[6:] for line in lines]
    joined = re.compile(r"(?<=\d,) (?=\d)")  # a line of long sizes ends behind a comma
    assert joined.sub("", " ".join(cut)) == joined.sub("", text)
    room = max(width - 6, 20)
    assert all(cell_len(line) <= room or not joined.search(line.replace(",", ", ")) for line in cut)


def test_a_long_name_has_a_line_of_its_own():
    assert beside("x: 1", "n" * 14, 3, 20) == ["x: 1  " + "n" * 14]
    assert beside("x: 1", "n" * 15, 3, 20) == ["x: 1", "   " + "n" * 15]
    assert beside("x: 1", "日" * 8, 3, 20) == ["x: 1", "   " + "日" * 8]


@pytest.mark.needs("terminal")
def test_errors_break_at_words_and_hints_stay_whole(forked, revseq, tmp_path):
    """On a terminal; what is copied from a hint has no line breaks."""
    np.save(tmp_path / "x.npy", np.zeros((4, 10, 6), "f4"))
    np.save(tmp_path / "lengths.npy", np.array([2, 5, 10, 7]))
    job = ("run", "x.npy", "lengths.npy", "--axis", "2", "-o", f"{'long' * 12}.npy")
    out = in_columns(60, *forked.command, *job, cwd=tmp_path, env={"NO_COLOR": "1"})
    whole = revseq(*job).refused().err
    assert out != whole
    assert " ".join(out.split()) == " ".join(whole.split())
    *lines, hint = out.rstrip("\n").split("\n")
    assert hint == whole.rstrip("\n").split("\n")[-1]
    assert max(map(len, lines)) <= 60 < len(hint)
