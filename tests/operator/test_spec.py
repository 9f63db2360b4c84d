"""The support table cell by cell, and every constraint."""

import pickle

import pytest

from revseq_cli.core.errors import UsageError
from revseq_cli.core.tensors import DataType, TensorDesc
from revseq_cli.operator import spec
from revseq_cli.operator.spec import (
    INPUT,
    LENGTHS,
    OUTPUT,
    FeatureLevel,
    SpecError,
    lowest_level,
    violations,
)
from revseq_cli.report.terminal import message

LEVELS = "1_0 2_0 2_1 3_0 3_1 4_0 4_1 5_0 5_1 5_2 6_0 6_1 6_2 6_3 6_4".split()
FIRST = set("FLOAT32 FLOAT16 INT32 INT16 INT8 UINT32 UINT16 UINT8".split())
WIDE = FIRST | {"FLOAT64", "INT64", "UINT64"}
# From the page's four tables, written down independently of the package.
PAGE = {
    "2_1": ({4}, FIRST, {"UINT32"}),
    "3_0": ({4, 5}, FIRST, {"UINT32"}),
    "4_0": (set(range(1, 9)), FIRST, {"UINT32"}),
    "5_0": (set(range(1, 9)), WIDE, {"UINT32", "UINT64"}),
}


def desc(name="FLOAT32", sizes=(1, 1, 3, 4)):
    return TensorDesc(DataType[name], sizes)


def job(values=None, lengths=None, axis=3, level="5_0", output=None):
    return violations(
        values or desc(),
        lengths or desc("UINT32", (1, 1, 3, 1)),
        axis,
        FeatureLevel.parse(level),
        output,
    )


def test_levels_are_directmls():
    assert [level.short for level in FeatureLevel] == [*LEVELS, "none"]
    for level in list(FeatureLevel)[:-1]:
        major, minor = map(int, level.short.split("_"))
        assert level == major << 12 | minor << 8
    for text in ("5_0", "5.0", "DML_FEATURE_LEVEL_5_0", "dml_feature_level_5_0", " 5_0 "):
        assert FeatureLevel.parse(text) is FeatureLevel.V5_0
    for text in ("", "7_0", "5", "50", "V5_0", "nan"):
        with pytest.raises(UsageError, match="is not a feature level"):
            FeatureLevel.parse(text)


@pytest.mark.parametrize("level", LEVELS)
def test_table_cell_by_cell(level):
    row = next((PAGE[key] for key in ("5_0", "4_0", "3_0", "2_1") if key <= level), None)
    pairs = [(values, DataType.UINT32) for values in DataType] + [
        (DataType.FLOAT32, lengths) for lengths in DataType
    ]
    for rank in range(1, 10):
        for values, lengths in pairs:
            desc = TensorDesc(values, (2,) * rank)
            found = job(
                desc, TensorDesc(lengths, (2,) * (rank - 1) + (1,)), rank - 1, level, output=desc
            )
            accepted = row and rank in row[0] and values.name in row[1] and lengths.name in row[2]
            assert (not found) == bool(accepted), (rank, values, lengths)


@pytest.mark.parametrize("name", [t.name for t in DataType])
def test_level_none_takes_every_type_and_rank(name):
    for rank in (1, 9, 64):
        assert not job(
            desc(name, (2,) * rank), desc("UINT8", (2,) * (rank - 1) + (1,)), rank - 1, "none"
        )
    assert job(desc(name, (2,) * 65), desc("UINT8", (2,) * 64 + (1,)), 64, "none")
    taken = DataType[name].kind in ("uint", "int", "float", "minifloat")
    assert bool(job(desc(sizes=(2, 0)), desc(name, (2, 1)), 1, "none")) != taken


def test_all_violations_are_reported_together():
    found = job(
        desc("FLOAT64", (3, 4)), desc("INT64", (3, 4)), -1, "3_0", output=desc("FLOAT32", (3, 5))
    )
    assert {(v.tensor, v.property) for v in found} == {
        (INPUT, "dimension count"), (INPUT, "DataType"), (LENGTHS, "dimension count"), (LENGTHS, "DataType"),
        (OUTPUT, "dimension count"), (OUTPUT, "Sizes"), (OUTPUT, "DataType"), (INPUT, "Axis"),
    }  # fmt: skip
    held = spec.constraints(
        desc("FLOAT32", (2, 3)), desc("UINT32", (2, 1)), 1, FeatureLevel.parse("5_0")
    )
    assert [(c.ok, c.hint) for c in held] == [(True, "")] * len(held)


@pytest.mark.parametrize("sizes", [(2**16, 2**16), (2**33,)])
def test_element_limit(sizes):
    lengths = desc("UINT32", (*sizes[:-1], 1))
    assert [v.property for v in job(desc("UINT8", sizes), lengths, len(sizes) - 1)] == [
        "element count"
    ]
    assert not job(desc("UINT8", sizes), lengths, len(sizes) - 1, "none")
    assert not job(desc("UINT32", (2**32 - 1,)), desc("UINT32", (1,)), 0)


def test_what_no_level_of_directml_has():
    found = job(desc("COMPLEX64", (3,) * 9), desc("BOOL", (3,) * 8 + (1,)), 8)
    none = "no feature level of DirectML has it; without one, the operator's own rules hold"
    assert [v.hint for v in found] == [none, none, none, ""]
    assert (
        job(desc("BOOL"))[0].hint
        == "DirectML has no BOOL; UINT8 has the same bytes: add --dtype UINT8"
    )
    found = job(desc("FLOAT64", (2,) * 5), desc("UINT32", (2,) * 5), 0, "2_1")
    hints = [
        f"DML_FEATURE_LEVEL_{n}_0 and above has it: to choose that level, add --feature-level {n}_0"
        for n in (3, 5)
    ]
    assert [v.hint for v in found][:2] == hints
    for name, hint in (("INT64", "add --lengths-dtype UINT32"), ("COMPLEX64", "")):
        assert [v.hint for v in job(desc("FLOAT32", (2, 3)), desc(name, (2, 1)), 1)] == [hint]
    found = job(
        desc(sizes=(1,) * 65), desc("UINT32", (1,) * 65), 0, "none"
    )  # of the operator itself
    assert [(v.found, v.hint) for v in found] == [("65", ""), ("65", "")]


@pytest.mark.parametrize(
    ("level", "wanted"), [("none", "1 to 64"), ("5_0", "1 to 8"), ("2_1", "4")]
)
@pytest.mark.parametrize("lengths", [(), (1,), (2, 1)])
def test_an_input_without_dimensions_is_one_error_with_no_word_of_levels(lengths, level, wanted):
    (only,) = job(desc(sizes=()), desc("UINT32", lengths), 0, level, desc(sizes=()))
    assert (only.tensor, only.found, only.expected, only.hint) == (INPUT, "0", wanted, "")
    assert lowest_level(desc(sizes=()), desc("UINT32", lengths), 0) is None


def test_an_error_names_the_tensors_in_another_process_too():
    error = SpecError(
        violations(desc(), desc("INT64", (1, 1, 3, 1)), 3, FeatureLevel.V5_0), {LENGTHS: "lens.npy"}
    )
    again = pickle.loads(pickle.dumps(error))
    assert (message(again), again.violations) == (message(error), error.violations)
    assert message(error).startswith("Error: lens.npy: DataType is INT64\n")
    assert "\nHint: of all" in message(SpecError(error.violations, {}, "of all"))
