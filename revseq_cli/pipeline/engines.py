"""The table of engines, and the default memory of a pass. It loads no NumPy, since options name both."""

from __future__ import annotations

import sys
from pkgutil import resolve_name
from typing import Any, NamedTuple

DEFAULT_MEMORY = 1 << 30  # bytes
AUTO = "auto"


class Engine(NamedTuple):
    """One way to run the tasks of a pass: a row of the table.

    `executor` is its class, in a module of this package. With `travels`, what is not in a file passes between
    processes. It has a worker for each core, up to `most`, and `spare` more where there are several. A `remote` engine
    takes the address of a scheduler, which has workers of its own.
    """

    name: str
    executor: str
    travels: bool = False
    most: int = sys.maxsize
    spare: int = 0
    remote: bool = False

    def workers(self, cores: int) -> int:
        """The number of workers for so many cores."""
        used = min(cores, self.most)
        return used + self.spare if used > 1 else 1

    def load(self) -> Any:  # noqa: ANN401 - a class
        """The class of its executor, whose module is imported now."""
        return resolve_name(f"revseq_cli.pipeline.{self.executor}")


SERIAL = Engine("serial", "executors:Serial", most=1)
# One thread more than cores works while others wait for the disk: 4 GiB on two cores took 2.7 s with it, and 3.3 s
# without (medians of three).
# More than four wait for Python's global lock: 4 GiB in memory took 3.2 s on 4 cores, 3.9 s on 8 and 4.3 s on 16.
THREADS = Engine("threads", "executors:Threads", most=4, spare=1)
PROCESSES = Engine("processes", "executors:Processes", travels=True)
DASK = Engine("dask", "cluster:Cluster", travels=True, remote=True)

ENGINES = {each.name: each for each in (SERIAL, THREADS, PROCESSES, DASK)}
NAMES = (AUTO, *ENGINES)
