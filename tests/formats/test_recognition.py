"""What a file is, is told by its first bytes, and by its suffix only where these say nothing."""

import os

import h5py
import numpy as np
import oracle
import pytest
import safetensors.numpy
import zarr
from tensor_files import EXPECTED, N, X


def h5(path):
    with h5py.File(path, "w") as file:
        file["x"], file["n"] = X, N


def text(path):
    path.write_text("[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]\n")


def save(path):
    with open(path, "wb") as file:
        np.save(file, X)


def savez(path):
    with open(path, "wb") as file:
        np.savez(file, x=X)


WRITERS = {
    "npy": save,
    "npz": savez,
    "h5": h5,
    "safetensors": lambda path: safetensors.numpy.save_file({"x": X}, path),
    "zarr": lambda path: zarr.create_array(path, data=X),
    "text": text,
    "json": lambda path: path.write_text(
        '\ufeff \n{"Values": [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]}'
    ),
}


@pytest.mark.parametrize(
    ("kind", "suffix"),
    [
        *((kind, "") for kind in WRITERS),
        *((kind, ".npy" if kind in ("h5", "text") else ".h5") for kind in WRITERS),
    ],
)
def test_any_format_under_any_name(revseq, tmp_path, kind, suffix):
    WRITERS[kind](tmp_path / f"x{suffix}")
    np.save(tmp_path / "n.npy", N)
    name = f"x{suffix}::x" if kind == "h5" else f"x{suffix}"
    revseq("run", name, "n.npy", "--axis", 1, "-o", "y.npy").ok()
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), EXPECTED)


def test_the_option_overrides_the_bytes(revseq, tmp_path):
    save(tmp_path / "x.npy")
    revseq("show", "x.npy", "--input-format", "json").refused(
        "x.npy: not text: it looks like a .npy file", "--input-format npy\n"
    )
    text(tmp_path / "t.npy")
    revseq("show", "t.npy", "--input-format", "npy").refused(
        "t.npy: is named .npy, but looks like text"
    )


def test_an_output_has_the_format_of_its_suffix(revseq, tmp_path):
    save(tmp_path / "x.npy")
    h5(tmp_path / "y.npy")
    revseq("convert", "x.npy", "y.npy", "--overwrite").ok()
    assert (tmp_path / "y.npy").read_bytes() == (tmp_path / "x.npy").read_bytes()
    save(tmp_path / "y")
    revseq("convert", "x.npy", "y", "--overwrite").refused("y: has no suffix", "-f npy\n")


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"\x0e\x03\x13\x01", ("it looks like an HDF4 file", "h4toh5")), (b"\x1f\x8b\x08", ("damaged",)),
        (b"MATLAB 5.0 MAT-file, ", ("a MATLAB file of before 7.3", "-v7.3")), (b"\x80\x04\x95", ("a Python pickle", "numpy.save")),
        (b"what", ("unknown suffix .dat", "--input-format npy\n")), (b"", ("unknown suffix .dat", "--input-format npy\n")), (b"\x89HDF", ("unknown suffix",)),
        (bytes(600) + b"\x89HDF\r\n\x1a\n", ("unknown suffix",)), (b"\x89HDF\r\n\x1a\n", ("HDF5 cannot read it",)),
    ],
)  # fmt: skip
def test_files_of_others(revseq, tmp_path, head, words):
    (tmp_path / "x.dat").write_bytes(head + bytes(100))
    if not head:
        (tmp_path / "x.dat").write_bytes(b"")
    revseq("show", "x.dat").refused("x.dat: ", *words)


def test_a_header_of_128_bytes_is_no_pickle(revseq, tmp_path):
    """Its length begins as a pickle does, one of 91 as a text, and one of 35615 as gzip."""
    for size in (128, 91, 0x8B1F):
        header = '{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'.ljust(size).encode()
        (tmp_path / "x").write_bytes(size.to_bytes(8, "little") + header + b"\x05")
        assert "storage       safetensors" in revseq("show", "x").ok().out


@pytest.mark.parametrize(
    "block", [b'{"made by": "me"}', b"[", b"PK\3\4", b"\x80\4", b"\x1f\x8b", b"hello"]
)
def test_hdf5_behind_a_block_that_looks_like_something_else(revseq, tmp_path, block):
    with h5py.File(tmp_path / "x.h5", "w", userblock_size=1 << 16) as f:
        f["x"] = X
    with (tmp_path / "x.h5").open("r+b") as file:
        file.write(block)
    revseq("show", "x.h5").ok()


def test_newlines_that_became_cr_lf(revseq, tmp_path):
    """As git does with what .gitattributes calls a text; here the bytes more are as many as DxDispatch's padding."""
    np.save(tmp_path / "x.npy", np.array([1, 2, 10], "<u2"))
    whole = (tmp_path / "x.npy").read_bytes()
    assert whole.count(b"\n") == 2
    (tmp_path / "x.npy").write_bytes(whole.replace(b"\n", b"\r\n"))
    revseq("show", "x.npy").refused("was transferred in text mode: LF became CR LF")


def test_one_colon_for_two(revseq, tmp_path):
    np.savez(tmp_path / "st.npz", temp=np.arange(3.0), n=np.arange(3))
    hint = (
        revseq("show", "st.npz:temp")
        .refused("st.npz:temp: no such file")
        .err.partition("Hint: did you mean: ")[2]
        .strip()
    )
    assert hint == "st.npz::temp"
    revseq("show", hint).ok()
    assert "Hint" not in revseq("show", "none.npz:temp").refused("no such file").err


def test_an_unknown_suffix_names_the_nearest(revseq):
    revseq("convert", "[1, 2]", "y.cvs").refused("one such as .csv:")


@pytest.mark.needs("fifos")
def test_an_output_that_is_a_pipe_or_a_device(revseq, tmp_path):
    np.save(tmp_path / "x.npy", np.arange(6.0).reshape(2, 3))
    os.mkfifo(tmp_path / "p")
    for name in ("p", "/dev/fd/63", "/dev/stdout", "/dev/null"):
        told = revseq("run", "x.npy", "[[2], [3]]", "--axis", 1, "-o", name).refused(
            f"{name}: is a pipe or a device"
        )
        assert told.err.endswith("type -o - -f npy\n")
