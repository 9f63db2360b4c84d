"""Tensors that pass through a temporary file, since lines along the first axis are short runs of every row."""

import errno
import json
import os
import random
import subprocess
import time
from dataclasses import replace
from math import prod
from pathlib import Path

import h5py
import numpy as np
import oracle
import pytest
from folders import names
from hypothesis import given, settings
from hypothesis import strategies as st
from needs import WINDOWS, existing_signals
from observed import observed
from oracle import expected
from processes import COMMAND, until
from tensor_files import held

from revseq_cli.core import system, thresholds
from revseq_cli.core.errors import EngineError, TensorIOError
from revseq_cli.formats import atomic_file, file_io, references, registry
from revseq_cli.formats.in_memory import MemorySink
from revseq_cli.pipeline import reversal
from revseq_cli.pipeline.arrangement import Arrangement, Resources, arrange
from revseq_cli.pipeline.assembly import Job, Request
from revseq_cli.pipeline.engines import SERIAL
from revseq_cli.pipeline.jobs import load
from revseq_cli.pipeline.plan import Plan, Tiling, fewest_rows, make_tiling


@pytest.fixture
def any_size(monkeypatch):
    """Small tensors go through tiles, too, wherever their runs are short."""
    monkeypatch.setattr(thresholds, "WORTH_TILES", 0)


def tensors(shape, axis, dtype="f4", order="C", most=None):
    """Random bits, and lengths of which some are 0 and some beyond the axis."""
    rng = np.random.default_rng(prod(shape))
    values = rng.integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8).view(dtype)[..., 0].copy(order)
    most = shape[axis] + 3 if most is None else most
    return values, rng.integers(0, most, (*shape[:axis], 1, *shape[axis + 1 :])).astype(np.uint32)


# The plan


@st.composite
def tilings(draw):
    sizes = tuple(draw(st.lists(st.integers(1, 40), min_size=1, max_size=4)))
    axis = draw(st.integers(0, len(sizes) - 1))
    most = draw(st.integers(1, 5000))
    return most, make_tiling(sizes, axis, most_elements=most, order=draw(st.sampled_from("CF")))


@given(tilings())
def test_blocks_are_parts_of_panels(case):
    most, (panels, blocks, width, _) = case
    assert panels.extents[panels.axis] == max(1, panels.sizes[panels.axis])
    assert [
        (a, b)
        for d, (a, b) in enumerate(zip(panels.extents, blocks.extents, strict=True))
        if d != panels.axis and a != b
    ] == []
    assert blocks.block_elements <= max(most, panels.block_elements // panels.extents[panels.axis])
    columns = blocks.block_elements // blocks.extents[blocks.axis]
    assert columns <= max(1, most)
    assert 1 <= width <= columns
    assert width == 1 or width * panels.sizes[panels.axis] <= most // 4
    rows = blocks.extents[blocks.axis]
    assert rows >= min(fewest_rows(), panels.extents[panels.axis]) or columns == 1  # as the need for memory counts them


def test_runs_are_as_long_in_the_temporary_file_as_in_the_others():
    found = make_tiling((1 << 16, 1 << 16), 0, most_elements=1 << 22)
    rows, columns = found.blocks.extents
    assert found.run == min(rows * found.width, columns)
    assert 1 / 2 <= rows * found.width / columns <= 2
    # Rows that are shorter are taken whole, and follow each other.
    assert make_tiling((1 << 16, 100), 0, most_elements=1 << 20).panels.extents == (1 << 16, 100)
    # The last panel is about as wide as the others.
    assert make_tiling((1 << 16, 10_000), 0, most_elements=1 << 22).panels.extents == (1 << 16, 10_000)
    assert make_tiling((1 << 16, 20_000), 0, most_elements=1 << 22).panels.extents == (1 << 16, 10_000)


def test_a_column_that_is_a_stripe_is_read_once():
    found = make_tiling((600, 1), 0, most_elements=60)
    assert 600 <= found.most_read < 2 * 600


# The pass


@settings(max_examples=15 if WINDOWS else 30)  # each makes files, which takes a second under Wine
@given(st.data())
def test_any_tiling_gives_the_same(tmp_path_factory, data):
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    axis = data.draw(st.integers(0, len(shape) - 1))
    order = data.draw(st.sampled_from("CF"))
    values, lengths = tensors(
        shape, axis, data.draw(st.sampled_from(["u1", ">i2", "f4", "f8", "c16"])), order, data.draw(st.integers(1, 12))
    )
    job = Job(held(values), held(lengths.astype(data.draw(st.sampled_from(["u4", "u8"])))), axis)
    tiling = make_tiling(
        shape, axis, most_elements=data.draw(st.integers(1, 200)), order=data.draw(st.sampled_from("CF"))
    )
    extents = [*tiling.blocks.extents]
    extents[axis] = data.draw(st.integers(1, shape[axis]))  # small tensors are cut where large ones are
    tiling = tiling._replace(width=data.draw(st.integers(1, 12)), blocks=replace(tiling.blocks, extents=tuple(extents)))
    found = Arrangement(tiling.blocks, SERIAL, 1, 0, tiling=tiling)
    folder = tmp_path_factory.mktemp("tiles")
    with MemorySink(job.values) as sink:
        sink.beside = str(folder / "y.npy")
        assert reversal.reverse(job, sink, found) == (lengths > shape[axis]).sum()
        assert oracle.same_bits(sink.values, oracle.reverse(values, lengths, axis))
        reversal.verify(job, sink, found)
        bytes_of = sink.values.reshape(-1).view(np.uint8)
        bytes_of[data.draw(st.integers(0, bytes_of.size - 1))] ^= 1
        with pytest.raises(EngineError, match="does not reverse to the input"):
            reversal.verify(job, sink, found)
    assert not list(folder.iterdir())


# Where


def tall(tmp_path, shape, axis=0, dtype="u4"):
    """A job whose values take no room on the disk."""
    np.lib.format.open_memmap(tmp_path / "x.npy", "w+", dtype, shape)
    np.save(tmp_path / "n.npy", np.ones((*shape[:axis], 1, *shape[axis + 1 :]), np.uint32))
    job = load(Request(str(tmp_path / "x.npy"), str(tmp_path / "n.npy"), axis))
    sink = registry.create_sink(references.Reference.file(str(tmp_path / "y.npy")), job.values, overwrite=False)
    return lambda memory, sink=sink: arrange(job, Resources("processes", 2, memory), sink)


def test_only_where_runs_are_short(tmp_path):
    arranged = tall(tmp_path, (1 << 14, 1 << 10))
    few = arranged(1 << 23)
    assert few.tiling
    assert few.need <= 1 << 23
    # The memory that the error and the plan name is enough, and not much more than that.
    assert not arranged(few.direct).tiling
    assert arranged(few.direct // 2).tiling
    assert not arranged(1 << 23, None).tiling  # what is printed is held in memory
    assert not tall(tmp_path, (1 << 10, 1 << 14), 1)(1 << 23).tiling  # lines are runs
    assert not tall(tmp_path, (1 << 24,))(1 << 23).tiling  # a single line, which is cut
    assert not tall(tmp_path, (1 << 10, 1 << 10))(1 << 18).tiling  # a small tensor


@pytest.mark.timeout(60)
@pytest.mark.parametrize("memory", [1 << 20, 1 << 24, 1 << 26, 1 << 28, 1 << 30])
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((1000, 128, 128), "f4"), ((365, 720, 1440), "f4"), ((1460, 180, 360), "f4"), ((2048, 32, 1024), "f2"),
     ((2000, 64, 64, 3), "f4")],
)  # fmt: skip
def test_lines_across_several_dimensions(tmp_path, monkeypatch, shape, dtype, memory):
    """Runs over several of the fastest dimensions are long enough in some blocks; if these do not fit, there are tiles."""
    monkeypatch.setattr(atomic_file, "have_room", lambda *_: True)  # the plan is for a disk that is not full
    arranged = tall(tmp_path, shape, dtype=dtype)
    found = arranged(memory)
    assert found.need <= memory
    run = found.plan.run("C") * np.dtype(dtype).itemsize
    assert bool(found.tiling) == bool(found.direct)
    if found.tiling:
        # Input, output, and what is read of the temporary file.
        assert found.need >= 3 * found.plan.block_elements * np.dtype(dtype).itemsize * found.workers
        direct = arranged(found.direct)
        assert not direct.tiling
        assert direct.need <= found.direct
    else:
        in_memory = system.lies_in_memory(str(tmp_path))
        assert run >= thresholds.SHORT_RUN // (thresholds.PART_IN_MEMORY if in_memory else 1)


def sparse_file(path, sizes, dtype):
    """A file of zeros that take no room on the disk, as its name says: a .bin, a .npy, or an .h5 without chunks."""
    match path.suffix:
        case ".npy":
            np.lib.format.open_memmap(path, "w+", dtype, sizes, fortran_order=path.stem == "F")
        case ".bin":
            with path.open("wb") as file:
                file.truncate(prod(sizes) * np.dtype(dtype).itemsize)
        case ".h5":
            stored = h5py.h5t.py_create(np.dtype(dtype)).copy()
            if path.stem == "converted":  # by HDF5, which then reads it
                stored.set_precision(stored.get_precision() - 1)
            settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            settings.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
            settings.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
            with h5py.File(path, "w") as file:
                h5py.h5d.create(file.id, b"x", stored, h5py.h5s.create_simple(sizes), settings)


@pytest.mark.parametrize(
    ("name", "out"),
    [("C.npy", "y.npy"), ("F.npy", "y.h5"), ("x.bin", "y.npy"), ("x.h5", "y.h5"), ("converted.h5", "y.npy")],
)
def test_the_proposed_memory_avoids_the_temporary_file(revseq, tmp_path, monkeypatch, name, out):
    monkeypatch.setattr(atomic_file, "have_room", lambda *_: True)  # the plan is for a disk that is not full
    rng, proposed = random.Random(name + out), 0
    for _ in range(8):
        sizes = (rng.choice((1 << 14, 20_000)), rng.choice((1, 3, 16)), rng.choice((1000, 1 << 11)))
        axis, dtype = rng.choice((0, 0, 0, 1, 2)), rng.choice(("<i2", "<i4", "<i8"))
        sparse_file(tmp_path / name, sizes, dtype)
        sparse_file(tmp_path / "n.npy", tuple(1 if d == axis else size for d, size in enumerate(sizes)), "<u4")
        settings = ["--axis", axis, "--jobs", rng.choice((1, 2, 8)), "-o", tmp_path / out, "--dry-run", "--json"]
        if name == "x.bin":
            settings += ["--sizes", "x".join(map(str, sizes)), "--dtype", np.dtype(dtype).name.upper()]

        def plan(memory, *settings):
            done = revseq("run", tmp_path / name, tmp_path / "n.npy", *settings, "--memory", memory)
            return json.loads(done.ok().out)["plan"]

        found = plan(rng.choice(("8MiB", "16MiB", "32MiB")), *settings)
        if found["spooled"]:
            proposed += 1
            assert not plan(found["direct_memory"], *settings)["spooled"], (sizes, axis, dtype)
    assert proposed


@pytest.mark.parametrize(("memory", "tiled"), [("input output", False), ("input", True), ("output", True), ("", True)])
def test_shorter_runs_are_enough_where_all_files_lie_in_memory(tmp_path, monkeypatch, memory, tiled):
    arranged = tall(tmp_path, (1 << 14, 1 << 10))
    monkeypatch.setattr(system, "lies_in_memory", lambda _: False)
    on_disk = arranged(1 << 23)
    monkeypatch.setattr(
        system, "lies_in_memory", lambda place: ("output" if Path(place).is_dir() else "input") in memory
    )
    assert bool(arranged(on_disk.direct // 2).tiling) is tiled
    in_memory = arranged(1 << 23)
    assert in_memory.tiling
    assert (in_memory.direct < on_disk.direct) is not tiled


def test_fewer_workers_where_that_makes_runs_longer(tmp_path):
    arranged = tall(tmp_path, (1 << 15, 1 << 10))
    assert (arranged(1 << 23).workers, arranged(1 << 28).workers) == (1, 2)


@pytest.mark.parametrize("most", [1, 40, 300, 900])
def test_what_is_read_is_at_most_what_the_plan_says(tmp_path, monkeypatch, any_size, most):
    values, lengths = tensors((600, 70), 0, most=most)
    np.save(tmp_path / "x.npy", values)
    np.save(tmp_path / "n.npy", lengths)
    job = load(Request(str(tmp_path / "x.npy"), str(tmp_path / "n.npy"), 0))
    sink = registry.create_sink(references.Reference.file(str(tmp_path / "y.npy")), job.values, overwrite=False)
    found = arrange(job, Resources("serial", 1, 30_000), sink)
    counts, read_into = [], file_io.read_into
    monkeypatch.setattr(
        file_io, "read_into", lambda fd, buffer, *rest: (counts.append(len(buffer)), read_into(fd, buffer, *rest))
    )
    with sink:
        reversal.reverse(job, sink, found)
    assert (
        values.nbytes
        <= sum(counts) - values.nbytes
        <= found.tiling.most_read * 4 + lengths.nbytes * 2 * found.plan.block_count
    )


def test_what_is_read_where_a_stripe_has_a_short_and_a_long_column(tmp_path, monkeypatch):
    values, lengths = np.zeros((100, 4), "f4"), np.array([[0, 100, 100, 100]], np.uint32)
    blocks = Plan(values.shape, (1, 4), 0)
    tiling = Tiling(Plan(values.shape, values.shape, 0), blocks, 2, "C")
    job = Job(held(values), held(lengths), 0)
    counts, read_into = [], file_io.read_into
    monkeypatch.setattr(
        file_io, "read_into", lambda fd, buffer, *rest: (counts.append(len(buffer)), read_into(fd, buffer, *rest))
    )
    with MemorySink(job.values) as sink:
        sink.beside = str(tmp_path / "y.npy")
        reversal.reverse(job, sink, Arrangement(blocks, SERIAL, 1, 0, tiling=tiling))
    assert 10 * values.nbytes < sum(counts) <= tiling.most_read * 4


# Through the command

JOB = ("run", "x.npy", "n.npy", "--axis", 0, "-o", "y.npy", "--memory", "60K")
AT_ANY_SIZE = "from revseq_cli.core import thresholds; thresholds.WORTH_TILES = 0"


@pytest.fixture
def small(tmp_path):
    values, lengths = tensors((600, 40), 0)
    np.save(tmp_path / "x.npy", values)
    np.save(tmp_path / "n.npy", lengths)
    return tmp_path


def test_16_gib_in_64_mib_on_paper(revseq, roomy):
    for name, dtype, shape in (("x.npy", "<f4", (1 << 16, 1 << 16)), ("n.npy", "<u4", (1, 1 << 16))):
        with open(roomy / name, "wb") as f:
            np.lib.format.write_array_header_1_0(f, {"descr": dtype, "fortran_order": False, "shape": shape})
            f.truncate(f.tell() + prod(shape) * 4)
    job = "run x.npy n.npy --axis 0 -o y.npy --memory 64MiB --feature-level none --dry-run".split()
    free = "import shutil; shutil.disk_usage = lambda path: shutil._ntuple_diskusage(1 << 40, 0, 1 << 40)"
    plan = json.loads(revseq(*job, "--json", cwd=roomy, code=free).ok().out)["plan"]
    assert plan["memory"] <= 64 << 20
    assert plan["write_bytes"] == 2 * 16 << 30
    assert plan["read_bytes"] <= 2.3 * (16 << 30)
    assert plan["run_bytes"] >= 16 << 10
    assert plan["spooled"]
    out = revseq(*job, cwd=roomy, code=free).ok().out
    assert "temporary file         17,179,869,184 bytes" in out
    assert "passes                 2" in out
    assert all(len(line) <= 80 for line in out.splitlines()[3:])


def test_a_disk_without_room(revseq, small):
    """The pass needs no temporary file then, but more time; that is told before, and after."""
    free = f"{AT_ANY_SIZE}; import shutil; shutil.disk_usage = lambda path: shutil._ntuple_diskusage(9, 9, {{}})"
    told = revseq(*JOB, "--dry-run", code=free.format(191_999)).ok()
    assert "temporary file         none: 192,000 bytes are not free" in told.out
    done = revseq(*JOB, code=free.format(191_999)).ok()
    assert "Note: there was no room for a temporary file beside it: it was written in runs of 64 bytes\n" in done.err
    right = (small / "y.npy").read_bytes()
    done = revseq(*JOB, "--overwrite", code=free.format(192_000)).ok()
    assert done.err == ""
    assert (small / "y.npy").read_bytes() == right


def test_a_disk_that_loses_its_room_meanwhile(revseq, small):
    code = (
        f"{AT_ANY_SIZE}; import shutil; free = iter([192_000] * 2); "
        "shutil.disk_usage = lambda path: shutil._ntuple_diskusage(9, 9, next(free, 95_999))"
    )
    done = revseq(*JOB, code=code)
    memory = done.refused("y.npy: takes a temporary file of 96000 bytes beside it, and 95999 are free there").err
    assert names(small) == {"x.npy", "n.npy"}
    memory = memory.split("--memory ")[1].split(",")[0]
    revseq(*JOB[:-1], memory, code=code).ok()


@pytest.mark.needs("positioned calls")
@pytest.mark.parametrize(
    ("call", "number"),
    [("open", errno.EMFILE), ("preadv", errno.EIO), ("posix_fallocate", errno.ENOSPC), ("pwrite", errno.ENOSPC),
     ("close", errno.EIO), ("unlink", errno.EIO)],
)  # fmt: skip
def test_h41_the_nth_call_that_fails(revseq, small, tmp_path_factory, call, number):
    told = tmp_path_factory.mktemp("told") / "failed"
    right = expected(np.load(small / "x.npy"), np.load(small / "n.npy"), 0)
    for n in (*range(1, 40), 100, 10_000):
        (small / "y.npy").write_bytes(b"old")
        fault = {"call": call, "number": number, "n": n, "told": str(told)}
        done = revseq(*JOB, "--overwrite", "--jobs", 1, thresholds={"WORTH_TILES": 0}, fault=fault)
        left = names(small) - {"x.npy", "n.npy", "y.npy"}
        assert not left or call == "unlink"
        if done.status == 0:
            assert oracle.same_bits(np.load(small / "y.npy"), right)
        else:
            assert done.status == 2
            assert done.err.startswith("Error: ")
            assert "Traceback" not in done.err
            if (small / "y.npy").read_bytes() != b"old":  # an error of what comes behind the naming
                assert oracle.same_bits(np.load(small / "y.npy"), right)
        for name in left:
            (small / name).unlink()
        if not told.read_bytes():  # there are no more such calls
            break
    assert not told.read_bytes()
    assert done.status == 0


def test_an_input_that_changes_between_the_passes(small, monkeypatch, any_size):
    job = load(Request(str(small / "x.npy"), str(small / "n.npy"), 0))
    sink = registry.create_sink(references.Reference.file(str(small / "y.npy")), job.values, overwrite=False)
    found = arrange(job, Resources("serial", 1, 60_000), sink)
    change = observed(lambda _: os.utime(small / "n.npy", ns=(5, 5)))
    with pytest.raises(TensorIOError, match=r"n.npy: changed while it was read"), sink, change:
        reversal.reverse(job, sink, found)
    assert names(small) == {"x.npy", "n.npy"}


@pytest.mark.needs("signals")
@pytest.mark.parametrize(
    ("number", "delay"), [*zip(existing_signals("SIGINT", "SIGTERM", "SIGHUP"), (0, 0.7, 0), strict=False)]
)
def test_h43_a_signal_while_there_is_a_temporary_file(tmp_path, number, delay):
    tall(tmp_path, (1 << 15, 1 << 10))
    command = [*COMMAND, *map(str, JOB[:-1]), "4MiB", "--overwrite"]
    (tmp_path / "y.npy").write_bytes(b"old")
    process = subprocess.Popen(command, cwd=tmp_path, stdout=-1, stderr=-1, start_new_session=True)
    until(lambda: len(names(tmp_path)) == 5 or process.poll() is not None)
    time.sleep(delay)
    process.send_signal(number)
    process.communicate()
    assert process.returncode in (-number, 0)
    assert names(tmp_path) == {"x.npy", "n.npy", "y.npy"}
    assert process.returncode == 0 or (tmp_path / "y.npy").read_bytes() == b"old"
