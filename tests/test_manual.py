"""The manual pages, and README as PyPI gets it: what the wheel's build hook makes."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess

import pytest
from conftest import ROOT

from revseq_cli.commands.groups import COMMANDS

pytest.importorskip("hatchling")
SPEC = importlib.util.spec_from_file_location("build_hook", ROOT / "man" / "build.py")
build = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(build)
PAGES = build.pages()


def test_every_command_has_a_page_and_there_are_three_of_reference():
    commands = {"revseq.1", *(f"revseq-{name}.1" for name in COMMANDS)}
    assert {*PAGES} == commands | {"revseq-formats.7", "revseq-porting.7", "revseq-json.7"}


@pytest.mark.skipif(not shutil.which("man"), reason="man is not installed")
@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_has_no_warnings(tmp_path, name):
    path = tmp_path / name
    path.write_text(PAGES[name], encoding="utf-8")
    command = ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not shutil.which("man"), reason="man is not installed")
@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_fits_80_columns(tmp_path, name):
    path = tmp_path / name
    path.write_text(PAGES[name], encoding="utf-8")
    env = os.environ | {"MANWIDTH": "80", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["man", "-l", path], capture_output=True, text=True, check=True, env=env)
    assert [line for line in done.stdout.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("name", [*COMMANDS])
def test_the_page_of_a_command_is_complete(name):
    page = PAGES[f"revseq-{name}.1"]
    headings = re.findall(r"^\.SH (.*)$", page, re.MULTILINE)
    expected = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "FILES", "SEE ALSO"]
    assert [heading for heading in headings if heading in expected] == expected
    assert ".B revseq" in page


def test_the_readme_of_the_package_refers_to_no_file_of_the_repository():
    metadata = {}
    build.PackageReadme(str(ROOT), {}).update(metadata)
    text = metadata["readme"]["text"]
    assert "reverses sequences in tensor files" in text
    assert not re.findall(r"\]\((?!https?:)", text)


def test_a_long_command_goes_on_in_the_next_line_but_not_within_quotes():
    command = "$ revseq run " + '"[[1, 2, 3, 0], [5, 6, 0, 0]]" ' * 3 + "--mask --axis 1"
    lines = build.continued(command)
    assert len(lines) > 1
    assert max(map(len, lines)) <= build.WIDTH
    assert all(line.endswith(" \\") and line.count('"') % 2 == 0 for line in lines[:-1])
    assert shlex.split("".join(line.removesuffix("\\") for line in lines)) == shlex.split(command)


def test_an_empty_cell_of_a_table_is_left_out():
    page = build.table("| system | length 0 | remarks |\n|---|---|---|\n| TVM | no change | |")
    assert page == ".TP\nTVM\nlength 0: no change"
