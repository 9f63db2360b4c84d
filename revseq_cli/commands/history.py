"""The line about a command that goes into the history of a NetCDF file, as NCO writes it."""

from __future__ import annotations

import os
import sys
import time

from revseq_cli.ground import system
from revseq_cli.ground.errors import UsageError, printable

_LONGEST = 1000  # characters of a command; tensors may be typed as text
_TIME = "SOURCE_DATE_EPOCH"  # the time of reproducible builds; source: reproducible-builds.org/specs/source-date-epoch


def line() -> str:
    """The time, and the command as it was typed; UsageError where SOURCE_DATE_EPOCH is no time."""
    command = printable(" ".join(map(system.quoted, ["revseq", *sys.argv[1:]])))
    return f"{time.asctime(_now())}: {command if len(command) <= _LONGEST else f'{command[:_LONGEST]}...'}"


def _now() -> time.struct_time:
    """The local time, or the one that SOURCE_DATE_EPOCH sets, in UTC."""
    text = os.environ.get(_TIME)
    if not text:
        return time.localtime()
    try:
        return time.gmtime(int(text))
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"{_TIME} is {text[:40]!r}", "seconds since 1970-01-01 UTC, as 1700000000") from None
