"""Replaces markup and comments around the tensors of a page by blanks: offsets stay the same."""

from __future__ import annotations

import html
import re

from revseq_cli.text.positions import lines_of

_COMMENT = re.compile(r"//[^\n]*")
# TensorFlow's <tf.Tensor: ...> is not a tag.
_TAG = re.compile(r"<!\[CDATA\[|\]\]>|<(?!tf\.)[/!a-zA-Z][^<>]{0,1000}>")
# These tags begin or end a line, as in a browser.
_BLOCK = re.compile(
    r"</?(?:p|div|li|ul|ol|dl|dt|dd|pre|section|article|main|body|h[1-6]|tr|td|th|table|summary"
    r"|details|figure|blockquote|br|hr)\b",
    re.IGNORECASE,
)
# Inline markup shows nothing, and a word goes on after it: highlighters write -1 as
# <span>-</span><span>1</span>.
_INLINE = re.compile(
    r"</?(?:span|wbr|b|i|em|strong|code|tt|font|kbd|var|samp|mark|u)\b[^<>]{0,200}>",
    re.IGNORECASE,
)
# A word or a number with inline markup inside it.
_TORN = re.compile(
    rf"(?<![\w.+-])[\w.+-]++(?:(?:{_INLINE.pattern}){{1,20}}[\w.]++)++", re.IGNORECASE
)
_REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]\w{1,30});", re.ASCII)
# A reference such as &#46; in a word becomes its character and then fillers, so that offsets stay.
# No text has this character: it is half of a surrogate pair.
_FILLER = "\ud800"
# A word or a number with fillers inside it. Few texts have references: it is compiled when used.
_FILLED = rf"(?<![\w.+-])[\w.+-]++(?:{_FILLER}++[\w.+-]++)++"
_QUOTE = re.compile(r"^[ \t]*>[> \t]*", re.MULTILINE)


def remove_markup(text: str) -> str:
    """The text with blanks instead of comments and markup.

    Its only line breaks are line feeds. Quick searches spare long texts most of the work.
    """
    text = lines_of(text)
    if "<" in text:  # markup inside a word is removed; the word begins where it began
        text = _TORN.sub(_join_word, text)
    if "&" in text:
        text = _REFERENCE.sub(_replace_reference, text)
    if _FILLER in text:
        text = re.sub(_FILLED, _move_fillers, text).replace(_FILLER, " ")
    for mark in ("**", "`", "\xa0", "\u3000"):
        text = text.replace(mark, " " * len(mark))
    if "<" in text or ">" in text:
        text = _QUOTE.sub(_blank, _TAG.sub(_blank, text))
    if "//" in text:
        text = _COMMENT.sub(_blank, text)
    return text


def _join_word(match: re.Match[str]) -> str:
    return _INLINE.sub("", match[0]).ljust(len(match[0]))


def _blank(match: re.Match[str]) -> str:
    """Blanks and line feeds for markup; a tag that begins or ends a line becomes a line feed."""
    blanks = re.sub(r"[^\n]", " ", match[0])
    return f"\n{blanks[1:]}" if _BLOCK.match(match[0]) else blanks


def _replace_reference(match: re.Match[str]) -> str:
    """The character that an HTML reference means.

    A character of a word is followed by fillers, so that 1&#46;5 becomes 1.5 and blanks. Any other,
    such as a bracket, has the blanks before it if a word or a number follows, and else after it.
    """
    width = len(match[0])
    character = html.unescape(match[0])
    if character.isspace():
        return " " * width
    is_one = len(character) == 1 and character.isprintable()
    if not is_one or character in "<>":
        return match[0]
    if character.isalnum() or character in "_.+-":
        return character.ljust(width, _FILLER)
    after = match.string[match.end() : match.end() + 1]
    if after.isalnum() or after == ".":
        return character.rjust(width)
    return character.ljust(width)


def _move_fillers(match: re.Match[str]) -> str:
    """The word in one piece, with its fillers after it."""
    return match[0].replace(_FILLER, "").ljust(len(match[0]), _FILLER)
