"""Names in HDF5 files: how a dataset is found, and what its dimensions are called.

Every link on a path is looked at before it is followed. Hard links are followed. Soft links are followed here and not
by HDF5, as long as they stay in the file. External and user-defined links lead to other files or run code, and are
never followed.

A dimension is a scale: a dataset of its name, which NetCDF has also where there is no variable. A variable that has the
name of a dimension and is not its coordinate lies under another name, behind `NOT_COORDINATE`. Sources: the HDF5 High
Level specification of dimension scales; libhdf5/nc4hdf.c of netCDF-C.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import h5py
import numpy as np

from revseq_cli.core.errors import FormatError, listed
from revseq_cli.formats.contents import TensorNameError, chosen, missing, try_hint
from revseq_cli.formats.hdf5 import types
from revseq_cli.formats.hdf5.files import RAISED, checked
from revseq_cli.formats.meaning import Attributes, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

NOT_COORDINATE = "_nc4_non_coord_"
# NetCDF-4 numbers the dimensions of a file from 0 on: a dimension's scale has its own number, and a variable the
# numbers of its dimensions. A scale of several dimensions names the further ones in no other way.
OWN_ID, IDS = "_Netcdf4Dimid", "_Netcdf4Coordinates"
# How the attribute NAME of a dimension begins that has no variable of its name: its dataset has no values.
BARE = "This is a netCDF dimension but not a netCDF variable."
_SCALES, _LABELS, _CLASS = b"DIMENSION_LIST", b"DIMENSION_LABELS", b"CLASS"
_REFERENCES = h5py.vlen_dtype(h5py.ref_dtype)
# Attributes that are about storage: of HDF5's scales, and of NetCDF's library.
STORAGE = {
    "CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS", OWN_ID, IDS, "_nc3_strict",
    "_NCProperties",
}  # fmt: skip


def attributes_of(item: h5py.HLObject) -> tuple[Attributes, list[str]]:
    """The attributes of a dataset or a group, and the names of those that have no place in the neutral form."""
    found, lost = Attributes(), []
    for name in item.attrs:
        if name in STORAGE and (name != "CLASS" or is_scale(item.id)):
            continue
        try:
            value = item.attrs[name]
            value = "" if isinstance(value, h5py.Empty) and value.dtype.kind == "S" else plain(value)
        except RAISED:
            value = None
        if value is None:
            lost.append(name)
        else:
            found[name] = value
    return found, lost


def text_of(item: h5py.h5o.ObjectID, name: bytes) -> bytes:
    """The text of an attribute, without padding; b"" where there is none, or it is no text, or not one."""
    if not h5py.h5a.exists(item, name):
        return b""
    attribute = h5py.h5a.open(item, name)
    kind, space = attribute.get_type(), attribute.get_space()
    if not isinstance(kind, h5py.h5t.TypeStringID) or space.get_simple_extent_npoints() != 1:
        return b""
    padding = b"\0 " if kind.get_strpad() == h5py.h5t.STR_SPACEPAD else b"\0"
    return bytes(_values(attribute).reshape(-1)[0] or b"").rstrip(padding)


def is_scale(dataset: h5py.h5d.DatasetID) -> bool:
    """Whether the dataset has the attribute that marks a dimension's scale."""
    return text_of(dataset, _CLASS) == b"DIMENSION_SCALE"


def is_bare(dataset: h5py.h5d.DatasetID) -> bool:
    """Whether a scale is a dimension that has no variable, and so no values."""
    return text_of(dataset, b"NAME").startswith(BARE.encode())


def is_netcdf(dataset: h5py.Dataset) -> bool:
    """Whether NetCDF wrote the dataset's file: by a mark that it has since 2016, or by the number of a dimension."""
    if any(name in dataset.file.attrs for name in ("_NCProperties", "_nc3_strict")):
        return True
    with contextlib.suppress(*RAISED):  # damage there matters only where it is asked for
        return any(OWN_ID in scale.attrs for d in range(dataset.ndim) for scale in scales_of(dataset, d))
    return False


def scales_of(dataset: h5py.Dataset, dimension: int) -> list[h5py.Dataset]:
    """The scales of that dimension, in their order; references to anything but a dataset of the file are skipped.

    A scale is that of its first dimension, and may name those of others by their numbers. Other datasets that refer to
    themselves are damaged, and have none there.
    """
    if is_scale(dataset.id):
        if dimension == 0:
            return [dataset]
        numbers = numbers_of(dataset, IDS)
        if len(numbers) == dataset.ndim and (scale := _scale_of(numbers[dimension], dataset)):
            return [scale]
    scales = (_dataset(reference, dataset) for reference in _references(dataset)[dimension])
    return [scale for scale in scales if scale is not None and (scale != dataset or is_scale(dataset.id))]


def names_of(dataset: h5py.Dataset) -> tuple[str, ...]:
    """The name of each dimension, "" for one without; nothing where none has one.

    It is the dimension's label, which h5py sets, or else the last part of the path of its first scale, which is how
    NetCDF names dimensions. A scale itself is the scale of its first dimension.
    """
    if not any(h5py.h5a.exists(dataset.id, name) for name in (_CLASS, _SCALES, _LABELS)):  # most datasets have none
        return ()
    names = [""] * dataset.id.rank
    with contextlib.suppress(*RAISED):  # damage there matters only where the scales are copied
        names = labels_of(dataset)
        for d, name in enumerate(names):
            names[d] = name or next((_last_part(scale) for scale in scales_of(dataset, d)), "")
    inner = types.inner_sizes(dataset.id.get_type())
    return (*names, *("",) * len(inner)) if any(names) else ()


def labels_of(dataset: h5py.Dataset) -> list[str]:
    """The label of each dimension, "" for one without."""
    none = [""] * dataset.id.rank
    if not h5py.h5a.exists(dataset.id, _LABELS):
        return none
    attribute = h5py.h5a.open(dataset.id, _LABELS)
    if attribute.shape != (len(none),) or not isinstance(attribute.get_type(), h5py.h5t.TypeStringID):
        return none
    return [bytes(label or b"").rstrip(b"\0").decode("utf-8", "replace") for label in _values(attribute)]


def numbers_of(dataset: h5py.Dataset, key: str) -> list[int]:
    """The integers of an attribute; none where it does not exist, or holds something else."""
    if key not in dataset.attrs:
        return []
    values = np.asarray(dataset.attrs[key])
    return values.reshape(-1).tolist() if values.dtype.kind in "iu" else []


def _scale_of(number: int, dataset: h5py.Dataset) -> h5py.Dataset | None:
    """The scale of the dimension with that number, which is visible from the dataset's group."""
    group = dataset.parent
    while True:
        for name in _datasets_in(group):
            if h5py.h5a.exists(group.id, OWN_ID.encode(), obj_name=name):
                scale = h5py.Dataset(checked(h5py.h5d.open(group.id, name), dataset.name))
                if is_scale(scale.id) and numbers_of(scale, OWN_ID) == [number]:  # variables have such a number, too
                    return scale
        if group.name == "/":
            return None
        group = group.parent


def _datasets_in(group: h5py.Group) -> list[bytes]:
    """The names of the datasets that hard links of a group lead to."""
    links: list[bytes] = []
    group.id.links.iterate(
        lambda name, link: links.append(name) if link.type == h5py.h5l.TYPE_HARD else None, info=True
    )
    found = []
    for name in links:
        with contextlib.suppress(*RAISED):  # damage there matters only where it is asked for
            if h5py.h5o.get_info(group.id, name).type == h5py.h5o.TYPE_DATASET:
                found.append(name)
    return found


def _last_part(scale: h5py.Dataset) -> str:
    return (scale.name or "").rpartition("/")[2]


def _references(dataset: h5py.Dataset) -> NDArray[Any]:
    """For each dimension, the references to its scales; none where the attribute has not the type that HDF5 writes."""
    none = np.empty(dataset.id.rank, _REFERENCES)
    for i in range(len(none)):
        none[i] = np.empty(0, h5py.ref_dtype)
    if not h5py.h5a.exists(dataset.id, _SCALES):
        return none
    attribute = h5py.h5a.open(dataset.id, _SCALES)
    kind = attribute.get_type()
    if attribute.shape != none.shape or not isinstance(kind, h5py.h5t.TypeVlenID):
        return none
    return _values(attribute) if kind.get_super().equal(h5py.h5t.STD_REF_OBJ) else none


def _dataset(reference: h5py.Reference, holder: h5py.Dataset) -> h5py.Dataset | None:
    if not reference:
        return None
    try:
        item = h5py.h5r.dereference(reference, holder.id)
        return h5py.Dataset(checked(item, "scale")) if isinstance(item, h5py.h5d.DatasetID) else None
    except (*RAISED, FormatError):  # the dataset was deleted, or lies in another file
        return None


def _values(attribute: h5py.h5a.AttrID) -> NDArray[Any]:
    values: NDArray[Any] = np.empty(attribute.shape, attribute.dtype)
    attribute.read(values)
    return values


# The way to a dataset

_MOST_SOFT_LINKS = 16  # on the path of one dataset, as in HDF5
_WANTED = "a dataset inside the file"


class Entry(NamedTuple):
    """What stands at a path: a link, an object, the path of an object that has been there, or why it cannot be read."""

    path: str
    depth: int
    found: Link | h5py.h5o.ObjectID | str | Exception


class Listing(NamedTuple):
    """The content of a file: each dataset by its first path of hard links, with whether it is a scale; other links."""

    datasets: dict[str, bool]
    links: dict[str, Link]

    def add(self, entry: Entry) -> None:
        """Note what stands at a path; what cannot be read counts as a dataset, and naming it raises the reason."""
        match entry.found:
            case Link():
                self.links[entry.path] = entry.found
            case h5py.h5d.DatasetID():
                self.datasets[entry.path] = False
                with contextlib.suppress(*RAISED):
                    self.datasets[entry.path] = is_scale(entry.found)
            case Exception():
                self.datasets[entry.path] = False

    @property
    def only(self) -> list[str]:
        """The datasets to choose from where none is named: all but the scales, unless there are only scales."""
        return [name for name, scale in self.datasets.items() if not scale] or list(self.datasets)


class Link(NamedTuple):
    """A soft, external or user-defined link: HDF5's number of its kind, the path that it names, and in which file."""

    kind: int
    target: str = ""
    file: str = ""

    @classmethod
    def read(cls, group: h5py.h5g.GroupID, part: bytes, kind: int | None = None) -> Link | None:
        """The link of that name; None for a hard link. `kind` is HDF5's number for it, where it is known."""
        kind = group.links.get_info(part).type if kind is None else kind
        if kind == h5py.h5l.TYPE_HARD:
            return None
        if kind == h5py.h5l.TYPE_SOFT:
            return cls(kind, text(group.links.get_val(part)))
        if kind == h5py.h5l.TYPE_EXTERNAL:
            file, target = map(text, group.links.get_val(part))
            return cls(kind, target, file)
        return cls(kind)

    def __str__(self) -> str:
        if self.kind == h5py.h5l.TYPE_SOFT:
            return f"a soft link to {self.target}"
        if self.kind == h5py.h5l.TYPE_EXTERNAL:
            return f"an external link to {self.file}::{self.target}"
        return f"a user-defined link of class {self.kind}"

    def hint(self, path: str, rest: list[str]) -> str:
        """A hint that names the target of an external link directly, if its file exists."""
        file = os.path.join(os.path.dirname(path), self.file)  # noqa: PTH118, PTH120 - any text, as the file has it
        if self.kind != h5py.h5l.TYPE_EXTERNAL or not os.path.isfile(file):  # noqa: PTH113
            return ""
        return try_hint(file, "/".join([self.target.rstrip("/"), *rest]))


def parts_of(key: str, path: str) -> list[str]:
    """The parts of a dataset's path; TensorNameError for one that is empty, . or .., which mean more to HDF5."""
    parts = key.strip("/").split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise TensorNameError.of(key, "dataset", "a path such as /group/name", path)
    return parts


def names_in(file: h5py.File) -> list[str]:
    """The path of every dataset; one that has several paths is named once."""
    return list(_listing(file).datasets)


def find(file: h5py.File, key: str | None, path: str) -> tuple[h5py.Dataset, str, str]:
    """The dataset with the path `key`, or the only one; FormatError where there is none.

    With it come its path as it was typed, and a path to it of hard links alone.
    """
    item, name, place = _followed(file, _only(file, path) if key is None else key, path)
    if not isinstance(item, h5py.h5d.DatasetID):
        inside = [each for each in _listing(file).datasets if each.startswith(f"{place}/")]
        found = f"is a group with {listed(inside)}" if inside else "is a group"
        raise FormatError(found, "a dataset", try_hint(path, *inside) if inside else "", f"{path}::{name}")
    return h5py.Dataset(item), name, place


def dataset_in(group: h5py.Group, name: str) -> h5py.Dataset | None:
    """The dataset of that name in a group; None where there is none, or a link leads elsewhere."""
    part = _bytes(name)
    if "/" in name or not group.id.links.exists(part) or group.id.links.get_info(part).type != h5py.h5l.TYPE_HARD:
        return None
    is_dataset = h5py.h5o.get_info(group.id, part).type == h5py.h5o.TYPE_DATASET
    return h5py.Dataset(checked(h5py.h5d.open(group.id, part), name)) if is_dataset else None


def group_at(file: h5py.File, key: str | None, path: str) -> tuple[h5py.h5g.GroupID, str] | None:
    """The group with the path `key`, and a path of hard links to it; None for a dataset. Without a key, the root."""
    if not key or not key.strip("/"):
        return h5py.h5g.open(file.id, b"/"), ""
    item, _, place = _followed(file, key, path)
    return (item, place) if isinstance(item, h5py.h5g.GroupID) else None


def _followed(file: h5py.File, key: str, path: str) -> tuple[h5py.h5g.GroupID | h5py.h5d.DatasetID, str, str]:
    """The group or dataset that the path `key` leads to, that path from the root on, and a path of hard links to it."""
    todo = parts_of(key, path)
    name = "/" + "/".join(todo)
    where = f"{path}::{name}"
    if any("\udc80" <= c <= "\udcff" for c in key):
        raise FormatError("its name is not UTF-8", "a UTF-8 name; h5copy can give it one", where=where)
    root = h5py.h5g.open(file.id, b"/")
    item, place, followed = root, "", list[str]()
    while todo:
        part, *todo = todo
        if isinstance(item, h5py.h5g.GroupID) and item.links.exists(_bytes(NOT_COORDINATE + part)):
            part = NOT_COORDINATE + part
        if not isinstance(item, h5py.h5g.GroupID) or not item.links.exists(_bytes(part)):
            found = f"{', and '.join(followed)}, which does not exist" if followed else "no such dataset"
            raise missing(names_in(file), name, path, found)
        link = Link.read(item, _bytes(part))
        if link is None:
            item, place = _open(item, _bytes(part), where), f"{place}/{part}"
        elif link.kind == h5py.h5l.TYPE_SOFT:
            followed.append(f"{place}/{part} is {link}")
            if len(followed) > _MOST_SOFT_LINKS:
                raise FormatError(
                    f"has more than {_MOST_SOFT_LINKS} soft links on its way: {followed[0]}", _WANTED, where=where
                )
            if link.target.startswith("/"):
                item, place = root, ""
            todo = [step for step in link.target.split("/") if step not in ("", ".")] + todo
        else:
            ways = "".join(f"{each}, and " for each in followed)
            found = f"{ways}{place}/{part} is {link}"
            raise FormatError(found, f"{_WANTED}; other files are not opened", link.hint(path, todo), where)
    return item, name, place


def _open(group: h5py.h5g.GroupID, part: bytes, where: str) -> h5py.h5g.GroupID | h5py.h5d.DatasetID:
    match h5py.h5o.get_info(group, part).type:
        case h5py.h5o.TYPE_GROUP:
            return h5py.h5g.open(group, part)
        case h5py.h5o.TYPE_DATASET:
            return checked(h5py.h5d.open(group, part), where)
    raise FormatError("is a data type, or something that h5py does not know", "a dataset", where=where)


def _only(file: h5py.File, path: str) -> str:
    """The path of the only dataset, where the scales of its dimensions do not count."""
    listing = _listing(file)
    names = listing.only
    if not names and listing.links:
        found = f"has no dataset, only links: {listed(f'{name} is {link}' for name, link in listing.links.items())}"
        hints = (link.hint(path, []) for link in listing.links.values())
        raise FormatError(found, _WANTED, next(filter(None, hints), ""), path)
    return chosen(names, None, path, "dataset")


def _listing(file: h5py.File) -> Listing:
    listing = Listing({}, {})
    for entry in entries(h5py.h5g.open(file.id, b"/")):
        listing.add(entry)
    return Listing(dict(sorted(listing.datasets.items())), dict(sorted(listing.links.items())))


def entries(group: h5py.h5g.GroupID, path: str = "") -> Iterator[Entry]:
    """Everything in the group at that path, depth first; in the order of creation where a group remembers it.

    An object may have several names, and a group may be a member of itself. HDF5 is asked once for all links of a
    group, and once for each object.
    """
    seen = {h5py.h5o.get_info(group).addr: path or "/"}
    pending = [(group, path, _links(group))]
    while pending:
        group, path, links = pending[-1]
        if not links:
            pending.pop()
            continue
        part, kind, address = links.pop()
        name, depth = f"{path}/{text(part).removeprefix(NOT_COORDINATE)}", len(pending) - 1
        if link := Link.read(group, part, kind):
            yield Entry(name, depth, link)
        elif address in seen:
            yield Entry(name, depth, seen[address])
        else:
            seen[address] = name
            try:
                item = h5py.h5o.open(group, part)
                inside = _links(item) if isinstance(item, h5py.h5g.GroupID) else None
                if isinstance(item, h5py.h5d.DatasetID):
                    checked(item, name)
            except (*RAISED, FormatError) as e:
                yield Entry(name, depth, e)
                continue
            yield Entry(name, depth, item)
            if inside:
                pending.append((item, name, inside))


def _links(group: h5py.h5g.GroupID) -> list[tuple[bytes, int, int]]:
    """Each link of a group, the last one first: its name, HDF5's number of its kind, the address of its object.

    A dimension is left out where a variable has its name.
    """
    found: list[tuple[bytes, int, int]] = []
    tracked = group.get_create_plist().get_link_creation_order() & h5py.h5p.CRT_ORDER_INDEXED
    order = h5py.h5.INDEX_CRT_ORDER if tracked else h5py.h5.INDEX_NAME
    group.links.iterate(lambda name, link: found.append((name, link.type, link.u)), idx_type=order, info=True)
    prefix = NOT_COORDINATE.encode()
    variables = {name.removeprefix(prefix) for name, *_ in found if name.startswith(prefix)}
    return [link for link in reversed(found) if link[0] not in variables]


def _bytes(part: str) -> bytes:
    return part.encode("utf-8", "surrogateescape")


def text(name: bytes) -> str:
    """The name of a link as text; bytes that are not UTF-8 become surrogates."""
    return name.decode("utf-8", "surrogateescape")
