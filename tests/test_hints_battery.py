"""What hints say to type is taken out of the message by its form, typed in a shell as printed, and works."""

import shlex

import h5py
import numpy as np
import pytest
from hints import complete, words_to_type

RUN = ("--axis", "1")


@pytest.fixture
def folder(tmp_path):
    x = np.arange(12, dtype="f4").reshape(3, 4)
    n = np.array([[2], [4], [3]], "u4")
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "n.npy", n)
    np.save(tmp_path / "y.npy", x)
    np.save(tmp_path / "large.npy", n.astype("i8") << 40)
    np.savez(tmp_path / "x.npz", temp=x, **{"a b": x})
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["name"] = "text"
        f["g/values"] = x
        f["g/weights"] = x
    (tmp_path / "x.bin").write_bytes(x.tobytes())
    np.save(tmp_path / "bytes.npy", x.view("V4"))
    np.save(tmp_path / "short.npy", x.astype("f2").view("V2"))
    (tmp_path / "data").write_bytes((tmp_path / "x.npy").read_bytes())
    (tmp_path / "sub").mkdir()
    return tmp_path


@pytest.mark.needs("shell")
@pytest.mark.parametrize(
    "args",
    [
        ("run", "x.npy", "n.npy", *RUN, "-o", "y.npy"),
        ("run", "x.npz", "n.npy", *RUN, "-o", "z.npy"),
        ("run", "x.npz::tmep", "n.npy", *RUN, "-o", "z.npy"),
        ("run", "x.h5", "n.npy", *RUN, "-o", "z.npy"),
        ("run", "x.h5::g", "n.npy", *RUN, "-o", "z.npy"),
        ("run", "x.h5::/g/value", "n.npy", *RUN, "-o", "z.npy"),
        ("run", "x.npz:temp", "n.npy", *RUN, "-o", "z.npy"),
        ("run", "x.npy", "n.npy", *RUN, "-o", "z.npy::key"),
        ("run", "x.npy", "n.npy", *RUN, "-o", "z.npy.gz"),
        ("run", "x.npy", "n.npy", *RUN, "-o", "sub"),
        ("run", "x.npy", "n.npy", *RUN, "--only"),
        ("run", "x.npy", "n.npy", *RUN, "--verify"),
        ("run", "x.npy", "n.npy", *RUN, "-f", "h5"),
        ("run", "x.npy", "large.npy", *RUN, "--lengths-dtype", "UINT32", "-o", "z.npy"),
        ("run", "x.npy", "n.npy", "--axis", "1", "--memory", "10", "-o", "z.npy"),
        ("convert", "bytes.npy", "z.npy"),
        ("convert", "short.npy", "z.npy"),
        ("convert", "x.bin", "z.npy"),
        ("convert", "x.npy", "y.npy"),
        ("show", "Y"),
        ("show", "1 2 3"),
    ],
    ids=" ".join,
)
def test_words_to_type_work_as_they_are_printed(revseq, shell, folder, args):
    told = revseq(*args).refused().err
    alternatives = words_to_type(told)
    assert alternatives, told
    for words in alternatives:
        assert "|" not in words
        assert "..." not in words
        again = shell(f"rm -f z.*; {complete(args, words, told)}", cwd=folder)
        assert again.status == 0, f"{told}{shlex.join(args)}\n{words}\n{again.err}"
