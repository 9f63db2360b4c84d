"""How HDF5 stores a tensor: dtypes, elements, filters, and encoded chunks.

HDF5 is told that elements have the file's own type in memory. So it converts nothing, and no bit
changes: bitfields, enumerations and complex numbers are read and written as words of their size.
Only integers with fewer bits than their bytes are converted, to plain ones.

Workers encode chunks by HDF5 itself, in a file in memory. The parent stores the bytes as they are.
"""

from __future__ import annotations

import functools
import io
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
from h5py import h5p, h5s, h5t, h5z
from numpy.typing import NDArray

from revseq_cli.core import dtypes, platform, signals
from revseq_cli.core.errors import FormatError, join_names
from revseq_cli.core.tensors import (
    DataType,
    Region,
    chunk_boxes,
    in_braces,
    inside,
    sizes_of,
    split_chunks,
)
from revseq_cli.formats.refusals import require_whole_frame

# Held while values are read and written: workers of dask have several threads, and some functions
# of h5py take no lock.
LOCK = threading.RLock()

# Types

# Floats that NumPy lacks and HDF5 can describe, by the arguments of H5Tset_fields and the bias of
# the exponent. HDF5 cannot describe floats without infinities; these are opaque bytes, as in h5py.
_MINIFLOATS = {
    DataType.BFLOAT16: ((15, 7, 8, 0, 7), 127),
    DataType.FLOAT8_E5M2: ((7, 2, 5, 0, 2), 15),
}
_FLOATS = [np.dtype(f"f{size}") for size in (2, 4, 8)] + [
    dtypes.dtype_of(data_type) for data_type in _MINIFLOATS
]
_WORD_SIZES = (1, 2, 4, 8)
_BOOLEANS = {b"FALSE": 0, b"TRUE": 1}  # as h5py and netCDF write them
_IMAGINARY = re.compile(r"i$|im", re.IGNORECASE)  # matches the name of an imaginary part
# Types that no tensor has, by their classes.
_OTHERS = {
    h5t.TIME: "a time",
    h5t.STRING: "text",
    h5t.OPAQUE: "opaque",
    h5t.REFERENCE: "a reference",
    h5t.VLEN: "lists of variable length",
    h5t.BITFIELD: "a bitfield",
    h5t.INTEGER: "integers of unusual bits",
    h5t.FLOAT: "floats of unusual bits",
}


def read_dtype(kind: h5t.TypeID, asked: DataType | None = None) -> np.dtype[Any]:
    """The dtype that has such elements, bit for bit; FormatError for what no tensor has.

    `asked` is the data type of opaque elements, which have no name.
    """
    if isinstance(kind, h5t.TypeOpaqueID):
        return dtypes.name_bytes(np.dtype(f"V{kind.get_size()}"), asked, "")
    if isinstance(kind, h5t.TypeEnumID):
        dtype = _dtype_of_enumeration(kind)
    elif isinstance(kind, h5t.TypeIntegerID):
        dtype = _dtype_of_integer(kind)
    elif isinstance(kind, h5t.TypeBitfieldID):
        dtype = _dtype_of_bitfield(kind)
    elif isinstance(kind, h5t.TypeFloatID):
        dtype = _dtype_of_float(kind)
    else:
        dtype = _dtype_of_complex(kind)
    if dtype is None:
        raise _no_tensor(kind)
    return dtype


def _dtype_of_enumeration(kind: h5t.TypeEnumID) -> np.dtype[Any] | None:
    """The dtype of an enumeration's integers; bool for the names that h5py and netCDF use."""
    if is_narrow(kind.get_super()):
        return None
    dtype = read_dtype(kind.get_super())
    numbers = range(kind.get_nmembers())
    members = {kind.get_member_name(i): kind.get_member_value(i) for i in numbers}
    if dtype.itemsize == 1 and members == _BOOLEANS:
        return np.dtype("?")
    return dtype


def _dtype_of_integer(kind: h5t.TypeIntegerID) -> np.dtype[Any] | None:
    if kind.get_size() not in _WORD_SIZES:
        return None
    order = ">" if kind.get_order() == h5t.ORDER_BE else "<"
    letter = "i" if kind.get_sign() == h5t.SGN_2 else "u"
    return np.dtype(f"{order}{letter}{kind.get_size()}")


def _dtype_of_bitfield(kind: h5t.TypeBitfieldID) -> np.dtype[Any] | None:
    size = kind.get_size()
    if size not in _WORD_SIZES:
        return None
    for order, suffix in (("<", "LE"), (">", "BE")):
        if kind.equal(getattr(h5t, f"STD_B{8 * size}{suffix}")):
            return np.dtype(f"{order}u{size}")
    return None


def _dtype_of_float(kind: h5t.TypeFloatID) -> np.dtype[Any] | None:
    for known in _FLOATS:
        if known.itemsize != kind.get_size():
            continue
        for order in ("<", ">"):
            dtype = known.newbyteorder(order)
            if kind.equal(make_type(dtype)):
                return dtype
    return None


def _dtype_of_complex(kind: h5t.TypeID) -> np.dtype[Any] | None:
    """The dtype of complex numbers: HDF5's own since 2.0, or two floats, the real part first."""
    size = kind.get_size()
    if size not in (8, 16):
        return None
    if kind.get_class() == getattr(h5t, "COMPLEX", None):
        return np.dtype(f"{read_dtype(kind.get_super()).byteorder}c{size}")
    if not isinstance(kind, h5t.TypeCompoundID) or kind.get_nmembers() != 2:
        return None
    real, imaginary = kind.get_member_type(0), kind.get_member_type(1)
    if not isinstance(real, h5t.TypeFloatID) or not imaginary.equal(real):
        return None
    if _IMAGINARY.match(kind.get_member_name(0).decode("utf-8", "replace")):
        return None
    part = _dtype_of_float(real)
    if part is None or part.kind != "f":
        return None
    offsets = (kind.get_member_offset(0), kind.get_member_offset(1))
    if offsets != (0, part.itemsize) or size != 2 * part.itemsize:
        return None
    return np.dtype(f"{part.byteorder}c{size}")


def _no_tensor(kind: h5t.TypeID) -> FormatError:
    """The error for a type that no tensor has, with a way to make numbers of its elements."""
    words = _OTHERS.get(kind.get_class()) or describe_type(kind) or "one that h5py lacks"
    hint = ""
    if isinstance(kind, h5t.TypeStringID) and not kind.is_variable_str():
        hint = _hint_for_texts(kind.get_size())
    elif kind.get_class() == h5t.VLEN:
        hint = "to make it a tensor, write the lists as rows of one length, with padding"
    return FormatError(f"its data type is {words}", "numbers in whole bytes, as in NumPy", hint)


def _hint_for_texts(size: int) -> str:
    """How to save texts of so many bytes as numbers, with h5py."""
    view = "x[()].view('uint8')"
    if size > 1:
        view += f".reshape(*x.shape, {size})"
    return f"to reverse it as characters, save it in h5py as {view}"


def is_narrow(kind: h5t.TypeID) -> bool:
    """Whether integers have fewer bits than their bytes: HDF5 converts these, and no others."""
    return isinstance(kind, h5t.TypeIntegerID) and kind.get_precision() < 8 * kind.get_size()


@functools.cache
def make_type(dtype: np.dtype[Any]) -> h5t.TypeID:
    """HDF5's type for elements of a dtype."""
    if not dtypes.is_minifloat(dtype):
        return h5t.py_create(dtype, logical=True)
    data_type = dtypes.data_type_of(dtype)
    if data_type not in _MINIFLOATS:
        return h5t.py_create(np.dtype(f"V{dtype.itemsize}"), logical=True)
    fields, bias = _MINIFLOATS[data_type]
    kind = h5t.IEEE_F16LE.copy()
    kind.set_order(h5t.ORDER_BE if dtypes.is_big_endian(dtype) else h5t.ORDER_LE)
    kind.set_fields(*fields)
    kind.set_ebias(bias)
    kind.set_precision(8 * dtype.itemsize)
    kind.set_size(dtype.itemsize)
    return kind


def describe_type(kind: h5t.TypeID) -> str:
    """What HDF5's type says beyond the data type, in words; "" for plain numbers."""
    match kind:
        case h5t.TypeBitfieldID():
            return "bitfield"
        case h5t.TypeEnumID():
            return f"enumeration of {_list_members(kind)}"
        case h5t.TypeCompoundID():
            return f"compound of {_list_members(kind)}"
        case h5t.TypeArrayID():
            return f"array of sizes {in_braces(kind.get_array_dims())}"
    if is_narrow(kind):
        return f"integers of {kind.get_precision()} bits"
    return ""


def _list_members(kind: h5t.TypeEnumID | h5t.TypeCompoundID) -> str:
    names = []
    for i in range(kind.get_nmembers()):
        names.append(kind.get_member_name(i).decode("utf-8", "replace"))
    return join_names(names, 5)


def read(dataset: h5py.Dataset, region: Region, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The values of the region; 0 for chunks that were never written and have no fill value.

    A signal stops it between parts of the region.
    """
    values: NDArray[Any] = np.zeros([part.stop - part.start for part in region], dtype)
    kind = memory_type(dataset.id.get_type(), dtype)
    for part in _cut_region(region, dataset.chunks):
        signals.check()
        in_values, in_file = _select_spaces(dataset, part)
        if part != region:
            in_values = h5s.create_simple(values.shape)
            in_values.select_hyperslab(*_bounds(inside(part, region)))
        dataset.id.read(in_values, in_file, values, kind)
    return values


def _cut_region(region: Region, chunks: tuple[int, ...] | None) -> Iterator[Region]:
    """The region in parts of few chunks each, between which signals are looked at.

    HDF5 takes 5 s only to find out that 400,000 chunks were never written.
    """
    if chunks is None:
        yield region
        return
    extents = list(chunks)
    left = _CHUNKS_AT_ONCE
    for d in reversed(range(len(chunks))):
        count = min(left, (region[d].stop - region[d].start) // chunks[d] + 2)
        extents[d] = count * chunks[d]
        left = max(1, left // count)
    yield from chunk_boxes(region, tuple(extents))


def _bounds(region: Region) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The first indices of a region, and its sizes."""
    return tuple(part.start for part in region), sizes_of(region)


def write(dataset: h5py.Dataset, region: Region, values: NDArray[Any]) -> None:
    """Write the values of the region."""
    kind = memory_type(dataset.id.get_type(), values.dtype)
    dataset.id.write(*_select_spaces(dataset, region), np.require(values, requirements="C"), kind)


def _select_spaces(dataset: h5py.Dataset, region: Region) -> tuple[h5s.SpaceID, h5s.SpaceID]:
    space = dataset.id.get_space()
    if not region:  # a scalar
        return space, space
    space.select_hyperslab(*_bounds(region))
    return h5s.create_simple(sizes_of(region)), space


def memory_type(kind: h5t.TypeID, dtype: np.dtype[Any]) -> h5t.TypeID:
    """The type in memory for elements of a file: their own, or plain integers for narrow ones."""
    if is_narrow(kind):
        return h5t.py_create(dtype)
    return kind


# Filters and chunks

# Short names for HDF5's own filters and some others, whose names in files are long, or empty.
_NAMES = {
    1: "gzip", 2: "shuffle", 3: "fletcher32", 4: "szip", 5: "nbit", 6: "scaleoffset", 32004: "lz4",
    32008: "bitshuffle", 32013: "zfp", 32015: "zstd", 32017: "sz",
}  # fmt: skip
# Filters that never lose anything. Chunks that pass any other are decoded again, and compared.
_LOSSLESS = frozenset({1, 2, 3, 4, 32000})
# Some filters change their parameters when a dataset is created, and would change the stored ones a
# second time. For each of them, this makes the parameters to ask for of those that are stored:
# bitshuffle stores three numbers before them, SZ and SZ3 the sizes of a chunk; JPEG-LS and HTJ2K
# need none; SPERR packs its second one into the first.
_ASKED_FOR: dict[int, Callable[[tuple[int, ...]], tuple[int, ...]]] = {
    32008: lambda stored: stored[3:],
    32017: lambda stored: stored[-9:],
    32018: lambda _: (),
    32024: lambda stored: stored[-9:],
    32028: lambda stored: (stored[1], stored[0] >> 6 & 15),
    32033: lambda _: (),
}

_BLOSC = 32001
_CHUNKS_AT_ONCE = 1 << 12  # of which HDF5 reads a part in one call
_UNFILTERED = (
    "write another format, such as .npy, or first the input without filters: h5repack -f NONE"
)


def filters_of(properties: h5p.PropDCID) -> dict[int, str]:
    """The names of the filters that chunks pass through, by their registered numbers."""
    filters = (properties.get_filter(i) for i in range(properties.get_nfilters()))
    return {
        code: _NAMES.get(code) or name.decode("utf-8", "replace")[:40]
        for code, _, _, name in filters
    }


def require_filters(dataset: h5py.Dataset, where: str) -> None:
    """FormatError for a filter that neither HDF5 nor the package hdf5plugin has."""
    for code, name in filters_of(dataset.id.get_create_plist()).items():
        if h5z.filter_avail(code):
            continue
        hint = "write it again without that filter, on a system that has it"
        try:
            import hdf5plugin  # noqa: F401 - an extra; importing it registers its filters
        except ModuleNotFoundError:
            hint = platform.pip("install hdf5plugin")
        if not h5z.filter_avail(code):
            raise FormatError(
                f"needs the filter {code} ({name})", "a filter that is installed", hint, where
            )


def ends_in_blosc(dataset: h5py.Dataset) -> bool:
    """Whether Blosc is the last filter of a dataset: its stored chunks are then Blosc frames."""
    properties = dataset.id.get_create_plist()
    count = properties.get_nfilters()
    return bool(count > 0 and properties.get_filter(count - 1)[0] == _BLOSC)


def require_whole_chunk(dataset: h5py.Dataset, start: tuple[int, ...]) -> None:
    """FormatError if the chunk that begins there is stored as a truncated Blosc frame."""
    last = dataset.id.get_create_plist().get_nfilters() - 1
    if dataset.id.get_chunk_info_by_coord(start).byte_offset is None:  # never written
        return
    skipped, frame = dataset.id.read_direct_chunk(start)
    if not skipped >> last & 1:
        require_whole_frame(frame)


def take_filters(properties: h5p.PropDCID, like: h5p.PropDCID, but: int = 0) -> None:
    """Ask for the filters that a dataset with the properties `like` has, except for `but`."""
    if properties.get_nfilters():
        properties.remove_filter(h5z.FILTER_ALL)
    for code, flags, stored, _ in map(like.get_filter, range(like.get_nfilters())):
        if code != but:
            properties.set_filter(code, flags, _ASKED_FOR.get(code, tuple)(stored))


# An encoded chunk: its first index in each dimension, its bytes, and the filters that it skipped,
# as bits.
Chunk = tuple[tuple[int, ...], bytes, int]


@dataclass(frozen=True)
class ChunkBlockWriter:
    """Encodes the chunks of a block.

    A property list cannot be pickled, but a file can. So `image` is a file in memory, with a
    dataset of one chunk that has the same properties. A chunk is encoded by writing it there, and
    reading the stored bytes. `may_lose` says whether a filter may lose something.
    """

    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    image: bytes
    name: str
    may_lose: bool

    @classmethod
    def like(
        cls, dataset: h5py.Dataset, properties: h5p.PropDCID, dtype: np.dtype[Any], name: str
    ) -> ChunkBlockWriter:
        """The writer for chunks of a dataset with these properties; `name` is for messages."""
        kind = dataset.id.get_type().copy()
        chunks = properties.get_chunk()
        image = io.BytesIO()
        with h5py.File(image, "w") as file:
            space = h5s.create_simple(chunks, chunks)
            h5py.h5d.create(file.id, b"chunk", kind, space, properties)
        may_lose = not _LOSSLESS.issuperset(filters_of(properties))
        return cls(chunks, dtype, image.getvalue(), name, may_lose)

    def deliver(self, region: Region, values: NDArray[Any]) -> list[Chunk]:
        """The encoded chunks of a region of whole chunks, up to the tensor's end."""
        try:
            with LOCK:
                scratch = _scratch(self.image)
                encoded: list[Chunk] = []
                for box, values_of_chunk in split_chunks(region, values, self.chunks):
                    signals.check()
                    start = tuple(part.start for part in box)
                    encoded.append((start, *self._encode(scratch, values_of_chunk)))
                return encoded
        except (OSError, RuntimeError, ValueError) as e:
            if isinstance(e, FormatError):
                raise
            found = f"its filters cannot encode: {str(e)[:200]}"
            raise FormatError(found, "filters that can", _UNFILTERED, self.name) from None

    def _encode(self, scratch: h5py.h5d.DatasetID, values: NDArray[Any]) -> tuple[bytes, int]:
        """The bytes of a chunk as HDF5 stores them, and the filters that it skipped.

        The values of a chunk end at the tensor's end. HDF5 fills the rest of the chunk, and decides
        whether such a chunk passes through the filters.
        """
        values = np.ascontiguousarray(values, self.dtype)
        kind = memory_type(scratch.get_type(), self.dtype)
        sizes = values.shape
        if scratch.shape != sizes:
            # When it shrinks next, HDF5 fills what is cut off, and no more.
            scratch.set_extent(self.chunks)
            scratch.write(h5s.ALL, h5s.ALL, np.zeros(self.chunks, self.dtype), kind)
            scratch.set_extent(sizes)
        scratch.write(h5s.ALL, h5s.ALL, values, kind)
        # Without a flush, in files of HDF5's latest layout, h5py reserves 0 bytes below, and
        # overruns them.
        scratch.flush()
        start = (0,) * scratch.rank
        mask, data = scratch.read_direct_chunk(start)
        if self.may_lose:
            decoded = np.empty_like(values)
            scratch.write_direct_chunk(start, data, mask)
            scratch.read(h5s.ALL, h5s.ALL, decoded, kind)
            if decoded.tobytes() != values.tobytes():
                raise FormatError(
                    "its filters change values", "lossless filters", _UNFILTERED, self.name
                )
        return data, mask


@functools.lru_cache(maxsize=1)
def _scratch(image: bytes) -> h5py.h5d.DatasetID:
    """The dataset of one chunk in the image; a process keeps the last one open."""
    dataset = h5py.File(io.BytesIO(image), "r+")["chunk"]
    require_filters(dataset, "the output")
    return dataset.id
