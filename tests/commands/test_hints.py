"""What hints say to type makes what was meant, bit for bit; and where that is not known, nothing is proposed."""

import json
import shlex
from pathlib import Path

import h5py
import numpy as np
import oracle
import pytest

RNG = np.random.default_rng(30)
X = oracle.random_values(RNG, (4, 10, 6), oracle.DATA_TYPES[1])
Z = np.zeros((6, 2))
SMALL = np.array([2, 5, 10, 7], "u4")
RIGHT = oracle.expected(X, np.broadcast_to(SMALL.reshape(4, 1, 1), (4, 1, 6)), 1)


@pytest.mark.parametrize(
    ("args", "hint", "wrong", "right"),
    [
        (("x.npz::tmp1", "n.npy"), "did you mean: x.npz::temp1", "x.npz::tmp1", "x.npz::temp1"),
        (
            ("x.npy", "n.npz::lenghts"),
            "did you mean: n.npz::lengths",
            "n.npz::lenghts",
            "n.npz::lengths",
        ),
        (
            ("x.npy", "n.npy", "--dtype=FLOAT16"),
            "to read it as FLOAT32, leave out --dtype",
            "--dtype=FLOAT16",
            "--only",
        ),
        (
            ("x.npy", "large.npy", "--lengths-dtype", "UINT32"),
            "for lengths of 2^32 or more, add --lengths-dtype UINT64",
            "UINT32",
            "UINT64",
        ),
    ],
)
def test_a_name_or_a_value_that_a_hint_proposes(revseq, tmp_path, args, hint, wrong, right):
    np.save(tmp_path / "large.npy", SMALL.astype("i8") << 40)
    for file, array, key in (("x", X, "temp1"), ("n", SMALL, "lengths")):
        np.save(tmp_path / f"{file}.npy", array)
        np.savez(tmp_path / f"{file}.npz", **{key: array, "unlike": Z})
    line = ("run", *args, "--axis", 1, "--batch-axis", 0, "-o", "y.npy")
    revseq(*line).refused(f"Hint: {hint}\n")
    revseq(*(right if word == wrong else word for word in line)).ok()
    if "large.npy" not in args:
        assert oracle.same_bits(np.load(tmp_path / "y.npy"), RIGHT)


def test_addresses_of_this_machine(revseq, files):
    right = revseq("run", "x.npy", "n.npy", "--axis", 1).ok().out
    assert revseq("run", (files / "x.npy").as_uri(), "n.npy", "--axis", 1).ok().out == right


def test_a_tilde_that_no_shell_expanded(revseq, files):
    home = {"HOME": str(files), "USERPROFILE": str(files)}
    for args in (
        ("~/x.npy", "n.npy", "--axis", 1),
        ("x.npy", "n.npy", "--axis", 1, "-o", "~/y.npy"),
    ):
        revseq("run", *args, env=home).refused(
            "the shell did not expand its ~", f"Hint: type {files}"
        )
    (files / "~").mkdir()
    (files / "x.npy").rename(files / "~" / "x.npy")
    revseq("run", "~/x.npy", "n.npy", "--axis", 1, env=home).ok()


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        pytest.param("A.NPY", "a.npy", marks=pytest.mark.needs("cases")),
        ("a", "a.npy"),
        ("sub/B", str(Path("sub/b.h5"))),
        ("sub/B::v", f"{Path('sub/b.h5')}::v"),
        ("d", "d.npy, d.npz"),
        ("mi.npy", ""),
        ("sub/lenghts.h5", str(Path("sub/lengths.h5"))),
        *(
            (name, "")
            for name in ("c.npy", "v2.npy", "gone/a.npy", "mi.npz", "missing.npy", "folde")
        ),
    ],
)
def test_a_file_of_nearly_the_same_name(revseq, tmp_path, typed, near):
    (tmp_path / "sub").mkdir()
    for name in (
        "a.npy",
        "v1.npy",
        "d.npy",
        "d.npz",
        "my.npy",
        "sub/b.h5",
        "sub/lengths.h5",
        "folder",
    ):
        (tmp_path / name).touch()
    hint = f"Hint: did you mean: {near}\n" if near else ""
    if ", " in near:
        hint = "\n  ".join(["Hint: name one of them:", *near.split(", ")]) + "\n"
    assert (
        revseq("show", typed).refused().err
        == f"Error: {typed.partition('::')[0]}: no such file\n{hint}"
    )


def test_a_name_that_is_not_there_gets_no_other_tensor(revseq, tmp_path):
    np.savez(
        tmp_path / "a.npz",
        t=np.zeros(3),
        temp1=np.zeros(3),
        speed_u=np.zeros(3),
        speed_v=np.zeros(3),
    )
    for key in ("v1", "temp2", "speed_w"):
        assert "Hint" not in revseq("show", f"a.npz::{key}").refused("one of t, temp1").err


@pytest.mark.parametrize(
    "typed",
    [
        ("show", "none.npy"),
        ("batch", "none.csv"),
        ("verify", "none.md"),
        ("levels", "9_9"),
        ("run", "--axsi", 1),
    ],
)
def test_an_error_is_an_object_too(revseq, typed):
    done = revseq(*typed, "--json")
    report = json.loads(done.out)
    assert (done.status, report["exit_status"]) == (2, 2)
    for error in report.get("errors") or report["pages"][0]["errors"]:
        assert error["found"] in done.err


def test_the_parts_of_an_error(revseq, tmp_path):
    np.savez(tmp_path / "a.npz", temp=np.zeros((2, 3)))
    done = revseq("run", "a.npz::temq", "[[1], [2]]", "--axis", 1, "-o", "y.npy", "--json")
    (error,) = json.loads(done.out)["errors"]
    words = {
        "found": "no such tensor",
        "expected": "one of temp",
        "hint": "did you mean: a.npz::temp",
        "context": "",
    }
    assert error == words | {"where": "a.npz::temq"}


@pytest.mark.needs("POSIX words")
def test_a_key_with_a_line_break_can_be_typed(revseq, tmp_path):
    np.savez(tmp_path / "a.npz", **{"may'\nbe": np.arange(4.0), "unlike": Z})
    told = revseq("show", "a.npz::may'be").refused("no such tensor").err
    assert told.rstrip().endswith(r"did you mean: $'a.npz::may\047\012be'")
    revseq("show", "a.npz::may'\nbe").ok()


@pytest.mark.needs("POSIX words")
@pytest.mark.parametrize(
    ("args", "typed"),
    [(("show", "--", "-Dash"), "show -- ./-dash.npy"), (("show", "./[b]"), "show './[b].npy'")],
)
def test_a_file_whose_name_is_like_an_option_or_a_tensor(revseq, tmp_path, args, typed):
    for name in ("-dash.npy", "[b].npy"):
        np.save(tmp_path / name, X)
    told = revseq(*args).refused().err
    hint = told.rpartition("Hint: ")[2].rstrip()
    assert hint in (
        f"did you mean: revseq {typed}",
        f"did you mean: {shlex.join(shlex.split(typed)[-1:])}",
    )
    revseq(*shlex.split(typed)).ok()


@pytest.mark.needs("POSIX words")
def test_an_output_in_a_file_that_is_there(revseq, tmp_path):
    np.save(tmp_path / "n.npy", SMALL)
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["x"] = X
    run = ("run", "x.h5", "n.npy", "--axis", 1, "--batch-axis", 0, "-o")
    revseq(*run, "x.h5::a b").refused(
        "x.h5: the output is also an input", "choose another name for the output"
    )
    revseq(*run, "new.h5::a b").ok()
    with h5py.File(tmp_path / "new.h5") as f:
        assert oracle.same_bits(f["a b"][...], RIGHT)
        assert oracle.same_bits(f["x"][...], X)
