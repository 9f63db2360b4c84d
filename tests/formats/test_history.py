"""The line that a command leaves in the history of a NetCDF file."""

import json
import time

import h5py
import netCDF4
import numpy as np
import pytest
import xarray

from revseq_cli.core import platform

RUN = ("run", "x.nc::v", "n.npy", "--axis", "y", "-o", "y.nc")
NOON = {"SOURCE_DATE_EPOCH": "1795316400"}
LINE = "Sun Nov 22 03:00:00 2026: revseq run x.nc::v n.npy --axis y -o y.nc"


@pytest.fixture
def make(tmp_path):
    """Make x.nc with that history."""
    np.save(tmp_path / "n.npy", np.full((2, 1, 4), 2, "u4"))

    def of(history=None, model="NETCDF4"):
        with netCDF4.Dataset(tmp_path / "x.nc", "w", format=model) as f:
            f.title = "first"
            if history is not None:
                f.history = history
            for name, size in zip("xyz", (2, 3, 4), strict=True):
                f.createDimension(name, size)
            f.createVariable("v", "f4", tuple("xyz"))[:] = np.arange(24).reshape(2, 3, 4)

    return of


@pytest.fixture
def history(tmp_path):
    """The history of a file, as netCDF4 and xarray read it."""

    def read(name="y.nc"):
        with netCDF4.Dataset(tmp_path / name) as f:
            text = f.history
        with xarray.open_dataset(tmp_path / name, engine="h5netcdf") as f:
            assert f.attrs["history"] == text
        return text

    return read


def test_the_line_stands_before_the_others(revseq, tmp_path, make, history):
    for old, model in ((None, "NETCDF4"), ("two\nlines, größer", "NETCDF4_CLASSIC"), ("a", "NETCDF3_64BIT_OFFSET")):
        make(old, model)
        for options in ((), ("--only",)):
            revseq(*RUN, *options, "--overwrite", env=NOON).ok()
            lines = " ".join([LINE, *options, "--overwrite"]) + (f"\n{old}" if old else "")
            assert history() == lines
    make("a")
    with h5py.File(tmp_path / "x.nc", "a") as f:  # as before 2016, when NetCDF had no mark
        del f.attrs["_NCProperties"]
    revseq(*RUN, "--overwrite", env=NOON).ok()
    assert history() == f"{LINE} --overwrite\na"
    revseq("convert", "y.nc::v", "b b.nc", env={"SOURCE_DATE_EPOCH": "0"}).ok()
    first = f"Thu Jan  1 00:00:00 1970: revseq convert y.nc::v {platform.quoted('b b.nc')}"
    assert history("b b.nc") == f"{first}\n{LINE} --overwrite\na"


def test_the_time_is_that_of_the_clock_or_refused(revseq, make, history):
    make()
    before = time.time() - 1
    lengths = json.dumps(np.full((2, 1, 4), 2).tolist(), indent=1) + " " * 2000
    revseq(*RUN[:2], lengths, *RUN[3:]).ok()
    moment, _, command = history().partition(": revseq ")
    assert before <= time.mktime(time.strptime(moment)) <= time.time()
    assert "\n" not in command
    assert len(command) < 1100
    for epoch in ("noon", "9" * 30):
        done = revseq(*RUN, "--overwrite", env={"SOURCE_DATE_EPOCH": epoch})
        done.refused(f"SOURCE_DATE_EPOCH is '{epoch}'", "seconds since 1970")


def test_a_history_that_is_no_text_or_full_stays(revseq, tmp_path, make, history):
    make("x" * 59_999)
    assert "the attribute history is full" in revseq(*RUN, env=NOON).ok().err
    assert history() == "x" * 59_999
    with h5py.File(tmp_path / "x.nc", "a") as f:
        f.attrs["history"] = ["a", "b"]
    for options in ((), ("--only",)):
        done = revseq(*RUN, "--overwrite", *options).ok()
        assert "Note: the attribute history is full, or is not a single text, so no line is added\n" in done.err
        with h5py.File(tmp_path / "y.nc") as f:
            assert np.ravel(f.attrs["history"]).tolist() == ["a", "b"]
