"""Worker processes: `Workers` for the tasks of a pass, and for the jobs of a batch, on concurrent.futures.

`Workers` adds what that lacks: its processes end with this one, leave signals to it, and are killed at the end.

A message is any object that pickles. An array travels as its bytes, with data type, sizes and memory order. NumPy's own
pickles are not used: of an array that is not contiguous they make one of this machine's byte order, with equal values
and other bytes.
"""

from __future__ import annotations

import contextlib
import copyreg
import io
import os
import pickle
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Literal

from revseq_cli.core import progress, signals, system
from revseq_cli.core.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future
    from multiprocessing.process import BaseProcess

    import numpy as np
    from numpy.typing import NDArray

QUIET_TRACKER = "ignore::UserWarning:multiprocessing.resource_tracker"  # for PYTHONWARNINGS
_LONGEST_END = 5.0  # seconds to wait until the system has ended a killed process
_LONGEST_FAREWELL = 0.5  # seconds to wait for threads that pass messages on, after a failure
_LOOKS, _QUIET_LOOKS = 30, 5  # at most to see that nothing is left; so many in a row that found nothing say so


class StartError(EngineError):
    """The system refuses to start a thread or a process."""


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Raise StartError if the system refuses to start a thread or a process."""
    try:
        yield
    except (RuntimeError, OSError) as e:
        found, wanted = f"cannot start a worker: {e}", "threads and processes, as ulimit -u allows them"
        raise StartError(found, wanted, "add --engine serial") from None


def packed(message: object) -> bytes:
    """The bytes of a message; PicklingError, TypeError or AttributeError for an object that does not pickle."""
    stream = io.BytesIO()
    pickler = pickle.Pickler(stream, pickle.HIGHEST_PROTOCOL)
    if numpy := sys.modules.get("numpy"):  # else there is no array
        pickler.dispatch_table = copyreg.dispatch_table | {numpy.ndarray: _reduced}
    pickler.dump(message)
    return stream.getvalue()


def unpacked(data: bytes | bytearray | memoryview) -> Any:  # noqa: ANN401 - any object
    """The message of bytes that `packed` made in a process of our own."""
    return pickle.loads(data)  # noqa: S301 - from our own process


def _reduced(values: NDArray[Any]) -> tuple[Callable[..., NDArray[Any]], tuple[Any, ...]]:
    """How an array pickles: a function, and its arguments."""
    whole = values if values.flags.forc else values.copy("C")
    order = "C" if whole.flags.c_contiguous else "F"
    buffer = pickle.PickleBuffer((whole.T if order == "F" else whole).reshape(-1).view("u1").data)
    return _array, (buffer, values.dtype, values.shape, order)


def _array(data: bytearray, dtype: np.dtype[Any], shape: tuple[int, ...], order: Literal["C", "F"]) -> NDArray[Any]:
    """The array of these bytes, which it does not copy."""
    import numpy as np  # not every process has arrays

    return np.ndarray(shape, dtype, data, order=order)


class DiedError(EngineError):
    """A worker process has died, and all others of its executor end, too."""


class Workers:
    """A ProcessPoolExecutor that ends as we promise: all its processes are killed, even stopped ones.

    They end with this process, too, and leave signals to it. Tasks, results and errors travel as bytes of `packed`.
    Each begins with `begin`, if there is one, and has so many seconds of `grace` to end by itself.
    """

    def __init__(self, most: int, begin: Callable[[], object] | None = None, grace: float = 0) -> None:
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        # The fastest safe way. A forked worker has all that is imported, and shares its memory: 16 start in 0.1 s, and
        # spawning takes 0.3 s. It would also inherit locks that other threads hold. HDF5 files that the parent has open
        # do no harm: the worker opens what it reads itself, and it ends by a signal or os._exit, so that HDF5 never
        # writes the parent's file there. The method "forkserver" would leave its folder in TMPDIR after a kill.
        method = "fork" if system.can_fork() else "spawn"
        if method == "spawn":
            start_tracker()
        self._others, self._threads = {*multiprocessing.active_children()}, threading.active_count()
        self._started: set[BaseProcess] = set()
        self._pending = 0  # tasks whose results nobody has asked for
        self._grace = grace
        self._most = min(most, system.MOST_PROCESSES)
        with starting():
            self._executor = ProcessPoolExecutor(
                self._most,
                multiprocessing.get_context(method),
                _begin_worker,
                (os.getpid(), begin),
            )
        signals.at_once[self] = self.kill

    def submit(self, message: bytes) -> Future[bytes]:
        """Give a packed task to a worker; StartError if none can be started, DiedError if one has died.

        All start in the caller's thread, which is the main one: Linux ends them with the thread that forked them.
        """
        from concurrent.futures import BrokenExecutor

        self._pending += 1
        with starting(), system.masked():  # no signal ends a worker before it can ignore them
            try:
                future = self._executor.submit(_work, message)
            except BrokenExecutor:
                raise self._died() from None
        if len(self._started) < self._most:  # to look takes a system call for each
            self._started.update(self._children())
        return future

    def result(self, future: Future[bytes]) -> Any:  # noqa: ANN401 - the task's own
        """What a task has given; its error is raised, and DiedError if a worker has died."""
        from concurrent.futures import BrokenExecutor

        try:
            result, error, trace = unpacked(future.result())
        except BrokenExecutor:
            raise self._died() from None
        self._pending -= 1
        if error is not None:
            error.add_note(trace)
            raise error
        return result

    def check(self) -> None:
        """DiedError if a worker has died; the executor waits for the rest of what it sent, if it died meanwhile.

        StartError if the executor's own threads are gone, which the system may have refused to start.
        """
        if not all(each.is_alive() for each in self._started):
            raise self._died()
        with starting():
            if threading.active_count() <= self._threads:
                self._grace = 0
                raise RuntimeError("can't start new thread")

    def kill(self) -> None:
        """Kill all workers, and wait for nothing."""
        for each in self._children():
            each.kill()

    @property
    def ended_by(self) -> str:
        """How the first worker has ended, for a message: "SIGKILL", or "exit status 1"."""
        return system.how_ended(next(each.exitcode for each in self._started))

    def close(self) -> None:
        """Kill all workers that do not end by themselves in time, and wait until they are gone.

        The executor's own threads are waited for, but not for long after a failure: they may wait for a message of
        which a killed worker sent a part, or (until Python 3.11.4) for one to read a task.
        """
        if self._grace:
            self._executor.shutdown(wait=False, cancel_futures=True)
            end = time.monotonic() + self._grace
            while any(each.is_alive() for each in self._started) and time.monotonic() < end:
                time.sleep(0.001)
        signals.at_once.pop(self, None)
        self.kill()
        self._executor.shutdown(wait=not self._pending, cancel_futures=True)
        for each in self._started:
            each.join(_LONGEST_END)
        deadline = time.monotonic() + _LONGEST_FAREWELL
        while threading.active_count() > self._threads and time.monotonic() < deadline:
            time.sleep(0.001)

    def _died(self) -> DiedError:
        self._grace = 0
        wanted = "workers that live; was one killed, or out of memory?"
        return DiedError("a worker process died", wanted, "try a smaller --memory, or --engine serial")

    def _children(self) -> set[BaseProcess]:
        import multiprocessing

        return {*multiprocessing.active_children()} - self._others


def _begin_worker(parent: int, begin: Callable[[], object] | None) -> None:
    """Set up a worker of an executor: signals, memory, and that it ends with its parent."""
    progress.unwatch()
    signals.leave_to_parent()
    if not system.end_with(parent):
        threading.Thread(target=_end_after_parent, daemon=True).start()
    system.keep_freed_memory()
    if begin:
        begin()


def _end_after_parent() -> None:
    import multiprocessing

    if parent := multiprocessing.parent_process():
        parent.join()
    os._exit(1)


def _work(message: bytes) -> bytes:
    """Run one packed task in a worker: its result, its error and the traceback of that, packed.

    An error that does not pickle, or not back, would look like a worker that died.
    """
    import traceback  # not every process is a worker

    answer: tuple[Any, BaseException | None, str]
    try:
        answer = unpacked(message)(), None, ""
    except BaseException as e:  # noqa: BLE001 - it is raised where the result is asked for
        answer = None, e, traceback.format_exc()
    try:
        data = packed(answer)
        if answer[1]:
            unpacked(data)
    except Exception as e:  # noqa: BLE001 - whatever the methods of an object raise
        data = packed((None, EngineError(f"a worker failed: {answer[1] or e}"[:300]), answer[2]))
    return data


def start_tracker() -> None:
    """Start multiprocessing's resource tracker, which otherwise starts with the first process.

    To start it unblocks signals in this thread, so call this before signals are blocked. After a kill it removes the
    semaphores that are left, and does not warn about it.
    """
    before = os.environ.get("PYTHONWARNINGS")
    with starting(), system.masked():
        os.environ["PYTHONWARNINGS"] = ",".join(filter(None, (before, QUIET_TRACKER)))
        try:
            system.start_tracker()
        finally:
            if before is None:
                del os.environ["PYTHONWARNINGS"]
            else:
                os.environ["PYTHONWARNINGS"] = before


def end_children(folder: str, settled: Callable[[], bool] = lambda: True) -> None:
    """Kill all child processes, even stopped ones, and remove the folder to which they wrote, for some seconds at most.

    Until `settled`, a thread may still start a process or make the folder anew: both must stay away for a while then.
    """
    import multiprocessing
    import shutil  # it takes 2 ms with what it imports, and few processes write to a folder

    quiet = 0  # looks that found neither
    for _ in range(_LOOKS):
        for each in (children := multiprocessing.active_children()):
            each.kill()
        for each in children:
            each.join(1)
        quiet = 0 if children or os.path.lexists(folder) else quiet + 1
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder) and (quiet == _QUIET_LOOKS or settled()):
            break
        time.sleep(signals.PATIENCE)
