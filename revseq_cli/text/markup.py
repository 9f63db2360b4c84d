"""Pages as texts without markup, where every place is as it was."""

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
# Inline markup that shows nothing itself: a word goes on behind it. A translation beside the original is another word.
_INLINE = (
    r"(?:</?(?:span|wbr|b|i|em|strong|code|tt|font|kbd|var|samp|mark|ins|u|small|big)\b(?![^<>]*sxs-lookup)[^<>]{0,1000}>"
    r"|\xad|\u200b|&(?:shy|ZeroWidthSpace|#173|#8203|#x[aA][dD]|#x200[bB]);)"
)
_TORN = re.compile(rf"(?<![\w.+-])[\w.+-]++(?:(?:{_INLINE}){{1,20}}[\w.]++)++", re.IGNORECASE)
_INLINE_TAG = re.compile(_INLINE, re.IGNORECASE)
# What is not part of the text that a reader takes in: struck-out words, the numbers of notes, and of lines.
_NAMES = r"del|s|strike|sup|span|a|td|th|div|pre|code"
_ELEMENT = re.compile(rf"<(?P<close>/?)(?P<name>{_NAMES})\b(?P<rest>[^<>]{{0,1000}})>", re.IGNORECASE)
_LEFT_OUT = {"del", "s", "strike", "sup"}
_LEFT_OUT_CLASS = re.compile(
    r"class\s*=\s*[\"']?[^\"'<>]*(?<![\w-])"
    r"(?:linenos?\w*|ln|lnt|(?:rouge-)?gutter|line-?numbers?|footnote-\w+|fn-?ref)(?![\w-])|href\s*=\s*[\"']?#(?:user-content-)?fn",
    re.IGNORECASE,
)
_STRUCK = re.compile(r"(?<![~\\])~~(?=[^\s~])[^~\n]{1,1000}(?<=\S)~~(?!~)")
_CDATA = re.compile(r"<!\[CDATA\[|\]\]>")
_REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]\w{1,30});", re.ASCII)
_QUOTE = re.compile(r"^[ \t]*>[> \t]*", re.MULTILINE)
_FENCE = re.compile(r"^[ \t>]*(`{3,}|~{3,}).*?(?:^[ \t>]*\1|\Z)", re.MULTILINE | re.DOTALL)
_MARKUP = {"\xa0": " ", "\u3000": " ", "`": " ", "**": "  ", BREAK: " "}


def without_markup(text: str) -> str:
    """The text with blanks for markup and comments; a quick search tells that a long text has none."""
    if "\r" in text:
        text = text.replace("\r\n", " \n").replace("\r", "\n")
    text = as_shown(text)
    if "&" in text:
        text = _decoded(text)
    for markup, plain in _MARKUP.items():
        if markup[0] in text:
            text = text.replace(markup, plain)
    if "<" in text or ">" in text:
        text = _QUOTE.sub(blanks, _TAG.sub(_tag, text))
    return _COMMENT.sub(blanks, text) if "/" in text else text


def as_shown(text: str) -> str:
    """The text with blanks for what is struck out or numbers notes and lines; words that inline markup tears are whole.

    The rest of a torn word is moved to its start, so that the word begins where it did.
    """
    if "<" in text:
        if "<![CDATA[" in text:
            text = _CDATA.sub(blanks, text)
        text = _without_elements(text)
    if "~~" in text:
        text = _STRUCK.sub(blanks, text)
    if any(each in text for each in ("<", "\xad", "\u200b", "&")):
        text = _TORN.sub(lambda match: _INLINE_TAG.sub("", match[0]).ljust(len(match[0])), text)
    return text


def _without_elements(text: str) -> str:
    """The text with blanks for the elements that are left out, from their start to their end."""
    parts, end = [], 0
    left_out, start, depth = "", 0, 0
    for tag in _ELEMENT.finditer(text):
        name = tag["name"].lower()
        if left_out and name == left_out:
            depth += -1 if tag["close"] else 1
            if not depth:
                parts += [text[end:start], re.sub(r"[^\r\n]", " ", text[start : tag.end()])]
                left_out, end = "", tag.end()
        elif not left_out and not tag["close"] and (name in _LEFT_OUT or _LEFT_OUT_CLASS.search(tag["rest"])):
            left_out, start, depth = name, tag.start(), 1
    return "".join([*parts, text[end:]])


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


def _character(match: re.Match[str]) -> str:
    """The character that a reference of HTML stands for, beside blanks, so that a number is not torn apart."""
    character = html.unescape(match[0])
    if character.isspace():
        return " " * len(match[0])
    if len(character) != 1 or not character.isprintable() or character in "<>":
        return match[0]
    behind = match.string[match.end() : match.end() + 1]
    return character.rjust(len(match[0])) if behind.isalnum() or behind == "." else character.ljust(len(match[0]))
