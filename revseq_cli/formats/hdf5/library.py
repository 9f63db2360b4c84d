"""The one way to h5py: HDF5's library starts as it would in an empty environment, and loads no code from folders.

When it starts, HDF5 heeds variables that load code (HDF5_VOL_CONNECTOR and HDF5_DRIVER, from HDF5_PLUGIN_PATH), that
crash the process where they name nothing, or that change how files are read. So every module imports h5py from here.
"""

from __future__ import annotations

import os
import sys

# A file system's locks are the user's to know, and the check of versions is one of h5py's installation.
_HEEDED = {"HDF5_USE_FILE_LOCKING", "HDF5_DISABLE_VERSION_CHECK"}


def _forget() -> list[str]:
    """Take HDF5's variables out of the environment, also for the processes that this one starts; a note of which."""
    names = sorted(name for name in os.environ if name.startswith("HDF5_") and name not in _HEEDED)
    for name in names:
        del os.environ[name]
    why = "not heeded, since it can load code or change how HDF5 files are read"
    return [f"the variable {name} is {why}" for name in names]


notes = [] if "h5py" in sys.modules else _forget()  # where h5py is already there, it is too late

import h5py  # noqa: E402 - only now

# The only filters are those that are built in, and those of the package hdf5plugin, which brings and registers its own.
for _ in range(h5py.h5pl.size()):
    h5py.h5pl.remove(0)

__all__ = ["h5py", "notes"]
