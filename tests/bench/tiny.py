"""A library of one kernel, small enough that a whole measurement takes a few seconds."""

from __future__ import annotations

from pathlib import Path

from bot.model.measurement import Case, Suite
from bot.model.site import KernelSite
from bot.model.variant import SourceFile

OP = "src/tiny/ops/softmax.py"
SITE = KernelSite(
    kernel="softmax",
    preset="liger",
    source_root="src",
    module="tiny.ops.softmax",
    files=(OP,),
    test_file="test/test_softmax.py",
    benchmark_file="benchmark/benchmark_softmax.py",
    test_command=("python", "-m", "pytest", "{test}"),
    style_command=("true",),
)

SETTINGS = '''"""Not a file of the kernel: it stays as the tree has it."""

import triton


def block_of(n_cols):
    return triton.next_power_of_2(n_cols)
'''

SOURCE = '''"""Softmax over the last dimension."""

import torch
import triton
import triton.language as tl

from tiny.ops.settings import block_of


@triton.jit
def _softmax_forward_kernel(Y, X, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(X + row * n_cols + cols, mask=mask, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    y = e / tl.sum(e, axis=0)
    tl.store(Y + row * n_cols + cols, y.to(Y.dtype.element_ty), mask=mask)


@triton.jit
def _softmax_backward_kernel(dX, dY, Y, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    dy = tl.load(dY + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    y = tl.load(Y + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    dx = y * (dy - tl.sum(y * dy, axis=0))
    tl.store(dX + row * n_cols + cols, dx.to(dX.dtype.element_ty), mask=mask)


class SoftmaxFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        n_cols = x.shape[-1]
        rows = x.numel() // n_cols
        _softmax_forward_kernel[(rows,)](y, x, n_cols, BLOCK_SIZE=block_of(n_cols), num_warps=4)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        dy = dy.contiguous()
        dx = torch.empty_like(dy)
        n_cols = y.shape[-1]
        rows = y.numel() // n_cols
        _softmax_backward_kernel[(rows,)](dx, dy, y, n_cols, BLOCK_SIZE=block_of(n_cols), num_warps=4)
        return dx
'''


def _case(direction: str, rows: int, cols: int, dtype: str) -> Case:
    return Case.model_validate(
        {
            "id": f"{direction}-{rows}x{cols}-{dtype}",
            "direction": direction,
            "shape": (("rows", rows), ("cols", cols)),
            "dtype": dtype,
        }
    )


SUITE = Suite(
    name="quick",
    cases=(_case("forward", 512, 2048, "bfloat16"), _case("backward", 512, 2048, "bfloat16")),
    checks=(
        _case("forward", 7, 100, "float32"),
        _case("backward", 7, 100, "float32"),
        _case("forward", 3, 1, "float32"),
        _case("full", 5, 33, "float16"),
        _case("forward", 4, 16, "bfloat16"),
    ),
)


def write_tree(root: Path) -> Path:
    ops = root / "src" / "tiny" / "ops"
    ops.mkdir(parents=True)
    (root / "src" / "tiny" / "__init__.py").write_text("")
    (ops / "__init__.py").write_text("")
    (ops / "settings.py").write_text(SETTINGS)
    (ops / "softmax.py").write_text(SOURCE)
    return root


def files(text: str = SOURCE) -> tuple[SourceFile, ...]:
    return (SourceFile(path=OP, text=text),)


def changed(old: str, new: str) -> tuple[SourceFile, ...]:
    assert old in SOURCE
    return files(SOURCE.replace(old, new))


def hostile(code: str) -> tuple[SourceFile, ...]:
    """Runs this when the module is imported."""
    return files(SOURCE + "\n\n" + code + "\n")
