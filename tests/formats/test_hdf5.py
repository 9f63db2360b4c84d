"""HDF5 to HDF5: everything beside the values is kept, whatever cannot be is named, and a failure leaves nothing."""

import json
import time

import h5py
import hdf5plugin
import numpy as np
import oracle
import pytest
from oracle import expected
from processes import job_count, until

from revseq_cli.core import system

SHAPE, CHUNKS, AXIS = (5, 30, 17), (2, 8, 5), 1
VALUES = np.random.default_rng(1).integers(-500, 500, SHAPE).astype("<i2")
LENGTHS = np.random.default_rng(2).integers(0, 31, (5, 1, 17)).astype("u4")
RESULT = expected(VALUES, LENGTHS, AXIS)
RUN = ("run", "x.h5", "n.npy", "--axis", AXIS, "-o", "y.h5")


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "n.npy", LENGTHS)
    return tmp_path


def make(folder, values=VALUES, name="x", **options):
    with h5py.File(folder / "x.h5", "w") as f:
        f.create_dataset(name, data=values, **options)


def properties(dataset):
    found = dataset.id.get_create_plist()
    fill = np.zeros((), dataset.dtype)
    found.get_fill_value(fill)
    return {
        "filters": [found.get_filter(i)[:3] for i in range(found.get_nfilters())],
        "layout": found.get_layout(),
        "chunks": dataset.chunks,
        "fill": (found.fill_value_defined(), fill.tobytes()),
        "maxshape": dataset.maxshape,
        "type": dataset.id.get_type().encode(),
    }


FILTERS = {
    "none": {"chunks": CHUNKS},
    "gzip": {"chunks": CHUNKS, "compression": "gzip", "compression_opts": 7},
    "gzip, shuffle, fletcher32": {"chunks": CHUNKS, "compression": "gzip", "shuffle": True, "fletcher32": True},
    "lzf": {"chunks": CHUNKS, "compression": "lzf"},
    "szip": {"chunks": CHUNKS, "compression": "szip"},
    "scaleoffset": {"chunks": CHUNKS, "scaleoffset": 0},
    "blosc": {"chunks": CHUNKS, **hdf5plugin.Blosc()},
    "zstd": {"chunks": CHUNKS, **hdf5plugin.Zstd(3)},
    "fill and maxshape": {"chunks": CHUNKS, "fillvalue": -7, "maxshape": (None, 30, 90)},
    "contiguous": {},
    "big-endian": {"chunks": CHUNKS, "dtype": ">i2", "compression": "gzip"},
}


@pytest.mark.parametrize(
    ("name", "engine"),
    [pytest.param(name, "serial", marks=pytest.mark.needs("szip") if name == "szip" else ()) for name in FILTERS]
    + [("gzip", "processes"), ("fill and maxshape", "processes"), ("lzf", "processes")],
)
def test_storage_is_kept(folder, revseq, name, engine):
    make(folder, name="group/deep/values", **FILTERS[name])
    done = revseq(*RUN, "--engine", engine, "--jobs", job_count(engine), "--memory", "200K", "--verify").ok()
    assert done.err == ""
    with h5py.File(folder / "x.h5") as f, h5py.File(folder / "y.h5") as g:
        before, after = f["group/deep/values"], g["group/deep/values"]
        assert properties(after) == properties(before)
        assert oracle.same_bits(after[()], RESULT.astype(before.dtype))


@pytest.mark.parametrize("name", ["größe/ü", "a::b", "group/c::d::e", "with blank"])
def test_unusual_names(folder, revseq, name):
    make(folder, name=name)
    revseq("run", f"x.h5::{name}", *RUN[2:]).ok()
    with h5py.File(folder / "y.h5") as g:
        assert oracle.same_bits(g[name][()], RESULT)


ATTRIBUTES = {
    "text": "m/s",
    "fixed": np.bytes_("abc"),
    "utf-8": np.array("bé".encode(), h5py.string_dtype("utf-8", 5)),
    "texts": ["a", "bé", ""],
    "array": np.arange(6.0).reshape(2, 3),
    "big-endian": np.arange(3, dtype=">i4"),
    "half": np.float16(1.5),
    "NaN with bits": np.array(0x7FC12345, "u4").view("f4"),
    "yes": True,
    "empty": h5py.Empty("f4"),
    "compound": np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]),
    "large": np.arange(20_000, dtype="f8"),
    "naïve\x1b": 2,
}


def dumped(item):
    """Every attribute's type, space and bytes, as HDF5 has them."""
    found = {}
    for name in item.attrs:
        attribute = h5py.h5a.open(item.id, name.encode())
        kind, space = attribute.get_type(), attribute.get_space()
        value = item.attrs[name]
        raw = value.tobytes() if isinstance(value, np.ndarray | np.generic) and value.dtype != object else repr(value)
        found[name] = (kind.encode(), space.encode(), raw)
    return found


def test_attributes_of_all_kinds_are_kept(folder, revseq):
    with h5py.File(folder / "x.h5", "w", libver="latest") as f:
        f.create_dataset("group/x", data=VALUES)
        for item in (f, f["group"], f["group/x"]):
            for name, value in ATTRIBUTES.items():
                item.attrs[name] = value
            item.attrs.create("lists", [np.arange(2), np.arange(3)], (2,), h5py.vlen_dtype("i4"))
            item.attrs.create("colour", 1, dtype=h5py.enum_dtype({"RED": 0, "BLUE": 1}, "u1"))
    assert revseq(*RUN).ok().err == ""
    with h5py.File(folder / "x.h5") as f, h5py.File(folder / "y.h5") as g:
        for name in ("/", "group", "group/x"):
            assert dumped(g[name]) == dumped(f[name])
            assert len(g[name].attrs) == len(ATTRIBUTES) + 2


def test_a_damaged_scale_is_told_where_it_would_be_copied(folder, revseq):
    """Whoever writes another format does not need it."""
    make(folder, np.arange(4.0), chunks=(2,))
    np.save(folder / "n.npy", np.array([4], "u4"))
    with h5py.File(folder / "x.h5", "a") as f:
        f["scale"] = np.arange(4)
        f["scale"].make_scale()
        f["x"].dims[0].attach_scale(f["scale"])
    data = bytearray((folder / "x.h5").read_bytes())
    heap = data.index(b"GCOL")  # where the references of DIMENSION_LIST lie
    data[heap : heap + 4] = b"LOST"
    (folder / "x.h5").write_bytes(data)
    revseq("run", "x.h5::x", "n.npy", "--axis", 0, "-o", "y.npy").ok()
    assert np.load(folder / "y.npy").tolist() == [3, 2, 1, 0]
    revseq("run", "x.h5::x", "n.npy", "--axis", 0, "-o", "y.h5").refused("x.h5::/x", "HDF5 cannot read it")
    assert not (folder / "y.h5").exists()


def test_references_are_reported(folder, revseq):
    make(folder)
    with h5py.File(folder / "x.h5", "a") as f:
        f["other"] = np.zeros(3)
        f["x"].attrs["see\x1b"] = f["other"].ref
        f["x"].attrs["kept"] = 1
    done = revseq("run", "x.h5::x", *RUN[2:], "--json").ok()
    note = r"/x: the attribute see\x1b contains references into its file, and is not copied"
    other = "1 other object is not copied: keeps it"
    assert done.err == f"Note: {note}\nNote: {other}\n"
    assert json.loads(done.out)["notes"] == [note, other]
    assert revseq("run", "x.h5::x", *RUN[2:], "--overwrite", "-q").ok().err == ""
    with h5py.File(folder / "y.h5") as g:
        assert dict(g["x"].attrs) == {"kept": 1}


@pytest.mark.parametrize(
    ("options", "chunks", "filters"),
    [
        ((), CHUNKS, [2, 1, 3]),
        (("--chunks", "5x30x1"), (5, 30, 1), [2, 1, 3]),
        (("--chunks", "9x30x17"), (5, 30, 17), [2, 1, 3]),
        (("--compression", "none"), CHUNKS, [3]),
        (("--compression", "gzip:9"), CHUNKS, [2, 1, 3]),
        (("--chunks", "auto", "--compression", "none"), (5, 30, 17), [3]),
    ],
)
def test_chunks_and_compression_can_be_changed(folder, revseq, options, chunks, filters):
    make(folder, **FILTERS["gzip, shuffle, fletcher32"])
    assert revseq(*RUN, *options, "--verify").ok().err == ""
    with h5py.File(folder / "y.h5") as g:
        assert g["x"].chunks == chunks
        assert [f[0] for f in properties(g["x"])["filters"]] == filters
        if "gzip:9" in options:
            assert g["x"].compression_opts == 9
        assert oracle.same_bits(g["x"][()], RESULT)


def test_other_formats_become_contiguous_unless_asked(folder, revseq):
    np.save(folder / "x.npy", VALUES)
    job = ("run", "x.npy", "n.npy", "--axis", 1, "-o")
    revseq(*job, "a.h5", "--verify").ok()
    revseq(*job, "b.h5::/g/values", "--compression", "gzip", "--verify").ok()
    revseq(*job, "c.h5", "--chunks", "1x30x17").ok()
    for name, dataset, chunks, compression in [
        ("a", "tensor", None, None), ("b", "g/values", (5, 30, 17), "gzip"), ("c", "tensor", (1, 30, 17), None),
    ]:  # fmt: skip
        with h5py.File(folder / f"{name}.h5") as g:
            assert (g[dataset].chunks, g[dataset].compression) == (chunks, compression)
            assert oracle.same_bits(g[dataset][()], RESULT)
    revseq(*job, "d.npy", "--chunks", "auto").refused("only HDF5 has chunks")
    revseq(*job[:-1], "--compression", "gzip").refused("apply only to a file", "add -o out.h5")
    revseq(*job, "d.h5", "--chunks", "3x3").refused("the chunks have 2 sizes", "3, one for each dimension")
    for wrong in ("0x1x1", "x", "1,2,3", "-1"):
        revseq(*job, "d.h5", "--chunks", wrong).refused("keep, auto, or sizes")
    for wrong in ("gzip:10", "lzma", "9"):
        revseq(*job, "d.h5", "--compression", wrong).refused("keep, none, gzip")
    assert not list(folder.glob("d.*"))


def test_a_filter_with_loss_is_refused(folder, revseq):
    values = (VALUES / 7).astype("f4")
    make(folder, values, chunks=CHUNKS, scaleoffset=2)
    revseq(*RUN).refused("its filters change values", "add --compression none")
    # Who wants the others, too, cannot have them with these filters, and hears at once what is left to type.
    both = "leave out, and add --compression none"
    revseq(*RUN).refused("its filters change values", both)
    revseq(*RUN, "--compression", "none", "--verify").ok()
    with h5py.File(folder / "x.h5") as f, h5py.File(folder / "y.h5") as g:
        assert oracle.same_bits(g["x"][()], expected(f["x"][()], LENGTHS, 1))
    assert {path.name for path in folder.iterdir()} == {"x.h5", "n.npy", "y.h5"}


def test_a_preview_decodes_no_huge_chunk(folder, revseq):
    with h5py.File(folder / "x.h5", "w") as f:
        f.create_dataset("x", (1 << 12, 1 << 17), "u1", chunks=(1 << 12, 1 << 17), compression="gzip")
    assert "no preview: a chunk has 536,870,912 bytes" in revseq("show", "x.h5").ok().out
    make(folder, chunks=CHUNKS)
    assert "elements" in revseq("show", "x.h5").ok().out.splitlines()[-1]


def test_a_chunk_larger_than_its_dataset_counts_whole(folder, revseq):
    make(folder, chunks=(5, 30, 100_000), maxshape=(None, None, None))
    revseq(*RUN, "--memory", "1M").refused("the memory is 1048576 bytes")


def test_the_chunk_of_damaged_lengths_is_named(folder, revseq):
    np.save(folder / "x.npy", np.zeros((4000, 8), "f4"))
    with h5py.File(folder / "n.h5", "w") as f:
        n = f.create_dataset("n", data=np.ones((4000, 1), "u4"), chunks=(1500, 1), fletcher32=True)
        offset = n.id.get_chunk_info_by_coord((1500, 0)).byte_offset
    with open(folder / "n.h5", "r+b") as file:
        file.seek(offset + 9)
        file.write(b"\xff")
    revseq("run", "x.npy", "n.h5", "--axis", 1, "-o", "y.npy", "--memory", "20K").refused(
        "the chunk at [1500, 0] is damaged"
    )


@pytest.mark.parametrize("output", ["y.h5::/a", "y.h5::/a/x", "y.h5::/a/x/y"])
def test_a_name_that_a_scale_needs(folder, revseq, output):
    with h5py.File(folder / "x.h5", "w") as f:
        f["v"], f["a/x"] = VALUES, np.arange(5)
        f["a/x"].make_scale()
        f["v"].dims[0].attach_scale(f["a/x"])
    for options in ((), ("--dry-run",)):
        revseq("run", "x.h5::/v", "n.npy", "--axis", AXIS, "-o", output, *options).refused(
            "the place of the scale /a/x"
        )


def test_names_that_are_not_utf_8(folder, revseq):
    make(folder)
    with h5py.File(folder / "x.h5", "a") as f:
        space = h5py.h5s.create(h5py.h5s.SCALAR)
        h5py.h5a.create(f["x"].id, b"caf\xe9", h5py.h5t.STD_I32LE, space).write(np.array(7, "i4"))
    revseq(*RUN).ok()
    with h5py.File(folder / "y.h5") as g:
        assert h5py.h5a.open(g["x"].id, b"caf\xe9").shape == ()
    with h5py.File(folder / "x.h5", "a") as f:
        h5py.h5d.create(f.id, b"caf\xe9", h5py.h5t.STD_I32LE, h5py.h5s.create_simple((3,)))
    revseq("convert", "x.h5", "none.npy").refused("has 2 datasets: ", "/x")
    revseq("show", "x.h5::/none").refused("no such dataset")
    revseq("show", "x.h5::/x").ok()
    revseq("show", b"x.h5::/caf\xe9".decode("utf-8", "surrogateescape")).refused("its name is not UTF-8")


def test_a_dataset_with_two_names_is_one(folder, revseq):
    make(folder)
    with h5py.File(folder / "x.h5", "a") as f:
        f["again"] = f["x"]
    revseq("show", "x.h5").ok()
    revseq("show", "x.h5::again").ok()


@pytest.mark.needs("HDF5")
def test_the_same_job_gives_the_same_bytes(folder, revseq):
    make(folder, chunks=CHUNKS, compression="gzip", track_times=True)
    revseq(*RUN).ok()
    first = (folder / "y.h5").read_bytes()
    second = int(time.time())
    until(lambda: int(time.time()) > second)
    revseq(*RUN, "--overwrite").ok()
    assert (folder / "y.h5").read_bytes() == first


def test_attributes_follow_the_groups_of_the_input(folder, revseq):
    with h5py.File(folder / "x.h5", "w") as f:
        f["g1/v"] = VALUES
        f["g1"].attrs["own"], f.create_group("g2").attrs["other"], f.attrs["root"] = 1, 2, 3
    revseq("run", "x.h5::/g1/v", "n.npy", "--axis", AXIS, "-o", "y.h5::/g2/v").ok()
    with h5py.File(folder / "y.h5") as g:
        assert (dict(g["g2"].attrs), dict(g.attrs)) == ({"own": 1}, {"root": 3})
    done = revseq("run", "x.h5::/g1/v", "n.npy", "--axis", AXIS, "-o", "z.h5::/v").ok()
    assert "the attributes of 1 group above /g1/v are not copied" in done.err


def test_attributes_of_any_length_and_byte_order(folder, revseq):
    """Through NumPy's objects the bytes of a list came out turned, and some types were refused."""
    with h5py.File(folder / "x.h5", "w") as f:
        x = f.create_dataset("x", data=VALUES)
        lists = np.empty(2, object)
        lists[0], lists[1] = np.array([1, 2], ">f4"), np.array([3], ">f4")
        x.attrs.create("lists", lists, dtype=h5py.vlen_dtype(np.dtype(">f4")))
        x.attrs["texts"] = ["a", "bé", ""]
        text = h5py.h5t.C_S1.copy()
        text.set_size(h5py.h5t.VARIABLE)
        scalar = h5py.h5s.create(h5py.h5s.SCALAR)
        for name, kind in {
            "array of texts": h5py.h5t.array_create(text, (2,)), "list of times": h5py.h5t.vlen_create(h5py.h5t.UNIX_D32LE),
            "list of arrays": h5py.h5t.vlen_create(h5py.h5t.array_create(h5py.h5t.STD_I32BE, (2,))),
        }.items():  # fmt: skip
            h5py.h5a.create(x.id, name.encode(), kind, scalar)
    assert revseq(*RUN, "--verify").ok().err == ""
    with h5py.File(folder / "x.h5") as f, h5py.File(folder / "y.h5") as g:
        old, new = ([each.tobytes() for each in each_file["x"].attrs["lists"]] for each_file in (f, g))
        assert new == old
        assert list(g["x"].attrs["texts"]) == ["a", "bé", ""]
        for name in f["x"].attrs:
            old, new = (h5py.h5a.open(each["x"].id, name.encode()).get_type() for each in (f, g))
            assert old.equal(new)


def test_hints_are_quoted_and_name_what_can_be_a_tensor(folder, revseq):
    with h5py.File(folder / "x.h5", "w") as f:
        f["a text"], f["b c"], f["d"] = "text", VALUES, 1
    revseq("convert", "x.h5", "none.npy").refused("has 3 datasets", f"Hint: try {system.quoted('x.h5::/b c')}\n")
    assert "Hint" not in revseq("show", "x.h5::/none").refused("one of /a text, /b c, /d").err  # none is like it


def test_complex_numbers_with_the_imaginary_part_first_are_no_complex_numbers(folder, revseq):
    make(folder, np.zeros((5, 30, 17), [("imag", "f4"), ("real", "f4")]))
    revseq("convert", "x.h5", "none.npy").refused("a compound of imag, real")
