"""Every rewrite over the Triton files of any other library: what raised, what does not parse, and the texts to be read.

    python -m tests.engine.elsewhere FOLDER [--diffs OUT]

Rewrites are made for the kernels of one library, and asked of whatever people write. No file of that library is needed,
no GPU, and nothing of it is run.
"""

from __future__ import annotations

import ast
import difflib
import multiprocessing
import os
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from bot.engine import rewriting
from bot.engine.transforms import TRANSFORMS

MOST_BYTES = 80_000
CONTEXT = 4
"""Lines around a change."""


@dataclass(frozen=True)
class Made:
    """By one rewrite, of one file."""

    file: str
    rewrite: str
    diff: str = ""
    wrong: str = ""
    """What it raised, or why its text does not parse."""


def files(folder: Path) -> list[Path]:
    """Those with a kernel, each text once."""
    texts: dict[str, Path] = {}
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        if "triton.jit" in text and len(text) <= MOST_BYTES:
            texts.setdefault(text, path)
    return list(texts.values())


def of_text(file: str, text: str) -> Iterator[Made]:
    """Of the rewrites that look at one file, those that have something for it."""
    for name in TRANSFORMS:
        try:
            found = rewriting.of_file(name, text)
            if found is None:
                continue
            ast.parse(found.text)
        except Exception:
            yield Made(file, name, wrong=traceback.format_exc(limit=-2))
            continue
        lines = (text.splitlines(True), found.text.splitlines(True))
        yield Made(file, name, "".join(difflib.unified_diff(*lines, file, file, n=CONTEXT)))


def _of_file(folder: Path, path: Path) -> list[Made]:
    return list(of_text(str(path.relative_to(folder)), path.read_text(encoding="utf-8", errors="replace")))


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--diffs", type=click.Path(path_type=Path), help="Where the diffs go, a folder for each rewrite.")
def main(folder: Path, diffs: Path | None) -> None:
    """Hold every rewrite to the Triton files below FOLDER."""
    read = files(folder)
    with multiprocessing.Pool(os.cpu_count()) as pool:
        made = [one for found in pool.imap_unordered(partial(_of_file, folder), read) for one in found]
    for one in made if diffs is not None else ():
        place = diffs / one.rewrite / f"{one.file.replace('/', '__')}.diff"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(one.diff or one.wrong, encoding="utf-8")
    for one in made:
        if one.wrong:
            click.echo(f"{one.rewrite} of {one.file}:\n{one.wrong}")
    for name, count in Counter(one.rewrite for one in made).most_common():
        click.echo(f"{count:5} {name}")
    click.echo(f"{len(read)} files, {len(made)} texts, {sum(bool(one.wrong) for one in made)} wrong")


if __name__ == "__main__":
    main()
