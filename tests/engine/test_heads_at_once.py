"""A program takes several heads at once, where each took one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bot.engine import fitting
from bot.engine.transforms import heads_at_once
from tests.analysis import made
from tests.engine.library import changes, interpret, sample

HEADS = '''"""An op in the shape of Liger's llama4_rope: queries and keys are turned in place, by pairs."""

import torch
import triton
import triton.language as tl


@triton.jit
def _turn(
    q_ptr,
    k_ptr,
    angles_ptr,
    q_stride,
    k_stride,
    head_stride,
    sign,
    n_q: tl.constexpr,
    n_k: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    """One head of one token."""
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)  # of both

    q_row = q_ptr + token * q_stride
    k_row = k_ptr + token * k_stride
    for start in tl.static_range(0, HALF, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        mask = cols < HALF
        pairs = cols[:, None] * 2 + tl.arange(0, 2)[None, :]
        both = tl.load(angles_ptr + token * HALF * 2 + pairs, mask=mask[:, None], other=0.0)
        cos, sin = tl.split(both)
        sin = sin * sign

        # a query
        if head < n_q:
            q_head = q_row + head * head_stride
            # its two halves
            even = tl.load(q_head + cols * 2, mask=mask, other=0.0)
            odd = tl.load(q_head + cols * 2 + 1, mask=mask, other=0.0)
            tl.store(q_head + cols * 2, tl.math.fma(even, cos, -(odd * sin)), mask=mask)
            tl.store(q_head + cols * 2 + 1, tl.math.fma(even, sin, odd * cos), mask=cols < HALF)

        if head < n_k:
            k_head = k_row + head * head_stride
            first = tl.load(k_head + cols * 2, mask=mask, other=0.0)
            second = tl.load(k_head + cols * 2 + 1, mask=mask, other=0.0)
            tl.store(k_head + cols * 2, first * cos - second * sin, mask=mask)
            tl.store(k_head + cols * 2 + 1, first * sin + second * cos, mask=mask)


def run(q, k, angles, sign=1.0, block=16):
    batch, length, n_q, width = q.shape
    n_k = k.shape[2]
    n_heads = max(n_q, n_k)
    grid = (batch * length, n_heads)

    _turn[grid](
        q,
        k,
        angles,
        q.stride(1),
        k.stride(1),
        width,
        sign,
        n_q,
        n_k,
        HALF=width // 2,
        BLOCK_SIZE=block,
        num_warps=4,
    )
    return q, k
'''


def at_once(text: str) -> str | None:
    found = heads_at_once.rewrite(text)
    return found.text if found is not None else None


def test_place_branches_and_launch_change_and_nothing_else() -> None:
    after = at_once(HEADS)
    assert after is not None
    ast.parse(after)
    gone, new = changes(HEADS, after)
    below = [line for line in gone if line.startswith(" " * 12)]
    assert [line for line in gone if not line.startswith(" " * 12)] == [
        "    head = tl.program_id(1)  # of both",
        "        if head < n_q:",
        "        if head < n_k:",
        "    grid = (batch * length, n_heads)",
        "    _turn[grid](",
    ]
    masked = [
        line.replace("mask=mask", "mask=mask & (head < n_q)").replace(
            "mask=cols < HALF", "mask=(cols < HALF) & (head < n_q)"
        )
        if "q_head" in line
        else line.replace("mask=mask", "mask=mask & (head < n_k)")
        for line in below
    ]
    assert new == [
        "    BLOCK_HEADS: tl.constexpr = 1,",
        "    # BLOCK_HEADS heads a program; those that are not there are masked.",
        "    first_head = tl.program_id(1) * BLOCK_HEADS",
        "    head = first_head + tl.arange(0, BLOCK_HEADS)[:, None]  # of both",
        "        if first_head < n_q:",
        *masked[:4],
        "        if first_head < n_k:",
        *masked[4:],
        f"    # {heads_at_once.WHY}",
        "    block_heads = min(1 << (n_heads - 1).bit_length(), 8) if batch * length * n_heads >= 16384 else 1",
        "    _turn[(batch * length, (n_heads + block_heads - 1) // block_heads)](",
        "        BLOCK_HEADS=block_heads,",
    ]


RUN = """
import sys, torch

sys.path.insert(0, sys.argv[1])
import after, before

for n, heads in enumerate(((5, 2), (8, 8), (1, 3), (17, 1), (9, 16))):
    for width in (2, 80) if n % 2 else (32, 34):
        q, k = (torch.randn(2, 3, n, width) for n in heads)
        angles = torch.randn(6, width // 2, 2)
        expected, found = (m.run(q.clone(), k.clone(), angles, -1.0) for m in (before, after))
        assert all(torch.equal(one, other) for one, other in zip(expected, found)), (heads, width)
        assert not torch.equal(found[0], q) and not torch.equal(found[1], k)
"""


def test_the_result_is_the_one_of_before(tmp_path: Path) -> None:
    after = at_once(HEADS)
    assert after is not None and ">= 16384" in after
    interpret(tmp_path, RUN, before=HEADS, after=after.replace(">= 16384", ">= 1"))


def test_what_is_said_of_the_head_is_said_once_and_above_all() -> None:
    after = at_once(HEADS.replace("    head = tl", "    # of queries and keys\n    head = tl"))
    said = f"    # of queries and keys\n    # {heads_at_once.IN_KERNEL}\n    first_head ="
    assert after is not None and said in after and after.count("# of queries and keys") == 1


def test_a_load_without_a_mask_has_one_then() -> None:
    bare = HEADS.replace("even = tl.load(q_head + cols * 2, mask=mask, other=0.0)", "even = tl.load(q_head + cols * 2)")
    after = at_once(bare)
    assert bare != HEADS
    assert after is not None and "even = tl.load(q_head + cols * 2, mask=(head < n_q))" in after


def test_a_mask_by_its_place_is_found() -> None:
    placed = HEADS.replace("odd * sin)), mask=mask)", "odd * sin)), mask)")
    after = at_once(placed)
    assert placed != HEADS and after is not None and "odd * sin)), mask & (head < n_q))" in after


def test_a_grid_that_somebody_else_reads_stays() -> None:
    after = at_once(HEADS.replace("    _turn[grid]", "    print(grid)\n    _turn[grid]"))
    assert after is not None and "    grid = (batch * length, n_heads)\n" in after


def test_a_sum_of_tokens_is_taken_as_one() -> None:
    after = at_once(HEADS.replace("(batch * length, n_heads)", "(batch + length, n_heads)"))
    assert after is not None and "if (batch + length) * n_heads >= 16384" in after


def test_it_is_done_once() -> None:
    after = at_once(HEADS)
    assert after is not None and at_once(after) is None


@pytest.mark.parametrize("kernel", ["rms_norm", "softmax", "geglu", "cross_entropy"])
def test_kernels_of_rows_have_no_heads(kernel: str) -> None:
    assert not heads_at_once.applies(sample(kernel))


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("the head has no name", "head = tl.program_id(1)  #", "head = tl.program_id(1) + 1  #"),
        ("the head is asked for twice", "        sin = sin * sign", "        sin = sin * tl.program_id(1)"),
        ("a third axis", "        sin = sin * sign", "        sin = sin * tl.program_id(2)"),
        ("the number of programs", "        sin = sin * sign", "        sin = sin * tl.num_programs(1)"),
        ("a head that is used outside of a branch", "        sin = sin * sign", "        sin = sin * head"),
        ("a head that is stored outside of a branch", "        # a query", "        tl.store(q_row + head, 1.0)"),
        ("another way", "\n        if head < n_k:", "        else:\n            x = 1\n        if head < n_k:"),
        ("a branch about something else", "if head < n_k:", "if head <= n_k:"),
        ("a branch about no parameter", "if head < n_k:", "if head < token:"),
        ("a branch below", "            odd = ", "            if sign:\n                x = 1\n            odd = "),
        ("a loop below", "            odd = ", "            while sign:\n                x = 1\n            odd = "),
        ("a sum over the columns", "first * cos - ", "tl.sum(first) * cos - "),
        ("an atomic", "            tl.store(k_head + cols * 2, ", "            tl.atomic_add(k_head + cols * 2, "),
        ("a block with a shape of its own", "first * cos - ", "first * cos + tl.zeros((BLOCK_SIZE,), tl.float32) - "),
        ("a block of two dimensions", "first * cos - ", "first * both - "),
        ("another shape is asked for", "first * cos - ", "first[None, :] * cos - "),
        ("a shape that nobody knows", "        sin = sin * sign", "        sin = somebody(sin)"),
        ("a name that gains a shape", "        sin = sin * sign", "        sin += pairs"),
        ("what is made of a head leaves it", "        if head < n_k:", "        cos = even\n        if head < n_k:"),
        ("a name that becomes another", "            first = ", "            cos = cos + 1\n            first = "),
        ("an index is added up", "            odd = ", "            even += 1\n            odd = "),
        ("heads without a name", "(batch * length, n_heads)", "(batch * length, max(n_q, n_k))"),
        ("a grid that is a function", "(batch * length, n_heads)", "lambda meta: (batch * length, n_heads)"),
        ("a grid of one axis more", "(batch * length, n_heads)", "(batch * length, n_heads, 1)"),
        ("a name that the kernel needs", "    token = ", "    BLOCK_HEADS = 1\n    token = "),
        ("a row that becomes a head's", "            q_head = q_row +", "            q_row = q_row +"),
        ("a name that a loop begins with", "    for start in", "    k_head = k_row\n    for start in"),
        ("a name of both branches", "            first = tl.load(k_head", "            even = tl.load(k_head"),
        ("a name of what it begins with", "    token = ", "    first_head = 1\n    token = "),
        ("a name that the launch needs", "    n_heads = ", "    block_heads = 1\n    n_heads = "),
    ],
)  # fmt: skip
def test_heads_stay_alone_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in HEADS
    assert at_once(HEADS.replace(before, after, 1)) is None, why


def test_a_kernel_that_is_launched_twice_is_left_alone() -> None:
    launch = HEADS[HEADS.index("    _turn[grid](") : HEADS.index("    return q, k")]
    assert at_once(HEADS.replace("    return q, k", f"{launch}    return q, k")) is None


@pytest.mark.parametrize(("heads", "is_it"), [(8, True), (7, False)])
def test_it_is_about_launches_of_many_programs(heads: int, is_it: bool) -> None:
    launch = made.launch("_turn", grid=(2048, heads, 1), block=64, warps=4, resources=made.resources())
    facts = made.measurement(made.result(made.case("forward"), launch))
    assert fitting.is_about("heads_at_once", ("_turn",), facts) is is_it
    assert not fitting.is_about("heads_at_once", ("_another",), facts)
