"""The numbers that choose between paths: what is large, long or many enough for another way to pay.

No number here changes a result. So a test makes them smaller, and then a tensor of a kilobyte takes the paths of a
terabyte. What uses one looks it up each time, as `thresholds.SHORT_RUN`, and keeps no copy. Sizes are in bytes, where
nothing else is said.
"""

from __future__ import annotations

# For smaller tensors, starting processes takes longer than they save; with filters, they pay from the second size on.
WORTH_PROCESSES = 1 << 28
WORTH_PROCESSES_WITH_FILTERS = 1 << 25
PROCESS_BYTES = 16 << 20  # memory for each process: beside its blocks, it has some 5 MiB of its own
# Elements of tasks that are submitted together: it costs little beside their work, and they are soon done again.
BATCH_ELEMENTS = 1 << 23

# A block's input, where the memory allows: so large that opening a file costs little beside it, and so small that it is
# still in the cache when it is written. It was the fastest of 1, 4 and 16 MiB.
BLOCK_BYTES = 1 << 22
CHEAP_RUN = 1 << 14  # of a file: worth a system call
CACHE_LINE = 1 << 6  # of a CPU: runs are whole lines even where memory is short
LENGTHS_AT_ONCE = 1 << 20  # lengths that are read together
SCANNED_AT_ONCE = 1 << 14  # elements of masks and casts, which take several times their memory

# Shorter runs are not read or written one by one, but through a temporary file, unless the tensor is small. In memory,
# 2 GiB by two processes took 3.8, 5.1, 6.4 and 10.4 s of processor time in runs of 8, 4, 2 and 1 KiB, and 5.7 to 6.5 s
# through a temporary file.
SHORT_RUN = 1 << 12
WORTH_TILES = 1 << 25  # a tensor that is large enough for a temporary file
LONG_RUN = 1 << 16  # of that file, where the memory allows

# The kernel

TILE_BYTES = 1 << 18  # a tile, with what is made of it in a core's second cache
TILE = 1 << 16  # elements of a tile whose indices have 16 bits
TILE_ROW = (
    1 << 14
)  # elements of a tile at one outer index: a bit must be left, and those below 0 must differ
FEW_LINES = 8  # are written one by one
LONG_LINE = 384  # elements: such lines are written one by one
LONG_COLUMN = 512  # elements: such columns, too
WINDOWS = (32, 2048)  # elements of lines that are moved whole
WINDOW_WORD = 4  # the largest word in which they are
WIDE_WORD = (
    32  # words that are gathered from anywhere: each brings half a line of the cache or more
)
PACKED_ROW = (64, 512)  # the least and the most of a row of packed columns
PACKED = 1 << 22  # all such rows, which stay in the cache

# Files

# Runs that are written past the page cache, two pages at least: for smaller ones, the calls cost more than the cache.
LARGE_RUN = 1 << 20
BOUNCE_BYTES = 1 << 20  # of memory that they go through, a multiple of a page
# So many processes write a file in memory one after another; more of them write through mappings.
WRITERS_IN_TURN = 4
MOST_EDGES = 1 << 10  # of large runs, each less than a page, that are written together
RUNS_AT_ONCE = (
    1 << 12
)  # of a block whose places are computed together: each takes some 100 bytes, and may have few
COPIED_AT_ONCE = 1 << 26  # of a file that is copied whole
PIECE = 1 << 20  # of what is read, unpacked or encoded piece by piece

# Addresses

FAR_RUN = 1 << 20  # of a file: worth a request
FAR_SMALL = 1 << 20  # a file that is fetched whole at its first read, and kept
FAR_BLOCK = 1 << 18  # of other files, in which short runs are read
FAR_KEPT = 1 << 24  # of such blocks
FAR_GAP = 1 << 17  # between two runs that are fetched as one range
FAR_PIECE = 1 << 23  # the most of a range, and a part of an upload
FAR_WORTH_LISTING = 4  # files in a folder whose states are asked for
FAR_WHOLE = 1 << 21  # the largest file from a server that sends no ranges
