"""What a generated job must do: its commands, and how what they leave is held against NumPy, bit for bit.

`carry_out` types the commands of a job in a `Folder` of tests/tools/generated_jobs.py, whose `fail` says what is wrong.
"""

import math
import random
import re
from pathlib import PurePath

import generated
import libraries
import numpy as np
from libraries import FORMATS, Place
from needs import WINDOWS

MOST_BLOCKS = 80  # about; each takes a millisecond or more


def carry_out(job, folder):
    """Make the files of a job, run its commands, and judge what they leave."""
    values, lengths = generated.values_of(job), generated.lengths_of(job)
    name = libraries.make(job.source, folder.path / "x", values, job.data_type)
    names = [name]
    if job.command == "run" and not job.padding:
        names += [libraries.make(job.lengths_source, folder.path / "n", lengths, job.lengths_type)]
    if job.command == "diff":
        judge_diff(job, folder, values, name)
    else:
        right = generated.right(job, values, lengths) if job.command == "run" else values
        judge_written(job, folder, names, lengths, right)


def succeed(folder, args, problem, **more):
    """Run a command that must end with exit status 0."""
    done = folder.revseq(*args, **more)
    if done.status:
        folder.fail(problem, done)
    return done


# The name of a tensor that is added to the copy of a file.
ADDED = "added_here"

# Options


def usual_type(job):
    """The data type of a source that states none: that of digits where text becomes text."""
    is_text = job.source.format in ("json", "txt", "csv", "tsv")
    if is_text and job.target.format in ("json", "txt", "csv", "tsv"):
        return "FLOAT64"
    return "FLOAT32"


def type_options(job, place=None):
    """The options that say what a file does not say, of the input or of an output."""
    place = place or job.source
    options = (
        ["--dtype", job.data_type]
        if libraries.needs_type(place, job.data_type, usual_type(job))
        else []
    )
    if place.format == "bin":
        options += ["--sizes", "x".join(map(str, job.sizes))]
    return options


def job_options(job):
    """The options that say how the tensors make a job."""
    options = ["--axis", job.axis]
    if job.level:
        options += ["--feature-level", job.level]
    if job.batch_axis is not None:
        options += ["--batch-axis", job.batch_axis]
    if job.mask:
        options += ["--mask"]
    elif job.padding:
        options += ["--padding", job.padding]
        if len(job.sizes) > 2:
            options += ["--batch-axis", "none"]
    elif generated.is_cast(job):
        takes_both = "UINT64" in generated.LEVELS[job.level][1]
        options += ["--lengths-dtype", "UINT64" if takes_both and job.seed % 3 == 0 else "UINT32"]
    elif libraries.needs_type(job.lengths_source, job.lengths_type, "UINT32"):
        options += ["--lengths-dtype", job.lengths_type]
    return options


def typed_target(job):
    """The output's path, and the key of its tensor: that of the input, if it has one and the output's format has keys."""
    key = job.source.key or ("" if job.target.format == "zarr" else "tensor")
    key = ADDED if job.output == "added" else key if FORMATS[job.target.format].beside else ""
    return f"y.{job.target.format}", key


def enough_memory(job):
    """Bytes that hold a whole tensor, or chunk, and the lengths as often as any engine does, with what is computed."""
    places = (job.source, job.target, job.lengths_source)
    if any(
        each["unlimited"] and not each["chunks"] for each in places
    ):  # netCDF makes some that are larger
        return math.inf
    of_values, of_lengths = (
        max(
            math.prod(sizes),
            *(math.prod(each[name] or ()) for each in files for name in ("chunks", "shards")),
        )
        for sizes, files in ((job.sizes, places[:2]), (generated.lengths_sizes(job), places[2:]))
    )
    return of_values * (6 * job.dtype.itemsize + 100) + of_lengths * 100


def memory_options(job, folder, args):
    """The option for the memory: so many times the least, which the command says when it gets none.

    Where the memory is measured, blocks are so large that it shows.
    """
    if job.memory is None:
        return []
    refused = folder.revseq(*args, "--memory", 1)
    match = re.search(r"Hint: .*--memory (\d+)", refused.err)
    if refused.status == 0 or not match or f"at least {match[1]} bytes" not in refused.err:
        folder.fail("one byte of memory is enough, or no word on how much is", refused)
    least = int(match[1])
    if least > (most := enough_memory(job)):
        folder.fail(
            f"at least {least} bytes, and {most} hold the whole tensor as often as any engine does"
        )
    few_blocks = 4 * job.cores * job.bytes // MOST_BLOCKS
    if job.scene == "measured":
        few_blocks = max(few_blocks, job.bytes * (job.seed % 5))
    return ["--memory", max(math.ceil(least * job.memory), few_blocks)]


def measured(job, memory):
    """The limit that the memory is held against, if all is counted by it: text is held whole, and so is what unpacks.

    On Windows the process that is measured ends in another way, and writes nothing down.
    """
    places = (job.source, job.lengths_source, job.target)
    is_counted = not any(
        FORMATS[each.format].is_text or each.format == "pb" or each["packing"] or each["deflated"]
        for each in places
    )
    if not (memory and job.scene == "measured" and is_counted) or WINDOWS:
        return {}
    # HDF5 gives plain chunks their places while it writes one of zeros, which are pages without memory behind them.
    is_plain = job.target.format in ("h5", "nc")
    chunks = job.source["chunks"] or (job.sizes if job.source["unlimited"] else ())
    return {"most": memory[1] + is_plain * math.prod(chunks) * job.dtype.itemsize}


# Judges


def judge_written(job, folder, names, lengths, right):
    target, key = typed_target(job)
    of_job = [*type_options(job), *job_options(job), *job.means]
    if job.command == "convert":
        args = ["convert", *names, target, *type_options(job), *job.means]
    else:
        args = [
            "run",
            *names,
            "-o",
            f"{target}::{key}" if job.output == "added" else target,
            *of_job,
        ]
        args += ["--only"] * (job.output == "only")
    args += ["--verify"] * job.verify
    memory = memory_options(job, folder, args)
    before = folder.listing()
    done = succeed(folder, [*args, *memory], "it does not succeed", **measured(job, memory))
    if done.out:
        folder.fail("it prints something", done)
    judge_output(job, folder, right, before, target, key)
    if job.command == "convert":
        return
    clamped = (
        0
        if job.mask or job.padding
        else int((lengths.astype(np.uint64) > job.sizes[job.axis]).sum())
    )
    told = re.search(r"([\d,]+) of [\d,]+ lengths exceeds? the axis size", done.err)
    if (int(told[1].replace(",", "")) if told else 0) != clamped:
        folder.fail(f"{clamped} lengths are clamped, and that is not what is told", done)
    typed = f"{target}::{key}" if key else target
    if job.seed % 3 == 0:
        judge_job_of_output(job, folder, typed, folder.path / target, names, of_job)


def judge_output(job, folder, right, before, target, key):
    after = folder.listing()
    if any(after.get(path) != content for path, content in before.items()):
        folder.fail("an input was changed")
    left = {path for path in after.keys() - before.keys() if PurePath(path).parts[0] != target}
    if left:
        folder.fail(f"left behind: {left}")
    try:
        found = libraries.read(folder.path / target, key, job.data_type, job.sizes)
    except Exception as e:  # noqa: BLE001 - whatever another library does not like
        folder.fail(f"another library cannot read the output: {type(e).__name__}: {e}")
    compare(folder, found, right)
    if (job.source.format, job.target.format) in (("npy", "npy"), ("npz", "npz")):
        if found.itemsize > 1 and (found.dtype.byteorder == ">") != job.big:
            folder.fail("the byte order is not kept")
        if right.flags.c_contiguous != right.flags.f_contiguous and found.flags.f_contiguous != (
            job.order == "F"
        ):
            folder.fail("the memory order is not kept")
    if job.output == "copy":
        judge_others(job, folder, target, key)
    elif job.output == "added":
        judge_added(job, folder, target)


def judge_others(job, folder, target, key):
    """All else in the file is as it was."""
    source, made = folder.path / f"x.{job.source.format}", folder.path / target
    one, other = (FORMATS[job.source.format].beside(path, key) for path in (source, made))
    for name in {**one, **other}:
        if one.get(name) != other.get(name):
            folder.fail(
                f"beside the tensor, {name!r} is not as it was: {one.get(name)}\nnow: {other.get(name)}"[
                    :3000
                ]
            )


def judge_added(job, folder, target):
    """The tensor that was there, and each other one, is as it was."""
    path = folder.path / f"x.{job.source.format}"
    read, other = (
        FORMATS[job.source.format].read,
        "INT32" if job.source.format == "safetensors" else "INT64",
    )
    tensors = {f"other{i}": other for i in range(job.source["others"] or 0)} | {
        job.source.key: job.data_type
    }
    for name, data_type in tensors.items():
        kept, made = (read(each, name, data_type, None) for each in (path, folder.path / target))
        if kept.tobytes() != made.tobytes():
            folder.fail(f"{name} is not as it was")


def compare(folder, found, right):
    """The bytes of each element, whatever the byte order."""
    one, other = (
        libraries.little(each).view("u1").reshape(*each.shape, -1) for each in (found, right)
    )
    wrong = np.argwhere((one != other).any(-1))
    if len(wrong):
        folder.fail(f"wrong bits: {len(wrong)} of {right.size}, first at {wrong[0].tolist()}")


def judge_job_of_output(job, folder, typed, path, names, of_job):
    """`diff --job` finds the output right, and wrong where a bit of it is flipped."""
    if job.target.format != "bin" and "--dtype" not in of_job:  # a raw buffer is like INPUT
        of_job = [*of_job, *type_options(job, job.target)]
    args = ["diff", typed, "--job", *names, *of_job]
    succeed(folder, args, "diff --job does not find its own output right")
    if job.target.format == "npy" and job.bytes:
        data = bytearray(path.read_bytes())
        place = len(data) - job.bytes + job.seed % job.bytes
        data[place] ^= 1
        path.write_bytes(data)
        done = folder.revseq(*args)
        if done.status != 1 or "1 of " not in done.out:
            folder.fail("diff --job does not find the bit that is wrong", done)


def judge_diff(job, folder, values, name):
    """A tensor equals itself in another format, and another tensor differs where it does."""
    place = Place(job.target.format)
    if place.format == "h5" and job.data_type not in libraries.WORDS:
        chunks = libraries.few_chunks(random.Random(job.seed), job.sizes)
        place = Place("h5", (("chunks", chunks), ("filters", ("gzip",))))
    elif libraries.needs_type(place, job.data_type, "FLOAT32") or place.format in (
        "zarr",
        "nc",
        "h5",
    ):
        place = Place("npy")
    other = libraries.make(place, folder.path / "z", values, job.data_type)
    options = type_options(job) or type_options(job, place)
    args = ["diff", name, other, *options, *job.means]
    memory = memory_options(job, folder, args)
    succeed(folder, [*args, *memory], "a tensor does not equal itself", **measured(job, memory))
    if place.format == "npy" and job.data_type != "BOOL":
        path = folder.path / other
        data = bytearray(path.read_bytes())
        rng = random.Random(job.seed)
        count = min(len(values.reshape(-1)), rng.randint(1, 5))
        for at in rng.sample(range(values.size), count):
            data[len(data) - job.bytes + at * values.itemsize] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        done = folder.revseq(*args, *memory)
        if done.status != 1 or not re.search(rf"\b{count} of [\d,]+ elements? differs?", done.out):
            folder.fail(f"{count} elements differ, and that is not what is told", done)
