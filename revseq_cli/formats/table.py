"""The table of formats. It loads no NumPy, since options name the formats.

A format is one row here and one module, or one package, of this folder. Third parties cannot add formats: "bit for
bit" would then depend on code that is not tested here, and every command would run whatever is installed beside it.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from revseq_cli.formats.contract import FormatModule


class Format(NamedTuple):
    """One format: `name` is what -f calls it, `suffixes` are those of its files, `module` has its functions.

    With `names`, a file holds tensors by name, and `unnamed` is what a new one is called where nobody says. With
    `is_folder`, a file of it is a folder to the system. `has_layout` says whether chunks and a compression can be
    chosen, and `keeps_others` whether a new file can be the input's with one tensor replaced. `is_text` formats are
    parsed whole, and `prints` says whether a tensor can be written to a pipe; the one that `is_shown` is printed where
    nobody asks for another, shortened and with marks on a terminal.
    """

    name: str
    suffixes: tuple[str, ...]
    module: str
    names: bool = False
    unnamed: str = "tensor"
    is_folder: bool = False
    has_layout: bool = False
    keeps_others: bool = False
    is_text: bool = False
    prints: bool = False
    is_shown: bool = False

    def load(self) -> FormatModule:
        """Its module, which is imported now."""
        return cast("FormatModule", import_module(f"revseq_cli.formats.{self.module}"))


# The last ones are those of fields that have HDF5 under a name of their own: NetCDF, AnnData, Loom, NeXus, NWB, EMD and
# HyperSpy. MATLAB's .mat is not among them, since it needs a header of its own to be read there.
_HDF5_SUFFIXES = (
    ".h5", ".hdf5", ".hdf", ".he5", ".nc", ".nc4", ".h5ad", ".loom", ".nxs", ".nwb", ".emd", ".hspy",
)  # fmt: skip

NPY = Format("npy", (".npy",), "npy", prints=True)
HDF5 = Format("h5", _HDF5_SUFFIXES, "hdf5.format", names=True, has_layout=True, keeps_others=True)
NPZ = Format("npz", (".npz",), "npz", names=True, keeps_others=True)
SAFETENSORS = Format("safetensors", (".safetensors",), "safetensors", names=True, keeps_others=True)
# An array may be the store itself, and so needs no name.
ZARR = Format("zarr", (".zarr", ".zspy"), "zarr.format", names=True, unnamed="", is_folder=True, keeps_others=True)
JSON = Format("json", (".json",), "json", is_text=True, prints=True)
TEXT = Format("text", (".txt", ".md"), "text", is_text=True, prints=True, is_shown=True)

FORMATS = (NPY, HDF5, NPZ, SAFETENSORS, ZARR, JSON, TEXT)
NAMES = tuple(each.name for each in FORMATS)


def named(name: str | None) -> Format | None:
    """The format of that name."""
    return next((each for each in FORMATS if each.name == name), None)


def by_suffix(path: str) -> Format | None:
    """The format that the suffix of a file says."""
    suffix = Path(path).suffix.lower()
    return next((each for each in FORMATS if suffix in each.suffixes), None)
