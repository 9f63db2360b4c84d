"""HDF5 files, opened for reading, and what h5py raises in words of this package."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from typing import BinaryIO

import h5py
from h5py import h5d

from revseq_cli import files
from revseq_cli.core import platform
from revseq_cli.core.errors import NoTensorError, RevseqError, TensorIOError
from revseq_cli.files.input_file import Identity
from revseq_cli.files.system_errors import make_os_error

# What h5py raises, for errors of HDF5 and of its own.
RAISED = (OSError, RuntimeError, KeyError, ValueError, TypeError)


@contextlib.contextmanager
def open_hdf5(path: str, name: str = "", unchanged: Identity | None = None) -> Iterator[h5py.File]:
    """The file, for reading; TensorIOError if `unchanged` is given and is no longer its state.

    `name` is what messages call it, or the tensor in it. What h5py raises in the context becomes a
    RevseqError.
    """
    with files.open_file(path, unchanged, name) as fd:
        try:
            source = platform.plain_path(fd.path) if fd.path else fd.stream()
            with _open_locked_if_possible(source) as file:
                yield file
        except (RevseqError, *RAISED) as e:
            if fd.error:  # HDF5 loses it, or takes it for damage
                raise fd.error from None
            if isinstance(e, RevseqError):
                raise
            raise hdf5_error(e, path, name or path) from e


def _open_locked_if_possible(path: str | BinaryIO) -> h5py.File:
    try:
        return h5py.File(path, "r")
    except OSError as e:
        if _system_error(e) not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        return h5py.File(path, "r", locking=False)  # on a network file system without locks


def hdf5_error(error: Exception, path: str, where: str, verb: str = "read") -> RevseqError:
    """The error for what h5py raised when it read or wrote a file, which messages call `where`."""
    words = str(error)
    # "Already open" is a mark in the file, which a writer leaves behind if it is killed.
    if "unable to lock file" in words or "already open for" in words:
        hint = f"try again later, or if no program writes it: h5clear -s {platform.quote(path)}"
        return TensorIOError("being written by another process", hint=hint, where=path)
    number = _system_error(error)
    if number:
        return make_os_error(where, verb, OSError(number, os.strerror(number)))
    expected = ""
    if verb == "read":
        expected = f"a whole file, of HDF5 {h5py.version.hdf5_version} or older"
    return TensorIOError(f"HDF5 cannot {verb} it: {words[:200]}", expected, where=where)


def _system_error(error: Exception) -> int:
    """The system's error number, which HDF5 has in its message; 0 if there is none."""
    number = getattr(error, "errno", None)
    if number:
        return int(number)
    match = re.search(r"errno = (\d+)", str(error))
    return int(match[1]) if match else 0


def require_own_values(dataset: h5d.DatasetID, where: str) -> h5d.DatasetID:
    """The dataset; FormatError if its values are in other files.

    This comes before all else that is asked of a dataset: HDF5 opens the files of a virtual dataset
    as soon as it is asked for its sizes.
    """
    properties = dataset.get_create_plist()
    if properties.get_layout() == h5d.VIRTUAL:
        file = where.partition("::")[0]
        found = "a virtual dataset, made of other files"
        hint = f"to copy them into one file: h5repack -l CONTI {platform.quote(file)} new.h5"
        expected = "values in the file itself: other files are not opened"
        raise NoTensorError(found, expected, hint, where)
    if properties.get_external_count():
        raise NoTensorError(
            "keeps its values in another file", "values in the file itself", where=where
        )
    return dataset


def open_dataset(file: h5py.File, hard_path: str, where: str) -> h5py.Dataset:
    """The dataset at a path of hard links; FormatError if its values are in other files."""
    return h5py.Dataset(require_own_values(h5d.open(file.id, encode_name(hard_path)), where))


def encode_name(part: str) -> bytes:
    """The name of a link as bytes; surrogates become the bytes that are not UTF-8."""
    return part.encode("utf-8", "surrogateescape")


def decode_name(name: bytes) -> str:
    """The name of a link as text; bytes that are not UTF-8 become surrogates."""
    return name.decode("utf-8", "surrogateescape")
