"""The usual mistakes, and what each gives as the output of a job: a source that is computed where it is read.

So a wrong output of any size can be held against it. Mistakes come in families, each with a table of small functions:
wrong lengths, elements from other places of their line, memory in other places, changed values, and parts that are not
done. Some are documented: Flax reverses the rest of a line, too; ONNX Runtime wrote zeros for length 0; known stacks
read the low 32 bits of a length; TensorFlow on a GPU reads beyond the end of a line. What an implementation finds out
of bounds is unknown, unless it is what lies there in memory, or zeros, as D3D12 has it for reads beyond a buffer.

The output of an earlier run has no name: it is right for values that nobody gave.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.formats.held import HeldTicket
from revseq_cli.ground.dtypes import bits, dtype_of, native
from revseq_cli.ground.tensors import DataType, braced
from revseq_cli.operator import kernel
from revseq_cli.operator.spec import lengths_sizes
from revseq_cli.passes.plan import lengths_of
from revseq_cli.passes.reversal import reversed_output
from revseq_cli.passes.views import AlignedSource, Computed, Derived, Reshaped, inverse, moved, transposed
from revseq_cli.texts import dxdispatch, literals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Region, Source, Ticket
    from revseq_cli.passes.assembly import Job
    from revseq_cli.passes.comparison import Differences

    Lengths = NDArray[Any]
    Places = NDArray[np.intp]


_INPUT = "the input"  # what a part has that is not done, and the group of such suspects
# Dimensions that are tried in every order.
_MOST_TURNED = 4


class Suspect(NamedTuple):
    """A mistake, in words, and the output that it gives; with `a`, that is compared with it instead.

    So what is right need not be computed in short parts of lines, which is slow. Both may have other sizes and another
    `axis` than the job. Of the suspects of a `group`, which are alike, the first that explains the output is named.
    """

    name: str
    output: Source
    a: Source | None = None
    axis: int = 0
    group: str = ""


# The functions of all tables are known by their numbers where they travel to a worker, since a lambda does not pickle.

# A wrong length for each length and the axis size. Lengths come unsigned and unclamped, and go so.
_LENGTHS: tuple[tuple[str, Callable[[Lengths, int], Lengths]], ...] = (
    ("the output is the input: nothing is reversed", lambda n, _: np.zeros_like(n)),
    ("whole lines are reversed, whatever their lengths are", lambda n, size: _all(n, size)),
    ("a length of 0 is taken as the whole line", lambda n, size: np.where(n == 0, _all(n, size), n)),
    ("lengths are one too small", lambda n, _: np.where(n == 0, n, n - 1)),  # and clamped then
    ("lengths are one too small", lambda n, size: np.maximum(_clamped(n, size), 1) - 1),  # clamped before
    ("lengths are one too small, and 0 becomes the whole line", lambda n, _: n - 1),
    ("lengths are one too large", lambda n, size: _clamped(n, size) + 1),
    ("lengths are clamped to one less than the axis size", lambda n, size: np.minimum(_clamped(n, size), size - 1)),
    ("lengths above the axis size are taken as 0", lambda n, size: np.where(n > size, np.zeros_like(n), n)),
    ("lengths above the axis size are taken modulo it", lambda n, size: np.where(n > size, n % _all(n, size), n)),
    ("lengths are taken modulo the axis size", lambda n, size: n % _all(n, size)),
    ("only the low 32 bits of each length are used", lambda n, _: n & np.uint64(0xFFFFFFFF)),
    ("only the low 16 bits of each length are used", lambda n, _: n & np.uint64(0xFFFF)),
    ("only the low 8 bits of each length are used", lambda n, _: n & np.uint64(0xFF)),
)

# From which place comes what belongs at a place, of so many in a row. Beyond the ends, an implementation finds what is
# at the other end, the last one again, or zeros.
_SHIFTS: tuple[tuple[str, Callable[[Places, int], Places]], ...] = (
    ("before", lambda i, count: (i - 1) % count),
    ("before", lambda i, _: np.maximum(i - 1, 0)),
    ("before", lambda i, _: i - 1),
    ("behind", lambda i, count: (i + 1) % count),
    ("behind", lambda i, count: np.minimum(i + 1, count - 1)),
    ("behind", lambda i, _: i + 1),
)
_OTHER_LENGTHS: tuple[tuple[str, Callable[[Places, int], Places]], ...] = (
    ("lengths are in reverse order", lambda i, count: count - 1 - i),
    ("the first length is taken for all", lambda i, _: np.zeros_like(i)),
    ("the last length is taken for all", lambda i, count: np.full_like(i, count - 1)),
    *((f"each line has the length {side} its own", places) for side, places in _SHIFTS),
)

# Which element of its line stands at index j: for the length as it is, but at most twice the axis size, and for the
# clamped one n. What is no element of the line is a zero, or, with True, what lies there in memory.
_ELEMENTS: tuple[tuple[str, bool, Callable[[Places, Lengths, Lengths, int], Places]], ...] = (
    ("what is behind the length is reversed, too", False, lambda j, _, n, size: (n - 1 - j) % size),
    ("lengths are not clamped: elements from outside of the line are zeros", False,
     lambda j, length, _, __: _mirrored(j, length)),
    ("lengths are not clamped: elements from outside of the line are those of its neighbour", True,
     lambda j, length, _, __: _mirrored(j, length)),
    ("lengths are not clamped: outside of the line, its last element is read", False,
     lambda j, length, _, size: np.minimum(_mirrored(j, length), size - 1)),
    ("elements are read one too far: at length - j, not at length - 1 - j", False,
     lambda j, _, n, __: np.where(j < n, n - j, j)),
    ("elements are read one too far: at length - j, not at length - 1 - j", True,
     lambda j, _, n, __: np.where(j < n, n - j, j)),
    ("elements are read one too near: at length - 2 - j, not at length - 1 - j", False,
     lambda j, _, n, __: np.where(j < n, n - 2 - j, j)),
    ("elements are read one too near: at length - 2 - j, not at length - 1 - j", True,
     lambda j, _, n, __: np.where(j < n, n - 2 - j, j)),
    ("reversed parts are rotated by one", False, lambda j, _, n, __: _mirrored(_turned_by(-1, j, n), n)),
    ("lines are rotated by one", False, lambda j, _, n, size: _mirrored((j + 1) % size, n)),
    ("lines are rotated by one", False, lambda j, _, n, size: _mirrored((j - 1) % size, n)),
    ("starts of lines are rotated by one, not reversed", False, lambda j, _, n, __: _turned_by(1, j, n)),
    ("starts of lines are rotated by one, not reversed", False, lambda j, _, n, __: _turned_by(-1, j, n)),
    ("lines are reversed whole behind the right reversal", False, lambda j, _, n, size: _mirrored(size - 1 - j, n)),
    ("the last elements of each line are reversed, not the first", False,
     lambda j, _, n, size: size - 1 - _mirrored(size - 1 - j, n)),
    ("only the two ends of each reversed part are exchanged", False,
     lambda j, _, n, __: np.where((j == 0) | (j == n - 1), _mirrored(j, n), j)),
    ("lines are overwritten in place while they are read", False,
     lambda j, _, n, __: np.where(2 * j < n, _mirrored(j, n), j)),
    ("lines are overwritten in place while they are read", False,  # from behind
     lambda j, _, n, __: np.where(2 * j < n, j, _mirrored(j, n))),
)  # fmt: skip

# What becomes of right values of these kinds, in this machine's byte order.
_VALUES: tuple[tuple[str, str, Callable[[NDArray[Any]], NDArray[Any]]], ...] = (
    ("the bytes of each element are in the other order", "fiuc", lambda x: x.byteswap()),
    ("values are negated", "fic", np.negative),
    ("values are conjugated", "c", np.conj),
    ("values are without their sign", "fi", np.abs),
    ("denormal numbers are 0", "f", lambda x: np.where(_is_denormal(x), x * 0, x)),
    ("denormal numbers are 0", "f", lambda x: np.where(_is_denormal(x), np.abs(x * 0), x)),
    ("-0.0 is 0.0", "f", lambda x: np.where(x == 0, np.abs(x), x)),
    ("every NaN is the usual one", "f", lambda x: np.where(np.isnan(x), x.dtype.type(np.nan), x)),
    ("every NaN is 0", "f", lambda x: np.where(np.isnan(x), x.dtype.type(0), x)),
    ("values are rounded to BFLOAT16", "f", lambda x: _to_bfloat16(x, nearest=True)),
    ("values are cut to BFLOAT16", "f", lambda x: _to_bfloat16(x, nearest=False)),
)


class _Spots(NamedTuple):
    """Elements of a tensor of these sizes, by their index in each dimension; indices go together as NumPy has it."""

    at: tuple[Any, ...]
    sizes: tuple[int, ...]
    axis: int

    @property
    def number(self) -> Places:
        """The numbers of the elements in C order."""
        return np.asarray(np.ravel_multi_index(self.at, self.sizes))

    @property
    def line(self) -> Places:
        """The numbers of their lines."""
        at = tuple(i * (d != self.axis) for d, i in enumerate(self.at))
        return self._replace(at=at, sizes=lengths_sizes(self.sizes, self.axis)).number


class _Ends(NamedTuple):
    """The first and the last wrong element in C order, and the lowest and highest wrong index of a dimension d."""

    first: _Spots
    last: _Spots
    d: int
    low: int
    high: int


# Which elements are not done of those that are `here`, for their clamped lengths and the ends of what is wrong; whether
# that is asked for each dimension. The simplest parts come first, and only one that explains the output is named.
_PARTS: tuple[tuple[str, bool, Callable[[_Spots, Lengths, _Ends], Any]], ...] = (
    ("everywhere: nothing is written", False, lambda *_: True),
    ("behind the length: the rest of the line is not copied", False, lambda here, n, _: here.at[here.axis] >= n),
    ("in lines of length 0, which are not copied", False, lambda _, n, __: n == 0),
    ("from index {low} of dimension {d} on", True, lambda here, _, ends: here.at[ends.d] >= ends.low),
    ("from index {low} to {high} of dimension {d}", True,
     lambda here, _, ends: (here.at[ends.d] >= ends.low) & (here.at[ends.d] <= ends.high)),
    ("from {first} on", False, lambda here, _, ends: here.number >= ends.first.number),
    ("from {first} to {last}", False,
     lambda here, _, ends: (here.number >= ends.first.number) & (here.number <= ends.last.number)),
    ("in every second line", False, lambda here, _, ends: (here.line - ends.first.line) % 2 == 0),
    ("at every second index of dimension {d}", True, lambda here, _, ends: (here.at[ends.d] - ends.low) % 2 == 0),
)  # fmt: skip


def _all(lengths: Lengths, size: int) -> Lengths:
    return np.full_like(lengths, min(size, np.iinfo(lengths.dtype).max))


def _clamped(lengths: Lengths, size: int) -> Lengths:
    return kernel.clamp(lengths, size).astype(np.uint64)


def _mirrored(j: Places, n: Lengths) -> Places:
    """Where the right element comes from, for lengths n."""
    return np.where(j < n, n - 1 - j, j)


def _turned_by(step: int, j: Places, n: Lengths) -> Places:
    """The place that is so many further in the start of the line, which is a circle."""
    return np.where(j < n, (j + step) % np.maximum(n, 1), j)


def _is_denormal(x: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray(np.abs(x) < np.finfo(x.dtype).tiny)


def _to_bfloat16(x: NDArray[Any], *, nearest: bool) -> NDArray[Any]:
    """Floats with the upper half of the bits of FLOAT32: the nearest such ones, of two the even one, or cut."""
    words = x.astype(np.float32).view(np.uint32)
    rounded = words + (nearest * (0x7FFF + (words >> 16 & 1))).astype(np.uint32)
    return (np.where(np.isnan(x), words, rounded) & np.uint32(0xFFFF0000)).view(np.float32).astype(x.dtype)


def suspects(job: Job, a: Source, found: Differences, *, whole_lines: bool) -> Iterator[Suspect]:
    """What each mistake would give, the simplest mistakes first; some can only be told where blocks have whole lines.

    `found` has the first differences of `a`. The job's tensors must be cheap to read anywhere.
    """
    right = reversed_output(job)
    for name, lengths, group in _wrong_lengths(job):
        yield Suspect(name, reversed_output(replace(job, lengths=lengths)), group=group)
    yield from _parts(job, right, found) if found.count > 1 else ()
    yield from _elements(job) if whole_lines else ()
    yield from _other_axes(job)
    yield from _values(right)
    yield from _layouts(job, right, a, whole_lines=whole_lines)


# Lengths


def _wrong_lengths(job: Job) -> Iterator[tuple[str, Source, str]]:
    """The wrong lengths, in words what is wrong with them, and the group of that suspect."""
    lengths, size = job.lengths, job.values.sizes[job.axis]

    def ticket(number: int, region: Region) -> Ticket:
        return Computed(partial(_changed, number, size), (lengths.ticket(region),))

    for number, (name, _) in enumerate(_LENGTHS):
        group = name.partition(",")[0] if number else _INPUT  # without a length of 0, it does not become anything
        yield name, Derived(lengths, np.dtype(np.uint64), partial(ticket, number)), group
    for name, places in _OTHER_LENGTHS:
        of_dimensions = ((count, moved(lengths, d, places)) for d, count in enumerate(lengths.sizes))
        for count, source in (*of_dimensions, (lengths.desc.element_count, _in_memory(lengths, places))):
            if count > 1:  # of two lengths, the one before is the one behind
                yield name, source, f"{count} lengths, from {places(np.arange(min(count, 3)), count)}"
    others = itertools.chain(*(_laid_out("lengths", lengths, order) for order in orders(lengths.sizes)), _words(job))
    yield from ((name, source, "") for name, source in others)


def _changed(mistake: int, size: int, lengths: Lengths) -> Lengths:
    return _LENGTHS[mistake][1](lengths.astype(np.uint64), size)


def _words(job: Job) -> Iterator[tuple[str, Source]]:
    """The lengths whose memory is taken for that of smaller ones, the low bytes of each first."""
    batch, given = job.batch_axis, job.of_batch or job.lengths
    width = job.parts.lengths.desc.data_type.size if job.parts and job.of_batch else given.dtype.itemsize
    flat = Reshaped(given, (given.desc.element_count,))

    def ticket(dtype: np.dtype[Any], region: Region) -> Ticket:
        (part,), count = region, width // dtype.itemsize
        whole = slice(part.start // count, -(-part.stop // count))
        step = partial(_split, width, dtype, part.start % count, part.stop - part.start)
        return Computed(step, (flat.ticket((whole,)),))

    for dtype in (np.dtype(f"<u{size}") for size in (4, 2, 1) if size < width):
        words: Source = Reshaped(Derived(flat, dtype, partial(ticket, dtype)), given.sizes)
        name = f"lengths of {8 * width} bits are read as words of {8 * dtype.itemsize} bits"
        yield name, AlignedSource(words, job.values.sizes, job.axis, (batch,)) if job.of_batch else words


def _split(width: int, dtype: np.dtype[Any], first: int, count: int, lengths: Lengths) -> Lengths:
    """So many words of lengths that have `width` bytes each, from one of them on."""
    return lengths.astype(f"<u{width}").view(dtype)[first : first + count].astype(dtype.newbyteorder("="))


# Elements and parts


def _elements(job: Job) -> Iterator[Suspect]:
    """The outputs of which elements come from other places of their line, or from beside it."""
    axis, sizes, values = job.axis, job.values.sizes, job.values
    rows = Reshaped(values, (prod(sizes[:axis]), prod(sizes[axis:])))
    before, behind = (Reshaped(moved(rows, 0, step), sizes) for step in (lambda i, _: i - 1, lambda i, _: i + 1))

    def ticket(number: int, region: Region) -> Ticket:
        lines = (*region[:axis], slice(0, sizes[axis]), *region[axis + 1 :])
        read = [source.ticket(lines) for source in ((before, values, behind) if _ELEMENTS[number][1] else (values,))]
        lengths = job.lengths.ticket(lengths_of(region, axis))
        return Computed(partial(_misplaced, number, axis, region[axis]), (lengths, *read))

    for number, (name, *_) in enumerate(_ELEMENTS):
        yield Suspect(name, Derived(values, values.dtype, partial(ticket, number)))


def _misplaced(mistake: int, axis: int, part: slice, lengths: Lengths, *lines: NDArray[Any]) -> NDArray[Any]:
    """A part of whole lines, with elements from other places than the right ones; perhaps from the lines beside."""
    size = lines[0].shape[axis]
    longest, clamped = kernel.clamp(lengths, 2 * size), kernel.clamp(lengths, size)
    along = np.expand_dims(np.arange(part.start, part.stop), [d for d in range(lengths.ndim) if d != axis])
    index = _ELEMENTS[mistake][2](along, longest, clamped, size) + size * (len(lines) // 2)
    outside = (index < 0) | (index >= size * len(lines))
    held = np.concatenate(lines, axis) if len(lines) > 1 else lines[0]
    taken = np.take_along_axis(held, np.where(outside, 0, index), axis)
    taken[outside] = np.zeros((), held.dtype)
    return taken


def _parts(job: Job, right: Source, found: Differences) -> Iterator[Suspect]:
    """The outputs that are right but for a part that has one element again and again, or the elements of the input."""
    sizes = job.values.sizes
    first, last = (_Spots(tuple(at), sizes, job.axis) for at in (found.indices[0].tolist(), found.where.last))
    element = native(found.a[:1].astype(job.values.dtype))
    text = "only " + literals.render(element)[0] if bits(element).view(np.uint8).any() else "zeros"
    if element[0] == dxdispatch.sentinel(job.values.desc.data_type):
        text = f"never written: {literals.render(element)[0]}, as exported models begin with,"

    def ticket(number: int, ends: _Ends, fill: NDArray[Any] | None, region: Region) -> Ticket:
        here = _Spots(tuple(np.ogrid[region]), sizes, job.axis)
        lengths = job.lengths.ticket(lengths_of(region, job.axis))
        filling = job.values.ticket(region) if fill is None else HeldTicket(fill)
        return Computed(partial(_filled, number, here, ends), (lengths, right.ticket(region), filling))

    for number, (name, is_of_dimension, _) in enumerate(_PARTS):
        for d, (low, high) in enumerate(found.where.spans) if is_of_dimension else ((0, (0, 0)),):
            ends = _Ends(first, last, d, low, high)
            where = name.format(first=[*first.at], last=[*last.at], d=d, low=low, high=high)
            for word, fill in ((text, element), (_INPUT, None)):
                output = Derived(job.values, element.dtype, partial(ticket, number, ends, fill))
                yield Suspect(f"{word} {where}", output, group=word)


def _filled(
    mistake: int, here: _Spots, ends: _Ends, lengths: Lengths, right: NDArray[Any], filling: NDArray[Any]
) -> NDArray[Any]:
    """The right output of a block, which is a new array, with what stands in a part that is not done."""
    clamped = kernel.clamp(lengths, here.sizes[here.axis])
    np.copyto(right, filling, where=_PARTS[mistake][2](here, clamped, ends))
    return right


# Values


def _values(right: Source) -> Iterator[Suspect]:
    """The outputs with right elements whose values are changed."""
    dtype = right.dtype.newbyteorder("=")

    def suspect(name: str, step: Callable[[NDArray[Any]], NDArray[Any]]) -> Suspect:
        return Suspect(name, Derived(right, dtype, lambda region: Computed(step, (right.ticket(region),))))

    for number, (name, kinds, _) in enumerate(_VALUES):
        if dtype.kind in kinds:
            yield suspect(name, partial(_of_values, number))
    for other in DataType if dtype.kind in "fiu" else ():
        to = dtype_of(other)
        is_float, alike = other.kind == "float", (other.kind == "float") == (dtype.kind == "f")
        if other.kind in ("float", "int", "uint") and to.itemsize <= dtype.itemsize and (is_float or alike):
            for saturates in (False, True) if alike else (False,):
                word = "rounded" if is_float else "saturated" if saturates else "wrapped"
                yield suspect(f"values are {word} to {other.name}", partial(_cast, to, saturates=saturates))


def _of_values(mistake: int, right: NDArray[Any]) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        return _VALUES[mistake][2](native(right))


def _cast(to: np.dtype[Any], right: NDArray[Any], *, saturates: bool) -> NDArray[Any]:
    """The values after a cast to another data type and back; with `saturates`, none is beyond what both types hold."""
    values = native(right)
    limits = [np.finfo(each) if each.kind == "f" else np.iinfo(each) for each in (to, values.dtype)]
    with np.errstate(all="ignore"):
        if saturates:
            values = np.clip(values, max(each.min for each in limits), min(each.max for each in limits))
        return values.astype(to).astype(right.dtype.newbyteorder("="))


# Places


def _in_memory(source: Source, places: Callable[[Places, int], Places]) -> Source:
    """The source with its elements at other places of its memory, which has them in C order."""
    return Reshaped(moved(Reshaped(source, (source.desc.element_count,)), 0, places), source.sizes)


def _laid_out(name: str, source: Source, order: tuple[int, ...]) -> Iterator[tuple[str, Source]]:
    """The source where its memory has the axes in another order than its reader thinks, and the other way round."""
    there = tuple(source.sizes[d] for d in order)
    yield (
        f"the memory of {name} has its axes in the order {braced(order)}",
        Reshaped(transposed(source, order), source.sizes),
    )
    if there != source.sizes:  # else it is the same as for the inverse order
        read = transposed(Reshaped(source, there), inverse(order))
        yield f"the memory of {name} is read as if its axes had the order {braced(order)}", read


def _simple_orders(dimensions: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The reverse order, and those where one dimension moves, or two change places."""
    yield dimensions[::-1]
    for a, b in itertools.permutations(range(len(dimensions)), 2):
        moved_one, exchanged = [*dimensions], [*dimensions]
        moved_one.insert(b, moved_one.pop(a))
        exchanged[a], exchanged[b] = exchanged[b], exchanged[a]
        yield from ((*moved_one,), (*exchanged,))


def orders(sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Other orders of the dimensions: all that change something, or of more than four dimensions, the simple ones."""
    long = tuple(d for d, size in enumerate(sizes) if size > 1)
    for each in dict.fromkeys((itertools.permutations if len(long) <= _MOST_TURNED else _simple_orders)(long)):
        order = dict(zip(long, each, strict=True))
        if each != long:
            yield tuple(order.get(d, d) for d in range(len(sizes)))


def _layouts(job: Job, right: Source, a: Source, *, whole_lines: bool) -> Iterator[Suspect]:
    """The outputs whose memory, or whose input's, is laid out otherwise, or has every element beside its place."""
    values, sizes, axis = job.values, job.values.sizes, job.axis
    is_whole = a.desc == values.desc  # not so where it is printed
    for order in orders(sizes):
        there, back = tuple(sizes[d] for d in order), inverse(order)
        for name, read in _laid_out("the input", values, order):
            yield Suspect(name, reversed_output(replace(job, values=read)))
        # Each way is taken back by the other one.
        ways = [[*_laid_out("the output", a, each)] for each in (order, back if there == sizes else order)]
        for (name, _), (_, read) in zip(ways[0], reversed(ways[1]), strict=True) if is_whole else ():
            yield Suspect(name, right, read, axis)
        if is_whole and there != sizes:  # or else only the axes are others
            other = replace(job, values=Reshaped(values, there), lengths=transposed(job.lengths, order))
            name = f"memory of sizes {braced(sizes)} is taken for one of sizes {braced(there)}"
            yield Suspect(name, reversed_output(replace(other, axis=back[axis])), Reshaped(a, there), back[axis])
    name = "is shifted by one element: each is the one {} it in memory"
    for side, places in _SHIFTS if whole_lines else ():
        shifted = replace(job, values=_in_memory(values, places))
        yield Suspect(f"the input {name.format(side)}", reversed_output(shifted))

    def ticket(moved_back: Source, lost: int, region: Region) -> Ticket:
        here = _Spots(tuple(np.ogrid[region]), sizes, axis)
        return Computed(partial(_but_one, here, lost), (right.ticket(region), moved_back.ticket(region)))

    last = values.desc.element_count - 1
    (before, by_one), *_, (behind, by_one_back), _, _ = _SHIFTS
    for side, back_again, lost in ((before, by_one_back, last), (behind, by_one, 0)) if is_whole else ():
        moved_back = _in_memory(a, back_again)
        output = Derived(values, values.dtype, partial(ticket, moved_back, lost))
        yield Suspect(f"the output {name.format(side)}", output, moved_back, axis)


def _but_one(here: _Spots, number: int, right: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    """The right output of a block, with an element that is lost and may be any."""
    np.copyto(right, other, where=here.number == number)
    return right


def _other_axes(job: Job) -> Iterator[Suspect]:
    """The outputs along other axes for which the lengths do; none along an axis of size 1, which changes nothing."""
    lengths, sizes = job.lengths, job.values.sizes
    others = [d for d, size in enumerate(sizes) if size > 1]
    if given := job.of_batch:
        count = given.sizes[0]
        for axis in others:
            for batch in (d for d, size in enumerate(sizes) if size <= count and d != axis):
                if (axis, batch) != (job.axis, job.batch_axis):
                    name = f"axis {axis} is reversed with the batch axis {batch}, not {job.axis} with {job.batch_axis}"
                    aligned = AlignedSource(given, sizes, axis, (batch,))
                    yield Suspect(name, reversed_output(replace(job, axis=axis, lengths=aligned)))
        return
    for axis in (d for d in others if d != job.axis):
        name = f"axis {axis} is reversed, not {job.axis}"
        first = tuple(None if d in (axis, job.axis) else d for d in range(len(sizes)))
        along = AlignedSource(lengths, sizes, axis, first)
        yield Suspect(name, reversed_output(replace(job, axis=axis, lengths=along)))
        if sizes[axis] == sizes[job.axis]:
            name += f", with a length for each index of axis {job.axis}"
            order = [{axis: job.axis, job.axis: axis}.get(d, d) for d in range(len(sizes))]
            yield Suspect(name, reversed_output(replace(job, axis=axis, lengths=transposed(lengths, order))))
