"""The golden jobs of tests/support/golden_jobs.py: every job ends as it says and leaves the same bytes on every system.

`pytest --golden-jobs FOLDER` writes what the jobs left to a folder, or holds it against what another system wrote there.
"""

import json

import golden_jobs
import pytest


@pytest.mark.parametrize("section", golden_jobs.SECTIONS)
def test_the_golden_jobs(revseq, tmp_path, request, section):
    golden_jobs.make_inputs(tmp_path)
    left = {line: golden_jobs.left_by(tmp_path, line, revseq) for line in golden_jobs.SECTIONS[section]}
    if kept := request.config.getoption("--golden-jobs"):
        file = kept / f"{section}.json"
        if not file.exists():
            file.write_text(json.dumps(left, indent=1))
        there = json.loads(file.read_text())
        assert {line: left[line] for line in left if left[line] != there[line]} == {}


@pytest.mark.parametrize(
    ("encoding", "status", "args"),
    [("cp1252", 0, ("check", "ü─Ω.npy", "n.npy", "--axis", 1, "--all")), ("cp1252", 0, ("show", "ü─Ω.npy", "--stats")),
     ("cp1252", 2, ("show", "ü─Ω日.npy")), ("cp1252", 0, ("levels",)), ("cp1252", 1, ("diff", "ü─Ω.npy", "big.npy")),
     *((encoding, 0, ("batch", "samples/batch.jsonl")) for encoding in ("cp1252", "cp437")),
     ("cp437", 2, ("show", "ü─Ω日.npy"))],
)  # fmt: skip
def test_code_pages_of_windows(revseq, tmp_path, encoding, status, args):
    """What they lack is escaped, or drawn in ASCII."""
    golden_jobs.make_inputs(tmp_path)
    (tmp_path / "c.npy").rename(tmp_path / "ü─Ω.npy")
    done = revseq(*args, env={"PYTHONIOENCODING": encoding})
    assert done.status == status, done.err
    told = (done.raw + done.raw_err).decode(encoding)
    assert "internal error" not in told
    assert "Traceback" not in told
    if args[0] == "show":
        assert ("ü─Ω" if encoding == "cp437" else "ü\\u2500\\u03a9") in told
