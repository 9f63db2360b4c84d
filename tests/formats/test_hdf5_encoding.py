"""Chunks that HDF5 decodes and encodes in the workers, and the parent stores."""

from pathlib import Path

import h5py
import numpy as np
import oracle
import pytest
from oracle import expected
from tensor_files import open_

from revseq_cli.core.processes import packed, unpacked
from revseq_cli.formats import references, registry
from revseq_cli.formats.contract import Layout
from revseq_cli.pipeline.arrangement import choose
from revseq_cli.pipeline.engines import PROCESSES, SERIAL

SHAPE, CHUNKS = (9, 50, 33), (3, 16, 10)  # the last chunk of two dimensions lies across the tensor's end
VALUES = np.cumsum(np.random.default_rng(5).integers(-2, 3, SHAPE), 1).astype("i4")
LENGTHS = np.random.default_rng(6).integers(0, 60, (9, 1, 33)).astype("u4")
OPTIONS = ("n.npy", "--axis", 1, "-o", "y.h5", "--jobs", 2, "--memory", "200K", "--verify")
JOB = (*OPTIONS, "--engine", "threads")
WHOLE = tuple(slice(0, size) for size in SHAPE)
FILTERS = {
    "none": {},
    "gzip": {"compression": 4},
    "shuffle": {"shuffle": True},
    "gzip and shuffle": {"compression": 9, "shuffle": True},
    "checksum": {"compression": 4, "fletcher32": True},
    "lzf": {"compression": "lzf"},
}
any_filters = pytest.mark.parametrize("options", FILTERS.values(), ids=FILTERS)


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "n.npy", LENGTHS)
    return tmp_path


def make(path, values=VALUES, chunks=CHUNKS, libver="earliest", userblock=0, **options):
    with h5py.File(path, "w", libver=libver, userblock_size=userblock) as f:
        f.create_dataset("x", data=values, chunks=chunks, **options)


def sink_for(folder, like, **layout):
    reference = references.Reference(str(folder / "y.h5"))
    return registry.create_sink(reference, like, overwrite=True, layout=Layout(**layout))


def written(folder, source, values):
    """The dataset that h5py finds after a block of the whole tensor; the block writer goes to another process."""
    with sink_for(folder, source) as sink:
        sink.receive(unpacked(packed(sink.block_writer(WHOLE))).deliver(WHOLE, values))
    with h5py.File(folder / "y.h5") as f:
        return f["x"][()]


def stored_order(path):
    """The offsets of the chunks in the tensor, in the order in which they lie in the file."""
    with h5py.File(path) as f:
        dataset = f["x"].id
        chunks = [dataset.get_chunk_info(index) for index in range(dataset.get_num_chunks())]
    return tuple(chunk.chunk_offset for chunk in sorted(chunks, key=lambda chunk: chunk.byte_offset))


def regions():
    """Some that begin and end at chunks, and some that do not."""
    yield WHOLE
    yield slice(3, 6), slice(16, 50), slice(30, 33)
    yield slice(1, 8), slice(15, 17), slice(9, 11)
    yield slice(8, 9), slice(49, 50), slice(32, 33)


@pytest.mark.parametrize(("dtype", "libver", "userblock"), [("i4", "earliest", 0), (">f8", "latest", 512)])
@any_filters
def test_any_region_is_read_and_the_whole_is_written(folder, options, dtype, libver, userblock):
    values = VALUES.astype(dtype)
    make(folder / "x.h5", values, libver=libver, userblock=userblock, **options)
    source = open_(folder / "x.h5")
    for region in regions():
        assert oracle.same_bits(unpacked(packed(source.read_task(region))).read(), values[region])
    assert oracle.same_bits(written(folder, source, values), values)


@any_filters
def test_processes_are_chosen_since_hdf5_has_one_lock(tmp_path, options):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("x", (1 << 12, 1 << 13), "u1", chunks=(1 << 8, 1 << 8), **options)
        f.create_dataset("plain", (1 << 12, 1 << 13), "u1")
    x, plain = (open_(f"{tmp_path / 'x.h5'}::{name}") for name in ("x", "plain"))
    engine = PROCESSES if options else SERIAL  # what is copied in so little time is not worth a process
    for pair in ((x,), (x, sink_for(tmp_path, x)), (x, sink_for(tmp_path, plain)), (plain, sink_for(tmp_path, x))):
        assert choose(2, *pair) is engine


@pytest.mark.parametrize(("libver", "option"), [("earliest", ["--keep-others"]), ("latest", [])])
@any_filters
def test_chunks_that_were_never_written(folder, revseq, options, libver, option):
    with h5py.File(folder / "x.h5", "w", libver=libver) as f:
        x = f.create_dataset("x", SHAPE, "i4", chunks=CHUNKS, fillvalue=-7, **options)
        x[3:6, :16] = VALUES[3:6, :16]
        values = x[()]
    assert oracle.same_bits(open_(folder / "x.h5").read(), values)
    revseq("run", "x.h5", *JOB, *option).ok()
    with h5py.File(folder / "y.h5") as f:
        assert oracle.same_bits(f["x"][()], expected(values, LENGTHS, 1))
        assert f["x"].fillvalue == -7


def test_what_travels_is_small(folder):
    """However many chunks there are."""
    make(folder / "x.h5", np.zeros((4096, 64), "u1"), (1, 64), compression=4)
    source, region = open_(folder / "x.h5"), (slice(7, 9), slice(0, 64))
    assert len(packed(source.read_task(region))) < 1000
    assert len(packed(source)) < 5000  # where lines are cut
    assert oracle.same_bits(unpacked(packed(source)).read_task(region).read(), np.zeros((2, 64), "u1"))


@pytest.mark.parametrize("option", [["--compression", "keep"], ["--keep-others"]])
def test_bytes_of_chunks_without_filters_are_reserved_before(folder, option):
    """So a full disk is told before the work; of the chunks that the file has already, none is counted twice."""
    make(folder / "x.h5", np.zeros((2000, 16), "u1"), (1, 16))
    source, whole = open_(folder / "x.h5"), (slice(0, 2000), slice(0, 16))
    with sink_for(folder, source, keep_others=option == ["--keep-others"]) as sink:
        reserved = Path(sink.file.temporary).stat().st_size
        assert 2000 * 16 <= reserved <= (folder / "x.h5").stat().st_size
        sink.receive(sink.block_writer(whole).deliver(whole, source.read()))
    with h5py.File(folder / "y.h5") as f:
        assert f.id.get_filesize() == (folder / "y.h5").stat().st_size


@pytest.mark.parametrize(("name", "engine"), [("checksum", "threads"), ("gzip", "processes"), ("lzf", "threads")])
def test_the_same_bytes_each_time(folder, revseq, name, engine):
    """Chunks are stored in the order of the blocks, and not in that in which workers end.

    Bytes of LZF are left out: its table of earlier bytes is not cleared, so what it finds there differs from run to run.
    """
    make(folder / "x.h5", **FILTERS[name])
    outputs = set()
    for _ in range(3):
        revseq("run", "x.h5", *OPTIONS, "--overwrite", "--engine", engine).ok()
        outputs.add(stored_order(folder / "y.h5") if name == "lzf" else (folder / "y.h5").read_bytes())
    assert len(outputs) == 1


def test_chunks_larger_than_hdf5s_cache(folder, revseq):
    values = np.random.default_rng(1).integers(0, 256, (5, 3, 700_001), np.uint8)
    make(folder / "x.h5", values, (2, 2, 300_007), "latest")
    revseq("convert", "x.h5", "y.h5", "--engine", "threads", "--jobs", 2).ok()
    revseq("diff", "x.h5", "y.h5").ok()
    with h5py.File(folder / "y.h5", "a") as f:
        assert f["x"].chunks == (2, 2, 300_007)
        assert oracle.same_bits(f["x"][()], values)


def test_a_file_that_is_cut_off_after_its_header_was_read(folder):
    make(folder / "x.h5")
    source, later = open_(folder / "x.h5"), open_(folder / "x.h5")
    read_task = source.read_task(WHOLE)
    with (folder / "x.h5").open("r+b") as f:
        f.truncate(5000)
    for each in (read_task, later.read_task(WHOLE)):
        with pytest.raises(OSError, match="changed while it was read: its size"):
            each.read()
