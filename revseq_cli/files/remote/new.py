"""New remote files: each is written here, and uploaded in one step when it is complete."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

from revseq_cli.core import signals
from revseq_cli.core.errors import (
    EXISTS_ALREADY,
    RevseqError,
    TensorIOError,
    UsageError,
    make_exists_error,
)
from revseq_cli.files.address import STORE_FILES, Address, canonical
from revseq_cli.files.budget import count_parallel_requests
from revseq_cli.files.event_loop import run_together
from revseq_cli.files.input_file import Identity
from revseq_cli.files.new import (
    NewFile,
    has_batch_mark,
    is_of_this_batch,
    make_input_error,
    make_temporary_name,
)
from revseq_cli.files.remote import states
from revseq_cli.files.remote.connect import ask, ask_all, connect
from revseq_cli.files.remote.faults import NoRightError, wrap_remote_errors
from revseq_cli.files.remote.path import RemotePath

# The kinds of stores in which a file appears only when its upload is complete.
_ATOMIC_STORES = ("s3", "gs", "az")
_METADATA = (*STORE_FILES, ".zattrs", ".zmetadata")


def new_file(
    path: str, *, overwrite: bool, inputs: Iterable[Identity] = (), is_folder: bool = False
) -> NewFile:
    """A file to write, or a store; RevseqError now for all that could refuse its name."""
    kind = NewRemoteStore if is_folder else NewRemoteFile
    return kind(path, overwrite=overwrite, inputs=inputs)


class NewRemoteFile(NewFile):
    """A file to write at an address. It is flushed to no disk: it is uploaded, and then removed."""

    name: Address
    reaches_workers = False

    def __init__(self, path: str, *, overwrite: bool, inputs: Iterable[Identity] = ()) -> None:
        self.name = Address(path)
        self._overwrite = overwrite
        device = states.device_of(path)  # the same for each file that was read at this address
        if any(identity.device == device for identity in inputs):
            raise make_input_error(self.name)
        self._refuse_address()
        self._refuse_name()
        self.temporary = os.path.join(tempfile.gettempdir(), make_temporary_name())
        self.next_to = self.temporary

    def _refuse_address(self) -> None:
        """UsageError for a store that takes no file in one step, and for a version of an object."""
        scheme = self.name.parts.scheme
        if scheme == "memory":
            found = "is in the memory of this process, and would be lost at its end"
            raise UsageError(found, "a file, or an address of a bucket", where=self.name)
        if scheme not in _ATOMIC_STORES:
            hint = "write it here, then upload it"
            raise UsageError("can only be read", "an address of a bucket", hint, self.name)
        if self.name.parts.query:
            found = "names a version, which is never written"
            hint = f"write to {canonical(self.name)}"
            raise UsageError(found, "an address without one", hint, self.name)

    def _refuse_name(self) -> None:
        """Refuse a name that is taken; if we may not ask, the upload says it at the end."""
        if self._overwrite:
            return
        is_taken = False
        with contextlib.suppress(NoRightError):
            is_taken = states.exists(self.name)
        if is_taken:
            raise make_exists_error(self.name)

    def take_name(self) -> None:
        """Upload the file. Parts of an upload are tried again, but not the whole."""
        size = os.path.getsize(self.temporary)
        with (
            signals.begin_stage("put", size) as advance,
            wrap_remote_errors(self.name, "write"),
        ):
            remote = connect(self.name)
            creates = not self._overwrite
            run_together(remote.put_file(self.temporary, creates=creates, advance=advance))


class NewRemoteStore(NewRemoteFile):
    """A Zarr store to write at an address.

    Workers upload its chunks. The folder `temporary` has its metadata, which are uploaded at the
    end: without them there is no store yet. In the meantime a claim, an empty file with a temporary
    name below the address, keeps other runs from it. If the worker of a job in a batch dies, the
    next try of the job finds a claim with the mark of its batch, and goes on there.
    """

    reaches_workers = True

    def __init__(self, path: str, *, overwrite: bool, inputs: Iterable[Identity] = ()) -> None:
        self._claim = make_temporary_name()
        self._is_partial = False
        whole = Address(path).full.rstrip("/")  # with its version, which is refused
        super().__init__(whole, overwrite=overwrite, inputs=inputs)
        self.address = self.name

    def _refuse_name(self) -> None:
        """Refuse an address with files below it, unless this batch has begun the store."""
        others = {*states.list_below(self.name)} - {self._claim}
        if others and not any(map(is_of_this_batch, others)):
            expected = "a new one: a folder is never replaced"
            hint = "give it another name, or remove what is there"
            problem = f"{EXISTS_ALREADY}, or is being written"
            raise TensorIOError(problem, expected, hint, self.name)

    def create(self) -> None:
        """Create the folder here and the claim there, and then look at the address again.

        Of two runs that begin together, each may have seen no files there. The second look shows at
        least one of them the claim of the other.
        """
        os.mkdir(self.temporary, 0o700)
        ask(self.name, lambda remote: remote.below(self._claim).put_bytes(b""), doing="write")
        self.is_created = True
        self._refuse_name()
        self._is_partial = True  # from now on all files below the address are this run's

    def take_name(self) -> None:
        """Upload the files of the folder, those that make it a store last."""
        folder = Path(self.temporary)
        paths = (path for path in folder.rglob("*") if path.is_file())
        names_by_rank: dict[tuple[int, int, int], list[str]] = {}
        for path in paths:
            name = path.relative_to(folder).as_posix()
            names_by_rank.setdefault(_rank(name), []).append(name)

        async def put(name: str, remote: RemotePath) -> None:
            await remote.below(name).put_bytes((folder / name).read_bytes())

        for _, names in sorted(names_by_rank.items()):
            puts = [functools.partial(put, name) for name in names]
            ask_all(self.name, puts, most=count_parallel_requests(), doing="write")
        self._is_partial = False

    def remove(self) -> None:
        """Remove the folder here, and what must not stay there, as far as that can be done.

        Of a complete store that is the claim, and of a partial one all files.
        """
        shutil.rmtree(self.temporary, ignore_errors=True)
        if not self.is_created:
            return
        self.is_created = False
        if self._is_partial:
            _try_to_undo(self.name, lambda remote: remote.remove_all())
            return
        for name in self._list_claims():
            _try_to_undo(self.name, functools.partial(_remove, name))

    def _list_claims(self) -> list[str]:
        """The claims of this job, and of a try of it in the same batch whose worker died."""
        if not is_of_this_batch(self._claim):
            return [self._claim]
        with contextlib.suppress(RevseqError):
            return [name for name in states.list_below(self.name) if is_of_this_batch(name)]
        return []


def remove_partial_store(path: str, mark: str) -> None:
    """Remove what is below the address, if temporary names with that mark are there.

    What cannot be removed is left.
    """
    with contextlib.suppress(RevseqError):
        if any(has_batch_mark(name, mark) for name in states.list_below(path)):
            _try_to_undo(path, lambda remote: remote.remove_all())


def _try_to_undo(path: str, step: Callable[[RemotePath], Coroutine[Any, Any, None]]) -> None:
    """Undo work, whatever signals come; what cannot be undone is left."""
    with contextlib.suppress(RevseqError):
        ask_all(path, [step], doing="write", stops=False)


async def _remove(name: str, remote: RemotePath) -> None:
    await remote.below(name).remove()


def _rank(path: str) -> tuple[int, int, int]:
    """When a file of a store is uploaded; all of one rank go together, the lowest first.

    Chunks come first, and then metadata, from the innermost folder to the outermost. Those that
    make a folder an array or a group are the last ones of it:

        0/c/0 and all other chunks  (0, 0, 0)
        0/.zattrs                   (1, -1, 0)
        0/.zarray                   (1, -1, 1)
        .zgroup                     (1, 0, 1)
    """
    name = path.rpartition("/")[2]
    if name not in _METADATA:
        return 0, 0, 0
    return 1, -path.count("/"), int(name in STORE_FILES)
