"""What the estimate foretold of launch numbers that raced, as docs/results/h200/ordering tells it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.render.scripts import RESULTS, script

PAGE = RESULTS / "ordering"
MODEL = RESULTS.parents[1] / "model.md"
TABLE = script("ordering")
FEW, MANY, MORE = (4096, 4), (4096, 8), (4096, 16)


def seen(model: dict[tuple[int, int], float], raced: dict[tuple[int, int], float]) -> Any:
    return TABLE.Seen("k", "_k", {"case": model}, {"case": raced})


def test_the_page_is_what_the_journals_say() -> None:
    made = (PAGE / "README.md").read_text(encoding="utf-8").split(TABLE.BEGIN)[1].split(TABLE.END)[0].strip()
    assert made == TABLE.made().strip()


def test_the_share_that_is_promised_holds() -> None:
    pairs = [same for one in TABLE.all_seen() for same in one.pairs()]
    assert len(pairs) > 200 and sum(pairs) / len(pairs) >= 0.8


def test_the_model_s_page_has_the_share_of_pairs_that_the_table_has_and_names_the_weak() -> None:
    page = " ".join(MODEL.read_text(encoding="utf-8").split())
    told = page.partition("**Does it know what is faster?** ")[2]
    every = [(seen.kernel, list(seen.pairs())) for seen in TABLE.all_seen()]
    pairs = [same for _, of_kernel in every for same in of_kernel]
    share = f"{100 * sum(pairs) / len(pairs):.0f} %"
    assert told.startswith(f"Of {len(pairs)} pairs ") and f"it puts {sum(pairs)} ({share}) in the order" in told
    for kernel, same in every:
        if 3 * sum(same) < 2 * len(same):
            assert f"`{kernel}` {sum(same)} of {len(same)}" in told, kernel


@pytest.mark.parametrize(("slower", "counts"), [(1.051, True), (1.049, False)])
def test_who_is_less_than_five_percent_apart_is_as_good_as_equal(slower: float, counts: bool) -> None:
    assert list(seen({FEW: 1.0, MANY: 2.0}, {FEW: 10.0, MANY: 10.0 * slower}).pairs()) == ([True] if counts else [])


@pytest.mark.parametrize(("estimated", "same"), [(2.0, True), (1.0, False), (0.5, False)])
def test_a_pair_that_the_model_has_as_equal_is_not_in_order(estimated: float, same: bool) -> None:
    assert list(seen({FEW: 1.0, MANY: estimated}, {FEW: 10.0, MANY: 20.0}).pairs()) == [same]


def test_who_was_not_compiled_or_did_not_race_has_no_place() -> None:
    one = seen({FEW: 3.0, MANY: 2.0, (1, 1): 0.1}, {FEW: 10.0, MANY: 20.0, MORE: 1.0})
    assert list(one.pairs()) == [False]
    assert list(one.places()) == [], "two say little"
    three = seen({FEW: 3.0, MANY: 2.0, MORE: 4.0, (1, 1): 0.1}, {FEW: 10.0, MANY: 20.0, MORE: 30.0})
    assert list(three.places()) == [("case", 2, 3)]
