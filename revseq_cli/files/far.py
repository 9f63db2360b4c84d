"""Files at addresses, open for reading.

Some blocks of each are kept, and neighbours are fetched as one range.

A file of which all will be read is fetched first: see `nearby`.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, NamedTuple, cast

from revseq_cli.core import thresholds
from revseq_cli.core.errors import MissingFileError
from revseq_cli.files import calls
from revseq_cli.files.address import Address, canonical
from revseq_cli.files.base import Identity, InputFile, require_unchanged
from revseq_cli.files.servers import ask
from revseq_cli.files.store import FolderError, State, Store, truncated

_MOST_OPEN = 16  # files of a thread


def identity_of(path: str, state: State) -> Identity:
    """The identity of a file at an address: its address, its content, its size, and its time."""
    content = number_of(state.content) if state.content else 0
    return Identity(number_of(canonical(path)), content, state.size, state.moment, 0)


def number_of(value: object) -> int:
    """A number that is equal for equal values, and for no others."""
    return int.from_bytes(hashlib.blake2b(repr(value).encode(), digest_size=7).digest())


def ask_identity(path: str) -> Identity:
    """The identity of the file now; MissingFileError where there is none."""
    (state,) = ask(path, lambda server: server.state())
    return identity_of(path, state)


@functools.cache
def _files_of_thread(_: tuple[int, int]) -> OrderedDict[str, FarFile]:
    return OrderedDict()


def open_far(path: str, unchanged: Identity | None, *, afresh: bool = False) -> FarFile:
    """The file, which is asked for unless this thread has it, or it must be as at `unchanged`.

    Each later answer must be of the same state.
    """
    files = _files_of_thread(calls.thread())
    key = Address(path).full
    file = files.pop(key, None)
    if file and afresh:
        require_unchanged(ask_identity(path), file.identity, file.name)
    if file is None or unchanged not in (None, file.identity):
        file = FarFile.open(path, unchanged)
    files[key] = file
    while len(files) > _MOST_OPEN:
        files.popitem(last=False)
    return file


def has_files_below(path: str) -> bool:
    """Whether files are below an address, as far as its server lists them."""
    with contextlib.suppress(FolderError, MissingFileError):
        open_far(path, None)
        return False
    with contextlib.suppress(MissingFileError):
        return ask(path, lambda server: server.has_files_below())[0]
    return False


def forget_files() -> None:
    """Forget what this thread has open."""
    _files_of_thread(calls.thread()).clear()


class Run(NamedTuple):
    """A part of a buffer to fill, and the offset of its bytes in the file."""

    offset: int
    buffer: memoryview

    @property
    def stop(self) -> int:
        return self.offset + len(self.buffer)


class FarFile(InputFile):
    """A file at an address, of which a part is read.

    `error` is the first one of its stream, which a library may lose.

    Reads of a block or less go through blocks that are kept. Where one follows the other, more
    blocks are fetched each time. Longer ones are ranges of their own, in pieces, some at once.
    """

    path = ""  # the system does not find its bytes
    error: BaseException | None = None

    def __init__(self, address: Address, identity: Identity) -> None:
        self.address = address
        self.name = address
        self.identity = identity
        self._blocks = OrderedDict[int, bytes]()
        self._next_block = 0  # the one after the last fetch
        self._ahead = 1  # blocks that the last fetch had

    @classmethod
    def open(cls, path: str, unchanged: Identity | None) -> FarFile:
        """The file, with its first bytes where its state is not known."""
        address = Address(path)
        if unchanged:
            return cls(address, unchanged)
        first = max(thresholds.FAR_SMALL, thresholds.FAR_BLOCK)
        (answer,) = ask(path, lambda server: server.begin(first))
        if answer.state is None:
            raise truncated(address)
        file = cls(address, identity_of(path, answer.state))
        whole_blocks = answer.data
        if len(answer.data) < file.identity.size:
            whole_blocks = answer.data[: first - first % thresholds.FAR_BLOCK]
        file._keep(0, whole_blocks)
        return file

    def read_into(self, buffer: memoryview, offset: int) -> None:
        self.read_runs([(offset, buffer)])

    def read_runs(self, runs: Iterable[tuple[int, memoryview]]) -> None:
        """Fill each buffer from its offset.

        So many are asked for together that their bytes are enough.
        """
        waiting: list[Run] = []
        size = 0
        most = thresholds.FAR_PIECE * calls.requests_at_once()
        for offset, buffer in runs:
            run = Run(offset, buffer)
            if run.stop > self.identity.size:
                raise truncated(self.name)
            waiting.append(run)
            size += len(buffer)
            if size >= most:
                self._read_together(waiting)
                waiting, size = [], 0
        self._read_together(waiting)

    def _read_together(self, runs: list[Run]) -> None:
        step = thresholds.FAR_BLOCK
        numbers: set[int] = set()
        for run in runs:
            numbers.update(range(run.offset // step, -(-run.stop // step)))
            if len(numbers) * step > thresholds.FAR_KEPT:
                self._read_ranges(runs)
                return
        self._fetch_blocks(numbers)
        for run in runs:
            self._fill(run)

    def _fill(self, run: Run) -> None:
        """Fill a buffer from the blocks that are kept."""
        done = 0
        while done < len(run.buffer):
            number, start = divmod(run.offset + done, thresholds.FAR_BLOCK)
            part = self._blocks[number][start : start + len(run.buffer) - done]
            run.buffer[done : done + len(part)] = part
            done += len(part)

    def _fetch_blocks(self, numbers: set[int]) -> None:
        """Fetch those blocks that are not kept, neighbours as one range."""
        for number in sorted(numbers & self._blocks.keys()):
            self._blocks.move_to_end(number)
        missing = numbers - self._blocks.keys()
        if not missing:
            return
        missing |= self._choose_ahead(min(missing))
        self._next_block = max(missing) + 1
        ranges = self._ranges_of_blocks(missing)
        try:
            answers = self._fetch(ranges)
        except BaseException as e:
            self.error = self.error or e
            raise
        for (start, _), data in zip(ranges, answers, strict=True):
            self._keep(start, data)
        while len(self._blocks) * thresholds.FAR_BLOCK > 2 * thresholds.FAR_KEPT:
            self._blocks.popitem(last=False)

    def _choose_ahead(self, first: int) -> set[int]:
        """The blocks to fetch before they are asked for.

        There are more each time that one read follows the other.
        """
        count = -(-self.identity.size // thresholds.FAR_BLOCK)
        if self.identity.size <= thresholds.FAR_SMALL:
            return {*range(count)}
        if first != self._next_block:
            self._ahead = 1
            return set()
        self._ahead = min(2 * self._ahead, thresholds.FAR_PIECE // thresholds.FAR_BLOCK)
        stop = min(self._next_block + self._ahead, count)
        return {*range(self._next_block, stop)} - self._blocks.keys()

    def _ranges_of_blocks(self, numbers: set[int]) -> list[tuple[int, int]]:
        """The ranges of these blocks, neighbours as one."""
        step = thresholds.FAR_BLOCK
        ranges: list[tuple[int, int]] = []
        for number in sorted(numbers):
            start = number * step
            stop = min(self.identity.size, start + step)
            if ranges and ranges[-1][1] == start and stop - ranges[-1][0] <= thresholds.FAR_PIECE:
                ranges[-1] = (ranges[-1][0], stop)
            else:
                ranges.append((start, stop))
        return ranges

    def _keep(self, start: int, data: bytes) -> None:
        """Keep the blocks of some bytes, which begin with a block."""
        step = thresholds.FAR_BLOCK
        for done in range(0, len(data), step):
            self._blocks[(start + done) // step] = data[done : done + step]

    def _read_ranges(self, runs: list[Run]) -> None:
        """Fill the buffers, of which nothing is kept.

        Those that lie near each other are parts of one range.
        """
        groups = _group(_split_runs(runs))
        ranges = [(group[0].offset, max(run.stop for run in group)) for group in groups]
        for (first, _), data, group in zip(ranges, self._fetch(ranges), groups, strict=True):
            view = memoryview(data)
            for run in group:
                run.buffer[:] = view[run.offset - first : run.stop - first]

    def _fetch(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        """The bytes of each range."""
        return self.fetch_each(ranges, lambda _, data: data)

    def fetch_each(
        self, ranges: list[tuple[int, int]], take: Callable[[int, bytes], Any]
    ) -> list[Any]:
        """Fetch ranges, a few at once; `take` gets the offset and the bytes of each as it comes.

        TensorIOError if the file is not as it was.
        """

        async def fetch(part: tuple[int, int], server: Store) -> Any:
            answer = await server.read(*part)
            if answer.state:
                require_unchanged(self.identity, identity_of(self.address, answer.state), self.name)
            return take(part[0], answer.data)

        questions = [functools.partial(fetch, part) for part in ranges]
        return ask(self.address, *questions, most=calls.requests_at_once())

    def stream(self) -> BinaryIO:
        return cast("BinaryIO", _Stream(self))


def _split_runs(runs: list[Run]) -> list[Run]:
    """The runs in pieces that are no longer than a range may be, in the order of the file."""
    step = thresholds.FAR_PIECE
    pieces = [
        Run(run.offset + start, run.buffer[start : start + step])
        for run in runs
        for start in range(0, len(run.buffer), step)
    ]
    return sorted(pieces, key=lambda piece: piece.offset)


def _group(pieces: list[Run]) -> list[list[Run]]:
    """The pieces that are fetched as one range each.

    To read over a small gap is quicker than to ask again.
    """
    groups: list[list[Run]] = []
    end = 0
    for piece in pieces:
        is_near = groups and piece.offset - end <= thresholds.FAR_GAP
        if is_near and piece.stop - groups[-1][0].offset <= thresholds.FAR_PIECE:
            groups[-1].append(piece)
            end = max(end, piece.stop)
        else:
            groups.append([piece])
            end = piece.stop
    return groups


class _Stream(io.RawIOBase):
    """A file at an address as a stream, for libraries that read one."""

    def __init__(self, file: FarFile) -> None:
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        starts = {
            io.SEEK_SET: 0,
            io.SEEK_CUR: self._position,
            io.SEEK_END: self._file.identity.size,
        }
        self._position = starts[whence] + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        count = max(0, min(len(view), self._file.identity.size - self._position))
        self._file.read_into(view[:count], self._position)
        self._position += count
        return count
