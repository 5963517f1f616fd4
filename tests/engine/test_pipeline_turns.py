"""A loop that is written out, with a branch in each turn, becomes one that counts and loads ahead."""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path

import pytest

from bot.engine.transforms import pipeline_turns
from tests.engine.library import changes, interpret, sample

DEPTH = '''"""An op in the shape of Liger's attn_res: rows of several blocks, added up by how they score."""

import torch
import triton
import triton.language as tl


@triton.jit
def _mix(V_ptr, w_ptr, Out_ptr, Score_ptr, n_blocks, n_tokens, D, BLOCK: tl.constexpr, MOST: tl.constexpr):
    tok = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < D
    w = tl.load(w_ptr + cols, mask=mask, other=0.0)
    scores = tl.zeros((MOST,), dtype=tl.float32)
    largest = tl.full((), float("-inf"), dtype=tl.float32)

    # how they score
    for i in tl.static_range(0, MOST):
        if i < n_blocks:
            # of this one
            off = i * n_tokens * D + tok * D
            v = tl.load(V_ptr + off + cols, mask=mask, other=0.0)  # a row

            sc = tl.sum(w * v, axis=0)
            scores = tl.where(tl.arange(0, MOST) == i, sc, scores)
            largest = tl.maximum(largest, sc)
            tl.store(Score_ptr + tok * n_blocks + i, sc)

    shares = tl.where(tl.arange(0, MOST) < n_blocks, tl.exp(scores - largest), 0.0)
    h = tl.zeros((BLOCK,), dtype=tl.float32)
    for i in tl.static_range(MOST):
        if i < n_blocks:
            v = tl.load(V_ptr + i * n_tokens * D + tok * D + cols, mask=mask, other=0.0)
            h += tl.sum(tl.where(tl.arange(0, MOST) == i, shares, 0.0)) * v
    tl.store(Out_ptr + tok * D + cols, h / tl.sum(shares, axis=0), mask=mask)


def run(V, w, most=4):
    n_blocks, n_tokens, D = V.shape
    out = torch.empty(n_tokens, D)
    score = torch.zeros(n_tokens, n_blocks)
    BLOCK = triton.next_power_of_2(D)
    _mix[(n_tokens,)](V, w, out, score, n_blocks, n_tokens, D, BLOCK=BLOCK, MOST=most)
    return out, score
'''


@lru_cache
def pipelined(text: str) -> str | None:
    found = pipeline_turns.rewrite(text)
    return found.text if found is not None else None


def test_both_loops_count_in_stages_that_fit_and_nothing_else_changes() -> None:
    after = pipelined(DEPTH)
    assert after is not None
    ast.parse(after)
    gone, new = changes(DEPTH, after)
    assert [line for line in new if line.strip() not in DEPTH] == [
        f"    # {pipeline_turns.COMMENT}",
        "    step_bits: tl.constexpr = BLOCK * V_ptr.dtype.element_ty.primitive_bitwidth",
        "    STEP_STAGES: tl.constexpr = 4 if step_bits <= 65536 else 3 if step_bits <= 327680 else 1",
        "    for i in tl.range(0, tl.minimum(n_blocks, MOST), num_stages=STEP_STAGES):",
        "    for i in tl.range(tl.minimum(n_blocks, MOST), num_stages=STEP_STAGES):",
    ]
    assert [line for line in gone if line.strip() not in after] == [
        "    for i in tl.static_range(0, MOST):",
        "        if i < n_blocks:",
        "    for i in tl.static_range(MOST):",
        "        if i < n_blocks:",
    ]
    lines = after.splitlines()
    assert lines[lines.index(f"    # {pipeline_turns.COMMENT}") + 3 :][:4] == [
        "    # how they score",
        "    for i in tl.range(0, tl.minimum(n_blocks, MOST), num_stages=STEP_STAGES):",
        "        # of this one",
        "        off = i * n_tokens * D + tok * D",
    ]


RUN = """
import sys, torch

sys.path.insert(0, sys.argv[1])
import after, before

sizes = ((1, 1, 1, 1), (1, 3, 5, 4), (3, 2, 8, 4), (4, 3, 17, 4), (6, 2, 3, 4), (2, 1, 4, 8))
for blocks, tokens, width, most in sizes:
    V, w = torch.randn(blocks, tokens, width), torch.randn(width)
    expected, found = (one.run(V, w, most) for one in (before, after))
    assert all(torch.equal(one, other) for one, other in zip(expected, found)), (blocks, tokens, width, most)
    alpha = torch.softmax((V[:most] * w).sum(-1), 0)
    torch.testing.assert_close(found[0], (alpha[..., None] * V[:most]).sum(0), rtol=1e-4, atol=1e-4)
"""


def test_the_result_is_the_one_of_before_also_where_there_are_more_than_are_written_out(tmp_path: Path) -> None:
    after = pipelined(DEPTH)
    assert after is not None
    interpret(tmp_path, RUN, before=DEPTH, after=after)


def test_it_is_done_once() -> None:
    after = pipelined(DEPTH)
    assert after is not None and pipelined(after) is None


@pytest.mark.parametrize(("bytes_", "stages"), [(8192, 4), (8193, 3), (40960, 3), (40961, 1)])
def test_as_many_stages_as_shared_memory_has_room_for(bytes_: int, stages: int) -> None:
    after = pipelined(DEPTH)
    assert after is not None
    line = next(line for line in after.splitlines() if "STEP_STAGES: tl.constexpr" in line)
    assert eval(line.split(" = ")[1], {"step_bits": bytes_ * 8}) == stages


@pytest.mark.parametrize("kernel", ["rms_norm", "softmax", "geglu", "cross_entropy", "layer_norm", "jsd"])
def test_kernels_without_such_a_loop_are_left_alone(kernel: str) -> None:
    assert not pipeline_turns.applies(sample(kernel))


def test_a_loop_that_is_not_understood_leaves_the_other_one_its_stages() -> None:
    after = pipelined(DEPTH.replace("            h += ", "            if i < 2:\n                h += "))
    assert after is not None and after.count("tl.range(") == 1 and "for i in tl.static_range(MOST):" in after


FIRST = DEPTH.replace("tl.static_range(MOST)", "range(MOST)").replace("    w = ", "    here = cols + 0\n    w = ")
"""With one loop to change: what is refused is refused of that one."""
LINE, SUM = "            sc = tl.sum", "sc = tl.sum(w * v, axis=0)"
ROW = "tl.load(V_ptr + off + cols, mask=mask, other=0.0)"
STORE = "            tl.store(Score_ptr + tok * n_blocks + i, sc)"
ASKED = "        if i < n_blocks:\n            # of"
MADE = "    score = torch.zeros(n_tokens, n_blocks)"


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("a loop that is run already", "tl.static_range(0, MOST)", "range(0, MOST)"),
        ("a loop that begins elsewhere", "tl.static_range(0, MOST)", "tl.static_range(1, MOST)"),
        ("a loop that ends at a number", "tl.static_range(0, MOST)", "tl.static_range(0, 4)"),
        ("a loop by steps", "tl.static_range(0, MOST)", "tl.static_range(0, MOST, 1)"),
        ("another question", ASKED, "        if i <= n_blocks:\n            # of"),
        ("a number of the kernel's own", "    # how they", "    n_blocks = n_blocks * 1\n    # how they"),
        ("another way", STORE, f"{STORE}\n        else:\n            largest = largest"),
        ("more than the branch", ASKED, "        tok = tok\n        if i < n_blocks:\n            # of"),
        ("a branch in it", LINE, f"            if D > 1:\n                v = v\n{LINE}"),
        ("a choice in it", SUM, f"{SUM} if D > 1 else 0.0"),
        ("a loop in it", LINE, f"            for j in range(2):\n                v = v\n{LINE}"),
        ("a way out", LINE, "            return\n            sc = tl.sum"),
        ("an atomic", "tl.store(Score_ptr", "tl.atomic_add(Score_ptr"),
        ("a barrier", LINE, "            tl.debug_barrier()\n            sc = tl.sum"),
        ("assembly", SUM, "sc = tl.inline_asm_elementwise('', '', [v], v, True, 1)"),
        ("a hint", "other=0.0)  # a row", "other=0.0, eviction_policy='evict_first')  # a row"),
        ("a half of the counter", "off = i * n_tokens", "off = i // 2 * n_tokens"),
        ("a power of the counter", "off = i * n_tokens", "off = 2**i * n_tokens"),
        ("a part of one of the counter", SUM, "sc = tl.sum(w * v, axis=0) + i * 0.1"),
        ("less than nothing of the counter", "off = i * n_tokens", "off = -(-i) * n_tokens"),
        ("the counter as an index", SUM, "sc = tl.sum(w * v, axis=0) * (1.0, 2.0)[i]"),
        ("the counter as a shape", SUM, f"{SUM} + tl.sum(tl.arange(0, i))"),
        ("the counter for a helper", SUM, "sc = scored(w, v, i)"),
        ("the counter of a constant", SUM, f"{SUM}\n            tl.static_assert(MOST > 0)"),
        ("the counter is given another value", LINE, "            i = i + 1\n            sc = tl.sum"),
        ("the counter is known below", "    shares = ", "    last = i\n    shares = "),
        ("a name of a part of the row", LINE, "            (a := v)\n            sc = tl.sum"),
        ("no row", ROW, "tl.load(V_ptr + off)"),
        ("more than a row", ROW, "tl.sum(tl.load(V_ptr + cols[:, None] + tl.arange(0, 2)), axis=1)"),
        ("a pointer behind something", "V_ptr + off + cols", "0 + V_ptr + off + cols"),
        ("a pointer that moves", "    # how they", "    V_ptr += 0\n    # how they"),
        ("a name that is taken", "    # how they", "    step_bits = 1\n    # how they"),
        ("what is stored is what is loaded", "_mix[(n_tokens,)](V, w, out, score,", "_mix[(n_tokens,)](V, w, out, V,"),
        ("what is stored was handed over", MADE, "    score = w.kept"),
        ("what is stored may be handed over", "    score = torch", "    score = w.kept if most else torch"),
        ("what is stored is made twice", "    BLOCK = ", "    score = score\n    BLOCK = "),
        ("what is loaded is made of it", "    BLOCK = ", "    V = score[:0]\n    BLOCK = "),
        ("a comment behind the loop's head", "tl.static_range(0, MOST):", "tl.static_range(0, MOST):  # all"),
        ("a comment below the branch", f"{STORE}\n", f"{STORE}\n        # of a turn\n"),
        ("a branch that is none", "n_blocks, n_tokens, D, BLOCK", "n_blocks: tl.constexpr, n_tokens, D, BLOCK"),
        ("what another turn stores", LINE, f"            v += tl.load(Score_ptr + tok * n_blocks)\n{LINE}"),
        ("a row by another name", ROW, "tl.load(V_ptr + off + here, mask=mask, other=0.0)"),
        ("a range in its place", ROW, "tl.load(V_ptr + off + tl.arange(0, BLOCK))"),
        ("a constant of the counter", LINE, f"            at: tl.constexpr = i + 1\n{LINE}"),
        ("the counter beside a constant", "off = i * n_tokens", "off = i * MOST * n_tokens"),
        ("the counter and much", "off = i * n_tokens", "off = i * 65537 * n_tokens"),
        ("the counter beside what is loaded", SUM, f"{SUM} + tl.sum(v * i)"),
        ("the counter as a value", "scores = tl.where(tl.arange(0, MOST) == i, sc,", "scores = tl.where(w > 0, i,"),
        ("the counter as an axis", SUM, "sc = tl.sum(w * v, axis=i)"),
        ("a shift", LINE, f"            off <<= i\n{LINE}"),
        ("a narrow type", LINE, f"            v = v.to(tl.int8)\n{LINE}"),
        ("a load that nobody may move", "other=0.0)  # a row", "other=0.0, volatile=True)  # a row"),
        ("what is stored has another name", MADE, f"{MADE}\n    V.kept = score"),
        ("a part of what is stored", "_mix[(n_tokens,)](V, w,", "_mix[(n_tokens,)](score[0:], w,"),
        ("what is stored is nobody's own", MADE, "    score = torch.zeros(n_tokens, n_blocks, out=V)"),
        ("a launch that nobody sees", "    _mix[", "    other = _mix\n    _mix["),
        ("nobody launches it", "_mix[(n_tokens,)]", "_mox[(n_tokens,)]"),
    ],
)  # fmt: skip
def test_the_loop_stays_written_out_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in FIRST and pipelined(FIRST) is not None
    assert pipelined(FIRST.replace(before, after, 1)) is None, why
