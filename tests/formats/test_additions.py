"""-o FILE::name where FILE exists: the tensor is added to FILE, and all else of FILE stays as it was."""

import json
import os
import shutil
import warnings
import zipfile
from functools import partial

import h5py
import netCDF4
import numpy as np
import oracle
import pytest
import safetensors
import xarray
import zarr
from safetensors.numpy import load_file, save_file
from tensor_files import open_

import revseq_cli.files
from revseq_cli.core.errors import UsageError
from revseq_cli.files.transactions import FileTransaction
from revseq_cli.formats import outputs, references

X = np.random.default_rng(1).integers(-500, 500, (5, 30, 7)).astype("<f4")
N = np.random.default_rng(2).integers(0, 31, (5, 1, 7)).astype("u4")
EXPECTED = oracle.reverse(X, N, 1)
OLD = np.arange(40, dtype="<i8").reshape(4, 10)
WHOLE = tuple(slice(0, size) for size in X.shape)


def make_npz(path, **tensors):
    np.savez_compressed(path, **tensors)


def make_safetensors(path, **tensors):
    save_file(tensors, path, {"made by": "a test"})


def make_h5(path, **tensors):
    with h5py.File(path, "w") as file:
        for name, values in tensors.items():
            data = file.create_dataset(name, data=values, chunks=True, compression="gzip")
            data.attrs["units"] = "K"


def make_nc(path, **tensors):
    data = {
        name: ([f"{name}_{d}" for d in range(values.ndim)], values, {"units": "K"})
        for name, values in tensors.items()
    }
    xarray.Dataset(data).to_netcdf(path, engine="netcdf4")


def make_zarr(version, path, **tensors):
    group = zarr.open_group(str(path), mode="w", zarr_format=version, attributes={"of": "a test"})
    for name, values in tensors.items():
        group.create_array(name, data=values, chunks=(2, 5, 7)[: values.ndim])
    with warnings.catch_warnings(action="ignore"):  # version 3 has no such copies yet
        zarr.consolidate_metadata(str(path), zarr_format=version)


def read_npz(path):
    with np.load(path) as file:
        return dict(file)


def read_h5(path):
    with h5py.File(path) as file:
        return {name: item[()] for name, item in file.items() if not item.is_scale}


def read_nc(path):
    with xarray.open_dataset(path) as file:
        return {str(name): item.values for name, item in file.data_vars.items()}


def read_zarr(path):
    group = zarr.open_group(str(path), mode="r")
    return {name: array[...] for name, array in group.arrays()}


FORMS = {
    "npz": (".npz", make_npz, read_npz),
    "safetensors": (".safetensors", make_safetensors, load_file),
    "h5": (".h5", make_h5, read_h5),
    "nc": (".nc", make_nc, read_nc),
    "zarr 2": (".zarr", partial(make_zarr, 2), read_zarr),
    "zarr 3": (".zarr", partial(make_zarr, 3), read_zarr),
}


def content(folder):
    """Every file below a folder, and its bytes."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.fixture(params=FORMS)
def form(request, tmp_path):
    """The suffix of a format, and what reads its files by their own library; FILE has the tensors old and x."""
    suffix, make, read = FORMS[request.param]
    make(tmp_path / f"FILE{suffix}", old=OLD, x=X)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "n.npy", N)
    return suffix, read


def require(found, **tensors):
    assert sorted(found) == sorted(tensors)
    for name, values in tensors.items():
        assert oracle.same_bits(np.asarray(found[name], values.dtype), values), name


def test_a_store_has_copies_of_its_metadata_if_it_had_some(tmp_path, revseq, files):
    for version in (2, 3):
        make_zarr(version, tmp_path / f"{version}.zarr", old=OLD)
        revseq("run", "x.npy", "n.npy", "--axis", 1, "-o", f"{version}.zarr::g/new").ok()
        group = zarr.open_group(str(tmp_path / f"{version}.zarr"), mode="r", use_consolidated=True)
        assert sorted(name for name, _ in group.members(max_depth=None)) == ["g", "g/new", "old"]
        assert group["g/new"].metadata.zarr_format == version


@pytest.mark.parametrize("source", FORMS)
def test_a_tensor_of_any_format_is_added(tmp_path, revseq, form, source):
    suffix, read = form
    name = f"in{FORMS[source][0]}"
    FORMS[source][1](tmp_path / name, a=X, other=OLD)
    for engine, key in (("serial", "new"), ("processes", "more")):
        job = ("run", f"{name}::a", "n.npy", "--axis", 1, "-o", f"FILE{suffix}::{key}")
        revseq(*job, "--engine", engine, "--jobs", 2, "--verify").ok()
    require(read(tmp_path / f"FILE{suffix}"), old=OLD, x=X, new=EXPECTED, more=EXPECTED)
    left = {"in" + FORMS[source][0], f"FILE{suffix}", "x.npy", "n.npy"}
    assert {path.name for path in tmp_path.iterdir()} == left


def test_overwrite_replaces_this_tensor_only(tmp_path, revseq, form):
    suffix, read = form
    path, job = f"FILE{suffix}", ("run", "x.npy", "n.npy", "--axis", 1, "-o", f"FILE{suffix}::old")
    before = content(tmp_path)
    revseq(*job).refused(f"{path}::", "old: exists already", "to replace it, add --overwrite")
    revseq(*job, "--overwrite", "--only").refused(path, "--only")
    revseq(*job, "--overwrite", "--dry-run").ok()
    assert content(tmp_path) == before
    revseq(*job, "--overwrite", "--verify").ok()
    require(read(tmp_path / path), old=EXPECTED, x=X)
    revseq("convert", "n.npy", f"{path}::n").ok()
    revseq("convert", "n.npy", f"{path}::n").refused("exists already")
    revseq("convert", "n.npy", f"{path}::old", "--overwrite").ok()
    require(read(tmp_path / path), old=N, x=X, n=N)


def test_a_file_that_is_not_there_is_made(tmp_path, revseq, form):
    suffix, read = form
    for key in ("a", "b"):
        job = ("run", "x.npy", "n.npy", "--axis", 1, "-o", f"new{suffix}::{key}", "--overwrite")
        revseq(*job).ok()
    require(read(tmp_path / f"new{suffix}"), a=EXPECTED, b=EXPECTED)


def create(path, key, source, *, overwrite=False):
    reference = references.Reference(str(path), key)
    return outputs.create_sink(reference, open_(source), overwrite=overwrite)


def fill(sink):
    write_result = sink.block_writer().deliver(WHOLE, EXPECTED)
    if write_result is not None:
        sink.receive(write_result)


def change(path):
    """Write the last bytes of a file again, or those of a file of a store."""
    if path.is_dir():
        path = next(file for file in (path / "x").rglob("*0") if file.is_file())
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        byte = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(byte)


@pytest.mark.parametrize("how", ["written", "replaced", "removed"])
def test_a_file_that_changes_meanwhile_is_not_replaced(tmp_path, form, how):
    path = tmp_path / f"FILE{form[0]}"
    copy = tmp_path / "copy"
    sink = create(path, "new", tmp_path / "x.npy")

    def work():
        with FileTransaction(sink.file), sink:
            fill(sink)
            if how == "written":
                change(path)
            else:
                os.rename(path, copy)
            if how == "replaced":
                (shutil.copytree if copy.is_dir() else shutil.copy)(copy, path)

    with pytest.raises(OSError, match="changed"):
        work()
    assert path.exists() == (how != "removed")
    if path.exists():
        require(form[1](path), old=OLD, x=X)
    assert not [*tmp_path.glob(".revseq*")]


def test_of_two_runs_at_once_one_gets_an_error(tmp_path, form):
    path = tmp_path / f"FILE{form[0]}"
    source = tmp_path / "x.npy"
    first, second = create(path, "a", source), create(path, "b", source)

    def work():
        with FileTransaction(first.file), first:
            fill(first)
            with FileTransaction(second.file), second:
                fill(second)

    with pytest.raises(OSError, match="was changed by another program in the meantime"):
        work()
    require(form[1](path), old=OLD, x=X, b=EXPECTED)
    new = tmp_path / f"new{form[0]}"
    first = create(new, "a", source, overwrite=True)
    second = create(new, "b", source, overwrite=True)
    with pytest.raises(OSError, match="created by another program in the meantime"):
        work()
    require(form[1](new), b=EXPECTED)


def test_the_inputs_own_file_is_refused(tmp_path, revseq, form):
    suffix = form[0]
    path = f"FILE{suffix}"
    revseq("convert", "n.npy", f"{path}::n").ok()
    names = [path]
    if (tmp_path / path).is_file():
        os.link(tmp_path / path, tmp_path / f"link{suffix}")
        names.append(f"link{suffix}")
    os.symlink(tmp_path / path, tmp_path / f"soft{suffix}")
    before = content(tmp_path)
    for name in [*names, f"soft{suffix}"]:
        for options in ((), ("--overwrite",)):
            for job in (("run", f"{path}::x", "n.npy"), ("run", "x.npy", f"{path}::n")):
                job = (*job, "--axis", 1, "-o", f"{name}::new", *options)
                revseq(*job).refused(name)
    assert content(tmp_path) == before
    revseq("run", "x.npy", "n.npy", "--axis", 1, "-o", f"soft{suffix}::new").ok()
    assert (tmp_path / f"soft{suffix}").is_symlink()


def test_a_batch_adds_to_files(tmp_path, revseq, form):
    suffix, read = form
    job = {"input": "x.npy", "lengths": "n.npy", "axis": 1, "output": f"FILE{suffix}::a"}
    rows = [job, job | {"output": f"FILE{suffix}::b"}]
    text = "\n".join(map(json.dumps, rows)).encode()
    revseq("batch", "-", stdin=text).refused("is in the file that line 1 writes")
    for row in rows:
        revseq("batch", "-", "--resume", stdin=json.dumps(row).encode()).ok()
    require(read(tmp_path / f"FILE{suffix}"), old=OLD, x=X, a=EXPECTED, b=EXPECTED)
    before = content(tmp_path)
    for row in rows:
        assert (
            "skipped" in revseq("batch", "-", "--resume", stdin=json.dumps(row).encode()).ok().out
        )
    assert content(tmp_path) == before


def test_a_file_of_another_format_is_refused(tmp_path, revseq, form):
    suffix, _ = form
    for name, data in (
        (f"text{suffix}", b"text"),
        (f"npy{suffix}", (tmp_path / "x.npy").read_bytes()),
    ):
        (tmp_path / name).write_bytes(data)
        job = ("run", "x.npy", "n.npy", "--axis", 1, "-o", f"{name}::new", "--overwrite")
        revseq(*job).refused(name)
        assert (tmp_path / name).read_bytes() == data


# Each format


def test_npz_members_keep_their_bytes(tmp_path, revseq, files):
    with zipfile.ZipFile(tmp_path / "FILE.npz", "w") as file:
        for name, method in (("a.npy", zipfile.ZIP_STORED), ("b.npy", zipfile.ZIP_DEFLATED)):
            file.write(files / "x.npy", name, method)
        file.writestr("notes.txt", "text", zipfile.ZIP_BZIP2)
        file.comment = b"a comment"
    before = (tmp_path / "FILE.npz").read_bytes()
    revseq("run", "x.npy", "n.npy", "--axis", 1, "-o", "FILE.npz::new").ok()
    after = (tmp_path / "FILE.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "FILE.npz") as file:
        assert file.testzip() is None
        assert file.namelist() == ["a.npy", "b.npy", "notes.txt", "new.npy"]
        assert file.comment == b"a comment"
        assert file.getinfo("notes.txt").compress_type == zipfile.ZIP_BZIP2
        start = file.getinfo("new.npy").header_offset
    assert after[:start] == before[:start]


def test_safetensors_metadata_and_order_stay(tmp_path, revseq, files):
    tensors = {name: np.full(size, size, "f4") for name, size in (("c", 3), ("a", 4), ("b", 5))}
    save_file(tensors, tmp_path / "FILE.safetensors", {"key": "value"})
    job = ("run", "x.npy", "n.npy", "--axis", 1, "-o", "FILE.safetensors::a", "--overwrite")
    revseq(*job).ok()
    with safetensors.safe_open(tmp_path / "FILE.safetensors", "np") as file:
        assert file.metadata() == {"key": "value"}
        assert {*file.keys()} == {"a", "b", "c"}
        assert [file.get_tensor(name).tolist() for name in "bc"] == [[5.0] * 5, [3.0] * 3]
        assert file.get_tensor("a").shape == (3, 4)


def test_hdf5_links_groups_references_and_types_stay(tmp_path, revseq, files):
    with h5py.File(tmp_path / "FILE.h5", "w", userblock_size=512) as f:
        data = f.create_dataset("g/data", data=OLD, chunks=(2, 5), compression="lzf", shuffle=True)
        data.attrs["points at"] = data.ref
        f["soft"], f["hard"] = h5py.SoftLink("/g/data"), data
        f["outer"] = h5py.ExternalLink("other.h5", "/x")
        f["kind"] = np.dtype("f4")
        f["texts"] = np.array(["a", "bc"], object)
        f.attrs["title"] = "a file"
        f["g"].attrs["note"] = np.arange(3)
    np.save(tmp_path / "b.npy", np.arange(12.0))
    job = ("run", "x.npy", "n.npy", "--axis", 1, "-o")
    revseq(*job, "FILE.h5::/g/deep/new").ok()
    with h5py.File(tmp_path / "FILE.h5") as f:
        assert f.userblock_size == 512
        assert (f.attrs["title"], f["g"].attrs["note"].tolist()) == ("a file", [0, 1, 2])
        assert f[f["g/data"].attrs["points at"]] == f["g/data"] == f["hard"] == f["soft"]
        assert f.get("outer", getlink=True).path == "/x"
        assert (f["g/data"].compression, f["g/data"].chunks) == ("lzf", (2, 5))
        assert f["texts"].asstr()[:].tolist() == ["a", "bc"]
        assert oracle.same_bits(f["g/data"][...], OLD)
        assert f["g/deep/new"].shape == (3, 4)
    for name in ("soft", "soft/x", "outer", "outer/x", "kind", "g", "g/data/x"):
        revseq(*job, f"FILE.h5::/{name}", "--overwrite").refused("FILE.h5")
    assert not (tmp_path / "other.h5").exists()
    size = (tmp_path / "FILE.h5").stat().st_size
    for _ in range(5):
        revseq(*job, "FILE.h5::/g/deep/new", "--overwrite").ok()
    assert (tmp_path / "FILE.h5").stat().st_size < size + 4096


def weather(values, lat, time_units="days since 2000-01-01", **attributes):
    time = ("time", np.arange(len(values), dtype="f8"), {"units": time_units})
    data = {"air": (("time", "lat"), values, {"units": "K"})}
    return xarray.Dataset(data, {"time": time, "lat": ("lat", lat)}, attributes)


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_dimensions_are_shared_where_they_are_the_same(tmp_path, revseq, suffix):
    values, lat = np.arange(12, dtype="f4").reshape(3, 4), np.arange(4.0)

    def make(name, data):
        if suffix == ".nc":
            data.to_netcdf(tmp_path / name, unlimited_dims=["time"])
        else:
            data.to_zarr(tmp_path / name)

    def read(name, **options):
        engine = {} if suffix == ".nc" else {"engine": "zarr"}
        with xarray.open_dataset(tmp_path / name, decode_times=False, **engine, **options) as file:
            return file.load()

    file = f"FILE{suffix}"
    make(file, weather(values, lat, title="results").rename(air="old"))
    make("same" + suffix, weather(values, lat, title="of the input"))
    make("other" + suffix, weather(values, lat + 1))
    make("units" + suffix, weather(values, lat, "days since 2001-01-01"))
    make("small" + suffix, weather(values[:2], lat))
    job = ("[2]", "--axis", 1, "-o")
    revseq("run", "same" + suffix + "::air", *job, file + "::air").ok()
    found = read(file)
    assert found.attrs["title"] == "results"
    assert (found.air.dims, found.air.attrs["units"]) == (("time", "lat"), "K")
    assert found.air.values.tolist() == [[r[1], r[0], *r[2:]] for r in values.tolist()]
    assert found.old.values.tolist() == values.tolist()
    for name in ("other", "units", "small"):
        done = revseq("run", f"{name}{suffix}::air", *job, f"{file}::{name}")
        done.refused(f"{file}::", "its dimension", f"group of its own, type {file}::{name}_group")
        revseq("run", f"{name}{suffix}::air", *job, f"{file}::{name}_group/{name}").ok()
        assert read(file, group=f"{name}_group")[name].sizes["lat"] == 4
    assert read(file).equals(found)


def test_a_group_of_a_zarr_store_keeps_the_name_of_a_coordinate(tmp_path, revseq):
    weather(np.ones((3, 4), "f4"), np.arange(4.0)).to_zarr(tmp_path / "in.zarr")
    zarr.create_array(str(tmp_path / "FILE.zarr"), name="lat/x", data=OLD)
    done = revseq("run", "in.zarr::air", "[2]", "--axis", 1, "-o", "FILE.zarr::air")
    done.refused("FILE.zarr::air", "its dimension lat", "type FILE.zarr::air_group/air")


def test_netcdf4_itself_extends_what_was_added(tmp_path, revseq):
    values = np.arange(12, dtype="f4").reshape(3, 4)
    weather(values, np.arange(4.0)).to_netcdf(tmp_path / "in.nc", unlimited_dims=["time"])
    with netCDF4.Dataset(tmp_path / "FILE.nc", "w") as file:
        file.createDimension("station", 2)
        file.createVariable("station", "i4", ("station",))[:] = [7, 8]
    revseq("run", "in.nc::air", "[2]", "--axis", 1, "-o", "FILE.nc::air").ok()
    with netCDF4.Dataset(tmp_path / "FILE.nc", "a") as file:
        assert {name: len(d) for name, d in file.dimensions.items()} == {
            "station": 2,
            "time": 3,
            "lat": 4,
        }
        file["air"][3] = 1
        file.createVariable("more", "f4", ("time", "station"))[:] = 5
    with netCDF4.Dataset(tmp_path / "FILE.nc") as file:
        assert file["air"].shape == (4, 4)
        assert file["station"][:].tolist() == [7, 8]
        assert file.history.endswith("FILE.nc::air")
    revseq("run", "in.nc::air", "[2]", "--axis", 1, "-o", "FILE.nc::time", "--overwrite").refused(
        "holds a dimension"
    )


def test_a_classic_model_has_no_groups(tmp_path, revseq, files):
    with netCDF4.Dataset(tmp_path / "FILE.nc", "w", format="NETCDF4_CLASSIC") as file:
        file.createDimension("x", 2)
        file.createVariable("v", "f4", ("x",))[:] = 1
    job = ("run", "x.npy", "n.npy", "--axis", 1, "-o")
    revseq(*job, "FILE.nc::g/new").refused("classic model")
    revseq(*job, "FILE.nc::new").ok()
    with netCDF4.Dataset(tmp_path / "FILE.nc") as file:
        assert file["new"].shape == (3, 4)


def test_a_store_that_is_an_array_or_has_a_group_of_the_name(tmp_path, revseq, files):
    zarr.create_array(str(tmp_path / "one.zarr"), data=OLD)
    zarr.create_array(str(tmp_path / "two.zarr"), name="g/x", data=OLD)
    before = content(tmp_path)
    job = ("run", "x.npy", "n.npy", "--axis", 1, "--overwrite", "-o")
    revseq(*job, "one.zarr::new").refused("one.zarr")
    revseq(*job, "two.zarr::g").refused("g is a group")
    revseq(*job, "two.zarr::g/x/new").refused("two.zarr")
    assert content(tmp_path) == before
    (tmp_path / "two.zarr" / "g" / "zarr.json").chmod(0o640)
    revseq(*job, "two.zarr::h/new").ok()
    assert (tmp_path / "two.zarr" / "g" / "zarr.json").stat().st_mode & 0o777 == 0o640
    group = zarr.open_group(str(tmp_path / "two.zarr"), mode="r")
    assert oracle.same_bits(group["g/x"][...], OLD)
    assert group["h/new"].shape == (3, 4)


def test_an_address_that_exists_is_refused(monkeypatch, files):
    monkeypatch.setattr(revseq_cli.files, "exists", lambda path: True)
    for overwrite in (False, True):
        with pytest.raises(UsageError, match="exists already; expected a new address"):
            create("s3://box/FILE.h5", "new", files / "x.npy", overwrite=overwrite)


def test_the_first_bytes_say_what_a_file_without_a_known_suffix_is(tmp_path, revseq, form):
    suffix, read = form
    os.rename(tmp_path / f"FILE{suffix}", tmp_path / "FILE.dat")
    revseq("run", "x.npy", "n.npy", "--axis", 1, "-o", "FILE.dat::new").ok()
    revseq("run", "x.npy", "n.npy", "--axis", 1, "-o", "FILE.dat").refused("FILE.dat")
    os.rename(tmp_path / "FILE.dat", tmp_path / f"FILE{suffix}")
    require(read(tmp_path / f"FILE{suffix}"), old=OLD, x=X, new=EXPECTED)
