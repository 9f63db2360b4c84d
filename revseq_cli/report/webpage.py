"""A job as a web page in one file, without scripts: the picture of its tensors, then constraints and levels.

An element that has moved is a link to the element of the input that it comes from. While it is pointed at or has the
focus, the page marks that element, and says where it is.
"""

from __future__ import annotations

import base64
import hashlib
from math import ceil
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import revseq_cli
from revseq_cli.ground.errors import shortened
from revseq_cli.operator.spec import DIRECTML, INPUT, LENGTHS
from revseq_cli.report import checks, svg
from revseq_cli.report.svg import element
from revseq_cli.report.words import spelled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from xml.etree.ElementTree import Element

    from revseq_cli.operator.spec import FeatureLevel
    from revseq_cli.report.figures import Figure
    from revseq_cli.report.results import Check
    from revseq_cli.report.svg import Piece
    from revseq_cli.report.view import Limits

_LONGEST_TEXT, _MOST_NOTES = 2000, 20  # of a cell, and of a job, so that the page stays small


def page(figure_of: Callable[[Limits], Figure], theme: str, check: Check) -> str:
    """The whole page; `figure_of` makes the figure with these limits."""
    figure, lines = svg.pieces(figure_of, linked=True)
    level = next(iter(check.constraints))
    scheme = f":root {{ color-scheme: {'light dark' if theme == 'auto' else theme} }}"
    rules, origins = [*zip(*_pointing(figure), strict=True)] or ((), ())
    style = "".join([scheme, svg.style("figure.css", theme), svg.style("page.css", theme), *rules])
    html = element(
        "html", element("head", *_head(figure, style)),
        element(
            "body",
            element(
                "main",
                element("h1", figure.title),
                element("p", f"{checks.verdict_of(level, check.constraints[level])}."),
                element("h2", "Tensors"),
                element("p", *svg.emphasized(figure.sentence, "em")),
                *(
                    element("div", *(_piece(piece, f"t{n}-{k}") for k, piece in enumerate(line)), class_="line")
                    for n, line in enumerate(lines)
                ),
                *(element("p", "Point at an element of the output to see where it comes from.", class_="quiet screen")
                  for _ in origins[:1]),
                *_about(check),
                *_constraints(check, level),
                element("p", f"Written by revseq {revseq_cli.__version__}.", class_="quiet"),
                *origins,
            ),
        ),
        lang="en",
    )  # fmt: skip
    return "<!DOCTYPE html>\n" + ElementTree.tostring(html, encoding="unicode", method="html") + "\n"


def _piece(piece: Piece, name: str) -> Element:
    """A part of the picture; a table that is wider than a small screen scrolls."""
    width, height = ceil(piece.width), ceil(piece.height)
    box = f"0 0 {width} {height}"
    drawing = element("svg", *piece.elements, class_="revseq", viewBox=box, width=width, height=height)
    if not piece.label:
        return drawing
    return element("div", drawing, id=name, class_="scroll", role="region", tabindex="0", aria_label=piece.label)


def _pointing(figure: Figure) -> Iterator[tuple[str, Element]]:
    """For each element that has moved, the rules for its link, and a line that says where it comes from.

    While the link is pointed at, the line shows, and the element that it comes from is outlined.
    """
    names = svg.names(figure)
    for cell in figure.cells(-1):
        if cell.origin:
            name = names[cell.at]
            link, shown = f"main:has(#o{name}:is(:hover, :focus))", f"#f{name}, #i{names.get(cell.origin, '')} rect"
            rules = f"{link} :is({shown}) {{ display: block; stroke: currentColor; stroke-width: 3px }}\n"
            yield rules, element("p", svg.told(cell, names), id=f"f{name}", class_="from")


def _head(figure: Figure, style: str) -> Iterator[Element]:
    """The title and the style, and what forbids the page to load or to run anything else."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    yield element("meta", charset="utf-8")
    yield element("meta", http_equiv="Content-Security-Policy", content=policy)
    yield element("meta", name="viewport", content="width=device-width, initial-scale=1")
    yield element("title", figure.title)
    yield element("style", style)


def _about(check: Check) -> Iterator[Element]:
    """What is said of axes, lengths and levels, and notes."""
    yield element("h2", "Job")
    descs = {INPUT: check.values, LENGTHS: check.lengths}
    rows = {tensor: f"{desc} {check.names[tensor]}" for tensor, desc in descs.items()}
    rows |= {**checks.about_lines(check), "lowest level": checks.lowest(check.lowest)}
    rows |= {f"note {n}" if n > 1 else "note": spelled(note) for n, note in enumerate(check.notes[:_MOST_NOTES], 1)}
    if (more := len(check.notes) - _MOST_NOTES) > 0:
        rows["notes"] = f"{more:,} more"
    yield _plain_table([], [*map(list, rows.items())], "Job")


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
    """A table whose rows begin with what they are about; on a small screen each text has its head before it."""
    head = [element("thead", element("tr", *(element("th", each, scope="col") for each in heads)))] if heads else []
    body = [
        element("tr", element("th", label, scope="row"), *map(_word, texts, heads[1:] or [""] * len(texts)))
        for label, *texts in rows
    ]
    return element("table", *head, element("tbody", *body), aria_label=name)


def _word(text: str, head: str) -> Element:
    marks = {"class_": "fail"} if text == checks.FAIL else {}
    return element("td", shortened(text, _LONGEST_TEXT), **marks, **({"data_head": head} if head else {}))
