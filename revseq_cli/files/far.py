"""Files at addresses, open for reading: what is asked of their servers, and what is kept of the answers.

A file of which all will be read is fetched first, in large ranges, some at once, into a temporary file without a name;
its readers then have a file of this machine. Of any other file some blocks are kept, and neighbours are fetched as one.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import os
import shutil
import tempfile
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Iterator
from email.utils import parsedate_to_datetime
from typing import Any, BinaryIO, NamedTuple, cast

from revseq_cli.core import errors, signals, thresholds
from revseq_cli.core.errors import FormatError, MissingFileError, TensorIOError
from revseq_cli.files.address import Address, canonical, is_web, scheme_of, store_of
from revseq_cli.files.base import Identity, InputFile, identity_of, require_unchanged
from revseq_cli.files.calls import ask, file_system, thread
from revseq_cli.files.local import LocalFile, UnnamedFile, open_local

# What file systems say of the content of a file and of its time, the best first.
_CONTENT = ("ETag", "etag", "md5Hash", "Content-MD5", "generation", "ino")
_TIME = ("LastModified", "last_modified", "Last-Modified", "mtime", "updated", "created")
_MOST_OPEN = 16  # files of a thread
# Of a web server, which might otherwise send the ranges of a packed file.
_PLAIN = {"Accept-Encoding": "identity"}


class FolderError(TensorIOError):
    """An address of a folder in place of a file."""


# Their states


def _identity(path: str, info: dict[str, Any]) -> Identity:
    """The state of a file: its address, what says its content, such as an ETag, its size, and its time in ns."""
    if info["type"] == "directory":
        raise FolderError("a folder", "a tensor file", where=Address(path))
    if info.get("size") is None:
        found, wanted = "the server does not say how large it is", "a server that does"
        raise TensorIOError(found, wanted, "download it first", Address(path))
    if store_of(path) == "local":  # its files have paths, too
        return identity_of(os.stat(info["name"]))
    content = number_of([info[name] for name in _CONTENT if info.get(name)])
    moment = _nanoseconds(info)
    if content:  # a listing has fractions of seconds that the state of a file lacks
        moment -= moment % 1_000_000_000
    return Identity(number_of(canonical(path)), content, info["size"], moment, 0)


def _nanoseconds(info: dict[str, Any]) -> int:
    moment = next((info[name] for name in _TIME if info.get(name)), 0)
    if isinstance(moment, str) and moment[:4].isdecimal():
        from datetime import datetime  # Google's alone says it so

        moment = datetime.fromisoformat(moment)
    elif isinstance(moment, str):
        moment = parsedate_to_datetime(moment)
    if not isinstance(moment, int | float):
        moment = moment.timestamp()
    return int(1e9 * moment)


def number_of(value: object) -> int:
    """A number that is equal for equal values, and for no others."""
    return int.from_bytes(hashlib.blake2b(repr(value).encode(), digest_size=7).digest())


# The states of the files in some folders, as they were listed. Who reads a file, and who puts one, looks again.
_listings: dict[str, dict[str, Identity]] = {}


def learn_states(paths: Collection[str]) -> None:
    """List each folder that has several of these files: one answer has the states of a thousand."""
    folders = Counter(Address(path).full.rpartition("/")[0] for path in paths if not is_web(path))
    for folder, count in folders.items():
        if count >= thresholds.FAR_WORTH_LISTING:
            with contextlib.suppress(TensorIOError):  # who may not list them, asks for each
                _listings[canonical(folder)] = _list_if_there(folder)


def _list_if_there(folder: str) -> dict[str, Identity]:
    with contextlib.suppress(MissingFileError):
        return list_below(Address(folder))
    return {}


def _ask_state(path: str, *, afresh: bool = True) -> Identity:
    folder, _, name = Address(path).full.rpartition("/")
    listing = None if afresh else _listings.get(canonical(folder))
    if listing is not None and name in listing:
        return listing[name]
    if listing is not None and not any(other.startswith(f"{name}/") for other in listing):
        raise MissingFileError("no such file, or no such bucket", where=Address(path))
    return _identity(path, ask(path, lambda fs, inside: fs._info(inside))[0])


def state_of(path: str) -> Identity | None:
    """The state of a file now; None where there is none."""
    with contextlib.suppress(MissingFileError, FolderError):
        return _ask_state(path, afresh=False)
    return None


# Files that are open


@functools.cache
def _of_thread(_: tuple[int, int]) -> OrderedDict[str, FarFile]:
    return OrderedDict()


# Of this process, and of its parent, whose fork this may be: what the files were, and where their bytes are.
_fetched: dict[str, tuple[Identity, str]] = {}
_kept: list[UnnamedFile] = []


class Known(NamedTuple):
    """What a process knows: of files that it has fetched, what they were and where their bytes are; and listings."""

    fetched: dict[str, tuple[Identity, str]]
    listings: dict[str, dict[str, Identity]]


def known() -> Known:
    """What this process knows."""
    return Known(_fetched, _listings)


def take_known(known: Known) -> None:
    """Know what another process knows."""
    _fetched.update(known.fetched)
    _listings.update(known.listings)


@contextlib.contextmanager
def open_far(
    path: str, unchanged: Identity | None, name: str, *, afresh: bool = False
) -> Iterator[InputFile]:
    """The file; its server is asked, unless this thread has it open as at `unchanged`."""
    near = _fetched.get(Address(path).full)
    if near and not afresh and unchanged in (None, near[0]):
        with open_local(near[1], name=name or path) as local:
            yield LocalFile(local.fd, "", local.name, near[0])  # HDF5 opens no file without a name
        return
    file = _open(path, unchanged, afresh=afresh)
    require_unchanged(unchanged, file.identity, name or path)
    yield file


def _open(path: str, unchanged: Identity | None, *, afresh: bool = False) -> FarFile:
    files, key = _of_thread(thread()), Address(path).full
    file = files.pop(key, None)
    if not file or afresh or unchanged not in (None, file.identity):
        identity = _ask_state(path, afresh=afresh)
        if not file or file.identity != identity:
            file = FarFile(path, identity)
    files[key] = file
    while len(files) > _MOST_OPEN:
        files.popitem(last=False)
    return file


def close() -> None:
    """Forget what this thread has open, and what was fetched."""
    _of_thread(thread()).clear()
    for file in _kept:
        file.remove()
    _kept.clear()
    _fetched.clear()


class FarFile(InputFile):
    """A file at an address, of which a part is read; `error` is the first one of its stream, which a library may lose.

    Reads of a block or less go through blocks that are kept. Where one follows the other, more blocks are fetched each
    time. Longer ones are ranges of their own, in pieces, some at once.
    """

    path = ""  # the system does not find its bytes
    error: BaseException | None = None

    def __init__(self, address: str, identity: Identity) -> None:
        self.address = Address(address)
        self.name = self.address
        self.identity = identity
        self._blocks = OrderedDict[int, bytes]()
        self._next = 0  # the block behind the last fetch
        self._ahead = 1  # blocks that the last fetch had

    def read_into(self, buffer: memoryview, offset: int) -> None:
        self.read_runs([(offset, buffer)])

    def read_runs(self, runs: Iterable[tuple[int, memoryview]]) -> None:
        """Fill each buffer from its offset; so many are asked for together that their bytes are enough."""
        waiting: list[tuple[int, memoryview]] = []
        size = 0
        for offset, run in runs:
            if offset + len(run) > self.identity.size:
                raise TensorIOError(
                    "ended while it was read", "a file that does not change", where=self.name
                )
            waiting.append((offset, run))
            size += len(run)
            if size >= thresholds.FAR_AT_ONCE:
                self._read_together(waiting)
                waiting, size = [], 0
        self._read_together(waiting)

    def _read_together(self, runs: list[tuple[int, memoryview]]) -> None:
        step = thresholds.FAR_BLOCK
        numbers: set[int] = set()
        for offset, run in runs:
            numbers.update(range(offset // step, -(-(offset + len(run)) // step)))
            if len(numbers) * step > thresholds.FAR_KEPT:
                self._read_ranges(runs)
                return
        self._keep(numbers)
        for offset, run in runs:
            done = 0
            while done < len(run):
                number, start = divmod(offset + done, step)
                part = self._blocks[number][start : start + len(run) - done]
                run[done : done + len(part)] = part
                done += len(part)

    def _keep(self, numbers: set[int]) -> None:
        """Fetch those blocks that are not kept, neighbours as one range."""
        for number in sorted(numbers & self._blocks.keys()):
            self._blocks.move_to_end(number)
        missing = sorted(numbers - self._blocks.keys())
        if not missing:
            return
        size, step = self.identity.size, thresholds.FAR_BLOCK
        if size <= thresholds.FAR_SMALL:
            missing = list(range(-(-size // step)))
        elif missing[0] == self._next:  # one read follows the other
            self._ahead = min(2 * self._ahead, thresholds.FAR_PIECE // step)
            missing = sorted(
                {*missing, *range(self._next, min(self._next + self._ahead, -(-size // step)))}
            )
        else:
            self._ahead = 1
        self._next = missing[-1] + 1
        ranges: list[tuple[int, int]] = []
        for number in missing:
            start, stop = number * step, min(size, (number + 1) * step)
            if ranges and ranges[-1][1] == start and stop - ranges[-1][0] <= thresholds.FAR_PIECE:
                ranges[-1] = (ranges[-1][0], stop)
            else:
                ranges.append((start, stop))
        try:
            answers = self._fetch(ranges)
        except BaseException as e:
            self.error = self.error or e
            raise
        for (first, _), data in zip(ranges, answers, strict=True):
            for start in range(0, len(data), step):
                self._blocks[(first + start) // step] = data[start : start + step]
        while len(self._blocks) * step > 2 * thresholds.FAR_KEPT:
            self._blocks.popitem(last=False)

    def _read_ranges(self, runs: list[tuple[int, memoryview]]) -> None:
        """Fill the buffers, of which nothing is kept; those that lie near each other are parts of one range."""
        pieces: list[tuple[int, memoryview]] = []
        for offset, run in runs:
            for start in range(0, len(run), thresholds.FAR_PIECE):
                pieces.append((offset + start, run[start : start + thresholds.FAR_PIECE]))
        pieces.sort(key=lambda piece: piece[0])
        groups: list[list[tuple[int, memoryview]]] = []
        ranges: list[tuple[int, int]] = []
        for offset, piece in pieces:
            end = offset + len(piece)
            is_near = ranges and offset - ranges[-1][1] <= thresholds.FAR_GAP
            if is_near and end - ranges[-1][0] <= thresholds.FAR_PIECE:
                ranges[-1] = (ranges[-1][0], max(end, ranges[-1][1]))
                groups[-1].append((offset, piece))
            else:
                ranges.append((offset, end))
                groups.append([(offset, piece)])
        for (first, _), data, group in zip(ranges, self._fetch(ranges), groups, strict=True):
            for offset, piece in group:
                piece[:] = memoryview(data)[offset - first :][: len(piece)]

    def _fetch(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        """The bytes of each range; TensorIOError where an answer is not that."""
        whole = (0, self.identity.size)

        async def fetch(part: tuple[int, int], fs: Any, inside: str) -> bytes:
            options: dict[str, Any] = {"start": part[0], "end": part[1]}
            if (
                part == whole and part[1] <= thresholds.FAR_PIECE
            ):  # which a server without ranges can send, too
                options = {}
            if is_web(self.address):
                options["headers"] = dict(_PLAIN)
            if is_web(self.address) and len(options) > 1:
                options["raise_for_status"] = functools.partial(_require_range, self.name, part)
            data = cast("bytes", await fs._cat_file(inside, **options))
            if len(data) != part[1] - part[0]:
                raise TensorIOError(
                    "ended while it was read", "a file that does not change", where=self.name
                )
            return data

        questions = [functools.partial(fetch, part) for part in ranges]
        return ask(self.address, *questions, most=thresholds.FAR_REQUESTS)

    def stream(self) -> BinaryIO:
        return cast("BinaryIO", _Stream(self))

    def fetch_all(self) -> UnnamedFile:
        """All of it, in a new temporary file."""
        name = f"{self.name}, fetched into the temporary folder"
        new = UnnamedFile(name)
        size, step = self.identity.size, thresholds.FAR_PIECE
        at_once = step * thresholds.FAR_REQUESTS
        with signals.begun("fetch", size) as advance:
            new.allocate(size)
            for first in range(0, size, at_once):
                last = min(size, first + at_once)
                parts = [(start, min(start + step, last)) for start in range(first, last, step)]
                for (start, _), data in zip(parts, self._fetch(parts), strict=True):
                    new.write(data, start)
                    advance(len(data))
        return new


class _Stream(io.RawIOBase):
    """A file at an address as a stream, for libraries that read one."""

    def __init__(self, file: FarFile) -> None:
        self._file = file
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._file.identity.size}[
            whence
        ]
        self._place = start + offset
        return self._place

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        count = max(0, min(len(view), self._file.identity.size - self._place))
        self._file.read_into(view[:count], self._place)
        self._place += count
        return count


async def _require_range(name: str, part: tuple[int, int], response: Any) -> None:
    """FormatError where a server sends another range, or the whole file; of other errors fsspec tells."""
    if response.status == 200:
        found = "its server sends whole files only"
        raise FormatError(
            found, "a server that sends ranges", "download it first", errors.without_secrets(name)
        )
    told = response.headers.get("Content-Range", "")
    if response.status == 206 and not told.startswith(f"bytes {part[0]}-{part[1] - 1}/"):
        found = f"its server answers with other bytes than were asked for: {told[:60]}"
        raise FormatError(
            found,
            f"bytes {part[0]}-{part[1] - 1}",
            "download it first",
            errors.without_secrets(name),
        )


def bring_near(path: str, identity: Identity) -> None:
    """Fetch a file, if there is room for it twice: most commands write one that is as large."""
    key = Address(path).full
    near = _fetched.get(key)
    is_there = near is not None and near[0] == identity
    if is_there or identity.size <= thresholds.FAR_SMALL:  # which is kept whole
        return
    if shutil.disk_usage(tempfile.gettempdir()).free < 2 * identity.size:
        return
    file = _open(path, identity)
    require_unchanged(identity, file.identity, path)
    new = file.fetch_all()
    _kept.append(new)
    _fetched[key] = identity, new.path


# Folders


def is_folder(path: str) -> bool:
    """Whether there are files below an address, as far as its server lists them."""
    try:
        _open(path, None)
    except (FolderError, MissingFileError) as e:
        return isinstance(e, FolderError)
    return False


def list_below(path: str) -> dict[str, Identity]:
    """The states of the files below an address, by their paths from there; those of a web server are not listed."""
    if is_web(path):
        return {}
    inside = file_system(path)[1].rstrip("/") + "/"
    (listing,) = ask(path, lambda fs, inside: fs._find(inside, detail=True))
    return {name.removeprefix(inside): _identity(name, info) for name, info in listing.items()}


def read_files(path: str, names: Collection[str]) -> dict[str, bytes]:
    """The bytes of the files of these names below an address, as far as they are there; all are asked for together."""

    async def read(name: str, fs: Any, inside: str) -> bytes:
        with contextlib.suppress(FileNotFoundError):
            return cast("bytes", await fs._cat_file(f"{inside}/{name}"))
        return b""

    answers = ask(path, *(functools.partial(read, name) for name in names))
    return {name: data for name, data in zip(names, answers, strict=True) if data}


def time_of_change(path: str) -> int | None:
    """When a file, or anything below an address, was changed last, in nanoseconds; None where there is none."""
    file = state_of(path)
    if file:
        return file.changed
    if path.rpartition("/")[0] and canonical(Address(path).full.rpartition("/")[0]) in _listings:
        return None  # the listing has neither it nor files below it
    return max((each.changed for each in list_below(path).values()), default=None)


def list_matching(pattern: str) -> list[str]:
    """The addresses that match a pattern, in their order; those of folders end in a slash."""
    (listing,) = ask(pattern, lambda fs, inside: fs._glob(inside, detail=True))
    names = {
        name if is_web(name) else f"{scheme_of(pattern)}://{name}": info
        for name, info in listing.items()
    }
    return [
        f"{name}/" if info["type"] == "directory" else Address(name)
        for name, info in sorted(names.items())
    ]
