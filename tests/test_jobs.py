"""Jobs as they are asked for: which tensors, of which data types, by which names."""

import os

import numpy as np
import oracle
import pytest

from revseq_cli.ground.errors import UsageError
from revseq_cli.ground.tensors import DataType
from revseq_cli.passes import jobs
from revseq_cli.passes.assembly import Request
from revseq_cli.report.words import spelled


@pytest.fixture
def folder(files, monkeypatch):
    """The small job, in the current folder."""
    monkeypatch.chdir(files)
    np.save(files / "wide.npy", np.array([[2], [4], [3]], np.int64))
    np.save(files / "narrow.npy", np.array([2, 4, 3], np.uint32))
    return files


@pytest.mark.parametrize("absolute", [False, True])
def test_names_from_the_root_for_workers_that_stand_elsewhere(folder, absolute):
    root = f"{os.getcwd()}{os.sep}" if absolute else ""
    values, lengths = Request("x.npy", "n.npy", absolute=absolute).references()
    assert (values.path, lengths.path) == (f"{root}x.npy", f"{root}n.npy")
    assert jobs.load_tensor("x.npy", "A", None, None, absolute=absolute).path == f"{root}x.npy"


def test_lengths_of_the_asked_data_type_stay_as_they_are(folder):
    asked = jobs.load(Request("x.npy", "n.npy", 1, lengths_dtype=DataType.UINT32))
    assert type(asked.lengths) is type(jobs.load(Request("x.npy", "n.npy", 1)).lengths)


def test_lengths_are_cast_where_it_is_asked_for(folder):
    assert jobs.load(Request("x.npy", "wide.npy", 1)).lengths.desc.data_type is DataType.INT64
    asked = jobs.load(Request("x.npy", "wide.npy", 1, lengths_dtype=DataType.UINT32))
    assert oracle.same_bits(asked.lengths.read(), np.load("n.npy"))
    asked = jobs.load(Request("x.npy", "narrow.npy", 1, lengths_dtype=DataType.UINT64, batch_axis=0))
    assert (asked.lengths.sizes, asked.lengths.desc.data_type) == ((3, 1), DataType.UINT64)
    assert (asked.batch_axis, jobs.load(Request("x.npy", "n.npy", 1)).batch_axis) == (0, None)


def test_a_data_type_that_is_asked_for_is_never_another_one(folder):
    assert jobs.load(Request("x.npy", "n.npy", 1, dtype=DataType.FLOAT32)).values.desc.data_type is DataType.FLOAT32
    for load in (
        lambda: jobs.load(Request("x.npy", "n.npy", 1, dtype=DataType.INT32)),
        lambda: jobs.load_tensor("x.npy", "A", DataType.INT32, None),
    ):
        with pytest.raises(UsageError, match="DataType is FLOAT32, and INT32 is asked for") as caught:
            load()
        assert spelled(caught.value.hint) == "leave out --dtype"


@pytest.mark.parametrize(
    ("request_", "found", "wanted", "hint"),
    [
        (
            Request("x.npy", axis=1),
            "no lengths are given",
            "a tensor of lengths",
            "add LENGTHS after INPUT; in a batch, give each job its lengths",
        ),
        (Request("-", "-", 1), "INPUT and LENGTHS are both standard input", "one of them", "save one to a file"),
    ],
)
def test_what_a_job_lacks(folder, request_, found, wanted, hint):
    with pytest.raises(UsageError, match=found) as caught:
        jobs.load(request_)
    assert caught.value.wanted.startswith(wanted)
    assert spelled(caught.value.hint) == hint


def test_what_belongs_to_a_job(folder):
    job = jobs.load(Request("x.npy", "n.npy", 1))
    assert job.names == {"InputTensor": "x.npy", "SequenceLengthsTensor": "n.npy"}
    assert [each.inode for each in job.files] == [os.stat("x.npy").st_ino, os.stat("n.npy").st_ino]
    assert job.gaps() == ()
