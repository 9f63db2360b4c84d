"""Which chunks of a Zarr array are stored; the others are read as its fill value."""

from __future__ import annotations

import os
import re
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from revseq_cli.core import signals
from revseq_cli.core.errors import FormatError
from revseq_cli.formats import file_io

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from revseq_cli.formats.zarr.metadata import Metadata, ShardIndex

_ENTRY_BYTES = 16  # of a shard's index for each chunk: its offset in the shard and its size
_NONE = (1 << 64) - 1  # offset and size of a chunk that the shard does not hold


def absent(folder: str, metadata: Metadata) -> tuple[int, int]:
    """The number of chunks that are not stored, neither in files nor in shards, and the number of all chunks."""
    sizes, chunks, shards, index = metadata.sizes, metadata.chunks, metadata.shards, metadata.shard_index
    per_shard = tuple(shard // chunk for shard, chunk in zip(shards, chunks, strict=True))
    stored = 0
    for path, place in _files(folder, metadata):
        signals.check()
        # A shard at the end of a dimension has fewer chunks with elements.
        counts = tuple(
            -(-min(shard, size - i * shard) // chunk)
            for i, shard, size, chunk in zip(place, shards, sizes, chunks, strict=True)
        )
        stored += _held(path, index, per_shard, counts) if index else prod(counts)
    total = prod(-(-size // chunk) for size, chunk in zip(sizes, chunks, strict=True))
    return total - stored, total


def places(metadata: Metadata) -> Callable[[str], tuple[int, ...] | None]:
    """A function from the path of a file in the array's folder to the chunk or shard that it is.

    It gives the index of the chunk or shard in each dimension, and None for any other path.
    """
    numbers = [r"(0|[1-9]\d{0,18})"] * len(metadata.sizes)
    name = re.compile(re.escape(metadata.key_start) + re.escape(metadata.separator).join(numbers), re.ASCII)
    if not numbers:  # a scalar
        name = re.compile("c" if metadata.key_start else "0")
    counts = [-(-size // shard) for size, shard in zip(metadata.sizes, metadata.shards, strict=True)]

    def place_of(key: str) -> tuple[int, ...] | None:
        match = name.fullmatch(key)
        place = tuple(map(int, match.groups())) if match else ()
        return place if match and all(i < count for i, count in zip(place, counts, strict=True)) else None

    return place_of


def _files(folder: str, metadata: Metadata) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Each file of a chunk or shard, with its index in each dimension."""
    place_of = places(metadata)
    firsts = [metadata.separator.join("0" * count) for count in range(1, len(metadata.sizes) + 1)]
    pending = [""]
    while pending:
        below = pending.pop()
        with file_io.trying_to("read", Path(folder, below)):
            entries = list(os.scandir(Path(folder, below)))
        for entry in entries:
            key = f"{below}/{entry.name}" if below else entry.name
            place = place_of(key)
            if entry.is_dir(follow_symlinks=False):
                if place is not None:
                    raise FormatError("is a folder in place of a chunk", "a chunk", "fetch it again", entry.path)
                pending.append(key)
            elif place is not None:
                yield entry.path, place
            elif any(place_of(f"{key}/{first}") is not None for first in firsts):  # chunks lie below it
                raise FormatError("is a file in place of a folder of chunks", "a folder", "fetch it again", entry.path)


def _held(path: str, index: ShardIndex, per_shard: tuple[int, ...], counts: tuple[int, ...]) -> int:
    """The number of chunks that a shard holds, among the first `counts` in each dimension."""
    wanted = prod(per_shard) * _ENTRY_BYTES
    with file_io.opened(path) as fd:
        size = file_io.identity(fd).size
        offset = 0 if index.at_start else size - wanted - index.checksum_bytes
        if offset < 0 or size < wanted:
            raise FormatError(f"is truncated: {size} bytes, and its index has {wanted}", "the whole file", where=path)
        data = file_io.read_some(fd, wanted, offset, path)
    entries = np.frombuffer(data, f"{index.byte_order}u8").reshape(*per_shard, 2)
    held = (entries != _NONE).any(axis=-1)
    return int(held[tuple(map(slice, counts))].sum())
