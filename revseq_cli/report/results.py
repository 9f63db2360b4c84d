"""What commands found out, before it becomes text or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from revseq_cli.report import view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from revseq_cli.ground.errors import RevseqError, Words
    from revseq_cli.ground.tensors import TensorDesc
    from revseq_cli.operator.kernel import LengthCounts
    from revseq_cli.operator.spec import Constraint, FeatureLevel
    from revseq_cli.passes.pages import Finding
    from revseq_cli.passes.statistics import Statistics


class Check(NamedTuple):
    """All that `check` found out."""

    names: dict[str, str]
    values: TensorDesc
    lengths: TensorDesc
    axis: int
    level: FeatureLevel
    constraints: list[Constraint]
    lowest: FeatureLevel | None
    counts: LengthCounts | None
    batch_axis: int | None = None
    notes: Sequence[str | Words] = ()


class Outcome(NamedTuple):
    """What became of one job of a batch: `line` is that of the manifest, `error` is None if it is done."""

    line: int
    output: str
    error: RevseqError | None
    bytes: int = 0
    verified: bool = False
    notes: Sequence[str | Words] = ()
    sha256: str | None = None


def statistics_of(found: Statistics) -> dict[str, Any]:
    """By name; without elements that are numbers there is neither a minimum nor a mean."""
    return {"min": found.least, "max": found.greatest, "mean": found.mean, "NaN": found.nans}


def difference_of(finding: Finding) -> dict[str, Any]:
    """The first wrong element of an example, and how many there are; empty where there is none."""
    if not (wrong := finding.differences):
        return {}
    index, found, expected = view.first_differences(wrong)[0]
    element = {"index": index, "line": finding.wrong_line, "found": found, "expected": expected}
    return {**element, "count": wrong.count, "total": wrong.total}
