"""Lengths go to the lines that the names of their dimensions say, as xarray aligns, or that their sizes say; masks."""

import re

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

from revseq_cli.core import thresholds
from revseq_cli.core.errors import FormatError, TensorIOError
from revseq_cli.pipeline.alignment import align
from revseq_cli.pipeline.jobs import make_job
from revseq_cli.pipeline.lengths import ScannedSource
from revseq_cli.pipeline.request import Request
from revseq_cli.pipeline.views import PlacedSource

SIZES = {"time": 5, "lat": 4, "lon": 6}
VALUES = xarray.DataArray(np.arange(120, dtype="f4").reshape(5, 4, 6), dims=tuple(SIZES), name="v")
RANDOM = np.random.default_rng(8)


def lengths(*dims, dtype="u4", **ones):
    """Random lengths with these dimensions; those in `ones` have other sizes."""
    sizes = [ones.get(name, SIZES.get(name)) for name in dims]
    return xarray.DataArray(RANDOM.integers(0, 7, sizes).astype(dtype), dims=dims, name="n")


def widened(array, values, axis):
    """Lengths that xarray has brought to the values' dimensions by their names."""
    narrow = array.squeeze([d for d in array.dims if array.sizes[d] == 1], drop=True)
    wide = narrow.broadcast_like(values.isel({axis: 0}, drop=True)).expand_dims(axis)
    return wide.transpose(*values.dims).to_numpy()


def right(array, axis="time", values=VALUES):
    return oracle.expected(values.to_numpy(), widened(array, values, axis), values.dims.index(axis))


def by_netcdf4(folder, name, array):
    with netCDF4.Dataset(folder / f"{name}.nc", "w") as f:
        for dim, size in array.sizes.items():
            f.createDimension(dim, size)
        f.createVariable(name, array.dtype, array.dims)[...] = array.to_numpy()
    return f"{name}.nc::{name}"


def of(array):
    """A source in memory with the names of dimensions."""
    source = held(array.to_numpy())
    source.name, source.dimensions = array.name, array.dims
    return source


@pytest.mark.parametrize(
    ("array", "options", "words"),
    [
        (lengths("lon"), {"like": "onnx"}, "its dimension lon is axis 2 of v, but the batch axis is 1"),
        (lengths("station", station=6), {}, "its dimension station, of size 6, is not a dimension of v; expected dimensions among time, lat, lon"),
        (lengths("lon", lon=4), {}, "its dimension lon has size 4; expected size 6"),
        (lengths("time", time=3), {}, "its dimension time has size 3; expected size 1"),
        (lengths("station", station=6), {"batch_axis": "lat"}, "its dimension station has size 6; expected size 4 along axis 1"),
        (xarray.DataArray(np.ones((1, 4, 6), "u4"), dims=("dim_0", "dim_1", "lat"), name="n"), {}, "its dimension lat would go along axis 2"),
        (xarray.DataArray(np.ones((4, 6), "u4"), dims=("lon", ""), name="n"), {}, "its dimension lon would go along axis 1"),
    ],
)  # fmt: skip
def test_what_contradicts_names_is_refused(array, options, words):
    with pytest.raises(FormatError) as caught:
        make_job(of(VALUES), of(array), Request("v", "n", axis="time", **options))
    assert words in str(caught.value)


@pytest.mark.parametrize("dims", [("station",), ("dim_0",)])
def test_a_batch_axis_says_where_a_name_goes_that_says_nothing(dims):
    """Of a dimension that the values lack, or of one that xarray made up."""
    values, array = of(VALUES), lengths("lon")
    values.dimensions = VALUES.dims if dims == ("station",) else ("dim_0", "dim_1", "dim_2")
    job = make_job(values, of(array.rename(lon=dims[0])), Request("v", "n", axis=0, batch_axis=2))
    assert (job.lengths.read() == widened(array, VALUES, "time")).all()


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
        1 if d == axis and draw(st.booleans()) else draw(st.sampled_from((sizes.get(d, 1), 1, 3)))
        for d in own
    ]
    array = xarray.DataArray(RANDOM.integers(0, 9, own_sizes).astype("u4"), dims=own)
    source = of(array)
    try:
        places = align(of(values), source, dims.index(axis), None)
        fits = any(d in dims for d in own) or any(size > 1 for size in array.shape)
    except FormatError:
        fits = False
    wrong = [
        d for d, size in array.sizes.items() if size > 1 and (d == axis or sizes.get(d) != size)
    ]
    short = [d for d in own if array.sizes[d] == 1 and d in dims and d != axis]
    if not fits:
        assert wrong or short or not any(d in dims for d in own)
        return
    assert not wrong
    assert not short
    aligned = (
        source if places is None else PlacedSource(source, values.shape, dims.index(axis), places)
    )
    assert oracle.same_bits(
        np.ascontiguousarray(aligned.read()), np.ascontiguousarray(widened(array, values, axis))
    )


@pytest.mark.parametrize("chunks", [(2,), None])
def test_lengths_that_are_repeated(chunks):
    """Those in chunks are decoded once; a change of their file is noticed."""

    def recheck():
        raise TensorIOError("changed")

    source = held(np.array([5, 6, 7], np.uint32))
    source.chunks, source.recheck = chunks, recheck
    placed = PlacedSource(source, (2, 3, 4), 2, (1,))
    with pytest.raises(TensorIOError, match="changed"):
        placed.recheck()
    copy = placed.in_memory(1 << 20)
    assert (copy.source is source) is (chunks is None)
    for lengths in (placed, copy):
        assert lengths.read().tolist() == [[[5], [6], [7]]] * 2
        assert lengths.read_task((slice(0, 1), slice(1, 3), slice(0, 1))).read().tolist() == [
            [[6], [7]]
        ]


# Coordinates


def test_coordinates_that_differ(revseq, tmp_path):
    """Those of lengths from another file are the same, as numbers, packed or not."""

    def write(name, array, lat, **encoding):
        array = array.assign_coords(lat=np.asarray(lat)) if lat is not None else array
        array.to_netcdf(tmp_path / f"{name}.nc", encoding={"lat": encoding} if encoding else None)
        return f"{name}.nc::{name}"

    lat, array = [10.1, 20.2, 30.3, 40.4], lengths("lat", "lon").rename("n")
    job = (write("v", VALUES, lat), "n.nc::n", "--axis", "time")
    packed = {"dtype": "i2", "scale_factor": 0.1, "_FillValue": None}
    for same, encoding in ((lat, {}), (lat, packed), (np.array(lat, "f4"), {}), (None, {})):
        write("n", array, same, **encoding)
        revseq("run", *job, "-o", "y.npy", "--overwrite").ok()
        assert oracle.same_bits(np.load(tmp_path / "y.npy"), right(array))
    for other, encoding in (
        ([*lat[:3], 41], {}),
        ([*lat[:3], 41], packed),
        ([*lat[:3], np.nan], {}),
    ):
        write("n", array, other, **encoding)
        revseq("run", *job, "-o", "z.npy").refused(
            "its lat is not that of v.", "40.4 at [3]", "revseq convert n.nc::"
        )
    revseq("check", *job).refused("its lat is not that of v.")
    assert not (tmp_path / "z.npy").exists()


@pytest.mark.parametrize("kind", ["fixed", "zarr"])
def test_coordinates_of_text(revseq, tmp_path, kind):
    names, array = ["Bergen", "Oslo", "Troms\u00f8", "Bod\u00f8"], lengths("lat").rename("n")
    VALUES.assign_coords(lat=names).to_netcdf(tmp_path / "v.nc", engine="h5netcdf")

    def write(texts):
        if kind == "zarr":
            dataset = array.assign_coords(lat=texts).to_dataset(name="n")
            dataset.to_zarr(tmp_path / "n.zarr", mode="w", consolidated=False)
            return "n.zarr::n"
        with h5py.File(tmp_path / "n.h5", "w") as f:
            scale = f.create_dataset(
                "lat", data=[text.encode() for text in texts], dtype=h5py.string_dtype("utf-8", 8)
            )
            scale.make_scale("lat")
            f.create_dataset("n", data=array.to_numpy()).dims[0].attach_scale(scale)
        return "n.h5::n"

    revseq("run", "v.nc::v", write(names[::-1]), "--axis", "time").refused(
        "its lat is not that of v.nc", "at [0]"
    )
    revseq("run", "v.nc::v", write(names), "--axis", "time").ok()


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("kind", ["M8", "m8"])
def test_times_of_zarr_are_compared(revseq, tmp_path, version, kind):
    """By value and unit: one day is 24 hours, and not one hour."""

    def write(name, array, times):
        group = zarr.open_group(tmp_path / f"{name}.zarr", mode="w", zarr_format=version)
        for key, values, names in (("day", times, ["day"]), (name, array, ["day", "t"])):
            names = names[: values.ndim]
            made = group.create_array(
                key,
                shape=values.shape,
                dtype=values.dtype,
                chunks=values.shape,
                **({"dimension_names": names} if version == 3 else {}),
            )
            made[...] = values
            if version == 2:
                made.attrs["_ARRAY_DIMENSIONS"] = names
        return f"{name}.zarr::{name}"

    days = np.array([1, 2, 3], f"{kind}[D]")
    values = np.arange(12.0).reshape(3, 4)
    counts = np.array([4, 2, 3])
    x = write("x", values, days)
    for same in (days, days.astype(f"{kind}[h]")):
        revseq("run", x, write("n", counts, same), "--axis", "t").ok()
    for other in (days[::-1], days.astype("i8").astype(f"{kind}[h]"), days.astype("i8")):
        done = revseq("run", x, write("n", counts, other), "--axis", "t")
        done.refused("its day is not that of x.zarr")


def test_other_units_of_equal_coordinates_are_noted(revseq, tmp_path):
    for name, units in (("x", "days since 2000-01-01"), ("n", "days since 2001-01-01")):
        day = ("day", [0, 1], {"units": units})
        variables = {"x": (("day", "t"), np.ones((2, 3))), "n": ("day", [1, 2])}
        xarray.Dataset(variables, coords={"day": day}).to_netcdf(tmp_path / f"{name}.nc")
    job = ("x.nc::x", "n.nc::n", "--axis", "t")
    for command in (("run",), ("run", "-o", "y.npy"), ("run", "--dry-run"), ("check",)):
        err = revseq(*command, *job).ok().err
        assert "'days since 2001-01-01' in n.nc" in err
        assert "'days since 2000-01-01' in x.nc" in err
    assert "units" not in revseq("run", "x.nc::x", "x.nc::n", "--axis", "t").ok().err


def test_a_coordinate_of_zarr_that_is_a_link_is_named(revseq, tmp_path):
    dataset = xarray.Dataset({"x": (("a", "b"), np.ones((2, 3)))}, coords={"b": [1, 2, 3]})
    dataset.to_zarr(tmp_path / "x.zarr", consolidated=False)
    (tmp_path / "x.zarr" / "b").rename(tmp_path / "b")
    (tmp_path / "x.zarr" / "b").symlink_to(tmp_path / "b")
    assert "b (a link)" in revseq("run", "x.zarr::x", "[1, 2]", "--axis", 1, "-o", "y.npy").ok().err


# Masks


def mask_of(counts, size, dtype="?"):
    return (np.arange(size) < np.asarray(counts)[..., None]).astype(dtype)


@given(st.data())
def test_masks_part_by_part(data):
    """Masks of all sizes and types, in parts of a few elements; one wrong element is told with its index."""
    draw = data.draw
    sizes = tuple(draw(st.lists(st.integers(1, 5), min_size=2, max_size=4)))
    axis = draw(st.integers(0, len(sizes) - 1))
    shape = tuple(n if d == axis or draw(st.booleans()) else 1 for d, n in enumerate(sizes))
    lines = tuple(n for d, n in enumerate(shape) if d != axis)
    counts = RANDOM.integers(0, sizes[axis] + 1, lines)
    mask = np.moveaxis(mask_of(counts, sizes[axis]), -1, axis).astype(
        draw(st.sampled_from(["?", "u1", "i8", "f4"]))
    )
    wrong = None
    if draw(st.booleans()) and mask.dtype != bool:
        wrong = tuple(draw(st.integers(0, n - 1)) for n in shape)
        mask[wrong] = 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thresholds, "SCANNED_AT_ONCE", draw(st.integers(1, 9)))
        job = make_job(held(np.zeros(sizes)), held(mask), Request("x", "m", axis, mask=True))
        if wrong:
            with pytest.raises(
                FormatError, match=r"the mask has 2(\.0)? at " + re.escape(str([*wrong]))
            ):
                job.lengths.read()
        else:
            assert (job.lengths.read() == np.expand_dims(counts, axis)).all()


def test_a_mask_with_names(revseq, tmp_path):
    counts = lengths("lat")
    mask = xarray.DataArray(mask_of(counts.to_numpy().clip(max=5), 5, "i4").T, dims=("time", "lat"))
    job = (
        by_netcdf4(tmp_path, "v", VALUES),
        by_netcdf4(tmp_path, "m", mask),
        "--axis",
        "time",
        "--mask",
    )
    revseq("run", *job, "-o", "y.npy").ok()
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), right(counts))
    other = (
        by_netcdf4(tmp_path, "o", mask.rename(time="step")),
        by_netcdf4(tmp_path, "p", mask.isel(time=0)),
    )
    revseq("run", job[0], other[0], *job[2:]).refused(
        "its dimension step, of size 5, is not a dimension of"
    )
    revseq("run", job[0], other[1], *job[2:]).refused("the mask has the dimensions lat")


def test_a_mask_in_a_raw_buffer(revseq, tmp_path):
    x = np.arange(24.0).reshape(2, 3, 4)
    np.save(tmp_path / "x.npy", x)
    for counts, sizes, batch in (
        ([[[2]], [[3]]], (2, 4), ("--batch-axis", 0)),
        (np.full((2, 3, 1), 4), (2, 3, 4), ()),
    ):
        mask_of(np.squeeze(counts), 4, "u1").reshape(sizes).tofile(tmp_path / "m.bin")
        revseq(
            "run", "x.npy", "m.bin", "--mask", "--axis", 2, *batch, "-o", "y.npy", "--overwrite"
        ).ok()
        assert oracle.same_bits(
            np.load(tmp_path / "y.npy"), oracle.expected(x, np.broadcast_to(counts, (2, 3, 1)), 2)
        )


@pytest.mark.parametrize(
    ("rows", "index", "value"),
    [
        ([[1, 1, 0], [1, 0, 1], [0, 0, 0]], [1, 2], 1), ([[1, 1, 0], [1, 1, 1], [0, 0, 0.5]], [2, 2], 0.5),
        ([[1, 1, 0], [1, np.nan, 1], [0, 0, 0]], [1, 1], np.nan),
    ],
)  # fmt: skip
def test_a_mask_that_is_none(monkeypatch, rows, index, value):
    monkeypatch.setattr(thresholds, "SCANNED_AT_ONCE", 2)
    job = make_job(
        held(np.zeros((3, 3, 2))),
        held(np.array(rows)),
        Request("x", "m", 1, batch_axis=0, mask=True),
    )
    with pytest.raises(FormatError) as caught:
        job.lengths.read()
    assert f"the mask has {value} at {index}" in str(caught.value)
    assert not caught.value.hint


def test_a_mask_of_zeros_before_ones_can_mean_two_things(monkeypatch):
    """Padding on the left, or ones for the padding: neither is proposed as the one."""
    monkeypatch.setattr(thresholds, "SCANNED_AT_ONCE", 2)
    for axis, rows in ((1, [[0, 0, 0, 1], [1, 1, 1, 1]]), (0, np.transpose([[0, 0, 1, 1]] * 2))):
        job = make_job(
            held(np.zeros(np.shape(rows))),
            held(np.array(rows)),
            Request("x", "m", axis, mask=True),
        )
        with pytest.raises(FormatError) as caught:
            job.lengths.read()
        assert "left padding" in caught.value.hint
        assert "key_padding_mask" in caught.value.hint
        assert "== 0" not in caught.value.hint


@pytest.mark.parametrize(
    ("sizes", "mask", "axis", "batch", "right"),
    [
        ((4, 6, 3), (4, 6), 1, None, (0, 1)), ((4, 6, 3), (6, 4), 1, None, (1, 0)), ((4, 6, 3), (4, 6), 1, 0, (0, 1)),
        ((4, 6, 4), (4, 6), 1, None, "fits the batch axes 0 and 2"),
        ((4, 6, 4), (4, 6), 1, 2, (2, 1)), ((4, 6, 4), (1, 6, 4), 1, None, (None, 1, 2)),
        ((4, 6, 4), (4, 5), 1, None, ".4,5.; expected .4,6,4. or .4,6."),
        # A square one is taken in no order that was not typed, and of a square input it has INPUT's sizes.
        ((4, 4, 3), (4, 4), 1, None, "or .time, batch."), ((4, 4, 3), (4, 4), 0, 1, "or .time, batch."),
        ((4, 4, 3), (4, 4), 1, 0, (0, 1)), ((4, 4, 3), (4, 4, 1), 0, None, (0, 1, None)),
        ((4, 4), (4, 4), 0, 1, "or .time, batch."), ((4, 4), (4, 4), 0, None, (0, 1)), ((4, 4), (4, 4), 1, 0, (0, 1)),
        ((1, 1, 7), (1, 1), 0, 1, (1, 0)), ((5,), (5,), 0, None, (0,)),
    ],
)  # fmt: skip
def test_where_a_mask_goes(sizes, mask, axis, batch, right):
    values, mask = held(np.zeros(sizes)), held(np.zeros(mask))
    if isinstance(right, tuple):
        assert align(values, mask, axis, batch, mask=True) == right
        return
    with pytest.raises(FormatError, match=right):
        align(values, mask, axis, batch, mask=True)


@pytest.mark.parametrize(("size", "dtype"), [((1 << 32) - 1, "u4"), (1 << 32, "u8")])
def test_the_data_type_that_holds_the_ones_of_a_line(size, dtype):
    mask = held(np.zeros((2, 1), "u1"))
    mask.sizes = (2, size)
    assert ScannedSource(mask, 1, [0]).dtype == dtype


@pytest.mark.parametrize(("shape", "axis"), [((1, 5, 4), 1), ((4, 1, 5), 2), ((1, 1, 3, 4), 3)])
def test_one_dimension_with_all_sequences_takes_one_length_for_each_index(
    revseq, tmp_path, shape, axis
):
    values = np.arange(np.prod(shape), dtype="f4").reshape(shape)
    np.save(tmp_path / "x.npy", values)
    [count] = [size for d, size in enumerate(shape) if d != axis and size != 1]
    lengths = np.arange(count) + 1
    np.save(tmp_path / "n.npy", lengths)
    (tmp_path / "n.csv").write_text(",".join(map(str, lengths)) + "\n")
    full = lengths.reshape([size if d != axis else 1 for d, size in enumerate(shape)])
    for name in ("n.npy", "n.csv"):
        revseq("run", "x.npy", name, "--axis", axis, "-o", "y.npy", "--overwrite").ok()
        assert (np.load(tmp_path / "y.npy") == oracle.reverse(values, full, axis)).all()
