"""The bracket notation of Microsoft's reference pages, parsed to tensors and Axis lines.

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
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.core.dtypes import dtype_of
from revseq_cli.core.errors import FormatError, UsageError, printable
from revseq_cli.core.tensors import MOST_DIMENSIONS, DataType, TensorDesc, braced
from revseq_cli.text import numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


_BEFORE, _WIDTH = 40, 75  # columns of a line that are shown before a place, and in all: it fits 80, indented
MOST_TENSORS = 500_000  # of a text, so that a list of headers alone takes less than a gigabyte; pages have some dozens

# Possessive: two runs of blanks side by side would take time that is quadratic in them.
_BEGIN = r"^[ \t\f\v]*+(?:[-*+][ \t]++)?"
_NAME = r"(?P<name>[A-Za-z_]\w*+(?:\[\d++\])?)[ \t]*+"
# The start of a header; where the rest is no header, reading that tensor is an error. A colon may be missing.
_HEADER_START = re.compile(rf"{_BEGIN}{_NAME}(?:[:=][ \t]*+\(?|\()[ \t]*+Sizes\s*+[:={{]", re.MULTILINE)
_HEADER = re.compile(
    _NAME + r"[:=][ \t]*+\([ \t]*+Sizes\s*+[:=]\s*+\{(?P<sizes>[^{}]*+)\}"
    r"[\s,]*+DataType\s*+[:=]\s*+(?P<type>\w++)\s*+\)"
)
_HEADER_FORM = ": (Sizes:{1,3}, DataType:FLOAT32)"
_AXIS = re.compile(_BEGIN + r"(?P<axis>Axis[ \t]*+[:=][ \t]*+(?P<value>\S[^\n]*))", re.MULTILINE)
# The start of a text that is one tensor; a text that begins with [Home](index.md) is a page.
_BARE = re.compile(r"\s*\[[\s\[]*(?:[-+.\d\"]|np\.|(?:nan|inf|infinity|true|false)\b)", re.IGNORECASE)
# Lines that may be rows, of a body whose last bracket is missing.
_ROWS = re.compile(r"(?:[ \t]*+(?:[\[\],\"+\-.\d]|nan|inf)[^\n]*+\s*+)++", re.IGNORECASE)
_STRAY = re.compile(r"[\s,]*\]")
_ALONE = re.compile(r"\s*+([+\-.\dni][^\n]*)")
_QUOTED_SPECIAL = re.compile(r'"([+-]?(?:nan|inf|infinity)|nan\(0x[0-9a-f]+\))"', re.IGNORECASE)

# A tensor as NumPy and PyTorch print it: a call, whose list may be followed by these, and numbers such as np.int64(3).
_CALL = re.compile(r"\s*(?:(?:np|numpy|torch)\.)?(?:array|tensor)\(\s*(?=\[)")
_ARGUMENT = re.compile(
    r"\s*,\s*(?:dtype=(?:\w+\.)?['\"]?(?P<type>\w+)['\"]?|shape=\((?P<shape>[\d, ]*)\)|device=['\"][\w:]+['\"]"
    r"|grad_fn=[^,)]*|requires_grad=(?:True|False))"
)
_SCALAR = re.compile(r"\bnp\.(?P<type>[a-z]+[0-9]+)\((?P<number>[^()\[\]]*)\)")
_TRUTH = re.compile(r"(?:\bnp\.)?\b(?:(?P<true>True)|False)_?(?=[\s,\]])")

_OPEN, _CLOSE, _COMMA, _NUMBER, _BLANK, _BAD = range(6)
_CHARACTERS = {
    _OPEN: "[", _CLOSE: "]", _COMMA: ",", _NUMBER: f"+-.(){string.digits}{string.ascii_letters}", _BLANK: " \t\r\n"
}  # fmt: skip
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


class PlacedError(FormatError):
    """A FormatError about a place of a text; `problem` is without that place."""

    def __init__(
        self, problem: str, wanted: str, line: int, column: int, context: str, hint: str = "", where: str = ""
    ) -> None:
        super().__init__(f"line {line}, column {column}: {problem}", wanted, hint, where, context)
        self.problem, self.line, self.column = problem, line, column

    def __reduce__(self) -> tuple[object, ...]:
        """How a worker sends it."""
        args = (self.problem, self.wanted, self.line, self.column, self.context, self.hint, self.where)
        return type(self), args

    @property
    def message(self) -> str:
        """What is wrong there, and what is wanted."""
        return f"{self.problem}; wanted: {self.wanted}" if self.wanted else self.problem


def error_at(text: str, offset: int, found: str, wanted: str = "", hint: str = "") -> PlacedError:
    """A FormatError about that place of the text: with line and column, the line itself, and a caret below it."""
    if "\r" in text:
        text = re.sub("\r(?!\n)", "\n", text)
    start, stop = text.rfind("\n", 0, offset) + 1, text.find("\n", offset)
    line = text[start : stop if stop >= 0 else len(text)].rstrip("\r").replace("\t", " ")
    column = offset - start
    before = printable(line[max(0, column - _BEFORE) : column])[-_BEFORE:]
    behind = printable(line[column : column + _WIDTH])
    room = _WIDTH - len(before)
    more = "..." if len(behind) > room or len(line) > column + _WIDTH else ""
    context = f"{before}{behind[:room]}{more}\n{' ' * len(before)}^"
    return PlacedError(found, wanted, text.count("\n", 0, offset) + 1, column + 1, context, hint)


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
        if not self.name:
            return None
        header = _HEADER.match(self.text, self.start)
        if not header:
            raise self.error(self.start, f"{self.name} has no header of a tensor", f"{self.name}{_HEADER_FORM}")
        at = header.start("sizes")
        if not re.fullmatch(r"\s*(?:[+-]?\d{1,20}\s*(?:,\s*|$))*", header["sizes"], re.ASCII):
            raise self.error(at, f"{self.name} has Sizes {{{header['sizes'][:40]}}}", "integers")
        sizes = tuple(map(int, header["sizes"].replace(",", " ").split()))
        if min(sizes, default=0) < 0 or len(sizes) > MOST_DIMENSIONS:
            wanted = f"at most {MOST_DIMENSIONS} sizes of at least 0"
            raise self.error(at, f"{self.name} has Sizes {braced(sizes)[:200]}", wanted)
        try:
            return TensorDesc(DataType.parse(header["type"]), sizes)
        except UsageError as e:
            raise self.error(header.start("type"), e.found, e.wanted) from None

    @property
    def data_type(self) -> DataType | None:
        """The data type that the text states."""
        return self.desc.data_type if self.desc else self.stated[0]

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """The sizes that the text states."""
        return self.desc.sizes if self.desc else self.stated[1]

    def values(self, data_type: DataType) -> NDArray[Any]:
        """The values, as an array of the tensor's sizes.

        FormatError, with line, column and a caret, for a body that is no tensor, that does not have the stated sizes,
        or that has a number which the data type cannot hold.
        """
        sizes = self.sizes
        if self.opened == self.stop:
            raise self.error(self.start, f"{self.name} has no values", "rows in brackets below the header")
        if sizes and 0 in sizes and not re.search(r"[^\[\],\s]", self.text[self.opened : self.stop]):
            try:
                return np.empty(sizes, dtype_of(data_type))
            except ValueError:
                raise FormatError(f"Sizes is {braced(sizes)}", "smaller sizes beside the 0") from None
        shape, tokens, places = self.body
        if stray := _STRAY.match(self.text, self.stop):
            raise self.error(stray.end() - 1, "this bracket closes nothing", "one more [ before it, or no ] here")
        try:
            flat = numbers.parse(tokens, data_type)
        except numbers.LiteralError as e:
            problem, wanted = e.problem, ""
            if tokens[e.index] == numbers.DOTS:
                problem = "... stands for elements that were left out"
                wanted = "all: np.set_printoptions(threshold=1e9)"
            raise self.error(int(places[e.index]), problem, wanted) from None
        if sizes is None:
            return flat.reshape(shape)
        rank = len(shape)
        # Leading sizes of 1 need no brackets, and JSON's Values may be one flat list.
        if (sizes[-rank:] == shape and prod(sizes[:-rank]) == 1) or (not self.desc and shape == (prod(sizes),)):
            return flat.reshape(sizes)
        start = self.start if self.desc else self.opened
        raise self.error(start, f"the values have {braced(shape)}, and {braced(sizes)} is stated")

    @functools.cached_property
    def body(self) -> tuple[tuple[int, ...], list[str], NDArray[np.intp]]:
        """Its shape, its numbers and the place of each in the text; FormatError for a body that is no tensor."""
        body = self.text[self.opened : self.stop]
        if '"' in body:  # JSON writes "nan" in quotes
            body = _QUOTED_SPECIAL.sub(lambda special: f" {special[1]} ", body)
        kinds = np.frombuffer(body.encode("ascii", "replace").translate(_KINDS), np.uint8)
        bad = np.flatnonzero(kinds == _BAD)
        if bad.size:
            raise self.error(self.opened + int(bad[0]), f"{body[bad[0]]!r} is not allowed in a tensor")
        keep = kinds != _BLANK
        keep[1:] &= ~((kinds[1:] == _NUMBER) & (kinds[:-1] == _NUMBER))  # a number counts where it starts
        places = np.flatnonzero(keep)
        kinds = kinds[places]
        places += self.opened
        wrong = ~_MAY_FOLLOW[kinds[:-1], kinds[1:]]
        if not (kinds == _NUMBER).any():  # a tensor without elements
            wrong &= (kinds[:-1] != _OPEN) | (kinds[1:] != _CLOSE)
        if not self.name and "," not in body:  # NumPy's print() has no commas
            wrong &= (kinds[:-1] != _NUMBER) | (kinds[1:] != _NUMBER)
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            raise self.error(int(places[i + 1]), _OUT_OF_PLACE[int(kinds[i]), int(kinds[i + 1])])
        tokens = body.replace("[", " ").replace("]", " ").replace(",", " ").split()
        return self._shape(kinds, places), tokens, places[kinds == _NUMBER]

    def _shape(self, kinds: NDArray[np.uint8], places: NDArray[np.intp]) -> tuple[int, ...]:
        """FormatError where rows of one depth differ in length, or numbers have different depths.

        The row that is told is one that differs from the stated size, or without one from most rows.
        """
        depth = np.cumsum((kinds == _OPEN).view(np.int8) - (kinds == _CLOSE).view(np.int8), dtype=np.int32)
        elements = np.flatnonzero(kinds == _NUMBER)
        rank = int(depth[elements[0]] if elements.size else depth.max())
        if not rank:  # brackets are for tensors with dimensions
            return () if kinds.size == 1 else (elements.size,)
        if rank > MOST_DIMENSIONS:
            raise self.error(self.opened, f"{rank} brackets deep", f"at most {MOST_DIMENSIONS} dimensions")
        odd = elements[depth[elements] != rank]
        if odd.size:
            found = f"a number {depth[odd[0]]} brackets deep, and the first one is {rank} deep"
            raise self.error(int(places[odd[0]]), found, "as many brackets ] as [ in each row")
        if depth[-1]:
            found = f"{depth[-1]} brackets ] are missing" if depth[-1] > 1 else "a bracket ] is missing"
            raise self.error(self.stop, found, f"{']' * int(depth[-1])} here")
        rows = [np.flatnonzero((kinds == _OPEN) & (depth == d)) for d in range(1, rank + 1)]
        sizes, shape = self.sizes or (), list[int]()
        for d, (parents, children) in enumerate(zip(rows, [*rows[1:], elements], strict=True)):
            counts = np.bincount(np.searchsorted(parents, children) - 1, minlength=parents.size)
            usual = int(counts[0])
            if (counts != usual).any():
                stated = sizes[d - rank] if len(sizes) >= rank else -1
                often = np.bincount(counts)
                usual = stated if (counts == stated).any() else int(np.flatnonzero(often == often.max())[-1])
                odd = np.flatnonzero(counts != usual)
                found = f"a row of {counts[odd[0]]}, and others have {usual}"
                raise self.error(int(places[parents[odd[0]]]), found, "all rows of one length")
            shape.append(usual)
        return tuple(shape)

    def error(self, offset: int, found: str, wanted: str = "") -> PlacedError:
        """An error about a place of the page."""
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
    line, counted, end = 1, 0, 0
    for match, behind in itertools.zip_longest(headers, headers[1:]):
        yield from _axes(text, end, match.start())
        start, limit = match.start("name"), behind.start() if behind else len(text)
        line, counted = line + text.count("\n", counted, start), start
        header = _HEADER.match(text, start)
        opened = stop = end = header.end() if header else match.end()
        if header and (rows := re.compile(r"\s*+\[").match(text, end, limit)):
            opened = rows.end() - 1
            stop = end = _body_end(text, opened, limit)
        elif header and not header["sizes"].strip() and (number := _ALONE.match(text, end, limit)):
            opened, stop = number.span(1)
        yield TensorText(match["name"], line, page, text, start, opened, stop)
    yield from _axes(text, end, len(text))


def _headers(text: str) -> Iterator[re.Match[str]]:
    """The start of each header: the word Sizes is searched first, then its line, since most of a text is numbers."""
    before = 0
    for mark in re.finditer("Sizes", text):
        start = text.rfind("\n", before, mark.start()) + 1
        if (start or not before) and (header := _HEADER_START.match(text, start)):
            yield header
        before = mark.end()


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
    stop = end = _body_end(text, opened, len(text))
    if _TRUTH.search(text, opened, stop):
        data_type = DataType.BOOL.name
        words = _TRUTH.sub(lambda match: ("1" if match["true"] else "0").rjust(len(match[0])), text[opened:stop])
        text = text[:opened] + words + text[stop:]
    if call:
        while argument := _ARGUMENT.match(text, end):
            data_type = argument["type"] or data_type
            if argument["shape"] is not None:
                sizes = tuple(map(int, argument["shape"].replace(",", " ").split()))
            end = argument.end()
        closed = re.compile(r"\s*,?\s*\)").match(text, end)
        if not closed:
            wanted = "array([...]) or tensor([...]), perhaps with dtype, device and the like after the list"
            raise error_at(page, end, "is not a tensor as NumPy and PyTorch print it", wanted)
        end = closed.end()
    if rest := re.compile(r"\S").search(text, end):
        wanted = f"one tensor, or several with a header each, such as Name{_HEADER_FORM}"
        raise error_at(page, rest.start(), "unexpected text after the last bracket", wanted)
    stated = DataType.parse(data_type) if data_type else None
    return TensorText("", 1, page, text, opened, opened, stop, (stated, sizes))


def body_at(text: str, start: int) -> TensorText:
    """The tensor without a header whose body begins there: in brackets, or a number or a word alone."""
    if text.startswith("[", start):
        stop = _body_end(text, start, len(text))
    else:
        word = re.compile(r"[^\s,}]+").match(text, start)
        stop = word.end() if word else len(text)
    return TensorText("", 1, text, text, start, start, stop)


def _body_end(text: str, start: int, limit: int) -> int:
    """The place behind the bracket that closes the one at `start`, or else behind the lines that may be rows."""
    codes = np.frombuffer(text[start:limit].encode("ascii", "replace"), np.uint8)  # a byte for each character
    brackets = np.flatnonzero((codes == ord("[")) | (codes == ord("]")))
    depth = np.cumsum(np.where(codes[brackets] == ord("["), 1, -1))
    closed = np.flatnonzero(depth == 0)
    if closed.size:
        return start + int(brackets[closed[0]]) + 1
    rows = _ROWS.match(text, start, limit)
    return start + len((rows[0] if rows else "[").rstrip())
