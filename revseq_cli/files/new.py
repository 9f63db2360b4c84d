"""New files: each is written under a temporary name, and named when all of a job are complete."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Self

from revseq_cli.core import platform, signals
from revseq_cli.core.errors import FileThereError, TensorIOError, exists_already
from revseq_cli.files.address import is_address, local_path
from revseq_cli.files.base import (
    Identity,
    failed,
    goes_to,
    identity_of,
    in_use,
    patiently,
    trying_to,
)
from revseq_cli.files.local import flush, open_to_write

# A killed run may leave files whose names begin so. Later runs ignore them, and they can be
# deleted.
TEMPORARY_PREFIX = ".revseq-"
_REPLACE = "to replace it, add --overwrite"
_NAME = "the name of a file to write"
_mark = ""


def is_of_this_batch(name: str) -> bool:
    """Whether it is the temporary name of a job of the batch that this process works for."""
    return bool(_mark) and name.startswith(f"{TEMPORARY_PREFIX}{_mark}")


def mark_temporary_files(mark: str) -> None:
    """Put a mark into all temporary names of this process, for the one that cleans up after it."""
    global _mark
    _mark = mark


def temporary_name() -> str:
    """A new name of a temporary file."""
    return f"{TEMPORARY_PREFIX}{_mark}{os.urandom(8).hex()}.tmp"


def is_an_input(name: str) -> TensorIOError:
    """The error for an output that is an input."""
    hint = "choose another name for the output"
    return TensorIOError("the output is also an input", hint=hint, where=name)


class NewFile:
    """A file to write.

    Its temporary file is next to it, and the name keeps its old content or none until the end.

    Making one checks the name before any work, and writes nothing. `FileTransaction` calls the
    steps: `create`, `flush` and `take_name`, and `remove` at the end in any case. Each raises the
    OSError of the system. `is_created` says whether the temporary file exists. Temporary files of
    its pass are next to the file `next_to`.
    """

    address = ""  # of a folder whose files go there
    reaches_workers = True  # whether workers in other processes, or on other machines, can write it
    _mode = 0o666

    def __init__(self, path: str, *, overwrite: bool, inputs: Iterable[Identity] = ()) -> None:
        path = local_path(path) or path
        self.name = self.next_to = path
        self.is_created, self._overwrite = False, overwrite
        if is_address(path):  # of a picture, for example
            raise TensorIOError("an address", "a file of this machine", where=path)
        fault, hint = platform.name_fault(path)
        if fault:
            raise TensorIOError(fault, _NAME, hint, path)
        self._final = Path(platform.real_path(path))  # a link stays, and what it names is replaced
        self._old: os.stat_result | None = None  # of the file that is to be replaced
        self._check(inputs)
        self.temporary = str(self._final.with_name(temporary_name()))

    def _check(self, inputs: Iterable[Identity]) -> None:
        """Refuse a name that could not be given or replaced."""
        if os.path.basename(self.name) in ("", ".", "..") and not self._final.is_dir():
            hint = f"to write a file, type {platform.quote(os.path.normpath(self.name))}"
            raise TensorIOError("the name of a folder", _NAME, hint, self.name)
        with trying_to("write", self.name), contextlib.suppress(FileNotFoundError):
            self._old = self._final.stat()
        if status := self._old:
            if stat.S_ISDIR(status.st_mode):
                raise TensorIOError("a directory", _NAME, where=self.name)
            if not stat.S_ISREG(status.st_mode):
                raise TensorIOError("a pipe or a device", _NAME, where=self.name)
            if any(identity.is_of(status) for identity in inputs) or goes_to(status, 0):
                raise is_an_input(self.name)
            if not self._overwrite:
                raise exists_already(self.name)
            if platform.is_protected(status):
                hint = f"attrib -r {platform.quote(self.name)}"
                raise TensorIOError("read-only", "a file that may be replaced", hint, self.name)
        self._check_folder()

    def _check_folder(self) -> None:
        folder = self._final.parent
        if not folder.is_dir():
            above = next(filter(os.path.lexists, (folder, *folder.parents)), None)
            can_be_made = above and above.is_dir() and os.access(above, os.W_OK | os.X_OK)
            hint = f"{platform.MAKE_FOLDER} {platform.quote(str(folder))}" if can_be_made else ""
            raise TensorIOError(
                f"cannot write: no such folder as {folder}", hint=hint, where=self.name
            )
        if not os.access(folder, os.W_OK | os.X_OK):
            number = errno.EROFS if platform.is_read_only(folder) else errno.EACCES
            raise failed(self.name, "write", OSError(number, os.strerror(number)))

    def write(self, data: bytes) -> None:
        """Write the whole content at once into the temporary file."""
        with open_to_write(self.temporary, self.name) as file:
            file.write(data, 0)

    def create(self) -> None:
        """Create the temporary file, empty.

        Nobody can read it who may not read the file that it replaces.
        """
        mode = 0o600 if self._old else self._mode
        fd = platform.create_file(self.temporary, mode)
        self.is_created = True
        os.close(fd)

    def flush(self) -> None:
        """Return when the temporary file is on the disk.

        It has the owner and the rights of the file that it replaces.
        """
        flush(self.temporary, self._old)

    def begin_flush(self) -> None:
        """Let the system begin to bring the temporary file to the disk.

        Do not wait for that.
        """
        with open_to_write(self.temporary, self.name) as file:
            platform.begin_flush(file.fd, 0, 0)

    def identify(self) -> tuple[int, int] | None:
        """What stays the same when the temporary file gets its name; None for one at an address."""
        status = os.stat(self.temporary)
        return status.st_dev, status.st_ino

    def take_name(self) -> None:
        """Give the file its name; without `overwrite` it never replaces another."""
        take = functools.partial(
            platform.take_name, self.temporary, self._final, free=not self._overwrite
        )
        try:
            patiently(take, platform.keeps_name)
        except FileExistsError:
            found = "was created by another program in the meantime"
            raise FileThereError(found, "a new file", _REPLACE, self.name) from None
        except OSError as e:
            if not self._old or not platform.keeps_name(e):
                raise
            raise in_use(self.name, "replace") from None

    @property
    def folder(self) -> str:
        """The folder with the name, which is to be flushed.

        "" where there is none on this machine.
        """
        return str(self._final.parent)

    def flush_folder(self) -> str:
        """Return when the name is on the disk; a note where it may not last."""
        if not self.folder:
            return ""
        try:
            platform.flush_folder(self.folder)
        except OSError as e:  # the file is complete; only a power cut could take its name back
            return f"{self.name} is written, but its folder could not be flushed: {e.strerror}"
        return ""

    def remove(self) -> None:
        """Remove the temporary file, if it was created and still has its temporary name."""
        if self.is_created:
            gone = functools.partial(Path(self.temporary).unlink, missing_ok=True)
            patiently(gone, platform.keeps_name, stops=False)
            self.is_created = False


class FileTransaction:
    """One or more new files, written in one `with` block and named at its end.

    Entering creates the temporary files. When the block ends well, all files are flushed, and only
    then each gets its name, in the order given. After an error the temporary files are removed. A
    signal in the meantime counts at the end. `notes` says what could not be removed or flushed
    after the files had their names.
    """

    def __init__(self, *files: NewFile) -> None:
        self._files = files
        self._named: list[NewFile] = []
        self.notes: list[str] = []

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            stack.enter_context(signals.defer())
            for file in self._files:
                stack.callback(self._remove, file)
                with trying_to("write", file.name):
                    file.create()
            self._undo = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._undo:
            if kind is not None:
                return
            with signals.begin_stage("flush to disk", 0) as advance:
                for file in self._files:
                    advance(0)  # shown at once: a flush may take long, and tells nothing
                    with trying_to("write", file.name):
                        file.flush()
            signals.check()
            for file in self._files:
                with trying_to("write", file.name):
                    file.take_name()
                self.notes += filter(None, [file.flush_folder()])
                self._named.append(file)

    def _remove(self, file: NewFile) -> None:
        try:
            file.remove()
        except OSError as e:
            if file not in self._named:
                raise failed(file.name, f"remove {file.temporary}", e) from None
            self.notes.append(_not_removed(file, e))


def _not_removed(file: NewFile, error: OSError) -> str:
    return f"{file.name} is written, but {file.temporary} could not be removed: {error.strerror}"


class FileGroup:
    """The files of many small jobs, as a context: they are flushed together, and only then named.

    Each is written inside `create`, then `flush` and `take_names` are called once. To flush 2,000
    files of 50 KB one after another takes 0.5 ms of CPU for each file and its folder, and on a disk
    a wait for each.

    `errors` says which files were not written, and `notes` what could not be removed or flushed.
    """

    def __init__(self) -> None:
        self._files: list[NewFile] = []
        self.errors: dict[NewFile, TensorIOError] = {}
        self.notes: dict[NewFile, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            try:
                file.remove()
            except OSError as e:
                self.notes[file] = _not_removed(file, e)

    @contextlib.contextmanager
    def create(self, file: NewFile) -> Iterator[None]:
        """Create the temporary file, which is written inside.

        After an error it is removed at once.
        """
        try:
            with trying_to("write", file.name):
                file.create()
            yield
        except BaseException:  # a signal, too
            with trying_to(f"remove {file.temporary} of", file.name):
                file.remove()
            raise
        self._files.append(file)

    def flush(self) -> list[NewFile]:
        """Return when all files are on the disk; those that are."""
        if len(self._files) > 1:
            for file in self._files:
                self._attempt(file.begin_flush, file)
        for file in self._files:
            self._attempt(file.flush, file)
        return self._without_error()

    def take_names(self) -> None:
        """Name the files that were flushed, and flush each of their folders once."""
        for file in self._without_error():
            self._attempt(file.take_name, file)
        notes: dict[str, str] = {}
        for file in self._without_error():
            if file.folder not in notes:
                notes[file.folder] = file.flush_folder()
            if notes[file.folder]:
                self.notes[file] = notes[file.folder]

    def _attempt(self, step: Callable[[], None], file: NewFile) -> None:
        """Do a step for a file that no step has failed for."""
        if file in self.errors:
            return
        try:
            with trying_to("write", file.name):
                step()
        except TensorIOError as e:
            self.errors[file] = e

    def _without_error(self) -> list[NewFile]:
        return [file for file in self._files if file not in self.errors]


class NewFolder(NewFile):
    """A folder to write.

    A folder that exists cannot be replaced in one step, and so is never replaced.

    `_states` has the status of each file below a folder of which it is a copy, by its path there.
    """

    _states: Mapping[str, os.stat_result] = {}

    def _check(self, inputs: Iterable[Identity]) -> None:  # noqa: ARG002 - it replaces nothing
        if os.path.lexists(self._final):
            expected = "a new one: a folder is never replaced"
            raise TensorIOError("exists already", expected, "give it another name", self.name)
        with trying_to("write", self.name), contextlib.suppress(FileNotFoundError):
            # Refuses a name that is too long, or in a folder that may not be searched.
            self._final.stat()
        self._check_folder()

    def create(self) -> None:
        Path(self.temporary).mkdir()
        self.is_created = True

    def flush(self) -> None:
        """Return when all that is in it is on the disk.

        What is copied has the owner and the rights that it had.
        """
        for folder, _, names in os.walk(self.temporary, topdown=False):
            for name in names:
                signals.check()
                path = os.path.join(folder, name)
                flush(path, self._states.get(os.path.relpath(path, self.temporary)))
            platform.flush_folder(folder)

    def begin_flush(self) -> None:
        """Nothing to begin: a folder is flushed file by file."""

    def take_name(self) -> None:
        if os.path.lexists(self._final):
            found, hint = "was created by another program in the meantime", "give it another name"
            raise TensorIOError(found, "a new one", hint, self.name)
        patiently(lambda: Path(self.temporary).rename(self._final), platform.keeps_name)

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


class NewVersion(NewFile):
    """A file to write that replaces the one of its name.

    It is a copy of that one with something added.

    It gets its name only if that file is as it was at `unchanged`: what another program adds in the
    meantime is not lost.
    """

    def __init__(self, path: str, unchanged: Identity, inputs: Iterable[Identity] = ()) -> None:
        self._unchanged = unchanged
        super().__init__(path, overwrite=True, inputs=inputs)

    def take_name(self) -> None:
        with platform.lock_folder(str(self._final.parent)):
            try:
                is_same = identity_of(self._final.stat()) == self._unchanged
            except FileNotFoundError:
                is_same = False
            if not is_same:
                raise _make_change_error(self.name)
            super().take_name()


class NewFolderVersion(NewFolder):
    """A folder to write that replaces the one of its name.

    It is a copy of that one with something added.

    It gets its name only if no file below that folder has changed in the meantime. Where the system
    can, the two folders change their names in one step.
    """

    def _check(self, inputs: Iterable[Identity]) -> None:
        with trying_to("write", self.name):
            self._states = _states_below(self._final)
        if any(identity.is_of(status) for identity in inputs for status in self._states.values()):
            raise is_an_input(self.name)
        self._check_folder()

    def flush(self) -> None:
        super().flush()
        with contextlib.suppress(OSError):  # some file systems set modes of their own
            os.chmod(self.temporary, stat.S_IMODE(self._final.stat().st_mode))

    def take_name(self) -> None:
        with platform.lock_folder(str(self._final.parent)):
            try:
                states = _states_below(self._final)
            except FileNotFoundError:
                states = {}
            if _identities(states) != _identities(self._states):
                raise _make_change_error(self.name)
            exchange = functools.partial(platform.exchange, self.temporary, str(self._final))
            patiently(exchange, platform.keeps_name)


def _make_change_error(name: str) -> TensorIOError:
    """The error for a file or folder that is not the one of which the output is a copy."""
    found = "was changed by another program in the meantime"
    return TensorIOError(found, hint="nothing is added to it: run the command again", where=name)


def _states_below(folder: Path) -> dict[str, os.stat_result]:
    """The status of each file below a folder, by its path there."""
    states = {}
    for above, _, names in os.walk(folder, onerror=_raise):
        for name in names:
            signals.check()
            path = os.path.join(above, name)
            states[os.path.relpath(path, folder)] = os.lstat(path)
    return states


def _raise(error: OSError) -> None:
    raise error


def _identities(states: Mapping[str, os.stat_result]) -> dict[str, Identity]:
    return {name: identity_of(status) for name, status in states.items()}


class Scratch(NewFile):
    """A temporary file that never gets a name.

    It is next to the output, or in the temporary folder if there is none.

    It is only for this user: an input may be private where its output's folder is not.
    """

    _mode = 0o600

    def __init__(self, next_to: str) -> None:
        if next_to:
            super().__init__(next_to, overwrite=True)
            return
        import tempfile  # it imports shutil

        try:
            super().__init__(str(Path(tempfile.gettempdir(), "tensor")), overwrite=True)
        except OSError:
            raise TensorIOError(
                "there is no temporary folder", "a folder to write to", "set TMPDIR"
            ) from None
        self.name = f"the temporary folder {self._final.parent}"

    def _check(self, inputs: Iterable[Identity]) -> None:  # noqa: ARG002 - it replaces nothing
        self._check_folder()

    def flush(self) -> None:
        """Nothing to flush: the file is about to be removed."""

    def take_name(self) -> None:
        """No name to take: the file is about to be removed."""

    @property
    def folder(self) -> str:
        return ""
