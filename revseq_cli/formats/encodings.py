"""The encoding of a text: by the mark that it begins with, by the charset that the head of a page states, or UTF-8."""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

from revseq_cli.ground.errors import FormatError

_HEAD = 4096  # bytes of a page that may state its charset; browsers look at 1024
# UTF-32's little-endian mark begins with that of UTF-16. PowerShell 5 and others write UTF-16, always with a mark.
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
# How HTML, XML and reStructuredText state a charset; each at the place where their own readers look for it.
_STATED = (
    re.compile(rb"<meta\s[^<>]{0,500}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE),
    re.compile(rb"\A\s*<\?xml\s[^<>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})"),
    re.compile(rb"\A(?:[^\n]*\n)?\.\.[^\n]{0,200}?coding[:=]\s*([\w.-]{1,40})"),
)
# Names that browsers know and Python does not.
_ALIASES = {
    "x-sjis": "shift_jis", "windows-31j": "cp932", "x-gbk": "gbk", "windows-874": "cp874", "x-x-big5": "big5",
    "x-euc-jp": "euc_jp", "iso-8859-8-i": "iso8859-8", "x-mac-cyrillic": "mac-cyrillic", "x-mac-roman": "mac-roman",
}  # fmt: skip
# The codecs of Python that decode texts of people; others undo escapes, punycode and more.
_KNOWN = re.compile(
    r"ascii|utf-(8|16|32)(-[bl]e)?|iso8859-\d+|cp(125\d|437|85\d|866|874|932|949|950)|koi8-[rtu]|mac-\w+|gb2312|gbk|gb18030|hz"
    r"|big5(hkscs)?|euc_\w+|iso2022_\w+|shift_jis\w*|johab|tis-620|ptcp154|kz1048"
)


class Encoding(NamedTuple):
    """An encoding by Python's name, and the mark before the text."""

    name: str = "utf-8"
    mark: bytes = b""

    @property
    def shown(self) -> str:
        """Its name for people, without the order of its bytes."""
        return self.name.upper().removesuffix("-LE").removesuffix("-BE")

    def decode(self, data: bytes) -> str:
        """The text, without its mark; UnicodeDecodeError for other bytes."""
        return data[len(self.mark) :].decode(self.name)

    def encode(self, text: str) -> bytes:
        """The bytes, with the mark; UnicodeEncodeError for characters that the encoding lacks."""
        return self.mark + text.encode(self.name)


def by_mark(head: bytes) -> Encoding:
    """The encoding of a text with these first bytes, as far as its mark tells it."""
    return next((Encoding(name, mark) for mark, name in _MARKS.items() if head.startswith(mark)), Encoding())


def of(data: bytes) -> Encoding:
    """The encoding of a text; FormatError for a charset that is stated, and unknown."""
    if (marked := by_mark(data)).mark:
        return marked
    head = data[:_HEAD]
    for wide in ("utf-16-le", "utf-16-be"):  # a page in UTF-16 without a mark: its first character tells the order
        if head.startswith("<".encode(wide)):
            head = head[: len(head) & ~1].decode(wide, "replace").encode("ascii", "replace")
            return Encoding(wide) if _stated(head).startswith("utf-16") else Encoding()
    name = _stated(head)
    # What could be read up to here is not UTF-16, whatever it says: browsers take it for UTF-8, too.
    return Encoding() if not name or name.startswith("utf-16") else Encoding(name)


def _stated(head: bytes) -> str:
    """The charset that the head of a page states, by Python's name; "" without one."""
    if b"<" not in head and b".." not in head:
        return ""
    match = next(filter(None, (pattern.search(head) for pattern in _STATED)), None)
    if not match:
        return ""
    stated = match[1].decode("ascii", "replace").lower()
    try:
        name = codecs.lookup(_ALIASES.get(stated, stated)).name
    except LookupError:
        name = ""
    if not _KNOWN.fullmatch(name):
        raise FormatError(f"its head says that its charset is {stated}", "a known charset, such as utf-8")
    return name
