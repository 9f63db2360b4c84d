"""What a trusted file tool survives, part 1: files that lie. Their numbers are those of failure_modes.md.

Each runs the real command on an input that is damaged, hostile or not what its name says, with an old output in place.
It must be refused in one message that names the file, or done right; and the folder must be as it was.
"""

import io
import json
import os
import socket

import h5py
import hdf5plugin
import numpy as np
import pytest
from folders import content

from revseq_cli.core.errors import printable

F4 = np.arange(12, dtype=np.float32).reshape(3, 4)


def npy(values):
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


def headed(text, version=1):
    """A .npy of that header and 48 bytes of elements."""
    raw = text.encode("latin1").ljust(118) + b"\n"
    length = len(raw).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + raw + bytes(48)


def header(descr="'<f4'", shape="(3, 4)", order="False"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


def h5(**datasets):
    stream = io.BytesIO()
    with h5py.File(stream, "w") as f:
        for name, values in datasets.items():
            f[name] = values
    return stream.getvalue()


def cut(whole, *lengths):
    return [whole[:length] for length in (*lengths, len(whole) - 1)]


class Bomb:
    def __reduce__(self):
        return os.system, ("touch pwned",)


long_double = pytest.mark.needs("long doubles")
# Contents of x.npy, and what is told of them.
NPY = [
    *((data, "") for data in cut(npy(F4), 0, 5, 9, 70, 128)),  # 1
    (npy(np.array([Bomb()], object)), "pickle is never loaded"),  # 2
    *((headed(header(descr)), "data type")  # 6
      for descr in ("'<U3'", "'|S4'", "'<M8[s]'", "'|V4'", "[('a', '<f4')]", "('<f4', (2,))", "'|V0'")),
    pytest.param(headed(header("'<f16'")), "data type", marks=long_double),
    *((headed(header(shape=shape)), words) for shape, words in (  # 7
        ("(1152921504606846976,)", "truncated"), ("(4294967296, 4294967296, 4294967296)", "truncated"),
        ("(-3, 4)", "sizes from 0"), ("(True, 4)", "32 bytes after"), ("3", "damaged header"), (str((1,) * 65), "dimension count 65"))),
    *((headed(text, 2), "header") for text in (  # 8
        "(" * 4000, "__import__('os').system('touch pwned')", "{" * 60_000, "\x00\xff\x1b", "{[]: 1}", header(order="1"),
        "dict(descr='<f4', fortran_order=False, shape=(3, 4))", "{'descr': '<f4', 'fortran_order': False}", header("'<x9'"),
        header("()"))),
    (npy(F4) + b"more", "4 bytes after"),  # 9
    (b"PK\x03\x04rest", "has no complete zip directory"), (b"\x89HDF\r\n\x1a\n", "HDF5 cannot read it"),  # 10, damaged as well
    (b"[[1, 2]", "is missing"), (b"\x1f\x8b\x08", "truncated: it cannot be decompressed"),
    (b"version https://git-lfs.github.com/spec/v1", "it looks like a git-LFS pointer"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "words"), NPY, ids=map(str, range(len(NPY))))
def test_h1_h2_h6_h7_h8_h9_h10_npy(refused, tmp_path, data, words):
    (tmp_path / "x.npy").write_bytes(data)
    refused("x.npy", "x.npy: ", words)


def test_h8_a_header_of_2_gib_is_not_read(refused, tmp_path):
    with open(tmp_path / "x.npy", "wb") as f:
        f.write(b"\x93NUMPY\x02\x00" + (2**31).to_bytes(4, "little"))
        f.truncate(2**31 + 100)
    refused("x.npy", "x.npy: ", "header of 2147483648 bytes")


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_h3_h4_h5_versions_and_orders_of_npy(revseq, files, version):
    bits = np.array([[0x7FC00001, 0x7F800001, 0x80000000, 1]] * 3, ">u4")
    with open(files / "x.npy", "wb") as f:
        np.lib.format.write_array(f, np.asfortranarray(bits.view(">f4")), version)
    for options in ((), ("--memory", "1K", "--engine", "processes", "--jobs", 2)):
        revseq(
            "run", "x.npy", "[[4], [4], [4]]", "--axis", 1, "-o", "y.npy", "--overwrite", *options
        ).ok()
        result = np.load(files / "y.npy")
        assert (result.dtype.str, result.flags.f_contiguous) == (">f4", True)
        assert (result.view(">u4") == bits[:, ::-1]).all()
        assert (files / "y.npy").read_bytes()[6] == 1


# lengths


@pytest.mark.parametrize("shape", [(4,), (1, 1), (3, 4), (1, 3), (3, 1, 1)])
def test_h14_lengths_of_other_sizes(refused, tmp_path, shape):
    np.save(tmp_path / "x.npy", F4)
    np.save(tmp_path / "n.npy", np.ones(shape, np.uint32))
    refused("x.npy", "n.npy: has", "one for each sequence along axis 1 of x.npy")


# .h5


def test_h16_no_dataset_several_or_a_group(refused, tmp_path):
    (tmp_path / "x.h5").write_bytes(h5())
    refused("x.h5", "x.h5: has no dataset")
    (tmp_path / "x.h5").write_bytes(h5(**{f"g/d{i}\x1b[1m": F4 for i in range(30)}))
    refused("x.h5", "x.h5: has 30 datasets\n", "the first 10 of 30")
    refused("x.h5::/g", "a group")
    for name in ("/none", "/g/none", "/none/d1"):
        refused(f"x.h5::{name}", f"x.h5::{name}: no such dataset")


@pytest.mark.parametrize(
    "dtype",
    ["S3", h5py.string_dtype(), h5py.vlen_dtype(np.int32), [("a", "f4")], h5py.opaque_dtype("V4"), h5py.ref_dtype,
     h5py.regionref_dtype, ("S3", (3,)), (h5py.ref_dtype, (3,)), [("r", "<f4"), ("i", ">f4")], [("r", "f2"), ("i", "f2")],
     pytest.param("g", marks=long_double)],
)  # fmt: skip
def test_h17_h18_types_that_no_tensor_has(refused, tmp_path, dtype):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("x", (3, 4), dtype)
    refused("x.h5", "x.h5::/x: ")


def test_h19_h26_no_values_and_half_a_file(refused, tmp_path):
    whole = h5(x=np.zeros((3, 400), "f4"))
    for data, words in (
        (h5(x=h5py.Empty("f4")), "x.h5::/x: has a null dataspace"),
        (h5(x=np.float32(1)), "x.h5::/x: dimension count is 0"),
        *(
            (data, "HDF5 cannot read it" if len(data) >= 100 else "x.h5: ")
            for data in cut(whole, 0, 8, 100, 2000)
        ),
    ):
        (tmp_path / "x.h5").write_bytes(data)
        refused("x.h5", words)


def test_h23_decompression_bombs(refused, revseq, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        options = {"chunks": (1, 1 << 20), "compression": "gzip"}
        f.create_dataset("x", (3, 1 << 40), "f4", **options)[0, : 1 << 20] = 0
        f.create_dataset("never_written", (3, 1 << 29), "f4", **options)
        f.create_dataset("large", (3, 1 << 20), "f4", **options)[0] = 1
    refused("x.h5::x", "decompresses to 13,194,139,533,312 bytes or more, but stores only ")
    refused("x.h5::never_written", "decompresses to 6,442,450,944 bytes or more, but stores only 0")
    refused("x.h5::large", "the memory is 1048576 bytes", options=("--memory", "1M"))
    assert revseq("show", "x.h5::x").status == 2


def test_h24_a_filter_that_is_missing(refused, revseq, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("x", data=F4, chunks=(3, 4), compression=40000, allow_unknown_filter=True)
        f.create_dataset("zstd", data=F4, chunks=(3, 4), **hdf5plugin.Zstd(3))
    refused("x.h5::x", "x.h5::/x: needs the filter 40000")
    done = revseq(
        "run",
        "x.h5::zstd",
        "[[1], [1], [1]]",
        "--axis",
        1,
        code="import sys; sys.modules['hdf5plugin'] = None",
    )
    done.refused("x.h5::/zstd: needs the filter 32015 (zstd)", "pip install hdf5plugin\n")


@pytest.mark.parametrize("options", [{"fletcher32": True}, {"compression": "gzip"}])
@pytest.mark.parametrize(("place", "engine"), [(0, "serial"), (896, "serial"), (896, "processes")])
def test_h25_a_damaged_chunk(refused, tmp_path, options, place, engine):
    values = np.random.default_rng(1).integers(0, 2**32, (1024, 64), np.uint32)
    with h5py.File(tmp_path / "x.h5", "w") as f:
        x = f.create_dataset("x", data=values, chunks=(128, 64), **options)
        offset = x.id.get_chunk_info_by_coord((place, 0)).byte_offset
    with open(tmp_path / "x.h5", "r+b") as f:
        f.seek(offset + 40)
        f.write(b"\xff\xff\xff\xff")
    np.save(tmp_path / "n.npy", np.full((1024, 1), 5, np.uint32))
    options = ("--engine", engine, "--jobs", 1, "--memory", "800K")
    refused("x.h5", f"x.h5::/x: the chunk at [{place}, 0] is damaged", options=options)


# text


@pytest.mark.parametrize("suffix", ["json", "txt"])
def test_h28_h34_deep_and_huge_texts(refused, tmp_path, suffix):
    deep = ["[" * 100_000 + "1" + "]" * 100_000, "[" * 100_000, "]" * 100_000]
    huge = [f"[[{number}]]" for number in ("1" * 10**6, "0." + "1" * 10**6, "1e" + "9" * 10**5)]
    for text in (*deep, *huge):
        (tmp_path / f"x.{suffix}").write_text(text)
        refused(f"x.{suffix}", f"x.{suffix}: ")
    with open(tmp_path / f"x.{suffix}", "wb") as f:
        f.truncate(100 * 10**9)
    refused(f"x.{suffix}", f"x.{suffix}: a text of 100000000000 bytes")


# outputs


LINKS = [
    pytest.param(name, marks=pytest.mark.needs("links")) for name in ("soft.npy", "folder/x.npy")
]


@pytest.mark.parametrize("output", ["x.npy", "./x.npy", "n.npy", "hard.npy", "{}/x.npy", *LINKS])
def test_h35_an_output_that_is_an_input(revseq, files, output):
    os.link(files / "x.npy", files / "hard.npy")
    os.symlink("x.npy", files / "soft.npy")
    os.symlink(".", files / "folder")
    before = content(files)
    for overwrite in ((), ("--overwrite",)):
        done = revseq("run", "x.npy", "n.npy", "--axis", 1, "-o", output.format(files), *overwrite)
        done.refused("the output is also an input")
    assert content(files) == before


@pytest.mark.needs("links")
def test_h36_h37_an_existing_output_with_other_names(revseq, files):
    (files / "real.npy").write_bytes(b"old")
    os.symlink("real.npy", files / "y.npy")
    os.link(files / "real.npy", files / "hard.npy")
    job = ("run", "x.npy", "n.npy", "--axis", 1, "-o", "y.npy")
    revseq(*job).refused("y.npy: exists already", "add --overwrite")
    assert (files / "y.npy").read_bytes() == b"old"
    revseq(*job, "--overwrite").ok()
    assert (files / "y.npy").is_symlink()
    assert np.load(files / "real.npy").shape == (3, 4)
    assert (files / "hard.npy").read_bytes() == b"old"


# inputs that are no files, and names


@pytest.mark.needs("devices")
def test_h53_inputs_that_are_no_regular_files(refused, tmp_path):
    (tmp_path / "folder.npy").mkdir()
    os.symlink("loop.npy", tmp_path / "loop.npy")
    for suffix in ("npy", "json", "h5"):
        os.symlink("/dev/zero", tmp_path / f"zero.{suffix}")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s.npy"))
        for name in ("folder.npy", "loop.npy", "zero.npy", "zero.json", "zero.h5", "s.npy"):
            refused(name, f"{name}: ")


def test_h57_escapes_never_reach_a_terminal(revseq, tmp_path):
    hostile = "a\x1b]0;title\x07\x1b[31m\u202e\n\x9b1m"
    (tmp_path / "x.h5").write_bytes(
        h5(**{f"{hostile}\x7f": np.zeros((2, 2), "f4"), "b": np.zeros((2, 2), "f4")})
    )
    (tmp_path / "x.json").write_text(f'[["{hostile}"]]')
    (tmp_path / "y.json").write_text(json.dumps({hostile: 1}))
    (tmp_path / "x.txt").write_text(f"T: (Sizes:{{1}}, DataType:{hostile})\n[{hostile}]")
    (tmp_path / "x.md").write_text(
        f"InputTensor: (Sizes:{{1}}, DataType:FLOAT32)\n[{hostile}]\nAxis: {hostile}\n"
    )
    for args in (
        ("show", "x.h5", hostile), ("run", "x.json", "[1]"), ("run", "y.json", "[1]"), ("run", "x.txt", "[1]"),
        ("run", "x.md"), ("verify", "x.md"), ("run", hostile, "[1]"), ("run", f"x.h5::{hostile}", "[1]"),
        ("levels", hostile), ("run", "[1]", "[1]", "--axis", "0", "-o", f"{hostile}.npy"), ("run", f"[{hostile}]", "[1]"),
    ):  # fmt: skip
        done = revseq(*args)
        assert all(line.isprintable() for line in (done.out + done.err).splitlines()), args
    assert printable(hostile) in revseq("show", f"x.h5::{hostile}\x7f").ok().out


@pytest.mark.needs("names of bytes")
def test_h58_names_in_any_encoding(revseq, tmp_path):
    name = b"a\x1b[31m\xff\n.npy"
    for env in ({}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}):
        done = revseq("run", os.fsdecode(name), "[1]", "--axis", 0, env=env).refused("no such file")
        assert r"a\x1b[31m\udcff\n.npy" in done.err
    np.save(os.fsdecode(os.fsencode(tmp_path) + b"/" + name), np.zeros(1, np.float32))
    revseq("run", os.fsdecode(name), "[1]", "--axis", 0).ok()
