"""Pictures: what they show, that they are well-formed and small."""

import re
import xml.etree.ElementTree as ET
from math import prod

import numpy as np
import oracle
import pytest
from conftest import SAMPLES
from folders import content
from hypothesis import given
from hypothesis import strategies as st
from tensor_files import held

from revseq_cli.pipeline import folds
from revseq_cli.report import picture, svg

SVG = "{http://www.w3.org/2000/svg}"


def equal_lengths(sizes, axis, length=0):
    return np.full([1 if d == axis else size for d, size in enumerate(sizes)], length, np.uint64)


def drawn(values, lengths, axis):
    result = oracle.reverse(values, lengths, axis) if values.size <= 5000 else values
    return ET.fromstring(picture.draw_job(held(values), held(lengths), axis, held(result)))


def parts(root, role):
    return [element for element in root.iter(f"{SVG}g") if element.get("role") == role]


def words_of(element):
    return ["".join(text.itertext()).strip() for text in element.iter(f"{SVG}text")]


def tables(root):
    """The rows of texts of each table, and below the heads the rows of marks."""
    rows = [parts(table, "row") for table in parts(root, "table")]
    marks = [
        [[rect.get("class") for rect in row.iter(f"{SVG}rect")] for row in table[1:]]
        for table in rows
    ]
    return [[*map(words_of, table)] for table in rows], marks


def bars(root):
    """For each bar its words, and the classes, starts and widths of its parts."""
    items = parts(root, "listitem")
    words = [item.find(f"{SVG}title").text for item in items]
    rects = [[*item.iter(f"{SVG}rect")] for item in items]
    return words, [
        [(rect.get("class"), float(rect.get("x")), float(rect.get("width"))) for rect in row]
        for row in rects
    ]


def compared(a, b, **more):
    """The picture of two arrays, and the differences that a report would know of."""
    kept, _ = folds.find_differences(a, b, None, 10)

    def mask(region):
        return a[region] != b[region]

    text = picture.draw_difference((("A", held(a)), ("B", held(b))), kept, mask, **more)
    return ET.fromstring(text)


@given(st.integers(1, 5), st.integers(1, 6), st.booleans(), st.integers(0, 1000))
def test_every_element_and_length_is_where_it_is(count, size, down, seed):
    rng = np.random.default_rng(seed)
    axis, sizes = (0, (size, count)) if down else (1, (count, size))
    values = rng.permutation(prod(sizes)).reshape(sizes)
    lengths = rng.integers(0, size + 3, equal_lengths(sizes, axis).shape).astype(np.uint32)
    root = drawn(values, lengths, axis)
    (values_table, result), marks = tables(root)
    expected = oracle.reverse(values, lengths, axis)
    if down:  # a row is a sequence
        values, expected, lengths = values.T, expected.T, lengths.T
    labels = int(count > 1)
    rows = [row[labels:] for row in values_table[1:]]
    assert rows == [[*map(str, row)] for row in values.tolist()]
    rows = [row[labels:] for row in result[1:]]
    assert rows == [[*map(str, row)] for row in expected.tolist()]
    n = np.minimum(lengths, size)
    moved = np.arange(size) < np.where(n > 1, n, 0)
    assert marks == [[["reversed" if m else "copied" for m in row] for row in moved.tolist()]] * 2
    expected_words = [f"{n} → {size}" if n > size else str(n) for n in lengths.ravel().tolist()]
    words = [
        text.text
        for text in root.iter(f"{SVG}text")
        if {"length", "clamped"} & {*(text.get("class") or "").split()}
        and "small" not in text.get("class")
    ]
    assert [word for word in words if re.match(r"\d+( →|$)", word)] == expected_words
    brackets = [path for path in root.iter(f"{SVG}path") if path.get("class") == "bracket"]
    assert len(brackets) == np.count_nonzero(lengths)


@pytest.mark.parametrize(
    ("sizes", "axis", "labels"),
    [
        ((4,), 0, []), ((1, 1, 2, 3), 3, ["0", "1"]), ((2, 3, 1), 0, ["0", "1", "2"]),
        ((2, 3, 2), 0, [f"[:, {i}, {k}]" for i in range(3) for k in range(2)]),
    ],
)  # fmt: skip
def test_a_row_is_called_by_the_index_of_its_sequence(sizes, axis, labels):
    root = drawn(np.arange(prod(sizes)).reshape(sizes), equal_lengths(sizes, axis), axis)
    heads = [text for text in root.iter(f"{SVG}text") if text.get("role") == "rowheader"]
    assert [head.text for head in heads] == labels * 2
    assert f"axis {axis} →" in words_of(root)


def test_a_picture(revseq, tmp_path):
    revseq("run", SAMPLES / "page.md::1", "--picture", "x.svg").ok()
    root, text = ET.parse(tmp_path / "x.svg").getroot(), (tmp_path / "x.svg").read_text()
    assert {"InputTensor", "OutputTensor", "axis 3 →", "2", "9 → 4"} <= {*words_of(root)}
    assert any("page.md" in word and "{1,1,2,4} FLOAT32" in word for word in words_of(root))
    for part in revseq("run", SAMPLES / "page.md::1", "--example").ok().out.split("\n\n"):
        assert part.strip() in root[1].text  # who cannot see it gets the whole example
    assert "prefers-color-scheme: dark" in text
    inside = text.replace('xmlns="http://www.w3.org/2000/svg"', "").replace("url(#hatch)", "")
    assert not re.search(r"@import|url\(|href|<script|http", inside)


def test_long_numbers_are_rounded_and_have_their_digits_in_a_tooltip():
    values = np.array([[1 / 3, -1.2345678901234567e-300, np.nan, 2.0, 0.1]])
    root = drawn(values, equal_lengths((1, 5), 1), 1)
    cells = parts(root, "cell")[:5]
    shown = [
        (cell.find(f"{SVG}text").text, getattr(cell.find(f"{SVG}title"), "text", None))
        for cell in cells
    ]
    assert shown == [
        ("0.3333", "0.3333333333333333"), ("-1.235e-300", "-1.2345678901234568e-300"), ("nan", None),
        ("2", None), ("0.1", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "sizes",
    [(17,), (5000, 20), (30, 30, 30), (1,) * 62 + (40, 40), (2,) * 14, (2,) * 8 + (1,) * 56],
)
@pytest.mark.parametrize("value", [-1.2345678901234567e-300 * (1 + 1j), False])
def test_no_picture_is_too_large(value, sizes):
    values = np.broadcast_to(np.array(value), sizes)
    for axis in {0, len(sizes) - 1}:
        root = drawn(values, equal_lengths(sizes, axis, 2**64 - 1), axis)
        assert int(root.get("width")) <= svg.WIDEST
        assert int(root.get("height")) < 2500
        drawn_rows = len(parts(root, "listitem")) or len(parts(root, "row")) // 2 - 1
        left_out = [word for word in words_of(root) if "sequences are shown" in word]
        assert bool(left_out) == (drawn_rows < prod(sizes) // sizes[axis])


def test_columns_at_differences_are_shown_and_cuts_are_marked():
    a = np.linspace(0, 1e-9, 48).reshape(4, 12)
    b = a.copy()
    b[2, 7] = 5
    root = compared(a, b)
    for table, marks in zip(*tables(root), strict=True):
        columns = [int(word) for word in table[0]]
        assert {0, 7, 11} <= {*columns} < {*range(12)}
        rows, places = np.nonzero(np.array(marks) == "different")
        assert [(i, columns[k]) for i, k in zip(rows, places, strict=True)] == [(2, 7)]
    assert "⋯" in words_of(root)


def test_a_long_sequence_is_a_bar_with_its_wrong_part_where_it_is():
    a = np.zeros((6, 40), "f4")
    b = a.copy()
    b[4, 30:34] = 1
    root = compared(a, b)
    words, rects = bars(root)
    assert [i for i, row in enumerate(rects) if "different" in [mark for mark, _, _ in row]] == [4]
    (_, left, width), (_, x, wrong_width) = rects[4]
    assert abs((x - left) / width - 30 / 40) < 0.01
    assert abs(wrong_width / width - 4 / 40) < 0.01
    assert "differs at 30 to 33" in words[4]
    assert "4 of 240 elements differ" in words_of(root)


@pytest.mark.parametrize("has_axis", [False, True])
def test_wrong_sequences_are_drawn_first_and_the_others_are_counted(has_axis):
    a = np.zeros((5000, 50), "u1")
    b = a.copy()
    b[[4000, 4999], 3] = 1
    more = {}
    if has_axis:
        more = {"axis": 1, "lengths": held(equal_lengths(a.shape, 1, 7)), "causes": ("a cause",)}
    root = compared(a, b, **more)
    words, _ = bars(root)
    assert len(words) == 40
    assert ["differs at 3" in word for word in words] == [True] * 2 + [False] * 38
    assert "40 of 5,000 sequences are shown, wrong ones first" in words_of(root)
    assert ("Explained by: a cause" in words_of(root)) == has_axis
    assert all(("length 7" in word) == has_axis for word in words)


def test_with_a_batch_axis_a_bar_stands_for_all_frames():
    a = np.zeros((3, 50, 8), "f4")
    b = a.copy()
    b[1, 9, 5] = 1
    lengths = held(np.array([[[7] * 8], [[20] * 8], [[0] * 8]]))
    root = compared(a, b, axis=1, batch_axis=0, lengths=lengths)
    words, _ = bars(root)
    assert words == ["batch 0, length 7", "batch 1, length 20, differs at 9", "batch 2, length 0"]


def test_what_differs_is_seen_without_colours():
    a = np.zeros((2, 30), "u1")
    text = ET.tostring(compared(a, a + 1), encoding="unicode")
    assert "url(#hatch)" in text
    assert re.search(r"rect\.different \{[^}]*stroke-width: 2", text)


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize(
    ("text", "ground"),
    [
        ("text", "ground"), ("quiet", "ground"), ("accent", "ground"), ("copied_text", "copied"),
        ("reversed_text", "reversed"), ("clamped_text", "clamped"), ("different_text", "different"),
        ("clamped_text", "ground"),
    ],
)  # fmt: skip
def test_text_has_enough_contrast(text, ground, theme):
    def luminance(color):
        shares = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted(luminance(svg.PALETTE[name][theme]) for name in (text, ground))[::-1]
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_names_are_escaped():
    a = np.zeros(2)
    kept, _ = folds.find_differences(a, a + 1, None, 10)
    tensors = (("<&>\x00\x1b\ud800\u202e", held(a)), ('"B"', held(a + 1)))
    text = picture.draw_difference(tensors, kept, lambda region: np.ones(2, bool)[region])
    assert "<&>\\x00\\x1b\\ud800\\u202e" in words_of(ET.fromstring(text))


@pytest.mark.parametrize(
    ("sizes", "texts"),
    [((), ["5", "6"]), ((0, 3), ["there are no elements"]), ((1, 0), ["there are no elements"])],
)
def test_a_picture_of_one_number_or_none(revseq, tmp_path, sizes, texts):
    for name, value in (("a", 5), ("b", 6)):
        np.save(tmp_path / f"{name}.npy", np.full(sizes, value))
    revseq("diff", "a.npy", "b.npy", "--picture", "p.svg")
    root = ET.parse(tmp_path / "p.svg").getroot()
    assert [text for text in words_of(root) if text in texts] == texts
    marks = [rect.get("class") for rect in root.iter(f"{SVG}rect")]
    assert marks.count("different") == (3 if sizes == () else 0)  # with that of the legend


# The files


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--picture", "p.png"), ["--picture writes SVG", " --picture p.svg"]),
        (("--picture", "old.svg"), ["old.svg: exists already", "add --overwrite"]),
        (
            ("-o", "p.svg", "-f", "npy", "--picture", "./p.svg"),
            ["-o and --picture are the same file"],
        ),
        pytest.param(
            ("--picture", "x.svg", "--overwrite"), ["an input"], marks=pytest.mark.needs("links")
        ),
    ],
)
def test_what_is_refused_writes_nothing(revseq, files, options, words):
    (files / "x.svg").symlink_to("x.npy")
    (files / "old.svg").write_text("old")
    before = content(files)
    revseq("run", "x.npy", "n.npy", "--axis", 1, *options).refused(*words)
    assert content(files) == before
    job = ("run", "x.npy", "n.npy", "--axis", 1, "--picture", "new.svg")
    revseq(*job, "--dry-run").ok()
    assert content(files) == before
    revseq(*job, "-o", "y.npy", "--verify").ok()
    first = (files / "new.svg").read_bytes()
    assert revseq(*job, "--overwrite").ok().out.startswith("OutputTensor")
    assert (files / "new.svg").read_bytes() == first
