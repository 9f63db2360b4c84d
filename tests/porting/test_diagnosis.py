"""Wrong outputs explain themselves: of all that are made in `mistakes`, nine of ten at least, and none falsely."""

import dataclasses
import itertools
import json
import os
import re
from pathlib import Path

import numpy as np
import oracle
import pytest
from mistakes import JOBS, MISTAKES

import revseq_cli
from revseq_cli.formats.in_memory import MemorySource
from revseq_cli.pipeline import comparison
from revseq_cli.porting import candidates, diagnosis
from revseq_cli.porting.candidates import FAMILIES, FILLS
from revseq_cli.porting.features import QUANTITIES, TESTS, Spots, of_lines
from revseq_cli.porting.relations import ELEMENTS, LENGTHS, VALUES, casts

ROOT = Path(__file__).parents[2]


def explained(job, wrong):
    return revseq_cli.explain(wrong, job.x, job.given, job.axis, batch_axis=job.batch)


def verdict_on(found, ids):
    """Whether the cause is told; a false one is told alone, where lines are enough to tell."""
    ids = ids.split() if isinstance(ids, str) else ids
    told = {each.id for each in found.mistakes if each.lines == found.lines.count}
    if not told:
        return "in part" if found.mistakes else "not explained"
    return "explained" if told & {*ids} or not ids else "falsely"


def test_there_are_enough():
    assert len(MISTAKES) >= 150
    assert len({(job.x.ndim, job.x.dtype, job.x.flags.c_contiguous) for job in JOBS.values()}) == 4


@pytest.mark.parametrize("name", JOBS)
def test_mistakes_are_explained(name):
    job, told = JOBS[name], []
    counts = dict.fromkeys(("explained", "in part", "not explained", "falsely"), 0)
    for mistake, (make, ids) in MISTAKES.items():
        wrong = make(job)
        if wrong is None or oracle.same_bits(wrong, job.right):  # not in this job
            continue
        found = explained(job, wrong)
        verdict = verdict_on(found, ids)
        counts[verdict] += 1
        if verdict != "explained":
            told.append(f"{mistake}: {verdict}: {[*found.mistakes]}, {found.lines}")
    report = "\n".join([name, str(counts), *told])
    if os.environ.get("REVSEQ_TOLD"):
        print(report)
    assert not counts["falsely"], report
    assert counts["explained"] >= 0.9 * sum(counts.values()), report


@pytest.mark.parametrize("name", JOBS)
def test_an_output_has_the_elements_by_which_its_idea_is_tried(monkeypatch, name):
    """A small tensor is judged by the numbers of elements alone, and a large one by outputs that are read."""
    samples = []
    monkeypatch.setattr(diagnosis, "candidates", lambda sample, _: samples.append(sample) or iter(()))
    job = JOBS[name]
    explained(job, job.x)
    sample = samples[0]
    families = (candidates._lengths, candidates._misplaced, candidates._other_axes, candidates._lines)

    def made(idea):
        return sample.inputs(idea.inputs(sample.elements)).reshape(job.x.shape)

    for idea in itertools.chain.from_iterable(family(sample) for family in families):
        assert oracle.same_bits(made(idea), idea.output(sample.job).read().astype(job.x.dtype)), idea
    for number, idea in enumerate(candidates._layouts(sample)):
        a = MemorySource("a", made(idea), sample.a.storage)
        if idea.a is None:
            assert oracle.same_bits(made(idea), idea.output(sample.job).read()), idea
        else:
            read = [*candidates._layouts(dataclasses.replace(sample, a=a))][number]
            assert oracle.same_bits(read.a.read(), read.output(sample.job).read()), idea


def test_the_manual_lists_exactly_the_ids():
    text = (ROOT / "man/porting.md").read_text()
    start = text.index("\n- quantities: `")
    listed = re.findall(r"`(.*?)`", text[start : text.index("\n\n", start)])
    tables = (QUANTITIES, TESTS, LENGTHS, ELEMENTS, VALUES)
    wanted = {row.id for table in tables for row in table} | {*FAMILIES, *FILLS}
    wanted |= set(re.findall(r'"([a-z]+(?:-[a-z]+)+)"', Path(candidates.__file__).read_text()))  # those of no table
    wanted |= {id_.partition("-to-")[0] + "-to-TYPE" for kind in ("f8", "i8") for id_, *_ in casts(np.dtype(kind))}
    assert {*listed} == wanted | {"all", "one", "read-otherwise", "too-few-lines"}


def test_where_one_length_is_all_there_is_no_other_line():
    x, n = np.array([[[1.0, 2.0], [3.0, 4.0]]], np.float32), np.array([2], np.uint32)
    found = revseq_cli.explain(np.array([[[3, 2], [1, 4]]], np.float32), x, n, 1, batch_axis=0)
    assert not [each for each in found.mistakes if "lengths" in each.id]


def test_what_is_saturated_is_not_rounded():
    x = np.array([[np.inf, 2, 1]], np.float32)
    found = revseq_cli.explain(np.array([[2, np.finfo("f4").max, 1]], np.float32), x, [[2]], 1)
    assert "infinity" in [each.id for each in found.mistakes]
    assert not [each for each in found.mistakes if "FLOAT32" in each.text]


def test_a_difference_beyond_the_data_type_is_no_rounding():
    found = comparison.differences(np.array([1e30], np.float32), np.array([1e-30], np.float32))
    assert comparison.rounding_of(found) is None  # and no warning


def test_a_number_of_one_reads_well():
    rows = {
        row.text.format(k="one")
        for table in (LENGTHS, ELEMENTS)
        for row in table
        if row.tries in ("small", "either", "step")
    }
    assert not [
        text for text in rows if re.search(r"\bone (\w+ )?(elements|of each line stay|before the length stay)", text)
    ]


def test_what_explains_the_sample_alone_is_passed_over():
    """Rounded to TF32 is the same as to FLOAT16, but for small numbers, of which the sample has none."""
    rng = np.random.default_rng(5)
    x = rng.uniform(1, 2, (40_000, 16)).astype(np.float32)
    x[30_001, 5:7] = 1.2345e-6
    n = np.full((len(x), 1), 4)
    wrong = revseq_cli.reverse_subsequences(x, n, 1).astype(np.float16).astype(np.float32)
    found = revseq_cli.explain(wrong, x, n, 1)
    assert [each.id for each in found.mistakes] == ["rounded-to-float16"]


def explained_by_lengths(given, others):
    """What is told of many lines that are reversed by other lengths than the given ones."""
    x = np.random.default_rng(5).normal(size=(len(given), 16)).astype(np.float32)
    wrong = revseq_cli.reverse_subsequences(x, others[:, None], 1)
    found = revseq_cli.explain(wrong, x, given[:, None], 1)
    return [each.id for each in found.mistakes if each.lines == found.lines.count]


def test_of_many_lines_of_one_length_too_few_differ_to_tell():
    given = np.full(40_000, 4)
    assert explained_by_lengths(given, given - 1)[::2] == ["minus", "too-few-lines"]
    assert explained_by_lengths(given, given * 0) == ["not-reversed"]
    given[:3] = 9, 10, 11
    assert explained_by_lengths(given, given - 1) == ["minus"]


def test_lengths_of_others_are_found_among_many_lines():
    given = np.random.default_rng(5).integers(1, 17, 40_000)
    assert explained_by_lengths(given, np.roll(given, 1)) == ["lengths-of-others"]


def test_of_two_with_one_id_the_other_is_tried_where_one_fails_beyond_the_sample():
    given = np.random.default_rng(5).integers(3, 17, 40_000)
    given[20_000:20_003] = 20  # one less than these is above the axis size, too
    assert explained_by_lengths(given, np.minimum(given, 16) - 1) == ["minus"]


def test_indices_of_16_bits_are_found_in_long_lines():
    x, n = np.random.default_rng(5).normal(size=(3, 66_000)), np.array([[65_999], [40_000], [65_700]])
    j = np.arange(66_000)
    wrong = np.take_along_axis(x, np.where(j < n, (n - 1 - j) % 65_536, j), 1)
    assert [each.id for each in revseq_cli.explain(wrong, x, n, 1).mistakes] == ["wrapped"]


@pytest.mark.parametrize("whole", [True, False])
def test_indices_of_few_bits_are_found_in_lines_that_are_cut(revseq, tmp_path, whole):
    """A block has a part of a line, and beside it the line's first elements."""
    x, n = np.random.default_rng(5).normal(size=(2, 200_000)).astype("f4"), np.array([[150_000], [199_000]], "u4")
    j = np.arange(200_000)
    right = np.where(j < n, n - 1 - j, j)
    wrong = np.take_along_axis(x, right % 4096 if whole else np.where(j < n, right % 4096, j), 1)
    for name, values in (("x", x), ("n", n), ("wrong", wrong)):
        np.save(tmp_path / f"{name}.npy", values)
    job = ("diff", "wrong.npy", "--job", "x.npy", "n.npy", "--axis", 1, "--memory", "1MiB", "--jobs", 1)
    assert "lines are cut" in revseq("run", *job[3:], "--dry-run").ok().out
    done = revseq(*job, "--json")
    assert [each["id"] for each in json.loads(done.out)["mistakes"]] == ["wrapped"]
    wrong[1, 150_000] += 1  # beyond the sample
    np.save(tmp_path / "wrong.npy", wrong)
    (part,) = json.loads(revseq(*job, "--json").out)["mistakes"]
    assert (part["id"], part["lines"]) == ("wrapped", 1)


def test_lines_of_length_0_are_a_rule():
    x, n = np.arange(1, 49, dtype=np.float32).reshape(12, 4), np.array([[2], [0], [3], [4]] * 3)
    wrong = revseq_cli.reverse_subsequences(x, n, 1)
    wrong[1::4] = 0
    found = revseq_cli.explain(wrong, x, n, 1)
    assert found.lines[:4] == (3, 12, "wrong are just the lines whose length is 0", "length-is")
    assert [each.id for each in found.mistakes] == ["zeros"]


OTHER_LENGTHS = {
    "longest": lambda n: n * 0 + n.max(),
    "minus": lambda n: np.maximum(n, 1) - 1,
    "sum": lambda n: np.cumsum(n),
    "lengths-of-others": lambda n: np.sort(n)[::-1],
    "lengths-as-words": lambda n: np.frombuffer(n.astype("<u4").tobytes(), "<u2")[: len(n)],
}


@pytest.mark.parametrize("name", OTHER_LENGTHS)
@pytest.mark.parametrize("of_batch", [True, False])
def test_other_lengths_of_a_tensor_larger_than_its_sample(name, of_batch):
    rng = np.random.default_rng(5)
    n = rng.integers(2, 16, 5000).astype(np.uint32)
    x = rng.normal(size=(5000, 16)).astype(np.float32)
    wrong = revseq_cli.reverse_subsequences(x, OTHER_LENGTHS[name](n).astype(np.uint32)[:, None], 1)
    given, settings = (n, {"batch_axis": 0}) if of_batch else (n[:, None], {})
    found = revseq_cli.explain(wrong, x, given, 1, **settings)
    assert (name, found.lines.count) in [(each.id, each.lines) for each in found.mistakes]


def rule_of(wrong, lengths=None):
    """The rule that parts these lines, of so many in a row."""
    lengths = np.full(wrong.shape, 4) if lengths is None else lengths
    spots = Spots((np.arange(len(wrong))[:, None], np.zeros((1, 1), int)), (len(wrong), 4), 1, lengths, of_lines=True)
    return of_lines(spots, wrong)


def test_rules_are_fitted_to_all_lines_not_to_the_sample_alone():
    wrong = np.zeros((100_003, 1), np.bool_)
    wrong[77_777:] = True
    assert rule_of(wrong).rule == "wrong are just the lines whose index in dimension 0 is above 77776"
    wrong[:] = False
    wrong[::3] = True
    assert rule_of(wrong).id == "index-multiple"
    wrong[50_001] = False
    told = rule_of(wrong)
    assert not told.rule
    assert told.nearest.endswith("lines whose index in dimension 0 is a multiple of 3, but for 1")


# Mistakes that someone made who had seen only the manual: the id, and the output of lines x with lengths n.
def _by_rows(function):
    def made(x, n):
        return np.stack([function(row.copy(), int(length)) for row, length in zip(x, n, strict=True)])

    return made


def _tail_of_4(row, n):
    row[:n] = row[:n][::-1]
    row[n // 4 * 4 : n] = 0
    return row


def _middle_pair(row, n):
    right = row[:n][::-1].copy()
    right[n // 2 - 1 : n - n // 2 + 1] = row[n // 2 - 1 : n - n // 2 + 1]
    return np.concatenate([right, row[n:]])


def _middle_zero(row, n):
    row[:n] = row[:n][::-1]
    row[n // 2 : n // 2 + n % 2] = 0
    return row


def _even_only(row, n):
    row[:n:2] = row[:n:2][::-1]
    return row


def _padded_by_mask(row, n):
    row[:n] = row[:n][::-1]
    row[n:] *= 0
    return row


def _pitch_of_32(x, n):
    memory = np.append(x.reshape(-1), np.zeros(32 * len(x), x.dtype))
    read = np.stack([memory[32 * i : 32 * i + x.shape[1]] for i in range(len(x))])
    return revseq_cli.reverse_subsequences(read, n[:, None], 1)


def _padded_and_rounded(x, n):
    return _by_rows(lambda row, k: np.append(row[:k][::-1], row[k:] * 0))(x, n).astype("f2").astype("f4") + 0


def _rows_of_32_taken_for_packed(x, n):
    buffer = np.zeros((len(x), 32), x.dtype)
    buffer[:, : x.shape[1]] = revseq_cli.reverse_subsequences(x, n[:, None], 1)
    return buffer.reshape(-1)[: x.size].reshape(x.shape)


def _negated_before_the_length(row, n):
    row[:n] = -row[:n][::-1]
    return row


def _right_but(change):
    return lambda x, n: change(revseq_cli.reverse_subsequences(x, n[:, None], 1))


WHOLE = "whole lines are reversed, whatever their lengths are"
SEEN_IN_PORTS = {
    "cut-block": (_by_rows(_tail_of_4), "zeros in elements that lie in a block of 4 that the length cuts"),
    "middle-kept": (
        _by_rows(_middle_pair),
        "the input in elements whose doubled distance from the middle of the reversed part is -2 to 2",
    ),
    "middle": (
        _by_rows(_middle_zero),
        "zeros in elements whose doubled distance from the middle of the reversed part is 0",
    ),
    "multiples": (_by_rows(_even_only), "only elements whose index is a multiple of 2 change places"),
    "masked": (_by_rows(_padded_by_mask), "0 times the right element in elements that lie behind the length"),
    "pitch": (
        _pitch_of_32,
        "the input has rows of 30 elements, which are read as if each began 32 behind the one before",
    ),
    "whole and relu": (lambda x, _: np.maximum(x[:, ::-1], 0), f"{WHOLE}; and negative values are 0"),
    "padded and rounded": (
        _padded_and_rounded,
        "zeros in elements that lie behind the length; and values are rounded to FLOAT16",
    ),
    "pitch of the output": (
        _rows_of_32_taken_for_packed,
        "the output has rows that begin 32 elements behind each other, which are read as if they had only 30",
    ),
    "not cleared": (
        lambda x, n: x + revseq_cli.reverse_subsequences(x, n[:, None], 1),
        "the sum of the input and the right element everywhere",
    ),
    "negated in part": (
        _by_rows(_negated_before_the_length),
        "values are negated in elements that lie inside the length",
    ),
    "from two devices": (
        _right_but(lambda right: right[[i % 2 * 20 + i // 2 for i in range(41)]]),
        "lines of the output are at other places along dimension 0: taken in turn from 2 equal parts",
    ),
    "sorted twice": (
        lambda x, n: _right_but(lambda right: right[np.argsort(n, kind="stable")[np.argsort(n, kind="stable")]])(x, n),
        "lines of the output are at other places along dimension 0: sorted twice, the shortest first",
    ),
    "divided": (_right_but(lambda right: right / np.float32(255)), "values are divided by 255"),
    "quarters": (_right_but(lambda right: np.rint(right * 4) / 4), "values are rounded to multiples of 0.25"),
    "offsets": (
        lambda x, n: revseq_cli.reverse_subsequences(x, np.maximum(np.diff(n, prepend=0), 0)[:, None], 1),
        "differences from the length before are taken as lengths",
    ),
    "negated and cut": (
        _right_but(lambda right: (-right).view("u4").__and__(0xFFFF0000).view("f4")),
        "values are negated, and then values are cut to BFLOAT16",
    ),
    "every third": (
        lambda x, n: _right_but(lambda right: np.where(np.arange(41)[:, None] % 3 == 1, x[:, ::-1], right))(x, n),
        f"only in lines whose index in dimension 0 has the remainder 1 by 3: {WHOLE}",
    ),
}


@pytest.mark.parametrize("name", SEEN_IN_PORTS)
def test_what_ports_do_is_told(name):
    rng = np.random.default_rng(9)
    x, n = rng.normal(size=(41, 30)).astype(np.float32), rng.integers(4, 30, 41)
    make, text = SEEN_IN_PORTS[name]
    found = revseq_cli.explain(make(x.copy(), n), x, n[:, None], 1)
    assert text in [each.text for each in found.mistakes]


def test_lengths_of_the_batch_are_read_by_the_number_of_the_line():
    rng = np.random.default_rng(9)
    x, n = rng.normal(size=(4, 3, 12)).astype(np.float32), np.array([2, 5, 11, 7])
    wrong = revseq_cli.reverse_subsequences(x, n[np.arange(12) % 4].reshape(4, 3, 1), 2)
    found = revseq_cli.explain(wrong, x, n, 2, batch_axis=0)
    assert [each.id for each in found.mistakes] == ["lengths-by-line"]


def test_python_takes_an_output_that_is_cut_to_the_longest_length():
    rng = np.random.default_rng(9)
    x, n = rng.normal(size=(6, 30, 2)).astype(np.float32), rng.integers(4, 20, 6)
    right = revseq_cli.reverse_subsequences(x, n, 1, batch_axis=0)[:, : n.max()]
    found = revseq_cli.explain(right, x, n, 1, batch_axis=0)
    assert found.differing == 0
    assert found.reading == f"along axis 1 the output is cut to the longest length, {n.max()} of 30"
    assert [each.id for each in found.mistakes] == ["read-otherwise"]


def test_many_lines_are_explained_in_one_process():
    """What is kept of them takes memory that is left, not a part of that of the blocks."""
    x, n = np.arange(1 << 21, dtype=np.uint32).reshape(-1, 2), np.full((1 << 20, 1), 2)
    assert [each.id for each in revseq_cli.explain(x, x, n, 1).mistakes] == ["not-reversed"]
