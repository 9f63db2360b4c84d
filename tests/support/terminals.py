"""The command on a terminal; and a shell on one, what is typed there, and what reaches the command that it starts."""

import contextlib
import os
import select
import signal
import struct
import subprocess
import time

from conftest import environment
from needs import fcntl, pty, termios

_PROMPT = b"READY> "
_SECONDS = 120  # after which a shell that does not answer is given up
# How each shell is started, and the file that it reads first; what it has to say in that file to complete.
_BEGIN = {
    "bash": (["bash", "--noprofile", "--rcfile", "rc", "-i"], "rc", 'PS1="READY> "; eval "$(revseq completion bash)"'),
    "zsh": (
        ["zsh", "-i"], ".zshrc",
        'PS1="READY> "; PROMPT_SP=; autoload -Uz compinit; compinit -u -D; eval "$(revseq completion zsh)"',
    ),
    "zsh without compinit": (["zsh", "-i"], ".zshrc", 'PS1="READY> "; PROMPT_SP=; eval "$(revseq completion zsh)"'),
    "fish": (
        ["fish", "-i"], "fish/config.fish",
        "function fish_prompt; printf 'READY> '; end; function fish_greeting; end; revseq completion fish | source",
    ),
}  # fmt: skip
# The command that the shell starts answers completions, and else leaves its arguments for the test.
_STAND_IN = """\
#!/bin/sh
if [ -n "$_REVSEQ_COMPLETE" ] || [ "$1" = completion ]; then exec '{command}' "$@"; fi
for each; do printf '%s\\000' "$each"; done > "$HOME/arguments.new"
mv "$HOME/arguments.new" "$HOME/arguments"
"""


class Shell:
    """An interactive shell in a folder of its own, where `revseq` is completed; its settings lie in another one."""

    def __init__(self, name, home, folder, command):
        self._arguments = home / "arguments"
        begin, file, text = _BEGIN[name]
        (home / file).parent.mkdir(exist_ok=True)
        (home / file).write_text(f"{text}\n")
        (home / "bin").mkdir()
        # Without it fish makes completions of all man pages, in a process that goes on for a minute.
        (home / "fish" / "generated_completions").mkdir(parents=True)
        (home / "bin" / "revseq").write_text(_STAND_IN.format(command=command))
        (home / "bin" / "revseq").chmod(0o755)
        env = environment({
            "HOME": str(home), "ZDOTDIR": str(home), "XDG_CONFIG_HOME": str(home), "XDG_DATA_HOME": str(home),
            "PATH": f"{home / 'bin'}:{os.environ['PATH']}", "TERM": "vt100", "LC_ALL": "C.UTF-8",
        })  # fmt: skip
        begin = [str(home / word) if word == "rc" else word for word in begin]
        self._process, self._terminal = pty.fork()
        if not self._process:
            os.chdir(folder)
            os.execvpe(begin[0], begin, env)
        self._seen = b""
        self._until(lambda: _PROMPT in self._seen)

    def _until(self, condition):
        deadline = time.monotonic() + _SECONDS
        while not condition():
            assert time.monotonic() < deadline, self._seen[-2000:]
            if select.select([self._terminal], [], [], 0.02)[0]:
                self._seen += os.read(self._terminal, 65536)

    def arguments(self, *typed):
        """What the command gets when each of that is typed with TAB behind it, and then Enter."""
        self._arguments.unlink(missing_ok=True)
        self._seen = b""
        os.write(self._terminal, "\t".join(typed).encode() + b"\r")
        self._until(self._arguments.exists)
        return self._arguments.read_bytes().decode().split("\0")[:-1]

    def close(self):
        """End it."""
        os.close(self._terminal)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)


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
    done = subprocess.Popen([*map(str, args)], stdout=sub, stderr=subprocess.PIPE, cwd=cwd, env=environment)
    os.close(sub)
    out = everything_on(main)
    _, err = done.communicate()
    return done.returncode, out.decode().replace("\r\n", "\n"), err.decode()


def in_columns(columns, *args, cwd, env=()):
    """All that the command writes on a terminal of so many columns, on standard output and standard error."""
    main, sub = pty.openpty()
    fcntl.ioctl(sub, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    variables = {
        k: v for k, v in environment({"TERM": "xterm-256color"} | dict(env)).items() if k not in ("COLUMNS", "LINES")
    }
    done = subprocess.Popen([*map(str, args)], stdin=sub, stdout=sub, stderr=sub, cwd=cwd, env=variables)
    os.close(sub)
    out = everything_on(main)
    done.wait()
    return out.decode().replace("\r\n", "\n")
