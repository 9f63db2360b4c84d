"""Wrong outputs as porters make them, of lines that slow and obvious loops make one after the other.

Nothing here knows how the package explains them. Each mistake has words of which a sentence that explains it has some:
those of its cause, or of causes that give the same output.
"""

from typing import NamedTuple

import ml_dtypes
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

    def reversed_by(self, lengths):
        """The output for other lengths, which are as many as the given ones."""
        sizes = [
            1 if d == self.axis or self.batch not in (None, d) else s
            for d, s in enumerate(self.x.shape)
        ]
        wide = np.reshape([max(int(n), 0) for n in lengths], sizes).astype("u8")
        return oracle.reverse(self.x, np.broadcast_to(wide, self.n.shape), self.axis)


def a_job(seed, sizes, dtype, batch=None, order="C"):
    """Distinct values, some of them denormal, and random lengths of which some are 0, and some above the axis size."""
    rng = np.random.default_rng(seed)
    size, count = sizes[1], int(np.prod(sizes))
    given = rng.integers(0, size + 3, [sizes[0], 1] if batch is None else [sizes[0]]).astype("u4")
    given.reshape(-1)[:6] = size - 1, 0, size + 2, 4, size, 3
    x = (
        rng.normal(0, 300, count).astype(dtype)
        if dtype == "<f4"
        else rng.integers(-(1 << 31), 1 << 31, count, dtype)
    )
    if dtype == "<f4":
        x[::7] = np.finfo(dtype).smallest_subnormal * np.arange(1, 1 + len(x[::7]))
    wide = given.reshape(-1, *[1] * (len(sizes) - 1))
    return Job(
        np.asarray(x.reshape(sizes), order=order),
        given,
        1,
        batch,
        wide + np.zeros((1, 1, *sizes[2:]), "u4"),
    )


JOBS = {
    "FLOAT32 of {9,13} along 1": a_job(1, (9, 13), "<f4"),
    "INT32 of {8,11,3} along 1, batch 0, in Fortran order": a_job(2, (8, 11, 3), "<i4", 0, "F"),
}


def by_length(change):
    """Each line is reversed by another length: `change` gets its own, the axis size, its number and all lengths."""
    return lambda job: job.reversed_by(
        [
            change(n, job.x.shape[1], i, given)
            for given in [job.given.ravel().tolist()]
            for i, n in enumerate(given)
        ]
    )


_LENGTHS = {
    "nothing": (lambda n, s, i, g: 0, "nothing is reversed"),
    "whole sequences": (lambda n, s, i, g: s, "whole sequences"),
    "0 is the whole line": (lambda n, s, i, g: n or s, "whole sequences"),
    "1 too small": (lambda n, s, i, g: n - 1, "1 too small"),
    "1 too small, and 0 wraps": (lambda n, s, i, g: n - 1 if n else s, "one below 0"),
    "clamped to 6": (lambda n, s, i, g: min(n, 6), "at most 6"),
    "modulo the size": (lambda n, s, i, g: n % s, "modulo"),
    "divided by 4": (lambda n, s, i, g: n // 4, "divided by 4"),
    "times 2": (lambda n, s, i, g: n * 2, "multiplied by 2"),
    "the size minus the length": (lambda n, s, i, g: s - n, "axis size minus"),
    "down to a multiple of 4": (lambda n, s, i, g: n // 4 * 4, "rounded down to multiples of 4"),
    "up to a multiple of 8": (lambda n, s, i, g: -(-n // 8) * 8, "rounded up to multiples of 8"),
    "the longest": (lambda n, s, i, g: max(g), "longest|whole sequences"),
    "the first for all": (lambda n, s, i, g: g[0], "other sequences|by the length"),
    "of the line before": (lambda n, s, i, g: g[i - 1], "other sequences.* 1 behind, around"),
    "in reverse order": (lambda n, s, i, g: g[-1 - i], "other sequences.* in reverse"),
    "in pairs": (lambda n, s, i, g: g[i ^ 1] if i ^ 1 < len(g) else n, "other sequences.* group of 2"),
    "sorted, the longest first": (lambda n, s, i, g: sorted(g, reverse=True)[i], "other sequences.* sorted"),
    "sums": (lambda n, s, i, g: sum(g[: i + 1]), "sums"),
    "as 16 bits": (lambda n, s, i, g: np.array(g, "<u4").view("<u2")[i], "words of 16 bits"),
}  # fmt: skip


def of_lines(line):
    """Each line of the output by `line`: of that of the input, as a list, and its clamped length."""

    def made(job):
        out = np.empty_like(job.x)
        for i, k in np.ndindex(len(job.x), job.x[0, 0].size):
            x, n = (
                job.x.reshape(*job.x.shape[:2], -1)[i, :, k].tolist(),
                int(job.n.reshape(len(job.x), -1)[i, k]),
            )
            out.reshape(*job.x.shape[:2], -1)[i, :, k] = line(x, min(n, len(x)))
        return out

    return made


def in_place(x, n):
    for i in range(n):
        x[i] = x[n - 1 - i]
    return x


def each(element):
    """A line by its elements: of the line, the length and the index; those behind the length stay."""
    return lambda x, n: [element(x, n, j) if j < n else x[j] for j in range(len(x))]


def rotated(x, k):
    return [x[(j + k) % len(x)] for j in range(len(x))]


_ELEMENTS = {
    "the rest is reversed, too": (lambda x, n: x[:n][::-1] + x[n:][::-1], "is reversed, too"),
    "only the rest": (lambda x, n: x[:n] + x[n:][::-1], "only what is after"),
    "the start is rotated": (lambda x, n: rotated(x[:n][::-1], 2) + x[n:], "part is rotated"),
    "the line is rotated": (lambda x, n: rotated(x[:n][::-1] + x[n:], -3), "3 behind, around"),
    "rotated, not reversed": (lambda x, n: rotated(x[:n], 1) + x[n:], "not reversed"),
    "rotated by the length": (lambda x, n: rotated(x, n), "rotated by its length"),
    "rotated back by the length": (lambda x, n: rotated(x, -n), "rotated back by its length"),
    "reversed again": (lambda x, n: (x[:n][::-1] + x[n:])[::-1], "output come in reverse"),
    "reversed before": (lambda x, n: x[::-1][:n][::-1] + x[::-1][n:], "input are read in reverse"),
    "the last are reversed": (lambda x, n: x[: len(x) - n] + x[len(x) - n :][::-1], "end of the sequence"),
    "whole, and masked": (lambda x, n: x[::-1][:n] + [0] * len(x[n:]), "reversed whole, with zeros"),
    "padded left": (lambda x, n: [0] * len(x[n:]) + x[:n][::-1], "after zeros"),
    "the rest first": (lambda x, n: x[n:] + x[:n][::-1], "after the rest"),
    "the first is kept": (lambda x, n: x[:1] + x[1:n][::-1] + x[max(n, 1) :], "first 1 stay|part is rotated by 1"),
    "in place": (in_place, "first half is written"),
    "tiles of 4": (lambda x, n: [v for i in range(0, n, 4) for v in x[i : min(i + 4, n)][::-1]] + x[n:], "each tile of 4"),
    "tiles of 2, in order": (lambda x, n: [v for i in range(0, n, 2)[::-1] for v in x[i : min(i + 2, n)]] + x[n:], "tiles of 2"),
    "one too far": (each(lambda x, n, j: [*x, 0][n - j]), "1 ahead, with zeros"),
    "one too far, the last again": (each(lambda x, n, j: x[min(n - j, len(x) - 1)]), "1 ahead, or the out"),
    "one too near, around": (each(lambda x, n, j: x[n - 2 - j]), "1 behind, around"),
    "from the end": (lambda x, n: x[::-1][:n] + x[n:], "whole sequences are reversed, in elements before"),
    "the line again": (lambda x, n: x[:n][::-1] + x[: len(x) - n], "begins again"),
    "the part again": (lambda x, n: [x[n - 1 - j % n] for j in range(len(x))] if n else x, "part is repeated"),
    "the last again": (lambda x, n: x[:n][::-1] + [x[max(n - 1, 0)]] * len(x[n:]), "last element before"),
    "the first again": (lambda x, n: x[:n][::-1] + x[:1] * len(x[n:]), "is the first"),
    "all from the first": (lambda x, n: x[:1] * n + x[n:], "fills the reversed part"),
    "only the first 4": (each(lambda x, n, j: x[n - 1 - j] if j < 4 else x[j]), "output is the input"),
}  # fmt: skip


def past_the_end(job):
    """Lengths are not clamped: behind the line, the memory is read; behind the tensor, there are zeros."""
    number = np.arange(job.x.size).reshape(job.x.shape)
    step = int(np.prod(job.x.shape[2:]))
    j, n = number // step % job.x.shape[1], job.n.astype(int)
    place = np.where(j < n, number + (n - 1 - 2 * j) * step, number)
    return np.append(job.x.ravel(), job.x.dtype.type(0))[np.minimum(place, job.x.size)]


def as_the_other_layout(job):
    """The memory is taken for that of [T,B,F] where it is [B,T,F], and never transposed."""
    axes = [1, 0, *range(2, job.x.ndim)]
    x = np.ascontiguousarray(job.x).reshape([job.x.shape[d] for d in axes])
    return oracle.reverse(x, job.n.transpose(axes), 0).reshape(job.x.shape)


def batches(order, *, of_input=False):
    """Batches come from others: `order` gets all of their numbers, and the given lengths."""

    def made(job):
        rows = [*order([*range(len(job.x))], job.given.ravel().tolist())]
        return oracle.reverse(job.x[rows], job.n, 1) if of_input else job.right[rows]

    return made


_MEMORY = {
    "memory of the transpose": (lambda job: job.right.swapaxes(0, 1).reshape(job.x.shape), "elements of the output"),
    "memory in the other order": (lambda job: job.right.reshape(-1, order="F").reshape(job.x.shape), "elements of the out"),
    "input read in the other order": (lambda job: oracle.reverse(job.x.reshape(-1).reshape(job.x.shape, order="F"), job.n, 1), "elements of the input"),
    "taken for the other layout": (as_the_other_layout, "is taken for|is reversed"),
    "shifted": (lambda job: np.roll(job.right.ravel(), -1).reshape(job.x.shape), "1 ahead, around"),
    "shifted before": (lambda job: oracle.reverse(np.roll(job.x.ravel(), 1).reshape(job.x.shape), job.n, 1),
                       "input are read from the place in memory 1 behind"),
    "past the end of the sequence": (past_the_end, "not clamped, and the memory"),
    "batches in reverse order": (batches(lambda i, n: i[::-1]), "batches of the output come in reverse"),
    "the first batch for all": (batches(lambda i, n: [0] * len(i)), "batches of the output come from index 0"),
    "inputs one behind": (batches(lambda i, n: i[1:] + i[:1], of_input=True), "batches of the input are read"),
    "sorted by length": (batches(lambda i, n: sorted(i, key=lambda b: -n[b])), "sorted by length"),
}  # fmt: skip


def of_values(change, kinds="fi"):
    def made(job):
        with np.errstate(all="ignore"):
            return change(job.right).astype(job.x.dtype) if job.x.dtype.kind in kinds else None

    return made


_VALUES = {
    "as FLOAT16": (of_values(lambda v: v.astype("f2"), "f"), "FLOAT16"),
    "integers as FLOAT32": (of_values(lambda v: v.astype("f4"), "i"), "FLOAT32"),
    "rounded to BFLOAT16": (of_values(lambda v: v.astype(ml_dtypes.bfloat16), "f"), "rounded to BFLOAT16"),
    "cut to BFLOAT16": (of_values(lambda v: (v.view("u4") >> 16 << 16).view("f4"), "f"), "cut to BFLOAT16"),
    "denormals flushed": (of_values(lambda v: np.where(abs(v) < np.finfo("f4").tiny, 0, v), "f"), "denormal values are 0"),
    "negated": (of_values(np.negative), "negated"),
    "sign lost": (of_values(np.abs), "lose their sign"),
    "ReLU": (of_values(lambda v: np.maximum(v, 0)), "below 0"),
    "byte order": (of_values(lambda v: v.byteswap()), "bytes of elements"),
    "cut to integers": (of_values(np.trunc, "f"), "cut to integers|INT"),
    "rounded to integers": (of_values(np.rint, "f"), "rounded to integers"),
    "three too large": (of_values(lambda v: v + 3, "i"), "3 is added"),
    "standardised": (of_values(lambda v: (v - v.mean()) / v.std(), "f"), "multiplied by .* is added"),
    "quantised": (of_values(lambda v: np.rint(v / 0.5) * 0.5, "f"), "multiples of 0.5"),
    "printed": (of_values(lambda v: np.vectorize(lambda e: float(f"{e:.5g}"))(v), "f"), "5 significant digits"),
    "clipped": (of_values(lambda v: np.clip(v, -100, 100), "f"), "clipped to -100 and 100"),
    "wrapped to UINT8": (of_values(lambda v: v % 256, "i"), "UINT8"),
    "masked by a product": (
        lambda job: job.right * (np.arange(job.x.shape[1]).reshape(-1, *[1] * (job.x.ndim - 2)) < job.n), "only 0"),
    "added to the input": (lambda job: job.right + job.x, "input is added"),
}  # fmt: skip


def where(mask, fill):
    """The right output but where `mask` says so: of the job, the indices of batches and in lines, and the lengths."""

    def made(job):
        i, j = (
            np.arange(job.x.shape[d]).reshape([-1 if k == d else 1 for k in range(job.x.ndim)])
            for d in (0, 1)
        )
        return np.where(mask(job, i, j, job.n), fill(job), job.right)

    return made


_WHERE = {
    "everywhere": lambda job, i, j, n: True,
    "the second half": lambda job, i, j, n: (
        np.arange(job.x.size).reshape(job.x.shape) >= job.x.size // 2
    ),
    "behind the length": lambda job, i, j, n: j >= n,
    "sequences of length 0": lambda job, i, j, n: n == 0,
    "long lines": lambda job, i, j, n: n > job.x.shape[1],
    "odd batches": lambda job, i, j, n: i % 2 == 1,
    "every fourth element": lambda job, i, j, n: j % 4 == 3,
}
_FILLS = {
    "zeros": (lambda job: np.zeros_like(job.x), "only 0"),
    "never written": (
        lambda job: np.full(job.x.shape, 0xCDCDCDCD, "u4").view(job.x.dtype),
        "output is only",
    ),
    "the input": (lambda job: job.x, "output is the input|nothing is reversed"),
}

MISTAKES = (
    {f"lengths: {name}": (by_length(change), words) for name, (change, words) in _LENGTHS.items()}
    | {f"elements: {name}": (of_lines(line), words) for name, (line, words) in _ELEMENTS.items()}
    | {f"memory: {name}": made for name, made in _MEMORY.items()}
    | {f"values: {name}": made for name, made in _VALUES.items()}
    | {f"{name}: {fill}": (where(mask, make), words) for name, mask in _WHERE.items()
       for fill, (make, words) in _FILLS.items()}
)  # fmt: skip
