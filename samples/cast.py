"""Draw README's cast: two commands on a terminal and what they print, as an animated SVG.

Run it in this folder, where `revseq` is on the PATH: python cast.py > cast.svg
The picture has no script, and no font or file from outside. It is still for readers who want
no motion.
"""

import html
import os
import re
import shlex
import subprocess
import sys

COMMANDS = [
    'revseq run "[[1, 2, 3, 0], [5, 6, 0, 0]]" "[3, 2]" --axis 1 --batch-axis 0',
    "revseq diff port/gpu.npy --job port/x.npy port/lengths.npy --axis 1 --batch-axis 0 --first 3",
]
COLUMNS = 84
CHARACTER = 8.4  # pixels: the width of a character of 14 pixels
LINE = 20  # pixels
MARGIN = 16
TYPING = 0.03  # seconds for a character
PAUSE = 0.6  # seconds before a command prints, and before the next one is typed

DESCRIPTION = (
    "revseq run prints a tensor whose sequences are reversed, with the reversed parts bold and the "
    "padding dim. revseq diff --job lists the wrong sequences of an output, and says that its "
    "lengths are 1 too small."
)
STYLE = """
text { font: 14px Consolas, "SF Mono", Menlo, "DejaVu Sans Mono", monospace; white-space: pre }
.ground { fill: #ffffff; stroke: #d0d0d0 } text { fill: #1f1f1f } .prompt { fill: #0067b8 }
.bold { font-weight: 700 } .dim { fill: #6a6a6a } .wrong { fill: #b3131f; font-weight: 700 }
@media (prefers-color-scheme: dark) {
  .ground { fill: #1f1f1f; stroke: #3a3a3a } text { fill: #e6e6e6 } .prompt { fill: #6cb8f6 }
  .dim { fill: #a0a0a0 } .wrong { fill: #ff8087 }
}
@keyframes appear { from { visibility: hidden } to { visibility: visible } }
.later { animation: appear 1ms linear both }
@media (prefers-reduced-motion: reduce) { .later { animation: none } }
"""
# What the styles of a terminal are called in the picture.
CLASSES = {"1": "bold", "2": "dim", "1;4;31": "wrong"}


def output_of(command: str) -> list[str]:
    """The lines that a command prints in colour on a terminal of so many columns."""
    env = os.environ | {"COLUMNS": str(COLUMNS), "PYTHONUTF8": "1"}
    words = [*shlex.split(command), "--color", "always"]
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, check=False
    )
    return done.stdout.rstrip("\n").split("\n")


def spans(line: str) -> str:
    """A line with the styles of a terminal, as the content of a text."""
    parts = re.split(r"\x1b\[([\d;]*)m", line)
    drawn = html.escape(parts[0])
    for style, words in zip(parts[1::2], parts[2::2], strict=True):
        name = CLASSES.get(style, "")
        escaped = html.escape(words)
        drawn += f'<tspan class="{name}">{escaped}</tspan>' if name else escaped
    return drawn


def wrap(command: str) -> list[str]:
    """A command in lines, each but the last with a backslash."""
    lines = [""]
    for word in command.split(" "):
        if len(lines[-1]) + len(word) > COLUMNS - 6:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]


def draw() -> str:
    """The whole picture."""
    rows = []
    time = 0.5
    y = MARGIN + 14

    def add(content: str, begin: float) -> None:
        nonlocal y
        rows.append(
            f'<text class="later" style="animation-delay: {begin:.2f}s" x="{MARGIN}" y="{y}">'
            f"{content}</text>"
        )
        y += LINE

    for command in COMMANDS:
        for number, line in enumerate(wrap(command)):
            prompt = '<tspan class="prompt">$</tspan> ' if number == 0 else "    "
            add(prompt + html.escape(line.strip()), time)
            time += TYPING * len(line)
        time += PAUSE
        for line in output_of(command):
            add(spans(line), time)
        time += PAUSE * 3
        y += LINE // 2
    width = round(COLUMNS * CHARACTER) + 2 * MARGIN
    height = y
    return "\n".join(
        [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
                f'viewBox="0 0 {width} {height}" style="max-width: 100%; height: auto" role="img">'
            ),
            "<title>Two commands on a terminal: run and diff --job</title>",
            f"<desc>{DESCRIPTION}</desc>",
            f"<style>{STYLE}</style>",
            (
                f'<rect class="ground" x="0.5" y="0.5" rx="6" '
                f'width="{width - 1}" height="{height - 1}"/>'
            ),
            *rows,
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    sys.stdout.write(draw())
