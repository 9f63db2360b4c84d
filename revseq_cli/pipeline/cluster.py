"""The engine dask: the workers of a scheduler, or of a cluster on this machine. No other module imports dask."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import functools
import itertools
import logging
import math
import os
import tempfile
import time
import warnings
from concurrent.futures import CancelledError, Future, wait
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, TypeVar

from revseq_cli.core import signals, system, thresholds
from revseq_cli.core.errors import MEMORY_ENDED, EngineError, RevseqError, UsageError
from revseq_cli.core.processes import QUIET_TRACKER, end_children, packed, start_tracker, starting, unpacked
from revseq_cli.pipeline.executors import Batch, Executor, batch_size

try:
    import dask
    import distributed
    from distributed.comm.addressing import parse_address, parse_host_port
    from distributed.comm.registry import get_backend
    from distributed.scheduler import KilledWorker
except ImportError:
    hint = system.pip("install distributed")
    raise EngineError("the engine dask needs the package dask", "dask.distributed", hint) from None

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from revseq_cli.pipeline.arrangement import Arrangement

_Result = TypeVar("_Result")
# In seconds:
_LOOK = 1.0  # between two counts of the scheduler's workers
_LONGEST_ALONE = 20.0  # without a worker; dask restarts one that died in less
_LONGEST_CALL = 10.0  # to connect
_LONGEST_START = 60.0  # for an answer, or for workers here to start
_LONGEST_FAREWELL = 5.0  # to close; afterwards processes are killed
_MOST_COMING = 8  # results of tasks that are here and not received, or on their way: they may be large
# The versions that must be the same on every worker, as attributes that a worker can look up even without revseq.
_PACKAGES = {"revseq": "revseq_cli:__version__", "NumPy": "numpy:__version__"}


def _versions() -> dict[str, str]:
    return {package: resolve_name(name) for package, name in _PACKAGES.items()}


def _do(task: bytes, versions: dict[str, str], address: str = "") -> Any:  # noqa: ANN401 - the task's own
    """Run one packed task on a worker, and return its result, packed, or an error.

    The versions are compared here too, since a worker may have joined after `Pass` asked all of them. An error is
    returned and not raised: dask would log it there, and fails on tracebacks that it cannot pickle.
    """
    address = address or distributed.get_worker().address
    try:
        if (here := _versions()) != versions:
            return _other_versions(address, here, versions)
        with system.keeping_freed_memory():
            return packed(unpacked(task)())
    except RevseqError as e:
        e.context = e.context or f"on the worker {address}"
        return e
    except Exception as e:  # noqa: BLE001 - the parent reports it
        return EngineError(f"the worker {address} failed: {type(e).__name__}: {str(e)[:200]}")


async def _try_task(task: bytes, versions: dict[str, str], dask_worker: distributed.Worker) -> RevseqError | None:
    """Run one task on a worker and return its error, or None; dask fills in the argument `dask_worker` by its name.

    A thread runs it, since dask's event loop would block the worker, and zarr in it.
    """
    done = await asyncio.to_thread(_do, task, versions, dask_worker.address)
    return done if isinstance(done, RevseqError) else None


def _is_loss(answer: object) -> bool:
    """Whether an answer says that the worker is gone: an OSError, but not a TensorIOError, which is about a file."""
    return isinstance(answer, OSError) and not isinstance(answer, RevseqError)


def _other_versions(address: str, versions: dict[str, str], wanted: dict[str, str]) -> EngineError:
    differing = [package for package in wanted if versions[package] != wanted[package]]
    found = f"the worker {address} has {', '.join(f'{each} {versions[each]}' for each in differing)}"
    as_here = ", ".join(f"{each} {wanted[each]}, as here" for each in differing)
    return EngineError(found, as_here, "install the same versions on every worker")


@functools.cache
def connected(scheduler: str, workers: int) -> Connection:
    """The connection to a scheduler, or without one to a cluster of so many workers on this machine.

    It takes long to make, and so stays for all passes. It is closed when the process ends, and leaves nothing behind.
    """
    logging.disable()  # errors that dask logs are reported here, once
    warnings.simplefilter("ignore")
    if scheduler:
        _require_address(scheduler)
    with contextlib.ExitStack() as stack:
        where = scheduler or stack.enter_context(_local(workers))
        client = stack.enter_context(_client(where))
        signals.ending.push(stack.pop_all())
    return Connection(client, scheduler)


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    """An event loop for all that dask does, in a thread of its own, where no signal interrupts it; it stops at the end.

    Signals are blocked in the thread and in processes that it starts: this process alone acts on them.
    """
    runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
    loop = runner.get_loop()

    def run() -> None:
        with runner:
            loop.run_forever()

    start_tracker()
    with starting(), system.masked():
        _thread.start_new_thread(run, ())
    signals.ending.callback(_loop.cache_clear)
    signals.ending.callback(loop.call_soon_threadsafe, loop.stop)
    return loop


def _begun(make: Callable[[], Awaitable[_Result]]) -> Future[_Result]:
    """What the function makes, which happens in the loop, and what becomes of that; EngineError without a thread."""

    async def made() -> _Result:
        return await make()

    return asyncio.run_coroutine_threadsafe(made(), _loop())


def _waited(future: Future[_Result], longest: float = math.inf, look: Callable[[], object] = signals.check) -> _Result:
    """The future's result; `look` is called meanwhile, Stopped is raised after a signal, and TimeoutError at last.

    That is one second after `longest`, since dask may wait as long itself.
    """
    deadline = time.monotonic() + longest + 1
    while not wait([future], signals.PATIENCE).done:
        signals.check()
        look()
        if time.monotonic() > deadline:
            raise TimeoutError(f"silent for {longest:.0f} s")
    return future.result()


def _closed(close: Callable[[], Awaitable[object]]) -> None:
    """Wait for a while until something is closed; else the end of the process has to do."""
    wait([_begun(close)], _LONGEST_FAREWELL)


@contextlib.contextmanager
def _client(where: str | distributed.LocalCluster) -> Iterator[distributed.Client]:
    """A connection to the scheduler; EngineError if none answers in time, or something else than dask does."""
    make = functools.partial(distributed.Client, where, timeout=_LONGEST_CALL, set_as_default=False, asynchronous=True)
    try:
        client = _waited(_begun(make), _LONGEST_CALL)
    except RevseqError:
        raise
    except Exception as e:  # noqa: BLE001 - of any kind, if dask tries to read what another program answers
        why = str(e)[:100] if isinstance(e, OSError) else "the server there uses another protocol"
        found = f"no dask scheduler answers: {why}"
        raise EngineError(found, "a scheduler of the same version of dask", "dask scheduler", str(where)) from None
    try:
        yield client
    finally:
        _closed(lambda: client.close(_LONGEST_FAREWELL))


def _require_address(where: str) -> None:
    """UsageError unless dask can parse the address."""
    try:
        scheme, place = parse_address(where, strict=True)
        get_backend(scheme)
        parse_host_port(place)
    except (ValueError, TypeError) as e:  # for an unknown protocol, or a port that is not a number
        found = f"is not an address of a dask scheduler: {str(e)[:100]}"
        hint = "add --scheduler tcp://host:8786"
        raise UsageError(found, "as tcp://host:8786", hint, where) from None


@contextlib.contextmanager
def _local(workers: int) -> Iterator[distributed.LocalCluster]:
    """A scheduler and worker processes of one thread each on this machine, which no other machine can reach."""
    # Python's tracker removes the semaphores of killed processes, and would warn about it.
    filters = os.environ.get("PYTHONWARNINGS"), QUIET_TRACKER
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, filters))
    folder = tempfile.mkdtemp(prefix="revseq-")
    signals.at_once[folder] = lambda: end_children(folder)
    make = functools.partial(
        distributed.LocalCluster,
        n_workers=workers, threads_per_worker=1, processes=True, host="127.0.0.1", asynchronous=True,
        dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL + 1,
        memory_limit=0,  # the plan sets the limit
    )  # fmt: skip
    made: Future[distributed.LocalCluster] | None = None
    try:
        # Not undone: after a signal, the loop that makes the cluster may still read it.
        dask.config.set({"temporary-directory": folder})
        made = _begun(make)
        try:
            local = _waited(made, _LONGEST_START)
        except (OSError, RuntimeError) as e:
            found = f"the workers of dask do not start: {str(e)[:100]}"
            raise EngineError(found, "processes that start", "add --engine processes") from None
        try:
            yield local
        finally:
            _closed(local.close)
    finally:
        signals.at_once.pop(folder, None)
        end_children(folder, lambda: made is None or made.done())


class Connection:
    """A connection to a scheduler, whose address is `scheduler`, or "" for a cluster on this machine."""

    def __init__(self, client: distributed.Client, scheduler: str) -> None:
        self.client, self.scheduler = client, scheduler
        self.run = os.urandom(4).hex()  # makes the names of blocks differ from those of other users
        self.numbers = itertools.count()
        self._threads = 0
        self._looked, self._seen = 0.0, time.monotonic()

    def threads(self) -> int:
        """The number of worker threads, counted anew after `_LOOK`; EngineError after `_LONGEST_ALONE` without any."""
        now = time.monotonic()
        if now - self._looked >= _LOOK:
            self._looked = now
            with self._worded():
                self._threads = sum(_waited(_begun(self.client.nthreads), _LONGEST_START).values())
            if self._threads:
                self._seen = now
            elif now - self._seen > _LONGEST_ALONE:
                hint = f"dask worker {self.scheduler}"
                raise EngineError("the scheduler has no worker", "one or more", hint, self.scheduler)
        return self._threads

    def answer(self, asked: Future[Any]) -> Any:  # noqa: ANN401 - whatever dask answers
        """The result of what was asked; Stopped after a signal, EngineError without scheduler or workers."""
        with self._worded():
            return _waited(asked, look=self.threads)

    @contextlib.contextmanager
    def _worded(self) -> Iterator[None]:
        """Raise EngineError for what dask raises; a RevseqError, or the end of memory, passes through."""
        try:
            yield
        except (RevseqError, *MEMORY_ENDED):
            raise
        except KilledWorker as e:
            found = f"{e.allowed_failures + 1} workers died with the same block"
            smaller = "try a smaller --memory"
            raise EngineError(found, "workers that live; out of memory?", smaller) from None
        except (Exception, CancelledError) as e:
            signals.check()
            # Errors of a block come as results, so that an OSError here is about the connection.
            if isinstance(e, (CancelledError, OSError)) or self.client.status != "running":
                hint = "dask scheduler, dask worker, and the same command again; an old output is as it was"
                raise EngineError("the scheduler disconnected", "a running scheduler", hint, self.scheduler) from None
            found = f"a worker failed: {type(e).__name__}: {str(e)[:200]}"
            raise EngineError(found, "the same revseq and files on every worker", where=self.scheduler) from e


class Cluster(Executor):
    """The workers of the scheduler, or of a cluster here; the connection stays for the next pass.

    Before its first task, each of them has to show that it can do it.

    Tasks and their results are packed here and there, so that dask passes them on as bytes, and pickles no array.
    `_travels` is the size of the first.
    """

    def __init__(self, arrangement: Arrangement) -> None:
        super().__init__(arrangement)
        self._connection, self._plan = connected(arrangement.scheduler, arrangement.workers), arrangement.plan
        self._versions, self._travels = _versions(), 0
        self._few = asyncio.Semaphore(_MOST_COMING)

    @property
    def dashboard(self) -> str:
        """The address of dask's dashboard, or "none"."""
        client = self._connection.client
        return str(client.dashboard_link) if "dashboard" in client.scheduler_info()["services"] else "none"

    def window(self) -> int:
        """How many tasks may be under way: two for every thread, so that its next one is there in time."""
        return min(max(2, 2 * self._connection.threads()), thresholds.MOST_UNDER_WAY)

    def size(self, given: int) -> int:
        """How many blocks make the next task, after so many; the first has one, which every worker tries."""
        if not given:
            return 1
        left = self._plan.block_count - given
        most = thresholds.MOST_ELEMENTS // max(1, self._plan.block_elements)
        return batch_size(left, self._connection.threads(), most, self._travels)

    def submit(self, batch: Batch) -> Future[Any]:
        """Give a batch to any worker; if it dies, dask gives it to another, which writes the same bytes."""
        message = packed(batch)
        if not self._travels:
            self._check_workers(message)
            self._travels = len(message)
        key = f"revseq-block-{next(self._connection.numbers):06}-{self._connection.run}"
        done = self._connection.client.submit(_do, message, self._versions, key=key, pure=False)
        return _begun(lambda: self._come(done))

    async def _come(self, done: distributed.Future) -> Any:  # noqa: ANN401 - whatever the task gives
        """The result of a task, or its error, which stays on the worker until it is one of few that come at once."""
        await done.exception()
        await self._few.acquire()
        return await self._connection.client.gather(done)

    def result(self, future: Future[Any]) -> Any:  # noqa: ANN401 - whatever the task gives
        """The result of a task, unpacked; its error is raised."""
        done = self._connection.answer(future)
        _loop().call_soon_threadsafe(self._few.release)
        if isinstance(done, RevseqError):
            raise done
        return unpacked(done)

    def _check_workers(self, task: bytes) -> None:
        """EngineError for a worker with other versions, or one that cannot do the first task, as without the files."""
        while not self._connection.threads():
            signals.check()
            time.sleep(signals.PATIENCE)
        of_workers: dict[str, dict[str, str]] = {}
        for package, name in _PACKAGES.items():
            for address, version in self._ask(resolve_name, name).items():
                found = "missing" if isinstance(version, Exception) else version
                of_workers.setdefault(address, dict(self._versions))[package] = found
        for address, versions in of_workers.items():
            if versions != self._versions:
                raise _other_versions(address, versions, self._versions)
        for error in self._ask(_try_task, task, self._versions).values():
            if error:
                raise error

    def _ask(self, function: Callable[..., Any], *arguments: object) -> dict[str, Any]:
        """The result of a function on each worker, or its error; workers that are gone are left out."""
        question = functools.partial(self._connection.client.run, function, *arguments, on_error="return")
        answers = self._connection.answer(_begun(question))
        return {address: answer for address, answer in answers.items() if not _is_loss(answer)}
