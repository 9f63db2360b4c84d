"""Copies of Zarr stores, in which one array is added or replaced."""

from __future__ import annotations

from pathlib import Path

from revseq_cli.core.errors import UsageError
from revseq_cli.files import join
from revseq_cli.files.copies import copy_file
from revseq_cli.formats.contract import Original
from revseq_cli.formats.zarr.metadata import ArrayMetadata
from revseq_cli.formats.zarr.store import (
    ZarrStore,
    groups_above,
    prefix_of,
    read_files_state,
    report_change,
)


class StoreCopy:
    """A copy of the files of a store, but for those of an array `key` that is written anew.

    Where INPUT itself is replaced, `replaced` has its metadata: these stay, and only its chunks are
    left out.
    """

    def __init__(
        self, original: Original, store: ZarrStore, key: str, replaced: ArrayMetadata | None
    ) -> None:
        """Choose the files to copy; UsageError where the store has no room for such an array."""
        self._path = original.path
        state = read_files_state(self._path, self._path)
        self._digest = state.digest
        start = prefix_of(key)
        if replaced is None:
            if any(name == key or name.startswith(start) for name in state.names):
                _require_replaceable_array(original, store, key)
            _refuse_arrays_above(original, store, key)
        self._names = []
        for name in state.names:
            is_left_out = name.startswith(start)
            if is_left_out and replaced:
                is_left_out = replaced.is_chunk(name.removeprefix(start))
            if not is_left_out:
                self._names.append(name)

    def copy_files(self, folder: Path, where: str) -> None:
        """Copy the files to the folder of the new store, which messages call `where`."""
        for name in self._names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            copy_file(join(self._path, name), str(folder / name), where)

    def require_unchanged(self) -> None:
        """TensorIOError if the store is not as it was."""
        if read_files_state(self._path, self._path).digest != self._digest:
            raise report_change(self._path)


def _require_replaceable_array(original: Original, store: ZarrStore, key: str) -> None:
    """UsageError unless what has the array's path is an array that may be replaced."""
    original.require_replaceable(key)
    node = store.read_node(key)
    if node is None or not node.is_array:
        what = "a group" if node else "a file or a folder"
        expected = "a name that is free, or an array's"
        raise UsageError(f"{key} is {what}", expected, where=original.path)


def _refuse_arrays_above(original: Original, store: ZarrStore, key: str) -> None:
    """UsageError for a path inside another array."""
    for group in groups_above(key):
        node = store.read_node(group)
        if node and node.is_array:
            found = f"would lie inside an array of {original.path}"
            hint = "to write just the array, add --only" if original.is_input else ""
            raise UsageError(found, "a name outside of it", hint, key)
