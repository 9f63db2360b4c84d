"""`check`, `run`, `batch` and `export`: what they say of DirectML itself, and the width of the report."""

import json
import re

import numpy as np
import pytest
from terminals import in_columns

VALUES = "[[10,11,12,13,14,15],[20,21,22,23,24,25],[30,31,32,33,34,35]]"
FORMULA = "in[min(length-1-j, size-1)]"


def about_directml(revseq, *words):
    """The rows of `check --json` on DirectML itself, by the versions that they name."""
    return json.loads(revseq("check", *words, "--json").out)["directml"]


@pytest.mark.parametrize("level", [(), ("--feature-level", "6_4")])
def test_lengths_above_the_axis_size_are_not_clamped_by_directml(revseq, level):
    job = (VALUES, "[7,3,9]", "--axis", 1, *level)
    out = revseq("check", *job).ok().out
    assert re.search(r"DirectML itself +1\.13 to 1\.15: .*not clamped.*" + re.escape(FORMULA), out)
    assert "1.0 to 1.12" in out
    newer, older = about_directml(revseq, *job)
    assert (newer["versions"], newer["sequences"]) == ("1.13 to 1.15", 2)
    assert (older["versions"], older["sequences"]) == ("1.0 to 1.12", 2)


def test_of_lengths_above_32_bits_directml_reads_the_low_ones(revseq):
    lengths = "[4294967303,4294967299,3]"
    rows = about_directml(revseq, VALUES, lengths, "--axis", 1, "--lengths-dtype", "UINT64")
    assert [(row["versions"], row["sequences"]) for row in rows] == [
        ("1.13 to 1.15", 1),  # 7 by the low bits
        ("1.0 to 1.12", 1),
        ("all versions", 2),
    ]


def test_sequences_are_counted_and_not_lengths(revseq, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((3, 5, 4), np.float32))
    np.save(tmp_path / "n.npy", np.array([5, 6, 2], np.uint32))
    words = ("x.npy", "n.npy", "--axis", 1, "--batch-axis", 0)
    assert {row["sequences"] for row in about_directml(revseq, *words)} == {4}


def test_a_job_that_is_as_documented_says_nothing_of_directml_itself(revseq):
    words = (VALUES, "[6,3,0]", "--axis", 1)
    assert "itself" not in revseq("check", *words).ok().out
    assert about_directml(revseq, *words) == []


def test_a_sequence_of_one_element_is_right_in_newer_versions(revseq):
    rows = about_directml(revseq, "[[1],[2]]", "[7,1]", "--axis", 1)
    assert [row["versions"] for row in rows] == ["1.0 to 1.12"]


def test_float64_needs_a_device_that_has_it(revseq):
    words = (VALUES, "[6,3,0]", "--axis", 1, "--dtype", "FLOAT64")
    assert "CheckFeatureSupport" in revseq("check", *words).ok().out


def test_level_2_1_itself_takes_five_dimensions(revseq):
    words = ("[[[[[1,2]]]]]", "[[[[[1]]]]]", "--axis", 4, "--feature-level", "2_1")
    done = revseq("check", *words)
    assert done.status == 1
    assert "5 dimensions" in done.out


@pytest.mark.parametrize(("level", "says"), [("none", False), ("5_0", True)])
def test_run_says_so_only_where_a_level_is_chosen(revseq, level, says):
    done = revseq("run", VALUES, "[7,3,9]", "--axis", 1, "--feature-level", level).ok()
    assert "2 of 3 lengths exceed the axis size and are clamped to 6" in done.err
    assert ("DirectML itself does not clamp" in done.err) == says


def test_batch_says_so_only_where_a_level_is_chosen(revseq, tmp_path):
    job = {"input": VALUES, "lengths": "[7,3,9]", "axis": 1, "output": "y.npy"}
    (tmp_path / "jobs.jsonl").write_text(json.dumps(job))
    assert "DirectML" not in revseq("batch", "jobs.jsonl").ok().err
    done = revseq("batch", "jobs.jsonl", "--overwrite", "--feature-level", "5_0").ok()
    assert "DirectML itself does not clamp" in done.err + done.out


def test_export_warns_before_it_writes(revseq):
    words = ("export", VALUES, "[7,3,9]", "--axis", 1)
    done = revseq(*words, "-o", "m.json").ok()
    assert "DirectML itself, 1.13 to 1.15" in done.err
    assert "1.0 to 1.12" in done.err
    report = json.loads(revseq(*words, "-o", "m2.json", "--json").ok().out)
    assert [row["sequences"] for row in report["directml"]] == [2, 2]


@pytest.mark.needs("terminal")
@pytest.mark.parametrize("columns", [40, 80, 120])
def test_the_report_fits_the_terminal_and_breaks_no_command(forked, tmp_path, columns):
    words = ("check", VALUES, "[7,3,9]", "--axis", "1", "--feature-level", "3_0", "--all")
    out = in_columns(columns, *forked.command, *words, cwd=tmp_path)
    lines = re.sub(r"\x1b\[[\d;]*m", "", out).splitlines()
    wide = [line.strip() for line in lines if len(line) > columns]
    assert [line[:13] for line in wide] == ["revseq check "]
    assert "--feature-level" in wide[0]
