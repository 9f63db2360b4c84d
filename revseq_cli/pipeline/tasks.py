"""The task for one block of a pass, how the results of tasks reach the output, and the pass that copies."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.core import progress
from revseq_cli.core.errors import EngineError, FormatError
from revseq_cli.formats.registry import scratch
from revseq_cli.pipeline.blocks import sizes_of
from revseq_cli.pipeline.executors import results
from revseq_cli.pipeline.plan import Plan, plan_move

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from revseq_cli.formats.contract import BlockWriter, ReadTask, Region, Sink, Source


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


def completed(
    stage: str, tasks: Iterable[Task], plan: Plan, source: Source, *, in_order: bool = False
) -> Generator[tuple[Region, Any], None, None]:
    """Run a stage of tasks, which together read all of the source: region and result.

    They come in the order of their ends, or, with `in_order`, in that of the tasks.
    """
    with progress.begun(stage, source.desc.total_bytes) as advance:
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
