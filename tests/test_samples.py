"""The samples as golden cases: accepted ones give their OutputTensor, refused ones their message; and what makes them.

`pytest --rewrite-samples` writes them anew; the change is then reviewed like any other.
"""

import subprocess

import h5py
import numpy as np
import onnx
import oracle
import pytest
from conftest import COMMAND, ROOT, SAMPLES

from revseq_cli.core.dtypes import describe, dtype_of
from revseq_cli.core.tensors import DataType
from revseq_cli.text.numbers import tensor_text

# The reference page's two examples: input, lengths, axis.
INPUT = np.arange(1, 13, dtype=np.float32).reshape(1, 1, 3, 4)
EXAMPLES = {
    "example1": (INPUT, np.array([[[[2], [4], [3]]]], np.uint32), 3),
    "example2": (INPUT, np.array([[[[2, 3, 1, 0]]]], np.uint32), 2),
}


def _numbers(name, *sizes):
    count = int(np.prod(sizes))
    return (np.arange(count) % 100 + 1).astype(dtype_of(DataType[name])).reshape(sizes)


def _lengths(*lengths, sizes, name="UINT32"):
    return np.array(lengths, dtype_of(DataType[name])).reshape(sizes)


def _bits():
    bits = [0x7FC00001, 0x80000000, 0x7F800000, 0xFFC00000, 0x00000001, 0x7FC00000, 0x3DCCCCCD, 0xFF7FFFFF]
    return np.array(bits, np.uint32).view(np.float32).reshape(2, 4)


# Name -> input, lengths, axis: whole jobs, with the OutputTensor that they must get.
ACCEPTED = {
    "rank1-int8": (_numbers("INT8", 5), _lengths(3, sizes=(1,)), 0),
    "rank2-float16-axis0": (_numbers("FLOAT16", 4, 3), _lengths(4, 2, 0, sizes=(1, 3)), 0),
    "rank2-float32-bits": (_bits(), _lengths(4, 3, sizes=(2, 1)), 1),
    "rank2-int64-clamped": (_numbers("INT64", 2, 3), _lengths(2**64 - 1, 2**32, sizes=(2, 1), name="UINT64"), 1),
    "rank3-uint16-per-element": (_numbers("UINT16", 2, 3, 2), _lengths(1, 2, 0, 9, sizes=(2, 1, 2)), 1),
    "rank5-uint8": (_numbers("UINT8", 1, 2, 1, 3, 2), _lengths(2, 3, 1, 0, sizes=(1, 2, 1, 1, 2)), 3),
    "rank8-float64": (
        _numbers("FLOAT64", 1, 2, 1, 1, 2, 1, 3, 1) / 4,
        _lengths(3, 2, 1, 0, sizes=(1, 2, 1, 1, 2, 1, 1, 1)),
        6,
    ),
}

# Name -> text of a job, options: each is refused with the message in its .err file.
_JOB = """InputTensor: (Sizes:{sizes}, DataType:{type})
{values}

SequenceTensor: (Sizes:{lengths_sizes}, DataType:{lengths_type})
{lengths}

Axis: {axis}
"""


def _job(sizes="{2,2}", type="FLOAT32", values="[[1, 2], [3, 4]]", lengths_sizes="{2,1}", lengths_type="UINT32",
         lengths="[[2], [1]]", axis="1"):  # fmt: skip
    return _JOB.format(**locals())


REFUSED = {
    "axis-negative": (_job(axis="-3"), ()),
    "axis-out-of-range": (_job(axis="2"), ()),
    "axis-missing": (_job().replace("Axis: 1\n", ""), ()),
    "axis-twice": (_job() + "Axis: 0\n", ()),
    "lengths-fraction": (_job(lengths="[[2.5], [1]]"), ()),
    "lengths-missing": (_job().replace("SequenceTensor", "OtherTensor"), ()),
    "lengths-negative": (_job(lengths="[[-1], [1]]"), ()),
    "lengths-sizes": (_job(lengths_sizes="{1,2}", lengths="[[2, 1]]"), ()),
    "level-data-type": (_job(type="FLOAT64"), ("--feature-level", "4_0")),
    "level-everything": (_job(type="INT64", lengths_type="UINT64", axis="2"), ("--feature-level", "3_0")),
    "level-too-low": (_job(), ("--feature-level", "2_0")),
    "level-rank": (_job(), ("--feature-level", "2_1")),
    "number-too-large": (_job(type="UINT8", values="[[1, 2], [300, 4]]"), ()),
    "number-inexact": (_job(values="[[1, 2], [3, 16777217]]"), ()),
    "rows-ragged": (_job(values="[[1, 2], [3]]"), ()),
    "sizes-differ": (_job(values="[[1, 2, 3], [4, 5, 6]]"), ()),
    "bracket-open": (_job(values="[[1, 2], [3, 4]"), ()),
    "type-differs": (_job(), ("--dtype", "INT8")),
}


# A job as it comes from a model: lengths of rank 1, one for each of 3 sequences of up to 5 steps of 2 features. A port of
# the operator that takes each length as one too small gives PORTED.
PORT = np.arange(1, 31, dtype=np.float32).reshape(3, 5, 2), np.array([5, 2, 3])
PORTED = oracle.expected(PORT[0], np.repeat(PORT[1] - 1, 2).reshape(3, 1, 2), 1)

# A test of ONNX's operator: its axes, input and lengths.
ONNX_TEST = {"time_axis": 1, "batch_axis": 0}, INPUT.reshape(3, 4), np.array([2, 4, 3])


def job_text(values, lengths, axis):
    """A job with the OutputTensor that the slow loop gives."""
    tensors = {"InputTensor": values, "SequenceTensor": lengths, "OutputTensor": oracle.reverse(values, lengths, axis)}
    parts = [tensor_text(name, describe(tensor), tensor) for name, tensor in tensors.items()]
    return "\n\n".join([*parts[:2], f"Axis: {axis}", parts[2]]) + "\n"


def _json(values):
    desc = describe(values)
    # Integral values only, which JSON writes as they are.
    return f'{{"DataType": "{desc.data_type.name}", "Sizes": {list(desc.sizes)}, "Values": {values.astype(int).tolist()}}}\n'


def write_onnx_test(folder, axes, values, lengths):
    """A model of ReverseSequence, and its inputs."""
    node = onnx.helper.make_node("ReverseSequence", ["x", "lengths"], ["y"], **axes)
    tensors = {"x": values, "lengths": lengths, "y": values}
    types = {name: onnx.helper.np_dtype_to_tensor_dtype(each.dtype) for name, each in tensors.items()}
    infos = [onnx.helper.make_tensor_value_info(name, types[name], each.shape) for name, each in tensors.items()]
    graph = onnx.helper.make_graph([node], "sample", infos[:2], infos[2:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 10)], ir_version=9)
    folder.mkdir(exist_ok=True)
    onnx.save(model, folder / "model.onnx")
    np.save(folder / "x.npy", values)
    np.save(folder / "lengths.npy", lengths)


def write(folder, message_of):
    """Write every sample; `message_of(path, options)` runs the command and gives its message."""
    for name, (values, lengths, axis) in EXAMPLES.items():
        (folder / f"{name}.txt").write_text(job_text(values, lengths, axis))
        for suffix, tensor in (("", values), ("-lengths", lengths)):
            np.save(folder / f"{name}{suffix}.npy", tensor)
            (folder / f"{name}{suffix}.json").write_text(_json(tensor))
        with h5py.File(folder / f"{name}.h5", "w", track_order=False) as file:
            file["input"], file["lengths"] = values, lengths
    write_onnx_test(folder / "onnx", *ONNX_TEST)
    (folder / "port").mkdir(exist_ok=True)
    for name, tensor in zip(("x", "lengths", "gpu"), (*PORT, PORTED), strict=True):
        np.save(folder / "port" / f"{name}.npy", tensor)
    for sub in ("accepted", "refused"):
        (folder / sub).mkdir(exist_ok=True)
    for name, job in ACCEPTED.items():
        (folder / "accepted" / f"{name}.txt").write_text(job_text(*job))
    for name, (text, options) in REFUSED.items():
        path = folder / "refused" / f"{name}.txt"
        path.write_text(text)
        path.with_suffix(".err").write_text(message_of(path, options))


# README's picture: two sequences, and the padding behind them.
PICTURE = ("run", "[[1, 2, 3, 0, 0], [4, 5, 6, 7, 0]]", "[3, 4]", "--axis", "1", "--batch-axis", "0", "--picture")


@pytest.fixture(scope="session", autouse=True)
def rewritten(request):
    """Write the samples anew where that is asked for."""
    if request.config.getoption("--rewrite-samples"):

        def message_of(path, options):
            command = [*COMMAND, "run", path.relative_to(ROOT), *options]
            return subprocess.run(command, cwd=ROOT, capture_output=True, check=False, text=True).stderr

        write(SAMPLES, message_of)
        subprocess.run([*COMMAND, *PICTURE, "picture.svg", "--overwrite"], cwd=SAMPLES, capture_output=True, check=True)


@pytest.mark.parametrize("name", [*EXAMPLES, *(f"accepted/{name}" for name in ACCEPTED)])
def test_accepted(revseq, name):
    """--example prints the file itself again, to the letter."""
    path = SAMPLES / f"{name}.txt"
    assert revseq("run", path, "--example").ok().out == path.read_text()


@pytest.mark.parametrize("name", REFUSED)
def test_refused(revseq, name):
    path = f"samples/refused/{name}.txt"
    done = revseq("run", path, *REFUSED[name][1], cwd=ROOT).refused(path)
    assert done.err == (ROOT / path).with_suffix(".err").read_text()


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize(
    ("values", "lengths"),
    [("{}.npy", "{}-lengths.npy"), ("{}.json", "{}-lengths.json"), ("{}.h5::input", "{}.h5::/lengths"),
     ("{}.txt::InputTensor", "{}.txt::SequenceTensor"), ("{}.npy", "{}.h5::lengths")],
)  # fmt: skip
def test_examples_in_every_format(revseq, name, values, lengths):
    axis = EXAMPLES[name][2]
    done = revseq("run", values.format(name), lengths.format(name), "--axis", axis, cwd=SAMPLES).ok()
    text = (SAMPLES / f"{name}.txt").read_text()
    assert done.out == text[text.index("OutputTensor") :]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_pages_numbers(name):
    values, lengths, axis = EXAMPLES[name]
    expected = {
        "example1": [[[[2, 1, 3, 4], [8, 7, 6, 5], [11, 10, 9, 12]]]],
        "example2": [[[[5, 10, 3, 4], [1, 6, 7, 8], [9, 2, 11, 12]]]],
    }[name]
    assert oracle.reverse(values, lengths, axis).tolist() == expected
    assert np.load(SAMPLES / f"{name}.npy").tolist() == values.tolist()


def test_the_onnx_sample(revseq, tmp_path):
    """It is current, ONNX's checker takes the model, and the command its tensors."""
    write_onnx_test(tmp_path, *ONNX_TEST)
    paths = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    assert len(paths) == 3
    assert all((tmp_path / path).read_bytes() == (SAMPLES / "onnx" / path).read_bytes() for path in paths)
    onnx.checker.check_model(SAMPLES / "onnx" / "model.onnx", full_check=True)


def test_the_picture_of_the_readme(revseq, tmp_path):
    """The same bytes, wherever and whenever it is drawn."""
    revseq(*PICTURE, tmp_path / "x.svg", cwd=SAMPLES).ok()
    assert (tmp_path / "x.svg").read_bytes() == (SAMPLES / "picture.svg").read_bytes()
