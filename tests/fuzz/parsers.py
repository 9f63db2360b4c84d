"""Fuzzes the readers of .npy headers, of the notation, of JSON and of models: whatever the bytes, a tensor or one of our errors.

    pip install atheris && python tests/fuzz/parsers.py npy|notation|json|pages|models [-runs=1000000] [-seed=1] [CORPUS...]

Guided by coverage through atheris. What is found goes into tests/fuzz/corpus, which the test suite replays.
"""

import io
import os
import sys
import time

SLOW = 5  # seconds for an input of at most some kilobytes
READERS = {}


def reader(function):
    """A reader to fuzz, by its name."""
    READERS[function.__name__] = function
    return function


@reader
def npy(data):
    """A whole .npy as it comes through a pipe; or, where it does not look like one, the text of a header."""
    from revseq_cli.formats import npy as format_

    if not data.startswith(b"\x93NUMPY"):
        data = b"\x93NUMPY\x01\x00" + len(data[:60_000]).to_bytes(2, "little") + data[:60_000] + bytes(48)
    source = format_.from_stream("fuzz", io.BytesIO(data))
    assert source.read().size == source.desc.element_count


@reader
def notation(data):
    """A tensor in the bracket notation, in each type; what is read is read again from its own print."""
    _text(data, "open_notation", "write_notation")


@reader
def json(data):
    """A tensor in JSON."""
    _text(data, "open_json", "write_json")


@reader
def pages(data):
    """A page with examples."""
    from revseq_cli import pages as pages_
    from revseq_cli.formats.text import Text, decode
    from revseq_cli.spec import FeatureLevel

    pages_.verify(Text("fuzz", decode(data, "fuzz")), FeatureLevel.parse("5_0"))


@reader
def models(data):
    """A model of DxDispatch that holds its values itself; what is written of them is read again."""
    from revseq_cli import dxdispatch
    from revseq_cli.formats.models import ModelText
    from revseq_cli.formats.text import Text, TextTypes, decode
    from revseq_cli.spec import DataType

    def tensors(text):
        read = ModelText.read(Text("fuzz", text))
        types = TextTypes(None, DataType.FLOAT32)
        return {role: read.tensor(role, types) for role in read.model.tensors}, read.model.axis

    found, axis = tensors(decode(data, "fuzz"))
    contents = {role: (source.desc, source.read()) for role, source in found.items()}
    again, _ = tensors(dxdispatch.model_text(contents, axis))
    for role, (_, values) in contents.items():
        same = again[role].read().tobytes() == values.tobytes()
        assert same or not dxdispatch.fits_inline(values), role


def _text(data, read, write):
    from revseq_cli.formats import text
    from revseq_cli.formats.text import Text, TextTypes
    from revseq_cli.spec import DataType

    types = list(DataType)[:11]
    default = types[data[0] % len(types)] if data else types[0]
    value = Text("fuzz", text.decode(data[1:], "fuzz"))
    source = getattr(text, read)(value, None, TextTypes(None, default))
    values = source.read()
    printed = getattr(text, write)(values)
    again = getattr(text, read)(Text("fuzz", printed), None, TextTypes(None, default)).read()
    assert again.dtype == values.dtype
    assert again.tobytes() == values.tobytes(), printed


def check(name, data):
    """One input: an error of another kind, an endless one or a hang is a find."""
    from revseq_cli.errors import RevseqError

    began = time.monotonic()
    try:
        READERS[name](data)
    except RevseqError as e:
        message = str(e)
        assert all(line.isprintable() for line in message.split("\n")), repr(message)
        assert len(message) < 5000, len(message)
    assert time.monotonic() - began < SLOW


def main():
    import atheris

    name = sys.argv.pop(1)
    sys.argv.insert(1, "-rss_limit_mb=8192")  # the fuzzer itself grows by some kilobytes an input; a later one wins
    with atheris.instrument_imports(include=["revseq_cli", "json", "ast"]):
        import revseq_cli.formats.models
        import revseq_cli.formats.npy
        import revseq_cli.formats.text
        import revseq_cli.pages  # noqa: F401

    atheris.Setup(sys.argv, lambda data: check(name, data))
    atheris.Fuzz()


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
