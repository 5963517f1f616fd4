# expect: PASS
# tier: both
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


@triton.jit
def _geglu_forward_kernel(
    a,
    b,
    c,
    stride,
    n_cols: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    program_id = tl.program_id(0).to(tl.int64)

    # locate the start of this program's row
    a += program_id * stride
    b += program_id * stride
    c += program_id * stride

    # a row is shared by several programs
    col_offsets = tl.program_id(1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols
    a_row = tl.load(a + col_offsets, mask=mask, other=0).to(tl.float32)
    b_row = tl.load(b + col_offsets, mask=mask, other=0).to(tl.float32)

    gate = tl.sigmoid(_TWO_SQRT_2_OVER_PI * (a_row + _CUBIC * a_row * a_row * a_row))
    c_row = a_row * gate * b_row
    tl.store(c + col_offsets, c_row.to(c.dtype.element_ty), mask=mask)


@triton.jit
def _geglu_backward_kernel(
    dc,
    a,
    b,
    da,
    db,
    stride,
    n_cols: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    program_id = tl.program_id(0).to(tl.int64)

    # locate the start of this program's row
    dc += program_id * stride
    a += program_id * stride
    b += program_id * stride
    da += program_id * stride
    db += program_id * stride

    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols
    dc_row = tl.load(dc + col_offsets, mask=mask, other=0).to(tl.float32)
    a_row = tl.load(a + col_offsets, mask=mask, other=0).to(tl.float32)
    b_row = tl.load(b + col_offsets, mask=mask, other=0).to(tl.float32)

    # the gate is computed again: it is cheaper than saving it
    gate = tl.sigmoid(_TWO_SQRT_2_OVER_PI * (a_row + _CUBIC * a_row * a_row * a_row))
    db_row = dc_row * a_row * gate
    gate_slope = gate * (1 - gate) * _TWO_SQRT_2_OVER_PI * (1 + 3 * _CUBIC * a_row * a_row)
    da_row = dc_row * b_row * (gate + a_row * gate_slope)

    tl.store(da + col_offsets, da_row.to(da.dtype.element_ty), mask=mask)
    tl.store(db + col_offsets, db_row.to(db.dtype.element_ty), mask=mask)


def geglu_forward(a, b):
    shape = a.shape
    n_cols = shape[-1]
    a = a.view(-1, n_cols)
    b = b.view(-1, n_cols)
    c = torch.empty_like(a)
    n_rows = a.shape[0]

    BLOCK_SIZE, num_warps = calculate_settings(min(n_cols, 2048))
    _geglu_forward_kernel[(n_rows, triton.cdiv(n_cols, BLOCK_SIZE))](
        a,
        b,
        c,
        c.stride(0),
        n_cols=n_cols,
        BLOCK_SIZE=BLOCK_SIZE,
        num_warps=num_warps,
    )
    return a, b, c.view(shape)


def geglu_backward(dc, a, b):
    shape = dc.shape
    n_cols = shape[-1]
    dc = dc.view(-1, n_cols)
    da = torch.empty_like(a)
    db = torch.empty_like(b)
    n_rows = dc.shape[0]

    BLOCK_SIZE, num_warps = calculate_settings(n_cols)
    _geglu_backward_kernel[(n_rows,)](
        dc,
        a,
        b,
        da,
        db,
        dc.stride(0),
        n_cols=n_cols,
        BLOCK_SIZE=BLOCK_SIZE,
        num_warps=num_warps,
    )
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
