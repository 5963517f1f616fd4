"""How many warps a rewritten kernel wants: asked of a GPU alone, one way at a time."""

from __future__ import annotations

from bot.engine import gates
from bot.model.measurement import Evidence, Measurement
from bot.model.verdict import Decision
from bot.proposers import engine, warps
from bot.proposers.brief import Brief
from tests.proposers.scene import after, brief

BACKWARD = "_rms_norm_backward_kernel"


def measured(facts: Measurement) -> Measurement:
    runner = facts.runner.model_copy(update={"evidence": Evidence.MEASURED, "gpu_name": "NVIDIA H200"})
    return facts.model_copy(update={"runner": runner})


def rewritten(facts: Measurement, warps_now: int) -> Measurement:
    """The backward kernel has one more constant now, and this many warps."""
    cases = []
    for case in facts.cases:
        launches = tuple(
            launch.model_copy(update={"constants": (*launch.constants, ("ROW_STAGES", "3")), "num_warps": warps_now})
            if launch.kernel == BACKWARD
            else launch
            for launch in case.launches
        )
        cases.append(case.model_copy(update={"launches": launches}))
    return facts.model_copy(update={"cases": tuple(cases)})


def told(warps_now: int = 8, *, evidence: Evidence = Evidence.MEASURED) -> Brief:
    """After a rewrite of the backward kernel was accepted."""
    first = brief()
    facts = measured(first.baseline) if evidence is Evidence.MEASURED else first.baseline
    first = brief(baseline=facts, facts=facts)
    idea = engine.propose(first)
    assert idea is not None
    return after(first, idea, Decision.ACCEPTED, rewritten(facts, warps_now))


def techniques(known: Brief) -> list[str]:
    return [idea.hypothesis.technique for idea in warps.ideas(known, "engine")]


def answered(known: Brief, technique: str, decision: Decision, warps_now: int = 8) -> Brief:
    idea = next(idea for idea in warps.ideas(known, "engine") if idea.hypothesis.technique == technique)
    return after(known, idea, decision, rewritten(known.baseline, warps_now))


MORE, FEWER = f"more_warps:{BACKWARD}", f"fewer_warps:{BACKWARD}"


def test_the_kernel_that_was_rewritten_is_asked_both_ways_and_the_other_one_not_at_all() -> None:
    assert techniques(told()) == [MORE, FEWER]


def test_only_a_gpu_is_asked() -> None:
    assert techniques(told(evidence=Evidence.STATIC)) == []


def test_before_anything_was_accepted_there_is_nothing_to_tune() -> None:
    facts = measured(brief().baseline)
    assert techniques(brief(baseline=facts, facts=facts)) == []


def test_after_a_no_the_other_way_is_left() -> None:
    once = answered(told(), MORE, Decision.INCONCLUSIVE)
    assert techniques(once) == [FEWER]
    assert techniques(answered(once, FEWER, Decision.REJECTED)) == []


def test_after_a_yes_it_goes_on_that_way_and_never_back() -> None:
    assert techniques(answered(told(), MORE, Decision.ACCEPTED, 16)) == [MORE]
    assert techniques(answered(told(), FEWER, Decision.ACCEPTED, 4)) == [FEWER]


def test_there_is_an_end_at_both_ends() -> None:
    assert techniques(told(32)) == [FEWER]
    assert techniques(told(1)) == [MORE]
    assert techniques(told(16)) == [MORE, FEWER]


def test_the_change_is_one_argument_with_its_reason() -> None:
    known = told()
    idea = next(warps.ideas(known, "engine"))
    before, now = (files[0].text.splitlines() for files in (known.sources, idea.files))
    new = [line.strip() for line in now if line not in before]
    assert "# Twice as many warps as is usual for the block (measured on sm_90)." in new
    assert [line for line in new if "num_warps=" in line] == [
        "num_warps=min(2 * num_warps, 32) if _is_sm_90(dY.device) else num_warps,"
    ]
    asks = {line.strip() for line in ("import functools", *gates.functions("sm_90").splitlines()) if line}
    assert asks <= set(new) and len(new) == 2 + len(asks)
    assert "no forecast" in idea.hypothesis.expected and "v1" in idea.hypothesis.why


def test_a_rewrite_of_the_work_comes_first_and_a_finishing_touch_last() -> None:
    known, order = told(), []
    while (idea := engine.propose(known)) is not None:
        order.append(idea.hypothesis.technique)
        known = after(known, idea, Decision.REJECTED)
    assert order.index("block_rows") < order.index(MORE) < order.index(FEWER) < order.index("cache_hints")


def test_fewer_instructions_are_proposed_where_a_gpu_says_what_they_are_worth() -> None:
    guessed = brief("softmax", warps=8, surveys=())
    facts = measured(guessed.baseline)
    idea = engine.propose(brief("softmax", warps=8, surveys=(), baseline=facts, facts=facts))
    assert engine.propose(guessed) is None
    assert idea is not None and idea.hypothesis.technique == "divide_once"
