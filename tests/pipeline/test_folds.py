"""The comparison of two tensors: bits and values against NumPy's own, in any blocks, and steps of data types."""

import ml_dtypes
import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_files import held

from revseq_cli.core.dtypes import dtype_of
from revseq_cli.core.tensors import DataType
from revseq_cli.pipeline import folds, passes
from revseq_cli.pipeline.folds import Tolerance
from revseq_cli.pipeline.passes import Pair
from revseq_cli.pipeline.plan import plan_pass
from revseq_cli.pipeline.resources import Resources


def find_differences(*pair):
    return folds.find_differences(*pair)[0]


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
    found = find_differences(a, b, None, first)
    assert found.count == expected.sum()
    assert found.indices.tolist() == np.argwhere(expected)[:first].tolist()
    assert oracle.same_bits(found.a, np.ascontiguousarray(a)[expected][:first])
    assert oracle.same_bits(found.b, np.ascontiguousarray(b)[expected][:first])


def as_ml_dtypes(values):
    """The numbers of a type that NumPy lacks."""
    return (
        values.view(getattr(ml_dtypes, values.dtype.names[0].lower()))
        if values.dtype.names
        else values
    )


@settings(max_examples=150)
@given(pairs(), st.sampled_from([0, 0.002, 3]), st.sampled_from([0, 0.002, 1]), st.booleans())
def test_values_as_numpy_compares_them(pair, atol, rtol, equal_nan):
    a, b = (values.astype(values.dtype.newbyteorder("=")) for values in pair)
    if (
        a.dtype.kind in "iu" and a.dtype.itemsize == 8
    ):  # NumPy would compare 64-bit integers as floats
        a, b = a >> 12, b >> 12
    pair = a, b
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        x, y = (as_ml_dtypes(values).astype(wide) for values in pair)
        expected = ~np.isclose(x, y, rtol, atol, equal_nan)
        found = find_differences(*pair, Tolerance(atol, rtol, equal_nan), 125)
        distance = np.abs(x - y)[given_bits(a, b)]
    assert found.indices.tolist() == np.argwhere(expected).tolist()
    assert found.count == expected.sum()
    assert found.largest_absolute == max(distance[~np.isnan(distance)], default=None)


@pytest.mark.parametrize(
    ("dtype", "a", "b", "absolute", "relative"),
    [
        ("i8", 2**63 - 1, -(2**63), 2**64 - 1, 2),
        ("u8", 2**64 - 1, 2**64 - 2, 1, 2**-64),
        ("i1", -128, 127, 255, 255 / 127),
        ("?", True, False, 1, np.inf),
        ("f8", np.inf, -np.inf, np.inf, None),
        ("f8", -0.0, 0.0, 0, 0),
        ("f8", np.nan, 1, None, None),
    ],
)
def test_the_largest_difference_is_exact(dtype, a, b, absolute, relative):
    found = find_differences(np.array([a], dtype), np.array([b], dtype), None, 1)
    assert (found.count, found.largest_absolute, found.largest_relative) == (1, absolute, relative)


@settings(max_examples=60)
@given(st.data())
def test_any_blocks_give_the_same(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    a, b = (
        rng.integers(0, 3, shape, np.int16).copy(data.draw(st.sampled_from("CF"))) for _ in range(2)
    )
    sources = held(a), held(b)
    first = data.draw(st.integers(0, 20))
    plan = plan_pass(*sources, Resources("serial", 1, data.draw(st.integers(80, 9999))))
    found = passes.compare("compare", Pair(*sources, plan), None, first)
    whole = find_differences(a, b, None, first)
    for name in ("total", "count", "largest_absolute", "largest_relative", "largest_ulps"):
        assert getattr(found, name) == getattr(whole, name)
    assert found.indices.tolist() == np.argwhere(a != b).tolist()[:first]
    assert oracle.same_bits(found.a, a[a != b][:first])
    assert oracle.same_bits(found.b, b[a != b][:first])


@pytest.mark.parametrize(
    ("dtype", "a", "b", "tolerance", "equal"),
    [
        ("u8", 0, 2**53 + 1, Tolerance(2**53), False),
        ("u8", 0, 2**53, Tolerance(2**53), True),
        ("i8", 100, -(2**63), Tolerance(0, 1), False),
        ("u8", 0, 2**64 - 1, Tolerance(2.0**64), True),
        ("u1", 0, 255, Tolerance(254.9), False),
        ("i8", 2**63 - 1, -(2**63), Tolerance(ulps=2**64 - 2), False),
        ("i8", 2**63 - 1, -(2**63), Tolerance(ulps=2**64 - 1), True),
        ("u1", 9, 7, Tolerance(ulps=2), True),
        ("f4", np.nan, np.inf, Tolerance(ulps=2**64 - 1), False),
        ("f4", 100, 101, Tolerance(ulps=1, absolute=1), True),
    ],
)
def test_bounds_are_exact(dtype, a, b, tolerance, equal):
    found = find_differences(np.array([a], dtype), np.array([b], dtype), tolerance, 1)
    assert (found.count == 0) is equal


@pytest.mark.parametrize(
    "data_type", [t for t in DataType if t.kind in ("float", "minifloat") and t.size <= 2]
)
def test_ulp_counts_the_numbers_of_a_small_type(data_type):
    values = np.arange(1 << (8 * data_type.size), dtype=f"u{data_type.size}").view(
        dtype_of(data_type)
    )
    with np.errstate(invalid="ignore"):
        numbers = as_ml_dtypes(values).astype(np.float64)
    order = np.argsort(numbers, kind="stable")[: np.count_nonzero(~np.isnan(numbers))]
    values, numbers = values[order], numbers[order]
    place = np.cumsum(np.concatenate([[0], np.diff(numbers) > 0]))  # -0.0 and 0.0 have one
    near = np.random.default_rng(1).integers(0, len(values), 4000)
    for other in (np.minimum(near + 3, len(values) - 1), np.maximum(near - 40, 0), near[::-1]):
        apart = abs(place[other] - place[near])
        for steps in (0, 1, 2, 3, 39, 40, 1 << 16):
            found = find_differences(values[near], values[other], Tolerance(ulps=steps), 4000)
            assert found.indices[:, 0].tolist() == np.flatnonzero(apart > steps).tolist()


@pytest.mark.parametrize("code", ["f4", "f8", "c8", "c16"])
def test_ulp_counts_the_numbers_of_a_large_type(code):
    real = np.dtype({"c8": "f4", "c16": "f8"}.get(code, code))
    limits = np.finfo(real)
    start = np.array(
        [0, -0.0, 1, 1.5, 2, limits.smallest_normal, -limits.smallest_subnormal, -1], real
    )
    once = np.nextafter(start, real.type(np.inf))
    twice = np.nextafter(once, real.type(np.inf))
    for far, steps in ((once, 1), (twice, 2)):
        a, b = (
            each.astype(code) if real == code else 1 + each.astype(code) * 1j
            for each in (start, far)
        )
        assert not find_differences(a, b, Tolerance(ulps=steps)).count
        assert find_differences(a, b, Tolerance(ulps=steps - 1)).count == len(start)
    assert (
        find_differences(
            np.array([limits.max], real), np.array([np.inf], real), Tolerance(ulps=1)
        ).count
        == 0
    )
    most = 2 * int(np.array(limits.max).view(f"u{real.itemsize}"))
    ends = np.array([limits.max], real), np.array([-limits.max], real)
    assert [find_differences(*ends, Tolerance(ulps=n)).count for n in (most - 1, most)] == [1, 0]


@pytest.mark.parametrize("with_nan", [False, True])
def test_the_options_for_rounding_make_all_equal(with_nan):
    b = np.linspace(1, 2, 50, dtype=np.float32)
    a = np.nextafter(np.nextafter(b, np.float32(9)), np.float32(9))
    if with_nan:  # of other bits
        a[5], b[5] = np.array([0x7FC00001, 0x7FC00000], np.uint32).view(np.float32)
    found = find_differences(a, b)
    assert (found.largest_ulps, found.rounding_options) == (
        2,
        "--ulp 2 --equal-nan" if with_nan else "--ulp 2",
    )
    assert not find_differences(a, b, Tolerance(ulps=2, equal_nan=with_nan)).count
    for other in (np.nan, b[7] * np.float32(1.001)):  # no tolerance takes a NaN for a number
        changed = a.copy()
        changed[7] = other
        assert find_differences(changed, b).rounding_options == ""
    assert find_differences(np.array([1]), np.array([2])).rounding_options == ""
