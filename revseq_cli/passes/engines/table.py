"""The table of engines, and the default memory of a pass. It loads no NumPy, since options name both."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, NamedTuple

DEFAULT_MEMORY = 1 << 30  # bytes
# Bytes of a block's input, where the memory allows: so many that opening a file costs little beside them, and so few
# that a block is still in the cache when it is written. It was the fastest of 1, 4 and 16 MiB in the benchmarks.
BLOCK_BYTES = 1 << 22
# gzip takes a worker longer for so many bytes than all else that a block costs, and workers end at about one time.
ENCODED_BYTES = 1 << 20
AUTO = "auto"


class Engine(NamedTuple):
    """One way to run the tasks of a pass: a row of the table.

    `module`, in this folder, has its function `crew`. A block's input has about `block_bytes` bytes, unless chunks or
    memory need another size, or `encoded_bytes` if filters work on it. With `travels`, what is not in a file passes
    between processes. It has a worker for each core, up to `most`, and `spare` more where there are several. A `remote`
    engine takes the address of a scheduler, which has workers of its own.
    """

    name: str
    module: str
    block_bytes: int = BLOCK_BYTES
    encoded_bytes: int = ENCODED_BYTES
    travels: bool = False
    most: int = sys.maxsize
    spare: int = 0
    remote: bool = False

    def workers(self, cores: int) -> int:
        """The number of workers for so many cores."""
        used = min(cores, self.most)
        return used + self.spare if used > 1 else 1

    def load(self) -> Any:  # noqa: ANN401 - a module
        """Its module, which is imported now."""
        return import_module(f"revseq_cli.passes.engines.{self.module}")


SERIAL = Engine("serial", "serial", most=1)
# One thread more than cores works while others wait for the disk: 4 GiB on two cores took 2.7 s with it, and 3.3 s
# without (medians of three).
# More than four wait for Python's global lock: 4 GiB in memory took 3.2 s on 4 cores, 3.9 s on 8 and 4.3 s on 16.
THREADS = Engine("threads", "threads", most=4, spare=1)
PROCESSES = Engine("processes", "processes", travels=True)
DASK = Engine("dask", "cluster", travels=True, remote=True)

ENGINES = {each.name: each for each in (SERIAL, THREADS, PROCESSES, DASK)}
NAMES = (AUTO, *ENGINES)
