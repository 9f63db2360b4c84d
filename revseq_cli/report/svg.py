"""The parts of a picture in SVG: elements, colours, and the document around them.

Text is text, nothing is loaded, and the colours follow the reader's system, light or dark. What
differs has a hatch or a thick border besides its colour, so that it is seen without colours, too.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from string import Template

from revseq_cli.core.errors import printable

# What elements are drawn as: names of colours, and classes of the style.
COPIED = "copied"
REVERSED = "reversed"
CLAMPED = "clamped"
DIFFERENT = "different"

WIDEST = 640  # pixels: a column of text, which a phone still shows at half of its size
MARGIN = 16
SMALL = 7.4  # pixels for a character of 12 pixels, with room for wide fonts
WORD = 7.6  # for one of a sentence
_TITLE_CHARACTER = 9.12  # for one of the title
LEGEND_LINE = 22  # from one line of the legend to the next
LEGEND_TEXT = 14  # from the top of a line to the baseline of its text
SAMPLE = 32  # for the sample before a text of the legend
_WORDS_IN_LINE = int((WIDEST - 2 * MARGIN) / WORD)

_SHAPES = """
text { font: 14px Consolas, "SF Mono", Menlo, "DejaVu Sans Mono", monospace; white-space: pre }
.words, .title, .name { font-family: "Segoe UI", system-ui, -apple-system, Arial, sans-serif }
.title { font-size: 16px; font-weight: 600 } .name { font-size: 15px; font-weight: 600 }
.small { font-size: 12px } .cell { text-anchor: middle } .end { text-anchor: end }
.length { font-weight: 700 } text.reversed, text.clamped, text.different { font-weight: 700 }
path { fill: none; stroke-width: 1.5 }
"""
_COLORS = """
.ground { fill: $ground } text { fill: $text } .quiet { fill: $quiet } .length { fill: $accent }
path { stroke: $accent }
rect.copied { fill: $copied } text.copied { fill: $copied_text }
rect.reversed { fill: $reversed } text.reversed { fill: $reversed_text }
rect.clamped { fill: $clamped } text.clamped { fill: $clamped_text }
rect.different { fill: $different; stroke: $different_text; stroke-width: 2 }
text.different { fill: $different_text }
rect.bar { fill: $bar } .bars rect.different { fill: url(#hatch); stroke: none }
.hatch { fill: $wrong } path.hatch { stroke: $different; stroke-width: 2 }
"""
# For each name the light colour and the dark one. Text has at least 4.5:1 on what is below it.
PALETTE = {
    "ground": ("#ffffff", "#1f1f1f"),
    "text": ("#161616", "#e6e6e6"),
    "quiet": ("#595959", "#a8a8a8"),
    "accent": ("#0067b8", "#6cb8f6"),
    "wrong": ("#c50f1f", "#ff8087"),
    "bar": ("#7db8ea", "#2a6ca6"),
    COPIED: ("#f0f0f0", "#2d2d2d"),
    f"{COPIED}_text": ("#3d3d3d", "#cfcfcf"),
    REVERSED: ("#cfe6fa", "#10426a"),
    f"{REVERSED}_text": ("#003f73", "#c3e3ff"),
    CLAMPED: ("#fff0bf", "#4a3a08"),
    f"{CLAMPED}_text": ("#6b4900", "#ffdc84"),
    DIFFERENT: ("#fde0e3", "#4e2126"),
    f"{DIFFERENT}_text": ("#a4262c", "#ffb3b8"),
}
_HATCH = (
    '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect class="hatch" width="6" height="6"/>'
    '<path class="hatch" d="M0 0 v6"/></pattern></defs>'
)


@dataclass(frozen=True)
class Drawing:
    """A part of a picture: its elements, and its size in pixels."""

    elements: Sequence[str]
    width: float
    height: float


def tag(name: str, content: str = "", **attributes: str | float) -> str:
    """An element. In the names of attributes `_` becomes `-`, and one at the end is dropped."""
    words = ""
    for key, value in attributes.items():
        word = printable(value) if isinstance(value, str) else f"{value:g}"
        words += f' {key.rstrip("_").replace("_", "-")}="{html.escape(word)}"'
    if not content:
        return f"<{name}{words}/>"
    return f"<{name}{words}>{content}</{name}>"


def text(words: str, x: float, y: float, classes: str, role: str = "") -> str:
    """A line of text whose baseline is at y."""
    escaped = html.escape(printable(words))
    if not role:
        return tag("text", escaped, class_=classes, x=x, y=y)
    return tag("text", escaped, class_=classes, x=x, y=y, role=role)


def tooltip(words: str) -> str:
    """Words that appear when one points at an element; they are the first part of its content."""
    return tag("title", html.escape(printable(words)))


def group(elements: Sequence[str], x: float, y: float) -> str:
    """Elements, moved by (x, y)."""
    return tag("g", "\n".join(["", *elements, ""]), transform=f"translate({x:g} {y:g})")


def wrap(sentence: str) -> list[str]:
    """A sentence in lines that fit the width of the picture."""
    return textwrap.wrap(printable(sentence), _WORDS_IN_LINE) or [""]


def draw_headlines(title: str, sentences: Sequence[str]) -> Drawing:
    """A title, and the sentences below it."""
    lines = [(line, "title", _TITLE_CHARACTER) for line in wrap(title)]
    for sentence in sentences:
        lines += [(line, "words", WORD) for line in wrap(sentence)]
    elements = []
    width = 0.0
    y = 0.0
    for line, classes, character in lines:
        y += 20
        elements.append(text(line, 0, y - 5, classes))
        width = max(width, len(line) * character)
    return Drawing(elements, width, y + 8)


def document(title: str, description: Sequence[str], drawing: Drawing) -> str:
    """A whole picture; a screen reader reads the title and the description."""
    colors = Template(_COLORS)
    light = colors.substitute({name: pair[0] for name, pair in PALETTE.items()})
    dark = colors.substitute({name: pair[1] for name, pair in PALETTE.items()})
    style = f"{_SHAPES}{light}@media (prefers-color-scheme: dark) {{{dark}}}\n"
    total_width = ceil(drawing.width) + 2 * MARGIN
    total_height = ceil(drawing.height) + 2 * MARGIN
    words = "\n".join(html.escape(printable(line)) for line in description)
    body = [
        tag("title", html.escape(printable(title))),
        tag("desc", words),
        tag("style", style),
        _HATCH,
        tag("rect", class_="ground", width=total_width, height=total_height),
        group(drawing.elements, MARGIN, MARGIN),
    ]
    svg = tag(
        "svg",
        "\n".join(["", *body, ""]),
        xmlns="http://www.w3.org/2000/svg",
        width=total_width,
        height=total_height,
        viewBox=f"0 0 {total_width} {total_height}",
        style="max-width: 100%; height: auto",
        role="img",
    )
    return svg + "\n"
