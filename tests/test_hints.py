"""Every kind of hint that the package prints is typed as it is printed, and must not lead to what it was to help with.

`recorded_hints.json` has commands, the files that they find, and their hints; what the files hold stands there once.
`--rewrite-samples` writes the hints anew. What hints make is held against the meaning in tests/commands/test_hints.py.
"""

import ast
import base64
import json
import re
import sys
import zlib
from pathlib import Path

import hints
import pytest

import revseq_cli
from revseq_cli.core import system
from revseq_cli.formats import table
from revseq_cli.report.words import option

RECORDED = Path(__file__).with_name("recorded_hints.json")
RECORD = json.loads(RECORDED.read_text("utf-8"))
CASES = RECORD["cases"]
# What stands in a record for the name of a test's folder, and for the list of all formats.
FOLDER, FORMATS = "{folder}", "{formats}"
# A hint that says what to type: at its beginning, or behind a reason.
_SAYS = re.compile(r"^(?:.*: )?(?:add|use|try|leave out) |revseq ", re.DOTALL)
# Hints that no command and its files provoke alone, and texts that are no hints: why.
ELSEWHERE = {
    "batch: add --resume to skip what is done, or --overwrite.* to do all jobs again": "after a batch that was done",
    "cluster: add --scheduler.*": "with dask",
    "cluster: try a smaller --memory.*": "with a worker that dies",
    "base: use .* --overwrite, and no >": "where standard output is an input",
    "errors: report it, with -vv.*": "for an internal error",
    "errors: try a smaller --memory.*; text needs more than a binary format": "where memory ends",
    "files: try again later": "while another program writes the file",
    "files: try again later; if nobody writes it: h5clear -s .*": "while another program writes the file",
    "jobs: put ::1 after its name, as in revseq run -- -::1": "for standard input",
    "journal: add --journal jobs.journal": "for standard input",
    "onnx_nodes: sizes are inferred, and no values known: .* to run the model": "a note",
    "source: revseq verify runs a model on its test_data_set_0": "says what a command does",
    "textfiles: .*: .*: --dtype.* keeps them": "a note",
    "reversal: add --memory.*, or write to another disk": "on a full disk",
    "verify: add --allow-empty": "for a folder without pages",
}


def written(folder, files):
    """The recorded files, in a folder."""
    for name, key in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(zlib.decompress(base64.b85decode(RECORD["contents"][key])))


def said(done):
    """What a command says of an error, or what it answers where it is none."""
    return done.err if done.status == 2 else done.out + done.err


def judge(args, done, again, then):
    """What is typed gives another answer than the same error or, where none was printed, than the same hint."""
    told = f"{args} hints at {again}, which ends with {then.status} {then.out[-2000:]}\n{then.err}"
    hint = hints.last_hint(said(done))
    if done.status == 1:
        assert then.status != 2, told
        assert hints.last_hint(then.out + then.err) != hint, told
        return
    assert then.status != 2 or then.err.split("\n")[0] != done.err.split("\n")[0], told
    if (hints.is_whole(hint) and "did you mean" not in hint) or " --memory " in hint:  # what was mistyped may lack more
        assert then.status != 2, told


@pytest.mark.needs("POSIX words")
@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(case["args"])[:60])
def test_a_hint_is_typed_as_printed(revseq, tmp_path, request, case):
    written(tmp_path, case["files"])
    args = [each.replace(FOLDER, str(tmp_path)) for each in case["args"]]
    done = revseq(*args)
    hint = hints.last_hint(said(done)).replace(str(tmp_path), FOLDER).replace("|".join(table.NAMES), FORMATS)
    hint = hint.replace(f"{system.quoted(sys.executable)} -m pip ", "pip ")  # where the shell's pip is another Python's
    if request.config.getoption("--rewrite-samples"):
        case["hint"] = hint
        RECORDED.write_text(json.dumps(RECORD, indent=1, ensure_ascii=False) + "\n", "utf-8")
    assert hint == case["hint"], said(done)
    if again := hints.typed(args, said(done)):
        judge(args, done, again, revseq(*again))


def pattern(node, settings):
    """What the text of a hint looks like when it is printed; None for one that is made elsewhere."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    if not all(isinstance(each, ast.FormattedValue) or isinstance(getattr(each, "value", None), str) for each in parts):
        return None
    text = "".join(".*" if isinstance(each, ast.FormattedValue) else re.escape(each.value) for each in parts)
    before, *behind = re.split(r"\\{\\}", text)
    names = [f"{re.escape(option(name))}.*" if name else ".*" for name in settings]
    return before + "".join((names.pop(0) if names else ".*") + part for part in behind)


def of_text(node):
    """The hints with which an error is raised, or that a name takes, and that say what to type."""
    if isinstance(node, ast.IfExp):
        return of_text(node.body) + of_text(node.orelse)
    found = pattern(node, []) if isinstance(node, ast.JoinedStr | ast.Constant) else None
    return [found] if found and _SAYS.search(found.replace("\\", "")) else []


def templates(tree):
    """What each hint of a module looks like when it is printed."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Hint.of", "Hint"):
            yield from filter(None, [pattern(node.args[0], [each.arg for each in node.keywords])])
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Error"):
            for each in node.args[2:3] or [each.value for each in node.keywords if each.arg == "hint"]:
                yield from of_text(each)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).split(".")[-1] == "hint":
            yield from of_text(node.value)


def test_every_kind_of_hint_is_recorded():
    modules = sorted(Path(revseq_cli.__file__).parent.rglob("*.py"))
    found = {(each, path.stem) for path in modules for each in templates(ast.parse(path.read_text("utf-8")))}
    assert len(found) > 80
    printed = [case["hint"] for case in CASES]
    missing = {(each, name) for each, name in found if not any(re.search(each, hint) for hint in printed)}
    assert {f"{name}: {each}".replace("\\", "") for each, name in missing} == {*ELSEWHERE}
