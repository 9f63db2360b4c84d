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
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core.dtypes import dtype_of
from revseq_cli.core.errors import FormatError, UsageError, printable
from revseq_cli.core.tensors import MOST_DIMENSIONS, DataType, TensorDesc, braced
from revseq_cli.text import numbers

_BEFORE, _WIDTH = (
    40,
    75,
)  # columns of a line that are shown before a place, and in all: it fits 80, indented
MOST_TENSORS = 500_000  # of a text, so that a list of headers alone takes less than a gigabyte; pages have some dozens

# Possessive: two runs of blanks side by side would take time that is quadratic in them.
_BEGIN = r"^[ \t\f\v]*+(?:[-*+][ \t]++)?"
_NAME = r"(?P<name>[A-Za-z_]\w*+(?:\[\d++\])?)[ \t]*+"
# The start of a header; where the rest is no header, reading that tensor is an error. A colon may be missing.
_HEADER_START = re.compile(
    rf"{_BEGIN}{_NAME}(?:[:=][ \t]*+\(?|\()[ \t]*+Sizes\s*+[:={{]", re.MULTILINE
)
_HEADER = re.compile(
    _NAME + r"[:=][ \t]*+\([ \t]*+Sizes\s*+[:=]\s*+\{(?P<sizes>[^{}]*+)\}"
    r"[\s,]*+DataType\s*+[:=]\s*+(?P<type>\w++)\s*+\)"
)
_HEADER_FORM = ": (Sizes:{1,3}, DataType:FLOAT32)"
_SIZES = re.compile(r"(?:\s*+\d{1,20}\s*+(?:,|$))*+\s*+", re.ASCII)
_AXIS = re.compile(
    _BEGIN
    + r"(?P<axis>Axis)[ \t]*+[:=][ \t]*+(?P<words>(?P<value>[+-]?[0-9]{1,18})[,. \t]*+$|\S[^\n]*+)",
    re.MULTILINE,
)
# The start of a text that is one tensor; a text that begins with [Home](index.md) is a page.
_BARE = re.compile(
    r"\s*\[[\s\[]*(?:[-+.\d\"]|np\.|(?:nan|inf|infinity|true|false)\b)", re.IGNORECASE
)
# Lines that may be rows, of a body whose last bracket is missing.
_ROWS = re.compile(r"(?:[ \t]*+(?:[\[\],\"+\-.\d]|nan|inf)[^\n]*+\s*+)++", re.IGNORECASE)
STRAY = re.compile(r"[\s,]*\]")  # behind the last bracket of a body, one too many
_ALONE = re.compile(r"\s*+([+\-.\dni][^\n]*)")

# A tensor as NumPy and PyTorch print it: a call, whose list may be followed by these, and numbers such as np.int64(3).
_CALL = re.compile(r"\s*(?:(?:np|numpy|torch)\.)?(?:array|tensor)\(\s*(?=\[)")
_ARGUMENTS = re.compile(
    r"(?:\s*,\s*(?:dtype=(?:\w+\.)?['\"]?(?P<type>\w+)['\"]?|shape=\((?P<shape>[\d, ]*)\)|device=['\"][\w:]+['\"]"
    r"|grad_fn=[^,)]*|requires_grad=(?:True|False)))*\s*,?\s*\)"
)
_SCALAR = re.compile(r"\bnp\.(?P<type>[a-z]+[0-9]+)\((?P<number>[^()\[\]]*)\)")
_TRUTH = {"True": "1", "False": "0", "np.True_": "1", "np.False_": "0"}

_NUMBER = re.compile(r"[^ \t\n\r,\[\]]+")  # also what is none, such as a word
_NO_BLANK = re.compile(r"[\v\f\x1c-\x1f]")  # which Python takes for one
_OPEN, _CLOSE, _COMMA, _ELEMENT, _BLANK = range(5)
# The kind of each character, by its code.
_KINDS = bytes(
    {"[": _OPEN, "]": _CLOSE, ",": _COMMA}.get(
        chr(code), _BLANK if chr(code) in " \t\n\r" else _ELEMENT
    )
    for code in range(256)
)
_OUT_OF_PLACE = {
    (_ELEMENT, _ELEMENT): "a comma is missing before this number",
    (_OPEN, _CLOSE): "an empty row",
    (_COMMA, _COMMA): "a number is missing before this comma",
    (_OPEN, _COMMA): "a number is missing before this comma",
    (_ELEMENT, _OPEN): "a row starts beside a number",
    (_CLOSE, _ELEMENT): "a number stands beside a row",
}
# Anything else may follow anything: a comma may be missing between two rows, and may trail before a bracket.
_MAY_FOLLOW = np.ones((4, 4), dtype=bool)
_MAY_FOLLOW[tuple(zip(*_OUT_OF_PLACE, strict=True))] = False


class PlacedError(FormatError):
    """A FormatError about a place of a text; `problem` is without that place."""

    problem = ""
    line = column = 0

    @property
    def message(self) -> str:
        """What is wrong there, and what is wanted."""
        return f"{self.problem}; expected {self.wanted}" if self.wanted else self.problem


def error_at(text: str, offset: int, problem: str, wanted: str = "", hint: str = "") -> PlacedError:
    """A FormatError about that place of the text: with line and column, the line itself, and a caret below it."""
    text = lines_of(text)
    start, stop = text.rfind("\n", 0, offset) + 1, text.find("\n", offset)
    line = text[start : stop if stop >= 0 else len(text)].replace("\t", " ")
    column = offset - start
    before = printable(line[max(0, column - _BEFORE) : column])[-_BEFORE:]
    behind, room = printable(line[column : column + _WIDTH]).rstrip(), _WIDTH - len(before)
    more = "..." if len(behind) > room or len(line) > column + _WIDTH else ""
    context = f"{before}{behind[:room]}{more}\n{' ' * len(before)}^"
    number = text.count("\n", 0, offset) + 1
    error = PlacedError(f"line {number}, column {column + 1}: {problem}", wanted, hint, "", context)
    error.problem, error.line, error.column = problem, number, column + 1
    return error


def lines_of(text: str) -> str:
    """The text with line feeds alone, at the same places."""
    return text.replace("\r\n", " \n").replace("\r", "\n") if "\r" in text else text


@dataclass(frozen=True)
class AxisLine:
    """A line such as `Axis: 3`, which begins at `start`; the value is None where its words are no integer."""

    value: int | None
    start: int
    words: str


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
            raise self.error(
                self.start, f"{self.name} has no header of a tensor", f"{self.name}{_HEADER_FORM}"
            )
        sizes = header["sizes"].replace(",", " ").split()
        if not _SIZES.fullmatch(header["sizes"]) or len(sizes) > MOST_DIMENSIONS:
            wanted = f"at most {MOST_DIMENSIONS} integers of at least 0"
            raise self.error(
                header.start("sizes"), f"{self.name} has Sizes {{{header['sizes'][:40]}}}", wanted
            )
        try:
            return TensorDesc(DataType.parse(header["type"]), tuple(map(int, sizes)))
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
            raise self.error(
                self.start, f"{self.name} has no values", "rows in brackets below the header"
            )
        if sizes and 0 in sizes and not _NUMBER.search(self.text, self.opened, self.stop):
            try:
                return np.empty(sizes, dtype_of(data_type))
            except ValueError:
                raise FormatError(
                    f"Sizes is {braced(sizes)}", "smaller sizes beside the 0"
                ) from None
        shape, tokens = self.body
        try:
            flat = numbers.parse(tokens, data_type)
        except numbers.LiteralError as e:
            raise self.error(self.place(e.index), e.problem) from None
        if sizes is None:
            return flat.reshape(shape)
        rank = len(shape)
        # Leading sizes of 1 need no brackets, and JSON's Values may be one flat list.
        if (sizes[-rank:] == shape and prod(sizes[:-rank]) == 1) or (
            not self.desc and shape == (prod(sizes),)
        ):
            return flat.reshape(sizes)
        start = self.start if self.desc else self.opened
        raise self.error(start, f"the values have {braced(shape)}, and {braced(sizes)} is stated")

    def place(self, index: int) -> int:
        """Where the number at that index, in C order, begins in the text."""
        return next(
            itertools.islice(_NUMBER.finditer(self.text, self.opened, self.stop), index, None)
        ).start()

    @functools.cached_property
    def body(self) -> tuple[tuple[int, ...], list[str]]:
        """Its shape and its numbers; FormatError for a body that is no tensor."""
        body = self.text[self.opened : self.stop]
        if wrong_blank := _NO_BLANK.search(body):
            raise self.error(
                self.opened + wrong_blank.start(), f"{wrong_blank[0]!r} is not allowed in a tensor"
            )
        kinds = np.frombuffer(body.encode("ascii", "replace").translate(_KINDS), np.uint8)
        keep = kinds != _BLANK
        keep[1:] &= (kinds[1:] != _ELEMENT) | (
            kinds[:-1] != _ELEMENT
        )  # a number counts where it starts
        places = np.flatnonzero(keep)
        kinds = kinds[places]
        places += self.opened
        wrong = ~_MAY_FOLLOW[kinds[:-1], kinds[1:]]
        if not (kinds == _ELEMENT).any():  # a tensor without elements
            wrong &= (kinds[:-1] != _OPEN) | (kinds[1:] != _CLOSE)
        if not self.name and "," not in body:  # NumPy's print() has no commas
            wrong &= (kinds[:-1] != _ELEMENT) | (kinds[1:] != _ELEMENT)
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            raise self.error(int(places[i + 1]), _OUT_OF_PLACE[int(kinds[i]), int(kinds[i + 1])])
        shape = self._shape(kinds, places)
        if stray := STRAY.match(self.text, self.stop):
            raise self.error(
                stray.end() - 1, "this bracket closes nothing", "one more [ before it, or no ] here"
            )
        if body.isascii():
            tokens = body.replace("[", " ").replace("]", " ").replace(",", " ").split()
        else:
            tokens = _NUMBER.findall(body)
        if "np." in body or self.stated[0] is DataType.BOOL:  # as NumPy prints them in a list
            tokens = [_TRUTH.get(token) or _SCALAR.sub(r"\g<number>", token) for token in tokens]
        return shape, tokens

    def _shape(self, kinds: NDArray[np.uint8], places: NDArray[np.intp]) -> tuple[int, ...]:
        """FormatError where rows of one depth differ in length, or numbers have different depths.

        The row that is told is one that differs from the stated size, or without one from most rows.
        """
        depth = np.cumsum(
            (kinds == _OPEN).view(np.int8) - (kinds == _CLOSE).view(np.int8), dtype=np.int32
        )
        elements = np.flatnonzero(kinds == _ELEMENT)
        rank = int(depth[elements[0]] if elements.size else depth.max())
        if not rank:  # brackets are for tensors with dimensions
            return () if kinds.size == 1 else (elements.size,)
        if rank > MOST_DIMENSIONS:
            raise self.error(
                self.opened, f"{rank} brackets deep", f"at most {MOST_DIMENSIONS} dimensions"
            )
        odd = elements[depth[elements] != rank]
        if odd.size:
            found = f"a number {depth[odd[0]]} brackets deep, and the first one is {rank} deep"
            raise self.error(int(places[odd[0]]), found, "as many brackets ] as [ in each row")
        if depth[-1]:
            found = (
                f"{depth[-1]} brackets ] are missing" if depth[-1] > 1 else "a bracket ] is missing"
            )
            raise self.error(self.stop, found, f"{']' * int(depth[-1])} here")
        rows = [np.flatnonzero((kinds == _OPEN) & (depth == d)) for d in range(1, rank + 1)]
        sizes, shape = self.sizes or (), list[int]()
        for d, (parents, children) in enumerate(zip(rows, [*rows[1:], elements], strict=True)):
            counts = np.bincount(np.searchsorted(parents, children) - 1, minlength=parents.size)
            usual = int(counts[0])
            if (counts != usual).any():
                stated = sizes[d - rank] if len(sizes) >= rank else -1
                often = np.bincount(counts)
                usual = (
                    stated
                    if (counts == stated).any()
                    else int(np.flatnonzero(often == often.max())[-1])
                )
                odd = np.flatnonzero(counts != usual)
                found = f"a row of {counts[odd[0]]}, and others have {usual}"
                raise self.error(int(places[parents[odd[0]]]), found, "all rows of one length")
            shape.append(usual)
        return tuple(shape)

    def error(self, offset: int, problem: str, wanted: str = "") -> PlacedError:
        """An error about a place of the page."""
        return error_at(self.page, offset, problem, wanted)


def parse(page: str, text: str) -> list[TensorText | AxisLine]:
    """The tensors and Axis lines of a page, or the one tensor of a text without headers.

    `text` is the page with blanks for comments and markup. FormatError for anything behind the last bracket of that one
    tensor.
    """
    if (
        _BARE.match(text)
        or _CALL.match(text)
        or (text.lstrip()[:1] == "[" and not _HEADER_START.search(text))
    ):
        return [_bare(page, text)]
    return [*parse_page(page, text)]


def parse_page(page: str, text: str) -> Iterator[TensorText | AxisLine]:
    """The tensors and Axis lines of a page, which may begin with a bracket, as [TOC] does."""
    headers = list(itertools.islice(_HEADER_START.finditer(text), MOST_TENSORS + 1))
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


def _axes(text: str, start: int, stop: int) -> Iterator[AxisLine]:
    for line in _AXIS.finditer(text, start, stop):
        value = int(line["value"]) if line["value"] else None
        yield AxisLine(value, line.start("axis"), line["words"].rstrip())


def _bare(page: str, text: str) -> TensorText:
    """The tensor of a text that is one tensor, perhaps as NumPy or PyTorch print it."""
    call = _CALL.match(text)
    opened = call.end() if call else len(text) - len(text.lstrip())
    stop = end = _body_end(text, opened, len(text))
    scalar = _SCALAR.search(text, opened, stop) if "np." in text else None
    is_truth = "True" in text[opened:stop] or "False" in text[opened:stop]
    data_type, sizes = "BOOL" if is_truth else scalar["type"] if scalar else "", None
    if call:
        behind = _ARGUMENTS.match(text, stop)
        if not behind:
            wanted = "array([...]) or tensor([...]), perhaps with dtype, device and the like after the list"
            raise error_at(page, stop, "not a tensor as NumPy and PyTorch print it", wanted)
        data_type, end = behind["type"] or data_type, behind.end()
        if behind["shape"] is not None:
            sizes = tuple(map(int, behind["shape"].replace(",", " ").split()))
    if rest := re.compile(r"\S").search(text, end):
        wanted = f"one tensor, or several with a header each, such as Name{_HEADER_FORM}"
        raise error_at(page, rest.start(), "unexpected text after the last bracket", wanted)
    stated = DataType.parse(data_type) if data_type else None
    return TensorText("", 1, page, text, opened, opened, stop, (stated, sizes))


def body_at(text: str, start: int) -> TensorText:
    """The tensor without a header whose body begins there: in brackets, or a number or a word alone."""
    word = re.compile(r"[^\s,}]*").match(text, start)
    stop = (
        _body_end(text, start, len(text))
        if text.startswith("[", start)
        else word.end()
        if word
        else start
    )
    return TensorText("", 1, text, text, start, start, stop)


def _body_end(text: str, start: int, limit: int) -> int:
    """The place behind the bracket that closes the one at `start`, or else behind the lines that may be rows."""
    codes = np.frombuffer(
        text[start:limit].encode("ascii", "replace"), np.uint8
    )  # a byte for each character
    brackets = np.flatnonzero((codes == ord("[")) | (codes == ord("]")))
    closed = np.flatnonzero(np.cumsum(np.where(codes[brackets] == ord("["), 1, -1)) == 0)
    if closed.size:
        return start + int(brackets[closed[0]]) + 1
    rows = _ROWS.match(text, start, limit)
    return start + len((rows[0] if rows else "[").rstrip())
