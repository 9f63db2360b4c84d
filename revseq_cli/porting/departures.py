"""Where DirectML itself departs from its page in a job: its lengths, its data types, its rank."""

from __future__ import annotations

from collections.abc import Iterator

from revseq_cli.core.tensors import DataType
from revseq_cli.operator import directml, spec
from revseq_cli.operator.directml import Departure
from revseq_cli.operator.spec import FeatureLevel
from revseq_cli.pipeline.folds import LengthCounts
from revseq_cli.pipeline.jobs import Job

_DEVICE = Departure(directml.ALL, "FLOAT64 needs a device that has it: ask CheckFeatureSupport")
# 1.0.200610 of tensorflow-directml is the only one of this level.
_PRERELEASE = Departure("1.0, a prerelease that has level 2_1", "5 dimensions are accepted")


def list_departures(job: Job, counts: LengthCounts, level: FeatureLevel) -> Iterator[Departure]:
    """What DirectML itself does with the job that is not as the page says.

    `counts` are of the lengths as they were given.
    """
    values = job.values.desc
    if counts.total:
        # With a batch axis, each length is given once for several sequences.
        repeats = job.lengths.desc.element_count // counts.total
        size = values.sizes[job.axis]
        yield from directml.find_departures(size, counts.above * repeats, counts.wide * repeats)
    lowest = spec.lowest_level(*job.descs)
    is_accepted = lowest not in (None, FeatureLevel.NONE)
    if is_accepted and values.data_type is DataType.FLOAT64:
        yield _DEVICE
    if level is FeatureLevel.V2_1 and values.dimension_count == 5:
        yield _PRERELEASE
