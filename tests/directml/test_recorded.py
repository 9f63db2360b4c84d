"""DirectML's own answers, as tests: what it gives for jobs, and which jobs it accepts.

`outputs.jsonl` has 264 jobs with their bytes in hexadecimal, and what DirectML 1.15.4 gave; 1.8.0
gave the same unless the row says otherwise. `accepted.jsonl` names 18 versions with the feature
level that each reports, and then 153 jobs, with the first version that accepts it (all later
ones do, too). The program in `dmlrun.cpp` asked, under Wine, on a software Vulkan.
"""

import json
from pathlib import Path

import formulas
import numpy as np
import pytest

import revseq_cli
from revseq_cli.core.tensors import DataType, TensorDesc
from revseq_cli.operator import spec
from revseq_cli.operator.spec import FeatureLevel

HERE = Path(__file__).parent
OUTPUTS = [json.loads(line) for line in (HERE / "outputs.jsonl").read_text().splitlines()]
VERSIONS, *ACCEPTED = [
    json.loads(line) for line in (HERE / "accepted.jsonl").read_text().splitlines()
]
FILLER = 0xEE  # the bytes of a buffer after the tensor, up to a multiple of four


def words(row, name):
    """A tensor of the row as the bits of its elements."""
    dtype = np.dtype(f"u{np.dtype(row['type'].lower()).itemsize}")
    return np.frombuffer(bytes.fromhex(row[name]), dtype).reshape(row["sizes"])


def lengths_of(row):
    sizes = spec.lengths_sizes(tuple(row["sizes"]), row["axis"])
    return np.array(row["lengths"], row["lengths_type"].lower()).reshape(sizes)


def is_within(row):
    return max(row["lengths"]) <= row["sizes"][row["axis"]]


@pytest.mark.parametrize("version", ["1.15.4", "1.8.0"])
def test_jobs_without_a_length_above_the_axis_size_are_as_revseq_has_them(version):
    rows = [row for row in OUTPUTS if is_within(row)]
    assert len(rows) == 150
    for row in rows:
        values = words(row, "input").view(row["type"].lower())
        result = revseq_cli.reverse_subsequences(values, lengths_of(row), axis=row["axis"])
        assert result.tobytes() == bytes.fromhex(row.get(version, row["1.15.4"])), row


def test_what_1_13_to_1_15_give():
    for row in OUTPUTS:
        result = formulas.compute_newer(words(row, "input"), lengths_of(row), row["axis"])
        assert np.array_equal(result, words(row, "1.15.4")), row


def test_what_1_0_to_1_12_give():
    for row in OUTPUTS:
        recorded = words(row, "1.8.0" if "1.8.0" in row else "1.15.4")
        result = formulas.compute_older(words(row, "input"), lengths_of(row), row["axis"])
        # After the tensor are up to three bytes that its buffer has but nobody wrote, and then 0.
        filler = np.frombuffer(bytes([FILLER]) * recorded.itemsize, recorded.dtype)[0]
        is_after = (result == 0) & (recorded == filler) & (recorded.itemsize < 4)
        assert np.array_equal(result[~is_after], recorded[~is_after]), row


def as_desc(tensor):
    data_type, sizes = tensor
    return TensorDesc(DataType[data_type], tuple(sizes))


# Where DirectML departs from the page: the jobs, and the first version that accepts them.
DEPARTURES = {
    # The prerelease that has level 2_1 takes five dimensions, which the page begins at 3_0.
    "rank-5": "1.0.200610-tf1.15.3.dev200619",
    "rank-5-axis0": "1.0.200610-tf1.15.3.dev200619",
}
# revseq gives DirectML no strides, and as many bytes as a tensor takes, rounded up to four.
UNKNOWN_TYPES = {"UNKNOWN", "UINT4", "INT4", "FOURTEEN"}


def cases():
    for row in ACCEPTED:
        types = {row[name][0] for name in ("input", "lengths", "output")}
        if "with" not in row and not types & UNKNOWN_TYPES:
            yield row


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_accepts_what_the_table_has_for_its_level(version):
    rank = [*VERSIONS].index
    level = FeatureLevel(int(VERSIONS[version], 16))
    for row in cases():
        first = row["accepted_from"]
        accepted = first is not None and rank(first) <= rank(version)
        tensors = [as_desc(row[name]) for name in ("input", "lengths", "output")]
        broken = spec.violations(tensors[0], tensors[1], row["axis"], level, tensors[2])
        if row["case"] in DEPARTURES and level is FeatureLevel.V2_1:
            assert accepted, row["case"]
            assert broken, row["case"]
        else:
            assert accepted == (not broken), row["case"]


@pytest.mark.parametrize("data_type", [t for t in DataType if t.kind in ("float", "int", "uint")])
def test_the_most_elements_of_each_type_are_as_1_15_4_has_them(data_type):
    most = {1: 2**32 - 4, 2: 2**32 - 2}.get(data_type.size, 2**32 - 1)
    for count, is_accepted in ((most, True), (most + 1, False)):
        values = TensorDesc(data_type, (count,))
        lengths = TensorDesc(DataType.UINT32, (1,))
        assert (not spec.violations(values, lengths, 0, FeatureLevel.V6_4)) == is_accepted
