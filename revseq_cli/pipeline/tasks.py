"""The tasks of a pass, one for each block; who runs them; how their results reach the output; and the pass that copies.

Tasks run in this process, in processes of its own, or on the workers of a dask scheduler. A loop gives batches of them
to an executor of futures, a bounded number at a time. It waits for a moment only, and looks at signals between.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from revseq_cli.core import platform, signals, thresholds
from revseq_cli.core.errors import EngineError, FormatError
from revseq_cli.core.tensors import Region
from revseq_cli.formats.contract import BlockWriter, ReadTask, Sink, Source
from revseq_cli.formats.npy import scratch
from revseq_cli.pipeline import DASK, SERIAL
from revseq_cli.pipeline.plan import Plan, plan_move, sizes_of

if TYPE_CHECKING:
    from concurrent.futures import Future

_BATCH_TASKS = 256  # at most, in one batch


@dataclass(frozen=True)
class Task:
    """The work on one block, which pickles: `step` gets what the read tasks read, and the block writer stores it."""

    step: Callable[..., Any]
    read_tasks: tuple[ReadTask, ...]
    region: Region
    block_writer: BlockWriter | None = None

    def __call__(self) -> tuple[Region, Any]:
        """The region, and the step's result; or, with a block writer, what the parent has left to do."""
        arrays = [read_task.read() for read_task in self.read_tasks]
        result = self.step(*arrays)
        del arrays  # the block writer may take a while, and memory
        return self.region, self.block_writer.deliver(self.region, result) if self.block_writer else result


class _Executor(Protocol):
    """What the loop needs of processes and of dask; `check` raises EngineError if nobody is left to end a batch."""

    @property
    def workers(self) -> int: ...
    def submit(self, task: Callable[[], Any]) -> Future[Any]: ...
    def result(self, future: Future[Any]) -> Any: ...  # noqa: ANN401 - the task's own
    def check(self) -> None: ...
    def close(self) -> None: ...


def results(tasks: Iterable[Callable[[], Any]], plan: Plan, *, in_order: bool = False) -> Generator[Any, None, None]:
    """Run the tasks with the plan's engine; Stopped by a signal.

    The results come in the order in which their batches end, or, with `in_order`, in that of the tasks.
    """
    platform.keep_freed_memory()
    if plan.engine == SERIAL:
        for task in tasks:
            yield task()
            signals.check()
        return
    executor: _Executor
    if plan.engine == DASK:
        from revseq_cli.pipeline.cluster import Cluster

        executor = Cluster(plan.scheduler)
    else:
        from revseq_cli.core.processes import Workers

        executor = Workers(plan.workers)
    with contextlib.closing(executor):
        for batch in run(_batches(tasks, plan, executor), executor, in_order=in_order):
            for result in batch:
                yield result
                signals.check()


def _batches(tasks: Iterable[Callable[[], Any]], plan: Plan, executor: _Executor) -> Iterator[Callable[[], list[Any]]]:
    """The tasks in batches: large ones at first, and the last ones small, so that all workers end together.

    What travels between processes is one block at a time. To submit a batch costs the one process for all workers 0.6
    ms: 2 GiB in blocks of 4 MiB cost it 0.3 s, and 0.1 s in batches of eight, where 16 workers need 0.4 s.
    """
    left, tasks = plan.blocks.count, iter(tasks)
    most = 1 if plan.travels else min(_BATCH_TASKS, thresholds.BATCH_ELEMENTS // max(1, plan.blocks.elements))
    size = 1  # dask's workers all try the first
    while batch := tuple(itertools.islice(tasks, size)):
        yield partial(_run_batch, batch)
        left -= len(batch)
        size = max(1, min(most, left // (2 * max(1, executor.workers))))


def _run_batch(tasks: tuple[Callable[[], Any], ...]) -> list[Any]:
    return [task() for task in tasks]


def run(
    batches: Iterator[Callable[[], Any]], executor: _Executor, *, ahead: int = 2, in_order: bool = False
) -> Iterator[Any]:
    """The results of each batch; so many batches for each worker are under way that its next one is there in time.

    With `in_order`, those that end too early are kept, and as many fewer are submitted.
    """
    from concurrent.futures import FIRST_COMPLETED, wait  # it takes 3 ms, and most jobs are serial

    pending: dict[Future[Any], int] = {}
    ended: dict[int, Any] = {}
    submitted = yielded = 0
    while True:
        while len(pending) + len(ended) < max(ahead, ahead * executor.workers):
            batch = next(batches, None)
            if batch is None:
                break
            pending[executor.submit(batch)] = submitted
            submitted += 1
        if not pending:
            return
        done = [*wait(pending, signals.PATIENCE, FIRST_COMPLETED).done]
        signals.check()
        if not done:
            executor.check()
        while done:  # keeps no future, so that a scheduler forgets each result before the next tasks
            future = done.pop()
            ended[pending.pop(future)] = executor.result(future)
            del future
        while ended and (not in_order or yielded in ended):
            yield ended.pop(yielded if in_order else next(iter(ended)))
            yielded += 1


def completed(
    stage: str, tasks: Iterable[Task], plan: Plan, source: Source, *, in_order: bool = False
) -> Generator[tuple[Region, Any], None, None]:
    """Run a stage of tasks, which together read all of the source: region and result, in the order of `results`."""
    with signals.begun(stage, source.desc.total_bytes) as advance:
        for region, result in results(tasks, plan, in_order=in_order):
            yield region, result
            advance(prod(sizes_of(region)) * source.dtype.itemsize)


def deliver_all(stage: str, tasks: Iterable[Task], sink: Sink, plan: Plan, source: Source) -> None:
    """Run a stage of tasks, and let the sink finish each."""
    for _, write_result in completed(stage, tasks, plan, source, in_order=sink.in_order):
        if write_result is not None:
            sink.receive(write_result)


def copy(source: Source, sink: Sink, plan: Plan) -> None:
    """Copy into the sink, which the caller has entered."""
    tasks = (Task(np.asarray, (source.read_task(region),), region, sink.block_writer(region)) for region in plan.blocks)
    deliver_all("copy", tasks, sink, plan, source)


def move(source: Source, sink: Sink, plan: Plan) -> None:
    """Copy a tensor inside another pass, with that pass's engine and within its memory."""
    copy(source, sink, plan_move(source, sink, plan))


@contextlib.contextmanager
def spooled(source: Source, beside: str, plan: Plan) -> Iterator[Source]:
    """The source; or, if the plan is spooled and the source has chunks, its copy next to the file `beside`."""
    if not (plan.spooled and source.chunks):
        yield source
        return
    with scratch(beside, source) as spool:
        move(source, spool, plan)
        yield spool.written()


def untrue(found: str, where: str) -> EngineError:
    """The error for a file that does not hold what was written to it; one at the same place twice is a bug."""
    again = "run it again: if it fails at the same place, write a .npy file instead, and report this one"
    return EngineError(
        f"what was written {found}", "the same bits", f"{again}; if not, test the disk and the memory", where
    )


@contextlib.contextmanager
def reading_back(written: Source) -> Iterator[None]:
    """EngineError for what is damaged of an output: the hints of other errors are about files that others wrote."""
    try:
        yield
    except FormatError as e:
        if not e.where.startswith(written.name):
            raise
        raise untrue(f"cannot be read: {e.found}", e.where) from None
