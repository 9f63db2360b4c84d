"""Holds a value against a JSON Schema, as far as `revseq help json` uses them; and every --json output of the suite."""

import json

from revseq_cli.report import objects

_TYPES = {
    "string": str, "integer": int, "boolean": bool, "null": type(None), "array": list, "object": dict,
}  # fmt: skip


def problems(value, rule, root, place=""):
    """What in the value the rule does not allow, with its place."""
    if "$ref" in rule:
        rule = root["$defs"][rule["$ref"].rpartition("/")[2]]
    if "anyOf" in rule:
        found = [[*problems(value, each, root, place)] for each in rule["anyOf"]]
        yield from min(found, key=len)
    elif "const" in rule and value != rule["const"]:
        yield f"{place} is {value!r}, not {rule['const']!r}"
    elif "type" in rule and type(value) is not _TYPES[rule["type"]]:
        yield f"{place} is {value!r}, no {rule['type']}"
    elif isinstance(value, list):
        for i, each in enumerate(value):
            yield from problems(each, rule.get("items", {}), root, f"{place}[{i}]")
    elif isinstance(value, dict):
        yield from _of_members(value, rule, root, place)


def _of_members(value, rule, root, place):
    yield from (f"{place}.{name} is missing" for name in rule.get("required", ()) if name not in value)
    for name, each in value.items():
        inner = rule.get("properties", {}).get(name, rule.get("additionalProperties", {}))
        if inner is False:
            yield f"{place}.{name} is not known"
        else:
            yield from problems(each, inner, root, f"{place}.{name}")


SCHEMA = objects.schema()


def require(args, out):
    """AssertionError for a line of what a run with these arguments printed, if it asked for JSON."""
    words = args[: args.index("--")] if "--" in args else args
    if "--json" not in words or {"-h", "--help"} & {*words}:
        return
    for line in out.splitlines():
        found = [*problems(json.loads(line), SCHEMA, SCHEMA)]
        assert not found, f"{found}: {line}"
