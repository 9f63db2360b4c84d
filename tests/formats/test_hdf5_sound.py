"""A sound HDF5 file is never called damaged: what h5py lacks, or what stands elsewhere in the file, stops nothing."""

import ctypes

import h5py
import hdf5_files
import numpy as np
import oracle
import pytest
from h5py import h5a, h5d, h5g, h5p, h5s, h5t
from oracle import expected

from revseq_cli.core.errors import RevseqError
from revseq_cli.formats.hdf5 import files

VALUES = np.arange(12.0).reshape(3, 4)
RUN = ("run", "x.h5::x", "n.npy", "--axis", 1, "--verify", "-o", "y.h5")
LENGTHS = np.array([[2], [0], [4]], "u4")


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "n.npy", LENGTHS)
    return tmp_path


@pytest.fixture(scope="module")
def library():
    library = hdf5_files.loaded_hdf5()
    library.H5Pset_fill_value.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    return library


@pytest.fixture
def right(revseq, folder):
    """Run the job, and whether the output is right."""

    def run(*options, name="x", values=VALUES):
        revseq("run", f"x.h5::{name}", *RUN[2:], "--overwrite", *options).ok()
        with h5py.File(folder / "y.h5") as f:
            assert oracle.same_bits(f[name][()], expected(values, LENGTHS, 1))

    return run


@pytest.mark.needs("proc")
@pytest.mark.parametrize("chunks", [None, (1, 4)])
def test_an_undefined_fill_value(folder, revseq, library, right, chunks):
    made = h5p.create(h5p.DATASET_CREATE)
    if chunks:
        made.set_chunk(chunks)
    assert library.H5Pset_fill_value(made.id, h5t.NATIVE_DOUBLE.id, None) >= 0
    with h5py.File(folder / "x.h5", "w") as f:
        for name in (b"x", b"part", b"never"):
            h5d.create(f.id, name, h5t.IEEE_F64LE, h5s.create_simple((3, 4)), made)
        f["x"][...] = VALUES
        f["part"][1] = VALUES[1]
    right()
    if chunks:  # those that were never written are 0
        right(name="part", values=np.where([[0], [1], [0]], VALUES, 0))
    with h5py.File(folder / "y.h5") as f:
        assert f["x"].id.get_create_plist().fill_value_defined() == h5d.FILL_VALUE_UNDEFINED
    revseq("show", "x.h5::never").refused("none of its values was ever written, and it has no fill value")


@pytest.mark.parametrize("layout", ["never written", "compact", "chunks", "contiguous"])
def test_a_user_block(folder, right, layout):
    """HDF5 names a place inside the user block for values that lie nowhere, and for those in a header."""
    made = h5p.create(h5p.DATASET_CREATE)
    made.set_fill_value(np.array(7.0))
    if layout == "chunks":
        made.set_chunk((2, 3))
    if layout == "compact":
        made.set_layout(h5d.COMPACT)
    with h5py.File(folder / "x.h5", "w", userblock_size=512) as f:
        x = h5d.create(f.id, b"x", h5t.IEEE_F64LE, h5s.create_simple((3, 4)), made)
        if layout != "never written":
            x.write(h5s.ALL, h5s.ALL, VALUES)
    for options in ((), ("--only",)):
        right(*options, values=VALUES if layout != "never written" else np.full((3, 4), 7.0))
        with h5py.File(folder / "y.h5") as f:
            assert f.userblock_size == (0 if options else 512)


KINDS = [
    h5t.UNIX_D32LE, h5t.STD_REF_OBJ, h5t.STD_REF_DSETREG, h5t.STD_B8LE, h5t.vlen_create(h5t.UNIX_D64BE),
    h5t.array_create(h5t.UNIX_D32BE, (3,)), h5t.vlen_create(h5t.STD_I32LE),
]  # fmt: skip


def test_types_that_h5py_lacks(folder, revseq, right):
    with h5py.File(folder / "x.h5", "w") as f:
        f["x"] = VALUES
        for i, kind in enumerate(KINDS):
            kind.copy().commit(f.id, b"kind %d" % i)
            h5d.create(f.id, b"other %d" % i, kind, h5s.create_simple((2,)))
            h5a.create(f["other 0"].id, b"CLASS%d" % i, kind, h5s.create_simple((2,)))
    assert "damaged" not in revseq("convert", "x.h5", "none.npy").refused("has 8 datasets: /other 0, ", "/x").err
    right()
    for i, kind in enumerate(KINDS):
        done = revseq("show", f"x.h5::other {i}")
        assert done.status == 0 if kind is h5t.STD_B8LE else done.refused("its data type is ")


@pytest.mark.needs("names of bytes")
def test_names_of_any_bytes(folder, revseq, right):
    with h5py.File(folder / "x.h5", "w") as f:
        f["x"] = VALUES
        group = h5g.create(f.id, b"gr\xff")
        h5g.create(group, b"a\nb")
        h5t.STD_I8LE.copy().commit(f.id, b"ty\xfe")
        f.id.links.create_soft(b"so\xff", b"\xfe\xff")
        f.id.links.create_external(b"ex\xff", b"\xfe\xff", b"/\xff")
        h5d.create(group, b"deep", h5t.STD_I8LE, h5s.create_simple((2,)))
    right()
    revseq("convert", "x.h5", "none.npy").refused("has 2 datasets", "/x")
    revseq("show", b"x.h5::so\xff").refused("which does not exist")
    revseq("convert", b"x.h5::gr\xff/deep", "deep.npy").ok()
    revseq("convert", b"x.h5::gr\xff/deep", "deep.h5").refused("deep.h5: HDF5 cannot write it: ")


def test_files_of_all_versions_and_strategies(folder, right):
    for options in (
        {"libver": "earliest"}, {"libver": "latest"}, {"track_order": True}, {"fs_strategy": "page", "fs_page_size": 4096},
        {"fs_strategy": "fsm", "fs_persist": True},
    ):  # fmt: skip
        with h5py.File(folder / "x.h5", "w", **options) as f:
            group = f.create_group("g", track_order=True)
            group["x"] = VALUES
            for i in range(40):  # so many are stored in another way
                group.attrs[f"a{i}"], group["x"].attrs[f"b{i}"] = i, i
                group.create_group(f"empty{i}")
            if options.get("libver") == "latest":
                group.attrs["huge"] = np.zeros(100_000)
        for more in ((), ("--only",)):
            right(*more, name="g/x")
            with h5py.File(folder / "x.h5") as f, h5py.File(folder / "y.h5") as g:
                assert dict(g["g/x"].attrs) == dict(f["g/x"].attrs)
                assert len(g["g"].attrs) == len(f["g"].attrs)


def test_damage_elsewhere_in_the_file(folder, revseq, right):
    with h5py.File(folder / "x.h5", "w") as f:
        f["x"], f["bad"] = VALUES, VALUES
        place = h5py.h5o.get_info(f["bad"].id).addr
    with open(folder / "x.h5", "r+b") as file:
        file.seek(place)
        file.write(b"\xff" * 16)
    for more in ((), ("--only",)):
        right(*more)
    revseq("convert", "x.h5", "none.npy").refused("has 2 datasets: /bad, /x")
    revseq("show", "x.h5::bad").refused("x.h5: HDF5 cannot read it: ", "a whole file, of HDF5 ")


def test_an_error_of_the_system_is_told_in_its_words(folder, monkeypatch):
    h5py.File(folder / "x.h5", "w").close()
    of_h5py = {"__name__": "h5py.anything", "words": "Can't read data (file read failed: time = x, errno = 5, "}
    exec("def fail(*_, **__):\n    raise OSError(words)", of_h5py)
    monkeypatch.setattr(files.h5py, "File", of_h5py["fail"])
    with pytest.raises(RevseqError, match="cannot read: Input/output error"), files.opened(str(folder / "x.h5")):
        pass


def test_an_axis_cut_within_little_memory_by_workers(folder, revseq):
    """What merges the parts of a line reads the input itself, in a worker."""
    values = np.arange(15 * 16 * 4.0).reshape(15, 16, 4)
    with h5py.File(folder / "x.h5", "w") as f:
        f["x"] = values
    revseq("run", "x.h5", "15", "--axis", 1, "-o", "y.h5", "--engine", "processes", "--jobs", 1, "--memory", "2K").ok()
    with h5py.File(folder / "y.h5") as f:
        assert oracle.same_bits(f["x"][()], expected(values, np.full((15, 1, 4), 15), 1))
