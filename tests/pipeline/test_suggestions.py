"""What a refused job is told to type: it works, it means what is said, and nothing is clamped in silence."""

import json
import re
import shlex

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_files import held

from revseq_cli.core.errors import RevseqError, Suggestions
from revseq_cli.core.tensors import DataType
from revseq_cli.operator.spec import FeatureLevel
from revseq_cli.pipeline.alignment import Shape
from revseq_cli.pipeline.assembly import Parts, Request, assemble
from revseq_cli.pipeline.jobs import require
from revseq_cli.pipeline.plan import Resources
from revseq_cli.pipeline.suggestions import choices, fits
from revseq_cli.pipeline.summaries import count_lengths
from revseq_cli.pipeline.systems import SYSTEMS

HINT = re.compile(r"^Hint: (?:if the first is meant: )?revseq (.*)$", re.MULTILINE)


@pytest.fixture
def follow(revseq):
    """Run the command that a refused one tells to type; the refusal's message and what that command did."""

    def run(*args, status=0):
        told = revseq(*args).refused()
        typed = HINT.search(told.err)
        assert typed, told.err
        again = revseq(*shlex.split(typed[1]))
        assert again.status == status, again.err
        return told.err, again

    return run


@pytest.fixture
def files(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(240, dtype="f4").reshape(4, 10, 6))
    np.save(tmp_path / "lengths.npy", np.array([2, 5, 10, 7]))
    return tmp_path


def widened(lengths, sizes, axis, batch_axis):
    shape = [size if d == batch_axis else 1 for d, size in enumerate(sizes)]
    full = [1 if d == axis else size for d, size in enumerate(sizes)]
    return np.broadcast_to(np.reshape(lengths, shape), full)


def test_without_an_axis_the_pair_that_clamps_nothing_comes_first(follow, files):
    told, _ = follow("run", "x.npy", "lengths.npy", "-o", "y.npy")
    assert told == (
        "Error: x.npy: no axis is given\n"
        "  wanted: the dimension to reverse along, 0 to 2\n"
        "  --axis 1 --batch-axis 0: 4 sequences of up to 10, lengths 2 to 10\n"
        "  --axis 2 --batch-axis 0: 4 sequences of up to 6, 2 of 4 lengths above 6\n"
        "Hint: if the first is meant: revseq run x.npy lengths.npy -o y.npy --axis 1 --batch-axis 0 --lengths-dtype UINT32\n"
    )
    expected = oracle.expected(np.load(files / "x.npy"), widened([2, 5, 10, 7], (4, 10, 6), 1, 0), 1)
    assert oracle.same_bits(np.load(files / "y.npy"), expected)


def test_the_one_axis_that_the_sizes_leave(follow, files):
    lengths = np.full((4, 1, 6), 3, "u4")
    np.save(files / "n.npy", lengths)
    told, _ = follow("run", "x.npy", "n.npy", "-o", "y.npy")
    assert "  --axis 1: 24 lines of 10, lengths 3\n" in told
    assert oracle.same_bits(np.load(files / "y.npy"), oracle.expected(np.load(files / "x.npy"), lengths, 1))
    told, _ = follow("run", "x.npy", "n.npy", "--axis=2", "-o", "z.npy")  # in place of the axis that is typed
    assert told.endswith("Hint: revseq run x.npy n.npy -o z.npy --axis 1\n")


def test_the_level_and_the_rank_are_part_of_the_command(follow, files):
    told, _ = follow("run", "x.npy", "lengths.npy", "--feature-level", "3_0", "-o", "y.npy")
    assert told.endswith("--feature-level 3_0 -o y.npy --axis 1 --batch-axis 0 --lengths-dtype UINT32 --rank 4\n")
    assert np.load(files / "y.npy").shape == (1, 4, 10, 6)
    np.save(files / "x.npy", np.zeros((4, 10, 6)))  # FLOAT64 is of level 5.0
    told, _ = follow("run", "x.npy", "lengths.npy", "--feature-level", "4_0", "-o", "z.npy")
    assert told.endswith("-o z.npy --axis 1 --batch-axis 0 --lengths-dtype UINT32 --feature-level 5_0\n")


@pytest.mark.parametrize("command", ["check", "export"])
def test_other_commands_too(follow, files, command):
    output = ("-o", "m.json") if command == "export" else ()
    follow(command, "x.npy", "lengths.npy", *output)


def test_a_lengths_type_that_holds_them(follow, files):
    np.save(files / "lengths.npy", np.array([2, 5, 2**32, 7]))
    told, done = follow("run", "x.npy", "lengths.npy", "--axis", 1, "--batch-axis", 0, "-o", "y.npy")
    assert told.endswith("Hint: revseq run x.npy lengths.npy --axis 1 --batch-axis 0 -o y.npy --lengths-dtype UINT64\n")
    assert "  --axis 1 --batch-axis 0: 4 sequences of up to 10, 1 of 4 lengths above 10\n" in told
    assert "1 of 4 lengths exceeds the axis size (10)" in done.err


def test_what_is_typed_stays(follow, files):
    told, done = follow("run", "--batch-axis", 0, "--lengths-dtype", "UINT32", "--", "[[1, 2], [3, 4]]", "[2, 1]")
    assert "[[2, 1]," in done.out
    told, _ = follow("run", "x.npy", "lengths.npy", "--axis", 2, "--batch-axis", 0)
    assert told.endswith("Hint: revseq run x.npy lengths.npy --axis 2 --batch-axis 0 --lengths-dtype UINT32\n")
    assert "2 of 4 lengths above 6" in told
    lengths = np.full((4, 1, 6), 3, "u4")
    np.save(files / "n.npy", lengths)  # a batch axis is not for them
    told, _ = follow("run", "x.npy", "n.npy", "--axis", 1, "--batch-axis", 0)
    assert told.endswith("Hint: revseq run x.npy n.npy --axis 1\n")


@pytest.mark.parametrize(
    ("lengths", "hint"),
    [
        ([2, -5, 3, 7], "no setting turns lengths.npy into lengths: -5 at [1] does not fit UINT64"),
        ([2.0, 5.5, 3.0, 7.0], "no setting turns lengths.npy into lengths: 5.5 at [1] does not fit UINT64"),
        ([2, np.nan, 3, 7], "no setting turns lengths.npy into lengths: nan at [1] does not fit UINT64"),
        (
            [True, False, True, True],
            "it is a mask: --mask takes one of ones followed by zeros in each line of its axis",
        ),
    ],
)
def test_why_nothing_helps(revseq, files, lengths, hint):
    np.save(files / "lengths.npy", np.array(lengths))
    for axes in ((), ("--axis", 1)):
        done = revseq("run", "x.npy", "lengths.npy", *axes).refused()
        assert done.err.endswith(f"Hint: {hint}\n")
        assert "--lengths-dtype" not in done.err


@pytest.mark.parametrize(
    ("sizes", "shape", "axes", "hint"),
    [
        ((4, 10, 6), (4, 1), ("--axis", 1), "would fit as {4}: numpy's lengths.reshape(4), with --batch-axis 0"),
        ((4, 4, 6), (4, 1), ("--axis", 2), "would fit as {4}: numpy's lengths.reshape(4), with --batch-axis 0 or 1"),
        ((4, 10, 6), (4, 1), ("--axis", 0), "lengths along axis 0 have the sizes {1,10,6}, one for each line"),
        ((4, 10, 6), (4, 6, 1), ("--axis", 1), "would fit as {4,1,6}: numpy's lengths.reshape(4, 1, 6)"),
        ((4, 10, 6), (4, 6, 1), (), "would fit as {4,1,6}: numpy's lengths.reshape(4, 1, 6), with --axis 1"),
        ((4, 10, 6), (4, 6, 1), ("--axis", 2), "numpy's lengths.reshape(4, 1, 6), with --axis 1"),
        ((2, 3), (3, 1), ("--axis", 0), "would fit as {1,3}: numpy's lengths.reshape(1, 3)"),
        ((2, 3), (3, 1), ("--axis", 1), "would fit as {1,3}: numpy's lengths.reshape(1, 3), with --axis 0"),
        ((2, 3), (3, 1), ("--axis", 0, "--batch-axis", 1), "would fit as {3}: numpy's lengths.reshape(3)"),
        ((4, 10, 6), (5,), ("--axis", 1), "lengths along axis 1 have the sizes {4,1,6}, one for each line"),
        ((4, 10, 6), (5,), (), ""),
        ((4, 10, 6), (5,), ("--axis", 1, "--batch-axis", 0), ""),
        ((4, 10, 6), (4, 5, 6), ("--axis", 1), ""),
    ],
)
def test_lengths_of_other_sizes(revseq, files, sizes, shape, axes, hint):
    """The hint says how to reshape them, and with which axes the command then works."""
    np.save(files / "x.npy", np.zeros(sizes, "f4"))
    lengths = np.full(shape, 2, "u4")
    np.save(files / "lengths.npy", lengths)
    done = revseq("run", "x.npy", "lengths.npy", *axes).refused()
    assert done.err.endswith(f"{hint}\n") if hint else "Hint" not in done.err
    if made := re.search(r"reshape\((.*?)\)(?:, with (--[a-z-]+) (\d))?", hint):
        np.save(files / "lengths.npy", lengths.reshape([int(size) for size in made[1].split(",")]))
        words = dict(zip(axes[::2], axes[1::2], strict=True)) | ({made[2]: made[3]} if made[2] else {})
        revseq("run", "x.npy", "lengths.npy", *(each for pair in words.items() for each in pair)).ok()


@pytest.mark.parametrize("typed", ["3,2,1,4", "3 2 1 4", "3, 2, 1, 4"])
def test_lengths_that_are_typed_without_brackets(revseq, files, typed):
    done = revseq("run", "x.npy", typed, "--axis", 1, "--batch-axis", 0)
    done.refused("no such file\nHint: type '[3, 2, 1, 4]'\n")
    revseq("run", "x.npy", "[3, 2, 1, 4]", "--axis", 1, "--batch-axis", 0).ok()
    for name in ("3", "3,x", "1.npy 2"):
        assert "Hint: type" not in revseq("run", name, "[1]", "--axis", 0, "--batch-axis", 0).err


def test_where_every_axis_clamps_none_is_proposed(revseq, files):
    """The one that clamps least comes first, and an axis of size 1 not at all, since nothing is reversed along it."""
    np.save(files / "x.npy", np.zeros((4, 6, 10, 1)))
    np.save(files / "lengths.npy", np.array([2, 12, 7, 8]))
    done = revseq("run", "x.npy", "lengths.npy").refused()
    assert done.err.endswith(
        "  --axis 2 --batch-axis 0: 4 sequences of up to 10, 1 of 4 lengths above 10\n"
        "  --axis 1 --batch-axis 0: 4 sequences of up to 6, 3 of 4 lengths above 6\n"
        "Hint: type the one that is meant, and use --lengths-dtype UINT32\n"
    )


def test_axes_that_do_not_fit_are_named(revseq, files):
    np.save(files / "x.npy", np.zeros((4, 4, 6)))
    np.save(files / "lengths.npy", np.arange(1, 5).repeat(2)[:6])
    done = revseq("run", "x.npy", "lengths.npy", "--axis", 2)
    done.refused("  --axis 0 --batch-axis 2: 6 sequences of up to 4, lengths 1 to 3, in place of axis 2\n")


def test_another_system_takes_other_axes(revseq, files):
    """Or DirectML clamps: only the user knows what is meant."""
    done = revseq("run", "x.npy", "lengths.npy", "--like", "tensorflow", "--axis", 2, "-o", "y.npy").refused()
    assert done.err.endswith(
        "  wanted: at most 6: TensorFlow refuses it\n"
        "  --axis 1 --batch-axis 0: 4 sequences of up to 10, lengths 2 to 10, in place of axis 2\n"
        "  --axis 2 --batch-axis 0 --lengths-dtype UINT32 without --like: DirectML clamps such lengths\n"
        "Hint: type the one that is meant\n"
    )


def test_hints_of_a_level_that_contradict_each_other_become_one_command(follow, files):
    np.save(files / "x.npy", np.zeros((4, 10, 6), np.int64))
    options = ("--axis", 1, "--batch-axis", 0, "--lengths-dtype", "UINT32", "--feature-level", "2_1")
    told, _ = follow("run", "x.npy", "lengths.npy", *options)
    assert told.endswith(
        "Hint: revseq run x.npy lengths.npy --axis 1 --batch-axis 0 --lengths-dtype UINT32 --feature-level 5_0\n"
    )


def test_all_levels_hint_at_one_that_directml_has(revseq, files):
    np.save(files / "x.npy", np.zeros((1,) * 7 + (2, 3)))
    np.save(files / "lengths.npy", np.zeros((1,) * 7 + (2, 1), "u4"))
    done = revseq("check", "x.npy", "lengths.npy", "--axis", 7, "--feature-level", "all")
    assert "--axis 8 --rank 8\n" in done.out


def test_settings_to_leave_out(revseq, files):
    np.save(files / "n.npy", np.full((4, 1, 6), 3, "u4"))
    (files / "jobs.csv").write_text("input,lengths,axis,batch-axis,output\nx.npy,n.npy,1,0,y.npy\n")
    done = revseq("batch", "jobs.csv")
    assert done.err.endswith("\nHint: leave out --batch-axis\n")
    (files / "jobs.csv").write_text("input,lengths,axis,like,output\nx.npy,lengths.npy,2,tensorflow,y.npy\n")
    assert done.status == 1
    np.save(files / "lengths.npy", np.array([2, 12, 11, 8]))
    done = revseq("batch", "jobs.csv")
    assert done.err.endswith("\nHint: use --axis 2 --batch-axis 0 --lengths-dtype UINT32 and leave out --like\n")
    report = json.loads(revseq("check", "x.npy", "n.npy", "--axis", 0, "--json").out)
    assert report["choices"] == [
        {"options": {"--axis": "1"}, "meaning": "24 lines of 10, lengths 3, in place of axis 0"}
    ]


def test_an_input_that_directml_lacks(revseq, files):
    """The command that is proposed leaves DirectML."""
    np.save(files / "x.npy", np.zeros((4, 10, 6), bool))
    done = revseq("run", "x.npy", "lengths.npy", "-o", "y.npy").refused()
    assert done.err.endswith("--axis 1 --batch-axis 0 --lengths-dtype UINT32 --feature-level none\n")


def test_a_batch_names_the_options(revseq, files):
    (files / "jobs.csv").write_text("input,lengths,output\nx.npy,lengths.npy,y.npy\n")
    done = revseq("batch", "jobs.csv")
    assert done.status == 1
    assert done.err.endswith("Hint: if the first is meant: use --axis 1 --batch-axis 0 --lengths-dtype UINT32\n")


def test_a_long_command_line_is_not_repeated(revseq):
    tensor = str([[*range(400)]])
    done = revseq("run", tensor, "[[3]]").refused()
    assert done.err.endswith("  --axis 1: 1 line of 400, length 3\nHint: use --axis 1\n")


def fits_of(values, lengths, **options):
    return fits(*(Shape(name, sizes, ("",) * len(sizes)) for name, sizes in (("x", values), ("n", lengths))), **options)


def test_fits():
    assert fits_of((4, 10, 6), (4,)) == [(1, 0), (2, 0)]
    assert fits_of((4, 4, 6), (4,)) == [(0, 1), (1, 0), (2, 0), (2, 1)]
    assert fits_of((4, 10, 6), (4, 1, 6)) == [(1, None)]
    assert fits_of((4, 10, 6), (4, 6)) == [(1, None)]
    assert fits_of((1, 1, 4), (1, 1, 4)) == [(0, None), (1, None)]
    assert fits_of((5,), (1,)) == fits_of((5,), ()) == [(0, None)]
    assert fits_of((5,), (5,)) == fits_of((4, 5), (4, 5)) == fits_of((4, 5), (1, 4, 1)) == fits_of((), ()) == []
    assert fits_of((4, 4, 6), (4, 4), mask=True) == [(1, 0)]  # in the order of the values


def is_right(parts):
    try:
        require(assemble(parts))
    except RevseqError:
        return False
    return True


@settings(max_examples=100)
@given(st.data())
def test_every_choice_makes_a_job_and_says_what_is_clamped(data):
    draw = data.draw
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    axis = draw(st.integers(0, len(sizes) - 1))
    shape = (*sizes[:axis], 1, *sizes[axis + 1 :]) if draw(st.booleans()) else (draw(st.integers(1, 4)),)
    dtype = draw(st.sampled_from(["u4", "u8", "i4", "i8", "f4"]))
    lengths = np.array(draw(st.lists(st.integers(0, 6), min_size=64, max_size=64)), dtype)[: int(np.prod(shape))]
    number = st.none() | st.integers(-4, 4)
    level = draw(st.sampled_from([level for level in FeatureLevel if level >= FeatureLevel.V2_1]))
    asked = Request(
        "x", "n", draw(number), batch_axis=draw(number), level=level, rank=draw(st.none() | st.integers(1, 5)),
        lengths_dtype=draw(st.none() | st.sampled_from([DataType.UINT32, DataType.UINT64])),
        like=draw(st.none() | st.sampled_from([*SYSTEMS])),
    )  # fmt: skip
    parts = Parts(held(np.zeros(sizes, "f4")), held(lengths.reshape(shape)), asked)
    found = choices(parts)
    fitting = [fit for fit in fits_of(sizes, shape) if asked.like is None]
    if fitting and not is_right(parts) and asked.rank is None:
        assert isinstance(found, Suggestions)
    for choice in getattr(found, "choices", ()):
        values = {
            "axis": int, "batch_axis": lambda text: int(text) if text else None, "rank": int,
            "lengths_dtype": DataType.parse_length, "feature_level": FeatureLevel.parse,
            "mask": bool,
        }  # fmt: skip
        changed = {}
        for option, value in choice.settings:
            name = option.lstrip("-").replace("-", "_")
            changed[name] = values[name](value)
        changed["level"] = changed.pop("feature_level", level)
        job = assemble(parts._replace(request=Request(**(vars(asked) | changed))))
        require(job)
        if "mask" in changed:  # its lines may not be ones followed by zeros
            continue
        clamped = count_lengths(job, Resources()).clamped
        assert bool(clamped) == ("above" in choice.meaning)
        if clamped:
            assert f", {clamped} of {lengths.size} length" in choice.meaning
