"""Results as JSON for programs, and the JSON Schema of them all. The man pages say what each member means.

One table has the members of each object: their names and types, and where their values are. The objects and the schema
are made from it, so neither can have a member that the other lacks.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from revseq_cli.core.errors import RevseqError, Suggestions
from revseq_cli.core.tensors import Symbol
from revseq_cli.operator.spec import INPUT, LENGTHS, broken, support
from revseq_cli.report.results import (
    Check,
    Comparison,
    Described,
    Outcome,
    Planned,
    first_differences,
)
from revseq_cli.report.words import hints, message, options_json

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from revseq_cli.formats.contents import Contents
    from revseq_cli.operator.spec import FeatureLevel
    from revseq_cli.report.results import NodeCheck

_NUMBER = 1  # of the schema
# What errors are about that is no file: arguments, and standard streams.
_NO_FILES = ("INPUT", "LENGTHS", "A", "B", "SRC", "standard input", "standard output", "the argument", "-")

# A member is "name:type=value", where the value is that of the name unless it is stated: a.b is the attribute b of a,
# and None if a is. A member with ? is left out where its value is None. Of types, [x] is a list of x, {x} an object of
# any names whose values are x, x|y is x or y, and x|null is null for None and for an empty text.
_JOB = "InputTensor:desc=values SequenceLengthsTensor:desc=lengths Axis:int=axis"
_WRITTEN = "output:str bytes:int verified:bool notes:[str]"
_CHECK = (
    f"level:str valid:bool {_JOB} BatchAxis:int|null=batch_axis choices:[choice] lowest_level:str|null=lowest.short "
    "lengths:counts|null=counts notes:[str]"
)
_DESC = "DataType:str=desc.data_type.name Sizes:[int]=desc.sizes"
_ERROR = "file:str|null key:str|null found:str wanted:str hint:str where:str context:str"
_REPORTS = {
    "run": f"{_JOB} {_WRITTEN} clamped:int",
    "run --dry-run": f"{_JOB} plan:plan",
    "check": f"{_CHECK} constraints:[constraint]",
    "check --feature-level all": f"{_CHECK} levels:[level]",
    "check of a model": "exit_status:int nodes:[node]",
    "batch": (
        "line:int output:str|null ok:bool error:str|null errors:[error] skipped:bool bytes:int|null verified:bool "
        "clamped:int|null notes:[str] plan?:traffic"
    ),
    "batch --dry-run": "file_systems:[file_system]",
    "show": "exit_status:int tensors:[described] groups:[group] others:[other] files:[listed] errors:[unread]",
    "convert": f"input:tensor {_WRITTEN}",
    "diff": (
        "equal:bool A:side B:side Axis:int|null=axis total:int|null=differences.total "
        "different:int|null=differences.count "
        "both_nan:int|null=differences.nans lines:int|null=where.lines inside:int|null=where.inside "
        "behind:int|null=where.behind largest_absolute:any=differences.largest_absolute "
        "largest_relative:any=differences.largest_relative first:[difference] wrong_lines:wrong_lines|null=why.lines "
        "mistakes:[mistake] hint:str notes:[str]"
    ),
    "levels": "levels:[support]",
    "export": f"{_JOB} output:str files:[str] result:str command:str comparison:str notes:[str]",
    "an error of any command": "exit_status:int errors:[error]",
}
_PARTS = {
    "desc": "DataType:str=data_type.name Sizes:[int|str]=sizes",
    "tensor": f"name:str {_DESC}",
    "side": f"name:str role:str {_DESC}",
    "wrong_lines": "count:int of:int rule:str id:str",
    "mistake": "id:str text:str lines:int",
    "plan": (
        "blocks:int block_bytes:int read_bytes:int write_bytes:int engine:str workers:int|null memory:int spooled:bool "
        "run_bytes?:int direct_memory?:int scheduler?:str"
    ),
    "node": "name:str ok:bool verdict:str|null lowest_level:str|null=check.lowest.short errors:[error]",
    "choice": "options:{str|null} meaning:str",
    "counts": "total:int clamped:int unchanged:int",
    "constraint": "label:str tensor:str property:str found:str wanted:str rule:str ok:bool hint:str",
    "level": "level:str valid:bool constraints:[constraint]",
    "traffic": "read_bytes:int=read write_bytes:int=written",
    "file_system": "path:str needed_bytes:int=needed free_bytes:int=free",
    "described": (
        f"name:str {_DESC} dimensions:[str|null] attributes:int|null attribute_values?:{{any}} "
        "bytes:int=desc.total_bytes format:str "
        "storage:{any}=details notes:[str] statistics?:statistics"
    ),
    "statistics": "min:any=least max:any=greatest mean:any NaN:int=nans infinite:int missing:int",
    "group": "name:str attributes:int|null",
    "other": "name:str what:str Sizes:[int]|null=sizes attributes:int|null",
    "listed": "name:str format:str attributes:int|null",
    "error": _ERROR,
    "unread": f"name:str error:str {_ERROR}",
    "difference": "index:[int] A:any B:any",
    "support": (
        "level:str dimension_counts:[int]|null InputTensor:[str]|null SequenceLengthsTensor:[str]|null "
        "most_elements:int|null"
    ),
}
_TYPES = {"str": "string", "int": "integer", "bool": "boolean", "null": "null"}


class _Member(NamedTuple):
    """A member of an object: its name, its type, and the attributes that lead to its value."""

    name: str
    kind: str
    path: tuple[str, ...]
    optional: bool


@functools.cache
def _members(text: str) -> tuple[_Member, ...]:
    made = []
    for each in text.split():
        name, _, kind = each.partition(":")
        kind, _, path = kind.partition("=")
        plain = name.removesuffix("?")
        made.append(_Member(plain, kind, tuple((path or plain).split(".")), plain != name))
    return tuple(made)


def report(name: str, it: object = None, **more: object) -> str:
    """The report of that name as JSON, from the attributes or items of `it`; `more` has members that it lacks."""
    return text_of({"schema": _NUMBER, **_object(_REPORTS[name], {} if it is None else it, more)})


def _object(members: str, it: object, more: Mapping[str, object]) -> dict[str, Any]:
    made = {}
    for member in _members(members):
        value = more[member.name] if member.name in more else functools.reduce(_attribute, member.path, it)
        if value is not None or not member.optional:
            made[member.name] = _value(member.kind, value)
    return made


def _attribute(it: Any, name: str) -> Any:  # noqa: ANN401 - results have values of any type
    return None if it is None else it.get(name) if isinstance(it, Mapping) else getattr(it, name)


def _value(kind: str, value: Any) -> object:  # noqa: ANN401 - as above
    if kind.endswith("|null"):
        return None if value is None or value == "" else _value(kind.removesuffix("|null"), value)
    if kind[0] == "[":
        return [_value(kind[1:-1], each) for each in value]
    if kind[0] == "{":
        return {key: _value(kind[1:-1], each) for key, each in value.items()}
    if kind in _PARTS:
        return _object(_PARTS[kind], value, {})
    if kind == "str" or isinstance(value, Symbol):
        return str(value)
    return value


def schema() -> dict[str, Any]:
    """The JSON Schema of everything that --json prints."""
    reports = {name: _object_schema(f"schema:int {members}") for name, members in _REPORTS.items()}
    for each in reports.values():
        each["properties"]["schema"] = {"const": _NUMBER}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What revseq prints with --json",
        "anyOf": [{"title": name, **each} for name, each in reports.items()],
        "$defs": {name: _object_schema(members) for name, members in _PARTS.items()},
    }


def _object_schema(members: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {each.name: _type_schema(each.kind) for each in _members(members)},
        "required": [each.name for each in _members(members) if not each.optional],
        "additionalProperties": False,
    }


def _type_schema(kind: str) -> dict[str, Any]:
    first, _, last = kind.rpartition("|")
    if first and last in _TYPES:
        return {"anyOf": [_type_schema(first), _type_schema(last)]}
    if kind[0] in "[{":
        of, items = ("array", "items") if kind[0] == "[" else ("object", "additionalProperties")
        return {"type": of, items: _type_schema(kind[1:-1])}
    if kind in _TYPES:
        return {"type": _TYPES[kind]}
    return {} if kind == "any" else {"$ref": f"#/$defs/{kind}"}


def plans(planned: Sequence[Planned]) -> str:
    """The report of `run --dry-run`, which has one plan, or one for each of several tensors."""
    tensors = [{**each._asdict(), "plan": _plan(each)} for each in planned]
    return report("run --dry-run", tensors[0], tensors=tensors if len(tensors) > 1 else None)


def _plan(planned: Planned) -> dict[str, object]:
    """The plan of one tensor; memory and block sizes are in bytes."""
    values, arrangement, traffic = planned.values, planned.arrangement, planned.traffic
    tiling = arrangement.tiling
    return {
        "blocks": arrangement.plan.block_count,
        "block_bytes": arrangement.plan.block_elements * values.data_type.size,
        "read_bytes": traffic.read,
        "write_bytes": traffic.written,
        "engine": arrangement.engine.name,
        "workers": None if arrangement.scheduler else arrangement.workers,
        "memory": arrangement.need,
        "spooled": bool(arrangement.spooled or tiling),
        "run_bytes": tiling.run * values.data_type.size if tiling else None,
        "direct_memory": arrangement.direct if tiling else None,
        "scheduler": arrangement.scheduler or None,
    }


def diff(comparison: Comparison) -> str:
    """The report of `diff`; its members are null for tensors of different data types or sizes."""
    found = first_differences(comparison.differences) if comparison.differences else []
    first = [dict(zip(("index", "A", "B"), each, strict=True)) for each in found]
    sides = zip("AB", (comparison.a, comparison.b), comparison.roles, strict=True)
    both = {key: {"name": each.name, "role": role, "desc": each.desc} for key, each, role in sides}
    return report("diff", comparison, first=first, **both)


def show(
    tensors: Iterable[Described], listed: Collection[Contents], errors: Mapping[str, RevseqError], status: int
) -> str:
    """The report of `show`: tensors, what is listed beside them, and the errors of what cannot be read, by name."""
    others = [(item, {**item._asdict(), "name": each.name_of(item)}) for each in listed for item in each.items]
    unread = [{"name": name, "error": message(error), **errors_of(error)[0]} for name, error in errors.items()]
    return report(
        "show",
        exit_status=status,
        tensors=tensors,
        groups=[members for item, members in others if item.is_group],
        others=[members for item, members in others if not item.is_group and not item.desc],
        files=listed,
        errors=unread,
    )


def check(check: Check) -> str:
    """The report of `check`."""
    levels = []
    for level, constraints in check.constraints.items():
        told = [{**vars(each), "label": each.label()} for each in constraints]
        levels.append({"level": level.short, "valid": not broken(constraints), "constraints": told})
    choices = check.choices.choices if isinstance(check.choices, Suggestions) else ()
    typed = [{"options": options_json(each.settings), "meaning": each.meaning} for each in choices]
    if check.level is None:
        return report("check --feature-level all", check, level="all", choices=typed, levels=levels)
    return report("check", check, level=check.level.short, choices=typed, constraints=levels[0]["constraints"])


def checks(found: Sequence[NodeCheck], status: int) -> str:
    """The report of `check` on the nodes of a model."""
    from revseq_cli.report.checks import verdict  # it loads what draws tables

    nodes = []
    for each in found:
        told = verdict(each.check) if each.check else None
        parts = {"name": each.name, "ok": each.ok, "check": each.check, "verdict": told}
        nodes.append({**parts, "errors": errors_of(each.error)})
    return report("check of a model", exit_status=status, nodes=nodes)


def outcome(outcome: Outcome) -> str:
    """The report of `batch` on one job; with a digest only if it was asked for, and with a plan for `--dry-run`."""
    error = outcome.error
    return report("batch", outcome, ok=not error, error=message(error) if error else None, errors=errors_of(error))


def failure(error: RevseqError, status: int, typed: Sequence[str]) -> str:
    """An error that ends the command, with its exit status; `typed` has the arguments, which hints repeat."""
    return report("an error of any command", exit_status=status, errors=errors_of(error, typed))


def errors_of(error: RevseqError | None, typed: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The parts of an error as objects; none where there is no error."""
    return [_error(part, typed) for part in error.parts()] if error else []


def _error(part: RevseqError, typed: Sequence[str]) -> dict[str, Any]:
    file, _, key = part.where.partition("::")
    text, colon, name = part.where.rpartition(": ")
    if colon and not key and name.isidentifier():  # a tensor of a text
        file, key = text, name
    hint = "\n".join(hints(part.hint, typed))
    return _object(_ERROR, part, {"file": "" if file in _NO_FILES else file, "key": key, "hint": hint})


def levels(levels: Sequence[FeatureLevel]) -> str:
    """The report of `levels`: one row for each level, with null where it lacks the operator."""
    rows = []
    for level in levels:
        row: dict[str, object] = {"level": level.short}
        if found := support(level):
            counts = found.dimension_counts
            row |= {"dimension_counts": [counts[0], counts[-1]], "most_elements": found.most_elements}
            row |= {name: [each.name for each in found.data_types(name)] for name in (INPUT, LENGTHS)}
        rows.append(row)
    return report("levels", levels=rows)


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
    return value if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)) else str(value)
