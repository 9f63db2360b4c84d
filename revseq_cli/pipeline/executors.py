"""Who does tasks elsewhere: worker processes, for a pass or for the jobs of a batch, and the workers of dask.

Both have `workers`, submit, result, check, and close. It takes a while to import, and so is imported where they start;
dask is imported where it is used.
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
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import revseq_cli
from revseq_cli import files
from revseq_cli.core import platform, signals
from revseq_cli.core.errors import MEMORY_ENDED, EngineError, RevseqError, UsageError
from revseq_cli.files import local

if TYPE_CHECKING:
    from revseq_cli.files.nearby import Known

_Result = TypeVar("_Result")
# In seconds:
_LONGEST_END = 5.0  # until the system has ended a killed process
_LONGEST_FAREWELL = 0.5  # for threads that pass messages on, after a failure
_LOOK = 1.0  # between two counts of the scheduler's workers
_LONGEST_ALONE = 20.0  # without a worker; dask restarts one that died in less
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
    `in_order`, results that come too early are kept, and as many fewer batches are submitted.
    """
    numbered = enumerate(batches)
    pending: dict[Future[Any], int] = {}
    ended: dict[int, Any] = {}
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
            executor.check()
        while done:
            # No future is kept, so that dask's scheduler forgets each result before the next tasks.
            future = done.pop()
            ended[pending.pop(future)] = executor.result(future)
            del future
        if not in_order:
            for number in [*ended]:
                yield ended.pop(number)
        while next_number in ended:
            yield ended.pop(next_number)
            next_number += 1


# What travels


class _Pickler(pickle.Pickler):
    """Keeps the byte order of arrays: NumPy itself makes one that is not contiguous native, with other bytes."""

    def reducer_override(self, value: Any) -> Any:  # noqa: ANN401 - any object
        if type(value) is np.ndarray and not value.flags.forc:
            return value.copy("C").__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        return NotImplemented


def packed(message: object) -> bytes:
    """A message in protocol 5: in older ones, NumPy makes all arrays native."""
    stream = io.BytesIO()
    _Pickler(stream, pickle.HIGHEST_PROTOCOL).dump(message)
    return stream.getvalue()


# Processes of this machine


class DiedError(EngineError):
    """A worker process has died, and all others of its executor end, too."""


def _refused(error: Exception) -> EngineError:
    found, wanted = (
        f"cannot start a worker: {error}",
        "threads and processes, as ulimit -u allows them",
    )
    return EngineError(found, wanted, "add --engine serial")


class Workers:
    """A ProcessPoolExecutor whose processes end with this one, leave signals to it, and are killed at the end."""

    def __init__(self, most: int, *, writers: int = 1) -> None:
        """Make at most so many workers, of which `writers` write the same file."""
        # The fastest safe way. A forked worker has all that is imported, and shares its memory: 16 start in 0.1 s, and
        # spawning takes 0.3 s. It would also inherit locks that other threads hold. HDF5 files that the parent has open
        # do no harm: the worker opens what it reads itself, and it ends by a signal or os._exit, so that HDF5 never
        # writes the parent's file there.
        method = "fork" if platform.can_fork() else "spawn"
        if (
            method == "spawn"
        ):  # Python's tracker removes the semaphores of killed processes, and would warn about it
            os.environ["PYTHONWARNINGS"] = ",".join(
                filter(None, (os.environ.get("PYTHONWARNINGS"), _QUIET_TRACKER))
            )
        self._others, self._threads = {*multiprocessing.active_children()}, threading.active_count()
        self._started: set[BaseProcess] = set()
        self._pending = 0  # tasks whose results nobody has asked for
        self.workers = min(most, platform.MOST_PROCESSES)
        context = multiprocessing.get_context(method)
        try:
            self._executor = ProcessPoolExecutor(
                self.workers, context, _begin_worker, (os.getpid(), files.known(), writers)
            )
        except OSError as e:
            raise _refused(e) from None

    def submit(self, task: Callable[[], Any]) -> Future[Any]:
        """Give a task to a worker; EngineError if none can be started, DiedError if one has died.

        All start in the caller's thread, which is the main one: Linux ends them with the thread that forked them.
        """
        self._pending += 1
        try:
            future = self._executor.submit(_work, packed(task))
        except BrokenExecutor:  # a RuntimeError, of workers that did start
            raise self._died() from None
        except (RuntimeError, OSError) as e:
            raise _refused(e) from None
        if len(self._started) < self.workers:  # to look takes a system call for each
            self._started.update(self._children())
        return future

    def result(self, future: Future[Any]) -> Any:  # noqa: ANN401 - the task's own
        """What a task has given; its error is raised, and DiedError if a worker has died."""
        try:
            result, error, trace = pickle.loads(future.result())  # noqa: S301 - our own
        except BrokenExecutor:
            raise self._died() from None
        self._pending -= 1
        if error is not None:
            error.add_note(trace)
            raise error
        return result

    def check(self) -> None:
        """DiedError if a worker has died; the executor waits for the rest of what it sent, if it died meanwhile."""
        if not all(process.is_alive() for process in self._started):
            raise self._died()

    def close(self) -> None:
        """Kill all workers, and wait until they are gone.

        The executor's own threads are waited for, so that the next one can fork; but not for long after a failure: they
        may wait for a message of which a killed worker sent a part.
        """
        for process in self._children():
            process.kill()
        self._executor.shutdown(wait=not self._pending, cancel_futures=True)
        for process in self._started:
            process.join(_LONGEST_END)
        deadline = time.monotonic() + _LONGEST_FAREWELL
        while threading.active_count() > self._threads and time.monotonic() < deadline:
            time.sleep(0.001)

    def _died(self) -> DiedError:
        signals.check()  # a signal to the whole process group may have ended it
        wanted = "workers that live; was one killed, or out of memory?"
        return DiedError(
            "a worker process died", wanted, "try a smaller --memory, or --engine serial"
        )

    def _children(self) -> set[BaseProcess]:
        return {*multiprocessing.active_children()} - self._others


def _begin_worker(parent: int, known: Known | None, writers: int) -> None:
    """Set up a worker of an executor: signals, memory, its parent's files, and that it ends with its parent."""
    files.take_known(known)
    local.share_outputs(writers)
    signals.leave_to_parent()
    if not platform.end_with(parent):
        threading.Thread(target=_end_after_parent, daemon=True).start()
    platform.keep_freed_memory()


def _end_after_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
    os._exit(1)


def _work(task: bytes) -> bytes:
    """Run a task in a worker: its result, or its error and the traceback of that.

    An error that does not pickle, or not back, would look like a worker that died.
    """
    try:
        return packed((pickle.loads(task)(), None, ""))  # noqa: S301 - our own
    except BaseException as e:  # noqa: BLE001 - it is raised where the result is asked for
        told: BaseException = e
        try:
            pickle.loads(packed(e))  # noqa: S301
        except Exception:  # noqa: BLE001 - whatever the methods of an object raise
            told = EngineError(f"a worker failed: {type(e).__name__}: {e}"[:300])
        return packed((None, told, traceback.format_exc()))


# The workers of dask: on them

_running: Counter[str] = Counter()  # batches of each pass that this worker does now
_stopped: set[str] = set()  # passes of which no more batches begin
_lock = threading.Lock()


def _versions() -> str:
    """What must be the same on every worker."""
    return f"revseq {revseq_cli.__version__} and NumPy {np.__version__}"


def _do(batch: bytes, run: str, wanted: str, writers: int) -> Any:  # noqa: ANN401 - the task's own
    """Run one pickled batch of a pass on a worker, and return its results, pickled, or an error.

    An error is returned and not raised: dask would log it there, and fails on tracebacks that it cannot pickle.
    """
    from distributed import get_worker

    address = get_worker().address
    with _lock:
        if run in _stopped:
            return EngineError(f"the worker {address} was stopped")
        _running[run] += 1
    try:
        if _versions() != wanted:
            found, hint = (
                f"the worker {address} has {_versions()}",
                "install the same versions on every worker",
            )
            return EngineError(found, f"{wanted}, as here", hint)
        platform.keep_freed_memory()
        local.share_outputs(writers)
        return packed(pickle.loads(batch)())  # noqa: S301 - from our own process
    except RevseqError as e:
        e.context = e.context or f"on the worker {address}"
        return e
    except Exception as e:  # noqa: BLE001 - the parent reports it
        return EngineError(f"the worker {address} failed: {type(e).__name__}: {str(e)[:200]}")
    finally:
        with _lock:
            _running[run] -= 1


def _stop(run: str) -> int:
    """Let no more batches of a pass begin on this worker; how many are under way."""
    with _lock:
        _stopped.add(run)
        return _running[run]


# The workers of dask: here


@functools.cache
def _threads() -> ThreadPoolExecutor:
    """Where calls of dask wait, so that a signal ends what the main thread waits for."""
    return ThreadPoolExecutor()


def _waited(call: Callable[[], _Result], *, stops: bool = True) -> _Result:
    """The result of a call that waits; Stopped is raised after a signal, and TimeoutError at last."""
    future = _threads().submit(call)
    deadline = time.monotonic() + _LONGEST_CALL + 1
    while not wait([future], signals.PATIENCE).done:
        if stops:
            signals.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"silent for {_LONGEST_CALL:.0f} s")
    return future.result()


@functools.cache  # it takes long to make, and so stays for all passes; it ends with the process
def _connected(address: str) -> Any:  # noqa: ANN401 - distributed's client
    """The connection to a scheduler; EngineError if none answers in time, or something else than dask does."""
    from distributed import Client

    logging.disable()  # errors that dask logs are reported here, once
    warnings.simplefilter("ignore")
    if not address:
        raise UsageError(
            "no dask scheduler is named", "its address", "add --scheduler tcp://host:8786"
        )
    connect = functools.partial(Client, address, timeout=_LONGEST_CALL, set_as_default=False)
    try:
        return _waited(connect)
    except Exception as e:  # noqa: BLE001 - of any kind, if dask tries to read what another program answers
        found = f"no dask scheduler answers: {str(e)[:100]}"
        wanted = "a scheduler of the same version of dask, as tcp://host:8786"
        raise EngineError(found, wanted, "dask scheduler", address) from None


class Cluster:
    """The workers of a scheduler: the one of that address, or of dask's own configuration.

    Tasks and their results travel as bytes, which dask passes on as they are. If a worker dies, dask gives its batch to
    another one, which writes the same bytes.
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
        self._address = address or dask.config.get("scheduler-address", None) or ""
        self._client = _connected(self._address)
        self._executor = self._client.get_executor(pure=False)
        self._run = os.urandom(8).hex()
        self._under_way = self._workers = 0
        self._looked, self._seen = -math.inf, time.monotonic()

    @property
    def workers(self) -> int:
        """The number of worker threads now; EngineError after `_LONGEST_ALONE` without any."""
        now = time.monotonic()
        if now - self._looked >= _LOOK:
            with self._worded():
                self._workers = sum(_waited(self._client.nthreads).values())
            self._looked = now
            if self._workers:
                self._seen = now
            elif now - self._seen > _LONGEST_ALONE:
                hint = f"dask worker {self._address}"
                raise EngineError("the scheduler has no worker", "one or more", hint, self._address)
        return self._workers

    def submit(self, task: Callable[[], Any]) -> Future[Any]:
        with self._worded():
            self._under_way += 1
            task_bytes = packed(task)
            return self._executor.submit(_do, task_bytes, self._run, _versions(), self._workers)  # type: ignore[no-any-return]

    def result(self, future: Future[Any]) -> Any:  # noqa: ANN401 - the task's own
        with self._worded():
            done = future.result()
        if isinstance(done, RevseqError):
            raise done
        self._under_way -= 1
        return pickle.loads(done)  # noqa: S301 - from workers with our own code

    def check(self) -> None:
        """EngineError without a scheduler, or without workers for long."""
        with self._worded():
            if self._client.status != "running":
                raise OSError(self._client.status)
        _ = self.workers

    def close(self) -> None:
        """After an error or a signal, wait until no worker does a block any more: it could write into what is removed.

        What is lost with the connection is not waited for.
        """
        if not self._under_way or self._client.status != "running":
            return
        with contextlib.suppress(Exception):
            _waited(lambda: self._executor.shutdown(wait=False), stops=False)
            ask = functools.partial(self._client.run, _stop, self._run, on_error="ignore")
            end = time.monotonic() + _LONGEST_STOP
            while any(_waited(ask, stops=False).values()) and time.monotonic() < end:
                time.sleep(signals.PATIENCE / 10)

    @contextlib.contextmanager
    def _worded(self) -> Iterator[None]:
        """Raise EngineError for what dask raises; a RevseqError, or the end of memory, passes through."""
        try:
            yield
        except (RevseqError, *MEMORY_ENDED):
            raise
        except (Exception, CancelledError) as e:
            signals.check()
            found = f"the scheduler or a worker failed: {repr(e)[:200]}"
            wanted = "a scheduler and workers that live, with the same revseq and files"
            raise EngineError(found, wanted, where=self._address) from e
