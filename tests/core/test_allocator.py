"""Settings of the C library's allocator, seen in what they do: pages that the system clears for arrays."""

import ctypes
import json
import os
import platform
import subprocess
import sys
from types import SimpleNamespace

import pytest

from revseq_cli.core import allocator

# Faults of 64 arrays of 1 MiB, one after another: before, inside, and after the context.
CODE = """
import contextlib, json, resource
import numpy as np
from revseq_cli.core import allocator

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(64):
        np.ones(1 << 20, np.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

np.ones(1 << 20, np.uint8)
found = [faults()]
with contextlib.suppress(OSError), allocator.keeping_freed():
    found.append(faults())
    raise OSError
print(json.dumps([*found, faults()]))
"""


@pytest.mark.needs("peak")
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library keeps its settings")
def test_freed_memory_is_kept_inside_the_context_alone():
    """As in a worker of dask's, which sets the variable, and has other work after ours."""
    env = os.environ | {"MALLOC_TRIM_THRESHOLD_": "65536"}
    done = subprocess.run([sys.executable, "-c", CODE], env=env, capture_output=True, text=True, check=True)
    before, inside, after = json.loads(done.stdout)
    assert inside < before / 8
    assert inside < after / 8


@pytest.mark.parametrize("library", [OSError("Dynamic loading not supported"), SimpleNamespace()])
def test_a_c_library_without_settings_changes_nothing(monkeypatch, library):
    """A Python that loads no libraries, and a C library without the function."""

    def load(_):
        if isinstance(library, OSError):
            raise library
        return library

    monkeypatch.setattr(ctypes, "CDLL", load)
    allocator._mallopt.cache_clear()
    allocator.keep_freed()
    assert allocator._mallopt() is None
    allocator._mallopt.cache_clear()
