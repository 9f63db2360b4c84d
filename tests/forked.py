"""Runs the command in processes that are forked from one which has imported it: that takes a twentieth of the time.

`Server` starts that process, which listens on a socket. An order is what `marshal` makes of a dictionary: arguments,
which of the three standard streams there are, and what else the process is to have. The descriptors of its folder and
of those streams come with it. The answer is the exit status, or minus the signal.
"""

import contextlib
import importlib
import marshal
import os
import pkgutil
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import faults

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
    """The process. It starts with the first order, and anew after one that was given up, as by the test's timeout.

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

    def status(self, order, folder, streams):
        """Carry the order out in a folder with the three streams, which are paths; the exit status, or minus the signal."""
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


def child(order, folder, *streams):
    """Never returns."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.fchdir(folder)
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if fd in order["streams"]:
            os.dup2(streams[order["streams"].index(fd)], fd)
            getattr(sys, name).reconfigure(line_buffering=os.isatty(fd) or fd == 2)
        else:
            os.close(fd)
            setattr(sys, name, None)
    os.closerange(3, 64)
    sys.argv = ["revseq", *order["args"]]
    if "env" in order:
        tempfile.tempdir = None  # what was found with another environment
        os.environ.clear()
        os.environ.update((os.fsdecode(name), os.fsdecode(value)) for name, value in order["env"].items())
    if "umask" in order:
        os.umask(order["umask"])
    for kind, limits in order.get("limits", ()):
        resource.setrlimit(kind, limits)
    if "fault" in order:
        faults.install(**order["fault"])
    exec(order.get("code", ""), {})
    from revseq_cli.__main__ import main

    main()


def answer(running):
    """Tell those who wait for a command that has ended."""
    while running and (found := os.waitpid(-1, os.WNOHANG))[0]:
        with running.pop(found[0]) as connection, contextlib.suppress(OSError):  # nobody may be there any more
            connection.sendall(str(os.waitstatus_to_exitcode(found[1])).encode())


def load(package):
    """Import all modules of a package, but for those of another system."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if module.name not in ("revseq_cli.ground.windows", "revseq_cli.ground.kernel32"):
            importlib.import_module(module.name)


def serve(listener):
    """Until whoever started it is gone."""
    import revseq_cli

    load(revseq_cli)  # so that a run takes a moment, and no import is what fails
    for name in ("rich.console", "rich.table", "zarr"):
        with contextlib.suppress(ImportError):  # zarr is an extra
            importlib.import_module(name)
    ended, woken = socket.socketpair()
    for each in (ended, woken):
        each.setblocking(False)
    signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running = {}
    while True:
        ready, _, _ = select.select([0, listener, ended], [], [])
        if 0 in ready:
            return
        if ended in ready:
            ended.recv(4096)
            answer(running)
        if listener in ready:
            connection, _ = listener.accept()
            order, fds = received(connection)
            pid = os.fork()
            if not pid:
                child(order, *fds)
            running[pid] = connection
            for fd in fds:
                os.close(fd)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
