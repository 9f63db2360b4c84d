"""Outputs of another shape or data type, restored to the form that a job's output has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from revseq_cli.core import dtypes
from revseq_cli.core.dtypes import Array, data_type_of, native
from revseq_cli.core.tensors import in_braces
from revseq_cli.formats.contract import Source, Storage
from revseq_cli.formats.memory import MemorySource
from revseq_cli.operator import kernel
from revseq_cli.pipeline.folds import Tolerance, unequal
from revseq_cli.pipeline.jobs import Job
from revseq_cli.porting.origins import Shape, list_orders, replace_at
from revseq_cli.porting.rules import count_true

_COPIES = 8  # of both tensors, that are in memory at once


@dataclass(frozen=True)
class Restored:
    """An output in the form that a job's output has, and the job to compare it with.

    `text` says what had been done to the whole output; it is "" if nothing was restored.
    """

    output: Source
    job: Job
    text: str = ""


@dataclass(frozen=True)
class _Reading:
    """An array in another form, and what must have been done to it, in words.

    `is_of_bytes` says that its bytes were read as another data type.
    """

    text: str
    array: Array
    is_of_bytes: bool = False


def restore(output: Source, job: Job, tolerance: Tolerance | None, memory: int) -> Restored:
    """The output, restored in the way that leaves the fewest differences.

    It stays as it is if it has the expected form, if no way leads to it, and if it is too large for
    the memory.
    """
    values = job.values
    total_bytes = output.desc.total_bytes + values.desc.total_bytes
    if output.desc == values.desc or _COPIES * total_bytes > memory:
        return Restored(output, job)
    array = native(output.read())
    x = native(values.read())
    lengths = job.lengths.read()
    longest = int(lengths.max(initial=0))
    if _is_cut(array, x, job.axis, longest):
        size = x.shape[job.axis]
        text = f"the output is cut to the longest length, {longest} of {size}"
        cut = MemorySource(values.name, x.take(range(longest), job.axis), values.storage)
        return Restored(output, replace(job, values=cut), f"along axis {job.axis} {text}")
    expected = kernel.reverse(x, lengths, job.axis)
    best: _Reading | None = None
    fewest = x.size + 1
    for reading in _list_readings(array, x):
        count = count_true(unequal(reading.array, expected, tolerance))
        if reading.is_of_bytes and count == x.size:
            continue  # the bytes of any array can be read so
        if count < fewest:
            fewest = count
            best = reading
    if best is None:
        return Restored(output, job)
    storage = Storage("memory", {})
    restored = MemorySource(output.name, best.array, storage, output.identity)
    return Restored(restored, job, best.text)


def _is_cut(array: Array, x: Array, axis: int, longest: int) -> bool:
    """Whether the array has only the elements before the longest length."""
    if array.dtype != x.dtype or longest >= x.shape[axis]:
        return False
    return array.shape == replace_at(x.shape, axis, longest)


def _list_readings(array: Array, x: Array) -> Iterator[_Reading]:
    """The array with the data type and the shape of x, in each likely way."""
    converted = _read_as_type(array, x.dtype)
    if converted is None:
        return
    for shaped in _read_as_shape(converted.array, x.shape):
        text = ", and ".join(filter(None, [converted.text, shaped.text]))
        yield _Reading(text, shaped.array, converted.is_of_bytes)


def _read_as_type(array: Array, dtype: np.dtype[Any]) -> _Reading | None:
    """The array in this data type: with the same numbers, or else with the same bytes."""
    if array.dtype == dtype:
        return _Reading("", array)
    text = f"{data_type_of(dtype).name} is saved as {data_type_of(array.dtype).name}"
    if _has_real_numbers(array.dtype) and _has_real_numbers(dtype):
        numbers = as_numbers(array)
        with np.errstate(all="ignore"):
            converted = _convert(numbers, dtype)
            back = as_numbers(converted).astype(numbers.dtype)
        is_same = (back == numbers) | (numbers != numbers)
        if is_same.all():
            return _Reading(text, converted)
    if array.dtype.itemsize == dtype.itemsize:
        return _Reading(f"{text}, byte for byte", array.view(dtype), is_of_bytes=True)
    return None


def _read_as_shape(array: Array, shape: Shape) -> Iterator[_Reading]:
    """The array in this shape, in each way in which it may be the same tensor."""
    if array.shape == shape:
        yield _Reading("", array)
        return
    without_ones = [size for size in array.shape if size > 1]
    is_squeezed = without_ones == [size for size in shape if size > 1]
    if is_squeezed or array.shape == (prod(shape),):
        text = f"sizes {in_braces(shape)} are saved as {in_braces(array.shape)}"
        yield _Reading(text, array.reshape(shape))
    for order in list_orders(shape):
        if array.shape == order.sizes:
            text = f"the axes of the output are in the order {in_braces(order.axes)}"
            yield _Reading(text, array.transpose(np.argsort(order.axes)))


# Minifloats have a dtype of core/dtypes.py if they come from a file, and one of the package
# ml_dtypes if a program passes them.


def _has_real_numbers(dtype: np.dtype[Any]) -> bool:
    """Whether its elements are real numbers, which can be converted."""
    if data_type_of(dtype).kind == "minifloat":
        return dtypes.has_numbers(dtype)
    return dtype.kind in "fiub"


def as_numbers(array: Array) -> Array:
    """Minifloats as FLOAT32, if their numbers are known; other arrays as they are."""
    if dtypes.is_minifloat(array.dtype):
        if dtypes.has_numbers(array.dtype):
            return dtypes.numbers(array)
        return array
    if data_type_of(array.dtype).kind == "minifloat":  # of ml_dtypes
        return array.astype(np.float32)
    return array


def _convert(numbers: Array, dtype: np.dtype[Any]) -> Array:
    """The numbers in another data type, which may be a minifloat."""
    if not dtypes.is_minifloat(dtype):
        return numbers.astype(dtype)
    of_numbers = dtypes.number_type(data_type_of(dtype).name)
    return np.ascontiguousarray(numbers.astype(of_numbers)).view(dtype)
