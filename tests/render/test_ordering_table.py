"""What the estimate foretold of launch numbers that raced, as docs/results/h200/ordering tells it."""

from __future__ import annotations

import math
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
    launches, variants = made.split("## Whole variants\n")
    assert launches.strip() == TABLE.made().strip() and variants.strip() == TABLE.made_of_variants().strip()


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
    whole = [same for one in TABLE.all_judged() for same in one.pairs()]
    of_whole = f"{100 * sum(whole) / len(whole):.0f} %"
    assert f"Of {len(whole)} pairs of whole variants it has {sum(whole)} ({of_whole})" in told
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


def judged(clock: dict[int, float], model: dict[int, float]) -> Any:
    return TABLE.Judged("k", "k", {0: 1.0, **clock}, {0: 1.0, **model})


def test_of_whole_variants_v0_is_one_arm_more() -> None:
    one = judged({1: 1.2, 2: 1.5}, {1: 0.9, 2: 1.1})
    assert list(one.pairs()) == [False, True, True]
    assert (one.fastest, one.place, one.is_in_upper_half) == (2, 1, True)
    alike = judged({1: 1.04, 2: 1.5}, {1: 0.9, 2: 0.8})
    assert list(alike.pairs()) == [False, False], "v0 and v1 are as good as equal"
    assert (alike.place, alike.is_in_upper_half) == (3, False)


@pytest.mark.parametrize(("place", "many", "upper"), [(2, 3, True), (2, 4, True), (3, 4, False), (3, 5, True)])
def test_the_middle_of_an_odd_number_is_in_the_upper_half(place: int, many: int, upper: bool) -> None:
    clock = {number: 2.0 if number == 1 else 0.5 for number in range(1, many)}
    better = dict.fromkeys(range(2, 1 + place), 3.0)
    one = judged(clock, {**dict.fromkeys(range(1, many), 0.1), 1: 2.0, **better})
    assert (one.place, one.is_in_upper_half) == (place, upper)


def test_the_estimate_of_a_whole_variant_is_the_model_s_own() -> None:
    """By hand, of one campaign: v0's time over the variant's, each by the model, step by step."""
    one = next(one for one in TABLE.READER.read_all(TABLE.CAMPAIGNS) if one.folder == "softmax-g")
    profile = one.campaign.profile
    played = next(played for played in one.campaign.rounds if played.variant.number == 1)
    sheet = TABLE.for_runner(profile.baseline.runner)
    by_case = {case.id: case for case in profile.suite.cases}

    def us(found: Any, case: str) -> float:
        return float(TABLE.estimate_case(next(r for r in found.cases if r.case == case), by_case[case], sheet))

    gains = [
        sum(us(profile.baseline, case.id) for case in step.cases)
        / sum(us(played.measurement, case.id) for case in step.cases)
        for step in TABLE.primary_groups(profile.suite, TABLE.Scope.GENERAL)
    ]
    assert TABLE.modelled(profile, played.measurement) == pytest.approx(math.prod(gains) ** (1 / len(gains)))
    assert TABLE.judged_of(one).model[1] == TABLE.modelled(profile, played.measurement)
