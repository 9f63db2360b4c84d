"""The bracket notation: the pages to the letter, every variation that pages have, and errors with their place."""

from types import SimpleNamespace

import numpy as np
import oracle
import pytest
from conftest import ROOT, SAMPLES
from growth import is_linear
from hypothesis import given, settings
from hypothesis import strategies as st

from revseq_cli.core.errors import FormatError, RevseqError
from revseq_cli.core.tensors import DataType, TensorDesc
from revseq_cli.formats.contract import TextTypes
from revseq_cli.formats.text import TEXT
from revseq_cli.text import notation, rows
from revseq_cli.text.examples import Text
from revseq_cli.text.positions import error_at
from revseq_cli.text.tensor_text import TensorText


def tensors(text):
    return [item for item in Text("x", text).items if isinstance(item, TensorText)]


def values(text, name="FLOAT32"):
    (tensor,) = tensors(text)
    return tensor.parse_values(DataType[name])


@settings(max_examples=80)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=8),
    st.sampled_from(oracle.DATA_TYPES),
    st.integers(0, 2**32),
)
def test_round_trip(sizes, data_type, seed):
    array = oracle.random_values(np.random.default_rng(seed), sizes, data_type)
    desc = TensorDesc(data_type, tuple(sizes))
    (tensor,) = tensors(rows.write_tensor("T", desc, array))
    assert (tensor.name, tensor.desc) == ("T", desc)
    assert oracle.same_bits(tensor.parse_values(data_type), array)


HEADER = "T: (Sizes:{2,2}, DataType:FLOAT32)\n"


@pytest.mark.parametrize(
    "text",
    [
        "[[1, 2], [3, 4]]", "[[1, 2],\n [3, 4]]", " \n[[1,2],[3,4]]\n ", "[[1, 2,],\n [3, 4],\n]",
        "[[1, 2]\n [3, 4]]", "[\n[1, 2],\n\n  \n[3, 4]\n]", "[[1.0f, 2.], [3, 4.0]]", "[[1,\t2], [3, 4]]\r\n",
        "[[1, 2], // [[ { 9, ...\n [3, 4]]", "// a line of its own: [1\n[[1, 2], [3, 4]] // [", '[["inf", 2], [3, 4]]',
        HEADER + "[[1, 2], [3, 4]]", HEADER + "    [[1, 2],\n     [3, 4]]", HEADER + "\n \n[[1, 2], [3, 4]]",
        "  T : (Sizes:{2, 2}, DataType:FLOAT32)\n[[1, 2], [3, 4]]", "T: (Sizes:{2,2} DataType:FLOAT32)\n[[1,2],[3,4]]",
        "T[0]: (Sizes:{2,2}, DataType:FLOAT32)\n[[1, 2], [3, 4]]", "T = (Sizes:{2,2},DataType:float32)\n[[1,2],[3,4]]",
        "T: (Sizes:{1,1,2, 2}, DataType:FLOAT32)\n[[1, 2], [3, 4]]",
        "prose before\n```\n" + HEADER + "[[1, 2], [3, 4]]\n```\nand after [link](x)\n",
    ],
)  # fmt: skip
def test_variations(text):
    assert values(text).ravel()[1:].tolist() == [2, 3, 4]


@pytest.mark.parametrize(
    "text",
    ["[1&#46;5, x]", "&#91;1&#46;5, x&#93;", "[&#49;&#x2e;&#53;&nbsp;x&#93;", "array([1.&#53; x])", "[15&#101;-1,x]"],
)  # fmt: skip
def test_html_references_inside_a_number(text):
    assert values(text.replace(" x", " 2").replace(",x", ",2").replace(";x", ";2")).tolist() == [
        1.5,
        2,
    ]
    with pytest.raises(FormatError) as caught:
        values(text)
    assert caught.value.found.startswith(f"line 1, column {text.rindex('x') + 1}: ")


def test_axis_lines_anywhere():
    text = f"Axis: 3\n{HEADER}[[1, 2], [3, 4]]\n- Axis =   2\n  Mode = SOME\nAxes: {{0, 1}}\nAxis: the first\n"
    lines = [item for item in Text("x", text).items if isinstance(item, notation.AxisLine)]
    assert [(line.value, text[: line.start].count("\n")) for line in lines] == [
        (3, 0),
        (2, 3),
        (None, 6),
    ]


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("[[1, 2], [3]]", (1, 10), "this row has 1 element, the others have 2"), ("[[1, 2], [3, 4, 5], [6, 7]]", (1, 10), "this row has 3 elements"),
        ("[[1, 2, 3],\n [4], [5],\n [6]]", (1, 2), "this row has 3 elements, the others have 1"),
        ("T: (Sizes:{2,2}, DataType:INT8)\n[[1], [2, 3]]", (2, 2), "this row has 1 element, the others have 2"),
        ("T: (Sizes:{3,1}, DataType:INT8)\n[[1, 2], [3, 4], [5]]", (2, 2), "this row has 2 elements, the others have 1"),
        ("[1, [2]]", (1, 6), "2 brackets deep"), ("[1 [2]]", (1, 4), "next to a number"),
        ("[[1] 2]", (1, 6), "next to a row"), ("[[1 2], [3, 4]]", (1, 5), "a comma is missing"),
        ("[1, ..., 4]", (1, 5), "elements are left out here"),
        ("[1,, 2]", (1, 4), "a number is missing"), ("[, 1]", (1, 2), "a number is missing"),
        ("[[1], []]", (1, 8), "an empty row"), ("[[1, 2]", (1, 8), "is missing"),
        ("[1]]", (1, 4), "after the last bracket"), ("[[[1]], [2]]", (1, 10), "2 brackets deep"),
        ("[[1, x], [3, 4]]", (1, 6), "'x' is not a number"), ("[[1, 2], [3, é]]", (1, 14), "'é' is not a number"),
        ('["2"]', (1, 2), "'\"2\"' is not a number"), ("[1;2]", (1, 2), "'1;2' is not a number"),
        (HEADER + "[[1, 2, 3], [3, 4, 5]]", (1, 1), "the values have {2,3}, but {2,2} is stated"),
        (HEADER + "Axis: 1\n", (1, 1), "T has no values"),
        ("T: (Sizes:{2,x}, DataType:FLOAT32)\n[1]", (1, 12), "Sizes {2,x}"),
        ("T: (Sizes:{2,-1}, DataType:FLOAT32)\n[1]", (1, 12), "Sizes {2,-1}"),
        ("T: (Sizes:{2}, DataType:FLOAT99)\n[1]", (1, 25), "'FLOAT99' is not a data type"),
        ("[" * 65 + "1" + "]" * 65, (1, 1), "65 brackets deep"), ("[" * 100_000 + "1" + "]" * 100_000, (1, 1), "100000 brackets deep"),
        ("[16777217]", (1, 2), "FLOAT32 cannot hold 16777217 exactly"),
        ("[1, \uff12]", (1, 5), "not a number"), ("[1, \u202f2]", (1, 5), "not a number"),
        ("T: (Sizes:{\uff12}, DataType:FLOAT32)\n[1, 2]", (1, 12), "has Sizes"), ("T: (Sizes:{1_0}, DataType:INT8)\n[1]", (1, 12), "has Sizes"),
        (HEADER + "[[1, 2], [3, 4]]]", (2, 17), "this bracket closes nothing; expected one more [ before it"), (HEADER + "[[1, 2], [3, 4", (2, 15), "2 brackets ] are missing; expected ]] here"),
        ("array([1, 2], order='C')", (1, 13), "not a tensor as NumPy"), ("array([1, 2]", (1, 13), "as NumPy"), ("array([1, 2]) + 1", (1, 15), "unexpected text"),
        ("array([1, 2], shape=(3,))", (1, 7), "the values have {2}, but {3} is stated"), ("array([0, 1, ..., 9], shape=(9,))", (1, 14), "elements are left out here"),
    ],
)  # fmt: skip
def test_h27_errors_show_the_place(text, place, problem):
    with pytest.raises(FormatError) as caught:
        [t.parse_values(DataType.FLOAT32) for t in tensors(text)]
    message = str(caught.value)
    assert f"line {place[0]}, column {place[1]}: " in message
    assert problem in message
    shown, caret = message.split("\n")[1:3]
    told = f"{text} ".split("\n")[place[0] - 1][place[1] - 1]  # or right behind the text
    assert f"{shown} "[caret.index("^")] == told.replace("\u202f", "\\")


def test_a_text_of_headers_alone_is_refused(monkeypatch):
    monkeypatch.setattr(notation, "MOST_TENSORS", 100)
    with pytest.raises(FormatError, match="holds more than 100 tensors"):
        tensors("T: (Sizes:{1}, DataType:FLOAT32)\n" * 101)


def test_pages_of_many_examples_take_time_that_is_linear():
    page = (SAMPLES / "page.md").read_text(encoding="utf-8")

    def find(count):
        text = Text("x", page * count)
        assert len(text.examples) == 2 * count
        address = SimpleNamespace(text=text, key=None, path="x")
        assert len(TEXT.contents(address, TextTypes(None, DataType.FLOAT32)).items) == 6 * count

    assert is_linear(find, 50)


PRINTED = np.array([[1, -2.5, 3], [4, 5, 1e10]], np.float64)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (repr(PRINTED), ""), (str(PRINTED), ""), (repr(PRINTED.astype("f4")), "FLOAT32"), (f"np.{PRINTED!r}", ""),
        (repr([[*row] for row in PRINTED]), "FLOAT64"), ("[[np.float64(1.0), np.float64(-2.5), np.float64(3.0)], [np.float64(4.0), 5, 1e10]]", "FLOAT64"),
        ("array([[1, -2.5, 3], [4, 5, 1e10]], shape=(2, 3))", ""), ("array([[1, -2.5, 3], [4, 5, 1e10]], shape=(2, 3), dtype=float64)", "FLOAT64"),
        ("tensor([[ 1.0000e+00, -2.5000e+00,  3.0000e+00],\n        [ 4.0000e+00,  5.0000e+00,  1.0000e+10]], dtype=torch.float64, grad_fn=<X>)", "FLOAT64"),
        ("torch.tensor([[1, -2.5, 3], [4, 5, 1e10]], device='cuda:0')", ""), ("[[1.0D+00 -2.5d0 3.D0] [4 5 1.0D+10]]", ""),
    ],
)  # fmt: skip
def test_what_numpy_pytorch_and_fortran_print(text, name):
    (tensor,) = tensors(text)
    assert (
        (tensor.data_type.name if tensor.data_type else "") == name
        or text.startswith("[[np")
        or repr(1.0) in text
    )
    assert tensor.parse_values(DataType.FLOAT64).tolist() == PRINTED.tolist()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Array([[ 1. , -2.5],\n       [ 3. ,  4. ]], dtype=float32)", "FLOAT32"),
        ("Array([[1, -2.5], [3, 4]], dtype=float64, weak_type=True)", "FLOAT64"),
        ("DeviceArray([[1, -2.5], [3, 4]], dtype=float32)", "FLOAT32"),
        ("tf.Tensor(\n[[ 1.  -2.5]\n [ 3.   4. ]], shape=(2, 2), dtype=float64)", "FLOAT64"),
        ("<tf.Tensor: shape=(2, 2), dtype=float32, numpy=\narray([[ 1. , -2.5],\n       [ 3. ,  4. ]], dtype=float32)>", "FLOAT32"),
        ("<tf.Variable 'Variable:0' shape=(2, 2) dtype=float32, numpy=\narray([[ 1. , -2.5],\n       [ 3. ,  4. ]], dtype=float32)>\n", "FLOAT32"),
    ],
)  # fmt: skip
def test_what_jax_and_tensorflow_print(revseq, tmp_path, text, name):
    (tensor,) = tensors(text)
    assert tensor.data_type.name == name
    assert tensor.parse_values(DataType[name]).tolist() == [[1, -2.5], [3, 4]]
    (tmp_path / "x.txt").write_text(text)
    for source in (text, "x.txt"):
        printed = revseq("run", source, "[2, 1]", "--axis", 1).ok().out
        assert (
            printed == f"OutputTensor: (Sizes:{{2,2}}, DataType:{name})\n[[-2.5, 1],\n [   3, 4]]\n"
        )


@pytest.mark.parametrize("text", ["[[True, False]]", "array([[ True, False]])", "[[np.True_, np.False_]]",
                                  "tensor([[True, False]], requires_grad=True)", "[[ True False]]"])  # fmt: skip
def test_truth_values(text):
    (tensor,) = tensors(text)
    assert tensor.data_type is DataType.BOOL
    assert tensor.parse_values(DataType.BOOL).tolist() == [[True, False]]


def test_printed_arrays_that_are_empty_or_no_tensors():
    (tensor,) = tensors(repr(np.empty((0, 3), np.float32)))
    assert (tensor.data_type, tensor.parse_values(DataType.FLOAT32).shape) == (
        DataType.FLOAT32,
        (0, 3),
    )
    with pytest.raises(RevseqError, match="not a data type"):
        tensors("array([1, 2], dtype=object)")


def test_many_words_that_are_no_headers_take_no_time():
    def parse(count):
        assert not Text(
            "x", "Sizes" * count + "\n" + "Sizes " * count + "\n" * count + "Sizes:"
        ).items

    assert is_linear(parse, 10_000)


def test_a_larger_type_is_proposed_where_none_is_stated(revseq):
    revseq("show", "[16777217]").refused("FLOAT32 cannot hold 16777217", "add --dtype INT64")
    stated = b"T: (Sizes:{1}, DataType:FLOAT32)\n[16777217]"
    assert (
        "Hint" not in revseq("show", "-", stdin=stated).refused("FLOAT32 cannot hold 16777217").err
    )
    assert (
        "Hint"
        not in revseq("show", "[16777217]", "--dtype", "FLOAT32")
        .refused("FLOAT32 cannot hold 16777217")
        .err
    )


@given(st.text(st.sampled_from("a\r\n\u2028\x0b ")), st.integers(0, 9))
def test_lines_of_any_system(text, i):
    plain = text.replace("\r\n", " \n").replace("\r", "\n")
    if i < len(text):
        error = error_at(text, i, "")
        assert (error.line, error.column) == (
            plain.count("\n", 0, i) + 1,
            i - plain.rfind("\n", 0, i),
        )
        assert error.context.count("\n") == 1


PAGE = (SAMPLES / "page.md").read_text()


class TestParts:
    """`page.md::2::OutputTensor` is a tensor wherever one is named."""

    def test_of_files_and_of_standard_input(self, revseq):
        part = "samples/page.md::2::OutputTensor"
        printed = "OutputTensor: (Sizes:{3,2}, DataType:INT8)\n[[ 5, 2],\n [ 3, 4],\n [-1, 6]]\n"
        assert revseq("convert", part, "-", cwd=ROOT).ok().out == printed
        assert (
            revseq("convert", "--", "-::2::OutputTensor", "-", stdin=PAGE.encode()).ok().out
            == printed
        )

    @pytest.mark.parametrize(
        ("part", "words"),
        [
            ("3::OutputTensor", ("no example 3", "1 to 2")), ("0::InputTensor", ("no example 0", "1 to 2")),
            ("2::Axis", ("no such tensor", "2::InputTensor, 2::SequenceLengthsTensor, 2::OutputTensor")),
            ("OutputTensor", ("no such tensor", "1::OutputTensor")),
        ],
    )  # fmt: skip
    def test_what_is_not_there(self, revseq, part, words):
        revseq("convert", f"samples/page.md::{part}", "x.npy", cwd=ROOT).refused(
            "samples/page.md", *words
        )

    @pytest.mark.parametrize("name", ["x.html", "x.HTM", "x.rst"])
    def test_pages_are_read_and_not_written(self, revseq, tmp_path, name):
        (tmp_path / name).write_text(PAGE)
        assert (
            revseq("run", f"{name}::1").ok().out == revseq("run", SAMPLES / "page.md::1").ok().out
        )
        revseq("run", f"{name}::1", "-o", f"new-{name}").refused("has the unknown suffix")
