"""Where the command begins and ends: the one boundary that turns errors and signals into messages and exit statuses."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from revseq_cli import stopping


def main() -> NoReturn:
    """Run the command and leave the process with its exit status."""
    stopping.watch()
    try:
        status = _run()
        status = _flushed(status)
    except stopping.Stopped:
        stopping.die()
    except KeyboardInterrupt:  # before or after our own handler was in place
        stopping.die()
    # Nothing is left to flush or to close, and libraries' own leave-taking could only spoil the status.
    sys.stderr and sys.stderr.flush()
    os._exit(status)


def _run() -> int:
    import click  # a signal during the imports must find its handler in place

    from revseq_cli.commands.cli import cli
    from revseq_cli.errors import RevseqError

    try:
        with cli.make_context("revseq", sys.argv[1:]) as context:
            return cli.invoke(context) or 0
    except click.exceptions.Exit as e:
        return e.exit_code
    except click.UsageError as e:
        command = e.ctx.command_path if e.ctx else "revseq"
        return _fail(RevseqError(e.format_message()[:200], hint=f"{command} --help"), e)
    except click.ClickException as e:
        return _fail(RevseqError(e.format_message()[:200]), e)
    except RevseqError as e:
        return _fail(e, e)
    except MemoryError as e:
        return _fail(RevseqError("out of memory", hint="use a binary format, or a smaller --memory"), e)
    except BrokenPipeError:
        return _silent_stdout(0)
    except OSError as e:
        # Files have their errors worded where they are opened; what is left is standard output.
        return _fail(RevseqError(f"cannot write: {e.strerror or e}", where=str(e.filename or "standard output")), e)


def _fail(error: Exception, cause: BaseException) -> int:
    """Say what is wrong on standard error; with -vv, where."""
    if any(word.startswith("-v") and word.count("v") > 1 for word in sys.argv[1:]):
        import traceback

        traceback.print_exception(cause)
    if sys.stderr:
        print(error, file=sys.stderr)
    return 2


def _flushed(status: int) -> int:
    """Standard output is only done when it is flushed; a reader that left is no error."""
    try:
        if sys.stdout:
            sys.stdout.flush()
    except BrokenPipeError:
        return _silent_stdout(status)
    except OSError as e:
        from revseq_cli.errors import RevseqError

        return _fail(RevseqError(f"cannot write: {e.strerror}", where="standard output"), e)
    return status


def _silent_stdout(status: int) -> int:
    """Point standard output at nothing, so that what is still buffered cannot fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return status


if __name__ == "__main__":
    main()
