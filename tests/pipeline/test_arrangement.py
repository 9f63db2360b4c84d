"""What a pass is cut into and who does it: engines, blocks, and the memory that they need, by the documented costs."""

import os
from types import SimpleNamespace

import numpy as np
import pytest

from revseq_cli.core import thresholds
from revseq_cli.core.errors import EngineError
from revseq_cli.formats import file_io
from revseq_cli.formats.contract import Storage
from revseq_cli.formats.in_memory import MemorySource
from revseq_cli.formats.raw import RawSource, RawTensor
from revseq_cli.pipeline.arrangement import (
    Arrangement,
    Resources,
    arrange,
    arrange_copy,
    arrange_fold,
    arrange_move,
    arrange_pair,
    choose,
    cut,
)
from revseq_cli.pipeline.assembly import Job
from revseq_cli.pipeline.engines import DASK, PROCESSES, SERIAL
from revseq_cli.pipeline.plan import Plan

MANY = 1 << 40  # bytes of memory


def source(sizes, dtype="f4", *, chunks=None, encoded=False, order="C", held=True):
    """A tensor of any size that takes no memory."""
    made = MemorySource("x", np.broadcast_to(np.zeros(1, dtype), sizes), Storage("held", {}))
    made.chunks, made.encoded, made.order = chunks, encoded, order
    made.held = held
    return made


def sink(chunks=None, encoded=False, held=False):
    return SimpleNamespace(chunks=chunks, encoded=encoded, held=held)


def job(sizes=(100, 50), axis=1, lengths_chunks=None, **options):
    of_lengths = tuple(1 if d == axis else size for d, size in enumerate(sizes))
    lengths = source(of_lengths, "u4", chunks=lengths_chunks, encoded=bool(lengths_chunks))
    return Job(source(sizes, **options), lengths, axis)


# Cores and engines


@pytest.mark.parametrize(
    ("resources", "cores"),
    [
        (Resources(cores=5), 5),
        pytest.param(Resources(), 3, marks=pytest.mark.needs("affinity")),
        (Resources(cores=5, scheduler="tcp://x:1"), 1),
    ],
)
def test_usable_cores(monkeypatch, resources, cores):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {2, 5, 7} if pid == 0 else set(), raising=False)
    assert resources.usable_cores == cores
    assert resources.elsewhere is bool(resources.scheduler)


@pytest.mark.needs("affinity")
@pytest.mark.parametrize(("count", "cores"), [(6, 6), (None, 1)])
def test_usable_cores_where_no_process_has_cores_of_its_own(monkeypatch, count, cores):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    assert Resources().usable_cores == cores


SOME, MUCH = 1 << 25, 1 << 28


@pytest.mark.parametrize(
    ("size", "cores", "options", "to", "engine"),
    [
        (SOME - 1, 2, {"encoded": True}, None, SERIAL),
        (SOME, 1, {"encoded": True}, None, SERIAL),
        (SOME, 2, {"encoded": True}, None, PROCESSES),
        (SOME, 2, {}, sink(encoded=True), PROCESSES),
        (MUCH - 1, 16, {}, sink(), SERIAL),
        (MUCH, 2, {}, sink(), PROCESSES),
        (MUCH, 1, {}, sink(), SERIAL),
    ],
)
def test_the_engine_that_is_chosen(size, cores, options, to, engine):
    assert choose(cores, source((size,), "u1", **options), to) is engine


@pytest.mark.parametrize(
    ("engine", "held", "to", "copies"),
    [
        (SERIAL, True, None, 4),
        (PROCESSES, False, sink(), 4),
        (PROCESSES, True, sink(), 6),
        (PROCESSES, False, sink(held=True), 6),
        (DASK, True, None, 6),
    ],
)
def test_what_travels_is_held_twice_more(engine, held, to, copies):
    """Values that are not in a file go from process to process."""
    found = arrange(job((1000, 50), held=held), Resources(engine.name, 1, MANY), to)
    assert found.need == pytest.approx(1000 * (50 * 4 * copies + 20), abs=1)


@pytest.mark.parametrize(("mib", "workers"), [(1, 2), (47, 2), (48, 3), (64, 4), (255, 15), (256, 16), (1024, 16)])
def test_each_process_takes_memory_of_its_own(mib, workers):
    assert arrange(job((1 << 20, 128)), Resources("processes", 16, mib << 20)).workers == workers


def test_a_worker_less_where_blocks_are_then_cut_at_rows():
    """Blocks of 16 MiB, each of whole rows, are cheap; 16 workers had blocks of a bit less, of very short runs."""
    sizes, unchanged = (256, 4096, 1024), file_io.Identity(1, 1, 1, 1, 1)
    values = RawSource(RawTensor("x.npy", "x.npy", 128, np.dtype("f4"), sizes), unchanged, Storage("npy", {}))
    large = Job(values, source((256, 1, 1024), "u4"), 1)
    found = arrange(large, Resources("processes", 16, 1 << 30))
    assert (found.workers, found.plan.extents) == (15, (1, 4096, 1024))
    assert found.need <= 1 << 30
    # Far fewer workers would be slower than that.
    found = arrange(large, Resources("processes", 16, 1 << 28))
    assert found.workers == 16
    assert found.plan.extents[2] < 1024


def test_a_scheduler_is_for_the_engine_that_has_one():
    found = arrange(job(), Resources("dask", 4, MANY, "tcp://x:1"))
    assert (found.engine, found.workers, found.scheduler) == (DASK, 1, "tcp://x:1")
    assert arrange(job(), Resources("serial", 4, MANY, "tcp://x:1")).scheduler == ""
    plan = Plan((1,), (1,))
    assert Arrangement(plan, DASK, 1, 1234, scheduler="tcp://x:1").means == (
        "dask, all workers of tcp://x:1, 1,234 bytes of memory for each thread"
    )


# Reversals: an element is held as input, output and scratch of twice its size, 4 x 4 bytes; and its part of a length,
# as it is and as indices, (4 + 16) bytes for a line of 40 elements: 16.5 in all.


@pytest.mark.parametrize(
    ("name", "cores", "memory", "lines", "workers", "need"),
    [
        ("serial", 1, 660, 1, 1, 660),
        ("serial", 1, 6600, 10, 1, 6600),
        ("serial", 1, 7000, 10, 1, 6600),
        ("serial", 1, MANY, 100, 1, 66_000),
        ("processes", 4, 2 * 9800, 10, 2, 2 * 9800),  # what travels is held twice more: 24.5 bytes
        ("processes", 2, 2 * 24_500, 25, 2, 2 * 24_500),
        ("processes", 8, MANY, 100, 1, 98_000),  # one block needs one worker
    ],
)
def test_blocks_and_memory_of_a_reversal(name, cores, memory, lines, workers, need):
    found = arrange(job((100, 40), chunks=(1, 40)), Resources(name, cores, memory))
    assert (found.plan.extents, found.workers, found.need) == ((lines, 40), workers, need)
    assert not found.spooled


def test_a_block_that_just_fits_needs_no_temporary_file():
    found = arrange(job((100, 40), chunks=(10, 40)), Resources("serial", 1, 6600), sink())
    assert (found.plan.extents, found.spooled) == ((10, 40), False)


def test_the_least_memory_is_what_the_error_says():
    wide = job((100, 40), chunks=(1, 40))
    for name in ("serial", "auto"):
        with pytest.raises(EngineError, match="the memory is 659 bytes, and a block takes 660") as caught:
            arrange(wide, Resources(name, 2, 659))
        assert caught.value.hint == "try --memory 660"
        assert arrange(wide, Resources(name, 2, 660)).need == 660
    with pytest.raises(EngineError, match="the memory is 1 byte, and a block takes 660"):
        arrange(wide, Resources("serial", 2, 1))


@pytest.mark.parametrize("size", [3, 7, 11, 13, 49, 10_000])
def test_the_memory_that_a_block_needs_holds_that_block(size):
    """The cost of an element is a fraction, of which nothing may be lost: a byte less, and there are two blocks."""
    need = arrange(job((1, size)), Resources("serial", 1, MANY)).need
    assert arrange(job((1, size)), Resources("serial", 1, need)).plan.block_count == 1
    assert arrange(job((1, size)), Resources("serial", 1, need - 1)).plan.block_count == 2


def test_lines_are_cut_where_not_even_one_fits():
    found = arrange(job((2, 10_000)), Resources("serial", 1, 1700))
    assert found.plan.cuts_lines
    assert found.plan.block_elements == 106  # 1700 bytes for 16.002 each
    assert found.need <= 1700
    assert arrange(job((2, 10_000)), Resources("serial", 1, 17)).plan.block_elements == 1


def test_lengths_that_are_decoded_count_too():
    """Their chunk is held as it is stored, decoded, and read."""
    found = arrange(job(lengths_chunks=(30_000, 1)), Resources("serial", 1, MANY))
    assert found.need == 3 * 30_000 * 4
    assert arrange(job(lengths_chunks=(10, 1)), Resources("serial", 1, MANY)).need == 82000


def test_blocks_are_cut_at_the_chunks_of_both_sides():
    found = arrange(job(chunks=(4, 50)), Resources("serial", 1, 30_000), sink((6, 50)))
    assert found.plan.extents == (36, 50)  # 36 x 50 x 16.4 = 29,520
    assert arrange(job(chunks=(4, 50)), Resources("serial", 1, 29_000), sink((6, 50))).plan.extents == (24, 50)
    assert not found.spooled
    assert arrange(job(chunks=(4, 50)), Resources("serial", 1, 30_000)).plan.extents == (36, 50)
    assert arrange(job(chunks=(5, 50)), Resources("serial", 1, 30_000)).plan.extents == (35, 50)
    assert arrange(job(), Resources("serial", 1, 30_000), sink((8, 50))).plan.extents == (32, 50)


def test_a_chunk_across_too_many_lines_goes_through_a_temporary_file():
    """10 x 100 elements are a chunk; all the lines through it would be 10 x 1000."""
    tall = job((100, 1000), chunks=(10, 100))
    few, many = Resources("serial", 1, 30_000), Resources("serial", 1, 200_000)
    assert (arrange(tall, many, sink()).spooled, arrange(tall, few, sink()).spooled) == (False, True)
    assert arrange(tall, few, sink()).plan.extents == (1, 1000)
    assert arrange(tall, many, sink()).plan.extents == (10, 1000)
    # A chunk is decoded whole, even where a block is smaller: 10,000 x 16 bytes, as in a copy.
    with pytest.raises(EngineError, match="a block takes 160000"):
        arrange(job((100, 1000), chunks=(100, 100)), few, sink())
    # Without an output there is no place for a file, and without chunks there is no need.
    assert not arrange(tall, few).spooled
    assert not arrange(job((100, 1000)), few, sink()).spooled
    # The chunks of the output count as those of the input.
    assert arrange(job((100, 1000)), few, sink((10, 100))).spooled


def test_blocks_have_the_usual_size_where_the_memory_allows():
    for name in ("serial", "dask"):
        found = arrange(job((1 << 14, 1 << 13)), Resources(name, 1, MANY))
        assert found.plan.block_elements * 4 == thresholds.BLOCK_BYTES


# Copies and comparisons


@pytest.mark.parametrize(
    ("name", "cores", "memory", "workers", "elements"),
    [
        ("serial", 1, 1600, 1, 100),  # 4 x 4 bytes each
        ("serial", 1, 15, 1, None),
        ("serial", 1, 16, 1, 1),
        ("processes", 2, 4800, 2, 100),  # 6 x 4 bytes each
        ("processes", 2, MANY, 1, 5000),
    ],
)
def test_blocks_and_memory_of_a_copy(name, cores, memory, workers, elements):
    resources = Resources(name, cores, memory)
    if elements is None:
        with pytest.raises(EngineError, match="a block takes 16"):
            arrange_copy(source((5000,)), resources, sink())
        return
    found = arrange_copy(source((5000,)), resources, sink())
    cost = 6 * 4 if name == "processes" else 4 * 4
    assert (found.plan.block_elements, found.workers, found.need) == (elements, workers, elements * cost * workers)


def test_a_chunk_that_reaches_beyond_the_block_is_held_whole():
    found = arrange_copy(source((50,), chunks=(80,)), Resources("serial", 1, MANY), sink())
    assert found.need == 50 * 16 + 30 * 4
    found = arrange_copy(source((50,), chunks=(20,)), Resources("serial", 1, MANY), sink((10,)))
    assert found.need == 50 * 16
    need = 50 * 16 + 130 * 4  # it counts where blocks are cut, too
    found = arrange_copy(source((3, 50), chunks=(1, 180)), Resources("serial", 1, need), sink())
    assert (found.plan.extents, found.need) == ((1, 50), need)


def test_copies_are_cut_at_the_chunks_of_both_sides_or_of_the_output():
    from_, to = source((600,), chunks=(20,)), sink((30,))
    assert arrange_copy(from_, Resources("serial", 1, 130 * 16), to).plan.extents == (120,)
    assert arrange_copy(from_, Resources("serial", 1, 50 * 16), to).plan.extents == (30,)
    assert arrange_copy(from_, Resources("serial", 1, 50 * 16), sink()).plan.extents == (40,)
    assert arrange_copy(source((600,)), Resources("serial", 1, 50 * 16), to).plan.extents == (30,)
    assert arrange_copy(source((600,)), Resources("serial", 1, 50 * 16), sink()).plan.extents == (50,)


def test_blocks_of_a_comparison():
    """Where an element differs, it takes 64 bytes more; and it is computed with in 8 bytes."""
    a, b = source((3000,), chunks=(20,)), source((3000,), chunks=(30,))
    for pair in ((a, b), (b, a)):
        found = arrange_pair(*pair, Resources("serial", 1, 130 * 80))
        assert (found.plan.extents, found.need) == ((120,), 120 * 80)
        assert arrange_pair(*pair, Resources("serial", 1, 59 * 80)).plan.extents == (30,)  # the larger chunk's
    found = arrange_pair(*[source((1 << 22,))] * 2, Resources("serial", 1, MANY))
    assert found.plan.block_elements == thresholds.BLOCK_BYTES // 8
    assert (
        arrange_copy(source((1 << 22,)), Resources("serial", 1, MANY), sink()).plan.block_elements
        == thresholds.BLOCK_BYTES // 4
    )


def test_blocks_of_a_fold_and_of_a_copy_on_the_way():
    found = arrange_fold(source((1 << 24,), "u1"), Resources(cores=2))
    assert (found.plan.block_elements, found.need) == (thresholds.BLOCK_BYTES // 8, 0)
    found = arrange_fold(source((1 << 25,), "u1"), Resources(cores=2))
    assert (found.engine, found.workers) == (SERIAL, 1)
    for need, elements in ((3 * 4 * 400, 100), (1 << 40, thresholds.BLOCK_BYTES // 4), (3, 1)):
        before = Arrangement(Plan((1,), (1,)), PROCESSES, 3, need, spooled=True)
        found = arrange_move(source((1 << 22,)), sink(), before)
        assert found.plan.block_elements == elements
        assert found._replace(plan=before.plan) == before
    assert arrange_move(source((600,), chunks=(7,)), sink((5,)), before._replace(need=4 * 3 * 4 * 80)).plan.extents == (
        70,
    )


# Cuts


@pytest.mark.parametrize(
    ("most", "usual", "cut_alignments", "extents"),
    [
        (100, 1, [(1, 4)], (1, 20)),  # whole lines, and one cut alignment in each other dimension
        (100, 50, [(1, 4)], (2, 20)),
        (100, 1000, [(1, 4)], (5, 20)),
        (20, 1, [(1, 4)], (1, 20)),
        (19, 1, [(1, 4)], (1, 16)),
        (80, 1, [(4, 4), (2, 4)], (4, 20)),
        (80, 1, [(4, 4), (3, 4)], (4, 20)),
        (79, 1, [(4, 4), (2, 4)], (2, 20)),  # the last cut alignment, and as many as fit
        (39, 1, [(4, 4), (2, 4), (1, 4)], (1, 20)),
        (200, 1, [(50, 4)], (10, 20)),  # a cut alignment larger than the tensor
    ],
)
def test_cuts(most, usual, cut_alignments, extents):
    assert cut((10, 20), 1, "C", cut_alignments, most, usual).extents == extents


def test_cuts_in_the_order_of_the_memory():
    assert cut((10, 20), None, "F", [(1, 1)], 30, 30).extents == (10, 3)
    assert cut((10, 20), None, "C", [(1, 1)], 30, 30).extents == (1, 20)
    assert cut((10, 20), 0, "C", [(1, 1)], 30, 30).extents == (10, 3)
