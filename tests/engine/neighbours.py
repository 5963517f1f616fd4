"""Attention within a neighbourhood, forward and backward: masked scores, their softmax, and products of all of it."""

from __future__ import annotations

STRIDES = "{0}_stride_0, {0}_stride_1, {0}_stride_2"


def _given(*names: str) -> str:
    return ", ".join(f"{name}.stride({axis})" for name in names for axis in range(3))


VALUES = f"""@triton.jit
def _values_kernel(
    weights_ptr, v_ptr, out_ptr, {STRIDES.format("w")}, {STRIDES.format("v")}, {STRIDES.format("out")},
    size: tl.constexpr, width: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    batch = tl.program_id(0)
    row = tl.program_id(1) * BLOCK_M
    rows = row + tl.arange(0, BLOCK_M)
    cols = tl.program_id(2) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)

    # Step by step.
    for start in range(0, size, BLOCK_K):
        at = start + tl.arange(0, BLOCK_K)
        inside = at < size
        w_ptrs = weights_ptr + batch * w_stride_0 + rows[:, None] * w_stride_1 + at[None, :] * w_stride_2
        w_mask = (rows[:, None] < size) & inside[None, :]
        w = tl.load(w_ptrs, mask=w_mask, other=0.0)
        v_ptrs = v_ptr + batch * v_stride_0 + at[:, None] * v_stride_1 + cols[None, :] * v_stride_2
        v = tl.load(v_ptrs, mask=inside[:, None] & (cols[None, :] < width), other=0.0)
        total += tl.dot(w, v)
    places = out_ptr + batch * out_stride_0 + rows[:, None] * out_stride_1 + cols[None, :] * out_stride_2
    tl.store(places, total, mask=(rows[:, None] < size) & (cols[None, :] < width))


"""

TURNED = f"""@triton.jit
def _grad_k_kernel(
    m_ptr, x_ptr, out_ptr, {STRIDES.format("m")}, {STRIDES.format("x")}, {STRIDES.format("out")},
    size: tl.constexpr, width: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    batch = tl.program_id(0)
    row = tl.program_id(1) * BLOCK_M
    rows = row + tl.arange(0, BLOCK_M)
    cols = tl.program_id(2) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, size, BLOCK_K):
        at = start + tl.arange(0, BLOCK_K)
        x_ptrs = x_ptr + batch * x_stride_0 + at[:, None] * x_stride_1 + cols[None, :] * x_stride_2
        x = tl.load(x_ptrs, mask=(at[:, None] < size) & (cols[None, :] < width), other=0.0)
        m_ptrs = m_ptr + batch * m_stride_0 + at[:, None] * m_stride_1 + rows[None, :] * m_stride_2
        m = tl.load(m_ptrs, mask=(at[:, None] < size) & (rows[None, :] < size), other=0.0)
        total += tl.dot(tl.trans(m), x)
    places = out_ptr + batch * out_stride_0 + rows[:, None] * out_stride_1 + cols[None, :] * out_stride_2
    tl.store(places, total, mask=(rows[:, None] < size) & (cols[None, :] < width))


"""

SCORES = f'''"""Attention within a neighbourhood."""

import torch
import triton
import triton.language as tl
from ops.softmax import _softmax_backward, _softmax_forward


@triton.jit
def _scores_kernel(
    q_ptr, k_ptr, out_ptr, {STRIDES.format("q")}, {STRIDES.format("k")}, {STRIDES.format("out")},
    size: tl.constexpr, width: tl.constexpr, radius: tl.constexpr, every: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    batch = tl.program_id(0)
    rows = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(2) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, width, BLOCK_K):
        at = start + tl.arange(0, BLOCK_K)
        q_mask = (rows[:, None] < size) & (at[None, :] < width)
        k_mask = (cols[None, :] < size) & (at[:, None] < width)
        q_ptrs = q_ptr + batch * q_stride_0 + rows[:, None] * q_stride_1 + at[None, :] * q_stride_2
        k_ptrs = k_ptr + batch * k_stride_0 + cols[None, :] * k_stride_1 + at[:, None] * k_stride_2
        q = tl.load(q_ptrs, mask=q_mask, other=0.0)
        k = tl.load(k_ptrs, mask=k_mask, other=0.0)
        acc += tl.dot(q, k)

    half = radius // 2
    begin = tl.maximum(0, rows[:, None] - every * half)
    end = tl.minimum(size, rows[:, None] + every * half + 1)
    near = (cols[None, :] >= begin) & (cols[None, :] < end)
    if every > 1:
        apart = cols[None, :] - rows[:, None]
        near = near & ((apart % every) == 0)
    ones = tl.where(near, 1.0, 0.0)
    valid = (rows[:, None] < size) & (cols[None, :] < size)
    acc = tl.where(ones > 0.0, acc, float("-inf"))
    places = out_ptr + batch * out_stride_0 + rows[:, None] * out_stride_1 + cols[None, :] * out_stride_2
    tl.store(places, acc, mask=valid)


'''

GRADIENT = f"""@triton.jit
def _grad_weights_kernel(
    grad_ptr, v_ptr, out_ptr, {STRIDES.format("grad")}, {STRIDES.format("v")}, {STRIDES.format("out")},
    size: tl.constexpr, width: tl.constexpr, scale,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    batch = tl.program_id(0)
    row = tl.program_id(1) * BLOCK_M
    col = tl.program_id(2) * BLOCK_N
    rows = row + tl.arange(0, BLOCK_M)
    cols = col + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)

    for start in range(0, width, BLOCK_K):
        at = start + tl.arange(0, BLOCK_K)
        g_ptrs = grad_ptr + batch * grad_stride_0 + rows[:, None] * grad_stride_1 + at[None, :] * grad_stride_2
        g = tl.load(g_ptrs, mask=(rows[:, None] < size) & (at[None, :] < width), other=0.0)
        v_ptrs = v_ptr + batch * v_stride_0 + cols[None, :] * v_stride_1 + at[:, None] * v_stride_2
        v = tl.load(v_ptrs, mask=(cols[None, :] < size) & (at[:, None] < width), other=0.0)
        total += tl.dot(g, v)
    total = total * scale
    places = out_ptr + batch * out_stride_0 + rows[:, None] * out_stride_1 + cols[None, :] * out_stride_2
    tl.store(places, total, mask=(rows[:, None] < size) & (cols[None, :] < size))


"""

ATTEND = f"""def attend(q, k, v, radius, every):
    batches, size, width = q.shape
    out = torch.empty_like(v)
    scores = torch.empty(batches, size, size, device=q.device, dtype=q.dtype)
    tiles, wide = triton.cdiv(size, 16), triton.cdiv(width, 16)
    _scores_kernel[(batches, triton.cdiv(size, 16), triton.cdiv(size, 16))](
        q, k, scores, {_given("q", "k", "scores")},
        size, width, radius, every, 16, 16, 16,
    )
    flat = scores.view(batches * size, size)
    soft, block, warps, many = _softmax_forward(flat)
    weights = soft.view(batches, size, size)
    _values_kernel[(batches, tiles, wide)](
        weights, v, out, {_given("weights", "v", "out")},
        size, width, 16, 16, 16,
    )
    return out, weights, (block, warps, many)
"""

PASSES = f"""

class Near(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, radius=3, every=1):
        out, weights, settings = attend(q, k, v, radius, every)
        ctx.save_for_backward(q, k, v, weights)
        ctx.radius = radius
        ctx.step = every
        ctx.settings = settings
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, weights = ctx.saved_tensors
        batches, size, width = q.shape
        grad_q, grad_k, grad_v = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        grad_w = torch.zeros_like(weights)
        tiles, wide = triton.cdiv(size, 16), triton.cdiv(width, 16)
        _grad_weights_kernel[(batches, triton.cdiv(size, 16), triton.cdiv(size, 16))](
            grad, v, grad_w, {_given("grad", "v", "grad_w")},
            size, width, 1.0, 16, 16, 16,
        )
        flat_grad = grad_w.view(batches * size, size)
        flat = weights.view(batches * size, size)
        block, warps, many = ctx.settings
        made = _softmax_backward(flat_grad, flat, block, warps, many)
        grad_s = made.view(batches, size, size)
        _grad_q_kernel[(batches, tiles, wide)](
            grad_s, k, grad_q, {_given("grad_s", "k", "grad_q")},
            size, width, 16, 16, 16,
        )
        _grad_k_kernel[(batches, tiles, wide)](
            grad_s, q, grad_k, {_given("grad_s", "q", "grad_k")},
            size, width, 16, 16, 16,
        )
        grid = (batches, tiles, wide)
        _grad_v_kernel[grid](weights, grad, grad_v, {_given("weights", "grad", "grad_v")}, size, width, 16, 16, 16)
        return grad_q, grad_k, grad_v, None, None
"""

FORWARD = SCORES + VALUES + ATTEND
"""Without anything for the gradients."""
TEXT = "".join(
    (
        *(SCORES, VALUES, VALUES.replace("_values_kernel", "_grad_q_kernel")),
        *(TURNED, TURNED.replace("_grad_k_kernel", "_grad_v_kernel"), GRADIENT, ATTEND, PASSES),
    )
)

SOFTMAX = """
import torch


def _softmax_forward(x):
    return torch.softmax(x, -1), 0, 0, False


def _softmax_backward(grad, y, block, warps, many):
    return y * (grad - (grad * y).sum(-1, keepdim=True))
"""
PLAYED = """
import sys

sys.path.insert(0, sys.argv[1])
import torch
import after, before

torch.manual_seed(0)
SHAPES = ((1, 40, 20, 3, 1), (1, 40, 5, 3, 6), (2, 16, 5, 1, 1), (1, 33, 5, 40, 2), (1, 33, 5, 2**32 - 80, 1))
for batches, size, width, radius, every in SHAPES:
    found = []
    for module in (before, after):
        torch.manual_seed(size)
        q, k, v = (torch.randn(batches, size, width, requires_grad=True) for _ in range(3))
        out = module.Near.apply(q, k, v, radius, every)
        out.backward(torch.randn(batches, size, width))
        found.append((out.detach(), q.grad, k.grad, v.grad))
    q, k, v = q.detach(), k.detach(), v.detach()
    v[:, 0] = float("inf")
    spread, kept = (module.attend(q, k, v, radius, every)[0] for module in (before, after))
    assert size < 40 or (bool(spread.isnan().any(1).all()) and torch.equal(kept[:, 32:], found[0][0][:, 32:]))
    for was, now in zip(*found):
        assert torch.equal(was, now) and bool(was.isfinite().all()), (size, radius, every)
"""
