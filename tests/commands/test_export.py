"""A job on its way to DxDispatch and back: the files that travel, what to type, and the result that comes back."""

import json
import os
import shlex
import shutil

import dxdispatch
import numpy as np
import oracle
import pytest
from folders import content, names

OURS = ["model.InputTensor.npy", "model.SequenceLengthsTensor.npy"]
TARGET = "model.OutputTensor.npy"


@pytest.mark.parametrize("data_type", oracle.DATA_TYPES)
def test_there_and_back(revseq, tmp_path, data_type):
    rng = np.random.default_rng(17)
    values = oracle.random_values(rng, (3, 5), data_type)
    lengths = rng.integers(0, 8, (3, 1)).astype(np.uint32)
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    np.save(here / "x.npy", values)
    np.save(here / "n.npy", lengths)
    done = revseq(
        "export", "x.npy", "n.npy", "--axis", 1, "-o", "model.json", "--json", cwd=here
    ).ok()
    report = json.loads(done.out)
    assert report["dxdispatch"] == "dxdispatch.exe model.json"
    for file in report["files"]:
        shutil.copy(here / file, there)
    dxdispatch.run(there, "model.json")
    assert names(there) == {"model.json", *OURS, TARGET}
    shutil.copy(there / TARGET, here)
    assert report["comparison"] == f"revseq diff {TARGET} --job {' '.join(OURS)} --axis 1"
    assert "equal" in revseq(*report["comparison"].split()[1:], cwd=here).ok().out


def test_what_is_printed_can_be_typed(revseq, files):
    (files / "sub").mkdir()
    np.save(files / "long.npy", np.arange(3))
    options = ("--axis", 1, "--batch-axis", 0, "--lengths-dtype", "UINT32")
    done = revseq("export", "x.npy", "long.npy", *options, "-o", "sub/m.json").ok()
    assert "dxdispatch.exe m.json" in done.out
    dxdispatch.run(files / "sub", "m.json")
    typed = done.out.splitlines()[-1].split()
    assert typed[:3] == ["revseq", "diff", os.path.join("sub", "m.OutputTensor.npy")]
    revseq(*typed[1:]).ok()
    assert revseq("export", "x.npy", "n.npy", "--axis", 1, "-o", "q.json", "-q").ok().out == ""


def test_bool_goes_as_uint8(revseq, tmp_path):
    """DirectML has no BOOL. What is proposed gives the model, and what that prints the comparison."""
    x = np.array([[True, False, True], [False, False, True]])
    np.save(tmp_path / "x.npy", x)
    job = ("export", "x.npy", "[[2], [3]]", "--axis", 1, "-o", "model.json")
    done = revseq(*job).refused("DataType is BOOL", "--dtype UINT8")
    typed = shlex.join(map(str, job))
    assert done.err.endswith(f": revseq {typed} --dtype UINT8\n")
    done = revseq(*job, "--dtype", "UINT8").ok()
    dxdispatch.run(tmp_path, "model.json")
    assert np.load(tmp_path / TARGET).tolist() == [[0, 1, 1], [1, 0, 0]]
    revseq(*shlex.split(done.out.splitlines()[-1])[1:]).ok()


def test_what_no_level_has(revseq, tmp_path):
    """Nothing is proposed that would be refused again."""
    for values in (np.ones((2, 3), "c8"), np.ones((0, 3)), np.ones((1,) * 8 + (3,))):
        np.save(tmp_path / "x.npy", values)
        np.save(tmp_path / "n.npy", np.ones((*values.shape[:-1], 1), np.uint32))
        done = revseq(
            "export", "x.npy", "n.npy", "--axis", values.ndim - 1, "-o", "model.json"
        ).refused()
        assert "--feature-level none" not in done.err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("-o", "model.JSON"), ("in lower case", " -o model.json")),
        (("-o", "e.npy"), ("e.npy: a model is JSON", " -o e.json")),
        (("-o", "no/model.json"), ("no such folder",)),
        (("-o", "old.json"), ("old.json: exists already", "--overwrite")),
        (("-o", "folder.json"), ("folder.json",)),
        (("-o", "model.json", "--axis", 2), ("axis 2 is out of range",)),
        (("-o", "model.json", "--feature-level", "3_0"), ("dimension count is 2",)),
    ],
)
def test_refused_before_anything_is_written(revseq, files, args, words):
    (files / "folder.json").mkdir()
    (files / "old.json").write_bytes(b"old")
    before = content(files)
    axis = () if "--axis" in args else ("--axis", 1)
    revseq("export", "x.npy", "n.npy", *axis, *args).refused(*words)
    assert content(files) == before


def test_files_beside_the_model_come_with_it_or_not_at_all(revseq, tmp_path):
    (tmp_path / "sub").mkdir()
    np.save(tmp_path / "x.npy", np.zeros((1, 2000), np.float32))
    job = ("export", "x.npy", "[[3]]", "--axis", 1, "-o", "sub/model.json")
    code = "import os, revseq_cli.pipeline.passes as e; f = e.copy; e.copy = lambda *a: (f(*a), os.utime('x.npy', ns=(1, 1)))"
    revseq(*job, code=code).refused("x.npy: changed")
    assert names(tmp_path / "sub") == set()
    revseq(*job).ok()
    (tmp_path / "sub" / "model.json").unlink()
    revseq(*job).refused(f"{OURS[0]}: exists already", "--overwrite")


def test_the_model_gets_its_name_last(revseq, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((2000, 2), np.float32))
    np.save(tmp_path / "n.npy", np.ones((2000, 1), np.uint32))
    code = "from revseq_cli.files.new import NewLocalFile as A; f = A.take_name; A.take_name = lambda file: (print(file.name), f(file))"
    done = revseq("export", "x.npy", "n.npy", "--axis", 1, "-o", "model.json", "-q", code=code).ok()
    assert done.out.split() == [*OURS, "model.json"]


def test_padding_of_results_that_come_back(revseq, tmp_path):
    """DirectML has buffers of whole 4 bytes, and DxDispatch writes all of them."""
    for padding in (1, 3):
        values = np.arange(4 - padding, dtype=np.int8)
        dxdispatch.write_npy(
            tmp_path / "x.npy", values.tobytes() + b"\xee" * padding, values.dtype, values.shape
        )
        np.save(tmp_path / "y.npy", values)
        revseq("diff", "x.npy", "y.npy").ok()
