"""Attributes, coordinates and names of dimensions, in a form that belongs to no format.

Sources return this form, and a sink of another format stores what that format has a place for.
Sources: the attributes of the NetCDF Users' Guide and of the CF conventions 1.11, appendix A.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from revseq_cli.core.errors import join_names

# The attributes that say which values stand for missing ones, and which values are valid.
MISSING = ("_FillValue", "missing_value")
VALID = ("valid_range", "valid_min", "valid_max")
FILL = MISSING[0]
# NetCDF's encoding of texts in single characters. The neutral form has whole texts instead.
ENCODING = "_Encoding"
# Those that change the meaning of values, and are named first if they are lost.
_CONVENTIONS = ("scale_factor", "add_offset", "_Unsigned", *MISSING, *VALID)
# Attributes that hold values of the tensor, and have its data type.
_OF_ITS_TYPE = (*MISSING, *VALID, "flag_values", "flag_masks", "actual_range")
# Attributes that say what the values of a coordinate count.
_OF_UNITS = ("units", "calendar", "scale_factor", "add_offset")
# Attributes whose words are names of other variables.
_NAMING = (
    "ancillary_variables", "bounds", "cell_measures", "climatology", "coordinates",
    "formula_terms", "geometry", "grid_mapping",
)  # fmt: skip
# The most bytes of a coordinate that is copied with a tensor, and of one of its chunks: it is read
# as a whole.
MOST_BYTES = 1 << 18

# The values of attributes are texts, lists of texts, numbers, or arrays of numbers.
Attributes = dict[str, Any]


class Variable(NamedTuple):
    """A small array of numbers or Python's texts, which belongs to a tensor's dimension `name`."""

    name: str
    attributes: Attributes
    values: NDArray[Any]

    def is_same_as(self, other: Variable) -> bool:
        """Whether both say the same of the indices: equal values, in the same units."""
        for name in _OF_UNITS:
            own_value = np.asarray(self.attributes.get(name))
            if not np.array_equal(own_value, np.asarray(other.attributes.get(name))):
                return False
        is_float = self.values.dtype.kind == "f" and other.values.dtype.kind == "f"
        return np.array_equal(self.values, other.values, equal_nan=is_float)


class Meaning(NamedTuple):
    """What a file says of a tensor besides its elements."""

    dimensions: tuple[str, ...] = ()  # as in a Source
    attributes: Attributes = {}  # noqa: RUF012 - of the tensor, not of storage; nobody changes it
    # For a dimension, the variable that has the position of each of its indices.
    # Those that no output can have are named in `left`.
    coordinates: tuple[Variable, ...] = ()
    # The attributes of each group on the tensor's path, that of the file first.
    groups: tuple[Attributes, ...] = ()
    unlimited: tuple[str, ...] = ()  # the names of the dimensions that can grow
    left: tuple[str, ...] = ()  # in words, what the other fields have no place for
    default_fill: Any = None  # the fill value of NetCDF for a tensor whose attributes have none
    storage_fill: Any = None  # the one that somebody chose for elements which were never written
    uncopied: tuple[str, ...] = ()  # the names of the coordinates that `left` has in words
    # The coordinates of `uncopied` that are datetime64 or timedelta64: they are read, since a job
    # compares the coordinates of its two inputs.
    times: tuple[Variable, ...] = ()

    def without_pointers(self) -> Meaning:
        """The same without attributes that name variables which are not copied.

        `left` then names these attributes. Those of groups are not named: xarray's `coordinates` of
        the whole file has only variables that `left` names already.
        """
        copied = {variable.name for variable in self.coordinates}
        attributes, dropped = _drop_pointers(self.attributes, copied)
        coordinates = []
        for variable in self.coordinates:
            own, names = _drop_pointers(variable.attributes, copied)
            coordinates.append(variable._replace(attributes=own))
            dropped += [f"{variable.name}:{name}" for name in names]
        groups = tuple(_drop_pointers(group, copied)[0] for group in self.groups)
        left = self.left
        if dropped:
            left += (f"{join_names(dropped)} (they name variables that are not copied)",)
        return self._replace(
            attributes=attributes, coordinates=tuple(coordinates), groups=groups, left=left
        )


class NoCoordinateError(Exception):
    """The variable named like a dimension is not its coordinate, or cannot be copied."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


def find_coordinates(
    dimensions: tuple[str, ...], read: Callable[[int, str], Variable | None]
) -> Meaning:
    """A Meaning with what the file says of a tensor's dimensions; the caller adds all else.

    `read` gets the number and the name of a dimension, and reads its variable. It returns None if
    there is none, and raises NoCoordinateError for one that is not a coordinate.
    """
    variables = []
    times = []
    left = []
    uncopied = []
    for d, name in enumerate(dimensions):
        if not name or name in dimensions[:d]:
            continue
        try:
            variable = read(d, name)
        except NoCoordinateError as e:
            reason = f" ({e.reason})" if e.reason else ""
            left.append(f"the variable {name}{reason}")
            uncopied.append(name)
            continue
        if variable is None:
            continue
        if variable.values.dtype.kind in "mM":
            times.append(variable)
            left.append(f"the variable {name} (its data type is {variable.values.dtype})")
            uncopied.append(name)
        else:
            variables.append(variable)
    return Meaning(
        dimensions,
        coordinates=tuple(variables),
        left=tuple(left),
        uncopied=tuple(uncopied),
        times=tuple(times),
    )


def _drop_pointers(attributes: Attributes, copied: set[str]) -> tuple[Attributes, list[str]]:
    """The attributes without those that name variables left behind, and the names of those."""
    kept = dict(attributes)
    dropped = []
    for name in _NAMING:
        value = kept.get(name)
        if value is None:
            continue
        if isinstance(value, str) and copied.issuperset(value.split()):
            continue
        del kept[name]
        dropped.append(name)
    return kept, dropped


NOTHING = Meaning()


def list_losses(meaning: Meaning) -> list[str]:
    """What a format without a place for any of it loses, in words."""
    lost = []
    if meaning.attributes:
        attributes = sorted(meaning.attributes, key=lambda name: name not in _CONVENTIONS)
        lost.append(join_names(attributes, 8))
    if meaning.left:
        lost.append(join_names(meaning.left))
    if any(meaning.dimensions):
        lost.append("the names of dimensions")
    if meaning.coordinates:
        names = [coordinate.name for coordinate in meaning.coordinates]
        lost.append(f"the coordinates {join_names(names, 5)}")
    return lost


def is_small(sizes: tuple[int, ...], itemsize: int, chunks: tuple[int, ...] | None = None) -> bool:
    """Whether neither all elements of a variable nor one of its chunks take much memory."""
    return max(prod(sizes), prod(chunks or ())) * itemsize <= MOST_BYTES


def as_neutral(value: Any) -> Any:  # noqa: ANN401 - of any library
    """A value of NumPy or JSON in the neutral form; None if that has no place for it."""
    if isinstance(value, str):
        return value
    try:
        array = np.asarray(value)
        if array.dtype.kind in "SUO":
            return _plain_texts(array.ravel().tolist())
    except (ValueError, OverflowError):  # lists of several lengths, or bytes that are not UTF-8
        return None
    if array.dtype.kind not in "biuf" or not array.size:
        return None
    if array.size == 1:
        return array.reshape(-1)[0]
    return array


def _plain_texts(values: list[Any]) -> list[str] | str | None:
    """A text, or a list of several; None without one, and for values of another kind."""
    texts = []
    for value in values:
        text = value.rstrip(b"\0").decode() if isinstance(value, bytes) else value
        if not isinstance(text, str):
            return None
        texts.append(text)
    if len(texts) == 1:
        return texts[0]
    return texts or None


def count_bytes(value: Any) -> int:  # noqa: ANN401 - of the neutral form
    """The bytes that the value of an attribute takes in memory, about."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list):
        return sum(map(len, value))
    return int(np.asarray(value).nbytes)


def as_texts(values: NDArray[Any]) -> NDArray[Any]:
    """Bytes or texts of a file as an array of Python's texts."""
    texts = []
    for value in values.reshape(-1):
        if isinstance(value, bytes):
            texts.append(value.decode("utf-8", "replace"))
        else:
            texts.append(str(value))
    return np.array(texts, object).reshape(values.shape)


def join_characters(values: NDArray[Any]) -> NDArray[Any]:
    """Texts whose single characters, as NetCDF has them, lie along the last dimension."""
    if not values.size:
        return as_texts(np.zeros(values.shape[:-1], "S1"))
    texts = np.ascontiguousarray(values).view(f"S{values.shape[-1]}")
    return as_texts(texts[..., 0])


def fill_of(attributes: Attributes, dtype: np.dtype[Any]) -> Any:  # noqa: ANN401 - a NumPy number
    """The fill value in the tensor's data type; None without one, or if that cannot hold it."""
    value = _convert_exactly(attributes.get(FILL), dtype)
    if np.ndim(value):
        return None
    return value


def fit_types(attributes: Attributes, dtype: np.dtype[Any]) -> Attributes:
    """The attributes, with those that hold values of the tensor in its data type.

    Values that this data type cannot hold stay as they are, but such a fill value is left out.
    """
    fitting = dict(attributes)
    for name in _OF_ITS_TYPE:
        value = _convert_exactly(attributes.get(name), dtype)
        if value is not None:
            fitting[name] = value
    if fill_of(attributes, dtype) is None:
        fitting.pop(FILL, None)
    return fitting


def _convert_exactly(value: Any, dtype: np.dtype[Any]) -> Any:  # noqa: ANN401 - a number or array
    """Numbers in another data type; None if one would change, and for what is not numbers."""
    values = np.asarray(value)
    if dtype.kind not in "biuf" or values.dtype.kind not in "biuf":
        return None
    with np.errstate(all="ignore"):
        converted = values.astype(dtype)
    are_nan = np.not_equal(converted, converted) & np.not_equal(values, values)
    if not np.all((converted == values) | are_nan):
        return None
    return converted[()]  # a scalar for a single number
