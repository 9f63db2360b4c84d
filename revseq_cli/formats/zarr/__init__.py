"""The format Zarr."""
