"""Results of commands, from which text and JSON are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.operator.spec import broken
from revseq_cli.text.numbers import render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from revseq_cli.core.errors import RevseqError
    from revseq_cli.core.tensors import TensorDesc
    from revseq_cli.formats.contract import Source
    from revseq_cli.operator.spec import Constraint, FeatureLevel
    from revseq_cli.pipeline.comparison import Differences
    from revseq_cli.pipeline.plan import Plan
    from revseq_cli.pipeline.summaries import LengthCounts
    from revseq_cli.porting.diagnose import Diagnosis, Mistake


class Check(NamedTuple):
    """The result of `check`: the constraints of the level that was asked for.

    `names` has the name of each tensor; `counts` is None if no level accepts the tensors. `hint` is what to type where
    the job is refused; without one, each constraint has its own. `with_cast` is the lowest level of DirectML that would
    accept the tensors with lengths of UINT32, where that helps.
    """

    names: dict[str, str]
    values: TensorDesc
    lengths: TensorDesc
    axis: int
    level: FeatureLevel
    constraints: list[Constraint]
    lowest: FeatureLevel | None
    counts: LengthCounts | None
    batch_axis: int | None = None
    notes: Sequence[str] = ()
    hint: str = ""
    with_cast: FeatureLevel | None = None

    @property
    def valid(self) -> bool:
        """Whether that level accepts the job."""
        return not broken(self.constraints)


class Traffic(NamedTuple):
    """The bytes that a job reads and writes at most, temporary files too, and the `size` of its output.

    Sizes are those of tensors: compression takes less, and text more.
    """

    read_bytes: int
    write_bytes: int
    size: int


class Planned(NamedTuple):
    """A job before it runs, and its plan; `kept` bytes of the input's file are copied with the tensor."""

    values: TensorDesc
    lengths: TensorDesc
    axis: int
    plan: Plan
    kept: int

    @property
    def traffic(self) -> Traffic:
        """The bytes that it reads and writes."""
        values, size = self.values.total_bytes, self.values.total_bytes + self.kept
        written = size + self.plan.spooled * values
        read = written + self.lengths.total_bytes
        if self.plan.tiling:  # a temporary file, of which about a quarter is read more than once
            return Traffic(read + values * 5 // 4, written + values, size)
        return Traffic(read, written, size)


class Outcome(NamedTuple):
    """The result of a job of a batch: `line` is its line in the manifest, `error` is None if its output is written.

    With `skipped`, an earlier batch has written it. With a `plan`, it was only planned.
    """

    line: int
    output: str
    error: RevseqError | None
    bytes: int = 0
    verified: bool = False
    notes: Sequence[str] = ()
    clamped: int = 0
    skipped: bool = False
    plan: Traffic | None = None


class Comparison(NamedTuple):
    """The result of `diff`: `differences` is None for tensors of other data types or sizes, and `hint` about them.

    `b` is what `a` is compared with: a tensor, or what is right for a job, whose `axis` is reversed. `why` says which
    lines are wrong, and what explains them. `notes` are those of all tensors.
    """

    a: Source
    b: Source
    differences: Differences | None
    axis: int | None = None
    why: Diagnosis | None = None
    hint: str = ""
    notes: Sequence[str] = ()

    @property
    def equal(self) -> bool:
        """Whether no element differs, and none was read otherwise than A has it."""
        return self.differences is not None and not self.differences.count and not self.mistakes

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        """What explains the differences."""
        return self.why.mistakes if self.why else ()

    @property
    def roles(self) -> tuple[str, str]:
        """What `a` and `b` are called."""
        return ("A", "B") if self.axis is None else ("A", "right")


def first_differences(differences: Differences) -> list[tuple[list[int], str, str]]:
    """The first elements that differ: the index, and the values in a and in b as text."""
    texts = map(render, (differences.a, differences.b))
    return list(zip(differences.indices.tolist(), *texts, strict=True))
