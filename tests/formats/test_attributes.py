"""What files say of a tensor goes with it from format to format: xarray, h5py, netCDF4 and ncdump read the same."""

import json
import warnings
import zlib

import h5py
import netCDF4
import numpy as np
import pytest
import xarray
from processes import peak

PACKED = np.arange(24, dtype="i2").reshape(2, 3, 4)
ENCODING = {
    "air": {
        "dtype": "i2",
        "scale_factor": 0.01,
        "add_offset": 250.0,
        "_FillValue": np.int16(-32768),
    },
    "time": {"units": "hours since 2000-01-01", "dtype": "i8"},
    "height": {"_FillValue": -1.0},
}
FORMATS = {"nc": "x.nc", "nc3": "x3.nc", "h5": "x.h5", "zarr2": "x2.zarr", "zarr3": "x3.zarr"}
OTHERS = {"grid_mapping", "coordinates"}  # attributes that name variables which stay behind


def write(path, group=None, unlimited=()):
    """Packed values with missing ones, coordinates of numbers, times, text and two dimensions, bounds and a mapping."""
    values = PACKED.astype("f8") / 100 + 250
    values[1, 2, 3] = np.nan
    attributes = {
        "long_name": "Lufttemperatur in °C", "units": "K", "level": np.int32(2), "precision": 0.5,
        "flags": np.array([1, 2, 3], "i4"), "grid_mapping": "crs", "actual": np.array([185.5, 322.25]), "names": ["a", "bc"],
    }  # fmt: skip
    data = xarray.Dataset(
        {
            "air": (("time", "lat", "lon"), values, attributes),
            "crs": ((), np.int32(7), {"grid_mapping_name": "latitude_longitude"}),
            "other": (("lat",), np.arange(3.0)),
        },
        {
            "time": (
                "time",
                np.array(["2000-01-01", "2000-01-02"], "datetime64[ns]"),
                {"standard_name": "time"},
            ),
            "lat": ("lat", np.array([10, 20, 30], "f4"), {"units": "degrees_north"}),
            "station": ("lon", np.array(["a", "bö", "", "ddd"], object)),
            "height": (("lat", "lon"), np.arange(12.0).reshape(3, 4), {"units": "m"}),
        },
        {"title": "two days", "Conventions": "CF-1.11", "count": np.int64(3)},
    )
    name, encoding = path.name, ENCODING
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
    """The variables, read by each of xarray's engines that opens such a file."""
    engines = (
        ["zarr"]
        if path.name.endswith(".zarr")
        else ["netcdf4", "h5netcdf"][: 1 + (path.name != FORMATS["nc3"])]
    )
    found = []
    for engine in engines:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with xarray.open_dataset(path, engine=engine, group=group, decode_cf=decode) as data:
                found.append(data.load())
    return found


def notes(revseq, *command):
    return json.loads(revseq(*command, "--json").ok().out)["notes"]


def told(attributes):
    """Attributes of a variable or file to compare; JSON has one type of integers."""
    return {
        name: np.asarray(value).tolist()
        for name, value in attributes.items()
        if name not in {*OTHERS, "history"}
    }


# What is made, in which group, with which dimensions that can grow: neither Zarr nor NetCDF-3 has all of it.
MADE = [
    ("nc", None, ("time",)), ("nc", "model/run", ("time", "lat")), ("nc3", None, ("time",)), ("h5", None, ()),
    ("h5", "model/run", ("time", "lat")), ("zarr2", "model/run", ()), ("zarr3", None, ()),
]  # fmt: skip


@pytest.mark.parametrize("to", ["nc", "h5", "zarr"])
@pytest.mark.parametrize(("made", "group", "unlimited"), MADE)
def test_every_pair_of_formats_keeps_what_a_file_says(tmp_path, revseq, made, to, group, unlimited):
    source, result = tmp_path / FORMATS[made], tmp_path / f"y.{to}"
    write(source, group, unlimited)
    found = notes(
        revseq,
        "convert",
        f"{source.name}::{group}/air" if group else f"{source.name}::air",
        result.name,
    )
    lost = [f"the unlimited size of {name}" for name in unlimited] if to == "zarr" else []
    if not (made.startswith("zarr") and to == "zarr"):  # which keeps its own metadata
        [note] = found
        for words in (*lost, "coordinates, grid_mapping (", "other tensors (", "crs", "height"):
            assert words in note
        assert ", time" not in note
        assert ", lat" not in note
    wanted = opened(source, group)[0]
    for data in opened(result, group):
        assert data.encoding.get("unlimited_dims", set()) == (
            set() if to == "zarr" else {*unlimited}
        )
        assert told(data.attrs) == told(wanted.attrs)
        if not (made.startswith("zarr") and to == "zarr"):
            assert not OTHERS & {*data["air"].attrs, *data["air"].encoding}
        assert {*data["air"].coords} == {"time", "lat"}
        for name in ("air", "time", "lat"):
            assert data[name].dims == wanted[name].dims
            np.testing.assert_array_equal(data[name].values, wanted[name].values)
            assert told(data[name].attrs) == told(wanted[name].attrs)
    raw = opened(result, group, decode=False)[0]["air"]
    assert (raw.dtype, raw.attrs["_FillValue"]) == (np.int16, -32768)
    assert (raw.attrs["scale_factor"], raw.attrs["add_offset"]) == (0.01, 250.0)
    if to == "zarr":
        return
    with h5py.File(result) as f:
        limits = tuple(
            None if name in unlimited else size
            for name, size in (("time", 2), ("lat", 3), ("lon", 4))
        )
        assert f[group or "/"]["air"].maxshape == limits
    with netCDF4.Dataset(result, "a") as f:
        f = f[group] if group else f
        assert {name for name, each in f.dimensions.items() if each.isunlimited()} == {*unlimited}
        if unlimited:
            f["air"].set_auto_maskandscale(False)
            f["air"][2] = f["air"][0]
            assert f["air"][:, 0, 0].tolist() == [0, 12, 0]
            assert f["time"].shape == (3,)


@pytest.mark.parametrize(
    ("made", "to"),
    [
        ("nc", "npy"),
        ("nc3", "npz"),
        ("zarr3", "safetensors"),
        ("nc", "pb"),
        ("zarr2", "json"),
        ("h5", "bin"),
    ],
)
def test_a_note_names_what_a_format_has_no_place_for(tmp_path, revseq, made, to):
    write(tmp_path / FORMATS[made])
    with h5py.File(tmp_path / "plain.h5", "w") as f:
        f["x"], f["y"] = np.arange(3), np.arange(3)
        f["y"].attrs["units"] = "m"
    [note] = notes(revseq, "convert", f"{FORMATS[made]}::air", f"y.{to}")
    name = {"pb": "onnx", "bin": "raw"}.get(to, to)
    assert all(
        each in note
        for each in (f"not kept in .{name}: ", "scale_factor, ", "add_offset, ", "_FillValue, ")
    )
    assert "the names of dimensions, the coordinates time, lat, " in note
    assert "other tensors (" in note
    [note] = notes(revseq, "convert", "plain.h5::x", f"z.{to}")
    assert note.startswith(f"not kept in .{name}: 1 other tensor (/y)")
    [note] = notes(revseq, "convert", "plain.h5::y", f"u.{to}")
    assert note.startswith(f"not kept in .{name}: units, 1 other tensor (/x)")


def test_attributes_without_a_place_are_named(tmp_path, revseq):
    """A fill value that the type does not hold, and a compound."""
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["v"] = np.arange(3, dtype="u1")
        f["v"].attrs["_FillValue"] = -1.5
        f["v"].attrs["structure\x1b"] = np.zeros(2, [("a", "i4")])
    for output in ("z.zarr", "z.h5"):
        assert notes(revseq, "convert", "x.h5", output) == [r"not copied: structure\x1b"]
    assert notes(revseq, "convert", "x.h5", "y.npy")[0].startswith(
        r"not kept in .npy: _FillValue, structure\x1b"
    )
    assert json.loads((tmp_path / "z.zarr/v/zarr.json").read_text())["attributes"] == {}
    with h5py.File(tmp_path / "z.h5") as f:
        assert dict(f["v"].attrs) == {}


def test_labels_without_scales_and_names_that_netcdf_cannot_have(tmp_path, revseq):
    """The coordinate is the dataset of the dimension's name beside it, whose own dimension may have none."""
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["v"] = np.zeros((2, 3, 2))
        f["lat"], f["wide"] = np.array([10.0, 20.0]), np.zeros((2, 2))
        for dimension, label in zip(f["v"].dims, ("lat", "a/b", "wide"), strict=True):
            dimension.label = label
    for to in ("nc", "zarr"):
        assert notes(revseq, "convert", "x.h5::v", f"y.{to}") == ["not copied: the variable wide"]
        for found in opened(tmp_path / f"y.{to}"):
            assert found["v"].dims == ("lat", "dim_0" if to == "nc" else "a/b", "wide")
            assert found["lat"].values.tolist() == [10, 20]
        shown = json.loads(revseq("show", f"y.{to}::v", "--json").ok().out)["tensors"][0]
        assert shown["dimensions"] == ["lat", "a/b", "wide"]


@pytest.mark.needs("peak")
@pytest.mark.parametrize(
    ("kind", "output"), [("size", "y.npy"), ("chunk", "y.h5"), ("texts", "y.npy")]
)
def test_coordinates_that_take_much_memory_stay_behind(tmp_path, revseq, kind, output):
    """By their size, by one chunk, or since many texts are one and the same long one in the file."""
    size = {"size": 1 << 23, "chunk": 4, "texts": 400}[kind]
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("v", (size,), "u1", fillvalue=1)
        if kind == "texts":
            f["t"] = np.array(["x" * (1 << 20), *["y"] * (size - 1)], object)
            layout = f["t"].id.get_offset()
        elif kind == "size":
            f.create_dataset("t", (size,), "f8")
        else:
            f.create_dataset(
                "t", (size,), "f8", maxshape=(None,), chunks=(1 << 23,), compression="gzip"
            )
            f["t"].id.write_direct_chunk((0,), zlib.compress(bytes(1 << 26), 1))
        f["t"].make_scale("t")
        f["v"].dims[0].attach_scale(f["t"])
    if kind == "texts":
        data = bytearray((tmp_path / "x.h5").read_bytes())
        data[layout : layout + 16 * size] = data[layout : layout + 16] * size
        (tmp_path / "x.h5").write_bytes(data)
    _, memory, status = peak(tmp_path, "convert", "x.h5::v", output, "--engine", "serial")
    assert status == 0
    assert memory < 110 << 10, memory  # KiB
    assert notes(revseq, "convert", "x.h5::v", "z.h5") == ["not copied: the variable t"]


def test_show_prints_attributes_with_their_values(tmp_path, revseq):
    write(tmp_path / "x.nc")
    assert 'long_name = "Lufttemperatur in °C"' in " ".join(
        revseq("show", "x.nc::air").ok().out.split()
    )
    [found] = json.loads(revseq("show", "x.nc::air", "--json").ok().out)["tensors"]
    assert found["attribute_values"]["flags"] == [1, 2, 3]


def test_statistics_leave_out_missing_values_and_say_how_many(tmp_path, revseq):
    with h5py.File(tmp_path / "y.h5", "w") as f:
        f["x"] = np.array([1.5, 9.0, -99.0, np.nan, -99.0, -1.0])
        f["x"].attrs["missing_value"], f["x"].attrs["_FillValue"] = -99.0, -1.0
    [found] = json.loads(revseq("show", "y.h5", "--stats", "--json").ok().out)["tensors"]
    assert found["statistics"] == {
        "min": 1.5,
        "max": 9.0,
        "mean": 5.25,
        "nan": 1,
        "infinite": 0,
        "missing": 3,
    }
