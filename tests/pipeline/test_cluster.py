"""The dask engine against a real scheduler and real workers over TCP, and what becomes of it when one of them fails."""

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys

import h5py
import numpy as np
import oracle
import pytest
from processes import PATIENCE, start, until

distributed = pytest.importorskip(
    "distributed", reason="distributed, the extra dask, is not installed"
)

from revseq_cli.core.errors import EngineError  # noqa: E402 - it cannot be imported without dask
from revseq_cli.pipeline import executors  # noqa: E402

# What a worker loads before its first block, dask perhaps twice; each block then does something first.
FIRST = """
import os, time, revseq_cli.operator.kernel as k
calls = []
def reverse(*args, real=k.reverse, **options):
    calls.append(args)
    {}
    return real(*args, **options)
k.reverse = reverse
"""
STUCK = FIRST.format("time.sleep(LONG if len(calls) > 1 else 0)")
# One whose worker dies of its fourth block, and one that waits until that has happened:
DEADLY = FIRST.format("if len(calls) == 4: open('died', 'w').close(); os._exit(1)")
SURVIVING = FIRST.format("while len(calls) > 2 and not os.path.exists('died'): time.sleep(0.01)")
OLD = "import revseq_cli; revseq_cli.__version__ = '0.0.9'"


# What scheduler and workers do some fifty times a second while they wait takes a fifth of a core under Wine.
IDLE = {
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s", "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL": "5s",
    "DASK_DISTRIBUTED__WORKER__PROFILE__INTERVAL": "1s",
}  # fmt: skip


# A scheduler, and workers in the same process, which starts in a third of the time of three.
TOGETHER = """
import asyncio, contextlib, pathlib
from distributed import Scheduler, Worker
async def main():
    async with contextlib.AsyncExitStack() as stack:
        scheduler = await stack.enter_async_context(Scheduler(host="127.0.0.1", port=0, dashboard=False))
        for _ in range({count}):
            await stack.enter_async_context(Worker(scheduler.address, nthreads=1, memory_limit=0, dashboard=False))
        pathlib.Path("new").write_text(scheduler.address)
        pathlib.Path("new").rename("address")
        await scheduler.finished()
asyncio.run(main())
"""


class Site:
    """A scheduler, its workers, and a folder that all see; `preload` is Python that the workers run first."""

    def __init__(self, folder, count=0, preload=""):
        self.folder, self._started = folder, []
        self.scheduler = self._start("-c", preload + TOGETHER.format(count=count))
        until(lambda: (folder / "address").exists())
        self.address = (folder / "address").read_text()
        self.options = ("--engine", "dask", "--scheduler", self.address, "--memory", "3M")

    def _start(self, *args):
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        command = (sys.executable, *map(str, args))
        self._started.append(
            subprocess.Popen(command, cwd=self.folder, env=os.environ | IDLE, **silent)
        )
        return self._started[-1]

    def worker(self, preload):
        """One more, in a process of its own."""
        options = (
            "--nthreads",
            1,
            "--no-nanny",
            "--no-dashboard",
            "--memory-limit",
            0,
            "--host",
            "127.0.0.1",
        )
        return self._start(
            "-m", "dask.__main__", "worker", self.address, *options, "--preload", preload
        )

    def ready(self, count):
        """Wait for the workers."""
        with distributed.Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=PATIENCE)
        return self

    def tasks(self):
        """The keys that the scheduler knows."""
        with distributed.Client(self.address, set_as_default=False) as client:
            return client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks))

    def end(self):
        for process in self._started:
            process.kill()
            process.wait()


@pytest.fixture
def site(tmp_path_factory):
    """A scheduler without workers, or with some of its own."""
    with contextlib.ExitStack() as stack:

        def make(*args):
            site = Site(tmp_path_factory.mktemp("site"), *args)
            stack.callback(site.end)
            return site

        yield make


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A scheduler with two workers."""
    site = Site(tmp_path_factory.mktemp("pair"), 2)
    yield site
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
    return oracle.expected(values, lengths, 1)


def under_way(site, folder):
    """The job in many blocks, of which the scheduler knows."""
    process = start(folder, *site.options)
    until(site.tasks)
    return process


def ended(process, folder, *words):
    """It stopped with one message, and left the old output and nothing else."""
    err = process.communicate()[1].decode()
    assert (process.returncode, err.count("Error: "), "Traceback" in err) == (2, 1, False), err
    assert all(word in err for word in words), err
    left_old(folder)


def left_old(folder):
    assert (folder / "y.npy").read_bytes() == b"old"
    assert {path.name for path in folder.iterdir()} == {"x.npy", "n.npy", "y.npy"}


def test_results_are_those_of_serial(revseq, tmp_path, pair, job):
    zarr = pytest.importorskip("zarr", reason="zarr, an extra, is not installed")
    run = ("run", "x.npy", "n.npy", "--axis", 1, "-o", "y.npy", "--overwrite", "--verify")
    revseq(*run, *pair.options).ok()
    assert np.array_equal(np.load(tmp_path / "y.npy"), job)
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset(
            "x", data=np.load(tmp_path / "x.npy"), chunks=(8, 32), compression="gzip", shuffle=True
        )
    # Without an option, the address is that of dask's own configuration.
    configured = f"import dask; dask.config.set({{'scheduler-address': {pair.address!r}}})"
    args = ("run", "x.h5", "n.npy", "--axis", 1, "--memory", "3M", "-o", "y.h5", "--engine", "dask")
    revseq(*args, code=configured).ok()
    with h5py.File(tmp_path / "y.h5") as f:
        assert np.array_equal(f["x"][:], job)
        assert (f["x"].chunks, f["x"].compression) == ((8, 32), "gzip")
    revseq("convert", "x.npy", "x.zarr", "--verify", *pair.options).ok()
    revseq(
        "run", "x.zarr", "n.npy", "--axis", 1, "-o", "y.zarr", "--verify", *pair.options[:-1], "16M"
    ).ok()
    assert np.array_equal(zarr.open(tmp_path / "y.zarr", mode="r")[...], job)
    assert revseq("diff", "x.npy", "y.zarr", *pair.options[:-1], "16M").status == 1
    until(lambda: pair.tasks() == [])


@pytest.mark.parametrize("kind", ["missing", "damaged"])
def test_an_error_of_a_worker_is_told_with_its_address(revseq, tmp_path, pair, job, kind):
    """A file that this machine has and workers have not is told as theirs."""
    change = "os.remove('n.npy')" if kind == "missing" else "os.truncate('x.npy', 1000)"
    code = "import os; from revseq_cli.pipeline import passes; real = passes.deliver_all\n"
    code += f"def act(*a, **b):\n    {change}\n    return real(*a, **b)\npasses.deliver_all = act\n"
    args = ("run", "x.npy", "n.npy", "--axis", 1, "-o", "y.npy", "--overwrite", *pair.options)
    done = revseq(*args, code=code, thresholds={"LENGTHS_AT_ONCE": 0})
    done.refused("on the worker tcp://127.0.0.1")
    assert (tmp_path / "y.npy").read_bytes() == b"old"


@pytest.mark.long
@pytest.mark.needs("told deaths")
def test_a_worker_that_dies_is_replaced(tmp_path, site, job):
    made = site()
    made.worker(SURVIVING)
    deadly = made.worker(DEADLY)
    process = start(tmp_path, *made.ready(2).options)
    _, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert deadly.wait() == 1
    assert np.array_equal(np.load(tmp_path / "y.npy"), job)


@pytest.mark.long
def test_a_late_worker_of_another_version(tmp_path, site, job):
    made = site(1, STUCK.replace("LONG", "3"))
    process = under_way(made, tmp_path)
    made.worker(OLD)
    ended(process, tmp_path, "the worker tcp://", "has revseq 0.0.9")


@pytest.mark.long
def test_a_scheduler_that_goes_away(tmp_path, site, job):
    made = site()
    made.worker(STUCK.replace("LONG", "1000"))
    process = under_way(made.ready(1), tmp_path)
    made.scheduler.kill()
    ended(process, tmp_path, "the scheduler or a worker failed")


@pytest.mark.needs("signals")
def test_a_signal_waits_for_the_blocks_that_workers_have_begun(tmp_path, site, job):
    """Else a worker would write a chunk into a folder that is gone, and make it anew."""
    pytest.importorskip("zarr", reason="zarr, an extra, is not installed")
    made = site(1, STUCK.replace("LONG", "0.3"))
    for number, output in ((signal.SIGINT, "y.npy"), (signal.SIGTERM, "y.zarr")):
        process = start(tmp_path, *made.options, "-o", output)
        until(lambda process=process: made.tasks() or process.poll() is not None)
        process.send_signal(number)
        _, err = process.communicate()
        assert (process.returncode, err) == (-number, b"")
        left_old(tmp_path)
        until(lambda: made.tasks() == [])
        left_old(tmp_path)


def test_nobody_there(monkeypatch, site):
    monkeypatch.setattr(executors, "_LONGEST_CALL", 0.2)
    with pytest.raises(EngineError, match="no dask scheduler answers"):
        executors.Cluster("tcp://127.0.0.1:9")
    monkeypatch.setattr(executors, "_LONGEST_CALL", PATIENCE)
    monkeypatch.setattr(executors, "_LONGEST_ALONE", 0.5)
    monkeypatch.setattr(executors, "_COUNTS_APART", 0)
    address = site().address
    made = executors.Cluster(address)
    try:
        made.submit(int)
        with pytest.raises(EngineError, match="the scheduler has no worker"):
            until(lambda: made.require_workers())
    finally:
        executors._connect(address).close()
        executors._connect.cache_clear()
        logging.disable(logging.NOTSET)


def test_a_signal_while_the_scheduler_is_silent(tmp_path, job):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        process = start(tmp_path, "--engine", "dask", "--scheduler", address)
        connection, _ = silent.accept()
        until(lambda: any(path.name.startswith(".revseq-") for path in tmp_path.iterdir()))
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate()
        assert (process.returncode, err) == (-signal.SIGTERM, b"")
        connection.close()
    left_old(tmp_path)


def test_options(revseq, files):
    job = ("run", "x.npy", "n.npy", "--axis", 1, "-o", "y.npy", "--dry-run")
    done = revseq(*job, "--engine", "dask", "--scheduler", "tcp://nowhere:1", "--memory", "1G").ok()
    assert "dask, all workers of tcp://nowhere:1" in done.out
    revseq(*job[:-1], "--engine", "dask").refused(
        "no dask scheduler is named", "add --scheduler tcp://"
    )
    revseq(*job[:-1], "--engine", "dask", "--scheduler", "host").refused(
        "no dask scheduler answers", "tcp://host:8786"
    )


def test_without_dask_it_is_said(files):
    code = "import sys; sys.modules['distributed'] = None; sys.argv = ['revseq', *sys.argv[1:]]; import revseq_cli.__main__ as m; m.main()"
    command = [
        sys.executable,
        "-c",
        code,
        "run",
        "x.npy",
        "n.npy",
        "--axis",
        "1",
        "-o",
        "y.npy",
        "--engine",
        "dask",
    ]
    done = subprocess.run(command, cwd=files, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: the engine dask needs the package dask")
    assert "pip install distributed" in done.stderr
