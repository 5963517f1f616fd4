"""The terminal's pages: read once by a person, never wider than the terminal, never steered by what a variant says."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from bot.cli import watching
from bot.model.campaign import Campaign, Outcome, Round, Stage, StopReason
from bot.model.pull import CHECKOUT
from bot.model.reasons import ReasonCode
from bot.render import report_html, report_rows, steps, terminal
from bot.render.terminal import Meter, ansi
from tests.render import builders as a

Golden = Callable[[str, str], None]
FULL = Meter(elapsed=132.4, step=12.2, processes=7, cores_busy=1.93, cores=8, gpu_percent=87, gpu_mib=12300, left=221.0)


def searching() -> Campaign:
    """The fifth round is under way."""
    return a.searched(
        stage=Stage.OPTIMIZING, stopped=None, rounds=(*a.rounds()[:4], Round(variant=a.rounds()[4].variant))
    )


PAGES = {
    "screen.txt": lambda: "\n".join(terminal.screen(searching(), FULL, 90)),
    "screen_narrow.txt": lambda: "\n".join(terminal.screen(searching(), Meter(elapsed=3.0), 50)),
    "screen_profiling.txt": lambda: "\n".join(terminal.screen(a.requested(), Meter(elapsed=3.0, step=3.0), 90)),
    "checkpoint_profile.txt": lambda: terminal.checkpoint_text(a.profiled()),
    "checkpoint_winner.txt": lambda: terminal.checkpoint_text(a.searched()),
    "checkpoint_winner_measured.txt": lambda: terminal.checkpoint_text(a.measured()),
    "checkpoint_final.txt": lambda: terminal.checkpoint_text(a.finalized()),
    "variant.txt": lambda: terminal.variant_text(a.searched(), 3),
    "result_pushed.txt": lambda: terminal.result_text(a.pushed()),
    "result_nothing.txt": lambda: terminal.result_text(a.ended(Outcome.NOTHING_TO_DO, ReasonCode.NO_IMPROVEMENT)),
    "interrupted.txt": lambda: terminal.interrupted_text(
        searching(), "kernelwright optimize rms_norm", "kernelwright show rms_norm"
    ),
    "story.txt": lambda: terminal.story_text(a.pushed(), a.lines()),
}


@pytest.mark.parametrize(
    ("stopped", "words"),
    [
        (StopReason.IDEAS_EXHAUSTED, "nothing to do"),
        (StopReason.EFFICIENT, "nothing to do"),
        (StopReason.BUDGET_SPENT, "nothing better within the budget"),
        (StopReason.GPU_TIME_SPENT, "nothing better within the budget"),
        (StopReason.TIME_OVER, "nothing better within the budget"),
    ],
)
def test_nothing_to_do_is_said_where_nobody_had_another_idea(stopped: StopReason, words: str) -> None:
    over = a.ended(Outcome.NOTHING_TO_DO, ReasonCode.NO_IMPROVEMENT, stopped=stopped, lineage=(0,), stage=Stage.ENDED)
    assert terminal.result_text(over).startswith(f"rms_norm: {words} (no_improvement)")
    assert report_html.ending(over) == f"{words.capitalize()} (no_improvement)."
    assert steps.headline(over) == f"ended, {words}"
    assert watching.card(over).words == words


def local(**fields: Any) -> Campaign:
    """As on a checkout: there is no pull request, and nothing is pushed."""
    pull = a.PULL.model_copy(update={"number": 0, "head_repo": CHECKOUT, "base_repo": CHECKOUT})
    return a.pushed(pull=pull, **fields)


def test_a_winner_in_a_checkout_is_a_commit_on_a_branch_and_nothing_was_pushed() -> None:
    over = local(stage=Stage.ENDED)
    where = f"on branch optimize/{over.id}"
    assert terminal.result_text(over).partition("\n")[0] == f"rms_norm: committed {where}"
    assert report_html.ending(over) == f"Committed {where}."
    assert "pushed" not in terminal.story_text(over, a.lines())
    asked = report_rows.asked(over)
    assert asked is not None and ("Commit", a.PUSHED) in asked.rows
    assert not a.PULL.is_local


def test_memory_is_not_said_to_be_over_the_commit() -> None:
    rounds = a.rounds()
    verdict = rounds[2].verdict
    assert verdict is not None and verdict.score is not None
    heavy = verdict.model_copy(update={"score": verdict.score.model_copy(update={"memory": 0.5})})
    over = a.pushed(rounds=(*rounds[:2], rounds[2].model_copy(update={"verdict": heavy}), *rounds[3:]))
    assert "v3 is 1.42x (estimated) over the pinned commit, with 100 % more memory" in terminal.result_text(over)
    assert "v3 is 1.42x (estimated) over abc1234, with 100 % more memory, correct on" in report_html.headline(over)


@pytest.mark.parametrize("name", PAGES)
def test_it_reads_as_when_somebody_read_it(name: str, golden: Golden) -> None:
    golden(f"terminal/{name}", PAGES[name]() + "\n")


def stripped(text: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", text)


@pytest.mark.parametrize("width", [40, 60, 79, 120, 200])
@pytest.mark.parametrize("campaign", [searching(), a.measured(), a.requested()], ids=["static", "measured", "new"])
def test_no_line_of_the_picture_is_wider_than_the_terminal(campaign: Campaign, width: int) -> None:
    long = campaign.model_copy(update={"stage": Stage.OPTIMIZING})
    for line in terminal.screen(long, FULL, width, ansi):
        assert len(stripped(line)) <= width, line


def test_a_picture_does_not_grow_without_end() -> None:
    played = a.rounds()[1]
    rounds = tuple(
        played.model_copy(update={"variant": played.variant.model_copy(update={"number": n})}) for n in range(1, 60)
    )
    lines = terminal.screen(a.profiled(stage=Stage.OPTIMIZING, rounds=rounds), FULL, 90)
    assert len(lines) < 24
    assert "and 47 more variants" in "\n".join(lines)
    assert any(line.startswith("  v59 ") for line in lines)


EVIL = "\x1b[2J\x1b]0;owned\x07\u202ereversed\r\n\x9b31m fine"


def test_what_a_variant_says_never_steers_the_terminal() -> None:
    idea = a.rounds()[0].variant.hypothesis.model_copy(update=dict.fromkeys(("title", "why", "expected"), EVIL))
    finding = a.reject(EVIL, EVIL)
    rounds = []
    for played in a.rounds():
        variant = played.variant.model_copy(update={"hypothesis": idea, "files": a.sources(EVIL)})
        assert played.verdict is not None
        verdict = played.verdict.model_copy(update={"findings": (finding,)})
        rounds.append(played.model_copy(update={"variant": variant, "verdict": verdict}))
    hostile = a.searched(rounds=tuple(rounds), detail=EVIL)
    live = hostile.model_copy(update={"stage": Stage.OPTIMIZING})
    pages = [
        "\n".join(terminal.screen(live, FULL)),
        terminal.checkpoint_text(hostile),
        terminal.variant_text(hostile, 1),
        terminal.result_text(a.ended(Outcome.FAILED, ReasonCode.COMPUTE_FAILED, detail=EVIL)),
        terminal.story_text(hostile, a.lines()),
    ]
    for page in pages:
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", page), page
    assert "fine" in pages[0]


def test_what_is_not_known_of_the_machine_is_not_said() -> None:
    assert terminal.machine(Meter()) == ""
    assert terminal.machine(Meter(processes=2, cores=8)) == ""
    assert terminal.machine(Meter(processes=0, cores_busy=0.0, cores=8)) == ""
    assert terminal.machine(Meter(processes=1, cores_busy=0.5, cores=8)) == "1 worker process, 0.5 of 8 cores busy"
    assert terminal.machine(Meter(gpu_percent=3)) == "GPU 3 % busy"
    assert terminal.machine(Meter(left=61.4)) == "up to about 1 min 1 s left"
    assert terminal.machine(Meter(left=4.0)) == "up to about 4 s left"


def test_an_unknown_variant_is_said_to_be_unknown() -> None:
    assert terminal.variant_text(a.searched(), 77) == "there is no v77 here"


def test_memory_is_said_of_a_variant_that_was_taken_without_another_word() -> None:
    played = a.rounds()[0]
    assert played.verdict is not None and played.verdict.score is not None
    heavy = played.verdict.score.model_copy(update={"memory": 0.5})
    verdict = played.verdict.model_copy(update={"score": heavy})
    shown = terminal.table(a.searched(rounds=(played.model_copy(update={"verdict": verdict}),)))
    assert "       with 100 % more memory" in shown
