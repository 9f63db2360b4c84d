"""What a shell completes of a tensor's name and of a job: examples and tensors in a text, and dimensions that fit."""

from __future__ import annotations

import collections
import os
from typing import TYPE_CHECKING

from revseq_cli.formats import registry
from revseq_cli.formats.documents import TextTypes
from revseq_cli.formats.references import Reference
from revseq_cli.ground.tensors import DataType
from revseq_cli.operator.spec import INPUT, LENGTHS
from revseq_cli.passes import jobs
from revseq_cli.passes.alignment import Shape
from revseq_cli.passes.remedies import fits
from revseq_cli.texts import notation
from revseq_cli.texts.examples import numbered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from revseq_cli.formats.contract import Source

_LARGEST = 1 << 22  # bytes of a text that is parsed while somebody waits for a completion


def is_quick(reference: Reference) -> bool:
    """Whether it can be looked into at once: it is no pipe, which could be read no more, and no large text."""
    if reference.inline is not None:
        return True
    return not reference.is_piped and (not reference.row.is_text or os.path.getsize(reference.path) <= _LARGEST)  # noqa: PTH202


def numbers_in(reference: Reference) -> Sequence[int]:
    """The numbers of the examples in a text; none for anything else."""
    if registry.model_of(reference) or not registry.holds_text(reference):
        return ()
    text = reference.text
    return range(1, len(numbered(text.text, text.items)) + 1)


def labels_in(reference: Reference) -> list[str]:
    """The tensors of the example that a reference such as page.md::2 names; none for another one."""
    example = jobs.example_of(reference)
    return [item.name for item in example.example.tensors.values()] if example else []


def names_in(reference: Reference) -> list[str]:
    """The names of the tensors of a model, or those that a text has once."""
    if model := registry.model_of(reference):
        return list(model.model.tensors)
    if not registry.holds_text(reference):
        return []
    counts = collections.Counter(item.name for item in reference.text.items if isinstance(item, notation.TensorText))
    return [name for name, count in counts.items() if name and count == 1]


def dimensions(values: str, lengths: str = "", *, batch: bool = False) -> dict[int | str, int]:
    """The dimensions of the tensor `values`, by number and by name, and their sizes.

    They are those along which its lengths fit, if any do; with `batch` they are the batch axes that fit. The lengths
    are those of the whole job, if they have no name.
    """
    reference = Reference.input(values)
    if not is_quick(reference):
        return {}
    whole = registry.model_of(reference) or jobs.example_of(reference)
    types = TextTypes(None, DataType.FLOAT32)
    source = whole.tensor(INPUT, types) if whole else registry.open_source(reference, types)
    of_lengths = whole.tensor(LENGTHS, types) if whole else _opened(lengths)
    found = fits(Shape.of(source), Shape.of(of_lengths)) if of_lengths else []
    fitting = {fit.batch_axis if batch else fit.axis for fit in found}
    names = source.dimensions or ("",) * len(source.sizes)
    told: dict[int | str, int] = {}
    for number, (size, name) in enumerate(zip(source.sizes, names, strict=True)):
        if not found or number in fitting:
            told |= {number: size, name: size} if name else {number: size}
    return told


def _opened(lengths: str) -> Source | None:
    reference = Reference.input(lengths) if lengths else None
    if not reference or not is_quick(reference):
        return None
    return registry.open_source(reference, TextTypes(None, DataType.UINT32))
