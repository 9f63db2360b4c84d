"""Generated NetCDF files: netCDF4, h5netcdf and xarray open every output, and find the variable with its dimensions."""

import random
import warnings

import netCDF4
import numpy as np
import oracle
import pytest
import xarray

NAMES = ("z", "lat", "lon", "m", "t")
FORMS = ("NETCDF4", "NETCDF4", "NETCDF4_CLASSIC", "NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA")


def make(path, rng, form):
    """Variables of any dimensions, many of them with the name of a dimension, whose coordinate they may be or not."""
    with netCDF4.Dataset(path, "w", format=form) as f:
        sizes = {name: rng.randint(1, 4) for name in rng.sample(NAMES, rng.randint(1, 4))}
        grows = rng.choice([None, *sizes])
        for name, size in sizes.items():
            f.createDimension(name, None if name == grows else size)
        f.createDimension("len", 3)
        for name in rng.sample([*NAMES, "v"], rng.randint(1, 5)):
            dims = rng.choices([*sizes], k=rng.choice([0, 0, 1, 2, 3]))
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


def found(path, name):
    """The dimensions and values of a variable, as all libraries agree."""
    with netCDF4.Dataset(path) as f:
        f.set_auto_mask(False)
        dims, values = f[name].dimensions, np.asarray(f[name][...])
        # xarray itself cannot have these.
        odd = [key for key, each in f.variables.items() if key in f.dimensions and not each.dimensions and key != name]
    for engine in ("h5netcdf", "netcdf4"):
        with xarray.open_dataset(path, engine=engine, decode_cf=False, drop_variables=odd) as data:
            assert data[name].dims == dims
            assert oracle.same_bits(data[name].values, values)
    return dims, values


@pytest.mark.parametrize("seed", range(12))
def test_every_output_is_what_all_libraries_read(tmp_path, revseq, seed):
    rng = random.Random(seed)
    form = rng.choice(FORMS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make(tmp_path / "x.nc", rng, form)
        with netCDF4.Dataset(tmp_path / "x.nc") as f:
            f.set_auto_mask(False)
            variables = {k: (v.dimensions, np.asarray(v[...])) for k, v in f.variables.items() if v.dtype != "S1"}
        for name, (dims, values) in variables.items():
            each_one(tmp_path, revseq, form, name, dims, values)


def each_one(folder, revseq, form, name, dims, values):
    def right(path, key, wanted):
        assert (dims, wanted.tobytes()) == (lambda d, v: (d, v.astype(wanted.dtype).tobytes()))(*found(path, key))

    revseq("convert", f"x.nc::{name}", f"{name}1.nc", "--verify").ok()
    right(folder / f"{name}1.nc", name, values)
    revseq("convert", f"x.nc::{name}", f"{name}2.zarr", "--verify").ok()
    with xarray.open_dataset(folder / f"{name}2.zarr", engine="zarr", decode_cf=False, consolidated=False) as data:
        assert data[name].dims == dims
    revseq("convert", f"{name}2.zarr::{name}", f"{name}3.nc", "--verify").ok()
    right(folder / f"{name}3.nc", name, values)
    if not dims:
        return
    np.save(folder / "n.npy", np.full([1, *values.shape[1:]], 2, "u4"))
    result = values.copy()
    result[:2] = values[:2][::-1]
    job = ("run", f"x.nc::{name}", "n.npy", "--axis", 0, "--verify", "-o")
    revseq(*job, f"{name}4.nc").ok()
    right(folder / f"{name}4.nc", name, result)
    if form.startswith("NETCDF4"):
        revseq(*job, f"{name}5.nc::new").ok()
        right(folder / f"{name}5.nc", "new", result)
        right(folder / f"{name}5.nc", name, values)
