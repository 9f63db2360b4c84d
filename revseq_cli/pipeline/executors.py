"""Executors of tasks in other processes: worker processes of this machine, and dask's workers.

Both are contexts with `workers`, `submit`, `result` and `require_workers`, and their work ends with
the context. The module takes a while to import, and so it is imported only where they start; dask
is imported where it is used.
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import logging
import math
import multiprocessing
import os
import pickle
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

import revseq_cli
from revseq_cli import files
from revseq_cli.core import platform, signals
from revseq_cli.core.errors import MEMORY_ENDED, EngineError, RevseqError, UsageError
from revseq_cli.files import local

if TYPE_CHECKING:
    from revseq_cli.files.remote.fetched import RemoteCache

_Result = TypeVar("_Result")
# In seconds:
_LONGEST_END = 5.0  # until the system has ended a killed process
_LONGEST_FAREWELL = 0.5  # for threads that pass messages on, after a failure
_COUNTS_APART = 1.0  # between two counts of the scheduler's workers
_LONGEST_ALONE = 20.0  # that a scheduler may have no worker: dask restarts a dead one sooner
_LONGEST_CALL = 10.0  # to connect, or for an answer
_LONGEST_STOP = 10.0  # until workers have ended the blocks that they had begun
_QUIET_TRACKER = "ignore::UserWarning:multiprocessing.resource_tracker"  # for PYTHONWARNINGS


# The loop over futures


def run_batches(
    batches: Iterator[Callable[[], Any]],
    executor: Cluster | Workers,
    *,
    ahead: int = 2,
    in_order: bool = False,
) -> Iterator[Any]:
    """Yield the results of each batch; Stopped by a signal.

    For each worker, `ahead` batches are under way, so that its next one is there in time. With
    `in_order`, results that come too early are kept, and that many fewer batches are submitted.
    """
    numbered = enumerate(batches)
    pending: dict[Future[Any], int] = {}
    ended: dict[int, Any] = {}  # the results of each batch that are not yielded yet
    next_number = 0
    while True:
        room = ahead * max(1, executor.workers) - len(pending) - len(ended)
        for number, batch in itertools.islice(numbered, max(0, room)):
            pending[executor.submit(batch)] = number
        if not pending:
            return
        done = [*wait(pending, signals.PATIENCE, FIRST_COMPLETED).done]
        signals.check()
        if not done:
            executor.require_workers()
        while done:
            # No future is kept, so that dask's scheduler forgets each result before the next tasks.
            future = done.pop()
            ended[pending.pop(future)] = executor.result(future)
            del future
        if in_order:
            while next_number in ended:
                yield ended.pop(next_number)
                next_number += 1
        else:
            for number in list(ended):
                yield ended.pop(number)


# Messages between processes


class _Pickler(pickle.Pickler):
    """Keeps the byte order of arrays.

    NumPy itself would convert an array that is not contiguous to the native order.
    """

    def reducer_override(self, value: Any) -> Any:  # noqa: ANN401 - any object
        if type(value) is np.ndarray and not value.flags.forc:
            return value.copy("C").__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        return NotImplemented


def dump(message: object) -> bytes:
    """A message in protocol 5: in older ones, NumPy makes all arrays native."""
    stream = io.BytesIO()
    _Pickler(stream, pickle.HIGHEST_PROTOCOL).dump(message)
    return stream.getvalue()


# Processes of this machine


class DiedError(EngineError):
    """A worker process has died, and all others of its executor end, too."""


def _make_start_error(error: Exception) -> EngineError:
    return EngineError(
        f"cannot start a worker: {error}",
        "threads and processes, as ulimit -u allows them",
        "to work in one process, add --engine serial",
    )


def _choose_start_method() -> str:
    """How worker processes start: "fork" if that is safe, else "spawn".

    A forked worker has all imported modules, and shares their memory: 16 start in 0.1 s, but 0.3 s
    if they are spawned. A fork would also inherit locks that other threads hold. HDF5 files that
    the parent has open do no harm: the worker opens its files itself, and it ends by a signal or
    os._exit, so that HDF5 never writes the parent's file there.
    """
    if platform.can_fork():
        return "fork"
    # Python's tracker removes the semaphores of killed processes, and would warn about it.
    warning_filters = [os.environ.get("PYTHONWARNINGS"), _QUIET_TRACKER]
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, warning_filters))
    return "spawn"


class Workers:
    """A ProcessPoolExecutor whose processes end with this one and leave signals to it.

    At the end of its context, they are killed.
    """

    def __init__(self, most: int, *, writers: int = 1) -> None:
        """Make at most this many workers, of which `writers` write the same file."""
        self._others = {*multiprocessing.active_children()}
        self._threads_before = threading.active_count()
        self._started: set[BaseProcess] = set()
        self._pending = 0  # tasks whose results nobody has asked for
        self.workers = min(most, platform.MOST_PROCESSES)
        context = multiprocessing.get_context(_choose_start_method())
        try:
            self._executor = ProcessPoolExecutor(
                self.workers, context, _begin_worker, (os.getpid(), files.copy_cache(), writers)
            )
        except OSError as e:
            raise _make_start_error(e) from None

    def __enter__(self) -> Self:
        return self

    def submit(self, task: Callable[[], Any]) -> Future[Any]:
        """Give a task to a worker; EngineError if none can be started, DiedError if one has died.

        All workers are started from the caller's thread, the main one, because Linux ends a forked
        worker together with the thread that forked it.
        """
        self._pending += 1
        try:
            future = self._executor.submit(_run_in_process, dump(task))
        except BrokenExecutor:  # a RuntimeError, of workers that did start
            raise self._make_died_error() from None
        except (RuntimeError, OSError) as e:
            raise _make_start_error(e) from None
        if len(self._started) < self.workers:  # to list them takes a system call for each
            self._started.update(self._children())
        return future

    def result(self, future: Future[Any]) -> Any:  # noqa: ANN401
        """The result of a task; its error is raised, or DiedError if a worker has died."""
        try:
            result, error, trace = pickle.loads(future.result())  # noqa: S301 - our own
        except BrokenExecutor:
            raise self._make_died_error() from None
        self._pending -= 1
        if error is not None:
            error.add_note(trace)
            raise error
        return result

    def require_workers(self) -> None:
        """DiedError if a worker has died.

        If it died while it sent a result, the executor would wait for the rest of that.
        """
        if not all(process.is_alive() for process in self._started):
            raise self._make_died_error()

    def __exit__(self, *_: object) -> None:
        """Kill all workers, and wait until they are gone.

        The executor's own threads must end, so that the next executor can fork. But after a failure
        there is no long wait for them: they may wait for a message that a killed worker began.
        """
        for process in self._children():
            process.kill()
        self._executor.shutdown(wait=not self._pending, cancel_futures=True)
        for process in self._started:
            process.join(_LONGEST_END)
        deadline = time.monotonic() + _LONGEST_FAREWELL
        while threading.active_count() > self._threads_before and time.monotonic() < deadline:
            time.sleep(0.001)

    def _make_died_error(self) -> DiedError:
        signals.check()  # a signal to the whole process group may have ended it
        expected = "workers that live; was one killed, or out of memory?"
        return DiedError(
            "a worker process died", expected, "try a smaller --memory, or --engine serial"
        )

    def _children(self) -> set[BaseProcess]:
        return {*multiprocessing.active_children()} - self._others


def _begin_worker(parent: int, cache: RemoteCache | None, writers: int) -> None:
    """Set up a worker: its signals, memory and cached files, and that it ends with its parent."""
    files.take_cache(cache)
    local.share_outputs(writers)
    signals.leave_to_parent()
    if not platform.end_with(parent):
        threading.Thread(target=_end_after_parent, daemon=True).start()
    platform.keep_freed_memory()


def _end_after_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent:
        parent.join()
    os._exit(1)


def _run_in_process(task: bytes) -> bytes:
    """Run a task in a worker: its result, or its error and the traceback of that.

    An error that does not pickle, or not back, would look like a worker that died.
    """
    try:
        return dump((pickle.loads(task)(), None, ""))  # noqa: S301 - our own
    except BaseException as e:  # noqa: BLE001 - it is raised where the result is asked for
        error: BaseException = e
        try:
            pickle.loads(dump(e))  # noqa: S301
        except Exception:  # noqa: BLE001 - whatever the methods of an object raise
            error = EngineError(f"a worker failed: {type(e).__name__}: {e}"[:300])
        return dump((None, error, traceback.format_exc()))


# On the workers of dask

_running: Counter[str] = Counter()  # batches of each pass that this worker does now
_stopped: set[str] = set()  # passes of which no more batches begin
_lock = threading.Lock()


def _versions() -> str:
    """The versions that must be the same on every worker."""
    return f"revseq {revseq_cli.__version__} and NumPy {np.__version__}"


def _run_on_dask(batch: bytes, pass_id: str, expected: str, writers: int) -> Any:  # noqa: ANN401
    """Run one pickled batch of a pass on a worker, and return its results, pickled, or an error.

    An error is returned and not raised: dask would log it there, and fails on tracebacks that it
    cannot pickle.
    """
    from distributed import get_worker

    address = get_worker().address
    with _lock:
        if pass_id in _stopped:
            return EngineError(f"the worker {address} was stopped")
        _running[pass_id] += 1
    try:
        if _versions() != expected:
            return EngineError(
                f"the worker {address} has {_versions()}",
                f"{expected}, as here",
                "install the same versions on every worker",
            )
        platform.keep_freed_memory()
        local.share_outputs(writers)
        return dump(pickle.loads(batch)())  # noqa: S301 - from our own process
    except RevseqError as e:
        return e.set_default_context(f"on the worker {address}")
    except Exception as e:  # noqa: BLE001 - the parent reports it
        return EngineError(f"the worker {address} failed: {type(e).__name__}: {str(e)[:200]}")
    finally:
        with _lock:
            _running[pass_id] -= 1


def _stop(pass_id: str) -> int:
    """Let no more batches of a pass begin on this worker; how many are under way."""
    with _lock:
        _stopped.add(pass_id)
        return _running[pass_id]


# Here, for the workers of dask


@functools.cache
def _threads() -> ThreadPoolExecutor:
    """Where calls of dask wait, so that a signal ends what the main thread waits for."""
    return ThreadPoolExecutor()


def _wait_for(call: Callable[[], _Result], *, stops: bool = True) -> _Result:
    """The result of a call that waits; Stopped after a signal, TimeoutError after too long."""
    future = _threads().submit(call)
    deadline = time.monotonic() + _LONGEST_CALL + 1
    while not wait([future], signals.PATIENCE).done:
        if stops:
            signals.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"silent for {_LONGEST_CALL:.0f} s")
    return future.result()


@functools.cache  # it takes long to make, and so stays for all passes; it ends with the process
def _connect(address: str) -> Any:  # noqa: ANN401 - distributed's client
    """The connection to a scheduler; EngineError if no scheduler of dask answers in time."""
    from distributed import Client

    logging.disable()  # errors that dask logs are reported here, once
    warnings.simplefilter("ignore")
    if not address:
        raise UsageError(
            "no dask scheduler is named",
            "its address",
            "if it runs on this machine, add --scheduler tcp://localhost:8786",
        )
    connect = functools.partial(Client, address, timeout=_LONGEST_CALL, set_as_default=False)
    try:
        return _wait_for(connect)
    except Exception as e:  # noqa: BLE001 - dask raises anything if another program answers
        found = f"no dask scheduler answers: {str(e)[:100]}"
        expected = "a scheduler of the same version of dask, as tcp://host:8786"
        raise EngineError(found, expected, "dask scheduler", address) from None


class Cluster:
    """The workers of a scheduler: the one of that address, or of dask's own configuration.

    Tasks and results are sent as bytes, which dask passes on as they are. If a worker dies, dask
    gives its batch to another one, which writes the same bytes. At the end of the context, no
    worker has a batch any more.
    """

    def __init__(self, address: str) -> None:
        try:
            import dask
            import distributed  # noqa: F401
        except ImportError:
            hint = platform.pip("install distributed")
            raise EngineError(
                "the engine dask needs the package dask", "dask.distributed", hint
            ) from None
        self._address = address
        if not address:
            self._address = dask.config.get("scheduler-address", None) or ""
        self._client = _connect(self._address)
        self._executor = self._client.get_executor(pure=False)
        self._pass_id = os.urandom(8).hex()
        self._under_way = 0
        self._workers = 0  # worker threads at the last count
        self._last_count = -math.inf
        self._last_worker = time.monotonic()  # when there was one, or the connection began

    def __enter__(self) -> Self:
        return self

    @property
    def workers(self) -> int:
        """The number of worker threads, which is asked for once a second.

        EngineError after `_LONGEST_ALONE` without any.
        """
        now = time.monotonic()
        if now - self._last_count < _COUNTS_APART:
            return self._workers
        with self._dask_errors():
            self._workers = sum(_wait_for(self._client.nthreads).values())
        self._last_count = now
        if self._workers:
            self._last_worker = now
        elif now - self._last_worker > _LONGEST_ALONE:
            hint = f"dask worker {self._address}"
            raise EngineError("the scheduler has no worker", "one or more", hint, self._address)
        return self._workers

    def submit(self, task: Callable[[], Any]) -> Future[Any]:
        with self._dask_errors():
            self._under_way += 1
            task_bytes = dump(task)
            return self._executor.submit(  # type: ignore[no-any-return]
                _run_on_dask, task_bytes, self._pass_id, _versions(), self._workers
            )

    def result(self, future: Future[Any]) -> Any:  # noqa: ANN401
        with self._dask_errors():
            done = future.result()
        if isinstance(done, RevseqError):
            raise done
        self._under_way -= 1
        return pickle.loads(done)  # noqa: S301 - from workers with our own code

    def require_workers(self) -> None:
        """EngineError if the scheduler is gone, or has had no worker for `_LONGEST_ALONE`."""
        with self._dask_errors():
            if self._client.status != "running":
                raise OSError(self._client.status)
        _ = self.workers

    def __exit__(self, *_: object) -> None:
        """After an error or a signal, wait until no worker has a batch any more.

        A worker could still write into a file that is removed. Without a connection, there is
        nothing to wait for.
        """
        if not self._under_way or self._client.status != "running":
            return
        with contextlib.suppress(Exception):
            _wait_for(lambda: self._executor.shutdown(wait=False), stops=False)
            ask = functools.partial(self._client.run, _stop, self._pass_id, on_error="ignore")
            end = time.monotonic() + _LONGEST_STOP
            while any(_wait_for(ask, stops=False).values()) and time.monotonic() < end:
                time.sleep(signals.PATIENCE / 10)

    @contextlib.contextmanager
    def _dask_errors(self) -> Iterator[None]:
        """Raise EngineError for any error of dask; a RevseqError or MemoryError stays as it is."""
        try:
            yield
        except (RevseqError, *MEMORY_ENDED):
            raise
        except (Exception, CancelledError) as e:
            signals.check()
            found = f"the scheduler or a worker failed: {repr(e)[:200]}"
            expected = "a scheduler and workers that live, with the same revseq and files"
            raise EngineError(found, expected, where=self._address) from e
