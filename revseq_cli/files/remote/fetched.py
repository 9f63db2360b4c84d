"""Remote files that are fetched whole, because all of them will be read.

Each is fetched in large pieces, some at once, into a temporary file without a name. Its readers
then have a file of this machine. So do workers: forks inherit what is here, and other processes of
this machine receive it as a `RemoteCache`.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from revseq_cli.core import signals, thresholds
from revseq_cli.core.errors import FormatError, MissingFileError, TensorIOError, UsageError
from revseq_cli.files.address import Address
from revseq_cli.files.budget import choose_piece, limit_memory, memory_limit
from revseq_cli.files.input_file import Identity, InputFile, require_unchanged
from revseq_cli.files.local import LocalFile, UnnamedFile, open_local
from revseq_cli.files.remote import states
from revseq_cli.files.remote.connect import ask
from revseq_cli.files.remote.file import forget_files, open_remote
from revseq_cli.files.remote.path import FolderError


@dataclass(frozen=True)
class _Copy:
    """A remote file that was fetched: its identity there, and the path of its bytes here."""

    identity: Identity
    path: str


class _Copies:
    """Copies of remote files, by the full addresses of the files."""

    def __init__(self) -> None:
        self.by_address: dict[str, _Copy] = {}
        self._own: list[UnnamedFile] = []  # those that this process has fetched

    def add(self, path: str, identity: Identity) -> None:
        """Fetch a file."""
        file = _fetch_all(path, identity)
        self._own.append(file)
        self.by_address[Address(path).full] = _Copy(identity, file.path)

    def clear(self) -> None:
        """Remove all copies."""
        for file in self._own:
            file.remove()
        self._own.clear()
        self.by_address.clear()


_copies = _Copies()  # of this job, until it ends
_copies_for_jobs = _Copies()  # of what several jobs of a batch read, until all have ended


@dataclass(frozen=True)
class RemoteCache:
    """What a process knows of remote files, for its workers that are not forks of it."""

    copies: dict[str, _Copy]
    copies_for_jobs: dict[str, _Copy]
    listings_of_batch: dict[str, dict[str, Identity]]
    memory: int


def copy_cache() -> RemoteCache:
    """What this process knows."""
    return RemoteCache(
        _copies.by_address,
        _copies_for_jobs.by_address,
        states.listings_of_batch,
        memory_limit(),
    )


def take_cache(cache: RemoteCache) -> None:
    """Know what another process knows."""
    _copies.by_address.update(cache.copies)
    _copies_for_jobs.by_address.update(cache.copies_for_jobs)
    states.listings_of_batch.update(cache.listings_of_batch)
    limit_memory(cache.memory)


def close() -> None:
    """Forget what this thread has open, and remove what was fetched for one job."""
    forget_files()
    _copies.clear()


def _find_copy(path: str) -> _Copy | None:
    key = Address(path).full
    return _copies.by_address.get(key) or _copies_for_jobs.by_address.get(key)


@contextlib.contextmanager
def open_file(path: str, unchanged: Identity | None = None, name: str = "") -> Iterator[InputFile]:
    """A remote file for reading, from its copy if it was fetched."""
    copy = _find_copy(path)
    if copy and unchanged in (None, copy.identity):
        with open_local(copy.path, name=name or path) as local:
            # Without a path, since HDF5 opens no file that has no name.
            yield LocalFile(local.fd, "", local.name, copy.identity)
        return
    file = open_remote(path, unchanged)
    require_unchanged(unchanged, file.identity, name or path)
    yield file


def is_folder(path: str, *, assumed: bool = False) -> bool:
    """Whether files are below an address and none is there, as far as its server lists them.

    With `assumed`, the answer is yes, and the server is not asked.
    """
    if assumed:
        return True
    if _find_copy(path):
        return False
    with contextlib.suppress(FolderError, MissingFileError):
        open_remote(path)
        return False
    with contextlib.suppress(MissingFileError):
        return ask(path, lambda remote: remote.has_files_below())
    return False


def fetch(path: str, identity: Identity) -> None:
    """Fetch a file, if the temporary folder has room for twice its size.

    Most commands also write an output that is as large.
    """
    copy = _find_copy(path)
    if copy is not None and copy.identity == identity:
        return
    if identity.size <= thresholds.REMOTE_SMALL:
        return  # it is kept whole in any case
    if _has_room(identity.size):
        _copies.add(path, identity)


@contextlib.contextmanager
def fetch_for_jobs(paths: Iterable[str]) -> Iterator[None]:
    """Fetch files that several jobs read, and keep them until the block ends.

    A file that cannot be fetched is left to the jobs: each fails with its own words.
    """
    try:
        for path in paths:
            with contextlib.suppress(TensorIOError, FormatError, UsageError):
                identity = open_remote(path).identity
                if _has_room(identity.size):
                    _copies_for_jobs.add(path, identity)
        forget_files()
        yield
    finally:
        _copies_for_jobs.clear()


def _has_room(size: int) -> bool:
    return shutil.disk_usage(tempfile.gettempdir()).free >= 2 * size


def _fetch_all(path: str, identity: Identity) -> UnnamedFile:
    """A new temporary file with all bytes of a remote one."""
    file = open_remote(path, identity)
    new = UnnamedFile(f"{file.name}, fetched into the temporary folder")
    if identity.size <= thresholds.REMOTE_SMALL:  # it was kept whole when it was opened
        new.write(file.read(identity.size), 0)
        return new
    with signals.begin_stage("fetch", identity.size) as advance:
        new.allocate(identity.size)

        def take(start: int, data: bytes) -> None:
            new.write(data, start)
            advance(len(data))

        file.fetch_all(choose_piece(identity.size), take)
    return new
