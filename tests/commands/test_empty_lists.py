"""Messages that list names, where a file has none, or one without letters."""

import zipfile

import h5py
import numpy as np
import pytest
import zarr
from onnx import TensorProto, helper
from safetensors.numpy import save_file

X = np.ones((3, 4), "f4")


def model(nodes, inputs=()):
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4]) for name in (*inputs, "y")
    ]
    lengths = helper.make_tensor("n", TensorProto.INT64, [4], [1, 2, 3, 1])
    graph = helper.make_graph(nodes, "g", values[:-1], values[-1:], [lengths])
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()


def reverse(*inputs):
    return helper.make_node("ReverseSequence", inputs, ["y"], time_axis=0, batch_axis=1)


FILES = {
    "braces.json": b"{}", "key.json": b'{"": 1}', "empty.txt": b"", "names.txt": b"\n\n", "head.csv": b"input,lengths,axis,output\n",
    "page.md": b"# Nothing\n", "twice.txt": b"T: (Sizes:{1}, DataType:INT8)\n[1]\n" * 2,
    "no_node.onnx": model([helper.make_node("Identity", ["x"], ["y"])], ["x"]),
    "unnamed.onnx": model([reverse("", "")]), "unfed.onnx": model([reverse("x", "n")], ["x"]),
    "unnamed.pb": helper.make_tensor("", TensorProto.FLOAT, [2], [1, 2]).SerializeToString(),
}  # fmt: skip


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A folder of files that lack what messages list."""
    folder = tmp_path_factory.mktemp("bare")
    (folder / "folder").mkdir()
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    for name, values in {
        "x": X,
        "n": [[2], [4], [3]],
        "scalar": 1.0,
        "vector": np.ones(4),
        "empty": X[:0],
    }.items():
        np.save(folder / f"{name}.npy", values)
    zipfile.ZipFile(folder / "none.npz", "w").close()
    np.savez(folder / "unnamed.npz", **{"": X, "b": np.ones(4)})
    save_file({}, folder / "none.safetensors")
    save_file({"": X}, folder / "unnamed.safetensors")
    h5py.File(folder / "none.h5", "w").close()
    zarr.open_group(folder / "none.zarr", mode="w")
    zarr.create_array(
        folder / "root.zarr", shape=(3, 4), dtype="f4", attributes={"": 1}, dimension_names=["", ""]
    )
    return folder


# What is typed, and what the message says in place of a list of nothing.
CASES = {
    "run scalar.npy n.npy": "no axis is given\n  expected a tensor with dimensions\n",
    "run scalar.npy n.npy --axis t": "no dimension is named t\n  expected a tensor with dimensions\n",
    "run scalar.npy --padding 0 --axis 0": "axis 0 is out of range\n  expected a tensor with dimensions\n",
    "run vector.npy n.npy --axis 0 --batch-axis 0": "expected two dimensions or more\n",
    "run x.npy n.npy --axis t": "expected 0 to 1\n",
    "run root.zarr n.npy --axis t": "expected 0 to 1\n",
    "run x.npy empty.npy --axis 1": "{3,1} or {3}",
    "run unnamed.npz::a n.npy": "expected one of '', b",
    "run unnamed.npz n.npy": "has 2 tensors\n",
    "run unnamed.safetensors::a n.npy": "expected one of ''\n",
    "run root.zarr::a n.npy": "expected one of ''\n",
    "run unnamed.pb::a n.npy": "no such tensor",
    "convert root.zarr y.npy": "not kept in .npy: ''\n",
    "show braces.json": "is JSON but not a tensor\n",
    "show key.json": "it has the keys ''\n",
    "show twice.txt": "twice.txt: contains several tensors of one name\n",
    "show empty.txt": "empty.txt: contains no tensor\n  expected rows in brackets",
    "run no_node.onnx": "has no ReverseSequence node",
    "run unnamed.onnx": "ReverseSequence without a name is not as ONNX has it",
    "run unfed.onnx --feed a=x.npy": "expected once NAME=FILE for each of x",
    "batch head.csv": "contains no job",
    "batch names.txt -o {stem}.y.npy": "names.txt names no file\n",
    "batch --each none/*.npy -o {stem}.y.npy": "no file matches --each none/*.npy\n",
    "batch --each= -o {stem}.y.npy": "no file matches --each ''\n",
    "run page.md::1": "expected a page with examples",
    "verify folder": "no example of this operator in 0 pages",
} | {
    f"run none.{suffix}{key} n.npy": f"no such {noun}\n" if key else f"has no {noun}\n"
    for suffix, noun in (("npz", "tensor"), ("h5", "dataset"), ("safetensors", "tensor"), ("zarr", "tensor"))
    for key in ("", "::a")
}  # fmt: skip


@pytest.mark.parametrize("typed", CASES)
def test_a_message_where_a_list_would_be_empty(revseq, bare, typed):
    told = revseq(*typed.split(), cwd=bare).err
    assert CASES[typed] in told, told
    assert told.startswith(("Error: ", "Note: ")), told


def test_a_hint_names_a_tensor_whose_name_is_empty(revseq, bare):
    revseq("show", "unnamed.pb::", cwd=bare).ok()
    revseq("run", "unnamed.npz", "n.npy", "--axis", 1, cwd=bare).refused("unnamed.npz::")
    revseq("run", "unnamed.npz::", "n.npy", "--axis", 1, cwd=bare).ok()
