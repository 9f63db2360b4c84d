"""Tables of numbers, .csv and .tsv, as NumPy, pandas and Excel write them; and numbers alone, on standard input and in files."""

import csv
import io

import numpy as np
import oracle
import pytest

from revseq_cli.core.tensors import DataType
from revseq_cli.text import numbers

SEPARATORS = {".csv": ",", ".tsv": "\t"}
TYPES = [each for each in DataType if each.kind in numbers.WRITTEN and each is not DataType.BOOL]


@pytest.mark.parametrize(
    ("data_type", "suffix"), [*((each, ".csv") for each in TYPES), (DataType.FLOAT32, ".tsv")]
)
def test_round_trip(revseq, tmp_path, suffix, data_type):
    values = oracle.random_values(np.random.default_rng(7), (5, 4), data_type)
    np.save(tmp_path / "x.npy", values)
    assert revseq("convert", "x.npy", f"y{suffix}", "--verify").ok().err == ""
    revseq("convert", f"y{suffix}", "z.npy", "--dtype", data_type.name).ok()
    assert oracle.same_bits(np.load(tmp_path / "z.npy"), values)
    rows = list(
        csv.reader(io.StringIO((tmp_path / f"y{suffix}").read_text()), delimiter=SEPARATORS[suffix])
    )
    assert [len(row) for row in rows] == [4] * 5


def test_numpy_reads_what_is_written_and_the_other_way_round(revseq, tmp_path):
    values = np.random.default_rng(3).normal(size=(6, 3))
    np.save(tmp_path / "x.npy", values)
    revseq("convert", "x.npy", "y.csv").ok()
    assert np.array_equal(np.loadtxt(tmp_path / "y.csv", delimiter=","), values)
    np.savetxt(tmp_path / "a.csv", values, delimiter=",", header="a, b, c")
    np.savetxt(tmp_path / "a.tsv", values, delimiter="\t")
    np.savetxt(tmp_path / "a.txt", values)
    for name in ("a.csv", "a.tsv", "a.txt"):
        revseq("convert", name, "z.npy", "--dtype", "FLOAT64", "--overwrite").ok()
        assert oracle.same_bits(np.load(tmp_path / "z.npy"), values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,2\r\n3,4\r\n", [[1, 2], [3, 4]]), ("1,2\r3,4\r", [[1, 2], [3, 4]]), ("\ufeff1,2", [[1, 2]]), ("1\n2\n", [[1], [2]]),
        ("a,b\n1,2\n", [[1, 2]]), ('"a, b",c\n1,2\n', [[1, 2]]),
        ('"1","2"\n', [[1, 2]]), (" 1 , 2 \n\n3,4\n\n", [[1, 2], [3, 4]]), ("# by hand\n1,2\n", [[1, 2]]),
        ("nan,-inf\n1e3,.5\n", [[np.nan, -np.inf], [1000, 0.5]]),
    ],
)  # fmt: skip
def test_what_others_write(revseq, tmp_path, text, expected):
    (tmp_path / "x.csv").write_text(text, newline="")
    done = revseq("convert", "x.csv", "y.npy", "--dtype", "FLOAT32").ok()
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.array(expected, np.float32))
    assert done.err == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,2\n3\n", ["line 2, column 1: 1 cell, and the first line of numbers has 2"]), ("1,2,\n3,4,\n", ["line 1, column 5: this cell is empty"]),
        ("1,,2\n", ["line 1, column 3: this cell is empty", "nan for a missing one"]), ("1,2\n3,x\n", ["line 2, column 3: 'x' is not a number", "\n  3,x\n    ^\n"]),
        (",a,b\n0,1,2\n", ["above the column of its index", "index=False"]), (",0,1\n0,1,2\n", ["above the column of its index"]),
        ("1;2\n", ["'1;2' is not a number"]), ("", ["contains no number"]), ("a,b\n", ["contains no number"]),
        ("1.0.0,2x\n3,4\n", ["line 1, column 1: '1.0.0' is not a number"]), ("a,1\n2,3\n", ["line 1, column 1: 'a' is not a number"]), ("1,16777217\n", ["16777217 is not exact in FLOAT32"]), ("1,1_000\n", ["'1_000' is not a number"]),
        ("1 2,3\n", ["'1 2' is not a number"]), ("a,b\n1,2\nc,d\n3,4", ["line 3, column 1: 'c' is not a number"]), ("\x1b[31m,2\n1,x", [r"'\x1b[31m' is not a number"]),
    ],
)  # fmt: skip
def test_what_is_refused(revseq, tmp_path, text, words):
    (tmp_path / "x.csv").write_text(text)
    revseq("show", "x.csv").refused("Error: x.csv: ", *words)


@pytest.mark.parametrize(
    "tensor", ["[1, 2]", "[[[1, 2]]]", '{"Sizes": [2, 0], "Values": [[], []]}']
)
def test_tensors_that_are_no_tables(revseq, tmp_path, tensor):
    (tmp_path / "x.json").write_text(tensor)
    for out in ("y.csv", "y.tsv"):
        revseq("convert", "x.json", out).refused(
            "contains one table, and the tensor is (Sizes:{", "out.npy"
        )
    revseq("convert", "x.json", "-", "-f", "csv").refused("contains one table", "out.npy")
    assert not list(tmp_path.glob("y*"))


@pytest.mark.parametrize(
    ("text", "sizes", "values"),
    [
        ("1\n2\n3\n", [3], [1, 2, 3]), ("1 2 3\n", [3], [1, 2, 3]), ("1,2,3", [3], [1, 2, 3]), ("1, 2, 3\n", [3], [1, 2, 3]), ("5\n", [1], [5]),
        ("1 2\r3 4\r", [2, 2], [1, 2, 3, 4]), ("1\r2", [2], [1, 2]), ("1.0D+00 2d0", [2], [1, 2]), ("1,2\n3,4\n", [2, 2], [1, 2, 3, 4]), ("# seq\n\n 1\t2\n 3\t4\n", [2, 2], [1, 2, 3, 4]),
        ("-1.5e1 nan\ninf .5\r\n", [2, 2], [-15, np.nan, np.inf, 0.5]),
    ],
)  # fmt: skip
def test_numbers_alone(revseq, tmp_path, text, sizes, values):
    revseq("convert", "-", "y.npy", stdin=text.encode()).ok()
    np.testing.assert_array_equal(
        np.load(tmp_path / "y.npy"), np.array(values, np.float32).reshape(sizes)
    )


def test_jobs_and_names(revseq, files):
    revseq("convert", "x.npy", "x.tsv").ok()
    assert revseq("run", "x.npy", "n.npy", "--axis", 1, "-f", "tsv").ok().out
    assert "storage          tsv, separator tab" in revseq("show", "x.tsv").ok().out
    revseq("show", "x.tsv::x").refused("a .tsv file has one tensor")
    assert revseq("show", "-", "-f", "csv", stdin=b"a,b\n1,2\n").ok().out.count("{1,2}") == 1
    (files / "x.txt").write_text("1 2\nX: (Sizes:{2}, DataType:INT8)\n[3, 4]\n")  # a page
    assert "{2}" in revseq("show", "x.txt").ok().out
    assert (
        revseq("run", "-", "[3]", "--axis", 0, stdin=b"1\n2\n3\n4\n5\n")
        .ok()
        .out.endswith("\n[3, 2, 1, 4, 5]\n")
    )
    lengths = revseq(
        "run", "[[1, 2, 3], [4, 5, 6]]", "-", "--axis", 1, "--batch-axis", 0, stdin=b"2\n3\n"
    ).ok()
    assert lengths.out.endswith("\n[[2, 1, 3],\n [6, 5, 4]]\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 2 3\n4 5\n", ["line 2, column 1: 2 cells, and the first line of numbers has 3"]), ("1 2\n3 x\n", ["line 2, column 3: 'x' is not a number"]),
        ("300\n", ["300 does not fit UINT8"]), ("1,,2\n", ["line 1, column 3: this cell is empty"]), ("x 1\n", ["line 1, column 1: 'x' is not a number"]), ("x\n1\n", ["line 1, column 1: 'x' is"]),
        ("x y z\n", ["contains no tensor"]), ("1. a list\n2. of words\n", ["contains no tensor"]),
    ],
)  # fmt: skip
def test_numbers_that_are_refused(revseq, text, words):
    revseq("show", "-", "--dtype", "UINT8", stdin=text.encode()).refused("standard input: ", *words)


@pytest.mark.parametrize(
    "text",
    ["1,2\n", "[[1, 2]]", "tensor([[1, 2]])", "array([[1, 2]])", '{"Values": [[1, 2]]}', "1 2\n"],
)
def test_the_type_that_is_taken_for_a_text_without_one_is_told(revseq, tmp_path, text):
    """Where it goes to a binary file, whose readers take it for the truth."""
    name = "x.csv" if text == "1,2\n" else "x.txt"
    (tmp_path / name).write_text(text)
    note = f"Note: {name} states no data type: it is FLOAT32 in y.npy; --dtype names another\n"
    assert revseq("convert", name, "y.npy").ok().err == note
    lengths = "[2]" if text == "1 2\n" else "[[2]]"
    job = (name, lengths, "--axis", lengths.count("[") - 1)
    assert revseq("run", *job, "-o", "y.npy", "--overwrite").ok().err.endswith(note)
    assert revseq("convert", name, "z.npy", "--dtype", "INT64").ok().err == ""
    assert np.load(tmp_path / "z.npy").tolist() in ([[1, 2]], [1, 2])
    assert revseq("convert", name, "y.json").ok().err == ""
    assert revseq("convert", "array([[1, 2]], dtype=int64)", "i.npy").ok().err == ""
    assert np.load(tmp_path / "i.npy").dtype == np.int64
