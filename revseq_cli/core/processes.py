"""Worker processes, on concurrent.futures: for the tasks of a pass, and for the jobs of a batch.

It takes a while to import, and so is imported where workers start.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from multiprocessing.process import BaseProcess
from typing import Any

from revseq_cli.core import platform, signals
from revseq_cli.core.errors import EngineError

_LONGEST_END = 5.0  # seconds to wait until the system has ended a killed process
_LONGEST_FAREWELL = 0.5  # seconds to wait for threads that pass messages on, after a failure
_QUIET_TRACKER = "ignore::UserWarning:multiprocessing.resource_tracker"  # for PYTHONWARNINGS


class DiedError(EngineError):
    """A worker process has died, and all others of its executor end, too."""


def _refused(error: Exception) -> EngineError:
    found, wanted = f"cannot start a worker: {error}", "threads and processes, as ulimit -u allows them"
    return EngineError(found, wanted, "add --engine serial")


class Workers:
    """A ProcessPoolExecutor whose processes end with this one, leave signals to it, and are killed at the end."""

    def __init__(self, most: int) -> None:
        # The fastest safe way. A forked worker has all that is imported, and shares its memory: 16 start in 0.1 s, and
        # spawning takes 0.3 s. It would also inherit locks that other threads hold. HDF5 files that the parent has open
        # do no harm: the worker opens what it reads itself, and it ends by a signal or os._exit, so that HDF5 never
        # writes the parent's file there.
        method = "fork" if platform.can_fork() else "spawn"
        if method == "spawn":  # Python's tracker removes the semaphores of killed processes, and would warn about it
            os.environ["PYTHONWARNINGS"] = ",".join(filter(None, (os.environ.get("PYTHONWARNINGS"), _QUIET_TRACKER)))
        self._others, self._threads = {*multiprocessing.active_children()}, threading.active_count()
        self._started: set[BaseProcess] = set()
        self._pending = 0  # tasks whose results nobody has asked for
        self.workers = min(most, platform.MOST_PROCESSES)
        context = multiprocessing.get_context(method)
        try:
            self._executor = ProcessPoolExecutor(self.workers, context, _begin_worker, (os.getpid(),))
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
        return DiedError("a worker process died", wanted, "try a smaller --memory, or --engine serial")

    def _children(self) -> set[BaseProcess]:
        return {*multiprocessing.active_children()} - self._others


def _begin_worker(parent: int) -> None:
    """Set up a worker of an executor: signals, memory, and that it ends with its parent."""
    signals.leave_to_parent()
    if not platform.end_with(parent):
        threading.Thread(target=_end_after_parent, daemon=True).start()
    platform.keep_freed_memory()


def _end_after_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
    os._exit(1)


class _Pickler(pickle.Pickler):
    """Keeps the byte order of arrays: NumPy itself makes one that is not contiguous native, with other bytes."""

    def reducer_override(self, value: Any) -> Any:  # noqa: ANN401 - any object
        numpy = sys.modules.get("numpy")  # without it, there is no array
        if numpy and type(value) is numpy.ndarray and not value.flags.forc:
            return value.copy("C").__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        return NotImplemented


def packed(message: object) -> bytes:
    """A message in protocol 5: in older ones, NumPy makes all arrays native."""
    stream = io.BytesIO()
    _Pickler(stream, pickle.HIGHEST_PROTOCOL).dump(message)
    return stream.getvalue()


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
