"""Settings of the C library's memory allocator."""

from __future__ import annotations

import contextlib
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # parameters of glibc's mallopt
_LARGEST_KEPT = 1 << 25  # bytes; the highest threshold that glibc accepts


def keep_freed() -> None:
    """Let glibc keep freed memory for the next arrays; with another C library nothing changes.

    By default glibc returns each array of some MiB to the system, which clears every page before the next array gets
    it: that took as long as the reversal. The process never keeps more than it had in use at once.
    """
    if sys.platform == "linux":
        import ctypes  # costs 5 ms, and --help must not pay for it

        with contextlib.suppress(AttributeError, OSError):  # musl has no mallopt
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)
            mallopt(_TRIM_THRESHOLD, 1 << 30)
