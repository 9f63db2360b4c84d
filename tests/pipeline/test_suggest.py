"""What a refused job is told to type: it works as printed, and where several readings are left none is proposed."""

import re
import shlex

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_files import held

from revseq_cli.core.errors import RevseqError
from revseq_cli.core.tensors import DataType
from revseq_cli.operator.spec import FeatureLevel, violations
from revseq_cli.pipeline import SYSTEMS, suggest
from revseq_cli.pipeline.assembly import Request, make

HINT = re.compile(r"^Hint: revseq (.*)$", re.MULTILINE)


@pytest.fixture
def files(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(240, dtype="f4").reshape(4, 10, 6))
    np.save(tmp_path / "n.npy", np.array([2, 5, 10, 7]))
    return tmp_path


@pytest.fixture
def follow(revseq):
    """Type what a refused command is told to type; the message, and what that command did."""

    def run(*args):
        told = revseq(*args).refused()
        command = HINT.search(told.err)
        assert command, told.err
        return told.err, revseq(*shlex.split(command[1])).ok()

    return run


def test_one_fit_is_proposed_as_a_command_line(follow, files):
    right = oracle.expected(np.load(files / "x.npy"), np.full((4, 1, 6), 3, "u4"), 1)
    np.save(files / "full.npy", np.full((4, 1, 6), 3, "u4"))
    for i, job in enumerate(
        [
            ("full.npy",),
            ("full.npy", "--axis=2"),
            ("full.npy", "--axis", 2),
            ("full.npy", "--axis", 1, "--batch-axis", 0),
        ]
    ):
        told, _ = follow("run", "x.npy", *job, "-o", f"y{i}.npy")
        assert told.endswith("--axis 1\n") or "--batch-axis" in job
        assert oracle.same_bits(np.load(files / f"y{i}.npy"), right)
    told, _ = follow("run", "x.npy", "n.npy", "--axis", 1, "-o", "z.npy")
    assert told.endswith("Hint: revseq run x.npy n.npy --axis 1 -o z.npy --batch-axis 0\n")


def test_several_fits_are_listed_and_none_is_proposed(revseq, files):
    done = revseq("run", "x.npy", "n.npy", "-o", "y.npy").refused(
        "no axis is given", "wanted: the dimension to reverse"
    )
    assert "revseq run" not in done.err
    assert "  --axis 1 --batch-axis 0: a length for each of the 4 indices of axis 0" in done.err
    assert "of 6 elements; lengths 2 to 10, of which 2 are above 6" in done.err
    np.save(files / "x.npy", np.zeros((4,) * 8, "f4"))
    done = revseq("run", "x.npy", "n.npy").refused("  and 50 more\n")
    assert len(done.err.splitlines()) < 12


def test_an_axis_of_size_1_is_not_proposed(revseq, files):
    np.save(files / "x.npy", np.zeros((4, 6, 1)))
    done = revseq("run", "x.npy", "n.npy").refused("--axis 1 --batch-axis 0")
    assert "--axis 2" not in done.err


@pytest.mark.parametrize("shape", [(1, 4), (4, 1)])
def test_the_vectors_of_matlab(follow, files, shape):
    np.save(files / "n.npy", np.array([2.0, 5, 10, 7]).reshape(shape))
    told, _ = follow("run", "x.npy", "n.npy", "--axis", 1, "-o", "y.npy")
    assert told.endswith("--batch-axis 0\n")


@pytest.mark.parametrize("command", ["run", "check", "export", "diff"])
def test_a_level_gets_its_cast_and_the_axes_together(revseq, files, command):
    args = {
        "run": ("run",),
        "check": ("check",),
        "export": ("export", "-o", "m.json"),
        "diff": ("diff", "x.npy", "--job"),
    }
    done = revseq(*args[command], "x.npy", "n.npy", "--axis", 1, "--feature-level", "4_0")
    hint = re.findall(r"Hint: revseq (.*)$", done.out + done.err, re.MULTILINE)[-1]
    assert shlex.split(hint)[-4:] == ["--batch-axis", "0", "--lengths-dtype", "UINT32"]
    assert revseq(*shlex.split(hint)).status == (1 if command == "diff" else 0)


def test_a_type_that_holds_the_lengths(follow, files, revseq):
    np.save(files / "n.npy", np.array([2, 5, 2**32, 7]))
    told, done = follow(
        "run", "x.npy", "n.npy", "--axis", 1, "--batch-axis", 0, "--feature-level", "5_0", "-o", "y.npy"
    )
    assert told.endswith("--lengths-dtype UINT64\n")
    assert "1 of 4 lengths exceeds the axis size (10)" in done.err
    np.save(files / "n.npy", np.array([2, -5, 3, 7]))  # no cast helps
    job = ("run", "x.npy", "n.npy", "--axis", 1, "--batch-axis", 0, "--feature-level", "5_0")
    assert "revseq run" not in revseq(*job).refused("DataType is INT64").err


def test_the_lowest_level_that_takes_the_values(follow, files):
    np.save(files / "x.npy", np.zeros((4, 10, 6)))  # FLOAT64 is of level 5.0
    told, _ = follow("run", "x.npy", "n.npy", "--axis", 1, "--batch-axis", 0, "--feature-level", "4_0", "-o", "z.npy")
    assert told.endswith("-o z.npy --lengths-dtype UINT32 --feature-level 5_0\n")
    np.save(files / "x.npy", np.zeros((4, 10, 6), "c8"))
    told, _ = follow("run", "x.npy", "n.npy", "--axis", 1, "--batch-axis", 0, "--feature-level", "4_0", "-o", "y.npy")
    assert told.endswith("--feature-level none\n")


def test_what_is_typed_stays(follow, files, revseq):
    _, done = follow("run", "--batch-axis", 0, "--", "[[1, 2], [3, 4]]", "[2, 1]")
    assert "[[2, 1]," in done.out
    tensor = str([[*range(400)]])
    done = revseq("run", tensor, "[[3]]").refused()
    assert done.err.endswith("Hint: use --axis 1\n")  # of a long command, only the options
    (files / "jobs.csv").write_text("input,lengths,axis,batch-axis,output\nx.npy,n.npy,1,,y.npy\n")
    assert revseq("batch", "jobs.csv").err.endswith("Hint: use --batch-axis 0\n")


def test_a_mask_among_the_choices(revseq, files):
    np.save(files / "x.npy", np.zeros((2, 3, 4), "f4"))
    np.save(files / "m.npy", np.array([[1, 1, 0], [1, 0, 0]]))
    done = revseq("run", "x.npy", "m.npy").refused("type the one that is meant")
    assert "  --axis 2: 6 lines, of 4 elements; lengths 0 to 1" in done.err, done.err
    assert "  --axis 1 --mask: a mask" in done.err


@pytest.mark.parametrize("lengths", [[1, 2], [[1, 2, 3]], [1, 2, 3, 4, 5]])
def test_nothing_is_proposed_that_does_not_fit(revseq, files, lengths):
    np.save(files / "n.npy", np.array(lengths))
    for options in ((), ("--axis", 1), ("--axis", 1, "--batch-axis", 0)):
        assert "Hint" not in revseq("run", "x.npy", "n.npy", *options).refused().err


@pytest.mark.parametrize("typed", ["3,2,1,4", "3 2 1 4", "3, 2, 1, 4"])
def test_lengths_that_are_typed_without_brackets(revseq, files, typed):
    done = revseq("run", "x.npy", typed, "--axis", 1, "--batch-axis", 0)
    done.refused("no such file\nHint: type '[3, 2, 1, 4]'\n")


def fits_of(values, lengths, **options):
    return [fit[:2] for fit in suggest.fits(held(np.zeros(values)), held(np.zeros(lengths)), **options)]


def test_fits():
    assert fits_of((4, 10, 6), (4,)) == fits_of((4, 10, 6), (4, 1)) == [(1, 0), (2, 0)]
    assert fits_of((4, 4, 6), (4,)) == [(0, 1), (1, 0), (2, 0), (2, 1)]
    assert fits_of((4, 10, 6), (4, 1, 6)) == fits_of((4, 10, 6), (4, 6)) == [(1, None)]
    assert fits_of((1, 1, 4), (1, 1, 4)) == [(0, None), (1, None)]
    assert fits_of((5,), (1,)) == fits_of((5,), ()) == [(0, None)]
    assert fits_of((5,), (5,)) == fits_of((4, 5), (4, 5)) == fits_of((4, 5), (1, 4, 1)) == fits_of((), ()) == []
    assert fits_of((4, 4, 6), (4, 4), mask=True) == [(1, 0)]  # in the order of the values


@settings(max_examples=150)
@given(st.data())
def test_every_choice_makes_a_job(data):
    """Those that are listed, and the one that is proposed."""
    draw = data.draw
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    axis = draw(st.integers(0, len(sizes) - 1))
    shape = (*sizes[:axis], 1, *sizes[axis + 1 :]) if draw(st.booleans()) else (draw(st.integers(1, 4)),)
    dtype = draw(st.sampled_from(["u4", "u8", "i4", "i8", "f4"]))
    lengths = np.array(draw(st.lists(st.integers(0, 6), min_size=64, max_size=64)), dtype)[: int(np.prod(shape))]
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
    told = suggest.hint(values, lengths, request_of(typed))
    for line in told.splitlines():
        if line.startswith("revseq "):
            request = request_of(shlex.split(line)[1:])
        elif line.startswith("  --"):
            options = line.strip().partition(": ")[0].replace("without ", "-").split()
            request = request_of(typed, options)
        else:
            continue
        job = make(values, lengths, request)
        assert not violations(*job.descs, request.level), told


def request_of(typed, changes=()):
    """The request of a command line; then options are set, and left out where they begin with three hyphens."""
    fields, parse = {}, {"axis": int, "batch_axis": int, "lengths_dtype": DataType.parse_length}
    words = iter([*typed[3:], *changes])
    for word in words:
        if word.startswith("---"):
            fields.pop(word[3:].replace("-", "_"), None)
        elif word == "--mask":
            fields["mask"] = True
        else:
            name = word[2:].replace("-", "_")
            fields[name] = parse.get(name, str)(next(words))
    level = FeatureLevel.parse(fields.pop("feature_level", "none"))
    return Request("x", "n", level=level, typed=tuple(typed), **fields)


def test_a_job_that_is_right_has_no_hint():
    values, lengths = held(np.zeros((2, 3), "f4")), held(np.ones((2, 1), "u4"))
    assert suggest.hint(values, lengths, Request("x", "n", 1)) == ""
    with pytest.raises(RevseqError):
        make(values, lengths, Request("x", "n", 1, batch_axis=1))
