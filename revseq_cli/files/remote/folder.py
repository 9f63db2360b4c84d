"""Remote folders, such as Zarr stores: they are listed once by each job, and read together."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Collection

from revseq_cli.core.errors import FormatError, TensorIOError
from revseq_cli.files.address import Address, canonical, is_web
from revseq_cli.files.folders import Folder
from revseq_cli.files.input_file import Identity
from revseq_cli.files.remote.connect import ask_all, connect
from revseq_cli.files.remote.faults import fault_of, retry, wrap_remote_errors
from revseq_cli.files.remote.path import RemotePath
from revseq_cli.files.remote.states import list_below

_FEW_CHUNKS = 3  # the first, the middle and the last
_MANY_CHUNKS = 64

# Until the job ends, by the canonical addresses of folders: the states of the files in each, and
# what a format has read from it. Each job lists its folders anew, since it needs their present
# state; `listings_of_batch` lasts for a whole batch.
_listings_of_job: dict[str, dict[str, Identity]] = {}
_contents: dict[str, object] = {}


def forget_folders() -> None:
    """Forget all that was listed and kept."""
    _listings_of_job.clear()
    _contents.clear()


def keep(path: str, content: object) -> None:
    """Keep what a format has read from a remote folder, its `content`, until the job ends."""
    _contents[canonical(path)] = content


def find_kept(path: str) -> object:
    """What was kept of a remote folder in this job, or None."""
    return _contents.get(canonical(path))


def open_folder(path: str) -> Folder:
    """The files below an address, which are read and written together."""
    return RemoteFolder(path)


def list_files(path: str, *, again: bool = False) -> dict[str, Identity]:
    """The state of each file below an address, by its path there, as this job lists them once.

    With `again`, they are listed now in any case.
    """
    listing = _listings_of_job.get(canonical(path))
    if listing is None or again:
        listing = list_below(path)
        if not is_web(path):
            _listings_of_job[canonical(path)] = listing
    return listing


def has_any(path: str, names: Collection[str]) -> bool:
    """Whether one of these files is below an address."""
    if is_web(path):
        return any(ask_all(path, [functools.partial(_has, name) for name in names]))
    listing = list_files(path)
    return any(name in listing for name in names)


async def _has(name: str, remote: RemotePath) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return await remote.below(name).has_file()
    return False


def read_files(path: str, names: Collection[str]) -> dict[str, bytes]:
    """The bytes of the files of these names below an address, as far as they are there.

    All are asked for together.
    """

    async def read(name: str, remote: RemotePath) -> bytes | None:
        try:
            return await remote.below(name).read_whole()
        except Exception as e:
            if not _is_absent(e):
                raise
            return None

    answers = ask_all(path, [functools.partial(read, name) for name in names])
    return {name: data for name, data in zip(names, answers, strict=True) if data is not None}


def require_one_of(path: str, names: Collection[str]) -> None:
    """TensorIOError if a web server seems to have none of the chunks of a store.

    Three are asked for, and then many if none of the three is there.
    """
    names = [*names]
    few = dict.fromkeys([names[0], names[len(names) // 2], names[-1]])
    many = names[:: -(-len(names) // _MANY_CHUNKS)]
    for asked in (few, many):
        questions = [functools.partial(_has, name) for name in asked]
        if any(ask_all(path, questions, most=_FEW_CHUNKS)):
            return
    found = f"none of the {len(many)} chunks that were asked for is there, such as {names[0]}"
    raise TensorIOError(found, hint="download the store first", where=Address(path))


class RemoteFolder(Folder):
    """The files below an address. A file that the server lists but does not send is an error."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._remote = connect(path)

    async def read(self, name: str, part: slice) -> bytes | None:
        listing: Collection[str] | None = _listings_of_job.get(canonical(self.path))
        if listing is not None and name not in listing:
            return None
        file = self._remote.below(name)
        with wrap_remote_errors(file.name, "read"):
            try:
                return await retry(functools.partial(_read_part, file, part))
            except Exception as e:
                if not _is_absent(e):
                    raise
        if listing is None:
            listing = {} if is_web(self.path) else await self._remote.list_states()
        if name in listing:
            found = f"{name} is listed, but the server does not send it"
            raise FormatError(found, "the whole store", where=self.path)
        return None

    async def write(self, name: str, data: bytes) -> None:
        file = self._remote.below(name)
        with wrap_remote_errors(file.name, "write"):
            await retry(lambda: file.put_bytes(data))


async def _read_part(file: RemotePath, part: slice) -> bytes:
    start = part.start or 0
    if start < 0:
        return await file.read_end(-start)
    if start == 0 and part.stop is None:
        return await file.read_whole()
    stop = part.stop
    if stop is None:
        stop = (await file.ask_state()).size
    return (await file.read_range(start, stop)).data


def _is_absent(error: Exception) -> bool:
    """Whether there is no such file in a bucket that is there."""
    fault = fault_of(error)
    if fault.code == "NoSuchBucket":
        return False
    return isinstance(error, FileNotFoundError) or fault.status in (404, 410)
