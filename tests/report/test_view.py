"""Previews: they read what they show, and of a tensor in chunks each chunk once; their rows fit on a terminal."""

import itertools
from collections import Counter
from math import inf, prod

import numpy as np
import pytest
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


def preview(source, elements, columns=inf):
    return view.shown(source, view.ends_of(source.sizes, elements), view.Room(elements, columns))


@given(_SIZES, st.sampled_from([1, 10, 200]))
def test_a_preview_decodes_few_chunks(both, most):
    """Each once, but for those that hold a part of both ends and a part of one of them."""
    sizes, chunks = zip(*both, strict=True)
    values = np.arange(prod(sizes)).reshape(sizes)
    source = InChunks(values, chunks)
    assert preview(source, most) == preview(held(values), most)
    assert max(source.decoded.values()) <= 2 ** len(sizes)
    assert all(max(source.decoded.values()) == 1 for size, chunk in both if len(both) == 1 and chunk >= size)


@pytest.mark.parametrize(
    ("values", "columns", "text"),
    [
        ([[1, 20, 300], [4, 5, 6]], 17, "[[1,  20, 300],\n [4,   5,   6]]"),
        ([[1, 20, 300], [4, 5, 6]], 16, "[[1, ...],\n [4, ...]]\n// 2 of 6 elements"),
        ([[1], [2]], 1, "[[1],\n [2]]"),
        (range(9), 99, "[0, 1, 2, ..., 6, 7, 8]\n// 6 of 9 elements"),
        (range(9), 16, "[0, 1, 2, ...]\n// 3 of 9 elements"),
        (range(9), 1, "[0, ...]\n// 1 of 9 elements"),
        (7, 1, "7"), (np.empty((2, 0)), 1, "[]"),
    ],
)  # fmt: skip
def test_a_row_ends_in_dots_where_there_is_no_room(values, columns, text):
    assert preview(held(np.asarray(values)), 8, columns) == text


@pytest.mark.needs("terminal")
def test_wide_numbers_break_no_row_on_a_terminal(tmp_path, forked, revseq):
    np.save(tmp_path / "x.npy", (np.arange(40).reshape(4, 10) - 20) * 1234567.25)
    np.save(tmp_path / "n.npy", np.array([[3], [10], [2], [7]], np.uint32))
    run = ("run", "x.npy", "n.npy", "--axis", 1, "--color", "never")
    for args in (("show", "x.npy"), run, ("convert", "x.npy", "-")):
        out = in_columns(80, *forked.command, *args, cwd=tmp_path)
        assert max(map(len, out.split("\n"))) <= 80
        assert out.count(", ...]") == 4
        assert ("of 40 elements; --full prints all\n" in out) is (args[0] != "show")
        whole = in_columns(80, *forked.command, *args, "--full", cwd=tmp_path)
        assert whole == revseq(*args).ok().out
        assert "..." not in whole
