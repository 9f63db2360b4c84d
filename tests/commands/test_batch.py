"""Many jobs: the manifest is all right or nothing runs, a job that fails is alone, and what is done can be skipped."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import oracle
import pytest
from conftest import COMMAND
from needs import existing_signals
from processes import members, until

from revseq_cli.commands import pool, run, templates
from revseq_cli.commands.entries import Entry
from revseq_cli.commands.pool import Pool
from revseq_cli.core import platform
from revseq_cli.files.new import temporary_pattern

INPUT = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
LENGTHS = np.array([[2], [4], [3]], np.uint32)
EXPECTED = oracle.reverse(INPUT, LENGTHS, 1)
JOB = {"input": "x.npy", "lengths": "n.npy", "axis": 1, "output": "y.npy"}
# Several workers for few jobs.
MANY = """
import revseq_cli.commands.pool as pool
pool._JOBS_OF_A_WORKER = 4
"""


def lines(*jobs):
    """A manifest of JSON lines; each job is the usual one but for what is given."""
    return "".join(f"{json.dumps(JOB | job)}\n" for job in jobs)


def numbered(count, **more):
    return lines(*({"output": f"y{i}.npy", **more} for i in range(count)))


def reports(done):
    return sorted(map(json.loads, done.out.splitlines()), key=lambda job: job["line"])


def outputs(folder):
    return {
        path.name
        for path in folder.iterdir()
        if path.name[0] == "y" or path.name.startswith(".revseq")
    }


# manifests


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('output,input,lengths,axis\r\ny1.npy,"[[1., 2, 3, 4],\r\n[5, 6, 7, 8], [9, 10, 11, 12]]",n.npy,1\r\n\r\ny2.npy,x.npy,"[[2]]",1\r\n', "line 5"),
        ("input;lengths;axis;output\nx.npy;[[2],[4],[3]];1;y1.npy\nx.npy;n.npy;7;y2.npy\n", "line 3"),  # of Excel
        # As pandas writes them where a column has gaps: numbers become floats.
        ("input,lengths,axis,batch_axis,output\nx.npy,n.npy,1.0,,y1.npy\nx.npy,n.npy,7.0,0.0,y2.npy\n", "line 3"),
        (lines({"output": "y1.npy", "axis": 1.0, "batch_axis": None}, {"axis": 7.0}), "line 2"),
    ],
)  # fmt: skip
def test_cells_and_rows(revseq, files, text, place):
    """Cells hold commas and line breaks, and stand between semicolons or tabs; the number of a line is an editor's."""
    revseq("batch", "-", stdin=text.encode()).failed(f"standard input: {place}: ")
    assert oracle.same_bits(np.load(files / "y1.npy"), EXPECTED)


def test_options_are_defaults_for_every_job(revseq, files):
    (files / "y1.npy").write_bytes(b"old")
    (files / "y2.npy").write_bytes(b"old")
    text = lines(
        {"output": "y1.npy"},
        {"output": "y2.npy", "overwrite": False},
        {"output": "y3.npy", "dtype": "int8"},
    )
    done = revseq("batch", "-", "--overwrite", "--json", stdin=text.encode())
    found = reports(done)
    assert [(each["exit_status"], each["bytes"]) for each in found] == [(0, 48), (2, 0), (2, 0)]
    assert found[1]["errors"][0]["where"] == "y2.npy"
    assert "line 2: y2.npy: exists already" in done.err
    assert "line 3: x.npy: its data type is FLOAT32, not INT8" in done.err
    assert (files / "y2.npy").read_bytes() == b"old"


def test_columns_are_the_options_of_run(revseq):
    """All but those about what is printed, and one with several values; they are options of batch, too: defaults."""
    names = {max(each.opts, key=len).lstrip("-") for each in run.command.params}
    refused = {*"feed example picture full dry-run json quiet verbose color".split()}
    assert refused < names
    for name in names:
        told = revseq("batch", "-", stdin=f'{{"{name}": "?"}}\n'.encode()).refused().err
        assert (f"unknown column '{name}'" in told) == (name in refused), told


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\n \n", ["contains no job"]),
        (lines({}, {"lenghts": "n.npy"}), ["line 2: unknown column 'lenghts'", "expected lengths, or another of revseq batch --help"]),
        ('{"input": "x.npy"}', ["line 1: no output"]),
        (lines({"lengths": "-"}), ["line 1: lengths is -"]),
        (lines({"output": "a\0b"}), ["line 1: output: 'a\\x00b' contains bytes that are not text"]),
        (lines({"axis": ""}), ["line 1: axis: the value is empty"]),
        (lines({"batch-axis": 0, "batch_axis": 0}), ["line 1: column batch-axis appears twice"]),
        (lines({}) + "{", ["line 2: not JSON: Expecting property name", "column "]),
        (lines({}) + "[" * 100_000, ["line 2: not a JSON object"]),
        pytest.param(lines({}, {"output": "link.npy"}), ["line 2: its output link.npy is the output of line 1"], marks=pytest.mark.needs("links")),
        (lines({}, {"input": "y.npy", "output": "z.npy"}), ["line 2: its input y.npy is the output of line 1"]),
        (lines({"output": "y.zarr"}, {"output": "y.zarr/zarr.json"}), ["line 2: its output y.zarr/zarr.json is the output of"]),
        (lines({"lengths": "./y.npy"}), ["line 1: its lengths ./y.npy is the output of line 1"]),
        (lines({"output": "m.jsonl", "overwrite": True}), ["line 1: its output m.jsonl is the manifest itself"]),
        ("input,output\nx.npy\n", ["line 2: has too few or too many cells", "expected 2"]),
        ('input,output\n"x.npy,y.npy\n', ["line 2: not CSV: unexpected end of data"]),
        ("input,,output\nx.npy,0,y.npy\n", ["line 1: unknown column ''"]),
    ],
)  # fmt: skip
def test_a_bad_manifest_runs_nothing(revseq, files, text, words):
    (files / "folder").mkdir()
    (files / "link.npy").symlink_to("y.npy")
    name = "m.csv" if text.startswith("input") else "m.jsonl"
    (files / name).write_bytes(text.encode("latin-1"))
    revseq("batch", name).refused(f"Error: {name}: ", *words)
    assert outputs(files) == set()


# a job for each file


@pytest.fixture
def folders(files):
    """Inputs and lengths in folders, of which one is deeper."""
    for name in ("data", "data/a", "data/a/b", "lens", "out", "out/a", "out/a/b"):
        (files / name).mkdir()
    for name in ("data/x", "data/a/y", "data/a/b/z.1"):
        shutil.copy(files / "x.npy", files / f"{name}.npy")
    for name in ("x", "y", "z.1"):
        shutil.copy(files / "n.npy", files / "lens" / f"{name}.npy")
    return files


@pytest.mark.parametrize(
    ("pattern", "output", "expected"),
    [
        ("data/**/*.npy", "new/{parent}/{stem}.h5", ["new/data/a/b/z.1.h5", "new/data/a/y.h5", "new/data/x.h5"]),
        ("data/*/?.npy", "{parent}/{stem}-r{suffix}", ["data/a/y-r.npy"]),
        ("data/a/**/*.npy", "out/{{{stem}}}.npy", ["out/{y}.npy", "out/{z.1}.npy"]),
    ],
)  # fmt: skip
def test_a_job_for_each_file(revseq, folders, pattern, output, expected):
    done = revseq(
        "batch",
        "--each",
        pattern,
        "--lengths",
        "lens/{stem}.npy",
        "-o",
        output,
        "--axis",
        "1",
        "--json",
    )
    found = reports(done.ok())
    assert sorted(os.path.normpath(each["output"]) for each in found) == sorted(
        map(os.path.normpath, expected)
    )
    assert [each["line"] for each in found] == [*range(1, len(expected) + 1)]
    for name in expected:
        assert (folders / name).exists()
        if name.endswith(".npy"):
            assert oracle.same_bits(np.load(folders / name), EXPECTED)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--each", "*.npy"], ["the jobs have no output", f"add -o {platform.quote('out/{stem}.npy')}"]),
        (["--each", "data/**/*.npy", "-o", "out/y.npy"], ["-o out/y.npy is one file for several", f"-o {platform.quote(str(Path('out/{stem}.npy')))}"]),
        (["--each", "data/x.npy", "-o", "{parent}/{name}"], ["job 1: its input data/x.npy is the output of job 1"]),
        (["--each", "*.npy", "-o", "{stm}.npy"], ["a wrong placeholder in {stm}.npy: 'stm'", "{stem}, {match}, {name}, {suffix}, {parent}"]),
        *((["--each", "*.npy", "-o", name], ["wrong placeholder"]) for name in ("{}.npy", "{stem.npy", "{stem.a}")),
        (["--each", "x.npy", "n.npy", "-o", "{stem}-r.npy"], ["quote it: --each"]),
        (["none.txt", "-o", "{stem}-r.npy"], ["none.txt: no such file"]),
        (["data/*.npy", "-o", "{stem}-r.npy"], ["no such file", f"type --each {platform.quote('data/*.npy')}"]),
        (["data/*.npy"], ["no such file", f"type --each {platform.quote('data/*.npy')}"]),
        (["jobs.csv", "-o", "{stem}-r.npy"], ["columns of the manifest", "Hint: leave out -o"]),
        ([], ["no manifest is given", "one MANIFEST, or --each"]),
    ],
)  # fmt: skip
def test_what_each_refuses(revseq, folders, args, words):
    before = set(folders.rglob("*"))
    revseq("batch", *args, "--axis", "1").refused(*words)
    assert set(folders.rglob("*")) == before


def test_the_hint_for_one_output_of_several_inputs_can_be_typed(revseq, files):
    for folder in "ab":
        (files / folder).mkdir()
        np.save(files / folder / "s.npy", INPUT)
    job = ("batch", "--each", "*/s.npy", "--lengths", "n.npy", "--axis", 1)
    err = revseq(*job, "-o", "out/{stem}.npy").refused().err
    option, name = err.rpartition("use ")[2].split()
    assert name.strip("'\"") != "out/{stem}.npy"
    revseq(*job, option, name.strip("'\"")).ok()
    assert len(list((files / "out").rglob("*.npy"))) == 2


@pytest.mark.parametrize("output", ["out", "out/"])
def test_the_hint_for_a_folder_as_the_output_can_be_typed(revseq, folders, output):
    job = ("batch", "--each", "data/**/*.npy", "--lengths", "n.npy", "--axis", 1)
    err = revseq(*job, "-o", output).refused(f"-o {output} is one file for several").err
    option, name = err.rpartition("use ")[2].split()
    revseq(*job, option, name.strip("'\"")).ok()
    outputs = [path for path in (folders / "out").rglob("*") if path.is_file()]
    assert len(outputs) > 1
    assert {path.suffix for path in outputs} == {".npy"}


def test_the_hint_for_outputs_names_no_hidden_file(revseq, files):
    """For out/x.npy and the pattern out/x*.npy, {match} is empty, and {match}{suffix} is .npy."""
    (files / "out").mkdir()
    inputs = {"x.npy", "x1.npy"}
    for name in inputs:
        np.save(files / "out" / name, INPUT)
    job = ("batch", "--each", "out/x*.npy", "--lengths", "n.npy", "--axis", 1)
    err = revseq(*job, "-o", "out/").refused("-o out/ is one file for several").err
    option, name = err.rpartition("use ")[2].split()
    revseq(*job, option, name.strip("'\"")).ok()
    outputs = {path.name for path in (files / "out").iterdir()} - inputs
    assert len(outputs) == 2
    assert not any(name.startswith(".") for name in outputs)


def test_two_jobs_that_add_to_one_file(revseq, folders):
    """The second output is not the first one; what helps is one command after another."""
    job = ("batch", "--each", "data/**/*.npy", "--lengths", "n.npy", "--axis", 1)
    error = revseq(*job, "-o", "all.h5::{stem}").refused("is in the file that job 1 writes").err
    assert "Hint: " in error
    assert "revseq run" in error
    assert not (folders / "all.h5").exists()


def test_what_a_batch_writes_or_takes_lengths_from_is_no_input(revseq, folders):
    """So that the same line can be typed twice."""
    job = (
        "batch",
        "--each",
        "data/*.npy",
        "--lengths",
        "data/{stem}.len.npy",
        "-o",
        "data/{stem}.rev.npy",
    )
    shutil.copy(folders / "n.npy", folders / "data" / "x.len.npy")
    for again in ((), ("--overwrite",), ("--resume",)):
        done = revseq(*job, "--axis", 1, *again, "--json").ok()
        assert [each["output"] for each in reports(done)] == ["data/x.rev.npy"]
    assert {path.name for path in (folders / "data").glob("*.npy")} == {
        "x.npy",
        "x.len.npy",
        "x.rev.npy",
    }
    shutil.copy(
        folders / "n.npy", folders / "zn.npy"
    )  # the lengths of all, which are also found last
    job = (
        "batch",
        "--each",
        "[xz]*.npy",
        "--lengths",
        "zn.npy",
        "-o",
        "new/{name}",
        "--axis",
        1,
        "--json",
    )
    assert [each["output"] for each in reports(revseq(*job).ok())] == ["new/x.npy"]


@pytest.mark.parametrize(
    ("pattern", "path", "match"),
    [
        ("data/x_*.npy", "data/x_001.npy", "001"), ("x*_e*.npy", "x1_e2.npy", "1_e2"), ("data/**/?[0-9].h5", "data/a/b/x3.h5", "x3"),
        ("*/x.npy", "a/x.npy", "x"), ("", "data/x.npy", "x"), ("*", "x.npy.gz", "x.npy.gz"),
    ],
)  # fmt: skip
def test_what_the_wildcards_matched(pattern, path, match):
    assert templates.find_placeholders(path, pattern)["match"] == match
    for name, stem, suffix in (("x.NPY.GZ", "x", ".NPY.GZ"), ("a.b.h5.zst", "a.b", ".h5.zst")):
        values = templates.find_placeholders(name, pattern)
        assert (values["stem"], values["suffix"], values["name"]) == (stem, suffix, name)


@pytest.mark.parametrize("end", [b"\n", b"\0"])
@pytest.mark.parametrize("name", ["-", "names.txt"])
def test_a_list_of_names(revseq, folders, end, name):
    """As find -print or -print0 writes it."""
    names = b"".join(each + end for each in (b"data/x.npy", b"data/a/y.npy"))
    (folders / "names.txt").write_bytes(names)
    revseq(
        "batch",
        name,
        "--lengths",
        "lens/{stem}.npy",
        "-o",
        "out/{stem}.npy",
        "--axis",
        1,
        stdin=names,
    ).ok()
    assert {path.name for path in (folders / "out").glob("*.npy")} == {"x.npy", "y.npy"}


# what is done


def test_resume_skips_what_is_up_to_date(revseq, files):
    """As make does: an output that exists is complete; an older one is made again, and replaced."""
    (files / "m.jsonl").write_text(
        lines(*({"output": f"out/y{i}.npy", "overwrite": i == 1} for i in range(4)))
    )

    def run(*args):
        found = reports(revseq("batch", "m.jsonl", "--json", *args).ok())
        return [each["skipped"] for each in found]

    assert run() == [False] * 4
    (files / "out" / "y1.npy").unlink()
    os.utime(files / "out" / "y2.npy", (1, 1))
    assert run("--resume") == [True, False, False, True]
    for i in range(4):
        assert oracle.same_bits(np.load(files / "out" / f"y{i}.npy"), EXPECTED)
    os.utime(files / "n.npy", (1 << 31, 1 << 31))
    assert run("--resume", "--dry-run") == [False] * 4
    revseq("batch", "m.jsonl").failed("exists already", ": --resume\n", ": --overwrite\n")
    (files / "n.npy").unlink()
    revseq("batch", "m.jsonl", "--resume").failed("n.npy: no such file")


def test_resume_looks_into_stores(revseq, files):
    zarr = pytest.importorskip("zarr")
    store = zarr.create_array(files / "x.zarr", shape=INPUT.shape, dtype=INPUT.dtype, chunks=(1, 4))
    store[:] = INPUT
    (files / "m.jsonl").write_text(lines({"input": "x.zarr", "output": "y.zarr"}))
    revseq("batch", "m.jsonl", "--only").ok()
    assert reports(revseq("batch", "m.jsonl", "--json", "--resume").ok())[0]["skipped"]
    chunk = max(
        (path for path in (files / "x.zarr").rglob("*") if path.is_file()),
        key=lambda path: len(path.parts),
    )
    os.utime(chunk, (1 << 31, 1 << 31))
    (files / "y.zarr" / "thesis.txt").write_text("three years of work")
    done = revseq("batch", "m.jsonl", "--resume", "--only")
    done.failed("exists already", "a folder is never replaced")
    (files / "y.zarr" / "thesis.txt").unlink()
    store[:] = INPUT + 1
    os.utime(chunk, (1 << 31, 1 << 31))
    revseq("batch", "m.jsonl", "--resume", "--only").ok()
    output = zarr.open_array(files / "y.zarr", mode="r")
    assert oracle.same_bits(output[:], oracle.reverse(INPUT + 1, LENGTHS, 1))
    revseq("batch", "m.jsonl", "--overwrite", "--only").failed("exists already")


def test_a_dry_run_checks_all_and_writes_nothing(revseq, files):
    (files / "m.jsonl").write_text(
        lines(*({"output": f"new/y{i}.npy"} for i in range(3)), {"output": "y3.npy"})
    )
    before = {path.name for path in files.iterdir()}
    found = reports(revseq("batch", "m.jsonl", "--dry-run", "--json").ok())
    assert [(each["planned"], each["bytes"]) for each in found] == [(True, 48)] * 4
    assert {path.name for path in files.iterdir()} == before
    (files / "y3.npy").write_bytes(b"old")
    done = revseq("batch", "m.jsonl", "--dry-run", "--json").failed(
        "line 4: y3.npy: exists already"
    )
    assert [each["exit_status"] for each in reports(done)] == [0, 0, 0, 2]


# jobs that fail


def test_a_job_that_fails_stops_no_other(revseq, files):
    """Notes and errors that are equal are told once, with the lines of their jobs, and errors last."""
    np.save(files / "n9.npy", np.full((3, 1), 9, np.uint32))
    for i in range(4):
        np.save(files / f"bad{i}.npy", np.ones((3, 2), np.int64))
    jobs = [
        {"output": f"y{i}.npy", "lengths": f"bad{i}.npy" if i < 4 else "n9.npy"} for i in range(8)
    ]
    jobs[1] |= {"input": "absent.npy"}
    jobs[6] |= {"lengths": "[[1.5], [1], [1]]"}
    jobs.append({"output": "x.npy/y.npy"})
    done = revseq("batch", "-", stdin=lines(*jobs).encode()).failed("line 7: LENGTHS: ", "line 9: ")
    assert outputs(files) == {"y4.npy", "y5.npy", "y7.npy"}
    assert done.out.startswith("9 jobs: 3 done, 6 failed; 144 bytes in ")
    note, *errors = [
        line for line in done.err.split("\n") if line.startswith(("Note: ", "Error: "))
    ]
    clamped = "3 of 3 lengths exceed the axis size and are clamped to 4"
    assert note == f"Note: standard input: lines 5, 6, 8 (3 jobs): {clamped}"
    places = "lines 1, 3, 4 (3 jobs): bad0.npy, bad2.npy, bad3.npy"
    assert errors[0] == f"Error: standard input: {places}: has the shape {{3,2}}"
    assert errors[1] == "Error: standard input: line 2: absent.npy: no such file"
    assert len(errors) == 4


def test_larger_jobs_have_the_engine_to_themselves(revseq, files):
    large = np.arange(1 << 18, dtype=np.uint32).reshape(256, -1)
    lengths = np.full((256, 1), 1000, np.uint32)
    np.save(files / "large.npy", large)
    np.save(files / "many.npy", lengths)
    job = {"input": "large.npy", "lengths": "many.npy"}
    jobs = [{"output": "y0.npy"}, job | {"output": "y1.npy", "engine": "processes", "jobs": 2, "verify": True},
            {"output": "y2.npy"}, job | {"output": "y3.npy", "memory": "1MiB"}, job | {"output": "y4.npy", "memory": 9}]  # fmt: skip
    done = revseq("batch", "-", "--json", stdin=lines(*jobs).encode())
    assert [each["exit_status"] for each in reports(done)] == [0] * 4 + [2]
    assert "line 5: large.npy: the memory is 9 bytes" in done.err
    for name in ("y1.npy", "y3.npy"):
        assert oracle.same_bits(np.load(files / name), oracle.reverse(large, lengths, 1))


@pytest.mark.needs("fork")
def test_any_exception_is_its_jobs(revseq, files):
    """Worded, and with -vv shown; never out of the one process that all jobs share."""
    code = """
from revseq_cli.pipeline import passes
real = passes.reverse_into
passes.reverse_into = lambda job, *others: real(job, *others) if job.axis else 1 / 0
"""
    bad = {"output": "y2.npy", "axis": 0, "lengths": "[[1, 1, 1, 1]]"}
    text = lines({"output": "y1.npy"}, bad, {"output": "y3.npy"})
    for verbose in ("-v", "-vv"):
        done = revseq("batch", "-", "--overwrite", verbose, stdin=text.encode(), code=code).failed()
        assert (
            "line 2: internal error: ZeroDivisionError: division by zero\nHint: report it, with"
            in done.err
        )
        assert ("Traceback" in done.err) == (verbose == "-vv")
        assert outputs(files) == {"y1.npy", "y3.npy"}


def test_a_reader_that_leaves_leaves_no_job_undone(files):
    """Neither one of standard output, nor one of standard error."""
    (files / "m.jsonl").write_text(numbered(40) + lines({"input": "absent.npy", "output": "z.npy"}))
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*COMMAND, "batch", "m.jsonl", "--json"],
        cwd=files,
        stdout=writer,
        stderr=writer,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, len(outputs(files))) == (1, 40)


# jobs that end their process, and batches that are ended

# Jobs whose outputs have "die" in their names end their process.
DEADLY = """
import os, signal, time
from revseq_cli.pipeline import passes
real = passes.reverse_into
def reverse(job, sink, *others):
    if "die" in sink.file.name:
        if os.path.exists("y9.npy"):
            os.utime("y9.npy")  # as another program does that writes it
        os.kill(os.getpid(), signal.SIGSEGV if "SEGV" in sink.file.name else signal.SIGKILL)
        time.sleep(1000)  # another thread may be the one that gets the signal, and only later
    return real(job, sink, *others)
passes.reverse_into = reverse
"""


# Jobs that are done while another one dies are told late, or not at all; they run again, and replace what is theirs.
UNTOLD = """
real_write = pool._run_job
def slow(entry, setup, sharing, group):
    done = real_write(entry, setup, sharing, group)
    if sharing and entry.line <= 10:
        time.sleep(0.05)
    return done
pool._run_job = slow
"""


@pytest.mark.needs("fork")
@pytest.mark.parametrize("suffix", ["npy", "zarr"])
def test_h67_a_job_that_ends_its_process(revseq, files, suffix):
    if suffix == "zarr":
        pytest.importorskip("zarr")
    deadly = {0: "SIGSEGV", 7: "SIGKILL", 8: "SIGKILL", 14: "SIGSEGV", 23: "SIGKILL"}
    names = [f"y{i}{f'-die-{deadly[i]}' if i in deadly else ''}.{suffix}" for i in range(24)]
    there = (5, 7, 9) if suffix == "npy" else ()  # a folder is never replaced
    for i in there:
        (files / names[i]).write_bytes(b"old")
    jobs = [{"output": name, "overwrite": i in (5, 7)} for i, name in enumerate(names)]
    done = revseq("batch", "-", "--json", code=MANY + DEADLY + UNTOLD, stdin=lines(*jobs).encode())
    done.failed("(5 jobs): its process died")
    assert [each["output"] for each in reports(done)] == names
    wrong = {
        each["output"]: each["errors"][0]["found"] for each in reports(done) if each["exit_status"]
    }
    taken = {"y9.npy": "exists already"} if there else {}
    assert wrong == {names[i]: "its process died" for i in deadly} | taken
    good = {*names} - wrong.keys()
    assert outputs(files) == good | {names[i] for i in there}
    if there:
        assert (files / names[7]).read_bytes() == (files / names[9]).read_bytes() == b"old"
        assert all(oracle.same_bits(np.load(files / name), EXPECTED) for name in good)


def test_a_temporary_file_that_a_process_still_holds_is_removed_later(tmp_path, monkeypatch):
    """On Windows, the children of a killed worker may have it open for a while."""
    jobs = Pool(
        [Entry(1, {"engine": "auto"}, str(tmp_path / "y.npy"), {}, 0)],
        1,
        dry_run=False,
        shows_errors=False,
    )
    jobs._under_way.add(0)
    left = tmp_path / temporary_pattern(jobs._setup.mark).replace("*", "0")
    left.touch()
    unlink = Path.unlink
    refusals = [PermissionError(13, "in use")] * 2

    def refuse(path, missing_ok=False):
        if path == left and refusals:
            raise refusals.pop()
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    jobs._remove_temporary_files()
    assert not left.exists()


FOREIGN = """
import os, signal
from revseq_cli.pipeline import passes
real = passes.reverse_into
def reverse(job, sink, *others):
    name = sink.file.name
    if name.startswith("y0") and not os.path.exists(name):
        os.mkdir(name)
        open(f"{name}/thesis.txt", "w").write("three years of work")
        os.kill(os.getpid(), signal.SIGKILL)
    return real(job, sink, *others)
passes.reverse_into = reverse
"""


@pytest.mark.needs("fork")
def test_what_another_program_made_meanwhile_stays(revseq, files):
    """A worker dies, and its output's name was free at the beginning: only what is the batch's own is replaced."""
    pytest.importorskip("zarr")
    text = lines({"output": "y0.zarr"}, {"output": "y1.npy"})
    done = revseq("batch", "-", stdin=text.encode(), code=FOREIGN).failed("line 1: y0.zarr: ")
    assert "exists already" in done.err
    assert (files / "y0.zarr" / "thesis.txt").read_text() == "three years of work"
    assert outputs(files) == {"y0.zarr", "y1.npy"}


NAMED_THEN_DEAD = """
import os, signal
from revseq_cli.files import transactions
real = transactions.FileGroup.take_names
def take_names(group):
    real(group)
    if os.path.exists("y3.npy") and not os.path.exists("died"):
        open("died", "w")
        os.kill(os.getpid(), signal.SIGKILL)
transactions.FileGroup.take_names = take_names
"""


@pytest.mark.needs("fork")
def test_outputs_with_names_are_done_though_their_worker_died(revseq, files):
    done = revseq("batch", "-", "--json", stdin=numbered(5).encode(), code=NAMED_THEN_DEAD).ok()
    assert [report["exit_status"] for report in reports(done)] == [0] * 5
    assert (files / "died").exists()
    assert outputs(files) == {f"y{i}.npy" for i in range(5)}


@pytest.mark.needs("links")
@pytest.mark.parametrize("more", [[], ["--resume"]])
def test_a_dangling_link_in_an_output_fails_its_job_only(revseq, files, more):
    """The folder is no store, so it is not replaced."""
    (files / "y0.zarr").mkdir()
    (files / "y0.zarr" / "link").symlink_to("nowhere")
    os.utime(files / "y0.zarr", (1, 1))
    text = lines({"output": "y0.zarr"}, {"output": "y1.npy"})
    done = revseq("batch", "-", *more, stdin=text.encode())
    if not more:
        assert "y0.zarr: exists already" in done.failed().err
    assert outputs(files) == {"y0.zarr", "y1.npy"}


@pytest.mark.needs("signals")
def test_h44_kills_at_random_moments(revseq, files):
    """The parent alone, or all of it; at the end the outputs are those of a batch that nobody killed."""
    count, dice = 60, random.Random(1)
    (files / "m.jsonl").write_text(numbered(count))
    for kill in (os.kill, os.killpg):
        command = [*COMMAND, "batch", "m.jsonl", "--resume"]
        with subprocess.Popen(
            command, cwd=files, stdout=-1, stderr=-1, start_new_session=True
        ) as process:
            target = min(count, len(list(files.glob("y*.npy"))) + dice.randrange(1, 20))
            until(lambda: process.poll() is not None or len(list(files.glob("y*.npy"))) >= target)  # noqa: B023
            if process.poll() is None:
                kill(process.pid, signal.SIGKILL)
            process.communicate()
        until(lambda: not members(process.pid))
    revseq("batch", "m.jsonl", "--resume").ok()
    for i in range(count):
        assert oracle.same_bits(np.load(files / f"y{i}.npy"), EXPECTED)


def started(folder, *jobs):
    """A batch of large jobs, as soon as one has a temporary file."""
    np.save(folder / "x.npy", np.zeros((1 << 12, 1 << 12), np.float32))
    np.save(folder / "n.npy", np.full((1 << 12, 1), 9, np.uint32))
    (folder / "m.jsonl").write_text(lines(*jobs))
    process = subprocess.Popen(
        [*COMMAND, "batch", "m.jsonl"], cwd=folder, stdout=-1, stderr=-1, start_new_session=True
    )
    until(lambda: any(folder.glob(".revseq-*.tmp")))
    return process


@pytest.mark.needs("signals")
@pytest.mark.parametrize("number", existing_signals("SIGINT", "SIGTERM"))
def test_a_signal_while_jobs_are_under_way(files, number):
    """One is enough, also where the workers can do nothing; what they had begun is removed."""
    process = started(files, *({"output": f"y{i}.npy", "memory": "1M"} for i in range(20)))
    children = [pid for pid in members(process.pid) if pid != process.pid]
    assert children
    for child in children if number == signal.SIGTERM else []:
        os.kill(child, signal.SIGSTOP)
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == -number
    assert err == b""
    until(lambda: not members(process.pid))
    assert not [name for name in outputs(files) if name.startswith(".revseq")]


@pytest.mark.needs("ps")
@pytest.mark.parametrize("stopped", [False, True])
def test_h47_no_process_of_the_jobs_without_its_parent(files, stopped):
    """Also where they are stopped, and where jobs have processes of their own."""
    kinds = {"memory": "1M"}, {"engine": "processes", "jobs": 2}
    process = started(files, *({"output": f"y{i}.npy"} | kinds[not i % 2] for i in range(20)))
    if stopped:  # but for one that has just been forked: it cannot yet know that it is to end with its parent
        old = {*members(process.pid)} - {process.pid}
        time.sleep(0.2)
        for child in old & {*members(process.pid)}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGSTOP)
    process.kill()
    process.communicate(timeout=60)
    until(lambda: not members(process.pid))


def test_a_tensor_and_a_list_are_no_manifests(revseq, files):
    revseq("batch", "x.npy").refused("x.npy: a tensor, not a manifest", "revseq run x.npy\n")
    listed = revseq("batch", "-", "--axis", 1, "--padding", 0, stdin=b"x.npy\nn.npy\n")
    listed.refused("'x.npy' is the name of a file", f"-o {platform.quote('out/{stem}.npy')}\n")


@pytest.mark.parametrize("cut", [1, 2, 7, 20, 60])
def test_an_incomplete_entry_of_the_journal(cut):
    journal = pool._Journal()
    first = pool._Finished(0, (1, 2), pool.Outcome(1, "x.npy", None))
    last = pool._Finished(1, (1, 3), pool.Outcome(2, "y.npy", None))
    pool._write_journal(journal.path, [first])
    size = os.path.getsize(journal.path)
    pool._write_journal(journal.path, [first])
    os.truncate(journal.path, 2 * size - 1 - cut)
    pool._write_journal(journal.path, [last])
    assert [*journal.read()] == [first, last]
