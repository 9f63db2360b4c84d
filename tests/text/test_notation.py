"""The bracket notation: the pages to the letter, every variation that pages have, and errors with their place."""

import re

import numpy as np
import oracle
import pytest
from conftest import SAMPLES
from growth import is_linear
from hypothesis import given, settings
from hypothesis import strategies as st

from revseq_cli.core.errors import FormatError, RevseqError
from revseq_cli.core.tensors import DataType, TensorDesc
from revseq_cli.text import notation, numbers
from revseq_cli.text.examples import Text
from revseq_cli.text.notation import Lines


def tensors(text):
    return [item for item in Text("x", text).items if isinstance(item, notation.TensorText)]


def values(text, name="FLOAT32"):
    (tensor,) = tensors(text)
    return tensor.values(DataType[name])


@pytest.mark.parametrize("name", ["example1.txt", "example2.txt"])
def test_the_pages_tensors_to_the_letter(name):
    """All six tensors of the page's two examples; the samples have them character for character."""
    text = (SAMPLES / name).read_text()
    bodies = re.findall(r"(\w+: \(Sizes.*\)\n(?:[ \[].*\n)+)", text)
    assert len(bodies) == 3
    for body, tensor in zip(bodies, tensors(text), strict=True):
        values = tensor.values(tensor.desc.data_type)
        assert numbers.tensor_text(tensor.name, tensor.desc, values) == body.rstrip("\n")


@settings(max_examples=150)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=8), st.sampled_from(oracle.DATA_TYPES), st.integers(0, 2**32))
def test_round_trip(sizes, data_type, seed):
    array = oracle.random_values(np.random.default_rng(seed), sizes, data_type)
    desc = TensorDesc(data_type, tuple(sizes))
    (tensor,) = tensors(numbers.tensor_text("T", desc, array))
    assert (tensor.name, tensor.desc) == ("T", desc)
    assert oracle.same_bits(tensor.values(data_type), array)


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


def test_axis_lines_anywhere():
    text = f"Axis: 3\n{HEADER}[[1, 2], [3, 4]]\n- Axis =   2\n  Mode = SOME\nAxes: {{0, 1}}\nAxis: the first\n"
    lines = [item for item in Text("x", text).items if isinstance(item, notation.AxisLine)]
    assert [(line.value, Lines(text).line(line.start)) for line in lines] == [("3", 1), ("2", 4), ("the first", 7)]


def test_leading_sizes_of_1_need_no_brackets():
    assert values("T: (Sizes:{1,1,1,1}, DataType:FLOAT32)\n[4]").shape == (1, 1, 1, 1)


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("[[1, 2], [3]]", (1, 10), "a row of 1, and others have 2"), ("[[1, 2], [3, 4, 5], [6, 7]]", (1, 10), "a row of 3"),
        ("[[1], [3, 4], [5, 6]]", (1, 2), "a row of 1, and others have 2"),
        ("[[1, 2, 3],\n [4], [5],\n [6]]", (1, 2), "a row of 3, and others have 1"),
        ("T: (Sizes:{2,2}, DataType:INT8)\n[[1], [2, 3]]", (2, 2), "a row of 1, and others have 2"),
        ("T: (Sizes:{3,1}, DataType:INT8)\n[[1, 2], [3, 4], [5]]", (2, 2), "a row of 2, and others have 1"),
        ("[1, [2]]", (1, 6), "2 brackets deep"), ("[1 [2]]", (1, 4), "beside a number"),
        ("[[1], 2]", (1, 7), "1 brackets deep"), ("[[1] 2]", (1, 6), "beside a row"), ("[[1 2], [3, 4]]", (1, 5), "a comma is missing"),
        ("[1, ..., 4]", (1, 5), "stands for elements that were left out"),
        ("[1,, 2]", (1, 4), "a number is missing"), ("[, 1]", (1, 2), "a number is missing"),
        ("[[1], []]", (1, 8), "an empty row"), ("[[1, 2]", (1, 8), "is missing"),
        ("[1]]", (1, 4), "after the last bracket"), ("[[[1]], [2]]", (1, 10), "2 brackets deep"),
        ("[[1, x], [3, 4]]", (1, 6), "'x' is not a number"), ("[[1, 2], [3, é]]", (1, 14), "'é' is not allowed"),
        ('["2"]', (1, 2), "'\"' is not allowed"), ("[1;2]", (1, 3), "';' is not allowed"),
        (HEADER + "[[1, 2, 3], [3, 4, 5]]", (1, 12), "says {2,2}; the values have {2,3}"),
        (HEADER + "Axis: 1\n", (1, 1), "T has no values"),
        ("T: (Sizes:{2,x}, DataType:FLOAT32)\n[1]", (1, 12), "Sizes {2,x}"),
        ("T: (Sizes:{2,-1}, DataType:FLOAT32)\n[1]", (1, 12), "Sizes {2,-1}"),
        ("T: (Sizes:{2}, DataType:FLOAT99)\n[1]", (1, 25), "'FLOAT99' is not a data type"),
        ("[" * 65 + "1" + "]" * 65, (1, 1), "65 brackets deep"), ("[" * 100_000 + "1" + "]" * 100_000, (1, 1), "100000 brackets deep"),
        ("[1\f, 2]", (1, 3), "is not allowed"),
        ("[16777217]", (1, 2), "not exact"),
    ],
)  # fmt: skip
def test_errors_show_the_place(text, place, problem):
    with pytest.raises(FormatError) as caught:
        [t.values(DataType.FLOAT32) for t in tensors(text)]
    message = str(caught.value)
    assert f"line {place[0]}, column {place[1]}: " in message
    assert problem in message
    shown, caret = message.split("\n")[1:3]
    told = f"{text} ".split("\n")[place[0] - 1][place[1] - 1]  # or right behind the text
    assert f"{shown} "[caret.index("^")] == told.replace("\f", "\\")


def test_integers_are_printed_as_other_numbers_are():
    values = np.array([[1, 200, 3], [-44, 5, 60000]], np.int32)
    assert numbers.rows_of(values) == numbers.aligned(["1", "200", "3", "-44", "5", "60000"], 3)
    assert numbers.rows_of(values[:, :1]) == ["  1", "-44"]


def test_gaps():
    body = numbers.body(numbers.aligned(list("123456789"), 3, 1), (3, 3), (2, 1))
    assert body == "[[1, ..., 2, 3],\n [4, ..., 5, 6],\n ...\n [7, ..., 8, 9]]"


def test_a_text_of_headers_alone_is_refused(monkeypatch):
    monkeypatch.setattr(notation, "MOST_TENSORS", 100)
    with pytest.raises(FormatError, match="holds more than 100 tensors"):
        tensors("T: (Sizes:{1}, DataType:FLOAT32)\n" * 101)


def test_pages_of_many_examples_take_time_that_is_linear():
    page = (SAMPLES / "page.md").read_text(encoding="utf-8")

    def find(count):
        assert len(Text("x", page * count).examples) == 2 * count

    assert is_linear(find, 50)


@pytest.mark.parametrize("text", ["[1, \uff12]", "T: (Sizes:{\uff12}, DataType:FLOAT32)\n[1, 2]", "T: (Sizes:{1_0}, DataType:INT8)\n[1]",
                                  "[\u0662]", "[1, \u22122]", "[1\uff0c 2]", "[1, \u202f2]"])  # fmt: skip
def test_characters_that_look_alike_are_refused(text):
    with pytest.raises(FormatError, match=r"is not allowed in a tensor|has Sizes"):
        tensors(text)[0].values(DataType.FLOAT32)


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
    assert (tensor.data_type.name if tensor.data_type else "") == name or text.startswith("[[np") or repr(1.0) in text
    assert tensor.values(DataType.FLOAT64).tolist() == PRINTED.tolist()


def test_an_empty_array_as_numpy_prints_it():
    (tensor,) = tensors(repr(np.empty((0, 3), np.float32)))
    assert (tensor.data_type, tensor.values(DataType.FLOAT32).shape) == (DataType.FLOAT32, (0, 3))


@pytest.mark.parametrize(
    ("text", "problem"),
    [("array([1, 2], order='C')", "line 1, column 13: is not a tensor as NumPy"), ("array([1, 2]", "as NumPy"), ("array([1, 2]) + 1", "unexpected text"),
     ("array([1, 2], shape=(3,))", "the values have {2}, and {3} is stated"), ("array([1, 2], dtype=object)", "is not a data type"), ("array([0, 1, ..., 9], shape=(9,))", "left out")],
)  # fmt: skip
def test_what_numpy_does_not_print(text, problem):
    with pytest.raises(RevseqError) as caught:
        tensors(text)[0].values(DataType.FLOAT32)
    assert problem in str(caught.value)


def test_the_type_of_another_operator_is_no_concern_of_ours():
    first, second = tensors("A: (Sizes:{2}, DataType:UINT4)\n[1, 2]\n\nB: (Sizes:{1}, DataType:FLOAT32)\n[3]")
    assert second.values(DataType.FLOAT32).tolist() == [3]
    with pytest.raises(FormatError, match="'UINT4' is not a data type"):
        first.values(DataType.FLOAT32)


def test_many_words_that_are_no_headers_take_no_time():
    def parse(count):
        assert not Text("x", "Sizes" * count + "\n" + "Sizes " * count + "\n" * count + "Sizes:").items

    assert is_linear(parse, 10_000)
