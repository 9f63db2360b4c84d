"""Datasets in a copy of INPUT's file: INPUT's with other values, or a new one like it.

All else in the file stays as it is, byte by byte, but NetCDF's history gets a line.
"""

from __future__ import annotations

from math import prod

import h5py

from revseq_cli.core import signals
from revseq_cli.core.errors import UsageError, join_names
from revseq_cli.formats.contract import Original
from revseq_cli.formats.hdf5.attributes import is_of_scales
from revseq_cli.formats.hdf5.datasets import (
    NewDataset,
    create_dataset,
    find_old_dataset,
    refuse_groups_of_classic_model,
)
from revseq_cli.formats.hdf5.files import RAISED, open_dataset, open_hdf5
from revseq_cli.formats.hdf5.new_attributes import add_history, copy_attribute
from revseq_cli.formats.hdf5.properties import allocate_early, copy_properties
from revseq_cli.formats.hdf5.scales import find_scales, is_netcdf_dataset
from revseq_cli.formats.hdf5.source import Hdf5Source
from revseq_cli.formats.refusals import make_name_taken_error


class _DatasetInCopy(NewDataset):
    """A dataset in a copy of the file of INPUT, whose properties it has."""

    def __init__(self, name: str, template: Hdf5Source, where: str, original: Original) -> None:
        super().__init__(name, template, where, copy_properties(template.properties))
        self.original = original
        self.options = {"mode": "r+"}
        self.is_raw = template.raw is not None
        self._hard_path = template.hard_path


class ReplacedDataset(_DatasetInCopy):
    """INPUT's dataset, which gets other values."""

    def create_in(self, file: h5py.File) -> tuple[h5py.Dataset, list[str]]:
        dataset = open_dataset(file, self._hard_path, self.where)
        notes = add_history(file) if is_netcdf_dataset(dataset) else []
        if self.properties.get_nfilters():
            _shrink_chunks(dataset)
        return dataset, notes


def _shrink_chunks(dataset: h5py.Dataset) -> None:
    """Write one byte instead of each stored chunk, before the new chunks are written.

    HDF5 then joins the free space of neighbours, into which new chunks of other sizes fit: a copy
    of a file of 7 MB has 0.3 % of dead space instead of 5 %. And HDF5 drops the old filter mask,
    which it would keep for a new chunk of the same size, so that nobody could read it. A signal
    stops this, since a file may have millions of chunks.
    """
    starts: list[tuple[int, ...]] = []
    dataset.id.chunk_iter(lambda chunk: starts.append(tuple(chunk.chunk_offset)))
    chunk_bytes = prod(dataset.chunks) * dataset.id.get_type().get_size()
    count = 2 if chunk_bytes == 1 else 1  # another size than that of a new chunk
    for start in sorted(starts):
        signals.check()
        dataset.id.write_direct_chunk(start, bytes(count))


class DatasetLikeInput(_DatasetInCopy):
    """A new dataset like INPUT's, under another name."""

    def __init__(self, name: str, template: Hdf5Source, where: str, original: Original) -> None:
        super().__init__(name, template, where, original)
        self.properties.set_obj_track_times(False)  # so that the same job gives the same bytes
        allocate_early(self.properties)
        with open_hdf5(template.path, template.name) as file:
            if name.count("/") > 1:
                refuse_groups_of_classic_model(file, where)
            if find_old_dataset(file, name, original) is not None:
                raise make_name_taken_error(name, template.path)
            self._refuse_hidden_dimensions(open_dataset(file, self._hard_path, template.name))

    def _refuse_hidden_dimensions(self, old: h5py.Dataset) -> None:
        """UsageError for a name in a group from which NetCDF does not see the dimensions."""
        if not is_netcdf_dataset(old):
            return
        parent = self.name.rpartition("/")[0]
        for d in range(old.ndim):
            for scale in find_scales(old, d)[:1]:
                home = str(scale.name).rpartition("/")[0]
                if not f"{parent}/".startswith(f"{home}/"):
                    found = f"a dimension of {home} would not be visible from {self.name}"
                    raise UsageError(found, f"a name in {home}", where=f"{self.where}::{self.name}")

    def create_in(self, file: h5py.File) -> tuple[h5py.Dataset, list[str]]:
        old = open_dataset(file, self._hard_path, self.where)
        dataset = self._create_like(old)
        lost = _copy_tensor_attributes(old, dataset)
        notes = [f"not copied: {join_names(lost)}"] if lost else []
        if is_netcdf_dataset(old):
            notes += add_history(file)
        return dataset, notes

    def _create_like(self, old: h5py.Dataset) -> h5py.Dataset:
        """A dataset like the old one, with its scales but without its values.

        HDF5's function that copies datasets copies their values, too.
        """
        kind = old.id.get_type()
        dataset = create_dataset(old.file, self.name, kind, old.id.get_space(), self.properties)
        for d in range(old.ndim):
            for scale in find_scales(old, d):
                dataset.dims[d].attach_scale(scale)
        return dataset


def _copy_tensor_attributes(old: h5py.Dataset, new: h5py.Dataset) -> list[str]:
    """Copy all attributes but those of scales; the names of those whose types h5py lacks."""
    lost = []
    for name in old.attrs:
        if is_of_scales(old, name):
            continue
        try:
            copy_attribute(old.id, new.id, name)
        except RAISED:
            lost.append(str(name))
    return lost
