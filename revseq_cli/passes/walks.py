"""The pages below a folder: which files are pages, and in which order."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from revseq_cli.formats.storage import positioned
from revseq_cli.formats.table import TEXT, by_suffix, packing_of
from revseq_cli.ground import stopping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from revseq_cli.ground.errors import TensorIOError

# Every tensor of an example has this in its label. A page without it need not be text in a known encoding.
_TENSOR = b"Tensor"


def pages_below(folder: str) -> Iterator[str | TensorIOError]:
    """The paths of all pages below a folder, sorted, or the error for a folder that cannot be read.

    Hidden files and folders are left out, and so are links to folders, which may lead anywhere, and in circles.
    """
    errors: list[TensorIOError] = []

    def note(error: OSError) -> None:
        errors.append(positioned.failed(str(error.filename or folder), "read", error))

    for walked, folders, names in os.walk(folder, onerror=note):
        yield from errors
        errors.clear()
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        path = walked.removeprefix(os.curdir).lstrip(os.sep) if folder == os.curdir else walked
        for name in sorted(filter(_is_page, names)):
            stopping.check()
            yield os.path.join(path, name)  # noqa: PTH118
    yield from errors


def _is_page(name: str) -> bool:
    return not name.startswith(".") and by_suffix(name, reading=True) is TEXT and not packing_of(name)


def may_have_examples(data: bytes) -> bool:
    """Whether the bytes of a page may have an example or a table, in any encoding that is read."""
    return _TENSOR in data or _TENSOR in data.replace(b"\0", b"")
