"""What Wine 8 does otherwise than Windows, and how the tests step around it."""

import asyncio
import ctypes

IS_WINE = hasattr(ctypes.WinDLL("ntdll"), "wine_get_version")
_LONGEST_SLEEP = 0.2  # seconds


def wake_event_loops():
    """Let no event loop sleep for longer than that.

    Wine loses what wakes a loop from another thread once in some thousands of times, and the reader of the zarr library
    then waits for ever: of two that opened a store again and again, each hung within three minutes; so none did.
    """
    if not IS_WINE:
        return
    select = asyncio.IocpProactor.select
    asyncio.IocpProactor.select = lambda self, timeout=None: select(
        self, _LONGEST_SLEEP if timeout is None else min(timeout, _LONGEST_SLEEP)
    )


def goes_last(item):
    """Whether the test kills processes that have open connections, as those of dask do.

    Where one of them was in a poll, Wine's server polls its connection for ever, which takes half of all cores.
    """
    return item.path.name == "test_cluster.py"
