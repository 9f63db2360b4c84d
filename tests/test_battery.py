"""The battery of tests/battery.py: every job ends as it says and leaves the same bytes on every system.

`pytest --battery FOLDER` writes what the jobs left to a folder, or holds it against what another system wrote there.
"""

import json

import battery
import pytest


@pytest.mark.parametrize("section", battery.SECTIONS)
def test_the_battery(revseq, tmp_path, request, section):
    battery.make_inputs(tmp_path)
    left = {line: battery.left_by(tmp_path, line, revseq) for line in battery.SECTIONS[section]}
    if kept := request.config.getoption("--battery"):
        file = kept / f"{section}.json"
        if not file.exists():
            file.write_text(json.dumps(left, indent=1))
        there = json.loads(file.read_text())
        assert {line: left[line] for line in left if left[line] != there[line]} == {}


def test_there_are_jobs_enough():
    assert sum(map(len, battery.SECTIONS.values())) >= 200
