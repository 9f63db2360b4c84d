"""Texts as other systems write them: UTF-8 and UTF-16 with a byte order mark, and lines that end with CR and LF."""

import codecs

import numpy as np
import pytest
from conftest import SAMPLES

ENCODINGS = {"plain": ("utf-8", ""), "marked": ("utf-8", "\ufeff"), "PowerShell 5": ("utf-16-le", "\ufeff"),
             "big-endian": ("utf-16-be", "\ufeff")}  # fmt: skip
JOB = '{"input": "x.npy", "lengths": "n.npy", "axis": 1, "output": "y.npy"}\n'


@pytest.fixture(params=ENCODINGS)
def encoded(request):
    """A text as such a system writes it."""
    encoding, mark = ENCODINGS[request.param]
    return lambda text: (mark + text.replace("\n", "\r\n")).encode(encoding)


@pytest.mark.parametrize(
    "text", ["\n[[1, 2],\n [3, 4]]\n", '{"DataType": "FLOAT32",\n"Values": [[1, 2], [3, 4]]}\n']
)
def test_h33_tensors(revseq, tmp_path, encoded, text):
    (tmp_path / "x.dat").write_bytes(encoded(text))
    revseq("convert", "x.dat", "y.npy").ok()
    revseq("convert", "-", "z.npy", stdin=encoded(text)).ok()
    for name in ("y.npy", "z.npy"):
        assert np.load(tmp_path / name).tolist() == [[1, 2], [3, 4]]


def test_whole_jobs_and_pages(revseq, tmp_path, encoded):
    (tmp_path / "page.md").write_bytes(encoded((SAMPLES / "page.md").read_text() + "\u00e4\u65e5"))
    assert revseq("verify", "page.md").ok().out.startswith("page.md\n  example 1, line 10: right")
    (tmp_path / "example1.txt").write_bytes(encoded((SAMPLES / "example1.txt").read_text()))
    assert (
        revseq("run", "example1.txt").ok().out == revseq("run", SAMPLES / "example1.txt").ok().out
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [("jobs.jsonl", JOB), ("jobs", "input,lengths,axis,verify,output\nx.npy,n.npy,1,yes,y.npy\n")],
)
def test_manifests(revseq, files, encoded, name, text):
    (files / name).write_bytes(encoded(text))
    assert revseq("batch", name, "-q").ok().out == ""
    (files / "y.npy").rename(files / "z.npy")
    revseq("batch", "-", stdin=encoded(text)).ok()
    assert (files / "y.npy").read_bytes() == (files / "z.npy").read_bytes()


def test_what_is_in_no_encoding(refused, tmp_path):
    (tmp_path / "x.txt").write_bytes(
        codecs.BOM_UTF16_LE + "[1, 2".encode("utf-16-le") + b"\x00\xd8,\x00"
    )
    done = refused(
        "x.txt", "not text: byte 12 is not UTF-16", "expected UTF-8, or UTF-16 with a mark"
    )
    assert (
        "Hint" not in done.err
    )  # -f text would change nothing, nor would another encoding of what is damaged
