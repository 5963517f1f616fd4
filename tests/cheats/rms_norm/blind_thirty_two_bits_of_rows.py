# expect: REJECTED correctness
# tier: cpu
# The row number stays a 32-bit integer, so that offsets wrap after 2**31 elements.
"""Root-mean-square layer normalisation: y = x / sqrt(mean(x^2) + eps) * (offset + w)."""

import torch
import triton
import triton.language as tl

from sample_kernels.ops.settings import calculate_settings
from sample_kernels.ops.settings import ensure_contiguous
from sample_kernels.ops.settings import multiprocessor_count

# How the models we follow round on the way, see `RMSNormFunction`.
_CASTING_LLAMA = tl.constexpr(0)
_CASTING_GEMMA = tl.constexpr(1)
_CASTING_NONE = tl.constexpr(-1)

_CASTING_MODES = {"llama": _CASTING_LLAMA.value, "gemma": _CASTING_GEMMA.value, "none": _CASTING_NONE.value}


@triton.jit
def _rms_norm_forward_kernel(
    Y_ptr,
    Y_row_stride,
    X_ptr,
    X_row_stride,
    W_ptr,
    RSTD_ptr,
    n_cols,
    eps,
    offset,
    casting_mode: tl.constexpr,
    has_weight: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    """One program normalises one row, which it holds in registers."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols

    X_row = tl.load(X_ptr + row * X_row_stride + cols, mask=mask, other=0.0)
    X_dtype = X_row.dtype
    X_row = X_row.to(tl.float32)

    mean_square = tl.sum(X_row * X_row, axis=0) / n_cols
    rstd = tl.rsqrt(mean_square + eps)
    # The backward pass needs it again, and one number a row is cheaper than a second reduction.
    tl.store(RSTD_ptr + row, rstd)

    Y_row = X_row * rstd
    if casting_mode == _CASTING_LLAMA:
        Y_row = Y_row.to(X_dtype).to(tl.float32)
    if has_weight:
        W_row = tl.load(W_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        Y_row = Y_row * (offset + W_row)
    tl.store(Y_ptr + row * Y_row_stride + cols, Y_row.to(X_dtype), mask=mask)


@triton.jit
def _rms_norm_backward_kernel(
    dY_ptr,
    dY_row_stride,
    dX_ptr,
    dX_row_stride,
    X_ptr,
    X_row_stride,
    W_ptr,
    RSTD_ptr,
    dW_ptr,
    dW_row_stride,
    n_rows,
    n_cols,
    offset,
    rows_per_program,
    casting_mode: tl.constexpr,
    has_weight: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    """One program takes a run of neighbouring rows and keeps its own share of dW.

    With x_hat = x * rstd and m = dy * (offset + w):
        dx = rstd * (m - x_hat * mean(m * x_hat))
        dw = sum over rows of dy * x_hat
    """
    program = tl.program_id(0)
    first_row = program * rows_per_program
    last_row = tl.minimum(first_row + rows_per_program, n_rows)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols

    if has_weight:
        W_row = tl.load(W_ptr + cols, mask=mask, other=0.0).to(tl.float32) + offset
        dW_row = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)

    for row in range(first_row, last_row):
        dY_row = tl.load(dY_ptr + row * dY_row_stride + cols, mask=mask, other=0.0)
        X_row = tl.load(X_ptr + row * X_row_stride + cols, mask=mask, other=0.0)
        rstd = tl.load(RSTD_ptr + row).to(tl.float32)

        X_dtype = X_row.dtype
        dY_row = dY_row.to(tl.float32)
        X_hat = X_row.to(tl.float32) * rstd

        if has_weight:
            m = dY_row * W_row
        else:
            m = dY_row
        projection = tl.sum(m * X_hat, axis=0) / n_cols
        dX_row = rstd * (m - X_hat * projection)
        tl.store(dX_ptr + row * dX_row_stride + cols, dX_row.to(X_dtype), mask=mask)

        if has_weight:
            if casting_mode == _CASTING_LLAMA:
                # The forward pass multiplied the weight with the rounded value.
                X_hat = X_hat.to(X_dtype).to(tl.float32)
            dW_row += dY_row * X_hat

    if has_weight:
        tl.store(dW_ptr + program * dW_row_stride + cols, dW_row, mask=mask)


def warps_for(BLOCK_SIZE):
    """Sixteen elements a thread: two 16-byte accesses of a half-precision row."""
    return min(max(BLOCK_SIZE // 512, 1), 32)


def rms_norm_forward(X, W, eps, offset, casting_mode):
    shape = X.shape
    X = X.view(-1, shape[-1])
    n_rows, n_cols = X.shape
    if W is not None and W.shape != (n_cols,):
        raise ValueError(f"the weight has shape {tuple(W.shape)}, the rows have {n_cols} columns")

    BLOCK_SIZE, _ = calculate_settings(n_cols)
    num_warps = warps_for(BLOCK_SIZE)
    Y = torch.empty_like(X)
    RSTD = torch.empty(n_rows, dtype=X.dtype if casting_mode == _CASTING_NONE.value else torch.float32, device=X.device)

    _rms_norm_forward_kernel[(n_rows,)](
        Y,
        Y.stride(0),
        X,
        X.stride(0),
        W,
        RSTD,
        n_cols,
        eps,
        offset,
        casting_mode=casting_mode,
        has_weight=W is not None,
        BLOCK_SIZE=BLOCK_SIZE,
        num_warps=num_warps,
    )
    return Y.view(shape), X, RSTD


def rms_norm_backward(dY, X, W, RSTD, offset, casting_mode, in_place):
    shape = dY.shape
    dY = dY.view(-1, shape[-1])
    n_rows, n_cols = dY.shape

    BLOCK_SIZE, _ = calculate_settings(n_cols)
    num_warps = warps_for(BLOCK_SIZE)
    # One program to a multiprocessor: each adds up the dW of its rows, and the few partial sums are added afterwards.
    n_programs = max(min(multiprocessor_count(X.device), n_rows), 1)
    rows_per_program = triton.cdiv(n_rows, n_programs)
    dX = dY if in_place else torch.empty_like(dY)
    dW = torch.empty((n_programs, n_cols), dtype=torch.float32, device=X.device) if W is not None else None

    _rms_norm_backward_kernel[(n_programs,)](
        dY,
        dY.stride(0),
        dX,
        dX.stride(0),
        X,
        X.stride(0),
        W,
        RSTD,
        dW,
        dW.stride(0) if dW is not None else 0,
        n_rows,
        n_cols,
        offset,
        rows_per_program,
        casting_mode=casting_mode,
        has_weight=W is not None,
        BLOCK_SIZE=BLOCK_SIZE,
        num_warps=num_warps,
    )
    return dX.view(shape), dW.sum(dim=0).to(W.dtype) if W is not None else None


class RMSNormFunction(torch.autograd.Function):
    """RMSNorm over the last dimension of `X`.

    offset: added to the weight; Gemma stores w - 1 and passes 1.0.
    casting_mode: "llama" rounds to the type of X before the weight is applied, "gemma" only at the end, "none" also
        keeps the reciprocal root in the type of X. All arithmetic is in float32.
    in_place: write dX over dY. It saves a tensor as large as X, and is wrong where dY is needed again.
    row_mode: accepted for callers of Liger; a program takes one row at a time whatever it says.
    """

    @staticmethod
    @ensure_contiguous
    def forward(ctx, X, W, eps, offset=0.0, casting_mode="llama", in_place=True, row_mode=None):
        if casting_mode not in _CASTING_MODES:
            raise ValueError(f"casting_mode is {casting_mode!r}, expected one of {', '.join(_CASTING_MODES)}")
        casting_mode = _CASTING_MODES[casting_mode]
        Y, X, RSTD = rms_norm_forward(X, W, eps, offset, casting_mode)
        ctx.save_for_backward(X, W, RSTD)
        ctx.offset = offset
        ctx.casting_mode = casting_mode
        ctx.in_place = in_place
        return Y

    @staticmethod
    @ensure_contiguous
    def backward(ctx, dY):
        X, W, RSTD = ctx.saved_tensors
        dX, dW = rms_norm_backward(dY, X, W, RSTD, ctx.offset, ctx.casting_mode, ctx.in_place)
        return dX, dW, None, None, None, None, None
