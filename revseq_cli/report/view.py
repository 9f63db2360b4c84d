"""Jobs as text: their tensors, and the plan of `run --dry-run`."""

from __future__ import annotations

from math import inf, prod

import numpy as np

from revseq_cli.core.errors import printable
from revseq_cli.core.tensors import TensorDesc
from revseq_cli.formats.contract import Source
from revseq_cli.operator import kernel
from revseq_cli.pipeline.jobs import Job
from revseq_cli.pipeline.plan import Plan
from revseq_cli.pipeline.resources import DASK
from revseq_cli.report import preview, terminal

MOST_ON_TERMINAL = 1000  # elements; of larger tensors, a part is shown
_MORE = "; --full prints all"


def example_text(
    values: Source, lengths: Source, axis: int, result: Source, most: float = inf
) -> str:
    """A whole docs-style example, which reads back as the same job, unless it is shortened."""
    parts = [
        tensor_text("InputTensor", values, most),
        tensor_text("SequenceTensor", lengths, most),
        f"Axis: {axis}",
    ]
    return "\n\n".join([*parts, tensor_text("OutputTensor", result, most)])


def tensor_text(name: str, source: Source, most: float) -> str:
    """A tensor with its header, and at most `most` of its elements."""
    part = preview.choose_part(source.sizes, most)
    return f"{name}: {source.desc}\n{preview.part_text(source, part, _MORE)}"


def result_text(job: Job, result: Source, most: float, *, in_color: bool) -> str:
    """The OutputTensor of a job; in colour, what was reversed is bold, and the rest dim."""
    if not in_color or not prod(result.sizes):
        return tensor_text("OutputTensor", result, most)
    part = preview.choose_part(result.sizes, most)
    part_of_lengths = list(part)
    part_of_lengths[job.axis] = range(1)
    lengths = preview.read_part(job.lengths, part_of_lengths)
    lengths = kernel.clamp(lengths, result.sizes[job.axis])
    # NumPy compares an index along the axis with the length of each sequence.
    shape = [1] * len(part)
    shape[job.axis] = -1
    index_along_axis = np.array(part[job.axis]).reshape(shape)
    is_reversed = (index_along_axis < lengths) & (lengths > 1)
    return f"OutputTensor: {result.desc}\n{preview.part_text(result, part, _MORE, is_reversed)}"


def plan_text(job: Job, plan: Plan) -> str:
    """The text of `run --dry-run`."""
    values = job.values.desc
    lengths = job.lengths.desc
    detour = plan.detour
    cut = ", sequences are cut" if plan.blocks.cuts_sequences else ""
    block = plan.blocks.elements * job.values.dtype.itemsize
    lines = [
        f"InputTensor            {values}, {values.total_bytes:,} bytes",
        f"SequenceLengthsTensor  {lengths}, {lengths.total_bytes:,} bytes",
        f"Axis                   {axis_text(values, job.axis)}",
        f"blocks                 {plan.blocks.count:,} of {block:,} bytes{cut}",
    ]
    for source in (job.values, job.lengths):
        downloads = source.downloads
        if downloads.requests:
            count = terminal.say_count(downloads.requests, "request")
            lines.append(f"download               {count}, {downloads.bytes:,} bytes")
    if detour.copies:
        lines.append(f"unchunked copies       {detour.copies} of {values.total_bytes:,} bytes")
    if detour.tiling:
        run = detour.tiling.run_length * values.data_type.size
        enough = f"--memory {detour.memory_for_long_runs}"
        lines += [
            f"temporary file         {values.total_bytes:,} bytes; none with {enough}",
            f"passes                 2, in runs of {run:,} bytes",
        ]
    engine = f"{plan.engine}, workers: {plan.workers}, {plan.bytes:,} bytes of memory"
    if plan.engine == DASK:
        where = printable(plan.scheduler) or "dask's own configuration"
        engine = f"dask, all workers of {where}, {plan.bytes:,} bytes of memory for each thread"
    return "\n".join([*lines, f"engine                 {engine}"])


def axis_text(values: TensorDesc, axis: int) -> str:
    """The axis, with the number and the size of its sequences if it is in range."""
    if not 0 <= axis < values.dimension_count:
        return str(axis)
    count = prod((*values.sizes[:axis], *values.sizes[axis + 1 :]))
    sequences = terminal.say_count(count, "sequence")
    return f"{axis} ({sequences} of {terminal.say_count(values.sizes[axis], 'element')})"
