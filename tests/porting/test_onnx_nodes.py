"""Nodes of ONNX's models as jobs: what the model computes as far as a node is what ONNX Runtime makes of the whole model."""

import contextlib
import itertools
import json
import os
import random

import dxdispatch
import numpy as np
import onnx
import oracle
import pytest
from folders import content
from needs import NEEDS
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from revseq_cli.core.errors import FormatError
from revseq_cli.core.tensors import Symbol, TensorDesc
from revseq_cli.formats.onnx import models, source

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime, an extra, is not installed")
# Names that paths, shells and this program's own names could take for something else.
NAMES = ("rev", "/enc/rev", "my node", "a::b", "::", "x=1", "--axis", "ü", "", "rev")
KINDS = {
    np.float32: 1, np.uint8: 2, np.int8: 3, np.int32: 6, np.int64: 7, np.float16: 10, np.float64: 11, np.uint32: 12,
}  # fmt: skip


def save(path, nodes, inputs, outputs, initializers=(), functions=(), outside=(), location="model.data"):
    """Write a model; inputs are names, types and sizes, and the elements of initializers `outside` are in another file."""
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
            onnx.external_data_helper.set_external_data(each, location)
    onnx.save(model, path)
    return model


def reverse(x, n, y, name="", **axes):
    return helper.make_node("ReverseSequence", [x, n], [y], name=name, **axes)


def witness(path, feeds, output):
    """What ONNX Runtime computes of a value, of the whole model."""
    model = onnx.load(path)
    model.graph.output.add(name=output)
    needed = {each.name for each in model.graph.input} - {each.name for each in model.graph.initializer}
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run([output], {name: each for name, each in feeds.items() if name in needed})[0]


class Builder:
    """A random model: `nodes` compute a chain of values of known sizes, with ReverseSequence nodes here and there."""

    def __init__(self, seed):
        self.rng, self.choice = np.random.default_rng(seed), random.Random(seed)
        self.nodes, self.weights, self.inputs, self.feeds, self.found = [], {}, [], {}, []
        self.functions, self.lengths, self.count = [], [], 0
        self.names = self.choice.sample(NAMES, len(NAMES))
        self.dtype = self.choice.choice([*KINDS])

    def name(self):
        self.count += 1
        return f"v{self.count}{self.choice.choice(('', '/', ' ', '::', '.'))}"

    def given(self, values):
        """A new input, whose sizes the model may leave open."""
        name = self.name()
        sizes = [self.choice.choice((size, f"s{size}", None)) for size in values.shape]
        self.inputs.append((name, KINDS[values.dtype.type], sizes))
        self.feeds[name] = values
        return name

    def weight(self, values):
        name = self.name()
        self.weights[name] = np.asarray(values)
        return name

    def made(self, operator, *inputs, **attributes):
        name = self.name()
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def step(self, x, shape):
        """One more value, and its sizes."""
        match self.choice.randrange(9):
            case 0:
                perm = self.choice.sample(range(len(shape)), len(shape))
                return self.made("Transpose", x, perm=perm), [shape[d] for d in perm]
            case 1:
                axis = self.choice.randrange(len(shape))
                wider = [size * (1 + (d == axis)) for d, size in enumerate(shape)]
                return self.made("Concat", x, x, axis=axis), wider
            case 2 if len(shape) > 2:
                rest = [*shape[:-2], shape[-2] * shape[-1]]
                return self.made("Reshape", x, self.weight(np.array(rest))), rest
            case 3 if len(shape) < 5:
                return self.made("Unsqueeze", x, self.weight(np.array([len(shape)]))), [*shape, 1]
            case 4 if min(shape[:2]) > 1:
                return self.reversed(x, shape), shape
            case 5:
                return self.chosen(x), shape
            case 6:
                constant = self.made("Constant", value=numpy_helper.from_array(np.zeros(shape, self.dtype)))
                return self.made("Concat", x, constant, axis=0), [2 * shape[0], *shape[1:]]
            case 7:
                return self.called(x), shape
            case _:
                return self.made("Identity", x), shape

    def chosen(self, x):
        """Through an If, whose branches read a value of the graph around them."""
        branches = {}
        for branch in ("then_branch", "else_branch"):
            inner = helper.make_node("Identity", [x], [name := self.name()])
            branches[branch] = helper.make_graph([inner], branch, [], [onnx.ValueInfoProto(name=name)])
        return self.made("If", self.weight(np.array(self.choice.random() < 0.5)), **branches)

    def called(self, x):
        """Through a function of the model."""
        inner, opset = helper.make_node("Identity", ["a"], ["b"]), helper.make_opsetid("", 17)
        self.functions = [helper.make_function("mine", "Same", ["a"], ["b"], [inner], [opset])]
        return self.made("Same", x, domain="mine")

    def reversed(self, x, shape):
        time = self.choice.randrange(2)
        lengths = self.rng.integers(1, shape[time] + 1, shape[1 - time])
        match self.choice.randrange(3):
            case 0:
                n = self.given(lengths)
            case 1:
                n = self.weight(lengths)
                self.lengths.append(n)
            case _:
                cast = self.made("Cast", self.given((lengths - 1).astype(np.int32)), to=TensorProto.INT64)
                n = self.made("Add", cast, self.weight(np.array([1])))
        axes = {"time_axis": time, "batch_axis": 1 - time} if time or self.choice.random() < 0.5 else {}
        node = reverse(x, n, self.name(), self.names[len(self.found) % len(NAMES)], **axes)
        self.nodes.append(node)
        self.found.append(node)
        return node.output[0]

    def save(self, path):
        shape = [*map(int, self.rng.integers(2, 5, self.choice.randrange(2, 5)))]
        x = self.given(self.rng.integers(0, 100, shape).astype(self.dtype))
        for _ in range(self.choice.randrange(8)):
            x, shape = self.step(x, shape)
        if not self.found:
            shape = [max(size, 1) for size in shape]
            self.reversed(x, shape)
        last = self.made("Identity", self.found[-1].output[0])
        # What stands behind has inputs of its own, which no node before it needs.
        behind = self.made("Add", self.given(np.ones(1, np.float32)), self.weight(np.ones(1, np.float32)))
        # ONNX Runtime needs the weights that say sizes in the model itself.
        outside = [name for name in self.lengths if self.choice.random() < 0.5 and NEEDS["ONNX Runtime 1.21"][0]]
        save(path, self.nodes, self.inputs, [last, behind], self.weights, functions=self.functions, outside=outside)

    def key(self, node):
        """What to type for a node: its name if no other node and no output has it, else its output."""
        taken = [each.name for each in self.found] + [name for each in self.found for name in each.output]
        return node.name if node.name and taken.count(node.name) == 1 else node.output[0]

    def given_files(self, folder):
        """The options that give the inputs, in files of several formats."""
        if self.choice.random() < 0.3:
            (folder / "set").mkdir()
            for number, (name, *_) in enumerate(self.inputs):
                onnx.save_tensor(numpy_helper.from_array(self.feeds[name]), folder / "set" / f"input_{number}.pb")
            return ["--feed", "set"]
        options = []
        for number, (name, values) in enumerate(self.feeds.items()):
            match self.choice.randrange(3):
                case 0:
                    np.savez(folder / f"{number}.npz", a=values, b=values)
                    text = f"{number}.npz::b"
                case 1 if values.dtype != np.float16:
                    text = json.dumps(values.tolist())
                case _:
                    np.save(folder / f"{number}.npy", values.byteswap().view(values.dtype.newbyteorder()))
                    text = f"{number}.npy"
            options += ["--feed", f"{name}={text}"]
        return options


def hold(revseq, folder, seed):
    """Run a node of a random model, and compare with what ONNX Runtime makes of the model."""
    folder.mkdir()
    builder = Builder(seed)
    builder.save(folder / "model.onnx")
    node = builder.choice.choice(builder.found)
    name = "model.onnx" if len(builder.found) == 1 and seed % 2 else f"model.onnx::{builder.key(node)}"
    options = builder.given_files(folder)
    options += [] if len(node.attribute) == 0 or seed % 3 else ["--like", "onnx"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        right = witness("model.onnx", builder.feeds, node.output[0])
    revseq("run", name, *options, "-o", "y.npy", "--feature-level", "none", cwd=folder).ok()
    assert oracle.same_bits(np.load(folder / "y.npy"), right)
    sizes = json.loads(revseq("check", name, "--json", "--feature-level", "none", cwd=folder).ok().out)["InputTensor"]
    assert len(sizes["Sizes"]) == right.ndim
    assert all(isinstance(told, str) or told == size for told, size in zip(sizes["Sizes"], right.shape, strict=True))


@pytest.mark.parametrize("seed", range(8))
def test_nodes_of_random_models(revseq, tmp_path, seed):
    hold(revseq, tmp_path / str(seed), seed)


@pytest.mark.long
@pytest.mark.parametrize("start", range(1000, 1300, 20))
def test_nodes_of_many_random_models(revseq, tmp_path, start):
    for seed in range(start, start + 20):
        hold(revseq, tmp_path / str(seed), seed)


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
    feeds = {"x": rng.standard_normal((4, 5, 3), np.float32), "len": np.array([5, 1, 3, 2], np.int32)}
    for name, values in feeds.items():
        np.save(path.with_name(f"{name}.npy"), values)
    return feeds


FEED = ("--feed", "x=x.npy", "--feed", "len=len.npy")


class TestOfAModel:
    """What the commands make of a model whose second LSTM reads sequences backwards."""

    @pytest.fixture
    def feeds(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        return bilstm(tmp_path / "bilstm.onnx")

    def test_the_road_to_directml(self, revseq, tmp_path, feeds):
        revseq("export", "bilstm.onnx::rev", *FEED, "-o", "job.json").ok()
        dxdispatch.run(tmp_path, "job.json")
        assert oracle.same_bits(np.load("job.OutputTensor.npy"), witness("bilstm.onnx", feeds, "xr"))
        revseq("diff", "job.OutputTensor.npy", "--job", "job.json").ok()
        done = revseq("diff", "job.OutputTensor.npy", "--job", "bilstm.onnx::rev", *FEED).ok()
        assert "bilstm.onnx: xt, reversed along axis 0\nequal, 60 elements\n" in done.out
        assert revseq("diff", "--on", "onnxruntime", "bilstm.onnx::yb", *FEED).ok().out.endswith("equal, 40 elements\n")

    @pytest.mark.usefixtures("feeds")
    def test_check_knows_sizes_without_values(self, revseq):
        done = revseq("check", "bilstm.onnx::rev", "--all").ok()
        for words in ("(Sizes:{T,N,3}, DataType:FLOAT32)  bilstm.onnx: xt\n", "(Sizes:{1,N,3}, DataType:UINT32)",
                      "Axis                   0 (N*3 lines of T elements)\n", "a length for each of N indices",
                      "element count: T*N*3\n", "Note: sizes are inferred", "--feed x=FILE", "lowest level           DML_FEATURE_LEVEL_4_0"):  # fmt: skip
            assert words in done.out
        assert "lengths   " not in done.out
        told = json.loads(revseq("check", "bilstm.onnx::rev", "--json").ok().out)
        assert told["InputTensor"]["Sizes"] == ["T", "N", 3]
        assert (told["lengths"], told["BatchAxis"], told["Axis"]) == (None, 1, 0)
        refused = revseq("check", "bilstm.onnx::rev", "--feature-level", "3_0")
        assert refused.status == 1
        assert "dimension count: 3" in refused.out

    @pytest.mark.usefixtures("feeds")
    def test_check_counts_lengths_that_are_given(self, revseq):
        done = revseq("check", "bilstm.onnx::rev", *FEED).ok()
        assert "lengths                4 in all, 0 above 5 and clamped, 1 change nothing\n" in done.out
        on = revseq("check", "bilstm.onnx::rev", *FEED, "--on", "onnxruntime").ok()
        assert "CPUExecutionProvider: right" in on.out

    @pytest.mark.usefixtures("feeds")
    def test_lengths_above_the_axis_size(self, revseq):
        np.save("len.npy", np.array([9, 1, 3, 2], np.int32))
        done = revseq("run", "bilstm.onnx::rev", *FEED, "-o", "y.npy").ok()
        assert "1 of 4 lengths exceeds the axis size (5)" in done.err
        revseq("run", "bilstm.onnx::rev", *FEED, "--like", "onnx").refused("9 at [0] is above the axis size 5")
        np.save("len.npy", np.array([-1, 1, 3, 2], np.int32))
        revseq("run", "bilstm.onnx::rev", *FEED).refused("bilstm.onnx: n: -1 at [0] does not fit UINT32")

    def test_other_lengths_can_be_given(self, revseq, feeds):
        revseq("run", "bilstm.onnx::rev", "[2, 2, 2, 2]", *FEED, "--batch-axis", 1, "-o", "y.npy").ok()
        assert oracle.same_bits(
            np.load("y.npy"), oracle.expected(feeds["x"].transpose(1, 0, 2), np.full((1, 4, 3), 2), 0)
        )

    @pytest.mark.usefixtures("feeds")
    @pytest.mark.parametrize("name", ["bilstm.onnx", "x.npy", "len.npy"])
    def test_what_it_comes_from_is_never_replaced(self, revseq, tmp_path, name):
        before = content(tmp_path)
        for command in ("run", "export"):
            suffix = ["-f", "npy"] if command == "run" else []
            done = revseq(command, "bilstm.onnx::rev", *FEED, "-o", name, *suffix, "--overwrite").refused()
            assert "is an input" in done.err or "a model is JSON" in done.err
        assert content(tmp_path) == before

    @pytest.mark.parametrize(
        ("args", "words"),
        [
            (["bilstm.onnx::rve", *FEED], ["no such ReverseSequence node", "try bilstm.onnx::rev"]),
            (["bilstm.onnx::", *FEED], ["no such ReverseSequence node", "one of rev, yb"]),
            (["bilstm.onnx::rev", *FEED[:2]], ["no values are given for len", "add --feed len=FILE"]),
            (["bilstm.onnx::rev", "--feed", "X=x.npy"], ["'X=x.npy' matches no input of the model", "try --feed x=x.npy"]),
            (["bilstm.onnx::rev", "--feed", "no/set"], ["Error: no/set: no such folder", "a folder of tensors, or once NAME=FILE"]),
            (["bilstm.onnx::rev", "--feed", "x.npy"], ["'x.npy' matches no input of the model", "NAME=FILE for each of x (Sizes:"]),
            (["bilstm.onnx::rev", *FEED, *FEED], ["the input x is given twice"]),
            (["bilstm.onnx::rev", "--feed", "x=len.npy"], ["len.npy: is (Sizes:{4}, DataType:INT32)", "wanted: x (Sizes:{N,T,3}, DataType:FLOAT32)"]),
            (["bilstm.onnx::rev", "--feed", "x=[[[1, 2]]]"], ["is (Sizes:{1,1,2}, DataType:FLOAT32)"]),
            (["bilstm.onnx::rev", "--feed", "x=none.npy"], ["none.npy: no such file"]),
            (["bilstm.onnx::rev", "--feed", "."], ["input_0.pb: no such file"]),
            (["none.onnx::rev"], ["none.onnx: no such file"]),
        ],
    )  # fmt: skip
    @pytest.mark.usefixtures("feeds")
    def test_refused(self, revseq, tmp_path, args, words):
        before = content(tmp_path)
        revseq("run", *args, "-o", "y.npy").refused(*words)
        assert content(tmp_path) == before

    @pytest.mark.usefixtures("feeds")
    def test_without_the_packages(self, revseq):
        for package in ("onnx", "onnxruntime"):
            done = revseq("run", "bilstm.onnx::rev", *FEED, code=f"import sys; sys.modules[{package!r}] = None")
            done.refused(f"the package {package}", f"pip install {package}")


class TestNames:
    """What stands behind ::."""

    @pytest.fixture
    def keys(self, tmp_path):
        """The keys of nodes with these names, whose outputs are y0, y1 and so on, or as given."""

        def found(*names, outputs=None):
            nodes = [reverse("x", "n", outputs[i] if outputs else f"y{i}", name) for i, name in enumerate(names)]
            save(tmp_path / "m.onnx", nodes, [("x", 1, [2, 3]), ("n", 7, [3])], [])
            return [*models.Model.open(str(tmp_path / "m.onnx")).nodes]

        return found

    def test_a_name_that_says_no_node_is_that_of_its_output(self, keys):
        assert keys("a", "b") == ["a", "b"]
        assert keys("", "b", "") == ["y0", "b", "y2"]
        assert keys("a", "a", "b") == ["y0", "y1", "b"]
        assert keys("y1", "b") == ["y0", "b"]
        assert keys("a\0b") == ["y0"]
        assert keys("y0") == ["y0"]
        assert keys("b", "a", outputs=("a", "b")) == ["a", "b"]  # both are outputs

    @pytest.mark.parametrize("name", ["a b", "a::b", "::", "\x1b[31m", "--axis", "x'y", "a\nb"])
    def test_names_that_are_odd(self, revseq, keys, name):
        keys(name, "other")
        options = ("--feed", "x=[[1, 2, 3], [4, 5, 6]]", "--feed", "n=[1, 2, 2]", "-f", "json")
        done = revseq("run", f"m.onnx::{name}", *options).ok()
        assert json.loads(done.out)["Values"] == [[1, 5, 6], [4, 2, 3]]
        hint = revseq("run", "m.onnx", *options).refused("has 2 ReverseSequence nodes").err
        assert all(line.isprintable() for line in hint.splitlines())

    def test_the_nearest_of_many_come_first(self, revseq, keys):
        keys(*(f"layer{i}" for i in range(40)), "encoder")
        done = revseq("check", "m.onnx::encodr").refused("m.onnx::encodr: no such", "try m.onnx::encoder")
        assert "wanted: one of encoder, layer0," in done.err

    def test_show_lists_the_nodes(self, revseq, keys):
        keys("a", "b")
        listed = "m.onnx: onnx, 0 tensors, 2 others\n"
        words = "ReverseSequence, time_axis 0, batch_axis 1, (Sizes:{2,3}, DataType:FLOAT32)"
        assert revseq("show", "m.onnx").ok().out == f"{listed}  a  {words}\n  b  {words}\n"
        others = json.loads(revseq("show", "m.onnx", "--json").ok().out)["others"]
        assert [(each["name"], each["what"]) for each in others] == [("m.onnx::a", words), ("m.onnx::b", words)]
        done = revseq("show", "m.onnx::a").refused("m.onnx: is a model; its nodes: a, b")
        assert "Hint: revseq check m.onnx::a\n" in done.err

    def test_a_suffix_in_capitals(self, revseq, keys, tmp_path):
        keys("a")
        (tmp_path / "m.onnx").rename(tmp_path / "M.ONNX")
        assert "M.ONNX: x" in revseq("check", "M.ONNX::a").ok().out

    @pytest.mark.needs("colons")
    def test_a_file_of_that_name_comes_first(self, revseq, keys, tmp_path):
        keys("a")
        with open(tmp_path / "m.onnx::a", "wb") as file:
            np.save(file, np.zeros(3))
        revseq("check", "m.onnx::a").refused("no lengths are given")


def one(path, inputs=(("x", 1, [2, 3]), ("n", 7, [3])), before=(), **more):
    """A model of one node, which reverses x or what is computed of it, by n."""
    return save(path, [*before, reverse("x", "n", "y", "rev")], inputs, ["y"], **more)


VALUES = ("--feed", "x=[[1, 2, 3], [4, 5, 6]]", "--feed", "n=[1, 2, 2]")
# Of models whose node gets what is computed of u.
U_AND_N = (("u", 1, [2, 3]), ("n", 7, [3]))
OF_U = ("--feed", "u=[[1, 2, 3], [4, 5, 6]]", *VALUES[2:])


class TestOfWhatIsNotKnown:
    """Sizes that a model does not state."""

    @pytest.mark.parametrize(
        ("x", "n", "told"),
        [
            ([2, 3], [3], "{2,3}"), (["T", "N"], ["M"], "{T,N}"), (["T", None], [7], "{T,7}"), (["T", 3], None, "{T,3}"), ([None, None], ["M"], "{?,?}"),
            (["a\x1b" * 30, 1], [1], "a\\x1b"), (["T", "N"], None, "{T,N}"), ([2, 3], [None], "{2,3}"),
        ],
    )  # fmt: skip
    def test_sizes_are_told_as_far_as_they_are_known(self, revseq, tmp_path, x, n, told):
        one(tmp_path / "m.onnx", [("x", 1, x), ("n", 7, n)])
        assert told in revseq("check", "m.onnx").ok().out

    def test_no_sizes_at_all(self, revseq, tmp_path):
        one(tmp_path / "m.onnx", [("x", 1, None), ("n", 7, None)])
        revseq("check", "m.onnx").refused(
            "cannot infer the sizes of x", "wanted: values of its inputs", "add --feed x=FILE --feed n=FILE"
        )
        revseq("check", "m.onnx", *VALUES).ok()
        revseq("check", "m.onnx", "--feed", "x=[1, 2]", "--feed", "n=[1]").refused(
            "x: dimension count is 1", "2 or more"
        )

    @pytest.mark.parametrize(
        ("x", "n", "words"),
        [
            (["T", 3], [4], ["m.onnx: n"]),
            (["T"], [3], ["m.onnx: x: dimension count is 1", "wanted: 2 or more"]),
            ([], [3], ["m.onnx: x: dimension count is 0", "wanted: 2 or more"]),
            (["T", 3], [], ["m.onnx: n: dimension count is 0", "wanted: 1,"]),
            (["T", 3], [3, 2], ["m.onnx: n: dimension count is 2", "wanted: 1,"]),
        ],
    )  # fmt: skip
    def test_a_rank_that_the_model_states(self, revseq, tmp_path, x, n, words):
        """ONNX Runtime says the same of a scalar and of unknown sizes."""
        one(tmp_path / "m.onnx", [("x", 1, x), ("n", 7, n)])
        assert "cannot infer the sizes" not in revseq("check", "m.onnx").refused(*words).err

    def test_lengths_of_another_rank(self, revseq, tmp_path):
        one(tmp_path / "m.onnx", [("x", 1, None), ("n", 7, None)])
        revseq("run", "m.onnx", *VALUES[:2], "--feed", "n=[[1, 2, 2]]").refused("n: dimension count is 2", "wanted: 1,")

    def test_a_data_type_without_sizes(self, revseq, tmp_path):
        one(tmp_path / "m.onnx", [("x", 1, None), ("n", 7, None)])
        np.save(tmp_path / "x.npy", np.ones((2, 3)))
        done = revseq("run", "m.onnx", "--feed", "x=x.npy", *VALUES[2:])
        done.refused("x.npy: is (Sizes:{2,3}, DataType:FLOAT64)", "wanted: x (Sizes:any, DataType:FLOAT32)")
        one(tmp_path / "m.onnx", [("x", 11, None), ("n", 7, None)])
        assert json.loads(revseq("run", "m.onnx", *VALUES, "-f", "json").ok().out)["DataType"] == "FLOAT64"

    @pytest.mark.parametrize(
        ("sizes", "other", "allowed"),
        [
            (None, (2, 3), True), (None, (), True), ((), (), True), ((), (1,), False), ((2, 3), (2, 3), True), ((2, 3), (2,), False),
            ((2,), (2, 3), False), ((Symbol("T"), 3), (7, 3), True), ((Symbol("T"), 3), (7, 4), False),
        ],
    )  # fmt: skip
    def test_what_a_model_allows(self, sizes, other, allowed):
        desc = TensorDesc(models.TYPES[1], other)
        assert [models.Stated(models.TYPES.get(each), sizes).allows(desc) for each in (0, 1, 11)] == [
            allowed,
            allowed,
            False,
        ]

    def test_rules_about_values_wait_for_them(self, revseq, tmp_path):
        one(tmp_path / "m.onnx")
        assert "5_0 accepts it" in revseq("check", "m.onnx", "--like", "onnx").ok().out
        done = revseq("check", "m.onnx", "--batch-axis", 0).refused("the batch axis is 0")
        assert "no setting turns" not in done.err
        revseq("check", "m.onnx", "[9, 1, 1]", "--like", "onnx").refused("9 at [0] is above the axis size 2")

    @pytest.mark.parametrize(("number", "status"), [(10, 0), (7, 0), (9, 1), (16, 1), (8, 2)])
    def test_data_types(self, revseq, tmp_path, number, status):
        one(tmp_path / "m.onnx", [("x", number, [2, 3]), ("n", 7, [3])])
        done = revseq("check", "m.onnx")
        assert done.status == status
        if status == 2:
            done.refused("the data type of x is string", "wanted: a given tensor, or computed FLOAT16")

    def test_a_symbol_is_any_size(self):
        desc = TensorDesc(models.TYPES[1], (Symbol("T"), 1, 3, Symbol("")))
        assert (str(desc), str(desc.element_count)) == ("(Sizes:{T,1,3,?}, DataType:FLOAT32)", "T*3*?")
        assert f"{3 * Symbol('N'):,}" == "N*3"


class TestOfWhatIsGiven:
    """Inputs of a model, and the tests beside it."""

    def test_the_first_test_beside_a_model_is_the_default(self, revseq, tmp_path):
        one(tmp_path / "m.onnx", before=[], inputs=[("n", 7, [3]), ("x", 1, [2, 3])])
        (tmp_path / "test_data_set_0").mkdir()
        for name, values in (("input_0", np.array([1, 2, 2])), ("input_1", np.arange(6, dtype="f4").reshape(2, 3))):
            onnx.save_tensor(numpy_helper.from_array(values), tmp_path / "test_data_set_0" / f"{name}.pb")
        done = revseq("run", "m.onnx", "-f", "json").ok()
        assert json.loads(done.out)["Values"] == [[0, 4, 5], [3, 1, 2]]
        assert f"Note: x is {os.path.join('test_data_set_0', 'input_1.pb')}\n" in done.err
        assert "Note: sizes are inferred" in revseq("check", "m.onnx").ok().out
        assert json.loads(revseq("run", "m.onnx", *VALUES, "-f", "json").ok().out)["Values"] == [[1, 5, 6], [4, 2, 3]]

    def test_inputs_with_a_value_of_their_own_need_none(self, revseq, tmp_path):
        one(tmp_path / "m.onnx", initializers={"n": np.array([1, 2, 2])})
        done = revseq("run", "m.onnx", *VALUES[:2], "-f", "json").ok()
        assert json.loads(done.out)["Values"] == [[1, 5, 6], [4, 2, 3]]
        one(tmp_path / "m.onnx", initializers={"n": np.array([1, 2, 2]), "x": np.ones((2, 3), np.float32)})
        assert json.loads(revseq("run", "m.onnx", "-f", "json").ok().out)["Values"] == [[1, 1, 1]] * 2
        assert "lengths                3 in all" in revseq("check", "m.onnx").ok().out

    def test_inputs_that_are_the_nodes_own_are_read_in_place(self, revseq, tmp_path):
        one(tmp_path / "m.onnx")
        for name, values in (("x", np.arange(6, dtype="f4").reshape(2, 3)), ("n", np.array([1, 2, 2]))):
            np.save(tmp_path / f"{name}.npy", values)
        code = "import sys; sys.modules['onnxruntime'] = None"
        done = revseq(
            "export", "m.onnx", "--feed", "x=x.npy", "--feed", "n=n.npy", "-o", "j.json", "--files", code=code
        )
        assert "j.json" in done.ok().out
        assert '"sourcePath": "x.npy"' in (tmp_path / "j.json").read_text()

    @pytest.mark.needs("ONNX Runtime 1.21")
    def test_no_output_replaces_what_a_node_gets_as_it_is(self, revseq, tmp_path):
        one(tmp_path / "m.onnx", initializers={"n": np.array([1, 2, 2])}, outside=["n"])
        np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
        before = content(tmp_path)
        for name in ("m.onnx", "x.npy", "model.data"):
            done = revseq("run", "m.onnx", "--feed", "x=x.npy", "-o", name, "-f", "npy", "--overwrite")
            done.refused(f"{name}: is an input of this job")
        assert content(tmp_path) == before
        one(tmp_path / "m.onnx")
        done = revseq("run", "m.onnx", *VALUES, "-o", "m.onnx", "-f", "npy", "--overwrite")
        done.refused("m.onnx: is an input of this job")

    def test_a_scalar_stays_one(self, revseq, tmp_path):
        before = [helper.make_node("Mul", ["u", "k"], ["x"])]
        one(tmp_path / "m.onnx", [("u", 1, [2, 3]), ("k", 1, []), ("n", 7, [3])], before)
        np.save(tmp_path / "k.npy", np.float32(2))
        feeds = ("--feed", "u=[[1, 2, 3], [4, 5, 6]]", "--feed", "k=k.npy", *VALUES[2:])
        assert json.loads(revseq("run", "m.onnx", *feeds, "-f", "json").ok().out)["Values"] == [[2, 10, 12], [8, 4, 6]]

    def test_a_pipe_is_read_once(self, revseq, tmp_path):
        one(tmp_path / "m.onnx")
        revseq("run", "m.onnx", "-", "--feed", "x=-").refused("x and LENGTHS are both standard input")
        pipe = np.save(tmp_path / "x.npy", np.arange(6, dtype="f4").reshape(2, 3)) or (tmp_path / "x.npy").read_bytes()
        done = revseq("run", "m.onnx", "--feed", "x=-", *VALUES[2:], "-f", "json", stdin=pipe).ok()
        assert json.loads(done.out)["Values"] == [[0, 4, 5], [3, 1, 2]]

    def test_what_is_unusual_about_an_input_is_told(self, revseq, tmp_path):
        before = [helper.make_node("Cast", ["u"], ["x"], to=1), helper.make_node("Identity", ["m"], ["n"])]
        one(tmp_path / "m.onnx", [("u", 5, [1, 3]), ("m", 7, [3])], before)
        np.save(tmp_path / "u.npy", np.ones((1, 3), np.int16))
        (tmp_path / "u.npy").write_bytes((tmp_path / "u.npy").read_bytes() + bytes(2))  # as DxDispatch pads it
        done = revseq("run", "m.onnx", "--feed", "u=u.npy", "--feed", "m=[1, 1, 1]").ok()
        assert done.err.count("padding") == 1


def cut_of(path, *names):
    """What is handed on of a model, to compute these values."""
    return models.Model.open(str(path)).cut(*names, files=contextlib.ExitStack()).data


def an_if(inner, condition="c"):
    """A node If whose branches are these nodes, of which the last gives what it gives."""
    branch = helper.make_graph(inner, "branch", [], [onnx.ValueInfoProto(name=inner[-1].output[0])])
    return helper.make_node("If", [condition], ["z"], "choice", then_branch=branch, else_branch=branch)


class TestOfWhatIsLeftOut:
    """Inputs and outputs without a name."""

    def test_nothing_makes_them(self, revseq, tmp_path):
        """The LSTM, whose first output is left out as is an input of the Clip, is not needed."""
        weights = {"w": np.zeros((1, 8, 3), np.float32), "r": np.zeros((1, 8, 2), np.float32), "most": np.float32(5)}
        lstm = helper.make_node("LSTM", ["s", "w", "r"], ["", "h"], hidden_size=2)
        clip = helper.make_node("Clip", ["u", "", "most"], ["x"])
        inputs = [("u", 1, [2, 3]), ("n", 7, [3]), ("s", 1, [2, 1, 3])]
        one(tmp_path / "m.onnx", inputs, [lstm, clip], initializers=weights)
        done = revseq("run", "m.onnx", *OF_U, "-f", "json").ok()
        assert json.loads(done.out)["Values"] == [[1, 5, 5], [4, 2, 3]]
        cut = onnx.ModelProto.FromString(cut_of(tmp_path / "m.onnx", "x", "n"))
        assert [each.op_type for each in cut.graph.node] == ["Clip"]

    def test_a_model_without_inputs(self, revseq, tmp_path):
        one(tmp_path / "m.onnx", [], initializers={"n": np.array([1, 2, 2]), "x": np.ones((2, 3), np.float32)})
        revseq("run", "m.onnx", *VALUES).refused("matches no input of the model", "wanted: a model that has inputs")


class TestInside:
    """Nodes in subgraphs and functions, which ONNX Runtime gives no values of."""

    INPUTS = (("x", 1, [2, 3]), ("n", 7, [3]), ("c", 9, []))

    def test_a_node_in_a_subgraph(self, revseq, tmp_path):
        inner = an_if([reverse("x", "n", "y", "rev", time_axis=1, batch_axis=0)])
        save(tmp_path / "m.onnx", [an_if([inner, helper.make_node("Relu", ["z"], ["w"])])], self.INPUTS, ["z"])
        for name in ("m.onnx", "m.onnx::rev", "m.onnx::y"):
            done = revseq("check", name).refused(
                "m.onnx: ReverseSequence rev, with time_axis 1 and batch_axis 0, is inside"
            )
            assert "the If choice\n" in done.err
        nodes = [inner, reverse("x", "n", "r", "outer")]
        save(tmp_path / "m.onnx", nodes, self.INPUTS, ["z"])
        revseq("check", "m.onnx::rev").refused("is inside the If choice")
        done = revseq("check", "m.onnx")
        assert (done.status, done.out.count("pass  m.onnx::outer"), done.out.count("FAIL  m.onnx::rev")) == (1, 1, 1)

    def test_a_node_in_a_function(self, revseq, tmp_path):
        function = helper.make_function("mine", "Back", ["x", "n"], ["y"], [reverse("x", "n", "y", "rev")], [helper.make_opsetid("", 17)])  # fmt: skip
        node = helper.make_node("Back", ["x", "n"], ["y"], domain="mine")
        save(tmp_path / "m.onnx", [node], self.INPUTS, ["y"], functions=[function])
        revseq("check", "m.onnx").refused("rev, with time_axis 0 and batch_axis 1, is inside the function Back")

    def test_no_node_at_all(self, revseq, tmp_path):
        save(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], self.INPUTS, ["y"])
        revseq("run", "m.onnx", "--feed", "x=[[1]]").refused("m.onnx: has no ReverseSequence node")


class ReverseSequence(OpRun):
    """ReverseSequence as ONNX Runtime has it up to 1.27: what a line of length 0 holds is not written."""

    op_domain = ""

    def _run(self, x, n, time_axis=0, batch_axis=1):
        rest = tuple(range(2, x.ndim))
        lines = np.array(x.transpose(batch_axis, time_axis, *rest))
        for line, length in zip(lines, n, strict=True):
            line[:length] = line[:length][::-1]
            if not length and line.size:
                line[:] = 99
        return (lines.transpose(*((1, 0) if batch_axis else (0, 1)), *rest),)


class TestLinesOfLength0:
    """Before a node there are others, wherever they are: none of them gets a length of 0."""

    @pytest.mark.parametrize("place", ["graph", "branch", "function"])
    @pytest.mark.parametrize("sizes", [(2, 3), (0, 3)])
    def test_they_are_right(self, tmp_path, place, sizes):
        """Also where that operator is wrong, and where an axis of size 0 takes no other length."""
        inner = reverse("u", "n", "v", "other")
        add = helper.make_node("Add", ["v", "v"], ["x"])
        function = helper.make_function("mine", "Back", ["u", "n"], ["v"], [inner], [helper.make_opsetid("", 17)])
        before = {
            "graph": [inner, add],
            "branch": [an_if([an_if([inner]), helper.make_node("Identity", ["z"], ["w"])]), helper.make_node("Add", ["z", "z"], ["x"])],
            "function": [helper.make_node("Back", ["u", "n"], ["v"], domain="mine"), add],
        }[place]  # fmt: skip
        inputs = [("u", 1, [*sizes]), ("n", 7, [3]), ("c", 9, [])]
        one(tmp_path / "m.onnx", inputs, before, functions=[function] * (place == "function"))
        cut = onnx.ModelProto.FromString(cut_of(tmp_path / "m.onnx", "x"))
        inside = [each for function in cut.functions for each in function.node if each.op_type == "ReverseSequence"]
        assert "n" not in [each.input[1] for each in inside]
        u = np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)
        n = np.array([0, 2, 0]).clip(0, sizes[0])
        feeds = {"u": u, "n": n, "c": np.array(True)}
        needed = {name: feeds[name] for name in (each.name for each in cut.graph.input)}
        right = 2 * oracle.expected(u, np.broadcast_to(n, (1, 3)), 0)
        witness = onnxruntime.InferenceSession(cut.SerializeToString(), providers=["CPUExecutionProvider"])
        wrong = ReferenceEvaluator(cut, new_ops=[ReverseSequence])
        for each in (witness, wrong):
            assert oracle.same_bits(each.run(None, needed)[0], right)

    def test_names_that_the_model_has_are_not_taken(self, revseq, tmp_path):
        before = [reverse("revseq0", "n", "revseq_1"), helper.make_node("Identity", ["revseq_1"], ["x"])]
        one(tmp_path / "m.onnx", [("revseq0", 1, [2, 3]), ("n", 7, [3])], before)
        done = revseq(
            "run", "m.onnx::rev", "--feed", "revseq0=[[1, 2, 3], [4, 5, 6]]", "--feed", "n=[0, 2, 0]", "-f", "json"
        )
        assert json.loads(done.ok().out)["Values"] == [[1, 2, 3], [4, 5, 6]]

    def test_a_negative_length_stays_one(self, revseq, tmp_path):
        before = [reverse("u", "m", "x")]
        one(tmp_path / "m.onnx", [("u", 1, [2, 3]), ("m", 7, [3]), ("n", 7, [3])], before)
        feeds = ("--feed", "u=[[1, 2, 3], [4, 5, 6]]", "--feed", "m=[0, -1, 0]", *VALUES[2:])
        revseq("run", "m.onnx::rev", *feeds).refused("ONNX Runtime says", "Invalid sequence length: -1")


class TestOfOtherTypes:
    """What a node gets of a model that is no tensor of ours, or that ONNX Runtime hands out as another one."""

    @pytest.mark.parametrize(
        ("number", "fields", "problem"),
        [
            (23, {"raw_data": bytes(3)}, "x is float4e2m1"), (17, {"raw_data": bytes(6)}, "x is float8e4m3fn"),
            (22, {"raw_data": bytes(3)}, "x is int4"), (8, {"string_data": [b"a"] * 6}, "x is string"),
        ],
    )  # fmt: skip
    def test_initializers(self, revseq, tmp_path, number, fields, problem):
        model = one(tmp_path / "m.onnx", [("n", 7, [3])])
        model.graph.initializer.add(name="x", dims=[2, 3], data_type=number, **fields)
        model.opset_import[0].version, model.ir_version = 23, 11
        (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
        for args in (("run", "m.onnx", *VALUES[2:]), ("check", "m.onnx")):
            done = revseq(*args)
            if "ONNX Runtime says" not in done.err:  # an older one does not have the type
                done.refused(f"m.onnx: the data type of {problem}", "wanted: a given tensor, or computed")

    def test_an_array_of_another_type_than_is_declared(self, revseq, tmp_path):
        one(tmp_path / "m.onnx", U_AND_N, [helper.make_node("Relu", ["u"], ["x"])])
        code = """
import onnxruntime
real = onnxruntime.InferenceSession.run
onnxruntime.InferenceSession.run = lambda *args: [each.astype("u1") for each in real(*args)]
"""
        done = revseq("run", "m.onnx", *OF_U, code=code)
        done.refused("m.onnx: ONNX Runtime returns x, of FLOAT32, as uint8")

    def test_a_sequence(self, revseq, tmp_path):
        before = [helper.make_node("SequenceConstruct", ["u", "u"], ["x"])]
        one(tmp_path / "m.onnx", U_AND_N, before)
        for args in (("run", *OF_U), ("check",)):
            revseq(args[0], "m.onnx", *args[1:]).refused("m.onnx: the data type of x is seq(tensor(float))")

    @pytest.mark.parametrize("place", ["initializer", "constant"])
    def test_sparse_tensors(self, revseq, tmp_path, place):
        sparse = onnx.SparseTensorProto(dims=[2, 3])
        sparse.values.CopyFrom(numpy_helper.from_array(np.ones(2, np.float32), "s" if place == "initializer" else ""))
        sparse.indices.CopyFrom(numpy_helper.from_array(np.array([1, 4])))
        constant = helper.make_node("Constant", [], ["s"])
        constant.attribute.add(name="sparse_value", type=11).sparse_tensor.CopyFrom(sparse)
        for x, status in (("s", 2), ("x", 0)):
            nodes = [constant] * (place == "constant") + [
                helper.make_node("Add", ["u", "s"], ["x"]),
                reverse(x, "n", "y"),
            ]
            model = save(tmp_path / "m.onnx", nodes, U_AND_N, ["y"])
            if place == "initializer":
                model.graph.sparse_initializer.append(sparse)
                (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
            feeds = ("--feed", "u=[[1, 2, 3], [4, 5, 6]]") * (x == "x") + VALUES[2:]
            done = revseq("run", "m.onnx", *feeds, "-f", "json")
            if status:
                done.refused("m.onnx: ONNX Runtime returns s, of FLOAT32, as")
            else:
                assert json.loads(done.ok().out)["Values"] == [[1, 6, 6], [4, 3, 3]]

    @pytest.mark.needs("ONNX Runtime 1.21")
    def test_standard_output_is_ours_alone(self, revseq, tmp_path):
        """ONNX Runtime prints there where it falls back to another provider, as for an operator that is no text."""
        one(tmp_path / "m.onnx", U_AND_N, [helper.make_node("Relu", ["u"], ["x"])])
        data = (tmp_path / "m.onnx").read_bytes()
        (tmp_path / "m.onnx").write_bytes(data.replace(b"Relu", b"R\xbc\xbdu"))
        done = revseq("check", "m.onnx", "--json").refused("m.onnx: ONNX Runtime says")
        assert json.loads(done.out)["errors"]


class TestEveryNode:
    """`show` and `check` of a model whose nodes are not named."""

    @pytest.fixture
    def model(self, tmp_path):
        """Nodes that DirectML takes, that it does not take, with axes that ONNX does not have, and inside of another."""
        nodes = [
            reverse("x", "n", "a", "first"),
            helper.make_node("Cast", ["a"], ["b"], to=TensorProto.BOOL), reverse("b", "n", "y", "mask"),
            helper.make_node("Transpose", ["x"], ["t"]), reverse("t", "n", "w", "far", time_axis=2, batch_axis=1),
            reverse("t", "n", "v", "odd", time_axis=-1), an_if([reverse("a", "n", "q", "inner")]),
        ]  # fmt: skip
        inputs = [("x", 1, ["T", "N", 4]), ("n", 7, ["N"]), ("c", 9, [])]
        save(tmp_path / "m.onnx", nodes, inputs, ["y"], {"large": np.zeros(5000)})

    @pytest.mark.usefixtures("model")
    def test_they_are_listed(self, revseq):
        assert revseq("show", "m.onnx").ok().out.splitlines()[1:] == [
            "  first  ReverseSequence, time_axis 0, batch_axis 1, (Sizes:{T,N,4}, DataType:FLOAT32)",
            "  mask   ReverseSequence, time_axis 0, batch_axis 1, (Sizes:{T,N,4}, DataType:BOOL)",
            "  far    ReverseSequence, time_axis 2, batch_axis 1, (Sizes:{4,N,T}, DataType:FLOAT32)",
            "  odd    ReverseSequence, time_axis -1, batch_axis 1, (Sizes:{4,N,T}, DataType:FLOAT32)",
            "  inner  ReverseSequence, time_axis 0, batch_axis 1, inside the If choice",
        ]

    @pytest.mark.usefixtures("model")
    def test_each_is_checked(self, revseq):
        done = revseq("check", "m.onnx")
        assert done.status == 1
        assert done.out.splitlines() == [
            "pass  m.onnx::first: DML_FEATURE_LEVEL_5_0 accepts it: all 12 constraints hold",
            "FAIL  m.onnx::mask: DML_FEATURE_LEVEL_5_0 refuses it: 1 of 12 constraints fails",
            "FAIL  m.onnx::far: ReverseSequence has time_axis 2 and batch_axis 1",
            "FAIL  m.onnx::odd: ReverseSequence has time_axis -1 and batch_axis 1",
            "FAIL  m.onnx::inner: ReverseSequence inner, with time_axis 0 and batch_axis 1, is inside the If choice",
            "Hint: revseq check m.onnx::mask",
            "Hint: m.onnx::far: to take it as TensorFlow's: add --like tensorflow --axis 2",
        ]
        told = json.loads(revseq("check", "m.onnx", "--json").out)
        assert (told["exit_status"], [each["ok"] for each in told["nodes"]]) == (1, [True, False, False, False, False])
        assert (told["nodes"][0]["lowest_level"], told["nodes"][2]["errors"][0]["key"]) == ("4_0", "far")

    @pytest.mark.usefixtures("model")
    def test_the_model_is_parsed_once(self, revseq):
        """And not once for each node: a model may be large."""
        code = """
import sys
from revseq_cli.formats.onnx import models
load = models.load
models.load = lambda path: [print("parsed", file=sys.stderr), load(path)][1]
"""
        done = revseq("check", "m.onnx", code=code)
        assert (len(done.out.splitlines()), done.err.count("parsed\n")) == (7, 1)

    @pytest.mark.usefixtures("model")
    def test_a_model_that_has_changed_is_parsed_again(self, tmp_path):
        path = str(tmp_path / "m.onnx")
        model = models.Model.open(path)
        assert models.Model.open(path) is model
        bilstm(tmp_path / "m.onnx")
        assert [*models.Model.open(path).nodes] == ["rev", "yb"]

    def test_a_model_that_ports(self, revseq, tmp_path):
        bilstm(tmp_path / "m.onnx")
        done = revseq("check", "m.onnx", "--feature-level", "all").ok()
        words = "DirectML accepts it from DML_FEATURE_LEVEL_4_0 on: 10 of 15 feature levels do"
        assert done.out == f"pass  m.onnx::rev: {words}\npass  m.onnx::yb: {words}\n"
        done = revseq("check", "m.onnx", "--feature-level", "3_0")
        assert (done.status, done.out.count("FAIL")) == (1, 2)
        done = revseq("check", "m.onnx", *FEED, "--on", "onnxruntime").ok()
        assert done.out.count("pass") == 2

    @pytest.mark.usefixtures("model")
    def test_what_hints_say_can_be_typed(self, revseq, tmp_path):
        """Axes as TensorFlow has them, and a data type that DirectML does not have."""
        done = revseq("check", "m.onnx::far").refused("ReverseSequence has time_axis 2 and batch_axis 1")
        assert "Hint: to take it as TensorFlow's: add --like tensorflow --axis 2\n" in done.err
        told = revseq("check", "m.onnx::far", "--like", "tensorflow", "--axis", "2").ok().out
        assert "Axis                   2 (N*4 lines of T elements)" in told
        x = np.arange(24, dtype=np.float32).reshape(3, 2, 4)
        np.save(tmp_path / "x.npy", x)
        feeds = ("--feed", "x=x.npy", "--feed", "n=[3, 2]")
        revseq("run", "m.onnx::far", *feeds, "--like", "tensorflow", "--axis", "2", "-o", "y.npy").ok()
        right = oracle.expected(x.transpose(), np.array([3, 2]).reshape(1, 2, 1).repeat(4, 0), 2)
        assert oracle.same_bits(np.load(tmp_path / "y.npy"), right)

    @pytest.mark.usefixtures("model")
    def test_a_mask_of_keras(self, revseq):
        done = revseq("check", "m.onnx::mask")
        assert done.status == 1
        assert "compare as UINT8, which has the same bytes, or try --feature-level none" in " ".join(done.out.split())  # fmt: skip
        revseq("check", "m.onnx::mask", "--feature-level", "none").ok()


def test_raw_buffers_are_given_with_the_sizes_that_the_model_states(revseq, tmp_path):
    for sizes, status in (([2, 3], 0), (["T", 3], 0), (["T", "N"], 2), (None, 2)):
        one(tmp_path / "m.onnx", [("x", 1, sizes), ("n", 7, [3])])
        np.array([[1, 2, 3], [4, 5, 6]], "<f4").tofile(tmp_path / "x.bin")
        done = revseq("run", "m.onnx", "--feed", "x=x.bin", "--feed", "n=[2, 0, 1]", "-f", "json")
        assert done.status == status, done.err
        if status:
            assert "x.bin: is a raw buffer, and the model states no sizes of x" in done.err
        else:
            assert json.loads(done.out)["Values"] == [[4, 2, 3], [1, 5, 6]]


def _weight(location, **more):
    """A tensor of three floats that says that its elements are in a file."""
    weight = TensorProto(name="w", dims=[3], data_type=1, data_location=TensorProto.EXTERNAL, **more)
    weight.external_data.add(key="location", value=location)
    return weight


def _by_default(location):
    """As the default attribute of a function, which hands it to a Constant."""
    constant = helper.make_node("Constant", [], ["o"])
    constant.attribute.add(name="value", ref_attr_name="v", type=onnx.AttributeProto.TENSOR)
    default = [helper.make_attribute("v", _weight(location))]
    function = helper.make_function("mine", "Weight", [], ["o"], [constant], [helper.make_opsetid("", 17)], attribute_protos=default)  # fmt: skip
    return b"", [helper.make_node("Weight", [], ["w"], domain="mine")], [function]


def _by_a_long_key(location):
    """As an initializer whose field has a key above 32 bits, of which some parsers see the lowest ones."""
    data = _weight(location).SerializeToString()
    return source.varint(42 | 1 << 32) + source.varint(len(data)) + data, [], []


def _by_a_long_key_inside(location):
    """As an initializer whose data_location has such a key."""
    weight = _weight(location)
    weight.ClearField("data_location")
    return source.message((5, weight.SerializeToString() + source.varint(112 | 1 << 32) + b"\1")), [], []


def _twice(location):
    """As an attribute whose tensor is given twice, which protobuf merges."""
    tensors = [(5, _weight("own.bin").SerializeToString()), (5, source.message((13, source.message((1, "location"), (2, location)))))]  # fmt: skip
    node = source.message((2, "w"), (4, "Constant"), (5, source.message((1, "value"), *tensors, (20, 4))))
    return source.message((1, node)), [], []


def _sparse(location):
    """As the values of a sparse initializer."""
    sparse = onnx.SparseTensorProto(values=_weight(location), dims=[3])
    sparse.indices.CopyFrom(numpy_helper.from_array(np.arange(3)))
    return source.message((15, sparse.SerializeToString())), [], []


def _in_a_list(location):
    """Among the tensors of an attribute that has several."""
    node = source.message((2, "w"), (4, "Constant"), (5, source.message((1, "v"), (10, _weight(location).SerializeToString()), (20, 9))))  # fmt: skip
    return source.message((1, node)), [], []


DOORS = (_by_default, _by_a_long_key, _by_a_long_key_inside, _twice, _sparse, _in_a_list)


def _as_an_initializer(location):
    return source.message((5, _weight(location).SerializeToString())), [], []


def _as_a_constant(location):
    return b"", [helper.make_node("Constant", [], ["w"], value=_weight(location))], []


def _in_a_function(location):
    constant, opset = helper.make_node("Constant", [], ["o"], value=_weight(location)), helper.make_opsetid("", 17)
    function = helper.make_function("mine", "Weight", [], ["o"], [constant], [opset])
    return b"", [helper.make_node("Weight", [], ["w"], domain="mine")], [function]


def _in_a_branch(location):
    """As a Constant that an If in the graph has in both of its branches."""
    constant = helper.make_node("Constant", [], ["v"], value=_weight(location))
    return b"", [an_if([constant, helper.make_node("Identity", ["v"], ["b"])]), helper.make_node("Identity", ["z"], ["w"])], []  # fmt: skip


# Each with files that others have; and what else is no name of a file below the model's folder.
NO_FILES_OF_ITS_OWN = [
    *itertools.product(DOORS, ["{}/own.bin", "../own.bin", "*/_ORT_MEM_ADDR_/*"]),
    *itertools.product([_as_an_initializer], ["", "{}/own.bin", "../own.bin", "a/../../own.bin", "C:own.bin", "a\\own.bin"]),
    *itertools.product([_as_an_initializer], ["link", "up/own.bin", "*/_ORT_MEM_ADDR_/*", "none"]),
    *itertools.product([_as_a_constant, _in_a_branch, _in_a_function], ["{}/own.bin", "../own.bin", "link"]),
]  # fmt: skip


class TestDoors:
    """Ways for a model to read a file of the machine, where a checker parses it otherwise than the one that runs it."""

    def make(self, path, door, location):
        """A model whose node gets u + w, and w is what the door gives."""
        graph, nodes, functions = door(location)
        add = helper.make_node("Add", ["u", "w"], ["x"])
        model = one(path, [("u", 1, [2, 3]), ("n", 7, [3]), ("c", 9, [])], [], functions=functions)
        rest = [*model.graph.node]
        del model.graph.node[:]
        encoded = b"".join(source.message((1, each.SerializeToString())) for each in (*nodes, add, *rest))
        inside = model.graph.SerializeToString()
        model.ClearField("graph")
        path.write_bytes(model.SerializeToString() + source.message((7, graph + encoded + inside)))

    @pytest.mark.parametrize(("door", "location"), NO_FILES_OF_ITS_OWN)
    def test_no_door_is_open(self, revseq, tmp_path, door, location):
        here = tmp_path / "here"
        here.mkdir()
        for folder in (tmp_path, here):
            (folder / "own.bin").write_bytes(np.full(3, 7, np.float32).tobytes())
        (here / "link").symlink_to(tmp_path / "own.bin")
        (here / "up").symlink_to(tmp_path)
        self.make(here / "m.onnx", door, location.format(tmp_path))
        np.save(here / "c.npy", np.array(True))
        for args in (("run", "m.onnx", *OF_U, "--feed", "c=c.npy"), ("check", "m.onnx")):
            done = revseq(*args, code=NO_SESSION, cwd=here).refused("none" if location == "none" else "m.onnx")
            if door not in DOORS:
                assert "the folder of the tensor's file" in done.err or "no such file" in done.err
            assert "a session is made" not in done.err
            assert "8" not in done.out

    @pytest.mark.parametrize("door", [_by_default, _sparse])
    def test_a_file_of_its_own_is_in_the_model_that_is_handed_on(self, revseq, tmp_path, door):
        """With no name of a file in it: `handed` has what the session gets."""
        (tmp_path / "own.bin").write_bytes(np.full(3, 7, np.float32).tobytes())
        self.make(tmp_path / "m.onnx", door, "own.bin")
        done = revseq("run", "m.onnx", *OF_U, "-f", "json", code=HANDED).ok()
        assert json.loads(done.out)["Values"] == [[8, 12, 13], [11, 9, 10]]
        handed = (tmp_path / "handed").read_bytes()
        assert np.full(3, 7, np.float32).tobytes() in handed
        assert b"own.bin" not in handed

    def test_what_nobody_knows_is_not_handed_on(self, revseq, tmp_path):
        model = one(tmp_path / "m.onnx", U_AND_N, [helper.make_node("Relu", ["u"], ["x"])])
        unknown = source.message((2000, b"unknown to all"))
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


# Run first: sessions that are not to be made, and what a session is made of.
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


class TestStrangers:
    """Models that want what they must not have."""

    @pytest.mark.parametrize("domain", ["", "mine", "com.foo"])
    def test_operators_that_nobody_has(self, revseq, tmp_path, domain):
        foreign = helper.make_node("Foo", ["u"], ["x"], domain=domain)
        one(tmp_path / "m.onnx", U_AND_N, [foreign])
        told = "wanted: operators of ONNX Runtime; libraries of others are never loaded"
        for command, feeds in (("run", OF_U), ("check", ())):
            revseq(command, "m.onnx", *feeds).refused("m.onnx: ONNX Runtime says", domain, told)
        save(tmp_path / "m.onnx", [reverse("x", "n", "u"), foreign], [("x", 1, [2, 3]), ("n", 7, [3])], ["x"])
        revseq("run", "m.onnx", *VALUES).ok()

    @pytest.mark.needs("ONNX Runtime 1.21")
    def test_a_file_that_is_cut_short(self, revseq, tmp_path):
        add = helper.make_node("Add", ["u", "w"], ["x"])
        inputs = U_AND_N
        one(tmp_path / "m.onnx", inputs, [add], initializers={"w": np.ones(3, np.float32)}, outside=["w"])
        os.truncate(tmp_path / "model.data", 5)
        revseq("check", "m.onnx").refused("m.onnx: w: has 12 bytes at 0 of model.data, which has 5")

    def test_a_data_type_that_cannot_be_computed(self, revseq, tmp_path):
        """NumPy has no BFLOAT16, and only newer versions of ONNX Runtime name it; a given tensor of it is read in place."""
        cast = helper.make_node("Cast", ["u"], ["x"], to=TensorProto.BFLOAT16)
        one(tmp_path / "m.onnx", U_AND_N, [cast])
        done = revseq("run", "m.onnx", *OF_U)
        done.refused(
            "ONNX Runtime says No corresponding Numpy type", "wanted: a given tensor, or computed FLOAT16 to FLOAT64"
        )
        one(tmp_path / "m.onnx", [("x", 16, [2, 3]), ("n", 7, [3])])
        onnx.save_tensor(helper.make_tensor("x", 16, [2, 3], range(6)), tmp_path / "x.pb")
        revseq("run", "m.onnx", "--feed", "x=x.pb", *VALUES[2:], "--feature-level", "none", "-o", "y.npy").ok()

    @pytest.mark.needs("ONNX Runtime 1.21")
    def test_more_elements_than_a_model_holds(self, revseq, tmp_path):
        """They go to files of ours, under names of ours, which are gone at the end."""
        add = [helper.make_node("Add", ["u", "w"], ["x"])]
        weights = {"w": np.full((2, 300), 7.0), "n": np.full(300, 2)}
        one(tmp_path / "m.onnx", [("u", 11, [2, 300])], add, initializers=weights, outside=["w", "n"])
        np.save(tmp_path / "u.npy", np.arange(600.0).reshape(2, 300))
        (tmp_path / "temp").mkdir()
        code = f"import tempfile; tempfile.tempdir = 'temp'; from revseq_cli.formats.onnx import models; models.MOST_INSIDE = 4000\n{HANDED}"
        done = revseq("run", "m.onnx", "--feed", "u=u.npy", "-o", "y.npy", code=code)
        done.ok()
        assert oracle.same_bits(np.load(tmp_path / "y.npy"), np.load(tmp_path / "u.npy")[::-1] + 7)
        assert [*(tmp_path / "temp").iterdir()] == []
        handed = onnx.ModelProto.FromString((tmp_path / "handed").read_bytes())
        outside = {each.name: each.external_data[0].value for each in handed.graph.initializer if each.external_data}
        assert outside == {"w": "1"}
        old = f"import onnxruntime; onnxruntime.__version__ = '1.20.1'\n{code}"
        done = revseq("run", "m.onnx", "--feed", "u=u.npy", code=old)
        done.refused("ONNX Runtime 1.20.1", "wanted: ONNX Runtime 1.21 or newer")

    @pytest.mark.needs("ONNX Runtime 1.21")
    def test_a_file_beside_the_model_is_found_from_any_folder(self, revseq, tmp_path):
        (tmp_path / "a").mkdir()
        for folder, value in (("a", 3), (".", 1)):
            one(tmp_path / folder / "m.onnx", initializers={"n": np.full(3, value - 1)}, outside=["n"])
        (tmp_path / "a" / "m.onnx").write_bytes((tmp_path / "m.onnx").read_bytes())
        done = revseq("run", "a/m.onnx", *VALUES[:2], "-f", "json").ok()
        assert json.loads(done.out)["Values"] == [[4, 5, 6], [1, 2, 3]]

    def test_a_model_that_is_cut_short(self, tmp_path):
        bilstm(tmp_path / "m.onnx")
        data, rng = (tmp_path / "m.onnx").read_bytes(), np.random.default_rng(3)
        damaged = [data[:size] for size in range(0, len(data), 7)]
        places = rng.integers(0, len(data), 400)
        damaged += [data[:place] + bytes([rng.integers(256)]) + data[place + 1 :] for place in places]
        refused = 0
        for each in damaged:
            (tmp_path / "m.onnx").write_bytes(each)
            try:
                model = models.Model.open(str(tmp_path / "m.onnx"))
                node = model.node("yb")
                model.cut(node.values, node.lengths, files=contextlib.ExitStack())
            except FormatError:
                refused += 1
        assert len(damaged) // 4 < refused < len(damaged)

    def test_messages_that_are_deep(self, revseq, tmp_path):
        node = source.message((4, "If"))
        for _ in range(2000):
            node = source.message((5, source.message((6, source.message((1, node))))))
        (tmp_path / "m.onnx").write_bytes(source.message((1, 8), (7, source.message((1, node)))))
        revseq("check", "m.onnx").refused("m.onnx: is not an ONNX model", "more than 100 deep")

    def test_a_model_that_lies_about_its_sizes(self, revseq, tmp_path):
        one(tmp_path / "m.onnx", [("u", 1, ["A", "B"]), ("n", 7, [3])], [helper.make_node("Add", ["u", "w"], ["x"])],
            initializers={"w": np.ones(3, np.float32)})  # fmt: skip
        revseq("run", "m.onnx", "--feed", "u=[[1, 2], [3, 4]]", *VALUES[2:]).refused("m.onnx: ONNX Runtime says")

    def test_only_what_the_node_needs_is_read(self, tmp_path):
        behind = helper.make_node("Add", ["y", "large"], ["z"])
        model = save(tmp_path / "m.onnx", [reverse("x", "n", "y"), behind], [("x", 1, [2, 3]), ("n", 7, [3])], ["z"],
                     {"large": np.zeros((2, 3), np.float32)})  # fmt: skip
        cut = onnx.ModelProto.FromString(cut_of(tmp_path / "m.onnx", "x", "n"))
        assert (len(cut.graph.node), len(cut.graph.initializer), len(model.graph.initializer)) == (0, 0, 1)
        assert [each.name for each in cut.graph.output] == ["x", "n"]
