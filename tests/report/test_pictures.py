"""Pictures of jobs: what they show, that they are well-formed and small, and how a real browser shows them."""

import base64
import re
import xml.etree.ElementTree as ET
from collections import Counter
from math import inf, prod

import browser
import numpy as np
import oracle
import pytest
from conftest import SAMPLES
from contrast import contrast
from folders import content
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_files import held

from revseq_cli.report import figures, svg
from revseq_cli.report.view import Limits

SVG = "{http://www.w3.org/2000/svg}"
needs_browser = pytest.mark.needs("chromium")
links = pytest.mark.needs("links")


def figure_of(values, lengths, axis, *limits):
    result = oracle.reverse(values, lengths, axis)
    return figures.of_job(held(values), held(lengths), axis, held(result), Limits(*limits))


def equal_lengths(sizes, axis, length=0):
    return np.full([1 if d == axis else size for d, size in enumerate(sizes)], length, np.uint64)


def drawn(values, lengths, axis):
    return ET.fromstring(svg.drawn(lambda limits: figure_of(values, lengths, axis, *limits)))


@st.composite
def jobs(draw, largest=5):
    sizes = draw(st.lists(st.integers(1, largest), min_size=1, max_size=4))
    axis = draw(st.integers(0, len(sizes) - 1))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    values = rng.permutation(prod(sizes)).reshape(sizes)
    return values, rng.integers(0, sizes[axis] + 3, equal_lengths(sizes, axis).shape).astype(np.uint32), axis


# The data of figures


@given(jobs())
def test_every_element_is_where_it_is(job):
    values, lengths, axis = job
    figure = figure_of(*job)
    given_cells, result = (list(figure.cells(number)) for number in (0, -1))
    assert sorted(cell.at for cell in given_cells) == sorted(np.ndindex(values.shape))
    for cell in given_cells:
        assert int(cell.text) == values[cell.at]
    expected = oracle.reverse(values, lengths, axis)
    for cell in result:
        assert int(cell.text) == expected[cell.at]


@given(jobs())
def test_every_line_has_its_length(job):
    """A line is a row or a column of a table, and its length stands in the same place of the list of lengths."""
    values, lengths, axis = job
    figure = figure_of(*job)
    for part in figure.slices:
        for table in part.tables:
            lines = table.T if figure.down else table
            assert len(lines) == len(part.lengths)
            for line, length in zip(lines, part.lengths, strict=True):
                places = {cell.at[:axis] + cell.at[axis + 1 :] for cell in line}
                assert len(places) == 1
                given_length = int(lengths[*line[0].at[:axis], 0, *line[0].at[axis + 1 :]])
                clamped = given_length > values.shape[axis]
                assert length.text == (f"{given_length} → {values.shape[axis]}" if clamped else str(given_length))
                assert length.mark == (figures.CLAMPED if clamped else "")
                assert length.covers == min(given_length, values.shape[axis])
                reversed_cells = [cell.mark == figures.REVERSED for cell in line]
                count = length.covers if length.covers > 1 else 0
                assert reversed_cells == [True] * count + [False] * (len(line) - count)


_MOST = st.sampled_from([inf, 16, 6, 2, 1])


@settings(max_examples=25)
@given(jobs(largest=20), st.builds(Limits, st.sampled_from([200, 1000]), _MOST, _MOST, _MOST))
def test_a_figure_of_any_tensor_is_small(job, limits):
    values = job[0]
    figure = figure_of(*job, *limits)
    cells = list(figure.cells(0))
    assert 1 <= len(cells) <= limits.elements
    assert figure.told.startswith(f"{len(cells):,} of {values.size:,} elements" if len(cells) < values.size else "")
    assert bool(figure.told) == (len(cells) < values.size)
    shown = [len({cell.at[d] for cell in cells}) for d in range(values.ndim)]
    assert max(shown) <= limits.indices
    assert shown[-1] <= limits.columns
    assert len([*filter(None, figure.slices)]) <= limits.tables
    left_out = [part for part in figure.slices if part is None] or figure.rows.gap or figure.columns.gap
    assert bool(left_out) == bool(figure.told)  # and dots say so


@pytest.mark.parametrize(
    ("sizes", "captions"),
    [
        ((40, 2, 2), ["[0, :, :]", "[1, :, :]", "[2, :, :]", None, "[37, :, :]", "[38, :, :]", "[39, :, :]"]),
        ((40, 40, 2, 2), ["[0, 0, :, :]", "[0, 1, :, :]", "[0, 2, :, :]", None, "[0, 37, :, :]", "[0, 38, :, :]",
                          "[0, 39, :, :]", None, "[39, 0, :, :]", "[39, 1, :, :]", "[39, 2, :, :]", None, "[39, 37, :, :]",
                          "[39, 38, :, :]", "[39, 39, :, :]"]),
    ],
)  # fmt: skip
def test_dots_stand_where_slices_are_left_out(sizes, captions):
    figure = figure_of(np.zeros(sizes, np.int8), np.ones((*sizes[:-1], 1), np.uint32), len(sizes) - 1, 200, 16, 16, 12)
    assert [part and part.caption for part in figure.slices] == captions


@pytest.mark.parametrize(
    ("sizes", "axis", "captions", "down"),
    [
        ((4,), 0, [""], False),
        ((2, 3), 0, [""], True),
        ((2, 3), 1, [""], False),
        ((1, 1, 2, 3), 3, [""], False),
        ((2, 3, 2), 2, ["[0, :, :]", "[1, :, :]"], False),
        ((2, 3, 2), 1, ["[0, :, :]", "[1, :, :]"], True),
        ((2, 3, 2), 0, ["[:, 0, :]", "[:, 1, :]", "[:, 2, :]"], True),
        ((2, 1, 1, 1, 2, 1, 2, 2), 0, ["[:, 0, 0, 0, 0, 0, 0, :]", "[:, 0, 0, 0, 0, 0, 1, :]",
                                       "[:, 0, 0, 0, 1, 0, 0, :]", "[:, 0, 0, 0, 1, 0, 1, :]"], True),
    ],
)  # fmt: skip
def test_a_table_always_has_the_axis(sizes, axis, captions, down):
    figure = figure_of(np.arange(prod(sizes)).reshape(sizes), equal_lengths(sizes, axis), axis)
    assert [part.caption for part in figure.slices] == captions
    assert figure.down == down


# Pictures


def picture(revseq, folder, *args):
    revseq("run", *args, "--picture", "x.svg").ok()
    return ET.parse(folder / "x.svg").getroot()


@pytest.mark.parametrize("example", ["page.md::1", "page.md::2"])
def test_a_picture(revseq, tmp_path, example):
    root = picture(revseq, tmp_path, SAMPLES / example)
    text = (tmp_path / "x.svg").read_text()
    assert (root.tag, root.get("role")) == (f"{SVG}svg", "img")
    assert [root[0].tag, root[1].tag] == [f"{SVG}title", f"{SVG}desc"]
    assert root[0].text.startswith("DML_REVERSE_SUBSEQUENCES along axis ")
    words = " ".join("".join(each.itertext()) for each in root.iter(f"{SVG}text") if each.get("class") == "words")
    axis = root[0].text[-1]
    assert words == figures.sentence(int(axis))
    assert words.startswith(f"The first N elements of each line along axis {axis} are reversed;")
    shown = revseq("run", str(SAMPLES / example), "--example").ok().out
    for part in shown.split("\n\n"):
        assert part.strip() in root[1].text  # who cannot see it gets the whole example
    assert int(root.get("width")) <= svg.WIDEST
    assert "prefers-color-scheme: dark" in text
    tags = {each.tag.removeprefix(SVG) for each in root.iter()}
    assert tags == {*"svg title desc style rect g text tspan path".split()}
    assert "http" not in text.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"@import|url\(|href", text)


def texts_of(element):
    return ["".join(text.itertext()).strip() for text in element.iter(f"{SVG}text")]


def tables(root):
    """The rows of texts of each table."""
    found = [each for each in root.iter(f"{SVG}g") if each.get("role") == "table"]
    return [[texts_of(row) for row in table if row.get("role") == "row"] for table in found]


def test_the_texts_of_a_picture(revseq, tmp_path):
    root = picture(revseq, tmp_path, SAMPLES / "page.md::1")
    assert tables(root) == [
        [["length", *"0123"], ["0", "2", *"1234"], ["1", "9 → 4", *"5678"]],
        [[*"0123"], ["0", *"2134"], ["1", *"8765"]],
    ]
    shown = texts_of(root)
    for words in ("InputTensor", "OutputTensor", "{1,1,2,4} FLOAT32", "axis 3 →", "reversed", "copied",
                  "length clamped to the axis size (4)", "these two change places",
                  "length, from SequenceLengthsTensor {1,1,2,1} UINT32"):  # fmt: skip
        assert words in shown, words
    marked = [text.text for text in root.iter(f"{SVG}text") if "reversed" in text.get("class")]
    assert marked == ["1", "2", "5", "6", "7", "8", "2", "1", "8", "7", "6", "5", "1"]
    assert [text.text for text in root.iter(f"{SVG}text") if "clamped" in text.get("class")] == ["9 → 4", "1"]


def test_the_texts_of_a_picture_along_columns(revseq, tmp_path):
    root = picture(revseq, tmp_path, SAMPLES / "page.md::2")
    assert tables(root) == [
        [["length", "3", "1"], ["0", "1"], ["0", "-1", "2"], ["1", "3", "4"], ["2", "5", "6"]],
        [["0", "1"], ["0", "5", "2"], ["1", "3", "4"], ["2", "-1", "6"]],
    ]
    assert "axis 0 ↓" in texts_of(root)
    assert not any("clamped" in text for text in texts_of(root))


@pytest.mark.parametrize(
    ("axis", "lengths", "label", "captions"),
    [
        (0, "[[[2, 1], [1, 1]]]", "axis 0 ↓", ["[:, 0, :]", "[:, 1, :]"]),
        (1, "[[[2, 1]], [[1, 1]]]", "axis 1 ↓", ["[0, :, :]", "[1, :, :]"]),
        (2, "[[[2], [1]], [[1], [1]]]", "axis 2 →", ["[0, :, :]", "[1, :, :]"]),
    ],
)
def test_differences_from_a_job_have_its_axis(revseq, tmp_path, axis, lengths, label, captions):
    """As its own picture has it: once in each table of A, and every table has it as its rows or its columns."""
    values = "[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]"
    revseq("run", values, lengths, "--axis", axis, "--picture", "job.svg").ok()
    revseq("diff", values, "--job", values, lengths, "--axis", axis, "--picture", "x.svg")
    job, root = (ET.parse(tmp_path / f"{name}.svg").getroot() for name in ("job", "x"))
    for picture in (job, root):
        assert [text for text in texts_of(picture) if text.startswith("axis")] == [label] * 2
        assert [text for text in texts_of(picture) if text.startswith("[")] == [each for each in captions for _ in "ab"]
    assert paths(root, "bracket") == []
    assert not any("length" in text or "change places" in text for text in texts_of(root))
    revseq("diff", values, values, "--picture", "pair.svg").ok()
    assert "axis" not in (tmp_path / "pair.svg").read_text()


def numbers(path):
    return [float(each) for each in re.findall(r"[\d.]+", path.get("d"))]


def paths(root, kind):
    return [each for each in root.iter(f"{SVG}path") if each.get("class") == kind]


def tiles(root):
    """The tiles of the input with their left and right edges, tops and bottoms, by the row and column."""
    table = next(each for each in root.iter(f"{SVG}g") if each.get("role") == "table")
    found = []
    for row in table:
        cells = [cell[0] for cell in row if cell.get("role") == "cell" and len(cell) == 2]
        boxes = [[float(cell.get(name)) for name in ("x", "width", "y", "height")] for cell in cells]
        found.append([(x, x + width, y, y + height) for x, width, y, height in boxes])
    return [row for row in found if row]


@pytest.mark.parametrize(("axis", "lengths"), [(1, [[2], [9], [0], [1]]), (0, [[2, 9, 0, 1]])])
def test_brackets_lie_over_what_lengths_cover(axis, lengths):
    root = drawn(np.arange(16).reshape(4, 4), np.array(lengths, np.uint32), axis)
    found = [numbers(each) for each in paths(root, "bracket")]
    lines = tiles(root) if axis == 1 else [*zip(*tiles(root), strict=True)]
    covers = [(line, min(n, 4)) for line, n in enumerate(np.array(lengths).ravel().tolist()) if n]
    assert len(found) == len(covers)
    for bracket, (line, count) in zip(found, covers, strict=True):
        xs, ys = bracket[::2], bracket[1::2]
        first, last = lines[line][0], lines[line][count - 1]
        if axis == 1:
            assert (min(xs), max(xs)) == (first[0] + 1, last[1] - 1)
            assert first[2] - 10 < min(ys) < max(ys) <= first[2]
        else:
            assert (min(ys), max(ys)) == (first[2] + 1, last[3] - 1)
            assert first[0] - 10 < min(xs) < max(xs) <= first[0]


def test_a_bracket_that_goes_on_has_no_end():
    values = np.arange(2000).reshape(2, 1000)
    root = drawn(values, np.array([[3], [500]], np.uint32), 1)
    closed, open_ = (numbers(each) for each in paths(root, "bracket"))
    assert (len(closed), len(open_)) == (8, 6)
    assert open_[4] > closed[4]
    assert [each for each in texts_of(root) if each in ("…", "⋮")] == ["…"] * 4


@given(jobs())
def test_arrows_join_what_changes_places(job):
    values, lengths, axis = job
    figure, root = figure_of(*job), drawn(*job)
    moved = sum(int(cell.text) != values[cell.at] for cell in figure.cells(-1))
    found = [numbers(each) for each in paths(root, "arrow")]
    if not found:
        few = values.size <= 64 and min(lengths.max(), values.shape[axis]) <= 9
        left_out = any(text.startswith("shown: ") for text in texts_of(root))
        assert not moved or not few or figure.down or left_out
        return
    assert 2 * len(found) == moved
    assert len(paths(root, "head")) == 2 * len(found) + 1
    along = 1 if figure.down else 0
    assert all(each[along] != each[-2 + along] for each in found)


@pytest.mark.parametrize(
    ("sizes", "axis", "length", "count"),
    [
        ((8, 8), 1, 8, 32),
        ((9, 8), 1, 8, 0),
        ((2, 9), 1, 9, 8),
        ((2, 10), 1, 10, 0),
        ((2, 3), 1, 1, 0),
        ((2, 2, 2), 0, 2, 4),
        ((3, 5, 1, 2), 3, 2, 0),
    ],
)
def test_arrows_for_small_tensors_alone(sizes, axis, length, count):
    root = drawn(np.arange(prod(sizes)).reshape(sizes), equal_lengths(sizes, axis, length), axis)
    assert len(paths(root, "arrow")) == count
    assert ("change places" in "".join(root.itertext())) == bool(count)


def places(root):
    """Where the tables of a picture are: (x, y) of the first tile of each."""
    found = []
    for outer in root:
        for inner in outer.iter(f"{SVG}g"):
            if inner.get("transform") and inner is not outer and inner[0].get("role") == "table":
                pairs = (re.findall(r"[\d.]+", each.get("transform")) for each in (outer, inner))
                found.append(tuple(sum(map(float, pair)) for pair in zip(*pairs, strict=True)))
    return found


@pytest.mark.parametrize(("axis", "most"), [(0, 9), (1, 999)])
def test_eight_by_eight_lie_side_by_side(axis, most):
    values = np.random.default_rng(1).integers(most // 10 + 1, most, (8, 8))
    root = drawn(values, equal_lengths((8, 8), axis, 5), axis)
    (left, top), (right, other) = places(root)
    assert top == other
    assert right > left + 8 * 30
    assert int(root.get("width")) <= svg.WIDEST


def test_eight_dimensions_lie_side_by_side():
    sizes = (2,) * 8
    root = drawn(np.arange(256).reshape(sizes), equal_lengths(sizes, 7, 1), 7)
    found = places(root)
    assert len(found) == 16
    assert all(a[1] == b[1] and a[0] < b[0] for a, b in zip(found[::2], found[1::2], strict=True))
    assert "[0, 0, 0, 0, 0, 1, :, :]" in texts_of(root)
    alone = drawn(np.arange(4).reshape(2, 2), equal_lengths((2, 2), 1, 1), 1)
    assert int(root.get("width")) <= int(alone.get("width")) + 40


def test_numbers_are_aligned_on_their_digits():
    values = np.array([[1.5, -12.25], [np.nan, 3], [1e-7, 0.125]], np.float32)
    root = drawn(values, equal_lengths((3, 2), 1), 1)
    table = next(each for each in root.iter(f"{SVG}g") if each.get("role") == "table")
    columns = [*zip(*([cell[1].text for cell in row if len(cell) == 2] for row in table[1:]), strict=True)]
    assert columns == [("1.5  ", "  nan", "1e-07"), ("-12.25 ", "  3    ", "  0.125")]


WIDE = {
    "FLOAT64": np.array([-1.2345678901234567e-300]), "COMPLEX128": np.array([-1.2345678901234567e-300 - 1.2345678901234567e-300j]),
    "INT64": np.array([-(2**63)]), "UINT8": np.array([1], np.uint8), "BOOL": np.array([False]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "sizes"),
    [*(("COMPLEX128", sizes) for sizes in (
        (1,), (16,), (17,), (1000,), (3, 4), (16, 16), (5000, 20), (2, 3, 4, 5), (30, 30, 30), (1,) * 62 + (40, 40), (2,) * 14,
        (2,) * 8 + (1,) * 56)),
     *((name, sizes) for name in WIDE if name != "COMPLEX128" for sizes in ((1000,), (30, 30, 30)))],
)  # fmt: skip
def test_no_picture_is_too_wide(name, sizes):
    values = np.broadcast_to(WIDE[name], sizes)
    for axis in {0, len(sizes) - 1}:
        job = values, equal_lengths(sizes, axis, 2**64 - 1), axis
        text = svg.drawn(lambda limits, job=job: figure_of(*job, *limits))
        assert int(ET.fromstring(text).get("width")) <= svg.WIDEST
        assert len(text) < 200_000
        assert int(ET.fromstring(text).get("height")) < 12_000


def test_elements_are_escaped():
    made = svg.element("a", "<&>\x00\x1b\ud800\uffff\u202e", "\n", svg.element("b", class_='"<\x1b'), "]]>")
    read = ET.fromstring(ET.tostring(made, encoding="unicode"))
    assert read.text == "<&>\\x00\\x1b\\ud800\\uffff\\u202e\n"
    assert (read[0].get("class"), read[0].tail) == ('"<\\x1b', "]]>")


def rgb(color):
    return tuple(bytes.fromhex(color[1:]))


MARKS = (figures.COPIED, figures.REVERSED, figures.CLAMPED, figures.DIFFERENT)


@pytest.mark.parametrize("colors", [svg.LIGHT, svg.DARK])
def test_what_is_drawn_can_be_read(colors):
    for name, least in (("text", 4.5), ("quiet", 4.5), ("accent", 4.5), ("different_text", 4.5), ("faint", 3)):
        assert contrast(rgb(colors[name]), rgb(colors["ground"])) >= least, name
    for mark in MARKS:
        assert contrast(rgb(colors[f"{mark}_text"]), rgb(colors[mark])) >= 4.5, mark
        assert contrast(rgb(colors["accent"]), rgb(colors[mark])) >= 3, mark


@pytest.mark.parametrize(
    ("sizes", "texts"), [((), ["5", "6"]), ((0, 3), ["shown: no elements"]), ((1, 0), ["shown: no elements"])]
)
def test_a_picture_of_one_number_or_none(revseq, tmp_path, sizes, texts):
    for name, value in (("a", 5), ("b", 6)):
        np.save(tmp_path / f"{name}.npy", np.full(sizes, value))
    revseq("diff", "a.npy", "b.npy", "--picture", "p.svg")
    assert [text for text in texts_of(ET.parse(tmp_path / "p.svg").getroot()) if text in texts] == texts


# The files


def test_a_picture_beside_an_output(revseq, files):
    job = ("run", "x.npy", "n.npy", "--axis", 1, "--picture", "p.svg")
    revseq(*job, "-o", "y.npy", "--verify").ok()
    first = {name: (files / name).read_bytes() for name in ("p.svg",)}
    assert revseq(*job, "--overwrite").ok().out.startswith("OutputTensor")
    assert {name: (files / name).read_bytes() for name in first} == first
    assert {path.name for path in files.iterdir()} == {"n.npy", "p.svg", "x.npy", "y.npy"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--picture", "p.png"), ["--picture writes SVG", "try --picture p.svg"]),
        (("--picture", "."), ["--picture writes SVG", "try --picture tensors.svg"]),
        (("--picture", "job"), ["try --picture job.svg"]),
        (("--picture", "old.svg"), ["old.svg: already exists", "add --overwrite"]),
        (("--picture", "none/job.svg"), ["none/job.svg", "no such"]),
        (("--picture", "folder.svg"), ["folder.svg: is a directory"]),
        (("--picture", "new.svg", "-o", "y.npy", "--axis", "7"), ["Axis is 7"]),
        (("-o", "p.svg", "-f", "npy", "--picture", "./p.svg"), ["-o and --picture are the same file"]),
        pytest.param(("--picture", "x.svg", "--overwrite"), ["is an input of this job"], marks=links),
    ],
)
def test_what_is_refused_writes_nothing(revseq, files, options, words):
    (files / "x.svg").symlink_to("x.npy")
    (files / "old.svg").write_text("old")
    (files / "folder.svg").mkdir()
    before = content(files)
    revseq("run", "x.npy", "n.npy", *(() if "--axis" in options else ("--axis", 1)), *options).refused(*words)
    assert content(files) == before


def test_a_dry_run_draws_nothing(revseq, files):
    before = content(files)
    revseq("run", "x.npy", "n.npy", "--axis", 1, "--picture", "p.svg", "--dry-run").ok()
    assert content(files) == before


# In a browser


@needs_browser
@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_draws_the_picture(revseq, tmp_path, dark):
    """In an element of a page, as documentation has it: light or dark as the reader wants it, and each mark in its colour."""
    revseq("run", SAMPLES / "page.md::1", "--picture", "p.svg").ok()
    script = """
      const image = document.querySelector('img'), canvas = document.createElement('canvas');
      return image.decode().then(() => {
        [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
        const context = canvas.getContext('2d'), counts = {};
        context.drawImage(image, 0, 0);
        const data = context.getImageData(0, 0, canvas.width, canvas.height).data;
        for (let i = 0; i < data.length; i += 4) counts[data.slice(i, i + 3)] = (counts[data.slice(i, i + 3)] || 0) + 1;
        return counts })"""
    encoded = base64.b64encode((tmp_path / "p.svg").read_bytes()).decode()
    image = f'<img src="data:image/svg+xml;base64,{encoded}">'
    found = Counter(browser.measured(tmp_path, image, script, dark=dark))
    for colors, shown in ((svg.LIGHT, not dark), (svg.DARK, dark)):
        for mark, cells in (("reversed", 12), ("clamped", 1), ("copied", 4)):
            # some pixels of the other form may be at the edges of letters
            assert (found[",".join(map(str, rgb(colors[mark])))] > 400 * cells) == shown, mark
    ground = rgb((svg.DARK if dark else svg.LIGHT)["ground"])
    assert found.most_common(1)[0][0] == ",".join(map(str, ground))


@needs_browser
@pytest.mark.parametrize("name", ["wide", "deep", "differences", "across", "down"])
def test_no_text_of_a_picture_overflows_or_covers_another(revseq, tmp_path, name):
    rng = np.random.default_rng(3)
    if name in ("differences", "across", "down"):
        np.save(tmp_path / "a.npy", rng.integers(0, 9, (20, 30)))
        np.save(tmp_path / "b.npy", rng.integers(0, 9, (20, 30)))
        np.save(tmp_path / "n.npy", np.full((20, 1) if name == "across" else (1, 30), 7, "u4"))
        job = () if name == "differences" else ("n.npy", "--axis", int(name == "across"), "--like", "numpy")
        assert revseq("diff", "a.npy", *["--job"][: len(job)], "b.npy", *job, "--picture", "p.svg").status == 1
    else:
        sizes, axis = {"wide": ((40, 30, 20), 1), "deep": ((1,) * 30 + (2, 3), 31)}[name]
        np.save(tmp_path / "x.npy", rng.standard_normal(sizes) * 1e-300)
        np.save(tmp_path / "n.npy", rng.integers(0, 60, equal_lengths(sizes, axis).shape).astype("u4"))
        job = ("x.npy", "n.npy", "--axis", axis, "--feature-level", "none", "-o", "y.npy")
        revseq("run", *job, "--picture", "p.svg").ok()
    script = """
      const svg = document.querySelector('svg'), all = svg.getBoundingClientRect();
      const boxes = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
      const bad = boxes.filter(([, b]) => b.left < all.left || b.right > all.right || b.top < all.top || b.bottom > all.bottom).map(([t]) => t);
      const over = [];
      boxes.forEach(([s, a], i) => boxes.slice(i + 1).forEach(([t, b]) => {
        if (a.left < b.right - 1 && b.left < a.right - 1 && a.top + 4 < b.bottom - 4 && b.top + 4 < a.bottom - 4) over.push([s, t]) }));
      return { texts: boxes.length, width: all.width, bad, over }"""
    found = browser.measured(tmp_path, (tmp_path / "p.svg").read_text(), script)
    assert found["texts"] > 10
    assert found["width"] <= svg.WIDEST
    assert (found["bad"], found["over"]) == ([], [])


def test_an_output_below_its_input_has_an_arrow_down(revseq, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(1).standard_normal((2, 6)))
    root = picture(revseq, tmp_path, "x.npy", "[[3], [5]]", "--axis", 1)
    names = {text.text: float(text.get("x")) for text in root.iter(f"{SVG}text") if text.get("class") == "name"}
    assert names == {"InputTensor": 0, "OutputTensor": 40}
    assert "translate(-40 30)" in [each.get("transform") for each in root.iter(f"{SVG}g")]
    assert not paths(root, "across")


def test_slices_are_apart(revseq, tmp_path):
    """A heading is nearer to its own table than to the one above."""
    np.save(tmp_path / "x.npy", np.arange(24.0).reshape(3, 4, 2))
    root = picture(revseq, tmp_path, "x.npy", "[3, 2, 1]", "--axis", 1, "--batch-axis", 0)
    groups = [each for each in root if "InputTensor" in [part.text for part in each]]
    first, second = (float(each.get("transform").rstrip(")").split()[1]) for each in groups[:2])
    tiles = next(each for each in groups[0] if each.get("transform"))
    lowest = max(float(each.get("y")) + float(each.get("height")) for each in tiles.iter(f"{SVG}rect"))
    assert second - first - float(tiles.get("transform").rstrip(")").split()[1]) - lowest >= 40
