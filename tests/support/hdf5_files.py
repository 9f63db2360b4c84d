"""HDF5 files with properties that h5py has no function for, made through the HDF5 library that h5py itself has loaded."""

import ctypes
from pathlib import Path

import h5py
import pytest

DONT_FILTER_PARTIAL_CHUNKS = 2


def loaded_hdf5():
    """The HDF5 library that h5py has loaded in this process; the test is skipped where that cannot be found."""
    if (library := Path(h5py.__file__).with_name("hdf5.dll")).exists():
        return ctypes.CDLL(str(library))
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("which HDF5 library h5py has loaded is read from /proc, which is Linux's")
    lines = maps.read_text().splitlines()
    paths = {line.split()[-1] for line in lines if "/libhdf5-" in line or line.endswith("/libhdf5.so")}
    paths = {path for path in paths if "/h5py" in path} or paths  # other packages bring one of their own
    if len(paths) != 1:
        pytest.skip("which HDF5 library is h5py's cannot be told")
    return ctypes.CDLL(paths.pop())


def set_chunk_options(properties, options):
    """H5Pset_chunk_opts, which h5py lacks."""
    assert loaded_hdf5().H5Pset_chunk_opts(ctypes.c_int64(properties.id), ctypes.c_uint(options)) >= 0


def chunk_options(properties):
    """H5Pget_chunk_opts, which h5py lacks."""
    found = ctypes.c_uint()
    assert loaded_hdf5().H5Pget_chunk_opts(ctypes.c_int64(properties.id), ctypes.byref(found)) >= 0
    return found.value


def create(file, name, kind, shape, properties, maxshape=None):
    """A dataset from low-level properties."""
    space = h5py.h5s.create_simple(shape, maxshape)
    return h5py.Dataset(h5py.h5d.create(file.id, name.encode(), h5py.h5t.py_create(kind), space, properties))
