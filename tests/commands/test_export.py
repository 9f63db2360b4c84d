"""A job on its way to DxDispatch and back: what must travel, in which archive, what to type, and what comes back."""

import io
import itertools
import json
import os
import shutil
import zipfile
from pathlib import Path

import dxdispatch
import numpy as np
import oracle
import pytest
from folders import content, names
from needs import WINDOWS
from tensor_files import held

from revseq_cli.core.errors import FormatError
from revseq_cli.core.tensors import DataType
from revseq_cli.formats import npy
from revseq_cli.formats.archives import MemberSink, NewArchive
from revseq_cli.formats.atomic_file import AtomicFile, FileTransaction
from revseq_cli.pipeline import jobs
from revseq_cli.pipeline.assembly import Request
from revseq_cli.porting import exports

ROLES = ("InputTensor", "SequenceLengthsTensor")
OURS = [f"model.{role}.npy" for role in ROLES]
TARGET = "model.OutputTensor.npy"


# what must travel, and what comes back


@pytest.mark.parametrize(
    ("data_type", "ways"),
    [
        *itertools.product(oracle.DATA_TYPES[::3], [("--files",), ("--inline",)]),
        *itertools.product([DataType.FLOAT16], [(), ("--zip",), ("--zip", "--files")]),
    ],
)
def test_there_and_back(revseq, tmp_path, data_type, ways):
    rng = np.random.default_rng(17)
    values = oracle.random_values(rng, (3, 5), data_type)
    lengths = rng.integers(0, 8, (3, 1)).astype(np.uint32)
    if "--inline" in ways and data_type.kind == "float":
        values = values.astype("f8").astype(values.dtype)  # a model has one word for NaN
        values[np.isnan(values)] = 1.5
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    np.save(here / "x.npy", values)
    np.save(here / "n.npy", lengths)
    done = revseq("export", "x.npy", "n.npy", "--axis", 1, "-o", "model.json", "--json", *ways, cwd=here).ok()
    report = json.loads(done.out)
    assert report["command"] == "dxdispatch.exe model.json"
    assert report["comparison"] == f"revseq diff {TARGET} --job model.json"
    for file in report["files"]:
        assert file["bytes"] == (here / file["path"]).stat().st_size
        assert file["written"] == (file["path"] not in ("x.npy", "n.npy"))
        shutil.copy(here / file["path"], there)
    if "--zip" in ways:
        assert names(there) == {"model.zip"}
        with zipfile.ZipFile(there / "model.zip") as archive:
            assert archive.testzip() is None
            assert {*archive.namelist()} == {*report["members"]}
            archive.extractall(there)
    elif "--files" in ways:
        assert names(there) == {"model.json", "x.npy", "n.npy"}
    printed = dxdispatch.run(there, "model.json")
    expected = oracle.reverse(values, lengths, 1)
    assert oracle.same_bits(printed.reshape(expected.shape), expected)
    shutil.copy(there / TARGET, here)
    np.save(here / "right.npy", expected)
    done = revseq("diff", report["result"], "right.npy", cwd=here).ok()
    assert "equal, 15 elements" in done.out
    assert ("padding" in done.err) == (data_type.size < 4)


def test_what_is_printed_of_a_model_in_another_folder(revseq, files):
    (files / "sub").mkdir()
    (files / "n.npy").rename(files / "sub/n.npy")
    done = revseq("export", "x.npy", "sub/n.npy", "--axis", 1, "-o", "sub/m.json", "--files").ok()
    out = done.out.replace(os.sep, "/")
    size = (files / "sub/m.json").stat().st_size
    assert out.startswith(
        "wrote sub/m.json, sub/m.InputTensor.npy\n"
        "Copy into one folder on Windows:\n"
        f"  sub/m.json             {size:,} bytes\n"
        "  sub/m.InputTensor.npy    176 bytes\n"
        "  sub/n.npy                140 bytes\n"
        "Type there:\n"
        "  dxdispatch.exe m.json\n"
    )
    assert out.endswith("  revseq diff sub/m.OutputTensor.npy --job sub/m.json\n")
    assert revseq("export", "x.npy", "sub/n.npy", "--axis", 1, "-o", "q.json", "-q").ok().out == ""


@pytest.mark.parametrize(
    ("name", "there", "here"),
    [
        ("my job", '"my job.json"', "revseq diff 'my job.OutputTensor.npy' --job 'my job.json'"),
        ("a&b", '"a&b.json"', "revseq diff 'a&b.OutputTensor.npy' --job 'a&b.json'"),
        ("-m", ".\\-m.json", "revseq diff ./-m.OutputTensor.npy --job ./-m.json"),
        ("m_1-b", "m_1-b.json", "revseq diff m_1-b.OutputTensor.npy --job m_1-b.json"),
    ],
)
def test_names_that_need_quotes(revseq, files, name, there, here):
    done = revseq("export", "x.npy", "n.npy", "--axis", 1, "-o", f"{name}.json", "--json").ok()
    report = json.loads(done.out)
    here = here.replace("'", '"') if WINDOWS else here
    assert (report["command"], report["comparison"]) == (f"dxdispatch.exe {there}", here)


def test_small_results_are_printed_too(revseq, tmp_path):
    for count, kinds in ((1000, ["dispatch", "writeFile", "print"]), (1001, ["dispatch", "writeFile"])):
        np.save(tmp_path / "x.npy", np.zeros((1, count), np.float32))
        revseq("export", "x.npy", "[[3]]", "--axis", 1, "-o", "m.json", "--inline", "--overwrite").ok()
        assert [each["type"] for each in json.loads((tmp_path / "m.json").read_text())["commands"]] == kinds
        revseq("run", "m.json", "-o", "y.npy", "--overwrite").ok()


@pytest.mark.parametrize("commands", [["print"], ["writeFile"], ["print", "writeFile"], []])
def test_models_with_other_commands_are_read(revseq, files, commands):
    revseq("export", "x.npy", "n.npy", "--axis", 1, "-o", "model.json").ok()
    model = json.loads((files / "model.json").read_text())
    dispatch, *others = model["commands"]
    model["commands"] = [dispatch, *(each for kind in commands for each in others if each["type"] == kind)]
    (files / "model.json").write_text(json.dumps(model))
    assert revseq("run", "model.json").ok().out == revseq("run", "x.npy", "n.npy", "--axis", 1).ok().out


def test_with_leading_sizes_of_1_the_files_are_new(revseq, files):
    """Those that are there have other sizes in their headers."""
    job = ("x.npy", "n.npy", "--axis", 1, "--rank", 4)
    done = revseq("export", *job, "-o", "model.json", "--files", "--json").ok()
    assert [each["path"] for each in json.loads(done.out)["files"]] == ["model.json", *OURS]
    dxdispatch.run(files, "model.json")
    revseq("run", *job, "-o", "y.npy").ok()
    assert "{1,1,3,4}" in revseq("diff", TARGET, "y.npy").ok().out


def test_one_file_is_both_tensors(revseq, tmp_path):
    np.save(tmp_path / "x.npy", np.ones((1, 1), np.uint32))
    done = revseq("export", "x.npy", "x.npy", "--axis", 1, "-o", "m.json", "--files", "--json").ok()
    assert [each["path"] for each in json.loads(done.out)["files"]] == ["m.json", "x.npy"]


def test_a_padded_input_is_named_as_it_is(revseq, tmp_path):
    """DxDispatch takes all bytes behind the header, which is as many as the buffer has."""
    values, lengths = np.arange(3, dtype=np.float16).reshape(1, 3), np.array([[2]], np.uint32)
    dxdispatch.write_npy(tmp_path / "x.npy", values.tobytes() + b"\xaa\xbb", values.dtype, (1, 3))
    done = revseq("export", "x.npy", "[[2]]", "--axis", 1, "-o", "model.json", "--files", "--json").ok()
    assert "padding of 2 bytes" in done.err
    assert "padding of 2 bytes" in json.loads(done.out)["notes"][0]
    dxdispatch.run(tmp_path, "model.json")
    np.save(tmp_path / "right.npy", oracle.reverse(values, lengths, 1))
    revseq("diff", TARGET, "right.npy").ok()
    assert revseq("run", "model.json").ok().out == revseq("run", "right.npy", "[[0]]", "--axis", 1).ok().out


def test_names_outside_of_ascii_are_noted(revseq, files):
    done = revseq("export", "x.npy", "n.npy", "--axis", 1, "-o", "modèle.json").ok()
    assert "Note: DxDispatch may not find modèle.OutputTensor.npy" in done.err
    assert revseq("run", "modèle.json").ok().err == ""


# what is in the way


@pytest.mark.parametrize("way", ["--inline", "--files"])
def test_dxdispatch_would_write_over_an_input(revseq, files, way):
    (files / "x.npy").rename(files / TARGET)
    before = content(files)
    done = revseq("export", TARGET, "n.npy", "--axis", 1, "-o", "model.json", way)
    done.refused(f"{TARGET}: DxDispatch would write its result over it", "rename it")
    assert content(files) == before
    revseq("export", TARGET, "n.npy", "--axis", 1, "-o", "model.json", "--zip").ok()
    revseq("export", TARGET, "n.npy", "--axis", 1, "-o", "other.json", way).ok()


def test_a_result_from_before_is_noted(revseq, files):
    (files / TARGET).write_bytes(b"old")
    done = revseq("export", "x.npy", "n.npy", "--axis", 1, "-o", "model.json").ok()
    assert done.err == f"Note: {TARGET} exists already, and DxDispatch would replace it\n"
    assert (files / TARGET).read_bytes() == b"old"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("-o", "model.zip"), ("model.zip: a model is JSON", "add --zip")),
        (("-o", "model.JSON"), ("in lower case", "add -o model.json")),
        (("-o", "model.txt"), ("model.txt: a model is JSON", "add -o model.json")),
        (("-o", "no/model.json"), ("no such folder",)),
        (("-o", "old.json"), ("old.json: already exists", "--overwrite")),
        (("-o", "folder/taken.json", "--files"), ("taken.InputTensor.npy: already exists",)),
        (("-o", "model.json", "--axis", 2), ("Axis is 2", "Hint: revseq export x.npy n.npy -o model.json --axis 1\n")),
        (("-o", "model.json", "--feature-level", "none"), ("lifts DirectML's limits",)),
        (("-o", "model.txt", "--zip"), ("ends in .json or .zip", "add -o model.zip")),
        (("-o", "old.zip", "--zip"), ("old.zip: already exists", "--overwrite")),
        (("-o", "old.json", "--zip"), ("old.zip: already exists", "--overwrite")),
        (("-o", "no/model.json", "--zip"), ("no such folder",)),
        (("-o", "folder.zip", "--zip", "--overwrite"), ("folder.zip: is a directory",)),
        (("-o", "model.json", "--zip", "--feature-level", "3_0"), ("dimension count is 2",)),
    ],
)
def test_refused_before_anything_is_written(revseq, files, args, words):
    for name in ("folder", "folder.zip"):
        (files / name).mkdir()
    for name in ("old.zip", "old.json", "folder/taken.InputTensor.npy"):
        (files / name).write_bytes(b"old")
    before = content(files) | content(files / "folder")
    axis = () if "--axis" in args else ("--axis", 1)
    revseq("export", "x.npy", "n.npy", *axis, *args).refused(*words)
    assert content(files) | content(files / "folder") == before


def unpacked(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pack(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def test_an_archive_is_not_written_over_an_input(revseq, files):
    pack(files / "model.zip", {"x.npy": (files / "x.npy").read_bytes()})
    before = content(files)
    done = revseq("export", "model.zip", "n.npy", "-f", "npz", "--axis", 1, "-o", "m.json")
    assert done.status == 2  # -f is about both inputs
    revseq("convert", "n.npy", "n.npz").ok()
    job = ("model.zip", "n.npz", "-f", "npz", "--axis", 1)
    revseq("export", *job, "-o", "model.json", "--zip", "--overwrite").refused("model.zip: is an input of this job")
    revseq("export", *job, "-o", "other.json", "--zip").ok()
    assert content(files).items() >= before.items()


@pytest.mark.parametrize("way", ["--files", "--zip"])
def test_an_input_that_changes_meanwhile(revseq, files, way):
    (files / "sub").mkdir()
    code = "import os, revseq_cli.porting.exports as e; f = e.copy; e.copy = lambda *a: (f(*a), os.utime('x.npy', ns=(1, 1)))"
    job = ("export", "x.npy", "n.npy", "--axis", 1, "-o", "sub/model.json", "--files", way)
    revseq(*job, code=code).refused("x.npy: changed while it was read")
    assert names(files / "sub") == set()


def test_the_model_gets_its_name_last(files, monkeypatch):
    named = []
    take_name = AtomicFile.take_name
    monkeypatch.setattr(AtomicFile, "take_name", lambda file: (named.append(Path(file.name).name), take_name(file)))
    (files / "sub").mkdir()
    job = jobs.load(Request(str(files / "x.npy"), str(files / "n.npy"), 1))
    exports.write(job, files / "sub" / "model.json", False, zipped=False, overwrite=False)
    assert {*named[:-1]} == {*OURS}
    assert named[-1] == "model.json"


# one archive


def test_the_archive_is_the_same_each_time(revseq, files):
    for name in ("a", "b"):
        (files / name).mkdir()
        revseq("export", "x.npy", "n.npy", "--axis", 1, "-o", f"{name}/model.zip", "--zip", "--files").ok()
    assert (files / "a/model.zip").read_bytes() == (files / "b/model.zip").read_bytes()
    with zipfile.ZipFile(files / "a/model.zip") as archive:
        assert archive.namelist() == [*OURS, "model.json"]
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
        for name, own in zip(OURS, ("x.npy", "n.npy"), strict=True):
            assert oracle.same_bits(np.load(io.BytesIO(archive.read(name))), np.load(files / own))


def test_large_tensors_of_other_layouts_go_into_the_archive(revseq, tmp_path):
    """Many blocks, in Fortran order and big-endian, and lengths that are cast and repeated on the way."""
    values = np.asfortranarray(oracle.random_values(np.random.default_rng(3), (300, 7, 50), oracle.DATA_TYPES[0]))
    np.save(tmp_path / "x.npy", values.astype(values.dtype.newbyteorder(">")))
    np.save(tmp_path / "n.npy", np.arange(300))
    options = ("--axis", 1, "--batch-axis", 0, "--lengths-dtype", "UINT32")
    revseq("export", "x.npy", "n.npy", *options, "-o", "model.json", "--zip").ok()
    assert names(tmp_path) == {"x.npy", "n.npy", "model.zip"}
    (tmp_path / "there").mkdir()
    with zipfile.ZipFile(tmp_path / "model.zip") as archive:
        archive.extractall(tmp_path / "there")
    assert dxdispatch.run(tmp_path / "there", "model.json") is None
    revseq("run", "x.npy", "n.npy", *options, "-o", "y.npy").ok()
    revseq("diff", f"there/{TARGET}", "y.npy").ok()
    revseq("run", "there/model.json", "-o", "z.npy").ok()
    revseq("diff", "z.npy", "y.npy").ok()


def test_an_old_archive_stays_until_the_new_one_is_complete(revseq, files):
    np.save(files / "i.npy", np.full((3, 1), -1))
    job = ("export", "x.npy", "i.npy", "--axis", 1, "--lengths-dtype", "UINT32", "-o", "model.json", "--zip")
    revseq(*job, "--files").refused("-1 at [0, 0] does not fit UINT32")
    assert names(files) == {"x.npy", "n.npy", "i.npy"}
    (files / "model.zip").write_bytes(b"old")
    revseq(*job, "--files", "--overwrite").refused("does not fit")
    assert (files / "model.zip").read_bytes() == b"old"
    revseq("export", "x.npy", "n.npy", "--axis", 1, "-o", "model.json", "--zip", "--overwrite").ok()
    assert zipfile.is_zipfile(files / "model.zip")


def test_large_archives_take_64_bits(tmp_path, monkeypatch):
    """With a limit of 100 bytes instead of 4 GiB, every size and offset is in the field for 64 bits."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    values = [np.arange(count, dtype=np.int64) for count in (1, 50, 3)]
    file = AtomicFile(str(tmp_path / "x.zip"), overwrite=False)
    archive = NewArchive(file)
    sources = [*map(held, values)]
    sinks = [MemberSink(archive, archive.place(f"{i}.npy", source)) for i, source in enumerate(sources)]
    with FileTransaction(file):
        for source, sink in zip(sources, sinks, strict=True):
            with sink:
                region = (slice(0, *source.sizes),)
                sink.receive(sink.block_writer(region).deliver(region, source.read()))
                assert np.array_equal(sink.written().read(), source.read())
        archive.finish({"model.json": b"x" * 1000})
    with zipfile.ZipFile(tmp_path / "x.zip") as written:
        assert written.testzip() is None
        assert written.read("model.json") == b"x" * 1000
        assert [info.extract_version for info in written.infolist()] == [45] * 4
        for i, each in enumerate(values):
            assert np.array_equal(np.load(io.BytesIO(written.read(f"{i}.npy"))), each)


# files that come back


HALF = DataType.FLOAT16


def padded(path, data_type, count, padding, **changes):
    """A .npy of so many elements, and so many bytes behind them."""
    values = oracle.random_values(np.random.default_rng(count), (count,), data_type)
    dtype = values.dtype
    if changes.get("big"):
        values = values.astype(dtype.newbyteorder(">"))
    if changes.get("numpy"):
        file = io.BytesIO()
        np.lib.format.write_array(file, values.reshape(changes.get("sizes", (count,)), order="F"), changes["numpy"])
        path.write_bytes(file.getvalue() + bytes(padding))
    else:
        dxdispatch.write_npy(path, values.tobytes() + b"\xee" * padding, dtype, (count,))
    return values


@pytest.mark.parametrize("data_type", oracle.DATA_TYPES)
def test_padding_of_exactly_4_bytes(tmp_path, data_type):
    """Of 0 to 5 bytes behind the elements, those are accepted that fill up 4; from a file and from a pipe."""
    path = tmp_path / "x.npy"
    for count, padding in itertools.product(range(1, 5), range(6)):
        right = -count * data_type.size % 4
        values = padded(path, data_type, count, padding)
        for name, read in (
            (str(path), lambda: npy.NpySource(str(path))),
            ("standard input", lambda: npy.from_stream("standard input", io.BytesIO(path.read_bytes())).source(None)),
        ):
            if padding not in (0, right):
                with pytest.raises(FormatError, match="bytes after its last element"):
                    read()
                continue
            size = f"{padding} byte{'s' * (padding > 1)}"
            note = f"{name}: padding of {size} after the last element is ignored; DxDispatch writes it"
            assert read().notes == ((note,) if padding else ())
            assert oracle.same_bits(read().read(), values)


def test_padding_comes_through_a_pipe(revseq, tmp_path):
    for count in (3, 9001):
        values = padded(tmp_path / "x.npy", HALF, count, 2)
        done = revseq("convert", "-", "y.npy", "--overwrite", stdin=(tmp_path / "x.npy").read_bytes()).ok()
        assert done.err.startswith("Note: standard input: padding of 2 bytes")
        assert oracle.same_bits(np.load(tmp_path / "y.npy"), values)
        assert (tmp_path / "y.npy").stat().st_size == 128 + values.nbytes
        more = (tmp_path / "x.npy").read_bytes() + b"!"
        revseq("convert", "-", "z.npy", stdin=more).refused("3 bytes after its last element")


@pytest.mark.parametrize(
    "changes",
    [{"numpy": (2, 0)}, {"numpy": (3, 0)}, {"big": True, "numpy": (1, 0)}, {"numpy": (1, 0), "sizes": (5, 3)}],
)
def test_what_dxdispatch_never_writes_is_not_padded(revseq, tmp_path, changes):
    padded(tmp_path / "x.npy", HALF, 15, 0, **changes)
    revseq("show", "x.npy").ok()
    padded(tmp_path / "x.npy", HALF, 15, 2, **changes)
    revseq("show", "x.npy").refused("2 bytes after its last element")
    padded(tmp_path / "x.npy", HALF, 15, 2, numpy=(1, 0))
    revseq("show", "x.npy").ok()


@pytest.mark.parametrize("dtype", ["?", "V1", "V2"])
def test_types_that_dxdispatch_lacks_are_not_padded(revseq, tmp_path, dtype):
    np.save(tmp_path / "x.npy", np.zeros(3, dtype))
    with open(tmp_path / "x.npy", "ab") as file:
        file.write(bytes(-3 * np.dtype(dtype).itemsize % 4))
    asked = {"?": (), "V1": ("--dtype", "FLOAT8_E5M2"), "V2": ("--dtype", "BFLOAT16")}[dtype]
    revseq("show", "x.npy", *asked).refused("bytes after its last element")


def test_a_padded_member_of_an_archive_is_refused(revseq, tmp_path):
    padded(tmp_path / "x.npy", HALF, 3, 2)
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(tmp_path / "x.npz", "w", method) as archive:
            archive.write(tmp_path / "x.npy", "x.npy")
        revseq("show", "x.npz").refused("x.npz::x: has 2 bytes after its last element")


def test_every_command_notes_the_padding(revseq, tmp_path):
    padded(tmp_path / "x.npy", HALF, 3, 2)
    np.save(tmp_path / "n.npy", np.array([2], np.uint32))
    note = "x.npy: padding of 2 bytes after the last element is ignored; DxDispatch writes it"
    job = ("x.npy", "n.npy", "--axis", 0)
    for args in (
        ("run", *job), ("run", *job, "-f", "npy"), ("run", *job, "-o", "y.npy"), ("convert", "x.npy", "z.npy"),
        ("convert", "x.npy", "-"), ("diff", "x.npy", "z.npy"), ("export", *job, "-o", "m.json"),
    ):  # fmt: skip
        assert revseq(*args).ok().err.count(note) == 1, args
    assert note not in revseq("run", "m.json").ok().err
    assert note in revseq("show", "x.npy").ok().out
    assert note in " ".join(revseq("check", *job).ok().out.split())
    outputs = ("run", *job, "-o", "a.npy"), ("convert", "x.npy", "b.npy"), ("export", *job, "-o", "c.json")
    for args in (*outputs, ("diff", "x.npy", "z.npy"), ("check", *job)):
        assert json.loads(revseq(*args, "--json").ok().out)["notes"] == [note]
    assert json.loads(revseq("show", "x.npy", "--json").ok().out)["tensors"][0]["notes"] == [note]
    (tmp_path / "jobs.jsonl").write_text('{"input": "x.npy", "lengths": "n.npy", "axis": 0, "output": "d.npy"}\n')
    assert json.loads(revseq("batch", "jobs.jsonl", "--json").ok().out)["notes"] == [note]


def test_padded_lengths_that_are_cast_and_widened(revseq, tmp_path):
    counts = np.array([2, 1, 3], np.int16)
    dxdispatch.write_npy(tmp_path / "n.npy", counts.tobytes() + b"\xee\xee", counts.dtype, (3,))
    options = ("--axis", 1, "--batch-axis", 0, "--lengths-dtype", "UINT32")
    done = revseq("run", "[[1, 2, 3], [4, 5, 6], [7, 8, 9]]", "n.npy", *options).ok()
    assert done.out.endswith("[[2, 1, 3],\n [4, 5, 6],\n [9, 8, 7]]\n")
    assert done.err.count("n.npy: padding of 2 bytes") == 1


def test_a_padded_file_that_changes_is_noticed(revseq, tmp_path):
    """Its size belongs to what is held against the file at the end."""
    padded(tmp_path / "x.npy", HALF, 3, 2)
    change = "c.copy = lambda *a: (f(*a), os.truncate('x.npy', 134))"
    code = f"import os, revseq_cli.pipeline.tasks as c; f = c.copy; {change}"
    revseq("convert", "x.npy", "y.npy", code=code).refused("changed while it was read")
    assert not os.path.exists(tmp_path / "y.npy")


@pytest.mark.parametrize("where", [(), ("--files",)])
def test_an_archive_of_a_job_is_that_job(revseq, files, where):
    revseq("export", "x.npy", "n.npy", "--axis", 1, "-o", "job.zip", "--zip", *where).ok()
    revseq("run", "x.npy", "n.npy", "--axis", 1, "-o", "right.npy").ok()
    before = names(files)
    revseq("diff", "right.npy", "--job", "job.zip").ok()
    assert "all 12 constraints hold" in revseq("check", "job.zip").ok().out
    assert names(files) == before
    revseq("run", "job.zip", "-o", "y.npy").ok()
    assert (files / "y.npy").read_bytes() == (files / "right.npy").read_bytes()


def test_archives_of_something_else(revseq, files):
    revseq("export", "x.npy", "n.npy", "--axis", 1, "-o", "job.zip", "--zip", "--files").ok()
    members = unpacked(files / "job.zip")
    model = members.pop("job.json")
    for made, words in (
        (members, ("job.zip: has 2 tensors",)),
        (members | {"a.json": model, "b.json": model}, ("job.zip: has 2 tensors",)),
        (members | {"a.json": b"{}"}, ("job.zip: has 2 tensors",)),
        ({"job.json": model}, ("job.zip", "job.InputTensor")),
        (members | {"job.json": model[:-40]}, ("job.zip::job.json",)),
    ):
        pack(files / "job.zip", made)
        revseq("run", "job.zip", "-o", "y.npy").refused(*words)


@pytest.mark.parametrize("data_type", [DataType.FLOAT16, DataType.INT8, DataType.UINT32])
def test_what_the_operator_never_wrote_is_told(revseq, files, data_type):
    values = np.arange(1, 13).reshape(3, 4).astype(data_type.name.lower())
    np.save(files / "x.npy", values)
    revseq("export", "x.npy", "n.npy", "--axis", 1, "-o", "model.json").ok()
    blank = json.loads((files / "model.json").read_text())["resources"]["OutputTensor"]["initialValues"]
    made = oracle.reverse(values, np.load(files / "n.npy"), 1)
    made[2:] = blank["value"]
    np.save(files / "out.npy", made)
    done = revseq("diff", "out.npy", "--job", "model.json").failed()
    assert f"explained by: never written: {blank['value']}, as exported models begin with" in done.out


@pytest.mark.parametrize("name", ["../x.npy", "/x.npy", "a/../x.npy", "..\\x.npy", "C:x.npy", "\\x.npy"])
@pytest.mark.parametrize("of_the_model", [False, True])
def test_names_that_lead_out_of_an_archive(revseq, files, name, of_the_model):
    """Of a member, and of the model itself: no program that unpacks it agrees with another about where that is."""
    revseq("export", "x.npy", "n.npy", "--axis", 1, "-o", "job.zip", "--zip", "--files").ok()
    members = unpacked(files / "job.zip")
    if of_the_model:
        members[f"{name}.json"] = members.pop("job.json")
    else:
        members[name] = members.pop("job.InputTensor.npy")
        model = members["job.json"].replace(b'"job.InputTensor.npy"', json.dumps(name).encode())
        assert model != members["job.json"]
        members["job.json"] = model
    pack(files / "job.zip", members)
    wanted = "wanted: names inside the archive, without a leading /, .. or a drive"
    revseq("check", "job.zip").refused("has the member" if of_the_model else "sourcePath is", wanted)
