"""The functions that a Python program calls: what they take, what they give, and what they refuse."""

import json

import numpy as np
import oracle
import pytest

import revseq_cli

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


class TorchTensor:
    """A tensor of PyTorch, as far as it tells what it is; and what PyTorch raises where NumPy asks for an array."""

    def __init__(self, dtype, error, device="cpu", requires_grad=False):
        self.dtype, self._error, self.device, self.requires_grad = dtype, error, device, requires_grad

    def __array__(self, dtype=None, copy=None):
        raise self._error

    def __dlpack__(self, **options):
        raise AssertionError("__array__ comes first")


class TorchType:
    def __init__(self, name, itemsize):
        self.name, self.itemsize = name, itemsize

    def __repr__(self):
        return f"torch.{self.name}"


GRADIENT = "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
BFLOAT16, FLOAT8 = "Got unsupported ScalarType BFloat16", "Got unsupported ScalarType Float8_e4m3fn"
DEVICE = "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
KEPT = r", which keeps the bits; or .float\(\) in the place of .view\(torch.uint"


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (TorchTensor(TorchType("float32", 4), RuntimeError(GRADIENT), requires_grad=True), r"given.detach\(\)$"),
        (TorchTensor(TorchType("bfloat16", 2), TypeError(BFLOAT16)), rf"given.view\(torch.uint16\){KEPT}16\)$"),
        (TorchTensor(TorchType("float8_e4m3fn", 1), TypeError(FLOAT8)), rf"given.view\(torch.uint8\){KEPT}8\)$"),
        (
            TorchTensor(TorchType("bfloat16", 2), RuntimeError(GRADIENT), "cuda:0", True),
            rf"given.detach\(\).cpu\(\).view\(torch.uint16\){KEPT}16\)$",
        ),
        (TorchTensor(TorchType("int64", 8), TypeError(DEVICE), "cuda:0"), r"given.cpu\(\)$"),
        (
            TorchTensor(TorchType("complex64", 8), RuntimeError("conjugate bit")),
            "a NumPy array, or an object that NumPy can",
        ),
    ],
)
def test_a_tensor_of_which_numpy_makes_no_array_is_told_what_to_give(tensor, words):
    for name, call in (
        ("values", lambda: revseq_cli.reverse_subsequences(tensor, LENGTHS, 1)),
        ("lengths", lambda: revseq_cli.reverse_subsequences(VALUES, tensor, 1)),
        ("values", lambda: revseq_cli.violations(tensor, LENGTHS, 1)),
        ("output", lambda: revseq_cli.explain(tensor, VALUES, LENGTHS, 1)),
    ):
        with pytest.raises(
            ValueError, match=f"^{name}: cannot become a NumPy array: .*; wanted: {words.replace('given', name)}"
        ) as caught:
            call()
        assert isinstance(caught.value, revseq_cli.FormatError)
        assert caught.value.__cause__ is tensor._error


def test_a_tensor_that_dlpack_does_not_hand_over():
    class Elsewhere(WithDlpack):
        def __dlpack__(self, **options):
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")

    with pytest.raises(revseq_cli.FormatError, match="values: cannot become a NumPy array: Can't export"):
        revseq_cli.reverse_subsequences(Elsewhere(), LENGTHS, 1)


@pytest.mark.parametrize(
    "values", [VALUES, WithArray(), WithDlpack(), VALUES.tolist()], ids=["array", "__array__", "__dlpack__", "list"]
)
@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", ">i8"])
def test_lengths_of_every_integer_type_and_values_of_every_package(values, dtype):
    assert revseq_cli.reverse_subsequences(values, LENGTHS.astype(dtype), 1).tolist() == RIGHT.tolist()


MASK = np.arange(4)[None, :, None] < LENGTHS


@pytest.mark.parametrize("dtype", ["bool", "u1", "i4", "i8", "f4"])
def test_a_mask(dtype):
    mask = MASK.astype(dtype)
    assert oracle.same_bits(revseq_cli.reverse_subsequences(VALUES, mask, 1, mask=True), RIGHT)
    assert revseq_cli.explain(RIGHT, VALUES, mask, 1, mask=True).differing == 0
    assert revseq_cli.violations(VALUES, mask, 1, mask=True) == ()
    of_batch = np.array([[1, 1, 0, 0], [1, 1, 1, 1]], dtype)
    right = revseq_cli.reverse_subsequences(VALUES, [2, 4], 1, batch_axis=0)
    assert oracle.same_bits(revseq_cli.reverse_subsequences(VALUES, of_batch, 1, batch_axis=0, mask=True), right)
    turned = VALUES.swapaxes(0, 1)  # onnx has time first
    assert oracle.same_bits(
        revseq_cli.reverse_subsequences(turned, of_batch.T, like="onnx", mask=True), right.swapaxes(0, 1)
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
        ("has elements that share memory", repeated),
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
    assert [each.text for each in whole.mistakes] == ["whole lines are reversed"]
    assert whole.differing == (VALUES[:, ::-1] != RIGHT).sum()
    assert whole.first == (0, 0, 0)
    assert revseq_cli.explain(RIGHT, VALUES, LENGTHS, 1) == (0, None, None, (), "")
    assert revseq_cli.explain(VALUES, VALUES, [2, 1, 0, 2], like="torch").mistakes
    with pytest.raises(revseq_cli.FormatError, match="output: is a tensor"):
        revseq_cli.explain(RIGHT.astype("c8"), VALUES, LENGTHS, 1)
    with pytest.raises(revseq_cli.FormatError, match="output: its data type is object"):
        revseq_cli.explain(RIGHT.astype(object), VALUES, LENGTHS, 1)


def near(values, *arguments, **settings):
    return revseq_cli.explain(values, VALUES, LENGTHS, 1, *arguments, **settings)


def test_explain_within_a_tolerance():
    close = RIGHT * np.float32(1 + 2**-20)
    close[0, 0, 0] += 1
    assert near(close).differing == np.count_nonzero(close != RIGHT)
    for settings in ({"rtol": 1e-5}, {"rtol": 0, "atol": 1e-3}, {"ulp": 16}):
        assert near(close, **settings)[:2] == (1, (0, 0, 0))
    assert near(close, atol=1, rtol=1e-5).differing == 0
    minus = np.where(RIGHT == 0, -RIGHT, RIGHT)
    assert (near(minus).differing, near(minus, equal_nan=True).differing) == (1, 0)
    nan = VALUES.copy()
    nan[:] = np.nan
    found = {each: revseq_cli.explain(-nan, nan, LENGTHS, 1, equal_nan=each).differing for each in (True, False)}
    assert found == {True: 0, False: VALUES.size}
    wrong = revseq_cli.explain(VALUES[:, ::-1] + 1e-3, VALUES, LENGTHS, 1, atol=1e-2)
    assert [each.text for each in wrong.mistakes] == ["whole lines are reversed"]
    for setting in ("atol", "rtol", "ulp"):
        for number in (-1, float("nan"), float("inf")):
            with pytest.raises(revseq_cli.UsageError, match=f"{setting}: is {number}; wanted: a number of at least 0"):
                near(RIGHT, **{setting: number})
    with pytest.raises(TypeError, match="integer"):
        near(RIGHT, ulp=0.5)


def test_explain_says_what_the_command_says(revseq, tmp_path):
    for name, array in (("x", VALUES), ("n", LENGTHS), ("a", VALUES[:, ::-1].transpose(2, 0, 1) * np.float32(1.0001))):
        np.save(tmp_path / f"{name}.npy", array)
    done = revseq("diff", "a.npy", "--job", "x.npy", "n.npy", "--axis", 1, "--rtol", 1e-3, "--json")
    printed = json.loads(done.out)
    told = near(np.load(tmp_path / "a.npy"), rtol=1e-3)
    assert (printed["different"], printed["wrong_lines"]["count"]) == (told.differing, told.lines.count)
    assert printed["mistakes"] == [each._asdict() for each in told.mistakes]


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
