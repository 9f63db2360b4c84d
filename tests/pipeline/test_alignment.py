"""Lengths go to the lines that the names of their dimensions say, as xarray aligns, or that their sizes say; masks."""

import functools
import json
import re
import shlex

import h5py
import netCDF4
import numpy as np
import oracle
import pytest
import xarray
import zarr
from hypothesis import given
from hypothesis import strategies as st
from tensor_files import held

from revseq_cli.core.errors import FormatError
from revseq_cli.formats.contract import Storage
from revseq_cli.formats.raw import MemorySource
from revseq_cli.pipeline.assembly import align
from revseq_cli.pipeline.views import PlacedSource, ScannedSource

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
    assert "aligned" not in done.err  # what is done as documented makes no note
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), right(array))
    assert "\n  dimensions       time, lat, lon\n" in revseq("show", job[0]).ok().out


def test_every_command_aligns(revseq, tmp_path, make):
    array = lengths("lon", "lat")
    job = (make("v", VALUES), make("n", array), "--axis", "time")
    assert json.loads(revseq("check", *job, "--json").ok().out)["valid"]
    revseq("export", *job, "-o", "m.json").ok()
    revseq("run", *job, "-o", "y.npy").ok()
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), right(array))
    revseq("diff", "y.npy", "--job", *job).ok()
    (tmp_path / "jobs.csv").write_text(f"input,lengths,axis,output\n{job[0]},{job[1]},time,z.npy\n")
    revseq("batch", "jobs.csv").ok()
    assert oracle.same_bits(np.load(tmp_path / "z.npy"), right(array))


@pytest.mark.parametrize(
    ("array", "options", "words"),
    [
        (lengths("lon"), ("--batch-axis", "lat"), ("its dimension lon is axis 2", "the batch axis is 1 (lat)")),
        (lengths("lon"), ("--batch-axis", "1"), ("its dimension lon is axis 2", "the batch axis is 1 (lat)")),
        (lengths("lat", "lon"), ("--batch-axis", "lat"), ("its dimension lon is axis 2", "the batch axis is 1 (lat)")),
        (lengths("lon"), ("--like", "onnx"), ("its dimension lon is axis 2", "the batch axis is 1 (lat)")),
        (lengths("station", station=6), (), ("its dimension station, of size 6, is not a dimension of v", "wanted: dimensions among lat, lon")),
        (lengths("lat", "x", x=6), (), ("its dimension x, of size 6, is not a dimension of v",)),
        (lengths("lon", lon=4), (), ("its dimension lon has size 4, and lon of v", "has 6\n  wanted: size 6\n")),
        (lengths("lat", "lon", lat=1), (), ("its dimension lat has size 1, and lat of v", "has 4")),
        (lengths("time", "lat", "lon"), (), ("its dimension time has size 5", "which is reversed")),
        (lengths("time"), (), ("its dimension time has size 5", "which is reversed")),
    ],
)  # fmt: skip
def test_what_contradicts_names_is_refused(revseq, tmp_path, array, options, words):
    v, n = by_xarray(tmp_path, "v", VALUES), by_xarray(tmp_path, "n", array)
    done = revseq("run", v, n, "--axis", "time", *options, "-o", "y.npy").refused("n.nc::/n", *words)
    assert not (tmp_path / "y.npy").exists()
    for command in re.findall(r"^Hint: revseq (.*)$", done.err, re.MULTILINE):
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


def test_a_name_that_no_other_dimension_has_is_told_without_a_list(revseq, tmp_path):
    """With nothing to list, the message says what else is right."""
    v, n = by_labels(tmp_path, "v", xarray.DataArray(np.zeros((2, 3), "f4"), dims=("time", ""))), "n.h5"
    by_labels(tmp_path, "n", xarray.DataArray(np.ones(3, "u4"), dims=("day",)))
    done = revseq("run", v, n, "--axis", "time").refused("its dimension day, of size 3, is not a dimension of v.h5")
    assert "wanted: one length, or dimensions without names" in done.err


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_without_names_sizes_say_it(revseq, tmp_path, axis):
    name = VALUES.dims[axis]
    array = lengths(*(d for d in VALUES.dims if d != name))
    save(tmp_path, x=VALUES.to_numpy(), n=array.to_numpy())
    revseq("run", "x.npy", "n.npy", "--axis", axis, "-o", "y.npy").ok()
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), right(array, name))
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
    v, source = held(values.to_numpy()), held(array.to_numpy())
    v.dimensions, source.dimensions = dims, own
    try:
        found = align(v, source, dims.index(axis), None)
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
    aligned = PlacedSource(source, values.shape, dims.index(axis), found)
    assert oracle.same_bits(np.ascontiguousarray(aligned.read()), np.ascontiguousarray(expected))


def with_lat(array, lat, units=None):
    array = array.assign_coords(lat=np.asarray(lat))
    if units:
        array.lat.attrs["units"] = units
    return array


def test_coordinates_that_differ(revseq, tmp_path):
    """Those of lengths from another file are the same, as numbers, packed or not, or as texts of any kind."""

    def write(name, array, suffix="nc", **encoding):
        if suffix == "nc":
            array.to_netcdf(tmp_path / f"{name}.nc", encoding={"lat": encoding} if encoding else None)
        else:
            array.to_dataset(name=name).to_zarr(tmp_path / f"{name}.zarr", mode="w", consolidated=False)
        return f"{name}.{suffix}::{name}"

    lat = [10.1, 20.2, 30.3, 40.4]
    array = lengths("lat", "lon").rename("n")
    v = write("v", with_lat(VALUES, lat))
    packed = {"dtype": "i2", "scale_factor": 0.1, "_FillValue": None}
    for suffix in ("nc", "zarr"):
        job = (v, write("n", with_lat(array, lat[::-1]), suffix), "--axis", "time", "-o", "y.npy")
        revseq("run", *job).refused(
            f"n.{suffix}::", "its lat is not that of v.", "40.4 and 10.1 at [0]", "Hint: if their"
        )
        revseq("check", *job[:4]).refused("its lat is not that of v.")
        assert not (tmp_path / "y.npy").exists()
    job = (v, "n.nc::n", "--axis", "time", "-o", "y.npy", "--overwrite")
    for same, encoding in (
        (with_lat(array, lat), {}),
        (with_lat(array, lat), packed),
        (with_lat(array, np.array(lat, "f4")), {}),
        (array, {}),
    ):
        write("n", same, **encoding)
        revseq("run", *job).ok()
        assert oracle.same_bits(np.load(tmp_path / "y.npy"), right(array))
    for other, encoding in (([*lat[:3], 41], {}), ([*lat[:3], 41], packed), ([*lat[:3], np.nan], {})):
        write("n", with_lat(array, other), **encoding)
        revseq("run", *job).refused("its lat is not that of v.", "40.4 at [3]")


@pytest.mark.parametrize("kind", ["fixed", "vlen", "zarr"])
def test_coordinates_of_text(revseq, tmp_path, kind):
    names, array = ["Bergen", "Oslo", "Troms\u00f8", "Bod\u00f8"], lengths("lat").rename("n")
    by_xarray(tmp_path, "v", VALUES.assign_coords(lat=names))

    def write(texts):
        if kind == "zarr":
            array.assign_coords(lat=texts).to_dataset(name="n").to_zarr(
                tmp_path / "n.zarr", mode="w", consolidated=False
            )
            return "n.zarr::n"
        with h5py.File(tmp_path / "n.h5", "w") as f:
            fixed = np.array([text.encode() for text in texts], "S8").astype(h5py.string_dtype("utf-8", 8))
            data, dtype = (texts, h5py.string_dtype()) if kind == "vlen" else (fixed, fixed.dtype)
            scale = f.create_dataset("lat", data=data, dtype=dtype)
            scale.make_scale("lat")
            f.create_dataset("n", data=array.to_numpy()).dims[0].attach_scale(scale)
        return "n.h5::n"

    revseq("run", "v.nc::v", write(names[::-1]), "--axis", "time").refused("its lat is not that of v.nc", "at [0]")
    revseq("run", "v.nc::v", write(names), "--axis", "time").ok()


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
        revseq("run", "x.npy", "m.npy", "--axis", 1, "--mask", *options, "-o", "y.npy", "--overwrite").ok()
        assert oracle.same_bits(np.load(tmp_path / "y.npy"), expected)
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
    revseq("run", *job, "-o", "y.npy").ok()
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), right(counts))
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
            "run", "x.npy", name, "--axis", 1, *batch, "--mask", "-o", "y.npy", thresholds={"SCANNED_AT_ONCE": 2}
        )
        done.refused(name, *(word.replace("]", ", 0]") if name == "full.npy" else word for word in words))
    assert not (tmp_path / "y.npy").exists()


def test_masks_of_other_sizes(revseq, tmp_path):
    save(tmp_path, x=np.zeros((4, 6, 4), "f4"), m=np.ones((4, 6), "?"))
    job = ("x.npy", "m.npy", "--axis", 1, "--mask")
    done = revseq("run", *job).refused("Sizes of the mask is {4,6}, which fits in 2 ways")
    assert "mask.reshape(4, 6, 1) or mask.T.reshape(1, 6, 4)" in done.err
    revseq("run", *job, "--batch-axis", 2).ok()
    np.save(tmp_path / "m.npy", np.ones((4, 5), "?"))
    revseq("run", *job).refused("{4,5}", "wanted: {4,6,4}, as x.npy has, or {4,6} or {4,6}: batch and time")
    revseq("run", *job[:2], "--axis", 5, "--mask").refused("Axis is 5")
    revseq("run", "x.npy", "m.npy", "--mask").refused("no axis is given")


@pytest.mark.parametrize("axis", [0, 1])
def test_a_square_mask_is_taken_in_no_order_that_was_not_typed(revseq, tmp_path, axis):
    x, counts = np.arange(48, dtype="f4").reshape(4, 4, 3), np.array([4, 4, 2, 1])
    rows = mask_of(counts, 4, "?")  # batch and time
    full = rows.T.reshape(4, 4, 1) if axis == 0 else rows.reshape(4, 4, 1)
    save(tmp_path, x=x, m=rows, full=full)
    shape = (1, 4, 1) if axis == 0 else (4, 1, 1)
    expected = oracle.expected(
        x, np.broadcast_to(counts.reshape(shape), (*x.shape[:axis], 1, *x.shape[axis + 1 :])), axis
    )
    job = ("x.npy", "m.npy", "--axis", axis, "--mask")
    done = revseq("run", *job).refused("Sizes of the mask is {4,4}, which fits in 2 ways")
    assert "mask.T.reshape(4, 4, 1)" in done.err
    if axis == 0:
        revseq("run", *job, "--batch-axis", 1).refused("which fits in 2 ways")
    else:
        revseq("run", *job, "--batch-axis", 0, "-o", "b.npy").ok()
        assert oracle.same_bits(np.load(tmp_path / "b.npy"), expected)
    revseq("run", "x.npy", "full.npy", *job[2:], "-o", "y.npy").ok()
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
    save(tmp_path, x=x, m=rows, turned=rows.T)
    for options in (("--batch-axis", 1), ("--like", "pytorch")):
        revseq("run", "x.npy", "m.npy", "--axis", 0, "--mask", *options).refused("{4,4}, which fits in 2 ways")
    revseq("run", "x.npy", "turned.npy", "--axis", 0, "--mask", "-o", "y.npy").ok()
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), oracle.expected(x, counts.reshape(1, 4), 0))
    revseq("run", "x.npy", "m.npy", "--axis", 1, "--batch-axis", 0, "--mask", "-o", "rows.npy").ok()
    assert oracle.same_bits(np.load(tmp_path / "rows.npy"), oracle.expected(x, counts.reshape(4, 1), 1))


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
    assert done.err.endswith("--axis time\n")
    revseq("run", *names, "--axis", "time", "-o", "y.nc").ok()


def test_a_mask_is_recognised(revseq, tmp_path):
    x = np.arange(24, dtype="f4").reshape(4, 6)
    np.save(tmp_path / "x.npy", x)
    counts = np.array([1, 6, 0, 4], "u4")
    for dtype in ("?", "i4", "u4"):
        np.save(tmp_path / "m.npy", mask_of(counts, 6, dtype))
        revseq("run", "x.npy", "m.npy", "--axis", 1).refused("m.npy", "Hint: revseq run x.npy m.npy --axis 1 --mask")
        assert revseq("check", "x.npy", "m.npy", "--axis", 1).status == 1
    revseq("run", "x.npy", "m.npy", "--axis", 1, "--mask", "-o", "y.npy").ok()
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), oracle.expected(x, counts[:, None], 1))


@pytest.mark.parametrize("axis", [0, 1])
def test_a_one_behind_a_zero_in_another_part_of_the_mask(revseq, tmp_path, axis):
    np.save(tmp_path / "x.npy", np.zeros((3, 6) if axis else (6, 3), "f4"))
    rows = np.array([[1, 1, 1, 1, 1, 0], [1, 1, 0, 0, 1, 0], [1, 0, 1, 0, 0, 0]])
    with h5py.File(tmp_path / "m.h5", "w") as f:
        f.create_dataset("m", data=rows if axis else rows.T, chunks=(1, 2) if axis else (2, 1))
    done = revseq("run", "x.npy", "m.h5", "--axis", axis, "--mask", thresholds={"SCANNED_AT_ONCE": 2})
    done.refused(f"the mask has 1 at {[1, 4] if axis else [4, 1]}")


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


@pytest.mark.parametrize(("size", "dtype"), [((1 << 32) - 1, "u4"), (1 << 32, "u8")])
def test_the_data_type_that_holds_the_ones_of_a_line(size, dtype):
    mask = MemorySource("m", np.broadcast_to(np.zeros(1, "u1"), (2, size)), Storage("memory", {}))
    assert ScannedSource(mask, 1, [0]).dtype == dtype


def test_a_mask_without_an_axis(revseq, tmp_path):
    x, counts = np.arange(240, dtype="f4").reshape(4, 10, 6), np.array([2, 5, 10, 7])
    save(tmp_path, x=x, m=mask_of(counts, 10, "?"), n=mask_of(counts, 10, "u1"))
    for name in ("m.npy", "n.npy"):
        done = revseq("run", "x.npy", name, "--axis", 1).refused(f"Hint: revseq run x.npy {name} --axis 1 --mask\n")
    done = revseq("run", "x.npy", "m.npy", "-o", "y.npy").refused("no axis is given", "type the one that is meant")
    assert "  --axis 0 --mask: a mask" in done.err
    assert "  --axis 1 --mask: a mask" in done.err
    revseq("run", "x.npy", "m.npy", "--mask", "--axis", 1, "-o", "y.npy").ok()
    wide = np.broadcast_to(counts.reshape(4, 1, 1), (4, 1, 6)).astype("u4")
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), oracle.expected(x, wide, 1))
