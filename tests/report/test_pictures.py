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

from revseq_cli.report import picture

SVG = "{http://www.w3.org/2000/svg}"


def equal_lengths(sizes, axis, length=0):
    return np.full([1 if d == axis else size for d, size in enumerate(sizes)], length, np.uint64)


def drawn(values, lengths, axis):
    result = oracle.reverse(values, lengths, axis) if values.size <= 5000 else values
    return ET.fromstring(picture.of_job(held(values), held(lengths), axis, held(result)))


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


@given(st.integers(1, 5), st.integers(1, 6), st.booleans(), st.integers(0, 1000))
def test_every_element_and_length_is_where_it_is(count, size, down, seed):
    rng = np.random.default_rng(seed)
    axis, sizes = (0, (size, count)) if down else (1, (count, size))
    values = rng.permutation(prod(sizes)).reshape(sizes)
    lengths = rng.integers(0, size + 3, equal_lengths(sizes, axis).shape).astype(np.uint32)
    root = drawn(values, lengths, axis)
    (given_table, result), marks = tables(root)
    expected = oracle.reverse(values, lengths, axis)
    if down:  # a row is a line
        values, expected, lengths = values.T, expected.T, lengths.T
    assert [row[1:] for row in given_table[1:]] == [[*map(str, row)] for row in values.tolist()]
    assert [row[1:] for row in result[1:]] == [[*map(str, row)] for row in expected.tolist()]
    n = np.minimum(lengths, size)
    moved = np.arange(size) < np.where(n > 1, n, 0)
    assert marks == [[["reversed" if m else "copied" for m in row] for row in moved.tolist()]] * 2
    texts = [f"{n} → {size}" if n > size else str(n) for n in lengths.ravel().tolist()]
    kinds = [
        each
        for each in root.iter(f"{SVG}text")
        if {"length", "clamped"} & {*(each.get("class") or "").split()}
    ]
    told = [
        each.text
        for each in kinds
        if re.match(r"\d+( →|$)", each.text) and "small" not in each.get("class")
    ]
    assert told == texts
    brackets = [each for each in root.iter(f"{SVG}path") if each.get("class") == "bracket"]
    assert len(brackets) == np.count_nonzero(lengths)


@pytest.mark.parametrize(
    ("sizes", "axis", "captions"),
    [
        ((4,), 0, []), ((1, 1, 2, 3), 3, []), ((2, 3, 2), 0, ["[:, 0, :]", "[:, 1, :]", "[:, 2, :]"]),
        ((40, 2, 2), 2, [f"[{i}, :, :]" for i in range(8)]),
    ],
)  # fmt: skip
def test_a_table_always_has_the_axis(sizes, axis, captions):
    root = drawn(np.arange(prod(sizes)).reshape(sizes), equal_lengths(sizes, axis), axis)
    shown = [text for text in words_of(root) if text.startswith("[")]
    assert [*dict.fromkeys(shown)] == captions
    assert f"axis {axis} →" in words_of(root)


def test_a_picture(revseq, tmp_path):
    revseq("run", SAMPLES / "page.md::1", "--picture", "x.svg").ok()
    root, text = ET.parse(tmp_path / "x.svg").getroot(), (tmp_path / "x.svg").read_text()
    assert {"InputTensor", "OutputTensor", "{1,1,2,4} FLOAT32", "axis 3 →", "2", "9 → 4"} <= {
        *words_of(root)
    }
    for part in revseq("run", SAMPLES / "page.md::1", "--example").ok().out.split("\n\n"):
        assert part.strip() in root[1].text  # who cannot see it gets the whole example
    assert "prefers-color-scheme: dark" in text
    assert not re.search(
        r"@import|url\(|href|<script|http", text.replace('xmlns="http://www.w3.org/2000/svg"', "")
    )


def test_long_numbers_are_rounded_and_have_their_digits_in_a_tooltip(tmp_path):
    values = np.array([[1 / 3, -1.2345678901234567e-300, np.nan, 2.0, 0.1, 1e17]])
    root = drawn(values, equal_lengths((1, 6), 1), 1)
    cells = parts(root, "cell")[:6]
    shown = [
        (cell.find(f"{SVG}text").text, getattr(cell.find(f"{SVG}title"), "text", None))
        for cell in cells
    ]
    assert shown == [
        ("0.3333", "0.3333333333333333"), ("-1.235e-300", "-1.2345678901234568e-300"), ("nan", None), ("2", None),
        ("0.1", None), ("1e+17", None),
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
        assert int(root.get("width")) <= picture.WIDEST
        assert int(root.get("height")) < 12_000
        told = [word for word in words_of(root) if word.startswith("shown: ")]
        assert bool(told) == (len(parts(root, "cell")) // 2 < values.size)


def test_names_are_escaped():
    tensors = [("<&>\x00\x1b\ud800\u202e", held(np.zeros(2))), ('"B"', held(np.zeros(2)))]
    text = picture.of_tensors(
        tensors, "<title> & more", None, None, lambda region: np.zeros(2, bool)[region]
    )
    root = ET.fromstring(text)
    assert "<&>\\x00\\x1b\\ud800\\u202e" in words_of(root)
    assert root[0].text == "<title> & more"


@pytest.mark.parametrize(
    ("sizes", "texts"),
    [((), ["5", "6"]), ((0, 3), ["shown: 0 of 0 elements"]), ((1, 0), ["shown: 0 of 0 elements"])],
)
def test_a_picture_of_one_number_or_none(revseq, tmp_path, sizes, texts):
    for name, value in (("a", 5), ("b", 6)):
        np.save(tmp_path / f"{name}.npy", np.full(sizes, value))
    revseq("diff", "a.npy", "b.npy", "--picture", "p.svg")
    assert [
        text for text in words_of(ET.parse(tmp_path / "p.svg").getroot()) if text in texts
    ] == texts


# The files


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--picture", "p.png"), ["--picture writes SVG", "try --picture p.svg"]),
        (("--picture", "old.svg"), ["old.svg: already exists", "add --overwrite"]),
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
