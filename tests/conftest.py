"""What all tests share: the real command, and the option that rewrites the golden samples."""

import gc
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import hdf5plugin  # noqa: F401 - before netCDF4, whose own plugins h5py would take for these, and cannot use
import hypothesis
import numpy as np
import pytest
from cli_runner import Server
from folders import content
from needs import NEEDS, WINDOWS, lacking
from processes import COMMAND, start, until

from revseq_cli.core import platform

# How long an example takes says nothing: the machine may be busy.
hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")

if WINDOWS:
    import wine

    wine.wake_event_loops()

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "samples"
# How the names of variables begin that Python or a library reads when it starts.
AT_START = ("PYTHON", "LC_", "LANG", "HDF5_")


# Else each command that a test starts anew compiles the whole package first: 0.6 s of 0.9.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Under nohup, or in the background of a script, some are ignored, and the commands would inherit that.
for number in () if WINDOWS else (signal.SIGHUP, signal.SIGINT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)


def pytest_addoption(parser):
    parser.addoption(
        "--golden-jobs",
        type=Path,
        metavar="FOLDER",
        help="what the golden jobs left, to hold two systems together",
    )


def pytest_xdist_auto_num_workers():
    """Half more than there are cores, since many tests wait: for a disk, a signal, or another process."""
    return platform.cores() * 3 // 2


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "needs(*names): skipped where the system lacks one of them, see tests/support/needs.py",
    )
    folders = (Path(__file__).parent / each for each in ("support", "tools"))
    names = "|".join(sorted(each.stem for folder in folders for each in folder.glob("*.py")))
    config.getini("filterwarnings").insert(
        0, rf"error:::({names})\b"
    )  # before those that are ignored
    if WINDOWS and not sys.flags.utf8_mode:
        pytest.exit("set PYTHONUTF8=1: the tests read and write texts in UTF-8")
    if hasattr(config, "workerinput") or not config.option.numprocesses:
        os.environ.pop("PYTHONUTF8", None)  # the commands start as users start them


def pytest_runtest_setup(item):
    if name := lacking(item.iter_markers("needs")):
        pytest.skip(NEEDS[name][1])


def pytest_collection_modifyitems(items):
    if WINDOWS:
        items.sort(key=wine.goes_last)


def pytest_collection_finish():
    """Forget what packages of the tests put into the environment when they are imported, as netCDF4 does.

    Then freeze what is loaded, some 6,000 tests and packages, so that garbage collection need not walk it.
    """
    for name in [each for each in os.environ if each.startswith("HDF5_")]:
        del os.environ[name]
    gc.collect()
    gc.freeze()


class Result:
    """What a run of the command left."""

    def __init__(self, status, out, err):
        self.status, self.raw, self.raw_err = status, out, err
        self.out = out.decode("utf-8", "replace")
        self.err = err.decode("utf-8", "replace")

    def ok(self):
        assert self.status == 0, self.err
        return self

    def failed(self, *words):
        """Exit 1, an answer that is no: standard error has all the words."""
        assert self.status == 1, self.out + self.err
        for word in words:
            assert word in self.err, self.err
        return self

    def refused(self, *words):
        """Exit 2, nothing on standard output but errors as JSON, one error that has all the words, no traceback."""
        assert self.status == 2, self.out + self.err
        assert self.out == "" or json.loads(self.out)["errors"]
        assert self.err.startswith("Error: ")
        assert "Traceback" not in self.err
        for word in words:
            assert word in self.err, self.err
        return self


@pytest.fixture
def files(tmp_path):
    """x.npy and n.npy of a small job."""
    np.save(tmp_path / "x.npy", np.arange(1, 13, dtype=np.float32).reshape(3, 4))
    np.save(tmp_path / "n.npy", np.array([[2], [4], [3]], np.uint32))
    return tmp_path


def environment(extra=()):
    """The environment without what would change the command's ways."""
    ours = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("REVSEQ_", "HDF5_", "NO_COLOR", "FORCE_COLOR"))
    }
    return ours | dict(extra)


@pytest.fixture(scope="session")
def forked():
    """The process from which commands are forked; `forked.command` is the command as a program that does it."""
    server = Server(environment())
    yield server
    server.end()


@pytest.fixture
def revseq(tmp_path, forked, tmp_path_factory):
    """Run the command in an empty folder: by the server, or as it is installed where the environment changes its start.

    What else an order may say: `code` that runs first, and a `fault`, see tests/support/faults.py.
    """

    def run(*args, stdin=b"", env=(), cwd=tmp_path, **order):
        args = [os.fsdecode(arg) if isinstance(arg, bytes) else str(arg) for arg in args]
        if any(name.startswith(AT_START) for name in dict(env)):
            done = subprocess.run(
                [*COMMAND, *args],
                input=stdin,
                capture_output=True,
                cwd=cwd,
                env=environment(env),
                check=False,
            )
            return Result(done.returncode, done.stdout, done.stderr)
        base = tmp_path_factory.getbasetemp()

        streams = [base / name for name in ("in", "out", "err")]
        for path, data in zip(streams, (stdin, b"", b""), strict=True):
            path.write_bytes(data)
        status = forked.status(order | {"args": args, "env": environment(env)}, cwd, streams)
        return Result(status, streams[1].read_bytes(), streams[2].read_bytes())

    return run


@pytest.fixture
def shell(forked, tmp_path):
    """Run a line of a shell in an empty folder, where `revseq` is the command: from the server, or `anew` as it is installed."""

    def run(line, cwd=tmp_path, *, anew=False):
        (revseq,) = COMMAND if anew else forked.command
        env = environment({"PATH": f"{Path(revseq).parent}:{os.environ['PATH']}"})
        done = subprocess.run(
            ["bash", "-c", line], capture_output=True, cwd=cwd, env=env, check=False
        )
        return Result(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "t", folder], capture_output=True, check=False
    ).returncode:
        pytest.skip("mounting a small file system needs the superuser")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.fixture
def held(tmp_path_factory):
    """Start the usual job, and return while it writes, with what lets it go on; see tests/support/held/sitecustomize.py."""
    started = []

    def run(folder, *args, **options):
        marks = tmp_path_factory.mktemp("held")
        env = {"HELD": str(marks), "PYTHONPATH": str(Path(__file__).parent / "support" / "held")}
        process = start(folder, *args, env=env, **options)
        started.append((process, marks))
        until(lambda: (marks / "reached").exists() or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        return process, (marks / "go").touch

    yield run
    for process, marks in started:
        (marks / "go").touch()  # a worker that has lost its parent ends with its block
        if process.poll() is None:
            process.kill() if WINDOWS else os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture
def small(tmp_path):
    """1 MiB in lines of 1024, and their lengths: many blocks where --memory is small."""
    rng = np.random.default_rng(2)
    np.save(tmp_path / "x.npy", rng.integers(0, 2**32, (1 << 8, 1 << 10), np.uint32))
    np.save(tmp_path / "n.npy", rng.integers(0, (1 << 10) + 1, (1 << 8, 1), np.uint32))
    return tmp_path


@pytest.fixture
def refused(revseq, tmp_path):
    """Run the job onto an old output; it must be refused with these words, and nothing may be touched."""
    np.save(tmp_path / "n.npy", np.array([[2], [4], [3]], np.uint32))
    (tmp_path / "y.npy").write_bytes(b"old")

    def run(x="x.npy", *words, n="n.npy", axis=1, options=()):
        before = content(tmp_path)
        done = revseq("run", x, n, "--axis", axis, "-o", "y.npy", "--overwrite", *options)
        done.refused(*words)
        assert len(done.err) < 2000
        assert all(line.isprintable() for line in done.err.splitlines())
        assert content(tmp_path) == before
        return done

    return run
