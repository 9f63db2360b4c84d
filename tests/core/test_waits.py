"""Every place where the command waits for somebody, with that somebody dead, stopped and starved; and two signals."""

import concurrent.futures
import contextlib
import errno
import functools
import multiprocessing
import operator
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from types import SimpleNamespace

import h5py
import numpy as np
import oracle
import pytest
import zarr
from conftest import COMMAND
from folders import names
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from needs import resource
from processes import FEW, gone, members, until, workers

from revseq_cli.core import signals
from revseq_cli.core.errors import EngineError, TensorIOError, worded
from revseq_cli.formats.atomic_file import AtomicFile, FileTransaction, NewFolder
from revseq_cli.pipeline.arrangement import Arrangement
from revseq_cli.pipeline.engines import PROCESSES, SERIAL
from revseq_cli.pipeline.executors import Executor, results
from revseq_cli.pipeline.plan import Plan

VALUES, LENGTHS = np.arange(1 << 16, dtype="f4").reshape(256, 256), np.full((256, 1), 200, "u4")
EXPECTED = oracle.reverse(VALUES, LENGTHS, 1).tobytes()
READERS = {
    "y.npy": np.load,
    "y.h5": lambda path: h5py.File(path)["x"][()],
    "y.zarr": lambda path: next(iter(zarr.open(path, mode="r").arrays()))[1][...],
}


@pytest.fixture
def job(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("x", data=VALUES, chunks=(32, 256), compression="gzip")
    np.save(tmp_path / "n.npy", LENGTHS)
    return tmp_path


def arranged(engine, jobs=2, tasks=1):
    return Arrangement(Plan((tasks,), (1,)), engine, jobs, 0)


def run(engine, *tasks, jobs=2):
    """What they give, as a pass would get it."""
    return list(results(tasks, arranged(engine, jobs, len(tasks)), in_order=True))


POOLS = [PROCESSES]


def big_endian_columns(count):
    return np.arange(count * 4, dtype=">u4").reshape(count, 4)[:, ::2]


@pytest.mark.parametrize("engine", POOLS)
def test_what_is_given_is_done(engine):
    """NumPy's own pickle of an array that is not contiguous has this machine's byte order."""
    sent, counted = big_endian_columns(6), [functools.partial(int, i) for i in range(1000)]
    arrays = functools.partial(np.asarray, sent), functools.partial(big_endian_columns, 6)
    pid, large, *found = run(engine, os.getpid, functools.partial(bytes, 10_000_000), *arrays, *counted, jobs=3)
    assert (pid != os.getpid(), large) == (True, bytes(10_000_000))
    assert [(each.dtype.str, each.tobytes()) for each in found[:2]] == [(">u4", sent.tobytes())] * 2
    assert found[2:] == [*range(1000)]
    with pytest.raises(TypeError) as caught:
        run(engine, functools.partial(int, []))
    assert any("int() argument" in note for note in getattr(caught.value, "__notes__", [])) == (engine is PROCESSES)


# A result that does not pickle; an error that does not; and one that pickles, but not back.
UNPICKLABLE = {
    "a result": "lambda: 0",
    "an error": "(_ for _ in ()).throw(RuntimeError(__import__('threading').Lock()))",
    "an error, back": "(_ for _ in ()).throw(UnicodeDecodeError.__new__(UnicodeDecodeError))",
}


@pytest.mark.parametrize("which", UNPICKLABLE)
def test_what_does_not_pickle_looks_like_no_dead_worker(which):
    with pytest.raises(EngineError, match="a worker failed: "):
        run(PROCESSES, functools.partial(eval, UNPICKLABLE[which]), jobs=1)


# handed out: no more than the window at a time, in any order in which they end, and nobody waits for one alone


class ByHand(Executor):
    """Workers whose batches end when somebody waits for one, the last one first."""

    def __init__(self, window):
        self.at_once, self.pending, self.most = window, [], 0

    def window(self):
        return self.at_once

    def submit(self, batch):
        future = Future()
        self.pending.append((future, batch))
        self.most = max(self.most, len(self.pending))
        return future

    def end_one(self, i=-1):
        future, batch = self.pending.pop(i)
        future.set_result(batch())


@pytest.fixture
def waits(monkeypatch):
    """Nobody waits for a moment: the executor that is set ends one batch instead."""
    executors = []

    def wait(pending, *_):
        assert set(pending) == {future for future, _ in executors[-1].pending}
        executors[-1].end_one()
        return SimpleNamespace(done={each for each in pending if each.done()})

    monkeypatch.setattr(concurrent.futures, "wait", wait)
    return lambda executor: executors.append(executor) or executor


def test_tasks_are_handed_out_as_many_as_may_be_under_way(waits):
    by_hand = waits(ByHand(3))
    tasks = [functools.partial(int, i) for i in range(10)]
    assert list(by_hand.results(tasks)) == [2, 3, 4, 5, 6, 7, 8, 9, 1, 0]
    assert (by_hand.most, by_hand.pending) == (3, [])
    given = iter(tasks)
    results = waits(ByHand(1)).results(given)
    assert (next(results), next(given)()) == (0, 1)  # the next one is not taken before it may be under way


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_results_in_the_order_of_the_tasks(waits, data):
    """Whatever ends first, and also where a batch does a part of its tasks; and few results wait for their turn."""
    window, size, count = (data.draw(st.integers(1, most)) for most in (4, 5, 30))

    class AtRandom(ByHand):
        def size(self, _):
            return size

        def submit(self, batch):
            done = data.draw(st.integers(1, len(batch.tasks)))
            return super().submit(lambda: [task() for task in batch.tasks[:done]])

        def end_one(self):
            super().end_one(data.draw(st.integers(0, len(self.pending) - 1)))

    taken = []
    tasks = (functools.partial(int, taken.append(i) or i) for i in range(count))
    for i, result in enumerate(waits(AtRandom(window)).results(tasks, in_order=True)):
        assert result == i
        assert len(taken) - i <= (window + 1) * size
    assert len(taken) == count


def test_what_is_under_way_is_cancelled_at_the_end(waits):
    by_hand = waits(ByHand(4))
    results = by_hand.results([int] * 9)
    next(results)
    left = [future for future, _ in by_hand.pending]
    results.close()
    assert [future.cancelled() for future in left] == [True] * 3


def test_a_window_that_shrinks_waits_for_those_under_way(waits):
    by_hand, given = waits(ByHand(4)), iter([int] * 9)
    results = by_hand.results(given)
    next(results)
    by_hand.at_once = 1
    assert [next(results) for _ in range(3)] == [0] * 3
    assert operator.length_hint(given) == 5
    assert len(list(results)) == 5


def test_signals_are_looked_at_between_two_results(waits, monkeypatch):
    received = []
    monkeypatch.setattr(signals, "_received", received)
    ended = waits(ByHand(2)).results([int, int, int])
    next(ended)
    received.append(signal.SIGTERM)
    with pytest.raises(signals.Stopped):
        list(ended)
    received.clear()
    serial = results([int, int, int], Arrangement(Plan((3,), (1,)), SERIAL, 1, 0))
    next(serial)
    assert signals.is_deferred()
    received.append(signal.SIGTERM)
    with pytest.raises(signals.Stopped):
        next(serial)
    received.clear()
    assert not signals.is_deferred()


@pytest.mark.parametrize("engine", POOLS)
def test_workers_are_as_many_as_asked_for_and_gone_at_the_end(engine):
    def alive():
        return len(multiprocessing.active_children())

    before, most = alive(), 0
    with contextlib.closing(engine.load()(arranged(engine, 2, 12))) as executor:
        assert executor.window() == 4
        for _ in executor.results([functools.partial(time.sleep, 0.01)] * 12):
            most = max(most, alive() - before)
    assert (most, alive()) == (2, before)


@pytest.mark.parametrize("engine", POOLS)
def test_a_task_that_takes_longer_than_a_look_is_waited_for(engine):
    assert run(engine, functools.partial(time.sleep, 3 * signals.PATIENCE)) == [None]


# dead


@pytest.mark.parametrize("number", [signal.SIGSEGV, getattr(signal, "SIGKILL", signal.SIGABRT)])
def test_h63_a_process_that_dies(number):
    with pytest.raises(EngineError, match="a worker process died"):
        run(PROCESSES, functools.partial(signal.raise_signal, number), functools.partial(time.sleep, 60))


def test_a_process_that_is_given_up_ends_soon():
    """Also one that has to read what no other wants any more, and whose task is large."""
    began = time.monotonic()
    with pytest.raises(EngineError, match="a worker process died"):
        run(PROCESSES, functools.partial(os._exit, 3), *[functools.partial(_slow_length, bytes(1 << 22))] * 6)
    assert time.monotonic() - began < 20


def _slow_length(data):
    time.sleep(30)
    return len(data)


@pytest.mark.needs("proc")
@pytest.mark.parametrize("stopped", [False, True])
def test_h63_no_worker_outlives_its_parent(held, small, stopped):
    process, _ = held(small, "--engine", "processes", "--memory", "300K", "--jobs", "2")
    for pid in workers(process) if stopped else ():
        os.kill(pid, signal.SIGSTOP)
    process.kill()
    process.wait()
    until(lambda: not members(process.pid))


# stopped


@pytest.mark.needs("signals")
def test_h63_stopped_processes_are_gone_at_the_end():
    with contextlib.closing(PROCESSES.load()(arranged(PROCESSES, 2, 8))) as executor:
        pids = set(executor.results([os.getpid] * 8))
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.needs("signals")
def test_h63_workers_that_are_stopped_at_work(held, small):
    process, _ = held(small, "--engine", "processes", "--memory", "300K", "--jobs", "2")
    for pid in workers(process):
        os.kill(pid, signal.SIGSTOP)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGHUP)
    _, err = process.communicate()
    gone(process)
    assert (process.returncode, err) == (-signal.SIGHUP, b"Note: stopped; y.npy was not written\n")
    assert names(small) == {"x.npy", "n.npy"}


@pytest.mark.needs("signals")
def test_workers_that_go_on_after_a_stop(held, small):
    """As under Ctrl-Z and fg: nothing is lost, and nothing is an error."""
    process, go = held(small, "--engine", "processes", "--memory", "300K", "--jobs", "2")
    os.killpg(process.pid, signal.SIGSTOP)
    go()
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGCONT)
    _, err = process.communicate()
    assert (process.returncode, err) == (0, b"")


# starved


@pytest.mark.needs("limits")
@pytest.mark.long
@pytest.mark.parametrize(("engine", "output"), [("processes", "y.h5"), ("serial", "y.zarr")])
def test_little_address_space(job, engine, output):
    """From where the libraries just fit: it ends, with the whole output, or with one message and none."""
    statuses = set()
    for kib in (*range(112_000, 160_000, 3_000), 400_000):
        command = [*COMMAND, "run", "x.h5", "n.npy", "--axis", "1", "-o", output, "--engine", engine, "--jobs", "2",
                   "--memory", "1M"]  # fmt: skip
        limit = functools.partial(resource.setrlimit, resource.RLIMIT_AS, (kib << 10, kib << 10))
        done = subprocess.run(command, cwd=job, capture_output=True, text=True, preexec_fn=limit, check=False)
        if done.returncode == -signal.SIGSEGV:  # HDF5 itself, whose memory ends while it opens a file, as README says
            assert not (job / output).exists()
            for path in job.glob(".revseq-*.tmp"):
                subprocess.run(["rm", "-r", path], check=True)
            continue
        statuses.add(done.returncode)
        if done.returncode:
            assert done.returncode == 2
            # Python itself may say more where memory ends in a thread.
            assert [line.startswith("Error: ") for line in done.stderr.splitlines()].count(True) == 1
            # So does h5py, where memory ends while it lets go of an object, a pool whose second thread cannot start, and
            # hashlib, which logs each hash that it cannot load: nobody can hear of that.
            told = ("ObjectID.__dealloc__", "RuntimeError: can't start new thread", "ERROR:root:code for hash ")
            assert "Traceback" not in done.stderr or any(each in done.stderr for each in told)
            assert "internal error" not in done.stderr
            assert names(job) == {"x.h5", "n.npy"}
        else:
            assert READERS[output](job / output).tobytes() == EXPECTED
            subprocess.run(["rm", "-r", job / output], check=True)
    assert statuses == {0, 2}  # too little for the least of it, and enough


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("MemoryError()", "Error: out of memory\n"),
        ("SystemError('bad argument')", "internal error: SystemError: bad argument"),
        *((f"SystemError({text!r})", "Error: most likely out of memory: a library failed without saying why\n")
          for text in ("error return without exception set", "f returned NULL without setting an exception",
                       "f returned a result with an exception set")),
    ],
)  # fmt: skip
def test_memory_that_ends_inside_a_library(revseq, job, error, told):
    code = f"import numpy\ndef ends(*_, **__): raise {error}\nnumpy.reshape = numpy.asarray = numpy.empty = ends"
    done = revseq("run", "x.h5", "n.npy", "--axis", 1, "-o", "y.npy", "--engine", "serial", code=code)
    done.refused(told, "Hint: try a smaller --memory" if "memory" in told else "")
    assert names(job) == {"x.h5", "n.npy"}


def test_memory_that_ends_while_a_library_is_imported():
    assert worded(OSError(errno.ENOMEM, "", "zarr/codecs"), "standard output").found == "out of memory"
    error = ImportError("cannot import name 'sha512' from 'hashlib'")  # which random tries next
    error.__context__ = ImportError("_sha512.so: failed to map segment from shared object")
    assert worded(error, "standard output").found == "out of memory"


def test_memory_that_ends_while_the_error_is_told(revseq, job):
    code = "from revseq_cli.report import words\ndef ends(*_, **__): raise MemoryError\nwords.message = ends"
    assert revseq("show", "no.npy", code=code).refused("Error: out of memory\n").err == "Error: out of memory\n"


@pytest.mark.parametrize(
    ("engine", "threads", "processes"),
    [("processes", 0, 2), ("processes", 2, 0), ("processes", 2, 1)],
)
def test_h63_few_threads_and_processes(revseq, job, engine, threads, processes):
    """They are an error, which says what else to do; the executor of processes has two threads of its own."""
    args = ("run", "x.h5", "n.npy", "--axis", 1, "-o", "y.npy", "--engine", engine, "--jobs", 2, "--memory", "1M")
    done = revseq(*args, code=FEW.format(threads=threads, processes=processes))
    done.refused("Error: cannot start a worker: ", "Hint: add --engine serial")
    assert names(job) == {"x.h5", "n.npy"}
    assert revseq(*args, code=FEW.format(threads=3, processes=2)).ok().err == ""
    assert np.load(job / "y.npy").tobytes() == EXPECTED


# two signals

STUCK = """
import os, signal, time
from concurrent.futures import wait
from revseq_cli.core import signals
import functools
from revseq_cli.core.processes import Workers, packed
from revseq_cli.pipeline.arrangement import Arrangement
from revseq_cli.pipeline.executors import results
from revseq_cli.pipeline.engines import PROCESSES
from revseq_cli.pipeline.plan import Plan
from revseq_cli.formats.atomic_file import AtomicFile, FileTransaction
signals.watch()
workers = Workers(1)
try:
    with signals.deferred(), FileTransaction(AtomicFile("y.npy", overwrite=False)):
        os.kill(workers.result(workers.submit(packed(os.getpid))), signal.SIGSTOP)
        print(flush=True)
        list(results([functools.partial(time.sleep, 1000)], Arrangement(Plan((1,), (1,)), PROCESSES, 1, 0)))
except signals.Stopped:
    signals.die()
"""


@pytest.mark.needs("signals")
@pytest.mark.parametrize("engine", ["processes"])
def test_two_signals_at_once_are_one(held, small, engine):
    """As timeout sends them, to the process and to its group: there is time to undo."""
    process, go = held(small, "--engine", engine, "--memory", "300K", "--jobs", "2")
    process.send_signal(signal.SIGTERM)
    os.killpg(process.pid, signal.SIGTERM)
    go()
    _, err = process.communicate()
    gone(process)
    assert (process.returncode, err) == (-signal.SIGTERM, b"Note: stopped; y.npy was not written\n")
    assert names(small) == {"x.npy", "n.npy"}


def test_nothing_is_left_to_be_done_at_once(tmp_path):
    before = dict(signals.at_once)
    run(PROCESSES, int, int)
    with contextlib.suppress(TensorIOError):
        for kind in (AtomicFile, NewFolder):
            with FileTransaction(kind(str(tmp_path / f"y{kind.__name__}"), overwrite=False)):
                assert len(signals.at_once) == len(before) + 1
                if kind is NewFolder:
                    raise TensorIOError(os.strerror(errno.EIO))
    assert signals.at_once == before


@pytest.mark.needs("signals")
def test_a_process_that_starts_leaves_the_mask_of_signals(tmp_path):
    """Python's tracker, which comes with the first process, lets signals in again; a worker would answer Ctrl-C."""
    script = """
import signal
from revseq_cli.core import signals, system
from revseq_cli.core.processes import start_tracker
signals.watch()
start_tracker()
with system.masked():
    from multiprocessing import resource_tracker
    resource_tracker.ensure_running()
    assert {signal.SIGINT, signal.SIGTERM, signal.SIGHUP} <= signal.pthread_sigmask(signal.SIG_BLOCK, [])
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
