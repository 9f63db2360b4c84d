"""Elements of SVG and HTML: whatever text they get is escaped, since a tree is built and not a string."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from revseq_cli.ground.errors import printable


def element(tag: str, *children: str | Element, **attributes: str | float) -> Element:
    """An element of these children: texts, which are made printable, and elements.

    In the names of attributes, `_` stands for `-`, and one at the end is left out; a number has no more digits than it
    needs, so that a drawing is the same on every machine.
    """
    made = Element(tag)
    for name, value in attributes.items():
        text = printable(value) if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
        made.set(name.rstrip("_").replace("_", "-"), text)
    for child in children:
        if isinstance(child, Element):
            made.append(child)
        elif len(made):
            made[-1].tail = (made[-1].tail or "") + _lines(child)
        else:
            made.text = (made.text or "") + _lines(child)
    return made


def _lines(text: str) -> str:
    """The text without control characters other than line breaks; XML could not have them."""
    return "\n".join(map(printable, text.split("\n")))
