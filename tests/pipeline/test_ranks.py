"""--rank: leading sizes of 1 come and go, and no element with them, in every format, order and plan."""

import json

import h5py
import numpy as np
import oracle
import pytest
import zarr
from oracle import expected

VALUES = np.random.default_rng(3).integers(0, 2**32, (30, 7, 50), np.uint32)
LENGTHS = np.random.default_rng(4).integers(0, 9, (30, 1, 50), np.uint32)


@pytest.fixture(params=["F", "zarr", "json"])
def source(request, tmp_path):
    """The values in some format, under a name for the command."""
    kind, path = request.param, tmp_path / f"x.{request.param}"
    match kind:
        case "F":
            np.save(tmp_path / "x.npy", np.asfortranarray(VALUES))
            return "x.npy"
        case "zarr":
            zarr.create_array(str(path), data=VALUES, chunks=(8, 7, 16))
        case "json":
            path.write_text(json.dumps(VALUES.tolist()))
    return path.name


def test_a_reversal_in_another_rank(revseq, tmp_path, source):
    """The axis counts the dimensions of the input; lines are cut in so little memory."""
    np.save(tmp_path / "n.npy", LENGTHS)
    dtype = ("--dtype", "UINT32") if source.endswith("json") else ()
    options = (*dtype, "--axis", 1, "--engine", "serial", "--memory", 100_000, "--verify")
    revseq("run", source, "n.npy", *options, "--rank", 5, "-o", "y.npy").ok()
    found = np.load(tmp_path / "y.npy")
    assert oracle.same_bits(found, expected(VALUES, LENGTHS, 1)[None, None])
    options = ("--axis", 3, "--engine", "serial", "--memory", 100_000, "--verify")
    revseq("run", "y.npy", "n.npy", *options, "--rank", 3, "-o", "z.h5", "--feature-level", "4_0").ok()
    with h5py.File(tmp_path / "z.h5") as file:
        assert oracle.same_bits(file["tensor"][()], VALUES)


def test_convert(revseq, tmp_path, source):
    dtype = ("--dtype", "UINT32") if source.endswith("json") else ()
    revseq("convert", source, "y.npy", "--rank", 4, *dtype, "--memory", 100_000, "--verify").ok()
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), VALUES[None])
    revseq("convert", "y.npy", "z.npy", "--rank", 3).ok()
    assert oracle.same_bits(np.load(tmp_path / "z.npy"), VALUES)
    revseq("convert", "y.npy", "w.npy", "--rank", 2).refused("Sizes is {1,30,7,50}", "{1,1,7,50}, to remove leading")
    assert not (tmp_path / "w.npy").exists()


def test_the_hint_of_an_older_level_can_be_followed(revseq, tmp_path):
    np.save(tmp_path / "x.npy", VALUES)
    np.save(tmp_path / "n.npy", LENGTHS)
    job = ("x.npy", "n.npy", "--axis", 1, "--feature-level", "3_0")
    for command, output in (("run", ("-o", "y.npy")), ("export", ("-o", "m.json"))):
        revseq(command, *job, *output).refused("try --feature-level 4_0, or --rank 4\n")
        revseq(command, *job, *output, "--rank", 4).ok()
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), expected(VALUES, LENGTHS, 1)[None])
    report = json.loads(revseq("check", *job, "--rank", 4, "--json").ok().out)
    assert (report["Axis"], report["InputTensor"]["Sizes"]) == (2, [1, 30, 7, 50])


@pytest.mark.parametrize("axes", [(1, 2), (3, 0), (3, 5), (-1, 2)])
def test_an_axis_that_goes_or_is_none(revseq, tmp_path, axes):
    np.save(tmp_path / "x.npy", VALUES[None, None])
    np.save(tmp_path / "n.npy", np.zeros(30, "u4"))
    job = ("x.npy", "n.npy", "--rank", 3, "-o", "y.npy")
    done = revseq("run", *job, "--axis", axes[0], "--batch-axis", axes[1])
    done.refused("the dimension count changes from 5 to 3", "2 to 4: a dimension that stays")
    revseq("run", *job, "--axis", 3, "--batch-axis", 2).ok()
