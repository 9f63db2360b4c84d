"""Files and data types that are no tensor: the message says what they are, and what to type instead."""

import zipfile

import h5py
import numpy as np
import pytest

ARRAYS = {
    "M8[s]": ("datetime64", "x.view('int64')"),
    "m8[ms]": ("timedelta64", "x.view('int64')"),
    "S1": ("S1", "x.view('uint8')"),
    "S3": ("S3", "x.view('uint8').reshape(*x.shape, 3)"),
    "U2": ("U2", "x.view('uint32').reshape(*x.shape, 2)"),
}


@pytest.mark.parametrize("dtype", ARRAYS)
def test_dates_and_texts_of_numpy_get_the_view_to_save(revseq, files, dtype):
    data = np.zeros((2, 3), dtype)
    np.save(files / "x.npy", data)
    revseq("run", "x.npy", "[1, 2]", "--axis", 1, "--batch-axis", 0).refused(*ARRAYS[dtype])
    view = eval(ARRAYS[dtype][1], {"x": data})  # the words of the hint are Python
    np.save(files / "x.npy", view)
    lengths = ("[1, 2]", "--axis", 1, "--batch-axis", 0)
    revseq("run", "x.npy", *lengths, "-o", "y.npy").ok()
    assert np.array_equal(np.load(files / "y.npy"), view)


def test_texts_and_lists_of_hdf5_get_a_way(revseq, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["text"] = np.array([b"abc", b"de"])
        file.create_dataset("lists", (2,), h5py.vlen_dtype("f4"))
    revseq("run", "x.h5::text", "1", "--axis", 0).refused(
        "text", "x[()].view('uint8').reshape(*x.shape, 3)"
    )
    revseq("run", "x.h5::lists", "1", "--axis", 0).refused("variable length", "padding")


HEADS = {
    "x.parquet": (b"PAR1\0\0\0\0", "Parquet", ".csv"),
    "x.feather": (b"ARROW1\0\0", "Arrow", ".csv"),
    "x.wav": (b"RIFF\x24\0\0\0WAVEfmt ", "WAV", ".npy"),
    "x.grib": (b"GRIB\0\0\0\2", "GRIB", "NetCDF"),
}


@pytest.mark.parametrize("name", HEADS)
def test_files_of_other_programs_are_named(revseq, tmp_path, name):
    head, kind, way = HEADS[name]
    (tmp_path / name).write_bytes(head + bytes(100))
    for command in ("show", "run"):
        more = ("1", "--axis", 0) if command == "run" else ()
        done = revseq(command, name, *more).refused(kind, way)
        assert "-f npy" not in done.err


def test_other_archives_are_named(revseq, tmp_path):
    for member in (".zgroup", "zarr.json", "folder/.zarray"):
        with zipfile.ZipFile(tmp_path / "a.zarr.zip", "w") as archive:
            archive.writestr(member, "{}")
        revseq("show", "a.zarr.zip").refused("Zarr store", "unzip a.zarr.zip -d a.zarr")
        revseq("run", "a.zarr.zip::x", 1, "--axis", 0).refused("unzip a.zarr.zip -d a.zarr")
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as archive:
        archive.writestr("[Content_Types].xml", "")
    revseq("show", "a.xlsx").refused("Excel", ".csv")


def test_an_archive_with_a_member_whose_name_begins_with_nul(revseq, files):
    with zipfile.ZipFile(files / "x.npz", "w") as archive:
        archive.write(files / "x.npy", "x.npy")
        archive.writestr("Aabc", b"x")
    data = (files / "x.npz").read_bytes().replace(b"Aabc", b"\0abc")
    (files / "x.npz").write_bytes(data)
    revseq("show", "x.npz").ok()
    revseq("run", "x.npz::x", "n.npy", "--axis", 1, "-o", "y.npz").ok()
    assert b"\0abc" in (files / "y.npz").read_bytes()


def test_big_endian_raw_data_get_a_way(revseq, files):
    job = ("run", "x.bin", "n.npy", "--axis", 1, "--sizes", "3x4")
    data = np.load(files / "x.npy")
    data.astype(">f4").tofile(files / "x.bin")
    revseq(*job, "--dtype", ">f4").refused("little-endian", "astype('<f4').tofile", "FLOAT32")
    revseq(*job, "--dtype", "<f4").refused("FLOAT32")


def test_a_completion_instruction_without_a_shell_is_ignored(revseq):
    done = revseq("--version", env={"_REVSEQ_COMPLETE": "bash_complete"}).ok()
    assert done.out.startswith("revseq ")
