"""A tensor of a text: its header, and its body, which is parsed when its values are asked for."""

from __future__ import annotations

import functools
import itertools
import re
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core.dtypes import dtype_of
from revseq_cli.core.errors import FormatError, UsageError
from revseq_cli.core.tensors import MOST_DIMENSIONS, DataType, Sizes, TensorDesc, in_braces
from revseq_cli.text import bodies, numbers
from revseq_cli.text.positions import PlacedError, error_at

NAME = r"(?P<name>[A-Za-z_]\w*+(?:\[\d++\])?)[ \t]*+"
HEADER = re.compile(
    NAME + r"[:=][ \t]*+\([ \t]*+Sizes\s*+[:=]\s*+\{(?P<sizes>[^{}]*+)\}"
    r"[\s,]*+DataType\s*+[:=]\s*+(?P<type>\w++)\s*+\)"
)
HEADER_FORM = ": (Sizes:{1,3}, DataType:FLOAT32)"
_SIZES = re.compile(r"(?:\s*+\d{1,20}\s*+(?:,|$))*+\s*+", re.ASCII)
_ROW_BELOW = re.compile(r"[^\n]*+\n\s*+\[")  # the line of the header, and rows below
STRAY = re.compile(r"[\s,]*\]")  # one bracket too many after the last one of a body
_NO_BLANK = re.compile(r"[\v\f\x1c-\x1f]")  # which Python takes for blanks
# What is printed for elements that are left out.
_DOTS = re.compile(r"(?<![^\s,\[\]])(?:\.\.\.|\N{HORIZONTAL ELLIPSIS})(?![^\s,\[\]])")


@dataclass(frozen=True)
class TensorText:
    """One tensor of a page. Its header is at `start`, its body is text[body_start:body_stop].

    `text` is the `page` with blanks instead of comments and markup. A tensor without a header has
    no name, and one without a body has body_start == body_stop. `line` counts from 1.

    Mistakes in header or body are errors only when `desc` or the values are asked for, since pages
    have examples of other operators, too.

    `stated_type` and `stated_sizes` are what a text says without a header: next to the values in
    JSON, or where NumPy and PyTorch print it. A tensor that is the value of a key of a JSON object
    has the other keys of that object in `others`.
    """

    name: str
    line: int
    page: str
    text: str
    start: int
    body_start: int
    body_stop: int
    stated_type: DataType | None = None
    stated_sizes: Sizes | None = None
    others: tuple[str, ...] = ()

    @functools.cached_property
    def desc(self) -> TensorDesc | None:
        """Data type and shape of the header, None without one; FormatError for a wrong header."""
        if not self.name:
            return None
        header = HEADER.match(self.text, self.start)
        if not header:
            found = f"{self.name} has no header of a tensor"
            raise self.error(self.start, found, f"{self.name}{HEADER_FORM}")
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
        return self.desc.data_type if self.desc else self.stated_type

    @property
    def sizes(self) -> Sizes | None:
        """The shape that the text states."""
        return self.desc.sizes if self.desc else self.stated_sizes

    @property
    def is_described_only(self) -> bool:
        """Whether it has no values, as in what `check` and `run --dry-run` print."""
        return self.body_start == self.body_stop and not _ROW_BELOW.match(self.text, self.start)

    def parse_values(self, data_type: DataType) -> NDArray[Any]:
        """The values, as an array of the tensor's shape.

        FormatError, with line, column and a caret, for a body that is not a tensor or does not have
        the stated shape, and for a number that the data type cannot hold.
        """
        if self.body_start == self.body_stop:
            found = f"{self.name} has no values"
            raise self.error(self.start, found, "rows in brackets below the header")
        sizes = self.sizes
        if sizes and 0 in sizes:
            if not bodies.NUMBER.search(self.text, self.body_start, self.body_stop):
                return _make_empty(sizes, data_type)
        shape, texts = self._parsed_body
        try:
            values = numbers.parse_numbers(texts, data_type)
        except numbers.LiteralError as e:
            raise self.error(self.offset_of(e.index), e.problem) from None
        if sizes is None:
            return values.reshape(shape)
        if not self._may_have(shape, sizes):
            start = self.start if self.desc else self.body_start
            found = f"the values have {in_braces(shape)}, but {in_braces(sizes)} is stated"
            raise self.error(start, found)
        return values.reshape(sizes)

    @functools.cached_property
    def _parsed_body(self) -> tuple[Sizes, list[str]]:
        # Kept, since values are parsed again where a data type for them is looked for.
        return self.parse_body()

    def parse_body(self) -> tuple[Sizes, list[str]]:
        """The shape of the body, and its numbers; FormatError for a body that is not a tensor."""
        body = self.text[self.body_start : self.body_stop]
        self._refuse_words(body)
        tokens = bodies.find_tokens(self.page, body, self.body_start)
        # NumPy's print() has no commas.
        bodies.require_order(tokens, needs_commas=bool(self.name) or "," in body)
        shape = bodies.find_shape(tokens, self.sizes or ())
        stray = STRAY.match(self.text, self.body_stop)
        if stray:
            expected = "one more [ before it, or no ] here"
            raise self.error(stray.end() - 1, "this bracket closes nothing", expected)
        has_scalars = "np." in body or self.stated_type is DataType.BOOL
        return shape, bodies.split_numbers(body, has_scalars=has_scalars)

    def _refuse_words(self, body: str) -> None:
        """FormatError for what only looks like a blank, and for dots that stand for elements."""
        wrong_blank = _NO_BLANK.search(body)
        if wrong_blank:
            offset = self.body_start + wrong_blank.start()
            raise self.error(offset, f"{wrong_blank[0]!r} is not allowed in a tensor")
        dots = _DOTS.search(body)
        if dots:
            found = f"{dots[0]}: elements are left out here"
            raise self.error(self.body_start + dots.start(), found, "all elements")

    def _may_have(self, shape: Sizes, sizes: Sizes) -> bool:
        """Whether a body of that shape may have the stated sizes.

        Leading sizes of 1 need no brackets, and JSON's Values may be one flat list.
        """
        if not shape:
            return not sizes
        leading = len(sizes) - len(shape)
        if sizes[-len(shape) :] == shape and prod(sizes[:leading]) == 1:
            return True
        return not self.desc and shape == (prod(sizes),)

    def offset_of(self, index: int) -> int:
        """Where the number at that index, in C order, begins in the text."""
        matches = bodies.NUMBER.finditer(self.text, self.body_start, self.body_stop)
        return next(itertools.islice(matches, index, None)).start()

    def error(self, offset: int, problem: str, expected: str = "") -> PlacedError:
        """An error about a position of the page."""
        return error_at(self.page, offset, problem, expected)


def _make_empty(sizes: Sizes, data_type: DataType) -> NDArray[Any]:
    try:
        return np.empty(sizes, dtype_of(data_type))
    except ValueError:
        found = f"Sizes is {in_braces(sizes)}"
        raise FormatError(found, "smaller sizes next to the 0") from None
