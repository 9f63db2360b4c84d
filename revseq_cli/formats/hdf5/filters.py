"""The filters of HDF5 datasets: which ones a dataset has, how to ask for the same ones, and chunks encoded by them.

Chunks are encoded in the workers: HDF5 does it, in a file in memory, and the parent stores the bytes as they are.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import h5py
import numpy as np

from revseq_cli.core import platform
from revseq_cli.core.errors import FormatError
from revseq_cli.formats.contract import parts
from revseq_cli.formats.hdf5 import types
from revseq_cli.formats.hdf5.files import in_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Region


# Short names for HDF5's own filters and for those that hdf5plugin brings: the names in files are long, or empty.
_NAMES = {
    1: "gzip", 2: "shuffle", 3: "fletcher32", 4: "szip", 5: "nbit", 6: "scaleoffset", 307: "bzip2", 32000: "lzf",
    32001: "blosc", 32004: "lz4", 32008: "bitshuffle", 32013: "zfp", 32015: "zstd", 32017: "sz", 32018: "fcidecomp",
    32024: "sz3", 32026: "blosc2", 32028: "sperr",
}  # fmt: skip
# Filters that never lose anything; chunks that pass any other filter are decoded again and compared.
_LOSSLESS = frozenset({1, 2, 3, 4, 32000})
# Some filters change their parameters when a dataset is created: it then stores others than were asked for, and asking
# for the stored ones would change them twice. For each such filter, the parameters that were asked for, from those that
# are stored: bitshuffle puts three numbers first, SZ and SZ3 the sizes of a chunk, JPEG-LS and HTJ2K need none, and
# SPERR packs its second one into the first.
_ASKED_FOR: dict[int, Callable[[tuple[int, ...]], tuple[int, ...]]] = {
    32008: lambda stored: stored[3:],
    32017: lambda stored: stored[-9:],
    32018: lambda _: (),
    32024: lambda stored: stored[-9:],
    32028: lambda stored: (stored[1], stored[0] >> 6 & 15),
    32033: lambda _: (),
}

_UNFILTERED = "write another format, such as .npy, or first the input without filters: h5repack -f NONE"


def filters_of(properties: h5py.h5p.PropDCID) -> dict[int, str]:
    """The names of the filters that a chunk passes through, by HDF5's registered number.

    These are the properties with which the dataset was created.
    """
    filters = (properties.get_filter(i) for i in range(properties.get_nfilters()))
    return {code: _NAMES.get(code) or name.decode("utf-8", "replace")[:40] for code, _, _, name in filters}


def require_filters(dataset: h5py.Dataset, where: str) -> None:
    """FormatError for a filter that neither HDF5 nor the package hdf5plugin brings."""
    for code, name in filters_of(dataset.id.get_create_plist()).items():
        if h5py.h5z.filter_avail(code):
            continue
        hint = "write it again without that filter, on a system that has it"
        try:
            import hdf5plugin  # noqa: F401 - an extra; importing it registers its filters
        except ModuleNotFoundError:
            hint = platform.pip("install hdf5plugin")
        if not h5py.h5z.filter_avail(code):
            raise FormatError(f"needs the filter {code} ({name})", "a filter that is installed", hint, where)


def asked_for(properties: h5py.h5p.PropDCID) -> list[tuple[int, int, tuple[int, ...]]]:
    """Each filter of a dataset with these properties: its number, its flags, and the parameters to ask for."""
    filters = (properties.get_filter(i)[:3] for i in range(properties.get_nfilters()))
    return [(code, flags, _ASKED_FOR.get(code, tuple)(stored)) for code, flags, stored in filters]


class Chunk(NamedTuple):
    """An encoded chunk: its first index in each dimension, the filters that it skipped, as bits, and its bytes."""

    start: tuple[int, ...]
    mask: int
    data: bytes


@dataclass(frozen=True)
class ChunkBlockWriter:
    """Encodes the chunks of a block.

    Property lists cannot be pickled, but the image of a file can: `image` is a file with a dataset of one chunk and of
    the same storage. Each chunk is written into that, and read back as HDF5 stores it. `may_lose` says whether some
    filters may lose something.
    """

    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    image: bytes
    name: str
    may_lose: bool

    def deliver(self, region: Region, values: NDArray[Any]) -> list[Chunk]:
        """The encoded chunks of a region that begins at a chunk, and ends at one or at the tensor's end."""
        rank = _scratch(self.image).rank
        return [
            Chunk(tuple(part.start for part in box[:rank]), *self.stored(np.ascontiguousarray(chunk, self.dtype)))
            for box, chunk in parts(region, values, self.chunks)
        ]

    def stored(self, part: NDArray[Any]) -> tuple[int, bytes]:
        """Encode a chunk: the filters that were skipped, as bits, and its bytes as HDF5 stores them.

        `part` is the chunk up to the tensor's end. HDF5 fills up a chunk beyond the end, and decides whether such a
        chunk passes through the filters.
        """
        scratch = _scratch(self.image)
        kind, rank = types.in_memory(scratch.get_type(), part.dtype), scratch.rank
        start, sizes = (0,) * rank, part.shape[:rank]
        try:
            if scratch.shape != sizes:
                scratch.set_extent(self.chunks[:rank])  # shrinking it next fills up what is cut off, and nothing else
                scratch.write(h5py.h5s.ALL, h5py.h5s.ALL, np.zeros(self.chunks, part.dtype), kind)
                scratch.set_extent(sizes)
            scratch.write(h5py.h5s.ALL, h5py.h5s.ALL, part, kind)
            scratch.flush()  # else, in files of HDF5's latest layout, h5py reserves 0 bytes below and overruns them
            mask, data = scratch.read_direct_chunk(start)
            if self.may_lose:
                decoded = np.empty_like(part)
                scratch.write_direct_chunk(start, data, mask)
                scratch.read(h5py.h5s.ALL, h5py.h5s.ALL, decoded, kind)
                if decoded.tobytes() != part.tobytes():
                    raise FormatError("its filters change values", "lossless filters", _UNFILTERED, self.name)
        except (OSError, RuntimeError, ValueError) as e:
            if isinstance(e, FormatError):
                raise
            if "memory allocation failed" in str(e):
                raise MemoryError from None
            found = f"its filters cannot encode: {str(e)[:200]}"
            raise FormatError(found, "filters that can", _UNFILTERED, self.name) from None
        return mask, data


def block_writer_for(
    dataset: h5py.Dataset, properties: h5py.h5p.PropDCID, dtype: np.dtype[Any], name: str
) -> ChunkBlockWriter:
    """The block writer for chunks of a dataset made with these properties; `name` is for messages."""
    may_lose = not _LOSSLESS.issuperset(filters_of(dataset.id.get_create_plist()))
    kind, chunks = dataset.id.get_type(), properties.get_chunk()
    return ChunkBlockWriter((*chunks, *types.inner_sizes(kind)), dtype, _image(kind, properties), name, may_lose)


def _image(kind: h5py.h5t.TypeID, properties: h5py.h5p.PropDCID) -> bytes:
    """The bytes of a file with a dataset of one chunk, of that type and with that storage."""
    with in_memory() as file:
        space = h5py.h5s.create_simple(properties.get_chunk(), properties.get_chunk())
        h5py.h5d.create(file.id, b"chunk", kind.copy(), space, properties)
        file.flush()
        image: bytes = file.id.get_file_image()
        return image


@functools.lru_cache(maxsize=1)
def _scratch(image: bytes) -> h5py.h5d.DatasetID:
    """The dataset of one chunk, of which a process keeps the last one open."""
    dataset = in_memory(image)["chunk"]
    require_filters(dataset, "the output")
    return dataset.id
