"""Previews: they read what they show, and of a tensor in chunks each chunk once; their rows fit on a terminal."""

import itertools
from collections import Counter
from math import prod

import numpy as np
import pytest
from conftest import COMMAND
from hypothesis import given
from hypothesis import strategies as st
from tensor_files import held
from terminals import in_columns

from revseq_cli.formats.contract import Storage
from revseq_cli.formats.raw import MemorySource
from revseq_cli.report import view


class InChunks(MemorySource):
    """A tensor that counts how often each of its chunks is decoded."""

    def __init__(self, values, chunks):
        super().__init__("x", values, Storage("memory", {}))
        self.chunks, self.decoded = chunks, Counter()

    def read_task(self, region):
        parts = zip(region, self.chunks, strict=True)
        spans = (range(part.start // size, -(-part.stop // size)) for part, size in parts)
        self.decoded.update(itertools.product(*spans))
        return super().read_task(region)


_SIZES = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 40)), min_size=1, max_size=4)


@given(_SIZES, st.sampled_from([1, 10, 200]))
def test_a_preview_decodes_few_chunks(both, most):
    """Each once, but for those that hold a part of both ends and a part of one of them."""
    sizes, chunks = zip(*both, strict=True)
    values = np.arange(prod(sizes)).reshape(sizes)
    source = InChunks(values, chunks)
    assert view.shortened(source, view.Room(most)) == view.shortened(held(values), view.Room(most))
    assert max(source.decoded.values()) <= 2 ** len(sizes)
    assert all(max(source.decoded.values()) == 1 for size, chunk in both if len(both) == 1 and chunk >= size)


@pytest.mark.parametrize(
    ("values", "columns", "text"),
    [
        ([[1, 20, 300], [4, 5, 6]], 15, "[[1,  20, 300],\n [4,   5,   6]]"),
        ([[1, 20, 300], [4, 5, 6]], 14, "[[1, 20, …],\n [4,  5, …]]\n// 4 of 6 elements\n// the first 2 of 3 in each row"),
        ([[1, 20, 300], [4, 5, 6]], 11, "[[1, …],\n [4, …]]\n// 2 of 6 elements\n// the first of 3 in each row"),
        ([[1], [2]], 1, "[[1],\n [2]]"),
        (range(9), 99, "[0, 1, 2, …, 6, 7, 8]\n// 6 of 9 elements"),
        (range(9), 20, "[0, 1, 2, …]\n// 3 of 9 elements\n// the first 3 of 9 in each row"),
        (range(9), 11, "[0, 1, …]\n// 2 of 9 elements\n// the first 2 of 9 in each row"),
        (7, 1, "7"), (np.empty((2, 0)), 1, "[]"),
    ],
)  # fmt: skip
def test_a_row_ends_in_dots_where_there_is_no_room(values, columns, text):
    assert view.shortened(held(np.asarray(values)), view.Room(8, columns, "…")) == text


@pytest.mark.needs("terminal")
def test_wide_numbers_break_no_row_on_a_terminal(tmp_path, forked, revseq):
    values = (np.arange(40).reshape(4, 10) - 20) * 1234567.25
    np.save(tmp_path / "x.npy", values)
    np.save(tmp_path / "n.npy", np.array([[3], [10], [2], [7]], np.uint32))
    run = ("run", "x.npy", "n.npy", "--axis", 1, "--color", "never")
    full = "; --full prints all"
    for args, more in ((("show", "x.npy"), ""), (run, full), (("convert", "x.npy", "-"), full)):
        out = in_columns(80, *forked.command, *args, cwd=tmp_path)
        assert max(map(len, out.split("\n"))) <= 80
        assert out.count(", …]") == 4
        assert f"// 20 of 40 elements; the first 5 of 10 in each row{more}\n" in out
        whole = in_columns(80, *forked.command, *args, "--full", cwd=tmp_path)
        assert whole == revseq(*args).ok().out
        assert "…" not in whole
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assert in_columns(80, *COMMAND, *args, cwd=tmp_path, env=env) == out.replace("…", "...")
