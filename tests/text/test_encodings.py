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


@pytest.mark.parametrize("page", ["cp437", "cp850", "cp1252", "utf-8"])
def test_binary_data_that_powershell_has_damaged(refused, files, page):
    """Its > takes them as text, in the code page of the console, and writes UTF-16."""
    text = (files / "x.npy").read_bytes().decode(page, "replace")
    (files / "ruined.npy").write_bytes(codecs.BOM_UTF16_LE + text.replace("\n", "\r\n").encode("utf-16-le"))
    done = refused("ruined.npy", "it looks like a .npy file that PowerShell's > has damaged")
    assert done.err.splitlines()[-1] == "Hint: let revseq write the file: name it in place of -"


SHIFT_JIS = "\u30c6\u30f3\u30bd\u30eb"
PAGE = (SAMPLES / "page.md").read_text()


@pytest.mark.parametrize(
    ("head", "encoding", "word"),
    [
        ('<meta charset="shift_jis">', "shift_jis", SHIFT_JIS), ("<META CHARSET=sjis />", "shift_jis", SHIFT_JIS),
        ("<meta http-equiv='Content-Type' content='text/html; charset=windows-1252'>", "cp1252", "caf\u00e9 \u20ac"),
        ('<?xml version="1.0" encoding="ISO-8859-15"?>', "iso8859-15", "\u20ac"),
        (".. -*- coding: koi8-r -*-", "koi8-r", "\u0442\u0435\u043d\u0437\u043e\u0440"),
        ('<meta charset="big5">', "big5", "\u5f35\u91cf"), ('<meta charset="euc-kr">', "euc-kr", "\ud150\uc11c"),
        ('<meta charset="utf-16">', "utf-8", "caf\u00e9"), ('<meta charset="utf-16">', "utf-16-le", SHIFT_JIS),
        ('<meta charset="utf-16be">', "utf-16-be", SHIFT_JIS), ("<p>charset=latin1</p>", "utf-8", "caf\u00e9"),
        ('x = "<meta-charset=latin1>"', "utf-8", "caf\u00e9"), ("<?xml version='1.0'?>", "utf-8", "caf\u00e9"),
    ],
)  # fmt: skip
def test_charsets_that_pages_state(revseq, tmp_path, head, encoding, word):
    """The examples are read in every command, and the words around them, too: a caret stands below the right one."""
    (tmp_path / "x.html").write_bytes(f"{head}\n{word}\n{PAGE}".encode(encoding))
    assert revseq("verify", "x.html").ok().out.endswith("2 examples, 0 wrong, 1 of other operators skipped\n")
    assert revseq("run", "x.html::2").ok().out == revseq("run", SAMPLES / "page.md::2").ok().out
    (tmp_path / "x.html").write_bytes(f"{head}\n{PAGE.replace('[8, 7,', '[8, ' + word[-1] + ',')}".encode(encoding))
    told = revseq("show", "x.html::1::OutputTensor").err
    assert f"line 23, column 8: {word[-1]!r} is not allowed in a tensor" in told


@pytest.mark.parametrize("encoding", ["utf-8", "utf-32-be", "utf-16-le"])
def test_marks_win_over_what_pages_state(revseq, tmp_path, encoding):
    (tmp_path / "x.html").write_bytes(f"\ufeff<meta charset=big5>\n\u00e4\n{PAGE}".encode(encoding))
    revseq("verify", "x.html").ok()


UNKNOWN = "klingon x-sjis rot13 raw_unicode_escape punycode mbcs unicode_escape idna zip undefined utf-7".split()


@pytest.mark.parametrize("charset", [*UNKNOWN, "9" * 40])
def test_charsets_that_nobody_knows(revseq, tmp_path, charset):
    (tmp_path / "x.html").write_bytes(f"<meta charset={charset}>\n{PAGE}".encode())
    words = f"x.html: its head says that its charset is {charset}", "wanted: a known charset, such as utf-8"
    revseq("verify", "x.html").refused(*words)


def test_bytes_that_are_not_in_the_stated_charset(revseq, tmp_path):
    data = b"<meta charset=euc-kr>\n\xff\n" + PAGE.encode()
    (tmp_path / "x.html").write_bytes(data)
    revseq("verify", "x.html").refused("not text: byte 22 is not EUC_KR", "or the charset that a page's head states")
