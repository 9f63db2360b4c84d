"""The numbers that choose between paths: what is large, long or many enough for another way to pay.

No number here changes a result. So a test makes them smaller, and then a tensor of a kilobyte takes the paths of a
terabyte. What uses one looks it up each time, as `thresholds.SHORT_RUN`, and keeps no copy. Sizes are in bytes, where
nothing else is said.
"""

from __future__ import annotations

# Engines

# For tensors of fewer bytes, starting processes takes longer than they save; with filters, they pay from the second on.
WORTH_PROCESSES, WORTH_PROCESSES_WITH_FILTERS = 1 << 28, 1 << 25
# Memory for each process: beside its blocks, it has some 5 MiB of its own.
PROCESS_BYTES = 16 << 20
# A batch of tasks has at most so many tasks, and elements: to submit it costs little beside its work, and doing it
# again where its worker died costs little beside the pass.
BATCH_TASKS, BATCH_ELEMENTS = 1 << 8, 1 << 23

# Blocks

# A block's input, where the memory allows: so large that opening a file costs little beside it, and so small that it is
# still in the cache when it is written. It was the fastest of 1, 4 and 16 MiB.
BLOCK_BYTES = 1 << 22
# Runs of a file that are worth a system call; and where memory is short, runs of whole lines of a CPU's cache.
CHEAP_RUN, CACHE_LINE = 1 << 14, 1 << 6
# Elements that are read, or looked at, at once: lengths, ones of a mask, those whose casts are checked.
LENGTHS_AT_ONCE, MASK_AT_ONCE, CAST_AT_ONCE = 1 << 20, 1 << 14, 1 << 14

# Lines through a temporary file

# Runs of fewer bytes are not read or written one by one, but through a temporary file, unless the tensor is small.
# There they are as long as the last, where the memory allows. Where all files lie in memory, a quarter of SHORT_RUN is
# enough: 2 GiB by two processes took 3.8, 5.1, 6.4 and 10.4 s of processor time in runs of 8, 4, 2 and 1 KiB, and 5.7
# to 6.5 s through a temporary file.
WORTH_TILES, SHORT_RUN, LONG_RUN = 1 << 25, 1 << 13, 1 << 16

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

# Files

# Runs of at least so many bytes, no less than two pages, are written past the page cache: for smaller ones, a call each
# costs more than the cache does. They go through memory of so many bytes, a multiple of a page.
LARGE_RUN, BOUNCE_BYTES = 1 << 20, 1 << 20
# Runs of a block whose places are computed at once: each takes some 100 bytes, and may itself have few. Edges of large
# runs, each of less than a page, are written when there are so many.
RUNS_AT_ONCE, MOST_EDGES = 1 << 12, 1 << 10
# Bytes of a file that is copied whole; of a member of an archive, as it is stored, and unpacked; of a pipe.
COPIED_AT_ONCE, STORED_PIECE, UNPACKED_AT_ONCE, PIPE_PIECE = 1 << 26, 1 << 20, 1 << 20, 1 << 20
# Characters of a text that are encoded at once.
TEXT_PIECE = 1 << 20

# Batches

# Workers wait for the disk most of the time, so there are so many where there are fewer cores. Each has so many jobs,
# or bytes of inputs; small jobs are submitted together.
JOB_WORKERS, JOBS_OF_A_WORKER, WORTH_A_WORKER, JOBS_TOGETHER = 8, 32, 1 << 26, 8
# The tensors of a small job: in files, or held in memory.
SMALL_IN_FILES, SMALL_HELD = 1 << 25, 1 << 20
