"""Pages as plain text: blanks for markup and comments, so that every character stays at its place."""

from __future__ import annotations

import html
import re

_COMMENT = re.compile(r"//[^\n]*")
_TAG = re.compile(r"<!\[CDATA\[|\]\]>|<[/!a-zA-Z][^<>]{0,1000}>")
# These tags begin or end a line, as in a browser.
_BLOCK = re.compile(
    r"</?(?:p|div|li|ul|ol|dl|dt|dd|pre|section|article|main|body|h[1-6]|tr|td|th|table|summary|details|figure"
    r"|blockquote|br|hr)\b",
    re.IGNORECASE,
)
# What is no part of the text: struck-out words, the numbers of notes, and of lines.
_LEFT_OUT = re.compile(
    r"<(del|s|strike|sup)\b[^<>]{0,200}>[^<>]{0,200}</\1>|(?<![~\\])~~(?=[^\s~])[^~\n]{1,200}(?<=\S)~~(?!~)"
    r"|<(?:span|a|td|div|pre)\b[^<>]{0,200}\b(?:linenos?|lnt?|gutter|line-?numbers?)\b[^<>]{0,200}>"
    r"(?:<[^<>/][^<>]{0,200}>|[\s\d]){0,200}(?:</\w{1,8}>){1,3}",
    re.IGNORECASE,
)
# Inline markup that shows nothing itself, so that a word goes on behind it, as highlighters write -1.
_INLINE = (
    r"(?:</?(?:span|wbr|b|i|em|strong|code|tt|font|kbd|var|samp|mark|ins|u|small|big)\b[^<>]{0,200}>|\xad|\u200b|&shy;)"
)
_TORN = re.compile(rf"(?<![\w.+-])[\w.+-]++(?:{_INLINE}{{1,20}}[\w.]++)++", re.IGNORECASE)
_INLINE_TAG = re.compile(_INLINE, re.IGNORECASE)
_REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]\w{1,30});", re.ASCII)
_QUOTE = re.compile(r"^[ \t]*>[> \t]*", re.MULTILINE)


def plain(text: str) -> str:
    """The text with blanks for comments and markup, and with line feeds alone; quick searches spare long texts most."""
    if "\r" in text:
        text = text.replace("\r\n", " \n").replace("\r", "\n")
    if "<" in text or "~~" in text:
        text = _LEFT_OUT.sub(blanks, text)
    if "<" in text or "&" in text or "\xad" in text or "\u200b" in text:
        text = _TORN.sub(_joined, text)
    if "&" in text:
        text = _REFERENCE.sub(_character, text)
    for mark in ("**", "`", "\xa0", "\u3000"):
        text = text.replace(mark, " " * len(mark))
    if "<" in text or ">" in text:
        text = _QUOTE.sub(blanks, _TAG.sub(_tag, text))
    return _COMMENT.sub(blanks, text) if "//" in text else text


def blanks(match: re.Match[str]) -> str:
    """As many blanks as what was found has characters; its line breaks stay."""
    return re.sub(r"[^\n]", " ", match[0]) if "\n" in match[0] else " " * len(match[0])


def _joined(match: re.Match[str]) -> str:
    """A word without the markup in it, where it begins."""
    return _INLINE_TAG.sub("", match[0]).ljust(len(match[0]))


def _tag(match: re.Match[str]) -> str:
    blank = blanks(match)
    return f"\n{blank[1:]}" if _BLOCK.match(match[0]) else blank


def _character(match: re.Match[str]) -> str:
    """What a reference of HTML stands for, beside blanks, so that a number is not torn apart."""
    character = html.unescape(match[0])
    if character.isspace():
        return " " * len(match[0])
    if len(character) != 1 or not character.isprintable() or character in "<>":
        return match[0]
    behind = match.string[match.end() : match.end() + 1]
    return character.rjust(len(match[0])) if behind.isalnum() or behind == "." else character.ljust(len(match[0]))
