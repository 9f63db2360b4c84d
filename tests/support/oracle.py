"""The operator as its reference page words it, one element after the other: slow, obvious, and right."""

import itertools

import numpy as np

from revseq_cli.core.dtypes import dtype_of
from revseq_cli.core.tensors import DataType

DATA_TYPES = [t for t in DataType if t.kind in ("float", "int", "uint")]


def reverse(values, lengths, axis):
    """The reversal, element by element."""
    out = values.copy()
    size = values.shape[axis]
    for index in itertools.product(*map(range, values.shape)):
        line = (*index[:axis], 0, *index[axis + 1 :])
        length = min(int(lengths[line]), size)
        if index[axis] < length:
            source = (*index[:axis], length - 1 - index[axis], *index[axis + 1 :])
            out[index] = values[source]
    return out


def expected(values, lengths, axis):
    """The reversal at once, for tensors that are too large to go through one by one."""
    size = values.shape[axis]
    index = np.arange(size).reshape([-1 if d == axis else 1 for d in range(values.ndim)])
    clamped = np.minimum(lengths, size).astype(np.int64)
    return np.take_along_axis(values, np.where(index < clamped, clamped - 1 - index, index), axis)


def random_values(rng, shape, data_type):
    """Random bits, so that floats have NaN payloads, infinities, denormals and -0.0 among them."""
    dtype = dtype_of(data_type)
    data = np.frombuffer(rng.bytes(int(np.prod(shape)) * dtype.itemsize), np.uint8)
    if data_type is DataType.BOOL:
        data = data % 2
    return data.view(dtype).reshape(shape).copy()


def same_bits(a, b):
    """Whether two arrays agree in data type, sizes and every bit."""
    return (
        a.dtype.newbyteorder("=") == b.dtype.newbyteorder("=")
        and a.shape == b.shape
        and bits(a) == bits(b)
    )


def bits(values):
    """The bytes of an array in this machine's byte order and C order."""
    values = np.asarray(values)  # NumPy does not swap the bytes of a single structure
    return values.tobytes() if values.dtype.isnative else values.byteswap().tobytes()
