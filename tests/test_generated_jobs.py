"""Some generated jobs, the same each time; `python tests/tools/generated_jobs.py` carries out others for as long as wanted."""

import generated
import generated_jobs
import numpy as np
import pytest
from generated import Job, Place
from needs import WINDOWS

JOBS = 3 if WINDOWS else 10


@pytest.mark.parametrize("shard", range(2))
def test_generated_jobs(tmp_path_factory, shard):
    """Few, since .ci/run carries out hundreds: on a disk and in memory."""
    base = tmp_path_factory.mktemp("jobs") if shard % 2 else generated_jobs.bases()[-1]
    done, problem = generated_jobs.run_jobs(f"suite-{shard}", 280, base, JOBS)
    assert not problem, f"\n{problem}"
    assert done == JOBS


def test_a_failure_is_printed_with_what_to_type(tmp_path):
    """By a stand-in for the command that reverses nothing."""
    job = Job(
        seed=7, command="run", sizes=(2, 6), axis=1, data_type="INT16", big=True, order="C", lengths="full",
        lengths_type="UINT32", batch_axis=None, source=Place("npy"), lengths_source=Place("npy"), target=Place("npy"),
    )  # fmt: skip

    def run(order, folder, timeout):
        np.save(folder / "y.npy", np.load(folder / "x.npy"))
        return generated_jobs.Result(0, b"", b"")

    failure = generated_jobs.problem_of(job, run, tmp_path)
    assert "wrong bits: " in str(failure)
    text = generated_jobs.text_of(job, failure)
    assert "revseq run x.npy n.npy -o y.npy --axis 1" in text
    assert generated.from_text(text.split('--job "')[1].rstrip('"')) == job


def test_the_same_seed_gives_the_same_jobs():
    assert [*generated.jobs(5, 200)] == [
        generated.from_text(repr(job)) for job in generated.jobs(5, 200)
    ]
    assert len({*generated.jobs(5, 200)}) == 200
