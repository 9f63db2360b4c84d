"""The safe write: a file that gets its name only when it is complete, flushed and in place."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shlex
import shutil
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from revseq_cli.formats.storage import positioned
from revseq_cli.formats.zarr import metadata
from revseq_cli.ground import stopping
from revseq_cli.ground.errors import TensorIOError, Words, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType
    from typing import Self

# What a killed run may leave behind; later runs ignore it, and it can be deleted.
TEMPORARY_PREFIX = ".revseq-"
_COPIED_AT_ONCE = 1 << 26  # bytes of a file that is copied whole
_REPLACE = Words.of("add {} to replace it", overwrite="")
# How the names of one process go on, where another cleans up after it.
tag = ""


class NewFile:
    """A temporary neighbour of the output, which takes the output's name when the `with` block ends well.

    The name holds its old content, or nothing, until then: temporary file, flush, rename, flush of the directory.
    Making one checks the output before any work and writes nothing.
    """

    def __init__(self, path: str, *, overwrite: bool, inputs: Iterable[positioned.Identity] = ()) -> None:
        self.name = path
        self.notes: list[str] = []  # what to tell of a file that is complete
        self._overwrite = overwrite
        self._named = False
        self._leader: NewFile | None = None
        self._waiting: list[NewFile] = []
        self._final = Path(os.path.realpath(path))  # a link stays a link; what it names is replaced
        self._old: os.stat_result | None = None  # of the file that is to be replaced
        self._check(inputs)
        self.temporary = str(self._final.with_name(f"{TEMPORARY_PREFIX}{tag}{secrets.token_hex(8)}.tmp"))

    def named_with(self, leader: NewFile) -> None:
        """Take the name together with another new file, just before it; that one is entered first."""
        self._leader = leader

    def _refuse_folder(self) -> None:
        """A name that ends like a folder's is no file's, whatever realpath makes of it."""
        if os.path.basename(self.name) in ("", ".", "..") and not self._final.is_dir():  # noqa: PTH119 - a Path has no such end
            hint = f"try {shlex.quote(os.path.normpath(self.name))}"
            raise TensorIOError("is the name of a folder", "the name of a file to write", hint, self.name)

    def _refuse_arrays(self) -> None:
        """A file inside a Zarr array would be a part of it, and a group must keep what makes it one."""
        inside = next((folder for folder in self._final.parents if metadata.is_array(folder)), None)
        if inside or metadata.is_metadata(self._final):
            found = f"lies inside the Zarr array {inside}" if inside else "has the metadata of a Zarr group"
            raise TensorIOError(found, "a name outside of it", "give the output another name", self.name)

    def _check(self, inputs: Iterable[positioned.Identity]) -> None:
        """Refuse what could not be replaced, before any work."""
        self._refuse_folder()
        self._refuse_arrays()
        try:
            status = self._final.stat()
        except FileNotFoundError:
            self._check_folder()
            return
        except OSError as e:
            raise positioned.failed(self.name, "write", e) from None
        if stat.S_ISDIR(status.st_mode):
            raise TensorIOError("is a directory", "the name of a file to write", where=self.name)
        if not stat.S_ISREG(status.st_mode):
            raise TensorIOError("is not a regular file", "the name of a file to write", where=self.name)
        if any(each.names(status) for each in inputs) or positioned.is_open(0, status):
            raise TensorIOError(
                "is an input of this job", "another file: there is no in-place execution, as in DirectML",
                "give the output another name", self.name,
            )  # fmt: skip
        if stream := positioned.stream_to(status):
            raise TensorIOError(f"is what {stream} goes to", "another file", "redirect to another name", self.name)
        if not self._overwrite:
            raise TensorIOError("already exists", "a new file", _REPLACE, self.name)
        self._check_folder()
        self._old = status

    def _check_folder(self) -> None:
        folder = self._final.parent
        if not folder.is_dir():
            raise TensorIOError(
                f"cannot write: no such folder as {folder}",
                hint=f"mkdir -p {shlex.quote(str(folder))}",
                where=self.name,
            )
        if not os.access(folder, os.W_OK | os.X_OK):
            number = errno.EROFS if positioned.is_read_only(folder) else errno.EACCES
            raise positioned.failed(self.name, "write", OSError(number, os.strerror(number)))

    def __enter__(self) -> Self:
        """Create the temporary neighbour, empty."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(stopping.deferred())  # until the file has its name, or is removed
            try:
                self._create()
            except OSError as e:
                if not isinstance(e, FileExistsError):  # that one is not ours
                    self._remove()
                raise positioned.failed(self.name, "write", e) from None
            stopping.at_once[self] = self._remove
            self._deferred = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give it its name; after an error, remove it."""
        with self._deferred, contextlib.ExitStack() as undo:
            undo.callback(self._remove)
            for file in self._waiting:
                undo.callback(file._remove)  # noqa: SLF001 - one of us
            if kind is None:
                self._complete()
                if self._leader:
                    self._leader._waiting.append(self)  # noqa: SLF001
                    undo.pop_all()

    def write(self, data: bytes) -> None:
        """The whole content at once, of a file that is entered."""
        with positioned.opened_to_write(self.temporary, self.name) as fd:
            positioned.write_all(fd, data, 0, self.name)

    def fill_from(
        self, path: str, unchanged: positioned.Identity, parts: Iterable[tuple[int, int, int]] | None = None
    ) -> None:
        """Copy another file, which must be as it was at `unchanged`, into this entered one: whole, or parts of it.

        Each part says from which offset, how many bytes, and to which offset.
        """
        with (
            positioned.opened(path, unchanged) as source,
            positioned.opened_to_write(self.temporary, self.name) as target,
        ):
            for part in [(0, unchanged.size, 0)] if parts is None else parts:
                _copy((source, path), (target, self.name), *part)

    def _create(self) -> None:
        self._make(0o600 if self._old else 0o666)  # what was private is at no time for all to read

    def _make(self, mode: int) -> None:
        os.close(os.open(self.temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | positioned.BINARY, mode))

    def _remove(self) -> None:
        stopping.at_once.pop(self, None)
        try:
            Path(self.temporary).unlink(missing_ok=True)
        except OSError as e:
            if not self._named:
                raise positioned.failed(self.name, f"remove {self.temporary}", e) from None
            found = f"{self.name} is written, but {self.temporary} could not be removed: {e.strerror}"
            (self._leader or self).notes.append(found)

    def _complete(self) -> None:
        """On the disk; and with its name, if it waits for no other."""
        with self._told():
            self._flush()
        if self._leader:
            return
        stopping.check()
        together = [*self._waiting, self]
        for i, file in enumerate(together):
            with file._told(together[:i]):  # noqa: SLF001 - one of us
                file._take_name()  # noqa: SLF001
                file._named = True  # noqa: SLF001
        for file in together:
            try:
                positioned.flush_directory(file._final.parent)  # noqa: SLF001
            except OSError as e:  # the file is complete and has its name; only a power cut now could take it back
                self.notes.append(f"{file.name} is written, but its folder could not be flushed: {e.strerror}")

    @contextlib.contextmanager
    def _told(self, named: Iterable[NewFile] = ()) -> Iterator[None]:
        """Errors in our form, which say what has its name already."""
        try:
            yield
        except OSError as e:
            error = e if isinstance(e, TensorIOError) else positioned.failed(self.name, "write", e)
            if names := [file.name for file in named]:
                error.found += f"; {listed(names)} is written already"
            raise error from None

    def _flush(self) -> None:
        positioned.flush(self.temporary, self._old)

    def _take_name(self) -> None:
        if not self._overwrite:
            try:  # a link, unlike a rename, never replaces what came to stand there in the meantime
                os.link(self.temporary, self._final)
            except FileExistsError:
                raise TensorIOError(
                    "was made by somebody else meanwhile",
                    "a new file",
                    _REPLACE,
                    self.name,
                ) from None
            except OSError:  # a file system without hard links
                if self._final.exists():
                    raise
            else:
                return
        Path(self.temporary).replace(self._final)


class NewFolder(NewFile):
    """The same for a folder: every file is flushed; a folder that exists cannot be replaced in one step, and stays."""

    def _check(self, inputs: Iterable[positioned.Identity]) -> None:
        if os.path.lexists(self._final):
            wanted = "a new one: a folder is never replaced"
            raise TensorIOError("already exists", wanted, "give it another name", self.name)
        super()._check(inputs)

    def _refuse_folder(self) -> None:
        """It is one."""

    def _create(self) -> None:
        Path(self.temporary).mkdir()

    def _remove(self) -> None:
        stopping.at_once.pop(self, None)
        shutil.rmtree(self.temporary, ignore_errors=True)

    def _flush(self) -> None:
        for folder, _, names in os.walk(self.temporary, topdown=False):
            for name in names:
                stopping.check()
                positioned.flush(os.path.join(folder, name))  # noqa: PTH118 - as os.walk has it
            positioned.flush_directory(Path(folder))

    def _take_name(self) -> None:
        if os.path.lexists(self._final):
            raise TensorIOError("was made by somebody else meanwhile", "a new one", "give it another name", self.name)
        Path(self.temporary).rename(self._final)


def copy_file(path: str, new: str, name: str) -> None:
    """A regular file into a new one, inside a folder that is entered; `name` is what to call that folder."""
    with positioned.opened(path) as source:
        try:
            os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | positioned.BINARY, 0o666))
        except OSError as e:
            raise positioned.failed(name, "write", e) from None
        with positioned.opened_to_write(new, name) as target:
            _copy((source, path), (target, name), 0, positioned.identity(source).size, 0)


def _copy(source: tuple[int, str], target: tuple[int, str], start: int, size: int, to: int) -> None:
    """A part of one open file into another, from one offset to another; a signal is heard meanwhile."""
    stopping.check()
    for done in range(0, size, _COPIED_AT_ONCE):
        stopping.check()
        positioned.copy(source, target, start + done, min(_COPIED_AT_ONCE, size - done), to + done)


class Scratch(NewFile):
    """A temporary file that never gets a name: a neighbour of the output, or without one in the temporary folder."""

    def __init__(self, beside: str) -> None:
        super().__init__(beside or str(Path(_temporary_folder(), "tensor")), overwrite=True)
        self.name = beside or f"the temporary folder {self._final.parent}"

    def _check(self, inputs: Iterable[positioned.Identity]) -> None:  # noqa: ARG002 - it replaces nothing
        self._check_folder()

    def _create(self) -> None:
        self._make(0o600)  # an input may be private where its output's folder is not

    def _complete(self) -> None:
        pass


def _temporary_folder() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:
        raise TensorIOError("there is no temporary folder", "one to write to", "set TMPDIR") from None
