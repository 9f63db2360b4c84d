"""What the C library does with freed memory: the one module that speaks to it."""

from __future__ import annotations

import contextlib
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's names for mallopt
_LARGEST_KEPT = 1 << 25  # the most that glibc takes


def keep_freed() -> None:
    """Keep freed blocks for the next ones, where the C library is glibc.

    By default it gives every array of some MiB back to the system, which clears it page by page before the next array
    may have it: that took as long as the reversal. What is kept is never more than what was in use at once.
    """
    if sys.platform == "linux":
        import ctypes  # costs 5 ms, and --help must not pay for it

        with contextlib.suppress(AttributeError, OSError):  # musl has no mallopt
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)
            mallopt(_TRIM_THRESHOLD, 1 << 30)
