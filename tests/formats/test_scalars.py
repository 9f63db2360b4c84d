"""Scalars, and tensors without elements: as text, in what is told, and before the operator."""

import numpy as np
import oracle
import pytest

SHAPES = [(), (0,), (0, 3), (3, 0, 2)]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


@pytest.fixture
def saved(tmp_path):
    def save(shape, dtype="<f4"):
        values = np.full(shape, 7, dtype)
        np.save(tmp_path / "x.npy", values)
        return values

    return save


def test_diff_of_scalars(revseq, tmp_path):
    for name, value in {"a": 1.0, "b": 1.5, "nan": np.nan}.items():
        np.save(tmp_path / f"{name}.npy", np.array(value))
    found = revseq("diff", "a.npy", "b.npy")
    assert found.status == 1
    assert "1 of 1 elements differ\n  index  A    B\n     []  1  1.5\nlargest |A - B|: 0.5\n" in found.out
    assert revseq("diff", "a.npy", "b.npy", "--atol", 1).status == 0
    assert revseq("diff", "nan.npy", "nan.npy", "--atol", 1).status == 1
    np.save(tmp_path / "one.npy", np.array([1.0]))
    assert "different Sizes" in revseq("diff", "a.npy", "one.npy").out


@every_shape
@pytest.mark.parametrize("level", ["5_0", "none"])
def test_the_operator_takes_tensors_without_elements_and_a_level_does_not(revseq, tmp_path, saved, shape, level):
    values = saved(shape)
    np.save(tmp_path / "n.npy", np.ones(tuple(1 if d == 0 else size for d, size in enumerate(shape)), np.uint32))
    job = ("x.npy", "n.npy", "--axis", 0, "--feature-level", level)
    if shape and level == "none":
        revseq("run", *job, "-o", "y.npy").ok()
        assert oracle.same_bits(np.load(tmp_path / "y.npy"), values)
        assert revseq("check", *job).status == 0
        return
    property_ = "Sizes is {" if shape else "dimension count is 0"
    revseq("run", *job, "-o", "y.npy").refused(f"x.npy: {property_}")
    checked = revseq("check", *job)
    assert checked.status == 1, checked.err
    assert "FAIL" in checked.out
    assert not (tmp_path / "y.npy").exists()


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("T: (Sizes:{}, DataType:INT32)\n-5\n", np.int32(-5)), ("T: (Sizes:{ }, DataType:FLOAT32) nan // none\n", np.float32("nan")),
        ("T: (Sizes:{2,0}, DataType:UINT8)\n[[], []]\n", np.empty((2, 0), np.uint8)), ("T: (Sizes:{0}, DataType:FLOAT64)\n[]", np.empty(0)),
    ],
)  # fmt: skip
def test_the_notation_of_them(revseq, tmp_path, text, values):
    (tmp_path / "x.txt").write_text(text)
    revseq("convert", "x.txt", "y.npy").ok()
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), np.asarray(values))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("T: (Sizes:{}, DataType:INT32)\n1, 2\n", "the values have {2}, and {} is stated"), ("T: (Sizes:{}, DataType:INT32)\n[1]", "the values have {1}"),
        ("T: (Sizes:{}, DataType:INT32)\n", "T has no values"), ("T: (Sizes:{}, DataType:INT32)\nAxis: 3\n", "T has no values"),
        ("T: (Sizes:{0}, DataType:INT32)\n[1]\n", "the values have {1}"), ("T: (Sizes:{0}, DataType:INT32)\n", "T has no values"),
        ("T: (Sizes:{-1}, DataType:INT32)\n[1]\n", "T has Sizes {-1}"), ("T: (Sizes:{}, DataType:INT32)\n1 2\n", "comma is missing"),
    ],
)  # fmt: skip
def test_a_notation_that_does_not_fit(revseq, tmp_path, text, words):
    (tmp_path / "x.txt").write_text(text)
    revseq("show", "x.txt").refused(words)
