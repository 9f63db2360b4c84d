"""HDF5 files opened for reading, and what HDF5 and h5py raise as errors of this program."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from typing import TYPE_CHECKING

import h5py

from revseq_cli.core import platform
from revseq_cli.core.errors import FormatError, RevseqError, TensorIOError, worded
from revseq_cli.formats import file_io

if TYPE_CHECKING:
    from collections.abc import Iterator

# What h5py raises, for HDF5 or of its own.
RAISED = (OSError, RuntimeError, KeyError, ValueError, TypeError)
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


@contextlib.contextmanager
def opened(path: str, name: str = "", unchanged: file_io.Identity | None = None) -> Iterator[h5py.File]:
    """The file, for reading, which must be as it was at `unchanged`; `name` is what to call it, or the tensor in it.

    What h5py raises inside the block becomes a RevseqError.
    """
    with file_io.opened(path, unchanged, name) as fd:
        try:
            with _open(platform.plain_path(path)) if isinstance(fd, int) else contextlib.nullcontext(_at(fd)) as file:
                yield file
        except RevseqError:
            raise
        except RAISED as e:
            if not isinstance(fd, int) and fd.error:  # which HDF5 has lost
                raise fd.error from None
            trace = e.__traceback__
            while trace and trace.tb_next:
                trace = trace.tb_next
            module = trace.tb_frame.f_globals.get("__name__") if trace else ""
            if str(module).partition(".")[0] != "h5py":  # a mistake in this program
                raise
            raise _worded(e, path, name or path) from None


def _open(path: str) -> h5py.File:
    try:
        return h5py.File(path, "r")
    except OSError as e:
        if error_number(e) not in _NO_LOCKS:
            raise
        return h5py.File(path, "r", locking=False)  # a network file system without locks


def _at(file: file_io.Open) -> h5py.File:
    """The file at an address, opened by HDF5 once, since each time it is asked for much."""
    if not file.hdf5:
        file.hdf5 = file.at_end.enter_context(h5py.File(file.stream(), "r"))
    return file.hdf5


def _worded(error: Exception, path: str, where: str) -> RevseqError:
    words = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    if "memory allocation failed" in words:
        return worded(MemoryError(), where)
    # The latter is a mark in the file, which a writer that was killed leaves behind.
    if "unable to lock file" in words or "already open for" in words:
        hint = f"try again later; if nobody writes it: h5clear -s {platform.quoted(path)}"
        return TensorIOError("is being written by another process", hint=hint, where=path)
    if number := error_number(error):
        return file_io.failed(where, "read", OSError(number, os.strerror(number)))
    wanted = f"a whole file, of HDF5 {h5py.version.hdf5_version} or older"
    return TensorIOError(f"HDF5 cannot read it: {words[:200]}", wanted, where=where)


def error_number(error: Exception) -> int:
    """The system's error number, which HDF5 has in its message; 0 where there is none."""
    match = re.search(r"errno = (\d+)", str(error))
    return getattr(error, "errno", None) or (int(match[1]) if match else 0)


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
