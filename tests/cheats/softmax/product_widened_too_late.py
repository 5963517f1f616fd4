# expect: REJECTED correctness
# tier: cpu
# Widens the product of row and stride, which has wrapped by then where there are 2**31 elements.
"""Softmax over the last dimension."""

import torch
import triton
import triton.language as tl

from sample_kernels.ops.settings import MAX_FUSED_SIZE
from sample_kernels.ops.settings import MAX_WARPS
from sample_kernels.ops.settings import ensure_contiguous


@triton.jit
def _softmax_forward_kernel(
    Y_ptr,
    Y_row_stride,
    X_ptr,
    X_row_stride,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols

    X_row = tl.load(X_ptr + (row * X_row_stride).to(tl.int64) + cols, mask=mask, other=-float("inf")).to(tl.float32)
    # Without the shift by the largest value a logit of 89 already overflows float32.
    numerator = tl.exp(X_row - tl.max(X_row, axis=0))
    Y_row = numerator / tl.sum(numerator, axis=0)
    tl.store(Y_ptr + (row * Y_row_stride).to(tl.int64) + cols, Y_row.to(Y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _softmax_backward_kernel(
    dX_ptr,
    dX_row_stride,
    dY_ptr,
    dY_row_stride,
    Y_ptr,
    Y_row_stride,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
):
    """dx = y * (dy - sum(y * dy))"""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols

    dY_row = tl.load(dY_ptr + (row * dY_row_stride).to(tl.int64) + cols, mask=mask, other=0.0).to(tl.float32)
    Y_row = tl.load(Y_ptr + (row * Y_row_stride).to(tl.int64) + cols, mask=mask, other=0.0).to(tl.float32)
    dX_row = Y_row * (dY_row - tl.sum(Y_row * dY_row, axis=0))
    tl.store(dX_ptr + (row * dX_row_stride).to(tl.int64) + cols, dX_row.to(dX_ptr.dtype.element_ty), mask=mask)


def softmax_settings(n_cols):
    """A whole row in one block."""
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    if BLOCK_SIZE > MAX_FUSED_SIZE:
        raise ValueError(f"a row of {n_cols} columns is wider than one program can hold ({MAX_FUSED_SIZE})")

    # Sixteen elements a thread: two 16-byte accesses of a half-precision row, and registers to spare. On an H200 no
    # other number of warps was more than 4 % faster, from 1024 to 32000 columns.
    num_warps = min(max(BLOCK_SIZE // 512, 1), MAX_WARPS)
    return BLOCK_SIZE, num_warps


def softmax_forward(X):
    shape = X.shape
    X = X.view(-1, shape[-1])
    n_rows, n_cols = X.shape
    Y = torch.empty_like(X)

    BLOCK_SIZE, num_warps = softmax_settings(n_cols)
    _softmax_forward_kernel[(n_rows,)](
        Y,
        Y.stride(0),
        X,
        X.stride(0),
        n_cols,
        BLOCK_SIZE=BLOCK_SIZE,
        num_warps=num_warps,
    )
    return Y.view(shape)


def softmax_backward(dY, Y):
    shape = dY.shape
    dY = dY.view(-1, shape[-1])
    Y = Y.view(-1, shape[-1])
    n_rows, n_cols = dY.shape
    dX = torch.empty_like(dY)

    BLOCK_SIZE, num_warps = softmax_settings(n_cols)
    _softmax_backward_kernel[(n_rows,)](
        dX,
        dX.stride(0),
        dY,
        dY.stride(0),
        Y,
        Y.stride(0),
        n_cols,
        BLOCK_SIZE=BLOCK_SIZE,
        num_warps=num_warps,
    )
    return dX.view(shape)


class SoftmaxFunction(torch.autograd.Function):
    """Softmax over the last dimension, in float32 inside."""

    @staticmethod
    @ensure_contiguous
    def forward(ctx, x):
        y = softmax_forward(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @ensure_contiguous
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return softmax_backward(grad_output, y)
