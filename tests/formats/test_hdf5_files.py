"""Names, links and other things of HDF5 files: what is sound stops nothing, and no other file is opened.

Soft links inside the file are followed, others are named.
"""

import json
import os
import re

import h5py
import netCDF4
import numpy as np
import oracle
import pytest
from h5py import h5a, h5d, h5g, h5p, h5s, h5t
from oracle import expected

from revseq_cli.formats.attributes import as_neutral

VALUES = np.arange(12.0).reshape(3, 4)
LENGTHS = np.array([[2], [0], [9]], "u4")
RUN = ("n.npy", "--axis", 1, "--verify")
RESULT = expected(VALUES, LENGTHS, 1)


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "n.npy", LENGTHS)
    return tmp_path


@pytest.fixture
def right(revseq, folder):
    """Run the job, and whether the output is right."""

    def run(*options, name="x", values=VALUES):
        revseq("run", f"x.h5::{name}", *RUN, "-o", "y.h5", "--overwrite", *options).ok()
        with h5py.File(folder / "y.h5") as f:
            assert oracle.same_bits(f[name][()], expected(values, LENGTHS, 1))

    return run


def test_soft_links_inside_the_file(folder, revseq):
    """As NeXus has them. In a copy they stay; alone, the dataset has the name and the groups that were typed."""
    counts = "entry/instrument/detector/counts"
    with h5py.File(folder / "x.nxs.h5", "w") as f:
        f.create_dataset(counts, data=VALUES, chunks=(2, 3), compression="gzip").attrs["units"] = (
            "1"
        )
        f[counts].parent.attrs["NX_class"] = "NXdetector"
        f["entry/data/counts"] = h5py.SoftLink(f"/{counts}")
        f["entry/data/again"] = h5py.SoftLink("/entry/instrument/detector")
        f["default"] = h5py.SoftLink("entry/data/./again//counts")
    for name, engine in (
        ("entry/data/counts", "serial"),
        ("entry/data/again/counts", "serial"),
        ("default", "processes"),
    ):
        job = (
            "run",
            f"x.nxs.h5::/{name}",
            *RUN,
            "--engine",
            engine,
            "--jobs",
            1,
            "--overwrite",
            "-o",
        )
        revseq(*job, "y.h5").ok()
        revseq(*job, "z.h5", "--only").ok()
        with h5py.File(folder / "y.h5") as g, h5py.File(folder / "z.h5") as h:
            assert oracle.same_bits(g[counts][()], RESULT)
            assert oracle.same_bits(g[name][()], RESULT)
            assert isinstance(h.get(name, getlink=True), h5py.HardLink)
            assert oracle.same_bits(h[name][()], RESULT)
            assert (h[name].chunks, h[name].compression, as_neutral(h[name].attrs["units"])) == (
                (2, 3),
                "gzip",
                "1",
            )
            assert (
                name != "entry/data/again/counts"
                or as_neutral(h[name].parent.attrs["NX_class"]) == "NXdetector"
            )
    revseq("convert", "x.nxs.h5::entry/data/again", "none.npy").refused(
        f"a group with /{counts}", f"::/{counts}"
    )


def test_links_that_lead_nowhere(tmp_path, revseq):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["x"] = VALUES
        f["gone"], f["self"], f["below"], f["empty"] = map(
            h5py.SoftLink, ("/no/where", "self", "x/more", ".")
        )
        for i in range(20):
            f[f"s{i}"] = h5py.SoftLink(f"s{i + 1}" if i < 19 else "x")

    def refused(name, *words):
        revseq("convert", f"x.h5::{name}", "none.npy").refused(f"x.h5::/{name}: ", *words)

    refused("gone", "/gone is a soft link to /no/where, which does not exist", "one of /x")
    refused("self", "/self is a soft link to self, and more soft links follow")
    refused("below", "which does not exist")
    refused("empty", "a group with /x")
    refused("s3", "more soft links follow")
    revseq("show", "x.h5::s4", "x.h5").ok()  # of 16 in all, as many as HDF5 follows


def test_h20_links_to_other_files_say_where_they_lead(tmp_path, revseq):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["away"], f["lost"] = (
            h5py.ExternalLink("other.h5", "group"),
            h5py.ExternalLink("lost\x1b.h5", "/x"),
        )
        f["soft"] = h5py.SoftLink("/away/secret")
    revseq("convert", "x.h5", "none.npy").refused("x.h5: has no dataset")
    shown = revseq("show", "x.h5").ok().out
    for words in (
        "an external link to other.h5::group",
        "a soft link to /away/secret",
        r"lost\x1b.h5::/x",
    ):
        assert words in shown
    for name in ("away", "away/secret", "soft"):
        revseq("show", f"x.h5::{name}").refused(
            "an external link to other.h5::group", "other files are not opened"
        )


@pytest.fixture
def doors(tmp_path):
    """A file with virtual datasets and external storage beside a tensor, as its scales, too; HDF5 opens what they name."""
    np.save(tmp_path / "n.npy", np.array([3], "u4"))
    with h5py.File(tmp_path / "secret.h5", "w") as f:
        f["x"] = np.arange(4.0)
    endless = h5py.h5s.create_simple((4,), (h5py.h5s.UNLIMITED,))
    endless.select_hyperslab((0,), (h5py.h5s.UNLIMITED,))
    with h5py.File(tmp_path / "x.h5", "w", libver="latest") as f:
        for name in "vw":
            f[name] = np.arange(4.0)
        for name, source in (("u", b"secret.h5"), ("pipe", b"fifo")):
            properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            properties.set_virtual(endless, source, b"x", endless)
            space = h5py.h5s.create_simple((4,), (h5py.h5s.UNLIMITED,))
            h5py.Dataset(
                h5py.h5d.create(f.id, name.encode(), h5py.h5t.IEEE_F64LE, space, properties)
            ).make_scale(name)
            f["v"].dims[0].attach_scale(f[name])
        f["w"].dims[0].label = "u"
        f["q"], f["e"] = np.arange(4.0), h5py.ExternalLink("secret.h5", "/x")
        f["q"].dims[0].label = "e"
        f.create_dataset("external", (4,), "f8", external=[("secret.h5", 0, 32)])
    return tmp_path


@pytest.mark.needs("shell", "strace", "fifos")
@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("show x.h5", 0), ("run x.h5::v n.npy --axis 0 -o y.h5::new", 0), ("run x.h5::external n.npy --axis 0", 2),
        ("run x.h5::v x.h5::pipe --axis 0", 2), ("convert x.h5::w y.nc", 0), ("convert x.h5::q y.nc", 0), ("diff x.h5::v x.h5::u", 2),
    ],
)  # fmt: skip
def test_no_other_file_is_opened(doors, shell, line, status):
    os.mkfifo(doors / "fifo")  # which would hang
    done = shell(f"timeout 60 strace -f -qq -o trace -e trace=open,openat revseq {line}", anew=True)
    assert done.status == status, done.err
    traced = (doors / "trace").read_text()
    assert "x.h5" in traced
    assert "secret.h5" not in traced
    assert "fifo" not in traced


def test_h21_h22_values_in_other_files_are_refused_and_shown(doors, revseq):
    revseq("convert", "x.h5::u", "y.npy").refused(
        "a virtual dataset, made of other files", "in the file itself"
    )
    revseq("convert", "x.h5::external", "y.npy").refused("keeps its values in another file")
    shown = revseq("show", "x.h5").ok().out
    assert "a virtual dataset" in shown
    assert "keeps its values in another file" in shown
    told = json.loads(revseq("convert", "x.h5::w", "y.nc", "--json").ok().out)["notes"]
    assert told[0].startswith("not copied: the variable u, 2 other tensors (/q, /v)")


@pytest.mark.parametrize("layout", ["never written", "compact", "chunks", "contiguous"])
def test_a_user_block(folder, right, layout):
    """HDF5 names a place inside the user block for values that lie nowhere, and for those in a header."""
    made = h5p.create(h5p.DATASET_CREATE)
    made.set_fill_value(np.array(7.0))
    if layout == "chunks":
        made.set_chunk((2, 3))
    if layout == "compact":
        made.set_layout(h5d.COMPACT)
    with h5py.File(folder / "x.h5", "w", userblock_size=512) as f:
        x = h5d.create(f.id, b"x", h5t.IEEE_F64LE, h5s.create_simple((3, 4)), made)
        if layout != "never written":
            x.write(h5s.ALL, h5s.ALL, VALUES)
    for options in ((), ("--only",)):
        right(*options, values=VALUES if layout != "never written" else np.full((3, 4), 7.0))
        with h5py.File(folder / "y.h5") as f:
            assert f.userblock_size == (0 if options else 512)


KINDS = [
    h5t.UNIX_D32LE, h5t.STD_REF_OBJ, h5t.STD_REF_DSETREG, h5t.STD_B8LE, h5t.vlen_create(h5t.UNIX_D64BE),
    h5t.array_create(h5t.UNIX_D32BE, (3,)), h5t.vlen_create(h5t.STD_I32LE),
]  # fmt: skip


def test_types_that_h5py_lacks(folder, revseq, right):
    with h5py.File(folder / "x.h5", "w") as f:
        f["x"] = VALUES
        for i, kind in enumerate(KINDS):
            kind.copy().commit(f.id, b"kind %d" % i)
            h5d.create(f.id, b"other %d" % i, kind, h5s.create_simple((2,)))
            h5a.create(f["other 0"].id, b"CLASS%d" % i, kind, h5s.create_simple((2,)))
    assert (
        "damaged" not in revseq("convert", "x.h5", "none.npy").refused("has 8 datasets\n", "/x").err
    )
    right()
    for i, kind in enumerate(KINDS):
        done = revseq("show", f"x.h5::other {i}")
        assert done.status == 0 if kind is h5t.STD_B8LE else done.refused("its data type is ")


@pytest.mark.needs("names of bytes")
def test_names_of_any_bytes(folder, revseq, right):
    with h5py.File(folder / "x.h5", "w") as f:
        f["x"] = VALUES
        group = h5g.create(f.id, b"gr\xff")
        h5g.create(group, b"a\nb")
        h5t.STD_I8LE.copy().commit(f.id, b"ty\xfe")
        f.id.links.create_soft(b"so\xff", b"\xfe\xff")
        f.id.links.create_external(b"ex\xff", b"\xfe\xff", b"/\xff")
        h5d.create(group, b"deep", h5t.STD_I8LE, h5s.create_simple((2,)))
    right()
    revseq("convert", "x.h5", "none.npy").refused("has 2 datasets", "/x")
    revseq("show", b"x.h5::so\xff").refused("which does not exist")
    revseq("convert", b"x.h5::gr\xff/deep", "deep.npy").ok()
    revseq("convert", b"x.h5::gr\xff/deep", "deep.h5").refused("deep.h5: HDF5 cannot write it: ")


def test_files_of_all_versions_and_strategies(folder, right):
    for options in (
        {"libver": "earliest"}, {"libver": "latest"}, {"track_order": True}, {"fs_strategy": "page", "fs_page_size": 4096},
        {"fs_strategy": "fsm", "fs_persist": True},
    ):  # fmt: skip
        with h5py.File(folder / "x.h5", "w", **options) as f:
            group = f.create_group("g", track_order=True)
            group["x"] = VALUES
            for i in range(40):  # so many are stored in another way
                group.attrs[f"a{i}"], group["x"].attrs[f"b{i}"] = i, i
                group.create_group(f"empty{i}")
            if options.get("libver") == "latest":
                group.attrs["huge"] = np.zeros(100_000)
        for more in ((), ("--only",)):
            right(*more, name="g/x")
            with h5py.File(folder / "x.h5") as f, h5py.File(folder / "y.h5") as g:
                assert dict(g["g/x"].attrs) == dict(f["g/x"].attrs)
                assert len(g["g"].attrs) == len(f["g"].attrs)


def test_damage_elsewhere_in_the_file(folder, revseq, right):
    with h5py.File(folder / "x.h5", "w") as f:
        f["x"], f["bad"] = VALUES, VALUES
        place = h5py.h5o.get_info(f["bad"].id).addr
    with open(folder / "x.h5", "r+b") as file:
        file.seek(place)
        file.write(b"\xff" * 16)
    for more in ((), ("--only",)):
        right(*more)
    revseq("convert", "x.h5", "none.npy").refused("has 2 datasets\n", "x.h5::/x\n")
    revseq("show", "x.h5::bad").refused("x.h5: HDF5 cannot read it: ", "a whole file, of HDF5 ")


def test_an_axis_cut_within_little_memory_by_workers(folder, revseq):
    """What merges the parts of a line reads the input itself, in a worker."""
    values = np.arange(15 * 16 * 4.0).reshape(15, 16, 4)
    with h5py.File(folder / "x.h5", "w") as f:
        f["x"] = values
    revseq(
        "run",
        "x.h5",
        "15",
        "--axis",
        1,
        "-o",
        "y.h5",
        "--engine",
        "processes",
        "--jobs",
        1,
        "--memory",
        "2K",
    ).ok()
    with h5py.File(folder / "y.h5") as f:
        assert oracle.same_bits(f["x"][()], expected(values, np.full((15, 1, 4), 15), 1))


def test_attributes_are_read_within_a_bound(files, revseq):
    """4,000 texts that are one text of 150 kB in the file: 600 MB."""
    count, size = 4000, 150_000
    with h5py.File(files / "x.h5", "w", libver=("earliest", "latest")) as file:
        file["x"] = np.load(files / "x.npy")
        texts = np.array(["A" * size] + [f"{i:06}" for i in range(count - 1)], object)
        file["x"].attrs.create("many", texts, dtype=h5py.string_dtype())
        file["x"].attrs["units"] = "K"
    data = bytearray((files / "x.h5").read_bytes())
    # An element is the text's length, the address of its heap, and its number in that.
    first = data.find(size.to_bytes(4, "little"))
    while int.from_bytes(data[first + 16 : first + 20], "little") != 6:
        first = data.find(size.to_bytes(4, "little"), first + 1)
    data[first : first + 16 * count] = data[first : first + 16] * count
    (files / "x.h5").write_bytes(data)
    code = "import resource; resource.setrlimit(resource.RLIMIT_DATA, (400 << 20, 400 << 20))"
    for command in (("show", "x.h5"), ("run", "x.h5", "n.npy", "--axis", 1, "-o", "y.npy")):
        done = revseq(*command, code=code).ok()
        assert "many" in done.err or command[0] == "show"


def test_an_attribute_class_next_to_a_scale(files, revseq):
    """HDF5 attaches no scale to a dataset that has an attribute of that name."""
    with h5py.File(files / "x.h5", "w") as file:
        file["x"] = np.load(files / "x.npy")
        file["t"] = np.arange(4.0)
        file["t"].make_scale("t")
        file["x"].dims[1].attach_scale(file["t"])
        file["x"].attrs["CLASS"] = "mine"
    revseq("run", "x.h5::x", "n.npy", "--axis", 1, "--only", "-o", "y.h5").ok()
    revseq("run", "x.h5::x", "n.npy", "--axis", 1, "-o", "z.h5::z").ok()
    for name, key in (("y.h5", "x"), ("z.h5", "z")):
        with h5py.File(files / name) as file:
            assert file[key].attrs["CLASS"] in ("mine", b"mine")
            assert file[key].dims[1][0].name == "/t"


def test_hints_name_only_what_can_be_read(folder, revseq):
    with h5py.File(folder / "x.h5", "w") as f:
        f["text"] = "text"
        f["pairs"] = np.zeros(2, "i4,f8")
        f["null"] = h5py.Empty("f4")
        for name in ("values", "weights", "group/values"):
            f[name] = np.zeros(3)
        f["group/text"] = "text"
        f["textual"] = h5py.SoftLink("/nowhere")
    several = revseq("run", "x.h5", "[1]", "--axis", 0, "-o", "y.h5")
    several.refused("x.h5::/values\n", "x.h5::/weights\n")
    near = revseq("run", "x.h5::/texts", "[1]", "--axis", 0, "-o", "y.h5")
    near.refused("no such dataset", "/values")
    group = revseq("run", "x.h5::group", "[1]", "--axis", 0, "-o", "y.h5")
    group.refused("did you mean: x.h5::/group/values")
    link = revseq("run", "x.h5::textual", "[1]", "--axis", 0, "-o", "y.h5")
    link.refused("/textual is a soft link to /nowhere")
    for result in (several, near, group, link):
        for name in ("text", "pairs", "null", "group/text"):
            assert not re.search(rf"x\.h5::/{name}\b", result.err)
    assert "Hint" not in link.err


def test_attributes_are_counted_without_those_of_storage(folder, revseq):
    with netCDF4.Dataset(folder / "x.nc", "w") as f:
        f.title = "title"
        f.createDimension("t", 4)
        for name in ("air", "wind", "t"):
            f.createVariable(name, "f4", ("t",))[:] = 1
        f["air"].units = "K"
    counts = {
        tensor["name"]: tensor["attributes"]
        for tensor in json.loads(revseq("show", "x.nc", "--json").ok().out)["tensors"]
    }
    assert counts == {"x.nc::/air": 1, "x.nc::/wind": 0, "x.nc::/t": 0}
    for name, count in counts.items():
        [tensor] = json.loads(revseq("show", name, "--json").ok().out)["tensors"]
        assert tensor["attributes"] == count
        assert tensor["format"] == "h5"
    for name in ("x.nc", "x.nc::/air"):
        assert "NetCDF-4" in revseq("show", name).ok().out
    assert "1 attribute" in revseq("show", "x.nc").ok().out
