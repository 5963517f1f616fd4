"""A figure says what it is the mean of, which steps made it, and never passes a score off as a speed."""

from __future__ import annotations

import math
import re

import pytest

from bot.model.campaign import Campaign, Outcome, Round, Stage
from bot.model.commands import Goal, Scope
from bot.model.measurement import Evidence, Suite
from bot.model.verdict import CaseScore, Decision, Finding, Score, Verdict
from bot.render import comments, commit, gains, numbers, plots, profile_rows, report_rows, summary
from tests.render import builders as a

BEFORE = {"forward": 10.0, "backward": 30.0}
SPEED = {"forward": 1.25, "backward": 2.5}
PASSES = Suite(
    name="full",
    cases=tuple(a.case(direction, rows, 1024) for direction in BEFORE for rows in (512, 2048)),  # type: ignore[arg-type]
    checks=(),
)
ADDED = 40 / 20
"""10 us and 30 us became 8 us and 12 us."""


def scored(factor: float, memory: float, evidence: Evidence = Evidence.STATIC) -> Score:
    """The forward 1.25 times and the backward 2.5 times as fast, each `factor` times more."""
    cases = [
        CaseScore(
            case=one.id,
            before_us=BEFORE[one.direction],
            after_us=BEFORE[one.direction] / SPEED[one.direction] / factor,
            speedup=SPEED[one.direction] * factor,
            memory_ratio=memory,
        )
        for one in PASSES.cases
    ]
    speed = ADDED * factor
    return Score(evidence=evidence, value=math.sqrt(speed * memory), speed=speed, memory=memory, cases=tuple(cases))


def told(factors: tuple[float, ...], memory: float = 0.98, **fields: object) -> Campaign:
    """v1, v2, ...: each grown from the one before and accepted, but for the last, which is dropped as undecided."""
    rounds: list[Round] = []
    best = 1.0
    for number, factor in enumerate(factors, 1):
        score = scored(factor, memory)
        gain = score.value / best - 1
        decision = Decision.ACCEPTED if gain >= 0.01 else Decision.INCONCLUSIVE
        findings = () if gain >= 0.01 else (Finding(guardrail="gain", severity="note", message="too little"),)
        rounds.append(
            Round(
                variant=a.variant(number, number - 1, f"Idea {number}", "why", "technique", "more", str(number)),
                measurement=a.measurement(a.sources(str(number)), factor),
                verdict=Verdict(decision=decision, score=score, gain_over_best=gain, findings=findings),
            )
        )
        best = max(best, score.value) if decision.is_accepted else best
    lineage = (0, *(r.variant.number for r in rounds if r.verdict and r.verdict.decision.is_accepted))
    profile = a.profile().model_copy(update={"suite": PASSES})
    return a.searched(rounds=tuple(rounds), lineage=lineage, profile=profile, **fields)


def test_the_geomean_is_of_the_sums_and_says_so_and_shows_them() -> None:
    campaign = told((1.0,))
    assert gains.mean_of(campaign) == "geomean over 2 shapes, forward + backward added"
    rows = gains.shapes(campaign, 1)
    assert [(row.name, row.before_us, row.after_us) for row in rows] == [
        ("512x1024 bf16", 40, 20),
        ("2048x1024 bf16", 40, 20),
    ]
    mean = math.exp(sum(math.log(row.speedup) for row in rows) / len(rows))
    score = campaign.rounds[0].verdict
    assert score is not None and score.score is not None
    assert mean == pytest.approx(numbers.speed(score.score)) == pytest.approx(2.0)


def test_a_gain_in_a_table_says_what_it_is_a_percentage_of_and_over_what() -> None:
    searched = a.searched()
    memory_too = [gains.over_best(searched, played) for played in searched.rounds]
    assert memory_too[0] == "score +8.6 % over v0 (estimated)"
    fast = a.measured()
    assert gains.over_best(fast, fast.rounds[0]).startswith("speed +")
    assert gains.over_best(fast, fast.rounds[0]).endswith(" % over v0")
    for page in (profile_rows.came_of(searched), profile_rows.came_of(fast)):
        assert not [row for row in page if re.fullmatch(r"[+-][\d.]+ %", str(row[4]))], "a bare percentage"
    told_of = [row for played in searched.rounds for row in report_rows.idea(searched, played).rows]
    assert ("Against the best before it", memory_too[0]) in told_of


def test_commit_comment_and_picture_print_the_sums_beside_the_cases() -> None:
    campaign = told((1.0,))
    message = commit.winner_message(campaign)
    sums = message.partition("Forward and backward added:\n")[2]
    assert sums.split("\n")[0].split() == ["512x1024", "bf16", "40.0", "us", "->", "20.0", "us", "2.00x"]
    assert (
        "2.00x (estimated) = geomean over 2 shapes, forward + backward added\n2.0 % more memory, by the pass" in message
    )
    page = comments.checkpoint_winner(campaign)
    assert "2.00x (estimated) = geomean over 2 shapes, forward + backward added: 2.00x at 512x1024 bf16" in page
    assert "| Shape, forward + backward added | Before (estimated) |" in page
    assert "forward + backward added" in plots.alt("variants", campaign)


@pytest.mark.parametrize(
    ("scope", "said"),
    [(Scope.FORWARD, "geomean over 2 shapes, forward"), (Scope.BACKWARD, "geomean over 2 shapes, backward")],
)
def test_a_narrow_scope_adds_nothing_up(scope: Scope, said: str) -> None:
    campaign = told((1.0,), command=a.COMMAND.model_copy(update={"scope": scope}))
    assert gains.mean_of(campaign) == said
    assert not gains.adds_up(campaign)
    assert "Forward and backward added" not in commit.winner_message(campaign)


def test_a_score_never_stands_beside_a_speed_without_its_name() -> None:
    # 2.00x to 2.11x is +5.6 % speed; with memory weighed in the score gains +2.76 %.
    campaign = told((1.0, 1.056))
    first, second = campaign.rounds
    assert gains.step(campaign, first) == "score (speed and memory, goal=balanced) +40.0 % over v0, estimated"
    assert gains.step(campaign, second) == (
        "over v1: speed +5.6 %, score (speed and memory, goal=balanced) +2.8 %, estimated"
    )
    for page in (comments.explanation(campaign, 2), comments.result(campaign.model_copy(update=ENDED))):
        assert "over the best before it" not in page
        assert "score (speed and memory, goal=balanced) +2.8 %" in page


ENDED = {"stage": Stage.CLOSING, "outcome": Outcome.CANCELLED}


def test_where_speed_alone_counts_there_is_nothing_but_the_speed() -> None:
    speed = a.COMMAND.model_copy(update={"goal": Goal.SPEED})
    campaign = told((1.0, 1.2), command=speed)
    alone = []
    for played in campaign.rounds:
        assert played.verdict is not None and played.verdict.score is not None
        score = played.verdict.score.model_copy(update={"value": played.verdict.score.speed})
        verdict = played.verdict.model_copy(update={"score": score, "gain_over_best": 0.2})
        alone.append(played.model_copy(update={"verdict": verdict}))
    campaign = campaign.model_copy(update={"rounds": tuple(alone)})
    assert [gains.step(campaign, played) for played in alone] == ["", "over v1: speed +20.0 %, estimated"]


@pytest.mark.parametrize(
    ("share", "shown"), [(0.0046, "+0.46 %"), (0.0199, "+1.99 %"), (0.02, "+2.0 %"), (-0.01, "-1.00 %")]
)
def test_a_gain_near_the_one_percent_that_decides_has_two_decimals(share: float, shown: str) -> None:
    assert numbers.small_gain(share) == shown


def test_every_step_of_the_lineage_has_its_share_and_they_multiply_to_the_whole() -> None:
    campaign = told((1.0, 1.2))
    steps = gains.steps(campaign, 2)
    assert [(one.number, one.parent) for one in steps] == [(1, 0), (2, 1)]
    assert math.prod(one.share or 0 for one in steps) == pytest.approx(2.4)
    page, body = comments.checkpoint_winner(campaign), commit.winner_message(campaign)
    assert "- v1, 2.00x over v0 (estimated): Idea 1\n- v2, 1.20x over v1 (estimated): Idea 2" in page
    assert "- Idea 1: 2.00x (estimated)\n- Idea 2: 1.20x on top (estimated)" in body
    assert "accepted steps" not in comments.checkpoint_winner(told((1.0,)))


def test_more_memory_is_a_percentage_with_its_sign() -> None:
    assert numbers.more(1 / 1.021) == "+2.1 %"
    assert numbers.more(2.0) == "-50.0 %"
    assert numbers.more(1.0) == "same"
    assert "| +2.0 %" in comments.checkpoint_winner(told((1.0,)))


def test_the_summary_holds_score_memory_and_every_case() -> None:
    (found,) = summary.summary(told((1.0,)))["variants"]
    assert (found["speedup"], found["memory_ratio"], found["score"]) == (2.0, 0.98, 1.4)
    assert [case["speedup"] for case in found["cases"]] == [1.25, 1.25, 2.5, 2.5]
    assert [row["speedup"] for row in found["shapes"]] == [2.0, 2.0]
