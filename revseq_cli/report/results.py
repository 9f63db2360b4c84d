"""Results of commands, from which text and JSON are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from revseq_cli.core.errors import RevseqError
from revseq_cli.operator.spec import broken
from revseq_cli.text import literals

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from revseq_cli.core.tensors import TensorDesc
    from revseq_cli.formats.contents import Contents
    from revseq_cli.formats.contract import Source
    from revseq_cli.operator.spec import Constraint, FeatureLevel
    from revseq_cli.pipeline.comparison import Differences
    from revseq_cli.pipeline.plan import Plan
    from revseq_cli.pipeline.summaries import LengthCounts, Statistics
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


def attributes_of(source: Source) -> dict[str, Any]:
    """The attributes of a tensor as JSON has them; none where they cannot be read."""
    try:
        given = source.meaning().attributes
    except RevseqError:
        return {}
    return {name: value.tolist() if hasattr(value, "tolist") else value for name, value in given.items()}


class Described(NamedTuple):
    """What `show` tells of a tensor but its values: `typed` is what to type for it, `name` what messages call it."""

    typed: str
    name: str
    desc: TensorDesc
    dimensions: Sequence[str]
    attributes: int | None
    format: str
    details: dict[str, str]
    notes: Sequence[str] = ()
    statistics: Statistics | None = None
    attribute_values: dict[str, object] | None = None

    @classmethod
    def of(cls, source: Source, typed: str, notes: Sequence[str] = (), statistics: Statistics | None = None) -> Self:
        """A tensor that is open."""
        storage, about = source.storage, (source.dimensions, source.attributes)
        values = attributes_of(source) if source.attributes is not None else None
        return cls(typed, source.name, source.desc, *about, *storage, notes, statistics, values)

    @classmethod
    def all_of(cls, contents: Contents) -> list[Self]:
        """The tensors of a file, by their headers."""
        return [
            cls(name, name, item.desc, item.dimensions, item.attributes, contents.format, item.details)
            for item in contents.tensors
            for name in [contents.name_of(item)]
            if item.desc
        ]


class Traffic(NamedTuple):
    """The bytes that a job reads and writes at most, temporary files too, and the `size` of its output.

    Sizes are those of tensors: compression takes less, and text more.
    """

    read: int
    written: int
    size: int

    @classmethod
    def of(cls, values: TensorDesc, lengths: TensorDesc, plan: Plan, kept: int) -> Self:
        """The traffic of a job; `kept` bytes of the input's file are copied with the tensor."""
        size = values.total_bytes + kept
        spooled = plan.spooled * values.total_bytes
        read, written = size + lengths.total_bytes + spooled, size + spooled
        if plan.tiling:
            read += values.total_bytes * 5 // 4  # a temporary file, of which about a quarter is read more than once
            written += values.total_bytes
        return cls(read, written, size)


class Planned(NamedTuple):
    """A job before it runs: the tensor's name, and how it will be reversed.

    `kept` bytes of the input's file are copied with the tensor.
    """

    name: str
    values: TensorDesc
    lengths: TensorDesc
    axis: int
    plan: Plan
    kept: int

    @property
    def traffic(self) -> Traffic:
        """The bytes that it reads and writes."""
        return Traffic.of(self.values, self.lengths, self.plan, self.kept)


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


class FileSystem(NamedTuple):
    """What the outputs of a batch need on a file system, and what is free there, in bytes."""

    path: str
    needed: int
    free: int


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
    texts = map(literals.render, (differences.a, differences.b))
    return list(zip(differences.indices.tolist(), *texts, strict=True))
