"""Objects of JSON, in files and in their metadata.

It is a module of its own, since binary formats load it, and no other module of this package.
"""

from __future__ import annotations

from typing import Any

from revseq_cli.core.errors import FormatError, join_names


def make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, for the hook of its parser.

    FormatError if it has a key twice, since readers differ in which one they take.
    """
    entries = dict(pairs)
    if len(entries) < len(pairs):
        names = join_names(key for key, _ in pairs)
        raise FormatError(f"has a key twice: {names}", "each key once")
    return entries
