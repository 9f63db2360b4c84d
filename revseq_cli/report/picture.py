"""Pictures of tensors as SVG: what a job reverses, or where two tensors differ.

Sequences of a few elements are drawn as cells with their values (`cells`), longer ones as bars
(`bars`). Of many sequences some are drawn, the wrong ones first, and the rest is counted.
"""

from __future__ import annotations

from revseq_cli.core.errors import shorten
from revseq_cli.core.tensors import in_braces
from revseq_cli.formats.contract import Source
from revseq_cli.operator.spec import INPUT, OUTPUT
from revseq_cli.pipeline.folds import Differences
from revseq_cli.report import bars, cells, svg
from revseq_cli.report.subject import Mask, Subject


def draw_job(
    values: Source,
    lengths: Source,
    axis: int,
    result: Source,
    *,
    batch_axis: int | None = None,
    name: str = "",
) -> str:
    """Input and output of a job, with the length of each sequence."""
    title = f"Sequences reversed along axis {axis}"
    about = shorten(f"{in_braces(values.sizes)} {values.desc.data_type.name}", 60)
    sentence = f"{name}: {about}" if name else about
    tensors = ((INPUT, values), (OUTPUT, result))
    subject = Subject(tensors, axis, lengths=lengths, batch_axis=batch_axis)
    return _make_picture(subject, title, [sentence])


def draw_difference(
    tensors: tuple[tuple[str, Source], tuple[str, Source]],
    differences: Differences,
    mask: Mask,
    *,
    axis: int | None = None,
    lengths: Source | None = None,
    batch_axis: int | None = None,
    causes: tuple[str, ...] = (),
) -> str:
    """Two tensors of one shape, with what differs marked; `causes` say what explains it."""
    (a_name, a), (b_name, b) = tensors
    title = f"{differences.count:,} of {differences.total:,} elements differ"
    if axis is not None and differences.sequences is not None:
        title += f", in {differences.sequence_count:,} of {differences.sequences.size:,} sequences"
    about = shorten(f"{in_braces(a.sizes)} {a.desc.data_type.name}", 60)
    sentences = [f"Explained by: {cause}" for cause in causes]
    sentences.append(f"{a_name}: {a.name}, {about}")
    compared = f"{b_name}: {b.name}"
    if axis is not None:
        compared += f", reversed along axis {axis}"
    sentences.append(compared)
    if axis is None:
        axis = max(0, len(a.sizes) - 1)
    subject = Subject(
        tensors,
        axis,
        lengths=lengths,
        batch_axis=batch_axis,
        mask=mask,
        differences=differences,
    )
    return _make_picture(subject, title, sentences)


def _make_picture(subject: Subject, title: str, sentences: list[str]) -> str:
    """The picture of a subject, as SVG, with a title and sentences above it."""
    headlines = svg.draw_headlines(title, sentences)
    if subject.has_cells:
        tensors = cells.draw_cells(subject)
        description = cells.describe_cells(subject)
    else:
        tensors = bars.draw_bars(subject)
        description = bars.describe_bars(subject)
    picture = svg.Drawing(
        [*headlines.elements, svg.group(tensors.elements, 0, headlines.height)],
        max(headlines.width, tensors.width),
        headlines.height + tensors.height,
    )
    return svg.document(title, [*sentences, *description], picture)
