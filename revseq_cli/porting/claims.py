"""What may have been done to a wrong output, as claims: a sentence, and where it is true."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log2

import numpy as np

from revseq_cli.core.dtypes import Array
from revseq_cli.porting import changes
from revseq_cli.porting.changes import Change
from revseq_cli.porting.evidence import Evidence
from revseq_cli.porting.ideas import LIST_PRICE
from revseq_cli.porting.origins import ravel_positions
from revseq_cli.porting.rules import Sentence, price_choice
from revseq_cli.text.numbers import render_numbers

_CONSTANT_PRICE = 3.0  # bits of the sentence that the output is constant
LEAST_PART = 0.5  # of the probes and of the wrong sequences that a claim has to explain
_MOST_FITTED = 4096  # wrong elements from which the numbers of a change are computed
_MOST_NAMED = 6  # exchanges or lengths
_MOST_EXCHANGED = 1 << 10  # indices of a dimension in which exchanges are looked for


@dataclass(frozen=True, eq=False)
class Claim(Sentence):
    """A sentence about an output, and a mask of the elements that are as it says."""

    agree: Array


def claim_constant(evidence: Evidence) -> Claim | None:
    """The claim that all that is wrong has one value; None if it has several."""
    value = evidence.probes.output[:1]
    if not evidence.find_equal(evidence.output[evidence.wrong], value).all():
        return None
    price = _CONSTANT_PRICE
    if value[0] != 0:  # it has to be named, by the bits of its least surprising element
        price += float(evidence.surprise[evidence.wrong].min())
    text = f"the output is only {render_numbers(value)[0]}"
    return Claim(price, text, evidence.find_equal(evidence.output, value))


# Changed values


def fit_changes(evidence: Evidence) -> Iterator[Change]:
    """What may have been done to values, with numbers that fit some of the wrong elements."""
    sample = np.flatnonzero(evidence.wrong)
    sample = sample[:: 1 + len(sample) // _MOST_FITTED]
    wrong = evidence.output.reshape(-1)[sample]
    expected = evidence.expected.reshape(-1)[sample]
    return changes.list_changes(wrong, expected)


def claim_change(evidence: Evidence, change: Change) -> Claim | None:
    """The claim that expected values were changed; None if that explains too few probes."""
    probes = evidence.probes
    changed = change.apply(probes.expected)
    agree = _find_computed(evidence, probes.output, probes.expected, changed)
    if agree.mean() < LEAST_PART:
        return None
    output = evidence.output
    expected = evidence.expected
    agree = _find_computed(evidence, output, expected, change.apply(expected))
    return Claim(change.price, change.text, agree)


def claim_merges(evidence: Evidence) -> Iterator[Claim]:
    """The claims that the input was added to the output, or merged with it in another way."""
    expected = evidence.expected
    for text, merge in changes.MERGES.items():
        merged = np.asarray(merge(expected, evidence.unmoved)).astype(expected.dtype)
        agree = _find_computed(evidence, evidence.output, expected, merged)
        yield Claim(changes.CHANGE_PRICE, text, agree)


def _find_computed(evidence: Evidence, output: Array, expected: Array, computed: Array) -> Array:
    """Where an output has computed values: exactly, or up to rounding.

    A value that is only near to the computed one counts if it is not as near to the expected one.
    """
    is_equal = evidence.find_equal(output, computed)
    if output.dtype.kind not in "fc":
        return is_equal
    largest = np.maximum(np.abs(output), np.abs(expected))
    rounding = 8 * np.finfo(output.dtype).eps * largest
    is_near = np.abs(output - computed) <= rounding
    is_changed = np.abs(output - expected) > rounding
    return np.asarray(is_equal | (is_near & is_changed))


# Lists


def claim_other_lengths(evidence: Evidence) -> Claim:
    """The claim that wrong sequences were reversed by other lengths, which the sentence lists."""
    origin = evidence.sequences.reverse_by_lengths(evidence.seen_lengths, evidence.at)
    agree = evidence.find_equal(evidence.output, evidence.read_input(origin))
    explained = evidence.wrong_sequences & agree.all(evidence.axis, keepdims=True)
    positions = np.argwhere(explained)
    # Of sequences that share a length in the file, only the first is listed.
    _, first_of_each = np.unique(evidence.length_index[explained], return_index=True)
    listed = positions[first_of_each]
    length_count = len(np.unique(evidence.length_index))
    price = LIST_PRICE
    price += price_choice(length_count, len(listed))
    price += _price_lengths(evidence, listed)
    texts = [_name_length(evidence, tuple(position)) for position in listed[:_MOST_NAMED]]
    text = f"sequences are reversed by other lengths: {_join_texts(texts, len(listed))}"
    # The claim says nothing about other sequences: where they are right, they agree with it.
    return Claim(price, text, explained | ~evidence.wrong)


def _price_lengths(evidence: Evidence, listed: Array) -> float:
    """The bits of the lengths of listed sequences: fewer for one near the sequence's own."""
    size = evidence.sequences.size
    own = np.minimum(evidence.own_lengths, size)
    at = tuple(listed.T)
    distance = np.abs(evidence.seen_lengths - own)[at]
    of_near = 1 + 2 * np.log2(1 + distance)
    of_any = log2(1 + size)
    return float(np.minimum(of_near, of_any).sum())


def _name_length(evidence: Evidence, position: tuple[int, ...]) -> str:
    """The length by which a sequence looks reversed, and its own, in words."""
    at = [evidence.find_whole_indices(d)[i] for d, i in enumerate(position)]
    table = evidence.sequences.lengths.shape
    varying = [d for d, size in enumerate(table) if size > 1]
    if len(varying) == 1:
        [d] = varying
        name = evidence.sequences.name_indices(d, [at[d]])
    else:
        name = f"sequence {[i for d, i in enumerate(at) if d != evidence.axis]}"
    length = evidence.seen_lengths[position] or "0 or 1"
    return f"{length} instead of {evidence.own_lengths[position]} in {name}"


def claim_exchanges(evidence: Evidence) -> Iterator[Claim]:
    """The claims that batches, or indices of other dimensions, have each other's elements.

    These were exchanged in the output, or in the input before the reversal.
    """
    for d, size in enumerate(evidence.wrong_sequences.shape):
        if d == evidence.axis or not 1 < size < _MOST_EXCHANGED:
            continue
        yield from _claim_exchange(evidence, d, "", evidence.output, evidence.expected)
        if evidence.is_sample:
            continue
        # A reversal undoes itself: the output, reversed again, shows the input that it came from.
        origin = evidence.sequences.find_origins(evidence.at)
        flat_origin = ravel_positions(origin, evidence.values.shape)
        input_of_output = evidence.output.reshape(-1)[flat_origin]
        yield from _claim_exchange(evidence, d, " of the input", input_of_output, evidence.values)


def _list_slabs(array: Array, d: int) -> list[bytes]:
    """The bytes that an array has at each index of a dimension."""
    return [slab.tobytes() for slab in np.moveaxis(array, d, 0)]


def _claim_exchange(
    evidence: Evidence, d: int, where: str, actual: Array, expected: Array
) -> Iterator[Claim]:
    """The claim that wrong slabs belong elsewhere, if each is expected at one other index.

    A slab is all that an array has at one index of dimension d. `where` is "" or " of the input".
    """
    slabs = _list_slabs(actual, d)
    expected_slabs = _list_slabs(expected, d)
    homes: dict[int, int] = {}  # of each wrong slab, the index at which it is expected
    for i, slab in enumerate(slabs):
        if slab == expected_slabs[i]:
            continue
        if expected_slabs.count(slab) != 1:
            return
        homes[i] = expected_slabs.index(slab)
    if not homes:
        return
    count = len(slabs)
    price = LIST_PRICE
    price += price_choice(count, len(homes))
    price += len(homes) * log2(count)
    text = _describe_exchange(evidence, d, where, homes)
    yield Claim(price, text, np.ones_like(evidence.wrong))


def _describe_exchange(evidence: Evidence, d: int, where: str, homes: dict[int, int]) -> str:
    """Which indices have elements that belong at others."""
    name_indices = evidence.sequences.name_indices
    indices = evidence.find_whole_indices(d)
    if len(homes) == 2 and sorted(homes) == sorted(homes.values()):
        both = [indices[i] for i in homes]
        return f"{name_indices(d, both)}{where} are exchanged"
    texts: list[str] = []
    for i, home in [*homes.items()][:_MOST_NAMED]:
        here = name_indices(d, [indices[i]])
        there = name_indices(d, [indices[home]])
        texts.append(f"{here}{where} has what belongs in {there}")
    return _join_texts(texts, len(homes), "; ")


def _join_texts(texts: list[str], count: int, separator: str = ", ") -> str:
    """The texts, and how many more there are."""
    if count > len(texts):
        texts = [*texts, f"and {count - len(texts)} more"]
    return separator.join(texts)
