"""The task for one block of a pass, how the results of tasks reach the output, and the pass that copies."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.core import progress
from revseq_cli.core.errors import EngineError, FormatError
from revseq_cli.formats.registry import create_scratch
from revseq_cli.pipeline.arrangement import Arrangement, arrange_move
from revseq_cli.pipeline.executors import results
from revseq_cli.pipeline.plan import sizes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from numpy.typing import NDArray

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
    """The work on one block, which pickles: `step` gets what the read tasks read, and the block writer stores it.

    `count` counts something in what the last read task reads.
    """

    step: Callable[..., Any]
    read_tasks: tuple[ReadTask, ...]
    region: Region
    block_writer: BlockWriter | None = None
    count: Callable[[NDArray[Any]], int] | None = None

    def __call__(self) -> tuple[Region, Any]:
        """The region, and the step's result; or, with a block writer, what the parent has left to do, and the count."""
        arrays = [read_task.read() for read_task in self.read_tasks]
        counted = self.count(arrays[-1]) if self.count else 0
        result = self.step(*arrays)
        del arrays  # the block writer may take a while, and memory
        if self.block_writer is None:
            return self.region, result
        return self.region, (self.block_writer.deliver(self.region, result), counted)


def completed(
    stage: str, tasks: Iterable[Task], arrangement: Arrangement, source: Source, *, in_order: bool = False
) -> Generator[tuple[Region, Any], None, None]:
    """Run a stage of tasks, which together read all of the source: region and result.

    They come in the order of their ends, or, with `in_order`, in that of the tasks.
    """
    with progress.begun(stage, source.desc.total_bytes) as advance:
        for region, result in results(tasks, arrangement, in_order=in_order):
            yield region, result
            advance(prod(sizes_of(region)) * source.dtype.itemsize)


def deliver_all(stage: str, tasks: Iterable[Task], sink: Sink, arrangement: Arrangement, source: Source) -> int:
    """Run a stage of tasks, and let the sink finish each; the sum of their counts."""
    total = 0
    for _, (write_result, count) in completed(stage, tasks, arrangement, source, in_order=sink.in_order):
        if write_result is not None:
            sink.receive(write_result)
        total += count
    return total


def copy(source: Source, sink: Sink, arrangement: Arrangement) -> None:
    """Copy into the sink, which the caller has entered."""
    with source.random_access(sink.beside) as ready:
        tasks = (
            Task(np.asarray, (ready.read_task(region),), region, sink.block_writer(region))
            for region in arrangement.plan
        )
        deliver_all("copy", tasks, sink, arrangement, ready)


def move(source: Source, sink: Sink, arrangement: Arrangement) -> None:
    """Copy a tensor inside another pass, with that pass's engine and within its memory."""
    copy(source, sink, arrange_move(source, sink, arrangement))


@contextlib.contextmanager
def spooled(source: Source, beside: str, arrangement: Arrangement) -> Iterator[Source]:
    """The source; or, if the arrangement is spooled and the source has chunks, its copy next to the file `beside`."""
    if not (arrangement.spooled and source.chunks):
        yield source
        return
    with create_scratch(beside, source) as spool:
        move(source, spool, arrangement)
        yield spool.written()
