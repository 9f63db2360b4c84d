"""ONNX: tensors in .pb files, held against the package onnx; nodes of models, against what ONNX Runtime makes of all."""

import itertools
import json
import os

import dxdispatch
import numpy as np
import onnx
import oracle
import pytest
from folders import content
from onnx import TensorProto, helper, numpy_helper

from revseq_cli.core.errors import FormatError, TensorIOError
from revseq_cli.formats.onnx.models import Model
from revseq_cli.formats.onnx.parts import cut_out
from revseq_cli.formats.onnx.tensors import TYPES, read_tensor_file


@pytest.mark.parametrize("number", sorted(TYPES))
def test_fields_of_numbers(tmp_path, number):
    """In place of raw_data, as onnx.helper has it."""
    data_type, proto = TYPES[number], TensorProto(dims=(3, 4), data_type=number)
    values = oracle.random_values(np.random.default_rng(5), (3, 4), data_type)
    if data_type.kind == "complex" or (data_type.size > 2 and data_type.kind == "float"):
        values = np.nan_to_num(values)
        parts = values.view(values.real.dtype).ravel()
        (proto.float_data if parts.itemsize == 4 else proto.double_data).extend(parts.tolist())
    else:
        words = (
            values.view(f"u{data_type.size}")
            if data_type.kind in ("float", "minifloat", "bool")
            else values
        )
        fields = {
            "INT64": proto.int64_data,
            "UINT32": proto.uint64_data,
            "UINT64": proto.uint64_data,
        }
        fields.get(data_type.name, proto.int32_data).extend(words.ravel().tolist())
    (tmp_path / "x.pb").write_bytes(proto.SerializeToString())
    source = read_tensor_file(str(tmp_path / "x.pb"))
    assert source.desc.data_type is data_type
    assert oracle.same_bits(source.read(), values)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"raw_data": bytes(47)}, "damaged"), ({"raw_data": bytes(52)}, "damaged"), ({}, "damaged"),
        ({"data_type": 0, "raw_data": bytes(48)}, "no tensor of ONNX"),
        ({"data_type": 8, "string_data": [b"a"] * 12}, "its data type is ONNX's number 8"),
        ({"data_type": 99}, "its data type is ONNX's number 99"), ({"dims": [3, -4]}, "Sizes is {3,-4}"),
        ({"dims": [1 << 62, 1 << 62], "raw_data": b"x"}, "damaged"), ({"dims": [1] * 65, "raw_data": bytes(4)}, "dimension count 65"),
        ({"data_location": 1}, "its elements are in another file"),
        ({"data_type": 7, "int64_data": [1] * 11}, "damaged"), ({"data_type": 16, "int32_data": [1] * 11}, "damaged"),
    ],
)  # fmt: skip
def test_tensors_that_are_none(revseq, tmp_path, fields, problem):
    proto = TensorProto(**{"dims": [3, 4], "data_type": 1} | fields)
    (tmp_path / "x.pb").write_bytes(proto.SerializeToString())
    revseq("convert", "x.pb", "y.npy").refused("x.pb: ", problem)
    assert not (tmp_path / "y.npy").exists()


def test_names_and_changes(revseq, tmp_path):
    onnx.save_tensor(numpy_helper.from_array(np.arange(3.0), "a"), tmp_path / "x.pb")
    revseq("convert", "x.pb::a", "y.pb::b").ok()
    assert onnx.load_tensor(tmp_path / "y.pb").name == "b"
    revseq("convert", "x.pb::b", "z.pb").refused("x.pb::b: no such tensor", "expected one of a\n")
    revseq("convert", "x.pb", "z.pb::\udcff").refused("is not a tensor name")
    source = read_tensor_file(str(tmp_path / "x.pb"))
    os.utime(tmp_path / "x.pb", ns=(1, 1))
    with pytest.raises(TensorIOError, match="changed while it was read"):
        source.recheck()


def test_more_than_protobuf_can_hold(revseq, tmp_path):
    with open(tmp_path / "x.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "|u1", "fortran_order": False, "shape": (1 << 31,)}
        )
        file.truncate(file.tell() + (1 << 31))
    revseq("convert", "x.npy", "y.pb").refused("y.pb: would be a protobuf message", "out.npy")
    os.truncate(tmp_path / "x.npy", 1 << 32)
    os.rename(tmp_path / "x.npy", tmp_path / "x.pb")
    revseq("show", "x.pb", "--input-format", "onnx").refused(
        "has 4294967296 bytes", "protobuf's limit"
    )


# Models.

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime, an extra, is not installed")
NEW = tuple(map(int, onnxruntime.__version__.split(".")[:2])) >= (1, 28)


def save(path, nodes, inputs, outputs, initializers=(), functions=(), outside=()):
    """Write a model; inputs are names, types and sizes. Elements of initializers `outside` are in model.data."""
    infos = [helper.make_tensor_value_info(*each) for each in inputs]
    ends = [helper.make_tensor_value_info(name, 1, None) for name in outputs]
    for end in ends:
        end.ClearField("type")
    weights = [numpy_helper.from_array(values, name) for name, values in dict(initializers).items()]
    graph = helper.make_graph(nodes, "graph", infos, ends, weights)
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=8, functions=functions)
    for each in model.graph.initializer:
        if each.name in outside:
            onnx.external_data_helper.set_external_data(each, "model.data")
    onnx.save(model, path)
    return model


def reverse(x, n, y, name="", **axes):
    return helper.make_node("ReverseSequence", [x, n], [y], name=name, **axes)


def witness(path, feeds, output):
    """What ONNX Runtime computes of a value, of the whole model."""
    model = onnx.load(path)
    model.graph.output.add(name=output)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run([output], feeds)[0]


def bilstm(path):
    """A model with an LSTM in each direction: its second one reads sequences backwards. Its inputs, too."""
    rng = np.random.default_rng(1)
    weights = {f"{kind}{way}": rng.standard_normal((1, 8, size), np.float32)
               for way in "fb" for kind, size in (("w", 3), ("r", 2))}  # fmt: skip
    weights["one"] = np.array([1])
    nodes = [
        helper.make_node("Cast", ["len"], ["n"], to=TensorProto.INT64),
        helper.make_node("Transpose", ["x"], ["xt"], perm=[1, 0, 2]),
        helper.make_node("LSTM", ["xt", "wf", "rf"], ["yf"], hidden_size=2),
        reverse("xt", "n", "xr", "rev", time_axis=0, batch_axis=1),
        helper.make_node("LSTM", ["xr", "wb", "rb"], ["yr"], hidden_size=2),
        helper.make_node("Squeeze", ["yr", "one"], ["ys"]),
        reverse("ys", "n", "yb"),
    ]
    save(path, nodes, [("x", 1, ["N", "T", 3]), ("len", 6, ["N"])], ["yf", "yb"], weights)
    feeds = {
        "x": rng.standard_normal((4, 5, 3), np.float32),
        "len": np.array([5, 1, 3, 2], np.int32),
    }
    for name, values in feeds.items():
        np.save(path.with_name(f"{name}.npy"), values)
    return feeds


FEED = ("--feed", "x=x.npy", "--feed", "len=len.npy")


@pytest.mark.usefixtures("feeds")
class TestOfAModel:
    """What the commands make of a model whose second LSTM reads sequences backwards."""

    @pytest.fixture
    def feeds(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        return bilstm(tmp_path / "bilstm.onnx")

    def test_the_road_to_directml(self, revseq, tmp_path, feeds):
        cast = ("--lengths-dtype", "UINT32")
        revseq("export", "bilstm.onnx::rev", *FEED, "-o", "job.json").refused(
            "INT64", " ".join(cast)
        )
        revseq("export", "bilstm.onnx::rev", *FEED, "-o", "job.json", *cast).ok()
        dxdispatch.run(tmp_path, "job.json")
        assert oracle.same_bits(
            np.load("job.OutputTensor.npy"), witness("bilstm.onnx", feeds, "xr")
        )
        done = revseq("diff", "job.OutputTensor.npy", "--job", "bilstm.onnx::rev", *FEED).ok()
        assert "equal: 60 elements" in done.out
        if not NEW:
            return  # a ReverseSequence comes before
        revseq("run", "bilstm.onnx::yb", *FEED, "-o", "yb.npy").ok()
        assert oracle.same_bits(np.load("yb.npy"), witness("bilstm.onnx", feeds, "yb"))
        assert (
            "equal: 40 elements" in revseq("diff", "--on", "cpu", "bilstm.onnx::yb", *FEED).ok().out
        )

    def test_check_knows_sizes_without_values(self, revseq):
        assert revseq("check", "bilstm.onnx").ok().out.count("pass  bilstm.onnx::") == 2
        (node,) = json.loads(revseq("check", "bilstm.onnx::rev", "--json").ok().out)["nodes"]
        assert (node["shape"], node["valid"], node["lowest_level"]) == (["T", "N", 3], True, "none")
        # ONNX has lengths of INT64, which no level takes.
        level = ("check", "bilstm.onnx::rev", "--feature-level", "4_0")
        refused = revseq(*level).failed().out
        assert "SequenceLengthsTensor DataType: INT64; add --lengths-dtype UINT32" in refused
        assert (
            "accepted from DML_FEATURE_LEVEL_4_0 on"
            in revseq(*level, "--lengths-dtype", "UINT32").ok().out
        )

    def test_lengths(self, revseq, feeds):
        revseq(
            "run", "bilstm.onnx::rev", "[2, 2, 2, 2]", *FEED, "--batch-axis", 1, "-o", "y.npy"
        ).ok()
        right = oracle.expected(feeds["x"].transpose(1, 0, 2), np.full((1, 4, 3), 2), 0)
        assert oracle.same_bits(np.load("y.npy"), right)
        np.save("len.npy", np.array([-1, 1, 3, 2], np.int32))
        revseq("run", "bilstm.onnx::rev", *FEED).refused("-1 at [0]")

    def test_what_it_comes_from_is_never_replaced(self, revseq, tmp_path):
        before = content(tmp_path)
        for name in before:
            revseq(
                "run", "bilstm.onnx::rev", *FEED, "-o", name, "-f", "npy", "--overwrite"
            ).refused("an input")
        assert content(tmp_path) == before

    @pytest.mark.parametrize(
        ("args", "words"),
        [
            (["bilstm.onnx::rve", *FEED], ["no such ReverseSequence node", "rev, yb"]),
            (["bilstm.onnx", *FEED], ["has 2 ReverseSequence nodes", "bilstm.onnx::rev"]),
            (["bilstm.onnx::rev", *FEED[:2]], ["no values are given for len", "add --feed len=FILE"]),
            (["bilstm.onnx::rev", "--feed", "X=x.npy"], ["matches no input of the model", "did you mean: --feed x=x.npy"]),
            (["bilstm.onnx::rev", *FEED, *FEED], ["the input x is given twice"]),
            (["bilstm.onnx::rev", *FEED[2:], "--feed", "x=len.npy"], ["bilstm.onnx: ONNX Runtime says"]),
            (["bilstm.onnx::rev", "--feed", "x=-", "--feed", "len=-"], ["only one of x and len can be standard input"]),
            (["x.npy", "[1]", *FEED], ["x.npy: --feed is only for ONNX models"]),
        ],
    )  # fmt: skip
    def test_refused(self, revseq, tmp_path, args, words):
        before = content(tmp_path)
        revseq("run", *args, "-o", "y.npy").refused(*words)
        assert content(tmp_path) == before

    def test_without_the_packages(self, revseq):
        run, code = ("run", "bilstm.onnx::rev", *FEED), "import sys; sys.modules[{!r}] = None"
        for package, args in (
            ("onnx", run),
            ("onnxruntime", run),
            ("onnx", ("convert", "x.npy", "y.pb")),
        ):
            revseq(*args, code=code.format(package)).refused(
                f"the package {package}", f"pip install {package}"
            )


def test_a_name_that_says_no_node_is_that_of_its_output(tmp_path):
    """What stands behind ::, for the names of nodes whose outputs are y0, y1 and so on."""
    for names, keys in (
        (["", "b", ""], ["y0", "b", "y2"]), (["a", "a", "b"], ["y0", "y1", "b"]), (["y1", "b"], ["y1", "b"]),
        (["y1", "y0"], ["y1", "y0"]), (["a", "y0", "a"], ["output:y0", "y0", "y2"]),
    ):  # fmt: skip
        nodes = [reverse("x", "n", f"y{i}", name) for i, name in enumerate(names)]
        save(tmp_path / "m.onnx", nodes, [("x", 1, [2, 3]), ("n", 7, [3])], [])
        assert [*Model(str(tmp_path / "m.onnx")).nodes] == keys


def one(path, inputs=(("x", 1, [2, 3]), ("n", 7, [3])), before=(), **more):
    """A model of one node, which reverses x or what is computed of it, by n."""
    axes = more.pop("axes", {})
    return save(path, [*before, reverse("x", "n", "y", "rev", **axes)], inputs, ["y"], **more)


VALUES = ("--feed", "x=[[1, 2, 3], [4, 5, 6]]", "--feed", "n=[1, 2, 2]")
# Of models whose node gets what is computed of u.
U_AND_N = (("u", 1, [2, 3]), ("n", 7, [3]))
OF_U = ("--feed", "u=[[1, 2, 3], [4, 5, 6]]", *VALUES[2:])


@pytest.mark.parametrize(
    ("x", "n", "is_valid", "told"),
    [
        ([2, 3], None, True, "{2,3}"), (["a\x1b" * 30, None], None, True, "{a\\x1b"), (None, [2], True, "Sizes:any"),
        ([2, 3], [3], True, ""), ([2, 3], ["B"], True, ""), (["T", "B"], [3], True, "{T,B}"), (["T", 3], [4], False, ""),
        (["T", "B"], [3, 1], True, ""), (["T", "B"], [3, 2], False, ""),
    ],
)  # fmt: skip
def test_sizes_that_are_known_are_checked_and_open_ones_no_failure(
    revseq, tmp_path, x, n, is_valid, told
):
    one(tmp_path / "m.onnx", [("x", 1, x), ("n", 7, n)])
    done = revseq("check", "m.onnx")
    assert done.status == (0 if is_valid else 1)
    assert ("the lengths n are " in done.out) is not is_valid
    assert told in done.out
    assert told in revseq("show", "m.onnx").ok().out


@pytest.mark.parametrize("sizes", [[2, 3], None])
def test_negative_axes(revseq, tmp_path, sizes):
    one(
        tmp_path / "m.onnx",
        [("x", 1, sizes), ("n", 7, [None])],
        axes={"time_axis": -1, "batch_axis": -2},
    )
    done = revseq("run", "m.onnx", *VALUES[:2], "--feed", "n=[1, 2]", "-f", "json").ok()
    assert json.loads(done.out)["Values"] == [[1, 2, 3], [5, 4, 6]]
    revseq("check", "m.onnx").ok()


@pytest.mark.parametrize(
    "axes", [{"time_axis": 1, "batch_axis": 1}, {"time_axis": 2, "batch_axis": 0}, {"other": 1}]
)
def test_axes_that_the_operator_does_not_have(revseq, tmp_path, axes):
    one(tmp_path / "m.onnx", axes=axes)
    wanted = (
        "0 and 1, in either order"
        if "other" not in axes
        else "the integers time_axis and batch_axis"
    )
    revseq("run", "m.onnx", *VALUES).refused(wanted)
    if "other" not in axes:
        assert revseq("check", "m.onnx").failed().out.startswith("FAIL  m.onnx::rev: ")


def test_inputs_with_a_value_of_their_own_may_be_fed(revseq, tmp_path):
    one(tmp_path / "m.onnx", initializers={"n": np.array([1, 2, 2])})
    values = ("run", "m.onnx", *VALUES[:2], "-f", "json")
    assert json.loads(revseq(*values).ok().out)["Values"] == [[1, 5, 6], [4, 2, 3]]
    assert json.loads(revseq(*values, "--feed", "n=[2, 1, 2]").ok().out)["Values"] == [
        [4, 2, 6],
        [1, 5, 3],
    ]


def test_no_output_replaces_the_external_data_of_the_model(revseq, tmp_path):
    one(tmp_path / "m.onnx", initializers={"n": np.array([1, 2, 2])}, outside=["n"])
    before = content(tmp_path)
    done = revseq("run", "m.onnx", *VALUES[:2], "-o", "model.data", "-f", "npy", "--overwrite")
    done.refused("model.data: the output is also an input")
    assert content(tmp_path) == before


def test_a_name_is_never_taken_for_the_output_of_another_node(revseq, tmp_path):
    nodes = [reverse("x", "n", "z", "y"), reverse("x", "k", "y", "z")]
    save(tmp_path / "m.onnx", nodes, [("x", 1, [2, 3]), ("n", 7, [3]), ("k", 7, [3])], [])
    done = revseq("run", "m.onnx::y", *VALUES, "-f", "json").ok()
    assert json.loads(done.out)["Values"] == [[1, 5, 6], [4, 2, 3]]


def test_an_input_with_an_equals_sign_in_its_name(revseq, tmp_path):
    nodes = [reverse("x=1", "n", "y", "rev")]
    save(tmp_path / "m.onnx", nodes, [("x=1", 1, [2, 3]), ("n", 7, [3])], ["y"])
    done = revseq("run", "m.onnx", "--feed", "x=1=[[1, 2, 3], [4, 5, 6]]", *VALUES[2:]).ok()
    assert "[[1, 5, 6]" in done.out


def test_int32_lengths_fail_as_onnx_has_int64(revseq, tmp_path):
    one(tmp_path / "m.onnx", [("x", 1, [2, 3]), ("n", 6, [3])])
    done = revseq("check", "m.onnx").failed()
    assert "DataType:INT32" in done.out
    assert "expected INT64" in done.out


def test_a_sparse_initializer_is_named(revseq, tmp_path):
    model = one(tmp_path / "m.onnx", [("x", 1, [2, 3])])
    values = helper.make_tensor("n", 7, [2], [2, 1])
    where = helper.make_tensor("where", 7, [2], [0, 2])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, where, [3]))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    revseq("run", "m.onnx", *VALUES[:2]).refused("n: stored as a sparse initializer")
    # Without values, too: the check of a model looks at no tensor.
    revseq("check", "m.onnx").refused("n: stored as a sparse initializer")


def test_nodes_of_the_graph_count(revseq, tmp_path):
    inner = an_if([reverse("x", "n", "y", "rev", time_axis=1, batch_axis=0)])
    opset = [helper.make_opsetid("", 17)]
    function = helper.make_function(
        "mine", "Back", ["x", "n"], ["y"], [reverse("x", "n", "y", "rev")], opset
    )
    call = helper.make_node("Back", ["x", "n"], ["w"], domain="mine")
    inputs = (("x", 1, [2, 3]), ("n", 7, [None]), ("c", 9, []))
    save(tmp_path / "m.onnx", [inner, call], inputs, ["z"], functions=[function])
    for args in (("run", "m.onnx", "--feed", "x=[[1]]"), ("check", "m.onnx"), ("show", "m.onnx")):
        words = ("rev in then_branch of If choice", "rev in the function Back")
        revseq(*args).refused("ReverseSequence nodes are inside others", *words)
    save(tmp_path / "m.onnx", [helper.make_node("Abs", ["x"], ["z"])], inputs, ["z"])
    revseq("show", "m.onnx").refused("m.onnx: has no ReverseSequence node", "PyTorch seldom")
    save(tmp_path / "m.onnx", [inner, reverse("x", "n", "r", "outer")], inputs, ["z"])
    (line,) = revseq("check", "m.onnx").ok().out.splitlines()
    assert "m.onnx::outer: time_axis 0, batch_axis 1, (Sizes:{2,3}" in line
    revseq("run", "m.onnx", *VALUES).ok()


def test_versions_that_leave_lines_of_length_0_unwritten(revseq, tmp_path):
    """ONNX Runtime before 1.28: refused where another such node comes before, also inside of one."""
    old = "import onnxruntime; onnxruntime.__version__ = '1.27.0'"
    inside = [an_if([reverse("u", "n", "v", "other")]), helper.make_node("Identity", ["z"], ["x"])]
    np.save(tmp_path / "c.npy", np.array(True))
    job = ("run", "m.onnx::rev", *OF_U, "--feed", "c=c.npy")
    for before in (inside, [reverse("u", "n", "x", "other")]):
        one(tmp_path / "m.onnx", (*U_AND_N, ("c", 9, [])), before)
        words = (
            "1.27.0 leaves lines of length 0 unwritten",
            "1.28 or newer",
            "--upgrade onnxruntime",
        )
        revseq(*job, code=old).refused(*words)
        if NEW:
            revseq(*job).ok()
    revseq("run", "m.onnx::other", *OF_U, code=old).ok()  # it is computed here


def test_a_sequence_and_types_that_are_not_ours(revseq, tmp_path):
    one(tmp_path / "m.onnx", U_AND_N, [helper.make_node("SequenceConstruct", ["u", "u"], ["x"])])
    revseq("run", "m.onnx", *OF_U).refused("m.onnx: the data type of x is seq(tensor(float))")
    float4, string = (23, {"raw_data": bytes(3)}), (8, {"string_data": [b"a"] * 6})
    for (number, fields), name in ((float4, "float4e2m1"), (string, "string")):
        model = one(tmp_path / "m.onnx", [("n", 7, [3])])
        model.graph.initializer.add(name="x", dims=[2, 3], data_type=number, **fields)
        model.opset_import[0].version, model.ir_version = 23, 11
        (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
        done = revseq("run", "m.onnx", *VALUES[2:])
        if "ONNX Runtime says" not in done.err:  # an older one does not have the type
            done.refused(
                f"m.onnx: the data type of x is {name}", "expected a given tensor, or computed"
            )


def an_if(inner):
    """A node If, by c, whose branches are these nodes, of which the last gives what it gives."""
    branch = helper.make_graph(inner, "branch", [], [onnx.ValueInfoProto(name=inner[-1].output[0])])
    return helper.make_node("If", ["c"], ["z"], "choice", then_branch=branch, else_branch=branch)


def add_weight(model, door, location):
    """Give a model the weight w of a file: as the door says, of the model, of a node, of a function, or of a branch."""
    weight = TensorProto(name="w", dims=[3], data_type=1, data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value=location)
    constant, nodes = helper.make_node("Constant", [], ["w"], value=weight), []
    if door == "initializer":
        model.graph.initializer.append(weight)
    elif door == "branch":  # of an If, in both
        inner = [constant, helper.make_node("Identity", ["w"], ["b"])]
        nodes = [an_if(inner), helper.make_node("Identity", ["z"], ["w"])]
    else:
        nodes, defaults = [helper.make_node("Weight", [], ["w"], domain="mine")], []
        if door == "default":  # of the function's attribute, which it hands to a Constant
            constant, defaults = (
                helper.make_node("Constant", [], ["w"]),
                [helper.make_attribute("v", weight)],
            )
            constant.attribute.add(name="value", ref_attr_name="v", type=onnx.AttributeProto.TENSOR)
        opset = [helper.make_opsetid("", 17)]
        made = helper.make_function(
            "mine", "Weight", [], ["w"], [constant], opset, attribute_protos=defaults
        )
        model.functions.append(made)
    nodes += model.graph.node
    del model.graph.node[:]
    model.graph.node.extend(nodes)


DOORS = ("initializer", "function", "default", "branch")
OUTSIDE = [
    "{}/own.bin",
    "../own.bin",
    "a/../../own.bin",
    "link",
    "up/own.bin",
    "*/_ORT_MEM_ADDR_/*",
]
# Runs first: sessions that are not to be made, and what a session is made of.
NO_SESSION = """
import onnxruntime
def made(*_, **__):
    raise SystemExit("a session is made")
onnxruntime.InferenceSession = made
"""
HANDED = """
import onnxruntime, pathlib
real = onnxruntime.InferenceSession
def made(model, *args, **more):
    assert type(model) is bytes
    pathlib.Path("handed").write_bytes(model)
    return real(model, *args, **more)
onnxruntime.InferenceSession = made
"""


class TestDoors:
    """Ways for a model to read a file of the machine."""

    def make(self, path, door, location):
        """A model whose node gets u + w, and w is what the door gives."""
        inputs = [("u", 1, [2, 3]), ("n", 7, [3]), ("c", 9, [])]
        model = one(path, inputs, [helper.make_node("Add", ["u", "w"], ["x"])])
        add_weight(model, door, location)
        path.write_bytes(model.SerializeToString())
        np.save(path.parent / "c.npy", np.array(True))
        return ("run", path.name, *OF_U, *(("--feed", "c=c.npy") if door == "branch" else ()))

    @pytest.mark.parametrize(
        ("door", "location"),
        [*itertools.product(DOORS, OUTSIDE[:1]), *itertools.product(DOORS[:1], OUTSIDE[1:])],
    )
    def test_no_door_is_open(self, revseq, tmp_path, door, location):
        here = tmp_path / "here"
        here.mkdir()
        for folder in (tmp_path, here):
            (folder / "own.bin").write_bytes(np.full(3, 7, np.float32).tobytes())
        (here / "link").symlink_to(tmp_path / "own.bin")
        (here / "up").symlink_to(tmp_path)
        args = self.make(here / "m.onnx", door, location.format(tmp_path))
        done = revseq(*args, code=NO_SESSION, cwd=here).refused()
        assert "the folder of the model" in done.err or "no such file" in done.err
        assert "a session is made" not in done.err
        assert revseq("check", "m.onnx", code=NO_SESSION, cwd=here).status == 0  # it reads no file

    @pytest.mark.parametrize("door", DOORS)
    def test_a_file_of_its_own_is_in_the_model_that_is_handed_on(self, revseq, tmp_path, door):
        """With no name of a file in it: `handed` has what the session gets."""
        here = tmp_path / "here"
        here.mkdir()
        (here / "own.bin").write_bytes(np.full(3, 7, np.float32).tobytes())
        command, name, *args = self.make(here / "m.onnx", door, "own.bin")
        args = [each.replace("c.npy", "here/c.npy") for each in args]
        done = revseq(command, f"here/{name}", *args, "-f", "json", code=HANDED).ok()
        assert json.loads(done.out)["Values"] == [[8, 12, 13], [11, 9, 10]]
        handed = (tmp_path / "handed").read_bytes()
        assert np.full(3, 7, np.float32).tobytes() in handed
        assert b"own.bin" not in handed

    def test_a_file_that_is_cut_short(self, revseq, tmp_path):
        add = helper.make_node("Add", ["u", "w"], ["x"])
        one(
            tmp_path / "m.onnx",
            U_AND_N,
            [add],
            initializers={"w": np.ones(3, np.float32)},
            outside=["w"],
        )
        os.truncate(tmp_path / "model.data", 5)
        revseq("run", "m.onnx", *OF_U).refused(
            "m.onnx: w: has 12 bytes at 0 of model.data, which has 5"
        )

    def test_what_nobody_knows_is_not_handed_on(self, revseq, tmp_path):
        model = one(tmp_path / "m.onnx", U_AND_N, [helper.make_node("Relu", ["u"], ["x"])])
        unknown = b"\x82\x7d\x0eunknown to all"  # the field 2000
        for each in (model, model.graph, model.graph.node[0], model.graph.input[0].type):
            each.MergeFromString(unknown)
        model.metadata_props.add(key="ort_config", value="metadata")
        assert model.SerializeToString().count(b"unknown to all") == 4
        (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
        revseq("run", "m.onnx", *OF_U, code=HANDED).ok()
        handed = (tmp_path / "handed").read_bytes()
        assert b"Relu" in handed
        assert b"unknown" not in handed
        assert b"metadata" not in handed


def test_a_model_that_is_cut_short(tmp_path):
    bilstm(tmp_path / "m.onnx")
    data, rng = (tmp_path / "m.onnx").read_bytes(), np.random.default_rng(3)
    damaged = [data[:size] for size in range(0, len(data), 7)]
    places = rng.integers(0, len(data), 200)
    damaged += [data[:place] + bytes([rng.integers(256)]) + data[place + 1 :] for place in places]
    refused = 0
    for each in damaged:
        (tmp_path / "m.onnx").write_bytes(each)
        try:
            model = Model(str(tmp_path / "m.onnx"))
            node = model.choose_node("yb")
            assert model.describe_node(node)
            cut_out(model, [node.values, node.lengths], ())
        except FormatError:
            refused += 1
    assert len(damaged) // 4 < refused < len(damaged)


def test_only_what_the_node_needs_is_read(tmp_path):
    """An input without a name, and an output, are made by nothing."""
    weights = {"large": np.zeros((2, 3), np.float32), "most": np.float32(5)}
    clip, behind = (
        helper.make_node("Clip", ["u", "", "most"], ["x"]),
        helper.make_node("Add", ["y", "large"], ["z"]),
    )
    save(tmp_path / "m.onnx", [clip, reverse("x", "n", "y"), behind], U_AND_N, ["z"], weights)
    graph = cut_out(Model(str(tmp_path / "m.onnx")), ["x", "n"], ()).proto.graph
    assert [each.op_type for each in graph.node] == ["Clip"]
    assert [each.name for each in (*graph.initializer, *graph.output)] == ["most", "x", "n"]
