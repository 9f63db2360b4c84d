"""HDF5 to HDF5: a copy of the file with the dataset replaced or added, or the dataset alone; a failure leaves nothing."""

import json

import h5py
import numpy as np
import oracle
import pytest
import zarr
from oracle import expected

from revseq_cli.formats.attributes import as_neutral

SHAPE, CHUNKS, AXIS = (5, 30, 17), (2, 8, 5), 1
VALUES = np.random.default_rng(1).integers(-500, 500, SHAPE).astype("<i2")
LENGTHS = np.random.default_rng(2).integers(0, 31, (5, 1, 17)).astype("u4")
RESULT = expected(VALUES, LENGTHS, AXIS)
RUN = ("run", "x.h5", "n.npy", "--axis", AXIS, "-o", "y.h5")


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "n.npy", LENGTHS)
    return tmp_path


def make(folder, values=VALUES, name="x", **options):
    with h5py.File(folder / "x.h5", "w") as f:
        f.create_dataset(name, data=values, **options)


def properties(dataset):
    found = dataset.id.get_create_plist()
    fill = np.zeros((), dataset.dtype)
    found.get_fill_value(fill)
    return {
        "filters": [found.get_filter(i)[:3] for i in range(found.get_nfilters())],
        "layout": found.get_layout(),
        "chunks": dataset.chunks,
        "fill": (found.fill_value_defined(), fill.tobytes()),
        "maxshape": dataset.maxshape,
        "type": dataset.id.get_type().encode(),
    }


FILTERS = {
    "none": {"chunks": CHUNKS},
    "gzip": {
        "chunks": CHUNKS,
        "compression": "gzip",
        "compression_opts": 7,
        "shuffle": True,
        "fletcher32": True,
    },
    "scaleoffset": {"chunks": CHUNKS, "scaleoffset": 0},
    "fill and maxshape": {"chunks": CHUNKS, "fillvalue": -7, "maxshape": (None, 30, 90)},
    "contiguous": {},
}


@pytest.mark.parametrize("name", FILTERS)
def test_storage_is_kept(folder, revseq, name):
    make(folder, name="group/deep/values", **FILTERS[name])
    engine = "processes" if name in ("gzip", "none") else "serial"
    job = (*RUN[:-1], "y.h5", "--engine", engine, "--jobs", 1, "--memory", "200K", "--verify")
    for output in ((), ("-o", "z.h5::other/x"), ("-o", "w.h5", "--only")):
        assert revseq(*job, *output).ok().err == ""
        place = output[1].partition("::") if output else ("y.h5", "", "")
        with h5py.File(folder / "x.h5") as f, h5py.File(folder / place[0]) as g:
            before, after = f["group/deep/values"], g[place[2] or "group/deep/values"]
            found, wanted = properties(after), properties(before)
            if (
                name != "fill and maxshape" and "--only" in output
            ):  # 0, whether somebody set it or not
                found.pop("fill"), wanted.pop("fill")
            assert found == wanted
            assert oracle.same_bits(after[()], RESULT.astype(before.dtype))
            if place[2]:
                assert oracle.same_bits(g["group/deep/values"][()], before[()])


def test_unusual_names(folder, revseq):
    for name in ("größe/ü", "group/c::d e"):
        make(folder, name=name)
        for options in ((), ("--only",)):
            revseq("run", f"x.h5::{name}", *RUN[2:], *options, "--overwrite").ok()
            with h5py.File(folder / "y.h5") as g:
                assert oracle.same_bits(g[name][()], RESULT)


ATTRIBUTES = {
    "text": "m/s", "fixed": np.bytes_("abc"), "utf-8": np.array("bé".encode(), h5py.string_dtype("utf-8", 5)),
    "texts": ["a", "bé", ""], "array": np.arange(6.0), "big-endian": np.arange(3, dtype=">i4"), "half": np.float16(1.5),
    "NaN with bits": np.array(0x7FC12345, "u4").view("f4"), "large": np.arange(7000, dtype="f8"),
    "naïve\x1b": 2, "_FillValue": np.array([-9], "i2"),
}  # fmt: skip
NEUTRAL_HAS_NOT = {
    "empty": h5py.Empty("f4"),
    "compound": np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]),
}


def same(a, b):
    """Whether two values of attributes are one, of whatever kind of text and in however many dimensions."""
    if isinstance(a, h5py.Empty) or np.asarray(a).dtype.names:
        return repr(a) == repr(b)
    return repr(np.ravel(as_neutral(a)).tolist()) == repr(np.ravel(as_neutral(b)).tolist())


def test_attributes(folder, revseq):
    """In a copy all stay as they are; where a dataset is made, a note names those that it does not get."""
    with h5py.File(folder / "x.h5", "w", libver="latest") as f:
        f.create_dataset("group/x", data=VALUES)
        h5py.h5a.create(f["group/x"].id, b"b\xff", h5py.h5t.STD_I8LE, h5py.h5s.create_simple((1,)))
        for item in (f, f["group"], f["group/x"]):
            for name, value in (ATTRIBUTES | NEUTRAL_HAS_NOT).items():
                item.attrs[name] = value
        f["group/x"].attrs["see\x1b"] = f["group"].ref
    for output, made in (
        (("y.h5",), "group/x"),
        (("z.h5::new",), "new"),
        (("w.h5", "--only"), "group/x"),
    ):
        told = json.loads(revseq(*RUN[:-1], *output, "--json").ok().out)["notes"]
        assert told == (
            [r"not copied: b\udcff, compound, empty, see\x1b"] if "--only" in output else []
        )
        with h5py.File(folder / "x.h5") as f, h5py.File(folder / output[0].partition("::")[0]) as g:
            assert oracle.same_bits(g[made][()], RESULT)
            for item in ("/", "group", made) if made != "new" else (made,):
                known = [*ATTRIBUTES, *(() if "--only" in output else NEUTRAL_HAS_NOT)]
                old = f[item if item != "new" else "group/x"].attrs
                for name in known:
                    assert same(old[name], g[item].attrs[name]), (item, name)
            if "--only" not in output:
                assert g[g[made].attrs["see\x1b"]].name == "/group"
                assert len(g[made].attrs) == len(f["group/x"].attrs)


def test_labels_and_scales_of_an_added_dataset(folder, revseq):
    with h5py.File(folder / "x.h5", "w") as f:
        f["kind"], f["s"], f["t"] = VALUES.dtype, np.arange(5.0), np.arange(5)
        f.create_dataset("x", data=VALUES, dtype=f["kind"])
        f["s"].make_scale("s"), f["t"].make_scale("t")
        f["x"].dims[0].attach_scale(f["s"]), f["x"].dims[0].attach_scale(f["t"])
        f["x"].dims[1].label = "wide"
    revseq("run", "x.h5::x", *RUN[2:-1], "y.h5::/g/new").ok()
    with h5py.File(folder / "y.h5", "a") as f:
        assert [each.name for each in f["g/new"].dims[0].values()] == ["/s", "/t"]
        assert f["g/new"].dims[1].label == "wide"
        assert [f[use].name for use, _ in f["s"].attrs["REFERENCE_LIST"]] == ["/x", "/g/new"]
        kinds = f["kind"].id, f["g/new"].id.get_type()
        assert (
            len({h5py.h5o.get_info(kind).addr for kind in kinds}) == 1
        )  # the type with a name is one
        f["g/new"].dims[0].detach_scale(f["s"])  # HDF5 goes on where we ended
    shown = json.loads(revseq("show", "y.h5::g/new", "--json").ok().out)["tensors"][0]
    assert shown["dimensions"] == ["t", "wide", None]


@pytest.mark.parametrize("damage", ["heap", "itself"])
def test_scales_that_are_damaged(folder, revseq, damage):
    np.save(folder / "n.npy", np.array([4], "u4"))
    with h5py.File(folder / "x.h5", "w") as f:
        f["x"], f["scale"] = np.arange(4.0), np.arange(4)
        f["scale"].make_scale()
        f["x"].dims[0].attach_scale(f["scale"])
        if damage == "itself":
            references = np.empty(1, h5py.vlen_dtype(h5py.ref_dtype))
            references[0] = np.array([f["x"].ref], h5py.ref_dtype)
            f["x"].attrs["DIMENSION_LIST"] = references
    if damage == "heap":  # where the references of DIMENSION_LIST lie
        data = bytearray((folder / "x.h5").read_bytes())
        heap = data.index(b"GCOL")
        data[heap : heap + 4] = b"LOST"
        (folder / "x.h5").write_bytes(data)
    for output in (("y.npy",), ("y.h5",), ("z.h5", "--only")):
        revseq("run", "x.h5::x", "n.npy", "--axis", 0, "-o", *output).ok()
    assert np.load(folder / "y.npy").tolist() == [3, 2, 1, 0]
    for name in ("y.h5", "z.h5"):
        with h5py.File(folder / name) as f:
            assert f["x"][()].tolist() == [3, 2, 1, 0]


def test_a_name_that_is_taken(folder, revseq):
    with h5py.File(folder / "x.h5", "w") as f:
        f["v"], f["a/x"] = VALUES, np.arange(5)
        f["soft"] = h5py.SoftLink("/a")
    for output in ("y.h5::/a", "y.h5::/a/x", "y.h5::/v/y", "y.h5::/soft", "y.h5::/soft/x"):
        for options in ((), ("--dry-run",)):
            done = revseq("run", "x.h5::/v", "n.npy", "--axis", AXIS, "-o", output, *options)
            done.refused("already has a tensor /", "add --only", "--only")
    assert {path.name for path in folder.iterdir()} == {"x.h5", "n.npy"}
    revseq("run", "x.h5::/v", "n.npy", "--axis", AXIS, "-o", "y.h5::/a/new").ok()
    revseq("run", "x.h5::/v", "n.npy", "--axis", AXIS, "-o", "z.h5::/a/x", "--only").ok()


def test_other_formats_bring_chunks_and_whether_they_are_compressed(folder, revseq):
    np.save(folder / "x.npy", VALUES)
    zarr.create_array(str(folder / "x.zarr"), data=VALUES, chunks=CHUNKS)
    zarr.create_array(str(folder / "x.plain.zarr"), data=VALUES, chunks=CHUNKS, compressors=None)
    made = {"x.npy": (None, None), "x.zarr": (CHUNKS, "gzip"), "x.plain.zarr": (CHUNKS, None)}
    for source, stored in made.items():
        revseq(
            "run", source, "n.npy", "--axis", 1, "-o", f"{source[2:]}.h5::/g/values", "--verify"
        ).ok()
        with h5py.File(folder / f"{source[2:]}.h5") as g:
            assert (g["g/values"].chunks, g["g/values"].compression) == stored
            assert oracle.same_bits(g["g/values"][()], RESULT)


def test_a_filter_with_loss_is_refused(folder, revseq):
    make(folder, (VALUES / 7).astype("f4"), chunks=CHUNKS, scaleoffset=2)
    for options in ((), ("--only",)):
        revseq(*RUN, *options).refused("its filters change values", "h5repack -f NONE")
    revseq(*RUN[:-1], "y.npy", "--verify").ok()
    with h5py.File(folder / "x.h5") as f:
        assert oracle.same_bits(np.load(folder / "y.npy"), expected(f["x"][()], LENGTHS, 1))
    assert {path.name for path in folder.iterdir()} == {"x.h5", "n.npy", "y.npy"}


def test_a_chunk_larger_than_its_dataset_counts_whole(folder, revseq):
    make(folder, chunks=(5, 30, 100_000), maxshape=(None, None, None))
    revseq(*RUN, "--memory", "1M").refused("the memory is 1048576 bytes")


MATLAB = {
    "x": ("double", VALUES.astype("f8"), {}),
    "flags": ("logical", (VALUES > 0).astype("u1"), {"MATLAB_int_decode": 1}),
    "text": ("char", np.array([[72], [105]], "u2"), {"MATLAB_int_decode": 2}),
    "words": ("string", np.arange(6, dtype="u4").reshape(1, 6), {"MATLAB_object_decode": 3}),
    "empty": ("double", np.array([4, 2, 0], "u8"), {"MATLAB_empty": np.uint8(1)}),
}


def test_a_file_of_matlab(revseq, folder):
    """Its header stands in a user block in front of HDF5; its texts, cells and empty arrays are no numbers."""
    header = b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM"
    with h5py.File(folder / "x.mat", "w", userblock_size=512) as f:
        for name, (kind, values, more) in MATLAB.items():
            f[name] = values
            f[name].attrs["MATLAB_class"] = np.bytes_(kind)
            for key, value in more.items():
                f[name].attrs[key] = value
        f["cells"] = np.array([[f["x"].ref]], h5py.ref_dtype)
        f["cells"].attrs["MATLAB_class"] = np.bytes_("cell")
    with (folder / "x.mat").open("r+b") as file:
        file.write(header)
    revseq("run", "x.mat::x", "n.npy", "--axis", AXIS, "-o", "z.mat").ok()
    assert (folder / "z.mat").read_bytes().startswith(header)
    with h5py.File(folder / "z.mat") as f:
        assert oracle.same_bits(f["x"][...], RESULT.astype("f8"))
        assert f["x"].attrs["MATLAB_class"] == b"double"
    assert revseq("show", "x.mat", "--names").ok().out.split() == ["x.mat::/flags", "x.mat::/x"]
    for name, kind in {"text": "char", "words": "string", "cells": "cell"}.items():
        revseq("convert", f"x.mat::{name}", "y.npy").refused(
            f"its data type is MATLAB's {kind}", "numbers"
        )
    revseq("run", "x.mat::x", "x.mat::empty", "--axis", 0).refused("an empty array of MATLAB")
