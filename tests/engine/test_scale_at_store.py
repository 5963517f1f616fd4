"""A gradient that is multiplied by one number is multiplied as it is stored."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bot.engine.transforms import scale_at_store
from tests.engine.library import changes, sample

LOSS = '''"""A loss in the shape that kl_div of Liger has."""

import torch
import triton
import triton.language as tl


@triton.jit
def _k(
    x_ptr,
    stride,
    grad_ptr,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
    log: tl.constexpr = False,
):
    pid = tl.program_id(0)
    x_ptr += pid * stride
    grad_ptr += pid * stride
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        res = -tl.load(x_ptr + cols, mask=cols < n_cols).to(tl.float32)

        # in the type of the gradient
        tl.store(grad_ptr + cols, res, mask=cols < n_cols)


def backward(x, grad_output, grads):
    rows, cols = x.shape

    # a row each
    _k[(rows,)](x, x.stride(0), grads, cols, BLOCK_SIZE=1024)

    # It is 1.0 most of the time
    if torch.equal(grad_output, torch.tensor(1.0, device=grad_output.device)):
        return grads

    return grads * grad_output


class Loss(torch.autograd.Function):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        grads = torch.empty_like(x)

        found = backward(x, grad_output, grads)

        if ctx.reduction == "batchmean":
            found = found / x.shape[0]
        elif ctx.reduction == "sum":
            pass
        elif ctx.reduction == "mean":
            found = found / (x.shape[0] * x.shape[1])
        return found, None
'''


STORED = "tl.store(grad_ptr + cols, res, mask=cols < n_cols)"
LOADED = "tl.load(x_ptr + cols, mask=cols < n_cols).to(tl.float32)"


def folded(text: str) -> str | None:
    found = scale_at_store.rewrite(text)
    return found.text if found is not None else None


def test_store_launch_shortcut_and_division_change_and_nothing_else() -> None:
    after = folded(LOSS)
    assert after is not None
    ast.parse(after)
    gone, new = changes(LOSS, after)
    assert [line for line in gone if line] == [
        "    _k[(rows,)](x, x.stride(0), grads, cols, BLOCK_SIZE=1024)",
        "    if torch.equal(grad_output, torch.tensor(1.0, device=grad_output.device)):",
        "        return grads",
        "        found = backward(x, grad_output, grads)",
        "            found = found / x.shape[0]",
        "            found = found / (x.shape[0] * x.shape[1])",
    ]
    assert new == [
        "    scale_ptr=None,",
        "        if scale_ptr is not None:",
        "            res = res * tl.load(scale_ptr).to(tl.float32)",
        f"    # {scale_at_store.WHY}",
        "    is_number = grad_output.dim() == 0 and grad_output.device == grads.device",
        f"    # {scale_at_store.AGAIN}",
        "    is_number = is_number and not (torch.is_grad_enabled() and grad_output.requires_grad)",
        "    _k[(rows,)](x, x.stride(0), grads, cols, BLOCK_SIZE=1024, scale_ptr=grad_output if is_number else None)",
        f"    # {scale_at_store.DONE}",
        "    if is_number:",
        "        return grads.view(grads.shape)",
        f"        # {scale_at_store.DIVIDED}",
        "            grad_output = grad_output.to(torch.float32) / x.shape[0]",
        "            grad_output = grad_output.to(torch.float32) / (x.shape[0] * x.shape[1])",
        "        found = backward(x, grad_output, grads)",
    ]


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("a division by what the result holds", "found = found / x.shape[0]\n", "found = found / found.shape[0]\n"),
        ("more than a division", "found = found / x.shape[0]\n", "found = found / x.shape[0] + 1\n"),
        ("a decision about the number", '"batchmean":', '"batchmean" and grad_output:'),
        ("a number that is read later", "        return found, None", "        return found, grad_output"),
        ("a division by what the call may fill", "found / x.shape[0]\n", "found / x.sum()\n"),
        ("a second call", "        return found, None", "        return backward(x, grad_output, grads), None"),
        ("the number twice", "backward(x, grad_output, grads)\n", "backward(x * grad_output, grad_output, grads)\n"),
    ],
)  # fmt: skip
def test_a_division_stays_where_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in LOSS
    found = folded(LOSS.replace(before, after))
    assert found is not None and scale_at_store.DIVIDED not in found, why


def test_it_is_done_once() -> None:
    after = folded(LOSS)
    assert after is not None and folded(after) is None


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("a gradient that is read", "        res = -", "        res = tl.load(grad_ptr + cols) - "),
        ("two stores", "        res = -", "        tl.store(grad_ptr + cols, 0.0)\n        res = -"),
        ("an early return", "    for start in", "    if pid > 3:\n        return\n    for start in"),
        ("a value without a name", "cols, res, mask", "cols, res + 1, mask"),
        ("a gradient that is changed on the way", "    # It is 1.0", "    grads += 1\n    # It is 1.0"),
        ("no shortcut", "torch.equal(grad_output, torch.tensor(1.0", "torch.equal(grad_output, torch.tensor(2.0"),
        ("another shortcut", "        return grads\n\n", "        return x\n\n"),
        ("a product with something else", "return grads * grad_output", "return grads * grad_output * 2"),
        ("a launch that may not happen", "    _k[(rows,)]", "    if rows:\n     _k[(rows,)]"),
        ("the number is changed on the way", "    # It is 1.0", "    grad_output /= rows\n    # It is 1.0"),
        ("another name of the gradient", "    # a row each", "    flat = grads.view(-1)\n    # a row each"),
        ("a gradient that has something in it", "    # a row each", "    grads = torch.exp(x)\n    # a row each"),
        ("what is stored is read behind", f"{STORED}\n", f"{STORED}\n        x_ptr += res\n"),
        ("what is stored is made elsewhere", f"        res = -{LOADED}\n", "        pass\n"),
        ("what is stored is read elsewhere", "    for start in", "    res = x_ptr\n    x_ptr = res\n    for start in"),
        ("a running value", "res = -tl.load", "res = res - tl.load"),
        ("a place that is a number", "tl.store(grad_ptr + cols", "tl.store(grad_ptr + tl.load(x_ptr)"),
        ("two launches", "    # a row each\n", "    _k[(rows,)](x, 1, x, cols, BLOCK_SIZE=1024)\n"),
        ("a gradient that is handed over twice", "_k[(rows,)](x, x", "_k[(rows,)](grads, x"),
        ("a name that is taken", "    rows, cols = x.shape", "    rows, cols = x.shape\n    print(is_number)"),
    ],
)  # fmt: skip
def test_a_product_stays_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in LOSS
    assert folded(LOSS.replace(before, after)) is None, why


def test_a_gradient_that_the_forward_made_is_for_another_rewrite() -> None:
    assert folded(sample("jsd")) is None


TWICE = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
from after import backward

x, number = torch.randn(3, 40), torch.tensor(1.5, requires_grad=True)
with torch.no_grad():  # as in a step of training
    assert torch.equal(backward(x, number, torch.empty_like(x)), -1.5 * x)
again = backward(x, number, torch.empty_like(x))  # with create_graph
assert torch.equal(again, -1.5 * x)
(of_number,) = torch.autograd.grad(again.sum(), number)
torch.testing.assert_close(of_number, -x.sum())
"""


def test_who_differentiates_once_more_still_can(tmp_path: Path) -> None:
    """kl_div's winner handed out a gradient that knew nothing of the weight of its loss."""
    after = folded(LOSS)
    assert after is not None
    (tmp_path / "after.py").write_text(after, encoding="utf-8")
    command = [sys.executable, "-c", TWICE, str(tmp_path)]
    ended = subprocess.run(command, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
