"""One contract of all formats whose outputs are copies of the input's file: replaced, added, alone, and nothing lost."""

import json

import h5py
import netCDF4
import numpy as np
import oracle
import pytest
import xarray
import zarr
from safetensors.numpy import save_file
from tensor_files import open_

from revseq_cli.formats import references
from revseq_cli.formats.atomic_file import FileTransaction

X = np.random.default_rng(1).integers(-500, 500, (5, 30, 7)).astype("<f4")
N = np.random.default_rng(2).integers(0, 31, (5, 1, 7)).astype("u4")
EXPECTED = oracle.reverse(X, N, 1)
WHOLE = tuple(slice(0, size) for size in X.shape)


class Copies:
    """What each of these formats must keep; the subclasses say its suffix, and make a file of some tensors."""

    suffix = ""
    largest_change = 4096  # bytes of headers and names that are written anew

    def make(self, path, **tensors):
        raise NotImplementedError

    def run(self, revseq, *more, name="x", output="y"):
        line = ("run", f"x{self.suffix}::{name}", f"x{self.suffix}::n", "--axis", 1, "-o")
        return revseq(*line, f"{output}{self.suffix}", "--verify", *more)

    def found(self, folder, name, key):
        return open_(f"{folder}/{name}{self.suffix}::{key}").read()

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path):
        self.make(tmp_path / f"x{self.suffix}", x=X, n=N, other=X[::-1].copy())
        return tmp_path

    @pytest.mark.parametrize("engine", ["serial", "processes"])
    def test_the_tensor_is_replaced_and_the_others_stay(self, revseq, folder, engine):
        done = self.run(revseq, "--json", "--engine", engine, "--jobs", 2).ok()
        assert "copied" not in str(json.loads(done.out)["notes"])
        for key, values in (("x", EXPECTED), ("n", N), ("other", X[::-1])):
            assert oracle.same_bits(self.found(folder, "y", key), values)
        assert oracle.same_bits(self.found(folder, "x", "x"), X)

    def test_another_name_is_added(self, revseq, folder):
        line = ("run", f"x{self.suffix}::x", f"x{self.suffix}::n", "--axis", 1, "-o")
        done = revseq(*line, f"y{self.suffix}::new", "--verify", "--json").ok()
        assert "copied" not in str(json.loads(done.out)["notes"])
        for key, values in (("x", X), ("n", N), ("new", EXPECTED), ("other", X[::-1])):
            assert oracle.same_bits(self.found(folder, "y", key), values)
        back = ("run", f"y{self.suffix}::new", f"y{self.suffix}::n", "--axis", 1, "-o", f"z{self.suffix}::again")
        revseq(*back).ok()
        assert oracle.same_bits(self.found(folder, "z", "again"), X)

    def test_a_name_that_another_tensor_has_is_refused(self, revseq, folder):
        line = ("run", f"x{self.suffix}::x", f"x{self.suffix}::n", "--axis", 1, "-o", f"y{self.suffix}::other")
        revseq(*line).refused("other")
        assert not (folder / f"y{self.suffix}").exists()
        revseq(*line, "--only").ok()
        assert oracle.same_bits(self.found(folder, "y", "other"), EXPECTED)

    def test_only_this_tensor(self, revseq, folder):
        self.run(revseq, "--only").ok()
        revseq("convert", f"x{self.suffix}::x", f"z{self.suffix}").ok()
        for name, values in (("y", EXPECTED), ("z", X)):
            assert len(revseq("show", f"{name}{self.suffix}", "--names").ok().out.splitlines()) == 1
            assert oracle.same_bits(self.found(folder, name, "x"), values)

    def test_an_input_that_changes_meanwhile(self, folder):
        """Also where what changes is another tensor than the one that is reversed."""
        path = folder / f"x{self.suffix}"
        changed = path if path.is_file() else next(each for each in (path / "n").rglob("*0") if each.is_file())
        like = open_(f"{path}::x")
        sink = references.create_sink(references.Reference(str(folder / f"y{self.suffix}")), like, overwrite=False)

        def work():
            with FileTransaction(sink.file), sink:
                write_result = sink.block_writer(WHOLE).deliver(WHOLE, EXPECTED)
                if write_result is not None:
                    sink.receive(write_result)
                with open(changed, "r+b") as file:
                    file.write(file.read(1))
                like.recheck()

        with pytest.raises(OSError, match="changed while it was read"):
            work()
        assert not (folder / f"y{self.suffix}").exists()

    def test_the_plan_counts_the_whole_output(self, revseq, folder):
        """The file that is copied is written, too: `run` and `batch` say the same before, and it is what is there after."""
        job = ("run", f"x{self.suffix}::x", f"x{self.suffix}::n", "--axis", 1, "-o", f"y{self.suffix}")
        plan = json.loads(revseq(*job, "--dry-run", "--json").ok().out)["plan"]
        line = json.dumps({"input": job[1], "lengths": job[2], "axis": 1, "output": job[6]})
        lines = revseq("batch", "-", "--dry-run", "--json", stdin=line.encode()).ok().out.splitlines()
        assert {
            name: json.loads(lines[0])["plan"][name] for name in ("read_bytes", "write_bytes")
        }.items() <= plan.items()
        revseq(*job).ok()
        whole = folder / f"y{self.suffix}"
        size = sum(each.stat().st_size for each in (whole, *whole.rglob("*")) if each.is_file())
        assert abs(plan["write_bytes"] - size) < self.largest_change


class TestNpz(Copies):
    suffix = ".npz"

    def make(self, path, **tensors):
        np.savez(path, **tensors)


class TestDeflatedNpz(Copies):
    suffix = ".npz"
    largest_change = X.nbytes  # the output is stored

    def make(self, path, **tensors):
        np.savez_compressed(path, **tensors)


class TestSafetensors(Copies):
    suffix = ".safetensors"

    def make(self, path, **tensors):
        save_file(tensors, path)


class TestZarr2(Copies):
    suffix, version = ".zarr", 2

    def make(self, path, **tensors):
        for name, values in tensors.items():
            zarr.create_array(str(path), name=name, data=values, compressors=None, zarr_format=self.version)


class TestZarr3(TestZarr2):
    version = 3


class TestHdf5(Copies):
    suffix = ".h5"

    def make(self, path, **tensors):
        with h5py.File(path, "w") as file:
            for name, values in tensors.items():
                file.create_dataset(name, data=values, chunks=True, compression="gzip" if name == "other" else None)


class TestNetcdf4(Copies):
    suffix = ".nc"
    largest_change = 16_384

    def make(self, path, **tensors):
        with netCDF4.Dataset(path, "w") as file:
            for name, size in zip("yxb", X.shape, strict=True):
                file.createDimension(name, size)
            file.createDimension("one", 1)
            for name, values in tensors.items():
                file.createVariable(name, values.dtype, ("y", "one" if name == "n" else "x", "b"))[:] = values


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
@pytest.mark.parametrize("like", [".nc", ".zarr", ".nc3"])
def test_the_plan_counts_what_goes_with_a_tensor(revseq, tmp_path, like, suffix):
    """Coordinates are written, too; compression takes less than the plan says."""
    rng = np.random.default_rng(0)
    coordinates = {"x": ("x", rng.random(300)), "other": ("z", rng.random(90_000))}
    data = xarray.Dataset(coordinates | {"v": (("y", "x"), rng.random((100, 300)))})
    if like == ".zarr":
        data.to_zarr(tmp_path / "x.zarr", consolidated=False)
    else:
        data.to_netcdf(tmp_path / "x.nc", **({"format": "NETCDF3_64BIT"} if like == ".nc3" else {}))
    np.save(tmp_path / "n.npy", np.full((100, 1), 250, "u4"))
    job = ("run", f"x{like[:5].rstrip('3')}::v", "n.npy", "--axis", 1, "-o", f"y{suffix}", "--only")
    plan = json.loads(revseq(*job, "--dry-run", "--json").ok().out)["plan"]
    assert plan["write_bytes"] == 8 * 30_000 + 8 * 300  # with the coordinate of a dimension
    assert plan["read_bytes"] == plan["write_bytes"] + 400
    revseq(*job).ok()
    whole = tmp_path / f"y{suffix}"
    size = sum(each.stat().st_size for each in (whole, *whole.rglob("*")) if each.is_file())
    assert 0.8 * plan["write_bytes"] < size < plan["write_bytes"] + 16_384
