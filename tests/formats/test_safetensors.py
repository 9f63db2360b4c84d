"""Files of .safetensors: what its own package makes goes in, and a header that lies is refused by name."""

import json

import numpy as np
import oracle
import pytest
import safetensors
import safetensors.numpy
from tensor_files import EXPECTED, N, X, open_

from revseq_cli.core.errors import RevseqError

ENTRY = {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]}


def make(folder, header, data=bytes(48), length=None):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    length = len(raw) if length is None else length
    (folder / "x.safetensors").write_bytes(length.to_bytes(8, "little") + raw + data)


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ({"x": ENTRY | {"dtype": "F4"}}, "data type is F4"), ({"x": ENTRY | {"dtype": "\x1b"}}, r"\x1b"),
        ({"x": ENTRY | {"dtype": 4}}, "damaged header"), ({"x": ENTRY | {"shape": [3, 5]}}, "60 bytes by its shape"),
        ({"x": ENTRY | {"shape": [1 << 62, 1 << 62]}}, "by its shape"), ({"x": ENTRY | {"shape": [3, -4]}}, "damaged header"),
        ({"x": ENTRY | {"shape": [12, True]}}, "damaged header"), ({"x": ENTRY | {"shape": 12}}, "damaged header"),
        ({"x": ENTRY | {"shape": [1 << 63]}}, "damaged header"), ({"x": ENTRY | {"shape": [12, *[1] * 64]}}, "dimension count 65"),
        ({"x": ENTRY | {"data_offsets": [48, 0]}}, "has the offsets [48, 0]"), ({"x": ENTRY | {"data_offsets": [0]}}, "has a damaged header"),
        ({"x": ENTRY | {"data_offsets": [8, 56]}}, "a gap or overlap at byte 0"), ({"x": ENTRY, "y": ENTRY}, "a gap or overlap at byte 48"),
        ({"x": ENTRY, "y": {"dtype": "Q", "shape": [1], "data_offsets": [48, 40]}}, "promises 40"),
        ({"x": ENTRY, "y": {"dtype": "U8", "shape": [1], "data_offsets": [48, 49]}}, "48 bytes of elements, and it promises 49"),
        ({"x": {"dtype": "U8", "shape": [47], "data_offsets": [0, 47]}}, "promises 47"), ({"x": ENTRY | {"more": 1}}, "damaged header"),
        ({"x": {"dtype": "F32", "shape": [12]}}, "damaged header"), ({"x": 1}, "damaged header"), ([ENTRY], "damaged header"),
        ({"x": ENTRY, "__metadata__": {"a": 1}}, "damaged header"), ({"x": ENTRY, "__metadata__": "a"}, "damaged header"),
        ({"x": ENTRY, "__metadata__": {"a": "\ud800"}}, "damaged header"), (b'{"x":1,"x":2}', "a key twice"), (b" {}", "damaged header"),
        (b'{"x":' + b"[" * 100_000, "damaged header"), (b'{"\xff":1}', "damaged header"), (b"", "damaged header"), (b'{"x":NaN}', "damaged header"),
    ],
)  # fmt: skip
def test_hostile_headers(refused, tmp_path, header, problem):
    make(tmp_path, header)
    refused("x.safetensors", "x.safetensors", problem)


@pytest.mark.parametrize("length", [1 << 63, (1 << 64) - 1, 100_000_001, 100_000_000, 600])
def test_a_header_is_not_read_before_its_length_is_right(refused, tmp_path, length):
    make(tmp_path, {"x": ENTRY}, length=length)
    refused("x.safetensors", "x.safetensors: ", f"a header of {length} bytes")


@pytest.mark.needs("safetensors")
def test_it_agrees_with_its_own_package_on_damage(tmp_path):
    """What that refuses is refused here, but for types that may yet come and are not asked for."""
    path = tmp_path / "x.safetensors"
    safetensors.numpy.save_file({"a": X, "b": N}, path)
    whole = path.read_bytes()
    rng = np.random.default_rng(4)
    for place in range(len(whole) - 60):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            safetensors.numpy.load_file(path)
        except safetensors.SafetensorError as e:
            if "unknown variant" in str(e):
                continue
            for name in "ab":
                with pytest.raises(RevseqError):
                    open_(f"{path}::{name}").read()


def test_a_copy_has_other_elements_alone(revseq, tmp_path):
    others = {
        "m": X[:1],
        "n": N,
        "z": np.arange(9, dtype="i1"),
        "a": np.arange(1 << 18, dtype="f8"),
    }
    metadata = {"format": "pt", "b": "ü"}
    safetensors.numpy.save_file({"x": X, **others}, tmp_path / "x.safetensors", metadata=metadata)
    revseq("run", "x.safetensors::x", "x.safetensors::n", "--axis", 1, "-o", "y.safetensors").ok()
    before, after = ((tmp_path / f"{name}.safetensors").read_bytes() for name in "xy")
    start = before.index(X.tobytes())
    assert after == before[:start] + EXPECTED.tobytes() + before[start + X.nbytes :]
    revseq(
        "run", "x.safetensors::x", "x.safetensors::n", "--axis", 1, "-o", "z.safetensors::y"
    ).ok()
    found = safetensors.numpy.load_file(tmp_path / "z.safetensors")
    expected = {"x": X, **others, "y": EXPECTED}
    assert found.keys() == expected.keys()
    assert all(oracle.same_bits(found[name], values) for name, values in expected.items())
    with safetensors.safe_open(tmp_path / "z.safetensors", "np") as file:
        assert file.metadata() == metadata


def test_tensors_of_types_that_nobody_here_knows(revseq, tmp_path):
    header = {"e": {"dtype": "F8_E4M3", "shape": [3], "data_offsets": [0, 3]},
              "x": {"dtype": "U8", "shape": [1, 4], "data_offsets": [3, 7]},
              "w": {"dtype": "F6_E2M3", "shape": [5], "data_offsets": [7, 11]}}  # fmt: skip
    text = json.dumps(header, indent=1).encode()
    (tmp_path / "x.safetensors").write_bytes(
        len(text).to_bytes(8, "little") + text + bytes(range(11))
    )
    revseq("run", "x.safetensors::x", "[[3]]", "--axis", 1, "-o", "y.safetensors").ok()
    assert (tmp_path / "y.safetensors").read_bytes()[-11:] == bytes(
        [0, 1, 2, 5, 4, 3, 6, 7, 8, 9, 10]
    )
    assert (tmp_path / "y.safetensors").read_bytes()[8:-11] == text
