"""The numbers that choose between ways of working: what is large, long or many enough for each.

No number here changes a result. So a test can make them smaller, and a tensor of a kilobyte takes
the way of a terabyte. Code looks each one up where it uses it, as `thresholds.SHORT_RUN`, and keeps
no copy. Numbers are bytes if nothing else is said.
"""

from __future__ import annotations

# Smaller tensors take less time than it takes to start processes.
WORTH_PROCESSES = 1 << 28
WORTH_PROCESSES_WITH_FILTERS = 1 << 25  # of chunks that are encoded, which takes longer
PROCESS_BYTES = 16 << 20  # memory for each process: its blocks, and some 5 MiB of its own
BATCH_ELEMENTS = 1 << 23  # the most elements in a batch of tasks, so that it is soon done

# The input of a block, where the memory allows: large enough that opening a file for it costs
# little, and small enough that it is still in the cache when it is written. Of 1, 4 and 16 MiB,
# this was the fastest.
BLOCK_BYTES = 1 << 22
CHEAP_RUN = 1 << 14  # of a file: worth a system call
CACHE_LINE = 1 << 6  # runs are whole cache lines, even where memory is short
LENGTHS_AT_ONCE = 1 << 20  # lengths that are read together
SCANNED_AT_ONCE = 1 << 14  # elements of masks and casts, which take several times their memory

# Shorter runs are not read or written one by one, but through a temporary file, unless the tensor
# is small. 2 GiB in memory by two processes took 3.8, 5.1, 6.4 and 10.4 s of processor time in runs
# of 8, 4, 2 and 1 KiB, and 5.7 to 6.5 s through a temporary file.
SHORT_RUN = 1 << 12
WORTH_TILES = 1 << 25  # a tensor that is large enough for a temporary file
LONG_RUN = 1 << 16  # of that file, where the memory allows

# The kernel

TILE_BYTES = 1 << 18  # a tile that fits a core's second cache, with what is made of it
TILE = 1 << 16  # elements of a tile whose indices have 16 bits
TILE_ROW = 1 << 14  # elements of a tile at one outer index: at most a quarter of TILE
# Sequences are reversed one by one if there are few of them, or if they are long.
FEW_SEQUENCES = 8  # at most
LONG_SEQUENCE = 384  # elements, at least
LONG_COLUMN = 512  # elements, at least, of a sequence whose elements do not lie next to each other
WINDOWS = (32, 2048)  # the least and the most elements of sequences that are moved whole
WINDOW_WORD = 4  # bytes of the largest words of sequences that are moved whole
WIDE_WORD = 32  # half a cache line: from this size on, gathering words costs little
PACKED_ROW = (64, 512)  # the least and the most of a row of packed columns
PACKED = 1 << 22  # all such rows, which stay in the cache

# Files

# Runs that are written past the page cache, at least two pages: smaller ones cost more in calls
# than the cache does.
LARGE_RUN = 1 << 20
BOUNCE_BYTES = 1 << 20  # of memory that they go through, a multiple of a page
# Up to this many processes write to a file in memory with ordinary writes, which the system does in
# turn. If there are more, they write through mappings.
WRITERS_IN_TURN = 4
# Edges that are gathered before they are written. An edge is the part of a large run before its
# first whole page, or after its last one.
MOST_EDGES = 1 << 10
# Runs of a block whose positions are computed together: each takes some 100 bytes.
RUNS_AT_ONCE = 1 << 12
COPIED_AT_ONCE = 1 << 26  # of a file that is copied whole
PIECE = 1 << 20  # of what is read, unpacked or encoded piece by piece

# Addresses

REMOTE_RUN = 1 << 20  # of a file: worth a request
REMOTE_SMALL = 1 << 20  # a file that is fetched whole at its first read, and kept
REMOTE_BLOCK = 1 << 18  # of other files, in which short runs are read
REMOTE_KEPT = 1 << 24  # of such blocks
REMOTE_GAP = 1 << 17  # between two runs that are fetched as one range
REMOTE_PIECE = 1 << 23  # the most of a range, and a part of an upload
REMOTE_WORTH_LISTING = 4  # files in a folder whose states are asked for
REMOTE_PREVIEW = 5 << 18  # a preview reads chunks of at most this many bytes in all
REMOTE_WHOLE = 1 << 21  # the largest file from a server that sends no ranges
