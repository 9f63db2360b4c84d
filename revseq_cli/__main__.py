"""The entry point of the command: it turns errors and signals into messages and exit statuses."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found, unused-ignore] # `signal` takes longer to import

# Ctrl-C ends the process at once until `signals.watch` installs a handler: there is no work to undo yet, and Python
# would print a traceback from one of the imports below.
if _signal.getsignal(_signal.SIGINT) is not _signal.SIG_IGN:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import contextlib
import io
import os
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

from revseq_cli.core import signals, system

if TYPE_CHECKING:
    from revseq_cli.core.errors import RevseqError

_FAILED = 2  # the exit status after any error
_STDERR = 2  # the descriptor of standard error


def main() -> NoReturn:
    """Run the command, and end the process with its exit status, or by the signal that stopped it."""
    signals.watch()
    status = None  # after a signal
    with contextlib.suppress(signals.Stopped):
        _open_standard_streams()
        # revseq needs no linear algebra; its threads would cost start-up time and memory, in workers too.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        os.environ["PYTHONSAFEPATH"] = "1"  # workers import nothing from the current folder
        os.environ.pop("PYTHONINSPECT", None)
        try:
            ran = _flush(_run())
        finally:
            closed = _close()
        status = max(ran, closed)
    if status is None:
        signals.die()
    # All is flushed and closed. The exit functions of libraries are not called: they could change the status.
    os._exit(status)


def _open_standard_streams() -> None:
    """Open those of descriptors 0 to 2 that are closed, or a data file could get their number, here or in a worker.

    A closed input is opened for writing, and a closed output for reading, so that using it is an error. Standard error
    is opened for writing.
    """
    for fd, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, mode), True)  # the lowest free number, which is fd
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - they stay open
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    sys.stdout, sys.stderr = _text_stream(sys.stdout), _text_stream(sys.stderr)


class _OutputStream(io.FileIO):
    """Standard output or standard error. If its reader ends, output is dropped, and the exit status stays the same."""

    def __init__(self, number: int) -> None:
        super().__init__(number, "w", closefd=False)
        self._may_block = system.may_block(number)

    def _part(self, data: Any) -> memoryview:  # noqa: ANN401 - any buffer
        """Wait until the reader takes data, checking for signals; then the bytes to write without blocking."""
        data = memoryview(data).cast("B")
        while (part := system.ready_part(self.fileno(), data, signals.PATIENCE)) is None:
            signals.check()
        return part

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        """Write some bytes of `data`; how many, or all if an error is ignored."""
        try:
            if self._may_block and signals.is_deferred():
                data = self._part(data)
            return super().write(data)
        except OSError as e:
            # An error of standard error itself cannot be reported anywhere.
            if self.fileno() == _STDERR or system.is_reader_gone(e):
                return memoryview(data).nbytes
            raise


def _text_stream(stream: Any) -> io.TextIOWrapper:  # noqa: ANN401 - what Python has opened
    """A text stream on an _OutputStream; characters that its encoding lacks become backslash escapes."""
    if not (encoding := system.text_encoding(stream)):
        return stream  # type: ignore[no-any-return]
    raw = io.BufferedWriter(_OutputStream(stream.fileno()))
    lines = stream is sys.stderr or stream.isatty()
    return io.TextIOWrapper(raw, encoding, "backslashreplace", newline="\n", line_buffering=lines)


def _run() -> int:
    """Run the command, or answer a completion script; the exit status."""
    import click  # here, since the handlers of signals must be installed before it

    from revseq_cli.commands.cli import cli

    settings: dict[str, Any] = {}
    try:
        if instruction := os.environ.get("_REVSEQ_COMPLETE"):
            from click.shell_completion import shell_complete

            return shell_complete(cli, {}, "revseq", "_REVSEQ_COMPLETE", instruction)
        with cli.make_context("revseq", sys.argv[1:]) as context:
            try:
                return cli.invoke(context) or 0
            finally:
                settings = context.meta
    except click.exceptions.Exit as e:
        return e.exit_code
    except Exception as e:  # noqa: BLE001 - every error becomes a message
        signals.check()  # a signal may have caused the error
        return _fail(e, settings)


def _worded(error: Exception) -> RevseqError:
    """Any exception as a RevseqError, those of Click with a hint at --help."""
    import click

    from revseq_cli.commands.base import message_of_click
    from revseq_cli.core.errors import RevseqError, worded

    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else "revseq"
        return RevseqError(message_of_click(error.format_message()), hint=f"{command} --help")
    return worded(error, "standard output")


def _reports_json(args: list[str]) -> bool:
    """Whether the command was to print its report as JSON, however far its arguments were understood."""
    of_verify = args[:1] == ["verify"] and {"--format=json", "--format json"} & {*args, *map(" ".join, pairwise(args))}
    return "--json" in args or bool(of_verify)


def _fail(error: Exception, settings: dict[str, Any]) -> int:
    """Print the error on standard error; the exit status.

    `settings` has the values of --verbose and --color, as far as they are known.
    """
    try:
        _tell(error, settings)
    except (MemoryError, SystemError, ImportError, OSError):  # what Python raises where memory ends meanwhile
        os.write(_STDERR, b"Error: out of memory\n")
    return _FAILED


def _tell(error: Exception, settings: dict[str, Any]) -> None:
    """Print the error on standard error, with -vv its traceback, too."""
    if settings.get("revseq.verbose", 0) > 1:
        import traceback

        traceback.print_exception(error)
    import click

    from revseq_cli.commands.base import colored, error_width
    from revseq_cli.report.words import message

    color, worded = colored(settings.get("revseq.color", "auto"), sys.stderr), _worded(error)
    click.echo(message(worded, sys.argv[1:], color=color, width=error_width()), file=sys.stderr, color=color)
    if _reports_json(sys.argv[1:]):
        from revseq_cli.report import objects

        with contextlib.suppress(OSError):  # where standard output itself is the error
            click.echo(objects.failure(worded, _FAILED, sys.argv[1:]))


def _close() -> int:
    """Close connections and the like that outlive a pass; the exit status of that."""
    try:
        signals.close()
    except Exception as e:  # noqa: BLE001 - every error becomes a message
        return _fail(e, {})
    return 0


def _flush(status: int) -> int:
    """Flush standard output; the exit status, given the command's. After a failed command no second error shows."""
    try:
        sys.stdout.flush()
    except OSError as e:
        return status if status == _FAILED else _fail(e, {})
    return status


if __name__ == "__main__":
    main()
