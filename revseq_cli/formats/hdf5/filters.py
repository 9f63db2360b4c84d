"""Filters of HDF5 datasets: which there are, which a new dataset gets, and how they are applied.

Workers encode the chunks of a new dataset, and the parent stores them as they are. The records are
NamedTuples: a dataclass takes 0.4 ms of the start of each command that opens HDF5.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from typing import Any, NamedTuple

import h5py
import numpy as np
from h5py import h5p, h5s, h5z
from numpy.typing import NDArray

from revseq_cli.core import platform, signals
from revseq_cli.core.errors import FormatError
from revseq_cli.core.tensors import Region, split_chunks
from revseq_cli.formats.hdf5.elements import LOCK, memory_type
from revseq_cli.formats.refusals import require_whole_frame

# Short names for HDF5's own filters and some others, whose names in files are long, or empty.
_NAMES = {
    1: "gzip", 2: "shuffle", 3: "fletcher32", 4: "szip", 5: "nbit", 6: "scaleoffset", 32004: "lz4",
    32008: "bitshuffle", 32013: "zfp", 32015: "zstd", 32017: "sz",
}  # fmt: skip
# Some filters change their parameters when a dataset is created. For each of them, what to ask for
# is made here from the parameters that a dataset has. All others keep what they are asked for.
_PARAMETERS_TO_ASK_FOR: dict[int, Callable[[tuple[int, ...]], tuple[int, ...]]] = {
    32008: lambda stored: stored[3:],  # bitshuffle: three numbers of its own come before them
    32017: lambda stored: stored[-9:],  # SZ: the sizes of a chunk come before them
    32018: lambda _: (),  # JPEG-LS: it finds all of them itself
    32024: lambda stored: stored[-9:],  # SZ3, as SZ
    32028: lambda stored: _unpack_sperr(*stored[:2]),
    32033: lambda _: (),  # HTJ2K, as JPEG-LS
}
_BLOSC = 32001
# Filters that never lose anything. Chunks that pass any other are decoded again, and compared.
_LOSSLESS = frozenset({1, 2, 3, 4, 32000})
_UNFILTERED = (
    "write another format, such as .npy, or first the input without filters: h5repack -f NONE"
)


def _unpack_sperr(packed: int, first: int) -> tuple[int, int]:
    """SPERR's two parameters: the second one is in four bits of a number before the first one."""
    second = packed >> 6 & 15
    return first, second


def filters_of(properties: h5p.PropDCID) -> dict[int, str]:
    """The names of the filters that chunks pass through, by their registered numbers."""
    names = {}
    for i in range(properties.get_nfilters()):
        code, _, _, name = properties.get_filter(i)
        names[code] = _NAMES.get(code) or name.decode("utf-8", "replace")[:40]
    return names


def require_filters(dataset: h5py.Dataset, where: str) -> None:
    """FormatError for a filter that neither HDF5 nor the package hdf5plugin has."""
    for code, name in filters_of(dataset.id.get_create_plist()).items():
        if h5z.filter_avail(code):
            continue
        hint = "write it again without that filter, on a system that has it"
        try:
            import hdf5plugin  # noqa: F401 - an extra; importing it registers its filters
        except ModuleNotFoundError:
            hint = platform.pip("install hdf5plugin")
        if not h5z.filter_avail(code):
            raise FormatError(
                f"needs the filter {code} ({name})", "a filter that is installed", hint, where
            )


def ends_in_blosc(dataset: h5py.Dataset) -> bool:
    """Whether Blosc is the last filter of a dataset: its stored chunks are then Blosc frames."""
    properties = dataset.id.get_create_plist()
    count = properties.get_nfilters()
    return bool(count > 0 and properties.get_filter(count - 1)[0] == _BLOSC)


def require_whole_chunk(dataset: h5py.Dataset, start: tuple[int, ...]) -> None:
    """FormatError if the chunk that begins there is stored as a truncated Blosc frame."""
    last = dataset.id.get_create_plist().get_nfilters() - 1
    if dataset.id.get_chunk_info_by_coord(start).byte_offset is None:  # never written
        return
    skipped, frame = dataset.id.read_direct_chunk(start)
    has_skipped_blosc = skipped >> last & 1  # a bit for each filter
    if not has_skipped_blosc:
        require_whole_frame(frame)


def take_filters(properties: h5p.PropDCID, like: h5p.PropDCID, without: int = 0) -> None:
    """Give `properties` the filters of `like`, except the filter `without`."""
    if properties.get_nfilters():
        properties.remove_filter(h5z.FILTER_ALL)
    for i in range(like.get_nfilters()):
        code, flags, parameters, _ = like.get_filter(i)
        if code in _PARAMETERS_TO_ASK_FOR:
            parameters = _PARAMETERS_TO_ASK_FOR[code](parameters)
        if code != without:
            properties.set_filter(code, flags, parameters)


# Chunks of new datasets


class EncodedChunk(NamedTuple):
    """The bytes of a chunk as HDF5 stores them.

    `start` is its first index in each dimension. `skipped` has a bit for each filter, which is set
    if the chunk did not pass through it.
    """

    start: tuple[int, ...]
    data: bytes
    skipped: int


class ChunkBlockWriter(NamedTuple):
    """Encodes the chunks of a block with the filters of a dataset.

    HDF5 itself encodes a chunk, when it is written to a dataset with these filters; then its stored
    bytes are read. That dataset has only one chunk, and is in a file in memory, whose bytes are
    `image`: a property list cannot be pickled, but such a file can. `may_lose` says whether a
    filter may lose something. `name` is for messages.
    """

    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    image: bytes
    name: str
    may_lose: bool

    @classmethod
    def like(
        cls, dataset: h5py.Dataset, properties: h5p.PropDCID, dtype: np.dtype[Any], name: str
    ) -> ChunkBlockWriter:
        """The writer for chunks of a dataset with these properties."""
        kind = dataset.id.get_type().copy()
        chunks = properties.get_chunk()
        image = io.BytesIO()
        with h5py.File(image, "w") as file:
            space = h5s.create_simple(chunks, chunks)
            h5py.h5d.create(file.id, b"chunk", kind, space, properties)
        may_lose = not _LOSSLESS.issuperset(filters_of(properties))
        return cls(chunks, dtype, image.getvalue(), name, may_lose)

    def deliver(self, region: Region, values: NDArray[Any]) -> list[EncodedChunk]:
        """The encoded chunks of a region of whole chunks, up to the tensor's end."""
        try:
            with LOCK:
                scratch = _open_scratch(self.image)
                encoded = []
                for box, values_of_chunk in split_chunks(region, values, self.chunks):
                    signals.check()
                    skipped, data = self._encode_chunk(scratch, values_of_chunk)
                    start = tuple(part.start for part in box)
                    encoded.append(EncodedChunk(start, data, skipped))
                return encoded
        except FormatError:
            raise
        except (OSError, RuntimeError, ValueError) as e:
            found = f"its filters cannot encode: {str(e)[:200]}"
            raise FormatError(found, "filters that can", _UNFILTERED, self.name) from None

    def _encode_chunk(self, scratch: h5py.h5d.DatasetID, values: NDArray[Any]) -> tuple[int, bytes]:
        """The filters that a chunk skipped, as bits, and its bytes as HDF5 stores them.

        The values of a chunk end at the tensor's end. HDF5 fills the rest of the chunk, and decides
        whether such a chunk passes through the filters.
        """
        values = np.ascontiguousarray(values, self.dtype)
        kind = memory_type(scratch.get_type(), self.dtype)
        if scratch.shape != values.shape:
            # HDF5 fills the end of a chunk only when the extent shrinks, and only of a chunk that
            # has been written. So the whole chunk is written first, and then shrunk.
            scratch.set_extent(self.chunks)
            scratch.write(h5s.ALL, h5s.ALL, np.zeros(self.chunks, self.dtype), kind)
            scratch.set_extent(values.shape)
        scratch.write(h5s.ALL, h5s.ALL, values, kind)
        # Without a flush, in files of HDF5's latest layout, h5py reserves 0 bytes below, and
        # overruns them.
        scratch.flush()
        start = (0,) * scratch.rank
        skipped, data = scratch.read_direct_chunk(start)
        if self.may_lose:
            decoded = np.empty_like(values)
            scratch.write_direct_chunk(start, data, skipped)
            scratch.read(h5s.ALL, h5s.ALL, decoded, kind)
            if decoded.tobytes() != values.tobytes():
                raise FormatError(
                    "its filters change values", "lossless filters", _UNFILTERED, self.name
                )
        return skipped, data


@functools.lru_cache(maxsize=1)
def _open_scratch(image: bytes) -> h5py.h5d.DatasetID:
    """The dataset of one chunk in the image; a process keeps the last one open."""
    dataset = h5py.File(io.BytesIO(image), "r+")["chunk"]
    require_filters(dataset, "the output")
    return dataset.id
