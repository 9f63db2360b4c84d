"""How a dataset is found in an HDF5 file: every link on its path is looked at before it is followed.

Hard links are followed. Soft links are followed here and not by HDF5, as long as they stay in the file. External and
user-defined links lead to other files or run code, and are never followed.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, NamedTuple

import h5py

from revseq_cli.core.errors import FormatError, listed
from revseq_cli.formats.contents import TensorNameError, chosen, missing, try_hint
from revseq_cli.formats.hdf5 import types
from revseq_cli.formats.hdf5.files import RAISED, checked
from revseq_cli.formats.hdf5.scales import NOT_COORDINATE, is_scale

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_SOFT_LINKS = 16  # on the path of one dataset, as in HDF5
_MOST_LOOKED_AT = 100  # datasets whose data types are read for a hint
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
        raise FormatError(found, "a dataset", _hint(file, path, inside), f"{path}::{name}")
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


def _hint(file: h5py.File, path: str, names: list[str]) -> str:
    """A hint to name one of these datasets, if there are any: one of a type that a tensor may have, if some have."""
    likely = [name for name in names[:_MOST_LOOKED_AT] if _may_be_tensor(file, name)]
    return try_hint(path, *(likely or names)) if names else ""


def _may_be_tensor(file: h5py.File, name: str) -> bool:
    try:
        types.dtype_of(h5py.h5d.open(file.id, _bytes(name)).get_type())
    except (FormatError, OSError, RuntimeError, KeyError, ValueError, TypeError):  # also what h5py does not know
        return False
    return True


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
