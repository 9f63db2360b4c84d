"""Archives of .npy members: what NumPy and zipfile make goes in, and an archive that lies is refused by name."""

import struct
import zipfile
import zlib

import numpy as np
import oracle
import pytest
from processes import peak
from tensor_files import open_, write

from revseq_cli.core import thresholds
from revseq_cli.core.errors import FormatError, RevseqError, UsageError
from revseq_cli.formats import npz

X = np.arange(12, dtype=np.float32).reshape(3, 4)
N = np.array([[2], [4], [3]], np.uint32)
EXPECTED = oracle.reverse(X, N, 1)


def archive(path, *, compression=zipfile.ZIP_STORED, comment=b"", **members):
    """The members, with whatever bytes; the archive's own fields are right."""
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, data in members.items():
            file.writestr(name, data)
        file.comment = comment


def npy(values=X):
    return npz.npy.header_bytes(values.dtype, values.shape, "C") + values.tobytes()


def patched(path, at, data, header=b"PK\1\2"):
    """Lay bytes over the first such header."""
    whole = bytearray(path.read_bytes())
    place = whole.index(header) + at
    whole[place : place + len(data)] = data
    path.write_bytes(whole)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_input_and_lengths_in_one_file(revseq, tmp_path, save):
    save(tmp_path / "x.npz", x=X, n=N)
    for engine in ("serial", "processes"):
        options = ("--engine", engine, "--jobs", 2, "--memory", "4K", "--verify", "--overwrite", "--only")
        revseq("run", "x.npz::x", "x.npz::n.npy", "--axis", 1, "-o", "y.npz", *options).ok()
        with np.load(tmp_path / "y.npz") as found:
            assert found.files == ["x"]
            assert oracle.same_bits(found["x"], EXPECTED)
    revseq("run", "x.npz::x", "x.npz::n", "--axis", 1, "-o", "z.npz::of/mine", "--json").ok()
    with np.load(tmp_path / "z.npz") as found:
        assert oracle.same_bits(found["of/mine"], EXPECTED)


def test_it_is_no_stream(revseq, tmp_path):
    np.savez(tmp_path / "x.npz", x=X, n=N)
    job = ("x.npz::x", "x.npz::n", "--axis", 1)
    revseq("run", *job, "-f", "npz").refused(".npz cannot be written to a pipe")
    revseq("run", "-", *job[1:], stdin=(tmp_path / "x.npz").read_bytes()).refused(".npz cannot be read from a pipe")


def test_which_member(tmp_path):
    path = tmp_path / "x.npz"
    archive(path, **{"a.npy": npy(), "a.npy.npy": npy(N), "notes.txt": b"text"})
    for name in ("a", "a.npy", "a.npy.npy"):  # as numpy.load has them
        assert oracle.same_bits(open_(f"{path}::{name}").read(), np.load(path)[name])
    for name, problem in (("b", "no such tensor"), ("notes.txt", "no such tensor"), ("", "no such tensor")):
        with pytest.raises(FormatError, match=problem):
            open_(f"{path}::{name}")
    with pytest.raises(FormatError, match=r"2 tensors: a, a\.npy\.npy"):
        open_(path)
    archive(path, **{"notes.txt": b"text"})
    with pytest.raises(FormatError, match="has no tensor"):
        open_(path)
    archive(path)
    with pytest.raises(FormatError, match="has no tensor"):
        open_(path)


@pytest.mark.parametrize("name", ["", "..", "a/../b", "/a", "a//b", "a\\b", "c:", "a\0b", "\udcff", "x" * 40_000])
def test_names_that_could_not_be_unpacked_are_not_written(tmp_path, name):
    with pytest.raises(UsageError, match="not a valid member name"):
        write(f"{tmp_path / 'x.npz'}::{name}", X)
    assert not list(tmp_path.iterdir())


def test_large_sizes_take_64_bits(tmp_path, monkeypatch):
    """As they do from 4 GiB on; the limit is lowered here."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 10)
    write(tmp_path / "x.npz", X)
    assert b"PK\6\6" in (tmp_path / "x.npz").read_bytes()
    with np.load(tmp_path / "x.npz") as found:
        assert oracle.same_bits(found["tensor"], X)
    assert oracle.same_bits(open_(tmp_path / "x.npz").read(), X)


@pytest.mark.parametrize("flag", [1, 1 << 5, 1 << 6])
def test_encrypted_members(refused, tmp_path, flag):
    archive(tmp_path / "x.npz", **{"x.npy": npy()})
    patched(tmp_path / "x.npz", 8, flag.to_bytes(2, "little"))
    refused("x.npz", "x.npz::x: is encrypted")


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions(refused, tmp_path, compression):
    archive(tmp_path / "x.npz", compression=compression, **{"x.npy": npy()})
    refused("x.npz", f"x.npz::x: has the compression method {compression}")


def test_two_members_of_one_name(refused, tmp_path):
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as file:
        file.writestr("x.npy", npy())
        with pytest.warns(UserWarning, match="Duplicate"):
            file.writestr("x.npy", npy(X + 1))
    refused("x.npz", "x.npz: has two members of one name: x.npy")


@pytest.mark.parametrize(
    ("at", "data", "problem"),
    [
        (16, b"\1\2\3\4", "its CRC-32 is not the 04030201 that"),
        (24, (1 << 30).to_bytes(4, "little"), "has 1073741648 bytes after its last element"),
        (24, (175).to_bytes(4, "little"), "is damaged: its CRC-32 is not"),
        (24, (0).to_bytes(4, "little"), "is damaged: its CRC-32 is not"),
        (24, (177).to_bytes(4, "little"), "has 1 bytes after its last element"),
        (24, (0xFFFFFFF0).to_bytes(4, "little"), "x.npz::x: "),
        (20, (3).to_bytes(4, "little"), "is damaged"), (20, (1 << 30).to_bytes(4, "little"), "x.npz::x: "),
        (10, (0).to_bytes(2, "little"), "stored in 102 bytes, and declares 176"), (42, (7).to_bytes(4, "little"), "outside its archive"),
        (46, b"y", "damaged local header"),
    ],
)  # fmt: skip
def test_a_directory_that_lies(refused, streamed, tmp_path, at, data, problem):
    """Also where it is too large to be held."""
    archive(tmp_path / "x.npz", compression=zipfile.ZIP_DEFLATED, **{"x.npy": npy()})
    patched(tmp_path / "x.npz", at, data)
    refused("x.npz", problem)
    streamed("convert", "x.npz", "z.npy").refused("x.npz", problem)


def test_a_member_of_another_size_than_its_header_says(refused, tmp_path):
    for data, problem in ((npy() + b"!", "has 1 bytes after"), (npy()[:-1], "is truncated"), (b"", "empty file")):
        archive(tmp_path / "x.npz", **{"x.npy": data})
        refused("x.npz", "x.npz::x: ", problem)


def test_a_bomb(refused, tmp_path, monkeypatch):
    """5 GiB in some bytes: refused before they are read."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 0)
    archive(tmp_path / "x.npz", compression=zipfile.ZIP_DEFLATED, **{"x.npy": npy()})
    (info,) = zipfile.ZipFile(tmp_path / "x.npz").infolist()
    sizes = [struct.pack("<2Q", size, info.compress_size) for size in (info.file_size, 5 << 30)]
    (tmp_path / "x.npz").write_bytes((tmp_path / "x.npz").read_bytes().replace(*sizes))
    refused("x.npz", "x.npz::x: declares 5368709120 bytes and stores ", "at most 1000 times", "Hint: if it is what you")


def test_bytes_behind_the_deflated_data(refused, tmp_path):
    """However many: to gather them would take their size in memory, and the square of it in time."""
    packer = zlib.compressobj(wbits=-15)
    archive(tmp_path / "x.npz", **{"x.npy": packer.compress(npy()) + packer.flush() + bytes(1 << 24)})
    for header, method, size in ((b"PK\1\2", 10, 24), (b"PK\3\4", 8, 22)):
        patched(tmp_path / "x.npz", method, (8).to_bytes(2, "little"), header)
        patched(tmp_path / "x.npz", size, (176).to_bytes(4, "little"), header)
    refused("x.npz", "x.npz::x: is damaged")


# Deflated members that are too large to be held; the limit is lowered here.
STREAMED = "from revseq_cli.core import thresholds; thresholds.LARGEST_HELD = 0"


@pytest.fixture
def streamed(revseq, tmp_path):
    """Run the command, which must leave nothing in the temporary folder."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    def run(*args, code=""):
        done = revseq(*args, env={"TMPDIR": str(temporary)}, code=f"{STREAMED}\n{code}")
        assert not list(temporary.iterdir())
        assert not list(tmp_path.glob(".revseq-*"))
        return done

    return run


@pytest.mark.parametrize("engine", ["processes"])
def test_a_large_deflated_member(streamed, tmp_path, engine):
    np.savez_compressed(tmp_path / "x.npz", x=np.asfortranarray(X), n=N.astype(np.int64), m=N.ravel())
    options = ("--engine", engine, "--jobs", 2, "--memory", "4K", "--verify")
    streamed("run", "x.npz::x", "x.npz::n", "--axis", 1, "-o", "y.npy", "--lengths-dtype", "UINT32", *options).ok()
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), EXPECTED)
    streamed("run", "x.npz::x", "x.npz::m", "--axis", 1, "-o", "z.h5", "--batch-axis", 0, *options).ok()
    streamed("diff", "y.npy", "z.h5").ok()


@pytest.mark.needs("peak")
def test_the_memory_of_a_large_deflated_member(tmp_path):
    """128 MiB go through a small part of that."""
    file = zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with file, file.open("x.npy", "w") as member:
        member.write(npz.npy.header_bytes(np.dtype("u1"), (1 << 7, 1 << 20), "C"))
        for i in range(1 << 7):
            member.write(bytes([i]) * (1 << 20))
    _, memory, status = peak(tmp_path, "convert", "x.npz", "y.npy", "--memory", "8M")
    assert (status, memory < 128 << 10) == (0, True), memory
    found = np.load(tmp_path / "y.npy", mmap_mode="r")
    assert (found[:, [0, -1]] == np.arange(1 << 7)[:, None]).all()


def test_members_without_npy_in_their_names(revseq, tmp_path):
    """numpy.load tells them by their first bytes."""
    archive(tmp_path / "x.npz", **{"x": npy(), "n.npy": npy(N), "readme": b"text", "d/": b""})
    assert revseq("show", "x.npz", "--names").ok().out.splitlines() == ["x.npz::x", "x.npz::n"]
    revseq("run", "x.npz::x", "x.npz::n", "--axis", 1, "-o", "y.npz", "--verify").ok()
    with np.load(tmp_path / "y.npz") as found:
        assert oracle.same_bits(found["x"], EXPECTED)
        assert oracle.same_bits(found["n"], N)
        assert (found["readme"], found.files) == (b"text", ["x", "n", "readme", "d/"])
    revseq("run", "x.npz", "[[1]]", "--axis", 1).refused("has 2 tensors: x, n")


def test_a_huge_directory_is_not_read(refused, tmp_path):
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, 0xFFFFFF00, 4, 0)
    with open(tmp_path / "x.npz", "wb") as file:
        file.write(b"PK\3\4")
        file.truncate(4 + 0xFFFFFF00)
        file.seek(0, 2)
        file.write(end)
    refused("x.npz", "x.npz: has a directory of 4294967040 bytes")


def test_bytes_outside_the_archive(refused, tmp_path):
    archive(tmp_path / "x.npz", comment=b"a comment", **{"x.npy": npy()})
    whole = (tmp_path / "x.npz").read_bytes()
    assert oracle.same_bits(open_(tmp_path / "x.npz").read(), X)
    for data in (whole + b"!", whole + whole, whole[:-1], b"PK\3\4" + whole):
        (tmp_path / "x.npz").write_bytes(data)
        refused("x.npz", "x.npz: has bytes outside its archive")


@pytest.mark.parametrize(
    ("compression", "held"), [(zipfile.ZIP_STORED, 0), (zipfile.ZIP_DEFLATED, 1 << 20), (zipfile.ZIP_DEFLATED, 0)]
)
def test_any_flipped_bits_are_noticed(tmp_path, compression, held, monkeypatch):
    monkeypatch.setattr(thresholds, "LARGEST_HELD", held)
    path = tmp_path / "x.npz"
    archive(path, compression=compression, **{"x.npy": npy()})
    whole = path.read_bytes()
    rng = np.random.default_rng(3)
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            source = open_(path)
            found = source.read()
            source.recheck()
        except RevseqError:
            continue
        assert oracle.same_bits(found, X), place


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_who_only_reads_sees_damage_too(revseq, tmp_path, compression):
    archive(tmp_path / "x.npz", compression=compression, **{"x.npy": npy(), "n.npy": npy(N)})
    for header in (b"PK\1\2", b"PK\3\4"):
        patched(tmp_path / "x.npz", 16 if header == b"PK\1\2" else 14, b"\1\2\3\4", header)
    revseq("show", "x.npz::x", "--stats").refused("x.npz::x: is damaged")
    np.save(tmp_path / "x.npy", X)
    archive(tmp_path / "n.npz", compression=compression, **{"n.npy": npy(N)})
    patched(tmp_path / "n.npz", 16, b"\1\2\3\4")
    revseq("check", "x.npy", "n.npz", "--axis", 1).refused("n.npz::n: is damaged")
