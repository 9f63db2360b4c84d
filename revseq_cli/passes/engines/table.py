"""The table of engines, and the memory that a pass may use by default. It loads no NumPy, since options name both."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

DEFAULT_MEMORY = 1 << 30  # bytes
# Bytes of a block's input, where the memory allows: enough to hide the cost of opening a file, little enough that a
# block is still in the cache when it is written. The benchmarks of 1, 4 and 16 MiB chose it.
BLOCK_BYTES = 1 << 22
AUTO = "auto"


class Engine(NamedTuple):
    """One way to carry out the blocks of a pass: a row of the table.

    `module`, in this folder, has its function `crew`. A block's input has about `block_bytes` bytes where nothing asks
    for another size. With `travels`, blocks pass between processes, and are held once more on the way and in the
    parent. `uses_cores` says whether it has more than one worker, and `spare` how many more workers than cores it has.
    A `remote` engine takes the address of a scheduler, whose workers are not ours to count.
    """

    name: str
    module: str
    block_bytes: int = BLOCK_BYTES
    travels: bool = False
    uses_cores: bool = True
    spare: int = 0
    remote: bool = False

    @property
    def copies(self) -> int:
        """How often an element of a block is held: input, output, twice its size of scratch; 2 more if it travels."""
        return 6 if self.travels else 4

    def workers(self, cores: int) -> int:
        """How many blocks are under way at once on so many cores."""
        if not self.uses_cores:
            return 1
        return cores + self.spare if cores > 1 else 1

    def load(self) -> Any:  # noqa: ANN401 - a module
        """Its module, which is imported now."""
        return import_module(f"revseq_cli.passes.engines.{self.module}")


SERIAL = Engine("serial", "serial", uses_cores=False)
# A thread more than cores, since the disk takes its time: 4 GiB on two cores took 2.7 s so, and 3.3 s without (medians
# of three).
THREADS = Engine("threads", "threads", spare=1)
PROCESSES = Engine("processes", "processes", travels=True)
# dask's scheduler takes some milliseconds for each block: 4 GiB took 7.6 s in blocks of 8 MiB, and 5.7, 4.8 and 4.5 s
# in those of 16, 32 and 64.
DASK = Engine("dask", "cluster", block_bytes=1 << 26, travels=True, remote=True)

ENGINES = {each.name: each for each in (SERIAL, THREADS, PROCESSES, DASK)}
NAMES = (AUTO, *ENGINES)
