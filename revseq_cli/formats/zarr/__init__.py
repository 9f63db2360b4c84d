"""The format Zarr, versions 2 and 3: a folder with metadata in JSON and a file for each chunk or shard.

`metadata` reads what an array is without the package zarr, and says which codecs are lossless and which file is which
chunk; `meaning` has its names and attributes. `source` reads an array and finds the chunks that are not stored, and
`sink` writes one. The package zarr, an extra, decodes and encodes chunks, and `store` keeps it strict and without
threads of its own.
The table names `format`, which is loaded when a file needs it. Only `store` imports the package zarr at once.
"""
