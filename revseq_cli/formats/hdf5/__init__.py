"""The format HDF5, also under the names of fields that build on it, such as NetCDF-4.

`library` is the one way to h5py. `files` opens files and words h5py's errors. `links` finds a dataset, `types` says
what its elements are, and `filters` how its chunks are encoded, which it also does, in the workers. `netcdf` and
`meaning` have what a file says about dimensions and values. On these stand `source`, which reads a dataset, and `sink`,
which writes one: `copying` gives it the attributes, groups and scales of the input.
The table names `format`, which is loaded when a file needs it, since h5py takes as long to load as NumPy.
"""
