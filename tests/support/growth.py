"""How the time of something grows with its size, whatever the machine is and whoever else works on it."""

import gc
import os
import time

_LEAST = (
    0.05 if os.name == "nt" else 0
)  # seconds: Windows counts the processor's time in steps of a 64th


def is_linear(work, size):
    """Whether eight times the size takes not many more than eight times the processor's time; quadratic is 64 times."""
    gc.collect()
    gc.disable()  # it would look through all that the other tests have left
    try:
        times = 1
        while (small := min(_seconds(work, size, times) for _ in range(3))) < _LEAST:
            times *= 2
        return any(
            _seconds(work, 8 * size, times) < 24 * small for _ in range(5)
        )  # others may slow some of them
    finally:
        gc.enable()


def _seconds(work, size, times):
    began = time.process_time()
    for _ in range(times):
        work(size)
    return time.process_time() - began
