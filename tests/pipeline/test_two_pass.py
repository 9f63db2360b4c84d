"""Tensors that pass through a temporary file, since lines along the first axis are short runs of every row."""

import errno
import json
import os
import subprocess
import time
from dataclasses import replace
from math import prod

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

from revseq_cli.core import thresholds
from revseq_cli.core.errors import EngineError, TensorIOError
from revseq_cli.formats import references
from revseq_cli.formats.atomic_file import FileTransaction
from revseq_cli.formats.raw import MemorySink
from revseq_cli.pipeline import reversal
from revseq_cli.pipeline.assembly import Job, Request
from revseq_cli.pipeline.jobs import load
from revseq_cli.pipeline.plan import Plan, Resources, make_tiling, plan_reversal

JOB = ("run", "x.npy", "n.npy", "--axis", 0, "-o", "y.npy", "--memory", "60K")
AT_ANY_SIZE = "from revseq_cli.core import thresholds; thresholds.WORTH_TILES = 0"


def tensors(shape, axis, dtype="f4", order="C", most=None):
    """Random bits, and lengths of which some are 0 and some beyond the axis."""
    rng = np.random.default_rng(prod(shape))
    values = rng.integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8).view(dtype)[..., 0].copy(order)
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
    dtype, order = data.draw(st.sampled_from(["u1", ">i2", "f4", "f8", "c16"])), data.draw(st.sampled_from("CF"))
    values, lengths = tensors(shape, axis, dtype, order, data.draw(st.integers(1, 12)))
    job = Job(held(values), held(lengths.astype(data.draw(st.sampled_from(["u4", "u8"])))), axis)
    tiling = make_tiling(shape, axis, most=data.draw(st.integers(1, 200)), order=data.draw(st.sampled_from("CF")))
    extents = [*tiling.blocks.extents]
    extents[axis] = data.draw(st.integers(1, shape[axis]))  # small tensors are cut where large ones are
    tiling = tiling._replace(width=data.draw(st.integers(1, 12)), blocks=replace(tiling.blocks, extents=tuple(extents)))
    plan, folder = Plan(tiling.blocks, "serial", 1, 0, tiling=tiling), tmp_path_factory.mktemp("tiles")
    with MemorySink(job.values) as sink:
        sink.beside = str(folder / "y.npy")
        assert reversal.reverse(job, sink, plan) == (lengths > shape[axis]).sum()
        assert oracle.same_bits(sink.values, oracle.reverse(values, lengths, axis))
        reversal.verify(job, sink, plan)
        bytes_of = sink.values.reshape(-1).view(np.uint8)
        bytes_of[data.draw(st.integers(0, bytes_of.size - 1))] ^= 1
        with pytest.raises(EngineError, match="does not reverse to the input"):
            reversal.verify(job, sink, plan)
    assert not list(folder.iterdir())


@pytest.mark.parametrize("engine", ["serial", "processes"])
def test_the_whole_command(revseq, small, engine):
    revseq(*JOB, "--engine", engine, "--jobs", 2, "--verify", thresholds={"WORTH_TILES": 0}).ok()
    values, lengths = np.load(small / "x.npy"), np.load(small / "n.npy")
    assert oracle.same_bits(np.load(small / "y.npy"), expected(values, lengths, 0))
    assert names(small) == {"x.npy", "n.npy", "y.npy"}


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
    assert plan["spooled"]


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
        f"{AT_ANY_SIZE}; import shutil; free = iter([192_000]); "
        "shutil.disk_usage = lambda path: shutil._ntuple_diskusage(9, 9, next(free, 95_999))"
    )
    done = revseq(*JOB, code=code)
    err = done.refused("y.npy: takes a temporary file of 96000 bytes beside it, and 95999 are free there").err
    assert names(small) == {"x.npy", "n.npy"}
    revseq(*JOB[:-1], err.split("--memory ")[1].split(",")[0], code=code).ok()


@pytest.mark.needs("positioned calls")
@pytest.mark.parametrize(
    ("call", "number"),
    [("open", errno.EMFILE), ("preadv", errno.EIO), ("posix_fallocate", errno.ENOSPC), ("pwrite", errno.ENOSPC),
     ("close", errno.EIO), ("unlink", errno.EIO)],
)  # fmt: skip
def test_h41_the_nth_call_that_fails(revseq, small, tmp_path_factory, call, number):
    told = tmp_path_factory.mktemp("told") / "failed"
    right = expected(np.load(small / "x.npy"), np.load(small / "n.npy"), 0)
    for n in (*range(1, 20), 30, 60, 10_000):
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


def test_an_input_that_changes_between_the_passes(small, monkeypatch):
    monkeypatch.setattr(thresholds, "WORTH_TILES", 0)
    monkeypatch.setattr(thresholds, "LENGTHS_AT_ONCE", 0)  # else they are read at the beginning
    job = load(Request(str(small / "x.npy"), str(small / "n.npy"), 0))
    sink = references.create_sink(references.Reference.file(str(small / "y.npy")), job.values, overwrite=False)
    found = plan_reversal(job, Resources("serial", 1, 60_000), sink)
    assert found.tiling
    change = observed(lambda _: os.utime(small / "n.npy", ns=(5, 5)))
    changed = pytest.raises(TensorIOError, match=r"n.npy: changed while it was read")
    with changed, FileTransaction(sink.file), sink, change:
        reversal.reverse(job, sink, found)
    assert names(small) == {"x.npy", "n.npy"}


@pytest.mark.needs("signals")
@pytest.mark.parametrize(("number", "delay"), [*zip(existing_signals("SIGINT", "SIGTERM"), (0, 0.4), strict=False)])
def test_h43_a_signal_while_there_is_a_temporary_file(tmp_path, number, delay):
    np.lib.format.open_memmap(tmp_path / "x.npy", "w+", "u4", (1 << 15, 1 << 10))
    np.save(tmp_path / "n.npy", np.ones((1, 1 << 10), np.uint32))
    (tmp_path / "y.npy").write_bytes(b"old")
    command = [*COMMAND, *map(str, JOB[:-1]), "4MiB", "--overwrite"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=-1, stderr=-1, start_new_session=True)
    until(lambda: len(names(tmp_path)) == 5 or process.poll() is not None)
    time.sleep(delay)
    process.send_signal(number)
    process.communicate()
    assert process.returncode in (-number, 0)
    assert names(tmp_path) == {"x.npy", "n.npy", "y.npy"}
    assert process.returncode == 0 or (tmp_path / "y.npy").read_bytes() == b"old"
