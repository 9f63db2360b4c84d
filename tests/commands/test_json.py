"""--json: one form for all commands and all errors, which man/json.md describes."""

import json
import re
from typing import is_typeddict

import numpy as np
import pytest
from conftest import ROOT

from revseq_cli.commands.groups import COMMANDS
from revseq_cli.report import objects

HEAD = ["command", "exit_status", "notes", "errors"]
JOB = ("x.npy", "n.npy", "--axis", 1)
PAGE = (ROOT / "man" / "json.md").read_text("utf-8")
RECORDS = [
    record
    for name, record in vars(objects).items()
    if name.endswith("Record") and is_typeddict(record)
]


@pytest.fixture(autouse=True)
def files(tmp_path):
    """A job, an output that is wrong, an example, and a manifest of two jobs."""
    x = np.arange(12, dtype="f4").reshape(3, 4)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "a.npy", x)
    np.save(tmp_path / "n.npy", np.array([[2], [9], [4]], "u4"))
    jobs = [
        {"input": "x.npy", "lengths": "n.npy", "axis": 1, "output": "b1.npy"},
        {"input": "x.npy", "lengths": "n.npy", "axis": 1, "output": "a.npy"},
    ]
    (tmp_path / "m.jsonl").write_text("\n".join(map(json.dumps, jobs)))
    return tmp_path


def keys_of(value):
    """The keys of all objects, but for names that files give."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            if key not in ("attribute_values", "most_elements"):
                yield from keys_of(item)
    if isinstance(value, list):
        for item in value:
            yield from keys_of(item)


REPORTS = [
    (("run", *JOB, "-o", "y.npy"), 0),
    (("run", *JOB, "--dry-run"), 0),
    (("check", *JOB), 0),
    (("check", *JOB, "--feature-level", "1_0"), 1),
    (("diff", "a.npy", "x.npy"), 0),
    (("diff", "a.npy", "[1]"), 1),
    (("diff", "a.npy", "--job", *JOB), 1),
    (("show", "x.npy", "--stats"), 0),
    (("show", "x.npy", "none.npy"), 1),
    (("convert", "x.npy", "y.h5"), 0),
    (("levels",), 0),
    (("levels", "1_0"), 0),
    (("export", *JOB, "-o", "model.json"), 0),
    (("verify", str(ROOT / "samples" / "page.md")), 0),
    (("verify", "none.md", str(ROOT / "samples" / "page.md")), 1),
]


@pytest.mark.parametrize(("typed", "status"), REPORTS, ids=lambda value: str(value)[:50])
def test_every_report_has_one_form(revseq, typed, status):
    done = revseq(*typed, "--json")
    report = json.loads(done.out)
    assert [*report][:4] == HEAD
    assert (report["command"], report["exit_status"], done.status) == (typed[0], status, status)
    assert all(re.fullmatch("[a-z_]+", key) for key in keys_of(report))
    for error in report["errors"]:
        assert [*error] == ["where", "found", "expected", "hint", "context"]
    said = [line for line in done.err.splitlines() if line.startswith("Note: ")]
    assert said == [f"Note: {note}" for note in report["notes"]]


def test_a_tensor_is_the_same_in_each_report(revseq):
    tensor = {"name": "x.npy", "data_type": "FLOAT32", "shape": [3, 4]}
    lengths = {"name": "n.npy", "data_type": "UINT32", "shape": [3, 1]}
    job = {"input": tensor, "lengths": lengths, "axis": 1, "batch_axis": None}
    for typed in (
        ("run", *JOB, "-o", "y.npy"),
        ("run", *JOB, "--dry-run"),
        ("check", *JOB),
        ("export", *JOB, "-o", "m.json"),
    ):
        report = json.loads(revseq(*typed, "--json").ok().out)
        assert {key: report[key] for key in job} == job, typed
    assert json.loads(revseq("diff", "x.npy", "x.npy", "--json").ok().out)["a"] == tensor
    assert json.loads(revseq("convert", "x.npy", "z.npy", "--json").ok().out)["input"] == tensor
    shown = json.loads(revseq("show", "x.npy", "--json").ok().out)["tensors"][0]
    assert {key: shown[key] for key in tensor} == tensor


def test_a_model(revseq):
    model = str(ROOT / "samples" / "onnx" / "model.onnx")
    report = json.loads(revseq("check", model, "--json").out)
    assert [*report] == [*HEAD, "level", "valid", "nodes"]
    assert {"name", "data_type", "shape", "verdict"} <= {*report["nodes"][0]}


def test_batch_has_a_report_for_each_job(revseq):
    done = revseq("batch", "m.jsonl", "--json").failed()
    reports = sorted(map(json.loads, done.out.splitlines()), key=lambda report: report["line"])
    assert [[*report][:4] for report in reports] == [HEAD, HEAD]
    assert [report["command"] for report in reports] == ["batch", "batch"]
    assert [report["exit_status"] for report in reports] == [0, 2]
    assert [len(report["errors"]) for report in reports] == [0, 1]


@pytest.mark.parametrize(
    ("typed", "command"),
    [
        (("run", *JOB, "--axis", 7, "-o", "y.npy"), "run"),
        (("run", *JOB), "run"),
        (("run", *JOB, "--frce"), "run"),
        (("run", "--memory", "x"), "run"),
        (("run",), "run"),
        (("check", "none.npy", "n.npy"), "check"),
        (("diff", "a.npy"), "diff"),
        (("batch", "none.csv"), "batch"),
        (("verify",), "verify"),
        (("verify", "x.npy", "--format", "json"), "verify"),
        (("show", "none.npy"), "show"),
        (("levels", "99"), "levels"),
        (("reverse", "x.npy"), None),
    ],
    ids=str,
)
def test_every_error_has_that_form(revseq, typed, command):
    done = revseq(*typed, "--json")
    report = json.loads(done.out)
    assert [*report] == HEAD
    assert (done.status, report["exit_status"], report["command"]) == (2, 2, command)
    assert report["errors"][0]["found"] in " ".join(done.err.split())
    plain = revseq(*typed)
    assert (plain.status, plain.out) == (2, "") or typed == ("run", *JOB)


def test_a_value_and_a_name_are_not_the_option(revseq):
    assert revseq("run", "--frce", "--", "--json").out == ""
    assert revseq("run", "none.npy", "n.npy", "--axis", 1, "-o", "--json").out == ""


def test_a_note_before_an_error_is_in_the_report(revseq, files):
    """What DirectML does with long lengths is said before `export` writes."""
    (files / "m.json").mkdir()
    report = json.loads(revseq("export", *JOB, "-o", "m.json", "--json").out)
    assert "DirectML itself" in report["notes"][0]
    assert report["errors"]


def test_the_forms_of_verify_exclude_each_other(revseq):
    revseq("verify", "page.md", "--json", "--github").refused("--json and --github")


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_the_page_names_every_key(record):
    for key in record.__annotations__:
        assert f"`{key}`" in PAGE or f'"{key}"' in PAGE, key


def test_the_page_has_an_example_for_each_command():
    commands = {command for command in COMMANDS if command not in ("completion", "help")}
    examples = re.findall(r"^\$ revseq (\w+) .*--json", PAGE, re.MULTILINE)
    assert {*examples} >= commands
