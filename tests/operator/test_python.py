"""The functions that a Python program calls: what they take, what they give, and what they refuse."""

import numpy as np
import oracle
import pytest
import xarray

import revseq_cli

VALUES = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
LENGTHS = np.array([[[3, 0, 9]], [[1, 4, 2]]], np.uint32)
RIGHT = oracle.reverse(VALUES, LENGTHS, 1)


class WithArray:
    def __array__(self, dtype=None, copy=None):
        return VALUES


class WithDlpack:
    def __dlpack__(self, **options):
        return VALUES.__dlpack__(**options)

    def __dlpack_device__(self):
        return VALUES.__dlpack_device__()


class Elsewhere:
    """A tensor on a GPU, or with a gradient, as PyTorch refuses it where NumPy asks for an array."""

    requires_grad = True

    def __array__(self, dtype=None, copy=None):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


@pytest.mark.parametrize("name", ["output", "values", "lengths"])
def test_a_tensor_of_which_numpy_makes_no_array_is_told_what_to_give(name):
    tensors = {"output": RIGHT, "values": VALUES, "lengths": LENGTHS} | {name: Elsewhere()}
    words = rf"^{name}: cannot become .*expected {name}.detach\(\).cpu\(\)"
    with pytest.raises(revseq_cli.FormatError, match=words) as caught:
        revseq_cli.explain(*tensors.values(), 1)
    assert isinstance(caught.value.__cause__, TypeError)


@pytest.mark.parametrize(
    "values",
    [VALUES, WithArray(), WithDlpack(), VALUES.tolist()],
    ids=["array", "__array__", "__dlpack__", "list"],
)
@pytest.mark.parametrize("dtype", ["u1", "u8", ">i8", "f2"])
def test_lengths_of_every_number_type_and_values_of_every_package(values, dtype):
    assert (
        revseq_cli.reverse_subsequences(values, LENGTHS.astype(dtype), 1).tolist() == RIGHT.tolist()
    )


MASK = np.arange(4)[None, :, None] < LENGTHS


@pytest.mark.parametrize("dtype", ["bool", "f4"])
def test_a_mask(dtype):
    mask = MASK.astype(dtype)
    assert oracle.same_bits(revseq_cli.reverse_subsequences(VALUES, mask, 1, mask=True), RIGHT)
    assert revseq_cli.explain(RIGHT, VALUES, mask, 1, mask=True).differing == 0
    assert revseq_cli.violations(VALUES, mask, 1, mask=True) == ()
    of_batch = np.array([[1, 1, 0, 0], [1, 1, 1, 1]], dtype)
    right = revseq_cli.reverse_subsequences(VALUES, [2, 4], 1, batch_axis=0)
    assert oracle.same_bits(
        revseq_cli.reverse_subsequences(VALUES, of_batch, 1, batch_axis=0, mask=True), right
    )


def test_padding():
    x = np.array([[1, 2, 0, 3, 0], [0, 0, 0, 0, 0]])
    right = [[3, 0, 2, 1, 0], [0, 0, 0, 0, 0]]
    assert revseq_cli.reverse_subsequences(x, axis=1, padding=0).tolist() == right
    nans = np.where(x == 0, np.nan, x)
    found = revseq_cli.reverse_subsequences(nans, axis=-1, padding=np.nan, batch_axis=0)
    assert oracle.same_bits(found, np.where(np.array(right) == 0, np.nan, right))
    assert revseq_cli.explain(np.array(right), x, axis=1, padding=0).differing == 0
    assert revseq_cli.violations(x.astype("f4"), axis=1, padding=0) == ()


def test_forms_of_lengths_and_axes():
    right = revseq_cli.reverse_subsequences(VALUES, [2, 4], 1, batch_axis=0)
    for lengths, axis, batch in (([[2, 4]], -2, 0), ([[2], [4]], 1, -3), ([2.0, 4.0], 1, 0)):
        assert oracle.same_bits(
            revseq_cli.reverse_subsequences(VALUES, lengths, axis, batch_axis=batch), right
        )
    assert oracle.same_bits(revseq_cli.reverse_subsequences(VALUES, 4, 1), VALUES[:, ::-1])
    assert revseq_cli.reverse_subsequences(np.zeros((3, 0)), [[0]] * 3, 1).shape == (3, 0)


def test_arrays_of_xarray_have_names():
    x = xarray.DataArray(
        VALUES,
        dims=("station", "time", "level"),
        coords={"station": ["a", "b"]},
        attrs={"units": "K"},
        name="v",
    )
    right = revseq_cli.reverse_subsequences(VALUES, [2, 4], 1, batch_axis=0)
    n = xarray.DataArray([2, 4], dims=("station",), coords={"station": ["a", "b"]})
    for lengths, options in (
        (n, {}),
        ([2, 4], {"batch_axis": "station"}),
        (n.drop_vars("station"), {}),
    ):
        found = revseq_cli.reverse_subsequences(x, lengths, "time", **options)
        xarray.testing.assert_identical(found, x.copy(data=right))
    full = xarray.DataArray(LENGTHS, dims=("station", "one", "level")).transpose(
        "level", "station", "one"
    )
    assert oracle.same_bits(revseq_cli.reverse_subsequences(x, full, "time").to_numpy(), RIGHT)
    with pytest.raises(revseq_cli.FormatError, match="its station is not that of values"):
        revseq_cli.reverse_subsequences(x, n.assign_coords(station=["b", "a"]), "time")
    with pytest.raises(
        revseq_cli.UsageError,
        match="no dimension is named tmie; expected one of station, time, level",
    ):
        revseq_cli.reverse_subsequences(x, n, "tmie")


@pytest.mark.parametrize(
    ("arguments", "settings", "error", "words"),
    [
        ((np.ma.masked_array(VALUES), LENGTHS, 1), {}, revseq_cli.FormatError, "values: a masked array"),
        (([[1, 2], [3]], [1, 2], 1), {}, revseq_cli.FormatError, "values: cannot become a NumPy array"),
        ((["a", "b"], [1], 0), {}, revseq_cli.FormatError, "values: its data type is <U1"),
        ((VALUES, LENGTHS > 0, 1), {}, revseq_cli.SpecError, "DataType is BOOL"),
        ((VALUES, [[2, 0, 1, 0]] * 2, 1), {"mask": True, "batch_axis": 0}, revseq_cli.FormatError, "the mask has"),
        ((VALUES, [1, 2]), {}, revseq_cli.UsageError, "no axis is given"), ((VALUES,), {"axis": 1}, revseq_cli.UsageError, "no lengths"),
        ((VALUES, LENGTHS, 1), {"padding": 0}, revseq_cli.UsageError, "padding cannot be combined"),
        ((np.zeros(3, "u1"),), {"axis": 0, "padding": -1}, revseq_cli.UsageError, "does not hold the padding -1"),
        ((np.zeros(3, "u1"),), {"axis": 0, "padding": "x"}, TypeError, "padding is 'x'"),
        ((VALUES, [1, 2], 1), {"batch_axis": 2}, revseq_cli.FormatError, "has 2 lengths; expected 3, one for each index of axis 2"),
        ((VALUES, [1, 2], 1), {"batch_axis": 0.5}, TypeError, "integer"), ((VALUES, [1, 2], 1.5), {}, TypeError, "integer"),
        ((VALUES, LENGTHS, 5), {}, revseq_cli.SpecError, "axis 5 is out of range"),
    ],
)  # fmt: skip
def test_what_is_refused(arguments, settings, error, words):
    with pytest.raises(error, match=words) as caught:
        revseq_cli.reverse_subsequences(*arguments, **settings)
    assert isinstance(caught.value, ValueError | TypeError)
    assert "--" not in str(caught.value)  # options are for the command


def test_explain():
    whole = revseq_cli.explain(VALUES[:, ::-1], VALUES, LENGTHS, 1)
    assert [each.text for each in whole.mistakes] == ["whole sequences are reversed"]
    assert (whole.differing, whole.first) == ((VALUES[:, ::-1] != RIGHT).sum(), (0, 0, 0))
    assert revseq_cli.explain(RIGHT, VALUES, LENGTHS, 1) == (0, None, None, ())
    with pytest.raises(revseq_cli.SpecError, match="DataType is BOOL"):
        revseq_cli.explain(RIGHT, VALUES, LENGTHS > 0, 1)
    for output, words in (
        (RIGHT.astype("c8"), "a tensor"),
        (RIGHT.astype(object), "its data type is object"),
    ):
        with pytest.raises(revseq_cli.FormatError, match=f"output: {words}"):
            revseq_cli.explain(output, VALUES, LENGTHS, 1)


def test_explain_within_a_tolerance():
    def near(values, **settings):
        return revseq_cli.explain(values, VALUES, LENGTHS, 1, **settings)

    close = RIGHT * np.float32(1 + 2**-20)
    close[0, 0, 0] += 1
    for settings in ({"rtol": 1e-5}, {"rtol": 0, "atol": 1e-3}, {"ulp": 16}):
        assert near(close, **settings)[:2] == (1, (0, 0, 0))
    minus = np.where(RIGHT == 0, -RIGHT, RIGHT)
    assert (near(minus).differing, near(minus, equal_nan=True).differing) == (1, 0)
    for setting in ("atol", "rtol", "ulp"):
        with pytest.raises(
            revseq_cli.UsageError, match=f"{setting}: -1; expected a number of at least 0"
        ):
            near(RIGHT, **{setting: -1})
    with pytest.raises(TypeError, match="integer"):
        near(RIGHT, ulp=0.5)


def test_violations_take_what_the_others_take():
    signed = ("SequenceLengthsTensor", "DataType", "INT64")
    for arguments, settings, expected in (
        ((WithDlpack(), LENGTHS, 1), {}, []),
        ((VALUES, [2, 4], 1), {"batch_axis": 0}, [signed]),
        ((VALUES, [2, 4], 1, "none"), {"batch_axis": 0}, []),
        ((VALUES, LENGTHS, 3), {}, [("InputTensor", "Axis", "3")]),
        ((VALUES, LENGTHS[:1], 1, "4_0"), {}, [("SequenceLengthsTensor", "Sizes", "{1,1,3}")]),
    ):
        broken = revseq_cli.violations(*arguments, **settings)
        assert all(isinstance(each, revseq_cli.Constraint) for each in broken)
        assert [(each.tensor, each.property, each.found) for each in broken] == expected
    with pytest.raises(TypeError, match=r"feature_level is .*; expected a string"):
        revseq_cli.violations(VALUES, LENGTHS, 1, 5.0)


FRAMES = np.array([[[1, 5], [0, 6], [0, 0]], [[0, 3], [4, 4], [8, 0]]], "f4")


def test_padding_of_three_dimensions():
    words = r"batch_axis=0\n.*batch_axis='none'"
    with pytest.raises(revseq_cli.UsageError, match=words) as caught:
        revseq_cli.reverse_subsequences(FRAMES, axis=1, padding=0)
    assert "--" not in str(caught.value)
    for batch_axis, lengths in ((0, [[[2, 2]], [[3, 3]]]), ("none", [[[1, 2]], [[3, 2]]])):
        found = revseq_cli.reverse_subsequences(FRAMES, axis=1, padding=0, batch_axis=batch_axis)
        assert oracle.same_bits(found, oracle.reverse(FRAMES, np.array(lengths), 1))
    for wrong in (2**24 + 1, 1e39, 1 + 1j, np.float64(16777217)):
        with pytest.raises(revseq_cli.UsageError, match="does not hold the padding"):
            revseq_cli.reverse_subsequences(FRAMES[0], axis=1, padding=wrong)
    for right in (np.float32(0), np.array(0), True, 0j):
        revseq_cli.reverse_subsequences(FRAMES[0], axis=1, padding=right)


@pytest.mark.parametrize(
    ("lengths", "axes", "words"),
    [
        ([1, 2], {"axis": 1}, "has 2 lengths; expected 6, .*batch_axis=0"),
        ([1, 2], {}, "expected axis 0 to 2\n.*\n.*: axis=1, batch_axis=0\n"),
        ([0, 2, 5], {"axis": 1, "batch_axis": 0}, "has 3 lengths; expected 2, .*numpy.diff"),
        ([1, 2, 3, 4], {"axis": 1}, "has 4 lengths; expected 6, .*2 with batch_axis=0; 3 with batch_axis=2"),
        (np.ones((2, 4), bool), {"axis": 1}, "mask=True"),
    ],
)  # fmt: skip
def test_messages_name_parameters_of_the_function(lengths, axes, words):
    for function in (revseq_cli.reverse_subsequences, revseq_cli.violations):
        if function is revseq_cli.violations and "batch_axis" not in axes and axes:
            continue
        with pytest.raises(ValueError, match=words) as caught:
            function(VALUES, lengths, **axes)
        assert "--" not in str(caught.value)


def test_times_of_xarray_are_compared():
    days = np.array(["2001-01-01", "2001-01-02"], "M8[ns]")
    x = xarray.DataArray(np.arange(6.0).reshape(2, 3), dims=("day", "t"), coords={"day": days})
    n = xarray.DataArray([3, 2], dims="day", coords={"day": days.astype("M8[D]")})
    assert revseq_cli.reverse_subsequences(x, n, "t").values.tolist() == [[2, 1, 0], [4, 3, 5]]
    for other in (days[::-1], days - days[0], np.array([0, 1])):
        with pytest.raises(revseq_cli.FormatError, match="its day is not that of values"):
            revseq_cli.reverse_subsequences(x, n.assign_coords(day=other), "t")
