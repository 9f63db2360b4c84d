"""What is told of wrong outputs: which lines, what stands there, and what was done; and nothing that is not so."""

import re

import numpy as np
import oracle
import pytest
from mistakes import JOBS, MISTAKES

import revseq_cli.arrays
from revseq_cli.core.dtypes import data_type_of
from revseq_cli.core.tensors import DataType
from revseq_cli.pipeline.resources import Resources
from revseq_cli.porting.diagnose import open_diagnosis
from revseq_cli.porting.origins import Sequences
from revseq_cli.porting.rules import list_quantities_of_elements


def lengths(rng, sizes, axis, least=0):
    return rng.integers(
        least, sizes[axis] + 3, [1 if d == axis else size for d, size in enumerate(sizes)]
    ).astype("u4")


def a_job(sizes=(8, 16, 3), axis=1, seed=1, of_batch=True):
    """Distinct values; all lines of a batch have the same length."""
    rng = np.random.default_rng(seed)
    n = lengths(rng, sizes, axis, 2)
    n = np.broadcast_to(n[..., :1], n.shape).copy() if of_batch else n
    return rng.normal(size=sizes).astype("f4"), n


def told(x, n, axis, got, **tolerance):
    """The rule of the wrong lines, and all sentences."""
    found = revseq_cli.explain(got, x, n, axis, **tolerance)
    return found.wrong_sequences and found.wrong_sequences.rule, [
        mistake.text for mistake in found.mistakes
    ]


@pytest.mark.parametrize("name", MISTAKES)
def test_each_mistake_of_the_list_is_explained(name):
    make, words = MISTAKES[name]
    for of_job, job in JOBS.items():
        got = make(job)
        if got is None or np.array_equal(got, job.right, equal_nan=True):
            continue
        got = np.asarray(got, job.x.dtype)
        found = revseq_cli.explain(got, job.x, job.given, job.axis, batch_axis=job.batch)
        texts = [mistake.text for mistake in found.mistakes]
        assert any(re.search(words, text) for text in texts), (of_job, texts)
        assert all(
            mistake.sequences == found.wrong_sequences.count for mistake in found.mistakes
        ), (
            of_job,
            texts,
        )


# Nothing that is not so


@pytest.mark.parametrize("seed", range(6))
def test_random_batches_have_names_and_no_rule(seed):
    rng = np.random.default_rng(seed)
    sizes = (int(rng.choice([6, 8, 12])), int(rng.choice([7, 40])), int(rng.choice([1, 4])))
    x, n = a_job(sizes, seed=seed + 100)
    right = oracle.reverse(x, n, 1)
    bad = sorted(rng.choice(sizes[0], int(rng.integers(2, 5)), replace=False).tolist())
    noise = rng.normal(size=sizes).astype("f4")
    for words, values in (("the output is only 0", x * 0), ("nothing is reversed", x), ("", noise)):
        got = right.copy()
        got[bad] = values[bad]
        rule, texts = told(x, n, 1, got)
        assert rule == f"batches {', '.join(map(str, bad))} of {sizes[0]}"
        assert [text.replace("-", "")[: len(words)] for text in texts] == [words] * bool(words)


@pytest.mark.parametrize("seed", range(4))
def test_noise_is_not_explained(seed):
    rng = np.random.default_rng(seed)
    x, n = a_job(seed=seed, of_batch=False)
    right = oracle.reverse(x, n, 1)
    sparse = np.where(rng.random(x.shape) < 0.1, rng.normal(size=x.shape).astype("f4"), right)
    assert told(x, n, 1, np.nextafter(right, np.float32(9)))[1] == []  # the hint has --ulp
    for got in (
        sparse,
        right + rng.normal(size=x.shape).astype("f4"),
        rng.permutation(x.reshape(-1)).reshape(x.shape),
    ):
        assert told(x, n, 1, got)[1] == []


def test_a_mistake_is_found_where_a_mask_cleared_what_is_behind_the_length():
    """As pad_packed_sequence leaves it."""
    x, n = a_job((12, 30, 2), of_batch=False)
    behind = np.arange(30)[:, None] >= n
    for words, got in (
        ("lengths are 1 too small", oracle.reverse(x, n - 1, 1)),
        ("the output is the input", x),
    ):
        _, (text,) = told(x, n, 1, np.where(behind, np.float32(0), got))
        assert words in text
        assert text.endswith("; and the output is only 0 after the length")
    noise = np.random.default_rng(1).normal(size=x.shape).astype("f4")
    assert told(x, n, 1, np.where(behind, np.float32(0), noise))[1] == []


def test_what_is_right_or_too_little_explains_nothing():
    """One wrong element, and data that are all the same: what fits is chance."""
    x, n = a_job()
    right = oracle.reverse(x, n, 1)
    assert told(x, n, 1, right) == (None, [])
    assert told(x, n, 1, right + np.float32(1e-7), atol=1e-3) == (None, [])
    for value in (5, 0, right[3, 3, 1]):
        got = right.copy()
        got[3, 2, 1] = value
        assert told(x, n, 1, got) == ("sequences [3, 1]", [])
    ones = np.ones((6, 9), "f4")
    rule, texts = told(ones, np.full((6, 1), 4, "u4"), 1, np.where(np.arange(9) < 4, ones, 2))
    assert (rule, texts) == (
        "all sequences",
        ["the output is only 2, in elements after the length"],
    )


# Which lines, and what stands there


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        (lambda i, n: i % 2 == 1, "sequences whose index in dimension 0 is odd"),
        (lambda i, n: i >= 20, "sequences whose index in dimension 0 is above 19"),
        (lambda i, n: n > 9, "sequences whose length is above 9"),
        (lambda i, n: i == 7, "batch 7 of 40"),
        (lambda i, n: (i == 7) | (i == 9), "batches 7, 9 of 40"),
        (lambda i, n: i % 4 == 3, "sequences whose index in dimension 0 has the remainder 3 by 4"),
    ],
)
def test_wrong_lines_have_a_rule(wrong, rule):
    x, n = a_job((40, 16, 2))
    n[7] = 9
    got = np.where(
        wrong(np.arange(40)[:, None, None], n), -oracle.reverse(x, n, 1), oracle.reverse(x, n, 1)
    )
    assert told(x, n, 1, got)[0] == rule


def test_lines_of_which_little_is_known():
    x, n = a_job()
    n[2:4] = 1
    assert told(x, n, 1, x) == (
        "sequences whose length is above 1",
        ["nothing is reversed: the output is the input"],
    )
    x, n = a_job(of_batch=False)
    got = oracle.reverse(x, n, 1)
    got[1, :, 2] = got[4, :, 0] = 0
    assert told(x, n, 1, got) == (
        "sequences [1, 2], [4, 0]",
        ["the output is only 0, in only the wrong sequences"],
    )
    x, n = a_job((6, 9, 1))
    other = n.copy()
    n[:, 0, 0], other[:, 0, 0] = (5, 5, 7, 9, 3, 4), (5, 2, 7, 4, 3, 4)
    _, texts = told(x, n, 1, oracle.reverse(x, other, 1))
    assert texts == [
        "sequences are reversed by other lengths: 2 instead of 5 in batch 1, 4 instead of 9 in batch 3"
    ]


def test_what_changed_places_is_told_by_name():
    x, n = a_job()
    right = oracle.reverse(x, n, 1)
    swapped = right[[0, 1, 5, 3, 4, 2, 6, 7]]
    assert told(x, n, 1, swapped)[1] == ["batches 2, 5 are exchanged"]
    copied = right[[0, 1, 5, 3, 4, 5, 6, 7]]
    assert told(x, n, 1, copied)[1] == ["batch 2 has what belongs in batch 5"]
    read = x[[0, 1, 5, 3, 4, 2, 6, 7]]
    assert told(x, n, 1, oracle.reverse(read, n, 1))[1] == [
        "batches 2, 5 of the input are exchanged"
    ]
    _, texts = told(x, n, 1, right[[3, 0, 2, 1, 5, 4, 7, 6]])
    assert texts[0].startswith(
        "batch 0 has what belongs in batch 3; batch 1 has what belongs in batch 0; "
    )


def test_what_explains_most_lines_is_told_with_its_count():
    x, n = a_job((40, 16, 2))
    got = -oracle.reverse(x, n, 1)
    got[5, 0, 0] = 77
    found = revseq_cli.explain(got, x, n, 1)
    assert [mistake.sequences for mistake in found.mistakes] == [found.wrong_sequences.count - 1]
    assert found.mistakes[0].text == "values are negated; this explains 79 of 80 wrong sequences"


def test_a_part_has_lines_of_which_all_is_explained():
    """Lengths are not clamped, and the last element is read again: what the memory has behind it is elsewhere."""
    rng = np.random.default_rng(11)
    n = rng.integers(0, 14, (9, 1, 3)).astype("u4")
    n[[0, 2, 5, 7], 0, [0, 1, 2, 0]] = 14, 14, 14, 15
    x, j = rng.integers(-9000, 9000, (9, 13, 3)), np.arange(13)[:, None]
    got = np.take_along_axis(x, np.where(j < n, np.clip(n.astype(int) - 1 - j, 0, 12), j), 1)
    assert not [text for text in told(x, n, 1, got)[1] if "memory" in text]


# Every data type, tolerances, and tensors of which a part is the sample


@pytest.mark.parametrize("data_type", DataType)
def test_every_data_type_is_diagnosed(data_type):
    rng = np.random.default_rng(3)
    x = oracle.random_values(rng, (6, 20, 3), data_type)
    n = lengths(rng, x.shape, 1, 5)
    for got, words in (
        (x, "nothing is reversed"),
        (oracle.reverse(x, np.minimum(n, 20) - 1, 1), "too small"),
    ):
        found = revseq_cli.explain(got, x, n, 1)
        assert data_type_of(got.dtype) is data_type
        assert any(words in mistake.text for mistake in found.mistakes), found.mistakes


def test_values_within_a_tolerance_are_the_same():
    x, n = a_job()
    got = oracle.reverse(x, np.minimum(n, 16) - 1, 1) + np.float32(1e-6)
    assert "lengths are 1 too small after they are clamped" in told(x, n, 1, got, atol=1e-4)[1]


def test_booleans_that_are_all_wrong_are_inverted_and_a_few_are_not():
    rng = np.random.default_rng(0)
    x = rng.random((4, 6)) < 0.5
    n = np.array([[2], [6], [1], [4]])
    right = oracle.reverse(x, n, 1)
    assert told(x, n, 1, ~right)[1] == ["values are inverted"]
    one = right.copy()
    one[1, 2] ^= True
    assert told(x, n, 1, one)[1] == []


def test_what_directml_does_comes_with_what_helps():
    x = np.array([range(10, 16), range(20, 26), range(30, 36)], "f4")
    clamped = [[15, 15, 14, 13, 12, 11], [22, 21, 20, 23, 24, 25], [35, 35, 35, 35, 34, 33]]
    lengths = np.array([[7], [3], [9]], "u8")
    for given in (lengths, lengths + np.uint64(1 << 32) * (lengths > 6)):
        (mistake,) = revseq_cli.explain(np.array(clamped, "f4"), x, given, 1).mistakes
        assert "DirectML 1.13 to 1.15" in mistake.text
        assert "clamp the lengths" in mistake.remedy
    (mistake,) = revseq_cli.explain(
        np.where([[0], [0], [1]], np.float32(35), x), x, [[0], [0], [1 << 31]], 1
    ).mistakes
    assert "DirectML 1.13 to 1.15" in mistake.text  # all that is wrong is the last element
    for first, second in ((7, 3), (0, 4)):
        of_low_bits = oracle.reverse(x, np.array([[first], [second], [3]], "u8"), 1)
        given = np.array([[(1 << 32) + first], [(1 << 32) + second], [3]], "u8")
        (mistake,) = revseq_cli.explain(of_low_bits, x, given, 1).mistakes
        assert "low 32 bits" in mistake.text
        assert "clamp the lengths" in mistake.remedy


def test_lengths_that_onnx_runtime_reads_flat_need_two_dimensions():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 9, 3)).astype("f4")
    n = np.array([9, 2, 5, 7])
    flat = np.append(n, [0] * 8).reshape(4, 1, 3)
    (mistake,) = revseq_cli.explain(oracle.reverse(x, flat, 1), x, n, 1, batch_axis=0).mistakes
    assert "ONNX Runtime's DirectML provider" in mistake.text
    assert "two dimensions" in mistake.remedy


def test_blocks_of_memory_that_were_not_written():
    x, n = a_job((12, 37, 5))
    right = oracle.reverse(x, n, 1)
    lost = (np.arange(x.size) // 256 % 2 == 1).reshape(x.shape)
    (text,) = told(x, n, 1, np.where(lost, np.float32(0), right))[1]
    assert text == "the output is only 0, in elements of each odd block of 256 elements in memory"


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_arrays_of_ml_dtypes_are_explained_as_files_are(name):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes, of the extra ml, is missing")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((6, 20)).astype(getattr(ml_dtypes, name))
    n = rng.integers(2, 21, (6, 1))
    right = oracle.reverse(x.astype("f4"), n, 1)
    assert told(x, n, 1, (-right).astype(x.dtype))[1] == ["values are negated"]
    assert told(x, n, 1, right)[1] == [f"{name.upper()} is saved as FLOAT32"]
    assert told(x, n, 1, x[:, ::-1])[1] == ["whole sequences are reversed"]


LARGE = {
    "lengths are 1 too small": lambda x, n: oracle.expected(x, n - 1, 1),
    "around the ends": lambda x, n: np.roll(oracle.expected(x, n, 1), 1, 0),
}


@pytest.mark.parametrize("words", LARGE)
@pytest.mark.parametrize(("sizes", "memory"), [((60, 40, 20), 1 << 20), ((6, 9000, 2), 16 << 20)])
def test_a_large_tensor_is_explained_by_a_sample(words, sizes, memory):
    x, n = a_job(sizes, of_batch=False)
    n = np.minimum(n, sizes[1])
    job = revseq_cli.arrays._make_job(x, n, 1, None, mask=False, padding=None)
    a = revseq_cli.arrays._ArraySource("a", LARGE[words](x, n))
    with open_diagnosis(a, job, None, Resources("serial", memory=memory)) as found:
        mistakes = found.mistakes
    assert found.wrong_sequences.count == found.differences.sequence_count
    explained = [mistake for mistake in mistakes if words in mistake.text]
    assert explained, mistakes
    assert re.search(r"; this explains all \d+ sampled wrong sequences", explained[0].text)


def test_an_output_in_other_sizes_or_of_another_type_is_read_first():
    x, n = a_job((4, 6, 5), of_batch=False)
    right = oracle.reverse(x, n, 1)
    for got, reading in (
        (right.transpose(1, 0, 2), "the axes of the output are in the order {1,0,2}"),
        (right.reshape(-1), "sizes {4,6,5} are saved as {120}"),
        (right[:, None], "sizes {4,6,5} are saved as {4,1,6,5}"),
        (
            right.astype("f8").ravel(),
            "FLOAT32 is saved as FLOAT64, and sizes {4,6,5} are saved as {120}",
        ),
        (right.view("u4"), "FLOAT32 is saved as UINT32, byte for byte"),
    ):
        found = revseq_cli.explain(got, x, n, 1)
        assert (found.differing, [mistake.text for mistake in found.mistakes]) == (0, [reading])
    texts = told(x, n, 1, x.transpose(2, 1, 0))[1]
    assert texts == [
        "the axes of the output are in the order {2,1,0}",
        "nothing is reversed: the output is the input",
    ]
    with pytest.raises(revseq_cli.FormatError, match="expected one like the values"):
        revseq_cli.explain(right[:, :, :4], x, n, 1)
    n = np.minimum(n, 4)
    cut = revseq_cli.explain(oracle.reverse(x, n, 1)[:, :4], x, n, 1)
    assert (cut.differing, cut.mistakes[0].text) == (
        0,
        "along axis 1 the output is cut to the longest length, 4 of 6",
    )


@pytest.mark.parametrize("seed", range(16))
def test_any_shape_is_diagnosed(seed):
    """Of rank 1 to 8, with sizes of 1, any data type, lengths up to the largest, and values that are all the same."""
    rng = np.random.default_rng(seed)
    sizes = tuple(rng.choice([1, 2, 3, 5, 9] if seed % 8 < 4 else [1, 2, 3], 1 + seed % 8).tolist())
    axis, data_type = int(rng.integers(len(sizes))), list(DataType)[seed % len(DataType)]
    x = oracle.random_values(rng, sizes, data_type)
    if seed % 5 == 0:
        x[...] = x.reshape(-1)[0]
    n = lengths(rng, sizes, axis).astype("u8")
    n.reshape(-1)[0] = 2**64 - 1
    outputs = (x, np.flip(x, axis), np.zeros_like(x), np.roll(oracle.expected(x, n, axis), 1, axis))
    for got in outputs:
        found = revseq_cli.explain(
            np.ascontiguousarray(got), x, n, axis, ulp=None if seed % 3 else 1
        )
        assert bool(found.differing) is (found.wrong_sequences is not None)
        assert found.differing or not found.mistakes


@pytest.mark.parametrize("knows_memory", [True, False])
def test_places_in_memory_are_told_only_of_whole_tensors(knows_memory):
    window = Sequences((2, 4), 1, np.array([[3], [4]]), 4)
    at = np.ix_(range(2), range(4))
    expected = np.zeros((2, 4), np.float32)
    rows = list_quantities_of_elements(window, at, expected, knows_memory=knows_memory)
    assert any("memory" in text for text, _ in rows) == knows_memory
