"""Scalars, and tensors without elements: every format that has them takes them, and the operator refuses them."""

import itertools
import json

import h5py
import numpy as np
import oracle
import pytest
import safetensors.numpy
import zarr

from revseq_cli.formats import table

SUFFIXES = [
    each.suffixes[0] for each in table.written() if each.name not in ("csv", "tsv", "raw")
]  # they hold two dimensions
SHAPES = [(), (0,), (0, 3), (3, 0, 2)]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


@pytest.fixture
def saved(tmp_path):
    def save(shape, dtype="<f4"):
        values = np.full(shape, 7, dtype)
        np.save(tmp_path / "x.npy", values)
        return values

    return save


@every_shape
def test_there_and_back_through_every_format(revseq, tmp_path, saved, shape):
    values = saved(shape, ">f8")
    names = ["x.npy", *(f"y{suffix}" for suffix in SUFFIXES), "z.npy"]
    for src, dst in itertools.pairwise(names):
        revseq("convert", src, dst, "--verify").ok()
        assert f"Sizes            {{{','.join(map(str, shape))}}}\n" in revseq("show", "--stats", dst).ok().out
    assert oracle.same_bits(np.load(tmp_path / "z.npy"), values)


@every_shape
def test_what_others_write_is_read(revseq, tmp_path, shape):
    values = np.full(shape, 7, np.float32)
    np.savez(tmp_path / "x.npz", x=values)
    np.savez_compressed(tmp_path / "deflated.npz", x=values)
    safetensors.numpy.save_file({"x": values}, tmp_path / "x.safetensors")
    zarr.create_array(tmp_path / "x.zarr", data=values)
    zarr.create_array(tmp_path / "v2.zarr", data=values, zarr_format=2)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = values
    with h5py.File(tmp_path / "chunks.h5", "w") as file:
        if shape:
            file.create_dataset(
                "x", data=values, chunks=(2,) * len(shape), maxshape=(None,) * len(shape), compression="gzip"
            )
        else:
            file["x"] = values
    for name in ("x.npz", "deflated.npz", "x.safetensors", "x.zarr", "v2.zarr", "x.h5", "chunks.h5"):
        revseq("convert", name, "y.npy", "--overwrite", "--verify").ok()
        assert oracle.same_bits(np.load(tmp_path / "y.npy"), values), name
    revseq("convert", "chunks.h5", "z.h5", "--verify").ok()
    with h5py.File(tmp_path / "chunks.h5") as old, h5py.File(tmp_path / "z.h5") as new:
        assert (new["x"].shape, new["x"].chunks, new["x"].maxshape) == (shape, old["x"].chunks, old["x"].maxshape)
        assert new["x"].compression == old["x"].compression


def test_hdf5_without_any_dataspace(revseq, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = h5py.Empty("f4")
    revseq("show", "x.h5::x").refused("x.h5::/x: has a null dataspace")
    assert "no elements" in revseq("show", "x.h5").ok().out


def test_how_they_are_printed(revseq, saved):
    saved(())
    assert revseq("convert", "x.npy", "-").ok().out == "OutputTensor: (Sizes:{}, DataType:FLOAT32)\n7\n"
    assert (
        revseq("convert", "x.npy", "-", "-f", "json").ok().out == '{"DataType": "FLOAT32", "Sizes": [], "Values":\n7}\n'
    )
    shown = revseq("show", "--stats", "x.npy").ok().out
    assert "dimension count  0\n  elements         1\n" in shown
    assert "min              7\n" in shown
    assert shown.endswith("\n\n  7\n")
    saved((0, 3))
    assert revseq("convert", "x.npy", "-").ok().out == "OutputTensor: (Sizes:{0,3}, DataType:FLOAT32)\n[]\n"
    shown = revseq("show", "--stats", "x.npy").ok().out
    assert (
        "min              -\n  max              -\n  mean             -\n  NaN              0\n  infinite         0\n\n  []\n"
        in shown
    )
    found = json.loads(revseq("show", "--stats", "--json", "x.npy").ok().out)["tensors"][0]
    assert (found["Sizes"], found["statistics"]["min"]) == ([0, 3], None)


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
def test_the_operator_refuses_them(revseq, tmp_path, saved, shape, level):
    saved(shape)
    lengths = tuple(1 if d == 0 else size for d, size in enumerate(shape))
    np.save(tmp_path / "n.npy", np.ones(lengths, np.uint32))
    job = ("x.npy", "n.npy", "--axis", 0, "--feature-level", level)
    property_ = "dimension count is 0" if not shape else "Sizes is {"
    revseq("run", *job, "-o", "y.npy").refused(f"x.npy: {property_}")
    revseq("run", *job, "-o", "y.npy", "--dry-run").refused(f"x.npy: {property_}")
    checked = revseq("check", *job)
    assert checked.status == 1, checked.err
    assert "FAIL" in checked.out
    revseq("run", "x.npy", "n.npy").refused("no axis is given")
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
        ("T: (Sizes:{}, DataType:INT32)\n1, 2\n", "the header of T says {}; the values have {2}"), ("T: (Sizes:{}, DataType:INT32)\n[1]", "the values have {1}"),
        ("T: (Sizes:{}, DataType:INT32)\n", "T has no values"), ("T: (Sizes:{}, DataType:INT32)\nAxis: 3\n", "T has no values"),
        ("T: (Sizes:{0}, DataType:INT32)\n[1]\n", "the values have {1}"), ("T: (Sizes:{0}, DataType:INT32)\n", "T has no values"),
        ("T: (Sizes:{-1}, DataType:INT32)\n[1]\n", "T has Sizes {-1}"), ("T: (Sizes:{}, DataType:INT32)\n1 2\n", "comma is missing"),
        ("[]", "needs a header that says its sizes"),
    ],
)  # fmt: skip
def test_a_notation_that_does_not_fit(revseq, tmp_path, text, words):
    (tmp_path / "x.txt").write_text(text)
    revseq("show", "x.txt").refused(words)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("[]", (0,)), ("[[], []]", (2, 0)), ('{"Values": 3}', ()), ('{"Sizes": [], "Values": [3]}', ()),
        ('{"DataType": "INT64", "Sizes": [0, 4], "Values": []}', (0, 4)), ('{"Values": "nan"}', ()), ('{"Values": -0}', ()),
    ],
)  # fmt: skip
def test_the_json_of_them(revseq, tmp_path, text, shape):
    (tmp_path / "x.json").write_text(text)
    revseq("convert", "x.json", "y.npy").ok()
    assert np.load(tmp_path / "y.npy").shape == shape


@pytest.mark.parametrize("text", ['{"Sizes": [0, %d], "Values": []}', "Tensor: (Sizes:{0,%d}, DataType:FLOAT32)\n[]"])
def test_sizes_beside_a_0_that_numpy_does_not_hold(revseq, tmp_path, text):
    (tmp_path / "x").write_text(text % (1 << 62))
    revseq("show", "x", "-f", "json" if text[0] == "{" else "text").refused(f"Sizes is {{0,{1 << 62}}}")
