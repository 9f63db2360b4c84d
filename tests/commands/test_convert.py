"""`convert`: every data type between all formats, bit for bit or refused; streaming, pipes, and bad inputs."""

import io
import json
import os
import subprocess

import h5py
import numpy as np
import oracle
import pytest
import safetensors.numpy
from conftest import SAMPLES, environment
from folders import content
from processes import COMMAND, peak
from tensor_files import held

from revseq_cli.core.errors import EngineError
from revseq_cli.formats.memory import MemorySink
from revseq_cli.pipeline import passes
from revseq_cli.pipeline.plan import plan_pass
from revseq_cli.pipeline.resources import Resources

SERIAL = Resources("serial", 1)


@pytest.mark.needs("peak")
def test_a_large_file_in_little_memory(tmp_path):
    np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (24, 1 << 20))[23, -5:] = np.nan
    _, memory, status = peak(
        tmp_path, "convert", "x.npy", "y.npy", "--memory", "4MiB", "--verify", "--jobs", 2
    )
    assert status == 0
    assert memory < 80 << 10
    assert np.isnan(np.load(tmp_path / "y.npy", mmap_mode="r")[23, -5:]).all()


@pytest.mark.parametrize("other", [np.zeros((40, 30), np.uint16), np.zeros((30, 40), np.int16)])
def test_verify_finds_other_sizes_and_another_data_type(other):
    like = held(np.zeros((30, 40), np.uint16))
    with MemorySink(like) as sink:
        sink.values = other
        with pytest.raises(EngineError, match="differs from the input in shape or data type"):
            passes.verify_copy(like, sink, plan_pass(like, sink, SERIAL))


def test_formats_by_suffix_and_by_option(revseq, files):
    values = np.load(files / "x.npy")
    (files / "x.dat").write_bytes((files / "x.npy").read_bytes())
    revseq("convert", "x.npy", "j.dat", "-f", "json").ok()
    assert json.loads((files / "j.dat").read_text())["Values"] == values.tolist()
    revseq("convert", "x.dat", "y.h5", "--input-format", "npy").ok()
    revseq("convert", "x.dat", "y.dat", "-f", "npy").ok()
    assert (files / "y.dat").read_bytes() == (files / "x.npy").read_bytes()
    revseq("convert", "x.npy", "z.npy", "-f", "json").ok()
    assert json.loads((files / "z.npy").read_text())["Sizes"] == [3, 4]
    assert (files / "y.h5").read_bytes().startswith(b"\x89HDF")
    assert revseq("convert", "x.dat", "-").ok().out == revseq("convert", "y.h5", "-").ok().out
    assert revseq("convert", "x.dat", "-", "-f", "npy").ok().raw == (files / "x.npy").read_bytes()
    revseq("convert", "x.npy", "y.dat").refused("unknown suffix .dat")


def test_through_pipes(revseq, files):
    values = np.load(files / "x.npy")
    notation = revseq("convert", "x.npy", "-").ok().raw
    assert notation.startswith(b"OutputTensor: (Sizes:{3,4}, DataType:FLOAT32)\n[[")
    text = revseq("convert", "-", "-", "-f", "json", stdin=notation).ok().raw
    assert json.loads(text) == {"DataType": "FLOAT32", "Sizes": [3, 4], "Values": values.tolist()}
    binary = revseq("convert", "-", "-", "-f", "npy", stdin=text).ok().raw
    assert oracle.same_bits(np.load(io.BytesIO(binary)), values)
    done = revseq("convert", "-", "y.h5", "--verify", "--json", stdin=binary).ok()
    assert json.loads(done.out) == {
        "command": "convert", "exit_status": 0, "notes": [], "errors": [],
        "input": {"name": "standard input", "data_type": "FLOAT32", "shape": [3, 4]}, "output": "y.h5", "bytes": 48,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("", "y.npy"), ["empty file name"]),
        (("x.npy", ""), ["empty file name"]),
        (("x.npy", "n.npy"), ["n.npy: exists already", "add --overwrite"]),
        (("x.npy", "hard.h5", "--overwrite"), ["hard.h5: the output is also an input"]),
        (("x.npy", "have.h5::/a"), ["have.h5::/a: exists already", "add --overwrite"]),
        (
            ("text.txt", "y.npy"),
            ["has 3 tensors", "\n  text.txt::InputTensor\n  text.txt::SequenceTensor"],
        ),
        *((("x.npy", "-", option), ["a DST that is a file"]) for option in ("--json", "--verify")),
        (("x.npy", "y.npy::/name"), ["no name after ::"]),
        (("x.npy",), ["DST is missing"]),
    ],
)
def test_bad_input(revseq, files, args, words):
    os.link(files / "x.npy", files / "hard.h5")
    (files / "text.txt").write_bytes((SAMPLES / "example1.txt").read_bytes())
    np.save(files / "c.npy", np.array([1j]))
    with h5py.File(files / "have.h5", "w") as f:
        f["a"], f["b"] = [1], [2]
    before = content(files)
    revseq("convert", *args).refused(*words)
    assert content(files) == before


@pytest.mark.parametrize(
    ("name", "outputs"), [("../up", ["y.h5", "y.zarr"]), ("a//b", ["y.h5", "y.npz"])]
)
def test_a_name_that_the_other_format_cannot_have(revseq, tmp_path, name, outputs):
    safetensors.numpy.save_file({name: np.arange(3)}, tmp_path / "x.safetensors")
    for output in outputs:
        revseq("convert", "x.safetensors", output).refused(f"{output}: {name!r} is not a valid ")
        revseq("convert", "x.safetensors", f"{output}::tensor").ok()


@pytest.mark.parametrize(
    "words", [("run", "x.npy", "[3, 2]", "--axis", "1"), ("convert", "x.npy", "-")]
)
@pytest.mark.needs("shell")
def test_no_text_gets_into_a_name_that_ends_in_npy(tmp_path, words):
    """Standard output is the file of that name; -f text says that it is meant so."""
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.save(tmp_path / "x.npy", x)
    for ending in ((), ("-f", "npy")):
        with open(tmp_path / "y.npy", "wb") as output:
            done = subprocess.run(
                [*COMMAND, *words, *ending], cwd=tmp_path, stdout=output, env=environment()
            )
        assert done.returncode == 0
        assert np.load(tmp_path / "y.npy").shape == (2, 4)
    with open(tmp_path / "y.npy", "wb") as output:
        subprocess.run(
            [*COMMAND, *words, "-f", "text"], cwd=tmp_path, stdout=output, env=environment()
        )
    assert (tmp_path / "y.npy").read_text().startswith("OutputTensor: ")


@pytest.mark.parametrize(
    "words", [("run", "x.csv", "[3, 2]", "--axis", "1"), ("convert", "x.csv", "-")]
)
@pytest.mark.needs("shell")
def test_standard_output_has_the_format_of_its_suffix(tmp_path, words):
    """A table stays a table, and no text gets into a file of HDF5."""
    (tmp_path / "x.csv").write_text("a,b,c\n1,2,3\n0.1,0.25,3e-7\n")
    outputs = {}
    for name in ("y.csv", "y.json", "y.h5"):
        with open(tmp_path / name, "wb") as output:
            outputs[name] = subprocess.run(
                [*COMMAND, *words], cwd=tmp_path, stdout=output, stderr=-1, env=environment()
            )
    assert (tmp_path / "y.csv").read_text().startswith("a,b,c\n")
    assert "0.1" in (tmp_path / "y.csv").read_text()
    assert json.loads((tmp_path / "y.json").read_text())["DataType"] == "FLOAT64"
    assert outputs["y.h5"].returncode == 2
    assert outputs["y.h5"].stderr.strip().endswith(b"y.h5 --overwrite")
    assert (tmp_path / "y.h5").read_bytes() == b""


def test_minifloats_and_complex_numbers_are_printed(revseq, tmp_path):
    pytest.importorskip("ml_dtypes")
    revseq("convert", "[[0, 1, 2, 3]]", "b.safetensors", "--dtype", "BFLOAT16").ok()
    printed = revseq("run", "b.safetensors", "[3]", "--axis", 1).ok().out
    assert printed == "OutputTensor: (Sizes:{1,4}, DataType:BFLOAT16)\n[[2, 1, 0, 3]]\n"
    revseq("diff", printed, "[[2, 1, 0, 3]]", "--dtype", "BFLOAT16")
    np.save(tmp_path / "c.npy", np.array([[1 + 2j, -0.5j]], np.complex64))
    text = revseq("run", "c.npy", "[2]", "--axis", 1).ok().out
    assert text.endswith("DataType:COMPLEX64)\n[[-0.0-0.5j, 1+2j]]\n")
    (tmp_path / "c.txt").write_text(text)
    revseq("diff", "c.txt", "--job", "c.npy", "[2]", "--axis", 1).ok()


def test_formats_of_input_and_output_are_two_options(revseq, files):
    (files / "x.dat").write_bytes((files / "x.npy").read_bytes())
    job = ("n.npy", "--axis", 1)
    right = revseq("run", "x.npy", *job, "-f", "json").ok().out
    assert revseq("run", "x.dat", *job, "-f", "json").ok().out == right  # its bytes say what it is
    (files / "y.dat").write_text(right)
    read = ("show", "y.dat", "--input-format", "json")
    assert "{3,4}" in revseq(*read).ok().out
    revseq("run", "x.npy", *job, "-f", "nc3", "-o", "y.nc").refused("-f: 'nc3'")
    revseq("show", "x.npy", "-f", "npy").refused("unknown option -f")
    revseq("run", "x.npy", *job, "-f", "h5", "-o", "named.npy").ok()
    assert (files / "named.npy").read_bytes().startswith(b"\x89HDF")


def test_the_format_of_inputs_counts_for_those_that_may_have_it(revseq, files):
    job = ("n.npy", "--axis", 1, "-f", "json")
    right = revseq("run", "x.npy", *job).ok().out
    text = revseq("run", "x.npy", *job).ok().out
    (files / "text.npy").write_text(text)
    again = revseq("run", "text.npy", *job, "--input-format", "json").ok().out
    assert again == revseq("run", "-", *job, stdin=right.encode()).ok().out
    piped = b"1,2,3,4\n5,6,7,8\n9,10,11,12\n"
    csv = revseq("run", "-", *job, "--input-format", "csv", stdin=piped).ok().out
    assert json.loads(csv)["Sizes"] == [3, 4]
