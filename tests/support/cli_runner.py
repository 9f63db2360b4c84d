"""Runs the command in this process as often as wanted: what a run changes is put back, so that each begins alike.

That takes a tenth of the time of a process for each run. Put back are the names in the package's modules, what is in
its lists, tables, caches and thread-local objects, the functions of `os` and `io`, the environment, the folder, the
standard streams, filters of warnings, and the handlers of signals. Not put back are attributes of classes, settings of
the C library, and what other packages keep. Whoever uses this forks or starts another process after a run that leaves a
thread, a process or an open descriptor.
"""

import contextlib
import gc
import importlib
import io
import os
import pkgutil
import signal
import sys
import tempfile
import threading
import traceback
import warnings

import faults


class _Ended(BaseException):
    """The command has ended with a status."""


def load_command(*left_out):
    """Import all that the command may import, so that a run takes a moment; the package's modules.

    Those of another system are left out, by the last parts of their names.
    """
    import revseq_cli

    for module in pkgutil.walk_packages(revseq_cli.__path__, "revseq_cli."):
        if module.name.rpartition(".")[2] not in left_out:
            importlib.import_module(module.name)
    extras = "zarr", "aiohttp", "fsspec.implementations.http", "fsspec.implementations.asyn_wrapper"
    for name in ("rich.console", "rich.table", *extras):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    return [module for name, module in sys.modules.items() if name.partition(".")[0] == "revseq_cli"]


class Kept:
    """What modules held when this was made; `put_back` lets them hold it again."""

    def __init__(self, modules):
        self._names = [(vars(module), dict(vars(module))) for module in (os, io, *modules)]
        values = {id(value): value for _, names in self._names for name, value in names.items() if name[:2] != "__"}
        self._filled = [(each, each.copy()) for each in values.values() if type(each) in (list, dict, set)]
        self._caches = [each for each in values.values() if hasattr(each, "cache_clear")]
        self._locals = [each for each in values.values() if isinstance(each, threading.local)]

    def put_back(self):
        for now, before in self._names:
            now.clear()
            now.update(before)
        for now, before in self._filled:
            now.clear()
            (now.extend if isinstance(now, list) else now.update)(before)
        for each in self._caches:
            each.cache_clear()
        for each in self._locals:
            vars(each).clear()


def carry_out(order, folder, streams, kept):
    """Run the order in a folder, with descriptors of the three streams, which are closed; the exit status.

    The folder is a path, or a descriptor, which is closed, too. A run that ends by a signal ends the process, and one
    that raises an exception prints it first. A process that is forked meanwhile ends as it does without us.
    """
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    env, before, standard = dict(os.environ), os.getcwd(), (sys.stdin, sys.stdout, sys.stderr)
    pid, exit_process = os.getpid(), os._exit

    def end(status):
        if os.getpid() != pid:
            exit_process(status)
        raise _Ended(status)

    try:
        os.chdir(folder)
        if isinstance(folder, int):
            os.close(folder)
        _install(streams)
        prepare(order)
        os._exit = end
        from revseq_cli.__main__ import main

        with warnings.catch_warnings():
            main()
    except _Ended as e:
        return e.args[0]
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        raise
    finally:
        kept.put_back()
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        os.environ.clear()
        os.environ.update(env)
        sys.stdin, sys.stdout, sys.stderr = standard
        os.chdir(before)
        with open(os.devnull, "r+b") as nothing:
            for fd in range(3):
                os.dup2(nothing.fileno(), fd)
        gc.collect()  # a file that is still open could not be removed on Windows


def _install(streams):
    for fd, (opened, name) in enumerate(zip(streams, ("stdin", "stdout", "stderr"), strict=True)):
        os.dup2(opened, fd)
        os.close(opened)
        stream = open(fd, "w" if fd else "r", closefd=False, errors="backslashreplace" if fd == 2 else None)  # noqa: SIM115
        setattr(sys, name, stream)


def prepare(order):
    """What an order says of arguments, environment, faults and code that runs first."""
    sys.argv = ["revseq", *order["args"]]
    if "env" in order:
        tempfile.tempdir = None  # what was found with another environment
        os.environ.clear()
        os.environ.update((os.fsdecode(name), os.fsdecode(value)) for name, value in order["env"].items())
    if "thresholds" in order:
        vars(sys.modules["revseq_cli.core.thresholds"]).update(order["thresholds"])
    if "fault" in order:
        faults.install(**order["fault"])
    exec(order.get("code", ""), {})
