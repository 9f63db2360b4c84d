"""Files that gzip, zstd, xz and bzip2 have packed: read, written, damaged, cut, joined, and bombs; in bounded memory."""

import bz2
import functools
import gzip
import io
import json
import lzma
import os
import subprocess
import sys
import zlib

import numpy as np
import oracle
import pytest
from conftest import COMMAND, environment

from revseq_cli.core import thresholds
from revseq_cli.core.errors import FormatError
from revseq_cli.formats import compression, contract
from revseq_cli.formats.table import COMPRESSIONS

zstd = compression.library(COMPRESSIONS[1], "the tests")
X = np.arange(12, dtype=np.float32).reshape(3, 4)
N = np.array([[2], [4], [3]], np.uint32)
EXPECTED = oracle.reverse(X, N, 1)
CHECKED = {zstd.CompressionParameter.checksum_flag: 1}  # as the program zstd has it by default
PACK = {
    ".gz": gzip.compress,
    ".zst": functools.partial(zstd.compress, options=CHECKED),
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
}
UNPACK = {".gz": gzip.decompress, ".zst": zstd.decompress, ".xz": lzma.decompress, ".bz2": bz2.decompress}
SUFFIXES = list(PACK)
TEXT = "[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]"
BIG = (
    np.random.default_rng(5).integers(0, 4, (1 << 11, 1 << 13)).astype(np.float32)
)  # with its header more than is held


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "n.npy", N)
    for suffix, pack in PACK.items():
        (tmp_path / f"x.npy{suffix}").write_bytes(pack((tmp_path / "x.npy").read_bytes()))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "suffix"),
    [*((name, ".gz") for name in ("x.npy", "x.npy{}", "x{}", "x", "x.txt{}", "x.json{}", "x.md{}")),
     *((name, suffix) for name in ("x", "x.json{}") for suffix in SUFFIXES[1:])],
)  # fmt: skip
def test_any_packing_under_any_name(revseq, folder, name, suffix):
    name = name.format(suffix)
    data = TEXT.encode() if name.startswith(("x.txt", "x.json", "x.md")) else (folder / "x.npy").read_bytes()
    (folder / name).write_bytes(PACK[suffix](data))
    revseq("run", name, "n.npy", "--axis", 1, "-o", "y.npy").ok()
    assert oracle.same_bits(np.load(folder / "y.npy"), EXPECTED)


@pytest.mark.parametrize(
    ("inner", "suffix"), [*((".npy", each) for each in SUFFIXES), (".txt", ".xz"), (".json", ".gz")]
)
def test_written(revseq, folder, inner, suffix):
    """Every program unpacks what is written, and its bytes are those of the file without the packing."""
    name = f"y{inner}{suffix}"
    revseq("run", "x.npy", "n.npy", "--axis", 1, "-o", name, "--verify").ok()
    revseq("run", "x.npy", "n.npy", "--axis", 1, "-o", f"y{inner}").ok()
    packed = (folder / name).read_bytes()
    assert UNPACK[suffix](packed) == (folder / f"y{inner}").read_bytes()
    revseq("diff", name, f"y{inner}").ok()
    revseq("run", "x.npy", "n.npy", "--axis", 1, "-o", name).refused("already exists")
    revseq("convert", f"y{inner}", name, "--overwrite").ok()
    assert (folder / name).read_bytes() == packed  # without the time when it was made
    assert not [each for each in os.listdir(folder) if each.startswith(".")]


def test_every_command(revseq, folder):
    assert "storage          npy, compression xz, version 1, " in revseq("show", "x.npy.xz").ok().out
    assert json.loads(revseq("show", "x.npy.gz", "--json", "--stats").ok().out)["tensors"][0]["statistics"]["max"] == 11
    revseq("check", "x.npy.gz", "n.npy", "--axis", 1).ok()
    revseq("diff", "x.npy.gz", "x.npy.zst").ok()
    revseq("convert", "x.npy.bz2", "y.h5").ok()
    jobs = b"input,lengths,axis,output\nx.npy.gz,n.npy,1,a.npy.xz\nx.npy.xz,n.npy,1,b.npy.gz\n"
    revseq("batch", "-", stdin=jobs).ok()
    revseq("diff", "a.npy.xz", "b.npy.gz").ok()
    revseq("export", "x.npy.gz", "n.npy", "--axis", 1, "--files", "-o", "m.json").ok()
    assert (folder / "m.InputTensor.npy").read_bytes() == (folder / "x.npy").read_bytes()
    revseq("run", "x.npy.gz", "n.npy", "--axis", 1, "-o", "x.npy.gz", "--overwrite").refused("is an input of this job")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_h1_cut_damaged_or_joined(refused, folder, suffix):
    whole = (folder / f"x.npy{suffix}").read_bytes()
    for size in (1, 5, len(whole) // 3, len(whole) - 5, len(whole) - 1):
        (folder / "c.npy").write_bytes(whole[:size])
        refused("c.npy", "c.npy: ")
    for place in range(0, len(whole), 17):
        data = bytearray(whole)
        data[place] ^= 0xFF
        (folder / "c.npy").write_bytes(data)
        if place not in IGNORED.get(suffix, ()):
            refused("c.npy", "c.npy: ")
    (folder / "c.npy").write_bytes(whole + b"more than belongs there")
    refused("c.npy", "is damaged: something else follows its")
    (folder / "c.npy").write_bytes(whole + whole)
    refused("c.npy", "after its last element", "were two files joined?")


IGNORED = {".gz": (5,)}  # the time in a header of gzip says nothing of the data


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_members_one_after_another_and_padding(done, folder, suffix):
    """As pigz, pbzip2, pzstd and `cat a.gz b.gz` make them, and tapes."""
    data = (folder / "x.npy").read_bytes()
    packed = b"".join(PACK[suffix](data[i : i + 50]) for i in range(0, len(data), 50))
    (folder / "m.npy").write_bytes(packed + (bytes(8) if suffix in (".gz", ".xz") else b""))
    assert oracle.same_bits(done("m.npy"), EXPECTED)
    if suffix == ".zst":
        (folder / "m.npy").write_bytes(b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc" + packed)
        assert oracle.same_bits(done("m.npy"), EXPECTED)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("convert", "x.npy", "y.h5.gz"), ["h5 is not packed by gzip", "Hint: leave out .gz"]),
        (("convert", "x.npy", "y.npz.xz"), ["npz is not packed by xz"]), (("convert", "x.npy", "y.gz"), ["has no suffix"]),
        (("show", "x.npy.gz::x"), ["contains one tensor"]), (("show", "h.npz.gz"), ["is a zip archive", "packed by gzip", "unpack it first: gunzip h.npz.gz"]),
        (("show", "none.npy.gz"), ["no such file"]), (("show", "x.npy.gz", "-f", "npz"), ["a packed .npz file cannot be read", "gunzip x.npy.gz"]), (("show", "e.npy.gz"), ["e.npy.gz: "]), (("convert", "x.npy", "y.h5.gz", "-f", "npy", "--chunks", "auto"), ["only HDF5 has chunks"]),
    ],
)  # fmt: skip
def test_refused(revseq, folder, args, words):
    np.savez(folder / "h.npz", x=X)
    (folder / "h.npz.gz").write_bytes(gzip.compress((folder / "h.npz").read_bytes()))
    (folder / "e.npy.gz").write_bytes(b"")
    revseq(*args).refused(*words)


def test_a_python_without_zstandard(revseq, folder):
    """Before 3.14 and without the package; nothing else needs it."""
    gone = "import sys; sys.modules['compression.zstd'] = sys.modules['backports.zstd'] = sys.modules['compression'] = None"
    for args in (("show", "x.npy.zst"), ("convert", "x.npy", "y.npy.zst")):
        revseq(*args, code=gone).refused(
            "needs zstd, which this Python lacks", "the package backports.zstd", "pip install backports.zstd"
        )
    revseq("show", "x.npy.gz", code=gone).ok()


@pytest.mark.parametrize("through", ["file", "pipe", "text"])
def test_h23_a_bomb(revseq, folder, monkeypatch, through):
    """Bzip2 packs 5 GiB of zeros into 4 KiB; each member here unpacks to 64 MiB. Smaller limits save half a minute."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|i1", "fortran_order": False, "shape": (5 << 30,)})
    head, zeros = bz2.compress(header.getvalue()), bz2.compress(bytes(1 << 26))
    (folder / "b.npy.bz2").write_bytes(head + zeros * 80)
    if through == "file":
        revseq("show", "b.npy.bz2").refused(
            "b.npy.bz2: unpacks to 5368709248 bytes or more from ", "at most 1000 times", "bunzip2 b.npy.bz2"
        )
    elif through == "text":
        (folder / "b.txt.bz2").write_bytes(bz2.compress(b"[1,") + bz2.compress(b" " * (1 << 26)) * 80)
        code = "import revseq_cli.formats.textfiles as files; files.LARGEST = 1 << 26"
        revseq("show", "b.txt.bz2", code=code).refused("is a text of more than 67108864 bytes")
    else:
        monkeypatch.setattr(contract, "_BOMB_BYTES", 1 << 27)
        with pytest.raises(FormatError, match="or more from"):
            for _ in compression.decompressed(iter([head, zeros * 80]), COMPRESSIONS[3], "x"):
                pass


def test_a_window_that_needs_much_memory(revseq, folder):
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 29}]
    (folder / "w.npy.xz").write_bytes(lzma.compress((folder / "x.npy").read_bytes(), filters=filters))
    revseq("show", "w.npy.xz").refused("needs more memory to unpack", "unpack it first: unxz w.npy.xz")


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    """A packed file that is not held in memory, and its lengths."""
    folder = tmp_path_factory.mktemp("big")
    np.save(folder / "x.npy", BIG)
    np.save(folder / "n.npy", np.arange(BIG.shape[0], dtype=np.uint32)[:, None])
    engine = zlib.compressobj(1, zlib.DEFLATED, 31)
    (folder / "x.npy.gz").write_bytes(engine.compress((folder / "x.npy").read_bytes()) + engine.flush())
    return folder


@pytest.mark.long
@pytest.mark.needs("peak")
def test_a_large_one_is_unpacked_into_a_temporary_file(big, tmp_path):
    assert BIG.nbytes >= thresholds.LARGEST_HELD
    job = [*COMMAND, "run", big / "x.npy.gz", big / "n.npy", "--axis", "1", "--memory", "16MiB", "--engine", "serial"]
    code = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    options = {"capture_output": True, "text": True, "check": True, "cwd": tmp_path, "env": environment()}
    done = subprocess.run([sys.executable, "-c", code, *map(str, job), "-o", "y.npy.zst"], **options)
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(done.stdout) * unit < 110 << 20
    expected = oracle.expected(BIG, np.load(big / "n.npy"), 1)
    with zstd.open(tmp_path / "y.npy.zst") as file:
        assert oracle.same_bits(np.load(file), expected)
    assert os.listdir(tmp_path) == ["y.npy.zst"]


def flipped(data, place):
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place:][1:]


@pytest.mark.parametrize(
    ("packed", "words"),
    [
        (lambda whole: flipped(gzip.compress(whole), 1000), "x.npy.gz: is damaged"),
        (lambda whole: flipped(gzip.compress(whole), -3), "x.npy.gz: is damaged"),
        (lambda whole: gzip.compress(whole + bytes(1 << 22)), "after its last element"),
        (lambda whole: gzip.compress(whole[:-1]), "is truncated"),
    ],
)
def test_a_large_one_that_is_wrong_leaves_nothing(revseq, tmp_path, packed, words):
    """What is large is made smaller here."""
    stream = io.BytesIO()
    np.save(stream, BIG[:9])
    (tmp_path / "x.npy.gz").write_bytes(packed(stream.getvalue()))
    job = ("run", "x.npy.gz", str([[9]] * 9), "--axis", 1, "-o", "y.npy")
    revseq(*job, thresholds={"LARGEST_HELD": 1 << 16}).refused(words)
    assert os.listdir(tmp_path) == ["x.npy.gz"]


def test_verify_reads_the_packed_file_back(revseq, folder):
    code = """
import revseq_cli.formats.compression as compression
packed = compression.compressed
compression.compressed = lambda pieces, method, where: packed((piece[:-1] + b"?" for piece in pieces), method, where)
"""
    revseq("convert", "x.npy", "y.npy.gz", "--verify", code=code).refused("y.npy.gz")
    revseq("run", "x.npy", "n.npy", "--axis", 1, "-o", "y.npy.gz", "--verify", code=code).refused("y.npy.gz")
    assert not list(folder.glob("y*"))
