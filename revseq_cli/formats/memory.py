"""Sources and sinks of tensors in memory: of text, standard input, arguments, and small results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core.tensors import Region
from revseq_cli.files.input_file import Identity
from revseq_cli.formats.contract import (
    BlockWriter,
    FileSink,
    ReadTask,
    Sink,
    Source,
    Storage,
)

if TYPE_CHECKING:
    from revseq_cli.files.new import NewFile


@dataclass(frozen=True)
class _MemoryReadTask:
    """A read task that carries the values of its region, which nobody may overwrite."""

    values: NDArray[Any]

    def read(self) -> NDArray[Any]:
        return self.values


class MemorySource(Source):
    """A tensor in memory.

    `order` must be given for a copy of a tensor: if a dimension has size 1, the flags of `values`
    do not tell the memory order.
    """

    def __init__(
        self,
        name: str,
        values: NDArray[Any],
        storage: Storage,
        identity: Identity | None = None,
        order: str = "",
        columns: tuple[str, ...] = (),
        path: str = "",
        key: str = "",
    ) -> None:
        self.name = name
        self._values = values
        self.storage = storage
        self.identity = identity
        self.dtype = values.dtype
        self.sizes = values.shape
        self.order = order or _find_order(values)
        self.columns = columns
        self.path = path
        self.key = key

    @classmethod
    def of(cls, source: Source) -> MemorySource:
        """A copy of another source in memory."""
        return cls(
            source.name, source.read(), source.storage, order=source.order, columns=source.columns
        )

    def read_task(self, region: Region) -> ReadTask:
        # Without dimensions, NumPy returns a scalar.
        values = np.asarray(self._values[region]).view()
        values.flags.writeable = False
        return _MemoryReadTask(values)


def _find_order(values: NDArray[Any]) -> str:
    is_fortran = values.flags.f_contiguous and not values.flags.c_contiguous
    return "F" if is_fortran else "C"


ReturnedBlock = tuple[Region, NDArray[Any]]


class ReturningWriter:
    """A block writer that writes nothing, but returns each block to the parent."""

    def deliver(self, region: Region, values: NDArray[Any]) -> ReturnedBlock:
        return region, values


class _GatheringSink(Sink):
    """A base of sinks that gather the whole tensor in memory, in `values`."""

    values: NDArray[Any]
    in_workers = False

    def block_writer(self) -> BlockWriter:
        return ReturningWriter()

    def receive(self, write_result: object) -> None:
        region, values = cast("ReturnedBlock", write_result)
        self.values[region] = values


class MemorySink(_GatheringSink):
    """A tensor gathered in memory, with the sizes, data type and memory order of `template`."""

    def __init__(self, template: Source) -> None:
        self._order = template.order
        self._columns = template.columns
        self.values = np.empty(template.sizes, template.dtype)

    def __exit__(self, *_: object) -> None:
        pass

    def open_output(self) -> Source:
        storage = Storage("memory", {})
        return MemorySource(
            "the result", self.values, storage, order=self._order, columns=self._columns
        )


class WholeSink(_GatheringSink, FileSink):
    """A new file that is written whole, when all values are there.

    `encode` makes the bytes of the file from the values, and `open_source` opens it at a path.
    """

    def __init__(
        self,
        file: NewFile,
        template: Source,
        encode: Callable[[NDArray[Any]], bytes],
        open_source: Callable[[str], Source],
    ) -> None:
        super().__init__(file)
        self.values = np.empty(template.sizes, template.dtype)
        self._encode = encode
        self._open_source = open_source

    def finish(self) -> None:
        self.file.write(self._encode(self.values))

    def reopen(self) -> Source:
        return self._open_source(self.file.temporary)
