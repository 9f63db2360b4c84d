"""What a refused job is told to type: it works as printed, and where several readings are left none is proposed."""

import re
import shlex

import h5py
import hints
import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_files import held

from revseq_cli.commands import run
from revseq_cli.core.errors import RevseqError
from revseq_cli.operator.spec import SYSTEMS, FeatureLevel, violations
from revseq_cli.pipeline import suggest
from revseq_cli.pipeline.jobs import make_job
from revseq_cli.pipeline.request import Request

RNG = np.random.default_rng(30)
X = oracle.random_values(RNG, (4, 10, 6), oracle.DATA_TYPES[1])
CUBE = oracle.random_values(RNG, (4, 4, 4), oracle.DATA_TYPES[1])
UP_TO_10, UP_TO_6 = np.array([2, 5, 10, 7]), np.array([2, 5, 6, 1])
FULL = np.array([[[3]], [[0]], [[10]], [[2]]], "u4").repeat(6, 2)


def batched(values, lengths, axis, batch_axis):
    """The meaning of one length for each index of the batch axis."""
    shape = [size if d == batch_axis else 1 for d, size in enumerate(values.shape)]
    full = [1 if d == axis else size for d, size in enumerate(values.shape)]
    return oracle.expected(values, np.broadcast_to(np.reshape(lengths, shape), full), axis)


SMALL = np.array(UP_TO_10, "u4")
AXES = ("--axis", 1, "--batch-axis", 0)
# The tensors, what is typed, and words of the hint; the job along axis 1 with the batch axis 0 is meant.
MEANT = {
    "the batch axis": (X, UP_TO_10, ("x.npy", "n.npy", "--axis", 1), "--batch-axis 0"),
    "a vector of MATLAB": (X, np.array([[2.0], [5], [10], [7]]), ("x.npy", "n.npy", "--axis", 1), "--batch-axis 0"),
    "the axis": (X, FULL, ("x.npy", "n.npy"), "--axis 1"),
    "a cast": (X, UP_TO_10, ("x.npy", "n.npy", *AXES, "--feature-level", "5_0"), "--lengths-dtype UINT32"),
    "a type of lengths": (X, np.array([2, 5, 2**32, 7]), ("x.npy", "n.npy", *AXES, "--feature-level", "5_0"), "--lengths-dtype UINT64"),
    "no level": (X.astype("c8"), UP_TO_10, ("x.npy", "n.npy", *AXES, "--feature-level", "4_0"), "--feature-level none"),
    "all together": (X, UP_TO_10, ("x.npy", "n.npy", "--axis=1", "--feature-level", "2_1"), "--feature-level 4_0"),
    "a mask": (X, np.arange(10) < np.array(UP_TO_10)[:, None], ("x.npy", "n.npy", "--axis", 1), "--mask"),
    "a mask of numbers": (X, (np.arange(10) < np.array(UP_TO_10)[:, None]).astype("u4"), ("x.npy", "n.npy", "--axis", 1), "--mask"),
    "a type that is there": (X, SMALL, ("x.npy", "n.npy", "--like", "onnx", "--axis", 1, "--feature-level", "2_0"), "--feature-level 4_0"),
}  # fmt: skip


@pytest.mark.parametrize("name", MEANT)
def test_a_hint_makes_what_was_meant(revseq, tmp_path, name):
    values, lengths, args, words = MEANT[name]
    np.save(tmp_path / "x.npy", values)
    np.save(tmp_path / "n.npy", lengths)
    typed = ["run", *map(str, args), "-o", "y.npy"]
    told = revseq(*typed).refused(words).err
    revseq(*hints.typed(typed, told)).ok()
    right = oracle.expected(values, FULL, 1) if lengths is FULL else batched(values, UP_TO_10, 1, 0)
    assert oracle.same_bits(np.load(tmp_path / "y.npy"), right)


# The tensors and what is typed, where more than one thing may be meant.
OPEN = {
    "no axis": (X, UP_TO_6, ()),
    "only the axis": (CUBE, [1, 2, 3, 4], ("--axis", 0)),
    "an axis of which a system says nothing": (CUBE, [1, 2, 3, 4], ("--like", "onnx", "--axis", 2)),
}


@pytest.mark.parametrize("name", OPEN)
def test_where_several_may_be_meant_none_is_proposed(revseq, tmp_path, name):
    values, lengths, args = OPEN[name]
    np.save(tmp_path / "x.npy", values)
    np.save(tmp_path / "n.npy", np.array(lengths))
    done = revseq("run", "x.npy", "n.npy", *args).refused("\nHint: add the one that is meant:\n")
    assert len(re.findall(r"^  .*: --", done.err, re.MULTILINE)) > 1
    assert hints.typed(["run"], done.err) is None


# The tensors and what is typed, and what is expected, where only other axes would do.
OTHER_AXES = {
    "exchanged axes": (X, UP_TO_10, ("--axis", 0, "--batch-axis", 1), "expected 10"),
    "another axis": (X, FULL, ("--axis", 2), "{4,10,1} or {4,10}"),
    "a batch axis too much": (X, FULL, AXES, "expected 4"),
    "too many": (X, [1] * 10, AXES, "expected 4"),
    "the axes of a system": (X, UP_TO_10, ("--like", "onnx"), "expected 10"),
    "a square mask": (CUBE, np.tri(4), ("--mask", "--axis", 0, "--batch-axis", 1), "shape {4,4,1}"),
    "an unknown name": (X, UP_TO_10, ("--axis", "time"), "no dimension is named time"),
}


@pytest.mark.parametrize("name", OTHER_AXES)
def test_a_hint_never_changes_an_axis_that_was_typed(revseq, tmp_path, name):
    values, lengths, args, words = OTHER_AXES[name]
    np.save(tmp_path / "x.npy", values)
    np.save(tmp_path / "n.npy", np.array(lengths))
    done = revseq("run", "x.npy", "n.npy", *args).refused()
    assert words in done.err
    assert "--axis" not in done.err
    assert "revseq run" not in done.err


@pytest.fixture
def files(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(240, dtype="f4").reshape(4, 10, 6))
    np.save(tmp_path / "n.npy", UP_TO_10)
    return tmp_path


def test_what_is_listed(revseq, files):
    np.save(files / "x.npy", np.zeros((4, 6, 1)))
    assert "--axis 2" not in revseq("run", "x.npy", "n.npy").refused("--axis 1\n").err
    np.save(files / "x.npy", np.zeros((4, 4, 9, 2)))
    told = revseq("run", "x.npy", "n.npy", "--like", "pytorch", "--axis", 2).refused().err
    # The system's own batch axis comes first.
    assert told.index(": --batch-axis 1\n") < told.index(": --batch-axis 0\n")
    np.save(files / "x.npy", np.zeros((4,) * 8, "f4"))
    assert len(revseq("run", "x.npy", "n.npy").refused("  and 50 more\n").err.splitlines()) < 12
    np.save(files / "x.npy", np.zeros((2, 3, 4), "f4"))
    np.save(files / "m.npy", np.array([[1, 1, 0], [1, 0, 0]]))
    revseq("run", "x.npy", "m.npy").refused(
        "one for each sequence, with sequences of 4 elements: --axis 2",
        "in each sequence: --axis 1 --mask",
    )


@pytest.mark.parametrize("typed", ["check", "export -o m.json", "diff x.npy --job"])
def test_a_level_gets_its_cast_and_the_axes_together(revseq, files, typed):
    done = revseq(*typed.split(), "x.npy", "n.npy", "--axis", 1, "--feature-level", "4_0")
    hint = re.findall(r"Hint: .*: revseq (.*)$", done.out + done.err, re.MULTILINE)[-1]
    assert shlex.split(hint)[-4:] == ["--batch-axis", "0", "--lengths-dtype", "UINT32"]
    assert revseq(*shlex.split(hint)).status == ("diff" in typed)


def test_what_no_cast_helps(revseq, files):
    np.save(files / "n.npy", np.array([2, -5, 3, 7]))
    job = ("run", "x.npy", "n.npy", "--axis", 1, "--batch-axis", 0, "--feature-level", "5_0")
    assert "revseq run" not in revseq(*job).refused("DataType is INT64").err


def test_what_is_typed_stays(revseq, files):
    done = revseq("run", "--batch-axis", 0, "--", "[[1, 2], [3, 4]]", "[2, 1]").refused()
    assert "[[2, 1]," in revseq(*hints.typed([], done.err)).ok().out
    done = revseq("run", str([[*range(400)]]), "[[3]]").refused()
    assert done.err.endswith(": --axis 1\n")  # of a long command, only the options
    (files / "jobs.csv").write_text("input,lengths,axis,batch-axis,output\nx.npy,n.npy,1,,y.npy\n")
    assert revseq("batch", "jobs.csv").err.endswith(": --batch-axis 0\n")


@pytest.mark.parametrize("typed", ["3,2,1,4", "3 2 1 4"])
def test_lengths_that_are_typed_without_brackets(revseq, files, typed):
    done = revseq("run", "x.npy", typed, "--axis", 1, "--batch-axis", 0)
    done.refused("no such file", "type '[3, 2, 1, 4]'\n")


def test_names_of_dimensions_are_proposed_by_name(revseq, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        for name, values, names in (("x", CUBE, "abc"), ("n", np.array([1, 2, 3, 4], "u4"), "a")):
            f[name] = values
            f[name].attrs["DIMENSION_LABELS"] = [*map(str.encode, names)]
    told = (
        revseq("run", "x.h5::x", "x.h5::n", "--axis", "b", "--batch-axis", "c", "-o", "y.npy")
        .refused()
        .err
    )
    assert "its dimension a is axis 0" in told
    assert "Hint" not in told
    told = revseq("run", "x.h5::x", "[1, 2, 3, 4]", "--axis", "b").refused().err
    assert "one for each index of axis 0, with sequences of 4 elements: --batch-axis a\n" in told


@settings(max_examples=60)
@given(st.data())
def test_every_choice_makes_a_job(data):
    """Those that are listed, and the one that is proposed."""
    draw = data.draw
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    axis = draw(st.integers(0, len(sizes) - 1))
    shape = (
        (*sizes[:axis], 1, *sizes[axis + 1 :])
        if draw(st.booleans())
        else (draw(st.integers(1, 4)),)
    )
    dtype = draw(st.sampled_from(["u4", "u8", "i4", "i8", "f4"]))
    lengths = np.array(draw(st.lists(st.integers(0, 6), min_size=64, max_size=64)), dtype)[
        : int(np.prod(shape))
    ]
    number = st.none() | st.integers(-4, 4)
    fields = {
        "axis": draw(number), "batch_axis": draw(number),
        "feature_level": draw(st.sampled_from([level.short for level in FeatureLevel if level >= FeatureLevel.V2_1])),
        "lengths_dtype": draw(st.sampled_from([None, "UINT32", "UINT64"])), "like": draw(st.sampled_from([None, *SYSTEMS])),
    }  # fmt: skip
    typed = ["run", "x", "n"]
    for name, value in fields.items():
        typed += [] if value is None else [f"--{name.replace('_', '-')}", str(value)]
    values, lengths = held(np.zeros(sizes, "f4")), held(lengths.reshape(shape))
    told = suggest.find_hint(values, lengths, request_of(typed))
    for line in told.splitlines():
        words = line.rpartition(": ")[2]
        if words.startswith("revseq "):
            again = shlex.split(words)[1:]
        elif words.startswith("--"):
            again = [*typed, *words.split()]
        else:
            continue
        request = request_of(again)
        job = make_job(values, lengths, request)
        assert not violations(*job.descs, request.level), told


def request_of(typed):
    params = run.command.make_context("run", typed[1:]).params
    names = ("axis", "batch_axis", "like", "mask", "level", "lengths_dtype")
    return Request("x", "n", typed=tuple(typed), **{name: params[name] for name in names})


def test_a_job_that_is_right_has_no_hint():
    values, lengths = held(np.zeros((2, 3), "f4")), held(np.ones((2, 1), "u4"))
    assert suggest.find_hint(values, lengths, Request("x", "n", 1)) == ""
    with pytest.raises(RevseqError):
        make_job(values, lengths, Request("x", "n", 1, batch_axis=1))
