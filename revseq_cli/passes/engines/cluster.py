"""The engine dask: the workers of a scheduler, or of a cluster on this machine. Nothing else imports dask."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import functools
import itertools
import logging
import multiprocessing
import os
import secrets
import shutil
import tempfile
import time
import warnings
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, InvalidStateError, wait
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, TypeVar

from revseq_cli.ground import allocator, stopping
from revseq_cli.ground.errors import EngineError, RevseqError, UsageError, Words
from revseq_cli.ground.processes import start_tracker, starting
from revseq_cli.passes.engines.crew import Crew
from revseq_cli.passes.engines.threads import settle

try:
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

_Result = TypeVar("_Result")
_LOOK = 1.0  # seconds between two looks at which workers there are
_LONGEST_ALONE = 20.0  # seconds without a worker; one that died has by then been started anew
_LONGEST_CALL = 10.0
_LONGEST_START = 60.0
_LONGEST_FAREWELL = 5.0  # seconds; who is asked to end, and does not, is killed
_MOST_UNDER_WAY = 4096  # blocks that the scheduler ever knows, however many workers it has
# What must be the same everywhere, as attributes of modules: a name that every worker can look up, ours or not.
_PACKAGES = {"revseq": "revseq_cli:__version__", "NumPy": "numpy:__version__"}


@contextlib.contextmanager
def crew(arrangement: Arrangement) -> Iterator[Crew]:
    """The workers of the scheduler, or so many of our own, for one pass; they stay for the next one."""
    these = Pass(arrangement.scheduler, arrangement.workers)
    yield Crew(these.submit, these.window, lambda pending: wait(pending, stopping.PATIENCE, FIRST_COMPLETED))


def watched(arrangement: Arrangement) -> str:
    """The address of the page where the workers can be watched, or "none"."""
    return connected(arrangement.scheduler, arrangement.workers).dashboard


def _versions() -> dict[str, str]:
    return {package: resolve_name(name) for package, name in _PACKAGES.items()}


def _do(task: Callable[[], Any], versions: dict[str, str], address: str = "") -> Any:  # noqa: ANN401 - the task's own
    """On a worker: one block, or why not. A worker that joined late has not been asked before, so it is asked here.

    The error is returned: dask would log it there, and fails over tracebacks that it cannot carry.
    """
    address = address or distributed.get_worker().address
    try:
        found = _versions()
        return task() if found == versions else _other_versions(address, found, versions)
    except RevseqError as e:
        e.context = e.context or f"on the worker {address}"
        return e
    except Exception as e:  # noqa: BLE001 - there is nobody else to tell
        return EngineError(f"the worker {address} failed: {type(e).__name__}: {str(e)[:200]}")


async def _rehearse(
    task: Callable[[], Any], versions: dict[str, str], dask_worker: distributed.Worker
) -> RevseqError | None:
    """On a worker, which dask puts in its place by that name: one block. Its result stays there; why not is told.

    On a thread: dask would run it in its event loop, where neither the worker nor zarr could go on meanwhile.
    """
    done = await asyncio.to_thread(_do, task, versions, dask_worker.address)
    return done if isinstance(done, RevseqError) else None


def _is_loss(found: object) -> bool:
    """Whether an answer only says that its worker has gone; our own errors of files are system errors too."""
    return isinstance(found, (OSError, TimeoutError)) and not isinstance(found, RevseqError)


def _other_versions(address: str, found: dict[str, str], wanted: dict[str, str]) -> EngineError:
    differing = [package for package in wanted if found[package] != wanted[package]]
    return EngineError(
        f"the worker {address} has {', '.join(f'{each} {found[each]}' for each in differing)}",
        ", ".join(f"{each} {wanted[each]}, as here" for each in differing), "install the same versions on every worker",
    )  # fmt: skip


@functools.cache
def connected(scheduler: str, workers: int) -> Cluster:
    """The workers of a scheduler, or without one so many of our own, until the process ends.

    To find or to start them is dear, and every pass needs them. When the process ends, nothing of ours is left there.
    """
    logging.disable()  # what dask logs of trouble is worded here, once
    warnings.simplefilter("ignore")
    if scheduler:
        _require_address(scheduler)
    with contextlib.ExitStack() as stack:
        where = scheduler or stack.enter_context(_local(workers))
        client = stack.enter_context(_called(where))
        if not scheduler:
            _waited(lambda: client.run(allocator.keep_freed))  # the processes are ours
        stopping.ending.push(stack.pop_all())
    return Cluster(client, scheduler)


def _apart(function: Callable[[], _Result]) -> Future[_Result]:
    """Its result, on a thread of its own, since dask waits for others in ways that no signal ends.

    The thread, and the processes that it starts, hear no signals: those of a terminal are for us to act on.
    """
    future: Future[_Result] = Future()
    start_tracker()
    with starting(), stopping.masked():
        _thread.start_new_thread(settle, (future, function))
    return future


@contextlib.contextmanager
def _called(where: str | distributed.LocalCluster) -> Iterator[distributed.Client]:
    """The connection; it never comes about where something listens that is not dask."""
    made = _apart(lambda: distributed.Client(where, timeout=_LONGEST_CALL, set_as_default=False))
    try:
        client = _awaited(made, _within(_LONGEST_CALL))
    except RevseqError:
        raise
    except Exception as e:  # noqa: BLE001 - of any kind, where another program answers what dask then tries to read
        why = str(e)[:100] if isinstance(e, OSError) else "what is there speaks another protocol"
        raise EngineError(
            f"no dask scheduler answers: {why}", "one that runs, with the same dask", "dask scheduler", str(where)
        ) from None
    try:
        yield client
    finally:
        with contextlib.suppress(EngineError):  # where there is no thread for it, the scheduler notices the end
            wait([_apart(lambda: client.close(_LONGEST_FAREWELL))], _LONGEST_FAREWELL)


def _require_address(where: str) -> None:
    """UsageError for what no scheduler can have."""
    try:
        scheme, place = parse_address(where, strict=True)
        get_backend(scheme)
        parse_host_port(place)
    except (ValueError, TypeError) as e:  # for a protocol or a port that is none
        found, hint = (
            f"is no address of a dask scheduler: {str(e)[:100]}",
            Words.of("add {}", scheduler="tcp://host:8786"),
        )
        raise UsageError(found, "as tcp://host:8786", hint, where) from None


def _within(seconds: float) -> Callable[[], None]:
    """What raises TimeoutError a moment after so many seconds, which dask itself may have been told to wait."""
    deadline = time.monotonic() + seconds + 1

    def look() -> None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"silent for {seconds:.0f} s")

    return look


def _awaited(future: Future[_Result], look: Callable[[], object]) -> _Result:
    """Its result, with an eye on signals, and on what `look` looks at."""
    while not wait([future], stopping.PATIENCE).done:
        stopping.check()
        look()
    return future.result()


def _waited(function: Callable[[], _Result]) -> _Result:
    """What dask answers, with an eye on signals; TimeoutError where it is silent."""
    return _awaited(_apart(function), _within(_LONGEST_START))


@contextlib.contextmanager
def _local(workers: int) -> Iterator[distributed.LocalCluster]:
    """A scheduler here, and processes of one thread each; they listen on this machine alone."""
    # Python's tracker removes the semaphores of what had to be killed; it need not say so.
    filters = os.environ.get("PYTHONWARNINGS"), "ignore::UserWarning:multiprocessing.resource_tracker"
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, filters))
    folder = tempfile.mkdtemp(prefix="revseq-")
    stopping.at_once[folder] = lambda: _end_processes(folder)
    try:
        with dask.config.set({"temporary-directory": folder}):
            made = _apart(
                lambda: distributed.LocalCluster(
                    n_workers=workers, threads_per_worker=1, processes=True, host="127.0.0.1",
                    dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL + 1,
                    memory_limit=0,  # the plan is the bound
                )
            )  # fmt: skip
            try:
                local = _awaited(made, _within(_LONGEST_START))
            except (OSError, RuntimeError) as e:
                found = f"the workers of dask do not start: {str(e)[:100]}"
                raise EngineError(found, "processes that start", Words.of("add {}", engine="processes")) from None
            try:
                yield local
            finally:
                with contextlib.suppress(EngineError):  # where there is no thread for it, its processes are ended below
                    wait([_apart(local.close)], _LONGEST_FAREWELL)
    finally:
        stopping.at_once.pop(folder, None)
        _end_processes(folder)


def _end_processes(folder: str) -> None:
    """Whatever is left of them, such as one that is stopped; and their folder, which they write to until then."""
    for each in (found := multiprocessing.active_children()):
        each.kill()
    for each in found:
        each.join(1)
    for _ in range(3):  # a thread of dask's may still write there
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder):
            break
        time.sleep(stopping.PATIENCE)


class Cluster:
    """A connection."""

    def __init__(self, client: distributed.Client, scheduler: str) -> None:
        self.client, self.scheduler = client, scheduler
        self.run = secrets.token_hex(4)  # others may run the same blocks
        self.numbers = itertools.count()
        self._threads = 0
        self._looked, self._seen = 0.0, time.monotonic()

    @property
    def dashboard(self) -> str:
        """The address where to watch it, or none."""
        found = _waited(self.client.scheduler_info)["services"]
        return str(self.client.dashboard_link) if "dashboard" in found else "none"

    def threads(self) -> int:
        """How many worker threads there are; EngineError when for long there have been none."""
        now = time.monotonic()
        if now - self._looked >= _LOOK:
            self._looked = now
            with self._worded():
                self._threads = sum(_waited(self.client.nthreads).values())
            if self._threads:
                self._seen = now
            elif now - self._seen > _LONGEST_ALONE:
                raise EngineError(
                    "the scheduler has no worker", "one or more", f"dask worker {self.scheduler}", self.scheduler
                )
        return self._threads

    def answer(self, question: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - whatever dask answers
        """What dask answers, with an eye on signals and on the workers."""
        answered = asyncio.run_coroutine_threadsafe(question, self.client.loop.asyncio_loop)
        with self._worded():
            return _awaited(answered, self.threads)

    @contextlib.contextmanager
    def _worded(self) -> Iterator[None]:
        """What dask raises in our form; those of a block pass as they are."""
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
            # A block's own errors come as results, and so a system's error is about the connection.
            if isinstance(e, (CancelledError, OSError)) or self.client.status != "running":
                hint = "dask scheduler, dask worker, and the same command again; an old output is as it was"
                raise EngineError("the scheduler went away", "one that lives", hint, self.scheduler) from None
            raise EngineError(
                f"a worker failed: {type(e).__name__}: {str(e)[:200]}", "the same revseq and files on every worker",
                where=self.scheduler,
            ) from e  # fmt: skip


class Pass:
    """The workers for one pass: before its first block, every one is asked whether it can do it."""

    def __init__(self, scheduler: str, workers: int) -> None:
        self._cluster, self._met, self._versions = connected(scheduler, workers), False, _versions()

    def window(self) -> int:
        """How many blocks may be under way: enough for every thread to have its next one at hand."""
        return min(max(2, 2 * self._cluster.threads()), _MOST_UNDER_WAY)

    def submit(self, task: Callable[[], Any]) -> Future[Any]:
        """One block, on any worker, and on another when that dies: what is written twice is written alike."""
        if not self._met:
            self._meet(task)
            self._met = True
        key = f"revseq-block-{next(self._cluster.numbers):06}-{self._cluster.run}"
        return _Distant(self._cluster, self._cluster.client.submit(_do, task, self._versions, key=key, pure=False))

    def _meet(self, task: Callable[[], Any]) -> None:
        """EngineError with the first worker that differs; the first block shows whether it reaches the files."""
        while not self._cluster.threads():
            stopping.check()
            time.sleep(stopping.PATIENCE)
        found: dict[str, dict[str, str]] = {}
        for package, name in _PACKAGES.items():
            for address, version in self._ask(resolve_name, name).items():
                found.setdefault(address, dict(self._versions))[package] = (
                    "missing" if isinstance(version, Exception) else version
                )
        for address, versions in found.items():
            if versions != self._versions:
                raise _other_versions(address, versions, self._versions)
        for error in self._ask(_rehearse, task, self._versions).values():
            if error:
                raise error

    def _ask(self, function: Callable[..., Any], *arguments: object) -> dict[str, Any]:
        """Each worker's answer, or its error; those that have gone meanwhile are left out."""
        run = self._cluster.client.run
        answers = self._cluster.answer(run(function, *arguments, on_error="return", asynchronous=True))
        return {address: found for address, found in answers.items() if not _is_loss(found)}


class _Distant(Future[Any]):
    """A block under way. Its result stays on the worker until it is asked for: they come here one by one."""

    def __init__(self, cluster: Cluster, future: distributed.Future) -> None:
        super().__init__()
        self._cluster, self._future = cluster, future
        future.add_done_callback(self._end)

    def _end(self, _: distributed.Future) -> None:
        with contextlib.suppress(InvalidStateError):  # it was cancelled here
            self.set_result(None)

    def result(self, timeout: float | None = None) -> Any:  # noqa: ANN401 - whatever the task gives
        """What the task gave, or its error."""
        super().result(timeout)
        done = self._cluster.answer(self._cluster.client.gather(self._future, asynchronous=True))
        if isinstance(done, RevseqError):
            raise done
        return done
