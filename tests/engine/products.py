"""Products of rows that a host sorts into tiles, as libraries write them: two files, kernels that tune themselves."""

from __future__ import annotations

HOST, KERNELS = "src/lib/ops/experts.py", "src/lib/ops/experts_kernels.py"

HOST_TEXT = '''import torch
import triton

from lib.ops.experts_kernels import _count_kernel
from lib.ops.experts_kernels import _product_kernel
from lib.ops.experts_kernels import _weights_kernel

# Rows of a tile.
ROWS_OF_A_TILE = 64


def tiles(rows, each: int = ROWS_OF_A_TILE):
    """How many there are."""
    out = torch.empty(1, dtype=torch.int32, device=rows.device)
    _count_kernel[(1,)](rows, out, rows.shape[0], EACH=each)
    return int(out.item())


def forward(x, w):
    M, K = x.shape
    N = w.shape[0]
    y = torch.empty(M, N, dtype=x.dtype, device=x.device)
    _product_kernel[lambda meta: (tiles(x), triton.cdiv(N, meta["BLOCK_N"]))](x, w, y, M, N, K, BLOCK_M=ROWS_OF_A_TILE)
    return y


def backward(x, dy):
    M, K = x.shape
    N = dy.shape[1]
    dw = torch.empty(N, K, dtype=x.dtype, device=x.device)
    grid = lambda meta: (triton.cdiv(N, meta["BLOCK_N"]), triton.cdiv(K, meta["BLOCK_K"]))
    _weights_kernel[grid](x, dy, dw, M, N, K)
    return dw
'''

KERNELS_TEXT = '''import os

import triton
import triton.language as tl


def _rows_configs():
    if os.environ.get("LIB_TUNES", "1") == "0":
        return [triton.Config({"BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4, num_stages=2)]
    configs = []
    for bn in [64, 128]:
        for ns in [2, 3]:
            configs.append(triton.Config({"BLOCK_N": bn, "BLOCK_K": 32}, num_warps=4, num_stages=ns))
    return configs


def _weights_configs():
    """Small steps."""
    if os.environ.get("LIB_TUNES", "1") == "0":
        return [triton.Config({"BLOCK_N": 64, "BLOCK_K": 64, "BLOCK_M": 32}, num_warps=4, num_stages=2)]
    return [
        triton.Config({"BLOCK_N": bn, "BLOCK_K": bk, "BLOCK_M": bm}, num_warps=nw, num_stages=2)
        for bn in [64, 128]
        for bk in [64]
        for bm in [16, 32]
        for nw in (4, 8)
    ]


@triton.jit
def _count_kernel(rows, out, M, EACH: tl.constexpr):
    tl.store(out, (M + EACH - 1) // EACH)


@triton.autotune(configs=_rows_configs(), key=["N", "K"])
@triton.jit
def _product_kernel(x, w, y, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, K, BLOCK_K):
        steps = k + tl.arange(0, BLOCK_K)
        a_mask = (rows < M)[:, None] & (steps < K)[None, :]
        b_mask = (cols < N)[:, None] & (steps < K)[None, :]
        a = tl.load(x + rows[:, None] * K + steps[None, :], mask=a_mask, other=0.0)
        b = tl.load(w + cols[:, None] * K + steps[None, :], mask=b_mask, other=0.0)
        acc = tl.dot(a, tl.trans(b), acc=acc)
    tl.store(y + rows[:, None] * N + cols[None, :], acc, mask=(rows < M)[:, None] & (cols < N)[None, :])


@triton.autotune(configs=_weights_configs(), key=["N", "K"])
@triton.jit
def _weights_kernel(x, dy, dw, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    cols = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_N, BLOCK_K), dtype=tl.float32)
    for m in tl.range(0, M, BLOCK_M):
        steps = m + tl.arange(0, BLOCK_M)
        a_mask = (steps < M)[:, None] & (rows < N)[None, :]
        b_mask = (steps < M)[:, None] & (cols < K)[None, :]
        a = tl.load(dy + steps[:, None] * N + rows[None, :], mask=a_mask, other=0.0)
        b = tl.load(x + steps[:, None] * K + cols[None, :], mask=b_mask, other=0.0)
        acc = tl.dot(tl.trans(a), b, acc=acc)
    tl.store(dw + rows[:, None] * K + cols[None, :], acc, mask=(rows < N)[:, None] & (cols < K)[None, :])
'''

FILES = {HOST: HOST_TEXT, KERNELS: KERNELS_TEXT}
