"""Interrupted batches: the journal, --resume, --dry-run and --failed."""

import csv
import gzip
import json
import os
import random
import re
import signal
import subprocess
import time
import zlib

import h5py
import numpy as np
import oracle
import pytest
from conftest import COMMAND
from folders import names
from processes import KILLED_AT, gone, until

from revseq_cli.commands import batch as batch_command
from revseq_cli.commands import journal, manifest
from revseq_cli.core.errors import TensorIOError
from revseq_cli.report.results import Outcome, Traffic

INPUT = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
LENGTHS = np.array([[2], [4], [3]], np.uint32)
EXPECTED = oracle.reverse(INPUT, LENGTHS, 1)
JOURNAL = "m.jsonl.revseq-journal"
JOB = {"input": "x.npy", "lengths": "n.npy", "axis": 1, "output": "y.npy"}


def rows_of(*jobs):
    """A manifest of the usual job, but for what is given of each."""
    return "".join(f"{json.dumps(JOB | job)}\n" for job in jobs)


@pytest.fixture
def batch(files, revseq):
    """Runs a manifest of `count` jobs, whose inputs are old enough to be told apart from their next change."""

    def run(*args, count=4, status=0, **job):
        (files / "m.jsonl").write_text(rows_of(*(job | {"output": f"y{i}.npy"} for i in range(count))))
        done = revseq("batch", "m.jsonl", "--json", *args)
        assert done.status == status, done.err
        run.err = done.err
        return [json.loads(line) for line in done.out.splitlines()]

    settle()
    return run


def opened(path):
    """A journal that is locked and read."""
    found = journal.Journal(str(path))
    found.lock()
    found.read()
    return found


def settle():
    """Wait until what was written before can no longer be mistaken for what is written next."""
    time.sleep(3 * journal._TICK / 1e9)


def skipped(reports):
    return [each["skipped"] for each in reports]


def whole(folder, count):
    return [oracle.same_bits(np.load(folder / f"y{i}.npy"), EXPECTED) for i in range(count)] == [True] * count


def test_what_is_done_is_skipped_and_counted(batch, files, revseq):
    (files / "y2.npy").mkdir()
    first = batch(status=1)
    assert [each["ok"] for each in first] == [True, True, False, True]
    (files / "y2.npy").rmdir()
    before = [(files / f"y{i}.npy").stat() for i in (0, 1, 3)]
    again = batch("--resume", "--verify")  # not verified then, so they are done again
    assert skipped(again) == [False] * 4
    assert [(files / f"y{i}.npy").stat() for i in (0, 1, 3)] != before
    third = batch("--resume", "--jobs", "1", "--memory", "1MiB")  # which change nothing in what is written
    assert skipped(third) == [True] * 4
    assert [each | {"skipped": False} for each in third] == again
    assert whole(files, 4)
    table = revseq("batch", "m.jsonl", "--resume", "-v").ok()
    assert [cell.strip() for cell in table.out.splitlines()[3].split("│")][1:6] == ["4", "0", "4", "0", "0"]
    assert "m.jsonl: line 4: y3.npy is done" in table.err


def test_resume_works_after_a_batch_that_was_complete(batch, files):
    """Though it was typed without it; and where all is made again each time, the journal does not grow."""
    batch()
    assert skipped(batch("--resume")) == [True] * 4
    size = (files / JOURNAL).stat().st_size
    for _ in range(3):
        batch("--overwrite")
    assert abs((files / JOURNAL).stat().st_size - size) < 40
    assert skipped(batch("--resume")) == [True] * 4


def test_a_manifest_that_grew(batch, files):
    batch("--resume")
    assert skipped(batch("--resume", count=6)) == [True] * 4 + [False] * 2
    batch("--resume", count=1)
    assert "lists 5 outputs that no job of this manifest has" in batch.err


def test_an_input_that_changed_just_before_is_not_trusted():
    """Its next change could have the same times."""
    identity = journal.file_io.Identity(0, 1, 2, 10**18 + 7, 10**18 + 7)
    assert journal._settled(identity, 10**18 + 7 + 2 * journal._TICK) == [1, 2, 10**18 + 7, 10**18 + 7]
    assert journal._settled(identity, 10**18 + 7 + journal._TICK // 2) is None
    assert journal._settled(identity, 10**18 - 10**9) is None  # it changed after that, and before it was opened
    coarse = journal.file_io.Identity(0, 1, 2, 10**18, 10**18)
    assert journal._settled(coarse, 10**18 + 10**9) is None


def test_stores_by_the_state_of_every_file(files, revseq):
    pytest.importorskip("zarr")
    revseq("convert", "x.npy", "x.zarr").ok()
    (files / "m.jsonl").write_text(rows_of({"input": "x.zarr", "output": "y.zarr"}))
    settle()
    for change, expected in ((None, False), (None, True)):
        done = revseq("batch", "m.jsonl", "--json", "--resume").ok()
        assert json.loads(done.out)["skipped"] is expected, change
    chunk = max((path for path in (files / "x.zarr").rglob("*") if path.is_file()), key=lambda path: len(path.parts))
    chunk.write_bytes(chunk.read_bytes())
    done = revseq("batch", "m.jsonl", "--json", "--resume")
    assert (done.status, json.loads(done.out)["skipped"]) == (1, False)  # a folder is never replaced
    assert "y.zarr: already exists" in done.err


def wrong_types(value):
    """The value, a record of the journal, with each of its parts in turn left out, added to, or of another type."""
    others = (None, 1.5, "x", ["x"], {"x": 1}, [[[]]], float("nan"))
    match value:
        case dict():
            yield value | {"x": 1}
            for key, part in value.items():
                yield {name: each for name, each in value.items() if name != key}
                yield from (value | {key: each} for each in wrong_types(part))
        case list():
            for i, part in enumerate(value):
                yield from ([*value[:i], each, *value[i + 1 :]] for each in wrong_types(part))
            yield from (each for each in others if not isinstance(each, list))
        case _:
            yield from (each for each in others if type(each) is not type(value))


def test_forged_lines_with_a_right_checksum_are_damaged_lines(batch, files):
    batch("--resume")
    path = files / JOURNAL
    true = [journal._record(line) for line in path.read_bytes().split(b"\n")[1:]]
    done = next(each for each in true if "job" in each)
    assert {"output", "job", "inputs", "told", "state"} == done.keys()
    states = [[(path, each) if i == j else (path, state) for i, (path, state) in enumerate(done["inputs"])]
              for each in (None, "x") for j in range(len(done["inputs"]))]  # fmt: skip
    right = [done | {"state": None}, done | {"state": "x"}, *(done | {"inputs": [*map(list, each)]} for each in states)]
    less = done | {"told": {name: each for name, each in done["told"].items() if name != "sha256"}}
    begun = next(each for each in true if "inode" in each)
    forged = [each for record in (done, begun) for each in wrong_types(record) if each not in (*right, less)]
    forged += [{}, [], None, 7, "x", {"revseq-journal": 1}, {"output": "y"}, done["told"]]
    right.append(done | {"inputs": [["a\0b", None], ["\ud800", "x"]]})
    texts = [*map(json.dumps, forged), "[" * 100_000, '{"output":' * 50_000, "9" * 5000]
    lines = [b"\n%08x %b" % (zlib.crc32(text.encode()), text.encode()) for text in texts]
    path.write_bytes(path.read_bytes() + b"".join(lines))
    assert skipped(batch("--resume")) == [True] * 4
    assert f"{len(texts):,} damaged lines are ignored" in batch.err
    assert len(texts) > 150
    path.write_bytes(path.read_bytes() + b"".join(b"\n" + journal._line(each) for each in right))
    redone = [True] * 4
    redone[int(done["output"][-5])] = False
    assert skipped(batch("--resume")) == redone


@pytest.mark.parametrize(
    ("text", "args"),
    [
        *((b"my notes\n", args) for args in ([], ["--resume"], ["--resume", "--dry-run"])),
        (b"", []),
        *((journal._line({"revseq-journal": version}), []) for version in (2, None, True, "1", [1], {}, 1 << 200)),
    ],
)
def test_a_file_that_is_no_journal_is_kept(batch, files, text, args):
    (files / JOURNAL).write_bytes(text)
    (report,) = batch(*args, status=2)
    words = "is not a revseq journal, version 1"
    assert words in report["errors"][0]["found"]
    assert words in batch.err
    assert (files / JOURNAL).read_bytes() == text
    assert not list(files.glob("y*.npy"))


def test_two_batches_at_once(batch, files, monkeypatch):
    batch("--resume")
    held = opened(files / JOURNAL)
    monkeypatch.setattr(journal, "_LONGEST_WAIT", 0.2)
    with pytest.raises(journal.InUseError, match="another batch works on these outputs"):
        opened(files / JOURNAL)
    held.close()
    assert skipped(batch("--resume")) == [True] * 4


def test_a_batch_waits_for_workers_that_are_about_to_end(batch, files, monkeypatch):
    batch("--resume")
    answers, lock = iter([False, False]), journal.system.lock
    monkeypatch.setattr(journal, "_LONGEST_WAIT", 1000)
    monkeypatch.setattr(journal.system, "lock", lambda fd: next(answers, True) and lock(fd))
    opened(files / JOURNAL).close()
    assert next(answers, None) is None


@pytest.mark.needs("free names")
def test_a_batch_waits_for_nobody_whose_journal_is_gone(batch, files):
    held = opened(files / JOURNAL)
    (files / JOURNAL).unlink()
    other = opened(files / JOURNAL)
    assert other.outputs == set()
    other.close()
    held.close()


def test_where_no_journal_can_be_written(files, revseq):
    (files / "jobs").mkdir()
    (files / "jobs" / "m.jsonl").write_text(rows_of({}))
    (files / "jobs" / JOURNAL).mkdir()
    revseq("batch", "jobs/m.jsonl", "--resume").refused(JOURNAL)
    assert not (files / "y.npy").exists()
    done = revseq("batch", "jobs/m.jsonl").ok()
    assert "so there is no journal, and an interrupted batch cannot resume" in done.err
    done = revseq("batch", "jobs/m.jsonl", "--journal", "notes", "--overwrite", "--resume").ok()
    assert (done.err, (files / "notes").exists()) == ("", True)


def test_a_journal_needs_a_place(files, revseq):
    row = rows_of({}).encode()
    revseq("batch", "-", "--resume", stdin=row).refused("there is no manifest file", "Hint: add --journal jobs.journal")
    revseq("batch", "-", "--journal", "y.npy", stdin=row).refused("the journal would be a file of line 1")
    revseq("batch", "-", "--journal", "", stdin=row).refused("--journal is empty")
    settle()
    for expected in (False, True):
        done = revseq("batch", "-", "--resume", "--journal", "j", "--json", stdin=row).ok()
        assert json.loads(done.out)["skipped"] is expected


def test_a_journal_that_cannot_be_written(tmp_path, monkeypatch):
    """Before an output has its name that is an error, and afterwards a note."""
    path, output = tmp_path / "j", tmp_path / "y"
    output.write_bytes(b"y")
    opened(path).close()
    entry = manifest.Entry(1, {"input": "[1]", "output": "y"}, str(output), {}, "line 1", {})
    writer, real = journal.Journal(str(path)), os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:-9]))
    found = f"{path}: cannot write: only part of the line was written"
    with pytest.raises(TensorIOError, match=re.escape(found)):
        writer.begin(entry, str(output))
    noted = writer.note(entry, {}, Outcome(1, "y", None)).notes
    assert noted == (f"y is written, but is missing from the journal: {found}",)
    monkeypatch.setattr(os, "write", real)
    writer.note(entry, {}, Outcome(1, "y", None))
    found = journal.Journal(str(path))
    found.read()
    assert (found.damaged, found.outputs) == (2, {str(output)})
    assert found.of(entry._replace(options=entry.options | {"verify": False, "sha256": False})).told is not None


@pytest.mark.needs("fork")
def test_h44_a_kill_at_every_line_of_the_journal(batch, files, revseq):
    """Before and after each of them, and so before and after the output has its name."""
    batch("--dry-run", count=2)
    for at in range(8):
        for path in (*files.glob("y*.npy"), files / JOURNAL):
            path.unlink(missing_ok=True)
        done = revseq("batch", "m.jsonl", "--jobs", "1", code=KILLED_AT.format(at=at))
        assert done.status == -signal.SIGKILL
        batch("--resume", count=2)
        assert whole(files, 2)


@pytest.mark.needs("signals")
def test_h44_kills_at_random_moments(batch, files):
    """The parent alone, or all of it; at the end the outputs are those of a batch that nobody killed."""
    count, dice, left = 60, random.Random(1), []
    batch("--dry-run", count=count)
    for turn in range(4):
        command = [*COMMAND, "batch", "m.jsonl", *["--resume"] * bool(turn)]
        with subprocess.Popen(command, cwd=files, stdout=-1, stderr=-1, start_new_session=True) as process:
            before = len(list(files.glob("y*.npy")))
            target = min(count, before + dice.randrange(1, 20))
            until(lambda: process.poll() is not None or len(list(files.glob("y*.npy"))) >= target)  # noqa: B023
            if turn % 2:
                process.kill()
            elif process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        gone(process)
        left.append(len(list(files.glob("y*.npy"))))
    reports = batch("--resume", count=count)
    assert whole(files, count)
    assert any(skipped(reports))
    assert left[0] < count


def test_a_dry_run_checks_all_and_writes_nothing(batch, files, revseq):
    before = names(files) | {"m.jsonl"}
    reports = batch("--dry-run")
    plan = {"read_bytes": 60, "write_bytes": 48}
    assert [each.get("plan") for each in reports] == [plan] * 4 + [None]
    (disk,) = reports[-1]["file_systems"]
    assert disk["needed_bytes"] == 4 * 48 < disk["free_bytes"]
    assert names(files) == before
    table = revseq("batch", "m.jsonl", "--dry-run").ok()
    assert [cell.strip() for cell in table.out.splitlines()[3].split("│")][1:6] == ["4", "4", "0", "240", "192"]
    (files / "y2.npy").write_bytes(b"old")
    reports = batch("--dry-run", status=1)
    assert [each["ok"] for each in reports[:-1]] == [True, True, False, True]
    assert "line 3: y2.npy: already exists" in batch.err
    assert (files / "y2.npy").read_bytes() == b"old"
    batch("--resume", "--overwrite")
    assert skipped(batch("--dry-run", "--resume")[:-1]) == [True] * 4


def test_what_outputs_need_on_each_file_system(tmp_path, monkeypatch):
    (tmp_path / "old").write_bytes(b"x" * 100)
    paths = {1: str(tmp_path / "new"), 2: str(tmp_path / "old"), 3: str(tmp_path / "none")}
    planned = [Outcome(1, "new", None, plan=Traffic(9, 1000, 1000)), Outcome(2, "old", None, plan=Traffic(9, 350, 300)),
               Outcome(3, "none", None, skipped=True)]  # fmt: skip
    monkeypatch.setattr(batch_command.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 7}))
    (found,) = batch_command.needs(planned, paths)
    assert (found.needed, found.free) == (1000 + 200 + 100 + 50, 7)
    assert os.path.ismount(found.path)


@pytest.mark.needs("mounts")
def test_a_disk_that_is_too_small_is_told_before(files, revseq, small_disk):
    np.save(files / "x.npy", np.zeros((1 << 10, 1 << 10), np.float32))
    np.save(files / "n.npy", np.ones((1 << 10, 1), np.uint32))
    (files / "m.jsonl").write_text(rows_of({"output": f"{small_disk}/y.npy"}))
    revseq("batch", "m.jsonl", "--dry-run").failed(f"Error: {small_disk}: 4,194,304 bytes are needed")


@pytest.mark.parametrize(("name", "failed"), [("m.jsonl", "f.jsonl"), ("m.csv", "f.csv"), ("m.csv", "f")])
def test_the_jobs_that_failed_as_a_manifest(files, revseq, name, failed):
    rows = [JOB | {"output": f"y {i}.npy"} for i in range(5)]
    rows[1]["lengths"], rows[3]["input"] = '[[1], [1], ["a"]]', "absent,.npy"
    with (files / name).open("w", newline="") as file:
        if name == "m.csv":
            csv.writer(file).writerows([JOB, *(row.values() for row in rows)])
        else:
            file.write(rows_of(*rows))
    assert revseq("batch", name, "--failed", failed).status == 1
    again = revseq("batch", failed, "--json")
    found = [json.loads(line) for line in again.out.splitlines()]
    assert [each["output"] for each in found] == ["y 1.npy", "y 3.npy"]
    revseq("batch", failed, "--failed", failed).refused("--failed would be the manifest itself")
    text = re.sub(r'\["+a"+\]|\[\\"a\\"\]', "[1]", (files / failed).read_text())
    (files / failed).write_text(text.replace("absent,", "x"))
    revseq("batch", failed, "--failed", "none.csv" if name == "m.csv" else "none.jsonl").ok()
    assert not any(path.stat().st_size for path in files.glob("none.*"))


@pytest.mark.parametrize("name", ["m.jsonl", "m.csv"])
def test_failed_jobs_are_whole(files, revseq, name):
    """Each has the options that were typed, but for those that it has itself: the new manifest needs none."""
    first = {"input": "x.npy", "lengths": "n.npy", "output": "y0.h5"}
    second = {"input": "z.npy", "lengths": "k.npy", "output": "y1.h5", "axis": 0}
    texts = {
        "m.jsonl": f"{json.dumps(first)}\n{json.dumps(second)}\n",
        "m.csv": "input;lengths;output;axis\nx.npy;n.npy;y0.h5;\nz.npy;k.npy;y1.h5;0\n",
    }
    (files / name).write_text(texts[name])
    failed = f"f{name[1:]}"
    options = ["--axis", 1, "--overwrite", "--compression", "gzip:3", "--verify", "--memory", "1MiB", "--like", "onnx"]
    assert revseq("batch", name, "--failed", failed, *options).status == 1  # of neither job are the lengths ONNX's
    for path in ("n.npy", "k.npy"):
        np.save(files / path, np.array([2, 4, 3], np.int64))
    np.save(files / "z.npy", INPUT.T)
    (files / "y0.h5").write_bytes(b"old")
    found = [json.loads(line) for line in revseq("batch", failed, "--json").ok().out.splitlines()]
    assert [each["verified"] for each in found] == [True, True]
    for output, right in (("y0.h5", EXPECTED), ("y1.h5", oracle.reverse(INPUT.T, np.array([[2, 4, 3]]), 0))):
        with h5py.File(files / output) as file:
            (dataset,) = file.values()
            assert dataset.compression_opts == 3
            assert oracle.same_bits(dataset[()], right)


def test_each_has_a_journal_beside_its_outputs(files, revseq):
    """Unasked: --resume works after a complete batch, one that failed, and one that was killed."""
    for name in ("data", "out"):
        (files / name).mkdir()
    for i in range(3):
        np.save(files / "data" / f"s{i}.npy", INPUT)
    settle()
    command = ["batch", "--each", "data/*.npy", "--lengths", "n.npy", "-o", "out/{stem}.npy", "--axis", 1, "--json"]
    revseq(*command).ok()
    outputs = {f"s{i}.npy" for i in range(3)}
    assert names(files / "out") == outputs | {".{stem}.npy-0c8c8faf.revseq-journal"}
    np.save(files / "data" / "s3.npy", INPUT)
    settle()

    def again():
        return skipped(json.loads(line) for line in revseq(*command, "--resume").ok().out.splitlines())

    assert again() == [True, True, True, False]
    (files / "out" / "s1.npy").unlink()
    assert again() == [True, False, True, True]


def test_batches_over_two_patterns_are_not_in_each_others_way(files, revseq):
    """They have one template, and so one folder of outputs; over one pattern, there is one batch at a time."""
    np.save(files / "a1.npy", INPUT)
    np.save(files / "b1.npy", INPUT)
    options = ["--lengths", "n.npy", "-o", "y-{stem}.npy", "--axis", 1]
    held = opened(files / manifest.journal("a*.npy", "y-{stem}.npy"))
    try:
        revseq("batch", "--each", "b*.npy", *options).ok()
        at_once = "import revseq_cli.commands.journal as j; j._LONGEST_WAIT = 0"
        hint = "Hint: wait until it has ended, or --journal names another"
        done = revseq("batch", "--each", "a*.npy", *options, code=at_once)
        done.refused("another batch works on these outputs", hint)
        revseq("batch", "--each", "a*.npy", *options, "--journal", "a.journal").ok()
    finally:
        held.close()


@pytest.mark.parametrize(
    ("pattern", "output", "expected"),
    [
        ("data/*.npy", "out/{stem}.npy", "out/.{stem}.npy-0c8c8faf.revseq-journal"),
        ("data/*.npy", "{stem}.h5::/x", ".{stem}.h5-0c8c8faf.revseq-journal"),
        ("data/**/*.npy", "{parent}/{stem}.h5", "data/.{parent}-{stem}.h5-25edc323.revseq-journal"),
        ("a/b*/*.npy::x", "{path}.h5", "a/.{path}.h5-c39feadf.revseq-journal"),
        ("*.npy", "out/{sub}/{stem}{suffix}", "out/.{sub}-{stem}{suffix}-49114ef1.revseq-journal"),
        ("x.npy", "out/y.npy", "out/.y.npy-0bc2d25a.revseq-journal"),
        ("*.npy", "out/r-{name}", "out/.r-{name}-49114ef1.revseq-journal"),
    ],
)  # fmt: skip
def test_where_the_journal_of_each_is(pattern, output, expected):
    assert manifest.journal(pattern, output).replace(os.sep, "/") == expected


def test_stems_of_packed_files_and_what_a_pattern_could_give(files, revseq):
    (files / "data").mkdir()
    for i in range(2):
        (files / "data" / f"s{i}.npy.gz").write_bytes(gzip.compress((files / "x.npy").read_bytes()))
    (files / "s0.npy").write_bytes((files / "n.npy").read_bytes())
    done = revseq("batch", "--each", "data/*.gz", "--lengths", "{stem}.npy", "-o", "y-{stem}.npy", "--axis", 1).failed()
    assert oracle.same_bits(np.load(files / "y-s0.npy"), EXPECTED)
    path = os.path.join("data", "s1.npy.gz")
    assert "job 2: s1.npy: no such file" in done.err
    given = f"{{path}} is {path}, {{parent}} is data, {{name}} is s1.npy.gz, {{stem}} is s1, {{suffix}} is .npy.gz"
    assert f"Hint: for {path}, {given}" in done.err


@pytest.mark.parametrize(
    ("name", "stem", "suffix"),
    [("x.npy", "x", ".npy"), ("x.NPY.GZ", "x", ".NPY.GZ"), ("a.b.h5.zst", "a.b", ".h5.zst"), ("2024.01.gz", "2024.01", ".gz"),
     ("x.gz", "x", ".gz"), ("x", "x", "")],
)  # fmt: skip
def test_stem_and_suffix(name, stem, suffix):
    values = manifest._values(os.path.join("data", name), "data/*")
    assert (values["stem"], values["suffix"], values["name"]) == (stem, suffix, name)


@pytest.mark.needs("mounts")
def test_a_full_disk_is_told_once(files, revseq, small_disk):
    np.save(files / "large.npy", np.ones((3, 1 << 17), np.float32))
    rows = [{"input": "large.npy", "output": f"{small_disk}/y{i}.npy"} for i in range(30)]
    rows[3] |= {"input": "x.npy"}
    (files / "m.jsonl").write_text(rows_of(*rows))
    done = revseq("batch", "m.jsonl", "--json").failed()
    reports = [json.loads(line) for line in done.out.splitlines()]
    assert [each["ok"] for each in reports] == [i == 3 for i in range(30)]
    assert done.err.count("Error: ") == 1
    assert done.err.startswith("Error: m.jsonl: lines 1 to 3 and 5 to 30 (29 jobs): ")
    assert "/y2.npy and 26 more: cannot write: No space left on device\n" in done.err
    assert done.err.count("Hint: free some space, or write to another disk") == 1
    (files / "m.jsonl").write_text(rows_of(rows[0]))
    done = revseq("batch", "m.jsonl")
    assert "No space left on device\n" in done.err


def test_names_for_failed_jobs(files, revseq):
    (files / "m.jsonl").write_text(rows_of({}))
    (files / "old.jsonl").write_text("mine")
    for name, words in {
        "f.csv": "Hint: try --failed failed.jsonl", "old.jsonl": "already exists", "m.jsonl": "the manifest itself",
        "x.npy": "a file of line 1", JOURNAL: "the same file", "": "--failed is empty", "absent/f.jsonl": "no such folder",
    }.items():  # fmt: skip
        revseq("batch", "m.jsonl", "--failed", name).refused(words)
        assert not (files / "y.npy").exists()
    revseq("batch", "m.jsonl", "--failed", "old.jsonl", "--overwrite").ok()
    assert (files / "old.jsonl").read_bytes() == b""
