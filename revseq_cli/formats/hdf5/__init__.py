"""The format HDF5, also under the names of fields that build on it, such as NetCDF-4.

`library` is the one way to h5py. `files` opens files and words h5py's errors. `links` finds a dataset, `types` and
`filters` say what its elements and chunks are, `scales` and `netcdf` what it says about its dimensions, and `index`
where its chunks lie. `places` reads and writes chunks there, which `coding` decodes and encodes, both without HDF5. On
these stand `source`, which reads a dataset and collects its `origin`, what a new file takes over; and on that
`contents`, the tree of a file, `creation`, the storage of a new dataset, `copying`, its attributes, groups and scales,
`recorder`, through which HDF5 writes, `encoding`, HDF5's own filters, and `sink`, which writes it all.
It may import ground, and of formats the contract, held, raw, recognition, regions and storage. The table names
`format`, which is loaded when a file needs it, since h5py takes as long to load as NumPy.
"""
