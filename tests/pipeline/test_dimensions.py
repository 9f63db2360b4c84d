"""Dimensions by their names, in files as netCDF4, xarray, h5py and zarr write them."""

import json

import h5py
import netCDF4
import numpy as np
import oracle
import pytest
import zarr

VALUES = np.random.default_rng(5).random((5, 4, 6)).astype("f4")
NAMES = ("time", "lat", "lon")
LENGTHS = np.random.default_rng(6).integers(0, 6, (1, 4, 6)).astype("u4")


@pytest.fixture
def tensor(tmp_path):
    """The name of a tensor whose dimensions have names; its lengths lie beside it."""
    np.save(tmp_path / "n.npy", LENGTHS)
    with netCDF4.Dataset(tmp_path / "x.nc", "w") as f:
        for name, size in zip(NAMES, (None, *VALUES.shape[1:]), strict=True):
            f.createDimension(name, size)
        f.createGroup("model").createVariable("v", "f4", NAMES, zlib=True)[:] = VALUES
        f.createVariable("time", "f8", ("time",))[:] = np.arange(5.0)
    return "x.nc::/model/v"


def test_a_wrong_name_lists_those_there_are(revseq, tensor):
    done = revseq("run", tensor, "n.npy", "--axis", "tmie")
    done.refused("no dimension is named tmie", "wanted: one of time, lat, lon, or 0 to 2", "Hint: revseq run")
    revseq(*done.err.split("Hint: revseq ")[1].split()).ok()
    done = revseq("run", tensor, "[1, 2, 3, 4]", "--axis", 0, "--batch-axis", "la")
    done.refused("no dimension is named la", "one of time, lat, lon")
    revseq("run", tensor, "n.npy").refused("no axis is given", "0 to 2, or time, lat, lon")


def test_a_batch_axis_by_its_name(revseq, tmp_path, tensor):
    lengths = ("[1, 5, 0, 3]", "--axis", "lon", "--batch-axis", "lat")
    revseq("run", tensor, *lengths, "-o", "y.npy").ok()
    wide = np.broadcast_to(np.array([1, 5, 0, 3], "u4").reshape(1, 4, 1), (5, 4, 1))
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), oracle.expected(VALUES, wide, 2))
    revseq("run", tensor, "[1, 5, 0, 3]", "--axis", "time", "--batch-axis", "lat", "--rank", 4, "-o", "z.npy").ok()
    assert np.load(tmp_path / "z.npy").shape == (1, 5, 4, 6)


def test_numbers_win(revseq, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        x = f.create_dataset("x", data=VALUES)
        x.dims[0].label, x.dims[1].label = "1", "0"
    for axis in ("0", " 0 ", "+0", "0.0"):
        assert json.loads(revseq("check", "x.h5", "[[[1]]]", "--axis", axis, "--json").out)["Axis"] == 0


def test_a_name_that_two_dimensions_have(revseq, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        x = f.create_dataset("x", data=np.zeros((3, 3), "f4"))
        x.dims[0].label = x.dims[1].label = "x\x1b"
    done = revseq("run", "x.h5", "[[1], [2], [3]]", "--axis", "x\x1b")
    done.refused(r"2 dimensions are named x\x1b: 0, 1", "0 to 1, by number")
    assert r"dimensions       x\x1b, x\x1b" in revseq("show", "x.h5").ok().out


@pytest.mark.parametrize("axis", ["1.5", "-0.1", "9" * 5000, "", "time", "--", "0x1", "1e0", "inf"])
def test_what_is_neither_a_number_nor_a_name(revseq, tmp_path, axis):
    np.save(tmp_path / "x.npy", VALUES)
    words = ("--axis", "dimension" if axis else "is empty")
    if axis in ("time", "--", "0x1", "1e0", "inf"):  # which names of other files may be
        words = (f"no dimension is named {axis}", "0 to 2, by number: its dimensions have no names\n")
    done = revseq("run", "x.npy", "[[[1]]]", "--axis", axis).refused(*words)
    assert len(done.err) < 300


def test_a_digit_of_full_width_is_a_name(revseq, tmp_path):
    zarr.create_array(tmp_path / "x.zarr", shape=(2, 3), dtype="f4", dimension_names=("\uff11", "x"))[:] = np.arange(
        6
    ).reshape(2, 3)
    revseq("run", "x.zarr", "[[1, 2, 2]]", "--axis", "\uff11", "-o", "y.npy").ok()
    assert np.load(tmp_path / "y.npy").tolist() == [[0, 4, 5], [3, 1, 2]]
    hint = "Hint: \uff10 is not written in the digits 0 to 9: type 0\n"
    revseq("run", "x.zarr", "[[1, 2, 2]]", "--axis", "\uff10").refused(
        "no dimension is named \uff10", "one of \uff11, x", hint
    )
    typed = ("--memory", "\uff11MB")
    revseq("run", "x.zarr", "[[1, 2, 2]]", "--axis", "0", "-o", "y.h5", *typed).refused(*typed)


def test_some_dimensions_without_a_name(revseq, tmp_path):
    zarr.create_array(tmp_path / "x.zarr", shape=(2, 3), dtype="f4", dimension_names=(None, "x"))[:] = 1
    assert "dimensions       -, x" in revseq("show", "x.zarr").ok().out
    assert json.loads(revseq("show", "x.zarr", "--json").ok().out)["tensors"][0]["dimensions"] == [None, "x"]
    revseq("run", "x.zarr", "[[1], [2]]", "--axis", "x").ok()


@pytest.mark.parametrize("names", ["text", [1, 2], ["a"], [["a"], "b"], {"a": 1}])
def test_what_is_no_list_of_names_names_nothing(revseq, tmp_path, names):
    attributes = {"attributes": {"_ARRAY_DIMENSIONS": names}, "zarr_format": 2}
    zarr.create_array(tmp_path / "x.zarr", shape=(2, 3), dtype="f4", **attributes)[:] = 1
    out = revseq("show", "x.zarr").ok().out
    assert ("dimensions" in out) == (names == [["a"], "b"])


@pytest.mark.parametrize("value", [1, "text", ["a"], [0.0, 0.0, 0.0], [b"a", b"b", b"c"]])
def test_labels_of_another_type_name_nothing_that_is_wrong(revseq, tmp_path, value):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["x"] = VALUES
        f["x"].attrs["DIMENSION_LABELS"] = value
    out = revseq("show", "x.h5").ok().out
    assert ("dimensions       a, b, c" in out) == (value == [b"a", b"b", b"c"])


def test_a_name_that_was_typed_stays_in_the_hint(revseq, tensor):
    given = (tensor, "[1, 2, 3, 4]", "--axis", "time")
    hint = revseq("run", *given).refused().err.split("Hint: revseq ")[1]
    assert hint.rstrip().endswith("--axis time --batch-axis lat")
