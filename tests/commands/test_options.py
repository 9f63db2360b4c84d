"""What the text of an option means."""

import pytest

from revseq_cli.commands import options
from revseq_cli.core.errors import UsageError


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("1K", 1024), ("1KiB", 1024), ("1KB", 1000), ("2m", 2 << 20), ("1GB", 10**9), ("3 GiB", 3 << 30),
     ("5TB", 5 * 10**12), ("7B", 7), ("0.5G", 1 << 29)],
)  # fmt: skip
def test_sizes(text, size):
    assert options.parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5.2", "0.0001K", "G", "1X", "1KBB", "9" * 30])
def test_what_is_no_size(text):
    with pytest.raises(UsageError, match="is not a size"):
        options.parse_bytes(text)
