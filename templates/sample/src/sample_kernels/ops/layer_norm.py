"""Layer normalisation: y = (x - mean(x)) / sqrt(var(x) + eps) * w + b."""

import torch
import triton
import triton.language as tl

from sample_kernels.ops.settings import calculate_settings
from sample_kernels.ops.settings import ensure_contiguous
from sample_kernels.ops.settings import multiprocessor_count


@triton.jit
def _layer_norm_forward_kernel(
    Y_ptr,
    Y_row_stride,
    X_ptr,
    X_row_stride,
    W_ptr,
    B_ptr,
    Mean_ptr,
    RSTD_ptr,
    n_cols,
    eps,
    BLOCK_SIZE: tl.constexpr,
):
    """One program normalises one row, which it holds in registers."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols

    X_row = tl.load(X_ptr + row * X_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(X_row, axis=0) / n_cols
    # The lanes past the end stand at zero, not at the mean: they must not count.
    X_centred = tl.where(mask, X_row - mean, 0.0)
    variance = tl.sum(X_centred * X_centred, axis=0) / n_cols
    rstd = tl.rsqrt(variance + eps)
    tl.store(Mean_ptr + row, mean)
    tl.store(RSTD_ptr + row, rstd)

    W_row = tl.load(W_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    B_row = tl.load(B_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    Y_row = X_centred * rstd * W_row + B_row
    tl.store(Y_ptr + row * Y_row_stride + cols, Y_row.to(Y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _layer_norm_backward_kernel(
    dY_ptr,
    dY_row_stride,
    dX_ptr,
    dX_row_stride,
    X_ptr,
    X_row_stride,
    W_ptr,
    Mean_ptr,
    RSTD_ptr,
    dW_ptr,
    dW_row_stride,
    dB_ptr,
    dB_row_stride,
    n_rows,
    n_cols,
    rows_per_program,
    BLOCK_SIZE: tl.constexpr,
):
    """One program takes a run of neighbouring rows and keeps its own share of dW and dB.

    With x_hat = (x - mean) * rstd and m = dy * w:
        dx = rstd * (m - mean(m) - x_hat * mean(m * x_hat))
        dw = sum over rows of dy * x_hat
        db = sum over rows of dy
    """
    program = tl.program_id(0).to(tl.int64)
    first_row = program * rows_per_program
    last_row = tl.minimum(first_row + rows_per_program, n_rows)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols

    W_row = tl.load(W_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    dW_row = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    dB_row = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)

    for row in range(first_row, last_row):
        dY_row = tl.load(dY_ptr + row * dY_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        X_row = tl.load(X_ptr + row * X_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        mean = tl.load(Mean_ptr + row)
        rstd = tl.load(RSTD_ptr + row)

        X_hat = (X_row - mean) * rstd
        m = dY_row * W_row
        # Past the end m is zero, so neither sum sees those lanes.
        slope = tl.sum(m * X_hat, axis=0) / n_cols
        shift = tl.sum(m, axis=0) / n_cols
        dX_row = rstd * (m - shift - X_hat * slope)
        tl.store(dX_ptr + row * dX_row_stride + cols, dX_row.to(dX_ptr.dtype.element_ty), mask=mask)

        dW_row += dY_row * X_hat
        dB_row += dY_row

    tl.store(dW_ptr + program * dW_row_stride + cols, dW_row, mask=mask)
    tl.store(dB_ptr + program * dB_row_stride + cols, dB_row, mask=mask)


def layer_norm_forward(X, W, B, eps):
    shape = X.shape
    X = X.view(-1, shape[-1])
    n_rows, n_cols = X.shape
    if W.shape != (n_cols,) or B.shape != (n_cols,):
        raise ValueError(f"weight {tuple(W.shape)} and bias {tuple(B.shape)} for rows of {n_cols} columns")

    BLOCK_SIZE, num_warps = calculate_settings(n_cols)
    Y = torch.zeros_like(X)
    Mean = torch.zeros(n_rows, dtype=torch.float32, device=X.device)
    RSTD = torch.zeros(n_rows, dtype=torch.float32, device=X.device)

    _layer_norm_forward_kernel[(n_rows,)](
        Y,
        Y.stride(0),
        X,
        X.stride(0),
        W,
        B,
        Mean,
        RSTD,
        n_cols,
        eps,
        BLOCK_SIZE=BLOCK_SIZE,
        num_warps=num_warps,
    )
    return Y.view(shape), X, Mean, RSTD


def layer_norm_backward(dY, X, W, B, Mean, RSTD):
    shape = dY.shape
    dY = dY.view(-1, shape[-1])
    n_rows, n_cols = dY.shape

    BLOCK_SIZE, num_warps = calculate_settings(n_cols)
    # One program to a multiprocessor: each adds up its rows, and the few partial sums are added afterwards.
    n_programs = max(min(multiprocessor_count(X.device), n_rows), 1)
    rows_per_program = triton.cdiv(n_rows, n_programs)
    dX = torch.zeros_like(dY)
    dW = torch.zeros((n_programs, n_cols), dtype=torch.float32, device=X.device)
    dB = torch.zeros((n_programs, n_cols), dtype=torch.float32, device=X.device)

    _layer_norm_backward_kernel[(n_programs,)](
        dY,
        dY.stride(0),
        dX,
        dX.stride(0),
        X,
        X.stride(0),
        W,
        Mean,
        RSTD,
        dW,
        dW.stride(0),
        dB,
        dB.stride(0),
        n_rows,
        n_cols,
        rows_per_program,
        BLOCK_SIZE=BLOCK_SIZE,
        num_warps=num_warps,
    )
    return dX.view(shape), dW.sum(dim=0).to(W.dtype), dB.sum(dim=0).to(B.dtype)


class LayerNormFunction(torch.autograd.Function):
    """LayerNorm over the last dimension of `X`, with a weight and a bias. All arithmetic is in float32."""

    @staticmethod
    @ensure_contiguous
    def forward(ctx, X, W, B, eps):
        Y, X, Mean, RSTD = layer_norm_forward(X, W, B, eps)
        ctx.save_for_backward(X, W, B, Mean, RSTD)
        return Y

    @staticmethod
    @ensure_contiguous
    def backward(ctx, dY):
        X, W, B, Mean, RSTD = ctx.saved_tensors
        dX, dW, dB = layer_norm_backward(dY, X, W, B, Mean, RSTD)
        return dX, dW, dB, None
