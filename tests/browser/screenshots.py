"""Takes the pictures in docs/images: a campaign with the real interpreter, played in the page, then photographed.

`python -m tests.browser.screenshots FOLDER`. They are kept in 256 colours, so that they stay small.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

from bot.localhub import browser

KERNEL = "rms_norm"
COLOURS = 256
A_JOB_MS = 600_000
WIDE, PHONE = {"width": 1100, "height": 900}, {"width": 375, "height": 812}


@contextmanager
def served(folder: Path) -> Iterator[str]:
    words = [sys.executable, "-m", "bot", "demo", "--interactive", "--kernel", KERNEL]
    process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(timeout=60)


def say(page: Any, text: str) -> None:
    page.get_by_label("Comment, in Markdown").fill(text)
    page.get_by_role("button", name="Comment", exact=True).click()


def waits(page: Any, words: str) -> None:
    page.locator("#now").get_by_text(words).wait_for(timeout=A_JOB_MS)


def save(content: bytes, path: Path) -> None:
    drawn = Image.open(io.BytesIO(content)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    drawn.save(path, optimize=True)
    print(f"{path}: {drawn.width}x{drawn.height}, {path.stat().st_size / 1024:.0f} KiB")


def play(page: Any, out: Path) -> None:
    say(page, f"/optimize {KERNEL}")
    waits(page, "waits for a word on the profile")
    say(page, "/optimize approve")
    page.locator("#now .attempts li").nth(2).wait_for(timeout=A_JOB_MS)
    page.locator("#now").scroll_into_view_if_needed()
    page.wait_for_timeout(1500)
    save(page.screenshot(), out / "page-working.png")
    waits(page, "waits for a word on the winner")
    page.wait_for_timeout(1500)
    save(page.locator("#timeline article.bot").last.screenshot(), out / "demo.png")
    say(page, "/optimize approve")
    waits(page, "waits for the last word")
    page.get_by_label("Comment, in Markdown").fill("Reads well.")
    page.get_by_role("button", name="Approve", exact=True).click()
    waits(page, f"{KERNEL}: pushed")


def photograph(chromium: Any, address: str, out: Path) -> None:
    for name, size, look in (
        ("light", WIDE, "light"),
        ("dark", WIDE, "dark"),
        ("phone", PHONE, "light"),
    ):
        page = chromium.new_page(viewport=size, color_scheme=look)
        page.goto(f"{address}sample/kernels/pull/1", wait_until="load")
        page.wait_for_timeout(1500)
        save(page.screenshot(full_page=True), out / f"page-{name}.png")
    page = chromium.new_page(viewport=WIDE)
    page.goto(address)
    page.wait_for_timeout(1500)
    save(page.screenshot(full_page=True), out / "page-start.png")


def main() -> None:
    from playwright.sync_api import sync_playwright

    out, found = Path(sys.argv[1]), browser.found()
    if found is None:
        sys.exit("no Chromium; `make browser` installs one")
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as address, sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = chromium.new_page(viewport=WIDE)
        page.goto(f"{address}sample/kernels/pull/1")
        play(page, out)
        photograph(chromium, address, out)
        chromium.close()


if __name__ == "__main__":
    main()
