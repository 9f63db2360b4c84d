"""The format HDF5."""
