"""What a Zarr store contains, by its metadata."""

from __future__ import annotations

from revseq_cli.core.dtypes import data_type_of
from revseq_cli.core.errors import RevseqError
from revseq_cli.core.tensors import DataType, TensorDesc
from revseq_cli.formats.contract import Location
from revseq_cli.formats.listings import GROUP, Contents, Item, find_sole_key
from revseq_cli.formats.zarr.metadata import attributes_of, read_metadata
from revseq_cli.formats.zarr.store import ZarrNode, open_store


def list_contents(location: Location, asked: DataType | None) -> Contents | None:
    """What the store or the group holds.

    None if the location is that of an array, or of nothing.
    """
    store = open_store(location.path)
    key = (location.key or "").strip("/")
    group = store.read_node(key)
    if group is None or group.is_array:
        return None
    items = []
    pending = [(path, 0) for path in store.list_folders(key)]
    while pending:  # depth first and by name
        path, depth = pending.pop()
        item = Item(path, depth=depth)
        try:
            node = store.read_node(path)
            if node and not node.is_array:
                pending += [(inside, depth + 1) for inside in store.list_folders(path)]
            if node:
                item = _describe_node(node, item, asked)
        except RevseqError as e:  # what is wrong with its metadata is listed instead
            item = item.with_reason(e)
        items.append(item)
    sole_key = None
    if location.key is None:
        sole_key = find_sole_key([item for item in items if not item.is_group])
    attributes, _ = attributes_of(group)
    return Contents(
        location.path, "zarr", tuple(items), sole_key, key, len(attributes), is_tree=True
    )


def _describe_node(node: ZarrNode, item: Item, asked: DataType | None) -> Item:
    """The item of an array or a group; FormatError for an array that is not a tensor."""
    if node.is_array:
        array = read_metadata(node, item.key, asked)
        item = item._replace(
            desc=TensorDesc(data_type_of(array.dtype), array.sizes),
            sizes=array.sizes,
            dimensions=array.dimensions,
            details=array.details,
        )
    else:
        item = item._replace(what=GROUP)
    attributes, _ = attributes_of(node)
    return item._replace(attributes=len(attributes))
