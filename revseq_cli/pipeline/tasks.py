"""The tasks of a pass, one for each block, and where they run.

That is this process, processes of its own, or the workers of a dask scheduler.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from revseq_cli.core import platform, signals, thresholds
from revseq_cli.core.tensors import Region
from revseq_cli.formats.contract import BlockWriter, ReadTask
from revseq_cli.pipeline.plan import Plan
from revseq_cli.pipeline.resources import DASK, SERIAL

if TYPE_CHECKING:
    from revseq_cli.pipeline.executors import Cluster, Workers

_BATCH_TASKS = 256  # at most, in one batch


@dataclass(frozen=True)
class Task:
    """The work on one block, which can be pickled.

    `step` gets what the read tasks read, and the block writer stores its result.
    """

    step: Callable[..., Any]
    read_tasks: tuple[ReadTask, ...]
    region: Region
    block_writer: BlockWriter | None = None

    def __call__(self) -> tuple[Region, Any]:
        """The region, and the step's result; or, with a block writer, what the parent has to do."""
        arrays = [read_task.read() for read_task in self.read_tasks]
        result = self.step(*arrays)
        del arrays  # the block writer may take a while, and memory
        if self.block_writer:
            result = self.block_writer.deliver(self.region, result)
        return self.region, result


def run_tasks(
    tasks: Iterable[Callable[[], Any]], plan: Plan, *, in_order: bool = False
) -> Generator[Any, None, None]:
    """Run the tasks with the plan's engine, and yield their results; Stopped by a signal.

    They come in the order in which their batches end, or, with `in_order`, in that of the tasks.
    """
    platform.keep_freed_memory()
    if plan.engine == SERIAL:
        for task in tasks:
            yield task()
            signals.check()
        return
    from revseq_cli.pipeline import executors  # most jobs are serial

    new_executor: Cluster | Workers
    if plan.engine == DASK:
        new_executor = executors.Cluster(plan.scheduler)
    else:
        new_executor = executors.Workers(plan.workers, writers=plan.workers)
    with new_executor as executor:
        batches = _make_batches(tasks, plan, executor)
        for results in executors.run_batches(batches, executor, in_order=in_order):
            for result in results:
                yield result
                signals.check()


def _make_batches(
    tasks: Iterable[Callable[[], Any]], plan: Plan, executor: Cluster | Workers
) -> Iterator[Callable[[], list[Any]]]:
    """The tasks in batches, which get smaller, so that all workers end together.

    Only the first batch is a single task: a worker begins with it before a large one is pickled.

    If values go from process to process, a batch is one task. Otherwise batches save time: to
    submit one takes 0.6 ms of this process. For 2 GiB in blocks of 4 MiB, that is 0.3 s block by
    block, and 0.1 s in batches of eight; 16 workers do all of the work in 0.4 s.
    """
    tasks = iter(tasks)
    left = plan.blocks.count
    most = 1
    if not plan.carries_values:
        most = min(_BATCH_TASKS, thresholds.BATCH_ELEMENTS // max(1, plan.blocks.elements))
    size = 1
    while batch := tuple(itertools.islice(tasks, size)):
        yield partial(_run_batch, batch)
        left -= len(batch)
        size = max(1, min(most, left // (2 * max(1, executor.workers))))


def _run_batch(tasks: tuple[Callable[[], Any], ...]) -> list[Any]:
    return [task() for task in tasks]
