"""The line that a command leaves in the history of a NetCDF file."""

import hashlib
import json
import re
import time

import h5py
import netCDF4
import numpy as np
import pytest
import xarray
from conftest import environment

from revseq_cli.core import system

VALUES = np.arange(24, dtype="f4").reshape(2, 3, 4)
RUN = ("run", "x.nc::v", "n.npy", "--axis", "y", "-o", "y.nc")
NOON = {"SOURCE_DATE_EPOCH": "1795316400"}
LINE = "Sun Nov 22 03:00:00 2026: revseq run x.nc::v n.npy --axis y -o y.nc"


def by_netcdf4(path, history, model="NETCDF4"):
    with netCDF4.Dataset(path, "w", format=model) as f:
        f.title = "first"
        if history is not None:
            f.history = history
        f.last = 1.0
        for name, size in zip("xyz", VALUES.shape, strict=True):
            f.createDimension(name, size)
        f.createVariable("v", "f4", tuple("xyz"), zlib=True)[:] = VALUES
        f.createVariable("w", "f4", ("x",))[:] = 1


def by_xarray(path, history, engine="h5netcdf"):
    attributes = {"title": "first"} | ({} if history is None else {"history": history})
    xarray.Dataset({"v": (tuple("xyz"), VALUES), "w": ("x", VALUES[:, 0, 0])}, attrs=attributes).to_netcdf(
        path, engine=engine
    )


MAKERS = {
    "netCDF4": by_netcdf4, "classic": lambda path, history: by_netcdf4(path, history, "NETCDF4_CLASSIC"),
    "h5netcdf": by_xarray, "xarray": lambda path, history: by_xarray(path, history, "netcdf4"),
}  # fmt: skip


@pytest.fixture
def make(tmp_path):
    """Make x.nc with that history, as some library does."""
    np.save(tmp_path / "n.npy", np.full((2, 1, 4), 2, "u4"))
    return lambda history=None, maker="netCDF4": MAKERS[maker](tmp_path / "x.nc", history)


@pytest.fixture
def history(tmp_path):
    """The history of a file, as netCDF4 and xarray read it."""

    def read(name="y.nc"):
        with netCDF4.Dataset(tmp_path / name) as f:
            found = f.history
        with xarray.open_dataset(tmp_path / name, engine="h5netcdf") as f:
            assert f.attrs["history"] == found
        return found

    return read


@pytest.mark.parametrize("options", [(), ("--keep-others",)])
@pytest.mark.parametrize(
    ("old", "maker"),
    [*((old, "netCDF4") for old in (None, "two\nlines ")), *(("größer\u3000", maker) for maker in MAKERS)],
)
def test_the_line_stands_before_the_others(revseq, make, history, old, maker, options):
    make(old, maker)
    revseq(*RUN, *options, env=NOON).ok()
    command = " ".join([LINE, *options])
    assert history() == (command if old is None else f"{command}\n{old}")


def test_each_command_adds_one(revseq, tmp_path, make, history):
    make()
    (tmp_path / "jobs.csv").write_text("input,lengths,axis,output\nx.nc::v,n.npy,y,a.nc\n")
    revseq("batch", "jobs.csv", env=NOON).ok()
    revseq("convert", "a.nc::v", "b b.nc", env={"SOURCE_DATE_EPOCH": "0"}).ok()
    assert history("b b.nc") == (
        f"Thu Jan  1 00:00:00 1970: revseq convert a.nc::v {system.quoted('b b.nc')}\nSun Nov 22 03:00:00 2026: revseq batch jobs.csv"
    )


def test_not_if_nobody_wants_it(revseq, tmp_path, make):
    make("old")
    revseq(*RUN).ok()
    revseq("convert", "x.nc::v", "z.nc").ok()
    (tmp_path / "jobs.jsonl").write_text(
        json.dumps({"input": "x.nc::v", "lengths": "n.npy", "axis": "y", "output": "a.nc", "history": False}) + "\n"
        + json.dumps({"input": "x.nc::v", "lengths": "n.npy", "axis": "y", "output": "b.nc"}) + "\n"
    )  # fmt: skip
    revseq("batch", "jobs.jsonl").ok()
    found = []
    for name in ("y.nc", "z.nc", "a.nc", "b.nc"):
        with netCDF4.Dataset(tmp_path / name) as f:
            found.append(f.history)
    assert found[:3] == ["old"] * 3
    assert found[3].endswith(": revseq batch jobs.jsonl\nold")


def test_the_time_is_that_of_the_clock(revseq, make, history):
    make()
    before = time.time() - 1
    revseq(*RUN).ok()
    words, _, command = history().partition(": revseq ")
    assert command == LINE.partition(": revseq ")[2]
    assert before <= time.mktime(time.strptime(words)) <= time.time()


@pytest.mark.needs("HDF5")
@pytest.mark.parametrize("maker", ["netCDF4", "h5netcdf"])
def test_the_same_time_gives_the_same_bytes(revseq, tmp_path, make, maker):
    make("old", maker)
    digests = []
    for options, env in (
        ((), NOON),
        ((), NOON),
        ((), {"SOURCE_DATE_EPOCH": "1"}),
        (("--no-history",), {}),
        (("--no-history",), {}),
    ):
        revseq(*RUN, "--overwrite", *options, env=env).ok()
        digests.append(hashlib.sha256((tmp_path / "y.nc").read_bytes()).hexdigest())
    assert digests[0] == digests[1] != digests[2]
    assert digests[3] == digests[4] != digests[0]


@pytest.mark.parametrize("epoch", ["noon", "1.5", "9" * 30])
def test_a_time_that_is_none(revseq, make, epoch):
    make()
    revseq(*RUN, env={"SOURCE_DATE_EPOCH": epoch}).refused(f"SOURCE_DATE_EPOCH is '{epoch}'", "seconds since 1970")
    revseq(*RUN, env={"SOURCE_DATE_EPOCH": ""}).ok()


@pytest.mark.parametrize("value", [1.5, ["a", "b"], np.zeros(3)])
@pytest.mark.parametrize("options", [(), ("--keep-others",)])
def test_a_history_that_is_no_text_stays(revseq, tmp_path, make, value, options):
    make()
    with h5py.File(tmp_path / "x.nc", "a") as f:
        f.attrs["history"] = value
    assert "Note: the attribute history is not a single text, so no line is added\n" in revseq(*RUN, *options).ok().err
    with h5py.File(tmp_path / "y.nc") as f:
        assert np.array_equal(f.attrs["history"], value)


def test_a_list_of_one_text_stays_one(revseq, tmp_path, make, history):
    make()
    with h5py.File(tmp_path / "x.nc", "a") as f:
        f.attrs["history"] = ["old"]
    revseq(*RUN, env=NOON).ok()
    with h5py.File(tmp_path / "y.nc") as f:
        assert f.attrs["history"].tolist() == [f"{LINE}\nold"]


def test_a_history_that_is_full_stays(revseq, tmp_path, make, history):
    make("x" * 59_999)
    assert re.search(
        r"Note: the attribute history would have 60,0\d\d bytes, so no line is added\n", revseq(*RUN, env=NOON).ok().err
    )
    assert history() == "x" * 59_999


def test_long_commands_and_odd_characters(revseq, tmp_path, make, history):
    make()
    lengths = json.dumps(np.full((2, 1, 4), 2).tolist(), indent=1) + " " * 2000
    revseq("run", "x.nc::v", lengths, "--axis", "y", "-o", "y.nc", env=NOON).ok()
    assert "\n" not in history("y.nc")
    assert r"[\n" in history("y.nc")
    assert history("y.nc").endswith("...")
    assert len(history("y.nc")) < 1100


def test_other_files_get_none(revseq, tmp_path):
    """Also a dataset of NetCDF in another dimension count or format, where its attributes are not copied."""
    by_netcdf4(tmp_path / "x.nc", None)
    np.save(tmp_path / "n.npy", np.full((2, 1, 4), 2, "u4"))
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["v"] = VALUES
    for source, out in (("x.h5", "a.h5"), ("x.h5", "b.nc")):
        revseq("run", source, "n.npy", "--axis", 1, "-o", out).ok()
    revseq("run", "x.nc::v", "n.npy", "--axis", "y", "--rank", 4, "-o", "c.nc").ok()
    for name in ("a.h5", "b.nc", "c.nc"):
        with h5py.File(tmp_path / name) as f:
            assert "history" not in f.attrs
    revseq("run", "x.nc::v", "n.npy", "--axis", "y", "-o", "d.npy").ok()
    assert "SOURCE_DATE_EPOCH" not in environment()
