"""What leaves as JSON: any value that a result may have is made of JSON's own types, in one place."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from revseq_cli.core.tensors import DataType
from revseq_cli.report import objects

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.text()
    | npst.arrays(npst.scalar_dtypes(), npst.array_shapes(min_dims=0, min_side=0, max_side=3))
    | npst.from_dtype(np.dtype("f2")) | npst.from_dtype(np.dtype("i8")) | npst.from_dtype(np.dtype("?"))
    | st.sampled_from([DataType.INT8, Path("a"), range(3), (1, 2), {3}])
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=9,
)


@settings(max_examples=50)
@given(VALUES)
def test_anything_becomes_json(value):
    text = objects.dump_json({"found": value})
    back = json.loads(text, parse_constant=pytest.fail)["found"]
    if isinstance(value, np.generic) and value.dtype.kind in "iub":
        assert back == value.item()
    if isinstance(value, float):
        assert back == value or (back == str(value) and not math.isfinite(value))
