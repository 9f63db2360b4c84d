"""Where in a text something is: missing brackets, tensors of examples behind ::, and lines of any system."""

import json
import pickle

import pytest
from conftest import ROOT, SAMPLES
from hypothesis import given
from hypothesis import strategies as st

from revseq_cli.text.notation import Lines, PlacedError, error_at

PAGE = (SAMPLES / "page.md").read_text()
ROW = "[[[[ 2,  1,  3,  4],"
EXAMPLE = (SAMPLES / "example1.txt").read_text().replace(ROW, f"{ROW} // the first two")
NEVER, NOTHING = "this row is never closed", "this bracket closes nothing"
MISSING, FOUR, TWO = "a bracket ] is missing", "4 brackets ] are missing", "2 brackets ] are missing"


@pytest.mark.parametrize(
    ("old", "new", "place", "problem"),
    [
        ("[[[[2],", "[[[[2,", (7, 6), NEVER), ("   [4],", "   [4,", (8, 6), NEVER), ("   [4],", "   [4", (8, 6), NEVER),
        ("[3]]]]", "[3]]]", (9, 9), MISSING), ("[3]]]]", "[3", (9, 6), FOUR), ("[[[[2],", "[[[2],", (9, 9), NOTHING),
        ("   [4],", "   4],", (8, 4), "a number 3 brackets deep, and the first one is 4 deep"),
        ("[3]]]]", "[3]]]]]", (9, 10), NOTHING), ("[3]]]]", "[3]]]],\n]", (10, 1), NOTHING),
        ("[[[[1,  2,  3,  4],", "[[[[1,  2,  3,  4,", (2, 18), NEVER), ("9, 10, 11, 12]]]]", "9, 10, 11, 12", (4, 18), FOUR),
        (" 3,  4], // the", " 3,  4, // ] the", (14, 19), NEVER), (" 9, 12]]]]", " 9, 12]]", (16, 21), TWO),
    ],
)  # fmt: skip
def test_brackets_are_told_at_their_place(revseq, tmp_path, old, new, place, problem):
    assert EXAMPLE.count(old) == 1
    text = EXAMPLE.replace(old, new)
    line, column = place
    page = "# A page\n\n```\n{}```\n\n* A list [with](brackets)\n\n" + PAGE
    for around in ("{}", page.replace("\n", "\r\n")):
        before = around.partition("{}")[0].count("\n")
        (tmp_path / "x.md").write_bytes(around.replace("{}", text).encode())
        done = revseq("verify", "x.md").failed()
        told = f"x.md:{line + before}:{column}: example 1: {problem}"
        lines = done.out.splitlines()
        at = next(i for i, each in enumerate(lines) if each.startswith("x.md:"))
        assert lines[at].startswith(told)
        assert lines[at + 1 : at + 3] == [f"  {text.splitlines()[line - 1]}", "  " + " " * (column - 1) + "^"]
        assert f"{done.out.count('WRONG')} wrong" in lines[-1]
        assert done.out.count("WRONG") == 1
    if line < 13:
        (tmp_path / "x.txt").write_text(text)
        done = revseq("run", "x.txt").refused(f"line {line}, column {column}: {problem}")
        assert ("wanted: ]]]] here" in done.err) == (problem == FOUR)


def test_how_many_brackets_are_missing():
    with pytest.raises(PlacedError) as caught:
        raise error_at("\u65e5\u672c [1", 3, "x", "y")
    assert caught.value.context == "\u65e5\u672c [1\n     ^"  # two columns for each of these characters
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.place, again.offset) == (str(caught.value), (1, 4), 3)


@given(st.text(st.sampled_from("a\r\n\u2028\x0b ")))
def test_lines_of_any_system(text):
    lines = Lines(text)
    plain = text.replace("\r\n", " \n").replace("\r", "\n")
    for i in [*range(len(text)), *range(len(text))[::-2]]:
        assert lines.place(i) == (plain.count("\n", 0, i) + 1, i - plain.rfind("\n", 0, i))
        assert lines.shown(i).count("\n") == 1


class TestParts:
    """`page.md::2::OutputTensor` is a tensor wherever one is named."""

    PART = "samples/page.md::2::OutputTensor"

    def test_every_command_that_takes_tensors(self, revseq, tmp_path):
        def run(*args):
            return revseq(*args, cwd=ROOT)

        shown = run("show", self.PART).ok().out
        assert shown.startswith(f"{self.PART}\n  DataType         INT8\n  Sizes            {{3,2}}\n")
        converted = run("convert", self.PART, "-", "-f", "json").ok().out
        assert converted == '{"DataType": "INT8", "Sizes": [3, 2], "Values":\n[[ 5, 2],\n [ 3, 4],\n [-1, 6]]}\n'
        run("convert", self.PART, tmp_path / "y.npy").ok()
        assert run("diff", self.PART, tmp_path / "y.npy").ok().out.endswith("equal, 6 elements\n")
        job = ("samples/page.md::2::InputTensor", "samples/page.md::2::SequenceTensor", "--axis", 0)
        assert run("run", *job).ok().out == run("convert", self.PART, "-").ok().out
        assert "accepts it" in run("check", *job).ok().out
        run("diff", self.PART, "--job", *job).ok()
        run("export", *job, "-o", tmp_path / "m.json").ok()
        line = json.dumps({"input": f"{ROOT}/{job[0]}", "lengths": f"{ROOT}/{job[1]}", "axis": 0, "output": "b.npy"})
        revseq("batch", "-", stdin=line.encode()).ok()
        revseq("diff", "b.npy", "y.npy").ok()

    def test_both_names_of_the_lengths(self, revseq, tmp_path):
        (tmp_path / "y.md").write_text(PAGE.replace("SequenceTensor", "SequenceLengthsTensor"))
        for name in ("SequenceTensor", "SequenceLengthsTensor"):
            assert revseq("show", f"samples/page.md::1::{name}", "--shape", cwd=ROOT).ok().out == "1 1 2 1\n"
            assert revseq("show", f"y.md::1::{name}", "--shape").ok().out == "1 1 2 1\n"

    def test_standard_input(self, revseq):
        done = revseq("convert", "--", "-::2::OutputTensor", "-", stdin=PAGE.encode()).ok()
        assert done.out.startswith("OutputTensor: (Sizes:{3,2}")

    @pytest.mark.parametrize(
        ("part", "words"),
        [
            ("3::OutputTensor", ("no example 3", "1 to 2")), ("0::InputTensor", ("no example 0", "1 to 2")),
            ("2::Axis", ("example 2 has no Axis", "InputTensor, SequenceTensor, OutputTensor")),
            ("2::ATensor", ("example 2 has no ATensor",)), ("x::OutputTensor", ("no tensor named x::OutputTensor",)),
            ("OutputTensor", ("Hint: one of samples/page.md::1::OutputTensor, samples/page.md::2::OutputTensor\n",)),
            ("2", ("Hint: one of samples/page.md::2::InputTensor, samples/page.md::2::SequenceTensor, samples/page.md::2::Out",)),
        ],
    )  # fmt: skip
    def test_what_is_not_there(self, revseq, part, words):
        revseq("convert", f"samples/page.md::{part}", "x.npy", cwd=ROOT).refused("samples/page.md", *words)

    def test_no_such_page(self, revseq):
        revseq("convert", "gone.md::2::OutputTensor", "x.npy").refused("Error: gone.md: no such file")

    def test_verify_names_whole_examples(self, revseq):
        revseq("verify", self.PART, cwd=ROOT).refused("no example 2::OutputTensor", "Hint: try samples/page.md::2")
        revseq("verify", "samples::2", cwd=ROOT).refused("samples: is a folder")

    def test_pages_are_read_and_not_written(self, revseq, tmp_path):
        for name in ("x.html", "x.HTM", "x.rst", "x.markdown", "x.text", "x.xhtml"):
            (tmp_path / name).write_text(PAGE)
            assert revseq("run", f"{name}::1").ok().out == revseq("run", SAMPLES / "page.md::1").ok().out
            revseq("run", f"{name}::1", "-o", f"new-{name}").refused("has the unknown suffix")
