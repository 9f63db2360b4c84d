"""Finds the tensors and Axis lines in the bracket notation of Microsoft's reference pages.

    Name: (Sizes:{1,1,3,4}, DataType:FLOAT32)
    [[[[1,  2,  3,  4],
       [5,  6,  7,  8],
       [9, 10, 11, 12]]]]

    Axis: 3

Comments run from // to the end of the line. A text that begins with a bracket is one tensor without
a header; so is what NumPy, PyTorch, JAX and TensorFlow print.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from revseq_cli.core import platform
from revseq_cli.core.errors import FormatError
from revseq_cli.core.tensors import DataType
from revseq_cli.text.bodies import find_body_stop, find_data_type
from revseq_cli.text.positions import error_at
from revseq_cli.text.tensor_text import HEADER, HEADER_FORM, NAME, TensorText

# The most tensors of a text, so that a list of headers takes less than a gigabyte; pages have
# dozens.
MOST_TENSORS = 500_000

# Possessive: two runs of blanks side by side would take time that is quadratic in them.
_BEGIN = r"^[ \t\f\v]*+(?:[-*+][ \t]++)?"
# The start of a header; if the rest is not a header, reading that tensor is an error. A colon may
# be missing.
_HEADER_START = re.compile(
    rf"{_BEGIN}{NAME}(?:[:=][ \t]*+\(?|\()[ \t]*+Sizes\s*+[:={{]", re.MULTILINE
)
_AXIS = re.compile(
    _BEGIN
    + r"(?P<axis>Axis)[ \t]*+[:=][ \t]*+(?P<words>(?P<value>[+-]?[0-9]{1,18})[,. \t]*+$|\S[^\n]*+)",
    re.MULTILINE,
)
# The start of a text that is one tensor; a text that begins with [Home](index.md) is a page.
_BARE = re.compile(
    r"\s*\[[\s\[]*(?:[-+.\d\"]|\([-+.\d]|np\.|(?:nan|inf|infinity|true|false)\b)", re.IGNORECASE
)
_FIRST_ROW = re.compile(r"\s*+\[")
_ALONE = re.compile(r"\s*+([+\-.\dni][^\n]*)")
_WORD = re.compile(r"[^\s,}]*")
_TEXT = re.compile(r"\S")

# A tensor as NumPy, PyTorch, JAX and TensorFlow print it: a call, whose list may be followed by
# arguments. TensorFlow's repr has the array of NumPy in angle brackets.
_CALL = re.compile(rf"\s*(?P<angle>{platform.ANGLE}[^<>\[\]]*?\bnumpy=\s*)?{platform.CALL}(?=\[)")
_ARGUMENTS = re.compile(
    r"(?:\s*,\s*(?:dtype=(?:\w+\.)?['\"]?(?P<type>\w+)['\"]?"
    r"|shape=\((?P<shape>[\d, ]*)\)|device=['\"][\w:]+['\"]"
    r"|grad_fn=[^,)]*|(?:requires_grad|weak_type)=(?:True|False)))*\s*,?\s*\)"
)


@dataclass(frozen=True)
class AxisLine:
    """A line such as `Axis: 3`, which begins at `start`.

    The value is None if its words are not an integer.
    """

    value: int | None
    start: int
    words: str


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
    lines = _count_lines(text, (header.start("name") for header in headers))
    limits = [*(header.start() for header in headers[1:]), len(text)]
    end = 0
    for header, line, limit in zip(headers, lines, limits, strict=False):
        yield from _find_axes(text, end, header.start())
        tensor, end = _find_tensor(page, text, header, line, limit)
        yield tensor
    yield from _find_axes(text, end, len(text))


def _count_lines(text: str, offsets: Iterable[int]) -> Iterator[int]:
    """The number of the line of each of these offsets, which ascend."""
    line = 1
    before = 0
    for offset in offsets:
        line += text.count("\n", before, offset)
        before = offset
        yield line


def _find_tensor(
    page: str, text: str, match: re.Match[str], line: int, limit: int
) -> tuple[TensorText, int]:
    """The tensor whose header begins there, and where an Axis line after it may begin.

    Its body, if it has one, ends before `limit`.
    """
    name = match["name"]
    start = match.start("name")
    header = HEADER.match(text, start)
    if not header:
        end = match.end()
        return TensorText(name, line, page, text, start, end, end), end
    end = header.end()
    row = _FIRST_ROW.match(text, end, limit)
    if row:
        body = row.end() - 1
        stop = find_body_stop(text, body, limit)
        return TensorText(name, line, page, text, start, body, stop), stop
    number = None
    if not header["sizes"].strip():  # a tensor without dimensions is a number without brackets
        number = _ALONE.match(text, end, limit)
    if not number:
        return TensorText(name, line, page, text, start, end, end), end
    # What looks like the number may be the line "- Axis: 3", which is then found as such, too.
    return TensorText(name, line, page, text, start, *number.span(1)), end


def _find_axes(text: str, start: int, stop: int) -> Iterator[AxisLine]:
    for line in _AXIS.finditer(text, start, stop):
        value = int(line["value"]) if line["value"] else None
        yield AxisLine(value, line.start("axis"), line["words"].rstrip())


def _parse_one(page: str, text: str) -> TensorText:
    """The tensor of a text that is one tensor, perhaps as a library prints it."""
    call = _CALL.match(text)
    start = call.end() if call else len(text) - len(text.lstrip())
    stop = find_body_stop(text, start, len(text))
    data_type = find_data_type(text[start:stop])
    sizes = None
    end = stop
    if call:
        arguments = _match_arguments(page, text, stop)
        data_type = arguments["type"] or data_type
        if arguments["shape"] is not None:
            sizes = tuple(map(int, arguments["shape"].replace(",", " ").split()))
        end = arguments.end()
        if call["angle"] and text[end:].lstrip().startswith(">"):
            end = text.index(">", end) + 1
    rest = _TEXT.search(text, end)
    if rest:
        expected = f"one tensor, or several with a header each, such as Name{HEADER_FORM}"
        raise error_at(page, rest.start(), "unexpected text after the last bracket", expected)
    stated_type = DataType.parse(data_type) if data_type else None
    return TensorText("", 1, page, text, start, start, stop, stated_type, sizes)


def _match_arguments(page: str, text: str, start: int) -> re.Match[str]:
    """What a library prints after the list of a tensor; FormatError for anything else."""
    arguments = _ARGUMENTS.match(text, start)
    if not arguments:
        found = "not a tensor as NumPy and PyTorch print it"
        expected = "array([...]) or tensor([...]), perhaps with dtype or device after the list"
        raise error_at(page, start, found, expected)
    return arguments


def body_at(text: str, start: int) -> TensorText:
    """The tensor without a header that begins there: in brackets, or just a number or a word."""
    stop = start
    if text.startswith("[", start):
        stop = find_body_stop(text, start, len(text))
    elif word := _WORD.match(text, start):
        stop = word.end()
    return TensorText("", 1, text, text, start, start, stop)
