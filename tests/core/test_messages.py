"""What travels between processes: arrays of every data type, byte order and memory order, bit for bit."""

import subprocess
import sys

import numpy as np
import pytest

from revseq_cli.core.dtypes import dtype_of
from revseq_cli.core.processes import packed, unpacked
from revseq_cli.core.tensors import DataType

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
        (back, again), rest = unpacked(packed(((values, values), {"a": 1})))
        assert rest == {"a": 1}
        assert again is back
        assert (back.dtype, back.shape) == (values.dtype, values.shape)
        assert back.tobytes() == values.tobytes()
        assert back.flags.writeable
        if values.flags.forc:  # what has a memory order keeps it
            assert back.flags.c_contiguous == values.flags.c_contiguous
            assert back.flags.f_contiguous == values.flags.f_contiguous


def test_nothing_is_loaded_for_messages_without_arrays():
    code = (
        "import sys; from revseq_cli.core.processes import packed, unpacked\n"
        "assert unpacked(packed((1, 'a', [b'c'], {2: None}))) == (1, 'a', [b'c'], {2: None})\n"
        "assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
