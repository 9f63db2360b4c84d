"""New files at addresses.

Each is written here, and put there when it is complete, which is one step.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from revseq_cli.core import signals
from revseq_cli.core.errors import RevseqError, TensorIOError, UsageError, exists_already
from revseq_cli.files import calls
from revseq_cli.files.address import Address, canonical
from revseq_cli.files.base import Identity
from revseq_cli.files.far import number_of
from revseq_cli.files.faults import NoRightError
from revseq_cli.files.nearby import has_file, list_below
from revseq_cli.files.new import (
    TEMPORARY_PREFIX,
    NewFile,
    is_an_input,
    is_of_this_batch,
    temporary_name,
)
from revseq_cli.files.servers import WRITTEN, ask
from revseq_cli.files.store import Store

_ROOTS = ("zarr.json", ".zarray", ".zgroup")  # what makes a folder a store


class NewObject(NewFile):
    """A file to write at an address."""

    name: Address
    _mode = 0o600
    reaches_workers = False

    def __init__(self, path: str, *, overwrite: bool, inputs: Iterable[Identity] = ()) -> None:
        self.name = Address(path)
        self.is_created = False
        self._overwrite = overwrite
        self._old = None
        own_number = number_of(canonical(path))
        if any(identity.device == own_number for identity in inputs):
            raise is_an_input(self.name)
        self._refuse_address()
        self._check()
        self.temporary = self.next_to = os.path.join(tempfile.gettempdir(), temporary_name())

    def _refuse_address(self) -> None:
        """UsageError for an address where nothing is written in one step.

        And for a version of an object.
        """
        store = self.name.parts.store
        if store == "memory":
            found = "is in the memory of this process, and would be lost at its end"
            raise UsageError(found, "a file, or an address of a bucket", where=self.name)
        if store not in WRITTEN:
            hint = "write it here, then upload it"
            raise UsageError("can only be read", "an address of a bucket", hint, self.name)
        if self.name.parts.query:
            found = "names a version, which is never written"
            hint = f"write to {canonical(self.name)}"
            raise UsageError(found, "an address without one", hint, self.name)

    def _check(self, inputs: Iterable[Identity] = ()) -> None:  # noqa: ARG002 - that is done
        """Refuse a name that is taken. Where nobody may ask that, the store says it at the end."""
        if self._overwrite:
            return
        is_there = False
        with contextlib.suppress(NoRightError):
            is_there = has_file(self.name)
        if is_there:
            raise exists_already(self.name)

    @property
    def folder(self) -> str:
        return ""

    def identify(self) -> None:
        """No identity: a server gives an object one when it is put."""

    def begin_flush(self) -> None:
        """Nothing to flush: the file is put, and then removed."""

    def flush(self) -> None:
        """Nothing to flush: the file is put, and then removed."""

    def take_name(self) -> None:
        """Put the file."""
        with signals.begin_stage("put", os.path.getsize(self.temporary)) as advance:

            async def put(server: Store) -> None:
                await server.put(self.temporary, creates=not self._overwrite, advance=advance)

            ask(self.name, put, doing="write", again=False)


class NewStore(NewObject):
    """A Zarr store to write at an address.

    Workers put its chunks there, and the folder `temporary` has all else.

    The latter is put at the end, and last what makes it a store. A mark at the address keeps other
    runs from it. A job of a batch whose worker died finds a mark of that batch, and goes on there.
    """

    reaches_workers = True

    def __init__(self, path: str, *, overwrite: bool, inputs: Iterable[Identity] = ()) -> None:
        self._mark = temporary_name()
        self._is_partial = False
        super().__init__(path.rstrip("/"), overwrite=overwrite, inputs=inputs)
        self.address = self.name

    def _check(self, inputs: Iterable[Identity] = ()) -> None:  # noqa: ARG002 - see above
        names = {*list_below(self.name)} - {self._mark}
        if names and not any(map(is_of_this_batch, names)):
            expected = "a new one: a folder is never replaced"
            hint = "give it another name, or remove what is there"
            raise TensorIOError("exists already, or is being written", expected, hint, self.name)

    def create(self) -> None:
        """Create the folder here, and the mark there."""
        os.mkdir(self.temporary, 0o700)
        ask(self.name, lambda server: server.below(self._mark).put_bytes(b""), doing="write")
        self.is_created = True
        self._check()
        self._is_partial = True  # what is there now is this run's alone

    def take_name(self) -> None:
        """Put the files of the folder; the last ones are those that make it a store."""
        folder = Path(self.temporary)
        paths = (path for path in folder.rglob("*") if path.is_file())
        names = [path.relative_to(folder).as_posix() for path in paths]
        groups: dict[tuple[bool, int, bool], list[str]] = {}
        for name in names:
            groups.setdefault(_rank(name), []).append(name)

        async def put(name: str, server: Store) -> None:
            await server.below(name).put_bytes((folder / name).read_bytes())

        for _, group in sorted(groups.items()):
            puts = [functools.partial(put, name) for name in group]
            ask(self.name, *puts, most=calls.requests_at_once(), doing="write")
        self._is_partial = False

    def remove(self) -> None:
        """Remove the folder here, and what was put there.

        These are the marks, or all that has become no store, as far as that can be done.
        """
        shutil.rmtree(self.temporary, ignore_errors=True)
        if not self.is_created:
            return
        self.is_created = False
        with contextlib.suppress(RevseqError):
            if self._is_partial:
                ask(self.name, lambda server: server.remove_all(), stops=False)
                return
            for name in self._marks():
                ask(self.name, functools.partial(_remove, name), stops=False)

    def _marks(self) -> list[str]:
        """The marks of this job, and of a try of it in the same batch whose worker died."""
        if not is_of_this_batch(self._mark):
            return [self._mark]
        return [name for name in list_below(self.name) if is_of_this_batch(name)]


def remove_partial_store(path: str, mark: str) -> None:
    """Remove what is below the address, if temporary names with that mark are there.

    What cannot be removed is left.
    """
    with contextlib.suppress(RevseqError):
        if any(name.startswith(f"{TEMPORARY_PREFIX}{mark}") for name in list_below(path)):
            ask(path, lambda server: server.remove_all(), stops=False)


async def _remove(name: str, server: Store) -> None:
    await server.below(name).remove()


def _rank(name: str) -> tuple[bool, int, bool]:
    """The order in which files are put: those of metadata are last, and of these the outermost."""
    is_metadata = name.rpartition("/")[2][:2] in (".z", "za")
    return is_metadata, -name.count("/") if is_metadata else 0, name.endswith(_ROOTS)
