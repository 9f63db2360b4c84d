"""Plans cover every element exactly once, fit the memory, and are found at once for tensors of any size."""

import functools
import itertools
import random
import time
from dataclasses import replace
from math import prod
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from revseq_cli.core import thresholds
from revseq_cli.core.errors import EngineError
from revseq_cli.files.input_file import Identity
from revseq_cli.formats.contract import Sink, Storage
from revseq_cli.formats.memory import MemorySource
from revseq_cli.formats.raw import RawSource, RawTensor
from revseq_cli.pipeline import plan, resources
from revseq_cli.pipeline.blocks import Blocks, cut
from revseq_cli.pipeline.jobs import Job
from revseq_cli.pipeline.plan import (
    Detour,
    Plan,
    plan_fold,
    plan_move,
    plan_pass,
)
from revseq_cli.pipeline.resources import Resources

MANY = 1 << 40  # bytes of memory


def source(sizes, dtype="f4", *, chunks=None, encoded=False, order="C", path="x.h5"):
    """A tensor of any size that takes no memory."""
    made = MemorySource("x", np.broadcast_to(np.zeros(1, dtype), sizes), Storage("held", {}))
    made.chunks, made.encoded, made.order, made.path = chunks, encoded, order, path
    return made


def raw(sizes, dtype="f4", order="C"):
    unchanged = Identity(1, 1, 1, 1, 1)
    tensor = RawTensor("/x.npy", "x.npy", 128, np.dtype(dtype), sizes, order)
    return RawSource(tensor, unchanged, Storage("npy", {}))


class Output(Sink):
    """A sink that stores nothing."""

    def __init__(self, chunks=None, encoded=False, in_workers=True, next_to="/y"):
        self.chunks, self.encoded, self.in_workers, self.next_to = (
            chunks,
            encoded,
            in_workers,
            next_to,
        )

    def block_writer(self):
        raise NotImplementedError

    def open_output(self):
        raise NotImplementedError

    def __exit__(self, *_):
        pass


def plan_reversal(job, resources, sink=None):
    return plan_pass(job.values, sink, resources, job)


def job(sizes=(100, 50), axis=1, lengths_chunks=None, **options):
    of_lengths = tuple(1 if d == axis else size for d, size in enumerate(sizes))
    lengths = source(of_lengths, "u4", chunks=lengths_chunks, encoded=bool(lengths_chunks))
    return Job(source(sizes, **options), lengths, axis)


# Blocks


@st.composite
def cuts(draw):
    sizes = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    axis = draw(st.one_of(st.none(), st.integers(0, len(sizes) - 1)))
    alignment = tuple(draw(st.integers(1, 5)) for _ in sizes)
    most = draw(st.integers(1, 1000))
    return (
        alignment,
        most,
        cut(sizes, axis, most=most, alignment=alignment, order=draw(st.sampled_from("CF"))),
    )


@given(cuts())
def test_every_element_exactly_once_in_blocks_that_fit(case):
    alignment, most, blocks = case
    seen = np.zeros(blocks.sizes, int)
    for region in blocks:
        seen[region] += 1
        for part, size, step in zip(region, blocks.sizes, alignment, strict=True):
            assert 0 <= part.start < part.stop <= size
            assert part.start % step == 0
            assert part.stop % step == 0 or part.stop == size
    assert (seen == 1).all()
    assert len([*blocks]) == blocks.count
    smallest = np.minimum(alignment, blocks.sizes)
    assert blocks.elements <= max(most, int(np.prod(smallest)))
    if blocks.cuts_sequences:  # which come last
        assert all(
            blocks.extents[d] == smallest[d] for d in range(len(blocks.sizes)) if d != blocks.axis
        )


@pytest.mark.parametrize(
    ("sizes", "axis", "most", "alignment", "order", "extents"),
    [
        ((4, 6, 8), None, 24, (1, 1, 1), "C", (1, 3, 8)),
        ((4, 6, 8), None, 24, (1, 1, 1), "F", (4, 6, 1)),
        ((4, 6, 8), 0, 32, (1, 1, 1), "C", (4, 1, 8)),
        ((4, 6, 8), 0, 2, (1, 1, 1), "C", (2, 1, 1)),
        ((4, 6, 8), 2, 9, (1, 1, 1), "F", (1, 1, 8)),
        ((10,), None, 2, (3,), "C", (3,)),
        ((4, 6), None, 7, (1, 4), "C", (1, 6)),  # what fits is not cut again
        ((3, 0, 5), 0, 10, (1, 1, 1), "C", (3, 1, 3)),
    ],
)
def test_the_slowest_dimension_is_cut_first_and_the_axis_last(
    sizes, axis, most, alignment, order, extents
):
    blocks = cut(sizes, axis, most=most, alignment=alignment, order=order)
    assert blocks.extents == extents
    assert (blocks.count == 0) is (0 in sizes)


def test_blocks_are_computed_lazily():
    """10^14 blocks: to list them, or the cuts of one dimension, would not end."""
    blocks = cut((10**14, 10**7), 1, most=1, alignment=(1, 10**7))
    assert blocks.count == 10**14
    assert list(itertools.islice(iter(blocks), 2))[1] == (slice(1, 2), slice(0, 10**7))
    assert not [*cut((10**14, 0), None, most=1, alignment=(1, 1))]


# Engines and workers


@pytest.mark.parametrize(
    ("mib", "workers"), [(1, 2), (47, 2), (48, 3), (255, 15), (256, 16), (1024, 16)]
)
def test_each_process_takes_memory_of_its_own(mib, workers):
    assert (
        plan_reversal(job((1 << 20, 128)), Resources("processes", 16, mib << 20)).workers == workers
    )


# Memory. A reversal holds an element as input, output and scratch of twice its size, 4 x 4 bytes; and its part of a
# length, as it is and as indices, (4 + 16) bytes for a line of 40 elements: 16.5 in all.


@pytest.mark.parametrize(
    ("engine", "path", "to", "copies"),
    [
        ("serial", "", None, 4),
        ("processes", "x.h5", Output(), 4),
        ("processes", "", Output(), 6),
        ("processes", "x.h5", Output(in_workers=False), 6),
        ("dask", "", None, 6),
        ("serial", "x.h5", Output(encoded=True), 5),
    ],
)
def test_how_often_an_element_is_held(engine, path, to, copies):
    found = plan_reversal(job((1000, 50), path=path), Resources(engine, 1, MANY), to)
    assert found.bytes == pytest.approx(1000 * (50 * 4 * copies + 20), abs=1)
    assert found.carries_values == (copies == 6)


def test_the_least_memory_is_what_the_error_says():
    wide = job((100, 40), chunks=(1, 40))
    for name in ("serial", "auto"):
        with pytest.raises(
            EngineError, match="the memory is 659 bytes, and a block takes 660"
        ) as caught:
            plan_reversal(wide, Resources(name, 2, 659))
        assert caught.value.hint.endswith(" --memory 660")
        assert plan_reversal(wide, Resources(name, 2, 660)).bytes == 660


def test_chunks_count_in_memory_and_cuts():
    serial = Resources("serial", 1, 30_000)
    assert plan_reversal(job(chunks=(4, 50)), serial, Output((6, 50))).blocks.extents == (36, 50)
    assert plan_reversal(job(chunks=(5, 50)), serial).blocks.extents == (35, 50)
    assert plan_reversal(job(), serial, Output((8, 50))).blocks.extents == (32, 50)
    # Lengths that are decoded: a chunk is held as it is stored, decoded, and read.
    assert (
        plan_reversal(job(lengths_chunks=(30_000, 1)), Resources("serial", 1, MANY)).bytes
        == 3 * 30_000 * 4
    )
    # 10 x 100 elements are a chunk; all the lines through it would be 10 x 1000.
    tall, few = job((100, 1000), chunks=(10, 100)), Resources("serial", 1, 30_000)
    assert plan_reversal(tall, few, Output()).detour.copies == 1
    assert not plan_reversal(tall, Resources("serial", 1, MANY), Output()).detour.copies
    assert plan_reversal(tall, few, Output((10, 100))).detour.copies == 2
    assert not plan_reversal(tall, few).detour.copies
    with pytest.raises(EngineError, match="a block takes 160000"):  # a chunk is decoded whole
        plan_reversal(job((100, 1000), chunks=(100, 100)), few, Output())


@pytest.mark.parametrize(
    ("from_chunks", "to_chunks", "memory", "extents"),
    [(20, 30, 130 * 16, 120), (20, 30, 50 * 16, 30), (20, None, 50 * 16, 40), (None, 30, 50 * 16, 30),
     (None, None, 50 * 16, 50), (None, None, 16, 1)],
)  # fmt: skip
def test_copies_are_cut_at_the_chunks_of_both_sides_or_of_the_output(
    from_chunks, to_chunks, memory, extents
):
    from_, to = (chunks and (chunks,) for chunks in (from_chunks, to_chunks))
    found = plan_pass(source((600,), chunks=from_), Output(to), Resources("serial", 1, memory))
    assert found.blocks.extents == (extents,)


def test_what_a_chunk_and_a_single_worker_are_counted_as():
    """A copy decodes what a chunk has more than its block; one process is not worth starting."""
    for size, memory, extra in ((100, 1000, 0), (20, 1000, 30)):
        found = plan_pass(source((size,), chunks=(50,)), Output(), Resources("serial", 1, memory))
        assert found.bytes == (50 - extra) * 16 + extra * 4
    found = plan_reversal(job((1 << 20, 128), chunks=(1 << 10, 128)), Resources("auto", 2, 3 << 20))
    assert (found.workers, found.engine) == (1, "serial")


def test_a_comparison_a_fold_and_a_copy_on_the_way():
    """Where an element differs, it takes 64 bytes more; and it is computed with in 8 bytes."""
    a, b = source((3000,), chunks=(20,)), source((3000,), chunks=(30,))
    for pair in ((a, b), (b, a)):
        assert plan_pass(*pair, Resources("serial", 1, 130 * 80)).blocks.extents == (120,)
        assert plan_pass(*pair, Resources("serial", 1, 59 * 80)).blocks.extents == (
            30,
        )  # the larger chunk's
    fold = plan_fold(source((1 << 24,), "u1"), Resources(cores=2))
    assert (fold.blocks.elements, fold.engine, fold.workers) == (
        thresholds.BLOCK_BYTES // 8,
        "serial",
        1,
    )
    for need, elements in ((3 * 4 * 400, 100), (1 << 40, thresholds.BLOCK_BYTES // 4), (3, 1)):
        before = Plan(Blocks((1,), (1,)), "processes", 3, need, detour=Detour(copies=1))
        found = plan_move(source((1 << 22,)), Output(), before)
        assert (found.blocks.elements, replace(found, blocks=before.blocks)) == (elements, before)


# Long lines across the rows of a file


@given(st.data())
def test_a_tiling_has_blocks_that_fit(data):
    sizes = tuple(data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=4)))
    axis, most = data.draw(st.integers(0, len(sizes) - 1)), data.draw(st.integers(1, 5000))
    tiling = plan.make_tiling(sizes, axis, most=most, order=data.draw(st.sampled_from("CF")))
    blocks, width = tiling.blocks, tiling.width
    columns = blocks.elements // blocks.extents[axis]
    assert blocks.elements <= max(most, columns)
    assert 1 <= width <= columns <= max(1, most)
    assert width == 1 or width * sizes[axis] <= most // 4
    assert columns == 1 or blocks.extents[axis] >= min(
        10, sizes[axis]
    )  # as the need for memory counts them


def tall(shape, memory, to, dtype="u4"):
    lengths = source((1, *shape[1:]), "u4")
    return plan_reversal(Job(raw(shape, dtype), lengths, 0), Resources("processes", 2, memory), to)


def test_a_tiling_only_where_runs_are_short():
    to = Output()
    few = tall((1 << 14, 1 << 10), 1 << 23, to)
    assert few.detour.tiling
    assert few.bytes <= 1 << 23
    # The memory that the error and the plan name is enough, and not much more than that.
    assert not tall((1 << 14, 1 << 10), few.detour.memory_for_long_runs, to).detour.tiling
    assert tall((1 << 14, 1 << 10), few.detour.memory_for_long_runs // 2, to).detour.tiling
    assert not tall(
        (1 << 14, 1 << 10), 1 << 23, None
    ).detour.tiling  # what is printed is held in memory
    assert not tall((1 << 24,), 1 << 23, to).detour.tiling  # a single line, which is cut
    assert not tall((1 << 10, 1 << 10), 1 << 18, to).detour.tiling  # a small tensor


# On paper: passes over generated tensors of up to 100 TB

COUNT, SHARDS = 4_000, 4
MOST_WEIGHED = (
    1500  # cuts for one plan, each in some microseconds: for every number of workers some
)


def sizes_of(rng, rank, most):
    sizes, room = [1] * rank, most
    for d in rng.sample(range(rank), rank):
        some = rng.choice(
            (1, 2, 3, rng.randint(1, 300), 2 ** rng.randint(0, 40), rng.randint(1, room))
        )
        sizes[d] = max(1, min(room, some))
        room //= sizes[d]
    return tuple(sizes)


def chunks_of(rng, shape):
    if rng.random() < 0.5:
        return None
    return tuple(
        max(1, rng.choice((1, size, rng.randint(1, size), min(size, 2 ** rng.randint(0, 8)))))
        for size in shape
    )


def tensor(rng, shape, dtype, order="C"):
    chunks = chunks_of(rng, shape)
    if chunks is None and rng.random() < 0.7:
        return raw(shape, dtype, order)
    path, encoded = (
        "x.h5" if chunks or rng.random() < 0.5 else "",
        bool(chunks) and rng.random() < 0.5,
    )
    return source(shape, dtype, chunks=chunks, encoded=encoded, order=order, path=path)


def generated(rng):
    """A function that plans a pass within some bytes of memory, and the sizes of its tensor."""
    rank, dtype = rng.randint(1, 8), rng.choice(("u1", "f2", "f4", "f8", "c16"))
    shape = sizes_of(rng, rank, rng.choice((10**4, 10**8, 10**14)) // np.dtype(dtype).itemsize)
    axis, order = rng.randrange(rank), rng.choice("CF")
    values = tensor(rng, shape, dtype, order)
    lengths = tensor(
        rng,
        tuple(1 if d == axis else size for d, size in enumerate(shape)),
        rng.choice(("u4", "u8")),
    )
    engine, cores = rng.choice(("auto", *resources.ENGINES)), rng.choice((1, 2, 3, 4, 16, 64))
    chunks = chunks_of(rng, shape)
    to = Output(chunks, bool(chunks) and rng.random() < 0.5, rng.random() < 0.7)
    one, other = Job(values, lengths, axis), tensor(rng, shape, dtype)
    how = rng.choice((
        lambda means: plan_reversal(one, means, to),
        lambda means: plan_reversal(one, means, to),
        lambda means: plan_reversal(one, means),
        lambda means: plan_pass(values, to, means),
        lambda means: plan_pass(values, other, means),
        lambda means: plan_pass(one.values, other, means, one),
    ))  # fmt: skip
    return lambda memory: how(Resources(engine, cores, memory)), shape


@pytest.mark.parametrize("shard", range(SHARDS))
def test_plans_on_paper_are_found_at_once_fit_and_cover_all(monkeypatch, shard):
    rng, counts = random.Random(shard), SimpleNamespace(weighed=0, refused=0, tiled=0)

    def counted(real, *args, **options):
        counts.weighed += 1
        return real(*args, **options)

    for name in ("cut", "make_tiling"):
        monkeypatch.setattr(plan, name, functools.partial(counted, getattr(plan, name)))
    slowest = 0.0
    for _ in range(COUNT // SHARDS):
        planned, shape = generated(rng)
        memory = rng.choice((1, 1000, 1 << 20, 1 << 30, 1 << rng.randint(0, 44)))
        counts.weighed, start = 0, time.process_time()
        try:
            found = planned(memory)
        except EngineError as e:  # what the message names is enough
            counts.refused += 1
            memory, before = int(e.hint.rpartition(" ")[2]), memory
            found = planned(memory)
            assert memory > before
        slowest = max(slowest, time.process_time() - start)
        assert counts.weighed <= MOST_WEIGHED
        assert found.bytes <= memory
        assert found.workers >= 1
        blocks = found.blocks
        assert blocks.sizes == shape
        assert all(1 <= extent <= size for extent, size in zip(blocks.extents, shape, strict=True))
        assert blocks.count == prod(
            -(-size // extent) for size, extent in zip(shape, blocks.extents, strict=True)
        )
        if found.detour.tiling:
            counts.tiled += 1
            direct = planned(found.detour.memory_for_long_runs)
            assert not direct.detour.tiling
            assert direct.bytes <= found.detour.memory_for_long_runs
    assert slowest < 0.5
    assert counts.refused
    assert counts.tiled


def test_one_worker_less_makes_a_temporary_file_unnecessary():
    """4 GiB along the first axis: the runs of 16 workers would be shorter than a page."""
    lengths = raw((1, 1 << 18), np.dtype("u4"))
    job = Job(raw((1 << 12, 1 << 18), np.dtype("f4")), lengths, 0)
    plan = plan_reversal(job, Resources("auto", 16), Output())
    assert plan.workers == 15
    assert not plan.detour.tiling
    assert plan.bytes <= 1 << 30
