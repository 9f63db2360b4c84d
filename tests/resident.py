"""Runs the command where no process can be forked: in one process that has imported it, one run after another.

A start takes a second or more on Windows. After each run the process is as it was before: the names in the package's
modules, what is in its lists and tables, the environment, the folder, the standard streams, and the functions of `os`
and `io`. A run that ends the process, as a signal does, gives its status; the next run starts another one. One that
executes `code` first has a process of its own, since nobody knows what that changes.
"""

import contextlib
import gc
import importlib
import io
import marshal
import os
import pkgutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile

import faults
import wine

COMMAND = [sys.executable, "-m", "revseq_cli"]
_LENGTH = struct.Struct("<q")
_LONGEST = 240  # seconds that a run may take; less than what pytest gives a test


class Server:
    """The process; it starts with the first order."""

    command = COMMAND

    def __init__(self, env):
        self._env, self._running = env, None

    def status(self, order, folder, streams):
        """Carry the order out in a folder with the three streams, which are paths; the exit status."""
        alone = "code" in order
        if alone:
            running = _Process(self._env)
        else:
            running, self._running = self._running or _Process(self._env), None
        try:
            status = running.status(order | {"folder": str(folder), "streams": list(map(str, streams))})
        except BaseException:
            running.end()
            raise
        if running.is_alive and not alone:
            self._running = running
        else:
            running.end()
        return status

    def end(self):
        """End it."""
        if self._running:
            self._running.end()


class _Process:
    def __init__(self, env):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = str(listener.getsockname()[1])
            self._process = subprocess.Popen([sys.executable, __file__, port], stdin=-3, env=env)
            listener.settimeout(_LONGEST)
            self._connection, _ = listener.accept()
        self._connection.settimeout(_LONGEST)
        self.is_alive = True

    def status(self, order):
        data = marshal.dumps(order)
        self._connection.sendall(_LENGTH.pack(len(data)) + data)
        answer = b""
        with contextlib.suppress(ConnectionError):
            answer = self._connection.recv(_LENGTH.size)
        if answer:
            return _LENGTH.unpack(answer)[0]
        self.is_alive = False
        return self._process.wait(_LONGEST)

    def end(self):
        self._process.kill()
        self._process.wait()
        self._connection.close()


class Ended(BaseException):
    """The command has ended with a status."""


def _end(status):
    raise Ended(status)


def load():
    """Import all that the command may import; the modules that a run may change."""
    import revseq_cli

    for module in pkgutil.walk_packages(revseq_cli.__path__, "revseq_cli."):
        if not module.name.endswith(".posix"):
            importlib.import_module(module.name)
    from revseq_cli.ground import processes

    processes._close = wine.reset
    wine.wake_event_loops()
    for name in ("rich.console", "rich.table", "zarr"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    ours = [module for name, module in sys.modules.items() if name.partition(".")[0] == "revseq_cli"]
    return [os, io, *ours]


def run(order):
    """The exit status of one run."""
    os.chdir(order["folder"])
    sys.argv = ["revseq", *order["args"]]
    for fd, (path, name, how) in enumerate(
        zip(order["streams"], ("stdin", "stdout", "stderr"), (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY), strict=True)
    ):
        opened = os.open(path, how | getattr(os, "O_BINARY", 0))
        os.dup2(opened, fd)
        os.close(opened)
        stream = open(fd, "w" if fd else "r", closefd=False, errors="backslashreplace" if fd == 2 else None)  # noqa: SIM115
        setattr(sys, name, stream)
    if "env" in order:
        os.environ.clear()
        os.environ.update(order["env"])
        tempfile.tempdir = None  # what was found with another environment
    if "fault" in order:
        faults.install(**order["fault"])
    exec(order.get("code", ""), {})
    from revseq_cli.__main__ import main

    os._exit = _end
    try:
        main()
    except Ended as e:
        return e.args[0] & 0xFFFFFFFF  # as another process would see it


class Kept:
    """What the modules held when this was made; `put_back` lets them hold it again."""

    def __init__(self, modules):
        self._names = [(vars(module), dict(vars(module))) for module in modules]
        values = {id(value): value for _, names in self._names for name, value in names.items() if name[:2] != "__"}
        self._filled = [(each, each.copy()) for each in values.values() if type(each) in (list, dict, set)]
        self._caches = [each for each in values.values() if hasattr(each, "cache_clear")]

    def put_back(self):
        for now, before in self._names:
            now.clear()
            now.update(before)
        for now, before in self._filled:
            now.clear()
            (now.extend if isinstance(now, list) else now.update)(before)
        for each in self._caches:
            each.cache_clear()


def carry_out(order, kept):
    """Run, and put back what the run changed."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    env, folder, streams = dict(os.environ), os.getcwd(), (sys.stdin, sys.stdout, sys.stderr)
    try:
        return run(order)
    finally:
        kept.put_back()
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.environ.clear()
        os.environ.update(env)
        sys.stdin, sys.stdout, sys.stderr = streams
        os.chdir(folder)
        with open(os.devnull, "r+b") as nothing:
            for fd in range(3):
                os.dup2(nothing.fileno(), fd)
        gc.collect()  # a file that is still open could not be removed


def received(connection, count):
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


def serve(connection):
    """Until whoever started it is gone."""
    kept = Kept(load())
    gc.freeze()
    while True:
        (count,) = _LENGTH.unpack(received(connection, _LENGTH.size))
        status = carry_out(marshal.loads(received(connection, count)), kept)
        connection.sendall(_LENGTH.pack(status))


if __name__ == "__main__":
    with (
        contextlib.suppress(EOFError, ConnectionError),
        socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as end,
    ):
        serve(end)
