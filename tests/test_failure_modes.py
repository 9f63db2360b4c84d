"""What a trusted file tool survives, part 1: files that lie. Their numbers are those of failure_modes.md.

Each runs the real command on an input that is damaged, hostile or not what its name says, with an old output in place.
It must be refused in one message that names the file, or done right; and the folder must be as it was.
"""

import json
import os
import socket
import subprocess
import sys

import h5py
import hdf5plugin
import numpy as np
import oracle
import pytest
from conftest import environment
from folders import content
from processes import job_count

from revseq_cli.core.errors import printable

F4 = np.arange(12, dtype=np.float32).reshape(3, 4)


def npy(folder, header, data=bytes(48), version=1):
    raw = header.encode("latin1").ljust(118) + b"\n"
    length = len(raw).to_bytes(2 if version == 1 else 4, "little")
    (folder / "x.npy").write_bytes(b"\x93NUMPY" + bytes([version, 0]) + length + raw + data)


def header(descr="'<f4'", shape="(3, 4)", order="False"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


def h5(folder, **datasets):
    with h5py.File(folder / "x.h5", "w") as f:
        for name, values in datasets.items():
            f[name] = values


# .npy


def test_h1_a_truncated_file(refused, tmp_path):
    np.save(tmp_path / "x.npy", F4)
    whole = (tmp_path / "x.npy").read_bytes()
    for length in (0, 5, 9, 70, 128, len(whole) - 1):
        (tmp_path / "x.npy").write_bytes(whole[:length])
        refused("x.npy", "x.npy: ")


def test_h2_pickle_is_never_loaded(refused, tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.system, ("touch pwned",)

    np.save(tmp_path / "x.npy", np.array([Bomb()], object), allow_pickle=True)
    refused("x.npy", "x.npy: ", "pickle is never loaded")


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_h3_all_header_versions(done, tmp_path, version):
    with open(tmp_path / "x.npy", "wb") as f:
        np.lib.format.write_array(f, F4, version)
    assert oracle.same_bits(done(), oracle.reverse(F4, np.array([[2], [4], [3]], np.uint32), 1))
    assert (tmp_path / "y.npy").read_bytes()[6] == 1


def test_h4_fortran_order(done, tmp_path):
    np.save(tmp_path / "x.npy", np.asfortranarray(F4))
    for options in ((), ("--memory", "1K", "--engine", "processes", "--jobs", 2)):
        found = done(options=options)
        assert found.flags.f_contiguous
        assert oracle.same_bits(found, oracle.reverse(F4, np.array([[2], [4], [3]], np.uint32), 1))


def test_h5_big_endian_keeps_every_bit(done, tmp_path):
    bits = np.array([[0x7FC00001, 0x7F800001, 0x80000000, 1]] * 3, ">u4")
    np.save(tmp_path / "x.npy", bits.view(">f4"))
    found = done(n=[[4]] * 3)
    assert found.dtype == np.dtype(">f4")
    assert (found.view(">u4") == bits[:, ::-1]).all()


@pytest.mark.parametrize(
    "descr",
    ["'<U3'", "'|S4'", "'<M8[s]'", "'|V4'", pytest.param("'<f16'", marks=pytest.mark.needs("long doubles")),
     "[('a', '<f4')]", "('<f4', (2,))", "'|V0'"],
)  # fmt: skip
def test_h6_types_that_no_tensor_has(refused, tmp_path, descr):
    npy(tmp_path, header(descr))
    refused("x.npy", "x.npy: ", "data type")


@pytest.mark.parametrize(
    ("shape", "problem"),
    [("(1152921504606846976,)", "is truncated"), ("(4294967296, 4294967296, 4294967296)", "is truncated"), ("(-3, 4)", "sizes from 0"),
     ("(True, 4)", "32 bytes after"), ("3", "damaged header"), (str((1,) * 65), "dimension count 65")],
)  # fmt: skip
def test_h7_sizes_that_cannot_be(refused, tmp_path, shape, problem):
    npy(tmp_path, header(shape=shape))
    refused("x.npy", "x.npy: ", problem)


@pytest.mark.parametrize(
    "text",
    ["(" * 4000, "__import__('os').system('touch pwned')", "{" * 60_000, "\x00\xff\x1b", "{[]: 1}", header(order="1"),
     "dict(descr='<f4', fortran_order=False, shape=(3, 4))", "{'descr': '<f4', 'fortran_order': False}", header("'<x9'"), header("()")],
)  # fmt: skip
def test_h8_hostile_headers(refused, tmp_path, text):
    npy(tmp_path, text, version=2)
    refused("x.npy", "x.npy: has a ", "header")


def test_h8_a_header_of_2_gib_is_not_read(refused, tmp_path):
    with open(tmp_path / "x.npy", "wb") as f:
        f.write(b"\x93NUMPY\x02\x00" + (2**31).to_bytes(4, "little"))
        f.truncate(2**31 + 100)
    refused("x.npy", "x.npy: ", "header of 2147483648 bytes")


def test_h9_trailing_bytes(refused, tmp_path):
    np.save(tmp_path / "x.npy", F4)
    with open(tmp_path / "x.npy", "ab") as f:
        f.write(b"more")
    refused("x.npy", "x.npy: ", "4 bytes after")


@pytest.mark.parametrize(
    ("data", "seems"),
    [(b"PK\x03\x04rest", "has no complete zip directory"), (b"\x89HDF\r\n\x1a\n", "HDF5 cannot read it"), (b"[[1, 2]", "is missing"),
     (b"\x1f\x8b\x08", "is truncated: it cannot be unpacked"), (b"version https://git-lfs.github.com/spec/v1", "it looks like a git-LFS pointer")],
)  # fmt: skip
def test_h10_another_format_under_its_suffix(refused, tmp_path, data, seems):
    """It is read as what it is, and these are damaged; tests/formats/test_recognition.py has whole ones."""
    (tmp_path / "x.npy").write_bytes(data)
    refused("x.npy", "x.npy: ", seems)


# lengths


def test_h13_lengths_beyond_the_axis_are_clamped(done, revseq, tmp_path):
    np.save(tmp_path / "x.npy", F4)
    assert (done(n=[[5], [2**32 - 1], [0]]) == [F4[0, ::-1], F4[1, ::-1], F4[2]]).all()
    np.save(tmp_path / "n.npy", np.array([[5], [2**64 - 1], [2**63]], np.uint64))
    revseq("run", "x.npy", "n.npy", "--axis", 1, "-o", "y.npy", "--overwrite").ok()
    assert (np.load(tmp_path / "y.npy") == F4[:, ::-1]).all()


@pytest.mark.parametrize("shape", [(4,), (1, 1), (3, 4), (1, 3), (3, 1, 1)])
def test_h14_lengths_of_other_sizes(refused, tmp_path, shape):
    np.save(tmp_path / "x.npy", F4)
    np.save(tmp_path / "n.npy", np.ones(shape, np.uint32))
    refused("x.npy", "{" + ",".join(map(str, shape)) + "}" if len(shape) == 2 else f"dimension count is {len(shape)}")


# .h5


def test_h16_no_dataset_several_or_a_group(refused, tmp_path):
    h5(tmp_path)
    refused("x.h5", "x.h5: has no dataset")
    h5(tmp_path, **{f"g/d{i}\x1b[1m": F4 for i in range(30)})
    refused("x.h5", "x.h5: has 30 datasets: ", "and 20 more", r"\x1b[1m")
    refused("x.h5::/g", "is a group")
    for name in ("/none", "/g/none", "/none/d1"):
        refused(f"x.h5::{name}", f"x.h5::{name}: no such dataset")


@pytest.mark.parametrize(
    "dtype",
    ["S3", h5py.string_dtype(), h5py.vlen_dtype(np.int32), [("a", "f4")], h5py.opaque_dtype("V4"), h5py.ref_dtype,
     h5py.regionref_dtype, ("S3", (3,)), (h5py.ref_dtype, (3,)), [("r", "<f4"), ("i", ">f4")], [("r", "f2"), ("i", "f2")],
     pytest.param("g", marks=pytest.mark.needs("long doubles"))],
)  # fmt: skip
def test_h17_h18_types_that_no_tensor_has(refused, tmp_path, dtype):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("x", (3, 4), dtype)
    refused("x.h5", "x.h5::/x: ")


@pytest.mark.parametrize(
    ("values", "problem"), [(h5py.Empty("f4"), "has a null dataspace"), (np.float32(1), "dimension count is 0")]
)
def test_h19_null_and_scalar_dataspaces(refused, tmp_path, values, problem):
    h5(tmp_path, x=values)
    refused("x.h5", f"x.h5::/x: {problem}")


@pytest.fixture
def elsewhere(tmp_path):
    """A file whose secret nobody may reach through x.h5."""
    with h5py.File(tmp_path / "other.h5", "w") as f:
        f["secret"] = F4
    (tmp_path / "raw").write_bytes(F4.tobytes())
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["external"] = h5py.ExternalLink("other.h5", "/secret")
        f["group"] = h5py.ExternalLink("other.h5", "/")
        f["soft"], f["by_way"], f["alias"] = map(h5py.SoftLink, ("/stored", "external", "/group"))
        f.create_dataset("stored", (3, 4), "f4", external=[("raw", 0, 48)])
        layout = h5py.VirtualLayout((3, 4), "f4")
        layout[:] = h5py.VirtualSource("other.h5", "secret", (3, 4))
        f.create_virtual_dataset("virtual", layout)


@pytest.mark.parametrize("name", ["external", "group/secret", "by_way", "alias/secret"])
def test_h20_links_to_other_files_are_not_followed(refused, elsewhere, name):
    refused(f"x.h5::{name}", "is an external link to other.h5::/", "Hint: try other.h5::/secret")


def test_h21_h22_external_storage_and_virtual_datasets(refused, elsewhere, tmp_path):
    for name in ("stored", "soft"):
        refused(f"x.h5::{name}", "keeps its values in another file")
    refused("x.h5::virtual", "a virtual dataset")
    os.unlink(tmp_path / "other.h5")
    refused("x.h5::virtual", "a virtual dataset")


def test_h23_decompression_bombs(refused, revseq, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        x = f.create_dataset("x", (3, 1 << 40), "f4", chunks=(1, 1 << 20), compression="gzip")
        x[0, : 1 << 20] = 0
        f.create_dataset("never_written", (3, 1 << 29), "f4", chunks=(1, 1 << 20), compression="gzip")
    refused("x.h5::x", "unpacks to 13194139533312 bytes or more, and stores ")
    refused("x.h5::never_written", "unpacks to 6442450944 bytes or more, and stores 0")
    assert revseq("show", "x.h5::x").status == 2


def test_h23_a_chunk_larger_than_the_memory(refused, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("x", (3, 1 << 20), "f4", chunks=(1, 1 << 20), compression="gzip")[0] = 1
    refused("x.h5", "the memory is 1048576 bytes", options=("--memory", "1M"))


def test_h24_a_filter_that_is_missing(refused, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("x", data=F4, chunks=(3, 4), compression=40000, allow_unknown_filter=True)
    refused("x.h5", "x.h5::/x: needs the filter 40000")


def test_h24_a_filter_is_missing_without_hdf5plugin(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("x", data=F4, chunks=(3, 4), **hdf5plugin.Zstd(3))
    code = "import sys; sys.modules['hdf5plugin'] = None; from revseq_cli.__main__ import main; main()"
    command = [sys.executable, "-c", code, "run", "x.h5", "[[1], [1], [1]]", "--axis", "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 2
    assert "x.h5::/x: needs the filter 32015 (zstd)" in done.stderr
    assert "pip install hdf5plugin\n" in done.stderr


@pytest.mark.parametrize("options", [{"fletcher32": True}, {"compression": "gzip"}])
@pytest.mark.parametrize("place", [0, 896])
@pytest.mark.parametrize("engine", ["serial", "processes"])
def test_h25_a_damaged_chunk(refused, tmp_path, options, place, engine):
    values = np.random.default_rng(1).integers(0, 2**32, (1024, 64), np.uint32)
    with h5py.File(tmp_path / "x.h5", "w") as f:
        x = f.create_dataset("x", data=values, chunks=(128, 64), **options)
        offset = x.id.get_chunk_info_by_coord((place, 0)).byte_offset
    with open(tmp_path / "x.h5", "r+b") as f:
        f.seek(offset + 40)
        f.write(b"\xff\xff\xff\xff")
    np.save(tmp_path / "n.npy", np.full((1024, 1), 5, np.uint32))
    options = ("--engine", engine, "--jobs", job_count(engine), "--memory", "800K")
    refused("x.h5", f"x.h5::/x: the chunk at [{place}, 0] is damaged", options=options)


def test_h26_a_truncated_hdf5_file(refused, tmp_path):
    h5(tmp_path, x=np.zeros((3, 400), "f4"))
    whole = (tmp_path / "x.h5").read_bytes()
    for length in (0, 8, 100, 2000, len(whole) - 1):
        (tmp_path / "x.h5").write_bytes(whole[:length])
        refused("x.h5", "x.h5", "HDF5 cannot read it" if length >= 100 else "")


# text


@pytest.mark.parametrize("text", ["[[1, 2], [3]]", "[[1, 2], 3]", "[1, [2]]", "[[], [1]]", "[]"])
@pytest.mark.parametrize("suffix", ["json", "txt"])
def test_h27_ragged_lists(refused, tmp_path, text, suffix):
    (tmp_path / f"x.{suffix}").write_text(text)
    refused(f"x.{suffix}", f"x.{suffix}: ")


@pytest.mark.parametrize("suffix", ["json", "txt"])
def test_h28_a_hundred_thousand_brackets(refused, tmp_path, suffix):
    for text in ("[" * 100_000 + "1" + "]" * 100_000, "[" * 100_000, "]" * 100_000):
        (tmp_path / f"x.{suffix}").write_text(text)
        refused(f"x.{suffix}", f"x.{suffix}: ")


def test_h29_nan_and_infinity(revseq, refused, tmp_path):
    for text in ('["nan", "inf", "-inf"]', "[NaN, Infinity, -Infinity]", "[nan, inf, -inf]"):
        out = revseq("run", text, "[3]", "--axis", 0).ok().out
        assert out.endswith("[-inf, inf, nan]\n")
    (tmp_path / "x.json").write_text("[[NaN]]")
    refused("x.json", "x.json: ", "INT32 has no NaN", n="[[1]]", options=("--dtype", "INT32"))


@pytest.mark.parametrize(
    ("number", "dtype"),
    [("300", "UINT8"), ("-1", "UINT32"), ("9223372036854775808", "INT64"), ("1e39", "FLOAT32"), ("1e400", "FLOAT64"),
     ("16777217", "FLOAT32"), ("65520", "FLOAT16"), ("1.5", "INT32"), ("9007199254740993", "FLOAT64"), ("true", "UINT8")],
)  # fmt: skip
@pytest.mark.parametrize("suffix", ["json", "txt"])
def test_h30_h31_h32_numbers_that_do_not_fit(refused, tmp_path, number, dtype, suffix):
    (tmp_path / f"x.{suffix}").write_text(f"[[7, {number}]]")
    refused(f"x.{suffix}", f"x.{suffix}: ", "line 1, column 6", n="[[1]]", options=("--dtype", dtype))


def test_h32_64_bit_integers_are_exact(revseq):
    done = revseq("run", "[9223372036854775807, -9223372036854775808]", "[2]", "--axis", 0, "--dtype", "INT64")
    assert "[-9223372036854775808, 9223372036854775807]" in done.ok().out
    assert "18446744073709551615" in revseq(
        "run", "[18446744073709551615]", "[1]", "--axis", 0, "--dtype", "UINT64"
    ).ok().out  # fmt: skip


def test_h33_encodings(revseq, refused, tmp_path):
    for data in ("\ufeff[[1,\r\n2]]".encode(), b"[[1,\r\n2]]\r\n", "[[1, 2]]".encode("utf-16")):
        (tmp_path / "x.json").write_bytes(data)
        assert "[[2, 1]]" in revseq("run", "x.json", "[[2]]", "--axis", 1).ok().out
    for data in ("[[1, 2]]".encode("utf-16-le"), b"[[1, 2\xff]]", b"[[1,\x00 2]]"):
        (tmp_path / "x.json").write_bytes(data)
        refused("x.json", "x.json: ")


def test_h34_huge_digits_and_huge_texts(refused, tmp_path):
    for suffix in ("json", "txt"):
        for number in ("1" * 10**6, "0." + "1" * 10**6, "1e" + "9" * 10**5):
            (tmp_path / f"x.{suffix}").write_text(f"[[{number}]]")
            refused(f"x.{suffix}", f"x.{suffix}: ")
        with open(tmp_path / f"x.{suffix}", "wb") as f:
            f.truncate(100 * 10**9)
        refused(f"x.{suffix}", f"x.{suffix}: is a text of 100000000000 bytes")


# outputs


LINKS = [pytest.param(name, marks=pytest.mark.needs("links")) for name in ("soft.npy", "folder/x.npy")]


@pytest.mark.parametrize("output", ["x.npy", "./x.npy", "n.npy", "hard.npy", "{}/x.npy", *LINKS])
def test_h35_an_output_that_is_an_input(revseq, tmp_path, output):
    np.save(tmp_path / "x.npy", F4)
    np.save(tmp_path / "n.npy", np.array([[2], [4], [3]], np.uint32))
    os.link(tmp_path / "x.npy", tmp_path / "hard.npy")
    os.symlink("x.npy", tmp_path / "soft.npy")
    os.symlink(".", tmp_path / "folder")
    before = content(tmp_path)
    for overwrite in ((), ("--overwrite",)):
        done = revseq("run", "x.npy", "n.npy", "--axis", 1, "-o", output.format(tmp_path), *overwrite)
        done.refused("is an input of this job", "in-place")
    assert content(tmp_path) == before


def test_h36_an_existing_output(revseq, files):
    (files / "y.npy").write_bytes(b"old")
    revseq("run", "x.npy", "n.npy", "--axis", 1, "-o", "y.npy").refused("y.npy: already exists", "add --overwrite")
    assert (files / "y.npy").read_bytes() == b"old"
    revseq("run", "x.npy", "n.npy", "--axis", 1, "-o", "y.npy", "--overwrite").ok()
    assert np.load(files / "y.npy").shape == (3, 4)


@pytest.mark.needs("links")
def test_h37_an_output_with_other_names(revseq, files):
    (files / "real.npy").write_bytes(b"old")
    os.symlink("real.npy", files / "y.npy")
    os.link(files / "real.npy", files / "hard.npy")
    revseq("run", "x.npy", "n.npy", "--axis", 1, "-o", "y.npy", "--overwrite").ok()
    assert (files / "y.npy").is_symlink()
    assert np.load(files / "real.npy").shape == (3, 4)
    assert (files / "hard.npy").read_bytes() == b"old"


# inputs that are no files, and names


@pytest.mark.needs("devices")
def test_h53_inputs_that_are_no_regular_files(refused, tmp_path):
    (tmp_path / "folder.npy").mkdir()
    os.symlink("loop.npy", tmp_path / "loop.npy")
    os.symlink("/dev/zero", tmp_path / "zero.npy")
    os.symlink("/dev/zero", tmp_path / "zero.json")
    os.symlink("/dev/zero", tmp_path / "zero.h5")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s.npy"))
        for name in ("folder.npy", "loop.npy", "zero.npy", "zero.json", "zero.h5", "s.npy"):
            refused(name, f"{name}: ")


def test_h57_escapes_never_reach_a_terminal(revseq, tmp_path):
    hostile = "a\x1b]0;title\x07\x1b[31m\u202e\n\x9b1m"
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f[f"{hostile}\x7f"] = np.zeros((2, 2), "f4")
        f["b"] = np.zeros((2, 2), "f4")
    (tmp_path / "x.json").write_text(f'[["{hostile}"]]')
    (tmp_path / "y.json").write_text(json.dumps({hostile: 1}))
    (tmp_path / "x.txt").write_text(f"T: (Sizes:{{1}}, DataType:{hostile})\n[{hostile}]")
    (tmp_path / "x.md").write_text(f"InputTensor: (Sizes:{{1}}, DataType:FLOAT32)\n[{hostile}]\nAxis: {hostile}\n")
    for args in (
        ("show", "x.h5", hostile), ("run", "x.json", "[1]"), ("run", "y.json", "[1]"), ("run", "x.txt", "[1]"),
        ("run", "x.md"), ("verify", "x.md"), ("run", hostile, "[1]"), ("run", f"x.h5::{hostile}", "[1]"),
        ("levels", hostile), ("run", "[1]", "[1]", "--axis", "0", "-o", f"{hostile}.npy"), ("run", f"[{hostile}]", "[1]"),
    ):  # fmt: skip
        done = revseq(*args)
        assert all(line.isprintable() for line in (done.out + done.err).splitlines()), args
    done = revseq("show", f"x.h5::{hostile}\x7f").ok()
    assert printable(hostile) in done.out


@pytest.mark.needs("names of bytes")
def test_h58_names_in_any_encoding(revseq, tmp_path):
    name = b"a\x1b[31m\xff\n.npy"
    for env in ({}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}):
        done = revseq("run", os.fsdecode(name), "[1]", "--axis", 0, env=env).refused("no such file")
        assert r"a\x1b[31m\udcff\n.npy" in done.err
    np.save(os.fsdecode(os.fsencode(tmp_path) + b"/" + name), np.zeros(1, np.float32))
    revseq("run", os.fsdecode(name), "[1]", "--axis", 0).ok()
