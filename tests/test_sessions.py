"""README and the manual, typed: every command in them, with what it prints."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, environment

PAGES = ["README.md", *(f"man/{path.name}" for path in sorted((ROOT / "man").glob("*.md")))]


def sections():
    """Each section with commands, by its page and title: it needs nothing of those before it."""
    for page in PAGES:
        for section in re.split(
            r"^(?=## )", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE
        ):
            if "```console" in section:
                yield pytest.param(
                    section, id=f"{page}: {section.partition(chr(10))[0].strip('# ')}"
                )


def steady(text):
    """The text without what differs from run to run: how long it took."""
    return re.sub(r"\d+\.\d\d s$", "0.00 s", text, flags=re.MULTILINE)


@pytest.mark.needs("shell")
@pytest.mark.parametrize("section", [*sections()])
def test_every_command_prints_what_stands_below_it(forked, tmp_path, section):
    console = "".join(re.findall(r"^```console\n(.*?)^```$", section, re.DOTALL | re.MULTILINE))
    shutil.copytree(ROOT / "samples", tmp_path / "samples")
    commands = re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", console, re.MULTILINE)
    assert len(commands) == len(re.findall(r"^\$ ", console, re.MULTILINE)) > 0
    folders = [Path(forked.command[0]).parent, Path(sys.executable).parent, os.environ["PATH"]]
    env = environment({"PATH": os.pathsep.join(map(str, folders))})
    for command, expected in commands:
        done = subprocess.run(
            ["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            cwd=tmp_path, env=env, check=False,
        )  # fmt: skip
        if "| fmt " in command:  # whose versions break lines at other words
            assert done.stdout.split() == expected.split(), command
        else:
            assert steady(done.stdout) == steady(expected), command
