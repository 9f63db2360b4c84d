"""The kernel against the slow loop."""

import functools
import tracemalloc

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from revseq_cli.core.tensors import DataType
from revseq_cli.operator import kernel
from revseq_cli.pipeline import folds
from revseq_cli.pipeline.folds import Statistics


@st.composite
def jobs(draw, most=6):
    rank = draw(st.integers(1, 5))
    shape = tuple(draw(st.lists(st.integers(1, most), min_size=rank, max_size=rank)))
    axis = draw(st.integers(0, rank - 1))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    values = oracle.random_values(rng, shape, draw(st.sampled_from(list(DataType))))
    dtype = draw(st.sampled_from(["u1", "u2", "u4", "u8", ">u4", ">u8"]))
    lengths_shape = (*shape[:axis], 1, *shape[axis + 1 :])
    lengths = rng.integers(0, shape[axis] + 3, lengths_shape).astype(dtype)
    if draw(st.booleans()):
        lengths[(0,) * rank] = np.iinfo(dtype).max
    shared = draw(st.integers(0, rank - axis - 1))  # one length for all of the last dimensions
    lengths = lengths[(..., *(slice(0, 1),) * shared)] + np.zeros_like(lengths)
    if draw(st.booleans()):
        lengths[...] = lengths.flat[0]
    if draw(st.booleans()):
        values = values.view(values.dtype.newbyteorder())
    if draw(st.booleans()):
        values = np.asfortranarray(values)
    return values, lengths, axis


@settings(max_examples=120)
@given(jobs())
def test_against_the_slow_loop(job):
    values, lengths, axis = job
    before = values.tobytes()
    out = kernel.reverse(values, lengths, axis)
    assert (out.dtype, out.flags.f_contiguous) == (values.dtype, values.flags.f_contiguous)
    assert oracle.same_bits(out, oracle.reverse(values, lengths, axis))
    assert values.tobytes() == before
    assert oracle.same_bits(
        kernel.reverse(out, lengths, axis), values
    )  # twice gives the input back
    assert oracle.same_bits(kernel.reverse(values, lengths, axis, overwrite=True), out)


@pytest.mark.parametrize("inner", [2, 64, 65, 79, 600])
def test_columns_hold_no_more_than_two_copies_beside_the_output(inner):
    """That is what the memory of a block is counted with, in `pipeline/plan.py`."""
    values, lengths = (
        np.ones((70_000, inner), np.uint8),
        np.arange(inner, dtype=np.uint8).reshape(1, -1),
    )
    tracemalloc.start()
    try:
        kernel.reverse(values, lengths, 0)
        assert tracemalloc.get_traced_memory()[1] < 3 * values.nbytes + 100_000
    finally:
        tracemalloc.stop()


def test_repeated_lengths_are_held_once():
    clamped = kernel.clamp(np.broadcast_to(np.array([[9], [2]], np.uint64), (2, 5)), 7)
    assert (clamped.tolist(), clamped.strides[1]) == ([[7] * 5, [2] * 5], 0)


STRATEGIES = [
    # Shape (outer, axis, inner, shared), data type, and the strategy for it.
    ((3, 100, 1, 200), "f4", "_by_slices"), ((8, 5, 1, 1), "u1", "_by_slices"), ((700, 384, 1, 1), "f8", "_by_slices"),
    ((3000, 31, 1, 1), "f4", "_by_table"), ((700, 383, 1, 1), "f8", "_by_table"), ((70_000, 1, 1, 1), "u1", "_by_table"),
    ((40_000, 33, 1, 1), "u1", "_by_windows"), ((300, 2047, 1, 1), "u2", "_by_windows"), ((3000, 40, 1, 3), "u1", "_by_windows"),
    ((2, 512, 300, 1), "u1", "_by_columns"), ((3, 600, 23, 3), "u2", "_by_columns"), ((1, 1 << 17, 9, 1), "f8", "_by_columns"),
    ((2, 3, 70_000, 2), "c16", "_by_index"), ((2, 255, 65, 1), "u2", "_by_index"), ((1, 1, 1 << 14, 1), "u1", "_by_index"),
    ((3, 2, 8193, 1), "u1", "_by_index"), ((3, 1 << 13, 2, 4), "f8", "_by_index"), ((3, 511, 300, 1), "u4", "_by_index"),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "dtype", "strategy"), STRATEGIES)
@pytest.mark.parametrize("one", [False, True])
def test_the_strategies_for_shapes(monkeypatch, shape, one, dtype, strategy):
    """More than a tile of each strategy, and the last one smaller; lengths from 0 to above the axis size."""
    chosen, choose = [], kernel._choose
    monkeypatch.setattr(kernel, "_choose", lambda *of: chosen.append(choose(*of)) or chosen[-1])
    rng = np.random.default_rng(7)
    values = rng.integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8).view(dtype)[..., 0]
    lengths = rng.integers(0, shape[1] + 2, (shape[0], 1, shape[2], 1)).astype(np.uint32)
    lengths.flat[0], lengths.flat[-1] = shape[1], 0
    lengths = np.broadcast_to(lengths[:1, :, :1] if one else lengths, (shape[0], 1, *shape[2:]))
    for each in (lengths, lengths.copy()):
        right = oracle.expected(values, lengths, 1)
        assert oracle.same_bits(kernel.reverse(values, each, 1), right)
        assert oracle.same_bits(kernel.reverse(values.copy(), each, 1, overwrite=True), right)
    assert one or [found.__name__ for found in chosen] == [strategy] * 4


def test_counts():
    counts = folds.LengthCounts.of(3, np.array([[0, 1, 2, 3, 4, 2**64 - 1]], np.uint64))
    assert counts == folds.LengthCounts(6, 2, 2, 0, 2**64 - 1, 2, 1)
    assert counts.merge(folds.LengthCounts()) == counts
    alone = folds.LengthCounts.of(
        1, np.array([0, 1, 7], np.uint8)
    )  # a line of one element never changes
    assert alone == folds.LengthCounts(3, 1, 3, 0, 7, 1, 0)


@pytest.mark.parametrize("dtype", "? i1 u1 i2 u2 i4 u4 i8 u8 f2 f4 f8 c8 c16".split())
def test_statistics_are_those_of_exact_arithmetic(dtype):
    raw = np.random.default_rng(3).integers(0, 256, 4096 * np.dtype(dtype).itemsize, np.uint8)
    values = (raw.view(np.uint8) > 99)[:4096] if dtype == "?" else raw.view(dtype)
    values = values.reshape(4, 1024)
    parts = [Statistics.of(part) for part in values]
    found = functools.reduce(Statistics.merge, parts, Statistics())
    numbers = [v for v in values.ravel().tolist() if v == v]
    assert (found.numbers, found.nans) == (len(numbers), values.size - len(numbers))
    if values.dtype.kind != "c":
        assert (found.least, found.greatest) == (min(numbers), max(numbers))
    if values.dtype.kind in "iu?":
        assert found.mean == pytest.approx(sum(map(int, numbers)) / len(numbers), rel=1e-15)


@pytest.mark.parametrize(
    ("values", "mean"),
    [
        (np.array([1, 2, 4, np.nan], "f4"), 7 / 3), (np.full(5, np.nan), None),
        (np.array([2**53, 1, 1], "f8"), float((2**53 + 2) / 3)),
        (np.array([2**63, 2**63 - 1], "u8"), (2**64 - 1) / 2),
        (np.array([-128, 127], "i1"), -0.5), (np.array([1 + 1j, 2 + 5j], "c8"), 1.5 + 3j),
    ],
)  # fmt: skip
def test_the_mean_of_statistics(values, mean):
    """A Python number, whatever NumPy's type of the sum."""
    found = Statistics.of(values[:1]).merge(Statistics.of(values[1:])).mean
    assert (found, type(found)) == (mean, type(mean))
