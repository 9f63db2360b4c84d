"""Tables of feature levels on docs pages: found in every form and language, and any wrong word in them is told."""

import re

import pytest
from damaged_pages import STRUCT
from growth import is_linear
from hypothesis import given, settings
from hypothesis import strategies as st

from revseq_cli.operator.spec import INPUT, LENGTHS, OUTPUT, SUPPORT, FeatureLevel
from revseq_cli.pages import support_tables
from revseq_cli.pages.support_tables import check

ROWS = {row.since: row for row in SUPPORT if row.since is not FeatureLevel.NONE}
NEWEST_FIRST = sorted(ROWS, reverse=True)
ENGLISH = "## Availability\nThis operator was introduced in `{}`."
# How pages say "4 to 5", the words behind a level, and the sentence about the level since which the operator is there,
# which is known by its title in the languages of Microsoft's own pages.
LANGUAGES = {
    "English": ("{} to {}", "{} and above", ENGLISH, ", "),
    "German": ("{} bis {}", "{} und höher", ENGLISH, ", "),
    "Italian": ("Da {} a {}", "{} e versioni successive", "## Disponibilità\nOperatore presente da `{}` .", ", "),
    "French": ("{} à {}", "À partir de {}", "## Disponibilité\nCet opérateur existe depuis {}.", ", "),
    "Russian": ("{}–{}", "{} и более поздние", ENGLISH, ", "),
    "Chinese": ("{} 到 {}", "{} 及更高版本", "## 可用性\n此运算符自 {} 起提供。", "、"),
    "Chinese without blanks": ("{}到{}", "{}以上", "## 可用性\n從{}開始。", "、"),
    "Japanese": ("{} ～ {}", "{} 以降", ENGLISH, "、"),
    "Korean": ("{}~{}개", "{} 이상", "## 가용성\n{}부터 있습니다.", ", "),
}


def dimensions(level, form="{} to {}"):
    counts = ROWS[level].dimension_counts
    return form.format(counts[0], counts[-1]) if len(counts) > 1 else str(counts[0])


def rows(level, form="{} to {}", comma=", "):
    for tensor, kind in ((INPUT, "Input"), (LENGTHS, "Input"), (OUTPUT, "Output")):
        yield tensor, kind, dimensions(level, form), comma.join(t.name for t in ROWS[level].data_types(tensor))


def titled(title, *lines):
    return "\n".join([title, *lines])


def markdown(level, form="{} to {}", words="{} and above", comma=", "):
    head = ("Tensor | Kind | Counts | Types |", "---|---|---|---|")
    lines = (" | ".join(row) + " |" for row in rows(level, form, comma))
    return titled(f"### {words.format(level)}", *head, *lines)


def page(*tables, sentence=ENGLISH):
    since = sentence.format(SUPPORT[0].since)
    return "\n\n".join(["# A page", since, "## Tensor support", *tables, "## Requirements\n"])


def in_markdown(level):
    return markdown(level).replace("\n", "\n| ").replace("| ###", "###")


def without_bars(level):
    return titled(f"{level} and above", "Tensor Kind Counts Types", *(" ".join(row) for row in rows(level)))


def in_html(level, end="\n"):
    def line(cells, tag="td"):
        return f"<tr class='x'>{end}{end.join(f'<{tag}>{cell}</{tag}>' for cell in cells)}{end}</tr>"

    head = line(("Tensor", "Kind", "Counts", "Types"), "th")
    body = [
        line((f"<a name=a>{label}</a>", kind, counts.replace(" to ", "&#8211;"), types.replace(", ", ",<br/>")))
        for label, kind, counts, types in rows(level)
    ]
    title = f'<h3 id="x">{level} and above</h3>'
    return end.join([title, "<table>", "<thead>", head, "</thead><tbody>", *body, "</tbody></table>"])


def in_one_line(level):
    return in_html(level, "")


def in_broken_html(level):
    return re.sub("</t[dhr]>|</tbody>", "", in_html(level))


def beside(level):
    """A translation, with the original in spans."""

    def both(one, other):
        return f'<span data-id="1">{one}</span><span class="sxs-lookup"><span data-id="1">{other}</span></span>'

    lines = [
        " | ".join(map(both, translated, original))
        for translated, original in zip(rows(level, "Da {} a {}", "、"), rows(level), strict=True)
    ]
    heads = (("Tensore", "Tensor"), ("Tipo", "Kind"), ("Conteggi", "Counts"), ("Tipi", "Types"))
    head = " | ".join(both(*words) for words in heads)
    title = f'### <a name="{str(level).lower()}-and-above"></a>{both(f"{level} e successive", f"{level} and above")}'
    return titled(title, f"| {head} |", "| - | - | - | - |", *(f"| {line} |" for line in lines))


def in_list_table(level):
    lines = [".. list-table::", "   :header-rows: 1", ""]
    lines += ["   * - Tensor", "     - Kind", "     - Counts", "     - Types"]
    for tensor, kind, counts, types in rows(level):
        first, *others = types.split(", ")
        lines += [f"   * - {tensor}", f"     - {kind}", f"     - {counts}", f"     - {first}" + "," * bool(others)]
        lines += [f"       {', '.join(others)}"] * bool(others)
    return titled(f"{level} and above", "-" * 40, "", *lines)


def in_grid_table(level):
    line = "+".join(["", *("-" * n for n in (24, 8, 10, 40)), ""])
    lines = [line, "| Tensor                 | Kind   | Counts   | Types" + " " * 34 + "|", line]
    for tensor, kind, counts, types in rows(level):
        cut = [", ".join(types.split(", ")[i : i + 3]) for i in range(0, 12, 3)]
        for i, part in enumerate(filter(None, cut)):
            cells = (tensor, kind, counts, part) if not i else ("", "", "", part)
            lines.append("| " + " | ".join(c.ljust(n - 2) for c, n in zip(cells, (24, 8, 10, 40), strict=True)) + " |")
        lines.append(line)
    return titled(f"{level} and above", "~" * 40, "", *lines)


def in_simple_table(level):
    lines = ["=" * 22 + "  ======  ========  " + "=" * 40]
    for tensor, kind, counts, types in rows(level):
        first, _, others = types.partition(", INT32")
        lines.append(f"{tensor:<22}  {kind:<6}  {counts:<8}  {first}" + "," * bool(others))
        lines += [" " * 42 + "INT32" + others] * bool(others)
    return titled(f"{level} and above", "~" * 40, "", *lines, lines[0])


def in_csv_table(level):
    lines = ("   " + ", ".join(f'"{cell}"' for cell in row) for row in rows(level))
    return titled(f"{level} and above", "~" * 40, "", ".. csv-table::", "", *lines)


FORMS = (
    markdown, in_markdown, without_bars, in_html, in_one_line, in_broken_html, beside, in_list_table, in_grid_table,
    in_simple_table, in_csv_table,
)  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_right_tables_of_every_form(form):
    for text in (page(*map(form, NEWEST_FIRST)), page(*map(form, NEWEST_FIRST)).replace("\n", "\r\n")):
        assert check(text, has_examples=False) == (4, 1, ())


@pytest.mark.parametrize("language", LANGUAGES)
def test_right_tables_of_every_language(language):
    form, words, sentence, comma = LANGUAGES[language]
    text = page(*(markdown(level, form, words, comma) for level in NEWEST_FIRST), sentence=sentence)
    assert check(text, has_examples=False) == (4, 1, ())
    newer = text.replace(sentence.format(SUPPORT[0].since), sentence.format(FeatureLevel.V3_0))
    (finding,) = check(newer, has_examples=False).findings
    assert newer[finding.start :].startswith("DML_FEATURE_LEVEL_3_0")
    assert (finding.found, finding.is_note) == ("the page says introduced in 3_0; it was 2_1", False)


def errors(text):
    """The findings that are no notes."""
    return [each for each in check(text, has_examples=True).findings if not each.is_note]


def statements(text):
    return [each for each in check(text, has_examples=True).findings if each.rule == "statement"]


def told(text):
    """Each finding as its place, in words of the text, and what it says."""
    return [(re.match(r"\w+", text[each.start :], re.ASCII)[0], each.found, each.wanted) for each in errors(text)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("old", "new", "where", "found", "wanted"),
    [
        ("FLOAT64", "FLOAT46", "FLOAT46", "InputTensor at {}: FLOAT46 is not a data type", "FLOAT64"),
        ("UINT8", "UINT8, BOOL", "BOOL", "InputTensor at {}: extra data type BOOL", None),
        ("UINT8", "UINT8, UINT8", "UINT8", "InputTensor at {}: UINT8 twice", "once"),
        ("INT32, ", "", "FLOAT64", "InputTensor at {}: missing data type INT32", None),
        ("8", "7", "7", "InputTensor at {}: dimension count 1 to 7", "1 to 8"),
        ("1", "2", "2", "InputTensor at {}: dimension count 2 to 8", "1 to 8"),
    ],
)  # fmt: skip
def test_one_wrong_word(form, old, new, where, found, wanted):
    """In the first row of the newest table; of two languages, in the first."""
    if form in (in_html, in_one_line, in_broken_html):
        old, new = old.replace(", ", ",<br/>"), new.replace(", ", ",<br/>")
    table = form(FeatureLevel.V5_0)
    start = re.search(r"InputTensor.*?(?=\b1(?: |&))", table, re.DOTALL).end()
    if form is beside:
        old, new = old.replace(", ", "、"), new.replace(", ", "、")
    place = re.compile(rf"(?<![#\w]){re.escape(old)}").search(table, start).start()
    if form in (in_list_table, in_grid_table, in_simple_table) and old == "INT32, ":
        old = next(each for each in ("INT32, ", "INT32,", "INT32") if table[place:].startswith(each) or each == "INT32")
    wrong = table[:place] + new + table[place + len(old) :]
    ((*at_and_found, hint),) = told(page(wrong))
    assert at_and_found == [where, found.format(FeatureLevel.V5_0)]
    assert wanted in (None, hint)


def test_a_language_that_has_no_data_type():
    table = beside(FeatureLevel.V4_0)
    place = table.index("UINT32</span>", table.index("SequenceLengthsTensor"))
    ((where, found, _),) = told(page(f"{table[:place]}0{table[place + 1 :]}"))
    assert (where, found) == ("SequenceLengthsTensor", "SequenceLengthsTensor at DML_FEATURE_LEVEL_4_0: no data type")


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("4 to 5", "4 to 6", "dimension count 4 to 6"), ("Da 4 a 5", "Da 4 a 6", "dimension count 4 to 6"),
        ("INT16, INT8", "INT8", "missing data type INT16"), ("INT16、INT8", "INT8", "missing data type INT16"),
    ],
)  # fmt: skip
def test_both_languages_are_checked(old, new, found):
    """The last row of the table is wrong in one of them."""
    table = beside(FeatureLevel.V3_0)
    place = table.rindex(old)
    text = page(table[:place] + new + table[place + len(old) :])
    (finding,) = errors(text)
    assert finding.found == f"OutputTensor at DML_FEATURE_LEVEL_3_0: {found}"
    changed = text.index(table[:place]) + place
    assert text.rindex("<span", 0, changed) < finding.start < text.index("</span>", changed)


OLD_LEVELS = ("DML_FEATURE_LEVEL_4_1", "DML_FEATURE_LEVEL_2_0")
NO_LEVELS = (
    "DML_FEATURE_LEVEL_7_0", "DML_FEATURE_LEVEL_4", "DML_FEATURE_LVL_4_0", "DML_FEATRUE_LEVEL_4_0", "DML_FEATURELEVEL_4_0",
    "DML_FEATURE_LEVEL4_0", "DMLFEATURE_LEVEL_4_0",
)  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "found", "wanted"),
    [
        *(("DML_FEATURE_LEVEL_4_0", level, f"{level} changes nothing for this operator", None) for level in OLD_LEVELS),
        *(("DML_FEATURE_LEVEL_4_0", level, f"{level} is not a feature level", None) for level in NO_LEVELS),
        ("DML_FEATURE_LEVEL_4_0 and", "DML_FEATURE_LEVEL_4_0 (DML_FEATURE_LEVEL_4_1) and", "the heading says DML_FEATURE_LEVEL_4_1, and DML_FEATURE_LEVEL_4_0", "one feature level"),
        ("SequenceLengthsTensor", "SequenceLengthTensor", "the row is named SequenceLengthTensor", "SequenceLengthsTensor"),
        ("| 1 to 8 | UINT32", "| | UINT32", "SequenceLengthsTensor at DML_FEATURE_LEVEL_4_0: no dimension count", "1 to 8"),
        ("| UINT32 |", "| |", "SequenceLengthsTensor at DML_FEATURE_LEVEL_4_0: no data type", "UINT32"),
        ("OutputTensor | Output", "OutputTensor | Input", "OutputTensor at DML_FEATURE_LEVEL_4_0: the kind Input", "Output"),
        ("InputTensor | Input", "InputTensor | output", "InputTensor at DML_FEATURE_LEVEL_4_0: the kind output", "Input"),

        ("OutputTensor | Output", "InputTensor | Output", "a second row InputTensor for DML_FEATURE_LEVEL_4_0", "one"),
    ],
)  # fmt: skip
def test_wrong_levels_rows_and_cells(old, new, found, wanted):
    table = in_markdown(FeatureLevel.V4_0)
    assert old in table
    findings = told(page(table.replace(old, new, 1)))
    assert (found, wanted or findings[0][2]) in [each[1:] for each in findings]


@pytest.mark.parametrize(
    ("half", "name"),
    [
        (0, "TensoreLunghezze"),
        (0, "Tensore delle lunghezze"),
        (1, "TensoreLunghezze"),
        (1, "Tensore"),
        (1, "InputTensor"),
    ],
)
def test_the_name_of_a_row_in_one_language_alone(half, name):
    table = beside(FeatureLevel.V3_0)
    places = [match.start() for match in re.finditer("SequenceLengthsTensor", table)]
    wrong = table[: places[half]] + name + table[places[half] + len("SequenceLengthsTensor") :]
    assert (f"the row is named {name}", "SequenceLengthsTensor") in [each[1:] for each in told(page(wrong))]


def test_a_table_whose_heading_is_gone_is_no_part_of_the_one_above():
    tables = [*map(in_markdown, NEWEST_FIRST)]
    tables[1] = tables[1].partition("\n")[2]
    assert [each[:2] for each in told(page(*tables))] == [("InputTensor", "a table without a feature level above it")]


EXAMPLES = (
    "For example if the InputTensor has sizes of {}, and Axis is {}, then the sizes of the SequenceLengthsTensor must be {}.",
    "The SequenceLengthsTensor has {2} where the InputTensor has {0} and *Axis* is {1}.",
    "例如，如果 *InputTensor* 的大小 `{}` 是，而 *軸* 是{}，則 *SequenceLengthsTensor* 的大小必須是 `{}` 。",
    "예를 들어 InputTensor{}크기가 이고 이 {}인 경우 SequenceLengthsTensor 의 크기는 이어야 {}합니다.",
)


@pytest.mark.parametrize("sentence", EXAMPLES)
@pytest.mark.parametrize(
    ("axis", "lengths", "is_right"),
    [(1, "{2,1,4,5}", True), (2, "{2, 3, 1, 5}", True), (1, "{2,3,1,5}", False), (2, "{2,1,4,5}", False), (1, "{2,1,4}", False), (4, "{2,3,4,1}", False)],
)  # fmt: skip
def test_sizes_in_prose_follow_from_each_other(sentence, axis, lengths, is_right):
    said = "The size of the Axis dimension must be 1. " + sentence.format("{2,3,4,5}", axis, lengths)
    text = page(in_markdown(FeatureLevel.V5_0)) + said
    findings = statements(text)
    assert len(findings) == (not is_right)
    assert all(text[each.start] == "{" for each in findings)
    assert not check(said, has_examples=False).findings


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("", "", None), ("_SUBSEQUENCES_", "_", None), ("*SequenceLengthsTensor;", "*SequenceTensor;", "struct member 2 is SequenceTensor"),
        ("  const DML_TENSOR_DESC *OutputTensor;\n", "", "struct member 3 is Axis"), ("  UINT                  Axis;\n", "", "struct member 4 (Axis) is missing"),
        ("Axis;", "Axis;\n  UINT BatchAxis;", "struct member 5 is BatchAxis"),
    ],
)  # fmt: skip
def test_the_members_of_the_struct(old, new, found):
    for form in ("```cpp\n{}\n```", "<pre>{}</pre>"):
        text = form.format(STRUCT.replace(old, new)) + page(in_markdown(FeatureLevel.V5_0))
        findings = statements(text)
        assert [each.found for each in findings] == ([found] if found else [])
    right = "all of " if found and "missing" in found else "; the struct has "
    members = f"{right}InputTensor, SequenceLengthsTensor, OutputTensor, Axis"
    assert all(members in f"; {each.wanted}" for each in findings)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("UINT  ", "INT  "), ("UINT  ", "UINT64  "), ("UINT  ", "const DML_TENSOR_DESC *"),
        ("const DML_TENSOR_DESC *Input", "DML_TENSOR_DESC *Input"), ("DML_TENSOR_DESC *Output", "DML_TENSOR_DESC Output"),
        ("DML_TENSOR_DESC *Seq", "DML_BUFFER_DESC *Seq"),
    ],
)  # fmt: skip
def test_the_types_of_members(old, new):
    text = STRUCT.replace(old, new) + page(in_markdown(FeatureLevel.V5_0))
    (finding,) = statements(text)
    assert finding.found.startswith("the type of ")
    assert text[: finding.start].count("\n") == STRUCT[: STRUCT.index(old)].count("\n")
    other = STRUCT.replace("const DML_TENSOR_DESC *", "_In_ const DML_TENSOR_DESC* ")
    assert not errors(other)


@pytest.mark.parametrize("heading", ["`Axis`", "### -field Axis", "Axis"])
def test_the_types_in_the_section_of_members_beside_their_translation(heading):
    """A type in small letters is a translator's, not another one."""
    for types, wrong in (("UINT UINT", 0), ("uint UINT", 0), ("INT UINT", 1), ("UINT INT", 1), ("INT INT", 2)):
        translated, original = types.split()
        text = page(in_markdown(FeatureLevel.V5_0)) + (
            f"\n{heading}\n\n<span>Tipo: [ **{translated}**](/x)</span>"
            f'<span class="sxs-lookup"><span>Type: [**{original}**](/x)</span></span>\n'
        )
        findings = errors(text)
        assert [each.found for each in findings] == ["the type of Axis is INT"] * wrong
        assert len({each.start for each in findings}) == wrong
        assert all(text[each.start :].startswith("INT**]") for each in findings)


def cell(counts, types="UINT64, UINT32"):
    """The newest table, whose lengths have these cells."""
    return page(in_markdown(FeatureLevel.V5_0).replace("1 to 8 | UINT64, UINT32", f"{counts} | {types}"))


RIGHT_COUNTS = (
    "1 to 8[^1]", "1 to 8<sup>1</sup>", "1<br>to<br>8", "1 <wbr>to 8", "1 to <span>8</span>", "1&nbsp;to&nbsp;8", "1-8", "1--8", "1\u20138",
    "1 ~ 8", "1..8", "1 through 8", "between 1 and 8", "1, 2, 3, 4, 5, 6, 7, 8", "1 to 8\\*", "1 to 8 (inclusive)", "1 to 8 [1]", "1 to 8 [1]_",
    "1 to 8\u00b9", "1 to 8 <!-- 7 -->", "**1** to **8**", "1 to 8 [(note 1)](#n1)", "1 to 8 \u2020", "Da 1 a 8", "1 bis 8", "1~8\uac1c", "1\u52308",
    '1 to 8<a class="footnote-ref" href="#fn1">1</a>', "~~4 to 5~~ 1 to 8",
)  # fmt: skip
WRONG_COUNTS = (
    "1 or 8", "1, 8", "(1, 8)", "8 to 1", "Da 8 a 1", "1 and 8", "1/8", "1; 8", "1 8", "1 oder 8", "1 또는 8", "1 或 8", "1 to eight", "1 to 8, 9",
    "1 to -8", "1.5 to 8", "~~1 to 8~~", "<del>1 to 8</del>", "<s>1 to 8</s>", "1 to 8 or 9", "not 1 to 8", "up to 8", "at least 1", "8+", ">= 1",
    "1 to 80", "from 1", "1 to 8 and more",
)  # fmt: skip


@pytest.mark.parametrize("counts", RIGHT_COUNTS)
def test_dimension_counts_that_are_right(counts):
    assert told(cell(counts)) == []


@pytest.mark.parametrize("counts", WRONG_COUNTS)
def test_dimension_counts_that_are_wrong_or_not_read(counts):
    text = cell(counts)
    (finding,) = errors(text)
    assert text[: finding.start].count("\n") == text[: text.index(counts)].count("\n")
    assert "SequenceLengthsTensor at DML_FEATURE_LEVEL_5_0" in finding.found


@pytest.mark.parametrize(
    "types",
    ["UINT64,<br>UINT32", "UINT64<br/>UINT32", "UINT<wbr>64, UINT32", "U<span>INT64</span>, UINT32", "UINT64[^1], UINT32",
     "UINT64<sup>1</sup>, UINT32", "<code>UINT64</code>, UINT32<br>", "UINT64&shy;, UINT32", "UINT64, <del>FLOAT32,</del> UINT32"],
)  # fmt: skip
def test_data_types_in_every_dress(types):
    assert told(cell("1 to 8", types)) == []
    assert told(cell("1 to 8", types.replace("32", "16", 1) if "FLOAT" not in types else "UINT64, ~~UINT32~~")) != []


@pytest.mark.parametrize(
    ("first", "second"),
    [("입력", "출력"), ("輸入", "輸出"), ("输入", "输出"), ("Eingabe", "Ausgabe"), ("Entrée", "Sortie")],
)
@pytest.mark.parametrize("form", [in_markdown, without_bars, in_list_table, in_html])
def test_kinds_in_other_languages(form, first, second):
    def translated(text):
        return re.sub(r"\bInput\b", first, re.sub(r"\bOutput\b", second, text))

    table = translated(form(FeatureLevel.V4_0))
    assert told(page(table)) == []
    swapped = re.sub("InputTensor|OutputTensor", lambda label: {"I": OUTPUT, "O": INPUT}[label[0][0]], table)
    assert [each.found for each in errors(page(swapped))] == [
        f"OutputTensor at DML_FEATURE_LEVEL_4_0: the kind {first}",
        f"InputTensor at DML_FEATURE_LEVEL_4_0: the kind {second}",
    ]


def test_the_sentence_of_the_original_beside_its_translation():
    sentence = (
        '## Availability\n<span data-id="1">Operatore introdotto in `{}`.</span>'
        '<span class="sxs-lookup"><span data-id="1">It was introduced in `{}`. More came in `DML_FEATURE_LEVEL_5_0`.</span></span>'
    )
    since, other = SUPPORT[0].since, FeatureLevel.V3_0
    for levels, wrong in (((since, since), 0), ((other, since), 1), ((since, other), 1), ((other, other), 2)):
        text = page(in_markdown(FeatureLevel.V5_0), sentence="{}").replace(str(since), sentence.format(*levels), 1)
        assert [each[1] for each in told(text)] == ["the page says introduced in 3_0; it was 2_1"] * wrong
        in_words = text.replace(f"`{other}`", "feature level 3.0")
        assert [each[1] for each in told(in_words)] == ["the page says introduced in 3_0; it was 2_1"] * wrong


def test_a_row_of_another_tensor_is_wrong_beside_tables_that_are_right():
    tables = [*map(in_markdown, NEWEST_FIRST)]
    tables[1] = tables[1].replace("SequenceLengthsTensor", "IndicesTensor")
    found = told(page(*tables))
    assert ("IndicesTensor", "a row IndicesTensor for DML_FEATURE_LEVEL_4_0") in [each[:2] for each in found]


def test_rows_and_tables_that_are_missing():
    lines = markdown(FeatureLevel.V4_0).split("\n")
    ((where, found, _),) = told(page("\n".join(lines[:-1])))
    assert (where, found) == ("DML_FEATURE_LEVEL_4_0", "no row OutputTensor for DML_FEATURE_LEVEL_4_0")
    found = check(page(markdown(FeatureLevel.V3_0), markdown(FeatureLevel.V2_1)), has_examples=True)
    assert found.tables == 2
    assert [(r.is_note, r.found) for r in found.findings] == [
        (True, f"there is no table for {level}, which changes what the operator accepts") for level in (FeatureLevel.V4_0, FeatureLevel.V5_0)
    ]  # fmt: skip
    (second,) = told(page(markdown(FeatureLevel.V5_0), markdown(FeatureLevel.V5_0)))
    assert second[1] == "a second table for DML_FEATURE_LEVEL_5_0"


def test_small_letters_are_only_worth_a_note():
    text = page(*map(without_bars, NEWEST_FIRST)).replace("UINT64, UINT32", "UINT64, Uint32", 1)
    finding = check(text, has_examples=True).findings[0]
    assert (finding.is_note, finding.wanted) == (True, "UINT32, in capitals")


def test_what_is_no_table_of_this_operator():
    others = markdown(FeatureLevel.V3_0).replace("SequenceLengthsTensor", "IndicesTensor")
    assert check(page(others), has_examples=True).tables == 0
    alone = re.sub(r"SequenceLengthsTensor.*\n", "", markdown(FeatureLevel.V3_0))
    assert check(page(alone), has_examples=False) == (0, 0, ())
    assert check(page(alone), has_examples=True).tables == 1
    section = "## DML_SLICE_OPERATOR_DESC structure\n\nThis operator was introduced in DML_FEATURE_LEVEL_3_0.\n\n"
    ours = page(markdown(FeatureLevel.V3_0)).replace("A page", "DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC")
    assert check(f"{section}{alone}\n\n{ours}", has_examples=True)[:2] == (1, 1)
    assert check("<!--\n" + page(alone) + "\n-->", has_examples=True).tables == 0
    prose = "Since DML_FEATURE_LEVEL_5_0 it takes more.\n\n* InputTensor and OutputTensor must have one DataType, FLOAT32 or FLOAT64.\n"
    assert check(prose, has_examples=True) == (0, 0, ())
    assert check("InputTensor: (Sizes:{1}, DataType:FLOAT32)\n[1]", has_examples=True) == (0, 0, ())


def test_the_command_tells_line_and_column(revseq, tmp_path):
    text = page(*map(in_markdown, NEWEST_FIRST)).replace("| 4 to 5 |", "| 4 to 6 |", 1)
    (tmp_path / "x.md").write_bytes(text.replace("\n", "\r\n").encode("utf-16"))
    done = revseq("verify", "x.md").failed()
    line = next(i for i, each in enumerate(text.split("\n"), 1) if "4 to 6" in each)
    assert done.out.splitlines() == [
        "x.md",
        "  feature levels, 4 tables: WRONG",
        f"x.md:{line}:30: InputTensor at DML_FEATURE_LEVEL_3_0: dimension count 4 to 6; wanted: 4 to 5",
        "  | InputTensor | Input | 4 to 6 | FLOAT32, FLOAT16, INT32, INT16, INT8, UINT...",
        "                               ^",
        "0 examples, 0 wrong",
        "4 tables of feature levels, 1 wrong",
    ]
    (tmp_path / "x.md").write_text(page(in_markdown(FeatureLevel.V2_1)))
    assert revseq("verify", "x.md").ok().out.count(": note: there is no table for") == 3


@settings(max_examples=150)
@given(st.data())
def test_any_changed_character_of_a_table_is_told_or_changes_nothing(data):
    """In the words that count: numbers and data types and, where one language has to say them, levels and labels."""
    form = data.draw(st.sampled_from(FORMS))
    table = form(data.draw(st.sampled_from(NEWEST_FIRST)))
    named = r"(?<=Da )4(?= a)" if form is beside else r"DML_FEATURE_LEVEL_\d_\d|\w+Tensor\b|(?<![&#\w])\d(?= to \d)"
    words = [*re.finditer(rf"{named}|\b(?:FLOAT|U?INT)\d+", table)]
    word = data.draw(st.sampled_from(words))
    at = data.draw(st.integers(word.start(), word.end() - 1))
    new = data.draw(st.sampled_from("0259XZ"))
    if table[at] == new:
        return
    text = page(table[:at] + new + table[at + 1 :])
    found = check(text, has_examples=False)
    assert found.tables == 0 or found.findings != check(page(table), has_examples=False).findings


@settings(max_examples=150)
@given(st.lists(st.sampled_from([
    "| InputTensor | ", "SequenceLengthsTensor", "DML_FEATURE_LEVEL_3_0", "### ", "<tr>", "<td>", "</td>", "<table", ">", "</span><span>", "<span>", "&#8211;",
    "&", "<!--", "-->", "\n", "\r\n", "\r", "   * - ", "     - ", "4 to 5", "FLOAT32, INT8", " | ", "\\|", "\x1e", "\x1f", "\x1d", "é", "9" * 30, "ÀB", "\u0663",
]), max_size=40).map("".join))  # fmt: skip
def test_any_text_is_read_with_its_places(text):
    tables, sentences = support_tables.read(text)
    plain = support_tables.marked(text)  # where words that markup tears are whole
    assert len(plain) == len(text)
    words = [w for table in tables for w in table.levels] + [w for s in sentences for w in s.levels]
    words += [w for table in tables for row in table.rows for each in row.types for w in each]
    words += [w for table in tables for row in table.rows for phrase in row.dimensions for w in phrase.numbers]
    for word in [*words, *(row.label for table in tables for row in table.rows)]:
        assert plain[word.start : word.start + len(word.text)] == word.text
    check(text, has_examples=True)


@pytest.mark.parametrize(
    "piece",
    ["<tr>", "<td>", "<!--", "&#1;", "| ", "</span> ", "   * - InputTensor\n", "InputTensor 4 FLOAT32\n",
     "|InputTensor|4|FLOAT32\n", "[](", "DML_FEATURE_LEVEL_3_0 ", "FLOAT32, ", "\n ", "DML_"],
)  # fmt: skip
def test_hostile_pages_take_no_time(piece):
    def find(count):
        check("### DML_FEATURE_LEVEL_3_0\n" + piece * count, has_examples=True)

    assert is_linear(find, 1_000)


def test_only_the_first_level_of_the_sentence_is_about_the_operator():
    text = "## Availability\nThis operator was introduced in `DML_FEATURE_LEVEL_2_1`. 64-bit types came in `DML_FEATURE_LEVEL_5_0`.\n"
    assert errors(text) == []
