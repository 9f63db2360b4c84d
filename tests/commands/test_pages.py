"""`revseq verify`: every example on a page is found, recomputed, and any wrong digit is seen."""

import json
import re

import numpy as np
import oracle
import pytest
from conftest import ROOT, SAMPLES
from growth import is_linear
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import expected
from tensor_files import held

from revseq_cli.core.dtypes import dtype_of
from revseq_cli.core.errors import FormatError
from revseq_cli.core.tensors import DataType
from revseq_cli.formats.documents import Text
from revseq_cli.operator.spec import FeatureLevel
from revseq_cli.pages import verification
from revseq_cli.pipeline import jobs
from revseq_cli.pipeline.assembly import Request
from revseq_cli.report import view
from revseq_cli.text.examples import find_examples

PAGE = (SAMPLES / "page.md").read_text()


def verify(text, level=FeatureLevel.V5_0):
    return verification.verify(verification.page_of(Text("page.md", text)), level)


def test_several_pages_standard_input_and_json(revseq):
    wrong = PAGE.replace("8, 7, 6, 5", "8, 7, 5, 6").encode()
    done = revseq("verify", "samples/page.md", "-", "--json", cwd=ROOT, stdin=wrong).failed()
    found = json.loads(done.out)
    assert [page["page"] for page in found["pages"]] == ["samples/page.md", "standard input"]
    assert [e["right"] for page in found["pages"] for e in page["examples"]] == [True, True, False, True]
    assert found["pages"][1]["examples"][0]["difference"] == {
        "index": [0, 0, 1, 2], "line": 22, "found": "5", "expected": "6", "count": 2, "total": 8,
    }  # fmt: skip


def test_pages_without_examples_or_that_cannot_be_read(revseq, tmp_path):
    (tmp_path / "none.md").write_text("# Nothing here\n")
    (tmp_path / "other.md").write_text(PAGE[PAGE.index("## Another") :])
    (tmp_path / "latin.md").write_bytes(b"caf\xe9")
    (tmp_path / "good.md").write_text(PAGE)
    revseq("verify", "none.md").refused("none.md: contains no example of this operator")
    revseq("verify", "other.md").refused("contains no example of this operator; 1 of other operators")
    words = "latin.md: line 1, column 4: not text: byte 3 is not UTF-8", "Hint: save it as UTF-8\n"
    revseq("verify", "latin.md").refused(*words)
    revseq("verify", "absent.md").refused("absent.md: no such file")
    done = revseq("verify", "none.md", "good.md")
    assert (done.status, "2 examples, 0 wrong" in done.out) == (1, True)
    assert done.err.startswith("Error: none.md: contains no example of this operator")


OUTPUT = "{1,1,2,4}, DataType:FLOAT32)\n[[[[2"
NO_NUMBER = "line 22, column 11: 'x' is not a number\n   [8, 7, x, 5]]]]\n          ^"
LENGTHS = PAGE[PAGE.index("SequenceTensor") : PAGE.index("Axis: 3")]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (OUTPUT, OUTPUT.replace("1,2,4", "2,1,4"), "says {1,2,1,4}; the values have {1,1,2,4}"),
        (OUTPUT, OUTPUT.replace("32", "16"), "OutputTensor DataType is FLOAT16"),
        ("Axis: 3", "Axis: 2", "SequenceLengthsTensor Sizes is {1,1,2,1}"),
        ("Axis: 3", "", "no axis is given; wanted: the dimension to reverse along, 0 to 3"),
        ("Axis: 3", "Axis: 3\nAxis: 3", "a second Axis"),
        ("Axis: 3", "Axis: three", "Axis is three; wanted: an integer"),
        (LENGTHS, LENGTHS * 2, "a second SequenceTensor"),
        ("   [9]]]]", "   [-9]]]]", "-9 does not fit UINT32"),
        ("[8, 7, 6, 5]]]]", "[8, 7, 6]]]]", "a row of 3, and the first one has 4"),
        ("[8, 7, 6, 5]]]]", "[8, 7, 6, 5]]]", "is missing"),
        ("[8, 7, 6, 5]]]]", "[8, 7, x, 5]]]]", NO_NUMBER),
        ("DataType:UINT32", "DataType:UINT8", "SequenceLengthsTensor DataType is UINT8"),
        ("DataType:FLOAT32", "DataType:FLOAT31", "FLOAT31"),
    ],
)
def test_what_is_wrong_with_an_example(old, new, problem):
    assert PAGE.count(old) >= 1
    found = verify(PAGE.replace(old, new, 1)).verdicts
    assert not found[0].right
    assert problem in "\n".join(map(str, found[0].findings))
    assert found[1].right


@pytest.mark.parametrize(
    "head",
    [
        "---\ntitle: DML_GRU_OPERATOR_DESC\n---\n", "---\nUID: NS:directml.DML_GRU_OPERATOR_DESC\ntitle: GRU\n---\n",
        "<html><title>DML_GRU_OPERATOR_DESC - Win32 apps</title>\n",
    ],
)  # fmt: skip
def test_the_page_of_another_operator_is_not_judged(revseq, tmp_path, head):
    wrong = PAGE.replace("[8, 7, 6, 5]", "[8, 7, 6, 55]")
    (tmp_path / "x.md").write_text(head + wrong)
    revseq("verify", "x.md").refused("x.md: is the page of DML_GRU_OPERATOR_DESC")
    (tmp_path / "y.md").write_text(head.replace("DML_GRU", "DML_REVERSE_SUBSEQUENCES") + wrong)
    assert "2 examples, 1 wrong" in revseq("verify", ".").out


@pytest.mark.parametrize("fence", ["```", "~~~~", "> ```"])
def test_references_of_html_are_text_in_a_fence(fence):
    """A browser shows them there as they are written."""
    page = FIRST.replace("[[[[2, 1", "&#91;[[[2, 1")
    assert verify(page).verdicts[0].right
    (finding,) = verify(f"{fence}text\n{page}\n{fence}\n").verdicts[0].findings
    assert finding.found == "&#91; is not read in a block of code"
    assert finding.spot.place.line == 2 + page[: page.index("&")].count("\n")
    assert verify(f"{fence}\na &amp; b\n{fence}\n\n{page}").verdicts[0].right


def test_a_missing_axis_is_told_at_the_first_line():
    (problem,) = verify(PAGE.replace("Axis: 3", "", 1)).verdicts[0].findings
    assert problem.spot.place == (10, 1)
    assert "Hint" not in str(problem)


def test_half_an_example():
    text = PAGE[: PAGE.index("OutputTensor")] + PAGE[PAGE.index("## Along another") :]
    first, second = verify(text).verdicts
    (problem,) = first.findings
    assert problem.message == "the example has no OutputTensor; wanted: the values to compare with the operator's"
    assert second.right


def test_the_feature_level_counts():
    assert "InputTensor dimension count is 2" in str(verify(PAGE, FeatureLevel.V2_1).verdicts[1].findings[0])
    assert verify(PAGE, FeatureLevel.V2_1).verdicts[0].right


def test_control_characters_do_not_pass(revseq):
    page = PAGE.replace("[8, 7, 6, 5]]]]", "[8, \x1b[31m7, 6, 5]]]]")
    done = revseq("verify", "-", stdin=page.encode()).failed()
    assert "\x1b" not in done.out + done.err


def still_right(text):
    """Whether each example of a text is right, by the slow definition and not by ours; None where it cannot be read."""
    found = []
    page = Text("x", text)
    for example in find_examples(page.text, page.items):
        if not example.is_ours:
            continue
        try:
            work = jobs.load_whole(Request(page.name), jobs.ExampleText(page, example))
            desc = example.tensors["OutputTensor"].desc
            if desc is None:  # its header is wrong
                return False
            written = example.tensors["OutputTensor"].values(desc.data_type, dtype_of(desc.data_type))
        except FormatError:
            return False
        values, lengths = work.values.read(), work.lengths.read()
        if not 0 <= work.axis < values.ndim or lengths.dtype.kind != "u" or desc != work.values.desc:
            return False
        if lengths.shape != tuple(1 if d == work.axis else n for d, n in enumerate(values.shape)):
            return False
        found.append(oracle.same_bits(written, expected(values, lengths, work.axis)))
    return all(found) and len(found) == 2


def test_any_changed_digit_is_found():
    start, stop = PAGE.index("InputTensor"), PAGE.index("## Another")
    places = [m.start() for m in re.finditer(r"\d", PAGE[:stop]) if m.start() > start]
    changed = missed = 0
    for place in places:
        for digit in {"0", "5", "9"} - {PAGE[place]}:
            text = PAGE[:place] + digit + PAGE[place + 1 :]
            right = all(verdict.right for verdict in verify(text).verdicts)
            changed += 1
            missed += right != still_right(text)
    assert changed > 150
    assert missed == 0


TYPES = [t for t in DataType if t.kind in ("float", "int", "uint")]


@settings(max_examples=50)
@given(st.data())
def test_a_printed_example_is_the_same_job_and_right(data):
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=8))
    axis = data.draw(st.integers(0, len(sizes) - 1))
    dtype = dtype_of(data.draw(st.sampled_from(TYPES)))
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    values = rng.integers(0, 256, int(np.prod(sizes)) * dtype.itemsize, np.uint8).view(dtype).reshape(sizes)
    narrow = [1 if d == axis else n for d, n in enumerate(sizes)]
    lengths = rng.integers(0, sizes[axis] + 2, narrow).astype(data.draw(st.sampled_from(["u4", "u8"])))
    source, source_lengths, result = map(held, (values, lengths, expected(values, lengths, axis)))
    text = view.example_text(source, source_lengths, axis, result)
    page = Text("x", text)
    (example,) = find_examples(page.text, page.items)
    work = jobs.load_whole(Request(page.name), jobs.ExampleText(page, example))
    assert oracle.same_bits(work.values.read(), values)
    assert oracle.same_bits(work.lengths.read(), lengths)
    assert work.axis == axis
    assert verify(text).verdicts[0].right


def test_run_and_check_print_an_example_that_verifies(revseq):
    for command in ("run", "check"):
        text = revseq(command, "samples/page.md::2", "--example", cwd=ROOT).ok().out
        assert revseq("verify", "-", stdin=text.encode()).ok().out.endswith("1 example, 0 wrong\n")
        again = revseq("run", "-", stdin=text.encode()).ok().out
        assert again == revseq("run", "samples/page.md::2", cwd=ROOT).ok().out
    done = revseq("check", "samples/page.md::2", "--example", "--feature-level", "2_1", cwd=ROOT)
    assert (done.status, "FAIL" in done.out) == (1, True)


DRESSES = {
    "markdown": ("### Example 2\n\n```\n", "\n```\n"),
    "html": ('<h3 id="example-2">Example 2</h3>\n\n<pre><code>', "\n</code></pre>\n"),
    "rst": ("Example 2\n^^^^^^^^^\n\n.. code-block:: none\n\n", "\n"),
}


@pytest.mark.parametrize("form", DRESSES)
def test_an_example_as_it_stands_on_a_page(revseq, tmp_path, form):
    plain = revseq("run", "samples/page.md::2", "--example", cwd=ROOT).ok().out.rstrip("\n")
    assert revseq("run", "samples/page.md::2", "--example=plain", cwd=ROOT).ok().out.rstrip("\n") == plain
    for command in ("run", "check"):
        text = revseq(command, "samples/page.md::2", f"--example={form}", cwd=ROOT).ok().out
        begin, end = DRESSES[form]
        assert text.startswith(begin)
        assert text.endswith(end)
        indent = " " * 4 * (form == "rst")
        assert text[len(begin) : -len(end)] == re.sub("^(?=.)", indent, plain, flags=re.MULTILINE)
        (tmp_path / f"x.{form}").write_text(text)
        assert revseq("verify", f"x.{form}").ok().out.endswith("1 example, 0 wrong\n")
    text = revseq("run", "[[1, 2]]", "[[2]]", "--axis", 1, "--example", form, "--color", "always").ok().out
    assert "Example 1" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("form", DRESSES)
def test_an_example_with_its_picture(revseq, tmp_path, form):
    """The link and the text for those who cannot see it; the page is still right."""
    (tmp_path / "my pictures").mkdir()
    text = revseq("run", ROOT / "samples/page.md::2", f"--example={form}", "--picture", "my pictures/é(1).svg").ok().out
    sentence = "The first N elements of each line along axis 0 are reversed; the rest are copied. N is the length given for the line."
    link, alt = "my%20pictures/%C3%A9%281%29.svg", f"InputTensor and OutputTensor. {sentence}"
    assert text.endswith(
        {
            "markdown": f"```\n\n![{alt}]({link})\n",
            "html": f'</code></pre>\n\n<img src="{link}" alt="{alt}">\n',
            "rst": f"\n\n.. image:: {link}\n   :alt: {alt}\n",
        }[form]
    )
    assert (tmp_path / "my pictures" / "é(1).svg").is_file()
    (tmp_path / f"x.{form}").write_text(text)
    assert revseq("verify", f"x.{form}").ok().out.endswith("1 example, 0 wrong\n")
    plain = revseq("run", ROOT / "samples/page.md::2", "--example", "--picture", "p.svg").ok().out
    assert "p.svg" not in plain


def test_examples_of_other_operators_are_told_apart(revseq, tmp_path):
    others = """
## DML_GRU_OPERATOR_DESC

InputTensor: (Sizes:{1,1,1,2}, DataType:FLOAT32)
[[[[1, 2]]]]
WeightTensor: (Sizes:{1,1,1,2}, DataType:FLOAT32)
[[[[1, 2]]]]
SequenceLengthsTensor: (Sizes:{1,1,1,1}, DataType:UINT32)
[[[[1]]]]
OutputSequenceTensor: (Sizes:{1,1,1,2}, DataType:FLOAT32)
[[[[1, 2]]]]

### DML_FEATURE_LEVEL_3_0 and above

| Tensor | Kind | Supported dimension counts | Supported data types |
| - | - | - | - |
| InputTensor | Input | 4 | FLOAT32, FLOAT16 |
| WeightTensor | Input | 4 | FLOAT32, FLOAT16 |
| SequenceLengthsTensor | Optional input | 4 | UINT32 |
| OutputSequenceTensor | Optional output | 4 | FLOAT32, FLOAT16 |
"""
    (tmp_path / "x.md").write_text(PAGE + others)
    done = revseq("verify", "x.md").ok()
    assert done.out.splitlines()[-1] == "2 examples, 0 wrong, 2 of other operators skipped"
    assert "feature levels" not in done.out
    (tmp_path / "x.md").write_text(others)
    revseq("verify", "x.md").refused("contains no example of this operator; 1 of other operators")


def test_a_link_below_makes_no_example_one_of_this_operator(tmp_path, revseq):
    """The page of a cumulative sum, without a title; above the example, the same name does."""
    example = "InputTensor: (Sizes:{2}, DataType:FLOAT32)\n[1, 2]\n\nAxis: 0\n\nOutputTensor: (Sizes:{2}, DataType:FLOAT32)\n[1, 3]\n"
    link = "\n* See DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC\n\n"
    (tmp_path / "below.md").write_text(example + link)
    (tmp_path / "above.md").write_text(link + example)
    revseq("verify", "below.md").refused("contains no example of this operator; 1 of other operators")
    done = revseq("verify", "above.md").failed()
    assert "the example has no lengths" in done.out


FIRST = PAGE[PAGE.index("InputTensor") : PAGE.index("## Along another")].replace("```", "")


def each_line(form):
    """The first example whose lines have that form, as highlighters number them."""
    return "\n".join(form.format(line) if line.strip() else line for line in FIRST.split("\n"))


@pytest.mark.parametrize(
    "dressed",
    [
        '<pre><code class="lang-console">' + FIRST.replace("Axis", "</code></pre>\n<pre><code>Axis") + "</code></pre>",
        "> " + FIRST.replace("\n", "\n> "), FIRST.replace("InputTensor", "**InputTensor**"),
        FIRST.replace("InputTensor:", "`InputTensor`:"), FIRST.replace("OutputTensor:", "<b>OutputTensor:</b>"),
        FIRST.replace("\n ", "\n\xa0"), FIRST.replace("\n", "\r"), FIRST.replace("\n", "\r\n"),
        FIRST.replace("Axis", "- Axis"), FIRST.replace("\n", "<br>\n"), FIRST.replace("\n ", "\n&nbsp;"),
        "Axis: the dimension to reverse\n\n" + FIRST, FIRST.replace("Axis: 3", "Axis: the dimension\nAxis: 3."),
        "[Home](index.md)\n\n" + FIRST, "> [!NOTE]\n> Read this.\n\n" + FIRST, FIRST.replace("Axis", "\fAxis"),
        f"<pre><![CDATA[{FIRST}]]></pre>", each_line('<span class="linenos"> 1</span>{}'),
        each_line('<td class="linenos"><pre> 1</pre></td><td><pre>{}</pre></td>'), each_line('<span class="ln"><a href="#1">1</a></span>{}'),
        "".join(f'<span class="err">{each}</span>' if each.isalpha() else each for each in FIRST),  # as for JSON
    ],
)  # fmt: skip
def test_examples_in_every_dress(dressed):
    (verdict,) = verify(dressed).verdicts
    assert verdict.right, verdict.findings
    wrong = re.sub(r"8, 7, 6, 5", "8, 7, 6, 9", dressed)
    assert wrong != dressed
    assert verify(wrong).verdicts[0].differences.a.tolist() == [9]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("SequenceTensor: (Sizes", "SequenceTensor: Sizes", "no header of a tensor"),
        ("InputTensor: (Sizes", "InputTensor: Sizes", "no header of a tensor"),
        ("SequenceTensor", "SequencTensor", "the label SequencTensor"),
        ("SequenceTensor", "sequencetensor", "the label sequencetensor; wanted: SequenceTensor"),
        ("InputTensor", "inputTensor", "the label inputTensor; wanted: InputTensor"), ("OutputTensor", "OutputTensr", "the label OutputTensr"),
        ("OutputTensor: (Sizes", "OutputTensor (Sizes", "no header of a tensor"),
        ("OutputTensor: (Sizes:{", "OutputTensor: (Sizes {", "no header of a tensor"),
        ("Axis: 3", "Axis\uff1a3", "Axis is \uff1a3; wanted: a colon :"),
        ("InputTensor", "Values", None),
    ],
)  # fmt: skip
def test_a_broken_example_is_not_another_operators(old, new, problem):
    broken = FIRST.replace(old, new, 1)
    if problem is None:
        assert verify(PAGE + broken).skipped == 2
        return
    verdicts = verify(PAGE + "\n" + broken).verdicts
    assert [verdict.right for verdict in verdicts] == [True, True, False]
    assert problem in str(verdicts[2].findings[0])


def test_tensors_with_an_index_are_no_misspelled_ones():
    """As DML_SPLIT has them: one example, which is another operator's."""
    outputs = "\n".join(f"OutputTensors[{i}]: (Sizes:{{1,1}}, DataType:FLOAT32)\n[[1]]" for i in range(2))
    assert verify(f"{PAGE}\nInputTensor: (Sizes:{{1,2}}, DataType:FLOAT32)\n[[1, 1]]\n{outputs}\n").skipped == 2


def test_half_an_example_before_another_operators():
    half = FIRST[: FIRST.index("OutputTensor")]
    report = verify(half + "ATensor: (Sizes:{1}, DataType:FLOAT32)\n[1]\n\n" + FIRST)
    assert [verdict.right for verdict in report.verdicts] == [False, True]
    assert report.skipped == 1


def test_one_example_of_a_page(revseq):
    wrong = PAGE.replace("8, 7, 6, 5", "8, 7, 6, 9").encode()
    told = "1 example, 0 wrong, 1 of other operators skipped\n"
    assert revseq("verify", "--", "-::2", stdin=wrong).ok().out.endswith(told)
    assert revseq("verify", "--", "-::1", stdin=wrong).status == 1
    revseq("verify", "samples/page.md::3", cwd=ROOT).refused("no example 3", "1 to 2")
    shown = revseq("show", "samples/page.md::2", cwd=ROOT).ok().out
    assert re.findall(r"samples/page.md: (\w+)", shown) == ["InputTensor", "SequenceTensor", "OutputTensor"]


@pytest.mark.parametrize(
    ("before", "piece", "behind"),
    [("Foo: x", " ", "y"), ("Foo", " ", ""), ("T: (Sizes:{1}", " ", "x"), ("", "<", ""), ("", "<a ", ""), ("", "> ", ""),
     ("", "`", ""), ("", "A: (Sizes:{1}, DataType:NONE)\n", "")],
)  # fmt: skip
def test_hostile_lines_take_no_time(before, piece, behind):
    def find(count):
        assert verify(f"{before}{piece * count}{behind}\n\n{FIRST}").verdicts[0].right

    assert is_linear(find, 40_000 if len(piece) < 9 else 1_200)


_VALUES = "InputTensor: (Sizes:{2,2}, DataType:INT32)\n[[-1, 2],\n [3, 4]]\n"
_REST = (
    "SequenceTensor: (Sizes:{2,1}, DataType:UINT32)\n[[2],\n [0]]\n\nAxis: 1\n\n"
    "OutputTensor: (Sizes:{2,2}, DataType:INT32)\n[[2, -1],\n [3, 4]]\n"
)


@pytest.mark.parametrize(
    "page",
    [
        f"<h2>Example 1</h2><pre><code>{_VALUES}{_REST}</code></pre>",
        f"<ul><li>As follows:<pre>{_VALUES}{_REST}</pre></li></ul>",
        f"<details><summary>Show</summary><pre>{_VALUES}{_REST}</pre></details>",
        (_VALUES + _REST).replace("\n", "<br>"),
        f"<pre>{_VALUES}{_REST}</pre>".replace(", ", ",&#32;").replace("{", "&#123;").replace("[[", "&lbrack;["),
        f"<pre>{_VALUES}{_REST}</pre>".replace("-1", "&#45;1").replace("[3", "[&#51;"),
        f"<pre>{_VALUES}{_REST}</pre>".replace("-1", '<span class="o">-</span><span class="mi">1</span>'),
    ],
)  # fmt: skip
def test_what_a_browser_shows_is_what_is_read(revseq, tmp_path, page):
    (tmp_path / "x.html").write_text(page)
    assert "1 example, 0 wrong" in revseq("verify", "x.html").ok().out
    (tmp_path / "x.html").write_text(page.replace("4]", "5]", 1))
    assert revseq("verify", "x.html").status == 1
    before = (tmp_path / "x.html").read_text()
    revseq("verify", "x.html", "--fix")
    fixed = (tmp_path / "x.html").read_text()
    assert fixed in (before, page.replace("4]", "5]"))  # right again, or left as it was


NAMED = "# DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC\n\n"


def test_an_example_without_lengths_is_incomplete_where_the_page_names_the_operator():
    start, stop = FIRST.index("SequenceTensor"), FIRST.index("Axis")
    half = FIRST[:start] + FIRST[stop:]
    (finding,) = verify(NAMED + half).verdicts[0].findings
    assert (finding.spot.place.line, finding.found) == (3, "the example has no lengths")
    other = "# DML_GATHER_OPERATOR_DESC\n\n" + half
    assert verify(NAMED + FIRST + other).skipped == 1
    assert verify(FIRST + half).skipped == 1


HEADERS = (
    "", "(DataType:FLOAT32, Sizes:{1,1,2,4})", "\uff08Sizes:{1,1,2,4}, DataType:FLOAT32\uff09", "(DataType:FLOAT32)",
    "(Sizes:\uff5b1,1,2,4\uff5d, DataType:FLOAT32)", "{1,1,2,4} FLOAT32", "(size:{1,1,2,4}, DataType:FLOAT32)",
    "(Dimensioni:{1,1,2,4}, TipoDati:FLOAT32)", "Sizes:{1,1,2,4}, DataType:FLOAT32",
)  # fmt: skip


@pytest.mark.parametrize("label", ["InputTensor", "OutputTensor"])
@pytest.mark.parametrize("header", HEADERS)
def test_a_header_that_is_none_is_told_with_what_is_there(label, header):
    page = FIRST.replace(f"{label}: (Sizes:{{1,1,2,4}}, DataType:FLOAT32)", f"{label}: {header}")
    (finding,) = verify(page).verdicts[0].findings
    assert finding.spot.place.line == FIRST[: FIRST.index(label)].count("\n") + 1
    assert finding.found == f"{label} has no header of a tensor" + f", but {header}" * bool(header)


@pytest.mark.parametrize("between", ["\n\n", "\n", "\n```\n\nIn other words:\n\n```\n"])
def test_a_second_output_that_contradicts_the_first(between):
    start = FIRST.index("OutputTensor")
    again = FIRST.rstrip() + between + FIRST[start:]
    assert all(each.right for each in verify(again).verdicts)
    (verdict,) = verify(FIRST.rstrip() + between + FIRST[start:].replace("8, 7", "7, 8")).verdicts
    assert verdict.differences.count == 2
    other = FIRST + "## What another command prints\n\n" + FIRST[start:].replace("8, 7", "7, 8")
    assert all(each.right for each in verify(other).verdicts)


def test_words_that_inline_markup_tears():
    wide = FIRST.replace("[5, 6", "[<span>1</span><wbr>5, 6").replace("6, 5]", "6, 1&shy;5]")
    assert [each.right for each in verify(wide).verdicts] == [True]
    assert verify(wide.replace("&shy;5]", "&shy;6]")).verdicts[0].differences.a.tolist() == [16]
    noted = FIRST.replace("5, 6", "5<sup>1</sup>, 6").replace("6, 5", "6, 5<del>3</del>")
    assert [each.right for each in verify(noted).verdicts] == [True]
