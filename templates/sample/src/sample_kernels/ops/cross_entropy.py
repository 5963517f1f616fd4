"""Cross entropy of logits, with class weights, smoothed labels, capped logits and a penalty on the log of the sum.

With s = softmax(x), y the label, w the weights (ones without any), V the number of classes and a = label_smoothing:
    loss = (1 - a) * w_y * (lse - x_y) + a / V * sum_i w_i * (lse - x_i),   lse = log(sum_i exp(x_i))
    dx_i = ((1 - a) * w_y + a / V * sum_j w_j) * s_i - (1 - a) * w_y * [i == y] - a / V * w_i
and the penalty adds lse_square_scale * lse^2, and 2 * lse_square_scale * lse * s_i to the gradient.
"""

import torch
import triton
import triton.language as tl

from sample_kernels.ops.settings import MAX_WARPS
from sample_kernels.ops.settings import ensure_contiguous

# The widest row that one program may hold: a vocabulary of 128256 and what is missing to a power of two.
MAX_CLASSES = 131072


@triton.jit
def _cross_entropy_forward_kernel(
    X_ptr,
    X_row_stride,
    label_ptr,
    W_ptr,
    loss_ptr,
    dX_ptr,
    dX_row_stride,
    n_cols,
    ignore_index,
    smoothing,
    weight_sum,
    scale,
    z_scale,
    softcap,
    has_weight: tl.constexpr,
    has_smoothing: tl.constexpr,
    has_softcap: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    """Loss and gradient of one row: both need the same exponentials, so they are made together."""
    row = tl.program_id(0).to(tl.int64)
    X_ptr += row * X_row_stride
    dX_ptr += row * dX_row_stride
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols

    label = tl.load(label_ptr + row)
    # A row that is ignored counts for nothing, and its label may be no class at all.
    counts = (label != ignore_index).to(tl.float32)
    X_label = tl.load(X_ptr + label, mask=label != ignore_index, other=0.0).to(tl.float32)
    W_label = 1.0
    if has_weight:
        W_label = tl.load(W_ptr + label, mask=label != ignore_index, other=0.0).to(tl.float32)

    X_row = tl.load(X_ptr + cols, mask=mask, other=-float("inf")).to(tl.float32)
    if has_softcap:
        # tanh(t) = 2 * sigmoid(2 * t) - 1. The lanes past the end go back to where exp() makes nothing of them.
        tanh_row = 2 * tl.sigmoid(2 * X_row / softcap) - 1
        X_row = tl.where(mask, softcap * tanh_row, -float("inf"))
        X_label = softcap * (2 * tl.sigmoid(2 * X_label / softcap) - 1)

    # Without the shift by the largest value a logit of 89 already overflows float32.
    largest = tl.max(X_row, axis=0)
    numerator = tl.exp(X_row - largest)
    total = tl.sum(numerator, axis=0)
    log_total = tl.log(total)
    lse = largest + log_total

    hard = (1 - smoothing) * W_label
    # Logits of thousands lie close together in float32: their difference is taken before anything small is added.
    loss = hard * (largest - X_label + log_total)
    share = hard
    if has_smoothing:
        soft = smoothing / n_cols
        X_weighted = X_row
        if has_weight:
            W_row = tl.load(W_ptr + cols, mask=mask, other=0.0).to(tl.float32)
            X_weighted = W_row * X_row
        X_sum = tl.sum(tl.where(mask, X_weighted, 0.0), axis=0)
        loss += soft * (weight_sum * lse - X_sum)
        share += soft * weight_sum
    tl.store(loss_ptr + row, counts * (loss * scale + z_scale * lse * lse))

    share = share * scale + 2 * z_scale * lse
    dX_row = share * numerator / total - tl.where(cols == label, hard * scale, 0.0)
    if has_smoothing:
        if has_weight:
            dX_row -= soft * scale * W_row
        else:
            dX_row -= soft * scale
    if has_softcap:
        dX_row = dX_row * (1 - tanh_row * tanh_row)
    tl.store(dX_ptr + cols, (counts * dX_row).to(dX_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _cross_entropy_backward_kernel(
    out_ptr,
    out_row_stride,
    dX_ptr,
    dX_row_stride,
    grad_ptr,
    n_cols,
    BLOCK_SIZE: tl.constexpr,
):
    """The gradient of the loss, made in the forward pass, times the gradient that arrives here."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols

    grad = tl.load(grad_ptr).to(tl.float32)
    dX_row = tl.load(dX_ptr + row * dX_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * out_row_stride + cols, (dX_row * grad).to(out_ptr.dtype.element_ty), mask=mask)


def cross_entropy_settings(n_cols):
    """A whole row in one block, sixteen elements a thread while there are warps for it."""
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    if BLOCK_SIZE > MAX_CLASSES:
        raise ValueError(f"{n_cols} classes are more than one program can hold ({MAX_CLASSES})")
    num_warps = min(max(BLOCK_SIZE // 512, 1), MAX_WARPS)
    return BLOCK_SIZE, num_warps


def cross_entropy_forward(_input, target, weight, ignore_index, lse_square_scale, label_smoothing, reduction, softcap):
    n_rows, n_cols = _input.shape
    counted = target != ignore_index
    n_counted = max(int(counted.sum()), 1)
    weight_sum, weight_counted = float(n_cols), float(n_counted)
    if weight is not None:
        weight_sum, weight_counted = float(weight.sum()), float(weight[target[counted]].sum())
    # The penalty is averaged over rows, whatever their weights.
    scale, z_scale = 1.0, lse_square_scale
    if reduction == "mean":
        scale, z_scale = 1.0 / (weight_counted or 1.0), lse_square_scale / n_counted

    BLOCK_SIZE, num_warps = cross_entropy_settings(n_cols)
    loss = torch.zeros(n_rows, dtype=torch.float32, device=_input.device)
    dX = torch.empty_like(_input)

    _cross_entropy_forward_kernel[(n_rows,)](
        _input,
        _input.stride(0),
        target,
        weight,
        loss,
        dX,
        dX.stride(0),
        n_cols,
        ignore_index,
        label_smoothing,
        weight_sum,
        scale,
        z_scale,
        softcap if softcap is not None else 1.0,
        has_weight=weight is not None,
        has_smoothing=label_smoothing > 0,
        has_softcap=softcap is not None,
        BLOCK_SIZE=BLOCK_SIZE,
        num_warps=num_warps,
    )
    return loss.sum().to(_input.dtype), dX


def cross_entropy_backward(grad_output, dX):
    n_rows, n_cols = dX.shape
    out = torch.empty_like(dX)

    BLOCK_SIZE, num_warps = cross_entropy_settings(n_cols)
    _cross_entropy_backward_kernel[(n_rows,)](
        out,
        out.stride(0),
        dX,
        dX.stride(0),
        grad_output,
        n_cols,
        BLOCK_SIZE=BLOCK_SIZE,
        num_warps=num_warps,
    )
    return out


class CrossEntropyFunction(torch.autograd.Function):
    """Loss of `_input`, (rows, classes) logits, against one label a row; summed, or averaged over what counts.

    A row whose label is `ignore_index` counts for nothing. `softcap` squeezes the logits into its range by a tanh.
    The three `return_` arguments are there for callers of Liger: this op returns the loss alone and refuses to do more.
    """

    @staticmethod
    @ensure_contiguous
    def forward(
        ctx,
        _input,
        target,
        weight=None,
        ignore_index=-100,
        lse_square_scale=0.0,
        label_smoothing=0.0,
        reduction="mean",
        softcap=None,
        return_z_loss=False,
        return_token_accuracy=False,
        return_predicted_tokens=False,
    ):
        if _input.dim() != 2 or target.shape != _input.shape[:1]:
            raise ValueError(f"expected a matrix and a label a row: {tuple(_input.shape)} and {tuple(target.shape)}")
        if weight is not None and weight.shape != _input.shape[1:]:
            raise ValueError(f"{tuple(weight.shape)} weights for {_input.shape[1]} classes")
        if reduction not in ("mean", "sum"):
            raise ValueError(f"reduction is {reduction!r}, expected mean or sum")
        if return_z_loss or return_token_accuracy or return_predicted_tokens:
            raise ValueError("this op returns the loss alone")
        loss, dX = cross_entropy_forward(
            _input, target, weight, ignore_index, lse_square_scale, label_smoothing, reduction, softcap
        )
        ctx.save_for_backward(dX)
        return loss

    @staticmethod
    @ensure_contiguous
    def backward(ctx, grad_output):
        (dX,) = ctx.saved_tensors
        return (cross_entropy_backward(grad_output, dX), *(None,) * 10)
