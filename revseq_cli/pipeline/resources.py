"""How much of the machine a pass may use, and the engines that can run it."""

from __future__ import annotations

from dataclasses import dataclass

from revseq_cli.core import platform
from revseq_cli.files.budget import DEFAULT_MEMORY

AUTO = "auto"
SERIAL = "serial"
PROCESSES = "processes"
DASK = "dask"
ENGINES = (SERIAL, PROCESSES, DASK)


@dataclass(frozen=True)
class Resources:
    """How much of the machine a pass may use.

    `engine` is one of ENGINES, or AUTO for the best of them. `cores` is 0 for all that this process
    may use. `memory` is the limit in bytes for all workers together; with dask, for each thread of
    its workers. `scheduler` is the address of dask's scheduler, "" for that of dask's own
    configuration.
    """

    engine: str = AUTO
    cores: int = 0
    memory: int = DEFAULT_MEMORY
    scheduler: str = ""

    @property
    def usable_cores(self) -> int:
        """The number of cores that was asked for, or else that this process may use."""
        return self.cores or platform.cores()

    @property
    def on_cluster(self) -> bool:
        """Whether workers may be on other machines, with other folders and working directories."""
        return self.engine == DASK
