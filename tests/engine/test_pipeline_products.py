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


ANY_ROWS = PRODUCT.replace("    N: tl.constexpr,", "    N,")
"""Compiled for any number of rows: how many programs there are nobody knows then."""


def pipelined(text: str) -> str | None:
    found = pipeline_products.rewrite(text)
    return found.text if found is not None else None


def test_the_loop_is_run_in_stages_that_fit_and_nothing_else_changes() -> None:
    after = pipelined(ANY_ROWS)
    assert after is not None
    ast.parse(after)
    assert changes(ANY_ROWS, after) == (
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


TURN = """            acc, squares = _mix_turn(
                acc,
                squares,
                x_ptr,
                w_ptr,
                n_offs,
                m_offs,
                k0,
                N,
                K,
                M,
                stride,
                BLOCK_K,
                WIDER,
            )
"""
LOOPS = f"""    # over the whole row
    # {pipeline_products.WHY_FEW}
    step_bits: tl.constexpr = (
        BLOCK_N * BLOCK_K * x_ptr.dtype.element_ty.primitive_bitwidth
        + BLOCK_K * BLOCK_M * w_ptr.dtype.element_ty.primitive_bitwidth
    )
    programs: tl.constexpr = ((N + BLOCK_N - 1) // BLOCK_N) * ((M + BLOCK_M - 1) // BLOCK_M)
    if step_bits <= 393216 and programs <= 256:
        for k0 in tl.range(0, K, BLOCK_K, num_stages=3):
{TURN}    else:
        for k0 in tl.static_range(0, K, BLOCK_K):
{TURN}"""


def test_of_many_programs_each_goes_on_as_before_and_both_loops_take_the_same_turns() -> None:
    after = pipelined(PRODUCT)
    assert after is not None
    ast.parse(after)
    begin, end = PRODUCT.index("    # over"), PRODUCT.index("    out = acc")
    lines = PRODUCT[begin:end].splitlines(keepends=True)[2:]
    said = "".join(line.removeprefix("    ") for line in lines).rstrip()
    handed = [line.strip() for line in TURN.splitlines()[1:-1]]
    constant = {"N,", "K,", "M,", "stride,", "BLOCK_K,", "WIDER,"}
    told = "".join(f"    {one[:-1]}: tl.constexpr,\n" if one in constant else f"    {one}\n" for one in handed)
    turn = f"@triton.jit\ndef _mix_turn(\n{told}):\n{said}\n    return acc, squares\n\n\n"
    expected = PRODUCT[:begin] + LOOPS + "\n" + PRODUCT[end:]
    assert after == expected.replace("@triton.jit\ndef _mix(", turn + "@triton.jit\ndef _mix(")


def test_a_turn_is_decorated_as_its_kernel() -> None:
    """`triton` itself may be a name of nothing."""
    after = pipelined(PRODUCT.replace("import triton\n", "from triton import jit\n").replace("@triton.jit", "@jit"))
    assert after is not None and "\n\n\n@jit\ndef _mix_turn(" in after and "@triton" not in after


def test_what_is_said_of_a_kernel_stays_with_it() -> None:
    heading, of_it = "# --- products ---\n\n\n", "# a row and a weight\n"
    after = pipelined(PRODUCT.replace("@triton.jit\n", f"{heading}{of_it}@triton.jit\n"))
    assert after is not None
    assert f"\n\n{heading}@triton.jit\ndef _mix_turn(" in after and f"\n\n\n{of_it}@triton.jit\ndef _mix(" in after


def test_what_is_said_in_a_turn_stays_with_it_and_what_is_said_of_the_loop_with_both() -> None:
    text = PRODUCT.replace("BLOCK_K):\n", "BLOCK_K):  # written out\n")
    text = text.replace(
        "        acc += tl.dot(x, w)\n",
        "        # a product\n        acc += tl.dot(x, w)  # of two\n        # no more\n",
    )
    after = pipelined(text)
    assert after is not None
    assert "    # a product\n    acc += tl.dot(x, w)  # of two\n    # no more\n    return acc, squares\n" in after
    assert "in tl.range(0, K, BLOCK_K, num_stages=3):  # written out\n" in after
    assert "in tl.static_range(0, K, BLOCK_K):  # written out\n" in after


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("a number of rows that no constant is", "    N: tl.constexpr,", "    N,"),
        ("an axis for something else", "tl.program_id(1) * BLOCK_M", "tl.program_id(1) * 16"),
        ("an axis that is asked for twice", "    # over", "    here = tl.program_id(0)\n    # over"),
        ("an end that gets another value", "    # over", "    N = N - 1\n    # over"),
        ("a third axis", "    # over", "    batch = tl.program_id(2)\n    # over"),
        ("an end that two masks do not agree on", "mask=n_offs < N)", "mask=n_offs < M)"),
        ("a constant that the kernel makes", "    # over", "    twice: tl.constexpr = 2 * K\n    # over"),
        ("a name that is taken", "def run(x, w", "_mix_turn = 3\n\n\ndef run(x, w"),
        (
            "what is there in some cases alone",
            "            x = x.to(tl.float32)\n",
            "            x = x.to(tl.float32) * twice\n",
        ),
    ],
)  # fmt: skip
def test_whatever_the_grid_is_when_nobody_knows_how_many_programs_there_are(why: str, before: str, after: str) -> None:
    assert PRODUCT.count(before) == 1
    begun = PRODUCT.replace("    # over", "    if WIDER:\n        twice = 2.0\n    # over")
    text = pipelined(begun.replace(before, after))
    assert text is not None and "for k0 in tl.range(0, K, BLOCK_K, num_stages=STEP_STAGES):" in text, why
    assert "tl.static_range" not in text and "programs" not in text, why


@pytest.mark.parametrize(
    ("rows", "columns", "programs"), [(1, 1, 1), (4096, 16, 256), (4097, 16, 257), (2048, 32, 256), (2048, 33, 384)]
)
def test_256_programs_are_few(rows: int, columns: int, programs: int) -> None:
    """Of 16 rows and 16 columns each."""
    after = pipelined(PRODUCT)
    assert after is not None
    lines = [line.strip() for line in after.splitlines()]
    told = next(line for line in lines if line.startswith("programs: tl.constexpr"))
    test = next(line for line in lines if line.startswith("if step_bits"))
    sizes = {"N": rows, "M": columns, "BLOCK_N": 16, "BLOCK_M": 16}
    assert eval(told.split(" = ")[1], sizes) == programs
    said = test.removeprefix("if ").removesuffix(":")
    assert eval(said, {"step_bits": 0, "programs": programs}) is (programs <= 256)


RUN = """
import sys, torch

sys.path.insert(0, sys.argv[1])
import after, before

for n, k, m in ((5, 70, 3), (16, 32, 16), (20, 16, 3), (33, 64, 24), (1, 8, 1)):
    x, w = torch.randn(n, k), torch.randn(k, m)
    expected, found = (one.run(x, w) for one in (before, after))
    assert all(torch.equal(one, other) for one, other in zip(expected, found)), (n, k, m)
    torch.testing.assert_close(found[0], (x @ w) / (x * x).sum(1, keepdim=True), rtol=1e-2, atol=1e-2)
"""


@pytest.mark.parametrize("text", [PRODUCT, ANY_ROWS])
def test_the_result_is_the_one_of_before(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one program, with two, and with more than are few."""
    monkeypatch.setattr(pipeline_products, "FEW", 2)
    after = pipelined(text)
    assert after is not None
    interpret(tmp_path, RUN, before=text, after=after)


@pytest.mark.parametrize("text", [PRODUCT, ANY_ROWS])
def test_it_is_done_once(text: str) -> None:
    after = pipelined(text)
    assert after is not None and pipelined(after) is None


@pytest.mark.parametrize("kernel", ["rms_norm", "softmax", "geglu", "cross_entropy", "layer_norm", "jsd"])
def test_kernels_of_rows_have_no_products(kernel: str) -> None:
    assert not pipeline_products.applies(sample(kernel))


END = "        acc += tl.dot(x, w)\n        two: tl.constexpr = 2\n\n    out = two * acc"


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
        ("one number that becomes many", "tl.zeros((BLOCK_N,), tl.float32)", "tl.zeros((1,), tl.float32)"),
        ("a column that becomes a block", "tl.zeros((BLOCK_N, BLOCK_M)", "tl.zeros((BLOCK_N, 1)"),
        ("a sum in half precision", "tl.zeros((BLOCK_N,), tl.float32)", "tl.zeros((BLOCK_N,), tl.float16)"),
        ("a sum that begins a second time", "    # over", "    acc = acc * 2\n    # over"),
        ("a sum that is read in the loop", "tl.sum(x * x, axis=1)", "tl.sum(x * x, axis=1) + squares * 0"),
        ("a product of turns", "squares += tl.sum", "squares *= tl.sum"),
        ("what a turn made outlives it", "    out = acc", "    out = tl.sum(w) + acc"),
        ("a constant that outlives it", "        acc += tl.dot(x, w)\n\n    out = acc", END),
        ("what is made before it", "    # over", "    x = 0.0\n    # over"),
        ("a length that nobody knows", "n_offs = tl.program_id(0)", "n_offs = 0 * tl.arange(0, 2)"),
        ("a row", "w_ptr + k_offs[:, None] * M + m_offs[None, :]", "w_ptr + k_offs[:, None] * M"),
        ("a hint", "            mask=(n_offs", "            eviction_policy='evict_last',\n            mask=(n_offs"),
        ("a pointer behind something", "x_ptr + n_offs", "0 + x_ptr + n_offs"),
        ("a name that is taken", "    # over", "    step_bits = 1\n    # over"),
        ("a counter that outlives it", "    out = acc", "    end = k0 + BLOCK_K\n    out = acc"),
    ],
)  # fmt: skip
def test_the_loop_stays_written_out_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in PRODUCT
    assert pipelined(PRODUCT.replace(before, after, 1)) is None, why


@pytest.mark.parametrize(("block", "bits"), [(256, 262144), (384, 393216), (385, 394240)])
def test_as_many_stages_as_shared_memory_has_room_for(block: int, bits: int) -> None:
    """32 rows and 32 columns of half precision: 48 KiB are 384 numbers deep."""
    after = pipelined(ANY_ROWS)
    assert after is not None
    line = next(line for line in after.splitlines() if "STEP_STAGES: tl.constexpr" in line)
    assert (32 * block + block * 32) * 16 == bits
    assert eval(line.split(" = ")[1], {"step_bits": bits}) == (3 if block <= 384 else 1)
