"""The engine dask: the workers of a scheduler, or of a cluster on this machine. No other module imports dask."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import functools
import itertools
import logging
import os
import pickle
import secrets
import tempfile
import time
import warnings
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, InvalidStateError, wait
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, TypeVar, cast

from revseq_cli.ground import allocator, stopping, system
from revseq_cli.ground.errors import EngineError, RevseqError, UsageError, Words
from revseq_cli.ground.processes import end_children, start_tracker, starting
from revseq_cli.passes.engines.crew import Crew, batch_size
from revseq_cli.passes.engines.threads import settle

try:
    with allocator.uncollected():
        import dask
        import distributed
        from distributed.comm.addressing import parse_address, parse_host_port
        from distributed.comm.registry import get_backend
        from distributed.scheduler import KilledWorker
except ImportError:
    raise EngineError(
        "the engine dask needs the package dask", "dask.distributed", "pip install 'revseq-cli[dask]'"
    ) from None

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from revseq_cli.passes.arrangement import Arrangement
    from revseq_cli.passes.plan import Plan

_Result = TypeVar("_Result")
# In seconds:
_LOOK = 1.0  # between two counts of the scheduler's workers
_LONGEST_ALONE = 20.0  # without a worker; dask restarts one that died in less
_LONGEST_CALL = 10.0  # to connect
_LONGEST_START = 60.0  # for an answer, or for workers here to start
_LONGEST_FAREWELL = 5.0  # to close; afterwards processes are killed
_MOST_UNDER_WAY = 4096  # tasks that the scheduler knows at once, however many workers it has
# The versions that must be the same on every worker, as attributes that a worker can look up even without revseq.
_PACKAGES = {"revseq": "revseq_cli:__version__", "NumPy": "numpy:__version__"}


@contextlib.contextmanager
def crew(arrangement: Arrangement) -> Iterator[Crew]:
    """The workers of the scheduler, or of a cluster here, for one pass; the connection stays for the next one."""
    workers = Pass(arrangement.scheduler, arrangement.workers)
    yield Crew(workers.submit, workers.window, workers.attend, functools.partial(workers.size, arrangement.plan))


def watched(arrangement: Arrangement) -> str:
    """The address of dask's dashboard, or "none"."""
    return connected(arrangement.scheduler, arrangement.workers).dashboard


def _versions() -> dict[str, str]:
    return {package: resolve_name(name) for package, name in _PACKAGES.items()}


def _do(task: bytes, versions: dict[str, str], address: str = "") -> Any:  # noqa: ANN401 - the task's own
    """Run one pickled task on a worker, and return its result, or an error.

    The versions are compared here too, since a worker may have joined after `Pass` asked all of them. An error is
    returned and not raised: dask would log it there, and fails on tracebacks that it cannot pickle.
    """
    address = address or distributed.get_worker().address
    try:
        if (here := _versions()) != versions:
            return _other_versions(address, here, versions)
        with allocator.keeping_freed():
            return pickle.loads(task)()  # noqa: S301 - dask unpickles what it receives, too
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
    return EngineError(
        f"the worker {address} has {', '.join(f'{each} {versions[each]}' for each in differing)}",
        ", ".join(f"{each} {wanted[each]}, as here" for each in differing), "install the same versions on every worker",
    )  # fmt: skip


@functools.cache
def connected(scheduler: str, workers: int) -> Cluster:
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
        stopping.ending.push(stack.pop_all())
    return Cluster(client, scheduler)


def _in_thread(function: Callable[[], _Result]) -> Future[_Result]:
    """Call the function in a new thread, since no signal interrupts dask while it waits; EngineError without a thread.

    Signals are blocked in the thread and in processes that it starts: this process alone acts on them.
    """
    future: Future[_Result] = Future()
    start_tracker()
    with starting(), system.masked():
        _thread.start_new_thread(settle, (future, function))
    return future


@contextlib.contextmanager
def _client(where: str | distributed.LocalCluster) -> Iterator[distributed.Client]:
    """A connection to the scheduler; EngineError if none answers in time, or something else than dask does."""
    made = _in_thread(lambda: distributed.Client(where, timeout=_LONGEST_CALL, set_as_default=False))
    try:
        client = _wait_for(made, _within(_LONGEST_CALL))
    except RevseqError:
        raise
    except Exception as e:  # noqa: BLE001 - of any kind, if dask tries to read what another program answers
        why = str(e)[:100] if isinstance(e, OSError) else "what is there speaks another protocol"
        raise EngineError(
            f"no dask scheduler answers: {why}", "one that runs, with the same dask", "dask scheduler", str(where)
        ) from None
    try:
        yield client
    finally:
        _close(lambda: client.close(_LONGEST_FAREWELL))


def _close(function: Callable[[], object]) -> None:
    """Call the function in a new thread and wait for a while; without a thread, the end of the process has to do."""
    with contextlib.suppress(EngineError):
        wait([_in_thread(function)], _LONGEST_FAREWELL)


def _require_address(where: str) -> None:
    """UsageError unless dask can parse the address."""
    try:
        scheme, place = parse_address(where, strict=True)
        get_backend(scheme)
        parse_host_port(place)
    except (ValueError, TypeError) as e:  # for an unknown protocol, or a port that is not a number
        found = f"is no address of a dask scheduler: {str(e)[:100]}"
        hint = Words.of("add {}", scheduler="tcp://host:8786")
        raise UsageError(found, "as tcp://host:8786", hint, where) from None


def _within(seconds: float) -> Callable[[], None]:
    """A function that raises TimeoutError after so many seconds, and one more, since dask may wait as long itself."""
    deadline = time.monotonic() + seconds + 1

    def look() -> None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"silent for {seconds:.0f} s")

    return look


def _wait_for(future: Future[_Result], look: Callable[[], object]) -> _Result:
    """The future's result; every `stopping.PATIENCE`, Stopped is raised if a signal came, and `look` is called."""
    while not wait([future], stopping.PATIENCE).done:
        stopping.check()
        look()
    return future.result()


def _call(function: Callable[[], _Result]) -> _Result:
    """Call the function in a new thread, and return its result; Stopped after a signal, TimeoutError after a while."""
    return _wait_for(_in_thread(function), _within(_LONGEST_START))


@contextlib.contextmanager
def _local(workers: int) -> Iterator[distributed.LocalCluster]:
    """A scheduler and worker processes of one thread each on this machine, which no other machine can reach."""
    # Python's tracker removes the semaphores of killed processes, and would warn about it.
    filters = os.environ.get("PYTHONWARNINGS"), "ignore::UserWarning:multiprocessing.resource_tracker"
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, filters))
    folder = tempfile.mkdtemp(prefix="revseq-")
    stopping.at_once[folder] = lambda: end_children(folder)
    made: Future[distributed.LocalCluster] | None = None
    try:
        # Not undone: after a signal, the thread that makes the cluster may still read it.
        dask.config.set({"temporary-directory": folder})
        made = _in_thread(
            lambda: distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=True, host="127.0.0.1",
                dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL + 1,
                memory_limit=0,  # the plan sets the limit
            )
        )  # fmt: skip
        try:
            local = _wait_for(made, _within(_LONGEST_START))
        except (OSError, RuntimeError) as e:
            found = f"the workers of dask do not start: {str(e)[:100]}"
            raise EngineError(found, "processes that start", Words.of("add {}", engine="processes")) from None
        try:
            yield local
        finally:
            _close(local.close)
    finally:
        stopping.at_once.pop(folder, None)
        end_children(folder, lambda: made is None or made.done())


class Cluster:
    """A connection to a scheduler, whose address is `scheduler`, or "" for a cluster on this machine."""

    def __init__(self, client: distributed.Client, scheduler: str) -> None:
        self.client, self.scheduler = client, scheduler
        self.run = secrets.token_hex(4)  # makes the names of blocks differ from those of other users
        self.numbers = itertools.count()
        self._threads = 0
        self._looked, self._seen = 0.0, time.monotonic()

    @property
    def dashboard(self) -> str:
        """The address of dask's dashboard, or "none"."""
        services = _call(self.client.scheduler_info)["services"]
        return str(self.client.dashboard_link) if "dashboard" in services else "none"

    def threads(self) -> int:
        """The number of worker threads, counted anew after `_LOOK`; EngineError after `_LONGEST_ALONE` without any."""
        now = time.monotonic()
        if now - self._looked >= _LOOK:
            self._looked = now
            with self._worded():
                self._threads = sum(_call(self.client.nthreads).values())
            if self._threads:
                self._seen = now
            elif now - self._seen > _LONGEST_ALONE:
                raise EngineError(
                    "the scheduler has no worker", "one or more", f"dask worker {self.scheduler}", self.scheduler
                )
        return self._threads

    def ask(self, question: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Begin a coroutine of dask's."""
        return asyncio.run_coroutine_threadsafe(question, self.client.loop.asyncio_loop)

    def answer(self, asked: Future[Any]) -> Any:  # noqa: ANN401 - whatever dask answers
        """The result of what was asked; Stopped after a signal, EngineError without scheduler or workers."""
        with self._worded():
            return _wait_for(asked, self.threads)

    @contextlib.contextmanager
    def _worded(self) -> Iterator[None]:
        """Raise EngineError for what dask raises; a RevseqError or MemoryError passes through."""
        try:
            yield
        except (RevseqError, MemoryError):
            raise
        except KilledWorker as e:
            raise EngineError(
                f"{e.allowed_failures + 1} workers died with the same block", "workers that live; out of memory?",
                Words.of("try a smaller {}", memory=""),
            ) from None  # fmt: skip
        except (Exception, CancelledError) as e:
            stopping.check()
            # Errors of a block come as results, so that an OSError here is about the connection.
            if isinstance(e, (CancelledError, OSError)) or self.client.status != "running":
                hint = "dask scheduler, dask worker, and the same command again; an old output is as it was"
                raise EngineError("the scheduler went away", "one that lives", hint, self.scheduler) from None
            raise EngineError(
                f"a worker failed: {type(e).__name__}: {str(e)[:200]}", "the same revseq and files on every worker",
                where=self.scheduler,
            ) from e  # fmt: skip


class Pass:
    """The workers of one pass; before its first task, each of them has to show that it can do it.

    Tasks are pickled here, so that the scheduler passes them on as bytes, and neither unpickles nor pickles them.
    `_travels` is the size of the first.
    """

    def __init__(self, scheduler: str, workers: int) -> None:
        self._cluster, self._versions, self._travels = connected(scheduler, workers), _versions(), 0

    def window(self) -> int:
        """How many tasks may be under way: two for every thread, so that its next one is there in time."""
        return min(max(2, 2 * self._cluster.threads()), _MOST_UNDER_WAY)

    def size(self, plan: Plan, given: int) -> int:
        """How many blocks make the next task, after so many; the first has one, which every worker tries."""
        if not given:
            return 1
        return batch_size(plan.block_count - given, self._cluster.threads(), plan.block_elements, self._travels)

    def submit(self, task: Callable[[], Any]) -> Future[Any]:
        """Give a task to any worker; if it dies, dask gives the task to another, which writes the same bytes."""
        pickled = pickle.dumps(task)
        if not self._travels:
            self._check_workers(pickled)
            self._travels = len(pickled)
        key = f"revseq-block-{next(self._cluster.numbers):06}-{self._cluster.run}"
        future = self._cluster.client.submit(_do, pickled, self._versions, key=key, pure=False)
        return _RemoteResult(self._cluster, future)

    def attend(self, pending: set[Future[_Result]]) -> None:
        """Wait a moment for one of the pending tasks, and let results of some that ended come at once."""
        ended = wait(pending, stopping.PATIENCE, FIRST_COMPLETED).done
        for future in itertools.islice(ended, self._cluster.threads()):  # no more, since they may be large
            cast("_RemoteResult", future).fetch()

    def _check_workers(self, task: bytes) -> None:
        """EngineError for a worker with other versions, or one that cannot do the first task, as without the files."""
        while not self._cluster.threads():
            stopping.check()
            time.sleep(stopping.PATIENCE)
        of_workers: dict[str, dict[str, str]] = {}
        for package, name in _PACKAGES.items():
            for address, version in self._ask(resolve_name, name).items():
                of_workers.setdefault(address, dict(self._versions))[package] = (
                    "missing" if isinstance(version, Exception) else version
                )
        for address, versions in of_workers.items():
            if versions != self._versions:
                raise _other_versions(address, versions, self._versions)
        for error in self._ask(_try_task, task, self._versions).values():
            if error:
                raise error

    def _ask(self, function: Callable[..., Any], *arguments: object) -> dict[str, Any]:
        """The result of a function on each worker, or its error; workers that are gone are left out."""
        question = self._cluster.client.run(function, *arguments, on_error="return", asynchronous=True)
        answers = self._cluster.answer(self._cluster.ask(question))
        return {address: answer for address, answer in answers.items() if not _is_loss(answer)}


class _RemoteResult(Future[Any]):
    """A task under way; its result stays on the worker until `fetch` or `result` is called: few come at once."""

    def __init__(self, cluster: Cluster, future: distributed.Future) -> None:
        super().__init__()
        self._cluster, self._future = cluster, future
        self._coming: Future[Any] | None = None
        future.add_done_callback(self._end)

    def _end(self, _: distributed.Future) -> None:
        with contextlib.suppress(InvalidStateError):  # it was cancelled here
            self.set_result(None)

    def fetch(self) -> Future[Any]:
        """Ask for the result of the task, which has ended; dask makes one request of many."""
        self._coming = self._coming or self._cluster.ask(self._cluster.client.gather(self._future, asynchronous=True))
        return self._coming

    def result(self, timeout: float | None = None) -> Any:  # noqa: ANN401 - whatever the task gives
        """The result of the task; its error is raised."""
        super().result(timeout)
        done = self._cluster.answer(self.fetch())
        if isinstance(done, RevseqError):
            raise done
        return done
