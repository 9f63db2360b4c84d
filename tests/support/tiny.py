"""A format that is only read, for tests: what CONTRIBUTING asks of a format, and no more.

A file is "TINY", the name of NumPy's dtype, two sizes and a line break, and then the elements in C order: integers of
one byte or two without a sign.
"""

import re
from pathlib import Path

import numpy as np

from revseq_cli.core.errors import FormatError
from revseq_cli.formats import file_io, table
from revseq_cli.formats.contents import refuse_key
from revseq_cli.formats.contract import Storage
from revseq_cli.formats.raw import MemorySource

MODULE = "revseq_cli.formats.tiny"
ROW = table.Format("tiny", (), "tiny", read_only=(".tiny",))
_HEAD = re.compile(rb"TINY ([<>|]u[12])((?: \d+){2})\n")


def bytes_of(values):
    return b"TINY %s %s\n" % (values.dtype.str.encode(), " ".join(map(str, values.shape)).encode()) + values.tobytes()


def open_source(address, types):
    refuse_key(address.key, "a .tiny file", address.path)
    with file_io.opened(address.path) as fd:
        data = b"".join(map(bytes, file_io.pieces(fd, 0, file_io.identity(fd).size, address.path)))
    head = _HEAD.match(data)
    if not head:
        raise FormatError("is no .tiny file", "TINY at its beginning", where=address.path)
    dtype, sizes = np.dtype(head[1].decode()), tuple(map(int, head[2].split()))
    if len(data) - head.end() != dtype.itemsize * int(np.prod(sizes)):
        raise FormatError("has other bytes than its header says", "all elements", where=address.path)
    values = np.frombuffer(data, dtype, offset=head.end()).reshape(sizes)
    return MemorySource(address.path, values, Storage("tiny", {}))


def create_sink(file, like, key, *, only):
    raise AssertionError("asked to write what is only read")


def register():
    """What is to be set where, so that the table has the format."""
    return [(table, "FORMATS", (*table.FORMATS, ROW)), (table, "NAMES", (*table.NAMES, ROW.name))]


# Python that gives a command's process the format, also where the options are made already.
REGISTERING = f"""
import sys
sys.path.append({str(Path(__file__).parent)!r})
import tiny
for module, name, value in tiny.register():
    setattr(module, name, value)
sys.modules[tiny.MODULE] = tiny

import click
from revseq_cli.commands.cli import COMMANDS, cli
for each in COMMANDS:
    for option in cli.get_command(click.Context(cli), each).params:
        if isinstance(option.type, click.Choice) and "safetensors" in option.type.choices:
            option.type = click.Choice(tiny.table.NAMES)
"""
