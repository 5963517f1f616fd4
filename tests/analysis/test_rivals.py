"""Rivals: how they stand to v0 and to the best variant, what counts nowhere, and what is not faster."""

from __future__ import annotations

import math

import pytest

from bot.analysis import rivals
from bot.model.campaign import Campaign, Profile
from bot.model.commands import Scope
from bot.model.measurement import Evidence, Measurement, Reading, Timing
from bot.model.rivals import Rival, Rivalry, RivalTally
from tests.analysis import blocks
from tests.render import builders as a

FORWARD, BACKWARD, FULL = (f"{pass_}-512x1024-bfloat16" for pass_ in ("forward", "backward", "full"))
WIDER = "full-2048x4096-bfloat16"
"""The suite has whole steps, of which means are made."""


def played(case: str, percent: float, name: str = "compiled", **fields: int) -> Rival:
    return Rival(name=name, case=case, reading=blocks.reading(percent, **fields))  # type: ignore[arg-type]


def profile(*found: Rival, evidence: Evidence = Evidence.MEASURED) -> Profile:
    return a.profile(evidence, rivals=found)


def variant(**percents: float) -> Measurement:
    """Confirmed by five processes in the cases that are named; raced alone where the case is not."""
    named = {FORWARD: percents.get("forward"), BACKWARD: percents.get("backward"), FULL: percents.get("full")}
    named[WIDER] = percents.get("wider")
    found = a.measurement(a.sources("8"), runner=a.GPU_RUNNER)
    cases = []
    for one in found.cases:
        percent = named.get(one.case)
        paired = blocks.paired([percent] * 5) if percent is not None else blocks.paired([])
        cases.append(one.model_copy(update={"paired": paired}))
    return found.model_copy(update={"cases": tuple(cases)})


def read(found: Rivalry | None, name: str = "compiled") -> RivalTally:
    assert found is not None
    return next(one for one in found.tallies if one.name == name)


def test_a_rival_is_read_off_its_own_blocks() -> None:
    [one] = read(rivals.rivalry(profile(played(FORWARD, 25)))).cases
    assert one.over_v0 == pytest.approx(1.25)
    assert (one.v0_us, one.rival_us, one.blocks) == (100, 80, 16)
    assert (one.low, one.high) == (pytest.approx(1.25), pytest.approx(1.25))


def test_one_slow_block_in_ten_moves_neither_the_mean_nor_the_spread() -> None:
    steady = blocks.exact(25, 18)
    disturbed = Reading(blocks=(*steady, (100, 100, 900, 900), (900, 900, 80, 80)))
    [one] = read(rivals.rivalry(profile(Rival(name="compiled", case=FORWARD, reading=disturbed)))).cases
    assert one.over_v0 == pytest.approx(1.25)
    assert (one.low, one.high) == (pytest.approx(1.25), pytest.approx(1.25))
    wide = Reading(blocks=(*blocks.exact(10, 10), *blocks.exact(20, 10)))
    [one] = read(rivals.rivalry(profile(Rival(name="compiled", case=FORWARD, reading=wide)))).cases
    assert (one.low, one.high) == (pytest.approx(1.1), pytest.approx(1.2))


def test_the_mean_over_shapes_is_a_geometric_one() -> None:
    found = read(rivals.rivalry(profile(played(FULL, 100), played(WIDER, -50))))
    assert found.over_v0 == pytest.approx(1.0) and found.shapes == 2
    assert not found.leads, "twice as fast and half as fast is as fast"
    assert [case for case, _ in found.faster] == [FULL]


def test_the_winner_stands_to_a_rival_as_both_stand_to_v0() -> None:
    found = rivals.rivalry(profile(played(FULL, 20), played(WIDER, 80)), 3, variant(full=50, wider=50))
    compiled = read(found)
    by_case = {one.case: one for one in compiled.cases}
    assert by_case[FULL].over_best == pytest.approx(1.2 / 1.5)
    assert by_case[WIDER].over_best == pytest.approx(1.8 / 1.5)
    assert compiled.over_best == pytest.approx(math.sqrt(1.2 * 1.8) / 1.5)
    assert compiled.faster == ((WIDER, pytest.approx(1.2)),)
    assert compiled.held == 2 and not compiled.leads
    assert found is not None and found.best_over_v0 == pytest.approx(1.5)


def test_the_fastest_is_of_those_that_were_played_in_every_shape() -> None:
    shapes = (FULL, WIDER, "full-8192x8192-bfloat16")
    whole = [played(shape, 25) for shape in shapes]
    quicker = [played(shape, 50, "eager") for shape in shapes]
    assert rivals.fastest(profile(*whole)) == 1.25
    assert rivals.fastest(profile(*whole, *quicker[1:])) == 1.25, "of one shape nobody knows"
    assert rivals.fastest(profile(*whole, *quicker)) == 1.5
    assert rivals.fastest(profile(*whole[:2])) is None and rivals.fastest(profile()) is None


def test_without_a_winner_v0_is_what_a_rival_is_held_against() -> None:
    found = read(rivals.rivalry(profile(played(FULL, 30), played(WIDER, 10))))
    assert [case for case, _ in found.faster] == [FULL, WIDER], "the clearest first"
    assert found.leads and found.held == 2
    assert found.over_best is None and all(one.over_best is None for one in found.cases)


@pytest.mark.parametrize(("percent", "faster"), [(49.9, 0), (50, 0), (50.1, 1)])
def test_exactly_as_fast_is_not_faster(percent: float, faster: int) -> None:
    against = read(rivals.rivalry(profile(played(FULL, percent)), 3, variant(full=50)))
    assert (len(against.faster), against.leads) == (faster, bool(faster))


@pytest.mark.parametrize(("percent", "faster"), [(-0.1, 0), (0, 0), (0.1, 1)])
def test_exactly_as_fast_as_v0_is_not_faster_either(percent: float, faster: int) -> None:
    found = read(rivals.rivalry(profile(played(FULL, percent))))
    assert (len(found.faster), found.leads) == (faster, bool(faster))


def test_a_rival_that_could_not_be_played_is_named_and_counts_nowhere() -> None:
    absent = Rival(name="compiled", case=WIDER, why_not="it ran out of memory")
    found = read(rivals.rivalry(profile(played(FULL, 20), absent), 3, variant(full=10, wider=10)))
    assert found.missing == ((WIDER, "it ran out of memory"),)
    assert [one.case for one in found.cases] == [FULL]
    assert found.held == 1 and found.over_v0 == pytest.approx(1.2)
    silent = read(rivals.rivalry(profile(Rival(name="compiled", case=FULL))))
    assert silent.missing == ((FULL, "no reason was given"),)
    assert (silent.over_v0, silent.over_best, silent.leads, silent.faster) == (None, None, False, ())


@pytest.mark.parametrize(
    ("reading", "why"),
    [
        (blocks.reading(20, count=11), "11 blocks were read; fewer than 12 say nothing"),
        (blocks.reading(20, count=12), ""),
        (blocks.reading(20, count=20, voided=5), ""),
        (blocks.reading(20, count=19, voided=5), "21 % of its blocks were thrown away; above 20 % nothing is said"),
        (Reading(blocks=((100, 100, 0, 80),) * 16), "a time that is no positive number"),
    ],
    ids=["too few", "just enough", "a fifth disturbed", "more disturbed", "no time"],
)
def test_a_reading_that_says_nothing_is_told_with_its_reason(reading: Reading, why: str) -> None:
    found = read(rivals.rivalry(profile(Rival(name="compiled", case=FORWARD, reading=reading))))
    assert found.missing == (((FORWARD, why),) if why else ())
    assert len(found.cases) == (0 if why else 1)


def test_a_case_that_was_raced_and_never_confirmed_holds_nobody() -> None:
    found = rivals.rivalry(profile(played(FULL, 20), played(WIDER, 90)), 3, variant(full=10))
    compiled = read(found)
    assert compiled.held == 1 and [case for case, _ in compiled.faster] == [FULL]
    assert {one.case: one.over_best for one in compiled.cases}[WIDER] is None
    assert compiled.over_v0 == pytest.approx(math.sqrt(1.2 * 1.9)), "against v0 it still counts"
    assert found is not None and found.best_over_v0 is None, "a mean over some of the cases is none"


def test_numbers_of_two_kinds_of_gpu_never_meet() -> None:
    found = variant(forward=10)
    another = found.model_copy(update={"runner": found.runner.model_copy(update={"gpu_uuid": "GPU-2"})})
    assert read(rivals.rivalry(profile(played(FORWARD, 20)), 3, another)).held == 1
    other = found.model_copy(update={"runner": found.runner.model_copy(update={"gpu_name": "NVIDIA A100"})})
    assert read(rivals.rivalry(profile(played(FORWARD, 20)), 3, other)).held == 0


def test_cases_come_in_the_order_of_the_suite_and_each_counts_once() -> None:
    strange = played("forward-1x1-bfloat16", 400)
    found = read(rivals.rivalry(profile(played(FULL, 1), strange, played(FORWARD, 2), played(FULL, 300))))
    assert [one.case for one in found.cases] == [FORWARD, FULL]
    assert found.cases[1].over_v0 == pytest.approx(1.01), "as it was said first"


ONE = "backward-512x1024-bfloat16-one"


def loss(*found: Rival) -> Profile:
    """A loss: its forward pass makes the gradient, and its backward pass scales it or, where it is 1, does nothing."""
    passes = [case for case in a.SUITE.cases if case.id in (FORWARD, BACKWARD)]
    one = passes[1].model_copy(update={"id": ONE, "grad": "one"})
    return profile(*found).model_copy(update={"suite": a.SUITE.model_copy(update={"cases": (*passes, one)})})


def between(case: str, v0_us: float, rival_us: float) -> Rival:
    return Rival(name="compiled", case=case, reading=Reading(blocks=((v0_us, v0_us, rival_us, rival_us),) * 16))


def test_the_passes_of_a_shape_are_added_up() -> None:
    """cross_entropy of 2048 x 128256 on an H100: of single passes torch.compile would be 0.26x as fast as Liger's."""
    faster, slower = between(FORWARD, 504, 360), between(BACKWARD, 373, 405)
    compiled = read(rivals.rivalry(loss(faster, slower, between(ONE, 6, 403))))
    assert compiled.over_v0 == pytest.approx((504 + 373 + 6) / (360 + 405 + 403))
    assert (compiled.shapes, compiled.held, compiled.held_shapes) == (1, 3, 1)
    assert [case for case, _ in compiled.faster] == [FORWARD] and not compiled.leads


def test_the_best_is_held_against_the_sum_as_well() -> None:
    played = (between(FORWARD, 400, 200), between(BACKWARD, 300, 300), between(ONE, 10, 300))
    known = variant(forward=100, backward=50)
    idle = next(one for one in known.cases if one.case == BACKWARD)
    idle = idle.model_copy(update={"case": ONE, "paired": blocks.paired([0.0] * 5)})
    known = known.model_copy(update={"cases": (*known.cases, idle)})
    found = rivals.rivalry(loss(*played), 3, known)
    assert read(found).over_best == pytest.approx((400 / 2 + 300 / 1.5 + 10) / 800)
    assert found is not None and found.best_over_v0 == pytest.approx((400 + 300 + 10) / (200 + 200 + 10))
    assert (read(found).held_shapes, found.best_shapes) == (1, 1)


def test_a_shape_counts_where_it_was_played_both_ways() -> None:
    """A loss has two backward passes, of which one is enough; what a rival's backward pass does again, Liger's forward
    pass has done already."""
    compiled = read(rivals.rivalry(loss(between(FORWARD, 400, 200), between(ONE, 10, 20))))
    assert (compiled.over_v0, compiled.shapes) == (pytest.approx(410 / 220), 1) and compiled.leads
    for alone in ((between(FORWARD, 400, 200),), (between(BACKWARD, 300, 900), between(ONE, 10, 900))):
        compiled = read(rivals.rivalry(loss(*alone)))
        assert (compiled.over_v0, compiled.shapes, compiled.leads) == (None, 0, False) and compiled.cases


def test_a_narrow_scope_is_of_its_pass_alone() -> None:
    played = (between(FORWARD, 400, 200), between(BACKWARD, 300, 900), between(ONE, 10, 900))
    compiled = read(rivals.rivalry(loss(*played), scope=Scope.FORWARD))
    assert (compiled.over_v0, compiled.shapes) == (pytest.approx(2.0), 1)


def test_nobody_played_is_nothing_to_show() -> None:
    assert rivals.rivalry(profile()) is None
    assert rivals.rivalry(profile(played(FORWARD, 20), evidence=Evidence.STATIC)) is None
    assert rivals.of_campaign(Campaign(id="x")) is None
    assert rivals.of_campaign(a.measured()) is None


def test_of_a_campaign_it_is_the_winner_and_the_best_before_one_is_chosen() -> None:
    campaign = a.measured().model_copy(update={"profile": profile(played(FULL, 20))})
    best = replace_measurement(campaign, 3, variant(full=50))
    found = rivals.of_campaign(best)
    assert found is not None and found.best == 3 and read(found).over_best == pytest.approx(1.2 / 1.5)
    chosen = replace_measurement(best, 1, variant(full=10)).model_copy(update={"winner": 1})
    found = rivals.of_campaign(chosen)
    assert found is not None and found.best == 1 and read(found).over_best == pytest.approx(1.2 / 1.1)
    nothing = rivals.of_campaign(best.model_copy(update={"lineage": (0,)}))
    assert nothing is not None and nothing.best == 0 and nothing.best_over_v0 is None
    assert read(nothing).leads and read(nothing).over_best is None, "v0 is what it is held against"


def replace_measurement(campaign: Campaign, number: int, found: Measurement) -> Campaign:
    rounds = tuple(
        one.model_copy(update={"measurement": found}) if one.variant.number == number else one
        for one in campaign.rounds
    )
    return campaign.model_copy(update={"rounds": rounds})


def timed(*us: float | None) -> Measurement:
    """v0, with these times in the suite's order."""
    found = a.measurement(a.sources(), runner=a.GPU_RUNNER)
    cases = [
        one.model_copy(update={"timing": None if took is None else Timing(median_us=took, timer="replay")})
        for one, took in zip(found.cases, us, strict=False)
    ]
    return found.model_copy(update={"cases": tuple(cases)})


def test_the_longest_are_three_and_of_two_that_take_as_long_the_first() -> None:
    ids = [case.id for case in a.SUITE.cases]
    assert rivals.longest(timed(5, 9, 7, 8)) == (ids[1], ids[3], ids[2])
    assert rivals.longest(timed(5, 5, 9, 5)) == (ids[2], ids[0], ids[1])
    assert rivals.longest(timed(5, None, 6)) == (ids[2], ids[0]), "what has no time takes part in nothing"


def test_who_was_played_when_there_was_a_winner_stands_beside_the_others() -> None:
    won = (played(BACKWARD, 80, "max-autotune"),)
    found = rivals.rivalry(profile(played(FORWARD, 20)), 3, variant(forward=50, backward=50), won)
    assert found is not None and [one.name for one in found.tallies] == ["compiled", "max-autotune"]
    tuned = read(found, "max-autotune")
    assert (tuned.held, tuned.faster) == (1, ((BACKWARD, pytest.approx(1.8 / 1.5)),))
    alone = rivals.rivalry(profile(), 3, variant(backward=50), won)
    assert alone is not None and [one.name for one in alone.tallies] == ["max-autotune"]


def test_a_campaign_is_held_against_both() -> None:
    campaign = a.rivalled(a.measured()).model_copy(update={"rivals": (played(FORWARD, 80, "max-autotune"),)})
    found = rivals.of_campaign(campaign)
    assert found is not None and [one.name for one in found.tallies] == ["eager", "compiled", "max-autotune"]
