"""The samples: what they hold is right, current, and the same in every format."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import oracle
import pytest
from conftest import SAMPLES, environment

# The reference page's two examples: input, lengths, axis, output.
INPUT = np.arange(1, 13, dtype=np.float32).reshape(1, 1, 3, 4)
EXAMPLES = {
    "example1": (
        INPUT,
        np.array([[[[2], [4], [3]]]], np.uint32),
        3,
        [[[[2, 1, 3, 4], [8, 7, 6, 5], [11, 10, 9, 12]]]],
    ),
    "example2": (
        INPUT,
        np.array([[[[2, 3, 1, 0]]]], np.uint32),
        2,
        [[[[5, 10, 3, 4], [1, 6, 7, 8], [9, 2, 11, 12]]]],
    ),
}
# README's picture: two sequences, and the padding behind them.
PICTURE = (
    "run",
    "[[1, 2, 3, 0, 0], [4, 5, 6, 7, 0]]",
    "[3, 4]",
    "--axis",
    "1",
    "--batch-axis",
    "0",
    "--picture",
)


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize(
    ("values", "lengths"),
    [("{}.npy", "{}-lengths.npy"), ("{}.json", "{}-lengths.json"), ("{}.h5::input", "{}.h5::/lengths"),
     ("{}.txt::InputTensor", "{}.txt::SequenceTensor"), ("{}.npy", "{}.h5::lengths")],
)  # fmt: skip
def test_examples_in_every_format(revseq, name, values, lengths):
    """--example prints the text itself again, to the letter."""
    x, n, axis, y = EXAMPLES[name]
    assert np.load(SAMPLES / f"{name}.npy").tolist() == x.tolist()
    assert oracle.reverse(x, n, axis).tolist() == y
    job = (values.format(name), lengths.format(name), "--axis", axis)
    text = (SAMPLES / f"{name}.txt").read_text()
    assert revseq("run", *job, "--example", cwd=SAMPLES).ok().out == text
    assert revseq("run", *job, cwd=SAMPLES).ok().out == text[text.index("OutputTensor") :]


def test_the_picture_of_the_readme(revseq, tmp_path):
    """The same bytes, wherever and whenever it is drawn."""
    revseq(*PICTURE, tmp_path / "x.svg", cwd=SAMPLES).ok()
    assert (tmp_path / "x.svg").read_bytes() == (SAMPLES / "picture.svg").read_bytes()


@pytest.mark.needs("shell")
def test_the_cast_of_the_readme(forked, tmp_path):
    """What the commands print today, in a small picture that needs nothing else."""
    path = f"{Path(forked.command[0]).parent}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "cast.py"]
    done = subprocess.run(
        command,
        cwd=SAMPLES,
        env=environment({"PATH": path}),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == (SAMPLES / "cast.svg").read_text(encoding="utf-8")
    assert len(done.stdout) < 60_000
    assert not re.search(r"<script|@import|url\(|href", done.stdout)
