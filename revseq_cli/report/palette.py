"""The colours of pictures and pages, light and dark: those of text have a contrast of at least 4.5 on their ground."""

from __future__ import annotations

from typing import NamedTuple

from revseq_cli.report.figures import CLAMPED, DIFFERENT, REVERSED


class Palette(NamedTuple):
    """Ground and text; text that matters less; lines; arrows; and for each mark, ground and text."""

    ground: str
    text: str
    quiet: str
    line: str
    arrow: str
    marks: dict[str, tuple[str, str]]


LIGHT = Palette(
    "#ffffff", "#161616", "#595959", "#d2d2d2", "#0067b8",
    {REVERSED: ("#e6f2fb", "#00508f"), CLAMPED: ("#fff4ce", "#6b4900"), DIFFERENT: ("#fde7e9", "#a4262c")},
)  # fmt: skip
DARK = Palette(
    "#1f1f1f", "#e6e6e6", "#a8a8a8", "#505050", "#6cb8f6",
    {REVERSED: ("#0e3a5c", "#a9d8ff"), CLAMPED: ("#4a3a08", "#ffdc84"), DIFFERENT: ("#4e2126", "#ffb3b8")},
)  # fmt: skip
