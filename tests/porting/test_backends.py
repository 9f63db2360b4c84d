"""`--on`: jobs that run as ReverseSequence in ONNX Runtime, and stand-ins for it that compute wrongly."""

import json

import numpy as np
import oracle
import pytest
from processes import peak

from revseq_cli.core.tensors import DataType
from revseq_cli.porting import backends

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime, an extra, is not installed")
CPU = f"ONNX Runtime {onnxruntime.__version__}, CPUExecutionProvider"
JOB = ("[[1, 2, 3], [4, 5, 6]]", "[[2], [3]]", "--axis", "1")
ON = ("diff", "--on", "onnxruntime")

# Runs first: sessions that reverse the lines x by other lengths n, and then change the output y.
WRONG = """
import numpy as np, onnxruntime
class Wrong(onnxruntime.InferenceSession):
    def run(self, names, feed):
        x, n = feed["x"], feed["n"][:, None]
        size = x.shape[1]
        j = np.arange(size)
        n = {lengths}
        y = np.take_along_axis(x, np.where(j < n, n - 1 - j, j), 1)
        return [{output}]
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


def wrong(lengths="n", output="y"):
    return WRONG.format(lengths=lengths, output=output)


def random_job(seed, folder):
    """Save x.npy and n.npy of a random job in any memory order and byte order, and return its options.

    ONNX Runtime before 2026 left what it had for a line of length 0, so the lengths begin at 1.
    """
    rng = np.random.default_rng(seed)
    kinds = [*DataType]
    kinds.remove(DataType.COMPLEX128)
    data_type = kinds[seed % len(kinds)]
    sizes = tuple(int(size) for size in rng.integers(1, 6, rng.integers(1, 6)))
    axis = int(rng.integers(len(sizes)))
    x = oracle.random_values(rng, sizes, data_type)
    if seed % 3 == 1:
        x = np.asfortranarray(x)
    if seed % 4 == 1:
        x = x.byteswap().view(x.dtype.newbyteorder())
    options = ["--axis", axis, "--feature-level", "none"]
    shape = tuple(1 if d == axis else size for d, size in enumerate(sizes))
    if len(sizes) > 1 and seed % 2:
        batch = int(rng.choice([d for d in range(len(sizes)) if d != axis]))
        shape, options = (sizes[batch],), [*options, "--batch-axis", batch]
    if x.dtype.type is np.void:
        options += ["--dtype", data_type.name]
        x = x.view(f"V{x.dtype.itemsize}")
    np.save(folder / "x.npy", x)
    np.save(folder / "n.npy", rng.integers(1, 8, shape).astype([np.uint32, np.uint64][seed % 5 == 1]))
    return options


def test_random_jobs_of_all_types_and_ranks_are_equal(revseq, tmp_path):
    for seed in range(20):
        options = random_job(seed, tmp_path)
        found = json.loads(revseq(*ON, "x.npy", "n.npy", *options, "--json").ok().out)
        assert (found["equal"], found["different"], found["A"]["name"]) == (True, 0, CPU), options


@pytest.mark.parametrize(("axis", "batch_axis", "lengths"), [(0, 1, "[1, 2, 2]"), (1, 0, "[3, 3]")])
def test_dimensions_that_are_where_the_operator_has_them_stay_there(revseq, axis, batch_axis, lengths):
    """So both of the operator's forms are judged."""
    code = wrong(lengths="n; raise ValueError(f'gets {x.shape}')")
    done = revseq(*ON, JOB[0], lengths, "--axis", axis, "--batch-axis", batch_axis, code=code)
    done.refused("gets (2, 3)")


@pytest.mark.parametrize("memory", ["6K", "40K"])
def test_many_blocks_and_chunks(revseq, tmp_path, memory):
    rng = np.random.default_rng(3)
    x = rng.integers(0, 2**32, (30, 8, 7), np.uint32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "n.npy", rng.integers(1, 10, (30, 1, 7)).astype(np.uint32))
    revseq("convert", "x.npy", "x.h5::x", "--chunks", "4x2x3", "--compression", "gzip").ok()
    for name in ("x.npy", "x.h5"):
        done = revseq(*ON, name, "n.npy", "--axis", 1, "--memory", memory).ok()
        assert "equal, 1,680 elements" in done.out
        again = revseq(*ON, name, "n.npy", "--axis", 1, "--memory", memory, code=wrong("np.maximum(n - 1, 0)"))
        assert again.status == 1
        assert "lengths are one too small" in again.out


@pytest.mark.needs("peak")
def test_memory_stays_within_the_limit(tmp_path):
    """That of a tensor of 64 MiB is at most some MiB more than that of a small one."""
    most = []
    for count in (1 << 4, 1 << 14):
        np.save(tmp_path / "x.npy", np.ones((count, 1 << 10), np.float32))
        np.save(tmp_path / "n.npy", np.full((count, 1), 700, np.uint32))
        _, memory, status = peak(tmp_path, *ON, "x.npy", "n.npy", "--axis", 1, "--memory", "16M")
        assert status == 0
        most.append(memory)
    assert most[1] - most[0] < 24 << 10


def test_lines_that_do_not_fit(revseq, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((2, 5000), np.uint8))
    np.save(tmp_path / "n.npy", np.full((2, 1), 4000, np.uint32))
    args = (*ON, "x.npy", "n.npy", "--axis", 1)
    done = revseq(*args, "--memory", "10K").refused("too little for a whole line", "room for whole lines")
    revseq(*args, "--memory", done.err.split("--memory ")[1].split()[0]).ok()


MISTAKES = {
    "the output is the input: nothing is reversed": wrong(lengths="n * 0"),
    "zeros in elements that lie behind the length": wrong(output="np.where(j < n, y, y.dtype.type(0))"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_mistake_of_a_provider_is_named(revseq, tmp_path, name):
    rng = np.random.default_rng(5)
    np.save(tmp_path / "x.npy", oracle.random_values(rng, (6, 9, 4), DataType.INT32))
    n = rng.integers(0, 9, (6, 1, 4)).astype(np.uint32)
    n[0, 0, :3] = 0, 5, 9
    np.save(tmp_path / "n.npy", n)
    done = revseq(*ON, "x.npy", "n.npy", "--axis", 1, "--json", code=MISTAKES[name])
    assert done.status == 1, done.err
    assert name in [
        each["text"] for each in json.loads(done.out)["mistakes"]
    ]  # few lines may have more than one explanation


def test_a_wrong_element_is_shown_and_drawn(revseq, tmp_path):
    code = wrong(output="np.where(y == 4, y + 1, y)")
    done = revseq(*ON, *JOB, "--picture", "x.svg", code=code)
    assert done.status == 1
    assert f"A:     (Sizes:{{2,3}}, DataType:FLOAT32)  {CPU}\nright: (Sizes:{{2,3}}" in done.out
    assert "1 of 6 elements differ, in 1 of 2 lines, only inside the reversed part\n" in done.out
    assert "  [1, 2]  5      4\n" in done.out
    assert (tmp_path / "x.svg").exists()
    revseq(*ON, *JOB, "--atol", 1, code=code).ok()


def test_an_output_of_other_sizes(revseq):
    revseq(*ON, *JOB, code=wrong(output="y[:, :2]")).refused("returned elements float32 of sizes (2, 2)", CPU)
    revseq(*ON, *JOB, code=wrong(output="y.astype('f8')")).refused("returned elements float64 of sizes (2, 3)", CPU)


def test_what_it_says_where_it_fails(revseq):
    code = wrong(output="onnxruntime.InferenceSession.__bases__[0].run(self, names, feed | {'n': feed['n'] - 5})")
    revseq(*ON, *JOB, code=code).refused(f"{CPU}: it says", "Invalid sequence length: -3")


def test_lengths_above_the_axis_size(revseq):
    done = revseq(*ON, "[[1, 2, 3], [4, 5, 6]]", "[[2], [7]]", "--axis", 1).ok()
    assert "Note: ONNX Runtime refuses lengths above the axis size, so it got the axis size instead" in done.err
    assert "refuses" not in revseq(*ON, *JOB).ok().err


def test_lengths_of_0(revseq):
    done = revseq(*ON, "[[1, 2, 3], [4, 5, 6]]", "[[0], [2]]", "--axis", 1, "--json")
    found = json.loads(done.out)
    assert (done.status, found["lines"], found["inside"]) in [(0, 0, 0), (1, 1, 0)]


def test_types_that_a_provider_lacks(revseq, tmp_path):
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.complex64))
    np.save(tmp_path / "y.npy", np.ones((2, 3), np.complex128))
    options = (JOB[1], "--axis", 1, "--feature-level", "none")
    done = revseq(*ON, "x.npy", *options).ok()
    told = "COMPLEX64 runs there as UINT64, of the same bits: the provider has no COMPLEX64"
    assert f"Note: {told}\n" in done.err
    revseq(*ON, "y.npy", *options).refused(f"{CPU}: has no ReverseSequence of COMPLEX128", "wanted: one of FLOAT64")


def test_words_of_the_same_bits_are_shown_as_what_they_are(revseq, tmp_path):
    np.save(tmp_path / "x.npy", np.array([[1, 2j, 3]], np.complex64))
    args = (*ON, "x.npy", "[[3]]", "--axis", 1, "--feature-level", "none", "--json")
    done = revseq(*args, code=wrong(lengths="n * 0"))
    assert done.status == 1
    first = json.loads(done.out)["first"]
    assert [(each["A"], each["B"]) for each in first] == [("(1+0j)", "(3+0j)"), ("(3+0j)", "(1+0j)")]


def test_one_thread_hands_out_the_blocks(revseq, small):
    code = wrong(output="y if threading.current_thread() is threading.main_thread() else y[:1]")
    code += "import threading; from revseq_cli.core import thresholds; thresholds.WORTH_PROCESSES = 0"
    revseq(*ON, "x.npy", "n.npy", "--axis", 1, "--memory", "1M", code=code).ok()


def test_whole_jobs(revseq, tmp_path):
    page = revseq("run", *JOB, "--example").ok().raw
    (tmp_path / "page.md").write_bytes(page)
    revseq("export", *JOB, "-o", "model.json").ok()
    for name in ("page.md", "page.md::1", "model.json"):
        assert "equal, 6 elements" in revseq(*ON, name).ok().out


def test_levels_that_agree(revseq, tmp_path):
    def answer(*args, **order):
        done = revseq("check", *args, "--on", "onnxruntime", "--json", **order)
        found = json.loads(done.out)["answer"]
        assert done.status == (found["outcome"] != "right")
        return found["outcome"], found["told"], found["levels"][:1], found["levels"][-1:]

    done = revseq("check", *JOB, "--on", "onnxruntime").ok()
    assert f"run elsewhere          {CPU}: right, as levels 2_1 to 6_4\n" in done.out.replace("\n" + " " * 23, " ")
    assert answer(*JOB) == ("right", "", ["2_1"], ["6_4"])
    assert answer(*JOB, "--feature-level", "all", "--dtype", "FLOAT64") == ("right", "", ["5_0"], ["6_4"])
    assert answer(*JOB, code=wrong("n - 1")) == ("wrong", "5 of 6 elements differ", [], [])
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.complex64))
    outcome, told, *levels = answer("x.npy", *JOB[1:], "--feature-level", "none")
    assert (outcome, levels) == ("refused", [["1_0"], ["6_4"]])
    assert told.startswith("has no ReverseSequence of COMPLEX64: it says")
    clamped = revseq("check", JOB[0], "[[9], [3]]", "--axis", "1", "--on", "onnxruntime").ok()
    assert "Note: ONNX Runtime refuses lengths above the axis size" in clamped.out
    done = revseq("check", *JOB[:2], "--axis", "0", "--on", "onnxruntime")
    assert f"Note: no feature level accepts the job, so it did not run on {CPU}" in done.out.replace(
        "\n" + " " * 6, " "
    )
    assert "run elsewhere" not in done.out
    failed = revseq("check", *JOB, "--on", "onnxruntime", code=wrong(output="1 / 0"))
    failed.refused(f"{CPU}: it says division by zero")
    revseq("check", *JOB, "--on", "onnxruntime", "--example").refused("leave out --on")


# Runs first: what importing the package raises.
NONE = """
import sys
class Finder:
    def find_spec(self, name, *_):
        if name == "onnxruntime":
            raise {}
sys.modules.pop("onnxruntime", None)
sys.meta_path.insert(0, Finder())
"""


def test_without_the_package(revseq):
    code = NONE.format("ModuleNotFoundError")
    for on, package in {
        "onnxruntime": "onnxruntime",
        "directml": "onnxruntime-directml",
        "onnxruntime:CUDA": "onnxruntime-gpu",
    }.items():
        done = revseq("diff", "--on", on, *JOB, code=code)
        done.refused(f"wanted: the package {package}\n", f"pip install {package}\n")
    revseq("diff", "--on", code=code).refused("the package onnxruntime", "pip install onnxruntime\n")
    revseq(*ON, *JOB, code=NONE.format("ImportError('DLL load failed')")).refused(
        "ONNX Runtime: cannot be loaded: DLL load failed"
    )


@pytest.mark.parametrize("on", ["directml", "DirectML", "onnxruntime:dml", "onnxruntime:DmlExecutionProvider"])
def test_another_provider(revseq, on):
    done = revseq("diff", "--on", on, *JOB, code=DIRECTML.format(uses="DmlExecutionProvider")).ok()
    assert f"ONNX Runtime {onnxruntime.__version__}, DmlExecutionProvider\n" in done.out
    # A session that says it runs elsewhere does not count.
    found = revseq("diff", "--on", on, *JOB, code=DIRECTML.format(uses="CPUExecutionProvider"))
    found.refused("has no ReverseSequence of FLOAT32", "runs on CPUExecutionProvider, CPUExecutionProvider instead")


def test_a_provider_without_the_operator_does_not_run_on_the_cpu(revseq):
    if "AzureExecutionProvider" not in onnxruntime.get_available_providers():
        pytest.skip("no provider here lacks the operator")
    revseq("diff", "--on", "onnxruntime:azure", *JOB).refused("has no ReverseSequence of FLOAT32", "fallback to CPU EP")


def test_what_this_machine_has(revseq):
    done = revseq("diff", "--on").ok()
    assert revseq("diff", "--on", "list").ok().out == done.out
    first, *others = done.out.splitlines()
    assert first == f"ONNX Runtime {onnxruntime.__version__}"
    (cpu,) = [line for line in others if line.startswith("  CPUExecutionProvider")]
    assert {"FLOAT32,", "INT64,", "UINT8,"} <= {*cpu.split()}
    found = json.loads(revseq("diff", "--on", "--json").ok().out)
    assert [each["name"] for each in found["providers"]] == onnxruntime.get_available_providers()
    assert revseq("diff", "--on", "-q").ok().out == ""


def test_what_does_not_go_together(revseq):
    for on in (("--on=onxruntime",), ("--on", "onxruntime"), ("--on", "DML")):
        revseq("diff", *on, *JOB).refused(f"{on[-1].split('=')[-1]!r} cannot run jobs", "onnxruntime:PROVIDER")
    revseq(*ON, *JOB, env={"REVSEQ_ENGINE": "processes"}).ok()
    revseq(*ON, *JOB, "--job").refused("leave out --job")
    revseq(*ON, *JOB, "--engine", "serial").ok()
    revseq(*ON, "a.npy", *JOB).refused("3 tensors are given", "--on WHERE INPUT LENGTHS")
    revseq(*ON, "no.npy", *JOB[1:]).refused("no.npy")


@pytest.mark.parametrize("time", [0, 1])
def test_the_model_is_one_of_onnx(time):
    onnx = pytest.importorskip("onnx", reason="onnx, an extra, is not installed")
    model = onnx.ModelProto.FromString(backends.model(onnx.TensorProto.INT8, 3, time))
    onnx.checker.check_model(model, full_check=True)
    node = model.graph.node[0]
    assert {each.name: each.i for each in node.attribute} == {"time_axis": time, "batch_axis": 1 - time}


@pytest.mark.parametrize("command", [ON, ("check", "--on", "onnxruntime")])
@pytest.mark.parametrize(("version", "lengths", "is_told"), [("1.27.0", "[[0], [3]]", True), ("1.27.0", "[[1], [3]]", False), ("1.28.0", "[[0], [3]]", False)])  # fmt: skip
def test_a_version_that_leaves_lines_unwritten(revseq, command, version, lengths, is_told):
    code = f"import onnxruntime; onnxruntime.__version__ = {version!r}"
    done = revseq(*command, "[[1, 2, 3], [4, 5, 6]]", lengths, "--axis", "1", code=code)
    told = " ".join((done.out + done.err).split())
    note = f"ONNX Runtime {version} leaves lines of length 0 unwritten, as all versions before 1.28 do"
    assert (note in told) == is_told
