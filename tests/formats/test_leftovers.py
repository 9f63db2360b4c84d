"""The one note on what of INPUT's file does not get into an output, or is in it without being reversed."""

import json

import h5py
import netCDF4
import numpy as np
import pytest
import xarray
import zarr

JOB = ("[3, 1]", "--axis", 1, "--batch-axis", 0)


def notes(revseq, *command):
    return json.loads(revseq(*command, "--json").ok().out)["notes"]


def write_netcdf(path, **options):
    data = xarray.Dataset(
        {
            "air": (("day", "time"), np.ones((2, 4), "f4"), {"ancillary_variables": "flags"}),
            "flags": (("day", "time"), np.ones((2, 4), "i2")),
            "other": ("day", np.ones(2, "i4")),
            "time_bnds": (("time", "two"), np.zeros((4, 2), "f4")),
        },
        {
            "time": ("time", np.arange(4, dtype="f4"), {"bounds": "time_bnds"}),
            "day": ("day", np.arange(2, dtype="i4")),
            "seen": (("day", "time"), np.ones((2, 4), "f4")),
        },
    )
    data.to_netcdf(path, **options)


def test_one_note_names_what_stays_behind_and_what_to_type(revseq, tmp_path):
    write_netcdf(tmp_path / "x.nc")
    [note] = notes(revseq, "run", "x.nc::air", *JOB, "-o", "y.npy")
    assert note.startswith("not kept in .npy: ")
    assert "4 other tensors (/flags, /seen, /other, /time_bnds)" in note
    assert note.endswith("write a .nc file: -o new.nc")
    [note] = notes(revseq, "run", "x.nc::air", *JOB, "--only", "-o", "y.nc")
    assert "4 other tensors (" in note
    assert note.endswith("leave out --only")
    with netCDF4.Dataset(tmp_path / "y.nc") as file:
        assert {*file.variables} == {"air", "time", "day"}
        assert not {"ancillary_variables", "coordinates"} & {*file["air"].ncattrs()}
        assert "bounds" not in file["time"].ncattrs()
    for name in ("ancillary_variables", "coordinates", "time:bounds"):
        assert name in note


def test_a_copy_names_only_what_lies_along_the_axis(revseq, tmp_path):
    write_netcdf(tmp_path / "x.nc")
    [note] = notes(revseq, "run", "x.nc::air", *JOB, "-o", "y.nc")
    assert note.startswith("not reversed: /flags, /seen, ")
    assert "time_bnds" not in note
    assert "other" not in note
    with netCDF4.Dataset(tmp_path / "y.nc") as file:
        assert file["air"].ancillary_variables == "flags"


def test_from_netcdf_3_to_netcdf_4(revseq, tmp_path):
    write_netcdf(tmp_path / "x.nc", format="NETCDF3_CLASSIC")
    [note] = notes(revseq, "run", "x.nc::air", *JOB, "-o", "y.nc")
    assert "4 other tensors (flags, seen, other, time_bnds)" in note
    assert note.endswith("nccopy -k nc4 x.nc new.nc")


@pytest.mark.parametrize("name", ["x.h5", "x.npz", "x.zarr"])
def test_nothing_stays_behind_without_a_note(revseq, tmp_path, name):
    data = np.ones((2, 4), "f4")
    if name.endswith(".h5"):
        with h5py.File(tmp_path / name, "w") as file:
            file["x"] = data
    elif name.endswith(".npz"):
        np.savez(tmp_path / name, x=data)
    else:
        zarr.create_array(tmp_path / name, name="x", data=data)
    for output in ("y.npy", "y.safetensors", "z.h5"):
        assert notes(revseq, "run", name, *JOB, "-o", output) == []
    assert notes(revseq, "run", name, *JOB, "--only", "-o", f"z{name}") == []


def test_a_batch_says_it_once(revseq, tmp_path):
    for number in range(3):
        names = {"x": np.ones((2, 4)), f"label{number}": np.ones(2)}
        np.savez(tmp_path / f"x{number}.npz", **names)
    lines = [f"x{number}.npz::x,4,1,y{number}.npy" for number in range(3)]
    (tmp_path / "jobs.csv").write_text("\n".join(["input,lengths,axis,output", *lines]))
    done = revseq("batch", "jobs.csv").ok()
    assert done.err.count("other tensor") == 1
    assert "1 other tensor (label0)" in done.err
