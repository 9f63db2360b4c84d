"""Manifests: what a JSON line may hold."""

import json

import numpy as np
import oracle
import pytest


def test_tensors_as_lists(revseq, tmp_path):
    jobs = [
        {"input": [[1, 2, 3], [4, 5, 6]], "lengths": [3, 2], "axis": 1, "output": "a.npy"},
        {"input": [[1, 2, 3], [4, 5, 6]], "lengths": [[2], [1]], "axis": 1, "output": "b.npy"},
    ]
    (tmp_path / "jobs.jsonl").write_text("\n".join(map(json.dumps, jobs)))
    revseq("batch", "jobs.jsonl").ok()
    x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    for name, lengths in (("a", [[3], [2]]), ("b", [[2], [1]])):
        result = oracle.expected(x, np.array(lengths), 1)
        assert oracle.same_bits(np.load(tmp_path / f"{name}.npy"), result)


@pytest.mark.parametrize(
    ("column", "value"),
    [("lengths", [{"a": 1}]), ("lengths", {"a": 1}), ("axis", [1]), ("lengths", [True])],
)
def test_lists_that_are_refused(revseq, tmp_path, column, value):
    job = {"input": "[1]", "lengths": "[1]", "axis": 0, "output": "y.npy", column: value}
    (tmp_path / "jobs.jsonl").write_text(json.dumps(job))
    revseq("batch", "jobs.jsonl").refused("line 1", column)
