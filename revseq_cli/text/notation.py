"""The bracket notation of Microsoft's reference pages, parsed to tensors and Axis lines.

    Name: (Sizes:{1,1,3,4}, DataType:FLOAT32)
    [[[[1,  2,  3,  4],
       [5,  6,  7,  8],
       [9, 10, 11, 12]]]]

    Axis: 3

Comments run from // to the end of the line. A text that begins with a bracket is one tensor without
a header; so is what NumPy, PyTorch, JAX and TensorFlow print.
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
from revseq_cli.core.tensors import MOST_DIMENSIONS, DataType, TensorDesc, in_braces
from revseq_cli.text import numbers

_BEFORE = 40  # columns of a line that are shown before the place of an error
_WIDTH = 75  # columns that are shown in all: with an indent, they fit into 80
# The most tensors of a text, so that a list of headers takes less than a gigabyte; pages have some
# dozens.
MOST_TENSORS = 500_000

# Possessive: two runs of blanks side by side would take time that is quadratic in them.
_BEGIN = r"^[ \t\f\v]*+(?:[-*+][ \t]++)?"
_NAME = r"(?P<name>[A-Za-z_]\w*+(?:\[\d++\])?)[ \t]*+"
# The start of a header; where the rest is no header, reading that tensor is an error. A colon may
# be missing.
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
    r"\s*\[[\s\[]*(?:[-+.\d\"]|\([-+.\d]|np\.|(?:nan|inf|infinity|true|false)\b)", re.IGNORECASE
)
# Lines that may be rows, of a body whose last bracket is missing.
_ROWS = re.compile(r"(?:[ \t]*+(?:[\[\],\"+\-.\d]|nan|inf)[^\n]*+\s*+)++", re.IGNORECASE)
_FIRST_ROW = re.compile(r"\s*+\[")
_ROW_BELOW = re.compile(r"[^\n]*+\n\s*+\[")  # the line of the header, and rows below
STRAY = re.compile(r"[\s,]*\]")  # one bracket too many after the last one of a body
_ALONE = re.compile(r"\s*+([+\-.\dni][^\n]*)")
_WORD = re.compile(r"[^\s,}]*")
_TEXT = re.compile(r"\S")
# What is printed for elements that are left out.
_DOTS = re.compile(r"(?<![^\s,\[\]])(?:\.\.\.|\N{HORIZONTAL ELLIPSIS})(?![^\s,\[\]])")

# A tensor as NumPy, PyTorch, JAX and TensorFlow print it: a call, whose list may be followed by
# these, and numbers such as np.int64(3). TensorFlow's repr has the array of NumPy in angle
# brackets.
_CALL = re.compile(
    r"\s*(?P<angle><tf\.(?:Tensor|Variable)\b[^<>\[\]]*?\bnumpy=\s*)?"
    r"(?:(?:np|numpy|torch|jnp|jax|tf)\.)?"
    r"(?:array|tensor|Array|DeviceArray|Tensor)\(\s*(?=\[)"
)
_ARGUMENTS = re.compile(
    r"(?:\s*,\s*(?:dtype=(?:\w+\.)?['\"]?(?P<type>\w+)['\"]?"
    r"|shape=\((?P<shape>[\d, ]*)\)|device=['\"][\w:]+['\"]"
    r"|grad_fn=[^,)]*|(?:requires_grad|weak_type)=(?:True|False)))*\s*,?\s*\)"
)
_ANGLE = re.compile(r"\s*>")
_SCALAR = re.compile(r"\bnp\.(?P<type>[a-z]+[0-9]+)\((?P<number>[^()\[\]]*)\)")
_TRUTH = {"True": "1", "False": "0", "np.True_": "1", "np.False_": "0"}

_NUMBER = re.compile(r"[^ \t\n\r,\[\]]+")  # or a word instead of one
_NO_BLANK = re.compile(r"[\v\f\x1c-\x1f]")  # which Python takes for blanks
_OPEN, _CLOSE, _COMMA, _ELEMENT, _BLANK = range(5)


def _classify(character: str) -> int:
    if character in " \t\n\r":
        return _BLANK
    return {"[": _OPEN, "]": _CLOSE, ",": _COMMA}.get(character, _ELEMENT)


_KINDS = bytes(_classify(chr(code)) for code in range(256))
_NOT_ALLOWED = {
    (_ELEMENT, _ELEMENT): "a comma is missing before this number",
    (_OPEN, _CLOSE): "an empty row",
    (_COMMA, _COMMA): "a number is missing before this comma",
    (_OPEN, _COMMA): "a number is missing before this comma",
    (_ELEMENT, _OPEN): "a row starts next to a number",
    (_CLOSE, _ELEMENT): "a number is next to a row",
}
# Anything else may follow anything: a comma may be missing between two rows, and may trail before a
# bracket.
_MAY_FOLLOW = np.ones((4, 4), dtype=bool)
for _pair in _NOT_ALLOWED:
    _MAY_FOLLOW[_pair] = False


class PlacedError(FormatError):
    """A FormatError about a position in a text; `problem` is the fact without that position."""

    problem = ""
    line = 0
    column = 0

    @property
    def message(self) -> str:
        """What is wrong there, and what is expected."""
        return f"{self.problem}; expected {self.expected}" if self.expected else self.problem


def error_at(
    text: str,
    offset: int,
    problem: str,
    expected: str = "",
    hint: str = "",
) -> PlacedError:
    """A FormatError about that position, with line and column, and the line with a caret."""
    text = lines_of(text)
    start = text.rfind("\n", 0, offset) + 1
    stop = text.find("\n", offset)
    if stop < 0:
        stop = len(text)
    line = text[start:stop].replace("\t", " ")
    column = offset - start
    before = printable(line[max(0, column - _BEFORE) : column])[-_BEFORE:]
    after = printable(line[column : column + _WIDTH]).rstrip()
    room = _WIDTH - len(before)
    is_cut = len(after) > room or len(line) > column + _WIDTH
    more = "..." if is_cut else ""
    context = f"{before}{after[:room]}{more}\n{' ' * len(before)}^"
    number = text.count("\n", 0, offset) + 1
    found = f"line {number}, column {column + 1}: {problem}"
    error = PlacedError(found, expected, hint, context=context)
    error.problem = problem
    error.line = number
    error.column = column + 1
    return error


def lines_of(text: str) -> str:
    """The text with line feeds as its only line breaks, at the same offsets."""
    if "\r" not in text:
        return text
    return text.replace("\r\n", " \n").replace("\r", "\n")


@dataclass(frozen=True)
class AxisLine:
    """A line such as `Axis: 3`, which begins at `start`.

    The value is None if its words are no integer.
    """

    value: int | None
    start: int
    words: str


@dataclass(frozen=True)
class TensorText:
    """One tensor of a page, not yet parsed.

    Its header begins at `start`, and its body is text[opened:stop]. `text` is the page with blanks
    instead of comments and markup. A tensor without a header has no name, and a header without a
    body has opened == stop. `line` counts from 1. Mistakes in header or body are errors only when
    `desc` or `values` is asked for, since pages have examples of other operators, too. `stated` has
    the data type and the shape that JSON has next to a tensor, or that NumPy and PyTorch print
    after it. `others` are the other keys of an object of JSON from which it is one.
    """

    name: str
    line: int
    page: str
    text: str
    start: int
    opened: int
    stop: int
    stated: tuple[DataType | None, tuple[int, ...] | None] = (None, None)
    others: tuple[str, ...] = ()

    @functools.cached_property
    def desc(self) -> TensorDesc | None:
        """Data type and shape of the header, None without one.

        FormatError for what no tensor has.
        """
        if not self.name:
            return None
        header = _HEADER.match(self.text, self.start)
        if not header:
            found = f"{self.name} has no header of a tensor"
            raise self.error(self.start, found, f"{self.name}{_HEADER_FORM}")
        sizes = header["sizes"].replace(",", " ").split()
        if not _SIZES.fullmatch(header["sizes"]) or len(sizes) > MOST_DIMENSIONS:
            found = f"{self.name} has Sizes {{{header['sizes'][:40]}}}"
            expected = f"at most {MOST_DIMENSIONS} integers of at least 0"
            raise self.error(header.start("sizes"), found, expected)
        try:
            return TensorDesc(DataType.parse(header["type"]), tuple(map(int, sizes)))
        except UsageError as e:
            raise self.error(header.start("type"), e.found, e.expected) from None

    @property
    def data_type(self) -> DataType | None:
        """The data type that the text states."""
        return self.desc.data_type if self.desc else self.stated[0]

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """The shape that the text states."""
        return self.desc.sizes if self.desc else self.stated[1]

    @property
    def is_described_only(self) -> bool:
        """Whether it has no values, as in what `check` and `run --dry-run` print."""
        return self.opened == self.stop and not _ROW_BELOW.match(self.text, self.start)

    def values(self, data_type: DataType) -> NDArray[Any]:
        """The values, as an array of the tensor's shape.

        FormatError, with line, column and a caret, for a body that is no tensor or does not have
        the stated shape, and for a number that the data type cannot hold.
        """
        if self.opened == self.stop:
            found = f"{self.name} has no values"
            raise self.error(self.start, found, "rows in brackets below the header")
        if self._is_empty:
            return _make_empty(self.sizes or (), data_type)
        shape, tokens = self.body
        try:
            flat = numbers.parse_numbers(tokens, data_type)
        except numbers.LiteralError as e:
            raise self.error(self.offset_of(e.index), e.problem) from None
        sizes = self.sizes
        if sizes is None:
            return flat.reshape(shape)
        if self._may_have(shape, sizes):
            return flat.reshape(sizes)
        start = self.start if self.desc else self.opened
        found = f"the values have {in_braces(shape)}, but {in_braces(sizes)} is stated"
        raise self.error(start, found)

    @property
    def _is_empty(self) -> bool:
        """Whether the stated shape has a size of 0, and the body no number."""
        if not self.sizes or 0 not in self.sizes:
            return False
        return not _NUMBER.search(self.text, self.opened, self.stop)

    def _may_have(
        self,
        shape: tuple[int, ...],
        sizes: tuple[int, ...],
    ) -> bool:
        """Whether a body of that shape may have the stated sizes.

        Leading sizes of 1 need no brackets, and JSON's Values may be one flat list.
        """
        rank = len(shape)
        if sizes[-rank:] == shape and prod(sizes[:-rank]) == 1:
            return True
        return not self.desc and shape == (prod(sizes),)

    def offset_of(self, index: int) -> int:
        """Where the number at that index, in C order, begins in the text."""
        matches = _NUMBER.finditer(self.text, self.opened, self.stop)
        return next(itertools.islice(matches, index, None)).start()

    @functools.cached_property
    def body(self) -> tuple[tuple[int, ...], list[str]]:
        """Its shape and its numbers; FormatError for a body that is no tensor."""
        body = self.text[self.opened : self.stop]
        self._refuse_words(body)
        kinds = np.frombuffer(body.encode("ascii", "replace").translate(_KINDS), np.uint8)
        keep = kinds != _BLANK
        # A number counts where it starts.
        keep[1:] &= (kinds[1:] != _ELEMENT) | (kinds[:-1] != _ELEMENT)
        offsets = np.flatnonzero(keep)
        kinds = kinds[offsets]
        offsets += self.opened
        self._require_order(kinds, offsets, has_commas="," in body)
        shape = self._find_shape(kinds, offsets)
        stray = STRAY.match(self.text, self.stop)
        if stray:
            expected = "one more [ before it, or no ] here"
            raise self.error(stray.end() - 1, "this bracket closes nothing", expected)
        if body.isascii():
            tokens = body.replace("[", " ").replace("]", " ").replace(",", " ").split()
        else:
            tokens = _NUMBER.findall(body)
        if "np." in body or self.stated[0] is DataType.BOOL:  # as NumPy prints them in a list
            tokens = [_TRUTH.get(token) or _SCALAR.sub(r"\g<number>", token) for token in tokens]
        return shape, tokens

    def _refuse_words(self, body: str) -> None:
        """FormatError for characters that only look like blanks, and for dots for elements."""
        wrong_blank = _NO_BLANK.search(body)
        if wrong_blank:
            offset = self.opened + wrong_blank.start()
            raise self.error(offset, f"{wrong_blank[0]!r} is not allowed in a tensor")
        dots = _DOTS.search(body)
        if dots:
            found = f"{dots[0]}: elements are left out here"
            raise self.error(self.opened + dots.start(), found, "all elements")

    def _require_order(
        self,
        kinds: NDArray[np.uint8],
        offsets: NDArray[np.intp],
        *,
        has_commas: bool,
    ) -> None:
        """FormatError for the first bracket, comma or number that is not allowed there."""
        before = kinds[:-1]
        after = kinds[1:]
        wrong = ~_MAY_FOLLOW[before, after]
        if not (kinds == _ELEMENT).any():  # a tensor without elements
            wrong &= (before != _OPEN) | (after != _CLOSE)
        if not self.name and not has_commas:  # NumPy's print() has no commas
            wrong &= (before != _ELEMENT) | (after != _ELEMENT)
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            problem = _NOT_ALLOWED[int(before[i]), int(after[i])]
            raise self.error(int(offsets[i + 1]), problem)

    def _find_shape(
        self,
        kinds: NDArray[np.uint8],
        offsets: NDArray[np.intp],
    ) -> tuple[int, ...]:
        """The shape.

        FormatError where rows of one depth differ in length, or numbers have different depths.
        """
        opening = (kinds == _OPEN).view(np.int8)
        closing = (kinds == _CLOSE).view(np.int8)
        depth = np.cumsum(opening - closing, dtype=np.int32)
        elements = np.flatnonzero(kinds == _ELEMENT)
        rank = int(depth[elements[0]] if elements.size else depth.max())
        if not rank:  # brackets are for tensors with dimensions
            return () if kinds.size == 1 else (elements.size,)
        if rank > MOST_DIMENSIONS:
            expected = f"at most {MOST_DIMENSIONS} dimensions"
            raise self.error(self.opened, f"{rank} brackets deep", expected)
        odd = elements[depth[elements] != rank]
        if odd.size:
            found = f"a number {depth[odd[0]]} brackets deep, but the first one is {rank} deep"
            expected = "as many brackets ] as [ in each row"
            raise self.error(int(offsets[odd[0]]), found, expected)
        missing = int(depth[-1])
        if missing:
            found = "a bracket ] is missing"
            if missing > 1:
                found = f"{missing} brackets ] are missing"
            raise self.error(self.stop, found, f"{']' * missing} here")
        levels = [np.flatnonzero((kinds == _OPEN) & (depth == d)) for d in range(1, rank + 1)]
        levels.append(elements)
        return tuple(
            self._count_children(d - rank, levels[d], levels[d + 1], offsets) for d in range(rank)
        )

    def _count_children(
        self,
        dimension: int,
        parents: NDArray[np.intp],
        children: NDArray[np.intp],
        offsets: NDArray[np.intp],
    ) -> int:
        """The size of a dimension, counted from the end: how many children each row has.

        FormatError for rows that differ. It names the first row that has not the stated size, or
        else not the size of most rows.
        """
        counts = np.bincount(np.searchsorted(parents, children) - 1, minlength=parents.size)
        usual = int(counts[0])
        if (counts == usual).all():
            return usual
        sizes = self.sizes or ()
        stated = sizes[dimension] if len(sizes) >= -dimension else -1
        if (counts == stated).any():
            usual = stated
        else:
            often = np.bincount(counts)
            usual = int(np.flatnonzero(often == often.max())[-1])
        odd = int(np.flatnonzero(counts != usual)[0])
        found = f"this row has {_count_elements(int(counts[odd]))}, the others have {usual}"
        raise self.error(int(offsets[parents[odd]]), found)

    def error(
        self,
        offset: int,
        problem: str,
        expected: str = "",
    ) -> PlacedError:
        """An error about a position of the page."""
        return error_at(self.page, offset, problem, expected)


def _count_elements(count: int) -> str:
    return "1 element" if count == 1 else f"{count} elements"


def _make_empty(sizes: tuple[int, ...], data_type: DataType) -> NDArray[Any]:
    try:
        return np.empty(sizes, dtype_of(data_type))
    except ValueError:
        found = f"Sizes is {in_braces(sizes)}"
        raise FormatError(found, "smaller sizes next to the 0") from None


def parse_notation(page: str, text: str) -> list[TensorText | AxisLine]:
    """The tensors and Axis lines of a page, or the one tensor of a text without headers.

    `text` is the page with blanks instead of comments and markup. FormatError for anything after
    the last bracket of that one tensor.
    """
    is_one = bool(_BARE.match(text) or _CALL.match(text))
    if not is_one and text.lstrip()[:1] == "[":
        is_one = not _HEADER_START.search(text)
    return [_parse_one(page, text)] if is_one else [*parse_page(page, text)]


def parse_page(page: str, text: str) -> Iterator[TensorText | AxisLine]:
    """The tensors and Axis lines of a page, which may begin with a bracket, as [TOC] does."""
    headers = list(itertools.islice(_HEADER_START.finditer(text), MOST_TENSORS + 1))
    if len(headers) > MOST_TENSORS:
        raise FormatError(f"holds more than {MOST_TENSORS} tensors", "a page with some examples")
    line = 1
    counted = 0
    end = 0
    for match, following in itertools.zip_longest(headers, headers[1:]):
        yield from _find_axes(text, end, match.start())
        start = match.start("name")
        limit = following.start() if following else len(text)
        line += text.count("\n", counted, start)
        counted = start
        tensor, end = _find_tensor(page, text, match, line, limit)
        yield tensor
    yield from _find_axes(text, end, len(text))


def _find_tensor(
    page: str,
    text: str,
    match: re.Match[str],
    line: int,
    limit: int,
) -> tuple[TensorText, int]:
    """The tensor whose header begins there, and where an Axis line after it may begin."""
    name = match["name"]
    start = match.start("name")
    header = _HEADER.match(text, start)
    if not header:
        end = match.end()
        return TensorText(name, line, page, text, start, end, end), end
    end = header.end()
    row = _FIRST_ROW.match(text, end, limit)
    if row:
        opened = row.end() - 1
        stop = _find_body_end(text, opened, limit)
        return TensorText(name, line, page, text, start, opened, stop), stop
    number = None if header["sizes"].strip() else _ALONE.match(text, end, limit)
    opened, stop = number.span(1) if number else (end, end)
    return TensorText(name, line, page, text, start, opened, stop), end


def _find_axes(
    text: str,
    start: int,
    stop: int,
) -> Iterator[AxisLine]:
    for line in _AXIS.finditer(text, start, stop):
        value = int(line["value"]) if line["value"] else None
        yield AxisLine(value, line.start("axis"), line["words"].rstrip())


def _parse_one(page: str, text: str) -> TensorText:
    """The tensor of a text that is one tensor, perhaps as a library prints it."""
    call = _CALL.match(text)
    opened = call.end() if call else len(text) - len(text.lstrip())
    stop = _find_body_end(text, opened, len(text))
    end = stop
    data_type = _find_data_type(text, opened, stop)
    sizes = None
    if call:
        arguments = _ARGUMENTS.match(text, stop)
        if not arguments:
            found = "not a tensor as NumPy and PyTorch print it"
            expected = "array([...]) or tensor([...]), perhaps with dtype or device after the list"
            raise error_at(page, stop, found, expected)
        end = arguments.end()
        data_type = arguments["type"] or data_type
        if arguments["shape"] is not None:
            sizes = tuple(map(int, arguments["shape"].replace(",", " ").split()))
        angle = _ANGLE.match(text, end) if call["angle"] else None
        if angle:
            end = angle.end()
    rest = _TEXT.search(text, end)
    if rest:
        expected = f"one tensor, or several with a header each, such as Name{_HEADER_FORM}"
        raise error_at(page, rest.start(), "unexpected text after the last bracket", expected)
    stated = DataType.parse(data_type) if data_type else None
    return TensorText("", 1, page, text, opened, opened, stop, (stated, sizes))


def _find_data_type(
    text: str,
    start: int,
    stop: int,
) -> str:
    """The data type of elements such as True and np.int64(3); "" where they are plain numbers."""
    body = text[start:stop]
    if "True" in body or "False" in body:
        return "BOOL"
    scalar = _SCALAR.search(body) if "np." in body else None
    return scalar["type"] if scalar else ""


def body_at(text: str, start: int) -> TensorText:
    """The tensor without a header that begins there: in brackets, or just a number or a word."""
    stop = start
    if text.startswith("[", start):
        stop = _find_body_end(text, start, len(text))
    elif word := _WORD.match(text, start):
        stop = word.end()
    return TensorText("", 1, text, text, start, start, stop)


def _find_body_end(
    text: str,
    start: int,
    limit: int,
) -> int:
    """The offset after the bracket that closes the one at `start`, or else after possible rows."""
    # A byte for each character.
    codes = np.frombuffer(text[start:limit].encode("ascii", "replace"), np.uint8)
    brackets = np.flatnonzero((codes == ord("[")) | (codes == ord("]")))
    depth = np.cumsum(np.where(codes[brackets] == ord("["), 1, -1))
    closed = np.flatnonzero(depth == 0)
    if closed.size:
        return start + int(brackets[closed[0]]) + 1
    rows = _ROWS.match(text, start, limit)
    return start + len((rows[0] if rows else "[").rstrip())
