"""The one way to h5py: every module imports it from here, so that HDF5 starts without its environment variables.

Some of them load code (HDF5_VOL_CONNECTOR and HDF5_DRIVER, from HDF5_PLUGIN_PATH), some crash the process where they
name nothing, and others change how files are read. HDF5 reads them once, when it is loaded.
"""

from __future__ import annotations

import os
import sys

# Variables that stay: the user knows whether a file system has locks, and the check of versions is about h5py itself.
_KEPT = {"HDF5_USE_FILE_LOCKING", "HDF5_DISABLE_VERSION_CHECK"}


def _forget() -> list[str]:
    """Remove HDF5's variables from the environment of this process and of those that it starts; a note on each."""
    names = sorted(name for name in os.environ if name.startswith("HDF5_") and name not in _KEPT)
    for name in names:
        del os.environ[name]
    why = "ignored, since it can load code or change how HDF5 files are read"
    return [f"the variable {name} is {why}" for name in names]


notes = [] if "h5py" in sys.modules else _forget()  # if h5py is loaded, HDF5 has read them already

import h5py  # noqa: E402 - after the variables are removed

# HDF5 looks for filters in no folder: there are those that are built in, and those that hdf5plugin registers.
for _ in range(h5py.h5pl.size()):
    h5py.h5pl.remove(0)

__all__ = ["h5py", "notes"]
