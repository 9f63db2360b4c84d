"""`show FILE` says what a file holds: as a list, as a tree, in lines for scripts and in JSON; no values are read."""

import json
import subprocess
import zipfile

import h5py
import netCDF4
import numpy as np
import pytest
import zarr
from conftest import COMMAND, SAMPLES
from safetensors.numpy import save_file
from terminals import on_terminal

from revseq_cli.core.platform import quoted

X = np.arange(24, dtype="f4").reshape(2, 3, 4)


def keras(path, layers=3):
    with h5py.File(path, "w") as f:
        f.attrs["backend"] = "none"
        for i in range(layers):
            group = f.create_group(f"layers/dense {i}/vars")
            group.parent.attrs["name"] = "dense"
            group.create_dataset("0", data=X, chunks=(1, 3, 4), compression="gzip").attrs["trainable"] = True
            group["1"] = np.zeros(4, "f8")
        f["config"] = "text"


def archive(path):
    with open(path, "wb") as f:
        np.savez(f, **{"a b": X, "c/d": X.T, "e::f": np.arange(3), "text": np.array("x")})
    header = np.lib.format.magic(1, 0) + b"\x76\x00{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }"
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as f:
        f.writestr("z.npy", header.ljust(128) + b"123")
        f.writestr("notes.txt", "notes")


def store(path, version=3):
    root = zarr.open_group(path, mode="w", zarr_format=version, attributes={"a": 1})
    group = root.create_group("g", attributes={"b": 1, "c": 2})
    names = {3: {"dimension_names": [*"xyz"]}, 2: {"attributes": {"_ARRAY_DIMENSIONS": [*"xyz"]}}}[version]
    group.create_array("v", shape=X.shape, dtype="f4", **names)[:] = X
    root.create_array("text", shape=(2,), dtype="i4")
    names = path / "text" / (".zarray" if version == 2 else "zarr.json")
    kind = ("<i4", "<U3") if version == 2 else ("int32", "string")
    names.write_text(names.read_text().replace(f'"{kind[0]}"', f'"{kind[1]}"'))


def virtual(file):
    layout = h5py.VirtualLayout((4,), "f4")
    layout[:] = h5py.VirtualSource("other.h5", "y", (4,))
    file.create_virtual_dataset("virtual", layout)


def lines(done):
    return [" ".join(line.split()) for line in done.ok().out.splitlines()]


def test_hdf5_is_a_tree(revseq, tmp_path):
    keras(tmp_path / "x.h5", 2)
    found = revseq("show", "x.h5").ok().out.splitlines()
    assert [len(line) - len(line.lstrip()) for line in found] == [0, 2, 2, 2, 4, 6, 8, 8, 4, 6, 8, 8]
    assert [" ".join(line.split()) for line in found[:8]] == [
        "x.h5: h5, 4 tensors, 5 groups, 1 other, 1 attribute",
        "name DataType Sizes attributes storage",
        "config text {} 0 layout contiguous",
        "layers/ 0",
        f"{quoted('dense 0')}/ 1",
        "vars/ 0",
        "0 FLOAT32 {2,3,4} 1 chunks (1, 3, 4), filters gzip",
        "1 FLOAT64 {4} 0 layout contiguous",
    ]
    assert {line.index("FLOAT") for line in found if "FLOAT" in line} == {found[1].index("DataType")}


def test_a_group(revseq, tmp_path):
    keras(tmp_path / "x.h5", 2)
    found = lines(revseq("show", "x.h5::layers/dense 1"))
    assert found[0] == "x.h5::/layers/dense 1: h5, 2 tensors, 1 group, 1 attribute"
    assert found[2:] == [
        "vars/ 0",
        "0 FLOAT32 {2,3,4} 1 chunks (1, 3, 4), filters gzip",
        "1 FLOAT64 {4} 0 layout contiguous",
    ]
    assert lines(revseq("show", "x.h5::/"))[1:] == lines(revseq("show", "x.h5"))[1:]
    store(tmp_path / "x.zarr")
    assert lines(revseq("show", "x.zarr::g"))[0] == "x.zarr::g: zarr, 1 tensor, 2 attributes"
    assert lines(revseq("show", "x.zarr::g"))[2].startswith("v FLOAT32 {2,3,4} x, y, z 0 ")


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_is_a_tree(revseq, tmp_path, version):
    store(tmp_path / "x.zarr", version)
    found = lines(revseq("show", "x.zarr"))
    assert found[0] == "x.zarr: zarr, 1 tensor, 1 group, 1 other, 1 attribute"
    assert found[1:3] == ["name DataType Sizes dimensions attributes storage", "g/ 2"]
    assert found[3].startswith(f"v FLOAT32 {{2,3,4}} x, y, z {3 - version} chunks (2, 3, 4), codecs ")
    assert found[4].startswith("text ")


def test_an_archive(revseq, tmp_path):
    archive(tmp_path / "x.npz")
    stored = "method stored, version 1, order"
    assert lines(revseq("show", "x.npz")) == [
        "x.npz: npz, 4 tensors, 2 others", "name DataType Sizes storage",
        f"{quoted('a b')} FLOAT32 {{2,3,4}} {stored} C, byte order little-endian",
        f"c/d FLOAT32 {{4,3,2}} {stored} F, byte order little-endian",
        f"e::f INT64 {{3}} {stored} C, byte order little-endian",
        "text <U1, which is not a number", "z UINT8 {3} method deflated, version 1, order C", "notes.txt no .npy file",
    ]  # fmt: skip


def test_safetensors(revseq, tmp_path):
    save_file({"a": X, "b": np.zeros(3, "i8")}, tmp_path / "x.safetensors", {"format": "np"})
    found = lines(revseq("show", "x.safetensors"))
    assert found[0] == "x.safetensors: safetensors, 2 tensors, 1 attribute"
    assert sorted(found[2:]) == ["a FLOAT32 {2,3,4} dtype F32", "b INT64 {3} dtype I64"]


def test_a_text_and_a_page(revseq, tmp_path):
    (tmp_path / "x.txt").write_text("a: (Sizes:{2}, DataType:INT8)\n[1, 2]\n\nc: (Sizes:{1}, DataType:X)\n[1]\n")
    assert lines(revseq("show", "x.txt")) == [
        "x.txt: text, 1 tensor, 1 other", "name DataType Sizes storage", "a INT8 {2} line 1",
        "c line 4, column 25: 'X' is not a data type",
    ]  # fmt: skip
    page = SAMPLES / "page.md"
    assert revseq("show", page).ok().out == (
        f"{page}: text, 2 tensors, 3 others\n"
        "  name          DataType  Sizes      storage\n"
        "  1             an example, line 10: InputTensor, SequenceTensor, OutputTensor\n"
        "  2             an example, line 28: InputTensor, SequenceTensor, OutputTensor\n"
        "  ATensor       FLOAT32   {1,1,1,2}  line 49\n"
        "  BTensor       FLOAT32   {1,1,1,2}  line 52\n"
        "  OutputTensor  one of several of that name, line 55\n"
    )
    for name in revseq("show", page, "--names").ok().out.splitlines():
        revseq("show", name).ok()


def test_netcdf(revseq, tmp_path):
    with netCDF4.Dataset(tmp_path / "x.nc", "w") as f:
        for name, size in {"time": None, "lat": 2}.items():
            f.createDimension(name, size)
        f.createVariable("time", "f8", ("time",))[:] = np.arange(3.0)
        f.createVariable("b", "f4", ("time", "lat"))[:] = 1
        f.createVariable("a", "i2", ("lat",))[:] = 1
        f.title = "t"
    found = lines(revseq("show", "x.nc"))
    assert [line.split()[:4] for line in found[2:]] == [  # in the order in which they were made, as ncdump has it
        ["time", "FLOAT64", "{3}", "time"], ["lat", "dimension", "{2}", "lat"],
        ["b", "FLOAT32", "{3,2}", "time,"], ["a", "INT16", "{2}", "lat"],
    ]  # fmt: skip
    assert lines(revseq("show", "x.nc", "--names")) == ["x.nc::/time", "x.nc::/b", "x.nc::/a"]


def test_what_is_no_tensor(revseq, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["x"], f["y"] = X, X
        f["empty"], f["table"] = h5py.Empty("f4"), np.zeros(3, [("id", "i4"), ("at", "f8")])
        f["list"] = np.array([np.arange(2), np.arange(3)], h5py.vlen_dtype("i4"))
        f["again"], f["soft"], f["away"] = f["x"], h5py.SoftLink("/x"), h5py.ExternalLink("other.h5", "/y")
        f["type"] = np.dtype("f8")
        f["loop"] = f["/"]
        virtual(f)
    found = {line.split(" ")[0]: line.partition(" ")[2] for line in lines(revseq("show", "x.h5"))[2:]}
    assert found["again"] == "FLOAT32 {2,3,4} 0 layout contiguous"
    assert found["x"] == "another name of /again"
    assert found["soft"] == "a soft link to /x"
    assert found["away"] == "an external link to other.h5::/y"
    assert found["type"] == "a data type"
    assert found["loop"] == "another name of /"
    assert found["table"].startswith("a compound of id, at {3} 0")
    assert found["list"].startswith("a list of any length {2} 0")
    assert found["virtual"].startswith("is a virtual dataset, made of other files")
    assert "no elements" in found["empty"]
    assert lines(revseq("show", "x.h5", "--names")) == ["x.h5::/again", "x.h5::/y"]
    others = {each["name"]: each["what"] for each in json.loads(revseq("show", "x.h5", "--json").ok().out)["others"]}
    assert others["x.h5::/away"] == "an external link to other.h5::/y"
    assert len(others) == 9


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
    assert any(line.startswith(f"{quoted('a b')} is damaged: ") for line in lines(revseq("show", "x.npz")))


@pytest.mark.parametrize("name", ["x.h5", "x.npz", "x.zarr", "x.safetensors"])
def test_nothing_at_all(revseq, tmp_path, name):
    h5py.File(tmp_path / "x.h5", "w").close()
    np.savez(tmp_path / "x.npz")
    zarr.open_group(tmp_path / "x.zarr", mode="w")
    save_file({}, tmp_path / "x.safetensors")
    assert revseq("show", name).ok().out == f"{name}: {name[2:]}, 0 tensors\n"
    assert revseq("show", name, "--names").ok().out == ""


def test_a_file_of_one_tensor_is_shown_as_ever(revseq, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["x"], f["s"] = X, np.arange(2)
        f["s"].make_scale()
        f["x"].dims[0].attach_scale(f["s"])
    np.savez(tmp_path / "x.npz", x=X)
    root = zarr.open_group(tmp_path / "x.zarr", mode="w")
    root.create_array("g/x", shape=X.shape, dtype="f4")[:] = X
    for name, key in {"x.h5": "/x", "x.npz": "x", "x.zarr": "g/x"}.items():
        done = revseq("show", name).ok()
        assert done.out == revseq("show", f"{name}::{key}").ok().out
        assert done.out.startswith(f"{name}::{key}\n  DataType         FLOAT32\n")
        assert "[ 4,  5,  6,  7]" in done.out
    # But whoever asks for the names gets all of them.
    assert lines(revseq("show", "x.h5", "--names")) == ["x.h5::/s", "x.h5::/x"]
    np.savez(tmp_path / "one.npz", x=np.array("text"))
    assert lines(revseq("show", "one.npz")) == ["one.npz: npz, 0 tensors, 1 other", "x <U4, which is not a number"]


def test_lines_for_scripts(revseq, tmp_path):
    keras(tmp_path / "x.h5", 1)
    np.save(tmp_path / "x.npy", np.float16(1))
    archive(tmp_path / "x.npz")
    files = ("x.h5", "x.npy", "x.npz")
    done = revseq("show", *files, "--shape").ok()  # of several, the names are told, too
    assert done.out == revseq("show", *files, "--shape", "--names").ok().out
    assert [line.split("\t") for line in done.out.splitlines()] == [
        ["2 3 4", "x.h5::/layers/dense 0/vars/0"], ["4", "x.h5::/layers/dense 0/vars/1"], ["", "x.npy"],
        ["2 3 4", "x.npz::a b"], ["4 3 2", "x.npz::c/d"], ["3", "x.npz::e::f"], ["3", "x.npz::z"],
    ]  # fmt: skip
    for line in done.out.splitlines():  # each name is one to type
        shape, name = line.split("\t")
        assert revseq("show", name, "--shape").ok().out == f"{shape}\n"
    revseq("show", "x.npy", "--shape", "--json").refused("lines for scripts")


def test_names_of_texts_and_standard_input(revseq, tmp_path, files):
    (tmp_path / "x.txt").write_text("T: (Sizes:{2}, DataType:INT8)\n[1, 2]\n")
    page = revseq("show", SAMPLES / "page.md::1", "--shape").ok().out.splitlines()
    roles = ["InputTensor", "SequenceLengthsTensor", "OutputTensor"]
    assert [line.partition("::")[2] for line in page] == [f"1::{role}" for role in roles]
    for line in page:
        shape, name = line.split("\t")
        assert revseq("show", name, "--shape").ok().out == f"{shape}\n"
    assert lines(revseq("show", "x.txt", "x.npy", "--names")) == ["x.txt", "x.npy"]
    assert revseq("show", "-", "--names", stdin=(tmp_path / "x.npy").read_bytes()).ok().out == "-\n"


def test_dtype_says_what_bytes_are(revseq, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(3, "V2"))
    assert "DataType         BFLOAT16" in revseq("show", "x.npy", "--dtype", "bfloat16").ok().out
    revseq("show", "x.npy").refused("bytes without a name")
    revseq("show", "x.npy", "--dtype=FLOAT33").refused("'FLOAT33' is not a data type")


def test_a_name_with_a_line_break_stays_one_line(revseq, tmp_path):
    np.savez(tmp_path / "x.npz", **{"a\nb": X, "c\x1bd": X})
    assert revseq("show", "x.npz", "--names").ok().out == "x.npz::a\\nb\nx.npz::c\x1bd\n"
    assert json.loads(revseq("show", "x.npz", "--json").ok().out)["tensors"][0]["name"] == "x.npz::a\nb"
    assert "\n  a\\nb " in revseq("show", "x.npz").ok().out


def test_json_has_all(revseq, tmp_path):
    keras(tmp_path / "x.h5", 1)
    report = json.loads(revseq("show", "x.h5", "--json").ok().out)
    assert report["tensors"][0] == {
        "name": "x.h5::/layers/dense 0/vars/0", "DataType": "FLOAT32", "Sizes": [2, 3, 4], "dimensions": [], "attributes": 1,
        "bytes": 96, "format": "h5", "storage": {"chunks": "(1, 3, 4)", "filters": "gzip"}, "notes": [],
    }  # fmt: skip
    assert report["groups"][1] == {"name": "x.h5::/layers/dense 0", "attributes": 1}
    assert report["others"] == [{"name": "x.h5::/config", "what": "text", "Sizes": [], "attributes": 0}]
    assert report["files"] == [{"name": "x.h5", "format": "h5", "attributes": 1}]
    assert report["errors"] == []


def test_statistics_of_all(revseq, tmp_path):
    keras(tmp_path / "x.h5", 1)
    done = revseq("show", "x.h5", "--stats", "-q").ok()
    assert done.out.count("  mean             ") == 2
    assert "max              23" in done.out
    found = json.loads(revseq("show", "x.h5", "--stats", "--json").ok().out)["tensors"]
    assert [each["statistics"]["max"] for each in found] == [23, 0]


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
    assert [each["name"] for each in report["errors"]] == ["bad.h5", "none.npy"]
    assert report["errors"][1]["error"] == "Error: none.npy: no such file"
    for names in (("none.npy", "none.npy"), ("none.npy", "bad.h5")):
        done = revseq("show", *names)
        assert (done.status, done.out, done.err.count("Error: ")) == (2, "", 2)
        done = revseq("show", *names, "--json")
        assert (done.status, [each["name"] for each in json.loads(done.out)["errors"]]) == (2, [*dict.fromkeys(names)])
    revseq("show", "none.npy").refused("none.npy: no such file")
    revseq("show", "x.h5::none").refused("no such dataset")


@pytest.mark.parametrize("make", [keras, store])
def test_no_values_are_read(revseq, tmp_path, make):
    """A terabyte is listed, and values that cannot be decoded are not looked at."""
    with h5py.File(tmp_path / "large.h5", "w") as f:
        for name in "ab":
            f.create_dataset(name, (1 << 20, 1 << 20), "f4", chunks=(1, 1 << 20), compression="gzip")
    assert lines(revseq("show", "large.h5"))[2].startswith("a FLOAT32 {1048576,1048576} 0 chunks (1, 1048576)")
    make(tmp_path / "x")
    names = ("x", "-f", {keras: "h5", store: "zarr"}[make])
    before = revseq("show", *names).ok().out
    if make is store:
        for path in (tmp_path / "x").rglob("c/*/*/*"):
            path.write_bytes(b"damaged")
    else:
        data = (tmp_path / "x").read_bytes()
        assert X.tobytes() in data or make is keras
        (tmp_path / "x").write_bytes(data.replace(X.tobytes(), b"\xff" * X.nbytes))
    assert revseq("show", *names).ok().out == before


def test_a_thousand_datasets(revseq, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w", libver="latest") as f:
        for i in range(32):
            group = f.create_group(f"g{i:02}")
            for j in range(32):
                group.create_dataset(f"d{j:02}", (2, 3), "f4")
    found = revseq("show", "x.h5", "--names").ok().out.splitlines()
    assert found == [f"x.h5::/g{i:02}/d{j:02}" for i in range(32) for j in range(32)]


# Terminals

SCREEN = {"COLUMNS": "80", "LINES": "24"}


def shown(folder, *args, env=(), width=80):
    status, out, err = on_terminal(*COMMAND, "show", *args, cwd=folder, env=SCREEN | dict(env))
    assert (status, err) == (0, "")
    assert all(len(line) <= width for line in out.splitlines()), out
    return out.splitlines()


@pytest.mark.needs("terminal")
def test_a_list_on_a_terminal_ends_with_what_to_type(revseq, tmp_path):
    archive(tmp_path / "x.npz")
    found = shown(tmp_path, "x.npz")
    assert found[2] == "  'a b'      FLOAT32   {2,3,4}  method stored, version 1, order C, byte order l…"
    assert found[-1] == "one of them: revseq show 'x.npz::a b'"
    subprocess.run([*COMMAND, "show", "x.npz::a b"], cwd=tmp_path, capture_output=True, check=True)


@pytest.mark.needs("terminal")
def test_a_long_list_is_cut_to_one_screen(revseq, tmp_path):
    np.savez(tmp_path / "x.npz", **{f"a{i:03}": X for i in range(500)})
    found = shown(tmp_path, "x.npz")
    assert len(found) == 23
    assert found[-1] == "480 of 500 are not shown: --full shows all"
    assert len(shown(tmp_path, "x.npz", "--full", width=90)) == 502
    assert len(revseq("show", "x.npz").ok().out.splitlines()) == 502
    assert len(shown(tmp_path, "x.npz", "--names")) == 500


@pytest.mark.needs("terminal")
def test_of_a_large_tree_the_upper_levels_are_shown(tmp_path):
    keras(tmp_path / "x.h5", 12)
    found = shown(tmp_path, "x.h5")
    assert [" ".join(line.split()) for line in found[4:6]] == [f"'dense {i}'/ 1 3 inside" for i in range(2)]
    assert found[-1] == "36 of 50 are not shown: --full shows all, revseq show x.h5::/layers a group"
    assert len(found) == 17
    assert len(shown(tmp_path, "x.h5::/layers/dense 1")) == 6


@pytest.mark.needs("terminal")
def test_names_on_a_terminal_are_escaped_and_wide_ones_fit(tmp_path):
    np.savez(tmp_path / "x.npz", **{"a\x1b[31m": X, "温度": X, "x" * 70: X})
    out = "\n".join(shown(tmp_path, "x.npz"))
    assert "\x1b" not in out
    assert r"a\x1b[31m" in out
    assert "x" * 70 in out
    assert "\x1b" not in "\n".join(shown(tmp_path, "x.npz", "--names", env={"COLUMNS": "200"}))


def test_the_only_tensor_of_a_file_is_an_error_where_it_is_damaged(revseq, tmp_path):
    np.savez(tmp_path / "x.npz", x=X)
    data = (tmp_path / "x.npz").read_bytes()
    (tmp_path / "x.npz").write_bytes(data.replace(b"descr", b"d\x00scr"))
    revseq("show", "x.npz").refused("x.npz::x: is damaged: ")
    with h5py.File(tmp_path / "x.h5", "w") as f:
        virtual(f)
    revseq("show", "x.h5").refused("is a virtual dataset, made of other files")
    with h5py.File(tmp_path / "y.h5", "w") as f:
        f["names"] = "text"
    assert lines(revseq("show", "y.h5"))[2] == "names text {} 0 layout contiguous"
