"""The plan covers every element exactly once, within its bound, and costs nothing."""

import itertools
import time

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from revseq_cli.plan import make_plan


@st.composite
def plans(draw):
    sizes = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    axis = draw(st.one_of(st.none(), st.integers(0, len(sizes) - 1)))
    grain = tuple(draw(st.integers(1, 5)) for _ in sizes)
    most = draw(st.integers(1, 4000))
    order = draw(st.sampled_from("CF"))
    return axis, grain, most, make_plan(sizes, axis, 4, most_bytes=most, grain=grain, order=order)


@given(plans())
def test_every_element_exactly_once(case):
    axis, grain, _most, plan = case
    seen = np.zeros(plan.sizes, int)
    blocks = list(plan)
    for block in blocks:
        assert all(0 <= part.start < part.stop <= size for part, size in zip(block.region, plan.sizes, strict=True))
        seen[block.region] += 1
        if axis is not None:
            assert block.region[axis] == slice(0, plan.sizes[axis])
        for part, size, step in zip(block.region, plan.sizes, grain, strict=True):
            assert part.start % step == 0
            assert part.stop % step == 0 or part.stop == size
    assert (seen == 1).all()
    assert len(blocks) == len(plan)


@given(plans())
def test_blocks_fit_unless_nothing_is_left_to_cut(case):
    axis, grain, most, plan = case
    smallest = [size if d == axis else min(size, grain[d]) for d, size in enumerate(plan.sizes)]
    assert plan.block_bytes <= max(most, 4 * int(np.prod(smallest)))


def test_lazy():
    plan = make_plan((10**7, 10**7), 1, 1, most_bytes=1 << 24, grain=(1, 1))
    began = time.perf_counter()
    assert len(plan) == 10**7
    assert len(list(itertools.islice(iter(plan), 3))) == 3
    assert time.perf_counter() - began < 30  # not a speed test: listing the blocks would not end
