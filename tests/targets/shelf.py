"""Small repositories for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bot.targets.tree import DirectoryTree

MAKEFILE = """test:
\tpython -m pytest --ignore=test/convergence \\
\t\t--ignore=test/gpu/ test

checkstyle:
\truff check .
"""


def lay_out(root: Path, files: Mapping[str, str]) -> DirectoryTree:
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return DirectoryTree(root)


def kernel_files(kernel: str, package: str = "pkg") -> dict[str, str]:
    return {
        f"src/{package}/ops/{kernel}.py": "def op(): ...\n",
        f"test/transformers/test_{kernel}.py": "",
        f"benchmark/scripts/benchmark_{kernel}.py": "",
    }
