"""What may have been done in place of the reversal: for each relation that fits a sample, the output that it gives.

An idea says which element of the input each element of the output is. So it is tried on the probes of the sample, all
ideas at once, before an output is made. An output is a source that is computed where it is read, so that a tensor of
any size can be held against it. What was done to values is read first, from the elements that occur; ideas are then
tried with the values that it gives, so that two mistakes together are found.
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
from revseq_cli.formats.in_memory import MemoryReadTask
from revseq_cli.operator import kernel
from revseq_cli.pipeline.blocks import lengths_of, sizes_of
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
from revseq_cli.porting.sample import at_of, number_of, put
from revseq_cli.text import literals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import ReadTask, Region, Source
    from revseq_cli.pipeline.assembly import Job
    from revseq_cli.porting.sample import Elements, Sample

    Numbers = NDArray[Any]
    # What becomes of values; lengths at places among the given ones; and for indices along a dimension of that size,
    # those that they take.
    _Step = Callable[[Numbers], Numbers]
    _LengthsAt = Callable[[Numbers], Numbers]
    _PlacesOf = Callable[[Numbers, int], Numbers]
    _Lengths = tuple[str, str, int, _LengthsAt]  # with an id, words and a cost
    _Fill = tuple[str, str, int, Numbers, Source]

_MOST_RULES = 3
# What explains less of the wrong lines, or of the probes, is no explanation.
LEAST_PART = 0.5
# Of a large tensor, each input of a probe is read by itself: one of so many probes first.
_FIRST_PROBES = 8
# Costs: of what does not depend on lengths, and of a second mistake.
_TRIVIAL, _COMBINED = -1, 3
_MOVES_ALL = ("not-reversed", "whole-lines")
# Values of so many kinds are sought at other places.
_MOST_COMBINED = 4
# What stands in a part that is not done: the id, and its words.
FILLS = {
    "zeros": "zeros",
    "one-value": "only {value}",
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
    read from the output. `elements` are those of the output in a sample that is all of the tensor. Those `alike` are no
    simpler, and the same wherever it was tried.
    """

    id: str
    text: str
    cost: int
    elements: Callable[[], Numbers]
    output: Source
    a: Source | None = None
    axis: int = 0
    alike: tuple[Candidate, ...] = ()


class _Idea(NamedTuple):
    """What may have been done: which elements of the input stand in its places, by their numbers, and zeros elsewhere.

    `output` gives the same for a job as a source.
    """

    id: str
    text: str
    cost: int
    inputs: Callable[[Elements], Numbers]
    output: Callable[[Job], Source]
    a: Source | None = None
    axis: int = 0


class _Change(NamedTuple):
    """What may have become of values, and the function that does it, which pickles."""

    id: str
    text: str
    cost: int
    step: _Step

    def job(self, job: Job) -> Job:
        """The job with such values."""
        return replace(job, values=_derived(job.values, self.step)) if self.id else job

    def also(self, found: Candidate) -> Candidate:
        """A candidate of that job, which says so."""
        if not self.id:
            return found
        id_, text = f"{self.id}+{found.id}", f"{found.text}; and {self.text}"
        return found._replace(id=id_, text=text, cost=self.cost + found.cost)


def _kept(values: Numbers) -> Numbers:
    return values


_NO_CHANGE = _Change("", "", 0, _kept)


class _Ideas:
    """Ideas, and the numbers of the inputs that they have at the probes: a row for each."""

    def __init__(self, sample: Sample, *families: Iterable[_Idea]) -> None:
        self.sample, self.ideas = sample, [*itertools.chain.from_iterable(families)]
        probes = sample.probes
        numbers = [np.broadcast_to(each.inputs(probes), probes.j.shape) for each in self.ideas]
        self.numbers = np.array(numbers, np.int64).reshape(len(self.ideas), -1)

    def candidates(self, change: _Change = _NO_CHANGE) -> Iterator[Candidate]:
        """Those that explain a good part of the probes, with the values that this change gives."""
        job = change.job(self.sample.job)
        for ideas in self._groups([self.ideas[i] for i in self._likely(change.step)]):
            found = []
            for id_, text, cost, inputs, output, a, axis in ideas:
                elements = partial(_elements_of, self.sample, inputs, change.step)
                found.append(change.also(Candidate(id_, text, cost, elements, output(job), a, axis)))
            yield found[0]._replace(alike=(*found[1:],))

    def _likely(self, step: _Step) -> Numbers:
        chosen, (there, _) = np.arange(len(self.ideas)), self.sample.at_probes
        each = max(1, len(there) // _FIRST_PROBES)
        if each > 1 and not self.sample.is_whole:
            chosen = chosen[self._agreeing(step, chosen, slice(None, None, each)) > 0]
        return np.asarray(chosen[self._agreeing(step, chosen, slice(None)) >= LEAST_PART * len(there)])

    def _groups(self, ideas: list[_Idea]) -> list[list[_Idea]]:
        """Of a large tensor, those together that are the same in all of its sample and all over it, simplest first."""
        if self.sample.is_whole:
            return [[each] for each in ideas]
        groups: dict[bytes, list[_Idea]] = {}
        for each in sorted(ideas, key=lambda each: each.cost):
            numbers = (np.asarray(each.inputs(elements)) for elements in (self.sample.elements, self.sample.spread))
            groups.setdefault(b"".join(each.tobytes() for each in numbers), []).append(each)
        return [*groups.values()]

    def _agreeing(self, step: _Step, chosen: Numbers, probes: slice) -> Numbers:
        """How many of these probes have what these ideas give."""
        found = step(self.sample.inputs(self.numbers[chosen, probes]))
        there = np.broadcast_to(self.sample.at_probes[0][probes], found.shape)
        return np.asarray(np.count_nonzero(~self.sample.differ(there, found), axis=1))


def _elements_of(sample: Sample, inputs: Callable[[Elements], Numbers], step: _Step) -> Numbers:
    return step(sample.inputs(inputs(sample.elements)))


def candidates(sample: Sample, is_explained: Callable[[], bool]) -> Iterator[Candidate]:
    """All that fit elements of the sample, the simplest families first, until all lines are explained."""
    near = _Ideas(sample, _lengths(sample), _misplaced(sample), _other_axes(sample))
    yield from near.candidates()
    yield from _parts(sample)
    values = [] if is_explained() else [*_values(sample)]
    yield from _changed(sample, values)
    if is_explained():
        return
    far = _Ideas(sample, _lines(sample), _layouts(sample))
    yield from far.candidates()
    if not is_explained():
        yield from _parts(sample, values=values)
    if not (is_explained() or sample.tolerance or sample.is_printed):
        yield from _changed(sample, _changed_twice(sample, values))
        for change in _combined(sample, values):
            yield from near.candidates(change)
            yield from _parts(sample, change)
            yield from far.candidates(change)


def _changed(sample: Sample, values: Iterable[_Change]) -> Iterator[Candidate]:
    """The outputs with right elements whose values are changed."""
    right, (there, belongs) = reversed_output(sample.job), sample.at_probes
    for id_, text, cost, step in values:
        if np.count_nonzero(~sample.differ(there, step(belongs))) >= LEAST_PART * len(there):
            yield Candidate(id_, text, cost, partial(_stepped, sample, step), _derived(right, step))


def _stepped(sample: Sample, step: _Step) -> Numbers:
    return step(sample.belongs)


def _derived(source: Source, step: _Step) -> Source:
    dtype = source.dtype.newbyteorder("=")
    return Derived(source, dtype, lambda region: Computed(partial(_native, step), (source.read_task(region),)))


def _native(step: _Step, values: Numbers) -> Numbers:
    return step(native(values))


# Lengths


def _lengths(sample: Sample) -> Iterator[_Idea]:
    """Other lengths: computed for the probes, then for the sample, and for other lines where they are read."""
    job = sample.job
    given = _given(job, sample.lengths)
    others = itertools.chain(_relations(sample, given), _of_others(sample, given), _words(job, given))
    yield from _with_lengths(job.batch_axis if job.of_batch else None, others)
    if job.of_batch and given.size > 1:
        yield from _with_lengths(None, _by_line(given))


def _by_line(given: Numbers) -> Iterator[_Lengths]:
    told = "lengths of the batch are read by the number of the line"
    yield "lengths-by-line", f"{told}, around the ends", 0, partial(np.take, given, mode="wrap")
    yield "lengths-by-line", f"{told}, and none behind the last", 0, partial(np.take, np.append(given, 0), mode="clip")


def _with_lengths(batch_axis: int | None, others: Iterable[_Lengths]) -> Iterator[_Idea]:
    for id_, text, cost, found in others:
        inputs = partial(_reversed_by, batch_axis, found)
        cost = _TRIVIAL if id_ in _MOVES_ALL else cost
        yield _Idea(id_, text, cost, inputs, partial(_output_by, batch_axis, found))


def _reversed_by(batch_axis: int | None, found: _LengthsAt, e: Elements) -> Numbers:
    lengths = found(e.line if batch_axis is None else e.at[batch_axis])
    return e.along(mirrored(e.j, np.minimum(lengths, e.size)))  # a negative length is as 0


def _output_by(batch_axis: int | None, found: _LengthsAt, job: Job) -> Source:
    """The output of the job with other lengths; a worker gets those of its block, and not what they are found by."""
    sizes, size = job.lengths.sizes, job.values.sizes[job.axis]

    def read_task(region: Region) -> ReadTask:
        at = tuple(np.ogrid[region])
        places = np.ravel_multi_index(at, sizes) if batch_axis is None else at[batch_axis]
        lengths = np.clip(found(np.asarray(places)), 0, size).astype(np.uint64)
        return MemoryReadTask(np.ascontiguousarray(np.broadcast_to(lengths, sizes_of(region))))

    return reversed_output(replace(job, lengths=Derived(job.lengths, np.dtype(np.uint64), read_task)))


def _given(job: Job, lengths: Numbers) -> Numbers:
    """The lengths as they are given: one for each index of the batch axis, or for each line."""
    if not job.of_batch:
        return lengths
    return lengths[tuple(slice(None) if d == job.batch_axis else 0 for d in range(lengths.ndim))]


def _relations(sample: Sample, given: Numbers) -> Iterator[_Lengths]:
    flat = given.reshape(-1)
    for number, row in enumerate(LENGTHS):
        for k in sample.numbers_tried(row.tries):
            of_all = row.kind == "all"
            found = partial(_at, _related(number, sample.size, k, flat)) if of_all else None
            text = row.text.format(k=_words_of(k))
            yield row.id, text, _cost(row, k), found or partial(_related_at, number, sample.size, k, flat)


def _related(number: int, size: int, k: int, lengths: Numbers) -> Numbers:
    """The lengths that this row gives."""
    with np.errstate(all="ignore"):
        found = np.asarray(LENGTHS[number].function(lengths, size, k))
    found = (np.minimum(found, np.uint64(1 << 62)) if found.dtype == np.uint64 else found).astype(np.int64)
    is_one = LENGTHS[number].kind == "all" and (found == found[:1]).all()  # of many lines, it is held once
    return np.broadcast_to(found[:1], found.shape) if is_one else found


def _related_at(number: int, size: int, k: int, lengths: Numbers, places: Numbers) -> Numbers:
    return _related(number, size, k, lengths[places])


def _cost(row: Relation, k: int) -> int:
    """That of the row, and more where a number is read from the output."""
    return row.cost + int(bool(row.tries) and abs(k) != 1)


def _words_of(k: int) -> str:
    count = "one" if abs(k) == 1 else f"{abs(k)}"
    return count if k >= 0 else f"{count} backwards"


def _of_others(sample: Sample, given: Numbers) -> Iterator[_Lengths]:
    """The lengths of other lines: along each dimension of the given ones, and along all of them."""
    id_, told, flat = "lengths-of-others", FAMILIES["lengths-of-others"], given.reshape(-1)
    for d, count in enumerate(given.shape) if given.ndim > 1 else ():
        for words, cost, step in _places(sample, count, None):
            yield id_, f"{told}along dimension {d}, {words}", cost, partial(_at_others, given, d, step)
    for words, cost, step in _places(sample, flat.size, flat):
        yield id_, told + words, cost, partial(_at_others, flat, 0, step)
    for order in orders(given.shape):
        there = tuple(given.shape[d] for d in order)
        yield ("lengths-layout", f"the memory of lengths has its axes in the order {braced(order)}", 0,
               partial(_at, given.transpose(order)))  # fmt: skip
        yield ("lengths-layout", f"the memory of lengths is read as if its axes had the order {braced(order)}", 0,
               partial(_at, given.reshape(there).transpose(inverse(order))))  # fmt: skip


def _places(sample: Sample, count: int, lengths: Numbers | None) -> Iterator[tuple[str, int, _PlacesOf]]:
    """The words of each relation of places, its cost, and the function that gives for each index the one it takes."""
    for number, row in enumerate(PLACES) if count > 1 else ():
        if row.kind != "sorted":
            for k in sample.numbers_tried(row.tries):
                yield row.text.format(k=_words_of(k)), _cost(row, k), partial(_placed, number, k)
        elif lengths is not None:
            yield row.text, row.cost, partial(_at_known, row.function(lengths))


def _placed(number: int, k: int, i: Numbers, count: int) -> Numbers:
    return np.asarray(PLACES[number].function(i, count, k))


def _at_known(places: Numbers, i: Numbers, _: int) -> Numbers:
    return np.asarray(places[i])


def _at(values: Numbers, places: Numbers) -> Numbers:
    """The elements at these places, as if the array were flat."""
    return np.asarray(values[tuple(at_of(places, values.shape))])


def _at_others(values: Numbers, d: int, step: _PlacesOf, places: Numbers) -> Numbers:
    """The elements at the places that these take along dimension d, and zeros outside."""
    at, count = at_of(places, values.shape), values.shape[d]
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


# Elements and parts


def _misplaced(sample: Sample) -> Iterator[_Idea]:
    """Elements come from other places of their line, or beside it.

    Where lines are cut, a block has no room for whole ones, but for their first k elements beside its own.
    """
    for number, row in enumerate(ELEMENTS):
        for k in sample.numbers_tried(row.tries):
            first = k if sample.cuts_lines else sample.size
            if sample.cuts_lines and (row.tries != "wrap" or 2 * k > sample.extent):
                continue
            inputs, output = partial(_misplaced_inputs, number, k), partial(_misplaced_output, number, k, first)
            yield _Idea(row.id, row.text.format(k=_words_of(k)), _cost(row, k), inputs, output)


def _misplaced_inputs(number: int, k: int, e: Elements) -> Numbers:
    row = ELEMENTS[number]
    return e.along(np.asarray(row.function(e.j, np.minimum(e.lengths, 2 * e.size), e.n, e.size, k)), row.kind)


def _misplaced_output(number: int, k: int, first: int, job: Job) -> Source:
    """The output of the job. For a block the `first` elements of its lines are read, and its own if these are fewer."""
    axis, sizes, values = job.axis, job.values.sizes, job.values
    rows = Reshaped(values, (prod(sizes[:axis]), prod(sizes[axis:])))
    before, behind = (Reshaped(moved(rows, 0, step), sizes) for step in (lambda i, _: i - 1, lambda i, _: i + 1))

    def read_task(region: Region) -> ReadTask:
        lines = (*region[:axis], slice(0, first), *region[axis + 1 :])
        sources = (before, values, behind) if ELEMENTS[number].kind == "neighbour" else (values,)
        read = [source.read_task(lines) for source in sources]
        read += [values.read_task(region)] if first < sizes[axis] else []
        lengths = job.lengths.read_task(lengths_of(region, axis))
        step = partial(_read_misplaced, number, k, axis, region[axis], sizes[axis])
        return Computed(step, (lengths, *read))

    return Derived(values, values.dtype, read_task)


def _read_misplaced(
    number: int, k: int, axis: int, part: slice, size: int, lengths: Numbers, *lines: Numbers
) -> Numbers:
    """A part of lines, with elements from other places than the right ones; perhaps from the lines beside.

    Of the lines there is all, or their first elements, and then the part as it is.
    """
    first, each = lines[0].shape[axis], ELEMENTS[number]
    longest, clamped = kernel.clamp(lengths, 2 * size), kernel.clamp(lengths, size)
    along = np.expand_dims(np.arange(part.start, part.stop), [d for d in range(lengths.ndim) if d != axis])
    index = np.broadcast_to(
        each.function(along, longest, clamped, size, k), np.broadcast_shapes(along.shape, lengths.shape)
    )
    held = np.concatenate(lines, axis) if len(lines) > 1 else lines[0]
    if first < size:
        return _of_line(held, np.where(index < first, index, index - part.start + first), axis, "")
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


def _parts(sample: Sample, change: _Change = _NO_CHANGE, values: list[_Change] | None = None) -> Iterator[Candidate]:
    """The outputs that are right but for a part: one element again and again, the input, or changed `values`."""
    job, a, right = change.job(sample.job), sample.there, change.step(sample.belongs)
    if sample.found.count == 1 or not (wrong := sample.differ(a, right)).any():
        return
    is_one = bool((bits(a)[wrong] == bits(a)[wrong][0]).all())  # told as that
    fills = _fills(sample, change, a[wrong][:1], right)
    if values is not None:
        fills = iter(()) if is_one else _changes(values, job, right)
    for name, text, cost, there, fill in fills:
        if (is_one and name == "masked") or sample.differ(a, there)[wrong].any():
            continue
        visible = ~wrong & sample.differ(there, right)
        found: list[tuple[str, int, Rule | None]] = []
        if visible.any():
            exact = (rule for missed, rule in rules(sample.elements.spots, wrong, visible) if not missed)
            refitted = [_refitted(rule, sample) for rule in itertools.islice(exact, _MOST_RULES)]
            found = [(f"{text} in elements {rule.text}", cost + _cost_of_part(name, rule), rule) for rule in refitted]
        elif values is None and name != "not-done":  # as with lengths of 0
            found = [(f"{text} everywhere", _TRIVIAL, None)]
        for told, more, rule in found:
            holds = np.True_ if rule is None else rule.holds(sample.elements.spots)
            elements = partial(_chosen, holds, there, right)
            yield change.also(Candidate(name, told, more, elements, _filled_output(job, rule, fill)))


def _changes(values: Iterable[_Change], job: Job, right: Numbers) -> Iterator[_Fill]:
    output = reversed_output(job)
    for id_, text, cost, step in values:
        yield id_, text, cost, step(right), _derived(output, step)


def _fills(sample: Sample, change: _Change, element: Numbers, right: Numbers) -> Iterator[_Fill]:
    """What may stand in a part: the id, its words and its cost; what it is in the sample, and in each output."""
    job, x = change.job(sample.job), change.step(sample.x)
    output = reversed_output(job)
    element = element.astype(job.values.dtype.newbyteorder("="))
    is_zero = not bits(element).view(np.uint8).any()
    name = "zeros" if is_zero else "one-value"
    constant = Derived(output, element.dtype, lambda _: MemoryReadTask(element))
    told = FILLS[name].format(value=literals.render(element)[0])
    yield name, told, 0, np.broadcast_to(element, right.shape), constant
    yield "not-done", FILLS["not-done"], 0, x, job.values
    yield "masked", FILLS["masked"], 0, _masked(right), _derived(output, _masked)
    yield "added", FILLS["added"], 0, _added(x, right), _sums(job)


def _chosen(holds: Numbers | np.bool_, there: Numbers, right: Numbers) -> Numbers:
    return np.where(holds, there, right)


def _cost_of_part(name: str, rule: Rule) -> int:
    return 2 if name == "not-done" and QUANTITIES[rule.quantity].id == "length" else 1  # these are other lengths, too


def _masked(right: Numbers) -> Numbers:
    with np.errstate(all="ignore"):
        return np.asarray(right * right.dtype.type(0))


def _sums(job: Job) -> Source:
    right = reversed_output(job)

    def read_task(region: Region) -> ReadTask:
        return Computed(_added, (job.values.read_task(region), right.read_task(region)))

    return Derived(right, right.dtype.newbyteorder("="), read_task)


def _added(values: Numbers, right: Numbers) -> Numbers:
    with np.errstate(all="ignore"):
        return np.asarray(native(values) + native(right))


def _refitted(rule: Rule, sample: Sample) -> Rule:
    """The rule with the first and last index of all that differs, not of the sample alone."""
    where, quantity = sample.found.where, QUANTITIES[rule.quantity].id
    if sample.is_whole or quantity not in ("index", "place"):
        return rule
    low, high = where.spans[rule.d]
    if quantity == "place":
        ends = sample.found.indices[0].tolist(), where.last
        low, high = (int(np.ravel_multi_index(tuple(each), sample.job.values.sizes)) for each in ends)
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


def _values(sample: Sample) -> Iterator[_Change]:
    """What may have become of values: id, words, and the function, which pickles."""
    dtype = sample.job.values.dtype.newbyteorder("=")
    for number, row in enumerate(VALUES):
        if dtype.kind in row.kind:
            for k in _factors(sample, row, dtype):
                text = row.text.format(k=f"{k:.7g}" if isinstance(k, float) else k)
                yield _Change(row.id, text, row.cost + int(bool(row.tries)), partial(changed, number, k))
    for id_, text, to, saturates in casts(dtype):
        yield _Change(id_, text, 0, partial(cast, to, saturates=saturates))


def _factors(sample: Sample, row: Relation, dtype: np.dtype[Any]) -> list[Any]:
    """The numbers that k may be for a relation of values, read from the probes."""
    width = 8 * dtype.itemsize
    known = {"": [0], "words": [16, 32], "fewer": [4, 8, 16, 32, width - 1]}
    if row.tries in known:
        return [k for k in known[row.tries] if k < width]
    if dtype.kind not in "fiu" or sample.is_printed:
        return []
    (a, right), x, everything = sample.at_probes, sample.x, sample.there
    with np.errstate(all="ignore"):
        finite = np.isfinite(a) & np.isfinite(right)
        a, right = a[finite], right[finite]
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
    different = np.unique(numbers).astype(np.float64)
    if len(different) < 2:
        return []
    powers = [2.0**-k for k in range(-8, 24)] if not (different % 2.0**-23).any() else []
    fitting = (power for power in powers if not (different % power).any())
    return [float(np.diff(different).min()), *itertools.islice(fitting, 1)]


# For each name in `tries` of a relation of values, the numbers that some elements of A and of what is right speak for,
# and all of A in the sample.
_READ: dict[str, Callable[[Numbers, Numbers, Numbers], list[Any]]] = {
    "lost": lambda a, right, all_: _trailing(bits(all_)),
    "difference": lambda a, right, all_: _most_common(a - right),
    "factor": lambda a, right, all_: _ratios(a, right),
    "quotient": lambda a, right, all_: _ratios(right, a),
    "quantum": lambda a, right, all_: _quanta(all_),
    "most": lambda a, right, all_: [float(np.abs(all_.astype(float)).max())],
}


def _combined(sample: Sample, values: list[_Change]) -> Iterator[_Change]:
    """Changes of values that give each wrong element of A from some element; none where A has those of the input.

    An element that is there again and again may stand in a part that is not done.
    """
    wrong, counts = np.unique(bits(np.ascontiguousarray(sample.at_probes[0])), return_counts=True)
    alike = np.isin(wrong, bits(sample.x)) * counts
    wrong = wrong[counts <= max(1, counts.sum() // 4)]
    if not len(wrong) or alike.sum() > 0.9 * counts.sum():
        return
    fitting = (each for each in values if np.isin(wrong, bits(each.step(sample.x))).all())
    for change in itertools.islice(fitting, _MOST_COMBINED):
        yield change._replace(cost=change.cost + _COMBINED)


def _changed_twice(sample: Sample, values: list[_Change]) -> Iterator[_Change]:
    """Two changes of values that together give all probes, and neither alone."""
    a, right = sample.at_probes
    told = set()
    for first in values:
        once = first.step(right)
        if not len(right) or not sample.differ(once, right).any():
            continue
        for then in values:
            ids = frozenset((first.id, then.id))
            if len(ids) == 2 and ids not in told and not sample.differ(a, then.step(once)).any():
                told.add(ids)
                text, cost = f"{first.text}, and then {then.text}", first.cost + then.cost + _COMBINED
                yield _Change(f"{first.id}+{then.id}", text, cost, partial(_both, first.step, then.step))


def _both(first: Callable[[Numbers], Numbers], then: Callable[[Numbers], Numbers], values: Numbers) -> Numbers:
    return then(first(values))


# Lines and layouts


def _in_memory(places: _PlacesOf, source: Source) -> Source:
    """The source with its elements at other places of its memory, which has them in C order."""
    return Reshaped(moved(Reshaped(source, (source.desc.element_count,)), 0, places), source.sizes)


def _lines(sample: Sample) -> Iterator[_Idea]:
    """Lines of the output, or of the input, are at other places."""
    job, axis = sample.job, sample.job.axis
    for d, count in enumerate(job.values.sizes):
        lengths = sample.lengths.reshape(-1) if sample.lengths.size == sample.lengths.shape[d] == count else None
        lengths = _given(job, sample.lengths) if job.of_batch and d == job.batch_axis else lengths
        for words, cost, step in _places(sample, count, lengths):
            for name in ("output-lines", "input-lines")[d == axis :]:
                of_output = name == "output-lines"
                text = FAMILIES[name].format(d=d) + words
                yield _Idea(
                    name,
                    text,
                    cost,
                    partial(_inputs_of_lines, d, step, of_output),
                    partial(_moved_output, d, step, of_output),
                )


def _inputs_of_lines(d: int, step: _PlacesOf, of_output: bool, e: Elements) -> Numbers:
    from_ = e if of_output else e.origin
    index = step(from_.at[d], e.sizes[d])
    there = from_.moved(d, index)
    there = there.origin if of_output else there
    return np.where((index < 0) | (index >= e.sizes[d]), -1, there.number)


def _moved_output(d: int, step: _PlacesOf, of_output: bool, job: Job) -> Source:
    if of_output:
        return moved(reversed_output(job), d, step)
    return reversed_output(replace(job, values=moved(job.values, d, step)))


def _layouts(sample: Sample) -> Iterator[_Idea]:
    """The memory of the output, or of the input, is laid out otherwise, or has every element beside its place."""
    job, a = sample.job, sample.a
    sizes, axis = job.values.sizes, job.axis
    for order in orders(sizes):
        there, back = tuple(sizes[d] for d in order), inverse(order)
        for way, (told, laid, where) in enumerate(_LAYOUTS[: 1 + (there != sizes)]):  # else it is the inverse order
            text = told.format("input", braced(order))
            yield _Idea(
                "input-layout", text, 0, partial(_laid_input, where, order), partial(_output_of, partial(laid, order))
            )
            if not sample.is_printed:
                # Each way is taken back by the other one.
                read = _LAYOUTS[1 - way][1](order, a) if there != sizes else laid(back, a)
                text = told.format("output", braced(order))
                yield _Idea("output-layout", text, 0, partial(_laid_output, where, order), reversed_output, read, axis)
        if there != sizes and not sample.is_printed:  # or else only the axes are others
            text = f"memory of sizes {braced(sizes)} is taken for one of sizes {braced(there)}"
            output = partial(_output_in_sizes, there, order)
            yield _Idea(
                "other-sizes", text, 0, partial(_inputs_in_sizes, order), output, Reshaped(a, there), back[axis]
            )
    if sample.cuts_lines:
        return
    for ids, text, places in (*_SHIFTS, *_pitches(sizes)):
        told, output = text.format("input"), partial(_output_of, partial(_in_memory, places))
        yield _Idea(ids[0], told, 0, partial(_placed_input, places), output)
        if not sample.is_printed:
            told, output = text.format("output"), partial(_placed_output_of, places)
            yield _Idea(ids[1], told, 0, partial(_placed_output, places), output)


def _output_of(read: Callable[[Source], Source], job: Job) -> Source:
    """The output for an input that is read otherwise."""
    return reversed_output(replace(job, values=read(job.values)))


def _placed_input(places: _PlacesOf, e: Elements) -> Numbers:
    return places(e.origin.number, prod(e.sizes))


def _placed_output(places: _PlacesOf, e: Elements) -> Numbers:
    number = places(e.number, prod(e.sizes))
    return np.where((number < 0) | (number >= prod(e.sizes)), -1, e.numbered(number).origin.number)


def _placed_output_of(places: _PlacesOf, job: Job) -> Source:
    return _in_memory(places, reversed_output(job))


def _in_order(order: tuple[int, ...], e: Elements) -> Numbers:
    """The numbers of elements whose memory has its axes in this order."""
    there = [e.sizes[d] for d in order]
    found = at_of(e.number, there)
    return number_of([found[k] for k in inverse(order)], e.sizes)


def _as_if_in_order(order: tuple[int, ...], e: Elements) -> Numbers:
    """The numbers of elements whose memory is read as if its axes had this order."""
    return number_of([e.at[d] for d in order], [e.sizes[d] for d in order])


def _laid_input(where: Callable[..., Numbers], order: tuple[int, ...], e: Elements) -> Numbers:
    return where(order, e.origin)


def _laid_output(where: Callable[..., Numbers], order: tuple[int, ...], e: Elements) -> Numbers:
    return e.numbered(where(order, e)).origin.number


def _laid_in_order(order: tuple[int, ...], source: Source) -> Source:
    return Reshaped(transposed(source, order), source.sizes)


def _laid_as_if_in_order(order: tuple[int, ...], source: Source) -> Source:
    return transposed(Reshaped(source, tuple(source.sizes[d] for d in order)), inverse(order))


# In words, as a source, and as numbers of elements.
_LAYOUTS = (
    ("the memory of the {} has its axes in the order {}", _laid_in_order, _in_order),
    ("the memory of the {} is read as if its axes had the order {}", _laid_as_if_in_order, _as_if_in_order),
)


def _inputs_in_sizes(order: tuple[int, ...], e: Elements) -> Numbers:
    """The numbers of elements where the memory has the dimensions in this order, and lengths go along them."""
    there, axis = [e.sizes[d] for d in order], order.index(e.axis)
    at = at_of(e.number, there)
    lengths = e.table[tuple(0 if d == e.axis else at[order.index(d)] for d in range(len(order)))]
    return number_of(put(at, axis, mirrored(at[axis], np.minimum(lengths, e.size))), there)


def _output_in_sizes(there: tuple[int, ...], order: tuple[int, ...], job: Job) -> Source:
    lengths = transposed(job.lengths, order)
    return reversed_output(
        replace(job, values=Reshaped(job.values, there), lengths=lengths, axis=order.index(job.axis))
    )


def _pitches(sizes: tuple[int, ...]) -> Iterator[tuple[tuple[str, str], str, _PlacesOf]]:
    """Rows that begin too near or too far from each other, or at multiples of a power of 2: where they are read."""
    for d in range(1, len(sizes)):
        row, inner = prod(sizes[d:]), prod(sizes[d + 1 :])
        pitches = {row - inner, row + inner, *(-(-row // k) * k for k in (4, 8, 16, 32, 64, 128, 256))} - {row, 0}
        for pitch in sorted(pitches) if prod(sizes[:d]) > 1 else ():
            text = f"the {{}} has rows of {row} elements, which are read as if each began {pitch} behind the one before"
            yield ("row-pitch", "row-pitch"), text, partial(_pitched, row, pitch)
            if pitch > row:
                rows = f"rows that begin {pitch} elements behind each other"
                text = f"the {{}} has {rows}, which are read as if they had only {row}"
                yield ("row-pitch", "row-pitch"), text, partial(_packed, row, pitch)


def _pitched(row: int, pitch: int, i: Numbers, _: int) -> Numbers:
    return np.asarray(i // row * pitch + i % row)


def _packed(row: int, pitch: int, i: Numbers, _: int) -> Numbers:
    return np.where(i % pitch < row, i // pitch * row + i % pitch, -1)


# The ids of input and output, in words, and as places in memory.
_SHIFTS: tuple[tuple[tuple[str, str], str, _PlacesOf], ...] = tuple(
    (
        ("input-shifted", "output-shifted"),
        f"the {{}} is shifted by one element: each is the one {side} it in memory",
        places,
    )
    for side, places in (
        ("before", lambda i, count: (i - 1) % count),
        ("before", lambda i, _: np.maximum(i - 1, 0)),
        ("before", lambda i, _: i - 1),
        ("behind", lambda i, count: (i + 1) % count),
        ("behind", lambda i, count: np.minimum(i + 1, count - 1)),
        ("behind", lambda i, _: i + 1),
    )
)


def _other_axes(sample: Sample) -> Iterator[_Idea]:
    """Other axes for which the lengths do; none along an axis of size 1, which changes nothing."""
    job = sample.job
    sizes = job.values.sizes
    others = [d for d, size in enumerate(sizes) if size > 1]

    def idea(text: str, axis: int, places: Iterable[int | None]) -> _Idea:
        """Another axis, and for each dimension of the lengths the one along which they go now."""
        where = axis, (*places,)
        return _Idea("other-axis", text, 0, partial(_inputs_along, *where), partial(_output_along, *where))

    for axis in (d for d in others if d != job.axis):
        text = f"axis {axis} is reversed whole, not {job.axis}"
        yield _Idea("other-axis", text, 0, partial(_turned_inputs, axis), partial(_turned_output, axis))
        if not job.of_batch:
            text = f"axis {axis} is reversed, not {job.axis}"
            yield idea(text, axis, [None if d in (axis, job.axis) else d for d in range(len(sizes))])
            if sizes[axis] == sizes[job.axis]:
                text += f", with a length for each index of axis {job.axis}"
                yield idea(text, axis, [{axis: job.axis, job.axis: None}.get(d, d) for d in range(len(sizes))])
    count = job.of_batch.sizes[0] if job.of_batch else 0
    for axis, batch in itertools.permutations(others, 2):
        if sizes[batch] <= count and (axis, batch) != (job.axis, job.batch_axis):
            text = f"axis {axis} is reversed with the batch axis {batch}, not {job.axis} with {job.batch_axis}"
            yield idea(text, axis, [batch if d == job.batch_axis else None for d in range(len(sizes))])


def _turned_inputs(axis: int, e: Elements) -> Numbers:
    return e.moved(axis, e.sizes[axis] - 1 - e.at[axis]).number


def _turned_output(axis: int, job: Job) -> Source:
    return moved(job.values, axis, lambda i, count: count - 1 - i)


def _inputs_along(axis: int, places: tuple[int | None, ...], e: Elements) -> Numbers:
    lengths = e.table[tuple(0 if d is None else e.at[d] for d in places)]
    return e.moved(axis, mirrored(e.at[axis], np.minimum(lengths, e.sizes[axis]))).number


def _output_along(axis: int, places: tuple[int | None, ...], job: Job) -> Source:
    return reversed_output(replace(job, axis=axis, lengths=AlignedSource(job.lengths, job.values.sizes, axis, places)))
