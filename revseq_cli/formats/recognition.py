"""What a file is by its first bytes, and what to type if neither they nor its suffix tell."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from revseq_cli import files
from revseq_cli.core import platform
from revseq_cli.core.errors import FormatError, RevseqError, TensorIOError, nearest, nearest_name
from revseq_cli.formats import table
from revseq_cli.formats.contract import Head
from revseq_cli.formats.npy import HEAD_BYTES
from revseq_cli.formats.refusals import propose_keys, propose_names
from revseq_cli.formats.table import HDF5, NPY, ZARR, Compression, Format, by_suffix

_USUAL = (
    ".npy", ".npz", ".h5", ".nc", ".safetensors", ".zarr", ".json", ".txt", ".csv", ".tsv", ".pb",
    ".bin",
)  # fmt: skip
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?", re.ASCII)
_MOST_LOOKED_AT = 5000  # names of a folder, to find one like the name of a missing file


@dataclass(frozen=True)
class Recognition:
    """What a file is by its first bytes; a format that they do not show is None.

    Of a .npy file, the first bytes are in `head`: they have the header, so that the file is not
    opened again.
    """

    format: Format | None = None
    compression: Compression | None = None
    head: Head | None = None


def recognize(path: str, *, is_folder: bool) -> Recognition:
    """What a file or a folder is; FormatError for a kind of file that no format reads."""
    if is_folder:
        row = ZARR if table.is_store(path) else None
        return Recognition(row)
    with files.open_file(path) as fd:
        head = fd.read(64, 0)
        if table.is_safetensors(head, fd.identity.size - 8):
            return Recognition(table.SAFETENSORS)
        kind = table.find_kind(head)
        if kind is not None and kind.format is NPY:
            return Recognition(NPY, head=Head(fd.identity, fd.read(HEAD_BYTES, 0)))
        if table.is_hdf5(fd):
            return Recognition(HDF5)
    if kind is None:
        return Recognition()
    if kind.format:
        return Recognition(kind.format)
    if kind.compression:
        return Recognition(_find_compressed_format(path, kind.compression), kind.compression)
    found = f"not a tensor file: it looks like {kind.name}"
    raise FormatError(found, "a tensor file", kind.advice, path)


def _find_compressed_format(path: str, compression: Compression) -> Format | None:
    """The format of the content of a compressed file.

    FormatError for a content that is not read from a compressed file.
    """
    # Few files are compressed.
    from revseq_cli.formats.compressed import decompress, propose_decompression

    kind = table.find_kind(next(decompress(path, compression), b""))
    if kind is None:
        return None
    row = kind.format
    if row is NPY:
        return row
    if row and row.is_text:
        return row
    found = f"{kind.name}, compressed by {compression.name}"
    raise FormatError(found, ".npy or text", propose_decompression(compression, path), path)


def is_tensor_folder(path: str) -> bool:
    """Whether it is a folder, or the address of a Zarr store: a web server lists no files."""
    return files.is_folder(path, assumed=by_suffix(path) is ZARR)


def make_format_error(path: str, key: str | None, option: str = "--input-format") -> RevseqError:
    """The error for a file of which nothing says which format it has.

    `key` is what was typed after ::, and `option` the one that says the format.
    """
    if is_tensor_folder(path):
        return TensorIOError("a folder", "a tensor file", where=path)
    if path.lower().endswith(".onnx"):
        return FormatError("is an ONNX model", "a tensor, such as x.pb", where=path)
    file, _, name = path.rpartition(":")
    if by_suffix(file) and not key:
        found = "a tensor's name follows two colons"
        return FormatError(found, "", propose_keys(file, name), path)
    suffix = table.find_suffix(path)
    usual = nearest(suffix, _USUAL, 0.75) if suffix else ""
    examples = usual or ".npy, .h5, .nc, .npz, .zarr or .txt"
    found = f"has the unknown suffix {suffix}" if suffix else "has no suffix"
    expected = f"one such as {examples}: revseq help formats lists all"
    hint = f"to say what it is, for example .npy, add {option} npy"
    return FormatError(found, expected, hint, path)


def propose_for_missing_file(path: str, key: str | None) -> str:
    """What to type for a file that is not there.

    The path may be numbers without brackets, lack one of two colons, or be close to another name.
    """
    numbers = path.replace(",", " ").split()
    if len(numbers) > 1 and all(map(_NUMBER.fullmatch, numbers)):
        tensor = ", ".join(numbers)
        return f"to use these numbers, type {platform.quote(f'[{tensor}]')}"
    file, _, name = path.rpartition(":")
    if name and os.path.exists(file):
        return propose_keys(file, name)
    names = _find_names_like(Path(path))
    ending = f"::{key}" if key else ""
    return propose_names([f"{Path(path).with_name(near)}{ending}" for near in names])


def _find_names_like(path: Path) -> Sequence[str]:
    """The names in the folder that differ only in case or by a suffix, or else the nearest one."""
    entries = itertools.islice(path.parent.glob("*"), _MOST_LOOKED_AT)
    names = [entry.name for entry in entries]
    folded = path.name.casefold()
    same = [name for name in names if folded in (name.casefold(), Path(name).stem.casefold())]
    if same or not path.suffix:
        return sorted(same)
    near = nearest_name(path.name, names, 0.8)
    return [near] if near else []
