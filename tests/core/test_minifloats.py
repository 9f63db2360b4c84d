"""The floats that NumPy lacks: files that their own packages make go in, and what comes out is read back by them."""

import json
import re
import warnings

import h5py
import ml_dtypes
import numpy as np
import oracle
import pytest
import safetensors.numpy
import zarr
from safetensors import deserialize

import revseq_cli
from revseq_cli.core.dtypes import data_type_of
from revseq_cli.core.tensors import DataType

# ONNX's name of each type, ml_dtypes' type, and the name that safetensors has for it.
TYPES = {
    "BFLOAT16": (ml_dtypes.bfloat16, "BF16"),
    "FLOAT8_E4M3FN": (ml_dtypes.float8_e4m3fn, "F8_E4M3"),
    "FLOAT8_E5M2": (ml_dtypes.float8_e5m2, "F8_E5M2"),
    "FLOAT8_E4M3FNUZ": (ml_dtypes.float8_e4m3fnuz, "F8_E4M3FNUZ"),
    "FLOAT8_E5M2FNUZ": (ml_dtypes.float8_e5m2fnuz, "F8_E5M2FNUZ"),
    "FLOAT8_E8M0FNU": (ml_dtypes.float8_e8m0fnu, "F8_E8M0"),
}
NONE = ("--feature-level", "none")
every_type = pytest.mark.parametrize("name", TYPES)


def words(name):
    """Every bit pattern of a type, in lines of 16; NaNs of every payload among them."""
    size = np.dtype(TYPES[name][0]).itemsize
    return np.arange(1 << 8 * size, dtype=f"<u{size}").reshape(-1, 16)


def lengths(name):
    count = len(words(name))
    return (np.arange(count, dtype=np.uint32) % 19).reshape(count, 1)


def expected(name):
    return oracle.reverse(words(name), lengths(name), 1)


@pytest.fixture
def made(tmp_path):
    """A file of safetensors, whose package has not all types in older versions, and lengths in a .npy."""

    def make(name):
        entry = {
            "dtype": TYPES[name][1],
            "shape": words(name).shape,
            "data_offsets": [0, words(name).nbytes],
        }
        header = json.dumps({"x": entry}).encode()
        data = len(header).to_bytes(8, "little") + header + words(name).tobytes()
        (tmp_path / "x.safetensors").write_bytes(data)
        np.save(tmp_path / "n.npy", lengths(name))
        return "x.safetensors", "n.npy", "--axis", 1, *NONE

    return make


@every_type
def test_npy_as_numpy_writes_it(revseq, tmp_path, made, name):
    """NumPy's own descr, but for FLOAT8_E5M2, where it writes one that it refuses to read."""
    revseq("run", *made(name), "-o", "y.npy", "--verify").ok()
    found = np.load(tmp_path / "y.npy")
    assert (found.dtype, found.tobytes()) == (f"V{found.itemsize}", expected(name).tobytes())
    if name != "FLOAT8_E5M2":
        np.save(tmp_path / "z.npy", expected(name).view(TYPES[name][0]))
        assert (tmp_path / "y.npy").read_bytes() == (tmp_path / "z.npy").read_bytes()


@pytest.mark.parametrize("name", ["BFLOAT16", "FLOAT8_E5M2", "FLOAT8_E4M3FN"])
def test_npy_has_no_name_for_them(revseq, tmp_path, made, name):
    """What numpy.save makes of an array of ml_dtypes."""
    job = made(name)[1:]
    array = words(name).view(TYPES[name][0])
    np.save(tmp_path / "x.npy", array)
    if name == "FLOAT8_E5M2":  # NumPy writes f1, which is no other type's
        assert "FLOAT8_E5M2\n" in revseq("show", "x.npy").ok().out
    else:
        hint = "add --dtype BFLOAT16" if array.itemsize == 2 else f"--dtype {name}\n"
        revseq("run", "x.npy", *job, "-o", "y.npy").refused(
            "x.npy: its data type is untyped bytes", name, hint
        )
    revseq("run", "x.npy", *job, "--dtype", name, "-o", "y.safetensors", "--verify").ok()
    ((_, found),) = deserialize((tmp_path / "y.safetensors").read_bytes())
    assert (found["dtype"], bytes(found["data"])) == (TYPES[name][1], expected(name).tobytes())


@every_type
def test_hdf5_from_safetensors(revseq, tmp_path, made, name):
    """HDF5 has words for floats with infinities; the others are opaque, as h5py writes them."""
    revseq("run", *made(name), "-o", "y.h5", "--verify").ok()
    with h5py.File(tmp_path / "y.h5") as file:
        assert raw(file["x"]) == expected(name).tobytes()
        if name in ("BFLOAT16", "FLOAT8_E5M2"):
            theirs = expected(name).view(TYPES[name][0]).astype(np.float32)
            assert np.array_equal(file["x"][:].astype(np.float32), theirs, equal_nan=True)
        else:
            assert file["x"][:].view(TYPES[name][0]).tobytes() == expected(name).tobytes()
    dtype = () if name in ("BFLOAT16", "FLOAT8_E5M2") else ("--dtype", name)
    assert f"data type     {name}\n" in revseq("show", "y.h5", *dtype).ok().out
    revseq("run", "y.h5", "n.npy", "--axis", 1, *NONE, *dtype, "-o", "z.h5", "--verify").ok()
    with h5py.File(tmp_path / "z.h5") as z, h5py.File(tmp_path / "y.h5") as y:
        assert raw(z["x"]) == oracle.reverse(expected(name), lengths(name), 1).tobytes()
        assert z["x"].id.get_type().equal(y["x"].id.get_type())


def raw(dataset):
    """The bytes of all elements, which HDF5 does not convert where it is asked for its own type."""
    kind = dataset.id.get_type()
    found = np.empty(dataset.shape, f"V{kind.get_size()}")
    dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, found, kind)
    return found.tobytes()


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_of_bytes(revseq, tmp_path, version):
    """The package zarr has no word for these types; it stores them as bytes."""
    x = words("BFLOAT16")
    np.save(tmp_path / "n.npy", lengths("BFLOAT16"))
    with warnings.catch_warnings(action="ignore"):  # other programs may not know this type
        array = zarr.create_array(
            tmp_path / "x.zarr", shape=x.shape, dtype="V2", chunks=(1000, 7), zarr_format=version
        )
        array[:] = x.view("V2")
    job = ("run", "x.zarr", "n.npy", "--axis", 1, *NONE, "-o", "y.zarr", "--verify")
    revseq(*job).refused("x.zarr: its data type is untyped bytes (|V2)", "--dtype BFLOAT16")
    revseq(*job, "--dtype", "BFLOAT16").ok()
    with warnings.catch_warnings(action="ignore"):
        found = zarr.open_array(tmp_path / "y.zarr", mode="r")
        assert found[:].tobytes() == expected("BFLOAT16").tobytes()
    assert found.chunks == (1000, 7)


def test_directml_does_not_have_them(revseq, made):
    revseq("run", *made("BFLOAT16")[:4], "--feature-level", "5_0", "-o", "y.npy").refused(
        "DataType is BFLOAT16"
    )


def test_what_is_shown(revseq, tmp_path):
    x = np.array([[1, -2.5, np.nan, 0.1], [3e38, -0.0, np.inf, 7]], ml_dtypes.bfloat16)
    x.view("u2")[1, 3] = 0xFF81
    safetensors.numpy.save_file({"x": x}, tmp_path / "x.safetensors")
    shown = revseq("show", "--stats", "x.safetensors").ok().out
    assert "data type     BFLOAT16\n" in shown
    assert re.search(r"min +-2.5\n", shown)
    assert "NaN           2\n" in shown
    for text in ("0.1001", "3.004e+38", "-0", "inf", "nan(0xff81)"):
        assert text in shown


@pytest.mark.parametrize("name", ["BFLOAT16", "FLOAT8_E4M3FN"])
def test_without_ml_dtypes_bits_move_and_are_told_in_hexadecimal(revseq, tmp_path, made, name):
    code = "import sys; sys.modules['ml_dtypes'] = None"
    job = made(name)
    revseq("run", *job, "-o", "y.safetensors", "--verify", code=code).ok()
    ((_, found),) = deserialize((tmp_path / "y.safetensors").read_bytes())
    assert bytes(found["data"]) == expected(name).tobytes()
    assert ("0x000f" if name == "BFLOAT16" else "0x0f") in revseq(
        "show", "x.safetensors", code=code
    ).ok().out
    done = revseq("diff", "x.safetensors", "y.safetensors", "--first", 1, code=code).failed()
    assert "elements differ" in done.out
    words = ("the package ml_dtypes", "pip install ml_dtypes")
    revseq("show", "x.safetensors", "--stats", code=code).refused(*words)
    revseq("diff", "x.safetensors", "y.safetensors", "--atol", 1, code=code).refused(*words)


@every_type
def test_arrays_of_ml_dtypes(name):
    array = words(name).view(TYPES[name][0])
    assert data_type_of(array.dtype) is DataType[name]
    found = revseq_cli.reverse_subsequences(array, lengths(name), 1)
    assert found.dtype == array.dtype
    assert found.tobytes() == expected(name).tobytes()
