"""What DirectML gives for whole tensors, by the formulas for single elements."""

from math import prod

import numpy as np

from revseq_cli.operator import directml


def compute_newer(values, lengths, axis):
    """What DirectML 1.13 to 1.15 gives; the lengths have the shape of values but 1 at the axis."""
    size = values.shape[axis]
    index = directml.find_index_newer(
        make_index(values, axis), directml.keep_low_bits(lengths), size
    )
    return np.take_along_axis(values, np.broadcast_to(index, values.shape), axis)


def compute_older(values, lengths, axis):
    """What DirectML 1.0 to 1.12 gives; the lengths have the shape of values but 1 at the axis."""
    memory = np.ascontiguousarray(values).reshape(-1)
    position = np.arange(values.size).reshape(values.shape)
    j = make_index(values, axis)
    step = prod(values.shape[axis + 1 :])
    source = directml.find_position_older(
        position, j, directml.keep_low_bits(lengths), step, values.itemsize
    )
    is_inside = source < values.size
    result = memory[np.where(is_inside, source, 0)]
    result[~is_inside] = 0
    return result


def make_index(values, axis):
    """The index along the axis, in a shape that broadcasts with the values."""
    shape = [1] * values.ndim
    shape[axis] = values.shape[axis]
    return np.arange(values.shape[axis]).reshape(shape)
