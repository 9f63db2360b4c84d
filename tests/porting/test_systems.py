"""The commands of revseq-porting(7)'s table, run as they stand there and held against the real packages."""

import contextlib
import functools
import json
import re
import shlex
import warnings

import hints
import numpy as np
import oracle
import pytest
from conftest import ROOT

PAGE = (ROOT / "man" / "porting.md").read_text()
# What each row is found by; its command is the one that is run.
SYSTEMS = ("ONNX", "TensorFlow", "PyTorch", "MXNet")
COMMANDS = {name: re.search(rf"^\| {name} .*? \| `revseq (run [^`]*)` \|", PAGE, re.MULTILINE)[1] for name in SYSTEMS}
# The last row, with ONNX's axes.
COMMANDS["any"] = re.search(r"^\| any other \| `revseq (run [^`]*)`", PAGE, re.MULTILINE)[1].replace(
    "--axis 2 --batch-axis 0", "--axis 0 --batch-axis 1"
)
NAMES = {"onnx": "ONNX", "tensorflow": "TensorFlow"}
RNG = np.random.default_rng(7)


def package(name):
    """The package, or the reason why its half of a test is skipped."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return __import__(name)
        except (ImportError, AttributeError) as e:  # the latter from a package that is older than NumPy 2
            pytest.skip(f"{name} cannot be imported here: {type(e).__name__}: {e}")


@pytest.fixture
def ours(revseq, tmp_path):
    """What the row's command makes of x and lengths."""

    def run(name, values, lengths, status=0):
        np.save(tmp_path / "x.npy", values)
        np.save(tmp_path / "lengths.npy", lengths)
        (tmp_path / "y.npy").unlink(missing_ok=True)
        done = revseq(*shlex.split(COMMANDS[name]))
        assert done.status == status, done.err
        return done.err if status else np.load(tmp_path / "y.npy")

    return run


# The axis and the batch axis of the row's command.
AXES = {"ONNX": (0, 1), "TensorFlow": (1, 0), "PyTorch": (1, 0), "MXNet": (0, 1)}


def case(name, length_type=np.int64):
    """Random bits, and a length for each index of the row's batch axis, from 1 to the axis size."""
    axis, batch = AXES[name]
    values = oracle.random_values(RNG, (5, 4, 3), oracle.DATA_TYPES[1])
    return values, RNG.integers(1, values.shape[axis] + 1, values.shape[batch]).astype(length_type)


def onnx_runtime(values, lengths, time_axis, batch_axis):
    onnx, onnxruntime = package("onnx"), package("onnxruntime")
    helper, kinds = onnx.helper, onnx.TensorProto
    node = helper.make_node("ReverseSequence", ["x", "n"], ["y"], time_axis=time_axis, batch_axis=batch_axis)
    x, y = (helper.make_tensor_value_info(name, kinds.FLOAT, [None] * values.ndim) for name in "xy")
    n = helper.make_tensor_value_info("n", helper.np_dtype_to_tensor_dtype(lengths.dtype), [None])
    graph = helper.make_graph([node], "g", [x, n], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 10)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": values, "n": lengths})[0]


def test_onnx(ours):
    values, lengths = case("ONNX")
    expected = onnx_runtime(values, lengths, *AXES["ONNX"])
    assert oracle.same_bits(ours("ONNX", values, lengths), expected)


def test_onnx_defaults_are_those_of_the_row():
    defaults = package("onnx").defs.get_schema("ReverseSequence").attributes
    assert [defaults[name].default_value.i for name in ("time_axis", "batch_axis")] == [*AXES["ONNX"]]


def test_onnx_differs_above_the_axis_size(ours):
    values, lengths = case("ONNX")
    lengths[0] = 6
    with pytest.raises(Exception, match="Invalid sequence length"):
        onnx_runtime(values, lengths, *AXES["ONNX"])
    assert "6 at [0] is above the axis size 5" in ours("ONNX", values, lengths, status=2)
    clamped = np.minimum(lengths, 5)
    assert oracle.same_bits(ours("any", values, lengths), onnx_runtime(values, clamped, *AXES["ONNX"]))


@pytest.mark.parametrize("name", SYSTEMS)
def test_length_0_changes_nothing_and_a_negative_one_is_refused(ours, name):
    values, lengths = case(name)
    assert oracle.same_bits(ours(name, values, lengths * 0), values)
    lengths[1] = -1
    assert "-1 at [1] does not fit UINT32" in ours(name, values, lengths, status=2)


def test_tensorflow_as_documented(ours):
    """The example of the documentation of tf.reverse_sequence."""
    values = np.array(
        [[1, 2, 3, 4, 5, 0, 0, 0], [1, 2, 0, 0, 0, 0, 0, 0], [1, 2, 3, 4, 0, 0, 0, 0], [1, 2, 3, 4, 5, 6, 7, 8]],
        np.int32,
    )
    expected = [[0, 0, 5, 4, 3, 2, 1, 0], [2, 1, 0, 0, 0, 0, 0, 0], [3, 2, 1, 4, 0, 0, 0, 0], [5, 4, 3, 2, 1, 6, 7, 8]]
    assert ours("TensorFlow", values, np.array([7, 2, 3, 5], np.int32)).tolist() == expected


@pytest.mark.parametrize("length_type", [np.int32, np.int64])
def test_tensorflow(ours, length_type):
    tensorflow = package("tensorflow")
    values, lengths = case("TensorFlow", length_type)
    seq_axis, batch_axis = AXES["TensorFlow"]
    expected = tensorflow.reverse_sequence(values, lengths, seq_axis=seq_axis, batch_axis=batch_axis).numpy()
    assert oracle.same_bits(ours("TensorFlow", values, lengths), expected)
    lengths[0] = 6
    with pytest.raises(Exception, match="seq_lens"):
        tensorflow.reverse_sequence(values, lengths, seq_axis=seq_axis, batch_axis=batch_axis)


@pytest.mark.parametrize("batch_first", [True, False])
def test_pytorch(ours, revseq, tmp_path, batch_first):
    torch = package("torch")
    rnn = torch.nn.utils.rnn
    sequences = [torch.from_numpy(RNG.normal(size=(n, 3))) for n in (4, 1, 3)]
    padded = rnn.pad_sequence(sequences, batch_first=batch_first)
    expected = rnn.pad_sequence([s.flip(0) for s in sequences], batch_first=batch_first)
    packed = rnn.pack_padded_sequence(padded, [4, 1, 3], batch_first=batch_first, enforce_sorted=False)
    values, lengths = rnn.pad_packed_sequence(packed, batch_first=batch_first)
    assert torch.equal(values, padded)
    if batch_first:
        found = ours("PyTorch", values.numpy(), lengths.numpy())
        assert not torch.equal(values.flip(1), expected)  # padding and all
    else:  # what the row says of other layouts
        assert "leave out `--axis 1`" in re.search(r"^\| PyTorch .*$", PAGE, re.MULTILINE)[0]
        np.save(tmp_path / "x.npy", values.numpy())
        np.save(tmp_path / "n.npy", lengths.numpy())
        revseq("run", "x.npy", "n.npy", "--like", "pytorch", "-o", "y.npy").ok()
        found = np.load(tmp_path / "y.npy")
    assert oracle.same_bits(found, expected.numpy())


def test_mxnet_as_documented(ours):
    """The example of the documentation of SequenceReverse, with sequence_length=[2,3]."""
    values = np.arange(1, 19, dtype=np.float32).reshape(3, 2, 3)
    expected = [[[7, 8, 9], [16, 17, 18]], [[1, 2, 3], [10, 11, 12]], [[13, 14, 15], [4, 5, 6]]]
    assert ours("MXNet", values, np.array([2.0, 3.0])).tolist() == expected


def test_mxnet_lengths_are_floats(ours):
    values, lengths = case("MXNet", np.float32)
    assert oracle.same_bits(ours("MXNet", values, lengths), ours("MXNet", values, lengths.astype(int)))
    lengths[2] = 2.5
    assert "2.5 at [2] does not fit UINT32" in ours("MXNet", values, lengths, status=2)


def test_mxnet(ours):
    mxnet = package("mxnet")
    values, lengths = case("MXNet")
    array = mxnet.nd.array
    found = mxnet.nd.SequenceReverse(array(values), array(lengths), use_sequence_length=True).asnumpy()
    assert oracle.same_bits(ours("MXNet", values, lengths), found)


def test_check_says_which_axis_is_which(revseq, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((5, 4, 3), np.float32))
    np.save(tmp_path / "lengths.npy", np.array([5, 1, 0, 2]))
    words = ["check", *shlex.split(COMMANDS["ONNX"])[1:-2]]
    done = revseq(*words).ok()
    assert (
        "\nAxis                   0 (12 lines of 5 elements)\n"
        "batch axis             1 is the batch, with a length for each of 4 indices\n"
        "lengths                4 in all, 0 above 5 and clamped, 2 change nothing\n"
    ) in done.out
    report = json.loads(revseq(*words, "--json").ok().out)
    assert (report["Axis"], report["BatchAxis"]) == (0, 1)


@pytest.mark.parametrize(
    ("options", "axis", "batch_axis"),
    [
        (("--like", "onnx"), 0, 1), (("--like", "onnx", "--axis", 1), 1, 0), (("--like", "onnx", "--batch-axis", 1), 0, 1),
        (("--like", "tensorflow", "--axis", 2), 2, 0), (("--like", "tensorflow", "--axis", 0, "--batch-axis", 1), 0, 1),
        (("--like", "pytorch"), 0, 1), (("--like", "pytorch", "--axis", -2), 1, 0), (("--like", "mxnet"), 0, 1),
    ],
)  # fmt: skip
def test_axes_of_a_system(revseq, tmp_path, options, axis, batch_axis):
    values = oracle.random_values(RNG, (5, 4, 3), oracle.DATA_TYPES[1])
    lengths = RNG.integers(0, values.shape[axis] + 1, values.shape[batch_axis])
    np.save(tmp_path / "x.npy", values)
    np.save(tmp_path / "n.npy", lengths)
    revseq("run", "x.npy", "n.npy", *options, "-o", "y.npy").ok()
    spelled_out = ("--axis", axis, "--batch-axis", batch_axis, "--lengths-dtype", "UINT32")
    revseq("run", "x.npy", "n.npy", *spelled_out, "-o", "z.npy").ok()
    assert (tmp_path / "y.npy").read_bytes() == (tmp_path / "z.npy").read_bytes()


def test_a_length_that_a_system_refuses(revseq, tmp_path):
    """The hint spells the options out, and DirectML clamps; systems that check nothing clamp, too."""
    np.save(tmp_path / "x.npy", np.arange(60).reshape(5, 4, 3))
    np.save(tmp_path / "n.npy", np.array([1, 9, 2, 3]))
    for name, axis in (("onnx", ()), ("tensorflow", ("--axis", 2, "--batch-axis", 1))):
        size = 3 if axis else 5
        done = revseq("run", "x.npy", "n.npy", "--like", name, *axis, "-o", f"{name}.npy")
        done.refused(f"n.npy: 9 at [1] is above the axis size {size}", f"at most {size}: ", " refuses it")
        typed = done.err.rpartition("Hint: revseq ")[2]
        assert "--like" not in typed
        assert "1 of 4 lengths exceeds the axis size (" in revseq(*shlex.split(typed)).ok().err
    for name in ("pytorch", "mxnet"):
        assert "1 of 4 lengths exceeds" in revseq("run", "x.npy", "n.npy", "--like", name, "-o", f"{name}.npy").ok().err


FOUR = np.array([1, 2, 0, 5])
# What systems refuse: their names, the sizes of the values, the lengths, the axis and the batch axis, and what is told.
# Axis 1 is meant in each, with one length for each index of axis 0. PyTorch refuses none of it.
REFUSED = {
    "INT32 lengths": (("onnx",), (4, 5), FOUR.astype("i4"), (1, 0), "DataType is INT32"),
    "INT8 lengths": (("onnx", "tensorflow"), (4, 5), FOUR.astype("i1"), (1, 0), "DataType is INT8"),
    "UINT32 lengths": (("onnx", "tensorflow"), (4, 5), FOUR.astype("u4"), (1, 0), "DataType is UINT32"),
    "FLOAT32 lengths": (("onnx", "tensorflow"), (4, 5), FOUR.astype("f4"), (1, 0), "DataType is FLOAT32"),
    "6 dimensions": (("tensorflow",), (2, 3, 1, 2, 1, 2), FOUR[:2], (1, 0), "dimension count is 6"),
    "an axis from the end": (("onnx", "tensorflow"), (4, 5), FOUR, (-1, 0), "the axis is -1"),
    "a batch axis from the end": (("onnx", "tensorflow"), (4, 5), FOUR, (1, -2), "the batch axis is -2"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_system_refuses(revseq, tmp_path, name):
    systems, sizes, lengths, (axis, batch_axis), told = REFUSED[name]
    values = oracle.random_values(RNG, sizes, oracle.DATA_TYPES[1])
    np.save(tmp_path / "x.npy", values)
    np.save(tmp_path / "n.npy", lengths)
    right = oracle.expected(
        values, np.broadcast_to(lengths.reshape(-1, *[1] * (len(sizes) - 1)), (*sizes[:1], 1, *sizes[2:])), 1
    )
    axes = ("--axis", str(axis), "--batch-axis", str(batch_axis))
    for system in (*systems, "pytorch"):
        args = ["run", "x.npy", "n.npy", "--like", system, *axes, "-o", "y.npy"]
        if system in systems:
            args = hints.typed(args, revseq(*args).refused(f"{told}\n  wanted: ", f", as {NAMES[system]}").err)
            assert not (tmp_path / "y.npy").exists()
        revseq(*args).ok()
        assert oracle.same_bits(np.load(tmp_path / "y.npy"), right)
        (tmp_path / "y.npy").unlink()


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("system", ["onnx", "tensorflow"])
def test_the_system_itself_refuses_that(system, name):
    """ONNX's schema has the axes 0 and 1, and ONNX Runtime does not hold negative ones against it."""
    systems, sizes, lengths, (axis, batch_axis), _ = REFUSED[name]
    values, is_refused = np.zeros(sizes, np.float32), system in systems
    if system == "onnx":
        refused = r"Type 'tensor\(\w+\)' of input parameter \(n\)" if is_refused and min(axis, batch_axis) >= 0 else ""
        run = functools.partial(onnx_runtime, values, lengths, axis, batch_axis)
    else:
        tensorflow = package("tensorflow")
        refused = "Tlen|Unhandled input dimensions|Invalid (seq|batch)_dim" if is_refused else ""
        lengths = tensorflow.constant(lengths)
        run = functools.partial(tensorflow.reverse_sequence, values, lengths, seq_axis=axis, batch_axis=batch_axis)
    with pytest.raises(Exception, match=refused) if refused else contextlib.nullcontext():
        run()


def test_text_has_no_data_type_that_a_system_refuses(revseq):
    done = revseq("run", "[[1, 2, 3], [4, 5, 6]]", "[3, 1]", "--like", "tensorflow", "--axis", "1").ok()
    assert "[[3, 2, 1],\n [4, 5, 6]]" in done.out


def test_lengths_of_another_rank_are_no_systems(revseq, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((5, 4)))
    np.save(tmp_path / "n.npy", np.zeros((1, 4), "u4"))
    revseq("run", "x.npy", "n.npy", "--like", "onnx").refused(
        "dimension count is 2", "1: ONNX has one length", "--like onnx"
    )
