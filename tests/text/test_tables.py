"""Tables of numbers, .csv and .tsv, as NumPy, pandas and Excel write them; and numbers alone, on standard input and in files."""

import csv
import io
import re
import subprocess

import numpy as np
import oracle
import pytest

from revseq_cli.core.tensors import DataType

SEPARATORS = {".csv": ",", ".tsv": "\t"}
TYPES = [each for each in DataType if each.kind in ("float", "int", "uint")]


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
        ("1,2\n3\n", ["line 2, column 1: this line has 1 cell, the first line of numbers has 2"]), ("1,2,\n3,4,\n", ["line 1, column 5: this cell is empty"]),
        ("1,,2\n", ["line 1, column 3: this cell is empty", "nan for a missing one"]), ("1,2\n3,x\n", ["line 2, column 3: 'x' is not a number", "\n  3,x\n    ^\n"]),
        (",a,b\n0,1,2\n", ["above the column of its index", "index=False"]), (",0,1\n0,1,2\n", ["above the column of its index"]),
        ("1;2\n", ["line 1, column 2: semicolons", "tr ';' ',' < x.csv"]), ("", ["contains no number"]), ("a,b\n", ["contains no number"]),
        ("1.0.0,2x\n3,4\n", ["line 1, column 1: '1.0.0' is not a number"]), ("a,1\n2,3\n", ["line 1, column 1: 'a' is not a number"]), ("1,16777217\n", ["FLOAT32 cannot hold 16777217 exactly"]), ("1,1_000\n", ["'1_000' is not a number"]),
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
            "2 dimensions", "the tensor has shape {", "out.npy"
        )
    revseq("convert", "x.json", "-", "-f", "csv").refused("2 dimensions", "out.npy")
    assert not list(tmp_path.glob("y*"))


@pytest.mark.parametrize(
    ("text", "sizes", "values"),
    [
        ("1\n2\n3\n", [3], [1, 2, 3]), ("1 2 3\n", [3], [1, 2, 3]), ("1,2,3", [1, 3], [1, 2, 3]), ("1, 2, 3\n", [1, 3], [1, 2, 3]), ("a,b\n1,2\n", [1, 2], [1, 2]), ("a\tb\n1\t2\n", [1, 2], [1, 2]), ("5\n", [1], [5]),
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
    assert "storage       tsv, separator tab" in revseq("show", "x.tsv").ok().out
    revseq("show", "x.tsv::x").refused("has no column 'x'")
    assert (
        revseq("show", "-", "--input-format", "csv", stdin=b"a,b\n1,2\n").ok().out.count("{1,2}")
        == 1
    )
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
        ("1 2 3\n4 5\n", ["line 2, column 1: this line has 2 cells, the first line of numbers has 3"]), ("1 2\n3 x\n", ["line 2, column 3: 'x' is not a number"]),
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
    note = f"Note: {name} has no data type, so y.npy is FLOAT32; choose another with --dtype\n"
    assert revseq("convert", name, "y.npy").ok().err == note
    lengths = "[2]" if text == "1 2\n" else "[[2]]"
    job = (name, lengths, "--axis", lengths.count("[") - 1)
    assert revseq("run", *job, "-o", "y.npy", "--overwrite").ok().err.endswith(note)
    assert revseq("convert", name, "z.npy", "--dtype", "INT64").ok().err == ""
    assert np.load(tmp_path / "z.npy").tolist() in ([[1, 2]], [1, 2])
    assert revseq("convert", name, "y.json").ok().err == ""
    assert revseq("convert", "array([[1, 2]], dtype=int64)", "i.npy").ok().err == ""
    assert np.load(tmp_path / "i.npy").dtype == np.int64


class TestDigits:
    """A text that states no data type keeps its digits where the result is text, too."""

    NUMBERS = "0.123456789012,2\n3,16777217\n"

    @pytest.mark.parametrize("output", ["y.csv", "y.tsv", "y.json", "y.txt"])
    def test_from_text_to_text(self, revseq, tmp_path, output):
        (tmp_path / "x.csv").write_text(self.NUMBERS)
        revseq("convert", "x.csv", output).ok()
        revseq("convert", output, "y.npy", "--dtype", "FLOAT64").ok()
        revseq("run", "x.csv", "[2, 1]", "--axis", 1, "-o", f"z{output}").ok()
        for name in (output, f"z{output}"):
            text = (tmp_path / name).read_text()
            assert "0.123456789012" in text
            assert "16777217" in text

    def test_into_a_pipe_and_in_a_batch(self, revseq, tmp_path):
        (tmp_path / "x.csv").write_text(self.NUMBERS)
        printed = revseq("run", "x.csv", "[2, 1]", "--axis", 1, "-f", "csv").ok().out
        assert printed == "2,0.123456789012\n3,16777217\n"
        assert "0.123456789012" in revseq("convert", "x.csv", "-", "-f", "json").ok().out
        job = '{"input": "x.csv", "lengths": "[2, 1]", "axis": 1, "output": "y.csv"}'
        (tmp_path / "jobs.jsonl").write_text(job)
        revseq("batch", "jobs.jsonl").ok()
        assert (tmp_path / "y.csv").read_text() == printed

    def test_the_notation_of_the_pages_and_binary_files_are_float32(self, revseq, tmp_path):
        (tmp_path / "x.csv").write_text("0.123456789012,2\n")
        printed = revseq("run", "x.csv", "[2]", "--axis", 1).ok().out
        assert printed == "OutputTensor: (Sizes:{1,2}, DataType:FLOAT32)\n[[2, 0.12345679]]\n"
        assert "FLOAT32" in revseq("convert", "x.csv", "y.npy").ok().err
        assert np.load(tmp_path / "y.npy").dtype == np.float32
        level = ("--feature-level", "3_0", "-o", "y.csv")
        (tmp_path / "t.json").write_text("[[[[0.123456789012]]]]")
        revseq("run", "t.json", "[[[[1]]]]", "--axis", 3, *level[:2], "-o", "y.json").ok()
        assert "FLOAT32" in (tmp_path / "y.json").read_text()

    def test_an_integer_too_large_for_float64(self, revseq, tmp_path):
        (tmp_path / "x.csv").write_text("9007199254740993,2\n")
        revseq("convert", "x.csv", "y.csv").refused("9007199254740993", "--dtype INT64")
        revseq("convert", "x.csv", "y.csv", "--dtype", "INT64").ok()
        assert (tmp_path / "y.csv").read_text() == "9007199254740993,2\n"

    def test_diff_of_two_texts(self, revseq, tmp_path):
        (tmp_path / "a.csv").write_text("0.12345678901,2\n")
        (tmp_path / "b.csv").write_text("0.12345678902,2\n")
        revseq("diff", "a.csv", "b.csv").failed()
        revseq("diff", "a.csv", "[[0.12345678901, 2]]").ok()
        typed = "T: (Sizes:{1,2}, DataType:FLOAT32)\n[[0.12345678901, 2]]"
        (tmp_path / "t.txt").write_text(typed)
        revseq("diff", "a.csv", "t.txt").ok()
        revseq("diff", "t.txt", "a.csv").ok()

    @pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "u1"])
    def test_diff_of_a_tensor_and_its_own_text(self, revseq, tmp_path, dtype):
        values = (np.random.default_rng(1).normal(size=(2, 3)) * 100).astype(dtype)
        np.save(tmp_path / "x.npy", values)
        revseq("convert", "x.npy", "x.csv").ok()
        revseq("diff", "x.npy", "x.csv").ok()
        revseq("diff", "x.csv", "x.npy").ok()

    def test_diff_of_an_output_and_a_job_in_text(self, revseq, tmp_path):
        (tmp_path / "x.csv").write_text(self.NUMBERS)
        job = ("x.csv", "[2, 1]", "--axis", 1)
        revseq("run", *job, "-o", "y.csv").ok()
        revseq("diff", "y.csv", "--job", *job).ok()
        revseq("run", *job, "--dtype", "FLOAT64", "-o", "y.npy").ok()
        revseq("diff", "y.npy", "--job", *job).ok()


class TestHeaders:
    @pytest.mark.parametrize("header", ["t0,t1,t2", '"a, b",c,"d ""e"""'])
    def test_a_header_is_kept_from_table_to_table(self, revseq, tmp_path, header):
        (tmp_path / "x.csv").write_text(f"{header}\n1,2,3\n4,5,6\n")
        job = ("x.csv", "[3, 2]", "--axis", 1)
        result = f"{header}\n3,2,1\n5,4,6\n"
        revseq("run", *job, "-o", "y.csv", "--verify").ok()
        assert (tmp_path / "y.csv").read_text() == result
        assert revseq("run", *job, "-f", "csv").ok().out == result
        piped = revseq("run", "-", *job[1:], "-f", "csv", stdin=(tmp_path / "x.csv").read_bytes())
        assert piped.ok().out == result
        revseq("convert", "x.csv", "y.tsv").ok()
        assert revseq("convert", "y.tsv", "-", "-f", "csv").ok().out.startswith(f"{header}\n")

    def test_a_first_line_of_0_1_2_gets_a_note(self, revseq, tmp_path):
        (tmp_path / "x.csv").write_text("0,1,2\n5,6,7\n")
        for command in (
            ("convert", "x.csv", "y.csv"),
            ("convert", "x.csv", "-"),
            ("run", "x.csv", "[3, 3]", "--axis", 1),
            ("run", "x.csv", "[3, 3]", "--axis", 1, "-o", "z.csv"),
        ):
            assert "0, 1, 2" in revseq(*command).ok().err
        (tmp_path / "x.csv").write_text("0,1,3\n5,6,7\n")
        assert revseq("convert", "x.csv", "-").ok().err == ""

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("id,a,b\n0,1,2\n1,3,4\n2,5,6\n", "Note: the first column of x.csv, 0, 1, 2 "),
            ("0,7,2\n1,3,4\n2,5,6\n", "Note: the first column of x.csv, 0, 1, 2 "),
            (",a,b\n0,1,2\n1,3,4\n2,5,6\n", "above the column of its index"),
            ("id,a,b\nx,1,2\ny,3,4\nz,5,6\n", "'x' is not a number"),
        ],
    )
    @pytest.mark.needs("shell")
    def test_the_index_of_pandas_can_be_removed_as_printed(self, revseq, tmp_path, text, words):
        (tmp_path / "x.csv").write_text(text)
        err = revseq("run", "x.csv", "2", "--axis", 1, "-f", "csv").err
        assert words in err
        (command,) = re.findall(r"cut -d, -f2- .*", err)
        subprocess.run(command, shell=True, check=True, cwd=tmp_path)
        done = revseq("run", "new.csv", "2", "--axis", 1, "-f", "csv").ok()
        assert done.out.endswith("4,3\n6,5\n")
        assert done.err == ""

    def test_a_column_by_its_name_is_no_index(self, revseq, tmp_path):
        (tmp_path / "x.csv").write_text("a,b\n0,1\n1,3\n2,5\n")
        assert revseq("run", "x.csv::a", "3", "--axis", 0).ok().err == ""

    def test_a_row_from_a_pipe_is_a_table(self, revseq):
        done = revseq("run", "-", "--padding", 0, "--axis", 1, "-f", "csv", stdin=b"1,2,0\n").ok()
        assert done.out == "2,1,0\n"
        job = ("run", "[[1, 2], [3, 4]]", "-", "--axis", 1)
        for text in (b"2\n1\n", b"2,1\n", b"a,b\n2,1\n"):
            assert revseq(*job, stdin=text).ok().out.endswith("[[2, 1],\n [3, 4]]\n")
        mask = revseq(*job, "--mask", stdin=b"1,1\n1,0\n").ok()
        assert mask.out.endswith("[[2, 1],\n [3, 4]]\n")
        one = revseq("run", "[[1, 2, 3]]", "-", "--axis", 1, "--mask", stdin=b"1,1,0\n").ok()
        assert one.out.endswith("[[2, 1, 3]]\n")


class TestColumns:
    READS = "read_id,length,mapq\nr1,5,60\nr2,9,3\nr3,1,0\n"

    def test_a_column_as_lengths(self, revseq, tmp_path):
        (tmp_path / "reads.csv").write_text(self.READS)
        x = np.arange(27, dtype=np.float32).reshape(3, 9)
        np.save(tmp_path / "x.npy", x)
        done = revseq("run", "x.npy", "reads.csv::length", "--axis", 1, "-o", "y.npy").ok()
        assert done.err == ""  # of lengths, nothing is in the output
        err = revseq("convert", "reads.csv::length", "n.npy").ok().err
        assert "not copied: 2 other columns (read_id, mapq)" in err
        result = oracle.expected(x, np.array([[5], [9], [1]]), 1)
        assert oracle.same_bits(np.load(tmp_path / "y.npy"), result)
        columns = revseq("convert", "--", "-::mapq", "-", stdin=self.READS.encode()).ok().out
        assert columns.endswith("{3}, DataType:FLOAT32)\n[60, 3, 0]\n")

    def test_a_column_that_the_rows_do_not_have(self, revseq, tmp_path):
        (tmp_path / "x.csv").write_text("a,b,c\n1,2\n")
        refusal = "line 2, column 1: this line has 2 cells, the first line has 3"
        revseq("show", "x.csv::c").refused(refusal)

    def test_a_column_among_years(self, revseq, tmp_path):
        (tmp_path / "x.csv").write_text("2020,n\n1,2\n")
        assert revseq("convert", "x.csv::n", "-").ok().out.endswith("\n[2]\n")

    def test_what_is_refused(self, revseq, tmp_path):
        (tmp_path / "reads.csv").write_text(self.READS)
        both = revseq("show", "reads.csv").refused("line 2, column 1: 'r1' is not a number")
        assert "reads.csv::length" in both.err
        assert "reads.csv::mapq" in both.err
        assert "::read_id" not in both.err
        revseq("show", "reads.csv::len").refused("no column 'len'", "read_id, length, mapq")
        revseq("show", "reads.csv::read_id").refused("line 2, column 1: 'r1' is not a number")
        (tmp_path / "x.csv").write_text("1,2\n3,4\n")
        revseq("show", "x.csv::a").refused("no column 'a'")
        (tmp_path / "x.csv").write_text("a,a\n3,4\n")
        revseq("show", "x.csv::a").refused("2 columns 'a'")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("x.csv", "1,5;2,5\n", ["line 1, column 4: semicolons", "tr ',;' '.,' < x.csv"]),
        ("x.csv", "a;b\n1;2\n", ["line 1, column 2: semicolons", "tr ';' ','"]),
        ("x.txt", "1;2\n3;4\n", ["line 1, column 2: semicolons", "tr ';' ','"]),
        ("x.csv", "sep=;\n1;2\n", ["line 1", "sep=;", "tail -n +2 < x.csv | tr ';' ','"]),
        ("x.csv", "sep=,\n1,2\n", ["line 1", "sep=,", "tail -n +2 < x.csv >"]),
        ("x.txt", "1 2 # first\n3 4\n", ["line 1, column 5: a comment", "sed"]),
        ("x.csv", "1,2\n3,4 # a, b\n", ["line 2, column 5: a comment"]),
    ],
)
def test_tables_of_other_kinds_are_named(revseq, tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    revseq("show", name).refused(f"Error: {name}: ", *words)


def test_the_place_of_a_cell_after_a_quoted_one_with_a_comma(revseq, tmp_path):
    (tmp_path / "x.csv").write_text('name,value\n"Doe, J",1\n"Roe, ""R""",y\n')
    revseq("show", "x.csv::value").refused("line 3, column 14: 'y' is not a number")
