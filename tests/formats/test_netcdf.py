"""Outputs that NetCDF's own library, xarray and HDF5's tools open, read and write; what they lack, a note names."""

import json
import shutil
import subprocess

import h5py
import libraries
import netCDF4
import numpy as np
import oracle
import pytest
import xarray
from generated import Place
from needs import NEEDS
from oracle import expected
from processes import peak

VALUES = np.random.default_rng(1).random((5, 4, 6)).astype("f4")
LENGTHS = np.random.default_rng(2).integers(0, 5, (5, 1, 6)).astype("u4")
RESULT = expected(VALUES, LENGTHS, 1)
RUN = ("run", "x.nc::/v", "n.npy", "--axis", 1, "-o", "y.nc", "--verify")


def make(path, **options):
    """A file as models write it: dimensions that v lacks, bounds, two-dimensional coordinates, text labels."""
    with netCDF4.Dataset(path, "w", **options) as f:
        for name, size in {"unused": 7, "time": None, "lat": 4, "lon": 6, "bnds": 2, "len": 3}.items():
            f.createDimension(name, size)
        f.setncatts({"title": "t", "zeta": 1.0, "alpha": 2.0, "Conventions": "CF-1.11"})
        time = f.createVariable("time", "f8", ("time",))
        time.setncatts({"units": "days since 2000-01-01", "bounds": "time_bnds", "calendar": "standard"})
        f.createVariable("time_bnds", "f8", ("time", "bnds"))[:] = np.arange(10.0).reshape(5, 2)
        time[:] = np.arange(5.0)
        f.createVariable("lon2d", "f4", ("lat", "lon"))[:] = 1
        f.createVariable("label", "S1", ("time", "len"))[:] = "a"
        f.createVariable("crs", "i4", ())[...] = 1
        v = f.createVariable("v", "f4", ("time", "lat", "lon"), zlib=True, chunksizes=(1, 4, 6))
        v.setncatts({
            "units": "K", "coordinates": "lon2d label", "grid_mapping": "crs: time lon2d", "zz": 1, "aa": 2,
            "cell_measures": "area: in_another_file", "cell_methods": "time: mean",
        })  # fmt: skip
        v[:] = VALUES
        f.createVariable("lat", "f4", ("lat",))[:] = np.arange(4)


@pytest.fixture(params=["NETCDF4", "NETCDF4_CLASSIC"])
def folder(tmp_path, request):
    np.save(tmp_path / "n.npy", LENGTHS)
    make(tmp_path / "x.nc", format=request.param)
    return tmp_path


def dumped(path):
    """What ncdump -h has of a file: dimensions, variables and attributes, in their order."""
    with netCDF4.Dataset(path) as f:
        found = {"dimensions": [(d.name, len(d), d.isunlimited()) for d in f.dimensions.values()]}
        for name, v in {"": f, **f.variables}.items():
            found[name] = [(key, np.asarray(v.getncattr(key)).tolist()) for key in v.ncattrs()]
        return found | {"variables": [(v.name, v.dimensions, v.dtype) for v in f.variables.values()]}


def test_h69_the_output_is_a_netcdf_file(folder, revseq):
    revseq(*RUN).ok()
    with netCDF4.Dataset(folder / "x.nc") as f, netCDF4.Dataset(folder / "y.nc") as g:
        assert list(g.variables) == ["time", "time_bnds", "lon2d", "label", "crs", "v", "lat"]
        assert list(g.dimensions) == ["time", "lat", "lon", "bnds", "len"]
        assert g.dimensions["time"].isunlimited()
        assert g.data_model == f.data_model
        assert g.ncattrs() == f.ncattrs() == ["title", "zeta", "alpha", "Conventions"]
        for name in g.variables:
            assert g[name].ncattrs() == f[name].ncattrs()
            assert g[name].dimensions == f[name].dimensions
        assert oracle.same_bits(g["v"][:].data, RESULT)
        assert oracle.same_bits(g["time"][:].data, f["time"][:].data)
    with xarray.open_dataset(folder / "y.nc", engine="netcdf4") as found:
        assert oracle.same_bits(found["v"].values, RESULT)
        assert found["v"].dims == ("time", "lat", "lon")


def test_h69_netcdf_writes_into_the_output(folder, revseq):
    revseq(*RUN).ok()
    with netCDF4.Dataset(folder / "y.nc", "a") as g:
        g["v"].note = "changed"
        g.createVariable("new", "f4", ("time", "lon"))[:] = 1
        g["time"][:] = np.arange(6.0)
        g["time_bnds"][:] = np.arange(12.0).reshape(6, 2)
    with netCDF4.Dataset(folder / "y.nc") as g:
        assert g["v"].note == "changed"
        assert g["v"].shape == (6, 4, 6)
    xarray.Dataset({"more": ("time", np.arange(6.0))}).to_netcdf(folder / "y.nc", mode="a", engine="netcdf4")
    with xarray.open_dataset(folder / "y.nc", engine="netcdf4") as found:
        assert set(found.data_vars) == {"v", "crs", "new", "more", "time_bnds"}


def test_what_attributes_name_goes_along_as_it_is_stored(folder, revseq):
    with netCDF4.Dataset(folder / "x.nc", "a") as f:
        if f.data_model == "NETCDF4":
            kind, pairs = f.createEnumType("i1", "flag_t", {"A": 0, "B": 1}), np.dtype([("a", "f4"), ("b", "i4")])
            for name in ("flag", "other"):
                f.createVariable(name, kind, ("lat", "bnds"))[:] = np.eye(4, 2)
            f.createVariable("pair", f.createCompoundType(pairs, "pair_t"), ("lat",))[:] = np.ones(4, pairs)
            f.createVariable("lists", f.createVLType("i4", "list_t"), ("lat",))[1] = np.arange(3, dtype="i4")
            f.createVariable("text", str, ("len",))[:] = np.array(["a", "", "ö" * 70_000], object)
            f["v"].ancillary_variables = "flag other pair lists text v"
    told = json.loads(revseq(*RUN, "--json").ok().out)
    assert not any("coordinates" in note or "names" in note for note in told["notes"])
    before, after = dumped(folder / "x.nc"), dumped(folder / "y.nc")
    assert before.pop("dimensions")[1:] == after.pop("dimensions")  # without the unused one
    assert after == before
    first = (folder / "y.nc").read_bytes()
    with h5py.File(folder / "x.nc") as f, h5py.File(folder / "y.nc") as g:
        for name, made in g.items():
            if isinstance(made, h5py.Dataset) and name != "v":
                assert made.id.get_type().equal(f[name].id.get_type())
                assert (made.chunks, made.maxshape) == (f[name].chunks, f[name].maxshape)
                assert [[*d.keys()] for d in made.dims] == [[*d.keys()] for d in f[name].dims]
                assert repr(made[()].tolist()) == repr(f[name][()].tolist())
            if name in ("lists", "text"):  # which are made anew, and not at any time
                assert not made.id.get_create_plist().get_obj_track_times()
    revseq(*RUN, "--overwrite").ok()
    if NEEDS["HDF5"][0]:  # else the root group has the time
        assert (folder / "y.nc").read_bytes() == first
    assert revseq(*RUN, "--overwrite").ok().err == ""


def test_a_scale_of_text(tmp_path, revseq):
    """NetCDF gives it a fill value, and HDF5's own function for copies leaves that without its text."""
    with netCDF4.Dataset(tmp_path / "x.nc", "w") as f:
        f.createDimension("name", 3)
        f.createVariable("name", str, ("name",))[:] = np.array(["a", "bö", ""], object)
        f.createVariable("v", "f4", ("name",))[:] = np.arange(3)
    revseq("convert", "x.nc::v", "y.nc").ok()
    with netCDF4.Dataset(tmp_path / "y.nc", "a") as g:
        assert g["name"][:].tolist() == ["a", "bö", ""]
        assert g["v"].dimensions == ("name",)


def test_what_cannot_go_along_is_told(tmp_path, revseq):
    """Where the name is taken, or means nothing from there; references; a dataset that is damaged or elsewhere."""
    with h5py.File(tmp_path / "x.h5", "w", track_order=True) as f:
        f.create_group("g", track_order=True)["b"] = 2
        f["g/v"] = np.arange(3)
        f["g/v"].attrs["coordinates"] = "a b text refs virtual gone v /g/sub/c"
        f["g/v"].attrs["bounds"] = "sparse"
        f["kind"], f["g/sub/c"] = np.dtype("i4"), 3
        f.create_dataset("a", data=1, dtype=f["kind"])
        f["a"].attrs["ancillary_variables"] = "g/v a"
        f["g/refs"] = np.array([f["a"].ref], h5py.ref_dtype)
        f["g/text"] = np.array(["x" * 5000], object)
        layout = h5py.VirtualLayout((1,), "i4")
        layout[:] = h5py.VirtualSource("other.h5", "x", (1,))  # h5py before 3.12 makes none without a source
        f.create_virtual_dataset("g/virtual", layout)
        sparse = f.create_dataset("g/sparse", (1 << 44,), "u1", chunks=(1 << 16,), compression="gzip")
        sparse[1 << 43] = 7
    left = "/g/v: the attribute coordinates names {}, not copied"
    assert left.format("refs, virtual") in notes(tmp_path, revseq, "g/v")
    assert left.format("b, refs, virtual").replace("/g/v", "/g/b") in notes(tmp_path, revseq, "g/b")
    assert left.format("b, text, refs, virtual").replace("/g/v", "/w") in notes(tmp_path, revseq, "w")
    with h5py.File(tmp_path / "y.h5") as g:
        assert (g["a"][()], g["g/sub/c"][()]) == (1, 3)
        assert h5py.h5i.get_name(g["a"].id.get_type()) == b"/kind"
    data = (tmp_path / "x.h5").read_bytes()
    start = data.rindex(b"GCOL", 0, data.index(b"x" * 5000))  # the heap of this text
    (tmp_path / "x.h5").write_bytes(data[:start] + b"gone" + data[start + 4 :])
    assert left.format("text, refs, virtual") in notes(tmp_path, revseq, "g/v")
    with h5py.File(tmp_path / "y.h5") as g:
        assert g["g/sparse"][1 << 43] == 7
        assert [*g["g"]] == ["b", "v", "sub", "sparse"]
    assert (tmp_path / "y.h5").stat().st_size < 200_000


def notes(folder, revseq, key):
    (folder / "y.h5").unlink(missing_ok=True)
    told = revseq("convert", "x.h5::g/v", f"y.h5::{key}", "--verify", "--json").ok().out
    return json.loads(told)["notes"]


def test_the_scale_itself_is_reversed(folder, revseq):
    np.save(folder / "one.npy", np.array([4], "u4"))
    revseq("run", "x.nc::/lat", "one.npy", "--axis", 0, "-o", "y.nc", "--verify").ok()
    with netCDF4.Dataset(folder / "y.nc", "a") as g:
        assert g["lat"][:].tolist() == [3, 2, 1, 0]
        assert g["lat"].dimensions == ("lat",)


def test_a_coordinate_variable_of_two_dimensions(tmp_path, revseq):
    """It is the scale of its first dimension, and names the second one by number only."""
    with netCDF4.Dataset(tmp_path / "x.nc", "w") as f:
        for name, size in (("gap", 3), ("time", 5), ("other", 2), ("width", 4)):
            f.createDimension(name, size)
        f.createVariable("time", "u1", ("time", "width"))[:] = np.arange(20).reshape(5, 4)
        f.createVariable("v", "f4", ("time",))[:] = np.arange(5)
    np.save(tmp_path / "n.npy", np.array([5], "u4"))
    np.save(tmp_path / "n2.npy", np.full((1, 4), 5, "u4"))
    revseq("run", "x.nc::/v", "n.npy", "--axis", 0, "-o", "y.nc").ok()
    revseq("run", "x.nc::/time", "n2.npy", "--axis", 0, "-o", "z.nc").ok()
    for name in "yz":
        with netCDF4.Dataset(tmp_path / f"{name}.nc", "a") as g:
            assert g["time"].dimensions == ("time", "width")
            assert list(g.dimensions) == ["time", "width"]
    assert netCDF4.Dataset(tmp_path / "y.nc")["v"][:].tolist() == [4, 3, 2, 1, 0]
    assert netCDF4.Dataset(tmp_path / "z.nc")["time"][:, 0].tolist() == [16, 12, 8, 4, 0]


def test_a_variable_in_a_group_with_dimensions_above_it(tmp_path, revseq):
    with netCDF4.Dataset(tmp_path / "x.nc", "w") as f:
        f.createDimension("gap", 3)
        f.createDimension("lat", 4)
        group = f.createGroup("outer").createGroup("inner")
        f["outer"].setncatts({"z": 1, "a": 2})
        group.createDimension("z", 2)
        group.createVariable("v", "f4", ("z", "lat"))[:] = np.arange(8).reshape(2, 4)
        group["v"].coordinates = "/aux height"
        f.createVariable("aux", "f4", ("lat",))[:] = 1
        f["outer"].createVariable("height", "f4", ("lat",))[:] = 1
    np.save(tmp_path / "n.npy", np.full((2, 1), 3, "u4"))
    done = revseq("run", "x.nc::/outer/inner/v", "n.npy", "--axis", 1, "-o", "y.nc").ok()
    assert "coordinates" not in done.err
    with netCDF4.Dataset(tmp_path / "y.nc", "a") as g:
        assert g["outer"].ncattrs() == ["z", "a"]
        assert g["outer/height"].dimensions == g["aux"].dimensions == ("lat",)
        assert g["outer/inner/v"].dimensions == ("z", "lat")
        assert g["outer/inner/v"][:].tolist() == [[2, 1, 0, 3], [6, 5, 4, 7]]


def test_keep_others_keeps_the_file(folder, revseq):
    done = revseq(*RUN, "--json").ok()
    assert json.loads(done.out)["notes"] == []
    assert dumped(folder / "y.nc") == dumped(folder / "x.nc")
    with netCDF4.Dataset(folder / "x.nc") as f, netCDF4.Dataset(folder / "y.nc", "a") as g:
        for name in f.variables:
            wanted = RESULT if name == "v" else f[name][:].data
            assert oracle.same_bits(g[name][:].data, wanted), name
        g["v"].note = "NetCDF writes into it"
    if shutil.which("ncdump"):
        headers = [
            subprocess.run(["ncdump", "-h", folder / name], capture_output=True, text=True, check=True).stdout
            for name in ("x.nc", "y.nc")
        ]
        assert headers[0].replace("netcdf x", "netcdf y") == headers[1].replace(
            '\t\tv:note = "NetCDF writes into it" ;\n', ""
        )


def test_references_still_point_at_the_same_objects(tmp_path, revseq):
    np.save(tmp_path / "n.npy", LENGTHS)
    with h5py.File(tmp_path / "x.h5", "w", userblock_size=512) as f:
        f["other/z"] = np.arange(5.0)
        f["v"] = VALUES
        f["v"].attrs["see"] = f["other/z"].ref
        f["other"].attrs["back"] = f["v"].ref
        f["part"] = h5py.SoftLink("/v")
        f["gone"] = h5py.ExternalLink("elsewhere.h5", "/x")
        f["words"] = np.array(["a", "bé"], object)
        f["kind"] = np.dtype([("a", "i4"), ("b", "f8")])
        f["regions"] = np.array([f["v"].regionref[0:2, :, 1]], h5py.regionref_dtype)
    with (tmp_path / "x.h5").open("r+b") as file:
        file.write(b"a block of the user's")
    for engine in ("serial", "processes"):
        job = ("run", "x.h5::v", "n.npy", "--axis", 1, "-o", "y.h5", "--overwrite", "--verify")
        revseq(*job, "--engine", engine).ok()
        assert (tmp_path / "y.h5").read_bytes()[:21] == b"a block of the user's"
        with h5py.File(tmp_path / "y.h5") as g:
            assert oracle.same_bits(g["v"][()], RESULT)
            assert g[g["v"].attrs["see"]].name == "/other/z"
            assert g[g["other"].attrs["back"]].name == "/v"
            assert oracle.same_bits(g["part"][()], RESULT)
            assert g.get("gone", getlink=True).filename == "elsewhere.h5"
            assert g["words"].asstr()[:].tolist() == ["a", "bé"]
            assert g["kind"].dtype.names == ("a", "b")
            region = g["regions"][0]
            assert oracle.same_bits(g[region][region].reshape(2, 4), RESULT[0:2, :, 1])


MADE = [
    Place("npy"), Place("h5", (("group", True),)), Place("nc"), Place("h5", (("chunks", (2, 2)), ("filters", ("gzip",)))),
    Place("zarr", (("codec", "none"), ("version", 3), ("chunks", (2, 2)))), Place("txt"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("place", "key"), [*((place, "") for place in MADE), *((place, "::a/b/c") for place in MADE[:3])]
)
def test_netcdf_and_xarray_add_to_what_was_no_netcdf_file(tmp_path, revseq, place, key):
    """Their library opens a file for writing only if all of its groups remember the order of their links."""
    values = np.arange(6, dtype="f4").reshape(2, 3)
    name = libraries.make(place, tmp_path / "x", values, "FLOAT32")
    revseq("run", name, "[[2], [3]]", "--axis", 1, "-o", f"y.nc{key}").ok()
    revseq("convert", name, f"z.nc{key}").ok()
    right = {"y.nc": expected(values, np.array([[2], [3]]), 1), "z.nc": values}
    for path, wanted in right.items():
        with netCDF4.Dataset(tmp_path / path, "a") as f:
            f.createDimension("new", 4)
            f.createVariable("new", "f4", ("new",))[:] = 1
            f.createGroup("group").note = "added"
        xarray.Dataset({"more": ("w", np.arange(3.0))}).to_netcdf(tmp_path / path, mode="a")
        with h5py.File(tmp_path / path) as f:
            found = [item for each in f.values() for item in datasets_of(each) if item.shape == (2, 3)]
            assert [oracle.same_bits(each[()], wanted) for each in found] == [True]
            assert (f["new"][()].tolist(), f["more"][()].tolist()) == ([1] * 4, [0, 1, 2])


def datasets_of(item):
    """The dataset itself, or those of a group and of the groups in it."""
    return (
        [item] if isinstance(item, h5py.Dataset) else [each for inner in item.values() for each in datasets_of(inner)]
    )


def lzf_of(data):
    """An LZF stream of bytes that are a run of one byte at the end, and else like no others."""
    run = len(data) - 990
    literals = b"".join(
        bytes([len(part) - 1]) + part for part in (data[i : min(i + 32, 990)] for i in range(0, 990, 32))
    )
    return literals + bytes([0xE0, run - 9, 0])


def test_a_chunk_in_the_place_of_one_with_another_filter_mask(tmp_path, revseq):
    """Where the new chunk has the old one's size, HDF5 keeps the old mask, and nobody could read the chunk."""
    data = np.random.default_rng(3).bytes(990)
    data += data[-1:] * 34
    with h5py.File(tmp_path / "x.h5", "w") as f:
        made = f.create_dataset("v", (1, 1024), "u1", chunks=(1, 1024), compression="lzf")
        made.id.write_direct_chunk((0, 0), lzf_of(data), 0)
        f["other"] = 1.0
    with h5py.File(tmp_path / "x.h5") as f:
        assert f["v"][()].tobytes() == data
        assert f["v"].id.get_chunk_info(0).size == 1024
    revseq("run", "x.h5::v", "[[1024]]", "--axis", 1, "-o", "y.h5", "--verify").ok()
    with h5py.File(tmp_path / "y.h5") as f:
        assert f["v"][()].tobytes() == data[::-1]
        assert f["v"].id.get_chunk_info(0).filter_mask == 1  # LZF cannot make it smaller


@pytest.mark.parametrize(("axis", "by_records"), [(0, False), (2, True)])
def test_keep_others_leaves_little_dead_space_and_the_same_bytes(tmp_path, revseq, axis, by_records):
    """New chunks fill the room of old ones, whatever ends first; along the first axis they are a tenth larger."""
    rng, sizes, chunks = np.random.default_rng(1), (32, 128, 256), (4, 64, 128)
    with netCDF4.Dataset(tmp_path / "x.nc", "w") as f:
        for name, size in zip("tyx", sizes, strict=True):
            f.createDimension(name, None if by_records and name == "t" else size)
        made = [f.createVariable(n, "f4", tuple("tyx"), zlib=True, chunksizes=chunks) for n in "abc"]
        step = 4 if by_records else 32
        for start in range(0, 32, step):
            for each in made:
                each[start : start + step] = np.cumsum(rng.integers(-3, 4, (step, 128, 256)), axis=2)
    np.save(
        tmp_path / "n.npy", rng.integers(0, 300, [1 if d == axis else size for d, size in enumerate(sizes)], np.uint32)
    )
    job = ("run", "x.nc::b", "n.npy", "--axis", axis, "--jobs", 2)
    for i, engine in enumerate(("serial", "processes")):
        revseq(*job, "--engine", engine, "-o", f"{i}.nc").ok()
    assert len({(tmp_path / f"{i}.nc").read_bytes() for i in range(3)}) == 1

    def held(path):
        """The bytes of all chunks."""
        with h5py.File(path) as f:
            return sum(f[name].id.get_storage_size() for name in "abc")

    x, y = tmp_path / "x.nc", tmp_path / "0.nc"
    dead = (y.stat().st_size - held(y)) - (x.stat().st_size - held(x))
    assert dead <= 0.01 * y.stat().st_size


def test_verify_names_the_output_and_no_temporary_file(tmp_path, revseq):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("v", data=np.arange(64.0).reshape(8, 8), chunks=(2, 8), compression="gzip")
        f["other"] = 1.0
    code = (
        "from revseq_cli.formats.hdf5 import sink\n"
        "receive, broken = sink.Hdf5Sink.receive, lambda chunk: chunk._replace(data=bytes(len(chunk.data)))\n"
        "sink.Hdf5Sink.receive = lambda self, chunks: receive(self, [*map(broken, chunks)])"
    )
    job = ("run", "x.h5::v", "[[3],[3],[3],[3],[3],[3],[3],[3]]", "--axis", 1, "-o", "y.h5", "--verify")
    for more in ((), ("--keep-others",)):
        done = revseq(*job, *more, code=code).refused("y.h5::/v: what was written cannot be read: the chunk at [0, 0]")
        assert ".revseq" not in done.err
        assert "fetch" not in done.err
        assert "Hint: run it again" in done.err
    done = revseq("convert", "x.h5::v", "y.h5", "--verify", code=code).refused("what was written cannot be read")
    assert ".revseq" not in done.err


def test_what_keep_others_cannot_do(folder, revseq):
    job = ("run", "x.nc::/v", "n.npy", "--axis", 1, "-o")
    revseq(*job, "y.npy").refused("the other tensors need a copy of the input's file", "y.npy", "leave out")
    revseq(*job, "y.nc", "--compression", "gzip").refused("keeps the storage", "leave out")
    revseq(*job, "y.nc", "--chunks", "auto").refused("keeps the storage", "leave out")
    revseq(*job, "y.nc::/w").refused("the result replaces x.nc::/v", "add -o y.nc")
    revseq(*job[:-1]).refused("apply only to a file", "add -o out.nc")
    revseq("convert", "x.nc::/v", "-").refused("apply only to a file")
    revseq("run", "[[1]]", "[[1]]", "--axis", 1, "-o", "y.h5").refused("a copy of the input's file")
    assert sorted(path.name for path in folder.iterdir()) == ["n.npy", "x.nc"]


def test_names_under_which_netcdf_would_not_find_the_dimensions(tmp_path, revseq):
    with netCDF4.Dataset(tmp_path / "x.nc", "w") as f:
        f.createDimension("lat", 4)
        f.createVariable("x", "f4", ("lat", "lat"))[:] = 0
        f["x"].setncattr_string("coordinates", "other ../other")
        f.createVariable("other", "f4", ())[...] = 1
        group = f.createGroup("g")
        group.createDimension("z", 6)
        group.createVariable("y", "f4", ("lat", "z"))[:] = 0
    np.save(tmp_path / "n.npy", np.full((4, 1), 3, "u4"))
    job = ("n.npy", "--axis", 1, "-o")
    revseq("run", "x.nc::g/y", *job, "y.nc::/y").refused("the dimension /g/z would not be visible", "add -o y.nc::/g/y")
    done = revseq("run", "x.nc::x", *job, "y.nc::/new/x").ok()
    assert "coordinates" not in done.err
    with netCDF4.Dataset(tmp_path / "y.nc", "a") as g:
        assert g["other"][...] == 1
        assert g["new/x"].dimensions == ("lat", "lat")
    make(tmp_path / "c.nc", format="NETCDF4_CLASSIC")
    np.save(tmp_path / "m.npy", LENGTHS)
    revseq("run", "c.nc::v", "m.npy", *job[1:], "z.nc::/new/v").refused("has no groups", "add -o z.nc::/v")


@pytest.mark.needs("peak")
def test_keep_others_within_the_memory_for_what_was_never_written(tmp_path, revseq):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("x", (1 << 12, 1 << 13), "f4", fillvalue=2)
    np.save(tmp_path / "n.npy", np.full((1 << 12, 1), 5, "u4"))
    _, memory, status = peak(tmp_path, "run", "x.h5", "n.npy", "--axis", 1, "-o", "y.h5", "--memory", "32MiB")
    assert status == 0
    assert memory < 100 << 10, memory  # KiB; the tensor has 128 MiB
    with h5py.File(tmp_path / "y.h5") as g:
        assert (g["x"][::1000] == 2).all()


# With types of its own, as a file may have in any group, and all types that NetCDF has.
CDL = """netcdf x {
types:
  compound pair_t { float t; int q; };
  byte enum cloud_t { Clear = 0, Cumulus = 1, Stratus = 2 };
  int(*) list_t;
dimensions:
  time = UNLIMITED ; lat = 3 ; lon = 4 ;
variables:
  double time(time) ;
  short air(time, lat, lon) ; air:scale_factor = 0.5 ; air:_FillValue = -99s ; air:_DeflateLevel = 3 ;
  cloud_t air:worst = Stratus ; pair_t air:first = {1.5, 2} ; list_t air:odd = {1, 2} ;
  cloud_t cloud(lat, lon) ;
  pair_t pairs(lat) ;
  string names(lat) ;
  uint64 big(lat) ; int64 neg(lat) ; ubyte ub(lat) ; uint n(lat) ;
data:
  time = 0, 6 ;
  air = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, _ ;
  cloud = Clear, Cumulus, Stratus, Clear, Clear, Clear, Clear, Clear, Stratus, Stratus, Clear, Cumulus ;
  pairs = {1.5, 2}, {2.5, 3}, {3.5, 4} ;
  names = "x", "yö", "" ;
  big = 1, 2, 18446744073709551615 ; neg = -1, -2, -3 ; ub = 1, 2, 255 ; n = 2, 0, 9 ;
group: g { variables: int v(lat, lon) ; data: v = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 ; }
}"""
OF_TYPES = ["byte enum cloud_t {Clear = 0, Cumulus = 1, Stratus = 2} ;", "compound pair_t {", "int(*) list_t ;"]


def text_of(path):
    return subprocess.run(["ncdump", path], capture_output=True, text=True, check=True).stdout


@pytest.mark.needs("ncdump")
def test_files_of_ncgen(tmp_path, revseq):
    """What it makes of a text, ncdump reads from ours: an enumeration has a name, without which it would be skipped."""
    (tmp_path / "x.cdl").write_text(CDL)
    subprocess.run(["ncgen", "-k", "nc4", "-o", "x.nc", "x.cdl"], cwd=tmp_path, check=True)
    assert "stored as enumeration of Clear, Cumulus, Stratus" in revseq("show", "x.nc").ok().out
    for name in ("air", "cloud", "big", "neg", "ub", "n", "time", "g/v"):
        output = f"{name.replace('/', '-')}.nc"
        revseq("convert", f"x.nc::{name}", output, "--verify").ok()
        revseq("diff", f"x.nc::{name}", f"{output}::{name}").ok()
        text = text_of(tmp_path / output)
        assert f"\n {name.rpartition('/')[2]} =" in text.replace("  ", "")
        assert [line in text for line in OF_TYPES] == [name in ("air", "cloud"), name == "air", name == "air"]
    for line in ("cloud_t air:worst = Stratus ;", "pair_t air:first = {1.5, 2} ;", "list_t air:odd = {1, 2} ;"):
        assert line in text_of(tmp_path / "air.nc")
    told = revseq("convert", "x.nc::cloud", "cloud.zarr", "--json").ok()
    assert "not copied: the names of its enumeration" in json.loads(told.out)["notes"]
    job = ("x.nc::air,cloud,g/v", "x.nc::n", "--axis", "lon", "--like", "numpy")
    revseq("run", *job, "-o", "x2.nc", "--verify").ok()
    (tmp_path / "y").mkdir()
    (tmp_path / "x2.nc").rename(tmp_path / "y/x.nc")
    before, after = (text_of(tmp_path / name).splitlines() for name in ("x.nc", "y/x.nc"))
    changed = [(a.strip(" ;"), b.strip(" ;")) for a, b in zip(before, after, strict=True) if a != b]
    assert ("Clear, Cumulus, Stratus, Clear,", "Cumulus, Clear, Stratus, Clear,") in changed
    assert ("9, 10, 11, 12", "12, 11, 10, 9") in changed
    assert ("21, 22, 23, _", "_, 23, 22, 21") in changed
    assert len(changed) == 8


def test_a_type_does_not_stand_where_the_output_will(tmp_path, revseq):
    with netCDF4.Dataset(tmp_path / "x.nc", "w") as f:
        kind = f.createEnumType("i1", "t", {"A": 0, "B": 1})
        f.createDimension("n", 2)
        f.createVariable("v", kind, ("n",))[:] = [0, 1]
    for i, name in enumerate(("t", "t/v", "v")):
        revseq("convert", "x.nc::v", f"y{i}.nc::{name}").ok()
        revseq("diff", "x.nc::v", f"y{i}.nc::{name}").ok()
