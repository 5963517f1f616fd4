"""What is stored while a row is read again leaves the cache before the row does."""

from __future__ import annotations

import ast

import pytest

from bot.engine.transforms import cache_hints, pipeline_steps, stores_first
from tests.engine.library import changes
from tests.engine.test_cache_hints import LAST_LINE, LOSS, ONCE, SECOND_READ, SECOND_STORE, put

HINTED = SECOND_STORE.removesuffix(")") + ', eviction_policy="evict_first")'


def first(text: str) -> str | None:
    ast.parse(text)
    found = stores_first.rewrite(text)
    return found.text if found is not None else None


def test_the_store_of_the_last_walk_gets_a_hint_and_a_reason_and_nothing_else_changes() -> None:
    after = first(LOSS)
    assert after is not None
    ast.parse(after)
    assert changes(LOSS, after) == ([SECOND_STORE], [f"            # {stores_first.WHY}", HINTED])


def test_a_branch_that_never_reads_the_row_keeps_its_store_as_it_is() -> None:
    after = first(LOSS)
    assert after is not None and "tl.store(x_ptr + cols, 0.0, mask=cols < n_cols)\n" in after


def test_so_does_one_that_stands_behind_the_last_read() -> None:
    """A loss without a gradient leaves zeros."""
    zeros = "tl.store(x_ptr + cols, 0.0, mask=cols < n_cols)\n"
    walk = f"        for i in range(0, n_cols, BLOCK):\n            cols = i + tl.arange(0, BLOCK)\n            {zeros}"
    after = first(f"{LOSS}    else:\n{walk}")
    assert after is not None and after.count(zeros) == 2 and after.count(HINTED) == 1


def test_done_once_it_is_not_done_again_and_all_hints_are_not_put_beside_it() -> None:
    after = first(LOSS)
    assert after is not None
    assert first(after) is None and cache_hints.rewrite(after) is None


def test_a_kernel_that_reads_a_row_once_has_nothing_to_make_room_for() -> None:
    assert first(ONCE) is None
    assert first(put(LOSS, SECOND_READ, "            again = total")) is None


def test_a_store_that_says_how_long_it_stays_is_left_alone() -> None:
    assert first(put(LOSS, SECOND_STORE, SECOND_STORE.removesuffix(")") + ', cache_modifier=".cs")')) is None


def test_without_a_store_behind_the_last_read_there_is_nothing_to_do() -> None:
    assert first(put(LOSS, SECOND_STORE, "            total += tl.sum(again)")) is None


def test_a_walk_that_loads_ahead_may_have_it_where_its_loads_may_not() -> None:
    ahead = pipeline_steps.rewrite(LOSS)
    assert ahead is not None and cache_hints.rewrite(ahead.text) is None
    after = first(ahead.text)
    assert after is not None and HINTED in after.splitlines()


@pytest.mark.parametrize(("length", "taken"), [(120, True), (121, False)])
def test_a_line_that_would_be_too_long_stays_as_it_is(length: int, taken: bool) -> None:
    digits = "1" * (length - len(HINTED) - len(" * "))
    assert (first(put(LOSS, "- picked, mask", f"- picked * {digits}, mask")) is not None) is taken


@pytest.mark.parametrize("text", [LOSS, ONCE])
def test_whether_it_applies_is_whether_it_has_something_to_say(text: str) -> None:
    assert stores_first.applies(text) is (first(text) is not None)


def test_the_kernel_of_one_walk_has_its_row_once_whatever_it_stores() -> None:
    assert first(put(ONCE, LAST_LINE, f"{LAST_LINE}\n{LAST_LINE}")) is None
