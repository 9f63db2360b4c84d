"""New files: each is written under a temporary name, and gets its own name when it is complete.

`NewFile` is the protocol. `NewLocalFile` is a file of this machine, which may replace another, and
`NewVersion` one that must replace a certain state of it. `NewFolder` and `NewFolderVersion` are the
same for folders, and `Scratch` never gets a name. `remote.new` has files at addresses.

A run that is killed may leave files of temporary names. Later runs ignore them, and users can
delete them. The jobs of a batch put its mark into their names, so that the batch can clean up after
a worker that died.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from revseq_cli.core import platform, signals
from revseq_cli.core.errors import (
    EXISTS_ALREADY,
    OutputExistsError,
    TensorIOError,
    make_exists_error,
)
from revseq_cli.files.address import is_address, local_path
from revseq_cli.files.input_file import Identity, identity_of
from revseq_cli.files.local import flush_file, open_to_write
from revseq_cli.files.system_errors import (
    is_standard_stream,
    make_in_use_error,
    make_os_error,
    retry_while_in_use,
    wrap_os_errors,
)

_REPLACE = "to replace it, add --overwrite"
_NAME = "the name of a file to write"
_CREATED_MEANWHILE = "was created by another program in the meantime"
_PREFIX = ".revseq-"
_mark = ""


def mark_temporary_files(mark: str) -> None:
    """Put the mark of a batch into all temporary names of this process from now on."""
    global _mark
    _mark = mark


def make_temporary_name() -> str:
    """A new name of a temporary file."""
    return f"{_PREFIX}{_mark}{os.urandom(8).hex()}.tmp"


def temporary_pattern(mark: str) -> str:
    """The pattern of all temporary names with that mark."""
    return f"{_PREFIX}{mark}*.tmp"


def has_batch_mark(name: str, mark: str) -> bool:
    """Whether it is a temporary name with that mark."""
    return name.startswith(f"{_PREFIX}{mark}")


def is_of_this_batch(name: str) -> bool:
    """Whether it is a temporary name of the batch for which this process works, if any."""
    return bool(_mark) and has_batch_mark(name, _mark)


def make_input_error(name: str) -> TensorIOError:
    """The error for an output that is an input."""
    hint = "choose another name for the output"
    return TensorIOError("the output is also an input", hint=hint, where=name)


class NewFile:
    """What is written under a temporary name, and gets its own name when it is complete.

    Making one checks the name before any work, and writes nothing. Then `FileTransaction` calls the
    steps `create`, `flush`, `take_name` and `flush_folder`, and in any case `remove`. Each raises
    the OSError of the system. In this class, they are the steps of a file that stays temporary: it
    is not flushed, and gets no name.

    `name` is what to call it in an error. `temporary` is the path of the temporary file on this
    machine, which exists if `is_created`. Other temporary files of the job are next to the file
    `next_to`.
    """

    name: str
    temporary: str
    next_to: str
    is_created = False
    folder = ""  # the one to flush when the file has its name; "" if there is none on this machine
    address = ""  # of a Zarr store whose chunks are uploaded by workers
    reaches_workers = True  # whether workers in other processes, or on other machines, can write it
    _mode = 0o600  # of the temporary file

    def create(self) -> None:
        """Create the temporary file, empty."""
        fd = platform.create_file(self.temporary, self._mode)
        self.is_created = True
        os.close(fd)

    def write(self, data: bytes) -> None:
        """Write the whole content at once into the temporary file."""
        with open_to_write(self.temporary, self.name) as file:
            file.write(data, 0)

    def begin_flush(self) -> None:
        """Let the system begin to bring the temporary file to the disk, without waiting for it."""

    def flush(self) -> None:
        """Return when the temporary file is on the disk."""

    def identify(self) -> tuple[int, int] | None:
        """What stays the same when the temporary file gets its name; None for one at an address."""
        return None

    def take_name(self) -> None:
        """Give the file its name; without `overwrite` it never replaces another."""

    def flush_folder(self) -> str:
        """Return when the name is on the disk; a note if it may not last."""
        if not self.folder:
            return ""
        try:
            platform.sync_folder(self.folder)
        except OSError as e:  # the file is complete; only a power cut could take its name back
            return f"{self.name} is written, but its folder could not be flushed: {e.strerror}"
        return ""

    def remove(self) -> None:
        """Remove the temporary file, if it was created and still has its temporary name."""
        if self.is_created:
            unlink = functools.partial(Path(self.temporary).unlink, missing_ok=True)
            retry_while_in_use(unlink, platform.keeps_name, stops=False)
            self.is_created = False


class _NewLocal(NewFile):
    """Something new of this machine, whose temporary name is next to the name that it gets."""

    def __init__(self, path: str, *, overwrite: bool, inputs: Iterable[Identity] = ()) -> None:
        path = local_path(path) or path
        self.name = path
        self.next_to = path
        self._overwrite = overwrite
        self._inputs = tuple(inputs)
        if is_address(path):  # of a picture, for example
            raise TensorIOError("an address", "a file of this machine", where=path)
        fault, hint = platform.name_fault(path)
        if fault:
            raise TensorIOError(fault, _NAME, hint, path)
        self._final = Path(platform.real_path(path))  # a link stays, and what it names is replaced
        self.folder = str(self._final.parent)
        self._refuse_name()
        self.temporary = str(self._final.with_name(make_temporary_name()))

    def _refuse_name(self) -> None:
        """Refuse a name that could not be given or replaced."""
        self._refuse_folder()

    def _refuse_folder(self) -> None:
        """Refuse a name in a folder that is not there, or that may not be written to."""
        folder = self._final.parent
        if not folder.is_dir():
            above = next(filter(os.path.lexists, (folder, *folder.parents)), None)
            can_be_made = above and above.is_dir() and _is_writable(above)
            hint = f"{platform.MAKE_FOLDER} {platform.quote(str(folder))}" if can_be_made else ""
            raise TensorIOError(
                f"cannot write: no such folder as {folder}", hint=hint, where=self.name
            )
        if not _is_writable(folder):
            number = errno.EROFS if platform.is_read_only(folder) else errno.EACCES
            raise make_os_error(self.name, "write", OSError(number, os.strerror(number)))

    def identify(self) -> tuple[int, int]:
        status = os.stat(self.temporary)
        return status.st_dev, status.st_ino


class NewLocalFile(_NewLocal):
    """A file to write, whose name keeps its old content, or none, until the end."""

    _old: os.stat_result | None = None  # of the file that is to be replaced
    _mode = 0o666

    def _refuse_name(self) -> None:
        if os.path.basename(self.name) in ("", ".", "..") and not self._final.is_dir():
            hint = f"to write a file, type {platform.quote(os.path.normpath(self.name))}"
            raise TensorIOError("the name of a folder", _NAME, hint, self.name)
        with wrap_os_errors(self.name, "write"), contextlib.suppress(FileNotFoundError):
            self._old = self._final.stat()
        if self._old:
            self._refuse_old(self._old)
            self._mode = 0o600  # nobody can read it who may not read the file that it replaces
        self._refuse_folder()

    def _refuse_old(self, status: os.stat_result) -> None:
        """Refuse to replace what has the name."""
        if stat.S_ISDIR(status.st_mode):
            raise TensorIOError("a folder", _NAME, where=self.name)
        if not stat.S_ISREG(status.st_mode):
            raise TensorIOError("a pipe or a device", _NAME, where=self.name)
        is_standard_input = is_standard_stream(status, 0)
        if is_standard_input or any(identity.is_of(status) for identity in self._inputs):
            raise make_input_error(self.name)
        if not self._overwrite:
            raise make_exists_error(self.name)
        if platform.is_protected(status):
            hint = f"attrib -r {platform.quote(self.name)}"
            raise TensorIOError("read-only", "a file that may be replaced", hint, self.name)

    def begin_flush(self) -> None:
        with open_to_write(self.temporary, self.name) as file:
            platform.start_writeback(file.fd, 0, 0)

    def flush(self) -> None:
        """Return when the temporary file is on the disk.

        It has the owner and the rights of the file that it replaces.
        """
        flush_file(self.temporary, self._old)

    def take_name(self) -> None:
        rename = functools.partial(
            platform.rename_file, self.temporary, self._final, free=not self._overwrite
        )
        try:
            retry_while_in_use(rename, platform.keeps_name)
        except FileExistsError:
            raise OutputExistsError(_CREATED_MEANWHILE, "a new file", _REPLACE, self.name) from None
        except OSError as e:
            if not self._old or not platform.keeps_name(e):
                raise
            raise make_in_use_error(self.name, "replace") from None


def _is_writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK)


class NewVersion(NewLocalFile):
    """A new version of a file: a copy of it with something added, which replaces it at the end.

    It does so only if the old file is as it was at `unchanged`: what another program adds in the
    meantime is not lost.
    """

    def __init__(self, path: str, unchanged: Identity, inputs: Iterable[Identity] = ()) -> None:
        self._unchanged = unchanged
        super().__init__(path, overwrite=True, inputs=inputs)

    def take_name(self) -> None:
        with platform.lock_folder(self.folder):
            try:
                is_same = identity_of(self._final.stat()) == self._unchanged
            except FileNotFoundError:
                is_same = False
            if not is_same:
                raise _make_change_error(self.name)
            super().take_name()


class NewFolder(_NewLocal):
    """A folder to write; none that exists is replaced, since that takes more than one step."""

    def _refuse_name(self) -> None:
        if os.path.lexists(self._final):
            expected = "a new one: a folder is never replaced"
            raise TensorIOError(EXISTS_ALREADY, expected, "give it another name", self.name)
        with wrap_os_errors(self.name, "write"), contextlib.suppress(FileNotFoundError):
            # An error if the name is too long, or in a folder that may not be searched.
            self._final.stat()
        self._refuse_folder()

    def create(self) -> None:
        Path(self.temporary).mkdir()
        self.is_created = True

    def flush(self) -> None:
        """Return when all that is in it is on the disk."""
        self._flush_all({})

    def _flush_all(self, originals: Mapping[str, os.stat_result]) -> None:
        """Flush all files, each with the owner and the rights of its original, if it has one."""
        for folder, _, names in os.walk(self.temporary, topdown=False):
            for name in names:
                signals.check()
                path = os.path.join(folder, name)
                flush_file(path, originals.get(os.path.relpath(path, self.temporary)))
            platform.sync_folder(folder)

    def take_name(self) -> None:
        if os.path.lexists(self._final):
            raise TensorIOError(_CREATED_MEANWHILE, "a new one", "give it another name", self.name)
        retry_while_in_use(lambda: Path(self.temporary).rename(self._final), platform.keeps_name)

    def remove(self) -> None:
        """Remove the temporary folder with all that is in it.

        What cannot be removed is tried once more.
        """
        if self.is_created:
            import shutil  # it takes 2 ms with what it imports, and most jobs write no folder

            shutil.rmtree(self.temporary, ignore_errors=True)
            if os.path.lexists(self.temporary):
                shutil.rmtree(self.temporary)
            self.is_created = False


class NewFolderVersion(NewFolder):
    """A new version of a folder: a copy of it with something added, which replaces it at the end.

    It does so only if no file below the old folder has changed in the meantime. Where the system
    can, the two folders exchange their names in one step.
    """

    _originals: Mapping[str, os.stat_result]  # the files below the old folder, by their paths there

    def _refuse_name(self) -> None:
        with wrap_os_errors(self.name, "write"):
            self._originals = _list_below(self._final)
        statuses = self._originals.values()
        if any(identity.is_of(status) for identity in self._inputs for status in statuses):
            raise make_input_error(self.name)
        self._refuse_folder()

    def flush(self) -> None:
        self._flush_all(self._originals)
        with contextlib.suppress(OSError):  # some file systems set modes of their own
            os.chmod(self.temporary, stat.S_IMODE(self._final.stat().st_mode))

    def take_name(self) -> None:
        with platform.lock_folder(self.folder):
            try:
                now = _list_below(self._final)
            except FileNotFoundError:
                now = {}
            if _identities(now) != _identities(self._originals):
                raise _make_change_error(self.name)
            exchange = functools.partial(
                platform.exchange_folders, self.temporary, str(self._final)
            )
            retry_while_in_use(exchange, platform.keeps_name)


def _make_change_error(name: str) -> TensorIOError:
    """The error for a file or folder that is not the one of which the output is a copy."""
    found = "was changed by another program in the meantime"
    return TensorIOError(found, hint="nothing is added to it: run the command again", where=name)


def _list_below(folder: Path) -> dict[str, os.stat_result]:
    """The status of each file below a folder, by its path there."""
    statuses = {}
    for above, _, names in os.walk(folder, onerror=_raise):
        for name in names:
            signals.check()
            path = os.path.join(above, name)
            statuses[os.path.relpath(path, folder)] = os.lstat(path)
    return statuses


def _raise(error: OSError) -> None:
    raise error


def _identities(statuses: Mapping[str, os.stat_result]) -> dict[str, Identity]:
    return {name: identity_of(status) for name, status in statuses.items()}


class Scratch(_NewLocal):
    """A temporary file that never gets a name.

    It is next to the output, or in the temporary folder if there is no output file. Only this user
    can read it: an input may be private even if the folder of its output is not.
    """

    def __init__(self, next_to: str) -> None:
        if next_to:
            super().__init__(next_to, overwrite=True)
        else:
            import tempfile  # it imports shutil

            try:
                super().__init__(str(Path(tempfile.gettempdir(), "tensor")), overwrite=True)
            except OSError:
                raise TensorIOError(
                    "there is no temporary folder", "a folder to write to", "set TMPDIR"
                ) from None
            self.name = f"the temporary folder {self.folder}"
        self.folder = ""  # no name in it is to last
