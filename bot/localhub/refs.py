"""The refs of a bare repository, read from its files: every request asks for them, and a process a request is slow."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

SHA = re.compile(r"[0-9a-f]{40}")
SYMBOLIC = "ref: "
DEEPEST = 5
"""Symbolic refs in a row that git follows."""


def _text(path: Path) -> str:
    """A ref that is deleted or packed at this moment is not there."""
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ""


def _loose(folder: Path, name: str) -> Iterator[tuple[str, str]]:
    try:
        found = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in found:
        here = f"{name}/{entry.name}"
        if entry.is_dir():
            yield from _loose(folder / entry.name, here)
        elif not entry.name.endswith(".lock"):
            yield here, _text(folder / entry.name).strip()


def _packed(bare: Path) -> Iterator[tuple[str, str]]:
    for line in _text(bare / "packed-refs").splitlines():
        sha, _, name = line.partition(" ")
        if SHA.fullmatch(sha) and name:  # neither the heading nor what an annotated tag is of
            yield name, sha


def _target(name: str, found: dict[str, str]) -> str | None:
    for _ in range(DEEPEST + 1):
        value = found.get(name, "")
        if not value.startswith(SYMBOLIC):
            return value if SHA.fullmatch(value) else None
        name = value.removeprefix(SYMBOLIC).strip()
    return None


def read_refs(bare: Path) -> dict[str, str]:
    """Every ref and where it points. Loose refs come first: git packs one before it removes the file."""
    loose = dict(_loose(bare / "refs", "refs"))
    found = {**dict(_packed(bare)), **loose}
    targets = ((name, _target(name, found)) for name in sorted(found))
    return {name: sha for name, sha in targets if sha is not None}
