"""The table of formats, and what the first bytes of files say.

It loads no NumPy, since options name the formats.

A format is one row here and one module or package of this folder. Third parties cannot add formats:
"bit for bit" would then depend on code that is not tested here, and every command would run
whatever else is installed.
"""

from __future__ import annotations

import codecs
import functools
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from revseq_cli import files

if TYPE_CHECKING:
    from revseq_cli.files.base import InputFile
    from revseq_cli.formats.contract import FormatModule


class Format(NamedTuple):
    """One format.

    `name` is its name in options, `suffixes` are those of its files, `module` has its functions.

    A format without suffixes is never written; `read_only` has suffixes of files that are read, and
    never written. Behind a colon, `module` names an object in it that has them instead. With
    `names`, a file holds tensors by name. With `keeps_others`, an output in the input's format is a
    copy of the input's file. Formats with `is_text` are parsed whole, and those with `prints` can
    be written into a pipe.
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


# From .nc on: NetCDF, AnnData, Loom, NeXus, NWB, EMD and HyperSpy, which are HDF5 files. MATLAB's
# .mat is left out, since MATLAB reads it only with an extra header.
_HDF5_SUFFIXES = (
    ".h5", ".hdf5", ".hdf", ".he5", ".nc", ".nc4", ".h5ad", ".loom", ".nxs", ".nwb",
    ".emd", ".hspy",
)  # fmt: skip
_PAGES = (".markdown", ".text", ".rst", ".html", ".htm", ".xhtml")

NPY = Format("npy", (".npy",), "npy", prints=True)
HDF5 = Format("h5", _HDF5_SUFFIXES, "hdf5.format", names=True, keeps_others=True)
NPZ = Format("npz", (".npz",), "npz", names=True, keeps_others=True)
SAFETENSORS = Format("safetensors", (".safetensors",), "safetensors", names=True, keeps_others=True)
ZARR = Format(
    "zarr", (".zarr", ".zspy"), "zarr.format", names=True, keeps_others=True
)  # its files are folders
# A tensor of ONNX can do without a name.
ONNX = Format("onnx", (".pb",), "onnx", names=True, prints=True)
JSON = Format("json", (".json",), "text:JSON", is_text=True, prints=True)
TEXT = Format("text", (".txt", ".md"), "text:TEXT", is_text=True, prints=True, read_only=_PAGES)
CSV = Format("csv", (".csv",), "text:CSV", is_text=True, prints=True)
# Only the suffix of a raw buffer says what it is.
RAW = Format("raw", (".bin", ".raw"), "buffers", prints=True)
NETCDF3 = Format("nc3", (), "netcdf3", names=True)  # read by its first bytes, and never written
TSV = Format("tsv", (".tsv",), "text:TSV", is_text=True, prints=True)

FORMATS = (NPY, HDF5, NPZ, SAFETENSORS, ZARR, ONNX, RAW, JSON, TEXT, CSV, TSV, NETCDF3)
NAMES = tuple(row.name for row in FORMATS)


def list_outputs() -> tuple[Format, ...]:
    """The formats that are not only read."""
    return tuple(row for row in FORMATS if row.suffixes)


def suffix_to_write(name: str | None) -> str:
    """The suffix of an output in the format of that name.

    .npy without a name, and for a format that is only read.
    """
    return next((row.suffixes[0] for row in list_outputs() if row.name == name), NPY.suffixes[0])


def by_name(name: str | None) -> Format | None:
    """The format of that name, or None."""
    return next((row for row in FORMATS if row.name == name), None)


class Compression(NamedTuple):
    """A compression of whole files.

    `suffix` follows the format's own, `magic` has the first bytes of a file.

    `module` is Python's, `package` one on PyPI that has the same functions, and `program` the one
    that undoes it.
    """

    name: str
    suffix: str
    magic: tuple[bytes, ...]
    program: str
    module: str
    package: str = ""


# Zstandard may begin with a frame to skip, as pzstd writes it.
COMPRESSIONS = (
    Compression("gzip", ".gz", (b"\x1f\x8b",), "gunzip", "gzip"),
    Compression(
        "zstd", ".zst", (b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18"),
        "unzstd", "compression.zstd", "backports.zstd",
    ),
    Compression("xz", ".xz", (b"\xfd7zXZ\0",), "unxz", "lzma"),
    Compression("bzip2", ".bz2", (b"BZh",), "bunzip2", "bz2"),
)  # fmt: skip


# Suffixes


def is_netcdf(path: str) -> bool:
    """Whether it is the path of a NetCDF file, by its suffix."""
    return path.lower().endswith((".nc", ".nc4"))


def find_compression(path: str) -> Compression | None:
    """The compression of a file's suffix, in any case of letters; None for another one."""
    lowered = path.lower()
    for compression in COMPRESSIONS:
        if lowered.endswith(compression.suffix):
            return compression
    return None


def inner_suffix(path: str) -> str:
    """The suffix that says the format, in lower case: .npy of x.npy and of x.npy.gz."""
    compression = find_compression(path)
    return Path(path[: -len(compression.suffix)] if compression else path).suffix.lower()


@functools.lru_cache(maxsize=64)  # a job asks some 14 times
def by_suffix(path: str, *, reading: bool = False) -> Format | None:
    """The format of a file's suffix, in any case of letters.

    None for one that is unknown, or never written.
    """
    suffix = inner_suffix(path)
    return next(
        (row for row in FORMATS if suffix in row.suffixes or (reading and suffix in row.read_only)),
        None,
    )


# First bytes


class Kind(NamedTuple):
    """What a file is by its first bytes.

    Its name, the format that reads it or its compression, or what to do instead.
    """

    magic: tuple[bytes, ...]
    name: str
    format: Format | None = None
    advice: str = ""
    compression: Compression | None = None


NPY_MAGIC, HDF5_MAGIC, ZIP_MAGIC = b"\x93NUMPY", b"\x89HDF\r\n\x1a\n", b"PK\x03\x04"
_KINDS = (
    Kind((NPY_MAGIC,), "a .npy file", NPY),
    Kind((HDF5_MAGIC,), "an HDF5 file", HDF5),
    Kind((ZIP_MAGIC,), "a zip archive, perhaps .npz", NPZ),
    Kind((b"CDF\x01", b"CDF\x02", b"CDF\x05"), "a NetCDF-3 file, which is not HDF5", NETCDF3),
    Kind(
        (b"\x0e\x03\x13\x01",),
        "an HDF4 file, which is not HDF5",
        advice="make it HDF5, as h4toh5 does",
    ),
    Kind(
        (b"MATLAB 5.0 MAT-file",),
        "a MATLAB file of before 7.3",
        advice="save it with -v7.3, which is HDF5",
    ),
    Kind(
        (b"version https://git-lfs",),
        "a git-LFS pointer, not the file itself",
        advice="git lfs pull",
    ),
    *(Kind(row.magic, f"a {row.name} file", compression=row) for row in COMPRESSIONS),
    Kind((b"PAR1",), "a Parquet file", advice="save its columns as .csv or .npy, as pandas does"),
    Kind(
        (b"ARROW1", b"FEA1"),
        "an Arrow file",
        advice="save its columns as .csv or .npy, as pandas does",
    ),
    Kind(
        (b"RIFF", b"RF64"),
        "a WAV file",
        advice="save its samples as .npy, as scipy.io.wavfile.read returns them",
    ),
    Kind((b"GRIB",), "a GRIB file", advice="make it NetCDF: grib_to_netcdf -o new.nc"),
    Kind((b"\x80",), "a Python pickle", advice="save it again with numpy.save"),
)
_TEXT, _JSON = Kind((b"[",), "text", TEXT), Kind((b"{",), "JSON text", JSON)
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


def encoding_by_mark(head: bytes) -> tuple[str, bytes]:
    """The encoding of a text with these first bytes, by Python's name, and the mark that tells it.

    Else UTF-8.
    """
    return next(
        ((name, mark) for mark, name in _MARKS.items() if head.startswith(mark)), ("utf-8", b"")
    )


def kind_of(head: bytes) -> Kind | None:
    """The kind of a file with these first bytes; None where they say nothing."""
    if kind := next((kind for kind in _KINDS if head.startswith(kind.magic)), None):
        return kind
    encoding, mark = encoding_by_mark(head)
    return {"[": _TEXT, "{": _JSON}.get(head[len(mark) :].decode(encoding, "replace").lstrip()[:1])


def looks_like(head: bytes) -> tuple[str, str]:
    """What a file with these first bytes seems to be, and a hint; for messages only."""
    kind = kind_of(head)
    if kind is None:
        return ("something else" if head else "an empty file"), ""
    if kind.compression:
        return kind.name, f"unpack it: {kind.compression.program} -c"
    return (
        kind.name,
        f"to read it as that, add --input-format {kind.format.name}"
        if kind.format
        else kind.advice,
    )


def is_hdf5(fd: InputFile) -> bool:
    """Whether HDF5 begins at the first byte of the open file, or after a user block.

    The user block has 512 bytes, or that times a power of two, and may hold anything, even a text.
    """
    # At an address, each offset is a request.
    end = fd.identity.size if fd.path else min(fd.identity.size, (1 << 16) + 1)
    offset = 0
    while offset < end:
        if fd.read(len(HDF5_MAGIC), offset) == HDF5_MAGIC:
            return True
        offset = 2 * offset or 512
    return False


STORE_FILES = ("zarr.json", ".zarray", ".zgroup")


def is_store(folder: str) -> bool:
    """Whether the folder has metadata of Zarr's, for an array or a group."""
    return files.has_any(folder, STORE_FILES)
