"""New files that are complete before any of them gets its name: those of a job, or of many jobs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Self

from revseq_cli.core import signals
from revseq_cli.core.errors import TensorIOError
from revseq_cli.files.new import NewFile
from revseq_cli.files.system_errors import make_os_error, wrap_os_errors


class FileTransaction:
    """One or more new files, written in one `with` block and named at its end.

    Entering creates the temporary files. When the block ends well, all files are flushed, and then
    each gets its name, in the order given. After an error the temporary files are removed. A signal
    is only noted until the end. `notes` says what could not be removed or flushed after the files
    had their names.
    """

    def __init__(self, *files: NewFile) -> None:
        self._files = files
        self._named: list[NewFile] = []
        self.notes: list[str] = []

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            stack.enter_context(signals.defer())
            for file in self._files:
                stack.callback(self._undo_file, file)
                _do_step(file, file.create)
            self._undo = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._undo:
            if kind is not None:
                return
            with signals.begin_stage("flush to disk", 0) as advance:
                for file in self._files:
                    advance(0)  # shown at once, since a flush may take long, and says nothing
                    _do_step(file, file.flush)
            signals.check()
            for file in self._files:
                _do_step(file, file.take_name)
                note = file.flush_folder()
                if note:
                    self.notes.append(note)
                self._named.append(file)

    def _undo_file(self, file: NewFile) -> None:
        try:
            file.remove()
        except OSError as e:
            if file not in self._named:
                raise make_os_error(file.name, f"remove {file.temporary}", e) from None
            self.notes.append(_note_leftover(file, e))


def _do_step(file: NewFile, step: Callable[[], None]) -> None:
    with wrap_os_errors(file.name, "write"):
        step()


def _note_leftover(file: NewFile, error: OSError) -> str:
    return f"{file.name} is written, but {file.temporary} could not be removed: {error.strerror}"


class FileGroup:
    """The files of many small jobs, as a context: they are flushed together, and then named.

    Each is written inside `add`. Then `flush_all` and `take_names` are called once. One after
    another, 2,000 files of 50 KB would take 0.5 ms of CPU for each file and its folder, and on a
    disk a wait for each.

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
                self.notes[file] = _note_leftover(file, e)

    @contextlib.contextmanager
    def add(self, file: NewFile) -> Iterator[None]:
        """Create the temporary file, which is written inside, and removed at once if that fails."""
        try:
            _do_step(file, file.create)
            yield
        except BaseException:  # a signal, too
            with wrap_os_errors(file.name, f"remove {file.temporary} of"):
                file.remove()
            raise
        self._files.append(file)

    def flush_all(self) -> list[NewFile]:
        """The files that are on the disk when this returns."""
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
        """Do a step for a file, unless an earlier step has failed."""
        if file in self.errors:
            return
        try:
            _do_step(file, step)
        except TensorIOError as e:
            self.errors[file] = e

    def _without_error(self) -> list[NewFile]:
        return [file for file in self._files if file not in self.errors]
