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


@pytest.fixture(params=["bash", "zsh", "zsh without compinit", "fish"])
def shell(request, tmp_path, forked):
    if request.param != "bash" and not shutil.which(request.param.split()[0]):
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
@pytest.mark.parametrize("shell", ["bash"], indirect=True)
def test_what_several_names_begin_with_in_bash(shell, tmp_path):
    """Bash inserts that, and it may end within what is quoted."""
    np.savez(tmp_path / "work" / "x.npz", **{"a$(touch PWNED)": np.arange(2), 'a"b': np.arange(2), "a`c": np.arange(2)})
    for quote in ("", '"'):
        assert shell.arguments(f"revseq show {quote}x.npz::", "$", "") == ["show", "x.npz::a$(touch PWNED)"]
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


def test_a_name_in_hdf5_is_completed_without_its_first_slash(tmp_path, completed):
    with h5py.File(tmp_path / "x.nc", "w") as file:
        file["air"] = file["a b/air"] = [1]
    for typed, offered in (
        ("ai", ["plain,air"]), ("/ai", ["plain,/air"]), ("a\\ ", ["plain,a\\ b/air"]), ("x", [""]),
        ("a", ["plain,a\\ b/air", "plain,air"]), ("", ["plain,/a\\ b/air", "plain,/air"]),
    ):  # fmt: skip
        assert completed("bash", f"revseq show x.nc::{typed}", typed) == offered
    assert completed("zsh", "revseq show x.nc::ai") == ["name", "air", "_"]
    assert completed("fish", "revseq show x.nc::ai") == ["plain,x.nc::air"]
    assert completed("powershell", "revseq show x.nc::ai") == ["plain,x.nc::air"]


@pytest.mark.parametrize(
    ("typed", "name", "offered"),
    [("x.npz::", "a", "plain,x.npz::a"), ("x.npz::", "a b", "plain,'x.npz::a b'"), ("'x.npz::", "it's", "plain,'x.npz::it''s'"),
     ('"x.npz::', "$(calc)", "plain,'x.npz::$(calc)'"), ("x.npz::", "\u2019;calc", "plain,'x.npz::\u2019\u2019;calc'"),
     ("x.npz::", 'a" --overwrite "b', ""),
     pytest.param("x.npz::", "a b\\", "", marks=pytest.mark.needs("backslashes")), ("x.npz::", "-x", "plain,x.npz::-x"),
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
    np.savez(tmp_path / "x y.npz", **{"$(touch PWNED)": np.arange(2), "lengths": np.arange(2)})
    header = "(Sizes:{1}, DataType:INT8)\n[1]\n"
    (tmp_path / "x;y.txt").write_text(f"a: {header}\nlengths: {header}")
    for name, inner in (("x y.npz", "$(touch PWNED)"), ("x;y.txt", "a")):
        hint = revseq("convert", name, "out.npy").refused().err.split("Hint: try ")[1]
        shown = subprocess.check_output(["sh", "-c", f"printf %s {hint}"], text=True, cwd=tmp_path)
        assert shown == f"{name}::{inner}"
    assert not (tmp_path / "PWNED").exists()


PAGE = "InputTensor: (Sizes:{1,3}, DataType:INT8)\n[[1, 2, 3]]\n\nSequenceTensor: (Sizes:{1,1}, DataType:UINT32)\n[[2]]\n\nAxis: 1\n\n"


@pytest.fixture
def inputs(tmp_path):
    block = f"```\n{PAGE}```\n\n"
    (tmp_path / "page.md").write_text(f"# Two\n\n{block}{block}Other: (Sizes:{{1}}, DataType:INT8)\n[1]\n")
    (tmp_path / "one.txt").write_text(PAGE)
    (tmp_path / "big.txt").write_text(PAGE + " " * (1 << 22))
    (tmp_path / "n.csv").write_text("1,2\n")
    np.save(tmp_path / "x.npy", np.zeros((2, 3, 4), "f4"))
    np.save(tmp_path / "n.npy", np.ones((2, 1, 4), "u4"))
    np.save(tmp_path / "n3.npy", np.ones(3, "u4"))
    os.mkfifo(tmp_path / "pipe.npy")
    return tmp_path


@pytest.mark.needs("fifos")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("revseq run page.md::", ["page.md::1", "page.md::2", "page.md::Other"]), ("revseq verify page.md::", ["page.md::1", "page.md::2"]),
        ("revseq convert page.md::", ["page.md::Other"]), ("revseq convert one.txt::I", ["one.txt::InputTensor"]), ("revseq run page.md::2", ["page.md::2"]),
        ("revseq show one.txt::", ["one.txt::1", "one.txt::InputTensor", "one.txt::SequenceTensor"]), ("revseq show big.txt::", []), ("revseq show n.csv::", []),
        ("revseq show pipe.npy::", []), ("revseq run x.npy n.npy --axis ", ["1"]), ("revseq run x.npy --axis ", ["0", "1", "2"]), ("revseq run x.npy n.npy --axis=", ["--axis=1"]),
        ("revseq run x.npy n3.npy --axis ", ["0", "2"]), ("revseq run x.npy n3.npy --batch-axis ", ["1"]), ("revseq check one.txt --axis ", ["1"]),
        ("revseq diff y.npy --job x.npy n.npy --axis ", ["1"]), ("revseq run pipe.npy --axis ", []), ("revseq run none.npy --axis ", []), ("revseq batch x --axis ", []),
        ("revseq run --axis ", []), ("revseq run x.npy n.npy -o y.h5 --compression n", ["none"]), ("revseq run x.npy n.npy -o y.h5 --chunks ", ["keep", "auto"]),
        ("revseq convert x.npy y.h5 --compression gzip:", [f"gzip:{level}" for level in range(10)]), ("revseq help ve", ["verify"]),
    ],
)  # fmt: skip
def test_what_is_completed(inputs, line, offered, completed):
    found = [item.partition("\t")[0].partition(",")[2] for item in completed("fish", line)]
    assert [each for each in found if each] == offered


@pytest.mark.needs("terminal", "fifos")
def test_it_reaches_the_command_in_every_shell(shell, inputs, tmp_path):
    for name in ("x.npy", "n.npy", "one.txt"):
        shutil.move(tmp_path / name, tmp_path / "work" / name)
    assert shell.arguments("revseq run x.npy n.npy --axis ", "") == ["run", "x.npy", "n.npy", "--axis", "1"]
    assert shell.arguments("revseq convert one.txt::S", "") == ["convert", "one.txt::SequenceTensor"]
    assert shell.arguments("revseq run x --compression no", "") == ["run", "x", "--compression", "none"]
