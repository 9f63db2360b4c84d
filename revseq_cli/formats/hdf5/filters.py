"""The filters of HDF5 datasets: which ones a dataset has, how to ask for the same ones, and chunks encoded by them.

Chunks are encoded in the workers: HDF5 does it, in a file in memory, and the parent stores the bytes as they are.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
from h5py import h5s, h5z
from numpy.typing import NDArray

from revseq_cli.core import platform
from revseq_cli.core.errors import FormatError
from revseq_cli.core.tensors import Region, parts
from revseq_cli.formats.hdf5 import types
from revseq_cli.formats.hdf5.files import alone

# Short names for HDF5's own filters and some others, whose names in files are long, or empty.
_NAMES = {
    1: "gzip", 2: "shuffle", 3: "fletcher32", 4: "szip", 5: "nbit", 6: "scaleoffset", 32004: "lz4", 32008: "bitshuffle",
    32013: "zfp", 32015: "zstd", 32017: "sz",
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
    """The names of the filters that a chunk passes through, by HDF5's registered number."""
    filters = (properties.get_filter(i) for i in range(properties.get_nfilters()))
    return {code: _NAMES.get(code) or name.decode("utf-8", "replace")[:40] for code, _, _, name in filters}


def require_filters(dataset: h5py.Dataset, where: str) -> None:
    """FormatError for a filter that neither HDF5 nor the package hdf5plugin brings."""
    for code, name in filters_of(dataset.id.get_create_plist()).items():
        if h5z.filter_avail(code):
            continue
        hint = "write it again without that filter, on a system that has it"
        try:
            import hdf5plugin  # noqa: F401 - an extra; importing it registers its filters
        except ModuleNotFoundError:
            hint = platform.pip("install hdf5plugin")
        if not h5z.filter_avail(code):
            raise FormatError(f"needs the filter {code} ({name})", "a filter that is installed", hint, where)


def take_filters(properties: h5py.h5p.PropDCID, like: h5py.h5p.PropDCID, but: int = 0) -> None:
    """Ask for the filters that a dataset of some properties has, but for the one of that number."""
    if properties.get_nfilters():
        properties.remove_filter(h5z.FILTER_ALL)
    for code, flags, stored, _ in map(like.get_filter, range(like.get_nfilters())):
        if code != but:
            properties.set_filter(code, flags, _ASKED_FOR.get(code, tuple)(stored))


# An encoded chunk: its first index in each dimension, its bytes, and the filters that it skipped, as bits.
Chunk = tuple[tuple[int, ...], bytes, int]


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

    @classmethod
    def like(
        cls, dataset: h5py.Dataset, properties: h5py.h5p.PropDCID, dtype: np.dtype[Any], name: str
    ) -> ChunkBlockWriter:
        """The one for chunks of a dataset made with these properties; `name` is for messages."""
        kind, chunks, image = dataset.id.get_type(), properties.get_chunk(), io.BytesIO()
        with h5py.File(image, "w") as file:
            h5py.h5d.create(file.id, b"chunk", kind.copy(), h5s.create_simple(chunks, chunks), properties)
        may_lose = not _LOSSLESS.issuperset(filters_of(properties))
        return cls(chunks, dtype, image.getvalue(), name, may_lose)

    def deliver(self, region: Region, values: NDArray[Any]) -> list[Chunk]:
        """The encoded chunks of a region that begins at a chunk, and ends at one or at the tensor's end."""
        try:
            with alone:
                scratch = _scratch(self.image)
                return [
                    (tuple(part.start for part in box), *self._encoded(scratch, values_of_chunk))
                    for box, values_of_chunk in parts(region, values, self.chunks)
                ]
        except (OSError, RuntimeError, ValueError) as e:
            if isinstance(e, FormatError):
                raise
            if "memory allocation failed" in str(e):
                raise MemoryError from None
            found = f"its filters cannot encode: {str(e)[:200]}"
            raise FormatError(found, "filters that can", _UNFILTERED, self.name) from None

    def _encoded(self, scratch: h5py.h5d.DatasetID, values: NDArray[Any]) -> tuple[bytes, int]:
        """The bytes of a chunk as HDF5 stores them, and the filters that it skipped.

        The values end at the tensor's end. HDF5 fills up a chunk beyond the end, and decides whether such a chunk
        passes through the filters.
        """
        values = np.ascontiguousarray(values, self.dtype)
        kind, sizes = types.in_memory(scratch.get_type(), self.dtype), values.shape
        if scratch.shape != sizes:
            scratch.set_extent(self.chunks)  # shrinking it next fills up what is cut off, and no more
            scratch.write(h5s.ALL, h5s.ALL, np.zeros(self.chunks, self.dtype), kind)
            scratch.set_extent(sizes)
        scratch.write(h5s.ALL, h5s.ALL, values, kind)
        scratch.flush()  # else, in files of HDF5's latest layout, h5py reserves 0 bytes below and overruns them
        start = (0,) * scratch.rank
        mask, data = scratch.read_direct_chunk(start)
        if self.may_lose:
            decoded = np.empty_like(values)
            scratch.write_direct_chunk(start, data, mask)
            scratch.read(h5s.ALL, h5s.ALL, decoded, kind)
            if decoded.tobytes() != values.tobytes():
                raise FormatError("its filters change values", "lossless filters", _UNFILTERED, self.name)
        return data, mask


@functools.lru_cache(maxsize=1)
def _scratch(image: bytes) -> h5py.h5d.DatasetID:
    """The dataset of one chunk, of which a process keeps the last one open."""
    dataset = h5py.File(io.BytesIO(image), "r+")["chunk"]
    require_filters(dataset, "the output")
    return dataset.id
