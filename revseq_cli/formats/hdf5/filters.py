"""The filters of HDF5 datasets: which ones a dataset has, whether they are installed, how to ask for the same ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from revseq_cli.core import system
from revseq_cli.core.errors import FormatError, Hint
from revseq_cli.formats.hdf5 import types
from revseq_cli.formats.hdf5.library import h5py

if TYPE_CHECKING:
    from collections.abc import Callable


# Short names for HDF5's own filters and for those that hdf5plugin brings: the names in files are long, or empty.
_NAMES = {
    1: "gzip", 2: "shuffle", 3: "fletcher32", 4: "szip", 5: "nbit", 6: "scaleoffset", 307: "bzip2", 32000: "lzf",
    32001: "blosc", 32004: "lz4", 32008: "bitshuffle", 32013: "zfp", 32015: "zstd", 32017: "sz", 32018: "fcidecomp",
    32024: "sz3", 32026: "blosc2", 32028: "sperr",
}  # fmt: skip
# Filters that never lose anything; chunks that pass any other filter are decoded again and compared.
LOSSLESS = frozenset({1, 2, 3, 4, 32000})
# Some filters change their parameters when a dataset is created: it then stores others than were asked for, and asking
# for the stored ones would change them twice. For each such filter, the parameters that were asked for, from those that
# are stored: bitshuffle puts three numbers first, SZ and SZ3 the sizes of a chunk, JPEG-LS and HTJ2K need none, and
# SPERR packs its second one into the first.
_ASKED_FOR: dict[int, Callable[[tuple[int, ...]], tuple[int, ...]]] = {
    32008: lambda stored: stored[3:],
    32017: lambda stored: stored[-9:],
    32018: lambda _: (),
    32024: lambda stored: stored[-9:],
    32028: lambda stored: (stored[1], stored[0] >> 6 & 15),
    32033: lambda _: (),
}

# Registered number, flags and parameters.
_Filter = tuple[int, int, tuple[int, ...]]


# A hint for filters that do not fit.
UNCOMPRESSED = Hint.of("add {}", compression="none")


def filters_of(properties: h5py.h5p.PropDCID) -> dict[int, str]:
    """The names of the filters that a chunk passes through, by HDF5's registered number.

    These are the properties with which the dataset was created.
    """
    filters = (properties.get_filter(i) for i in range(properties.get_nfilters()))
    return {code: _NAMES.get(code) or name.decode("utf-8", "replace")[:40] for code, _, _, name in filters}


def require_filters(dataset: h5py.Dataset, where: str) -> None:
    """FormatError for a filter that neither HDF5 nor the package hdf5plugin brings."""
    for code, name in filters_of(dataset.id.get_create_plist()).items():
        if h5py.h5z.filter_avail(code):
            continue
        hint = "write it again without that filter, on a system that has it"
        try:
            import hdf5plugin  # noqa: F401 - an extra; importing it registers its filters
        except ModuleNotFoundError:
            hint = system.pip("install hdf5plugin")
        if not h5py.h5z.filter_avail(code):
            raise FormatError(f"needs the filter {code} ({name})", "a filter that is installed", hint, where)


def properties_of(dataset: h5py.Dataset) -> h5py.h5p.PropDCID:
    """The creation properties to ask for, to get a dataset with the storage of this one.

    Elements that become plain numbers get the chunks and the filters that any numbers can have.
    """
    old, kind = dataset.id.get_create_plist(), dataset.id.get_type()
    properties, filters = old.copy(), pipeline(old)
    if not types.is_plain(kind):
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_attr_creation_order(old.get_attr_creation_order())
        filters = [each for each in filters if each[0] != h5py.h5z.FILTER_NBIT]
        if dataset.chunks:
            properties.set_chunk((*dataset.chunks, *types.inner_sizes(kind)))
    elif filters:
        properties.remove_filter(h5py.h5z.FILTER_ALL)
    for code, flags, stored in filters:
        properties.set_filter(code, flags, _ASKED_FOR.get(code, tuple)(stored))
    return properties


def changed_filters(made: h5py.Dataset, template: h5py.Dataset, asked: h5py.h5p.PropDCID) -> list[str]:
    """A note for each filter that stores other parameters than in `template` although the same ones were asked for.

    That happens where another version of the filter is installed.
    """
    kept = set(pipeline(properties_of(template))) & set(pipeline(asked))
    codes = {code for code, _, _ in kept}
    wanted = {code: stored for code, _, stored in pipeline(template.id.get_create_plist()) if code in codes}
    got = {code: stored for code, _, stored in pipeline(made.id.get_create_plist())}
    return [
        f"the filter {name} had the parameters {wanted[code]}, and has {got[code]} here"
        for code, name in filters_of(template.id.get_create_plist()).items()
        if code in wanted and got[code] != wanted[code]
    ]


def pipeline(properties: h5py.h5p.PropDCID) -> list[_Filter]:
    """Each filter's registered number, its flags and its parameters, in the order in which chunks pass them."""
    return [properties.get_filter(i)[:3] for i in range(properties.get_nfilters())]
