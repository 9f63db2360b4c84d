"""`--like numpy`: what users of NumPy, xarray and h5py have, without DirectML's limits; and one length for all lines."""

import json

import numpy as np
import oracle
import pytest

VALUES = np.arange(24).reshape(2, 3, 4)
LENGTHS = np.array([[[1], [2], [9]], [[0], [3], [4]]])
INTEGERS = ("i1", "i2", ">i4", "i8", "u1", ">u2", "u4", "u8")


@pytest.fixture
def made(tmp_path, revseq):
    """What a command with these arrays writes."""

    def run(values, lengths, *more, **order):
        np.save(tmp_path / "x.npy", values)
        np.save(tmp_path / "n.npy", lengths)
        revseq("run", "x.npy", "n.npy", "-o", "y.npy", "--overwrite", *more, **order).ok()
        return np.load(tmp_path / "y.npy")

    return run


@pytest.mark.parametrize("data_type", INTEGERS)
def test_lengths_of_any_integer_type(made, data_type):
    found = made(VALUES, LENGTHS.astype(data_type), "--like", "numpy", "--axis", 2)
    assert np.array_equal(found, oracle.expected(VALUES, LENGTHS.astype("u8"), 2))


@pytest.mark.parametrize("data_type", ["?", "c8", "c16"])
def test_values_that_directml_lacks(made, data_type):
    values = (VALUES * (1 + 1j if data_type != "?" else 1)).astype(data_type)
    found = made(values, LENGTHS, "--like", "xarray", "--axis", -1)
    assert oracle.same_bits(found, oracle.expected(values, LENGTHS.astype("u8"), 2))


def test_axes_count_from_either_end(made):
    lengths = np.array([1, 3, 2])
    found = made(VALUES, lengths, "--like", "numpy", "--axis", -1, "--batch-axis", -2)
    assert np.array_equal(found, made(VALUES, lengths, "--like", "numpy", "--axis", 2, "--batch-axis", 1))


def test_the_environment_sets_it_for_good(made, revseq, tmp_path):
    env = {"REVSEQ_LIKE": "numpy"}
    found = made(VALUES, LENGTHS, "--axis", -1, env=env)
    assert np.array_equal(found, oracle.expected(VALUES, LENGTHS.astype("u8"), 2))
    report = json.loads(revseq("check", "x.npy", "n.npy", "--axis", -1, "--json", env=env).ok().out)
    assert report["level"] == "none"
    (tmp_path / "jobs.jsonl").write_text('{"input": "x.npy", "lengths": "n.npy", "axis": -1, "output": "z.npy"}\n')
    revseq("batch", "jobs.jsonl", env=env).ok()
    assert np.array_equal(np.load(tmp_path / "z.npy"), found)
    revseq("run", "x.npy", "n.npy", "--axis", "1", env={"REVSEQ_LIKE": "nothing"}).refused("REVSEQ_LIKE")


@pytest.mark.parametrize(
    ("lengths", "found"),
    [
        (np.where(LENGTHS == 3, -3, LENGTHS), "615; a length is 0 or more"),
        (LENGTHS.astype("f8"), "DataType is FLOAT64"),
    ],
)
def test_what_is_no_length_is_refused(tmp_path, revseq, lengths, found):
    np.save(tmp_path / "x.npy", VALUES)
    np.save(tmp_path / "n.npy", lengths)
    revseq("run", "x.npy", "n.npy", "--axis", 2, "--like", "numpy", "-o", "y.npy").refused(found)


def test_a_model_for_directml_keeps_its_level(tmp_path, revseq):
    np.save(tmp_path / "x.npy", VALUES.astype("c8"))
    np.save(tmp_path / "n.npy", LENGTHS)
    done = revseq("export", "x.npy", "n.npy", "--axis", 2, "--like", "numpy", "-o", "y.json")
    done.refused("DataType is COMPLEX64", "no feature level of DirectML has it")


@pytest.mark.parametrize("lengths", [np.int64(2), np.array(2, "u4"), np.array([2], "u8")])
def test_one_length_is_for_all_lines(made, revseq, lengths):
    found = made(VALUES, lengths, "--like", "numpy", "--axis", 1)
    assert np.array_equal(found, VALUES[:, [1, 0, 2]])
    assert "one length, for all lines" in revseq("run", "x.npy", "n.npy", "--axis", 1, "--like", "numpy").ok().err


def test_one_length_is_typed_alone(tmp_path, revseq):
    done = revseq("run", "[[1, 2, 3], [4, 5, 6]]", "2", "--axis", 1).ok()
    assert "[[2, 1, 3],\n [5, 4, 6]]" in done.out
    error = revseq("run", "[[1, 2, 3], [4, 5, 6]]", "2").refused("no axis is given").err
    assert "--axis 1: every line of 3, length 2" in error
    (tmp_path / "2").write_text("[[3], [0]]")  # a file of that name counts first
    done = revseq("run", "[[1, 2, 3], [4, 5, 6]]", "2", "--axis", 1, "-f", "text").ok()
    assert "[[3, 2, 1],\n [4, 5, 6]]" in done.out


def test_one_length_with_a_batch_axis_is_one_of_its_indices(revseq):
    revseq("run", "[[1, 2, 3], [4, 5, 6]]", "2", "--axis", 1, "--batch-axis", 0).refused("Sizes is {1}", "{2}")
