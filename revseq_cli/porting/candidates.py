"""What may have been done in place of the reversal: for each relation that fits a sample, the output that it gives.

An output is a source that is computed where it is read, so that a tensor of any size can be held against it. What was
done to values is read first, from the elements that occur; what was done to lengths, places and lines is then sought
with the values that it gives, so that two mistakes together are found.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.core.dtypes import bits, native
from revseq_cli.core.tensors import braced
from revseq_cli.formats.contract import Storage
from revseq_cli.formats.in_memory import MemoryReadTask, MemorySource
from revseq_cli.operator import kernel
from revseq_cli.operator.spec import lengths_sizes
from revseq_cli.pipeline.plan import lengths_of, sizes_of
from revseq_cli.pipeline.reversal import reversed_output
from revseq_cli.pipeline.views import AlignedSource, Computed, Derived, Reshaped, inverse, moved, transposed
from revseq_cli.porting.features import QUANTITIES, TESTS, Rule, Spots, rules
from revseq_cli.porting.relations import (
    ELEMENTS,
    LENGTHS,
    PLACES,
    VALUES,
    Relation,
    cast,
    casts,
    changed,
    mirrored,
    orders,
)
from revseq_cli.text import dxdispatch, literals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import ReadTask, Region, Source
    from revseq_cli.pipeline.assembly import Job

    Numbers = NDArray[Any]
    Search = Any  # of the diagnosis, which is above
    # Lengths at places among the given ones; and for indices along a dimension of that size, those that they take.
    _LengthsAt = Callable[[Numbers], Numbers]
    _PlacesOf = Callable[[Numbers, int], Numbers]
    _Lengths = tuple[str, str, int, _LengthsAt]  # with an id, words and a cost

_MOST_RULES = 3
# Costs: of what does not depend on lengths, and of a second mistake.
_TRIVIAL, _COMBINED = -1, 3
_MOVES_ALL = ("not-reversed", "whole-lines")
# Values of so many kinds are sought at other places.
_MOST_COMBINED = 4
# What stands in a part that is not done: the id, and its words.
FILLS = {
    "zeros": "zeros",
    "one-value": "only {value}",
    "never-written": "never written: {value}, as exported models begin with,",
    "not-done": "the input",
    "masked": "0 times the right element",
    "added": "the sum of the input and the right element",
}
# Families whose rows have ids of the tables of relations, with the words before theirs.
FAMILIES = {
    "lengths-of-others": "lengths are those of other lines: ",
    "output-lines": "lines of the output are at other places along dimension {d}: ",
    "input-lines": "the input is read at other places along dimension {d}: ",
}


class Candidate(NamedTuple):
    """A mistake, in words, and the output that it gives; with `a`, that is compared with it instead.

    So what is right need not be computed in short parts of lines, which is slow. Both may have other sizes and another
    `axis` than the job. Of several explanations, those of the least `cost` are told, which is higher where a number was
    read from the output. Outputs of one `key` are the same.
    """

    id: str
    text: str
    output: Source
    a: Source | None = None
    axis: int = 0
    cost: int = 0
    key: bytes = b""


class _Setting(NamedTuple):
    """A job whose values may be changed, with what its candidates say of that; and the sample, as rows of it."""

    search: Search
    job: Job
    words: str
    ids: str
    cost: int
    x: Numbers | None

    def candidate(
        self, id_: str, text: str, output: Source, a: Source | None = None, axis: int = 0, *, cost: int = 0
    ) -> Candidate:
        """A candidate of this setting."""
        return Candidate(self.ids + id_, text + self.words, output, a, axis, self.cost + cost)


class _Change(NamedTuple):
    """What may have become of values, and the function that does it, which pickles."""

    id: str
    text: str
    cost: int
    step: Callable[[Numbers], Numbers]


def candidates(search: Search) -> Iterator[Candidate]:
    """All that fit elements of the sample, the simplest families first, until one has what explains all lines."""
    x = search.rows[0] if search.rows else None
    plain = _Setting(search, search.job, "", "", 0, x)
    values = list(_values(search))
    for families in (
        (_lengths, _parts, _elements, _other_axes),
        (partial(_changed, values),),
        (_lines, _layouts),
        (partial(_parts, values=values),),
    ):
        yield from _settled(plain, *families)
        if search.is_explained:
            return
    if search.tolerance is None and not search.is_printed and x is not None:
        yield from _changed(_changed_twice(search, values), plain)
        for id_, text, cost, step in _combined(search, values, x):
            job = replace(search.job, values=_derived(search.job.values, step))
            both = _Setting(search, job, f"; and {text}", f"{id_}+", cost + _COMBINED, np.asarray(step(x)))
            yield from _settled(both, _lengths, _parts, _elements, _other_axes, _lines, _layouts)


def _settled(setting: _Setting, *families: Callable[[_Setting], Iterator[Candidate]]) -> Iterator[Candidate]:
    for family in families:
        yield from family(setting)


def _changed(values: Iterable[_Change], setting: _Setting) -> Iterator[Candidate]:
    """The outputs with right elements whose values are changed."""
    right = reversed_output(setting.job)
    for id_, text, cost, step in values:
        yield setting.candidate(id_, text, _derived(right, step), cost=cost)


def _held(like: Source, values: Numbers) -> Source:
    return MemorySource(like.name, values, Storage("memory", {}))


def _derived(source: Source, step: Callable[[Numbers], Numbers]) -> Source:
    dtype = source.dtype.newbyteorder("=")
    return Derived(source, dtype, lambda region: Computed(partial(_native, step), (source.read_task(region),)))


def _native(step: Callable[[Numbers], Numbers], values: Numbers) -> Numbers:
    return step(native(values))


# Lengths


def _lengths(setting: _Setting) -> Iterator[Candidate]:
    """The outputs for other lengths; those that change no length are none.

    They are computed for the probes, then for the sample, and for other lines where they are read.
    """
    search, job = setting.search, setting.job
    given = _given(job, search.lengths)
    others = itertools.chain(_relations(search, given), _of_others(search, given), _words(job, given))
    yield from _with_lengths(setting, job, others)
    if job.of_batch and given.size > 1:
        yield from _with_lengths(setting, replace(job, batch_axis=None), _by_line(given))


def _by_line(given: Numbers) -> Iterator[_Lengths]:
    told = "lengths of the batch are read by the number of the line"
    yield "lengths-by-line", f"{told}, around the ends", 0, partial(np.take, given, mode="wrap")
    yield "lengths-by-line", f"{told}, and none behind the last", 0, partial(np.take, np.append(given, 0), mode="clip")


def _with_lengths(setting: _Setting, job: Job, others: Iterable[_Lengths]) -> Iterator[Candidate]:
    search = setting.search
    lines = search.rows[2] if search.rows else np.arange(0)
    sample, right = _places_of_lengths(job, lines), np.minimum(search.lengths.reshape(-1)[lines], search.size)
    for id_, text, cost, found in others:
        if not _fits(setting, sample, found):
            continue
        lengths = np.clip(found(sample), 0, search.size)
        if not len(sample) or not np.array_equal(lengths, right):
            other = replace(job, lengths=_other_lengths(job, found, search.size))
            candidate = setting.candidate(
                id_, text, reversed_output(other), cost=_TRIVIAL if id_ in _MOVES_ALL else cost
            )
            yield candidate._replace(key=setting.ids.encode() + lengths.tobytes()) if len(sample) else candidate


def _given(job: Job, lengths: Numbers) -> Numbers:
    """The lengths as they are given: one for each index of the batch axis, or for each line."""
    if not job.of_batch:
        return lengths
    return lengths[tuple(slice(None) if d == job.batch_axis else 0 for d in range(lengths.ndim))]


def _places_of_lengths(job: Job, lines: Numbers) -> Numbers:
    """Where the lengths of lines, by their numbers, are among the given ones."""
    if job.batch_axis is None or not job.of_batch:
        return lines
    return np.unravel_index(lines, job.lengths.sizes)[job.batch_axis]


def _other_lengths(job: Job, found: _LengthsAt, size: int) -> Source:
    """A length for each line, which is found where it is read."""

    def read_task(region: Region) -> ReadTask:
        return Computed(partial(_read_lengths, found, region, job.lengths.sizes, batch_axis, size), ())

    batch_axis = job.batch_axis if job.of_batch else None
    return Derived(job.lengths, np.dtype(np.uint64), read_task)


def _read_lengths(
    found: _LengthsAt, region: Region, sizes: tuple[int, ...], batch_axis: int | None, size: int
) -> Numbers:
    at = tuple(np.ogrid[region])
    places = np.ravel_multi_index(at, sizes) if batch_axis is None else at[batch_axis]
    lengths = np.clip(found(np.asarray(places)), 0, size).astype(np.uint64)
    return np.ascontiguousarray(np.broadcast_to(lengths, sizes_of(region)))


def _relations(search: Search, given: Numbers) -> Iterator[_Lengths]:
    flat = given.reshape(-1)
    for number, row in enumerate(LENGTHS):
        for k in search.numbers_tried(row.tries):
            of_all = row.kind == "all"
            found = partial(_at, _related(number, search.size, k, flat)) if of_all else None
            text = row.text.format(k=_words_of(k))
            yield row.id, text, _cost(row, k), found or partial(_related_at, number, search.size, k, flat)


def _related(number: int, size: int, k: int, lengths: Numbers) -> Numbers:
    """The lengths that this row gives."""
    with np.errstate(all="ignore"):
        found = np.asarray(LENGTHS[number].function(lengths, size, k))
    return (np.minimum(found, np.uint64(1 << 62)) if found.dtype == np.uint64 else found).astype(np.int64)


def _related_at(number: int, size: int, k: int, lengths: Numbers, places: Numbers) -> Numbers:
    return _related(number, size, k, lengths[places])


def _cost(row: Relation, k: int) -> int:
    """That of the row, and more where a number is read from the output."""
    return row.cost + int(bool(row.tries) and abs(k) != 1)


def _words_of(k: int) -> str:
    count = "one" if abs(k) == 1 else f"{abs(k)}"
    return count if k >= 0 else f"{count} backwards"


def _of_others(search: Search, given: Numbers) -> Iterator[_Lengths]:
    """The lengths of other lines: along each dimension of the given ones, and along all of them."""
    id_, told, flat = "lengths-of-others", FAMILIES["lengths-of-others"], given.reshape(-1)
    for d, count in enumerate(given.shape) if given.ndim > 1 else ():
        for words, cost, step in _places(search, count, None):
            yield id_, f"{told}along dimension {d}, {words}", cost, partial(_at_others, given, d, step)
    for words, cost, step in _places(search, flat.size, flat):
        yield id_, told + words, cost, partial(_at_others, flat, 0, step)
    for order in orders(given.shape):
        there = tuple(given.shape[d] for d in order)
        yield ("lengths-layout", f"the memory of lengths has its axes in the order {braced(order)}", 0,
               partial(_at, given.transpose(order)))  # fmt: skip
        yield ("lengths-layout", f"the memory of lengths is read as if its axes had the order {braced(order)}", 0,
               partial(_at, given.reshape(there).transpose(inverse(order))))  # fmt: skip


def _places(search: Search, count: int, lengths: Numbers | None) -> Iterator[tuple[str, int, _PlacesOf]]:
    """The words of each relation of places, its cost, and the function that gives for each index the one it takes."""
    for number, row in enumerate(PLACES) if count > 1 else ():
        if row.kind != "sorted":
            for k in search.numbers_tried(row.tries):
                yield row.text.format(k=_words_of(k)), _cost(row, k), partial(_placed, number, k)
        elif lengths is not None:
            yield row.text, row.cost, partial(_at_known, row.function(lengths))


def _placed(number: int, k: int, i: Numbers, count: int) -> Numbers:
    return np.asarray(PLACES[number].function(i, count, k))


def _at_known(places: Numbers, i: Numbers, _: int) -> Numbers:
    return np.asarray(places[i])


def _at(values: Numbers, places: Numbers) -> Numbers:
    """The elements at these places, as if the array were flat."""
    return np.asarray(values[np.unravel_index(places, values.shape)])


def _at_others(values: Numbers, d: int, step: _PlacesOf, places: Numbers) -> Numbers:
    """The elements at the places that these take along dimension d, and zeros outside."""
    at, count = [*np.unravel_index(places, values.shape)], values.shape[d]
    taken = step(at[d], count)
    at[d] = np.minimum(np.maximum(taken, 0), count - 1)
    return np.where((taken < 0) | (taken >= count), 0, values[tuple(at)])


def _words(job: Job, given: Numbers) -> Iterator[_Lengths]:
    """The lengths whose memory is taken for that of smaller or larger ones, the low bytes of each first."""
    width = job.parts.lengths.desc.data_type.size if job.parts and job.of_batch else job.given_lengths.dtype.itemsize
    raw = given.astype(f"<u{width}").tobytes()
    for size in (4, 2, 1, 8):
        if size != width:
            words = np.frombuffer(raw[: size * given.size].ljust(size * given.size, b"\0"), f"<u{size}")
            text = f"lengths of {8 * width} bits are read as words of {8 * size} bits"
            yield "lengths-as-words", text, 0, partial(_as_signed, words)


def _as_signed(words: Numbers, places: Numbers) -> Numbers:
    return np.minimum(words[places], np.uint64(1 << 62)).astype(np.int64)


def _fits(setting: _Setting, sample: Numbers, found: _LengthsAt) -> bool:
    """Whether the probes have what these lengths give."""
    search = setting.search
    if setting.x is None or search.rows is None:
        return True
    row, j, *_ = search.probes
    n = np.minimum(found(sample[row]), search.size)  # a negative length is as 0
    return bool(search.is_likely(setting.x[row, mirrored(j, n)]))


# Elements and parts


def _elements(setting: _Setting) -> Iterator[Candidate]:
    """The outputs of which elements come from other places of their line, or beside it; not where lines are cut."""
    search = setting.search
    if setting.x is None or search.rows is None or search.oracle.arrangement.plan.cuts_lines:
        return
    row, j, *_ = search.probes
    lengths = search.lengths.reshape(-1)[search.rows[2][row]]
    unclamped, n = np.minimum(lengths, 2 * search.size), np.minimum(lengths, search.size)
    for number, each in enumerate(ELEMENTS):
        for k in search.numbers_tried(each.tries):
            if each.kind != "neighbour":
                index = each.function(j, unclamped, n, search.size, k)
                found = _of_line(setting.x[row], np.asarray(index)[:, None], 1, each.kind)[:, 0]
                if not search.is_likely(found):
                    continue
            output, cost = _misplaced_output(setting.job, number, k), _cost(each, k)
            yield setting.candidate(each.id, each.text.format(k=_words_of(k)), output, cost=cost)


def _misplaced_output(job: Job, number: int, k: int) -> Source:
    axis, sizes, values = job.axis, job.values.sizes, job.values
    rows = Reshaped(values, (prod(sizes[:axis]), prod(sizes[axis:])))
    before, behind = (Reshaped(moved(rows, 0, step), sizes) for step in (lambda i, _: i - 1, lambda i, _: i + 1))

    def read_task(region: Region) -> ReadTask:
        lines = (*region[:axis], slice(0, sizes[axis]), *region[axis + 1 :])
        sources = (before, values, behind) if ELEMENTS[number].kind == "neighbour" else (values,)
        read = [source.read_task(lines) for source in sources]
        lengths = job.lengths.read_task(lengths_of(region, axis))
        return Computed(partial(_misplaced, number, k, axis, region[axis]), (lengths, *read))

    return Derived(values, values.dtype, read_task)


def _misplaced(number: int, k: int, axis: int, part: slice, lengths: Numbers, *lines: Numbers) -> Numbers:
    """A part of whole lines, with elements from other places than the right ones; perhaps from the lines beside."""
    size, each = lines[0].shape[axis], ELEMENTS[number]
    longest, clamped = kernel.clamp(lengths, 2 * size), kernel.clamp(lengths, size)
    along = np.expand_dims(np.arange(part.start, part.stop), [d for d in range(lengths.ndim) if d != axis])
    index = np.broadcast_to(
        each.function(along, longest, clamped, size, k), np.broadcast_shapes(along.shape, lengths.shape)
    )
    held = np.concatenate(lines, axis) if len(lines) > 1 else lines[0]
    return _of_line(held, index + size * (len(lines) // 2), axis, each.kind)


def _of_line(held: Numbers, index: Numbers, axis: int, kind: str) -> Numbers:
    """Elements of lines, and what is found outside of them."""
    size = held.shape[axis]
    outside = (index < 0) | (index >= size)
    found = np.take_along_axis(
        held, index % size if kind == "wrap" else np.minimum(np.maximum(index, 0), size - 1), axis
    )
    if kind in ("", "neighbour"):
        found[outside] = np.zeros((), held.dtype)
    return found


def _parts(setting: _Setting, values: Iterable[_Change] = ()) -> Iterator[Candidate]:
    """The outputs that are right but for a part: one element again and again, the input, or changed `values`."""
    search, job = setting.search, setting.job
    output = reversed_output(job)
    a, right = np.concatenate([piece.a.reshape(-1) for piece in search.pieces]), _sampled(search, output)
    if not (wrong := search.differ(a, right)).any() or search.found.count == 1:
        return
    first = int(wrong.argmax())
    element = native(a[first : first + 1].astype(job.values.dtype))
    constant = Derived(output, output.dtype, lambda _: MemoryReadTask(element))
    name = _name_of(element, job)
    fills = {name: constant, "not-done": job.values, "masked": _derived(output, _masked), "added": _sums(job)}
    told = [(name, FILLS[name].format(value=literals.render(element)[0]), fill, 0) for name, fill in fills.items()]
    changes = [(each.id, each.text, _derived(output, each.step), each.cost) for each in values]
    is_one = bool((bits(a)[wrong] == bits(a)[first]).all())  # told as that
    for name, text, fill, more in changes or told:
        there = _sampled(search, fill)
        if (is_one and (changes or name == "masked")) or search.differ(a, there)[wrong].any():
            continue
        visible = ~wrong & search.differ(there, right)
        if not visible.any() and (name == "not-done" or values):  # as with lengths of 0
            continue
        if not visible.any():
            yield setting.candidate(name, f"{text} everywhere", _filled_output(job, None, fill), cost=_TRIVIAL)
            continue
        spots = _spots_of(search)
        exact = (rule for missed, rule in rules(spots, wrong, visible) if not missed)
        for _, rule in zip(range(_MOST_RULES), exact, strict=False):
            refitted = _refitted(rule, search)
            output = _filled_output(job, refitted, fill)
            is_length = name == "not-done" and QUANTITIES[rule.quantity].id == "length"  # these are other lengths, too
            cost = 1 + is_length + more
            yield setting.candidate(name, f"{text} in elements {refitted.text}", output, cost=cost)


def _sampled(search: Search, source: Source) -> Numbers:
    """The elements of the sample, one after the other."""
    read = ((piece, source.read_task(piece.region).read()) for piece in search.pieces)
    return np.concatenate([np.broadcast_to(native(each), piece.a.shape).reshape(-1) for piece, each in read])


def _masked(right: Numbers) -> Numbers:
    with np.errstate(all="ignore"):
        return np.asarray(right * right.dtype.type(0))


def _sums(job: Job) -> Source:
    right = reversed_output(job)
    return Derived(
        right,
        right.dtype.newbyteorder("="),
        lambda region: Computed(_added, (job.values.read_task(region), right.read_task(region))),
    )


def _added(values: Numbers, right: Numbers) -> Numbers:
    with np.errstate(all="ignore"):
        return np.asarray(native(values) + native(right))


def _spots_of(search: Search) -> Spots:
    """The elements of the sample, one after the other."""
    axis, found = search.job.axis, []
    for piece in search.pieces:
        grid = np.meshgrid(*(np.arange(part.start, part.stop) for part in piece.region), indexing="ij")
        lengths = np.broadcast_to(search.lengths[lengths_of(piece.region, axis)], piece.a.shape)
        found.append([each.reshape(-1) for each in (*grid, lengths)])
    *at, lengths = (np.concatenate(each) for each in zip(*found, strict=True))
    return Spots(tuple(at), search.job.values.sizes, axis, lengths, of_lines=False)


def _name_of(element: Numbers, job: Job) -> str:
    if not bits(element).view(np.uint8).any():
        return "zeros"
    kind = job.values.desc.data_type.kind
    written = kind in ("float", "int", "uint") and element[0] == dxdispatch.sentinel(job.values.desc.data_type)
    return "never-written" if written else "one-value"


def _refitted(rule: Rule, search: Search) -> Rule:
    """The rule with the first and last index of all that differs, not of the sample alone."""
    where, quantity = search.found.where, QUANTITIES[rule.quantity].id
    if search.is_whole or quantity not in ("index", "place"):
        return rule
    low, high = where.spans[rule.d]
    if quantity == "place":
        ends = search.found.indices[0].tolist(), where.last
        low, high = (int(np.ravel_multi_index(tuple(each), search.job.values.sizes)) for each in ends)
    fitted = {"above": (low - 1,), "below": (high + 1,), "between": (low, high)}
    return rule._replace(parameters=fitted.get(TESTS[rule.test].id, rule.parameters))


def _filled_output(job: Job, rule: Rule | None, fill: Source) -> Source:
    right = reversed_output(job)

    def read_task(region: Region) -> ReadTask:
        lengths = job.lengths.read_task(lengths_of(region, job.axis))
        step = partial(_filled, rule, region, job.values.sizes, job.axis)
        return Computed(step, (lengths, right.read_task(region), fill.read_task(region)))

    return Derived(job.values, job.values.dtype.newbyteorder("="), read_task)


def _filled(
    rule: Rule | None,
    region: Region,
    sizes: tuple[int, ...],
    axis: int,
    lengths: Numbers,
    right: Numbers,
    filling: Numbers,
) -> Numbers:
    """The right output of a block with what stands in a part that is not done."""
    spots = Spots(tuple(np.ogrid[region]), sizes, axis, kernel.clamp(lengths, 1 << 62).astype(np.int64), of_lines=False)
    there = np.True_ if rule is None else rule.holds(spots)
    return np.asarray(np.where(np.broadcast_to(there, right.shape), native(filling), native(right)))


# Values


def _values(search: Search) -> Iterator[_Change]:
    """What may have become of values: id, words, and the function, which pickles."""
    dtype = search.job.values.dtype.newbyteorder("=")
    for number, row in enumerate(VALUES):
        if dtype.kind in row.kind:
            for k in _factors(search, row, dtype):
                text = row.text.format(k=f"{k:.7g}" if isinstance(k, float) else k)
                yield _Change(row.id, text, row.cost + int(bool(row.tries)), partial(changed, number, k))
    for id_, text, to, saturates in casts(dtype):
        yield _Change(id_, text, 0, partial(cast, to, saturates=saturates))


def _factors(search: Search, row: Relation, dtype: np.dtype[Any]) -> list[Any]:
    """The numbers that k may be for a relation of values, read from the probes."""
    width = 8 * dtype.itemsize
    known = {"": [0], "words": [16, 32], "fewer": [4, 8, 16, 32, width - 1]}
    if row.tries in known:
        return [k for k in known[row.tries] if k < width]
    if search.rows is None or dtype.kind not in "fiu" or search.is_printed:
        return []
    a, right = (each.astype(dtype) for each in search.probes[2:])
    everything = search.rows[1].astype(dtype)
    with np.errstate(all="ignore"):
        finite = np.isfinite(a) & np.isfinite(right)
        a, right = a[finite], right[finite]
        x = search.rows[0].astype(dtype)
        in_order = (np.sort(each[np.isfinite(each)]) for each in (everything, x))  # where elements moved as well
        pairs = [(a, right), *([(one, other)] if len(one := next(in_order)) == len(other := next(in_order)) else [])]
        found = [_READ[row.tries](*pair, pairs[-1][0]) for pair in pairs if len(pair[0])]
        return [*dict.fromkeys(k for each in found for k in each)]


def _most_common(numbers: Numbers) -> list[Any]:
    found, counts = np.unique(numbers, return_counts=True)
    return [*found[np.argsort(-counts, kind="stable")][:2].tolist()]


def _ratios(a: Numbers, right: Numbers) -> list[float]:
    """The factors that give the probes: as they are, in few digits, and as parts of 1."""
    chosen = right != 0
    ratio = float(np.median(a[chosen].astype(float) / right[chosen].astype(float))) if chosen.any() else 1.0
    if not np.isfinite(ratio) or ratio in (0, 1):
        return []
    return list(dict.fromkeys([ratio, float(f"{ratio:.3g}"), float(f"{ratio:.5g}"), 1 / float(f"{1 / ratio:.4g}")]))


def _trailing(words: Numbers) -> list[int]:
    """How many low bits are 0 in all of these."""
    together = int(np.bitwise_or.reduce(words)) if len(words) else 0
    return [k] if together and (k := (together & -together).bit_length() - 1) else []


def _quanta(numbers: Numbers) -> list[float]:
    """The least difference of these, and the greatest power of 2 of which they are multiples."""
    powers = (2.0**-k for k in range(-8, 24) if not (numbers.astype(np.float64) % 2.0**-k).any())
    different = np.unique(numbers)
    return [float(np.diff(different).min()), *itertools.islice(powers, 1)] if len(different) > 1 else []


# For each name in `tries` of a relation of values, the numbers that some elements of A and of what is right speak for,
# and all of A in the sample.
_READ: dict[str, Callable[[Numbers, Numbers, Numbers], list[Any]]] = {
    "lost": lambda a, right, all_: _trailing(bits(all_)),
    "difference": lambda a, right, all_: _most_common(a - right),
    "factor": lambda a, right, all_: _ratios(a, right),
    "quotient": lambda a, right, all_: _ratios(right, a),
    "quantum": lambda a, right, all_: _quanta(all_),
    "most": lambda a, right, all_: [float(np.abs(all_.astype(float)).max())],
    "greatest": lambda a, right, all_: [all_.max().item()],
}


def _combined(search: Search, values: list[_Change], x: Numbers) -> Iterator[_Change]:
    """Changes of values that give each wrong element of A from some element; none where A has those of the input.

    An element that is there again and again may stand in a part that is not done.
    """
    wrong, counts = np.unique(bits(np.ascontiguousarray(search.probes[2])), return_counts=True)
    alike = np.isin(wrong, bits(x)) * counts
    wrong = wrong[counts <= max(1, counts.sum() // 4)]
    if not len(wrong) or alike.sum() > 0.9 * counts.sum():
        return
    found = 0
    for change in values:
        if found < _MOST_COMBINED and np.isin(wrong, bits(np.ascontiguousarray(change.step(x)))).all():
            found += 1
            yield change


def _changed_twice(search: Search, values: list[_Change]) -> Iterator[_Change]:
    """Two changes of values that together give all probes, and neither alone."""
    _, _, a, right = search.probes
    right, told = np.ascontiguousarray(right), set()
    for first in values:
        once = first.step(right)
        if not len(right) or not search.differ(once, right).any():
            continue
        for then in values:
            ids = frozenset((first.id, then.id))
            if len(ids) == 2 and ids not in told and not search.differ(a, then.step(once)).any():
                told.add(ids)
                text, cost = f"{first.text}, and then {then.text}", first.cost + then.cost + _COMBINED
                yield _Change(f"{first.id}+{then.id}", text, cost, partial(_both, first.step, then.step))


def _both(first: Callable[[Numbers], Numbers], then: Callable[[Numbers], Numbers], values: Numbers) -> Numbers:
    return then(first(values))


# Lines and layouts


def _in_memory(source: Source, places: Callable[[Numbers, int], Numbers]) -> Source:
    """The source with its elements at other places of its memory, which has them in C order."""
    return Reshaped(moved(Reshaped(source, (source.desc.element_count,)), 0, places), source.sizes)


def _lines(setting: _Setting) -> Iterator[Candidate]:
    """The outputs whose lines, or whose input's, are at other places."""
    job, search = setting.job, setting.search
    sizes, right = job.values.sizes, reversed_output(job)
    for d, count in enumerate(sizes):
        lengths = search.lengths.reshape(-1) if search.lengths.size == search.lengths.shape[d] == count else None
        lengths = _given(job, search.lengths) if job.of_batch and d == job.batch_axis else lengths
        for words, cost, step in _places(search, count, lengths):
            if d != job.axis:
                text = FAMILIES["output-lines"].format(d=d) + words
                if _lines_fit(setting, d, step, output=True):
                    yield setting.candidate("output-lines", text, moved(right, d, step), cost=cost)
            if _lines_fit(setting, d, step, output=False):
                read = replace(job, values=moved(job.values, d, step))
                text = FAMILIES["input-lines"].format(d=d) + words
                yield setting.candidate("input-lines", text, reversed_output(read), cost=cost)


def _lines_fit(setting: _Setting, d: int, step: _PlacesOf, *, output: bool) -> bool:
    """Whether the probes have what comes from these places; true where the sample is not all of the tensor."""
    search, axis = setting.search, setting.job.axis
    if not search.is_whole or setting.x is None or search.rows is None:
        return True
    row, j, *_ = search.probes
    sizes = lengths_sizes(search.job.values.sizes, axis)
    at = [*np.unravel_index(row, sizes)]
    lengths = search.lengths.reshape(-1)
    if d == axis:
        place = step(mirrored(j, np.minimum(lengths[row], search.size)), search.size)
        other, outside = row, (place < 0) | (place >= search.size)
        place = np.clip(place, 0, search.size - 1)
    else:
        taken = step(at[d], sizes[d])
        outside = (taken < 0) | (taken >= sizes[d])
        at[d] = np.clip(taken, 0, sizes[d] - 1)
        other = np.ravel_multi_index(tuple(at), sizes)
        place = mirrored(j, np.minimum(lengths[other if output else row], search.size))
    found = setting.x[other, place]
    found[outside] = np.zeros((), found.dtype)
    return bool(search.is_likely(found))


def _layouts(setting: _Setting) -> Iterator[Candidate]:
    """The outputs whose memory, or whose input's, is laid out otherwise, or has every element beside its place."""
    search, job, a = setting.search, setting.job, setting.search.a
    values, sizes, axis, right = job.values, job.values.sizes, job.axis, reversed_output(setting.job)
    is_whole = a.desc == values.desc  # not so where it is printed
    for order in orders(sizes):
        there, back = tuple(sizes[d] for d in order), inverse(order)
        for text, read in _laid_out("the input", values, order):
            yield setting.candidate("input-layout", text, reversed_output(replace(job, values=read)))
        # Each way is taken back by the other one.
        ways = [[*_laid_out("the output", a, each)] for each in (order, back if there == sizes else order)]
        for (text, _), (_, read) in zip(ways[0], reversed(ways[1]), strict=True) if is_whole else ():
            yield setting.candidate("output-layout", text, right, read, axis)
        if is_whole and there != sizes:  # or else only the axes are others
            other = replace(job, values=Reshaped(values, there), lengths=transposed(job.lengths, order))
            text = f"memory of sizes {braced(sizes)} is taken for one of sizes {braced(there)}"
            output = reversed_output(replace(other, axis=back[axis]))
            yield setting.candidate("other-sizes", text, output, Reshaped(a, there), back[axis])
    yield from _pitches_of(setting)
    for number, (side, places) in enumerate(_SHIFTS):
        if not search.oracle.arrangement.plan.cuts_lines:
            text = f"the input is shifted by one element: each is the one {side} it in memory"
            yield setting.candidate(
                "input-shifted", text, reversed_output(replace(job, values=_in_memory(values, places)))
            )
        if is_whole and number in (0, 3):
            (_, back_again), lost = _SHIFTS[3 - number], values.desc.element_count - 1 if number == 0 else 0
            moved_back = _in_memory(a, back_again)
            text = f"the output is shifted by one element: each is the one {side} it in memory"
            yield setting.candidate("output-shifted", text, _but_one_output(right, moved_back, lost), moved_back, axis)


def _pitches_of(setting: _Setting) -> Iterator[Candidate]:
    """The outputs where rows of the input, or of the output, have another pitch than their reader thinks."""
    search, job = setting.search, setting.job
    for text, places in () if search.oracle.arrangement.plan.cuts_lines else _pitches(job.values.sizes):
        if _memory_fits(setting, places, of_output=False):
            other = replace(job, values=_in_memory(job.values, places))
            yield setting.candidate("row-pitch", f"the input has {text}", reversed_output(other))
        if search.is_whole and _memory_fits(setting, places, of_output=True):
            yield setting.candidate("row-pitch", f"the output has {text}", _in_memory(reversed_output(job), places))


def _pitches(sizes: tuple[int, ...]) -> Iterator[tuple[str, Callable[[Numbers, int], Numbers]]]:
    """Rows that begin too near or too far from each other, or at multiples of a power of 2: where they are read."""
    for d in range(1, len(sizes)):
        row, inner = prod(sizes[d:]), prod(sizes[d + 1 :])
        pitches = {row - inner, row + inner, *(-(-row // k) * k for k in (4, 8, 16, 32, 64, 128, 256))} - {row, 0}
        for pitch in sorted(pitches) if prod(sizes[:d]) > 1 else ():
            text = f"rows of {row} elements, which are read as if each began {pitch} behind the one before"
            yield text, partial(_pitched, row, pitch)
            if pitch > row:
                text = f"rows that begin {pitch} elements behind each other, which are read as if they had only {row}"
                yield text, partial(_packed, row, pitch)


def _pitched(row: int, pitch: int, i: Numbers, _: int) -> Numbers:
    return np.asarray(i // row * pitch + i % row)


def _packed(row: int, pitch: int, i: Numbers, _: int) -> Numbers:
    return np.where(i % pitch < row, i // pitch * row + i % pitch, -1)


def _memory_fits(setting: _Setting, places: Callable[[Numbers, int], Numbers], *, of_output: bool) -> bool:
    """Whether the probes have what comes from these places of the memory, which the sample is all of."""
    search = setting.search
    if not search.is_whole or setting.x is None or search.rows is None:
        return True
    row, j, *_ = search.probes
    sizes, axis = search.job.values.sizes, search.job.axis
    n = np.minimum(search.lengths.reshape(-1), search.size)
    mirror = mirrored(np.arange(search.size), n[:, None])
    held = np.take_along_axis(setting.x, mirror, 1) if of_output else setting.x
    memory = np.moveaxis(held.reshape(*np.delete(sizes, axis), -1), -1, axis).reshape(-1)
    at = [*np.unravel_index(row, lengths_sizes(sizes, axis))]
    at[axis] = j if of_output else mirror[row, j]
    place = places(np.ravel_multi_index(tuple(at), sizes), memory.size)
    outside = (place < 0) | (place >= memory.size)
    found = memory[np.where(outside, 0, place)]
    found[outside] = np.zeros((), found.dtype)
    return bool(search.is_likely(found))


_SHIFTS: tuple[tuple[str, Callable[[Numbers, int], Numbers]], ...] = (
    ("before", lambda i, count: (i - 1) % count),
    ("before", lambda i, _: np.maximum(i - 1, 0)),
    ("before", lambda i, _: i - 1),
    ("behind", lambda i, count: (i + 1) % count),
    ("behind", lambda i, count: np.minimum(i + 1, count - 1)),
    ("behind", lambda i, _: i + 1),
)


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


def _but_one_output(right: Source, other: Source, lost: int) -> Source:
    """The right output, with an element that is lost and may be any."""

    def read_task(region: Region) -> ReadTask:
        here = np.ravel_multi_index(tuple(np.ogrid[region]), right.sizes) == lost
        return Computed(partial(_either, here), (right.read_task(region), other.read_task(region)))

    return Derived(right, right.dtype, read_task)


def _either(here: NDArray[np.bool_], right: Numbers, other: Numbers) -> Numbers:
    np.copyto(right, other, where=here)
    return right


def _other_axes(setting: _Setting) -> Iterator[Candidate]:
    """The outputs along other axes for which the lengths do; none along an axis of size 1, which changes nothing."""
    job = setting.job
    lengths, sizes = job.lengths, job.values.sizes
    others = [d for d, size in enumerate(sizes) if size > 1]
    for axis in (d for d in others if d != job.axis):
        text = f"axis {axis} is reversed whole, not {job.axis}"
        yield setting.candidate("other-axis", text, moved(job.values, axis, lambda i, count: count - 1 - i))
    if given := job.of_batch:
        count = given.sizes[0]
        for axis in others:
            for batch in (d for d, size in enumerate(sizes) if size <= count and d != axis):
                if (axis, batch) != (job.axis, job.batch_axis):
                    text = f"axis {axis} is reversed with the batch axis {batch}, not {job.axis} with {job.batch_axis}"
                    aligned = AlignedSource(given, sizes, axis, (batch,))
                    output = reversed_output(replace(job, axis=axis, lengths=aligned))
                    yield setting.candidate("other-axis", text, output)
        return
    for axis in (d for d in others if d != job.axis):
        text = f"axis {axis} is reversed, not {job.axis}"
        first = tuple(None if d in (axis, job.axis) else d for d in range(len(sizes)))
        along = AlignedSource(lengths, sizes, axis, first)
        yield setting.candidate("other-axis", text, reversed_output(replace(job, axis=axis, lengths=along)))
        if sizes[axis] == sizes[job.axis]:
            text += f", with a length for each index of axis {job.axis}"
            order = [{axis: job.axis, job.axis: axis}.get(d, d) for d in range(len(sizes))]
            output = reversed_output(replace(job, axis=axis, lengths=transposed(lengths, order)))
            yield setting.candidate("other-axis", text, output)
