"""What messages call lines of a manifest, and errors with one reason as one."""

import pytest

from revseq_cli.core.errors import RevseqError
from revseq_cli.report.words import numbered, reason, together


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([3], "line 3"), ([3, 4], "lines 3 and 4"), ([5, 3, 4], "lines 3 to 5"), ([1, 2, 4], "lines 1, 2 and 4"),
        ([2, 3, 5, 6, 7], "lines 2, 3 and 5 to 7"), ([*range(1, 2000)], "lines 1 to 1999"),
        ([*range(1, 17, 2)], "lines 1, 3, 5, 7, 9, 11, 13 and 15"),
        ([*range(1, 2021, 2)], "lines 1, 3, 5, 7, 9, 11, 13, 15 and 1,002 more"),
    ],
)  # fmt: skip
def test_lines_are_named_by_their_runs(numbers, text):
    assert numbered("line", numbers) == text


def test_errors_are_alike_but_for_their_files():
    def error(where, **other):
        return RevseqError(**{"found": "f", "wanted": "w", "hint": "h", "context": "c", "where": where} | other)

    assert reason(error("a")) == reason(error("b"))
    for part in ("found", "wanted", "hint", "context"):
        assert reason(error("a")) != reason(error("a", **{part: "other"}))
    for files, where in (("a", "a"), ("aa", "a"), ("aba", "a, b"), ("abcde", "a, b, c and 2 more")):
        (one,) = together([error(each) for each in files])
        assert (one.where, one.found, one.wanted, one.hint, one.context) == (where, "f", "w", "h", "c")
    long = "x" * 1000
    assert together([error(long), error(long)])[0].where == long
