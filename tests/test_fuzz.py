"""The corpus of the fuzzer, replayed and mutated: whatever the bytes, a tensor or one of our errors."""

import importlib.util
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

FUZZ = Path(__file__).with_name("fuzz")
CORPUS = sorted(path for path in FUZZ.glob("corpus/*/*"))
spec = importlib.util.spec_from_file_location("parsers", FUZZ / "parsers.py")
parsers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(parsers)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_corpus(path):
    parsers.check(path.parent.name, path.read_bytes())


PIECES = [*b'[ ] , - e nan(0x (Sizes:{ { " // \xff \x00'.split(), b"9" * 30, b"Axis: 1\n"]


@settings(max_examples=100)
@given(st.data())
@pytest.mark.parametrize("name", sorted(parsers.READERS))
def test_mutations(name, data):
    whole = data.draw(
        st.sampled_from([path for path in CORPUS if path.parent.name == name])
    ).read_bytes()
    for _ in range(data.draw(st.integers(1, 4))):
        start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(whole))] * 2)))
        piece = data.draw(
            st.sampled_from([b"", whole[start:stop] * 2, *PIECES]) | st.binary(max_size=8)
        )
        whole = whole[:start] + piece + whole[min(stop, start + 8) :]
    parsers.check(name, whole)
