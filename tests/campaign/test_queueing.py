"""Place and time in the queue: from the ledger's own past, and never a guess."""

from __future__ import annotations

import pytest

from bot.campaign.machine import fold
from bot.campaign.queueing import LEAST_SAMPLES, MOST_SAMPLES, wait_of
from bot.campaign.spending import Told
from bot.model.campaign import Campaign, Order, Phase, Zone
from bot.model.commands import GpuChoice, Optimize
from bot.model.facts import Fact, GpuTimeSpent, JournalLine, OrderPlaced, Profiled
from bot.model.wait import Wait
from bot.render.waiting import line
from tests.campaign import story as tale


def told(name: str, at: str, *, seconds: float | None = None, known: bool = True, gpu: str = "auto") -> Told:
    """A campaign that placed a profile order at this minute; with `seconds` it is done."""
    order = Order(id=f"{name}-1-profile", campaign=name, phase=Phase.PROFILE)
    command = Optimize(kernel="rms_norm", gpu=GpuChoice(gpu))
    asked = tale.requested().model_copy(update={"campaign": name, "command": command})
    facts: list[Fact] = [asked, OrderPlaced(order=order)]
    if seconds is not None:
        facts += [
            Profiled(order=order.id, profile=tale.profile()),
            GpuTimeSpent(order=order.id, seconds=seconds, known=known),
        ]
    lines = tuple(
        JournalLine(seq=seq, at=f"2026-01-02T{at}:00Z", zone=Zone.DECIDE, fact=fact) for seq, fact in enumerate(facts)
    )
    return fold(Campaign(id=name), facts), lines


MINE = told("c50", "03:30")


def wait(*others: Told) -> Wait:
    found = wait_of(MINE[0], [MINE, *others])
    assert found is not None
    return found


def past(*seconds: float, known: bool = True, gpu: str = "auto") -> list[Told]:
    return [told(f"c{n}", f"02:{n:02d}", seconds=s, known=known, gpu=gpu) for n, s in enumerate(seconds, start=10)]


def test_with_too_few_jobs_behind_it_nothing_is_said() -> None:
    assert wait(*past(60, 90)) == Wait(phase=Phase.PROFILE, ahead=0)
    assert "cannot be said" in line(wait())
    assert wait(*past(60, 90, 120)).samples == LEAST_SAMPLES


def test_the_middle_half_of_the_last_jobs_is_what_is_said() -> None:
    found = wait(*past(60, 120, 180, 240, 300))
    assert (found.low_s, found.high_s, found.samples) == (120, 240, 5)
    assert line(found) == (
        "Handed to the runner; when this was written, no other job was before it. "
        "Expect about 2 to 4 minutes from then on, going by the last 5 profile jobs here."
    )


def test_old_jobs_lost_ones_and_those_of_other_gpus_do_not_count() -> None:
    assert wait(*past(*[9999] * 5, *[60] * MOST_SAMPLES)).high_s == 60
    assert wait(*past(60, 60, known=False)).samples == 0
    assert wait(*past(60, 60, 60, gpu="ampere")).samples == 0
    assert wait(*past(60, 60, 60, gpu="hopper")).samples == 3, "what auto means here"


def test_orders_placed_before_it_are_ahead_and_cost_their_time() -> None:
    found = wait(*past(60, 60, 60), told("c40", "03:20"), told("c60", "03:40"), told("c41", "03:10", gpu="ampere"))
    assert (found.ahead, found.low_s, found.high_s) == (1, 120, 120)
    assert "when this was written, 1 job was before it. Expect about 2 minutes from then on" in line(found)


def test_of_two_orders_of_one_moment_each_knows_its_place() -> None:
    assert wait(told("c51", "03:30")).ahead == 0
    assert wait(told("c49", "03:30")).ahead == 1


def test_a_campaign_without_an_order_waits_for_nothing() -> None:
    done = told("c50", "03:30", seconds=5)
    assert wait_of(done[0], [done]) is None
    assert line(None) == ""


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (5, 59, "less than a minute"),
        (20, 80, "at most 1 minute"),
        (40, 80, "about 1 minute"),
        (1500, 2400, "about 25 to 40 minutes"),
        (20, 600, "at most 10 minutes"),
    ],
)
def test_how_a_time_is_said(low: float, high: float, words: str) -> None:
    assert words in line(Wait(phase=Phase.PROFILE, ahead=0, samples=3, low_s=low, high_s=high))
