"""Click's parameter types for the values of arguments and options, with their parsers and completion."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from revseq_cli.ground.errors import UsageError
from revseq_cli.ground.tensors import DataType
from revseq_cli.operator.spec import FeatureLevel
from revseq_cli.passes.systems import JUDGES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


_UNITS = " KMGT"  # powers of 1024
_ALL = "all"  # every feature level
_LONGEST_NUMBER = 40  # characters
LIST = "list"  # the value of --on that asks what there is
_ONNX_RUNTIME, _JUDGES = next(iter(JUDGES)), (*JUDGES, LIST)


class Parsed(click.ParamType[Any]):
    """A value that `parse` makes of text; `words` are its completions."""

    def __init__(self, name: str, parse: Callable[[str], Any], words: tuple[str, ...] = ()) -> None:
        self.name, self._parse, self._words = name, parse, words

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """The words that begin with `incomplete`, in upper or lower case."""
        return [CompletionItem(word) for word in self._words if word.lower().startswith(incomplete.lower())]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The parsed value, or Click's usage error with the message of the UsageError."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except UsageError as e:
            self.fail("; ".join(filter(None, (e.found, e.wanted))), param, ctx)


class Known(click.Choice[str]):
    """One of some words in upper or lower case, or another word for one."""

    def __init__(self, words: Iterable[str], synonyms: Mapping[str, str]) -> None:
        super().__init__(tuple(words), case_sensitive=False)
        self._synonyms = synonyms

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The word of the list, or Click's usage error."""
        return super().convert(self._synonyms.get(value.lower(), value), param, ctx)


class Tensor(click.ParamType[Any]):
    """The name of a tensor; completed with files, and behind :: with the tensors in the file.

    Behind :: of a page are the numbers of its examples, if `examples` is set, and the names of tensors, if `names` is.
    """

    name = "tensor"

    def __init__(self, *, examples: bool = True, names: bool = True) -> None:
        self._examples, self._names = examples, names

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """A request for files, or, behind ::, the names in the file; none if it cannot be read."""
        path, separator, _ = incomplete.rpartition("::")
        if not separator:
            return [CompletionItem(incomplete, type="file")]
        from revseq_cli.ground.errors import RevseqError
        from revseq_cli.passes import jobs  # other completions load no NumPy

        real = os.path.expanduser(path)  # noqa: PTH111 - the shell does so only when the command runs
        try:
            names = jobs.names_behind(real, examples=self._examples, names=self._names)
        except RevseqError:  # the command itself reports it
            return []
        # The shell reads one line for each word, so a word must not hold a line break.
        words = filter(str.isprintable, (f"{path}::{name}" for name in names))
        return [CompletionItem(word, type="name") for word in words if word.startswith(incomplete)]


def complete_dimension(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The dimensions of INPUT that the option may name, with their sizes: of a job, those that its lengths fit."""
    from revseq_cli.ground.errors import RevseqError
    from revseq_cli.passes import jobs  # other completions load no NumPy

    given = [ctx.params.get(name) for name in ("input", "lengths")]
    if not given[0]:  # as of a batch, or in A --job INPUT LENGTHS
        given = [*(ctx.params.get("tensors") or ())][1:3]
    try:
        found = jobs.dimensions(*filter(None, given), batch=param.name == "batch_axis") if any(given[:1]) else {}
    except (RevseqError, ValueError):  # the command itself reports it
        return []
    rows = ((str(dimension), f"size {size}") for dimension, size in found.items())
    return [CompletionItem(word, help=text) for word, text in rows if word.startswith(incomplete)]


def parse_dimension(text: str) -> int | str:
    """The number or the name of a dimension; what looks like a number is one. UsageError for an empty text."""
    if not text.strip():
        raise UsageError("the dimension is empty", "a number or a name; is a variable unset?")
    number = re.fullmatch(r"([+-]?\d+)(\.\d*)?", text.strip(), re.ASCII)
    if not number and os.path.splitext(text)[1] and os.path.exists(text):  # noqa: PTH110, PTH122 - it may be any text
        raise UsageError(f"{text!r} is a file", "a number or a name")
    if not number:
        return text
    if len(text) <= _LONGEST_NUMBER and not (number[2] and float(number[2] + "0")):
        return int(number[1])
    raise UsageError(f"{text[:_LONGEST_NUMBER]!r} is no dimension", "a whole number from 0 on, or a name")


def parse_bytes(text: str) -> int:
    """A number of bytes from text such as 1GiB, 0.5G, 10KB or 4096; UsageError for other text, and for 0."""
    number = r"(\d{1,18})(?:\.(\d{1,18})(?=\s*[KMGT]))?"
    match = re.fullmatch(number + r"\s*(?:([KMGT])(i?B)?|B?)", text.strip(), re.IGNORECASE | re.ASCII)
    size = 0
    if match:
        whole, part, unit, suffix = (each or "" for each in match.groups())
        base = 1000 if unit and suffix.upper() == "B" else 1024
        size = int(whole + part) * base ** _UNITS.index(unit.upper() or " ") // 10 ** len(part)
    if not size:
        raise UsageError(f"{text[:40]!r} is not a size", "a number of bytes, such as 1GiB, 0.5G or 100MB")
    return int(size)


def bytes_text(number: int) -> str:
    """The number of bytes as `parse_bytes` reads it, with the largest unit that gives a whole number: 1GiB."""
    units = [unit for unit in range(len(_UNITS)) if number % 1024**unit == 0]
    return f"{number // 1024 ** units[-1]}{_UNITS[units[-1]]}{'iB' if units[-1] else ''}"


def parse_chunks(text: str) -> str | tuple[int, ...]:
    """The sizes of a chunk from text such as 1x256x1024; keep and auto stay text; UsageError for other text."""
    if text in ("keep", "auto"):
        return text
    if not re.fullmatch(r"[1-9]\d{0,17}(x[1-9]\d{0,17})*", text, re.ASCII):
        raise UsageError(f"{text[:40]!r} is not a chunk", "keep, auto, or sizes such as 1x256x1024")
    return tuple(map(int, text.split("x")))


def parse_numbers(text: str) -> tuple[int, ...]:
    """Integers of at least 0, as 2x3x4, 2,3,4 or {2,3,4}; UsageError for other text."""
    if not re.fullmatch(r"\{?\d{1,18}([x,] ?\d{1,18})*\}?", text, re.ASCII):
        raise UsageError(f"{text[:40]!r} is not one number for each dimension", "such as 2x3x4")
    return tuple(map(int, re.findall(r"\d+", text)))


def parse_compression(text: str) -> str | int:
    """The level of gzip from gzip or gzip:LEVEL; keep and none stay text; UsageError for other text."""
    if text in ("keep", "none"):
        return text
    match = re.fullmatch(r"gzip(?::([0-9]))?", text, re.ASCII)
    if not match:
        meant = f"did you mean gzip:{text}, or " if re.fullmatch("[0-9]", text) else ""
        raise UsageError(f"{text[:40]!r} is not a compression", f"{meant}keep, none, gzip, or gzip:0 to gzip:9")
    return int(match[1] or 4)


def parse_level(text: str) -> FeatureLevel:
    """One feature level; UsageError for other text, and for all."""
    if text.strip().lower() == _ALL:
        raise UsageError(f"{_ALL} is for revseq check", "here one feature level, as 5_0")
    return FeatureLevel.parse(text)


def parse_levels(text: str) -> tuple[FeatureLevel, ...]:
    """One feature level, or every one from the text all; UsageError for other text."""
    return tuple(FeatureLevel) if text.strip().lower() == _ALL else (FeatureLevel.parse(text),)


def parse_judge(text: str) -> str:
    """The provider of ONNX Runtime from onnxruntime, onnxruntime:PROVIDER or directml; list stays text.

    UsageError for other text.
    """
    name, _, provider = text.partition(":")
    if provider and name.lower() == _ONNX_RUNTIME:
        return provider
    if text.lower() in _JUDGES:
        return JUDGES.get(text.lower(), LIST)
    raise UsageError(f"{text[:40]!r} runs no jobs", f"{', '.join(_JUDGES)}, or {_ONNX_RUNTIME}:PROVIDER")


COMPRESSIONS = ("keep", "none", "gzip", *(f"gzip:{level}" for level in range(10)))
_SHORT_LEVELS = tuple(level.short for level in FeatureLevel)
LEVEL = Parsed("level", parse_level, _SHORT_LEVELS)
LEVELS = Parsed("level", parse_levels, (*_SHORT_LEVELS, _ALL))
DIMENSION = Parsed("dimension", parse_dimension)
DATA_TYPE = Parsed("type", DataType.parse, tuple(each.name for each in DataType))
NUMBERS = Parsed("sizes", parse_numbers)
JUDGE = Parsed("judge", parse_judge, _JUDGES)
LENGTHS_TYPE = Parsed("type", DataType.parse_length, ("UINT32", "UINT64"))
