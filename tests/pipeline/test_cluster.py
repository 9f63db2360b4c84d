"""The dask engine against a real scheduler and real workers over TCP, and what becomes of it when one of them fails."""

import contextlib
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading

import h5py
import numpy as np
import pytest
from needs import existing_signals
from processes import PATIENCE, gone, start, until, workers

distributed = pytest.importorskip("distributed", reason="distributed, the extra dask, is not installed")

from revseq_cli.core import signals  # noqa: E402 - it cannot be imported without dask
from revseq_cli.core.errors import EngineError, UsageError  # noqa: E402
from revseq_cli.core.processes import end_children  # noqa: E402
from revseq_cli.pipeline import cluster  # noqa: E402
from revseq_cli.pipeline.arrangement import Arrangement  # noqa: E402
from revseq_cli.pipeline.engines import DASK  # noqa: E402
from revseq_cli.pipeline.plan import Plan  # noqa: E402

JOB = ("run", "x.npy", "n.npy", "--axis", "1", "--engine", "dask", "--scheduler-file", "s.json")
UNCHANGED, COMPLETE = b"Note: stopped; y.npy is unchanged\n", b"Note: stopped; y.npy is complete\n"
# What a worker loads before its first block; dask may load it twice. Behind the rehearsal, a block that does not end:
STUCK = """
import time, revseq_cli.operator.kernel as k
calls = []
k.reverse = lambda *a, r=k.reverse, **b: (calls.append(a), time.sleep(1000 if len(calls) > 2 else 0), r(*a, **b))[2]
"""
# One whose worker dies of its fourth block, and one that waits until that has happened:
DEADLY = """
import os, revseq_cli.operator.kernel as k
calls = []
def deadly(*args, real=k.reverse, **options):
    calls.append(args)
    if len(calls) == 4:
        open("died", "w").close()
        os._exit(1)
    return real(*args, **options)
k.reverse = deadly
"""
SURVIVING = """
import os, time, revseq_cli.operator.kernel as k
calls = []
def surviving(*args, real=k.reverse, **options):
    calls.append(args)
    while len(calls) > 2 and not os.path.exists("died"):
        time.sleep(0.01)
    return real(*args, **options)
k.reverse = surviving
"""
OLD = "import revseq_cli; revseq_cli.__version__ = '0.0.9'"
DEVICE = """
import dataclasses, revseq_cli.formats.file_io as p
p.identity = lambda fd, real=p.identity: dataclasses.replace(real(fd), device=1)
"""


# What scheduler and workers do some fifty times a second while they wait takes a fifth of a core under Wine.
IDLE = {
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s", "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL": "5s",
    "DASK_DISTRIBUTED__WORKER__PROFILE__INTERVAL": "1s",
}  # fmt: skip


class Site:
    """A scheduler, its workers, and a folder that all see."""

    def __init__(self, folder):
        self.file, self._started = folder / "site" / "s.json", []
        self.file.parent.mkdir()
        options = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show")
        self.scheduler = self._start("scheduler", *options, "--scheduler-file", self.file)

    def _start(self, *command, env=()):
        python = (sys.executable, "-m", "dask.__main__", *map(str, command))
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(python, cwd=self.file.parent, env=os.environ | IDLE | dict(env), **silent)
        self._started.append(process)
        return process

    def worker(self, preload=""):
        """One more, single-threaded; `preload` is Python that it runs first."""
        options = ("--nthreads", 1, "--no-nanny", "--no-dashboard", "--memory-limit", 0, "--host", "127.0.0.1")
        return self._start(
            "worker", "--scheduler-file", self.file, *options, *(["--preload", preload] if preload else [])
        )

    def ready(self, count):
        """Wait for the workers."""
        until(self.file.exists)
        with self.asked() as client:
            client.wait_for_workers(count, timeout=PATIENCE)
        self.copy(self.file.parent.parent)
        return self

    def copy(self, folder):
        """Put the scheduler's file where commands run."""
        shutil.copyfile(self.file, folder / "s.json")

    @property
    def address(self):
        return json.loads(self.file.read_text())["address"]

    @contextlib.contextmanager
    def asked(self):
        with distributed.Client(scheduler_file=str(self.file), set_as_default=False) as client:
            yield client

    def tasks(self):
        """The keys that the scheduler knows."""
        with self.asked() as client:
            return client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks))

    def end(self):
        for process in self._started:
            process.kill()
            process.wait()


@pytest.fixture
def strict(monkeypatch):
    """The next scheduler gives up a block with its first worker."""
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "0")


@pytest.fixture
def site(tmp_path):
    """A scheduler of the test's own."""
    site = Site(tmp_path)
    yield site
    site.end()


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A scheduler with two workers, one of which sees other numbers of devices."""
    site = Site(tmp_path_factory.mktemp("pair"))
    site.worker(DEVICE)
    site.worker()
    yield site.ready(2)
    site.end()


@pytest.fixture
def job(tmp_path):
    """4 MiB in lines of 1024, their lengths, the output they must get, and an old one."""
    rng = np.random.default_rng(2)
    values = rng.integers(0, 2**32, (1 << 10, 1 << 10), np.uint32)
    lengths = rng.integers(0, (1 << 10) + 1, (1 << 10, 1), np.uint32)
    np.save(tmp_path / "x.npy", values)
    np.save(tmp_path / "n.npy", lengths)
    (tmp_path / "y.npy").write_bytes(b"old")
    index, turned = np.arange(1 << 10), np.minimum(lengths, 1 << 10).astype(int)
    return np.take_along_axis(values, np.where(index < turned, turned - 1 - index, index), 1)


def many(folder):
    """The job in 13 blocks."""
    return start(folder, "--engine", "dask", "--scheduler-file", "s.json", "--memory", "2M")


def under_way(site, folder):
    """The same, and the scheduler knows of it."""
    process = many(folder)
    until(site.tasks)
    return process


def ended(process, folder, *words):
    """It stopped with one message, and left the old output and nothing else."""
    _, err = process.communicate()
    err = err.decode()
    assert process.returncode == 2, err
    assert err.startswith("Error: ")
    assert err.count("Error: ") == 1
    assert "Traceback" not in err
    for word in words:
        assert word in err, err
    left_old(folder)


def left_old(folder):
    assert (folder / "y.npy").read_bytes() == b"old"
    assert {path.name for path in folder.iterdir()} == {"x.npy", "n.npy", "y.npy", "s.json", "site"}


def test_results_are_those_of_serial(revseq, tmp_path, pair, job):
    pair.copy(tmp_path)
    rng = np.random.default_rng(1)
    with h5py.File(tmp_path / "x.h5", "w") as f:
        values = rng.integers(0, 1 << 30, (300, 64), np.int32)
        f.create_dataset("x", data=values, chunks=(8, 32), compression="gzip", shuffle=True)
    np.save(tmp_path / "m.npy", rng.integers(0, 70, (300, 1), np.uint32))
    done = revseq(*JOB, "-o", "y.npy", "--overwrite", "--memory", "2M", "--verify", "-v").ok()
    assert "engine                 dask, all workers of tcp://127.0.0.1" in done.err
    assert np.array_equal(np.load(tmp_path / "y.npy"), job)
    for name in ("h5", "npy", "json"):
        args = ("run", "x.h5", "m.npy", "--axis", 1, "--memory", "200K", "-o")
        revseq(*args, f"a.{name}", "--engine", "serial").ok()
        revseq(*args, f"b.{name}", "--engine", "dask", env={"REVSEQ_SCHEDULER": pair.address}).ok()
        assert (tmp_path / f"a.{name}").read_bytes() == (tmp_path / f"b.{name}").read_bytes() or name == "h5"
    with h5py.File(tmp_path / "a.h5") as a, h5py.File(tmp_path / "b.h5") as b:
        assert np.array_equal(a["x"][:], b["x"][:])
        assert (a["x"].chunks, a["x"].compression) == (b["x"].chunks, b["x"].compression)
    assert pair.tasks() == []


def test_every_command_with_passes(revseq, tmp_path, pair, job):
    pair.copy(tmp_path)
    zarr = pytest.importorskip("zarr", reason="zarr, an extra, is not installed")
    dask = ("--engine", "dask", "--scheduler-file", "s.json", "--memory", "16M")
    done = revseq("convert", "x.npy", "x.zarr", "--verify", "-v", *dask).ok()
    assert "dask, all workers of tcp" in done.err
    revseq("run", "x.zarr", "n.npy", "--axis", 1, "-o", "y.zarr", "--verify", *dask).ok()
    assert np.array_equal(zarr.open(tmp_path / "y.zarr", mode="r")[...], job)
    revseq("diff", "x.npy", "x.zarr", *dask).ok()
    assert revseq("diff", "x.npy", "y.zarr", *dask).status == 1
    jobs = [f"x.{kind},n.npy,1,{kind}.npy" for kind in ("npy", "zarr", "none")]
    (tmp_path / "jobs.csv").write_text("\n".join(["input,lengths,axis,output", *jobs]))
    done = revseq("batch", "jobs.csv", *dask)
    assert done.status == 1
    assert "x.none" in done.err
    for kind in ("npy", "zarr"):
        assert np.array_equal(np.load(tmp_path / f"{kind}.npy"), job)
    assert pair.tasks() == []


@pytest.mark.long
@pytest.mark.needs("ps")
def test_a_local_cluster_leaves_nothing(tmp_path, job):
    (tmp_path / "tmp").mkdir()
    options = "--engine dask --jobs 2 --memory 4M --verify -v".split()
    process = start(tmp_path, *options, env={"TMPDIR": str(tmp_path / "tmp")})
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert b"and verified it" in err
    assert b"dashboard" in err
    assert np.array_equal(np.load(tmp_path / "y.npy"), job)
    assert not list((tmp_path / "tmp").iterdir())
    gone(process)


def local(folder, *args):
    """A run on a cluster of its own, whose files lie in the folder tmp."""
    (folder / "tmp").mkdir(exist_ok=True)
    env = {"TMPDIR": str(folder / "tmp")}
    return start(folder, "--engine", "dask", "--jobs", "2", "--memory", "4M", *args, env=env)


def leaves_nothing(process, folder, number, *told):
    """It ended by that signal, and told one of these."""
    _, err = process.communicate()
    assert process.returncode == -number
    assert err in told
    gone(process)
    assert not list((folder / "tmp").iterdir())


@pytest.mark.needs("signals")
@pytest.mark.long
@pytest.mark.parametrize("number", existing_signals("SIGINT", "SIGTERM"))
def test_a_signal_while_the_local_cluster_closes(tmp_path, job, number):
    process = local(tmp_path)
    until(lambda: (tmp_path / "y.npy").read_bytes() != b"old")
    process.send_signal(number)
    leaves_nothing(process, tmp_path, number, COMPLETE, b"")  # the command may be about to end
    assert np.array_equal(np.load(tmp_path / "y.npy"), job)


@pytest.mark.needs("signals")
@pytest.mark.long  # a process that is just being started may print a traceback of multiprocessing's own
@pytest.mark.parametrize("number", existing_signals("SIGINT", "SIGTERM"))
def test_a_signal_while_the_local_cluster_starts(tmp_path, job, number):
    process = local(tmp_path)
    until(lambda: list((tmp_path / "tmp").glob("revseq-*")))
    process.send_signal(number)
    leaves_nothing(process, tmp_path, number, UNCHANGED)
    assert (tmp_path / "y.npy").read_bytes() == b"old"


def test_what_is_made_meanwhile_goes_too(tmp_path):
    """After a signal, the thread that makes a cluster may go on, and make the folder of its processes anew."""
    folder, settled = tmp_path / "revseq-1", threading.Event()
    late = threading.Timer(0.2, lambda: (folder.mkdir(), settled.set()))
    late.start()
    end_children(str(folder), settled.is_set)
    late.join()
    assert not folder.exists()


@pytest.mark.needs("signals")
def test_local_workers_that_are_stopped(tmp_path, job):
    process = local(tmp_path)
    until(lambda: len(workers(process)) >= 2)
    for pid in workers(process):
        os.kill(pid, signal.SIGSTOP)
    process.send_signal(signal.SIGTERM)
    leaves_nothing(process, tmp_path, signal.SIGTERM, UNCHANGED)
    assert (tmp_path / "y.npy").read_bytes() == b"old"


@pytest.mark.needs("signals")
@pytest.mark.long
def test_a_scheduler_that_is_stopped(tmp_path, site, job):
    """The command waits, since it may go on, and looks at signals."""
    site.worker(STUCK)
    process = under_way(site.ready(1), tmp_path)
    site.scheduler.send_signal(signal.SIGSTOP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(3)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate()
    assert (process.returncode, err) == (-signal.SIGTERM, UNCHANGED)
    left_old(tmp_path)


@pytest.mark.long
@pytest.mark.needs("told deaths")
def test_a_worker_that_dies_is_replaced(tmp_path, site, job):
    site.worker(SURVIVING)
    deadly = site.worker(DEADLY)
    site.ready(2)
    process = many(tmp_path)
    _, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert deadly.wait() == 1
    assert np.array_equal(np.load(tmp_path / "y.npy"), job)
    assert site.tasks() == []


@pytest.mark.long
def test_workers_that_die_with_the_same_block(tmp_path, strict, site, job):
    site.worker(DEADLY)
    site.ready(1)
    process = many(tmp_path)
    ended(process, tmp_path, "died with the same block")


@pytest.mark.long
def test_few_tasks_are_known_at_once(tmp_path, site, job):
    site.worker(STUCK)
    process = under_way(site.ready(1), tmp_path)
    samples = []
    until(lambda: samples.append(site.tasks()) or len(samples) > 9)
    process.kill()
    process.communicate()
    assert 1 <= max(map(len, samples)) <= 2
    assert all(key.startswith("revseq-block-0000") for keys in samples for key in keys)
    until(lambda: site.tasks() == [])


@pytest.mark.long
def test_a_late_worker_is_asked_too(tmp_path, site, job):
    site.worker(STUCK)
    process = under_way(site.ready(1), tmp_path)
    site.worker(OLD)
    ended(process, tmp_path, "the worker tcp://", "has revseq 0.0.9")


@pytest.mark.long
def test_a_scheduler_that_goes_away(tmp_path, site, job):
    site.worker(STUCK)
    process = under_way(site.ready(1), tmp_path)
    site.scheduler.kill()
    ended(process, tmp_path, "the scheduler disconnected")


@pytest.mark.needs("signals")
@pytest.mark.long
@pytest.mark.parametrize("number", existing_signals("SIGINT", "SIGTERM"))
def test_interruption(tmp_path, site, job, number):
    site.worker(STUCK)
    process = under_way(site.ready(1), tmp_path)
    process.send_signal(number)
    _, err = process.communicate()
    assert (process.returncode, err) == (-number, UNCHANGED)
    left_old(tmp_path)
    until(lambda: site.tasks() == [])


def test_nobody_there(monkeypatch, site):
    monkeypatch.setattr(cluster, "_LONGEST_CALL", 0.4)
    with pytest.raises(EngineError, match="no dask scheduler answers"):
        cluster.connected("tcp://127.0.0.1:9", 1)
    for address in ("nonsense://a", "127.0.0.1", "inproc://x"):
        with pytest.raises(UsageError, match="is not an address") as caught:
            cluster.connected(address, 1)
        assert caught.value.hint == "add --scheduler tcp://host:8786"
    monkeypatch.setattr(cluster, "_LONGEST_CALL", PATIENCE)
    monkeypatch.setattr(cluster, "_LONGEST_ALONE", 0.5)
    until(lambda: site.file.exists() and site.file.stat().st_size)  # it is there before its text is
    try:
        with pytest.raises(EngineError, match="the scheduler has no worker"):
            cluster.Cluster(Arrangement(Plan((1,), (1,)), DASK, 1, 0, scheduler=site.address)).submit(int)
    finally:
        signals.ending.close()
        logging.disable(logging.NOTSET)


@pytest.mark.long
def test_something_else_listens_there(monkeypatch, tmp_path, job):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setattr(cluster, "_LONGEST_CALL", 1.0)
        with pytest.raises(EngineError, match="no dask scheduler answers: silent for 1 s"):
            cluster.connected(address, 1)
        process = start(tmp_path, "--engine", "dask", "--scheduler", address)
        silent.accept()
        until(lambda: any(path.name.startswith(".revseq-") for path in tmp_path.iterdir()))
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate()
        assert (process.returncode, err) == (-signal.SIGTERM, UNCHANGED)
    assert {path.name for path in tmp_path.iterdir()} == {"x.npy", "n.npy", "y.npy"}


def test_options(revseq, files):
    job = ("run", "x.npy", "n.npy", "--axis", 1, "-o", "y.npy", "--dry-run")
    revseq(*job, "--scheduler", "tcp://nowhere:1").refused("apply only to dask", "add --engine dask")
    revseq(*job, env={"REVSEQ_SCHEDULER": "tcp://nowhere:1"}).ok()
    revseq(*job, "--scheduler", "tcp://a:1", env={"REVSEQ_SCHEDULER": "tcp://a:1"}).refused("apply only to dask")
    for option in ("--scheduler", "--scheduler-file"):
        revseq(*job, "--engine", "dask", option, "").refused(f"{option} is empty", "is a variable unset?")
    revseq(*job, "--engine", "dask", "--scheduler", "tcp://a:1", "--scheduler-file", "b").refused("one of them")
    revseq(*job, "--engine", "dask", "--scheduler-file", "none").refused("none: no such file")
    revseq(*job, "--engine", "dask", "--scheduler-file", "x.npy").refused("x.npy: has no address")
    done = revseq(*job, "--engine", "dask", "--scheduler", "tcp://nowhere:1", "--memory", "1G").ok()
    assert "dask, all workers of tcp://nowhere:1" in done.out
    assert "bytes of memory for each thread" in done.out
    done = revseq(*job, "--engine", "dask", "--json", env={"REVSEQ_SCHEDULER": "tcp://nowhere:1"}).ok()
    assert json.loads(done.out)["plan"]["scheduler"] == "tcp://nowhere:1"


@pytest.mark.needs("fifos")
@pytest.mark.parametrize(
    ("content", "words"),
    [("fifo", "is not a regular file"), ("/dev/zero", "is not a regular file"), (".", "is a directory"),
     (b"[" * 200_000, "has no address"), (b"{" + b" " * (1 << 20) + b"}", "has no address"), (b"\xff", "has no address"),
     (b'{"address": ""}', 'its address is ""'), (b'{"address": " "}', 'its address is " "'), (b'{"address": {}}', "its address is {}"),
     (b'{"address": 5}', "its address is 5"), (b"[]", "has no address"), (b"{}", "has no address"), (b"", "has no address")],
)  # fmt: skip
def test_scheduler_files_that_are_none(revseq, files, content, words):
    """Opened as any other input: it neither waits nor reads without end, and no job of a batch does."""
    if content == "fifo":
        os.mkfifo(files / "s.json")
    elif isinstance(content, str):
        (files / "s.json").symlink_to(content)
    else:
        (files / "s.json").write_bytes(content)
    dask = ("--engine", "dask", "--scheduler-file", "s.json")
    revseq("run", "x.npy", "n.npy", "--axis", 1, "-o", "y.npy", *dask).refused(f"Error: s.json: {words}")
    (files / "m.csv").write_text("input,lengths,axis,output\nx.npy,n.npy,1,y.npy\n")
    done = revseq("batch", "m.csv", *dask)
    assert (done.status, f"Error: m.csv: line 2: s.json: {words}" in done.err) == (1, True)
    assert {path.name for path in files.iterdir()} == {"x.npy", "n.npy", "m.csv", "m.csv.revseq-journal", "s.json"}


def test_what_answers_junk_is_no_scheduler(monkeypatch):
    def answer():
        with contextlib.suppress(OSError):
            while True:
                taken.append(server.accept()[0])
                taken[-1].sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    monkeypatch.setattr(cluster, "_LONGEST_CALL", 2.0)
    taken = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(EngineError, match="no dask scheduler answers"):
            cluster.connected(f"tcp://127.0.0.1:{server.getsockname()[1]}", 1)
        with contextlib.suppress(OSError):  # Windows ends what waits there when it is closed
            server.shutdown(socket.SHUT_RDWR)
    for each in taken:
        each.close()


def test_without_dask_it_is_said(files):
    code = "import sys; sys.modules['distributed'] = None; sys.argv = ['revseq', *sys.argv[1:]]; import revseq_cli.__main__ as m; m.main()"
    command = [sys.executable, "-c", code, "run", "x.npy", "n.npy", "--axis", "1", "-o", "y.npy", "--engine", "dask"]
    done = subprocess.run(command, cwd=files, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: the engine dask needs the package dask")
    assert "pip install distributed" in done.stderr
