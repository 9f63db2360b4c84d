"""Nobody let in, nothing lost: strangers in the folder, streams that are files of the job, and files made to hurt."""

import errno
import io
import json
import os
import time

import h5py
import numpy as np
import pytest
import zarr
from faults import refusing
from safetensors.numpy import save_file
from tensor_files import open_

from revseq_cli.core.errors import TensorIOError
from revseq_cli.files import local, new
from revseq_cli.files.new import NewLocalFile
from revseq_cli.files.transactions import FileTransaction

X = np.arange(1, 13, dtype=np.float32).reshape(3, 4)


@pytest.mark.needs("shell")
@pytest.mark.parametrize("name", ["signal", "multiprocessing"])
def test_no_code_of_the_current_folder_runs(files, name, shell):
    with h5py.File(files / "x.h5", "w") as f:
        f["x"] = X
    (files / f"{name}.py").write_text("open('ran', 'w')")
    done = shell("revseq run x.h5 n.npy --axis 1 -o y.h5 --engine processes --jobs 2", anew=True)
    assert (done.status, done.err) == (0, "")
    assert not (files / "ran").exists()


MAKERS = {
    "x.npy": lambda path: np.save(path, X),
    "x.npz": lambda path: np.savez(path, x=X),
    "x.h5": lambda path: h5py.File(path, "w").create_dataset("x", data=X).file.close(),
    "x.safetensors": lambda path: save_file({"x": X}, path),
    "x.txt": lambda path: path.write_text(str(X.tolist())),
    "x.zarr": lambda path: zarr.create_array(str(path), name="x", data=X),
}


def _bytes_of(folder):
    return {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()}


OUTPUTS = [
    *((f"run {name} n.npy --axis 1 -f npy >>", name) for name in MAKERS if name != "x.zarr"),
    *(("run x.zarr n.npy --axis 1 -f npy >>", f"x.zarr/{part}") for part in ("x/c/0/0", "x/zarr.json", "zarr.json")),
    ("convert x.npy y.npy --json >>", "x.npy"), ("show x.npy 1<>", "x.npy"), ("batch m.jsonl --json >>", "x.npy"),
    ("run - n.npy --axis 1 -f npy < x.npy >>", "x.npy"),
]  # fmt: skip


@pytest.mark.needs("shell")
@pytest.mark.parametrize(("line", "place"), OUTPUTS)
def test_h35_standard_output_is_an_input(files, line, place, shell):
    """Not even the error is written into it."""
    for name, make in MAKERS.items():
        make(files / name)
    jobs = [
        {"input": f"{name}.npy", "lengths": "[[1], [1], [1]]", "axis": 1, "output": f"y{name}.npy"}
        for name in "nx"
    ]
    (files / "m.jsonl").write_text("".join(json.dumps(job) + "\n" for job in jobs))
    before = _bytes_of(files)
    done = shell(f"revseq {line} {place}")
    assert (done.status, "standard output goes there" in done.err) == (2, True)
    assert _bytes_of(files) == before


@pytest.mark.needs("shell")
@pytest.mark.parametrize(
    "line", ["run - n.npy --axis 1 -o x.npy --overwrite", "convert - x.npy --overwrite"]
)
def test_h35_standard_input_is_the_output(files, line, shell):
    before = (files / "x.npy").read_bytes()
    done = shell(f"revseq {line} < x.npy")
    assert done.status == 2
    assert "x.npy: the output is also an input" in done.err
    assert (files / "x.npy").read_bytes() == before


@pytest.mark.parametrize("suffix", ["npy", "zarr"])
def test_a_time_that_was_put_back_hides_no_change(tmp_path, suffix):
    path = tmp_path / "x.npy"
    np.save(path, X)
    if suffix == "zarr":
        zarr.save_array(tmp_path / "x.zarr", X, zarr_format=3)
        path = tmp_path / "x.zarr/c/0/0"
    source = open_(tmp_path / f"x.{suffix}")
    time.sleep(0.05)  # more than a tick of the system's clock, before which nothing can be seen
    status = path.stat()
    with open(path, "r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"\1\2\3\4")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    for read in [source.read, source.recheck] if suffix == "npy" else [source.recheck]:
        with pytest.raises(TensorIOError, match="changed while it was read"):
            read()


@pytest.mark.needs("shell", "modes", "superuser")
@pytest.mark.parametrize(("mode", "kept"), [(0o640, 0o640), (0o4755, 0o755)])
def test_owner_and_rights_of_a_replaced_file_are_kept(tmp_path, mode, kept, shell):
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "y.npy").touch()
    os.chown(tmp_path / "y.npy", 4242, 4243)
    (tmp_path / "y.npy").chmod(mode)
    assert shell("revseq convert x.npy y.npy --overwrite").status == 0
    status = (tmp_path / "y.npy").stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (4242, 4243, kept)


@pytest.mark.needs("modes")
@pytest.mark.parametrize("number", [errno.EPERM, errno.EINVAL, errno.EOPNOTSUPP])
def test_rights_are_not_given_to_another_group(tmp_path, monkeypatch, number):
    """What the old group might do, the new one may only where all may; some systems know no groups at all."""
    (tmp_path / "old").touch()
    (tmp_path / "old").chmod(0o664)
    (tmp_path / "new").touch()
    monkeypatch.setattr(os, "fchown", refusing(number))
    local.flush_file(str(tmp_path / "new"), (tmp_path / "old").stat())
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o644


@pytest.mark.needs("links")
@pytest.mark.parametrize("data", [b"yours", b""])
def test_a_link_in_the_place_of_a_new_file_is_not_followed(tmp_path, data):
    """Neither when it is written, nor when it is flushed and gets its name."""

    def tricked():
        file = NewLocalFile(str(tmp_path / "y.npy"), overwrite=True)
        with FileTransaction(file):
            os.rename(file.temporary, tmp_path / "stolen")
            os.symlink(tmp_path / "victim", file.temporary)
            if data:
                file.write(data)

    (tmp_path / "victim").write_bytes(b"mine")
    with pytest.raises(TensorIOError, match="cannot write"):
        tricked()
    assert (tmp_path / "victim").read_bytes() == b"mine"
    assert not (tmp_path / "y.npy").exists()


def test_files_that_belong_together_are_all_old_or_all_new(files, monkeypatch):
    names = ("a.npy", "b.npy", "c.npy")
    for name in names:
        (files / name).write_bytes(b"old")
    before = _bytes_of(files)

    def written():
        together = [NewLocalFile(str(files / name), overwrite=True) for name in names]
        with FileTransaction(*together):
            for file in together:
                file.write(b"new")

    flush = local.flush_file
    for number in range(3):
        results = iter([flush] * number + [refusing(errno.EIO)])
        monkeypatch.setattr(new, "flush_file", lambda *args, results=results: next(results)(*args))
        with pytest.raises(TensorIOError, match="Input/output error"):
            written()
        assert _bytes_of(files) == before
    monkeypatch.undo()
    written()
    assert _bytes_of(files) == before | {files / name: b"new" for name in names}


header = json.dumps(
    {"x": {"dtype": "F32", "shape": [1 << 62] * 100_000, "data_offsets": [0, 0]}}
).encode()
HOSTILE = {
    "x.safetensors": lambda: len(header).to_bytes(8, "little") + header,
    "x.json": lambda: json.dumps({"Sizes": [10**18 - 1] * 500_000, "Values": [1]}).encode(),
    "x.txt": lambda: b"InputTensor:" + b" " * 2_000_000 + b"x",
    "y.txt": lambda: b"- InputTensor" + b" " * 2_000_000 + b"= " + b" \t" * 1_000_000 + b"(",
    "z.txt": lambda: b"T: (Sizes:{" + b"1," * 1_000_000 + b"1}, DataType:FLOAT32)\n[1]",
    "label.txt": lambda: b"x" * 1_400_000 + b": (Sizes:{1}, DataType:FLOAT32)\n[1]\ny: (Sizes:{1}, DataType:INT8)\n[1]",
    "brackets.json": lambda: b"[" + b"[]," * (1 << 26) + b"[]]",
}  # fmt: skip


@pytest.mark.needs("shell")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_take_no_time(tmp_path, name, shell):
    (tmp_path / name).write_bytes(HOSTILE[name]())
    done = shell(f"revseq show {name}")
    assert done.status == (0 if name == "label.txt" else 2)  # which holds two tensors
    assert "internal error" not in done.err
    assert len(done.err) < 20_000


def test_more_sizes_of_a_stream_than_there_is_memory(revseq):
    for count, words in ((1 << 61, "do not fit into memory"), (1 << 40, "")):
        stream = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            stream, {"descr": "<f8", "fortran_order": False, "shape": (count,)}
        )
        assert (
            "internal error" not in revseq("show", "-", stdin=stream.getvalue()).refused(words).err
        )
