"""Names and links of HDF5: soft links inside the file are followed, others are named, and nothing sound stops a listing."""

import json

import h5py
import numpy as np
import oracle
import pytest
from oracle import expected
from processes import job_count

VALUES = np.arange(12.0).reshape(3, 4)
LENGTHS = np.array([[2], [0], [9]], "u4")
RUN = ("n.npy", "--axis", 1, "--feature-level", "none", "--verify")
RESULT = expected(VALUES, LENGTHS, 1)


@pytest.fixture
def nexus(tmp_path):
    """A file as NeXus has them: the data stand with the detector, and links lead there."""
    np.save(tmp_path / "n.npy", LENGTHS)
    with h5py.File(tmp_path / "x.nxs.h5", "w") as f:
        detector = f.create_group("entry/instrument/detector")
        detector.attrs["NX_class"] = "NXdetector"
        detector.create_dataset("counts", data=VALUES, chunks=(2, 3), compression="gzip").attrs["units"] = "1"
        detector["distance"] = np.float32(2)
        data = f.create_group("entry/data")
        data.attrs["NX_class"], data.attrs["signal"] = "NXdata", "counts"
        data["counts"] = h5py.SoftLink("/entry/instrument/detector/counts")
        data["relative"] = h5py.SoftLink("./again//counts")
        data["again"] = h5py.SoftLink("/entry/measured")
        f["entry/measured"] = h5py.SoftLink("instrument/detector")
        f["default"] = h5py.SoftLink("entry/data/relative")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "engine"),
    [("entry/data/counts", "processes"), ("entry/data/relative", "serial"), ("entry/data/again/counts", "serial"),
     ("entry/measured/counts", "serial"), ("default", "processes")],
)  # fmt: skip
def test_soft_links_inside_the_file(nexus, revseq, name, engine):
    """The output has the name that was typed, and the attributes of the groups on that way."""
    revseq("run", f"x.nxs.h5::/{name}", *RUN, "--engine", engine, "--jobs", job_count(engine), "-o", "y.h5").ok()
    with h5py.File(nexus / "x.nxs.h5") as f, h5py.File(nexus / "y.h5") as g:
        assert g.get(name, getlink=True).__class__ is h5py.HardLink
        assert oracle.same_bits(g[name][()], RESULT)
        assert dict(g[name].attrs) == {"units": "1"}
        assert (g[name].chunks, g[name].compression) == ((2, 3), "gzip")
        if "/" in name:
            assert dict(g[name].parent.attrs) == dict(f[name.rpartition("/")[0]].attrs)
    shown = json.loads(revseq("show", f"x.nxs.h5::{name}", "--json").ok().out)
    assert name in str(shown)
    assert "/entry/instrument/detector/counts" in str(shown)


def test_a_dataset_with_links_to_it_is_the_only_one(nexus, revseq):
    with h5py.File(nexus / "x.nxs.h5", "a") as f:
        del f["entry/instrument/detector/distance"]
    revseq("run", "x.nxs.h5", *RUN, "-o", "y.h5").ok()
    with h5py.File(nexus / "y.h5") as g:
        assert oracle.same_bits(g["entry/instrument/detector/counts"][()], RESULT)


def test_a_linked_group_is_no_dataset(nexus, revseq):
    revseq("convert", "x.nxs.h5::entry/measured", "none.npy").refused(
        "is a group with /entry/instrument/detector/counts",
        "Hint: one of x.nxs.h5::/entry/instrument/detector/counts, x",
    )


def test_links_that_lead_nowhere(tmp_path, revseq):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["x"] = VALUES
        f["gone"], f["self"], f["there"], f["back"] = map(h5py.SoftLink, ("/no/where", "self", "/back", "there"))
        f["below"], f["empty"], f["dots"] = map(h5py.SoftLink, ("x/more", ".", "../x"))
        for i in range(20):
            f[f"s{i}"] = h5py.SoftLink(f"s{i + 1}" if i < 19 else "x")

    def refused(name, *words):
        revseq("convert", f"x.h5::{name}", "none.npy").refused(f"x.h5::/{name}: ", *words)

    refused("gone", "/gone is a soft link to /no/where, which does not exist", "one of /x")
    refused("self", "has more than 16 soft links on its way: /self is a soft link to self")
    refused("there", "has more than 16 soft links on its way")
    refused("below", "which does not exist")
    refused("dots", "which does not exist")
    refused("empty", "is a group with /x")
    refused("s3", "has more than 16 soft links")
    revseq("show", "x.h5::s4").ok()  # of 16 in all, as many as HDF5 follows
    revseq("show", "x.h5").ok()
    with h5py.File(tmp_path / "x.h5") as f:
        assert f["s4"].shape == VALUES.shape
        with pytest.raises(RuntimeError, match="too many links"):
            f["s3"]


@pytest.fixture
def elsewhere(tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as f:
        f["group/secret"] = VALUES
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["g/dataset"] = h5py.ExternalLink("other.h5", "/group/secret")
        f["g/group"] = h5py.ExternalLink("other.h5", "group/")
        f["soft"], f["softer"] = h5py.SoftLink("g/dataset"), h5py.SoftLink("/g/group/secret")
        f["lost"] = h5py.ExternalLink("lost\x1b.h5", "/x")
    return tmp_path


@pytest.mark.parametrize("name", ["g/dataset", "g/group/secret", "soft", "softer"])
def test_external_links_say_where_they_lead(elsewhere, revseq, name):
    done = revseq("show", f"x.h5::{name}").refused("is an external link to other.h5::", "other files are not opened")
    assert ("a soft link to" in done.err) == name.startswith("soft")
    hint = done.err.split("Hint: try ")[1].strip()
    assert "FLOAT64" in revseq("show", hint).ok().out
    other = revseq("show", f"{elsewhere}/x.h5::{name}", cwd="/").refused("is an external link to other.h5::")
    revseq("show", other.err.split("Hint: try ")[1].strip(), cwd="/").ok()


def test_a_file_of_links_only(elsewhere, revseq):
    revseq("convert", "x.h5", "none.npy").refused(
        "x.h5: has no dataset, only links: ", "/g/dataset is an external link to other.h5::/group/secret",
        "/soft is a soft link to g/dataset", r"lost\x1b.h5::/x", "Hint: try other.h5::/group/secret",
    )  # fmt: skip
    assert "Hint" not in revseq("show", "x.h5::lost").refused(r"is an external link to lost\x1b.h5::/x").err


def test_a_file_without_anything(tmp_path, revseq):
    h5py.File(tmp_path / "x.h5", "w").close()
    assert "link" not in revseq("convert", "x.h5", "none.npy").refused("x.h5: has no dataset").err
