"""A kernel that folds and scans in ways of its own, with quick folds or without: `folded quick|stock`."""

from __future__ import annotations

import json
import sys

import torch
import triton
import triton.language as tl

from bot.worker import quick_folds
from bot.worker.interpreter import install


@triton.jit
def _within(x, y):
    """Runs of equal keys: the count starts anew where the key changes."""
    return tl.where(x & 0xFF00 == y & 0xFF00, x + y - (x & 0xFF00), y)


@triton.jit
def _last(x, y):
    return y


@triton.jit
def _affine(a, b, c, d):
    """One after the other, which is not the same as the other after the one."""
    return a * c, b * c + d


@triton.jit
def _choosing(x, y):
    if x > y:
        return x
    return y


@triton.jit
def folds(x_ptr, key_ptr, out_ptr, whole_ptr, R: tl.constexpr, C: tl.constexpr, CHOOSE: tl.constexpr):
    rows, cols = tl.arange(0, R), tl.arange(0, C)
    here = rows[:, None] * C + cols[None, :]
    x, keys = tl.load(x_ptr + here), tl.load(key_ptr + here)
    scale, shift = tl.associative_scan((x, x + 1), 1, _affine)
    tl.store(out_ptr + here, scale + shift)
    back, ahead = tl.associative_scan((x, x + 1), 0, _affine, reverse=True)
    tl.store(out_ptr + R * C + here, back - ahead)
    product, rest = tl.reduce((x, x - 1), 1, _affine)
    tl.store(out_ptr + 2 * R * C + rows, product + rest)
    tl.store(out_ptr + 2 * R * C + R + cols, tl.reduce(x, 0, _last))
    if CHOOSE:
        tl.store(out_ptr + 2 * R * C + R + C + rows, tl.reduce(x, 1, _choosing))
    tl.store(whole_ptr + here, tl.associative_scan(tl.sort(keys), 1, _within))
    tl.store(whole_ptr + R * C + rows, tl.xor_sum(keys, 1))
    tl.store(whole_ptr + R * C + R + tl.arange(0, 1), tl.reduce(tl.reduce(keys, 1, _last), 0, _last))


def main(how: str) -> None:
    if how == "stock":
        quick_folds.install = lambda: None
    install()
    told = []
    for rows, cols in ((4, 8), (1, 2), (2, 1), (1, 64)):
        torch.manual_seed(rows)
        x = 2.0 * torch.randint(0, 2, (rows, cols)) - 1
        keys = (torch.randint(0, 3, (rows, cols), dtype=torch.int32) << 8) | 1
        out, whole = (
            torch.zeros(2 * x.numel() + 2 * rows + cols),
            torch.zeros(keys.numel() + rows + 1, dtype=torch.int32),
        )
        folds[(1,)](x, keys, out, whole, rows, cols, True)
        told += [out.tolist(), whole.tolist()]
    print(json.dumps({"told": told}))


if __name__ == "__main__":
    main(sys.argv[1])
