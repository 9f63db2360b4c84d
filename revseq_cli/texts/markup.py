"""Texts without the markup that pages have around examples: every place is as it was."""

from __future__ import annotations

import html
import re

# Markup that pages have around examples. Each character of it is replaced by a blank, so that places stay as they are;
# but what begins a block of HTML begins with a mark that ends a line, as a browser does.
BREAK = "\x1e"
_COMMENT = re.compile(rf"//[^\n{BREAK}]*")
_TAG = re.compile(r"<[/!a-zA-Z][^<>]{0,1000}>")
_BLOCK_TAG = re.compile(
    r"</?(?:p|div|li|ul|ol|dl|dt|dd|pre|section|article|main|body|h[1-6]|tr|td|th|table|summary|details|figure"
    r"|blockquote|br|hr)\b",
    re.IGNORECASE,
)
# A sign that a highlighter wraps alone stands before its number again.
_ALONE = re.compile(r"([-+])((?:</?(?:span|b|i|em|strong|code|font)\b[^<>\n]{0,1000}>){1,9})(?=[\d.])", re.IGNORECASE)
_REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]\w{1,30});", re.ASCII)
_QUOTE = re.compile(r"^[ \t]*>[> \t]*", re.MULTILINE)
_FENCE = re.compile(r"^[ \t>]*(`{3,}|~{3,}).*?(?:^[ \t>]*\1|\Z)", re.MULTILINE | re.DOTALL)
_MARKUP = {"\xa0": " ", "\u3000": " ", "`": " ", "**": "  ", BREAK: " "}


def without_markup(text: str) -> str:
    """The text with blanks for markup and comments; a quick search tells that a long text has none."""
    if "\r" in text:
        text = text.replace("\r\n", " \n").replace("\r", "\n")
    if "&" in text:
        text = _decoded(text)
    for markup, plain in _MARKUP.items():
        if markup[0] in text:
            text = text.replace(markup, plain)
    if "<" in text or ">" in text:
        text = _QUOTE.sub(blanks, _TAG.sub(_tag, _ALONE.sub(_sign, text)))
    return _COMMENT.sub(blanks, text) if "/" in text else text


def _decoded(text: str) -> str:
    """The text with characters for references of HTML, but in fences of Markdown: there they stand for nothing."""
    parts, end = [], 0
    for fence in _FENCE.finditer(text):
        parts += [_REFERENCE.sub(_character, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, _REFERENCE.sub(_character, text[end:])])


def blanks(match: re.Match[str]) -> str:
    """As many blanks as what was found has characters; its line breaks stay."""
    return re.sub(r"[^\r\n]", " ", match[0])


def _tag(match: re.Match[str]) -> str:
    """What stands in place of a tag: blanks, and before them a mark where it begins or ends a block."""
    blank = blanks(match)
    return BREAK + blank[1:] if _BLOCK_TAG.match(match[0]) else blank


def _sign(match: re.Match[str]) -> str:
    """The sign right before its number."""
    return " " * len(match[2]) + match[1]


def _character(match: re.Match[str]) -> str:
    """The character that a reference of HTML stands for, beside blanks, so that a number is not torn apart."""
    character = html.unescape(match[0])
    if character.isspace():
        return " " * len(match[0])
    if len(character) != 1 or not character.isprintable() or character in "<>":
        return match[0]
    behind = match.string[match.end() : match.end() + 1]
    return character.rjust(len(match[0])) if behind.isalnum() or behind == "." else character.ljust(len(match[0]))
