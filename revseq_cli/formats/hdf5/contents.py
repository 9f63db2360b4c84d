"""What an HDF5 file holds, as a tree: no values are read, and no link to other files is followed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.formats.contents import GROUP, Contents, Item, only_of
from revseq_cli.formats.hdf5 import links, netcdf, scales, types
from revseq_cli.formats.hdf5.files import RAISED, opened
from revseq_cli.formats.hdf5.library import h5py
from revseq_cli.formats.hdf5.source import details_of, refuse_other_files
from revseq_cli.formats.storage import positioned
from revseq_cli.ground.dtypes import data_type_of, require_sizes
from revseq_cli.ground.errors import FormatError
from revseq_cli.ground.tensors import DataType, TensorDesc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from revseq_cli.formats.contract import Address
    from revseq_cli.formats.documents import TextTypes


class _Place(NamedTuple):
    """A group that is still to be looked at, its path, and the number of groups above it that are listed."""

    group: h5py.h5g.GroupID
    path: str
    depth: int


def contents(address: Address, types: TextTypes) -> Contents | None:
    """What the file or the group holds; None where the address is that of a dataset."""
    path = address.path
    with positioned.opened(path), opened(path) as file:
        found = links.group_at(file, address.key, path)
        if found is None:
            return None
        group, place = found
        tree = _Tree(types.asked)
        items = tuple(tree.items(_Place(group, place, 0)))
        count = h5py.h5a.get_num_attrs(group)
    only = tree.only if address.key is None else None
    return Contents(path, "h5", items, only, place if address.key else "", count, is_tree=True)


class _Tree:
    """Collects items; `asked` is the data type of opaque elements."""

    def __init__(self, asked: DataType | None) -> None:
        self._asked = asked
        self._seen: dict[int, str] = {}  # the first path of each object
        self._datasets: list[tuple[Item, bool]] = []  # with whether it is a scale

    @property
    def only(self) -> str | None:
        """The key of the only dataset, if it is a tensor; scales do not count unless there is nothing else."""
        found = [item for item, scale in self._datasets if not scale] or [item for item, _ in self._datasets]
        return only_of(found)

    def items(self, place: _Place) -> Iterator[Item]:
        """Everything in a group, depth first; in the order of creation where the group remembers it, else by name."""
        self._seen[h5py.h5o.get_info(place.group).addr] = place.path or "/"
        pending = [(place, iter(_names(place.group)))]
        while pending:
            (group, path, depth), names = pending[-1]
            name = next(names, None)
            if name is None:
                pending.pop()
                continue
            key = f"{path}/{links.text(name)}"
            item, inside = self._item(group, name, key, depth)
            yield item
            if inside:
                pending.append((_Place(inside, key, depth + 1), iter(_names(inside))))

    def _item(self, group: h5py.h5g.GroupID, name: bytes, key: str, depth: int) -> tuple[Item, h5py.h5g.GroupID | None]:
        """What stands under that name in the group; and itself where it is a group."""
        if link := links.Link.read(group, name):
            return Item(key, what=str(link), depth=depth), None
        try:
            info = h5py.h5o.get_info(group, name)
            if info.addr in self._seen:  # an object may have several names, and a group may be a member of itself
                return Item(key, what=f"another name of {self._seen[info.addr]}", depth=depth), None
            self._seen[info.addr] = key
            if info.type == h5py.h5o.TYPE_GROUP:
                inside = h5py.h5g.open(group, name)
                return Item(key, what=GROUP, depth=depth, attributes=h5py.h5a.get_num_attrs(inside)), inside
            if info.type != h5py.h5o.TYPE_DATASET:
                return Item(key, what="a data type", depth=depth), None
            dataset = h5py.Dataset(h5py.h5d.open(group, name))
            scale = scales.is_scale(dataset)
            item = self._dataset(dataset, Item(key, depth=depth), is_scale=scale)
        except RAISED as e:
            item, scale = Item(key, what=f"cannot be read: {str(e)[:80]}", depth=depth, is_damaged=True), False
        self._datasets.append((item, scale))
        return item, None

    def _dataset(self, dataset: h5py.Dataset, item: Item, *, is_scale: bool) -> Item:
        sizes = dataset.shape
        item = item._replace(
            sizes=sizes,
            attributes=h5py.h5a.get_num_attrs(dataset.id),
            dimensions=scales.names_of(dataset),
            details=details_of(dataset),
        )
        kind = dataset.id.get_type()
        try:
            if sizes is None:
                return item._replace(what=f"{types.description(kind)}, no elements")
            if is_scale and netcdf.is_bare_dimension(dataset):
                return item._replace(what="dimension")
            data_type = data_type_of(types.dtype_of(kind, self._asked))
            require_sizes(sizes, item.key)
            refuse_other_files(dataset, item.key)
        except FormatError as e:
            return item.refused(e)
        return item._replace(desc=TensorDesc(data_type, sizes))


def _names(group: h5py.h5g.GroupID) -> list[bytes]:
    """The name of each link in a group."""
    tracked = group.get_create_plist().get_link_creation_order() & h5py.h5p.CRT_ORDER_INDEXED
    names: list[bytes] = []
    order = h5py.h5.INDEX_CRT_ORDER if tracked else h5py.h5.INDEX_NAME
    group.links.iterate(names.append, idx_type=order)
    return names
