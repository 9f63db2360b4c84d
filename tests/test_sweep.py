"""Some generated jobs, the same each time; `python tests/sweep.py` carries out others for as long as wanted."""

import itertools
from pathlib import Path

import breakages
import generated
import numpy as np
import pytest
import sweep
from generated import Job, Place
from needs import WINDOWS

import revseq_cli

SHARDS, JOBS = 6, 3 if WINDOWS else 25


@pytest.mark.parametrize("shard", range(SHARDS))
def test_generated_jobs(tmp_path_factory, shard):
    bases = sweep.bases()
    base = tmp_path_factory.mktemp("jobs") if shard % 2 else bases[-1]
    done, problem = sweep.sweep(f"suite-{shard}", 280, base, JOBS)
    assert not problem, f"\n{problem}"
    assert done == JOBS


def test_a_failure_is_made_small_and_printed_with_what_to_type(tmp_path):
    """By a command that writes a wrong bit where the axis size is above 4."""
    job = Job(
        seed=7, command="run", sizes=(3, 12), axis=1, data_type="INT16", big=True, order="C", lengths="random",
        lengths_type="UINT32", batch_axis=None, source=Place("npy"), lengths_source=Place("npy"), target=Place("npy"),
    )  # fmt: skip
    with sweep.server() as right:

        def run(order, folder, stdin, timeout):
            done = right(order, folder, stdin, timeout)
            for path in folder.glob("y.npy"):
                if order["args"][0] == "run" and np.load(folder / "x.npy").shape[1] > 4:
                    data = bytearray(path.read_bytes())
                    data[-1] ^= 1
                    path.write_bytes(data)
            return done

        failure = sweep.problem_of(job, run, tmp_path)
        assert "wrong bits: 1 of 36" in str(failure)
        small, failure = sweep.shrunk(job, failure, run, tmp_path)
    assert small.sizes == (1, 5)
    assert (small.big, small.data_type) == (False, "FLOAT32")
    text = sweep.text_of(small, failure)
    assert "revseq run x.npy n.npy -o y.npy --axis 1" in text
    assert generated.from_text(text.split('--job "')[1].rstrip('"')) == small


def test_the_same_seed_gives_the_same_jobs():
    assert list(generated.jobs(5, 20)) == list(generated.jobs(5, 20))
    assert len({*generated.jobs(5, 200)}) == 200
    assert all(generated.from_text(repr(job)) == job and generated.is_possible(job) for job in generated.jobs(6, 200))


def test_every_breakage_can_be_made():
    """What `breakages.py` breaks still stands in the package, once."""
    for module, before, after in itertools.chain(*breakages.BREAKAGES.values()):
        assert Path(revseq_cli.__file__).parent.joinpath(module).read_text(encoding="utf-8").count(before) == 1, before
        assert before != after
