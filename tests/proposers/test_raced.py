"""What a race on the GPU says is written down as a rule; where one was run, no model is asked about launch numbers."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from bot.engine import race_field, settings_table
from bot.engine.settings_table import Row
from bot.model.commands import Goal
from bot.model.measurement import Case, Evidence, Measurement, Timing, Unseen
from bot.model.race import Lap, Numbers, Race, Racer
from bot.model.variant import Proposal, SourceFile
from bot.model.verdict import Decision, Finding
from bot.proposers import engine, exhausted, raced, rules, warps
from bot.proposers.brief import Brief
from tests.proposers.scene import BWD, FWD, SUITE, after, brief
from tests.proposers.test_warps import told as after_a_rewrite

FORWARD, BACKWARD = "_rms_norm_forward_kernel", "_rms_norm_backward_kernel"


def measured(warps_now: int = 2) -> Measurement:
    """v0's own times, from a clock."""
    facts = brief(warps=warps_now).baseline
    runner = facts.runner.model_copy(update={"evidence": Evidence.MEASURED, "gpu_name": "NVIDIA H200"})
    timing = Timing(median_us=100.0, low_us=99.0, high_us=101.0, samples=48, timer="replay")
    cases = tuple(case.model_copy(update={"timing": timing}) for case in facts.cases)
    return facts.model_copy(update={"runner": runner, "cases": cases})


def laps(*speedups: tuple[str, float]) -> tuple[Lap, ...]:
    return tuple(Lap(case=case, speedup=s, low=s, high=s, blocks=12) for case, s in speedups)


def racer(each: int, forward: float, backward: float) -> Racer:
    numbers = tuple(Numbers(kernel=kernel, block_name="BLOCK_SIZE", each=each) for kernel in (FORWARD, BACKWARD))
    return Racer(numbers=numbers, laps=laps((FWD.id, forward), (BWD.id, backward)))


ITSELF = Racer(laps=laps((FWD.id, 1.0), (BWD.id, 1.0)))


def told(*racers: Racer, of: int = 0, **fields: Any) -> Brief:
    facts = measured()
    race = Race(of=of, racers=(ITSELF, *racers))
    return brief(baseline=facts, facts=facts, race=race, **fields)


def test_the_fastest_numbers_of_each_kernel_become_a_rule() -> None:
    (idea,) = raced.ideas(told(racer(16, 1.5, 1.1), racer(8, 1.4, 1.3)), "engine")
    assert idea is not None
    assert idea.hypothesis.technique == "launch_parameters"
    text = idea.files[0].text
    forward, backward = f"{FORWARD}[", f"{BACKWARD}["
    assert forward in text and backward in text
    assert "# 16 elements a thread: first in a race over the scored shapes (measured on sm_90)." in text
    assert "# 8 elements a thread: first in a race over the scored shapes (measured on sm_90)." in text
    assert "1.50x" not in text, "a figure of a race is not one to publish"
    assert "2 sets of launch numbers that raced beside v0" in idea.hypothesis.why
    assert idea.hypothesis.expected.startswith("Measured in the race, over v0:")


def every(known: Brief) -> list[str]:
    """Techniques until nobody has an idea, each of them refused."""
    tried = []
    while (idea := engine.propose(known)) is not None:
        tried.append(idea.hypothesis.technique)
        known = after(known, idea, Decision.REJECTED)
    return tried


def test_launch_numbers_wait_for_their_race_and_come_after_every_rewrite() -> None:
    numbers = f"launch_parameters:{FORWARD}"
    before = every(told(has_race_ahead=True))
    assert before and not [one for one in before if one.startswith(("launch_parameters", "cache_hints"))]
    since = every(told(racer(16, 1.5, 1.2)))
    assert since[: len(before)] == before
    assert since[len(before) : len(before) + 2] == ["launch_parameters", numbers] and since[-1] == "cache_hints"


def test_the_model_is_not_asked_where_a_race_found_nothing() -> None:
    """Without the race it would have moved the numbers; the clock knows better."""
    assert engine.propose(brief()).hypothesis.technique == "launch_parameters"  # type: ignore[union-attr]
    idea = engine.propose(told(racer(16, 1.0, 0.9), racer(8, 1.009, 1.0)))
    assert idea is None or not idea.hypothesis.technique.startswith("launch_parameters")


def test_the_model_is_not_asked_once_a_rule_that_won_a_race_of_rewritten_kernels_had_a_round() -> None:
    """A simulated campaign of cross_entropy spent three rounds on what the model makes of kernels that had raced."""
    known = told(has_race_ahead=True)
    rewrite = engine.propose(known)
    assert rewrite is not None
    known = after(known, rewrite, Decision.ACCEPTED)
    race = Race(of=1, racers=(ITSELF, racer(16, 1.5, 1.2)))
    (idea,) = raced.ideas(dataclasses.replace(known, race=race), "engine")
    assert idea is not None and idea.hypothesis.technique == "launch_parameters:v1"
    assert not raced.has_spoken(known)
    since = dataclasses.replace(after(known, idea, Decision.ACCEPTED), race=None, has_race_ahead=False)
    assert raced.has_spoken(since)
    assert not [one for one in every(since) if one.startswith("launch_parameters")]
    never = dataclasses.replace(known, race=None, has_race_ahead=False)
    assert [one for one in every(never) if one.startswith("launch_parameters")]


def test_what_a_race_found_and_no_round_is_worth_is_said() -> None:
    """fused_linear_jsd: 1.48x of a kernel that takes a fiftieth of the step, and "every idea was tried" was all one
    read of it."""
    little = told(racer(16, 1.02, 1.0))
    assert list(raced.ideas(little, "engine")) == []
    said = f"launch numbers that won a race ({FORWARD} 1.02x over its cases) would make the whole 1.005x as fast"
    assert exhausted(little) == f"every idea that applies was tried; {said}, and a round needs 1.007x"
    assert exhausted(told(racer(16, 1.0, 0.9))) == "every idea that applies was tried"
    assert exhausted(brief()) == "every idea that applies was tried"


def test_what_had_a_round_was_not_left_out() -> None:
    known = told(racer(16, 1.5, 1.1))
    assert raced.left_out(known) == ""
    (idea,) = raced.ideas(known, "engine")
    assert idea is not None
    assert raced.left_out(after(told(racer(16, 1.02, 1.0)), idea, Decision.REJECTED)) == ""


def test_one_percent_is_worth_a_rule_and_less_is_not() -> None:
    """Of a kernel's cases; the one that has nothing to gain is left as it is."""
    (idea,) = raced.ideas(told(racer(16, 1.5, 1.0099)), "engine")
    assert idea is not None and FORWARD in idea.hypothesis.why and BACKWARD not in idea.hypothesis.why
    (idea,) = raced.ideas(told(racer(16, 1.5, 1.0101)), "engine")
    assert idea is not None and FORWARD in idea.hypothesis.why and BACKWARD in idea.hypothesis.why


@pytest.mark.parametrize(
    ("goal", "forward", "is_tried"),
    [
        (Goal.SPEED, 1.0143, True),
        (Goal.SPEED, 1.0139, False),
        (Goal.BALANCED, 1.0286, True),
        (Goal.BALANCED, 1.0280, False),
        (Goal.MEMORY, 3.0, False),
    ],
)
def test_a_round_is_spent_on_what_the_goal_may_accept(goal: Goal, forward: float, is_tried: bool) -> None:
    """The forward pass is half of the step. On an H200 a rule that could not be accepted took a round to be refused."""
    assert bool(list(raced.ideas(told(racer(16, forward, 1.0), goal=goal), "engine"))) is is_tried


def test_a_pass_without_a_time_promises_nothing() -> None:
    facts = measured()
    untimed = facts.model_copy(
        update={"cases": tuple(c.model_copy(update={"timing": None}) for c in facts.cases[:1]) + facts.cases[1:]}
    )
    race = Race(of=0, racers=(ITSELF, racer(16, 1.5, 1.5)))
    told_of = brief(baseline=facts, facts=untimed, race=race)
    assert raced.promised(told_of, raced.race_field.tables(race, facts, told_of.suite)) == 1.0


def test_after_a_no_each_kernel_is_tried_alone() -> None:
    first = told(racer(16, 1.5, 1.2))
    (idea,) = raced.ideas(first, "engine")
    assert idea is not None
    refused = after(first, idea, Decision.REJECTED)
    alone = [one.hypothesis.technique for one in raced.ideas(refused, "engine") if one is not None]
    assert alone == [f"launch_parameters:{FORWARD}", f"launch_parameters:{BACKWARD}"]


def test_after_a_yes_it_is_settled() -> None:
    first = told(racer(16, 1.5, 1.2))
    (idea,) = raced.ideas(first, "engine")
    assert idea is not None
    assert list(raced.ideas(after(first, idea, Decision.ACCEPTED, measured(8)), "engine")) == []


def test_the_race_of_a_rewritten_kernel_has_a_name_of_its_own() -> None:
    (idea,) = raced.ideas(told(racer(16, 1.5, 1.2), of=3, incumbent=3), "engine")
    assert idea is not None
    assert idea.hypothesis.technique == "launch_parameters:v3"
    assert idea.hypothesis.references == ("v3",)


def test_a_kernel_that_raced_is_not_asked_about_its_warps_again() -> None:
    asked = after_a_rewrite()
    assert [idea.hypothesis.technique for idea in warps.ideas(asked, "engine")] != []
    fields = {name: getattr(asked, name) for name in Brief.__slots__}
    race = Race(of=asked.incumbent, racers=(ITSELF, racer(16, 1.0, 1.0)))
    assert list(warps.ideas(Brief(**fields | {"race": race}), "engine")) == []


def test_what_a_gpu_measured_of_an_idea_outranks_what_the_model_sees_of_it() -> None:
    """Where a GPU has the word. Without one, the model's word decides what the model will judge."""
    nothing_to_race = told(racer(16, 1.0, 1.0))
    assert engine.propose(nothing_to_race).hypothesis.technique == "pipeline_rows"  # type: ignore[union-attr]
    estimated = brief(surveys=())
    assert engine.propose(estimated).hypothesis.technique == "more_programs"  # type: ignore[union-attr]


IMPORTED = """import torch
import triton

from sample_kernels.ops.rows import _rms_norm_backward_kernel


def backward(dy: torch.Tensor, n_rows, n_cols):
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    _rms_norm_backward_kernel[(n_rows,)](dy, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=32)
    return dy
"""


def test_a_kernel_of_another_module_gets_its_numbers_where_it_is_launched() -> None:
    """fused_linear_cross_entropy launches a kernel of the library's for all with 32 warps, whatever the width."""
    path = brief().sources[0].path
    elsewhere = IMPORTED.replace("_rms_norm_backward_kernel[", "_another[")
    in_a_loop = IMPORTED.replace("    _rms", "    for _ in range(2):\n        _rms")
    for why, text in {"imported": IMPORTED, "another": elsewhere, "in a loop": in_a_loop}.items():
        ideas = list(raced.ideas(told(racer(16, 1.0, 1.5), sources=(SourceFile(path=path, text=text),)), "engine"))
        assert bool(ideas) == (why == "imported")
    (idea,) = raced.ideas(told(racer(16, 1.0, 1.5), sources=(SourceFile(path=path, text=IMPORTED),)), "engine")
    assert idea is not None and "min(max(BLOCK_SIZE // 512, 1), 32) if _is_sm_90(dy.device)" in idea.files[0].text


def test_numbers_that_cannot_be_kept_to_one_architecture_are_not_written() -> None:
    nobodys = IMPORTED.replace("dy: torch.Tensor", "dy")
    path = brief().sources[0].path
    assert list(raced.ideas(told(racer(16, 1.0, 1.5), sources=(SourceFile(path=path, text=nobodys),)), "engine")) == [
        None
    ]


def of(case: Case, *sizes: int, **fields: Any) -> Case:
    return case.model_copy(update={"shape": tuple(zip(("rows", "cols"), sizes, strict=True)), **fields})


def raced_on(text: str, rows: int = 1000, cols: int = 4096, forward: float = 1.0) -> Brief:
    """A race over rows of such a width, of a file that launches the kernels of another."""
    suite = SUITE.model_copy(update={"cases": (of(FWD, rows, cols), of(BWD, rows, cols))})
    return told(racer(16, forward, 1.5), sources=(SourceFile(path=brief().sources[0].path, text=text),), suite=suite)


def next_of(first: Brief, *against: str, decision: Decision = Decision.REJECTED) -> list[Proposal]:
    """What is tried after the race's rules were refused for these cases."""
    (idea,) = raced.ideas(first, "engine")
    assert idea is not None
    refused = after(first, idea, decision)
    (played,) = refused.rounds
    assert played.verdict is not None
    slower = [Finding(guardrail="unseen", severity="reject", message="slower", case=case) for case in against]
    fitted = Finding(guardrail="unseen", severity="note", message="fitted")
    sizes = {"odd": (1040, 4104), "whole": (1041, 4112)}
    unseen = tuple(Unseen(case=of(FWD, *sizes[name], id=name), confirm=()) for name in sizes)
    verdict = played.verdict.model_copy(update={"findings": (*slower, fitted)})
    measurement = first.facts.model_copy(update={"unseen": unseen})
    played = played.model_copy(update={"measurement": measurement, "verdict": verdict})
    found = raced.ideas(dataclasses.replace(first, rounds=(played,)), "engine")
    return [one for one in found if one is not None]


def refused_on(first: Brief, *against: str, decision: Decision = Decision.REJECTED) -> list[str]:
    """Techniques, and the warps of each."""
    return [
        f"{one.hypothesis.technique}: {line.split('num_warps=')[1]}"
        for one in next_of(first, *against, decision=decision)
        for line in one.files[0].text.splitlines()
        if "num_warps=" in line
    ]


OF_WHOLE_ROWS = "min(max(BLOCK_SIZE // 512, 1), 32) if _is_sm_90(dy.device) and n_cols % 16 == 0 else 32"
WHOLE = f"launch_parameters:whole: {OF_WHOLE_ROWS},"


@pytest.mark.parametrize(
    ("against", "tried"),
    [
        (("odd",), [WHOLE]),
        (("odd", "odd"), [WHOLE]),
        (("whole",), []),
        (("odd", "whole"), []),
        (("odd", FWD.id), []),
        (("odd", ""), []),
        ((), []),
    ],
    ids=["odd", "two of it", "whole", "both", "what is scored too", "something else too", "nothing"],
)
def test_numbers_that_odd_rows_alone_speak_against_are_tried_for_whole_ones(
    against: tuple[str, ...], tried: list[str]
) -> None:
    """A race among whole rows says nothing of others; how many rows there are is no matter."""
    assert refused_on(raced_on(IMPORTED), *against) == tried


def test_what_was_not_refused_has_no_other_round() -> None:
    assert refused_on(raced_on(IMPORTED), "odd", decision=Decision.INCONCLUSIVE) == []


def test_rows_that_were_odd_in_the_race_have_no_rule_for_whole_ones() -> None:
    """It would give them nothing, so it promises nothing."""
    assert refused_on(raced_on(IMPORTED, cols=4088), "odd") == []


@pytest.mark.parametrize("rows", [4096, 1000])
def test_where_nobody_says_how_wide_a_row_is_there_is_no_such_rule(rows: int) -> None:
    """Nor where the number of rows might be it as well."""
    hidden = IMPORTED.replace("triton.next_power_of_2(n_cols)", "settings(n_cols)")
    assert refused_on(raced_on(hidden, rows=rows), "odd") == []
    assert bool(refused_on(raced_on(IMPORTED, rows=rows), "odd")) is (rows == 1000)


def test_each_kernel_alone_is_tried_for_whole_rows_then_too() -> None:
    both = IMPORTED.replace("_kernel\n\n", f"_kernel, {FORWARD}\n\n").replace(
        "    return dy", f"    {FORWARD}[(n_rows,)](dy, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=8 * 4)\n    return dy"
    )
    tried = next_of(raced_on(both, forward=1.4), "odd")
    assert [(one.hypothesis.technique, one.files[0].text.count("n_cols % 16 == 0")) for one in tried] == [
        ("launch_parameters:whole", 2),
        (f"launch_parameters:{BACKWARD}", 1),
        (f"launch_parameters:{FORWARD}", 1),
    ]


def test_what_is_told_of_a_rule_for_whole_rows() -> None:
    first = raced_on(IMPORTED)
    assert first.race is not None
    (choice,) = rules.chosen(first, race_field.tables(first.race, first.facts, first.suite))
    row = Row(FWD.id, 1.0, 4096, (4096, 32), {(4096, 32): 2.0, (4096, 8): 1.0}, width=4096)
    odd = dataclasses.replace(row, width=4097)
    spared = settings_table.whole(choice, [row, odd])
    assert spared is not None and settings_table.whole(choice, [odd]) is None
    assert settings_table.raced(spared, "sm_90") == (
        "16 elements a thread, rows of whole vectors: first in a race (measured on sm_90)."
    )
    assert (spared.rule.of(row), spared.rule.of(odd), choice.rule.of(odd)) == ((4096, 8), (4096, 32), (4096, 8))
    assert spared.gain == pytest.approx(2**0.5)
