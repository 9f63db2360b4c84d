"""Jobs in a process of their own, which a job may end: the others are done all the same.

A library may crash over a file that was made for that, and a system without memory kills who wants most of it. So the
process that carries jobs out says which it begins and which it ends, and this one starts another when it dies. Where
several jobs were under way then, each of them is tried again alone: the next time it is clear which one it was.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from revseq_cli.ground import processes, stopping
from revseq_cli.ground.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from revseq_cli.report.results import Outcome

# Seconds between two looks at what jobs say: to be woken for each word took a tenth of the time of small jobs.
_PAUSE = 0.005
_LONGEST_STOP = 10.0  # seconds that the process has to undo what is under way, once a signal came


class Event(NamedTuple):
    """What has become of a job: it begins; it is complete, but for its name; or it has ended, in an outcome or in none.

    `job` is its place in the batch; `temporary` is the file that is to get the name.
    """

    kind: str
    job: int
    outcome: Outcome | None = None
    temporary: str = ""


class Order(NamedTuple):
    """What a process is to do: jobs, by their places, one after another if `alone`; `tag` marks its temporary files."""

    jobs: Sequence[int]
    alone: bool
    tag: str


class Survivor:
    """Has jobs carried out, whatever dies over them; `outputs` are their real paths, in the order of the jobs.

    `serve` runs in the process, with what it needs besides: it pickles.
    """

    def __init__(self, serve: Callable[..., None], needed: object, outputs: Sequence[str], *, fail_fast: bool) -> None:
        self._serve, self._needed, self._outputs, self._fail_fast = serve, needed, outputs, fail_fast
        self._rounds: list[tuple[Sequence[int], bool]] = [(range(len(outputs)), False)]
        self._known: dict[int, Outcome | None] = {}
        self._under_way: dict[int, Event] = {}
        self._failed = False
        self._tag = ""

    def outcomes(self, failed: Callable[[int, EngineError], Outcome]) -> Generator[Outcome, None, None]:
        """What became of each job that was begun, in their order; `failed` makes an outcome of a job and its error."""
        told = 0
        while self._rounds and not (self._fail_fast and self._failed):
            jobs, alone = self._rounds.pop(0)
            for _ in self._round(jobs, alone, failed):
                while told in self._known:
                    if outcome := self._known[told]:
                        yield outcome
                    told += 1
        yield from (outcome for job, outcome in sorted(self._known.items()) if job >= told and outcome)

    def _round(self, jobs: Sequence[int], alone: bool, failed: Callable[[int, EngineError], Outcome]) -> Iterator[None]:
        """One process; it yields whenever something may have become known."""
        self._tag = secrets.token_hex(4)
        order = Order(jobs, alone, self._tag)
        try:
            process = processes.Process(_begin, method=_method())
        except EngineError:  # what can be done is done, if only here
            self._serve(self._needed, order, self._note)
            yield
            return
        process.send((self._serve, self._needed, order))
        stopping.at_once[self] = lambda: self._clean(process)
        try:
            while True:
                for _, event in processes.exchange([process], stopping.PATIENCE):
                    if isinstance(event, EOFError):
                        self._died(process, [job for job in jobs if job not in self._known], alone, failed)
                        yield
                        return
                    if isinstance(event, BaseException):
                        raise event
                    if event is None:  # all is done
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
        self._known[event.job] = event.outcome
        self._failed |= bool(event.outcome and event.outcome.error)

    def _died(
        self,
        process: processes.Process,
        left: Sequence[int],
        alone: bool,
        failed: Callable[[int, EngineError], Outcome],
    ) -> None:
        """Tell whose work it was, or find it out; the rest is for other processes."""
        stopping.check()  # a signal to the whole group ends it, and is for us to act on
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
            raise EngineError(f"the process of the jobs died: {process.ended_by}", "one that lives", hint)
        rest = [job for job in left if job not in suspects and job not in self._known]
        again = [job for job in suspects if job not in self._known]
        self._rounds = [each for each in ((again, True), (rest, alone)) if each[0]] + self._rounds

    def _stop(self, process: processes.Process) -> None:
        """Let it undo what is under way; one that is stopped, or takes too long, is killed after that."""
        process.terminate()
        deadline = time.monotonic() + _LONGEST_STOP
        while time.monotonic() < deadline:
            for _, event in processes.exchange([process], stopping.PATIENCE):
                if event is None or isinstance(event, BaseException):
                    return

    def _clean(self, process: processes.Process) -> None:
        """Remove what a process that was killed has left; the jobs that it had begun say where."""
        process.kill()
        for folder in {os.path.dirname(self._outputs[job]) for job in self._under_way}:  # noqa: PTH120 - a string
            for path in Path(folder).glob(f".revseq-{self._tag}*.tmp"):
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    with contextlib.suppress(OSError):  # as a kill may leave it, which README says
                        path.unlink()
        self._under_way.clear()


def _is_named(temporary: str, output: str) -> bool:
    """Whether the file has got its name; in a file system with links it has both for a moment."""
    try:
        return Path(output).samefile(temporary)
    except OSError:
        return os.path.lexists(output) and not os.path.lexists(temporary)


def _method() -> str:
    """Fork, which costs nothing, as long as nothing is loaded and nobody runs that it would break."""
    tasks = Path("/proc/self/task")
    simple = sys.platform == "linux" and "h5py" not in sys.modules and len(list(tasks.iterdir())) == 1
    return "fork" if simple else "spawn"


def _begin(line: processes.Line) -> None:
    """In the process of the jobs: it stops in order on SIGTERM, and when its parent is gone."""
    stopping.obey_parent()
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
    except Exception as e:  # noqa: BLE001 - it is raised where the events are asked for
        line.send(e)
    os._exit(status)  # libraries' threads and farewells are nobody's to wait for
