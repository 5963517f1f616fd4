"""Numbers that lie side by side are loaded and stored as pairs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bot.engine.transforms import heads_at_once, pairs_at_once
from tests.engine.library import changes, interpret, sample
from tests.engine.test_heads_at_once import HEADS, RUN, at_once

QUERIES = """            tl.store(q_head + cols * 2, tl.math.fma(even, cos, -(odd * sin)), mask=mask)
            tl.store(q_head + cols * 2 + 1, tl.math.fma(even, sin, odd * cos), mask=cols < HALF)
"""
KEYS = """            tl.store(k_head + cols * 2, first * cos - second * sin, mask=mask)
            tl.store(k_head + cols * 2 + 1, first * sin + second * cos, mask=mask)
"""
NAMED = HEADS.replace(
    QUERIES,
    """            turned = tl.math.fma(even, cos, -(odd * sin))
            beside = tl.math.fma(even, sin, odd * cos)
            # both are stored
            tl.store(q_head + cols * 2, turned, mask=mask)
            tl.store(q_head + cols * 2 + 1, beside, mask=mask)
""",
).replace(
    KEYS,
    """            new_first = first * cos - second * sin
            new_second = first * sin + second * cos
            tl.store(k_head + cols * 2, new_first, mask=mask)
            tl.store(k_head + cols * 2 + 1, new_second, mask=mask)
""",
)
"""As Liger writes it: what is stored has a name."""


def in_pairs(text: str) -> str | None:
    found = pairs_at_once.rewrite(text)
    return found.text if found is not None else None


def test_two_loads_become_one_and_so_do_two_stores() -> None:
    after = in_pairs(NAMED)
    assert after is not None
    ast.parse(after)
    gone, new = changes(NAMED, after)
    assert [line.strip() for line in gone] == [
        "even = tl.load(q_head + cols * 2, mask=mask, other=0.0)",
        "odd = tl.load(q_head + cols * 2 + 1, mask=mask, other=0.0)",
        "tl.store(q_head + cols * 2, turned, mask=mask)",
        "tl.store(q_head + cols * 2 + 1, beside, mask=mask)",
        "first = tl.load(k_head + cols * 2, mask=mask, other=0.0)",
        "second = tl.load(k_head + cols * 2 + 1, mask=mask, other=0.0)",
        "tl.store(k_head + cols * 2, new_first, mask=mask)",
        "tl.store(k_head + cols * 2 + 1, new_second, mask=mask)",
    ]
    assert [line.strip() for line in new] == [
        f"# {pairs_at_once.WHY}",
        "q_head_pairs = tl.expand_dims(q_head + cols * 2, -1) + tl.arange(0, 2)",
        "q_head_both = tl.load(q_head_pairs, mask=tl.expand_dims(mask, -1), other=0.0)",
        "even, odd = tl.split(q_head_both)",
        "tl.store(q_head_pairs, tl.join(turned, beside), mask=tl.expand_dims(mask, -1))",
        f"# {pairs_at_once.WHY}",
        "k_head_pairs = tl.expand_dims(k_head + cols * 2, -1) + tl.arange(0, 2)",
        "k_head_both = tl.load(k_head_pairs, mask=tl.expand_dims(mask, -1), other=0.0)",
        "first, second = tl.split(k_head_both)",
        "tl.store(k_head_pairs, tl.join(new_first, new_second), mask=tl.expand_dims(mask, -1))",
    ]


def test_heads_and_pairs_come_to_the_same_text_whichever_is_first() -> None:
    pairs, heads = in_pairs(NAMED), at_once(NAMED)
    assert pairs is not None and heads is not None
    assert in_pairs(heads) == at_once(pairs) is not None


@pytest.mark.parametrize("with_heads", [False, True])
def test_the_result_is_the_one_of_before(with_heads: bool, tmp_path: Path) -> None:
    after = in_pairs(NAMED)
    assert after is not None
    if with_heads:
        several = heads_at_once.rewrite(after)
        assert several is not None
        after = several.text.replace(">= 16384", ">= 1")
    interpret(tmp_path, RUN, before=NAMED, after=after)


def test_it_is_done_once() -> None:
    after = in_pairs(NAMED)
    assert after is not None and in_pairs(after) is None


def test_a_store_alone_works_its_places_out_itself() -> None:
    """The loads of the queries differ in their masks, and are left as they are."""
    after = in_pairs(
        NAMED.replace(
            "odd = tl.load(q_head + cols * 2 + 1, mask=mask", "odd = tl.load(q_head + cols * 2 + 1, mask=cols < HALF"
        )
    )
    assert after is not None and "even = tl.load(q_head + cols * 2, mask=mask, other=0.0)" in after
    lines = [line.strip() for line in after.splitlines()]
    at = lines.index("q_head_pairs = tl.expand_dims(q_head + cols * 2, -1) + tl.arange(0, 2)")
    assert lines[at - 2 : at] == ["# both are stored", f"# {pairs_at_once.WHY}"]
    assert lines[at + 1].startswith("tl.store(q_head_pairs, tl.join(turned, beside)")


def test_a_pair_without_a_mask_has_none() -> None:
    after = in_pairs(NAMED.replace(", mask=mask, other=0.0", "").replace(", mask=mask)", ")"))
    assert after is not None and "q_head_both = tl.load(q_head_pairs)" in after
    assert at_once(after) is None, "a mask of heads would have another shape"


LOAD = "            second = tl.load(k_head + cols * 2 + 1, "
SAID = "+ 1, mask=mask, other=0.0)\n            new_first"


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("another neighbour", LOAD, LOAD.replace("+ 1", "+ 2")),
        ("another distance", "second = tl.load(k_head + cols * 2", "second = tl.load(k_head + cols * 3"),
        ("another place", LOAD, LOAD.replace("k_head", "k_row")),
        ("a row for what is not there", SAID, SAID.replace("0.0", "cos")),
        ("another mask", SAID, SAID.replace("mask=mask", "mask=cols < 8")),
        ("something else for what is not there", SAID, SAID.replace("0.0", "1.0")),
        ("a hint", SAID, SAID.replace("0.0", "0.0, cache_modifier='.cg'")),
        ("a mask by its place", LOAD + "mask=mask, ", LOAD + "mask, "),
        ("a line between", LOAD, "            new_first = 0.0\n" + LOAD),
        ("the odd one first", "first = tl.load(k_head + cols * 2, ", "first = tl.load(k_head + cols * 2 + 1, "),
        ("the same name", LOAD, LOAD.replace("second =", "first =")),
    ],
)  # fmt: skip
def test_who_do_not_go_together_stay_apart(why: str, before: str, after: str) -> None:
    assert NAMED.count(before) == 1
    found = in_pairs(NAMED.replace(before, after))
    assert found is not None and "even, odd = tl.split(q_head_both)" in found
    assert "k_head_both" not in found, why


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("columns that are no row", "cols = start + tl.arange(0, BLOCK_SIZE)", "cols = start"),
        ("columns of a block", "tl.arange(0, BLOCK_SIZE)\n", "tl.arange(0, BLOCK_SIZE)[:, None]\n"),
        ("columns that change", "        # a query", "        cols = cols + 0\n        # a query"),
        ("a name that is taken", "        # a query", "        q_head_pairs = 1\n        # a query"),
        ("the other name that is taken", "        # a query", "        q_head_both = 1\n        # a query"),
        ("a place that moves on", "            turned =", "            q_head = q_head + 2\n            turned ="),
        ("no Triton that the file relies on splits", "tl.split(", "somebody("),
    ],
)  # fmt: skip
def test_pairs_stay_apart_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in NAMED
    assert in_pairs(NAMED.replace(before, after)) is None, why


MADE = "            beside = tl.math.fma(even, sin, odd * cos)\n"


@pytest.mark.parametrize(
    ("why", "after"),
    [
        ("another type", MADE.replace("= ", "= even.to(tl.float16) + ")),
        ("made of something else", "            beside = odd\n"),
        ("made elsewhere", ""),
    ],
)
def test_two_numbers_that_may_be_of_two_types_are_stored_apart(why: str, after: str) -> None:
    found = in_pairs(NAMED.replace(MADE, after))
    assert MADE in NAMED and found is not None, "the keys go together"
    assert "tl.store(q_head + cols * 2, turned, mask=mask)" in found, why


def test_a_load_that_the_second_one_needs_is_not_joined() -> None:
    text = NAMED.replace(
        "even = tl.load(q_head + cols * 2, mask=mask, other=0.0)",
        "mask = tl.load(q_head + cols * 2, mask=mask, other=0.0)",
    )
    after = in_pairs(text)
    assert text != NAMED and after is not None and "mask, odd" not in after


@pytest.mark.parametrize("kernel", ["rms_norm", "softmax", "geglu", "cross_entropy"])
def test_kernels_of_plain_rows_have_no_pairs(kernel: str) -> None:
    assert not pairs_at_once.applies(sample(kernel))
