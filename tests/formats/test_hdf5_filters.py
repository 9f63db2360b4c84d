"""Chunks that workers encode and the parent stores: every property that such a direct write could get wrong."""

import ctypes
from pathlib import Path

import h5py
import hdf5plugin
import numpy as np
import oracle
import pytest
from h5py import h5d, h5p, h5s, h5t
from oracle import expected
from tensor_files import open_

from revseq_cli.files.transactions import FileTransaction
from revseq_cli.formats import outputs, references

SHAPE, CHUNKS = (
    (7, 50, 33),
    (3, 16, 10),
)  # the last chunk of each dimension lies across the tensor's end
VALUES = np.cumsum(np.random.default_rng(5).integers(-2, 3, SHAPE), 1).astype("i4")
LENGTHS = np.random.default_rng(6).integers(0, 60, (7, 1, 33)).astype("u4")
RESULT = expected(VALUES, LENGTHS, 1)
RUN = ("run", "x.h5", "n.npy", "--axis", 1, "-o", "y.h5")
JOB = (*RUN, "--memory", "240K", "--jobs", 2, "--verify")


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "n.npy", LENGTHS)
    return tmp_path


@pytest.fixture(scope="module")
def library():
    """The HDF5 library that h5py has loaded in this process, for functions that h5py lacks."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("which HDF5 library h5py has loaded is read from /proc, which is Linux's")
    lines = maps.read_text().splitlines()
    paths = {
        line.split()[-1] for line in lines if "/libhdf5-" in line or line.endswith("/libhdf5.so")
    }
    paths = {
        path for path in paths if "/h5py" in path
    } or paths  # other packages bring one of their own
    if len(paths) != 1:
        pytest.skip("which HDF5 library is h5py's cannot be told")
    return ctypes.CDLL(paths.pop())


def masks(dataset):
    """For each chunk the bits of the filters that it skipped, and whether it has the size of one that skipped all."""
    whole = np.prod(dataset.chunks) * dataset.dtype.itemsize
    found = [dataset.id.get_chunk_info(i) for i in range(dataset.id.get_num_chunks())]
    return {chunk.chunk_offset: (chunk.filter_mask, chunk.size == whole) for chunk in found}


DONT_FILTER_PARTIAL_CHUNKS = 2
PIPELINES = {
    "none": lambda _: None,
    "gzip, shuffle, fletcher32": lambda p: (p.set_shuffle(), p.set_deflate(4), p.set_fletcher32()),
    "zstd": lambda p: p.set_filter(hdf5plugin.ZSTD_ID, h5py.h5z.FLAG_OPTIONAL, (3,)),
}


@pytest.mark.parametrize(
    ("engine", "libver", "pipeline", "name"),
    [
        *(("serial", "latest", pipeline, "x") for pipeline in PIPELINES),
        ("processes", "earliest", "zstd", "added"),
    ],
)
def test_h70_chunks_at_the_end_that_pass_no_filter(
    folder, revseq, library, pipeline, libver, engine, name
):
    """H5Pset_chunk_opts(DONT_FILTER_PARTIAL_CHUNKS): HDF5 reads those chunks as they are, whatever is written."""
    properties = h5p.create(h5p.DATASET_CREATE)
    properties.set_chunk(CHUNKS)
    properties.set_fill_value(np.array(-9, "i4"))
    PIPELINES[pipeline](properties)
    assert library.H5Pset_chunk_opts(ctypes.c_int64(properties.id), DONT_FILTER_PARTIAL_CHUNKS) >= 0
    with h5py.File(folder / "x.h5", "w", libver=libver) as f:
        h5d.create(f.id, b"x", h5t.STD_I32LE, h5s.create_simple(SHAPE), properties).write(
            h5s.ALL, h5s.ALL, VALUES
        )
        before = masks(f["x"])
    assert pipeline == "none" or {whole for _, whole in before.values()} == {True, False}
    revseq(*JOB, "-o", f"y.h5::{name}", "--engine", engine).ok()
    with h5py.File(folder / "y.h5") as g:
        made = g[name].id.get_create_plist()
        assert (
            library.H5Pget_chunk_opts(
                ctypes.c_int64(made.id), ctypes.byref(options := ctypes.c_uint())
            )
            >= 0
        )
        assert options.value == DONT_FILTER_PARTIAL_CHUNKS
        assert oracle.same_bits(g[name][()], RESULT)
        assert {k: whole for k, (_, whole) in masks(g[name]).items()} == {
            k: whole for k, (_, whole) in before.items()
        }


def test_h70_what_lies_behind_the_end_is_the_fill_value(folder, revseq):
    with h5py.File(folder / "x.h5", "w") as f:
        f.create_dataset(
            "x", data=VALUES, chunks=CHUNKS, maxshape=(None,) * 3, compression="gzip", fillvalue=-9
        )
        f.create_dataset("y", data=VALUES, chunks=CHUNKS, maxshape=(None,) * 3, fillvalue=-9)
    for name in "xy":
        revseq("run", f"x.h5::{name}", *JOB[2:], "--overwrite", "--engine", "processes").ok()
        with h5py.File(folder / "y.h5", "a") as g:
            g[name].resize((9, 64, 40))
            assert oracle.same_bits(g[name][: SHAPE[0], : SHAPE[1], : SHAPE[2]], RESULT)
            g[name][: SHAPE[0], : SHAPE[1], : SHAPE[2]] = -9
            assert (g[name][()] == -9).all()


@pytest.mark.parametrize(("libver", "option"), [("earliest", []), ("latest", ["--only"])])
def test_h70_an_optional_filter_that_a_chunk_skipped(folder, revseq, libver, option):
    """LZF is skipped where it does not make a chunk smaller; the mask of each chunk says so."""
    values = np.zeros((8, 64), "u1")
    values[::2] = np.random.default_rng(1).integers(
        0, 256, (4, 64)
    )  # every second chunk does not shrink
    np.save(folder / "n.npy", np.full((8, 1), 40, "u4"))
    with h5py.File(folder / "x.h5", "w", libver=libver) as f:
        f.create_dataset("x", data=values, chunks=(1, 64), compression="lzf")
        before = masks(f["x"])
        assert {mask for mask, _ in before.values()} == {0, 1}
    revseq(*JOB, *option).ok()
    with h5py.File(folder / "y.h5") as g:
        assert masks(g["x"]) == before
        assert oracle.same_bits(g["x"][()], expected(values, np.full((8, 1), 40), 1))


# Those that change their parameters, and some that do not.
FILTERS = {
    "Bitshuffle": {"nelems": 64, "cname": "lz4"}, "Blosc2": {"cname": "zlib", "clevel": 3, "filters": 2}, "FciDecomp": {},
    "Htj2k": {}, "SZ": {"absolute": 0.1}, "SZ3": {"absolute": 0.1}, "Zfp": {"reversible": True},
    "Sperr": {"absolute": 0.01, "missing_value_mode": 1, "swap": True},
}  # fmt: skip
OF_FLOATS = ("SZ", "SZ3", "Sperr", "Zfp")  # the others take short integers, as JPEG-LS wants them


def filters_of(dataset):
    properties = dataset.id.get_create_plist()
    return [properties.get_filter(i)[:3] for i in range(properties.get_nfilters())]


@pytest.mark.parametrize(("name", "options"), FILTERS.items())
def test_h69_parameters_come_out_as_they_went_in(folder, revseq, name, options):
    """Some filters complete their parameters when a dataset is made, and did so twice: compression was silently off."""
    shape, chunks = (6, 64, 96), (1, 64, 32)
    values = np.cumsum(np.random.default_rng(5).integers(-2, 3, shape), 2) % 250
    if name in OF_FLOATS:  # what loses something keeps nothing but constants
        values = (
            np.round(values / 50) * 0 + np.arange(6.0)[:, None, None]
            if not options.get("reversible")
            else values
        )
    values = values.astype("f4" if name in OF_FLOATS else "u2")
    lengths = np.random.default_rng(6).integers(0, 64, (6, 1, 96)).astype("u4")
    np.save(folder / "n.npy", lengths)
    with h5py.File(folder / "x.h5", "w", libver="latest") as f:
        f.create_dataset("x", data=values, chunks=chunks, **getattr(hdf5plugin, name)(**options))
        values = f["x"][()]
    for output in (("y.h5",), ("a.h5::new",), ("z.h5", "--only")):
        revseq(*RUN[:-1], *output, "--verify").ok()
        path, _, new = output[0].partition("::")
        with h5py.File(folder / "x.h5") as f, h5py.File(folder / path) as g:
            old, made = f["x"], g[new or "x"]
            assert oracle.same_bits(made[()], expected(values, lengths, 1))
            assert filters_of(made) == filters_of(old)
            assert (
                made.id.get_storage_size() <= 2 * old.id.get_storage_size()
            )  # the values are in another order
            assert {mask for mask, _ in masks(made).values()} == {
                mask for mask, _ in masks(old).values()
            }


def test_a_chunk_in_the_place_of_one_with_another_filter_mask(folder, revseq):
    """Where the new chunk has the old one's size, HDF5 keeps the old mask, and nobody could read the chunk."""
    data = np.random.default_rng(3).bytes(990)
    data += data[-1:] * 34  # a run of one byte at the end, and else bytes like no others
    pieces = (data[i : min(i + 32, 990)] for i in range(0, 990, 32))
    stream = b"".join(bytes([len(piece) - 1]) + piece for piece in pieces) + bytes(
        [0xE0, len(data) - 999, 0]
    )
    with h5py.File(folder / "x.h5", "w") as f:
        made = f.create_dataset("x", (1, 1024), "u1", chunks=(1, 1024), compression="lzf")
        made.id.write_direct_chunk((0, 0), stream, 0)
    with h5py.File(folder / "x.h5") as f:
        assert f["x"][()].tobytes() == data
        assert f["x"].id.get_chunk_info(0).size == 1024
    revseq("run", "x.h5", "[[1024]]", "--axis", 1, "-o", "y.h5", "--verify").ok()
    with h5py.File(folder / "y.h5") as f:
        assert f["x"][()].tobytes() == data[::-1]
        assert f["x"].id.get_chunk_info(0).filter_mask == 1  # LZF cannot make it smaller


@pytest.mark.parametrize(("only", "name"), [(False, "x"), (True, "x"), (False, "new")])
def test_bytes_of_chunks_without_filters_are_reserved_before(folder, only, name):
    """So a full disk is told before the work; of the chunks that the file has already, none is counted twice."""
    with h5py.File(folder / "x.h5", "w", libver="earliest") as f:
        f.create_dataset("x", data=np.zeros((2000, 16), "u1"), chunks=(1, 16))
    source, whole = open_(folder / "x.h5"), (slice(0, 2000), slice(0, 16))
    sink = outputs.create_sink(
        references.Reference(str(folder / "y.h5"), name), source, overwrite=True, only=only
    )
    with FileTransaction(sink.file), sink:
        reserved = Path(sink.file.temporary).stat().st_size
        assert 2000 * 16 <= reserved <= (1 + (name == "new")) * (folder / "x.h5").stat().st_size
        sink.receive(sink.block_writer().deliver(whole, source.read()))
    with h5py.File(folder / "y.h5") as f:
        assert f.id.get_filesize() == (folder / "y.h5").stat().st_size


@pytest.mark.needs("proc")
@pytest.mark.parametrize("chunks", [None, (1, 4)])
def test_an_undefined_fill_value(folder, revseq, library, chunks):
    values, lengths = np.arange(12.0).reshape(3, 4), np.array([[2], [0], [4]], "u4")
    np.save(folder / "n.npy", lengths)
    made = h5p.create(h5p.DATASET_CREATE)
    if chunks:
        made.set_chunk(chunks)
    assert (
        library.H5Pset_fill_value(
            ctypes.c_int64(made.id), ctypes.c_int64(h5t.NATIVE_DOUBLE.id), None
        )
        >= 0
    )
    with h5py.File(folder / "x.h5", "w") as f:
        for name in (b"x", b"part", b"never"):
            h5d.create(f.id, name, h5t.IEEE_F64LE, h5s.create_simple((3, 4)), made)
        f["x"][...] = values
        f["part"][1] = values[1]
    wanted = {"x": values} | ({"part": np.where([[0], [1], [0]], values, 0)} if chunks else {})
    for name, old in wanted.items():  # chunks that were never written are 0
        revseq("run", f"x.h5::{name}", *RUN[2:], "--verify", "--overwrite").ok()
        with h5py.File(folder / "y.h5") as f:
            assert oracle.same_bits(f[name][()], expected(old, lengths, 1))
            assert f[name].id.get_create_plist().fill_value_defined() == h5d.FILL_VALUE_UNDEFINED
    revseq("show", "x.h5::never").refused(
        "none of its values was ever written, and it has no fill value"
    )


def test_a_blosc_frame_that_is_cut_short_is_refused(folder, revseq):
    """Blosc decodes what lies after it in memory, and HDF5 does not notice."""
    with h5py.File(folder / "x.h5", "w") as file:
        blosc = hdf5plugin.Blosc(cname="lz4")
        dataset = file.create_dataset("x", data=VALUES, chunks=CHUNKS, **blosc)
        mask, frame = dataset.id.read_direct_chunk((3, 16, 0))
    revseq(*RUN).ok()
    for length in (len(frame) - 1, 16, 3):
        with h5py.File(folder / "x.h5", "r+") as file:
            file["x"].id.write_direct_chunk((3, 16, 0), frame[:length], mask)
        revseq(*RUN, "--overwrite").refused("[3, 16, 0]", "truncated", f"{length} ")
