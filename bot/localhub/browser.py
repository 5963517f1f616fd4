"""A picture of a page, where a Chromium is installed. Nobody depends on it: it answers False and never raises."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
DEADLINE_S = 60.0
TALLEST = 15000
"""Chromium draws no picture above 16384 pixels."""
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
MEASURE = "<script>document.documentElement.dataset.tall = document.documentElement.scrollHeight</script>"


def found() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def _run(browser: str, home: Path, *words: str) -> str:
    command = (browser, *FLAGS, f"--user-data-dir={home}", *words)
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=DEADLINE_S,
        check=True,
    ).stdout


def _height(browser: str, scratch: Path, html: str, words: tuple[str, ...], width: int) -> int:
    """How tall the page is at this width: asked of a copy that may run one line of our own script."""
    copy = scratch / "measured.html"
    copy.write_text(POLICY.sub("", html).replace("</body>", f"{MEASURE}</body>"), encoding="utf-8")
    shown = _run(browser, scratch / "home", *words, f"--window-size={width},800", "--dump-dom", copy.as_uri())
    told = re.search(r'<html[^>]* data-tall="(\d+)"', shown)
    return min(int(told[1]), TALLEST) if told else 4000


def screenshot(html_path: Path, png_path: Path, width: int = 1100, dark: bool = False) -> bool:
    """Save the whole page as a picture; False when there is no browser or it fails."""
    browser = found()
    if browser is None:
        return False
    words = ("--blink-settings=preferredColorScheme=0",) if dark else ()
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            scratch = Path(folder)
            tall = _height(browser, scratch, html_path.read_text(encoding="utf-8"), words, width)
            picture = f"--screenshot={png_path.resolve()}"
            address = html_path.resolve().as_uri()
            _run(browser, scratch / "home", *words, f"--window-size={width},{tall}", picture, address)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return False
    return png_path.is_file() and png_path.stat().st_size > 0
