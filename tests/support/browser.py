"""A real browser for tests: Chromium without a window, which prints what became of a page, or takes its picture.

The tests that use it are skipped where none is found on PATH. It loads nothing from a network.
"""

import html
import json
import os
import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
# axe-core's one file: as npm lays it, in the checkout or where the variable says.
AXE = Path(os.environ.get("REVSEQ_AXE") or Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js")
_MEASURED = re.compile(r'<pre id="measured">(.*?)</pre>', re.DOTALL)
_LIMIT = 240  # seconds, many times what a page takes


def _run(folder, page, *options, dark=False):
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else ["--blink-settings=preferredColorScheme=1"]
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-extensions", "--hide-scrollbars",
             f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=20000"]  # fmt: skip
    command = [CHROMIUM, *flags, *scheme, *options, page.as_uri()]
    return subprocess.run(command, capture_output=True, check=True, timeout=_LIMIT).stdout


def dom(folder, page, *, dark=False, width=1000):
    """The page as it is after it has been loaded, as HTML."""
    return _run(folder, page, f"--window-size={width},1000", "--dump-dom", dark=dark).decode()


def measured(folder, body, script, **options):
    """What a script that assigns to `result` finds on a page of this body, as text."""
    page = folder / "measured.html"
    report = "const pre = document.createElement('pre'); pre.id = 'measured'; document.body.append(pre);"
    report += f"Promise.resolve((() => {{ {script} }})()).then(found => {{ pre.textContent = JSON.stringify(found) }})"
    page.write_text(f'<!DOCTYPE html><meta charset="utf-8">{body}<script>{report}</script>', encoding="utf-8")
    return json.loads(html.unescape(_MEASURED.search(dom(folder, page, **options))[1]))


def pixels(folder, page, *, dark=False, width=540, height=330):
    """The rows of a screenshot, each a list of (red, green, blue)."""
    path = folder / "shot.png"
    _run(folder, page, f"--window-size={width},{height}", f"--screenshot={path}", dark=dark)
    return _decoded(path.read_bytes())


def printed(folder, page):
    """How many bytes of drawing each sheet has of the page printed on paper."""
    path = folder / "printed.pdf"
    _run(folder, page, "--no-pdf-header-footer", f"--print-to-pdf={path}")
    data = path.read_bytes()
    objects = dict(re.findall(rb"(?m)^(\d+) 0 obj\n?(.*?)endobj", data, re.DOTALL))
    sheets = [body for body in objects.values() if re.search(rb"/Type\s*/Page\b", body)]
    streams = [objects[re.search(rb"/Contents\s+(\d+) 0 R", sheet)[1]] for sheet in sheets]
    found = [re.search(rb"stream\r?\n(.*?)\r?\nendstream", stream, re.DOTALL)[1] for stream in streams]
    return [len(zlib.decompress(each)) for each in found]


def _decoded(png):
    """The rows of a PNG of 8 bits for each of three or four channels, which is not interlaced."""
    place, data, header = 8, b"", None
    while place < len(png):
        size, kind = struct.unpack(">I4s", png[place : place + 8])
        chunk = png[place + 8 : place + 8 + size]
        header = struct.unpack(">IIBBBBB", chunk) if kind == b"IHDR" else header
        data += chunk if kind == b"IDAT" else b""
        place += size + 12
    width, height, depth, color, *_, interlaced = header
    assert (depth, interlaced, color in (2, 6)) == (8, 0, True)
    channels = 3 if color == 2 else 4
    raw, rows, above = zlib.decompress(data), [], bytes(width * channels)
    for y in range(height):
        start = y * (width * channels + 1)
        above = _unfiltered(raw[start], bytearray(raw[start + 1 : start + 1 + width * channels]), above, channels)
        rows.append([tuple(above[i : i + 3]) for i in range(0, len(above), channels)])
    return rows


def _unfiltered(kind, line, above, channels):
    for i in range(len(line)):
        left, up = line[i - channels] if i >= channels else 0, above[i]
        corner = above[i - channels] if i >= channels else 0
        guess = left + up - corner
        nearest = min((left, up, corner), key=lambda each: abs(guess - each))
        line[i] = (line[i] + (0, left, up, (left + up) // 2, nearest)[kind]) & 255
    return bytes(line)
