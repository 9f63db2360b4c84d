"""Runs the command where no process can be forked: in one process that has imported it, see tests/support/cli_runner.py.

A start takes a second or more on Windows. A run that ends the process, as a signal does, gives its status; the next run
starts another one. One that executes `code` first has a process of its own, since nobody knows what that changes.
"""

import contextlib
import gc
import marshal
import os
import socket
import struct
import subprocess
import sys

import cli_runner
import wine

COMMAND = [sys.executable, "-m", "revseq_cli"]
_LENGTH = struct.Struct("<q")
_LONGEST = 240  # seconds that a run may take; less than what pytest gives a test


class Server:
    """The process; it starts with the first order."""

    command = COMMAND

    def __init__(self, env):
        self._env, self._running = env, None

    def status(self, order, folder, streams, timeout=None):  # noqa: ARG002 - as of the other server
        """Carry the order out in a folder with the three streams, which are paths; the exit status.

        What takes longer than a test may ends in an error, whatever the `timeout`.
        """
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
    modules = cli_runner.load_command("posix")
    wine.step_around()
    kept = cli_runner.Kept(modules)
    gc.freeze()
    while True:
        (count,) = _LENGTH.unpack(received(connection, _LENGTH.size))
        order = marshal.loads(received(connection, count))
        ways = (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)
        streams = [os.open(path, how | os.O_BINARY) for path, how in zip(order["streams"], ways, strict=True)]
        status = cli_runner.carry_out(order, order["folder"], streams, kept)
        connection.sendall(_LENGTH.pack(status & 0xFFFFFFFF))  # as another process would see it


if __name__ == "__main__":
    with (
        contextlib.suppress(EOFError, ConnectionError),
        socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as end,
    ):
        serve(end)
