"""How HDF5 writes into a new file: through an object that keeps errors for later, since HDF5 does not survive them."""

from __future__ import annotations

import contextlib
import io
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.formats.hdf5.files import error_number
from revseq_cli.formats.storage import positioned
from revseq_cli.ground import system
from revseq_cli.ground.errors import RevseqError, TensorIOError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.storage.newfile import NewFile


class Recorder(io.FileIO):
    """A file that keeps the first error of a write in `error`, and reports success to HDF5.

    HDF5 does not survive a failed write: it reports it late, and may crash when the process ends. `writing` raises the
    error instead.
    """

    error: OSError | None = None
    _blank: NDArray[np.uint8] | None = None
    _offset = 0

    def __init__(self, file: NewFile) -> None:
        try:
            self._name = file.name
            super().__init__(file.temporary, "r+", opener=lambda path, _: system.open_file(path, system.UPDATE))
        except OSError as e:
            raise positioned.failed(file.name, "write", e) from None

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        """Write all of the data, or keep the error; of a blank, only remember the offset."""
        view = memoryview(data).cast("B")
        if self._blank is not None and _address(view) == _address(self._blank.data):
            self._offset = self.tell()
            return len(view)
        done = 0
        while done < len(view) and not self.error:
            try:
                done += super().write(view[done:])
            except OSError as e:
                self.error = e
        return len(view)

    def offset_of(self, blank: NDArray[np.uint8], write: Callable[[], None]) -> int:
        """Where HDF5 would write the blank, which `write` gives it: the bytes themselves are somebody else's work."""
        self._blank, self._offset = blank, 0
        try:
            write()
        finally:
            self._blank = None
        if not self._offset and not self.error:  # the file's first bytes are never a chunk's
            found, wanted = "cannot write: HDF5 does not tell where a chunk lies", "another version of HDF5"
            raise TensorIOError(found, wanted, "write a .npy file", self._name)
        return self._offset

    def truncate(self, size: int | None = None) -> int:
        """Change the file's size, or keep the error."""
        try:
            return super().truncate(size)
        except OSError as e:
            self.error = self.error or e
            return size or 0


@contextlib.contextmanager
def writing(name: str, recorder: Recorder | None = None) -> Iterator[None]:
    """Turn what h5py raises into a RevseqError about `name`, and raise the error that the recorder has kept."""
    try:
        yield
    except RevseqError:
        raise
    except (OSError, RuntimeError, ValueError) as e:
        if not (recorder and recorder.error):
            if number := error_number(e):
                raise positioned.failed(name, "write", OSError(number, os.strerror(number))) from None
            raise TensorIOError(f"HDF5 cannot write it: {str(e)[:200]}", where=name) from None
    if recorder and recorder.error:
        raise positioned.failed(name, "write", recorder.error) from None


def _address(view: memoryview) -> int:
    """Where the bytes are in memory."""
    return int(np.frombuffer(view, np.uint8).__array_interface__["data"][0])
