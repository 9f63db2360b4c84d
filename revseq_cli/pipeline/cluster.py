"""The engine dask: the workers of a scheduler that runs already. No other module imports dask."""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import os
import pickle
import threading
import time
import warnings
from collections import Counter
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

import numpy as np

import revseq_cli
from revseq_cli.core import platform, signals
from revseq_cli.core.errors import MEMORY_ENDED, EngineError, RevseqError, UsageError
from revseq_cli.core.processes import packed

try:
    import dask
    import distributed
except ImportError:
    hint = platform.pip("install distributed")
    raise EngineError("the engine dask needs the package dask", "dask.distributed", hint) from None

from collections.abc import Callable, Iterator

_Result = TypeVar("_Result")
# In seconds:
_LOOK = 1.0  # between two counts of the scheduler's workers
_LONGEST_ALONE = 20.0  # without a worker; dask restarts one that died in less
_LONGEST_CALL = 10.0  # to connect, or for an answer
_LONGEST_STOP = 10.0  # until workers have ended the blocks that they had begun


# On the workers

_running: Counter[str] = Counter()  # batches of each pass that this worker does now
_stopped: set[str] = set()  # passes of which no more batches begin
_lock = threading.Lock()


def _versions() -> str:
    """What must be the same on every worker."""
    return f"revseq {revseq_cli.__version__} and NumPy {np.__version__}"


def _do(batch: bytes, run: str, wanted: str) -> Any:  # noqa: ANN401 - the task's own
    """Run one pickled batch of a pass on a worker, and return its results, pickled, or an error.

    An error is returned and not raised: dask would log it there, and fails on tracebacks that it cannot pickle.
    """
    address = distributed.get_worker().address
    with _lock:
        if run in _stopped:
            return EngineError(f"the worker {address} was stopped")
        _running[run] += 1
    try:
        if _versions() != wanted:
            found, hint = f"the worker {address} has {_versions()}", "install the same versions on every worker"
            return EngineError(found, f"{wanted}, as here", hint)
        platform.keep_freed_memory()
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


# Here

_threads = ThreadPoolExecutor()  # in which calls of dask wait, so that a signal ends what the main thread waits for


def _waited(call: Callable[[], _Result], *, stops: bool = True) -> _Result:
    """The result of a call that waits; Stopped is raised after a signal, and TimeoutError at last."""
    future = _threads.submit(call)
    deadline = time.monotonic() + _LONGEST_CALL + 1
    while not wait([future], signals.PATIENCE).done:
        if stops:
            signals.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"silent for {_LONGEST_CALL:.0f} s")
    return future.result()


@functools.cache  # it takes long to make, and so stays for all passes; it ends with the process
def _connected(address: str) -> distributed.Client:
    """The connection to a scheduler; EngineError if none answers in time, or something else than dask does."""
    logging.disable()  # errors that dask logs are reported here, once
    warnings.simplefilter("ignore")
    if not address:
        raise UsageError("no dask scheduler is named", "its address", "add --scheduler tcp://host:8786")
    connect = functools.partial(distributed.Client, address, timeout=_LONGEST_CALL, set_as_default=False)
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
            return self._executor.submit(_do, packed(task), self._run, _versions())  # type: ignore[no-any-return]

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
