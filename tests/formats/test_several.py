"""Several tensors of one file in one copy of it: `run x.nc::air,sst LENGTHS --keep-others -o y.nc`."""

import json
import zipfile

import h5py
import numpy as np
import oracle
import pandas as pd
import pytest
import tables
import xarray
import zarr
from safetensors.numpy import load_file, save_file

RNG = np.random.default_rng(5)
N = np.array([3, 0, 40, 7, 1], "u4")
TENSORS = {
    "other": RNG.normal(size=6), "sst": RNG.integers(0, 99, (40, 5, 6)).astype("i2"), "n": N,
    "air": RNG.normal(size=(40, 5, 6)).astype("f4"), "u": RNG.normal(size=(40, 5)), "last": np.arange(7),
}  # fmt: skip
DIMENSIONS = {"other": ["lon"], "n": ["lat"], "u": ["time", "lat"], "last": ["week"]}
FILES = ["x.nc", "x.h5", "x2.zarr", "x3.zarr", "x.npz", "deflated.npz", "x.safetensors"]
OPTIONS = ("--axis", 0, "--batch-axis", 1, "--feature-level", "none", "--keep-others")


def dataset():
    data = {name: (DIMENSIONS.get(name, ["time", "lat", "lon"]), values) for name, values in TENSORS.items()}
    return xarray.Dataset(data, {"time": np.arange(40), "lat": np.arange(5.0)}, {"title": "of several"})


def write(path):
    """The tensors in a file; in NetCDF-4 one deflated, one in chunks, and one contiguous."""
    encoding = {"air": {"zlib": True, "chunksizes": (10, 5, 6)}, "sst": {"chunksizes": (7, 5, 3)}}
    if path.suffix in (".nc", ".h5"):
        dataset().to_netcdf(path, engine="h5netcdf", encoding=encoding)
    elif path.suffix == ".zarr":
        chunks = {name: {"chunks": each["chunksizes"]} for name, each in encoding.items() if name == "sst"}
        version = int(path.stem[1])
        dataset().to_zarr(path, zarr_format=version, consolidated=version == 2, encoding=chunks)
    elif path.suffix == ".npz":
        (np.savez_compressed if path.stem == "deflated" else np.savez)(path, **TENSORS)
    else:
        save_file({name: np.ascontiguousarray(each) for name, each in TENSORS.items()}, path)


def read(path):
    """What the file holds, as others read it."""
    if path.suffix in (".nc", ".h5"):
        with xarray.open_dataset(path, engine="h5netcdf") as data:
            return {name: data[name].values for name in TENSORS}
    if path.suffix == ".zarr":
        return {name: zarr.open_array(f"{path}/{name}", mode="r")[...] for name in TENSORS}
    if path.suffix == ".safetensors":
        return load_file(path)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == [f"{name}.npy" for name in TENSORS]
    with np.load(path) as found:
        return dict(found)


def expected(names):
    of_lines = {3: np.broadcast_to(N.reshape(1, 5, 1), (1, 5, 6)), 2: N.reshape(1, 5)}
    return {
        name: oracle.reverse(values, of_lines[values.ndim], 0) if name in names else values
        for name, values in TENSORS.items()
    }


@pytest.mark.parametrize(("name", "names"), [*((name, ("u", "sst")) for name in FILES), ("x.nc", ("air", "sst", "u"))])
def test_each_is_reversed_and_all_else_stays(revseq, tmp_path, name, names):
    source = tmp_path / name
    write(source)
    output = f"y{source.suffix}"
    revseq("run", f"{name}::{','.join(names)}", f"{name}::n", *OPTIONS, "--verify", "-o", output).ok()
    found = read(tmp_path / output)
    for key, values in expected(names).items():
        assert oracle.same_bits(found[key], values), key
    revseq("run", f"{output}::{','.join(names)}", f"{name}::n", *OPTIONS, "-o", f"z{source.suffix}").ok()
    for key, values in read(tmp_path / f"z{source.suffix}").items():
        assert oracle.same_bits(values, TENSORS[key]), key
    assert len([*tmp_path.iterdir()]) == 3


def whole_copy(path):
    """The bytes of the file, if its filters do not shorten the tensor air."""
    with h5py.File(path) as f:
        return path.stat().st_size - f["air"].id.get_storage_size() + f["air"].nbytes


def test_the_file_is_copied_once_and_its_history_has_one_line(revseq, tmp_path):
    write(tmp_path / "x.nc")
    command = ("run", "x.nc::air,sst", "x.nc::n", *OPTIONS, "-o", "y.nc")
    plans = json.loads(revseq(*command, "--dry-run", "--json").ok().out)["tensors"]
    assert [each["name"] for each in plans] == ["x.nc::/air", "x.nc::/sst"]
    whole, sst = whole_copy(tmp_path / "x.nc"), TENSORS["sst"].nbytes
    assert [each["plan"]["write_bytes"] for each in plans] == [whole, sst]
    shown = revseq(*command, "--dry-run").ok().out
    assert [line for line in shown.splitlines() if line.startswith("x.nc")] == ["x.nc::/air", "x.nc::/sst"]
    done = json.loads(revseq(*command, "--json").ok().out)
    assert done["bytes"] == TENSORS["air"].nbytes + TENSORS["sst"].nbytes
    assert [(each["name"], each["InputTensor"]["DataType"], each["clamped"]) for each in done["tensors"]] == [
        ("x.nc::/air", "FLOAT32", 0), ("x.nc::/sst", "INT16", 0)
    ]  # fmt: skip
    with xarray.open_dataset(tmp_path / "y.nc") as data:
        assert data.attrs["history"].count("revseq run") == 1
        assert "x.nc::air,sst" in data.attrs["history"]
        assert data.attrs["title"] == "of several"


def test_a_name_with_a_comma_is_taken_first(revseq, tmp_path):
    np.savez(tmp_path / "x.npz", **{"a,b": TENSORS["u"], "a": TENSORS["u"], "b": TENSORS["u"]})
    revseq("run", "x.npz::a,b", "[3, 0, 40, 7, 1]", *OPTIONS, "-o", "y.npz").ok()
    with np.load(tmp_path / "y.npz") as found:
        assert oracle.same_bits(found["a,b"], expected(["u"])["u"])
        assert oracle.same_bits(found["a"], TENSORS["u"])


def test_lengths_from_a_pipe_are_for_all(revseq, tmp_path):
    write(tmp_path / "x.npz")
    revseq("run", "x.npz::air,u", "-", *OPTIONS, "-o", "y.npz", stdin=b"[3, 0, 40, 7, 1]").ok()
    assert oracle.same_bits(read(tmp_path / "y.npz")["u"], expected(["u"])["u"])


@pytest.mark.parametrize(
    ("names", "options", "words"),
    [
        ("air,sxt", OPTIONS, ("no such dataset", "this is about x.nc::sxt", "try x.nc::/sst")),
        ("air,/air", OPTIONS, ("air is named twice", "each tensor once")),
        ("air,other", OPTIONS, ("this is about x.nc::other",)),
        ("air,last,sst", ("--axis", 0, "--feature-level", "none", "--keep-others"), ("this is about x.nc::last",)),
        ("air,sst", OPTIONS[:-1], ("names 2 tensors", "add --keep-others")),
        ("air,sst", (*OPTIONS, "--picture", "x.svg"), ("draw one job",)),
        ("air,sst", (*OPTIONS, "--memory", "1K"), ("try --memory",)),
    ],
)
def test_what_is_refused_leaves_nothing(revseq, tmp_path, names, options, words):
    write(tmp_path / "x.nc")
    revseq("run", f"x.nc::{names}", "x.nc::n", *options, "-o", "y.nc").refused(*words)
    assert [each.name for each in tmp_path.iterdir()] == ["x.nc"]


def test_a_later_tensor_that_cannot_be_read_leaves_nothing(revseq, tmp_path):
    np.savez_compressed(tmp_path / "x.npz", **TENSORS)
    data = bytearray((tmp_path / "x.npz").read_bytes())
    info = zipfile.ZipFile(tmp_path / "x.npz").getinfo("u.npy")
    data[info.header_offset + info.compress_size // 2] ^= 255
    (tmp_path / "x.npz").write_bytes(data)
    revseq("run", "x.npz::air,u", "x.npz::n", *OPTIONS, "-o", "y.npz").refused("x.npz::u", "is damaged")
    assert [each.name for each in tmp_path.iterdir()] == ["x.npz"]


def test_a_job_of_a_batch_names_several(revseq, tmp_path):
    write(tmp_path / "x.nc")
    job = {"input": "x.nc::air,sst", "lengths": "x.nc::n", "axis": 0, "batch_axis": 1, "keep_others": True}
    jobs = [job | {"feature_level": "none", "output": "y.nc"}]
    (tmp_path / "jobs.jsonl").write_text("\n".join(map(json.dumps, jobs)))
    planned = json.loads(revseq("batch", "jobs.jsonl", "--dry-run", "--json").ok().out.splitlines()[0])
    assert planned["plan"]["write_bytes"] == whole_copy(tmp_path / "x.nc") + TENSORS["sst"].nbytes
    done = json.loads(revseq("batch", "jobs.jsonl", "--json").ok().out)
    assert done["bytes"] == TENSORS["air"].nbytes + TENSORS["sst"].nbytes
    found = read(tmp_path / "y.nc")
    for key, values in expected(["air", "sst"]).items():
        assert oracle.same_bits(found[key], values), key


def test_a_file_of_pytables(revseq, tmp_path):
    """Blosc, zlib, an array that grows, and an attribute that is pickled: PyTables reads them as before."""
    values = TENSORS["u"].T
    with tables.open_file(tmp_path / "x.h5", "w") as f:
        f.create_carray("/", "c", obj=values, filters=tables.Filters(5, "blosc"))
        f.create_carray("/", "z", obj=values, filters=tables.Filters(5, "zlib"))
        f.create_earray("/g", "e", obj=values, createparents=True)
        f.root.c._v_attrs.settings = {"x": 1}
    job = ("run", "x.h5::c,z,g/e", "[3, 0, 40, 7, 1]", "--axis", 1, "--batch-axis", 0, "--feature-level", "none")
    revseq(*job, "--keep-others", "--verify", "-o", "y.h5").ok()
    with tables.open_file(tmp_path / "y.h5") as f:
        for node in (f.root.c, f.root.z, f.root.g.e):
            assert oracle.same_bits(node[:], oracle.reverse(values, N.reshape(5, 1), 1))
        assert f.root.c._v_attrs.settings == {"x": 1}
        assert (f.root.c.filters.complib, f.root.g.e.extdim) == ("blosc", 0)


def test_frames_of_pandas(revseq, tmp_path):
    """A fixed one, whose numbers are one dataset, beside one in the form of a table, which stays."""
    frame = pd.DataFrame({"a": np.arange(6.0), "b": np.arange(6.0) * 2}, pd.date_range("2020", periods=6))
    frame.to_hdf(tmp_path / "x.h5", key="fixed")
    frame.to_hdf(tmp_path / "x.h5", key="table", format="table")
    job = ("run", "x.h5::fixed/block0_values", "[3, 2]", "--axis", 0, "--batch-axis", 1, "--feature-level", "none")
    revseq(*job, "--keep-others", "-o", "y.h5").ok()
    found = pd.read_hdf(tmp_path / "y.h5", "fixed")
    assert found["a"].tolist() == [2, 1, 0, 3, 4, 5]
    assert found["b"].tolist() == [2, 0, 4, 6, 8, 10]
    assert found.index.equals(frame.index)
    assert pd.read_hdf(tmp_path / "y.h5", "table").equals(frame)


def test_a_file_of_matlab(revseq, tmp_path):
    """Its header stands in a user block in front of HDF5."""
    header = b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM"
    with h5py.File(tmp_path / "x.mat", "w", userblock_size=512) as f:
        for name in ("x", "y"):
            f.create_dataset(name, data=TENSORS["u"]).attrs["MATLAB_class"] = np.bytes_("double")
    with (tmp_path / "x.mat").open("r+b") as file:
        file.write(header)
    revseq("run", "x.mat::x,y", "[3, 0, 40, 7, 1]", *OPTIONS, "-o", "z.mat").ok()
    assert (tmp_path / "z.mat").read_bytes().startswith(header)
    with h5py.File(tmp_path / "z.mat") as f:
        for name in ("x", "y"):
            assert oracle.same_bits(f[name][...], expected(["u"])["u"])
            assert f[name].attrs["MATLAB_class"] == b"double"
