"""What an HDF5 file contains. Neither values nor other files are read."""

from __future__ import annotations

import h5py
from h5py import h5d, h5g, h5o

from revseq_cli.core.dtypes import data_type_of, require_sizes
from revseq_cli.core.errors import FormatError
from revseq_cli.core.tensors import DataType, TensorDesc
from revseq_cli.formats.contract import Location
from revseq_cli.formats.hdf5.attribute_io import (
    count_attributes,
    has_netcdf_mark,
    is_bare,
    is_scale,
)
from revseq_cli.formats.hdf5.elements import require_numbers
from revseq_cli.formats.hdf5.files import RAISED, open_hdf5
from revseq_cli.formats.hdf5.links import follow_links, leave_out_scales, list_objects
from revseq_cli.formats.hdf5.scales import read_dimension_names
from revseq_cli.formats.hdf5.source import NETCDF4, storage_details
from revseq_cli.formats.listings import DIMENSION, GROUP, Contents, Item, find_sole_key


def list_contents(location: Location, asked: DataType | None) -> Contents | None:
    """What the file or the group holds; None if the location is that of a dataset."""
    items = []
    datasets = dict[str, bool]()  # whether each is a scale, by its path
    with open_hdf5(location.path) as file:
        key = (location.key or "").strip("/")
        group, _, hard_path = follow_links(file, key, location.path)
        if not isinstance(group, h5g.GroupID):
            return None
        # One at a time: HDF5 is slow with many open objects.
        for path, entry in list_objects(group, hard_path):
            depth = path.count("/") - hard_path.count("/") - 1
            items.append(_describe_entry(entry, Item(path, depth=depth), asked))
            if isinstance(entry, h5d.DatasetID):
                datasets[path] = is_scale(h5py.Dataset(entry))
            elif isinstance(entry, Exception):
                datasets[path] = False
        attributes = count_attributes(h5py.Group(group))
        label = NETCDF4 if has_netcdf_mark(file) else ""
    sole_key = None
    if location.key is None:
        choices = {*leave_out_scales(datasets)}
        sole_key = find_sole_key([item for item in items if item.key in choices])
    return Contents(
        location.path,
        "h5",
        tuple(items),
        sole_key,
        hard_path,
        attributes,
        is_tree=True,
        label=label,
    )


def _describe_entry(
    entry: h5o.ObjectID | str | Exception, item: Item, asked: DataType | None
) -> Item:
    """The item of what `list_objects` has listed."""
    match entry:
        case h5d.DatasetID():
            return _describe_dataset(h5py.Dataset(entry), item, asked)
        case h5g.GroupID():
            return item._replace(what=GROUP, attributes=count_attributes(h5py.Group(entry)))
        case Exception():
            return _describe_damage(entry, item)
        case str():
            return item._replace(what=entry)
    return item._replace(what="a data type")


def _describe_dataset(dataset: h5py.Dataset, item: Item, asked: DataType | None) -> Item:
    """The item of a dataset by its header, or with the reason why it is not a tensor."""
    try:
        item = item._replace(
            sizes=dataset.id.shape,
            dimensions=read_dimension_names(dataset),
            attributes=count_attributes(dataset),
            details=storage_details(dataset),
        )
        if item.sizes is None:
            return item._replace(what="no elements")
        if is_bare(dataset) and is_scale(dataset):
            return item._replace(what=DIMENSION)
        data_type = data_type_of(require_numbers(dataset, asked))
        require_sizes(item.sizes, item.key)
        return item._replace(desc=TensorDesc(data_type, item.sizes))
    except (*RAISED, FormatError) as e:
        return _describe_damage(e, item)


def _describe_damage(error: Exception, item: Item) -> Item:
    """The item of what cannot be read, with the reason."""
    if isinstance(error, FormatError):
        return item.with_reason(error)
    return item._replace(what=f"cannot be read: {str(error)[:80]}", is_damaged=True)
