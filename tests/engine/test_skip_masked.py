"""A tile of which a mask keeps nothing is not multiplied."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bot.engine.transforms import mask_where_read, skip_masked
from tests.engine.library import changes, interpret
from tests.engine.windows import PLAYED, SETTINGS, TEXT

MADE_THERE = mask_where_read.rewrite(TEXT)
assert MADE_THERE is not None
MASKED = MADE_THERE.text
ASKED = "    if tl.max(tl.max((near > 0.0).to(tl.int32), axis=1), axis=0) > 0:"


def skipping(text: str) -> str | None:
    found = skip_masked.rewrite(text)
    return found.text if found is not None else None


def test_the_mask_is_made_in_front_of_the_loop_and_asked() -> None:
    found = skip_masked.rewrite(MASKED)
    assert found is not None and found.kernels == ("_scores_kernel",)
    _, new = changes(MASKED, found.text)
    assert ASKED in new and f"    # {skip_masked.COMMENT}" in new
    lines = found.text.splitlines()
    at = lines.index(ASKED)
    assert lines[at - 3 : at + 3] == [
        "    near = tl.where(valid, ones, 0.0)",
        "",
        f"    # {skip_masked.COMMENT}",
        ASKED,
        "        # Step by step.",
        "        for start in range(0, width, BLOCK_K):",
    ]
    ast.parse(found.text)


def test_the_scores_are_the_same(tmp_path: Path) -> None:
    after = skipping(MASKED)
    assert after is not None
    interpret(tmp_path, PLAYED, before=TEXT, after=after, settings=SETTINGS)


def test_a_tile_is_asked_for_once() -> None:
    after = skipping(MASKED)
    assert after is not None and skipping(after) is None


def test_a_mask_that_stands_above_already_stays_there() -> None:
    after = skipping(MASKED)
    assert after is not None
    loop = after[after.index(f"    # {skip_masked.COMMENT}\n") : after.index("    acc = acc * scale")]
    above = after.replace(loop, loop.replace(f"    # {skip_masked.COMMENT}\n{ASKED}\n", "").replace("\n    ", "\n")[4:])
    again = skipping(above)
    assert again is not None and again.replace("\n\n", "\n") == after.replace("\n\n", "\n")


WHERE = 'acc = tl.where(near > 0.0, acc, float("-inf"))'


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("dtype=tl.float32)\n\n", "dtype=tl.float32) + 1.0\n\n", "the sum begins with something"),
        ("        acc += tl.dot", "        acc = acc * 0.5 + tl.dot", "it is more than a sum"),
        (
            "        acc += tl.dot",
            "        tl.atomic_add(out_ptr, 1.0)\n        acc += tl.dot",
            "the loop adds to memory",
        ),
        (
            "        acc += tl.dot",
            "        if start > 0:\n            pass\n        acc += tl.dot",
            "the loop branches",
        ),
        ("        acc += tl.dot", "        near = q\n        acc += tl.dot", "the loop gives the mask another value"),
        ("    acc = acc * scale\n", "    acc = acc * scale\n    tl.store(out_ptr, 1.0)\n", "something is stored"),
        (
            "    acc = acc * scale\n",
            "    acc = acc * scale\n    most = tl.max(acc, axis=0)\n",
            "somebody looks at the sum",
        ),
        (
            "    acc = acc * scale\n",
            "    acc = acc * scale\n    last = at + 1\n",
            "somebody looks at what the loop left",
        ),
        (WHERE, 'acc = tl.where(near > 0.0, float("-inf"), acc)', "the sum is what is thrown away"),
        (WHERE, 'acc = tl.where(near, acc, float("-inf"))', "a number is no condition"),
        (WHERE, "acc = tl.where(near > 0.0, acc, acc - 1.0)", "the sum is kept in any case"),
        (WHERE, 'acc = tl.where(acc > 0.0, acc, float("-inf"))', "the sum says itself what is kept"),
        (WHERE, 'acc = tl.where(rows[:, None] > 2, acc, float("-inf"))', "the mask is one of rows"),
        (
            "    near = tl.where(valid, ones, 0.0)",
            "    near = tl.sum(tl.where(valid, ones, 0.0), axis=0)",
            "a sum of the mask",
        ),
        (
            "    near = tl.where(valid, ones, 0.0)",
            "    near = abs(tl.where(valid, ones, 0.0))",
            "a function may be anybody's",
        ),
        ("mask=q_mask, other=0.0)", "mask=q_mask, other=0.0)\n        k = load(k_ptr)", "a function may be anybody's"),
        ("range(0, width, BLOCK_K)", "tl.range(0, width, BLOCK_K, warp_specialize=True)", "warps are told apart"),
        ("    # Step by step.", "    start = 1.5\n    # Step by step.", "the loop counts with another name's number"),
    ],
)
def test_what_is_not_understood_stays(before: str, after: str, why: str) -> None:
    assert MASKED.count(before) == 1, before
    assert skipping(MASKED.replace(before, after)) is None, why


def test_a_mask_that_is_loaded_is_not_waited_for() -> None:
    assert skipping(TEXT) is None
