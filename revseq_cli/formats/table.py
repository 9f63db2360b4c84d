"""The table of formats, and what the first bytes of files say.

A format is one row here and one module or package of this folder. A `FileKind` is what first bytes
say: a format, a compression of a whole file, or a file that is not read.

Third parties cannot add formats: "bit for bit" would then depend on code that is not tested here,
and every command would run whatever else is installed. The table loads no NumPy, since options name
the formats.
"""

from __future__ import annotations

import codecs
import functools
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from revseq_cli import files
from revseq_cli.files.address import STORE_FILES

if TYPE_CHECKING:
    from revseq_cli.files.input_file import InputFile
    from revseq_cli.formats.contract import FormatModule


class Format(NamedTuple):
    """One format."""

    name: str  # in options
    suffixes: tuple[str, ...]  # of its files; a format without suffixes can only be read
    module: str  # in this folder, with the functions of a FormatModule: "module", "module:object"
    has_names: bool = False  # whether tensors in a file have names
    can_list: bool = False  # whether a file may hold several tensors, which `contents` lists
    has_groups: bool = False  # whether these are in groups, which have names, too
    keeps_others: bool = False  # whether an output can be a copy of INPUT's file
    is_text: bool = False  # whether a file is parsed as a whole
    can_print: bool = False  # whether it can be written into a pipe
    read_only: tuple[str, ...] = ()  # suffixes of more files that are read, but not written

    def load(self) -> FormatModule:
        """Its module, which is imported now, or the object in it."""
        module_name, _, object_name = self.module.partition(":")
        module = import_module(f"revseq_cli.formats.{module_name}")
        if object_name:
            return cast("FormatModule", getattr(module, object_name))
        return cast("FormatModule", module)


# From .nc on: NetCDF, AnnData, Loom, NeXus, NWB, EMD and HyperSpy, which are HDF5 files. MATLAB's
# .mat is left out, since MATLAB reads it only with an extra header.
_HDF5_SUFFIXES = (
    ".h5", ".hdf5", ".hdf", ".he5", ".nc", ".nc4", ".h5ad", ".loom", ".nxs", ".nwb",
    ".emd", ".hspy",
)  # fmt: skip
_PAGES = (".markdown", ".text", ".rst", ".html", ".htm", ".xhtml")

NPY = Format("npy", (".npy",), "npy", can_print=True)
HDF5 = Format(
    "h5", _HDF5_SUFFIXES, "hdf5",
    has_names=True, can_list=True, has_groups=True, keeps_others=True,
)  # fmt: skip
NPZ = Format("npz", (".npz",), "npz", has_names=True, can_list=True, keeps_others=True)
SAFETENSORS = Format(
    "safetensors", (".safetensors",), "safetensors",
    has_names=True, can_list=True, keeps_others=True,
)  # fmt: skip
# A store of Zarr is a folder.
ZARR = Format(
    "zarr", (".zarr", ".zspy"), "zarr",
    has_names=True, can_list=True, has_groups=True, keeps_others=True,
)  # fmt: skip
# A file holds one tensor, which may have a name.
ONNX = Format("onnx", (".pb",), "onnx.tensors", has_names=True, can_print=True)
JSON = Format("json", (".json",), "text:JSON", is_text=True, can_print=True)
TEXT = Format(
    "text", (".txt", ".md"), "text:TEXT",
    can_list=True, is_text=True, can_print=True, read_only=_PAGES,
)  # fmt: skip
CSV = Format("csv", (".csv",), "text:CSV", is_text=True, can_print=True)
# Only the suffix of a raw buffer says what it is.
RAW = Format("raw", (".bin", ".raw"), "raw", can_print=True)
# NetCDF-3 has the suffix .nc, too, but is known by its first bytes, and only read.
NETCDF3 = Format("nc3", (), "netcdf3", has_names=True, can_list=True)
TSV = Format("tsv", (".tsv",), "text:TSV", is_text=True, can_print=True)

FORMATS = (NPY, HDF5, NPZ, SAFETENSORS, ZARR, ONNX, RAW, JSON, TEXT, CSV, TSV, NETCDF3)
NAMES = tuple(row.name for row in FORMATS)


def list_outputs() -> tuple[Format, ...]:
    """The formats that are not only read."""
    return tuple(row for row in FORMATS if row.suffixes)


def choose_suffix(name: str | None) -> str:
    """The suffix of an output in the format of that name, or .npy if it cannot be written."""
    for row in list_outputs():
        if row.name == name:
            return row.suffixes[0]
    return NPY.suffixes[0]


def by_name(name: str | None) -> Format | None:
    """The format of that name, or None."""
    return next((row for row in FORMATS if row.name == name), None)


class Compression(NamedTuple):
    """A compression of whole files."""

    name: str
    suffix: str  # which follows that of the format
    magic: tuple[bytes, ...]  # the first bytes of a file, one of these
    program: str  # the one that decompresses files
    module: str  # Python's
    package: str = ""  # one on PyPI with the same functions, for a Python without the module


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


def has_netcdf_suffix(path: str) -> bool:
    """Whether it is the path of a NetCDF file, by its suffix."""
    return path.lower().endswith((".nc", ".nc4"))


def find_compression(path: str) -> Compression | None:
    """The compression of a file's suffix, or None."""
    lowered = path.lower()
    for compression in COMPRESSIONS:
        if lowered.endswith(compression.suffix):
            return compression
    return None


def find_suffix(path: str) -> str:
    """The suffix that says the format, in lower case: .npy of x.npy and of x.npy.gz."""
    compression = find_compression(path)
    if compression:
        path = path[: -len(compression.suffix)]
    return Path(path).suffix.lower()


@functools.lru_cache(maxsize=64)  # a job asks some 14 times
def by_suffix(path: str, *, reading: bool = False) -> Format | None:
    """The format of a file's suffix, or None; with `reading`, also of one that is only read."""
    suffix = find_suffix(path)
    for row in FORMATS:
        if suffix in row.suffixes:
            return row
        if reading and suffix in row.read_only:
            return row
    return None


# First bytes


class FileKind(NamedTuple):
    """What kind of file begins with one of these sequences of bytes."""

    magic: tuple[bytes, ...]
    name: str
    format: Format | None = None  # the one that reads it
    advice: str = ""  # what to do with it if none reads it
    compression: Compression | None = None


NPY_MAGIC = b"\x93NUMPY"
HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
ZIP_MAGIC = b"PK\x03\x04"
_KINDS = (
    FileKind((NPY_MAGIC,), "a .npy file", NPY),
    FileKind((HDF5_MAGIC,), "an HDF5 file", HDF5),
    FileKind((ZIP_MAGIC,), "a zip archive, perhaps .npz", NPZ),
    FileKind((b"CDF\x01", b"CDF\x02", b"CDF\x05"), "a NetCDF-3 file, which is not HDF5", NETCDF3),
    FileKind(
        (b"\x0e\x03\x13\x01",),
        "an HDF4 file, which is not HDF5",
        advice="make it HDF5, as h4toh5 does",
    ),
    FileKind(
        (b"MATLAB 5.0 MAT-file",),
        "a MATLAB file of before 7.3",
        advice="save it with -v7.3, which is HDF5",
    ),
    FileKind(
        (b"version https://git-lfs",),
        "a git-LFS pointer, not the file itself",
        advice="git lfs pull",
    ),
    *(FileKind(row.magic, f"a {row.name} file", compression=row) for row in COMPRESSIONS),
    FileKind(
        (b"PAR1",), "a Parquet file", advice="save its columns as .csv or .npy, as pandas does"
    ),
    FileKind(
        (b"ARROW1", b"FEA1"),
        "an Arrow file",
        advice="save its columns as .csv or .npy, as pandas does",
    ),
    FileKind(
        (b"RIFF", b"RF64"),
        "a WAV file",
        advice="save its samples as .npy, as scipy.io.wavfile.read returns them",
    ),
    FileKind((b"GRIB",), "a GRIB file", advice="make it NetCDF: grib_to_netcdf -o new.nc"),
    FileKind((b"\x80",), "a Python pickle", advice="save it again with numpy.save"),
)
_TEXT = FileKind((b"[",), "text", TEXT)
_JSON = FileKind((b"{",), "JSON text", JSON)
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


def find_encoding(head: bytes) -> tuple[str, bytes]:
    """The encoding of a text with these first bytes, by Python's name, and the mark that tells it.

    A text without a mark is UTF-8.
    """
    for mark, encoding in _MARKS.items():
        if head.startswith(mark):
            return encoding, mark
    return "utf-8", b""


def find_kind(head: bytes) -> FileKind | None:
    """The kind of a file with these first bytes; None if they say nothing."""
    for kind in _KINDS:
        if head.startswith(kind.magic):
            return kind
    encoding, mark = find_encoding(head)
    text = head[len(mark) :].decode(encoding, "replace").lstrip()
    if text.startswith("["):
        return _TEXT
    if text.startswith("{"):
        return _JSON
    return None


def describe_head(head: bytes) -> tuple[str, str]:
    """What a file with these first bytes seems to be, and a hint; for messages only."""
    kind = find_kind(head)
    if not head:
        return "an empty file", ""
    if kind is None:
        return "something else", ""
    hint = kind.advice
    if kind.compression:
        hint = f"unpack it: {kind.compression.program} -c"
    if kind.format:
        hint = f"to read it as that, add --input-format {kind.format.name}"
    return kind.name, hint


_MOST_HEADER_BYTES = 1 << 40  # of safetensors; its own limit is 100 MB


def is_safetensors(head: bytes, most: int = _MOST_HEADER_BYTES) -> bool:
    """Whether a file begins with the length of a header, of `most` bytes, and its first brace.

    The first eight characters of a text would be a larger length.
    """
    return head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= most


def is_hdf5(fd: InputFile) -> bool:
    """Whether HDF5 begins at the first byte of the open file, or after a user block.

    The user block has 512 bytes, or that times a power of two, and may hold anything, even a text.
    """
    end = fd.identity.size
    is_remote = not fd.path
    if is_remote:  # each offset is a request
        end = min(end, (1 << 16) + 1)
    offset = 0
    while offset < end:
        if fd.read(len(HDF5_MAGIC), offset) == HDF5_MAGIC:
            return True
        offset = 2 * offset or 512
    return False


def is_store(folder: str) -> bool:
    """Whether the folder has metadata of Zarr's, for an array or a group."""
    return files.has_any(folder, STORE_FILES)
