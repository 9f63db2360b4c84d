"""NetCDF-3 files, as netCDF4 and xarray write them, are read by every command; damaged ones are refused."""

import json
import subprocess

import netCDF4
import numpy as np
import oracle
import pytest

FORMS = {"NETCDF3_CLASSIC": 1, "NETCDF3_64BIT_OFFSET": 2, "NETCDF3_64BIT_DATA": 5}
RNG = np.random.default_rng(3)


def make(path, form, types, *, records=True):
    """A variable of each type, of sizes {5,3,4}: those whose name begins with r grow with the records."""
    made = {}
    with netCDF4.Dataset(path, "w", format=form) as f:
        for name, size in {"time": None if records else 5, "fixed": 5, "lat": 3, "lon": 4}.items():
            f.createDimension(name, size)
        f.title = "a file"
        for i, data_type in enumerate(types):
            for name, first in ((f"r{i}", "time"), (f"x{i}", "fixed")):
                variable = f.createVariable(name, data_type, (first, "lat", "lon"))
                variable.set_auto_maskandscale(False)
                variable.units = "odd"
                made[name] = np.frombuffer(RNG.bytes(60 * np.dtype(data_type).itemsize), data_type).reshape(5, 3, 4)
                variable[:] = made[name]
    return made


TYPES = {1: ("i1", "i2", "i4", "f4", "f8"), 2: ("i2", "i1", "f8"), 5: ("u1", "i8", "u2", "u4", "u8", "f4")}


@pytest.mark.parametrize("form", FORMS)
def test_every_variable_is_read(tmp_path, revseq, form):
    made = make(tmp_path / "x.nc", form, TYPES[FORMS[form]])
    for name, values in made.items():
        revseq("convert", f"x.nc::{name}", "y.npy", "--overwrite").ok()
        found = np.load(tmp_path / "y.npy")
        assert oracle.same_bits(found.astype(values.dtype), values), name
    assert set(revseq("show", "x.nc", "--names").ok().out.split()) == {f"x.nc::{name}" for name in made}
    first = next(iter(made))
    revseq("diff", f"x.nc::{first}", f"x.nc::{first}").ok()


@pytest.mark.parametrize("data_type", ["i1", "i2", "f4"])
def test_one_record_variable_alone_has_no_padding(tmp_path, revseq, data_type):
    values = np.arange(15, dtype=data_type).reshape(5, 3)
    with netCDF4.Dataset(tmp_path / "x.nc", "w", format="NETCDF3_CLASSIC") as f:
        f.createDimension("time", None)
        f.createDimension("lat", 3)
        f.createVariable("v", data_type, ("time", "lat"))[:] = values
    lengths = np.array([[0], [3], [2], [9], [1]], "u4")
    np.save(tmp_path / "n.npy", lengths)
    revseq("check", "x.nc", "n.npy", "--axis", "lat", "--feature-level", "none").ok()
    revseq("run", "x.nc", "n.npy", "--axis", "lat", "-o", "y.nc", "--verify").ok()
    with netCDF4.Dataset(tmp_path / "y.nc") as f:
        assert oracle.same_bits(np.asarray(f["v"][:]).astype(data_type), oracle.expected(values, lengths, 1))
        assert f["v"].dimensions == ("time", "lat")


def test_lengths_are_aligned_and_missing_ones_refused(tmp_path, revseq):
    with netCDF4.Dataset(tmp_path / "x.nc", "w", format="NETCDF3_CLASSIC") as f:
        f.createDimension("lat", 2)
        f.createDimension("lon", 3)
        f.createVariable("v", "f4", ("lat", "lon"))[:] = np.arange(6).reshape(2, 3)
        f.createVariable("n", "i4", ("lat",))[:] = [2, 3]
        f.createVariable("bad", "i2", ("lat",))[:1] = [2]  # the other one has the library's fill value
    done = revseq("run", "x.nc::v", "x.nc::n", "--axis", "lon", "--lengths-dtype", "UINT32").ok()
    assert "[[1, 0, 2],\n [5, 4, 3]]" in done.out
    revseq("run", "x.nc::v", "x.nc::bad", "--axis", "lon", "--lengths-dtype", "UINT32").refused(
        "-32767 at [1] marks a missing length"
    )


def test_records_of_a_stream_are_counted(tmp_path, revseq):
    make(tmp_path / "x.nc", "NETCDF3_CLASSIC", ("i2",))
    data = bytearray((tmp_path / "x.nc").read_bytes())
    data[4:8] = b"\xff" * 4
    (tmp_path / "s.nc").write_bytes(data)
    revseq("diff", "s.nc::r0", "x.nc::r0").ok()


def test_text_is_listed_and_refused(tmp_path, revseq):
    with netCDF4.Dataset(tmp_path / "x.nc", "w", format="NETCDF3_CLASSIC") as f:
        f.createDimension("n", 4)
        f.createVariable("text", "S1", ("n",))[:] = "a"
        f.createVariable("v", "i4", ("n",))[:] = 1
    assert json.loads(revseq("show", "x.nc::v", "--json").ok().out)["tensors"][0]["dimensions"] == ["n"]
    revseq("show", "x.nc::text").refused("its data type is text")
    revseq("show", "x.nc::gone").refused("no such tensor")


@pytest.mark.parametrize("form", FORMS)
def test_damaged_files_are_refused(tmp_path, revseq, form):
    """Cut anywhere, and with any byte of the header changed: never a traceback, nor much memory."""
    make(tmp_path / "x.nc", form, ("i2", "f4"))
    data = (tmp_path / "x.nc").read_bytes()
    for length in (3, 5, 40, 100, len(data) // 2, len(data) - 5):
        (tmp_path / "cut.nc").write_bytes(data[:length])
        done = revseq("convert", "cut.nc::x1", "y.npy", "--overwrite")
        assert done.status in (0, 2)
        assert "internal" not in done.err, length
    for place in range(4, 200, 7):
        changed = bytearray(data)
        changed[place] ^= 0xA5
        (tmp_path / "cut.nc").write_bytes(changed)
        done = revseq("show", "cut.nc")
        assert done.status in (0, 2)
        assert "internal" not in done.err, place


@pytest.mark.needs("ncdump")
def test_nccopy_and_we_agree(tmp_path, revseq):
    made = make(tmp_path / "x.nc", "NETCDF3_CLASSIC", ("i2", "f8"))
    subprocess.run(["nccopy", "-k", "nc4", "x.nc", "z.nc"], cwd=tmp_path, check=True)
    for name in made:
        revseq("diff", f"x.nc::{name}", f"z.nc::{name}", "--equal-nan").ok()
