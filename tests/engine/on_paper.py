"""Plays the two files of `products` in Triton's interpreter, in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.engine.products import HOST

SCRIPT = """
import sys

import torch
from lib.ops.experts import backward, forward
from lib.ops.experts_kernels import _product_kernel, _weights_kernel

torch.manual_seed(0)
for kernel in (_product_kernel, _weights_kernel):
    kernel.configs = kernel.configs[int(sys.argv[1]) :][:1]  # there is no clock to choose by
for rows, inner, cols in ((150, 40, 70), (1, 1, 1), (64, 128, 64)):
    x, w, dy = torch.randn(rows, inner), torch.randn(cols, inner), torch.randn(rows, cols)
    torch.testing.assert_close(forward(x, w), x @ w.T)
    torch.testing.assert_close(backward(x, dy), dy.T @ x)
    print(rows, float(forward(x, w).double().sum().round(decimals=2)))
"""


def played(files: Mapping[str, str], folder: Path, *, tunes: bool = True) -> str:
    """What the script prints, once all of its products were right, with the last configuration of each list."""
    root = Path(HOST).parts[0]
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(folder / root), "LIB_TUNES": "01"[tunes]}
    command = [sys.executable, "-c", SCRIPT, "-1"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
