"""The pass that holds a tensor against what a job's output should be, which is computed block by block."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from revseq_cli.passes import mistakes
from revseq_cli.passes.arrangement import arrange_oracle
from revseq_cli.passes.comparison import Lines, Pair, compared
from revseq_cli.passes.copying import spooled
from revseq_cli.passes.differences import differences
from revseq_cli.passes.reversal import Reversed, at_hand
from revseq_cli.passes.tasks import Task, completed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from revseq_cli.formats.contract import Source, Ticket
    from revseq_cli.formats.regions import Region
    from revseq_cli.passes.arrangement import Resources
    from revseq_cli.passes.assembly import Job
    from revseq_cli.passes.differences import Differences, Tolerance


@dataclass(frozen=True)
class Oracle(Pair):
    """A tensor `a` and what is right: the output of a job, whose tensors are cheap to read.

    `seen` makes of each computed output what it looks like in `a`.
    """

    job: Job
    seen: Callable[[Source], Source]
    label = "right"

    def compare(self, tolerance: Tolerance | None, first: int) -> Differences:
        """How `a` differs from what is right, and where in the lines."""
        job = self.job
        lines = Lines(job.axis, job.values.sizes[job.axis], job.lengths)
        return compared("compare", self.a, self.right, tolerance, first, self.arrangement, lines)

    def mistakes(self, found: Differences, tolerance: Tolerance | None) -> tuple[str, ...]:
        """The mistakes that explain every element of `a`, given how it differs: `found` has its first difference."""
        whole = not self.arrangement.plan.cuts_lines
        possible = dict(enumerate(mistakes.suspects(self.job, whole_lines=whole)))

        def task(region: Region) -> Task:
            outputs = {key: self.seen(suspect.output).ticket(region) for key, suspect in possible.items()}
            return Task(_Contradicted(tolerance, outputs), (self.a.ticket(region),), region, None)

        def tasks() -> Iterator[Task]:
            for region in self.arrangement.plan:
                if not possible:
                    return
                yield task(region)

        def exclude(keys: Iterable[int]) -> None:
            for key in keys:
                possible.pop(key, None)

        exclude(task(self._line(found.indices[0].tolist(), whole=whole))()[1])  # most mistakes are excluded here
        for _, keys in completed("find the mistake", tasks(), self.arrangement, self.a):
            exclude(keys)
        return tuple(dict.fromkeys(suspect.name for suspect in possible.values()))

    def _line(self, place: list[int], *, whole: bool) -> Region:
        """The line through an element, or the element alone."""
        axis = self.job.axis
        return tuple(slice(0, self.a.sizes[d]) if whole and d == axis else slice(i, i + 1) for d, i in enumerate(place))


@dataclass(frozen=True)
class _Contradicted:
    """The step that tells which outputs, by their keys, differ from a block."""

    tolerance: Tolerance | None
    outputs: dict[int, Ticket]

    def __call__(self, a: Ticket) -> list[int]:
        """The keys of those that differ; they are computed one after the other."""
        values = a.read()
        return [key for key, each in self.outputs.items() if not self._explains(values, each)]

    def _explains(self, values: NDArray[Any], output: Ticket) -> bool:
        try:
            return not differences(values, output.read(), self.tolerance, 0).count
        except mistakes.NoOutputError:
            return False


@contextlib.contextmanager
def opened(
    a: Source, job: Job, resources: Resources, seen: Callable[[Source], Source] = lambda source: source
) -> Iterator[Oracle]:
    """The oracle for a tensor of the output's sizes; EngineError if the smallest block needs more memory than there is.

    Tensors that are slow to read anywhere are unpacked into the temporary folder.
    """
    arrangement = arrange_oracle(job, a, resources)
    with (
        at_hand(job, "", arrangement) as ready,
        a.at_hand() as whole,
        spooled(whole, "", arrangement) as ready_a,
    ):
        yield Oracle(ready_a, seen(Reversed(ready)), arrangement, ready, seen)
