"""Scores within a window: one kernel fills a matrix that says which places belong together, another reads it."""

from __future__ import annotations

TEXT = '''"""Scores within a window."""

import torch
import triton
import triton.language as tl
from settings import calculate_settings


@triton.jit
def _near_kernel(near_ptr, size: tl.constexpr, reach: tl.constexpr, every: tl.constexpr, BLOCK: tl.constexpr):
    """Ones where two places are near."""
    place = tl.program_id(0)
    others = tl.arange(0, BLOCK)
    inside = others < size
    first = tl.maximum(0, place - reach)
    counts = (others >= first) & (others <= place + reach)
    if every > 1:
        apart = (others - place) % every
        counts = counts & (apart == 0)
    ones = tl.where(counts, 1.0, 0.0)
    tl.store(near_ptr + place * size + others, ones, mask=inside)


@triton.jit
def _scores_kernel(
    q_ptr,
    k_ptr,
    near_ptr,
    out_ptr,
    size: tl.constexpr,
    width: tl.constexpr,
    scale,
    reach: tl.constexpr,
    every: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Products of what is near.

    near_ptr: which places are.
    """
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    acc = tl.zeros((BLOCK_M, BLOCK_M), dtype=tl.float32)

    # Step by step.
    for start in range(0, width, BLOCK_K):
        at = start + tl.arange(0, BLOCK_K)
        q_mask = (rows[:, None] < size) & (at[None, :] < width)
        k_mask = (cols[:, None] < size) & (at[None, :] < width)
        q = tl.load(q_ptr + rows[:, None] * width + at[None, :], mask=q_mask, other=0.0)
        k = tl.load(k_ptr + cols[:, None] * width + at[None, :], mask=k_mask, other=0.0)
        acc += tl.dot(q, tl.trans(k))

    acc = acc * scale

    places = near_ptr + rows[:, None] * size + cols[None, :]
    valid = (rows[:, None] < size) & (cols[None, :] < size)
    near = tl.load(places, mask=valid, other=0.0)

    acc = tl.where(near > 0.0, acc, float("-inf"))
    tl.store(out_ptr + rows[:, None] * size + cols[None, :], acc, mask=valid)


def scores(q, k, reach, every):
    size, width = q.shape
    out = torch.empty(size, size, device=q.device, dtype=torch.float32)

    near = torch.zeros(size, size, device=q.device, dtype=torch.float32)
    BLOCK, steps = calculate_settings(size)

    grid = (size,)
    _near_kernel[grid](near, size, reach, every, BLOCK)

    tiles = triton.cdiv(size, 16)
    _scores_kernel[(tiles, tiles)](
        q,
        k,
        near,
        out,
        size,
        width,
        0.5,
        reach,
        every,
        16,
        steps,
    )
    return out
'''

SETTINGS = "import triton\n\n\ndef calculate_settings(n):\n    return triton.next_power_of_2(n), 16\n"
PLAYED = """
import sys

sys.path.insert(0, sys.argv[1])
import torch
import after, before

torch.manual_seed(0)
for size, width, reach, every in ((70, 24, 3, 1), (70, 24, 9, 3), (16, 16, 0, 1), (1, 5, 2, 2), (33, 40, 40, 2)):
    q, k = torch.randn(size, width), torch.randn(size, width)
    q[0, 0], k[size // 2, 1] = float("inf"), float("nan")
    was, now = before.scores(q, k, reach, every), after.scores(q, k, reach, every)
    assert torch.equal(was.nan_to_num(7.0, 8.0, 9.0), now.nan_to_num(7.0, 8.0, 9.0)), (size, reach, every)
    near = (torch.arange(size)[:, None] - torch.arange(size)[None, :]).abs() <= reach
    assert bool(was[~near].isneginf().all())
"""
