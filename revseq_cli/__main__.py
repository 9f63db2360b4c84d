"""The entry point of the command: it turns errors and signals into messages and exit statuses."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found, unused-ignore] # `signal` takes longer to import

# Ctrl-C ends the process at once while there is nothing to undo: no traceback from an import.
if _signal.getsignal(_signal.SIGINT) is not _signal.SIG_IGN:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import contextlib
import errno
import io
import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from revseq_cli.core import platform, signals

if TYPE_CHECKING:
    from revseq_cli.commands.groups import Settings

_FAILED = 2  # the exit status after any error
# What Python raises if memory runs out while an error is reported.
_RAISED_WITHOUT_MEMORY = (MemoryError, SystemError, ImportError, OSError)
# Commands whose exit status is an answer, too: for them, a closed standard output is not an error.
_ANSWERED_BY_STATUS = ("batch", "check", "diff", "verify")


def main() -> NoReturn:
    """Run the command, and end the process with its exit status, or by the signal that came."""
    signals.handle_signals()
    _open_streams()
    # revseq needs no linear algebra, whose threads cost start-up time and memory, in workers too.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ["PYTHONSAFEPATH"] = "1"  # workers import nothing from the current folder
    try:
        status = _run_and_report()
    except signals.Stopped:
        signals.die()
    # Everything is flushed and closed, and exit functions of libraries could change the status.
    os._exit(status)


def _run_and_report() -> int:
    """Run the command, and print its error, if there is one; the exit status."""
    settings: Settings = {}
    try:
        status = _run_command(settings)
        sys.stdout.flush()
        if _has_lost_result(settings):
            raise OSError(errno.EBADF, "it is closed")
    except Exception as e:  # noqa: BLE001 - every error becomes a message
        signals.check()  # a signal may have caused the error
        try:
            _report_error(e, settings)
        except _RAISED_WITHOUT_MEMORY:
            os.write(2, b"Error: out of memory\n")
        return _FAILED
    return status


class _OutputStream(io.FileIO):
    """Standard output or standard error.

    If its reader goes away, output is dropped, and the exit status stays the same.
    """

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        """Write some bytes of `data`, and return how many: all, if nobody reads them any more.

        Raises Stopped if a signal comes meanwhile.
        """
        try:
            with signals.stop_at_once():
                return super().write(data)
        except OSError as e:
            if platform.is_reader_gone(e):
                return memoryview(data).nbytes
            if self.fileno() == sys.stderr.fileno():  # there is nowhere to report this error
                return memoryview(data).nbytes
            raise


class _ClosedStream(io.RawIOBase):
    """Standard output or standard error that was closed from the beginning: output is lost."""

    has_lost = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        count = memoryview(data).nbytes
        self.has_lost = self.has_lost or count > 0
        return count


def _open_streams() -> None:
    """Give the command its standard streams. One that is closed gets the null device.

    Otherwise the next file that is opened would have its number, and would get the messages.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest free number, which is `number`
            os.set_inheritable(number, True)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - it stays open
    sys.stdout = _text_stream(sys.stdout)
    sys.stderr = _text_stream(sys.stderr)


def _has_lost_result(settings: Settings) -> bool:
    """Whether the result went to a closed standard output, and was not also the exit status."""
    if settings.get("command") in _ANSWERED_BY_STATUS:
        return False
    raw = getattr(sys.stdout.buffer, "raw", None)
    return isinstance(raw, _ClosedStream) and raw.has_lost


def _text_stream(stream: Any) -> Any:  # noqa: ANN401 - what Python has opened, or None
    """A text stream on an _OutputStream; characters that its encoding lacks are escaped."""
    if stream is None:
        return io.TextIOWrapper(io.BufferedWriter(_ClosedStream()), "utf-8", "backslashreplace")
    encoding = platform.text_encoding(stream)
    if not encoding:  # Windows' console, where only Python's own stream can write
        return stream
    raw = io.BufferedWriter(_OutputStream(stream.fileno(), "w", closefd=False))
    by_line = stream is sys.stderr or stream.isatty()
    return io.TextIOWrapper(raw, encoding, "backslashreplace", newline="\n", line_buffering=by_line)


def _run_command(settings: Settings) -> int:
    """Run the command, or answer a completion script; the exit status.

    The command fills `settings`, also if it fails.
    """
    import click  # here, since it takes a while

    from revseq_cli import files
    from revseq_cli.commands.cli import cli
    from revseq_cli.files.address import hide_secrets_of

    for argument in sys.argv[1:]:
        hide_secrets_of(argument)

    instruction = os.environ.get("_REVSEQ_COMPLETE", "")
    # A completion script that asks Click for words also sets COMP_WORDS. Without it, the
    # instruction was exported by accident, and Click would fail.
    if instruction.endswith("_complete") and "COMP_WORDS" not in os.environ:
        instruction = ""
    if instruction:
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "revseq", "_REVSEQ_COMPLETE", instruction)
    try:
        with cli.make_context("revseq", sys.argv[1:], obj=settings) as context:
            context.call_on_close(files.close)
            return cli.invoke(context) or 0
    except click.exceptions.Exit as e:
        return e.exit_code


def _report_error(error: Exception, settings: Settings) -> None:
    """Print the error on standard error, with -vv its traceback, too; with --json also as JSON."""
    import click

    from revseq_cli.commands import usage
    from revseq_cli.commands.console import print_error
    from revseq_cli.core.errors import put_into_words

    if settings.get("verbose", 0) > 1:
        import traceback

        traceback.print_exception(error)

    if isinstance(error, click.UsageError):
        error = usage.as_usage_error(error, sys.argv[1:])
    error = put_into_words(error, "standard output")
    print_error(error, settings.get("color", "auto"))
    if settings.get("as_json"):
        from revseq_cli.report import objects

        command = settings.get("command")
        notes = settings.get("notes", ())
        report = objects.report_text(command, _FAILED, notes=notes, errors=[error])
        with contextlib.suppress(OSError):  # where standard output itself is the error
            click.echo(report)


if __name__ == "__main__":
    main()
