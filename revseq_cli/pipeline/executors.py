"""Runs the tasks of a pass: in this process, in processes of its own, or on the workers of a dask scheduler.

A loop gives batches of tasks to an executor of futures, a bounded number at a time. It waits for a moment only, and
looks at signals between.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from revseq_cli.core import signals, system, thresholds
from revseq_cli.pipeline import DASK, SERIAL

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from concurrent.futures import Future

    from revseq_cli.pipeline.plan import Plan

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Batch:
    """Tasks that a worker does one after another, since to submit each alone would cost much; it pickles if they do."""

    tasks: tuple[Callable[[], Any], ...]

    def __call__(self) -> list[Any]:
        """The results of all tasks."""
        return [task() for task in self.tasks]


class Executor(Protocol):
    """What the loop needs of an engine."""

    @property
    def workers(self) -> int:
        """How many tasks can be done at once now."""

    def submit(self, batch: Batch) -> Future[Any]:
        """Give a batch to a worker; EngineError if none can be started."""

    def result(self, future: Future[Any]) -> list[Any]:
        """The results of a batch that has ended; its error is raised."""

    def check(self) -> None:
        """EngineError if no worker is left to end a batch."""

    def close(self) -> None:
        """End the workers, or what they do for this pass."""


def results(
    tasks: Iterable[Callable[[], _Result]], plan: Plan, *, in_order: bool = False
) -> Generator[_Result, None, None]:
    """Run the tasks with the plan's engine; Stopped by a signal.

    The results come in the order in which their batches end, or, with `in_order`, in that of the tasks.
    """
    system.keep_freed_memory()
    if plan.engine == SERIAL:
        for task in tasks:
            yield task()
            signals.check()
        return
    with contextlib.closing(_executor(plan)) as executor:
        for batch in run(_batches(tasks, plan, executor), executor, in_order=in_order):
            for result in batch:
                yield result
                signals.check()


def _executor(plan: Plan) -> Executor:
    if plan.engine == DASK:
        from revseq_cli.pipeline.cluster import Cluster

        return Cluster(plan)
    from revseq_cli.core.processes import Workers

    return Workers(plan.workers)


def _batches(tasks: Iterable[Callable[[], Any]], plan: Plan, executor: Executor) -> Iterator[Batch]:
    """The tasks in batches: large ones at first, and the last ones small, so that all workers end together.

    What travels between processes is one block at a time. To submit a batch costs the one process for all workers 0.6
    ms: 2 GiB in blocks of 4 MiB cost it 0.3 s, and 0.1 s in batches of eight, where 16 workers need 0.4 s.
    """
    left, tasks = plan.blocks.count, iter(tasks)
    most = thresholds.BATCH_ELEMENTS // max(1, plan.blocks.elements)
    most = 1 if plan.travels else max(1, min(thresholds.BATCH_TASKS, most))
    size = 1  # dask's workers all try the first
    while batch := tuple(itertools.islice(tasks, size)):
        yield Batch(batch)
        left -= len(batch)
        size = max(1, min(most, left // (2 * max(1, executor.workers))))


def run(batches: Iterator[Batch], executor: Executor, *, in_order: bool = False) -> Iterator[list[Any]]:
    """The results of each batch; two batches for each worker are under way, so that its next one is there in time.

    With `in_order`, those that end too early are kept, and as many fewer are submitted.
    """
    from concurrent.futures import FIRST_COMPLETED, wait  # it takes 3 ms, and most jobs are serial

    pending: dict[Future[list[Any]], int] = {}
    ended: dict[int, list[Any]] = {}
    submitted = yielded = 0
    while True:
        while len(pending) + len(ended) < max(2, 2 * executor.workers):
            batch = next(batches, None)
            if batch is None:
                break
            pending[executor.submit(batch)] = submitted
            submitted += 1
        if not pending:
            return
        done = [*wait(pending, signals.PATIENCE, FIRST_COMPLETED).done]
        signals.check()
        executor.check()
        while done:  # keeps no future, so that a scheduler forgets each result before the next tasks
            future = done.pop()
            ended[pending.pop(future)] = executor.result(future)
            del future
        while ended and (not in_order or yielded in ended):
            yield ended.pop(yielded if in_order else next(iter(ended)))
            yielded += 1
