"""Addresses: what is read and written there is what would be read and written here, whatever the server does."""

import gzip
import io
import itertools
import json
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

from revseq_cli import files  # noqa: E402
from revseq_cli.commands.cli import cli  # noqa: E402
from revseq_cli.core import platform, thresholds  # noqa: E402
from revseq_cli.core.errors import RevseqError, without_secrets  # noqa: E402
from revseq_cli.files import close as close_files  # noqa: E402
from revseq_cli.files.address import Address  # noqa: E402
from revseq_cli.files.remote import faults, new, states  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Consolidated metadata")
SIZES, LENGTHS = (6, 40_000), np.array([3, 0, 40_000, 2, 39_000, 1], np.uint32)
JOB = ("--axis", 1, "--batch-axis", 0)
X = np.arange(240_000, dtype=np.float32).reshape(SIZES)
RIGHT = oracle.expected(X, LENGTHS[:, None], 1)
# Small ranges, and short pauses between tries.
SMALL = {
    "REMOTE_PIECE": 1 << 18,
    "REMOTE_BLOCK": 1 << 16,
    "REMOTE_SMALL": 0,
    "REMOTE_WHOLE": 1 << 16,
}
QUICK = "import revseq_cli.files.remote.faults as r; r._PAUSES = (0.01, 0.01)"
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


@pytest.fixture(scope="module")
def buckets():
    """An S3 server in memory."""
    pytest.importorskip("s3fs", reason="s3fs, of the tests, is not installed")
    with servers.running(servers.Bucket()) as server:
        yield server


@pytest.fixture
def bucket(buckets, monkeypatch):
    """A new bucket of that server, whose client this process is, and its commands."""
    for name, value in buckets.env.items():
        monkeypatch.setenv(name, value)
    buckets.empty()
    yield buckets
    buckets.open.set()
    close_files()


def here(*args):
    """Run a command in this process; what it prints, or the error that it raises."""
    done = CliRunner().invoke(cli, [*map(str, args)])
    close_files()
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def test_every_format_in_a_bucket(bucket, far):
    """One after another is made of the one before, with a tensor whose bits the last one must have."""
    bucket.put("x.npy", far / "x.npy")
    bucket.put("n.npy", far / "n.npy")
    here("run", "s3://box/x.npy", "s3://box/n.npy", *JOB, "-o", "s3://box/y.npy", "--verify")
    names = ["y.npy", *(name.replace("x", "y") for name in FORMATS[1:]), "y.bin"]
    for name, following in itertools.pairwise(names):
        here("convert", f"s3://box/{name}", f"s3://box/{following}", "--verify")
    here("convert", "s3://box/y.bin", "s3://box/z.npy", "--sizes", "6x40000")
    assert np.array_equal(np.load(io.BytesIO(bucket.objects["z.npy"].data)), RIGHT)
    assert "equal" in here(
        "diff", "s3://box/z.npy", "--job", "s3://box/x.npy", "s3://box/n.npy", *JOB
    )
    assert "FLOAT32" in here("show", "s3://box/y.zarr")
    assert "accepts" in here("check", "s3://box/x.npy", "s3://box/n.npy", *JOB)
    assert not [name for name in bucket.objects if ".revseq" in name]
    assert not bucket.uploads


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("show", "s3://box/none.npy"), "no such file"),
        (("show", "s3://box/none.zarr"), "no such store"),
        (("show", "nothing://box/x.npy"), "unknown scheme nothing"),
        (("show", "s3://box"), "a folder"),
        (("show", "s3://box/x.zarr/x"), "a folder"),
        (("convert", "s3://box/x.npy", "s3://box/n.npy"), "exists already"),
        (("convert", "s3://box/x.npy", "s3://none/n.npy"), "no such bucket"),
        (("convert", "s3://box/x.npy", "s3://box/x.npy", "--overwrite"), "also an input"),
        (("convert", "s3://box/x.npy", "s3a://box/x.npy", "--overwrite"), "also an input"),
        (("convert", "S3N://box/x.npy", "s3://box/x.npy", "--overwrite"), "also an input"),
        (("convert", "s3://box/x.npy", "s3://box/x.npy/", "--overwrite"), "also an input"),
        (
            ("convert", "s3://box/x.npy", "s3://box/x.npy?versionId=null", "--overwrite"),
            "also an input",
        ),
        (("convert", "s3://box/x.npy", "s3://box/x.zarr"), "exists already"),
        (("convert", "s3://box/x.npy", "s3://box/v.npy?versionId=3"), "names a version"),
        (("convert", "s3://box/x.npy", "s3://box/v.zarr?versionId=3"), "names a version"),
        (("convert", "s3://box/x.npy", "http://host/y.npy"), "can only be read"),
        (("convert", "s3://box/x.npy", "memory://box/y.npy"), "would be lost"),
        (
            ("run", "s3://box/x.npy", "[1, 1, 1, 1, 1, 1]", *JOB, "--picture", "s3://box/p.svg"),
            "an address",
        ),
        (("export", "s3://box/x.npy", "[2]", *JOB, "-o", "s3://box/m.json"), "an address"),
    ],
)
def test_what_is_refused(bucket, far, words, error):
    for name in ("x.npy", "n.npy", "x.zarr/x/c/0"):
        bucket.put(name, far / "x.npy")
    before = dict(bucket.objects)
    with pytest.raises(RevseqError, match=error):
        here(*words)
    assert bucket.objects == before


def test_names_with_colons(bucket, far):
    bucket.put("in/a::b.npy", far / "x.npy")
    bucket.put("x.npz", far / "x.npz")
    assert "FLOAT32" in here("show", "s3://box/in/a::b.npy")
    assert "FLOAT32" in here("show", "s3://box/x.npz::x")
    with pytest.raises(RevseqError, match="no such file"):
        here("show", "s3://box/in/a::c.npy")


def test_overwrite_replaces(bucket, far):
    bucket.objects["y.npy"] = servers.Object(b"old")
    here("convert", far / "x.npy", "s3a://box/y.npy", "--overwrite")
    assert bucket.objects["y.npy"].data == (far / "x.npy").read_bytes()


def test_two_runs_of_one_store(bucket, far, monkeypatch):
    """The one that comes second finds the mark of the first, also if both began at once, and takes nothing from it."""
    others = ["y.zarr/.revseq-0.tmp", "y.zarr/c/0/0"]
    create = new.NewRemoteStore.create

    def create_second(file):
        bucket.objects |= {name: servers.Object(b"") for name in others}
        create(file)

    monkeypatch.setattr(new.NewRemoteStore, "create", create_second)
    for _ in range(2):
        with pytest.raises(RevseqError, match="being written"):
            here("convert", far / "x.npy", "s3://box/y.zarr")
        assert sorted(bucket.objects) == others


def test_the_metadata_of_a_store_come_last(bucket, far):
    here("convert", far / "x.zarr", "s3://box/y.zarr")
    put = [path for method, path, *_ in bucket.requests if method == "PUT"]
    is_metadata = [name.endswith("/zarr.json") for name in put]
    assert put[-1] == "/box/y.zarr/zarr.json"
    assert is_metadata == sorted(is_metadata)
    assert is_metadata.index(True) > 24


def test_a_failure_leaves_no_object(bucket, far):
    bucket.fault = lambda method, path: (
        (400, "Broken") if method == "PUT" and "tmp" not in path else None
    )
    for name in ("y.npy", "y.zarr"):
        with pytest.raises(RevseqError, match=r"cannot write: .*Broken"):
            here("convert", far / "x.npy", f"s3://box/{name}")
    assert bucket.objects == {}


def count(bucket, *words):
    """The requests of a command, how many of them in a row waited for an earlier one, and the bytes that were read."""
    bucket.requests.clear()
    bucket.sent = 0
    bucket.latency = 0.2
    here(*words)
    counts = bucket.count()
    bucket.latency = 0
    return *counts, bucket.sent


@pytest.fixture
def large(bucket, tmp_path):
    """A tensor of 8 MiB in four formats, with pieces of 1 MiB in place of 8, as one of 64 MiB has with those."""
    values = np.random.default_rng(0).standard_normal((128, 64, 256)).astype("f4")
    np.save(tmp_path / "x.npy", values)
    with h5py.File(tmp_path / "chunks.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=(16, 16, 64))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = values
    array = zarr.create_array(
        tmp_path / "x.zarr", shape=values.shape, chunks=(32, 16, 64), dtype="f4"
    )
    array[...] = values
    np.save(tmp_path / "first.npy", np.full((64, 256), 99, "i4"))
    np.save(tmp_path / "last.npy", np.full((128, 64), 99))
    np.save(tmp_path / "small.npy", values[:8])
    for path in tmp_path.iterdir():
        if path.suffix in (".npy", ".h5", ".zarr"):
            bucket.put(path.name, path)
    return bucket


REQUESTS = [
    ("x.npy", "last.npy", 2, "1G", (26, 12, 10)),
    ("x.npy", "first.npy", 0, "2M", (24, 14, 10)),
    ("chunks.h5", "first.npy", 0, "1G", (32, 16, 10)),
    ("x.h5", "first.npy", 0, "1G", (26, 14, 10)),
    ("x.zarr", "last.npy", 2, "1G", (160, 50, 10)),
    ("small.npy", "[99]", 2, "1G", (6, 6, 1)),
]


@pytest.mark.parametrize(("name", "lengths", "axis", "memory", "most"), REQUESTS)
def test_requests_of_a_run(large, monkeypatch, name, lengths, axis, memory, most):
    """The data are read once, in ranges that are fetched together."""
    for threshold in ("REMOTE_PIECE", "REMOTE_SMALL"):
        value = getattr(thresholds, threshold)
        monkeypatch.setattr(thresholds, threshold, value >> 3)
    monkeypatch.setattr("revseq_cli.files.remote.s3._LEAST_PART", 1 << 20)
    monkeypatch.setattr(thresholds, "BLOCK_BYTES", 1 << 19)
    given = lengths if lengths.startswith("[") else f"s3://box/{lengths}"
    output = f"s3://box/y{name[name.index('.') :]}"
    words = ("run", f"s3://box/{name}", given, "--axis", axis, "-o", output, "--memory", memory)
    requests, rounds, size = count(large, *words)
    assert requests <= most[0]
    # On a busy machine, requests that could go together are at times sent one after another.
    assert rounds <= most[1] + 3
    assert size <= most[2] << 20


@pytest.mark.parametrize("name", ["x.npy", "x.zarr", "large.zarr", "chunks.h5::x", "large.h5::x"])
def test_requests_of_show(large, tmp_path, name):
    """A preview reads few chunks: the large ones have 1 MiB."""
    values = np.load(tmp_path / "x.npy")
    chunks = (64, 64, 64)
    with h5py.File(tmp_path / "large.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=chunks, compression=1)
    zarr.create_array(tmp_path / "large.zarr", data=values, chunks=chunks)
    for file_name in ("large.h5", "large.zarr"):
        large.put(file_name, tmp_path / file_name)
    _, rounds, size = count(large, "show", f"s3://box/{name}")
    assert rounds <= 6
    assert size <= 3 << 20


def test_a_dry_run_tells_requests(bucket, far):
    bucket.put("x.npy", far / "x.npy")
    bucket.put("x.zarr", far / "x.zarr")
    text = here("run", "s3://box/x.npy", far / "n.npy", *JOB, "--dry-run")
    assert re.search(r"download +1 request, 960,128 bytes", text)
    assert "download" not in here("run", far / "x.npy", far / "n.npy", *JOB, "--dry-run")
    stored = sum(file.stat().st_size for file in (far / "x.zarr/x").rglob("*") if file.is_file())
    for name, requests, size in (("x.npy", 1, 960_128), ("x.zarr", 25, stored)):
        text = here("run", f"s3://box/{name}", far / "n.npy", *JOB, "--dry-run", "--json")
        plan = json.loads(text)["plan"]
        assert plan["download_requests"] == requests
        assert plan["download_bytes"] == size


def test_requests_of_a_batch(bucket, far):
    for i in range(20):
        bucket.put(f"in/{i}.npy", far / "n.npy")
    words = ("batch", "--each", "s3://box/in/*.npy", "--lengths", "[3]", "--axis", 0, "-o")
    output = "s3://box/out/{name}"
    requests, *_ = count(bucket, *words, output, "--jobs", 1)
    assert requests <= 4 * 20 + 8
    requests, *_ = count(bucket, *words, output, "--resume")
    assert requests <= 7


def test_requests_of_a_batch_with_common_lengths(bucket, far):
    """They are read once, whichever worker does a job."""
    for i in range(20):
        bucket.put(f"in/{i}.npy", far / "x.npy")
    bucket.put("n.npy", far / "n.npy")
    words = ("batch", "--each", "s3://box/in/*.npy", "--lengths", "s3://box/n.npy", *JOB)
    requests, *_ = count(bucket, *words, "-o", "s3://box/out/{name}")
    assert requests <= 4 * 20 + 8
    reads = [path for method, path, *_ in bucket.requests if method == "GET"]
    assert reads.count("/box/n.npy") == 1
    for i in range(20):
        assert np.array_equal(np.load(io.BytesIO(bucket.objects[f"out/{i}.npy"].data)), RIGHT)


@pytest.fixture
def in_parts(bucket, tmp_path, monkeypatch):
    """A file of four parts."""
    monkeypatch.setattr("revseq_cli.files.remote.s3._LEAST_PART", 1 << 18)
    monkeypatch.setattr("revseq_cli.core.thresholds.REMOTE_PIECE", 1 << 18)
    monkeypatch.setattr(faults, "_PAUSES", (0.01, 0.01))
    np.save(tmp_path / "x.npy", X)
    return bucket


@pytest.mark.parametrize(
    ("method", "part", "action"),
    [
        ("PUT", "partNumber=2", (503, "SlowDown")),
        ("PUT", "partNumber=3", "reset"),
        ("POST", "uploads", (500, "InternalError")),
        ("POST", "uploadId", "lose"),
        ("POST", "uploadId", (501, "NotImplemented")),
    ],
)
def test_an_upload_that_fails_once(in_parts, tmp_path, method, part, action):
    """Also where the answer is lost that says it is complete, and where the store knows no conditions."""
    actions = iter([action])

    def fail(asked, path):
        return next(actions, None) if asked == method and part in path else None

    in_parts.fault = fail
    here("convert", tmp_path / "x.npy", "s3://box/y.npy")
    assert in_parts.objects["y.npy"].data == (tmp_path / "x.npy").read_bytes()
    assert not in_parts.uploads


@pytest.mark.parametrize("action", [(403, "AccessDenied"), (503, "SlowDown"), "reset"])
def test_an_upload_that_fails_leaves_no_parts(in_parts, tmp_path, action):
    in_parts.fault = lambda method, path: action if "partNumber=3" in path else None
    with pytest.raises(RevseqError, match="cannot write"):
        here("convert", tmp_path / "x.npy", "s3://box/y.npy")
    assert not in_parts.uploads
    assert not in_parts.objects


@pytest.mark.needs("signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_parts(bucket, tmp_path, number):
    np.save(tmp_path / "x.npy", np.zeros((24, 1 << 18), np.float32))
    bucket.fault = lambda method, path: "hang" if "partNumber=3" in path else None
    words = [sys.executable, "-m", "revseq_cli", "convert", "x.npy", "s3://box/y.npy"]
    process = subprocess.Popen(words, cwd=tmp_path, stdout=-1, stderr=-1)
    until(lambda: any(len(parts) >= 2 for parts in bucket.uploads.values()))
    process.send_signal(number)
    process.communicate()
    assert process.returncode == -number
    assert not bucket.uploads
    assert not bucket.objects


def test_without_the_right_to_look(bucket, far):
    """Who may not list a bucket gets 403 for what is not there, and the condition of the upload decides."""
    bucket.fault = lambda method, path: (403, "AccessDenied") if method in ("GET", "HEAD") else None
    here("convert", far / "x.npy", "s3://box/y.npy")
    with pytest.raises(RevseqError, match="exists already"):
        here("convert", far / "n.npy", "s3://box/y.npy")
    assert bucket.objects["y.npy"].data == (far / "x.npy").read_bytes()


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (400, "ExpiredToken", "credentials have expired.*aws sso login"),
        (301, "PermanentRedirect", "another region.*AWS_DEFAULT_REGION"),
        (403, "AccessDenied", "access denied"),
        (403, "SignatureDoesNotMatch", "credentials are wrong"),
        (404, "NoSuchBucket", "no such bucket"),
    ],
)
def test_what_a_bucket_answers(bucket, status, code, error):
    bucket.fault = lambda method, path: (status, code)
    with pytest.raises(RevseqError) as raised:
        here("show", "s3://box/x.npy")
    assert re.search(error, f"{raised.value} {raised.value.hint}")


def test_a_chunk_that_is_listed_and_not_sent(bucket, far, tmp_path):
    bucket.put("x.zarr", far / "x.zarr")
    bucket.fault = lambda method, path: (404, "NoSuchKey") if "/c/2/1" in path else None
    with pytest.raises(RevseqError, match="is listed"):
        here("convert", "s3://box/x.zarr", tmp_path / "y.npy")
    bucket.fault = lambda method, path: None
    del bucket.objects["x.zarr/x/c/2/1"]
    here("convert", "s3://box/x.zarr", tmp_path / "y.npy")
    assert not np.load(tmp_path / "y.npy")[2, 10_000:20_000].any()


def test_a_profile_that_is_missing(revseq, bucket, far):
    done = revseq("show", "s3://box/x.npy", env={"AWS_PROFILE": "nobody"})
    done.refused("nobody", "aws configure list-profiles")


def test_a_web_server_as_a_scheduler(revseq, far):
    words = ("run", "far/x.npy", "far/n.npy", *JOB, "-o", "y.npy", "--engine", "dask")
    done = revseq(*words, "--scheduler", "HTTPS://me:SECRET@cluster.example/hub?token=SECRET")
    done.refused("--scheduler tcp://cluster.example:8786")
    assert "SECRET" not in done.err


@pytest.mark.parametrize("name", ["x.npy", "x.h5", "x.zarr"])
def test_workers(revseq, bucket, far, tmp_path, name):
    bucket.put(name, far / name)
    words = ("--engine", "processes", "--jobs", 2, "--memory", "4M", "--verify")
    output = f"s3://box/new/y{name[1:]}"
    revseq("run", f"s3://box/{name}", "far/n.npy", *JOB, "-o", output, *words).ok()
    bucket.get(f"new/y{name[1:]}", tmp_path / f"y{name[1:]}")
    assert np.array_equal(stored(tmp_path / f"y{name[1:]}"), RIGHT)
    assert not [key for key in bucket.objects if ".revseq" in key]


@pytest.mark.parametrize("order", ["C", "F"])
def test_short_runs(revseq, bucket, far, order):
    np.save(far / "x.npy", np.asarray(X, order=order))
    bucket.put("x.npy", far / "x.npy")
    words = ("run", "s3://box/x.npy", "far/n.npy", *JOB, "-o", "y.npy", "--memory", "40k")
    small = {
        "REMOTE_SMALL": 64,
        "REMOTE_BLOCK": 64,
        "REMOTE_KEPT": 6400,
        "REMOTE_GAP": 64,
        "REMOTE_PIECE": 4096,
    }
    no_copy = "import shutil; shutil.disk_usage = lambda path: shutil._ntuple_diskusage(0, 0, 0)"
    revseq(*words, thresholds=small, code=no_copy).ok()
    assert np.array_equal(np.load(far.parent / "y.npy"), RIGHT)


def test_batch(revseq, bucket, far):
    for stem in ("a", "b"):
        bucket.put(f"in_{stem}.npy", far / "x.npy")
    words = ("batch", "--each", "s3://box/in_*.npy", "--lengths", "far/n.npy", *JOB, "-o", "s3://box/out/{match}.npy")  # fmt: skip
    revseq(*words).ok()
    for stem in ("a", "b"):
        assert np.array_equal(np.load(io.BytesIO(bucket.objects[f"out/{stem}.npy"].data)), RIGHT)
    assert revseq(*words, "--resume").ok().out.startswith("2 jobs: 2 skipped")
    bucket.objects["in_a.npy"].time += 60
    assert revseq(*words, "--resume").ok().out.startswith("2 jobs: 1 done, 1 skipped")


@pytest.mark.needs("signals")
@pytest.mark.parametrize("again", ["die()", "raise OSError(5, 'no')"])
def test_a_store_of_a_job_that_fails_twice(revseq, bucket, far, again):
    """Its worker dies after it has put the chunks, and then dies or fails in another way."""
    fails = f"""
import os, signal, pathlib
import revseq_cli.files.remote.new as u, revseq_cli.pipeline.loading as s
def die():
    pathlib.Path("died").touch()
    os.kill(os.getpid(), signal.SIGKILL)
def load(request, real=s.load_job):
    if os.path.exists("died"):
        {again}
    return real(request)
s.load_job = load
u.NewRemoteStore.take_name = lambda file: die()
"""
    words = ("batch", "--each", "far/x.zarr", "--lengths", "far/n.npy", *JOB)
    done = revseq(*words, "-o", "s3://box/out/y.zarr", code=fails)
    assert done.status == 1
    assert [method for method, path, *_ in bucket.requests if "y.zarr/" in path].count("PUT") > 24
    assert bucket.objects == {}


@pytest.mark.parametrize("scheme", ["local://", "LOCAL://", "file://", "File://localhost"])
def test_local_addresses_are_paths(revseq, far, scheme):
    """An input under such a name is not overwritten, and an output replaces what a link names."""
    address = f"{scheme}{far}/x.npy"
    for source, output in ((address, "far/x.npy"), ("far/x.npy", address)):
        revseq("convert", source, output, "--overwrite").refused("also an input")
    (far / "link.npy").symlink_to("new.npy")
    revseq("run", address, f"{scheme}{far}/n.npy", *JOB, "-o", f"{scheme}{far}/link.npy").ok()
    assert np.array_equal(np.load(far / "new.npy"), RIGHT)
    manifest = far / "jobs.csv"
    manifest.write_text(
        "input,lengths,output,axis,batch_axis\n"
        f"far/x.npy,far/n.npy,{scheme}{far}/a.npy,1,0\n"
        f"far/a.npy,far/n.npy,far/b.npy,1,0\n"
    )
    revseq("batch", manifest).refused("a.npy", "output")


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
        ({"status": 403}, "access denied"),
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


def test_a_small_file_whose_server_says_no_length(revseq, web):
    """Nor does it send ranges: the body ends with the connection."""
    web.with_ranges = False
    web.changes = lambda head, body: ({**head, "Connection": "close"}, body)
    assert "39000" in revseq("show", f"{web.address}/n.npy").ok().out


def other_start(head, body):
    return {**head, "Content-Range": "bytes 64-191/960128"}, body


def another_total(head, body):
    start = head["Content-Range"].partition("/")[0]
    return {**head, "Content-Range": f"{start}/5"}, body


def no_range(head, body):
    return {name: value for name, value in head.items() if name != "Content-Range"}, body


@pytest.mark.parametrize("changes", [other_start, another_total, no_range])
def test_ranges_that_were_not_asked_for(of_web, web, changes):
    web.changes = changes
    of_web("x.npy", "Error: ")


def test_a_body_that_is_too_long_is_cut_off(of_web, web):
    web.changes = lambda head, body: ({**head, "Connection": "close"}, body + bytes(1 << 20))
    of_web("x.npy")


@pytest.mark.parametrize("status", [200, 400, 416, 501])
def test_shards_without_ranges_from_the_end(of_web, web, status):
    """Whether the server sends the whole shard, or refuses."""
    zarr.create_array(web.folder / "shards.zarr", data=X, chunks=(1, 10_000), shards=(3, 20_000))
    web.status_of_ends = status
    of_web("shards.zarr")
    assert any("=-" in (part or "") for _, _, part in web.requests)


@pytest.mark.parametrize("name", ["x.npy", "x.zarr"])
def test_a_silent_server(of_web, web, name):
    web.fails = lambda number: web.open.clear()
    impatient = f"{QUICK}\nimport revseq_cli.files.remote.web as w; w.MOST_SILENCE = 0.2"
    of_web(name, "did not answer", code=impatient)


@pytest.mark.parametrize("chunks", ["none", "some"])
def test_a_store_of_a_web_server_without_chunks(of_web, revseq, web, chunks):
    shutil.rmtree(web.folder / "x.zarr/x/c")
    if chunks == "none":
        of_web("x.zarr", "none of the 24 chunks")
        return
    other = web.folder / "x.zarr/x/c/2"
    other.mkdir(parents=True)
    shutil.copy(zarr_chunk(web.folder), other / "1")
    revseq("show", f"{web.address}/x.zarr").ok()


def zarr_chunk(folder):
    """A file with a chunk of zeros."""
    array = zarr.create_array(
        folder / "one.zarr", shape=(1, 10_000), chunks=(1, 10_000), dtype="f4"
    )
    array[...] = 1
    return folder / "one.zarr/c/0/0"


@pytest.mark.parametrize("value", ["SECRET", "a'SECRET"])
def test_no_credentials_anywhere(revseq, web, value):
    """A shell writes a quote in another way, so that the history has the second one otherwise."""
    secret = f"{web.address.replace('//', f'//me:{value}@')}/x.nc?token={value}"
    done = [revseq("run", f"{secret}::x", "far/n.npy", *JOB, "-o", "y.nc", "-vv").ok()]
    done += [revseq("run", f"{secret}::x", "far/n.npy", *JOB, "-o", "z.npy", "--json").ok()]
    done += [
        revseq("show", f"{secret}::x", "--json").ok(),
        revseq("show", f"{secret}::none").refused("no such"),
    ]
    npy = secret.replace("/x.nc", "/x.npy")
    done += [revseq("run", npy, "far/n.npy", *JOB, "-o", "h.nc").ok()]
    assert not [each for each in done if "SECRET" in each.out + each.err]
    for name in ("y.nc", "h.nc"):
        data = (web.folder.parent / name).read_bytes()
        assert b"SECRET" not in data
    assert b"revseq run" in data  # in its history
    assert without_secrets("a https://me:S@h/x?S#S b") == "a https://h/x b"
    assert without_secrets("https://h/x.nc?S=a:b::air") == "https://h/x.nc::air"


@pytest.mark.parametrize(
    "address",
    [
        "HTTP://h/x?sig=SECRET",
        "https://h/x.npy?token=SECRET&a=SECRET#SECRET",
        "https://me:p@ss 'w\"SECRET@h/x.npy",
        "https://me:SECRET%21@h/x.npy",
        "s3://key:SECRET@box/x.npy",
        "az://box/x.npy?sig=SECRET",
    ],
)
def test_secrets_of_an_address(revseq, address):
    """They are hidden by value, whatever they have been through: quotes, an option, a manifest."""
    for words in (
        ("run", address, "--axis", "x", "--nothing"),
        ("run", "x.npy", f"--lengths-dtype={address}", "--axis", 0),
        ("show", address, "-vv", "--json"),
    ):
        done = revseq(*words, env={"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"})  # fmt: skip
        assert done.status == 2
        assert "SECRET" not in done.out + done.err
    Address(address)
    assert "SECRET" not in without_secrets(f"cannot open {address!r} or {address}")


def test_a_secret_with_a_control_character_is_hidden_in_a_quoted_word():
    Address("s3://key:SEC\tRET@box/x.npy")
    assert "RET" not in without_secrets(platform.quote("--name=SEC\tRET"))


def test_only_remote_inputs_are_asked_for_their_states(monkeypatch):
    asked = []
    monkeypatch.setattr(states, "refresh_states", asked.append)
    files.refresh_states(["n.npy", "s3://box/x.npy"])
    files.refresh_states(["n.npy"])
    files.refresh_states([])
    assert asked == [["s3://box/x.npy"]]


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
    code = "import revseq_cli.core.thresholds as t; t.REMOTE_PIECE = 1 << 18; t.REMOTE_SMALL = 0\nfrom revseq_cli.__main__ import main; main()"
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


# Real servers of the three kinds

KINDS = {"s3": ("moto_server", servers.s3), "gs": ("gcp-storage-emulator", servers.google), "az": ("azurite-blob", servers.azure)}  # fmt: skip
PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "az": "adlfs"}


@pytest.fixture(scope="module", params=KINDS)
def store(request, tmp_path_factory):
    """The scheme of a store with the container box, the environment of a client, and a filesystem of fsspec."""
    kind = request.param
    program, server = KINDS[kind]
    if not shutil.which(program):
        pytest.skip(f"{program}, a server for tests, is not on PATH")
    with server() as env, pytest.MonkeyPatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        if kind == "gs":  # gcsfs looks at it when it is imported
            patch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
        pytest.importorskip(PACKAGES[kind], reason=f"{PACKAGES[kind]} is not installed")
        options = {"use_listings_cache": False, "skip_instance_cache": True}
        if kind == "s3":
            options["endpoint_url"] = env["AWS_ENDPOINT_URL"]
        if kind == "gs":
            options |= json.loads(env["FSSPEC_GS"])
        files = fsspec.filesystem(kind, **options)
        if kind != "gs":
            files.mkdir("box")
        yield kind, env, files


@pytest.fixture
def box(store, far):
    kind, env, files = store
    files.put(f"{far}/", "box/in/", recursive=True)
    yield kind, env, files
    for folder in ("box/in", "box/out"):
        if files.exists(folder):
            files.rm(folder, recursive=True)


@pytest.mark.long
def test_a_bucket(revseq, box, tmp_path):
    kind, env, files = box
    for name, engine in (("x.npy", "serial"), ("x.h5", "processes"), ("x.zarr", "processes")):
        words = ("--engine", engine, "--jobs", 2, "--memory", "8M", "--verify")
        output = f"{kind}://box/out/y{name[1:]}"
        job = (f"{kind}://box/in/{name}", f"{kind}://box/in/n.npy", *JOB)
        revseq("run", *job, "-o", output, *words, env=env).ok()
        here = str(tmp_path / f"y{name[1:]}")
        files.get(f"box/out/y{name[1:]}", here, recursive=name == "x.zarr")
        assert np.array_equal(stored(tmp_path / f"y{name[1:]}"), RIGHT)
    assert not [name for name in files.find("box") if ".revseq" in name]
    job = ("--lengths", f"{kind}://box/in/n.npy", *JOB, "-o", f"{kind}://box/out/new-{{name}}")
    words = ("batch", "--each", f"{kind}://box/in/x.*y", *job)
    revseq(*words, env=env).ok()
    assert "1 skipped" in revseq(*words, "--resume", env=env).ok().out


ALIASES = {"s3": ("s3a://box", "s3n://box"), "gs": ("gcs://box", "GS://box"), "az": ("abfs://box", "abfss://box")}  # fmt: skip


@pytest.mark.long
def test_what_a_bucket_refuses(revseq, box):
    kind, env, files = box
    before = files.find("box", detail=True)
    job = ("run", f"{kind}://box/in/x.npy", f"{kind}://box/in/n.npy", *JOB)
    refused = [
        (("show", f"{kind}://box/none.npy"), "no such file, or no such bucket"),
        ((*job, "-o", f"{kind}://none/y.npy"), "no such bucket"),
        ((*job, "-o", f"{kind}://box/in/x.h5"), "exists already"),
        ((*job, "-o", f"{kind}://box/in/x.zarr"), "exists already"),
    ]
    for alias in (f"{kind}://box", *ALIASES[kind]):
        refused.append(((*job, "-o", f"{alias}/in/x.npy", "--overwrite"), "also an input"))
    for words, told in refused:
        assert "SECRET" not in revseq(*words, env=env).refused(told).err
    assert files.find("box", detail=True) == before


@pytest.mark.long
def test_a_large_object(revseq, box, tmp_path):
    """In several parts."""
    kind, env, _ = box
    values = np.arange(5 << 20, dtype=np.float32).reshape(5, -1)
    np.save(tmp_path / "big.npy", values)
    revseq("convert", "big.npy", f"{kind}://box/out/big.npy", env=env).ok()
    revseq("convert", f"{kind}://box/out/big.npy", "y.npy", "--memory", "16M", env=env).ok()
    assert np.array_equal(np.load(tmp_path / "y.npy"), values)


@pytest.mark.long
def test_without_credentials(revseq, box):
    kind, env, _ = box
    if kind == "gs":
        pytest.skip("the client of an emulator of Google's kind has no credentials")
    left = ("ENDPOINT", "REGION", "METADATA")
    without = {name: value for name, value in env.items() if any(part in name for part in left)}
    gone = dict.fromkeys(env.keys() - without.keys(), "")
    hints = {"s3": "FSSPEC_S3_ANON=true", "az": "AZURE_STORAGE_ACCOUNT_NAME"}
    revseq("show", f"{kind}://box/in/x.npy", env=gone | without | {"HOME": os.devnull}).refused(
        hints[kind]
    )


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
    kind, env, files = box
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
        output = f"{kind}://box/out/y{name[1:]}"
        env = env | {"TMPDIR": str(here)}
        revseq(
            "run",
            f"{kind}://box/in/{name}",
            f"{kind}://box/in/n.npy",
            *JOB,
            "-o",
            output,
            *words,
            env=env,
        ).ok()
    finally:
        cluster.kill()
        cluster.wait()
    files.get(
        output.removeprefix(f"{kind}://"),
        str(tmp_path / f"y{name[1:]}"),
        recursive=name == "x.zarr",
    )
    assert np.array_equal(stored(tmp_path / f"y{name[1:]}"), RIGHT)
    assert not os.listdir(here)
