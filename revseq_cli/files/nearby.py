"""What this process has of files at addresses.

Those that it has fetched whole, and the states in listings.

A file of which all will be read is fetched first, in large ranges, some at once, into a temporary
file without a name. Its readers then have a file of this machine. Its workers find it, too: forks
inherit it, and others receive it.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from revseq_cli.core import signals, thresholds
from revseq_cli.core.errors import FormatError, MissingFileError, TensorIOError, UsageError
from revseq_cli.files import base, calls, far
from revseq_cli.files.address import Address, canonical, is_web
from revseq_cli.files.base import Identity, InputFile, require_unchanged
from revseq_cli.files.far import ask_identity, forget_files, identity_of, open_far
from revseq_cli.files.local import LocalFile, UnnamedFile, open_local
from revseq_cli.files.servers import ask, ask_each
from revseq_cli.files.store import FolderError


class Known(NamedTuple):
    """What a process knows, for workers that are no forks of it.

    Of files that it has fetched, what they were and where their bytes are; the states of files in
    folders, by the canonical addresses of those; and the memory that it may use.
    """

    fetched: dict[str, tuple[Identity, str]]
    common: dict[str, tuple[Identity, str]]
    listings: dict[str, dict[str, Identity]]
    memory: int


_fetched: dict[str, tuple[Identity, str]] = {}
_common: dict[str, tuple[Identity, str]] = {}  # of several jobs of a batch
_kept_for_jobs: list[UnnamedFile] = []
_listings: dict[str, dict[str, Identity]] = {}
_kept: list[UnnamedFile] = []
_asked_again: dict[str, Identity] = {}  # for the next question of each file


def known() -> Known:
    """What this process knows."""
    return Known(_fetched, _common, _listings, base.memory())


def take_known(known: Known) -> None:
    """Know what another process knows."""
    _fetched.update(known.fetched)
    _common.update(known.common)
    _listings.update(known.listings)
    base.limit_memory(known.memory)


def close() -> None:
    """Forget what this thread has open, and what was fetched."""
    forget_files()
    for file in _kept:
        file.remove()
    _kept.clear()
    _fetched.clear()


# Files


@contextlib.contextmanager
def open_nearby(
    path: str, unchanged: Identity | None, name: str, *, afresh: bool = False
) -> Iterator[InputFile]:
    """The file, where it was fetched to or at its address.

    With `afresh` its server is asked again.
    """
    key = Address(path).full
    nearby = _fetched.get(key) or _common.get(key)
    if nearby and not afresh and unchanged in (None, nearby[0]):
        identity, copy = nearby
        with open_local(copy, name=name or path) as local:
            yield LocalFile(local.fd, "", local.name, identity)  # HDF5 opens no file without a name
        return
    if afresh:
        identity = _asked_again.pop(key) if key in _asked_again else ask_identity(path)
        require_unchanged(unchanged, identity, name or path)
    file = open_far(path, unchanged, afresh=False)
    require_unchanged(unchanged, file.identity, name or path)
    yield file


def ask_again(paths: Iterable[str]) -> None:
    """Ask for the states of files together, each for the next `open_nearby` with `afresh`."""
    paths_of = {Address(path).full: path for path in paths}
    states = ask_each(paths_of.values(), lambda server: server.state())
    for (key, path), state in zip(paths_of.items(), states, strict=True):
        _asked_again[key] = identity_of(path, state)


def bring_near(path: str, identity: Identity) -> None:
    """Fetch a file, if there is room for it twice: most commands write one that is as large."""
    key = Address(path).full
    copy_here = _fetched.get(key) or _common.get(key)
    is_fetched = copy_here is not None and copy_here[0] == identity
    if is_fetched or identity.size <= thresholds.FAR_SMALL:  # which is kept whole
        return
    if not _has_room(identity.size):
        return
    copy = _fetch(path, identity)
    _kept.append(copy)
    _fetched[key] = (identity, copy.path)


@contextlib.contextmanager
def bring_common_near(paths: Iterable[str]) -> Iterator[None]:
    """Fetch files that several jobs read, until the block ends.

    What fails now fails in each job, with its words.
    """
    try:
        for path in paths:
            with contextlib.suppress(TensorIOError, FormatError, UsageError):
                identity = open_far(path, None).identity
                if _has_room(identity.size):
                    copy = _fetch(path, identity)
                    _kept_for_jobs.append(copy)
                    _common[Address(path).full] = (identity, copy.path)
        forget_files()
        yield
    finally:
        for copy in _kept_for_jobs:
            copy.remove()
        _kept_for_jobs.clear()
        _common.clear()


def _has_room(size: int) -> bool:
    return shutil.disk_usage(tempfile.gettempdir()).free >= 2 * size


def _fetch(path: str, identity: Identity) -> UnnamedFile:
    """A copy of all of the file, in a new temporary file."""
    file = open_far(path, identity)
    new = UnnamedFile(f"{file.name}, fetched into the temporary folder")
    step = calls.choose_piece(identity.size)
    starts = range(0, identity.size, step)
    ranges = [(start, min(start + step, identity.size)) for start in starts]
    if identity.size <= thresholds.FAR_SMALL:  # it was kept whole when it was opened
        new.write(file.read(identity.size), 0)
        return new
    with signals.begin_stage("fetch", identity.size) as advance:
        new.allocate(identity.size)

        def take(start: int, data: bytes) -> None:
            new.write(data, start)
            advance(len(data))

        file.fetch_each(ranges, take)
    return new


# States


def is_folder(path: str) -> bool:
    """Whether files are below an address; those that are here are no folders."""
    key = Address(path).full
    return key not in _fetched and key not in _common and far.has_files_below(path)


def learn_states(paths: Iterable[str]) -> None:
    """List each folder that has several of these files: one answer has the states of a thousand."""
    folders = Counter(
        Address(path).full.rpartition("/")[0] for path in {*paths} if not is_web(path)
    )
    for folder, count in folders.items():
        if count >= thresholds.FAR_WORTH_LISTING:
            with contextlib.suppress(TensorIOError):  # who may not list them, asks for each
                _listings[canonical(folder)] = _list_if_there(folder)


def _list_if_there(folder: str) -> dict[str, Identity]:
    with contextlib.suppress(MissingFileError):
        return list_below(folder)
    return {}


def list_below(path: str) -> dict[str, Identity]:
    """The states of the files below an address, by their paths from there; none of a web server."""
    (states,) = ask(path, lambda server: server.list())
    base = Address(path).full.rstrip("/")
    return {name: identity_of(f"{base}/{name}", state) for name, state in states.items()}


def find_identity(path: str) -> Identity | None:
    """The state of a file, as it was listed or is now; None where there is none."""
    folder, _, name = Address(path).full.rpartition("/")
    listing = _listings.get(canonical(folder))
    if listing is not None:
        return listing.get(name)
    with contextlib.suppress(MissingFileError, FolderError):
        return ask_identity(path)
    return None


def has_file(path: str) -> bool:
    """Whether the file is there; MissingFileError where its bucket is not."""
    folder, _, name = Address(path).full.rpartition("/")
    listing = _listings.get(canonical(folder))
    if listing is not None:
        return name in listing
    return ask(path, lambda server: server.has_file())[0]


def time_of_change(path: str) -> int | None:
    """When a file, or anything below an address, was changed last, in nanoseconds.

    None where there is none.
    """
    folder, _, name = Address(path).full.rpartition("/")
    listing = _listings.get(canonical(folder))
    if listing is not None:
        times = [
            identity.changed
            for other, identity in listing.items()
            if other == name or other.startswith(f"{name}/")
        ]
        return max(times, default=None)
    identity = find_identity(path)
    if identity:
        return identity.changed
    return max((below.changed for below in list_below(path).values()), default=None)


def list_matching(pattern: str) -> list[str]:
    """The addresses that match a pattern, in their order; those of folders end in a slash."""
    (names,) = ask(pattern, lambda server: server.list_matching())
    scheme = pattern.partition("://")[0]
    addresses = {
        name if "://" in name else f"{scheme}://{name}": is_folder
        for name, is_folder in names.items()
    }
    return [
        f"{name}/" if is_folder else Address(name) for name, is_folder in sorted(addresses.items())
    ]
