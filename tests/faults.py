"""Runs commands each with another call of the operating system failing.

A line of JSON on standard input says arguments, folder, function, error number and n: the command runs in a process of
its own in which the n-th call of os.FUNCTION raises that error; of "write", the n-th write of a Python file object. A
line answers: its status, its two streams, and whether there were so many calls.
"""

import contextlib
import importlib
import io
import json
import os
import pkgutil
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


class File:
    """A Python file object, whose writes all count together."""

    def __init__(self, file, write):
        self._file, self._write = file, write

    def write(self, data):
        return self._write(self._file, data)

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()


def install(name, count, number):
    """Let the n-th such call fail."""
    if name != "write":
        setattr(os, name, failing(getattr(os, name), count, number))
        return
    opened, write = io.open, failing(lambda file, data: file.write(data), count, number)
    io.open = lambda *args, **options: File(opened(*args, **options), write)


def child(order):
    """Never returns."""
    os.chdir(order["cwd"])
    for fd, path in ((1, "out"), (2, "err"), (3, "failed")):
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, fd)
    os.closerange(4, 64)
    sys.argv = ["revseq", *order["args"]]
    install(order["call"], order["n"], order["number"])
    from revseq_cli.__main__ import main

    main()


def main():
    import revseq_cli

    for module in pkgutil.walk_packages(revseq_cli.__path__, "revseq_cli."):
        importlib.import_module(module.name)  # so that a run takes a moment, and no import fails
    revseq_cli.formats.npz._LARGEST_HELD = 0  # a small deflated member takes the way of a large one
    with contextlib.suppress(ImportError):  # an extra
        import zarr  # noqa: F401
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if not pid:
            child(order)
        _, status = os.waitpid(pid, 0)
        paths = [Path(order["cwd"], name) for name in ("out", "err", "failed")]
        found = {path.name: path.read_text() for path in paths}
        for path in paths:
            path.unlink()
        print(json.dumps(found | {"status": os.waitstatus_to_exitcode(status)}), flush=True)


if __name__ == "__main__":
    main()
