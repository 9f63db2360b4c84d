"""Wrong outputs as bugs of ports make them: each is made one element after the other, in slow and obvious loops.

Nothing here knows how the package explains them. Each mistake has words of which a sentence that explains it has some:
those of its cause, or of causes that give the same output. Of two mistakes together, it has words of each.
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

    @property
    def size(self):
        return self.x.shape[self.axis]


def a_job(seed, sizes, axis, dtype, of_lengths, batch=None, order="C"):
    """Distinct values, and random lengths of which some are 0, and some above the axis size."""
    rng = np.random.default_rng(seed)
    size = sizes[axis]
    shape = [1 if d == axis else s for d, s in enumerate(sizes)] if batch is None else [sizes[batch]]
    given = rng.integers(0, size + 3, shape).astype(of_lengths)
    given.reshape(-1)[:6] = size - 1, 0, size + 2, 4, size, 3
    dtype = np.dtype(dtype)
    count = int(np.prod(sizes))
    if dtype.kind == "f":
        x = rng.normal(0, 300, count).astype(dtype)
        x[::7] = np.finfo(dtype).smallest_subnormal * np.arange(1, 1 + len(x[::7]))
    else:
        low = -(1 << (8 * dtype.itemsize - 1)) if dtype.kind == "i" else 0
        x = rng.permutation(1 << 15)[:count] + 1 if dtype.itemsize < 4 else rng.integers(low, -low, count)
        x = (x * rng.choice([-1, 1], count)).astype(dtype)
    x = np.asarray(x.reshape(sizes), order=order)
    wide = [s if d == batch else 1 for d, s in enumerate(sizes)]
    n = given if batch is None else given.reshape(wide)
    n = np.broadcast_to(n, [1 if d == axis else s for d, s in enumerate(sizes)]).copy()
    return Job(x, given, axis, batch, n)


JOBS = {
    "FLOAT32 of {9,13} along 1": a_job(1, (9, 13), 1, "<f4", np.uint32),
    "INT32 of {8,11,3} along 1, batch 0, in Fortran order": a_job(2, (8, 11, 3), 1, "<i4", np.uint32, 0, "F"),
}


# Lengths


def by_length(change):
    """Each line is reversed by another length: of its own, and of the job."""

    def made(job):
        given = [int(n) for n in job.given.reshape(-1)]
        new = [max(int(change(n, job.size, i, given)), 0) for i, n in enumerate(given)]
        lengths = np.array(new, np.uint64).reshape(job.given.shape)
        if job.batch is not None:
            lengths = lengths.reshape([s if d == job.batch else 1 for d, s in enumerate(job.x.shape)])
        return oracle.reverse(job.x, np.broadcast_to(lengths, job.n.shape), job.axis)

    return made


def as_small_words(bits):
    """The memory of the lengths, read as so many words of fewer bits."""

    def change(_, __, i, given):
        raw = b"".join(n.to_bytes(job_bytes(given), "little") for n in given)
        return int.from_bytes(raw[i * bits // 8 : (i + 1) * bits // 8], "little")

    def job_bytes(_):
        return 4

    return lambda job: by_length(change)(job) if job.given.dtype.itemsize == 4 else None


def signed(n, bits):
    low = n % (1 << bits)
    return low - (1 << bits) if low >> (bits - 1) else low


def place_of(i, given, *, longest=False):
    """The number of the line that comes at place i where lines are sorted by length."""
    return sorted(range(len(given)), key=lambda one: -given[one] if longest else given[one])[i]


_LENGTHS = {
    "nothing": (lambda n, s, i, g: 0, "nothing is reversed"),
    "whole lines": (lambda n, s, i, g: s, "whole lines"),
    "0 is the whole line": (lambda n, s, i, g: n or s, "whole lines"),
    **{f"{k} too small": (lambda n, s, i, g, k=k: n - k, "too small") for k in (1, 2, 3)},
    **{f"{k} too small, clamped before": (lambda n, s, i, g, k=k: min(n, s) - k, "too small") for k in (1, 2)},
    "1 too small, and 0 wraps": (lambda n, s, i, g: n - 1 if n else s, "one below 0"),
    **{f"{k} too large": (lambda n, s, i, g, k=k: n + k, "too large|is added") for k in (1, 2)},
    **{f"clamped to {k}": (lambda n, s, i, g, k=k: min(n, k), "at most") for k in (5, 6, 7)},
    **{f"at least {k}": (lambda n, s, i, g, k=k: max(n, k), "at least") for k in (4, 6)},
    "clamped to one less": (lambda n, s, i, g: min(n, s - 1), "at most"),
    "above the size is 0": (lambda n, s, i, g: 0 if n > s else n, "nothing is reversed"),
    "from the size on is 0": (lambda n, s, i, g: 0 if n >= s else n, "nothing is reversed"),
    "above the size modulo": (lambda n, s, i, g: n % s if n > s else n, "taken modulo it"),
    "modulo the size": (lambda n, s, i, g: n % s, "modulo"),
    "modulo 8": (lambda n, s, i, g: n % 8, "modulo 8"),
    **{f"divided by {k}": (lambda n, s, i, g, k=k: n // k, "divided") for k in (2, 3, 4)},
    "halved, rounded up": (lambda n, s, i, g: (n + 1) // 2, "rounded up"),
    "clamped and halved": (lambda n, s, i, g: min(n, s) // 2, "divided"),
    **{f"times {k}": (lambda n, s, i, g, k=k: n * k, "multiplied") for k in (2, 4)},
    "the size minus the length": (lambda n, s, i, g: s - n, "axis size minus"),
    **{f"down to a multiple of {k}": (lambda n, s, i, g, k=k: n // k * k, "rounded down") for k in (2, 4, 8)},
    **{f"up to a multiple of {k}": (lambda n, s, i, g, k=k: -(-n // k) * k, "rounded up") for k in (2, 4, 8)},
    "to the nearest multiple of 4": (lambda n, s, i, g: (n + 2) // 4 * 4, "rounded to the nearest|powers of 2"),
    "down to a power of 2": (lambda n, s, i, g: 1 << (n.bit_length() - 1) if n else 0, "rounded down to powers"),
    "up to a power of 2": (lambda n, s, i, g: 1 << (n - 1).bit_length() if n else 0, "rounded up to powers"),
    "the low 3 bits": (lambda n, s, i, g: n & 7, "modulo 8"),
    "4 bits, signed": (lambda n, s, i, g: signed(n, 4), "signed|nothing is reversed"),
    "saturated at 7": (lambda n, s, i, g: min(n, 7), "at most"),
    "only from 5 on": (lambda n, s, i, g: n if n >= 5 else 0, "nothing is reversed"),
    "only up to 6": (lambda n, s, i, g: n if n <= 6 else 0, "nothing is reversed"),
    "from 8 on whole": (lambda n, s, i, g: s if n >= 8 else n, "whole lines|at least"),
    "the longest": (lambda n, s, i, g: max(g), "longest|whole lines"),
    "the shortest": (lambda n, s, i, g: min(g), "shortest|nothing is reversed"),
    "the mean": (lambda n, s, i, g: sum(min(each, s) for each in g) // len(g), "mean|by the length"),
    "5 for all": (lambda n, s, i, g: 5, "by the length|mean|other lines"),
    "the first for all": (lambda n, s, i, g: g[0], "other lines|by the length|mean"),
    "the last for all": (lambda n, s, i, g: g[-1], "other lines|by the length|whole lines|nothing is reversed|mean"),
    "of the line before": (lambda n, s, i, g: g[i - 1], "other lines"),
    "of the line behind": (lambda n, s, i, g: g[(i + 1) % len(g)], "other lines"),
    "of two lines before": (lambda n, s, i, g: g[i - 2], "other lines"),
    "of the line before, the first again": (lambda n, s, i, g: g[max(i - 1, 0)], "other lines"),
    "of the line behind, and 0": (lambda n, s, i, g: g[i + 1] if i + 1 < len(g) else 0, "other lines"),
    "in reverse order": (lambda n, s, i, g: g[-1 - i], "other lines"),
    "swapped pairs": (lambda n, s, i, g: g[i ^ 1] if i ^ 1 < len(g) else n, "other lines"),
    "sorted": (lambda n, s, i, g: sorted(g)[i], "other lines"),
    "sorted, the longest first": (lambda n, s, i, g: sorted(g, reverse=True)[i], "other lines"),
    "sums": (lambda n, s, i, g: sum(g[: i + 1]), "sums"),
}  # fmt: skip


# Elements


def lines(element):
    """Each element of the output by `element`: of the line, its clamped length, and the index."""

    def made(job):
        out = np.empty_like(job.x)
        for place in np.ndindex(*(s for d, s in enumerate(job.x.shape) if d != job.axis)):
            at = (*place[: job.axis], slice(None), *place[job.axis :])
            line = [*job.x[at]]
            length = min(int(job.n[(*place[: job.axis], 0, *place[job.axis :])]), len(line))
            for j in range(len(line)):
                out[(*place[: job.axis], j, *place[job.axis :])] = element(line, length, j)
        return out

    return made


def right(line, n, j):
    return line[n - 1 - j] if j < n else line[j]


def blocks(line, n, j, k, *, order):
    """Blocks of k elements: their order is reversed, or what is in each of them."""
    if j >= n:
        return line[j]
    start = [line[i : min(i + k, n)] for i in range(0, n, k)]
    parts = reversed(start) if order else [part[::-1] for part in start]
    return [each for part in parts for each in part][j]


def in_place(*, behind):
    def element(line, n, j):
        changed = list(line)
        for i in reversed(range(n)) if behind else range(n):
            changed[i] = changed[n - 1 - i]
        return changed[j]

    return element


def halves(line, n, j):
    half = n // 2
    return [*line[:half][::-1], *line[half:n][::-1], *line[n:]][j]


_ELEMENTS = {
    "the rest is reversed, too": (lambda x, n, j: [*x[:n][::-1], *x[n:][::-1]][j], "is reversed, too"),
    "only the rest": (lambda x, n, j: [*x[:n], *x[n:][::-1]][j], "only what is behind"),
    **{f"the start is rotated by {k}": (
        lambda x, n, j, k=k: right(x, n, (j + k) % n) if j < n else x[j], "part is rotated|too small|stay") for k in (1, -1, 2)},
    **{f"the line is rotated by {k}": (
        lambda x, n, j, k=k: right(x, n, (j + k) % len(x)), "ahead, around|behind, around") for k in (1, -1, 2, -3)},
    **{f"the line is moved by {k}": (
        lambda x, n, j, k=k: right(x, n, j + k) if 0 <= j + k < len(x) else 0, "zeros outside") for k in (1, -1, 2)},
    "rotated, not reversed": (lambda x, n, j: x[(j + 1) % n] if j < n else x[j], "not reversed"),
    "rotated back, not reversed": (lambda x, n, j: x[(j - 1) % n] if j < n else x[j], "not reversed"),
    "rotated by the length": (lambda x, n, j: x[(j + n) % len(x)], "rotated by its length"),
    "reversed again": (lambda x, n, j: right(x, n, len(x) - 1 - j), "output come in reverse"),
    "reversed before": (lambda x, n, j: right(x[::-1], n, j), "input are read in reverse"),
    "the last are reversed": (lambda x, n, j: [*x[: len(x) - n], *x[len(x) - n :][::-1]][j], "end of the line"),
    "padded left": (lambda x, n, j: [*[0] * (len(x) - n), *x[:n][::-1]][j], "behind zeros"),
    "padded left, not reversed": (lambda x, n, j: [*[0] * (len(x) - n), *x[:n]][j], "behind zeros"),
    "the rest first": (lambda x, n, j: [*x[n:], *x[:n][::-1]][j], "behind the rest"),
    "only the ends": (lambda x, n, j: right(x, n, j) if j in (0, n - 1) else x[j], "output is the input"),
    "only two at the ends": (lambda x, n, j: right(x, n, j) if j < 2 or j >= n - 2 else x[j], "output is the input"),
    "the ends are kept": (lambda x, n, j: x[j] if j in (0, n - 1) else right(x, n, j), "output is the input"),
    "the first is kept": (lambda x, n, j: [*x[:1], *x[1:n][::-1], *x[max(n, 1) :]][j], "stay|part is rotated"),
    "the first two are kept": (lambda x, n, j: [*x[:2], *x[2:n][::-1], *x[max(n, 2) :]][j], "stay"),
    "the last is kept": (lambda x, n, j: right(x, max(n - 1, 0), j), "too small"),
    "in place": (in_place(behind=False), "in place"),
    "in place from behind": (in_place(behind=True), "in place"),
    "halves": (halves, "two halves"),
    **{f"blocks of {k}, inside": (
        lambda x, n, j, k=k: blocks(x, n, j, k, order=False), "each tile") for k in (2, 4, 8)},
    **{f"blocks of {k}, in order": (
        lambda x, n, j, k=k: blocks(x, n, j, k, order=True), "tiles of") for k in (2, 4)},
    "one too far": (lambda x, n, j: [*x, 0][n - j] if j < n else x[j], "1 ahead"),
    "one too far, the last again": (lambda x, n, j: x[min(n - j, len(x) - 1)] if j < n else x[j], "1 ahead"),
    "one too near": (lambda x, n, j: (x[n - 2 - j] if n - 2 - j >= 0 else 0) if j < n else x[j], "1 behind"),
    "one too near, around": (lambda x, n, j: x[n - 2 - j] if j < n else x[j], "1 behind"),
    "from the end": (lambda x, n, j: x[len(x) - 1 - j] if j < n else x[j], "end of the reversed line"),
    "the rest is shifted": (lambda x, n, j: x[n - 1 - j] if j < n else [*x, 0][j + 1], "behind the length is"),
    "the rest is rotated": (
        lambda x, n, j: x[n - 1 - j] if j < n else x[n + (j - n + 1) % (len(x) - n)], "behind the length is"),
    "the line again": (lambda x, n, j: x[n - 1 - j] if j < n else x[j - n], "begins again"),
    "the last before the length again": (lambda x, n, j: x[n - 1 - j] if j < n else x[max(n - 1, 0)], "last element before"),
    "the first again": (lambda x, n, j: x[n - 1 - j] if j < n else x[0], "stands the first"),
    "all from the first": (lambda x, n, j: x[0] if j < n else x[j], "fills the reversed part"),
    "all from the last": (lambda x, n, j: x[n - 1] if j < n else x[j], "fills the reversed part"),
    "indices modulo 4": (lambda x, n, j: x[(n - 1 - j) % 4] if j < n else x[j], "indices are taken modulo"),
    "twice": (lambda x, n, j: x[n - 1 - j // 2] if j < n else x[j], "taken 2 times"),
    "even ones first": (lambda x, n, j: [*x[:n:2], *x[1:n:2], *x[n:]][j], "even indices"),
    "only the first 4": (lambda x, n, j: right(x, n, j) if j < 4 else x[j], "output is the input"),
}  # fmt: skip


def past_the_end(zero):
    """Lengths are not clamped: behind the line, the memory is read, or zeros; behind the tensor, there is nothing."""

    def made(job):
        out, flat = np.array(job.x), [*np.ascontiguousarray(job.x).reshape(-1)]
        strides = [int(np.prod(job.x.shape[d + 1 :])) for d in range(job.x.ndim)]
        for index in np.ndindex(job.x.shape):
            length = int(job.n[(*index[: job.axis], 0, *index[job.axis + 1 :])])
            if index[job.axis] < length:
                j = length - 1 - index[job.axis]
                start = sum(i * s for d, (i, s) in enumerate(zip(index, strides, strict=True)) if d != job.axis)
                place = start + j * strides[job.axis]
                out[index] = 0 if place >= len(flat) or (zero and j >= job.size) else flat[place]
        return out

    return made


# Memory, lines and axes


def read_in_the_other_order(x):
    return np.ascontiguousarray(x).reshape(-1).reshape(x.shape, order="F")


def as_the_other_layout(job):
    """The memory is taken for that of [T,B,F] where it is [B,T,F], or the other way round, and never transposed."""
    axes = list(range(job.x.ndim))
    first = 0 if job.axis else 1
    axes[first], axes[job.axis] = job.axis, first
    x = np.ascontiguousarray(job.x).reshape([job.x.shape[d] for d in axes])
    return oracle.reverse(x, job.n.transpose(axes), first).reshape(job.x.shape)


def shifted(step, *, zero=False, before=False):
    def made(job):
        flat = np.ascontiguousarray(job.x if before else job.right).reshape(-1)
        moved = [flat[(i + step) % len(flat)] for i in range(len(flat))]
        if zero:
            moved[0 if step < 0 else -1] = 0
        moved = np.array(moved, job.x.dtype).reshape(job.x.shape)
        return oracle.reverse(moved, job.n, job.axis) if before else moved

    return made


def a_dimension(job):
    return 1 if job.axis == 0 else 0


def rows(take, *, of_input):
    """The slices along a dimension that is not reversed come from other places: `take` gets the index and the count."""

    def made(job):
        d = a_dimension(job)
        count = job.x.shape[d]
        source = job.x if of_input else job.right
        given = [int(np.moveaxis(job.n, d, 0)[i].reshape(-1)[0]) for i in range(count)]
        out = np.moveaxis(np.empty_like(source), d, 0)
        for i in range(count):
            out[i] = np.moveaxis(source, d, 0)[take(i, count, given)]
        out = np.moveaxis(out, 0, d)
        return oracle.reverse(out, job.n, job.axis) if of_input else np.ascontiguousarray(out)

    return made


def sorted_by_length(job):
    """The lines are sorted by length for packing, and never put back."""
    return None if job.batch is None else rows(lambda i, c, g: place_of(i, g, longest=True), of_input=False)(job)


_MEMORY = {
    "memory of the transpose": (lambda job: job.right.swapaxes(0, 1).reshape(job.x.shape), "elements of the output"),
    "memory in the other order": (lambda job: job.right.reshape(-1, order="F").reshape(job.x.shape), "elements of the output"),
    "memory read in the other order": (lambda job: read_in_the_other_order(job.right), "elements of the output"),
    "input read in the other order": (
        lambda job: oracle.reverse(read_in_the_other_order(job.x), job.n, job.axis), "elements of the input"),
    "taken for the other layout": (as_the_other_layout, "is taken for|is reversed"),
    "shifted forwards": (shifted(1), "output come from the place|ahead, around|behind, around"),
    "shifted backwards": (shifted(-1), "output come from the place"),
    "shifted forwards, with a zero": (shifted(1, zero=True), "output come from the place"),
    "shifted backwards, with a zero": (shifted(-1, zero=True), "output come from the place"),
    "shifted before": (shifted(1, before=True), "input are read from the place"),
    "past the end of the line": (past_the_end(zero=False), "not clamped"),
    "past the end, zeros": (past_the_end(zero=True), "not clamped"),
    "lines in reverse order": (rows(lambda i, c, g: c - 1 - i, of_input=False), "of the output come"),
    "lines one before": (rows(lambda i, c, g: i - 1, of_input=False), "of the output come"),
    "lines in pairs": (rows(lambda i, c, g: i ^ 1 if i ^ 1 < c else i, of_input=False), "of the output come|of the input are read"),
    "the first line for all": (rows(lambda i, c, g: 0, of_input=False), "of the output come"),
    "input in reverse order": (rows(lambda i, c, g: c - 1 - i, of_input=True), "of the input are read"),
    "input one behind": (rows(lambda i, c, g: (i + 1) % c, of_input=True), "of the input are read"),
    "the first input for all": (rows(lambda i, c, g: 0, of_input=True), "of the input are read"),
    "input reversed along the axis": (
        lambda job: oracle.reverse(np.flip(job.x, job.axis).copy(), job.n, job.axis), "input are read in reverse|of the input are read"),
    "sorted by length": (sorted_by_length, "of the output come"),
}  # fmt: skip


# Values


def each(change, kinds="fiu"):
    def made(job):
        if job.x.dtype.kind not in kinds:
            return None
        flat = [change(v) for v in job.right.reshape(-1)]
        with np.errstate(all="ignore"):
            return np.array(flat).astype(job.x.dtype).reshape(job.x.shape)

    return made


def by_bits(change, kinds="f"):
    """The bits of each element as an integer, changed: with the number of bits."""

    def made(job):
        if job.x.dtype.kind not in kinds:
            return None
        width = job.x.dtype.itemsize
        flat = [int.from_bytes(v.astype(v.dtype.newbyteorder("<")).tobytes(), "little") for v in job.right.reshape(-1)]
        raw = b"".join((change(word, 8 * width) % (1 << 8 * width)).to_bytes(width, "little") for word in flat)
        return np.frombuffer(raw, job.x.dtype.newbyteorder("<")).reshape(job.x.shape).astype(job.x.dtype)

    return made


def float_of(bits):
    return np.uint32(bits & 0xFFFFFFFF).view(np.float32)


def cut_to(count):
    return lambda v: float_of(int(np.float32(v).view(np.uint32)) >> count << count)


def rounded_to(count):
    """To the nearest of both neighbours, found by their distances; the values of the jobs are finite."""

    def change(v):
        bits = int(np.float32(v).view(np.uint32))
        low, high = (float_of(b << count) for b in (bits >> count, (bits >> count) + 1))
        near, far = abs(float(np.float32(v)) - float(low)), abs(float(high) - float(np.float32(v)))
        return high if far < near or (far == near and bits >> count & 1) else low

    return change


def flushed(v):
    return v * 0 if abs(v) < np.finfo(v.dtype).tiny else v


_VALUES = {
    "rounded to FLOAT16": (each(np.float16, "f"), "FLOAT16"),
    "rounded to FLOAT32": (lambda job: each(np.float32, "f")(job) if job.x.dtype.itemsize > 4 else None, "FLOAT32"),
    "integers as FLOAT32": (lambda job: each(np.float32, "i")(job) if job.x.dtype.itemsize > 2 else None, "FLOAT32"),
    "integers as FLOAT16": (each(lambda v: np.float16(v) if abs(int(v)) < 65000 else v, "i"), ""),
    "rounded to BFLOAT16": (each(rounded_to(16), "f"), "rounded to BFLOAT16"),
    "cut to BFLOAT16": (each(cut_to(16), "f"), "cut to BFLOAT16|low 8 bits"),
    "rounded to TF32": (each(rounded_to(13), "f"), "TF32|FLOAT16"),
    "cut to TF32": (each(cut_to(13), "f"), "cut to TF32|low 8 bits"),
    "denormals flushed": (each(flushed, "f"), "denormal"),
    "negated": (each(lambda v: -v, "f"), "negated"),
    "sign lost": (each(lambda v: abs(v), "f"), "lose their sign"),
    "ReLU": (each(lambda v: max(v, v * 0), "fi"), "below 0"),
    "byte order": (lambda job: np.array([v.byteswap() for v in job.right.reshape(-1)]).reshape(job.x.shape), "bytes of elements"),
    "words swapped": (by_bits(lambda word, width: word >> width // 2 | word << width // 2), "words of"),
    "one unit up": (by_bits(lambda word, _: word + 1), "too far from 0"),
    "one unit down": (by_bits(lambda word, _: word - 1), "too near to 0|low 8 bits"),
    "the low 8 bits lost": (by_bits(lambda word, _: word >> 8 << 8, "fi"), "low 8 bits"),
    "sign bit turned": (by_bits(lambda word, width: word ^ 1 << width - 1), "negated"),
    "integer sign bit turned": (by_bits(lambda word, width: word ^ 1 << width - 1, "i"), "is added|turned over"),
    "all bits turned": (by_bits(lambda word, width: word ^ (1 << width) - 1, "fi"), "turned over"),
    "cut to integers": (each(lambda v: float(int(v)), "f"), "cut to integers|INT"),
    "rounded to integers": (each(lambda v: float(round(float(v))), "f"), "rounded to integers"),
    "doubled": (each(lambda v: v * 2, "f"), "multiplied by"),
    "halved": (each(lambda v: v / 2, "f"), "multiplied by"),
    "as parts of 255": (each(lambda v: v * v.dtype.type(1 / 255), "f"), "multiplied by"),
    "three too large": (each(lambda v: int(v) + 3, "i"), "too large|is added"),
    "quantised": (each(lambda v: float(round(float(v) / 0.5)) * 0.5, "f"), "multiples of"),
    "clipped": (each(lambda v: min(max(v, v.dtype.type(-100)), v.dtype.type(100)), "f"), "clipped"),
    "saturated to INT8": (each(lambda v: min(max(int(v), -128), 127), "i"), "INT8|clipped"),
    "saturated to UINT8": (each(lambda v: min(max(int(v), 0), 255), "i"), "UINT8|clipped"),
    "wrapped to UINT8": (each(lambda v: int(v) % 256, "i"), "UINT8"),
    "wrapped to INT8": (each(lambda v: signed(int(v), 8), "i"), "INT8"),
    "wrapped to INT16": (each(lambda v: signed(int(v), 16), "i"), "INT16"),
}  # fmt: skip


# Parts


def garbage(job, _):
    """What memory has that nobody wrote."""
    return np.frombuffer(bytes([0xCD] * 8), job.x.dtype)[0]


def not_done(where, fill):
    """The right output but where `where` says so: for the index, the job, the length, and the number of the element."""

    def made(job):
        out = np.array(job.right)
        for number, index in enumerate(np.ndindex(job.x.shape)):
            length = int(job.n[(*index[: job.axis], 0, *index[job.axis + 1 :])])
            if where(index, job, length, number):
                out[index] = fill(job, index)
        return out

    return made


def line_number(index, job):
    sizes = [1 if d == job.axis else s for d, s in enumerate(job.x.shape)]
    return int(np.ravel_multi_index([0 if d == job.axis else i for d, i in enumerate(index)], sizes))


_WHERE = {
    "everywhere": lambda i, job, n, number: True,
    "every second line": lambda i, job, n, number: line_number(i, job) % 2,
    "from the second batch on": lambda i, job, n, number: i[a_dimension(job)] > 0,
    "the first batch": lambda i, job, n, number: i[a_dimension(job)] == 0,
    "the last batch": lambda i, job, n, number: i[a_dimension(job)] == job.x.shape[a_dimension(job)] - 1,
    "the second half": lambda i, job, n, number: number >= job.x.size // 2,
    "the first half": lambda i, job, n, number: number < job.x.size // 2,
    "behind 64 elements": lambda i, job, n, number: number >= 64,
    "the middle": lambda i, job, n, number: number // (job.x.size // 3) == 1,
    "half of each line": lambda i, job, n, number: i[job.axis] >= job.size // 2,
    "the tail of lines": lambda i, job, n, number: i[job.axis] >= job.size // 4 * 4,
    "behind the length": lambda i, job, n, number: i[job.axis] >= n,
    "lines of length 0": lambda i, job, n, number: n == 0,
    "long lines": lambda i, job, n, number: n > job.size,
    "short lines": lambda i, job, n, number: n < 4,
    "odd indices": lambda i, job, n, number: i[job.axis] % 2,
    "lines of odd length": lambda i, job, n, number: n % 2,
    "odd batches": lambda i, job, n, number: i[a_dimension(job)] % 2,
    "every fourth element": lambda i, job, n, number: i[job.axis] % 4 == 3,
    "the first element": lambda i, job, n, number: i[job.axis] == 0,
}
_FILLS = {
    "zeros": (lambda job, _: job.x.dtype.type(0), "only 0"),
    "never written": (garbage, "output is only"),
    "the input": (lambda job, index: job.x[index], "output is the input|nothing is reversed"),
}


# Two together


def then(first, second):
    """What the second makes of an output: it changes values, and sees what the first gave as right."""

    def made(job):
        out = first(job)
        return None if out is None else second(_Given(job, out))

    return made


class _Given:
    """A job whose right output is another one."""

    def __init__(self, job, out):
        self.x, self.right = job.x, out


_TOGETHER = {
    f"{place}, {value}": (then(make, _VALUES[value][0]), (place_ids, _VALUES[value][1]))
    for place, make, place_ids in (
        ("one too small", by_length(_LENGTHS["1 too small"][0]), "too small"),
        ("whole lines", by_length(_LENGTHS["whole lines"][0]), "whole lines"),
        ("in reverse order", by_length(_LENGTHS["in reverse order"][0]), "other lines"),
        ("rotated", lines(_ELEMENTS["the line is rotated by 1"][0]), "ahead, around|behind, around"),
    )
    for value in ("rounded to FLOAT16", "byte order", "cut to BFLOAT16", "three too large")
}

MISTAKES = (
    {f"lengths: {name}": (by_length(change), ids) for name, (change, ids) in _LENGTHS.items()}
    | {"lengths: as 16 bits": (as_small_words(16), "words of"), "lengths: as 8 bits": (as_small_words(8), "words of")}
    | {f"elements: {name}": (lines(element), ids) for name, (element, ids) in _ELEMENTS.items()}
    | {f"memory: {name}": made for name, made in _MEMORY.items()}
    | {f"values: {name}": made for name, made in _VALUES.items()}
    | {f"{name}: {fill}": (not_done(where, make), ids) for name, where in _WHERE.items() for fill, (make, ids) in _FILLS.items()}
    | {f"both: {name}": (make, *words) for name, (make, words) in _TOGETHER.items()}
)  # fmt: skip
