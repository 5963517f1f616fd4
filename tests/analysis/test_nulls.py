"""A null campaign is believed block by block: who looked fastest is looked for again, and luck is never accepted."""

from __future__ import annotations

from typing import Any

import pytest

from bot.analysis.calibration import report
from bot.analysis.nulls import FEWEST_SEARCHED, VARIANTS, Nulls, NullVerdict, best
from bot.errors import CorruptRecord
from bot.model.verdict import Pace
from tests.analysis.blocks import exact
from tests.analysis.test_calibration import SAME, SIZES, read, readings, trial

BEST = 40
"""The kernel that looks fastest here, by half a percent."""
LUCK = 0.5


def null(*confirmed: float, size: str = "~100us", looks: dict[int, float] | None = None, **fields: Any) -> Any:
    """A campaign over kernels 1 to 64: what each looked like, and what fresh processes say of the best."""
    us, gains = SIZES[size], looks or {BEST: LUCK}
    searched = [exact(gains.get(which, 0.0), 12, us) for which in range(1, VARIANTS + 1)]
    plain = {
        "kernel": "rows",
        "class": size,
        "variants": list(range(1, VARIANTS + 1)),
        "searched": {"process": 100, "blocks": searched},
        "chosen": max(gains, key=gains.__getitem__),
        "readings": readings(*confirmed, first=101, us=us),
    }
    return plain | fields


def nulls(*campaigns: Any, trials: Any = ()) -> Nulls:
    found = report([read(*trials, nulls=campaigns)]).nulls
    assert found is not None
    return found


def only(*campaigns: Any, trials: Any = ()) -> NullVerdict:
    (found,) = nulls(*campaigns, trials=trials).campaigns
    return found


def set_aside(campaign: Any) -> tuple[str, ...]:
    found = report([read(nulls=[campaign])])
    assert found.nulls is None
    return found.set_aside


def test_what_looked_fastest_is_nothing_once_fresh_processes_read_it() -> None:
    found = only(null(*SAME))
    assert (found.best, found.said) == (BEST, Pace.SAME)
    assert (found.looked_percent, found.confirmed_percent) == (pytest.approx(LUCK), pytest.approx(0.0))


def test_what_fresh_processes_bear_out_is_counted_as_accepted() -> None:
    found = nulls(null(*(1.5,) * 6), null(*SAME))
    assert [one.said for one in found.campaigns] == [Pace.FASTER, Pace.SAME]
    assert (found.groups[-1].accepted, found.groups[-1].campaigns) == (1, 2)
    assert found.groups[-1].at_most == pytest.approx(0.9747, abs=0.0001)


@pytest.mark.parametrize(("percent", "said"), [(0.99, Pace.SAME), (1.0, Pace.FASTER)])
def test_less_than_a_percent_is_asked_of_nobody(percent: float, said: Pace) -> None:
    assert only(null(*(percent,) * 6)).said is said


def test_its_size_of_kernel_asks_for_twice_what_the_pairs_of_that_size_show() -> None:
    pairs = [trial(0, *(0.9,) * 5), trial(0, *SAME, size="<20us")]
    assert only(null(*(1.79,) * 6), trials=pairs).said is Pace.SAME
    assert only(null(*(1.81,) * 6), trials=pairs).said is Pace.FASTER
    assert only(null(*(1.01,) * 6, size="<20us"), trials=pairs).said is Pace.FASTER
    found = nulls(null(*SAME), null(*SAME, size="<20us"), trials=pairs).groups
    assert [one.min_gain_percent for one in found] == [pytest.approx(x) for x in (1.0, 1.8, 1.8)]


def test_a_campaign_cannot_raise_what_is_asked_of_it() -> None:
    found = report([read(trial(0, *SAME), nulls=[null(*(3.0,) * 6)])])
    assert found.nulls is not None and found.nulls.groups[-1].accepted == 1
    assert found.groups[-1].floor_percent == pytest.approx(0.0)


def test_sizes_and_files_add_up_and_medians_are_over_campaigns() -> None:
    files = [
        read(nulls=[null(*SAME, size="<20us", looks={3: 2.0}), null(*(0.2,) * 6, looks={3: 0.3})]),
        read(trial(0, *SAME), nulls=[null(*(0.4,) * 6, looks={3: 0.4})]),
    ]
    found = report(files).nulls
    assert found is not None
    assert [(one.name, one.campaigns) for one in found.groups] == [("<20us", 1), ("~100us", 2), ("all", 3)]
    assert [one.looked_percent for one in found.groups] == [pytest.approx(x) for x in (2.0, 0.35, 0.4)]
    assert [one.confirmed_percent for one in found.groups] == [pytest.approx(x, abs=1e-9) for x in (0.0, 0.3, 0.2)]
    assert found.campaigns[2].name == "file 2, null campaign 0 (rows)"


def test_a_file_may_have_no_trials_and_one_without_campaigns_tells_nothing_of_them() -> None:
    assert report([read(nulls=[null(*SAME)])]).groups == ()
    assert report([read(trial(0, *SAME))]).nulls is None


@pytest.mark.parametrize(("blocks", "place"), [(FEWEST_SEARCHED - 1, 0), (FEWEST_SEARCHED, 1)])
def test_who_was_read_at_a_glance_is_not_the_best(blocks: int, place: int) -> None:
    assert best([exact(0.1, 12), exact(9.0, blocks)]) == place


def test_the_first_of_equals_is_the_best_and_nobody_where_nothing_was_read() -> None:
    assert best([exact(0.0, 12), exact(1.0, 12), exact(1.0, 12)]) == 1
    assert best([(), exact(1.0, 4)]) is None


# What is no campaign.


def test_the_best_of_63_is_not_what_was_asked_for() -> None:
    few = null(*SAME)
    few["variants"].pop()
    few["searched"]["blocks"].pop()
    assert set_aside(few) == ("file 1, null campaign 0 (rows): 63 were searched, not 64: no campaign",)


def test_four_processes_confirm_nothing() -> None:
    assert "4 processes read enough, not 5: no campaign" in set_aside(null(*SAME[:4]))[0]


@pytest.mark.parametrize(("voided", "counts"), [(192, True), (193, False)])
def test_a_search_on_a_sick_machine_is_none(voided: int, counts: bool) -> None:
    campaign = null(*SAME)
    campaign["searched"]["voided"] = voided
    found = report([read(nulls=[campaign])])
    assert (found.nulls is not None) is counts
    assert ["what was searched was voided" in why for why in found.set_aside] == [True] * (not counts)


def test_nor_is_a_confirmation_on_one() -> None:
    campaign = null(*SAME)
    campaign["readings"][0]["voided"] = 16
    assert "of its blocks were voided: no campaign" in set_aside(campaign)[0]


def test_a_wrong_label_is_counted_where_the_blocks_say() -> None:
    found = report([read(nulls=[null(*SAME) | {"class": ">1ms"}])])
    assert found.nulls is not None
    assert [one.name for one in found.nulls.groups] == ["~100us", "all"]
    assert found.set_aside == ("file 1, null campaign 0 (rows): v0's blocks say ~100us, not >1ms: counted there",)


# What cannot have been read like that.


def doctored(**fields: Any) -> Any:
    return null(*SAME, **fields)


def with_faster_blocks() -> Any:
    campaign = null(*SAME)
    campaign["searched"]["blocks"][6] = exact(1.0, 12)
    return campaign


def with_slower_blocks() -> Any:
    campaign = null(*SAME, looks={BEST: 1.0, 9: 0.5})
    campaign["searched"]["blocks"][BEST - 1] = exact(-1.0, 12)
    return campaign


@pytest.mark.parametrize(
    ("campaign", "says"),
    [
        (doctored(chosen=7), "kernel 7 was confirmed, but the blocks say kernel 40 was best"),
        (doctored(chosen=700), "kernel 700 was confirmed, but the blocks say kernel 40 was best"),
        (with_faster_blocks(), "kernel 40 was confirmed, but the blocks say kernel 7 was best"),
        (with_slower_blocks(), "kernel 40 was confirmed, but the blocks say kernel 9 was best"),
        (doctored(searched={"process": 1, "blocks": [[]] * VARIANTS}), "the blocks say none was best"),
        (doctored(variants=[1] * VARIANTS), "kernel 1 was searched twice"),
        (doctored(variants=list(range(1, 64))), "63 kernels were searched, and there are blocks of 64"),
        (doctored(readings=readings(*SAME, first=96)), "process 100 appears twice"),
        (doctored(readings=readings(0.0) * 5), "process 0 appears twice"),
    ],
)
def test_a_doctored_campaign_is_refused(campaign: Any, says: str) -> None:
    with pytest.raises(CorruptRecord, match="here: null campaign 0: ") as caught:
        read(nulls=[campaign])
    assert says in str(caught.value)
