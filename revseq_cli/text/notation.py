"""The bracket notation of Microsoft's reference pages, parsed to tensors and Axis lines, and places in texts.

    Name: (Sizes:{1,1,3,4}, DataType:FLOAT32)
    [[[[1,  2,  3,  4],
       [5,  6,  7,  8],
       [9, 10, 11, 12]]]]

    Axis: 3

Comments run from // to the end of the line. A text that begins with a bracket is one tensor without a header; so is
what NumPy and PyTorch print.
"""

from __future__ import annotations

import functools
import itertools
import re
import string
import unicodedata
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.core.dtypes import dtype_of
from revseq_cli.core.errors import FormatError, UsageError, printable
from revseq_cli.core.tensors import MOST_DIMENSIONS, DataType, TensorDesc, braced
from revseq_cli.text import numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


_BEFORE, _WIDTH = 40, 75  # columns of a line that are shown before a place, and in all: it fits 80, indented
_LONE_RETURN = re.compile("\r(?!\n)")


class Place(NamedTuple):
    """A place in a text: its line and its column, in characters."""

    line: int
    column: int


class Lines:
    """The lines of a text, which may end as on any system; places that are asked for in order take the least time."""

    def __init__(self, text: str) -> None:
        self._text = _LONE_RETURN.sub("\n", text) if "\r" in text else text
        self._offset, self._line = 0, 1  # of the last place

    def line(self, offset: int) -> int:
        """The line of that character."""
        if offset < self._offset:
            self._offset, self._line = 0, 1
        self._line += self._text.count("\n", self._offset, offset)
        self._offset = offset
        return self._line

    def place(self, offset: int) -> Place:
        """The line and column of that character."""
        return Place(self.line(offset), offset - self._text.rfind("\n", 0, offset))

    def shown(self, offset: int) -> str:
        """The line around that character, printable, and a caret below it."""
        start, stop = self._text.rfind("\n", 0, offset) + 1, self._text.find("\n", offset)
        line = self._text[start : stop if stop >= 0 else len(self._text)]
        return _shown_at(line.rstrip("\r"), offset - start)


class PlacedError(FormatError):
    """A FormatError about a place of a text: `offset` counts characters from 0, and `problem` is without the place."""

    def __init__(self, problem: str, wanted: str, offset: int, place: Place, context: str, where: str = "") -> None:
        super().__init__(f"line {place.line}, column {place.column}: {problem}", wanted, "", where, context)
        self.problem, self.offset, self.place = problem, offset, place

    def __reduce__(self) -> tuple[object, ...]:
        """How a worker sends it."""
        args = (self.problem, self.wanted, self.offset, self.place, self.context, self.where)
        return type(self), args, {"hint": self.hint}


def error_at(text: str, offset: int, found: str, wanted: str = "") -> PlacedError:
    """A FormatError about that place of the text: with line and column, the line itself, and a caret below it."""
    lines = Lines(text)
    return PlacedError(found, wanted, offset, lines.place(offset), lines.shown(offset))


def _shown_at(line: str, column: int) -> str:
    """The line around that column, which counts from 0, and a caret below it; long ends are left out."""
    line = line.replace("\t", " ")
    before = printable(line[max(0, column - _BEFORE) : column])
    while _width(before) > _BEFORE:
        before = before[1:]
    rest = printable(line[column : column + _WIDTH])
    behind = rest
    while _width(behind) > _WIDTH - _width(before):
        behind = behind[:-1]
    more = "..." if len(behind) < len(rest) or len(line) > column + _WIDTH else ""
    return f"{before}{behind}{more}\n{' ' * _width(before)}^"


def _width(text: str) -> int:
    """The columns that a terminal needs for the text."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


# Possessive: two runs of blanks side by side would take time that is quadratic in them.
_BEGIN = r"^[ \t\f\v]*+(?:[-*+][ \t]++)?"
_NAME = r"(?P<name>[A-Za-z_]\w*+(?:\[\d++\])?)[ \t]*+"
# The start of a header; where the rest is no header, reading that tensor is an error. A colon may be missing.
_HEADER_START = re.compile(rf"{_BEGIN}{_NAME}(?:[:=][ \t]*+\(?|\()[ \t]*+Sizes\s*+[:={{]", re.MULTILINE)
_HEADER = re.compile(
    _NAME + r"[:=][ \t]*+\([ \t]*+Sizes\s*+[:=]\s*+\{(?P<sizes>[^{}]*+)\}"
    r"[\s,]*+DataType\s*+[:=]\s*+(?P<type>\w++)\s*+\)"
)
_HEADER_FORM = "Name: (Sizes:{1,3}, DataType:FLOAT32)"
_ALONE = f"one tensor, or several with a header each, such as {_HEADER_FORM}"
_AXIS = re.compile(_BEGIN + r"(?P<axis>Axis[ \t]*+[:=][ \t]*+(?P<value>\S[^\n]*))", re.MULTILINE)
# The start of a text that is one tensor; a text that begins with [Home](index.md) is a page.
_BARE = re.compile(r"\s*\[[\s\[]*(?:[-+.\d\"]|np\.|(?:nan|inf|infinity)\b)", re.IGNORECASE)
# A line that may be a row of a tensor.
_ROW = re.compile(r"[\[\],\"]|[+-]?(?:[\d.]|nan|inf)", re.IGNORECASE)
_STRAY = re.compile(r"[\s,]*\]")
_CONTROL = re.compile(r"[^\S \t\n]|[\x00-\x08\x0e-\x1f\x7f]")
_QUOTED_SPECIAL = re.compile(r'"([+-]?(?:nan|inf|infinity)|nan\(0x[0-9a-f]+\))"', re.IGNORECASE)

# A tensor as NumPy and PyTorch print it: a call, whose list may be followed by these, and numbers such as np.int64(3).
_CALL = re.compile(r"\s*(?:(?:np|numpy|torch)\.)?(?:array|tensor)\(\s*(?=\[)")
_ARGUMENT = re.compile(
    r"\s*,\s*(?:dtype=(?:\w+\.)?['\"]?(?P<type>\w+)['\"]?|shape=\((?P<shape>[\d, ]*)\)|device=['\"][\w:]+['\"]"
    r"|grad_fn=[^,)]*|requires_grad=(?:True|False))"
)
_SCALAR = re.compile(r"\bnp\.(?P<type>[a-z]+[0-9]+)\((?P<number>[^()\[\]]*)\)")

MOST_TENSORS = 500_000  # of a text, so that a list of headers alone takes less than a gigabyte; pages have some dozens

_OPEN, _CLOSE, _COMMA, _NUMBER, _BLANK, _BAD = range(6)
_NUMERALS = f"+-.(){string.digits}{string.ascii_letters}"  # the characters of numbers
_CHARACTERS = {_OPEN: "[", _CLOSE: "]", _COMMA: ",", _NUMBER: _NUMERALS, _BLANK: " \t\r\n"}
# The kind of each character, by its code.
_KINDS = bytes(next((kind for kind, own in _CHARACTERS.items() if chr(code) in own), _BAD) for code in range(256))
_OUT_OF_PLACE = {
    (_NUMBER, _NUMBER): "a comma is missing before this number",
    (_OPEN, _CLOSE): "an empty row",
    (_COMMA, _COMMA): "a number is missing before this comma",
    (_OPEN, _COMMA): "a number is missing before this comma",
    (_NUMBER, _OPEN): "a row starts beside a number",
    (_CLOSE, _NUMBER): "a number stands beside a row",
}
# Anything else may follow anything: a comma may be missing between two rows, and may trail before a bracket.
_MAY_FOLLOW = np.ones((4, 4), dtype=bool)
_MAY_FOLLOW[tuple(zip(*_OUT_OF_PLACE, strict=True))] = False


@dataclass(frozen=True)
class AxisLine:
    """A line such as `Axis: 3`, which begins at `start`."""

    value: str
    start: int


@dataclass(frozen=True)
class TensorText:
    """One tensor of a page, not yet parsed: its header begins at `start`, and its body is text[opened:stop].

    `text` is the page with blanks for comments and markup. A tensor without a header has no name, and a header without
    a body has opened == stop. `line` counts from 1. What is wrong with header or body is an error only when `desc` or
    `values` is asked for, since pages have examples of other operators, too. `stated` has the data type and the sizes
    that JSON has beside a tensor, or NumPy and PyTorch print behind it.
    """

    name: str
    line: int
    page: str
    text: str
    start: int
    opened: int
    stop: int
    stated: tuple[DataType | None, tuple[int, ...] | None] = (None, None)

    @functools.cached_property
    def desc(self) -> TensorDesc | None:
        """Data type and sizes of the header, None without one; FormatError for what no tensor has."""
        return _desc(self) if self.name else None

    @property
    def data_type(self) -> DataType | None:
        """The data type that the text states."""
        return self.desc.data_type if self.desc else self.stated[0]

    def values(self, data_type: DataType) -> NDArray[Any]:
        """The values, as an array of the tensor's sizes.

        FormatError, with line, column and a caret, for a body that is no tensor, that does not have the stated sizes,
        or that has a number which the data type cannot hold.
        """
        sizes = self.desc.sizes if self.desc else self.stated[1]
        if self.opened == self.stop:
            raise self._error(self.start, f"{self.name} has no values", "rows in brackets below the header")
        if sizes and 0 in sizes and not re.search(r"[^\[\],\s]", self.text[self.opened : self.stop]):
            try:
                return np.empty(sizes, dtype_of(data_type))
            except ValueError:
                raise FormatError(f"Sizes is {braced(sizes)}", "smaller sizes beside the 0") from None
        shape, written, places = self._body
        if stray := _STRAY.match(self.text, self.stop):
            raise self._error(stray.end() - 1, "this bracket closes nothing", "one more [ before it, or no ] here")
        tokens = _numbers(written)
        try:
            flat = numbers.parse(tokens, data_type)
        except numbers.LiteralError as e:
            problem, wanted = e.problem, ""
            if tokens[e.index] == numbers.DOTS:
                problem, wanted = (
                    "... stands for elements that were left out",
                    "all: np.set_printoptions(threshold=1e9)",
                )
            raise self._error(self.opened + int(places[e.index]), problem, wanted) from None
        if sizes is None:
            return flat.reshape(shape)
        rank = len(shape)
        # Leading sizes of 1 need no brackets, and JSON's Values may be one flat list.
        if (sizes[-rank:] == shape and prod(sizes[:-rank]) == 1) or (not self.desc and shape == (prod(sizes),)):
            return flat.reshape(sizes)
        if not self.desc:
            raise self._error(self.opened, f"the values have {braced(shape)}, and {braced(sizes)} is stated")
        found = f"the header of {self.name} says {braced(sizes)}; the values have {braced(shape)}"
        raise self._error(self.header_spans()[0][0], found)

    def header_spans(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Where the sizes and the data type begin and end in the text; FormatError for a header that has none."""
        if not (header := _HEADER.match(self.text, self.start)):
            found = f"{self.name} has no header of a tensor"
            raise self._error(self.start, found, _HEADER_FORM.replace("Name", self.name))
        return header.span("sizes"), header.span("type")

    def rows_span(self) -> tuple[int, int]:
        """Where its rows begin and end in the text, with brackets too many; FormatError for other text there."""
        if self.opened == self.stop and re.compile(r"[ \t]*\n[ \t]*\S").match(self.text, self.stop):
            raise self._error(self.start, f"unexpected text below {self.name}", "rows in brackets")
        stray = re.compile(r"(?:[\s,]*\])*").match(self.text, self.stop)
        return self.opened, stray.end() if stray else self.stop

    def spans(self) -> list[tuple[int, int]]:
        """Where each number begins and ends in the text, in C order; FormatError for a body that is no tensor."""
        _, written, places = self._body
        starts = (places + self.opened).tolist()
        return [(start, start + len(number)) for start, number in zip(starts, _numbers(written), strict=True)]

    def shape(self) -> tuple[int, ...]:
        """The sizes of the rows; FormatError for a body that is no tensor."""
        return self._body[0]

    @functools.cached_property
    def _body(self) -> tuple[tuple[int, ...], str, NDArray[np.intp]]:
        return _read_body(self)

    def _error(self, offset: int, found: str, wanted: str = "") -> PlacedError:
        return error_at(self.page, offset, found, wanted)


def parse(page: str, text: str) -> list[TensorText | AxisLine]:
    """The tensors and Axis lines of a page, or the one tensor of a text without headers.

    `text` is the page with blanks for comments and markup. FormatError for anything behind the last bracket of that one
    tensor.
    """
    if _BARE.match(text) or _CALL.match(text) or (text.lstrip()[:1] == "[" and not any(_headers(text))):
        return [_bare(page, text)]
    return [*parse_page(page, text)]


def parse_page(page: str, text: str) -> Iterator[TensorText | AxisLine]:
    """The tensors and Axis lines of a page, which may begin with a bracket, as [TOC] does."""
    headers = list(itertools.islice(_headers(text), MOST_TENSORS + 1))
    if len(headers) > MOST_TENSORS:
        raise FormatError(f"holds more than {MOST_TENSORS} tensors", "a page with some examples")
    lines, end = Lines(page), 0
    for i, match in enumerate(headers):
        yield from _axes(text, end, match.start())
        limit = headers[i + 1].start() if i + 1 < len(headers) else len(text)
        header = _HEADER.match(text, match.start("name"))
        end = header.end() if header else min(_line_end(text, match.end()), limit)
        opened = stop = end
        first = re.compile(r"\[|\S[^\n]*").search(text, end, limit)
        if first and first[0] == "[":
            opened = first.start()
            stop = _body_end(text, opened, limit) or _last_row_end(text, opened, limit)
        elif header and first and not header["sizes"].strip() and first[0][0] in "+-.0123456789ni":
            opened, stop = first.span()
        yield TensorText(match["name"], lines.line(match.start("name")), page, text, match.start("name"), opened, stop)
        end = max(stop, end)
    yield from _axes(text, end, len(text))


def _headers(text: str) -> Iterator[re.Match[str]]:
    """The start of each header: the word Sizes is searched first, then its line, since most of a text is numbers."""
    behind, mark = 0, text.find("Sizes")
    while mark >= 0:
        start = text.rfind("\n", behind, mark) + 1
        if (start or not behind) and (header := _HEADER_START.match(text, start)):
            yield header
        behind = mark
        mark = text.find("Sizes", mark + 1)


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return end if end >= 0 else len(text)


def _axes(text: str, start: int, stop: int) -> Iterator[AxisLine]:
    for line in _AXIS.finditer(text, start, stop):
        yield AxisLine(line["value"].rstrip(), line.start("axis"))


def _bare(page: str, text: str) -> TensorText:
    """The tensor of a text that is one tensor, perhaps as NumPy or PyTorch print it."""
    data_type, sizes = "", None
    call = _CALL.match(text)
    if "np." in text and (scalar := _SCALAR.search(text)):
        data_type = scalar["type"]
        text = _SCALAR.sub(lambda match: f"{match['number']} ".rjust(len(match[0])), text)
    opened = call.end() if call else len(text) - len(text.lstrip())
    stop = end = _body_end(text, opened, len(text)) or len(text)
    if call:
        while argument := _ARGUMENT.match(text, end):
            data_type = argument["type"] or data_type
            if argument["shape"] is not None:
                sizes = tuple(map(int, argument["shape"].replace(",", " ").split()))
            end = argument.end()
        closed = re.compile(r"\s*,?\s*\)").match(text, end)
        if not closed:
            wanted = "array([...]) or tensor([...]), perhaps with dtype, device and the like after the list"
            raise error_at(
                page, min(end, max(0, len(page) - 1)), "is not a tensor as NumPy and PyTorch print it", wanted
            )
        end = closed.end()
    if rest := re.compile(r"\S").search(text, end):
        raise error_at(page, rest.start(), "unexpected text after the last bracket", _ALONE)
    stated = DataType.parse(data_type) if data_type else None
    return TensorText("", 1, page, text, opened, opened, stop, (stated, sizes))


def body_at(text: str, start: int) -> TensorText:
    """The tensor without a header whose body begins there: in brackets, or a number or a word alone."""
    if text.startswith("[", start):
        stop = _body_end(text, start, len(text)) or len(text)
    else:
        word = re.compile(r"[^\s,}]+").match(text, start)
        stop = word.end() if word else len(text)
    return TensorText("", 1, text, text, start, start, stop)


def _desc(tensor: TensorText) -> TensorDesc:
    """Data type and sizes of a header."""
    sizes_span, type_span = tensor.header_spans()
    name, written = tensor.name, tensor.text[slice(*sizes_span)]
    if not re.fullmatch(r"\s*(?:[+-]?\d{1,20}\s*(?:,\s*|$))*", written, re.ASCII):
        raise error_at(tensor.page, sizes_span[0], f"{name} has Sizes {{{written[:40]}}}", "integers")
    sizes = tuple(map(int, written.replace(",", " ").split()))
    if min(sizes, default=0) < 0 or len(sizes) > MOST_DIMENSIONS:
        wanted = f"at most {MOST_DIMENSIONS} sizes of at least 0"
        raise error_at(tensor.page, sizes_span[0], f"{name} has Sizes {braced(sizes)[:200]}", wanted)
    try:
        return TensorDesc(DataType.parse(tensor.text[slice(*type_span)]), sizes)
    except UsageError as e:
        raise error_at(tensor.page, type_span[0], e.found, e.wanted) from None


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
    for line in re.compile(r"\S[^\n]*").finditer(text, start, limit):
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
            raise error_at(tensor.page, tensor.opened + control.start(), f"{control[0]!r} is not allowed in a tensor")
        raise _never_closed(tensor, body)
    if '"' in body:  # JSON writes "nan" in quotes
        body = _QUOTED_SPECIAL.sub(lambda special: f" {special[1]} ", body)
    kinds = np.frombuffer(body.encode("ascii", "replace").translate(_KINDS), np.uint8)
    bad = np.flatnonzero(kinds == _BAD)
    if bad.size:
        raise error_at(tensor.page, tensor.opened + int(bad[0]), f"{body[bad[0]]!r} is not allowed in a tensor")
    keep = kinds != _BLANK
    keep[1:] &= ~((kinds[1:] == _NUMBER) & (kinds[:-1] == _NUMBER))  # a number counts where it starts
    places = np.flatnonzero(keep)
    kinds = kinds[places]
    wrong = ~_MAY_FOLLOW[kinds[:-1], kinds[1:]]
    if not (kinds == _NUMBER).any():  # a tensor without elements
        wrong &= (kinds[:-1] != _OPEN) | (kinds[1:] != _CLOSE)
    if not tensor.name and "," not in body:  # NumPy's print() has no commas
        wrong &= (kinds[:-1] != _NUMBER) | (kinds[1:] != _NUMBER)
    if wrong.any():
        i = int(np.flatnonzero(wrong)[0])
        raise error_at(tensor.page, tensor.opened + int(places[i + 1]), _OUT_OF_PLACE[int(kinds[i]), int(kinds[i + 1])])
    shape = _shape(tensor, kinds, places)
    return shape, body.replace("[", " ").replace("]", " "), places[kinds == _NUMBER]


def _never_closed(tensor: TensorText, body: str) -> PlacedError:
    """The error for a body with a bracket that is never closed; its place is where one is missing."""
    depth, deepest, end = 0, 0, 0
    for token in re.finditer(r"\[|\]|[^\[\],\s]+", body):
        if token[0] == "[" and depth == deepest > 0:
            return error_at(tensor.page, tensor.opened + end, "this row is never closed", "a ] here")
        depth += {"[": 1, "]": -1}.get(token[0], 0)
        if not deepest and token[0] not in "[]":
            deepest = depth  # that of the first number, and so of all
        end = token.end()
    found = f"{depth} brackets ] are missing" if depth > 1 else "a bracket ] is missing"
    return error_at(tensor.page, tensor.opened + end, found, f"{']' * min(depth, 64)} here")


def _shape(tensor: TensorText, kinds: NDArray[np.uint8], places: NDArray[np.intp]) -> tuple[int, ...]:
    """The body's shape; FormatError where rows of one depth differ in length, or numbers have different depths.

    The row that is told is one that differs from the header's size, or without one from most rows.
    """
    depth = np.cumsum((kinds == _OPEN).view(np.int8) - (kinds == _CLOSE).view(np.int8), dtype=np.int32)
    numbers = np.flatnonzero(kinds == _NUMBER)
    rank = int(depth[numbers[0]] if numbers.size else depth.max())
    if not rank:  # brackets are for tensors with dimensions
        return () if numbers.size == 1 else (numbers.size,)
    if rank > MOST_DIMENSIONS:
        wanted = f"at most {MOST_DIMENSIONS} dimensions"
        raise error_at(tensor.page, tensor.opened, f"{rank} brackets deep", wanted)
    shallow = numbers[depth[numbers] != rank]
    if shallow.size:
        found = f"a number {depth[shallow[0]]} brackets deep, and the first one is {rank} deep"
        raise error_at(tensor.page, tensor.opened + int(places[shallow[0]]), found)
    rows = [np.flatnonzero((kinds == _OPEN) & (depth == d)) for d in range(1, rank + 1)]
    sizes = (tensor.desc.sizes if tensor.desc else tensor.stated[1]) or ()
    shape = []
    for d, (parents, children) in enumerate(zip(rows, [*rows[1:], numbers], strict=True)):
        counts = np.bincount(np.searchsorted(parents, children) - 1, minlength=parents.size)
        usual = int(counts[0])
        if (counts != usual).any():
            wanted_size = sizes[d - rank] if len(sizes) >= rank else -1
            often = np.bincount(counts)
            usual = wanted_size if (counts == wanted_size).any() else int(np.flatnonzero(often == often.max())[-1])
            odd = int(np.flatnonzero(counts != usual)[0])
            found = f"a row of {counts[odd]}, and others have {usual}"
            raise error_at(tensor.page, tensor.opened + int(places[parents[odd]]), found, "all rows of one length")
        shape.append(usual)
    return tuple(shape)
