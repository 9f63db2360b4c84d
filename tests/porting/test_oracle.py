"""`diff --job`: a tensor against what is right, where it is wrong, and which mistake explains it."""

import json
import re

import numpy as np
import oracle
import pytest
from processes import peak

from revseq_cli.core.tensors import DataType

SIZES, AXIS = (5, 4, 9, 3), 2
EQUALS = "the output is the input: nothing is reversed"
WHOLE = "whole lines are reversed, whatever their lengths are"


def report(done, status):
    """The report, with the texts of its mistakes alone."""
    assert done.status == status, done.err
    found = json.loads(done.out)
    return {**found, "mistakes": [each["text"] for each in found["mistakes"]]}


@pytest.fixture
def judged(revseq, tmp_path):
    """Save A and the job, and return the report of `diff --job`."""

    def run(a, x, n, axis=AXIS, *options, status=1, form=".npy"):
        np.save(tmp_path / "a.npy", a)
        np.save(tmp_path / "x.npy", x)
        np.save(tmp_path / "n.npy", n)
        if form != ".npy":
            for name in "ax":
                revseq("convert", f"{name}.npy", f"{name}{form}", "--overwrite").ok()
        names = (f"a{form}", "--job", f"x{form}", "n.npy")
        return report(revseq("diff", *names, "--axis", axis, "--json", *options), status)

    return run


def job(seed=0, most=12, sizes=SIZES, axis=AXIS, kind=np.uint32):
    """Random values and lengths; some lengths are 0, some are above the axis size."""
    rng = np.random.default_rng(seed)
    of_lengths = [1 if d == axis else size for d, size in enumerate(sizes)]
    lengths = rng.integers(0, most, of_lengths).astype(kind)
    lengths.reshape(-1)[:3] = 5, most, 0
    return oracle.random_values(rng, sizes, DataType.FLOAT32), lengths


def made(x, n, axis, element):
    """An output of which each line is made by `element`: of the line, its length, and the index."""
    out = np.empty_like(x)
    lines = np.moveaxis(x, axis, -1)
    to = np.moveaxis(out, axis, -1)
    lengths = np.moveaxis(n, axis, -1)[..., 0]
    for place in np.ndindex(lengths.shape):
        line, length = lines[place].view(np.uint32).tolist(), int(lengths[place])
        to[place] = np.array([element(line, length, j) for j in range(len(line))], np.uint32).view(np.float32)
    return out


def right(line, length, j):
    length = min(length, len(line))
    return line[length - 1 - j] if j < length else line[j]


MISTAKES = {
    EQUALS: lambda line, _, j: line[j],
    WHOLE: lambda line, _, j: line[-1 - j],
    "a length of 0 is taken as the whole line": lambda line, length, j: right(line, length or len(line), j),
    "lengths are one too small": lambda line, length, j: right(line, length - 1, j),
    "lengths are one too large": lambda line, length, j: right(line, length + 1, j),
    "only lengths up to 9 are used": lambda line, n, j: right(line, n if n <= len(line) else 0, j),
    "lengths above the axis size are taken modulo it": lambda line, n, j: right(
        line, n if n <= len(line) else n % len(line), j
    ),
    "zeros in elements that lie behind the length": lambda line, n, j: right(line, n, j) * (j < n),
    "zeros in elements whose length is 0": lambda line, n, j: right(line, n, j) if n else 0,
    "what is behind the length is reversed, too": lambda line, n, j: (line[: min(n, 9)][::-1] + line[n:][::-1])[j],
    "lengths are not clamped: outside of the line, there are zeros": lambda line, n, j: (
        line[j] if j >= n else line[n - 1 - j] if n - 1 - j < len(line) else 0
    ),
    "lengths are not clamped: outside of the line, its last element is read": lambda line, n, j: (
        line[j] if j >= n else line[min(n - 1 - j, len(line) - 1)]
    ),
    "elements are read one too far": lambda line, n, j: line[j] if j >= n else [*line, 0][min(n, len(line)) - j],
}


@pytest.mark.parametrize("name", MISTAKES)
def test_each_mistake_is_named_alone(judged, name):
    x, n = job()
    found = judged(made(x, n, AXIS, MISTAKES[name]), x, n)
    assert found["mistakes"] == [name]


def test_the_name_does_not_depend_on_what_is_shown(judged):
    """Elements that were zero before hide where the part begins that is not done: it has more than the first lines."""
    x, n = np.arange(1, 161, dtype=np.float32).reshape(4, 40), np.array([[2], [5], [40], [1]], np.uint32)
    x[0, 2:12] = 0
    wrong = oracle.reverse(x, n, 1)
    wrong[:, 2:] = 0
    for options in ((), ("--first", 0), ("--first", 100), ("--memory", "1500", "--engine", "serial")):
        assert judged(wrong, x, n, 1, *options)["mistakes"] == [
            "zeros in elements whose index in dimension 1 is above 1"
        ]


def test_parts_have_the_simplest_name(judged):
    x, n = np.arange(1, 25, dtype=np.float32).reshape(2, 3, 4), np.full((2, 3, 1), 3, np.uint32)
    right = oracle.reverse(x, n, 2)
    assert judged(right * 0, x, n, 2)["mistakes"] == ["zeros everywhere"]
    assert judged(x[:1, :1] * 0, x[:1, :1], n[:1, :1], 2)["mistakes"] == ["zeros everywhere"]
    wrong = right.copy()
    wrong[1] = 0
    assert judged(wrong, x, n, 2)["mistakes"] == ["zeros in elements whose index in dimension 0 is 1"]
    n[0, 0, 0] = 0
    assert "the input from" not in str(judged(x, x, n, 2)["mistakes"])
    n = np.array([[[3], [2], [3]], [[4], [2], [4]]], np.uint32)
    told = "lengths are those of other lines: along dimension 0, in reverse order"
    assert judged(oracle.reverse(x, n[::-1], 2), x, n, 2)["mistakes"] == [told]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda y: y.T, "the axes of the output are in the order {4,3,2,1,0}"),
        (lambda y: np.moveaxis(y, 1, -1), "the axes of the output are in the order {0,2,3,4,1}"),
        (lambda y: y.swapaxes(0, 3), "the axes of the output are in the order {3,1,2,0,4}"),
        (lambda y: y.reshape(-1, order="F").reshape(y.shape), "memory of the output has its axes in the order {4,3,2,1,0}"),
        (lambda y: y.reshape(-1).reshape(y.shape, order="F"), "output is read as if its axes had the order {4,3,2,1,0}"),
    ],
)  # fmt: skip
def test_orders_of_five_dimensions(judged, change, name):
    x, n = job(sizes=(2, 3, 4, 5, 6), axis=3)
    (found,) = judged(np.ascontiguousarray(change(oracle.reverse(x, n, 3))), x, n, 3)["mistakes"]
    assert name in found


def test_lengths_that_are_read_in_the_other_order(judged):
    x, n = job()
    wrong = oracle.reverse(x, n.reshape(-1).reshape(n.shape, order="F"), AXIS)
    told = "the memory of lengths is read as if its axes had the order {3,1,2,0}"
    assert judged(wrong, x, n)["mistakes"] == [told]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (np.negative, "values are negated"),
        (np.conj, "values are conjugated"),
        (lambda y: y.byteswap(), "the bytes of each element are in the other order"),
    ],
)
def test_complex_values(judged, change, name):
    x = oracle.random_values(np.random.default_rng(1), (5, 6), DataType.COMPLEX64)
    x[:] = np.arange(1, 31).reshape(5, 6) + 0.5j
    n = np.array([[2], [6], [0], [3], [5]], np.uint32)
    found = judged(change(oracle.reverse(x, n, 1)), x, n, 1, "--feature-level", "none")
    assert found["mistakes"] == [name]


def test_what_is_right_is_equal(judged):
    x, n = job()
    found = judged(made(x, n, AXIS, right), x, n, status=0)
    assert (found["equal"], found["mistakes"], found["lines"]) == (True, [], 0)


def test_the_low_32_bits(judged):
    x, n = job(kind=np.uint64)
    n[1, 2, 0, 1], n[0, 1, 0, 1] = 2**32, 2**40 + 3
    wrong = oracle.reverse(x, n % 2**32, AXIS)
    assert judged(wrong, x, n)["mistakes"][0] == "only the low 32 bits of each length are used"
    assert judged(oracle.reverse(x, n, AXIS), x, n, status=0)["equal"]


def test_lengths_that_are_clamped_before_they_are_made_smaller(judged):
    x, n = job(most=12)
    wrong = oracle.reverse(x, np.maximum(np.minimum(n, 9), 1) - 1, AXIS)
    assert judged(wrong, x, n)["mistakes"] == ["lengths are one too small"]


@pytest.mark.parametrize("seed", range(4))
def test_another_error_gets_no_name(judged, seed):
    x, n = job(seed)
    wrong = oracle.reverse(x, n, AXIS)
    wrong.view(np.uint32)[4, 3, seed, 2] ^= 1
    found = judged(wrong, x, n)
    assert (found["different"], found["mistakes"], found["lines"]) == (1, [], 1)
    broken = made(x, n, AXIS, MISTAKES[WHOLE])
    broken.view(np.uint32)[4, 3, seed, 2] ^= 1  # all but one element are explained
    (told,) = judged(broken, x, n)["mistakes"]
    assert re.fullmatch(rf"{WHOLE}; this explains (\d+) of (\d+) wrong lines", told)


def test_mistakes_that_cannot_be_told_apart_are_all_named(judged):
    x, n = job(sizes=(4, 6), axis=1)
    n[:] = 1
    told = judged(oracle.reverse(x, n + 1, 1), x, n, 1)["mistakes"]
    assert told[0] == "lengths are one too large"
    assert "the lines are too few, or too much alike, to tell" in told[-1]
    n[:] = 0
    assert judged(x[:, ::-1].copy(), x, n, 1)["mistakes"] == [WHOLE]


@pytest.mark.parametrize(("axis", "batch"), [(0, 1), (2, 0), (2, 1)])
def test_other_axes_with_a_batch_axis(judged, axis, batch):
    x = oracle.random_values(np.random.default_rng(1), (6, 6, 7), DataType.INT16)
    n = np.array([2, 6, 0, 3, 5, 4], np.uint32)
    of_lines = [1 if d == axis else size for d, size in enumerate(x.shape)]
    wide = np.broadcast_to(np.expand_dims(n, [d for d in range(3) if d != batch]), of_lines)
    found = judged(oracle.reverse(x, wide, axis), x, n, 1, "--batch-axis", 0)
    assert found["mistakes"] == [f"axis {axis} is reversed with the batch axis {batch}, not 1 with 0"]


def test_lengths_of_64_bits_that_are_bound_as_32_bits(judged):
    x, n = oracle.random_values(np.random.default_rng(1), (5, 7), DataType.FLOAT16), np.array([4, 3, 7, 2, 5])
    read = np.frombuffer(n.astype("<i8").tobytes(), "<u4")[:5]
    assert read.tolist() == [4, 0, 3, 0, 7]
    found = judged(oracle.reverse(x, read[:, None], 1), x, n, 1, "--batch-axis", 0, "--lengths-dtype", "UINT32")
    assert found["mistakes"] == ["lengths of 64 bits are read as words of 32 bits"]


def test_axes_of_size_1_are_no_mistake_of_their_own(judged):
    x, n = job(sizes=(4, 6, 1), axis=1)
    assert judged(x, x, n, 1)["mistakes"] == [EQUALS]
    assert judged(x, x, n[:, 0, 0], 1, "--batch-axis", 0)["mistakes"] == [EQUALS]


def test_other_axes_without_one(judged):
    x = oracle.random_values(np.random.default_rng(1), (6, 6), DataType.INT64)
    n = np.array([[2], [6], [0], [3], [5], [4]], np.uint32)
    turned = "axis 0 is reversed, not 1, with a length for each index of axis 1"
    assert judged(oracle.reverse(x, n.T, 0), x, n, 1)["mistakes"] == [turned]
    x = oracle.random_values(np.random.default_rng(1), (6, 5, 4), DataType.INT64)
    n = np.broadcast_to(n[:, :, None] % 5, (6, 1, 4)).astype(np.uint32)
    found = judged(oracle.reverse(x, np.broadcast_to(n[:, :, :1], (6, 5, 1)), 2), x, n, 1)
    assert found["mistakes"] == ["axis 2 is reversed, not 1"]


# Where


def counted(a, b, n, axis):
    """Lines, elements inside and elements behind that differ, one by one."""
    lines, inside, behind = set(), 0, 0
    for place in np.argwhere(a.view(np.uint32) != b.view(np.uint32)).tolist():
        line = (*place[:axis], 0, *place[axis + 1 :])
        lines.add(line)
        inside += place[axis] < n[line]
        behind += place[axis] >= n[line]
    return [len(lines), inside, behind]


@pytest.mark.parametrize("axis", range(4))
@pytest.mark.parametrize("memory", ["1GiB", "3000"])
def test_where_it_differs(judged, axis, memory):
    x, n = job(axis, axis=axis)
    b = oracle.reverse(x, n, axis)
    a = b.copy()
    chosen = np.random.default_rng(axis).random(a.shape) < 0.05
    a.view(np.uint32)[chosen] ^= 7
    found = judged(a, x, n, axis, "--memory", memory, "--engine", "serial")
    assert [found[key] for key in ("lines", "inside", "behind")] == counted(a, b, n, axis)
    assert found["different"] == chosen.sum()


@pytest.mark.needs("peak")
def test_a_large_job_in_little_memory(tmp_path):
    sizes = (20, 1 << 20)
    x = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, sizes)
    a = np.lib.format.open_memmap(tmp_path / "a.npy", "w+", np.float32, sizes)
    a[:] = 1
    x[-1, -1] = 0
    np.save(tmp_path / "n.npy", np.full(20, 1 << 20, np.uint32))
    few = ("--memory", "8MiB", "--jobs", 2)
    out, memory, status = peak(
        tmp_path, "diff", "a.npy", "--job", "x.npy", "n.npy", "--axis", 1, "--batch-axis", 0, *few
    )
    assert status == 1
    assert "in 20 of 20 lines, only inside the reversed part" in out
    assert memory < 100 << 10


def test_dask_and_a_whole_job(revseq, tmp_path):
    x, n = job(sizes=(40, 50), axis=1)
    for name, values in (("a", oracle.expected(x, n, 1)), ("x", x), ("n", n)):
        np.save(tmp_path / f"{name}.npy", values)
    few = ("--engine", "dask", "--jobs", 1, "--memory", "100KB")
    revseq("diff", "a.npy", "--job", "x.npy", "n.npy", "--axis", 1, *few).ok()
    (tmp_path / "e.txt").write_text(revseq("run", "x.npy", "n.npy", "--axis", 1, "--example").ok().out)
    revseq("diff", "e.txt::OutputTensor", "--job", "e.txt").ok()
    revseq("export", "x.npy", "n.npy", "--axis", 1, "-o", "m.json").ok()
    revseq("diff", "-", "--job", "m.json", stdin=(tmp_path / "a.npy").read_bytes()).ok()
    assert revseq("diff", "e.txt::InputTensor", "--job", "e.txt").status == 1


def test_what_is_told(revseq, tmp_path):
    np.save(tmp_path / "x.npy", np.arange(1, 9, dtype=np.float32).reshape(2, 4))
    np.save(tmp_path / "a.npy", np.array([[4, 3, 2, 1], [8, 7, 6, 5]], np.float32))
    done = revseq("diff", "a.npy", "--job", "x.npy", "[3, 0]", "--axis", 1, "--batch-axis", 0, "--first", 2)
    assert "8 of 8 elements differ, in 2 of 2 lines, 3 inside the reversed part, 5 behind it\n" in done.out
    assert revseq("diff", "a.npy", "--job", "x.npy", "[4, 9]", "--axis", 1, "--batch-axis", 0, "--first", 0).ok()
    found = revseq("diff", "a.npy", "--job", "x.npy", "[2, 4]", "--axis", 1, "--batch-axis", 0, "--first", 0)
    assert "whole lines" in found.out
    assert "the only wrong line has the index [0]" in found.out
    assert "index  A" not in found.out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("a.npy", "--job"), ["1 tensor is given", "wanted: A B, or A --job INPUT LENGTHS"]),
        (("a.npy", "--job", "x.npy", "n.npy", "n.npy"), ["4 tensors are given"]),
        (("-", "--job", "-", "n.npy", "--axis", 1), ["A and INPUT are both standard input"]),
        (("-", "--job", "-", "-", "--axis", 1), ["A and INPUT and LENGTHS are standard input"]),
        (("a.npy", "x.npy", "--axis", 1), ["--axis applies only to a job", "add --job"]),
        (("a.npy", "x.npy", "--batch-axis", 1), ["--batch-axis applies only to a job"]),
        (("a.npy", "x.npy", "--lengths-dtype", "UINT32"), ["--lengths-dtype applies only to a job"]),
        (("a.npy", "x.npy", "--feature-level", "5_0"), ["--feature-level applies only to a job"]),
        (("a.npy", "--job", "x.npy", "n.npy", "--axis", 0), ["Sizes"]),
        (("a.npy", "--job", "x.npy", "n.npy", "--axis", 1, "--memory", "300"), ["try --memory"]),
        (("a.npy", "x.npy", "--picture", "old.svg"), ["old.svg"]),
    ],
)
def test_bad_input(revseq, tmp_path, args, words):
    np.save(tmp_path / "x.npy", np.zeros((30, 40), np.float32))
    np.save(tmp_path / "a.npy", np.zeros((30, 40), np.float32))
    np.save(tmp_path / "n.npy", np.zeros((30, 1), np.uint32))
    (tmp_path / "old.svg").write_text("old")
    before = sorted(tmp_path.iterdir())
    revseq("diff", *args).refused(*words)
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "old.svg").read_text() == "old"


# Pictures


def test_a_picture_marks_what_differs(revseq, tmp_path):
    np.save(tmp_path / "x.npy", np.arange(1000, 1012).reshape(3, 4))
    a = np.load(tmp_path / "x.npy")
    a[1, 2] = 7777
    np.save(tmp_path / "a.npy", a)
    for name, rest in (("pair", ("x.npy",)), ("job", ("--job", "x.npy", "[[0], [1], [0]]", "--axis", 1))):
        done = revseq("diff", "a.npy", *rest, "--picture", f"{name}.svg", "--json")
        assert report(done, 1)["different"] == 1
        svg = (tmp_path / f"{name}.svg").read_text()
        assert re.findall(r'class="cell different"[^>]*>(.*?)<', svg) == ["7777", "1006"]
        assert svg.count('<rect class="different"') == 3  # with that of the legend
        assert ">1 of 12 elements differ</text>" in svg
    assert "right" in (tmp_path / "job.svg").read_text()
    revseq("diff", "a.npy", "x.npy", "--picture", "pair.svg").refused("pair.svg")
    assert revseq("diff", "a.npy", "x.npy", "--picture", "pair.svg", "--overwrite").status == 1
    done = revseq("diff", "a.npy", "[1]", "--picture", "no.svg")
    assert (done.status, done.err) == (1, "Note: no picture is drawn: the tensors differ in sizes or data types\n")
    assert not (tmp_path / "no.svg").exists()


def test_a_picture_of_a_large_tensor_is_shortened(revseq, tmp_path):
    values = np.zeros((50, 60, 70), np.int32)
    np.save(tmp_path / "x.npy", values)
    values[49, 0, 0] = 987
    np.save(tmp_path / "a.npy", values)
    assert revseq("diff", "a.npy", "x.npy", "--picture", "d.svg").status == 1
    svg = (tmp_path / "d.svg").read_text()
    assert svg.count(">shown: 72 of 210,000 elements</text>") == 1
    assert len(svg) < 200_000


def test_ranks_that_differ_get_a_hint_that_works(revseq, tmp_path):
    np.save(tmp_path / "x.npy", np.arange(10, dtype="f4").reshape(1, 5, 2))
    np.save(tmp_path / "n.npy", np.array([3]))
    job = ("--job", "x.npy", "n.npy", "--like", "tensorflow", "--axis", 1)
    revseq("run", *job[1:], "-o", "y.npy").ok()
    for sizes in ((5, 2), (1,) * 9 + (5, 2)):
        np.save(tmp_path / "a.npy", np.load(tmp_path / "y.npy").reshape(sizes))
        done = revseq("diff", "a.npy", *job)
        assert (done.status, done.out.splitlines()[-1]) == (1, "Hint: add --rank 3")
        assert "equal, 10 elements" in revseq("diff", "a.npy", *job, "--rank", 3).ok().out
    np.save(tmp_path / "b.npy", np.load(tmp_path / "y.npy").astype("f8")[0])
    assert revseq("diff", "b.npy", "y.npy").out.endswith("Hint: add --rank 3 --as FLOAT64\n")
    revseq("diff", "b.npy", "y.npy", "--rank", 3, "--as", "FLOAT64").ok()


def test_clamping_is_told(revseq, tmp_path):
    np.save(tmp_path / "x.npy", np.arange(40, dtype="f4").reshape(2, 5, 4))
    np.save(tmp_path / "n.npy", np.array([9, 2]))
    job = ("x.npy", "n.npy", "--axis", 1, "--batch-axis", 0, "--lengths-dtype", "UINT32")
    told = "Note: 1 of 2 lengths exceeds the axis size (5) and is clamped to 5\n"
    assert revseq("run", *job, "-o", "y.npy").ok().err == told
    assert revseq("diff", "y.npy", "--job", *job).ok().err == told
    assert json.loads(revseq("diff", "y.npy", "--job", *job, "--json").ok().out)["notes"] == [told[6:-1]]
    assert revseq("export", *job, "-o", "m.json").ok().err == told


# Other sizes and data types than those of the output


@pytest.mark.parametrize(
    ("change", "name", "form"),
    [
        (lambda a: a.transpose(1, 0, 2, 3), "the axes of the output are in the order {1,0,2,3}", ".h5"),
        (lambda a: a.transpose(1, 0, 2, 3), "the axes of the output are in the order {1,0,2,3}", ".npy"),
        (lambda a: a.transpose(0, 2, 3, 1), "the axes of the output are in the order {0,2,3,1}", ".npy"),
        (lambda a: a.reshape(-1), "sizes {5,4,9,3} are flattened to {540}", ".npy"),
        (lambda a: a.reshape(5, 4, 27), "sizes {5,4,9,3} are flattened to {5,4,27}", ".npy"),
        (lambda a: a.reshape(1, 540), "sizes {5,4,9,3} are flattened to {1,540}", ".npy"),
        (lambda a: a[:, None], "sizes {5,4,9,3} are {5,1,4,9,3}, with other sizes of 1", ".h5"),
        (lambda a: a[..., None], "sizes {5,4,9,3} are {5,4,9,3,1}, with other sizes of 1", ".npy"),
        (lambda a: a[None], "sizes {5,4,9,3} are {1,5,4,9,3}, with other sizes of 1", ".npy"),
    ],
)
def test_other_sizes_are_read_as_those_of_the_output(judged, change, name, form):
    x, n = job()
    right = oracle.reverse(x, n, AXIS)
    for options in ((), ("--memory", "5000", "--engine", "serial")):
        found = judged(np.ascontiguousarray(change(right)), x, n, AXIS, *options, form=form)
        assert (found["equal"], found["different"], found["mistakes"]) == (False, 0, [name])
        assert found["A"]["Sizes"] == list(change(right).shape)
        assert found["notes"][-1] == f"A is read as follows: {name}"
    wrong = np.ascontiguousarray(change(made(x, n, AXIS, MISTAKES[WHOLE])))
    assert judged(wrong, x, n, form=form)["mistakes"] == [f"{name}, and {WHOLE}"]
    wrong.reshape(-1).view(np.uint32)[77] ^= 1
    (told,) = judged(wrong, x, n, form=form)["mistakes"]
    assert told.startswith(f"{name}, and {WHOLE}; this explains ")


def test_of_several_transpositions_the_closest_is_told(judged):
    x, n = job(sizes=(4, 4, 5), axis=1)
    turned = np.ascontiguousarray(oracle.reverse(x, n, 1).transpose(2, 1, 0))
    found = judged(turned, x, n, 1)
    assert (found["different"], found["mistakes"]) == (0, ["the axes of the output are in the order {2,1,0}"])
    assert judged(turned.reshape(5, 2, 8), x, n, 1)["different"] is None


def test_signed_bytes_that_are_saved_as_unsigned(judged):
    x = oracle.random_values(np.random.default_rng(1), (6, 7), DataType.INT8)
    n = np.array([[4], [3], [7], [2], [5], [0]], np.uint32)
    right = oracle.reverse(x, n, 1).view(np.uint8)
    told = "INT8 is saved as UINT8, byte for byte"
    found = judged(right, x, n, 1)
    assert (found["equal"], found["different"], found["mistakes"]) == (False, 0, [told])
    assert found["A"]["DataType"] == "UINT8"
    both = f"{told} and the axes of the output are in the order {{1,0}}"
    assert judged(np.ascontiguousarray(right.T), x, n, 1)["mistakes"] == [both]
    assert judged(right.astype(np.uint16), x, n, 1)["different"] is None


def test_bits_of_floats_that_are_saved_as_integers(judged):
    x, n = job(sizes=(4, 6), axis=1)
    right = oracle.reverse(x, n, 1)
    told = "FLOAT32 is saved as UINT32, byte for byte"
    found = judged(right.view(np.uint32), x, n, 1)
    assert (found["different"], found["mistakes"], found["hint"]) == (0, [told], "")
    x = np.arange(1, 25, dtype=np.float32).reshape(4, 6)
    found = judged(oracle.reverse(x, n, 1).astype(np.uint32), x, n, 1)
    assert (found["different"], found["mistakes"]) == (None, [])  # these are numbers
    assert found["hint"].startswith("add --as ")


@pytest.mark.parametrize(("engine", "axis"), [("serial", 0), ("processes", 1), ("processes", 0)])
def test_all_engines_and_cut_lines(judged, engine, axis):
    """Mistakes of each family are named in blocks of whole lines; of the elements of cut lines none, and none falsely."""
    x = np.random.default_rng(1).normal(size=(60, 50)).astype("f4")
    n = np.random.default_rng(2).integers(0, 62, (1, 50) if axis == 0 else (60, 1)).astype("u4")
    right = oracle.reverse(x, n, axis)
    wrong = {
        f"lengths are those of other lines: along dimension {1 - axis}, one before, around the ends": oracle.reverse(
            x, np.roll(n, 1), axis
        ),
        "the memory of the output has its axes in the order {1,0}": right.T.reshape(x.shape),
        "values are rounded to FLOAT16": right.astype("f2").astype("f4"),
        "zeros in elements whose index in dimension 0 is above 30": np.where(
            np.arange(60)[:, None] < 31, right, np.float32(0)
        ),
        "lines are rotated by one": np.roll(right, 1, axis),
        "the input is shifted by one element: each is the one before it in memory": oracle.reverse(
            np.roll(x.reshape(-1), 1).reshape(x.shape), n, axis
        ),
    }
    for memory in ("1GiB", "3KB"):
        for name, a in wrong.items() if engine == "serial" else [*wrong.items()][::2]:
            found = judged(a, x, n, axis, "--engine", engine, "--jobs", 2, "--memory", memory)["mistakes"]
            needs_lines = name.startswith(("lines", "the input"))
            assert (name in found) is not (needs_lines and memory == "3KB"), (name, memory)
            assert len(found) <= 1 + name.endswith("FLOAT16"), found  # TF32 has as many bits


def test_one_length_has_no_neighbour(judged):
    x, n = np.array([1.0, 2.0, 3.0], np.float32), np.array([2], np.uint32)
    found = judged(x, x, n, 0)["mistakes"]
    assert EQUALS in found
    assert not [each for each in found if "other lines" in each]


@pytest.mark.parametrize("with_nan", [False, True])
def test_the_hint_for_rounding_makes_them_equal(revseq, tmp_path, with_nan):
    x, n = job()
    right = oracle.reverse(x, n, AXIS)
    right[~np.isfinite(right)] = 1
    right[right == 0] = 1
    wrong = np.nextafter(right, np.float32(np.inf))
    if with_nan:  # of other bits
        right.reshape(-1)[5], wrong.reshape(-1)[5] = np.array([0x7FC00001, 0x7FC00000], np.uint32).view(np.float32)
    np.save(tmp_path / "a.npy", wrong)
    np.save(tmp_path / "b.npy", right)
    done = revseq("diff", "a.npy", "b.npy")
    assert done.status == 1
    (hint,) = re.findall(r"Hint: the differences are as small as rounding: add (.*)", done.out)
    assert ("--equal-nan" in hint) == with_nan
    assert revseq("diff", "a.npy", "b.npy", *hint.split()).status == 0
    wrong.reshape(-1)[7] = np.nan  # which no tolerance takes for a number
    np.save(tmp_path / "a.npy", wrong)
    assert "as small as rounding" not in revseq("diff", "a.npy", "b.npy").out
    wrong.reshape(-1)[7] = right.reshape(-1)[7] * np.float32(1.001)
    np.save(tmp_path / "a.npy", wrong)
    assert "as small as rounding" not in revseq("diff", "a.npy", "b.npy").out


def test_an_output_that_is_cut_to_the_longest_length(judged):
    """As PyTorch's pad_packed_sequence gives it, which also has zeros behind each length."""
    x = np.random.default_rng(3).normal(size=(6, 9, 2)).astype(np.float32)
    n = np.array([5, 2, 3, 1, 4, 2], np.uint32)[:, None, None].repeat(2, 2)
    right = oracle.reverse(x, n, 1)
    told = "along axis 1 the output is cut to the longest length, 5 of 9"
    found = judged(right[:, :5].copy(), x, n, 1)
    assert (found["mistakes"], found["different"], found["equal"]) == ([told], 0, False)
    packed = np.where(np.arange(9)[:, None] < n, right, np.float32(0))
    assert (
        f"{told}, and zeros in elements that lie behind the length" in judged(packed[:, :5].copy(), x, n, 1)["mistakes"]
    )
    assert judged(right[:, :7].copy(), x, n, 1)["mistakes"] == ["along axis 1 the output is cut to 7 of 9"]
    assert judged(right[:, :4].copy(), x, n, 1)["different"] is None
