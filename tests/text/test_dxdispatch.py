"""DxDispatch's models: what export writes, that run reads it back to the same bits, and what a model may not do."""

import io
import json
import os

import numpy as np
import oracle
import pytest
from conftest import SAMPLES
from folders import names
from growth import is_linear

from revseq_cli.core import system
from revseq_cli.core.dtypes import dtype_of
from revseq_cli.core.errors import FormatError, RevseqError
from revseq_cli.core.tensors import DataType, TensorDesc
from revseq_cli.pipeline import jobs
from revseq_cli.pipeline.assembly import Request
from revseq_cli.report.words import message
from revseq_cli.text import dxdispatch

ROLES = ("InputTensor", "SequenceLengthsTensor")
FILES = {"model.json", *(f"model.{role}.npy" for role in ROLES)}


def small():
    """A model as somebody writes it by hand."""
    desc = {
        "InputTensor": {"DataType": "INT32", "Sizes": [2, 3]},
        "SequenceLengthsTensor": {"DataType": "UINT32", "Sizes": [2, 1]},
        "OutputTensor": {"DataType": "INT32", "Sizes": [2, 3]},
        "Axis": 1,
    }
    bindings = {"InputTensor": "x", "SequenceLengthsTensor": "n", "OutputTensor": "y"}
    return {
        "resources": {
            "x": {"initialValuesDataType": "INT32", "initialValues": [1, 2, 3, 4, 5, 6]},
            "n": {"initialValuesDataType": "UINT32", "initialValues": [2, 9]},
            "y": {"initialValuesDataType": "INT32", "initialValues": {"valueCount": 6, "value": 0}},
        },
        "dispatchables": {"op": {"type": "DML_OPERATOR_REVERSE_SUBSEQUENCES", "desc": desc}},
        "commands": [
            {"type": "dispatch", "dispatchable": "op", "bindings": bindings},
            {"type": "print", "resource": "y"},
        ],
    }


REVERSED = [[2, 1, 3], [6, 5, 4]]


@pytest.fixture
def run_model(revseq, tmp_path):
    def run(change=lambda _: None, *args):
        model = small()
        changed = change(model)
        (tmp_path / "model.json").write_text(json.dumps(model) if not isinstance(changed, str) else changed)
        return revseq("run", "model.json", "-f", "npy", *args)

    return run


def values_of(done):
    return np.load(io.BytesIO(done.ok().raw)).tolist()


# export, and back


@pytest.mark.parametrize("data_type", oracle.DATA_TYPES)
def test_an_output_is_filled_with_what_its_type_holds(data_type):
    value = dxdispatch.sentinel(data_type)
    assert np.array(value).astype(dtype_of(data_type)) == value
    assert value not in (0, 1, -1)


def test_what_a_model_says_of_its_values(revseq, tmp_path):
    """All else is what tests/support/dxdispatch.py takes, in the tests of exports."""
    job = ("[[0.1, nan], [-inf, 3]]", "[[2], [4294967295]]", "--axis", 1, "--dtype", "FLOAT16")
    revseq("export", *job, "-o", "m.json").ok()
    resources = json.loads((tmp_path / "m.json").read_text())["resources"]
    assert [resources[name]["initialValues"] for name in (*ROLES, "OutputTensor")] == [
        [0.0999755859375, "nan", "-inf", 3], [2, 4294967295], {"valueCount": 4, "value": -12344}
    ]  # fmt: skip


def test_large_tensors_go_into_files(revseq, tmp_path):
    values = np.arange(1002, dtype=">f4").reshape(3, 334).copy("F")
    np.save(tmp_path / "big.npy", values)
    done = revseq("export", "big.npy", "[[9], [0], [3]]", "--axis", 1, "-o", "model.json", "--json").ok()
    assert [each["path"] for each in json.loads(done.out)["files"]] == ["model.json", "model.InputTensor.npy"]
    assert names(tmp_path) == {"big.npy", "model.json", "model.InputTensor.npy"}
    written = np.load(tmp_path / "model.InputTensor.npy")
    assert (written.dtype.str, written.flags.c_contiguous) == ("<f4", True)
    model = json.loads((tmp_path / "model.json").read_text())
    assert model["resources"]["InputTensor"]["initialValues"] == {"sourcePath": "model.InputTensor.npy"}
    assert model["resources"]["SequenceLengthsTensor"]["initialValues"] == [9, 0, 3]
    target = {"type": "writeFile", "resource": "OutputTensor", "targetPath": "model.OutputTensor.npy"}
    assert model["commands"][1:] == [target | {"dimensions": [3, 334]}]


@pytest.mark.needs("links")
def test_a_plain_npy_beside_the_model_is_named(revseq, files):
    (files / "sub").mkdir()
    done = revseq("export", "x.npy", "n.npy", "--axis", 1, "-o", "model.json", "--files").ok()
    assert done.out.startswith("wrote model.json\n")
    assert names(files) == {"x.npy", "n.npy", "model.json", "sub"}
    revseq("export", "x.npy", "n.npy", "--axis", 1, "-o", "sub/model.json", "--files").ok()
    assert names(files / "sub") == FILES
    (files / "link.npy").symlink_to("sub/model.InputTensor.npy")
    revseq("export", "link.npy", "n.npy", "--axis", 1, "-o", "model.json", "--files", "--overwrite").ok()
    assert "model.InputTensor.npy" in names(files)
    assert revseq("run", "model.json").ok().out == revseq("run", "x.npy", "n.npy", "--axis", 1).out


def test_a_nan_with_its_bits_needs_a_file(revseq, tmp_path):
    job = ("export", "[[nan(0x7fc00001), 2], [3, nan]]", "[[2], [2]]", "--axis", 1, "-o", "model.json")
    revseq(*job, "--inline").refused("INPUT: contains a NaN with unusual bits", "add --files")
    revseq(*job).ok()
    assert revseq("run", "model.json").ok().out.endswith("[[  2, nan(0x7fc00001)],\n [nan,               3]]\n")


def test_widened_and_cast_lengths(revseq, tmp_path):
    np.save(tmp_path / "x.npy", np.arange(24).reshape(2, 3, 4))
    options = ("--axis", 1, "--batch-axis", 0, "--lengths-dtype", "UINT32")
    expected = revseq("run", "x.npy", "[2, 9]", *options).ok().out
    for choice in ("--inline", "--files"):
        revseq("export", "x.npy", "[2, 9]", *options, "-o", "model.json", choice, "--overwrite").ok()
        assert revseq("run", "model.json").ok().out == expected


def test_a_model_of_a_model(revseq, tmp_path):
    revseq("export", SAMPLES / "example2.txt", "-o", "a.json").ok()
    revseq("export", "a.json", "-o", "b.json", "--files").ok()
    revseq("export", "b.json", "-o", "c.json", "--inline").ok()
    assert (tmp_path / "a.json").read_text().replace('"a.', '"c.') == (tmp_path / "c.json").read_text()
    assert revseq("run", "b.json", "--example").ok().out == (SAMPLES / "example2.txt").read_text()


@pytest.mark.parametrize("dtype", [bool, np.complex64])
def test_types_that_directml_lacks(revseq, tmp_path, dtype):
    np.save(tmp_path / "x.npy", np.ones((2, 2), dtype))
    revseq("export", "x.npy", "[[1], [2]]", "--axis", 1, "-o", "m.json").refused("no feature level of DirectML has it")
    assert names(tmp_path) == {"x.npy"}


# models by other hands


def test_a_model_by_hand(run_model):
    assert values_of(run_model()) == REVERSED
    assert values_of(run_model(lambda _: None, "--axis", 0, "[[1, 2, 2]]")) == [[1, 5, 6], [4, 2, 3]]


def test_long_names_and_nested_descs(run_model):
    def change(model):
        op = model["dispatchables"]["op"]
        op["type"] = "REVERSE_SUBSEQUENCES"
        op["Desc"] = op.pop("desc")
        inner = {"DataType": "DML_TENSOR_DATA_TYPE_INT32", "DimensionCount": 2, "Sizes": [2, 3], "Strides": [3, 1]}
        op["Desc"]["InputTensor"] = {"Type": "DML_TENSOR_TYPE_BUFFER", "Desc": inner}
        model["resources"]["x"]["initialValuesDataType"] = "DML_TENSOR_DATA_TYPE_INT32"
        model["commands"][0]["bindings"]["InputTensor"] = {"name": "x"}

    assert values_of(run_model(change)) == REVERSED


def test_comments_and_trailing_commas(run_model):
    text = "/* by hand, */\n" + json.dumps(small(), indent=1)
    for old, new in (("[\n", "[ // a, b]\n"), ('"Axis": 1', '"Axis": 1,'), ("6\n", "6,\n")):
        text = text.replace(old, new)
    assert values_of(run_model(lambda _: text)) == REVERSED


@pytest.mark.parametrize(
    ("initial", "kind", "expected"),
    [
        ({"valueCount": 6, "value": 7}, "INT32", [7] * 6),
        ({"valueCount": 6, "valueStart": -1, "valueDelta": 2}, "INT32", [-1, 1, 3, 5, 7, 9]),
        ({"valueCount": 6, "valueStart": 1, "valueDelta": 0.1}, "FLOAT32", np.add.accumulate(np.array([1] + [0.1] * 5, "f4")).tolist()),
        ({"valueCount": 6, "value": "-inf"}, "FLOAT32", [-np.inf] * 6),
    ],
)  # fmt: skip
def test_generated_values(run_model, initial, kind, expected):
    def change(model):
        model["resources"]["x"] = {"initialValuesDataType": kind, "initialValues": initial}
        for name in ("InputTensor", "OutputTensor"):
            model["dispatchables"]["op"]["desc"][name]["DataType"] = kind
        model["resources"]["n"]["initialValues"] = [0, 1]

    assert np.ravel(values_of(run_model(change))).tolist() == expected


def at(*path, value=None):
    """A change of the model: that value there, or nothing."""

    def change(model):
        for key in path[:-1]:
            model = model[key]
        if value is None:
            del model[path[-1]]
        else:
            model[path[-1]] = value

    return change


OP = ("dispatchables", "op")
DESC = (*OP, "desc")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (at("dispatchables", value={}), ("contains work other", "its dispatchables: none")),
        (at(*OP, "type", value="DML_OPERATOR_GEMM"), ("op (DML_OPERATOR_GEMM)", "DML_OPERATOR_REVERSE_SUBSEQUENCES")),
        (at("dispatchables", "two", value={"type": "hlsl"}), ("op (DML_OPERATOR_REVERSE_SUBSEQUENCES), two (hlsl)",)),
        (at("dispatchables", "two", value=3), ("two (?)",)),
        (at("resources", "x"), ("resources has no x",)),
        (at("resources", value=[]), ("resources of the model is []", "an object")),
        (at("commands"), ("the model has no commands", "case sensitive")),
        (at("commands", value=[]), ("dispatch 0 times",)),
        (at("commands", 0, "dispatchable", value="other"), ("once, the dispatchable op",)),
        (at("commands", 0, "bindings", "InputTensor", value={"name": "x", "elementOffset": 4}), ("InputTensor is bound to",)),
        (at("commands", 0, "bindings", "InputTensor"), ("InputTensor is bound to null",)),
        (at(*DESC), ("dispatchable op has no desc",)),
        (at(*DESC, "Axis"), ("has no Axis",)),
        (at(*DESC, "Axis", value=-1), ("Axis of dispatchable op is -1", "a UINT")),
        (at(*DESC, "Axis", value=True), ("is true", "an integer")),
        (at(*DESC, "Axis", value=7), ("Axis is 7", "use --axis 1")),
        (at(*DESC, "OutputTensor", "Sizes", value=[3, 2]), ("OutputTensor of dispatchable op is (Sizes:{3,2}",)),
        (at(*DESC, "InputTensor", "Sizes", value=[]), ("has 0 Sizes",)),
        (at(*DESC, "InputTensor", "Sizes", value=[2, "3"]), ('a size of InputTensor is "3"',)),
        (at(*DESC, "InputTensor", "Strides", value=[0, 1]), ("Strides of InputTensor is [0, 1]", "packed")),
        (at(*DESC, "InputTensor", "DimensionCount", value=4), ("DimensionCount 4",)),
        (at(*DESC, "InputTensor", "DataType", value="FLOAT99"), ("model.json: 'FLOAT99' is not a data type",)),
        (at("resources", "x", "initialValuesDataType", value="FLOAT32"), ("both must be the same",)),
        (at("resources", "x", "initialValuesDataType"), ("initialValuesDataType of resource x is null",)),
        (at("resources", "x", "initialValues"), ("resource x has no initialValues",)),
        (at("resources", "x", "initialValues", value="deferred"), ('is "deferred"', "sourcePath, value or valueStart")),
        (at("resources", "x", "initialValues", value=[]), ("resource x has no values",)),
        (at("resources", "x", "initialValues", value=[1, 2]), ("has 2 values", "6 values for (Sizes:{2,3}")),
        (at("resources", "x", "initialValues", value=[1, 2, 3, 4, 5, 2**31]), ("at [5] of resource x: 2147483648 does not fit INT32",)),
        (at("resources", "x", "initialValues", value=[1, 2, 3, True, 5, 6]), ("true at [3] of resource x is not a number",)),
        (at("resources", "x", "initialValues", value=[1, 2, 3, "nan", 5, 6]), ("INT32 has no nan",)),
        (at("resources", "x", "initialValues", value={"valueCount": 6, "valueStart": 1}), ("has no valueDelta",)),
        (at("resources", "x", "initialValues", value={"valueCount": 10**50, "value": 1}), ("resource x has 1000000",)),
        (at(*DESC, "InputTensor", "Sizes", value=[2, 0]), ("a size of InputTensor is 0", "1 to 4294967295")),
        (at(*DESC, "InputTensor", "Sizes", value=[9] * 65), ("InputTensor has 65 Sizes", "at most 64")),
        (at("resources", "x", "initialValues", value={"valueCount": 6, "valueStart": 2**31 - 2, "valueDelta": 1}), ("leaves its data type",)),
        (at("resources", "x", "initialValuesOffsetInBytes", value=4), ("has an initialValuesOffsetInBytes",)),
        (lambda model: json.dumps(model)[:-9], ("is not JSON",)),
        (lambda model: json.dumps(model).replace('"Axis": 1', '"Axis": 1, "Axis": 0'), ("has a key twice",)),
        (lambda model: json.dumps(model).replace("[1, 2, 3", "[NaN, 2, 3"), ("has the bare word NaN", '"nan"')),
        (lambda model: json.dumps(model).replace("[1, 2, 3", "[1e999, 2, 3"), ("1e999, which is too large",)),
        (lambda model: json.dumps(model).replace("[1, 2, 3", f"[{'9' * 5000}, 2, 3"), ("a number of thousands of digits",)),
        (lambda model: json.dumps(model).replace("[1, 2, 3", "[" * 100_000), ("is nested too deep",)),
    ],
)  # fmt: skip
def test_models_that_are_refused(tmp_path, monkeypatch, change, words):
    """What the command would print; that it does, and exits with 2, the tests around this one show."""
    monkeypatch.chdir(tmp_path)
    model = small()
    changed = change(model)
    (tmp_path / "model.json").write_text(changed if isinstance(changed, str) else json.dumps(model))
    with pytest.raises(RevseqError) as error:
        jobs.require(jobs.load(Request("model.json")))
    told = message(error.value)
    assert told.startswith("Error: model.json: ")
    assert len(told) < 1000
    for word in words:
        assert word in told


def test_control_characters_of_a_model_are_shown_escaped(run_model):
    assert "\x1b" not in run_model(at(*OP, "type", value="\x1b[31m")).refused("x1b").err


# what a model may read


@pytest.mark.needs("links")
@pytest.mark.parametrize(
    "name",
    ["../x.npy", "sub/x.npy", "./x.npy", "..", "", "/etc/passwd", "{tmp}/x.npy", "sub\\x.npy", "C:x.npy", "x.txt", "link.npy", "sub", "x.npy\0"],
)  # fmt: skip
def test_only_plain_names_beside_the_model(revseq, run_model, tmp_path, name):
    inner = tmp_path / "inner"
    (inner / "sub").mkdir(parents=True)
    for path in (tmp_path / "x.npy", inner / "x.npy", inner / "sub" / "x.npy"):
        np.save(path, np.arange(6, dtype=np.int32).reshape(2, 3))
    (inner / "x.txt").write_bytes((inner / "x.npy").read_bytes())
    (inner / "link.npy").symlink_to("../x.npy")
    model = small()
    at("resources", "x", "initialValues", value={"sourcePath": name.format(tmp=inner)})(model)
    (inner / "model.json").write_text(json.dumps(model))
    for command in ("run", "check", "show") if name == "link.npy" else ("run",):
        done = revseq(command, "inner/model.json")
        done.refused("inner/model.json: InputTensor: sourcePath is ", "in the model's folder")


@pytest.mark.needs("links", "fifos")
def test_a_link_within_the_folder(revseq, tmp_path):
    np.save(tmp_path / "x.npy", np.arange(1, 7, dtype=np.int32).reshape(2, 3))
    (tmp_path / "link.npy").symlink_to("x.npy")
    model = small()
    model["resources"]["x"] = {"initialValues": {"sourcePath": "link.npy"}}
    (tmp_path / "model.json").write_text(json.dumps(model))
    assert values_of(revseq("run", "model.json", "-f", "npy")) == REVERSED
    revseq("run", "model.json", "-o", "x.npy", "--overwrite").refused("is an input of this job")
    revseq("run", "model.json", "-o", "model.json", "--overwrite").refused("is an input of this job")
    revseq("run", "-", stdin=json.dumps(model).encode()).refused("the model came through a pipe")
    np.save(tmp_path / "x.npy", np.zeros((3, 2), np.int32))
    revseq("run", "model.json").refused("holds (Sizes:{3,2}, DataType:INT32)")
    np.save(tmp_path / "x.npy", np.array([object()]), allow_pickle=True)
    revseq("run", "model.json").refused("never loaded")
    os.remove(tmp_path / "x.npy")
    os.mkfifo(tmp_path / "x.npy")
    revseq("run", "model.json").refused("is not a regular file")


def test_a_model_through_a_pipe_and_in_a_text(revseq, tmp_path):
    text = json.dumps(small())
    expected = "OutputTensor: (Sizes:{2,3}, DataType:INT32)\n[[2, 1, 3],\n [6, 5, 4]]\n"
    assert revseq("run", "-", stdin=text.encode()).ok().out == expected
    (tmp_path / "model.txt").write_text(text)
    assert revseq("run", "model.txt").ok().out == expected
    (tmp_path / "model").write_text(text)
    assert revseq("run", "model").ok().out == expected
    assert json.loads(revseq("run", "model", "-f", "json").ok().out)["Values"] == [[2, 1, 3], [6, 5, 4]]


def test_the_tensors_of_a_model(revseq, tmp_path):
    (tmp_path / "model.json").write_text(json.dumps(small()))
    assert revseq("show", "model.json", "-q").ok().out.count("storage          model, resource") == 2
    out = revseq("run", "model.json::InputTensor", "model.json::SequenceLengthsTensor", "--axis", 1).ok().out
    assert out == revseq("run", "model.json").ok().out
    hint = f"Hint: revseq run {system.quoted('[[1], [2]]')} model.json::SequenceLengthsTensor --axis 1\n"
    revseq("run", "[[1], [2]]", "model.json", "--axis", 1).refused("has 2 tensors", hint)
    revseq("run", "model.json", "--dtype", "INT8").refused("its DataType is INT32, and INT8 is asked for")
    checked = revseq("check", "model.json", "--lengths-dtype", "UINT64").ok().out
    assert "DataType:UINT64) model.json: Seq" in " ".join(checked.split())


def test_a_page_that_shows_a_model_is_a_page(revseq, tmp_path):
    page = f"# A page\n\n```json\n{json.dumps(small())}\n```\n\n{(SAMPLES / 'example1.txt').read_text()}"
    (tmp_path / "page.md").write_text(page)
    assert not dxdispatch.is_model(page)
    revseq("verify", "page.md").ok()


def test_generated_values_are_held_against_a_bound():
    desc = TensorDesc(DataType.FLOAT64, (2**30, 2))
    tensor = dxdispatch.Tensor(desc, "x", {"valueCount": 2**31, "valueStart": 0, "valueDelta": 0})
    with pytest.raises(FormatError, match="asks for 17179869184 bytes"):
        tensor.values(np.dtype("f8"))


@pytest.mark.parametrize("piece", ['"\\"', "/*", "//", '"', ", ", "[{"])
def test_time_is_linear(piece):
    def parse(count):
        with pytest.raises(FormatError):
            dxdispatch.parse('{"resources": "dispatchables"' + piece * count)

    assert is_linear(parse, 25_000)


@pytest.mark.parametrize(
    ("binding", "words"),
    [("InputTensor", "which is an input"), ("nope", "has no nope"), (None, "OutputTensor is bound to null")],
)
def test_the_output_is_bound_to_a_resource_of_its_own(revseq, tmp_path, binding, words):
    revseq("export", SAMPLES / "example1.txt", "-o", "model.json").ok()
    model = json.loads((tmp_path / "model.json").read_text())
    model["commands"][0]["bindings"]["OutputTensor"] = binding
    (tmp_path / "model.json").write_text(json.dumps(model))
    for command in ("run", "check"):
        revseq(command, "model.json").refused(words)


def test_a_model_is_an_input_like_the_files_it_names(revseq, files):
    revseq("export", "x.npy", "n.npy", "--axis", 1, "-o", "model.json", "--files").ok()
    before = (files / "model.json").read_bytes()
    for args in (
        ("convert", "model.json::InputTensor", "model.json"),
        ("run", "model.json::InputTensor", "n.npy", "--axis", 1, "-f", "json", "-o", "model.json"),
        ("run", "model.json", "--batch-axis", 0, "-o", "model.json"),
    ):
        done = revseq(*args, "--overwrite")
        assert done.status == 2
    assert (files / "model.json").read_bytes() == before
    first = {"input": "model.json", "output": "y.npy"}
    second = {"input": "[[1]]", "lengths": "[[1]]", "axis": 1, "output": "x.npy", "overwrite": True}
    done = revseq("batch", "-", stdin=f"{json.dumps(first)}\n{json.dumps(second)}".encode()).failed()
    assert "line 1: x.npy is the output of line 2" in done.err


@pytest.mark.parametrize(
    "initial", [[1, 2, 0], {"valueCount": 3, "value": 2}, {"valueCount": 3, "valueStart": 0, "valueDelta": 1}]
)
def test_no_number_becomes_true(initial):
    tensor = dxdispatch.Tensor(TensorDesc(DataType.BOOL, (3,)), "x", initial)
    with pytest.raises(FormatError, match=r"BOOL|leaves its data type"):
        tensor.values(np.dtype("?"))


@pytest.mark.needs("names of bytes")
def test_half_a_character_names_no_file(revseq, files):
    revseq("export", "x.npy", "n.npy", "--axis", 1, "-o", "m.json", "--files").ok()
    model = files / "m.json"
    model.write_text(model.read_text().replace('"x.npy"', '"x\\ud800.npy"'))
    for command in ("run", "show", "check"):
        revseq(command, "m.json").refused("sourcePath is 'x\\ud800.npy'", "the plain name of a .npy file")


@pytest.mark.needs("colons")
@pytest.mark.parametrize("name", ["a:b", "a\\b", "a?b", 'a"b', "a\tb", "a\udcffb"])
def test_a_model_whose_files_nobody_could_read_is_not_written(revseq, files, name):
    """The model itself may have any such name; but it names the file of its result."""
    (files / f"{name}.npy").write_bytes((files / "x.npy").read_bytes())
    job = (f"{name}.npy", "n.npy", "--axis", 1)
    before = {path.name for path in files.iterdir()}
    for way in ("--files", "--inline", "--zip"):
        done = revseq("export", *job, "-o", f"{name}.json", way)
        done.refused("the model would name", "which Windows does not allow", "add -o model.json")
    assert {path.name for path in files.iterdir()} == before
    revseq("export", *job, "-o", "m.json", "--files").ok()
    assert (files / "m.InputTensor.npy").exists()
    assert revseq("run", "m.json").ok().out == revseq("run", *job).ok().out


@pytest.mark.needs("cases")
def test_names_that_are_one_file_on_windows(revseq, files):
    (files / "X.npy").write_bytes((files / "n.npy").read_bytes())
    (files / "M.outputtensor.npy").write_bytes((files / "x.npy").read_bytes())
    for pair in (("x.npy", "X.npy"), ("M.outputtensor.npy", "n.npy")):
        revseq("export", *pair, "--axis", 1, "-o", "m.json", "--files").refused("one file on Windows", "--inline")
        assert not (files / "m.json").exists()
