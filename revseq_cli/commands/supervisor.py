"""Jobs in a process of their own: if one of them ends that process, the others still run.

A library may crash over a crafted file, and a system that is short of memory kills a process that uses much of it. So
the process that runs the jobs sends an event when one begins or ends, and this one starts another process if it dies.
If several jobs were under way, each of them runs again alone: if the process dies again, it was that job.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.ground import processes, stopping
from revseq_cli.ground.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from revseq_cli.report.results import Outcome

# Seconds between two reads of events: to wake up for each event took a tenth of the time of small jobs.
_PAUSE = 0.005
_LONGEST_STOP = 10.0  # seconds that the process has to undo its work after a signal


class Event(NamedTuple):
    """What a job, by its index in the batch, has done: `kind` is "begun", "complete" or "ended".

    A complete job has an outcome, and `temporary` gets its name next. One that ended without an outcome did not run.
    """

    kind: str
    job: int
    outcome: Outcome | None = None
    temporary: str = ""


class Order(NamedTuple):
    """The jobs for a process, by index; one after another if `alone`. Its temporary files have `tag` in their names."""

    jobs: Sequence[int]
    alone: bool
    tag: str


class Supervisor:
    """Runs jobs in another process, and in a new one after that dies; `outputs` has the real path of each output.

    The process calls `serve(setup, order, send)`, where `send` takes the events. `serve` and `setup` must pickle.
    """

    def __init__(self, serve: Callable[..., None], setup: object, outputs: Sequence[str], *, fail_fast: bool) -> None:
        self._serve, self._setup, self._outputs, self._fail_fast = serve, setup, outputs, fail_fast
        self._rounds: list[tuple[Sequence[int], bool]] = [(range(len(outputs)), False)]  # jobs, and whether alone
        self._ended: dict[int, Outcome | None] = {}
        self._under_way: dict[int, Event] = {}  # the last event of each job that has begun and not ended
        self._failed = False
        self._tag = ""

    def outcomes(self, failed: Callable[[int, EngineError], Outcome]) -> Generator[Outcome, None, None]:
        """The outcome of each job that began, by index; `failed` makes that of a job whose process died."""
        following = 0
        while self._rounds and not (self._fail_fast and self._failed):
            jobs, alone = self._rounds.pop(0)
            for _ in self._round(jobs, alone, failed):
                while following in self._ended:
                    if outcome := self._ended[following]:
                        yield outcome
                    following += 1
        yield from (outcome for job, outcome in sorted(self._ended.items()) if job >= following and outcome)

    def _round(self, jobs: Sequence[int], alone: bool, failed: Callable[[int, EngineError], Outcome]) -> Iterator[None]:
        """Run the jobs in one process; yield whenever some may have ended."""
        self._tag = secrets.token_hex(4)
        order = Order(jobs, alone, self._tag)
        try:
            process = processes.Process(_begin)
        except EngineError:  # no process can be started
            self._serve(self._setup, order, self._note)
            yield
            return
        process.send((self._serve, self._setup, order))
        stopping.at_once[self] = lambda: self._clean(process)
        try:
            while True:
                for _, event in processes.exchange([process], stopping.PATIENCE):
                    if isinstance(event, EOFError):
                        self._died(process, [job for job in jobs if job not in self._ended], alone, failed)
                        yield
                        return
                    if isinstance(event, BaseException):
                        raise event
                    if event is None:  # the end of the order
                        return
                    self._note(event)
                yield
                stopping.check()
                time.sleep(_PAUSE)
        except stopping.Stopped:
            self._stop(process)
            raise
        finally:
            stopping.at_once.pop(self, None)
            process.end()
            self._clean(process)

    def _note(self, event: Event) -> None:
        if event.kind != "ended":
            self._under_way[event.job] = event
            return
        self._under_way.pop(event.job, None)
        self._ended[event.job] = event.outcome
        self._failed |= bool(event.outcome and event.outcome.error)

    def _died(
        self,
        process: processes.Process,
        left: Sequence[int],
        alone: bool,
        failed: Callable[[int, EngineError], Outcome],
    ) -> None:
        """Fail the only job under way, or plan to run each of several alone; EngineError if there was none."""
        stopping.check()  # a signal to the whole process group may have ended it
        process.end()
        for event in [*self._under_way.values()]:
            if event.kind == "complete" and _is_named(event.temporary, self._outputs[event.job]):
                self._note(event._replace(kind="ended"))
        suspects = [*self._under_way]
        self._clean(process)
        if len(suspects) == 1:
            error = EngineError(
                f"its process died: {process.ended_by}", "files that their library can read, and memory for them"
            )
            self._note(Event("ended", suspects[0], failed(suspects[0], error)))
        elif not suspects:
            hint = "the same command again; with --overwrite all can run again"
            raise EngineError(f"the process of the jobs died: {process.ended_by}", hint=hint)
        rest = [job for job in left if job not in suspects and job not in self._ended]
        again = [job for job in suspects if job not in self._ended]
        self._rounds = [each for each in ((again, True), (rest, alone)) if each[0]] + self._rounds

    def _stop(self, process: processes.Process) -> None:
        """Wait until the process has undone its work after SIGTERM, for at most 10 seconds; `_round` kills it then."""
        process.terminate()
        deadline = time.monotonic() + _LONGEST_STOP
        while time.monotonic() < deadline:
            for _, event in processes.exchange([process], stopping.PATIENCE):
                if event is None or isinstance(event, BaseException):
                    return

    def _clean(self, process: processes.Process) -> None:
        """Kill the process, and remove temporary files that it left beside the outputs of the jobs under way."""
        process.kill()
        for folder in {os.path.dirname(self._outputs[job]) for job in self._under_way}:  # noqa: PTH120 - a string
            for path in Path(folder).glob(f".revseq-{self._tag}*.tmp"):
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    with contextlib.suppress(OSError):  # README says that a kill may leave files
                        path.unlink()
        self._under_way.clear()


def _is_named(temporary: str, output: str) -> bool:
    """Whether the temporary file has got its name; with hard links it has both names for a moment."""
    try:
        return Path(output).samefile(temporary)
    except OSError:
        return os.path.lexists(output) and not os.path.lexists(temporary)


def _begin(line: processes.Line) -> None:
    """The main function of the process that runs the jobs; it stops in order on SIGTERM, or when its parent is gone."""
    stopping.obey_parent(line.is_closed)
    serve, needed, order = line.receive()
    status = 1
    try:
        with stopping.deferred():
            try:
                serve(needed, order, line.send)
                line.send(None)
                status = 0
            finally:
                stopping.close()
    except (stopping.Stopped, OSError):
        pass
    except Exception as e:  # noqa: BLE001 - the parent raises it
        line.send(e)
    os._exit(status)  # waits for no thread of a library, and calls no exit function
