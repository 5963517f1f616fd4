"""The step of a trend is what is judged: `full` where a case runs it, else the passes of a shape added up."""

from __future__ import annotations

import pytest

from bot.model.measurement import Case, Suite
from bot.render import times
from bot.targets.suites import suite_of

WIDTHS = (1024, 4096)
FORWARD, BACKWARD, FULL = (
    [Case(id=f"{way}-{n}", direction=way, shape=(("N", n),), dtype="float32") for n in WIDTHS]
    for way in ("forward", "backward", "full")
)


def suite(*cases: list[Case]) -> Suite:
    return Suite(name="quick", cases=tuple(case for some in cases for case in some), checks=())


def us(*values: float) -> dict[str, float]:
    return {case.id: value for case, value in zip((*FORWARD, *BACKWARD, *FULL), values, strict=False)}


def test_passes_of_a_shape_are_one_step() -> None:
    before = times.step(suite(FORWARD, BACKWARD), us(100, 200, 200, 200))
    after = times.step(suite(FORWARD, BACKWARD), us(100, 180, 150, 180))
    assert before.whole == pytest.approx((300 * 400) ** 0.5)
    assert times.against(before, after) == "step +15.470%, fwd +5.409%, bwd +21.716%"


def test_a_full_pass_is_timed_by_itself() -> None:
    found = times.step(suite(FORWARD, BACKWARD, FULL), us(100, 200, 200, 200, 280, 350))
    assert found.whole == pytest.approx((280 * 350) ** 0.5)


def test_a_kernel_without_a_backward_steps_by_its_forward() -> None:
    assert times.step(suite(FORWARD), us(100, 400)).whole == pytest.approx(200)


def test_a_shape_that_was_not_timed_whole_is_no_step() -> None:
    assert times.step(suite(FORWARD, BACKWARD), us(100, 200, 200)).whole == pytest.approx(300)
    assert times.step(suite(FORWARD, BACKWARD), us(100, 200)).whole is None


def test_every_kernel_of_the_preset_has_a_step() -> None:
    """None of its suites has a case that runs both passes at once, and every trend said `step -`."""
    found = suite_of("rms_norm")
    assert times.step(found, {case.id: 10.0 for case in found.cases}).whole == pytest.approx(20)
