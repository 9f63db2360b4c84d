"""`revseq verify`: every example on a page is found and recomputed, any wrong digit is seen, and `--fix` corrects it."""

import gzip
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, SAMPLES
from growth import is_linear
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import expected
from tensor_files import held

from revseq_cli import pages
from revseq_cli.core.dtypes import dtype_of
from revseq_cli.core.tensors import DataType
from revseq_cli.formats.references import Reference
from revseq_cli.operator.spec import FeatureLevel
from revseq_cli.report import view
from revseq_cli.text.examples import Text

PAGE = (SAMPLES / "page.md").read_text()
WRONG = PAGE.replace("[8, 7, 6, 5]", "[8, 7, 6, 55]")
OTHERS = PAGE[PAGE.index("## Another") :]
FIRST = PAGE[PAGE.index("InputTensor") : PAGE.index("## Along another")].replace("```", "")
TOLD = "22:14: example 1: OutputTensor[0, 0, 1, 3] is 55, but should be 5; 1 of 8 elements differ"
NAMED = "# DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC\n\n"


def verify(text, level=FeatureLevel.V5_0):
    return pages.judge_page(Text("page.md", text), level)


def told(text):
    """What is wrong with the examples of a text."""
    return [finding.message for verdict in verify(text).verdicts for finding in verdict.findings]


@pytest.fixture
def docs(tmp_path):
    """A folder with pages of every kind, and with others."""
    folder = tmp_path / "docs"
    for path, text in {
        "a.md": PAGE, "b/wrong.HTML": WRONG, "b/none.rst": "Nothing\n", "b/other.txt": OTHERS, "c/x.markdown": PAGE,
        ".git/x.md": WRONG, "b/.hidden/x.md": WRONG, ".x.md": WRONG, "image.png": WRONG, "page.md.gz": "no gzip",
    }.items():  # fmt: skip
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    (folder / "latin.txt").write_bytes(b"caf\xe9")
    return folder


class TestPages:
    def test_a_folder_in_order(self, revseq, docs):
        done = revseq("verify", docs.name).failed()
        lines = done.out.replace(os.sep, "/").splitlines()
        assert [line for line in lines if line.startswith("docs")] == [
            "docs/a.md", "docs/b/wrong.HTML", f"docs/b/wrong.HTML:{TOLD}", "docs/c/x.markdown",
        ]  # fmt: skip
        assert lines[-2] == "6 examples, 1 wrong, 3 of other operators skipped"
        assert (lines[-1], done.err) == ("3 pages without an example skipped", "")
        assert f"\n{docs / 'c' / 'x.markdown'}\n" in revseq("verify", docs).failed().out

    @pytest.mark.needs("links")
    def test_bad_pages_and_links_in_circles_do_not_hide_the_good_ones(self, revseq, docs):
        (docs / "aa.md").write_bytes(WRONG.encode() + b"\xff")
        (docs / "c" / "circle").symlink_to(docs)
        (docs / "gone.md").symlink_to("nowhere.md")
        done = revseq("verify", "docs").failed()
        errors = [
            f"docs/aa.md: not text: byte {len(WRONG)} is not UTF-8",
            "docs/gone.md: no such file",
        ]
        assert re.findall("^Error: (.*)$", done.err, re.MULTILINE) == errors
        assert "6 examples, 1 wrong" in done.out

    def test_nothing_to_check(self, revseq, tmp_path):
        assert (
            "Hint"
            not in revseq("verify", ".").refused("no example of this operator in 0 pages").err
        )
        (tmp_path / "x.md").write_text("# Nothing\n")
        (tmp_path / "other.md").write_text(OTHERS.replace("ATensor", "SequenceTensor", 1))
        revseq("verify", ".").refused(
            "no example of this operator in 2 pages", "add --allow-empty\n"
        )
        revseq("verify", "x.md").refused("x.md: contains no example")
        revseq("verify", "other.md").refused(
            "contains no example of this operator; 1 of other operators"
        )
        revseq("verify", "absent.md", "--allow-empty").refused("absent.md: no such file")
        done = revseq("verify", "x.md", "other.md", "--allow-empty").ok()
        assert done.out == "2 pages without an example skipped\n"
        (tmp_path / "good.md").write_text(PAGE)
        done = revseq("verify", "x.md", "good.md")
        assert (done.status, "2 examples, 0 wrong" in done.out) == (1, True)
        revseq("verify", "good.md::1").refused("good.md: ", "leave out ::1")


class TestForms:
    def test_json(self, revseq, docs):
        done = revseq("verify", docs.name, "--json")
        report = json.loads(done.out)
        assert (report["skipped"], report["exit_status"], done.status) == (3, 1, 1)
        names = ("docs/a.md", "docs/b/wrong.HTML", "docs/c/x.markdown")
        assert [page["name"] for page in report["pages"]] == [str(Path(name)) for name in names]
        assert [[each["right"] for each in page["examples"]] for page in report["pages"]] == [
            [True, True], [False, True], [True, True],
        ]  # fmt: skip
        example = report["pages"][1]["examples"][0]
        (finding,) = example["findings"]
        assert (finding["line"], finding["column"], finding["message"]) == (
            22,
            14,
            TOLD.partition("1: ")[2],
        )

    @pytest.mark.needs("colons")
    def test_github(self, revseq, tmp_path):
        name = "50%, a:b.md"
        (tmp_path / name).write_text(WRONG)
        done = revseq("verify", name, "gone.md", "--github").failed()
        assert done.out.splitlines() == [
            f"::error file=50%25%2C a%3Ab.md,line=22,col=14,title=revseq::{TOLD.partition(' ')[2]}",
            "::error file=gone.md,title=revseq::no such file",
        ]

    @pytest.mark.needs("colons")
    @pytest.mark.parametrize("form", [(), ("--github",), ("--json",)])
    def test_hostile_names_and_texts(self, revseq, tmp_path, form):
        name = "a\x1b[31m\r\n::warning::x.md"
        page = PAGE.replace("Axis: 3", "Axis: %0A\x1b[31m::error::x](http://x)").replace(
            "[ 3,", "[ \x1b[31m3,"
        )
        (tmp_path / name).write_text(page)
        done = revseq("verify", name, *form)
        assert done.status == 1
        assert "\x1b" not in done.out + done.err
        assert not re.search(r"^::(?!error file=)", done.out, re.MULTILINE)


class TestExamples:
    """What is an example, and what is said of one that is wrong."""

    @pytest.mark.parametrize(
        "dressed",
        [
            '<pre><code class="lang-console">' + FIRST.replace("Axis", "</code></pre>\n<pre><code>Axis") + "</code></pre>",
            "> " + FIRST.replace("\n", "\n> "), FIRST.replace("InputTensor", "**InputTensor**"),
            FIRST.replace("InputTensor:", "`InputTensor`:"), FIRST.replace("OutputTensor:", "<b>OutputTensor:</b>"),
            FIRST.replace("\n ", "\n\xa0"), FIRST.replace("\n", "\r"), FIRST.replace("\n", "\r\n"),
            FIRST.replace("Axis", "- Axis"), FIRST.replace("\n ", "\n"), re.sub("\n +", "\n", FIRST), FIRST.replace("\n", "<br>\n"), FIRST.replace("\n", "<br>"),
            FIRST.replace("\n ", "\n&nbsp;"), "    " + FIRST.replace("\n", "\n    "), FIRST.replace("Axis", "\fAxis"),
            "Axis: the dimension to reverse\n\n" + FIRST, FIRST.replace("Axis: 3", "Axis: the dimension\nAxis: 3."),
            FIRST.replace("Axis: 3", "Axis: 3\nAxis: the dimension"), FIRST.replace("[9]", "[1&#48;]"),
            "[Home](index.md)\n\n" + FIRST, "> [!NOTE]\n> Read this.\n\n" + FIRST, "[TOC]\n\n" + FIRST,
            "[English](a.md) | [\u4e2d\u6587](b.md)\n\n" + FIRST, f"<ul><li>As follows:<pre>{FIRST}</pre></li></ul>",
            f"<details><summary>Show</summary><pre>{FIRST}</pre></details>", f"<pre><![CDATA[{FIRST}]]></pre>",
            f"<pre>{FIRST}</pre>".replace(", ", ",&#32;").replace("{", "&#123;").replace("[[", "&lbrack;["),
            "".join(f'<span class="err">{each}</span>' if each.isalpha() else each for each in FIRST),
            re.sub(r"\d\b", '<span class="mi">\\g<0></span>', FIRST.partition("//")[0]) + FIRST.partition("4\n")[2],
        ],
    )  # fmt: skip
    def test_in_every_dress(self, dressed):
        (verdict,) = verify(dressed).verdicts
        assert verdict.is_right, verdict.findings
        wrong = re.sub(r"8(.{0,30}),(.{0,9}7)", r"3\1,\2", dressed)
        assert wrong != dressed
        assert " is 3, but should be 8; " in told(wrong)[0]

    @pytest.mark.parametrize(
        ("old", "new", "problem"),
        [
            ("{1,1,2,4}, DataType:FLOAT32)\n[[[[2", "{1,2,1,4}, DataType:FLOAT32)\n[[[[2", "OutputTensor Sizes is {1,2,1,4}"),
            ("{1,1,2,4}, DataType:FLOAT32)\n[[[[2", "{1,1,2,4}, DataType:FLOAT16)\n[[[[2", "OutputTensor DataType is FLOAT16"),
            ("Axis: 3", "Axis: 2", "SequenceLengthsTensor Sizes is {1,1,2,1}"),
            ("Axis: 3", "", "no axis is given; expected 0 to 3"),
            ("Axis: 3", "Axis: 3\nAxis: 3", "a second Axis"), ("Axis: 3", "Axis: three", "Axis is three; expected an integer"),
            ("[8, 7, 6, 5]]]]", "[8, 7, 6, 5]]]", "is missing"), ("DataType:UINT32", "DataType:UINT8", "SequenceLengthsTensor DataType is UINT8"),
            ("[[[[2, 1, 3, 4],\n   [8, 7, 6, 5]]]]", "", "OutputTensor has no values"),
        ],
    )  # fmt: skip
    def test_what_is_wrong(self, old, new, problem):
        assert PAGE.count(old) >= 1
        verdicts = verify(PAGE.replace(old, new, 1)).verdicts
        assert [verdict.is_right for verdict in verdicts] == [False, True]
        assert problem in "\n".join(finding.message for finding in verdicts[0].findings)

    @pytest.mark.parametrize("words", ["3;", "3, the last"])
    def test_an_axis_line_that_has_more_than_an_integer(self, revseq, tmp_path, words):
        page = PAGE.replace("Axis: 3", f"Axis: {words}")
        line = page[: page.index("Axis: 3")].count("\n") + 1
        [finding] = verify(page).verdicts[0].findings
        assert (finding.line, finding.column, finding.message) == (
            line,
            1,
            f"Axis is {words}; expected an integer",
        )
        (tmp_path / "x.md").write_text(page)
        revseq("run", "x.md::1").refused(
            f"x.md: line {line}, column 1: Axis is {words}\n", "expected an integer"
        )
        revseq("run", "x.md::1", "--axis", 3).ok()
        shared = FIRST + FIRST[FIRST.index("SequenceTensor") :].replace("Axis: 3", f"Axis: {words}")
        assert told(shared) == [f"Axis is {words}; expected an integer"]

    def test_lengths_of_any_whole_numbers_without_a_level(self):
        page = FIRST.replace("DataType:UINT32", "DataType:FLOAT32")
        assert verify(page, FeatureLevel.NONE).is_right
        assert "SequenceLengthsTensor DataType is FLOAT32" in told(page)[0]
        (verdict,) = verify(page.replace("[9]", "[-9]"), FeatureLevel.NONE).verdicts
        assert "at [0, 0, 1, 0] is not a length" in verdict.findings[0].message

    def test_a_page_of_another_operator(self, revseq, tmp_path):
        for head in (
            "---\nUID: NS:directml.DML_GRU_OPERATOR_DESC\n---\n",
            "<title>DML_GRU_OPERATOR_DESC - Win32</title>\n",
        ):
            (tmp_path / "x.md").write_text(head + WRONG)
            revseq("verify", "x.md").refused("x.md: contains no example of this operator")
            ours = verify(head.replace("GRU", "REVERSE_SUBSEQUENCES") + WRONG)
            assert [verdict.is_right for verdict in ours.verdicts] == [False, True]

    def test_an_input_serves_several_examples(self):
        """With its axis; a page in Korean has it so."""
        second = (
            FIRST[FIRST.index("SequenceTensor") :]
            .replace("[9]", "[1]")
            .replace("[8, 7, 6, 5]", "[5, 6, 7, 8]")
        )
        page = "\n## Next\n\n".join([FIRST, second, FIRST, second.replace("Axis: 3", "")])
        assert [verdict.is_right for verdict in verify(page).verdicts] == [True] * 4
        wrong = verify("[6, 5, 7, 8]".join(page.rsplit("[5, 6, 7, 8]", 1)))
        assert [verdict.is_right for verdict in wrong.verdicts] == [True, True, True, False]

    def test_examples_of_other_operators_are_told_apart(self):
        others = "## DML_GRU_OPERATOR_DESC\n\n" + FIRST.replace(
            "SequenceTensor", "WeightTensor: (Sizes:{1}, DataType:INT8)\n[1]\nSequenceTensor"
        )
        report = verify(f"{PAGE}\n{others}\n### DML_FEATURE_LEVEL_3_0 and above\n")
        assert ([each.is_right for each in report.verdicts], report.skipped) == ([True, True], 2)
        half = FIRST[: FIRST.index("OutputTensor")]
        report = verify(half + "ATensor: (Sizes:{1}, DataType:FLOAT32)\n[1]\n\n" + FIRST)
        assert ([each.is_right for each in report.verdicts], report.skipped) == ([False, True], 1)

    def test_axis_lines_may_come_first(self):
        ahead = "Axis: 3\n\n" + FIRST.replace("Axis: 3", "")
        assert [verdict.is_right for verdict in verify(ahead + "\n" + ahead).verdicts] == [
            True,
            True,
        ]

    def test_an_incomplete_example_is_ours_where_the_page_names_the_operator(self):
        half = FIRST[: FIRST.index("SequenceTensor")] + FIRST[FIRST.index("Axis") :]
        other = "# DML_GATHER_OPERATOR_DESC\n\n" + half
        assert verify(NAMED + FIRST + other).skipped == 1
        assert verify(FIRST + half).skipped == 1
        below = verify(f"{FIRST}{half}\n* See DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC\n")
        assert (len(below.verdicts), below.skipped) == (1, 1)

    def test_a_second_output_in_one_block(self, revseq, tmp_path):
        output = FIRST[FIRST.index("OutputTensor") :].strip()
        block = f"```\n{FIRST.strip()}\n\n@\n```\n"
        assert verify(block.replace("@", output)).is_right
        wrong = output.replace("[8, 7, 6, 5]", "[8, 7, 6, 55]")
        page = block.replace("@", wrong)
        [finding] = verify(page).verdicts[0].findings
        assert "55, but should be 5" in finding.message
        assert finding.line == page[: page.index("55")].count("\n") + 1
        assert (
            "dimension count is 1"
            in told(block.replace("@", "OutputTensor: (Sizes:{2}, DataType:FLOAT32)\n[1, 2]"))[0]
        )
        (tmp_path / "x.md").write_text(page)
        revseq("verify", "x.md", "--fix").ok()
        assert (tmp_path / "x.md").read_text() == block.replace("@", output)
        apart = verify(f"```\n{FIRST.strip()}\n```\n\n```\n{wrong}\n```\n")
        assert (len(apart.verdicts), apart.is_right, apart.skipped) == (1, True, 1)

    @pytest.mark.parametrize("dots", ["...", "\u2026"])
    def test_rows_that_are_left_out(self, dots):
        text = FIRST.replace("[8, 7, 6, 5]]]]", f"{dots}\n [8, 7, 6, 5]]]]")
        [finding] = verify(text).verdicts[0].findings
        assert finding.line == text[: text.index(dots)].count("\n") + 1
        assert "left out" in finding.message

    def test_another_operator_below_our_name(self):
        """No lengths give its output."""
        sums = "InputTensor: (Sizes:{1,2}, DataType:FLOAT32)\n[[5, 6]]\nAxis: 1\nOutputTensor: (Sizes:{1,2}, DataType:FLOAT32)\n[[5, 11]]\n"
        report = verify(f"{NAMED}{FIRST}\n# Cumulative sum\n\n{sums}")
        assert ([verdict.is_right for verdict in report.verdicts], report.skipped) == ([True], 1)
        ours = sums.replace("[[5, 11]]", "[[6, 5]]")
        assert "no lengths" in told(f"{NAMED}{FIRST}\n# Next\n\n{ours}")[0]

    def test_what_the_commands_print_is_no_example(self, revseq):
        job = ("samples/example1.txt", "--feature-level", "5_0")
        for command in (("check", *job), ("run", *job, "--dry-run")):
            printed = revseq(*command, cwd=ROOT).ok().out
            assert "InputTensor" in printed
            report = verify(f"{NAMED}{FIRST}\n```\n{printed}```\n\n{FIRST}")
            assert ([verdict.is_right for verdict in report.verdicts], report.skipped) == (
                [True, True],
                0,
            )

    def test_our_own_manual(self, revseq):
        assert "WRONG" not in revseq("verify", "man", cwd=ROOT).out

    @pytest.mark.parametrize(
        ("before", "piece", "behind"),
        [("Foo: x", " ", "y"), ("Foo", " ", ""), ("T: (Sizes:{1}", " ", "x"), ("", "<", ""), ("", "<a ", ""), ("", "> ", ""),
         ("", "<span class=ln>", ""), ("", "&", ""), ("", "A: (Sizes:{1}, DataType:NONE)\n", "")],
    )  # fmt: skip
    def test_hostile_lines_take_no_time(self, before, piece, behind):
        def find(count):
            assert verify(f"{before}{piece * count}{behind}\n\n{FIRST}").verdicts[0].is_right

        assert is_linear(find, 40_000 if len(piece) < 9 else 1_200)


class TestNumbers:
    """That whatever number changes, the verdict is that of the slow definition."""

    @settings(max_examples=30)
    @given(st.data())
    def test_a_printed_example_is_right(self, data):
        sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=8))
        axis = data.draw(st.integers(0, len(sizes) - 1))
        types = [each for each in DataType if each.kind in ("float", "int", "uint")]
        dtype = dtype_of(data.draw(st.sampled_from(types)))
        rng = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
        values = (
            rng.integers(0, 256, int(np.prod(sizes)) * dtype.itemsize, np.uint8)
            .view(dtype)
            .reshape(sizes)
        )
        narrow = [1 if d == axis else n for d, n in enumerate(sizes)]
        lengths = rng.integers(0, sizes[axis] + 2, narrow).astype(
            data.draw(st.sampled_from(["u4", "u8"]))
        )
        result = expected(values, lengths, axis)
        text = view.example_text(*map(held, (values, lengths)), axis, held(result))
        assert verify(text).is_right
        flat = result.ravel().copy()
        place = data.draw(st.integers(0, flat.size - 1))
        flat[place : place + 1].view(f"u{dtype.itemsize}")[...] ^= 1
        wrong = view.example_text(*map(held, (values, lengths)), axis, held(flat.reshape(sizes)))
        assert not verify(wrong).is_right


class TestFix:
    @pytest.mark.parametrize(
        ("encoding", "ends"),
        [("utf-8", "\r"), ("utf-16-le", "\r\n"), ("utf-16-be", "\n"), ("utf-8-sig", "\n")],
    )  # fmt: skip
    def test_only_the_rows_change(self, revseq, tmp_path, encoding, ends):
        def written(text):
            mark = "\ufeff" if encoding.startswith("utf-16") else ""
            return (
                mark + "caf\xe9\t" + re.sub("(?m)^(?=.)", "    ", text).replace("\n", ends)
            ).encode(encoding)

        (tmp_path / "x.html").write_bytes(written(WRONG))
        assert revseq("verify", "x.html").status == 1
        assert revseq("verify", "x.html", "--fix").ok().out.count("fixed") == 1
        assert (tmp_path / "x.html").read_bytes() == written(PAGE)
        assert os.listdir(tmp_path) == ["x.html"]

    def test_brackets_too_many(self, revseq, tmp_path):
        (tmp_path / "x.md").write_text(PAGE.replace("[8, 7, 6, 5]]]]", "[8, 7, 6, 5]]]]]\n]"))
        assert "closes nothing" in revseq("verify", "x.md").failed().out
        revseq("verify", "x.md", "--fix").ok()
        assert (tmp_path / "x.md").read_text() == PAGE

    def test_rows_beside_their_header(self, revseq, tmp_path):
        text = PAGE.replace("{3,2}, DataType:INT8)\n[[ 5", "{3,2}, DataType:INT8) [[ 5")
        (tmp_path / "x.md").write_text(text.replace("[-1, 6]]", "[-1, 7]]"))
        revseq("verify", "x.md", "--fix").ok()
        assert (tmp_path / "x.md").read_text() == text

    @pytest.mark.parametrize(
        ("old", "new", "reason"),
        [("Axis: 0", "Axis: one", "Axis is one"), ("Axis: 0", "Axis: 2", "Axis is 2"),
         ("4],\n [-1, 6]]", "4], // here\n [-1]]", "comments or markup, which would be lost"),
         ("{3,2}, DataType:INT8)\n[[ 5", "{2,3}, DataType:INT16)\n[[ 5", "OutputTensor Sizes is {2,3}"),
         ("[[ 5, 2],\n [ 3, 4],\n [-1, 6]]", "As above.", "OutputTensor has no values")],
    )  # fmt: skip
    def test_all_of_a_page_or_nothing(self, revseq, tmp_path, old, new, reason):
        first, title, second = WRONG.partition("## Along another")
        text = first + title + second.replace(old, new)
        assert text != WRONG
        (tmp_path / "x.md").write_text(text)
        (tmp_path / "y.md").write_text(WRONG)
        done = revseq("verify", "x.md", "y.md", "--fix").failed()
        assert re.search(
            rf"^Note: x.md is not rewritten: line \d+, column \d+: .*{re.escape(reason)}", done.err
        )
        assert "x.md\n  example 1, line 10: WRONG" in done.out
        assert (tmp_path / "x.md").read_text() == text
        assert (tmp_path / "y.md").read_text() == PAGE

    def test_what_cannot_be_rewritten(self, revseq, tmp_path):
        text = WRONG.replace(
            "3, 4],\n   [8", "3, 4],\n# DML_GRU_OPERATOR_DESC\n   [8"
        )  # with it, the second is another's
        (tmp_path / "x.md").write_text(text)
        done = revseq("verify", "x.md", "--fix").failed()
        assert (
            "x.md is not rewritten: cannot be fixed: with other rows, it has other examples"
            in done.err
        )
        assert (tmp_path / "x.md").read_text() == text
        revseq("verify", "-", "--fix", stdin=WRONG.encode()).refused("standard input")
        packed = gzip.compress(WRONG.encode())
        (tmp_path / "x.md.gz").write_bytes(packed)
        assert (
            "x.md.gz is not rewritten: is compressed"
            in revseq("verify", "x.md.gz", "--fix").failed().err
        )
        assert (tmp_path / "x.md.gz").read_bytes() == packed

    def test_a_page_that_changes_meanwhile_stays_as_it_is(self, tmp_path):
        path = tmp_path / "x.md"
        path.write_text(WRONG)
        page = pages.read_page(Reference(str(path)))
        data, _ = pages.fix(page, pages.judge_page(page, FeatureLevel.NONE), FeatureLevel.NONE)
        path.write_text("other")
        with pytest.raises(OSError, match="changed while it was read"):
            pages.write_page(page, data)
        assert path.read_text() == "other"
        assert os.listdir(tmp_path) == ["x.md"]

    @settings(max_examples=50)
    @given(st.data())
    def test_any_wrong_numbers(self, tmp_path_factory, data):
        """Whatever stands there instead of the numbers: after the fix the page is what it was."""
        offset, stop = PAGE.index("[[[[2, 1"), PAGE.index("## Along another")
        places = [match.span() for match in re.finditer(r"-?\d+", PAGE[offset:stop])]
        text = PAGE
        for start, end in sorted(
            data.draw(st.sets(st.sampled_from(places), min_size=1)), reverse=True
        ):
            new = data.draw(
                st.sampled_from(["0", "-12", "3.5", "1e30", "nan", "x", "99999", "", "1 1"])
            )
            text = text[: offset + start] + new + text[offset + end :]
        path = tmp_path_factory.mktemp("fix") / "x.md"
        path.write_text(text)
        page = pages.read_page(Reference(str(path)))
        fixed, report = pages.fix(
            page, pages.judge_page(page, FeatureLevel.V5_0), FeatureLevel.V5_0
        )
        assert report.is_right
        assert fixed.decode() == PAGE


def test_the_hooks_of_pre_commit_are_commands(revseq, tmp_path):
    (tmp_path / "wrong.md").write_bytes((ROOT / "samples" / "wrong.md").read_bytes())
    hooks = re.findall(
        r"^  entry: revseq (.+)$", (ROOT / ".pre-commit-hooks.yaml").read_text(), re.MULTILINE
    )
    assert [revseq(*entry.split(), "wrong.md").status for entry in hooks] == [1, 0]
    assert revseq("verify", "wrong.md").ok()
