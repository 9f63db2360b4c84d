"""A tensor of each format, through its own source and sink."""

import pickle

import numpy as np
import oracle

from revseq_cli.core.tensors import DataType
from revseq_cli.files.transactions import FileTransaction
from revseq_cli.formats import outputs, references
from revseq_cli.formats.contract import Storage, TextTypes
from revseq_cli.formats.memory import MemorySource

# A small job: its tensor, its lengths along axis 1, and the output.
X = np.arange(12, dtype=np.float32).reshape(3, 4)
N = np.array([[2], [4], [3]], np.uint32)
EXPECTED = oracle.reverse(X, N, 1)


def open_(path, asked=None):
    return references.open_source(
        references.Reference.input(str(path)), TextTypes(asked, DataType.FLOAT32)
    )


def held(values):
    return MemorySource("held", values, Storage("held", {}))


def write(path, values, **options):
    """Through the format's own sink, in two blocks, each of whole chunks, where there are so many."""
    like = held(values)
    sink = outputs.create_sink(
        references.Reference.file(str(path)), like, overwrite=False, **options
    )
    chunk = sink.chunks[0] if sink.chunks else 1
    regions = [()]
    if values.shape:
        middle = -(-max(1, len(values) // 2) // chunk) * chunk
        rest = [slice(0, size) for size in values.shape[1:]]
        regions = [(part, *rest) for part in (slice(0, middle), slice(middle, len(values)))]
    with FileTransaction(sink.file), sink:
        for region in regions:
            if values[region].size:
                block_writer = pickle.loads(pickle.dumps(sink.block_writer()))
                write_result = pickle.loads(
                    pickle.dumps(block_writer.deliver(region, values[region]))
                )
                if write_result is not None:
                    sink.receive(write_result)
