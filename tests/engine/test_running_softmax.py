"""Rows that are scored and then added up by their softmax are read once."""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path

import pytest

from bot.engine.transforms import pipeline_turns, running_softmax
from tests.engine.library import changes, interpret
from tests.engine.test_pipeline_turns import DEPTH as SHARES_OF_ITS_OWN

DEPTH = '''"""An op in the shape of Liger's attn_res: rows of several blocks, added up by how they score."""

import torch
import triton
import triton.language as tl


@triton.jit
def _mix(V_ptr, w_ptr, Out_ptr, Share_ptr, n_blocks, n_tokens, D, BLOCK: tl.constexpr, MOST: tl.constexpr):
    tok = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < D
    w = tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    scores = tl.zeros((MOST,), dtype=tl.float32) + float("-inf")
    largest = tl.full((), float("-inf"), dtype=tl.float32)

    # how they score
    for i in tl.static_range(0, MOST):
        if i < n_blocks:
            off = i * n_tokens * D + tok * D
            v = tl.load(V_ptr + off + cols, mask=mask, other=0.0).to(tl.float32)  # a row
            sc = tl.sum(w * v, axis=0)
            scores = tl.where(tl.arange(0, MOST) == i, sc, scores)
            largest = tl.maximum(largest, sc)

    raised = tl.where(
        tl.arange(0, MOST) < n_blocks,
        tl.exp(scores - largest),
        0.0,
    )
    total = tl.sum(raised, axis=0)
    shares = raised / total  # of each

    for i in tl.static_range(0, MOST):
        if i < n_blocks:
            tl.store(Share_ptr + tok * n_blocks + i, tl.sum(tl.where(tl.arange(0, MOST) == i, shares, 0.0)))

    # added up
    h = tl.zeros((BLOCK,), dtype=tl.float32)
    for i in tl.static_range(0, MOST):
        if i < n_blocks:
            off = i * n_tokens * D + tok * D
            v = tl.load(V_ptr + off + cols, mask=mask, other=0.0).to(tl.float32)
            a = tl.sum(tl.where(tl.arange(0, MOST) == i, shares, 0.0))
            h += a * v

    tl.store(Out_ptr + tok * D + cols, h, mask=mask)


def run(V, w, most=4):
    n_blocks, n_tokens, D = V.shape
    out = torch.full((n_tokens, D), 7.0, dtype=V.dtype)
    share = torch.empty(n_tokens, n_blocks)
    BLOCK = triton.next_power_of_2(D)
    _mix[(n_tokens,)](V, w, out, share, n_blocks, n_tokens, D, BLOCK=BLOCK, MOST=most)
    return out, share
'''
SHARE = "            a = tl.sum(tl.where(tl.arange(0, MOST) == i, shares, 0.0))\n"
AGAIN = "            v = tl.load(V_ptr + off + cols, mask=mask, other=0.0).to(tl.float32)\n"
ZEROS = "    h = tl.zeros((BLOCK,), dtype=tl.float32)\n"


@lru_cache
def once(text: str) -> str | None:
    found = running_softmax.rewrite(text)
    return found.text if found is not None else None


def put(old: str, new: str, text: str = DEPTH) -> str:
    assert text.count(old) == 1, old
    after = text.replace(old, new)
    ast.parse(after)
    return after


def test_the_second_loop_goes_and_the_first_adds_up() -> None:
    after = once(DEPTH)
    assert after is not None
    ast.parse(after)
    gone, new = changes(DEPTH, after)
    assert new == [
        "    h = tl.zeros((BLOCK,), dtype=tl.float32)",
        f"    # {running_softmax.WHY_FIRST}",
        "    scaled_to = tl.full((), -3.4e38, dtype=tl.float32)",
        f"            # {running_softmax.WHY_HERE}",
        "            now_scaled_to = tl.maximum(scaled_to, sc)",
        "            h = h * tl.exp(scaled_to - now_scaled_to) + tl.exp(sc - now_scaled_to) * v",
        "            scaled_to = now_scaled_to",
        f"    # {running_softmax.WHY_LAST}",
        "    h = h / tl.where(total == 0.0, 1.0, total)",
    ]
    assert len(gone) == len(ZEROS.splitlines()) + 6 and not any("#" in line for line in gone)


def test_comments_stay_where_what_they_speak_of_went() -> None:
    after = once(DEPTH)
    assert after is not None
    assert f"    # added up\n    # {running_softmax.WHY_LAST}\n    h = h /" in after
    assert "    # how they score\n    for i in tl.static_range(0, MOST):" in after


def test_read_once_there_is_nothing_more_to_do_and_what_is_left_may_load_ahead() -> None:
    after = once(DEPTH)
    assert after is not None and once(after) is None
    ahead = pipeline_turns.rewrite(after)
    assert ahead is not None and "num_stages=STEP_STAGES" in ahead.text


RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
import before, after, ahead
torch.manual_seed(0)
for blocks, tokens, columns in ((1, 1, 8), (3, 5, 40), (4, 2, 16), (0, 2, 8)):
    V, w = torch.randn(blocks, tokens, columns), torch.randn(columns)
    for scale in (1.0, 30.0, 1e-3):
        for new in (after, ahead):
            expected, found = before.run(V * scale, w), new.run(V * scale, w)
            torch.testing.assert_close(found[0], expected[0], rtol=1e-5, atol=1e-5 * scale)
            torch.testing.assert_close(found[1], expected[1], rtol=0, atol=0)
half = torch.randn(4, 3, 24).bfloat16()
w = torch.randn(24).bfloat16()
torch.testing.assert_close(after.run(half, w)[0], before.run(half, w)[0], rtol=1e-2, atol=1e-2)
least = torch.randn(3, 2, 8)  # a first score of minus infinity counts for nothing
least[0] = -3e38
ones = torch.full((8,), 1.0)
assert torch.isneginf(least[0].sum(-1)).all()
expected, found = before.run(least, ones)[0], after.run(least, ones)[0]
assert torch.isfinite(expected).all()
torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
for strange in (float("nan"), float("inf")):
    V = torch.randn(3, 2, 8)
    V[1, 1, 3] = strange
    assert torch.isnan(before.run(V, ones)[0][1]).all() and torch.isnan(after.run(V, ones)[0][1]).all()
    torch.testing.assert_close(after.run(V, ones)[0][0], before.run(V, ones)[0][0])
"""


def test_the_result_is_the_one_of_before(tmp_path: Path) -> None:
    after = once(DEPTH)
    assert after is not None
    ahead = pipeline_turns.rewrite(after)
    assert ahead is not None
    interpret(tmp_path, RUN, before=DEPTH, after=after, ahead=ahead.text)


@pytest.mark.parametrize(
    "text",
    [
        put(SHARE, "").replace("h += a * v", "h += tl.sum(tl.where(tl.arange(0, MOST) == i, shares, 0.0)) * v"),
        put("tl.sum(raised, axis=0)", "tl.sum(raised)"),
        put("tl.full((), float(\"-inf\"), dtype=tl.float32)", "float(\"-inf\")"),
        DEPTH.replace("tl.static_range(0, MOST)", "tl.static_range(MOST)"),
        put(ZEROS, "").replace("    # how they score\n", f"{ZEROS}\n    # how they score\n"),
    ],
    ids=["a share in its place", "a sum of all", "a plain number", "from zero", "zeros above"],
)  # fmt: skip
def test_it_may_be_written_in_other_ways(tmp_path: Path, text: str) -> None:
    after = once(text)
    assert after is not None
    run = "import sys\nsys.path.insert(0, sys.argv[1])\nimport torch, before, after\n"
    run += "V, w = torch.randn(3, 4, 24), torch.randn(24)\n"
    interpret(
        tmp_path, f"{run}torch.testing.assert_close(after.run(V, w), before.run(V, w))", before=DEPTH, after=after
    )


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("another row", AGAIN, AGAIN.replace("off + cols", "off + cols + 1")),
        ("another type", AGAIN, AGAIN.replace(".to(tl.float32)", "")),
        ("a second statement", SHARE, f"{SHARE}            tl.store(Out_ptr + tok, a)\n"),
        ("a share of others", SHARE, SHARE.replace("shares", "scores")),
        ("another share", SHARE, SHARE.replace("== i", "== i + 1")),
        ("what is added is less", "h += a * v", "h -= a * v"),
        ("a row that is changed", "h += a * v", "h += a * (v + 1)"),
        ("it begins with something", ZEROS, ZEROS.replace("tl.zeros((BLOCK,)", "tl.full((BLOCK,), 1.0")),
        ("in half precision", ZEROS, ZEROS.replace("tl.float32", "tl.float16")),
        ("it is needed between", "    # added up\n" + ZEROS, f"{ZEROS}    tl.store(Out_ptr + cols, h)\n"),
        ("a third value of it", "    tl.store(Out_ptr + tok * D", "    h *= 2\n    tl.store(Out_ptr + tok * D"),
        ("largest begins elsewhere", 'tl.full((), float("-inf"),', "tl.full((), 0.0,"),
        ("shares of a warmer softmax", "tl.exp(scores - largest)", "tl.exp((scores - largest) * 2)"),
        ("to another base", "tl.exp(scores - largest)", "tl.math.exp2(scores - largest)"),
        ("not divided", "shares = raised / total  # of each", "shares = raised"),
        ("the sum is changed", "    shares = raised", "    total += 1.0\n    shares = raised"),
        ("others count", "tl.arange(0, MOST) < n_blocks,\n", "tl.arange(0, MOST) <= n_blocks,\n"),
        ("a score that grows", "            scores = tl.where", "            sc += 1.0\n            scores = tl.where"),
        ("a row that is made twice", "            sc = tl.sum", "            v = v * 2\n            sc = tl.sum"),
        ("scores are kept twice", "    raised =", "    scores += 1.0\n    raised ="),
        ("the number is changed", "    # added up", "    n_blocks -= 1\n    # added up"),
        ("rows of another tensor", "    # added up", "    V_ptr += n_blocks * n_tokens * D\n    # added up"),
        ("rows that move", "            sc = tl.sum", "            V_ptr += 1\n            sc = tl.sum"),
        ("a mask that changes", "    # added up", "    mask = cols < D - 1\n    # added up"),
        ("it is stored", "            sc = tl.sum", "            tl.store(V_ptr + cols, v)\n            sc = tl.sum"),
        ("a row that is stored", "    # added up", "    tl.store(V_ptr + tok * D + cols, w)\n    # added up"),
        ("additions", "            sc = tl.sum", "            tl.atomic_add(w_ptr + cols, v)\n            sc = tl.sum"),
        ("a function of the file", "            sc = tl.sum", "            more(V_ptr, off)\n            sc = tl.sum"),
        ("a share below", "    tl.store(Out_ptr + tok", "    tl.store(Out_ptr, a)\n    tl.store(Out_ptr + tok"),
        ("a row below", "    tl.store(Out_ptr + tok * D", "    tl.store(Out_ptr, v)\n    tl.store(Out_ptr + tok * D"),
        ("a counter below", "    tl.store(Out_ptr + tok", "    tl.store(Out_ptr, i)\n    tl.store(Out_ptr + tok"),
        ("a name is taken", "    # added up", "    scaled_to = 1\n    # added up"),
        ("a word on what goes", SHARE, SHARE.replace("\n", "  # its share\n")),
        ("a loop that counts", f"{ZEROS}    for i in tl.static_range(", f"{ZEROS}    for i in range("),
        ("to more", f"{ZEROS}    for i in tl.static_range(0, MOST", f"{ZEROS}    for i in tl.static_range(0, D"),
    ],
)  # fmt: skip
def test_what_is_not_all_of_it_stays(why: str, before: str, after: str) -> None:
    assert once(put(before, after)) is None, why


def test_keys_and_values_are_other_rows() -> None:
    both = DEPTH.replace("tl.load(V_ptr + off", "tl.load(base + off")
    assert once(put("    # how they score", "    base = V_ptr\n    # how they score", both)) is not None
    values = put("    # added up", "    base = w_ptr\n    # added up", both)
    assert once(put("    # how they score", "    base = V_ptr\n    # how they score", values)) is None


def test_zeros_above_stay_where_they_are_with_what_was_said_of_them() -> None:
    said = f"    # of all blocks\n{ZEROS}"
    text = put(ZEROS, "").replace("    scores = tl.zeros", f"{said}    scores = tl.zeros")
    after = once(text)
    assert after is not None and f"{said}    scores = tl.zeros" in after
    assert f"    # added up\n    # {running_softmax.WHY_LAST}\n" in after


def test_rows_that_are_added_up_in_their_own_type_stay() -> None:
    assert once(SHARES_OF_ITS_OWN) is None


def test_both_loops_in_another_head_stay() -> None:
    assert once(DEPTH.replace("tl.static_range(0, MOST)", "range(0, MOST)")) is None
    assert once(DEPTH.replace("if i < n_blocks:", "if i <= n_blocks:")) is None
    assert once(DEPTH.replace("if i < n_blocks:", "if n_blocks:")) is None
    assert running_softmax.applies(DEPTH) and not running_softmax.applies("import torch\n")
