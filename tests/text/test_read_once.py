"""A text is read and decoded once, whatever it is and whichever command reads it."""

import io
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import SAMPLES

from revseq_cli import pages
from revseq_cli.commands.cli import cli
from revseq_cli.formats import references
from revseq_cli.formats import text as texts

NESTED = "[[1, 2, 3], [4, 5, 6]]"
TEXTS = {
    "x.txt": f"InputTensor: (Sizes:{{2,3}}, DataType:FLOAT32)\n{NESTED}\n",
    "bare.txt": NESTED, "x.json": NESTED, "object.json": json.dumps({"DataType": "FLOAT32", "Values": json.loads(NESTED)}),
    "example.txt": (SAMPLES / "example1.txt").read_text(), "page.md": (SAMPLES / "page.md").read_text(),
}  # fmt: skip


@pytest.mark.parametrize("piped", [False, True])
@pytest.mark.parametrize(
    "line",
    [
        *(f"run {name} lengths.npy --axis 1" for name in ("x.txt", "bare.txt", "x.json", "object.json")), "run example.txt",
        "run page.md::2", "check page.md::1", "show x.txt", "show page.md::2", "convert x.txt y.npy", "convert object.json y.json",
        "verify page.md", "verify page.md::2", f"diff x.txt {NESTED.replace(' ', '')}",
    ],
)  # fmt: skip
def test_once(tmp_path, monkeypatch, line, piped):
    reads = []

    def counted(data, name, *rest, text_of=texts.text_of):
        reads.append(name)
        return text_of(data, name, *rest)

    monkeypatch.setattr(texts, "text_of", counted)
    monkeypatch.setattr(pages, "text_of", counted)
    monkeypatch.chdir(tmp_path)
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text)
    np.save(tmp_path / "lengths.npy", np.array([[2], [3]], np.uint32))
    command, name, *rest = line.split()
    path, _, key = name.partition("::")
    references.piped.cache_clear()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO((tmp_path / path).read_bytes())))
    typed = "-" if not key else f"-::{key}"
    cli.main([command, *rest[1:], "--", typed, *rest[:1]] if piped else [command, name, *rest], standalone_mode=False)
    references.piped.cache_clear()
    assert reads == ["standard input" if piped else path]
