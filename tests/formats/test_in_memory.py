"""What travels between processes: arrays of every data type, byte order and memory order, bit for bit."""

import pickle

import numpy as np
import pytest

from revseq_cli.core.dtypes import dtype_of
from revseq_cli.core.tensors import DataType
from revseq_cli.formats.in_memory import Handing, MemoryReadTask

LAYOUTS = {
    "C": lambda values: values.copy("C"),
    "F": lambda values: values.copy("F"),
    "a part": lambda values: values[:, 1:3],
    "a part, transposed": lambda values: values[:, 1:3].T,
    "every second": lambda values: values[::2, ::2],
    "reversed": lambda values: values[:, ::-1],
    "repeated": lambda values: np.broadcast_to(values[:1], (7, 5)),
    "a column": lambda values: values[:, 2],
    "one element": lambda values: values[2:3, 3:4],
    "no dimension": lambda values: values[2, 3:4].reshape(()),
    "empty": lambda values: values[:0],
}
DTYPES = [dtype_of(each).newbyteorder(order) for each in DataType for order in "<>"]


def bits_of(shape, dtype):
    """Random bits, whatever elements they make."""
    data = np.random.default_rng(1).bytes(int(np.prod(shape)) * dtype.itemsize)
    return np.ndarray(shape, dtype, bytearray(data))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_keep_their_bytes(layout):
    for dtype in (*DTYPES, np.dtype("V3")):
        values = LAYOUTS[layout](bits_of((3, 5), dtype))
        back = pickle.loads(pickle.dumps(MemoryReadTask(values))).read()
        assert (back.dtype, back.shape) == (values.dtype, values.shape)
        assert back.tobytes() == values.tobytes()
        if dtype.kind != "V":  # the values that go to the parent are the same, if not in byte order
            _, back = pickle.loads(pickle.dumps(Handing().deliver((), values)))
            assert back.astype(dtype).tobytes() == values.tobytes()
