"""Messages that list names, where a file has none, or one without letters: no sentence ends where a list is to follow."""

import json
import re
import zipfile

import h5py
import netCDF4
import numpy as np
import pytest
import zarr
from onnx import TensorProto, helper

# What no line ends in: words behind which a list, a name or a value is to follow.
OPEN = re.compile(
    r"((?<!:):|,|;|=|\b(among|of|in|is|are|for|by|with|named|matches|or|and|example|one of|try|add|--each))\s*$"
)


def safetensors(header):
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(8 * len(header))


def model(nodes, inputs=(), constants=()):
    """A model whose values have sizes {3,4}; `constants` are names of four lengths."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4]) for name in (*inputs, "y")]
    lengths = [helper.make_tensor(name, TensorProto.INT64, [4], [1, 2, 3, 1]) for name in constants]
    graph = helper.make_graph(nodes, "g", values[:-1], values[-1:], lengths)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def reverse(*inputs):
    return helper.make_node("ReverseSequence", inputs, ["y"], time_axis=0, batch_axis=1)


TEXTS = {
    "braces.json": "{}", "key.json": '{"": 1}', "values.json": '{"Values": [1], "": 2}', "empty.txt": "",
    "empty.jsonl": "", "head.csv": "input,lengths,axis,output\n", "names.txt": "\n\n", "page.md": "# Nothing\n",
    "row.jsonl": "{}\n", "column.jsonl": '{"": ""}\n', "twice.txt": "T: (Sizes:{1}, DataType:INT8)\n[1]\n" * 2,
}  # fmt: skip
BYTES = {
    "none.safetensors": safetensors({}),
    "unnamed.safetensors": safetensors({"": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}),
    "no_node.onnx": model([helper.make_node("Identity", ["x"], ["y"])], ["x"]),
    "no_input.onnx": model([reverse("x", "n")], [], ["x", "n"]),
    "unnamed.onnx": model([reverse("", "")]),
    "unfed.onnx": model([reverse("x", "n")], ["x"], ["n"]),
    "unnamed.pb": helper.make_tensor("", TensorProto.FLOAT, [2], [1, 2]).SerializeToString(),
}
ARRAYS = {
    "x": np.ones((3, 4), "f4"),
    "n": [[2], [4], [3]],
    "scalar": 1.0,
    "vector": np.ones(4),
    "empty": np.ones((0, 4)),
}


@pytest.fixture
def bare(tmp_path):
    """A folder of files that lack what messages list."""
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text)
    for name, data in BYTES.items():
        (tmp_path / name).write_bytes(data)
    for name, array in ARRAYS.items():
        np.save(tmp_path / f"{name}.npy", array)
    zipfile.ZipFile(tmp_path / "none.npz", "w").close()
    np.savez(tmp_path / "unnamed.npz", **{"": ARRAYS["x"], "b": ARRAYS["vector"]})
    for name, groups in (("none", []), ("group", ["g"])):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            for group in groups:
                file.create_group(group)
    with h5py.File(tmp_path / "link.h5", "w") as file:
        file["l"] = h5py.SoftLink("/nowhere")
    with netCDF4.Dataset(tmp_path / "days.nc", "w") as file:
        for name in ("day", "other"):
            file.createDimension(name, 4)
            file.createVariable(f"of_{name}", "u4", (name,))[:] = 1
        file.createVariable("scalar", "f4", ())
    zarr.open_group(tmp_path / "none.zarr", mode="w")
    zarr.create_array(tmp_path / "root.zarr", shape=(3, 4), dtype="f4", attributes={"": 1}, dimension_names=["", ""])
    (tmp_path / "folder").mkdir()
    return tmp_path


# What is typed, and what the message says in place of a list of nothing.
CASES = {
    "run scalar.npy n.npy": "no axis is given\n  wanted: a tensor with dimensions\n",
    "run scalar.npy n.npy --axis t": "no dimension is named t\n  wanted: a tensor with dimensions\n",
    "run days.nc::scalar n.npy --axis day": "wanted: a tensor with dimensions\n",
    "run scalar.npy n.npy --axis 0 --mask": "wanted: a tensor with dimensions\n",
    "run scalar.npy --padding 0 --axis 0": "wanted: a tensor with dimensions\n",
    "run vector.npy n.npy --axis 0 --batch-axis 0": "wanted: two dimensions or more\n",
    "run vector.npy --padding 0 --axis 0 --batch-axis 0": "wanted: two dimensions or more\n",
    "run x.npy n.npy --axis t": "its dimensions have no names",
    "run root.zarr n.npy --axis t": "its dimensions have no names",
    "run x.npy empty.npy --axis 1": "wanted: {3,1}",
    "run days.nc::of_day days.nc::of_other --axis day": "wanted: one length, or dimensions without names",
    "run unnamed.npz::a n.npy": "wanted: one of '', b",
    "run unnamed.npz n.npy": "has 2 tensors: '', b",
    "run unnamed.safetensors::a n.npy": "wanted: one of ''\n",
    "run root.zarr::a n.npy": "wanted: one of ''\n",
    "run unnamed.pb::a n.npy": "wanted: no name after ::",
    "convert root.zarr y.npy": "not kept in .npy: ''\n",
    "run link.h5 n.npy": "has no dataset",
    "run group.h5::g n.npy": "is a group\n",
    "show braces.json": "is JSON, but not a tensor\n",
    "show key.json": "not a tensor with ''\n",
    "show values.json": "with Values, ''\n",
    "run no_node.onnx": "has no ReverseSequence node",
    "run no_input.onnx --feed a=x.npy": "wanted: a model that has inputs",
    "run unnamed.onnx": "ReverseSequence without a name has 0 inputs",
    "run unfed.onnx --feed a=x.npy": "wanted: once NAME=FILE for each of x",
    "batch empty.jsonl": "contains no job",
    "batch head.csv": "contains no job",
    "batch row.jsonl": "no input",
    "batch column.jsonl": "unknown column ''",
    "batch --each none/*.npy -o {stem}.y.npy": "no file matches --each none/*.npy\n",
    "batch --each= -o {stem}.y.npy": "no file matches --each ''\n",
    "run page.md::1": "wanted: a page with examples",
    "show page.md::1": "wanted: a page with examples",
    "show page.md::1::InputTensor": "wanted: a page with examples",
    "show twice.txt::": "holds no tensor named '': T (line 1), T (line 3)\n",
    "verify page.md": "contains no example of this operator",
    "verify page.md::": "no example ''\n",
    "verify folder": "no example of this operator in 0 pages",
    "show empty.txt::a": "contains no tensor",
    "diff x.npy folder": "is a directory",
} | {
    f"run none.{suffix}{key} n.npy": f"no such {noun}\n" if key else f"has no {noun}\n"
    for suffix, noun in (("npz", "tensor"), ("h5", "dataset"), ("safetensors", "tensor"), ("zarr", "tensor"))
    for key in ("", "::a")
}  # fmt: skip


@pytest.mark.parametrize("typed", CASES)
def test_no_sentence_ends_where_a_list_is_to_follow(revseq, bare, typed):
    told = revseq(*typed.split()).err
    assert CASES[typed] in told, told
    assert told.startswith(("Error: ", "Note: ")), told
    for line in told.splitlines():
        assert not OPEN.search(line), line
        assert "  " not in line.strip(), line


@pytest.mark.parametrize("typed", ["run unnamed.npz n.npy --axis 1", "show unnamed.pb::a"])
def test_a_hint_names_a_tensor_whose_name_is_empty(revseq, bare, typed):
    name = typed.split()[1].partition("::")[0]
    revseq(*typed.split()).refused(f"Hint: try {name}::\n")
    revseq(*typed.replace(typed.split()[1], f"{name}::").split()).ok()
