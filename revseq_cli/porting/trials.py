"""Ideas in trial: whether one explains a wrong output, and with which number."""

from __future__ import annotations

from math import log2

import numpy as np

from revseq_cli.porting.claims import Claim
from revseq_cli.porting.evidence import Evidence
from revseq_cli.porting.ideas import Idea
from revseq_cli.porting.positions import Array, replace_at

LEAST_PART = 0.5  # of the probes, which an idea has to explain
_MOST_NUMBERS = 6  # numbers of a sentence that are tried on all elements
_MOST_COMPARED = 4096  # elements of a sequence that are compared with a probe
_MOST_COMMON = 6  # of computed numbers
_LARGEST = 1 << 62
# Numbers in sentences, the likely first.
_USUAL = [2, -2, 256, 3, -3, 4, -4, 65536, 127, 255]
_USUAL += [1 << n for n in range(3, 16)]
_USUAL += [5, 6, 7, 9, 10, 11, 12]
_USUAL += [24, 48, 96, 100, 160]


def try_idea(evidence: Evidence, idea: Idea, numbers: Array) -> Claim | None:
    """The claim of an idea, with the number for which it explains most; None for too little.

    `numbers` are those that a sentence may have, the likely first.
    """
    candidates = np.zeros(1, np.int64)
    if idea.least is not None:
        candidates = numbers[numbers >= idea.least]
    for step in (8, 1):  # every 8th probe rules out most numbers
        candidates, shares = _choose_numbers(evidence, idea, candidates, step)
        if not len(candidates):
            return None
    best, *others = candidates[shares == shares.max()][:_MOST_NUMBERS].tolist()
    agree = _find_agreement(evidence, idea, best)
    as_good = [best]
    for number in others:
        if (_find_agreement(evidence, idea, number) == agree).all():
            as_good.append(number)
    price = idea.price
    if idea.least is not None:
        price += log2(2 + numbers.tolist().index(best))
    return Claim(price, idea.format(as_good), agree)


def _find_agreement(evidence: Evidence, idea: Idea, number: int) -> Array:
    """Where the output is as an idea with this number says."""
    values = evidence.read_input(idea.origin(evidence.at, number))
    return evidence.find_equal(evidence.output, values)


def _choose_numbers(
    evidence: Evidence, idea: Idea, numbers: Array, step: int
) -> tuple[Array, Array]:
    """The numbers with which an idea explains enough of every so many probes, and their shares."""
    at = [index[::step] for index in evidence.probes.at]
    values = evidence.read_input(idea.origin(at, numbers[None]))
    shares = evidence.find_equal(evidence.probes.output[::step, None], values).mean(0)
    shares = np.broadcast_to(shares, numbers.shape)
    is_enough = shares >= LEAST_PART
    return numbers[is_enough], shares[is_enough]


def list_numbers(evidence: Evidence) -> Array:
    """The numbers that a sentence may have, the likely first.

    These are usual ones, sizes, and the most common ones that the lengths and the probes suggest.
    """
    size = evidence.sequences.size
    likely = [1, -1, size, *_USUAL, size - 1, size + 1]
    for count in evidence.sequences.shape:
        likely += [count, count // 2]
    for suggested in _suggest_by_lengths(evidence) + _suggest_by_moves(evidence):
        values, counts = np.unique(suggested, return_counts=True)
        common = values[np.argsort(-counts, kind="stable")]
        likely += [*common[:_MOST_COMMON], *values[:1], *values[-1:]]
    numbers = dict.fromkeys(map(int, likely))  # without duplicates
    return np.array([number for number in numbers if 0 < abs(number) < _LARGEST])


def _suggest_by_lengths(evidence: Evidence) -> list[Array]:
    """What was done to lengths, by those that wrong sequences have and those that one sees."""
    own = evidence.own_lengths[evidence.wrong_sequences]
    seen = evidence.seen_lengths[evidence.wrong_sequences]
    clamped = np.minimum(own, evidence.sequences.size)
    return [seen, seen - own, seen - clamped, own, own - 1, own + 1]


def _suggest_by_moves(evidence: Evidence) -> list[Array]:
    """How far elements moved, by the probes whose value their sequence has only once."""
    axis = evidence.axis
    probes = evidence.probes
    along = np.arange(evidence.sequences.size)
    along = along[:: 1 + len(along) // _MOST_COMPARED]
    values = evidence.read_input(replace_at(probes.at, axis, along[None]))
    is_equal = evidence.find_equal(probes.output[:, None], values)
    is_once = is_equal.sum(1) == 1
    origin = along[is_equal.argmax(1)][is_once]
    index = probes.at[axis][is_once, 0]
    expected = evidence.sequences.find_origins(probes.at)[axis][is_once, 0]
    too_far = origin - expected
    moved = origin - index
    return [too_far, -too_far, moved, -moved, origin, origin + 1]
