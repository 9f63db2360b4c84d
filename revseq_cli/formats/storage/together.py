"""New files that get their names together: all of them, or none after an error."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from revseq_cli.formats.storage import positioned
from revseq_cli.ground import stopping
from revseq_cli.ground.errors import TensorIOError, listed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

    from revseq_cli.formats.storage.newfile import NewFile


class Together:
    """One or more new files, written in one `with` block and named at its end.

    Entering creates the temporary files. When the block ends well, all files are flushed, and only then each gets its
    name, in the order given. After an error the temporary files are removed. A signal is noted meanwhile, and counts at
    the end; a second signal removes the temporary files at once.
    `notes` says what could not be removed or flushed after the files had their names.
    """

    def __init__(self, *files: NewFile) -> None:
        self._files = files
        self._named: list[NewFile] = []
        self.notes: list[str] = []

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            stack.enter_context(stopping.deferred())
            for file in self._files:
                stack.callback(self._remove, file)
                stopping.at_once[file] = file.remove
                with self._errors_worded(file):
                    file.create()
            self._undo = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._undo:
            if kind is None:
                self._flush_and_name()

    def _flush_and_name(self) -> None:
        for file in self._files:
            with self._errors_worded(file):
                file.flush()
        stopping.check()
        for file in self._files:
            with self._errors_worded(file):
                file.take_name()
            self._named.append(file)
        for file in self._files:
            try:
                file.flush_folder()
            except OSError as e:  # the file is complete and has its name; only a power cut now could take it back
                self.notes.append(f"{file.name} is written, but its folder could not be flushed: {e.strerror}")

    @contextlib.contextmanager
    def _errors_worded(self, file: NewFile) -> Iterator[None]:
        """Turn an OSError into a TensorIOError about the file, with the names that are given already."""
        try:
            yield
        except OSError as e:
            error = e if isinstance(e, TensorIOError) else positioned.failed(file.name, "write", e)
            if self._named:
                error.found += f"; {listed(each.name for each in self._named)} is written already"
            raise error from None

    def _remove(self, file: NewFile) -> None:
        stopping.at_once.pop(file, None)
        try:
            file.remove()
        except OSError as e:
            if file not in self._named:
                raise positioned.failed(file.name, f"remove {file.temporary}", e) from None
            self.notes.append(f"{file.name} is written, but {file.temporary} could not be removed: {e.strerror}")
