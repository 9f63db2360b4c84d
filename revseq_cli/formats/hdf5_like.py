"""What an HDF5 dataset has beside its values, made anew in another file: storage, attributes, groups, scales."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from revseq_cli.errors import FormatError, UsageError, printable
from revseq_cli.formats import hdf5

if TYPE_CHECKING:
    from revseq_cli.formats.base import Layout, Source

# Attributes that say who refers to whom among dimension scales; attaching the scales makes them anew.
_SCALE_REFERENCES = ("DIMENSION_LIST", "REFERENCE_LIST")
_SHUFFLE, _FLETCHER32 = h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32


def creation_properties(like: Source, layout: Layout, where: str) -> h5py.h5p.PropDCID:
    """The storage of the new dataset: that of the old one, as far as `layout` does not say otherwise."""
    if isinstance(like, hdf5.Hdf5Source):
        with hdf5.opened(like.path, like.name) as file:
            properties = file[like.inner].id.get_create_plist().copy()
    else:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if layout.compression != "keep":
        _compress(properties, layout.compression)
    chunks = layout.chunks
    if chunks == "keep" and properties.get_nfilters() and properties.get_layout() != h5py.h5d.CHUNKED:
        chunks = "auto"
    if chunks == "auto":
        chunks = _guessed_chunks(like)
    if chunks != "keep":
        properties.set_chunk(_checked(chunks, like.sizes, where))
    return properties


def _compress(properties: h5py.h5p.PropDCID, compression: str | int) -> None:
    """Only what compresses is changed: a checksum stays, and so does a shuffle before gzip."""
    codes = [properties.get_filter(i)[0] for i in range(properties.get_nfilters())]
    if codes:
        properties.remove_filter(h5py.h5z.FILTER_ALL)
    if isinstance(compression, int):
        if _SHUFFLE in codes:
            properties.set_shuffle()
        properties.set_deflate(compression)
    if _FLETCHER32 in codes:
        properties.set_fletcher32()


def _guessed_chunks(like: Source) -> tuple[int, ...]:
    """What h5py would choose."""
    with h5py.File.in_memory() as file:
        chunks: tuple[int, ...] = file.create_dataset("x", like.sizes, like.dtype, chunks=True).chunks
        return chunks


def _checked(chunks: Any, sizes: tuple[int, ...], where: str) -> tuple[int, ...]:  # noqa: ANN401 - h5py's or the user's
    if len(chunks) != len(sizes):
        found = f"--chunks has {len(chunks)} sizes"
        raise FormatError(
            found, f"{len(sizes)}, one for each dimension", f"--chunks {'x'.join(map(str, sizes))}", where
        )
    return tuple(min(chunk, size) for chunk, size in zip(chunks, sizes, strict=True))


def create_dataset(
    file: h5py.File, name: str, like: Source, properties: h5py.h5p.PropDCID, where: str
) -> tuple[h5py.Dataset, list[str]]:
    """A dataset of the sizes and data type of `like`, with all that can be carried over; and what could not be."""
    parent, _, own_name = name.rpartition("/")
    group = file.require_group(parent or "/")
    if not isinstance(like, hdf5.Hdf5Source):
        space = h5py.h5s.create_simple(like.sizes)
        kind = h5py.h5t.py_create(like.dtype, logical=True)
        return _create(group, own_name, (kind, space, properties), where), []
    notes: list[str] = []
    with hdf5.opened(like.path, like.name) as source_file:
        source = source_file[like.inner]
        kind, space = source.id.get_type().copy(), source.id.get_space()
        limits = space.get_simple_extent_dims(maxdims=True)
        if properties.get_layout() != h5py.h5d.CHUNKED:  # only chunks can grow
            limits = like.sizes
        space = h5py.h5s.create_simple(like.sizes, limits)
        dataset = _create(group, own_name, (kind, space, properties), where)
        _copy_attributes(source, dataset, notes)
        _copy_groups(source, dataset, notes)
        _copy_scales(source, dataset, notes)
    return dataset, notes


def refuse_clashes(like: Source, name: str, where: str) -> None:
    """UsageError where the output's name is needed for a scale that comes with it."""
    if not isinstance(like, hdf5.Hdf5Source):
        return
    with hdf5.opened(like.path, like.name) as file:
        scales = [scale.name for dimension in file[like.inner].dims for scale in dimension.values()]
    for scale in filter(None, scales):
        if f"{name}/".startswith(f"{scale}/") or f"{scale}/".startswith(f"{name}/"):
            raise UsageError(
                f"{name} is where the scale {scale} will stand",
                "another name",
                f"add -o {where}::/{like.inner}",
                where,
            )


def _create(group: h5py.Group, name: str, made_of: tuple[Any, ...], where: str) -> h5py.Dataset:
    try:
        return h5py.Dataset(h5py.h5d.create(group.id, name.encode(), *made_of))
    except (OSError, RuntimeError, ValueError) as e:
        found = f"cannot be stored with these chunks and filters: {str(e)[:200]}"
        raise FormatError(found, "chunks and filters that HDF5 accepts", "add --compression none", where) from None


def _copy_groups(source: h5py.Dataset, target: h5py.Dataset, notes: list[str]) -> None:
    """The attributes of every group on the way, from the dataset's own group up to the root."""
    _copy_attributes(source.file, target.file, notes)
    ways = [each.name.split("/")[1:-1] for each in (source, target)]
    for depth, (old, new) in enumerate(zip(*(reversed(way) for way in ways), strict=False)):
        old_path, new_path = ("/".join(way[: len(way) - depth]) for way in ways)
        if old and new:
            _copy_attributes(source.file[old_path], target.file[new_path], notes)
    if len(ways[0]) > len(ways[1]):
        notes.append(f"the attributes of {len(ways[0]) - len(ways[1])} groups above {source.name} are not carried over")


def _copy_attributes(source: h5py.HLObject, target: h5py.HLObject, notes: list[str]) -> None:
    """Every attribute with its own type, bit for bit; one that refers to other objects only makes a note."""
    for i in range(h5py.h5a.get_num_attrs(source.id)):
        attribute = h5py.h5a.open(source.id, index=i)
        name = attribute.get_name().decode("utf-8", "surrogateescape")
        kind = attribute.get_type()
        if name in _SCALE_REFERENCES:
            continue
        if kind.detect_class(h5py.h5t.REFERENCE):
            notes.append(
                f"{printable(source.name)}: the attribute {printable(name)} refers to what is not carried over"
            )
            continue
        new = h5py.h5a.create(target.id, attribute.get_name(), kind.copy(), attribute.get_space())
        if attribute.get_space().get_simple_extent_type() == h5py.h5s.NULL:
            continue
        if _has_variable_parts(kind):
            values = np.empty(attribute.shape, attribute.dtype)
            attribute.read(values)
            new.write(values)
        else:  # as bytes, so that nothing is converted on the way
            raw = np.empty(attribute.shape, f"V{kind.get_size()}")
            attribute.read(raw, mtype=kind)
            new.write(raw, mtype=kind)


def _has_variable_parts(kind: h5py.h5t.TypeID) -> bool:
    """Whether values of that type point to others, as strings of any length do."""
    return bool(
        kind.detect_class(h5py.h5t.VLEN)
        or (isinstance(kind, h5py.h5t.TypeStringID) and kind.is_variable_str())
        or (
            isinstance(kind, h5py.h5t.TypeCompoundID)
            and any(_has_variable_parts(kind.get_member_type(i)) for i in range(kind.get_nmembers()))
        )
        or (isinstance(kind, h5py.h5t.TypeArrayID) and _has_variable_parts(kind.get_super()))
    )


def _copy_scales(source: h5py.Dataset, target: h5py.Dataset, notes: list[str]) -> None:
    """Every scale of every dimension, under its own path and attached again."""
    for d in range(len(source.dims)):
        for scale in source.dims[d].values():
            path = scale.name
            try:
                if path is None:
                    raise FormatError("has no name")
                hdf5.refuse_other_files(scale, path)
            except FormatError as e:
                notes.append(f"a scale of dimension {d} {e.found}, and is not carried over")
                continue
            if path not in target.file:
                _copy_scale(scale, target.file, path, notes)
            target.dims[d].attach_scale(target.file[path])


def _copy_scale(scale: h5py.Dataset, file: h5py.File, path: str, notes: list[str]) -> None:
    parent, _, name = path.rpartition("/")
    group = file.require_group(parent or "/")
    scale.file.copy(scale, group, name, without_attrs=True)
    _copy_attributes(scale, group[name], notes)
