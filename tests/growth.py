"""How the time of something grows with its size, whatever the machine is and whoever else works on it."""

import os
import time

_LEAST = 0.1 if os.name == "nt" else 0  # seconds: Windows counts the processor's time in steps of a 64th


def is_linear(work, size):
    """Whether eight times the size takes not many more than eight times the processor's time; quadratic is 64 times."""
    small = min(_seconds(work, size) for _ in range(3))
    while small < _LEAST:
        size, small = 2 * size, _seconds(work, 2 * size)
    return _seconds(work, 8 * size) < 24 * small or _seconds(work, 8 * size) < 24 * small


def _seconds(work, size):
    began = time.process_time()
    work(size)
    return time.process_time() - began
