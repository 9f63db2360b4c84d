"""Tensors in JSON: a nested list of numbers, or an object of DataType, Sizes and Values, parsed exactly and printed.

JSON has no word for NaN and infinities: they are strings. When a text is read, bare words are taken, too.
"""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from revseq_cli.ground.dtypes import require_sizes
from revseq_cli.ground.errors import FormatError, listed
from revseq_cli.ground.tensors import MOST_DIMENSIONS, DataType, TensorDesc, braced
from revseq_cli.texts import literals, notation, places

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WANTED = "a nested list, or an object of DataType, Sizes and Values"
_WANTED_DEPTH = f"at most {MOST_DIMENSIONS} dimensions, and 8 in DirectML"
# Where the values begin: of a text that is a list, and behind their key. A quote inside a string has a \ before it.
_VALUES = re.compile(r"\s*(?=\[)")
_VALUES_KEY = re.compile(r'(?<!\\)"Values"\s*:\s*')
_WORDS = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}


@dataclass(frozen=True)
class JsonTensor:
    """A tensor of a JSON text: its entries Values, and perhaps DataType and Sizes, which are not checked yet."""

    text: str
    entries: dict[str, object]

    @property
    def data_type(self) -> DataType | None:
        """The data type that the text states, if it does; UsageError for one that does not exist."""
        return DataType.parse(str(self.entries["DataType"])) if self.entries.get("DataType") is not None else None

    def values(self, data_type: DataType, dtype: np.dtype[Any]) -> NDArray[Any]:
        """The values, as an array of the tensor's sizes and of `dtype`, which is that of `data_type`.

        FormatError, with line, column and a caret, for what is no tensor, or a number that the data type cannot hold.
        """
        values = self._quick_values(data_type, dtype)
        if values is None:
            values = self._body().values(data_type, dtype)
        sizes = _sizes(self.entries["Sizes"]) if "Sizes" in self.entries else values.shape
        if values.ndim == 1 and values.size == TensorDesc(data_type, sizes).element_count:
            values = values.reshape(sizes)
        if values.shape != sizes:
            found = f"its Values have Sizes {braced(values.shape)}, and Sizes says {braced(sizes)}"
            raise FormatError(found, "nested lists of these sizes, or one flat list")
        return values

    def _quick_values(self, data_type: DataType, dtype: np.dtype[Any]) -> NDArray[Any] | None:
        """The values as Python reads them; None where they must be read as they are written, which takes longer."""
        level: Any = [self.entries["Values"]]
        sizes: list[int] = []
        while level and isinstance(level[0], list):
            sizes.append(len(level[0]))
            if len(sizes) > MOST_DIMENSIONS or any(type(row) is not list or len(row) != sizes[-1] for row in level):
                return None
            level = list(itertools.chain.from_iterable(level))
        if not level:
            return np.empty(sizes, dtype)
        flat = None if literals.needs_care(self.text) else literals.from_json(level, dtype, data_type.name)
        return None if flat is None else flat.reshape(sizes)

    def _body(self) -> notation.TensorText:
        """The text of the values, to be read as the bracket notation is."""
        key = _VALUES.match(self.text) or _VALUES_KEY.search(self.text)
        return notation.body_at(self.text, key.end() if key else 0)


def parse(text: str) -> JsonTensor:
    """The tensor of a JSON text; FormatError for what is none."""
    if not text or text.isspace():
        raise FormatError("is empty", _WANTED)
    root = load(text, text, _WANTED_DEPTH, parse_constant=_WORDS.__getitem__)
    if isinstance(root, list):
        root = {"Values": root}
    if not isinstance(root, dict) or "Values" not in root or set(root) - {"DataType", "Sizes", "Values"}:
        keys = f" with {listed(root)}" if isinstance(root, dict) else ""
        raise FormatError(f"is JSON, but not a tensor{keys}", _WANTED)
    return JsonTensor(text, root)


def load(text: str, plain: str, wanted_depth: str, **hooks: Any) -> object:  # noqa: ANN401 - those of json.loads
    """The JSON of `plain`, with the hooks of json.loads; FormatError for what is no JSON, and for a key given twice.

    `plain` is `text`, perhaps with blanks for comments: messages show the place in `text`.
    """
    try:
        return json.loads(plain, object_pairs_hook=literals.unique, **hooks)
    except json.JSONDecodeError as e:
        problem, offset = literals.json_problem(e)
        raise places.error_at(text, offset, f"is not JSON: {problem}") from None
    except RecursionError:
        raise FormatError("is nested too deep", wanted_depth) from None
    except FormatError:
        raise
    except ValueError:  # Python refuses an integer of so many digits
        raise FormatError("has a number of thousands of digits", f"at most {literals.LONGEST}") from None


def _sizes(sizes: object) -> tuple[int, ...]:
    if isinstance(sizes, list) and all(type(size) is int and 0 <= size < 1 << 63 for size in sizes):
        require_sizes(tuple(sizes), "")
        return tuple(sizes)
    raise FormatError("Sizes is not a list of sizes", "integers of at least 0")


def tensor_text(desc: TensorDesc, values: NDArray[Any]) -> str:
    """A tensor as a JSON object, with a line for each row; no line break at the end."""
    head = f'{{"DataType": "{desc.data_type.name}", "Sizes": {list(desc.sizes)}, "Values":\n'
    return head + notation.body(notation.rows_of(values, _quoted), desc.sizes) + "}"


def _quoted(values: NDArray[Any]) -> list[str]:
    """Floats as text, with quotes around NaN and infinities."""
    texts = literals.render(values)
    for i in map(int, np.flatnonzero(~np.isfinite(values))):
        texts[i] = f'"{texts[i]}"'
    return texts
