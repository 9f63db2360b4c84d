"""The samples as golden cases: accepted ones give their OutputTensor, refused ones their message."""

import numpy as np
import onnx
import pytest
from conftest import ROOT, SAMPLES

import samples

PICTURE = ("run", "page.md::1", "--picture")


@pytest.fixture(scope="session", autouse=True)
def rewritten(request):
    """Write the samples anew where that is asked for."""
    if request.config.getoption("--rewrite-samples"):
        import subprocess

        from conftest import COMMAND

        def message_of(path, options):
            command = [*COMMAND, "run", path.relative_to(ROOT), *options]
            return subprocess.run(command, cwd=ROOT, capture_output=True, check=False, text=True).stderr

        samples.write(SAMPLES, message_of)
        subprocess.run([*COMMAND, *PICTURE, "page-1.svg", "--overwrite"], cwd=SAMPLES, capture_output=True, check=True)


@pytest.mark.parametrize("name", [*samples.EXAMPLES, *(f"accepted/{name}" for name in samples.ACCEPTED)])
def test_accepted(revseq, name):
    """--example prints the file itself again, to the letter."""
    path = SAMPLES / f"{name}.txt"
    assert revseq("run", path, "--example").ok().out == path.read_text()


@pytest.mark.parametrize("name", samples.REFUSED)
def test_refused(revseq, name):
    path = f"samples/refused/{name}.txt"
    done = revseq("run", path, *samples.REFUSED[name][1], cwd=ROOT).refused(path)
    assert done.err == (ROOT / path).with_suffix(".err").read_text()


@pytest.mark.parametrize("name", samples.EXAMPLES)
@pytest.mark.parametrize(
    ("values", "lengths"),
    [("{}.npy", "{}-lengths.npy"), ("{}.json", "{}-lengths.json"), ("{}.h5::input", "{}.h5::/lengths"),
     ("{}.txt::InputTensor", "{}.txt::SequenceTensor"), ("{}.npy", "{}.h5::lengths")],
)  # fmt: skip
def test_examples_in_every_format(revseq, name, values, lengths):
    axis = samples.EXAMPLES[name][2]
    done = revseq("run", values.format(name), lengths.format(name), "--axis", axis, cwd=SAMPLES).ok()
    text = (SAMPLES / f"{name}.txt").read_text()
    assert done.out == text[text.index("OutputTensor") :]


@pytest.mark.parametrize("name", samples.EXAMPLES)
def test_the_pages_numbers(name):
    values, lengths, axis = samples.EXAMPLES[name]
    expected = {
        "example1": [[[[2, 1, 3, 4], [8, 7, 6, 5], [11, 10, 9, 12]]]],
        "example2": [[[[5, 10, 3, 4], [1, 6, 7, 8], [9, 2, 11, 12]]]],
    }[name]
    import oracle

    assert oracle.reverse(values, lengths, axis).tolist() == expected
    assert np.load(SAMPLES / f"{name}.npy").tolist() == values.tolist()


def test_the_onnx_sample(revseq, tmp_path):
    """It is current, ONNX's checker takes the model, and the command its tensors."""
    samples.write_onnx_test(tmp_path, *samples.ONNX_TEST)
    paths = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    assert len(paths) == 4
    assert all((tmp_path / path).read_bytes() == (SAMPLES / "onnx" / path).read_bytes() for path in paths)
    onnx.checker.check_model(SAMPLES / "onnx" / "model.onnx", full_check=True)
    revseq("verify", "samples/onnx", "samples/onnx/test_data_set_0", cwd=ROOT).ok()


def test_the_picture_of_the_readme(revseq, tmp_path):
    """The same bytes, wherever and whenever it is drawn."""
    revseq(*PICTURE, tmp_path / "x.svg", cwd=SAMPLES).ok()
    assert (tmp_path / "x.svg").read_bytes() == (SAMPLES / "page-1.svg").read_bytes()
