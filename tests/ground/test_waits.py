"""Every place where the command waits for somebody, with that somebody dead, stopped and starved; and two signals."""

import _thread
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
from threading import Event
from unittest import mock

import h5py
import numpy as np
import oracle
import pytest
import zarr
from conftest import COMMAND
from folders import names
from hypothesis import given
from hypothesis import strategies as st
from needs import resource, signals
from processes import FEW, gone, members, until, workers

from revseq_cli.ground import processes, stopping
from revseq_cli.ground.errors import EngineError, TensorIOError, worded
from revseq_cli.passes.arrangement import Arrangement
from revseq_cli.passes.engines.crew import Crew, Processes, Threads, results
from revseq_cli.passes.engines.table import SERIAL
from revseq_cli.passes.plan import Plan

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


def run(pool, *tasks):
    """What they give, as a pass would get it."""
    try:
        pending = {pool.submit(task) for task in tasks}
        while any(not future.done() for future in pending):
            pool.wait_for(pending)
        return [future.result() for future in pending]
    finally:
        pool.close()


POOLS = [Threads, Processes]


@pytest.mark.parametrize("pool", POOLS)
def test_what_is_given_is_done(pool):
    pids = run(pool(3), *[os.getpid] * 40)
    assert (set(pids) == {os.getpid()}) == (pool is Threads)
    assert run(pool(2), functools.partial(bytes, 10_000_000), int) in ([bytes(10_000_000), 0], [0, bytes(10_000_000)])
    with pytest.raises(TypeError):
        run(pool(2), functools.partial(int, []))


def test_answers_that_do_not_pickle():
    with pytest.raises(EngineError, match="a worker failed"):
        run(Processes(1), functools.partial(eval, "lambda: 0"))


# handed out: no more than the window at a time, in any order in which they end, and nobody waits for one alone


class ByHand(Crew):
    """Workers whose tasks end when somebody waits for one, the last one first."""

    def __init__(self, window):
        self.at_once, self.pending, self.most = window, [], 0

    def window(self):
        return self.at_once

    def submit(self, task):
        future = Future()
        self.pending.append((future, task))
        self.most = max(self.most, len(self.pending))
        return future

    def wait_for(self, pending):
        assert pending == {future for future, _ in self.pending}
        self.end_one(-1)

    def end_one(self, i):
        future, task = self.pending.pop(i)
        future.set_result(task())


def test_tasks_are_handed_out_as_many_as_may_be_under_way():
    by_hand = ByHand(3)
    tasks = [functools.partial(int, i) for i in range(10)]
    assert list(by_hand.results(tasks)) == [2, 3, 4, 5, 6, 7, 8, 9, 1, 0]
    assert (by_hand.most, by_hand.pending) == (3, [])
    given = iter(tasks)
    results = ByHand(1).results(given)
    assert (next(results), next(given)()) == (0, 1)  # the next one is not taken before it may be under way


@given(st.data())
def test_results_in_the_order_of_the_tasks(data):
    """Whatever ends first, and also where a batch does a part of its tasks; and few results wait for their turn."""
    window, size, count = (data.draw(st.integers(1, most)) for most in (4, 5, 30))

    class AtRandom(ByHand):
        def size(self, _):
            return size

        def submit(self, batch):
            done = data.draw(st.integers(1, len(batch.tasks)))
            return super().submit(lambda: [task() for task in batch.tasks[:done]])

        def wait_for(self, _):
            self.end_one(data.draw(st.integers(0, len(self.pending) - 1)))

    taken = []
    tasks = (functools.partial(int, taken.append(i) or i) for i in range(count))
    for i, result in enumerate(AtRandom(window).results(tasks, in_order=True)):
        assert result == i
        assert len(taken) - i <= (window + 1) * size
    assert len(taken) == count


def test_what_is_under_way_is_cancelled_at_the_end():
    by_hand = ByHand(4)
    results = by_hand.results([int] * 9)
    next(results)
    left = [future for future, _ in by_hand.pending]
    results.close()
    assert [future.cancelled() for future in left] == [True] * 3


def test_a_window_that_shrinks_waits_for_those_under_way():
    by_hand, given = ByHand(4), iter([int] * 9)
    results = by_hand.results(given)
    next(results)
    by_hand.at_once = 1
    assert [next(results) for _ in range(3)] == [0] * 3
    assert operator.length_hint(given) == 5
    assert len(list(results)) == 5


def test_signals_are_looked_at_between_two_results(monkeypatch):
    received = []
    monkeypatch.setattr(stopping, "_received", received)
    ended = ByHand(2).results([int, int, int])
    next(ended)
    received.append(signal.SIGTERM)
    with pytest.raises(stopping.Stopped):
        list(ended)
    received.clear()
    serial = results([int, int, int], Arrangement(Plan((3,), (1,)), SERIAL, 1, 0))
    next(serial)
    assert stopping.is_deferred()
    received.append(signal.SIGTERM)
    with pytest.raises(stopping.Stopped):
        next(serial)
    received.clear()
    assert not stopping.is_deferred()


@pytest.mark.parametrize("pool", POOLS)
def test_workers_are_as_many_as_asked_for_and_gone_at_the_end(pool):
    def alive():
        return _thread._count() if pool is Threads else len(multiprocessing.active_children())

    before = alive()
    arrangement = Arrangement(Plan((1,), (1,)), SERIAL, 2, 0)
    with contextlib.closing(pool.of(arrangement)) as workers_:
        assert workers_.window() == 4
        for _ in workers_.results([functools.partial(time.sleep, 0.01)] * 12):
            assert alive() - before <= 2
        until(lambda: alive() - before == 2)
    until(lambda: alive() == before)


@pytest.mark.parametrize("pool", POOLS)
def test_a_task_that_takes_longer_than_a_look_is_waited_for(pool):
    pools = pool(2)
    future = pools.submit(functools.partial(time.sleep, 3 * stopping.PATIENCE))
    until(lambda: pools.wait_for({future}) or future.done())
    assert future.result() is None
    pools.close()


def test_threads_end_what_they_have_begun_and_nothing_else():
    pool, begun, ready, done = Threads(1), Event(), Event(), []
    first = pool.submit(lambda: (begun.set(), ready.wait(20)))
    given_up, *others = [pool.submit(functools.partial(done.append, i)) for i in range(3)]
    assert begun.wait(20)
    others[-1].add_done_callback(lambda _: ready.set())
    pool.close()
    assert first.done()
    assert [each.cancelled() for each in (given_up, *others)] == [True] * 3
    assert done == []


def test_threads_leave_out_what_was_cancelled():
    pool, ready, done = Threads(1), Event(), []
    first = pool.submit(functools.partial(ready.wait, 20))
    second, third = (pool.submit(functools.partial(done.append, i)) for i in (2, 3))
    second.cancel()
    ready.set()
    until(lambda: pool.wait_for({third}) or third.done())
    pool.close()
    assert (first.result(), done) == (True, [3])


# dead


def test_h63_a_process_that_dies():
    with pytest.raises(EngineError, match="a worker process died"):
        run(Processes(2), functools.partial(os._exit, 3), functools.partial(time.sleep, 60))
    with pytest.raises(EngineError, match="a worker process died"):
        run(Processes(2), functools.partial(signal.raise_signal, signal.SIGSEGV))


def test_h63_a_thread_that_ends_before_it_has_begun(monkeypatch):
    """As it does without memory for its first frame; nothing says so."""
    monkeypatch.setattr(_thread, "start_new_thread", lambda *_: 1)
    with pytest.raises(EngineError, match="a worker thread died"):
        run(Threads(2), int, int)


# stopped


@pytest.mark.needs("signals")
def test_h63_stopped_processes_are_gone_at_the_end():
    pool = Processes(2)
    for future in (futures := {pool.submit(os.getpid) for _ in range(2)}):
        while not future.done():
            pool.wait_for(futures)
    pids = [process._process.pid for process in pool._given]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    pool.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.needs("signals")
@pytest.mark.parametrize("number", signals("SIGINT", "SIGTERM", "SIGHUP"))
def test_h63_workers_that_are_stopped_at_work(held, small, number):
    process, _ = held(small, "--engine", "processes", "--memory", "300K", "--jobs", "2")
    for pid in workers(process):
        os.kill(pid, signal.SIGSTOP)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(number)
    _, err = process.communicate()
    gone(process)
    assert (process.returncode, err) == (-number, b"Note: stopped; y.npy was not written\n")
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
@pytest.mark.parametrize(("engine", "output"), [("processes", "y.h5"), ("threads", "y.npy"), ("serial", "y.zarr")])
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
            # So does h5py, where memory ends while it lets go of an object: nobody can hear of that.
            assert "Traceback" not in done.stderr or "ObjectID.__dealloc__" in done.stderr
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
        *((f"SystemError({text!r})", "Error: most likely out of memory: a library failed, and did not say why\n")
          for text in ("error return without exception set", "f returned NULL without setting an exception",
                       "f returned a result with an exception set")),
    ],
)  # fmt: skip
def test_memory_that_ends_inside_a_library(revseq, job, error, told):
    code = f"import numpy\ndef ends(*_, **__): raise {error}\nnumpy.reshape = numpy.asarray = numpy.empty = ends"
    done = revseq("run", "x.h5", "n.npy", "--axis", 1, "-o", "y.npy", "--engine", "serial", code=code)
    done.refused(told, "Hint: try a smaller --memory")
    assert names(job) == {"x.h5", "n.npy"}


def test_memory_that_ends_while_a_library_is_imported():
    assert worded(OSError(errno.ENOMEM, "", "zarr/codecs"), "standard output").found == "out of memory"


def test_other_errors_of_the_interpreter_are_not_about_memory(revseq, job):
    code = "import numpy\ndef ends(*_, **__): raise SystemError('bad argument')\nnumpy.asarray = numpy.empty = ends"
    done = revseq("run", "x.h5", "n.npy", "--axis", 1, "-o", "y.npy", "--engine", "serial", code=code)
    done.refused("internal error: SystemError: bad argument")


def test_memory_that_ends_while_the_error_is_told(revseq, job):
    code = "from revseq_cli.report import words\ndef ends(*_, **__): raise MemoryError\nwords.message = ends"
    assert revseq("show", "no.npy", code=code).refused("Error: out of memory\n").err == "Error: out of memory\n"


@pytest.mark.parametrize("engine", ["threads", "processes"])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_h63_few_threads_and_processes(revseq, job, engine, count):
    args = ("run", "x.h5", "n.npy", "--axis", 1, "-o", "y.npy", "--engine", engine, "--jobs", 2, "--memory", "1M")
    done = revseq(*args, code=FEW.format(threads=count, processes=count))
    if count == 0:
        done.refused("Error: cannot start a worker: ", "Hint: add --engine serial")
        assert names(job) == {"x.h5", "n.npy"}
    else:
        assert done.ok().err == ""
        assert np.load(job / "y.npy").tobytes() == EXPECTED


# two signals

STUCK = """
import os, signal, time
from revseq_cli.ground import stopping
from revseq_cli.ground.processes import Process, start_tracker
from revseq_cli.passes.engines.crew import Threads, _serve
from revseq_cli.formats.storage.newfile import NewFile
from revseq_cli.formats.storage.newfile import Together
stopping.watch()
pool = Threads(1)
try:
    with Together(NewFile("y.npy", overwrite=False)):
        process = Process(_serve)
        os.kill(process._process.pid, signal.SIGSTOP)
        pending = {pool.submit(lambda: time.sleep(1000))}
        print(flush=True)
        try:
            while True:
                pool.wait_for(pending)
                stopping.check()
        finally:
            pool.close()
except stopping.Stopped:
    stopping.die()
"""


@pytest.mark.needs("signals")
@pytest.mark.parametrize(
    "numbers", [signals(*names) for names in (["SIGINT"] * 2, ["SIGTERM", "SIGINT"], ["SIGHUP"] * 3)]
)
@pytest.mark.parametrize("pause", [0, 0.7])
def test_h63_a_second_signal_ends_whatever_waits(tmp_path, numbers, pause):
    """By the first of them, without the temporary file, and without its processes."""
    with subprocess.Popen(
        [sys.executable, "-c", STUCK], cwd=tmp_path, stdout=-1, stderr=-1, start_new_session=True
    ) as process:
        try:
            process.stdout.readline()
            assert len(names(tmp_path)) == 1
            process.send_signal(numbers[0])
            time.sleep(0.3)
            assert process.poll() is None  # it waits for its thread, which would take 1000 s
            for number in numbers[1:]:
                time.sleep(pause)
                process.send_signal(number)
            # On a busy machine the first signal may not have been looked at when the second comes: that is one.
            until(lambda: process.poll() is not None or process.send_signal(numbers[-1]))
            _, err = process.communicate()
            assert (process.returncode, err) == (-numbers[0], b"")
        finally:
            process.kill()
    assert names(tmp_path) == set()
    until(lambda: not members(process.pid))


@pytest.mark.needs("signals")
@pytest.mark.parametrize("engine", ["threads", "processes"])
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
    """What was undone in order is not undone again."""
    before = dict(stopping.at_once)
    run(Processes(2), int, int)
    with contextlib.suppress(TensorIOError):
        from revseq_cli.formats.storage.newfile import NewFile, NewFolder, Together

        for kind in (NewFile, NewFolder):
            with Together(kind(str(tmp_path / f"y{kind.__name__}"), overwrite=False)):
                assert len(stopping.at_once) == len(before) + 1
                if kind is NewFolder:
                    raise TensorIOError(os.strerror(errno.EIO))
    assert stopping.at_once == before


@pytest.mark.needs("signals")
def test_a_process_that_starts_leaves_the_mask_of_signals(tmp_path):
    """Python's tracker, which comes with the first process, lets signals in again; a worker would answer Ctrl-C."""
    script = """
import signal
from revseq_cli.ground import stopping, system
from revseq_cli.ground.processes import Process, start_tracker
from revseq_cli.passes.engines.crew import _serve
stopping.watch()
start_tracker()
with system.masked():
    from multiprocessing import resource_tracker
    resource_tracker.ensure_running()
    assert {signal.SIGINT, signal.SIGTERM, signal.SIGHUP} <= signal.pthread_sigmask(signal.SIG_BLOCK, [])
process = Process(_serve)
process.end()
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_job_goes_on_with_the_processes_that_could_be_started(monkeypatch):
    pool = Processes(3)
    first = pool.submit(os.getpid)
    monkeypatch.setattr(processes, "Process", mock.Mock(side_effect=EngineError("no more")))
    others = [pool.submit(os.getpid) for _ in range(3)]
    until(lambda: pool.wait_for({first, *others}) or all(each.done() for each in (first, *others)))
    assert len({each.result() for each in (first, *others)}) == 1
    pool.close()
