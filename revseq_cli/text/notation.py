"""The bracket notation of Microsoft's reference pages, parsed to tensors and attribute lines, and printed.

    Name: (Sizes:{1,1,3,4}, DataType:FLOAT32)
    [[[[1,  2,  3,  4],
       [5,  6,  7,  8],
       [9, 10, 11, 12]]]]

    Axis: 3

Comments run from // to the end of the line. Nothing here knows which labels an operator uses.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import re
import string
import unicodedata
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.core.errors import FormatError, UsageError
from revseq_cli.core.tensors import MOST_DIMENSIONS, DataType, TensorDesc, braced
from revseq_cli.text import literals
from revseq_cli.text.markup import BREAK, without_markup
from revseq_cli.text.places import Lines, error_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from revseq_cli.text.places import PlacedError

# Possessive: two runs of blanks side by side would take time that is quadratic in them.
_LABEL = rf"(?:^|{BREAK})[ \t\f\v]*+(?:[-*+][ \t]++)?(?P<name>[A-Za-z_]\w*+(?:\[\d++\])?)[ \t]*+"
_NAME = _LABEL + r"[:=][ \t]*+"
# The start of a header; where the rest is no header, reading that tensor is an error. A colon may be missing.
_HEADER_START = re.compile(_LABEL + r"(?:[:=][ \t]*+\(?|\()\s*+Sizes\s*+[:={]", re.MULTILINE)
_HEADER = re.compile(
    _NAME + r"\(\s*+Sizes\s*+[:=]\s*+\{(?P<sizes>[^{}]*+)\}[\s,]*+DataType\s*+[:=]\s*+(?P<type>\w++)\s*+\)",
    re.MULTILINE,
)
# A line that is meant as a header, and is none: its name has several words or is translated, its parts have another
# order, or other brackets; or only a name stands there, and rows follow below it.
_MEANT = re.compile(
    rf"(?:^|{BREAK})[ \t\f\v]*+(?:(?:[-*+]|\#{{1,6}})[ \t]++)?(?P<name>[^\W\d][\w.-]*+(?:[ \t][\w.-]++){{0,4}}+)[ \t]*+"
    r"(?:[:=\uff1a][ \t]*+[(\[{\uff08]?|[(\uff08])\s*+(?:Sizes?|DataType)\s*+[:={\uff1a\uff5b]",
    re.MULTILINE | re.IGNORECASE,
)
_NAMED = re.compile(
    rf"(?:^|{BREAK})[ \t\f\v]*+(?:(?:[-*+]|\#{{1,6}})[ \t]++)?(?P<name>\w*Tensor)[ \t]*+"
    rf"(?:[:=\uff1a(\uff08][^\n\[\]{BREAK}]{{0,200}}+)?(?=[\s{BREAK}]{{1,1000}}\[[\[\s]{{0,64}}[-+.\d])",
    re.MULTILINE,
)
_MARKS_OF_HEADERS = ("Sizes", "sizes", "DataType", "Tensor")  # each is found quickly, since most of a text is numbers
_MORE_ROWS = re.compile(r"(?:[ \t]*[\],]+|[ \t]*\n[ \t]*\[[-+.\d\w\[\], \t]*(?=\n|\Z))+")
_BRACES = re.compile(r"\s*([({\uff3b\uff5b][-+.\w\s,(){}\uff3b\uff3d\uff5b\uff5d]{0,100000}[)}\uff3d\uff5d])")
_BESIDE = re.compile(r"[ \t]*\n[ \t]*\S")  # on the next line
_COLON = re.compile(r"[ \t]*[:=\uff1a]")
_ROWS = re.compile(r"\s*+[\[{\uff3b]")
_LINE_END = re.compile(rf"[\n{BREAK}]")
_HEADER_FORM = "Name: (Sizes:{1,3}, DataType:FLOAT32)"
_ALONE = f"one tensor, or several with a header each, such as {_HEADER_FORM}"
# A colon of full width is part of the value, and makes it one that nothing accepts.
_ATTRIBUTE = re.compile(_LABEL + rf"(?:[:=][ \t]*+|(?=\uff1a))(?P<value>\S[^\n{BREAK}]*)", re.MULTILINE)
# The start of a text that is one tensor; a text that begins with [Home](index.md) is a page.
_BARE = re.compile(r"\s*\[[\s\[]*(?:[-+.\d\"]|(?:nan|inf|infinity)\b)", re.IGNORECASE)
# A line with more than blanks, and one that may be a row of a tensor.
_LINE = re.compile(r"[^\s][^\n]*")
_ROW = re.compile(r"[\[\],\"]|[+-]?(?:[\d.]|nan|inf)", re.IGNORECASE)
_FOREIGN = re.compile(r"(?![0-9])\d")  # a digit of another script, or of full width
_WORD = re.compile(r"[^\s,}]+")
_DASHES = "\u2010\u2011\u2012\u2013\u2212"
_CODED = re.compile(r"\s*(&#0*91;|&#x0*5b;|&lbrack;|&lsqb;)", re.IGNORECASE)
_STRAY = re.compile(r"[\s,]*\]")
_CONTROL = re.compile(rf"[^\S \t\n{BREAK}]|[\x00-\x08\x0e-\x1d\x1f\x7f]")
_QUOTED_SPECIAL = re.compile(r'"([+-]?(?:nan|inf|infinity)|nan\(0x[0-9a-f]+\))"', re.IGNORECASE)

# A tensor as NumPy and PyTorch print it.
# What stands behind the list; of PyTorch's, only the data type counts.
_STATED_TYPE = r"dtype=(?:\w+\.)?['\"]?(\w+)['\"]?"
_ARGUMENT = rf"\s*,\s*(?:{_STATED_TYPE}|device=['\"][\w:]+['\"]|grad_fn=<[^<>]*>|requires_grad=(?:True|False))"
_START_OF_CALL = re.compile(r"\s*(?:(?:np|numpy|torch)\.)?(?:array|tensor)\(\s*(?=\[)")
_CALL = re.compile(rf"{_START_OF_CALL.pattern}(\[.*\])(?:{_ARGUMENT})*\s*,?\s*\)\s*", re.DOTALL)
# Blanks between two numbers, or two rows; NumPy's print() has no commas.
_BLANKS = re.compile(r"(?<=[^\s\[])\s+(?=[^\s\]])")
_POINT = re.compile(r"(?<=\d)\.(?=\D|$)")  # JSON has no 1. but 1.0

DOTS = "..."  # for what is left out
MOST_TENSORS = 500_000  # of a text, so that a list of headers alone takes less than a gigabyte; pages have some dozens

_OPEN, _CLOSE, _COMMA, _NUMBER, _BLANK, _BAD = range(6)
_NUMERALS = f"+-.(){string.digits}{string.ascii_letters}"  # the characters of numbers
_CHARACTERS = {_OPEN: "[", _CLOSE: "]", _COMMA: ",", _NUMBER: _NUMERALS, _BLANK: f" \t\r\n{BREAK}"}
# The kind of each character, by its code.
_KINDS = bytes(next((kind for kind, own in _CHARACTERS.items() if chr(code) in own), _BAD) for code in range(256))
_OUT_OF_PLACE = {
    (_NUMBER, _NUMBER): "a comma is missing before this number",
    (_OPEN, _CLOSE): "an empty row; a tensor without elements needs a header that says its sizes",
    (_COMMA, _COMMA): "a number is missing before this comma",
    (_OPEN, _COMMA): "a number is missing before this comma",
    (_NUMBER, _OPEN): "a row starts beside a number",
    (_CLOSE, _NUMBER): "a number stands beside a row",
}
# Anything else may follow anything: a comma may be missing between two rows, and may trail before a bracket.
_MAY_FOLLOW = np.ones((4, 4), dtype=bool)
_MAY_FOLLOW[tuple(zip(*_OUT_OF_PLACE, strict=True))] = False


@dataclass(frozen=True)
class Attribute:
    """A line such as `Axis: 3`, which begins at `start`."""

    name: str
    value: str
    start: int


@dataclass(frozen=True)
class TensorText:
    """One tensor of a text, not yet parsed: its header begins at `start`, and its body is text[opened:stop].

    `text` is the whole text with blanks for comments and markup. A tensor without a header has no name, and a header
    without a body has opened == stop. `line` counts from 1. What is wrong with header or body is an error only when
    `desc` or `values` is asked for, since pages have examples of other operators, too.
    """

    name: str
    line: int
    text: str
    start: int
    opened: int
    stop: int

    @functools.cached_property
    def desc(self) -> TensorDesc | None:
        """Data type and sizes of the header, None without one; FormatError for what no tensor has."""
        return _desc(self.text, self.start) if self.name else None

    def values(self, data_type: DataType, dtype: np.dtype[Any]) -> NDArray[Any]:
        """The values, as an array of the tensor's sizes and of `dtype`, which is that of `data_type`.

        FormatError, with line, column and a caret, for a body that is no tensor, that does not have the header's sizes,
        or that has a number which the data type cannot hold.
        """
        desc = self.desc
        if self.opened == self.stop:
            if coded := _CODED.match(self.text, self.stop):
                raise error_at(self.text, coded.start(1), f"{coded[1]} is not read in a block of code", "write [")
            raise error_at(self.text, self.start, f"{self.name} has no values", "rows in brackets below the header")
        if desc and 0 in desc.sizes and not re.search(r"[^\[\],\s]", self.text[self.opened : self.stop]):
            return literals.empty(desc.sizes, dtype)
        shape, numbers, places = _read_body(self)
        if stray := _STRAY.match(self.text, self.stop):
            wanted = "one more [ before it, or no ] here"
            raise error_at(self.text, stray.end() - 1, "this bracket closes nothing", wanted)
        try:
            flat = literals.parse(_numbers(numbers), dtype, data_type.name)
        except literals.LiteralError as e:
            raise error_at(self.text, self.opened + places[e.index], e.problem) from None
        return flat.reshape(self._sizes(desc, shape))

    def header_spans(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Where the sizes and the data type begin and end in the text; FormatError for a header that has none."""
        if not (header := _HEADER.match(self.text, self.start)):
            raise _no_header(self.text, self.start)
        return header.span("sizes"), header.span("type")

    def label_span(self) -> tuple[int, int]:
        """Where its name begins and ends in the text."""
        start = self.text.index(self.name, self.start)
        return start, start + len(self.name)

    def unread_header(self) -> tuple[int, int] | None:
        """From its name to the end of what stands in the place of a header; None where it has one."""
        if _HEADER.match(self.text, self.start):
            return None
        start, end = self.label_span()
        return start, max(end, start + len(self.text[start : _line_end(self.text, end)].rstrip()))

    def rows_span(self) -> tuple[int, int]:
        """Where its rows begin and end in the text, with those that are cut off by a bracket too many.

        Where there are none, this is the end of its header; FormatError where something else stands there.
        """
        if self.opened < self.stop:
            rest = _MORE_ROWS.match(self.text, self.stop)
            stop = rest.end() if rest else self.stop
            return self.opened, self.opened + len(self.text[self.opened : stop].rstrip())
        braces = _BRACES.match(self.text, self.stop)
        if not braces and _BESIDE.match(self.text, self.stop):
            raise error_at(self.text, self.start, f"unexpected text below {self.name}", "rows in brackets")
        return braces.span(1) if braces else (self.stop, self.stop)

    def spans(self) -> list[tuple[int, int]]:
        """Where each number begins and ends in the text, in C order; FormatError for a body that is no tensor."""
        _, numbers, places = _read_body(self)
        starts = (places + self.opened).tolist()
        return [(start, start + len(number)) for start, number in zip(starts, _numbers(numbers), strict=True)]

    def shape(self) -> tuple[int, ...]:
        """The sizes of the rows; FormatError for a body that is no tensor."""
        return _read_body(self)[0]

    def _sizes(self, desc: TensorDesc | None, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The header's sizes; FormatError where the body has others. Leading sizes of 1 need no brackets."""
        if desc is None:
            return shape
        sizes, rank = desc.sizes, len(shape)
        if sizes[-rank:] == shape and prod(sizes[:-rank]) == 1:
            return sizes
        (start, _), _ = self.header_spans()
        found = f"the header of {self.name} says {braced(sizes)}; the values have {braced(shape)}"
        raise error_at(self.text, start, found)


def parse(text: str) -> Iterator[TensorText | Attribute]:
    """Every tensor and attribute line of a text, in order; a text that begins with a bracket is one tensor.

    FormatError for a text that has more than MOST_TENSORS, or anything behind the last bracket of its one tensor.
    """
    text = without_markup(text)
    headers = list(itertools.islice(_headers(text), MOST_TENSORS + 1))
    if _BARE.match(text) or (not headers and text.lstrip()[:1] == "["):
        yield _bare(text)
        return
    if len(headers) > MOST_TENSORS:
        raise FormatError(f"holds more than {MOST_TENSORS} tensors", "a page with some examples")
    lines = Lines(text)
    end = 0
    for i, match in enumerate(headers):
        yield from _attributes(text, end, match.start())
        limit = headers[i + 1].start() if i + 1 < len(headers) else len(text)
        header = _HEADER.match(text, match.start())
        end = header.end() if header else min(_line_end(text, match.end()), limit)
        opened = stop = end
        bracket = re.compile(r"\[|\S[^\n]*").search(text, end, limit)
        if bracket and bracket[0] == "[":
            opened = bracket.start()
            stop = _body_end(text, opened, limit) or _last_row_end(text, opened, limit)
        elif header and bracket and not header["sizes"].strip() and bracket[0][0] in "+-.0123456789ni":
            opened, stop = bracket.span()
        yield TensorText(match["name"], lines.line(match.start("name")), text, match.start(), opened, stop)
        end = max(stop, end)
    yield from _attributes(text, end, len(text))


def _headers(text: str) -> Iterator[re.Match[str]]:
    """The start of each header: the word Sizes is searched first, then its line, since most of a text is numbers."""
    line, behind, stop = -1, 0, 0
    found = (re.finditer(mark, text) for mark in _MARKS_OF_HEADERS)
    for word in heapq.merge(*found, key=lambda word: word.start()):
        end = word.start()
        while end and text[end - 1].isspace():
            end -= 1
        if end and text[end - 1] in "([{\uff08":
            end -= 1
        # From the last one on, so that time is linear. A mark is the first character of its line.
        begins = max(text.rfind("\n", behind, end) + 1, text.rfind(BREAK, behind, end)) or max(line, 0)
        if begins > line and begins >= stop and (header := _header_start(text, begins)):
            yield header
            stop = header.end()
        line, behind = begins, end


def _header_start(text: str, begins: int) -> re.Match[str] | None:
    """The start of the header on the line that begins there, or of what is meant as one.

    What a command prints of a tensor is none: it has neither a colon nor rows.
    """
    header = _HEADER_START.match(text, begins) or _MEANT.match(text, begins) or _NAMED.match(text, begins)
    if header and not _COLON.match(text, header.end("name")) and not _ROWS.match(text, _line_end(text, header.end())):
        return None
    return header


def _line_end(text: str, start: int) -> int:
    """Where the line of that place ends: at a line break, or a mark."""
    match = _LINE_END.search(text, start)
    return match.start() if match else len(text)


def _bare(text: str) -> TensorText:
    """The tensor of a text that is one tensor."""
    tensor = body_at(text, len(text) - len(text.lstrip()))
    if rest := re.search(r"\S", text[tensor.stop :]):
        raise error_at(text, tensor.stop + rest.start(), "unexpected text after the last bracket", _ALONE)
    return tensor


def body_at(text: str, start: int) -> TensorText:
    """The tensor without a header whose body begins there: in brackets, or a number or a word alone."""
    if text.startswith("[", start):
        stop = _body_end(text, start, len(text)) or len(text)
    else:
        word = _WORD.match(text, start)
        stop = word.end() if word else len(text)
    return TensorText("", 1, text, start, start, stop)


def _attributes(text: str, start: int, stop: int) -> Iterator[Attribute]:
    for line in _ATTRIBUTE.finditer(text, start, stop):
        yield Attribute(line["name"], line["value"].rstrip(), line.start("name"))


def _no_header(text: str, start: int) -> PlacedError:
    """The error for what is meant as a header and is none, with what stands there."""
    meant = _header_start(text, start)
    name, end = (meant["name"], meant.end("name")) if meant else ("", start)
    there = text[end : _line_end(text, end)].strip(" \t:=\uff1a")
    found = f"{name} has no header of a tensor{f', but {there[:60]}' * bool(there)}"
    return error_at(text, meant.start("name") if meant else start, found, _HEADER_FORM.replace("Name", name or "Name"))


def _desc(text: str, start: int) -> TensorDesc:
    """Data type and sizes of the header that begins there."""
    header = _HEADER.match(text, start)
    if not header:
        raise _no_header(text, start)
    name = header["name"]
    if foreign := _FOREIGN.search(header["sizes"]):
        raise error_at(text, header.start("sizes") + foreign.start(), *_about(foreign[0]))
    try:
        sizes = tuple(int(size) for size in header["sizes"].split(",")) if header["sizes"].strip() else ()
    except ValueError:
        found = f"{name} has Sizes {{{header['sizes'][:40]}}}"
        raise error_at(text, header.start("sizes"), found, "integers") from None
    if min(sizes, default=0) < 0 or len(sizes) > MOST_DIMENSIONS:
        wrong, wanted = f"{name} has Sizes {braced(sizes)[:200]}", f"at most {MOST_DIMENSIONS} sizes of at least 0"
        raise error_at(text, header.start("sizes"), wrong, wanted)
    try:
        return TensorDesc(DataType.parse(header["type"]), sizes)
    except UsageError as e:
        raise error_at(text, header.start("type"), e.found, e.wanted) from None


def _body_end(text: str, start: int, limit: int) -> int | None:
    """The place behind the bracket that closes the one at `start`; None where none does."""
    codes = np.frombuffer(text[start:limit].encode("ascii", "replace"), np.uint8)  # a byte for each character
    brackets = np.flatnonzero((codes == ord("[")) | (codes == ord("]")))
    depth = np.cumsum(np.where(codes[brackets] == ord("["), 1, -1))
    closed = np.flatnonzero(depth == 0)
    return start + int(brackets[closed[0]]) + 1 if closed.size else None


def _last_row_end(text: str, start: int, limit: int) -> int:
    """The end of the last line that looks like a row, of a body that is never closed: what follows is no part of it."""
    stop = start
    for line in _LINE.finditer(text, start, limit):
        if not _ROW.match(line[0]):
            break
        stop = line.end()
    return stop


def _numbers(body: str) -> list[str]:
    """The numbers of a body that has blanks for brackets."""
    return body.replace(",", " ").split()


def _read_body(tensor: TensorText) -> tuple[tuple[int, ...], str, NDArray[np.intp]]:
    """A body's shape, its text with blanks for brackets, and the place of each number in it."""
    body = tensor.text[tensor.opened : tensor.stop]
    if body.count("[") != body.count("]"):
        if control := _CONTROL.search(body):  # its bracket, as in ESC [ 31 m, was taken for one
            raise error_at(tensor.text, tensor.opened + control.start(), f"{control[0]!r} is not allowed in a tensor")
        raise _never_closed(tensor, body)
    if '"' in body:  # JSON writes "nan" in quotes
        body = _QUOTED_SPECIAL.sub(lambda special: f" {special[1]} ", body)
    kinds = np.frombuffer(body.encode("ascii", "replace").translate(_KINDS), np.uint8)
    bad = np.flatnonzero(kinds == _BAD)
    if bad.size:
        raise error_at(tensor.text, tensor.opened + int(bad[0]), *_about(body[bad[0]]))
    keep = kinds != _BLANK
    keep[1:] &= ~((kinds[1:] == _NUMBER) & (kinds[:-1] == _NUMBER))  # a number counts where it starts
    places = np.flatnonzero(keep)
    kinds = kinds[places]
    wrong = np.flatnonzero(~_MAY_FOLLOW[kinds[:-1], kinds[1:]])
    if wrong.size:
        i = int(wrong[0])
        raise error_at(tensor.text, tensor.opened + int(places[i + 1]), _OUT_OF_PLACE[int(kinds[i]), int(kinds[i + 1])])
    shape = _shape(tensor, kinds, places)
    return shape, body.replace("[", " ").replace("]", " "), places[kinds == _NUMBER]


def plain(character: str) -> str:
    """The character of a tensor that this one was meant to be: it is of full width, a dash, or a blank; else ""."""
    if character in _DASHES:
        return "-"
    is_wide = unicodedata.east_asian_width(character) == "F"
    return unicodedata.normalize("NFKC", character) if is_wide else " " if character.isspace() else ""


def _about(character: str) -> tuple[str, str]:
    """What is wrong with a character in a tensor, and what is right."""
    if _FOREIGN.match(character):
        kind = "a full-width digit" if unicodedata.east_asian_width(character) == "F" else "none of the digits 0 to 9"
        return f"{character!r} is {kind}; write {int(character)}", ""
    right = plain(character).strip()
    return f"{character!r} is not allowed in a tensor", f"write {right}" if right else ""


def _never_closed(tensor: TensorText, body: str) -> PlacedError:
    """The error for a body with a bracket that is never closed; its place is where one is missing."""
    depth, deepest, end = 0, 0, 0
    for token in re.finditer(r"\[|\]|[^\[\],\s]+", body):
        if token[0] == "[" and depth == deepest > 0:
            return error_at(tensor.text, tensor.opened + end, "this row is never closed", "a ] here")
        depth += {"[": 1, "]": -1}.get(token[0], 0)
        deepest = deepest or depth * (token[0] not in "[]")  # that of the first number, and so of all
        end = token.end()
    found = f"{depth} brackets ] are missing" if depth > 1 else "a bracket ] is missing"
    return error_at(tensor.text, tensor.opened + end, found, f"{']' * min(depth, 64)} here")


def _shape(tensor: TensorText, kinds: NDArray[np.uint8], places: NDArray[np.intp]) -> tuple[int, ...]:
    """The body's shape; FormatError where rows of one depth differ in length, or numbers have different depths."""
    depth = np.cumsum((kinds == _OPEN).view(np.int8) - (kinds == _CLOSE).view(np.int8), dtype=np.int32)
    numbers = np.flatnonzero(kinds == _NUMBER)
    if not numbers.size:
        raise error_at(tensor.text, tensor.start, f"{tensor.name} has no values", "rows in brackets below the header")
    rank = int(depth[numbers[0]])
    if not rank:  # brackets are for tensors with dimensions
        return () if numbers.size == 1 else (numbers.size,)
    if rank > 64:
        raise error_at(tensor.text, tensor.opened, f"{rank} brackets deep", "at most 64 dimensions, and 8 in DirectML")
    shallow = numbers[depth[numbers] != rank]
    if shallow.size:
        found = f"a number {depth[shallow[0]]} brackets deep, and the first one is {rank} deep"
        raise error_at(tensor.text, tensor.opened + int(places[shallow[0]]), found)
    rows = [np.flatnonzero((kinds == _OPEN) & (depth == d)) for d in range(1, rank + 1)]
    shape = []
    for parents, children in zip(rows, [*rows[1:], numbers], strict=True):
        counts = np.bincount(np.searchsorted(parents, children) - 1, minlength=parents.size)
        odd = np.flatnonzero(counts != counts[0])
        if odd.size:
            found = f"a row of {counts[odd[0]]}, and the first one has {counts[0]}"
            raise error_at(tensor.text, tensor.opened + int(places[parents[odd[0]]]), found, "all rows of one length")
        shape.append(int(counts[0]))
    return tuple(shape)


def as_typed(text: str) -> str:
    """What NumPy or PyTorch prints, without the call around it, and with commas; "" for what is no tensor.

    Where the call states the data type, it is an object of JSON. FormatError for a call that goes on otherwise.
    """
    call = _CALL.fullmatch(text)
    if not call and _START_OF_CALL.match(text):
        wanted = "array([...]) or tensor([...]), perhaps with dtype, device and the like after the list"
        raise FormatError(f"is not a tensor as NumPy and PyTorch print it: {text[:40]}", wanted)
    rows = call[1] if call else text
    if not rows.lstrip().startswith("["):
        return ""
    if "," not in rows:
        rows = _BLANKS.sub(", ", rows.strip())
    if not (call and call[2]):
        return rows
    values = _POINT.sub(".0", rows).replace("nan", "NaN").replace("inf", "Infinity")
    return f'{{"DataType": "{call[2].upper()}", "Values": {values}}}'


def header(name: str, desc: TensorDesc) -> str:
    """The line above a body: `Name: (Sizes:{1,1,3,4}, DataType:FLOAT32)`."""
    return f"{name}: {desc}"


def body(rows: Sequence[str], sizes: tuple[int, ...], gaps: Sequence[int] = (), dots: str = DOTS) -> str:
    """A tensor's rows in brackets, one row a line; a tensor of no dimensions has no brackets, and [] has no elements.

    A row that opens k brackets is indented by (rank - k) blanks. `gaps` has a number for each dimension: `dots` stand
    after so many of its indices, for those that were left out; 0 is for a dimension that is whole.
    """
    if not rows or not sizes:
        return rows[0] if rows else "[]"
    rank = len(sizes)
    gaps = gaps or (0,) * rank
    # From the innermost dimension but one outwards: the rows of one of its indices, and of all its indices.
    spans = [prod(sizes[d + 1 : -1]) for d in range(rank - 2, -1, -1)]
    blocks = [prod(sizes[d:-1]) for d in range(rank - 2, -1, -1)]
    starts = np.arange(len(rows) + 1)
    opened = (1 + sum(((starts % block == 0) for block in blocks), np.zeros(starts.size, int))).tolist()
    before = [" " * (rank - count) + "[" * count for count in range(rank + 1)]
    after = ["]" * count + "," for count in range(rank + 1)]
    lines = [before[o] + row + after[c] for row, o, c in zip(rows, opened, opened[1:], strict=False)]
    lines[-1] = lines[-1][:-1]
    for d, (span, block) in enumerate(zip(spans, blocks, strict=True)):
        if gap := gaps[rank - 2 - d]:
            for i in range(gap * span - 1, len(rows), block):
                lines[i] += "\n" + " " * (rank - 1 - d) + dots
    return "\n".join(lines)


def aligned(
    texts: Sequence[str], width: int, gap: int = 0, mark: Callable[[int, str], str] | None = None, dots: str = DOTS
) -> list[str]:
    """Rows of `width` elements, from the elements' texts in C order, right-justified.

    The first column has its own width, and all others share one, as on the reference page. `dots` stand after `gap`
    elements, unless that is 0. `mark` may add terminal codes to a text; its first argument is the element's place in
    C order.
    """
    starts = range(0, len(texts), width)
    first = max(map(len, texts[::width]))
    if width == 1 and not mark and not gap:
        return [text.rjust(first) for text in texts]
    other = max(max(map(len, texts[start + 1 : start + width]), default=0) for start in starts)
    rows = []
    for start in starts:
        stop = start + width
        cells = [texts[start].rjust(first), *map(str.rjust, texts[start + 1 : stop], itertools.repeat(other))]
        if mark:
            cells = [
                cell[: -len(text)] + mark(i, text)
                for i, (cell, text) in enumerate(zip(cells, texts[start:stop], strict=True), start)
            ]
        if gap:
            cells.insert(gap, dots)
        rows.append(", ".join(cells))
    return rows


def rows_of(values: NDArray[Any], render: Callable[[NDArray[Any]], list[str]] = literals.render) -> list[str]:
    """A tensor's rows, aligned; `render` gives the texts of elements that are no integers.

    Integers are printed by one template for a whole row, which is faster.
    """
    if not values.ndim or not values.size:
        return render(values)
    if values.dtype.kind not in "iu":
        return aligned(render(values), values.shape[-1])
    columns = values.reshape(-1, values.shape[-1])

    def longest(part: NDArray[Any]) -> int:
        return max(len(str(part.min())), len(str(part.max()))) if part.size else 0

    first, other = longest(columns[:, :1]), longest(columns[:, 1:])
    template = f"%{first}d" + f", %{other}d" * (columns.shape[1] - 1)
    if columns.shape[1] == 1:
        return list(map(template.__mod__, columns.ravel().tolist()))
    return [template % tuple(row) for row in columns.tolist()]


def tensor_text(name: str, desc: TensorDesc, values: NDArray[Any]) -> str:
    """A tensor's header and body, without a line break at the end."""
    return f"{header(name, desc)}\n{body(rows_of(values), desc.sizes)}"
