"""Chunks without filters, or with gzip and shuffle, encoded and decoded without HDF5.

HDF5 has one lock for all threads, and holds it while its filters work. Python's zlib lets other threads run.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_GZIP, _SHUFFLE = 1, 2  # HDF5's numbers
_LEVELS = range(10)


@dataclass(frozen=True)
class Coding:
    """The filters that a chunk passes: of each HDF5's number, and a parameter: gzip's level, or shuffle's item size."""

    filters: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, pipeline: Sequence[tuple[int, int, tuple[int, ...]]], itemsize: int) -> Coding | None:
        """The coding for filters with their flags and parameters; None where one of them needs HDF5."""
        known = {(_SHUFFLE, ()): itemsize, (_SHUFFLE, (itemsize,)): itemsize}  # HDF5 sets it in a new dataset
        known |= {(_GZIP, (level,)): level for level in _LEVELS}
        if any((code, parameters) not in known for code, _, parameters in pipeline):
            return None
        codes = [code for code, _, _ in pipeline]
        if len(set(codes)) < len(codes):  # what one of two inflates may be longer than a chunk
            return None
        return cls(tuple((code, known[code, parameters]) for code, _, parameters in pipeline))

    def encode(self, chunk: NDArray[Any]) -> bytes:
        """The bytes that HDF5 stores for a whole chunk."""
        data: bytes | memoryview = np.ascontiguousarray(chunk).reshape(-1).view(np.uint8).data
        for code, parameter in self.filters:
            data = _shuffled(data, parameter) if code == _SHUFFLE else zlib.compress(data, parameter)
        return bytes(data)  # of bytes, it makes no copy

    def decode(self, data: bytearray, mask: int, size: int) -> NDArray[np.uint8]:
        """The `size` bytes of a chunk that skipped the filters in `mask`; ValueError where they do not give so many."""
        chunk = np.frombuffer(data, np.uint8)
        for i, (code, parameter) in reversed([*enumerate(self.filters)]):
            if mask >> i & 1:
                continue
            if code == _SHUFFLE:
                chunk = _unshuffled(chunk, parameter)
            else:
                chunk = np.frombuffer(_inflated(chunk, size), np.uint8)
        if len(chunk) != size:
            raise ValueError
        return chunk


def _shuffled(data: bytes | memoryview, itemsize: int) -> memoryview:
    """The first bytes of all items, then all second ones, and so on; what is left over stays at the end."""
    items = np.frombuffer(data, np.uint8)
    shuffled, count = np.empty(len(items), np.uint8), len(items) // itemsize
    for i in range(itemsize):
        shuffled[i * count : (i + 1) * count] = items[i : count * itemsize : itemsize]
    shuffled[count * itemsize :] = items[count * itemsize :]
    return shuffled.data


def _unshuffled(data: NDArray[np.uint8], itemsize: int) -> NDArray[np.uint8]:
    """What was shuffled so."""
    items, count = np.empty(len(data), np.uint8), len(data) // itemsize
    for i in range(itemsize):  # faster than to transpose them
        items[i : count * itemsize : itemsize] = data[i * count : (i + 1) * count]
    items[count * itemsize :] = data[count * itemsize :]
    return items


def _inflated(data: NDArray[np.uint8], most: int) -> bytes:
    """What a whole stream of zlib holds, up to one byte more than `most`."""
    stream = zlib.decompressobj()
    try:
        inflated = stream.decompress(data.data, most + 1)
    except zlib.error:
        raise ValueError from None
    if not stream.eof:
        raise ValueError
    return inflated
