"""The numbers that choose between paths: what is large, long or many enough for another way to pay.

No number here changes a result. So a test makes them smaller, and then a tensor of a kilobyte takes the paths of a
terabyte. What uses one looks it up each time, as `thresholds.SHORT_RUN`, and keeps no copy. Sizes are in bytes, where
nothing else is said.
"""

from __future__ import annotations

# For tensors of fewer bytes, starting processes takes longer than they save; with filters, they pay from the second on.
WORTH_PROCESSES, WORTH_PROCESSES_WITH_FILTERS = 1 << 28, 1 << 25
PROCESS_BYTES = 16 << 20  # memory for each process: beside its blocks, it has some 5 MiB of its own
# Elements of tasks that are submitted together: it costs little beside their work, and they are soon done again.
BATCH_ELEMENTS = 1 << 23

# A block's input, where the memory allows: so large that opening a file costs little beside it, and so small that it is
# still in the cache when it is written. It was the fastest of 1, 4 and 16 MiB.
BLOCK_BYTES = 1 << 22
# Runs of a file that are worth a system call; and where memory is short, runs of whole lines of a CPU's cache.
CHEAP_RUN, CACHE_LINE = 1 << 14, 1 << 6
# Lengths that are read at once; elements of masks and casts, which take several times their memory.
LENGTHS_AT_ONCE, SCANNED_AT_ONCE = 1 << 20, 1 << 14

# Runs of fewer bytes are not read or written one by one, but through a temporary file, unless the tensor is small.
# There they are as long as the last, where the memory allows. In memory, 2 GiB by two processes took 3.8, 5.1, 6.4 and
# 10.4 s of processor time in runs of 8, 4, 2 and 1 KiB, and 5.7 to 6.5 s through a temporary file.
WORTH_TILES, SHORT_RUN, LONG_RUN = 1 << 25, 1 << 12, 1 << 16

# The kernel, in elements where nothing else is said

# Bytes of a tile, with what is made of it in a core's second cache; elements of one whose indices have 16 bits; of
# these, elements at one outer index, at most 2^14, since a bit must be left, and those below 0 must differ.
TILE_BYTES, TILE, TILE_ROW = 1 << 18, 1 << 16, 1 << 14
# Few lines, and long ones, are written one by one; long columns, too. Lines of such sizes are moved whole, in words of
# up to so many bytes.
FEW_LINES, LONG_LINE, LONG_COLUMN, WINDOWS, WINDOW_WORD = 8, 384, 512, (32, 2048), 4
# Words of so many bytes are gathered from anywhere, since each brings half a line of the cache or more.
WIDE_WORD = 32
# Bytes of a row of packed columns, the least and the most, and of all rows, which stay in the cache.
PACKED_ROW, PACKED = (64, 512), 1 << 22

# Runs of at least so many bytes, no less than two pages, are written past the page cache: for smaller ones, a call each
# costs more than the cache does. They go through memory of so many bytes, a multiple of a page.
LARGE_RUN, BOUNCE_BYTES = 1 << 20, 1 << 20
# Runs of a block whose places are computed at once: each takes some 100 bytes, and may itself have few. Edges of large
# runs, each of less than a page, are written when there are so many.
RUNS_AT_ONCE, MOST_EDGES = 1 << 12, 1 << 10
# Bytes of a file that are copied whole, and of what is read, unpacked or encoded piece by piece.
COPIED_AT_ONCE, PIECE = 1 << 26, 1 << 20

# Addresses

# Runs of a file that are worth a request. Shorter ones than the next are read through blocks of a file, some of which
# are kept; long ones in pieces, of which some are asked for together, and held beside a worker's block.
REMOTE_RUN, REMOTE_SHORT, REMOTE_BLOCK, REMOTE_PIECE, REMOTE_AT_ONCE = 1 << 20, 1 << 15, 1 << 21, 1 << 22, 1 << 24
