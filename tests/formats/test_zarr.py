"""Zarr to Zarr: metadata and codecs are kept, every bit is stored, and a store that lies is refused by name."""

import gzip
import json
import os
import shutil
import tracemalloc
import warnings
from pathlib import Path

import h5py
import numcodecs
import numpy as np
import oracle
import pytest
import xarray
import zarr
import zarr.abc.codec
import zarr.codecs
from tensor_files import open_

from revseq_cli.commands.cli import cli
from revseq_cli.core import platform
from revseq_cli.core.errors import FormatError, RevseqError
from revseq_cli.formats.zarr.store import METADATA_FILES

X = np.random.default_rng(1).integers(-500, 500, (5, 30, 17)).astype("<i2")
N = np.random.default_rng(2).integers(0, 35, (5, 1, 17)).astype("u4")
EXPECTED = oracle.reverse(X, N, 1)
F4 = np.arange(12, dtype=np.float32).reshape(3, 4)
RUN = ("run", "x.zarr", "n.npy", "--axis", 1, "-o", "y.zarr", "--verify")


def make(folder, values=X, name=None, **options):
    options = {"chunks": (2, 8, 5)[: values.ndim]} | options
    array = zarr.create_array(
        str(folder / "x.zarr"), name=name, shape=values.shape, dtype=values.dtype, overwrite=True,
        config={"write_empty_chunks": True}, **options,
    )  # fmt: skip
    array[...] = values


def contents(store):
    return {
        str(path.relative_to(store)): path.read_bytes()
        for path in store.rglob("*")
        if path.is_file()
    }


def edit(path, **fields):
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def refused_when_opened(folder, problem):
    with pytest.raises(RevseqError) as caught:
        open_(folder / "x.zarr")
    assert "x.zarr" in str(caught.value)
    assert problem in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "n.npy", N)
    return tmp_path


STORAGE = {
    "plain": {"compressors": None},
    "zstd": {},
    "gzip": {"compressors": zarr.codecs.GzipCodec(level=5)},
    "blosc, crc32c": {"compressors": [zarr.codecs.BloscCodec(cname="lz4"), zarr.codecs.Crc32cCodec()]},
    "shards": {"chunks": (2, 4, 5), "shards": (4, 8, 15)},
    "transposed, big-endian": {
        "filters": [zarr.codecs.TransposeCodec(order=(2, 0, 1))], "serializer": zarr.codecs.BytesCodec(endian="big"),
    },
    "separator, fill": {"chunk_key_encoding": {"name": "v2", "separator": "."}, "fill_value": -7},
    "version 2": {"zarr_format": 2},
    "version 2, plain": {"zarr_format": 2, "compressors": None, "order": "F"},
    "chunks beyond the sizes": {"chunks": (9, 40, 20)},
}  # fmt: skip


@pytest.mark.parametrize("storage", STORAGE)
def test_storage_is_kept(revseq, folder, storage):
    make(folder, attributes={"units": "m"}, **STORAGE[storage])
    revseq(*RUN, "--engine", "processes", "--jobs", 2, "--memory", "80K").ok()
    assert (zarr.open_array(folder / "y.zarr", mode="r")[...] == EXPECTED).all()
    before, after = contents(folder / "x.zarr"), contents(folder / "y.zarr")
    assert before.keys() == after.keys()
    assert all(
        before[name] == after[name]
        for name in before
        if name in ("zarr.json", ".zarray", ".zattrs")
    )


HOSTILE = {
    3: [
        ({"data_type": "string"}, "data type is string"), ({"data_type": ["float32"]}, "damaged"),
        ({"data_type": "bfloat16\x1b"}, r"data type is bfloat16\x1b"), ({"shape": []}, "has the chunks"),
        ({"shape": [3, -4]}, "sizes from 0 to 2^63 - 1"), ({"shape": 3}, "damaged"), ({"shape": [True, 4]}, "damaged"),
        ({"shape": [1] * 65}, "dimension count 65"), ({"shape": [1 << 40, 1 << 20]}, "but stores only "),
        ({"codecs": [{"name": "bytes"}, {"name": "numcodecs.pickle"}]}, "has the codec numcodecs.pickle"),
        ({"codecs": [{"name": "bytes"}, {"name": "evil\x1b", "id": "zstd"}]}, r"has the codec evil\x1b"),
        ({"codecs": [{"name": "bytes"}, {"name": ["zstd"]}]}, "has the codec"), ({"codecs": [1]}, "damaged"),
        ({"codecs": ["evil"]}, "has the codec evil"), ({"codecs": []}, ""), ({"chunk_grid": {"name": "odd"}}, "chunk grid odd"),
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3, 0]}}}, "has the chunks"),
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3, 1 << 50]}}}, "but stores only "),
        ({"chunk_key_encoding": {"name": "evil"}}, "zarr cannot open it"), ({"node_type": "what"}, "has no tensor"),
        ({"storage_transformers": [{"name": "evil"}]}, "zarr cannot open it"),
    ],
    2: [
        ({"dtype": "|O", "filters": [{"id": "pickle"}]}, "data type is |O"), ({"filters": [{"id": "pickle"}]}, "has the codec pickle"),
        ({"dtype": [["a", "<f4"]]}, "data type is "), ({"dtype": "f4," * 3_000_000}, "its data type is f4,"),
        ({"chunks": [10**4200] * 2}, "has the chunks {1000"), ({"chunks": None}, "damaged"), ({"filters": 3}, "damaged"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("version", HOSTILE)
def test_hostile_metadata(tmp_path, version):
    make(tmp_path, F4, chunks=(3, 4), zarr_format=version)
    path = tmp_path / "x.zarr" / ("zarr.json" if version == 3 else ".zarray")
    whole = path.read_bytes()
    for fields, problem in HOSTILE[version]:
        edit(path, **fields)
        refused_when_opened(tmp_path, problem)
        path.write_bytes(whole)


def test_metadata_that_are_none_or_huge(tmp_path):
    make(tmp_path, F4, chunks=(3, 4))
    for text in (
        b"",
        b"[]",
        b"{",
        b"[" * 100_000,
        b'{"node_type": "array"}',
        b"\xff",
        b'{"a": 1, "a": 2}',
    ):
        (tmp_path / "x.zarr" / "zarr.json").write_bytes(text)
        refused_when_opened(
            tmp_path, "a key twice" if b"a" in text and b"node" not in text else "metadata"
        )
    os.truncate(tmp_path / "x.zarr" / "zarr.json", 1 << 33)
    refused_when_opened(tmp_path, "has 8589934592 bytes of metadata")


@pytest.mark.needs("links")
@pytest.mark.parametrize("name", ["zarr.json", "c", "c/0", "c/0/0"])
def test_links_are_not_followed(refused, tmp_path, name):
    make(tmp_path, F4, chunks=(3, 4))
    inside = tmp_path / "x.zarr" / name
    inside.rename(tmp_path / "elsewhere")
    inside.symlink_to(tmp_path / "elsewhere")
    refused("x.zarr", "links are not followed")


@pytest.mark.needs("links")
def test_links_on_the_way_are_not_followed(tmp_path):
    make(tmp_path, F4, name="a/b", chunks=(3, 4))
    (tmp_path / "x.zarr" / "link").symlink_to(tmp_path / "x.zarr" / "a")
    for name in ("link/b", "../x.zarr/a/b", "a/../a/b", "a"):
        with pytest.raises(FormatError, match="no such tensor"):
            open_(f"{tmp_path / 'x.zarr'}::{name}")


def test_a_store_that_changes_is_refused(tmp_path):
    make(tmp_path, F4, chunks=(1, 4))
    source = open_(tmp_path / "x.zarr")
    source.read()
    source.recheck()
    chunk = tmp_path / "x.zarr/c/2/0"
    chunk.unlink()
    with pytest.raises(OSError, match="changed while it was read"):
        source.recheck()


def test_an_output_inside_the_store_changes_no_input(revseq, folder):
    make(folder)
    before = contents(folder / "x.zarr")
    for name in ("zarr.json", "c/0/0/0", "c/new.npy", "new"):
        revseq(*RUN[:5], "-o", f"x.zarr/{name}", "-f", "npy", "--overwrite").refused("x.zarr")
    assert contents(folder / "x.zarr") == before


@pytest.mark.parametrize(("separator", "stated"), [("/", {}), (".", {"dimension_separator": "/"})])
def test_chunk_files_under_the_other_separator(revseq, folder, separator, stated):
    """They would all be absent, and read as the fill value; older versions of zarr leave out a dot."""
    keys = {"name": "v2", "separator": separator}
    make(folder, X[0], zarr_format=2, chunks=(2, 4), chunk_key_encoding=keys)
    path = folder / "x.zarr/.zarray"
    fields = json.loads(path.read_text())
    del fields["dimension_separator"]
    path.write_text(json.dumps(fields | stated))
    wanted = f'"dimension_separator": "{separator}"'
    revseq("convert", "x.zarr", "y.npy").refused("x.zarr: has the chunk file", wanted)


def test_chunks_of_a_region_that_are_far_larger_are_decoded_one_by_one(folder):
    """The package would hold all of them at once, of which the memory that is counted has one."""
    values = np.random.default_rng(4).integers(0, 256, (100_000, 6), np.uint8)
    make(folder, values, chunks=(100_000, 2), compressors=zarr.codecs.GzipCodec())
    region = (slice(10, 60), slice(1, 6))
    task = open_(folder / "x.zarr").read_task(region)
    task.read()  # loads what the package loads
    tracemalloc.start()
    try:
        assert oracle.same_bits(task.read(), values[region])
        assert tracemalloc.get_traced_memory()[1] < 7 * 200_000
    finally:
        tracemalloc.stop()


EMPTY = [
    0x7FC00001,
    0xFFC00000,
    0x7F800001,
    0x7FC00000,
    0x80000000,
    0,
    0x3F800000,
]  # NaNs, zeros and one
WAYS = {
    "version 3": {"chunks": (1, 4)},
    "shard": {"chunks": (1, 4), "shards": (len(EMPTY), 8)},
    "shards": {"chunks": (1, 4), "shards": (1, 8)},
    "nested": {"chunks": (1, 8), "compressors": None, "serializer": zarr.codecs.ShardingCodec(chunk_shape=(1, 2))},
    "version 2": {"chunks": (1, 4), "zarr_format": 2},
}  # fmt: skip


@pytest.mark.parametrize(
    ("way", "fill"),
    [
        *((way, np.nan) for way in WAYS),
        *(("shards", fill) for fill in (0.0, -0.0, 1.0)),
        ("version 2", -0.0),
    ],
)
def test_chunks_that_zarr_holds_for_empty_are_stored(revseq, folder, way, fill):
    """Zarr takes every NaN for the same, and has no ear for write_empty_chunks where an array exists already."""
    bits = np.repeat(np.array(EMPTY, "<u4")[:, None], 8, 1)
    make(folder, bits.view("<f4"), fill_value=fill, **WAYS[way])
    np.save(
        folder / "n.npy", np.full((len(EMPTY), 1), 5, "u4")
    )  # every line has one value, so that nothing moves
    revseq(*RUN).ok()
    assert (zarr.open_array(folder / "y.zarr", mode="r")[...].view("u4") == bits).all()
    assert contents(folder / "x.zarr") == contents(folder / "y.zarr")


@pytest.mark.parametrize(("fill", "bits"), [("0x7fc00001", 0x7FC00001), (-0.0, 0x80000000)])
def test_absent_chunks_have_the_bits_of_the_fill_value(revseq, folder, fill, bits):
    make(folder, F4, chunks=(1, 4))
    edit(folder / "x.zarr/zarr.json", fill_value=fill)
    (folder / "x.zarr/c/1/0").unlink()
    np.save(folder / "n.npy", np.full((3, 1), 4, "u4"))
    revseq(*RUN).ok()
    found = zarr.open_array(folder / "y.zarr", mode="r")[...]
    assert (found[1].view("u4") == bits).all()
    assert (found[::2] == F4[::2, ::-1]).all()


def _with(start, end, number):
    """Writes a number of eight bytes there: at the end of a shard, its index says where its last chunk lies."""

    def write(path):
        data = bytearray(path.read_bytes())
        data[start:end] = number.to_bytes(8, "little")
        path.write_bytes(data)

    return write


PLAIN = {
    "chunks": (1, 4), "compressors": None,
    "serializer": zarr.codecs.ShardingCodec(chunk_shape=(1, 2), index_codecs=[zarr.codecs.BytesCodec()]),
}  # fmt: skip
DAMAGED = {
    "empty chunk": ({}, "c/1/0", lambda path: path.write_bytes(b"")),
    "empty chunk, version 2": ({"zarr_format": 2}, "1.0", lambda path: path.write_bytes(b"")),
    "empty shard": ({"shards": (1, 8)}, "c/1/0", lambda path: path.write_bytes(b"")),
    "cut shard": ({"shards": (1, 8)}, "c/1/0", lambda path: os.truncate(path, path.stat().st_size - 20)),
    "cut chunk": ({"compressors": None}, "c/1/0", lambda path: os.truncate(path, 7)),
    "cut chunk, gzip": ({"compressors": zarr.codecs.GzipCodec()}, "c/1/0", lambda path: os.truncate(path, 20)),
    "other bytes": ({"compressors": [zarr.codecs.Crc32cCodec()]}, "c/1/0", _with(3, 11, 5)),
    "folder for a chunk": ({}, "c/1/0", lambda path: (path.unlink(), path.mkdir())),
    "file for c/1": ({}, "c/1", lambda path: (shutil.rmtree(path), path.write_bytes(b"x"))),
    "inner chunk of no bytes": (PLAIN, "c/1/0", _with(-8, None, 0)),
    "inner chunk beyond": (PLAIN, "c/1/0", _with(-16, -8, 1 << 30)),
    "inner chunk at 2^63": (PLAIN, "c/1/0", _with(-16, -8, 1 << 63)),
    "inner chunk of 2^61 bytes": (PLAIN, "c/1/0", _with(-8, None, 1 << 61)),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGED)
def test_h65_what_is_damaged_is_not_absent(revseq, folder, damage):
    """Zarr gives the fill value for each, or for each of which only a part is read."""
    options, name, hurt = DAMAGED[damage]
    make(folder, np.arange(1, 25, dtype="f4").reshape(3, 8), **{"chunks": (1, 4)} | options)
    np.save(folder / "n.npy", np.full((3, 1), 8, "u4"))
    hurt(folder / "x.zarr" / name)
    for command in (RUN[:7], ("show", "x.zarr", "--stats")):
        revseq(*command).refused("the chunk at [")
    with pytest.raises(FormatError, match=r"the chunk at \[1, [02]\] is damaged"):
        open_(folder / "x.zarr").read_task((slice(1, 2), slice(3, 5))).read()
    assert not list(folder.glob("y.*"))


ABSENT = {
    "dots": ({"chunk_key_encoding": {"name": "default", "separator": "."}}, ["c.1.0"], "1 of 6"),
    "shards": ({"shards": (2, 4)}, ["c/0/0", "c/1/1"], "2 of 4"),
}  # fmt: skip


@pytest.mark.parametrize("storage", ABSENT)
def test_absent_chunks_are_told(revseq, folder, storage):
    options, names, count = ABSENT[storage]
    make(folder, np.arange(21, dtype="f4").reshape(3, 7), **{"chunks": (1, 4)} | options)
    assert "missing" not in revseq("show", "x.zarr").ok().out
    for name in names:
        (folder / "x.zarr" / name).unlink()
    assert (
        json.loads(revseq("show", "x.zarr", "--json").ok().out)["tensors"][0]["storage"]["missing"]
        == count
    )


def test_a_reserved_name_stays_and_is_not_given(revseq, folder):
    make(folder, name="__own/__x")
    run = ("run", "x.zarr", "n.npy", "--axis", 1, "-o")
    for output, options in (("y.zarr", ()), ("z.zarr", ("--only",)), ("new.zarr::__own/x", ())):
        revseq(*run, output, *options).ok()
    revseq(*run, "no.zarr::__own/__new").refused("no.zarr: '__own/__new' is not a valid array name")
    assert not (folder / "no.zarr").exists()


# Every codec of numcodecs that loses nothing, with what it is asked to do and the types of what it is given.
LOSSLESS = [
    *((name, {}, "<i2") for name in ("blosc", "bz2", "gzip", "zlib", "lz4", "lzma", "zstd", "base64")),
    *((name, {}, "<i4") for name in ("crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3")),
    ("shuffle", {"elementsize": 4}, "<i4"), ("packbits", {}, "|b1"), ("delta", {"dtype": "<i2"}, "<i2"), ("delta", {"dtype": "<u8"}, "<u8"),
]  # fmt: skip
LOSSY = [
    ("delta", {"dtype": "<f4"}, "<f4"), ("delta", {"dtype": "<i4", "astype": "<i2"}, "<i4"), ("delta", {"dtype": "<i4"}, "<f4"),
    ("delta", {"dtype": ">i4"}, "<i4"), ("delta", {}, "<i4"), ("delta", {"dtype": "|b1"}, "|b1"), ("packbits", {}, "|u1"),
    ("astype", {"encode_dtype": "<i2", "decode_dtype": "<i4"}, "<i4"), ("bitround", {"keepbits": 3}, "<f4"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")  # those about codecs that the specification does not have
@pytest.mark.parametrize(("name", "fields", "dtype"), LOSSLESS)
def test_codecs_that_lose_nothing_are_kept(revseq, folder, name, fields, dtype):
    bits = np.random.default_rng(7).integers(0, 1 << 62, (6, 24))
    x = bits % 2 == 1 if dtype == "|b1" else bits.astype(dtype)
    np.save(
        folder / "n.npy", lengths := np.random.default_rng(2).integers(0, 24, (6, 1)).astype("u4")
    )
    version = 3 if name in ("bz2", "packbits") else 2
    codec = {"name": f"numcodecs.{name}", "configuration": fields}
    codecs = [codec if version == 3 else numcodecs.get_codec({"id": name, **fields})]
    place = "filters" if name in ("delta", "packbits") else "compressors"
    make(folder, x, chunks=(4, 10), zarr_format=version, **{place: codecs})
    revseq(*RUN).ok()
    assert (
        zarr.open_array(folder / "y.zarr", mode="r")[...] == oracle.reverse(x, lengths, 1)
    ).all()
    meta = "zarr.json" if version == 3 else ".zarray"
    assert name in (folder / "x.zarr" / meta).read_text()
    assert (folder / "y.zarr" / meta).read_bytes() == (folder / "x.zarr" / meta).read_bytes()


@pytest.mark.parametrize(("name", "fields", "dtype"), LOSSY)
def test_codecs_that_may_lose_something_are_refused(tmp_path, name, fields, dtype):
    values, options = np.zeros((6, 24), dtype), {"chunks": (4, 10), "compressors": None}
    make(tmp_path, values, zarr_format=2, **options)
    edit(tmp_path / "x.zarr/.zarray", filters=[{"id": name, **fields}], codecs=[])
    refused_when_opened(tmp_path, f"x.zarr: has the codec {name}, which ")
    make(tmp_path, values, **options)
    codecs = [{"name": f"numcodecs.{name}", "configuration": fields}, {"name": "bytes"}]
    inside = {"chunk_shape": [4, 10], "codecs": codecs, "index_codecs": [{"name": "bytes"}]}
    for steps in (codecs, [{"name": "sharding_indexed", "configuration": inside}]):
        edit(tmp_path / "x.zarr/zarr.json", codecs=steps)
        refused_when_opened(tmp_path, f"x.zarr: has the codec numcodecs.{name}, which ")


def test_a_chunk_whose_new_file_another_program_has_open(tmp_path, monkeypatch):
    """A virus scanner keeps it for a moment, and Windows says that access is denied."""
    real, refused = Path.open, []

    def opened(path, mode="r", *args, **options):
        if mode[0] in "wx" and path.name not in METADATA_FILES and len(refused) < 3:
            refused.append(path)
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, mode, *args, **options)

    np.save(tmp_path / "x.npy", F4)
    monkeypatch.setattr(Path, "open", opened)
    monkeypatch.setattr(platform, "keeps_name", lambda error: isinstance(error, PermissionError))
    cli.main(
        ["convert", str(tmp_path / "x.npy"), str(tmp_path / "y.zarr"), "-q"], standalone_mode=False
    )
    assert len(refused) == 3
    assert oracle.same_bits(zarr.open_array(tmp_path / "y.zarr", mode="r")[:], F4)


@pytest.mark.needs("links", "fifos")
@pytest.mark.parametrize(("version", "name"), [(2, "lat/0"), (3, "st/c/0")])
def test_what_stands_in_place_of_a_chunk_of_a_coordinate(revseq, tmp_path, version, name):
    """Nothing outside of the store is read, nor waited for: the variable stays behind, with a note. Else it is copied."""
    coordinates = {"lat": ("lat", [1.0, 2.0]), "st": ("st", np.array(["ab", "cd", "e"]))}
    values = np.arange(6, dtype="f4").reshape(2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # version 3 has no texts of a fixed length in its specification
        data = xarray.Dataset({"t": (("lat", "st"), values)}, coordinates)
        data.to_zarr(tmp_path / "x.zarr", zarr_format=version, consolidated=False)
        for suffix, options in ((".nc", {}), (".zarr", {"engine": "zarr", "consolidated": False})):
            assert revseq("convert", "x.zarr::t", f"z{suffix}").ok().err == ""
            with xarray.open_dataset(tmp_path / f"z{suffix}", **options) as found:
                assert (found["st"].values.tolist(), found["lat"].values.tolist()) == (
                    ["ab", "cd", "e"],
                    [1, 2],
                )
    chunk = tmp_path / "x.zarr" / name
    (tmp_path / "secret").write_bytes(chunk.read_bytes())
    for made in (
        lambda: chunk.symlink_to(tmp_path / "secret"), lambda: os.mkfifo(chunk), lambda: chunk.symlink_to("/dev/zero"),
        chunk.mkdir, lambda: chunk.write_bytes(b"abc"), lambda: chunk.write_bytes(b"garbage garbage"),
    ):  # fmt: skip
        chunk.rmdir() if chunk.is_dir() else chunk.unlink()
        made()
        told = revseq("convert", "x.zarr::t", "y.nc", "--overwrite").ok().err
        assert f"Note: not copied: the variable {name[: name.index('/')]} (" in told
        with h5py.File(tmp_path / "y.nc") as file:
            assert oracle.same_bits(file["t"][:], values)


def make_store(path, version):
    root = zarr.open_group(path, mode="w", zarr_format=version, attributes={"title": "root"})
    group = root.create_group("g", attributes={"title": "group"})
    group.create_group("empty")
    for name in ("x", "other"):
        group.create_array(name, data=X, attributes={"name": name}, fill_value=7, chunks=(2, 8, 5))
    root.create_array("n", data=N)
    (path / "g/notes.txt").write_text("free text")
    (path / "g/x/notes.txt").write_text("inside")
    (path / "g/x/c/99").mkdir(parents=True)
    (path / "g/x/c/99/0").write_text("no chunk")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # version 3 has neither yet
        root.create_array("text", data=np.array(["a", "bc"], "U2"))
        zarr.consolidate_metadata(str(path))


@pytest.mark.needs("shell")
@pytest.mark.parametrize(("version", "name"), [(2, "x.zarr"), (3, "../{0}/x.zarr/")])
def test_a_store(revseq, folder, version, name):
    make_store(folder / "x.zarr", version)
    name = name.format(folder.name)
    assert "copied" not in revseq("run", f"{name}::g/x", *RUN[2:]).ok().err
    before, after = contents(folder / "x.zarr"), contents(folder / "y.zarr")
    assert before.keys() == after.keys()
    changed = {each for each in before if before[each] != after[each]}
    assert all(
        each.startswith("g/x/") and each[-1].isdecimal() and "99" not in each for each in changed
    ), changed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = zarr.open_consolidated(str(folder / "y.zarr"), mode="r")
        assert (found["g/x"][...] == EXPECTED).all()
        revseq("run", f"{name}::g/x", *RUN[2:5], "-o", "z.zarr::g/new", "--verify").ok()
        found = zarr.open_consolidated(str(folder / "z.zarr"), mode="r")
        assert sorted(found["g"]) == ["empty", "new", "other", "x"]
        assert (found["g/new"][...] == EXPECTED).all()
        assert (found["g/x"][...] == X).all()
    revseq("run", f"{name}::/g/x", *RUN[2:5], "-o", "a.zarr", "--only").ok()
    alone = zarr.open_group(folder / "a.zarr", mode="r")
    assert [alone.attrs["title"], alone["g"].attrs["title"], alone["g/x"].attrs["name"]] == [
        "root",
        "group",
        "x",
    ]
    assert ([*alone], [*alone["g"]]) == (["g"], ["x"])
    assert (alone["g/x"][...] == EXPECTED).all()
    (folder / "x.zarr").rename(folder / "http.zarr")  # whose name is no address
    revseq("run", "http.zarr::g/x", *RUN[2:5], "-o", "b.zarr").ok()
    assert contents(folder / "b.zarr") == after


@pytest.mark.needs("links")
def test_links_of_a_store_are_not_followed(revseq, folder):
    make_store(folder / "x.zarr", 3)
    (folder / "secret").write_text("secret")
    (folder / "x.zarr/g/other/link").symlink_to(folder / "secret")
    line = ["run", "x.zarr::g/x", "n.npy", "--axis", 1, "-o", "y.zarr"]
    revseq(*line).refused("link is not a regular file", "links are not followed")
    assert not (folder / "y.zarr").exists()
    revseq(*line, "--only").ok()


@pytest.mark.parametrize("key", [None, "g/a"])
def test_no_array_is_added_inside_another(revseq, folder, key):
    make(folder, name=key)
    line = (
        "run",
        f"x.zarr::{key}" if key else "x.zarr",
        *RUN[2:5],
        "-o",
        f"y.zarr::{f'{key}/' if key else ''}new",
    )
    revseq(*line).refused("would lie inside an array of x.zarr", "--only")
    revseq(*line, "--only").ok()
    assert (zarr.open_array(folder / f"y.zarr/{key or ''}/new", mode="r")[...] == EXPECTED).all()


BLOSC = {
    "version 2": {"zarr_format": 2, "compressors": numcodecs.Blosc()},
    "version 2, as a filter": {
        "zarr_format": 2,
        "compressors": None,
        "filters": [numcodecs.Blosc()],
    },
    "version 3": {"zarr_format": 3, "compressors": zarr.codecs.BloscCodec()},
    "version 3, before another": {
        "zarr_format": 3,
        "compressors": [zarr.codecs.BloscCodec(), zarr.codecs.GzipCodec()],
    },
}


@pytest.mark.parametrize("name", BLOSC)
def test_a_blosc_frame_that_is_cut_short_is_refused(revseq, tmp_path, name):
    """Blosc decodes what lies after it in memory."""
    np.save(tmp_path / "n.npy", N)
    make(tmp_path, **BLOSC[name])
    job = (*RUN[:-2], "y.npy", "--overwrite")
    revseq(*job).ok()
    folder = tmp_path / "x.zarr"
    file = next(path for path in (folder / "1.1.1", folder / "c/1/1/1") if path.exists())
    whole = file.read_bytes()
    is_packed = name.endswith("another")
    frame = gzip.decompress(whole) if is_packed else whole
    for length in (len(frame) - 1, len(frame) // 2, 16, 5):
        cut = frame[:length]
        file.write_bytes(gzip.compress(cut) if is_packed else cut)
        revseq(*job).refused("[2, 8, 5]", "truncated", f"{length} ")


def test_an_empty_separator_is_refused(revseq, tmp_path):
    np.save(tmp_path / "n.npy", N)
    make(tmp_path, zarr_format=2)
    edit(tmp_path / "x.zarr/.zarray", dimension_separator="")
    revseq(*RUN).refused("x.zarr: has the separator ''")


@pytest.mark.parametrize("version", [2, 3])
def test_a_list_counts_attributes_as_a_tensor_does_and_hints_name_no_texts(
    tmp_path, revseq, version
):
    data = {"air": ("t", np.ones(3, "f4"), {"units": "K"}), "wind": ("t", np.ones(3, "f4"))}
    store = xarray.Dataset(data | {"names": ("t", np.array(["a", "b", "c"]))})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # version 3 has no specification of texts
        store.to_zarr(tmp_path / "x.zarr", zarr_format=version, consolidated=False)
    listed = json.loads(revseq("show", "x.zarr", "--json").ok().out)["tensors"]
    for tensor in listed:
        [alone] = json.loads(revseq("show", tensor["name"], "--json").ok().out)["tensors"]
        assert alone["attributes"] == tensor["attributes"]
    result = revseq("run", "x.zarr", "[1]", "--axis", 0, "-o", "y.zarr")
    result.refused("\n  x.zarr::air\n  x.zarr::wind\n")
    assert "x.zarr::names" not in result.err


def test_a_coordinate_of_two_dimensions_is_copied_once(tmp_path, revseq):
    group = zarr.open_group(tmp_path / "x.zarr", mode="w", zarr_format=3)
    for name, values in (("cov", np.eye(3)), ("x", np.arange(3.0))):
        names = ["x"] * values.ndim
        group.create_array(name, shape=values.shape, dtype="f8", dimension_names=names)[:] = values
    job = ("x.zarr::cov", "[1, 1, 1]", "--axis", 1)
    revseq("run", *job, "-o", "y.zarr::cov", "--only").ok()
    assert np.array_equal(open_(tmp_path / "y.zarr::x").read(), np.arange(3.0))
