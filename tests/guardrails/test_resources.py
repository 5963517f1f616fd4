"""resources: spills, and architectures that nobody in the room has (R-29)."""

from __future__ import annotations

from bot.guardrails import Hearing, judge
from bot.guardrails.resources import resources
from bot.model.measurement import Passport
from bot.model.verdict import Decision
from tests.guardrails import hearings as h


def spilling(before: int, after: int, kernel: str = "_scale_kernel") -> Hearing:
    baseline = h.measurement(h.V0, 100.0)
    cases = tuple(c.model_copy(update={"launches": (h.launch(h.V0, spill=before),)}) for c in baseline.cases)
    heard = h.hearing(baseline=baseline.model_copy(update={"cases": cases}))
    return h.launching(heard, h.launch(h.FASTER, spill=after, kernel=kernel))


def found(heard: Hearing) -> list[tuple[str, str]]:
    return [(finding.severity, finding.message) for finding in resources(h.weighed(heard))]


def test_new_spills_are_refused_from_the_first_byte() -> None:
    assert found(spilling(0, 0)) == []
    assert found(spilling(0, 1)) == [("reject", "_scale_kernel now spills 1 bytes a thread, and v0 spills none")]


def test_a_kernel_that_spills_already_may_spill_and_more_is_noted() -> None:
    assert found(spilling(16, 8)) == []
    assert found(spilling(16, 16)) == []
    assert found(spilling(16, 24)) == [("note", "_scale_kernel now spills 24 bytes a thread, v0 spills 16")]


def test_a_new_kernel_is_held_against_the_worst_that_v0_has() -> None:
    assert found(spilling(16, 16, "_scale_tile_kernel")) == []
    assert found(spilling(0, 4, "_scale_tile_kernel"))[0][0] == "reject"


def test_one_case_that_spills_is_enough() -> None:
    assert found(h.launching(h.hearing(), h.launch(h.FASTER, spill=4), names=(h.SMALL_FORWARD,)))


def test_a_launch_that_nobody_compiled_spills_nothing() -> None:
    assert found(h.launching(h.hearing(), h.launch(h.FASTER, resources=None))) == []


def test_of_a_v0_that_nobody_compiled_nothing_is_known() -> None:
    baseline = h.measurement(h.V0, 100.0)
    cases = tuple(c.model_copy(update={"launches": (h.launch(h.V0, resources=None),)}) for c in baseline.cases)
    heard = h.hearing(baseline=baseline.model_copy(update={"cases": cases}))
    assert found(h.launching(heard, h.launch(h.FASTER, spill=8))) == []


def stamped(before: tuple[Passport, ...], after: tuple[Passport, ...]) -> Hearing:
    baseline = h.measurement(h.V0, 100.0).model_copy(update={"passports": before})
    return h.changed(h.hearing(baseline=baseline), passports=after)


def test_an_architecture_it_no_longer_compiles_for_refuses_it() -> None:
    heard = stamped((h.passport("gfx942"),), (h.passport("gfx942", ok=False, error="out of LDS"),))
    verdict = judge(heard)
    assert verdict.decision is Decision.REJECTED
    assert verdict.reason == "it no longer compiles for gfx942: out of LDS"


def test_where_v0_does_not_compile_nobody_has_to() -> None:
    broken = (h.passport("gfx942", ok=False),)
    assert found(stamped(broken, broken)) == []
    assert found(stamped(broken, (h.passport("gfx942"),))) == []


def test_where_v0_did_not_compile_whole_nobody_knows_what_it_would_spill() -> None:
    """Its passport holds the kernels that came out all the same: what another one spills is no news against them."""
    broken = h.passport("gfx942", ok=False, error="_scale_kernel: out of LDS")
    before = broken.model_copy(update={"kernels": (("_sum_kernel", h.passport("gfx942").kernels[0][1]),)})
    assert found(stamped((before,), (h.passport("gfx942", spill=8),))) == []
    assert found(stamped((before.model_copy(update={"ok": True}),), (h.passport("gfx942", spill=8),)))


def test_an_architecture_that_was_left_out_is_not_taken_for_good() -> None:
    both = (h.passport("sm_80"), h.passport("gfx942"))
    assert found(stamped(both, both[:1])) == [
        ("reject", "nobody knows whether it compiles for gfx942, for which v0 does")
    ]


def test_a_bench_without_passports_is_asked_for_none() -> None:
    assert found(stamped((h.passport("sm_80"),), ())) == []
    assert found(stamped((), (h.passport("sm_80"),))) == []


def test_new_spills_elsewhere_are_refused_from_the_first_byte() -> None:
    heard = stamped((h.passport("sm_80"),), (h.passport("sm_80", spill=1),))
    assert found(heard) == [("reject", "_scale_kernel now spills 1 bytes a thread on sm_80, and v0 spills none")]
    assert found(stamped((h.passport("sm_80"),), (h.passport("sm_80", spill=0),))) == []


def test_more_spills_elsewhere_are_a_note() -> None:
    heard = stamped((h.passport("sm_80", spill=8),), (h.passport("sm_80", spill=12),))
    assert found(heard) == [("note", "_scale_kernel now spills 12 bytes a thread on sm_80, v0 spills 8")]
    assert judge(heard).decision is Decision.ACCEPTED_WITH_NOTE


def test_spills_on_the_runners_own_architecture_are_said_once() -> None:
    assert found(stamped((h.passport("sm_90"),), (h.passport("sm_90", spill=12),))) == []
    assert found(stamped((h.passport("sm_90"),), (h.passport("sm_90", ok=False),)))[0][0] == "reject"
