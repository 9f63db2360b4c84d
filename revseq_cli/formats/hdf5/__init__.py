"""The format HDF5, also under the names of fields that build on it, such as NetCDF-4.

`library` is the one way to h5py. `files` opens files and words h5py's errors. `links` finds a dataset, `types` and
`filters` say what its elements and chunks are, `scales` and `netcdf` what it says about its dimensions. `chunks` finds,
reads and writes chunks without HDF5, as far as their filters allow. On these stand `source`, which reads a dataset, and
`sink`, which writes one; `copying` gives it the attributes, groups and scales of the input.
It may import ground, and of formats the contract, contents, held, raw, recognition and storage. The table names
`format`, which is loaded when a file needs it, since h5py takes as long to load as NumPy.
"""
