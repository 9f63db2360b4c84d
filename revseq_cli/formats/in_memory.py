"""Sources and sinks in memory: for text, standard input, arguments, and what is printed whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from revseq_cli.formats.contract import BlockWriter, ReadTask, Sink, Source, Storage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Region, WriteResult
    from revseq_cli.formats.file_io import Identity


@dataclass(frozen=True)
class MemoryReadTask:
    """A read task that carries the values of its region."""

    values: NDArray[Any]

    def read(self) -> NDArray[Any]:
        """The values of the region."""
        return self.values


class MemorySource(Source):
    """A tensor in memory: from text, standard input or an argument."""

    def __init__(self, name: str, values: NDArray[Any], storage: Storage, identity: Identity | None = None) -> None:
        self.name, self._values, self.storage, self.identity = name, values, storage, identity
        self.dtype, self.sizes = values.dtype, values.shape
        self.order = "F" if values.flags.f_contiguous and not values.flags.c_contiguous else "C"

    @classmethod
    def of(cls, source: Source) -> MemorySource:
        """A copy of another source in memory, with its memory order."""
        held = cls(source.name, source.read(), source.storage)
        held.order = source.order
        return held

    def read_task(self, region: Region) -> ReadTask:
        """A read task with the values of the region."""
        return MemoryReadTask(np.asarray(self._values[region]))  # without dimensions, NumPy returns a scalar


class Gathered:
    """A base of sinks that gather the whole tensor in memory, in `values`."""

    values: NDArray[Any]
    in_workers = False

    def block_writer(self, region: Region) -> BlockWriter:  # noqa: ARG002 - every region has the same one
        """A block writer that sends the values to the parent."""
        return Handing()

    def receive(self, write_result: object) -> None:
        """Store a block, which is its region and its values."""
        region, values = cast("WriteResult", write_result)
        self.values[region] = values


class MemorySink(Gathered, Sink):
    """A tensor gathered in memory, with the sizes, data type and memory order of `template`."""

    def __init__(self, template: Source) -> None:
        self._like = template
        self.values = np.empty(template.sizes, template.dtype)

    def __exit__(self, *_: object) -> None:
        pass

    def written(self) -> Source:
        """The gathered tensor."""
        source = MemorySource("the result", self.values, Storage("memory", {}))
        source.order = self._like.order
        return source


class Handing:
    """A block writer that sends every block to the parent."""

    def deliver(self, region: Region, values: NDArray[Any]) -> object:
        """The region and its values."""
        return region, values
