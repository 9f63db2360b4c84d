"""Files that gzip, zstd, xz and bzip2 have packed: read, damaged, cut, joined, and bombs; in bounded memory."""

import bz2
import functools
import gzip
import io
import lzma
import os
import signal
import subprocess
import sys

import numpy as np
import oracle
import pytest
from conftest import COMMAND, environment
from processes import until
from tensor_files import EXPECTED, N, X

from revseq_cli.formats import npy

zstd = pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")

CHECKED = {zstd.CompressionParameter.checksum_flag: 1}  # as the program has it by default
ZSTD = functools.partial(zstd.compress, options=CHECKED)
PACK = {".gz": gzip.compress, ".zst": ZSTD, ".xz": lzma.compress, ".bz2": bz2.compress}
TEXT = "[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]"


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
     *((name, suffix) for name in ("x", "x.json{}") for suffix in (".zst", ".xz", ".bz2"))],
)  # fmt: skip
def test_any_packing_under_any_name(revseq, folder, tmp_path_factory, name, suffix):
    """Nothing is left in the folder for temporary files."""
    name, temporary = name.format(suffix), tmp_path_factory.mktemp("temporary")
    data = (
        TEXT.encode()
        if name.startswith(("x.txt", "x.json", "x.md"))
        else (folder / "x.npy").read_bytes()
    )
    (folder / name).write_bytes(PACK[suffix](data))
    env = {name: str(temporary) for name in ("TMPDIR", "TEMP", "TMP")}
    for engine in ("serial", "processes"):
        options = ("--engine", engine, "--overwrite", "--verify")
        revseq("run", name, "n.npy", "--axis", 1, "-o", "y.npy", *options, env=env).ok()
        assert oracle.same_bits(np.load(folder / "y.npy"), EXPECTED)
    revseq("run", name, "n.npy", "--axis", 1, "-o", "no/y.npy", env=env).refused("no such folder")
    assert os.listdir(temporary) == []


@pytest.mark.parametrize("suffix", PACK)
def test_cut_or_damaged(refused, folder, suffix):
    whole = (folder / f"x.npy{suffix}").read_bytes()
    for size in (5, len(whole) // 3, len(whole) - 1):
        (folder / "c.npy").write_bytes(whole[:size])
        refused("c.npy", "c.npy: ")
    for place in range(
        0, len(whole), 17
    ):  # none is the time in a header of gzip, which says nothing of the data
        data = bytearray(whole)
        data[place] ^= 0xFF
        (folder / "c.npy").write_bytes(data)
        refused("c.npy", "c.npy: ")
    (folder / "c.npy").write_bytes(whole + whole)
    refused("c.npy", "c.npy: decompresses to")


@pytest.mark.parametrize("suffix", PACK)
def test_members_one_after_another_and_padding(revseq, folder, suffix):
    """As pigz, pbzip2, pzstd and `cat a.gz b.gz` make them, and tapes."""
    data = (folder / "x.npy").read_bytes()
    packed = b"".join(PACK[suffix](data[i : i + 50]) for i in range(0, len(data), 50))
    skipped = (
        [b"", b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"]
        if suffix == ".zst"
        else [b""]
    )
    for before in skipped:
        (folder / "m.npy").write_bytes(before + packed + (bytes(8) if suffix == ".gz" else b""))
        revseq("convert", "m.npy", "y.npy", "--overwrite").ok()
        assert oracle.same_bits(np.load(folder / "y.npy"), X)


def test_refused(revseq, folder):
    np.savez(folder / "h.npz", x=X)
    (folder / "h.npz.gz").write_bytes(gzip.compress((folder / "h.npz").read_bytes()))
    revseq("convert", "x.npy", "y.npy.gz").refused(
        "y.npy.gz: compressed output is not supported", " y.npy\n"
    )
    revseq("convert", "x.npy.gz", "x.npy.gz", "--overwrite").refused(
        "compressed output is not supported"
    )
    revseq("show", "x.npy.gz::x").refused("has one tensor")
    revseq("show", "h.npz.gz").refused(
        "a zip archive", "compressed by gzip", "decompress it first: gunzip h.npz.gz"
    )


def test_a_python_without_zstandard(revseq, folder):
    """Before 3.14 and without the package; nothing else needs it."""
    gone = "import sys; sys.modules['compression.zstd'] = sys.modules['backports.zstd'] = sys.modules['compression'] = None"
    revseq("show", "x.npy.zst", code=gone).refused(
        "compressed by zstd, which this Python lacks",
        "expected the package backports.zstd",
        "pip install backports.zstd",
    )
    revseq("show", "x.npy.gz", code=gone).ok()


def test_a_bomb(revseq, folder):
    """Each member unpacks to 4 MiB."""
    zeros = bz2.compress(bytes(1 << 22))
    for name, count in (("b", 5 << 30), ("c", 9)):
        header = npy.make_header(np.dtype("i1"), (count,), "C")
        (folder / f"{name}.npy.bz2").write_bytes(bz2.compress(header) + zeros * 5)
    revseq("show", "b.npy.bz2").refused(
        "decompresses to 5,368,709,248 bytes", "at most 1000 times", "bunzip2 b.npy.bz2"
    )
    (folder / "b.txt.bz2").write_bytes(bz2.compress(b"[1,") + bz2.compress(b" " * (1 << 22)) * 5)
    code = "import revseq_cli.formats.text_files as files; files.LARGEST = 1 << 23"
    revseq("show", "b.txt.bz2", code=code).refused("a text of more than 8388608 bytes")
    code = "import revseq_cli.formats.refusals as refusals; refusals._BOMB_BYTES = 1 << 23"
    revseq("run", "c.npy.bz2", "[3]", "--axis", 0, "-o", "y.npy", code=code).refused(
        "bytes or more, but stores only"
    )
    assert not (folder / "y.npy").exists()


def test_what_is_wrong_far_behind_leaves_nothing(revseq, tmp_path):
    stream = io.BytesIO()
    np.save(stream, np.random.default_rng(5).integers(0, 4, (9, 1 << 13)).astype(np.float32))
    whole = stream.getvalue()
    packed = gzip.compress(whole, 1)
    longer, shorter = gzip.compress(whole + bytes(1 << 22), 1), gzip.compress(whole[:-1], 1)
    damaged = {packed[:1000] + b"?" + packed[1001:]: "damaged", packed[:-9]: "truncated"}
    for data, words in {**damaged, longer: "decompresses to", shorter: "decompresses to"}.items():
        (tmp_path / "x.npy.gz").write_bytes(data)
        revseq("run", "x.npy.gz", str([[9]] * 9), "--axis", 1, "-o", "y.npy").refused(
            f"x.npy.gz: {words}"
        )
        assert os.listdir(tmp_path) == ["x.npy.gz"]


@pytest.mark.needs("signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_while_it_is_unpacked_leaves_nothing(tmp_path, number):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with gzip.open(tmp_path / "x.npy.gz", "w", 1) as file:
        file.write(npy.make_header(np.dtype("u1"), (1 << 8, 1 << 20), "C"))
        for i in range(1 << 8):
            file.write(bytes([i]) * (1 << 20))
    command = [*COMMAND, "run", "x.npy.gz", str([[9]] * 256), "--axis", "1", "-o", "y.npy"]
    env = environment() | {"TMPDIR": str(temporary)}
    process = subprocess.Popen(command, cwd=tmp_path, env=env, stderr=-1, start_new_session=True)
    until(lambda: list(tmp_path.glob(".revseq-*")) or process.poll() is not None)
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == -number, err
    assert os.listdir(temporary) == []
    if number != signal.SIGKILL:  # which leaves the file beside the output
        assert sorted(os.listdir(tmp_path)) == ["temporary", "x.npy.gz"]
