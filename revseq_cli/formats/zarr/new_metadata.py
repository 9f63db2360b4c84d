"""The metadata of new Zarr arrays, which the package zarr makes."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from zarr.api import asynchronous

from revseq_cli.formats.attributes import FILL, Attributes, fill_of
from revseq_cli.formats.zarr.arrays import wait_for, wrap_zarr_errors
from revseq_cli.formats.zarr.attributes import DIMENSIONS, as_json, fill_as_json
from revseq_cli.formats.zarr.store import Version


@dataclass(frozen=True)
class NewArray:
    """A new array, of which zarr makes the metadata.

    `dtype` is one of NumPy, or str for texts. `dimensions` are the names of its dimensions, or
    empty. Without `chunks`, zarr chooses them. `storage_fill` is the fill value that somebody has
    set for elements that were never written, or None.
    """

    version: Version
    sizes: tuple[int, ...]
    dtype: Any
    dimensions: tuple[str, ...]
    attributes: Attributes
    chunks: tuple[int, ...] | None = None
    storage_fill: Any = None

    def create_metadata(self, where: str) -> tuple[tuple[int, ...], dict[str, bytes]]:
        """The sizes of its chunks, and the files of metadata by their names.

        `where` is what messages call the store.
        """
        attributes = as_json(
            {name: value for name, value in self.attributes.items() if name != FILL}
        )
        options: dict[str, Any] = {}
        fill = None if self.dtype is str else fill_of(self.attributes, self.dtype)
        if self.version == 3:
            self._describe_3(fill, attributes, options)
        else:
            self._describe_2(fill, attributes, options)
        if self.chunks:
            options["chunks"] = self.chunks
        files: dict[str, Any] = {}
        with wrap_zarr_errors(where, "write"), warnings.catch_warnings():
            # zarr warns that the specification has no data type for bytes.
            warnings.simplefilter("ignore")
            work = asynchronous.create_array(
                files,
                shape=self.sizes,
                dtype=self.dtype,
                zarr_format=self.version,
                attributes=attributes or None,
                **options,
            )
            array = wait_for(work)
            return array.chunks, {name: data.to_bytes() for name, data in files.items()}

    def _describe_3(
        self, fill: np.generic | None, attributes: dict[str, Any], options: dict[str, Any]
    ) -> None:
        """Add the fill value and the names of dimensions, as xarray reads them in version 3.

        A fill value that marks missing values is an attribute, too.
        """
        if fill is not None:
            attributes[FILL] = fill_as_json(fill)
            options["fill_value"] = fill
        elif self.storage_fill is not None:
            options["fill_value"] = self.storage_fill
        if self.dimensions:
            options["dimension_names"] = [name or None for name in self.dimensions]

    def _describe_2(
        self, fill: np.generic | None, attributes: dict[str, Any], options: dict[str, Any]
    ) -> None:
        """Add the fill value and the names of dimensions, as xarray reads them in version 2.

        Where dimensions have names, xarray takes any fill value for one that marks missing values.
        So `storage_fill`, which does not, is left out there.
        """
        if len(self.dimensions) == len(self.sizes):
            attributes[DIMENSIONS] = [*self.dimensions]
            options["fill_value"] = fill
        elif self.storage_fill is not None:
            options["fill_value"] = self.storage_fill
