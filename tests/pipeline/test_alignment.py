"""Lengths go to the lines that the names of their dimensions say, as xarray aligns; packed, missing, and masked ones."""

import functools
import json
import re
import shlex

import h5py
import hints
import netCDF4
import numpy as np
import oracle
import pytest
import xarray
import zarr
from hypothesis import given
from hypothesis import strategies as st

from revseq_cli.core import system
from revseq_cli.core.errors import FormatError
from revseq_cli.formats.contract import Storage
from revseq_cli.formats.in_memory import MemorySource
from revseq_cli.pipeline.alignment import Shape, align
from revseq_cli.pipeline.views import AlignedSource, MaskSource

SIZES = {"time": 5, "lat": 4, "lon": 6}
VALUES = xarray.DataArray(np.arange(120, dtype="f4").reshape(5, 4, 6), dims=tuple(SIZES), name="v")
RANDOM = np.random.default_rng(8)


def lengths(*dims, dtype="u4", **ones):
    """Random lengths with these dimensions; those in `ones` have size 1."""
    sizes = [ones.get(name, SIZES.get(name)) for name in dims]
    return xarray.DataArray(RANDOM.integers(0, 7, sizes).astype(dtype), dims=dims, name="n")


def widened(given, values, axis):
    """Lengths that xarray has brought to the values' dimensions by their names."""
    narrow = given.squeeze([d for d in given.dims if given.sizes[d] == 1], drop=True)
    wide = narrow.broadcast_like(values.isel({axis: 0}, drop=True)).expand_dims(axis)
    return wide.transpose(*values.dims).to_numpy()


def right(given, axis="time", values=VALUES):
    return oracle.expected(values.to_numpy(), widened(given, values, axis), values.dims.index(axis))


def by_netcdf4(folder, name, array):
    with netCDF4.Dataset(folder / f"{name}.nc", "w") as f:
        for dim, size in array.sizes.items():
            f.createDimension(dim, size)
        f.createVariable(name, array.dtype, array.dims)[...] = array.to_numpy()
    return f"{name}.nc::{name}"


def by_xarray(folder, name, array):
    array.rename(name).to_netcdf(folder / f"{name}.nc", engine="h5netcdf")
    return f"{name}.nc::{name}"


def by_labels(folder, name, array):
    with h5py.File(folder / f"{name}.h5", "w") as f:
        made = f.create_dataset(name, data=array.to_numpy())
        for d, dim in enumerate(array.dims):
            made.dims[d].label = dim
    return f"{name}.h5"


def by_scales(folder, name, array):
    with h5py.File(folder / f"{name}.h5", "w") as f:
        made = f.create_dataset(name, data=array.to_numpy())
        for d, dim in enumerate(array.dims):
            scale = f.create_dataset(f"scales/{dim}", data=np.arange(array.shape[d]))
            scale.make_scale("a title")
            made.dims[d].attach_scale(scale)
    return f"{name}.h5::{name}"


def by_zarr(folder, name, array, version=3):
    named = {"dimension_names": array.dims} if version == 3 else {"attributes": {"_ARRAY_DIMENSIONS": array.dims}}
    options = named | {"zarr_format": version, "chunks": (2,) * array.ndim}
    made = zarr.create_array(folder / f"{name}.zarr", shape=array.shape, dtype=array.dtype, **options)
    made[...] = array.to_numpy()
    return f"{name}.zarr"


def by_xarrays_zarr(folder, name, array):
    array.to_dataset(name=name).to_zarr(folder / f"{name}.zarr", zarr_format=3, consolidated=False)
    return f"{name}.zarr::{name}"


MAKERS = {
    "netCDF4": by_netcdf4, "xarray": by_xarray, "labels": by_labels, "scales": by_scales, "zarr": by_zarr,
    "zarr 2": functools.partial(by_zarr, version=2), "xarray's zarr": by_xarrays_zarr,
}  # fmt: skip


def save(folder, **arrays):
    """Each in a .npy file of its name."""
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values)


@pytest.fixture
def make(tmp_path):
    """Writes an array with named dimensions; returns what to type."""
    return functools.partial(by_netcdf4, tmp_path)


GIVEN = {
    "along lon": lengths("lon"),
    "turned, with time": lengths("time", "lon", "lat", time=1),
    "four dimensions": lengths("run", "lon", "time", "lat", run=1, time=1),
}


@pytest.mark.parametrize(
    ("maker", "case"),
    [*(("netCDF4", case) for case in GIVEN), *((maker, "turned, with time") for maker in MAKERS if maker != "netCDF4")],
)
def test_names_say_where_lengths_go(revseq, tmp_path, maker, case):
    array, make = GIVEN[case], functools.partial(MAKERS[maker], tmp_path)
    job = (make("v", VALUES), make("n", array), "--axis", "time")
    done = revseq("run", *job, "-o", "y.npy").ok()
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), right(array))
    assert f"Note: {job[1]}".split("::")[0] in done.err, done.err
    assert "\n  dimensions       time, lat, lon\n" in revseq("show", job[0]).ok().out
    assert f"the dimensions ({', '.join(array.dims)}) are aligned by name with (time, lat, lon)" in done.err
    left = [name for name in ("lat", "lon") if name not in array.dims]
    assert (f"repeated along {left[0]}" in done.err) if left else ("repeated" not in done.err)


def test_every_command_aligns(revseq, tmp_path, make):
    array = lengths("lon", "lat")
    job = (make("v", VALUES), make("n", array), "--axis", "time")
    told = json.loads(revseq("check", *job, "--json").ok().out)
    assert "aligned by name" in json.dumps(told)
    revseq("export", *job, "-o", "m.json").ok()
    revseq("run", *job, "-o", "y.npy").ok()
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), right(array))
    revseq("diff", "y.npy", "--job", *job).ok()
    (tmp_path / "jobs.csv").write_text(f"input,lengths,axis,output\n{job[0]},{job[1]},time,z.npy\n")
    revseq("batch", "jobs.csv").ok()
    assert oracle.same_bits(np.load(tmp_path / "z.npy"), right(array))
    revseq("run", *job, "--rank", 4, "-o", "r.npy").ok()
    assert oracle.same_bits(np.load(tmp_path / "r.npy"), right(array)[None])


def test_what_is_already_as_the_values_gets_no_note(revseq, make):
    job = (make("v", VALUES), make("n", lengths("time", "lat", "lon", time=1)), "--axis", "time")
    assert "aligned by name" not in revseq("run", *job).ok().err
    job = (job[0], make("n2", lengths("lon")), "--axis", "time", "--batch-axis", "lon")
    assert "aligned by name" not in revseq("run", *job).ok().err


@pytest.mark.parametrize(
    ("array", "options", "words"),
    [
        (lengths("lon"), ("--batch-axis", "lat"), ("its dimension lon is axis 2", "the batch axis is 1 (lat)")),
        (lengths("lon"), ("--batch-axis", "1"), ("its dimension lon is axis 2", "the batch axis is 1 (lat)")),
        (lengths("lat", "lon"), ("--batch-axis", "lat"), ("its dimension lon is axis 2", "the batch axis is 1 (lat)")),
        (lengths("lon").astype("i8"), ("--like", "onnx"), ("its dimension lon is axis 2", "the batch axis is 1 (lat)")),
        (lengths("station", station=6), (), ("its dimension station, of size 6, is not a dimension of v", "wanted: dimensions among lat, lon")),
        (lengths("lat", "x", x=6), (), ("its dimension x, of size 6, is not a dimension of v",)),
        (lengths("lon", lon=4), (), ("its dimension lon has size 4, and lon of v", "has 6\n  wanted: size 6\n")),
        (lengths("lat", "lon", lat=1), (), ("its dimension lat has size 1, and lat of v", "has 4")),
        (lengths("time", "lat", "lon"), (), ("its dimension time has size 5", "which is reversed", "add --mask")),
        (lengths("time"), (), ("its dimension time has size 5", "which is reversed")),
    ],
)  # fmt: skip
def test_what_contradicts_names_is_refused(revseq, tmp_path, array, options, words):
    v, n = by_xarray(tmp_path, "v", VALUES), by_xarray(tmp_path, "n", array)
    done = revseq("run", v, n, "--axis", "time", *options, "-o", "y.npy").refused("n.nc::/n", *words)
    assert not (tmp_path / "y.npy").exists()
    for command in re.findall(r"^Hint: (?:if the first is meant: )?revseq (.*)$", done.err, re.MULTILINE):
        revseq(*shlex.split(command)).ok()
        along = {"station": "lon"} if "station" in array.dims else {}
        expected = right(array.rename(along), "lat" if array.sizes.get("lat") == 1 else "time")
        assert oracle.same_bits(np.load(tmp_path / "y.npy"), expected)


def test_only_what_has_the_size_of_the_axis_may_be_a_mask(revseq, make):
    done = revseq("run", make("v", VALUES), make("n", lengths("time", time=3)), "--axis", "time")
    assert "Hint" not in done.refused("its dimension time has size 3", "which is reversed").err


def test_a_batch_axis_says_where_an_unknown_name_goes(revseq, tmp_path):
    array = lengths("station", station=6)
    v, n = by_xarray(tmp_path, "v", VALUES), by_xarray(tmp_path, "n", array)
    revseq("run", v, n, "--axis", "time", "--batch-axis", "lon", "-o", "y.npy").ok()
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), right(array.rename(station="lon")))
    revseq("run", v, n, "--axis", "time", "--batch-axis", "lat").refused("station has size 6, and lat of v", "has 4")


def test_names_that_libraries_make_up_say_nothing(revseq, tmp_path):
    values = xarray.DataArray(VALUES.to_numpy())  # dim_0, dim_1, dim_2
    array = xarray.DataArray(GIVEN["along lon"].to_numpy())  # dim_0
    v, n = by_xarray(tmp_path, "v", values), by_xarray(tmp_path, "n", array)
    revseq("run", v, n, "--axis", 0, "--batch-axis", 2, "-o", "y.npy").ok()
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), right(GIVEN["along lon"]))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_without_names_sizes_say_it(revseq, tmp_path, axis):
    name = VALUES.dims[axis]
    array = lengths(*(d for d in VALUES.dims if d != name))
    save(tmp_path, x=VALUES.to_numpy(), n=array.to_numpy())
    done = revseq("run", "x.npy", "n.npy", "--axis", axis, "-o", "y.npy").ok()
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), right(array, name))
    full = ",".join(str(1 if d == axis else size) for d, size in enumerate(VALUES.shape))
    assert f"Note: n.npy: its sizes are those of x.npy without axis {axis}: they are taken for {{{full}}}\n" in done.err
    np.save(tmp_path / "n.npy", array.to_numpy().T)
    revseq("run", "x.npy", "n.npy", "--axis", axis, "-o", "z.npy").refused()


DIMS = ("a", "b", "c", "d")


@given(st.data())
def test_alignment_is_xarrays(data):
    draw = data.draw
    dims = tuple(draw(st.permutations(DIMS)))[: draw(st.integers(1, 4))]
    sizes = {d: draw(st.integers(2, 4)) for d in dims}
    axis = draw(st.sampled_from(dims))
    values = xarray.DataArray(np.zeros(tuple(sizes.values()), "f4"), dims=dims)
    own = tuple(draw(st.permutations((*DIMS, "z"))))[: draw(st.integers(1, 4))]
    own_sizes = [
        1 if d == axis and draw(st.booleans()) else draw(st.sampled_from((sizes.get(d, 1), 1, 3))) for d in own
    ]
    array = xarray.DataArray(RANDOM.integers(0, 9, own_sizes).astype("u4"), dims=own)
    shapes = (Shape("v", values.shape, dims), Shape("n", array.shape, own))
    try:
        found = align(*shapes, dims.index(axis), None)
    except FormatError:
        found = None
        fits = False
    else:
        fits = any(d in dims for d in own) or any(size > 1 for size in array.shape)
    long = {d: size for d, size in array.sizes.items() if size > 1}
    wrong = [d for d, size in long.items() if d == axis or sizes.get(d) != size]
    short = [d for d in own if array.sizes[d] == 1 and d in dims and d != axis]
    if not fits:
        assert wrong or short or not any(d in dims for d in own)
        return
    assert not wrong
    assert not short
    expected = widened(array, values, axis)
    if found is None:
        assert oracle.same_bits(array.to_numpy(), expected)
        return
    source = MemorySource("n", array.to_numpy(), Storage("memory", {}))
    aligned = AlignedSource(source, values.shape, dims.index(axis), found.places)
    assert oracle.same_bits(np.ascontiguousarray(aligned.read()), np.ascontiguousarray(expected))


PACKED = [
    ({"scale_factor": 2.0}, "i2", [1, 0, 2, 1], [2, 0, 4, 2]),
    ({"scale_factor": np.float32(0.1), "add_offset": 1}, "i2", [10, 0, 20, 30], [2, 1, 3, 4]),
    ({"scale_factor": 0.25, "add_offset": 0.5}, "i4", [2, 6, 10, 14], [1, 2, 3, 4]),
    ({"add_offset": 3}, "u1", [0, 1, 2, 0], [3, 4, 5, 3]),
    ({"scale_factor": -1, "add_offset": 5}, "i8", [1, 2, 3, 4], [4, 3, 2, 1]),
    ({"_Unsigned": "true"}, "i1", [-2, 3, 4, 1], [254, 3, 4, 1]),
    ({"_Unsigned": "false"}, "u1", [2, 3, 4, 1], [2, 3, 4, 1]),
    ({"_Unsigned": "true", "scale_factor": 0.5}, "i2", [-2, 6, 4, 2], [32767, 3, 2, 1]),
    ({"scale_factor": 2.0}, "f8", [1, 0, 2, 1], [2, 0, 4, 2]),
    ({"_Unsigned": "false", "scale_factor": -1.0}, "u1", [130, 255, 254, 0], [126, 1, 2, 0]),
]


def netcdf_lengths(folder, values, dtype, attributes, fill=None):
    with netCDF4.Dataset(folder / "n.nc", "w") as f:
        f.createDimension("lat", len(values))
        n = f.createVariable("n", dtype, ("lat",), fill_value=fill)
        n.set_auto_maskandscale(None in values)
        n.setncatts(attributes)
        held = [0 if each is None else each for each in values]
        n[:] = np.ma.masked_array(np.array(held, dtype), [each is None for each in values]) if None in values else held
    return "n.nc"


def zarr_lengths(folder, values, dtype, attributes, version):
    attributes = {name: value if isinstance(value, str) else float(value) for name, value in attributes.items()}
    names = {"dimension_names": ["lat"]} if version == 3 else {}
    more = {} if version == 3 else {"_ARRAY_DIMENSIONS": ["lat"]}
    made = zarr.create_array(
        folder / "n.zarr", shape=len(values), dtype=dtype, attributes=attributes | more, zarr_format=version, **names
    )
    made[:] = np.array(values, dtype)
    return "n.zarr"


@pytest.mark.parametrize(
    ("kind", "attributes", "dtype", "packed", "meant"),
    [*(("netCDF4", *each) for each in PACKED), *((version, *each) for version in (2, 3) for each in PACKED[1::4])],
)
def test_packed_lengths_are_unpacked(revseq, tmp_path, kind, attributes, dtype, packed, meant):
    write = (netcdf_lengths, ()) if kind == "netCDF4" else (zarr_lengths, (kind,))
    n = write[0](tmp_path, packed, dtype, attributes, *write[1])
    np.save(tmp_path / "x.npy", VALUES.to_numpy())
    revseq("run", "x.npy", n, "--axis", 2, "--batch-axis", 1, "-o", "y.npy").ok()
    wide = np.broadcast_to(np.array(meant, "u4").reshape(1, 4, 1), (5, 4, 1))
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), oracle.expected(VALUES.to_numpy(), wide, 2))


@pytest.mark.parametrize(
    ("attributes", "dtype", "packed", "words"),
    [
        ({"scale_factor": 0.5}, "i2", [2, 3, 4, 4], ("3 at [1] is unpacked to 1.5", "an integer after scale_factor 0.5")),
        ({"add_offset": -3}, "i2", [2, 3, 4, 4], ("-1 at [0] does not fit UINT32",)),
        ({"scale_factor": np.nan}, "i2", [2, 3, 4, 4], ("its scale_factor is", "one number")),
        ({"scale_factor": "two"}, "i2", [2, 3, 4, 4], ("its scale_factor is", "one number")),
        ({"scale_factor": 1e300}, "i2", [2, 3, 4, 4], ("is too large to unpack",)),
        ({"scale_factor": [1.0, 2.0]}, "i2", [2, 3, 4, 4], ("its scale_factor is 1.0, 2.0\n", "one number")),
        ({"valid_range": 3}, "i2", [2, 3, 4, 4], ("its valid_range is 3\n", "wanted: 2 numbers")),
        ({"valid_max": "4, as it were"}, "i2", [2, 3, 4, 4], ("its valid_max is 4, as it were\n", "one number")),
        ({"scale_factor": 1 / 65535}, "i4", [65535, 0, 0, 0], ("65535 at [0] is unpacked to nearly 1.0",)),
        ({"_Unsigned": "true"}, "i8", [1, 2, 3, -1], ("18446744073709551615 at [3] is too large to unpack",)),
        ({"scale_factor": 1e20}, "i4", [0, 0, 0, 0], ()),
        ({"_Unsigned": "true", "missing_value": np.nan}, "i2", [1, 2, 3, 4], ()),
        ({"_Unsigned": "true", "missing_value": np.inf}, "i2", [1, 2, 3, 4], ()),
    ],
)  # fmt: skip
def test_what_cannot_be_unpacked_is_refused(revseq, tmp_path, attributes, dtype, packed, words):
    np.save(tmp_path / "x.npy", VALUES.to_numpy())
    n = netcdf_lengths(tmp_path, packed, dtype, attributes)
    done = revseq("run", "x.npy", n, "--axis", 2, "--batch-axis", 1, "-o", "y.npy")
    done.refused("n.nc", *words) if words else done.ok()
    assert (tmp_path / "y.npy").exists() == (words == ())


@pytest.mark.parametrize(
    ("attributes", "dtype", "fill", "given", "words"),
    [
        ({}, "u4", 9999, [1, 9999, 2, 9999], "2 of 4 lengths are missing: 9999 at [1] is its _FillValue"),
        ({"missing_value": np.uint32(7)}, "u4", None, [1, 2, 3, 7], "1 of 4 lengths is missing: 7 at [3] is its"),
        ({"missing_value": np.array([7, 8], "u4")}, "u4", None, [8, 2, 3, 7], "2 of 4 lengths are missing: 8 at [0]"),
        ({}, "f8", np.nan, [1, 2, np.nan, 3], "1 of 4 lengths is missing: nan at [2] is its _FillValue"),
        ({}, "u4", None, [1, None, None, 3], "2 of 4 lengths are missing: 4294967295 at [1] is NetCDF's default fill"),
        ({"missing_value": np.uint32(7)}, "u4", 9, [1, 9, 2, 7], "2 of 4 lengths are missing: 9 at [1] is its _FillValue\n"),
        ({"missing_value": np.uint32(9)}, "u4", 9, [1, 9, 2, 7], "9 at [1] is its _FillValue and its missing_value\n"),
        ({"valid_max": np.uint32(4)}, "u4", None, [1, 5, 2, 4], "1 of 4 lengths is missing: 5 at [1] is above its valid_max, 4"),
        ({"valid_min": np.int16(1)}, "i2", None, [1, 0, 2, 4], "1 of 4 lengths is missing: 0 at [1] is below its valid_min, 1"),
        ({"valid_range": np.array([1, 4], "u4")}, "u4", None, [1, 0, 5, 4], "0 at [1] is below its valid_range, 1 to 4"),
        ({"valid_range": np.array([1.0, 4.0])}, "f8", None, [1, 4, 5, 4], "5.0 at [2] is above its valid_range, 1.0 to 4.0"),
        ({"scale_factor": 2.0, "valid_max": np.int16(3)}, "i2", None, [1, 2, 3, 4], "4 at [3] is above its valid_max"),
        ({"_Unsigned": "true", "valid_range": np.array([0, -56], "i1")}, "i1", None, [1, -57, 2, -1], "1 of 4 lengths is missing: -1 at [3]"),
        ({"_Unsigned": "true", "valid_max": np.int16(200)}, "i1", None, [1, -56, 2, -55], "1 of 4 lengths is missing: -55 at [3]"),
        ({}, "i2", -1, [1, None, 2, 3], "1 of 4 lengths is missing: -1 at [1] is its _FillValue"),
        ({"_Unsigned": "true"}, "i1", -1, [1, 2, 3, -1], "1 of 4 lengths is missing: -1 at [3]"),
        ({"scale_factor": 2.0}, "i2", -1, [1, 2, -1, 3], "1 of 4 lengths is missing: -1 at [2]"),
    ],
)  # fmt: skip
def test_missing_lengths_are_refused(revseq, tmp_path, attributes, dtype, fill, given, words):
    np.save(tmp_path / "x.npy", VALUES.to_numpy())
    n = netcdf_lengths(tmp_path, given, dtype, attributes, fill)
    job = ("x.npy", n, "--axis", 2, "--batch-axis", 1, "--lengths-dtype", "UINT32", "-o", "y.npy")
    revseq("run", *job).refused("n.nc", words, "a length for each line")
    assert {each.name for each in tmp_path.iterdir()} == {"x.npy", "n.nc"}


@pytest.mark.parametrize("version", [2, 3])
def test_missing_lengths_of_xarrays_zarr(revseq, tmp_path, version):
    np.save(tmp_path / "x.npy", VALUES.to_numpy())
    for dtype, fill, value in (("u4", 9999, 9999), ("f8", np.nan, np.nan), ("i4", -1, -1)):
        array = xarray.DataArray(np.array([1, 2, value, 3], dtype), dims=["lat"], name="n")
        array.encoding = {"_FillValue": np.array(fill, dtype)[()]}
        array.to_dataset().to_zarr(tmp_path / "n.zarr", zarr_format=version, consolidated=False, mode="w")
        job = ("x.npy", "n.zarr::n", "--axis", 2, "--batch-axis", 1, "--lengths-dtype", "UINT32")
        revseq("run", *job).refused("n.zarr::n", "1 of 4 lengths is missing:", "at [2] is its _FillValue")
    array = xarray.DataArray(np.array([1, 2, 9, 3], "i4"), dims=["lat"], name="n", attrs={"valid_range": [0, 5]})
    array.to_dataset().to_zarr(tmp_path / "n.zarr", zarr_format=version, consolidated=False, mode="w")
    revseq("run", *job).refused("n.zarr::n", "1 of 4 lengths is missing: 9 at [2] is above its valid_range, 0 to 5")


def test_a_fill_value_of_zarr_itself_is_a_length(revseq, tmp_path):
    np.save(tmp_path / "x.npy", VALUES.to_numpy())
    for version in (2, 3):
        made = zarr.create_array(
            tmp_path / "n.zarr", shape=4, dtype="u4", fill_value=3, zarr_format=version, overwrite=True
        )
        made[:] = [1, 2, 3, 4]
        revseq("run", "x.npy", "n.zarr", "--axis", 2, "--batch-axis", 1).ok()


def with_lat(array, lat, units=None):
    array = array.assign_coords(lat=np.asarray(lat))
    if units:
        array.lat.attrs["units"] = units
    return array


@pytest.mark.parametrize("suffix", ["nc", "zarr"])
def test_coordinates_that_differ(revseq, tmp_path, suffix):
    def write(name, array):
        if suffix == "nc":
            array.to_netcdf(tmp_path / f"{name}.nc")
        else:
            array.to_dataset(name=name).to_zarr(tmp_path / f"{name}.zarr", mode="w", consolidated=False)
        return f"{name}.{suffix}::{name}"

    lat = [10.1, 20.2, 30.3, 40.4]
    v, array = write("v", with_lat(VALUES, lat)), lengths("lat", "lon").rename("n")
    job = (v, f"n.{suffix}::n", "--axis", "time", "-o", "y.npy")
    write("n", with_lat(array, lat[::-1]))
    done = revseq("run", *job).refused(f"n.{suffix}::", "its lat is not that of v.", "40.4 and 10.1 at [0]")
    assert "revseq convert" not in done.err  # an unnamed file would not go along lat and lon
    revseq("check", *job[:4]).refused("its lat is not that of v.")
    assert not (tmp_path / "y.npy").exists()
    for same in (with_lat(array, lat), with_lat(array, np.array(lat, "f4")), array):  # the last has none
        write("n", same)
        revseq("run", *job, "--overwrite").ok()
        assert oracle.same_bits(np.load(tmp_path / "y.npy"), right(array))
    write("n", with_lat(array, [*lat[:3], 41]))
    revseq("run", *job, "--overwrite").refused("its lat is not that of v.", "41.0 and 40.4 at [3]")
    v = write("v", with_lat(VALUES, lat, "degrees"))
    write("n", with_lat(array, lat[::-1], "m"))
    assert "Note: lat is in m in n." in revseq("run", *job, "--overwrite").ok().err


@pytest.mark.parametrize(
    ("given", "other", "words"),
    [
        (["Bergen", "Oslo", "Tromsø", "Bodø"], ["Bodø", "Tromsø", "Oslo", "Bergen"], "at [0]"),
        ([1, np.nan, 3, 4], [1, 2, 3, 4], "2 and nan at [1]"),
    ],
)
def test_coordinates_of_text_and_nan(revseq, tmp_path, given, other, words):
    by_xarray(tmp_path, "v", VALUES.assign_coords(lat=given))
    n = by_xarray(tmp_path, "n", lengths("lat").assign_coords(lat=other))
    revseq("run", "v.nc::v", n, "--axis", "time").refused("its lat is not that of v.nc", words)
    n = by_xarray(tmp_path, "n", lengths("lat").assign_coords(lat=given))
    revseq("run", "v.nc::v", n, "--axis", "time").ok()


def mask_of(counts, size, dtype):
    return (np.arange(size) < np.asarray(counts)[..., None]).astype(dtype)


def test_masks_of_batch_and_time(revseq, tmp_path):
    """As Hugging Face's attention_mask: ones where a token counts, and zeros for the padding."""
    x = np.arange(4 * 6 * 3, dtype="f4").reshape(4, 6, 3)
    counts = np.array([6, 0, 3, 1], "u4")
    save(tmp_path, x=x, m=mask_of(counts, 6, "i8"))
    wide = np.broadcast_to(counts.reshape(4, 1, 1), (4, 1, 3))
    expected = oracle.expected(x, wide, 1)
    for options in (
        (),
        ("--batch-axis", 0),
        ("--like", "tensorflow"),
        ("--like", "onnx"),
        ("--lengths-dtype", "UINT64"),
    ):
        done = revseq("run", "x.npy", "m.npy", "--axis", 1, "--mask", *options, "-o", "y.npy", "--overwrite").ok()
        assert oracle.same_bits(np.load(tmp_path / "y.npy"), expected)
        assert ("for each index of axis 0 of x.npy" in done.err) == (options[:1] in ((), ("--lengths-dtype",)))
    job = ("x.npy", "m.npy", "--axis", 1, "--mask")
    revseq("diff", "y.npy", "--job", *job).ok()
    assert json.loads(revseq("check", *job, "--json").ok().out)["BatchAxis"] == 0
    (tmp_path / "jobs.jsonl").write_text(
        '{"input": "x.npy", "lengths": "m.npy", "axis": 1, "mask": true, "output": "b.npy"}\n'
    )
    revseq("batch", "jobs.jsonl").ok()
    assert oracle.same_bits(np.load(tmp_path / "b.npy"), expected)


def test_a_mask_with_names(revseq, tmp_path, make):
    counts = lengths("lat")
    mask = xarray.DataArray(mask_of(counts.to_numpy().clip(max=5), 5, "i4").T, dims=("time", "lat"))
    job = (make("v", VALUES), make("m", mask), "--axis", "time", "--mask")
    done = revseq("run", *job, "-o", "y.npy").ok()
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), right(counts))
    assert "(time, lat) are aligned by name with (time, lat, lon)" in done.err
    revseq("run", job[0], make("o", mask.rename(time="step")), *job[2:]).refused(
        "its dimension step, of size 5, is not a dimension of"
    )
    revseq("run", job[0], make("p", mask.isel(time=0)), *job[2:]).refused("no dimension of it is time")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([[1, 1, 0], [1, 0, 1], [0, 1, 0]], ("the mask has 1 at [1, 2]", "wanted: in each line ones, followed by zeros")),
        ([[1, 1, 0], [1, 1, 1], [0, 0, 1]], ("the mask has 1 at [2, 2]", "Hint: if ones are padding, as in PyTorch's")),
        ([[1, 2, 0], [1, 1, 1], [0, 0, 0]], ("the mask has 2 at [0, 1]",)),
        ([[1, 1, 0], [1, 1, 1], [0, 0, 0.5]], ("the mask has 0.5 at [2, 2]",)),
        ([[1, 1, 0], [1, np.nan, 1], [0, 0, 0]], ("the mask has nan at [1, 1]",)),
    ],
)  # fmt: skip
def test_a_mask_that_is_none(revseq, tmp_path, rows, words):
    save(tmp_path, x=np.zeros((3, 3, 2), "f4"), m=np.array(rows), full=np.repeat(np.array(rows)[..., None], 2, -1))
    for name, batch in (("m.npy", ("--batch-axis", 0)), ("full.npy", ())):
        done = revseq(
            "run", "x.npy", name, "--axis", 1, *batch, "--mask", "-o", "y.npy", thresholds={"MASK_AT_ONCE": 2}
        )
        done.refused(name, *(word.replace("]", ", 0]") if name == "full.npy" else word for word in words))
    assert not (tmp_path / "y.npy").exists()


def test_masks_of_other_sizes(revseq, tmp_path):
    save(tmp_path, x=np.zeros((4, 6, 4), "f4"), m=np.ones((4, 6), "?"))
    job = ("x.npy", "m.npy", "--axis", 1, "--mask")
    done = revseq("run", *job).refused("Sizes of the mask is {4,6}, which fits in 2 ways")
    assert "with --batch-axis 0: a row for each index of axis 0; with --batch-axis 2" in done.err
    revseq("run", *job, "--batch-axis", 2).ok()
    np.save(tmp_path / "m.npy", np.ones((4, 5), "?"))
    revseq("run", *job).refused("{4,5}", "wanted: {4,6,4}, as x.npy has, or {4,6} or {4,6}: batch and time")
    revseq("run", *job[:2], "--axis", 5, "--mask").refused("Axis is 5")
    revseq("run", "x.npy", "m.npy", "--mask").refused("no axis is given")


@pytest.mark.parametrize("axis", [0, 1])
def test_a_square_mask_is_taken_in_no_order_that_was_not_typed(revseq, tmp_path, axis):
    x, counts = np.arange(48, dtype="f4").reshape(4, 4, 3), np.array([4, 4, 2, 1])
    rows = mask_of(counts, 4, "?")  # batch and time
    np.save(tmp_path / "x.npy", x)
    shape = (1, 4, 1) if axis == 0 else (4, 1, 1)
    wide = np.broadcast_to(counts.reshape(shape), (*x.shape[:axis], 1, *x.shape[axis + 1 :]))
    expected = oracle.expected(x, wide, axis)
    job = ("x.npy", "m.npy", "--axis", axis, "--mask")
    full = rows.T.reshape(4, 4, 1) if axis == 0 else rows.reshape(4, 4, 1)
    for mask in (rows, rows.T):
        np.save(tmp_path / "m.npy", mask)
        done = revseq("run", *job).refused("Sizes of the mask is {4,4}, which fits in 2 ways")
        assert "with numpy's mask.T.reshape(4, 4, 1): a row for each index of axis 1" in done.err
        first = "--batch-axis 0" if axis else "numpy's mask.reshape(4, 4, 1)"
        assert f"with {first}: a row for each index of axis 0" in done.err
        if axis == 0:
            told = "wanted: the one that is meant; batch axis 1 does not decide: it is behind axis 0\n"
            revseq("run", *job, "--batch-axis", 1).refused("which fits in 2 ways", told)
    if axis:
        np.save(tmp_path / "m.npy", rows)
        revseq("run", *job, "--batch-axis", 0, "-o", "b.npy").ok()
        assert oracle.same_bits(np.load(tmp_path / "b.npy"), expected)
    np.save(tmp_path / "m.npy", full)
    revseq("run", *job, "-o", "y.npy").ok()
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), expected)


@pytest.mark.parametrize("batch", [(), ("--batch-axis", 1)])
def test_a_mask_of_one_element_has_one_order(revseq, tmp_path, batch):
    np.save(tmp_path / "x.npy", np.arange(7, dtype="f4").reshape(1, 1, 7))
    revseq("run", "x.npy", "[[1]]", "--axis", 0, "--mask", *batch, "-o", "y.npy").ok()
    assert (tmp_path / "y.npy").read_bytes() == (tmp_path / "x.npy").read_bytes()


def test_a_square_mask_of_a_square_input(revseq, tmp_path):
    """It has INPUT's sizes, unless a batch axis behind the axis is typed: then it may be one of batch and time."""
    x, counts = np.arange(16, dtype="f4").reshape(4, 4), np.array([4, 4, 2, 1])
    rows = mask_of(counts, 4, "?")
    expected = oracle.expected(x, counts.reshape(1, 4), 0)
    save(tmp_path, x=x, m=rows, turned=rows.T)
    job = ("--axis", 0, "--mask")
    done = revseq("run", "x.npy", "m.npy", *job, "--batch-axis", 1).refused("{4,4}, which fits in 2 ways")
    assert "with numpy's mask.T, and without --batch-axis: a row for each index of axis 1" in done.err
    revseq("run", "x.npy", "turned.npy", *job, "-o", "y.npy").ok()
    done = revseq("run", "x.npy", "m.npy", *job, "--like", "pytorch", "-o", "z.npy").ok()
    assert "a row of it goes along axis 0 for each index of axis 1" in done.err
    revseq("run", "x.npy", "m.npy", "--axis", 1, "--batch-axis", 0, "--mask", "-o", "rows.npy").ok()
    for name in ("y.npy", "z.npy"):
        assert oracle.same_bits(np.load(tmp_path / name), expected)
    assert oracle.same_bits(np.load(tmp_path / "rows.npy"), oracle.expected(x, counts.reshape(4, 1), 1))


def test_a_mask_whose_columns_are_lines_is_told_so(revseq, tmp_path):
    save(tmp_path, x=np.arange(72, dtype="f4").reshape(4, 6, 3), m=mask_of(np.array([6, 5, 2, 0]), 6, "?"))
    done = revseq("run", "x.npy", "m.npy", "--axis", 0, "--mask", "-o", "y.npy").ok()
    assert "Note: m.npy: a column of it goes along axis 0 for each index of axis 1 of x.npy\n" in done.err


def test_zeros_in_front_of_ones_have_several_meanings(revseq, tmp_path):
    save(tmp_path, x=np.arange(72, dtype="f4").reshape(4, 6, 3), m=mask_of(np.array([6, 5, 2, 0]), 6, "?")[:, ::-1])
    done = revseq("run", "x.npy", "m.npy", "--axis", 1, "--mask").refused("the mask has 1 at [1, 1]")
    hint = " ".join(done.err.split())
    for words in (
        "ones are padding, as in PyTorch's key_padding_mask: numpy's mask == 0",
        "padding in front",
        "another axis",
    ):
        assert words in hint


def test_lengths_on_the_axis_may_be_for_another_one(revseq, tmp_path):
    names = by_netcdf4(tmp_path, "v", VALUES), by_netcdf4(tmp_path, "n", lengths("lat", "lon"))
    done = revseq("run", *names, "--axis", "lat").refused("lat of v.nc::/v has 4, which is reversed")
    assert "Hint: if it has lengths, try --axis time; if it is a mask of ones and zeros, add --mask\n" in done.err
    revseq("run", *names, "--axis", "time", "-o", "y.nc").ok()


def test_a_mask_is_recognised(revseq, tmp_path):
    x = np.arange(24, dtype="f4").reshape(4, 6)
    np.save(tmp_path / "x.npy", x)
    counts = np.array([1, 6, 0, 4], "u4")
    for dtype in ("?", "i4", "u4"):
        np.save(tmp_path / "m.npy", mask_of(counts, 6, dtype))
        done = revseq("run", "x.npy", "m.npy", "--axis", 1).refused("m.npy")
        assert "Hint: if it is a mask, of ones followed by zeros in each line: add --mask" in done.err
        assert revseq("check", "x.npy", "m.npy", "--axis", 1).status == (2 if dtype == "?" else 1)
    revseq("run", "x.npy", "m.npy", "--axis", 1, "--mask", "-o", "y.npy").ok()
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), oracle.expected(x, counts[:, None], 1))


@pytest.fixture
def several(tmp_path):
    """A file of several tensors, written by its library; what its names begin with."""
    tensors = {
        "a_scalar": np.float32(1), "lengths": np.array([[1, 2, 3, 4]], "u4"), "other": np.zeros((5, 7), "f4"),
        "x": np.arange(12, dtype="f4").reshape(3, 4),
    }  # fmt: skip

    def write(suffix, **more):
        held = {name: value for name, value in (tensors | more).items() if value is not None}
        if suffix == "npz":
            np.savez(tmp_path / "t.npz", **held)
        elif suffix == "h5":
            with h5py.File(tmp_path / "t.h5", "w") as f:
                for name, value in held.items():
                    f[name] = value
        else:
            group = zarr.create_group(tmp_path / "t.zarr")
            for name, value in held.items():
                group.create_array(name, data=np.asarray(value))
        return f"t.{suffix}"

    return write


@pytest.mark.parametrize("suffix", ["npz", "h5", "zarr"])
def test_the_tensor_that_fits_is_proposed(revseq, several, suffix):
    t = several(suffix)
    start = "/" if suffix == "h5" else ""
    done = revseq("run", t, "[[1, 2, 3, 4]]", "--axis", 0).refused(f"{t}: has 4 ")
    assert f"Hint: revseq run {t}::{start}x {system.quoted('[[1, 2, 3, 4]]')} --axis 0\n" in done.err
    for job in ((f"{t}::x", t), (f"{t}::x",)):
        done = revseq("run", *job, "--axis", 0).refused(f"Hint: revseq run {t}::x {t}::{start}lengths --axis 0\n")
    for job in ((t, t), (t,), (t, f"{t}::lengths")):
        done = revseq("run", *job, "--axis", 0).refused(f"Hint: revseq run {t}::{start}x {t}::")
        assert "lengths --axis 0\n" in done.err
    revseq("run", f"{t}::x", f"{t}::{start}lengths", "--axis", 0).ok()
    for job in ((t, t), (t, "none.npy")):
        done = revseq("run", *job, "--axis", 1).refused(f"{t}: has 4 ")
        assert f"Hint: those that fit are {t}::{start}other, {t}::{start}x\n" in done.err
    done = revseq("run", t, "[1, 2]", "--axis", 0, "--batch-axis", 1).refused(f"{t}: has 4 ")
    assert "Hint" not in done.err
    revseq("run", t, "--axis", "time").refused(f"Hint: one of {t}::{start}", f"{t}::{start}x")  # none has such a name
    done = revseq("convert", t, "none.npy").refused(f"Hint: those that fit are {t}::{start}other, {t}::{start}x\n")


def test_a_name_decides_between_lengths(revseq, several):
    several("npz", counts=np.array([[4, 3, 2, 1]], "u4"))
    revseq("run", "t.npz::x", "t.npz", "--axis", 0).refused("Hint: revseq run t.npz::x t.npz::lengths --axis 0\n")
    several("npz", counts=np.array([[4, 3, 2, 1]], "u4"), lengths=None)
    revseq("run", "t.npz::x", "t.npz", "--axis", 0).refused("Hint: try t.npz::counts\n")
    several("npz", seq_len=np.array([[4, 3, 2, 1]], "u4"))
    revseq("run", "t.npz::x", "t.npz", "--axis", 0).refused("Hint: those that fit are t.npz::lengths, t.npz::seq_len\n")


def of_stations(folder, suffix, **more):
    """A file of values, lengths of a name of lengths, and coordinates, which xarray wrote."""
    values = np.arange(240, dtype="f4").reshape(4, 10, 6)
    tensors = {"v": (("station", "time", "level"), values), "n_lengths": (("station",), np.array([2, 5, 10, 7], "i4"))}
    where = {"station": np.array([1, 2, 3, 4], "i4"), "time": np.arange(10, dtype="i4"), "level": np.arange(6.0)}
    held = xarray.Dataset(tensors | more, coords=where)
    if suffix == "nc":
        held.to_netcdf(folder / "s.nc")
    else:
        held.to_zarr(folder / "s.zarr", consolidated=False)
    wide = np.broadcast_to(np.array([2, 5, 10, 7], "u4").reshape(4, 1, 1), (4, 1, 6))
    return f"s.{suffix}", oracle.expected(values, wide, 1)


@pytest.mark.parametrize("suffix", ["nc", "zarr"])
@pytest.mark.parametrize("typed", ["{}", "{} {}", "{}::v", "{} {}::n_lengths", "{0}::v {0}"])
def test_the_only_pair_of_a_file_is_proposed(revseq, tmp_path, suffix, typed):
    name, right = of_stations(tmp_path, suffix)
    words = ["run", *typed.format(name, name).split(), "--axis", "time", "-o", "y.npy"]
    done = revseq(*words).refused()
    revseq(*hints.typed(words, done.err)).ok()
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), right)


@pytest.mark.parametrize("suffix", ["nc", "zarr"])
def test_of_several_pairs_none_is_proposed(revseq, tmp_path, suffix):
    name, _ = of_stations(tmp_path, suffix, w=(("station", "time", "level"), np.zeros((4, 10, 6))))
    start = "/" if suffix == "nc" else ""
    done = revseq("run", name, "--axis", "time").refused(
        f"Hint: those that fit are {name}::{start}v, {name}::{start}w\n"
    )
    assert "revseq run" not in done.err
    done = revseq("run", f"{name}::v", "--axis", "time").refused("no lengths are given")
    assert f"Hint: revseq run {name}::v {name}::{start}n_lengths --axis time" in done.err


def test_a_pair_without_an_axis_lists_the_axes(revseq, tmp_path):
    np.savez(tmp_path / "t.npz", x=np.zeros((4, 4, 4), "f4"), lengths=np.array([1, 2, 3, 4]))
    done = revseq("run", "t.npz").refused("\n  --axis 1 --batch-axis 0: 4 sequences")
    assert (
        "Hint: type the one that is meant, and use INPUT t.npz::x LENGTHS t.npz::lengths --lengths-dtype UINT32"
        in done.err
    )
    (tmp_path / "jobs.csv").write_text("input,axis,batch-axis,output\nt.npz,0,1,y.npy\n")
    done = revseq("batch", "jobs.csv")
    assert "\nHint: use INPUT t.npz::x LENGTHS t.npz::lengths --lengths-dtype UINT32\n" in done.err


def test_what_cannot_be_opened_beside_what_fits_is_told(revseq, tmp_path):
    np.savez(tmp_path / "t.npz", x=np.zeros((3, 4), "f4"), names=np.array(["a", "b"]))
    done = revseq("run", "t.npz", "[[1, 2, 3, 4]]", "--axis", 0).refused("Hint: revseq run t.npz::x ")
    assert "\n  t.npz::names cannot be opened: its data type is <U1" in done.err


@pytest.mark.parametrize("axis", [0, 1])
def test_a_one_behind_a_zero_in_another_part_of_the_mask(revseq, tmp_path, axis):
    np.save(tmp_path / "x.npy", np.zeros((3, 6) if axis else (6, 3), "f4"))
    rows = np.array([[1, 1, 1, 1, 1, 0], [1, 1, 0, 0, 1, 0], [1, 0, 1, 0, 0, 0]])
    with h5py.File(tmp_path / "m.h5", "w") as f:
        f.create_dataset("m", data=rows if axis else rows.T, chunks=(1, 2) if axis else (2, 1))
    done = revseq("run", "x.npy", "m.h5", "--axis", axis, "--mask", thresholds={"MASK_AT_ONCE": 2})
    done.refused(f"the mask has 1 at {[1, 4] if axis else [4, 1]}")


@pytest.mark.parametrize(("attributes", "is_hinted"), [({}, True), ({"scale_factor": 2.0}, False)])
def test_a_file_without_names_is_hinted_only_where_it_says_the_same(revseq, tmp_path, attributes, is_hinted):
    v = by_netcdf4(tmp_path, "v", VALUES)
    with netCDF4.Dataset(tmp_path / "v.nc", "a") as f:
        f.createVariable("lat", "f8", ("lat",))[:] = [1, 2, 3, 4]
    n = by_netcdf4(tmp_path, "n", lengths("time", "lat", "lon", time=1))
    with netCDF4.Dataset(tmp_path / "n.nc", "a") as f:
        f.createVariable("lat", "f8", ("lat",))[:] = [4, 3, 2, 1]
        f["n"].setncatts(attributes)
    done = revseq("run", v, n, "--axis", "time").refused("its lat is not that of v.nc")
    assert ("revseq convert" in done.err) == is_hinted


def test_a_name_in_another_place_is_refused(revseq, tmp_path):
    with h5py.File(tmp_path / "t.h5", "w") as f:
        for name, array, labels in (
            ("v", np.zeros((4, 3, 4), "f4"), "atb"), ("n", np.ones((4, 1, 4), "u4"), "b"),
            ("two", np.ones((4, 4), "u4"), "b"), ("one", np.ones((4, 1, 4), "u4"), ("", "b")), ("s", np.zeros((2, 3, 4), "f4"), "xyz"), ("q", np.ones(4, "u4"), "q"),
        ):  # fmt: skip
            made = f.create_dataset(name, data=array)
            for d, label in enumerate(labels):
                made.dims[d].label = label
    for name in ("n", "two"):
        done = revseq("run", "t.h5::v", f"t.h5::{name}", "--axis", 1).refused("its dimension b would go along a")
        assert "reshape" not in done.err
    revseq("run", "t.h5::v", "t.h5::one", "--axis", 1).ok()  # a dimension of size 1 goes anywhere
    done = revseq("run", "t.h5::s", "t.h5::q", "--axis", 1).refused("Hint: type the one that is meant")
    assert "Hint: revseq" not in done.err


@pytest.mark.parametrize(("like", "axis"), [("pytorch", 0), ("pytorch", 1), ("tensorflow", 0), ("tensorflow", 1)])
def test_the_square_mask_of_a_system_is_of_batch_and_time(revseq, tmp_path, like, axis):
    """As torch.nn.Transformer's src_key_padding_mask, which is (N, S) also where the values are (S, N, E)."""
    x, counts = np.arange(48, dtype="f4").reshape(4, 4, 3), np.array([4, 3, 2, 1])
    save(tmp_path, x=x, m=mask_of(counts, 4, "?"))
    job = ["run", "x.npy", "m.npy", "--like", like, "--axis", axis, "--mask", "-o", "y.npy"]
    done = revseq(*job, *["--batch-axis", 1][: 2 * (like == "tensorflow" and axis == 0)]).ok()
    wide = np.broadcast_to(counts.reshape((1, 4, 1) if axis == 0 else (4, 1, 1)), (1, 4, 3) if axis == 0 else (4, 1, 3))
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), oracle.expected(x, wide.astype("u4"), axis))
    assert ("Note: m.npy: a row of it goes along axis 0 for each index of axis 1" in done.err) == (axis == 0)


def test_no_square_mask_of_a_system_that_has_none(revseq, tmp_path):
    save(tmp_path, x=np.zeros((4, 4, 3), "f4"), m=mask_of([4, 3, 2, 1], 4, "?"))
    revseq("run", "x.npy", "m.npy", "--like", "mxnet", "--mask").refused("which fits in 2 ways")


@pytest.mark.parametrize(("size", "dtype"), [((1 << 32) - 1, "u4"), (1 << 32, "u8")])
def test_the_data_type_that_holds_the_ones_of_a_line(size, dtype):
    mask = MemorySource("m", np.broadcast_to(np.zeros(1, "u1"), (2, size)), Storage("memory", {}))
    assert MaskSource(mask, 1).dtype == dtype


def test_a_mask_without_an_axis(revseq, tmp_path):
    """Its content decides between axes whose sizes fit; a square one may be of time and batch, too."""
    x, counts = np.arange(240, dtype="f4").reshape(4, 10, 6), np.array([2, 5, 10, 7])
    save(tmp_path, x=x, m=mask_of(counts, 10, "?"))
    done = revseq("run", "x.npy", "m.npy", "-o", "y.npy").refused("no axis is given")
    assert "Hint: revseq run x.npy m.npy -o y.npy --axis 1 --mask\n" in done.err
    revseq(*hints.typed(["run"], done.err)).ok()
    wide = np.broadcast_to(counts.reshape(4, 1, 1), (4, 1, 6)).astype("u4")
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), oracle.expected(x, wide, 1))
    revseq("run", "x.npy", "m.npy", "--like", "pytorch").refused("dimension count is 2", "Hint: add --mask\n")
    save(tmp_path, x=np.zeros((4, 4, 3), "f4"), m=mask_of([4, 3, 2, 1], 4, "?"))
    done = revseq("run", "x.npy", "m.npy").refused("Hint: type the one that is meant")
    assert "revseq run" not in done.err


def test_ones_and_zeros_may_be_a_mask(revseq, tmp_path):
    save(tmp_path, x=np.zeros((2, 3, 4), "f4"), m=np.array([[1, 1, 0], [1, 0, 0]]))
    done = revseq("run", "x.npy", "m.npy", "--axis", 1).refused("Hint: type the one that is meant")
    assert "  --axis 1 --mask: a mask" in done.err
    save(tmp_path, x=np.zeros((4, 3, 4), "f4"), m=np.ones((4, 3, 4), "u1"))
    revseq("run", "x.npy", "m.npy", "--axis", 1, "--mask", "--batch-axis", 0).refused("the batch axis is 0")


@pytest.mark.parametrize("key", ["SequenceLengthsTensor", "inputLengths", "SequenceTensor"])
def test_names_of_lengths_in_camel_case(revseq, tmp_path, key):
    np.save(tmp_path / "x.npy", np.zeros((3, 4), "f4"))
    np.savez(tmp_path / "t.npz", InputTensor=np.zeros((1, 4), "u4"), **{key: np.ones((1, 4), "u4")})
    revseq("run", "x.npy", "t.npz", "--axis", 0).refused(f"Hint: revseq run x.npy t.npz::{key} --axis 0\n")


def test_not_all_of_many_tensors_are_looked_at(revseq, tmp_path):
    np.savez(tmp_path / "t.npz", **{f"k{i:03}": np.ones((1, 4) if i in (5, 150) else (2, 2), "u4") for i in range(200)})
    np.save(tmp_path / "x.npy", np.zeros((3, 4), "f4"))
    revseq("run", "x.npy", "t.npz", "--axis", 0).refused("those that fit among the first 100 are t.npz::k005\n")


@pytest.mark.parametrize("kind", ["compound", "lists"])
def test_coordinates_that_are_no_numbers_are_not_compared(revseq, tmp_path, kind):
    dtype = h5py.vlen_dtype("i4") if kind == "lists" else np.dtype([("a", "i4")])
    with h5py.File(tmp_path / "t.h5", "w") as f:
        for name, array in (("v", np.zeros((4, 5), "f4")), ("n", np.ones((4, 1), "u4"))):
            scale = f.create_dataset(f"{name}s/lat", (4,), dtype)
            for i in range(4):
                scale[i] = [i] * (1 + i + (name == "n")) if kind == "lists" else (i + (name == "n"),)
            scale.make_scale("lat")
            f[name] = array
            f[name].dims[0].attach_scale(scale)
    assert "RuntimeWarning" not in revseq("run", "t.h5::v", "t.h5::n", "--axis", 1).ok().err


def test_a_mask_without_an_axis_has_its_axes_proposed(tmp_path, revseq):
    save(tmp_path, x=np.arange(24, dtype="f4").reshape(2, 3, 4), m=np.array([[1, 1, 0, 0], [1, 1, 1, 0]], "u1"))
    done = revseq("run", "x.npy", "m.npy", "--mask").refused("no axis is given", "--axis 2: a mask")
    assert "Hint: revseq run x.npy m.npy --mask --axis 2" in done.err
    np.save(tmp_path / "all.npy", np.ones((2, 3, 4), "u1"))
    done = revseq("run", "x.npy", "all.npy", "--mask").refused("--axis 0: ", "--axis 1: ", "--axis 2: ")
    assert "Hint: type the one that is meant" in done.err
