"""Jobs that are generated: tensors and lengths in files that other libraries wrote, options, and what must come out.

`jobs(seed)` gives one job after another, the same for the same seed. A `Job` is a frozen value of plain fields, so that
it prints as what makes it again. Its files are made and read in `libraries.py`.
"""

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from libraries import DTYPES, FORMATS, NUMBERS, OTHERS, WORDS, Place

LENGTHS_DTYPES = ("UINT32", "UINT64", "UINT8", "UINT16", "INT64", "INT32", "FLOAT64", "FLOAT32")


@dataclass(frozen=True)
class Job:
    """A command over generated files.

    `scene` is a name of SCENES. `values` and `lengths` say how their numbers are made, and `batch_axis` is None for one
    length for each line. `form` says how these are given: "line" (1 along the axis), "without" (that dimension), or "one"
    for all lines. `mask` is "" for lengths, or says what sizes the mask has: "whole" or "batch". `padding` is what the
    values are padded with, and stands in place of lengths. `output` is "copy" (of the input's file, with the tensor
    replaced), "added" (the tensor beside it), "only", or "" for another format. `level` is None, or a feature level.
    `memory` is None, or how many times the least memory. `divisor` makes every threshold smaller by so much.
    """

    seed: int
    command: str
    sizes: tuple
    axis: int
    data_type: str
    big: bool
    order: str
    lengths: str
    lengths_type: str
    batch_axis: int | None
    source: Place
    lengths_source: Place
    target: Place
    scene: str = "any"
    values: str = "random"
    level: str | None = None
    form: str = "line"
    mask: str = ""
    padding: str | None = None
    engine: str = "auto"
    cores: int = 1
    memory: float | None = None
    divisor: int = 1
    verify: bool = False
    output: str = ""

    @property
    def dtype(self):
        dtype = np.dtype(DTYPES[self.data_type])
        return dtype.newbyteorder(">" if self.big else "<")

    @property
    def bytes(self):
        return prod(self.sizes) * self.dtype.itemsize

    @property
    def means(self):
        return ["--engine", self.engine, "--jobs", self.cores]


# A raw buffer has lengths of the types that can be named.
BARE_LENGTHS = {"UINT32", "UINT64"}
# What feature levels take: data types, those of lengths, and dimension counts. Without one, lengths are any numbers.
_OLD = {*NUMBERS} - {"FLOAT64", "INT64", "UINT64"}
LEVELS = {
    "2_1": (_OLD, {"UINT32"}, range(4, 5)), "3_0": (_OLD, {"UINT32"}, range(4, 6)),
    "4_0": (_OLD, {"UINT32"}, range(1, 9)), "6_4": ({*NUMBERS}, {"UINT32", "UINT64"}, range(1, 9)),
}  # fmt: skip


def is_cast(job):
    """Whether the feature level has no lengths of that type, so that they are cast."""
    return (
        bool(job.level)
        and not job.mask
        and not job.padding
        and job.lengths_type not in LEVELS[job.level][1]
    )


# Generation


def any_sizes(rng, rank, axis, most):
    """Sizes of at most so many elements: small ones, 1s, primes, powers of 2 and their neighbours, and a large one."""
    if rng.random() < 0.1:
        return (rng.randint(1, max(1, int(most ** (1 / rank)))),) * rank
    sizes = [1] * rank
    room = most
    order = list(range(rank))
    rng.shuffle(order)
    if rng.random() < 0.5:  # the axis is the large one
        order.remove(axis)
        order.insert(0, axis)
    for d in order:
        small, large = (
            (2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17),
            (31, 32, 33, 61, 64, 97, 127, 128, 129, 257),
        )
        size = rng.choice(
            rng.choices(((1,), small, large, range(1, max(1, room) + 1)), (1, 2, 1, 1))[0]
        )
        sizes[d] = max(1, min(size, room))
        room //= sizes[d]
    return tuple(sizes)


def sizes_across(rng, rank, axis, most):
    """Sizes of lines that lie across the file, and so are read in short runs: other dimensions are not 1."""
    sizes = [rng.choice((2, 3, 5, 8, 13, 31)) for _ in range(rank)]
    sizes[axis] = rng.choice((2, 3, 7, 16, 29, 40, 100, 257))
    while prod(sizes) > most:
        largest = max(range(rank), key=sizes.__getitem__)
        sizes[largest] = -(-sizes[largest] // 2)
    return tuple(sizes)


def sizes_of_few_lines(rng, rank, axis, most):
    """Sizes of a few long lines, so that little memory holds none of them whole."""
    sizes, room = [1] * rank, rng.choice((1, 2, 4, 12))
    for d in range(rank):
        if d != axis:
            sizes[d] = rng.randint(1, room)
            room //= sizes[d]
    sizes[axis] = max(2, rng.randint(most // 4, most) // prod(sizes))
    return tuple(sizes)


def large_sizes(rng, rank, axis, most):
    """Sizes of about so many elements."""
    sizes = [rng.choice((1, 2, 3, 5, 8)) for _ in range(rank)]
    largest = rng.randrange(rank)
    sizes[largest] = 1
    sizes[largest] = most // prod(sizes)
    return tuple(sizes)


@dataclass(frozen=True)
class Scene:
    """What jobs of one kind are made of, so that they take paths that others rarely take.

    `share` is how many of all jobs are of this kind. `sizes` makes them of a random generator, the rank, the axis, and
    the most elements, which are one of `most`. `sources` and `targets` are formats.
    """

    share: float
    sizes: Callable = any_sizes
    most: tuple = (8, 200, 2000, 2000, 20_000, 100_000)
    ranks: tuple = (1, 2, 2, 3, 3, 3, 4, 4, 5, 6, 7, 8)
    commands: tuple = ("run",) * 16 + ("convert", "convert", "diff", "diff")
    sources: tuple = tuple(FORMATS)
    targets: tuple = tuple(each for each in FORMATS if each != "nc")
    data_types: tuple = (*NUMBERS, *NUMBERS, *OTHERS, *WORDS)
    values: tuple = ("random", "few")
    lengths: tuple = (
        "random",
        "random",
        "random",
        "beyond",
        "huge",
        "zero",
        "one",
        "full",
        "constant",
        "runs",
    )
    memory: tuple = (None, 1, 1, 1.01, 1.5, 3, 10, 100)
    divisors: tuple = (1, 64, 256, 1 << 10, 1 << 12, 1 << 14, 1 << 15)
    engines: tuple = ("auto", "auto", "serial", "processes")
    copies: float = 0.3


SCENES = {
    "any": Scene(11),
    # Lines in short runs go through a temporary file.
    "tiles": Scene(
        4, sizes_across, (600, 3000, 20_000), (2, 2, 3, 3, 4), ("run",), ("npy", "npz", "h5", "safetensors", "pb"),
        divisors=(64, 1 << 10, 1 << 15), memory=(None, 1, 1, 1.5, 10), copies=0.1,
    ),
    # Lines are cut, since the memory holds no whole one.
    "cut": Scene(
        2, sizes_of_few_lines, (300, 2000, 20_000), (1, 1, 2, 3), ("run",), memory=(1, 1, 1.01, 1.5),
        divisors=(256, 1 << 12, 1 << 15),
    ),
    # What is beside the tensor is kept.
    "others": Scene(
        4, most=(200, 2000, 20_000), sources=("h5", "h5", "h5", "nc", "npz", "safetensors", "zarr"), copies=1,
        commands=("run", "run", "run", "convert"),
    ),
    # Chunks are made into others, whose edges hardly ever meet, so that blocks begin inside a chunk of one of them.
    "recoded": Scene(
        3, sizes_of_few_lines, (300, 2000, 6000), (1, 1, 2, 3), sources=("h5", "h5", "h5", "nc", "zarr"),
        targets=("h5", "h5", "zarr"), commands=("convert", "convert", "diff", "run"), memory=(1, 1, 1.5, 10),
        divisors=(256, 1 << 12, 1 << 15), copies=0,
    ),
    # The memory is measured, of which text and pipes are not a part: they are held whole, as is what unpacks.
    "measured": Scene(
        0.8, large_sizes, (1 << 18, 1 << 19), (1, 2, 3, 4), ("run", "run", "convert", "diff"),
        ("npy", "h5", "nc", "zarr", "safetensors"), ("npy", "h5", "zarr", "npz"), ("FLOAT32", "FLOAT64", "COMPLEX128"),
        memory=(1, 1.5), divisors=(1,), engines=("serial",),
    ),
}  # fmt: skip


def jobs(seed, count=None):
    """So many jobs, or without end."""
    for number in itertools.count() if count is None else range(count):
        yield job(random.Random(f"{seed}-{number}"))


def job(rng):
    """One job; what is rare in files is frequent here."""
    name = rng.choices([*SCENES], [each.share for each in SCENES.values()])[0]
    scene = SCENES[name]
    rank = rng.choice(scene.ranks)
    axis = rng.randrange(rank)
    sizes = scene.sizes(rng, rank, axis, rng.choice(scene.most))
    data_type = rng.choice(scene.data_types)
    fitting = [each for each, made in FORMATS.items() if made.holds(data_type, sizes)]
    source = place(rng, rng.choice([each for each in scene.sources if each in fitting]), sizes)
    of_source = FORMATS[source.format]
    targets = [each for each in scene.targets if each in fitting and each != source.format]
    output = (
        rng.choice(("copy", "copy", "added", "only"))
        if of_source.beside and rng.random() < scene.copies
        else ""
    )
    command = rng.choice(scene.commands)
    if command == "convert" and output:
        output = "only"
    if output == "added" and not source.key:
        output = "copy"  # the store is the array itself, and nothing can be beside it
    target = Place(source.format if output else rng.choice(targets or ["npy"]))
    is_opaque = source.format == "h5" and data_type in WORDS  # its bytes have no order
    made = Job(
        seed=rng.randrange(1 << 30), command=command, sizes=sizes, axis=axis, data_type=data_type,
        big=of_source.big and not is_opaque and rng.random() < 0.35, order="F" if of_source.order and rng.random() < 0.35 else "C",
        lengths=rng.choice(scene.lengths), lengths_type="UINT32", batch_axis=None, source=source, lengths_source=source,
        target=target, scene=name, values=rng.choice(scene.values),
        engine=rng.choice(scene.engines),
        cores=rng.choice((1, 2, 2, 3)), memory=rng.choice(scene.memory), divisor=rng.choice(scene.divisors),
        verify=rng.random() < 0.3, output=output,
    )  # fmt: skip
    levels = [
        each for each, (types, _, ranks) in LEVELS.items() if data_type in types and rank in ranks
    ]
    return with_lengths(rng, replace(made, level=rng.choice((None, None, None, *levels))))


def with_lengths(rng, job):
    """The job with lengths of some type and form, in some file, or a mask, or padding."""
    rank, axis = len(job.sizes), job.axis
    lengths_type = rng.choice(LENGTHS_DTYPES[: rng.choice((2, 2, 4, 8))])
    batch_axis = padding = None
    form, mask = rng.choice(("line", "line", "line", "without", "one")), ""
    if rank > 1 and rng.random() < 0.25:
        batch_axis, form = rng.choice([d for d in range(rank) if d != axis]), "line"
    if rng.random() < 0.06:
        mask, form = "whole" if batch_axis is None else "batch", "line"
        lengths_type = rng.choice(("BOOL", "UINT8", "INT64", "FLOAT32"))
    elif job.data_type in NUMBERS and rng.random() < 0.1:
        batch_axis, form = None, "line"
        padding = rng.choice(
            ("0", "nan") if np.dtype(DTYPES[job.data_type]).kind == "f" else ("0", "7")
        )
    if form == "without" and rank == 1:
        form = "one"
    job = replace(
        job, lengths_type=lengths_type, batch_axis=batch_axis, mask=mask, padding=padding, form=form
    )
    if mask == "batch" and batch_axis > axis and job.sizes[batch_axis] == job.sizes[axis]:
        return with_lengths(
            rng, job
        )  # a square mask of batch and time fits in two ways there, and is refused
    sizes = lengths_sizes(job)
    fitting = [
        each
        for each, made in FORMATS.items()
        if made.holds(lengths_type, sizes)
        and (not mask or made.masks)
        and (each != "bin" or (lengths_type in BARE_LENGTHS and form == "line"))
        and (sizes or each in ("npy", "npz"))
        and (not made.is_text or lengths_type in BARE_LENGTHS)
        and (each != "nc" or form == "line")  # whose dimensions have names
    ]
    # The first half of a mask cannot be left out, and the only dimension of a batch's lengths is not the first.
    own = {"sparse": False} if mask else {"first": batch_axis or 0}
    return replace(
        job, lengths_source=place(rng, rng.choice(("npy", "npy", *fitting)), sizes, **own)
    )


def place(rng, name, sizes, **own):
    """How a tensor of these sizes is stored in a file of a format that is given."""
    return Place(name, tuple(sorted((FORMATS[name].options(rng, sizes) | own).items())))


# Values


def values_of(job):
    """The values, of which those of BOOL are 0 and 1; what is written as text has no NaN but the usual one.

    "random" are random bits. "few" are mostly zeros, and chunks of them get sizes of all kinds where they are encoded.
    """
    rng = np.random.default_rng(job.seed)
    dtype = job.dtype
    data = rng.integers(0, 256, (*job.sizes, dtype.itemsize), np.uint8)
    if job.values == "few":
        data[rng.random(job.sizes) < rng.choice((0.5, 0.9, 0.99))] = 0
    if job.data_type == "BOOL":
        data %= 2
    values = data.view(dtype)[..., 0].copy()
    is_text = any(FORMATS[each.format].is_text for each in (job.source, job.target))
    if (is_text or job.source["how"] == "typed") and dtype.kind == "f":
        values[np.isnan(values)] = np.nan
    if job.padding:  # behind a part of each line, and now and then inside it
        starts = rng.integers(0, job.sizes[job.axis] + 1, sizes_with_one(job.sizes, job.axis))
        values[along(job.sizes, job.axis) >= starts] = float(job.padding)
        values[rng.random(job.sizes) < 0.1] = float(job.padding)
    if job.source["sparse"]:
        values[: max(1, len(values) // 2)] = 0
    return values.copy(job.order)


def along(sizes, axis):
    """The index along the axis of each element."""
    shape = [1] * len(sizes)
    shape[axis] = -1
    return np.broadcast_to(np.arange(sizes[axis]).reshape(shape), sizes)


def sizes_with_one(sizes, axis):
    return (*sizes[:axis], 1, *sizes[axis + 1 :])


def lengths_sizes(job):
    """The sizes of the lengths, or of the mask."""
    if job.mask == "whole":
        return job.sizes
    if job.batch_axis is not None:
        batch = job.sizes[job.batch_axis]
        return (batch, job.sizes[job.axis]) if job.mask else (batch,)
    if job.form == "one":
        return ()
    if job.form == "without":
        return (*job.sizes[: job.axis], *job.sizes[job.axis + 1 :])
    return sizes_with_one(job.sizes, job.axis)


def lengths_of(job):
    """The lengths as they are given, or the mask."""
    rng = np.random.default_rng(job.seed + 1)
    dtype, size, sizes = np.dtype(DTYPES[job.lengths_type]), job.sizes[job.axis], lengths_sizes(job)
    if job.mask:
        mask_sizes, mask_axis = sizes, job.axis if job.mask == "whole" else 1
        sizes = sizes_with_one(sizes, mask_axis)
    most = (1 << 24) if dtype.kind == "f" else 1 if dtype.kind == "b" else int(np.iinfo(dtype).max)
    if is_cast(job):  # to UINT32
        most = min(most, (1 << 32) - 1)
    if job.mask:
        most = size
    made = {
        "random": lambda: rng.integers(0, min(most, size) + 1, sizes),
        "beyond": lambda: rng.integers(0, min(most, 2 * size + 2) + 1, sizes),
        "huge": lambda: rng.choice(
            np.array([0, 1, size, most, most // 2 + 1, most // 256 + 1], np.uint64), sizes
        ),
        "zero": lambda: np.zeros(sizes),
        "one": lambda: np.ones(sizes),
        "full": lambda: np.full(sizes, size),
        "constant": lambda: np.full(sizes, rng.integers(0, size + 1)),
        "runs": lambda: np.sort(rng.integers(0, size + 1, prod(sizes))).reshape(sizes),
    }[job.lengths]()
    lengths = np.minimum(made.astype(np.uint64), most)
    if job.mask:
        return (along(mask_sizes, mask_axis) < lengths).astype(dtype)
    lengths = lengths.astype(dtype)
    if job.lengths_source["sparse"]:  # the rest is not stored
        lengths[: max(1, len(lengths) // 2)] = 0
    return lengths


def right(job, values, lengths):
    """What must come out: each line with its first `length` elements reversed, as bits."""
    size, axis = job.sizes[job.axis], job.axis
    index = along(job.sizes, axis)
    if job.padding:
        is_padding = (
            np.isnan(values) if job.padding == "nan" else values == values.dtype.type(job.padding)
        )
        lengths = np.where(is_padding, 0, index + 1).max(axis, keepdims=True)
    elif job.mask:
        lengths = lengths.astype(np.uint64).sum(axis if job.mask == "whole" else 1, keepdims=True)
    elif job.form == "without":
        lengths = np.expand_dims(lengths, axis)
    if job.batch_axis is not None:
        lengths = lengths.reshape([-1 if d == job.batch_axis else 1 for d in range(values.ndim)])
    clamped = np.minimum(lengths.astype(np.uint64), size).astype(np.int64)
    words = values.view(f"V{values.itemsize}")
    made = np.take_along_axis(words, np.where(index < clamped, clamped - 1 - index, index), axis)
    return made.view(values.dtype)


def from_text(text):
    """The job that `repr` printed."""
    return eval(text, {"Job": Job, "Place": Place})
