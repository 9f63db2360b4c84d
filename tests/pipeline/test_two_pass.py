"""Tensors that pass through a temporary file, since lines along the first axis are short runs of every row."""

from dataclasses import replace
from math import prod

import numpy as np
import oracle
import pytest
from folders import names
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import WINDOWS
from oracle import expected
from tensor_files import held

from revseq_cli.core.errors import EngineError
from revseq_cli.formats.memory import MemorySink
from revseq_cli.pipeline import passes
from revseq_cli.pipeline.blocks import make_tiling
from revseq_cli.pipeline.jobs import Job
from revseq_cli.pipeline.plan import Detour, Plan

JOB = ("run", "x.npy", "n.npy", "--axis", 0, "-o", "y.npy", "--memory", "60K")
AT_ANY_SIZE = "from revseq_cli.core import thresholds; thresholds.WORTH_TILES = 0"


def tensors(shape, axis, dtype="f4", order="C", most=None):
    """Random bits, and lengths of which some are 0 and some beyond the axis."""
    rng = np.random.default_rng(prod(shape))
    values = (
        rng.integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8)
        .view(dtype)[..., 0]
        .copy(order)
    )
    most = shape[axis] + 3 if most is None else most
    return values, rng.integers(0, most, (*shape[:axis], 1, *shape[axis + 1 :])).astype(np.uint32)


@pytest.fixture
def small(tmp_path):
    values, lengths = tensors((600, 40), 0)
    np.save(tmp_path / "x.npy", values)
    np.save(tmp_path / "n.npy", lengths)
    return tmp_path


@settings(max_examples=15 if WINDOWS else 25)  # each makes files, which takes a second under Wine
@given(st.data())
def test_any_tiling_gives_the_same(tmp_path_factory, data):
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    axis = data.draw(st.integers(0, len(shape) - 1))
    dtype, order = (
        data.draw(st.sampled_from(["u1", ">i2", "f4", "f8", "c16"])),
        data.draw(st.sampled_from("CF")),
    )
    values, lengths = tensors(shape, axis, dtype, order, data.draw(st.integers(1, 12)))
    job = Job(held(values), held(lengths.astype(data.draw(st.sampled_from(["u4", "u8"])))), axis)
    tiling = make_tiling(
        shape, axis, most=data.draw(st.integers(1, 200)), order=data.draw(st.sampled_from("CF"))
    )
    extents = [*tiling.blocks.extents]
    extents[axis] = data.draw(
        st.integers(1, shape[axis])
    )  # small tensors are cut where large ones are
    tiling = tiling._replace(
        width=data.draw(st.integers(1, 12)),
        blocks=replace(tiling.blocks, extents=tuple(extents)),
    )
    plan, folder = (
        Plan(tiling.blocks, "serial", 1, 0, detour=Detour(tiling=tiling)),
        tmp_path_factory.mktemp("tiles"),
    )
    with MemorySink(job.values) as sink:
        sink.next_to = str(folder / "y.npy")
        assert passes.reverse_into(job, sink, plan) == ((lengths > shape[axis]).sum(), None)
        assert oracle.same_bits(sink.values, oracle.reverse(values, lengths, axis))
        passes.verify(job, sink, plan)
        bytes_of = sink.values.reshape(-1).view(np.uint8)
        bytes_of[data.draw(st.integers(0, bytes_of.size - 1))] ^= 1
        with pytest.raises(EngineError, match="does not reverse to the input"):
            passes.verify(job, sink, plan)
    assert not list(folder.iterdir())


def test_worker_processes(revseq, small):
    revseq(
        *JOB, "--engine", "processes", "--jobs", 2, "--verify", thresholds={"WORTH_TILES": 0}
    ).ok()
    values, lengths = np.load(small / "x.npy"), np.load(small / "n.npy")
    assert oracle.same_bits(np.load(small / "y.npy"), expected(values, lengths, 0))
    assert names(small) == {"x.npy", "n.npy", "y.npy"}


def test_a_disk_without_room(revseq, small):
    """More memory needs no temporary file."""
    code = f"""{AT_ANY_SIZE}
from revseq_cli.core import platform
def reserve(fd, size, real=platform.reserve):
    if size == 96_000:  # that file alone, which has no header
        raise OSError(28, "No space left on device")
    real(fd, size)
platform.reserve = reserve
"""
    done = revseq(*JOB, code=code)
    err = done.refused("y.npy: cannot write: No space left on device").err
    assert names(small) == {"x.npy", "n.npy"}
    revseq(*JOB[:-1], err.split("--memory ")[1].split(",")[0], code=code).ok()
