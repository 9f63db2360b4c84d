"""HDF5 files, opened for reading: how a dataset is found, and what its dimensions are called.

Every link on a path is looked at before it is followed. Soft links are followed here, not by HDF5,
and only inside the file. External and user-defined links are never followed: they lead to other
files, or run code.

NetCDF stores a dimension as a scale, a dataset of the same name, also where the dimension has no
variable. A variable that has the name of a dimension but is not its coordinate is stored under
`NOT_COORDINATE` and its name. Sources: the HDF5 High Level specification of dimension scales;
libhdf5/nc4hdf.c of netCDF-C.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
from collections.abc import Iterable, Iterator
from math import prod
from typing import Any, BinaryIO

import h5py
import numpy as np
from h5py import h5a, h5d, h5g, h5l, h5o, h5t

from revseq_cli import files
from revseq_cli.core import platform
from revseq_cli.core.errors import (
    FormatError,
    NoTensorError,
    RevseqError,
    TensorIOError,
    join_names,
)
from revseq_cli.core.tensors import DataType
from revseq_cli.files import base
from revseq_cli.formats.attributes import Attributes, as_neutral, count_bytes
from revseq_cli.formats.hdf5 import storage
from revseq_cli.formats.refusals import choose_tensor, invalid_name, try_hint, unknown_tensor

# What h5py raises, for errors of HDF5 and of its own.
RAISED = (OSError, RuntimeError, KeyError, ValueError, TypeError)
NOT_COORDINATE = "_nc4_non_coord_"
# NetCDF-4 numbers the dimensions of a file from 0 on: a dimension's scale has its own number, and a
# variable the numbers of its dimensions. Of a scale with several dimensions, only these numbers say
# what the others are.
OWN_ID = "_Netcdf4Dimid"
IDS = "_Netcdf4Coordinates"
# The start of the attribute NAME of a dimension that has no variable: its dataset has no values.
BARE = "This is a netCDF dimension but not a netCDF variable."
LABELS = "DIMENSION_LABELS"
OF_SCALES = {"CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", OWN_ID}
_NETCDF_MARKS = ("_NCProperties", "_nc3_strict")
_STORAGE = {*OF_SCALES, LABELS, IDS, *_NETCDF_MARKS}
_MATLAB_NUMBERS = {
    "double", "single", "logical", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
    "uint64",
}  # fmt: skip
_MOST_ATTRIBUTE_BYTES = 1 << 24  # of all attributes of an object that are read
_MOST_TEXTS = 64  # so many texts of an attribute are read in any case
_MOST_SOFT_LINKS = 16  # on the path of one dataset, as in HDF5


@contextlib.contextmanager
def open_hdf5(
    path: str, name: str = "", unchanged: base.Identity | None = None
) -> Iterator[h5py.File]:
    """The file, for reading; TensorIOError unless its state is still `unchanged`, if that is given.

    `name` is what messages call it, or the tensor in it. What h5py raises in the context becomes a
    RevseqError.
    """
    with files.open_file(path, unchanged, name) as fd:
        try:
            source = platform.plain_path(fd.path) if fd.path else fd.stream()
            with _open_hdf5(source) as file:
                yield file
        except (RevseqError, *RAISED) as e:
            if fd.error:  # HDF5 loses it, or takes it for damage
                raise fd.error from None
            if isinstance(e, RevseqError):
                raise
            raise hdf5_error(e, path, name or path) from e


def _open_hdf5(path: str | BinaryIO) -> h5py.File:
    try:
        return h5py.File(path, "r")
    except OSError as e:
        if _system_error(e) not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        return h5py.File(path, "r", locking=False)  # a network file system without locks


def hdf5_error(error: Exception, path: str, where: str, verb: str = "read") -> RevseqError:
    """The error for what h5py raised when it read or wrote a file, which messages call `where`."""
    words = str(error)
    # "Already open" is a mark in the file, which a writer leaves behind if it is killed.
    if "unable to lock file" in words or "already open for" in words:
        hint = f"try again later, or if no program writes it: h5clear -s {platform.quote(path)}"
        return TensorIOError("being written by another process", hint=hint, where=path)
    number = _system_error(error)
    if number:
        return base.failed(where, verb, OSError(number, os.strerror(number)))
    expected = ""
    if verb == "read":
        expected = f"a whole file, of HDF5 {h5py.version.hdf5_version} or older"
    return TensorIOError(f"HDF5 cannot {verb} it: {words[:200]}", expected, where=where)


def _system_error(error: Exception) -> int:
    """The system's error number, which HDF5 has in its message; 0 where there is none."""
    number = getattr(error, "errno", None)
    if number:
        return int(number)
    match = re.search(r"errno = (\d+)", str(error))
    return int(match[1]) if match else 0


def require_own_values(dataset: h5d.DatasetID, where: str) -> h5d.DatasetID:
    """The dataset; FormatError if its values are in other files.

    This comes before all else that is asked of a dataset: HDF5 opens the files of a virtual dataset
    as soon as it is asked for its sizes.
    """
    properties = dataset.get_create_plist()
    if properties.get_layout() == h5d.VIRTUAL:
        file = where.partition("::")[0]
        found = "a virtual dataset, made of other files"
        hint = f"to copy them into one file: h5repack -l CONTI {platform.quote(file)} new.h5"
        expected = "values in the file itself: other files are not opened"
        raise NoTensorError(found, expected, hint, where)
    if properties.get_external_count():
        raise NoTensorError(
            "keeps its values in another file", "values in the file itself", where=where
        )
    return dataset


def open_dataset(file: h5py.File, hard_path: str, where: str) -> h5py.Dataset:
    """The dataset at a path of hard links; FormatError if its values are in other files."""
    return h5py.Dataset(require_own_values(h5d.open(file.id, encode_name(hard_path)), where))


def require_numbers(dataset: h5py.Dataset, asked: DataType | None) -> np.dtype[Any]:
    """The dtype of a dataset of numbers; FormatError for others, such as texts.

    `asked` is the data type of opaque elements, which have no name.
    """
    _refuse_other_programs(dataset)
    return storage.read_dtype(dataset.id.get_type(), asked)


def _refuse_other_programs(dataset: h5py.Dataset) -> None:
    """FormatError for what MATLAB stores as numbers: its texts, and the sizes of empty arrays."""
    kind = read_attribute(dataset, "MATLAB_class")
    if isinstance(kind, str) and kind not in _MATLAB_NUMBERS:
        raise FormatError(f"its data type is MATLAB's {kind}", "numbers")
    empty = read_attribute(dataset, "MATLAB_empty")
    if empty is not None and np.all(empty == 1):
        found = "an empty array of MATLAB, whose numbers are its sizes"
        raise NoTensorError(found, "an array with elements")


# Attributes and dimensions


def read_attribute(item: h5py.HLObject, name: str) -> Any:  # noqa: ANN401 - of any type
    """An attribute in the neutral form; None without one, or if that form has no place for it."""
    try:
        if not h5a.exists(item.id, name.encode()):  # much faster than an error
            return None
        if not is_small_attribute(item, name.encode()):
            return None
        value = item.attrs[name]
    except RAISED:  # of a type that h5py lacks
        return None
    if isinstance(value, h5py.Empty) and value.dtype.kind == "S":
        return ""
    return as_neutral(value)


def is_small_attribute(item: h5py.HLObject, name: bytes) -> bool:
    """Whether the values of an attribute take little memory: HDF5 reads all of them at once.

    Many texts may share their bytes in the file, so that an attribute of 600 MB fits in a file of
    350 kB. Their lengths are not known before they are read, but none is longer than the file.
    """
    held = h5a.open(item.id, name)
    if not held.dtype.hasobject:
        return bool(held.get_storage_size() <= _MOST_ATTRIBUTE_BYTES)
    count = prod(held.shape or ())
    return count <= _MOST_TEXTS or count * item.file.id.get_filesize() <= _MOST_ATTRIBUTE_BYTES


def read_neutral_attributes(item: h5py.HLObject) -> tuple[Attributes, list[str]]:
    """The attributes of a dataset or group, and the names of those that the neutral form lacks."""
    attributes = Attributes()
    lost = list[str]()
    left_bytes = _MOST_ATTRIBUTE_BYTES
    for name in item.attrs:
        if isinstance(name, bytes):
            lost.append(as_text(name))
            continue
        if not has_meaning(item, name):
            continue
        value = read_attribute(item, name) if left_bytes > 0 else None
        if value is None:
            lost.append(name)
            continue
        attributes[name] = value
        left_bytes -= count_bytes(value)
    return attributes, lost


def count_attributes(item: h5py.HLObject) -> int:
    """The number of attributes of a dataset or a group that say something of its tensors."""
    count = 0
    for name in item.attrs:
        if isinstance(name, bytes) or has_meaning(item, name):
            count += 1
    return count


def has_meaning(item: h5py.HLObject, name: str) -> bool:
    """Whether an attribute is about the tensor, and not about the storage of HDF5 or NetCDF."""
    if name == "CLASS":
        return not is_scale(item)
    return name not in _STORAGE


def is_of_scales(item: h5py.HLObject, name: str) -> bool:
    """Whether an attribute makes an object a scale, or attaches scales to it."""
    if name == "CLASS":
        return is_scale(item)
    return name in OF_SCALES


def is_scale(dataset: h5py.HLObject) -> bool:
    """Whether it has the attribute that marks a dimension's scale."""
    return bool(read_attribute(dataset, "CLASS") == "DIMENSION_SCALE")


def is_bare(dataset: h5py.Dataset) -> bool:
    """Whether a scale is a dimension that has no variable, and so no values."""
    return str(read_attribute(dataset, "NAME")).startswith(BARE)


def is_netcdf(dataset: h5py.Dataset) -> bool:
    """Whether NetCDF wrote the dataset's file, by its mark or by the numbers of dimensions."""
    if has_mark(dataset.file):
        return True
    for d in range(dataset.ndim):
        for scale in find_scales(dataset, d):
            if OWN_ID in scale.attrs:
                return True
    return False


def is_netcdf_file(file: h5py.File) -> bool:
    """Whether NetCDF wrote the file, by its mark or by the number of any dimension."""
    return has_mark(file) or bool(dimension_ids(file))


def has_mark(file: h5py.File) -> bool:
    """Whether a file has the mark of NetCDF's library, which it writes since 2016."""
    return any(name in file.attrs for name in _NETCDF_MARKS)


def dimension_ids(file: h5py.File) -> list[int]:
    """The numbers that NetCDF has given to the dimensions of a file."""
    ids = []
    for _, item in entries(h5g.open(file.id, b"/")):
        if isinstance(item, h5d.DatasetID):
            number = read_attribute(h5py.Dataset(item), OWN_ID)
            if number is not None and np.ndim(number) == 0:
                ids.append(int(number))
    return ids


def find_scales(dataset: h5py.Dataset, dimension: int) -> list[h5py.Dataset]:
    """The scales of a dimension, in their order; none where the references to them are damaged.

    A scale is itself the scale of its first dimension, and has the numbers of its others. h5py's
    `dims` is not used: it opens the files of a scale that is a virtual dataset.
    """
    with contextlib.suppress(*RAISED, FormatError, IndexError):
        if is_scale(dataset):
            if dimension == 0:
                return [dataset]
            numbers = np.ravel(read_attribute(dataset, IDS))
            if len(numbers) == dataset.ndim:
                scale = _find_dimension(int(numbers[dimension]), dataset)
                if scale:
                    return [scale]
        if "DIMENSION_LIST" in dataset.attrs:
            return _follow_references(dataset, dataset.attrs["DIMENSION_LIST"][dimension])
    return []


def _follow_references(dataset: h5py.Dataset, references: Iterable[Any]) -> list[h5py.Dataset]:
    """The other datasets of the file to which references lead."""
    scales = []
    for item in [dataset.file[reference] for reference in references]:
        if isinstance(item, h5py.Dataset):
            require_own_values(item.id, "scale")
            if item != dataset:
                scales.append(item)
    return scales


def groups_of(dataset: h5py.Dataset) -> list[h5py.Group]:
    """The groups that a dataset is in, from the innermost to the file's root."""
    groups = [dataset.parent]
    while groups[-1].name != "/":
        groups.append(groups[-1].parent)
    return groups


def _find_dimension(number: int, dataset: h5py.Dataset) -> h5py.Dataset | None:
    """The scale of the dimension with that number, which is visible from the dataset's group."""
    for group in groups_of(dataset):
        for name in group:
            if not isinstance(name, str):
                continue
            # Damage to other datasets does not matter here.
            with contextlib.suppress(*RAISED, FormatError):
                scale = dataset_in(group, name)
                if scale is None or read_attribute(scale, OWN_ID) != number:
                    continue
                if is_scale(scale):  # variables have such numbers, too
                    return scale
    return None


def read_dimension_names(dataset: h5py.Dataset) -> tuple[str, ...]:
    """The names of the dimensions, "" for one without a name; empty if none has one.

    A dimension's name is its label, as h5py sets it, or else the name of its first scale, as in
    NetCDF.
    """
    attributes = (b"CLASS", b"DIMENSION_LIST", LABELS.encode())
    if not any(h5a.exists(dataset.id, name) for name in attributes):
        return ()
    labels = read_attribute(dataset, LABELS)
    if isinstance(labels, str):
        labels = [labels]
    names = [""] * dataset.ndim
    if isinstance(labels, list) and len(labels) == dataset.ndim:
        names = labels
    for d, name in enumerate(names):
        if name:
            continue
        scales = find_scales(dataset, d)
        if scales:
            names[d] = str(scales[0].name).rpartition("/")[2]
    if not any(names):
        return ()
    return tuple(names)


# The way to a dataset


def parts_of(key: str, path: str) -> list[str]:
    """The parts of a dataset's path; UsageError for "", "." and "..", which HDF5 does not allow."""
    parts = key.strip("/").split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise invalid_name(key, "dataset", "a path such as /group/name", path)
    return parts


def find_dataset(file: h5py.File, key: str | None, path: str) -> tuple[h5py.Dataset, str, str]:
    """The dataset with the path `key`, or the only one; its path as typed; its path of hard links.

    FormatError where there is none.
    """
    if key is None:
        datasets = _find_datasets(file)
        is_tensor = functools.partial(_is_tensor, file)
        key = choose_tensor(to_choose(datasets), None, path, "dataset", is_tensor)
    item, name, hard_path = follow_links(file, key, path)
    if isinstance(item, h5d.DatasetID):
        return h5py.Dataset(item), name, hard_path
    inside = [inner for inner in _find_datasets(file) if inner.startswith(f"{hard_path}/")]
    found = f"a group with {join_names(inside)}" if inside else "a group"
    tensors = [inner for inner in inside if _is_tensor(file, inner)]
    raise FormatError(found, "a dataset", try_hint(path, *tensors), f"{path}::{name}")


def _is_tensor(file: h5py.File, key: str) -> bool:
    """Whether a dataset can be read as a tensor, as far as its header says."""
    try:
        item, _, _ = follow_links(file, key, "")
        dataset = h5py.Dataset(item)
        if dataset.shape is None:
            return False
        if not isinstance(item.get_type(), h5t.TypeOpaqueID):  # which --dtype makes a tensor
            require_numbers(dataset, None)
    except (*RAISED, RevseqError):
        return False
    return True


def dataset_in(group: h5py.Group, name: str) -> h5py.Dataset | None:
    """The dataset of that name in a group; None where there is none, or a link leads elsewhere."""
    part = encode_name(name)
    if "/" in name or not group.id.links.exists(part):
        return None
    if group.id.links.get_info(part).type != h5l.TYPE_HARD:
        return None
    item = h5o.open(group.id, part)
    if not isinstance(item, h5d.DatasetID):
        return None
    return h5py.Dataset(require_own_values(item, name))


def follow_links(
    file: h5py.File, key: str, path: str
) -> tuple[h5g.GroupID | h5d.DatasetID, str, str]:
    """The group or dataset at the path `key`; that path from the root; its path of hard links."""
    todo = parts_of(key, path) if key else []
    name = "/" + "/".join(todo)
    where = f"{path}::{name}"
    root = item = h5g.open(file.id, b"/")
    hard_path = ""
    ways = list[str]()  # the links that were followed, in words
    while todo:
        part = todo.pop(0)
        links = item.links if isinstance(item, h5g.GroupID) else None
        if links and links.exists(encode_name(NOT_COORDINATE + part)):
            part = NOT_COORDINATE + part
        if not links or not links.exists(encode_name(part)):
            tensors = [inner for inner in _find_datasets(file) if _is_tensor(file, inner)]
            if not ways:
                raise unknown_tensor(tensors, name, path, "no such dataset")
            # The link exists, so that no similar name is proposed.
            found = f"{', and '.join(ways)}, which does not exist"
            raise FormatError(found, f"one of {join_names(tensors)}", where=where)
        kind = links.get_info(encode_name(part)).type
        if kind == h5l.TYPE_HARD:
            item = h5o.open(item, encode_name(part))
            hard_path = f"{hard_path}/{part}"
            if isinstance(item, h5d.DatasetID):
                require_own_values(item, where)
            elif not isinstance(item, h5g.GroupID):
                raise FormatError("a data type", "a dataset", where=where)
            continue
        ways.append(f"{hard_path}/{part} is {_describe_link(item, encode_name(part), kind)}")
        if kind != h5l.TYPE_SOFT:
            expected = "a dataset inside the file: other files are not opened"
            raise FormatError(", and ".join(ways), expected, where=where)
        if len(ways) > _MOST_SOFT_LINKS:
            found = f"{ways[0]}, and more soft links follow than HDF5 allows"
            raise FormatError(found, "a dataset", where=where)
        target = as_text(item.links.get_val(encode_name(part)))
        if target.startswith("/"):
            item = root
            hard_path = ""
        todo = [step for step in target.split("/") if step not in ("", ".")] + todo
    return item, name, hard_path


def _describe_link(group: h5g.GroupID, name: bytes, kind: int) -> str:
    if kind == h5l.TYPE_SOFT:
        return f"a soft link to {as_text(group.links.get_val(name))}"
    if kind == h5l.TYPE_EXTERNAL:
        return f"an external link to {'::'.join(map(as_text, group.links.get_val(name)))}"
    return f"a user-defined link of class {kind}"


def to_choose(datasets: dict[str, bool]) -> list[str]:
    """The datasets to choose from where none is named: no scales, unless there are only scales."""
    names = [name for name, is_scale in datasets.items() if not is_scale]
    return names or list(datasets)


def _find_datasets(file: h5py.File) -> dict[str, bool]:
    """The path of each dataset, one for each, and whether the dataset is a scale."""
    datasets = dict[str, bool]()
    for path, item in entries(h5g.open(file.id, b"/")):
        if isinstance(item, h5d.DatasetID):
            datasets[path] = is_scale(h5py.Dataset(item))
        elif isinstance(item, Exception):  # whoever opens it gets the reason
            datasets[path] = False
    return dict(sorted(datasets.items()))


def entries(
    group: h5g.GroupID, path: str = ""
) -> Iterator[tuple[str, h5o.ObjectID | str | Exception]]:
    """Everything in the group at that path, depth first: each path, and what is there.

    That is an object, or words for a link or another name of an object, or the error of one that
    cannot be read. A group may be a member of itself.
    """
    seen = {h5o.get_info(group).addr: path or "/"}
    pending = _list_links(group, path)
    while pending:
        group, path, name, kind, address = pending.pop()
        if kind != h5l.TYPE_HARD:
            yield path, _describe_link(group, name, kind)
        elif address in seen:
            yield path, f"another name of {seen[address]}"
        else:
            seen[address] = path
            try:
                item = h5o.open(group, name)
                inside = _list_links(item, path) if isinstance(item, h5g.GroupID) else []
                if isinstance(item, h5d.DatasetID):
                    require_own_values(item, path)
            except (*RAISED, FormatError) as e:
                yield path, e
            else:
                yield path, item
                pending += inside


def _list_links(group: h5g.GroupID, path: str) -> list[tuple[h5g.GroupID, str, bytes, int, int]]:
    """Each link of the group at that path, the last one first.

    That is the group, the link's path and name, HDF5's number for its kind, and its address. A
    dimension is left out where a variable has its name.
    """
    links: list[tuple[bytes, int, int]] = []
    group.links.iterate(lambda name, link: links.append((name, link.type, link.u)), info=True)
    prefix = NOT_COORDINATE.encode()
    variables = {name.removeprefix(prefix) for name, *_ in links if name.startswith(prefix)}
    return [
        (group, f"{path}/{as_text(name.removeprefix(prefix))}", name, kind, address)
        for name, kind, address in reversed(links)
        if name not in variables
    ]


def encode_name(part: str) -> bytes:
    """The name of a link as bytes; surrogates become the bytes that are not UTF-8."""
    return part.encode("utf-8", "surrogateescape")


def as_text(name: bytes) -> str:
    """The name of a link as text; bytes that are not UTF-8 become surrogates."""
    return name.decode("utf-8", "surrogateescape")
