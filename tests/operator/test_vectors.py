"""Conformance vectors from other systems' tests; each names its source in vectors.json."""

import json

import numpy as np
import oracle
import pytest
from conftest import ROOT

import revseq_cli
from revseq_cli.core.dtypes import describe_array, dtype_of
from revseq_cli.core.tensors import DataType
from revseq_cli.operator.spec import FeatureLevel, lowest_level

VECTORS = json.loads((ROOT / "tests" / "vectors.json").read_text())


def array(name, numbers, shape):
    return np.array(numbers, dtype_of(DataType[name])).reshape(shape)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_vector(vector):
    values = array(vector["dtype"], vector["input"], vector["input_shape"])
    lengths = array(vector["lengths_dtype"], vector["lengths"], vector["lengths_shape"])
    expected = array(vector["dtype"], vector["expected_output"], vector["input_shape"])
    assert oracle.same_bits(
        revseq_cli.reverse_subsequences(values, lengths, vector["axis"]), expected
    )
    level = lowest_level(describe_array(values), describe_array(lengths), vector["axis"])
    assert level is FeatureLevel.parse(vector["min_feature_level"])
