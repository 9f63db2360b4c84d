"""`revseq verify` as a documentation team uses it: folders, formats for programs, `--fix`, encodings and notebooks."""

import difflib
import gzip
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, SAMPLES
from growth import is_linear
from hypothesis import given, settings
from hypothesis import strategies as st

from revseq_cli.commands import verify as command
from revseq_cli.formats.textfiles import text_of
from revseq_cli.operator.spec import FeatureLevel
from revseq_cli.pages import fixes, support_tables, verification
from revseq_cli.report import pages as reports_as

PAGE = (SAMPLES / "page.md").read_text()
WRONG = PAGE.replace("[8, 7, 6, 5]", "[8, 7, 6, 55]")
OTHERS = PAGE[PAGE.index("## Another") :]
TOLD = "22:14: example 1: OutputTensor at [0, 0, 1, 3] is 55, and the operator gives 5; 1 of 8 elements differ"


def notebook(*cells, indent=None):
    found = [{"cell_type": kind, "metadata": {}, "source": source} for kind, source in cells]
    return json.dumps({"cells": found, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=indent)


@pytest.fixture
def docs(tmp_path):
    """A folder with pages of every kind, and with others."""
    folder = tmp_path / "docs"
    for path, text in {
        "a.md": PAGE, "b/wrong.HTML": WRONG, "b/none.rst": "Nothing\n", "b/other.txt": OTHERS, "c/x.ipynb": notebook(("markdown", PAGE)),
        ".git/x.md": WRONG, "b/.hidden/x.md": WRONG, ".x.md": WRONG, "image.png": WRONG, "page.md.gz": "no gzip",
    }.items():  # fmt: skip
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    (folder / "latin.txt").write_bytes(b"caf\xe9")
    return folder


class TestFolders:
    def test_every_page_in_order(self, revseq, docs):
        done = revseq("verify", docs.name).failed()
        lines = done.out.replace(os.sep, "/").splitlines()
        assert [line for line in lines if line.startswith("docs")] == [
            "docs/a.md", "docs/b/wrong.HTML", f"docs/b/wrong.HTML:{TOLD}", "docs/c/x.ipynb",
        ]  # fmt: skip
        assert lines[-2] == "6 examples, 1 wrong, 3 of other operators skipped"
        assert (lines[-1], done.err) == ("3 pages without an example skipped", "")

    def test_the_order_is_that_of_names(self, tmp_path):
        for name in ("b.md", "a.md", "c/b.md", "c/a.md", "a/z.md"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text("")
        found = [str(Path(path).relative_to(tmp_path)) for path in verification.places_below(str(tmp_path))]
        assert found == [str(Path(name)) for name in ("a.md", "b.md", "a/z.md", "c/a.md", "c/b.md")]

    @pytest.mark.needs("links")
    def test_links_in_circles_and_to_nothing(self, revseq, docs):
        (docs / "c" / "circle").symlink_to(docs)
        (docs / "gone.md").symlink_to("nowhere.md")
        (docs / "b" / "wrong.HTML").write_text(PAGE)
        done = revseq("verify", "docs").failed()
        assert done.err == "Error: docs/gone.md: no such file\n"
        assert "6 examples, 0 wrong" in done.out

    def test_a_bad_page_does_not_hide_the_good_ones(self, revseq, docs):
        (docs / "aa.md").write_bytes(WRONG.encode() + b"\xff")
        (docs / "z.ipynb").write_text('{"cells": "InputTensor"}')
        done = revseq("verify", "docs", "docs/a.md").failed()
        assert re.findall("^Error: (.*)$", done.err, re.MULTILINE) == [
            f"{Path('docs/aa.md')}: line {WRONG.count(chr(10)) + 1}, column 1: not text: byte {len(WRONG)} is not UTF-8",
            f"{Path('docs/z.ipynb')}: is not a notebook: it has no list of cells",
        ]
        assert "6 examples, 1 wrong" in done.out

    def test_a_tensor_is_no_page(self, revseq):
        revseq("verify", ROOT / "samples/example1.npy").refused("it looks like a .npy file", "wanted: a page: UTF-8")

    @pytest.mark.parametrize(
        "second",
        ["docs/x.md", "./docs/x.md", "docs/../docs/x.md", pytest.param("link.md", marks=pytest.mark.needs("links"))],
    )
    def test_a_page_under_two_names_is_one(self, revseq, tmp_path, second):
        (tmp_path / "docs").mkdir()
        (tmp_path / "docs/x.md").write_text(WRONG, "utf-16")
        if second == "link.md":
            (tmp_path / second).symlink_to("docs/x.md")
        done = revseq("verify", second, "docs", "docs/x.md::2", "--json")
        pages = json.loads(done.out)["pages"]
        assert [page["page"] for page in pages] == [second]
        assert revseq("verify", "docs", second, "--fix").ok().out.count("fixed, 1 element") == 1

    def test_nothing_to_check(self, revseq, tmp_path):
        assert "Hint" not in revseq("verify", ".").refused("no example of this operator in 0 pages").err
        (tmp_path / "x.md").write_text("# Nothing\n")
        revseq("verify", ".").refused("no example of this operator in 1 pages", "Hint: add --allow-empty\n")
        revseq("verify", "x.md").refused("x.md: contains no example")
        done = revseq("verify", "x.md", ".", "--allow-empty").ok()
        assert done.out == "1 page without an example skipped\n"

    @pytest.mark.parametrize("name", [".draft.md", "drafts.md.gz", ".drafts/x.md"])
    def test_what_is_left_out_is_the_hint_where_it_can_be_verified(self, revseq, tmp_path, name):
        """And not --allow-empty, with which a job on CI would check nothing for years."""
        (tmp_path / "docs" / name).parent.mkdir(parents=True)
        (tmp_path / "docs/none.md").write_text("# Nothing\n")
        (tmp_path / "docs/.none.md").write_text("# Nothing\n")
        (tmp_path / "docs" / name).write_bytes(gzip.compress(PAGE.encode()) if name.endswith(".gz") else PAGE.encode())
        done = revseq("verify", "docs")
        done.refused("no example of this operator in 1 pages")
        hint = done.err.partition("Hint: try revseq ")[2].split()
        assert hint == ["verify", str(Path("docs") / name)]
        assert "2 examples, 0 wrong" in revseq(*hint).ok().out

    def test_a_folder_that_nobody_may_read(self, docs, monkeypatch):
        def scan(path, scandir=os.scandir):
            if Path(path).name == "b":
                raise PermissionError(13, "Permission denied", str(path))
            return scandir(path)

        monkeypatch.setattr(os, "scandir", scan)
        found = [*verification.places_below(str(docs))]
        (error,) = [each for each in found if not isinstance(each, str)]
        assert (error.where, error.found) == (str(docs / "b"), "cannot read: Permission denied")
        assert [Path(each).name for each in found if isinstance(each, str)] == ["a.md", "latin.txt", "x.ipynb"]


class TestForms:
    def test_the_table_is_that_of_the_option(self):
        assert ("text", *reports_as.FOR_PROGRAMS) == command._FORMATS

    @pytest.mark.needs("colons")
    def test_github(self, revseq, tmp_path):
        name = "50%, a:b.md"
        (tmp_path / name).write_text(WRONG)
        done = revseq("verify", name, "gone.md", "--format", "github").failed()
        assert done.out.splitlines() == [
            f"::error file=50%25%2C a%3Ab.md,line=22,col=14,title=revseq%3A example::{TOLD.partition(' ')[2]}",
            "::error file=gone.md,title=revseq%3A page::no such file",
        ]
        (tmp_path / "good.md").write_text(PAGE)
        assert revseq("verify", "good.md", "--format", "github").ok().out == ""

    @pytest.mark.needs("colons")
    def test_hostile_names_and_texts(self, revseq, tmp_path):
        name = "a\x1b[31m\r\n::warning::x.md"
        (tmp_path / name).write_text(PAGE.replace("Axis: 3", "Axis: %0A\x1b[31m::error::x](http://x)"))
        for form in ("text", "github", "json", "sarif"):
            out = revseq("verify", name, "--format", form).out
            assert "\x1b" not in out
            assert not re.search(r"^::(?!error file=)", out, re.MULTILINE)
            assert "](" not in out or form != "sarif"

    def test_sarif(self, revseq, docs):
        log = json.loads(revseq("verify", docs.name, "--format", "sarif").failed().out)
        assert log["version"] == "2.1.0"
        (run,) = log["runs"]
        rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
        (result,) = run["results"]
        assert result == {
            "ruleId": "example", "ruleIndex": rules.index("example"), "level": "error",
            "message": {"text": TOLD.partition(" ")[2]},
            "locations": [{"physicalLocation": {
                "artifactLocation": {"uri": "docs/b/wrong.HTML"}, "region": {"startLine": 22, "startColumn": 14},
            }}],
        }  # fmt: skip
        assert run["tool"]["driver"]["name"] == "revseq"
        assert all(rule["shortDescription"]["text"] for rule in run["tool"]["driver"]["rules"])
        assert run["invocations"] == [{"executionSuccessful": True}]

    def test_sarif_of_odd_names(self, revseq, tmp_path):
        (tmp_path / "a b%ä.md").write_text(WRONG)
        path = tmp_path / "a b%ä.md"
        for name, uri in ((path.name, "a%20b%25%C3%A4.md"), (path, path.as_uri())):
            log = json.loads(revseq("verify", name, "--format", "sarif").out)
            (result,) = log["runs"][0]["results"]
            assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri

    def test_json(self, revseq, docs):
        done = revseq("verify", docs.name, "--format", "json")
        assert done.out == revseq("verify", "docs", "--json").out
        found = json.loads(done.out)
        assert found["skipped"] == 3
        pages = ("docs/a.md", "docs/b/wrong.HTML", "docs/c/x.ipynb")
        assert [page["page"] for page in found["pages"]] == [str(Path(page)) for page in pages]
        (finding,) = found["pages"][1]["findings"]
        place = {"line": 22, "column": 14}
        assert finding == {**place, "rule": "example", "level": "error", "message": TOLD.partition(" ")[2]}


class TestFix:
    @pytest.mark.parametrize(
        ("encoding", "ends"),
        [("utf-8", "\n"), ("utf-8", "\r\n"), ("utf-8", "\r"), ("utf-16-le", "\r\n"),
         *((encoding, "\n") for encoding in ("utf-8-sig", "utf-16-be", "utf-32-le", "cp1252"))],
    )  # fmt: skip
    def test_only_the_number_changes(self, revseq, tmp_path, encoding, ends):
        head = "<meta charset='windows-1252'>\n" if encoding == "cp1252" else ""

        def written(text):
            text = head + "caf\xe9\t" + text.replace("5]]]]", "5]]]] // a 55 here")
            mark = "\ufeff" if encoding.startswith(("utf-16", "utf-32")) else ""
            return (mark + text.replace("\n", ends)).encode(encoding)

        (tmp_path / "x.html").write_bytes(written(WRONG))
        revseq("run", "x.html::1").ok()
        assert revseq("verify", "x.html").status == 1
        dry = revseq("verify", "x.html", "--fix", "--dry-run")
        assert dry.status == 1
        assert "\n-   [8, 7, 6, 55]]]] // a 55 here\n+   [8, 7, 6, 5]]]] // a 55 here\n" in dry.out
        assert (tmp_path / "x.html").read_bytes() == written(WRONG)
        done = revseq("verify", "x.html", "--fix").ok()
        assert "fixed, 1 element" in done.out
        assert (tmp_path / "x.html").read_bytes() == written(PAGE)
        revseq("verify", "x.html").ok()
        assert os.listdir(tmp_path) == ["x.html"]

    @pytest.mark.parametrize("indent", [None, 1])
    @pytest.mark.parametrize("cut", [False, True])
    def test_notebooks(self, revseq, tmp_path, indent, cut):
        def written(text):
            source = text.splitlines(keepends=True) if cut else text
            return notebook(("code", WRONG), ("markdown", 'é \U0001f600 "q"\n'), ("markdown", source), indent=indent)

        (tmp_path / "x.ipynb").write_text(written(WRONG))
        found = json.loads(revseq("verify", "x.ipynb", "--json").out)["pages"][0]["findings"][0]
        line = (tmp_path / "x.ipynb").read_text().split("\n")[found["line"] - 1]
        assert line[found["column"] - 1 :].startswith("55]]]]")
        assert revseq("verify", "x.ipynb", "--fix").ok().out.count("fixed") == 1
        assert (tmp_path / "x.ipynb").read_text() == written(PAGE)
        assert revseq("show", "x.ipynb::1::OutputTensor", "--shape").ok().out == "1 1 2 4\n"

    def test_numbers_as_the_input_has_them_in_columns(self, revseq, tmp_path):
        page = """InputTensor: (Sizes:{2,3}, DataType:FLOAT32)
[[ 1.0f,   2.f, 10.5f],
 [-4.0f, -0.0f,  6.0f]]
SequenceTensor: (Sizes:{2,1}, DataType:UINT32)
[[3], [2]]
Axis: 1
OutputTensor: (Sizes:{2,3}, DataType:FLOAT32)
[[10.5f,   2.f,  1.0f], // first, 10.5f
 [-0.0f, -4.0f,  6.0f]]
"""
        wrong = page.replace("[[10.5f,   2.f,  1.0f], //", "[[  7.f,   2.f,    3f], //")
        (tmp_path / "x.txt").write_text(wrong.replace("[-0.0f, -4.0f,  6.0f", "[ 0.0f, -4.0f, 16.0f"))
        revseq("verify", "x.txt", "--fix").ok()
        assert (tmp_path / "x.txt").read_text() == page

    def test_numbers_that_are_not_in_columns_take_no_blanks(self, revseq, tmp_path):
        page = PAGE.replace("[[5, 2],\n [3, 4],\n [-1, 6]]", "[[5,2],[3 ,4],\n[-1, 6]]")
        old = re.search(r"OutputTensor: \(Sizes:\{3,2\}.*?\n\n?```", page, re.DOTALL)[0]
        (tmp_path / "x.md").write_text(page.replace(old, old.replace("6", "600")))
        revseq("verify", "x.md", "--fix").ok()
        assert (tmp_path / "x.md").read_text() == page

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("[-1, 6]]", "[\u22121, 6]]"), ("[-1, 6]]", "[\u20131, 6]]"), ("[ 3, 4]", "[ \uff13, 4]"), ("[ 3, 4]", "[ 3\uff0c 4]"),
            ("[ 3, 4]", "[\u202f3, 4]"), ("{3,2}", "{\uff13,2}"), ("{3,2}", "{3\uff0c2}"),
        ],
    )  # fmt: skip
    def test_characters_that_look_alike(self, revseq, tmp_path, old, new):
        page = PAGE.replace("[-1, 6]]", "[-1, 6]] // \u22121 \uff13")
        place = page.rindex(old, 0, page.index("## Another"))
        wrong = page[:place] + new + page[place + len(old) :]
        (tmp_path / "x.md").write_text(wrong.replace("[8, 7, 6, 5]", "[8, 7, 6, 55]"))
        done = revseq("verify", "x.md", "--fix").ok()
        assert done.out.count("fixed, 1 element") == 2
        assert (tmp_path / "x.md").read_text() == page
        if new[0] == "[":  # with another number, the row is written anew
            (tmp_path / "x.md").write_text(wrong.replace(new, f"[7, {new[1:]}"))
            revseq("verify", "x.md", "--fix").ok()
            assert (tmp_path / "x.md").read_text() == page

    @pytest.mark.parametrize(
        ("old", "new", "reason"),
        [
            ("Axis: 0", "Axis: one", "line "),
            ("4],\n [-1, 6]]", "4], // here\n [-1, 6]", "the rows of OutputTensor contain comments or markup"),
            ("[[ 5, 2],\n [ 3, 4],\n [-1, 6]]", "As above.", "line 38, column 1: unexpected text below"),
            ("Axis: 0", "Axis: 2", "Axis is 2"),
        ],
    )
    def test_all_of_a_page_or_nothing(self, revseq, tmp_path, old, new, reason):
        assert old in WRONG
        first, title, second = WRONG.partition("## Along another")
        text = first + title + second.replace(old, new)
        (tmp_path / "x.md").write_text(text)
        (tmp_path / "y.md").write_text(WRONG)
        done = revseq("verify", "x.md", "y.md", "--fix").failed()
        assert f"  not rewritten: example 2 cannot be fixed: {reason}" in done.out
        assert (tmp_path / "x.md").read_text() == text
        assert (tmp_path / "y.md").read_text() == PAGE
        revseq("verify", "x.md::1", "--fix").ok()
        assert (tmp_path / "x.md").read_text() == text.replace("55", "5")

    def test_each_file_is_told_whatever_happens_to_others(self, revseq, tmp_path):
        """An OutputTensor without rows was an internal error, and the files behind it were skipped."""
        old = PAGE[PAGE.index("[[[[2, 1") : PAGE.index("[8, 7, 6, 5]]]]") + 15]
        pages = WRONG, PAGE.replace(old, "<image>"), WRONG, PAGE.replace(old, "-")
        for name, text in zip("abcd", pages, strict=True):
            (tmp_path / f"{name}.md").write_text(text)
        done = revseq("verify", ".", "--fix")
        assert (done.status, done.err) == (1, "")
        assert done.out.count("fixed, 1 element") == 3
        assert "d.md:20:1: example 1: OutputTensor has no values" in done.out
        assert (tmp_path / "c.md").read_text() == PAGE

    def test_a_second_output_is_put_right_too(self, revseq, tmp_path):
        start, stop = PAGE.index("OutputTensor: "), PAGE.index("[8, 7, 6, 5]]]]") + 15
        twice = f"{PAGE[:stop]}\n\n{PAGE[start:stop]}{PAGE[stop:]}"
        (tmp_path / "x.md").write_text(f"{PAGE[:stop]}\n\n{PAGE[start:stop].replace('8, 7', '7, 8')}{PAGE[stop:]}")
        assert "x.md:26:5: example 1: OutputTensor at [0, 0, 1, 0] is 7" in revseq("verify", "x.md").out
        revseq("verify", "x.md", "--fix").ok()
        assert (tmp_path / "x.md").read_text() == twice

    def test_what_cannot_be_rewritten(self, revseq, tmp_path):
        done = revseq("verify", "-", "--fix", stdin=WRONG.encode())
        assert done.status == 2
        assert "standard input" in done.err
        shutil.copytree(ROOT / "samples" / "onnx", tmp_path / "onnx")
        packed = gzip.compress(WRONG.encode())
        (tmp_path / "x.md.gz").write_bytes(packed)
        done = revseq("verify", "x.md.gz", "onnx", "--fix").failed()
        assert "  not rewritten: is packed, or not written in the usual way of UTF-8" in done.out
        assert (tmp_path / "x.md.gz").read_bytes() == packed
        revseq("verify", "x.md", "--dry-run").refused("--dry-run shows what --fix would change", "add --fix")

    def test_a_page_that_changes_meanwhile_stays_as_it_is(self, tmp_path):
        path = tmp_path / "x.md"
        path.write_text(WRONG)
        page = verification.examples_below(str(path))
        report = verification.verify(page, FeatureLevel.V5_0)
        done = fixes.fix(page, report, FeatureLevel.V5_0, None)
        path.write_text("other")
        with pytest.raises(OSError, match="changed while it was read"):
            fixes.write(done)
        assert path.read_text() == "other"
        assert os.listdir(tmp_path) == ["x.md"]

    @pytest.mark.parametrize("count", [1, 2, 40])
    def test_the_diff_is_the_one_that_patch_takes(self, revseq, tmp_path, count):
        """Examples that are alike do not confuse it: each change is a line out and a line in."""
        text = "\n".join(WRONG[: WRONG.index("## Another")] for _ in range(count))
        (tmp_path / "x.md").write_text(text)
        out = revseq("verify", "x.md", "--fix", "--dry-run").out
        diff = out[out.index("--- x.md") :].partition(f"\n{2 * count} examples")[0]
        assert [each for each in diff.splitlines() if each[0] in "-+" and each[:3] not in ("---", "+++")] == [
            "-   [8, 7, 6, 55]]]]", "+   [8, 7, 6, 5]]]]"
        ] * count  # fmt: skip
        if count < 3:  # with more, difflib takes one example for another
            lines = (each.split("\n") for each in (text, text.replace("55", "5")))
            assert diff.splitlines() == [*difflib.unified_diff(*lines, "x.md", "x.md", lineterm="")]
        if shutil.which("patch"):
            subprocess.run(["patch", "-s", "x.md"], input=f"{diff}\n".encode(), cwd=tmp_path, check=True)
            assert (tmp_path / "x.md").read_text() == text.replace("55", "5")

    @pytest.mark.parametrize("changed", [(0,), (2, 3), (0, 7), (0, 8), (5, 12, 29), (), (29,)])
    def test_the_parts_of_a_diff_are_those_of_difflib(self, changed):
        old = [f"line {i}" for i in range(30)]
        new = [f"new {i}" if i in changed else line for i, line in enumerate(old)]
        report = verification.Report([], 0, support_tables.NOTHING)
        found = fixes.diff(fixes.Fix(text_of("\n".join(old).encode(), "x.md"), "\n".join(new).encode(), report))
        assert found[2:] == [*difflib.unified_diff(old, new, "x.md", "x.md", lineterm="")][2:]

    def test_a_fix_takes_time_that_is_linear_in_the_page(self):
        report = verification.Report([], 0, support_tables.NOTHING)

        def work(count):
            old = WRONG[: WRONG.index("## Another")] * count
            assert fixes.diff(fixes.Fix(text_of(old.encode(), "x.md"), old.replace("55", "5").encode(), report))

        assert is_linear(work, 200)

    @settings(max_examples=50)
    @given(st.data())
    def test_any_wrong_numbers(self, data):
        """Whatever stands there instead of the numbers: after the fix the page is what it was, but for blanks."""
        offset, stop = PAGE.index("[[[[2, 1"), PAGE.index("## Along another")
        places = [m.span() for m in re.finditer(r"-?\d+", PAGE[offset:stop])]
        text = PAGE
        for a, b in sorted(data.draw(st.sets(st.sampled_from(places), min_size=1)), reverse=True):
            new = data.draw(st.sampled_from(["0", "-12", "3.5", "1e30", "nan", "x", "99999"]))
            text = text[: offset + a] + new + text[offset + b :]
        page = verification.page_of(text_of(text.encode(), "x.md", None))
        report = verification.verify(page, FeatureLevel.V5_0)
        wrong = [page.examples[each.number - 1] for each in report.verdicts if not each.right]
        edits = [edit for example in wrong for edit in fixes._edits(example, FeatureLevel.V5_0)]
        assert "".join(fixes._applied(page.text, edits).split()) == "".join(PAGE.split())


def test_the_hooks_of_pre_commit_are_commands(revseq, tmp_path):
    hooks = re.findall(r"^  entry: revseq (.+)$", (ROOT / ".pre-commit-hooks.yaml").read_text(), re.MULTILINE)
    (tmp_path / "note.md").write_text("no example\n")
    found = []
    for entry in hooks:
        shutil.copy(ROOT / "samples" / "wrong.md", tmp_path / "wrong.md")
        found.append((entry, revseq(*entry.split(), "note.md", "wrong.md").status))
    assert found == [("verify --allow-empty", 1), ("verify --allow-empty --fix", 0)]
    assert revseq("verify", "wrong.md").ok()
