"""A text is read once, and each body in it once, whatever it is and whichever command reads it."""

import io
import json
import sys
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import SAMPLES

from revseq_cli.commands.cli import cli
from revseq_cli.formats import pipes, textfiles
from revseq_cli.text import notation, numbers

TENSOR = "InputTensor: (Sizes:{2,3}, DataType:FLOAT32)\n[[1, 2, 3],\n [4, 5, 6]]\n"
EXAMPLE = (SAMPLES / "example1.txt").read_text()
PAGE = (SAMPLES / "page.md").read_text()
NESTED = "[[1, 2, 3], [4, 5, 6]]"
OBJECT = json.dumps({"DataType": "FLOAT32", "Values": json.loads(NESTED)})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Inputs of every kind."""
    texts = {
        "x.txt": TENSOR,
        "bare.txt": NESTED,
        "example.txt": EXAMPLE,
        "page.md": PAGE,
        "x.json": NESTED,
        "object.json": OBJECT,
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    np.save(tmp_path / "lengths.npy", np.array([[2], [3]], np.uint32))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def counts(folder, monkeypatch):
    """How often each text was read and decoded, and by how many parses and bodies its tensors were found."""
    counts = Counter()

    def count(module, name, key):
        function = getattr(module, name)

        def counted(*args, **options):
            counts[key(args)] += 1
            return function(*args, **options)

        monkeypatch.setattr(module, name, counted)

    count(textfiles, "decoded", lambda args: args[1])
    count(numbers, "load", lambda _: "JSON")
    count(notation, "parse", lambda _: "notation")
    count(notation, "_read_body", lambda args: f"body of {args[0].name}")
    pipes.contents.cache_clear()
    yield counts
    pipes.contents.cache_clear()


ONE = {"notation": 1, "body of InputTensor": 1}
JOB = {"notation": 1, "body of InputTensor": 1, "body of SequenceTensor": 1}
WHOLE = JOB | {"body of OutputTensor": 1}
LENGTHS = ("lengths.npy", "--axis", "1")


@pytest.mark.parametrize(
    ("args", "name", "parses"),
    [
        (("run", "x.txt", *LENGTHS), "x.txt", ONE),
        (("run", "bare.txt", *LENGTHS), "bare.txt", {"notation": 1, "body of ": 1}),
        (("run", "x.json", *LENGTHS), "x.json", {"JSON": 1, "body of ": 1}),
        (("run", "object.json", *LENGTHS), "object.json", {"JSON": 1, "body of ": 1}),
        (("run", "object.json", *LENGTHS, "-o", "y.json"), "object.json", {"JSON": 1, "body of ": 1}),  # the output is not read again
        (("run", "x.txt", *LENGTHS, "-o", "y.txt"), "x.txt", ONE),
        (("run", "example.txt"), "example.txt", JOB),
        (("run", "page.md::2"), "page.md", JOB),
        (("check", "x.txt", *LENGTHS), "x.txt", ONE),
        (("check", "page.md::1"), "page.md", JOB),
        (("show", "x.txt"), "x.txt", ONE),
        (("show", "x.json"), "x.json", {"JSON": 1, "body of ": 1}),
        (("show", "page.md::2"), "page.md", WHOLE),
        (("convert", "x.txt", "y.npy"), "x.txt", ONE),
        (("convert", "x.txt", "y.json"), "x.txt", ONE),
        (("diff", "x.txt", "[[1, 2, 3], [4, 5, 6]]"), "x.txt", {"notation": 2, "body of InputTensor": 1, "body of ": 1}),
    ],
)  # fmt: skip
def test_a_file(counts, args, name, parses):
    cli.main(list(args), standalone_mode=False)
    assert counts == {name: 1, **parses}


@pytest.mark.parametrize(
    ("args", "file", "parses"),
    [
        (("run", "-", *LENGTHS), "x.txt", ONE),
        (
            ("run", "-", *LENGTHS),
            "object.json",
            {"notation": 1, "JSON": 1, "body of ": 1},
        ),  # it may be a page that begins with {
        (("run", "-"), "example.txt", JOB),
        (("run", "--", "-::2"), "page.md", JOB),
        (("show", "-"), "x.txt", ONE),
    ],
)
def test_standard_input(counts, folder, monkeypatch, args, file, parses):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO((folder / file).read_bytes())))
    cli.main(list(args), standalone_mode=False)
    assert counts == {"standard input": 1, **parses}
