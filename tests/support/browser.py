"""A real browser for tests: Chromium without a window, which prints what became of a page.

The tests that use it are skipped where none is found on PATH. It loads nothing from a network.
"""

import html
import json
import re
import shutil
import subprocess
import zlib

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
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
