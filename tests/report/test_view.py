"""Previews: they read what they show, and of a tensor in chunks each chunk once."""

import itertools
from collections import Counter
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from revseq_cli.formats.contract import Storage
from revseq_cli.formats.held import HeldSource
from revseq_cli.report import view


class InChunks(HeldSource):
    """A tensor that counts how often each of its chunks is decoded."""

    def __init__(self, values, chunks):
        super().__init__("x", values, Storage("memory", {}))
        self.chunks, self.decoded = chunks, Counter()

    def ticket(self, region):
        spans = (
            range(part.start // size, -(-part.stop // size)) for part, size in zip(region, self.chunks, strict=True)
        )
        self.decoded.update(itertools.product(*spans))
        return super().ticket(region)


_SIZES = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 40)), min_size=1, max_size=4)


@given(_SIZES, st.sampled_from([1, 10, 200]))
def test_a_preview_decodes_each_chunk_once(both, most):
    sizes, chunks = zip(*both, strict=True)
    values = np.arange(prod(sizes)).reshape(sizes)
    source = InChunks(values, chunks)
    assert view.shortened(source, most) == view.shortened(HeldSource("x", values, Storage("memory", {})), most)
    assert set(source.decoded.values()) == {1}
