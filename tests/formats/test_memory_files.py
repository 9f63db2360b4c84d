"""Files in memory that many processes write: through mappings, whose pages are asked for first."""

import os
import tempfile
from pathlib import Path

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from revseq_cli.core import platform, thresholds
from revseq_cli.core.errors import TensorIOError
from revseq_cli.files import local

pytestmark = pytest.mark.needs("memory files")
SIZE = 20_000


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        yield Path(name)


@pytest.fixture
def sixteen_writers(monkeypatch):
    monkeypatch.setattr(local, "_writers", 16)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, SIZE - 1), st.integers(1, SIZE)), max_size=5))
def test_a_write_through_a_mapping_changes_its_bytes_only(parts):
    expected = bytearray(SIZE)
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        file.truncate(SIZE)
        pages = platform.map_pages(file.name)
        for i, (offset, size) in enumerate(parts, 1):
            data = bytes([i]) * min(size, SIZE - offset)
            assert platform.write_pages(pages, memoryview(data), offset)
            expected[offset : offset + len(data)] = data
        assert Path(file.name).read_bytes() == expected


def test_a_mapping_without_room_is_an_error(small_disk, sixteen_writers):
    """Writing into a page that the file system does not have would end the process by SIGBUS."""
    platform._devices_in_memory.cache_clear()  # this one was mounted a moment ago
    path = small_disk / "y"
    path.touch()
    os.truncate(path, 4 << 20)
    with local.open_to_write(str(path), "y.npy") as file:
        assert file.pages
        with pytest.raises(TensorIOError, match="No space left on device"):
            file.write_runs([(0, memoryview(bytes(3 << 20)))])


@pytest.mark.parametrize("writers", [1, 4, 5, 16])
def test_many_writers_use_mappings(folder, monkeypatch, writers):
    monkeypatch.setattr(local, "_writers", writers)
    (folder / "y").write_bytes(bytes(5100))
    runs = [(7, memoryview(b"abc")), (5000, memoryview(b"de"))]
    with local.open_to_write(str(folder / "y"), "y") as file:
        assert bool(file.pages) is (writers > thresholds.WRITERS_IN_TURN)
        assert file.write_runs(runs) == []
    assert (folder / "y").read_bytes() == bytes(7) + b"abc" + bytes(4990) + b"de" + bytes(98)


def test_a_file_that_cannot_be_mapped_is_written(folder, sixteen_writers):
    (folder / "y").touch()  # an empty file has no pages
    with local.open_to_write(str(folder / "y"), "y") as file:
        file.write(b"abc", 1)
    assert (folder / "y").read_bytes() == b"\0abc"


def test_a_system_that_cannot_ask_for_pages_writes(folder, sixteen_writers, monkeypatch):
    monkeypatch.setattr(platform, "_MADV_POPULATE_WRITE", 1 << 20)
    (folder / "y").write_bytes(bytes(10))
    with local.open_to_write(str(folder / "y"), "y") as file:
        assert file.pages
        file.write(b"abc", 1)
    assert (folder / "y").read_bytes() == b"\0abc" + bytes(6)


def make_job(folder, axis):
    shape = [40_000, 40_000]
    shape[axis] = 64
    random = np.random.default_rng(1)
    x = random.integers(0, 2**32, shape, np.uint32)
    shape[axis] = 1
    n = random.integers(0, 65, shape, np.uint32)
    np.save(folder / "x.npy", x)
    np.save(folder / "n.npy", n)
    return x, n


# Counts the writes through mappings; the workers are forks.
COUNTED = """
from revseq_cli.core import platform, thresholds
thresholds.BLOCK_BYTES = 1 << 18
real = platform.write_pages
def write_pages(*args):
    with open("mapped", "a") as file:
        file.write(".")
    return real(*args)
platform.write_pages = write_pages
"""


@pytest.mark.needs("fork")
@pytest.mark.parametrize("axis", [0, 1])
def test_the_output_of_many_workers(revseq, folder, axis):
    """The header of 128 bytes lets blocks and runs begin inside a page, which two workers write."""
    x, n = make_job(folder, axis)
    job = ("run", "x.npy", "n.npy", "--axis", axis, "-o", "y.npy")
    options = ("--engine", "processes", "--jobs", 6, "--verify")
    revseq(*job, *options, cwd=folder, code=COUNTED).ok()
    assert oracle.same_bits(np.load(folder / "y.npy"), oracle.reverse(x, n, axis))
    assert (folder / "mapped").exists()


@pytest.mark.needs("fork")
@pytest.mark.parametrize("jobs", [2, 6])
def test_memory_that_is_full_in_the_middle(revseq, small_disk, jobs):
    """Others fill it while the job runs, which the check of the free space cannot see."""
    folder = small_disk.parent
    make_job(folder, 1)
    code = "from revseq_cli.core import platform; platform.reserve = lambda fd, size: __import__('os').ftruncate(fd, size)\n"
    job = ("run", "x.npy", "n.npy", "--axis", 1, "-o", "disk/y.npy", "--engine", "processes")
    done = revseq(*job, "--jobs", jobs, cwd=folder, code=code)
    done.refused("disk/y.npy: cannot write: No space left on device")
    assert list(small_disk.iterdir()) == []
