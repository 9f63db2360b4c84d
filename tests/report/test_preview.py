"""Previews: they read what they show, and of a tensor in chunks each chunk once."""

import itertools
import re
from collections import Counter
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensor_files import held
from terminals import in_columns

from revseq_cli.formats.contract import Storage
from revseq_cli.formats.memory import MemorySource
from revseq_cli.report import preview


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


def shown(source, elements):
    return preview.part_text(source, preview.choose_part(source.sizes, elements))


@given(_SIZES, st.sampled_from([1, 10, 200]))
def test_a_preview_decodes_few_chunks(both, most):
    """Each once, but for those that hold a part of both ends and a part of one of them."""
    sizes, chunks = zip(*both, strict=True)
    values = np.arange(prod(sizes)).reshape(sizes)
    source = InChunks(values, chunks)
    assert shown(source, most) == shown(held(values), most)
    assert max(source.decoded.values()) <= 2 ** len(sizes)
    assert all(
        max(source.decoded.values()) == 1
        for size, chunk in both
        if len(both) == 1 and chunk >= size
    )


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([[1, 20, 300], [4, 5, 6]], "[[1,  20, 300],\n [4,   5,   6]]"), ([[1], [2]], "[[1],\n [2]]"),
        (range(9), "[0, 1, 2, ..., 6, 7, 8]\n// 6 of 9 elements"), (7, "7"), (np.empty((2, 0)), "[]"),
    ],
)  # fmt: skip
def test_a_preview_has_the_ends_of_dimensions(values, text):
    assert shown(held(np.asarray(values)), 8) == text


@pytest.mark.needs("terminal")
def test_a_terminal_gets_a_part_of_more_than_a_thousand_elements(tmp_path, forked, revseq):
    np.save(tmp_path / "x.npy", np.arange(1001))
    for args in (("run", "x.npy", "[3]", "--axis", 0), ("convert", "x.npy", "-")):
        out, whole = (
            in_columns(80, *forked.command, *args, *full, cwd=tmp_path)
            for full in ((), ("--full",))
        )
        assert "// 6 of 1,001 elements; --full prints all\n" in out
        assert re.sub(r"\x1b\[\d*m", "", whole) == revseq(*args).ok().out


@pytest.mark.needs("terminal")
def test_a_terminal_shows_what_was_reversed(tmp_path, forked, revseq):
    job = ("run", "[[1, 2, 3, 0], [5, 6, 7, 8]]", "[3, 1]", "--axis", "1", "--batch-axis", "0")
    out = in_columns(80, *forked.command, *job, cwd=tmp_path)
    assert re.findall(r"\x1b\[1m(.*?)\x1b\[0m", out) == ["3", "2", "1"]
    assert re.findall(r"\x1b\[2m(.*?)\x1b\[0m", out) == ["0", "5", "6", "7", "8"]
    assert "\x1b" not in revseq(*job).ok().out
