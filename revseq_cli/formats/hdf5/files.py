"""HDF5 files, opened for reading and for writing; what HDF5 and h5py raise is turned into a RevseqError."""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import os
import re
from typing import TYPE_CHECKING, Any

import h5py

from revseq_cli.core import platform
from revseq_cli.core.errors import FormatError, RevseqError, TensorIOError, worded
from revseq_cli.formats import file_io

if TYPE_CHECKING:
    from collections.abc import Iterator

    from revseq_cli.formats.atomic_file import AtomicFile

# What h5py raises, for HDF5 or of its own. HDF5's messages end with the innermost of its reasons in brackets.
RAISED = (OSError, RuntimeError, KeyError, ValueError, TypeError)
_INNERMOST = re.compile(r"^[A-Z][^(]* \((.+)\)$", re.DOTALL)
_numbers = itertools.count()  # HDF5 wants another name for each file that is open
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


def checked(dataset: h5py.h5d.DatasetID, where: str) -> h5py.h5d.DatasetID:
    """The dataset, of which nothing was asked before; FormatError if its values stand in other files.

    Every dataset passes here first: HDF5 opens the files of a virtual one as soon as it is asked for its sizes.
    """
    properties = dataset.get_create_plist()
    if properties.get_layout() == h5py.h5d.VIRTUAL:
        raise FormatError("is a virtual dataset, made of other files", "values in the file itself", where=where)
    if properties.get_external_count():
        raise FormatError("keeps its values in another file", "values in the file itself", where=where)
    return dataset


def dataset_at(file: h5py.File, place: str, where: str) -> h5py.Dataset:
    """The dataset at a path of hard links; FormatError if its values stand in other files."""
    return h5py.Dataset(checked(h5py.h5d.open(file.id, place.encode("utf-8", "surrogateescape")), where))


@contextlib.contextmanager
def opened(path: str, where: str = "") -> Iterator[h5py.File]:
    """The file, for reading; what h5py raises inside the block becomes a RevseqError about `where`, or the path."""
    try:
        with _open(path) as file:
            yield file
    except RevseqError:
        raise
    except RAISED as e:
        if not _is_of_h5py(e):
            raise
        raise _worded(e, path, where or path) from None


def in_memory(image: bytes = b"") -> h5py.File:
    """A file that is in memory alone: a new one, or with these bytes. h5py has such a function since 3.13."""
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_fapl_core(backing_store=False)
    name = b"in memory %d" % next(_numbers)
    if not image:
        return h5py.File(h5py.h5f.create(name, h5py.h5f.ACC_EXCL, fapl=access))
    access.set_file_image(image)
    return h5py.File(h5py.h5f.open(name, fapl=access))


def _is_of_h5py(error: Exception) -> bool:
    """Whether the error was raised inside h5py; any other is a mistake in this program."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0] == "h5py"


def _worded(error: Exception, path: str, where: str) -> RevseqError:
    """The RevseqError for an error of h5py's; only what HDF5 itself cannot read is called damaged."""
    words = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    if "memory allocation failed" in words:
        return worded(MemoryError(), where)
    if "unable to lock file" in words:
        return TensorIOError("is being written by another process", hint="try again later", where=path)
    if "already open for" in words:  # a mark in the file, which a writer that was killed leaves behind
        hint = f"try again later; if nobody writes it: h5clear -s {platform.quoted(path)}"
        return TensorIOError("is being written by another process", hint=hint, where=path)
    if number := error_number(error):
        return file_io.failed(where, "read", OSError(number, os.strerror(number)))
    if not (innermost := _INNERMOST.search(words)):  # a message of h5py's own, about what it does not support
        return FormatError(f"h5py cannot read it: {words[:200]}", "what h5py knows", where=where)
    reason = innermost[1][:200]
    newer = f", or of a newer version than HDF5 {h5py.version.hdf5_version}" if "version" in reason else ""
    return TensorIOError(f"HDF5 cannot read it: truncated or damaged{newer} ({reason})", "a whole file", where=where)


def _open(path: str) -> h5py.File:
    path = platform.plain_path(path)
    try:
        return h5py.File(path, "r")
    except OSError as e:
        if error_number(e) not in _NO_LOCKS:
            raise
        return h5py.File(path, "r", locking=False)  # a network file system without locks


def error_number(error: Exception) -> int:
    """The system's error number, which HDF5 has in its message; 0 where there is none."""
    match = re.search(r"errno = (\d+)", str(error))
    return getattr(error, "errno", None) or (int(match[1]) if match else 0)


class Recorder(io.FileIO):
    """A file that keeps the first error of a write in `error`, and reports success to HDF5.

    HDF5 does not survive a failed write: it reports it late, and may crash when the process ends. `writing` raises the
    error instead.
    """

    error: OSError | None = None

    def __init__(self, file: AtomicFile) -> None:
        try:
            super().__init__(file.temporary, "r+", opener=lambda path, _: platform.open_file(path, platform.UPDATE))
        except OSError as e:
            raise file_io.failed(file.name, "write", e) from None

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        """Write all of the data, or keep the error."""
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view) and not self.error:
            try:
                done += super().write(view[done:])
            except OSError as e:
                self.error = e
        return len(view)

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
                raise file_io.failed(name, "write", OSError(number, os.strerror(number))) from None
            raise TensorIOError(f"HDF5 cannot write it: {str(e)[:200]}", where=name) from None
    if recorder and recorder.error:
        raise file_io.failed(name, "write", recorder.error) from None
