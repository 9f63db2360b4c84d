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
    ("suffix", "text"),
    [("txt", "\n[[1, 2],\n [3, 4]]\n"), ("json", '{"DataType": "FLOAT32",\n"Values": [[1, 2], [3, 4]]}\n'),
     ("dat", "\n[[1, 2],\n [3, 4]]\n")],
)  # fmt: skip
def test_tensors(revseq, tmp_path, encoded, text, suffix):
    (tmp_path / f"x.{suffix}").write_bytes(encoded(text))
    revseq("convert", f"x.{suffix}", "y.npy").ok()
    revseq("convert", "-", "z.npy", stdin=encoded(text)).ok()
    for name in ("y.npy", "z.npy"):
        assert np.load(tmp_path / name).tolist() == [[1, 2], [3, 4]]


def test_whole_jobs_and_pages(revseq, tmp_path, encoded):
    for name in ("example1.txt", "page.md"):
        (tmp_path / name).write_bytes(encoded((SAMPLES / name).read_text() + "\u00e4\u65e5"))
    assert revseq("verify", "page.md").ok().out.startswith("page.md\n  example 1, line 10: right")
    (tmp_path / "example1.txt").write_bytes(encoded((SAMPLES / "example1.txt").read_text()))
    assert revseq("run", "example1.txt").ok().out == revseq("run", SAMPLES / "example1.txt").ok().out


@pytest.mark.parametrize(
    ("name", "text"), [("jobs.jsonl", JOB), ("jobs.csv", "input,lengths,axis,output\nx.npy,n.npy,1,y.npy\n")]
)
def test_manifests(revseq, files, encoded, name, text):
    (files / name).write_bytes(encoded(text))
    revseq("batch", name).ok()
    (files / "y.npy").rename(files / "z.npy")
    revseq("batch", "-", stdin=encoded(text)).ok()
    assert (files / "y.npy").read_bytes() == (files / "z.npy").read_bytes()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (codecs.BOM_UTF16_LE + "[1, 2".encode("utf-16-le") + b"\x00\xd8,\x00", "byte 12 is not UTF-16"),
        (codecs.BOM_UTF16_LE + b"[\x00]", "byte 4 is not UTF-16"),
    ],
)  # fmt: skip
def test_what_is_in_no_encoding(refused, tmp_path, data, words):
    (tmp_path / "x.txt").write_bytes(data)
    done = refused("x.txt", f"not text: {words}", "wanted: UTF-8, or UTF-16 with a mark")
    assert "Hint" not in done.err  # -f text would change nothing, nor would another encoding of what is damaged
