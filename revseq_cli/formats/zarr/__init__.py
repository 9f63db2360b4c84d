"""The format Zarr, versions 2 and 3: a folder with metadata in JSON and a file for each chunk or shard.

`metadata` reads what an array is without the package zarr, `codecs` says which codecs lose nothing, and `chunks` finds
the chunks that are not stored. `source` and `sink` read and write an array; chunks are decoded and encoded by the
package zarr, an extra, which `store` keeps strict and without threads of its own.
It may import ground and texts, and of formats the contract, contents, recognition and storage. The table
names `format`, which is loaded when a file needs it. Only `store` imports the package zarr at once.
"""
