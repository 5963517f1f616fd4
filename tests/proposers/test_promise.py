"""Ideas that raced have a round where the race promised enough, the one that promised most first."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from bot.model.commands import Goal
from bot.model.race import NO_CHANGE, TWICE, Lap, Race, Racer
from bot.model.variant import SourceFile
from bot.model.verdict import Decision
from bot.proposers import engine, promise
from bot.proposers.brief import Brief
from tests.engine.test_group_chain import GROUPED
from tests.engine.test_relax_atomics import KERNEL
from tests.proposers.scene import BWD, FWD, PATH, after, brief
from tests.proposers.test_raced import measured

MEMORY = 100 * 2**20


def racer(idea: str, forward: float, backward: float, *, left: str = "", peak_bytes: int = 0) -> Racer:
    laps = tuple(
        Lap(case=case.id, speedup=speedup, low=speedup, high=speedup, blocks=12, peak_bytes=peak_bytes)
        for case, speedup in ((FWD, forward), (BWD, backward))
    )
    return Racer(idea=idea, laps=laps, left=left)


def race(*racers: Racer, **fields: Any) -> Race:
    return Race(of=0, racers=(racer("", 1.0, 1.0, peak_bytes=MEMORY), *racers), **fields)


def told(*racers: Racer, kernel: str = "rms_norm", **fields: Any) -> Brief:
    facts = measured() if kernel == "rms_norm" else brief(kernel).baseline
    if kernel != "rms_norm":
        runner, timing = measured().runner, measured().cases[0].timing
        cases = tuple(case.model_copy(update={"timing": timing}) for case in facts.cases)
        facts = facts.model_copy(update={"runner": runner, "cases": cases})
    counted = tuple(case.model_copy(update={"memory_bytes": MEMORY}) for case in facts.cases)
    facts = facts.model_copy(update={"cases": counted})
    opening = race(*racers, opening=True) if racers else None
    wanted: dict[str, Any] = {"opening": opening, "has_race_ahead": True, "goal": Goal.SPEED, **fields}
    return brief(kernel, baseline=facts, facts=facts, **wanted)


def tried(known: Brief, decision: Decision = Decision.REJECTED) -> list[str]:
    found = []
    while (idea := engine.propose(known)) is not None:
        found.append(idea.hypothesis.technique)
        known = after(known, idea, decision)
    return found


def test_without_a_race_they_come_in_their_usual_order() -> None:
    assert tried(told()) == ["pipeline_rows", "more_programs", "block_rows"]


def test_rows_in_turns_wait_for_loads_ahead_and_for_blocks_of_rows() -> None:
    """Once the others had their rounds, and where those two were accepted."""
    order = tried(told(has_race_ahead=False), Decision.ACCEPTED)
    assert order.index("rows_in_turns") > max(order.index("pipeline_rows"), order.index("block_rows"))
    assert "rows_in_turns" not in tried(told(has_race_ahead=False), Decision.REJECTED)


def test_the_one_that_promised_most_comes_first() -> None:
    racers = (racer("pipeline_rows", 1.0, 1.1), racer("more_programs", 1.0, 1.2), racer("block_rows", 1.0, 1.3))
    assert tried(told(*racers)) == ["block_rows", "more_programs", "pipeline_rows"]


def test_what_may_not_be_accepted_has_no_round() -> None:
    """Both passes take 100 us: 1.4 % of one is 0.7 % of the step, and a round asks for one percent."""
    enough, little = racer("pipeline_rows", 1.0, 1.0144), racer("block_rows", 1.0, 1.0136)
    assert tried(told(enough, little, racer("more_programs", 0.9, 0.9))) == ["pipeline_rows"]


def test_who_left_or_did_not_race_is_as_it_was() -> None:
    """What went wrong may have been the race's fault, and a round says it with its reason."""
    assert tried(told(racer("pipeline_rows", 1.0, 1.0, left="too late"), racer("block_rows", 1.0, 2.0))) == [
        "block_rows",
        "pipeline_rows",
        "more_programs",
    ]


def test_who_spills_where_nothing_did_has_no_round_however_fast_it_was() -> None:
    """jsd lost rounds of a minute each to ideas that spilled."""
    dry, others = racer("block_rows", 1.3, 1.3), (racer("pipeline_rows", 1.0, 1.1), racer("more_programs", 1.0, 0.9))
    wet = dry.model_copy(update={"laps": (dry.laps[0], dry.laps[1].model_copy(update={"spills": 8}))})
    assert tried(told(*others, dry)) == ["block_rows", "pipeline_rows"]
    assert tried(told(*others, wet)) == ["pipeline_rows"]


def test_what_the_incumbents_own_race_says_comes_after_the_opening() -> None:
    """It is held against the incumbent, on which the idea would be built."""
    opening = (racer("pipeline_rows", 0.9, 0.9), racer("block_rows", 1.0, 1.3), racer("more_programs", 1.0, 0.9))
    later = race(racer("pipeline_rows", 1.0, 1.2), racer("block_rows", 1.0, 0.9))
    assert tried(told(*opening, race=later, has_race_ahead=False))[0] == "pipeline_rows"
    assert "block_rows" not in tried(told(*opening, race=later, has_race_ahead=False))


def test_an_opening_says_nothing_of_the_second_time() -> None:
    """More programs are tried twice, and what four on a multiprocessor give nobody saw."""
    known = told(racer("more_programs", 1.0, 1.2), racer("pipeline_rows", 1.0, 0.9), racer("block_rows", 1.0, 0.9))
    idea = engine.propose(known)
    assert idea is not None and idea.hypothesis.technique == "more_programs"
    assert promise.of(known, "more_programs") == pytest.approx(1 / (0.5 + 0.5 / 1.2))
    assert promise.of(after(known, idea, Decision.ACCEPTED), "more_programs") is None


def test_memory_counts_where_the_goal_counts_it() -> None:
    """The hungriest pass of a step is what it needs."""
    spares = racer("block_rows", 1.0, 1.0, peak_bytes=MEMORY // 2)
    assert promise.of(told(spares, goal=Goal.MEMORY), "block_rows") == 2.0
    assert promise.of(told(spares, goal=Goal.BALANCED), "block_rows") == pytest.approx(2.0**0.5)
    assert promise.of(told(spares, goal=Goal.SPEED), "block_rows") == 1.0
    uncounted = racer("block_rows", 1.0, 1.0)
    assert promise.of(told(uncounted, goal=Goal.MEMORY), "block_rows") == 1.0


@pytest.mark.parametrize("goal", [Goal.SPEED, Goal.BALANCED])
def test_who_needs_more_memory_than_a_verdict_allows_has_no_round(goal: Goal) -> None:
    """fused_linear_jsd holds nine blocks of a chunk's logits: chunks as wide as cross entropy's were in vain."""
    allowed = racer("block_rows", 1.0, 1.3, peak_bytes=int(MEMORY * 1.05))
    hungry = racer("block_rows", 1.0, 1.3, peak_bytes=int(MEMORY * 1.05) + 1)
    others = (racer("pipeline_rows", 1.0, 1.1), racer("more_programs", 1.0, 0.9))
    assert tried(told(*others, allowed, goal=goal)) == ["block_rows", "pipeline_rows"]
    assert tried(told(*others, hungry, goal=goal)) == ["pipeline_rows"]


def test_for_memory_alone_a_hungry_idea_promises_less_and_without_a_count_before_none_is_hungry() -> None:
    hungry = racer("block_rows", 1.0, 1.3, peak_bytes=2 * MEMORY)
    assert promise.of(told(hungry, goal=Goal.MEMORY), "block_rows") == 0.5
    known = told(hungry)
    uncounted = tuple(case.model_copy(update={"memory_bytes": 0}) for case in known.baseline.cases)
    known = dataclasses.replace(known, baseline=known.baseline.model_copy(update={"cases": uncounted}))
    assert promise.of(known, "block_rows") == pytest.approx(1 / (0.5 + 0.5 / 1.3))


FORWARD, BACKWARD = "tile_rows:_geglu_forward_kernel", "tile_rows:_geglu_backward_kernel"


def geglu(whole: tuple[float, float], forward: float, backward: float) -> Brief:
    racers = (racer("tile_rows", *whole), racer(FORWARD, forward, 1.0), racer(BACKWARD, 1.0, backward))
    return told(*racers, kernel="geglu")


def test_a_kernel_alone_races_too_and_comes_first_where_the_other_one_loses() -> None:
    known = geglu((1.3, 0.9), 1.3, 0.9)
    idea = engine.propose(known)
    assert idea is not None and idea.hypothesis.technique == FORWARD
    assert tried(known, Decision.ACCEPTED)[0] == FORWARD
    assert BACKWARD not in tried(known) and "tile_rows" not in tried(known)


@pytest.mark.parametrize(("backward", "has_a_round"), [(0.96, True), (0.9599, False)])
def test_who_slows_a_case_down_more_than_a_verdict_lets_it_has_no_round(backward: float, has_a_round: bool) -> None:
    """Whatever it gains in the other: on an H200 two rounds of cross_entropy went to ideas that lost 11 % of a case."""
    known = told(racer("pipeline_rows", 1.5, backward), racer("block_rows", 0.9, 0.9), racer("more_programs", 0.9, 0.9))
    assert (tried(known) == ["pipeline_rows"]) is has_a_round
    assert promise.of(known, "pipeline_rows") == pytest.approx(1.17 if has_a_round else backward, rel=0.02)


def test_what_both_promised_together_is_no_word_once_one_of_them_has_it() -> None:
    known = geglu((1.3, 0.99), 1.3, 0.9)
    idea = engine.propose(known)
    assert idea is not None and idea.hypothesis.technique == FORWARD
    assert "tile_rows" not in tried(after(known, idea, Decision.ACCEPTED))


def test_without_a_race_a_kernel_has_no_round_of_its_own_before_both_were_refused() -> None:
    assert tried(told(kernel="geglu"))[:3] == ["tile_rows", FORWARD, BACKWARD]


def test_what_comes_before_all_others_does_not_race() -> None:
    """Once the loss is added up in the kernel, it is another kernel."""
    known = told(kernel="jsd", has_opening_ahead=True)
    assert not {idea.hypothesis.technique for idea in engine.openers(known)} & set(engine.FIRST)


def grouped(**fields: Any) -> Brief:
    text = GROUPED.replace("_group_backward_kernel", "_rms_norm_backward_kernel")
    files = (SourceFile(path=PATH.format("rms_norm"), text=text),)
    return told(sources=files, original=files, has_opening_ahead=True, **fields)


def test_a_kernel_whose_programs_wait_for_each_other_is_mended_first_and_then_races() -> None:
    """What else gives anything shows once nobody waits, and is built on that."""
    known = grouped()
    assert engine.openers(known) == ()
    first = engine.propose(known)
    assert first is not None and first.hypothesis.technique == "add_in_float32"
    mended = after(known, first, Decision.ACCEPTED)
    mended = dataclasses.replace(mended, has_opening_ahead=True)
    openers = {idea.hypothesis.technique: idea.files[0].text for idea in engine.openers(mended)}
    assert "partial_sums" not in openers
    assert "c1 += w * dw" in openers["scale_sum"] and "sums_ptr + n_sums" in openers["scale_sum"]


def test_where_that_was_refused_others_are_tried_on_what_was_there() -> None:
    found = tried(grouped())
    assert found[:2] == ["add_in_float32", "partial_sums"] and "scale_sum" in found


def test_additions_of_kernels_that_no_case_launches_stay_as_they_are() -> None:
    """mhc.py holds the kernels of three ops."""
    text = GROUPED.replace("_group_backward_kernel", "_rms_norm_backward_kernel")
    other = KERNEL.partition("@triton.jit")[2].replace("_k(", "_of_another_op(")
    files = (SourceFile(path=PATH.format("rms_norm"), text=f"{text}\n\n@triton.jit{other}"),)
    known, found = told(sources=files, original=files), None
    while (idea := engine.propose(known)) is not None:
        found = idea if idea.hypothesis.technique == "relax_atomics" else found
        known = after(known, idea, Decision.REJECTED)
    assert found is not None
    assert found.files[0].text.count('sem="relaxed"') == 2 and found.files[0].text.endswith(other)


@pytest.mark.parametrize("why", [NO_CHANGE, TWICE])
def test_what_launches_what_another_does_is_worth_no_round(why: str) -> None:
    """It was proved to give nothing of its own, where who only left the race is tried as if there had been none."""
    opening = (racer("pipeline_rows", 1.0, 1.0, left=why), racer("block_rows", 1.0, 1.0))
    assert tried(told(*opening, racer("more_programs", 1.0, 1.0))) == []
    known = told(*opening, racer("more_programs", 1.0, 1.0, left="it fell"))
    assert tried(known) == ["more_programs"]
    assert promise.of(known, "pipeline_rows") == 1.0


@pytest.mark.parametrize("case", [FWD.id, BWD.id])
def test_nobody_saves_the_memory_of_a_pass_that_it_did_not_run_in(case: str) -> None:
    def lapped(idea: str, *laps: tuple[str, int]) -> Racer:
        return Racer(
            idea=idea,
            laps=tuple(
                Lap(case=name, speedup=1.0, low=1.0, high=1.0, blocks=12, peak_bytes=peak) for name, peak in laps
            ),
        )

    peaks = {FWD.id: MEMORY, BWD.id: MEMORY // 3}
    itself = lapped("", *peaks.items())
    for goal in (Goal.MEMORY, Goal.BALANCED):
        known = told(goal=goal)
        known = dataclasses.replace(known, race=Race(of=0, racers=(itself, lapped("block_rows", (case, peaks[case])))))
        assert promise.of(known, "block_rows") == pytest.approx(1.0)
