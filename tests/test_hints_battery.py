"""What hints say to type is taken out of the message by its form, typed in a shell as printed, and works."""

import gzip
import shlex

import h5py
import numpy as np
import onnx
import pytest
from hints import complete, words_to_type
from onnx import TensorProto, helper

RUN = ("--axis", "1")
# Commands with a second error, which is reported when the first is gone.
NEXT_ERRORS = [
    ("batch", "x.npy"),
    ("batch", "*.npy"),
    ("diff", "y.npy", "--job", "x.npy", "n.npy"),
    ("diff", "y.npy", "x.npy", "n.npy", *RUN),
    ("run", "x", "n.npy", *RUN, "-o", "z.npy"),
    ("verify", "page.md", "--allow"),
    ("verify", "page.md::1"),
]


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
    _write_shapes(tmp_path, x, n)
    _write_types(tmp_path, x)
    _write_texts(tmp_path)
    _write_model(tmp_path)
    return tmp_path


def _write_shapes(folder, x, n):
    """Lengths and masks that need an axis, a batch axis or an option."""
    np.save(folder / "flat.npy", n[:, 0])
    np.save(folder / "square.npy", x[:, :3])
    np.save(folder / "mask.npy", np.arange(4) < n.astype("u1"))
    np.save(folder / "offsets.npy", np.array([0, 2, 6, 9], "u4"))
    np.save(folder / "x3.npy", np.arange(24, dtype="f4").reshape(2, 3, 4))
    np.save(folder / "n3.npy", np.array([2, 3], "u4"))
    np.save(folder / "x6.npy", np.ones((2,) * 6, "f4"))
    np.save(folder / "n6.npy", np.ones((2,) * 5 + (1,), "u4"))
    for name in ("twin.npy", "sub/twin.npy"):
        np.save(folder / name, x)
    np.save(folder / "padded.npy", np.where(np.arange(4) < n, x + 1, 0))


def _write_types(folder, x):
    with h5py.File(folder / "noted.h5", "w") as f:
        f["x"] = x
        f["x"].attrs["lengths"] = [2, 4, 3]
    np.save(folder / "i64.npy", x.astype("i8"))
    np.save(folder / "long.npy", np.array([[2], [4], [3]]))
    np.save(folder / "complex.npy", x.astype("c16"))
    np.save(folder / "f64.npy", x.astype("f8"))
    np.save(folder / "flags.npy", x > 3)
    np.save(folder / "close.npy", np.nextafter(x, np.float32(99)))
    nan = np.where(x == 0, np.float32("nan"), x)
    np.save(folder / "nan.npy", nan)
    np.save(folder / "other-nan.npy", (nan.view("u4") | (nan != nan)).view("f4"))
    for name in ("x.npy", "x.h5", "x.bin"):
        packed = folder / f"packed-{name}.gz"
        packed.write_bytes(gzip.compress((folder / name).read_bytes()))


def _write_model(folder):
    """A node rev of two inputs, x and n."""
    node = helper.make_node("ReverseSequence", ["x", "n"], ["y"], "rev", batch_axis=0, time_axis=1)
    kinds = {"x": (TensorProto.FLOAT, [3, 4]), "n": (TensorProto.INT64, [3])}
    inputs = [helper.make_tensor_value_info(name, *kind) for name, kind in kinds.items()]
    output = helper.make_tensor_value_info("y", *kinds["x"])
    onnx.save(
        helper.make_model(helper.make_graph([node], "g", inputs, [output])), folder / "m.onnx"
    )


def _write_texts(folder):
    texts = {
        "job.csv": "input,lengths,axis,output\nx.npy,n.npy,1,z.npy\n",
        "old.csv": "input,lengths,axis,output\nx.npy,n.npy,1,y.npy\n",
        "names.txt": "x.npy\nsquare.npy\n",
        "columns.csv": "name,a,b\nu,1,2\nv,3,4\n",
        "index.csv": ",a,b\nu,1,2\nv,3,4\n",
        "semicolons.csv": "1;2\n3;4\n",
        "object.json": '{"a": [1, 2], "b": [3, 4]}',
        "large.json": "[[16777217, 1]]",
        "half.json": "[[1e300, 1]]",
        "page.md": "# Nothing\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)


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
        # mistyped commands and options
        ("reverse", "x.npy", "n.npy", *RUN, "-o", "z.npy"),
        ("x.npy", "n.npy", *RUN, "-o", "z.npy"),
        ("sohw", "x.npy"),
        ("ls", "x.npy"),
        ("cmp", "x.npy", "y.npy"),
        ("frobnicate",),
        ("run", "x.npy", "n.npy", "--axsi", "1", "-o", "z.npy"),
        ("run", "x.npy", "n.npy", "--dim", "1", "-o", "z.npy"),
        ("run", "x.npy", "n.npy", *RUN, "--out", "z.npy"),
        ("run", "x.npy", "n.npy", *RUN, "-o", "y.npy", "--force"),
        ("run", "x.npy", "n.npy", *RUN, "-o", "z.npy", "--memroy", "1G"),
        ("run", "padded.npy", *RUN, "--pad-value", "0", "-o", "z.npy"),
        ("show", "x.bin", "--shape", "3x4"),
        ("diff", "x.npy", "y.npy", "--ulps", "1"),
        ("run", "x.npy", "n.npy", *RUN, "-o", "z.npy", "-f", "npyy"),
        ("run", "x.npy", "n.npy", *RUN, "-o", "z.npy", "--engine", "seriel"),
        ("run", "x.npy", "n.npy", *RUN, "-o", "z.npy", "extra"),
        ("run", "x.npy", "n.npy", "--axis"),
        ("convert", "x.npy", "-o", "y.csv"),
        ("verify",),
        ("export", "x.npy", "n.npy", *RUN),
        ("completion",),
        ("completion", "bsh"),
        ("help", "format"),
        ("levels", "--feature-level", "1.0"),
        # axes, masks, padding and offsets
        ("run", "square.npy", "flat.npy", "-o", "z.npy"),
        ("run", "x.npy", "flat.npy", "-o", "z.npy"),
        ("run", "x.npy", "mask.npy", *RUN, "-o", "z.npy"),
        ("run", "x.npy", "mask.npy", *RUN, "--batch-axis", "0", "-o", "z.npy"),
        ("run", "x3.npy", "n3.npy", *RUN, "-o", "z.npy"),
        ("run", "x3.npy", "n3.npy", "--axis", "2", "-o", "z.npy"),
        ("run", "padded.npy", "n.npy", "--padding", "0", *RUN, "-o", "z.npy"),
        ("run", "padded.npy", "--padding", "0", "--mask", *RUN, "-o", "z.npy"),
        # data types and sizes
        ("run", "x.npy", "n.npy", *RUN, "--dtype", "FLOAT16", "-o", "z.npy"),
        ("run", "x.npy", "n.npy", *RUN, "--sizes", "3x4", "-o", "z.npy"),
        ("convert", "large.json", "z.npy"),
        ("convert", "half.json", "z.npy"),
        ("convert", "x.bin", "z.npy", "--dtype", "INT16"),
        ("show", "x.bin"),
        # outputs
        ("run", "x.npy", "n.npy", *RUN, "-o", "new/z.npy"),
        ("run", "x.npy", "n.npy", *RUN, "-o", "/dev/null"),
        ("run", "x.npy", "n.npy", *RUN, "-o", "z.weird"),
        ("run", "x.npy", "n.npy", *RUN, "-o", "z"),
        ("run", "x.npy", "n.npy", *RUN, "--json"),
        ("run", "x.npy", "n.npy", *RUN, "--example", "-f", "npy"),
        ("run", "x.npy", "n.npy", *RUN, "--example", "-o", "z.txt"),
        ("run", "x.npy", "n.npy", *RUN, "--example", "-f", "npy", "-o", "z.npy"),
        ("run", "x.npy", "n.npy", *RUN, "--picture", "p.png", "-o", "z.npy"),
        ("convert", "x.npy", "z.npy::key"),
        ("convert", "x3.npy", "z.csv"),
        ("convert", "x.npy", "sub"),
        ("convert", "x.npy", "z.npy.zst"),
        ("convert", "x.npy", "z.weird"),
        # inputs
        ("run", "x", "n.npy", *RUN, "-o", "z.npy"),
        ("show", "x.npy::a"),
        ("show", "x.h5::/g/value"),
        ("convert", "packed-x.h5.gz::/g/values", "z.npy"),
        ("convert", "packed-x.bin.gz", "z.npy", "--sizes", "3x4"),
        ("convert", "columns.csv", "z.npy"),
        ("convert", "index.csv", "z.npy"),
        ("convert", "semicolons.csv", "z.npy"),
        ("convert", "object.json", "z.npy"),
        ("run", "m.onnx::rev", "--feed", "X=x.npy", "--feed", "n=flat.npy", "-o", "z.npy"),
        ("show", "1,2,3"),
        ("run", "x.npy", "flat", "--axis", "1", "-o", "z.npy"),
        ("run", "x.npy", "noted.h5::/x/lengths", *RUN, "-o", "z.npy"),
        ("run", "noted.h5::/x", *RUN, "-o", "z.npy"),
        ("run", "x.h5::/g/values", "n.npy", *RUN, "-o", "z.h5::/g"),
        ("convert", "x.npy", "-", "-f", "h5"),
        ("show", "x.npz::temp", "--sizes", "3x4"),
        ("convert", "x.npy", "-f", "h5"),
        ("export", "x.npy", "n.npy", *RUN, "-o", "m.JSON"),
        ("verify", "page.md", "--allow"),
        ("levels", "5.0", "6.0"),
        # feature levels
        ("run", "i64.npy", "n.npy", *RUN, "--feature-level", "3.0", "-o", "z.npy"),
        ("run", "x.npy", "n.npy", *RUN, "--feature-level", "1.0", "-o", "z.npy"),
        ("run", "x6.npy", "n6.npy", "--axis", "5", "--feature-level", "3.0", "-o", "z.npy"),
        ("run", "flags.npy", "n.npy", *RUN, "--feature-level", "5.0", "-o", "z.npy"),
        ("run", "x.npy", "long.npy", *RUN, "--feature-level", "5.0", "-o", "z.npy"),
        ("export", "i64.npy", "n.npy", *RUN, "--feature-level", "3.0", "-o", "m.json"),
        # names and copies
        ("run", "x.npz::temp", "n.npy", *RUN, "-o", "z.npz::a b"),
        ("run", "x.npz::temp", "n.npy", *RUN, "-o", "z.npz:key"),
        ("run", "x.npy", "n.npy", *RUN, "-o", "z.npy/"),
        ("convert", "complex.npy", "z.safetensors"),
        ("run", "x3.npy", "--padding", "0", *RUN, "-o", "z.npy"),
        # other commands
        ("diff", "--on", "cpu", "--job", "x.npy", "n.npy", *RUN),
        ("info", "x.npy"),
        ("validate", "x.npy", "n.npy", *RUN),
        ("batch", "--each", "sq*.npy", "-o", "z.npy", "--padding", "0", "--axis", "0", "--resme"),
        ("export", "x.npy", "n.npy", *RUN, "--output-file", "m.json"),
        ("check", "x.npy", "n.npy", "--time-axis", "1"),
        ("check", "x.npy", "n.npy", *RUN, "--level", "5.0"),
        ("check", "x3.npy", "n3.npy", *RUN, "--batch-dim", "0"),
        ("run", "x.npy", "n.npy", *RUN, "--workers", "2", "-o", "z.npy"),
        ("convert", "x.bin", "z.npy", "--sizes", "3x4", "--type", "INT32"),
        ("diff", "y.npy", "--job", "x.npy", "n.npy"),
        ("diff", "y.npy", "x.npy", "n.npy", *RUN),
        ("diff", "x.npy", "y.npy", "--picture", "p.png"),
        ("export", "x.npy", "n.npy", *RUN, "-o", "m.onnx"),
        ("export", "x.npy", "flat.npy", "-o", "m.json"),
        ("batch", "names.txt", "--padding", "0", "--axis", "0"),
        ("batch", "--each", "sq*.npy", "--padding", "0", "--axis", "0"),
        ("batch", "--each", "?.npy", "-o", "z.npy", "--padding", "0", "--axis", "0"),
        ("batch", "--each", "**/twin.npy", "-o", "z.npy", "--padding", "0", "--axis", "0"),
        ("batch", "x.npy"),
        ("batch", "*.npy"),
        ("batch", "job.csv", "-o", "q.npy"),
        ("batch", "job.csv", "--lengths", "n.npy"),
        ("batch", "job.csv", "-o", "q.npy", "--lengths", "n.npy"),
        ("verify", "page.md::1"),
    ],
    ids=" ".join,
)
def test_words_to_type_work_as_they_are_printed(revseq, shell, folder, args):
    _require_that_words_work(shell, folder, args, revseq(*args).refused().err)


@pytest.mark.needs("shell")
@pytest.mark.parametrize(
    "args",
    [
        ("check", "x.npy", "n.npy", *RUN, "--feature-level", "1.0"),
        ("check", "i64.npy", "n.npy", *RUN, "--feature-level", "3.0"),
        ("check", "x6.npy", "n6.npy", "--axis", "5", "--feature-level", "3.0"),
        ("check", "x.npy", "mask.npy", *RUN),
        ("check", "f64.npy", "n.npy", *RUN, "--feature-level", "3.0"),
        ("check", "flags.npy", "n.npy", *RUN, "--feature-level", "5.0"),
        ("diff", "x.npy", "close.npy"),
        ("diff", "nan.npy", "other-nan.npy"),
        ("batch", "old.csv"),
    ],
    ids=" ".join,
)
def test_words_to_type_after_an_answer_of_no_work_too(revseq, shell, folder, args):
    done = revseq(*args)
    assert done.status == 1, done.err
    message = done.err if "Hint: " in done.err else done.out
    _require_that_words_work(shell, folder, args, message)


def _require_that_words_work(shell, folder, args, message):
    alternatives = words_to_type(message)
    assert alternatives, message
    for words in alternatives:
        assert "|" not in words
        assert "..." not in words
        again = shell(f"rm -f z.* new.*; {complete(args, words, message)}", cwd=folder)
        is_done = again.status == 0
        first_line = message.split("\n")[0]
        is_gone = again.err.split("\n")[0] != first_line and args in NEXT_ERRORS
        assert is_done or is_gone, f"{message}{shlex.join(args)}\n{words}\n{again.err}"
