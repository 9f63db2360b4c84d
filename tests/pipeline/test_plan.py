"""The plan covers every element exactly once, within its bound, and costs nothing."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from revseq_cli.formats.contract import Storage
from revseq_cli.formats.in_memory import MemorySource
from revseq_cli.pipeline.assembly import Job
from revseq_cli.pipeline.plan import make_plan
from revseq_cli.pipeline.reversal import reversed_output


@st.composite
def plans(draw):
    sizes = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    axis = draw(st.one_of(st.none(), st.integers(0, len(sizes) - 1)))
    cut_alignment = tuple(draw(st.integers(1, 5)) for _ in sizes)
    most = draw(st.integers(1, 1000))
    order = draw(st.sampled_from("CF"))
    return cut_alignment, most, make_plan(sizes, axis, most_elements=most, cut_alignment=cut_alignment, order=order)


@given(plans())
def test_every_element_exactly_once(case):
    cut_alignment, _, plan = case
    seen = np.zeros(plan.sizes, int)
    blocks = list(plan)
    for region in blocks:
        seen[region] += 1
        for part, size, step in zip(region, plan.sizes, cut_alignment, strict=True):
            assert 0 <= part.start < part.stop <= size
            assert part.start % step == 0
            assert part.stop % step == 0 or part.stop == size
    assert (seen == 1).all()
    assert len(blocks) == plan.block_count


@given(plans())
def test_blocks_fit_unless_each_is_one_cut_alignment(case):
    cut_alignment, most, plan = case
    assert plan.block_elements <= max(most, int(np.prod(np.minimum(cut_alignment, plan.sizes))))


@given(plans())
def test_lines_are_cut_last(case):
    cut_alignment, _, plan = case
    if plan.cuts_lines:
        others = [d for d in range(len(plan.sizes)) if d != plan.axis]
        assert all(plan.extents[d] == min(cut_alignment[d], plan.sizes[d]) for d in others)


@pytest.mark.parametrize(
    ("sizes", "axis", "most", "cut_alignment", "order", "extents"),
    [
        ((4, 6, 8), None, 100, (1, 1, 1), "C", (2, 6, 8)),
        ((4, 6, 8), None, 48, (1, 1, 1), "C", (1, 6, 8)),
        ((4, 6, 8), None, 24, (1, 1, 1), "C", (1, 3, 8)),
        ((4, 6, 8), None, 24, (1, 1, 1), "F", (4, 6, 1)),
        ((4, 6, 8), None, 5, (1, 1, 1), "F", (4, 1, 1)),
        ((4, 6, 8), 0, 32, (1, 1, 1), "C", (4, 1, 8)),
        ((4, 6, 8), 0, 8, (1, 1, 1), "C", (4, 1, 2)),
        ((4, 6, 8), 0, 2, (1, 1, 1), "C", (2, 1, 1)),
        ((4, 6, 8), 2, 9, (1, 1, 1), "F", (1, 1, 8)),
        ((10,), None, 7, (3,), "C", (6,)),
        ((10,), None, 2, (3,), "C", (3,)),
        ((1, 8), None, 100, (1, 1), "C", (1, 8)),
        ((4, 6), None, 7, (1, 4), "C", (1, 6)),  # what fits is not cut again
    ],
)
def test_the_slowest_dimension_is_cut_first_and_the_axis_last(sizes, axis, most, cut_alignment, order, extents):
    plan = make_plan(sizes, axis, most_elements=most, cut_alignment=cut_alignment, order=order)
    assert plan.extents == extents
    assert plan.cuts_lines is (axis is not None and extents[axis] < sizes[axis])


def test_without_elements_there_is_no_block():
    plan = make_plan((3, 0, 5), 0, most_elements=10, cut_alignment=(1, 1, 1))
    assert (list(plan), plan.block_count) == ([], 0)


def test_lazy():
    """10^14 blocks: to list them, or the cuts of one dimension, would not end."""
    plan = make_plan((10**14, 10**7), 1, most_elements=1, cut_alignment=(1, 10**7))
    assert plan.block_count == 10**14
    assert list(itertools.islice(iter(plan), 2))[1] == (slice(1, 2), slice(0, 10**7))


@given(st.integers(0, 20), st.integers(1, 20), st.integers(0, 40))
def test_a_part_of_a_line(start, count, length):
    line = np.arange(41)
    values, lengths = (MemorySource("x", each, Storage("memory", {})) for each in (line, np.array([length], np.uint8)))
    part = slice(start, start + count)
    read = reversed_output(Job(values, lengths, 0)).read_task((part,)).read()
    assert read.tolist() == [*line[:length][::-1], *line[length:]][part]
