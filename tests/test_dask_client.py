"""The dask engine with a client that does everything here: what it asks the workers, and what it makes of answers."""

import asyncio
import functools
import pickle
import signal
import threading
from concurrent.futures import Future
from pkgutil import resolve_name
from types import SimpleNamespace

import numpy
import pytest

pytest.importorskip("distributed", reason="distributed, the extra dask, is not installed")

from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker

import revseq_cli
from revseq_cli.ground import stopping
from revseq_cli.ground.errors import EngineError, TensorIOError
from revseq_cli.passes.arrangement import Arrangement
from revseq_cli.passes.engines import cluster
from revseq_cli.passes.engines.table import DASK
from revseq_cli.passes.plan import Plan
from revseq_cli.report.words import spelled

ONE, TWO = "tcp://one:1", "tcp://two:2"


class Here:
    """A client whose workers are this process; of each, by its address, what it has or what is wrong with it."""

    status, dashboard_link = "running", "http://here:8787/status"

    def __init__(self, **workers):
        self.workers, self.keys, self.asked, self.services = workers, [], [], {}
        self.sent = []  # how many blocks each task has
        self.lost = None  # what is raised instead of a result
        self.loop = SimpleNamespace(asyncio_loop=asyncio.new_event_loop())

    def nthreads(self):
        self.asked.append("nthreads")
        return dict.fromkeys(self.workers, 1)

    def scheduler_info(self):
        return {"services": self.services}

    async def run(self, function, *args, on_error, asynchronous):
        assert (on_error, asynchronous) == ("return", True)
        return {address: await self._one(address, function, args) for address in self.workers}

    async def _one(self, address, function, args):
        self.asked.append((address, getattr(function, "__name__", "")))
        has = self.workers[address]
        if isinstance(has, Exception):
            return has
        if function is resolve_name:
            return has.get(args[0]) or resolve_name(args[0])
        return await function(*args, dask_worker=SimpleNamespace(address=address))

    def submit(self, function, task, versions, *, key, pure):
        assert not pure
        self.keys.append(key)
        self.sent.append(len(getattr(pickle.loads(task), "tasks", "?")))
        future = Future()
        future.set_result((function, task, versions))
        return future

    async def gather(self, future, *, asynchronous):
        assert asynchronous
        if self.lost:
            raise self.lost
        function, task, versions = future.result()
        return function(task, versions, ONE)


@pytest.fixture
def connected(monkeypatch):
    """Connect to a client, as a pass does; the client, and the pass's connection."""
    started = []

    def connect(workers=None):
        client = Here(**({ONE: {}, TWO: {}} if workers is None else workers))
        loop = client.loop.asyncio_loop
        started.append((loop, threading.Thread(target=loop.run_forever)))
        started[-1][1].start()
        connection = cluster.Cluster(client, "tcp://here:1")
        monkeypatch.setattr(cluster, "connected", lambda *_: connection)
        return client, connection

    yield connect
    for loop, thread in started:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def results(*tasks):
    """What tasks give by way of a pass, in the order of the tasks."""
    these = cluster.Pass("tcp://here:1", 1)
    return [future.result() for future in [these.submit(task) for task in tasks]]


def failing(error):
    return functools.partial(_raise, error)


def _raise(error):
    raise error


CALLS = []


def call(result):
    """Note the call; tasks pickle by their names."""
    CALLS.append(result)
    return result


def test_the_first_block_is_rehearsed_on_every_worker(connected):
    client, _ = connected()
    CALLS.clear()
    assert results(functools.partial(call, "a"), functools.partial(call, "b")) == ["a", "b"]
    assert CALLS == ["a", "a", "a", "b"]  # twice for the rehearsal
    assert [each for each in client.asked if each[1] == "_try_task"] == [(ONE, "_try_task"), (TWO, "_try_task")]
    first, second = client.keys
    assert first.startswith("revseq-block-000000-")
    assert second.startswith("revseq-block-000001-")
    assert first.rpartition("-")[2] == second.rpartition("-")[2] != ""


@pytest.mark.parametrize("gone", [OSError("gone"), TimeoutError("gone")])
def test_workers_that_go_meanwhile_are_left_out(connected, gone):
    connected({ONE: {}, TWO: gone})
    assert results(int) == [0]


@pytest.mark.parametrize(
    ("has", "found", "wanted"),
    [
        ({"revseq_cli:__version__": "0.0.9"}, "revseq 0.0.9", f"revseq {revseq_cli.__version__}, as here"),
        ({"revseq_cli:__version__": ImportError("no")}, "revseq missing", f"revseq {revseq_cli.__version__}, as here"),
        ({"numpy:__version__": "1.0"}, "NumPy 1.0", f"NumPy {numpy.__version__}, as here"),
    ],
)
def test_a_worker_with_other_versions(connected, has, found, wanted):
    client, _ = connected({ONE: {}, TWO: has})
    with pytest.raises(EngineError) as caught:
        results(int)
    assert (caught.value.found, caught.value.wanted) == (f"the worker {TWO} has {found}", wanted)
    assert client.keys == []  # before any block


@pytest.mark.parametrize(
    ("error", "found", "context"),
    [
        (TensorIOError("no such file", where="x.npy"), "no such file", f"on the worker {ONE}"),
        (TensorIOError("odd", context="line 1"), "odd", "line 1"),
        (ValueError("odd"), f"the worker {ONE} failed: ValueError: odd", ""),
    ],
)
@pytest.mark.parametrize("rehearsed", [True, False])
def test_a_block_that_fails_says_where(connected, error, found, context, rehearsed):
    client, _ = connected({ONE: {}})
    with pytest.raises((TensorIOError, EngineError)) as caught:
        results(*([] if rehearsed else [int]), failing(error))
    assert (caught.value.found, caught.value.context) == (found, context)
    assert len(client.keys) == (0 if rehearsed else 2)


def test_a_worker_that_joined_late_is_asked_with_each_block(connected, monkeypatch):
    connected({ONE: {}})
    these = cluster.Pass("tcp://here:1", 1)
    assert these.submit(int).result() == 0
    monkeypatch.setattr(revseq_cli, "__version__", "0.0.9")
    with pytest.raises(EngineError, match=f"the worker {ONE} has revseq 0.0.9"):
        these.submit(int).result()


KILLED = KilledWorker("a block", "a worker", 3)


@pytest.mark.parametrize(
    ("lost", "status", "found", "hint"),
    [
        (KILLED, "running", "4 workers died with the same block", "try a smaller --memory"),
        (OSError("broken"), "running", "the scheduler went away", "an old output is as it was"),
        (FutureCancelledError("a block", "gone"), "running", "the scheduler went away", "an old output is as it was"),
        (RuntimeError("odd"), "closed", "the scheduler went away", "an old output is as it was"),
        (RuntimeError("odd"), "running", "a worker failed: RuntimeError: odd", ""),
    ],
)
def test_what_becomes_of_a_block_that_is_lost(connected, lost, status, found, hint):
    client, _ = connected()
    client.lost, client.status = lost, status
    with pytest.raises(EngineError) as caught:
        results(int)
    assert caught.value.found == found
    assert spelled(caught.value.hint).endswith(hint)


def test_out_of_memory_here_is_not_the_workers_fault(connected):
    client, _ = connected()
    client.lost = MemoryError()
    with pytest.raises(MemoryError):
        results(int)


@pytest.mark.parametrize(("threads", "window"), [(0, 2), (1, 2), (3, 6), (10**6, 4096)])
def test_blocks_under_way(connected, threads, window):
    client, _ = connected({})
    client.nthreads = lambda: {ONE: threads}
    assert cluster.Pass("tcp://here:1", 1).window() == window


def test_workers_are_counted_once_a_second(connected, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(cluster, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=None))
    client, connection = connected()
    for seconds, count, looked in ((0, 2, 1), (0.9, 2, 1), (0.2, 2, 2), (30, 2, 3)):
        now[0] += seconds
        assert (connection.threads(), len(client.asked)) == (count, looked)
    client.workers.clear()
    for seconds in (2, 10, 7):  # one that died may be started anew
        now[0] += seconds
        assert connection.threads() == 0
    now[0] += 2
    with pytest.raises(EngineError, match="the scheduler has no worker") as caught:
        connection.threads()
    assert spelled(caught.value.hint) == "dask worker tcp://here:1"


def test_a_scheduler_that_says_nothing(connected, monkeypatch):
    monkeypatch.setattr(cluster, "_LONGEST_START", -0.8)
    client, connection = connected()
    silence = threading.Event()
    client.nthreads = silence.wait
    with pytest.raises(EngineError, match="the scheduler went away"):
        connection.threads()
    silence.set()


def test_signals_are_looked_at_while_dask_answers(connected, monkeypatch):
    client, connection = connected()
    silence = threading.Event()
    client.nthreads = silence.wait
    monkeypatch.setattr(stopping, "_received", [signal.SIGTERM])
    with pytest.raises(stopping.Stopped):
        connection.threads()
    silence.set()
    with pytest.raises(stopping.Stopped):  # nor is a worker waited for
        cluster.Pass("tcp://here:1", 1).submit(int)


def test_where_the_workers_can_be_watched(connected):
    client, connection = connected()
    assert connection.dashboard == "none"
    client.services = {"dashboard": 8787}
    assert connection.dashboard == client.dashboard_link


def test_a_block_that_is_given_up_is_not_waited_for(connected):
    client, _ = connected()
    real, ends = client.submit, []

    def submit(*args, **options):
        future = Future()
        real(*args, **options)
        ends.append(future)
        return future

    client.submit = submit
    future = cluster.Pass("tcp://here:1", 1).submit(int)
    assert not future.done()
    assert future.cancel()
    ends[0].set_result(None)  # which comes too late, and disturbs nobody
    assert future.cancelled()


def test_a_task_reaches_a_worker_as_bytes(connected):
    """Else the scheduler would unpickle every block, and pickle it again."""
    client, _ = connected()
    sent = []
    client.submit = lambda *args, **options: (sent.append(args), Here.submit(client, *args, **options))[1]
    assert results(int) == [0]
    [(_, task, _)] = sent
    assert pickle.loads(task) is int


# many blocks are few tasks


def square(number):
    return number * number


def arrangement(blocks, elements):
    plan = Plan((blocks * elements,), (elements,))
    return Arrangement(plan, DASK, 1, 1 << 20, scheduler="tcp://here:1")


@pytest.mark.parametrize(
    ("blocks", "elements", "fewest", "most"),
    [
        (1, 4096, 1, 1),
        (2, 4096, 2, 2),
        (1024, 1 << 20, 32, 50),  # 4 GiB of FLOAT32: 32 blocks of 4 MiB make a task
        (100, 1 << 25, 100, 100),  # nor are blocks joined that are large themselves
        (100_000, 4096, 391, 450),
    ],
)
def test_many_blocks_are_few_tasks(connected, blocks, elements, fewest, most):
    """They are planned and handed out while others are worked on: the client never remembers more than it says."""
    client, _ = connected()
    taken = []
    done = total = held = 0

    def tasks():
        for i in range(blocks):
            taken.append(i)
            yield functools.partial(square, i)

    with cluster.crew(arrangement(blocks, elements)) as workers:
        for result in workers.results(tasks()):
            total, done = total + result, done + 1
            held = max(held, len(taken) - done)
    assert (done, total) == (blocks, sum(map(square, range(blocks))))
    assert fewest <= len(client.keys) <= most
    assert client.sent[-1] <= 4  # so that all workers end together
    assert held <= 4 * 256  # two tasks for each of two threads


def test_blocks_that_carry_their_values_travel_one_by_one(connected):
    """As those of a tensor in memory: a worker, and what passes it on, holds no more than one at a time."""
    client, _ = connected()
    with cluster.crew(arrangement(40, 4096)) as workers:
        sizes = workers.results(functools.partial(len, bytes(1 << 20)) for _ in range(40))
        assert list(sizes) == [1 << 20] * 40
    assert len(client.keys) == 40


def test_results_that_are_large_travel_one_by_one(connected):
    """As chunks that a worker has encoded: it returns before it holds two, and what remains is handed out again."""
    client, _ = connected()
    returned = []
    real = client.gather

    async def gather(future, *, asynchronous):
        returned.append(await real(future, asynchronous=asynchronous))
        return returned[-1]

    client.gather = gather
    with cluster.crew(arrangement(600, 4096)) as workers:
        found = [len(each) for each in workers.results(functools.partial(bytes, 1_000_000 + i) for i in range(600))]
    assert sorted(found) == list(range(1_000_000, 1_000_600))
    assert max(map(len, returned)) == 1
    assert len(client.keys) == 600
    assert sum(client.sent) < 600 + 4 * 256  # the first ones were sent before anything was known


def test_an_error_inside_a_batch_ends_the_pass(connected):
    connected({ONE: {}})
    tasks = [functools.partial(square, i) for i in range(50)]
    tasks[30] = failing(TensorIOError("no such file", where="x.npy"))
    with cluster.crew(arrangement(50, 4096)) as workers, pytest.raises(TensorIOError) as caught:
        list(workers.results(tasks))
    assert (caught.value.found, caught.value.context) == ("no such file", f"on the worker {ONE}")
