"""Zarr arrays as inputs: `store.zarr::array/path`, or the only array of the store.

The package zarr decodes chunks, in the calling thread. Only an absent chunk is read as fill value.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import warnings
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal, NamedTuple, TypeVar

import numcodecs
import numpy as np
import zarr
from numcodecs.registry import register_codec as register_numcodec
from numpy.typing import NDArray
from zarr.abc import store as abc_store
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.api import asynchronous
from zarr.codecs import BloscCodec
from zarr.core.buffer import default_buffer_prototype
from zarr.registry import register_codec

from revseq_cli import files
from revseq_cli.core.dtypes import is_nameless
from revseq_cli.core.errors import MEMORY_ENDED, FormatError, RevseqError
from revseq_cli.core.tensors import DataType, Region, chunk_boxes, chunk_start, inside
from revseq_cli.files import base, calls, folders, join
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
from revseq_cli.formats.refusals import choose_tensor, refuse_bomb, require_whole_frame
from revseq_cli.formats.zarr import metadata
from revseq_cli.formats.zarr.metadata import (
    ARRAY_FILES,
    Metadata,
    Node,
    Store,
    Version,
    attributes_of,
)

_Result = TypeVar("_Result")
_TEXT_BYTES = 1 << 6  # assumed for a text without a fixed length


class ZarrSource(Source):
    """An array of a Zarr store.

    `name` is what messages call the store, if not by its path. `asked` is the data type of elements
    that are stored as bytes without one. The chunks of a store that is being written are in
    `folder`, which may be an address.
    """

    encoded = True

    def __init__(
        self,
        path: str,
        key: str | None,
        name: str = "",
        asked: DataType | None = None,
        folder: str = "",
    ) -> None:
        name = name or path
        self.store = metadata.open_store(path)
        self.folder = folder or path
        key = key and key.strip("/")
        node = self.store.read_node(key) if key else None
        is_array = node is not None and node.is_array
        if key is None or not is_array:  # only then, since a store may have very many arrays
            key = choose_tensor(self.store.list_arrays(), key, name, is_tensor=self._holds_numbers)
            node = self.store.read_node(key)
        if node is None:
            raise metadata.report_change(name)
        self.key = key
        self.node = node
        self.name = f"{name}::{key}" if key else name
        array = metadata.read(node, self.name, asked)
        self.metadata = array
        self.dtype = array.dtype
        self.sizes = array.sizes
        self.chunks = array.chunks
        self.dimensions = array.dimensions
        self.array = ZarrArray.of(self.store, key, array.version, self.folder)
        self.path = files.join(files.join(path, key), ARRAY_FILES[array.version][0])
        if self.store.listing is None:
            with files.open_file(self.path) as fd:
                self.identity = fd.identity
        details = {"version": str(array.version), "array": f"/{key}", **array.details}
        listing = self.store.listing_of(key) if folder in ("", path) else None
        self._stored = Downloads(0, 0)
        self._digest, stored, names = metadata.digest_files(self.array.folder, self.name, listing)
        if files.lists_files(self.folder):
            declared = max(prod(self.sizes), prod(self.chunks)) * self.dtype.itemsize
            if files.waits_for_servers(self.folder):
                self._stored = Downloads(len(names), stored)
            refuse_bomb(declared, stored, "write it again uncompressed", self.name)
            total = prod(array.counts)
            absent = total - _count_chunks(array, names, self.name)
            if absent:
                details["missing"] = f"{absent:,} of {total:,}"  # read as fill value, lost or not
        else:
            chunks = array.chunk_names()
            if chunks:
                folders.require_one_of(self.array.folder, chunks)
            # What a web server has is not known; not encoded, it is so much.
            self._stored = Downloads(len(chunks), self.desc.total_bytes)
        with wrap_zarr_errors(self.name, "open"):
            self.array.open()
        self.storage = Storage("zarr", details)

    def _holds_numbers(self, key: str) -> bool:
        """Whether an array can be read as a tensor, as far as its metadata say."""
        node = self.store.read_node(key)
        if node is None:
            return False
        try:
            # Bytes without a data type are a tensor with --dtype.
            metadata.read(node, key, DataType.UINT8)
        except FormatError:
            return False
        return True

    @property
    def downloads(self) -> Downloads:
        return self._stored

    def recheck(self) -> None:
        if metadata.digest_files(self.array.folder, self.name)[0] != self._digest:
            raise metadata.report_change(self.name)

    def original_for(self, name: str) -> Original | None:  # noqa: ARG002 - the name says nothing
        """Its store; None at a web server, which lists no files."""
        if files.lists_files(self.folder):
            return Original(self.folder, None, input_key=self.key)
        return None

    @property
    def least_bytes(self) -> int:
        """The bytes of a chunk, of what is read of it, and of what its codecs hold.

        The codec gzip holds the stored bytes twice, and decoded parts.
        """
        codecs = {*self.metadata.codecs} - {"bytes"}  # which only says the byte order
        copies = 6 if "gzip" in codecs else 1 + 2 * bool(codecs)
        return copies * prod(self.metadata.chunks) * self.dtype.itemsize

    @property
    def container(self) -> str:
        return self.store.path

    def read_each(self, regions: Sequence[Region]) -> list[NDArray[Any]]:
        try:
            with wrap_zarr_errors(self.name, "read"):
                values = self.array.read_each(regions)
        except (FormatError, *MEMORY_ENDED):  # the tasks find the chunk to blame
            return super().read_each(regions)
        return [_as_dtype(part, self.dtype) for part in values]

    def read_task(self, region: Region) -> ReadTask:
        return _ZarrReadTask(self.array, self.name, self.dtype, self.metadata.chunks, region)

    def meaning(self) -> Meaning:
        attributes, left = attributes_of(self.node)
        coordinates = find_coordinates(self.dimensions, self._find_coordinate_array)
        groups = []
        for key in metadata.groups_above(self.key):
            group = self.store.read_node(key)
            group_attributes = attributes_of(group)[0] if group else {}
            group_attributes.pop("coordinates", None)
            groups.append(group_attributes)
        return Meaning(
            self.dimensions,
            attributes,
            coordinates.variables,
            tuple(groups),
            left=(*left, *coordinates.left),
            uncopied=coordinates.uncopied,
            times=coordinates.times,
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
        """The array of a dimension's name next to this one; None where there is none."""
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

    def _read_coordinate_array(self, key: str, node: Node, size: int) -> NDArray[Any]:
        """The values of the coordinate of a dimension of that size.

        NoCoordinateError for an array that is large, or no coordinate.
        """
        name = key.rpartition("/")[2]
        array = metadata.read(node, name, texts=True)
        stored = ZarrArray.of(self.store, key, array.version, self.folder)
        itemsize = _TEXT_BYTES if array.dtype.kind == "O" else array.dtype.itemsize
        if array.dimensions != (name,) or array.sizes != (size,):
            raise NoCoordinateError
        if not is_small(array.sizes, itemsize, array.shards):
            raise NoCoordinateError
        _, bytes_stored, _ = metadata.digest_files(stored.folder, name)
        if bytes_stored > MOST_BYTES:
            raise NoCoordinateError
        if array.dtype.kind not in "USOmM":
            return ZarrSource(self.store.path, key, folder=self.folder).read()
        with wrap_zarr_errors(stored.folder, "read"):
            values = stored.read((...,))
            if array.dtype.kind in "mM":
                return values
            return as_texts(values)


def _count_chunks(array: Metadata, names: list[str], where: str) -> int:
    """How many files are chunks or shards; FormatError for names with the wrong separator."""
    other = "." if array.separator == "/" else "/"
    parts = len(array.sizes) + bool(array.start)
    if array.sizes and parts > 1:
        wrong = next((name for name in names if array.is_chunk(name, other)), "")
        if wrong:
            found = (
                f"has the chunk file {wrong}, but its metadata say that {array.separator} "
                "separates the numbers"
            )
            field = "dimension_separator" if array.version == 2 else "separator"
            expected = f'"{field}": "{other}" in its metadata, or files of other names'
            raise FormatError(found, expected, where=where)
    return sum(map(array.is_chunk, names))


@dataclass(frozen=True)
class _ZarrReadTask:
    """Reads one region of an array."""

    array: ZarrArray
    name: str
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    region: Region

    def read(self) -> NDArray[Any]:
        ends = zip(self.region, self.chunks, strict=True)
        touched = prod(
            (-(-part.stop // chunk) - part.start // chunk) * chunk for part, chunk in ends
        )
        shape = [part.stop - part.start for part in self.region]
        # zarr holds all chunks of a region at once, which may have far more elements than it.
        if touched <= max(2 * prod(shape), prod(self.chunks)):
            with contextlib.suppress(
                FormatError, *MEMORY_ENDED
            ):  # the loop finds the chunk to blame
                return self._read_box(self.region)
        values = np.empty(shape, self.dtype)
        for box in chunk_boxes(self.region, self.chunks):
            try:
                values[inside(box, self.region)] = self._read_box(box)
            except (FormatError, *MEMORY_ENDED) as e:
                # The index of a damaged shard asks for any number of bytes.
                why = (
                    f": {e.found}"
                    if isinstance(e, FormatError)
                    else ", or takes more memory than there is"
                )
                found = f"the chunk at {chunk_start(box, self.chunks)} is damaged{why}"
                raise FormatError(found, "the whole store", "fetch it again", self.name) from None
        return values

    def _read_box(self, region: Region) -> NDArray[Any]:
        with wrap_zarr_errors(self.name, "read"):
            return _as_dtype(self.array.read(region), self.dtype)


def _as_dtype(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The elements with their data type, which zarr lacks for some."""
    if is_nameless(values.dtype):
        return values.view(dtype)
    return np.asarray(values, dtype)


# The package zarr.


class ZarrArray(NamedTuple):
    """An array whose chunks are in a folder or at an address, where its metadata need not be."""

    folder: str
    version: Version
    files: tuple[tuple[str, bytes], ...]
    mode: Literal["r", "r+"] = "r"

    @classmethod
    def of(cls, store: Store, key: str, version: Version, folder: str) -> ZarrArray:
        """The array of that path in a store whose chunks are in a folder or at an address."""
        files = []
        for name in ARRAY_FILES[version]:
            data = store.read_metadata_file(f"{key}/{name}".lstrip("/"))
            if data is not None:
                files.append((name, data))
        return cls(join(folder, key), version, tuple(files))

    def open(self) -> Any:  # noqa: ANN401 - zarr's AsyncArray
        """The array of the package zarr, opened once in each thread of each process."""
        return _open_array(self, calls.thread())

    def read(self, region: tuple[Any, ...]) -> NDArray[Any]:
        """The elements of a region."""
        return np.asarray(wait_for(self.open().getitem(region)))

    def read_each(self, regions: Sequence[Region]) -> list[NDArray[Any]]:
        """The elements of several regions, which are asked for together."""
        array = self.open()
        works = [array.getitem(region) for region in regions]
        return [np.asarray(values) for values in wait_for_all(works)]

    def write(self, region: tuple[Any, ...], values: NDArray[Any]) -> None:
        """Write the elements of a region."""
        self.write_each([(region, values)])

    def write_each(self, chunks: Sequence[tuple[Any, NDArray[Any]]]) -> None:
        """Write the elements of several regions, a few at once."""
        array = self.open()
        wait_for_all([array.setitem(region, values) for region, values in chunks])


@functools.lru_cache(maxsize=8)
def _open_array(array: ZarrArray, _: object) -> Any:  # noqa: ANN401 - zarr's AsyncArray
    """The array, which writes also chunks of fill values: to zarr, any NaN is the fill value NaN.

    zarr's own function ignores that option for an array that exists.
    """
    store = _Chunks(array.folder, dict(array.files), read_only=array.mode == "r")
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # zarr warns about codecs that the specification does not have
        opened: Any = wait_for(
            asynchronous.open_array(store=store, mode=array.mode, zarr_format=array.version)
        )
        return zarr.AsyncArray(opened.metadata, opened.store_path, {"write_empty_chunks": True})


class _WholeBlosc(numcodecs.Blosc):  # type: ignore[misc, unused-ignore]
    """Blosc for Zarr 2, which refuses a truncated frame: Blosc itself reads past its end."""

    def decode(self, buf: Any, out: Any = None) -> Any:  # noqa: ANN401 - any buffer
        """The decoded bytes of a frame; FormatError if some of the frame is missing."""
        require_whole_frame(numcodecs.compat.ensure_bytes(buf))
        return super().decode(buf, out)


class _WholeBloscCodec(BloscCodec):
    """Blosc for Zarr 3, with the same check."""

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:  # noqa: ANN401
        require_whole_frame(chunk_bytes.to_bytes())
        return await super()._decode_single(chunk_bytes, chunk_spec)


register_numcodec(_WholeBlosc, "blosc")
register_codec("blosc", _WholeBloscCodec)
zarr.config.set({"codecs.blosc": f"{_WholeBloscCodec.__module__}.{_WholeBloscCodec.__qualname__}"})


def wait_for(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine to its end in this thread, and return its result."""
    return wait_for_all([work])[0]


def wait_for_all(works: Sequence[Coroutine[Any, Any, _Result]]) -> list[_Result]:
    """Run coroutines to their ends in this thread, and return their results; raise the first error.

    By itself, zarr starts a thread for its event loop, and more for files and codecs. If one cannot
    be started, or ends because memory is out, its caller waits forever. A process with threads
    cannot be forked, either: two workers are ready after 0.05 s, and after 2.3 s if they must load
    zarr again. No threads are needed here, since workers already run in parallel.
    """
    try:
        return calls.run(*works, most=calls.requests_at_once())
    except ExceptionGroup as group:
        error: Exception = group
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        raise error from None


class _Chunks(abc_store.Store):
    """The chunks of an array: each is absent or a whole file, and all else is an error.

    Zarr's own stores take other things for absent chunks: a folder instead of a file, a file
    instead of a folder, an empty shard, and a chunk beyond the end of its shard. A wrapper around
    one of them would pass on what newer versions of zarr add, such as reading many ranges at once;
    what zarr's base class has calls `get`.
    """

    supports_writes = True
    supports_deletes = False
    supports_listing = False

    def __init__(self, folder: str, files: dict[str, bytes], *, read_only: bool) -> None:
        super().__init__(read_only=read_only)
        self._folder = folders.open_folder(folder)
        self._files = files

    async def get(
        self,
        key: str,
        prototype: Any = None,  # noqa: ANN401 - zarr's types
        byte_range: Any = None,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        """The bytes of a file, or a range of it; None without one, FormatError for all else."""
        prototype = prototype or default_buffer_prototype()
        if key.rpartition("/")[2] in metadata.FILES:
            return prototype.buffer.from_bytes(self._files[key]) if key in self._files else None
        part, least = folders.Part(), 1
        if isinstance(byte_range, RangeByteRequest):
            part = folders.Part(byte_range.start, byte_range.end)
            least = max(1, byte_range.end - byte_range.start)
        elif isinstance(byte_range, OffsetByteRequest):
            part = folders.Part(byte_range.offset)
        elif isinstance(byte_range, SuffixByteRequest):
            part = folders.Part(count=byte_range.suffix)
            least = byte_range.suffix
        data = await self._folder.read(key, part)
        if data is None:
            return None
        if len(data) < least:
            raise FormatError(f"{key} is truncated: {len(data)} bytes where {least} are promised")
        return prototype.buffer.from_bytes(data)

    async def get_partial_values(self, prototype: Any, key_ranges: Any) -> Any:  # noqa: ANN401
        """The bytes of several ranges, each as `get` has it."""
        calls = [self.get(key, prototype, byte_range) for key, byte_range in key_ranges]
        return await asyncio.gather(*calls)

    async def exists(self, key: str) -> bool:
        """Whether there is such a file."""
        return await self.get(key) is not None

    async def set(self, key: str, value: Any) -> None:  # noqa: ANN401 - zarr's Buffer
        """Write the bytes of a file."""
        await self._folder.write(key, value.to_bytes())

    async def delete(self, key: str) -> None:
        """No chunk is ever deleted."""
        raise NotImplementedError(key)

    def list(self) -> AsyncIterator[str]:
        """No chunks are listed."""
        raise NotImplementedError

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """No chunks are listed."""
        raise NotImplementedError(prefix)

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """No chunks are listed."""
        raise NotImplementedError(prefix)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


@contextlib.contextmanager
def wrap_zarr_errors(where: str, doing: str) -> Iterator[None]:
    """Turn any error of zarr and its codecs into a RevseqError; `doing` is open, read or write."""
    try:
        yield
    except (RevseqError, *MEMORY_ENDED):
        raise
    except Exception as e:  # noqa: BLE001 - codecs raise errors of any class
        # EINVAL comes from an offset in the index of a damaged shard.
        if isinstance(e, OSError) and e.errno not in (None, errno.EINVAL):
            raise base.failed(where, doing, e) from None
        raise FormatError(
            f"zarr cannot {doing} it: {str(e)[:200] or type(e).__name__}", where=where
        ) from None
