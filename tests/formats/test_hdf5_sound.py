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
from revseq_cli.formats.hdf5 import source

VALUES = np.arange(12.0).reshape(3, 4)
LENGTHS = np.array([[2], [0], [4]], "u4")
RUN = ("run", "x.h5", "n.npy", "--axis", 1, "--feature-level", "none", "--verify", "-o", "y.h5")


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "n.npy", LENGTHS)
    return tmp_path


@pytest.fixture(scope="module")
def library():
    return hdf5_files.loaded_hdf5()


def right(folder, name="x"):
    with h5py.File(folder / "y.h5") as f:
        assert oracle.same_bits(f[name][()], expected(VALUES, LENGTHS, 1))


def forget_fill(library, properties):
    library.H5Pset_fill_value.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    assert library.H5Pset_fill_value(properties.id, h5t.NATIVE_DOUBLE.id, None) >= 0
    assert properties.fill_value_defined() == h5d.FILL_VALUE_UNDEFINED


@pytest.mark.needs("proc")
@pytest.mark.parametrize("storage", ["contiguous", "chunks", "gzip"])
def test_an_undefined_fill_value(folder, revseq, library, storage):
    made = h5p.create(h5p.DATASET_CREATE)
    if storage != "contiguous":
        made.set_chunk((2, 3))
    if storage == "gzip":
        made.set_deflate(1)
    forget_fill(library, made)
    with h5py.File(folder / "x.h5", "w") as f:
        x = h5d.create(f.id, b"x", h5t.IEEE_F64LE, h5s.create_simple((3, 4)), made)
        h5d.create(f.id, b"never", h5t.IEEE_F64LE, h5s.create_simple((3, 4)), made)
        x.write(h5s.ALL, h5s.ALL, VALUES)
    revseq("run", "x.h5::x", *RUN[2:]).ok()
    right(folder)
    with h5py.File(folder / "y.h5") as f:
        assert f["x"].id.get_create_plist().fill_value_defined() == h5d.FILL_VALUE_UNDEFINED
    revseq("show", "x.h5::never").refused("none of its values was ever written, and it has no fill value")


@pytest.mark.needs("proc")
def test_chunks_that_were_never_written_and_have_no_fill_value(folder, revseq, library):
    made = h5p.create(h5p.DATASET_CREATE)
    made.set_chunk((1, 4))
    forget_fill(library, made)
    with h5py.File(folder / "x.h5", "w") as f:
        h5d.create(f.id, b"x", h5t.IEEE_F64LE, h5s.create_simple((3, 4)), made)
        f["x"][1] = VALUES[1]
    revseq(*RUN).ok()
    with h5py.File(folder / "y.h5") as f:
        assert oracle.same_bits(f["x"][()], np.where([[0], [1], [0]], VALUES, 0))


@pytest.mark.needs("proc")
def test_a_fill_value_that_h5py_cannot_convert(folder, revseq, library):
    made = h5p.create(h5p.DATASET_CREATE)
    made.set_chunk((2, 4))
    library.H5Pset_fill_value.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    assert library.H5Pset_fill_value(made.id, h5t.STD_B8BE.id, ctypes.byref(ctypes.c_uint8(0xA5))) >= 0
    with h5py.File(folder / "x.h5", "w") as f:
        h5d.create(f.id, b"x", h5t.STD_B8BE, h5s.create_simple((3, 4), (9, 9)), made)
    revseq(*RUN).ok()
    with h5py.File(folder / "y.h5", "a") as f:
        f["x"].resize((9, 9))
        found = np.empty((9, 9), "u1")
        f["x"].id.read(h5s.ALL, h5s.ALL, found, f["x"].id.get_type())
        assert (found == 0xA5).all()


@pytest.mark.parametrize(
    ("userblock", "layout", "options"),
    [
        *((512, layout, ()) for layout in ("never written", "compact", "chunks", "contiguous")),
        (512, "never written", ("--only",)),
        (4096, "contiguous", ("--only",)),
    ],
)
def test_a_user_block(folder, revseq, userblock, layout, options):
    """HDF5 names a place inside the user block for values that lie nowhere, and for those in a header."""
    made = h5p.create(h5p.DATASET_CREATE)
    made.set_fill_value(np.array(7.0))
    if layout == "chunks":
        made.set_chunk((2, 3))
    if layout == "compact":
        made.set_layout(h5d.COMPACT)
    with h5py.File(folder / "x.h5", "w", userblock_size=userblock) as f:
        x = h5d.create(f.id, b"x", h5t.IEEE_F64LE, h5s.create_simple((3, 4)), made)
        if layout != "never written":
            x.write(h5s.ALL, h5s.ALL, VALUES)
    revseq(*RUN, *options).ok()
    with h5py.File(folder / "y.h5") as f:
        values = VALUES if layout != "never written" else np.full((3, 4), 7.0)
        assert oracle.same_bits(f["x"][()], expected(values, LENGTHS, 1))
        assert f.userblock_size == (0 if options else userblock)


KINDS = [
    h5t.UNIX_D32LE, h5t.STD_REF_OBJ, h5t.STD_REF_DSETREG, h5t.STD_B8LE, h5t.vlen_create(h5t.UNIX_D64BE),
    h5t.array_create(h5t.UNIX_D32BE, (3,)), h5t.vlen_create(h5t.STD_I32LE),
]  # fmt: skip


def test_types_that_h5py_lacks(folder, revseq):
    with h5py.File(folder / "x.h5", "w") as f:
        f["x"] = VALUES
        for i, kind in enumerate(KINDS):
            kind.copy().commit(f.id, b"kind %d" % i)
    revseq(*RUN).ok()
    right(folder)
    with h5py.File(folder / "x.h5", "a") as f:
        for i, kind in enumerate(KINDS):
            h5d.create(f.id, b"other %d" % i, kind, h5s.create_simple((2,)))
            h5a.create(f["other 0"].id, b"CLASS%d" % i, kind, h5s.create_simple((2,)))
    done = revseq("convert", "x.h5", "none.npy").refused("has 8 datasets: /other 0, ", "/x")
    assert "damaged" not in done.err
    revseq("run", "x.h5::x", *RUN[2:], "--overwrite").ok()
    right(folder)
    for i, kind in enumerate(KINDS):
        done = revseq("show", f"x.h5::other {i}")
        assert done.status == 0 if kind is h5t.STD_B8LE else "damaged" not in done.refused("its data type is ").err


class _Class(ctypes.Structure):
    """H5L_class_t, of HDF5 1.12 and later."""

    _fields_ = [("version", ctypes.c_int), ("id", ctypes.c_int), ("comment", ctypes.c_char_p)] + [
        (name, ctypes.c_void_p) for name in ("create", "move", "copy", "traverse", "delete", "query")
    ]


@pytest.mark.needs("proc")
def test_user_defined_links(folder, revseq, library):
    """They run code of the program that made them, and are never followed."""
    traverse = ctypes.CFUNCTYPE(ctypes.c_int64)(lambda: -1)
    made = _Class(1, 99, b"test", None, None, None, ctypes.cast(traverse, ctypes.c_void_p), None, None)
    assert library.H5Lregister(ctypes.byref(made)) >= 0
    library.H5Lcreate_ud.argtypes = [
        ctypes.c_int64, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, ctypes.c_int64,
    ]  # fmt: skip
    with h5py.File(folder / "x.h5", "w", libver="latest") as f:
        assert library.H5Lcreate_ud(f.id.id, b"own", 99, b"data", 4, 0, 0) >= 0
        f["by_way"] = h5py.SoftLink("/own")
    assert "a user-defined link of class 99" in revseq("show", "x.h5").ok().out
    with h5py.File(folder / "x.h5", "a") as f:
        f["x"] = VALUES
    revseq(*RUN).ok()
    right(folder)
    for name in ("own", "by_way", "own/more"):
        revseq("show", f"x.h5::{name}").refused("/own is a user-defined link of class 99")


@pytest.mark.needs("names of bytes")
def test_names_of_any_bytes(folder, revseq):
    with h5py.File(folder / "x.h5", "w") as f:
        f["x"] = VALUES
        h5g.create(h5g.create(f.id, b"gr\xff"), b"a\nb")
        h5t.STD_I8LE.copy().commit(f.id, b"ty\xfe")
        f.id.links.create_soft(b"so\xff", b"\xfe\xff")
        f.id.links.create_external(b"ex\xff", b"\xfe\xff", b"/\xff")
    revseq(*RUN).ok()
    right(folder)
    with h5py.File(folder / "x.h5", "a") as f:
        h5d.create(h5g.open(f.id, b"gr\xff"), b"deep", h5t.STD_I8LE, h5s.create_simple((2,)))
    revseq("convert", "x.h5", "none.npy").refused("has 2 datasets", "/x")
    revseq("show", b"x.h5::so\xff").refused("its name is not UTF-8")


OPTIONS = [
    {"libver": "earliest"}, {"libver": "v110"}, {"libver": "latest"}, {"track_order": True}, {"userblock_size": 512},
    {"fs_strategy": "page", "fs_page_size": 4096}, {"fs_strategy": "fsm", "fs_persist": True},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=lambda each: "-".join(map(str, each.items())))
def test_files_of_all_versions_and_strategies(folder, revseq, options):
    with h5py.File(folder / "x.h5", "w", **options) as f:
        group = f.create_group("g", track_order=True)
        group["x"] = VALUES
        for i in range(40):  # so many are stored in another way
            group.attrs[f"a{i}"], group["x"].attrs[f"b{i}"] = i, i
            group.create_group(f"empty{i}")
        if "libver" in options and options["libver"] != "earliest":
            group.attrs["huge"] = np.zeros(100_000)
    for more in ((), ("--only", "--overwrite")):
        assert revseq(*RUN, *more).ok().err == ""
        right(folder, "g/x")
        with h5py.File(folder / "x.h5") as f, h5py.File(folder / "y.h5") as g:
            assert dict(g["g/x"].attrs) == dict(f["g/x"].attrs)
            assert len(g["g"].attrs) == len(f["g"].attrs)


def test_damage_elsewhere_in_the_file(folder, revseq):
    with h5py.File(folder / "x.h5", "w") as f:
        f["x"], f["bad"] = VALUES, VALUES
        place = h5py.h5o.get_info(f["bad"].id).addr
    with open(folder / "x.h5", "r+b") as file:
        file.seek(place)
        file.write(b"\xff" * 16)
    for more in ((), ("--only", "--overwrite")):
        revseq("run", "x.h5::x", *RUN[2:], *more).ok()
        right(folder)
    revseq("convert", "x.h5", "none.npy").refused("has 2 datasets: /bad, /x")
    revseq("show", "x.h5::bad").refused("x.h5: HDF5 cannot read it: ", "a whole file, of HDF5 ")


def test_a_mistake_of_ours_is_no_damage(folder):
    h5py.File(folder / "x.h5", "w").close()
    for mistake in (TypeError, KeyError, ValueError):
        with pytest.raises(mistake, match="ours"), source.opened(str(folder / "x.h5")):
            raise mistake("ours")


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (OSError("Can't read data (file read failed: time = x, errno = 5, error message = 'Input/output error')"),
         "cannot read: Input/output error"),
        (TypeError("No NumPy equivalent for TypeTimeID exists"), "cannot read it: No NumPy equivalent"),
        (KeyError("Unable to open object (addr overflow, addr = 7)"), "read it: Unable to open object (addr overflow"),
    ],
)  # fmt: skip
def test_what_h5py_raises_is_told_as_what_it_is(folder, monkeypatch, raised, told):
    h5py.File(folder / "x.h5", "w").close()
    of_h5py = {"__name__": "h5py.anything", "raised": raised}
    exec("def fail(*_, **__):\n    raise raised", of_h5py)
    monkeypatch.setattr(source.h5py, "File", of_h5py["fail"])
    with pytest.raises(RevseqError) as caught, source.opened(str(folder / "x.h5")):
        pass
    assert told in str(caught.value)
