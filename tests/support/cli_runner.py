"""Runs the command as often as wanted, in processes that have imported it: a tenth of the time of a new one.

`Server` connects to such a process for each order, or again to one that has carried out others. An order is a
dictionary: arguments, environment, folder, the paths of the three standard streams, and what else the process is to
have. The answer is the exit status, or minus the signal, behind a = where the process stays. Where processes can be
forked, each connection is accepted by one that has imported the command, and forks; elsewhere each is a new process.

A process that stays puts back what a run changes, so that each begins alike: the names in the package's modules, what
is in its lists, tables and caches, the functions of `os` and `io`, the environment, the folder,
the standard streams, filters of warnings, and the handlers of signals. Not put back are attributes of classes, settings
of the C library, and what other packages keep. A run that leaves a thread, a process or an open descriptor, and one
that executes `code` first, ends its process.
"""

import contextlib
import gc
import importlib
import io
import marshal
import os
import pkgutil
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

import faults

FORKS = hasattr(os, "fork")
_LONGEST = (
    240  # seconds that a run may take where nothing is forked; less than what pytest gives a test
)
_HIGH = 64  # descriptors from here on are ours in a process that carries out orders
_FLAGS = [flags | getattr(os, "O_BINARY", 0) for flags in (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)]
# The command as a program: it hands over its arguments, environment, folder and streams, and ends as the fork does. It
# imports as little as it can, since shells start it hundreds of times.
_PROGRAM = """\
#!{python} -IS
import _signal, _socket, marshal, posix, resource, sys
streams = []
for fd in range(3):
    try:
        posix.fstat(fd)
    except OSError:
        continue
    streams.append(fd)
order = {{"args": sys.argv[1:], "streams": streams, "umask": posix.umask(0), "env": dict(posix.environ)}}
order["largest"] = resource.getrlimit(resource.RLIMIT_FSIZE)
fds = b"".join(fd.to_bytes(4, sys.byteorder) for fd in (posix.open(".", posix.O_RDONLY), *streams))
data = marshal.dumps(order)
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect({address!r})
server.sendmsg([len(data).to_bytes(8, "little")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fds)])
server.sendall(data)
status = int(server.recv(16))
if status < 0:
    _signal.signal(-status, _signal.SIG_DFL)
    posix.kill(posix.getpid(), -status)
posix._exit(status)
"""


# In the process of the tests


class Server:
    """The processes. `command` begins with a program that shells and others can start."""

    def __init__(self, env):
        self._env, self._process, self._idle = env, None, []
        self._folder = tempfile.mkdtemp(prefix="forked-")  # a short name, as a socket's must be
        if not FORKS:
            self.command = [sys.executable, "-m", "revseq_cli"]
            return
        self._address = f"{self._folder}/socket"
        program = Path(self._folder, "revseq")
        program.write_text(_PROGRAM.format(python=sys.executable, address=self._address))
        program.chmod(0o755)
        self.command = [str(program)]
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self._address)
            listener.listen(64)
            command, fds = [sys.executable, __file__, str(listener.fileno())], (listener.fileno(),)
            self._process = subprocess.Popen(
                command, stdin=-1, env=env, start_new_session=True, pass_fds=fds
            )

    def _connected(self):
        """A connection to a process that has carried out no order, and that process where it is a new one."""
        if not FORKS:
            with socket.create_server(("127.0.0.1", 0)) as listener:
                command = [sys.executable, __file__, str(listener.getsockname()[1])]
                process = subprocess.Popen(command, stdin=-3, env=self._env)
                listener.settimeout(_LONGEST)
                return listener.accept()[0], process
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._address)
        return connection, None

    def status(self, order, folder, streams, timeout=None):
        """Carry the order out in a folder with the three streams, which are paths; the exit status, or minus the signal.

        TimeoutError after so many seconds.
        """
        is_alone = "code" in order
        connection, process = self._connected() if is_alone or not self._idle else self._idle.pop()
        data = marshal.dumps(order | {"folder": str(folder), "streams": [*map(str, streams)]})
        connection.settimeout(timeout if FORKS else _LONGEST)
        connection.sendall(len(data).to_bytes(8, "little") + data)
        answer = b""
        with contextlib.suppress(() if FORKS else ConnectionError):
            answer = connection.recv(16)
        if answer.startswith(b"=") and not is_alone:
            self._idle.append((connection, process))
        else:
            connection.close()
        if process and not answer:  # it has ended by itself
            return process.wait(_LONGEST)
        if process and is_alone:
            process.kill()
            process.wait()
        return int(answer.lstrip(b"="))

    def end(self):
        """End it, and the commands that it may be carrying out."""
        for connection, process in self._idle:
            connection.close()
            if process:
                process.kill()
                process.wait()
        if self._process:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
        shutil.rmtree(self._folder)


# In the others


class _Ended(BaseException):
    """The command has ended with a status."""


def load_command():
    """Import all that the command may import, so that a run takes a moment; the package's modules."""
    import revseq_cli

    for module in pkgutil.walk_packages(revseq_cli.__path__, "revseq_cli."):
        importlib.import_module(module.name)
    extras = "zarr", "aiohttp", "fsspec.implementations.http", "fsspec.implementations.asyn_wrapper"
    for name in ("rich.console", "rich.table", *extras):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    return [
        module for name, module in sys.modules.items() if name.partition(".")[0] == "revseq_cli"
    ]


class Kept:
    """What modules held when this was made; `put_back` lets them hold it again."""

    def __init__(self, modules):
        self._names = [(vars(module), dict(vars(module))) for module in (os, io, *modules)]
        values = {
            id(value): value
            for _, names in self._names
            for name, value in names.items()
            if name[:2] != "__"
        }
        self._filled = [
            (each, each.copy()) for each in values.values() if type(each) in (list, dict, set)
        ]
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
    """Carry out the order; the exit status.

    A run that ends by a signal ends the process, and one that raises an exception prints it first. A process that is
    forked meanwhile ends as it does without us.
    """
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    env, before, standard = dict(os.environ), os.getcwd(), (sys.stdin, sys.stdout, sys.stderr)
    pid, exit_process = os.getpid(), os._exit

    def end(status):
        if os.getpid() != pid:
            exit_process(status)
        raise _Ended(status)

    try:
        os.chdir(order["folder"])
        for fd, name in enumerate(("stdin", "stdout", "stderr")):
            opened = os.open(order["streams"][fd], _FLAGS[fd])
            os.dup2(opened, fd)
            os.close(opened)
            stream = open(  # noqa: SIM115 - it stays open
                fd,
                "w" if fd else "r",
                closefd=False,
                errors="backslashreplace" if fd == 2 else None,
            )
            setattr(sys, name, stream)
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


def prepare(order):
    """What an order says of arguments, environment, faults and code that runs first."""
    sys.argv = ["revseq", *order["args"]]
    if "env" in order:
        tempfile.tempdir = None  # what was found with another environment
        os.environ.clear()
        os.environ.update(
            (os.fsdecode(name), os.fsdecode(value)) for name, value in order["env"].items()
        )
    if "thresholds" in order:
        vars(sys.modules["revseq_cli.core.thresholds"]).update(order["thresholds"])
    if "fault" in order:
        faults.install(**order["fault"])
    exec(order.get("code", ""), {})


def run_alone(order, fds):
    """Carry out an order that needs a process of its own, perhaps with descriptors of folder and streams; never returns."""
    if fds:
        os.fchdir(fds[0])
        streams = dict(zip(order["streams"], fds[1:], strict=True))
    else:
        os.chdir(order["folder"])
        streams = {fd: os.open(path, _FLAGS[fd]) for fd, path in enumerate(order["streams"])}
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if fd in streams:
            os.dup2(streams[fd], fd)
            getattr(sys, name).reconfigure(line_buffering=os.isatty(fd) or fd == 2)
        else:
            os.close(fd)
            setattr(sys, name, None)
    os.closerange(3, _HIGH)
    if "umask" in order:
        os.umask(order["umask"])
        resource = importlib.import_module("resource")
        resource.setrlimit(resource.RLIMIT_FSIZE, order["largest"])
    prepare(order)
    from revseq_cli.__main__ import main

    main()


def received(connection):
    """An order, and its descriptors; the process ends where nobody sends any more."""
    head, fds = socket.recv_fds(connection, 8, 4)[:2] if FORKS else (connection.recv(8), [])
    data = bytearray()
    while head and len(data) < int.from_bytes(head, "little"):
        data += connection.recv(int.from_bytes(head, "little") - len(data))
    if not data:
        os._exit(0)
    return marshal.loads(data), fds


def serve(connection, kept):
    """Carry out the orders that come, until one leaves something behind; never returns."""
    while True:
        order, fds = received(connection)
        if FORKS and order.keys() & {"code", "umask"}:
            run_alone(order, fds)
        status = carry_out(order, kept)
        if FORKS and is_something_left():
            os._exit(status)
        connection.sendall(b"=%d" % (status & 0xFFFFFFFF))  # as another process would see it


def is_something_left():
    """Whether there are threads, open files, or processes that this one has started, ended or not."""
    from revseq_cli.core import platform

    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return True
    for fd in range(3, _HIGH):
        with contextlib.suppress(OSError):
            os.fstat(fd)
            return True
    return not platform.can_fork()


def fork_for_each(listener, kept):
    """Fork a process for each connection, and answer for those that end; until whoever started this one is gone."""
    import fcntl

    running = {}  # the connection of each process
    ended, woken = socket.socketpair()
    for each in (ended, woken):
        each.setblocking(False)
    signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([0, listener, ended], [], [])
        if 0 in ready:
            return
        if ended in ready:
            ended.recv(4096)
            with contextlib.suppress(ChildProcessError):  # none is left
                while (found := os.waitpid(-1, os.WNOHANG))[0]:
                    with (
                        running.pop(found[0]) as connection,
                        contextlib.suppress(OSError),
                    ):  # nobody may be there
                        connection.sendall(b"%d" % os.waitstatus_to_exitcode(found[1]))
        if listener in ready:
            connection = listener.accept()[0]
            if pid := os.fork():
                running[pid] = connection
                continue
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            connection = socket.socket(
                fileno=fcntl.fcntl(connection.detach(), fcntl.F_DUPFD_CLOEXEC, _HIGH)
            )
            os.closerange(3, _HIGH)
            serve(connection, kept)


def main(number):
    """Serve at the descriptor of a socket that listens, or to the port of one that waits for this process."""
    modules = load_command()
    if os.name == "nt":
        importlib.import_module("wine").wake_event_loops()
    kept = Kept(modules)
    gc.freeze()
    if FORKS:
        fork_for_each(socket.socket(fileno=number), kept)
        return
    with (
        contextlib.suppress(ConnectionError),
        socket.create_connection(("127.0.0.1", number)) as connection,
    ):
        serve(connection, kept)


if __name__ == "__main__":
    main(int(sys.argv[1]))
