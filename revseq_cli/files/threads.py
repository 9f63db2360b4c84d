"""Values that are made once in each thread of each process, since others cannot use them."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import TypeVar

_Value = TypeVar("_Value")


def thread_key() -> tuple[int, int]:
    """What tells this thread from all others, those of other processes among them."""
    return os.getpid(), threading.get_ident()


def once_per_thread(make: Callable[[], _Value]) -> Callable[[], _Value]:
    """A function that returns what `make` has made for this thread.

    A fork makes its own, and leaves its parent's as it is.
    """

    @functools.cache
    def make_for(_key: tuple[int, int]) -> _Value:
        return make()

    return functools.wraps(make)(lambda: make_for(thread_key()))
