"""New files, and positioned input and output: what each step promises, with a system that does less than it could."""

import errno
import os
import signal
import stat
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from faults import refusing
from folders import content
from needs import WINDOWS

from revseq_cli import files
from revseq_cli.core import signals, thresholds
from revseq_cli.core.errors import TensorIOError
from revseq_cli.files import local
from revseq_cli.files.copies import CopiedPart, copy_file, fill_from
from revseq_cli.files.input_file import identity_of
from revseq_cli.files.new import NewFolder, NewLocalFile, Scratch
from revseq_cli.files.transactions import FileTransaction

DATA = bytes(range(100))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder; and new files get every right that a program asks for."""
    monkeypatch.chdir(tmp_path)
    before = os.umask(0)
    yield tmp_path
    os.umask(before)


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


# New files


@pytest.mark.needs("modes")
@pytest.mark.parametrize("beside", ["y.npy", ""])
def test_scratch_is_for_this_user_alone_and_never_gets_a_name(folder, beside, monkeypatch):
    (folder / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "tmp"))
    Path("y.npy").write_bytes(b"old")
    file = Scratch(beside)
    assert file.name == (beside or f"the temporary folder {folder}/tmp")
    assert not file.is_created
    with FileTransaction(file):
        assert file.is_created
        assert Path(file.temporary).parent == (folder if beside else folder / "tmp")
        assert mode_of(file.temporary) == 0o600
        file.write(DATA)
    assert not file.is_created
    assert content(folder).keys() == {"y.npy", "tmp"}
    assert Path("y.npy").read_bytes() == b"old"
    assert not list((folder / "tmp").iterdir())


@pytest.mark.parametrize("kind", [NewLocalFile, NewFolder])
def test_a_name_that_somebody_else_takes_meanwhile(folder, kind):
    def written():
        with FileTransaction(file := kind("y", overwrite=False)):
            assert not file.name.startswith(".")
            Path("y").write_bytes(b"theirs")

    with pytest.raises(TensorIOError) as caught:
        written()
    assert (caught.value.found, caught.value.where) == (
        "was created by another program in the meantime",
        "y",
    )
    assert content(folder) == {"y": b"theirs"}


@pytest.mark.needs("names by links")
def test_without_hard_links_a_new_file_gets_its_name_by_a_rename(folder, monkeypatch):
    monkeypatch.setattr(os, "link", refusing(errno.EPERM))
    with FileTransaction(file := NewLocalFile("y", overwrite=False)):
        file.write(DATA)
    assert content(folder) == {"y": DATA}

    def written():
        with FileTransaction(NewLocalFile("z", overwrite=False)):
            Path("z").write_bytes(b"theirs")

    with pytest.raises(TensorIOError, match="cannot write: Operation not permitted"):
        written()
    assert content(folder) == {"y": DATA, "z": b"theirs"}


@pytest.mark.needs("names by links")
def test_everything_is_flushed_before_the_name_is_given_and_the_folder_after(folder, monkeypatch):
    flushed = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (flushed.append(os.fstat(fd).st_ino), fsync(fd)))
    file, group = NewLocalFile("y", overwrite=False), NewFolder("z", overwrite=False)
    inode = lambda path: os.stat(path).st_ino  # noqa: E731
    link = os.link
    monkeypatch.setattr(os, "link", lambda *args: (flushed.append("named"), link(*args)))
    with FileTransaction(file, group):
        Path(group.temporary, "deep").mkdir()
        for name in ("a", "deep/b"):
            Path(group.temporary, name).write_bytes(DATA)
        parts = {inode(Path(group.temporary, name)) for name in (".", "a", "deep", "deep/b")}
        first = inode(file.temporary)
    assert flushed[0] == first
    assert set(flushed[1:5]) == parts
    assert flushed[4] == inode("z")  # what is in a folder comes before it
    assert flushed[5:] == ["named", inode(folder), inode(folder)]


@pytest.mark.parametrize("kind", [NewLocalFile, NewFolder])
def test_a_signal_before_the_names_are_given(folder, kind, monkeypatch):
    received = []
    monkeypatch.setattr(signals, "_received", received)

    def written():
        with FileTransaction(file := kind("y", overwrite=False)):
            real = file.flush
            monkeypatch.setattr(file, "flush", lambda: (real(), received.append(signal.SIGTERM)))

    with pytest.raises(signals.Stopped):
        written()
    assert content(folder) == {}


# Copies


copied = getattr(os, "copy_file_range", None)
# Systems that cannot copy, that have no such function, that copy little at a time, and that flush at the end alone.
COPYING = [
    pytest.param(each, marks=pytest.mark.needs("copies"))
    for each in (
        lambda patch: patch.setattr(os, "copy_file_range", refusing(errno.EXDEV)),
        lambda patch: patch.delattr(os, "copy_file_range"),
        lambda patch: patch.setattr(
            os, "copy_file_range", lambda a, b, count, *more: copied(a, b, min(count, 3), *more)
        ),
        lambda patch: patch.setattr(os, "posix_fadvise", refusing(errno.ENOSYS)),
    )
]


@pytest.mark.parametrize("system", [None, *COPYING])
@pytest.mark.parametrize("at_once", [7, 1 << 20])
def test_copies_are_whole(folder, monkeypatch, system, at_once):
    if system:
        system(monkeypatch)
    monkeypatch.setattr(thresholds, "COPIED_AT_ONCE", at_once)
    monkeypatch.setattr(thresholds, "BOUNCE_BYTES", 4)
    Path("x").write_bytes(DATA)
    with files.open_file("x") as fd:
        unchanged = fd.identity
    whole, some = NewLocalFile("whole", overwrite=False), NewLocalFile("some", overwrite=False)
    with FileTransaction(whole, some):
        fill_from(whole, "x", unchanged, [CopiedPart(0, len(DATA), 0)])
        some.write(b"." * 60)
        fill_from(
            some,
            "x",
            unchanged,
            [CopiedPart(10, 20, 5), CopiedPart(90, 10, 50), CopiedPart(0, 0, 0)],
        )
    copy_file("x", "again", "again")
    copied = b"." * 5 + DATA[10:30] + b"." * 25 + DATA[90:]
    assert content(folder) == {"x": DATA, "whole": DATA, "again": DATA, "some": copied}
    assert mode_of("again") == 0o666
    with pytest.raises(TensorIOError, match=r"again\.npy: cannot write: File exists"):
        copy_file("x", "again", "again.npy")
    os.utime("x", ns=(5, 5))
    with pytest.raises(TensorIOError, match="x: changed while it was read"):
        fill_from(NewLocalFile("late", overwrite=False), "x", unchanged, [])


@pytest.mark.parametrize("system", [None, COPYING[0]])
def test_a_file_that_ends_before_its_copy(folder, monkeypatch, system):
    if system:
        system(monkeypatch)
    Path("x").write_bytes(DATA)
    Path("y").touch()
    with (
        files.open_file("x") as source,
        local.open_to_write("y", "y") as target,
        pytest.raises(TensorIOError, match="x: ended while it was read"),
    ):
        target.copy_from(source, 50, 60, 0)


@pytest.mark.parametrize("data", [DATA, b""])
def test_copies_stop_at_a_signal(folder, monkeypatch, data):
    monkeypatch.setattr(signals, "_received", [signal.SIGTERM])
    Path("x").write_bytes(data)
    with pytest.raises(signals.Stopped):
        copy_file("x", "y", "y")
    assert Path("y").read_bytes() == b""


# Reads and writes


@pytest.mark.needs("positioned calls")
@pytest.mark.parametrize("most", [1, 7, 1 << 20])
def test_systems_that_move_less_than_they_are_asked_for(folder, monkeypatch, most):
    read, write = os.preadv, os.pwrite
    monkeypatch.setattr(
        os, "preadv", lambda fd, buffers, offset: read(fd, [buffers[0][:most]], offset)
    )
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: write(fd, data[:most], offset))
    Path("x").write_bytes(b"." * 120)
    with local.open_to_write("x", "x") as fd:
        fd.write(DATA, 10)
    assert Path("x").read_bytes() == b"." * 10 + DATA + b"." * 10
    with files.open_file("x") as fd:
        buffer = bytearray(90)
        fd.read_into(memoryview(buffer), 15)
        assert buffer == DATA[5:95]
        assert fd.read(20, 10) == DATA[:20]
        assert fd.read(50, 100) == DATA[90:] + b"." * 10
        assert fd.read(50, 120) == fd.read(5, 999) == b""
        with pytest.raises(TensorIOError, match="x: ended while it was read"):
            fd.read_into(memoryview(buffer), 31)


@pytest.mark.needs("positioned calls")
def test_a_direct_write_that_is_not_whole_is_done_again(folder, monkeypatch):
    data = memoryview(os.urandom(3 << 20))
    Path("x").write_bytes(bytes(len(data)))
    real = os.pwrite
    monkeypatch.setattr(
        os, "pwrite", lambda fd, part, offset: real(fd, part[: max(len(part) // 2, 4096)], offset)
    )
    with local.open_to_write("x", "x") as fd:
        assert fd.write_runs([(0, data)]) == []
    assert Path("x").read_bytes() == data


@pytest.mark.needs("positioned calls")
@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSPC, None])
def test_bytes_are_reserved_where_the_system_can(folder, monkeypatch, number):
    if number:
        monkeypatch.setattr(os, "posix_fallocate", refusing(number), raising=False)
    Path("x").touch()
    with local.open_to_write("x", "x") as fd:
        if number == errno.ENOSPC:
            with pytest.raises(
                TensorIOError, match="x: cannot write: No space left on device"
            ) as caught:
                fd.allocate(5000)
            assert caught.value.hint == "free some space, or write to another disk"
            return
        fd.allocate(5000)
    assert Path("x").stat().st_size == 5000
    if not WINDOWS:
        assert (Path("x").stat().st_blocks > 0) is (number is None)
    with local.open_to_write("x", "x") as fd:
        fd.allocate(3000)
    assert Path("x").stat().st_size == 5000  # what is behind the tensor stays


def test_when_two_states_of_a_file_differ(folder):
    """Hosts number the devices of a shared file system as they like."""
    Path("x").write_bytes(DATA)
    one = identity_of(os.stat("x"))
    changed = {name: replace(one, **{name: getattr(one, name) + 1}) for name in vars(one)}
    assert [name for name, other in changed.items() if other == one] == ["device"]


@pytest.mark.parametrize(("blocks", "free", "fits"), [(10, 5, True), (10, 4, False), (0, 0, True)])
@pytest.mark.needs("memory files")
def test_a_file_that_does_not_fit_into_memory_is_refused_before_it_is_written(
    monkeypatch, blocks, free, fits
):
    """Nothing is reserved there. A file system without a limit says that it has 0 blocks."""
    space = SimpleNamespace(f_blocks=blocks, f_bavail=free, f_frsize=4096)
    monkeypatch.setattr(os, "fstatvfs", lambda _: space)
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        file.write(bytes(4096))  # a page that counts as free
        file.flush()
        if fits:
            local.OutputFile(file.fileno(), file.name, "y.npy").allocate(6 * 4096)
            return
        with pytest.raises(TensorIOError, match=r"y\.npy: cannot write: No space left on device"):
            local.OutputFile(file.fileno(), file.name, "y.npy").allocate(6 * 4096)
        assert os.stat(file.name).st_size == 4096
