"""What travels between processes: arrays of every data type, byte order and memory order, bit for bit."""

import functools
import os

import numpy as np
import pytest

from revseq_cli.core.dtypes import dtype_of
from revseq_cli.core.tensors import DataType
from revseq_cli.pipeline.executors import DiedError, Workers

LAYOUTS = {
    "C": lambda values: values.copy("C"), "F": lambda values: values.copy("F"), "a part": lambda values: values[:, 1:3],
    "transposed": lambda values: values[:, 1:3].T, "reversed": lambda values: values[:, ::-1],
    "repeated": lambda values: np.broadcast_to(values[:1], (7, 5)), "empty": lambda values: values[:0],
    "no dimension": lambda values: values[2, 3:4].reshape(()),
}  # fmt: skip


def same(values):
    return values


def test_arrays_keep_their_bytes():
    arrays = []
    for dtype in [dtype_of(each).newbyteorder(order) for each in DataType for order in "<>"]:
        data = np.random.default_rng(1).bytes(15 * dtype.itemsize)
        arrays += [
            change(np.ndarray((3, 5), dtype, bytearray(data))) for change in LAYOUTS.values()
        ]
    with Workers(1) as workers:
        back = workers.result(workers.submit(functools.partial(same, arrays)))
    for values, again in zip(arrays, back, strict=True):
        assert (again.dtype, again.shape, again.tobytes()) == (
            values.dtype,
            values.shape,
            values.tobytes(),
        )


def test_a_task_behind_a_dead_worker_is_told_of_its_death():
    """And not that no worker can be started."""
    with Workers(1) as workers:
        workers.submit(functools.partial(os._exit, 3)).exception(60)
        with pytest.raises(DiedError):
            workers.submit(functools.partial(same, 1))
