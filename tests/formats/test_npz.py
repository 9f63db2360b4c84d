"""Archives of .npy members: what NumPy and zipfile make goes in, and an archive that lies is refused by name."""

import io
import struct
import zipfile
import zlib

import numpy as np
import oracle
import pytest
from libraries import beside_npz
from processes import peak
from tensor_files import EXPECTED, N, X, open_

from revseq_cli.core.errors import FormatError, RevseqError
from revseq_cli.files.transactions import FileTransaction
from revseq_cli.formats import npz, outputs, references


def archive(path, *, compression=zipfile.ZIP_STORED, **members):
    """The members, with whatever bytes; the archive's own fields are right."""
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, data in members.items():
            file.writestr(name, data)
        file.comment = b"a comment"


def npy(values=X):
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


def patched(path, at, data, header=b"PK\1\2"):
    """Lay bytes over the first such header."""
    whole = bytearray(path.read_bytes())
    place = whole.index(header) + at
    whole[place : place + len(data)] = data
    path.write_bytes(whole)


def test_which_member(tmp_path):
    path = tmp_path / "x.npz"
    archive(path, **{"a.npy": npy(), "a.npy.npy": npy(N), "notes.txt": b"text"})
    for name in ("a", "a.npy", "a.npy.npy"):  # as numpy.load has them
        assert oracle.same_bits(open_(f"{path}::{name}").read(), np.load(path)[name])
    for name in ("b", "notes.txt", ""):
        with pytest.raises(FormatError, match="no such tensor"):
            open_(f"{path}::{name}")
    with pytest.raises(FormatError, match="2 tensors") as caught:
        open_(path)
    assert caught.value.hint.split("\n  ")[1:] == [f"{path}::a", f"{path}::a.npy.npy"]
    archive(path, **{"notes.txt": b"text"})
    with pytest.raises(FormatError, match="has no tensor"):
        open_(path)


def test_members_that_cannot_be_read(refused, tmp_path):
    for flag in (1, 1 << 5, 1 << 6):
        archive(tmp_path / "x.npz", **{"x.npy": npy()})
        patched(tmp_path / "x.npz", 8, flag.to_bytes(2, "little"))
        refused("x.npz", "x.npz::x: encrypted" if flag == 1 else "x.npz::x: damaged")
    archive(tmp_path / "x.npz", compression=zipfile.ZIP_BZIP2, **{"x.npy": npy()})
    refused("x.npz", "x.npz::x: has the compression method 12")
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as file:
        file.writestr("x.npy", npy())
        with pytest.warns(UserWarning, match="Duplicate"):
            file.writestr("x.npy", npy(X + 1))
    refused("x.npz", "x.npz: has two members of one name")


@pytest.mark.parametrize(
    ("at", "number", "problem"),
    [
        (24, 1 << 30, "has 1073741648 bytes after its last element"), (24, 175, "x.npz::x: damaged"),
        (24, 0, "x.npz::x: damaged"), (24, 177, "has 1 bytes after its last element"), (24, 0xFFFFFFF0, "x.npz::x: "),
        (20, 3, "damaged"), (20, 1 << 30, "x.npz::x: "), (42, 7, "outside its archive"),
    ],
)  # fmt: skip
def test_a_directory_that_lies(refused, tmp_path, at, number, problem):
    archive(tmp_path / "x.npz", compression=zipfile.ZIP_DEFLATED, **{"x.npy": npy()})
    patched(tmp_path / "x.npz", at, number.to_bytes(4, "little"))
    refused("x.npz", problem)


def test_a_bomb(refused, tmp_path, monkeypatch):
    """5 GiB in some bytes: refused before they are read."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 0)
    archive(tmp_path / "x.npz", compression=zipfile.ZIP_DEFLATED, **{"x.npy": npy()})
    (info,) = zipfile.ZipFile(tmp_path / "x.npz").infolist()
    sizes = [struct.pack("<2Q", size, info.compress_size) for size in (info.file_size, 5 << 30)]
    (tmp_path / "x.npz").write_bytes((tmp_path / "x.npz").read_bytes().replace(*sizes))
    refused("x.npz", "x.npz::x: decompresses to 5,368,709,120 bytes or more", "at most 1000 times")


def test_bytes_behind_the_deflated_data(refused, tmp_path):
    packer = zlib.compressobj(wbits=-15)
    archive(
        tmp_path / "x.npz", **{"x.npy": packer.compress(npy()) + packer.flush() + bytes(1 << 24)}
    )
    for header, method, size in ((b"PK\1\2", 10, 24), (b"PK\3\4", 8, 22)):
        patched(tmp_path / "x.npz", method, (8).to_bytes(2, "little"), header)
        patched(tmp_path / "x.npz", size, (176).to_bytes(4, "little"), header)
    refused("x.npz", "x.npz::x: damaged")


@pytest.mark.needs("peak")
def test_the_memory_of_a_large_deflated_member(tmp_path):
    """128 MiB go through a small part of that."""
    file = zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with file, file.open("x.npy", "w") as member:
        member.write(npz.npy.make_header(np.dtype("u1"), (1 << 7, 1 << 20), "C"))
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
    revseq("run", "x.npz", "[[1]]", "--axis", 1).refused(
        "has 2 tensors\n", "\n  x.npz::x\n  x.npz::n\n"
    )


def test_the_hint_lists_members_of_numbers_alone(revseq, tmp_path):
    np.savez(
        tmp_path / "x.npz", x=np.ones((2, 3)), ids=np.array(["a", "b"]), days=np.zeros(2, "M8[D]")
    )
    err = revseq("run", "x.npz", "[[1]]", "--axis", 1).refused("has 3 tensors\n").err
    assert err.strip().endswith("did you mean: x.npz::x")


def test_a_huge_directory_is_not_read(refused, tmp_path):
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, 0xFFFFFF00, 4, 0)
    with open(tmp_path / "x.npz", "wb") as file:
        file.write(b"PK\3\4")
        file.truncate(4 + 0xFFFFFF00)
        file.seek(0, 2)
        file.write(end)
    refused("x.npz", "x.npz: has a directory of 4294967040 bytes")


def test_bytes_outside_the_archive(refused, tmp_path):
    archive(tmp_path / "x.npz", **{"x.npy": npy()})
    whole = (tmp_path / "x.npz").read_bytes()
    assert oracle.same_bits(open_(tmp_path / "x.npz").read(), X)
    for data in (whole + b"!", whole + whole, whole[:-1], b"PK\3\4" + whole):
        (tmp_path / "x.npz").write_bytes(data)
        refused("x.npz", "x.npz: has bytes outside its archive")


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_any_flipped_bits_are_noticed(tmp_path, compression):
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


def test_who_only_reads_sees_damage_too(revseq, tmp_path):
    np.save(tmp_path / "x.npy", X)
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        archive(tmp_path / "n.npz", compression=compression, **{"n.npy": npy(N)})
        for header, at in ((b"PK\1\2", 16), (b"PK\3\4", 14)):
            patched(tmp_path / "n.npz", at, b"\1\2\3\4", header)
        for command in (("show", "n.npz", "--stats"), ("check", "x.npy", "n.npz", "--axis", 1)):
            revseq(*command).refused("n.npz::n: damaged")


# Copies of an archive, with one member replaced.
BIG = np.random.default_rng(1).integers(-500, 500, (5, 30, 7)).astype("<f4")
LENGTHS = np.random.default_rng(2).integers(0, 31, (5, 1, 7)).astype("u4")
REVERSED = oracle.reverse(BIG, LENGTHS, 1)
OTHERS = {
    "a/first": np.arange(7), "odd": np.array([["x", "yy"]]), "n": LENGTHS, "empty": np.zeros((0, 3)), "scalar": np.float64(3),
    "big": np.random.default_rng(3).integers(0, 9, 1 << 19).astype(">i8"),
}  # fmt: skip
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)
COPY = ("run", "x.npz::x", "x.npz::n", "--axis", 1, "-o", "y.npz", "--verify")


def write_zip(path, method, place):
    """An archive with members of other kinds, among which `x` is the one of that number.

    Nobody can read the last two: one says that it is encrypted, and one has an unknown method.
    """
    rng = np.random.default_rng(4)
    members = [(f"{name}.npy", npy(values)) for name, values in OTHERS.items()]
    members += [
        ("readme.txt", b"text"),
        ("folder/", b""),
        ("naïve.bin", rng.bytes(999)),
        ("pickle.npy", b"\x80 none"),
    ]
    members += [("secret.npy", b"s" * 40), ("strange.bin", b"t" * 40)]
    members.insert(place, ("x.npy", npy(BIG)))
    with zipfile.ZipFile(path, "w") as archive:
        for i, (name, data) in enumerate(members):
            info = zipfile.ZipInfo(name, (2020, 1, 2, 3, 4, 2 * i))
            info.compress_type = (
                METHODS[i % 3] if info.filename not in ("x.npy", "n.npy") else method
            )
            info.comment, info.external_attr, info.extra = (
                b"c%d" % i,
                i << 16,
                struct.pack("<2HL", 0x5455, 4, i),
            )
            with archive.open(info, "w", force_zip64=i % 2 == 1) as member:
                member.write(data)
        archive.comment = b"a comment"
        begins = [info.header_offset for info in archive.infolist()[-2:]]
    data = bytearray(path.read_bytes())
    for begin, name, at, value in zip(
        begins, (b"secret.npy", b"strange.bin"), (8, 10), (1, 98), strict=True
    ):
        struct.pack_into("<H", data, data.rindex(name) - 46 + at, value)
        struct.pack_into("<H", data, begin + at - 2, value)
    path.write_bytes(data)


@pytest.mark.parametrize(("method", "place"), [(zipfile.ZIP_STORED, 10), (zipfile.ZIP_DEFLATED, 3)])
def test_an_archive(revseq, tmp_path, method, place):
    write_zip(tmp_path / "x.npz", method, place)
    revseq(*COPY).ok()
    assert beside_npz(tmp_path / "x.npz", "x") == beside_npz(tmp_path / "y.npz", "x")
    assert zipfile.ZipFile(tmp_path / "y.npz").getinfo("strange.bin").compress_type == 98
    with np.load(tmp_path / "y.npz") as found:
        assert oracle.same_bits(found["x"], REVERSED)


@pytest.mark.parametrize("limit", [100, 3000, 30_000])
def test_an_archive_behind_4_gib(tmp_path, monkeypatch, limit):
    write_zip(tmp_path / "x.npz", zipfile.ZIP_STORED, 2)
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", limit)
    like = open_(f"{tmp_path / 'x.npz'}::x")
    reference = references.Reference(str(tmp_path / "y.npz"))
    sink = outputs.create_sink(reference, like, overwrite=False, only=False)
    region = tuple(slice(0, size) for size in BIG.shape)
    with FileTransaction(sink.file), sink:
        sink.receive(sink.block_writer().deliver(region, REVERSED))
    before, after = beside_npz(tmp_path / "x.npz", "x"), beside_npz(tmp_path / "y.npz", "x")
    assert (before.pop("names"), before.pop("comment")) == (after["names"], after["comment"])
    assert all(before[name][-1] == after[name][-1] for name in before)  # the bytes that are stored
    assert b"PK\6\6" in (tmp_path / "y.npz").read_bytes()
    with np.load(tmp_path / "y.npz") as found:
        assert oracle.same_bits(found["x"], REVERSED)


def test_members_that_overlap(revseq, tmp_path):
    write_zip(tmp_path / "x.npz", zipfile.ZIP_STORED, 2)
    data = bytearray((tmp_path / "x.npz").read_bytes())
    begin = zipfile.ZipFile(tmp_path / "x.npz").getinfo("x.npy").header_offset
    struct.pack_into("<L", data, data.rindex(b"readme.txt") - 4, begin + 50)
    (tmp_path / "x.npz").write_bytes(data)
    # zipfile itself finds it since Python 3.14, and some earlier ones.
    assert "damaged" in revseq(*COPY).refused("x.npz").err
    assert not (tmp_path / "y.npz").exists()


@pytest.mark.parametrize("kind", ["zeros", "noise", "empty"])
@pytest.mark.parametrize("more", [(), ("--jobs", 2, "--memory", "1MB", "--verify")])
def test_a_deflated_member_stays_deflated(revseq, tmp_path, kind, more):
    """Also where it does not get smaller."""
    shape = {"zeros": (3, 40_000), "noise": (70, 5_000), "empty": (0, 4)}[kind]
    x = np.zeros(shape, "f4")
    if kind == "noise":
        x = np.frombuffer(np.random.default_rng(1).bytes(x.nbytes), "f4").reshape(shape)
    n = np.full(shape[0], shape[1] // 2)
    np.savez_compressed(tmp_path / "x.npz", x=x, n=n, label=np.arange(3))
    job = ("x.npz::x", "x.npz::n", "--axis", 1, "--batch-axis", 0, *more)
    expected = x.copy()
    expected[:, : shape[1] // 2] = x[:, : shape[1] // 2][:, ::-1]
    outputs = {"y.npz": "x", "added.npz::new": "new", "only.npz": "x"}
    for output, key in outputs.items():
        only = ("--only",) if output == "only.npz" else ()
        revseq("run", *job, *only, "-o", output).ok()
        path = tmp_path / output.partition("::")[0]
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
            assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_DEFLATED}
        with np.load(path) as data:
            assert data[key].tobytes() == expected.tobytes()
            if not only:
                assert np.array_equal(data["label"], np.arange(3))
    if kind == "zeros":
        assert (tmp_path / "y.npz").stat().st_size < 3000


def test_a_stored_member_that_is_replaced_in_an_output_stays_stored(revseq, tmp_path):
    x = np.zeros((2, 3))
    np.savez_compressed(tmp_path / "x.npz", x=x)
    np.savez(tmp_path / "y.npz", a=x, b=x)
    job = ("run", "x.npz", "[1, 2]", "--axis", 1, "--batch-axis", 0, "--overwrite")
    revseq(*job, "-o", "y.npz::a").ok()
    with zipfile.ZipFile(tmp_path / "y.npz") as archive:
        methods = [info.compress_type for info in archive.infolist()]
    assert methods == [zipfile.ZIP_STORED] * 2
