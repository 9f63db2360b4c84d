"""How many tests are skipped on Windows, by what they need: the numbers may change, but not unnoticed."""

from collections import Counter

import pytest
from needs import NEEDS, WINDOWS, lacking

# Under Wine 8, which has all that tests/support/needs.py says Windows lacks, and lacks more.
SKIPPED = {
    "HDF5": 3, "affinity": 3, "axe": 4, "backslashes": 1, "cases": 2, "chromium": 16, "colons": 10, "copies": 9,
    "devices": 8, "fifos": 82, "folder flushes": 1, "fork": 9, "free names": 1, "limits": 16, "links": 43,
    "long doubles": 2, "memory files": 18, "modes": 20, "mounts": 6, "names by links": 3,
    "names of bytes": 4, "peak": 8, "positioned calls": 73, "proc": 26, "ps": 4, "safetensors": 1,
    "sha256sum": 4, "ONNX Runtime 1.21": 43, "shell": 111, "signals": 42, "strace": 4, "szip": 1, "terminal": 79, "xattrs": 2,
}  # fmt: skip


@pytest.mark.skipif(not WINDOWS, reason="the numbers are those of Windows")
def test_no_more_tests_are_skipped_than_are_known(request):
    if request.config.option.keyword or request.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        pytest.skip("only a part of the tests runs")
    found = Counter(name for item in request.session.items if (name := lacking(item.iter_markers("needs"))))
    assert found == {name: SKIPPED[name] for name in SKIPPED if not NEEDS[name][0]}
