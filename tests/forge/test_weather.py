"""Bad days at GitHub, from end to end: what we write stands there once, and nobody is asked too often."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path

import pytest

from bot.errors import ForgeError
from bot.forge.calls import CallFailed
from bot.forge.client import Forge
from bot.forge.threads import keep, marker, say_once
from bot.localhub.server import Hub
from bot.localhub.weather import (
    CREATIONS_A_MINUTE,
    Gusts,
    Moment,
    Quota,
    in_trouble,
    primary_limit,
    secondary_limit,
    too_many,
)
from bot.localhub.wire import Handler, Request, Response, as_json

DOCUMENTS = Path(__file__).parents[1] / "golden" / "graphql"
NOON = 1_767_355_200
"""2026-01-02T12:00:00Z"""
MARKED = f"{marker('c1/status')}\n\nhello"


@pytest.fixture(autouse=True)
def noon(monkeypatch: pytest.MonkeyPatch) -> None:
    """GitHub's clock stands still, and so does what is left of an hour's quota by it."""
    monkeypatch.setattr(Handler, "date_time_string", lambda *_: formatdate(NOON, usegmt=True))


class First:
    """Answers the first request that this method and end of a path fit, in place of the hub."""

    def __init__(self, method: str, end: str, answer: Callable[[], Response], moment: Moment = "before") -> None:
        self._wanted, self._answer, self.bodies = (moment, method, end), answer, list[bytes]()
        self._met = False

    def __call__(self, moment: Moment, request: Request) -> Response | None:
        wanted = (moment, request.method) == self._wanted[:2] and request.path.endswith(self._wanted[2])
        self.bodies += [request.body] * wanted
        if not wanted or self._met:
            return None
        self._met = True
        return self._answer()


def calls(hub: Hub, method: str, end: str) -> int:
    return sum(seen.method == method and seen.path.endswith(end) for seen in hub.seen)


# Storms


@pytest.mark.parametrize("seed", range(2))
def test_in_a_storm_everything_is_said_once(hub: Hub, forge: Forge, seed: int) -> None:
    """A job that gives up is started again, as a person or reconcile would."""
    random.seed(seed)
    hub.inject(Gusts(random.Random(seed), 0.35, longest=6))
    head = hub.world.pulls()[0][1].head
    gave_up = 0
    for number in range(12):
        for _ in range(20):
            try:
                made = say_once(forge, 1, f"c{number}/result", f"result {number}")
                keep(forge, 1, "c0/status", f"after {number}")
                forge.react(made, "eyes")
                forge.minimize(made, "OUTDATED")
                forge.set_status(head, "pending", "kernelwright/a", f"after {number}")
                forge.unreact(made, "eyes")
                break
            except ForgeError:
                gave_up += 1
        else:
            pytest.fail(f"seed {seed}: {number} was never said")
    hub.inject(None)
    bodies = [comment["body"].partition("\n\n")[2] for comment in hub.comments(1)]
    assert sorted(bodies) == sorted(["after 11", *(f"result {number}" for number in range(12))])
    results = [comment for comment in hub.comments(1) if comment["body"].endswith(tuple(map(str, range(12))))]
    assert [c["minimized"] for c in results if "result" in c["body"]] == [{"reason": "outdated"}] * 12
    assert [status.description for status in hub.world.statuses] == [f"after {number}" for number in range(12)]
    assert not hub.world.reactions
    assert gave_up < 60


def test_a_quota_is_waited_out_and_nothing_is_said_twice(hub: Hub, forge: Forge, slept: list[float]) -> None:
    hub.inject(Quota(now=lambda: sum(slept)))
    for number in range(CREATIONS_A_MINUTE + 20):
        forge.post_comment(1, f"{marker(f'c1/{number}')}\n\n{number}")
    assert slept == [61.0]
    assert [c["body"].partition("\n\n")[2] for c in hub.comments(1)] == [str(n) for n in range(CREATIONS_A_MINUTE + 20)]


# How long is waited


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("answer", "wait"),
    [
        (lambda: secondary_limit(7), 7.0),
        (lambda: too_many(9), 9.0),
        (secondary_limit, 60.0),
        (too_many, 60.0),
        (lambda: primary_limit(NOON + 30), 31.0),
        (lambda: primary_limit(NOON - 30), 1.0),
    ],
)
def test_each_limit_is_waited_for_as_long_as_it_asks(
    hub: Hub, forge: Forge, slept: list[float], method: str, answer: Callable[[], Response], wait: float
) -> None:
    hub.inject(First(method, "/issues/1/comments", answer))
    if method == "GET":
        assert forge.comments(1) == ()
    else:
        forge.post_comment(1, "even without a marker: it was certainly not made")
    assert slept == [wait]
    assert calls(hub, method, "/issues/1/comments") == 2


def test_a_quota_that_is_long_used_up_ends_the_job_with_the_time(hub: Hub, forge: Forge, slept: list[float]) -> None:
    hub.inject(First("GET", "/pulls/1", lambda: primary_limit(NOON + 1800)))
    with pytest.raises(CallFailed) as caught:
        forge.pull(1)
    assert slept == []
    assert "limits how often" in caught.value.hint
    assert "in 1801 s or later" in caught.value.hint


def test_a_graphql_limit_is_a_limit(hub: Hub, forge: Forge, slept: list[float]) -> None:
    made = forge.post_comment(1, MARKED)
    said = {"errors": [{"type": "RATE_LIMITED", "message": "API rate limit exceeded for installation ID 1."}]}
    hub.inject(First("POST", "/graphql", lambda: as_json(200, said)))
    forge.minimize(made)
    assert slept == [60.0]
    assert hub.world.comments[made].minimized == "outdated"


# GraphQL


@pytest.mark.parametrize("why", ["OUTDATED", "RESOLVED"])
def test_the_document_we_send(hub: Hub, forge: Forge, why: str) -> None:
    made = forge.post_comment(1, MARKED)
    sent = First("POST", "/api/graphql", lambda: in_trouble(503), moment="after")
    hub.inject(sent)
    forge.minimize(made, why)  # type: ignore[arg-type]
    golden = (DOCUMENTS / "minimizeComment.graphql").read_text().rstrip("\n")
    node = hub.comments(1)[0]["node_id"]
    body = {"query": golden, "variables": {"input": {"subjectId": node, "classifier": why}}}
    assert [json.loads(body) for body in sent.bodies] == [body, body], "sent again: folding twice is folding once"
    assert hub.comments(1)[0]["minimized"] == {"reason": why.lower()}


def test_what_is_folded_already_costs_no_mutation(hub: Hub, forge: Forge) -> None:
    made = forge.post_comment(1, MARKED)
    forge.minimize(made)
    forge.minimize(made)
    assert calls(hub, "POST", "/graphql") == 1


def test_an_error_of_graphql_says_what_github_said(hub: Hub, forge: Forge) -> None:
    made = forge.post_comment(1, MARKED)
    with pytest.raises(CallFailed) as caught:
        forge.minimize(made, "BORING")  # type: ignore[arg-type]
    assert "BORING" in str(caught.value)
    assert hub.world.comments[made].minimized == ""
