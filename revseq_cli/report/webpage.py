"""A job as a web page in one file, without scripts: its tensors as tables, then constraints and levels.

An element that has moved is a link to the element of the input that it comes from. While it is pointed at or has the
focus, the page marks that element, and says where it is.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import revseq_cli
from revseq_cli.ground.tensors import braced
from revseq_cli.operator.spec import DIRECTML, INPUT, LENGTHS
from revseq_cli.report import checks, palette
from revseq_cli.report.excerpts import Limits
from revseq_cli.report.figures import DIFFERENT, cell_text
from revseq_cli.report.markup import element
from revseq_cli.report.words import spelled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from xml.etree.ElementTree import Element

    from revseq_cli.operator.spec import FeatureLevel
    from revseq_cli.report.figures import Block, Cell, Figure, Index, Panel
    from revseq_cli.report.results import Check

LIMITS = Limits(1000, tables=100)  # so that the page stays small
_LONGEST_NAME = 200  # characters of a file's name, of which the last ones are shown
_LONGEST_TEXT, _MOST_NOTES = 2000, 20

_STYLE = """
:root { color-scheme: light dark }
* { box-sizing: border-box }
body { margin: 0; font: 16px/1.5 "Segoe UI", system-ui, -apple-system, "Helvetica Neue", Arial, sans-serif }
main { max-width: 1280px; margin: 0 auto; padding: 16px 24px 72px; overflow-wrap: anywhere }
h1 { font-size: 26px; line-height: 1.25; margin: 16px 0 8px }
h2 { font-size: 20px; margin: 32px 0 8px }
h3 { font-size: 16px; margin: 0 }
p { margin: 4px 0 }
code, .tensor table, caption { font-family: Consolas, "SF Mono", Menlo, "DejaVu Sans Mono", monospace; font-size: 14px }
.tensors { display: flex; gap: 24px 32px; align-items: flex-start }
.tensor { max-width: 100%; min-width: min(100%, 190px) }
.scroll { overflow: auto; max-height: 70vh; max-width: 100%; position: relative }
@media (max-width: 900px) { .tensors { flex-direction: column } }
table { border-collapse: collapse; margin: 8px 0; overflow-wrap: normal }
caption { text-align: left; padding: 2px 0 }
th, td { border: solid; border-width: 1px 0; padding: 4px 11px; text-align: left; vertical-align: top }
table { border: 1px solid }
th { font-weight: 600 }
.tensor th { font-weight: 400 }
.tensor th[scope=row] { position: sticky; left: 0 }
.tensor th, .tensor td { text-align: right; white-space: pre }
.reversed, .clamped, .different, .fail { font-weight: 700 }
td a { color: inherit; text-decoration: underline dotted; text-underline-offset: 3px }
a:focus-visible, .scroll:focus-visible { outline: 2px solid; outline-offset: 2px }
.from { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
a:hover > .from, a:focus > .from { position: fixed; z-index: 1; left: 0; bottom: 0; width: 100%; height: auto;
  clip-path: none; padding: 10px 24px; border-top: 1px solid; font-weight: 400; text-align: left;
  white-space: normal; overflow-wrap: anywhere; pointer-events: none }
a:hover > .from { z-index: 2 }
ul { list-style: none; margin: 8px 0; padding: 0 }
li span { display: inline-block; padding: 0 8px; margin-right: 8px; border: 1px solid transparent }
td { outline-offset: -3px }
td:target { outline: 3px solid }
"""


def page(figure: Figure, check: Check) -> str:
    """The whole page."""
    level = next(iter(check.constraints))
    style = "".join([_STYLE, *_colors(palette.LIGHT), "@media (prefers-color-scheme: dark) {\n"])
    style += "".join([*_colors(palette.DARK), "}\n", *_pointing(figure)])
    html = element(
        "html", element("head", *_head(figure, style)),
        element(
            "body",
            element(
                "main",
                element("h1", figure.title),
                element("p", f"{checks.verdict_of(level, check.constraints[level])}."),
                *_tensors(figure),
                *_about(check),
                *_constraints(check, level),
                element("p", f"Written by revseq {revseq_cli.__version__}.", class_="quiet"),
            ),
        ),
        lang="en",
    )  # fmt: skip
    return "<!DOCTYPE html>\n" + ElementTree.tostring(html, encoding="unicode", method="html") + "\n"


def _colors(colors: palette.Palette) -> Iterator[str]:
    """The rules that have colours."""
    yield f"body, .from, .tensor th {{ background: {colors.ground}; color: {colors.text} }}\n"
    yield f".quiet, .tensor th, caption {{ color: {colors.quiet} }}\n"
    yield f"table, th, td, .from {{ border-color: {colors.line} }}\n"
    yield f".fail {{ color: {colors.marks[DIFFERENT][1]} }}\n"
    yield f"td, a:focus-visible, .scroll:focus-visible {{ outline-color: {colors.arrow} }}\n"
    for mark, (ground, text) in colors.marks.items():
        yield f".{mark} {{ background: {ground}; color: {text} }}\n"


def _pointing(figure: Figure) -> Iterator[str]:
    """For each element that has moved: while its link is pointed at, the element that it comes from is outlined."""
    numbers = _numbers(figure.panels[0])
    for cell in figure.panels[-1].cells():
        if cell.origin in numbers:
            name = f"i{numbers[cell.origin]}"
            yield f'main:has([href="#{name}"]:is(:hover,:focus)) #{name} {{ outline: 3px solid }}\n'


def _numbers(panel: Panel) -> dict[Index | None, int]:
    """The number of each shown element, for its name on the page."""
    return {cell.at: n for n, cell in enumerate(panel.cells())}


def _head(figure: Figure, style: str) -> Iterator[Element]:
    """The title and the style, and what forbids the page to load or to run anything else."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    yield element("meta", charset="utf-8")
    yield element("meta", http_equiv="Content-Security-Policy", content=policy)
    yield element("meta", name="viewport", content="width=device-width, initial-scale=1")
    yield element("title", figure.title)
    yield element("style", style)


def _tensors(figure: Figure) -> Iterator[Element]:
    """The tensors side by side, and what their marks mean."""
    yield element("h2", "Tensors")
    numbers = _numbers(figure.panels[0])
    tensors = (_tensor(panel, n, numbers) for n, panel in enumerate(figure.panels))
    yield element("div", *tensors, class_="tensors")
    if figure.legend:
        yield element(
            "ul",
            *(element("li", element("span", "1", class_=mark), text) for mark, text in figure.legend.items()),
        )


def _tensor(panel: Panel, number: int, numbers: Mapping[Index | None, int]) -> Element:
    """A tensor: its desc and its tables, in a part of the page that scrolls."""
    tables = [element("p", "...") if block is None else _table(block, number, numbers) for block in panel.blocks]
    told = panel.told if panel.blocks else "no elements"
    return element(
        "div",
        element("h3", panel.name),
        element("p", element("code", f"{braced(panel.desc.sizes)} {panel.desc.data_type.name}"), class_="quiet"),
        element(
            "div", *tables, class_="scroll", id=f"tensor{number}", role="region", tabindex="0", aria_label=panel.name
        ),
        *(element("p", each, class_="quiet") for each in [told] if each),
        class_="tensor",
    )


def _table(block: Block, number: int, numbers: Mapping[Index | None, int]) -> Element:
    """A table of the tensor with that number, with the numbers of rows and columns."""
    has_labels = any(row and row.label for row in block.rows)
    head = [element("td") if label is None else element("th", label, scope="col") for label in block.columns]
    rows = []
    for row in block.rows:
        cells = row.cells if row else [None] * len(block.columns)
        made = [_cell(cell, number, numbers) for cell in cells]
        if has_labels:
            made.insert(0, element("th", row.label, scope="row") if row else element("td", "..."))
        rows.append(element("tr", *made))
    return element(
        "table",
        *(element("caption", each) for each in [block.caption] if each),
        *(element("thead", element("tr", *([element("td")] * has_labels), *head)) for _ in [0] if any(block.columns)),
        element("tbody", *rows),
    )


def _cell(cell: Cell | None, number: int, numbers: Mapping[Index | None, int]) -> Element:
    """A cell: one of the input has a name; one that has moved is a link, of which a part is hidden at first."""
    if cell is None:
        return element("td", "...")
    attributes = {"class_": cell.mark} if cell.mark else {}
    if number == 0:
        attributes["id"] = f"i{numbers[cell.at]}"
    if not cell.origin:
        return element("td", cell_text(cell), **attributes)
    target = f"i{numbers[cell.origin]}" if cell.origin in numbers else "tensor0"
    hidden = "" if cell.origin in numbers else ", which is not shown"
    told = f" at {[*cell.at]} comes from {[*cell.origin]}{hidden}"
    whole = element("span", element("b", cell.text, aria_hidden="true"), told, class_="from")
    link = element("a", cell.text, whole, href=f"#{target}")
    return element("td", link, **attributes)


def _about(check: Check) -> Iterator[Element]:
    """What is said of axes, lengths and levels, and notes."""
    yield element("h2", "Job")
    descs = {INPUT: check.values, LENGTHS: check.lengths}
    rows = {tensor: f"{desc} {_tail(check.names[tensor])}" for tensor, desc in descs.items()}
    rows |= {**checks.about_lines(check), "lowest level": checks.lowest(check.lowest)}
    rows |= {f"note {n}" if n > 1 else "note": spelled(note) for n, note in enumerate(check.notes[:_MOST_NOTES], 1)}
    if (more := len(check.notes) - _MOST_NOTES) > 0:
        rows["notes"] = f"{more:,} more"
    yield _plain_table([], [[name, _cut(text)] for name, text in rows.items()], "Job")


def _constraints(check: Check, level: FeatureLevel) -> Iterator[Element]:
    """The constraints of the job's level, and what all levels say of each."""
    yield element("h2", f"Constraints of {level}" if level in DIRECTML else "Constraints without a feature level")
    rows = [
        [each.label(), each.found, each.wanted, each.rule, checks.PASS if each.ok else checks.FAIL]
        for each in check.constraints[level]
    ]
    yield _plain_table(["constraint", "found", "wanted", "rule", "result"], rows, "Constraints")
    yield element("h2", "Feature levels")
    groups, words = checks.matrix({each: check.constraints[each] for each in DIRECTML})
    heads = [f"{group[0].short} to {group[-1].short}" if group[1:] else group[0].short for group in groups]
    yield _plain_table(["constraint", *heads], [[label, *row] for label, row in words.items()], "Feature levels")
    if any(checks.MISSING in row for row in words.values()):
        yield element("p", checks.LEGEND, class_="quiet")


def _plain_table(heads: list[str], rows: list[list[str]], name: str) -> Element:
    """A table whose rows begin with what they are about."""
    head = [element("thead", element("tr", *(element("th", each, scope="col") for each in heads)))] if heads else []
    body = element(
        "tbody",
        *(
            element("tr", element("th", label, scope="row"), *(_word(_cut(each)) for each in texts))
            for label, *texts in rows
        ),
    )
    return element("div", element("table", *head, body), class_="scroll", role="region", tabindex="0", aria_label=name)


def _word(text: str) -> Element:
    return element("td", text, class_="fail") if text == checks.FAIL else element("td", text)


def _cut(text: str) -> str:
    """The text, without the end of a very long one, so that the page stays small."""
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."


def _tail(name: str) -> str:
    """The name of a file, without the start of a very long one."""
    return name if len(name) <= _LONGEST_NAME else f"...{name[-_LONGEST_NAME:]}"
