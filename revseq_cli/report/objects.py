"""What commands print with --json: one form for all of them, which revseq-json(7) describes.

A report is one object. Four keys are the same for all commands: `command`, `exit_status`, `notes`
and `errors`. The others are the keys of one of the records below, in this order.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, TypedDict

from revseq_cli.core.errors import RevseqError
from revseq_cli.core.tensors import TensorDesc

if TYPE_CHECKING:
    from revseq_cli.operator.directml import Departure
    from revseq_cli.operator.spec import Constraint
    from revseq_cli.pipeline.jobs import Job
    from revseq_cli.porting.diagnose import Mistake, WrongSequences


class ErrorRecord(TypedDict):
    """A part of an error; what it does not have is empty."""

    where: str
    found: str
    expected: str
    hint: str
    context: str


class TensorRecord(TypedDict):
    """A tensor; of one in a model, the data type or the shape may be unknown."""

    name: str
    data_type: str | None
    shape: Sequence[int | str] | None


class JobRecord(TypedDict):
    """What every report on a job has."""

    input: TensorRecord
    lengths: TensorRecord
    axis: int
    batch_axis: int | None


class RunRecord(JobRecord):
    """`run -o`: the new file, the bytes of its tensor, and how many lengths were clamped."""

    output: str
    bytes: int
    clamped: int


class PlanRecord(TypedDict):
    """How a job would run; memory and sizes of blocks are in bytes.

    The downloads are those of both inputs, as far as they are at addresses.
    """

    blocks: int
    block_bytes: int
    engine: str
    workers: int | None
    scheduler: str | None
    memory: int
    spooled: bool
    download_requests: int
    download_bytes: int


class DryRunRecord(JobRecord):
    """`run --dry-run`."""

    output: str | None
    plan: PlanRecord


class CountsRecord(TypedDict):
    """How many lengths a job has, and their range."""

    total: int
    clamped: int
    unchanged: int
    least: int | None
    greatest: int | None


class CheckRecord(JobRecord):
    """`check` of a job; `length_counts` is None if no level accepts its lengths."""

    level: str
    valid: bool
    lowest_level: str | None
    hint: str
    constraints: Sequence[Constraint]
    length_counts: CountsRecord | None
    directml: Sequence[Departure]


class NodeRecord(TensorRecord):
    """A ReverseSequence node of a model, with the tensor that it reverses."""

    time_axis: int
    batch_axis: int
    valid: bool
    lowest_level: str | None
    verdict: str


class NodesRecord(TypedDict):
    """`check` of a model."""

    level: str
    valid: bool
    nodes: Sequence[NodeRecord]


class DifferenceRecord(TypedDict):
    """An element that differs."""

    index: Sequence[int]
    a: str
    b: str


class DiffRecord(TypedDict):
    """`diff`: how many elements differ, how far, and the first of them.

    These are None for tensors of different data types or shapes. `axis`, `wrong_sequences` and
    `mistakes` are about a job.
    """

    a: TensorRecord
    b: TensorRecord
    equal: bool
    total: int | None
    different: int | None
    nans: int | None
    inside: int | None
    largest_absolute: float | None
    largest_relative: float | None
    largest_ulps: int | None
    first: Sequence[DifferenceRecord] | None
    axis: int | None
    wrong_sequences: WrongSequences | None
    mistakes: Sequence[Mistake]
    hint: str


class OutcomeRecord(TypedDict):
    """`batch`: one job, which has a report of its own."""

    line: int
    output: str
    bytes: int
    clamped: int
    skipped: bool
    planned: bool


class StatisticsRecord(TypedDict):
    """The statistics of a tensor, and how many NaNs, infinities and missing values it has."""

    min: object
    max: object
    mean: object
    nan: int
    infinite: int
    missing: int


class StoredRecord(TensorRecord):
    """A tensor in a file; a list of a file has neither values of attributes nor statistics."""

    bytes: int
    dimensions: Sequence[str | None]
    attributes: int | None
    attribute_values: Mapping[str, object] | None
    format: str
    storage: Mapping[str, object]
    statistics: StatisticsRecord | None


class OtherRecord(TypedDict):
    """What a file holds besides tensors, such as a group."""

    name: str
    what: str
    attributes: int | None


class ShowRecord(TypedDict):
    """`show`."""

    tensors: Sequence[StoredRecord]
    others: Sequence[OtherRecord]


class ConvertRecord(TypedDict):
    """`convert`: the input, the new file, and the bytes of its tensor."""

    input: TensorRecord
    output: str
    bytes: int


class FindingRecord(TypedDict):
    """A mistake in an example."""

    line: int
    column: int
    message: str


class ExampleRecord(TypedDict):
    """An example on a page."""

    number: int
    line: int
    right: bool
    fixed: bool
    findings: Sequence[FindingRecord]


class PageRecord(TypedDict):
    """A page; `skipped` counts its examples of other operators."""

    name: str
    examples: Sequence[ExampleRecord]
    skipped: int


class VerifyRecord(TypedDict):
    """`verify`; `skipped` counts pages without examples."""

    pages: Sequence[PageRecord]
    skipped: int


class LevelRecord(TypedDict):
    """What a feature level accepts; all is None if the operator does not exist."""

    level: str
    input_data_types: Sequence[str] | None
    lengths_data_types: Sequence[str] | None
    dimension_counts: Sequence[int] | None
    most_elements: Mapping[str, int] | None


class LevelsRecord(TypedDict):
    """`levels`."""

    levels: Sequence[LevelRecord]


class ExportRecord(JobRecord):
    """`export`: the new files, what to type on Windows, what that writes, and what to type here."""

    files: Sequence[str]
    dxdispatch: str
    result: str
    comparison: str
    directml: Sequence[Departure]


def report_text(
    command: str | None,
    status: int,
    *,
    notes: Sequence[str] = (),
    errors: Iterable[RevseqError] = (),
    record: Mapping[str, object] | None = None,
) -> str:
    """The report of a command; `record` has its own keys, and is None after an error."""
    report: dict[str, object] = {"command": command, "exit_status": status, "notes": notes}
    parts = itertools.chain.from_iterable(error.parts() for error in errors)
    report["errors"] = [_describe_error(part) for part in parts]
    if record:
        report |= record
    return dump_json(report)


def _describe_error(error: RevseqError) -> ErrorRecord:
    return ErrorRecord(
        where=error.where,
        found=error.found,
        expected=error.expected,
        hint=error.hint,
        context=error.context,
    )


def describe_tensor(name: str, desc: TensorDesc) -> TensorRecord:
    """A tensor of a report."""
    return TensorRecord(name=name, data_type=desc.data_type.name, shape=desc.sizes)


def describe_job(job: Job) -> JobRecord:
    """The keys of all reports on a job; the lengths are as LENGTHS has them."""
    values, lengths, axis = job.descs
    return JobRecord(
        input=describe_tensor(job.values.name, values),
        lengths=describe_tensor(job.lengths.name, lengths),
        axis=axis,
        batch_axis=job.batch_axis,
    )


def dump_json(value: object) -> str:
    """Any value as JSON; NaN, infinities, complex numbers and any other thing are strings."""
    return json.dumps(_plain(value), allow_nan=False)


def _plain(value: object) -> object:
    """The value made of Python's own types: JSON has none of NumPy's, even if they are equal."""
    if is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    elif hasattr(value, "_asdict"):  # a NamedTuple, which is an object, too
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, str) or value is None:
        return value
    if hasattr(value, "tolist"):  # an array or a number of NumPy's
        value = value.tolist()
    if isinstance(value, Iterable):
        return [_plain(item) for item in value]
    if isinstance(value, int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return str(value)
