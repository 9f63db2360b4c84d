"""What is told of wrong outputs: which lines, what stands there, and what was done; and nothing that is not so."""

import re

import ml_dtypes
import numpy as np
import oracle
import pytest
from mistakes import JOBS, MISTAKES

import revseq_cli.arrays
from revseq_cli.core.dtypes import data_type_of
from revseq_cli.core.tensors import DataType
from revseq_cli.pipeline.comparison import compared
from revseq_cli.pipeline.plan import Resources
from revseq_cli.porting import sample
from revseq_cli.porting.diagnose import diagnose


def lengths(rng, sizes, axis, least=0):
    return rng.integers(least, sizes[axis] + 3, [1 if d == axis else size for d, size in enumerate(sizes)]).astype("u4")


def a_job(sizes=(8, 16, 3), axis=1, seed=1, of_batch=True):
    """Distinct values; all lines of a batch have the same length."""
    rng = np.random.default_rng(seed)
    n = lengths(rng, sizes, axis, 2)
    n = np.broadcast_to(n[..., :1], n.shape).copy() if of_batch else n
    return rng.normal(size=sizes).astype("f4"), n


def told(x, n, axis, got, **tolerance):
    """The rule of the wrong lines, and all sentences."""
    found = revseq_cli.explain(got, x, n, axis, **tolerance)
    return found.lines and found.lines.rule, [mistake.text for mistake in found.mistakes]


# All of a list


@pytest.mark.parametrize("name", MISTAKES)
def test_each_mistake_of_the_list_is_explained(name):
    make, *words = MISTAKES[name]
    for of_job, job in JOBS.items():
        got = make(job)
        if got is None or np.array_equal(got, job.right, equal_nan=True):
            continue
        got = np.asarray(got, job.x.dtype)
        found = revseq_cli.explain(got, job.x, job.given, job.axis, batch_axis=job.batch)
        texts = [mistake.text for mistake in found.mistakes]
        assert any(all(re.search(word, text) for word in words) for text in texts), (of_job, texts)
        assert all(mistake.lines == found.lines.count for mistake in found.mistakes), (of_job, texts)


# Nothing that is not so


@pytest.mark.parametrize("seed", range(40))
def test_random_batches_have_names_and_no_rule(seed):
    rng = np.random.default_rng(seed)
    sizes = (int(rng.choice([6, 8, 12])), int(rng.choice([7, 40])), int(rng.choice([1, 4])))
    x, n = a_job(sizes, seed=seed + 100)
    right = oracle.reverse(x, n, 1)
    bad = sorted(rng.choice(sizes[0], int(rng.integers(2, 5)), replace=False).tolist())
    other = {
        "the output is only 0": np.zeros_like(x),
        "nothing is reversed": x,
        "": rng.normal(size=sizes).astype("f4"),
    }
    for words, values in other.items():
        got = right.copy()
        got[bad] = values[bad]
        rule, texts = told(x, n, 1, got)
        numbers = {
            i
            for low, high in re.findall(r"(\d+)(?: to (\d+))?", rule.split(" of ")[0])
            for i in range(int(low), int(high or low) + 1)
        }
        assert rule.startswith("batches"), rule
        assert (numbers, rule.split(" of ")[1]) == ({*bad}, str(sizes[0]))
        assert [text.partition(":")[0].partition(".")[0].partition(",")[0] for text in texts] == [words] * bool(words)


@pytest.mark.parametrize("seed", range(10))
def test_noise_is_not_explained(seed):
    rng = np.random.default_rng(seed)
    x, n = a_job(seed=seed, of_batch=False)
    right = oracle.reverse(x, n, 1)
    sparse = np.where(rng.random(x.shape) < 0.1, rng.normal(size=x.shape).astype("f4"), right)
    assert told(x, n, 1, np.nextafter(right, np.float32(9)))[1] == []  # the hint has --ulp
    for got in (sparse, right + rng.normal(size=x.shape).astype("f4"), rng.permutation(x.reshape(-1)).reshape(x.shape)):
        assert told(x, n, 1, got)[1] == []


def test_what_is_right_has_nothing_told():
    x, n = a_job()
    right = oracle.reverse(x, n, 1)
    assert told(x, n, 1, right) == (None, [])
    assert told(x, n, 1, right + np.float32(1e-7), atol=1e-3) == (None, [])


def test_few_elements_explain_nothing():
    """One wrong element, and data that are all the same: what fits is chance."""
    x, n = a_job()
    got = oracle.reverse(x, n, 1)
    got[3, 2, 1] = 5
    assert told(x, n, 1, got) == ("the line [3, 1]", [])
    ones = np.ones((6, 9), "f4")
    rule, texts = told(ones, np.full((6, 1), 4, "u4"), 1, np.where(np.arange(9) < 4, ones, 2))
    assert (rule, texts) == ("all lines", ["the output is only 2.0, in elements behind the length"])


# Which lines, and what stands there


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        (lambda i, n: i % 2 == 1, "lines whose index in dimension 0 is odd"),
        (lambda i, n: i >= 20, "lines whose index in dimension 0 is above 19"),
        (lambda i, n: n > 16, "lines whose length is above the axis size"),
        (lambda i, n: n > 9, "lines whose length is above 9"),
        (lambda i, n: i == 7, "batch 7 of 40"),
        (lambda i, n: (i == 7) | (i == 9), "batches 7 and 9 of 40"),
        (lambda i, n: i % 4 == 3, "lines whose index in dimension 0 has the remainder 3 by 4"),
    ],
)
def test_wrong_lines_have_a_rule(wrong, rule):
    x, n = a_job((40, 16, 2))
    n[7] = 9
    got = np.where(wrong(np.arange(40)[:, None, None], n), -oracle.reverse(x, n, 1), oracle.reverse(x, n, 1))
    assert told(x, n, 1, got)[0] == rule


def test_lines_that_look_right_in_any_case_count_for_no_rule():
    x, n = a_job()
    n[2:4] = 1
    rule, texts = told(x, n, 1, x)
    assert rule == "lines whose length is above 1"
    assert texts == ["nothing is reversed: the output is the input"]


def test_lines_by_index():
    x, n = a_job(of_batch=False)
    got = oracle.reverse(x, n, 1)
    got[1, :, 2] = got[4, :, 0] = 0
    rule, texts = told(x, n, 1, got)
    assert rule == "the lines [1, 2], [4, 0]"
    assert texts == ["the output is only 0.0, in the wrong lines alone"]


def test_other_lengths_are_told_with_the_given_ones():
    x, n = a_job((6, 9, 1))
    other = n.copy()
    n[:, 0, 0], other[:, 0, 0] = (5, 5, 7, 9, 3, 4), (5, 2, 7, 4, 3, 4)
    _, texts = told(x, n, 1, oracle.reverse(x, other, 1))
    assert texts == ["lines are reversed by other lengths: 2 in place of 5, 4 in place of 9"]


@pytest.mark.parametrize("of_lines", [False, True])
def test_what_changed_places_is_told_by_name(of_lines):
    x, n = a_job(of_batch=not of_lines)
    right = oracle.reverse(x, n, 1)
    places = [(2, slice(None), 1), (5, slice(None), 0)] if of_lines else [2, 5]
    names = "lines [2, 1] and [5, 0]" if of_lines else "batches 2 and 5"
    swapped = right.copy()
    swapped[places[0]], swapped[places[1]] = right[places[1]], right[places[0]]
    assert told(x, n, 1, swapped)[1] == [f"{names} are exchanged"]
    copied = right.copy()
    copied[places[0]] = right[places[1]]
    one, other = (name.replace("lines", "line").replace("batches", "batch") for name in names.split(" and "))
    other = f"{one.split()[0]} {other}"
    assert told(x, n, 1, copied)[1] == [f"{one} has what belongs in {other}"]
    read = x.copy()
    read[places[0]], read[places[1]] = x[places[1]], x[places[0]]
    assert told(x, n, 1, oracle.reverse(read, n, 1))[1] == [f"{names} of the input are exchanged"]


def test_lengths_of_two_batches_that_are_exchanged():
    x, n = a_job((6, 9, 2))
    n[:] = np.array([2, 3, 4, 5, 6, 7], "u4")[:, None, None]
    _, texts = told(x, n, 1, oracle.reverse(x, n[[0, 4, 2, 3, 1, 5]], 1))
    assert texts[0] == "the lengths of batches 1 and 4 are exchanged"


def test_batches_in_any_order_are_listed():
    x, n = a_job()
    order = [3, 0, 2, 1, 5, 4, 7, 6]
    _, texts = told(x, n, 1, oracle.reverse(x, n, 1)[order])
    assert texts[0].startswith("batch 0 has what belongs in batch 3; batch 1 has what belongs in batch 0; ")


# What was done


def of_lines(element):
    """An output of which each line is made of the input's by a function of it and its clamped length."""

    def made(x, n):
        out = np.empty_like(x)
        for i, k in np.ndindex(x.shape[0], x.shape[2]):
            out[i, :, k] = element(x[i, :, k], min(int(n[i, 0, k]), x.shape[1]))
        return out

    return made


def tiled(k):
    return of_lines(
        lambda line, m: np.concatenate([*(line[i : min(i + k, m)][::-1] for i in range(0, m, k)), line[m:]])
    )


def masked(out, n):
    return np.where(np.arange(out.shape[1])[:, None] < n, out, 0).astype(out.dtype)


LONG = (6, 1100, 2)
DONE = {
    "each tile of 48 is reversed": ((6, 200, 2), tiled(48)),
    "each tile of 500 is reversed": (LONG, tiled(500)),
    "each tile of 256 is reversed": (LONG, tiled(256)),
    "multiples of 0.05": (None, lambda x, n: (np.rint(oracle.reverse(x, n, 1) / 0.05) * 0.05).astype("f4")),
    "rounded to multiples of": (
        None, lambda x, n: np.rint(oracle.reverse(x, n, 1) / (abs(x).max() / 127)) * (abs(x).max() / np.float32(127))),
    "4 decimals": (None, lambda x, n: np.round(oracle.reverse(x, n, 1), 4)),
    "BFLOAT16": (LONG, lambda x, n: oracle.reverse(x, n.astype("f4").astype(ml_dtypes.bfloat16).astype("u4"), 1)),
    "the reversed part is repeated": (
        None, of_lines(lambda line, m: line[(m - 1 - np.arange(len(line))) % m])),
    "rotated the wrong way": (None, of_lines(lambda line, m: np.roll(line[::-1], -m))),
    "is reversed, too": (None, of_lines(lambda line, m: np.roll(line[::-1], m))),
    "too small.*; and the output is only 0.0 behind": (
        None, lambda x, n: masked(oracle.reverse(x, np.minimum(n, 16) - 1, 1), n)),
    "around the ends; and the input was cleared": (
        None,
        lambda x, n: np.roll(oracle.reverse(masked(x, n), n, 1), 1, 1),
    ),
    "FLOAT16.*; and the output is only 0.0 behind": (
        None, lambda x, n: masked(oracle.reverse(x, n, 1).astype("f2").astype("f4"), n)),
    "and zeros are behind them": (
        None, lambda x, n: masked(oracle.reverse(x, n - 1, 1), n - 1)),
    "whole tile of 64 is reversed": ((6, 200, 2), of_lines(
        lambda line, m: np.concatenate([line[: m // 64 * 64].reshape(-1, 64)[:, ::-1].reshape(-1), line[m // 64 * 64 :]]))),
    "multiplied by 2, and 1 is added": (None, lambda x, n: oracle.reverse(x, n, 1) * 2 + 1),
    "4 significant digits": (None, lambda x, n: np.array(
        [float(f"{value:.4g}") for value in oracle.reverse(x, n, 1).reshape(-1)], "f4").reshape(x.shape)),
    "replaced by their tanh": (None, lambda x, n: np.tanh(oracle.reverse(x, n, 1))),
    "whole lines.*; and values are multiplied by 2": (None, lambda x, n: x[:, ::-1] * 2),
    "the input is added": (None, lambda x, n: oracle.reverse(x, n, 1) + x),
    "all bits of values": (None, lambda x, n: ~oracle.reverse(x, n, 1)),
    "the output is only 0": (None, lambda x, n: np.zeros_like(x)),
    "batches of the output come from index 1": (None, lambda x, n: oracle.reverse(x, n, 1)[[1] * len(x)]),
"exclusive or": (None, of_lines(lambda line, m: np.where(np.arange(16) < m, line[np.arange(16) ^ (m - 1)], line))),
}  # fmt: skip


@pytest.mark.parametrize("words", DONE)
def test_what_was_done_is_told(words):
    sizes, make = DONE[words]
    x, n = a_job(sizes or (8, 16, 3))
    x = (x * 1000).astype("i4") if "bits" in words else x
    if sizes == LONG:
        n = np.clip(n, 2, 1100)
    _, texts = told(x, n, 1, make(x, n))
    assert any(re.search(words, text) for text in texts), texts


def test_what_explains_most_lines_is_told_with_its_count():
    x, n = a_job((40, 16, 2))
    got = oracle.reverse(x, np.minimum(n, 16) - 1, 1)
    got[5, 0, 0] = 77
    found = revseq_cli.explain(got, x, n, 1)
    part = [mistake for mistake in found.mistakes if "this explains" in mistake.text]
    assert part
    for mistake in part:
        assert mistake.lines == found.lines.count - 1
        assert f"; this explains {mistake.lines} of {found.lines.count} wrong lines" in mistake.text


# Every data type, tolerances, and tensors of which a part is the sample


@pytest.mark.parametrize("data_type", DataType)
def test_every_data_type_is_diagnosed(data_type):
    rng = np.random.default_rng(3)
    x = oracle.random_values(rng, (6, 20, 3), data_type)
    n = lengths(rng, x.shape, 1, 5)
    for got, words in ((x, "nothing is reversed"), (oracle.reverse(x, np.minimum(n, 20) - 1, 1), "too small")):
        found = revseq_cli.explain(got, x, n, 1)
        assert data_type_of(got.dtype) is data_type
        assert any(words in mistake.text for mistake in found.mistakes), found.mistakes


def test_values_within_a_tolerance_are_the_same():
    x, n = a_job()
    got = oracle.reverse(x, np.minimum(n, 16) - 1, 1) + np.float32(1e-6)
    _, texts = told(x, n, 1, got, atol=1e-4)
    assert "lengths are 1 too small after they are clamped" in texts


LARGE = {
    "lengths are 1 too small": lambda x, n: oracle.reverse(x, n - 1, 1),
    "values are cast to FLOAT16": lambda x, n: oracle.reverse(x, n, 1).astype("f2").astype("f4"),
    "the output is only 0.0, in the wrong lines alone": lambda x, n: np.where(
        np.arange(len(x))[:, None, None] < len(x) // 2, oracle.reverse(x, n, 1), np.float32(0)
    ),
    "around the ends": lambda x, n: np.roll(oracle.reverse(x, n, 1), 1, 0),
    "the output is only 0.0, in elements behind the length": lambda x, n: masked(oracle.reverse(x, n, 1), n),
}


@pytest.mark.parametrize("words", LARGE)
@pytest.mark.parametrize("sizes", [(60, 40, 20), (3, 9000, 2)])
def test_a_large_tensor_is_explained_by_a_sample(words, sizes):
    """Of the second job, lines are so long that the sample has parts of them."""
    x, n = a_job(sizes, of_batch=False)
    n = np.minimum(n, sizes[1])
    job = revseq_cli.arrays.job_of(x, n, 1, None, mask=False, padding=None)
    a = revseq_cli.arrays._source(LARGE[words](x, n), "a")
    with sample.opened(a, job, Resources("serial")) as pair:
        found = compared("compare", pair, None)
        lines, mistakes = diagnose(pair, job, found, None, memory=1 << 20)
    assert lines.count == found.line_count
    explained = [mistake for mistake in mistakes if words in mistake.text]
    assert explained, mistakes
    assert re.search(r"; this explains all \d+ sampled wrong lines", explained[0].text)


def test_an_output_in_other_sizes_or_of_another_type_is_read_first():
    x, n = a_job((4, 6, 5), of_batch=False)
    right = oracle.reverse(x, n, 1)
    for got, reading in (
        (right.transpose(1, 0, 2), "the axes of the output are in the order {1,0,2}"),
        (right.reshape(-1), "sizes {4,6,5} are saved as {120}"),
        (right[:, None], "sizes {4,6,5} are saved as {4,1,6,5}"),
        (right.astype("f8"), "FLOAT32 is saved as FLOAT64"),
        (right.view("u4"), "FLOAT32 is saved as UINT32, byte for byte"),
    ):
        found = revseq_cli.explain(got, x, n, 1)
        assert (found.differing, found.reading, [mistake.text for mistake in found.mistakes]) == (0, reading, [reading])
    texts = told(x, n, 1, x.transpose(2, 1, 0))[1]
    assert texts == ["the axes of the output are in the order {2,1,0}", "nothing is reversed: the output is the input"]
    with pytest.raises(revseq_cli.FormatError, match="wanted: one like the values"):
        revseq_cli.explain(right[:, :, :4], x, n, 1)
    n = np.minimum(n, 4)
    cut = revseq_cli.explain(oracle.reverse(x, n, 1)[:, :4], x, n, 1)
    assert (cut.differing, cut.reading) == (0, "along axis 1 the output is cut to the longest length, 4 of 6")


@pytest.mark.parametrize("seed", range(24))
def test_any_shape_is_diagnosed(seed):
    """Of rank 1 to 8, with sizes of 1, any data type, lengths up to the largest, and values that are all the same."""
    rng = np.random.default_rng(seed)
    sizes = tuple(rng.choice([1, 2, 3, 5, 9], 1 + seed % 8).tolist())
    axis, data_type = int(rng.integers(len(sizes))), list(DataType)[seed % len(DataType)]
    x = oracle.random_values(rng, sizes, data_type)
    if seed % 5 == 0:
        x[...] = x.reshape(-1)[0]
    n = lengths(rng, sizes, axis).astype("u8")
    n.reshape(-1)[0] = 2**64 - 1
    right = oracle.reverse(x, n, axis)
    outputs = (
        x,
        np.flip(x, axis),
        np.zeros_like(x),
        oracle.random_values(rng, sizes, data_type),
        np.roll(right, 1, axis),
    )
    for got in outputs:
        found = revseq_cli.explain(np.ascontiguousarray(got), x, n, axis, ulp=None if seed % 3 else 1)
        assert bool(found.differing) is (found.lines is not None)
        assert found.differing or not found.mistakes
