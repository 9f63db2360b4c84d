"""The dask engine with a client that does everything here: what it asks the workers, and what it makes of answers."""

import asyncio
import functools
import signal
import time
from pkgutil import resolve_name
from types import SimpleNamespace

import numpy
import pytest

pytest.importorskip("distributed", reason="distributed, the extra dask, is not installed")

from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker
from processes import until

import revseq_cli
from revseq_cli.core import signals
from revseq_cli.core.errors import EngineError, TensorIOError
from revseq_cli.core.processes import unpacked
from revseq_cli.pipeline import cluster
from revseq_cli.pipeline.arrangement import Arrangement
from revseq_cli.pipeline.engines import DASK
from revseq_cli.pipeline.plan import Plan

ONE, TWO = "tcp://one:1", "tcp://two:2"


class Here:
    """A client whose workers are this process; of each, by its address, what it has or what is wrong with it."""

    status, dashboard_link = "running", "http://here:8787/status"

    def __init__(self, **workers):
        self.workers, self.keys, self.asked, self.services = workers, [], [], {}
        self.sent = []  # how many blocks each task has
        self.lost = None  # what is raised instead of a result
        self.silent = False

    async def nthreads(self):
        if self.silent:
            await asyncio.sleep(1000)
        self.asked.append("nthreads")
        return dict.fromkeys(self.workers, 1)

    def scheduler_info(self):
        return {"services": self.services}

    async def run(self, function, *args, on_error):
        assert on_error == "return"
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
        self.sent.append(len(getattr(unpacked(task), "tasks", "?")))
        return Block((function, task, versions))

    async def gather(self, block):
        if self.lost:
            raise self.lost
        function, task, versions = block.told
        return function(task, versions, ONE)


class Block:
    """A future of dask's, which ends once it may."""

    def __init__(self, told):
        self.told, self.may_end = told, asyncio.Event()
        self.may_end.set()

    async def exception(self):
        await self.may_end.wait()


@pytest.fixture
def connected(monkeypatch):
    """Connect to a client, as a pass does; the client, and the pass's connection."""

    def connect(workers=None):
        client = Here(**({ONE: {}, TWO: {}} if workers is None else workers))
        connection = cluster.Connection(client, "tcp://here:1")
        monkeypatch.setattr(cluster, "connected", lambda *_: connection)
        return client, connection

    yield connect
    loop = cluster._loop()
    signals.ending.close()
    until(loop.is_closed)


def arrangement(blocks, elements):
    plan = Plan((blocks * elements,), (elements,))
    return Arrangement(plan, DASK, 1, 1 << 20, scheduler="tcp://here:1")


def executor():
    """That of a pass."""
    return cluster.Cluster(arrangement(1, 1))


def results(*tasks):
    """What a pass gets of tasks, in the order of the tasks."""
    these = executor()
    return [these.result(future) for future in [these.submit(task) for task in tasks]]


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
    these = executor()
    assert these.result(these.submit(int)) == 0
    monkeypatch.setattr(revseq_cli, "__version__", "0.0.9")
    with pytest.raises(EngineError, match=f"the worker {ONE} has revseq 0.0.9"):
        these.result(these.submit(int))


KILLED = KilledWorker("a block", "a worker", 3)


@pytest.mark.parametrize(
    ("lost", "status", "found", "hint"),
    [
        (KILLED, "running", "4 workers died with the same block", "try a smaller --memory"),
        (OSError("broken"), "running", "the scheduler disconnected", "an old output is as it was"),
        (
            FutureCancelledError("a block", "gone"),
            "running",
            "the scheduler disconnected",
            "an old output is as it was",
        ),
        (RuntimeError("odd"), "closed", "the scheduler disconnected", "an old output is as it was"),
        (RuntimeError("odd"), "running", "a worker failed: RuntimeError: odd", ""),
    ],
)
def test_what_becomes_of_a_block_that_is_lost(connected, lost, status, found, hint):
    client, _ = connected()
    client.lost, client.status = lost, status
    with pytest.raises(EngineError) as caught:
        results(int)
    assert caught.value.found == found
    assert caught.value.hint.endswith(hint)


def test_out_of_memory_here_is_not_the_workers_fault(connected):
    client, _ = connected()
    client.lost = MemoryError()
    with pytest.raises(MemoryError):
        results(int)


@pytest.mark.parametrize(("threads", "window"), [(0, 2), (1, 2), (3, 6), (10**6, 4096)])
def test_blocks_under_way(connected, threads, window):
    _, connection = connected({})
    connection.threads = lambda: threads
    assert executor().window() == window


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
    assert caught.value.hint == "dask worker tcp://here:1"


def test_a_scheduler_that_says_nothing(connected, monkeypatch):
    monkeypatch.setattr(cluster, "_LONGEST_START", -0.8)
    client, connection = connected()
    client.silent = True
    with pytest.raises(EngineError, match="the scheduler disconnected"):
        connection.threads()


def test_signals_are_looked_at_while_dask_answers(connected, monkeypatch):
    client, connection = connected()
    client.silent = True
    monkeypatch.setattr(signals, "_received", [signal.SIGTERM])
    with pytest.raises(signals.Stopped):
        connection.threads()
    with pytest.raises(signals.Stopped):  # nor is a worker waited for
        executor().submit(int)


def test_where_the_workers_can_be_watched(connected):
    client, _ = connected()
    assert executor().dashboard == "none"
    client.services = {"dashboard": 8787}
    assert executor().dashboard == client.dashboard_link


def test_a_block_that_is_given_up_is_not_waited_for(connected):
    client, _ = connected()
    real, blocks = client.submit, []

    def submit(*args, **options):
        blocks.append(real(*args, **options))
        blocks[-1].may_end.clear()
        return blocks[-1]

    client.submit = submit
    future = executor().submit(int)
    assert not future.done()
    assert future.cancel()
    blocks[0].may_end.set()  # which comes too late, and disturbs nobody
    assert future.cancelled()


def test_few_results_come_before_they_are_taken(connected):
    """They may be large; of a task that is given up, none is waited for."""
    client, _ = connected()
    came, real = [], client.gather

    async def gather(block):
        came.append(await real(block))
        return came[-1]

    client.gather = gather
    for _ in range(2):
        these = executor()
        futures = [these.submit(int) for _ in range(20)]
        until(lambda: len(came) == 8)
        assert [these.result(future) for future in futures[:6]] == [0] * 6
        until(lambda: len(came) == 14)
        time.sleep(0.05)
        assert len(came) == 14
        for future in futures:
            future.cancel()
        came.clear()


# many blocks are few tasks


def square(number):
    return number * number


@pytest.mark.parametrize(
    ("blocks", "elements", "fewest", "most"),
    [
        (1, 4096, 1, 1),
        (2, 4096, 2, 2),
        (1024, 1 << 20, 32, 50),  # 4 GiB of FLOAT32: 32 blocks of 4 MiB make a task
        (100, 1 << 25, 100, 100),  # nor are blocks joined that are large themselves
        (20_000, 4096, 79, 120),
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

    for result in cluster.Cluster(arrangement(blocks, elements)).results(tasks()):
        total, done = total + result, done + 1
        held = max(held, len(taken) - done)
    assert (done, total) == (blocks, sum(map(square, range(blocks))))
    assert fewest <= len(client.keys) <= most
    assert client.sent[-1] <= 4  # so that all workers end together
    assert held <= 4 * 256  # two tasks for each of two threads


def test_blocks_that_carry_their_values_travel_one_by_one(connected):
    """As those of a tensor in memory: a worker, and what passes it on, holds no more than one at a time."""
    client, _ = connected()
    workers = cluster.Cluster(arrangement(40, 4096))
    sizes = workers.results(functools.partial(len, bytes(1 << 20)) for _ in range(40))
    assert list(sizes) == [1 << 20] * 40
    assert len(client.keys) == 40


def test_results_that_are_large_travel_one_by_one(connected):
    """As chunks that a worker has encoded: it returns before it holds two, and what remains is handed out again."""
    client, _ = connected()
    returned = []
    real = client.gather

    async def gather(block):
        returned.append(await real(block))
        return returned[-1]

    client.gather = gather
    workers = cluster.Cluster(arrangement(300, 4096))
    found = [len(each) for each in workers.results(functools.partial(bytes, 1_000_000 + i) for i in range(300))]
    assert sorted(found) == list(range(1_000_000, 1_000_300))
    assert max(len(unpacked(each)) for each in returned) == 1
    assert len(client.keys) == 300
    assert sum(client.sent) < 300 + 4 * 256  # the first ones were sent before anything was known


def test_an_error_inside_a_batch_ends_the_pass(connected):
    connected({ONE: {}})
    tasks = [functools.partial(square, i) for i in range(50)]
    tasks[30] = failing(TensorIOError("no such file", where="x.npy"))
    with pytest.raises(TensorIOError) as caught:
        list(cluster.Cluster(arrangement(50, 4096)).results(tasks))
    assert (caught.value.found, caught.value.context) == ("no such file", f"on the worker {ONE}")
