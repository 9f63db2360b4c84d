"""Wrong outputs as porters make them, of lines that slow and obvious loops make one after the other.

Nothing here knows how the package explains them. Each mistake has words of which a sentence that explains it has some:
those of its cause, or of causes that give the same output.
"""

from typing import NamedTuple

import numpy as np
import oracle


class Job(NamedTuple):
    """Values, lengths as they are given, the axis, the batch axis of lengths of rank 1, and lengths of full rank."""

    x: np.ndarray
    given: np.ndarray
    axis: int
    batch: int | None
    n: np.ndarray

    @property
    def right(self):
        return oracle.reverse(self.x, self.n, self.axis)


def a_job(seed, sizes, axis, dtype, batch=None, order="C"):
    """Distinct values, some of them denormal, and random lengths of which some are 0, and some above the axis size."""
    rng = np.random.default_rng(seed)
    size, count = sizes[axis], int(np.prod(sizes))
    shape = [1 if d == axis else s for d, s in enumerate(sizes)] if batch is None else [sizes[batch]]
    given = rng.integers(0, size + 3, shape).astype("u4")
    given.reshape(-1)[:6] = size - 1, 0, size + 2, 4, size, 3
    x = rng.normal(0, 300, count).astype(dtype) if dtype == "<f4" else rng.integers(-(1 << 31), 1 << 31, count, dtype)
    if dtype == "<f4":
        x[::7] = np.finfo(dtype).smallest_subnormal * np.arange(1, 1 + len(x[::7]))
    n = given if batch is None else given.reshape([s if d == batch else 1 for d, s in enumerate(sizes)])
    n = np.broadcast_to(n, [1 if d == axis else s for d, s in enumerate(sizes)]).copy()
    return Job(np.asarray(x.reshape(sizes), order=order), given, axis, batch, n)


JOBS = {
    "FLOAT32 of {9,13} along 1": a_job(1, (9, 13), 1, "<f4"),
    "INT32 of {8,11,3} along 1, batch 0, in Fortran order": a_job(2, (8, 11, 3), 1, "<i4", 0, "F"),
}


def by_length(change):
    """Each line is reversed by another length: `change` gets its own, the axis size, its number and all lengths."""

    def made(job):
        given, size = [int(n) for n in job.given.reshape(-1)], job.x.shape[job.axis]
        new = [max(int(change(n, size, i, given)), 0) for i, n in enumerate(given)]
        lengths = np.array(new, np.uint64).reshape(job.given.shape)
        if job.batch is not None:
            lengths = lengths.reshape([s if d == job.batch else 1 for d, s in enumerate(job.x.shape)])
        return oracle.reverse(job.x, np.broadcast_to(lengths, job.n.shape), job.axis)

    return made


_LENGTHS = {
    "nothing": (lambda n, s, i, g: 0, "nothing is reversed"),
    "whole lines": (lambda n, s, i, g: s, "whole lines"),
    "0 is the whole line": (lambda n, s, i, g: n or s, "whole lines"),
    "1 too small": (lambda n, s, i, g: n - 1, "1 too small"),
    "2 too small, clamped before": (lambda n, s, i, g: min(n, s) - 2, "2 too small"),
    "1 too small, and 0 wraps": (lambda n, s, i, g: n - 1 if n else s, "one below 0"),
    "1 too large": (lambda n, s, i, g: n + 1, "1 too large"),
    "clamped to 6": (lambda n, s, i, g: min(n, 6), "at most 6"),
    "clamped to one less": (lambda n, s, i, g: min(n, s - 1), "at most"),
    "above the size is 0": (lambda n, s, i, g: 0 if n > s else n, "nothing is reversed"),
    "above the size modulo": (lambda n, s, i, g: n % s if n > s else n, "modulo|in place of"),
    "modulo the size": (lambda n, s, i, g: n % s, "modulo"),
    "the low 3 bits": (lambda n, s, i, g: n & 7, "modulo 8"),
    "divided by 4": (lambda n, s, i, g: n // 4, "divided by 4"),
    "times 2": (lambda n, s, i, g: n * 2, "multiplied by 2"),
    "the size minus the length": (lambda n, s, i, g: s - n, "axis size minus"),
    "down to a multiple of 4": (lambda n, s, i, g: n // 4 * 4, "rounded down to multiples of 4"),
    "up to a multiple of 8": (lambda n, s, i, g: -(-n // 8) * 8, "rounded up to multiples of 8"),
    "only from 5 on": (lambda n, s, i, g: n if n >= 5 else 0, "nothing is reversed"),
    "the longest": (lambda n, s, i, g: max(g), "longest|whole lines"),
    "5 for all": (lambda n, s, i, g: 5, "by the length"),
    "the first for all": (lambda n, s, i, g: g[0], "other lines|by the length"),
    "of the line before": (lambda n, s, i, g: g[i - 1], "other lines.* 1 behind, around"),
    "of the line behind, and 0": (lambda n, s, i, g: g[i + 1] if i + 1 < len(g) else 0, "other lines.* 1 ahead"),
    "in reverse order": (lambda n, s, i, g: g[-1 - i], "other lines.* in reverse"),
    "in pairs": (lambda n, s, i, g: g[i ^ 1] if i ^ 1 < len(g) else n, "other lines.* group of 2"),
    "sorted, the longest first": (lambda n, s, i, g: sorted(g, reverse=True)[i], "other lines.* sorted"),
    "sums": (lambda n, s, i, g: sum(g[: i + 1]), "sums"),
    "as 16 bits": (lambda n, s, i, g: np.array(g, "<u4").view("<u2")[i], "words of 16 bits"),
}  # fmt: skip


def of_lines(element):
    """Each element of the output by `element`: of its line, which is a list, of the clamped length, and the index."""

    def made(job):
        out = np.empty_like(job.x)
        for index in np.ndindex(job.x.shape):
            line = [*job.x[(*index[: job.axis], slice(None), *index[job.axis + 1 :])]]
            n = min(int(job.n[(*index[: job.axis], 0, *index[job.axis + 1 :])]), len(line))
            out[index] = element(line, n, index[job.axis])
        return out

    return made


def right(x, n, j):
    return x[n - 1 - j] if j < n else x[j]


def tiles(k, *, order):
    """The order of tiles of k elements before the length is reversed, or what is in each of them."""

    def element(x, n, j):
        parts = [x[i : min(i + k, n)] for i in range(0, n, k)]
        parts = parts[::-1] if order else [part[::-1] for part in parts]
        return [*(value for part in parts for value in part), *x[n:]][j]

    return element


def in_place(x, n, j):
    changed = list(x)
    for i in range(n):
        changed[i] = changed[n - 1 - i]
    return changed[j]


_ELEMENTS = {
    "the rest is reversed, too": (lambda x, n, j: [*x[:n][::-1], *x[n:][::-1]][j], "is reversed, too"),
    "only the rest": (lambda x, n, j: [*x[:n], *x[n:][::-1]][j], "only what is behind"),
    "the start is rotated": (lambda x, n, j: right(x, n, (j + 2) % n) if j < n else x[j], "part is rotated"),
    "the line is rotated": (lambda x, n, j: right(x, n, (j - 3) % len(x)), "3 behind, around"),
    "the line is moved": (lambda x, n, j: right(x, n, j + 1) if j + 1 < len(x) else 0, "zeros outside"),
    "rotated, not reversed": (lambda x, n, j: x[(j + 1) % n] if j < n else x[j], "not reversed"),
    "rotated by the length": (lambda x, n, j: x[(j + n) % len(x)], "rotated by its length"),
    "reversed again": (lambda x, n, j: right(x, n, len(x) - 1 - j), "output come in reverse"),
    "reversed before": (lambda x, n, j: right(x[::-1], n, j), "input are read in reverse"),
    "the last are reversed": (lambda x, n, j: [*x[: len(x) - n], *x[len(x) - n :][::-1]][j], "end of the line"),
    "whole, and masked": (lambda x, n, j: x[::-1][j] if j < n else 0, "reversed whole, and zeros"),
    "padded left": (lambda x, n, j: [*[0] * (len(x) - n), *x[:n][::-1]][j], "behind zeros"),
    "the rest first": (lambda x, n, j: [*x[n:], *x[:n][::-1]][j], "behind the rest"),
    "only the ends": (lambda x, n, j: right(x, n, j) if j in (0, n - 1) else x[j], "output is the input"),
    "the first is kept": (lambda x, n, j: [*x[:1], *x[1:n][::-1], *x[max(n, 1) :]][j], "first 1 stay|part is rotated by 1"),
    "in place": (in_place, "first half is written"),
    "tiles of 4, inside": (tiles(4, order=False), "each tile of 4"),
    "tiles of 2, in order": (tiles(2, order=True), "tiles of 2"),
    "one too far": (lambda x, n, j: [*x, 0][n - j] if j < n else x[j], "1 ahead, with zeros"),
    "one too far, the last again": (lambda x, n, j: x[min(n - j, len(x) - 1)] if j < n else x[j], "1 ahead, or the out"),
    "one too near, around": (lambda x, n, j: x[n - 2 - j] if j < n else x[j], "1 behind, around"),
    "from the end": (lambda x, n, j: x[len(x) - 1 - j] if j < n else x[j], "end of the reversed line"),
    "the line again": (lambda x, n, j: x[n - 1 - j] if j < n else x[j - n], "begins again"),
    "the part again": (lambda x, n, j: x[n - 1 - j % n] if n else x[j], "part is repeated"),
    "the last again": (lambda x, n, j: x[n - 1 - j] if j < n else x[max(n - 1, 0)], "last element before"),
    "the first again": (lambda x, n, j: x[max(n - 1 - j, 0)], "stands the first"),
    "all from the first": (lambda x, n, j: x[0] if j < n else x[j], "fills the reversed part"),
    "only the first 4": (lambda x, n, j: right(x, n, j) if j < 4 else x[j], "output is the input"),
}  # fmt: skip


def past_the_end(job):
    """Lengths are not clamped: behind the line, the memory is read; behind the tensor, there are zeros."""
    out, flat = np.array(job.x), np.ascontiguousarray(job.x).reshape(-1)
    step = int(np.prod(job.x.shape[job.axis + 1 :]))
    for number, index in enumerate(np.ndindex(job.x.shape)):
        length, j = int(job.n[(*index[: job.axis], 0, *index[job.axis + 1 :])]), index[job.axis]
        if j < length:
            place = number + (length - 1 - 2 * j) * step
            out[index] = flat[place] if place < len(flat) else 0
    return out


def as_the_other_layout(job):
    """The memory is taken for that of [T,B,F] where it is [B,T,F], or the other way round, and never transposed."""
    axes = [1, 0, *range(2, job.x.ndim)]
    x = np.ascontiguousarray(job.x).reshape([job.x.shape[d] for d in axes])
    return oracle.reverse(x, job.n.transpose(axes), 0).reshape(job.x.shape)


def read_in_the_other_order(x):
    return np.ascontiguousarray(x).reshape(-1).reshape(x.shape, order="F")


def batches(order, *, of_input=False):
    """Batches come from others: `order` gets all of their numbers."""

    def made(job):
        rows = [*order([*range(len(job.x))])]
        return oracle.reverse(job.x[rows], job.n, job.axis) if of_input else job.right[rows]

    return made


_MEMORY = {
    "memory of the transpose": (lambda job: job.right.swapaxes(0, 1).reshape(job.x.shape), "elements of the output"),
    "memory in the other order": (
        lambda job: job.right.reshape(-1, order="F").reshape(job.x.shape), "elements of the output"),
    "input read in the other order": (
        lambda job: oracle.reverse(read_in_the_other_order(job.x), job.n, job.axis), "elements of the input"),
    "taken for the other layout": (as_the_other_layout, "is taken for|is reversed"),
    "shifted": (lambda job: np.roll(job.right.ravel(), -1).reshape(job.x.shape), "1 ahead, around"),
    "shifted before": (lambda job: oracle.reverse(np.roll(job.x.ravel(), 1).reshape(job.x.shape), job.n, job.axis),
                       "input are read from the place in memory 1 behind"),
    "past the end of the line": (past_the_end, "not clamped, and the memory"),
    "another axis whole": (lambda job: job.x[::-1], "axis 0 is reversed whole|batches of the output"),
    "batches in reverse order": (batches(reversed), "batches of the output come in reverse"),
    "batches one before": (batches(lambda i: i[-1:] + i[:-1]), "batches of the output come"),
    "the first batch for all": (batches(lambda i: [0] * len(i)), "batches of the output come from index 0"),
    "inputs one behind": (batches(lambda i: i[1:] + i[:1], of_input=True), "batches of the input are read"),
    "sorted by length": (
        lambda job: batches(lambda i: sorted(i, key=lambda b: -int(job.given.reshape(-1)[b])))(job), "sorted by length"),
}  # fmt: skip


def of_values(change, kinds="fi"):
    def made(job):
        with np.errstate(all="ignore"):
            return change(job.right).astype(job.x.dtype) if job.x.dtype.kind in kinds else None

    return made


def to_bfloat16(values, *, nearest):
    """Each of the neighbours that have 16 bits less, or the nearer of them; the values of the jobs are finite."""
    low = (values.view("u4") >> 16 << 16).view("f4")
    high = ((values.view("u4") >> 16) + 1 << 16).view("f4")
    near, far = abs(values.astype("f8") - low), abs(high.astype("f8") - values)
    odd = values.view("u4") >> 16 & 1 == 1
    return np.where(nearest & ((far < near) | ((far == near) & odd)), high, low)


_VALUES = {
    "as FLOAT16": (of_values(lambda v: v.astype("f2"), "f"), "FLOAT16"),
    "integers as FLOAT32": (of_values(lambda v: v.astype("f4"), "i"), "FLOAT32"),
    "rounded to BFLOAT16": (of_values(lambda v: to_bfloat16(v, nearest=True), "f"), "rounded to BFLOAT16"),
    "cut to BFLOAT16": (of_values(lambda v: to_bfloat16(v, nearest=False), "f"), "cut to BFLOAT16"),
    "denormals flushed": (of_values(lambda v: np.where(abs(v) < np.finfo("f4").tiny, 0, v), "f"), "denormal"),
    "negated": (of_values(np.negative), "negated"),
    "sign lost": (of_values(np.abs), "lose their sign"),
    "ReLU": (of_values(lambda v: np.maximum(v, 0)), "below 0"),
    "byte order": (of_values(lambda v: v.byteswap()), "bytes of elements"),
    "cut to integers": (of_values(np.trunc, "f"), "cut to integers|INT"),
    "rounded to integers": (of_values(np.rint, "f"), "rounded to integers"),
    "doubled": (of_values(lambda v: v * 2, "f"), "multiplied by 2"),
    "as parts of 255": (of_values(lambda v: v * np.float32(1 / 255), "f"), "multiplied by"),
    "three too large": (of_values(lambda v: v + 3, "i"), "3 is added"),
    "standardised": (of_values(lambda v: (v - v.mean()) / v.std(), "f"), "multiplied by .* is added"),
    "quantised": (of_values(lambda v: np.rint(v / 0.5) * 0.5, "f"), "multiples of 0.5"),
    "printed": (of_values(lambda v: np.array([float(f"{e:.1f}") for e in v.ravel()]).reshape(v.shape), "f"), "1 decimals|multiples of 0.1"),
    "clipped": (of_values(lambda v: np.clip(v, -100, 100), "f"), "clipped to -100 and 100"),
    "saturated to INT8": (of_values(lambda v: np.clip(v, -128, 127), "i"), "clipped to -128 and 127"),
    "wrapped to UINT8": (of_values(lambda v: v % 256, "i"), "UINT8"),
    "added to the input": (lambda job: job.right + job.x, "input is added"),
}  # fmt: skip


def where(mask, fill):
    """The right output but where `mask` says so: for the index, the job, the length, and the number of the element."""

    def made(job):
        out, filled = np.array(job.right), fill(job)
        for number, index in enumerate(np.ndindex(job.x.shape)):
            if mask(index, job, int(job.n[(*index[: job.axis], 0, *index[job.axis + 1 :])]), number):
                out[index] = filled[index]
        return out

    return made


_WHERE = {
    "everywhere": lambda i, job, n, number: True,
    "from the second batch on": lambda i, job, n, number: i[0] > 0,
    "the last batch": lambda i, job, n, number: i[0] == job.x.shape[0] - 1,
    "the second half": lambda i, job, n, number: number >= job.x.size // 2,
    "behind 64 elements": lambda i, job, n, number: number >= 64,
    "half of each line": lambda i, job, n, number: i[job.axis] >= job.x.shape[job.axis] // 2,
    "behind the length": lambda i, job, n, number: i[job.axis] >= n,
    "lines of length 0": lambda i, job, n, number: n == 0,
    "long lines": lambda i, job, n, number: n > job.x.shape[job.axis],
    "odd indices": lambda i, job, n, number: i[job.axis] % 2,
    "odd batches": lambda i, job, n, number: i[0] % 2,
    "every fourth element": lambda i, job, n, number: i[job.axis] % 4 == 3,
    "the first element": lambda i, job, n, number: i[job.axis] == 0,
}
_FILLS = {
    "zeros": (lambda job: np.zeros_like(job.x), "only 0"),
    "never written": (lambda job: np.full(job.x.shape, 0xCDCDCDCD, "u4").view(job.x.dtype), "output is only"),
    "the input": (lambda job: job.x, "output is the input|nothing is reversed"),
}

MISTAKES = (
    {f"lengths: {name}": (by_length(change), words) for name, (change, words) in _LENGTHS.items()}
    | {f"elements: {name}": (of_lines(element), words) for name, (element, words) in _ELEMENTS.items()}
    | {f"memory: {name}": made for name, made in _MEMORY.items()}
    | {f"values: {name}": made for name, made in _VALUES.items()}
    | {f"{name}: {fill}": (where(mask, make), words) for name, mask in _WHERE.items()
       for fill, (make, words) in _FILLS.items()}
)  # fmt: skip
