"""The states of remote files: as their servers say them now, or as listings of folders had them.

A batch lists each folder that has several of its files: one answer has the states of a thousand.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter
from collections.abc import Iterable

from revseq_cli.core import thresholds
from revseq_cli.core.errors import MissingFileError, TensorIOError
from revseq_cli.files.address import Address, canonical, is_web
from revseq_cli.files.event_loop import run_together
from revseq_cli.files.input_file import Identity, require_unchanged
from revseq_cli.files.remote.connect import ask, connect
from revseq_cli.files.remote.faults import retry, wrap_remote_errors
from revseq_cli.files.remote.path import FolderError, State

# The states of the files in folders with several files of a batch, by the canonical addresses of
# the folders: listed before the jobs, until the process ends. `exists` and `time_of_change` look
# here first.
listings_of_batch: dict[str, dict[str, Identity]] = {}
# States that were asked for together, by the files' full addresses: each is for one `recheck`.
_for_recheck: dict[str, Identity] = {}


def identity_of_state(path: str, state: State) -> Identity:
    """The identity of a remote file: its device is `device_of` the address.

    Its inode is a hash of what tells the content, such as the ETag, or 0 if the server says none.
    """
    inode = _hash_text(state.content) if state.content else 0
    return Identity(device_of(path), inode, state.size, state.moment)


def device_of(path: str) -> int:
    """The device in all identities of the file at an address: a hash of its canonical address."""
    return _hash_text(canonical(path))


def _hash_text(text: str) -> int:
    """A hash of a text that is the same in all processes, unlike Python's own."""
    return int.from_bytes(hashlib.blake2b(repr(text).encode(), digest_size=7).digest())


def ask_identity(path: str) -> Identity:
    """The identity of the file now; MissingFileError if there is none."""
    state = ask(path, lambda remote: remote.ask_state())
    return identity_of_state(path, state)


def refresh_states(paths: Iterable[str]) -> None:
    """Ask for the states of files together, before the `recheck` of each of them."""

    async def ask_state(path: str) -> State:
        with wrap_remote_errors(path, "read"):
            return await retry(connect(path).ask_state)

    path_by_address = {Address(path).full: path for path in paths}
    states = run_together(*map(ask_state, path_by_address.values()))
    for (address, path), state in zip(path_by_address.items(), states, strict=True):
        _for_recheck[address] = identity_of_state(path, state)


def recheck(path: str, identity: Identity) -> None:
    """TensorIOError if a file is not as it was at `identity`."""
    now = _for_recheck.pop(Address(path).full, None)
    if now is None:
        now = ask_identity(path)
    require_unchanged(identity, now, path)


def list_below(path: str) -> dict[str, Identity]:
    """The states of the files below an address, by their paths from there; none of a web server."""
    states = ask(path, lambda remote: remote.list_states())
    base = Address(path).full.rstrip("/")
    return {name: identity_of_state(f"{base}/{name}", state) for name, state in states.items()}


def cache_states(paths: Iterable[str]) -> None:
    """List each folder that has several of these files; later questions find their states there."""
    folders = Counter(
        Address(path).full.rpartition("/")[0] for path in {*paths} if not is_web(path)
    )
    for folder, count in folders.items():
        if count >= thresholds.REMOTE_WORTH_LISTING:
            with contextlib.suppress(TensorIOError):  # who may not list them asks for each
                listings_of_batch[canonical(folder)] = _list_if_there(folder)


def _list_if_there(folder: str) -> dict[str, Identity]:
    with contextlib.suppress(MissingFileError):
        return list_below(folder)
    return {}


def _find_listing(path: str) -> tuple[dict[str, Identity] | None, str]:
    """The listing of the folder that a file is in, or None; and the name of the file there."""
    folder, _, name = Address(path).full.rpartition("/")
    return listings_of_batch.get(canonical(folder)), name


def exists(path: str) -> bool:
    """Whether the file is there; MissingFileError if its bucket is not."""
    listing, name = _find_listing(path)
    if listing is not None:
        return name in listing
    return ask(path, lambda remote: remote.has_file())


def time_of_change(path: str) -> int | None:
    """When a file, or anything below an address, was changed last, in nanoseconds.

    None if there is none.
    """
    listing, name = _find_listing(path)
    if listing is not None:
        times = [
            identity.changed
            for other, identity in listing.items()
            if other == name or other.startswith(f"{name}/")
        ]
        return max(times, default=None)
    with contextlib.suppress(MissingFileError, FolderError):
        return ask_identity(path).changed
    return max((below.changed for below in list_below(path).values()), default=None)


def list_matching(pattern: str) -> list[str]:
    """The addresses that match a pattern, in their order; those of folders end in a slash."""
    names = ask(pattern, lambda remote: remote.find_matching())
    scheme = pattern.partition("://")[0]
    addresses = {
        name if "://" in name else f"{scheme}://{name}": is_folder
        for name, is_folder in names.items()
    }
    return [
        f"{name}/" if is_folder else Address(name) for name, is_folder in sorted(addresses.items())
    ]
