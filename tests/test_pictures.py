"""Pictures and web pages of jobs: what they show, that they are well-formed and small, and how a real browser shows them."""

import base64
import hashlib
import itertools
import re
import xml.etree.ElementTree as ET
from collections import Counter
from html.parser import HTMLParser
from math import inf, prod

import browser
import h5py
import numpy as np
import oracle
import pytest
from conftest import SAMPLES
from contrast import contrast
from folders import content
from hypothesis import given, settings
from hypothesis import strategies as st

from revseq_cli.formats.contract import Storage
from revseq_cli.formats.held import HeldSource
from revseq_cli.report import figures, markup, palette, svg
from revseq_cli.report.excerpts import Limits

SVG = "{http://www.w3.org/2000/svg}"
EXAMPLES = ["page.md::1", "page.md::2", "example1.txt", "example2.txt"]
needs_browser = pytest.mark.needs("chromium")


def source(values):
    return HeldSource("x", values, Storage("memory", {}))


def figure_of(values, lengths, axis, *limits):
    result = oracle.reverse(values, lengths, axis)
    return figures.of_job(source(values), source(lengths), axis, source(result), Limits(*limits))


def drawn(values, lengths, axis):
    return ET.fromstring(svg.drawn(lambda limits: figure_of(values, lengths, axis, *limits)))


@st.composite
def jobs(draw, largest=5):
    sizes = draw(st.lists(st.integers(1, largest), min_size=1, max_size=4))
    axis = draw(st.integers(0, len(sizes) - 1))
    of_lengths = [1 if d == axis else size for d, size in enumerate(sizes)]
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    values = rng.permutation(prod(sizes)).reshape(sizes)
    return values, rng.integers(0, sizes[axis] + 3, of_lengths).astype(np.uint32), axis


# The data of figures


@given(jobs())
def test_every_element_comes_from_where_the_figure_says(job):
    values, lengths, axis = job
    figure = figure_of(*job)
    given_cells, _, result = (list(panel.cells()) for panel in figure.panels)
    assert [int(cell.text) for cell in given_cells] == values.ravel().tolist()
    for cell in result:
        assert int(cell.text) == values[cell.origin or cell.at]
        assert cell.origin != cell.at
        assert not cell.origin or cell.mark == figures.REVERSED
    for lower, upper in figure.swaps():
        assert lower < upper
        assert oracle.reverse(values, lengths, axis)[lower] == values[upper]
    assert 2 * len(figure.swaps()) == len([cell for cell in result if cell.origin])


_MOST = st.sampled_from([inf, 16, 6, 2, 1])


@settings(max_examples=25)
@given(jobs(largest=40), st.builds(Limits, st.sampled_from([200, 1000]), _MOST, _MOST, _MOST))
def test_a_figure_of_any_tensor_is_small(job, limits):
    values, lengths, axis = job
    figure = figure_of(values, lengths, axis, *limits)
    for panel, whole in zip(figure.panels, (values, lengths, values), strict=True):
        cells = list(panel.cells())
        assert 1 <= len(cells) <= limits.elements
        assert (f"{len(cells):,} of {whole.size:,} elements" in panel.told) == (len(cells) < whole.size)
        shown = [len({cell.at[d] for cell in cells}) for d in range(values.ndim)]
        assert max(shown) <= limits.indices
        assert shown[-1] <= limits.columns
        assert len({cell.at[:-2] for cell in cells}) == len([*filter(None, panel.blocks)]) <= limits.tables
    for cell in figure.panels[2].cells():
        assert int(cell.text) == values[cell.origin or cell.at]


def test_clamped_lengths_say_what_they_act_as():
    figure = figure_of(np.arange(8).reshape(2, 4), np.array([[2**32 - 1], [4]], np.uint32), 1)
    assert [(cell.text, cell.acts_as, cell.mark) for cell in figure.panels[1].cells()] == [
        ("4294967295", "4", "clamped"),
        ("4", "", ""),
    ]
    assert figure.legend[figures.CLAMPED] == "above the axis size 4: acts as 4"
    assert figures.CLAMPED not in figure_of(np.arange(8).reshape(2, 4), np.array([[1], [4]], np.uint32), 1).legend


# Pictures


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_picture(revseq, tmp_path, example):
    revseq("run", str(SAMPLES / example), "--picture", "x.svg").ok()
    text = (tmp_path / "x.svg").read_text()
    root = ET.fromstring(text)
    assert (root.tag, root.get("role")) == (f"{SVG}svg", "img")
    assert [root[0].tag, root[1].tag] == [f"{SVG}title", f"{SVG}desc"]
    assert root[0].text.startswith("DML_REVERSE_SUBSEQUENCES along axis ")
    shown = revseq("run", str(SAMPLES / example), "--example").ok().out
    for part in shown.split("\n\n"):
        assert part.strip() in root[1].text  # who cannot see it gets the whole example
    assert int(root.get("width")) <= svg.WIDEST
    assert "prefers-color-scheme: dark" in text
    assert {each.tag.removeprefix(SVG) for each in root.iter()} == {
        "svg",
        "title",
        "desc",
        "style",
        "rect",
        "g",
        "text",
        "path",
    }
    assert "http" not in text.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"@import|url\(|href", text)


def test_the_texts_of_a_picture(revseq, tmp_path):
    revseq("run", str(SAMPLES / "page.md::1"), "--picture", "x.svg").ok()
    root = ET.parse(tmp_path / "x.svg").getroot()
    groups = [[text.text for text in group.iter(f"{SVG}text")] for group in root.iter(f"{SVG}g")]
    assert groups[0] == ["Axis: 3"]
    assert groups[2] == ["SequenceTensor", "{1,1,2,1} UINT32", "0", "0", "2", "1", "9 → 4"]
    assert groups[3] == ["OutputTensor", "{1,1,2,4} FLOAT32", *"0123", "0", *"2134", "1", *"8765"]
    marked = [
        [text.text for text in group.iter(f"{SVG}text") if "reversed" in text.get("class")]
        for group in root.iter(f"{SVG}g")
    ]
    assert marked == [[], ["1", "2", "5", "6", "7", "8"], [], ["2", "1", "8", "7", "6", "5"], ["1"]]


def arrows(root):
    """The paths of the arrows in the first panel, without that of the legend."""
    return [each.get("d") for each in list(root.iter(f"{SVG}g"))[1].iter(f"{SVG}path") if each.get("class") == "arrow"]


@given(jobs())
def test_arrows_join_what_changes_places(job):
    values, _, axis = job
    figure, root = figure_of(*job), drawn(*job)
    found = arrows(root)
    if found or not figure.swaps():
        assert len(found) == len(figure.swaps())
    else:
        assert max(values.size / 64, values.shape[axis] / 8, prod(values.shape) / 8) > 1
    segments = {"V": set(), "H": set()}
    for path in found:  # no arrow lies on another: the long part of each is in a place of its own
        x, y, parts = re.fullmatch(r"M([\d.]+) ([\d.]+) (.*)", path).groups()
        (_, way), (middle, to), _ = ((part[0], float(part[1:])) for part in parts.split())
        start = float(y) if middle == "V" else float(x)
        for low, high, at in segments[middle]:
            assert at != way or high < min(start, to) or max(start, to) < low
        segments[middle].add((min(start, to), max(start, to), way))


@pytest.mark.parametrize(
    ("sizes", "axis", "length", "count"),
    [
        ((8, 8), 1, 8, 32),
        ((8, 8), 0, 8, 32),
        ((9, 8), 1, 8, 0),
        ((2, 9), 1, 9, 8),
        ((2, 10), 1, 10, 0),
        ((2, 3), 1, 1, 0),
        ((2, 2, 2), 0, 2, 4),
    ],
)
def test_arrows_for_small_tensors_alone(sizes, axis, length, count):
    values = np.arange(prod(sizes)).reshape(sizes)
    root = drawn(values, np.full([1 if d == axis else size for d, size in enumerate(sizes)], length, np.uint32), axis)
    assert len(arrows(root)) == count
    assert ("change places" in "".join(root.itertext())) == bool(count)


WIDE = {
    "FLOAT64": np.array([-1.2345678901234567e-300]), "COMPLEX128": np.array([-1.2345678901234567e-300 - 1.2345678901234567e-300j]),
    "INT64": np.array([-(2**63)]), "UINT8": np.array([1], np.uint8), "BOOL": np.array([False]),
}  # fmt: skip


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize(
    "sizes",
    [
        (1,),
        (16,),
        (17,),
        (1000,),
        (3, 4),
        (16, 16),
        (5000, 20),
        (2, 3, 4, 5),
        (30, 30, 30),
        (1,) * 62 + (40, 40),
        (2,) * 14,
        (2,) * 8 + (1,) * 56,
    ],
)
def test_no_picture_is_too_wide(name, sizes):
    values = np.broadcast_to(WIDE[name], sizes)
    for axis in {0, len(sizes) - 1}:
        lengths = np.full([1 if d == axis else size for d, size in enumerate(sizes)], 2**64 - 1, np.uint64)
        text = svg.drawn(lambda limits, job=(values, lengths, axis): figure_of(*job, *limits))
        assert int(ET.fromstring(text).get("width")) <= svg.WIDEST
        assert len(text) < 200_000
        assert int(ET.fromstring(text).get("height")) < 12_000


def test_elements_are_escaped():
    made = ET.tostring(
        markup.element("a", "<&>\x00\x1b\ud800\uffff\u202e", "\n", markup.element("b", class_='"<\x1b'), "]]>"),
        encoding="unicode",
    )
    read = ET.fromstring(made)
    assert read.text == "<&>\\x00\\x1b\\ud800\\uffff\\u202e\n"
    assert (read[0].get("class"), read[0].tail) == ('"<\\x1b', "]]>")


@pytest.mark.parametrize("colors", [palette.LIGHT, palette.DARK])
def test_what_is_drawn_can_be_read(colors):
    rgb = {name: tuple(bytes.fromhex(each[1:])) for name, each in colors._asdict().items() if isinstance(each, str)}
    for name, least in (("text", 4.5), ("quiet", 4.5), ("arrow", 3)):
        assert contrast(rgb[name], rgb["ground"]) >= least, name
    for mark, pair in colors.marks.items():
        ground, text = (tuple(bytes.fromhex(each[1:])) for each in pair)
        assert contrast(text, ground) >= 4.5, mark
        assert contrast(rgb["arrow"], ground) >= 3, mark
        assert contrast(text, rgb["ground"]) >= 4.5, mark


@pytest.mark.parametrize(
    ("sizes", "texts"), [((), ["5", "6"]), ((0, 3), ["no elements"] * 2), ((1, 0), ["no elements"] * 2)]
)
def test_a_picture_of_one_number_or_none(revseq, tmp_path, sizes, texts):
    for name, value in (("a", 5), ("b", 6)):
        np.save(tmp_path / f"{name}.npy", np.full(sizes, value))
    revseq("diff", "a.npy", "b.npy", "--picture", "p.svg")
    shown = [text.text for text in ET.parse(tmp_path / "p.svg").getroot().iter(f"{SVG}text")]
    assert [text for text in shown if text in texts] == texts


# The files


def test_both_from_one_run(revseq, files):
    revseq(
        "run", "x.npy", "n.npy", "--axis", 1, "-o", "y.npy", "--picture", "p.svg", "--html", "p.html", "--verify"
    ).ok()
    first = {name: (files / name).read_bytes() for name in ("p.svg", "p.html")}
    done = revseq("run", "x.npy", "n.npy", "--axis", 1, "--picture", "p.svg", "--html", "p.html", "--overwrite").ok()
    assert done.out.startswith("OutputTensor")
    assert {name: (files / name).read_bytes() for name in first} == first
    assert {path.name for path in files.iterdir()} == {"n.npy", "p.html", "p.svg", "x.npy", "y.npy"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--picture", "p.png"), ["--picture writes SVG", "try --picture p.svg"]),
        (("--picture", "."), ["--picture writes SVG", "try --picture tensors.svg"]),
        (("--html", "job.txt"), ["--html writes a web page", "a name that ends in .html", "try --html job.html"]),
        (("--html", "job"), ["try --html job.html"]),
        (("--html", "old.html"), ["old.html: already exists", "add --overwrite"]),
        (("--picture", "new.svg", "--html", "old.html"), ["old.html: already exists"]),
        (("--html", "none/job.html"), ["none/job.html", "no such"]),
        (("--html", "folder.html"), ["folder.html: is a directory"]),
        (("--html", "x.html", "-o", "y.npy", "--axis", "7"), ["Axis is 7"]),
        (("-o", "p.svg", "-f", "npy", "--picture", "./p.svg"), ["-o and --picture are one file"]),
        (("-o", "p.html", "-f", "npy", "--html", "p.html"), ["-o and --html are one file"]),
    ],
)
def test_what_is_refused_writes_nothing(revseq, files, options, words):
    (files / "old.html").write_text("old")
    (files / "folder.html").mkdir()
    before = content(files)
    revseq("run", "x.npy", "n.npy", *(() if "--axis" in options else ("--axis", 1)), *options).refused(*words)
    assert content(files) == before


@pytest.mark.needs("links")
def test_two_names_of_one_file(revseq, files):
    (files / "p.svg").symlink_to("p.html")
    revseq("run", "x.npy", "n.npy", "--axis", 1, "--picture", "p.svg", "--html", "p.html").refused(
        "--picture and --html are one file"
    )
    (files / "x.html").symlink_to("x.npy")
    revseq("run", "x.npy", "n.npy", "--axis", 1, "--html", "x.html", "--overwrite").refused("is an input of this job")


def test_a_dry_run_draws_nothing(revseq, files):
    before = content(files)
    revseq("run", "x.npy", "n.npy", "--axis", 1, "--picture", "p.svg", "--html", "p.html", "--dry-run").ok()
    assert content(files) == before


# Web pages


class Page(HTMLParser):
    """The elements of a page, their attributes, and the texts."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def require_safe(text):
    """Nothing runs, and nothing is loaded; the style is the one that the page's policy allows."""
    page = Page(text)
    tags = {tag for tag, _ in page.elements}
    assert tags <= {"html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "h3", "p", "div", "table", "caption", "thead",
                    "tbody", "tr", "th", "td", "a", "b", "span", "ul", "li", "code"}  # fmt: skip
    names = {name for _, attributes in page.elements for name in attributes}
    assert names <= {
        "lang",
        "charset",
        "http-equiv",
        "content",
        "name",
        "class",
        "id",
        "href",
        "scope",
        "role",
        "tabindex",
        "aria-label",
        "aria-hidden",
    }
    assert all(re.fullmatch(r"#(i\d+|tensor0)", each["href"]) for each in page.all("a"))
    policy = next(each["content"] for each in page.all("meta") if "http-equiv" in each)
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert not re.search(r"@import|url\(|expression|https?:", style)
    return page


def page_of(revseq, folder, *job):
    revseq("run", *job, "--html", "job.html", "--overwrite").ok()
    return (folder / "job.html").read_text(encoding="utf-8")


def test_a_page(revseq, files):
    np.save(files / "n.npy", np.array([[2], [9], [3]], np.uint32))
    text = page_of(revseq, files, "x.npy", "n.npy", "--axis", 1)
    page = require_safe(text)
    assert [each["href"] for each in page.all("a")] == ["#i1", "#i0", "#i7", "#i6", "#i5", "#i4", "#i10", "#i8"]
    assert [each["id"] for each in page.all("td") if "id" in each] == [f"i{n}" for n in range(12)]
    shown = re.sub(r"\s+", " ", " ".join(page.texts))
    for words in ("DML_FEATURE_LEVEL_5_0 accepts it", "2 at [0, 0] comes from [0, 1]", "9 → 4", "above the axis size 4: acts as 4", "x.npy",
                  "3 in all, 1 above 4 and clamped, 0 change nothing", "lowest level", "InputTensor DataType", "tensor support"):  # fmt: skip
        assert words in shown, words
    failing = revseq("check", "x.npy", "n.npy", "--axis", 1, "--feature-level", "all").ok().out.count("FAIL")
    assert [each.get("class") for each in page.all("td")].count("fail") == failing > 0
    assert "@media (prefers-color-scheme: dark)" in text


def test_a_page_tells_what_is_left_out(revseq, files):
    np.save(files / "x.npy", np.arange(100_000).reshape(5000, 20))
    np.save(files / "n.npy", np.full((1, 20), 5000, np.uint32))
    page = require_safe(page_of(revseq, files, "x.npy", "n.npy", "--axis", 0, "-o", "y.npy"))
    assert page.texts.count("36 of 100,000 elements") == 2
    assert "0" in page.texts
    np.save(files / "n.npy", np.full((1, 20), 2500, np.uint32))
    page = require_safe(page_of(revseq, files, "x.npy", "n.npy", "--axis", 0, "-o", "z.npy"))
    assert {each["href"] for each in page.all("a")} == {"#tensor0"}
    assert " at [0, 0] comes from [2499, 0], which is not shown" in page.texts


@pytest.mark.parametrize(
    ("sizes", "axis"),
    [
        ((10,) * 3, 1),
        ((1,) * 55 + (2,) * 9, 62),
        ((1,) * 60 + (5, 5, 5, 8), 63),
        ((1000,), 0),
        ((4000,), 0),
        ((10**6,), 0),
        ((500, 500), 0),
    ],
)
def test_a_page_has_at_most_a_megabyte(revseq, tmp_path, sizes, axis):
    values = np.full(sizes, -1.2345678901234567e-300 - 1.2345678901234567e-300j)
    np.save(tmp_path / "x.npy", values)
    np.save(
        tmp_path / "n.npy", np.full([1 if d == axis else size for d, size in enumerate(sizes)], 2**64 - 1, np.uint64)
    )
    text = page_of(revseq, tmp_path, "x.npy", "n.npy", "--axis", axis, "--feature-level", "none", "-o", "y.npy")
    require_safe(text)
    assert len(text.encode()) <= 1_000_000


HOSTILE = "<img src=x onerror=document.title=1><script>document.title=2<" + chr(92) + "script>'\"&lt;\x1b[31m\u202e"


def hostile_page(revseq, folder):
    """The page of a job whose names are all made to break out of HTML."""
    names = [
        HOSTILE,
        '"><svg onload=document.title=3>',
        "</style><script>document.title=4</script>",
        "--><iframe src=javascript:alert(1)>",
    ]
    with h5py.File(folder / "x.h5", "w") as file:
        for name, tensor in zip(
            names, (np.arange(6.0).reshape(2, 3), np.array([[2], [3]], np.uint32), 1, 2), strict=True
        ):
            file.create_group("g").create_dataset("y", data=tensor) if name == 1 else file.create_dataset(
                name.replace("/", "|"), data=tensor
            )
    keys = [name.replace("/", "|") for name in names]
    return page_of(revseq, folder, f"x.h5::{keys[0]}", f"x.h5::{keys[1]}", "--axis", 1, "--feature-level", "none")


def test_names_from_files_are_escaped(revseq, tmp_path):
    text = hostile_page(revseq, tmp_path)
    page = require_safe(text)
    assert any("<img src=x onerror=document.title=1><script>" in each for each in page.texts)
    assert "\x1b" not in text
    assert "\\u202e" in text


# In a browser


@needs_browser
@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_draws_the_picture(revseq, tmp_path, dark):
    """In an element of a page, as documentation has it: light or dark as the reader wants it, and each mark in its colour."""
    revseq("run", SAMPLES / "page.md::1", "--picture", "p.svg").ok()
    (tmp_path / "page.html").write_text(
        '<!DOCTYPE html><body style="margin: 0"><img style="display: block" src="p.svg">'
    )
    found = Counter(itertools.chain.from_iterable(browser.pixels(tmp_path, tmp_path / "page.html", dark=dark)))
    for colors, shown in ((palette.LIGHT, not dark), (palette.DARK, dark)):
        for mark, cells in (("reversed", 12), ("clamped", 1)):
            ground = tuple(bytes.fromhex(colors.marks[mark][0][1:]))
            assert (found[ground] > 600 * cells) == shown, (
                mark
            )  # some pixels of the other form may be at the edges of letters
    assert found.most_common(1)[0][0] == tuple(bytes.fromhex((palette.DARK if dark else palette.LIGHT).ground[1:]))


@needs_browser
@pytest.mark.parametrize("name", ["example1", "axes", "wide", "deep", "differences"])
def test_no_text_of_a_picture_overflows_or_covers_another(revseq, tmp_path, name):
    rng = np.random.default_rng(3)
    if name == "example1":
        revseq("run", str(SAMPLES / "example1.txt"), "--picture", "p.svg").ok()
    elif name == "differences":
        np.save(tmp_path / "a.npy", rng.integers(0, 9, (20, 30)))
        np.save(tmp_path / "b.npy", rng.integers(0, 9, (20, 30)))
        assert revseq("diff", "a.npy", "b.npy", "--picture", "p.svg").status == 1
    else:
        sizes, axis = {"axes": ((2, 3, 4), 0), "wide": ((40, 30, 20), 1), "deep": ((1,) * 30 + (2, 3), 31)}[name]
        np.save(tmp_path / "x.npy", rng.standard_normal(sizes) * 1e-300)
        np.save(
            tmp_path / "n.npy",
            rng.integers(0, 60, [1 if d == axis else size for d, size in enumerate(sizes)]).astype("u4"),
        )
        revseq(
            "run", "x.npy", "n.npy", "--axis", axis, "--feature-level", "none", "-o", "y.npy", "--picture", "p.svg"
        ).ok()
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


def body_of(text):
    """The page without its policy, so that a script of the test can run in it."""
    bare = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    assert bare != text
    return bare.removeprefix("<!DOCTYPE html>\n")


@needs_browser
@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_shows_the_page(revseq, files, dark):
    text = page_of(revseq, files, "x.npy", "n.npy", "--axis", 1)
    script = """
      const style = (each) => getComputedStyle(document.querySelector(each));
      const link = document.querySelector('td a'), from = link.querySelector('.from');
      const before = [style('#i1').outlineStyle, from.getBoundingClientRect().width];
      link.classList.add('focused');
      const box = from.getBoundingClientRect();
      return { ground: style('body').backgroundColor, mark: style('td.reversed').backgroundColor, before, after: style('#i1').outlineStyle,
               other: style('#i0').outlineStyle, told: from.textContent, wide: box.width, bottom: innerHeight - box.bottom,
               overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth }"""
    # A window gets the focus at any time, or never; so a class stands for it.
    found = browser.measured(files, body_of(text).replace(":focus", ".focused"), script, dark=dark)
    colors = palette.DARK if dark else palette.LIGHT
    rgb = [
        f"rgb({', '.join(map(str, bytes.fromhex(each[1:])))})" for each in (colors.ground, colors.marks["reversed"][0])
    ]
    assert [found["ground"], found["mark"]] == rgb
    assert found["before"] == ["none", 1]
    assert (found["after"], found["other"]) == ("solid", "none")
    assert found["told"] == "2 at [0, 0] comes from [0, 1]"
    assert found["wide"] > 300
    assert (found["bottom"], found["overflow"]) == (0, 0)


@needs_browser
@pytest.mark.parametrize("width", [500, 1200])
def test_a_large_page_scrolls_in_its_tables(revseq, tmp_path, width):
    np.save(tmp_path / "x.npy", np.random.default_rng(1).standard_normal((50, 60, 70)))
    np.save(tmp_path / "n.npy", np.full((50, 60, 1), 70, np.uint32))
    text = page_of(revseq, tmp_path, "x.npy", "n.npy", "--axis", 2, "-o", "y.npy")
    script = """
      const root = document.documentElement, part = document.querySelector('#tensor0');
      return { overflow: root.scrollWidth - root.clientWidth, inner: part.scrollWidth > part.clientWidth && part.scrollHeight > part.clientHeight }"""
    assert browser.measured(tmp_path, body_of(text), script, width=width) == {"overflow": 0, "inner": True}


@needs_browser
@pytest.mark.parametrize("policy", [True, False])
def test_no_script_from_names_runs(revseq, tmp_path, policy):
    """Neither with the page's policy nor without it: its texts alone are safe."""
    text = hostile_page(revseq, tmp_path)
    (tmp_path / "job.html").write_text(text if policy else body_of(text), encoding="utf-8")
    shown = browser.dom(tmp_path, tmp_path / "job.html")
    assert "<title>DML_REVERSE_SUBSEQUENCES along axis 1</title>" in shown
    assert not re.search(r"<(img|script|iframe|svg)\b", shown)
    assert "&lt;img src=x onerror=document.title=1&gt;" in shown


@needs_browser
def test_the_policy_lets_the_style_work_and_no_script(revseq, files):
    text = page_of(revseq, files, "x.npy", "n.npy", "--axis", 1)
    (files / "job.html").write_text(text.replace("</body>", "<script>document.title = 'ran'</script></body>"))
    assert "<title>DML" in browser.dom(files, files / "job.html")
    ground = tuple(bytes.fromhex(palette.DARK.ground[1:]))
    assert browser.pixels(files, files / "job.html", dark=True)[5][5] == ground


@needs_browser
@pytest.mark.needs("axe")
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["small", "large"])
def test_axe_finds_nothing(revseq, files, name, dark):
    if name == "large":
        np.save(files / "x.npy", np.arange(6000.0).reshape(5, 20, 60))
        np.save(files / "n.npy", np.full((5, 20, 1), 99, np.uint32))
    text = page_of(revseq, files, "x.npy", "n.npy", "--axis", 1 if name == "small" else 2, "-o", "y.npy", "--overwrite")
    script = """return axe.run().then(found => ({ violations: found.violations.map(each => [each.id, each.nodes[0].html]),
      incomplete: found.incomplete.map(each => [each.id, each.nodes[0].html]), passes: found.passes.length }))"""
    axe = browser.AXE.read_text(encoding="utf-8")
    found = browser.measured(files, f"{body_of(text)}<script>{axe}</script>", script, dark=dark)
    assert found["passes"] > 10
    assert (found["violations"], found["incomplete"]) == ([], [])
