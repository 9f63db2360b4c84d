"""The samples: what they hold is right, current, and the same in every format."""

import numpy as np
import oracle
import pytest
from conftest import SAMPLES

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
