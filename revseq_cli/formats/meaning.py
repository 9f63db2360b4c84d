"""What a file says of a tensor beside its elements, in no format's own terms: names, attributes, coordinates.

A source tells it in this form, and a sink stores what its format has a place for. Sources: the attributes of the NetCDF
Users' Guide and of the CF conventions 1.11, appendix A.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from revseq_cli.core.errors import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

# The attributes that say how values are packed; which ones stand for no value; and which ones are values at all.
PACKING = ("scale_factor", "add_offset", "_Unsigned")
MISSING = ("_FillValue", "missing_value")
VALID = ("valid_range", "valid_min", "valid_max")
CONVENTIONS = (*PACKING, *MISSING, *VALID)
FILL = MISSING[0]
ENCODING = "_Encoding"  # of texts in single characters, which are whole texts in the neutral form
# Attributes that hold values of the tensor, and have its data type.
_OF_ITS_TYPE = (*MISSING, *VALID, "flag_values", "flag_masks", "actual_range")

# Attributes whose words are names of variables. A word with a colon says what the next one is, except in grid_mapping.
COORDINATES = "coordinates"
NAMING = (
    "ancillary_variables", "bounds", "cell_measures", "climatology", COORDINATES, "formula_terms", "geometry",
    "grid_mapping", "instance_dimension", "interior_ring", "node_coordinates", "node_count", "part_node_count",
    "sample_dimension",
)  # fmt: skip

MOST_VARIABLES = 100  # that go with one tensor
_MOST_BYTES = 1 << 28  # of a variable that goes with a tensor: it is read at once
TEXT_BYTES = 1 << 6  # of a text without a fixed length, as far as a header says
_MOST_NAMED = 8  # attributes in a note

# The value of an attribute: text, several texts, a number, or an array of numbers.
Value = Any
Attributes = dict[str, Value]


class Variable(NamedTuple):
    """A small array that goes with a tensor: a coordinate, its bounds, or what else an attribute names.

    `total_bytes` is what its elements take without filters; that of texts is a guess. `read` gives numbers, or an array
    of Python's texts.
    """

    name: str
    dimensions: tuple[str, ...]
    attributes: Attributes
    total_bytes: int
    read: Callable[[], NDArray[Any]]


@dataclass(frozen=True)
class Meaning:
    """What a file says of a tensor.

    `dimensions` are the names of its dimensions, "" for one without, or none at all. `attributes` lack the fill value,
    which is `fill`, of the tensor's data type, or None; and what is about storage. `groups` has the attributes of each
    group on the tensor's path, that of the file first. `given` are the attributes as the file has them, and `lost`
    names those that this form has no place for. `unlimited` names the dimensions that can grow in the file.
    """

    dimensions: tuple[str, ...] = ()
    attributes: Attributes = field(default_factory=dict)
    fill: Any = None
    variables: tuple[Variable, ...] = ()
    groups: tuple[Attributes, ...] = ()
    given: Attributes = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    unlimited: tuple[str, ...] = ()

    @property
    def lost_sizes(self) -> list[str]:
        """What is lost of the dimensions that can grow."""
        return [f"the unlimited size of {name}" for name in self.unlimited]

    def notes(self, *, can_grow: bool) -> tuple[str, ...]:
        """A note on attributes that this form has no place for, and where dimensions cannot grow, on those that can."""
        lost = [*self.lost, *([] if can_grow else self.lost_sizes)]
        return (f"not copied: {listed(lost)}",) if lost else ()


NOTHING = Meaning()


def lost_in(format_name: str, meaning: Meaning) -> tuple[str, ...]:
    """A note that names what a format without a place for any of it loses."""
    stated = meaning.given
    first = [name for name in CONVENTIONS if name in stated]
    names = [*first, *(name for name in stated if name not in first), *meaning.lost]
    names = [*names[:_MOST_NAMED], *[f"{len(names) - _MOST_NAMED} more attributes"] * (len(names) > _MOST_NAMED)]
    names += [*["the names of dimensions"] * any(meaning.dimensions), *meaning.lost_sizes]
    if variables := [each.name for each in meaning.variables]:
        names.append(f"the variables {listed(variables, 5)}" if len(variables) > 1 else f"the variable {variables[0]}")
    if not names:
        return ()
    *others, last = names
    told = f"{listed(others, len(others))} and {last}" if others else last
    verb = "is" if len(names) == 1 and not any(meaning.dimensions) else "are"
    note = f"{told} {verb} not kept in .{format_name}"
    if first:
        mark = next((stated[name] for name in MISSING if name in stated), None)
        note += f"; values are stored as they are{'' if mark is None else f': {mark} stands for missing'}"
    return (note,)


def as_json(value: Value) -> object:
    """The value of an attribute as JSON has it."""
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value


def words(attribute: str, value: Value) -> list[str]:
    """The names in the value of an attribute that names variables."""
    texts = value if isinstance(value, list) else [value]
    found = [word for text in texts if isinstance(text, str) for word in text.split()]
    if attribute == "grid_mapping":  # "crs: x y" names the mapping of these coordinates
        return [word.removesuffix(":") for word in found]
    return [word for word in found if not word.endswith(":")]


def gathered(own: Variable, find: Callable[[str], Variable | None]) -> tuple[Attributes, tuple[Variable, ...]]:
    """The attributes of a tensor, and the variables that go with it: coordinates, and what attributes name.

    `find` gives the variable of a name. Names of absent ones are taken out of `coordinates`; another attribute that
    names one is left out.
    """
    found: dict[str, Variable | None] = {}

    def looked_up(name: str) -> Variable | None:
        if name not in found:
            found[name] = find(name) if len(found) < MOST_VARIABLES and name != own.name else None
        return found[name]

    def present(each: Variable) -> Attributes:
        kept = dict(each.attributes)
        for name in NAMING:
            named = words(name, kept.get(name))
            there = [word for word in named if looked_up(word) or word == own.name]
            if len(there) < len(named):
                del kept[name]
                if name == COORDINATES and there:
                    kept[name] = " ".join(there)
        return kept

    attributes, pending, carried = present(own), [*filter(None, own.dimensions)], dict[str, Variable]()
    pending += _named(attributes)
    while pending:
        variable = looked_up(pending.pop(0))
        if variable and variable.name not in carried:
            carried[variable.name] = variable = variable._replace(attributes=present(variable))
            pending += [*filter(None, variable.dimensions), *_named(variable.attributes)]
    return attributes, tuple(carried.values())


def _named(attributes: Attributes) -> Iterator[str]:
    """The variables that attributes name."""
    return (word for name in NAMING for word in words(name, attributes.get(name)))


def is_small(sizes: tuple[int, ...], itemsize: int) -> bool:
    """Whether a variable of that size may go with a tensor."""
    return int(np.prod(sizes, dtype=object)) * itemsize <= _MOST_BYTES


def plain(value: Any) -> Value | None:  # noqa: ANN401 - of any library
    """The value of an attribute as NumPy or JSON has it, in the neutral form; None for what has no place there."""
    if isinstance(value, bytes):
        return _decoded(value)
    if isinstance(value, str):
        return value
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError):  # lists of several lengths
        return None
    if array.dtype.kind in "SUO":
        texts = [each if isinstance(each, str) else _decoded(each) for each in array.reshape(-1).tolist()]
        if not texts or not all(isinstance(each, str) for each in texts):
            return None
        return texts if len(texts) > 1 else texts[0]
    if array.dtype.kind not in "biuf" or not array.size:
        return None
    return array.reshape(-1)[0] if array.size == 1 else array


def _decoded(value: object) -> str | None:
    try:
        return value.rstrip(b"\0").decode() if isinstance(value, bytes) else None
    except UnicodeDecodeError:
        return None


def as_fill(value: Value, dtype: np.dtype[Any]) -> Any:  # noqa: ANN401 - a NumPy number, or None
    """A fill value in the data type of its tensor; None for one that this does not hold, or for several."""
    if isinstance(value, (str, list)) or value is None or np.ndim(value):
        return None
    return exactly(value, dtype)


def exactly(value: Any, dtype: np.dtype[Any]) -> Any:  # noqa: ANN401 - a NumPy number or array, or None
    """Numbers in another data type of numbers; None where one of them would change."""
    if dtype.kind not in "biuf":
        return None
    with np.errstate(all="ignore"):
        cast = np.asarray(value).astype(dtype)
    same = (cast == value) | ((cast != cast) & (np.asarray(value) != value))
    return cast[()] if np.all(same) else None


def typed(attributes: Attributes, dtype: np.dtype[Any]) -> Attributes:
    """The attributes, of which those that hold values of the tensor get its data type, where that holds them."""
    numbers = {name: attributes[name] for name in _OF_ITS_TYPE if name in attributes}
    cast = {name: exactly(value, dtype) for name, value in numbers.items() if not isinstance(value, (str, list))}
    return attributes | {name: value for name, value in cast.items() if value is not None}
