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
    processes. It has a worker for each core, up to `most`. A `remote` engine
    takes the address of a scheduler, which has workers of its own.
    """

    name: str
    executor: str
    travels: bool = False
    most: int = sys.maxsize
    remote: bool = False

    def workers(self, cores: int) -> int:
        """The number of workers for so many cores."""
        return min(cores, self.most)

    def load(self) -> Any:  # noqa: ANN401 - a class
        """The class of its executor, whose module is imported now."""
        return resolve_name(f"revseq_cli.pipeline.{self.executor}")


SERIAL = Engine("serial", "executors:Serial", most=1)
PROCESSES = Engine("processes", "executors:Processes", travels=True)
DASK = Engine("dask", "cluster:Cluster", travels=True, remote=True)

ENGINES = {each.name: each for each in (SERIAL, PROCESSES, DASK)}
NAMES = (AUTO, *ENGINES)
