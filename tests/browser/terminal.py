"""Makes terminal.png: a real campaign on the sample library, in a terminal of its own, as that terminal showed it.

    python -m tests.browser.terminal FOLDER              # runs it: some minutes, no GPU needed
    python -m tests.browser.terminal FOLDER --raw FILE   # draws again what an earlier run wrote to --keep FILE

Two moments are drawn: the live picture in the middle of the search, and the terminal as it stands at the end. Needs a
Chromium (`make browser`).
"""

from __future__ import annotations

import argparse
import copy
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from PIL import Image

from bot.localhub.browser import screenshot
from tests.fakes.tty import Sheet, Terminal

ROOT = Path(__file__).parents[2]
COLUMNS, HEIGHT = 96, 40
KERNEL = "rms_norm"
WORDS = ["optimize", KERNEL, "--max-variants", "5"]
TYPED = "kernelwright " + " ".join(WORDS)
STYLE = """
body { margin: 0; padding: 28px; background: #e9edf2; width: 1000px; }
.window { background: #11151c; border-radius: 10px; overflow: hidden; margin-bottom: 24px; }
.bar { background: #232a35; color: #a9b4c2; font: 13px sans-serif; padding: 9px 14px; }
pre { margin: 0; padding: 14px 18px 18px; color: #dbe2ea; font: 15px/1.42 "DejaVu Sans Mono", monospace; }
.s1 { font-weight: 700; color: #fff; } .s2 { color: #8593a3; } .s32 { color: #57cf70; } .s31 { color: #ff7b72; }
.s133 { font-weight: 700; color: #f0b429; } .prompt { color: #6cb0ff; }
"""


def _was_asked(times: int, sheet: Sheet) -> bool:
    return sheet.text.count("| quit:") == times


def play(keep: Path | None) -> str:
    """Everything the terminal was sent, from the first line to the pushed commit."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "kernels"
        shutil.copytree(ROOT / "templates/sample", tree, ignore=shutil.ignore_patterns("__pycache__", ".*_cache"))
        author = ["-c", "user.name=dana", "-c", "user.email=dana@example.org"]
        for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "Sample"]):
            subprocess.run(["git", *author, *words], cwd=tree, check=True)
        environment = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "bot", *WORDS]
        terminal = Terminal(command, tree, environment, columns=COLUMNS, height=HEIGHT)
        for count in (1, 2, 3):
            terminal.until(partial(_was_asked, count), 1800)
            terminal.type("approve")
        terminal.end(600)
    if keep is not None:
        keep.write_bytes(terminal.raw.encode())
    return terminal.raw


def moments(raw: str) -> tuple[Sheet, Sheet]:
    """The live picture that shows most, and the end."""
    sheet, live, most = Sheet(COLUMNS, HEIGHT), None, (0, False)
    for frame in re.split(r"(?=\x1b\[\?25l)", raw):
        sheet.feed(frame)
        busy = re.search(r"(\d\.\d) of \d+ cores? busy", sheet.text)
        if "round" in sheet.text and "measuring" in sheet.text and busy:
            shows = (len(re.findall(r"^[* ] v\d", sheet.text, re.M)), float(busy[1]) >= 0.5)
            if shows >= most:
                live, most = copy.deepcopy(sheet), shows
    assert live is not None, "the search never showed a picture"
    top = next(i for i, row in enumerate(live.rows) if "".join(char for char, _ in row).startswith(f"{KERNEL} · "))
    live.rows = live.rows[top:]
    asked = max(i for i, row in enumerate(sheet.rows) if "your word on the winner" in "".join(c for c, _ in row))
    sheet.rows = sheet.rows[asked:]
    return live, sheet


def window(sheet: Sheet, title: str) -> str:
    """Rows of cells as HTML, one span for each run of a colour."""
    lines = []
    for row in sheet.rows:
        line, run, style = [], "", ""
        for char, colour in [*row, ("", "end")]:
            if colour != style:
                name = style.replace(";", "")
                line.append(f'<span class="s{name}">{html.escape(run)}</span>' if name else html.escape(run))
                run, style = "", colour
            run += char
        lines.append("".join(line))
    body = "\n".join(lines).rstrip()
    return f'<div class="window"><div class="bar">{html.escape(title)}</div><pre>{body}</pre></div>'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--raw", type=Path)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    raw = given.raw.read_bytes().decode() if given.raw else play(given.keep)
    live, end = moments(raw)
    page = window(live, f"$ {TYPED}") + window(end, "the same terminal, after the search")
    picture = given.folder / "terminal.png"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        head = f"<!doctype html><meta charset=utf-8><style>{STYLE}</style>"
        path.write_text(f"{head}<body>{page}</body>", encoding="utf-8")
        if not screenshot(path, picture, 1056):
            raise SystemExit("no picture: is there a Chromium? `make browser` installs one")
    few = Image.open(picture).convert("RGB").quantize(48, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(picture, compress_level=9)


if __name__ == "__main__":
    main()
