"""The loop that hands out tasks, and worker processes: those that die, are stopped, or cannot be started."""

import functools
import os
import signal
import time
from concurrent.futures import Future
from types import SimpleNamespace

import h5py
import numpy as np
import oracle
import pytest
from folders import names
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import FEW, members, until, workers

from revseq_cli.core.errors import EngineError
from revseq_cli.pipeline import executors
from revseq_cli.pipeline.blocks import Blocks
from revseq_cli.pipeline.plan import Plan
from revseq_cli.pipeline.tasks import run_tasks


def plan_of(tasks, engine="processes", workers=1):
    return Plan(Blocks((tasks,), (1,)), engine, workers, 0)


def done(*tasks, workers=1, engine="processes", in_order=True):
    return [*run_tasks(tasks, plan_of(len(tasks), engine, workers), in_order=in_order)]


# The loop


class ByHand:
    """Workers of which any batch ends when somebody waits for one."""

    def __init__(self, workers, choose):
        self.workers, self.choose, self.pending, self.most = workers, choose, {}, 0

    def submit(self, batch):
        future = Future()
        self.pending[future] = batch
        self.most = max(self.most, len(self.pending))
        return future

    def wait(self, pending, *_):
        assert set(pending) == set(self.pending)
        future = self.choose([*self.pending])
        future.set_result(self.pending.pop(future)())
        return SimpleNamespace(done={future})

    def result(self, future):
        return future.result()


@settings(max_examples=80)
@given(st.data())
def test_two_batches_for_each_worker_are_under_way(data):
    """Few results wait for their turn, where they come in the order of the tasks."""
    workers, count, in_order = (
        data.draw(st.integers(1, 3)),
        data.draw(st.integers(0, 30)),
        data.draw(st.booleans()),
    )
    by_hand = ByHand(workers, lambda futures: data.draw(st.sampled_from(futures)))
    taken, found = [], []
    batches = (functools.partial(int, taken.append(i) or i) for i in range(count))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executors, "wait", by_hand.wait)
        for result in executors.run_batches(batches, by_hand, in_order=in_order):
            found.append(result)
            assert (
                len(taken) <= len(found) - 1 + 2 * workers
            )  # none is taken before it may be under way
    assert (found if in_order else sorted(found)) == [*range(count)]
    assert (by_hand.most, by_hand.pending) == (min(count, 2 * workers), {})


# Processes


def test_what_is_given_is_done():
    tasks = [functools.partial(int, i) for i in range(300)]
    found = done(os.getpid, functools.partial(bytes, 1_000_000), *tasks, workers=2)
    assert found[0] != os.getpid()
    assert found[1:] == [bytes(1_000_000), *range(300)]
    with pytest.raises(TypeError) as caught:
        done(functools.partial(int, []))
    assert any("int() argument" in note for note in caught.value.__notes__)


def test_an_error_that_does_not_pickle_back_is_told():
    error = "(_ for _ in ()).throw(UnicodeDecodeError.__new__(UnicodeDecodeError))"
    with pytest.raises(EngineError, match="a worker failed"):
        done(functools.partial(eval, error))


@pytest.mark.parametrize(
    "die",
    [
        (os._exit, 3),
        (signal.raise_signal, signal.SIGSEGV),
        (signal.raise_signal, getattr(signal, "SIGKILL", signal.SIGABRT)),
    ],
)
def test_h63_a_process_that_dies_while_others_wait_for_tasks(die):
    """Tasks and results are more than a pipe holds, and nobody reads them any more."""
    began = time.monotonic()
    with pytest.raises(EngineError, match="a worker process died"):
        done(functools.partial(*die), *[functools.partial(bytes, bytes(1 << 22))] * 6, workers=2)
    assert time.monotonic() - began < 20


@pytest.mark.needs("proc")
@pytest.mark.parametrize("stopped", [False, True])
def test_h47_h63_no_worker_outlives_its_parent(held, small, stopped):
    process, _ = held(small, "--engine", "processes", "--memory", "300K", "--jobs", "2")
    for pid in workers(process) if stopped else ():
        os.kill(pid, signal.SIGSTOP)
    process.kill()
    process.wait()
    until(lambda: not members(process.pid))
    assert names(small) - {"x.npy", "n.npy"} == {
        name for name in names(small) if name.startswith(".revseq-")
    }


@pytest.mark.parametrize("processes", [0, 1])
def test_h63_processes_that_the_system_does_not_start(revseq, small, processes):
    job = (
        "run",
        "x.npy",
        "n.npy",
        "--axis",
        1,
        "-o",
        "y.npy",
        "--engine",
        "processes",
        "--jobs",
        2,
        "--memory",
        "1M",
    )
    done = revseq(*job, code=FEW.format(threads=9, processes=processes))
    done.refused("Error: cannot start a worker: ", "add --engine serial")
    assert names(small) == {"x.npy", "n.npy"}


# Runs first in a command: its tasks are done by threads of one process, as in a worker of dask that has several.
IN_THREADS = """
import pickle
from concurrent.futures import ThreadPoolExecutor
from revseq_cli.pipeline.executors import dump
from revseq_cli.pipeline import passes
def results(tasks, plan, *, in_order=False):
    with ThreadPoolExecutor(4) as pool:
        yield from pool.map(lambda task: pickle.loads(task)(), map(dump, tasks))
passes.run_tasks = results
from revseq_cli.core import thresholds
thresholds.LARGE_RUN, thresholds.BOUNCE_BYTES = 1 << 14, 1 << 14
"""


@pytest.mark.parametrize("suffix", ["npy", "h5", "zarr", "npz", "safetensors"])
def test_threads_share_nothing_that_they_change(revseq, small, suffix):
    x = np.load(small / "x.npy")
    with h5py.File(small / "x.h5", "w") as f:
        f.create_dataset("x", data=x >> 20, chunks=(4, 512), compression=1, shuffle=True)
    source, values = ("x.h5", x >> 20) if suffix in ("h5", "zarr") else ("x.npy", x)
    for command, output in (
        (("run", source, "n.npy", "--axis", 1, "-o"), "y"),
        (("convert", source), "z"),
    ):
        output = f"{output}.{suffix}"
        revseq(
            *command,
            output,
            "--memory",
            "9M" if suffix == "zarr" else "400K",
            "--verify",
            code=IN_THREADS,
        ).ok()
        revseq("convert", output, f"{output}.npy").ok()
        right = oracle.expected(values, np.load(small / "n.npy"), 1) if output[0] == "y" else values
        assert np.array_equal(np.load(small / f"{output}.npy"), right)
