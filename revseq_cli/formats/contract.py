"""The contract of all formats: what a format's module has, and what sources and sinks do.

A module opens a tensor as a `Source`, which has read only the header, and creates a `FileSink` for
a new one. For each block, the source makes a read task, and the sink a block writer: both are
pickled and run in a worker. What the block writer returns is received by the sink in the parent.

Most formats have no source or sink of their own. `raw` has a source and a sink for elements that
are in a file as they are in memory, and `memory` for tensors that are parsed and written as a
whole.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from revseq_cli import files
from revseq_cli.core.dtypes import data_type_of
from revseq_cli.core.errors import make_exists_error
from revseq_cli.core.tensors import DataType, Region, TensorDesc
from revseq_cli.files.input_file import Identity
from revseq_cli.formats.refusals import make_name_taken_error

if TYPE_CHECKING:
    from revseq_cli.files.new import NewFile
    from revseq_cli.formats.attributes import Meaning
    from revseq_cli.formats.listings import Contents
    from revseq_cli.text.examples import Text


class Storage(NamedTuple):
    """How a tensor is stored: the format, and a word or two for the user about each property."""

    format: str
    details: dict[str, str]
    label: str = ""  # what people call the file, where the format has another name: "NetCDF-4"
    is_compressed: bool = False  # by codecs of Zarr; other formats say it only in `details`


class ReadTask(Protocol):
    """Reads one region, in the worker that computes it; small, frozen, and picklable."""

    def read(self) -> NDArray[Any]:
        """The values of the region, with the source's `dtype`, in any memory order.

        The caller may overwrite them, unless they are read-only. TensorIOError if the file cannot
        be read, or has changed; FormatError if a chunk or a member is damaged.
        """


class TextTypes(NamedTuple):
    """The data type of an input that states none itself, as a text or a raw buffer."""

    asked: DataType | None  # what the user asks for
    default: DataType  # without that
    # The shape of a raw buffer, where -1 stands for as many as its bytes allow.
    sizes: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Original:
    """The file that an output is a copy of, with one tensor added or replaced.

    It is INPUT's file, or the output's own file, which exists already.
    """

    path: str
    identity: Identity | None  # the state of the file; a Zarr store has none
    input_key: str | None = None  # INPUT's name in its file; None for the output's own file
    overwrite: bool = False  # whether a tensor in the output's own file may be replaced

    @property
    def is_input(self) -> bool:
        """Whether it is INPUT's file."""
        return self.input_key is not None

    def require_replaceable(self, key: str) -> None:
        """Raise the error for a tensor of that name in the file, unless it may be replaced."""
        if self.is_input and key != self.input_key:
            raise make_name_taken_error(key, self.path)
        if not self.is_input and not self.overwrite:
            raise make_exists_error(f"{self.path}::{key}")


class Downloads(NamedTuple):
    """How many requests to servers, and the bytes of their answers."""

    requests: int
    bytes: int


class Source(ABC):
    """An input tensor whose header has been read, and whose values have not."""

    name: str  # the user's name for it
    dtype: np.dtype[Any]
    sizes: tuple[int, ...]
    storage: Storage
    path = ""  # of its file; a tensor in memory has none
    identity: Identity | None = None  # the state of that file
    key = ""  # its name inside its file
    order: str = "C"  # of its elements in memory: "C" or "F"
    chunks: tuple[int, ...] | None = None  # the sizes of a chunk
    encoded = False  # whether filters decode its chunks
    dimensions: tuple[str, ...] = ()  # their names, "" for a nameless one; () if none has a name
    notes: tuple[str, ...] = ()  # for the user, about what was read
    # Of a tensor in text: whether the text states no data type; what else is in the text, as keys
    # of a JSON object or columns of a table; and the header of a table.
    assumes_type = False
    others: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    @property
    def desc(self) -> TensorDesc:
        """Data type and sizes."""
        return TensorDesc(data_type_of(self.dtype), self.sizes)

    @property
    def files(self) -> list[Identity]:
        """The files that it is from, which no output may overwrite."""
        return [self.identity] if self.identity else []

    @property
    def downloads(self) -> Downloads:
        """What servers are asked for to read all of it: nothing for a file of this machine."""
        if self.identity is None or not files.waits_for_servers(self.path):
            return Downloads(0, 0)
        size = self.identity.size
        return Downloads(files.count_requests(self.path, size), size)

    @property
    def cut_alignments(self) -> list[tuple[int, ...]]:
        """The grids at which blocks may be cut: (1, 32) has cuts at each row and every 32 columns.

        The first grid is the cheapest, and the last is the finest, for little memory. Here it is
        only one grid: the chunks, or single elements if there are no chunks.
        """
        return [self.chunks or (1,) * len(self.sizes)]

    @property
    def least_bytes(self) -> int:
        """The least bytes of memory that reading a part takes: those of a chunk.

        With filters, the chunk is also in memory as it is stored and as it is read.
        """
        if not self.chunks:
            return 0
        copies = 3 if self.encoded else 1
        return copies * prod(self.chunks) * self.dtype.itemsize

    @abstractmethod
    def read_task(self, region: Region) -> ReadTask:
        """What reads a region, in this process or another; RevseqError if nothing could read it."""

    def read_each(self, regions: Sequence[Region]) -> list[NDArray[Any]]:
        """The elements of a few small regions; a store at an address is asked for all at once."""
        return [self.read_task(region).read() for region in regions]

    def recheck(self) -> None:
        """TensorIOError if the file is not as it was when its header was read."""
        if self.identity is not None and self.path:
            files.recheck(self.path, self.identity)

    def original_for(self, _output: str) -> Original | None:
        """Its file, if an output at that path may be a copy of it, and None otherwise."""
        return Original(self.path, self.identity, input_key=self.key)

    def meaning(self) -> Meaning | None:
        """What its file says about it besides its elements; None in a format without attributes."""
        return None

    @property
    def container(self) -> str:
        """The path of what holds it and other tensors: its file, or its store."""
        return self.path

    def is_item(self, key: str) -> bool:
        """Whether a list of its file calls it by this name."""
        return key.strip("/") == self.key.strip("/")

    def read(self) -> NDArray[Any]:
        """The whole tensor."""
        return self.read_task(tuple(slice(0, size) for size in self.sizes)).read()


class BlockWriter(Protocol):
    """The half of a sink that runs in the worker that computes one region; small and picklable."""

    def deliver(self, region: Region, values: NDArray[Any]) -> object:
        """Store the values of a region, in any byte order and memory order.

        Returns what `Sink.receive` needs to do the rest, or None. TensorIOError if they cannot be
        written, as on a full disk; FormatError if the format's filters cannot encode them.
        """


class Sink(contextlib.AbstractContextManager["Sink", None]):
    """An output tensor, as a context that is entered before the first block.

    When the context is left without an error, the output is complete.
    """

    in_workers = True  # whether block writers store the values, and not `receive` in the parent
    in_order = False  # whether `receive` needs the blocks in their order
    chunks: tuple[int, ...] | None = None  # as in a source, like `encoded`
    encoded = False
    left_out: tuple[str, ...] = ()  # what it does not keep of its source's meaning, in words
    notes: tuple[str, ...] = ()  # for the user
    next_to = ""  # the file next to which the pass puts its temporary files

    @abstractmethod
    def block_writer(self) -> BlockWriter:
        """What stores a block, of whole chunks if there are chunks; made in the parent."""

    @abstractmethod
    def open_output(self) -> Source:
        """The complete output, open for reading, before it gets its name."""

    def write_in_parent(self) -> None:
        """Let the parent write all values, for workers that do not see its files."""
        self.in_workers = False

    def add_notes(self, notes: tuple[str, ...]) -> None:
        """Add notes for the user."""
        self.notes += notes

    def receive(self, write_result: object) -> None:  # most sinks have nothing left to do
        """Do what a block writer left for the parent; TensorIOError if it cannot be written."""


class FileSink(Sink):
    """A sink of one new file or folder.

    `start`, `finish`, `abandon` and `reopen` work on the temporary file. A `FileTransaction` around
    the sink creates that file, and gives it its name at the end.
    """

    def __init__(self, file: NewFile) -> None:
        self.file = file
        self.next_to = file.next_to
        self._finished = False

    def start(self) -> None:
        """Make the file ready for blocks."""

    def finish(self) -> None:
        """Complete the file after the last block."""

    def abandon(self) -> None:
        """Close the file after an error; it is removed afterwards."""

    @abstractmethod
    def reopen(self) -> Source:
        """The complete file, as an input."""

    def open_output(self) -> Source:
        self._complete()
        return self.reopen()

    def _complete(self) -> None:
        if not self._finished:
            self.finish()
            self._finished = True

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:  # a signal, too: the file is closed, and the error goes on
            self.abandon()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._complete()
        finally:
            if kind is not None or not self._finished:
                self.abandon()


class Head(NamedTuple):
    """The first bytes of a file, and the state of the file."""

    identity: Identity
    data: bytes


class Location(Protocol):
    """Where a tensor is, as the user says it."""

    @property
    def path(self) -> str:
        """Its file."""

    @property
    def key(self) -> str | None:
        """Its name inside the file, if one is typed."""

    @property
    def text(self) -> Text:
        """The whole text of a text file."""

    @property
    def head(self) -> Head | None:
        """The first bytes of a .npy file, by which it was recognized."""


class FormatModule(Protocol):
    """The functions of a format's module. Which it must have is in its row of the table.

    A format that is only read has no `create_sink`. `contents` is for formats with `can_list`, and
    `write_to` for those with `can_print`. Arguments are passed by position.
    """

    def open_source(self, location: Location, types: TextTypes) -> Source:
        """Read the header of a tensor, or a whole text.

        FormatError if the file has several and none is named.
        """

    def create_sink(
        self, file: NewFile, template: Source, key: str, original: Original | None
    ) -> FileSink:
        """The sink of a new tensor with the shape and data type of `template`.

        `key` is the tensor's name in the file, "" in a format without names. The output is a copy
        of `original` with the tensor added or replaced, or without it a file of this tensor only.
        Nothing is written yet, but RevseqError is raised for every reason to refuse.
        """

    def contents(self, location: Location, types: TextTypes) -> Contents | None:
        """What the file contains; None for one tensor, or nothing.

        The location has a key only in a format with `has_groups`, where it may be that of a group.
        """

    def write_to(self, stream: BinaryIO, source: Source) -> None:
        """Write the whole tensor into a pipe."""
