"""The contract between stored tensors and the rest: sources and their tickets, sinks and their outlets."""

from __future__ import annotations

import contextlib
import shlex
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol

from revseq_cli.formats.regions import Region
from revseq_cli.formats.storage import positioned
from revseq_cli.formats.storage.together import Together
from revseq_cli.ground import stopping
from revseq_cli.ground.dtypes import data_type_of
from revseq_cli.ground.errors import FormatError, Words, listed
from revseq_cli.ground.tensors import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from types import TracebackType
    from typing import Self

    import numpy as np
    from numpy.typing import NDArray

    from revseq_cli.formats.documents import Text, TextTypes
    from revseq_cli.formats.storage.newfile import NewFile
    from revseq_cli.formats.storage.positioned import Identity

Parcel = tuple[Region, "NDArray[Any]"]

# Other tensors of a file are counted up to here, where to find them takes time.
MOST_OTHERS = 100
# What Keras holds for a decompression bomb: from this size on, more than so many times what is stored.
_BOMB_BYTES, _BOMB_RATIO = 4 << 30, 1000


def try_hint(path: str, key: str = "") -> str:
    """A hint to name that tensor of a file, quoted for a shell."""
    return f"try {shlex.quote(f'{path}::{key}' if key else path)}"


def chosen(
    names: Collection[str], key: str | None, path: str, noun: str = "tensor", likely: Callable[[], str] | None = None
) -> str:
    """The tensor of a file that is named behind ::, or the only one; FormatError lists them.

    `noun` is the format's word for a tensor, and `likely` gives the name for a hint; the first one without it.
    """
    if key is None and len(names) == 1:
        return next(iter(names))
    if key is not None and key in names:
        return key
    hint = try_hint(path, likely() if likely else next(iter(names))) if names else ""
    if key is not None:
        raise FormatError(f"no such {noun}", f"one of {listed(names)}" if names else "", hint, f"{path}::{key}")
    if not names:
        raise FormatError(f"has no {noun}", "a tensor", where=path)
    raise FormatError(f"has {len(names)} {noun}s: {listed(names)}", "the name of one", hint, path)


def left_behind(count: int, noun: str = "tensor", *, or_more: bool = False) -> tuple[Words, ...]:
    """A note on what else is in the file of an input and not in the output; none where that is nothing."""
    if not count:
        return ()
    nouns = f"{noun} is" if count == 1 else f"{noun}s are"
    text = f"{count:,}{' or more' * or_more} other {nouns} not carried over: {{}} keeps them"
    return (Words.of(text, keep_others=""),)


def refuse_bomb(declared: int, stored: int, hint: str, where: str) -> None:
    """FormatError for what would unpack to far more bytes than are stored."""
    if declared > _BOMB_BYTES and declared > _BOMB_RATIO * stored:
        found = f"declares {declared} bytes and stores {stored}"
        raise FormatError(found, f"at most {_BOMB_RATIO} times what is stored", hint, where)


class Storage(NamedTuple):
    """How a tensor lies in its file, for a person: a word or two for each property."""

    format: str
    details: dict[str, str]


class Ticket(Protocol):
    """The right to read one region, wherever it is computed: small, frozen, and it pickles."""

    def read(self) -> NDArray[Any]:
        """The values of the region."""


class Source(ABC):
    """An input tensor whose header has been read and whose values have not.

    `name` is what the user called it, `key` its name among the tensors of its file; `order` is "C" or "F"; `grain`
    has, for each dimension, the multiple of indices at which it is cheap to cut; `chunks` are the sizes of what can
    only be decoded whole, if there are such; `path` and `identity` tell which state of which file it is, and
    `described` is the file that led there, where that is another one, such as a model; `siblings` is the number of
    other tensors in its file, where that costs nothing to know.
    """

    name: str
    dtype: np.dtype[Any]
    sizes: tuple[int, ...]
    storage: Storage
    key = ""
    order: str = "C"
    chunks: tuple[int, ...] | None = None
    encoded = False
    identity: Identity | None = None
    described: Identity | None = None
    path = ""
    siblings = 0

    # Whether threads can read it side by side; HDF5 has one lock for all.
    reads_in_parallel = True

    @property
    def desc(self) -> TensorDesc:
        """Data type and sizes."""
        return TensorDesc(data_type_of(self.dtype), self.sizes)

    @property
    def files(self) -> list[Identity]:
        """The files that must not be written."""
        return [each for each in (self.identity, self.described) if each]

    @property
    def each_once(self) -> Source:
        """The same without repetitions, where an element stands for several."""
        return self

    @property
    def reads_anywhere(self) -> bool:
        """Whether any region is cheap to read, by any thread: nothing of it is decoded, and no lock is in the way."""
        return self.chunks is None and self.reads_in_parallel

    @property
    def grain(self) -> tuple[int, ...]:
        """The chunk's sizes, so that no chunk is decoded twice; anywhere where there is none."""
        return self.chunks or (1,) * len(self.sizes)

    @property
    def finest_grain(self) -> tuple[int, ...]:
        """The smallest multiple that makes sense where memory is short."""
        return self.grain

    @abstractmethod
    def ticket(self, region: Region) -> Ticket:
        """The right to read that region."""

    @contextlib.contextmanager
    def at_hand(self, beside: str = "") -> Iterator[Source]:  # noqa: ARG002 - most sources are
        """The tensor where regions can be read in any order; what is unpacked for that lies near the file `beside`."""
        yield self

    def recheck(self) -> None:
        """TensorIOError if its file is not as it was."""
        if self.identity is not None and self.path:
            with positioned.opened(self.path, self.identity):
                pass

    def others(self) -> int:
        """How many other tensors its file has; MOST_OTHERS may stand for more."""
        return self.siblings

    def gaps(self) -> tuple[str, ...]:
        """What is not stored of it and read as something else, in words: for those who ask how sure the values are."""
        return ()

    def read(self) -> NDArray[Any]:
        """The whole tensor."""
        return self.ticket(tuple(slice(0, size) for size in self.sizes)).read()


class Outlet(Protocol):
    """The half of a sink that works where a block was computed; it pickles."""

    def deliver(self, region: Region, values: NDArray[Any]) -> object:
        """Store the values; what is left for the parent to do is returned."""


class Layout(NamedTuple):
    """How an output is to be stored, where the formats' own defaults are not wanted.

    `chunks` is "keep", "auto" or sizes, and `compression` is "keep", "none" or gzip's level from 0 to 9: both are about
    HDF5 alone. `keep_others` asks for a copy of the input's whole file, in which only this tensor is new.
    """

    chunks: str | tuple[int, ...] = "keep"
    compression: str | int = "keep"
    keep_others: bool = False

    @property
    def changes_storage(self) -> bool:
        """Whether it asks for other chunks or another compression than the input has."""
        return (self.chunks, self.compression) != ("keep", "keep")


class Sink(ABC):
    """An output tensor under way: entered before the first block, and complete when left without an error.

    `chunks` are the sizes of what can only be encoded whole, if there are such, and `encoded` whether filters do it;
    `notes` says what of the input's file could not be carried over; `beside` is the file near which there is room.
    """

    chunks: tuple[int, ...] | None = None
    encoded = False
    notes: tuple[str | Words, ...] = ()
    beside = ""

    @abstractmethod
    def outlet(self) -> Outlet:
        """The half for the workers."""

    @abstractmethod
    def written(self) -> Source:
        """What was written, complete and open for reading, before it gets its name."""

    def receive(self, parcel: object) -> None:  # noqa: B027 - most sinks have nothing left to do
        """Finish what an outlet left to do; called in the parent, in no set order."""

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class FileSink(Sink):
    """A sink that is one new file, or one new folder: its steps work on the temporary file.

    The file gets its name when the sink is left without an error; or later, where a `Together` was entered before.
    """

    def __init__(self, file: NewFile) -> None:
        self.file, self.beside = file, file.name
        self._alone = Together(file)
        self._finished = False

    @abstractmethod
    def start(self) -> None:
        """Make the file ready for blocks."""

    def finish(self) -> None:
        """Complete the file after the last block."""

    def abandon(self) -> None:
        """Let go of the file, which will be removed."""

    @abstractmethod
    def reopen(self) -> Source:
        """The complete file, as an input."""

    def written(self) -> Source:
        """What was written, complete and open for reading, before it gets its name."""
        self._finish()
        return self.reopen()

    def digest(self) -> str:
        """SHA-256 of the complete file's bytes, before it gets its name."""
        import hashlib  # seldom asked for

        self._finish()
        digest = hashlib.sha256()
        with Path(self.file.temporary).open("rb") as file:
            while data := file.read(1 << 20):
                stopping.check()
                digest.update(data)
        return digest.hexdigest()

    def _finish(self) -> None:
        if not self._finished:
            self.finish()
            self._finished = True

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            if not self.file.is_created:  # otherwise it gets its name together with others
                stack.enter_context(self._alone)
            stack.push(self._finish_or_abandon)
            self.start()
            self._leaving = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaving.__exit__(kind, error, trace)
        self.notes += tuple(self._alone.notes)

    def _finish_or_abandon(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._finish()
        else:
            self.abandon()


class Address(Protocol):
    """Which tensor is meant, as far as the module of a format needs to know; a `Reference` is one."""

    @property
    def path(self) -> str:
        """The path of the file."""

    @property
    def key(self) -> str | None:
        """The name of the tensor inside the file, where one is given."""

    @property
    def text(self) -> Text:
        """The whole text of a text file, which is read once; FormatError for what is no text."""


class FormatModule(Protocol):
    """What the module of a format has, by the flags of its row in the table."""

    def open_source(self, address: Address, types: TextTypes) -> Source:
        """The tensor, with its header read; RevseqError for what cannot be one."""

    def create_sink(self, file: NewFile, like: Source, key: str, layout: Layout) -> FileSink:
        """The sink of a tensor of the sizes and data type of `like`, named `key`; it refuses what it cannot store."""

    def names_in(self, path: str) -> Iterable[str]:
        """The name of every tensor; of formats that have `names`."""

    def write_to(self, stream: BinaryIO, source: Source) -> None:
        """The whole tensor into a pipe; of formats that `prints`."""
