"""The results of the jobs of a batch, and how many there are of each kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from revseq_cli.core.errors import RevseqError
from revseq_cli.report import terminal


@dataclass(frozen=True)
class Outcome:
    """The result of a job, which is in that `line` of the manifest.

    `error` is None if its output is written. With `skipped`, the output is up to date; with
    `planned`, it is not written, since this is a dry run.
    """

    line: int
    output: str
    error: RevseqError | None
    bytes: int = 0
    notes: Sequence[str] = ()
    clamped: int = 0
    skipped: bool = False
    planned: bool = False


def summarize(outcomes: Sequence[Outcome], jobs: int, seconds: float | None) -> str:
    """How many of all jobs are done, skipped, failed or not begun, with their bytes.

    `seconds` is how long they took; it is None for a dry run.
    """
    failed = sum(outcome.error is not None for outcome in outcomes)
    skipped = sum(outcome.skipped for outcome in outcomes)
    done = len(outcomes) - failed - skipped
    not_begun = jobs - len(outcomes)
    if seconds is None:
        time = ""
        counts = {"to do": done, "skipped": skipped, "wrong": failed, "not begun": not_begun}
    else:
        time = f" in {seconds:.2f} s"
        counts = {"done": done, "skipped": skipped, "failed": failed, "not begun": not_begun}
    words = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
    size = sum(outcome.bytes for outcome in outcomes)
    return f"{terminal.say_count(jobs, 'job')}: {words or 'nothing'}; {size:,} bytes{time}"
