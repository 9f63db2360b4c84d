"""Copies of .npz, .safetensors and Zarr: the output is the input, with one tensor replaced by the result."""

import io
import json
import struct
import warnings
import zipfile
import zlib

import h5py
import netCDF4
import numpy as np
import oracle
import pytest
import xarray
import zarr
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from tensor_files import open_

from revseq_cli.formats import references, registry
from revseq_cli.formats.contract import Layout

X = np.random.default_rng(1).integers(-500, 500, (5, 30, 7)).astype("<f4")
N = np.random.default_rng(2).integers(0, 31, (5, 1, 7)).astype("u4")
EXPECTED = oracle.reverse(X, N, 1)
WHOLE = tuple(slice(0, size) for size in X.shape)
OTHERS = {
    "a/first": np.arange(7), "odd": np.array([["x", "yy"]]), "n": N, "empty": np.zeros((0, 3)), "scalar": np.float64(3),
    "big": np.random.default_rng(3).integers(0, 9, 1 << 19).astype(">i8"),
}  # fmt: skip
RUN = ("run", "x{0}::x", "x{0}::n", "--axis", 1, "-o", "y{0}", "--verify")


def make(path, version=3, **tensors):
    """A file of these tensors, in the format of its suffix; without filters."""
    if path.suffix == ".npz":
        np.savez(path, **tensors)
    elif path.suffix == ".safetensors":
        save_file(tensors, path)
    elif path.suffix == ".zarr":
        for name, values in tensors.items():
            zarr.create_array(str(path), name=name, data=values, compressors=None, zarr_format=version)
    else:
        with netCDF4.Dataset(path, "w") as f:
            for name, values in tensors.items():
                dims = [f"{name}{d}" for d in range(values.ndim)]
                for dim, size in zip(dims, values.shape, strict=True):
                    f.createDimension(dim, size)
                f.createVariable(name, values.dtype, dims)[:] = values


METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)


def command(suffix, *more):
    return (*(each.format(suffix) if isinstance(each, str) else each for each in RUN), *more)


def npy(values):
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


def write_zip(path, method, place, last=(), comment=b"a comment"):
    """An archive with members of other kinds, among which `x` is the one of that number."""
    rng = np.random.default_rng(4)
    members = [(f"{name}.npy", npy(values)) for name, values in OTHERS.items()]
    members += [("readme.txt", b"text"), ("folder/", b""), ("naïve.bin", rng.bytes(999)), ("pickle.npy", b"\x80 none")]
    members += last
    members.insert(place, ("x.npy", npy(X)))
    with zipfile.ZipFile(path, "w") as archive:
        for i, (name, data) in enumerate(members):
            info = zipfile.ZipInfo(name, (2020, 1, 2, 3, 4, 2 * i))
            info.compress_type = METHODS[i % 3] if info.filename not in ("x.npy", "n.npy") else method
            info.comment, info.external_attr, info.extra = b"c%d" % i, i << 16, struct.pack("<2HL", 0x5455, 4, i)
            with archive.open(info, "w", force_zip64=i % 2 == 1) as member:
                member.write(data)
        archive.comment = comment


def raw_of(path):
    """The compressed bytes of each member, by name in the order of the directory, and what the directory says of it."""
    found = {}
    with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
        assert archive.testzip() is None
        for info in archive.infolist():
            file.seek(info.header_offset + 26)
            skipped = sum(struct.unpack("<2H", file.read(4)))
            file.seek(info.header_offset + 30 + skipped)
            facts = (info.date_time, info.compress_type, info.flag_bits, info.CRC, info.file_size, info.comment,
                     info.external_attr, info.create_version, info.extract_version)  # fmt: skip
            found[info.filename] = (file.read(info.compress_size), facts)
        return found, archive.comment


@pytest.mark.parametrize(
    ("method", "place"), [(zipfile.ZIP_STORED, 10), (zipfile.ZIP_DEFLATED, 0), (zipfile.ZIP_DEFLATED, 3)]
)
def test_an_archive(revseq, tmp_path, method, place):
    write_zip(tmp_path / "x.npz", method, place)
    done = revseq(*command(".npz", "--json")).ok()
    assert json.loads(done.out)["notes"] == []
    (before, comment), (after, kept) = raw_of(tmp_path / "x.npz"), raw_of(tmp_path / "y.npz")
    assert (list(before), comment) == (list(after), kept)
    assert {name: each for name, each in before.items() if name != "x.npy"} == {
        name: each for name, each in after.items() if name != "x.npy"
    }
    assert before["x.npy"][1][0] == after["x.npy"][1][0]  # its date
    with np.load(tmp_path / "y.npz") as found:
        assert oracle.same_bits(found["x"], EXPECTED)
        assert all(oracle.same_bits(found[name], values) for name, values in OTHERS.items())
    # Reversed once more, the tensor is what it was.
    revseq("run", "y.npz::x", "y.npz::n", "--axis", 1, "-o", "z.npz").ok()
    revseq("diff", "x.npz::x", "z.npz::x").ok()
    if method == zipfile.ZIP_STORED:
        assert (tmp_path / "y.npz").stat().st_size == (tmp_path / "z.npz").stat().st_size


def test_members_that_nobody_can_read_are_kept(revseq, tmp_path):
    """One whose flags say that it is encrypted, and one of an unknown method."""
    last = [("secret.npy", b"s" * 40), ("strange.bin", b"t" * 40)]
    write_zip(tmp_path / "x.npz", zipfile.ZIP_DEFLATED, 2, last)
    data = bytearray((tmp_path / "x.npz").read_bytes())
    for name, offset, value in ((b"secret.npy", -38, 1), (b"strange.bin", -36, 98)):
        central = data.rindex(name)
        struct.pack_into("<H", data, central + offset, value)
        local = data.index(name)
        struct.pack_into("<H", data, local + offset + 14, value)
    (tmp_path / "x.npz").write_bytes(data)
    revseq(*command(".npz")).ok()
    after = (tmp_path / "y.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "y.npz") as archive:
        assert archive.getinfo("secret.npy").flag_bits & 1
        assert archive.getinfo("strange.bin").compress_type == 98
        for name in (b"secret.npy", b"strange.bin"):
            begin = archive.getinfo(name.decode()).header_offset
            old = zipfile.ZipFile(tmp_path / "x.npz").getinfo(name.decode()).header_offset
            assert after[begin : begin + 80] == bytes(data[old : old + 80])


def fields_of(path):
    """The fields of each member in the directory but its place, as bytes, by its raw name."""
    data, found = path.read_bytes(), {}
    with zipfile.ZipFile(path) as archive:
        place = archive.start_dir
    while data[place : place + 4] == b"PK\1\2":
        lengths = struct.unpack_from("<3H", data, place + 28)
        behind = data[place + 46 : place + 46 + sum(lengths)]
        found[behind[: lengths[0]]] = (data[place : place + 42], behind[lengths[0] :])
        place += 46 + sum(lengths)
    return found


def test_every_field_of_the_directory_stays_as_it_was(revseq, tmp_path):
    """Names in ASCII and in UTF-8, with what zipfile changes on Windows; every bit of a date."""
    names = [b"x.npy", "naïve ☃.bin".encode(), b"a\\b.bin", bytes(range(1, 128)), b"n.npy"]
    data = directory = b""
    for name in names:
        flags = 1 << 11 if name == names[1] else 0
        content = {b"x.npy": npy(X), b"n.npy": npy(N)}.get(name, b"data")
        extra = struct.pack("<2HL", 0x5455, 4, 7) + b"end"
        common = (flags, 0, 0xBF7D, 0xFF9F, zlib.crc32(content), len(content), len(content), len(name))
        directory += struct.pack(
            "<4s6H3L5H2L", b"PK\1\2", 0x031E, 0x0214, *common, len(extra), 4, 0, 6, 0x81A40010, len(data)
        )
        directory += name + extra + b"note"
        data += struct.pack("<4s5H3L2H", b"PK\3\4", 20, *common, 0) + name + content
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, len(names), len(names), len(directory), len(data), 3) + b"all"
    (tmp_path / "x.npz").write_bytes(data + directory + end)
    revseq(*command(".npz")).ok()
    before, after = fields_of(tmp_path / "x.npz"), fields_of(tmp_path / "y.npz")
    assert [*before] == [*after]
    assert {name: each for name, each in before.items() if name != b"x.npy"} == {
        name: each for name, each in after.items() if name != b"x.npy"
    }
    with zipfile.ZipFile(tmp_path / "y.npz") as archive:
        assert archive.testzip() is None
        assert archive.comment == b"all"


@pytest.mark.long
def test_more_than_65535_members(revseq, tmp_path):
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        for i in range(66_000):
            archive.writestr(f"{i}.txt", b"%d" % i)
            if i == 9:
                archive.writestr("x.npy", npy(X))
                archive.writestr("n.npy", npy(N))
    revseq(*command(".npz")).ok()
    with zipfile.ZipFile(tmp_path / "y.npz") as archive:
        assert len(archive.infolist()) == 66_002
        assert archive.read("65999.txt") == b"65999"


@pytest.mark.parametrize("limit", [100, 3000, 30_000])
def test_an_archive_behind_4_gib(tmp_path, monkeypatch, limit):
    write_zip(tmp_path / "x.npz", zipfile.ZIP_STORED, 2)
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", limit)
    like = open_(f"{tmp_path / 'x.npz'}::x")
    reference = references.Reference(str(tmp_path / "y.npz"))
    with registry.create_sink(reference, like, overwrite=False, layout=Layout()) as sink:
        sink.receive(sink.block_writer(WHOLE).deliver(WHOLE, EXPECTED))
    (before, comment), (after, kept) = raw_of(tmp_path / "x.npz"), raw_of(tmp_path / "y.npz")
    assert (list(before), comment) == (list(after), kept)
    assert all(before[name][0] == after[name][0] for name in before if name != "x.npy")
    assert b"PK\6\6" in (tmp_path / "y.npz").read_bytes()
    with np.load(tmp_path / "y.npz") as found:
        assert oracle.same_bits(found["x"], EXPECTED)


def test_members_that_overlap(revseq, tmp_path):
    write_zip(tmp_path / "x.npz", zipfile.ZIP_STORED, 2)
    data = bytearray((tmp_path / "x.npz").read_bytes())
    place = data.rindex(b"readme.txt") - 4
    struct.pack_into("<L", data, place, zipfile.ZipFile(tmp_path / "x.npz").getinfo("x.npy").header_offset + 50)
    (tmp_path / "x.npz").write_bytes(data)
    done = revseq(*command(".npz")).refused("x.npz")
    # zipfile itself finds it since Python 3.14, and some earlier ones.
    assert "x.npz: has members that overlap" in done.err or "x.npz::x: has a damaged local header" in done.err
    assert not (tmp_path / "y.npz").exists()


def test_safetensors(revseq, tmp_path):
    others = {"n": N, "z": np.arange(9, dtype="i1"), "a": np.arange(1 << 18, dtype="f8"), "half": np.ones(3, "f2")}
    save_file({"m": X[:1], "x": X, **others}, tmp_path / "x.safetensors", metadata={"format": "pt", "b": "ü"})
    revseq(*command(".safetensors")).ok()
    before, after = ((tmp_path / f"{name}.safetensors").read_bytes() for name in "xy")
    start = before.index(X.tobytes())
    assert after == before[:start] + EXPECTED.tobytes() + before[start + X.nbytes :]
    found = load_file(tmp_path / "y.safetensors")
    assert oracle.same_bits(found["x"], EXPECTED)
    with safe_open(tmp_path / "y.safetensors", "np") as file:
        assert file.metadata() == {"format": "pt", "b": "ü"}


def test_safetensors_with_types_that_numpy_lacks(revseq, tmp_path):
    header = {"e": {"dtype": "F8_E4M3", "shape": [3], "data_offsets": [0, 3]},
              "x": {"dtype": "U8", "shape": [1, 4], "data_offsets": [3, 7]},
              "w": {"dtype": "BF16", "shape": [2], "data_offsets": [7, 11]}}  # fmt: skip
    text = json.dumps(header, indent=1).encode()
    (tmp_path / "x.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(range(11)))
    revseq("run", "x.safetensors::x", "[[3]]", "--axis", 1, "-o", "y.safetensors").ok()
    assert (tmp_path / "y.safetensors").read_bytes()[-11:] == bytes([0, 1, 2, 5, 4, 3, 6, 7, 8, 9, 10])
    assert (tmp_path / "y.safetensors").read_bytes()[8:-11] == text


def contents(store):
    return {str(path.relative_to(store)): path.read_bytes() if path.is_file() else None for path in store.rglob("*")}


def make_store(path, version, **options):
    root = zarr.open_group(path, mode="w", zarr_format=version, attributes={"title": "root"})
    group = root.create_group("g", attributes={"title": "group"})
    group.create_group("empty")
    options = {"chunks": (2, 8, 5)} | options
    for name in ("x", "other"):
        group.create_array(name, data=X, attributes={"name": name}, fill_value=7, **options)
    root.create_array("n", data=N)
    (path / "g/notes.txt").write_text("free text")
    (path / "g/x/notes.txt").write_text("inside")
    (path / "g/x/c").mkdir(exist_ok=True)
    (path / "g/x/c/99").mkdir()
    (path / "g/x/c/99/0").write_text("no chunk")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # version 3 has neither yet
        root.create_array("text", data=np.array(["a", "bc"], "U2"))
        zarr.consolidate_metadata(str(path))


@pytest.mark.needs("shell")
@pytest.mark.parametrize(("version", "name"), [(2, "x.zarr"), (3, "./x.zarr/"), (3, "../{0}/x.zarr")])
def test_a_store(revseq, tmp_path, version, name):
    make_store(tmp_path / "x.zarr", version)
    name = name.format(tmp_path.name)
    options = "--axis 1 -o y.zarr --verify --json".split()
    done = json.loads(revseq("run", f"{name}::g/x", f"{name}::n", *options).ok().out)
    assert done["notes"] == []
    before, after = contents(tmp_path / "x.zarr"), contents(tmp_path / "y.zarr")
    assert before.keys() == after.keys()
    changed = {each for each in before if before[each] != after[each]}
    assert changed
    assert all(each.startswith("g/x/") and each[-1].isdecimal() and "99" not in each for each in changed), changed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = zarr.open_consolidated(str(tmp_path / "y.zarr"), mode="r")
        assert (found["g/x"][...] == EXPECTED).all()
        assert (found["g/other"][...] == X).all()
        assert found["text"][...].tolist() == ["a", "bc"]
        assert found["g/x"].attrs["name"] == "x"


def test_a_sharded_array_of_a_store_and_chunks_that_are_absent(revseq, tmp_path):
    make_store(tmp_path / "x.zarr", 3, shards=(4, 8, 10))
    (tmp_path / "x.zarr/g/x/c/0/0/0").unlink()
    (tmp_path / "x.zarr/g/other/c/0/0/0").unlink()
    x = zarr.open_array(tmp_path / "x.zarr/g/x", mode="r")[...]
    done = revseq("run", "x.zarr::g/x", "x.zarr::n", "--axis", 1, "-o", "y.zarr", "--verify").ok()
    assert "are missing" in done.err
    assert (zarr.open_array(tmp_path / "y.zarr/g/x", mode="r")[...] == oracle.reverse(x, N, 1)).all()
    assert not (tmp_path / "y.zarr/g/other/c/0/0/0").exists()


@pytest.mark.needs("links")
def test_links_of_a_store_are_not_followed(revseq, tmp_path):
    make_store(tmp_path / "x.zarr", 3)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "x.zarr/g/other/link").symlink_to(tmp_path / "secret")
    line = ["run", "x.zarr::g/x", "x.zarr::n", "--axis", 1, "-o", "y.zarr"]
    revseq(*line).refused("link is not a regular file", "links are not followed")
    assert not (tmp_path / "y.zarr").exists()
    revseq(*line, "--only").ok()


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".zarr"])
def test_another_name_is_added(revseq, tmp_path, suffix):
    make(tmp_path / f"x{suffix}", x=X, n=N)
    job = ("run", f"x{suffix}::x", f"x{suffix}::n", "--axis", 1)
    done = revseq(*job, "-o", f"y{suffix}::new", "--verify", "--json").ok()
    assert json.loads(done.out)["notes"] == []
    for name, values in (("x", X), ("n", N), ("new", EXPECTED)):
        assert oracle.same_bits(open_(f"{tmp_path}/y{suffix}::{name}").read(), values)
    revseq("run", f"y{suffix}::new", f"y{suffix}::n", "--axis", 1, "-o", f"z{suffix}::again").ok()
    assert oracle.same_bits(open_(f"{tmp_path}/z{suffix}::again").read(), X)
    revseq(*job, "-o", f"w{suffix}::n").refused(f"x{suffix}: has another tensor n", "--only")


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".zarr"])
def test_only_this_tensor(revseq, tmp_path, suffix):
    make(tmp_path / f"x{suffix}", x=X, n=N)
    job = ("run", f"x{suffix}::x", f"x{suffix}::n", "--axis", 1, "--only")
    assert revseq(*job, "-o", f"y{suffix}").ok().err == ""
    assert revseq("show", f"y{suffix}", "--names").ok().out.endswith("x\n")
    revseq("convert", f"x{suffix}::x", f"z{suffix}").ok()
    assert revseq("show", f"z{suffix}", "--names").ok().out.endswith("x\n")


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".zarr"])
def test_an_input_that_changes_meanwhile(tmp_path, suffix):
    """Also where what changes is another tensor than the one that is reversed."""
    make(tmp_path / f"x{suffix}", x=X, n=N)
    changed = tmp_path / f"x{suffix}" / ("n/c/0/0/0" if suffix == ".zarr" else "")
    like = open_(f"{tmp_path / f'x{suffix}'}::x")
    reference = references.Reference(str(tmp_path / f"y{suffix}"))
    sink = registry.create_sink(reference, like, overwrite=False, layout=Layout())

    def work():
        with sink:
            write_result = sink.block_writer(WHOLE).deliver(WHOLE, EXPECTED)
            if write_result is not None:
                sink.receive(write_result)
            with open(changed, "r+b") as file:
                file.write(file.read(1))
            like.recheck()

    with pytest.raises(OSError, match="changed while it was read"):
        work()
    assert not (tmp_path / f"y{suffix}").exists()


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".h5", ".nc", ".zarr"])
def test_the_plan_counts_the_whole_output(revseq, tmp_path, suffix):
    """The file that is copied is written, too: `run` and `batch` say the same before, and it is what is there after."""
    values = np.arange(30_000.0).reshape(100, 300)
    make(tmp_path / f"x{suffix}", v=values, other=np.arange(500_000, dtype="i8"))
    np.save(tmp_path / "n.npy", np.full((100, 1), 250, "u4"))
    job = ("run", f"x{suffix}::v", "n.npy", "--axis", 1, "-o", f"y{suffix}")
    plan = json.loads(revseq(*job, "--dry-run", "--json").ok().out)["plan"]
    text = revseq(*job, "--dry-run").ok().out
    assert f"{plan['read_bytes']:,} read, {plan['write_bytes']:,} written" in text
    of_batch = json.dumps({"input": job[1], "lengths": "n.npy", "axis": 1, "output": job[6], "only": "--only" in job})
    lines = revseq("batch", "-", "--dry-run", "--json", stdin=of_batch.encode()).ok().out.splitlines()
    assert json.loads(lines[0])["plan"] == {name: plan[name] for name in ("read_bytes", "write_bytes")}
    revseq(*job).ok()
    whole = tmp_path / f"y{suffix}"
    size = sum(each.stat().st_size for each in (whole, *whole.rglob("*")) if each.is_file())
    assert abs(plan["write_bytes"] - size) < 4096
    assert plan["read_bytes"] == plan["write_bytes"] + 400


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
@pytest.mark.parametrize("like", [".nc", ".zarr", ".nc3"])
def test_the_plan_counts_what_goes_with_a_tensor(revseq, tmp_path, like, suffix):
    """Coordinates are written, too; compression takes less than the plan says."""
    rng = np.random.default_rng(0)
    coordinates = {"x": ("x", rng.random(300)), "other": ("z", rng.random(90_000))}
    values = {"v": (("y", "x"), rng.random((100, 300)))}
    data = xarray.Dataset(coordinates | values)
    if like == ".zarr":
        data.to_zarr(tmp_path / "x.zarr", consolidated=False)
    else:
        data.to_netcdf(tmp_path / "x.nc", **({"format": "NETCDF3_64BIT"} if like == ".nc3" else {}))
    np.save(tmp_path / "n.npy", np.full((100, 1), 250, "u4"))
    job = ("run", "x.zarr::v" if like == ".zarr" else "x.nc::v", "n.npy", "--axis", 1, "-o", f"y{suffix}", "--only")
    plan = json.loads(revseq(*job, "--dry-run", "--json").ok().out)["plan"]
    companions = 8 * 300  # the coordinate of a dimension
    assert plan["write_bytes"] == 8 * 30_000 + companions
    assert plan["read_bytes"] == plan["write_bytes"] + 400
    of_batch = json.dumps({"input": job[1], "lengths": "n.npy", "axis": 1, "output": job[6], "only": "--only" in job})
    lines = revseq("batch", "-", "--dry-run", "--json", stdin=of_batch.encode()).ok().out.splitlines()
    assert json.loads(lines[0])["plan"] == {name: plan[name] for name in ("read_bytes", "write_bytes")}
    assert json.loads(lines[1])["file_systems"][0]["needed_bytes"] == plan["write_bytes"]
    revseq(*job).ok()
    whole = tmp_path / f"y{suffix}"
    size = sum(each.stat().st_size for each in (whole, *whole.rglob("*")) if each.is_file())
    assert 0.8 * plan["write_bytes"] < size < plan["write_bytes"] + 16_384


def test_the_plan_counts_what_stands_beside_a_small_part(revseq, tmp_path):
    """A dataset may take less in the file than its elements do: then more of the file is beside it."""
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("v", (100, 3000), "f8", fillvalue=1, chunks=(10, 300))[0, :9] = 2
        f["other"] = np.arange(200_000.0)
    np.save(tmp_path / "n.npy", np.full((100, 1), 250, "u4"))
    job = ("run", "x.h5::v", "n.npy", "--axis", 1, "-o", "y.h5")
    plan = json.loads(revseq(*job, "--dry-run", "--json").ok().out)["plan"]
    revseq(*job).ok()
    assert abs(plan["write_bytes"] - (tmp_path / "y.h5").stat().st_size) < 1 << 17
