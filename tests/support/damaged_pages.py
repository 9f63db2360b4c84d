"""Pages about the operator in four languages and four forms, each rule of a page broken once, and reformattings of them."""

import html
import json
import re
import tempfile
from itertools import product
from pathlib import Path
from typing import NamedTuple

from revseq_cli.core.errors import RevseqError
from revseq_cli.formats.textfiles import text_of
from revseq_cli.operator.spec import INPUT, LENGTHS, OUTPUT, SUPPORT, FeatureLevel
from revseq_cli.pages import fixes, verification
from revseq_cli.report.pages import findings_of

EXAMPLE = """InputTensor: (Sizes:{2,3}, DataType:FLOAT32)
[[ 1, -2,  3],
 [40,  5,  6]]

SequenceTensor: (Sizes:{2,1}, DataType:UINT32)
[[3],
 [2]]

Axis: 1

OutputTensor: (Sizes:{2,3}, DataType:FLOAT32)
[[3, -2,  1],
 [5, 40,  6]]"""
OTHER = """InputTensor: (Sizes:{3,2}, DataType:INT32)
[[11, 12],
 [13, 14],
 [15, 16]]

SequenceTensor: (Sizes:{1,2}, DataType:UINT32)
[[2, 9]]

Axis: 0

OutputTensor: (Sizes:{3,2}, DataType:INT32)
[[13, 16],
 [11, 14],
 [15, 12]]"""
STRUCT = """struct DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC {
  const DML_TENSOR_DESC *InputTensor;
  const DML_TENSOR_DESC *SequenceLengthsTensor;
  const DML_TENSOR_DESC *OutputTensor;
  UINT                  Axis;
};"""


class Words(NamedTuple):
    """The words of a page in one language; `labels` are what a translator makes of those of the tensors.

    `members` are the title of the section of members, and what stands before a type in it; `level` is a level in words.
    """

    example: str
    sizes: str
    available: str
    since: str
    above: str
    counts: str
    kinds: tuple[str, str]
    heads: tuple[str, ...]
    labels: tuple[str, str, str]
    members: tuple[str, str]
    level: str


LANGUAGES = {
    "en": Words("Example", "With an InputTensor of {} and Axis 2, the SequenceLengthsTensor has {}.", "Availability",
                "It came in {}.", "{} and later", "{} to {}", ("Input", "Output"),
                ("Tensor", "Kind", "Dimensions", "Data types"), ("Source", "Lengths", "Result"), ("Members", "Type: {}"), "feature level {}"),
    "it": Words("Esempio", "Con InputTensor di {} e Axis 2, SequenceLengthsTensor ha {}.", "Disponibilità",
                "Esiste da {}.", "{} e oltre", "Da {} a {}", ("Input", "Output"),
                ("Tensore", "Tipo", "Dimensioni", "Tipi"), ("Tensore di origine", "Tensore delle lunghezze", "Risultato"), ("Membri", "Tipo: {}"), "livello di funzionalità {}"),
    "ko": Words("예", "InputTensor가 {}이고 Axis가 2이면 SequenceLengthsTensor는 {}입니다.", "가용성",
                "{}에서 시작합니다.", "{} 이상", "{}~{}개", ("입력", "출력"),
                ("텐서", "종류", "차원", "형식"), ("원본 텐서", "길이 텐서", "결과 텐서"), ("멤버", "형식: {}"), "기능 수준 {}"),
    "zh": Words("範例", "InputTensor 為 {} 且 Axis 是 2 時，SequenceLengthsTensor 為 {}。", "可用性",
                "從 {} 開始。", "{} 以上", "{} 到 {}", ("輸入", "輸出"),
                ("張量", "種類", "維度", "類型"), ("來源張量", "長度張量", "結果張量"), ("成員", "類型： {}"), "功能層級 {}"),
}  # fmt: skip


def rows(words, support):
    """The cells of each row at a feature level."""
    counts = support.dimension_counts
    shown = words.counts.format(counts[0], counts[-1]) if len(counts) > 1 else str(counts[0])
    for role in (INPUT, LENGTHS, OUTPUT):
        kind = words.kinds[role == OUTPUT]
        yield role, kind, shown, ", ".join(each.name for each in support.data_types(role))


def blocks(words):
    """The page as blocks: what each is, and its content."""
    yield "h1", "DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC"
    yield "code", STRUCT
    title, stated = words.members
    yield "h2", title
    for name in (INPUT, LENGTHS, OUTPUT, "Axis"):
        yield "p", name
        yield "p", stated.format("UINT" if name == "Axis" else "const DML_TENSOR_DESC*")
    yield "p", words.sizes.format("{2,3,4}", "{2,3,1}")
    for number, example in enumerate((EXAMPLE, OTHER), 1):
        yield "h2", f"{words.example} {number}"
        yield "code", example
    yield "h2", words.available
    yield "p", words.since.format(SUPPORT[0].since)
    for support in reversed([each for each in SUPPORT if each.since is not FeatureLevel.NONE]):
        yield "h2", words.above.format(support.since)
        yield "table", [words.heads, *rows(words, support)]


def markdown(page):
    """The page as Markdown."""
    for kind, content in page:
        match kind:
            case "code":
                yield f"```\n{content}\n```"
            case "table":
                lines = [" | ".join(row) for row in content]
                yield "\n".join(f"| {each} |" for each in (lines[0], " | ".join(["---"] * 4), *lines[1:]))
            case _:
                yield {"h1": "# ", "h2": "## "}.get(kind, "") + content


def in_html(page):
    """The page as HTML."""
    yield "<html><body>"
    for kind, content in page:
        match kind:
            case "code":
                yield f"<pre><code>{html.escape(content)}</code></pre>"
            case "table":
                cells = (("th" if not i else "td", row) for i, row in enumerate(content))
                lines = ("".join(f"<{tag}>{cell}</{tag}>" for cell in row) for tag, row in cells)
                yield "\n".join(["<table>", *(f"<tr>{line}</tr>" for line in lines), "</table>"])
            case _:
                yield f"<{kind}>{content}</{kind}>"
    yield "</body></html>"


def rst(page):
    """The page as reStructuredText."""
    for kind, content in page:
        match kind:
            case "code":
                yield "::\n\n" + re.sub("^(?=.)", "    ", content, flags=re.MULTILINE)
            case "table":
                cells = (
                    "\n".join(f"     {'-' if i else '* -'} {cell}"[2 * (not i) :] for i, cell in enumerate(row))
                    for row in content
                )
                yield ".. list-table::\n   :header-rows: 1\n\n" + "\n".join(cells)
            case _:
                yield content + {"h1": "\n" + "=" * 60, "h2": "\n" + "-" * 60}.get(kind, "")


def notebook(page):
    """The page as a notebook of one cell a block."""
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": text.splitlines(keepends=True)} for text in markdown(page)
    ]
    yield json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1, ensure_ascii=False)


FORMS = {"md": markdown, "html": in_html, "rst": rst, "ipynb": notebook}


def written(form, page):
    """The text of a page in that form."""
    return "\n\n".join(FORMS[form](page)) + "\n"


class Damage(NamedTuple):
    """One rule that is broken: in the `nth` block that has `old`, that becomes `new`; what is told stands at `at`.

    `at` is what the line has to begin or contain, "" for the first line that differs. With `fixed` the inputs are
    intact, and `--fix` restores the page.
    """

    name: str
    old: str
    new: str
    at: str = ""
    nth: int = 0
    fixed: bool = False


_ROWS = "[[3, -2,  1],\n [5, 40,  6]]"
_HEADER = "OutputTensor: (Sizes:{2,3}, DataType:FLOAT32)"
_LENGTHS = "SequenceTensor: (Sizes:{2,1}, DataType:UINT32)"


def damages(words):
    """Each rule once, for a language."""
    source, lengths, result = words.labels
    for name, old, new in (
        ("a wrong number", "[5, 40,  6]", "[5, 41,  6]"), ("two numbers changed places", "[3, -2,  1]", "[3,  1, -2]"),
        ("a number is missing", "[5, 40,  6]", "[5, 40]"), ("a number too many", "[5, 40,  6]", "[5, 40,  6, 7]"),
        ("a comma is missing", "[5, 40,  6]", "[5 40,  6]"), ("a bracket is missing", "6]]\x00", "6]\x00"),
        ("a bracket too many", "6]]\x00", "6]]]\x00"), ("a minus of typography", "[3, -2,  1]", "[3, \u22122,  1]"),
        ("other sizes in the header", _HEADER, _HEADER.replace("2,3", "3,2")),
        ("another type in the header", _HEADER, _HEADER.replace("32", "16")),
        ("a header without colons", _HEADER, _HEADER.replace(": (", " (")),
        ("a header in another order", _HEADER, "OutputTensor: (DataType:FLOAT32, Sizes:{2,3})"),
        ("no header", _HEADER, "OutputTensor:"), ("a translated output", "OutputTensor: (", f"{result}: ("),
        ("a misspelled output", "OutputTensor: (", "OuputTensor: ("), ("no rows", f"\n{_ROWS}", ""),
        ("rows in braces", _ROWS, "{3, -2, 1}"),
    ):  # fmt: skip
        at = _HEADER if name in ("no rows", "rows in braces") else ""
        yield Damage(name, old, new, at, fixed=True)
    start = EXAMPLE[: EXAMPLE.index("\n")]
    gone = EXAMPLE[EXAMPLE.index("SequenceTensor") : EXAMPLE.index("Axis")]
    yield Damage("no lengths", gone, "", start)
    yield Damage("translated lengths", "SequenceTensor: (", f"{lengths}: (")
    yield Damage("a translated input", "InputTensor: (", f"{source}: (")
    yield Damage("another axis", "Axis: 1", "Axis: 0", _LENGTHS)
    yield Damage("no axis", "Axis: 1\n\n", "", start)
    yield Damage("other sizes of the lengths", _LENGTHS, _LENGTHS.replace("2,1", "1,3"))
    yield Damage("another type of the lengths", _LENGTHS, _LENGTHS.replace("UINT32", "INT32"))
    yield Damage("a second output", _ROWS, f"{_ROWS}\n\n{_HEADER}\n{_ROWS.replace('40', '41')}", "41")
    newest, old = words.counts.format(1, 8), words.counts.format(4, 5)
    yield Damage("counts downwards", newest, words.counts.format(8, 1))
    yield Damage("counts as a choice", old, "4 / 6")
    yield Damage("other counts", newest, words.counts.format(1, 7))
    yield Damage("a type is missing", "INT64, INT32", "INT64")
    yield Damage("a type too many", "UINT64, UINT32\x01", "UINT64, UINT32, INT32\x01")
    yield Damage("a misspelled type", "FLOAT64", "FLOAT46")
    yield Damage("another kind", f"OutputTensor\x01{words.kinds[1]}", f"OutputTensor\x01{words.kinds[0]}")
    yield Damage("a misspelled row", "SequenceLengthsTensor\x01", "SequenceLenghtsTensor\x01")
    yield Damage(
        "an unknown level", words.above.format("DML_FEATURE_LEVEL_4_0"), words.above.format("DML_FEATURE_LEVEL_4_5")
    )
    yield Damage(
        "another level since when",
        words.since.format("DML_FEATURE_LEVEL_2_1"),
        words.since.format("DML_FEATURE_LEVEL_2_0"),
    )
    yield Damage(
        "another level in words",
        words.since.format("DML_FEATURE_LEVEL_2_1"),
        words.since.format(words.level.format("3.0")),
    )
    stated = words.members[1]
    yield Damage("another type in the section of members", stated.format("UINT"), stated.format("INT"))
    yield Damage("another type of a tensor", stated.format("const DML_TENSOR_DESC*"), stated.format("DML_BUFFER_DESC*"))
    yield Damage("another type of a member", "UINT                  Axis;", "INT                   Axis;")
    yield Damage("another member", "*SequenceLengthsTensor;", "*SequenceTensor;")
    yield Damage("other sizes in prose", "{2,3,1}", "{2,1,4}")


def broken(page, damage):
    """The page with that damage; NUL stands for the end of code, and SOH for that of a cell."""
    done = []
    for kind, content in page:
        is_table = not isinstance(content, str)
        text = "\x02".join("\x01".join(row) + "\x01" for row in content) if is_table else f"{content}\x00"
        if damage and damage.old in text and kind != "h1":
            text, damage = text.replace(damage.old, damage.new, 1), None
        cells = [row.rstrip("\x01").split("\x01") for row in text.split("\x02")]
        done.append((kind, cells if is_table else text.rstrip("\x00")))
    assert damage is None, damage
    return done


class Case(NamedTuple):
    """A damaged page, the intact one, and the line at which the damage is to be told."""

    name: str
    file: str
    text: str
    intact: str
    line: int
    fixed: bool


def cases():
    """Every damage in every language and form."""
    for (language, words), form in product(LANGUAGES.items(), FORMS):
        page = [*blocks(words)]
        intact = written(form, page)
        for damage in damages(words):
            text = written(form, broken(page, damage))
            old, new = intact.split("\n"), text.split("\n")
            if damage.at:
                shown = html.escape(damage.at) if form == "html" else damage.at
                found = (i for i, line in enumerate(new) if shown in line and ("translated" not in damage.name))
                line = next(found)
            else:
                line = next(i for i, each in enumerate(new) if i >= len(old) or each != old[i])
            yield Case(f"{language} {form}: {damage.name}", f"x.{form}", text, intact, line + 1, damage.fixed)


def _in_code(text, change):
    """The text with a change in blocks of code alone."""
    return re.sub(
        r"(?s)(?<=```\n).*?(?=\n```)|(?<=<code>).*?(?=</code>)|(?<=::\n\n)    .*?(?=\n\n\S)",
        lambda code: change(code[0]),
        text,
    )


# How others write the same page: the forms that have it, and the change.
REFORMATTINGS = {
    "ends of lines of Windows": ("md html rst", lambda text: text.replace("\n", "\r\n")),
    "ends of lines of old systems": ("md html rst", lambda text: text.replace("\n", "\r")),
    "blanks at the ends of lines": ("md html rst", lambda text: text.replace("\n", "  \n")),
    "comments behind rows": ("md html rst", lambda text: re.sub(r"(\d\]),\n", r"\1, // a row\n", text)),
    "no blanks behind commas": ("md html rst", lambda text: _in_code(text, lambda code: code.replace(", ", ","))),
    "a quote": ("md", lambda text: re.sub("^", "> ", text, flags=re.MULTILINE)),
    "nonbreaking blanks": ("md html rst", lambda text: _in_code(text, lambda code: code.replace("\n ", "\n\xa0"))),
    "bold labels": ("md", lambda text: re.sub("(Sequence|Input|Output)(Tensor: )", r"**\1\2**", text)),
    "code in cells": ("md ipynb", lambda text: re.sub(r"(?<=[ ,])(U?INT\d+|FLOAT\d+)(?=[, ]+(?:\||U|F|I))", r"`\1`", text)),
    "breaks in cells": ("md html", lambda text: re.sub(r"(?<=T\d\d), (?=[FUI])", ",<br>", text)),
    "notes at counts": ("md", lambda text: re.sub(r"(\d[^|\d]*\d\S?) \|(?= [FU])", r"\1[^1] |", text)),
    "notes above counts": ("html", lambda text: re.sub(r"(8|5|개)(?=</td><td>[FU])", r"\1<sup>2</sup>", text)),
    "underscores with backslashes": ("md", lambda text: text.replace("FEATURE_LEVEL_", r"FEATURE\_LEVEL\_")),
    "numbers in spans": ("html", lambda text: _in_code(text, lambda code: re.sub(r"(?<=[\[ ])\d+", r'<span class="mi">\g<0></span>', code))),
    "numbers of lines": ("html", lambda text: _in_code(text, lambda code: re.sub("^", '<span class="linenos"> 1</span>', code, flags=re.MULTILINE))),
    "letters in spans": ("html", lambda text: _in_code(text, lambda code: re.sub("(?<![&a-z])[A-Z]", r'<span class="err">\g<0></span>', code))),
    "labels that may break": ("html", lambda text: text.replace("<td>SequenceLengthsTensor", "<td>Sequence<wbr>Lengths<wbr>Tensor")),
    "a break in a label": ("md html", lambda text: re.sub(r"(?<=[>|])( ?)SequenceLengthsTensor", r"\1SequenceLengths<br>Tensor", text)),
    "levels in words": ("md html rst", lambda text: text.replace("DML_FEATURE_LEVEL_2_1", "feature level 2.1", 1)),
    "large tags": ("html", lambda text: re.sub(r"</?\w+", lambda tag: tag[0].upper(), text)),
    "tables in one line": ("html", lambda text: re.sub(r"\n(?=<tr|</table)", "", text)),
    "a head with its charset": ("html", lambda text: text.replace("<html>", "<html><head><meta charset='utf-8'><title>DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC</title></head>")),
    "lines of equal signs": ("rst", lambda text: text.replace("-" * 60, "=" * 60)),
    "deeper blocks": ("rst", lambda text: re.sub("^ {4}", " " * 8, text, flags=re.MULTILINE)),
    "another indent": ("ipynb", lambda text: json.dumps(json.loads(text), indent=4)),
    "no indent": ("ipynb", lambda text: json.dumps(json.loads(text))),
}  # fmt: skip


def reformatted():
    """Every reformatting in each form that has it, in one language of two: its name, its file and its text."""
    for (number, (language, words)), form in product(enumerate(LANGUAGES.items()), FORMS):
        text = written(form, [*blocks(words)])
        for i, (name, (forms, change)) in enumerate(REFORMATTINGS.items()):
            if form in forms.split() and (number + i) % 2:
                new = change(text)
                assert new != text, name
                yield f"{language} {form}: {name}", f"x.{form}", new


def told(file, text):
    """The line and the message of each finding that is no note, or of the error."""
    try:
        page = verification.page_of(text_of(text.encode(), file))
        report = verification.verify(page, FeatureLevel.V5_0)
    except RevseqError as e:
        report = e
    return [
        (each.spot.place.line if each.spot else 0, each.message) for each in findings_of(report) if not each.is_note
    ]


def put_right(case):
    """Whether `--fix` restores the intact page."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / case.file
        path.write_bytes(case.text.encode())
        return _fixed(str(path)) == case.intact.encode()


def _fixed(path):
    """The bytes of a page after `--fix`; None where it refuses."""
    try:
        page = verification.examples_below(path)
        done = fixes.fix(page, verification.verify(page, FeatureLevel.V5_0), FeatureLevel.V5_0, None)
    except RevseqError:
        return None
    return done.data


def failures(found):
    """What goes wrong with these cases: those that are not told at their line, and those that are not put right."""
    missed = {case.name: told(case.file, case.text) for case in found}
    return (
        {case.name: (case.line, missed[case.name]) for case in found if case.line not in dict(missed[case.name])},
        [case.name for case in found if case.fixed and not put_right(case)],
    )
