"""README and the manual, executed: what makes the files of a section, and every command in it with what it prints."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT, environment

from revseq_cli.commands import journal

PAGES = ["README.md", *(f"man/{path.name}" for path in sorted((ROOT / "man").glob("*.md")))]
# What differs from run to run: seconds in the last column of a table, and the room on a disk.
VARYING = [(r"\d+\.\d\d(?= │\n)", "0.00"), (r"^/.*: (.* bytes needed), .* bytes free$", r"\1")]

# The packages of commands, which are extras, by words in them.
PACKAGES = {"$ dask": "distributed", "--on ": "onnxruntime", "--feed ": "onnxruntime"}


def sections():
    """Each section with commands, by its page and title: it needs nothing of those before it."""
    for page in PAGES:
        for section in re.split(r"^(?=## )", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE):
            if "```console" in section:
                yield pytest.param(section, id=f"{page}: {section.partition(chr(10))[0].strip('# ')}")


def blocks(section, language):
    return "".join(re.findall(rf"^```{language}\n(.*?)^```$", section, re.DOTALL | re.MULTILINE))


def steady(text):
    for pattern, new in VARYING:
        text = re.sub(pattern, new, text, flags=re.MULTILINE)
    return text


@pytest.mark.needs("shell")
@pytest.mark.parametrize("section", [*sections()])
def test_every_command_prints_what_stands_below_it(forked, tmp_path, section):
    console, code = blocks(section, "console"), blocks(section, "python")
    used = {package for words, package in PACKAGES.items() if words in console}
    for package in used | {*re.findall(r"^import (\w+)", code, re.MULTILINE)}:
        pytest.importorskip(package)
    shutil.copytree(ROOT / "samples", tmp_path / "samples")
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    time.sleep(3 * journal._TICK / 1e9)  # a batch notes no job whose files changed just before it
    commands = re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", console, re.MULTILINE)
    assert len(commands) == len(re.findall(r"^\$ ", console, re.MULTILINE)) > 0
    folders = [Path(forked.command[0]).parent, Path(sys.executable).parent, os.environ["PATH"]]
    env = environment({"PATH": os.pathsep.join(map(str, folders))})
    started = []
    try:
        for command, expected in commands:
            process = subprocess.Popen(
                command, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                cwd=tmp_path, env=env, start_new_session=True,
            )  # fmt: skip
            started.append(process.pid)
            assert steady("".join(process.communicate())) == steady(expected), command
    finally:
        for group in started:  # what a command has left in the background
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
