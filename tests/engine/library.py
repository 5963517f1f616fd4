"""Small op files in the shapes that real ones have, and the sample's own."""

from __future__ import annotations

import difflib
import os
import subprocess
import sys
from pathlib import Path

OPS = Path(__file__).parents[2] / "templates" / "sample" / "src" / "sample_kernels" / "ops"


def sample(kernel: str) -> str:
    return (OPS / f"{kernel}.py").read_text(encoding="utf-8")


def interpret(place: Path, script: str, **texts: str) -> None:
    """Runs a script, told the place, in Triton's interpreter, beside modules of these names with these texts."""
    for name, text in texts.items():
        (place / f"{name}.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-c", script, str(place)]
    subprocess.run(command, env={**os.environ, "TRITON_INTERPRET": "1"}, check=True, timeout=100)


def changes(before: str, after: str) -> tuple[list[str], list[str]]:
    """(lines gone, lines new)."""
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm=""))[2:]
    return [line[1:] for line in lines if line[0] == "-"], [line[1:] for line in lines if line[0] == "+"]


HEAD = '''"""An op."""

import torch
import triton
import triton.language as tl


@triton.jit
def _k(x, y, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)  # the whole row
    mask = cols < n_cols
    v = tl.load(x + row * n_cols + cols, mask=mask)
    tl.store(y + row * n_cols + cols, v * 2, mask=mask)


'''


def op(body: str) -> str:
    """An op file whose host function has this body."""
    lines = "\n".join(f"    {line}" if line else "" for line in body.strip("\n").splitlines())
    return f"{HEAD}def run(x, y, n_rows, n_cols):\n{lines}\n"
