"""Chunks that threads read and write where they lie in the file, without HDF5's lock."""

import itertools
import struct
import zlib
from pathlib import Path
from types import SimpleNamespace

import h5py
import hdf5_files
import numpy as np
import oracle
import pytest
from oracle import expected
from tensor_files import open_

from revseq_cli.formats import references, registry
from revseq_cli.formats.contract import Layout
from revseq_cli.formats.hdf5 import chunks as hdf5_chunks
from revseq_cli.formats.hdf5 import files
from revseq_cli.formats.hdf5 import source as hdf5_source
from revseq_cli.formats.hdf5.chunks import ChunkOutlet, ChunkTicket, OwnFilters, PlacedOutlet
from revseq_cli.formats.hdf5.source import Hdf5Ticket
from revseq_cli.ground import thresholds
from revseq_cli.ground.errors import TensorIOError
from revseq_cli.ground.processes import packed, unpacked
from revseq_cli.passes.arrangement import choose
from revseq_cli.passes.engines.table import PROCESSES, THREADS

SHAPE, CHUNKS = (9, 50, 33), (3, 16, 10)  # the last chunk of two dimensions lies across the tensor's end
VALUES = np.cumsum(np.random.default_rng(5).integers(-2, 3, SHAPE), 1).astype("i4")
LENGTHS = np.random.default_rng(6).integers(0, 60, (9, 1, 33)).astype("u4")
JOB = ("n.npy", "--axis", 1, "-o", "y.h5", "--engine", "threads", "--jobs", 2, "--memory", "200K", "--verify")
WHOLE = tuple(slice(0, size) for size in SHAPE)
KNOWN = {
    "plain": {},
    "gzip": {"compression": 4},
    "shuffle": {"shuffle": True},
    "both": {"compression": 9, "shuffle": True},
}
OTHERS = [
    {"fletcher32": True}, {"compression": 4, "fletcher32": True}, {"compression": "lzf"}, {"scaleoffset": 0},
]  # fmt: skip


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


def regions():
    """Some that begin and end at chunks, and some that do not."""
    yield WHOLE
    yield slice(3, 6), slice(16, 50), slice(30, 33)
    yield slice(1, 8), slice(15, 17), slice(9, 11)
    yield slice(8, 9), slice(49, 50), slice(32, 33)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("dtype", ["i4", ">f8"])
@pytest.mark.parametrize("options", KNOWN.values(), ids=KNOWN)
def test_any_region_is_read_without_hdf5(folder, options, dtype, libver):
    make(folder / "x.h5", VALUES.astype(dtype), libver=libver, **options)
    source = open_(folder / "x.h5")
    for region in regions():
        ticket = unpacked(packed(source.ticket(region)))
        # Of chunks at the end, a shuffle alone leaves no sign whether they have passed it: HDF5 knows.
        is_unclear = options == KNOWN["shuffle"] and (region[1].stop > 48 or region[2].stop > 30)
        assert isinstance(ticket, Hdf5Ticket if is_unclear else ChunkTicket)
        assert oracle.same_bits(ticket.read(), VALUES.astype(dtype)[region])


@pytest.mark.parametrize("options", KNOWN.values(), ids=KNOWN)
def test_threads_are_chosen_where_they_work_side_by_side(tmp_path, options):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("x", (1 << 12, 1 << 13), "u1", chunks=(1 << 8, 1 << 8), **options)
        f.create_dataset("sums", (1 << 12, 1 << 13), "u1", chunks=(1 << 8, 1 << 8), fletcher32=True, **options)
    x, sums = (open_(f"{tmp_path / 'x.h5'}::{name}") for name in ("x", "sums"))
    assert choose(2, x) is choose(2, x, sink_for(tmp_path, x)) is THREADS
    assert choose(2, sums) is choose(2, sums, sink_for(tmp_path, sums)) is PROCESSES
    assert choose(2, x, sink_for(tmp_path, sums)) is choose(2, sums, sink_for(tmp_path, x)) is PROCESSES


@pytest.mark.parametrize("options", OTHERS)
def test_other_filters_are_hdf5s(folder, options):
    make(folder / "x.h5", **options)
    source = open_(folder / "x.h5")
    assert not source.reads_in_parallel
    assert isinstance(source.ticket(WHOLE), Hdf5Ticket)
    assert not sink_for(folder, source).writes_in_parallel


def test_what_hdf5_tells_in_other_ways_is_read_by_hdf5(folder, monkeypatch):
    """Behind a user block, its versions differ in where they say that a chunk lies; and very many take too much memory."""
    make(folder / "block.h5", userblock=512)
    make(folder / "x.h5")
    assert not open_(folder / "block.h5").reads_in_parallel
    assert oracle.same_bits(open_(folder / "block.h5").read(), VALUES)
    for most, parallel in ((48, True), (47, False)):
        monkeypatch.setattr(thresholds, "MOST_CHUNKS", most)
        assert open_(folder / "x.h5").reads_in_parallel is parallel
        assert oracle.same_bits(open_(folder / "x.h5").read(), VALUES)


@pytest.mark.parametrize("option", [["--compression", "keep"], ["--keep-others"]])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("options", KNOWN.values(), ids=KNOWN)
def test_chunks_that_were_never_written(folder, revseq, options, libver, option):
    with h5py.File(folder / "x.h5", "w", libver=libver) as f:
        x = f.create_dataset("x", SHAPE, "i4", chunks=CHUNKS, fillvalue=-7, **options)
        x[3:6, :16] = VALUES[3:6, :16]
        values = x[()]
    source = open_(folder / "x.h5")
    assert isinstance(source.ticket((slice(3, 6), slice(0, 16), slice(0, 30))), ChunkTicket)
    assert isinstance(source.ticket((slice(3, 6), slice(0, 17), slice(0, 30))), Hdf5Ticket)
    assert oracle.same_bits(source.read(), values)
    revseq("run", "x.h5", *JOB, *option).ok()
    with h5py.File(folder / "y.h5") as f:
        assert oracle.same_bits(f["x"][()], expected(values, LENGTHS, 1))
        assert f["x"].fillvalue == -7


def test_a_worker_gets_the_places_of_its_own_chunks(folder):
    make(folder / "x.h5", np.zeros((4096, 64), "u1"), (1, 64))
    source, region = open_(folder / "x.h5"), (slice(7, 9), slice(0, 64))
    assert source.ticket(region).places["offset"].shape == (2, 1)
    assert len(packed(source.ticket(region))) < 1500
    assert len(packed(source)) < 5000  # a source travels where lines are cut, and HDF5 reads there
    assert oracle.same_bits(unpacked(packed(source)).ticket(region).read(), np.zeros((2, 64), "u1"))
    with sink_for(folder, source) as sink:
        outlet = sink.outlet(region)
        assert len(outlet.offsets) == 2
        assert len(packed(outlet)) < 1000
        for row in range(0, 4096, 2):
            part = slice(row, row + 2), slice(0, 64)
            sink.receive(sink.outlet(part).deliver(part, source.ticket(part).read()))


def test_the_parent_gets_no_values_of_chunks_without_filters(folder):
    make(folder / "x.h5")
    source = open_(folder / "x.h5")
    with sink_for(folder, source) as sink:
        outlet = unpacked(packed(sink.outlet(WHOLE)))
        assert isinstance(outlet, PlacedOutlet)
        assert outlet.deliver(WHOLE, VALUES) == []
    with h5py.File(folder / "y.h5") as f:
        assert oracle.same_bits(f["x"][()], VALUES)


def test_hdf5_writes_no_values_where_the_workers_will(folder):
    make(folder / "x.h5")
    source = open_(folder / "x.h5")
    with sink_for(folder, source) as sink:
        temporary = Path(sink.file.temporary)
        reserved = temporary.stat().st_size
        temporary.write_bytes(b"\xaa" * reserved)  # HDF5 has not flushed anything yet
        outlet = sink.outlet(WHOLE)
        data = temporary.read_bytes()
        offsets = [offset for offset in outlet.offsets if offset + 1920 <= reserved]
        assert len(offsets) > 40
        assert all(set(data[offset : offset + 1920]) == {0xAA} for offset in offsets)
        sink.receive(outlet.deliver(WHOLE, VALUES))
    with h5py.File(folder / "y.h5") as f:
        assert oracle.same_bits(f["x"][()], VALUES)


def test_bytes_are_reserved_before_they_are_written(folder):
    """For all chunks at the start, and for what else HDF5 puts between them as they come."""
    make(folder / "x.h5", np.zeros((2000, 16), "u1"), (1, 16))
    source, whole = open_(folder / "x.h5"), (slice(0, 2000), slice(0, 16))
    with sink_for(folder, source) as sink:
        assert Path(sink.file.temporary).stat().st_size >= 2000 * 16
        outlet = sink.outlet(whole)
        assert Path(sink.file.temporary).stat().st_size >= max(outlet.offsets) + 16
        sink.receive(outlet.deliver(whole, source.read()))


def test_the_order_of_the_blocks_alone_decides_where_chunks_lie(folder):
    make(folder / "x.h5")
    source, files = open_(folder / "x.h5"), []
    parts = [(slice(i, i + 3), *WHOLE[1:]) for i in range(0, 9, 3)]
    for order in (parts, parts[::-1]):
        with sink_for(folder, source) as sink:
            outlets = {part[0].start: sink.outlet(part) for part in parts}
            for part in order:
                sink.receive(outlets[part[0].start].deliver(part, VALUES[part]))
        with h5py.File(folder / "y.h5") as f:
            files.append([f["x"].id.get_chunk_info(i) for i in range(48)])
            assert f.id.get_filesize() == (folder / "y.h5").stat().st_size
            assert oracle.same_bits(f["x"][()], VALUES)
    assert files[0] == files[1]


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_large_chunks_whose_edges_the_parent_writes(folder, revseq, libver):
    values = np.random.default_rng(1).integers(0, 256, (5, 3, 700_001), np.uint8)
    make(folder / "x.h5", values, (2, 2, 300_007), libver)
    with sink_for(folder, open_(folder / "x.h5")) as sink:
        whole = tuple(slice(0, size) for size in values.shape)
        assert not any(offset % 4096 for offset in sink.outlet(whole).offsets)  # so that they go past the page cache
        sink.receive(sink.outlet(whole).deliver(whole, values))
    revseq("convert", "x.h5", "y.h5", "--engine", "threads", "--jobs", 2, "--overwrite").ok()
    revseq("diff", "x.h5", "y.h5").ok()
    with h5py.File(folder / "y.h5", "a") as f:
        assert f["x"].chunks == (2, 2, 300_007)
        assert oracle.same_bits(f["x"][()], values)


def test_damaged_chunks_are_named(folder, revseq):
    for name, options in KNOWN.items():
        if "compression" not in options:
            continue
        make(folder / f"{name}.h5", **options)
        with h5py.File(folder / f"{name}.h5") as f:
            place = next(c for c in map(f["x"].id.get_chunk_info, range(48)) if c.chunk_offset == (3, 16, 20))
        data = bytearray((folder / f"{name}.h5").read_bytes())
        data[place.byte_offset + place.size // 2] ^= 0xFF
        (folder / f"{name}.h5").write_bytes(data)
        done = revseq("run", f"{name}.h5", *JOB)
        done.refused("the chunk at [3, 16, 20] is damaged: it fails its checksum or its filter")
        assert not (folder / "y.h5").exists()


@pytest.mark.parametrize("address", [0xFFFFFFFFFFFFFFF0, 0xFFFFFFFFFFFFFFFF, 1 << 62])
def test_an_index_with_impossible_addresses(folder, revseq, address):
    make(folder / "x.h5")
    with h5py.File(folder / "x.h5") as f:
        place = f["x"].id.get_chunk_info(5).byte_offset
    data = (folder / "x.h5").read_bytes()
    assert data.count(struct.pack("<Q", place)) == 1
    (folder / "x.h5").write_bytes(data.replace(struct.pack("<Q", place), struct.pack("<Q", address)))
    done = revseq("run", "x.h5", *JOB)
    assert "internal error" not in done.err
    assert done.status == (0 if address == 0xFFFFFFFFFFFFFFFF else 2), done.err  # that is a chunk that nobody wrote


def test_a_library_that_does_not_tell_where_chunks_lie(folder, monkeypatch):
    """Workers would all write at the first byte."""
    addresses = itertools.count()
    monkeypatch.setattr(files, "_address", lambda _: next(addresses))
    make(folder / "x.h5")
    sink = sink_for(folder, open_(folder / "x.h5"))
    with pytest.raises(TensorIOError, match="HDF5 does not tell where a chunk lies"), sink:
        sink.outlet(WHOLE)
    assert not (folder / "y.h5").exists()


def test_a_file_that_is_cut_off_after_its_header_was_read(folder):
    make(folder / "x.h5")
    source, later = open_(folder / "x.h5"), open_(folder / "x.h5")
    ticket = source.ticket(WHOLE)
    with (folder / "x.h5").open("r+b") as f:
        f.truncate(5000)
    for each in (ticket, later.ticket(WHOLE)):
        with pytest.raises(OSError, match="changed while it was read: its size"):
            each.read()


SHUFFLED = bytes([1, 3, 2, 4])
PACKED = zlib.compress(SHUFFLED)


@pytest.mark.parametrize(
    ("data", "mask", "right"),
    [
        (PACKED, 0, True),
        (zlib.compress(bytes([1, 2, 3, 4])), 0b01, True),
        (SHUFFLED, 0b10, True),
        (bytes([1, 2, 3, 4]), 0b11, True),
        (PACKED[:-1], 0, False),
        (PACKED[:-1] + bytes([PACKED[-1] ^ 1]), 0, False),
        (b"", 0, False),
        (b"abc", 0, False),
        (zlib.compress(bytes(3)), 0, False),
        (zlib.compress(bytes(5)), 0, False),
        (zlib.compress(bytes(1 << 20)), 0, False),
        (zlib.compress(bytes(2)), 0, False),
        (bytes(3), 0b11, False),
        (bytes(6), 0b11, False),
    ],
)
def test_decoding(data, mask, right):
    own_filters = OwnFilters.of([(2, 0, (2,)), (1, 0, (4,))], 2)
    if right:
        assert own_filters.decode(bytearray(data), mask, 4).tolist() == [1, 2, 3, 4]
        assert own_filters.encode(np.frombuffer(bytes([1, 2, 3, 4]), "<u2")) == zlib.compress(SHUFFLED, 4)
    else:
        with pytest.raises(ValueError, match=r"^$"):
            own_filters.decode(bytearray(data), mask, 4)


@pytest.mark.parametrize(
    "filters", [[(2, 0, (4,))], [(1, 0, (10,))], [(1, 0, ())], [(3, 0, ())], [(2, 0, (2,)), (32000, 1, ())]]
)
def test_filters_with_parameters_of_their_own(filters):
    assert OwnFilters.of(filters, 2) is None


@pytest.mark.parametrize(
    ("codes", "dtype"), [("sg", "<i2"), ("gs", "u1"), ("gs", "<i2"), ("s", "f8"), ("g", "<i2"), ("gsg", "<i2")]
)
def test_filters_in_any_order(folder, codes, dtype):
    """HDF5 reads what is encoded here, and what it encodes is read here; a shuffle of gzip's bytes leaves some over."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk(CHUNKS)
    for code in codes:
        properties.set_filter(*((2, 0, ()) if code == "s" else (1, 0, (6,))))
    with h5py.File(folder / "x.h5", "w") as f:
        hdf5_files.create(f, "x", dtype, SHAPE, properties)[...] = VALUES.astype(dtype)
    source = open_(folder / "x.h5")
    assert source.reads_in_parallel is (codes != "gsg")
    assert oracle.same_bits(source.read(), VALUES.astype(dtype))
    with sink_for(folder, source) as sink:
        sink.receive(sink.outlet(WHOLE).deliver(WHOLE, VALUES.astype(dtype)))
    with h5py.File(folder / "y.h5") as f:
        assert oracle.same_bits(f["x"][()], VALUES.astype(dtype))


def test_a_version_of_hdf5_that_counts_in_chunks(folder, monkeypatch):
    """H5Dchunk_iter did so in HDF5 1.12.3: each chunk would be taken for another one."""
    make(folder / "x.h5", compression=4)
    source, places_of = open_(folder / "x.h5"), hdf5_chunks.places_of

    def counting(dataset, *more):
        def chunk_iter(note):
            def told(chunk):
                starts = tuple(o // c for o, c in zip(chunk.chunk_offset, CHUNKS, strict=True))
                note(chunk._replace(chunk_offset=starts))

            dataset.id.chunk_iter(told)

        given = SimpleNamespace(chunk_iter=chunk_iter, get_create_plist=dataset.id.get_create_plist)
        return places_of(SimpleNamespace(id=given, shape=dataset.shape, chunks=dataset.chunks), *more)

    monkeypatch.setattr(hdf5_source, "places_of", counting)
    first = slice(0, 3), slice(0, 16), slice(0, 10)
    assert isinstance(source.ticket(first), Hdf5Ticket)
    assert oracle.same_bits(source.ticket(first).read(), VALUES[first])


@pytest.mark.parametrize("chunks", [CHUNKS, (1, 16, 10)])
def test_what_lies_behind_the_end_is_what_hdf5_fills_up(folder, chunks):
    """It is read when the dataset has grown."""
    nan = np.frombuffer(struct.pack("<I", 0x7FA12345), "<f4")[0]
    for options in KNOWN.values():
        make(folder / "x.h5", VALUES.astype("f4"), chunks, maxshape=(None,) * 3, fillvalue=nan, **options)
        source = open_(folder / "x.h5")
        with sink_for(folder, source) as sink:
            outlet = sink.outlet(WHOLE)
            assert isinstance(outlet, ChunkOutlet if options else PlacedOutlet)
            sink.receive(outlet.deliver(WHOLE, VALUES.astype("f4")))
        with h5py.File(folder / "y.h5", "a") as f:
            f["x"].resize((9, 64, 40))
            grown = f["x"][()]
        assert oracle.same_bits(grown[WHOLE], VALUES.astype("f4"))
        beyond = np.ones(grown.shape, bool)
        beyond[WHOLE] = False
        assert (grown[beyond].view("u4") == 0x7FA12345).all()
