"""What DxDispatch prints of a buffer: `Resource 'y': 1, 2.5, inf`, all elements in one line of its log.

It writes each element with C++'s `<<` into a stream of its own (DxDispatch/src/dxdispatch/Executor.cpp, `ToString`), so
that floats have six significant digits, and integers all of theirs. Windows has its own words for NaNs: -nan(ind).
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING

from revseq_cli.ground import system
from revseq_cli.ground.errors import FormatError, Words, listed, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

_RESOURCE = re.compile(r"^Resource '([^\n]*?)': ?(.*)$", re.MULTILINE)
_FLOAT = re.compile(r"-?(?:\d+(?:\.\d+)?(?:e[+-]\d+)?|inf)", re.ASCII)
_NAN = re.compile(r"-?nan(?:\(\w+\))?", re.ASCII)
_INTEGER = re.compile(r"-?\d+", re.ASCII)
_DIGITS = 6


def elements(text: str, key: str | None, path: str, where: str) -> list[str]:
    """The elements of the buffer `key`, or of the only one in the log; FormatError if it is not there exactly once.

    `path` is what a user types for the text, and `where` its name in messages.
    """
    buffers = _RESOURCE.findall(text.replace("\r\n", "\n"))
    if not buffers:
        raise FormatError(
            "has no line that DxDispatch prints for a buffer", "a line such as: Resource 'OutputTensor': 1, 2, 3",
            Words.of("leave out {} if A is a tensor in a format of its own", as_printed=""), where,
        )  # fmt: skip
    names = [name for name, _ in buffers]
    chosen = [values for name, values in buffers if key in (None, name)]
    if len(chosen) != 1:
        found = f"has {len(chosen)} buffers{'' if key is None else f' with the name {printable(key)}'}: {listed(names)}"
        typed = f"{'-- ' if path.startswith('-') else ''}{system.quoted(f'{path}::{names[-1]}')}"
        hint = f"try {typed}" if names.count(names[-1]) == 1 else "keep the last run alone"
        raise FormatError(found, "one buffer, by its name behind ::", hint, where)
    return [each.strip() for each in chosen[0].split(",")]


def floats(tokens: Sequence[str], where: str) -> list[float]:
    """The numbers that were printed; FormatError with the first that is none."""
    for i, each in enumerate(tokens):
        if not (_FLOAT.fullmatch(each) or _NAN.fullmatch(each)):
            raise _no_number(tokens, i, where)
    return [float("nan" if _NAN.fullmatch(each) else each) for each in tokens]


def integers(tokens: Sequence[str], least: int, most: int, where: str) -> list[int]:
    """The integers that were printed; FormatError with the first that is none, or that is out of the range."""
    for i, each in enumerate(tokens):
        if len(each) > 20 or not _INTEGER.fullmatch(each) or not least <= int(each) <= most:
            raise _no_number(tokens, i, where, f"an integer from {least} to {most}")
    return list(map(int, tokens))


def _no_number(
    tokens: Sequence[str], i: int, where: str, wanted: str = "a number as DxDispatch prints it"
) -> FormatError:
    return FormatError(f"its element {i} is '{printable(tokens[i][:40])}'", wanted, where=where)


def rounded(number: float, printed: float) -> float:
    """The number in the six digits that are printed; between two such numbers, the one that was printed.

    Windows rounded a number halfway between two away from zero until 2020, and since then to an even digit.
    """
    even = float(f"{number:.{_DIGITS}g}")
    if even == printed or number != number or number in (float("inf"), float("-inf")):
        return even
    away = float(Context(prec=_DIGITS, rounding=ROUND_HALF_UP).plus(Decimal(number)))
    return away if away == printed else even
