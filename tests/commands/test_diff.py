"""`revseq diff`: two tensors of any formats, and an output against a job: what is told, drawn and refused."""

import json
import re

import h5py
import numpy as np
import oracle
import pytest
from processes import peak

from revseq_cli.core.tensors import DataType

X = np.arange(12, dtype=np.float32).reshape(3, 4)
SIZES, AXIS = (5, 4, 9, 3), 2


@pytest.fixture
def pair(tmp_path):
    def save(a, b):
        np.save(tmp_path / "a.npy", a)
        np.save(tmp_path / "b.npy", b)
        return tmp_path

    return save


def report(done, status):
    assert done.status == status, done.err
    return json.loads(done.out)


def test_what_is_told(revseq, pair):
    b = X.copy()
    b[0, 1], b[2, 3] = 1.5, -11
    folder = pair(X, b)
    shown = "2 of 12 elements differ\n   index   A    B\n  [0, 1]   1  1.5\n  [2, 3]  11  -11\n"
    assert shown in revseq("diff", "a.npy", "b.npy").out
    assert revseq("diff", "a.npy", "b.npy", "--first", 1).out.count("[") == 1
    data = (folder / "a.npy").read_bytes()
    assert "standard input" in revseq("diff", "-", "a.npy", stdin=data).ok().out
    assert revseq("diff", "a.npy", "[1]").failed().out.endswith("shapes differ\n")
    for args, status in ((("a.npy", "b.npy"), 1), (("a.npy", "a.npy"), 0), (("a.npy", "[1]"), 1)):
        done = revseq("diff", *args, "-q")
        assert (done.status, done.out, done.err) == (status, "", "")


def test_options_of_a_job_count_only_where_they_are_typed(revseq, pair):
    pair(X, X)
    revseq("diff", "a.npy", "b.npy", env={"REVSEQ_FEATURE_LEVEL": "5_0"}).ok()
    typed = ("--batch-axis", 0, "--feature-level", "5_0", "--axis", 1)
    revseq("diff", "a.npy", "b.npy", *typed).refused("--batch-axis applies only to a job")


def test_json(revseq, pair):
    pair(np.array([1, np.nan, -0.0, 3]), np.array([np.inf, np.nan, 0.0, 4]))
    found = report(revseq("diff", "a.npy", "b.npy", "--json"), 1)
    assert found["a"] == {"name": "a.npy", "data_type": "FLOAT64", "shape": [4]}
    assert [found[key] for key in ("equal", "total", "different", "nans", "largest_absolute")] == [
        False,
        4,
        3,
        0,
        "inf",
    ]
    assert found["first"][1] == {"index": [2], "a": "-0.0", "b": "0"}
    assert report(revseq("diff", "a.npy", "a.npy", "--json"), 0)["equal"]
    assert report(revseq("diff", "a.npy", "[1, 2]", "--json"), 1)["total"] is None


@pytest.mark.parametrize(
    ("a", "b", "options", "status"),
    [
        ("[nan]", "[nan]", (), 0),
        ("[nan]", "[nan(0x7fc00001)]", (), 1),
        ("[-0]", "[0]", ("--atol", 0), 0),
        ("[nan]", "[nan(0x7fc00001)]", ("--equal-nan",), 0),
        ("[inf, -inf]", "[inf, -inf]", ("--rtol", 0), 0),
        ("[100]", "[101]", ("--atol", 0.5, "--rtol", 0.005), 0),
        ("[1, 2]", "[[1, 2]]", ("--atol", 9), 1),
        ("[1, 2]", "[1, 2]", ("--dtype", "INT8"), 0),
        ("[1, 100]", "[1.0000001, 101]", ("--ulp", 1), 1),
        ("[nan]", "[nan]", ("--ulp", 9, "--equal-nan"), 0),
    ],
)
def test_equal_or_not(revseq, a, b, options, status):
    if "nan(" in b:
        options = (*options, "--dtype", "FLOAT32")  # of which these are the bits
    done = revseq("diff", a, b, *options)
    assert (done.status, done.err) == (status, "")
    assert ("add --equal-nan" in done.out) is ("nan" in a and status == 1)


@pytest.mark.parametrize("engine", ["serial", "processes"])
def test_blocks_in_any_order_and_of_any_format(revseq, pair, engine):
    a = np.random.default_rng(1).integers(0, 1 << 30, (60, 50, 40), np.int32)
    b = a.copy()
    places = [(i, j, k) for i in (3, 59) for j in (0, 49) for k in (1, 2, 39)]
    for place in places:
        b[place] += 7
    folder = pair(np.asfortranarray(a), b)
    with h5py.File(folder / "b.h5", "w") as f:
        f.create_dataset("x", data=b, chunks=(7, 50, 9), compression="gzip")
    with h5py.File(folder / "a.h5", "w") as f:
        f.create_dataset("x", data=a, chunks=(11, 12, 13))
    few = ("--engine", engine, "--jobs", 2, "--memory", "2MB", "--first", 7, "--json")
    for names in (("a.npy", "b.h5"), ("a.h5", "b.npy"), ("a.h5", "b.h5"))[
        : None if engine == "serial" else 1
    ]:
        found = report(revseq("diff", *names, *few), 1)
        assert (found["different"], found["largest_absolute"]) == (12, 7)
        assert [tuple(each["index"]) for each in found["first"]] == places[:7]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("a.npy",), ["tensors given: 1", "expected A B, or A --job INPUT LENGTHS"]),
        (("-", "-"), ["only one of A and B can be standard input"]),
        *(
            (("a.npy", "b.npy", "--rtol", x), [f"rtol: {x}", "at least 0"])
            for x in ("nan", "inf", "-1.0")
        ),
        (("a.npy", "b.npy", "--dtype", "INT8"), ["its data type is FLOAT32, not INT8"]),
        (("big.h5", "big.h5", "--memory", "1MB", "--engine", "serial"), ["--memory "]),
        (("o.npy", "--job", "x.npy", "n.npy", "n.npy"), ["tensors given: 4"]),
        (
            ("-", "--job", "-", "n.npy", "--axis", 1),
            ["only one of A and INPUT can be standard input"],
        ),
        (("o.npy", "x.npy", "--axis", 1), ["--axis applies only to a job"]),
        (("o.npy", "x.npy", "n.npy", "--axis", 1), ["--axis applies only to a job", "add --job"]),
        (("o.npy", "--job", "x.npy", "n.npy", "--axis", 1, "--memory", "300"), ["--memory "]),
        (("o.npy", "x.npy", "--picture", "old.svg"), ["old.svg"]),
    ],
)
def test_bad_input(revseq, pair, args, words):
    folder = pair(X, X)
    (folder / "old.svg").write_text("old")
    for name, sizes in (("x", (30, 40)), ("o", (30, 40)), ("n", (30, 1))):
        np.save(folder / f"{name}.npy", np.zeros(sizes, np.uint32))
    with h5py.File(folder / "big.h5", "w") as f:
        f.create_dataset("x", data=np.zeros((500, 500)), chunks=(500, 500))
    before = sorted(folder.iterdir())
    revseq("diff", *args).refused(*words)
    assert sorted(folder.iterdir()) == before
    assert (folder / "old.svg").read_text() == "old"


# A job


@pytest.fixture
def judged(revseq, tmp_path):
    """Save A and the job, and return the report of `diff --job`."""

    def run(a, x, n, axis=AXIS, *options):
        for name, values in (("a", a), ("x", x), ("n", n)):
            np.save(tmp_path / f"{name}.npy", values)
        found = report(
            revseq("diff", "a.npy", "--job", "x.npy", "n.npy", "--axis", axis, "--json", *options),
            1,
        )
        return {**found, "mistakes": [mistake["text"] for mistake in found["mistakes"]]}

    return run


def job(seed=0, sizes=SIZES, axis=AXIS):
    """Random values and lengths; some lengths are 0, some are above the axis size."""
    rng = np.random.default_rng(seed)
    of_lengths = [1 if d == axis else size for d, size in enumerate(sizes)]
    lengths = rng.integers(0, 12, of_lengths).astype(np.uint32)
    lengths.reshape(-1)[:3] = 5, 12, 0
    return oracle.random_values(rng, sizes, DataType.FLOAT32), lengths


@pytest.mark.parametrize("axis", range(4))
@pytest.mark.parametrize("memory", ["1GiB", "3000"])
def test_where_it_differs(judged, axis, memory):
    x, n = job(axis, axis=axis)
    b = oracle.reverse(x, n, axis)
    a = b.copy()
    chosen = np.random.default_rng(axis).random(a.shape) < 0.05
    a.view(np.uint32)[chosen] ^= 7
    engine = "processes" if axis == 1 else "serial"
    found = judged(a, x, n, axis, "--memory", memory, "--engine", engine, "--jobs", 2)
    inside = np.arange(x.shape[axis]).reshape([-1 if d == axis else 1 for d in range(4)]) < n
    assert (found["different"], found["inside"]) == (chosen.sum(), (chosen & inside).sum())
    assert found["wrong_sequences"]["count"] == chosen.any(axis).sum()


@pytest.mark.needs("peak")
def test_a_large_job_in_little_memory(tmp_path):
    sizes = (10, 1 << 20)
    x = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, sizes)
    a = np.lib.format.open_memmap(tmp_path / "a.npy", "w+", np.float32, sizes)
    a[:] = 1
    x[-1, -1] = 0
    np.save(tmp_path / "n.npy", np.full(10, 1 << 20, np.uint32))
    few = ("--memory", "8MiB", "--jobs", 2)
    out, memory, status = peak(
        tmp_path, "diff", "a.npy", "--job", "x.npy", "n.npy", "--axis", 1, "--batch-axis", 0, *few
    )
    assert status == 1
    assert "in 10 of 10 sequences, only in the reversed part" in out
    assert memory < 100 << 10


def test_what_is_told_of_a_job(revseq, tmp_path):
    np.save(tmp_path / "x.npy", np.arange(1, 9, dtype=np.float32).reshape(2, 4))
    np.save(tmp_path / "a.npy", np.array([[4, 3, 2, 1], [8, 7, 6, 5]], np.float32))
    job = ("--axis", 1, "--batch-axis", 0, "--first", 0)
    done = revseq("diff", "a.npy", "--job", "x.npy", "[3, 0]", *job)
    assert (
        "8 of 8 elements differ, in 2 of 2 sequences, 3 in the reversed part, 5 after it\n"
        in done.out
    )
    told = "Note: 1 of 2 lengths exceeds the axis size and is clamped to 4\n"
    assert revseq("diff", "a.npy", "--job", "x.npy", "[4, 9]", *job).ok().err == told
    assert json.loads(revseq("diff", "a.npy", "--job", "x.npy", "[4, 9]", *job, "--json").ok().out)[
        "notes"
    ] == [told[6:-1]]
    found = revseq("diff", "a.npy", "--job", "x.npy", "[2, 4]", *job)
    assert "only batch 0 of 2 are wrong\nexplained by: whole sequences are reversed\n" in found.out
    assert "index  A" not in found.out
    revseq("run", "x.npy", "[3, 0]", *job[:4], "-o", "y.bin").ok()
    for sizes in ((), ("--sizes", "2x4")):  # of A, since INPUT has its own
        revseq("diff", "y.bin", "--job", "x.npy", "[3, 0]", *job, *sizes).ok()
    (tmp_path / "e.txt").write_text(
        revseq("run", "x.npy", "[3, 0]", *job[:4], "--example").ok().out
    )
    revseq("diff", "e.txt::OutputTensor", "--job", "e.txt").ok()


def test_a_picture_marks_what_differs(revseq, tmp_path):
    np.save(tmp_path / "x.npy", np.arange(1000, 1012).reshape(3, 4))
    a = np.load(tmp_path / "x.npy")
    a[1, 2] = 7777
    np.save(tmp_path / "a.npy", a)
    for name, rest in (
        ("pair", ("x.npy",)),
        ("job", ("--job", "x.npy", "[[0], [1], [0]]", "--axis", 1)),
    ):
        done = revseq("diff", "a.npy", *rest, "--picture", f"{name}.svg", "--json")
        assert report(done, 1)["different"] == 1
        svg = (tmp_path / f"{name}.svg").read_text()
        assert re.findall(r'class="cell different"[^>]*>(.*?)<', svg) == ["7777", "1006"]
        assert svg.count('<rect class="different"') == 3  # with that of the legend
        assert ">1 of 12 elements differ" in svg
    assert ">expected<" in svg
    assert svg.count('class="bracket"') == 1  # of the length that is not 0
    assert revseq("diff", "a.npy", "x.npy", "--picture", "pair.svg", "--overwrite").status == 1
    done = revseq("diff", "a.npy", "[1]", "--picture", "no.svg")
    assert (done.status, done.err) == (
        1,
        "Note: no picture is drawn: the tensors differ in shapes or data types\n",
    )
    assert not (tmp_path / "no.svg").exists()


def test_an_output_of_other_sizes_is_read_first(judged):
    x, n = job()
    turned = np.ascontiguousarray(oracle.reverse(x, n, AXIS).swapaxes(0, 1))
    found = judged(turned, x, n)
    assert (found["equal"], found["different"], len(found["mistakes"])) == (False, 0, 1)
    few = ("--memory", "20KB", "--engine", "serial")  # in which only blocks are read
    assert judged(turned, x, n, AXIS, *few)["different"] is None


def test_the_hint_for_rounding_makes_them_equal(revseq, pair):
    right = np.linspace(1, 2, 12, dtype=np.float32)
    pair(np.nextafter(right, np.float32(9)), right)
    done = revseq("diff", "a.npy", "b.npy").failed()
    assert done.out.endswith("Hint: the differences are as small as rounding: add --ulp 1\n")
    revseq("diff", "a.npy", "b.npy", "--ulp", 1).ok()


def test_a_doubled_float8_is_no_rounding(revseq, tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes, of the extra ml, is missing")
    x = np.array([[1, 2, 3, 4]], ml_dtypes.float8_e4m3fn)
    np.save(tmp_path / "x.npy", x.view("V1"))
    np.save(tmp_path / "y.npy", (x[:, ::-1].astype("f4") * 2).astype(x.dtype).view("V1"))
    job = ("y.npy", "--job", "x.npy", "[[4]]", "--axis", 1, "--dtype", "FLOAT8_E4M3FN")
    done = revseq("diff", *job).failed()
    assert "--ulp" not in done.out
    assert "4 of 4 elements differ" in done.out


def test_what_directml_itself_gives_comes_with_a_hint(revseq):
    done = revseq("diff", "[[4, 4, 3, 2]]", "--job", "[[1, 2, 3, 4]]", "[5]", "--axis", 1)
    assert "--ulp" not in done.failed().out
    x = "[[10, 11, 12, 13, 14, 15], [20, 21, 22, 23, 24, 25]]"
    output = "[[15, 15, 14, 13, 12, 11], [25, 25, 25, 25, 24, 23]]"
    done = revseq("diff", output, "--job", x, "[7, 9]", "--axis", 1).failed()
    assert "Hint: clamp the lengths" in done.out


def test_a_bfloat16_job_whose_output_is_saved_as_float32(revseq, tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes, of the extra ml, is missing")
    x = np.random.default_rng(0).standard_normal((3, 5)).astype(ml_dtypes.bfloat16)
    lengths = np.array([[5], [2], [3]])
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "n.npy", lengths)
    np.save(tmp_path / "y.npy", oracle.reverse(x.astype("f4"), lengths, 1))
    job = ("y.npy", "--job", "x.npy", "n.npy", "--axis", 1, "--dtype", "BFLOAT16")
    done = revseq("diff", *job).failed()
    assert "BFLOAT16 is saved as FLOAT32" in done.out
    assert "0 of 15 elements differ" in done.out


def test_the_cause_of_many_wrong_sequences(revseq, tmp_path):
    values = np.random.default_rng(0).normal(size=(9000, 16)).astype(np.float32)
    np.save(tmp_path / "x.npy", values)
    np.save(tmp_path / "n.npy", np.resize(np.arange(17, dtype=np.uint32), 9000))
    done = revseq("diff", "x.npy", "--job", "x.npy", "n.npy", "--axis", 1, "--json")
    (mistake,) = report(done, 1)["mistakes"]
    assert mistake["text"] == "nothing is reversed: the output is the input"
