"""What a new HDF5 file takes over from the file of its input, but for attributes and scales themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.formats.hdf5 import netcdf
from revseq_cli.formats.hdf5.files import RAISED
from revseq_cli.formats.hdf5.filters import properties_of
from revseq_cli.formats.hdf5.scales import scales_of

if TYPE_CHECKING:
    from revseq_cli.formats.hdf5.library import h5py


class Origin(NamedTuple):
    """Facts about a dataset and its file, collected while the file is open for its header.

    `properties` ask for a dataset with the same storage. `link_order` says how the root group remembers the order in
    which its links were made, 0 for not at all. `scales` are the names of the scales of the dataset's dimensions;
    `numbers_dimensions` says whether NetCDF has numbered one of them, `is_classic` whether the file is of NetCDF's
    classic model, and `is_netcdf` whether it is NetCDF's at all.
    """

    properties: h5py.h5p.PropDCID
    link_order: int
    scales: tuple[str, ...]
    numbers_dimensions: bool
    is_classic: bool
    is_netcdf: bool

    @classmethod
    def of(cls, dataset: h5py.Dataset) -> Origin:
        """The facts about a dataset of an open file."""
        link_order = dataset.file["/"].id.get_create_plist().get_link_creation_order()
        try:
            scales = [scale for d in range(dataset.ndim) for scale in scales_of(dataset, d) if scale.name]
            numbered, is_classic = any(map(netcdf.has_number, scales)), netcdf.is_classic(dataset.file)
            is_netcdf = netcdf.is_netcdf(dataset.file, [dataset, *scales])
        except RAISED:  # a damaged scale matters only where it is copied, which raises the same error
            scales, numbered, is_classic, is_netcdf = [], False, False, False
        names = tuple(scale.name for scale in scales)
        return cls(properties_of(dataset), link_order, names, numbered, is_classic, is_netcdf)
