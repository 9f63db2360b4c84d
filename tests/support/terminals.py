"""The command on a terminal."""

import contextlib
import os
import select
import struct
import subprocess
import time

from conftest import environment
from needs import fcntl, pty, termios


def everything_on(main):
    """What is written to a terminal until the last program lets go of it; the terminal is closed then."""
    out = b""
    with contextlib.suppress(OSError):  # Linux's end of file on a terminal
        while piece := os.read(main, 65536):
            out += piece
    os.close(main)
    return out


def on_terminal(*args, cwd, env=()):
    """What the command writes where standard output is a terminal: its status, that, and standard error."""
    main, sub = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "200"} | dict(env)
    done = subprocess.Popen(
        [*map(str, args)], stdout=sub, stderr=subprocess.PIPE, cwd=cwd, env=environment
    )
    os.close(sub)
    out = everything_on(main)
    _, err = done.communicate()
    return done.returncode, out.decode().replace("\r\n", "\n"), err.decode()


def in_columns(columns, *args, cwd, env=()):
    """All that the command writes on a terminal of so many columns, on standard output and standard error."""
    main, sub = pty.openpty()
    fcntl.ioctl(sub, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    variables = {
        k: v
        for k, v in environment({"TERM": "xterm-256color"} | dict(env)).items()
        if k not in ("COLUMNS", "LINES")
    }
    done = subprocess.Popen(
        [*map(str, args)], stdin=sub, stdout=sub, stderr=sub, cwd=cwd, env=variables
    )
    os.close(sub)
    out = everything_on(main)
    done.wait()
    return out.decode().replace("\r\n", "\n")


class Screen:
    """A program on a terminal of 80 columns, to which a test types."""

    def __init__(self, command, folder, env):
        self._main, sub = pty.openpty()
        fcntl.ioctl(sub, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self._process = subprocess.Popen(
            command,
            stdin=sub,
            stdout=sub,
            stderr=sub,
            cwd=folder,
            env=env,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # fish asks for one
        )
        os.close(sub)
        self.shown = ""

    def type(self, text):
        """Type some text, of which a tab and a carriage return are keys."""
        self.shown = ""
        os.write(self._main, text.encode())

    def wait_for(self, words, seconds=60):
        """Wait until the words are shown; what is typed is shown, too."""
        end = time.monotonic() + seconds
        while words not in self.shown:
            ready, _, _ = select.select([self._main], [], [], max(0, end - time.monotonic()))
            assert ready, self.shown
            self.shown += os.read(self._main, 65536).decode(errors="replace")

    def end(self):
        """Kill the program."""
        self._process.kill()
        self._process.wait()
        os.close(self._main)
