"""Arrays of the package zarr, which are made, opened, read and written in the calling thread."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import functools
import struct
import warnings
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

import numcodecs
import numpy as np
import zarr
from numcodecs.registry import register_codec as register_numcodec
from numpy.typing import NDArray
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.api import asynchronous
from zarr.codecs import BloscCodec
from zarr.core.buffer import default_buffer_prototype
from zarr.registry import register_codec

from revseq_cli.core.errors import MEMORY_ENDED, FormatError, RevseqError
from revseq_cli.files import join, open_folder
from revseq_cli.files.budget import count_parallel_requests
from revseq_cli.files.event_loop import run_together, thread_key
from revseq_cli.files.system_errors import make_os_error
from revseq_cli.formats.attributes import FILL, Attributes, fill_of
from revseq_cli.formats.refusals import require_whole_frame
from revseq_cli.formats.zarr.metadata import DIMENSIONS
from revseq_cli.formats.zarr.store import ARRAY_FILES, METADATA_FILES, Version, ZarrStore, prefix_of

_Result = TypeVar("_Result")


class ZarrArray(NamedTuple):
    """All that zarr needs to open an array; small and picklable.

    `chunk_folder` is the folder or the address where the array's chunks are. `metadata_files` are
    its files of metadata, by their names: while a store is written, they are not yet next to the
    chunks.
    """

    chunk_folder: str
    version: Version
    metadata_files: tuple[tuple[str, bytes], ...]
    mode: Literal["r", "r+"] = "r"

    @classmethod
    def of(cls, store: ZarrStore, key: str, version: Version, chunk_store: str) -> ZarrArray:
        """The array at the path `key` of a store whose chunks are in the store `chunk_store`."""
        files = []
        for name in ARRAY_FILES[version]:
            data = store.read_metadata_file(f"{prefix_of(key)}{name}")
            if data is not None:
                files.append((name, data))
        return cls(join(chunk_store, key), version, tuple(files))

    def open(self) -> Any:  # noqa: ANN401 - zarr's AsyncArray
        """The array of the package zarr, opened once in each thread of each process."""
        return _open_array(self, thread_key())

    def read_regions(self, *regions: tuple[Any, ...]) -> list[NDArray[Any]]:
        """The elements of regions, which are asked for together."""
        array = self.open()
        works = [array.getitem(region) for region in regions]
        return [np.asarray(values) for values in wait_for_all(works)]

    def write_regions(self, parts: Sequence[tuple[Any, NDArray[Any]]]) -> None:
        """Write regions with their values, a few at once."""
        array = self.open()
        wait_for_all([array.setitem(region, values) for region, values in parts])


@functools.lru_cache(maxsize=8)
def _open_array(array: ZarrArray, _: object) -> Any:  # noqa: ANN401 - zarr's AsyncArray
    """The array of the package zarr, which writes all chunks.

    By itself, zarr leaves out chunks that hold only the fill value, and takes any NaN for it. The
    function of zarr that opens an array ignores the option `write_empty_chunks`.
    """
    store = _Chunks(array.chunk_folder, dict(array.metadata_files), read_only=array.mode == "r")
    with warnings.catch_warnings():
        # zarr warns about codecs that the specification does not have.
        warnings.simplefilter("ignore")
        work = asynchronous.open_array(store=store, mode=array.mode, zarr_format=array.version)
        plain: Any = wait_for(work)
        return zarr.AsyncArray(plain.metadata, plain.store_path, {"write_empty_chunks": True})


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
            raise make_os_error(where, doing, e) from None
        words = str(e)[:200] or type(e).__name__
        raise FormatError(f"zarr cannot {doing} it: {words}", where=where) from None


def wait_for(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine to its end in this thread, and return its result."""
    return wait_for_all([work])[0]


def wait_for_all(works: Sequence[Coroutine[Any, Any, _Result]]) -> list[_Result]:
    """Run coroutines to their ends in this thread, and return their results; raise the first error.

    By itself, zarr starts a thread for its event loop, and more for files and codecs. If one cannot
    be started, or ends because memory runs out, its caller waits forever. A process with threads
    cannot be forked, either: two workers are ready after 0.05 s, and after 2.3 s if they must load
    zarr again. No threads are needed here, since workers already run in parallel.
    """
    try:
        return run_together(*works, most=count_parallel_requests())
    except ExceptionGroup as group:
        error: Exception = group
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        raise error from None


# Metadata of new arrays


def make_array_files(
    version: Version,
    sizes: tuple[int, ...],
    dtype: Any,  # noqa: ANN401 - one of NumPy, or str for texts
    dimensions: tuple[str, ...],
    attributes: Attributes,
    where: str,
    chunks: tuple[int, ...] | None = None,
    storage_fill: Any = None,  # noqa: ANN401 - a NumPy number, or None
) -> tuple[tuple[int, ...], dict[str, bytes]]:
    """The sizes of a new array's chunks, and its files of metadata by their names.

    `dimensions` are the names of its dimensions, or empty. `where` is what messages call the store.
    Without `chunks`, zarr chooses them. `storage_fill` is the fill value that somebody has set for
    elements that were never written, or None.
    """
    fields = attributes_as_json(attributes)
    fields.pop(FILL, None)
    fill = None if dtype is str else fill_of(attributes, dtype)
    has_names = len(dimensions) == len(sizes)
    if version == 2 and has_names:
        fields[DIMENSIONS] = [*dimensions]
    if version == 3 and fill is not None:
        fields[FILL] = _fill_as_json(fill)
    options = _choose_fill(version, fill, storage_fill, has_names=has_names)
    if version == 3 and dimensions:
        options["dimension_names"] = [name or None for name in dimensions]
    if chunks:
        options["chunks"] = chunks
    files: dict[str, Any] = {}
    with wrap_zarr_errors(where, "write"), warnings.catch_warnings():
        # zarr warns that the specification has no data type for bytes.
        warnings.simplefilter("ignore")
        work = asynchronous.create_array(
            files,
            shape=sizes,
            dtype=dtype,
            zarr_format=version,
            attributes=fields or None,
            **options,
        )
        array = wait_for(work)
        return array.chunks, {name: data.to_bytes() for name, data in files.items()}


def _choose_fill(
    version: Version,
    fill: Any,  # noqa: ANN401 - a NumPy number, or None
    storage_fill: Any,  # noqa: ANN401
    *,
    has_names: bool,
) -> dict[str, Any]:
    """The option `fill_value` for a new array; none where zarr chooses the value.

    `fill` is the value that marks missing values, or None.
    """
    if version == 2 and has_names:
        # In an array whose dimensions have names, xarray takes any fill value for the mark of
        # missing values. `storage_fill` is not such a mark, so it is left out.
        return {"fill_value": fill}
    if version == 3 and fill is not None:
        return {"fill_value": fill}
    if storage_fill is not None:
        return {"fill_value": storage_fill}
    return {}


def _fill_as_json(fill: np.generic) -> Any:  # noqa: ANN401 - a number or a text
    """A fill value as the attribute that xarray reads in version 3."""
    if fill.dtype.kind == "f":
        return base64.b64encode(struct.pack("<d", fill)).decode()
    return fill.item()


def attributes_as_json(attributes: Attributes) -> dict[str, Any]:
    """Attributes as JSON has them."""
    fields = {}
    for name, value in attributes.items():
        is_array = isinstance(value, (np.generic, np.ndarray))
        fields[name] = value.tolist() if is_array else value
    return fields


# Reading and writing chunks


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


class _Chunks(Store):
    """The chunks of an array: each is absent or a whole file, and all else is an error.

    Zarr's own stores take other things for absent chunks: a folder instead of a file, a file
    instead of a folder, an empty shard, and a chunk beyond the end of its shard. This one is no
    wrapper around one of them: a method that a newer version of zarr adds to them, such as one that
    reads many ranges, would bypass the checks in `get`. Those of zarr's base class all call `get`.
    """

    supports_writes = True
    supports_deletes = False
    supports_listing = False

    def __init__(self, folder: str, metadata_files: dict[str, bytes], *, read_only: bool) -> None:
        super().__init__(read_only=read_only)
        self._folder = open_folder(folder)
        self._metadata_files = metadata_files

    async def get(
        self,
        key: str,
        prototype: Any = None,  # noqa: ANN401 - zarr's types
        byte_range: Any = None,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        """The bytes of a file, or a range of it; None without one, FormatError for all else."""
        prototype = prototype or default_buffer_prototype()
        if key.rpartition("/")[2] in METADATA_FILES:
            data = self._metadata_files.get(key)
        else:
            data = await self._read_chunk(key, byte_range)
        if data is None:
            return None
        return prototype.buffer.from_bytes(data)

    async def _read_chunk(self, key: str, byte_range: Any) -> bytes | None:  # noqa: ANN401
        """The bytes of a chunk, or None; FormatError if there are fewer than zarr asks for."""
        part = slice(None)
        least = 1
        match byte_range:
            case RangeByteRequest(start, end):
                part = slice(start, end)
                least = max(1, end - start)
            case OffsetByteRequest(offset):
                part = slice(offset, None)
            case SuffixByteRequest(suffix):
                part = slice(-suffix, None)
                least = suffix
        data = await self._folder.read(key, part)
        if data is not None and len(data) < least:
            raise FormatError(f"{key} is truncated: {len(data)} bytes where {least} are promised")
        return data

    async def get_partial_values(self, prototype: Any, key_ranges: Any) -> Any:  # noqa: ANN401
        """The bytes of several ranges, each as `get` has it."""
        works = [self.get(key, prototype, byte_range) for key, byte_range in key_ranges]
        return await asyncio.gather(*works)

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
