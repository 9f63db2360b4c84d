"""What makes a job: lengths of any number type and form, axes by numbers and names, presets, padding, levels."""

import json
import math

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

import revseq_cli
from revseq_cli.core import thresholds
from revseq_cli.core.dtypes import numbers
from revseq_cli.core.errors import FormatError
from revseq_cli.core.tensors import DataType
from revseq_cli.pipeline.jobs import make_job
from revseq_cli.pipeline.lengths import as_unsigned as unsigned
from revseq_cli.pipeline.request import Request

X = np.random.default_rng(3).random((4, 10, 6)).astype("f4")
N = np.array([2, 5, 10, 7])
RIGHT = oracle.expected(X, np.broadcast_to(N.reshape(4, 1, 1), (4, 1, 6)), 1)
BATCH = ("--axis", 1, "--batch-axis", 0)


@pytest.fixture
def files(tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "n.npy", N)
    return tmp_path


def result(folder):
    return np.load(folder / "y.npy")


# Lengths


@pytest.mark.parametrize(
    ("lengths", "words"),
    [
        ([2, -5, 3, 7], "-5 at [1] is not a length"), ([2.0, 5.5, 3.0, 7.0], "5.5 at [1] is not a length"),
        ([2, np.nan, 3, 7], "nan at [1] is not a length"), ([2, 3, 2.0**64, 7], "1.8446744073709552e+19 at [2] is not a length"),
        ([True, False, True, True], "DataType is BOOL"), ([1j, 2, 3, 4], "DataType is COMPLEX128"),
    ],
)  # fmt: skip
def test_h12_what_is_no_length_is_told_with_its_index(revseq, files, lengths, words):
    np.save(files / "n.npy", np.array(lengths))
    revseq("run", "x.npy", "n.npy", *BATCH, "-o", "y.npy").refused(words)
    assert not (files / "y.npy").exists()


@pytest.mark.parametrize(
    "data_type", [each for each in DataType if each.kind not in ("bool", "complex")]
)
@pytest.mark.parametrize("target", [None, DataType.UINT32, DataType.UINT64])
def test_lengths_are_exact_or_refused(data_type, target):
    """Against fractions, one value after the other."""
    values = oracle.random_values(np.random.default_rng(1), (200,), data_type)
    if data_type.kind in ("int", "uint", "float"):
        wide = [
            0,
            1,
            2,
            255,
            2049,
            65536,
            2**24 + 1,
            2**31,
            2**32 - 1,
            2**32,
            2**53 + 1,
            2**63,
            2**64 - 1,
        ]
        extra = [*wide, *(-n for n in wide), 0.5, -0.0]
        if data_type.kind != "float":
            bounds = np.iinfo(values.dtype)
            extra = [n for n in extra if isinstance(n, int) and bounds.min <= n <= bounds.max]
        with np.errstate(all="ignore"):
            values = np.concatenate([values, np.array(extra, object).astype(values.dtype)])
    lengths = unsigned(held(values), target)
    largest = np.iinfo(lengths.dtype).max
    assert (
        target or data_type.kind != "int" or largest > np.iinfo(values.dtype).max
    )  # no length is lost without a cast
    for i, number in enumerate(numbers(values).tolist()):
        task = lengths.read_task((slice(i, i + 1),))
        if math.isfinite(number) and number == int(number) and 0 <= number <= largest:
            assert task.read().tolist() == [int(number)]
        else:
            with pytest.raises(FormatError, match=rf" at \[{i}\] "):
                task.read()


def test_one_length_is_for_all_lines(revseq, files):
    right = oracle.expected(X, np.full((4, 1, 6), 3), 1)
    np.save(files / "scalar.npy", np.array(3))
    for job in (("3",), ("[3]",), ("scalar.npy",), ("scalar.npy", "--batch-axis", 0)):
        revseq("run", "x.npy", *job, "--axis", 1, "-o", "y.npy", "--overwrite").ok()
        assert oracle.same_bits(result(files), right)
    revseq("run", "x.npy", "[3]", *BATCH).refused("has 1 length", "4, one for each")


def test_levels_are_for_those_who_choose_them(revseq, files):
    job = ("x.npy", "n.npy", *BATCH)
    revseq("run", *job, "--feature-level", "DML_FEATURE_LEVEL_5_0").refused(
        "INT64", "--lengths-dtype UINT32"
    )
    revseq("run", *job, env={"REVSEQ_FEATURE_LEVEL": "5.0"}).refused("DataType is INT64")
    np.save(files / "x.npy", X.reshape(1, 1, 1, 1, 1, 1, 4, 10, 6).astype("c8"))
    job = ("x.npy", "n.npy", "--axis", 7, "--batch-axis", 6)
    revseq("run", *job, "-o", "y.npy").ok()
    words = "DataType is COMPLEX64", "dimension count is 9", "INT64"
    done = revseq("run", *job, "--feature-level", "5_0").refused(*words)
    assert done.err.count("Error: ") == 4  # all together


@pytest.mark.parametrize("sizes", [(3, 0), (0, 5), (2, 0, 3)])
def test_h11_empty_tensors_are_jobs(revseq, tmp_path, sizes):
    np.save(tmp_path / "x.npy", np.zeros(sizes, "f4"))
    np.save(tmp_path / "n.npy", np.zeros(sizes[:1], "i8"))
    job = ("x.npy", "n.npy", *BATCH)
    revseq("run", *job, "-o", "y.npy").ok()
    assert (tmp_path / "y.npy").read_bytes() == (tmp_path / "x.npy").read_bytes()
    for command in (("check",), ("diff", "y.npy", "--job")):
        revseq(*command, *job).ok()
        revseq(*command, "x.npy", 9, "--axis", 0).ok()
        revseq(*command, "x.npy", "--padding", 0, "--axis", 1, "--batch-axis", 0).ok()
    revseq("run", *job, "--feature-level", "5_0").refused("Sizes is", "sizes of at least 1")


def netcdf(folder, values, dtype, attributes, fill=None):
    with netCDF4.Dataset(folder / "n.nc", "w") as f:
        f.createDimension("lat", len(values))
        n = f.createVariable("n", dtype, ("lat",), fill_value=fill)
        n.set_auto_maskandscale(False)
        n.setncatts(attributes)
        n[:] = np.array(values, dtype)
    return "n.nc"


@pytest.mark.parametrize("attributes", [{"scale_factor": 2.0}, {"add_offset": 3}])
def test_packed_lengths_are_refused_with_what_to_type(revseq, files, attributes):
    zarr.create_array(files / "n.zarr", data=N.astype("i2"), attributes=attributes)
    for name in (netcdf(files, N, "i2", attributes), "n.zarr"):
        revseq("run", "x.npy", name, *BATCH).refused(
            "its lengths are scaled (", "lengths.npy, python -c "
        )
    neutral = netcdf(files, N, "i2", {"scale_factor": 1.0, "add_offset": 0.0})
    revseq("run", "x.npy", neutral, *BATCH, "-o", "y.npy").ok()
    assert oracle.same_bits(result(files), RIGHT)


@pytest.mark.parametrize(
    ("attributes", "dtype", "fill", "lengths", "words"),
    [
        ({}, "u4", 9999, [1, 9999, 2, 9999], "9999 at [1] is a missing length"),
        (
            {"missing_value": np.array([7, 8], "u4")},
            "u4",
            None,
            [8, 2, 3, 7],
            "8 at [0] is a missing length",
        ),
        ({}, "f8", np.nan, [1, 2, np.nan, 3], "nan at [2] is not a length"),
        (
            {},
            "u4",
            None,
            [1, 4294967295, 2, 3],
            "4294967295 at [1] is a missing length",
        ),  # NetCDF's default
    ],
)
def test_missing_lengths_are_refused(revseq, files, attributes, dtype, fill, lengths, words):
    name = netcdf(files, lengths, dtype, attributes, fill)
    revseq("run", "x.npy", name, *BATCH, "-o", "y.npy").refused("n.nc", words)
    assert not (files / "y.npy").exists()


@pytest.mark.parametrize("version", [2, 3])
def test_a_fill_value_of_zarr_itself_is_a_length(revseq, files, version):
    made = zarr.create_array(
        files / "n.zarr", shape=4, dtype="u4", fill_value=5, zarr_format=version
    )
    made[:] = N
    revseq("run", "x.npy", "n.zarr", *BATCH, "-o", "y.npy").ok()
    assert oracle.same_bits(result(files), RIGHT)


# Axes


def test_negative_axes_count_from_the_end(revseq, files):
    for axis, batch in ((-2, 0), (1, -3)):
        revseq(
            "run",
            "x.npy",
            "n.npy",
            "--axis",
            axis,
            "--batch-axis",
            batch,
            "-o",
            "y.npy",
            "--overwrite",
        ).ok()
        assert oracle.same_bits(result(files), RIGHT)
    np.save(files / "full.npy", np.ones((4, 1, 6), "u4"))
    for axis in (-4, 3):
        revseq("run", "x.npy", "n.npy", "--axis", axis, "--batch-axis", 0).refused(
            f"axis {axis} is out of range", "-3 to 2"
        )
        revseq("run", "x.npy", "full.npy", "--axis", axis).refused(
            f"axis {axis} is out of range", "-3 to 2"
        )
    for batch in (1, 3):
        told = f"the batch axis is {batch}", "not the reversed"
        revseq("run", "x.npy", "n.npy", "--axis", 1, "--batch-axis", batch).refused(*told)


@pytest.mark.parametrize(
    ("like", "options", "axis", "batch"),
    [
        ("onnx", (), 0, 1), ("onnx", ("--axis", 1), 1, 0), ("onnx", ("--batch-axis", 0), 1, 0), ("pytorch", ("--axis", -2), 1, 0),
        ("pytorch", ("--axis", 2, "--batch-axis", 0), 2, 0), ("tensorflow", (), 1, 0), ("tensorflow", ("--axis", 0), 0, 1),
        ("TensorFlow", ("--axis", -1), 2, 0),
    ],
)  # fmt: skip
def test_presets_of_axes(revseq, files, like, options, axis, batch):
    lengths = np.arange(X.shape[batch]) % 5
    np.save(files / "n.npy", lengths)
    revseq("run", "x.npy", "n.npy", "--like", like, *options, "-o", "y.npy").ok()
    sizes = [size if d == batch else 1 for d, size in enumerate(X.shape)]
    wide = np.broadcast_to(
        lengths.reshape(sizes), [1 if d == axis else n for d, n in enumerate(X.shape)]
    )
    assert oracle.same_bits(result(files), oracle.expected(X, wide, axis))


@pytest.mark.parametrize("length", ["[4]", "4"])
def test_one_length_for_one_sequence(revseq, tmp_path, length):
    x = np.arange(15).reshape(5, 3)
    np.save(tmp_path / "x.npy", x)
    revseq("run", "x.npy", length, "--like", "pytorch", "-o", "y.npy").ok()
    assert oracle.same_bits(result(tmp_path), np.concatenate([x[3::-1], x[4:]]))


def test_axes_by_their_names(revseq, tmp_path):
    xarray.DataArray(X, dims=("station", "time", "level"), name="v").to_netcdf(tmp_path / "x.nc")
    job = ("x.nc::v", "[2, 5, 10, 7]", "--axis", "time", "--batch-axis", "station")
    revseq("run", *job, "-o", "y.npy").ok()
    assert oracle.same_bits(result(tmp_path), RIGHT)
    with h5py.File(tmp_path / "b.h5", "w") as f:
        f["v"] = X > 0.5
        f["v"].dims[0].label, f["v"].dims[1].label = "station", "time"
    revseq("run", "b.h5::v", *job[1:], "--dtype", "UINT8", "-o", "y.npy", "--overwrite").ok()
    assert oracle.same_bits(result(tmp_path), (RIGHT > 0.5).view("u1"))
    words = "no dimension is named tmie", "one of station, time, level, or 0 to 2"
    revseq("run", *job[:2], "--axis", "tmie").refused(*words)
    revseq("run", *job[:2]).refused("no axis is given", words[1])
    assert (
        revseq("run", *job[:4])
        .refused(": revseq run")
        .err.endswith("--axis time --batch-axis station\n")
    )


def test_a_number_is_never_a_name(revseq, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        for name, labels in (("x", "10y"), ("twice", "\x1b\x1bc")):
            x = f.create_dataset(name, data=np.zeros((3, 3, 3), "f4"))
            x.dims[0].label, x.dims[1].label, x.dims[2].label = labels
    for axis in ("0", " 0 ", "+0", "0.0", "-3"):
        assert (
            json.loads(revseq("check", "x.h5::x", "[[[1]]]", "--axis", axis, "--json").out)["axis"]
            == 0
        )
    revseq("run", "x.h5::twice", "1", "--axis", "\x1b").refused(
        r"2 dimensions are named \x1b", "0 to 2"
    )


@pytest.mark.parametrize("axis", ["1.5", "-0.1", "9" * 5000, "", "time", "0x1", "1e0", "inf"])
def test_h15_what_is_neither_a_number_nor_a_name(revseq, files, axis):
    words = f"no dimension is named {axis[:80]}\n" if axis else "is empty"
    assert len(revseq("run", "x.npy", "[[[1]]]", "--axis", axis).refused(words).err) < 300


def test_bool_as_bytes_is_in_a_file_alone(revseq, tmp_path):
    np.savez(tmp_path / "x.npz", v=X > 0.5, w=X)
    job = ("x.npz::v", "[2, 5, 10, 7]", *BATCH, "--dtype", "UINT8", "-o", "y.npz")
    assert "1 other tensor (w)" in revseq("run", *job).ok().err
    assert np.load(tmp_path / "y.npz").files == ["v"]


def test_bool_as_bytes_in_parts_of_lines(revseq, tmp_path):
    x = np.random.default_rng(5).random((2, 1 << 18)) > 0.5
    np.save(tmp_path / "x.npy", x)
    job = (
        "x.npy",
        "[[200000], [3]]",
        "--axis",
        1,
        "--dtype",
        "UINT8",
        "--memory",
        "256KiB",
        "-o",
        "y.npy",
    )
    revseq("run", *job, "--engine", "processes", "--jobs", 2).ok()
    assert oracle.same_bits(
        result(tmp_path), oracle.expected(x.view("u1"), np.array([[200000], [3]]), 1)
    )


# Padding


@pytest.mark.parametrize("dtype", ["f2", "?", "c8", ">i2"])
def test_padding_tells_the_lengths(revseq, tmp_path, dtype):
    x = np.array([[1, 0, 3, 0, 0], [0, 0, 0, 0, 0], [1, 2, 3, 4, 5]]).astype(dtype)
    np.save(tmp_path / "x.npy", x)
    right = oracle.expected(x, np.array([[3], [0], [5]]), 1)
    job = ("x.npy", "--padding", 0, "--axis", 1)
    revseq("run", *job, "-o", "y.npy").ok()
    assert oracle.same_bits(result(tmp_path), right)
    revseq("diff", "y.npy", "--job", *job).ok()
    counts = {"total": 3, "clamped": 0, "unchanged": 1, "least": 0, "greatest": 5}
    assert json.loads(revseq("check", *job, "--json").ok().out)["length_counts"] == counts


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("x.npy", "--padding", "-1"), "does not hold the padding -1"), (("x.npy", "--padding", "0.5"), "does not hold the padding 0.5"),
        (("x.npy", "--padding", "nan"), "does not hold the padding nan"), (("x.npy", "--padding", "256"), "does not hold the padding 256"),
        (("x.npy", "--padding", "zero"), "'zero' is not a number"), (("x.npy", "[1]", "--padding", "0"), "--padding and LENGTHS cannot"),
        (("x.npy", "--padding", "0", "--mask"), "--padding and --mask cannot"), (("x.npy",), "no lengths are given"),
        (("x.npy", "--padding", "0", "--batch-axis", "1"), "the batch axis is 1"),
        (("x.npy", "--padding", "0", "--axis", "7"), "axis 7 is out of range"),
    ],
)  # fmt: skip
def test_padding_that_is_none(revseq, tmp_path, args, words):
    np.save(tmp_path / "x.npy", np.ones((3, 4), "u1"))
    revseq("run", *args, *(() if "--axis" in args else ("--axis", 1))).refused(words)


@given(st.data())
def test_padding_block_by_block(data):
    """In parts of a few elements, as a tensor of any size is read; of a number, and of NaN."""
    draw = data.draw
    sizes = tuple(draw(st.lists(st.integers(0, 5), min_size=1, max_size=4)))
    axis = draw(st.integers(0, len(sizes) - 1))
    batch = draw(st.none() | st.sampled_from([d for d in range(len(sizes)) if d != axis] or [None]))
    x = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 3, sizes).astype("i4")
    is_nan = draw(st.booleans())
    values = np.where(x == 0, np.nan, x) if is_nan else x
    request = Request(
        "x",
        axis=axis,
        batch_axis="none" if batch is None else batch,
        padding=math.nan if is_nan else 0,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thresholds, "SCANNED_AT_ONCE", draw(st.integers(1, 9)))
        found = make_job(held(values), None, request).lengths.read()
    places = np.arange(1, sizes[axis] + 1).reshape(
        [-1 if d == axis else 1 for d in range(len(sizes))]
    )
    ends = np.where(x != 0, places, 0).max(axis, keepdims=True, initial=0)
    if batch is not None:
        others = tuple(d for d in range(len(sizes)) if d != batch)
        ends = np.broadcast_to(ends.max(others, keepdims=True, initial=0), ends.shape)
    assert found.shape == ends.shape
    assert (found == ends).all()


# Whole frames, or each sequence for itself
FRAMES = np.array([[[1, 5], [0, 6], [2, 0], [0, 0]], [[0, 3], [4, 4], [0, 7], [8, 0]]], "f4")


@pytest.mark.parametrize("command", [("run",), ("check",), ("diff", "x.npy", "--job")])
def test_padding_of_three_dimensions_asks_what_is_meant(revseq, tmp_path, command):
    np.save(tmp_path / "x.npy", FRAMES)
    job = ("x.npy", "--padding", 0, "--axis", 1)
    done = revseq(*command, *job).refused(": --batch-axis 0\n", ": --batch-axis none\n")
    assert "revseq run" not in done.err
    np.save(tmp_path / "x.npy", FRAMES[0])
    revseq("run", *job).ok()  # with two dimensions, nothing is asked
    revseq("run", *job, "--batch-axis", "none").ok()


@pytest.mark.parametrize(
    ("options", "lengths"),
    [
        (("--batch-axis", 0), [[[3, 3]], [[4, 4]]]),
        (("--like", "tensorflow"), [[[3, 3]], [[4, 4]]]),
        (("--batch-axis", "none"), [[[3, 2]], [[4, 3]]]),
        (("--batch-axis", "none", "--like", "tensorflow"), [[[3, 2]], [[4, 3]]]),
    ],
)
def test_padding_of_three_dimensions(revseq, tmp_path, options, lengths):
    np.save(tmp_path / "x.npy", FRAMES)
    job = ("x.npy", "--padding", 0, "--axis", 1, *options)
    right = oracle.expected(FRAMES, np.array(lengths), 1)
    revseq("run", *job, "-o", "y.npy").ok()
    assert oracle.same_bits(result(tmp_path), right)
    typed = {"input": "x.npy", "padding": 0, "axis": 1, "output": "z.npy"}
    for name, value in zip(options[::2], options[1::2], strict=True):
        typed[name.removeprefix("--")] = value
    (tmp_path / "jobs.jsonl").write_text(json.dumps(typed))
    revseq("batch", "jobs.jsonl").ok()
    assert oracle.same_bits(np.load(tmp_path / "z.npy"), right)
    counts = json.loads(revseq("check", *job, "--json").ok().out)["length_counts"]
    assert (counts["least"], counts["greatest"]) == (np.min(lengths), 4)
    least = np.min(lengths)
    assert f"from {least} to 4, found by the padding 0" in revseq("check", *job).ok().out


@pytest.mark.parametrize(
    ("dtype", "value", "is_held"),
    [
        ("f4", "1e39", False), ("f4", "16777217", False), ("f4", "16777216", True), ("f4", "1e20", True),
        ("f4", "0.1", True), ("f4", "-inf", True), ("f4", "nan", True), ("f2", "65520", False), ("f2", "65504", True),
        ("f8", "9007199254740993", False), ("f8", "1" + "0" * 39, False), ("f8", "1e300", True), ("?", "2", False),
        ("?", "1", True), ("?", "nan", False), ("u1", "inf", False), ("i8", "9223372036854775807", True),
        ("i8", "9223372036854775808", False), ("c8", "16777217", False), ("c8", "0.5", True),
    ],
)  # fmt: skip
def test_padding_that_the_data_type_does_not_hold(revseq, tmp_path, dtype, value, is_held):
    x = np.zeros((2, 3), dtype)
    if is_held:
        number = int(value) if value.lstrip("-").isdecimal() else float(value)
        x = np.array([[1, number, number], [1, 1, number]]).astype(dtype)
        if dtype == "?":
            x = np.array([[0, 1, 1], [0, 0, 1]], dtype)
    np.save(tmp_path / "x.npy", x)
    done = revseq("check", "x.npy", f"--padding={value}", "--axis", 1, "--json")
    assert "Warning" not in done.err
    if not is_held:
        assert done.status == 2
        assert "does not hold the padding" in done.out
        return
    counts = json.loads(done.ok().out)["length_counts"]
    assert (counts["least"], counts["greatest"]) == (1, 2)


@pytest.mark.parametrize("data_type", ["bfloat16", "float8_e4m3fn", "float8_e8m0fnu"])
def test_padding_of_minifloats(data_type):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = getattr(ml_dtypes, data_type)
    x = np.array([[1, 4, 2, 2], [1, 2, 2, 2]]).astype(dtype)
    found = revseq_cli.reverse_subsequences(x, axis=1, padding=2).astype("f4")
    assert found.tolist() == [[4, 1, 2, 2], [1, 2, 2, 2]]
    with pytest.raises(revseq_cli.UsageError, match="does not hold the padding 257"):
        revseq_cli.reverse_subsequences(x, axis=1, padding=257)


def test_padding_that_ends_no_sequence_is_noted(revseq, tmp_path):
    np.save(tmp_path / "x.npy", np.array([[5, 0, 1], [7, 8, 9]]))
    job = ("x.npy", "--padding", 0, "--axis", 1)
    commands = (("run",), ("run", "-o", "y.npy"), ("check",), ("diff", "x.npy", "--job"))
    for command in commands:
        assert "no sequence ends with 0" in revseq(command[0], *command[1:], *job).err
    (tmp_path / "jobs.jsonl").write_text('{"input":"x.npy","padding":0,"axis":1,"output":"z.npy"}')
    assert "no sequence ends with 0" in revseq("batch", "jobs.jsonl").ok().err
    np.save(tmp_path / "x.npy", np.array([[5, 0, 0], [7, 8, 9]]))
    assert "no sequence ends" not in revseq("run", *job).ok().err
    np.save(tmp_path / "x.npy", np.zeros((0, 3)))
    assert "no sequence ends" not in revseq("run", *job).ok().err


@pytest.mark.parametrize("form", ["nc", "zarr2", "zarr3", "packed"])
def test_the_fill_value_of_the_file_is_padding_like_nan(revseq, tmp_path, form):
    """Readers show both as NaN; another value that ends no sequence gets a note that names it."""
    x = np.array([[1, 2, np.nan, np.nan], [3, np.nan, 4, np.nan], [5, 6, 7, 8]], "f4")
    encoding = {"_FillValue": -9999.0}
    if form == "packed":
        encoding = {"dtype": "i2", "_FillValue": -9999}
    dataset = xarray.Dataset({"t": (("p", "z"), x)})
    if form != "packed":
        encoding["missing_value"] = -9999.0  # as many files say it
    if form.startswith("zarr"):
        name = "x.zarr"
        dataset.to_zarr(tmp_path / name, zarr_format=int(form[-1]), encoding={"t": encoding})
    else:
        name = "x.nc"
        dataset.to_netcdf(tmp_path / name, encoding={"t": encoding})
    suffix = name.removeprefix("x")
    job = (f"{name}::t", "--axis", "z", "--padding")
    revseq("run", *job, "nan", "-o", f"y{suffix}").ok()
    opened = xarray.open_dataset(tmp_path / f"y{suffix}", engine=None)
    right = oracle.expected(x, np.array([[2], [3], [4]]), 1)
    np.testing.assert_array_equal(opened["t"].to_numpy(), right)
    opened.close()
    note = revseq("run", *job, 0, "-o", f"z{suffix}").ok().err
    assert "no sequence ends with 0" in note
    assert note.count("-9999") == 1


def test_one_length_for_each_index_in_several_dimensions(revseq, files):
    for shape in ((4, 1, 1), (1, 4, 1), (1, 1, 1, 4)):
        np.save(files / "n.npy", np.reshape(N, shape))
        revseq("run", "x.npy", "n.npy", *BATCH, "-o", "y.npy", "--overwrite").ok()
        assert oracle.same_bits(result(files), RIGHT)
    np.save(files / "n.npy", np.ones((4, 2), "u4"))
    revseq("run", "x.npy", "n.npy", *BATCH).refused("has the shape {4,2}", "expected 4, one for")


def test_how_many_lengths_are_expected(revseq, files):
    np.save(files / "n.npy", np.array([1, 2, 3]))
    revseq("run", "x.npy", "n.npy", *BATCH).refused("n.npy: has 3 lengths\n  expected 4, one for")
    done = revseq("run", "x.npy", "n.npy", "--axis", 1)
    done.refused(
        "n.npy: has 3 lengths\n  expected 24, ", "{4,1,6} or {4,6}", "4 with --batch-axis 0"
    )
    np.save(files / "x.npy", X[:, :, 0])
    done = revseq("run", "x.npy", "n.npy", "--axis", 1)
    done.refused("n.npy: has 3 lengths\n  expected 4, ", "{4,1} or {4}")


@pytest.mark.parametrize("axes", [("--axis", 1, "--batch-axis", 0), ("--axis", 1)])
def test_offsets_are_not_lengths(revseq, files, axes):
    """As cu_seqlens and row_splits are: one more than lengths, rising from 0."""
    for offsets, are_offsets in (
        ([0, 2, 7, 7, 10], True),
        ([0, 7, 2, 7, 10], False),
        ([1, 2, 3, 4, 5], False),
    ):
        np.save(files / "n.npy", np.array(offsets))
        err = revseq("run", "x.npy", "n.npy", *axes).refused("has 5 lengths").err
        assert err.endswith("numpy.diff\n") is are_offsets


@pytest.mark.parametrize("suffix", ["h5", "nc", "zarr"])
def test_lengths_in_an_attribute(revseq, tmp_path, suffix):
    name = f"x.{suffix}"
    attributes = {"row_size": np.array([3, 2, 4, 1], "i4"), "units": "K"}
    dataset = xarray.Dataset({"v": (("a", "b"), np.ones((4, 5)), attributes)})
    if suffix == "zarr":
        dataset.to_zarr(tmp_path / name)
    else:
        dataset.to_netcdf(tmp_path / name, engine="h5netcdf")
    job = (f"{name}::v", "--axis", 1)
    for lengths in ((), (f"{name}::/v/row_size",), (f"{name}::v/row_size",)):
        done = revseq("run", job[0], *lengths, *job[1:]).refused("row_size", "revseq show --json ")
        typed = done.err.rpartition("LENGTHS, revseq ")[2].split()
        assert "[3, 2, 4, 1]" in " ".join(revseq(*typed).ok().out.split()).replace(
            "[ ", "["
        ).replace(" ]", "]")
    assert "Hint" not in revseq("run", job[0], f"{name}::v/units2", *job[1:]).refused().err


def test_a_dimension_that_is_named_none(revseq, tmp_path):
    """Its number says which is meant."""
    xarray.Dataset({"v": (("none", "t", "f"), FRAMES)}).to_netcdf(tmp_path / "x.nc")
    job = ("x.nc::v", "--padding", 0, "--axis", "t", "--batch-axis")
    revseq("run", *job, "none").refused("none is a dimension", "the number of the dimension")
    revseq("run", *job, 0, "-o", "y.npy").ok()
    assert oracle.same_bits(
        result(tmp_path), oracle.expected(FRAMES, np.array([[[3, 3]], [[4, 4]]]), 1)
    )
    np.save(tmp_path / "x.npy", np.full((2, 3, 4), 7.0))
    job = ("x.npy", "--padding", 0, "--axis", 1)
    assert "frames of 0" in revseq("run", *job, "--batch-axis", 0).ok().err
    assert "no sequence ends with 0" in revseq("run", *job, "--batch-axis", "none").ok().err


def test_check_says_how_many_lengths_it_takes(revseq, files):
    np.save(files / "n.npy", np.array([1, 2, 3]))
    done = revseq("check", "x.npy", "n.npy", "--axis", 1)
    assert done.status == 1
    assert "n.npy: has 3 lengths, expected 24, one for each sequence" in done.out
