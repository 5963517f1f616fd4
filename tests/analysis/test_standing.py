"""How near a winner comes to the roof where memory is the limit, and what keeps it from there."""

from __future__ import annotations

import pytest

from bot.analysis import rivals
from bot.analysis.standing import NEAR, near_roof
from bot.model.campaign import Profile
from bot.model.diagnosis import CaseRoof
from bot.model.measurement import Evidence, Measurement
from bot.model.rivals import NearRoof
from tests.analysis.test_rivals import BACKWARD, FORWARD, FULL, played, variant
from tests.render import builders as a


def profile(**percents: float | None) -> Profile:
    """v0's share of the roof, by pass; everything is bound by memory."""
    cases = {"forward": FORWARD, "backward": BACKWARD, "full": FULL}
    roofs = [
        CaseRoof(case=cases[name], minimum_bytes=1000, bound="memory", percent=percent)
        for name, percent in percents.items()
    ]
    found = a.profile(Evidence.MEASURED, rivals=(played(FULL, 20),))
    return found.model_copy(update={"diagnosis": found.diagnosis.model_copy(update={"roofs": tuple(roofs)})})


def stands(known: Profile, found: Measurement) -> NearRoof:
    return near_roof(known, found, rivals.confirmed(found))


def changed(found: Measurement, case: str, **fields: object) -> Measurement:
    cases = [one.model_copy(update=fields) if one.case == case else one for one in found.cases]
    return found.model_copy(update={"cases": tuple(cases)})


@pytest.mark.parametrize(("before", "below"), [(56.6, 1), (56.7, 0)])
def test_it_is_near_from_85_percent_on(before: float, below: int) -> None:
    """1.5x as fast as v0."""
    found = stands(profile(forward=before), variant(forward=50))
    assert (found.percent, found.cases, len(found.below)) == (NEAR, 1, below)


def test_the_farthest_comes_first_with_what_v0_had() -> None:
    found = stands(profile(forward=50.0, backward=20.0, full=80.0), variant(forward=50, backward=100, full=50))
    assert [(one.case, one.before, round(one.after)) for one in found.below] == [
        (BACKWARD, 20.0, 40),
        (FORWARD, 50.0, 75),
    ]
    assert found.cases == 3


def test_what_arithmetic_limits_or_no_process_confirmed_is_not_asked_for() -> None:
    known = profile(forward=20.0, backward=20.0)
    roofs = [roof.model_copy(update={"bound": "compute"}) for roof in known.diagnosis.roofs if roof.case == FORWARD]
    other = known.diagnosis.model_copy(update={"roofs": (*roofs, known.diagnosis.roofs[1])})
    assert stands(known.model_copy(update={"diagnosis": other}), variant(forward=50)).cases == 0
    assert stands(known, variant(forward=50)).cases == 1
    assert stands(profile(forward=None), variant(forward=50)).cases == 0, "where no roof is known"


def test_it_says_what_was_counted_compiled_and_estimated() -> None:
    found = changed(variant(forward=50), FORWARD, traffic_factor=1.0)
    [clean] = stands(profile(forward=20.0), found).below
    assert [why.partition(",")[0] for why in clean.why] == ["of the rest of its time"], "nothing is wasted or spilled"
    assert " % goes into " in clean.why[0] and "moving its bytes" not in clean.why[0]
    [launch] = next(one.launches for one in found.cases if one.case == FORWARD)
    assert launch.resources is not None
    spilling = launch.model_copy(update={"resources": launch.resources.model_copy(update={"spill_bytes": 64})})
    worse = changed(found, FORWARD, traffic_factor=1.1, launches=(spilling,))
    [one] = stands(profile(forward=20.0), worse).below
    assert one.why[:2] == ("it moves 1.10x the least bytes", f"{launch.kernel} spills 64 B a thread")
    [less] = stands(profile(forward=20.0), changed(found, FORWARD, traffic_factor=1.09)).below
    assert not any("least bytes" in why for why in less.why)


def test_where_nothing_was_compiled_nothing_is_said() -> None:
    [one] = stands(profile(forward=20.0), changed(variant(forward=50), FORWARD, launches=(), traffic_factor=1.0)).below
    assert one.why == ()


def test_it_goes_with_the_rivals_of_a_campaign_that_has_a_winner() -> None:
    campaign = a.rivalled(a.measured())
    known = profile(forward=20.0)
    assert campaign.profile is not None
    campaign = campaign.model_copy(
        update={"profile": campaign.profile.model_copy(update={"diagnosis": known.diagnosis})}
    )
    found, nothing = (rivals.of_campaign(one) for one in (campaign, campaign.model_copy(update={"lineage": (0,)})))
    assert found is not None and found.roof is not None and [one.case for one in found.roof.below] == [FORWARD]
    assert nothing is not None and nothing.roof is None
