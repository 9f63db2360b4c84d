"""Files, near and far: `base.InputFile` to read one, `new.NewFile` to write one, and the functions here to get them.

A path names a file of this machine, or is an address such as s3://bucket/x.npy. Nobody outside this package asks which.
"""

from __future__ import annotations

import contextlib
import glob
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from revseq_cli.core import platform

if TYPE_CHECKING:
    from revseq_cli.files.base import Identity, InputFile
    from revseq_cli.files.far import Known
    from revseq_cli.files.new import NewFile

# What is imported inside the functions: NumPy is for those that read, and fsspec for those who use addresses.


@contextlib.contextmanager
def open_file(
    path: str, unchanged: Identity | None = None, name: str = "", *, afresh: bool = False
) -> Iterator[InputFile]:
    """A file for reading; it must be as it was at `unchanged`. `name` is what to call it, where that is not its path.

    The server of an address is asked for a file's state once, and again with `afresh`.
    """
    if platform.is_remote(path):
        from revseq_cli.files.far import open_far

        with open_far(path, unchanged, name, afresh=afresh) as far:
            yield far
    else:
        from revseq_cli.files.local import open_local

        with open_local(path, unchanged, name) as local:
            yield local


def recheck(path: str, identity: Identity) -> None:
    """TensorIOError if a file is not as it was at `identity`."""
    if platform.is_remote(path):
        with open_file(path, identity, afresh=True):
            pass
    else:
        from revseq_cli.files.local import recheck_local

        recheck_local(path, identity)


def bring_near(path: str, identity: Identity) -> None:
    """Fetch a file of which all will be read: from now on this process, and its forks, find its bytes here.

    Nothing is done for a file of this machine, or where the temporary folder has no room for it.
    """
    if platform.is_remote(path):
        from revseq_cli.files.far import bring_near

        bring_near(path, identity)


def known() -> Known | None:
    """What this process knows of files at addresses, for workers that are no forks of it."""
    if "revseq_cli.files.far" not in sys.modules:
        return None
    from revseq_cli.files.far import known

    return known()


def take_known(known: Known | None) -> None:
    """Know what another process knows."""
    if known:
        from revseq_cli.files.far import take_known

        take_known(known)


def learn_states(paths: Iterable[str]) -> None:
    """Ask for the states of many files at addresses, by one listing for each folder that has several of them."""
    far_ones = [path for path in paths if platform.is_remote(path)]
    if far_ones:
        from revseq_cli.files.far import learn_states

        learn_states(far_ones)


def exists(path: str) -> bool:
    """Whether there is such a file; for an address, whether its server says so."""
    if platform.is_remote(path):
        from revseq_cli.files.far import state_of

        return state_of(path) is not None
    return os.path.exists(path)


def is_folder(path: str) -> bool:
    """Whether it is a folder, or files are below that address, as far as its server lists them."""
    if platform.is_remote(path):
        from revseq_cli.files.far import is_folder

        return is_folder(path)
    return os.path.isdir(path)


def time_of_change(path: str) -> int | None:
    """When a file, or anything in a folder, was changed last, in nanoseconds; None where there is none."""
    if platform.is_remote(path):
        from revseq_cli.files.far import time_of_change

        return time_of_change(path)
    try:
        status = os.stat(path)
    except OSError:
        return None
    latest = status.st_mtime_ns
    if stat.S_ISDIR(status.st_mode):
        for below in Path(path).rglob("*"):
            with contextlib.suppress(OSError):  # it may be gone, and a link may lead nowhere
                latest = max(latest, below.lstat().st_mtime_ns)
    return latest


def list_matching(pattern: str) -> list[str]:
    """The files and folders that match a pattern, in the order of their names; folders end in a slash."""
    if platform.is_remote(pattern):
        from revseq_cli.files.far import list_matching

        return list_matching(pattern)
    names = sorted(glob.glob(pattern, recursive=True))
    return [f"{name}/" if os.path.isdir(name) else name for name in names]


def parse_name(path: str) -> str:
    """The path; of an address one that prints without its credentials."""
    if platform.is_remote(path):
        from revseq_cli.files.address import Address

        return Address(path)
    return path


def join(folder: str, name: str) -> str:
    """What has that name in a folder or at an address, whose credentials it keeps."""
    if platform.is_remote(folder):
        from revseq_cli.files.address import Address

        return Address(f"{getattr(folder, 'full', folder).rstrip('/')}/{name}".rstrip("/"))
    return os.path.join(folder, name) if name else folder


def new_file(
    path: str, *, overwrite: bool, inputs: Iterable[Identity] = (), is_folder: bool = False
) -> NewFile:
    """A file to write, or a folder; RevseqError now for all that could refuse its name."""
    if platform.is_remote(path):
        from revseq_cli.files.upload import NewObject, NewStore

        return (NewStore if is_folder else NewObject)(path, overwrite=overwrite, inputs=inputs)
    from revseq_cli.files.new import NewFile, NewFolder

    return (NewFolder if is_folder else NewFile)(path, overwrite=overwrite, inputs=inputs)


def new_version(path: str, unchanged: Identity | None, inputs: Iterable[Identity] = ()) -> NewFile:
    """A file of this machine to write, which replaces the one that was so at `unchanged`; a folder without it."""
    from revseq_cli.files.new import NewFolderVersion, NewVersion

    if unchanged is None:
        return NewFolderVersion(path, overwrite=True, inputs=inputs)
    return NewVersion(path, unchanged, inputs)


def close() -> None:
    """Close what this thread has open at addresses, and remove what was fetched."""
    if far := sys.modules.get("revseq_cli.files.far"):
        far.close()
