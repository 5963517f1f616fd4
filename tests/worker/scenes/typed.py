"""A kernel that meets most of what the interpreter's types do, run with quick types or without: `typed quick|stock`."""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
import triton
import triton.language as tl

from bot.worker import quick_types
from bot.worker.interpreter import install

SAID: list[str] = []


def tell(*values: Any) -> None:
    SAID.extend(f"{value.type} {value.dtype} {value.shape} {value.numel}" for value in values)


@triton.jit
def _turned(x):
    return x.T.to(tl.float32)


@triton.jit
def everything(x_ptr, y_ptr, z_ptr, scale, flag, R: tl.constexpr, C: tl.constexpr):
    rows, cols = tl.arange(0, R), tl.arange(0, C)
    where = x_ptr + rows[:, None] * C + cols[None, :]
    x = tl.load(where, mask=cols[None, :] < C - 1, other=-1.0)
    tell(where, x, rows, cols[None, :] < 3, x.to(tl.float16))
    high, order = tl.max(x, axis=1), tl.argmax(x, axis=1)
    y = tl.where(flag, tl.exp(x.to(tl.float32) - high[:, None]) * scale, 0.0)
    tell(high, order, y, tl.sum(y, axis=0), tl.sum(y), _turned(y))
    tl.store(y_ptr + rows[:, None] * C + cols[None, :], y)
    tl.store(z_ptr + cols, tl.sum(y, axis=0) + order.to(tl.int64).sum() + tl.cumsum(cols, 0))
    tl.store(z_ptr + C + tl.arange(0, 1), tl.sum(y) + tl.reshape(rows, (1, R)).shape[1] + tl.full((), 2, tl.float32))


def main(how: str) -> None:
    if how == "stock":
        quick_types.install = lambda: None
    install()
    told = []
    for dtype in (torch.float16, torch.float32, torch.float64):
        torch.manual_seed(0)
        x, y, z = torch.randn(4, 8).to(dtype), torch.zeros(4, 8), torch.zeros(9)
        everything[(1,)](x, y, z, 0.5, True, 4, 8)
        told += [y.flatten().tolist(), z.tolist()]
    try:
        everything[(1,)](x, y, z, 0.5, True, 3, 8)
    except Exception as error:
        told.append(str(error.__cause__ or error))
    print(json.dumps({"said": SAID, "told": told}))


if __name__ == "__main__":
    main(sys.argv[1])
