"""Files of this machine and at addresses, and the functions that take the path of either.

A path names a file of this machine, or is an address such as s3://bucket/x.npy. Nobody outside this
package asks which.

- `input_file`: the protocol to read a file, and its identity, which tells whether it has changed
- `new`: the protocol to write a file or a folder under a temporary name
- `transactions`: the new files of a job, or of many jobs, which are named when all are complete
- `local`: files of this machine, open for reading or writing; `copies`: parts of inputs into them
- `folders`: folders whose files are read and written together, as those of Zarr stores are
- `system_errors`: what the system says of files, in words
- `address`: the parts of an address, and the secrets that no message may have
- `event_loop`: coroutines without threads; `budget`: how many requests wait together
- `remote`: the same protocols for files at addresses

One file has several names. For a file x.npy, to which a link link.npy leads, these functions give:

| function        | for a path                            | for an address                        |
|-----------------|---------------------------------------|---------------------------------------|
| `parse_name`    | the path; for file:///x.npy, too      | an `Address`, which hides its secrets |
| `absolute`      | /folder/link.npy: still the link      | the address                           |
| `make_resolver` | /folder/x.npy: the file itself        | the address                           |
| `name_key`      | of a real path: one for all spellings | `canonical`: one for all aliases      |
| `file_key`      | the `name_key` of the file itself     | `canonical`                           |
"""

from __future__ import annotations

import contextlib
import glob
import os
import stat
import sys
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from revseq_cli.core import platform, thresholds
from revseq_cli.core.errors import UsageError
from revseq_cli.files import budget
from revseq_cli.files.address import Address, canonical, is_address, is_web, local_path

if TYPE_CHECKING:
    from revseq_cli.files.folders import Folder
    from revseq_cli.files.input_file import Identity, InputFile
    from revseq_cli.files.new import NewFile
    from revseq_cli.files.remote.fetched import RemoteCache

# Imports inside the functions keep NumPy from those who read no file, and fsspec from those who use
# no addresses.


# Reading


def open_file(
    path: str, unchanged: Identity | None = None, name: str = ""
) -> AbstractContextManager[InputFile]:
    """A file for reading; it must be as it was at `unchanged`.

    `name` is what to call it, if that is not its path.
    """
    if is_address(path):
        from revseq_cli.files.remote import fetched

        return fetched.open_file(path, unchanged, name)
    from revseq_cli.files.local import open_local

    return open_local(parse_name(path), unchanged, name)


def open_folder(path: str) -> Folder:
    """A folder whose files are read and written together."""
    if is_address(path):
        from revseq_cli.files.remote import folder

        return folder.open_folder(path)
    from revseq_cli.files.folders import LocalFolder

    return LocalFolder(path)


def recheck(path: str, identity: Identity) -> None:
    """TensorIOError if a file is not as it was at `identity`."""
    if is_address(path):
        from revseq_cli.files.remote import states

        states.recheck(path, identity)
        return
    from revseq_cli.files.local import recheck_local

    recheck_local(path, identity)


def refresh_states(paths: Collection[str]) -> None:
    """Ask for the states of the remote files among these together, before the `recheck` of each."""
    remote = [path for path in paths if is_address(path)]
    if remote:
        from revseq_cli.files.remote import states

        states.refresh_states(remote)


def fetch(path: str, identity: Identity) -> None:
    """Fetch a remote file of which all will be read.

    From now on this process, and its forks, find its bytes here, if the temporary folder has room
    for them.
    """
    if is_address(path):
        from revseq_cli.files.remote import fetched

        fetched.fetch(path, identity)


def fetch_for_jobs(paths: Iterable[str]) -> AbstractContextManager[None]:
    """Fetch those of the files that are remote, for several jobs that begin inside the context."""
    remote = [path for path in paths if is_address(path)]
    if not remote:
        return contextlib.nullcontext()
    from revseq_cli.files.remote import fetched

    return fetched.fetch_for_jobs(remote)


def copy_cache() -> RemoteCache | None:
    """What this process knows of remote files, for workers that are not forks of it."""
    if "revseq_cli.files.remote.fetched" not in sys.modules:
        return None
    from revseq_cli.files.remote import fetched

    return fetched.copy_cache()


def take_cache(cache: RemoteCache | None) -> None:
    """Know what another process knows of remote files."""
    if cache:
        from revseq_cli.files.remote import fetched

        fetched.take_cache(cache)


def close() -> None:
    """Close the remote files that this thread has open, and remove what was fetched."""
    if fetched := sys.modules.get("revseq_cli.files.remote.fetched"):
        fetched.close()
    forget_folders()


def forget_folders() -> None:
    """Forget what was listed of remote folders, as before another job of the same process."""
    if folder := sys.modules.get("revseq_cli.files.remote.folder"):
        folder.forget_folders()


def waits_for_servers(path: str) -> bool:
    """Whether reading or writing the file is mostly waiting."""
    return is_address(path)


def count_requests(path: str, size: int) -> int:
    """How many requests fetch a file of that size; 0 for a file of this machine."""
    return -(-size // budget.choose_piece(size)) if is_address(path) else 0


def least_run(path: str) -> int:
    """The fewest bytes of a run that is worth a read by itself.

    Blocks with shorter runs are made larger, or go through a temporary file.
    """
    return thresholds.LONG_RUN if is_address(path) else thresholds.SHORT_RUN


def run_worth_request(path: str) -> int:
    """The bytes of a run that make up for the time of its request; 0 for a file of this machine.

    Blocks of a remote file are cut into runs of that size, where the memory allows.
    """
    return thresholds.REMOTE_RUN if is_address(path) else 0


# What is there


def exists(path: str) -> bool:
    """Whether there is such a file; for an address, whether its server says so."""
    if is_address(path):
        from revseq_cli.files.remote import states

        return states.exists(path)
    return os.path.exists(path)


def is_folder(path: str, *, assumed: bool = False) -> bool:
    """Whether it is a folder, or files are below that address.

    With `assumed`, an address is taken for a folder, and its server is not asked. A folder of this
    machine is looked at in any case.
    """
    if is_address(path):
        from revseq_cli.files.remote import fetched

        return fetched.is_folder(path, assumed=assumed)
    return os.path.isdir(path)


def can_list_files(path: str) -> bool:
    """Whether the files below a folder or an address can be listed: a web server lists none."""
    return not (is_address(path) and is_web(path))


def has_any(path: str, names: Collection[str]) -> bool:
    """Whether one of these files is in the folder."""
    if is_address(path):
        from revseq_cli.files.remote import folder

        return folder.has_any(path, names)
    return any(os.path.exists(os.path.join(path, name)) for name in names)


def list_files(path: str, *, again: bool = False) -> dict[str, Identity] | None:
    """The state of each file below an address, by its path there; empty for a web server.

    They are listed once in each job, unless it must be done `again`. None for a folder of this
    machine, whose files nobody needs to list in advance.
    """
    if is_address(path):
        from revseq_cli.files.remote import folder

        return folder.list_files(path, again=again)
    return None


def keep(path: str, content: object) -> None:
    """Keep what a format has read from a remote folder, its `content`, until the job ends."""
    if is_address(path):
        from revseq_cli.files.remote import folder

        folder.keep(path, content)


def find_kept(path: str) -> object:
    """What was kept of a remote folder, or None."""
    if is_address(path):
        from revseq_cli.files.remote import folder

        return folder.find_kept(path)
    return None


def cache_states(paths: Iterable[str]) -> None:
    """Ask for the states of many remote files: one listing has all that are in one folder."""
    remote = [path for path in paths if is_address(path)]
    if remote:
        from revseq_cli.files.remote import states

        states.cache_states(remote)


def time_of_change(path: str) -> int | None:
    """When a file, or anything in a folder, was changed last, in nanoseconds.

    None if there is none.
    """
    if is_address(path):
        from revseq_cli.files.remote import states

        return states.time_of_change(path)
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
        from revseq_cli.files.remote import states

        return states.list_matching(pattern)
    path = parse_name(pattern)
    names = sorted(glob.glob(path, recursive=True))
    # The listing of a folder says which names in it are folders, without a look at each.
    folders = set(glob.glob(os.path.join(path, ""), recursive=True))
    return [f"{name}/" if os.path.join(name, "") in folders else name for name in names]


# Names


def parse_name(text: str) -> str:
    """The path that a text names; of an address one that prints without its secrets."""
    path = local_path(text)
    if path is not None:
        return path
    return Address(text) if is_address(text) else text


def require_path(text: str) -> str:
    """The path that a text names; UsageError for an address, which this output cannot have."""
    if is_address(text):
        raise UsageError("an address", "a file of this machine", where=Address(text))
    return parse_name(text)


def split_address(
    text: str, has_suffix: Callable[[str], bool]
) -> tuple[Address, str | None] | None:
    """An address, and the name that follows it after ::, or None; None for a path of this machine.

    The first :: after a suffix that `has_suffix` knows ends the address. Without such a suffix, the
    whole text is the address if that object exists, since its key may have :: in it. Otherwise the
    first :: ends the address.
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


def make_resolver() -> Callable[[str], str]:
    """A function that gives the path of the file itself, without links, or the address.

    It is for the names of many files, and looks at each folder once.
    """
    resolve = platform.make_resolver()

    def resolve_name(text: str) -> str:
        path = parse_name(text)
        return path if is_address(path) else resolve(path)

    return resolve_name


def name_key(path: str) -> str:
    """A key that all real paths, or all addresses, of one file share, even of one to be made."""
    return canonical(path) if is_address(path) else platform.name_key(path)


def file_key(path: str) -> str:
    """A key that all names of one file share, links and addresses among them."""
    return name_key(path if is_address(path) else platform.real_path(path))


def join(folder: str, name: str) -> str:
    """The path of a name in a folder, or below an address, of which it keeps the credentials."""
    if is_address(folder):
        return Address(f"{Address(folder).full.rstrip('/')}/{name}".rstrip("/"))
    return os.path.join(folder, name) if name else folder


# Writing


def new_file(
    path: str, *, overwrite: bool, inputs: Iterable[Identity] = (), is_folder: bool = False
) -> NewFile:
    """A file to write, or a folder; RevseqError now for all that could refuse its name."""
    if is_address(path):
        from revseq_cli.files.remote import new

        return new.new_file(path, overwrite=overwrite, inputs=inputs, is_folder=is_folder)
    from revseq_cli.files.new import NewFolder, NewLocalFile

    kind = NewFolder if is_folder else NewLocalFile
    return kind(path, overwrite=overwrite, inputs=inputs)


def new_version(path: str, unchanged: Identity, inputs: Iterable[Identity] = ()) -> NewFile:
    """A new version of a file of this machine, which must still be as it was at `unchanged`."""
    from revseq_cli.files.new import NewVersion

    return NewVersion(path, unchanged, inputs)


def new_folder_version(path: str, inputs: Iterable[Identity] = ()) -> NewFile:
    """A new version of a folder of this machine."""
    from revseq_cli.files.new import NewFolderVersion

    return NewFolderVersion(path, overwrite=True, inputs=inputs)


def can_be_added_to(path: str) -> bool:
    """Whether something can be added to this file.

    It cannot at an address: no upload can require that the file has not changed since it was read.
    """
    return not is_address(path)


def has_parent(path: str) -> bool:
    """Whether the folder of a new file is there. Buckets need no folders."""
    return is_address(path) or os.path.isdir(os.path.dirname(path) or os.curdir)


def make_parent(path: str) -> None:
    """Make the folder of a new file."""
    if not has_parent(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)


def folder_of_temporary_files(path: str) -> Path:
    """Where a new file is until it has its name."""
    if not is_address(path):
        return Path(path).parent
    import tempfile  # it takes a while to load

    return Path(tempfile.gettempdir())


def remove_partial_store(path: str, mark: str) -> None:
    """Remove a store at an address that jobs with that mark have written in part."""
    if is_address(path):
        from revseq_cli.files.remote import new

        new.remove_partial_store(path, mark)
    # On this machine, workers leave only temporary files, which the batch removes.
