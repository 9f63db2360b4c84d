"""The way to an object of an HDF5 file, and lists of all objects.

Every link on a path is looked at before it is followed. Soft links are followed here, not by HDF5,
and only inside the file. External and user-defined links are never followed: they lead to other
files, or run code.

In NetCDF, a variable that has the name of a dimension but is not its coordinate is stored under
that name with the prefix `NOT_COORDINATE`. Here it is found under its own name.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

import h5py
from h5py import h5d, h5g, h5l, h5o, h5t

from revseq_cli.core.errors import FormatError, RevseqError, UsageError, join_names
from revseq_cli.formats.contract import Original
from revseq_cli.formats.hdf5.attribute_io import is_scale
from revseq_cli.formats.hdf5.elements import require_numbers
from revseq_cli.formats.hdf5.files import RAISED, decode_name, encode_name, require_own_values
from revseq_cli.formats.refusals import (
    choose_tensor,
    make_name_error,
    make_name_taken_error,
    make_unknown_key_error,
    propose_keys,
)

NOT_COORDINATE = "_nc4_non_coord_"
_MOST_SOFT_LINKS = 16  # on the path of one dataset, as in HDF5


class Target(NamedTuple):
    """What is at the end of a path.

    `name` is that path, from the root of the file on, and `hard_path` one that has only hard links.
    """

    item: h5g.GroupID | h5d.DatasetID
    name: str
    hard_path: str


def parts_of(key: str, path: str) -> list[str]:
    """The parts of a dataset's path; UsageError for "", "." and "..", which HDF5 does not allow."""
    parts = key.strip("/").split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise make_name_error(key, "dataset", "a path such as /group/name", path)
    return parts


def find_dataset(file: h5py.File, key: str | None, path: str) -> Target:
    """The dataset with the path `key`, or without one the only dataset of the file.

    FormatError if there is none.
    """
    if key is None:
        datasets = _find_datasets(file)
        is_tensor = functools.partial(_is_tensor, file)
        key = choose_tensor(leave_out_scales(datasets), None, path, "dataset", is_tensor)
    target = follow_links(file, key, path)
    if isinstance(target.item, h5d.DatasetID):
        return target
    inside = [inner for inner in _find_datasets(file) if inner.startswith(f"{target.hard_path}/")]
    found = f"a group with {join_names(inside)}" if inside else "a group"
    tensors = [inner for inner in inside if _is_tensor(file, inner)]
    raise FormatError(found, "a dataset", propose_keys(path, *tensors), f"{path}::{target.name}")


def _is_tensor(file: h5py.File, key: str) -> bool:
    """Whether a dataset can be read as a tensor, as far as its header says."""
    try:
        item = follow_links(file, key, "").item
        dataset = h5py.Dataset(item)
        if dataset.shape is None:
            return False
        if not isinstance(item.get_type(), h5t.TypeOpaqueID):  # which --dtype makes a tensor
            require_numbers(dataset, None)
    except (*RAISED, RevseqError):
        return False
    return True


def follow_links(file: h5py.File, key: str, path: str) -> Target:
    """The group or dataset at the path `key`, which is "" for the root of the file.

    FormatError if there is none.
    """
    walk = _Walk(file, path, parts_of(key, path) if key else [])
    while walk.names_left:
        walk.follow_next()
    return Target(walk.item, walk.name, walk.hard_path)


class _Walk:
    """A walk from the root of a file along the links of a path.

    `item` is the object that it has reached, and `hard_path` a path of hard links to it.
    `names_left` are the names of the links that follow. `other_links` says in words which links on
    the way are not hard links.
    """

    def __init__(self, file: h5py.File, path: str, parts: list[str]) -> None:
        self.item: h5g.GroupID | h5d.DatasetID = h5g.open(file.id, b"/")
        self.hard_path = ""
        self.name = "/" + "/".join(parts)
        self.names_left = parts
        self.other_links = list[str]()
        self._file = file
        self._path = path
        self._where = f"{path}::{self.name}"

    def follow_next(self) -> None:
        """Follow the next link; FormatError for one that leads nowhere, or out of the file."""
        name = self.names_left.pop(0)
        if not isinstance(self.item, h5g.GroupID):
            raise self._report_missing()
        links = self.item.links
        name = _stored_name(self.item, name)
        link = encode_name(name)
        if not links.exists(link):
            raise self._report_missing()
        kind = links.get_info(link).type
        if kind == h5l.TYPE_HARD:
            self._enter(name)
            return
        words = _describe_link(self.item, link, kind)
        self.other_links.append(f"{self.hard_path}/{name} is {words}")
        if kind != h5l.TYPE_SOFT:
            expected = "a dataset inside the file: other files are not opened"
            raise FormatError(", and ".join(self.other_links), expected, where=self._where)
        if len(self.other_links) > _MOST_SOFT_LINKS:
            found = f"{self.other_links[0]}, and more soft links follow than HDF5 allows"
            raise FormatError(found, "a dataset", where=self._where)
        self._turn_to(decode_name(links.get_val(link)))

    def _enter(self, name: str) -> None:
        """Go on to the object of that name, to which a hard link leads."""
        item = h5o.open(self.item, encode_name(name))
        self.hard_path = f"{self.hard_path}/{name}"
        if isinstance(item, h5d.DatasetID):
            require_own_values(item, self._where)
        elif not isinstance(item, h5g.GroupID):
            raise FormatError("a data type", "a dataset", where=self._where)
        self.item = item

    def _turn_to(self, target: str) -> None:
        """Go on along the path in a soft link, which begins at the root or in this group."""
        if target.startswith("/"):
            self.item = h5g.open(self._file.id, b"/")
            self.hard_path = ""
        parts = [part for part in target.split("/") if part not in ("", ".")]
        self.names_left = parts + self.names_left

    def _report_missing(self) -> RevseqError:
        """The error for a path that nothing has, with the tensors of the file."""
        tensors = [key for key in _find_datasets(self._file) if _is_tensor(self._file, key)]
        if not self.other_links:
            return make_unknown_key_error(tensors, self.name, self._path, "no such dataset")
        # The link exists, so that no similar name is proposed.
        found = f"{', and '.join(self.other_links)}, which does not exist"
        return FormatError(found, f"one of {join_names(tensors)}", where=self._where)


def _stored_name(group: h5g.GroupID, name: str) -> str:
    """The name in the file of what a user calls `name`.

    Where a variable has the name of a dimension, NetCDF stores it with a prefix; the variable is
    meant, and not the dimension.
    """
    if group.links.exists(encode_name(NOT_COORDINATE + name)):
        return NOT_COORDINATE + name
    return name


def _describe_link(group: h5g.GroupID, name: bytes, kind: int) -> str:
    if kind == h5l.TYPE_SOFT:
        return f"a soft link to {decode_name(group.links.get_val(name))}"
    if kind == h5l.TYPE_EXTERNAL:
        return f"an external link to {'::'.join(map(decode_name, group.links.get_val(name)))}"
    return f"a user-defined link of class {kind}"


# Single links, none of which is followed unless it is a hard link


def _open_hard_link(group: h5g.GroupID, name: str) -> h5o.ObjectID | None:
    """What a hard link of that name in a group leads to; None without one."""
    link = encode_name(name)
    if not group.links.exists(link) or group.links.get_info(link).type != h5l.TYPE_HARD:
        return None
    return h5o.open(group, link)


def dataset_in(group: h5py.Group, name: str) -> h5py.Dataset | None:
    """The dataset of that name in a group; None if there is none, or a link leads elsewhere."""
    item = None if "/" in name else _open_hard_link(group.id, name)
    if not isinstance(item, h5d.DatasetID):
        return None
    return h5py.Dataset(require_own_values(item, name))


def has_path(file: h5py.File, path: str) -> bool:
    """Whether something has that path, without following links."""
    group = h5g.open(file.id, b"/")
    *groups, last = path.strip("/").split("/")
    for name in groups:
        item = _open_hard_link(group, name) if name else group
        if not isinstance(item, h5g.GroupID):
            return False
        group = item
    return bool(group.links.exists(encode_name(last)))


def groups_of(dataset: h5py.Dataset) -> list[h5py.Group]:
    """The groups that a dataset is in, from the file's root to the innermost."""
    groups = [dataset.parent]
    while groups[0].name != "/":
        groups.insert(0, groups[0].parent)
    return groups


def find_old_dataset(file: h5py.File, name: str, original: Original) -> h5py.Dataset | None:
    """The dataset at that path, or None; UsageError if something else is there or on the way."""
    item = h5g.open(file.id, b"/")
    path = ""
    for part in name.strip("/").split("/"):
        if not isinstance(item, h5g.GroupID):
            raise _make_taken_error(path, original)
        link = _stored_name(item, part)
        path = f"{path}/{link}"
        if not item.links.exists(encode_name(link)):
            return None
        item = _open_hard_link(item, link)
    if not isinstance(item, h5d.DatasetID):
        raise _make_taken_error(path, original)
    return h5py.Dataset(require_own_values(item, f"{original.path}::{name}"))


def _make_taken_error(path: str, original: Original) -> UsageError:
    """The error for a new dataset whose path is taken, or leads through what is not a group."""
    if original.is_input:
        return make_name_taken_error(path, original.path)
    return UsageError(f"has something else at {path}", "a name that is free", where=original.path)


# All objects


def leave_out_scales(datasets: dict[str, bool]) -> list[str]:
    """The paths of datasets that are not scales, or all of them if all are scales.

    `datasets` says whether the dataset of a path is a scale.
    """
    paths = [path for path in datasets if not datasets[path]]
    return paths or list(datasets)


def _find_datasets(file: h5py.File) -> dict[str, bool]:
    """The path of each dataset, and whether the dataset is a scale.

    One that cannot be read is among them: whoever opens it gets the reason.
    """
    datasets = dict[str, bool]()
    for path, item in list_objects(h5g.open(file.id, b"/")):
        if isinstance(item, h5d.DatasetID):
            datasets[path] = is_scale(h5py.Dataset(item))
        elif isinstance(item, Exception):
            datasets[path] = False
    return dict(sorted(datasets.items()))


class _Link(NamedTuple):
    """A link of a group.

    `path` is that of what it leads to, as a user types it, and `name` its name in the group. `kind`
    is HDF5's number for the kind of link. A hard link leads to the object at `address` in the file.
    """

    group: h5g.GroupID
    path: str
    name: bytes
    kind: int
    address: int


def list_objects(
    group: h5g.GroupID, path: str = ""
) -> Iterator[tuple[str, h5o.ObjectID | str | Exception]]:
    """Everything in the group at that path, depth first: each path, and what is there.

    That is an object, or words for a link or another name of an object, or the error of one that
    cannot be read. A group may be a member of itself.
    """
    first_paths = {h5o.get_info(group).addr: path or "/"}  # of each object, by its address
    pending = _list_links(group, path)
    while pending:
        link = pending.pop()
        if link.kind != h5l.TYPE_HARD:
            yield link.path, _describe_link(link.group, link.name, link.kind)
            continue
        if link.address in first_paths:
            yield link.path, f"another name of {first_paths[link.address]}"
            continue
        first_paths[link.address] = link.path
        try:
            item = h5o.open(link.group, link.name)
            inside = _list_links(item, link.path) if isinstance(item, h5g.GroupID) else []
            if isinstance(item, h5d.DatasetID):
                require_own_values(item, link.path)
        except (*RAISED, FormatError) as e:
            yield link.path, e
            continue
        yield link.path, item
        pending += inside


def _list_links(group: h5g.GroupID, path: str) -> list[_Link]:
    """The links of the group at that path, the last one first.

    A dimension is left out if a variable has its name.
    """
    infos: list[tuple[bytes, int, int]] = []  # each link's name, kind and address
    group.links.iterate(lambda name, link: infos.append((name, link.type, link.u)), info=True)
    prefix = NOT_COORDINATE.encode()
    variables = {name.removeprefix(prefix) for name, *_ in infos if name.startswith(prefix)}
    links = []
    for name, kind, address in reversed(infos):
        if name not in variables:
            own_path = f"{path}/{decode_name(name.removeprefix(prefix))}"
            links.append(_Link(group, own_path, name, kind, address))
    return links
