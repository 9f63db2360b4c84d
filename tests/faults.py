"""Runs the command again and again, each time with another call of the operating system failing.

    python faults.py FUNCTION ERRNO ARGUMENT...

For each number N that comes on standard input, the command runs in a process of its own in which the N-th call of
os.FUNCTION raises that error. A line of JSON answers: its status, its two streams, and whether there were so many calls.
"""

import json
import os
import sys
from pathlib import Path


def failing(real, count, number):
    """The function, which fails once."""
    calls = iter(range(1, 1 << 30))

    def function(*args, **options):
        if next(calls) == count:
            os.write(3, b"failed")
            raise OSError(number, os.strerror(number), *args[:1] if isinstance(args[0], str) else ())
        return real(*args, **options)

    return function


def child(name, count, number):
    """Never returns."""
    for fd, path in ((1, "out"), (2, "err"), (3, "failed")):
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, fd)
    os.closerange(4, 64)
    setattr(os, name, failing(getattr(os, name), count, number))
    from revseq_cli.__main__ import main

    main()


def main():
    import revseq_cli.__main__
    import revseq_cli.commands.run
    import revseq_cli.engine
    import revseq_cli.formats.hdf5_sink  # noqa: F401 - so that a run takes a moment, and no import fails

    name, number = sys.argv[1], int(sys.argv[2])
    sys.argv = ["revseq", *sys.argv[3:]]
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            child(name, int(line), number)
        _, status = os.waitpid(pid, 0)
        found = {path: Path(path).read_text() for path in ("out", "err", "failed")}
        for path in found:
            Path(path).unlink()
        print(json.dumps(found | {"status": os.waitstatus_to_exitcode(status)}), flush=True)


if __name__ == "__main__":
    main()
