"""JSON as text: the keys of objects, and what is no tensor."""

import json

import numpy as np
import pytest


@pytest.fixture
def batch(tmp_path):
    """An object with several tensors."""
    values = {"name": "a [b]", "values": [[1, 2, 3], [4, 5, 6]], "lengths": [3, 2], "n": 2}
    (tmp_path / "d.json").write_text(json.dumps(values, indent=1))
    return tmp_path


def test_keys_of_an_object(revseq, batch):
    done = revseq("run", "d.json::values", "d.json::lengths", "--axis", 1, "-o", "y.json").ok()
    assert "not copied: 3 other keys (name, lengths, n)" in done.err
    assert json.loads((batch / "y.json").read_text())["Values"] == [[3, 2, 1], [5, 4, 6]]
    piped = revseq("convert", "--", "-::lengths", "-", stdin=(batch / "d.json").read_bytes())
    assert piped.ok().out.endswith("\n[3, 2]\n")
    revseq("convert", "d.json::n", "n.npy").ok()
    assert np.load(batch / "n.npy").shape == ()


def test_a_key_may_hold_a_typed_tensor(revseq, tmp_path):
    typed = {"x": {"DataType": "INT8", "Sizes": [1, 2], "Values": [1, 2]}}
    (tmp_path / "x.json").write_text(json.dumps(typed))
    assert revseq("convert", "x.json::x", "y.npy").ok().err == ""
    assert np.load(tmp_path / "y.npy").dtype == np.int8


def test_what_is_refused(revseq, batch):
    done = revseq("show", "d.json").refused("is JSON but not a tensor", "name, values, lengths")
    assert "d.json::values" in done.err
    assert "d.json::name" not in done.err
    revseq("show", "d.json::x").refused("no key 'x'", "name, values, lengths")
    revseq("show", "d.json::name").refused("d.json::name: ")
    (batch / "l.json").write_text("[1, 2]")
    revseq("show", "l.json::x").refused("no key 'x'")
    (batch / "e.json").write_text('{"a": [1, 2],\n "b": [3, x]}')
    revseq("show", "e.json::a").refused("not JSON", "line 2")
    (batch / "t.json").write_text('{"a": [1],\n "b": [3, "x"]}')
    revseq("show", "t.json::b").refused("line 2, column 11: ", "is not a number")
    (batch / "u.json").write_text('{"a": [1], "a": [2]}')
    revseq("show", "u.json::a").refused("a key twice")


@pytest.mark.parametrize("name", ["COMPLEX64", "BFLOAT16"])
def test_numbers_that_json_lacks(revseq, tmp_path, name):
    pytest.importorskip("ml_dtypes")
    text = '["1+2j", 3]' if name == "COMPLEX64" else "[1.5, 3]"
    revseq(
        "convert", text, "x.safetensors" if name == "BFLOAT16" else "x.npy", "--dtype", name
    ).ok()
    source = "x.safetensors" if name == "BFLOAT16" else "x.npy"
    revseq("convert", source, "y.json", "--verify").ok()
    json.loads((tmp_path / "y.json").read_text())
    revseq("diff", source, "y.json").ok()
