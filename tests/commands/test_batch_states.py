"""A batch and its journal through any sequence of runs, kills, changes and damage, held against a simple model.

The suite runs the same few sequences each time. For longer, with other ones, on all that is free:

    BATCH_STATES=2000 .venv/bin/python -m pytest -n0 --timeout 0 tests/commands/test_batch_states.py

A failure shrinks to its shortest sequence of steps, which is printed.
"""

import json
import os
import random
import signal
import time
import zlib

import hypothesis
import numpy as np
import oracle
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from processes import KILLED_AT

from revseq_cli.commands import journal

LONGER = int(os.environ.get("BATCH_STATES", "0"))  # sequences
SETTLED = 1.2 * journal._TICK / 1e9  # seconds after which the next change of a file shows in its times
JOURNAL = "m.jsonl.revseq-journal"
INPUTS, LENGTHS = ("x0.npy", "x1.npy"), {"n0.npy": 1, "n1.npy": 1, "k.npy": 0}  # with the axis that they are for
COUNT = 4
NEVER = None  # what a forged line says of an output: nothing for which it would be skipped

indices, fractions = st.integers(0, COUNT - 1), st.floats(0, 1)
jobs = st.tuples(st.sampled_from(INPUTS), st.sampled_from([*LENGTHS]))


def line_of(record):
    text = json.dumps(record).encode()
    return b"%08x %b" % (zlib.crc32(text), text)


def record_of(line):
    """The record of a line that is whole."""
    checksum, _, text = line.partition(b" ")
    return json.loads(text) if checksum == b"%08x" % zlib.crc32(text) else {}


class Batches(RuleBasedStateMachine):
    """The folder of a batch, and what should be in it."""

    def __init__(self, revseq, folder):
        super().__init__()
        self.revseq, self.folder = revseq, folder
        self.changes = 0  # of all files; each file has the number of its last one
        self.changed = 0.0
        self.version = {}
        self.jobs = [(INPUTS[i % 2], [*LENGTHS][i % 3]) for i in range(COUNT)]
        self.says = {}  # for each line of the journal that a run wrote: the job, the versions of its files, and whether verified
        self.damaged = set()  # lines with a right checksum
        for name in (*INPUTS, *LENGTHS):
            self.write(name)

    def path(self, name):
        return self.folder / name

    def touch(self, name):
        """Note that a file has changed, or is gone."""
        self.changes += 1
        self.version[name] = self.changes
        self.changed = time.monotonic()

    def write(self, name, how="anew"):
        """Give an input another content of the same size."""
        rng = np.random.default_rng(self.changes)
        shape = (1, 4) if name == "k.npy" else (3, 1)
        values = rng.random((3, 4), np.float32) if name in INPUTS else rng.integers(0, 5, shape, np.uint32)
        path = self.path(name)
        times = path.stat() if path.exists() else None
        target = self.path("new") if how == "replaced" or not times else path
        with open(target, "r+b" if target == path else "wb") as file:
            np.save(file, values)
        if target != path:
            target.replace(path)
        if times:  # which no program can hide behind
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        self.touch(name)

    def lines(self):
        path = self.path(JOURNAL)
        return path.read_bytes().split(b"\n")[1:] if path.exists() else []

    def records(self):
        """The records of the lines that are whole, in their order."""
        lines = [line for line in self.lines() if line not in self.damaged]
        return {line: record for line in dict.fromkeys(lines) if (record := record_of(line))}

    def now(self, i, verified):
        """What a line would say of a job now."""
        files = (*self.jobs[i], f"y{i}.npy")
        return self.jobs[i], [self.version.get(name) for name in files], verified

    def is_done(self, i, verify):
        said = NEVER
        for line, record in self.records().items():
            if record.get("output", "").endswith(f"y{i}.npy") and "job" in record:
                said = self.says.get(line, NEVER)
        there = self.path(f"y{i}.npy").exists() and all(self.path(name).exists() for name in self.jobs[i])
        return there and said is not NEVER and said[:2] == self.now(i, verify)[:2] and said[2] >= verify

    def is_ours(self, i):
        found = [record for record in self.records().values() if "inode" in record]
        inode = self.path(f"y{i}.npy").stat().st_ino
        return any(each["inode"] == inode and each["output"].endswith(f"y{i}.npy") for each in found)

    def expected(self, i, resume, overwrite, verify):
        """What a batch makes of a job: "skipped", "done" or "failed"."""
        if resume and self.is_done(i, verify):
            return "skipped"
        if not all(self.path(name).exists() for name in self.jobs[i]):
            return "failed"
        is_free = overwrite or not self.path(f"y{i}.npy").exists() or (resume and self.is_ours(i))
        return "done" if is_free else "failed"

    def is_right(self, i):
        x, n = self.jobs[i]
        right = oracle.reverse(np.load(self.path(x)), np.load(self.path(n)), LENGTHS[n])
        return oracle.same_bits(np.load(self.path(f"y{i}.npy")), right)

    def manifest(self):
        rows = [
            {"input": x, "lengths": n, "axis": LENGTHS[n], "output": f"y{i}.npy"} for i, (x, n) in enumerate(self.jobs)
        ]
        self.path("m.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        time.sleep(max(0.0, self.changed + SETTLED - time.monotonic()))

    def outputs(self):
        paths = [self.path(f"y{i}.npy") for i in range(COUNT)]
        return [(path.stat().st_ino, path.read_bytes()) if path.exists() else None for path in paths]

    def learn(self, before, verified):
        """Note what the lines say that a run has written."""
        for line, record in self.records().items():
            if line not in before and "job" in record:
                self.says[line] = self.now(int(record["output"][-5]), verified)

    # the command

    @rule(
        resume=st.sampled_from([True, True, True, False]),
        overwrite=st.sampled_from([False, False, True]),
        verify=st.booleans(),
    )
    def run(self, resume, overwrite, verify):
        self.manifest()
        expected = [self.expected(i, resume, overwrite, verify) for i in range(len(self.jobs))]
        before, old = {*self.lines()}, self.outputs()
        options = ["--resume"] * resume + ["--overwrite"] * overwrite + ["--verify"] * verify
        plans = self.revseq("batch", "m.jsonl", "--json", "--dry-run", *options) if resume and overwrite else None
        done = self.revseq("batch", "m.jsonl", "--json", *options)
        assert done.status == int("failed" in expected), done.err
        assert [kind_of(each) for each in done.out.splitlines()] == expected, done.err
        if plans:
            assert [kind_of(each) for each in plans.out.splitlines()[: len(expected)]] == expected, plans.err
        for i in range(COUNT):
            kind = expected[i] if i < len(expected) else "none"
            if kind == "done":
                self.touch(f"y{i}.npy")
            else:
                assert self.outputs()[i] == old[i]
            assert kind in ("failed", "none") or self.is_right(i), i
        self.learn(before, verify)

    @rule(
        at=st.integers(0, 4 * COUNT - 1),
        options=st.sampled_from([["--resume"], ["--resume"], ["--overwrite"]]),
    )
    def kill(self, at, options):
        """Each output is then as it was before, or right."""
        self.manifest()
        before, old = {*self.lines()}, self.outputs()
        done = self.revseq("batch", "m.jsonl", "--json", "--jobs", "1", *options, code=KILLED_AT.format(at=at))
        assert done.status in (0, 1, -signal.SIGKILL), done.err
        for i, (was, has) in enumerate(zip(old, self.outputs(), strict=True)):
            if was != has:
                assert self.is_right(i)
                self.touch(f"y{i}.npy")
        self.learn(before, False)
        for path in self.folder.glob(".revseq-*.tmp"):  # README says that a kill may leave such files
            path.unlink()

    @rule()
    def resume(self):
        self.run(resume=True, overwrite=False, verify=False)

    # what users do

    @rule(name=st.sampled_from([*INPUTS, *LENGTHS]), how=st.sampled_from(["in place", "replaced"]))
    def change_an_input(self, name, how):
        self.write(name, how)

    @rule(name=st.sampled_from([*INPUTS, *LENGTHS]))
    def remove_an_input(self, name):
        self.path(name).unlink(missing_ok=True)
        self.touch(name)

    @rule(i=indices, how=st.sampled_from(["remove", "damage", "cut", "replace"]))
    def change_an_output(self, i, how):
        path = self.path(f"y{i}.npy")
        if not path.exists():
            return
        if how == "remove":
            path.unlink()
        elif how == "damage":
            with path.open("r+b") as file:
                file.seek(-1, os.SEEK_END)
                file.write(bytes([path.read_bytes()[-1] ^ 1]))
        elif how == "cut":
            os.truncate(path, 100)
        else:
            self.path("new").write_bytes(b"somebody's")
            self.path("new").replace(path)
        self.touch(f"y{i}.npy")

    @rule(i=indices, job=jobs)
    def edit_the_manifest(self, i, job):
        self.jobs[min(i, len(self.jobs) - 1)] = job

    @rule(count=st.integers(1, COUNT))
    def lengthen_the_manifest(self, count):
        self.jobs = [*self.jobs, *[(INPUTS[0], "n0.npy")] * COUNT][:count]

    @precondition(lambda self: self.lines())
    @rule(at=fractions, how=st.sampled_from(["flip", "cut", "torn"]))
    def damage_the_journal(self, at, how):
        data = self.path(JOURNAL).read_bytes()
        header = data.index(b"\n")
        place = header + int(at * (len(data) - 1 - header))
        changed = {
            "flip": data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :],
            "cut": data[:place],
            "torn": data + b'\n1234abcd {"outp',
        }[how]
        if how != "flip" or place > header:  # the end of the first line makes it no journal
            self.path(JOURNAL).write_bytes(changed)

    @precondition(lambda self: any("job" in record for record in self.records().values()))
    @rule(seed=st.integers(0, 99), how=st.sampled_from(["types", "state", "job", "inputs", "output"]))
    def forge_a_line(self, seed, how):
        """With a right checksum."""
        dice = random.Random(seed)
        record = dice.choice([each for each in self.records().values() if "job" in each])
        if how == "types":
            record["told"] = dice.choice([None, [], {}, [[1]], 1.5, {"bytes": "1", "verified": True, "clamped": 0}])
        elif how == "output":
            record["output"] = record["output"][:-5] + f"{dice.randrange(COUNT)}.npy"
        else:
            record[how] = {"state": [1, 2, 3, 4], "job": "0" * 32, "inputs": [["x0.npy", None]]}[how]
        line = line_of(record)
        if line not in self.says:
            self.damaged |= {line} if how == "types" else set()
            with self.path(JOURNAL).open("ab") as file:
                file.write(b"\n" + line)

    @invariant()
    def nothing_is_left_behind(self):
        names = {path.name for path in self.folder.iterdir()}
        assert names <= {*INPUTS, *LENGTHS, *(f"y{i}.npy" for i in range(COUNT)), "m.jsonl", JOURNAL}


def kind_of(line):
    report = json.loads(line)
    return "skipped" if report["skipped"] else "done" if report["ok"] else "failed"


@pytest.mark.needs("fork")
def test_batches_in_any_state(revseq, tmp_path):
    folders = iter(range(1 << 30))

    def machine():
        folder = tmp_path / f"{next(folders)}"
        folder.mkdir()
        return Batches(lambda *args, **order: revseq(*args, cwd=folder, **order), folder)

    settings = hypothesis.settings(
        max_examples=LONGER or 8, stateful_step_count=30 if LONGER else 12, derandomize=not LONGER, database=None,
        deadline=None, suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    run_state_machine_as_test(machine, settings=settings)
