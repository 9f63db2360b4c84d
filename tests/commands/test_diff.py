"""`diff`: bits and values against NumPy's own comparison, across formats, block by block, and bad inputs."""

import json
import math
from fractions import Fraction

import h5py
import ml_dtypes
import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import peak
from tensor_files import held

from revseq_cli.core.dtypes import dtype_of
from revseq_cli.core.errors import FormatError
from revseq_cli.core.tensors import DataType
from revseq_cli.pipeline import comparison, views
from revseq_cli.pipeline.comparison import Tolerance, differences
from revseq_cli.pipeline.plan import Resources
from revseq_cli.report import tables
from revseq_cli.report.results import Comparison

NO_JOB = dict.fromkeys(("Axis", "lines", "inside", "behind", "wrong_lines")) | {"mistakes": [], "hint": "", "notes": []}
X = np.arange(12, dtype=np.float32).reshape(3, 4)


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
    other = b.dtype.newbyteorder()
    swapped = b.byteswap().view(other) if b.dtype.kind in "fc" else b.astype(other)
    return np.asfortranarray(a), draw(st.sampled_from([b, swapped]))


def given_bits(a, b):
    """Which elements differ in bits, one by one."""
    found = [oracle.bits(x) != oracle.bits(y) for x, y in zip(a.ravel(), b.ravel(), strict=True)]
    return np.reshape(found, a.shape)


@settings(max_examples=150)
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


@settings(max_examples=150)
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


def test_what_is_told(revseq, pair):
    b = X.copy()
    b[0, 1], b[2, 3] = 1.5, -11
    pair(X, b)
    shown = "2 of 12 elements differ\n   index   A    B\n  [0, 1]   1  1.5\n  [2, 3]  11  -11\n"
    assert shown in revseq("diff", "a.npy", "b.npy").out
    assert revseq("diff", "a.npy", "b.npy", "--first", 1).out.count("[") == 1
    assert revseq("diff", "a.npy", "b.npy", "--first", 0).out.count("[") == 0
    for quiet, status in ((("a.npy", "b.npy"), 1), (("a.npy", "a.npy"), 0), (("a.npy", "[1]"), 1)):
        done = revseq("diff", *quiet, "-q")
        assert (done.status, done.out, done.err) == (status, "", "")


def test_json(revseq, pair):
    pair(np.array([1, np.nan, -0.0, 3]), np.array([np.inf, np.nan, 0.0, 4]))
    a, b = ({"name": f"{name}.npy", "role": name.upper(), "DataType": "FLOAT64", "Sizes": [4]} for name in "ab")
    first = [{"index": [i], "A": x, "B": y} for i, x, y in ((0, "1", "inf"), (2, "-0.0", "0"), (3, "3", "4"))]
    usual = {"equal": False, "A": a, "first": [], **NO_JOB}
    found = {"B": b, "total": 4, "different": 3, "first": first, "largest_absolute": "inf", "largest_relative": 0.25}
    assert report(revseq("diff", "a.npy", "b.npy", "--json"), 1) == usual | found | {"both_nan": 0}
    usual |= {"largest_absolute": None, "largest_relative": None}
    found = {"equal": True, "B": a | {"role": "B"}, "total": 4, "different": 0, "both_nan": 0}
    assert report(revseq("diff", "a.npy", "a.npy", "--json"), 0) == usual | found
    found = {"B": {"name": "B", "role": "B", "DataType": "FLOAT32", "Sizes": [2]}}
    found |= {"total": None, "different": None, "both_nan": None}
    assert report(revseq("diff", "a.npy", "[1, 2]", "--json"), 1) == usual | found


@pytest.mark.parametrize(
    ("a", "b", "options", "status"),
    [
        ("[nan]", "[nan]", (), 0),
        ("[nan]", "[nan(0x7fc00001)]", (), 1),
        ("[-0]", "[0]", (), 1),
        ("[-0]", "[0]", ("--atol", 0), 0),
        ("[nan]", "[nan(0x7fc00001)]", ("--equal-nan",), 0),
        ("[inf, -inf]", "[inf, -inf]", ("--rtol", 0), 0),
        ("[100]", "[101]", ("--rtol", 0.01), 0),
        ("[100]", "[101]", ("--atol", 0.5, "--rtol", 0.005), 0),
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
        (X.astype(np.float64), "different DataType\n"),
        (X.T, "different Sizes\n"),
        (X[0].astype(np.int8), "different DataType and Sizes\n"),
    ],
)
def test_other_sizes_or_data_types_differ(revseq, pair, b, words):
    pair(X, b)
    done = revseq("diff", "a.npy", "b.npy", "--atol", 100)
    assert (done.status, done.err) == (1, "")
    assert done.out.endswith(words)


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
    for names in (("a.npy", "b.h5"), ("a.h5", "b.npy"), ("a.h5", "b.h5"))[: None if engine == "serial" else 1]:
        found = report(revseq("diff", *names, *few), 1)
        assert (found["different"], found["largest_absolute"]) == (12, 7)
        assert [tuple(each["index"]) for each in found["first"]] == places[:7]


@settings(max_examples=60)
@given(st.data())
def test_any_blocks_give_the_same(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    a, b = (rng.integers(0, 3, shape, np.int16).copy(data.draw(st.sampled_from("CF"))) for _ in range(2))
    sources = held(a), held(b)
    first = data.draw(st.integers(0, 20))
    memory = data.draw(st.integers(80, 9999))
    found = []
    for most in (memory, 1 << 30):
        with comparison.opened(*sources, Resources("serial", 1, most)) as pair:
            found.append(pair.compare(None, first))
    told = [tables.diff(Comparison(*sources, each)) for each in found]
    assert told[0] == told[1]
    assert found[0].total == a.size
    assert found[0].indices.tolist() == np.argwhere(a != b).tolist()[:first]
    assert oracle.same_bits(found[0].a, a[a != b][:first])


@pytest.mark.needs("peak")
def test_a_large_file_in_little_memory(tmp_path):
    for name, last in (("a.npy", 1), ("b.npy", 2)):
        np.lib.format.open_memmap(tmp_path / name, "w+", np.float32, (64, 1 << 20))[63, -1] = last
    out, memory, status = peak(tmp_path, "diff", "a.npy", "b.npy", "--memory", "8MiB", "--jobs", 2, "--atol", 0.5)
    assert status == 1
    assert "1 of 67,108,864 elements differ\n          index  A  B\n  [63, 1048575]  1  2\n" in out
    assert memory < 100 << 10


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("a.npy", "none.npy"), ["none.npy: no such file"]),
        (("a.npy",), ["1 tensor is given", "wanted: A B, or A --job INPUT LENGTHS"]),
        (("-", "-"), ["A and B are both standard input"]),
        (("a.npy", "a.dat"), ["unknown suffix .dat", "add -f npy"]),
        (("a.npy", "[1, x]"), ["B"]),
        (("a.npy", "cut.npy"), ["cut.npy: is truncated"]),
        (("a.npy", "b.npy", "--atol", "-1"), ["'-1' is not a number of at least 0"]),
        *((("a.npy", "b.npy", "--rtol", x), [f"'{x}' is not a number of at least 0"]) for x in ("nan", "inf", "x")),
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


# Steps between numbers


@pytest.mark.parametrize("data_type", [t for t in DataType if t.kind in ("float", "minifloat") and t.size <= 2])
def test_ulp_counts_the_numbers_of_a_small_type(data_type):
    values = np.arange(1 << (8 * data_type.size), dtype=f"u{data_type.size}").view(dtype_of(data_type))
    with np.errstate(invalid="ignore"):
        numbers = as_ml_dtypes(values).astype(np.float64)
    order = np.argsort(numbers, kind="stable")[: np.count_nonzero(~np.isnan(numbers))]
    values, numbers = values[order], numbers[order]
    place = np.cumsum(np.concatenate([[0], np.diff(numbers) > 0]))  # -0.0 and 0.0 have one
    near = np.random.default_rng(1).integers(0, len(values), 4000)
    for other in (np.minimum(near + 3, len(values) - 1), np.maximum(near - 40, 0), near[::-1]):
        apart = abs(place[other] - place[near])
        for steps in (0, 1, 2, 3, 39, 40, 1 << 16):
            found = differences(values[near], values[other], Tolerance(ulps=steps), 4000)
            assert found.indices[:, 0].tolist() == np.flatnonzero(apart > steps).tolist()


@pytest.mark.parametrize("code", ["f4", "f8", "c8", "c16"])
def test_ulp_counts_the_numbers_of_a_large_type(code):
    real = np.dtype({"c8": "f4", "c16": "f8"}.get(code, code))
    limits = np.finfo(real)
    start = np.array([0, -0.0, 1, 1.5, 2, limits.smallest_normal, -limits.smallest_subnormal, -1], real)
    once = np.nextafter(start, real.type(np.inf))
    twice = np.nextafter(once, real.type(np.inf))
    for far, steps in ((once, 1), (twice, 2)):
        a, b = (each.astype(code) if real == code else 1 + each.astype(code) * 1j for each in (start, far))
        assert not differences(a, b, Tolerance(ulps=steps)).count
        assert differences(a, b, Tolerance(ulps=steps - 1)).count == len(start)
    assert differences(np.array([limits.max], real), np.array([np.inf], real), Tolerance(ulps=1)).count == 0
    most = 2 * int(np.array(limits.max).view(f"u{real.itemsize}"))
    ends = np.array([limits.max], real), np.array([-limits.max], real)
    assert [differences(*ends, Tolerance(ulps=n)).count for n in (most - 1, most)] == [1, 0]


@pytest.mark.parametrize(
    ("dtype", "a", "b", "ulps", "equal"),
    [
        ("i8", 2**63 - 1, -(2**63), 2**64 - 2, False),
        ("i8", 2**63 - 1, -(2**63), 2**64 - 1, True),
        ("u1", 7, 9, 1, False),
        ("u1", 9, 7, 2, True),
        ("f4", np.nan, np.nan, 2**64 - 1, False),
        ("f4", np.nan, np.inf, 2**64 - 1, False),
    ],
)
def test_ulp_of_integers_and_of_what_is_no_number(dtype, a, b, ulps, equal):
    found = differences(np.array([a], dtype), np.array([b], dtype), Tolerance(ulps=ulps))
    assert (found.count == 0) is equal


@pytest.mark.parametrize(
    ("a", "b", "options", "status"),
    [
        ("[1]", "[1.0000001]", ("--ulp", 1), 0),
        ("[1, 100]", "[1.0000001, 101]", ("--ulp", 1), 1),
        ("[1, 100]", "[1.0000001, 101]", ("--ulp", 1, "--atol", 1), 0),
        ("[0]", "[-0]", ("--ulp", 0), 0),
        ("[nan]", "[nan]", ("--ulp", 9), 1),
        ("[nan]", "[nan]", ("--ulp", 9, "--equal-nan"), 0),
        ("[1]", "[3]", ("--ulp", 2, "--dtype", "INT8"), 0),
    ],
)
def test_ulp_beside_the_other_tolerances(revseq, a, b, options, status):
    done = revseq("diff", a, b, *options)
    assert (done.status, done.err) == (status, "")
    assert ("add --equal-nan" in done.out) is ("nan" in a and "--equal-nan" not in options)


# Casts


def test_a_type_that_holds_minifloats():
    names = [t for t in DataType if t.kind == "minifloat"]
    for a in names:
        for b in names:
            assert a is b or views.common_type(a, b) is DataType.FLOAT32
        assert views.common_type(a, DataType.FLOAT64) is DataType.FLOAT64
        assert views.common_type(a, DataType.INT32) is DataType.FLOAT64
        assert views.common_type(a, DataType.INT64) is None


@pytest.mark.parametrize("source", [t for t in DataType if t.kind in ("float", "int", "uint", "minifloat", "bool")])
@pytest.mark.parametrize("target", [t for t in DataType if t.kind in ("float", "int", "uint")])
def test_casts_are_exact_or_refused(source, target):
    """Against fractions, one value after the other."""
    values = oracle.random_values(np.random.default_rng(1), (60,), source)
    if source.kind in ("float", "int", "uint"):
        some = [0, 1, 2, 255, 2048, 2049, 65504, 65536, 2**24 + 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1]
        wide = np.array([*some, *(-each for each in some)], object)
        if source.kind == "float":
            with np.errstate(over="ignore"):
                extra = np.array([*map(float, wide), 0.5, -0.0, np.inf, -np.inf], np.float64).astype(dtype_of(source))
        else:
            bounds = np.iinfo(dtype_of(source))
            extra = np.array([each for each in wide if bounds.min <= each <= bounds.max], dtype_of(source))
        values = np.concatenate([values, extra])
    numbers = as_ml_dtypes(values).tolist()
    cast = views.cast(held(values), target)
    for i, number in enumerate(map(float if source.kind in ("float", "minifloat") else int, numbers)):
        fits = cast_fits(number, target)
        if source is target:
            continue
        read_task = cast.read_task((slice(i, i + 1),))
        if not fits:
            with pytest.raises(FormatError, match=rf" at \[{i}\] does not fit {target.name}"):
                read_task.read()
            continue
        found = read_task.read()[0]
        assert found.dtype == dtype_of(target)
        assert found == number or (found != found and number != number)
        assert np.signbit(found) == np.signbit(number) or number != number


def cast_fits(number, target):
    if not isinstance(number, float) or math.isfinite(number):
        if target.kind == "float":
            with np.errstate(over="ignore"):
                nearest = dtype_of(target).type(number)
            return bool(np.isfinite(nearest)) and Fraction(float(nearest)) == Fraction(number)
        bounds = np.iinfo(dtype_of(target))
        minus_zero = isinstance(number, float) and number == 0 and math.copysign(1, number) < 0
        return Fraction(number).denominator == 1 and bounds.min <= number <= bounds.max and not minus_zero
    return target.kind == "float"


@pytest.mark.parametrize("steps", ["-1", "0.5"])
def test_steps_that_are_refused(revseq, steps):
    revseq("diff", "[1]", "[1]", "--ulp", steps).refused("--ulp")
