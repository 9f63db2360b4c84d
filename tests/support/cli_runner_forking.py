"""Runs the command in processes that are forked from one which has imported it, or again in one that was.

`Server` starts that process, which listens on a socket. An order is what `marshal` makes of a dictionary: arguments,
which of the three standard streams there are, and what else the process is to have. The descriptors of its folder and
of those streams come with it. The answer is the exit status, or minus the signal.

Orders that ask for nothing special are carried out one after another by a process that stays, see tests/support/cli_runner.py, as
long as each leaves no thread, process or open descriptor behind; then another one is forked.
"""

import contextlib
import fcntl
import gc
import marshal
import os
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import cli_runner

from revseq_cli.core import platform

_LENGTH = struct.Struct("<q")
_HIGH = 64  # descriptors from here on are ours in a process that carries out orders
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
limits = [(kind, resource.getrlimit(kind)) for kind in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE)]
order = {{"args": sys.argv[1:], "streams": streams, "umask": posix.umask(0), "env": dict(posix.environ), "limits": limits}}
fds = b"".join(fd.to_bytes(4, sys.byteorder) for fd in (posix.open(".", posix.O_RDONLY), *streams))
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect({address!r})
server.sendmsg([b"+"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fds)])
server.sendall(marshal.dumps(order))
server.shutdown(_socket.SHUT_WR)
status = int(server.recv(16))
if status < 0:
    _signal.signal(-status, _signal.SIG_DFL)
    posix.kill(posix.getpid(), -status)
posix._exit(status)
"""


class Server:
    """The process. It starts anew after an order that was given up, as by the test's timeout.

    `command` begins with a program that shells and others can start.
    """

    def __init__(self, env):
        self._env, self._process = env, None
        self._folder = tempfile.mkdtemp(prefix="forked-")  # a short name, as a socket's must be
        self._address = f"{self._folder}/socket"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self._address)
        self._listener.listen(64)
        program = Path(self._folder, "revseq")
        program.write_text(_PROGRAM.format(python=sys.executable, address=self._address))
        program.chmod(0o755)
        self.command = [str(program)]
        self._start()

    def _start(self):
        fd = self._listener.fileno()
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(fd)], stdin=-1, env=self._env, start_new_session=True, pass_fds=(fd,)
        )

    def status(self, order, folder, streams, timeout=None):
        """Carry the order out in a folder with the three streams, which are paths; the exit status, or minus the signal.

        TimeoutError after so many seconds.
        """
        flags = (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)
        with contextlib.ExitStack() as stack, socket.socket(socket.AF_UNIX) as connection:
            fds = [os.open(path, how) for path, how in zip((folder, *streams), (os.O_RDONLY, *flags), strict=True)]
            for fd in fds:
                stack.callback(os.close, fd)
            try:
                connection.connect(self._address)
                socket.send_fds(connection, [b"+"], fds)
                connection.sendall(marshal.dumps(order | {"streams": [0, 1, 2]}))
                connection.shutdown(socket.SHUT_WR)
                connection.settimeout(timeout)
                return int(connection.recv(16))
            except BaseException:
                self._kill()
                self._start()
                raise

    def _kill(self):
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def end(self):
        """End it, and the commands that it may be carrying out."""
        self._kill()
        self._listener.close()
        shutil.rmtree(self._folder)


def received(connection):
    """An order, and its descriptors."""
    _, fds, _, _ = socket.recv_fds(connection, 1, 4)
    data = bytearray()
    while piece := connection.recv(65536):
        data += piece
    return marshal.loads(data), fds


def is_plain(order):
    """Whether it needs no process of its own."""
    return order.keys() <= {"args", "env", "fault", "streams", "thresholds"}


def child(order, folder, *streams):
    """Carry the order out; never returns."""
    os.fchdir(folder)
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if fd in order["streams"]:
            os.dup2(streams[order["streams"].index(fd)], fd)
            getattr(sys, name).reconfigure(line_buffering=os.isatty(fd) or fd == 2)
        else:
            os.close(fd)
            setattr(sys, name, None)
    os.closerange(3, _HIGH)
    if "umask" in order:
        os.umask(order["umask"])
    for kind, limits in order.get("limits", ()):
        resource.setrlimit(kind, limits)
    cli_runner.prepare(order)
    from revseq_cli.__main__ import main

    main()


def staying(line, kept):
    """Carry out the orders that come on the line, until one leaves something behind; never returns."""
    line = socket.socket(fileno=fcntl.fcntl(line.detach(), fcntl.F_DUPFD_CLOEXEC, _HIGH))
    os.closerange(3, _HIGH)
    while True:
        length, fds, _, _ = socket.recv_fds(line, _LENGTH.size, 4)
        if not length:
            os._exit(0)
        order = marshal.loads(line.recv(_LENGTH.unpack(length)[0], socket.MSG_WAITALL))
        folder, *streams = fds
        status = cli_runner.carry_out(order, folder, streams, kept)
        if not platform.can_fork() or has_children() or has_files():
            os._exit(status)
        line.sendall(bytes([status]))


def has_children():
    """Whether there are processes that this one has started, ended or not."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def has_files():
    """Whether a run has left a descriptor open."""
    for fd in range(3, _HIGH):
        with contextlib.suppress(OSError):
            os.fstat(fd)
            return True
    return False


class Commands:
    """The commands that are being carried out, and the processes that stay."""

    def __init__(self):
        self._kept = cli_runner.Kept(cli_runner.load_command())
        gc.freeze()
        self._running = {}  # for each process, the connection on which to answer
        self.lines = {}  # the lines to processes that stay, and their numbers
        self._idle = []  # lines on which an order can be sent

    def begin(self, connection):
        """Let a process carry out the order that comes."""
        order, fds = received(connection)
        if is_plain(order):
            line = self._idle.pop() if self._idle else self._fork_one_that_stays()
            data = marshal.dumps(order)
            socket.send_fds(line, [_LENGTH.pack(len(data))], fds)
            line.sendall(data)
            self._running[self.lines[line]] = connection
        else:
            self._running[self._fork(child, order, *fds)] = connection
        for fd in fds:
            os.close(fd)

    def _fork_one_that_stays(self):
        ours, theirs = socket.socketpair()
        with theirs:
            self.lines[ours] = self._fork(staying, theirs, self._kept)
        return ours

    def _fork(self, function, *args):
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            function(*args)
        return pid

    def hear(self, line):
        """A process that stays has carried out its order, or has ended."""
        if status := line.recv(1):
            self._answer(self.lines[line], status[0])
            self._idle.append(line)
        else:
            del self.lines[line]
            self._idle = [each for each in self._idle if each is not line]
            line.close()

    def bury(self):
        """Answer for the processes that have ended."""
        with contextlib.suppress(ChildProcessError):  # none is left
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                self._answer(found[0], os.waitstatus_to_exitcode(found[1]))

    def _answer(self, pid, status):
        if connection := self._running.pop(pid, None):
            with connection, contextlib.suppress(OSError):  # nobody may be there any more
                connection.sendall(str(status).encode())


def serve(listener):
    """Until whoever started it is gone."""
    commands = Commands()
    ended, woken = socket.socketpair()
    for each in (ended, woken):
        each.setblocking(False)
    signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([0, listener, ended, *commands.lines], [], [])
        if 0 in ready:
            return
        for line in commands.lines.keys() & set(ready):
            commands.hear(line)
        if ended in ready:
            ended.recv(4096)
            commands.bury()
        if listener in ready:
            commands.begin(listener.accept()[0])


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
