"""Every engine, on every format, in little memory, and what becomes of it when something dies."""

import time
import tracemalloc

import h5py
import numpy as np
import oracle
import pytest
from observed import observed
from oracle import expected
from processes import members, start
from tensor_files import held

from revseq_cli.core.errors import EngineError, TensorIOError
from revseq_cli.formats.contract import Storage
from revseq_cli.formats.memory import MemorySink, MemorySource
from revseq_cli.pipeline import passes
from revseq_cli.pipeline.blocks import cut
from revseq_cli.pipeline.jobs import Job
from revseq_cli.pipeline.loading import load_job
from revseq_cli.pipeline.plan import Plan, plan_pass
from revseq_cli.pipeline.request import Request
from revseq_cli.pipeline.resources import SERIAL, Resources


@pytest.mark.parametrize("suffix", ["npy", "h5"])
def test_the_memory_of_a_mask_is_counted(tmp_path, suffix):
    """Few elements of it are read at once; a chunk is decoded whole."""
    mask = (np.arange(1000) < np.arange(800)[:, None]).astype("i8")
    np.save(tmp_path / "x.npy", np.zeros(mask.shape, "f4"))
    np.save(tmp_path / "m.npy", mask)
    with h5py.File(tmp_path / "m.h5", "w") as f:
        f.create_dataset("m", data=mask, chunks=mask.shape, compression="gzip")
    request = Request(str(tmp_path / "x.npy"), str(tmp_path / f"m.{suffix}"), 1, mask=True)
    load_job(request)  # which loads HDF5
    tracemalloc.start()
    try:
        job = load_job(request)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= job.lengths.least_bytes + 100_000  # the objects that tell it
    least = 4 * mask.nbytes if suffix == "h5" else 0
    assert least <= job.lengths.least_bytes <= least + 300_000
    with pytest.raises(EngineError, match=f"a block takes {job.lengths.least_bytes}"):
        plan_pass(job.values, None, Resources("serial", 1, 100_000), job)


# Chunks: every one is decoded once, and encoded once


class Chunked(MemorySource):
    """A tensor in chunks, or in none; it notes the regions that are read."""

    def __init__(self, values, chunks=None):
        super().__init__("chunked", values, Storage("held", {}))
        self.chunks, self.noted = chunks, []

    def read_task(self, region):
        self.noted.append(region)
        return super().read_task(region)


class ChunkedSink(MemorySink):
    """Gathers in memory, next to a file; it notes the regions that it receives."""

    def __init__(self, like, next_to, chunks=None):
        super().__init__(like)
        self.next_to, self.chunks, self.noted = str(next_to), chunks, []

    def receive(self, write_result):
        self.noted.append(write_result[0])
        super().receive(write_result)


def times(regions, sizes, chunks):
    """How often each chunk is among the regions."""
    seen = np.zeros([-(-size // chunk) for size, chunk in zip(sizes, chunks, strict=True)], int)
    for region in regions:
        seen[
            tuple(slice(p.start // c, -(-p.stop // c)) for p, c in zip(region, chunks, strict=True))
        ] += 1
    return set(seen.ravel().tolist())


@pytest.mark.parametrize("chunks", [(10, 100), None])
@pytest.mark.parametrize("sink_chunks", [(20, 50), None])
def test_chunks_across_too_many_lines_are_read_and_written_once(tmp_path, chunks, sink_chunks):
    """The whole lines through one chunk do not fit: the tensor passes through temporary files."""
    values = np.arange(100_000, dtype=np.int32).reshape(100, 1000)
    lengths = np.random.default_rng(1).integers(0, 1002, (100, 1)).astype(np.uint32)
    job = Job(Chunked(values, chunks), held(lengths), 1)
    sink = ChunkedSink(job.values, tmp_path / "y.npy", sink_chunks)
    plan = plan_pass(job.values, sink, Resources("serial", 1, 30_000), job)
    assert plan.detour.copies == bool(chunks) + bool(sink_chunks)
    done = []
    with sink, observed(done.append, "reverse"):
        passes.reverse_into(job, sink, plan)
    assert sum(done) == values.nbytes
    assert oracle.same_bits(sink.values, expected(values, lengths, 1))
    if chunks:
        assert times(job.values.noted, values.shape, chunks) == {1}
    if sink_chunks:
        assert times(sink.noted, values.shape, sink_chunks) == {1}
    done.clear()
    with observed(done.append, "verify"):
        passes.verify(job, sink, plan)
    assert sum(done) == values.nbytes
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("next_to", ["y.npy", ""])
@pytest.mark.parametrize(("chunks", "held_back"), [((400, 1), 0), ((400, 1), 1), (None, 1)])
def test_lengths_in_chunks_are_read_once(tmp_path, next_to, chunks, held_back):
    """Into memory up to an eighth of what the pass needs, or where there is no room on a disk; else into a file."""
    values = np.arange(20_000, dtype=np.int16).reshape(2000, 10)
    lengths = Chunked(np.random.default_rng(1).integers(0, 12, (2000, 1)).astype(np.uint32), chunks)
    job = Job(held(values), lengths, 1)
    blocks = cut(values.shape, 1, most=1000, alignment=(1, 1))
    sink = ChunkedSink(job.values, tmp_path / next_to if next_to else "")
    files = []
    with sink, observed(lambda _: files.extend(tmp_path.iterdir())):
        need = 8 * 8000 - held_back
        passes.reverse_into(job, sink, Plan(blocks, SERIAL, 1, need))
    assert oracle.same_bits(sink.values, expected(values, lengths.read(), 1))
    assert bool(files) is bool(next_to and chunks and held_back)
    assert not list(tmp_path.iterdir())
    noted = lengths.noted[:-1]  # without the test's own
    if chunks:
        assert times(noted, (2000, 1), chunks) == {1}
    else:  # they are read where they lie, block by block, and counted at once
        assert noted == [
            *((rows, slice(0, 1)) for rows, _ in blocks),
            (slice(0, 2000), slice(0, 1)),
        ]


# Inputs that change


class Changed(MemorySource):
    def recheck(self):
        raise TensorIOError(f"{self.name} changed")


@pytest.mark.parametrize("which", ["values", "lengths"])
def test_every_pass_asks_at_its_end_whether_its_input_has_changed(which):
    arrays = {"values": np.arange(4.0), "lengths": np.array([3], np.uint32)}
    tensors = {name: held(values) for name, values in arrays.items()}
    tensors[which] = Changed(which, arrays[which], Storage("held", {}))
    job, serial = Job(**tensors, axis=0), Resources("serial", 1)
    asking = [job.recheck, lambda: passes.reverse_in_memory(job, serial)]
    asking.append(
        lambda: passes.compute_statistics(job.values if which == "values" else job.lengths, serial)
    )
    if which == "lengths":
        asking.append(lambda: passes.count_lengths(job, serial))
    for ask in asking:
        with pytest.raises(TensorIOError, match=f"{which} changed"):
            ask()


# Through the command


@pytest.mark.needs("proc")
def test_the_memory_bound_holds_for_all_processes_together(tmp_path):
    """What they share counts once: the proportional set size, without the pages of files."""
    with open(tmp_path / "x.npy", "wb") as f:
        np.lib.format.write_array_header_1_0(
            f, {"descr": "<f4", "fortran_order": False, "shape": (1 << 19, 128)}
        )
        f.truncate(f.tell() + (1 << 28))
    np.save(tmp_path / "n.npy", np.full((1 << 19, 1), 100, np.uint32))
    options = (
        "--engine",
        "processes",
        "--jobs",
        "16",
        "--memory",
        "128MiB",
        "--feature-level",
        "none",
    )
    process = start(tmp_path, *options, overwrite=False)
    most, workers_seen = 0, 0
    while process.poll() is None:
        sizes = [each for each in map(anonymous, members(process.pid)) if each]
        most, workers_seen = max(most, sum(sizes)), max(workers_seen, len(sizes) - 1)
        time.sleep(0.01)
    process.communicate()
    assert process.returncode == 0
    assert workers_seen >= 2
    assert most < 1.25 * 128 * 1024


def anonymous(pid):
    """KiB of a process that are not of files; of what it shares with others, its part."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("Pss_Anon:"))
    except (OSError, StopIteration):  # it ended
        return 0
