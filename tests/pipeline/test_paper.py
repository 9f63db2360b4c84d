"""Plans on paper: passes over generated tensors of up to 100 TB are arranged at once, fit the memory, and cover all."""

import random
import time
from math import prod
from types import SimpleNamespace

import numpy as np
import pytest

from revseq_cli.core.errors import EngineError
from revseq_cli.formats import atomic_file, file_io
from revseq_cli.formats.contract import Storage
from revseq_cli.formats.in_memory import MemorySource
from revseq_cli.formats.raw import RawSource, RawTensor
from revseq_cli.pipeline import arrangement, plan
from revseq_cli.pipeline.arrangement import Resources, arrange, arrange_copy, arrange_oracle, arrange_pair
from revseq_cli.pipeline.assembly import Job
from revseq_cli.pipeline.engines import ENGINES

COUNT, SHARDS = 6_000, 4
MOST_BYTES = 10**14
# Plans that are weighed for one arrangement, each in some microseconds: for every number of workers some, and for each
# tiling as many as a block can be doubled.
MOST_WEIGHED = 1500


def sizes(rng, rank, most):
    found, room = [1] * rank, most
    for d in rng.sample(range(rank), rank):
        found[d] = max(
            1, min(room, rng.choice((1, 2, 3, rng.randint(1, 300), 2 ** rng.randint(0, 40), rng.randint(1, room))))
        )
        room //= found[d]
    return tuple(found)


def chunks_of(rng, shape):
    if rng.random() < 0.5:
        return None
    return tuple(
        max(1, rng.choice((1, size, rng.randint(1, size), min(size, 2 ** rng.randint(0, 8))))) for size in shape
    )


def tensor(rng, shape, dtype, order="C"):
    """A tensor in a file, in chunks with and without filters, or in memory, without any values."""
    chunks = chunks_of(rng, shape)
    if chunks is None and rng.random() < 0.7:
        state = file_io.Identity(1, 1, 1, 1, 1)
        return RawSource(RawTensor("x.npy", "x.npy", 128, np.dtype(dtype), shape, order), state, Storage("npy", {}))
    made = MemorySource.__new__(MemorySource)
    made.name, made.storage, made.dtype, made.sizes, made.order = (
        "x",
        Storage("held", {}),
        np.dtype(dtype),
        shape,
        order,
    )
    # HDF5 reads some tensors that have no chunks.
    made.path = "x.h5" if chunks or rng.random() < 0.5 else ""
    made.chunks, made.held = chunks, not made.path
    made.encoded = bool(chunks) and rng.random() < 0.5
    return made


def output(rng, shape):
    chunks = chunks_of(rng, shape)
    return SimpleNamespace(
        chunks=chunks, encoded=bool(chunks) and rng.random() < 0.5, held=rng.random() < 0.3, beside="y",
    )  # fmt: skip


def generated(rng):
    """A function that arranges a pass within some bytes of memory, and the sizes of its tensor."""
    rank, dtype = rng.randint(1, 8), rng.choice(("u1", "f2", "f4", "f8", "c16"))
    shape = sizes(rng, rank, rng.choice((10**4, 10**8, MOST_BYTES)) // np.dtype(dtype).itemsize)
    axis, order = rng.randrange(rank), rng.choice("CF")
    values = tensor(rng, shape, dtype, order)
    lengths = tensor(rng, tuple(1 if d == axis else size for d, size in enumerate(shape)), rng.choice(("u4", "u8")))
    engine, cores = rng.choice(("auto", *ENGINES)), rng.choice((1, 2, 3, 4, 16, 64))
    sink, job, other = output(rng, shape), Job(values, lengths, axis), tensor(rng, shape, dtype)
    how = rng.choice((
        lambda means: arrange(job, means, sink),
        lambda means: arrange(job, means, sink),
        lambda means: arrange(job, means),
        lambda means: arrange_copy(values, means, sink),
        lambda means: arrange_pair(values, other, means),
        lambda means: arrange_oracle(job, other, means),
    ))  # fmt: skip
    return lambda memory: how(Resources(engine, cores, memory)), shape


def covers(found, shape):
    """Whether the blocks are a grid without gaps: then each element is in exactly one of them."""
    assert found.plan.sizes == shape
    assert all(1 <= extent <= size for extent, size in zip(found.plan.extents, shape, strict=True))
    assert found.plan.block_count == prod(
        -(-size // extent) for size, extent in zip(shape, found.plan.extents, strict=True)
    )
    first = next(iter(found.plan))
    assert all(part.start == 0 and part.stop == extent for part, extent in zip(first, found.plan.extents, strict=True))


@pytest.mark.parametrize("shard", range(SHARDS))
def test_plans_on_paper(monkeypatch, shard):
    rng = random.Random(shard)
    monkeypatch.setattr(atomic_file, "have_room", lambda _, size: size % 10 > 0)  # mostly
    weighed = [0]

    def counted(function):
        def call(*args, **options):
            weighed[0] += 1
            return function(*args, **options)

        return call

    monkeypatch.setattr(arrangement, "make_plan", counted(plan.make_plan))
    monkeypatch.setattr(arrangement, "make_tiling", counted(plan.make_tiling))
    refused = tiled = most = 0
    slowest = 0.0
    for _ in range(COUNT // SHARDS):
        arranged, shape = generated(rng)
        memory = rng.choice((1, 1000, 1 << 20, 1 << 30, 1 << rng.randint(0, 44)))
        weighed[0], start = 0, time.process_time()
        try:
            found = arranged(memory)
        except EngineError as e:
            # What the message names is enough.
            refused += 1
            least = int(e.hint.removeprefix("try --memory "))
            assert least > memory
            memory = least
            found = arranged(memory)
        slowest = max(slowest, time.process_time() - start)
        assert weighed[0] <= MOST_WEIGHED
        most = max(most, weighed[0])
        assert found.need <= memory
        assert found.workers >= 1
        covers(found, shape)
        if found.tiling:
            tiled += 1
            direct = arranged(found.direct)
            assert not direct.tiling
            assert direct.need <= found.direct
    print(f"{most} weighed, {refused} refused, {tiled} in tiles, {slowest * 1000:.1f} ms at most")
    assert refused
    assert tiled
