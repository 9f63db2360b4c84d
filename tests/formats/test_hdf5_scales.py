"""Dimension scales of HDF5: attributes that are not what HDF5's own functions take for granted crash nothing."""

import h5py
import numpy as np
import oracle
import pytest
from oracle import expected

from revseq_cli.formats.hdf5 import netcdf

VALUES = np.arange(6.0).reshape(2, 3)
LENGTHS = np.array([[2, 0, 1]], "u4")
RUN = ("run", "x.h5::/x", "n.npy", "--axis", 0, "-o", "y.h5", "--feature-level", "none")


def references(*lists):
    found = np.empty(len(lists), h5py.vlen_dtype(h5py.ref_dtype))
    for i, each in enumerate(lists):
        found[i] = np.array(each, h5py.ref_dtype)
    return found


def fixed(text, padding=h5py.h5t.STR_NULLTERM, size=None, shape=()):
    """A string attribute as C programs write it."""

    def write(f, holder, name):
        kind = h5py.h5t.C_S1.copy()
        kind.set_size(size or len(text) + (padding == h5py.h5t.STR_NULLTERM))
        kind.set_strpad(padding)
        space = h5py.h5s.create_simple(shape) if shape else h5py.h5s.create(h5py.h5s.SCALAR)
        h5py.h5a.create(f[holder].id, name.encode(), kind, space).write(np.full(shape, text, f"S{kind.get_size()}"))

    return write


def value(data, dtype=None, shape=None):
    return lambda f, holder, name: f[holder].attrs.create(name, data, shape, dtype)


def made(make):
    return lambda f, holder, name: make(f)(f, holder, name)


VLEN_REFERENCE = h5py.vlen_dtype(h5py.ref_dtype)
WRONG = {
    "integers": value(np.arange(2)),
    "lists of integers": value([np.arange(2), np.arange(3)], h5py.vlen_dtype("i8"), (2,)),
    "a text": value("abc"),
    "texts": value(["abc", "de"]),
    "one reference for each": made(lambda f: value(np.array([f["s"].ref] * 2), h5py.ref_dtype)),
    "regions": made(lambda f: value(np.array([f["x"].regionref[:1]] * 2), h5py.regionref_dtype)),
    "nothing": value(h5py.Empty("f4")),
    "too few": made(lambda f: value(references([f["s"].ref]), VLEN_REFERENCE)),
    "too many": made(lambda f: value(references([f["s"].ref], [], []), VLEN_REFERENCE)),
    "a group": made(lambda f: value(references([f.ref], []), VLEN_REFERENCE)),
    "itself": made(lambda f: value(references([f["x"].ref], []), VLEN_REFERENCE)),
    "null": value(references([h5py.Reference()], []), VLEN_REFERENCE),
}
# On the dataset, beside a scale that is attached; or on the scale.
BESIDE = {
    "image": ("x", "CLASS", fixed("IMAGE")),
    "image, padded": ("x", "CLASS", fixed("IMAGE", h5py.h5t.STR_NULLPAD)),
    "image, of any length": ("x", "CLASS", value("IMAGE")),
    "scale": ("x", "CLASS", fixed("DIMENSION_SCALE")),
    "long": ("x", "CLASS", fixed("y" * 60_000)),
    "many": ("x", "CLASS", fixed("DIMENSION_SCALE", shape=(3000,))),
    "number": ("x", "CLASS", value(3)),
    "empty": ("x", "CLASS", value(h5py.Empty("S16"))),
    "labels": ("x", "DIMENSION_LABELS", value(3)),
    "scale's class": ("s", "CLASS", value("DIMENSION_SCALE")),
    "scale's classes": ("s", "CLASS", fixed("DIMENSION_SCALE", shape=(3000,))),
    "scale's number": ("s", "CLASS", value(3)),
    "scale's uses": ("s", "REFERENCE_LIST", value(3)),
    "scale's use": ("s", "REFERENCE_LIST", value("abc")),
    "scale's name": ("s", "NAME", value(np.arange(3))),
    "scale's scales": ("s", "DIMENSION_LIST", value("abc")),
}


@pytest.fixture
def attached(tmp_path):
    np.save(tmp_path / "n.npy", LENGTHS)
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["x"], f["s"] = VALUES, np.arange(2.0)
        f["s"].make_scale("s")
        f["x"].dims[0].attach_scale(f["s"])
    return tmp_path


@pytest.mark.parametrize("wrong", WRONG)
def test_a_list_of_scales_that_is_none(attached, revseq, wrong):
    with h5py.File(attached / "x.h5", "a") as f:
        del f["x"].attrs["DIMENSION_LIST"]
        WRONG[wrong](f, "x", "DIMENSION_LIST")
    revseq("show", "x.h5").ok()  # /s still is a scale, so that /x is the only dataset beside it
    revseq(*RUN, "--verify").ok()
    with h5py.File(attached / "x.h5") as f, h5py.File(attached / "y.h5") as g:
        assert oracle.same_bits(g["x"][()], expected(VALUES, LENGTHS, 0))
        assert list(g) == ["x"]
        before, after = (h5py.h5a.exists(each["x"].id, b"DIMENSION_LIST") for each in (f, g))
        assert before
        kind = h5py.h5a.open(f["x"].id, b"DIMENSION_LIST").get_type()
        assert after == (not kind.detect_class(h5py.h5t.REFERENCE))  # it is an attribute like others


@pytest.mark.parametrize("beside", BESIDE)
def test_other_attributes_beside_a_scale(attached, revseq, beside):
    holder, name, write = BESIDE[beside]
    with h5py.File(attached / "x.h5", "a") as f:
        if name in f[holder].attrs:
            del f[holder].attrs[name]
        write(f, holder, name)
    assert revseq(*RUN, "--verify").ok().err == ""
    with h5py.File(attached / "x.h5") as f, h5py.File(attached / "y.h5") as g:
        assert oracle.same_bits(g["x"][()], expected(VALUES, LENGTHS, 0))
        assert [s.name for s in netcdf.scales_of(g["x"], 0)] == ["/s"]
        assert netcdf.scales_of(g["x"], 1) == []
        old, new = (h5py.h5a.open(each[holder].id, name.encode()) for each in (f, g))
        if name != "REFERENCE_LIST":
            assert old.get_type().equal(new.get_type())
            assert old.shape == new.shape
        assert g[g["s"].attrs["REFERENCE_LIST"][0]["dataset"]] == g["x"]


def test_what_is_attached_is_so_for_hdf5(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["x"], f["y"] = np.zeros((2, 2)), np.zeros(2)
        for name in "st":
            f[name] = np.arange(2.0)
            f[name].make_scale(name)
        for holder, d, scale in (("x", 0, "s"), ("x", 0, "t"), ("x", 1, "s"), ("y", 0, "s")):
            netcdf.attach(f[holder], d, f[scale])
    with h5py.File(tmp_path / "x.h5", "a") as f:
        assert [[s.name for s in d.values()] for d in f["x"].dims] == [["/s", "/t"], ["/s"]]
        assert [(f[use].name, int(d)) for use, d in f["s"].attrs["REFERENCE_LIST"]] == [("/x", 0), ("/x", 1), ("/y", 0)]
        f["x"].dims[1].attach_scale(f["t"])  # HDF5 goes on where we ended
        f["x"].dims[0].detach_scale(f["s"])
        assert [[s.name for s in netcdf.scales_of(f["x"], d)] for d in (0, 1)] == [["/t"], ["/s", "/t"]]
        assert [netcdf.is_scale(f[name].id) for name in "stxy"] == [True, True, False, False]


def test_a_scale_that_was_deleted(attached, revseq):
    with h5py.File(attached / "x.h5", "a") as f:
        del f["s"]
    revseq(*RUN, "--verify").ok()
    with h5py.File(attached / "y.h5") as g:
        assert oracle.same_bits(g["x"][()], expected(VALUES, LENGTHS, 0))
        assert list(g) == ["x"]


def test_a_scale_of_its_own_dimension(tmp_path, revseq):
    """HDF5's own function refuses this, and files have it: it stays, in the new file's own references."""
    np.save(tmp_path / "n.npy", np.array([3], "u4"))
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["x"] = np.arange(4, dtype="f4")
        f["x"].make_scale("time")
        f["x"].attrs["DIMENSION_LIST"] = references([f["x"].ref])
        f["x"].attrs["REFERENCE_LIST"] = np.array([(f["x"].ref, 0)], [("dataset", h5py.ref_dtype), ("dimension", "i4")])
    revseq("run", "x.h5", "n.npy", "--axis", 0, "-o", "y.h5").ok()
    with h5py.File(tmp_path / "y.h5") as f:
        assert f["x"][...].tolist() == [2, 1, 0, 3]
        (scale,) = f["x"].attrs["DIMENSION_LIST"][0]
        assert f[scale].name == "/x"
        assert f[f["x"].attrs["REFERENCE_LIST"][0]["dataset"]].name == "/x"
        assert h5py.h5ds.is_scale(f["x"].id)
