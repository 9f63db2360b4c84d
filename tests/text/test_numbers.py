"""Numbers as text: exact or refused, and back bit for bit."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import oracle
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from revseq_cli.core import dtypes
from revseq_cli.core.dtypes import dtype_of
from revseq_cli.core.errors import FormatError
from revseq_cli.core.tensors import DataType
from revseq_cli.formats.contract import TextTypes
from revseq_cli.formats.text import JSON, TEXT
from revseq_cli.text import numbers
from revseq_cli.text.examples import Text


def parse(name, *tokens):
    return numbers.parse_numbers(tokens, DataType[name])


@settings(max_examples=150)
@given(st.sampled_from(oracle.DATA_TYPES), st.binary(min_size=64, max_size=64))
@example(
    DataType.FLOAT32, np.array([123456789] * 16, np.float32).tobytes()
)  # 123456792: 9 digits are not enough
@example(
    DataType.FLOAT64, np.array([1e16, 1e300, 5e-324, -0.0, 2**53 + 2, 0.1, 1e15, -1e16]).tobytes()
)
def test_text_reads_back_bit_for_bit(data_type, data):
    values = np.frombuffer(data, dtype_of(data_type))
    texts = numbers.render_numbers(values)
    back = numbers.parse_numbers(texts, data_type)
    assert oracle.same_bits(back, values), texts


def test_every_float16_reads_back():
    values = np.arange(2**16, dtype=np.uint16).view(np.float16)
    assert oracle.same_bits(
        numbers.parse_numbers(numbers.render_numbers(values), DataType.FLOAT16), values
    )


MINIFLOATS = [data_type for data_type in DataType if data_type.kind == "minifloat"]


@pytest.mark.parametrize("data_type", MINIFLOATS)
@pytest.mark.parametrize("has_package", [True, False])
def test_every_minifloat_reads_back(monkeypatch, data_type, has_package):
    """As a number, or as its bits without the package ml_dtypes."""
    if has_package:
        pytest.importorskip("ml_dtypes")
    else:
        monkeypatch.setattr(dtypes, "find_spec", lambda name: None)
    words = np.arange(2 ** (8 * data_type.size)).astype(f"u{data_type.size}")
    values = words.view(dtype_of(data_type))
    texts = numbers.render_numbers(values)
    assert texts[1].startswith("0x") is not has_package
    assert oracle.same_bits(numbers.parse_numbers(texts, data_type), values)


@pytest.mark.parametrize(
    ("name", "token", "why"),
    [
        ("BFLOAT16", "257", "BFLOAT16 cannot hold 257 exactly"), ("BFLOAT16", "1e39", "too large"),
        ("BFLOAT16", "x", "not a number"), ("FLOAT8_E4M3FN", "inf", "has no inf"),
        ("FLOAT8_E4M3FN", "500", "too large"), ("FLOAT8_E5M2", "0x1ff", "more bits"),
        ("FLOAT8_E8M0FNU", "-1", "has no -1"),
    ],
)  # fmt: skip
def test_minifloats_that_are_refused(name, token, why):
    pytest.importorskip("ml_dtypes")
    with pytest.raises(numbers.LiteralError) as caught:
        parse(name, "1", token)
    assert why in caught.value.problem
    assert caught.value.index == 1


def test_a_minifloat_is_rounded_once():
    """FLOAT32 is half-way between two values of BFLOAT16; the number is a little above."""
    pytest.importorskip("ml_dtypes")
    above = "1.00390625000000001"
    assert numbers.render_numbers(parse("BFLOAT16", above, "1.00390625")) == ["1.008", "1"]


@given(st.binary(min_size=64, max_size=64), st.sampled_from(["COMPLEX64", "COMPLEX128"]))
def test_complex_numbers_read_back(data, name):
    values = np.frombuffer(data, dtype_of(DataType[name]))
    assert oracle.same_bits(parse(name, *numbers.render_numbers(values)), values)


def test_complex_numbers_as_others_write_them():
    values = parse("COMPLEX128", "(1+2j)", "2j", "-3", "1e3-1e-5j", "1.+0.j", '"nan-infj"')
    expected = [1 + 2j, 2j, -3, 1e3 - 1e-5j, 1, complex(np.nan, -np.inf)]
    assert oracle.same_bits(values, np.array(expected))
    for token in ("1.52.5j", "j", "1+j2", "1+2"):
        with pytest.raises(numbers.LiteralError, match="not a number"):
            parse("COMPLEX64", token)


def test_how_numbers_are_written():
    swapped = np.array([0x7FC00001, 0xFF800000, 0x3DCCCCCD], ">u4").view(">f4")
    assert numbers.render_numbers(swapped) == ["nan(0x7fc00001)", "-inf", "0.1"]
    values = np.array([1, -0.0, 0, 1e16, 0.5, np.nan, np.inf, -np.inf, 2**53], np.float64)
    assert (
        numbers.render_numbers(values) == "1 -0.0 0 1e+16 0.5 nan inf -inf 9007199254740992".split()
    )


@pytest.mark.parametrize(
    ("name", "token", "value"),
    [
        ("FLOAT32", "1.0f", 1), ("FLOAT32", "1.00000005960464478", 1.0000001), ("FLOAT32", "1.00000005960464477", 1),
        ("FLOAT16", "65519.99999999999999999999", 65504), ("FLOAT32", "-340282356779733661637539395458142568447.9", -3.4028235e38), ("FLOAT64", "1.5D+02", 150), ("FLOAT32", "-2d-1", -0.2), ("FLOAT32", "-0.0f", -0.0), ("FLOAT32", "0.", 0), ("FLOAT32", ".5", 0.5),
        ("FLOAT32", "+1e3", 1000), ("FLOAT32", "NaN", np.nan), ("FLOAT32", "Infinity", np.inf),
        ("FLOAT32", "-inf", -np.inf), ("FLOAT32", "1e-60", 0), ("UINT8", "-0", 0), ("INT32", "2.0f", 2),
        ("UINT64", "9007199254740993.0", 2**53 + 1),
    ],
)  # fmt: skip
def test_accepted(name, token, value):
    dtype = dtype_of(DataType[name])
    assert oracle.same_bits(parse(name, token), np.array([value], dtype))


@pytest.mark.parametrize(
    ("name", "token", "why"),
    [
        ("UINT8", "300", "does not fit UINT8 (0 to 255)"), ("UINT64", "1e30", "does not fit"),
        ("INT32", "1.5", "is a fraction"), ("INT32", "1e-1", "is a fraction"), ("INT32", "1e999999999", "does not fit"),
        ("INT32", "1e-999999999", "is a fraction"), ("INT32", "nan", "INT32 has no nan"),
        ("FLOAT32", "16777217", "FLOAT32 cannot hold 16777217 exactly"), ("FLOAT16", "65520", "too large"),
        ("INT8", "1-2", "not a number"), ("INT8", "+", "not a number"), ("INT8", "1_0", "not a number"),
        ("FLOAT32", "1_0", "not a number"), ("FLOAT32", "--1", "not a number"), ("FLOAT32", "1e", "not a number"),
        ("INT8", "0x10", "not a number"), ("FLOAT32", "nan(0x7f800000)", "not the bits of a NaN"),
        ("FLOAT32", "nan(0x1)", "not the bits"), ("FLOAT16", "nan(0x7fc00001)", "not the bits"),
        ("FLOAT32", "1" * 5000, "5000 characters"), ("BOOL", "2", "2 does not fit BOOL (0 to 1)"),
        ("BOOL", "0.5", "is a fraction, which BOOL cannot hold"), ("BOOL", "true", "not a number"),
    ],
)  # fmt: skip
def test_h29_h30_h31_h32_refused(name, token, why):
    with pytest.raises(numbers.LiteralError) as caught:
        parse(name, "1", token)
    assert why in caught.value.problem
    assert caught.value.index == 1
    assert len(caught.value.problem) < 200


_INTEGERS = {"BOOL": (0, 1)}
for _bits in (8, 16, 32, 64):
    _INTEGERS |= {
        f"UINT{_bits}": (0, 2**_bits - 1),
        f"INT{_bits}": (-(2 ** (_bits - 1)), 2 ** (_bits - 1) - 1),
    }
_REAL = {"FLOAT16": np.float16, "FLOAT32": np.float32, "FLOAT64": np.float64}


def held(name, token):
    """The number of a token as that data type holds it, found in fractions; None where it does not hold it."""
    exact = Fraction(token)
    if name in _INTEGERS:
        least, most = _INTEGERS[name]
        return exact if exact.denominator == 1 and least <= exact <= most else None
    rounded = nearest(exact, _REAL[name])
    integral = exact.denominator == 1 and "e" not in token.lower()
    if rounded is None or (integral and Fraction(float(rounded)) != exact):
        return None
    return (
        -rounded if token.startswith("-") and rounded == 0 and not np.signbit(rounded) else rounded
    )


def nearest(exact, real):
    """The nearest value of a float type, of two the even one; None for what is nearer to infinity."""
    info = np.finfo(real)
    top = Fraction(float(info.max))
    if abs(exact) >= top + (Fraction(2) ** info.maxexp - top) / 2:
        return None
    about = real(float(min(max(exact, -top), top)))
    with np.errstate(over="ignore", under="ignore"):
        beside = [np.nextafter(about, real(np.inf)), np.nextafter(about, real(-np.inf))]

    def distance(each):
        return abs(Fraction(float(each)) - exact), int(each.view(f"u{each.itemsize}")) % 2

    return min(filter(np.isfinite, (about, *beside)), key=distance)


def _between(bits, dtype, tail):
    """The decimal of a place half-way between two floats, or a little beside it."""
    value = np.array([bits], f"u{dtype.itemsize}").view(dtype)[0]
    with np.errstate(over="ignore", invalid="ignore"):
        middle = (float(value) + float(np.nextafter(value, dtype.type(np.inf)))) / 2
    if not np.isfinite(middle):
        return "65519.99999999999999999999"
    written = f"{Decimal(middle):f}"
    return (written if "." in written else f"{written}.0") + tail


_MIDDLES = st.one_of(
    st.builds(
        _between,
        st.integers(0, 2 ** (8 * dtype.itemsize) - 1),
        st.just(dtype),
        st.sampled_from(["", "1"]),
    )
    for dtype in (np.dtype("f2"), np.dtype("f4"))
)
_NEAR = [0, 1, 2, 255, 2**11, 2**24, 2**31, 2**53, 2**63, 2**64, 65504, 65520]
_WRITTEN = st.one_of(
    st.sampled_from([str(sign * n + d) for n in _NEAR for d in (-1, 0, 1) for sign in (1, -1)]),
    st.sampled_from("-0 -0.0 0.0 1.0 2.0 0.5 1e3 1e39 1e400 1e-400 16777217e0 65519.9 -65520.5 1e38".split()),
    st.from_regex(r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?", fullmatch=True),
    _MIDDLES.filter(lambda token: len(token) <= numbers.LONGEST),
)  # fmt: skip


_TEXTS = {
    "bare JSON": "[{row}]",
    "rows": "[[{row}]]",
    "JSON": '{{"DataType": "{name}", "Values": [[{row}]]}}',
    "JSON with Sizes": '{{"DataType": "{name}", "Sizes": [1, {count}], "Values": [{row}]}}',
    "notation": "T: (Sizes:{{1,{count}}}, DataType:{name})\n[[{row}]]",
}


def read(form, name, tokens):
    """What a text of that form says; None where it is refused."""
    written = _TEXTS[form].format(name=name, count=len(tokens), row=", ".join(tokens))
    text, types = Text("the text", written), TextTypes(DataType[name], DataType.FLOAT32)
    try:
        return (
            (JSON if form.endswith(("JSON", "Sizes")) else TEXT)
            .find_tensor(text, None, types)
            .read()
            .ravel()
        )
    except FormatError:
        return None


@settings(max_examples=150)
@given(
    st.sampled_from([*oracle.DATA_TYPES, DataType.BOOL]),
    st.sampled_from(list(_TEXTS)),
    st.lists(_WRITTEN, min_size=1, max_size=3),
)
@example(DataType.BOOL, "bare JSON", ["2"])
@example(DataType.BOOL, "JSON with Sizes", ["0", "255"])
@example(DataType.BOOL, "notation", ["1", "0"])
@example(DataType.FLOAT32, "rows", ["1.00000005960464478"])
@example(DataType.FLOAT32, "rows", ["16777216.0", "16777217.0"])
@example(DataType.FLOAT32, "rows", ["33554434", "1.5e30"])
@example(DataType.FLOAT16, "rows", ["65519.99999999999999999999"])
def test_h68_what_a_text_says_is_held_or_refused(data_type, form, tokens):
    """Every data type and every form of text: integral numbers exactly, others as the nearest value, or not at all."""
    wanted = [held(data_type.name, token) for token in tokens]
    found = read(form, data_type.name, tokens)
    if None in wanted:
        assert found is None
        return
    assert found is not None
    values = [int(each) if isinstance(each, Fraction) else each for each in wanted]
    assert oracle.same_bits(found, np.array(values, dtype_of(data_type)))
