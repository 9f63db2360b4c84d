"""Addresses: what is read and written there is what would be read and written here, whatever the server does."""

import gzip
import io
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import oracle
import pytest
from processes import until

for package in ("fsspec", "aiohttp"):
    pytest.importorskip(
        package, reason=f"{package}, of the extra remote and of the tests, is not installed"
    )

import fsspec  # noqa: E402
import servers  # noqa: E402
import zarr  # noqa: E402
from click.testing import CliRunner  # noqa: E402
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper  # noqa: E402

from revseq_cli.commands.cli import cli  # noqa: E402
from revseq_cli.core.errors import RevseqError, without_secrets  # noqa: E402
from revseq_cli.files import calls, upload  # noqa: E402
from revseq_cli.files import close as close_files  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Consolidated metadata")
SIZES, LENGTHS = (6, 40_000), np.array([3, 0, 40_000, 2, 39_000, 1], np.uint32)
JOB = ("--axis", 1, "--batch-axis", 0)
X = np.arange(240_000, dtype=np.float32).reshape(SIZES)
RIGHT = oracle.expected(X, LENGTHS[:, None], 1)
# Small ranges, and short pauses between tries.
SMALL = {"FAR_PIECE": 1 << 18, "FAR_BLOCK": 1 << 16, "FAR_SMALL": 0}
QUICK = "import revseq_cli.files.calls as r; r._PAUSES = (0.01, 0.01)"
FORMATS = ("x.npy", "x.npz", "x.h5", "x.nc", "x.safetensors", "x.json", "x.pb", "x.zarr")


def stored(path):
    """The tensor of a file of ours, read by the libraries of its format."""
    if path.suffix == ".zarr":
        return zarr.open(path, mode="r")["x"][...]
    if path.suffix == ".h5":
        with h5py.File(path) as file:
            return file["x"][...]
    return np.load(path)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder of files in many formats, whose job is x.npy with n.npy; each with one tensor, in chunks if it has them."""
    folder = tmp_path_factory.mktemp("made")
    np.save(folder / "x.npy", X)
    np.save(folder / "n.npy", LENGTHS)
    np.savez_compressed(folder / "x.npz", x=X)
    (folder / "x.npy.gz").write_bytes(gzip.compress((folder / "x.npy").read_bytes(), 1))
    for name in ("x.h5", "x.nc"):
        with h5py.File(folder / name, "w") as file:
            file.create_dataset("x", data=X, chunks=(1, 10_000), compression=1)
    group = zarr.create_group(folder / "x.zarr")
    group.create_array("x", shape=SIZES, chunks=(1, 10_000), dtype="f4")[...] = X
    zarr.consolidate_metadata(folder / "x.zarr")
    return folder


@pytest.fixture
def far(made, tmp_path):
    return shutil.copytree(made, tmp_path / "far")


@pytest.fixture
def web(far):
    with servers.running(servers.Files(far)) as server:
        yield server


@pytest.fixture
def of_web(revseq, web, tmp_path):
    """Run the job with a file of that server, or another address; with `told`, it must be refused, and write nothing."""

    def run(name, told="", address=None, options=(), **order):
        words = (
            "run",
            address or f"{web.address}/{name}",
            "far/n.npy",
            *JOB,
            "-o",
            "y.npy",
            *options,
        )
        done = revseq(*words, thresholds=SMALL, code=order.pop("code", QUICK))
        if told:
            done.refused(told)
            assert not (tmp_path / "y.npy").exists()
        else:
            assert np.array_equal(np.load(tmp_path / "y.npy"), RIGHT)
        return done

    return run


@pytest.fixture
def memory():
    """Bytes at memory://box, for commands in this process alone."""
    calls.session().systems.clear()  # which have the methods of another test
    AsyncFileSystemWrapper.clear_instance_cache()
    files = fsspec.filesystem("memory")
    yield files
    close_files()
    files.store.clear()
    files.pseudo_dirs[:] = [""]


def here(*args):
    """Run a command in this process; what it prints, or the error that it raises."""
    done = CliRunner().invoke(cli, [*map(str, args)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_every_format_in_memory(memory, far):
    """One after another is made of the one before, with a tensor whose bits the last one must have."""
    memory.put(str(far / "x.npy"), "/box/x.npy")
    memory.put(str(far / "n.npy"), "/box/n.npy")
    here(
        "run",
        "memory://box/x.npy",
        "memory://box/n.npy",
        *JOB,
        "-o",
        "memory://box/y.npy",
        "--verify",
    )
    names = ["y.npy", *(name.replace("x", "y") for name in FORMATS[1:]), "y.bin"]
    for name, following in itertools.pairwise(names):
        here("convert", f"memory://box/{name}", f"memory://box/{following}", "--verify")
    here("convert", "memory://box/y.bin", "memory://box/z.npy", "--sizes", "6x40000")
    assert np.array_equal(np.load(io.BytesIO(memory.cat_file("/box/z.npy"))), RIGHT)
    assert "equal" in here(
        "diff", "memory://box/z.npy", "--job", "memory://box/x.npy", "memory://box/n.npy", *JOB
    )
    assert "FLOAT32" in here("show", "memory://box/y.zarr")
    assert "accepts" in here("check", "memory://box/x.npy", "memory://box/n.npy", *JOB)
    assert not [name for name in memory.find("/box") if ".revseq" in name]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("show", "memory://box/none.npy"), "no such file"),
        (("show", "memory://box/none.zarr"), "no such store"),
        (("show", "nothing://box/x.npy"), "fsspec knows no nothing"),
        (("show", "memory://box"), "a directory"),
        (("convert", "memory://box/x.npy", "memory://box/n.npy"), "exists already"),
        (
            ("convert", "memory://box/x.npy", "memory://box/x.npy", "--overwrite"),
            "also an input",
        ),
        (("convert", "memory://box/x.npy", "memory://box/x.zarr"), "exists already"),
        (("convert", "memory://box/x.npy", "http://host/y.npy"), "can only be read"),
        (
            (
                "run",
                "memory://box/x.npy",
                "[1, 1, 1, 1, 1, 1]",
                *JOB,
                "--picture",
                "memory://box/p.svg",
            ),
            "an address",
        ),
        (("export", "memory://box/x.npy", "[2]", *JOB, "-o", "memory://box/m.json"), "an address"),
    ],
)
def test_what_is_refused(memory, far, words, error):
    for name in ("x.npy", "n.npy", "x.zarr/x/c/0"):
        memory.pipe_file(f"/box/{name}", (far / "x.npy").read_bytes())
    before = memory.find("/box", detail=True)
    with pytest.raises(RevseqError, match=error):
        here(*words)
    assert memory.find("/box", detail=True) == before


@pytest.mark.parametrize("is_told", [False, True])
def test_overwrite_replaces(memory, far, monkeypatch, is_told):
    """Also through a package that has to be told so, as adlfs."""
    real = type(memory).put_file

    def put_file(self, path, name, overwrite=False, **options):
        if not overwrite and self.exists(name):
            raise FileExistsError(name)
        real(self, path, name)

    if is_told:
        monkeypatch.setattr(type(memory), "put_file", put_file)
    memory.pipe_file("/box/y.npy", b"old")
    here("convert", far / "x.npy", "memory://box/y.npy", "--overwrite")
    assert memory.cat_file("/box/y.npy") == (far / "x.npy").read_bytes()


def test_two_runs_of_one_store(memory, far, monkeypatch):
    """The one that comes second finds the mark of the first, also if both began at once, and takes nothing from it."""
    others = ["/box/y.zarr/.revseq-0.tmp", "/box/y.zarr/c/0/0"]
    create = upload.NewStore.create
    monkeypatch.setattr(
        upload.NewStore,
        "create",
        lambda file: ([memory.pipe_file(name, b"") for name in others], create(file)),
    )
    for _ in range(2):
        with pytest.raises(RevseqError, match="being written"):
            here("convert", far / "x.npy", "memory://box/y.zarr")
        assert memory.find("/box") == others


def test_the_metadata_of_a_store_come_last(memory, far, monkeypatch):
    put = []

    def noted(place, real):
        return lambda *args, **options: (put.append(args[place]), real(*args, **options))[1]

    for name, place in (("put_file", 2), ("pipe_file", 1)):
        monkeypatch.setattr(type(memory), name, noted(place, getattr(type(memory), name)))
    here("convert", far / "x.zarr", "memory://box/y.zarr")
    is_metadata = [name.endswith("/zarr.json") for name in put]
    assert put[-1] == "/box/y.zarr/zarr.json"
    assert is_metadata == sorted(is_metadata)
    assert is_metadata.index(True) > 24


def test_a_failure_leaves_no_object(memory, far, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(memory), "put_file", full)
    for name in ("y.npy", "y.zarr"):
        with pytest.raises(RevseqError, match=r"cannot write: .*No space left"):
            here("convert", far / "x.npy", f"memory://box/{name}")
    assert memory.find("/box") == []


# Addresses of files of this machine pass through fsspec, too, and reach other processes.


@pytest.mark.parametrize("name", ["x.npy", "x.h5", "x.zarr"])
def test_workers(revseq, far, name):
    words = ("--engine", "processes", "--jobs", 2, "--memory", "4M", "--verify")
    address, output = f"local://{far}/{name}", f"local://{far}/new/y{name[1:]}"
    revseq("run", address, f"local://{far}/n.npy", *JOB, "-o", output, *words).ok()
    assert np.array_equal(stored(far / "new" / f"y{name[1:]}"), RIGHT)
    assert not list((far / "new").rglob(".revseq*"))


@pytest.mark.parametrize("order", ["C", "F"])
def test_short_runs(revseq, far, order):
    np.save(far / "x.npy", np.asarray(X, order=order))
    words = ("run", f"local://{far}/x.npy", "far/n.npy", *JOB, "-o", "y.npy", "--memory", "40k")
    revseq(
        *words,
        thresholds={
            "FAR_SMALL": 64,
            "FAR_BLOCK": 64,
            "FAR_KEPT": 6400,
            "FAR_GAP": 64,
            "FAR_PIECE": 4096,
            "FAR_AT_ONCE": 9000,
        },
    ).ok()
    assert np.array_equal(np.load(far.parent / "y.npy"), RIGHT)


def test_batch(revseq, far):
    for stem in ("a", "b"):
        shutil.copy(far / "x.npy", far / f"in_{stem}.npy")
    words = ("batch", "--each", f"local://{far}/in_*.npy", "--lengths", "far/n.npy", *JOB, "-o", f"local://{far}/out/{{match}}.npy")  # fmt: skip
    revseq(*words).ok()
    for stem in ("a", "b"):
        assert np.array_equal(np.load(far / f"out/{stem}.npy"), RIGHT)
    assert revseq(*words, "--resume").ok().out.startswith("2 jobs: 2 skipped")
    os.utime(far / "in_a.npy")
    assert revseq(*words, "--resume").ok().out.startswith("2 jobs: 1 done, 1 skipped")


def test_local_jobs_know_no_fsspec(revseq, far):
    without = "import sys; sys.modules['fsspec'] = None"
    for name in ("x.npy", "x.h5", "x.zarr"):
        revseq("run", f"far/{name}", "far/n.npy", *JOB, "-o", f"y.{name[2:]}", code=without).ok()
    revseq("show", "s3://box/x.npy", code=without).refused(
        "an address of s3", "the packages fsspec s3fs", "install fsspec s3fs"
    )


# A web server


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.h5", "x.npy.gz", "x.zarr"])
def test_ranges_of_a_web_server(of_web, web, name):
    of_web(name)
    got = [method for method, path, _ in web.requests if path == f"/{name}"]
    assert got.count("HEAD") <= 2, "at the beginning and the end"
    whole = [
        path
        for method, path, wanted in web.requests
        if method == "GET" and path == f"/{name}" and not wanted
    ]
    assert not whole, "no file is fetched whole"


@pytest.mark.parametrize("name", ["x.npy", "x.h5", "x.zarr"])
def test_a_server_that_fails_now_and_then(of_web, web, name):
    """At first it fails, then it breaks off in the middle, and the third time it sends what is asked for."""
    web.fails = lambda number: web.requests[:number].count(web.requests[number - 1]) == 1
    web.breaks = lambda number: web.requests[:number].count(web.requests[number - 1]) == 2
    of_web(name)


@pytest.mark.parametrize("name", ["x.npy", "x.h5", "x.zarr", "x.npy.gz"])
def test_a_server_that_stops_to_answer(of_web, web, tmp_path, name):
    """When the header is read, and some of the values."""
    of_web(name)
    (tmp_path / "y.npy").unlink()
    half = len(web.requests) * 3 // 2
    web.fails = lambda number: number > half
    of_web(name, "cannot read: the server answers 503")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"status": 404}, "no such file"),
        ({"status": 403}, "no right to"),
        ({"status": 500}, "the server answers 500"),
        ({"breaks": lambda _: True}, "cannot read: "),
        (
            {"with_ranges": False},
            "its server sends whole files only",
        ),  # but a small one, as of lengths
    ],
)
def test_a_server_that_will_not(revseq, of_web, web, fault, words):
    """Nothing is written, and no credentials are told."""
    vars(web).update(fault)
    secret = f"{web.address.replace('//', '//me:SECRET@')}/x.npy?token=SECRET"
    done = of_web("", words, secret, ["--json"])
    assert "SECRET" not in done.out + done.err
    if "with_ranges" in fault:
        assert "39000" in revseq("show", f"{web.address}/n.npy").ok().out


def test_no_credentials_anywhere(revseq, web):
    secret = f"{web.address.replace('//', '//me:SECRET@')}/x.nc?token=SECRET"
    done = [revseq("run", f"{secret}::x", "far/n.npy", *JOB, "-o", "y.nc", "-vv").ok()]
    done += [revseq("run", f"{secret}::x", "far/n.npy", *JOB, "-o", "z.npy", "--json").ok()]
    done += [
        revseq("show", f"{secret}::x", "--json").ok(),
        revseq("show", f"{secret}::none").refused("no such"),
    ]
    assert not [each for each in done if "SECRET" in each.out + each.err]
    assert b"SECRET" not in (web.folder.parent / "y.nc").read_bytes()
    assert without_secrets("a https://me:S@h/x?S#S b") == "a https://h/x b"
    assert without_secrets("https://h/x.nc?S=a:b::air") == "https://h/x.nc::air"


@pytest.mark.parametrize("name", ["x.npy", "x.h5", "x.zarr"])
def test_an_input_that_changes(of_web, web, name):
    """Of a store, whose files a web server does not list, in a bucket."""
    file, address = web.folder / name, f"{web.address}/{name}"
    if name == "x.zarr":
        file, address = file / "x/c/5/3", f"local://{file}"
    changes = f"""
import revseq_cli.operator.kernel as k
def reverse(*a, real=k.reverse, **b):
    with open({str(file)!r}, "ab") as file:
        file.write(b" ")
    return real(*a, **b)
k.reverse = reverse
"""
    of_web(name, "changed while it was read", address, code=changes)


@pytest.mark.needs("signals")
def test_a_signal_ends_a_wait(web, tmp_path):
    """Within a second, though the server is silent."""
    code = "import revseq_cli.core.thresholds as t; t.FAR_PIECE = 1 << 18; t.FAR_SMALL = 0\nfrom revseq_cli.__main__ import main; main()"
    job = ["run", f"{web.address}/x.npy", "far/n.npy", *map(str, JOB), "-o", "y.npy"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *job], cwd=tmp_path, stdout=-1, stderr=-1
    )

    def is_at_work():
        """Whether a piece of a block is asked for, since a signal before ends the process at once."""
        ranges = [re.findall(r"\d+", wanted or "0-0") for _, _, wanted in web.requests]
        return any(int(stop) - int(start) > 1 << 17 for start, stop in ranges)

    web.fails = lambda number: is_at_work() and web.open.clear()
    until(is_at_work)
    time.sleep(0.2)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert time.monotonic() - began < 1
    assert process.returncode == -signal.SIGINT
    assert sorted(os.listdir(tmp_path)) == ["far"]


# S3


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    """The environment of a client of an S3 server with the bucket box, and a filesystem of it."""
    if not shutil.which("moto_server"):
        pytest.skip("moto_server, an S3 server for tests, is not on PATH")
    with servers.s3(tmp_path_factory.mktemp("s3") / "log") as env:
        keys = {"key": env["AWS_ACCESS_KEY_ID"], "secret": env["AWS_SECRET_ACCESS_KEY"]}
        files = fsspec.filesystem(
            "s3", endpoint_url=env["AWS_ENDPOINT_URL"], use_listings_cache=False, **keys
        )
        files.mkdir("box")
        yield env, files


@pytest.fixture
def box(s3, far):
    env, files = s3
    files.put(f"{far}/", "box/in/", recursive=True)
    yield env, files
    files.rm("box/*", recursive=True)


@pytest.mark.long
def test_a_bucket(revseq, box, tmp_path):
    env, files = box
    for name, engine in (("x.npy", "serial"), ("x.h5", "processes"), ("x.zarr", "processes")):
        words = ("--engine", engine, "--jobs", 2, "--memory", "8M", "--verify")
        output = f"s3://box/out/y{name[1:]}"
        revseq(
            "run", f"s3://box/in/{name}", "s3://box/in/n.npy", *JOB, "-o", output, *words, env=env
        ).ok()
        files.get(
            f"box/out/y{name[1:]}", str(tmp_path / f"y{name[1:]}"), recursive=name == "x.zarr"
        )
        assert np.array_equal(stored(tmp_path / f"y{name[1:]}"), RIGHT)
    assert not [name for name in files.find("box") if ".revseq" in name]


@pytest.mark.long
def test_what_a_bucket_refuses(revseq, box):
    env, files = box
    before = files.find("box", detail=True)
    job = ("run", "s3://box/in/x.npy", "s3://box/in/n.npy", *JOB)
    without = {name: value for name, value in env.items() if "KEY" not in name} | {
        "HOME": os.devnull
    }
    for words, environment, told in (
        (("show", "s3://box/none.npy"), env, "no such file, or no such bucket"),
        ((*job, "-o", "s3://none/y.npy"), env, "no such bucket"),
        ((*job, "-o", "s3://box/in/x.h5"), env, "exists already"),
        ((*job, "-o", "s3://box/in/x.zarr"), env, "exists already"),
        (("show", "s3://me:SECRET@box/in/x.npy"), env, "cannot read"),
        (("show", "s3://box/in/x.npy"), without, "there are no credentials"),
    ):
        assert "SECRET" not in revseq(*words, env=environment).refused(told).err
    assert files.find("box", detail=True) == before


# A scheduler with two workers, to which no file of a folder is there.
ALONE = """
import asyncio, os, pathlib, sys
from distributed import Scheduler, Worker
def refuse(event, arguments):
    if event in ("open", "os.listdir", "os.scandir", "os.mkdir") and str(arguments[0]).startswith({folder!r}):
        raise PermissionError(13, "another machine's", arguments[0])
async def main():
    async with Scheduler(host="127.0.0.1", port=0, dashboard=False) as scheduler:
        pathlib.Path("new").write_text(scheduler.address)
        pathlib.Path("new").rename("address")
        options = dict(nthreads=1, memory_limit=0, dashboard=False)
        async with Worker(scheduler.address, **options), Worker(scheduler.address, **options):
            sys.addaudithook(refuse)
            await scheduler.finished()
asyncio.run(main())
"""


@pytest.mark.long
@pytest.mark.parametrize("name", ["x.npy", "x.h5", "x.zarr"])
def test_dask_without_a_shared_folder(revseq, box, tmp_path, name):
    pytest.importorskip("distributed", reason="distributed, the extra dask, is not installed")
    env, files = box
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    command = [sys.executable, "-c", ALONE.format(folder=str(here))]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    cluster = subprocess.Popen(command, cwd=there, env=os.environ | env, **silent)
    try:
        until((there / "address").exists)
        words = (
            "--engine",
            "dask",
            "--scheduler",
            (there / "address").read_text(),
            "--memory",
            "4M",
            "--verify",
        )
        output = f"s3://box/out/y{name[1:]}"
        env = env | {"TMPDIR": str(here)}
        revseq(
            "run", f"s3://box/in/{name}", "s3://box/in/n.npy", *JOB, "-o", output, *words, env=env
        ).ok()
    finally:
        cluster.kill()
        cluster.wait()
    files.get(
        output.removeprefix("s3://"), str(tmp_path / f"y{name[1:]}"), recursive=name == "x.zarr"
    )
    assert np.array_equal(stored(tmp_path / f"y{name[1:]}"), RIGHT)
    assert not os.listdir(here)
