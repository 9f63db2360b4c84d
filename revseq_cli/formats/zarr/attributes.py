"""Attributes of Zarr arrays and groups: JSON in their metadata, and the neutral form."""

from __future__ import annotations

import base64
import contextlib
import struct
from typing import Any

import numpy as np

from revseq_cli.formats.attributes import FILL, MISSING, VALID, Attributes, as_neutral
from revseq_cli.formats.zarr.store import ZarrNode

DIMENSIONS = "_ARRAY_DIMENSIONS"  # the attribute with their names in version 2, by xarray


def attributes_of(node: ZarrNode) -> tuple[Attributes, list[str]]:
    """The attributes of an array or a group, and the names of those that the neutral form lacks.

    In an array of version 2 by xarray, the fill value is that of the array, unless it is 0, which
    nobody has chosen. In version 3 it is an attribute, that of floats as eight bytes in base 64.
    """
    attributes = Attributes()
    lost = []
    for name, stored in node.attributes.items():
        if name == DIMENSIONS:
            continue
        value = as_neutral(stored)
        if value is None:
            lost.append(name)
        else:
            attributes[name] = value
    is_of_xarray = node.version == 2 and DIMENSIONS in node.attributes
    if is_of_xarray and FILL not in attributes:
        fill = node.fields.get("fill_value")
        if fill:
            attributes[FILL] = as_neutral(fill)
    for name in {*MISSING, *VALID} & attributes.keys():
        value = attributes[name]
        if isinstance(value, str):
            attributes[name] = _number_in(value)
    return attributes, lost


def _number_in(text: str) -> Any:  # noqa: ANN401 - a NumPy number, or the text
    """The number that a text holds, in digits or in base 64; the text where it holds none."""
    with contextlib.suppress(ValueError):
        return as_neutral(float(text))
    with contextlib.suppress(ValueError, struct.error):
        return as_neutral(struct.unpack("<d", base64.b64decode(text))[0])
    return text


def fill_as_json(fill: np.generic) -> Any:  # noqa: ANN401 - a number or a text
    """A fill value as the attribute that xarray reads in version 3."""
    if fill.dtype.kind == "f":
        return base64.b64encode(struct.pack("<d", fill)).decode()
    return fill.item()


def as_json(attributes: Attributes) -> dict[str, Any]:
    """Attributes as JSON has them."""
    fields = {}
    for name, value in attributes.items():
        is_array = isinstance(value, (np.generic, np.ndarray))
        fields[name] = value.tolist() if is_array else value
    return fields
