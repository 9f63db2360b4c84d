"""Where the command begins and ends: the one boundary that turns errors and signals into messages and exit statuses."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found, unused-ignore] # `signal` itself takes a while to import

# Python would answer Ctrl-C with a traceback from whatever is imported below. Nothing is at stake yet: it ends the
# process at once, until `stopping.watch` has better to do.
if _signal.getsignal(_signal.SIGINT) is not _signal.SIG_IGN:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import io
import os
import stat
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from revseq_cli.ground import stopping

if TYPE_CHECKING:
    from revseq_cli.ground.errors import RevseqError

_FAILED = 2  # anything that stopped the work
_STDERR = 2


def main() -> NoReturn:
    """Run the command and leave the process with its exit status."""
    stopping.watch()
    status = None
    try:
        _open_standard_streams()
        # There is no linear algebra here: its threads would only cost start-up and memory, in workers too.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        os.environ["PYTHONSAFEPATH"] = "1"  # workers import nothing from the current folder
        os.environ.pop("PYTHONINSPECT", None)
        try:
            status = _flushed(_run())
        finally:
            closed = _closed()
        status = max(status, closed)
    except stopping.Stopped:
        status = None
    if status is None:
        stopping.die()
    # Nothing is left to flush or to close, and libraries' own leave-taking could only spoil the status.
    os._exit(status)


def _open_standard_streams() -> None:
    """Fill what is closed of descriptors 0 to 2, so that no data file takes their place, here or in a worker process.

    A closed input or output is opened the wrong way round, so that to use it is an error and not silence.
    """
    for fd, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, mode), True)  # the lowest free number, which is fd
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - they stay open
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    sys.stdout, sys.stderr = _patient(sys.stdout), _patient(sys.stderr)


class _Patient(io.FileIO):
    """A stream whose reader may leave: what is written then goes nowhere, and the work and its status stay the same."""

    def __init__(self, number: int) -> None:
        super().__init__(number, "w", closefd=False)
        # There is nowhere else to say what is wrong with standard error.
        self._borne = OSError if number == _STDERR else BrokenPipeError
        self._awaits_reader = os.name == "posix" and _has_reader(number)

    def _fitting(self, data: Any) -> memoryview:  # noqa: ANN401 - any buffer
        """As much of it as the system takes at once; its reader may be slow, or stopped, and a signal comes first."""
        import select  # a part of what few need

        ready = select.poll()
        ready.register(self, select.POLLOUT)
        while not ready.poll(1000 * stopping.PATIENCE):
            stopping.check()
        return memoryview(data).cast("B")[: select.PIPE_BUF]

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        """How many bytes are done with."""
        try:
            if self._awaits_reader and stopping.is_deferred():
                data = self._fitting(data)
            return super().write(data)
        except self._borne:
            return memoryview(data).nbytes


def _has_reader(number: int) -> bool:
    """Whether somebody reads what is written, and may be slow; what cannot be told is told by the write itself."""
    try:
        kind = os.fstat(number).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(kind) or stat.S_ISBLK(kind))


def _patient(stream: Any) -> io.TextIOWrapper:  # noqa: ANN401 - what Python has opened
    """The same as such a stream; an encoding that lacks a character is no reason to stop either."""
    if os.name == "nt" and stream.isatty():  # the console of Windows has a writer of its own
        return stream  # type: ignore[no-any-return]
    raw = io.BufferedWriter(_Patient(stream.fileno()))
    return io.TextIOWrapper(
        raw, stream.encoding, "backslashreplace", line_buffering=stream is sys.stderr or stream.isatty()
    )


def _run() -> int:
    import click  # a signal during the imports must find its handler in place

    from revseq_cli.commands.cli import cli

    verbose = 0
    try:
        if instruction := os.environ.get("_REVSEQ_COMPLETE"):
            from revseq_cli.commands.completion import answer

            return answer(cli, instruction)
        with cli.make_context("revseq", sys.argv[1:]) as context:
            try:
                return cli.invoke(context) or 0
            finally:
                verbose = context.meta.get("revseq.verbose", 0)
    except click.exceptions.Exit as e:
        return e.exit_code
    except Exception as e:  # noqa: BLE001 - this is the boundary; -vv shows where it comes from
        stopping.check()  # what failed after a signal came may have failed because of it
        return _fail(e, verbose)


def _worded(error: Exception) -> RevseqError:
    """An error of any kind in our form."""
    import click

    from revseq_cli.ground.errors import RevseqError, worded

    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else "revseq"
        return RevseqError(error.format_message()[:200], hint=f"{command} --help")
    return worded(error, "standard output")


def _fail(error: Exception, verbose: int) -> int:
    """Say what is wrong on standard error; with -vv, where."""
    if verbose > 1:
        import traceback

        traceback.print_exception(error)
    from revseq_cli.report.words import message

    print(message(_worded(error)), file=sys.stderr, flush=True)
    return _FAILED


def _closed() -> int:
    """Close what outlives a pass; what is wrong with that is told like anything else."""
    try:
        stopping.close()
    except Exception as e:  # noqa: BLE001 - this is the boundary, too
        return _fail(e, 0)
    return 0


def _flushed(status: int) -> int:
    """Standard output is only done when it is flushed; one error is enough."""
    try:
        sys.stdout.flush()
    except OSError as e:
        return status if status == _FAILED else _fail(e, 0)
    return status


if __name__ == "__main__":
    main()
