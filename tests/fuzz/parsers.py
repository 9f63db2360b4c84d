"""Fuzzes the readers of all formats but HDF5: whatever the bytes, a tensor or one of our errors.

    pip install atheris && python tests/fuzz/parsers.py READER [-runs=1000000] [-seed=1] [CORPUS...]

The readers are npy, notation, json, pages, npz, safetensors, zarr and onnx.

Guided by coverage through atheris. What is found goes into tests/fuzz/corpus, which the test suite replays.
"""

import importlib
import io
import os
import sys
import tempfile
import time
from math import prod
from pathlib import Path

SLOW = (
    5  # seconds of work, not of waiting for a busy machine, for an input of at most some kilobytes
)
MOST = 1 << 20  # bytes of a tensor that is read, and not only opened
IN_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
READERS = {}


def reader(function):
    """A reader to fuzz, by its name."""
    READERS[function.__name__] = function
    return function


@reader
def npy(data):
    """A whole .npy as it comes through a pipe; or, where it does not look like one, the text of a header."""
    from revseq_cli.formats import pipes

    if not data.startswith(b"\x93NUMPY"):
        data = _npy_around(data)
    source = pipes.read_npy("fuzz", io.BytesIO(data)).open_source(None)
    assert source.read().size == source.desc.element_count


@reader
def notation(data):
    """A tensor in the bracket notation, in each type; what is read is read again from its own print."""
    from revseq_cli.formats import text

    _text(data, text.TEXT.find_tensor, text.TEXT.format_tensor)


@reader
def json(data):
    """A tensor in JSON."""
    from revseq_cli.formats import text

    _text(data, text.JSON.find_tensor, text.JSON.format_tensor)


@reader
def pages(data):
    """A page with examples."""
    from revseq_cli.formats.text_files import decode_text
    from revseq_cli.operator.spec import FeatureLevel
    from revseq_cli.pages import judge_page
    from revseq_cli.text.examples import Text

    judge_page(Text("fuzz", decode_text(data, "fuzz").text), FeatureLevel.parse("5_0"))


@reader
def npz(data):
    """A whole archive; or, where it does not look like one, the header of the member of one that is right."""
    import zipfile  # not above, where it would not be instrumented

    from revseq_cli.formats.npz import open_member

    if not data.startswith(b"PK"):
        stream = io.BytesIO()
        with zipfile.ZipFile(
            stream, "w", zipfile.ZIP_DEFLATED if len(data) % 2 else zipfile.ZIP_STORED
        ) as archive:
            archive.writestr("x.npy", _npy_around(data))
        data = stream.getvalue()
    _file(open_member, {"x.npz": data}, "x.npz")


@reader
def safetensors(data):
    """A whole file; or, where it begins as a header does, that header before 48 bytes of elements."""
    from revseq_cli.formats.safetensors import SafetensorsSource

    if data.startswith(b"{"):
        data = len(data).to_bytes(8, "little") + data + bytes(48)
    _file(SafetensorsSource, {"x.safetensors": data}, "x.safetensors")


@reader
def zarr(data):
    """The metadata of an array of version 3, or else 2, and behind a NUL the chunk that is first in any rank."""
    from revseq_cli.formats.zarr.source import ZarrSource

    metadata, _, chunk = data.partition(b"\0")
    name, chunks = (
        ("zarr.json", ("c/0", "c/0/0")) if b"node_type" in metadata else (".zarray", ("0", "0.0"))
    )
    # A folder takes one of c/0 and c/0/0.
    _file(ZarrSource, {name: metadata, chunks[len(metadata) % 2]: chunk}, "")


@reader
def onnx(data):
    """A tensor."""
    from revseq_cli.formats.onnx.tensors import read_tensor_file

    _file(read_tensor_file, {"x.pb": data}, "x.pb")


def _npy_around(header):
    """A .npy of that header and 48 bytes of elements."""
    header = header[:60_000]
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(48)


def _file(source, files, name):
    """What is read from a path: the files lie in a folder of their own, since what is open is known by its path."""
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        for path, content in files.items():
            place = Path(folder, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        found = source(os.path.join(folder, name), None)
        if max(prod(found.sizes), prod(found.chunks or ())) * found.dtype.itemsize <= MOST:
            assert found.read().size == found.desc.element_count
        found.recheck()


def _text(data, read, write):
    from revseq_cli.core.tensors import DataType
    from revseq_cli.formats.contract import TextTypes
    from revseq_cli.formats.text_files import decode_text
    from revseq_cli.text.examples import Text

    types = list(DataType)[:11]
    default = types[data[0] % len(types)] if data else types[0]
    value = Text("fuzz", decode_text(data[1:], "fuzz").text)
    source = read(value, None, TextTypes(None, default))
    values = source.read()
    printed = write(values)
    again = read(Text("fuzz", printed), None, TextTypes(None, default)).read()
    assert again.dtype == values.dtype
    assert again.tobytes() == values.tobytes(), printed


def check(name, data):
    """One input: an error of another kind, an endless one or a hang is a find."""
    from revseq_cli.core.errors import RevseqError

    began = time.process_time()
    try:
        READERS[name](data)
    except RevseqError as e:
        message = str(e)
        assert all(line.isprintable() for line in message.split("\n")), repr(message)
        assert len(message) < 5000, len(message)
    assert time.process_time() - began < SLOW


def main():
    import atheris

    name = sys.argv.pop(1)
    sys.argv.insert(
        1, "-rss_limit_mb=8192"
    )  # the fuzzer itself grows by some kilobytes an input; a later one wins
    with atheris.instrument_imports(include=["revseq_cli", "json", "ast", "zipfile"]):
        for module in ("npy", "npz", "onnx", "safetensors", "text", "zarr.source"):
            importlib.import_module(f"revseq_cli.formats.{module}")
        importlib.import_module("revseq_cli.pages")

    atheris.Setup(sys.argv, lambda data: check(name, data))
    atheris.Fuzz()


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
