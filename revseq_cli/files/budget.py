"""How much of files at addresses is asked for at once, by the memory that they may take.

This module loads no event loop, since every command sets the memory.
"""

from __future__ import annotations

from revseq_cli.core import thresholds

_MOST_REQUESTS = 8  # at once: more of them are no quicker
# Bytes that all workers together may hold, if the user does not say how many.
DEFAULT_MEMORY = 1 << 30  # a whole number of GiB, which the help of --memory shows
_memory = DEFAULT_MEMORY


def limit_memory(size: int) -> None:
    """Hold at most this many bytes of files at addresses at once, from now on."""
    global _memory
    _memory = size


def memory_limit() -> int:
    """The bytes of files at addresses that this process may hold at once."""
    return _memory


def count_parallel_requests() -> int:
    """How many requests of a piece each wait together."""
    return max(1, min(_MOST_REQUESTS, _memory // thresholds.REMOTE_PIECE))


def choose_piece(size: int) -> int:
    """The bytes of each piece in which a file of that size is fetched or uploaded.

    A piece may be an eighth longer than the threshold, if a small last one is saved by that: it
    would take a round of requests by itself.
    """
    longest = thresholds.REMOTE_PIECE
    count = max(1, -(-(size - longest // 8) // longest))
    return max(1, -(-size // count))
