"""Runs the command in processes that are forked from one which has imported it: a tenth of a second less for each.

`Server` starts that process. A line of JSON on its standard input is an order: arguments, folder, files of the three
streams, and what is to be wrong; a line answers with the status.
"""

import contextlib
import importlib
import json
import os
import pkgutil
import resource
import signal
import subprocess
import sys

import faults


class Server:
    """The process. It starts with the first order, and anew after one that was given up, as by the test's timeout."""

    def __init__(self, env):
        self._env, self._process = env, None

    def status(self, order):
        """Carry the order out; the exit status, or minus the signal."""
        if self._process is None:
            command = [sys.executable, __file__]
            self._process = subprocess.Popen(
                command, stdin=-1, stdout=-1, text=True, env=self._env, start_new_session=True
            )
        try:
            print(json.dumps(order), file=self._process.stdin, flush=True)
            return int(self._process.stdout.readline())
        except BaseException:
            self.end()
            raise

    def end(self):
        """End it, and the command that it may be carrying out."""
        if self._process:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None


def child(order):
    """Never returns."""
    os.chdir(order["cwd"])
    for fd, (path, flags) in enumerate(zip(order["streams"], (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY), strict=True)):
        os.dup2(os.open(path, flags), fd)
    os.closerange(3, 64)
    sys.argv = ["revseq", *order["args"]]
    for kind, value in order.get("limits", ()):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(kind, (value, value))
    if "fault" in order:
        faults.install(**order["fault"])
    exec(order.get("code", ""), {})
    from revseq_cli.__main__ import main

    main()


def serve():
    import revseq_cli

    for module in pkgutil.walk_packages(revseq_cli.__path__, "revseq_cli."):
        importlib.import_module(module.name)  # so that a run takes a moment, and no import is what fails
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
    serve()
