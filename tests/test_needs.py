"""How many tests are skipped on Windows, by what they need: the numbers may change, but not unnoticed."""

from collections import Counter

import pytest
from needs import NEEDS, WINDOWS, lacking

# Under Wine 8, which has all that tests/needs.py says Windows lacks, and lacks more.
SKIPPED = {
    "HDF5": 42, "change times": 5, "colons": 7, "devices": 7, "fifos": 33, "folder flushes": 1, "fork": 6,
    "h5diff": 8, "limits": 18, "links": 36, "longest names": 1, "modes": 25, "mounts": 5, "names by links": 5,
    "names of bytes": 3, "peak": 8, "positioned calls": 60, "proc": 7, "ps": 4, "safetensors": 4, "sha256sum": 7,
    "shell": 97, "signals": 47, "strace": 4, "terminal": 22, "xattrs": 1,
}  # fmt: skip


@pytest.mark.skipif(not WINDOWS, reason="the numbers are those of Windows")
def test_no_more_tests_are_skipped_than_are_known(request):
    if request.config.option.keyword or request.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        pytest.skip("only a part of the tests runs")
    found = Counter(name for item in request.session.items if (name := lacking(item.iter_markers("needs"))))
    assert found == {name: SKIPPED[name] for name in SKIPPED if not NEEDS[name][0]}
