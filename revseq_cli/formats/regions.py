"""Regions of a tensor: for each dimension a slice with a start and a stop, without a step."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

Region = tuple[slice, ...]


def chunk_boxes(region: Region, chunks: tuple[int, ...]) -> Iterator[Region]:
    """Each chunk that overlaps the region, cut off at the region's end, but not at its start."""
    cuts = (
        [slice(start, min(start + chunk, part.stop)) for start in range(part.start // chunk * chunk, part.stop, chunk)]
        for part, chunk in zip(region, chunks, strict=True)
    )
    return itertools.product(*cuts)
