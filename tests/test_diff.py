"""`diff`: bits and values against NumPy's own comparison, across formats, block by block, and bad inputs."""

import json
import os

import h5py
import ml_dtypes
import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import peak

from revseq_cli.formats import table
from revseq_cli.formats.contract import Storage
from revseq_cli.formats.held import HeldSource
from revseq_cli.ground.errors import TensorIOError
from revseq_cli.ground.tensors import DataType
from revseq_cli.passes import comparison, jobs
from revseq_cli.passes.arrangement import Resources
from revseq_cli.passes.differences import Tolerance, differences
from revseq_cli.report import tables
from revseq_cli.report.results import Comparison

SUFFIXES = [each.suffixes[0] for each in table.FORMATS]
NO_JOB = {"Axis": None, "lines": None, "inside": None, "behind": None, "mistakes": [], "hint": "", "notes": []}
X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def pair(tmp_path):
    """Save A and B as a.npy and b.npy."""

    def save(a, b):
        np.save(tmp_path / "a.npy", a)
        np.save(tmp_path / "b.npy", b)
        return tmp_path

    return save


def report(done, status):
    assert done.status == status, done.err
    return json.loads(done.out)


# The arithmetic


@st.composite
def pairs(draw):
    """Two arrays that agree in some elements, nearly agree in others, and have special values among them."""
    data_type = draw(st.sampled_from(list(DataType)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    a, b = (oracle.random_values(rng, shape, data_type) for _ in range(2))
    same = rng.random(shape) < draw(st.sampled_from([0, 0.5, 1]))
    b[same] = a[same]
    if a.dtype.kind in "fc":
        specials = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1, 1.001], a.dtype)
        for values in (a, b):
            chosen = rng.random(shape) < 0.4
            values[chosen] = rng.choice(specials, int(chosen.sum()))
    swapped = (
        b.astype(b.dtype.newbyteorder()) if b.dtype.kind not in "fc" else b.byteswap().view(b.dtype.newbyteorder())
    )
    return np.asfortranarray(a), draw(st.sampled_from([b, swapped]))


def given_bits(a, b):
    """Which elements differ in bits, one by one."""
    return np.array([oracle.bits(x) != oracle.bits(y) for x, y in zip(a.ravel(), b.ravel(), strict=True)]).reshape(
        a.shape
    )


@settings(max_examples=300)
@given(pairs(), st.integers(0, 9))
def test_bits(pair, first):
    a, b = pair
    expected = given_bits(np.ascontiguousarray(a), np.ascontiguousarray(b))
    found = differences(a, b, None, first)
    assert found.count == expected.sum()
    assert found.indices.tolist() == np.argwhere(expected)[:first].tolist()
    assert oracle.same_bits(found.a, np.ascontiguousarray(a)[expected][:first])
    assert oracle.same_bits(found.b, np.ascontiguousarray(b)[expected][:first])


def as_ml_dtypes(values):
    """The numbers of a type that NumPy lacks."""
    return values.view(getattr(ml_dtypes, values.dtype.names[0].lower())) if values.dtype.names else values


@settings(max_examples=300)
@given(pairs(), st.sampled_from([0, 0.002, 3]), st.sampled_from([0, 0.002, 1]), st.booleans())
def test_values_as_numpy_compares_them(pair, atol, rtol, equal_nan):
    a, b = (values.astype(values.dtype.newbyteorder("=")) for values in pair)
    if a.dtype.kind in "iu" and a.dtype.itemsize == 8:  # NumPy would compare 64-bit integers as floats
        a, b = a >> 12, b >> 12
    pair = a, b
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        x, y = (as_ml_dtypes(values).astype(wide) for values in pair)
        expected = ~np.isclose(x, y, rtol, atol, equal_nan)
        found = differences(*pair, Tolerance(atol, rtol, equal_nan), 125)
        distance = np.abs(x - y)[given_bits(a, b)]
    assert found.indices.tolist() == np.argwhere(expected).tolist()
    assert found.count == expected.sum()
    assert found.largest_absolute == max(distance[~np.isnan(distance)], default=None)


@pytest.mark.parametrize(
    ("dtype", "a", "b", "absolute", "relative"),
    [
        ("i8", 2**63 - 1, -(2**63), 2**64 - 1, 2),
        ("u8", 2**64 - 1, 2**64 - 2, 1, 2**-64),
        ("i8", 2**53, 2**53 + 1, 1, 2**-53),
        ("i1", -128, 127, 255, 255 / 127),
        ("u1", 0, 255, 255, 1),
        ("?", True, False, 1, np.inf),
        ("f8", 1.5, 0, 1.5, np.inf),
        ("f8", np.inf, -np.inf, np.inf, None),
        ("f8", -0.0, 0.0, 0, 0),
        ("f8", np.nan, 1, None, None),
    ],
)
def test_the_largest_difference_is_exact(dtype, a, b, absolute, relative):
    found = differences(np.array([a], dtype), np.array([b], dtype), None, 1)
    assert (found.count, found.largest_absolute, found.largest_relative) == (1, absolute, relative)


# The command


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_across_formats(revseq, pair, suffix):
    values = oracle.random_values(np.random.default_rng(3), (5, 6), DataType.FLOAT16)
    pair(values.byteswap().view(">f2"), np.asfortranarray(values))
    revseq("convert", "a.npy", f"c{suffix}").ok()
    for other in ("a.npy", "b.npy"):
        done = revseq("diff", other, f"c{suffix}").ok()
        assert "equal, 30 elements" in done.out
        assert "largest" not in done.out


def test_what_is_told(revseq, pair):
    b = X.copy()
    b[0, 1], b[2, 3] = 1.5, -11
    pair(X, b)
    done = revseq("diff", "a.npy", "b.npy")
    assert (done.status, done.err) == (1, "")
    assert done.out == (
        "A: (Sizes:{3,4}, DataType:FLOAT32)  a.npy\nB: (Sizes:{3,4}, DataType:FLOAT32)  b.npy\n"
        "2 of 12 elements differ\n   index   A    B\n  [0, 1]   1  1.5\n  [2, 3]  11  -11\n"
        "largest |A - B|: 22\nlargest |A - B| / |B|: 2\n"
    )
    assert revseq("diff", "a.npy", "b.npy", "--first", 1).out.count("[") == 1
    assert revseq("diff", "a.npy", "b.npy", "--first", 0).out.count("[") == 0
    for quiet, status in ((("a.npy", "b.npy"), 1), (("a.npy", "a.npy"), 0), (("a.npy", "[1]"), 1)):
        done = revseq("diff", *quiet, "-q")
        assert (done.status, done.out, done.err) == (status, "", "")


def test_json(revseq, pair):
    pair(np.array([1, np.nan, -0.0, 3]), np.array([np.inf, np.nan, 0.0, 4]))
    a, b = ({"name": name, "DataType": "FLOAT64", "Sizes": [4]} for name in ("a.npy", "b.npy"))
    first = [{"index": [i], "A": x, "B": y} for i, x, y in ((0, "1", "inf"), (2, "-0.0", "0"), (3, "3", "4"))]
    assert report(revseq("diff", "a.npy", "b.npy", "--json"), 1) == {
        "schema": 1, "equal": False, "A": a, "B": b, "different": 3, "first": first, "largest_absolute": "inf",
        "largest_relative": 0.25, "both_nan": 0, **NO_JOB,
    }  # fmt: skip
    assert report(revseq("diff", "a.npy", "a.npy", "--json"), 0) == {
        "schema": 1, "equal": True, "A": a, "B": a, "different": 0, "first": [], "largest_absolute": None,
        "largest_relative": None, "both_nan": 0, **NO_JOB,
    }  # fmt: skip
    assert report(revseq("diff", "a.npy", "[1, 2]", "--json"), 1) == {
        "schema": 1, "equal": False, "A": a, "B": {"name": "B", "DataType": "FLOAT32", "Sizes": [2]},
        "different": None, "first": [], "largest_absolute": None, "largest_relative": None, "both_nan": None, **NO_JOB,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("a", "b", "options", "status"),
    [
        ("[nan]", "[nan]", (), 0),
        ("[nan]", "[nan(0x7fc00001)]", (), 1),
        ("[-0]", "[0]", (), 1),
        ("[-0]", "[0]", ("--atol", 0), 0),
        ("[nan]", "[nan]", ("--atol", 0), 1),
        ("[nan]", "[nan(0x7fc00001)]", ("--equal-nan",), 0),
        ("[inf, -inf]", "[inf, -inf]", ("--rtol", 0), 0),
        ("[1]", "[inf]", ("--rtol", 1), 1),
        ("[100]", "[101]", ("--rtol", 0.01), 0),
        ("[101]", "[100]", ("--rtol", 0.0099), 1),
        ("[100]", "[101]", ("--atol", 1), 0),
        ("[100]", "[101]", ("--atol", 0.5, "--rtol", 0.005), 0),
        ("[100]", "[101]", ("--atol", 0.5), 1),
        ("[1, 2]", "[[1, 2]]", ("--atol", 9), 1),
        ("[1, 2]", "[1, 2]", ("--dtype", "INT8"), 0),
    ],
)
def test_equal_or_not(revseq, a, b, options, status):
    done = revseq("diff", a, b, *options)
    assert (done.status, done.err) == (status, "")


@pytest.mark.parametrize(
    ("b", "words"),
    [
        (X.astype(np.float64), "different DataType\nHint: add --as FLOAT64\n"),
        (X.T, "different Sizes\n"),
        (X[0].astype(np.int8), "different DataType and Sizes\n"),
    ],
)
def test_other_sizes_or_data_types_differ(revseq, pair, b, words):
    pair(X, b)
    done = revseq("diff", "a.npy", "b.npy", "--atol", 100)
    assert (done.status, done.err) == (1, "")
    assert done.out.endswith(words)


# Streaming


@pytest.mark.parametrize("engine", ["serial", "threads", "processes"])
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
    for names in (("a.npy", "b.h5"), ("a.h5", "b.npy"), ("a.h5", "b.h5"))[: None if engine == "serial" else 1]:
        found = report(revseq("diff", *names, *few), 1)
        assert (found["different"], found["largest_absolute"]) == (12, 7)
        assert [tuple(each["index"]) for each in found["first"]] == places[:7]


def compared(a, b, first, resources, done=lambda _: None):
    with comparison.opened(a, b, resources) as pair:
        return pair.compare(None, first, done)


@settings(max_examples=60)
@given(st.data())
def test_any_blocks_give_the_same(data):
    """In little memory, and whole."""
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    a, b = (rng.integers(0, 3, shape, np.int16).copy(data.draw(st.sampled_from("CF"))) for _ in range(2))
    sources = [HeldSource("held", each, Storage("held", {})) for each in (a, b)]
    first = data.draw(st.integers(0, 20))
    memory = data.draw(st.integers(80, 9999))
    found = [compared(*sources, first, Resources("serial", 1, most)) for most in (memory, 1 << 30)]
    told = [tables.diff(Comparison(*sources, each)) for each in found]
    assert told[0] == told[1]
    assert found[0].total == a.size
    assert found[0].indices.tolist() == np.argwhere(a != b).tolist()[:first]
    assert oracle.same_bits(found[0].a, a[a != b][:first])


def test_a_large_file_in_little_memory(tmp_path):
    for name, last in (("a.npy", 1), ("b.npy", 2)):
        np.lib.format.open_memmap(tmp_path / name, "w+", np.float32, (64, 1 << 20))[63, -1] = last
    out, memory, status = peak(tmp_path, "diff", "a.npy", "b.npy", "--memory", "8MiB", "--jobs", 2, "--atol", 0.5)
    assert status == 1
    assert "1 of 67,108,864 elements differ\n          index  A  B\n  [63, 1048575]  1  2\n" in out
    assert memory < 100 << 10


# Bad inputs


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("a.npy", "none.npy"), ["none.npy: no such file"]),
        (("a.npy",), ["1 tensor is given", "A and B, or with --job A, INPUT", "try revseq diff A B"]),
        (("-", "-"), ["A and B are both standard input"]),
        (("a.npy", "a.dat"), ["unknown suffix .dat", "add -f npy"]),
        (("a.npy", "[1, x]"), ["B"]),
        (("a.npy", "cut.npy"), ["cut.npy: is truncated"]),
        (("a.npy", "b.npy", "--atol", "-1"), ["'-1' is not a number of at least 0"]),
        (("a.npy", "b.npy", "--rtol", "nan"), ["'nan' is not a number of at least 0"]),
        (("a.npy", "b.npy", "--rtol", "inf"), ["'inf' is not a number of at least 0"]),
        (("a.npy", "b.npy", "--rtol", "x"), ["'x' is not a number of at least 0"]),
        (("a.npy", "b.npy", "--first", "-1"), ["--first"]),
        (("a.npy", "b.npy", "--dtype", "INT8"), ["DataType is FLOAT32, and INT8 is asked for"]),
        (("big.h5", "big.h5", "--memory", "1MB", "--engine", "serial"), ["try --memory"]),
    ],
)
def test_bad_input(revseq, pair, args, words):
    folder = pair(X, X)
    (folder / "a.dat").write_bytes(b"nothing that says what it is")
    (folder / "cut.npy").write_bytes((folder / "a.npy").read_bytes()[:-1])
    with h5py.File(folder / "big.h5", "w") as f:
        f.create_dataset("x", data=np.zeros((500, 500)), chunks=(500, 500))
    revseq("diff", *args).refused(*words)


def test_names_and_pipes(revseq, pair):
    folder = pair(X, X)
    data = (folder / "a.npy").read_bytes()
    (folder / "a.dat").write_bytes(data)
    revseq("diff", "a.npy", "a.dat", "-f", "npy").ok()
    for args in (("-", "a.npy"), ("a.npy", "-")):
        assert "standard input" in revseq("diff", *args, stdin=data).ok().out
    revseq("diff", "a.npy", "-", stdin=json.dumps(X.tolist()).encode()).ok()


def test_a_file_that_changes_while_it_is_read(pair):
    folder = pair(np.zeros((64, 64)), np.zeros((64, 64)))
    sources = [jobs.load_tensor(str(folder / name), name, None, None) for name in ("a.npy", "b.npy")]
    changed = Resources("serial", 1, 60_000)
    with pytest.raises(TensorIOError, match="changed while it was read"):
        compared(*sources, 1, changed, lambda _: os.utime(folder / "b.npy", ns=(5, 5)))


@pytest.mark.parametrize(
    ("dtype", "a", "b", "atol", "rtol", "equal"),
    [
        ("u8", 0, 2**53 + 1, 2**53, 0, False),
        ("u8", 0, 2**53, 2**53, 0, True),
        ("i8", 100, -(2**63), 0, 1, False),
        ("i8", 0, -(2**63), 0, 1, True),
        ("u8", 0, 2**64 - 1, 2.0**64, 0, True),
        ("u1", 0, 255, 254.9, 0, False),
        ("i2", -32768, 32767, 65535, 0, True),
    ],
)
def test_integers_are_held_against_the_bound_exactly(dtype, a, b, atol, rtol, equal):
    found = differences(np.array([a], dtype), np.array([b], dtype), Tolerance(atol, rtol), 1)
    assert (found.count == 0) is equal
