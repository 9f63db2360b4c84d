"""Remote files that are open for reading by ranges.

Short reads go through blocks that are kept, and neighbouring blocks are fetched as one range. A
file of which all will be read is fetched first instead: see `fetched`.
"""

from __future__ import annotations

import functools
import io
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from revseq_cli.core import thresholds
from revseq_cli.files.address import Address
from revseq_cli.files.budget import count_parallel_requests
from revseq_cli.files.event_loop import once_per_thread
from revseq_cli.files.input_file import (
    Identity,
    InputFile,
    require_bytes,
    require_unchanged,
)
from revseq_cli.files.remote.connect import ask, ask_all
from revseq_cli.files.remote.path import RemotePath
from revseq_cli.files.remote.states import identity_of_state

_MOST_OPEN = 16  # files of a thread


@once_per_thread
def _files_of_thread() -> OrderedDict[str, RemoteFile]:
    """The files that a thread has open, the one that was used last at the end."""
    return OrderedDict()


def open_remote(path: str, unchanged: Identity | None = None) -> RemoteFile:
    """The file, as this thread has it open; if it has not, its server is asked.

    With `unchanged`, the file must be in that state, and the first read will tell.
    """
    files = _files_of_thread()
    key = Address(path).full
    file = files.pop(key, None)
    if file is None or unchanged not in (None, file.identity):
        file = RemoteFile.open(path, unchanged)
    files[key] = file
    while len(files) > _MOST_OPEN:
        files.popitem(last=False)
    return file


def forget_files() -> None:
    """Forget what this thread has open."""
    _files_of_thread().clear()


@dataclass(frozen=True)
class _Run:
    """A part of a buffer to fill, and the offset of its bytes in the file."""

    offset: int
    buffer: memoryview

    @property
    def stop(self) -> int:
        return self.offset + len(self.buffer)


class RemoteFile(InputFile):
    """A remote file, of which a part is read.

    Reads of a few blocks go through blocks that are kept. Longer reads are ranges of their own.
    """

    path = ""  # the system does not find its bytes

    def __init__(self, address: Address, identity: Identity) -> None:
        self.address = address
        self.name = address
        self.identity = identity
        self._blocks = OrderedDict[int, bytes]()  # by their numbers, the last used at the end
        self._next_block = 0  # the one after the last fetch
        self._ahead = 1  # how many blocks a fetch has that goes on where the last one ended

    @classmethod
    def open(cls, path: str, unchanged: Identity | None) -> RemoteFile:
        """The file; if its state is not known yet, that is fetched with the first bytes."""
        address = Address(path)
        if unchanged:
            return cls(address, unchanged)
        most = max(thresholds.REMOTE_SMALL, thresholds.REMOTE_BLOCK)
        data, state = ask(path, lambda remote: remote.read_start(most))
        file = cls(address, identity_of_state(path, state))
        if len(data) < file.identity.size:  # the last block may be there in part
            data = data[: most - most % thresholds.REMOTE_BLOCK]
        file._keep_blocks(0, data)
        return file

    def stream(self) -> BinaryIO:
        return cast("BinaryIO", _Stream(self))

    def read_into(self, buffer: memoryview, offset: int) -> None:
        self.read_runs([(offset, buffer)])

    def read_runs(self, runs: Iterable[tuple[int, memoryview]]) -> None:
        """Fill each buffer from its offset, in groups of as many bytes as are fetched at once."""
        waiting: list[_Run] = []
        size = 0
        most = thresholds.REMOTE_PIECE * count_parallel_requests()
        for offset, buffer in runs:
            run = _Run(offset, buffer)
            require_bytes(self.identity.size, run.stop, self.name)
            waiting.append(run)
            size += len(buffer)
            if size >= most:
                self._read_together(waiting)
                waiting = []
                size = 0
        self._read_together(waiting)

    def _read_together(self, runs: list[_Run]) -> None:
        step = thresholds.REMOTE_BLOCK
        numbers: set[int] = set()
        for run in runs:
            numbers.update(range(run.offset // step, -(-run.stop // step)))
            if len(numbers) * step > thresholds.REMOTE_KEPT:
                self._read_past_blocks(runs)
                return
        self._fetch_blocks(numbers)
        for run in runs:
            self._fill_from_blocks(run)

    def _fill_from_blocks(self, run: _Run) -> None:
        done = 0
        while done < len(run.buffer):
            number, start = divmod(run.offset + done, thresholds.REMOTE_BLOCK)
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
        missing |= self._choose_more(min(missing))
        self._next_block = max(missing) + 1
        try:
            self._fetch_ranges(self._ranges_of_blocks(missing), self._keep_blocks)
        except BaseException as e:  # a library that reads the stream may lose any of them
            self.error = self.error or e
            raise
        while len(self._blocks) * thresholds.REMOTE_BLOCK > 2 * thresholds.REMOTE_KEPT:
            self._blocks.popitem(last=False)

    def _choose_more(self, first: int) -> set[int]:
        """The blocks to fetch with the block `first` before they are asked for.

        Of a small file, these are all blocks. Of a larger one, some of the next blocks are fetched
        early if this fetch goes on where the last one ended: twice as many each time.
        """
        count = -(-self.identity.size // thresholds.REMOTE_BLOCK)
        if self.identity.size <= thresholds.REMOTE_SMALL:
            return {*range(count)}
        if first != self._next_block:
            self._ahead = 1
            return set()
        self._ahead = min(2 * self._ahead, thresholds.REMOTE_PIECE // thresholds.REMOTE_BLOCK)
        stop = min(self._next_block + self._ahead, count)
        return {*range(self._next_block, stop)} - self._blocks.keys()

    def _ranges_of_blocks(self, numbers: set[int]) -> list[range]:
        """The ranges of these blocks, neighbours as one as far as a range may be that long."""
        ranges: list[range] = []
        for number in sorted(numbers):
            start = number * thresholds.REMOTE_BLOCK
            block = range(start, min(self.identity.size, start + thresholds.REMOTE_BLOCK))
            if ranges and ranges[-1].stop == start:
                both = range(ranges[-1].start, block.stop)
                if len(both) <= thresholds.REMOTE_PIECE:
                    ranges[-1] = both
                    continue
            ranges.append(block)
        return ranges

    def _keep_blocks(self, start: int, data: bytes) -> None:
        """Keep the blocks of some bytes, which begin with a block."""
        step = thresholds.REMOTE_BLOCK
        for done in range(0, len(data), step):
            self._blocks[(start + done) // step] = data[done : done + step]

    def _read_past_blocks(self, runs: list[_Run]) -> None:
        """Fill the buffers, of which no block is kept; those that are near each other together."""
        groups: dict[int, list[_Run]] = {}  # by the starts of their ranges
        ranges = []
        for group in _group(_split_runs(runs)):
            start = group[0].offset
            groups[start] = group
            ranges.append(range(start, max(run.stop for run in group)))

        def fill(start: int, data: bytes) -> None:
            view = memoryview(data)
            for run in groups[start]:
                run.buffer[:] = view[run.offset - start : run.stop - start]

        self._fetch_ranges(ranges, fill)

    def fetch_all(self, step: int, take: Callable[[int, bytes], None]) -> None:
        """Fetch the whole file in pieces of `step` bytes; `take` is as in `_fetch_ranges`."""
        size = self.identity.size
        starts = range(0, size, step)
        self._fetch_ranges((range(start, min(start + step, size)) for start in starts), take)

    def _fetch_ranges(self, ranges: Iterable[range], take: Callable[[int, bytes], None]) -> None:
        """Fetch ranges, a few at once; TensorIOError if the file is not as it was.

        `take` gets the offset and the bytes of each as they come, in any order.
        """

        async def fetch(part: range, remote: RemotePath) -> None:
            answer = await remote.read_range(part.start, part.stop)
            if answer.state:
                now = identity_of_state(self.address, answer.state)
                require_unchanged(self.identity, now, self.name)
            take(part.start, answer.data)

        questions = [functools.partial(fetch, part) for part in ranges]
        ask_all(self.address, questions, most=count_parallel_requests())


def _split_runs(runs: list[_Run]) -> list[_Run]:
    """The runs in pieces that are no longer than a range may be, in the order of the file."""
    step = thresholds.REMOTE_PIECE
    pieces = [
        _Run(run.offset + start, run.buffer[start : start + step])
        for run in runs
        for start in range(0, len(run.buffer), step)
    ]
    return sorted(pieces, key=lambda piece: piece.offset)


def _group(pieces: list[_Run]) -> list[list[_Run]]:
    """The pieces that are fetched as one range each.

    To read over a small gap is quicker than to ask again.
    """
    groups: list[list[_Run]] = []
    end = 0
    for piece in pieces:
        is_near = groups and piece.offset - end <= thresholds.REMOTE_GAP
        if is_near and piece.stop - groups[-1][0].offset <= thresholds.REMOTE_PIECE:
            groups[-1].append(piece)
            end = max(end, piece.stop)
        else:
            groups.append([piece])
            end = piece.stop
    return groups


class _Stream(io.RawIOBase):
    """A remote file as a stream, for libraries that read one."""

    def __init__(self, file: RemoteFile) -> None:
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
