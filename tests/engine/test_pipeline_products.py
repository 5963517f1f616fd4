"""A loop of products that is written out becomes one that loads ahead."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bot.engine.transforms import pipeline_products
from tests.engine.library import changes, interpret, sample

PRODUCT = '''"""An op in the shape of Liger's mhc_coeffs: a product, and the square of each row beside it."""

import torch
import triton
import triton.language as tl


@triton.jit
def _mix(
    x_ptr,
    w_ptr,
    mix_ptr,
    size_ptr,
    N: tl.constexpr,
    K: tl.constexpr,
    M: tl.constexpr,
    stride: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    WIDER: tl.constexpr,
):
    n_offs = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    m_offs = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    acc = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    squares = tl.zeros((BLOCK_N,), tl.float32)

    # over the whole row
    for k0 in tl.static_range(0, K, BLOCK_K):
        k_offs = k0 + tl.arange(0, BLOCK_K)

        x = tl.load(
            x_ptr + n_offs[:, None] * stride + k_offs[None, :],
            mask=(n_offs[:, None] < N) & (k_offs[None, :] < K),
            other=0.0,
        )
        if WIDER:
            x = x.to(tl.float32)
        squares += tl.sum(x * x, axis=1)
        w = tl.load(
            w_ptr + k_offs[:, None] * M + m_offs[None, :],
            mask=(k_offs[:, None] < K) & (m_offs[None, :] < M),
            other=0.0,
        )
        acc += tl.dot(x, w)

    out = acc / squares[:, None]
    tl.store(mix_ptr + n_offs[:, None] * M + m_offs[None, :], out, mask=(n_offs[:, None] < N) & (m_offs[None, :] < M))
    tl.store(size_ptr + n_offs, squares, mask=n_offs < N)


def run(x, w, block_n=16, block_k=32, block_m=16):
    N, K = x.shape
    M = w.shape[1]
    mix, size = torch.empty(N, M), torch.empty(N)
    grid = (triton.cdiv(N, block_n), triton.cdiv(M, block_m))
    _mix[grid](x, w, mix, size, N, K, M, K, BLOCK_N=block_n, BLOCK_K=block_k, BLOCK_M=block_m, WIDER=True)
    return mix, size
'''


def pipelined(text: str) -> str | None:
    found = pipeline_products.rewrite(text)
    return found.text if found is not None else None


def test_the_loop_is_run_in_stages_that_fit_and_nothing_else_changes() -> None:
    after = pipelined(PRODUCT)
    assert after is not None
    ast.parse(after)
    assert changes(PRODUCT, after) == (
        ["    for k0 in tl.static_range(0, K, BLOCK_K):"],
        [
            f"    # {pipeline_products.WHY}",
            "    step_bits: tl.constexpr = (",
            "        BLOCK_N * BLOCK_K * x_ptr.dtype.element_ty.primitive_bitwidth",
            "        + BLOCK_K * BLOCK_M * w_ptr.dtype.element_ty.primitive_bitwidth",
            "    )",
            "    STEP_STAGES: tl.constexpr = 3 if step_bits <= 393216 else 1",
            "    for k0 in tl.range(0, K, BLOCK_K, num_stages=STEP_STAGES):",
        ],
    )
    lines = after.splitlines()
    assert lines[lines.index(f"    # {pipeline_products.WHY}") - 1] == "    # over the whole row"


RUN = """
import sys, torch

sys.path.insert(0, sys.argv[1])
import after, before

for n, k, m in ((5, 70, 3), (16, 32, 16), (33, 64, 24), (1, 8, 1)):
    x, w = torch.randn(n, k), torch.randn(k, m)
    expected, found = (one.run(x, w) for one in (before, after))
    assert all(torch.equal(one, other) for one, other in zip(expected, found)), (n, k, m)
    torch.testing.assert_close(found[0], (x @ w) / (x * x).sum(1, keepdim=True), rtol=1e-2, atol=1e-2)
"""


def test_the_result_is_the_one_of_before(tmp_path: Path) -> None:
    after = pipelined(PRODUCT)
    assert after is not None
    interpret(tmp_path, RUN, before=PRODUCT, after=after)


def test_it_is_done_once() -> None:
    after = pipelined(PRODUCT)
    assert after is not None and pipelined(after) is None


@pytest.mark.parametrize("kernel", ["rms_norm", "softmax", "geglu", "cross_entropy", "layer_norm", "jsd"])
def test_kernels_of_rows_have_no_products(kernel: str) -> None:
    assert not pipeline_products.applies(sample(kernel))


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("a loop that is run already", "tl.static_range(0, K, BLOCK_K)", "range(0, K, BLOCK_K)"),
        ("a loop that begins elsewhere", "tl.static_range(0, K,", "tl.static_range(BLOCK_K, K,"),
        ("steps of another length", "static_range(0, K, BLOCK_K)", "static_range(0, K, 16)"),
        ("a length that is no constant", "    K: tl.constexpr,", "    K,"),
        ("a counter for something else", "        squares += ", "        turn = k0\n        squares += "),
        ("a store", "        squares += ", "        tl.store(size_ptr + n_offs, 0.0)\n        squares += "),
        ("an atomic", "        squares += ", "        tl.atomic_add(size_ptr, 1.0)\n        squares += "),
        ("a barrier", "        squares += ", "        tl.debug_barrier()\n        squares += "),
        ("a way out", "        squares += ", "        if K > 8:\n            return\n        squares += "),
        ("a loop in it", "        squares += ", "        for i in range(2):\n            i = i\n        squares += "),
        ("no product", "acc += tl.dot(x, w)", "acc += tl.sum(x) + tl.sum(w)"),
        ("a sum that begins elsewhere", "tl.zeros((BLOCK_N,), tl.float32)", "tl.full((BLOCK_N,), 1.0, tl.float32)"),
        ("a sum in half precision", "tl.zeros((BLOCK_N,), tl.float32)", "tl.zeros((BLOCK_N,), tl.float16)"),
        ("a sum that begins a second time", "    # over", "    acc = acc * 2\n    # over"),
        ("a sum that is read in the loop", "tl.sum(x * x, axis=1)", "tl.sum(x * x, axis=1) + squares * 0"),
        ("a product of turns", "squares += tl.sum", "squares *= tl.sum"),
        ("what a turn made outlives it", "    out = acc", "    out = tl.sum(w) + acc"),
        ("what is made before it", "    # over", "    x = 0.0\n    # over"),
        ("a length that nobody knows", "n_offs = tl.program_id(0)", "n_offs = 0 * tl.arange(0, 2)"),
        ("a row", "w_ptr + k_offs[:, None] * M + m_offs[None, :]", "w_ptr + k_offs[:, None] * M"),
        ("a hint", "            mask=(n_offs", "            eviction_policy='evict_last',\n            mask=(n_offs"),
        ("a pointer behind something", "x_ptr + n_offs", "0 + x_ptr + n_offs"),
        ("a name that is taken", "    # over", "    step_bits = 1\n    # over"),
    ],
)  # fmt: skip
def test_the_loop_stays_written_out_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in PRODUCT
    assert pipelined(PRODUCT.replace(before, after, 1)) is None, why


@pytest.mark.parametrize(("block", "bits"), [(256, 262144), (384, 393216), (385, 394240)])
def test_as_many_stages_as_shared_memory_has_room_for(block: int, bits: int) -> None:
    """32 rows and 32 columns of half precision: 48 KiB are 384 numbers deep."""
    after = pipelined(PRODUCT)
    assert after is not None
    line = next(line for line in after.splitlines() if "STEP_STAGES: tl.constexpr" in line)
    assert (32 * block + block * 32) * 16 == bits
    assert eval(line.split(" = ")[1], {"step_bits": bits}) == (3 if block <= 384 else 1)
