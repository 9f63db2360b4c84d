"""The road of revseq-porting(7), step by step: from a model's tensors to DirectML and back."""

import json
import re
import shlex
import shutil

import dxdispatch
import numpy as np
import oracle
import pytest
from conftest import ROOT, SAMPLES

import samples

PAGE = (ROOT / "man" / "porting.md").read_text()
STEPS = [
    shlex.split(command.replace("\\\n", ""))
    for command in re.findall(r"^\$ revseq ((?:.*\\\n)*.*)$", PAGE, re.MULTILINE)
]
RIGHT = oracle.expected(samples.PORT[0], np.repeat(samples.PORT[1], 2).reshape(3, 1, 2), 1)


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(SAMPLES, tmp_path / "samples")
    return tmp_path


def test_the_road(revseq, folder):
    ask, level, run, export, compare, here, *_, onnx = STEPS  # a model that the page makes: tests/test_sessions.py
    hint = re.search(
        r"^Hint: (?:if the first is meant: )?revseq (.*)$", revseq(*ask).refused("no axis is given").err, re.MULTILINE
    )
    assert revseq(*shlex.split(hint[1])).ok().out.startswith("DML_FEATURE_LEVEL_5_0 accepts it")
    assert revseq(*level).ok().out.startswith("DirectML accepts it from DML_FEATURE_LEVEL_4_0 on")
    revseq(*run).ok()
    assert oracle.same_bits(np.load(folder / "right.npy"), RIGHT)
    revseq(*export).ok()
    dxdispatch.run(folder, "job.json")
    assert oracle.same_bits(np.load(folder / "job.OutputTensor.npy"), RIGHT)
    printed = re.search(r"^  revseq (diff .*)$", PAGE, re.MULTILINE)[1]
    assert "equal, 30 elements" in revseq(*shlex.split(printed)).ok().out
    done = revseq(*compare, "--json")
    assert done.status == 1
    assert json.loads(done.out)["mistakes"] == [{"id": "minus", "text": "lengths are one too small", "lines": 6}]
    assert "equal, 30 elements" in revseq(*here[: here.index("|")]).ok().out
    assert revseq(*onnx).ok().out.endswith("1 example, 0 wrong\n")
