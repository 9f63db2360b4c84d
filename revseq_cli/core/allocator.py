"""Settings of the C library's memory allocator."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # parameters of glibc's mallopt
_LARGEST_KEPT = 1 << 25  # bytes; the highest threshold that glibc accepts
_USUAL = 1 << 17  # bytes of both thresholds in glibc, if nothing else is said
_SAID = "MALLOC_TRIM_THRESHOLD_"  # an environment variable of glibc's, which dask sets for its workers


def keep_freed() -> None:
    """Let glibc keep freed memory for the next arrays; with another C library nothing changes.

    By default glibc returns each array of some MiB to the system, which clears every page before the next array gets
    it: 1 GiB in memory took 1.6 times as long on one core and on two, and 2 GiB 1.15 times on eight. The process never
    keeps more than it had in use at once.
    """
    _set(_LARGEST_KEPT, 1 << 30)


@contextlib.contextmanager
def keeping_freed() -> Iterator[None]:
    """The same, inside the context, in a process that does other work too."""
    keep_freed()
    try:
        yield
    finally:
        said = os.environ.get(_SAID, "")
        _set(_USUAL, int(said) if said.isdecimal() else _USUAL)


def _set(mmap_threshold: int, trim_threshold: int) -> None:
    mallopt = _mallopt() if sys.platform == "linux" else None
    if mallopt:
        mallopt(_MMAP_THRESHOLD, mmap_threshold)
        mallopt(_TRIM_THRESHOLD, trim_threshold)


@functools.cache
def _mallopt() -> Any:  # noqa: ANN401 - a function of C
    """The C library's function; None for one without it, as musl."""
    import ctypes  # costs 5 ms, and --help must not pay for it

    with contextlib.suppress(AttributeError, OSError):
        return ctypes.CDLL(None).mallopt
    return None
