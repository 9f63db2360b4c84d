"""What is completed reaches the command as the name that it is, and runs nothing; in real shells on a terminal."""

import contextlib
import os
import shutil
import subprocess

import h5py
import numpy as np
import pytest
from terminals import Shell

NAMES = [
    "$(touch PWNED)", "`touch PWNED`$HOME", "two  words;touch PWNED", "it's \"said\"", "bang!bang", "!!", "~root",
    "-x(&|<y>)", "*[a]?{b,c}#", "\\end\\", "a:b::c=%d", "'\"",
]  # fmt: skip
QUOTES = ["", '"', "'"]
# What has no place between quotes in bash.
LEFT_OUT = {"": "", '"': "!", "'": "'"}


@pytest.fixture(params=["bash", "zsh", "fish"])
def shell(request, tmp_path, forked):
    """One of the shells, in the folder `work`."""
    if request.param != "bash" and not shutil.which(request.param):
        pytest.skip(f"{request.param} is not installed")
    for folder in ("home", "work"):
        (tmp_path / folder).mkdir()
    with contextlib.closing(Shell(request.param, tmp_path / "home", tmp_path / "work", *forked.command)) as started:
        started.name = request.param
        yield started


@pytest.mark.needs("terminal", "shell")
def test_h62_a_completed_name_is_that_name_and_runs_nothing(shell, tmp_path):
    for name in NAMES:
        np.savez(tmp_path / "work" / "x.npz", **{name: np.arange(2)})
        for quote in QUOTES:
            typed = f"revseq show {quote}x.npz::"
            if shell.name == "bash" and set(name) & set(LEFT_OUT[quote]):
                assert shell.arguments(typed, quote) == ["show", "x.npz::"]
            else:
                assert shell.arguments(typed, "") == ["show", f"x.npz::{name}"]
            assert os.listdir(tmp_path / "work") == ["x.npz"]


@pytest.mark.needs("terminal")
def test_what_is_typed_stays_as_it_is(shell, tmp_path):
    with h5py.File(tmp_path / "home" / "my x.h5", "w") as file:
        file["my data"] = [1]
        file["my $(touch PWNED)"] = [1]
    (tmp_path / "work" / "my x.h5").symlink_to(tmp_path / "home" / "my x.h5")
    home = str(tmp_path / "home")
    for typed, path in (
        ("~/my\\ x.h5::/my\\ d", f"{home}/my x.h5"), ("my\\ x.h5::/my\\ d", "my x.h5"), ('"my x.h5::/my d', "my x.h5"),
        ("'my x.h5'::/my\\ d", "my x.h5"), ('my\\ x.h5::"/my d', "my x.h5"),
    ):  # fmt: skip
        assert shell.arguments(f"revseq show {typed}", "") == ["show", f"{path}::/my data"]
    assert shell.arguments("revseq run --engine=pr", "") == ["run", "--engine=processes"]
    assert shell.arguments("revseq run --dtype float3", "") == ["run", "--dtype", "FLOAT32"]
    assert shell.arguments("revseq check --feature-level al", "") == ["check", "--feature-level", "all"]
    assert shell.arguments("revseq ver", "my", "") == ["verify", "my x.h5"]
    assert os.listdir(tmp_path / "work") == ["my x.h5"]


@pytest.mark.needs("terminal")
def test_what_several_names_begin_with_in_bash(tmp_path, forked):
    """Bash inserts that, and it may end within what is quoted."""
    for folder in ("home", "work"):
        (tmp_path / folder).mkdir()
    np.savez(tmp_path / "work" / "x.npz", **{"a$(touch PWNED)": np.arange(2), 'a"b': np.arange(2), "a`c": np.arange(2)})
    with contextlib.closing(Shell("bash", tmp_path / "home", tmp_path / "work", *forked.command)) as bash:
        for quote in ("", '"'):
            assert bash.arguments(f"revseq show {quote}x.npz::", "$", "") == ["show", "x.npz::a$(touch PWNED)"]
    assert os.listdir(tmp_path / "work") == ["x.npz"]


@pytest.fixture
def completed(revseq):
    """What the script of a shell is told."""

    def run(shell, line, word=None):
        env = {"_REVSEQ_COMPLETE": f"{shell}_complete", "COMP_LINE": line, "COMP_WORDS": line}
        done = revseq(env=env if word is None else env | {"COMP_WORD": word}).ok()
        assert done.err == ""
        return done.out.splitlines()

    return run


@pytest.mark.needs("shell")
@pytest.mark.parametrize(
    ("line", "word", "offered"),
    [("revseq show 'q x.npz::", "q x.npz::", "plain,q x.npz::a $b"), ('revseq show q\\ x.npz::"', "", "plain,a \\$b"),
     ("revseq show q\\ x.npz::", "", "plain,a\\ \\$b"), ("revseq show q\\ x.npz::a\\", "a\\", "plain,a\\ \\$b"),
     ("revseq show 'q'\\ x.npz::", "", "plain,a\\ \\$b"),
     ("revseq show $'q x.npz::", "q x.npz::", ""), ('revseq show "${HOME}/../q x.npz::', "${HOME}/../q x.npz::", ""),
     ("revseq show q?x.npz::", "", ""), ('revseq show "~/q x.npz::', "~/q x.npz::", ""), ("revseq show pipe.h5::", "", ""),
     ("revseq show q\\ x.npz::", "other", ""), ("revseq sho x --", "--", "")],
)  # fmt: skip
def test_bash_is_given_what_fits_its_line(tmp_path, line, word, offered, completed):
    os.mkfifo(tmp_path / "pipe.h5")
    np.savez(tmp_path / "q x.npz", **{"a $b": np.arange(2)})
    assert completed("bash", line, word) == [offered]


@pytest.mark.parametrize(
    ("typed", "name", "offered"),
    [("x.npz::", "a", "plain,x.npz::a"), ("x.npz::", "a b", "plain,'x.npz::a b'"), ("'x.npz::", "it's", "plain,'x.npz::it''s'"),
     ('"x.npz::', "$(calc)", "plain,'x.npz::$(calc)'"), ("x.npz::", "\u2019;calc", "plain,'x.npz::\u2019\u2019;calc'"),
     ("x.npz::", 'a" --overwrite "b', ""), ("x.npz::", "a b\\", ""), ("x.npz::", "-x", "plain,x.npz::-x"),
     ("$env:x.npz::", "a", ""), ("x`.npz::", "a", ""), ("(x.npz::", "a", ""), ("x.npz::", "a`b", "plain,'x.npz::a`b'")],
)  # fmt: skip
def test_powershell_is_given_what_fits_its_line(tmp_path, typed, name, offered, completed):
    np.savez(tmp_path / "x.npz", **{name: np.arange(2)})
    assert completed("powershell", f"revseq show {typed}") == [offered]


@pytest.mark.needs("terminal")
@pytest.mark.parametrize("shell", ["zsh", "fish"])
@pytest.mark.parametrize("typed", ["$HOME/x.npz::", '"$(pwd)/x.npz::', "{x,y}.npz::", "<(x.npz::"])
def test_a_word_that_the_shell_expands_is_not_looked_into(tmp_path, shell, typed, completed):
    np.savez(tmp_path / "x.npz", a=np.arange(2))
    (tmp_path / "$HOME").mkdir()
    shutil.copy(tmp_path / "x.npz", tmp_path / "$HOME")
    assert completed(shell, f"revseq show {typed}") == [""]


@pytest.mark.parametrize("value", ["1", "bash_complete", "zsh_complete", "fish", "x" * 1000, "powershell_source"])
def test_the_variable_of_the_scripts_set_by_itself(revseq, value):
    revseq("levels", env={"_REVSEQ_COMPLETE": value}).refused("_REVSEQ_COMPLETE is set", "Hint: unset _REVSEQ_COMPLETE")


@pytest.mark.needs("shell")
def test_h62_a_hint_can_be_pasted_into_a_shell(revseq, tmp_path):
    """What a hint names is one word to a shell, too."""
    np.savez(tmp_path / "x y.npz", **{"$(touch PWNED)": np.arange(2), "b": np.arange(2)})
    (tmp_path / "x;y.txt").write_text("a: (Sizes:{1}, DataType:INT8)\n[1]\n\nb: (Sizes:{1}, DataType:INT8)\n[1]\n")
    for name, inner in (("x y.npz", "$(touch PWNED)"), ("x;y.txt", "a")):
        hint = revseq("convert", name, "out.npy").refused().err.split("Hint: try ")[1]
        shown = subprocess.run(
            ["sh", "-c", f"printf %s {hint}"], capture_output=True, text=True, cwd=tmp_path, check=True
        )
        assert shown.stdout == f"{name}::{inner}"
    assert not (tmp_path / "PWNED").exists()
