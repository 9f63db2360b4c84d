"""What files say of a tensor goes with it from format to format: xarray, h5py, ncdump and h5dump read the same."""

import json
import shutil
import subprocess
import warnings

import h5py
import netCDF4
import numpy as np
import pytest
import xarray

LEVEL = ("--feature-level", "none")
PACKED = np.arange(24, dtype="i2").reshape(2, 3, 4)


def dataset():
    """Packed values with missing ones, coordinates of numbers, times, text and two dimensions, bounds and a mapping."""
    values = PACKED.astype("f8") / 100 + 250
    values[1, 2, 3] = np.nan
    return xarray.Dataset(
        {
            "air": (("time", "lat", "lon"), values, {
                "long_name": "Lufttemperatur in °C", "units": "K", "level": np.int32(2), "precision": 0.5,
                "flags": np.array([1, 2, 3], "i4"), "grid_mapping": "crs", "actual": np.array([185.5, 322.25]),
                "names": ["a", "bc"],
            }),
            "crs": ((), np.int32(7), {"grid_mapping_name": "latitude_longitude"}),
            "other": (("lat",), np.arange(3.0)),
        },
        {
            "time": ("time", np.array(["2000-01-01", "2000-01-02"], "datetime64[ns]"), {"standard_name": "time"}),
            "lat": ("lat", np.array([10, 20, 30], "f4"), {"units": "degrees_north"}),
            "station": ("lon", np.array(["a", "bö", "", "ddd"], object)),
            "height": (("lat", "lon"), np.arange(12.0).reshape(3, 4), {"units": "m"}),
        },
        {"title": "two days", "Conventions": "CF-1.11", "count": np.int64(3)},
    )  # fmt: skip


ENCODING = {
    "air": {"dtype": "i2", "scale_factor": 0.01, "add_offset": 250.0, "_FillValue": np.int16(-32768)},
    "time": {"units": "hours since 2000-01-01", "dtype": "i8"},
    "height": {"_FillValue": -1.0},
}


def plain(attributes):
    return {name: np.asarray(value).tolist() for name, value in attributes.items()}


FORMATS = {"nc": "x.nc", "nc3": "x3.nc", "h5": "x.h5", "zarr2": "x2.zarr", "zarr3": "x3.zarr"}


def write(path, group=None, unlimited=()):
    data, name, encoding = dataset(), path.name, ENCODING
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name.endswith(".zarr"):
            data.to_zarr(path, group=group, encoding=encoding, zarr_format=int(name[1]))
            return
        options = {"engine": "h5netcdf" if name.endswith(".h5") else "netcdf4"}
        if name == FORMATS["nc3"]:  # which has neither lists of texts nor integers of 64 bits
            del data["air"].attrs["names"], data.attrs["count"]
            encoding = encoding | {"time": encoding["time"] | {"dtype": "i4"}}
            options |= {"format": "NETCDF3_CLASSIC"}
        data.to_netcdf(path, group=group, encoding=encoding, unlimited_dims=unlimited, **options)


def opened(path, group=None, *, decode=True):
    """The variable and what goes with it, read by each of xarray's engines that opens such a file."""
    is_classic = path.name == FORMATS["nc3"]
    engines = ["zarr"] if path.name.endswith(".zarr") else ["netcdf4", "h5netcdf"][: 1 if is_classic else 2]
    found = []
    for engine in engines:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with xarray.open_dataset(path, engine=engine, group=group, decode_cf=decode) as data:
                found.append(data.load())
    return found


def same(found, wanted):
    """Whether a variable is as it was: values, dimensions, attributes, coordinates; JSON has one type of integers."""
    a, b = found["air"], wanted["air"]
    assert a.dims == b.dims
    np.testing.assert_array_equal(a.values, b.values)
    assert plain(a.attrs) == plain(b.attrs)
    assert set(a.coords) == set(b.coords)
    for name in b.coords:
        assert a[name].dims == b[name].dims, name
        assert a[name].values.tolist() == b[name].values.tolist(), name
        assert plain(a[name].attrs) == plain(b[name].attrs), name
    assert plain(found.attrs) == plain(wanted.attrs)


# What is made, in which group, with which dimensions that can grow: neither Zarr nor NetCDF-3 has all of it.
MADE = [
    (made, group, unlimited)
    for made in FORMATS
    for group in (None, "model/run")
    for unlimited in ((), ("time",), ("time", "lat"))
    if not (unlimited and made[0] == "z") and not (made == "nc3" and (group or len(unlimited) > 1))
]


@pytest.mark.parametrize("to", ["nc", "h5", "zarr"])
@pytest.mark.parametrize(("made", "group", "unlimited"), MADE)
def test_every_pair_of_formats_keeps_what_a_file_says(tmp_path, revseq, made, to, group, unlimited):
    source, result = tmp_path / FORMATS[made], tmp_path / f"y.{to}"
    write(source, group, unlimited)
    key = f"{group}/air" if group else "air"
    told = notes(revseq, "convert", f"{source.name}::{key}", result.name, "--verify")
    lost = [f"not copied: {', '.join(f'the unlimited size of {name}' for name in unlimited)}"] * bool(unlimited)
    assert [note for note in told if "unlimited" in note] == lost * (to == "zarr")
    wanted = opened(source, group)[0].drop_vars("other")
    for found in opened(result, group):
        assert found.encoding.get("unlimited_dims", set()) == (set() if to == "zarr" else {*unlimited})
        same(found, wanted)
        assert found["crs"].attrs == {"grid_mapping_name": "latitude_longitude"}
    raw = opened(result, group, decode=False)[0]["air"]
    assert raw.dtype == np.int16
    assert raw.attrs["_FillValue"] == -32768
    assert (raw.attrs["scale_factor"], raw.attrs["add_offset"]) == (0.01, 250.0)
    if to != "zarr":
        require_growth(result, group or "/", unlimited)


def require_growth(path, group, unlimited):
    """Whether h5py, ncdump and h5dump say that these dimensions and no others can grow, and NetCDF's library does it."""
    with h5py.File(path) as f:
        limits = tuple(None if name in unlimited else size for name, size in (("time", 2), ("lat", 3), ("lon", 4)))
        assert f[group]["air"].maxshape == limits
    for program, word in (("ncdump", "UNLIMITED ;"), ("h5dump", "H5S_UNLIMITED")):
        if shutil.which(program):
            command = [program, {"ncdump": "-h", "h5dump": "-H"}[program], path]
            dumped = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            assert (word in dumped) == bool(unlimited)
    with netCDF4.Dataset(path, "a") as f:
        group = f if group == "/" else f[group]
        assert {name for name, each in group.dimensions.items() if each.isunlimited()} == {*unlimited}
        if unlimited:
            group["air"].set_auto_maskandscale(False)
            group["air"][2] = group["air"][0]
            assert group["air"][:, 0, 0].tolist() == [0, 12, 0]
            assert group["time"].shape == (3,)


@pytest.mark.needs("ncdump")
def test_ncdump_and_h5dump_read_what_came_from_zarr(tmp_path, revseq):
    write(tmp_path / "x3.zarr")
    revseq("convert", "x3.zarr::air", "y.nc").ok()
    dumped = subprocess.run(["ncdump", "-h", tmp_path / "y.nc"], check=True, capture_output=True, text=True).stdout
    for line in (
        "short air(time, lat, lon) ;", "air:_FillValue = -32768s ;", "air:scale_factor = 0.01 ;", 'air:units = "K" ;',
        "int64 time(time) ;", "float lat(lat) ;", ':title = "two days" ;', "string station(lon) ;",
    ):  # fmt: skip
        assert line in dumped
    assert "float lon(lon)" not in dumped  # a dimension without a variable
    dumped = subprocess.run(["h5dump", "-A", tmp_path / "y.nc"], check=True, capture_output=True, text=True).stdout
    assert 'ATTRIBUTE "DIMENSION_LIST"' in dumped


def test_run_carries_it_and_reverses_stored_values(tmp_path, revseq):
    write(tmp_path / "x.nc")
    revseq("run", "x.nc::air", "[[[2], [2], [2]], [[2], [2], [2]]]", "--axis", "lon", "-o", "y.zarr", *LEVEL).ok()
    [found], [wanted, _] = opened(tmp_path / "y.zarr"), opened(tmp_path / "x.nc")
    assert found["air"].dims == ("time", "lat", "lon")
    np.testing.assert_array_equal(found["air"].values, wanted["air"].values[..., [1, 0, 2, 3]])
    assert plain(found["lat"].attrs) == plain(wanted["lat"].attrs)


def notes(revseq, *command):
    return json.loads(revseq(*command, "--json").ok().out)["notes"]


@pytest.mark.parametrize("to", ["npy", "npz", "safetensors", "pb", "json", "bin"])
def test_a_note_names_what_a_format_has_no_place_for(tmp_path, revseq, to):
    write(tmp_path / "x.nc")
    with h5py.File(tmp_path / "plain.h5", "w") as f:
        f["x"] = np.arange(3)
        f["y"] = np.arange(3)
        f["y"].attrs["units"] = "m"
    [note] = notes(revseq, "convert", "x.nc::air", f"y.{to}")
    assert note.startswith("scale_factor, add_offset, _FillValue, long_name, ")
    name = {"pb": "onnx", "bin": "raw"}.get(to, to)
    assert note.endswith(
        f"the names of dimensions and the variables time, lat, height, station, crs are not kept in .{name}; "
        "values are stored as they are: -32768 stands for missing"
    )
    assert notes(revseq, "convert", "plain.h5::x", f"z.{to}") == []
    assert notes(revseq, "convert", "plain.h5::y", f"u.{to}") == [f"units is not kept in .{name}"]


def test_attributes_of_the_old_storage_are_not_carried(tmp_path, revseq):
    """A fill value of another type, names of absent variables, and what a format alone has."""
    with netCDF4.Dataset(tmp_path / "x.nc", "w") as f:
        f.createDimension("t", None)
        f.createVariable("lat", "f4", ("t",))[:] = np.arange(3)
        f.createVariable("crs", "i4", ()).note = "of lat"
        v = f.createVariable("v", "i4", ("t",), chunksizes=(2,), zlib=True)
        v.setncatts({"coordinates": "lat gone", "bounds": "gone_too", "ancillary_variables": "lat", "units": "m"})
        v.grid_mapping = "crs: lat"
        v[:] = np.arange(3)
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["v"] = np.arange(3, dtype="u1")
        f["v"].attrs["_FillValue"] = -1.5
        f["v"].attrs["structure"] = np.zeros(2, [("a", "i4")])
    revseq("convert", "x.nc::v", "y.zarr").ok()
    found = json.loads((tmp_path / "y.zarr/v/zarr.json").read_text())
    kept = {"coordinates": "lat", "ancillary_variables": "lat", "units": "m", "grid_mapping": "crs: lat"}
    assert found["attributes"] == kept
    assert json.loads((tmp_path / "y.zarr/crs/zarr.json").read_text())["attributes"] == {"note": "of lat"}
    assert found["dimension_names"] == ["t"]
    assert "not copied: structure, _FillValue" in notes(revseq, "convert", "x.h5", "z.zarr")
    assert json.loads((tmp_path / "z.zarr/v/zarr.json").read_text())["attributes"] == {}


def test_a_note_says_that_an_unlimited_dimension_is_no_longer(tmp_path, revseq):
    """NetCDF-4 and NetCDF-3 files have them, and HDF5 keeps them."""
    write(tmp_path / "x.nc", unlimited=("time",))
    write(tmp_path / "limited.nc")
    with netCDF4.Dataset(tmp_path / "c.nc", "w", format="NETCDF3_CLASSIC") as f:
        f.createDimension("time", None)
        f.createVariable("air", "i2", ("time",))[:] = np.arange(3)
    lost = "not copied: the unlimited size of time"
    for source in ("x.nc", "c.nc"):
        assert lost in notes(revseq, "convert", f"{source}::air", f"{source[0]}.zarr")
        [note] = notes(revseq, "convert", f"{source}::air", f"{source[0]}.npy")
        assert "the unlimited size of time" in note
    assert lost not in notes(revseq, "convert", "limited.nc::air", "limited.zarr")
    assert notes(revseq, "convert", "c.nc::air", "y.h5") == []
    with netCDF4.Dataset(tmp_path / "y.h5") as f:  # the dimension has no variable
        assert f.dimensions["time"].isunlimited()


def test_a_zarr_array_that_is_the_store_has_no_place_for_coordinates(tmp_path, revseq):
    write(tmp_path / "x.nc")
    found = notes(revseq, "convert", "x.nc::air", "y.zarr::")
    assert "not copied, since they have no place beside the array: time, lat, height, station, crs" in found


def test_the_place_of_a_dimension_is_taken(tmp_path, revseq):
    write(tmp_path / "x3.zarr")
    revseq("convert", "x3.zarr::air", "y.nc::lat").refused("/lat is the place of the scale of that dimension")
    [note] = notes(revseq, "convert", "x3.zarr::air", "y.nc::crs")
    assert note == "not copied, since its name is taken: crs"
    with netCDF4.Dataset(tmp_path / "y.nc") as f:
        assert f["crs"].dimensions == ("time", "lat", "lon")


def test_a_coordinate_variable_of_two_dimensions_comes_from_zarr(tmp_path, revseq):
    """It is the scale of its first dimension, and names the second one by number only."""
    import zarr

    group = zarr.create_group(tmp_path / "x.zarr")
    group.create_array("time", data=np.arange(8).reshape(4, 2), dimension_names=("time", "width"))
    group.create_array("v", data=np.arange(4), dimension_names=("time",))
    for name in ("time", "v"):
        revseq("convert", f"x.zarr::{name}", f"{name}.nc").ok()
        with netCDF4.Dataset(tmp_path / f"{name}.nc") as f:
            assert f["time"].dimensions == ("time", "width")
            assert f["time"][:].tolist() == np.arange(8).reshape(4, 2).tolist()


SHOWN = """  attributes       _FillValue = -32768
                   long_name = "Lufttemperatur in °C"
                   units = "K"
                   level = 2
                   precision = 0.5
                   flags = 1, 2, 3
                   grid_mapping = "crs"
                   actual = 185.5, 322.25
                   names = "a", "bc"
                   coordinates = "height station"
                   add_offset = 250.0
                   scale_factor = 0.01
"""


def test_show_prints_attributes_with_their_values(tmp_path, revseq):
    write(tmp_path / "x.nc")
    assert SHOWN in revseq("show", "x.nc::air").ok().out
    [told] = json.loads(revseq("show", "x.nc::air", "--json").ok().out)["tensors"]
    assert told["attribute_values"]["flags"] == [1, 2, 3]
    assert told["attribute_values"]["_FillValue"] == -32768
    write(tmp_path / "x2.zarr")
    shown = revseq("show", "x2.zarr::air").ok().out
    assert all(line.removeprefix("  attributes").strip() in shown for line in SHOWN.split("\n"))
    with h5py.File(tmp_path / "long.h5", "w") as f:
        f["x"] = [1]
        f["x"].attrs["text\x1b"] = "\x1b" + "x" * 500
    [line] = [each for each in revseq("show", "long.h5").ok().out.split("\n") if "attributes" in each]
    assert "\x1b" not in line
    assert len(line) < 150
    assert line.endswith("...")


@pytest.mark.parametrize("made", FORMATS)
def test_statistics_leave_out_missing_values_and_say_how_many(tmp_path, revseq, made):
    write(tmp_path / FORMATS[made])
    [told] = json.loads(revseq("show", f"{FORMATS[made]}::air", "--stats", "--json").ok().out)["tensors"]
    assert told["statistics"] == {"min": 0, "max": 22, "mean": 11.0, "NaN": 0, "infinite": 0, "missing": 1}
    assert "missing          1, left out" in revseq("show", f"{FORMATS[made]}::air", "--stats").ok().out


def test_statistics_of_floats_and_of_valid_values(tmp_path, revseq):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["x"] = np.array([1.5, 9.0, -99.0, np.nan, 200.0])
        f["x"].attrs["missing_value"] = -99.0
        f["x"].attrs["valid_max"] = 100.0
    [told] = json.loads(revseq("show", "x.h5", "--stats", "--json").ok().out)["tensors"]
    assert told["statistics"] == {"min": 1.5, "max": 9.0, "mean": 5.25, "NaN": 1, "infinite": 0, "missing": 2}
