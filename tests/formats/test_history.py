"""The line that a command leaves in the history of a NetCDF file."""

import json
import time

import h5py
import netCDF4
import numpy as np
import pytest
import xarray

from revseq_cli.core import platform

VALUES = np.arange(24, dtype="f4").reshape(2, 3, 4)
RUN = ("run", "x.nc::v", "n.npy", "--axis", "y", "-o", "y.nc")
NOON = {"SOURCE_DATE_EPOCH": "1795316400"}
LINE = "Sun Nov 22 03:00:00 2026: revseq run x.nc::v n.npy --axis y -o y.nc"


def by_netcdf4(path, history, model="NETCDF4"):
    with netCDF4.Dataset(path, "w", format=model) as f:
        f.title = "first"
        if history is not None:
            f.history = history
        for name, size in zip("xyz", VALUES.shape, strict=True):
            f.createDimension(name, size)
        f.createVariable("v", "f4", tuple("xyz"), zlib=True)[:] = VALUES
        f.createVariable("w", "f4", ("x",))[:] = 1


def by_h5netcdf(path, history):
    attributes = {"title": "first"} | ({} if history is None else {"history": history})
    xarray.Dataset({"v": (tuple("xyz"), VALUES)}, attrs=attributes).to_netcdf(path, engine="h5netcdf")


MAKERS = {
    "netCDF4": by_netcdf4, "h5netcdf": by_h5netcdf,
    "classic": lambda path, history: by_netcdf4(path, history, "NETCDF4_CLASSIC"),
    "NetCDF-3": lambda path, history: by_netcdf4(path, history, "NETCDF3_64BIT_OFFSET"),
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


@pytest.mark.parametrize(
    ("old", "maker", "options"),
    [(None, "netCDF4", ()), ("a", "netCDF4", ("--only",)), *(("two\nlines, größer", maker, ()) for maker in MAKERS)],
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
    first = f"Thu Jan  1 00:00:00 1970: revseq convert a.nc::v {platform.quoted('b b.nc')}"
    assert history("b b.nc") == f"{first}\nSun Nov 22 03:00:00 2026: revseq batch jobs.csv"


def test_the_time_is_that_of_the_clock_or_refused(revseq, make, history):
    make()
    before = time.time() - 1
    revseq(*RUN).ok()
    words, _, command = history().partition(": revseq ")
    assert command == LINE.partition(": revseq ")[2]
    assert before <= time.mktime(time.strptime(words)) <= time.time()
    for epoch in ("noon", "1.5", "9" * 30):
        done = revseq(*RUN, "--overwrite", env={"SOURCE_DATE_EPOCH": epoch})
        done.refused(f"SOURCE_DATE_EPOCH is '{epoch}'", "seconds since 1970")
    revseq(*RUN, "--overwrite", env={"SOURCE_DATE_EPOCH": ""}).ok()


def test_a_history_that_is_no_text_or_full_stays(revseq, tmp_path, make, history):
    make("x" * 59_999)
    assert "the attribute history would have 60,0" in revseq(*RUN, env=NOON).ok().err
    assert history() == "x" * 59_999
    for value in (1.5, ["a", "b"]):
        with h5py.File(tmp_path / "x.nc", "a") as f:
            f.attrs["history"] = value
        for options in ((), ("--only",)):
            done = revseq(*RUN, "--overwrite", *options).ok()
            assert "Note: the attribute history is not a single text, so no line is added\n" in done.err
            with h5py.File(tmp_path / "y.nc") as f:
                assert np.array_equal(np.ravel(f.attrs["history"]), np.ravel(value))


def test_long_commands_and_odd_characters(revseq, make, history):
    make()
    lengths = json.dumps(np.full((2, 1, 4), 2).tolist(), indent=1) + " " * 2000
    revseq("run", "x.nc::v", lengths, "--axis", "y", "-o", "y.nc", env=NOON).ok()
    assert "\n" not in history("y.nc")
    assert history("y.nc").endswith("...")
    assert len(history("y.nc")) < 1100


def test_files_that_are_no_netcdf_get_none(revseq, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["v"] = VALUES
    np.save(tmp_path / "n.npy", np.full((2, 1, 4), 2, "u4"))
    revseq("run", "x.h5", "n.npy", "--axis", 1, "-o", "y.h5").ok()
    revseq("run", "x.h5", "n.npy", "--axis", 1, "-o", "z.h5", "--only").ok()
    for name in ("y.h5", "z.h5"):
        with h5py.File(tmp_path / name) as f:
            assert "history" not in f.attrs
