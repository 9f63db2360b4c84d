"""The commands through their real entry point: statuses, streams, messages, and nothing written by mistake."""

import io
import json
import os
import subprocess

import numpy as np
import oracle
import pytest
from conftest import COMMAND, SAMPLES
from folders import content
from terminals import on_terminal

from revseq_cli.commands.values import parse_bytes
from revseq_cli.core.errors import UsageError

INPUT = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
LENGTHS = np.array([[2], [4], [3]], np.uint32)
EXPECTED = oracle.reverse(INPUT, LENGTHS, 1)


def test_standard_input(revseq, files):
    x, n = (files / "x.npy").read_bytes(), (files / "n.npy").read_bytes()
    out = revseq("run", "-", "n.npy", "--axis", 1, "-f", "npy", stdin=x).ok().raw
    assert oracle.same_bits(np.load(io.BytesIO(out)), EXPECTED)
    text = revseq("run", "x.npy", "-", "--axis", 1, stdin=b"[[2], [4], [3]]").ok().out
    assert revseq("run", "x.npy", "-", "--axis", 1, stdin=n).ok().out == text
    revseq("run", "-", "-", "--axis", 0, stdin=b"[1]").refused(
        "only one of INPUT and LENGTHS can be standard input"
    )


def test_options_override_the_job_file(revseq, tmp_path):
    (tmp_path / "e.txt").write_bytes((SAMPLES / "example1.txt").read_bytes())
    revseq("run", "e.txt", "--axis", 2).refused("{1,1,3,1}", "{1,1,1,4}")
    out = revseq("run", "e.txt", "[[[[1, 1, 1, 3]]]]", "--axis", 2).ok().out
    assert "[[[[1, 2, 3, 12]" in out.replace("  ", " ")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("none.npy", "n.npy"), ("none.npy: no such file",)), ((".", "n.npy"), (".: a folder",)), (("noext", "n.npy"), ("has no suffix", "add --input-format npy\n")),
        (("x.dat", "n.npy"), ("x.dat: has the unknown suffix .dat", "--input-format npy\n")),
        (("x.npy", "i.npy", "--feature-level", "5_0"), ("i.npy: DataType is INT64", "--lengths-dtype UINT32")),
        (("x.npy", "x.npy"), ("x.npy: has the shape {3,4}", "{3,1}")), (("x.npy::a", "n.npy"), ("a .npy file has one tensor",)),
        (("x.npy",), ("no lengths are given",)), (("x.npy", "[[2], [4], [3.5]]"), ("3.5 is a fraction",)),
        (("x.npy", "n.npy", "--dtype", "INT8"), ("its data type is FLOAT32, not INT8",)),
        (("x.npy", "n.npy", "--feature-level", "7_0"), ("'7_0' is not a feature level",)),
        (("x.npy", "n.npy", "--feature-level", "1_0"), ("feature level is 1_0",)),
        (("x.npy", "n.npy", "--nonsense"), ("unknown option", "revseq run --help")),
    ],
)  # fmt: skip
def test_bad_input(revseq, files, args, words):
    (files / "x.dat").write_bytes(b"")
    (files / "noext").write_bytes(b"")
    np.save(files / "i.npy", LENGTHS.astype(np.int64))
    before = content(files)
    revseq("run", *args, "--axis", 1, "-o", "y.npy").refused(*words)
    assert content(files) == before


@pytest.mark.needs("terminal")
def test_no_binary_on_a_terminal(files, forked):
    status, out, err = on_terminal(
        *forked.command, "run", "x.npy", "n.npy", "--axis", 1, "-f", "npy", cwd=files
    )
    assert (status, out) == (2, "")
    assert "add -o out.npy" in err


def test_verbose_and_quiet(revseq, files):
    job = ("run", "x.npy", "n.npy", "--axis", 1, "--overwrite", "-o", "y.npy")
    assert "wrote y.npy" in revseq(*job, "-v").ok().err
    assert revseq(*job, "-v", "-q").ok().err == ""
    for loud in (("-vv",), ("-qvv",)):
        assert "Traceback" in revseq("run", "none.npy", "n.npy", "--axis", 1, *loud).err


def test_check(revseq, files):
    """Without a level by the operator's own rules; with one, by DirectML's, strictly. The lowest level is told."""
    job = ("check", "x.npy", "[[0], [1], [9]]", "--axis", 1)
    done = revseq(*job).ok()
    assert done.out.startswith("the operator accepts it: all 7 constraints hold\n\nInputTensor ")
    assert "3, from 0 to 9; 1 clamped to 4; 2 with no effect" in done.out
    assert "\nlowest level           DML_FEATURE_LEVEL_4_0\n" in done.out
    every = revseq(*job, "--feature-level", "5.0", "--all").ok().out.split("\n")
    labels = [line.partition(":")[0] for line in every if line.startswith("pass  ")]
    assert len(set(labels)) == len(labels) == 12
    done = revseq("check", "x.npy", "n.npy", "--axis", 5, "--feature-level", "3_0").failed()
    assert "\nFAIL  InputTensor Axis: 5\n      expected " in done.out
    assert (done.out.count("\nFAIL  "), done.out.count("pass")) == (3, 0)
    assert done.out.endswith("\nlowest level           the operator itself refuses it\n")
    assert revseq("check", "x.npy", "n.npy", "--axis", 5, "-q").out == ""
    env = {"REVSEQ_FEATURE_LEVEL": "3_0"}
    revseq("run", *job[1:], env=env).refused("DML_FEATURE_LEVEL_3_0")
    revseq("run", *job[1:], "--feature-level", "none", env=env).ok()


def test_a_scheduler_of_the_environment_is_for_other_commands(revseq, files):
    job = ("run", "x.npy", "n.npy", "--axis", 1)
    env = {"REVSEQ_SCHEDULER": "tcp://a:1"}
    revseq(*job, env=env).ok()
    revseq(*job, "--scheduler", "tcp://b:1", env=env).refused("--scheduler needs --engine dask")


def test_check_json(revseq, files):
    revseq("check", "none.npy", "[1]", "--axis", 0).refused("no such file")
    job = ("check", "x.npy", "n.npy", "--axis", 1)
    report = json.loads(revseq(*job, "--feature-level", "2_1", "--json").failed().out)
    assert (report["valid"], report["lowest_level"]) == (False, "4_0")
    assert report["length_counts"] == {
        "total": 3,
        "clamped": 0,
        "unchanged": 0,
        "least": 2,
        "greatest": 4,
    }
    assert {c["property"] for c in report["constraints"] if not c["ok"]} == {"dimension count"}


def test_characters_that_a_terminal_or_an_encoding_does_not_take(revseq, files):
    name = "ü.npy" if os.name == "nt" else "ü\x1b[31m\nb.npy"  # Windows has no such names
    (files / name).write_bytes((files / "n.npy").read_bytes())
    done = revseq("check", "x.npy", name, "--axis", 1, env={"PYTHONIOENCODING": "ascii"}).ok()
    assert done.raw.isascii()
    assert name.encode("unicode_escape").decode() in done.out


def test_levels_is_a_matrix_of_40_columns(revseq):
    matrix, notes = revseq("levels").ok().out.split("\n\n")
    rows = [line.split() for line in matrix.split("\n")]
    assert max(map(len, matrix.split("\n"))) <= 40
    assert rows[0][-5:] == ["2_1", "3_0", "4_0", "5_0", "none"]
    assert rows[1] == ["rank", "4", "4-5", "1-8", "1-8", "1-64"]
    assert ["UINT64", "lengths", *"---xx"] in rows
    assert ["FLOAT64", *"---xx"] in rows
    assert ["INT8-32", *"xxxxx"] in rows
    assert "4294967292" in notes
    assert "CheckFeatureSupport" in notes
    assert ["INT64", "-"] in [line.split() for line in revseq("levels", "4_1").ok().out.split("\n")]
    assert "2_1" in revseq("levels", "1_0").ok().out
    revseq("levels", "9_9").refused("not a feature level")


def test_levels_as_json(revseq):
    levels = json.loads(revseq("levels", "--json").ok().out)["levels"]
    assert len(levels) == 16
    assert levels[2]["lengths_data_types"] == ["UINT32"]
    assert levels[2]["most_elements"] == {"1": 2**32 - 4, "2": 2**32 - 2, "4": 2**32 - 1}
    assert levels[-1]["most_elements"] is None


CLAMPED = "2 of 4 lengths exceed the axis size and are clamped to 6"


def test_h13_clamping_is_told(revseq, tmp_path):
    np.save(tmp_path / "x.npy", np.arange(240, dtype="f4").reshape(4, 10, 6))
    np.save(tmp_path / "lengths.npy", np.array([2, 5, 10, 7]))
    job = ("x.npy", "lengths.npy", "--axis", 2, "--batch-axis", 0, "--lengths-dtype", "UINT32")
    for options, told in (
        ((), f"Note: {CLAMPED}\n"),
        (("-o", "y.npy"), f"Note: {CLAMPED}\n"),
        (("-q",), ""),
    ):
        assert revseq("run", *job, *options).ok().err == told
    report = json.loads(revseq("run", *job, "-o", "z.npy", "--json").ok().out)
    assert (report["clamped"], report["notes"]) == (2, [CLAMPED])
    assert revseq("run", "[[1, 2]]", "[[2]]", "--axis", 1).ok().err == ""


def test_no_picture_of_a_job_that_failed(tmp_path):
    with open("/dev/full", "w") as full:
        command = [*COMMAND, "run", "[1, 2]", "[2]", "--axis", "0", "--picture", "x.svg"]
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, cwd=tmp_path, check=False
        )
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])


@pytest.mark.needs("devices")
@pytest.mark.long
def test_h53_standard_input_without_end(revseq):
    with open("/dev/zero", "rb") as zero:
        done = subprocess.run(
            [*COMMAND, "verify", "-"], stdin=zero, capture_output=True, text=True, check=False
        )
    assert done.returncode == 2
    assert "a text of more than 1073741824 bytes" in done.stderr


@pytest.mark.needs("shell")
def test_h62_a_hint_can_be_pasted_into_a_shell(revseq, tmp_path):
    np.savez(tmp_path / "x y.npz", **{"$(touch PWNED)": np.arange(2), "lengths": np.arange(2)})
    header = "(Sizes:{1}, DataType:INT8)\n[1]\n"
    (tmp_path / "x;y.txt").write_text(f"a: {header}\nlengths: {header}")
    for name, inner in (("x y.npz", "$(touch PWNED)"), ("x;y.txt", "a")):
        told = revseq("convert", name, "out.npy").refused().err
        hint = " ".join(line.strip() for line in told.splitlines() if line.startswith("  "))
        shown = subprocess.check_output(
            ["sh", "-c", f"printf '%s\\n' {hint}"], text=True, cwd=tmp_path
        )
        assert shown.splitlines() == [f"{name}::{inner}", f"{name}::lengths"]
    assert not (tmp_path / "PWNED").exists()


def test_what_other_tools_call_otherwise(revseq, files):
    revseq("run", "x.npy", "n.npy", "--axis", 1, "-o", "y.npy", "--force").refused("--overwrite\n")
    revseq("show", "x.npy", "--force").refused("revseq show --help\n")
    np.savez(files / "x.npz", a=INPUT, b=INPUT)
    revseq("run", "x.npz::a", "n.npy", "--axis", 1, "-o", "y.npz:c").refused(
        "Hint: did you mean: y.npz::c\n"
    )
    for name in ("y.npz::c", "[a].npy"):
        revseq("run", "x.npz::a", "n.npy", "--axis", 1, "-o", name).ok()
    assert (np.load(files / "[a].npy") == EXPECTED).all()


@pytest.mark.parametrize(
    ("typed", "hint", "meant"),
    [
        ("--json", "to print the tensor as JSON, replace --json with -f json", "-f json"), ("--verify", "to write a file, add -o out.npy", "--verify -o out.npy"),
        ("--only", "to write a file, add -o out.npy", "--only -o out.npy"), ("-f h5", "to write a file, add -o out.h5", "-f h5 -o out.h5"),
        ("--example -o y.txt", "to write a file, leave out -o, and add > example.txt", "--example"),
        ("-o y.npy --scheduler tcp://a:1 --dry-run", "to use dask, add --engine dask", "-o y.npy --scheduler tcp://a:1 --dry-run --engine dask"),
    ],
)  # fmt: skip
def test_hints_at_options_typed_as_they_are_printed(revseq, files, typed, hint, meant):
    job = ("run", "x.npy", "n.npy", "--axis", 1)
    revseq(*job, *typed.split()).refused(f"Hint: {hint}\n")
    revseq(*job, *meant.split()).ok()


def test_sizes():
    for text, size in (
        ("4096", 4096),
        ("1KiB", 1024),
        ("1KB", 1000),
        ("2m", 2 << 20),
        ("7B", 7),
        ("0.5G", 1 << 29),
    ):
        assert parse_bytes(text) == size
    for text in ("", "0", "-1", "1.5.2", "0.0001K", "G", "1X", "1KBB", "9" * 30):
        with pytest.raises(UsageError, match="is not a size"):
            parse_bytes(text)
