"""NetCDF-3 files, as netCDF4 writes them, are read by every command; damaged ones are refused."""

import netCDF4
import numpy as np
import oracle
import pytest

RNG = np.random.default_rng(3)
FORMS = {
    "NETCDF3_CLASSIC": ("i1", "i2", "i4", "f4", "f8"), "NETCDF3_64BIT_OFFSET": ("i2", "i1", "f8"),
    "NETCDF3_64BIT_DATA": ("u1", "i8", "u2", "u4", "u8", "f4"),
}  # fmt: skip


def make(path, form, types):
    """A variable of each type, of sizes {5,3,5}: those whose name begins with r grow with the records."""
    made = {}
    with netCDF4.Dataset(path, "w", format=form) as f:
        for name, size in {"time": None, "fixed": 5, "lat": 3, "lon": 5}.items():
            f.createDimension(name, size)
        f.title = "a file"
        for i, data_type in enumerate(types):
            for name, first in ((f"r{i}", "time"), (f"x{i}", "fixed")):
                variable = f.createVariable(name, data_type, (first, "lat", "lon"))
                variable.set_auto_maskandscale(False)
                variable.units = "odd"
                made[name] = np.frombuffer(
                    RNG.bytes(75 * np.dtype(data_type).itemsize), data_type
                ).reshape(5, 3, 5)
                variable[:] = made[name]
    return made


@pytest.mark.parametrize(
    ("form", "types"),
    [*FORMS.items(), *(("NETCDF3_CLASSIC", (only,)) for only in ("i1", "i2", "f4"))],
)
def test_every_variable_is_read(tmp_path, revseq, form, types):
    """A record variable that is the only one has no padding."""
    made = make(tmp_path / "x.nc", form, types)
    for name, values in made.items():
        revseq("convert", f"x.nc::{name}", "y.npy", "--overwrite").ok()
        assert oracle.same_bits(np.load(tmp_path / "y.npy").astype(values.dtype), values), name
    assert set(revseq("show", "x.nc", "--names").ok().out.split()) == {
        f"x.nc::{name}" for name in made
    }


def test_lengths_are_aligned_missing_ones_and_text_refused(tmp_path, revseq):
    with netCDF4.Dataset(tmp_path / "x.nc", "w", format="NETCDF3_CLASSIC") as f:
        f.createDimension("lat", 2)
        f.createDimension("lon", 3)
        f.createVariable("v", "f4", ("lat", "lon"))[:] = np.arange(6).reshape(2, 3)
        f.createVariable("n", "i4", ("lat",))[:] = [2, 3]
        f.createVariable("bad", "i2", ("lat",))[:1] = [
            2
        ]  # the other one has the library's fill value
        f.createVariable("text", "S1", ("lat",))[:] = "a"
    assert (
        "[[1, 0, 2],\n [5, 4, 3]]" in revseq("run", "x.nc::v", "x.nc::n", "--axis", "lon").ok().out
    )
    revseq("run", "x.nc::v", "x.nc::bad", "--axis", "lon").refused(
        "-32767 at [1] is a missing length"
    )
    revseq("show", "x.nc::text").refused("its data type is text")
    revseq("show", "x.nc::gone").refused("no such tensor")


@pytest.mark.parametrize("form", FORMS)
def test_damaged_files_are_refused(tmp_path, revseq, form):
    """Cut anywhere, and with any byte of the header changed: never a traceback, nor much memory."""
    make(tmp_path / "x.nc", form, ("i2", "f4"))
    data = (tmp_path / "x.nc").read_bytes()
    damaged = [data[:length] for length in (3, 5, 40, 100, len(data) // 2, len(data) - 5)]
    damaged += [
        data[:place] + bytes([data[place] ^ 0xA5]) + data[place + 1 :] for place in range(4, 200, 7)
    ]
    for i, content in enumerate(damaged):
        (tmp_path / "cut.nc").write_bytes(content)
        done = (
            revseq("convert", "cut.nc::x1", "y.npy", "--overwrite")
            if i < 9
            else revseq("show", "cut.nc")
        )
        assert done.status in (0, 2)
        assert "internal" not in done.err, i
