"""A real browser for tests: Chromium without a window, which prints what became of a page.

The tests that use it are skipped where none is found on PATH. It loads nothing from a network.
"""

import html
import json
import re
import shutil
import subprocess

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
_MEASURED = re.compile(r'<pre id="measured">(.*?)</pre>', re.DOTALL)
_LIMIT = 240  # seconds, many times what a page takes


def measured(folder, body, script):
    """What a script that returns a value or a promise finds on a page of this body."""
    page = folder / "measured.html"
    report = "const pre = document.createElement('pre'); pre.id = 'measured'; document.body.append(pre);"
    report += f"Promise.resolve((() => {{ {script} }})()).then(found => {{ pre.textContent = JSON.stringify(found) }})"
    page.write_text(f'<!DOCTYPE html><meta charset="utf-8">{body}<script>{report}</script>', encoding="utf-8")
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-extensions", f"--user-data-dir={folder / 'profile'}",
             "--virtual-time-budget=20000", "--dump-dom"]  # fmt: skip
    done = subprocess.run([CHROMIUM, *flags, page.as_uri()], capture_output=True, check=True, timeout=_LIMIT)
    return json.loads(html.unescape(_MEASURED.search(done.stdout.decode())[1]))
