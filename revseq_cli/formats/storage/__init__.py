"""Files as the operating system has them; no module here knows a format.

`positioned` reads, writes, copies and flushes, and says which state of which file was read. `newfile` and `together`
write a file under a temporary name until it is complete.
It may import ground alone. Its neighbours are the contract of formats, which stands on it, and every format; passes and
commands use it, too.
"""
