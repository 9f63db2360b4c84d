"""What DirectML itself computes where it departs from Microsoft's page, as two formulas.

The page says that a length above the axis size acts as the axis size. No version of DirectML does
that, and all versions take only the low 32 bits of a UINT64 length. Both were measured: DirectML
1.0 to 1.15.4 ran the operator with Wine's D3D12 on a software Vulkan, and 1.15.4 also on an NVIDIA
H100, and gave the same bytes. With lengths up to the axis size, all versions do as the page says.

`find_index_newer` and `find_position_older` take and return arrays of signed integers that
broadcast, so that they serve a few elements as well as a whole tensor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from revseq_cli.core.dtypes import Array

LOW_BITS = 32  # this many bits of a length count
MOST_LENGTH = (1 << LOW_BITS) - 1

ALL, NEWER, OLDER = "all versions", "1.13 to 1.15", "1.0 to 1.12"
FORMULA = "out[j] = in[min(length-1-j, size-1)]"  # of the newer versions, for j < length


@dataclass(frozen=True)
class Departure:
    """Where some versions depart from the page, and for how many sequences of a job."""

    versions: str
    effect: str
    sequences: int | None = None

    def __str__(self) -> str:
        return f"{self.versions}: {self.effect}"


def find_departures(size: int, above: int, wide: int) -> Iterator[Departure]:
    """How DirectML departs from the page in a job with sequences of `size` elements.

    `above` counts the sequences whose length, by its low 32 bits, is above the size. `wide` counts
    those whose length has more than 32 bits. The newer versions are always right for a sequence of
    one element.
    """
    unclamped = f"the lengths of {_count_sequences(above)} are not clamped"
    if above and size > 1:
        effect = f"{unclamped}; the last element is repeated: {FORMULA}"
        yield Departure(NEWER, effect, above)
    if above and size:
        effect = f"{unclamped}; the memory after the sequence is read"
        yield Departure(OLDER, effect, above)
    if wide and size > 1:
        effect = f"only the low 32 bits of the lengths of {_count_sequences(wide)} are read"
        yield Departure(ALL, effect, wide)


def _count_sequences(sequences: int) -> str:
    return "1 sequence" if sequences == 1 else f"{sequences:,} sequences"


def keep_low_bits(lengths: Array) -> Array:
    """The lengths as DirectML reads them, as signed integers of 64 bits."""
    return lengths.astype(np.uint64).astype(np.int64) & MOST_LENGTH


def find_index_newer(j: Array, length: Array, size: int) -> Array:
    """The index from which the element at index j comes in its sequence, in 1.13 to 1.15."""
    mirrored = np.minimum(length - 1 - j, size - 1)
    return np.asarray(np.where(j < length, mirrored, j))


def find_position_older(
    position: Array, j: Array, length: Array, step: int, itemsize: int
) -> Array:
    """The position in memory from which an element comes, in 1.0 to 1.12.

    The element is at `position` and at index j of its sequence, whose elements are `step` positions
    apart. DirectML counts positions modulo 2^32. It counts an element of 8 bytes as two of 4 bytes,
    so that the positions of such elements wrap around at 2^31. After the end of the tensor,
    DirectML reads 0.
    """
    bits = LOW_BITS
    if itemsize == 8:
        bits -= 1
    first = position - j * step
    mirrored = first + (length - 1 - j) * step
    return np.asarray(np.where(j < length, mirrored & ((1 << bits) - 1), position))
