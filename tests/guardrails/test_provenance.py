"""provenance: what ran is the variant's own text, in every case (B-46, E43)."""

from __future__ import annotations

from bot.guardrails import Hearing, judge
from bot.guardrails.provenance import provenance
from bot.model.measurement import Launch
from bot.model.verdict import Decision
from tests.guardrails import hearings as h

SHARED = h.launch("a file of the package", kernel="element_mul_kernel", source_file=h.OTHER)


def beside(*launches: Launch) -> Hearing:
    """v0 launches a shared kernel beside its own."""
    baseline = h.measurement(h.V0, 100.0)
    both = tuple(c.model_copy(update={"launches": (h.launch(h.V0), SHARED)}) for c in baseline.cases)
    return h.launching(h.hearing(baseline=baseline.model_copy(update={"cases": both})), *launches)


def test_the_variants_own_kernels_are_its_own_whatever_they_are_called() -> None:
    assert provenance(h.launching(h.hearing(), h.launch(h.FASTER, kernel="_new_kernel"))) == []


def test_launching_v0_in_place_of_the_variant_is_noticed() -> None:
    verdict = judge(h.launching(h.hearing(), h.launch(h.V0), names=(h.SMALL_FORWARD,)))
    assert verdict.decision is Decision.REJECTED
    assert verdict.reason == (
        f"{h.SMALL_FORWARD} launched _scale_kernel from a text that is neither the variant's nor v0's own ({h.PATH})"
    )


def test_a_kernel_of_the_package_that_v0_launches_may_be_launched_on() -> None:
    assert provenance(beside(h.launch(h.FASTER), SHARED)) == []
    assert provenance(beside(h.launch(h.FASTER))) == []


def test_a_kernel_that_nobody_launched_before_comes_from_nowhere() -> None:
    assert provenance(h.launching(h.hearing(), h.launch(h.FASTER), SHARED))
    assert provenance(h.launching(h.hearing(), h.launch(h.FASTER, source_digest=None)))


def test_a_case_that_launches_nothing_went_another_way() -> None:
    verdict = judge(h.launching(h.hearing(), names=(h.BIG_BACKWARD,)))
    assert verdict.reason == f"{h.BIG_BACKWARD} launched no kernel at all, v0 launches 1"


def test_where_v0_launches_nothing_nobody_has_to() -> None:
    baseline = h.measurement(h.V0, 100.0)
    cases = tuple(c.model_copy(update={"launches": ()}) for c in baseline.cases)
    assert provenance(h.launching(h.hearing(baseline=baseline.model_copy(update={"cases": cases})))) == []
