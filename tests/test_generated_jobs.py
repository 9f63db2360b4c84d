"""Some generated jobs, the same each time; `python tests/tools/generated_jobs.py` carries out others for as long as wanted."""

import errno
import itertools
import shutil
import subprocess
import sys
from pathlib import Path

import generated
import generated_jobs
import mutants
import numpy as np
import pytest
from generated import Job, Place
from needs import WINDOWS

import revseq_cli

SHARDS, JOBS = 6, 3 if WINDOWS else 25


@pytest.mark.parametrize("shard", range(SHARDS))
def test_generated_jobs(tmp_path_factory, shard):
    bases = generated_jobs.bases()
    base = tmp_path_factory.mktemp("jobs") if shard % 2 else bases[-1]
    done, problem = generated_jobs.run_jobs(f"suite-{shard}", 280, base, JOBS)
    assert not problem, f"\n{problem}"
    assert done == JOBS


def test_a_failure_is_made_small_and_printed_with_what_to_type(tmp_path):
    """By a command that writes a wrong bit where the axis size is above 4."""
    job = Job(
        seed=7, command="run", sizes=(3, 12), axis=1, data_type="INT16", big=True, order="C", lengths="random",
        lengths_type="UINT32", batch_axis=None, source=Place("npy"), lengths_source=Place("npy"), target=Place("npy"),
    )  # fmt: skip
    with generated_jobs.server() as right:

        def run(order, folder, stdin, timeout):
            done = right(order, folder, stdin, timeout)
            for path in folder.glob("y.npy"):
                if order["args"][0] == "run" and np.load(folder / "x.npy").shape[1] > 4:
                    data = bytearray(path.read_bytes())
                    data[-1] ^= 1
                    path.write_bytes(data)
            return done

        failure = generated_jobs.problem_of(job, run, tmp_path)
        assert "wrong bits: 1 of 36" in str(failure)
        small, failure = generated_jobs.shrunk(job, failure, run, tmp_path)
    assert small.sizes == (1, 5)
    assert (small.big, small.data_type) == (False, "FLOAT32")
    text = generated_jobs.text_of(small, failure)
    assert "revseq run x.npy n.npy -o y.npy --axis 1" in text
    assert generated.from_text(text.split('--job "')[1].rstrip('"')) == small


SMALL = Job(
    seed=7, command="run", sizes=(2, 3), axis=1, data_type="INT16", big=False, order="C", lengths="random",
    lengths_type="UINT32", batch_axis=None, source=Place("npy"), lengths_source=Place("npy"), target=Place("npy"),
)  # fmt: skip


@pytest.mark.parametrize("times", [1, 3])
def test_what_still_writes_into_the_folder_of_a_job_does_not_hide_why_it_failed(monkeypatch, tmp_path, times):
    remove, tried = shutil.rmtree, []

    def busy(path):
        tried.append(path)
        if len(tried) <= times:
            raise OSError(errno.ENOTEMPTY, "Directory not empty", path)
        remove(path)

    def run(order, folder, stdin, timeout):
        raise RuntimeWarning("inside a package")

    monkeypatch.setattr(shutil, "rmtree", busy)
    assert "RuntimeWarning: inside a package" in str(generated_jobs.problem_of(SMALL, run, tmp_path))
    assert len(tried) == times + 1
    assert not [*tmp_path.iterdir()]
    monkeypatch.setattr(generated_jobs, "_LONGEST_CLEANING", 0)
    tried.clear()
    with pytest.raises(OSError, match="Directory not empty"):
        generated_jobs.problem_of(SMALL, run, tmp_path)


def test_the_same_seed_gives_the_same_jobs():
    assert list(generated.jobs(5, 20)) == list(generated.jobs(5, 20))
    assert len({*generated.jobs(5, 200)}) == 200
    assert all(generated.from_text(repr(job)) == job and generated.is_possible(job) for job in generated.jobs(6, 200))


def test_every_breakage_can_be_made():
    """What `mutants.py` breaks still stands in the package, once."""
    for module, before, after in itertools.chain(*mutants.BREAKAGES.values()):
        assert Path(revseq_cli.__file__).parent.joinpath(module).read_text(encoding="utf-8").count(before) == 1, before
        assert before != after


def test_the_tool_is_a_program():
    """Which finds what the tests import without pytest."""
    tool = [sys.executable, generated_jobs.__file__, "--jobs", "1", "--workers", "1", "--seed", "1"]
    done = subprocess.run(tool, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "1 jobs, 0 failures"
