"""A product through tensor descriptors, as libraries write it: a hook gives blocks their shapes, and a list of launch
numbers has one entry for each number of several clauses."""

from __future__ import annotations

TEXT = '''"""Rows times weights, twice."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def _order(pid, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr):
    """Groups of rows go through all columns."""
    num_m = tl.cdiv(M, BLOCK_M)
    num_n = tl.cdiv(N, BLOCK_N)
    in_group = GROUP * num_n
    first = pid // in_group * GROUP
    rows = tl.minimum(num_m - first, GROUP)
    return pid % in_group % rows + first, pid % in_group // rows


def _blocks(nargs):
    """What Triton asks before a launch."""
    BLOCK_M = nargs["BLOCK_M"]
    BLOCK_N = nargs["BLOCK_N"]
    BLOCK_K = nargs["BLOCK_K"]

    nargs["x"].block_shape = [1, BLOCK_M, BLOCK_K]
    nargs["w"].block_shape = [BLOCK_K, BLOCK_N]
    nargs["v"].block_shape = [BLOCK_N, BLOCK_K]
    nargs["y"].block_shape = [1, BLOCK_M, BLOCK_N]


@triton.autotune(
    configs=[
        triton.Config(
            {"BLOCK_M": BM, "BLOCK_N": BN, "BLOCK_K": BK, "GROUP": GS},
            num_warps=w,
            num_stages=s,
            pre_hook=_blocks,
        )
        for BM in [64, 128]
        for BN in [128]
        for BK in [64, 128]
        for GS in [1, 2]  # 1 is row by row.
        for w in [4, 8]
        for s in [2, 3]
    ],
    key=["N", "K"],
)
@triton.jit
def _product_kernel(
    x,
    w,
    v,
    y,
    M,
    N,
    K,
    scale,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    """One tile."""
    pid = tl.program_id(0)
    b = tl.program_id(1)
    pid_m, pid_n = _order(pid, M, N, BLOCK_M, BLOCK_N, GROUP)
    row = pid_m * BLOCK_M
    col = pid_n * BLOCK_N

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        rows = tl.reshape(x.load([b, row, k]), [BLOCK_M, BLOCK_K])
        acc = tl.dot(rows, w.load([k, col]), acc=acc)

    for k in range(0, K, BLOCK_K):
        rows = x.load([b, row, k])
        rows = tl.reshape(rows, [BLOCK_M, BLOCK_K])
        others = v.load([col, k])
        acc += tl.dot(rows, tl.trans(others))

    acc = acc * scale
    kind = y.dtype
    y.store([b, row, col], tl.reshape(acc, [1, BLOCK_M, BLOCK_N]).to(kind))


def product(x, w, v, scale):
    B, M, K = x.shape
    N = w.shape[1]
    y = torch.full((B, M, N), 7.0, device=x.device, dtype=x.dtype)
    X, Y = (TensorDescriptor.from_tensor(one, [1, 1, 1]) for one in (x, y))
    W, V = (TensorDescriptor.from_tensor(one, [1, 1]) for one in (w, v))

    grid = lambda META: (
        triton.cdiv(M, META["BLOCK_M"]) * triton.cdiv(N, META["BLOCK_N"]),
        B,
    )
    _product_kernel[grid](X, W, V, Y, M, N, K, scale)
    return y
'''

PLAYED = """
import sys

sys.path.insert(0, sys.argv[1])
import torch
import after, before

torch.manual_seed(0)
every = after._product_kernel.configs
had = {str(one) for one in before._product_kernel.configs}
wide = [one for one in every if str(one) not in had]
assert len(every) == len(had) + 4 and len(wide) == 4, wide
for batch, rows, columns, inner in ((1, 300, 520, 72), (2, 128, 256, 64), (1, 4, 4, 4), (2, 420, 260, 8)):
    x, w, v = torch.randn(batch, rows, inner), torch.randn(inner, columns), torch.randn(columns, inner)
    before._product_kernel.configs = before._product_kernel.configs[-1:]  # there is no clock to choose by
    was = before.product(x, w, v, 0.5)
    torch.testing.assert_close(was, 0.5 * (x @ w + x @ v.T), atol=1e-4, rtol=1e-4)
    for one in wide:
        after._product_kernel.configs = [one]
        torch.testing.assert_close(after.product(x, w, v, 0.5), was, atol=1e-4, rtol=1e-4)
"""
