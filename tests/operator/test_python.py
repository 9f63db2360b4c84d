"""The functions that a Python program calls: what they take, what they give, and what they refuse."""

import numpy as np
import oracle
import pytest

import revseq_cli
from revseq_cli.ground.tensors import DataType

VALUES = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
LENGTHS = np.array([[[3, 0, 9]], [[1, 4, 2]]], np.uint32)
RIGHT = oracle.reverse(VALUES, LENGTHS, 1)


class WithArray:
    """A tensor that has only one of the two ways in; WithDlpack has the other."""

    def __array__(self, dtype=None, copy=None):
        return VALUES


class WithDlpack:
    def __dlpack__(self, **options):
        return VALUES.__dlpack__(**options)

    def __dlpack_device__(self):
        return VALUES.__dlpack_device__()


@pytest.mark.parametrize(
    "values", [VALUES, WithArray(), WithDlpack(), VALUES.tolist()], ids=["array", "__array__", "__dlpack__", "list"]
)
@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", ">i8"])
def test_lengths_of_every_integer_type_and_values_of_every_package(values, dtype):
    assert revseq_cli.reverse_subsequences(values, LENGTHS.astype(dtype), 1).tolist() == RIGHT.tolist()


def test_lengths_without_the_axis_and_of_a_batch_axis():
    assert oracle.same_bits(revseq_cli.reverse_subsequences(VALUES, LENGTHS[:, 0], 1), RIGHT)
    right = oracle.reverse(VALUES, np.broadcast_to(np.array([2, 4], "u4").reshape(2, 1, 1), (2, 1, 3)), 1)
    assert oracle.same_bits(revseq_cli.reverse_subsequences(VALUES, [2, 4], 1, batch_axis=0), right)


@pytest.mark.parametrize(
    ("like", "axis", "batch_axis"),
    [("onnx", 0, 1), ("torch", 0, 1), ("pytorch", 0, 1), ("mxnet", 0, 1)],
)
def test_like_another_system(like, axis, batch_axis):
    lengths = np.array([2, 1, 0, 2])
    right = oracle.reverse(VALUES, np.broadcast_to(lengths.reshape(1, 4, 1), (1, 4, 3)).astype("u4"), 0)
    assert oracle.same_bits(revseq_cli.reverse_subsequences(VALUES, lengths, like=like), right)
    assert oracle.same_bits(
        revseq_cli.reverse_subsequences(VALUES, lengths, axis, batch_axis=batch_axis, like=like), right
    )


def test_out():
    out = np.empty_like(VALUES)
    assert revseq_cli.reverse_subsequences(VALUES, LENGTHS, 1, out=out) is out
    assert oracle.same_bits(out, RIGHT)
    itself = VALUES.copy()
    revseq_cli.reverse_subsequences(itself, LENGTHS, 1, out=itself)
    assert oracle.same_bits(itself, RIGHT)
    before, masked, fixed = VALUES.tolist(), np.ma.masked_array(VALUES.copy(), VALUES == 1), VALUES.copy()
    fixed.flags.writeable = False
    repeated = np.lib.stride_tricks.as_strided(VALUES.copy(), VALUES.shape, (48, 0, 4))
    for found, *others in (
        ("has the shape", out[:1], out.astype("f8"), out.astype(">f4")),
        ("is a list", before),
        ("is a WithDlpack", WithDlpack()),
        ("is a MaskedArray", masked),
        ("is read-only", fixed),
        ("has elements that are one in memory", repeated),
    ):
        for other in others:
            with pytest.raises(revseq_cli.FormatError, match=f"out: {found}.*; wanted: a NumPy array to write"):
                revseq_cli.reverse_subsequences(VALUES, LENGTHS, 1, out=other)
    assert (before, masked.mask.sum()) == (VALUES.tolist(), 1)
    row = np.empty_like(VALUES[0])[None]  # of which the stride is 0, along a dimension of size 1
    assert oracle.same_bits(revseq_cli.reverse_subsequences(VALUES[:1], LENGTHS[:1], 1, out=row), RIGHT[:1])


@pytest.mark.parametrize(
    ("arguments", "settings", "error", "words"),
    [
        ((np.ma.masked_array(VALUES), LENGTHS, 1), {}, revseq_cli.FormatError, "values: is a masked array"),
        ((VALUES, np.ma.masked_array(LENGTHS), 1), {}, revseq_cli.FormatError, "lengths: is a masked array"),
        ((VALUES, -LENGTHS.astype("i8"), 1), {}, revseq_cli.FormatError, "-3 at .* does not fit"),
        ((VALUES, [1, 2]), {}, revseq_cli.UsageError, "no axis is given"),
        ((VALUES, [1, 2]), {"like": "tensorflow"}, revseq_cli.UsageError, "no axis is given"),
        ((VALUES, [1, 2]), {"like": "caffe"}, revseq_cli.UsageError, "no system is named 'caffe'"),
        ((VALUES, LENGTHS, 1), {"like": ""}, revseq_cli.UsageError, "no system is named ''"),
        ((VALUES, LENGTHS, 1), {"like": 0}, revseq_cli.UsageError, "no system is named 0"),
        ((VALUES, [1, 9, 1, 1]), {"like": "onnx"}, revseq_cli.FormatError, "9 at .* is above the axis size"),
        ((VALUES, [1, 2], 1), {"batch_axis": 2}, revseq_cli.FormatError, "one length for each index of axis 2"),
        ((VALUES, [1, 2], 1), {"batch_axis": 0.5}, TypeError, "integer"),
        ((VALUES, [1, 2], "1"), {}, TypeError, "integer"),
        ((VALUES, LENGTHS.astype("f4"), 1), {}, revseq_cli.SpecError, "DataType is FLOAT32"),
    ],
)  # fmt: skip
def test_what_is_refused(arguments, settings, error, words):
    with pytest.raises(error, match=words) as caught:
        revseq_cli.reverse_subsequences(*arguments, **settings)
    assert isinstance(caught.value, ValueError | TypeError)


def test_explain():
    whole = revseq_cli.explain(VALUES[:, ::-1], VALUES, LENGTHS, 1)
    assert whole.mistakes == ("whole lines are reversed, whatever their lengths are",)
    assert whole.differing == (VALUES[:, ::-1] != RIGHT).sum()
    assert whole.first == (0, 0, 0)
    assert revseq_cli.explain(RIGHT, VALUES, LENGTHS, 1) == (0, None, ())
    assert revseq_cli.explain(VALUES, VALUES, [2, 1, 0, 2], like="onnx").mistakes
    with pytest.raises(revseq_cli.FormatError, match="output: is a tensor"):
        revseq_cli.explain(RIGHT.astype("f8"), VALUES, LENGTHS, 1)
    with pytest.raises(revseq_cli.FormatError, match="output: its data type is object"):
        revseq_cli.explain(RIGHT.astype(object), VALUES, LENGTHS, 1)


def test_explain_has_the_place_of_parts():
    wrong = RIGHT.copy()
    wrong[:, 2:] = 0
    assert revseq_cli.explain(wrong, VALUES, LENGTHS, 1).mistakes == ("zeros from index 2 of dimension 1 on",)


def test_violations_take_what_the_others_take():
    def found(values, *arguments, **settings):
        broken = revseq_cli.violations(values, *arguments, **settings)
        assert all(isinstance(each, revseq_cli.Constraint) for each in broken)
        return [(each.tensor, each.property, each.found) for each in broken]

    signed = ("SequenceLengthsTensor", "DataType", "INT64")
    assert found(WithDlpack(), LENGTHS, 1) == []
    assert found(VALUES, LENGTHS[:, 0], 1) == []
    assert found(VALUES, [2, 4], 1, batch_axis=0) == [signed]
    assert found(VALUES, [2, 4], 1, "none", batch_axis=0) == [signed]
    assert found(VALUES, [2, 1, 0, 2], like="onnx") == []
    assert found(VALUES, LENGTHS, 3) == [("InputTensor", "Axis", "3")]
    sizes = ("SequenceLengthsTensor", "Sizes", "{1,1,3}")
    assert found(VALUES, LENGTHS[:1], 1, "4_0") == [sizes]
    (one,) = revseq_cli.violations(VALUES, LENGTHS, 1, "2_1")[:1]
    assert [each.partition("=")[0] for each in repr(one)[11:-1].split(", ")][:3] == ["tensor", "property", "found"]
    assert not {"ok", "hint", "matching"} & {each.partition("=")[0] for each in repr(one)[11:-1].split(", ")}
    with pytest.raises(revseq_cli.FormatError, match="values: is a masked array"):
        revseq_cli.violations(np.ma.masked_array(VALUES), LENGTHS, 1)
    for level in (None, 5, 5.0):
        with pytest.raises(TypeError, match=r"feature_level is .*; wanted: a string"):
            revseq_cli.violations(VALUES, LENGTHS, 1, level)


def test_an_exception_shows_what_is_wrong():
    with pytest.raises(revseq_cli.SpecError) as caught:
        revseq_cli.reverse_subsequences(VALUES, LENGTHS, 5)
    assert repr(caught.value) == f"SpecError({str(caught.value)!r})"
    assert "Axis is 5" in repr(caught.value)


@pytest.mark.parametrize("data_type", DataType, ids=lambda each: each.name)
def test_explain_any_data_type(data_type):
    values = oracle.random_values(np.random.default_rng(1), (3, 5), data_type)
    lengths = np.array([[2], [5], [0]], "u4")
    right = revseq_cli.reverse_subsequences(values, lengths, 1)
    assert revseq_cli.explain(right, values, lengths, 1) == (0, None, ())
