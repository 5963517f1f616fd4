"""Many things at once: chatter costs nothing, deliveries are one campaign, and budgets hold."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

from bot.model.campaign import Stage
from bot.model.facts import Cancelled, GpuTimeSpent, OrderFailed
from bot.model.people import Actor
from bot.model.reasons import ReasonCode
from bot.zones import publish as zone
from bot.zones.decide import decide
from tests.zones import gpu
from tests.zones.conversation import DANA, KERNEL, LEE, MIRA, NOOR, Conversation, said
from tests.zones.places import At


def test_a_hundred_comments_of_chatter_cost_neither_a_clone_nor_a_request(at: At) -> None:
    talk = at("searching")
    talk.says(LEE, "what about `v2`?")
    name, event = talk.last_event()
    payload = json.loads(event.read_text())
    settings = talk.settings("decide", (name, event), KERNELWRIGHT_TOKEN="")  # whoever asked GitHub would fail
    for number in range(100):
        payload["comment"] |= {
            "id": payload["comment"]["id"] + 1,
            "body": f"And {number} more words\n\n> /optimize cancel",
        }
        event.write_text(json.dumps(payload))
        assert decide(settings).reason_code == "no_command"
    assert not (settings.scratch / "repository.git").exists()
    assert talk.campaign.stage is Stage.OPTIMIZING


def test_five_deliveries_at_the_same_moment_make_one_campaign(at: At) -> None:
    talk = at("opened")
    talk.says(MIRA, f"/optimize {KERNEL}")
    event = talk.last_event()
    with ThreadPoolExecutor(5) as pool:
        jobs = [pool.submit(decide, talk.settings("decide", event)) for _ in range(5)]
        reports = [job.result() for job in jobs]
    assert sorted(report.reason_code for report in reports) == ["accepted", *["duplicate_event"] * 4]
    assert len(talk.journals) == 1 and len(talk.campaign.orders) == 1
    assert sum("posted twice" not in answer for answer in talk.answers()) == 1


def test_a_cancel_that_arrives_while_a_segment_is_joined_is_heard(at: At) -> None:
    """The segment was checked against a campaign that had not been cancelled yet."""
    talk = at("searching")
    facts = gpu.searched(talk.campaign)
    believed = zone._joined
    cancelled: list[bool] = []

    def then_somebody_cancels(*arguments: object) -> object:
        taken = believed(*arguments)  # type: ignore[arg-type]
        if not cancelled:
            cancelled.append(True)
            talk.writes_down(Cancelled(actor=Actor(id=talk.hub.user_id(MIRA), login=MIRA), comment_id=9))
        return taken

    zone._joined = then_somebody_cancels  # type: ignore[assignment]
    try:
        report = talk.publishes(talk.leaves(facts))
    finally:
        zone._joined = believed
    assert (report.reason_code, report.stage) == ("cancelled_by_user", Stage.ENDED)
    campaign = talk.campaign
    assert (campaign.rounds, campaign.ignored) == ((), ()), "what nobody waits for is not even written down"
    assert len(campaign.spent) == 2, "but it is paid for"
    assert not any("Take it?" in answer for answer in talk.answers())


# GPU minutes


def spends(talk: Conversation, minutes: float) -> None:
    """The first order of the open campaign took so long, and failed."""
    order = talk.campaign.orders[0]
    lost = OrderFailed(order=order, reason=ReasonCode.COMPUTE_FAILED, detail="the GPU fell off")
    talk.writes_down(GpuTimeSpent(order=order, seconds=60 * minutes), lost)
    talk.publishes()


def test_a_day_s_gpu_minutes_are_one_person_s_over_all_pull_requests(at: At) -> None:
    talk = at("profiling")
    spends(talk, 360)
    talk.pushes(DANA, "# another\n", branch="other", path="notes.md")
    number = talk.hub.open_pull(DANA, "other", "main", "Another one")
    assert said(talk.asks(MIRA, f"/optimize {KERNEL}", number)) == ("acted", "accepted", "measure")
    # What runs counts as if it took all it may: 360 and 120 are the 480 of a day.
    assert said(talk.asks(MIRA, f"/optimize {KERNEL}")) == ("refused", "budget_exceeded", "none")
    answer = talk.answers()[-1]
    assert "480 of 480 GPU minutes today are used" in answer and "00:00 UTC" in answer
    assert talk.asks(NOOR, f"/optimize {KERNEL}").reason_code == "accepted", "everybody has their own"


def test_who_cancels_just_before_the_end_has_used_the_machine_too(at: At) -> None:
    talk = at("profiling")
    talk.asks(MIRA, "/optimize cancel")
    ((order, seconds),) = talk.campaign.spent
    assert order == talk.campaign.orders[0]
    assert 0 <= seconds <= 60 * talk.campaign.policy.max_gpu_minutes
