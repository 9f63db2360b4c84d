"""Files as the operating system has them; no module here knows a format.

`positioned` reads, writes, copies and flushes, and says which state of which file was read. `newfile` and `together`
write a file under a temporary name until it is complete. `raw` reads and writes tensors whose elements lie in a file as
they are: most formats build their sources and sinks on it.
It may import ground, and `raw` also the contract of formats; it is used by every format, and by passes and commands.
"""
