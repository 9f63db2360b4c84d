"""What the outputs of a batch need on each file system, and what is free there."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from typing import TYPE_CHECKING

from revseq_cli.report.results import FileSystem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from revseq_cli.report.results import Outcome


def needs(planned: Iterable[Outcome], paths: Mapping[int, str]) -> list[FileSystem]:
    """A row for each file system that outputs go to; `paths` has the real path of each job's output by its line.

    An output that replaces a file stands beside it until it is complete, and so does a temporary file. So what is
    needed is what all outputs have more than the files that they replace, and what the largest of these takes. Sizes
    are those of tensors: compression takes less, and text more.
    """
    more: dict[int, int] = defaultdict(int)
    largest: dict[int, int] = defaultdict(int)
    folders: dict[int, str] = {}
    for outcome in planned:
        if not outcome.plan:
            continue
        path = paths[outcome.line]
        folder = os.path.dirname(path)  # noqa: PTH120 - a string
        device = os.stat(folder).st_dev  # noqa: PTH116
        old = os.path.getsize(path) if os.path.isfile(path) else 0  # noqa: PTH113, PTH202
        folders.setdefault(device, folder)
        size, temporary = outcome.plan.size, outcome.plan.written - outcome.plan.size
        more[device] += max(0, size - old)
        largest[device] = max(largest[device], min(old, size) + temporary)
    return [
        FileSystem(_top(folder), more[device] + largest[device], shutil.disk_usage(folder).free)
        for device, folder in folders.items()
    ]


def _top(folder: str) -> str:
    """The highest folder of the file system that has this one."""
    while not os.path.ismount(folder) and os.path.dirname(folder) != folder:  # noqa: PTH120
        folder = os.path.dirname(folder)  # noqa: PTH120
    return folder
