"""`show` says what a tensor is and what a file holds: as a list, as a tree, in names for scripts and in JSON."""

import json
import zipfile

import h5py
import ml_dtypes
import numpy as np
import pytest
import zarr
from conftest import SAMPLES
from safetensors.numpy import save_file
from terminals import in_columns, on_terminal

from revseq_cli.core.platform import quote
from revseq_cli.operator.spec import INPUT, LENGTHS, OUTPUT

X = np.arange(24, dtype="f4").reshape(2, 3, 4)


def keras(path, layers=3):
    with h5py.File(path, "w") as f:
        f.attrs["backend"] = "none"
        for i in range(layers):
            group = f.create_group(f"layers/dense {i}/vars")
            group.parent.attrs["name"] = "dense"
            group.create_dataset("0", data=X, chunks=(1, 3, 4), compression="gzip").attrs[
                "trainable"
            ] = True
            group["1"] = np.zeros(4, "f8")
        f["config"] = "text"


def archive(path):
    with open(path, "wb") as f:
        np.savez(f, **{"a b": X, "c/d": X.T, "e::f": np.arange(3), "text": np.array("x")})
    header = (
        np.lib.format.magic(1, 0)
        + b"\x76\x00{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }"
    )
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as f:
        f.writestr("z.npy", header.ljust(128) + b"123")
        f.writestr("notes.txt", "notes")


def store(path):
    root = zarr.open_group(path, mode="w", attributes={"a": 1})
    group = root.create_group("g", attributes={"b": 1, "c": 2})
    group.create_array("v", shape=X.shape, dtype="f4", dimension_names=[*"xyz"])[:] = X
    root.create_array("text", shape=(2,), dtype="i4")
    text = path / "text" / "zarr.json"
    text.write_text(text.read_text().replace('"int32"', '"string"'))


def virtual(file):
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource("other.h5", "y", (4,))
    file.create_virtual_dataset("virtual", layout)


def lines(done):
    return [" ".join(line.split()) for line in done.ok().out.splitlines()]


def test_hdf5_is_a_tree(revseq, tmp_path):
    keras(tmp_path / "x.h5", 2)
    tree = [
        "x.h5: h5, 4 tensors, 5 groups, 1 other, 1 attribute",
        "name data type shape attributes storage",
        "config text {} 0 layout contiguous",
        "layers/ 4 tensors 0",
        f"{quote('dense 0')}/ 2 tensors 1",
        "vars/ 2 tensors 0",
        "0 FLOAT32 {2,3,4} 1 chunks (1, 3, 4), filters gzip",
        "1 FLOAT64 {4} 0 layout contiguous",
    ]
    assert lines(revseq("show", "x.h5"))[:8] == tree
    group = lines(revseq("show", "x.h5::layers/dense 1"))
    assert (group[0], group[2:]) == (
        "x.h5::/layers/dense 1: h5, 2 tensors, 1 group, 1 attribute",
        tree[5:],
    )
    assert lines(revseq("show", "x.h5::/"))[1:] == lines(revseq("show", "x.h5"))[1:]
    report = json.loads(revseq("show", "x.h5", "--json").ok().out)
    assert report["tensors"][0] == {
        "name": "x.h5::/layers/dense 0/vars/0", "data_type": "FLOAT32", "shape": [2, 3, 4], "dimensions": [], "attributes": 1,
        "attribute_values": None, "bytes": 96, "format": "h5", "storage": {"chunks": "(1, 3, 4)", "filters": "gzip"}, "statistics": None,
    }  # fmt: skip
    found = json.loads(revseq("show", "x.h5", "--stats", "--json").ok().out)["tensors"]
    assert [each["statistics"]["max"] for each in found] == [23, 0, 23, 0]


def test_zarr_is_a_tree(revseq, tmp_path):
    store(tmp_path / "x.zarr")
    found = lines(revseq("show", "x.zarr"))
    assert found[0] == "x.zarr: zarr, 1 tensor, 1 group, 1 other, 1 attribute"
    assert found[1:3] == ["name data type shape dimensions attributes storage", "g/ 1 tensor 2"]
    assert found[3].startswith("v FLOAT32 {2,3,4} x, y, z 0 chunks (2, 3, 4), codecs ")
    assert found[4].startswith("text ")
    assert lines(revseq("show", "x.zarr::g"))[0] == "x.zarr::g: zarr, 1 tensor, 2 attributes"


def test_lists(revseq, tmp_path):
    archive(tmp_path / "x.npz")
    stored = "method stored, version 1, order"
    assert lines(revseq("show", "x.npz")) == [
        "x.npz: npz, 4 tensors, 2 others", "name data type shape storage",
        f"{quote('a b')} FLOAT32 {{2,3,4}} {stored} C, byte order little-endian",
        f"c/d FLOAT32 {{4,3,2}} {stored} F, byte order little-endian",
        f"e::f INT64 {{3}} {stored} C, byte order little-endian",
        "text <U1", "z UINT8 {3} method deflated, version 1, order C", "notes.txt no .npy file",
    ]  # fmt: skip
    save_file({"a": X, "b": np.zeros(3, "i8")}, tmp_path / "x.safetensors", {"format": "np"})
    found = lines(revseq("show", "x.safetensors"))
    assert found[0] == "x.safetensors: safetensors, 2 tensors, 1 attribute"
    assert sorted(found[2:]) == ["a FLOAT32 {2,3,4} dtype F32", "b INT64 {3} dtype I64"]
    (tmp_path / "x.txt").write_text(
        "a: (Sizes:{2}, DataType:INT8)\n[1, 2]\n\nc: (Sizes:{1}, DataType:X)\n[1]\n"
    )
    assert lines(revseq("show", "x.txt")) == [
        "x.txt: text, 1 tensor, 1 other", "name data type shape storage", "a INT8 {2} line 1",
        "c line 4, column 25: 'X' is not a data type",
    ]  # fmt: skip
    found = lines(revseq("show", SAMPLES / "page.md"))
    assert found[0] == f"{SAMPLES / 'page.md'}: text, 8 tensors"
    assert found[8] == "ATensor FLOAT32 {1,1,1,2} line 49"
    assert found[7] == "2::OutputTensor INT8 {3,2} line 38"


def test_what_is_no_tensor(revseq, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["x"], f["y"] = X, X
        f["empty"], f["table"] = h5py.Empty("f4"), np.zeros(3, [("id", "i4"), ("at", "f8")])
        f["list"] = np.array([np.arange(2), np.arange(3)], h5py.vlen_dtype("i4"))
        f["again"], f["soft"], f["away"] = (
            f["x"],
            h5py.SoftLink("/x"),
            h5py.ExternalLink("other.h5", "/y"),
        )
        f["type"] = np.dtype("f8")
        f["loop"] = f["/"]
        virtual(f)
    found = {
        line.split(" ")[0]: line.partition(" ")[2] for line in lines(revseq("show", "x.h5"))[2:]
    }
    beginnings = {
        "again": "FLOAT32 {2,3,4} 0 layout contiguous", "x": "another name of /again", "soft": "a soft link to /x", "type": "a data type",
        "away": "an external link to other.h5::/y", "loop": "another name of /", "table": "compound of id, at {3} 0",
        "list": "lists of variable length {2} 0", "virtual": "a virtual dataset, made of other files", "empty": "no elements",
    }  # fmt: skip
    assert {name: found[name][: len(text)] for name, text in beginnings.items()} == beginnings
    assert lines(revseq("show", "x.h5", "--names")) == ["x.h5::/again", "x.h5::/y"]


def test_damage_in_one_place_hides_nothing_else(revseq, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["a"], f["bad"], f["c"] = X, X, X
        place = h5py.h5o.get_info(f["bad"].id).addr
    with open(tmp_path / "x.h5", "r+b") as file:
        file.seek(place)
        file.write(b"\xff" * 16)
    found = lines(revseq("show", "x.h5"))
    assert found[0] == "x.h5: h5, 2 tensors, 1 other"
    assert found[3].startswith("bad cannot be read: ")
    store(tmp_path / "x.zarr")
    (tmp_path / "x.zarr/g/v/zarr.json").write_text('{"zarr_format": 3, "node_type": "array"}')
    assert "v has damaged metadata" in lines(revseq("show", "x.zarr"))
    archive(tmp_path / "x.npz")
    data = bytearray((tmp_path / "x.npz").read_bytes())
    data[data.index(b"descr")] = 0
    (tmp_path / "x.npz").write_bytes(data)
    assert any(
        line.startswith(f"{quote('a b')} damaged") for line in lines(revseq("show", "x.npz"))
    )


def test_the_only_tensor_of_a_file_is_shown_or_an_error(revseq, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["x"], f["s"] = X, np.arange(2)
        f["s"].make_scale()
        f["x"].dims[0].attach_scale(f["s"])
    np.savez(tmp_path / "x.npz", x=X)
    for name, key in {"x.h5": "/x", "x.npz": "x"}.items():
        done = revseq("show", name).ok()
        assert done.out == revseq("show", f"{name}::{key}").ok().out
        assert done.out.startswith(f"{name}::{key}\n  data type     FLOAT32\n")
        assert "[ 4,  5,  6,  7]" in done.out
    # But whoever asks for the names gets all of them.
    assert lines(revseq("show", "x.h5", "--names")) == ["x.h5::/s", "x.h5::/x"]
    with h5py.File(tmp_path / "v.h5", "w") as f:
        virtual(f)
    revseq("show", "v.h5").refused("a virtual dataset, made of other files")


def test_names_for_scripts(revseq, tmp_path, files):
    """Each is one to type, and stays in one line."""
    keras(tmp_path / "x.h5", 1)
    archive(tmp_path / "x.npz")
    (tmp_path / "x.txt").write_text("T: (Sizes:{2}, DataType:INT8)\n[1, 2]\n")
    names = (
        revseq("show", "x.h5", "x.npy", "x.npz", "x.txt", SAMPLES / "page.md::1", "--names")
        .ok()
        .out.splitlines()
    )
    assert names == [
        "x.h5::/layers/dense 0/vars/0", "x.h5::/layers/dense 0/vars/1", "x.npy", "x.npz::a b", "x.npz::c/d", "x.npz::e::f", "x.npz::z",
        "x.txt", *(f"{SAMPLES}/page.md::1::{role}" for role in ("InputTensor", "SequenceLengthsTensor", "OutputTensor")),
    ]  # fmt: skip
    for name in names:
        assert revseq("show", name).ok().out.startswith(name)
    assert revseq("show", "-", "--names", stdin=(tmp_path / "x.npy").read_bytes()).ok().out == "-\n"
    np.savez(tmp_path / "odd.npz", **{"a\nb": X, "c\x1bd": X})
    assert revseq("show", "odd.npz", "--names").ok().out == "odd.npz::a\\nb\nodd.npz::c\x1bd\n"
    assert (
        json.loads(revseq("show", "odd.npz", "--json").ok().out)["tensors"][0]["name"]
        == "odd.npz::a\nb"
    )
    assert "\n  a\\nb " in revseq("show", "odd.npz").ok().out


def test_an_input_of_two_examples_is_listed_once(revseq, tmp_path):
    first, _, second = (SAMPLES / "page.md").read_text().partition("InputTensor: (Sizes:{3,2}")
    (tmp_path / "x.md").write_text(first + second[second.index("SequenceTensor") :])
    shared = [f"1::{INPUT}", f"1::{LENGTHS}", f"1::{OUTPUT}", f"2::{LENGTHS}", f"2::{OUTPUT}"]
    assert lines(revseq("show", "x.md", "--names")) == [
        f"x.md::{name}" for name in [*shared, "ATensor", "BTensor"]
    ]
    assert revseq("show", "x.md").ok().out.startswith("x.md: text, 7 tensors\n")
    for key in (INPUT, "1::InputTensor", "2::InputTensor"):
        assert "INT8" not in revseq("show", f"x.md::{key}").ok().out


def test_one_bad_file_does_not_hide_the_good_ones(revseq, tmp_path, files):
    keras(tmp_path / "x.h5", 1)
    (tmp_path / "bad.h5").write_bytes((tmp_path / "x.h5").read_bytes()[:700])
    for options in ((), ("--names",), ("--json",)):
        done = revseq("show", "x.npy", "bad.h5", "x.h5", "none.npy", *options).failed()
        assert "x.npy" in done.out
        assert "dense 0" in done.out
        assert done.err.count("Error: ") == 2
        assert "Error: none.npy: no such file\n" in done.err
    report = json.loads(done.out)
    assert [error["where"] for error in report["errors"]] == ["bad.h5", "none.npy"]
    done = revseq("show", "none.npy", "bad.h5")
    assert (done.status, done.out, done.err.count("Error: ")) == (2, "", 2)


def test_a_list_reads_no_values(revseq, tmp_path):
    """A terabyte is listed, and values that cannot be decoded are not looked at."""
    with h5py.File(tmp_path / "large.h5", "w") as f:
        for name in "ab":
            f.create_dataset(
                name, (1 << 20, 1 << 20), "f4", chunks=(1, 1 << 20), compression="gzip"
            )
    assert lines(revseq("show", "large.h5"))[2].startswith(
        "a FLOAT32 {1048576,1048576} 0 chunks (1, 1048576)"
    )
    store(tmp_path / "x.zarr")
    before = revseq("show", "x.zarr").ok().out
    for path in (tmp_path / "x.zarr").rglob("c/*/*/*"):
        path.write_bytes(b"damaged")
    assert revseq("show", "x.zarr").ok().out == before
    revseq("show", "x.zarr", "--stats").refused()


def test_statistics_of_the_others_where_a_tensor_is_damaged(revseq, tmp_path):
    """What is whole and no tensor is left out."""
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["a"], f["text"], f["z"], f["empty"] = [1], "text", [2], [0, 0]
        f["empty"].attrs["MATLAB_empty"] = 1
        f.create_dataset("outside", (3,), "i4", external=[("x.bin", 0, 12)])
        virtual(f)
    assert revseq("show", "x.h5", "--stats").ok().out.count("mean") == 2
    with h5py.File(tmp_path / "x.h5", "a") as f:
        for name in "mn":
            f.create_dataset(name, data=np.arange(99), chunks=(99,), fletcher32=True)
        places = [f[name].id.get_chunk_info(0).byte_offset for name in "mn"]
    with open(tmp_path / "x.h5", "r+b") as f:
        for place in places:
            f.seek(place)
            f.write(b"damage")
    (tmp_path / "x.txt").write_text(
        "A: (Sizes:{1}, DataType:INT8)\n[300]\nZ: (Sizes:{1}, DataType:INT8)\n[2]\n"
    )
    archive(tmp_path / "x.npz")
    data = bytearray((tmp_path / "x.npz").read_bytes())
    data[data.index(b"descr")] = 0
    (tmp_path / "x.npz").write_bytes(data)
    errors = {"x.h5": ["x.h5::/m", "x.h5::/n"], "x.npz": ["x.npz::a b"], "x.txt": ["x.txt::A"]}
    for (name, bad), count in zip(errors.items(), (2, 3, 1), strict=True):
        done = revseq("show", name, "--stats")
        assert (done.status, done.out.count("mean"), done.err.count("Error: ")) == (
            2,
            count,
            len(bad),
        )
        report = json.loads(revseq("show", name, "--stats", "--json").out)
        assert (report["exit_status"], len(report["tensors"])) == (2, count)
        assert [error["where"].replace(": ", "::") for error in report["errors"]] == bad
    done = revseq("show", *errors, "--stats").failed()
    assert (done.out.count("mean"), done.err.count("Error: ")) == (6, 4)
    revseq("show", "x.h5::m", "--stats").refused("x.h5::/m: the chunk at [0] is damaged")


def test_a_preview_reads_only_the_ends_and_says_what_it_leaves_out(revseq, tmp_path):
    with open(tmp_path / "x.npy", "wb") as f:
        np.lib.format.write_array_header_1_0(
            f, {"descr": "<f4", "fortran_order": False, "shape": (10**6, 10**6)}
        )
        f.truncate(f.tell() + 4 * 10**12)
    done = revseq("show", "x.npy").ok()
    assert "4,000,000,000,000" in done.out
    assert "36 of 1,000,000,000,000 elements" in done.out


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.float32([[1.5, np.nan], [-0.1, np.inf]]), [pytest.approx(-0.1), "inf", "inf", 1, 1]),
        (np.array([1 + 2j]), [None, None, "(1+2j)", 0, 0]),
        (np.float16([[-np.inf, 1], [np.inf, np.nan]] * 9), ["-inf", "inf", "nan", 9, 18]),
        # Their sum is in no FLOAT64.
        pytest.param(
            np.full(10, 1.7e308),
            [1.7e308, 1.7e308, 1.7e308, 0, 0],
            marks=pytest.mark.needs("long doubles"),
        ),
    ],
)
def test_statistics(revseq, tmp_path, values, expected):
    np.save(tmp_path / "x.npy", values)
    report = json.loads(
        revseq("show", "x.npy", "--stats", "--json").ok().out, parse_constant=pytest.fail
    )
    names = ("min", "max", "mean", "nan", "infinite", "missing")
    found = report["tensors"][0]["statistics"]
    assert found == dict(zip(names, [*expected, 0], strict=True))
    assert f"  mean          {found['mean']}\n" in revseq("show", "x.npy", "--stats").ok().out


@pytest.mark.parametrize(
    ("values", "least", "greatest"),
    [
        (np.array([0.1, 300], ">f4"), "0.1", "300"), (np.float16([0.1, np.inf]), "0.1", "inf"), (np.float64([0.1, 3]), "0.1", "3"),
        (np.array([True, False]), "0", "1"), (np.uint64([2**64 - 1, 7]), "7", "18446744073709551615"),
        (np.array([0.1, 2], ml_dtypes.bfloat16), "0.1001", "2"), (np.float32([]), "-", "-"),
    ],
)  # fmt: skip
def test_ends_are_printed_as_elements(revseq, tmp_path, values, least, greatest):
    save_file({"x": values.astype(values.dtype.newbyteorder("="))}, tmp_path / "x.safetensors")
    if values.dtype.kind != "V":
        np.save(tmp_path / "x.npy", values)
    for name in [path.name for path in tmp_path.iterdir()]:
        found = lines(revseq("show", name, "--stats"))
        assert (f"min {least}" in found, f"max {greatest}" in found) == (True, True)


@pytest.mark.needs("terminal")
def test_terminals(forked, tmp_path):
    """Names are escaped and never cut."""
    np.savez(tmp_path / "odd.npz", **{"a\x1b[31m": X, "温度": X, "x" * 170: X})
    for options in ((), ("--names",)):
        status, out, err = on_terminal(*forked.command, "show", "odd.npz", *options, cwd=tmp_path)
        assert (status, err) == (0, "")
        assert "\x1b" not in out
        assert r"a\x1b[31m" in out
        assert "x" * 170 in out


@pytest.fixture
def many(tmp_path):
    """A file of 300 datasets in three groups, and one of 300 datasets in none."""
    with h5py.File(tmp_path / "groups.h5", "w") as f:
        for i in range(300):
            f[f"group {i % 3}/d{i}"] = np.zeros(3)
    with h5py.File(tmp_path / "flat.h5", "w") as f:
        for i in range(300):
            f[f"d{i}"] = np.zeros(3)
    return tmp_path


@pytest.mark.needs("terminal")
def test_many_tensors_on_a_terminal(many, forked, revseq):
    out = in_columns(80, *forked.command, "show", "groups.h5", cwd=many)
    assert out.count("100 tensors") == 3
    command = out.splitlines()[-1]
    assert command.startswith("revseq show ")
    group = in_columns(80, *forked.command, "show", "groups.h5::/group 0", cwd=many)
    assert "40 more" in group
    flat = in_columns(80, *forked.command, "show", "flat.h5", cwd=many)
    assert "240 more" in flat
    assert len(revseq("show", "flat.h5").ok().out.splitlines()) == 302


@pytest.mark.needs("terminal")
@pytest.mark.parametrize("columns", [40, 80, 120])
def test_tables_fit_the_terminal(forked, tmp_path, columns):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        for name in ("temperature", "pressure"):
            f.create_dataset(name, data=X, chunks=(1, 3, 4), compression="gzip", shuffle=True)
            f[name].attrs["long_name"] = "a name that says " * 4
    for name in ("x.h5", "x.h5::/temperature"):
        out = in_columns(columns, *forked.command, "show", name, cwd=tmp_path)
        assert [line for line in out.splitlines() if len(line) > columns] == []
        assert "temperature" in out
        assert "FLOAT32" in out
