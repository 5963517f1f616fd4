# expect: REJECTED correctness
# tier: cpu
# Cuts the elements into blocks without regard to rows, and counts them in 32 bits.
"""The gated GELU of an MLP: c = gelu(a) * b, with the tanh approximation of GELU."""

import torch
import triton
import triton.language as tl

from sample_kernels.ops.settings import calculate_settings
from sample_kernels.ops.settings import ensure_contiguous

# gelu(a) = a * (1 + tanh(u)) / 2 with u = sqrt(2 / pi) * (a + 0.044715 * a^3). Half of 1 + tanh(u) is sigmoid(2 * u),
# which needs one exponential and is exact at both ends.
_TWO_SQRT_2_OVER_PI = tl.constexpr(1.5957691216057308)
_CUBIC = tl.constexpr(0.044715)

# Elements of one program; rows do not matter to an operator that works element by element.
BLOCK_SIZE = 2048


@triton.jit
def _geglu_forward_kernel(a, b, c, n, BLOCK_SIZE: tl.constexpr):
    # locate the start of this program's row
    start = tl.program_id(0) * BLOCK_SIZE
    offsets = start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    a_row = tl.load(a + offsets, mask=mask, other=0).to(tl.float32)
    b_row = tl.load(b + offsets, mask=mask, other=0).to(tl.float32)

    gate = tl.sigmoid(_TWO_SQRT_2_OVER_PI * (a_row + _CUBIC * a_row * a_row * a_row))
    c_row = a_row * gate * b_row
    tl.store(c + offsets, c_row.to(c.dtype.element_ty), mask=mask)


@triton.jit
def _geglu_backward_kernel(dc, a, b, da, db, n, BLOCK_SIZE: tl.constexpr):
    # locate the start of this program's row
    start = tl.program_id(0) * BLOCK_SIZE
    offsets = start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    dc_row = tl.load(dc + offsets, mask=mask, other=0).to(tl.float32)
    a_row = tl.load(a + offsets, mask=mask, other=0).to(tl.float32)
    b_row = tl.load(b + offsets, mask=mask, other=0).to(tl.float32)

    # the gate is computed again: it is cheaper than saving it
    gate = tl.sigmoid(_TWO_SQRT_2_OVER_PI * (a_row + _CUBIC * a_row * a_row * a_row))
    db_row = dc_row * a_row * gate
    gate_slope = gate * (1 - gate) * _TWO_SQRT_2_OVER_PI * (1 + 3 * _CUBIC * a_row * a_row)
    da_row = dc_row * b_row * (gate + a_row * gate_slope)

    tl.store(da + offsets, da_row.to(da.dtype.element_ty), mask=mask)
    tl.store(db + offsets, db_row.to(db.dtype.element_ty), mask=mask)


def geglu_forward(a, b):
    shape = a.shape
    calculate_settings(shape[-1])
    a = a.view(-1, shape[-1])
    b = b.view(-1, shape[-1])
    c = torch.empty_like(a)
    n = a.numel()
    if n:
        _geglu_forward_kernel[(triton.cdiv(n, BLOCK_SIZE),)](a, b, c, n, BLOCK_SIZE=BLOCK_SIZE, num_warps=4)
    return a, b, c.view(shape)


def geglu_backward(dc, a, b):
    shape = dc.shape
    da = torch.empty_like(a)
    db = torch.empty_like(b)
    n = dc.numel()
    if n:
        _geglu_backward_kernel[(triton.cdiv(n, BLOCK_SIZE),)](dc, a, b, da, db, n, BLOCK_SIZE=BLOCK_SIZE, num_warps=4)
    return da.view(shape), db.view(shape)


class GELUMulFunction(torch.autograd.Function):
    """gelu(a) * b, element by element, without storing gelu(a)."""

    @staticmethod
    @ensure_contiguous
    def forward(ctx, a, b):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise ValueError(f"a and b must be alike, got {tuple(a.shape)} {a.dtype} and {tuple(b.shape)} {b.dtype}")
        a, b, c = geglu_forward(a, b)
        ctx.save_for_backward(a, b)
        return c

    @staticmethod
    @ensure_contiguous
    def backward(ctx, dc):
        a, b = ctx.saved_tensors
        return geglu_backward(dc, a, b)
