"""NetCDF-4 outputs: copies of the input's file with a variable replaced or added, and variables alone.

netCDF4, h5netcdf, xarray and ncdump open them, find the same dimensions, and write into them.
"""

import json
import random
import subprocess
import time

import h5py
import netCDF4
import numpy as np
import oracle
import pytest
import xarray
from oracle import expected

from revseq_cli.core import platform
from revseq_cli.core.dtypes import dtype_of
from revseq_cli.core.tensors import DataType
from revseq_cli.formats.attributes import as_neutral

VALUES = np.random.default_rng(1).random((5, 4, 6)).astype("f4")
LENGTHS = np.random.default_rng(2).integers(0, 5, (5, 1, 6)).astype("u4")
RESULT = expected(VALUES, LENGTHS, 1)
RUN = ("run", "x.nc::/v", "n.npy", "--axis", 1, "--verify", "-o")


def make(path, **options):
    """A file as models write it: dimensions that v lacks, bounds, two-dimensional coordinates, text labels."""
    with netCDF4.Dataset(path, "w", **options) as f:
        for name, size in {
            "unused": 7,
            "time": None,
            "lat": 4,
            "lon": 6,
            "bnds": 2,
            "len": 3,
        }.items():
            f.createDimension(name, size)
        f.setncatts({"title": "t", "zeta": 1.0, "alpha": 2.0, "Conventions": "CF-1.11"})
        times = f.createVariable("time", "f8", ("time",))
        times.setncatts(
            {"units": "days since 2000-01-01", "bounds": "time_bnds", "calendar": "standard"}
        )
        f.createVariable("time_bnds", "f8", ("time", "bnds"))[:] = np.arange(10.0).reshape(5, 2)
        times[:] = np.arange(5.0)
        f.createVariable("lon2d", "f4", ("lat", "lon"))[:] = 1
        f.createVariable("label", "S1", ("time", "len"))[:] = "a"
        f.createVariable("crs", "i4", ())[...] = 1
        v = f.createVariable("v", "f4", ("time", "lat", "lon"), zlib=True, chunksizes=(1, 4, 6))
        v.setncatts(
            {
                "units": "K",
                "coordinates": "lon2d label",
                "grid_mapping": "crs: time lon2d",
                "zz": 1,
                "empty": "",
            }
        )
        v[:] = VALUES
        f.createVariable("lat", "f4", ("lat",))[:] = np.arange(4)
        if options.get("format") != "NETCDF4_CLASSIC":
            flags = f.createEnumType("i1", "flag_t", {"A": 0, "B": 1})
            f.createVariable("flag", flags, ("lat", "bnds"))[:] = np.eye(4, 2)
            f.createGroup("g").createVariable("deep", "f4", ("lat",))[:] = 1


@pytest.fixture(params=["NETCDF4", "NETCDF4_CLASSIC"])
def folder(tmp_path, request):
    np.save(tmp_path / "n.npy", LENGTHS)
    make(tmp_path / "x.nc", format=request.param)
    return tmp_path


def dumped(path):
    """What ncdump -h has of a file: dimensions, variables and attributes, in their order; without the history."""
    with netCDF4.Dataset(path) as f:
        found = {"dimensions": [(d.name, len(d), d.isunlimited()) for d in f.dimensions.values()]}
        for name, v in {"": f, **f.variables}.items():
            found[name] = {
                key: np.asarray(v.getncattr(key)).tolist()
                for key in v.ncattrs()
                if key != "history"
            }
        return found | {
            "variables": {v.name: (v.dimensions, v.dtype) for v in f.variables.values()}
        }


def same_but(path, old, *changed):
    """Whether all variables but some have the values that they had."""
    with netCDF4.Dataset(old) as f, netCDF4.Dataset(path) as g:
        for name in {*f.variables} - {*changed}:
            assert repr(g[name][...].tolist()) == repr(f[name][...].tolist()), name


def grows(path, name):
    """Whether netCDF4 and xarray write into a file, and make a variable longer."""
    with netCDF4.Dataset(path, "a") as g:
        g.createVariable("fresh", "f4", ("time", "lon"))[:] = 1
        g["time"][:] = np.arange(6.0)
    with netCDF4.Dataset(path) as g:
        assert g[name].shape == (6, 4, 6)
        assert oracle.same_bits(g[name][:5].data, RESULT)
    xarray.Dataset({"more": ("time", np.arange(6.0))}).to_netcdf(path, mode="a", engine="netcdf4")
    with xarray.open_dataset(path, engine="netcdf4", decode_times=False) as found:
        assert {name, "fresh", "more"} <= {*found.data_vars}


def test_h69_a_copy_has_all_of_the_file(folder, revseq):
    [note] = json.loads(revseq(*RUN, "y.nc", "--json").ok().out)["notes"]
    assert note.startswith("not reversed: ")
    assert "/lon2d" in note
    assert dumped(folder / "y.nc") == dumped(folder / "x.nc")
    same_but(folder / "y.nc", folder / "x.nc", "v")
    with netCDF4.Dataset(folder / "y.nc") as g:
        assert g["v"].chunking() == [1, 4, 6]
    grows(folder / "y.nc", "v")
    (folder / "x.nc").rename(folder / "x.h5")  # it is one by its marks, too
    revseq("run", "x.h5::v", "n.npy", "--axis", 1, "-o", "z.nc").ok()
    same_but(folder / "z.nc", folder / "x.h5", "v")


def test_h69_a_variable_is_added_with_its_dimensions(folder, revseq):
    [note] = json.loads(revseq(*RUN, "y.nc::new", "--json").ok().out)["notes"]
    assert note.startswith("not reversed: ")
    assert "/lon2d" in note
    before, after = dumped(folder / "x.nc"), dumped(folder / "y.nc")
    assert after.pop("new") == before["v"]
    assert after["variables"].pop("new") == before["variables"]["v"]
    assert after == before
    same_but(folder / "y.nc", folder / "x.nc")
    for engine in ("netcdf4", "h5netcdf"):
        with xarray.open_dataset(folder / "y.nc", engine=engine, decode_times=False) as data:
            assert data["new"].dims == ("time", "lat", "lon")
            assert oracle.same_bits(data["new"].values, RESULT)
            assert {*data["new"].coords} == {*data["v"].coords} >= {"time", "lat", "lon2d"}
            assert data["new"].encoding["zlib"]
    with h5py.File(folder / "y.nc") as f:
        assert [[each.name for each in f["new"].dims[d].values()] for d in range(3)] == [
            ["/time"],
            ["/lat"],
            ["/lon"],
        ]
    grows(folder / "y.nc", "new")


def test_a_variable_that_has_the_name_of_a_dimension_and_is_not_its_coordinate(tmp_path, revseq):
    """In an output without NetCDF's names; those with them are generated below."""
    with netCDF4.Dataset(tmp_path / "x.nc", "w") as f:
        f.createDimension("lat", 2)
        f.createDimension("z", 3)
        for name in ("z", "lat"):  # the latter is a coordinate, of two dimensions
            f.createVariable(name, "f4", ("lat", "z"))[:] = VALUES[0, :2, :3]
    shown = json.loads(revseq("show", "x.nc::z", "x.nc::lat", "--json").ok().out)["tensors"]
    assert [tensor["dimensions"] for tensor in shown] == [["lat", "z"]] * 2
    revseq("convert", "x.nc::z", "y.h5").ok()
    with h5py.File(tmp_path / "y.h5") as f:
        assert oracle.same_bits(f["z"][()], np.ascontiguousarray(VALUES[0, :2, :3]))
        assert [dimension.label for dimension in f["z"].dims] == ["", "z"]


def test_names_that_an_added_variable_cannot_have(tmp_path, revseq):
    with netCDF4.Dataset(tmp_path / "x.nc", "w") as f:
        f.createDimension("lat", 4)
        f.createVariable("x", "f4", ("lat", "lat"))[:] = 0
        group = f.createGroup("g")
        group.createDimension("z", 6)
        group.createVariable("y", "f4", ("lat", "z"))[:] = 0
    np.save(tmp_path / "n.npy", np.full((4, 1), 3, "u4"))
    job = ("n.npy", "--axis", 1, "-o")
    revseq("run", "x.nc::g/y", *job, "y.nc::/y").refused(
        "a dimension of /g would not be visible from /y"
    )
    revseq("run", "x.nc::x", *job, "y.nc::/new/group/x").ok()
    revseq("run", "y.nc::g/y", *job, "z.nc::/g/more/y").ok()
    with netCDF4.Dataset(tmp_path / "z.nc", "a") as g:
        assert g["new/group/x"].dimensions == ("lat", "lat")
        assert g["g/more/y"].dimensions == ("lat", "z")
    make(tmp_path / "c.nc", format="NETCDF4_CLASSIC")
    revseq("run", "c.nc::v", "3", *job[1:], "d.nc::/new/v").refused(
        "has no groups", "a name without /"
    )


def history(path):
    """The history of a file, as netCDF4 and xarray read it."""
    with netCDF4.Dataset(path) as f:
        text = f.history
    with xarray.open_dataset(path, engine="h5netcdf", decode_times=False) as f:
        assert f.attrs["history"] == text
    return text


NOON = {"SOURCE_DATE_EPOCH": "1795316400"}
LINE = "Sun Nov 22 03:00:00 2026: revseq run x.nc::/v n.npy --axis 1 --verify -o y.nc"


def test_the_history_gets_a_line_before_the_others(folder, revseq):
    for old in ("two\nlines, größer", ""):
        with netCDF4.Dataset(folder / "x.nc", "a") as f:
            f.history = old
        for options in ((), ("--only",)):
            revseq(*RUN, "y.nc", *options, "--overwrite", env=NOON).ok()
            lines = " ".join([LINE, *options, "--overwrite"]) + (f"\n{old}" if old else "")
            assert history(folder / "y.nc") == lines
    with h5py.File(folder / "x.nc", "a") as f:  # as before 2016, when NetCDF had no mark
        f.attrs.pop("_NCProperties", None)
        del f.attrs["history"]
    revseq(*RUN, "y.nc", "--overwrite", env=NOON).ok()
    assert history(folder / "y.nc") == f"{LINE} --overwrite"
    revseq("convert", "y.nc::v", "b b.nc", env={"SOURCE_DATE_EPOCH": "0"}).ok()
    first = f"Thu Jan  1 00:00:00 1970: revseq convert y.nc::v {platform.quote('b b.nc')}"
    assert history(folder / "b b.nc") == f"{first}\n{LINE} --overwrite"
    before = time.time() - 1
    lengths = json.dumps(LENGTHS.tolist()) + " " * 2000
    revseq("run", "x.nc::v", lengths, "--axis", 1, "-o", "z.nc").ok()
    moment, _, command = history(folder / "z.nc").partition(": revseq ")
    assert before <= time.mktime(time.strptime(moment)) <= time.time()
    assert len(command) < 1100


@pytest.mark.parametrize("old", ["x" * 59_999, ["a", "b"], 7])
def test_a_history_that_is_no_text_or_full_stays(tmp_path, revseq, old):
    make(tmp_path / "x.nc")
    with h5py.File(tmp_path / "x.nc", "a") as f:
        f.attrs["history"] = old
    for options in ((), ("--only",)):
        done = revseq(
            "run", "x.nc::v", "3", "--axis", 1, "-o", "y.nc", *options, "--overwrite"
        ).ok()
        assert (
            "Note: the attribute history is full, or is not a single text, so no line is added\n"
            in done.err
        )
        with h5py.File(tmp_path / "y.nc") as f:
            assert as_neutral(f.attrs["history"]) == old
    for epoch in ("noon", "9" * 30):
        done = revseq("convert", "x.nc::v", "z.nc", env={"SOURCE_DATE_EPOCH": epoch})
        done.refused(f"SOURCE_DATE_EPOCH is '{epoch}'", "seconds since 1970")


@pytest.mark.parametrize("data_type", DataType)
def test_every_type_is_read_by_netcdf_or_refused(tmp_path, revseq, data_type):
    dtype = dtype_of(data_type)
    bits = (
        np.array([[1, 0, 1]], f"u{dtype.itemsize}") if dtype.names else np.array([[1, 0, 1]], dtype)
    )
    np.save(tmp_path / "x.npy", bits.view(f"V{dtype.itemsize}") if dtype.names else bits)
    typed = ("--dtype", data_type.name)
    if data_type is DataType.FLOAT16 or (
        data_type.kind == "minifloat" and data_type is not DataType.BFLOAT16
    ):
        revseq("convert", "x.npy", "x.h5", *typed).ok()
        (tmp_path / "old.nc").write_bytes(
            (tmp_path / "x.h5").read_bytes()
        )  # as other versions wrote it
        for tensor in ("x.npy", "old.nc::tensor"):
            job = ("run", tensor, "2", "--axis", 1, *typed, "-o")
            for line in (
                ("convert", tensor, "y.nc", *typed),
                (*job, "y.NC4"),
                (*job, "y.nc::w", "--only"),
            ):
                revseq(*line).refused(f"NetCDF has no {data_type.name}", " y.h5\n")
        assert {path.name for path in tmp_path.iterdir()} == {"x.npy", "x.h5", "old.nc"}
        return
    revseq("convert", "x.npy", "y.nc", *typed).ok()
    with netCDF4.Dataset(tmp_path / "y.nc") as f:
        read = np.asarray(f["tensor"][...])
    wanted = (
        bits.view("u2").astype("u4") << 16 if dtype.names else bits
    )  # BFLOAT16 is read as FLOAT32
    assert (read["r"] if read.dtype.names else read).tolist() == wanted.view(
        "f4" if dtype.names else dtype
    ).tolist()


def test_small_floats_beside_a_tensor_are_widened_for_netcdf(tmp_path, revseq):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.attrs["scale"] = np.float16(0.5)
        v, x = (
            f.create_dataset("v", data=VALUES[0]),
            f.create_dataset("x", data=np.arange(6, dtype=">f2") / 2),
        )
        v.attrs["half"], x.attrs["half"] = np.array([1.5], ">f2"), np.float16(2.5)
        x.make_scale("x")
        v.dims[1].attach_scale(x)
        v.dims[0].label = "y"
    revseq("convert", "x.h5::v", "y.nc").ok()
    with netCDF4.Dataset(tmp_path / "y.nc") as f:
        assert (f.scale, f["v"].half, f["x"].half, f["x"].dtype) == (0.5, 1.5, 2.5, np.dtype("f4"))
        assert (f["v"].dimensions, f["x"][:].tolist()) == (("y", "x"), [0, 0.5, 1, 1.5, 2, 2.5])


def test_a_file_that_is_no_netcdf_is_not_copied_under_its_name(tmp_path, revseq):
    """Its dimensions would have no names there, and h5netcdf could not open it."""
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["t"], f["half"] = VALUES[0], np.zeros((2, 2), "f2")
        f["t"].dims[0].label, f["t"].dims[1].label = "batch", "time"
        f["t"].attrs["units"], f["t"].attrs["bounds"] = "K", "half"
    job = ("run", "x.h5::t", "[[2], [3], [0], [6]]", "--axis", "time", "--json", "-o")
    notes = json.loads(revseq(*job, "y.nc::w").ok().out)["notes"]
    assert "1 other tensor (/half); to keep them, write a .h5 file: -o new.h5" in notes[0]
    assert "bounds (" in notes[0]
    require(
        tmp_path / "y.nc",
        "w",
        ("batch", "time"),
        expected(VALUES[0], np.array([[2], [3], [0], [6]]), 1),
    )
    with netCDF4.Dataset(tmp_path / "y.nc") as f:
        assert ([*f.variables], f["w"].units) == (["w"], "K")
    revseq(*job, "y.nc::t").ok()
    with netCDF4.Dataset(tmp_path / "y.nc") as f:
        assert ([*f.variables], f["t"].dimensions) == (["w", "t"], ("batch", "time"))


# With types of its own.
CDL = """netcdf x {
types:
  compound pair_t { float t; int q; };
  byte enum cloud_t { Clear = 0, Stratus = 2 };
  int(*) list_t;
dimensions: time = UNLIMITED ; lat = 2 ; lon = 3 ;
variables:
  short air(time, lat, lon) ; air:_FillValue = -99s ;
  cloud_t air:worst = Stratus ; pair_t air:first = {1.5, 2} ; list_t air:odd = {1, 2} ;
  cloud_t cloud(lat, lon) ;
  pair_t pairs(lat) ;
data:
  air = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, _ ;
  cloud = Clear, Clear, Stratus, Stratus, Stratus, Clear ;
  pairs = {1.5, 2}, {2.5, 3} ;
}"""


@pytest.mark.needs("ncdump")
def test_files_of_ncgen(tmp_path, revseq):
    """What it makes of a text, ncdump reads from ours, named types included."""

    def dump(name):
        return subprocess.run(
            ["ncdump", tmp_path / name], capture_output=True, text=True, check=True
        ).stdout

    (tmp_path / "x.cdl").write_text(CDL)
    subprocess.run(["ncgen", "-k", "nc4", "-o", "x.nc", "x.cdl"], cwd=tmp_path, check=True)
    job = ("[[3], [0]]", "--axis", "lon", "--verify", "-o")
    revseq("run", "x.nc::air", "2", *job[1:], "added.nc::g/new").ok()
    for line in (
        "cloud_t new:worst = Stratus",
        "pair_t new:first = {1.5, 2}",
        "list_t new:odd = {1, 2}",
    ):
        assert line in dump("added.nc").replace("/", "")
    for name, lost in (("air", "first, odd"), ("cloud", "the names of its enumeration")):
        told = json.loads(revseq("convert", f"x.nc::{name}", f"{name}2.nc", "--json").ok().out)[
            "notes"
        ]
        assert told[0].startswith(f"not copied: {lost}, 2 other tensors (")
    revseq("run", "x.nc::cloud", *job, "y.nc").ok()
    old, new = (
        {line.strip(" ;\t") for line in dump(name).splitlines()} for name in ("x.nc", "y.nc")
    )
    assert old - new == {"netcdf x {", "Clear, Clear, Stratus,"}
    assert "Stratus, Clear, Clear," in new


NAMES = ("z", "lat", "lon", "m", "t")
FORMS = ("NETCDF4", "NETCDF4", "NETCDF4_CLASSIC", "NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA")


def generate(path, rng, form):
    """Variables of any dimensions, many of them with the name of a dimension, whose coordinate they may be or not."""
    with netCDF4.Dataset(path, "w", format=form) as f:
        sizes = {name: rng.randint(1, 4) for name in rng.sample(NAMES, rng.randint(1, 4))}
        grows = rng.choice([None, *sizes])
        for name, size in sizes.items():
            f.createDimension(name, None if name == grows else size)
        f.createDimension("len", 3)
        for name in rng.sample([*NAMES, "v"], rng.randint(1, 5)):
            dims = rng.choices([*sizes], k=rng.choice([0, 0, 1, 2, 3]))
            if (
                name in sizes and dims and rng.random() < 0.5
            ):  # a coordinate, of several dimensions perhaps
                dims[0] = name
            if form.startswith("NETCDF3"):  # where only the first dimension can grow
                dims = [*dims[:1], *(each for each in dims[1:] if each != grows)]
            shape = [sizes[each] for each in dims]
            if rng.random() < 0.2:
                f.createVariable(name, "S1", (*dims, "len"))[:] = np.full([*shape, 3], b"a", "S1")
                continue
            variable = f.createVariable(name, rng.choice(["f4", "i2", "f8"]), dims)
            variable[...] = np.arange(np.prod(shape, dtype=int)).reshape(shape)
            variable.units = "m"
            if rng.random() < 0.3:
                variable.coordinates = "lat gone"


def require(path, name, dims, values):
    """Whether all libraries agree that a variable has these dimensions and values."""
    with netCDF4.Dataset(path) as f:
        f.set_auto_mask(False)
        assert f[name].dimensions == dims
        assert oracle.same_bits(np.asarray(f[name][...]), values)
        # xarray itself cannot have these.
        odd = [
            key
            for key, each in f.variables.items()
            if key in f.dimensions and not each.dimensions and key != name
        ]
    for engine in ("h5netcdf", "netcdf4"):
        with xarray.open_dataset(path, engine=engine, decode_cf=False, drop_variables=odd) as data:
            assert data[name].dims == dims
            assert oracle.same_bits(data[name].values, values)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(8))
def test_all_libraries_read_outputs_of_generated_files(tmp_path, revseq, seed):
    rng = random.Random(seed)
    form = rng.choice(FORMS)
    generate(tmp_path / "x.nc", rng, form)
    with netCDF4.Dataset(tmp_path / "x.nc") as f:
        f.set_auto_mask(False)
        variables = {
            k: (v.dimensions, np.asarray(v[...])) for k, v in f.variables.items() if v.dtype != "S1"
        }
    for i, (name, (dims, values)) in enumerate(variables.items()):
        values = values.astype(values.dtype.newbyteorder("="))
        revseq("convert", f"x.nc::{name}", f"a{i}.nc", "--verify").ok()
        require(tmp_path / f"a{i}.nc", name, dims, values)
        revseq("convert", f"x.nc::{name}", f"b{i}.zarr", "--verify").ok()
        with xarray.open_dataset(
            tmp_path / f"b{i}.zarr", engine="zarr", decode_cf=False, consolidated=False
        ) as data:
            assert data[name].dims == dims
        revseq("convert", f"b{i}.zarr::{name}", f"c{i}.nc", "--verify").ok()
        require(tmp_path / f"c{i}.nc", name, dims, values)
        if not dims:
            continue
        np.save(tmp_path / "n.npy", np.full([1, *values.shape[1:]], 2, "u4"))
        result = values.copy()
        result[:2] = values[:2][::-1]
        job = ("run", f"x.nc::{name}", "n.npy", "--axis", 0, "--verify", "-o")
        revseq(*job, f"d{i}.nc").ok()
        require(tmp_path / f"d{i}.nc", name, dims, result)
        if form.startswith("NETCDF4"):
            revseq(*job, f"e{i}.nc::new").ok()
            require(tmp_path / f"e{i}.nc", "new", dims, result)
            require(tmp_path / f"e{i}.nc", name, dims, values)
