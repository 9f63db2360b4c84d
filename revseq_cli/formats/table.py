"""The table of formats. It loads no NumPy, since options name the formats.

A format is one row here and one module or package of this folder. Third parties cannot add formats: "bit for bit" would
then depend on code that is not tested here, and every command would run whatever else is installed.
"""

from __future__ import annotations

import functools
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from revseq_cli.formats.contract import FormatModule


class Format(NamedTuple):
    """One format: `name` is its name in options, `suffixes` are those of its files, `module` has its functions.

    A format without suffixes is never written; `read_only` has suffixes of files that are read, and never written.
    Behind a colon, `module` names an object in it that has them instead. With `names`, a file holds tensors by name.
    With `keeps_others`, an output in the input's format is a copy of the input's file. Formats with `is_text` are
    parsed whole, and those with `prints` can be written into a pipe.
    """

    name: str
    suffixes: tuple[str, ...]
    module: str
    names: bool = False
    keeps_others: bool = False
    is_text: bool = False
    prints: bool = False
    read_only: tuple[str, ...] = ()

    def load(self) -> FormatModule:
        """Its module, which is imported now, or the object in it."""
        module, _, name = self.module.partition(":")
        found = import_module(f"revseq_cli.formats.{module}")
        return cast("FormatModule", getattr(found, name) if name else found)


# From .nc on: NetCDF, AnnData, Loom, NeXus, NWB, EMD and HyperSpy, which are HDF5 files. MATLAB's .mat is left out,
# since MATLAB reads it only with an extra header.
_HDF5_SUFFIXES = (
    ".h5", ".hdf5", ".hdf", ".he5", ".nc", ".nc4", ".h5ad", ".loom", ".nxs", ".nwb", ".emd", ".hspy",
)  # fmt: skip
_NETCDF_SUFFIXES = (".nc", ".nc4")
_PAGES = (".markdown", ".text", ".rst", ".html", ".htm", ".xhtml")

NPY = Format("npy", (".npy",), "npy", prints=True)
HDF5 = Format("h5", _HDF5_SUFFIXES, "hdf5", names=True, keeps_others=True)
NPZ = Format("npz", (".npz",), "npz", names=True, keeps_others=True)
SAFETENSORS = Format("safetensors", (".safetensors",), "safetensors", names=True, keeps_others=True)
ZARR = Format("zarr", (".zarr", ".zspy"), "zarr", names=True, keeps_others=True)  # its files are folders
ONNX_MODEL = ".onnx"  # the suffix of a model, which is no tensor
# A tensor of ONNX can do without a name.
ONNX = Format("onnx", (".pb",), "onnx", names=True, prints=True)
JSON = Format("json", (".json",), "text:JSON", is_text=True, prints=True)
TEXT = Format("text", (".txt", ".md"), "text:TEXT", is_text=True, prints=True, read_only=_PAGES)
CSV = Format("csv", (".csv",), "text:CSV", is_text=True, prints=True)
RAW = Format("raw", (".bin", ".raw"), "raw", prints=True)  # elements alone: only the suffix says what it is
NETCDF3 = Format("nc3", (), "netcdf3", names=True)  # read by its first bytes, and never written
TSV = Format("tsv", (".tsv",), "text:TSV", is_text=True, prints=True)

FORMATS = (NPY, HDF5, NPZ, SAFETENSORS, ZARR, ONNX, RAW, JSON, TEXT, CSV, TSV, NETCDF3)
NAMES = tuple(each.name for each in FORMATS)


def written() -> tuple[Format, ...]:
    """The formats that are not only read."""
    return tuple(each for each in FORMATS if each.suffixes)


def suffix_to_write(name: str | None) -> str:
    """The suffix of an output in the format of that name; .npy without a name, and for a format that is only read."""
    return next((each.suffixes[0] for each in written() if each.name == name), NPY.suffixes[0])


def named(name: str | None) -> Format | None:
    """The format of that name, or None."""
    return next((each for each in FORMATS if each.name == name), None)


class Packing(NamedTuple):
    """A compression of whole files: `suffix` follows the format's own, `magic` has the first bytes of a file.

    `module` is Python's, `package` one on PyPI that has the same functions, and `unpack` the program that undoes it.
    """

    name: str
    suffix: str
    magic: tuple[bytes, ...]
    unpack: str
    module: str
    package: str = ""


# Zstandard may begin with a frame to skip, as pzstd writes it.
PACKINGS = (
    Packing("gzip", ".gz", (b"\x1f\x8b",), "gunzip", "gzip"),
    Packing(
        "zstd", ".zst", (b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18"), "unzstd", "compression.zstd", "backports.zstd",
    ),
    Packing("xz", ".xz", (b"\xfd7zXZ\0",), "unxz", "lzma"),
    Packing("bzip2", ".bz2", (b"BZh",), "bunzip2", "bz2"),
)  # fmt: skip


def is_netcdf(path: str) -> bool:
    """Whether it is the path of a NetCDF file, by its suffix."""
    return path.lower().endswith(_NETCDF_SUFFIXES)


def is_onnx_model(path: str) -> bool:
    """Whether it is the path of a model of ONNX, by its suffix."""
    return path.lower().endswith(ONNX_MODEL)


def packing_of(path: str) -> Packing | None:
    """The packing of a file's suffix, in any case of letters; None for another one."""
    return next((each for each in PACKINGS if path.lower().endswith(each.suffix)), None)


@functools.lru_cache(maxsize=64)  # a job asks some times for each of its files
def inner_suffix(path: str) -> str:
    """The suffix that says the format, in lower case: .npy of x.npy and of x.npy.gz."""
    packing = packing_of(path)
    return Path(path[: -len(packing.suffix)] if packing else path).suffix.lower()


def by_suffix(path: str, *, reading: bool = False) -> Format | None:
    """The format of a file's suffix, in any case of letters; None for one that is unknown, or never written."""
    suffix = inner_suffix(path)
    return next((each for each in FORMATS if suffix in each.suffixes + each.read_only * reading), None)
