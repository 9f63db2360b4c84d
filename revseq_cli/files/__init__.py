"""Files, on this machine and at addresses.

`base.InputFile` reads one, `new.NewFile` writes one, and the functions here get them.

A path names a file of this machine, or is an address such as s3://bucket/x.npy. Nobody outside this
package asks which.
"""

from __future__ import annotations

import contextlib
import glob
import os
import stat
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from revseq_cli.core import platform, thresholds
from revseq_cli.core.errors import UsageError
from revseq_cli.files.address import Address, canonical, is_address, is_web, local_path

if TYPE_CHECKING:
    from revseq_cli.files.base import Identity, InputFile
    from revseq_cli.files.nearby import Known
    from revseq_cli.files.new import NewFile

# What is imported inside the functions: NumPy is for those that read, and fsspec for those who use
# addresses.


@contextlib.contextmanager
def open_file(
    path: str, unchanged: Identity | None = None, name: str = "", *, afresh: bool = False
) -> Iterator[InputFile]:
    """A file for reading; it must be as it was at `unchanged`.

    `name` is what to call it, where that is not its path.

    The server of an address is asked for a file's state once, and again with `afresh`.
    """
    if is_address(path):
        from revseq_cli.files.nearby import open_nearby

        with open_nearby(path, unchanged, name, afresh=afresh) as far:
            yield far
    else:
        from revseq_cli.files.local import open_local

        with open_local(parse_name(path), unchanged, name) as local:
            yield local


def recheck(path: str, identity: Identity) -> None:
    """TensorIOError if a file is not as it was at `identity`."""
    if is_address(path):
        with open_file(path, identity, afresh=True):
            pass
    else:
        from revseq_cli.files.local import recheck_local

        recheck_local(path, identity)


def ask_again(paths: Collection[str]) -> None:
    """Ask for the states of files at addresses together, before the `recheck` of each of them."""
    if all(map(is_address, paths)):
        from revseq_cli.files.nearby import ask_again

        ask_again(paths)


def bring_near(path: str, identity: Identity) -> None:
    """Fetch a file of which all will be read.

    From now on this process, and its forks, find its bytes here.

    Nothing is done for a file of this machine, or where the temporary folder has no room for it.
    """
    if is_address(path):
        from revseq_cli.files.nearby import bring_near

        bring_near(path, identity)


def bring_common_near(paths: Iterable[str]) -> contextlib.AbstractContextManager[None]:
    """Fetch those of the files that are at addresses.

    Several jobs of workers, which begin later, read them.
    """
    far_ones = [path for path in paths if is_address(path)]
    if not far_ones:
        return contextlib.nullcontext()
    from revseq_cli.files.nearby import bring_common_near

    return bring_common_near(far_ones)


def limit_memory(size: int) -> None:
    """Hold at most so many bytes of files at addresses at once, from now on."""
    from revseq_cli.files import base

    base.limit_memory(size)


def known() -> Known | None:
    """What this process knows of files at addresses, for workers that are no forks of it."""
    if "revseq_cli.files.nearby" not in sys.modules:
        return None
    from revseq_cli.files.nearby import known

    return known()


def take_known(known: Known | None) -> None:
    """Know what another process knows."""
    if known:
        from revseq_cli.files.nearby import take_known

        take_known(known)


def learn_states(paths: Iterable[str]) -> None:
    """Ask for the states of many files at addresses.

    One listing is made for each folder that has several of them.
    """
    far_ones = [path for path in paths if is_address(path)]
    if far_ones:
        from revseq_cli.files.nearby import learn_states

        learn_states(far_ones)


def exists(path: str) -> bool:
    """Whether there is such a file; for an address, whether its server says so."""
    if is_address(path):
        from revseq_cli.files.nearby import has_file

        return has_file(path)
    return os.path.exists(path)


def has_any(folder: str, names: Collection[str]) -> bool:
    """Whether one of these files is in the folder."""
    if not is_address(folder):
        return any(os.path.exists(os.path.join(folder, name)) for name in names)
    from revseq_cli.files.folders import has_any

    return has_any(folder, names)


def is_folder(path: str, *, assumed: bool = False) -> bool:
    """Whether it is a folder, or files are below that address.

    The address is not asked where it is `assumed`.
    """
    if is_address(path) and assumed:
        return True
    if is_address(path):
        from revseq_cli.files.nearby import is_folder

        return is_folder(path)
    return os.path.isdir(path)


def list_files(path: str) -> dict[str, Identity] | None:
    """The states of the files below an address, none for a web server.

    None for a folder of this machine.
    """
    if not is_address(path):
        return None
    from revseq_cli.files.folders import list_files

    return list_files(path)


def take_listing(path: str) -> dict[str, Identity] | None:
    """The same as `list_files`, where `has_any` was just asked for the folder.

    No other request is made.
    """
    if not is_address(path):
        return None
    from revseq_cli.files.folders import take_listing

    return take_listing(path)


def lists_files(path: str) -> bool:
    """Whether the files below are known: a web server lists none."""
    return not (is_address(path) and is_web(path))


def time_of_change(path: str) -> int | None:
    """When a file, or anything in a folder, was changed last, in nanoseconds.

    None where there is none.
    """
    if is_address(path):
        from revseq_cli.files.nearby import time_of_change

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
    """The files and folders that match a pattern, in the order of their names.

    Folders end in a slash.
    """
    if is_address(pattern):
        from revseq_cli.files.nearby import list_matching

        return list_matching(pattern)
    path = parse_name(pattern)
    names = sorted(glob.glob(path, recursive=True))
    # The listing of a folder says which names in it are folders, without a look at each.
    folders = set(glob.glob(os.path.join(path, ""), recursive=True))
    return [f"{name}/" if os.path.join(name, "") in folders else name for name in names]


def parse_name(text: str) -> str:
    """The path that a text names; of an address one that prints without its secrets."""
    path = local_path(text)
    if path is not None:
        return path
    return Address(text) if is_address(text) else text


def require_path(text: str) -> str:
    """The path that a text names; UsageError for an address, of which not every output has one."""
    if is_address(text):
        raise UsageError("an address", "a file of this machine", where=Address(text))
    return parse_name(text)


def split_address(
    text: str, has_suffix: Callable[[str], bool]
) -> tuple[Address, str | None] | None:
    """An address, and the name that follows it after ::, or None; None for a path of this machine.

    The first :: after a suffix that `has_suffix` knows ends the address. Elsewhere the key of an
    object that exists may have :: in it.
    """
    if not is_address(text):
        return None
    parts = Address(text).full.split("::")
    for count in range(1, len(parts)):
        address = Address("::".join(parts[:count]))
        if has_suffix(address):
            return address, "::".join(parts[count:])
    if len(parts) == 1 or exists(text):
        return Address(text), None
    return Address(parts[0]), "::".join(parts[1:])


def absolute(path: str) -> str:
    """The absolute path of a file; an address as it is."""
    return path if is_address(path) else os.path.abspath(path)


def real_path(path: str) -> str:
    """The path of the file itself, without links; an address as it is."""
    return path if is_address(path) else platform.real_path(path)


def make_resolver() -> Callable[[str], str]:
    """A function like `real_path` for the names of many files.

    It looks at each folder only once.
    """
    resolve = platform.make_resolver()

    def resolve_name(text: str) -> str:
        path = parse_name(text)
        return path if is_address(path) else resolve(path)

    return resolve_name


def name_key(path: str) -> str:
    """What is equal for two real paths, or two addresses, of one file.

    The file may not be there yet.
    """
    return canonical(path) if is_address(path) else platform.name_key(path)


def file_key(path: str) -> str:
    """What is equal for all names of one file, links and addresses among them."""
    return name_key(real_path(path))


def waits_for_servers(path: str) -> bool:
    """Whether who reads or writes the file waits most of the time."""
    return is_address(path)


def count_requests(path: str, size: int) -> int:
    """How many requests fetch a file of that size; 0 for a file of this machine."""
    if not is_address(path):
        return 0
    from revseq_cli.files.calls import choose_piece

    return -(-size // choose_piece(size))


def is_replaceable(path: str) -> bool:
    """Whether a new version of the file can take its name.

    It cannot where the file has changed since.
    """
    return not is_address(path)


def least_run(path: str) -> int:
    """The fewest bytes in a row that are worth reading one by one."""
    return thresholds.LONG_RUN if is_address(path) else thresholds.SHORT_RUN


def cheap_run(path: str) -> int:
    """The bytes in a row after which more make no difference.

    0 where the system's own are right.
    """
    return thresholds.FAR_RUN if is_address(path) else 0


def has_folder(path: str) -> bool:
    """Whether the folder of a new file is there. Buckets need no folders."""
    return is_address(path) or os.path.isdir(os.path.dirname(path) or os.curdir)


def folder_of_temporary_files(path: str) -> Path:
    """Where a new file is until it has its name."""
    if not is_address(path):
        return Path(path).parent
    import tempfile  # it takes a while to load

    return Path(tempfile.gettempdir())


def make_folder(path: str) -> None:
    """Make the folder of a new file."""
    if not has_folder(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)


def join(folder: str, name: str) -> str:
    """What has that name in a folder or at an address, whose credentials it keeps."""
    if is_address(folder):
        return Address(f"{getattr(folder, 'full', folder).rstrip('/')}/{name}".rstrip("/"))
    return os.path.join(folder, name) if name else folder


def new_file(
    path: str, *, overwrite: bool, inputs: Iterable[Identity] = (), is_folder: bool = False
) -> NewFile:
    """A file to write, or a folder; RevseqError now for all that could refuse its name."""
    if is_address(path):
        from revseq_cli.files.upload import NewObject, NewStore

        return (NewStore if is_folder else NewObject)(path, overwrite=overwrite, inputs=inputs)
    from revseq_cli.files.new import NewFile, NewFolder

    return (NewFolder if is_folder else NewFile)(path, overwrite=overwrite, inputs=inputs)


def remove_partial_store(path: str, mark: str) -> None:
    """Remove a store at an address that jobs with that mark have written in part."""
    if is_address(path):
        from revseq_cli.files.upload import remove_partial_store

        remove_partial_store(path, mark)


def new_version(path: str, unchanged: Identity | None, inputs: Iterable[Identity] = ()) -> NewFile:
    """A file of this machine to write, which replaces the one that was so at `unchanged`.

    A folder without it.
    """
    from revseq_cli.files.new import NewFolderVersion, NewVersion

    if unchanged is None:
        return NewFolderVersion(path, overwrite=True, inputs=inputs)
    return NewVersion(path, unchanged, inputs)


def close() -> None:
    """Close what this thread has open at addresses, and remove what was fetched."""
    if far := sys.modules.get("revseq_cli.files.nearby"):
        far.close()
    forget_folders()


def forget_folders() -> None:
    """Forget what was listed at addresses, as before another job of the same process."""
    if folders := sys.modules.get("revseq_cli.files.folders"):
        folders.forget()
