"""Filters of HDF5 datasets: which there are, and which a new dataset gets."""

from __future__ import annotations

from collections.abc import Callable

import h5py
from h5py import h5p, h5z

from revseq_cli.core import platform
from revseq_cli.core.errors import FormatError
from revseq_cli.formats.refusals import require_whole_frame

# Short names for HDF5's own filters and some others, whose names in files are long, or empty.
_NAMES = {
    1: "gzip", 2: "shuffle", 3: "fletcher32", 4: "szip", 5: "nbit", 6: "scaleoffset", 32004: "lz4",
    32008: "bitshuffle", 32013: "zfp", 32015: "zstd", 32017: "sz",
}  # fmt: skip
# The parameters to ask for, of those that a dataset has, for filters that change what they are
# asked for when a dataset is created. All other filters store what they are asked for.
_PARAMETERS_TO_ASK_FOR: dict[int, Callable[[tuple[int, ...]], tuple[int, ...]]] = {
    32008: lambda stored: stored[3:],  # bitshuffle: three numbers of its own come before them
    32017: lambda stored: stored[-9:],  # SZ: the sizes of a chunk come before them
    32018: lambda _: (),  # JPEG-LS: it finds all of them itself
    32024: lambda stored: stored[-9:],  # SZ3, as SZ
    32028: lambda stored: _unpack_sperr(*stored[:2]),
    32033: lambda _: (),  # HTJ2K, as JPEG-LS
}
_BLOSC = 32001


def _unpack_sperr(packed: int, first: int) -> tuple[int, int]:
    """SPERR's two parameters: the second one is in four bits of a number before the first one."""
    second = packed >> 6 & 15
    return first, second


def filters_of(properties: h5p.PropDCID) -> dict[int, str]:
    """The names of the filters that chunks pass through, by their registered numbers."""
    names = {}
    for i in range(properties.get_nfilters()):
        code, _, _, name = properties.get_filter(i)
        names[code] = _NAMES.get(code) or name.decode("utf-8", "replace")[:40]
    return names


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
    has_skipped_blosc = skipped >> last & 1  # a bit for each filter
    if not has_skipped_blosc:
        require_whole_frame(frame)


def take_filters(properties: h5p.PropDCID, like: h5p.PropDCID, without: int = 0) -> None:
    """Ask for the filters of a dataset with the properties `like`, but for the one `without`."""
    if properties.get_nfilters():
        properties.remove_filter(h5z.FILTER_ALL)
    for i in range(like.get_nfilters()):
        code, flags, parameters, _ = like.get_filter(i)
        if code in _PARAMETERS_TO_ASK_FOR:
            parameters = _PARAMETERS_TO_ASK_FOR[code](parameters)
        if code != without:
            properties.set_filter(code, flags, parameters)
