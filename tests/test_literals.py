"""Numbers as text: exact or refused, and back bit for bit."""

import numpy as np
import oracle
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from revseq_cli import literals
from revseq_cli.formats.types import dtype_of
from revseq_cli.spec import DataType


def parse(name, *tokens):
    return literals.parse(tokens, dtype_of(DataType[name]), name)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(oracle.DATA_TYPES), st.binary(min_size=64, max_size=64))
@example(DataType.FLOAT32, np.array([123456789] * 16, np.float32).tobytes())  # 123456792: 9 digits are not enough
@example(DataType.FLOAT64, np.array([1e16, 1e300, 5e-324, -0.0, 2**53 + 2, 0.1, 1e15, -1e16]).tobytes())
def test_text_reads_back_bit_for_bit(data_type, data):
    values = np.frombuffer(data, dtype_of(data_type))
    texts = literals.render(values)
    back = literals.parse(texts, dtype_of(data_type), data_type.name)
    assert oracle.same_bits(back, values), texts


def test_every_float16_reads_back():
    values = np.arange(2**16, dtype=np.uint16).view(np.float16)
    assert oracle.same_bits(literals.parse(literals.render(values), np.dtype("f2"), "FLOAT16"), values)


@pytest.mark.parametrize("order", "<>")
def test_either_byte_order_is_rendered(order):
    values = np.array([0x7FC00001, 0xFF800000, 0x3DCCCCCD], f"{order}u4").view(f"{order}f4")
    assert literals.render(values) == ["nan(0x7fc00001)", "-inf", "0.1"]


_EDGES = (
    "0 -0 +7 1.0 .5 5. 1e3 300 -129 65504 65520 16777217 1e39 1e400 -9223372036854775808 18446744073709551615".split()
)
_TOKENS = st.lists(
    st.sampled_from(_EDGES) | st.text("0123456789+-.eE", min_size=1, max_size=6) | st.just("1" * 1101),
    min_size=1,
    max_size=4,
)


def read_with_care(tokens, data_type):
    try:
        return literals.parse(tokens, dtype_of(data_type), data_type.name)
    except literals.LiteralError:
        return None


@settings(max_examples=1000, deadline=None)
@given(st.sampled_from(oracle.DATA_TYPES), _TOKENS)
@example(DataType.INT8, ["1-2"])
@example(DataType.INT8, ["1", "true"])
@example(DataType.FLOAT32, ["nan", "-inf", "inf", "1"])
@example(DataType.FLOAT32, ["inf", "1e400"])
@example(DataType.FLOAT16, ["nan", "70000"])
@example(DataType.FLOAT32, ["NaN", "infinity", "+inf"])
@example(DataType.FLOAT32, ["16777216.0", "16777217.0"])
@example(DataType.FLOAT32, ["33554434", "1.5e30"])
@example(DataType.FLOAT32, ["1", "null"])
@example(DataType.FLOAT32, ["1", "NaN"])
@example(DataType.FLOAT32, ["1", '"2"'])
@example(DataType.INT8, ["1-2", "+"])
@example(DataType.FLOAT32, ["0." + "1" * 1100])
def test_the_fast_way_reads_what_the_careful_one_reads(data_type, tokens):
    careful = read_with_care(tokens, data_type)
    plain = literals.parse_plain(", ".join(tokens), dtype_of(data_type))
    assert plain is None or oracle.same_bits(plain, careful)


@pytest.mark.parametrize("name", ["INT32", "UINT64", "FLOAT32", "FLOAT64"])
def test_usual_numbers_are_read_in_the_fast_way(name):
    expected = np.array([1, 200, 3], dtype_of(DataType[name]))
    assert oracle.same_bits(literals.parse_plain("1, 200,\n 3", expected.dtype), expected)


def test_how_numbers_are_written():
    values = np.array([1, -0.0, 0, 1e16, 0.5, np.nan, np.inf, -np.inf, 2**53], np.float64)
    assert literals.render(values) == "1 -0.0 0 1e+16 0.5 nan inf -inf 9007199254740992".split()


@pytest.mark.parametrize(
    ("name", "token", "value"),
    [
        ("FLOAT32", "1.0f", 1), ("FLOAT32", "-0.0f", -0.0), ("FLOAT32", "-0", -0.0), ("FLOAT32", "0.", 0),
        ("FLOAT32", "102.", 102), ("FLOAT32", ".5", 0.5), ("FLOAT32", "+1e3", 1000), ("FLOAT32", "NaN", np.nan),
        ("FLOAT32", "Infinity", np.inf), ("FLOAT32", "-inf", -np.inf), ("FLOAT16", "0.1", 0.1),
        ("FLOAT32", "1e-60", 0), ("INT8", "1.0", 1), ("INT8", "-128", -128), ("INT64", "1e3", 1000),
        ("UINT64", "18446744073709551615", 2**64 - 1), ("UINT8", "-0", 0), ("INT32", "2.0f", 2),
        ("UINT64", "9007199254740993.0", 2**53 + 1),
    ],
)  # fmt: skip
def test_accepted(name, token, value):
    dtype = dtype_of(DataType[name])
    assert oracle.same_bits(parse(name, token), np.array([value], dtype))


@pytest.mark.parametrize(
    ("name", "token", "why"),
    [
        ("UINT8", "300", "does not fit UINT8 (0 to 255)"), ("UINT32", "-1", "does not fit UINT32"),
        ("UINT8", "256.0", "does not fit"), ("INT64", str(2**63), "does not fit"),
        ("UINT64", "1e30", "does not fit"), ("INT32", "1.5", "is a fraction"), ("INT32", "1e-1", "is a fraction"),
        ("INT32", "1e999999999", "does not fit"), ("INT32", "1e-999999999", "does not fit"),
        ("INT32", "nan", "INT32 has no nan"), ("FLOAT32", "16777217", "not exact in FLOAT32"),
        ("FLOAT32", "16777217.0", "not exact"), ("FLOAT16", "2049", "not exact"),
        ("FLOAT64", "9007199254740993", "not exact"), ("FLOAT32", "1e39", "too large"),
        ("FLOAT64", "1e400", "too large"), ("FLOAT16", "65520", "too large"), ("FLOAT32", "1_0", "not a number"),
        ("FLOAT32", "abc", "not a number"), ("FLOAT32", "--1", "not a number"), ("FLOAT32", "1e", "not a number"),
        ("INT8", "0x10", "not a number"), ("FLOAT32", "nan(0x7f800000)", "not the bits of a NaN"),
        ("FLOAT32", "nan(0x1)", "not the bits"), ("FLOAT16", "nan(0x7fc00001)", "not the bits"),
        ("FLOAT32", "1" * 5000, "5000 characters"), ("BOOL", "1", "cannot be written as text"),
    ],
)  # fmt: skip
def test_refused(name, token, why):
    with pytest.raises(literals.LiteralError) as caught:
        parse(name, "1", token) if name != "BOOL" else parse(name, token)
    assert why in caught.value.problem
    assert caught.value.index == (1 if name != "BOOL" else 0)
    assert len(caught.value.problem) < 200


def test_numpy_would_have_changed_these():
    """hazards: silent truncation, wrapping, promotion to float and loss above 2^53."""
    assert parse("UINT64", str(2**63), "0").tolist() == [2**63, 0]
    with pytest.raises(literals.LiteralError):
        parse("INT64", str(2**63), "-1")
