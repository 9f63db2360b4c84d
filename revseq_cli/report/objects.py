"""Results of commands, and the same as JSON for programs. The manual says what each member means."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from revseq_cli.core.errors import RevseqError
from revseq_cli.core.tensors import TensorDesc
from revseq_cli.operator.spec import INPUT, LENGTHS
from revseq_cli.report.terminal import message
from revseq_cli.text.numbers import render

if TYPE_CHECKING:
    from revseq_cli.formats.contents import Contents, Item
    from revseq_cli.formats.contract import Source, Storage
    from revseq_cli.pipeline.folds import Differences, Statistics
    from revseq_cli.pipeline.jobs import Job
    from revseq_cli.pipeline.plan import Plan
    from revseq_cli.porting.diagnose import Mistake, WrongLines
    from revseq_cli.report.comparison import WrongSequence


class Outcome(NamedTuple):
    """The result of a job of a batch: `line` is its line in the manifest, `error` is None if its output is written.

    With `skipped`, the output is up to date; it was only `planned` in a dry run.
    """

    line: int
    output: str
    error: RevseqError | None
    bytes: int = 0
    notes: Sequence[str] = ()
    clamped: int = 0
    skipped: bool = False
    planned: bool = False


class Comparison(NamedTuple):
    """The result of `diff`: `differences` is None for tensors of other data types or sizes.

    `b` is what `a` is compared with: a tensor, or what is right for a job, whose `axis` is reversed. `lines` says
    which are wrong, and `mistakes` what explains that. `notes` are those of all tensors.
    """

    a: Source
    b: Source
    differences: Differences | None
    axis: int | None = None
    lines: WrongLines | None = None
    mistakes: tuple[Mistake, ...] = ()
    notes: Sequence[str] = ()
    sequences: tuple[WrongSequence, ...] = ()

    @property
    def hint(self) -> str:
        """What helps, if that is known, or with which options all is equal but for rounding."""
        remedies = [mistake.remedy for mistake in self.mistakes if mistake.remedy]
        if remedies:
            return "; ".join(remedies)
        wider = self.differences.wider if self.differences else ""
        if wider == "--equal-nan":
            return "add --equal-nan to treat all NaNs as equal"
        return f"the differences are as small as rounding: add {wider}" if wider else ""

    @property
    def equal(self) -> bool:
        """Whether no element differs, and none was read otherwise than A has it."""
        return self.differences is not None and not self.differences.count and not self.mistakes

    @property
    def roles(self) -> tuple[str, str]:
        """What `a` and `b` are called."""
        return ("A", "B") if self.axis is None else ("A", "expected")


def first_differences(differences: Differences) -> list[tuple[list[int], str, str]]:
    """The first elements that differ: the index, and the values in a and in b as text."""
    texts = map(render, (differences.a, differences.b))
    return list(zip(differences.indices.tolist(), *texts, strict=True))


def text_of(value: object) -> str:
    """Any value as JSON: a string stands for each NaN, infinity or complex number, and for any other thing."""
    return json.dumps(_plain(value), allow_nan=False)


def _plain(value: object) -> object:
    """The value made of Python's own types; NumPy's are not JSON's, though many equal them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, str) or value is None:
        return value
    if hasattr(value, "tolist"):  # an array or a number of NumPy's
        value = value.tolist()
    if isinstance(value, Iterable):
        return [*map(_plain, value)]
    return (
        value
        if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
        else str(value)
    )


def of_desc(desc: TensorDesc) -> dict[str, object]:
    """The members that reports have of a tensor."""
    return {"DataType": desc.data_type.name, "Sizes": desc.sizes}


def job(values: TensorDesc, lengths: TensorDesc, axis: int) -> dict[str, object]:
    """The members that reports have of a job."""
    return {INPUT: of_desc(values), LENGTHS: of_desc(lengths), "Axis": axis}


def plan(of: Job, plan: Plan) -> str:
    """The report of `run --dry-run`; memory and sizes of blocks are in bytes."""
    told = {
        "blocks": plan.blocks.count,
        "block_bytes": plan.blocks.elements * of.values.dtype.itemsize,
        "engine": plan.engine,
        "workers": None if plan.transport.scheduler else plan.workers,
        "scheduler": plan.transport.scheduler or None,
        "memory": plan.bytes,
        "spooled": bool(plan.detour.copies or plan.detour.tiling),
    }
    return text_of({**job(of.values.desc, of.lengths.desc, of.axis), "plan": told})


def outcome(outcome: Outcome) -> str:
    """The report of `batch` on one job."""
    error = outcome.error
    told = {"ok": not error, "errors": errors_of(error), "error": error and message(error)}
    return text_of(outcome._asdict() | told)


def described(
    name: str, tensor: Source | Item, desc: TensorDesc, storage: Storage, **more: object
) -> dict[str, Any]:
    """What `show` tells of a tensor: its names of dimensions, how many attributes it has, and how it is stored."""
    dimensions = [each or None for each in tensor.dimensions]
    about = {"bytes": desc.total_bytes, "dimensions": dimensions, "attributes": None}
    return {
        "name": name,
        **of_desc(desc),
        **about,
        "format": storage.format,
        "storage": storage.details,
        **more,
    }


def statistics(found: Statistics) -> dict[str, object]:
    """The statistics of a tensor."""
    ends = {"min": found.least, "max": found.greatest, "mean": found.mean}
    return {**ends, "NaN": found.nans, "infinite": found.infinite, "missing": found.missing}


def show(
    tensors: Sequence[dict[str, Any]],
    listed: Collection[Contents],
    errors: Mapping[str, RevseqError],
    status: int,
) -> str:
    """The report of `show`: tensors, what is listed beside them, and the errors of what cannot be read, by name."""
    items = [(contents.name_of(item), item) for contents in listed for item in contents.items]
    others = [
        {"name": name, "what": item.what, "attributes": item.attributes}
        for name, item in items
        if not item.desc
    ]
    unread = [
        {"name": name, "error": message(error), "errors": errors_of(error)}
        for name, error in errors.items()
    ]
    return text_of({"exit_status": status, "tensors": tensors, "others": others, "errors": unread})


def diff(comparison: Comparison) -> str:
    """The report of `diff`; tensors of different data types or sizes have no numbers, and no lines without a job."""
    a, b, found, axis, wrong, mistakes, notes, _ = comparison
    report: dict[str, object] = {"equal": comparison.equal, "Axis": axis}
    report |= {key: {"name": side.name, **of_desc(side.desc)} for key, side in (("A", a), ("B", b))}
    if found:
        names = ("total", "nans", "inside", "largest_absolute", "largest_relative", "largest_ulps")
        report |= {"different": found.count, **{name: getattr(found, name) for name in names}}
        report["first"] = [
            {"index": index, "A": x, "B": y} for index, x, y in first_differences(found)
        ]
    report["wrong_lines"] = wrong and wrong._asdict()
    report["mistakes"] = [mistake._asdict() for mistake in mistakes]
    return text_of(report | {"hint": comparison.hint, "notes": notes})


def failure(error: RevseqError, status: int) -> str:
    """An error that ends the command, with its exit status."""
    return text_of({"exit_status": status, "errors": errors_of(error)})


def errors_of(error: RevseqError | None) -> list[dict[str, str]]:
    """The parts of an error as objects; none where there is no error."""
    names = ("where", "found", "expected", "hint", "context")
    return (
        [{name: getattr(part, name) for name in names} for part in error.parts()] if error else []
    )
