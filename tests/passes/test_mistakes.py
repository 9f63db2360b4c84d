"""`diff --job` names the usual mistakes: each is made by hand here, one element or one line after the other.

Of every wrong output at least 90 of 100 must be named, and none falsely: where names are told, the mistake that was made is
one of them. Nothing here knows how the package finds it. An output of an earlier run has no name: it is right for
values that nobody gave.
"""

import json
import os
from typing import NamedTuple

import numpy as np
import oracle
import pytest

from revseq_cli.ground.tensors import DataType


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


def a_job(seed, sizes, axis, data_type, of_lengths, batch=None):
    """Random values, and random lengths of which some are 0, and some above the axis size."""
    rng = np.random.default_rng(seed)
    size = sizes[axis]
    shape = [1 if d == axis else s for d, s in enumerate(sizes)] if batch is None else [sizes[batch]]
    given = rng.integers(0, size + 3, shape).astype(of_lengths)
    given.reshape(-1)[:5] = size - 1, 0, size + 2, 4, size
    if data_type.kind == "float":
        x = rng.normal(0, 300, sizes).astype(oracle.dtype_of(data_type))
        tiny = np.finfo(x.dtype).smallest_subnormal
        x.reshape(-1)[::7] = tiny * np.arange(1, 1 + len(x.reshape(-1)[::7]))
    else:
        x = oracle.random_values(rng, sizes, data_type)
    wide = [s if d == batch else 1 for d, s in enumerate(sizes)]
    n = given if batch is None else given.reshape(wide)
    n = np.broadcast_to(n, [1 if d == axis else s for d, s in enumerate(sizes)]).copy()
    return Job(x, given, axis, batch, n)


JOBS = {
    "FLOAT32 of {7,9} along 1": a_job(1, (7, 9), 1, DataType.FLOAT32, np.uint32),
    "INT8 of {6,6,5} along 1, batch 0": a_job(2, (6, 6, 5), 1, DataType.INT8, np.uint32, 0),
    "FLOAT64 of {8,5,5} along 0": a_job(3, (8, 5, 5), 0, DataType.FLOAT64, np.uint64),
    "INT32 of {3,4,7,6} along 2": a_job(4, (3, 4, 7, 6), 2, DataType.INT32, np.uint32),
}


# Lengths


def of(job, n):
    return oracle.reverse(job.x, n, job.axis)


def given(job, change):
    """Right for lengths that are changed where they are given."""
    n = np.asarray(change(job.given), job.given.dtype).reshape(job.given.shape)
    if job.batch is not None:
        n = n.reshape([s if d == job.batch else 1 for d, s in enumerate(job.x.shape)])
    return of(job, np.broadcast_to(n, job.n.shape))


def with_neighbours(job, step, *, wraps):
    flat = job.given.reshape(-1).tolist()
    places = [i + step for i in range(len(flat))]
    return given(job, lambda _: [flat[i % len(flat) if wraps else min(max(i, 0), len(flat) - 1)] for i in places])


def of_another_axis(job):
    """The length for the index of another axis than the right one; None where there is none that does."""
    if job.batch is None:
        others = [d for d in range(job.x.ndim) if d != job.axis]
        pairs = [(d, e) for d in others for e in others if d < e and job.x.shape[d] == job.x.shape[e]]
        return of(job, job.n.swapaxes(*pairs[0])) if pairs else None
    other = next((d for d, s in enumerate(job.x.shape) if d not in (job.axis, job.batch) and s <= len(job.given)), None)
    if other is None:
        return None
    n = np.empty_like(job.n)
    for place in np.ndindex(n.shape):
        n[place] = job.given[place[other]]
    return of(job, n)


def as_small_words(job, bits):
    """The memory of the lengths, read as so many words of fewer bits."""
    raw = job.given.astype(job.given.dtype.newbyteorder("<")).tobytes()
    step = bits // 8
    return given(job, lambda n: [int.from_bytes(raw[i * step : (i + 1) * step], "little") for i in range(n.size)])


# Lines


def lines(job, element):
    """Each element of the output by `element`: of the line, its clamped length, the index and the number of the line."""
    out = np.empty_like(job.x)
    to, x = np.moveaxis(out, job.axis, -1), np.moveaxis(job.x, job.axis, -1)
    n = np.moveaxis(job.n, job.axis, -1)[..., 0]
    for number, place in enumerate(np.ndindex(n.shape)):
        line = [x[place][j] for j in range(x.shape[-1])]
        length = min(int(n[place]), len(line))
        for j in range(len(line)):
            to[place][j] = element(line, length, j, number)
    return out


def right(line, n, j, _=0):
    return line[n - 1 - j] if j < n else line[j]


def rotated_start(step):
    return lambda line, n, j, _: right(line, n, (j + step) % n) if j < n else line[j]


def rotated_line(step):
    return lambda line, n, j, _: right(line, n, (j + step) % len(line))


def last_reversed(line, n, j, _):
    size = len(line)
    return line[size - 1 - (j - (size - n))] if j >= size - n else line[j]


def only_ends(line, n, j, _):
    return line[n - 1] if n and j == 0 else line[0] if n and j == n - 1 else line[j]


def in_place(line, n, j, _):
    changed = list(line)
    for i in range(n):
        changed[i] = changed[n - 1 - i]
    return changed[j]


def in_place_from_behind(line, n, j, _):
    changed = list(line)
    for i in reversed(range(n)):
        changed[i] = changed[n - 1 - i]
    return changed[j]


# Places


def transposed_memory(job):
    out, axes = job.right, list(range(job.x.ndim))
    axes[0], axes[1] = 1, 0
    return out.transpose(axes).reshape(-1).reshape(job.x.shape)


def other_memory_order(job):
    return job.right.reshape(-1, order="F").reshape(job.x.shape)


def read_in_the_other_order(change):
    """Bytes in C order are taken for column-major ones, as MATLAB and Julia have them."""

    def made(job):
        out = change(job)
        return out.reshape(-1).reshape(out.shape, order="F")

    return made


def input_read_in_the_other_order(job):
    return oracle.reverse(read_in_the_other_order(lambda job: job.x)(job), job.n, job.axis)


def as_the_other_layout(job):
    """The memory is taken for that of [T,B,F] where it is [B,T,F], or the other way round, and never transposed."""
    axes = list(range(job.x.ndim))
    first = 0 if job.axis else 1
    axes[first], axes[job.axis] = job.axis, first
    x = job.x.reshape([job.x.shape[d] for d in axes])
    return oracle.reverse(x, job.n.transpose(axes), first).reshape(job.x.shape)


def shifted(step, *, zero=False, before=False):
    def made(job):
        flat = (job.x if before else job.right).reshape(-1)
        moved = [flat[(i + step) % len(flat)] for i in range(len(flat))]
        if zero:
            moved[0 if step < 0 else -1] = 0
        moved = np.array(moved, job.x.dtype).reshape(job.x.shape)
        return oracle.reverse(moved, job.n, job.axis) if before else moved

    return made


def past_the_end(job):
    """Lengths are not clamped: behind the line, the memory is read; behind the tensor, there is nothing."""
    out, flat = job.x.copy(), job.x.reshape(-1)
    strides = [int(np.prod(job.x.shape[d + 1 :])) for d in range(job.x.ndim)]
    for index in np.ndindex(job.x.shape):
        length = int(job.n[(*index[: job.axis], 0, *index[job.axis + 1 :])])
        if index[job.axis] < length:
            start = sum(i * s for d, (i, s) in enumerate(zip(index, strides, strict=True)) if d != job.axis)
            place = start + (length - 1 - index[job.axis]) * strides[job.axis]
            out[index] = flat[place] if place < len(flat) else 0
    return out


# Values


def each(change, kinds="fiu"):
    def made(job):
        if job.x.dtype.kind not in kinds:
            return None
        flat = [change(v) for v in job.right.reshape(-1)]
        return np.array(flat).astype(job.x.dtype).reshape(job.x.shape)

    return made


def to_bfloat16(v):
    """To the nearest of both neighbours, found by their distances; the values of the jobs are finite."""
    bits = int(np.float32(v).view(np.uint32))
    low, high = (np.uint32(b << 16).view(np.float32) for b in (bits >> 16, (bits >> 16) + 1))
    below, above = abs(float(v) - float(low)), abs(float(high) - float(v))
    return high if above < below or (above == below and bits >> 16 & 1) else low


def cut_to_bfloat16(v):
    return np.uint32(int(np.float32(v).view(np.uint32)) >> 16 << 16).view(np.float32)


def flushed(v):
    return v * 0 if abs(v) < np.finfo(v.dtype).tiny else v


def wrapped(bits):
    def change(v):
        return int(v) & ((1 << bits) - 1)

    return change


def saturated(least, most):
    return lambda v: min(max(int(v), least), most)


def swapped(job):
    return None if job.x.dtype.itemsize == 1 else job.right.byteswap()


def small(change, least, most):
    """The mistake where all values are small, as after a cast from a narrow type."""

    def made(job):
        if job.x.dtype.kind != "i":
            return None
        values = np.array([int(v) % (most + 1 - least) + least for v in job.x.reshape(-1)], job.x.dtype)
        job = job._replace(x=values.reshape(job.x.shape))
        return each(change)(job), job

    return made


# Parts


def rest(done, fill):
    """The right output where `done` says so: for the index and the job; elsewhere the fill, or the input for None."""

    def made(job):
        out, right = job.x.copy(), job.right
        for number, index in enumerate(np.ndindex(job.x.shape)):
            if done(job, index, number):
                out[index] = right[index]
            elif fill is not None:
                out[index] = fill(job)
        return out

    return made


def odd_line(job, index, _):
    sizes = [1 if d == job.axis else s for d, s in enumerate(job.x.shape)]
    return np.ravel_multi_index([0 if d == job.axis else i for d, i in enumerate(index)], sizes) % 2


def behind_the_first(job, index, _):
    return index[0] > 0


def second_half(job, _, number):
    return number >= job.x.size // 2


def outer_thirds(job, _, number):
    return number // (job.x.size // 3) != 1


def first_batch(job, index, _):
    return index[1 if job.axis == 0 else 0] == 0


def first_half(job, _, number):
    return number < job.x.size // 2


def half_of_the_batch(job, index, _):
    d = 1 if job.axis == 0 else 0
    return index[d] < job.x.shape[d] // 2


def half_of_each_line(job, index, _):
    return index[job.axis] < job.x.shape[job.axis] // 2


def zeros(job):
    return job.x.dtype.type(0)


def garbage(job):
    """What memory has that nobody wrote."""
    return np.frombuffer(bytes([0xCD] * 8), job.x.dtype)[0]


# For each mistake what makes it, and words of its name.
MISTAKES = {
    "lengths of the line before": (lambda job: with_neighbours(job, -1, wraps=True), "the length before it"),
    "lengths of the line behind": (lambda job: with_neighbours(job, 1, wraps=True), "the length behind it"),
    "lengths of the line before, the first twice": (
        lambda job: with_neighbours(job, -1, wraps=False), "the length before it"),
    "lengths of the line behind, the last twice": (
        lambda job: with_neighbours(job, 1, wraps=False), "the length behind it"),
    "lengths in reverse order": (lambda job: given(job, lambda n: n.reshape(-1)[::-1]), "lengths are in reverse order"),
    "the first length for all": (lambda job: given(job, lambda n: [n.reshape(-1)[0]] * n.size), "the first length"),
    "the last length for all": (lambda job: given(job, lambda n: [n.reshape(-1)[-1]] * n.size), "the last length"),
    "lengths of another axis": (of_another_axis, ("the memory of lengths", "is reversed with the batch")),
    "lengths as 8 bits": (lambda job: as_small_words(job, 8), "are read as words of 8 bits"),
    "lengths as 16 bits": (lambda job: as_small_words(job, 16), "are read as words of 16 bits"),
    "the low 8 bits": (
        lambda job: (given(job, lambda n: n & 255), job), "only the low 8 bits"),
    "whole lines": (lambda job: of(job, job.n * 0 + job.x.shape[job.axis]), "whole lines"),
    "one too small": (lambda job: of(job, np.maximum(job.n, 1) - 1), "one too small"),
    "one too small, and 0 wraps": (lambda job: of(job, job.n - job.n.dtype.type(1)), "and 0 becomes the whole line"),
    "clamped to one less": (
        lambda job: of(job, np.minimum(job.n, job.x.shape[job.axis] - 1)), "clamped to one less than the axis size"),
    "right, and then reversed whole": (
        lambda job: np.flip(job.right, job.axis), "reversed whole behind the right reversal"),
    "one too large": (lambda job: of(job, job.n + 1), "one too large"),
    "the start is rotated forwards": (lambda job: lines(job, rotated_start(1)), "one too small"),
    "the start is rotated backwards": (lambda job: lines(job, rotated_start(-1)), "rotated by one"),
    "the line is rotated forwards": (lambda job: lines(job, rotated_line(1)), "rotated by one"),
    "the line is rotated backwards": (lambda job: lines(job, rotated_line(-1)), "rotated by one"),
    "the last are reversed": (lambda job: lines(job, last_reversed), "the last elements of each line"),
    "only the ends": (lambda job: lines(job, only_ends), "only the two ends"),
    "in place": (lambda job: lines(job, in_place), "overwritten in place"),
    "in place from behind": (lambda job: lines(job, in_place_from_behind), "overwritten in place"),
    "every second line": (rest(odd_line, None), "every second line"),
    "every second line, and zeros": (rest(odd_line, zeros), "every second line"),
    "memory of the transpose": (transposed_memory, "the memory of the output has its axes"),
    "memory in the other order": (other_memory_order, "the memory of the output has its axes"),
    "memory read in the other order": (
        read_in_the_other_order(lambda job: job.right), "the memory of the output is read as if"),
    "input read in the other order": (input_read_in_the_other_order, "the memory of the input is read as if"),
    "taken for the other layout": (as_the_other_layout, ("is taken for one of sizes", "is reversed with the batch")),
    "shifted forwards": (shifted(1), "by one element"),
    "shifted backwards": (shifted(-1), "by one element"),
    "shifted forwards, with a zero": (shifted(1, zero=True), "by one element"),
    "shifted backwards, with a zero": (shifted(-1, zero=True), "by one element"),
    "shifted before": (shifted(1, before=True), "by one element"),
    "past the end of the line": (past_the_end, "lengths are not clamped"),
    "rounded to FLOAT16": (each(np.float16, "f"), "rounded to FLOAT16"),
    "rounded to BFLOAT16": (each(to_bfloat16, "f"), "rounded to BFLOAT16"),
    "cut to BFLOAT16": (each(cut_to_bfloat16, "f"), "cut to BFLOAT16"),
    "denormals flushed": (each(flushed, "f"), "denormal"),
    "sign": (each(lambda v: -v, "f"), "negated"),
    "sign lost": (each(lambda v: np.abs(v), "f"), "without their sign"),
    "saturated": (small(saturated(0, 255), -100, 99), "saturated to UINT8"),
    "signed as unsigned": (small(wrapped(8), -100, 27), "wrapped to UINT8"),
    "byte order": (swapped, "bytes of each element"),
    "only the first batch, zeros": (rest(first_batch, zeros), "zeros from index"),
    "only the first batch, the input": (rest(first_batch, None), "the input from index"),
    "only the first batch, never written": (rest(first_batch, garbage), "from index"),
    "only half, zeros": (rest(first_half, zeros), "zeros from"),
    "only half, the input": (rest(first_half, None), "the input from"),
    "only half, never written": (rest(first_half, garbage), "from"),
    "not the first index": (rest(behind_the_first, zeros), "zeros from index 0 to 0 of dimension 0"),
    "not the first half, the input": (rest(second_half, None), "the input from"),
    "not in the middle": (rest(outer_thirds, zeros), "zeros from"),
    "half of the batch": (rest(half_of_the_batch, zeros), "zeros from"),
    "half of each line": (rest(half_of_each_line, zeros), "zeros from"),
    "all zeros": (rest(lambda *_: False, zeros), "zeros everywhere"),
    "never written": (rest(lambda *_: False, garbage), "everywhere"),
    "the input": (rest(lambda *_: False, None), "the output is the input"),
}  # fmt: skip


def names_of(revseq, folder, job, wrong):
    """The names that the command tells of a wrong output, whose every difference it must find."""
    for name, values in (("a", wrong), ("x", job.x), ("n", job.given)):
        np.save(folder / f"{name}.npy", values)
    batch = () if job.batch is None else ("--batch-axis", job.batch)
    done = revseq("diff", "a.npy", "--job", "x.npy", "n.npy", "--axis", job.axis, *batch, "--json")
    assert done.status == 1, done.err
    return json.loads(done.out)["mistakes"]


@pytest.mark.parametrize("name", JOBS)
def test_mistakes_are_named(revseq, tmp_path, name):
    counts, told = {"named": 0, "not named": 0, "falsely named": 0, "with others": 0}, []
    for mistake, (make, words) in MISTAKES.items():
        made, job = make(JOBS[name]), JOBS[name]
        wrong, job = made if isinstance(made, tuple) else (made, job)
        if wrong is None or oracle.same_bits(wrong, job.right):  # not in this job
            continue
        found = names_of(revseq, tmp_path, job, wrong)
        words = (words,) if isinstance(words, str) else words
        meant = [each for each in found if any(word in each for word in words)]
        verdict = "named" if meant else "falsely named" if found else "not named"
        counts[verdict] += 1
        counts["with others"] += bool(meant) and len(meant) < len(found)
        if verdict != "named" or len(meant) < len(found):
            told.append(f"{mistake}: {verdict}: {found}")
    report = "\n".join([name, str(counts), *told])
    if os.environ.get("REVSEQ_TOLD"):
        print(report)
    assert not counts["falsely named"], report
    assert counts["named"] >= 0.9 * (counts["named"] + counts["not named"]), report
