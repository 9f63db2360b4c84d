"""One contract of all formats whose outputs are copies of the input's file: replaced, added, alone, and nothing lost."""

import json
from functools import partial

import h5py
import netCDF4
import numpy as np
import oracle
import pytest
import zarr
from safetensors.numpy import save_file
from tensor_files import open_

from revseq_cli.files.transactions import FileTransaction
from revseq_cli.formats import outputs, references

X = np.random.default_rng(1).integers(-500, 500, (5, 30, 7)).astype("<f4")
N = np.random.default_rng(2).integers(0, 31, (5, 1, 7)).astype("u4")
EXPECTED = oracle.reverse(X, N, 1)
TENSORS = {"x": X, "n": N, "other": X[::-1].copy()}


def make_zarr(version, path, **tensors):
    for name, values in tensors.items():
        zarr.create_array(str(path), name=name, data=values, compressors=None, zarr_format=version)


def make_h5(path, **tensors):
    with h5py.File(path, "w") as file:
        for name, values in tensors.items():
            file.create_dataset(
                name, data=values, chunks=True, compression="gzip" if name == "other" else None
            )


def make_nc(path, **tensors):
    with netCDF4.Dataset(path, "w") as file:
        for name, size in {**dict(zip("yxb", X.shape, strict=True)), "one": 1}.items():
            file.createDimension(name, size)
        for name, values in tensors.items():
            file.createVariable(name, values.dtype, ("y", "one" if name == "n" else "x", "b"))[
                :
            ] = values


# The suffix, what makes a file, and the most bytes of headers and names that are written anew.
FORMS = {
    "npz": (".npz", np.savez, 4096), "deflated npz": (".npz", np.savez_compressed, X.nbytes),  # its output is stored
    "safetensors": (".safetensors", lambda path, **tensors: save_file(tensors, path), 4096),
    "zarr 2": (".zarr", partial(make_zarr, 2), 4096), "zarr 3": (".zarr", partial(make_zarr, 3), 4096), "h5": (".h5", make_h5, 4096),
    "nc": (".nc", make_nc, 16_384),
}  # fmt: skip


@pytest.fixture(params=FORMS)
def form(request, tmp_path):
    """The suffix and the largest change of a format; there is a file x with some tensors."""
    suffix, make, change = FORMS[request.param]
    make(tmp_path / f"x{suffix}", **TENSORS)
    return suffix, change


@pytest.fixture
def run(revseq, form):
    """Reverse x of the file; `output` is the new file's name without suffix, and perhaps a name in it."""

    def job(output="y", *more):
        name, _, key = output.partition("::")
        target = f"{name}{form[0]}" + (f"::{key}" if key else "")
        return revseq("run", f"x{form[0]}::x", f"x{form[0]}::n", "--axis", 1, "-o", target, *more)

    return job


def require(folder, name, suffix, **tensors):
    for key, values in tensors.items():
        assert oracle.same_bits(open_(f"{folder}/{name}{suffix}::{key}").read(), values), key


def size_of(path):
    return sum(each.stat().st_size for each in (path, *path.rglob("*")) if each.is_file())


def test_the_tensor_is_replaced_and_the_others_stay(tmp_path, revseq, form, run):
    suffix, change = form
    for output, engine in (("y", "serial"), ("z", "processes")):
        done = run(output, "--json", "--engine", engine, "--jobs", 2, "--verify").ok()
        assert "copied" not in str(json.loads(done.out)["notes"])
        require(tmp_path, output, suffix, **TENSORS | {"x": EXPECTED})
    require(tmp_path, "x", suffix, x=X)
    assert abs(size_of(tmp_path / f"x{suffix}") - size_of(tmp_path / f"y{suffix}")) < change


def test_another_name_is_added_unless_it_is_taken(tmp_path, revseq, form, run):
    suffix, _ = form
    assert "copied" not in str(json.loads(run("y::new", "--verify", "--json").ok().out)["notes"])
    require(tmp_path, "y", suffix, **TENSORS, new=EXPECTED)
    job = ("run", f"y{suffix}::new", f"y{suffix}::n", "--axis", 1, "-o", f"z{suffix}::again")
    revseq(*job).ok()
    require(tmp_path, "z", suffix, again=X)
    run("w::other").refused("other")
    assert not (tmp_path / f"w{suffix}").exists()
    run("w::other", "--only").ok()
    require(tmp_path, "w", suffix, other=EXPECTED)


def test_only_this_tensor(tmp_path, revseq, form, run):
    suffix, _ = form
    run("y", "--only").ok()
    revseq("convert", f"x{suffix}::x", f"z{suffix}").ok()
    for name, values in (("y", EXPECTED), ("z", X)):
        assert len(revseq("show", f"{name}{suffix}", "--names").ok().out.splitlines()) == 1
        require(tmp_path, name, suffix, x=values)


def test_an_input_that_changes_meanwhile(tmp_path, form):
    """Also where what changes is another tensor than the one that is reversed."""
    suffix, _ = form
    path, whole = tmp_path / f"x{suffix}", tuple(slice(0, size) for size in X.shape)
    changed = (
        path
        if path.is_file()
        else next(each for each in (path / "n").rglob("*0") if each.is_file())
    )
    like = open_(f"{path}::x")
    sink = outputs.create_sink(
        references.Reference(str(tmp_path / f"y{suffix}")), like, overwrite=False
    )

    def work():
        with FileTransaction(sink.file), sink:
            write_result = sink.block_writer().deliver(whole, EXPECTED)
            if write_result is not None:
                sink.receive(write_result)
            with open(changed, "r+b") as file:
                file.write(file.read(1))
            like.recheck()

    with pytest.raises(OSError, match="changed while it was read"):
        work()
    assert not (tmp_path / f"y{suffix}").exists()
