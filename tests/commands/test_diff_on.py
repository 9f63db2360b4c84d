"""`diff --on`: jobs that run as ReverseSequence in ONNX Runtime, and stand-ins for it that compute wrongly."""

import json

import numpy as np
import oracle
import pytest

from revseq_cli.core.tensors import DataType

onnxruntime = pytest.importorskip(
    "onnxruntime", reason="onnxruntime, of the extra onnx, is not installed"
)
pytest.importorskip("onnx", reason="onnx, an extra, is not installed")
CPU = f"ONNX Runtime {onnxruntime.__version__}, CPUExecutionProvider"
JOB = ("[[1, 2, 3], [4, 5, 6]]", "[[2], [3]]", "--axis", "1")
ON = ("diff", "--on", "cpu")

# Runs first: sessions that change the output y.
WRONG = """
import numpy as np, onnxruntime
real = onnxruntime.InferenceSession
class Wrong(real):
    def run(self, names, feed):
        [y] = real.run(self, names, feed)
        return [{}]
onnxruntime.InferenceSession = Wrong
"""
# Runs first: a package that has DirectML, on which sessions run where `uses` is its name.
DIRECTML = """
import onnxruntime
real = onnxruntime.InferenceSession
class Session:
    def __init__(self, model, options, providers, **_):
        self.session = real(model, providers=["CPUExecutionProvider"])
        self.run = self.session.run
    def get_providers(self):
        return ["{uses}", "CPUExecutionProvider"]
onnxruntime.InferenceSession = Session
onnxruntime.get_available_providers = lambda: ["DmlExecutionProvider", "CPUExecutionProvider"]
"""

# Runs after DIRECTML: it clamps what the CPU refuses, and says which lengths the session got.
LENGTHS_IN_VIEW = """
import sys
class Shown(Session):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        run = self.run
        def show(names, feed):
            print("lengths", feed["n"].tolist(), file=sys.stderr)
            return run(names, feed | {"n": feed["n"].clip(max=feed["x"].shape[1])})
        self.run = show
onnxruntime.InferenceSession = Shown
"""


def test_random_jobs_of_all_types_and_ranks_are_equal(revseq, tmp_path):
    kinds = [each for each in DataType if each is not DataType.COMPLEX128]
    for seed in range(12):
        rng = np.random.default_rng(seed)
        sizes = rng.integers(1, 6, 1 + seed % 5).tolist()
        axis, batch = seed % len(sizes), (seed + 1) % len(sizes)
        shape, options = (
            [1 if d == axis else size for d, size in enumerate(sizes)],
            ["--axis", axis],
        )
        if batch != axis and seed % 2:
            shape, options = (sizes[batch],), [*options, "--batch-axis", batch]
        x = oracle.random_values(rng, sizes, kinds[seed])
        if x.dtype.type is np.void:
            x, options = x.view(f"V{x.dtype.itemsize}"), [*options, "--dtype", kinds[seed].name]
        np.save(tmp_path / "x.npy", x)
        np.save(
            tmp_path / "n.npy",
            rng.integers(1, 8, shape).astype([np.uint32, np.uint64][seed % 5 == 1]),
        )
        done = revseq(*ON, "x.npy", "n.npy", *options, "--feature-level", "none", "--json").ok()
        found = json.loads(done.out)
        assert (found["equal"], found["different"], found["a"]["name"]) == (True, 0, CPU), options


def test_what_does_not_fit_into_the_memory(revseq, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((2, 5000), np.uint8))
    args = (*ON, "x.npy", "[[4000], [4000]]", "--axis", 1)
    done = revseq(*args, "--memory", "10K").refused(
        "takes 40000 bytes in ONNX Runtime", "--memory 40000"
    )
    revseq(*args, *done.err.split("add ")[1].split()).ok()


def test_a_wrong_element_is_shown_and_drawn(revseq, tmp_path):
    code = WRONG.format("np.where(y == 4, y + 1, y)")
    done = revseq(*ON, *JOB, "--picture", "x.svg", code=code).failed()
    assert CPU in done.out
    assert "1 of 6 elements differ" in done.out
    assert (tmp_path / "x.svg").exists()
    revseq(*ON, *JOB, "--atol", 1, code=code).ok()


def test_what_a_provider_cannot_do(revseq):
    for output, words in (
        ("y[:, :2]", "cannot reshape"),
        ("real.run(self, names, feed | {'n': feed['n'] - 5})", "Invalid"),
    ):
        revseq(*ON, *JOB, code=WRONG.format(output)).refused(words, CPU)


def test_empty_tensors(revseq, tmp_path):
    for sizes in ((0, 3), (2, 0), (2, 3, 0)):
        np.save(tmp_path / "x.npy", np.zeros(sizes))
        np.save(tmp_path / "n.npy", np.zeros((sizes[0], 1, *sizes[2:]), "u4"))
        assert "equal: 0 elements" in revseq(*ON, "x.npy", "n.npy", "--axis", 1).ok().out


def test_a_version_that_leaves_lines_of_length_0_unwritten(revseq):
    job, code = (
        ("[[1, 2, 3], [4, 5, 6]]", "[[0], [3]]", "--axis", "1"),
        "import onnxruntime; onnxruntime.__version__ = {!r}",
    )
    words = (
        "ONNX Runtime 1.27.0 leaves lines of length 0 unwritten",
        "1.28 or newer",
        "--upgrade onnxruntime",
    )
    revseq(*ON, *job, code=code.format("1.27.0")).refused(*words)
    revseq(*ON, *JOB, code=code.format("1.27.0")).ok()
    assert revseq(*ON, *job, code=code.format("1.28.0")).status in (0, 1)


def test_types_that_it_lacks(revseq, tmp_path):
    """Those of 8 bytes run as words."""
    for name, kind in (("x", np.complex64), ("y", np.complex128)):
        np.save(tmp_path / f"{name}.npy", np.array([[1, 2j, 3]], kind))
    options = ("[[3]]", "--axis", 1, "--feature-level", "none")
    done = revseq(*ON, "x.npy", *options, "--json", code=WRONG.format("feed['x']")).failed()
    first = json.loads(done.out)["first"]
    assert [(element["a"], element["b"]) for element in first] == [
        ("1+0j", "3+0j"),
        ("3+0j", "1+0j"),
    ]
    revseq(*ON, "y.npy", *options).refused("has no ReverseSequence of COMPLEX128")


def test_without_the_package(revseq):
    for on, package in {"cpu": "onnxruntime", "directml": "onnxruntime-directml"}.items():
        done = revseq(
            "diff", "--on", on, *JOB, code="import sys; sys.modules['onnxruntime'] = None"
        )
        done.refused(f"the package {package}\n", f"pip install {package}\n")
    revseq(*ON, *JOB, code="import sys; sys.modules['onnx'] = None").refused(
        "the package onnx", "pip install onnx"
    )
    code = "import revseq_cli.formats.onnx.runtime as o\ndef fail(*_): raise ImportError('DLL load failed')\no.import_extra = fail"
    revseq(*ON, *JOB, code=code).refused("ONNX Runtime: cannot be loaded: DLL load failed")


def test_another_provider(revseq):
    done = revseq(
        "diff", "--on", "directml", *JOB, code=DIRECTML.format(uses="DmlExecutionProvider")
    ).ok()
    assert f"ONNX Runtime {onnxruntime.__version__}, DmlExecutionProvider\n" in done.out
    # A session that says it runs elsewhere does not count.
    found = revseq("diff", "--on", "dml", *JOB, code=DIRECTML.format(uses="CPUExecutionProvider"))
    found.refused(
        "has no ReverseSequence of float32 on DmlExecutionProvider", "runs on CPUExecutionProvider"
    )


def test_lengths_above_the_axis_are_clamped_for_the_cpu_and_given_to_directml_as_they_are(revseq):
    job = ("[[1, 2, 3], [4, 5, 6]]", "[5, 2]", "--axis", 1, "--batch-axis", 0)
    assert "1 length was clamped before ONNX Runtime got the job" in revseq(*ON, *job).ok().err
    code = DIRECTML.format(uses="DmlExecutionProvider")
    code += LENGTHS_IN_VIEW
    done = revseq("diff", "--on", "directml", *job, code=code)
    assert "lengths [5, 2]" in done.err
    assert "clamped before" not in done.err


def test_the_form_in_which_the_job_runs_is_noted(revseq, tmp_path):
    job = ("[[[1, 2], [3, 4]]]", "[2]", "--axis", 1, "--batch-axis", 0)
    code = DIRECTML.format(uses="DmlExecutionProvider")
    assert (
        "the tensor was given as {2,2}" in revseq("diff", "--on", "dml", *job, code=code).ok().err
    )
    assert "the tensor was given as" not in revseq(*ON, *job).ok().err
    np.save(tmp_path / "x.npy", np.arange(3, dtype="u2")[None].view("V2"))
    done = revseq(*ON, "x.npy", "[[2]]", "--axis", 1, "--dtype", "BFLOAT16").ok()
    assert "got the BFLOAT16 elements as UINT16" in done.err


def test_what_does_not_go_together(revseq):
    revseq("diff", "--on", "cup", *JOB).refused("has no cup here", "one of")
    revseq(*ON, *JOB, "--job").refused("leave out --job")
    revseq(*ON, "a.npy", *JOB).refused("tensors given: 3")
    revseq(*ON, "no.npy", *JOB[1:]).refused("no.npy")
