"""Runs the command in processes that are forked from one which has imported it: a tenth of a second less for each.

A line of JSON on standard input says arguments, folder and files of the three streams; a line answers with the status.
"""

import contextlib
import importlib
import json
import os
import pkgutil
import sys


def child(order):
    """Never returns."""
    os.chdir(order["cwd"])
    for fd, (path, flags) in enumerate(zip(order["streams"], (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY), strict=True)):
        os.dup2(os.open(path, flags), fd)
    os.closerange(3, 64)
    sys.argv = ["revseq", *order["args"]]
    from revseq_cli.__main__ import main

    main()


def main():
    import revseq_cli

    for module in pkgutil.walk_packages(revseq_cli.__path__, "revseq_cli."):
        importlib.import_module(module.name)
    for name in ("rich.console", "rich.table", "zarr"):
        with contextlib.suppress(ImportError):  # zarr is an extra
            importlib.import_module(name)
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            child(json.loads(line))
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
