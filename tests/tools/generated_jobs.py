"""Carries out generated jobs with the real command, and holds each against NumPy, bit for bit.

    python tests/tools/generated_jobs.py                          two minutes, on all cores
    python tests/tools/generated_jobs.py --seconds 3600 --seed 7  an hour; the seed of a run is printed
    python tests/tools/generated_jobs.py --job "Job(...)" --keep FOLDER   one job again, whose files stay in the folder

Each job must end in time, with exit status 0 and the right bits, or be refused for the memory with one that is enough;
it must leave its output and nothing else, and print nothing but notes. A job that fails is printed with the commands to
type, and ends the run.
"""

import argparse
import contextlib
import hashlib
import multiprocessing
import os
import random
import re
import shlex
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
import generated
from conftest import Result, Server, environment
from expectations import MOST_BLOCKS, carry_out

from revseq_cli.core import thresholds

# Seconds for a command, and one more for so many bytes: `diff --job` of 55 KB in the smallest blocks took 75.
_LONGEST = 240.0
_BYTES_A_SECOND = 100_000
_OWN_BYTES = 2 << 20  # memory of the program itself that grows with no data
# What becomes too slow, or is no such number any more, below these.
_LEAST = {"BOUNCE_BYTES": 1 << 12, "LENGTHS_AT_ONCE": 16, "SCANNED_AT_ONCE": 16, "PIECE": 256, "BLOCK_BYTES": 256, "COPIED_AT_ONCE": 256,
          "PACKED_ROW": 32, "CACHE_LINE": 8, "LARGE_RUN": 1 << 13}  # fmt: skip
# Those that a kind of jobs needs: lines in short runs go through tiles, and blocks take all the memory that there is.
_OF_SCENES = {
    "tiles": {"WORTH_TILES": (1,), "SHORT_RUN": (1 << 7, 1 << 10, 1 << 13), "LONG_RUN": (4, 64, 1 << 10, 1 << 16)},
    "measured": {"BLOCK_BYTES": (1 << 28,), "WORTH_TILES": (1 << 28,), "LENGTHS_AT_ONCE": (1 << 12,), "PIECE": (1 << 16,)},
}  # fmt: skip

# What runs first where memory is measured: a process of its own writes its peak when it ends.
_TRACED = """
import contextlib, importlib, os, pkgutil, tracemalloc
import difflib, hdf5plugin, numcodecs, numpy.ma, onnx, zarr.api.synchronous, zarr.codecs  # which are no data, nor are these:
import revseq_cli
for each in pkgutil.walk_packages(revseq_cli.__path__, "revseq_cli."):
    with contextlib.suppress(AssertionError, ImportError):  # those of another system
        importlib.import_module(each.name)
from revseq_cli.core import thresholds
vars(thresholds).update({thresholds})
tracemalloc.start()
exit_process = os._exit
def end(status):
    with open({peak!r}, "w") as f:
        f.write(str(tracemalloc.get_traced_memory()[1]))
    exit_process(status)
os._exit = end
"""


class JobError(Exception):
    """What is wrong with a job; `commands` were typed until then."""

    def __init__(self, problem, commands):
        super().__init__(problem)
        self.commands = commands


def smaller_thresholds(job):
    """Most of the thresholds, made smaller; which ones depends on the seed."""
    if job.divisor == 1:
        return {}
    rng = random.Random(f"{job.seed}-{job.divisor}")
    made = {}
    for name, value in vars(thresholds).items():
        if name.isupper() and rng.random() < 0.75:
            parts = value if isinstance(value, tuple) else (value,)
            parts = tuple(max(_LEAST.get(name, 1), part // job.divisor) for part in parts)
            made[name] = (
                (parts[0], max(parts[1], parts[0] + 1)) if isinstance(value, tuple) else parts[0]
            )
    if "BLOCK_BYTES" in made:
        made["BLOCK_BYTES"] = max(made["BLOCK_BYTES"], job.bytes // MOST_BLOCKS)
    made |= {name: rng.choice(values) for name, values in _OF_SCENES.get(job.scene, {}).items()}
    if job.scene == "tiles":
        made["BLOCK_BYTES"] = max(_LEAST["BLOCK_BYTES"], job.bytes // rng.choice((3, 10, 40)))
    if made.get("TILE_ROW", thresholds.TILE_ROW) < made.get("LONG_COLUMN", thresholds.LONG_COLUMN):
        made["TILE_ROW"] = made.get("LONG_COLUMN", thresholds.LONG_COLUMN)
    return made


class Folder:
    """An empty folder for a job, and the commands that run in it."""

    def __init__(self, path, run, job):
        self.path, self._run, self._job, self.commands = Path(path), run, job, []

    def revseq(self, *args, most=None):
        """Run the command; JobError unless it ends in time, in a way that the manual promises.

        With `most`, also where it held more bytes than that, and those of the program itself.
        """
        args = [*map(str, args)]
        self.commands.append(shlex.join(["revseq", *args]))
        before = self.listing()
        order = {"args": args, "thresholds": smaller_thresholds(self._job)}
        peak = self.path.with_name(f"{self.path.name}-peak")
        if most is not None:
            order["code"] = _TRACED.format(thresholds=order.pop("thresholds"), peak=str(peak))
        timeout = _LONGEST + self._job.bytes / _BYTES_A_SECOND
        try:
            done = self._run(order, self.path, timeout)
        except TimeoutError:
            self.fail(f"no end after {timeout:.0f} s")
        if done.status not in (0, 1, 2) or "Traceback" in done.err or "internal error" in done.err:
            self.fail(f"exit status {done.status}, or a bug by its own words", done)
        if done.status == 2 and (
            done.out or not done.err.startswith("Error: ") or self.listing() != before
        ):
            self.fail(
                "an error that is no error message, or left something behind, or changed it", done
            )
        if done.status != 2 and not all(
            re.match(r"Note: |      |[\w ]+ \d+ %, ", line) for line in done.err.splitlines()
        ):
            self.fail("more than notes and progress on standard error", done)
        if most is not None:
            held = int(peak.read_text())
            peak.unlink()
            if held > most + _OWN_BYTES:
                self.fail(f"it held {held} bytes, and {most} is the limit")
        return done

    def listing(self):
        """Each file below the folder, with its bytes."""
        paths = [path for path in self.path.rglob("*") if path.is_file()]
        return {
            str(path.relative_to(self.path)): hashlib.md5(path.read_bytes()).hexdigest()
            for path in paths
        }

    def fail(self, problem, done=None):
        if done:
            problem += f"\n{done.status} {done.out[-2000:]}\n{done.err[-3000:]}"
        raise JobError(problem, self.commands)


# Carrying out


@contextlib.contextmanager
def server():
    """The function that runs the command in processes that stay; see tests/support/cli_runner.py."""
    running = Server(environment())
    with tempfile.TemporaryDirectory() as streams:
        paths = [Path(streams, name) for name in ("in", "out", "err")]

        def run(order, folder, timeout):
            for path in paths:
                path.write_bytes(b"")
            status = running.status(order | {"env": environment()}, folder, paths, timeout)
            return Result(status, paths[1].read_bytes(), paths[2].read_bytes())

        try:
            yield run
        finally:
            running.end()


def problem_of(job, run, base, keep=None):
    """What is wrong with a job, as a JobError, or None."""
    path = keep or tempfile.mkdtemp(prefix="job-", dir=base)
    folder = Folder(path, run, job)
    try:
        carry_out(job, folder)
    except JobError as e:
        return e
    except Exception:  # noqa: BLE001 - a bug of the generated jobs itself is a failure, too
        return JobError(traceback.format_exc(), folder.commands)
    finally:
        if not keep:
            shutil.rmtree(
                path, ignore_errors=True
            )  # threads of zarr write on when one of them has failed
    return None


def text_of(job, failure):
    """What is printed of a job that fails."""
    lines = [
        str(failure),
        "",
        "after these commands:",
        *(f"  {each}" for each in failure.commands[-3:]),
    ]
    if smaller := smaller_thresholds(job):
        lines += ["", f"with these thresholds: {smaller}"]
    again = f'  python tests/tools/generated_jobs.py --keep FOLDER --job "{job!r}"'
    return "\n".join([*lines, "", "again, with its files in a folder:", again])


def run_jobs(seed, seconds, base, count=None):
    """Carry out jobs for so long, or so many; how many there were, and the text of the first failure or None."""
    end, done = time.monotonic() + seconds, 0
    with server() as run:
        for job in generated.jobs(seed, count):
            if time.monotonic() > end:
                break
            if failure := problem_of(job, run, base):
                return done, text_of(job, failure)
            done += 1
    return done, None


def bases():
    """Folders for files: on the disk and in memory, whose ways differ."""
    return [each for each in (tempfile.gettempdir(), "/dev/shm") if os.access(each, os.W_OK)]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--job")
    parser.add_argument("--keep")
    options = parser.parse_args()
    if options.job:
        job = generated.from_text(options.job)
        if options.keep:
            Path(options.keep).mkdir(exist_ok=True)
        with server() as run:
            failure = problem_of(job, run, tempfile.gettempdir(), options.keep)
        print(text_of(job, failure) if failure else "right")
        return bool(failure)
    print(f"seed {options.seed}", flush=True)
    workers = os.cpu_count()
    with contextlib.ExitStack() as folders:
        shards = []
        for i in range(workers):
            base = tempfile.TemporaryDirectory(
                dir=bases()[i % len(bases())], ignore_cleanup_errors=True
            )
            shards.append((f"{options.seed}-{i}", options.seconds, folders.enter_context(base)))
        with multiprocessing.get_context("spawn").Pool(workers) as pool:
            done = pool.starmap(run_jobs, shards)
            pool.close()  # else what workers share is left behind
            pool.join()
    problems = [problem for _, problem in done if problem]
    print("\n".join(f"\n{problem}\n" for problem in problems), end="")
    print(f"{sum(count for count, _ in done)} jobs, {len(problems)} failures")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
