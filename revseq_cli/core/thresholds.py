"""The numbers that choose between paths: what is large, long or many enough for another way to pay.

No number here changes a result. So a test makes them smaller, and then a tensor of a kilobyte takes the paths of a
terabyte. What uses one looks it up each time, as `thresholds.SHORT_RUN`, and keeps no copy. Sizes are in bytes, where
nothing else is said. The figures are medians of the benchmarks in `tests/benchmarks/`.
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
# The lengths of a job that are read at once to look for one that another system refuses, in elements.
LENGTHS_AT_ONCE = 1 << 20
# The elements of a mask that are read at once to count its ones.
MASK_AT_ONCE = 1 << 14
# The elements whose casts are checked at once.
CAST_AT_ONCE = 1 << 14

# Tiles

# Runs of fewer bytes are not read or written one by one, but through a temporary file, unless the tensor is small.
# Where all files lie in memory, such a part of it is enough: 2 GiB by two processes took 3.8, 5.1, 6.4 and 10.4 s of
# processor time in runs of 8, 4, 2 and 1 KiB, and 5.7 to 6.5 s through a temporary file.
SHORT_RUN, PART_IN_MEMORY, LONG_RUN = 1 << 13, 4, 1 << 16
WORTH_TILES = 1 << 25
# A block has about so many rows, since each sorts its columns anew; a stripe of whole lines has at most such a part of
# a block's elements.
USUAL_ROWS, STRIPE_PART = 16, 4
# Different keys by which columns are sorted, at most 2^16: NumPy sorts integers of 16 bits fastest.
SORT_KEYS = 1 << 16

# The kernel

# A tile and what is made of it: they stay in a core's second cache, and hide what a call costs.
TILE_BYTES = 1 << 18
# Elements of a tile that is gathered, at most 2^16: their indices have 16 bits.
TILE = 1 << 16
# Of these, elements at one outer index, where indices are computed, at most 2^14: a bit must be left, and those below 0
# must differ. No less than LONG_COLUMN.
TILE_ROW = 1 << 14
# So few lines are written one by one, in two slices each: nothing else starts as quickly. So few elements are gathered
# by an index that is computed at once.
FEW_LINES, FEW_ELEMENTS = 8, 256
# Elements of lines and columns that are worth a slice each; bytes of lines that are worth two.
LONG_LINE, LONG_COLUMN, LONG_BYTES = 512, 512, 1 << 16
# Lines of words up to 4 bytes are moved whole in windows, from the first length on, below the second for words of 1
# byte; for words of 4 bytes below a 16th of it, since these are not reversed eight bytes at a time.
WINDOWS, WINDOW_BYTES = (32, 1 << 15), 4
# Words of so many bytes are gathered from anywhere, since each brings half a line of the cache or more.
WIDE_WORD = 32
# A row of packed columns, the least and the most: whole lines of the cache, eight where all rows stay in it. More bytes
# lie between two rows, since rows at multiples of 256 would share a few places of the cache.
PACKED_ROW, PACKED, PACKED_GAP = (64, 512), 1 << 22, 16
# The widest word that NumPy has, or less.
WIDEST_WORD = (1 << 31) - 1

# Files

# Linux moves at most 2^31 - 4096 bytes in one call.
MOST_AT_ONCE = 1 << 30
# Runs of at least so many bytes, no less than two pages, are written past the page cache: for smaller ones, a call each
# costs more than the cache does. They go through memory of so many bytes, a multiple of a page.
LARGE_RUN, BOUNCE_BYTES = 1 << 20, 1 << 20
# Runs of a block whose places are computed at once: each takes some 100 bytes, and may itself have few.
RUNS_AT_ONCE = 1 << 12
# Edges of such runs, each of less than a page, are written when there are so many.
MOST_EDGES = 1 << 10
# Of a file that is copied whole; of a packed file that is read, and unpacked, at once.
COPIED_AT_ONCE, PACKED_AT_ONCE, UNPACKED_AT_ONCE = 1 << 26, 1 << 16, 1 << 20
# What unpacks to more bytes than this is unpacked into a temporary file instead of memory.
LARGEST_HELD = 1 << 26
# Read at once of a stored member of a zip archive, and of a file whose digest is computed.
STORED_PIECE = 1 << 20
# Characters of a text that are encoded at once; bytes that are read of a pipe, and of the headers of ONNX's messages.
TEXT_PIECE, PIPE_PIECE, MESSAGE_PIECE = 1 << 20, 1 << 20, 1 << 12
# Numbers of an exact sum, at most 2^18: their halves add up to less than 2^53.
SUMMED_AT_ONCE = 1 << 18

# Batches

# Workers wait for the disk most of the time, so there are so many where there are fewer cores.
JOB_WORKERS = 8
# Small jobs that are submitted together, or workers would wait for the command on a busy machine.
JOBS_TOGETHER = 8
# Jobs, and bytes of inputs, that are worth a worker.
JOBS_OF_A_WORKER, WORTH_A_WORKER = 32, 1 << 26
# The tensors of a small job: in files, or held in memory.
SMALL_IN_FILES, SMALL_HELD = 1 << 25, 1 << 20
