"""The body of a tensor: its brackets, commas and numbers, from which its shape is found.

A text may have a gigabyte, and a loop over its characters would take minutes. So NumPy looks at all
tokens at once: at their kinds, and at how many brackets are open after each.

    [[1, 2, 3], [4, 5, 6]]

    token  [ [ 1 , 2 , 3 ] , [ 4 , 5 , 6 ] ]
    depth  1 2 2 2 2 2 2 1 1 2 2 2 2 2 2 1 0

The numbers have depth 2, so that the tensor has two dimensions. A row of depth d begins with a
bracket after which d are open. Here, the row of depth 1 has 2 rows of depth 2, and each of these
has 3 numbers: the shape is (2, 3).
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core.tensors import MOST_DIMENSIONS, Sizes
from revseq_cli.text.positions import PlacedError, error_at

NUMBER = re.compile(r"[^ \t\n\r,\[\]]+")  # a number, or a word where one should be
# Elements as NumPy prints them in a list.
_SCALAR = re.compile(r"\bnp\.(?P<type>[a-z]+[0-9]+)\((?P<number>[^()\[\]]*)\)")
_TRUTH = {"True": "1", "False": "0", "np.True_": "1", "np.False_": "0"}
# Lines that may be rows, of a body whose last bracket is missing.
_ROWS = re.compile(r"(?:[ \t]*+(?:[\[\],\"+\-.\d]|nan|inf)[^\n]*+\s*+)++", re.IGNORECASE)

# The kinds of tokens.
_OPEN, _CLOSE, _COMMA, _NUMBER, _BLANK = range(5)


def _classify(character: str) -> int:
    if character in " \t\n\r":
        return _BLANK
    return {"[": _OPEN, "]": _CLOSE, ",": _COMMA}.get(character, _NUMBER)


_KINDS = bytes(_classify(chr(code)) for code in range(256))
# Anything else may follow anything: a comma may be missing between two rows, and may trail before a
# bracket.
_NOT_ALLOWED = {
    (_NUMBER, _NUMBER): "a comma is missing before this number",
    (_OPEN, _CLOSE): "an empty row",
    (_COMMA, _COMMA): "a number is missing before this comma",
    (_OPEN, _COMMA): "a number is missing before this comma",
    (_NUMBER, _OPEN): "a row starts next to a number",
    (_CLOSE, _NUMBER): "a number is next to a row",
}
_UNKNOWN = -1  # a size that the text does not state


@dataclass(frozen=True)
class Tokens:
    """The tokens of a body: their kinds, and where they begin in the page; the body ends at `stop`.

    A run of characters that are not brackets, commas or blanks is a number, or a word instead.
    """

    page: str
    kinds: NDArray[np.uint8]
    offsets: NDArray[np.intp]
    stop: int

    @functools.cached_property
    def numbers(self) -> NDArray[np.intp]:
        """Which tokens are numbers."""
        return np.flatnonzero(self.kinds == _NUMBER)

    def error(self, token: int, problem: str, expected: str = "") -> PlacedError:
        """An error about a token."""
        return error_at(self.page, int(self.offsets[token]), problem, expected)


def find_tokens(page: str, body: str, start: int) -> Tokens:
    """The tokens of a body that begins at `start` of the page."""
    kinds = np.frombuffer(body.encode("ascii", "replace").translate(_KINDS), np.uint8)
    begins = kinds != _BLANK
    # All characters of a number have its kind: it begins at the first of them.
    begins[1:] &= (kinds[1:] != _NUMBER) | (kinds[:-1] != _NUMBER)
    offsets = np.flatnonzero(begins)
    kinds = kinds[offsets]
    offsets += start
    return Tokens(page, kinds, offsets, start + len(body))


def require_order(tokens: Tokens, *, needs_commas: bool) -> None:
    """FormatError for the first bracket, comma or number that is not allowed there."""
    may_follow = np.ones((4, 4), dtype=bool)
    for pair in _NOT_ALLOWED:
        may_follow[pair] = False
    if not tokens.numbers.size:  # a tensor without elements has empty rows
        may_follow[_OPEN, _CLOSE] = True
    if not needs_commas:
        may_follow[_NUMBER, _NUMBER] = True
    before = tokens.kinds[:-1]
    after = tokens.kinds[1:]
    is_wrong = ~may_follow[before, after]
    if is_wrong.any():
        i = int(is_wrong.argmax())  # the first
        raise tokens.error(i + 1, _NOT_ALLOWED[int(before[i]), int(after[i])])


def find_shape(tokens: Tokens, stated: Sizes) -> Sizes:
    """The shape of a body.

    FormatError if rows of one depth differ in length, or numbers have different depths. If only
    some rows have the `stated` size, the others are the wrong ones.
    """
    numbers = tokens.numbers
    opens = tokens.kinds == _OPEN
    closes = tokens.kinds == _CLOSE
    depth = np.cumsum(opens.view(np.int8) - closes.view(np.int8), dtype=np.int32)
    rank = int(depth.max())
    if numbers.size:
        rank = int(depth[numbers[0]])
    if not rank:
        # Without brackets, a single number has no dimensions, and numbers with commas have one.
        has_commas = tokens.kinds.size > 1
        return (numbers.size,) if has_commas else ()
    _require_depth(tokens, numbers, depth, rank)
    levels = [np.flatnonzero(opens & (depth == d)) for d in range(1, rank + 1)]
    levels.append(numbers)
    unknown = (_UNKNOWN,) * rank
    expected = (*unknown, *stated)[-rank:]  # the last dimension is the last stated one
    sizes = []
    for d, size in enumerate(expected):
        sizes.append(_find_size(tokens, levels[d], levels[d + 1], size))
    return tuple(sizes)


def _require_depth(
    tokens: Tokens, numbers: NDArray[np.intp], depth: NDArray[np.int32], rank: int
) -> None:
    """FormatError for too many dimensions, numbers of other depths and a missing last bracket."""
    if rank > MOST_DIMENSIONS:
        raise tokens.error(0, f"{rank} brackets deep", f"at most {MOST_DIMENSIONS} dimensions")
    odd = numbers[depth[numbers] != rank]
    if odd.size:
        problem = f"a number {depth[odd[0]]} brackets deep, but the first one is {rank} deep"
        raise tokens.error(int(odd[0]), problem, "as many brackets ] as [ in each row")
    missing = int(depth[-1])
    if missing:
        problem = "a bracket ] is missing"
        if missing > 1:
            problem = f"{missing} brackets ] are missing"
        raise error_at(tokens.page, tokens.stop, problem, f"{']' * missing} here")


def _find_size(tokens: Tokens, rows: NDArray[np.intp], parts: NDArray[np.intp], stated: int) -> int:
    """How many parts, rows of the next depth or numbers, each row has; FormatError if they differ.

    Rows and parts are numbers of tokens. A part is in the last row that begins before it.
    """
    row_of_part = np.searchsorted(rows, parts) - 1
    counts = np.bincount(row_of_part, minlength=rows.size)
    if (counts == counts[0]).all():
        return int(counts[0])
    size = _choose_size(counts, stated)
    odd = int((counts != size).argmax())  # the first
    elements = "1 element" if counts[odd] == 1 else f"{counts[odd]} elements"
    raise tokens.error(int(rows[odd]), f"this row has {elements}, the others have {size}")


def _choose_size(counts: NDArray[np.intp], stated: int) -> int:
    """What is probably the right size: the stated one if a row has it, or else that of most rows.

    If two sizes are equally frequent, it is the larger one.
    """
    if (counts == stated).any():
        return stated
    frequencies = np.bincount(counts)
    return int(np.flatnonzero(frequencies == frequencies.max())[-1])


def split_numbers(body: str, *, has_scalars: bool) -> list[str]:
    """The numbers of a body; `has_scalars` if some may be written as True or np.int64(3)."""
    if body.isascii():
        numbers = body.replace("[", " ").replace("]", " ").replace(",", " ").split()
    else:  # Python takes more characters for blanks
        numbers = NUMBER.findall(body)
    if not has_scalars:
        return numbers
    return [_TRUTH.get(number) or _SCALAR.sub(r"\g<number>", number) for number in numbers]


def find_data_type(body: str) -> str:
    """The data type of elements such as True and np.int64(3); "" where they are plain numbers."""
    if "True" in body or "False" in body:
        return "BOOL"
    scalar = _SCALAR.search(body) if "np." in body else None
    return scalar["type"] if scalar else ""


def find_body_stop(text: str, start: int, limit: int) -> int:
    """The offset after the bracket that closes the one at `start`.

    If none does, the offset after the lines that look like rows.
    """
    # A byte for each character.
    codes = np.frombuffer(text[start:limit].encode("ascii", "replace"), np.uint8)
    brackets = np.flatnonzero((codes == ord("[")) | (codes == ord("]")))
    depth = np.cumsum(np.where(codes[brackets] == ord("["), 1, -1))
    closing = np.flatnonzero(depth == 0)
    if closing.size:
        return start + int(brackets[closing[0]]) + 1
    rows = _ROWS.match(text, start, limit)
    if not rows:
        return start + 1
    return start + len(rows[0].rstrip())
