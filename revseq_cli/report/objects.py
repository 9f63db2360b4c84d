"""Results as JSON for programs: each function gives one object as text. The man pages list its members."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from revseq_cli.ground.errors import Choices, RevseqError
from revseq_cli.operator.spec import broken, support
from revseq_cli.report.results import (
    Check,
    Comparison,
    Described,
    FileSystem,
    Outcome,
    comparison_of,
    first_differences,
    statistics_of,
    traffic,
)
from revseq_cli.report.words import message, options_json, spelled
from revseq_cli.texts import dxdispatch

SCHEMA = 1

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from revseq_cli.formats.contents import Contents
    from revseq_cli.formats.contract import Source
    from revseq_cli.ground.errors import Words
    from revseq_cli.ground.tensors import TensorDesc
    from revseq_cli.operator.spec import Constraint, FeatureLevel
    from revseq_cli.passes.arrangement import Arrangement
    from revseq_cli.passes.exports import Exported


def run(
    values: TensorDesc,
    lengths: TensorDesc,
    axis: int,
    output: str,
    notes: Sequence[str | Words],
    *,
    verified: bool,
    clamped: int,
    sha256: str | None,
) -> str:
    """The report of `run`; with a digest only if it was asked for. `clamped` lengths are above the axis size."""
    done = {"output": output, "bytes": values.total_bytes, "verified": verified, "clamped": clamped}
    done |= {"notes": [*map(spelled, notes)]}
    digest = {"sha256": sha256} if sha256 else {}
    return as_json({**_job_json(values, lengths, axis), **done, **digest})


def export(done: Exported) -> str:
    """The report of `export`."""
    job, files = done.job, [file._asdict() for file in done.files]
    names = {"output": done.files[0].path, "files": files, "members": list(done.members), "result": str(done.target)}
    typed = {"command": dxdispatch.command_line(done.model.name), "comparison": comparison_of(done)}
    notes = [*map(spelled, done.notes)]
    return as_json({**_job_json(job.values.desc, job.lengths.desc, job.axis), **names, **typed, "notes": notes})


def plan(values: TensorDesc, lengths: TensorDesc, axis: int, arrangement: Arrangement) -> str:
    """The report of `run --dry-run`; memory and block sizes are in bytes."""
    read, written = traffic(values, lengths, arrangement)
    tiling = arrangement.tiling
    plan = {
        "blocks": arrangement.plan.block_count,
        "block_bytes": arrangement.plan.block_elements * values.data_type.size,
        "read_bytes": read,
        "write_bytes": written,
        "engine": arrangement.engine.name,
        "workers": None if arrangement.scheduler else arrangement.workers,
        "memory": arrangement.need,
        "spooled": arrangement.spooled or tiling is not None,
        **({"run_bytes": tiling.run * values.data_type.size, "direct_memory": arrangement.direct} if tiling else {}),
        **({"scheduler": arrangement.scheduler} if arrangement.scheduler else {}),
    }
    return as_json({**_job_json(values, lengths, axis), "plan": plan})


def convert(source: Source, output: str, notes: Sequence[str | Words], *, verified: bool, sha256: str | None) -> str:
    """The report of `convert`; with a digest only if it was asked for."""
    done = {"output": output, "bytes": source.desc.total_bytes, "verified": verified, "notes": [*map(spelled, notes)]}
    return as_json({"input": _tensor_json(source), **done, **({"sha256": sha256} if sha256 else {})})


def diff(comparison: Comparison) -> str:
    """The report of `diff`; its members are null for tensors of different data types or sizes."""
    a, b, found, axis, mistakes, hint, _ = comparison
    names = ("different", "both_nan", "lines", "inside", "behind", "largest_absolute", "largest_relative")
    values: dict[str, Any] = dict.fromkeys(names)
    if found:
        counts = (found.count, found.nans)
        where = found.where[:3] if axis is not None else (None,) * 3
        largest = (found.largest_absolute, found.largest_relative)
        values = _finite(dict(zip(names, (*counts, *where, *largest), strict=True)))
    first = [{"index": i, "A": in_a, "B": in_b} for i, in_a, in_b in first_differences(found)] if found else []
    tensors = {"A": _tensor_json(a), "B": _tensor_json(b), "Axis": axis}
    told = {"first": first, "mistakes": list(mistakes), "hint": spelled(hint), "notes": [*comparison.notes]}
    return as_json({"equal": comparison.equal, **tensors, **values, **told})


def show(tensors: Iterable[Described], listed: Collection[Contents], errors: Mapping[str, RevseqError]) -> str:
    """The report of `show`: tensors, what is listed beside them, and the errors of what cannot be read, by name."""
    others = [(contents, item) for contents in listed for item in contents.items if not item.desc]
    report = {
        "tensors": [_described(tensor) for tensor in tensors],
        "groups": [
            {"name": contents.name_of(item), "attributes": item.attributes}
            for contents, item in others
            if item.is_group
        ],
        "others": [
            {"name": contents.name_of(item), "what": item.what, "Sizes": item.sizes, "attributes": item.attributes}
            for contents, item in others
            if not item.is_group
        ],
        "files": [
            {"name": contents.name, "format": contents.format, "attributes": contents.attributes} for contents in listed
        ],
        "errors": [{"name": name, "error": message(error)} for name, error in errors.items()],
    }
    return as_json(report)


def _described(tensor: Described) -> dict[str, Any]:
    statistics = {"statistics": _finite(statistics_of(tensor.statistics))} if tensor.statistics else {}
    return {
        "name": tensor.name,
        **_desc_json(tensor.desc),
        "dimensions": [name or None for name in tensor.dimensions],
        "attributes": tensor.attributes,
        "bytes": tensor.desc.total_bytes,
        "format": tensor.format,
        "storage": tensor.details,
        "notes": [*tensor.notes],
        **statistics,
    }


def check(check: Check) -> str:
    """The report of `check`."""
    return as_json(
        {
            "level": check.level.short if check.level is not None else "all",
            "valid": check.valid,
            **_job_json(check.values, check.lengths, check.axis),
            "BatchAxis": check.batch_axis,
            **_constraints_json(check),
            "choices": [
                {"options": options_json(each.settings), "meaning": each.meaning}
                for each in (check.choices.choices if isinstance(check.choices, Choices) else ())
            ],
            "lowest_level": check.lowest.short if check.lowest is not None else None,
            "lengths": check.counts._asdict() if check.counts is not None else None,
            "notes": [*map(spelled, check.notes)],
        }
    )


def outcome(outcome: Outcome) -> str:
    """The report of `batch` on one job; with a digest only if it was asked for, and with a plan for `--dry-run`."""
    line, output, error, size, verified, notes, clamped, sha256, skipped, plan = outcome
    result = {"line": line, "output": output, "ok": error is None, "error": message(error) if error else None}
    more: dict[str, Any] = {"sha256": sha256} if sha256 else {}
    more |= {"plan": {"read_bytes": plan.read, "write_bytes": plan.written}} if plan else {}
    done = {
        "skipped": skipped,
        "bytes": size,
        "verified": verified,
        "clamped": clamped,
        "notes": [*map(spelled, notes)],
    }
    return as_json({**result, **done, **more})


def file_systems(found: Sequence[FileSystem]) -> str:
    """The last line of `batch --dry-run`."""
    names = ("path", "needed_bytes", "free_bytes")
    return as_json({"file_systems": [dict(zip(names, each, strict=True)) for each in found]})


def levels(levels: Sequence[FeatureLevel]) -> str:
    """The report of `levels`: one row for each level, with null where it lacks the operator."""
    rows = []
    for level in levels:
        row = support(level)
        rows.append(
            {
                "level": level.short,
                "dimension_counts": [row.dimension_counts[0], row.dimension_counts[-1]] if row else None,
                "InputTensor": [t.name for t in row.values] if row else None,
                "SequenceLengthsTensor": [t.name for t in row.lengths] if row else None,
                "most_elements": row.most_elements if row else None,
            }
        )
    return as_json({"levels": rows})


def _constraints_json(check: Check) -> dict[str, Any]:
    """The constraints of one level, or the levels with theirs."""
    levels = [
        {
            "level": level.short,
            "valid": not broken(constraints),
            "constraints": [*map(_constraint_json, constraints)],
        }
        for level, constraints in check.constraints.items()
    ]
    return {"constraints": levels[0]["constraints"]} if check.level is not None else {"levels": levels}


def _constraint_json(constraint: Constraint) -> dict[str, Any]:
    members = {name: getattr(constraint, name) for name in ("tensor", "property", "found", "wanted", "rule", "ok")}
    return {"label": constraint.label(), **members, "hint": spelled(constraint.hint)}


def _finite(numbers: dict[str, Any]) -> dict[str, Any]:
    """The numbers with a string for each NaN, infinity or complex number, which JSON lacks."""

    def plain(number: object) -> object:
        finite = not isinstance(number, float) or math.isfinite(number)
        return number if finite and not isinstance(number, complex) else str(number)

    return {key: plain(number) for key, number in numbers.items()}


def _tensor_json(source: Source) -> dict[str, Any]:
    return {"name": source.name, **_desc_json(source.desc)}


def as_json(report: dict[str, Any]) -> str:
    """The report as one object, with the number of its schema."""
    return json.dumps({"schema": SCHEMA, **report})


def _desc_json(desc: TensorDesc) -> dict[str, Any]:
    return {"DataType": desc.data_type.name, "Sizes": list(desc.sizes)}


def _job_json(values: TensorDesc, lengths: TensorDesc, axis: int) -> dict[str, Any]:
    return {"InputTensor": _desc_json(values), "SequenceLengthsTensor": _desc_json(lengths), "Axis": axis}
