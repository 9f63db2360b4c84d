"""An example as it stands on a docs page: with a heading and in a block of code."""

from __future__ import annotations

import html
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def _markdown(title: str, example: str) -> str:
    return f"### {title}\n\n```\n{example}\n```"


def _html(title: str, example: str) -> str:
    anchor = title.lower().replace(" ", "-")
    return (
        f'<h3 id="{anchor}">{html.escape(title)}</h3>\n\n<pre><code>{html.escape(example, quote=False)}\n</code></pre>'
    )


def _rst(title: str, example: str) -> str:
    return f"{title}\n{'^' * len(title)}\n\n.. code-block:: none\n\n{textwrap.indent(example, '    ')}"


# The forms of an example, each made of a title and the example's text. --help must not load NumPy, nor does this.
DRESSES: dict[str, Callable[[str, str], str]] = {
    "plain": lambda _, example: example,
    "markdown": _markdown,
    "html": _html,
    "rst": _rst,
}
