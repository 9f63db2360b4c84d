"""Zarr arrays as inputs: `store.zarr::array/path`, or the only array of the store.

Only an absent chunk is read as fill value.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from revseq_cli import files
from revseq_cli.core.dtypes import is_untyped
from revseq_cli.core.errors import MEMORY_ENDED, FormatError, RevseqError
from revseq_cli.core.tensors import DataType, Region, chunk_boxes, chunk_start, inside, sizes_of
from revseq_cli.files.input_file import Identity
from revseq_cli.formats.attributes import (
    MOST_BYTES,
    Meaning,
    NoCoordinateError,
    Variable,
    as_texts,
    find_coordinates,
    is_small,
)
from revseq_cli.formats.contract import Downloads, Original, ReadTask, Source, Storage
from revseq_cli.formats.refusals import choose_tensor, refuse_bomb
from revseq_cli.formats.zarr.arrays import ZarrArray, wrap_zarr_errors
from revseq_cli.formats.zarr.metadata import ArrayMetadata, attributes_of, read_metadata
from revseq_cli.formats.zarr.store import (
    ARRAY_FILES,
    FilesState,
    ZarrNode,
    groups_above,
    open_store,
    read_files_state,
    report_change,
)

_TEXT_BYTES = 1 << 6  # assumed for a text without a fixed length


class ZarrSource(Source):
    """An array of a Zarr store.

    Its metadata are in the store `store_path`, and its chunks in the store `chunk_store`. These
    differ only while a store is written to an address: its metadata are then in a local folder. As
    in other sources, `path` is a file: that of the array's metadata. `name` is what messages call
    the store, if not by its path. `asked` is the data type of elements that are stored as bytes
    without one.
    """

    encoded = True

    def __init__(
        self,
        store_path: str,
        key: str | None,
        name: str = "",
        asked: DataType | None = None,
        chunk_store: str = "",
    ) -> None:
        name = name or store_path
        self.store = open_store(store_path)
        self.chunk_store = chunk_store or store_path
        self.key, self.node = self._find_array(key, name)
        self.name = f"{name}::{self.key}" if self.key else name
        array = read_metadata(self.node, self.name, asked)
        self.metadata = array
        self.dtype = array.dtype
        self.sizes = array.sizes
        self.chunks = array.chunks
        self.dimensions = array.dimensions
        self.array = ZarrArray.of(self.store, self.key, array.version, self.chunk_store)
        self.path = files.join(files.join(store_path, self.key), ARRAY_FILES[array.version][0])
        self.identity = self._read_identity()
        listing = self.store.listing_of(self.key)
        state = read_files_state(self.array.chunk_folder, self.name, listing)
        self._digest = state.digest
        missing = self._check_chunk_files(state)
        self._downloads = self._count_downloads(state)
        with wrap_zarr_errors(self.name, "open"):
            self.array.open()
        details = {"version": str(array.version), "array": f"/{self.key}"}
        details |= array.details | missing
        self.storage = Storage("zarr", details, is_compressed=array.is_compressed)

    def _find_array(self, key: str | None, where: str) -> tuple[str, ZarrNode]:
        """The array of that path, or the only one of the store; FormatError for any other case."""
        if key:
            key = key.strip("/")
            node = self.store.read_node(key)
            if node and node.is_array:
                return key, node
        # Only here are all arrays listed: a store may have very many.
        key = choose_tensor(self.store.list_arrays(), key, where, is_tensor=self._holds_numbers)
        node = self.store.read_node(key)
        if node is None:
            raise report_change(where)
        return key, node

    def _read_identity(self) -> Identity | None:
        """The state of the file of metadata; None for a store at an address."""
        if self.store.listing is not None:
            return None
        with files.open_file(self.path) as fd:
            return fd.identity

    def _check_chunk_files(self, state: FilesState) -> dict[str, str]:
        """How many chunks are missing, in words; RevseqError for files that cannot be right.

        A web server lists no files. It is only asked whether it has any of a few chunks.
        """
        if not files.can_list_files(self.chunk_store):
            self._require_any_chunk()
            return {}
        self._refuse_bomb(state.size)
        _refuse_other_separator(self.metadata, state.names, self.name)
        return self._describe_missing_chunks(state.names)

    def _require_any_chunk(self) -> None:
        """TensorIOError if a web server has none of up to 64 chunks."""
        from revseq_cli.files.remote.folder import require_one_of  # most stores are local

        names = self.metadata.chunk_names()
        if names:
            require_one_of(self.array.chunk_folder, names)

    def _refuse_bomb(self, stored_bytes: int) -> None:
        array = self.metadata
        declared = max(prod(array.sizes), prod(array.chunks)) * self.dtype.itemsize
        refuse_bomb(declared, stored_bytes, "write it again uncompressed", self.name)

    def _describe_missing_chunks(self, names: list[str]) -> dict[str, str]:
        """How many chunks are not among the files of these names; nothing if all are.

        They are read as fill value, whether they were lost or never written.
        """
        total = prod(self.metadata.counts)
        missing = total - sum(map(self.metadata.is_chunk, names))
        return {"missing": f"{missing:,} of {total:,}"} if missing else {}

    def _count_downloads(self, state: FilesState) -> Downloads:
        """What to download to read the whole array."""
        if not files.waits_for_servers(self.chunk_store):
            return Downloads(0, 0)
        if files.can_list_files(self.chunk_store):
            return Downloads(len(state.names), state.size)
        # A web server lists no files: at most 64 requests are counted, and the decoded bytes.
        return Downloads(len(self.metadata.chunk_names()), self.desc.total_bytes)

    def _holds_numbers(self, key: str) -> bool:
        """Whether an array can be read as a tensor, as far as its metadata say."""
        node = self.store.read_node(key)
        if node is None:
            return False
        try:
            # Bytes without a data type are a tensor with --dtype.
            read_metadata(node, key, DataType.UINT8)
        except FormatError:
            return False
        return True

    @property
    def downloads(self) -> Downloads:
        return self._downloads

    def recheck(self) -> None:
        if read_files_state(self.array.chunk_folder, self.name).digest != self._digest:
            raise report_change(self.name)

    def original_for(self, _output: str) -> Original | None:
        """Its store; None at a web server, which lists no files."""
        if files.can_list_files(self.chunk_store):
            return Original(self.chunk_store, None, input_key=self.key)
        return None

    @property
    def least_bytes(self) -> int:
        """The bytes of a chunk, of what is read of it, and of what its codecs hold.

        The codec gzip holds the stored bytes twice, and decoded parts.
        """
        codecs = {*self.metadata.codecs} - {"bytes"}  # which only says the byte order
        copies = 3 if codecs else 1
        if "gzip" in codecs:
            copies = 6
        return copies * prod(self.metadata.chunks) * self.dtype.itemsize

    @property
    def container(self) -> str:
        return self.store.path

    def read_each(self, regions: Sequence[Region]) -> list[NDArray[Any]]:
        try:
            with wrap_zarr_errors(self.name, "read"):
                values = self.array.read_regions(*regions)
        except (FormatError, *MEMORY_ENDED):  # the tasks find the chunk to blame
            return super().read_each(regions)
        return [_as_dtype(part, self.dtype) for part in values]

    def read_task(self, region: Region) -> ReadTask:
        return _ZarrReadTask(self.array, self.name, self.dtype, self.metadata.chunks, region)

    def meaning(self) -> Meaning:
        attributes, left = attributes_of(self.node)
        meaning = find_coordinates(self.dimensions, self._find_coordinate_array)
        groups = []
        for key in groups_above(self.key):
            group = self.store.read_node(key)
            group_attributes = attributes_of(group)[0] if group else {}
            group_attributes.pop("coordinates", None)
            groups.append(group_attributes)
        return meaning._replace(
            attributes=attributes,
            groups=tuple(groups),
            left=(*left, *meaning.left),
            storage_fill=self._find_fill(),
        )

    def _find_fill(self) -> Any:  # noqa: ANN401 - a NumPy number, or None
        """The value of chunks that were never written; None for 0, which zarr itself chooses."""
        fill = self.array.open().metadata.fill_value
        if self.dtype.kind not in "biufc":
            return None
        if fill is None or fill == 0:
            return None
        return fill

    def _find_coordinate_array(self, d: int, name: str) -> Variable | None:
        """The array of a dimension's name next to this one; None if there is none."""
        if not self.key or "/" in name:
            return None
        *groups, own_name = self.key.split("/")
        if name == own_name:
            return None
        key = "/".join([*groups, name])
        try:
            if self.store.is_link(key):
                raise NoCoordinateError("a link")
            node = self.store.read_node(key)
            if not node or not node.is_array:
                return None
            values = self._read_coordinate_array(key, node, self.sizes[d])
        except RevseqError as e:
            raise NoCoordinateError(e.found) from None
        if values.dtype.kind in "mM":  # these are compared, but not copied
            return Variable(name, {}, values)
        return Variable(name, attributes_of(node)[0], values)

    def _read_coordinate_array(self, key: str, node: ZarrNode, size: int) -> NDArray[Any]:
        """The values of the coordinate of a dimension of that size.

        NoCoordinateError for an array that is large, or no coordinate.
        """
        name = key.rpartition("/")[2]
        array = read_metadata(node, name, texts=True)
        stored = ZarrArray.of(self.store, key, array.version, self.chunk_store)
        itemsize = _TEXT_BYTES if array.dtype.kind == "O" else array.dtype.itemsize
        if array.dimensions != (name,) or array.sizes != (size,):
            raise NoCoordinateError
        if not is_small(array.sizes, itemsize, array.shards):
            raise NoCoordinateError
        if read_files_state(stored.chunk_folder, name).size > MOST_BYTES:
            raise NoCoordinateError
        if array.dtype.kind not in "USOmM":
            return ZarrSource(self.store.path, key, chunk_store=self.chunk_store).read()
        with wrap_zarr_errors(stored.chunk_folder, "read"):
            (values,) = stored.read_regions((...,))
            if array.dtype.kind in "mM":
                return values
            return as_texts(values)


def _refuse_other_separator(array: ArrayMetadata, names: list[str], where: str) -> None:
    """FormatError if chunks have another separator in their names than the metadata say."""
    parts = len(array.sizes) + array.starts_with_c
    if not array.sizes or parts == 1:  # nothing is separated
        return
    other = "." if array.separator == "/" else "/"
    for name in names:
        if array.is_chunk(name, other):
            found = (
                f"has the chunk file {name}, but its metadata say that {array.separator} "
                "separates the numbers"
            )
            field = "dimension_separator" if array.version == 2 else "separator"
            expected = f'"{field}": "{other}" in its metadata, or files of other names'
            raise FormatError(found, expected, where=where)


@dataclass(frozen=True)
class _ZarrReadTask:
    """Reads one region of an array."""

    array: ZarrArray
    name: str
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    region: Region

    def read(self) -> NDArray[Any]:
        if self._can_be_read_at_once():
            # The loop finds the chunk to blame.
            with contextlib.suppress(FormatError, *MEMORY_ENDED):
                return self._read_box(self.region)
        values = np.empty(sizes_of(self.region), self.dtype)
        for box in chunk_boxes(self.region, self.chunks):
            try:
                values[inside(box, self.region)] = self._read_box(box)
            except FormatError as e:
                raise self._report_damage(box, f": {e.found}") from None
            except MEMORY_ENDED:  # the index of a damaged shard asks for any number of bytes
                reason = ", or takes more memory than there is"
                raise self._report_damage(box, reason) from None
        return values

    def _can_be_read_at_once(self) -> bool:
        """Whether zarr may read the region in one call, in which it holds all chunks of the region.

        They may have twice as many elements as the region, or be a single chunk.
        """
        in_chunks = 1
        for part, chunk in zip(self.region, self.chunks, strict=True):
            first, end = part.start // chunk, -(-part.stop // chunk)
            in_chunks *= (end - first) * chunk
        return in_chunks <= max(2 * prod(sizes_of(self.region)), prod(self.chunks))

    def _report_damage(self, box: Region, reason: str) -> FormatError:
        found = f"the chunk at {chunk_start(box, self.chunks)} is damaged{reason}"
        return FormatError(found, "the whole store", "fetch it again", self.name)

    def _read_box(self, region: Region) -> NDArray[Any]:
        with wrap_zarr_errors(self.name, "read"):
            (values,) = self.array.read_regions(region)
            return _as_dtype(values, self.dtype)


def _as_dtype(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The elements with their data type, which zarr lacks for some."""
    if is_untyped(values.dtype):
        return values.view(dtype)
    return np.asarray(values, dtype)
