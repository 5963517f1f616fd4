"""unseen: nobody pays for a speed-up with a size that was not asked about, and a gain on the suite alone is told."""

from __future__ import annotations

import pytest

from bot.analysis.paired import clearly_slower, estimate
from bot.guardrails import Hearing, judge
from bot.guardrails.unseen import unseen
from bot.model.commands import Goal, Scope
from bot.model.measurement import Reading
from bot.model.verdict import Decision
from tests.analysis.blocks import readings
from tests.guardrails import hearings as h

SIZE = "backward of rows 33, cols 7 in bfloat16, a size that nobody named, is"


@pytest.mark.parametrize(
    ("after", "severity"), [(102.01, "reject"), (101.99, "note"), (100.01, "note"), (100.0, None), (90.0, None)]
)
def test_two_percent_are_the_limit_as_of_what_is_scored(after: float, severity: str | None) -> None:
    heard = h.on_sizes(h.hearing(), (100.0, 80.0), (100.0, after))
    found = unseen(h.weighed(heard))
    assert [(finding.severity, finding.case) for finding in found] == (
        [(severity, "unseen-1-backward")] if severity else []
    )
    for finding in found:
        assert finding.message.startswith(f"{SIZE} {after - 100:.2f} % slower than v0 (")
    assert (judge(heard).decision is Decision.REJECTED) == (severity == "reject")


def test_of_two_backward_passes_it_is_said_which() -> None:
    heard = h.on_sizes(h.hearing(), (100.0, 80.0), (100.0, 104.0))
    read = heard.candidate.unseen[1]
    one = read.model_copy(update={"case": read.case.model_copy(update={"grad": "one"})})
    (found,) = unseen(h.weighed(h.changed(heard, unseen=(heard.candidate.unseen[0], one))))
    assert found.message.startswith(SIZE.replace("bfloat16,", "bfloat16 with a gradient of 1,"))


def test_a_rejection_says_how_many_processes_saw_it() -> None:
    (found,) = unseen(h.weighed(h.on_sizes(h.hearing(), (100.0, 80.0), (100.0, 104.0), processes=5)))
    assert found.message == (
        f"{SIZE} 4.00 % slower than v0 (104 us, v0 100 us); 5 fresh processes leave no doubt that it is more than 2 %"
    )


def test_what_noise_may_be_is_neither_a_reason_nor_a_note() -> None:
    """A loss of a third of a percent, between processes that disagree by two."""
    heard = h.on_sizes(h.hearing(), (100.0, 80.0), (100.0, 100.5))
    noisy = readings(-1.3, 0.7, -1.0, 0.5, -0.9, 0.0)
    lost = heard.candidate.unseen[1].model_copy(update={"confirm": noisy})
    assert unseen(h.weighed(h.changed(heard, unseen=(heard.candidate.unseen[0], lost)))) == []


def test_the_chance_of_a_false_word_is_shared_with_what_is_scored() -> None:
    """Holm over all of them: what alone is slow enough is not among four that are scored and one beside it."""
    just = readings(-2.75, -2.05, -2.575, -2.225, -2.47, -2.33)
    heard = h.on_sizes(h.hearing(), (100.0, 80.0), (100.0, 104.0))
    lost = heard.candidate.unseen[1].model_copy(update={"confirm": just})
    found = unseen(h.weighed(h.changed(heard, unseen=(lost,))))
    assert clearly_slower([estimate(just)]) == (True,)
    assert [(finding.severity, finding.case) for finding in found[:1]] == [("note", "unseen-1-backward")]


@pytest.mark.parametrize(("us", "told"), [(94.86, False), (94.88, True)])
def test_half_of_the_gain_has_to_be_there_or_it_is_said(us: float, told: bool) -> None:
    """100 to 90 is scored, and twice 100 to 94.87 are that; forward and backward are taken together."""
    heard = h.on_sizes(h.hearing(), (100.0, us), (100.0, us))
    found = unseen(h.weighed(heard))
    assert [finding.severity for finding in found] == ["note"] * told
    assert judge(heard).decision is (Decision.ACCEPTED_WITH_NOTE if told else Decision.ACCEPTED)
    if told:
        assert found[0].message == (
            "fitted to the sizes that are scored: 1.05x on 1 size that nobody named, 1.11x on those that are scored; "
            "half of that gain is asked"
        )


def test_sizes_share_a_mean() -> None:
    one_is_enough = (100.0, 80.0), (100.0, 80.0), (100.0, 100.0), (100.0, 100.0)
    assert unseen(h.weighed(h.on_sizes(h.hearing(), *one_is_enough))) == []


def test_where_one_pass_is_asked_about_that_pass_is_held_against_it() -> None:
    heard = h.on_sizes(h.hearing(scope=Scope.BACKWARD), (100.0, 60.0), (100.0, 99.0))
    (found,) = unseen(h.weighed(heard))
    assert found.message.startswith("fitted to the sizes that are scored: 1.01x on 1 size")


@pytest.mark.parametrize(("goal", "told"), [(Goal.MEMORY, 0), (Goal.BALANCED, 1)])
def test_a_gain_in_time_is_asked_of_nobody_who_was_asked_for_memory_alone(goal: Goal, told: int) -> None:
    heard = h.on_sizes(h.hearing(memory=dict.fromkeys(h.NAMES, 800), goal=goal), (100.0, 100.0), (100.0, 100.0))
    assert len(unseen(h.weighed(heard))) == told


def test_time_may_be_paid_for_memory_alone() -> None:
    slow = (100.0, 100.0), (100.0, 130.0)
    memory = dict.fromkeys(h.NAMES, 800)
    assert [f.severity for f in unseen(h.weighed(h.on_sizes(h.hearing(memory=memory, goal=Goal.MEMORY), *slow)))] == [
        "note"
    ]
    balanced = unseen(h.weighed(h.on_sizes(h.hearing(memory=memory, goal=Goal.BALANCED), *slow)))
    assert [f.severity for f in balanced] == ["reject", "note"]


def test_nothing_is_said_of_what_nobody_read() -> None:
    assert unseen(h.weighed(h.hearing())) == []
    assert unseen(h.weighed(losing(h.on_sizes(h.hearing(), (100.0, 130.0)), 1, 6))) == []


def losing(heard: Hearing, blocks: int, processes: int) -> Hearing:
    """The same where so many processes lost so many blocks of the first size."""
    first, *others = heard.candidate.unseen
    lost = tuple(
        Reading(blocks=reading.blocks[blocks:], voided=blocks) if number < processes else reading
        for number, reading in enumerate(first.confirm)
    )
    return h.changed(heard, unseen=(first.model_copy(update={"confirm": lost}), *others))


@pytest.mark.parametrize(("processes", "decision"), [(1, Decision.ACCEPTED), (2, Decision.INCONCLUSIVE)])
def test_who_is_not_read_there_often_enough_is_not_confirmed(processes: int, decision: Decision) -> None:
    """Whatever makes the readings of such a size be thrown away does not make it fast: five processes are asked for."""
    verdict = judge(losing(h.on_sizes(h.hearing(), (100.0, 80.0), (100.0, 80.0)), 1, processes))
    assert verdict.decision is decision
    assert [f.guardrail for f in verdict.findings] == ["confirmed"] * (processes > 1)


def test_blocks_that_are_thrown_away_there_make_a_runner_unhealthy_too() -> None:
    """Of all that was read, and not of what is scored alone."""
    heard = h.on_sizes(h.hearing(), (100.0, 80.0), (100.0, 80.0))
    voided = heard.candidate.unseen[0].model_copy(
        update={"confirm": tuple(Reading(blocks=one.blocks, voided=100) for one in heard.candidate.unseen[0].confirm)}
    )
    verdict = judge(h.changed(heard, unseen=(voided, heard.candidate.unseen[1])))
    assert verdict.decision is Decision.INCONCLUSIVE and verdict.findings[-1].guardrail == "runner"


def test_without_a_gain_in_time_nothing_is_fitted_to_anything() -> None:
    """Half the memory for one percent of the time: half of a loss is no bar."""
    times, memory = dict.fromkeys(h.NAMES, 101.0), dict.fromkeys(h.NAMES, 500)
    heard = h.on_sizes(h.hearing(times, memory, goal=Goal.BALANCED), (100.0, 100.6), (100.0, 100.6))
    assert [f for f in unseen(h.weighed(heard)) if "fitted" in f.message] == []


def test_what_noise_may_be_is_not_fitted() -> None:
    heard = h.on_sizes(h.hearing(), (100.0, 95.0), (100.0, 95.0))
    noisy = tuple(
        one.model_copy(update={"confirm": readings(2.0, 7.0, 3.0, 6.5, 4.0, 6.0)}) for one in heard.candidate.unseen
    )
    assert unseen(h.weighed(h.changed(heard, unseen=noisy))) == []


def test_modelled_times_have_none() -> None:
    assert h.on_paper(h.on_sizes(h.hearing(), (100.0, 130.0))).unseen() == {}


def test_the_score_keeps_them_apart() -> None:
    verdict = judge(h.on_sizes(h.hearing(), (100.0, 80.0), (100.0, 80.0)))
    assert verdict.score is not None
    assert [(one.case, one.speedup) for one in verdict.score.unseen] == [
        ("unseen-1-forward", pytest.approx(1.25)),
        ("unseen-1-backward", pytest.approx(1.25)),
    ]
    assert verdict.score.value == pytest.approx(100 / 90)


def test_a_time_that_is_no_number_ends_in_a_verdict_and_not_in_a_crash() -> None:
    heard = h.on_sizes(h.hearing(), (100.0, 80.0), (0.0, 80.0))
    verdict = judge(heard)
    assert verdict.decision is Decision.REJECTED
    assert h.rejections(verdict) == ["complete"]
